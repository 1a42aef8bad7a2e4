/*
 * update.c - nexar_comm_update and nexar_comm_leave.
 *
 * First the fast way, a small allreduce: does anybody want, or know of, a change?  If
 * not, that was all.  Otherwise, or if it fails, the agreement (agree.h) on who has
 * failed, who leaves, who joins, and what the new communicator's id is; and then each rank
 * by itself makes the same next world of it.
 */
#include "core/update.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cancellation.h"
#include "base/log.h"
#include "cluster/waiting.h"
#include "core/accord/accord.h"
#include "core/arena.h"
#include "core/coll/coll_run.h"
#include "core/device.h"
#include "core/failure/failure.h"
#include "core/forked.h"
#include "core/recover/queued.h"
#include "core/recover/recover.h"
#include "core/report/diagnosis.h"

/* What a rank says in the fast way. */
enum {
    SAYS_LEAVE = 1, /* I want to leave */
    SAYS_WAIT = 2,  /* somebody waits at the seed, and there is a place */
    SAYS_GONE = 4   /* somebody has failed, or left */
};

/* What it brings to the agreement in |flags|: all or none. */
#define FLAG_WHOLE UINT64_C(1) /* the communicator can go on as it is */

/* How long to wait at most for the word that those who joined are there. */
#define STARTED_NS UINT64_C(10000000000)

static const char NAME[] = "comm_update";

/* ---- what happens meanwhile ------------------------------------------------------------- */

void nx_update_on_waiting(void *ctx, uint32_t n)
{
    nx_world *world = ctx;

    world->waiting = n;
}

void nx_update_on_started(void *ctx, uint64_t epoch)
{
    nx_world *world = ctx;

    world->started = epoch;
    nx_event_set(world->loop, &world->start);
}

void nx_update_on_death(nx_world *world)
{
    nx_event_set(world->loop, &world->start);
}

void nx_update_on_seed(nx_world *world, bool there)
{
    world->seed_away = !there;
    nx_event_set(world->loop, &world->start);
}

/* Who may join, in the payload of |v|; |*most| is to how many the world may grow.  The
 * caller frees |*joined|. */
static nexar_err read_payload(const nx_agree_value *v, uint32_t *most, nx_member **joined,
                              uint32_t *n)
{
    nx_reader r = nx_reader_make(v->payload, v->payload_len);

    *joined = NULL;
    *n = 0;
    *most = UINT32_MAX;
    if (v->payload_len == 0) {
        return NEXAR_OK;
    }
    *most = nx_read_u32(&r);
    return nx_waiting_decode(&r, joined, n);
}

bool nx_update_expects(const nx_world *world, uint64_t member, nx_member *out)
{
    const nx_agree_value *v =
        (world->comm == NULL) ? NULL : nx_accord_accepted(world->comm->active);
    nx_member *joined = NULL;
    uint32_t n = 0, most;
    bool found = false;

    if ((v == NULL) || (read_payload(v, &most, &joined, &n) != NEXAR_OK)) {
        return false;
    }
    for (uint32_t i = 0; !found && (i < n); i++) {
        found = (joined[i].id == member);
        if (found && (out != NULL)) {
            *out = joined[i];
        }
    }
    nx_free(joined);
    return found;
}

uint32_t nx_update_alias(void *ctx, uint32_t comm)
{
    const nx_world *world = ctx;
    const nx_agree_value *v =
        (world->comm == NULL) ? NULL : nx_accord_accepted(world->comm->active);

    if (world->comm == NULL) {
        return comm;
    }
    return ((comm == world->before) || ((v != NULL) && (comm == (uint32_t)v->highest)))
               ? world->comm->inc->id
               : comm;
}

nexar_err nx_update_enough(const char *name, uint32_t left, uint32_t wanted)
{
    if (left >= wanted) {
        return NEXAR_OK;
    }
    return nx_fail(NEXAR_EPEER,
                   "%s: %" PRIu32 " rank%s would be left; min_world asks for %" PRIu32 " at least",
                   name, left, (left == 1) ? "" : "s", wanted);
}

/* ---- the fast way ----------------------------------------------------------------------- */

/* 0: as many as there may be. */
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
        const uint32_t slot = nx_incarnation_peer(inc, rank);

        if (nx_rankset_has(nx_failure_dead(world), slot) ||
            nx_rankset_has(nx_failure_left(world), slot)) {
            says |= SAYS_GONE;
        }
    }
    return says;
}

