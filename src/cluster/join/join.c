/* join.c - runs a joiner: join_state on an endpoint and a loop. */
#include "cluster/join/join.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "cluster/addresses.h"
#include "cluster/join/join_state.h"
#include "cluster/listen.h"

static const uint64_t LEAVE_NS = UINT64_C(2000000000);
/* Time for the last frames of a join that has failed. */
static const uint64_t DRAIN_NS = UINT64_C(1000000000);

struct nx_join {
    nx_join_config config;
    nx_join_string seed; /* the token is wiped once the state has it */
    char seed_text[NX_SEED_ADDRESSES_MAX * NX_ADDRESS_TEXT];
    char *qlog_dir; /* owned: the endpoint borrows it */
    nx_identity *identity;
    nx_inet *net;
    nx_link *link; /* to the seed; NULL: no link now */
    nx_join_state *state;
    nx_timer timer, leave_timer;
    nx_task broken; /* reports a dial or a send that failed immediately */
    nexar_err broken_err;
    char broken_why[NX_ERROR_ROOM];
    nx_event settled;          /* formed or failed */
    bool formed, gone;         /* and on_view was called */
    bool there;                /* the seed's last reported state */
    uint64_t waiting, started; /* the version and the epoch reported last */
    nx_event *leave_done;      /* held while leaving */
};

static nx_join *from_timer(nx_timer *timer)
{
    return (nx_join *)(void *)((char *)timer - offsetof(nx_join, timer));
}

static nx_join *from_leave_timer(nx_timer *timer)
{
    return (nx_join *)(void *)((char *)timer - offsetof(nx_join, leave_timer));
}

static nx_join *from_task(nx_task *task)
{
    return (nx_join *)(void *)((char *)task - offsetof(nx_join, broken));
}

/* ---- after every event --------------------------------------------------------------- */

static void left(nx_join *j)
{
    nx_loop_timer_cancel(j->config.loop, &j->leave_timer);
    if (j->leave_done != NULL) {
        nx_event_set(j->config.loop, j->leave_done);
        j->leave_done = NULL;
    }
}

static void close_link(nx_join *j)
{
    if (j->link != NULL) {
        nx_link_close(j->link, false);
        j->link = NULL;
    }
}

/* Reports that the seed is away, or is back. */
static void tell_seed(nx_join *j)
{
    const bool there = nx_join_state_there(j->state), leaving = (j->leave_done != NULL);
    const char *why;

    if (nx_join_state_hung_up(j->state)) {
        close_link(j);
    }
    if (nx_join_state_phase(j->state) == NX_JOIN_GONE) {
        close_link(j);
        j->gone = true;
        left(j);
    }
    if (j->there == there) {
        return;
    }
    j->there = there;
    (void)nx_join_state_error(j->state, &why);
    if (!leaving && (j->config.on_seed != NULL)) {
        j->config.on_seed(j->config.ctx, there, there ? "" : why);
    }
}

static void tell_changes(nx_join *j)
{
    const nx_join_queue *waiting = nx_join_state_waiting(j->state);
    const uint64_t started = nx_join_state_started(j->state);

    if (j->waiting != waiting->version) {
        j->waiting = waiting->version;
        if (j->config.on_waiting != NULL) {
            j->config.on_waiting(j->config.ctx, waiting->n);
        }
    }
    if (j->started != started) {
        j->started = started;
        if (j->config.on_started != NULL) {
            j->config.on_started(j->config.ctx, started);
        }
    }
}

/* The world has formed, or has changed. */
static void tell_member(nx_join *j)
{
    if (!j->formed) {
        j->formed = j->there = true;
        j->started = nx_join_state_started(j->state);
        nx_event_set(j->config.loop, &j->settled);
        if (j->config.on_view != NULL) {
            j->config.on_view(j->config.ctx, j);
        }
    }
    tell_seed(j);
    tell_changes(j);
}

/* Comes before this process dials members, and before they know of it: divides the receive buffers
 * among all peers. */
static void divide(const nx_join *j)
{
    nx_inet_set_peers(j->net, nx_join_state_peers(j->state));
}

/* Acts on the phase after an event. */
static void settle(nx_join *j)
{
    const uint64_t due = nx_join_state_due(j->state);
    uint32_t rank;

    divide(j);
    if (due == UINT64_MAX) {
        nx_loop_timer_cancel(j->config.loop, &j->timer);
    } else if (nx_loop_timer_set(j->config.loop, &j->timer, due) != NEXAR_OK) {
        nx_log(NX_LOG_ERROR, "joining: no memory for its timer: no time-out is kept");
    }
    if (nx_join_state_view(j->state, &rank) != NULL) {
        tell_member(j);
    } else if (nx_join_state_phase(j->state) == NX_JOIN_FAILED) {
        nx_event_set(j->config.loop, &j->settled);
    } else if (nx_join_state_hung_up(j->state)) {
        close_link(j);
    }
}

