/* finalize.c - an orderly end of a world: operations end, other ranks are notified, links drain. */
#include <stdio.h>

#include "base/log.h"
#include "base/text/sentence.h"
#include "core/comm/comm.h"
#include "core/failure/failure.h"
#include "core/launcher/rendezvous.h"
#include "core/report/diagnosis.h"
#include "core/world/local_seed.h"

/* The limit for links that do not drain.  A link detects a failed peer long before. */
#define LEAVE_NS UINT64_C(10000000000)

/* Waits for |event|, at most until the deadline for leaving. */
static bool wait_leaving(nx_world *world, nx_event *event)
{
    return nx_loop_wait(world->loop, event, nx_loop_refresh(world->loop) + LEAVE_NS);
}

void nx_world_part(nx_incarnation *inc)
{
    if (inc->world->departing && (inc->comm->retry.queued == 0) &&
        (inc->group.departure == NX_DEPARTURE_NONE)) {
        nx_group_detach(&inc->group, NX_DEPARTURE_FINALIZED);
    }
}

void nx_world_part_from(nx_world *world, uint32_t peer)
{
    if (!world->departing) {
        return;
    }
    nx_list_for_each (at, &world->incarnations) {
        nx_group_detach_from_peer(&nx_list_entry(at, nx_incarnation, link)->group, peer);
    }
}

/* An operation is pending that other ranks may never receive or join, since they finalize, too.
 * This rank notifies the ranks that wait for it. */
static void depart(nx_world *world)
{
    world->departing = true;
    nx_msg_stop_receiving(world->msg, NX_CLASS_USER);
    nx_list_for_each (at, &world->incarnations) {
        nx_world_part(nx_list_entry(at, nx_incarnation, link));
    }
}

/* Waits for running operations; reports list this wait. */
static void end_all(nx_world *world)
{
    nx_blocked b = {.what = {.kind = NX_WHAT_OTHER, .name = "finalize", .peer = NX_ANY_PEER}};
    nx_event served = {0};

    nx_oplog_block(&world->log, &b, nx_loop_now(world->loop));
    /* Waits for running handlers, and sends their replies. */
    nx_rpc_close(world->rpc, &served);
    (void)nx_loop_wait(world->loop, &served, UINT64_MAX);
    nx_rpc_end(world->rpc);
    /* Waits for sent messages: each is received by its peer, or fails with it. */
    if (world->ops != 0) {
        depart(world);
    }
    if (world->ops != 0) {
        world->idle_wanted = true;
        (void)nx_loop_wait(world->loop, &world->idle, UINT64_MAX);
    }
    nx_oplog_unblock(&world->log, &b, nx_loop_now(world->loop), NEXAR_OK);
}

/* Data sent over the network was acknowledged, or the deadline has passed. */
static bool drain_network(nx_world *world)
{
    nx_inet *net = nx_join_endpoint(world->join);
    bool quiet = true;

    for (int stage = 0; stage < NX_INET_STAGES; stage++) {
        nx_event drained = {0};

        nx_inet_drain(net, stage, &drained);
        quiet = wait_leaving(world, &drained) && quiet;
        nx_inet_drain(net, stage, NULL);
    }
    return quiet;
}

nexar_err nx_world_destroy(nx_world *world)
{
    nx_event closed = {0}, emptied = {0}, left = {0};
    nx_rendezvous *rendezvous = world->rendezvous;
    nx_local_seed *local_seed = world->local_seed;
    char why[NX_ERROR_ROOM];
    nexar_err err;

    nx_loop_lock(world->loop);
    nx_failure_conclude(world); /* the application is notified of all known failures */
    world->closing = true;
    end_all(world);
    nx_diagnosis_stop(world);
    nx_msg_close(world->msg, &closed);
    bool quiet = wait_leaving(world, &closed);
    nx_failure_quiet(world);
    if (world->shm != NULL) { /* first: data that fails on this path uses the network */
        nx_shm_drain(world->shm, &emptied);
        quiet = wait_leaving(world, &emptied) && quiet;
        nx_shm_drain(world->shm, NULL);
    }
    if (world->join != NULL) {
        quiet = drain_network(world) && quiet;
        nx_join_leave(world->join, &left);
        (void)wait_leaving(world, &left);
    }
    if (!quiet) {
        nx_log(NX_LOG_WARN, "left without the last word of some ranks");
    }
    err = world->lost_err;
    (void)nx_sentence(why, sizeof(why), "%s", world->lost_why);
    nx_loop_unlock(world->loop);
    nx_world_teardown(world);
    nx_local_seed_release(local_seed);
    nx_rendezvous_end(rendezvous); /* last: its seed gets the goodbye */
    return (err == NEXAR_OK) ? NEXAR_OK : nx_fail(err, "finalize: %s", why);
}
