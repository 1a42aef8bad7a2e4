/* world.c - making and ending the runtime of one rank. */
#include "core/world.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "cluster/addresses.h"
#include "core/comm.h"
#include "core/request.h"

/* How long leaving may take for links that do not drain: a peer that is gone is
 * noticed by its link long before. */
#define LEAVE_NS UINT64_C(10000000000)

/* Polls of a few microseconds catch most answers of a peer that runs; a wake on
 * another core costs 40 us on the machines that were measured. */
#define SPIN_NS UINT64_C(50000)
/* Where ranks outnumber cores, with yields between the polls.  4 ranks on 2 cores, QUIC,
 * median of a barrier in us, three runs: asleep at once 261, 268, 281; 200 us of yields
 * 171, 218, 236; 50 us nearly the same, 1 ms no better. */
#define YIELD_NS UINT64_C(200000)

/* ---- what the message engine asks for ------------------------------------- */

static bool same_host(const nx_world *world, uint32_t rank)
{
    return memcmp(world->view->members[rank].boot_id, world->view->members[world->rank].boot_id,
                  sizeof(world->view->members[rank].boot_id)) == 0;
}

static bool is_loopback(const struct sockaddr_storage *a)
{
    if (a->ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)a;

        return (ntohl(in->sin_addr.s_addr) >> 24) == 127;
    }
    return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)a)->sin6_addr);
}

/* The addresses of |m| in the order to try them: to a rank of this host the
 * loopback first, which has the largest datagrams; to another one last. */
static void order_addresses(const nx_member *m, bool here, struct sockaddr_storage *out)
{
    size_t n = 0;

    for (int turn = 0; turn < 2; turn++) {
        for (size_t i = 0; i < m->naddresses; i++) {
            if (is_loopback(&m->addresses[i]) == (here == (turn == 0))) {
                out[n++] = m->addresses[i];
            }
        }
    }
}

static nexar_err connect_peer(void *ctx, uint32_t peer, const nx_link_up *up, void *up_ctx,
                              nx_link **link)
{
    nx_world *world = ctx;
    const nx_member *m = &world->view->members[peer];
    struct sockaddr_storage addresses[NX_ADDRESSES_MAX];
    const nx_quic_target target = {.member = m->id, .addresses = addresses, .n = m->naddresses};

    order_addresses(m, same_host(world, peer), addresses);
    return nx_quic_dial(nx_join_endpoint(world->join), &target, up, up_ctx, link);
}

static void on_peer_down(void *ctx, uint32_t peer, nexar_err err, const char *why)
{
    nx_world *world = ctx;
    char text[NX_PEER_TEXT];

    nx_hub_on_down(world->hub, peer, err, why);
    if (!world->closing) {
        nx_log(NX_LOG_INFO, "lost the link to %s: %s (%s)", nx_world_peer_text(world, peer, text),
               why, nexar_strerror(err));
    }
}

static void on_control(void *ctx, uint32_t peer, const void *data, size_t len)
{
    nx_world *world = ctx;

    if (!nx_hub_on_control(world->hub, peer, data, len)) {
        nx_log(NX_LOG_DEBUG, "peer %" PRIu32 " sent a control frame of a kind unknown here", peer);
    }
}

static nx_verdict on_mark(void *ctx, uint32_t peer, nx_context context, uint64_t tag,
                          const nx_mark *mark)
{
    const nx_world *world = ctx;

    return nx_hub_on_mark(world->hub, peer, context, tag, mark);
}

static const char *peer_text(void *ctx, uint32_t peer, char *buf)
{
    return nx_world_peer_text(ctx, peer, buf);
}

/* A member dials us: find its rank. */
static void on_accept(void *ctx, nx_link *link, uint64_t member)
{
    nx_world *world = ctx;

    for (uint32_t rank = 0; (world->msg != NULL) && (rank < world->size); rank++) {
        if (world->view->members[rank].id == member) {
            link->up = nx_msg_up(world->msg);
            link->up_ctx = nx_msg_up_ctx(world->msg, rank);
            nx_msg_attach(world->msg, rank, link);
            return;
        }
    }
    nx_log(NX_LOG_WARN, "refused member %" PRIu64 ": it is not in this world", member);
    nx_link_close(link, false);
}

static void on_seed(void *ctx, bool there, const char *why)
{
    const nx_world *world = ctx;

    if (!world->closing) {
        nx_log(NX_LOG_INFO, "%s: %s", there ? "the seed is back" : "the seed is gone", why);
    }
}

/* ---- making ----------------------------------------------------------------- */

/* Ranks of this world on this host. */
static uint32_t neighbours(const nx_world *world)
{
    uint32_t n = 0;

    for (uint32_t rank = 0; rank < world->size; rank++) {
        n += (world->view == NULL) ||
             (memcmp(world->view->members[rank].boot_id, world->view->members[world->rank].boot_id,
                     sizeof(world->view->members[rank].boot_id)) == 0);
    }
    return n;
}

