/* comm_create.c - nexar_comm_create. */
#include <stdio.h>

#include "base/alloc.h"
#include "base/os/cancellation.h"
#include "base/text/sentence.h"
#include "core/comm/comm.h"
#include "core/create/create_inner.h"
#include "core/failure/failure.h"
#include "core/world/fork_guard.h"

static const char NAME[] = "comm_create";

/* ---- arguments -------------------------------------------------------------------------- */

static nexar_err check_pointers(const nexar_comm *parent, const int ranks[], nexar_comm *const *out)
{
    if ((parent == NULL) || (ranks == NULL) || (out == NULL)) {
        return nx_fail(NEXAR_EINVAL, "%s: %s is NULL", NAME,
                       (parent == NULL)  ? "parent"
                       : (ranks == NULL) ? "ranks"
                                         : "out");
    }
    return nx_fork_guard_check(NAME, parent->world);
}

/* Enters the ranks of the list into |seen|, which is empty. */
static nexar_err check_list(const int ranks[], size_t n, nx_seat seat, nx_rankset *seen)
{
    for (size_t i = 0; i < n; i++) {
        if ((ranks[i] < 0) || ((uint32_t)ranks[i] >= seat.size)) {
            return nx_fail(NEXAR_EINVAL, "%s: ranks[%zu] is %d; ranks are 0 to %u", NAME, i,
                           ranks[i], seat.size - 1);
        }
        if (!nx_rankset_add(seen, (uint32_t)ranks[i])) {
            return nx_fail(NEXAR_EINVAL, "%s: rank %d is listed twice", NAME, ranks[i]);
        }
    }
    if (!nx_rankset_has(seen, seat.rank)) {
        return nx_fail(NEXAR_EINVAL, "%s: the caller, rank %u, is not listed", NAME, seat.rank);
    }
    return NEXAR_OK;
}

static nexar_err check_ranks(const nexar_comm *parent, const int ranks[], size_t n)
{
    const nx_seat seat = nx_comm_seat(parent);
    nx_rankset seen;
    nexar_err err = nx_rankset_init(&seen, seat.size);

    if (err == NEXAR_OK) {
        err = check_list(ranks, n, seat, &seen);
        nx_rankset_fini(&seen);
    }
    return err;
}

/* ---- waiting ---------------------------------------------------------------------------- */

static void waits_for(void *ctx, uint32_t slot)
{
    nx_failure_call_for(ctx, slot);
}

/* The ranks that had failed or left before the call. */
static void tell_gone(nx_create_call *call)
{
    nx_world *world = call->world;
    const nx_creation *c = &call->creation;
    char sentence[NX_CREATION_WHY], text[NX_PEER_TEXT];

    for (uint32_t i = 0; (i < c->n) && (c->state <= NX_CREATION_READY); i++) {
        const uint32_t slot = c->slots[i];

        if (nx_failure_life(world, slot) == NX_LIFE_FAILED) {
            (void)nx_sentence(sentence, sizeof(sentence), "%s has failed: %s",
                              nx_world_peer_text(world, slot, text), nx_failure_why(world, slot));
            nx_creations_gone(world->creations, slot, sentence);
        } else if (nx_failure_life(world, slot) == NX_LIFE_LEFT) {
            (void)nx_sentence(sentence, sizeof(sentence), "%s has left",
                              nx_world_peer_text(world, slot, text));
            nx_creations_gone(world->creations, slot, sentence);
        }
    }
}

/* Interval of requests to the ranks that this rank waits for. */
static const uint64_t REMIND_NS = UINT64_C(200000000);

/* Drives the world until |call| is over, or until all ranks have joined the creation that this rank
 * leads. */
static void wait_for(nx_create_call *call, uint64_t timeout_ns)
{
    nx_world *world = call->world;
    nx_creation *c = &call->creation;
    const uint64_t begun = nx_loop_now(world->loop);
    bool late = false;
    nx_blocked b = {
        .what = {.kind = NX_WHAT_OTHER, .name = NAME, .comm = c->parent, .peer = NX_ANY_PEER}};

    nx_oplog_block(&world->log, &b, begun);
    while (c->state == NX_CREATION_WAITS) {
        uint64_t until = nx_loop_now(world->loop) + REMIND_NS;

        if ((timeout_ns != 0) && !late && (until - begun > timeout_ns)) {
            until = begun + timeout_ns;
        }
        call->event.set = false;
        if (nx_loop_wait(world->loop, &call->event, until)) {
            continue;
        }
        if ((timeout_ns != 0) && !late && (nx_loop_refresh(world->loop) - begun >= timeout_ns)) {
            char why[64];

            late = true;
            (void)snprintf(why, sizeof(why), "not all ranks have called within %.3f s",
                           (double)timeout_ns / 1e9);
            nx_creation_fail(world->creations, c, NEXAR_ETIMEDOUT, why);
        } else {
            nx_creation_remind(world->creations, c, waits_for);
        }
    }
    nx_oplog_unblock(&world->log, &b, nx_loop_now(world->loop), c->err);
}

/* ---- the communicator ------------------------------------------------------------------- */

