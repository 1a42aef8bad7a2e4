/*
 * update.c - nexar_comm_update and nexar_comm_leave.
 *
 * The fast path is a small allreduce: does any rank want, or know of, a change?  If not, the update
 * is done.  Otherwise, or if the fast path fails, the ranks run the agreement (consensus.h).  It
 * decides the failed ranks, the leavers, the joiners and the new communicator's id.  Each rank then
 * derives the same next world locally.
 */
#include <inttypes.h>

#include "base/alloc.h"
#include "base/os/cancellation.h"
#include "base/text/sentence.h"
#include "core/coll/coll_run.h"
#include "core/comm/comm_change.h"
#include "core/failure/failure.h"
#include "core/recovery/recovery.h"
#include "core/recovery/retry_queue.h"
#include "core/world/fork_guard.h"
#include "update_inner.h"

/* Flags of the fast path. */
enum {
    SAYS_LEAVE = 1, /* this rank wants to leave */
    SAYS_WAIT = 2,  /* a joiner waits at the seed, and the world has room */
    SAYS_GONE = 4   /* a rank has failed, or left */
};

/* Contribution to the agreement in |flags|, combined by and. */
#define FLAG_WHOLE UINT64_C(1) /* the communicator can continue unchanged */

nexar_err nx_update_enough(const char *name, uint32_t left, uint32_t wanted)
{
    if (left >= wanted) {
        return NEXAR_OK;
    }
    return nx_fail(NEXAR_EPEER,
                   "%s: %" PRIu32 " rank%s would be left; min_world asks for %" PRIu32 " at least",
                   name, left, (left == 1) ? "" : "s", wanted);
}

/* ---- the fast path ---------------------------------------------------------------------- */

/* 0: the maximum. */
static uint32_t most_ranks(const nx_world *world)
{
    const uint64_t most = nx_config_number(world->config, NX_SET_MAX_WORLD);

    return (most == 0) ? UINT32_MAX : (uint32_t)most;
}

/* With the lock. */
static uint64_t what_to_say(const nx_incarnation *inc)
{
    const nx_world *world = inc->world;
    uint64_t says = world->leaving ? SAYS_LEAVE : 0;

    if ((world->waiting > 0) && (inc->size < most_ranks(world)) && (world->slots < NX_WORLD_MAX)) {
        says |= SAYS_WAIT;
    }
    for (uint32_t rank = 0; rank < inc->size; rank++) {
        if (nx_failure_life(world, nx_incarnation_peer(inc, rank)) >= NX_LIFE_LEFT) {
            says |= SAYS_GONE;
        }
    }
    return says;
}

/* Whether any rank has set a flag.  An error: that is unknown. */
static nexar_err ask_all(nexar_comm *comm, uint64_t *said)
{
    const nx_incarnation *inc;
    uint64_t says;
    bool diverged;

    nx_loop_lock(comm->world->loop);
    inc = comm->active;
    says = what_to_say(inc);
    diverged = (inc->group.diverged || (inc->group.broken != NEXAR_OK)) && (inc->rescue == NULL);
    nx_loop_unlock(comm->world->loop);
    if (diverged) { /* other ranks may be in an operation that this rank has not begun */
        return NEXAR_EPEER;
    }
    return nx_coll_wait(&(nx_coll_args){.name = NX_UPDATE_NAME,
                                        .comm = comm,
                                        .kind = NX_ALLREDUCE,
                                        .guise = NX_VARIANT_UPDATE,
                                        .send = &says,
                                        .recv = said,
                                        .count = 1,
                                        .dtype = NEXAR_U64,
                                        .op = NEXAR_BOR,
                                        .host_memory = true},
                        NULL);
}

/* Errors of the fast path that the agreement can resolve: a rank is unreachable, or has no memory.
 * Errors that report different calls of the ranks are not among them. */
static bool goes_on(nexar_err err)
{
    return (err == NEXAR_OK) || (err == NEXAR_EPEER) || (err == NEXAR_EREVOKED) ||
           (err == NEXAR_ENOMEM) || (err == NEXAR_ECONNECT) || (err == NEXAR_EPROTO) ||
           (err == NEXAR_ESYS);
}

/* ---- the agreement ------------------------------------------------------------------------ */

static void update_fini(nx_update *u)
{
    nx_consensus_value_fini(&u->value);
    nx_rankset_fini(&u->gone);
    nx_free(u->joined);
}

/* This rank's contribution.  The id is this rank's own, so no two contributed ids are equal.  The
 * maximum wins, and with it the highest min_world. */
