/* world.c - making and ending the runtime of one rank. */
#include "core/world.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/sentence.h"
#include "base/sys.h"
#include "cluster/addresses.h"
#include "core/arena.h"
#include "core/coll/direct.h"
#include "core/comm.h"
#include "core/cores.h"
#include "core/failure/exits.h"
#include "core/failure/failure.h"
#include "core/forked.h"
#include "core/launcher/rendezvous.h"
#include "core/links.h"
#include "core/p2p/message.h"
#include "core/recover/queued.h"
#include "core/report/diagnosis.h"
#include "core/update.h"

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
/* How often, for each of them, a rank looks where the others are: 10 us each time. */
#define PART_NS UINT64_C(2000000)

/* ---- what the message engine asks for ------------------------------------- */

static bool on_peer_end(void *ctx, uint32_t peer, nx_end end, nexar_err err)
{
    return nx_failure_on_end(ctx, peer, end, err);
}

static void on_peer_down(void *ctx, uint32_t peer, nexar_err err, const char *why)
{
    nx_world *world = ctx;
    char text[NX_PEER_TEXT];

    nx_hub_on_down(world->hub, peer, err, why);
    nx_failure_on_down(world, peer);
    nx_exits_forget(world, peer);
    nx_diagnosis_on_down(world, peer, why);
    if (!world->closing) {
        nx_log(NX_LOG_INFO, "lost the link to %s: %s (%s)", nx_world_peer_text(world, peer, text),
               why, nexar_strerror(err));
    }
    if (world->rpc != NULL) {
        nx_rpc_peer_down(world->rpc, peer, err, why);
    }
}

static void on_control(void *ctx, uint32_t peer, const void *data, size_t len)
{
    nx_world *world = ctx;

    if (!nx_hub_on_control(world->hub, peer, data, len) &&
        !nx_diagnosis_on_control(world, peer, data, len) &&
        !nx_failure_on_control(world, peer, data, len)) {
        nx_log(NX_LOG_DEBUG, "peer %" PRIu32 " sent a control frame of a kind unknown here", peer);
    }
}

static nx_verdict on_mark(void *ctx, uint32_t peer, nx_context context, uint64_t tag,
                          const nx_mark *mark)
{
    const nx_world *world = ctx;

    return nx_hub_on_mark(world->hub, peer, context, tag, mark);
}

static nx_verdict on_unexpected(void *ctx, nx_context context)
{
    const nx_world *world = ctx;

    return nx_hub_on_unexpected(world->hub, context);
}

static void on_parted(void *ctx, uint32_t comm, uint32_t peer, nx_parting how)
{
    const nx_world *world = ctx;
    char why[64];

    (void)nx_sentence(why, sizeof(why), "it %s", nx_parting_text(how));
    nx_msg_refuse(world->msg, peer,
                  (nx_context){.comm = comm, .kind = NX_KIND_USER, .class = NX_CLASS_USER},
                  nx_parting_error(how), why);
}

/* What it has sent on a communicator from which it has parted is behind its word. */
static void on_part(void *ctx, uint32_t comm, uint32_t peer, nx_parting how)
{
    const nx_world *world = ctx;

    nx_msg_finish(world->msg, peer,
                  (nx_context){.comm = comm, .kind = NX_KIND_USER, .class = NX_CLASS_USER},
                  (uint8_t)how);
}

static void on_msg_finished(void *ctx, uint32_t peer, nx_context context, uint8_t how)
{
    const nx_world *world = ctx;

    if (context.kind == NX_KIND_USER) {
        nx_hub_on_finished(world->hub, peer, context.comm, how);
    }
}

static void on_finished(void *ctx, uint32_t comm, uint32_t peer, nx_parting how)
{
    const nx_world *world = ctx;
    nx_incarnation *inc = nx_incarnation_find(world, comm);

    if (inc != NULL) { /* otherwise it is being made, and nothing waits on it */
        nx_incarnation_fail_from(inc, peer, how);
        nx_failure_check_alone(inc);
    }
}

