/* world.c - creates and destroys the runtime of one rank. */
#include "world.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/os/sys.h"
#include "base/text/sentence.h"
#include "cluster/addresses.h"
#include "core/coll/host_boards.h"
#include "core/comm/arena.h"
#include "core/comm/comm.h"
#include "core/core_count.h"
#include "core/create/create.h"
#include "core/failure/failure.h"
#include "core/failure/process_exit.h"
#include "core/launcher/rendezvous.h"
#include "core/p2p/message.h"
#include "core/recovery/retry_queue.h"
#include "core/report/diagnosis.h"
#include "core/update/update.h"
#include "fork_guard.h"
#include "join_secret.h"
#include "transport_choice.h"
#include "upcalls.h"

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

/* ---- making -------------------------------------------------------------------------- */

void nx_world_set_waits(nx_world *world)
{
    char buf[NX_NUMBER_ROOM];
    const uint64_t asked = nx_setting_spin(nx_config_text(world->config, NX_SET_SPIN, buf));
    const size_t affinity = nx_config_choice(world->config, NX_SET_AFFINITY);
    const bool crowded = !nx_core_count_for_all(world);
    const bool migrates =
        (affinity == NX_AFFINITY_ON) || (crowded && (affinity != NX_AFFINITY_OFF));

    world->waits = nx_wait_policy_make(nx_machine_costs_get(), asked, crowded);
    nx_loop_set_policy(world->loop, &world->waits);
    nx_loop_set_migration(world->loop, migrates ? nx_core_count_rebalance : NULL, world);
}

/* The world has formed.  The message engine must exist before the first member connects, which may
 * happen before this process returns from joining. */
static void on_view(void *ctx, nx_join *j)
{
    nx_world *world = ctx;

    world->join = j; /* a member that is already present may make this rank dial another */
    world->view = nx_join_view(j);
    world->self = world->view->members[nx_join_rank(j)].slot;
    world->slots = world->view->slots;
    world->start_err = nx_upcalls_start_messages(world);
    if (world->start_err == NEXAR_OK) {
        world->start_err = nx_links_start(world);
    }
    if (world->start_err == NEXAR_OK) {
        nx_early_links_deliver(world);
    }
}

static void on_join_failed(void *ctx)
{
    nx_early_links_close(ctx);
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
        .allowed = nx_links_network(world),
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
    world->join_secret = (err == NEXAR_OK) ? nx_join_secret_keep(jc.join) : NULL;
    nx_config_forget_secrets(world->config);
    return (err == NEXAR_OK) ? world->start_err : err;
}

/* Waits for device operations of ended operations; with the lock. */
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

void nx_world_teardown(nx_world *world)
{
    nx_join_secret_forget(world->join_secret);
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
            nx_registry_stop(world->hub, NEXAR_ECANCELED, "the world ends");
        }
        nx_failure_quiet(world);
        nx_process_exit_stop(world);
        nx_early_links_close(world);
        if (world->rpc != NULL) {
            nx_rpc_end(world->rpc);
        }
        if (world->msg != NULL) {
            nx_msg_destroy(world->msg);
        }
        if (world->shm != NULL) {
            nx_shm_close(world->shm);
        }
        nx_loop_set_migration(world->loop, NULL, NULL); /* it knows the members */
        if (world->join != NULL) {
            nx_join_destroy(world->join);
        }
        settle_devices(world);
        nx_requests_free(world);
        nx_rpc_destroy(world->rpc);
        nx_failure_stop(world);
        nx_comms_free(world);
        nx_create_stop(world);
        nx_messages_free(world);
        nx_runners_free(world);
        nx_host_coll_close_passes(world->passes);
        nx_arenas_destroy(world->arenas);
        nx_arena_destroy(world->arena);
        if (world->hub != NULL) {
            nx_registry_destroy(world->hub);
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

/* Checks combinations of settings, before other ranks know of this one. */
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
    nx_fork_guard_watch(world);
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
        err = (nx_config_text(config, NX_SET_JOIN, buf)[0] != '\0')
                  ? join(world)
                  : nx_upcalls_start_messages(world);
        if (err == NEXAR_OK) {
            err = nx_upcalls_start_rpc(world);
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
        nx_world_teardown(world);
        return err;
    }
    *out = world;
    return NEXAR_OK;
}

/* ---- small things -------------------------------------------------------------------- */

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