static nexar_err agree(nx_update *u)
{
    nx_world *world = u->world;
    const uint64_t least = nx_config_number(world->config, NX_SET_MIN_WORLD);
    nx_consensus_input input = {.flags = u->whole ? FLAG_WHOLE : 0, .leave = world->leaving};
    uint8_t *payload = nx_zalloc(NX_CONSENSUS_PAYLOAD_MAX);
    nx_writer w = nx_writer_make(payload, NX_CONSENSUS_PAYLOAD_MAX);
    nexar_err err;

    if (payload == NULL) {
        return nx_fail_nomem("an update");
    }
    input.highest = (least << 32) | nx_comm_take_id(world);
    nx_write_u32(&w, most_ranks(world));
    if ((world->waiting > 0) && (nx_join_waiting(world->join, &w, UINT32_MAX) > 0)) {
        input.payload = payload;
        input.payload_len = (uint32_t)w.len;
    }
    u->inc->recovery.updating = true;
    err = nx_agreement_decide(u->inc, NX_UPDATE_NAME, &input, &u->value);
    nx_free(payload);
    return err;
}

static uint32_t min32(uint32_t a, uint32_t b)
{
    return (a < b) ? a : b;
}

/* The meaning of the decision, equal on all ranks. */
static nexar_err interpret(nx_update *u)
{
    const nx_consensus_value *v = &u->value;
    uint32_t most, waiting, stay;
    nexar_err err = nx_update_read(v, &most, &u->joined, &waiting);

    if (err != NEXAR_OK) {
        return err;
    }
    nx_rankset_copy(&u->gone, &v->failed);
    (void)nx_rankset_unite(&u->gone, &v->leavers);
    stay = u->inc->size - u->gone.count;
    u->id = (uint32_t)v->highest;
    if (u->id == 0) {
        return nx_fail(NEXAR_ENOTSUP, "%s: the ranks have no ids for communicators left",
                       NX_UPDATE_NAME);
    }
    u->njoined = 0;
    if ((stay > 0) && (waiting > 0)) {
        u->njoined = min32(waiting, (most > stay) ? most - stay : 0);
        u->njoined = min32(u->njoined, NX_WORLD_MAX - u->world->slots);
    }
    return NEXAR_OK;
}

/* ---- the complete update ---------------------------------------------------------------- */

void nx_update_change(nexar_change *change, const nx_update *u, const nx_incarnation *now)
{
    if (change == NULL) {
        return;
    }
    *change = (nexar_change){.old_rank = (int)u->inc->rank,
                             .old_size = (int)u->inc->size,
                             .new_rank = (now == NULL) ? -1 : (int)now->rank,
                             .new_size = (int)(u->inc->size - u->gone.count + u->njoined),
                             .joined = (int)u->njoined,
                             .left = (int)(u->gone.count - u->value.failed.count),
                             .failed = (int)u->value.failed.count};
}

/* Without memory to continue, this rank leaves the world, so that no rank waits for it. */
static nexar_err give_up(nx_world *world, nexar_err err)
{
    char why[NX_ERROR_ROOM];

    (void)nx_sentence(why, sizeof(why), "%s", nexar_last_error());
    nx_failure_quit(world, "this rank could not take part in comm_update");
    return nx_fail(err, "%s: this rank is out of the world: %s", NX_UPDATE_NAME, why);
}

/* The agreed outcome, in |u|.  NEXAR_EPEER, with recovery=automatic: a rank has failed before all
 * ranks had the outcome, and the communicator was rebuilt instead. */
static nexar_err find_out(nx_update *u)
{
    nexar_err err;

    if ((u->inc->recovery.state == NX_REPAIRING) || (u->inc->recovery.state == NX_REPAIRED)) {
        return nx_recovery_rebuild(u->inc, NX_UPDATE_NAME);
    }
    if (!u->whole) { /* no rank waits in the fast path any more */
        err = nx_agreement_revoke(u->inc);
        if (err != NEXAR_OK) {
            return err;
        }
    }
    err = agree(u);
    if (((err == NEXAR_OK) || (err == NEXAR_EPEER)) &&
        !nx_recovery_update_counts(u->inc, (err == NEXAR_OK) && (u->value.failed.count > 0))) {
        return nx_recovery_rebuild(u->inc, NX_UPDATE_NAME);
    }
    return (err == NEXAR_OK) ? interpret(u) : err;
}

static bool leaves(const nx_update *u)
{
    return nx_rankset_has(&u->value.leavers, u->inc->rank);
}