static void on_expire(nx_timer *timer, uint64_t now_ns)
{
    nx_join *j = from_timer(timer);

    nx_join_state_tick(j->state, now_ns);
    settle(j);
}

/* ---- the link to the seed ------------------------------------------------------------ */

static void on_up(void *ctx, nx_link *link)
{
    nx_join *j = ctx;
    const uint64_t now = nx_loop_now(j->config.loop);
    uint8_t exporter[32];

    if (nx_inet_link_export(link, NX_JOIN_EXPORTER, exporter) != NEXAR_OK) {
        nx_join_state_closed(j->state, NEXAR_EPROTO, false, nexar_last_error(), now);
    } else {
        nx_join_state_connected(j->state, exporter, now);
    }
    explicit_bzero(exporter, sizeof(exporter));
    settle(j);
}

static void on_frame(void *ctx, nx_link *link, nx_lane lane, const void *data, size_t len)
{
    nx_join *j = ctx;
    const uint64_t now = nx_loop_now(j->config.loop);

    (void)link;
    if (lane == NX_LANE_CONTROL) {
        nx_join_state_frame(j->state, data, len, now);
    } else {
        nx_join_state_closed(j->state, NEXAR_EPROTO, false, "it sent a message", now);
    }
    settle(j);
}

static void on_data(void *ctx, nx_link *link, uint64_t id, uint64_t off, const void *data,
                    size_t len)
{
    nx_join *j = ctx;

    (void)link;
    (void)id;
    (void)off;
    (void)data;
    (void)len;
    nx_join_state_closed(j->state, NEXAR_EPROTO, false, "it sent a message",
                         nx_loop_now(j->config.loop));
    settle(j);
}

static void on_down(void *ctx, nx_link *link, nexar_err err, const char *why)
{
    nx_join *j = ctx;
    const bool ended = (link->ended != NX_END_LOST), unreached = nx_inet_link_unreached(link);
    const uint64_t now = nx_loop_now(j->config.loop);

    nx_link_close(link, false);
    j->link = NULL;
    if (unreached) {
        nx_join_state_unreached(j->state, why, now);
    } else {
        nx_join_state_closed(j->state, err, ended, why, now);
    }
    settle(j);
}

/* The transport is chosen. */
static void on_moved(void *ctx, nx_link *link, nx_link *to)
{
    nx_join *j = ctx;

    (void)link;
    j->link = to;
}

static const nx_link_up seed_up = {.on_up = on_up,
                                   .on_frame = on_frame,
                                   .on_data = on_data,
                                   .on_sent = nx_link_sent_ignored,
                                   .on_down = on_down,
                                   .on_moved = on_moved};

/* ---- actions of the state ------------------------------------------------------------ */

static void run_broken(nx_task *task)
{
    nx_join *j = from_task(task);

    close_link(j);
    nx_join_state_closed(j->state, j->broken_err, false, j->broken_why,
                         nx_loop_now(j->config.loop));
    settle(j);
}

/* Reports to the state later: it is processing an event. */
static void report_broken(nx_join *j, nexar_err err)
{
    j->broken_err = err;
    (void)snprintf(j->broken_why, sizeof(j->broken_why), "%s", nexar_last_error());
    nx_loop_defer(j->config.loop, &j->broken);
}

static void act_dial(void *ctx)
{
    nx_join *j = ctx;
    const nx_quic_target target = {
        .pin = j->seed.pin, .addresses = j->seed.addresses, .n = j->seed.naddresses};
    nexar_err err = nx_inet_dial(j->net, &target, &seed_up, j, &j->link);

    if (err != NEXAR_OK) {
        j->link = NULL;
        report_broken(j, err);
    }
}

static void act_send(void *ctx, const void *frame, size_t len)
{
    nx_join *j = ctx;
    const nx_bytes bytes = {.ptr = frame, .len = len};

    if (j->link != NULL) {
        nexar_err err = nx_link_send_frame(j->link, NX_LANE_CONTROL, &bytes, 1);

        if (err != NEXAR_OK) {
            report_broken(j, err);
        }
    }
}

/* The authority's key must be the key that the join string pins, which is also the peer's key.
 * Then the authority's signature proves the name of this process. */
