/* seed.c - runs the seed: seed_state on an endpoint, with a thread. */
#include "cluster/seed/seed.h"

#include <errno.h>
#include <gnutls/gnutls.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/log_limit.h"
#include "base/os/cancellation.h"
#include "cluster/addresses.h"
#include "cluster/listen.h"
#include "cluster/seed/seed_file.h"
#include "cluster/seed/seed_state.h"
#include "loop/loop.h"
#include "transport/inet/inet.h"

/* A killed member is detected by its silence: it answers a ping every third of this time. */
static const uint64_t IDLE_NS = UINT64_C(10000000000);
/* Certificates must be valid as long as any job runs. */

/* All fields except |ended|, which has its own lock, belong to the loop. */
struct nx_seed {
    nx_seed_config config;
    nx_authority *authority;
    nx_join_string join;
    nx_loop *loop;
    nx_inet *net;
    nx_seed_state *state;
    nx_timer timer;
    nx_list conns;
    char *qlog_dir;        /* owned: the endpoint borrows it */
    char *state_path;      /* NULL: this seed is not lasting */
    bool saved_badly;      /* the last save failed */
    nx_log_limit troubles; /* connections of joiners and members */
    nx_event stop;
    pthread_t thread;
    bool running;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool ended;
};

/* A connection: the argument of the link's upcalls. */
typedef struct conn {
    nx_list in_all;
    nx_seed *seed;
    nx_link *link;
    nx_seed_client *client; /* NULL before the link is up */
    uint64_t certified;     /* the member that its certificate names; 0: none */
} conn;

static void forget(conn *c)
{
    nx_list_remove(&c->in_all);
    nx_free(c);
}

/* ---- actions of the state ------------------------------------------------------------ */

static nexar_err act_send(void *ctx, void *to, const void *frame, size_t len)
{
    const conn *c = to;
    const nx_bytes bytes = {.ptr = frame, .len = len};

    (void)ctx;
    return nx_link_send_frame(c->link, NX_LANE_CONTROL, &bytes, 1);
}

static void act_close(void *ctx, void *which)
{
    conn *c = which;

    (void)ctx;
    nx_link_close(c->link, true);
    forget(c);
}

static nexar_err act_sign(void *ctx, const nx_der *csr, uint64_t member, nx_der *cert)
{
    const nx_seed *s = ctx;

    return nx_authority_sign(s->authority, csr, member, cert);
}

void nx_seed_log(const nx_seed_event *event)
{
    static const nx_log_level levels[] = {
        [NX_SEED_JOINED] = NX_LOG_INFO,  [NX_SEED_FORMED] = NX_LOG_INFO,
        [NX_SEED_LEFT] = NX_LOG_INFO,    [NX_SEED_LOST] = NX_LOG_WARN,
        [NX_SEED_REFUSED] = NX_LOG_WARN, [NX_SEED_TIMEOUT] = NX_LOG_WARN,
        [NX_SEED_STALLED] = NX_LOG_WARN, [NX_SEED_WAITING] = NX_LOG_INFO,
        [NX_SEED_CHANGED] = NX_LOG_INFO, [NX_SEED_BACK] = NX_LOG_INFO,
        [NX_SEED_ENDED] = NX_LOG_INFO};

    nx_log(levels[event->kind], "seed: %s", event->text);
}

static void act_notify(void *ctx, const nx_seed_event *event)
{
    nx_seed *s = ctx;

    if (s->config.on_event != NULL) {
        s->config.on_event(s->config.ctx, event); /* the listener logs the event itself */
    } else {
        nx_seed_log(event);
    }
    if ((event->kind == NX_SEED_ENDED) && !s->config.keep) {
        (void)pthread_mutex_lock(&s->lock);
        s->ended = true;
        (void)pthread_cond_broadcast(&s->changed);
        (void)pthread_mutex_unlock(&s->lock);
    }
}