/* |*stays|: this rank is in the world from now on.  With the lock. */
static nexar_err change_world(nx_update *u, nexar_change *change, bool *stays)
{
    nx_world *world = u->world;
    nexar_err err = find_out(u);
    bool same;

    if (err != NEXAR_OK) {
        return (err == NEXAR_ENOMEM) ? give_up(world, err) : err;
    }
    same = (u->gone.count == 0) && (u->njoined == 0) && ((u->value.flags & FLAG_WHOLE) != 0);
    if (u->gone.count < u->inc->size) { /* or all ranks leave */
        err = nx_update_enough(NX_UPDATE_NAME, u->inc->size - u->gone.count + u->njoined,
                               (uint32_t)(u->value.highest >> 32));
    }
    if (err != NEXAR_OK) {
        return err;
    }
    *stays = !leaves(u);
    if (*stays && !same) {
        err = nx_update_apply(u);
        if (err != NEXAR_OK) {
            return give_up(world, err);
        }
    }
    nx_update_change(change, u, *stays ? world->comm->inc : NULL);
    if (*stays && (u->gone.count + u->njoined > 0)) {
        nx_change_tell(world->comm, &world->comm->inc->change);
    }
    return NEXAR_OK;
}

static nexar_err slow_way(nexar_comm **comm, bool whole, nexar_change *change)
{
    nx_world *world = (*comm)->world;
    nx_update u = {.world = world, .whole = whole};
    bool stays = true;
    nexar_err err;

    nx_loop_lock(world->loop);
    u.inc = nx_incarnation_hold((*comm)->active);
    if ((nx_consensus_value_init(&u.value, u.inc->size, NX_CONSENSUS_PAYLOAD_MAX) != NEXAR_OK) ||
        (nx_rankset_init(&u.gone, u.inc->size) != NEXAR_OK)) {
        err = give_up(world, NEXAR_ENOMEM);
    } else {
        err = change_world(&u, change, &stays);
        u.inc->recovery.updating = false;
    }
    nx_incarnation_release(u.inc);
    nx_loop_unlock(world->loop);
    update_fini(&u);
    if ((err != NEXAR_OK) || stays) {
        return err;
    }
    *comm = NULL;
    return nx_world_destroy(world);
}

/* |world| is the world of a call. */
static nexar_err check(const char *name, const nexar_comm *world)
{
    nexar_err err;

    if (world == NULL) {
        return nx_fail(NEXAR_EINVAL, "%s: world is NULL", name);
    }
    err = nx_fork_guard_check(name, world->world);
    if ((err == NEXAR_OK) && (world != world->world->comm)) {
        err = nx_fail(NEXAR_EINVAL, "%s: give the world, not a communicator made from it", name);
    }
    return err;
}

/* Whether |comm|, with recovery=automatic, was rebuilt when a collective ended with NEXAR_EPEER. It
 * was not if too few ranks are left, or if they could not agree. */
static bool was_repaired(nexar_comm *comm)
{
    bool lost;

    nx_loop_lock(comm->world->loop);
    lost = (comm->active->recovery.state == NX_LOST);
    nx_loop_unlock(comm->world->loop);
    return !lost;
}

static nexar_err update_once(nexar_comm **world, nexar_change *change)
{
    const bool mends = nx_recovery_is_automatic((*world)->world) && (nexar_size(*world) > 1);
    uint64_t said = 0;
    nexar_err err = ask_all(*world, &said);

    if (!goes_on(err) || ((err == NEXAR_EPEER) && mends && was_repaired(*world))) {
        return err;
    }
    if ((err != NEXAR_OK) || (said != 0)) {
        return slow_way(world, err == NEXAR_OK, change);
    }
    if (change != NULL) {
        const int rank = nexar_rank(*world), size = nexar_size(*world);

        *change =
            (nexar_change){.old_rank = rank, .old_size = size, .new_rank = rank, .new_size = size};
    }
    return NEXAR_OK;
}

nexar_err nexar_comm_update(nexar_comm **world, nexar_change *change)
{
    NX_NOT_CANCELLED;
    unsigned epoch;
    nexar_err err;

    err = check(NX_UPDATE_NAME, (world == NULL) ? NULL : *world);
    if ((err != NEXAR_OK) || (world == NULL) || (*world == NULL)) {
        return err;
    }
    do { /* with retry=on all ranks are in it, and repeat it on the rebuilt communicator */
        epoch = (*world)->epoch;
        err = update_once(world, change);
    } while ((err == NEXAR_EPEER) && (*world != NULL) && (*world)->retry.on &&
             ((*world)->epoch != epoch));
    return err;
}

nexar_err nexar_comm_leave(nexar_comm *world)
{
    NX_NOT_CANCELLED;
    const nexar_err err = check("comm_leave", world);

    if (err != NEXAR_OK) {
        return err;
    }
    nx_loop_lock(world->world->loop);
    world->world->leaving = true;
    nx_loop_unlock(world->world->loop);
    return NEXAR_OK;
}