static void inquire(void *ctx, uint32_t peer, nx_context context)
{
    nx_incarnation *inc =
        (context.kind == NX_KIND_USER) ? nx_incarnation_find(ctx, context.comm) : NULL;
    const int rank =
        ((inc == NULL) || (peer == NX_ANY_PEER)) ? -1 : nx_incarnation_rank_of(inc, peer);

    if (rank >= 0) {
        nx_group_inquire(&inc->group, (uint32_t)rank);
    } else if ((inc != NULL) && (peer == NX_ANY_PEER)) {
        inc->inquires = true;
        nx_failure_check_alone(inc);
    }
}

void nx_world_inquire(nx_world *world)
{
    nx_msg_each_waiting(world->msg, NX_CLASS_USER, inquire, world);
}

static const char *peer_text(void *ctx, uint32_t peer, char *buf)
{
    return nx_world_peer_text(ctx, peer, buf);
}

static bool has_failed(void *ctx, uint32_t peer)
{
    const nx_world *world = ctx;

    return (world->failure != NULL) && nx_rankset_has(nx_failure_dead(world), peer);
}

/* |why|: "rank 3 (node7, 10.0.0.7:4433): its process has ended". */
static void on_failed(void *ctx, uint32_t peer, const char *why)
{
    nx_world *world = ctx;
    char text[NX_PEER_TEXT];
    const size_t len = strlen(nx_world_peer_text(world, peer, text));
    const bool named = (strncmp(why, text, len) == 0) && (strncmp(why + len, ": ", 2) == 0);

    if (world->failure != NULL) {
        nx_failure_learn(world, peer, named ? why + len + 2 : why);
    }
}

/* That an operation has failed: because somebody is dead, if anybody is. */
static void tell(void *ctx, uint32_t peer, const void *frame, size_t len)
{
    nx_world *world = ctx;

    if ((world->failure != NULL) && (nx_failure_dead(world)->count > 0)) {
        nx_failure_vouch(world, peer, frame, len);
    } else {
        /* One that cannot be told is gone, and is found out by the others. */
        (void)!nx_msg_send_control(world->msg, peer, frame, len);
    }
}

static void on_seed(void *ctx, bool there, const char *why)
{
    nx_world *world = ctx;

    nx_update_on_seed(world, there);
    if (!there) {
        nx_failure_unanswered(world);
    }
    if (!world->closing) {
        nx_log(NX_LOG_INFO, "%s: %s", there ? "the seed is back" : "the seed is gone", why);
    }
}

/* ---- making ----------------------------------------------------------------- */

/* Where ranks outnumber cores each lets the others run meanwhile. */
void nx_world_set_spin(nx_world *world)
{
    char buf[NX_NUMBER_ROOM];
    const uint64_t asked = nx_setting_spin(nx_config_text(world->config, NX_SET_SPIN, buf));
    const bool crowded = !nx_cores_for_all(world);

    nx_loop_set_yield(world->loop, crowded);
    nx_loop_set_crowd(world->loop, nx_cores_part, world, nx_links_neighbours(world) * PART_NS);
    if (asked != UINT64_MAX) {
        nx_loop_set_spin(world->loop, asked);
    } else {
        nx_loop_set_spin(world->loop, crowded ? YIELD_NS : SPIN_NS);
    }
    world->spin_ns = (asked != UINT64_MAX) ? asked : crowded ? 0 : SPIN_NS;
}

static bool is_there(void *ctx, uint32_t peer)
{
    const nx_world *world = ctx;

    return nx_view_slot(world->view, peer) != NULL;
}