/* How waits poll: where ranks outnumber cores each lets the others run meanwhile. */
static void set_spin(const nx_world *world)
{
    char buf[NX_NUMBER_ROOM];
    const uint64_t asked = nx_setting_spin(nx_config_text(world->config, NX_SET_SPIN, buf));
    cpu_set_t cores;
    const bool known = sched_getaffinity(0, sizeof(cores), &cores) == 0;
    const bool crowded = !known || (neighbours(world) > (uint32_t)CPU_COUNT(&cores));

    nx_loop_set_yield(world->loop, crowded);
    if (asked != UINT64_MAX) {
        nx_loop_set_spin(world->loop, asked);
    } else {
        nx_loop_set_spin(world->loop, crowded ? YIELD_NS : SPIN_NS);
    }
}

/* With the loop's lock held. */
static nexar_err start_messages(nx_world *world)
{
    const nx_msg_config mc = {
        .loop = world->loop,
        .peers = world->size,
        .self = world->rank,
        .pool = nx_config_size(world->config, NX_SET_UNEXPECTED),
        .inline_max = nx_config_size(world->config, NX_SET_INLINE),
        .eager_max = nx_config_size(world->config, NX_SET_EAGER),
        .connect = connect_peer,
        .on_peer_down = on_peer_down,
        .on_control = on_control,
        .on_mark = on_mark,
        .ctx = world,
    };
    nx_hub_config hc = {
        .loop = world->loop,
        .rules = nx_config_rules(world->config),
        .segment = nx_config_size(world->config, NX_SET_SEGMENT),
        .verify = nx_config_choice(world->config, NX_SET_VERIFY) == NX_VERIFY_ON,
        .timeout_ns = nx_config_number(world->config, NX_SET_COLLECTIVE_TIMEOUT),
        .peer_text = peer_text,
        .ctx = world,
    };
    nexar_err err;

    set_spin(world);
    err = nx_msg_create(&world->msg, &mc);
    if (err != NEXAR_OK) {
        return err;
    }
    hc.msg = world->msg;
    return nx_hub_create(&world->hub, &hc);
}

/* The world has formed: messages must be there before the first member connects,
 * which may be faster than this process is to return from joining. */
static void on_view(void *ctx, nx_join *j)
{
    nx_world *world = ctx;

    world->view = nx_join_view(j);
    world->rank = nx_join_rank(j);
    world->size = world->view->size;
    world->start_err = start_messages(world);
}

/* With the loop's lock held. */
static nexar_err join(nx_world *world)
{
    const nexar_config *cfg = world->config;
    char join[NX_NUMBER_ROOM], rank[NX_NUMBER_ROOM], listen[NX_NUMBER_ROOM], faces[NX_NUMBER_ROOM],
        advertise[NX_NUMBER_ROOM], ports[NX_NUMBER_ROOM], qlog[NX_NUMBER_ROOM];
    nx_join_config jc = {
        .loop = world->loop,
        .join = nx_config_text(cfg, NX_SET_JOIN, join),
        .rank = nx_setting_rank(nx_config_text(cfg, NX_SET_RANK, rank)),
        .world_size = (uint32_t)nx_config_number(cfg, NX_SET_WORLD_SIZE),
        .listen = nx_config_text(cfg, NX_SET_LISTEN, listen),
        .interfaces = nx_config_text(cfg, NX_SET_INTERFACES, faces),
        .advertise = nx_config_text(cfg, NX_SET_ADVERTISE, advertise),
        .formation_timeout_ns = nx_config_number(cfg, NX_SET_FORMATION_TIMEOUT),
        .idle_timeout_ns = nx_config_number(cfg, NX_SET_IDLE_TIMEOUT),
        .qlog_dir = nx_config_text(cfg, NX_SET_QLOG_DIR, qlog),
        .on_view = on_view,
        .on_accept = on_accept,
        .on_seed = on_seed,
        .ctx = world,
    };
    nexar_err err;

    nx_setting_port_range(nx_config_text(cfg, NX_SET_PORT_RANGE, ports), &jc.port_first,
                          &jc.port_last);
    err = nx_join_run(&world->join, &jc);
    return (err == NEXAR_OK) ? world->start_err : err;
}

/* Undoes what was made, in reverse order; all links are closed. */
static void teardown(nx_world *world)
{
    if (world->loop != NULL) {
        nx_loop_background_stop(world->loop);
        if (world->worker != NULL) {
            nx_worker_destroy(world->worker);
        }
        nx_loop_lock(world->loop);
        if (world->hub != NULL) {
            nx_hub_stop(world->hub, NEXAR_ECANCELED, "the world ends");
        }
        if (world->msg != NULL) {
            nx_msg_destroy(world->msg);
        }
        if (world->join != NULL) {
            nx_join_destroy(world->join);
        }
        nx_requests_free(world);
        nx_comms_free(world);
        if (world->hub != NULL) {
            nx_hub_destroy(world->hub);
        }
        nx_loop_unlock(world->loop);
        nx_loop_destroy(world->loop);
    }
    if (world->event_fd >= 0) {
        (void)close(world->event_fd);
    }
    nexar_config_free(world->config);
    nx_free(world);
}