/* Whether anybody says anything; an error: that could not be found out. */
static nexar_err ask_all(nexar_comm *comm, uint64_t *said)
{
    const nx_incarnation *inc;
    uint64_t says;
    bool parted;

    nx_loop_lock(comm->world->loop);
    inc = comm->active;
    says = what_to_say(inc);
    parted = (inc->group.parted || (inc->group.broken != NEXAR_OK)) && (inc->rescue == NULL);
    nx_loop_unlock(comm->world->loop);
    if (parted) { /* others may be in an operation that this rank has not come to */
        return NEXAR_EPEER;
    }
    return nx_coll_wait(&(nx_coll_args){.name = NAME,
                                        .comm = comm,
                                        .kind = NX_ALLREDUCE,
                                        .guise = NX_GUISE_UPDATE,
                                        .send = &says,
                                        .recv = said,
                                        .count = 1,
                                        .dtype = NEXAR_U64,
                                        .op = NEXAR_BOR,
                                        .host_memory = true},
                        NULL);
}

/* Errors of the fast way that the agreement is there for: somebody is not reached, or has
 * no memory; not those that say that ranks have made different calls. */
static bool goes_on(nexar_err err)
{
    return (err == NEXAR_OK) || (err == NEXAR_EPEER) || (err == NEXAR_EREVOKED) ||
           (err == NEXAR_ENOMEM) || (err == NEXAR_ECONNECT) || (err == NEXAR_EPROTO) ||
           (err == NEXAR_ESYS);
}

/* ---- the agreement ------------------------------------------------------------------------ */

/* An update that goes on to the agreement. */
typedef struct update {
    nx_world *world;
    nx_incarnation *inc; /* the old one, held */
    bool whole;          /* the fast way has not failed here */
    nx_agree_value value;
    nx_rankset gone;   /* ranks of |comm|: the failed and the leavers */
    nx_member *joined; /* the first |njoined| of them */
    uint32_t njoined;
    uint32_t id; /* of the new communicator */
} update;

static void update_fini(update *u)
{
    nx_agree_value_fini(&u->value);
    nx_rankset_fini(&u->gone);
    nx_free(u->joined);
}

/* What this rank brings: the id is its own, so that of all that are brought none is
 * another's; the highest is taken, and with it the highest min_world. */
static nexar_err agree(update *u)
{
    nx_world *world = u->world;
    const uint64_t least = nx_config_number(world->config, NX_SET_MIN_WORLD);
    nx_agree_input input = {.flags = u->whole ? FLAG_WHOLE : 0, .leave = world->leaving};
    uint8_t *payload = nx_zalloc(NX_AGREE_PAYLOAD_MAX);
    nx_writer w = nx_writer_make(payload, NX_AGREE_PAYLOAD_MAX);
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
    nx_recover_updating(u->inc, true);
    err = nx_accord_decide(u->inc, NAME, &input, &u->value);
    nx_free(payload);
    return err;
}

static uint32_t min32(uint32_t a, uint32_t b)
{
    return (a < b) ? a : b;
}

/* What the decision means: the same on all. */
static nexar_err interpret(update *u)
{
    const nx_agree_value *v = &u->value;
    uint32_t most, waiting, stay;
    nexar_err err = read_payload(v, &most, &u->joined, &waiting);

    if (err != NEXAR_OK) {
        return err;
    }
    nx_rankset_copy(&u->gone, &v->failed);
    (void)nx_rankset_unite(&u->gone, &v->leavers);
    stay = u->inc->size - u->gone.count;
    u->id = (uint32_t)v->highest;
    if (u->id == 0) {
        return nx_fail(NEXAR_ENOTSUP, "%s: the ranks have no ids for communicators left", NAME);
    }
    u->njoined = 0;
    if ((stay > 0) && (waiting > 0)) {
        u->njoined = min32(waiting, (most > stay) ? most - stay : 0);
        u->njoined = min32(u->njoined, NX_WORLD_MAX - u->world->slots);
    }
    return NEXAR_OK;
}

/* ---- the next world -------------------------------------------------------------------------- */

static bool leaves(const update *u)
{
    return nx_rankset_has(&u->value.leavers, u->inc->rank);
}

/* Those who go have nothing more to say, here and below. */
static void let_go(const update *u)
{
    nx_world *world = u->world;

    for (uint32_t rank = 0; (rank = nx_rankset_next(&u->value.leavers, rank)) < u->gone.n; rank++) {
        if (!nx_rankset_has(&u->value.failed, rank)) {
            nx_failure_leaves(world, nx_incarnation_peer(u->inc, rank));
        }
    }
    nx_failure_agreed(u->inc, &u->value.failed); /* while the old view can name them */
    nx_accord_let_go(u->inc);
}