/* With the loop's lock held. */
static nexar_err start_messages(nx_world *world)
{
    char buf[NX_NUMBER_ROOM];
    bool by_link;
    const size_t inline_max =
        nx_setting_inline(nx_config_text(world->config, NX_SET_INLINE, buf), &by_link);
    const nx_msg_config mc = {
        .loop = world->loop,
        .peers = world->slots,
        .there =
            (world->view == NULL) || (world->view->slots == world->view->size) ? NULL : is_there,
        .self = world->self,
        .grows = (world->view != NULL),
        .pool = nx_config_size(world->config, NX_SET_UNEXPECTED),
        .inline_max = inline_max,
        .inline_auto = by_link,
        .eager_max = nx_config_size(world->config, NX_SET_EAGER),
        .connect = nx_links_connect,
        .on_peer_end = on_peer_end,
        .on_peer_down = on_peer_down,
        .on_control = on_control,
        .on_mark = on_mark,
        .on_unexpected = on_unexpected,
        .on_finished = on_msg_finished,
        .ctx = world,
    };
    nx_hub_config hc = {
        .loop = world->loop,
        .early = world->early,
        .rules = nx_config_rules(world->config),
        .segment = nx_config_size(world->config, NX_SET_SEGMENT),
        .verify = nx_config_choice(world->config, NX_SET_VERIFY) == NX_VERIFY_ON,
        .timeout_ns = nx_config_number(world->config, NX_SET_COLLECTIVE_TIMEOUT),
        .watch = {.on_end = nx_diagnosis_on_end, .ctx = world},
        .peer_text = peer_text,
        .has_failed = has_failed,
        .on_failed = on_failed,
        .tell = tell,
        .on_parted = on_parted,
        .on_part = on_part,
        .on_finished = on_finished,
        .ctx = world,
    };
    nexar_err err;

    nx_world_set_spin(world);
    err = nx_msg_create(&world->msg, &mc);
    if (err != NEXAR_OK) {
        return err;
    }
    hc.msg = world->msg;
    err = nx_hub_create(&world->hub, &hc);
    return (err == NEXAR_OK) ? nx_failure_start(world) : err;
}

static int rank_of(void *owner, uint32_t peer)
{
    return nx_incarnation_rank_of(((const nexar_comm *)owner)->inc, peer);
}

static void release_comm(void *owner)
{
    nx_comm_release(owner);
}

/* With the loop's lock held. */
static nexar_err start_rpc(nx_world *world)
{
    const nx_rpc_config rc = {
        .loop = world->loop,
        .msg = world->msg,
        .threads = (unsigned)nx_config_number(world->config, NX_SET_RPC_THREADS),
        .call_kind = NX_KIND_RPC_CALL,
        .reply_kind = NX_KIND_RPC_REPLY,
        .rank_of = rank_of,
        .alias = nx_update_alias,
        .ctx = world,
        .release = release_comm,
    };

    return nx_rpc_create(&world->rpc, &rc);
}

/* The world has formed: messages must be there before the first member connects,
 * which may be faster than this process is to return from joining. */
static void on_view(void *ctx, nx_join *j)
{
    nx_world *world = ctx;

    world->join = j; /* a member that is here already may make us dial another */
    world->view = nx_join_view(j);
    world->self = world->view->members[nx_join_rank(j)].slot;
    world->slots = world->view->slots;
    world->start_err = start_messages(world);
    if (world->start_err == NEXAR_OK) {
        world->start_err = nx_links_start(world);
    }
    if (world->start_err == NEXAR_OK) {
        nx_parked_settle(world);
    }
}

static void on_join_failed(void *ctx)
{
    nx_parked_close(ctx);
}