static nexar_err write_state(const nx_seed *s)
{
    nx_seed_file f = {.authority = s->authority,
                      .token = s->join.token,
                      .port = nx_inet_port(s->net),
                      .world_size = s->config.world_size};
    nexar_err err;

    nx_seed_state_memory(s->state, &f.memory);
    err = nx_seed_file_write(s->state_path, &f);
    explicit_bzero(&f, sizeof(f));
    return err;
}

/* If saving fails the seed continues: members report what a restarted seed lacks. */
static nexar_err act_save(void *ctx)
{
    nx_seed *s = ctx;
    const nexar_err err = write_state(s);

    if ((err != NEXAR_OK) && !s->saved_badly) {
        nx_log(NX_LOG_ERROR, "seed: its state is not saved: %s", nexar_last_error());
    }
    s->saved_badly = (err != NEXAR_OK);
    return err;
}

static const nx_seed_ops ops = {
    .send = act_send, .close = act_close, .sign = act_sign, .notify = act_notify, .save = act_save};

/* ---- events -------------------------------------------------------------------------- */

static void set_timer(nx_seed *s)
{
    const uint64_t due = nx_seed_state_due(s->state);

    if (due == UINT64_MAX) {
        nx_loop_timer_cancel(s->loop, &s->timer);
    } else if (nx_loop_timer_set(s->loop, &s->timer, due) != NEXAR_OK) {
        nx_log(NX_LOG_ERROR, "seed: no memory for its timer: time-outs are late");
    }
}

static void on_expire(nx_timer *timer, uint64_t now_ns)
{
    nx_seed *s = (nx_seed *)(void *)((char *)timer - offsetof(nx_seed, timer));

    nx_seed_state_tick(s->state, now_ns);
    set_timer(s);
}

/* From here on the state knows the connection. */
static void on_up(void *ctx, nx_link *link)
{
    conn *c = ctx;
    nx_seed *s = c->seed;
    struct sockaddr_storage address;
    char text[NX_ADDRESS_TEXT];
    nx_seed_caller caller = {.conn = c, .address = text, .certified = c->certified};
    nexar_err err = nx_inet_link_export(link, NX_JOIN_EXPORTER, caller.exporter);

    nx_inet_link_address(link, &address);
    (void)nx_address_text(&address, text);
    if (err == NEXAR_OK) {
        err = nx_seed_state_connected(s->state, &caller, nx_loop_now(s->loop), &c->client);
    }
    explicit_bzero(&caller, sizeof(caller));
    if (err != NEXAR_OK) {
        nx_log_limited(&s->troubles, nx_loop_now(s->loop), NX_LOG_WARN,
                       "seed: %s cannot be served: %s", text, nexar_last_error());
        nx_link_close(link, false);
        forget(c);
        return;
    }
    set_timer(s);
}

static void on_frame(void *ctx, nx_link *link, nx_lane lane, const void *data, size_t len)
{
    conn *c = ctx; /* the state may free it by rejecting it */
    nx_seed *s = c->seed;

    (void)link;
    if (lane == NX_LANE_CONTROL) {
        nx_seed_state_frame(s->state, c->client, data, len, nx_loop_now(s->loop));
    } else {
        nx_seed_state_misbehaved(s->state, c->client, "it sent a message", nx_loop_now(s->loop));
    }
    set_timer(s);
}

static void on_data(void *ctx, nx_link *link, uint64_t id, uint64_t off, const void *data,
                    size_t len)
{
    conn *c = ctx;
    nx_seed *s = c->seed;

    (void)link;
    (void)id;
    (void)off;
    (void)data;
    (void)len;
    nx_seed_state_misbehaved(s->state, c->client, "it sent a message", nx_loop_now(s->loop));
    set_timer(s);
}