static nexar_err act_adopt(void *ctx, const nx_welcome *welcome)
{
    nx_join *j = ctx;
    uint64_t member;
    nx_pin pin;
    nx_job_id job;
    nexar_err err = nx_cert_pin(&welcome->authority, &pin);

    if (err != NEXAR_OK) {
        return err;
    }
    if (memcmp(&pin, &j->seed.pin, sizeof(pin)) != 0) {
        return nx_fail(NEXAR_EAUTH, "the key of its authority does not match the pin");
    }
    err = nx_identity_adopt(j->identity, &welcome->cert, &welcome->authority);
    err = (err == NEXAR_OK) ? nx_cert_names(&welcome->cert, &job, &member) : err;
    if (err != NEXAR_OK) {
        return err;
    }
    if ((member != welcome->member) || (memcmp(&job, &welcome->job, sizeof(job)) != 0)) {
        return nx_fail(NEXAR_EAUTH, "it names another member or job");
    }
    return nx_inet_set_identity(j->net, j->identity, &job);
}

static void act_farewell(void *ctx, uint64_t member, nx_farewell how)
{
    const nx_join *j = ctx;

    if (j->config.on_farewell != NULL) {
        j->config.on_farewell(j->config.ctx, member, how);
    }
}

static void act_report(void *ctx, const char *text)
{
    (void)ctx;
    nx_log(NX_LOG_WARN, "%s", text);
}

static const nx_join_ops ops = {.dial = act_dial,
                                .send = act_send,
                                .adopt = act_adopt,
                                .report = act_report,
                                .farewell = act_farewell};

/* ---- joining ------------------------------------------------------------------------- */

static void on_accept(void *ctx, nx_link *link, uint64_t member)
{
    nx_join *j = ctx;

    if (nx_join_state_peer(j->state, member) || j->formed) {
        settle(j);
    }
    j->config.on_accept(j->config.ctx, link, member);
}

static nexar_err open_endpoint(nx_join *j, nx_member *self)
{
    nx_inet_config config = {.quic = {.loop = j->config.loop,
                                      .random = &nx_random_system,
                                      .idle_timeout_ns = j->config.idle_timeout_ns,
                                      .congestion = j->config.congestion,
                                      .qlog_dir = j->qlog_dir,
                                      .on_accept = on_accept,
                                      .ctx = j},
                             .allowed = j->config.allowed};
    nexar_err err =
        nx_listen_parse(j->config.listen, j->config.port_first, j->config.port_last, &config.quic);

    err = (err == NEXAR_OK) ? nx_inet_open(&j->net, &config) : err;
    if (err != NEXAR_OK) {
        return err;
    }
    return nx_listen_addresses(&config.quic, nx_inet_port(j->net), j->config.interfaces,
                               j->config.advertise, self->addresses, NX_ADDRESSES_MAX,
                               &self->naddresses);
}

static void describe_seed(nx_join *j)
{
    size_t len = 0;

    for (size_t i = 0; i < j->seed.naddresses; i++) {
        char text[NX_ADDRESS_TEXT];
        int n = snprintf(j->seed_text + len, sizeof(j->seed_text) - len, "%s%s",
                         (i == 0) ? "" : ", ", nx_address_text(&j->seed.addresses[i], text));

        len += (size_t)n; /* it fits: NX_ADDRESS_TEXT exceeds the length of any address */
    }
}

/* Everything up to the first attempt to connect. */
static nexar_err start(nx_join *j)
{
    nx_join_rules rules = {.seed = j->seed_text,
                           .timeout_ns = j->config.formation_timeout_ns,
                           .report_ns = j->config.stall_report_ns,
                           .random = &nx_random_system};
    nexar_err err = nx_join_string_parse(j->config.join, &j->seed);

    if (err != NEXAR_OK) {
        return err;
    }
    describe_seed(j);
    (void)snprintf(rules.hello.software, sizeof(rules.hello.software), "%s", nexar_version());
    rules.hello.world_size = j->config.world_size;
    rules.hello.self.rank = j->config.rank;
    rules.hello.hinted = (j->config.launcher != NULL);
    rules.launcher = j->config.launcher;
    nx_member_self(&rules.hello.self, j->config.host_id);
    if (j->config.nlocal > 0) {
        memcpy(rules.hello.self.local, j->config.local, j->config.nlocal);
        rules.hello.self.nlocal = j->config.nlocal;
    }
    if (j->config.qlog_dir != NULL) {
        j->qlog_dir = nx_strdup(j->config.qlog_dir);
        err = (j->qlog_dir == NULL) ? nx_fail_nomem("qlog_dir") : NEXAR_OK;
    }
    err = (err == NEXAR_OK) ? nx_identity_create(&j->identity) : err;
    err = (err == NEXAR_OK) ? nx_identity_request(j->identity, &rules.csr) : err;
    err = (err == NEXAR_OK) ? open_endpoint(j, &rules.hello.self) : err;
    if (err == NEXAR_OK) {
        rules.token = j->seed.token;
        err = nx_join_state_create(&j->state, &rules, &ops, j, nx_loop_now(j->config.loop));
    }
    explicit_bzero(&j->seed.token, sizeof(j->seed.token));
    explicit_bzero(&rules.token, sizeof(rules.token));
    explicit_bzero(rules.hello.self.local, sizeof(rules.hello.self.local));
    return err;
}

