/* update_apply.c - the next world: each rank applies the agreed change locally. */
#include "base/log.h"
#include "core/comm/arena.h"
#include "core/comm/comm_change.h"
#include "core/failure/failure.h"
#include "core/report/diagnosis.h"
#include "update_inner.h"

/* The longest wait for START of the joiners. */
#define STARTED_NS UINT64_C(10000000000)

/* Leaving ranks send nothing more, at any layer. */
static void let_go(const nx_update *u)
{
    nx_world *world = u->world;

    for (uint32_t rank = 0; (rank = nx_rankset_next(&u->value.leavers, rank)) < u->gone.n; rank++) {
        if (!nx_rankset_has(&u->value.failed, rank)) {
            nx_failure_left(world, nx_incarnation_peer(u->inc, rank), NX_SOURCE_CONSENSUS);
        }
    }
    nx_failure_agreed(u->inc, &u->value.failed); /* the old view can still name them */
    nx_agreement_let_go(u->inc);
}

/* Frees the memory of leaving ranks. */
static void drop_gone(const nx_update *u)
{
    nx_world *world = u->world;

    for (uint32_t rank = 0; (rank = nx_rankset_next(&u->gone, rank)) < u->gone.n; rank++) {
        nx_msg_retire(world->msg, nx_incarnation_peer(u->inc, rank), NEXAR_EPEER,
                      nx_rankset_has(&u->value.leavers, rank) ? "it has left the world"
                                                              : "it has failed");
    }
    for (uint32_t slot = 0; (world->join != NULL) && (slot < world->slots); slot++) {
        if (nx_view_slot(world->view, slot) != NULL) {
            continue;
        }
        nx_msg_retire(world->msg, slot, NEXAR_EPEER, "it has failed"); /* first: recovery.h */
        if ((world->arenas != NULL) && (world->ops == 0)) {            /* no caller claims them */
            nx_arenas_drop(world->arenas, slot);
        }
    }
}

/* Ranks of the view that are no longer in the world: recovery=automatic may have excluded some
 * before. */
static void gone_from_view(const nx_update *u, nx_rankset *gone)
{
    const nx_view *view = u->world->view;

    for (uint32_t rank = 0; rank < view->size; rank++) {
        const int now = nx_incarnation_rank_of(u->inc, view->members[rank].slot);

        if ((now < 0) || nx_rankset_has(&u->gone, (uint32_t)now)) {
            (void)nx_rankset_add(gone, rank);
        }
    }
}

/* The view, and all state by slot. */
static nexar_err take_view(const nx_update *u)
{
    nx_world *world = u->world;
    nx_rankset gone;
    nexar_err err;

    if (world->join == NULL) {
        return NEXAR_OK;
    }
    err = nx_rankset_init(&gone, world->view->size);
    if (err != NEXAR_OK) {
        return err;
    }
    gone_from_view(u, &gone);
    err = nx_join_advance(world->join, &gone, u->joined, u->njoined, u->id);
    nx_rankset_fini(&gone);
    if (err != NEXAR_OK) {
        return err;
    }
    world->view = nx_join_view(world->join);
    world->slots = world->view->slots;
    err = nx_msg_grow(world->msg, world->slots);
    err = (err == NEXAR_OK) ? nx_failure_grow(world) : err;
    if ((err == NEXAR_OK) && (world->arenas != NULL)) {
        err = nx_arenas_grow(world->arenas, world->slots);
    }
    return err;
}

/* The result of nexar_last_change() for |next|.  If no rank came or left, it stays as before. */
static nexar_err note_change(const nx_update *u, nx_incarnation *next)
{
    if (u->gone.count + u->njoined == 0) {
        return nx_change_copy(next, u->world->comm->inc);
    }
    nx_update_change(&next->change, u, next);
    return nx_change_keep(next, &u->gone, &u->value.failed, NEXAR_CHANGE_FAILED);
}

/* The world's communicator points to the new incarnation; without memory, it keeps the old one. */
static nexar_err take_comm(const nx_update *u)
{
    nx_world *world = u->world;
    nexar_comm *comm = world->comm;
    nx_incarnation *next;
    nx_members who;
    nexar_err err = NEXAR_OK;

    if (comm->called.words != NULL) {
        err = nx_rankset_grow(&comm->called, world->slots);
    }
    if (err == NEXAR_OK) {
        err = nx_comm_world_members(world, u->id, &who);
    }
    if (err == NEXAR_OK) {
        err = nx_incarnation_open(comm, &who, &next);
    }
    if (err != NEXAR_OK) {
        return err;
    }
    err = note_change(u, next);
    if (err != NEXAR_OK) {
        nx_incarnation_release(next);
        return err;
    }
    world->before = u->inc->id;
    nx_incarnation_revoke(u->inc);
    nx_comm_replace(comm, next);
    nx_failure_opened(next);
    nx_failure_call(comm);
    return NEXAR_OK;
}

/* Whether a member of the new world is known to have failed.  The seed may then wait for its
 * confirmation in vain, and the next update is due in any case. */
static bool has_lost(const nx_world *world)
{
    for (uint32_t rank = 0; rank < world->view->size; rank++) {
        if (nx_failure_life(world, world->view->members[rank].slot) == NX_LIFE_FAILED) {
            return true;
        }
    }
    return false;
}

static void expect(nx_world *world, uint32_t first, bool can_answer)
{
    for (uint32_t slot = first; slot < world->slots; slot++) {
        nx_failure_expect(world, slot, can_answer);
    }
}

/* Waits until the joiners, in the slots from |first| on, are about to return from nexar_init.  A
 * rank that dials them earlier would find them closed or silent.  The seed waits until all have the
 * view. It detects a silent rank only after its own time-out.  So this rank notifies the seed after
 * it has waited as long as for any peer.  STARTED_NS is the limit for a seed that does not
 * answer. */
static void await_joined(nx_world *world, uint32_t first)
{
    const uint64_t begun = nx_loop_refresh(world->loop), end = begun + STARTED_NS;
    const uint64_t patience = nx_config_number(world->config, NX_SET_HEARTBEAT_TIMEOUT);
    nx_blocked b = {.what = {.kind = NX_WHAT_OTHER, .name = NX_UPDATE_NAME, .peer = NX_ANY_PEER}};
    uint64_t until = (patience < STARTED_NS) ? begun + patience : end;

    nx_oplog_block(&world->log, &b, begun);
    expect(world, first, false);
    while ((world->started < world->view->epoch) && !world->seed_away && !has_lost(world)) {
        world->start.set = false;
        if (nx_loop_wait(world->loop, &world->start, until)) {
            continue;
        }
        if (until == end) {
            nx_log(NX_LOG_WARN, "the seed does not confirm that the joiners are ready");
            break;
        }
        until = end;
        nx_join_urge(world->join);
    }
    expect(world, first, true);
    nx_oplog_unblock(&world->log, &b, nx_loop_now(world->loop), NEXAR_OK);
}

nexar_err nx_update_apply(const nx_update *u)
{
    nx_world *world = u->world;
    const uint32_t slots = world->slots;
    nexar_err err;

    let_go(u);
    err = take_view(u);
    if (err == NEXAR_OK) {
        err = take_comm(u);
    }
    if (err != NEXAR_OK) {
        return err;
    }
    nx_world_set_waits(world);
    nx_diagnosis_resize(world);
    drop_gone(u);
    nx_early_links_deliver(world);
    if (u->njoined > 0) {
        await_joined(world, slots);
    }
    return NEXAR_OK;
}