nexar_err nx_world_create(nexar_config *config, nx_world **out)
{
    nx_world *world = nx_zalloc(sizeof(*world));
    char buf[NX_NUMBER_ROOM];
    nexar_err err;

    if (world == NULL) {
        nexar_config_free(config);
        return nx_fail_nomem("a world");
    }
    world->config = config;
    world->event_fd = -1;
    world->size = 1;
    nx_list_init(&world->comms);
    nx_list_init(&world->requests);

    err = nx_config_apply(config);
    if (err == NEXAR_OK) {
        err = nx_loop_create(&world->loop, &nx_clock_system);
    }
    if (err == NEXAR_OK) {
        nx_loop_lock(world->loop);
        err = (nx_config_text(config, NX_SET_JOIN, buf)[0] != '\0') ? join(world)
                                                                    : start_messages(world);
        nx_loop_unlock(world->loop);
    }
    if (err == NEXAR_OK) {
        nx_loop_lock(world->loop);
        err = nx_comm_create_world(world, &world->comm);
        nx_loop_unlock(world->loop);
    }
    if (err == NEXAR_OK) {
        err = nx_loop_background_start(world->loop);
    }
    if (err != NEXAR_OK) {
        teardown(world);
        return err;
    }
    *out = world;
    return NEXAR_OK;
}

/* ---- ending ------------------------------------------------------------------ */

/* Waits for |event|, at most until the time for leaving is over. */
static bool wait_leaving(nx_world *world, nx_event *event)
{
    return nx_loop_wait(world->loop, event, nx_loop_refresh(world->loop) + LEAVE_NS);
}

nexar_err nx_world_destroy(nx_world *world)
{
    nx_event closed = {0}, drained = {0}, left = {0};
    nexar_err err;

    nx_loop_lock(world->loop);
    world->closing = true;
    /* What was sent ends: taken by the peer, or failed with it. */
    if (world->ops != 0) {
        world->idle_wanted = true;
        (void)nx_loop_wait(world->loop, &world->idle, UINT64_MAX);
    }
    nx_msg_close(world->msg, &closed);
    bool quiet = wait_leaving(world, &closed);
    if (world->join != NULL) {
        nx_quic_drain(nx_join_endpoint(world->join), &drained);
        quiet = wait_leaving(world, &drained) && quiet;
        nx_quic_drain(nx_join_endpoint(world->join), NULL);
        nx_join_leave(world->join, &left);
        (void)wait_leaving(world, &left);
    }
    if (!quiet) {
        nx_log(NX_LOG_WARN, "left without the last word of some ranks");
    }
    err = world->send_err;
    nx_loop_unlock(world->loop);
    teardown(world);
    return (err == NEXAR_OK)
               ? NEXAR_OK
               : nx_fail(err, "finalize: a message that was still on its way was lost: %s",
                         nexar_strerror(err));
}

/* ---- small things -------------------------------------------------------------- */

const char *nx_world_peer_text(const nx_world *world, uint32_t peer, char *buf)
{
    char address[64];

    if ((world->view == NULL) || (world->view->members[peer].naddresses == 0)) {
        (void)snprintf(buf, NX_PEER_TEXT, "rank %" PRIu32, peer);
        return buf;
    }
    const nx_member *m = &world->view->members[peer];
    (void)snprintf(buf, NX_PEER_TEXT, "rank %" PRIu32 " (%s, %s)", peer, m->host,
                   nx_address_text(&m->addresses[0], address));
    return buf;
}

void nx_world_begin(nx_world *world)
{
    world->ops++;
}

void nx_world_end(nx_world *world, nexar_err err)
{
    world->ops--;
    if (world->closing && (err != NEXAR_OK) && (world->send_err == NEXAR_OK)) {
        world->send_err = err;
    }
    if ((world->ops == 0) && world->idle_wanted) {
        nx_event_set(world->loop, &world->idle);
    }
}

void nx_world_unclaimed(nx_world *world, int change)
{
    const uint64_t before = world->unclaimed;
    uint64_t count = 1;

    world->unclaimed = before + (uint64_t)(int64_t)change;
    if (world->event_fd < 0) {
        return;
    }
    if ((before == 0) && (world->unclaimed != 0)) {
        (void)!write(world->event_fd, &count, sizeof(count));
    } else if ((before != 0) && (world->unclaimed == 0)) {
        (void)!read(world->event_fd, &count, sizeof(count));
    }
}

enum { WORKERS = 4 }; /* callbacks that may run at once */

nexar_err nx_world_work(nx_world *world, nx_job *job)
{
    nexar_err err = NEXAR_OK;

    if (world->worker == NULL) {
        err = nx_worker_create(&world->worker, world->loop, WORKERS);
    }
    return (err == NEXAR_OK) ? nx_worker_submit(world->worker, job) : err;
}