/* Sends the last frames of a failed join before the endpoint closes. */
static void close_seed(nx_join *j)
{
    const uint64_t by_ns = nx_loop_now(j->config.loop) + DRAIN_NS;

    if (j->link == NULL) {
        return;
    }
    nx_link_close(j->link, true);
    j->link = NULL;
    for (int stage = 0; stage < NX_INET_STAGES; stage++) {
        nx_event drained = {0};

        nx_inet_drain(j->net, stage, &drained);
        (void)nx_loop_wait(j->config.loop, &drained, by_ns);
        nx_inet_drain(j->net, stage, NULL);
    }
}

nexar_err nx_join_run(nx_join **out, const nx_join_config *config)
{
    nx_join *j = nx_zalloc(sizeof(*j));
    const char *text = NULL;
    nexar_err err;

    if (j == NULL) {
        return nx_fail_nomem("joining");
    }
    j->config = *config;
    j->timer.on_expire = on_expire;
    nx_task_init(&j->broken, run_broken);
    (void)nx_loop_refresh(config->loop);
    err = start(j);
    if (err == NEXAR_OK) {
        settle(j);
        (void)nx_loop_wait(config->loop, &j->settled, UINT64_MAX);
        if (nx_join_state_phase(j->state) == NX_JOIN_FAILED) {
            err = nx_join_state_error(j->state, &text);
        }
    }
    if (err != NEXAR_OK) {
        if (text != NULL) {
            close_seed(j);
            err = nx_fail(err, "%s", text);
        }
        if (config->on_failed != NULL) {
            config->on_failed(config->ctx);
        }
        nx_join_destroy(j);
        return err;
    }
    *out = j;
    return NEXAR_OK;
}

nx_inet *nx_join_endpoint(const nx_join *j)
{
    return j->net;
}

const nx_view *nx_join_view(const nx_join *j)
{
    uint32_t rank;

    return nx_join_state_view(j->state, &rank);
}

uint32_t nx_join_rank(const nx_join *j)
{
    uint32_t rank = NX_RANK_ANY;

    (void)nx_join_state_view(j->state, &rank);
    return rank;
}

uint32_t nx_join_waiting(const nx_join *j, nx_writer *w, uint32_t max)
{
    return nx_join_queue_encode(nx_join_state_waiting(j->state), w, max);
}

nexar_err nx_join_advance(nx_join *j, const nx_rankset *gone, const nx_member *joined, uint32_t n,
                          uint32_t world)
{
    nexar_err err = nx_join_state_advance(j->state, gone, joined, n, world);

    if (err == NEXAR_OK) {
        divide(j);
        tell_changes(j);
    }
    return err;
}

void nx_join_urge(nx_join *j)
{
    nx_join_state_urge(j->state);
    settle(j);
}

bool nx_join_missed(nx_join *j, uint64_t member, bool ended)
{
    return nx_join_state_missed(j->state, member, ended);
}

/* ---- leaving ------------------------------------------------------------------------- */

static void on_leave_late(nx_timer *timer, uint64_t now_ns)
{
    (void)now_ns;
    left(from_leave_timer(timer));
}

void nx_join_leave(nx_join *j, nx_event *done)
{
    j->leave_done = done;
    j->leave_timer.on_expire = on_leave_late;
    nx_join_state_leave(j->state);
    settle(j);
    if (j->gone || (nx_loop_timer_set(j->config.loop, &j->leave_timer,
                                      nx_loop_now(j->config.loop) + LEAVE_NS) != NEXAR_OK)) {
        left(j);
    }
}

void nx_join_destroy(nx_join *j)
{
    nx_loop_timer_cancel(j->config.loop, &j->timer);
    nx_loop_timer_cancel(j->config.loop, &j->leave_timer);
    nx_loop_undefer(&j->broken);
    nx_inet_close(j->net);
    nx_join_state_destroy(j->state);
    nx_identity_destroy(j->identity);
    nx_free(j->qlog_dir);
    nx_free(j);
}