static nexar_err make(nexar_comm *parent, const nx_creation *c, uint32_t rank, nexar_comm **out)
{
    nx_members who = {
        .id = c->id, .size = c->n, .rank = rank, .peers = nx_calloc(c->n, sizeof(*who.peers))};
    nexar_err err;

    if (who.peers == NULL) {
        return nx_fail_nomem("a communicator");
    }
    for (uint32_t i = 0; i < c->n; i++) {
        who.peers[i] = c->slots[i];
    }
    err = nx_comm_create(parent, "create", &who, out);
    if (err == NEXAR_OK) {
        (*out)->inc->created = c->key;
    }
    return err;
}

/* The leader makes its communicator first, and then notifies the other members. */
static nexar_err make_first(nexar_comm *parent, nx_creation *c, uint32_t rank, nexar_comm **out)
{
    nx_creations *cs = parent->world->creations;
    nexar_err err = make(parent, c, rank, out);
    char why[NX_ERROR_ROOM];

    if ((err == NEXAR_OK) && (c->state == NX_CREATION_READY)) {
        nx_creation_commit(cs, c, c->id);
        nx_loop_kick(parent->world->loop);
        return NEXAR_OK;
    }
    if (err == NEXAR_OK) { /* failed meanwhile: only this rank has it */
        nx_comm_give_back(*out);
        return nx_fail(c->err, "%s: %s", NAME, c->why);
    }
    (void)nx_sentence(why, sizeof(why), "%s", nexar_last_error());
    nx_creation_fail(cs, c, err, why);
    return nx_fail(err, "%s: %s", NAME, why);
}

/* Other ranks have the communicator.  Without memory for it, this rank leaves the world, so that
 * they do not wait for it. */
static nexar_err make_too(nexar_comm *parent, const nx_creation *c, uint32_t rank, nexar_comm **out)
{
    char why[NX_ERROR_ROOM];
    nexar_err err;

    if (nx_early_is_closed(parent->world->early, c->id)) {
        return nx_fail(NEXAR_EPEER, "%s: the rank that leads the creation is gone", NAME);
    }
    err = make(parent, c, rank, out);
    if (err == NEXAR_ENOMEM) {
        (void)nx_sentence(why, sizeof(why), "%s", nexar_last_error());
        nx_failure_quit(parent->world, "this rank could not take part in comm_create");
        return nx_fail(err, "%s: this rank is out of the world: %s", NAME, why);
    }
    return err;
}

static nexar_err conclude(nexar_comm *parent, nx_creation *c, uint32_t rank, nexar_comm **out)
{
    char on[NX_COMM_ON];

    switch (c->state) {
    case NX_CREATION_READY:
        return make_first(parent, c, rank, out);
    case NX_CREATION_MADE:
        return make_too(parent, c, rank, out);
    case NX_CREATION_WAITS:
    case NX_CREATION_FAILED:
        break;
    }
    return nx_fail(c->err, "%s%s: %s", NAME, nx_comm_on(parent, on), c->why);
}

/* With the lock. */
static nexar_err create(nexar_comm *parent, const int ranks[], size_t n, uint64_t tag,
                        uint32_t *slots, nexar_comm **out)
{
    nx_world *world = parent->world;
    nx_incarnation *inc = parent->inc;
    nx_create_call call = {.world = world};
    nx_creation *c = &call.creation;
    nexar_comm *made = NULL;
    uint32_t rank = 0;
    nexar_err err;

    if (inc->revoked) {
        return nx_fail(NEXAR_EREVOKED, "%s: the communicator was revoked", NAME);
    }
    for (size_t i = 0; i < n; i++) {
        slots[i] = nx_incarnation_peer(inc, (uint32_t)ranks[i]);
        rank = (slots[i] == world->self) ? (uint32_t)i : rank;
    }
    c->parent = inc->id;
    c->tag = tag;
    c->slots = slots;
    c->n = (uint32_t)n;
    c->id = nx_comm_take_id(world);
    err = nx_creation_start(world->creations, c, nx_loop_now(world->loop));
    if (err != NEXAR_OK) {
        return err;
    }
    tell_gone(&call);
    nx_world_begin(world);
    wait_for(&call, nx_comm_timeout(parent));
    err = conclude(parent, c, rank, &made);
    nx_creation_end(world->creations, c);
    nx_world_end(world);
    if (err == NEXAR_OK) {
        *out = made;
    }
    return err;
}

nexar_err nexar_comm_create(nexar_comm *parent, const int ranks[], size_t n, uint64_t tag,
                            nexar_comm **out)
{
    NX_NOT_CANCELLED;
    nexar_err err = check_pointers(parent, ranks, out);
    uint32_t *slots;

    if (err == NEXAR_OK) {
        err = check_ranks(parent, ranks, n);
    }
    if (err != NEXAR_OK) {
        return err;
    }
    slots = nx_calloc(n, sizeof(*slots));
    if (slots == NULL) {
        return nx_fail_nomem("a communicator");
    }
    nx_loop_lock(parent->world->loop);
    nx_comm_hold(parent);
    err = create(parent, ranks, n, tag, slots, out);
    nx_comm_release(parent);
    nx_loop_unlock(parent->world->loop);
    nx_free(slots);
    return err;
}