/* With the loop's lock held. */
static nexar_err join(nx_world *world)
{
    const nexar_config *cfg = world->config;
    char join[NX_NUMBER_ROOM], rank[NX_NUMBER_ROOM], listen[NX_NUMBER_ROOM], faces[NX_NUMBER_ROOM],
        advertise[NX_NUMBER_ROOM], ports[NX_NUMBER_ROOM], qlog[NX_NUMBER_ROOM],
        host_id[NX_NUMBER_ROOM];
    nx_join_config jc = {
        .loop = world->loop,
        .join = nx_config_text(cfg, NX_SET_JOIN, join),
        .rank = nx_setting_rank(nx_config_text(cfg, NX_SET_RANK, rank)),
        .launcher = (nx_config_origin(cfg, NX_SET_RANK) == NX_ORIGIN_LAUNCHER)
                        ? nx_config_origin_name(cfg, NX_SET_RANK)
                        : NULL,
        .world_size = (uint32_t)nx_config_number(cfg, NX_SET_WORLD_SIZE),
        .listen = nx_config_text(cfg, NX_SET_LISTEN, listen),
        .interfaces = nx_config_text(cfg, NX_SET_INTERFACES, faces),
        .advertise = nx_config_text(cfg, NX_SET_ADVERTISE, advertise),
        .formation_timeout_ns = nx_config_number(cfg, NX_SET_FORMATION_TIMEOUT),
        .stall_report_ns = nx_config_first_here() ? nx_config_number(cfg, NX_SET_STALL_REPORT) : 0,
        .idle_timeout_ns = nx_config_number(cfg, NX_SET_IDLE_TIMEOUT),
        .congestion = (nx_congestion)nx_config_choice(cfg, NX_SET_CONGESTION),
        .qlog_dir = nx_config_text(cfg, NX_SET_QLOG_DIR, qlog),
        .host_id = nx_config_text(cfg, NX_SET_HOST_ID, host_id),
        .on_view = on_view,
        .on_accept = nx_links_accept,
        .on_failed = on_join_failed,
        .on_seed = on_seed,
        .on_waiting = nx_update_on_waiting,
        .on_started = nx_update_on_started,
        .on_farewell = nx_failure_on_farewell,
        .ctx = world,
    };
    nexar_err err = nx_links_open(world);

    if (err != NEXAR_OK) {
        return err;
    }
    if (world->shm != NULL) {
        jc.local = nx_shm_offer_of(world->shm);
        jc.nlocal = sizeof(nx_shm_offer);
    }
    nx_setting_port_range(nx_config_text(cfg, NX_SET_PORT_RANGE, ports), &jc.port_first,
                          &jc.port_last);
    err = nx_join_run(&world->join, &jc);
    nx_config_forget_secrets(world->config); /* the join string is not needed again */
    return (err == NEXAR_OK) ? world->start_err : err;
}

/* What devices still do for operations that have ended is done; with the lock. */
static void settle_devices(nx_world *world)
{
    if (world->device_worker == NULL) {
        return;
    }
    if (world->ops != 0) {
        world->idle.set = false;
        world->idle_wanted = true;
        (void)nx_loop_wait(world->loop, &world->idle, UINT64_MAX);
    }
    nx_loop_unlock(world->loop);
    nx_worker_destroy(world->device_worker);
    nx_loop_lock(world->loop);
}

/* Undoes what was made, in reverse order; all links are closed. */
static void teardown(nx_world *world)
{
    if (world->loop != NULL) {
        nx_loop_background_stop(world->loop);
        nx_rpc_stop(world->rpc);
        if (world->worker != NULL) {
            nx_worker_destroy(world->worker);
        }
        nx_runners_stop(world);
        nx_loop_lock(world->loop);
        nx_diagnosis_stop(world);
        if (world->hub != NULL) {
            nx_hub_stop(world->hub, NEXAR_ECANCELED, "the world ends");
        }
        nx_failure_quiet(world);
        nx_exits_stop(world);
        nx_parked_close(world);
        if (world->rpc != NULL) {
            nx_rpc_end(world->rpc);
        }
        if (world->msg != NULL) {
            nx_msg_destroy(world->msg);
        }
        if (world->shm != NULL) {
            nx_shm_close(world->shm);
        }
        nx_loop_set_crowd(world->loop, NULL, NULL, 0); /* it knows the members */
        if (world->join != NULL) {
            nx_join_destroy(world->join);
        }
        settle_devices(world);
        nx_requests_free(world);
        nx_rpc_destroy(world->rpc);
        nx_failure_stop(world);
        nx_comms_free(world);
        nx_messages_free(world);
        nx_runners_free(world);
        nx_direct_close_passes(world->passes);
        nx_arenas_destroy(world->arenas);
        nx_arena_destroy(world->arena);
        if (world->hub != NULL) {
            nx_hub_destroy(world->hub);
        }
        nx_loop_unlock(world->loop);
        nx_loop_destroy(world->loop);
    }
    if (world->event_fd >= 0) {
        (void)nx_sys_close(world->event_fd);
    }
    nx_early_destroy(world->early);
    nexar_config_free(world->config);
    nx_free(world);
}