/* Frees what those who are gone held. */
static void drop_gone(const update *u)
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
        nx_msg_retire(world->msg, slot, NEXAR_EPEER, "it has failed"); /* before: recover.h */
        if ((world->arenas != NULL) && (world->ops == 0)) {            /* nobody looks at them */
            nx_arenas_drop(world->arenas, slot);
        }
    }
}

/* Those who were in the view and are not in the world any more: recovery=automatic has
 * perhaps let some go before. */
static void gone_from_view(const update *u, nx_rankset *gone)
{
    const nx_view *view = u->world->view;

    for (uint32_t rank = 0; rank < view->size; rank++) {
        const int now = nx_incarnation_rank_of(u->inc, view->members[rank].slot);

        if ((now < 0) || nx_rankset_has(&u->gone, (uint32_t)now)) {
            (void)nx_rankset_add(gone, rank);
        }
    }
}

/* The view, and all that is by slot. */
static nexar_err take_view(const update *u)
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

/* The world's communicator points to the new incarnation; or, without memory, to the old one. */
static nexar_err take_comm(const update *u)
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
    world->before = u->inc->id;
    nx_incarnation_revoke(u->inc);
    nx_rpc_rename(world->rpc, nx_comm_newest(comm)->id, next->id);
    nx_comm_replace(comm, next);
    nx_failure_opened(next);
    nx_failure_call(comm);
    return NEXAR_OK;
}

/* Whether one of the new world is known to be dead: the seed may wait for its word in vain, and
 * the next update is due in any case. */