static void on_down(void *ctx, nx_link *link, nexar_err err, const char *why)
{
    conn *c = ctx;
    nx_seed *s = c->seed;

    const bool ended = (link->ended != NX_END_LOST);

    (void)err;
    nx_link_close(link, false);
    if (c->client != NULL) {
        nx_seed_state_closed(s->state, c->client, ended, why, nx_loop_now(s->loop));
    }
    forget(c);
    set_timer(s);
}

static const nx_link_up client_up = {.on_up = on_up,
                                     .on_frame = on_frame,
                                     .on_data = on_data,
                                     .on_sent = nx_link_sent_ignored,
                                     .on_down = on_down};

static void on_accept(void *ctx, nx_link *link, uint64_t member)
{
    nx_seed *s = ctx;
    conn *c = nx_zalloc(sizeof(*c));

    if (c == NULL) {
        nx_log_limited(&s->troubles, nx_loop_now(s->loop), NX_LOG_WARN,
                       "seed: no memory for a connection");
        nx_link_close(link, false);
        return;
    }
    nx_list_push_back(&s->conns, &c->in_all);
    c->seed = s;
    c->link = link;
    c->certified = member; /* a returning member shows its certificate; others must send HELLO */
    link->up = &client_up;
    link->up_ctx = c;
}

/* ---- life ---------------------------------------------------------------------------- */

static void *run(void *ctx)
{
    nx_seed *s = ctx;

    (void)nx_cancellation_disable();
    nx_loop_lock(s->loop);
    (void)nx_loop_wait(s->loop, &s->stop, UINT64_MAX);
    nx_loop_unlock(s->loop);
    return NULL;
}

/* A thread that blocks all signals: they belong to the application. */
static nexar_err start_thread(nx_seed *s)
{
    sigset_t all, before;
    int code;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    code = pthread_create(&s->thread, NULL, run, s);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    s->running = (code == 0);
    return nx_fail_sys("pthread_create", "for the seed", code);
}

static nexar_err make_authority(nx_seed *s)
{
    nx_job_id job;
    nexar_err err;

    nx_random_fill(&nx_random_system, &job, sizeof(job));
    if (s->config.has_token) {
        s->join.token = s->config.token;
    } else {
        nx_random_fill(&nx_random_system, &s->join.token, sizeof(s->join.token));
    }
    err = (s->config.key == NULL)
              ? nx_authority_create(&s->authority, &job)
              : nx_authority_create_with(&s->authority, &job, s->config.key, s->config.key_len);
    if (err == NEXAR_OK) {
        nx_authority_pin(s->authority, &s->join.pin);
    }
    return err;
}

/* Checks that s->config.key is the key of |a|.  NEXAR_EINVAL */
static nexar_err check_key(const nx_seed *s, const nx_authority *a)
{
    nx_authority *given = NULL;
    nx_pin ours, its;
    nexar_err err;

    if (s->config.key == NULL) {
        return NEXAR_OK;
    }
    err = nx_authority_create_with(&given, nx_authority_job(a), s->config.key, s->config.key_len);
    if (err != NEXAR_OK) {
        return err;
    }
    nx_authority_pin(a, &ours);
    nx_authority_pin(given, &its);
    nx_authority_destroy(given);
    return (memcmp(&ours, &its, sizeof(ours)) == 0)
               ? NEXAR_OK
               : nx_fail(NEXAR_EINVAL,
                         "%s is of a seed with another key than the one given: give the same key, "
                         "or another file",
                         s->state_path);
}