/* What no setting of a rank can tell by itself; before others know of it. */
static nexar_err check_settings(const nexar_config *config)
{
    const uint64_t interval_ns = nx_config_number(config, NX_SET_HEARTBEAT_INTERVAL);
    const uint64_t timeout_ns = nx_config_number(config, NX_SET_HEARTBEAT_TIMEOUT);

    if (interval_ns > timeout_ns) {
        return nx_fail(NEXAR_EINVAL,
                       "setting heartbeat_timeout: %.3f s; accepted: at least heartbeat_interval, "
                       "%.3f s",
                       (double)timeout_ns / 1e9, (double)interval_ns / 1e9);
    }
    if ((nx_config_choice(config, NX_SET_RETRY) == NX_RETRY_ON) &&
        (nx_config_choice(config, NX_SET_RECOVERY) != NX_RECOVERY_AUTOMATIC)) {
        return nx_fail(NEXAR_EINVAL, "setting retry: on; accepted with recovery=automatic alone");
    }
    return NEXAR_OK;
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
    nx_forked_watch(world);
    world->event_fd = -1;
    world->slots = 1;
    nx_list_init(&world->incarnations);
    nx_list_init(&world->accords);
    nx_list_init(&world->parked);
    nx_list_init(&world->requests);
    nx_list_init(&world->runners);
    nx_list_init(&world->spare);
    nx_list_init(&world->messages);
    nx_oplog_init(&world->log);

    err = nx_config_apply(config);
    if (err == NEXAR_OK) {
        err = check_settings(config);
    }
    if (err == NEXAR_OK) {
        err = nx_early_create(&world->early);
    }
    if (err == NEXAR_OK) {
        err = nx_loop_create(&world->loop, &nx_clock_system);
    }
    if (err == NEXAR_OK) {
        nx_loop_lock(world->loop);
        err = (nx_config_text(config, NX_SET_JOIN, buf)[0] != '\0') ? join(world)
                                                                    : start_messages(world);
        if (err == NEXAR_OK) {
            err = start_rpc(world);
        }
        nx_loop_unlock(world->loop);
    }
    if (err == NEXAR_OK) {
        nx_loop_lock(world->loop);
        err = nx_comm_create_world(world, (world->view == NULL) ? 0 : world->view->world);
        if (err == NEXAR_OK) {
            err = nx_diagnosis_start(world);
        }
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

void nx_world_part(nx_incarnation *inc)
{
    if (inc->world->departing && (inc->comm->retry.queued == 0) &&
        (inc->group.parting == NX_PARTING_NONE)) {
        nx_group_part(&inc->group, NX_PARTING_FINALIZED);
    }
}

void nx_world_part_from(nx_world *world, uint32_t peer)
{
    if (!world->departing) {
        return;
    }
    nx_list_for_each (at, &world->incarnations) {
        nx_group_part_from(&nx_list_entry(at, nx_incarnation, link)->group, peer);
    }
}

/* Something is on its way that others may never take, or take part in, since they end, too:
 * who waits for what of this rank will not come is told. */
static void depart(nx_world *world)
{
    world->departing = true;
    nx_msg_stop_receiving(world->msg, NX_CLASS_USER);
    nx_list_for_each (at, &world->incarnations) {
        nx_world_part(nx_list_entry(at, nx_incarnation, link));
    }
}

/* All that goes on ends; reports know where this rank is meanwhile. */
static void end_all(nx_world *world)
{
    nx_blocked b = {.what = {.kind = NX_WHAT_OTHER, .name = "finalize", .peer = NX_ANY_PEER}};
    nx_event served = {0};

    nx_oplog_block(&world->log, &b, nx_loop_now(world->loop));
    /* Handlers that run end, and what they reply is sent. */
    nx_rpc_close(world->rpc, &served);
    (void)nx_loop_wait(world->loop, &served, UINT64_MAX);
    nx_rpc_end(world->rpc);
    /* What was sent ends: taken by the peer, or failed with it. */
    if (world->ops != 0) {
        depart(world);
    }
    if (world->ops != 0) {
        world->idle_wanted = true;
        (void)nx_loop_wait(world->loop, &world->idle, UINT64_MAX);
    }
    nx_oplog_unblock(&world->log, &b, nx_loop_now(world->loop), NEXAR_OK);
}

nexar_err nx_world_destroy(nx_world *world)
{
    nx_event closed = {0}, emptied = {0}, drained = {0}, left = {0};
    nx_rendezvous *rendezvous = world->rendezvous;
    char why[NX_ERROR_ROOM];
    nexar_err err;

    nx_loop_lock(world->loop);
    nx_failure_settle(world); /* the application is told of all failures that it can know */
    world->closing = true;
    end_all(world);
    nx_diagnosis_stop(world);
    nx_msg_close(world->msg, &closed);
    bool quiet = wait_leaving(world, &closed);
    nx_failure_quiet(world);
    if (world->shm != NULL) { /* first: what does not go this way goes by QUIC */
        nx_shm_drain(world->shm, &emptied);
        quiet = wait_leaving(world, &emptied) && quiet;
        nx_shm_drain(world->shm, NULL);
    }
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
    err = world->lost_err;
    (void)nx_sentence(why, sizeof(why), "%s", world->lost_why);
    nx_loop_unlock(world->loop);
    teardown(world);
    nx_rendezvous_end(rendezvous); /* last: this rank has said good-bye to the seed in it */
    return (err == NEXAR_OK) ? NEXAR_OK : nx_fail(err, "finalize: %s", why);
}

/* ---- small things -------------------------------------------------------------- */

const char *nx_world_peer_text(const nx_world *world, uint32_t peer, char *buf)
{
    const nx_member *m = (world->view == NULL) ? NULL : nx_view_slot(world->view, peer);
    char address[64];

    if ((m == NULL) && (world->view != NULL)) {
        (void)snprintf(buf, NX_PEER_TEXT, "a rank that is gone");
    } else if ((m == NULL) || (m->naddresses == 0)) {
        (void)snprintf(buf, NX_PEER_TEXT, "rank %" PRIu32, nx_world_rank(world, peer));
    } else {
        (void)snprintf(buf, NX_PEER_TEXT, "rank %" PRIu32 " (%s, %s)", m->rank, m->host,
                       nx_address_text(&m->addresses[0], address));
    }
    return buf;
}

uint32_t nx_world_rank(const nx_world *world, uint32_t slot)
{
    const nx_member *m = (world->view == NULL) ? NULL : nx_view_slot(world->view, slot);

    return (m == NULL) ? slot : m->rank;
}

uint32_t nx_world_slot(const nx_world *world, uint32_t rank)
{
    const nx_view *view = world->view;

    return ((view == NULL) || (rank >= view->size)) ? rank : view->members[rank].slot;
}

void nx_world_begin(nx_world *world)
{
    world->ops++;
}

void nx_world_lost(nx_world *world, nexar_err err, const char *why)
{
    if (world->closing && (world->lost_err == NEXAR_OK)) {
        world->lost_err = err;
        (void)snprintf(world->lost_why, sizeof(world->lost_why), "%s", why);
    }
}

void nx_world_end(nx_world *world)
{
    world->ops--;
    if ((world->ops == 0) && world->idle_wanted) {
        nx_event_set(world->loop, &world->idle);
    }
}

void nx_world_unclaimed(nx_world *world, int change)
{
    const uint64_t before = world->unclaimed;

    world->unclaimed = before + (uint64_t)(int64_t)change;
    if (world->event_fd < 0) {
        return;
    }
    if ((before == 0) && (world->unclaimed != 0)) {
        nx_sys_event_set(world->event_fd);
    } else if ((before != 0) && (world->unclaimed == 0)) {
        (void)nx_sys_event_clear(world->event_fd);
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