static bool has_lost(const nx_world *world)
{
    for (uint32_t rank = 0; rank < world->view->size; rank++) {
        if (nx_rankset_has(nx_failure_dead(world), world->view->members[rank].slot)) {
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

/* Those who joined, in the slots from |first| on, are about to return from nexar_init: whoever
 * dials them before would find them closed, or silent.  The seed waits until all have the view;
 * one that is silent, of those who join or of the others, it does not find out sooner than its
 * own time-out tells, so it is told when this rank has waited for as long as it waits for anybody.
 * STARTED_NS is for a seed that does not answer that. */
static void await_joined(nx_world *world, uint32_t first)
{
    const uint64_t begun = nx_loop_refresh(world->loop), end = begun + STARTED_NS;
    const uint64_t patience = nx_config_number(world->config, NX_SET_HEARTBEAT_TIMEOUT);
    nx_blocked b = {.what = {.kind = NX_WHAT_OTHER, .name = NAME, .peer = NX_ANY_PEER}};
    uint64_t until = (patience < STARTED_NS) ? begun + patience : end;

    nx_oplog_block(&world->log, &b, begun);
    expect(world, first, false);
    while ((world->started < world->view->epoch) && !world->seed_away && !has_lost(world)) {
        world->start.set = false;
        if (nx_loop_wait(world->loop, &world->start, until)) {
            continue;
        }
        if (until == end) {
            nx_log(NX_LOG_WARN, "the seed does not say that those who joined are there");
            break;
        }
        until = end;
        nx_join_hurry(world->join);
    }
    expect(world, first, true);
    nx_oplog_unblock(&world->log, &b, nx_loop_now(world->loop), NEXAR_OK);
}

static nexar_err become(const update *u)
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
    nx_world_set_spin(world);
    nx_diagnosis_resize(world);
    drop_gone(u);
    nx_parked_settle(world);
    if (u->njoined > 0) {
        await_joined(world, slots);
    }
    return NEXAR_OK;
}

/* ---- all of it ----------------------------------------------------------------------------------
 */

static void fill(nexar_change *change, const update *u, const nx_incarnation *now)
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

/* Without room to go on this rank must not be waited for: the others find it gone. */
static nexar_err give_up(nx_world *world, nexar_err err)
{
    char why[NX_ERROR_ROOM];

    (void)strncpy(why, nexar_last_error(), sizeof(why) - 1);
    why[sizeof(why) - 1] = '\0';
    nx_failure_quit(world, "this rank could not take part in comm_update");
    return nx_fail(err, "%s: this rank is out of the world: %s", NAME, why);
}

/* What all have agreed on, in |u|.  NEXAR_EPEER, with recovery=automatic: a rank has failed
 * before all had come to the agreement, and the communicator was rebuilt instead. */
static nexar_err find_out(update *u)
{
    nexar_err err;

    if (!nx_recover_may_update(u->inc)) {
        return nx_recover_rebuild(u->inc, NAME);
    }
    if (!u->whole) { /* nobody waits in the fast way any more */
        err = nx_accord_revoke(u->inc);
        if (err != NEXAR_OK) {
            return err;
        }
    }
    err = agree(u);
    if (((err == NEXAR_OK) || (err == NEXAR_EPEER)) &&
        !nx_recover_update_counts(u->inc, (err == NEXAR_OK) && (u->value.failed.count > 0))) {
        return nx_recover_rebuild(u->inc, NAME);
    }
    return (err == NEXAR_OK) ? interpret(u) : err;
}

/* |*stays|: this rank is in the world from now on.  With the lock. */
static nexar_err change_world(update *u, nexar_change *change, bool *stays)
{
    nx_world *world = u->world;
    nexar_err err = find_out(u);
    bool same;

    if (err != NEXAR_OK) {
        return (err == NEXAR_ENOMEM) ? give_up(world, err) : err;
    }
    same = (u->gone.count == 0) && (u->njoined == 0) && ((u->value.flags & FLAG_WHOLE) != 0);
    if (u->gone.count < u->inc->size) { /* or all leave */
        err = nx_update_enough(NAME, u->inc->size - u->gone.count + u->njoined,
                               (uint32_t)(u->value.highest >> 32));
    }
    if (err != NEXAR_OK) {
        return err;
    }
    *stays = !leaves(u);
    if (*stays && !same) {
        err = become(u);
        if (err != NEXAR_OK) {
            return give_up(world, err);
        }
    }
    fill(change, u, *stays ? world->comm->inc : NULL);
    return NEXAR_OK;
}

static nexar_err slow_way(nexar_comm **comm, bool whole, nexar_change *change)
{
    nx_world *world = (*comm)->world;
    update u = {.world = world, .whole = whole};
    bool stays = true;
    nexar_err err;

    nx_loop_lock(world->loop);
    u.inc = nx_incarnation_hold((*comm)->active);
    if ((nx_agree_value_init(&u.value, u.inc->size, NX_AGREE_PAYLOAD_MAX) != NEXAR_OK) ||
        (nx_rankset_init(&u.gone, u.inc->size) != NEXAR_OK)) {
        err = give_up(world, NEXAR_ENOMEM);
    } else {
        err = change_world(&u, change, &stays);
        nx_recover_updating(u.inc, false);
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

static nexar_err not_the_world(const char *name)
{
    return nx_fail(NEXAR_EINVAL, "%s: give the world, not a communicator made from it", name);
}

/* Whether |comm|, with recovery=automatic, was rebuilt when a collective ended with
 * NEXAR_EPEER; if too few are left, or could not agree, it was not. */
static bool was_mended(nexar_comm *comm)
{
    bool lost;

    nx_loop_lock(comm->world->loop);
    lost = nx_recover_is_lost(comm->active);
    nx_loop_unlock(comm->world->loop);
    return !lost;
}

static nexar_err update_once(nexar_comm **world, nexar_change *change)
{
    const bool mends = nx_recover_is_automatic((*world)->world) && (nexar_size(*world) > 1);
    uint64_t said = 0;
    nexar_err err = ask_all(*world, &said);

    if (!goes_on(err) || ((err == NEXAR_EPEER) && mends && was_mended(*world))) {
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

    if ((world == NULL) || (*world == NULL)) {
        return nx_fail(NEXAR_EINVAL, "%s: world is NULL", NAME);
    }
    err = nx_forked_check(NAME, (*world)->world);
    if (err != NEXAR_OK) {
        return err;
    }
    if (*world != (*world)->world->comm) {
        return not_the_world(NAME);
    }
    do { /* with retry=on all ranks are in it, and run it again on what was rebuilt */
        epoch = (*world)->epoch;
        err = update_once(world, change);
    } while ((err == NEXAR_EPEER) && (*world != NULL) && (*world)->retry.on &&
             ((*world)->epoch != epoch));
    return err;
}

nexar_err nexar_comm_leave(nexar_comm *world)
{
    NX_NOT_CANCELLED;
    nexar_err err;

    if (world == NULL) {
        return nx_fail(NEXAR_EINVAL, "comm_leave: world is NULL");
    }
    err = nx_forked_check("comm_leave", world->world);
    if (err != NEXAR_OK) {
        return err;
    }
    if (world != world->world->comm) {
        return not_the_world("comm_leave");
    }
    nx_loop_lock(world->world->loop);
    world->world->leaving = true;
    nx_loop_unlock(world->world->loop);
    return NEXAR_OK;
}