/* Takes the authority and the token of the previous seed. */
static nexar_err take_over(nx_seed *s, nx_seed_file *f)
{
    nexar_err err;

    if (f->world_size != s->config.world_size) {
        return nx_fail(NEXAR_EINVAL,
                       "%s is of a seed for a world of %u ranks, not of %u: give the same size, or "
                       "another file",
                       s->state_path, (unsigned)f->world_size, (unsigned)s->config.world_size);
    }
    if (s->config.has_token &&
        (gnutls_memcmp(&f->token, &s->config.token, sizeof(f->token)) != 0)) {
        return nx_fail(NEXAR_EINVAL,
                       "%s is of a seed with another token than that of token_file: give the same "
                       "token, or another file",
                       s->state_path);
    }
    err = check_key(s, f->authority);
    if (err != NEXAR_OK) {
        return err;
    }
    s->authority = f->authority;
    f->authority = NULL;
    s->join.token = f->token;
    nx_authority_pin(s->authority, &s->join.pin);
    return NEXAR_OK;
}

static nexar_err make_state(nx_seed *s)
{
    nx_seed_rules rules = {.world_size = s->config.world_size,
                           .min_world = s->config.min_world,
                           .lasting = (s->state_path != NULL),
                           .formation_timeout_ns = s->config.formation_timeout_ns,
                           .stall_report_ns = s->config.stall_report_ns,
                           .keep = s->config.keep,
                           .ranked = s->config.ranked,
                           .token = s->join.token,
                           .job = *nx_authority_job(s->authority),
                           .authority = nx_authority_cert(s->authority)};
    nexar_err err = nx_seed_state_create(&s->state, &rules, &ops, s);

    explicit_bzero(&rules, sizeof(rules));
    return err;
}

/* |port| is the port of the previous seed, or 0. */
static nexar_err open_endpoint(nx_seed *s, uint16_t port)
{
    nx_inet_config config = {.quic = {.loop = s->loop,
                                      .random = &nx_random_system,
                                      .idle_timeout_ns = IDLE_NS,
                                      .peers = s->config.world_size,
                                      .qlog_dir = s->qlog_dir,
                                      .authority = s->authority,
                                      .job = *nx_authority_job(s->authority),
                                      .on_accept = on_accept,
                                      .ctx = s}};
    nx_quic_config *q = &config.quic;
    nexar_err err = nx_listen_parse(s->config.listen, s->config.port_first, s->config.port_last, q);

    if ((err == NEXAR_OK) && (port != 0) &&
        ((q->port_first == 0) || ((port >= q->port_first) && (port <= q->port_last)))) {
        q->port_first = q->port_last = port;
    }
    err = (err == NEXAR_OK) ? nx_inet_open(&s->net, &config) : err;
    if (err != NEXAR_OK) {
        return err;
    }
    return nx_listen_addresses(q, nx_inet_port(s->net), s->config.interfaces, s->config.advertise,
                               s->join.addresses, NX_SEED_ADDRESSES_MAX, &s->join.naddresses);
}

/* A copy of a text; NULL for NULL and "". */
static nexar_err keep_text(const char *text, const char *what, char **out)
{
    if ((text == NULL) || (text[0] == '\0')) {
        return NEXAR_OK;
    }
    *out = nx_strdup(text);
    return (*out == NULL) ? nx_fail_nomem(what) : NEXAR_OK;
}

/* With the loop's lock held; |f| is empty without a previous seed. */
static nexar_err open_world(nx_seed *s, const nx_seed_file *f)
{
    nexar_err err = make_state(s);

    if (err == NEXAR_OK) {
        err = nx_seed_state_restore(s->state, &f->memory, nx_loop_refresh(s->loop));
    }
    err = (err == NEXAR_OK) ? open_endpoint(s, f->port) : err;
    if ((err == NEXAR_OK) && (s->state_path != NULL)) {
        err = write_state(s); /* fails now rather than when it is too late */
    }
    set_timer(s);
    return err;
}

static nexar_err start_with(nx_seed *s, nx_seed_file *f, bool there)
{
    nexar_err err = there ? take_over(s, f) : make_authority(s);

    err = (err == NEXAR_OK) ? nx_loop_create(&s->loop, &nx_clock_system) : err;
    if (err != NEXAR_OK) {
        return err;
    }
    nx_loop_lock(s->loop);
    err = open_world(s, f);
    nx_loop_unlock(s->loop);
    return (err == NEXAR_OK) ? start_thread(s) : err;
}

static nexar_err start(nx_seed *s)
{
    nx_seed_file f = {0};
    bool there = false;
    nexar_err err = keep_text(s->config.qlog_dir, "qlog_dir", &s->qlog_dir);

    err = (err == NEXAR_OK) ? keep_text(s->config.state, "state", &s->state_path) : err;
    if ((err == NEXAR_OK) && (s->state_path != NULL)) {
        err = nx_seed_file_read(s->state_path, &f, &there);
    }
    err = (err == NEXAR_OK) ? start_with(s, &f, there) : err;
    nx_seed_file_fini(&f);
    return err;
}

nexar_err nx_seed_create(nx_seed **out, const nx_seed_config *config)
{
    nx_seed *s = nx_zalloc(sizeof(*s));
    pthread_condattr_t attr;
    nexar_err err;

    if (s == NULL) {
        return nx_fail_nomem("the seed");
    }
    s->config = *config;
    s->join.bare = config->has_token;
    s->timer.on_expire = on_expire;
    nx_list_init(&s->conns);
    (void)pthread_mutex_init(&s->lock, NULL);
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&s->changed, &attr);
    (void)pthread_condattr_destroy(&attr);
    err = nx_random_check();
    if (err == NEXAR_OK) {
        err = start(s);
    }
    if (err != NEXAR_OK) {
        nx_seed_destroy(s);
        return err;
    }
    *out = s;
    return NEXAR_OK;
}

void nx_seed_destroy(nx_seed *s)
{
    if (s == NULL) {
        return;
    }
    if (s->loop != NULL) {
        nx_loop_lock(s->loop);
        nx_event_set(s->loop, &s->stop);
        nx_loop_unlock(s->loop);
        if (s->running) {
            (void)pthread_join(s->thread, NULL);
        }
        nx_loop_lock(s->loop);
        nx_loop_timer_cancel(s->loop, &s->timer);
        nx_inet_close(s->net);
        while (!nx_list_empty(&s->conns)) {
            forget(nx_list_entry(s->conns.next, conn, in_all));
        }
        nx_loop_unlock(s->loop);
        nx_loop_destroy(s->loop);
    }
    nx_seed_state_destroy(s->state);
    nx_authority_destroy(s->authority);
    nx_free(s->qlog_dir);
    nx_free(s->state_path);
    (void)pthread_cond_destroy(&s->changed);
    (void)pthread_mutex_destroy(&s->lock);
    explicit_bzero(&s->join, sizeof(s->join));
    nx_free(s);
}

bool nx_seed_situation(nx_seed *s, char *text, size_t size)
{
    bool forming;

    nx_loop_lock(s->loop);
    forming = nx_seed_state_situation(s->state, text, size);
    nx_loop_unlock(s->loop);
    return forming;
}

nexar_err nx_seed_join_text(const nx_seed *s, char *buf, size_t size)
{
    return nx_join_string_format(&s->join, buf, size);
}

nexar_err nx_seed_wait(nx_seed *s, uint64_t timeout_ns, bool *ended)
{
    struct timespec until;
    int code = 0;

    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)(timeout_ns / 1000000000U);
    until.tv_nsec += (long)(timeout_ns % 1000000000U);
    if (until.tv_nsec >= 1000000000L) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000L;
    }
    (void)pthread_mutex_lock(&s->lock);
    while (!s->ended && (code == 0)) {
        code = (timeout_ns == UINT64_MAX) ? pthread_cond_wait(&s->changed, &s->lock)
                                          : pthread_cond_timedwait(&s->changed, &s->lock, &until);
    }
    *ended = s->ended;
    (void)pthread_mutex_unlock(&s->lock);
    return (code == ETIMEDOUT) ? NEXAR_OK : nx_fail_sys("pthread_cond_timedwait", "", code);
}
