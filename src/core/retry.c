/* retry.c - a collective until all have its result. */
#include "core/retry.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "core/failure.h"
#include "core/recover.h"
#include "core/rerun.h"

/* ---- the same call among fewer ------------------------------------------------------------ */

/* |r| becomes a call without |failed|; |root_slot|: of its root.  NEXAR_EPEER: that has
 * failed, as all ranks find. */
static nexar_err shrink(nx_rerun *r, const nexar_comm *comm, const nx_rankset *failed,
                        uint32_t root_slot)
{
    const nx_coll_args *a = &r->now;
    char text[NX_PEER_TEXT];

    if (nx_coll_rooted(a->kind) && nx_rankset_has(failed, (uint32_t)a->root)) {
        return nx_fail(NEXAR_EPEER, "it is not run again: its root has failed, %s",
                       nx_world_peer_text(comm->world, root_slot, text));
    }
    nx_rerun_shrink(r, failed);
    return NEXAR_OK;
}

/* The same after |r| has been begun.  NEXAR_EPEER: it cannot be run again, on all ranks. */
static nexar_err translate(nx_rerun *r, const nexar_comm *comm, const nx_rankset *failed)
{
    const nx_coll_args *a = &r->now;

    if (a->guise == NX_GUISE_RS_AG) {
        return nx_fail(NEXAR_EPEER, "it is not run again: its function may have been called");
    }
    return shrink(r, comm, failed,
                  nx_coll_rooted(a->kind) ? nx_comm_peer(comm, (uint32_t)a->root) : 0);
}

/* ---- confirming ------------------------------------------------------------------------------ */

static void send_frame(void *ctx, uint32_t to, const void *frame, size_t len)
{
    const nexar_comm *comm = ctx;

    /* Whoever cannot be told is gone, or will be found out. */
    (void)!nx_msg_send_control(comm->world->msg, nx_comm_peer(comm, to), frame, len);
}

nexar_err nx_retry_frame(nexar_comm *comm, uint32_t rank, const void *data, size_t len)
{
    nx_confirm *c = &comm->recovery.confirm;
    const nexar_err err = nx_confirm_frame(c, rank, data, len, send_frame, comm);

    if (!c->pending) {
        nx_recover_wake(comm);
    }
    return err;
}

/* One attempt, with the words of its error. */
typedef struct attempt {
    const nx_coll_args *call; /* as it was called: for its name */
    nexar_err err;
    char why[NX_ERROR_ROOM];
} attempt;

static void note(attempt *t, nexar_err err)
{
    t->err = err;
    (void)snprintf(t->why, sizeof(t->why), "%s", (err == NEXAR_OK) ? "" : nexar_last_error());
}

/* All have come to |errs|. */
static nexar_err verdict(const attempt *t, uint32_t errs)
{
    const nexar_err err = nx_confirm_error(errs);

    if ((err == NEXAR_OK) || (err == t->err)) {
        return (err == NEXAR_OK) ? NEXAR_OK : nx_fail(err, "%s", t->why);
    }
    return nx_fail(err, "%s: on another rank: %s", t->call->name, nexar_strerror(err));
}

static bool is_pending(const nexar_comm *comm)
{
    return comm->recovery.confirm.pending && (comm->recovery.state == NX_WHOLE) && !comm->revoked;
}

/* Not all have come within |limit_ns|. */
static void time_out(nexar_comm *comm, uint64_t limit_ns)
{
    char why[NX_ERROR_ROOM];

    (void)snprintf(why, sizeof(why), "rank %u: not confirmed by all after %.1f s (%s)",
                   (unsigned)comm->rank, (double)limit_ns / 1e9, "collective_timeout");
    nx_recover_give_up(comm, NEXAR_ETIMEDOUT, why);
}

/* Whether the rank that is waited for has left: it will not come, and nobody has returned. */
static bool waits_in_vain(const nexar_comm *comm)
{
    const uint32_t rank = nx_confirm_awaits(&comm->recovery.confirm);

    return nx_rankset_has(nx_failure_left(comm->world), nx_comm_peer(comm, rank));
}

static void wait_no_more(nexar_comm *comm, const attempt *t)
{
    const uint32_t rank = nx_confirm_awaits(&comm->recovery.confirm);
    char why[NX_ERROR_ROOM], text[NX_PEER_TEXT], when[NX_TIME_TEXT];

    (void)snprintf(why, sizeof(why), "%s: %s has left without it, at %s", t->call->name,
                   nx_world_peer_text(comm->world, nx_comm_peer(comm, rank), text),
                   nx_time_text(when));
    nx_recover_begin(comm, why);
}

/* Waits until all have what this rank has; false: the communicator breaks first, or is
 * broken since they do not come in time. */
static bool confirm(nexar_comm *comm, const attempt *t)
{
    nx_confirm *c = &comm->recovery.confirm;
    const uint64_t limit = nx_config_number(comm->world->config, NX_SET_COLLECTIVE_TIMEOUT);
    const uint64_t by = (limit == 0) ? UINT64_MAX : nx_loop_refresh(comm->world->loop) + limit;

    nx_confirm_enter(c, nx_confirm_bits(t->err), send_frame, comm);
    while (is_pending(comm)) {
        if (waits_in_vain(comm)) {
            wait_no_more(comm, t);
        } else if (!nx_recover_wait_change(comm, by) && is_pending(comm)) {
            time_out(comm, limit);
        }
    }
    nx_loop_kick(comm->world->loop); /* the last round of others waits for it */
    return !c->pending;
}

/* ---- until it is done ---------------------------------------------------------------------- */

/* A call with what is kept of it, and how it is run. */
typedef struct call {
    nx_rerun rerun;
    bool as_called; /* it was not changed, and its memory neither */
    nx_retry_once once;
    void *arg;
} call;

/* |comm| is broken in operation |number|: true: |*err| is what comes of it; false: |r| is to
 * be run on the communicator that |comm| has become. */
static bool recover(nexar_comm *comm, uint64_t number, nx_rerun *r, const attempt *t,
                    nexar_err *err)
{
    char sentence[NX_ERROR_ROOM], why[NX_ERROR_ROOM];
    nexar_err again, given_up;
    uint64_t keep;
    uint32_t errs;

    (void)snprintf(sentence, sizeof(sentence), "%s", comm->group.broken_why);
    *err = nx_recover_wait_mended(comm);
    if (*err != NEXAR_OK) {
        return true;
    }
    nx_recover_verdict(comm, &keep, &errs);
    if (number <= keep) {
        *err = verdict(t, errs);
        return true;
    }
    given_up = nx_recover_given_up(comm);
    again = translate(r, comm, nx_recover_failed(comm));
    (void)snprintf(why, sizeof(why), "%s", nexar_last_error());
    *err = nx_recover_become(comm);
    if ((*err == NEXAR_OK) && (given_up != NEXAR_OK)) {
        *err = nx_fail(given_up, "%s: %s", t->call->name, sentence);
    } else if ((*err == NEXAR_OK) && (again != NEXAR_OK)) {
        *err = nx_fail(again, "%s: %s; %s", t->call->name, sentence, why);
    }
    return *err != NEXAR_OK;
}

/* One attempt, from the memory as it was.  False: it cannot be run here, for which the others,
 * who run it again, wait.  |*begun|: they may know of it. */
static bool run_attempt(call *c, attempt *t, bool *begun)
{
    const bool again = !c->as_called;
    nexar_err err = again ? nx_rerun_restore(&c->rerun) : NEXAR_OK;
    bool able = (err == NEXAR_OK);

    c->as_called = false;
    *begun = true;
    if (able) {
        err = c->once(&c->rerun.now, c->arg, begun);
        able = !again || *begun || ((err != NEXAR_ENOMEM) && (err != NEXAR_EDEVICE));
        *begun = *begun || !able;
    }
    if (again && (err == NEXAR_OK)) {
        err = nx_rerun_deliver(&c->rerun);
    }
    note(t, err);
    return able;
}

/* With the lock, which is released meanwhile. */
static nexar_err run_until_done(call *c, attempt *t)
{
    nexar_comm *comm = c->rerun.now.comm;
    nx_recovery *r = &comm->recovery;
    nx_loop *loop = comm->world->loop;
    nexar_err err;

    for (;;) {
        const uint64_t number = r->confirm.entered + 1;
        bool begun, able;

        if (r->state == NX_WHOLE) {
            nx_loop_unlock(loop);
            able = run_attempt(c, t, &begun);
            err = t->err;
            nx_loop_lock(loop);
            if (!begun || (err == NEXAR_EREVOKED) || (err == NEXAR_ECANCELED)) {
                return err;
            }
            if (!able) {
                nx_recover_give_up(comm, err, t->why);
            } else if (err == NEXAR_EPEER) {
                nx_recover_begin(comm, t->why);
            } else if ((r->state == NX_WHOLE) && confirm(comm, t)) {
                return verdict(t, nx_confirm_errs(&r->confirm));
            }
            if (r->state == NX_WHOLE) {
                return nx_fail(NEXAR_EREVOKED, "%s: the communicator was revoked", t->call->name);
            }
        }
        if (recover(comm, number, &c->rerun, t, &err)) {
            return err;
        }
        c->as_called = false;
    }
}

/* ---- from the beginning -------------------------------------------------------------------- */

/* The ranks of a communicator when a call on it was made. */
typedef struct roster {
    uint32_t size, rank;
    unsigned epoch;
    uint32_t *slots; /* owned; NULL: the call need not wait, so they are the same when it runs */
} roster;

/* With the lock.  NEXAR_ENOMEM */
static nexar_err take_roster(const nexar_comm *comm, roster *was)
{
    *was = (roster){.size = comm->size, .rank = comm->rank, .epoch = comm->recovery.epoch};
    if (!comm->recovery.busy) {
        return NEXAR_OK;
    }
    was->slots = nx_calloc(was->size, sizeof(*was->slots));
    if (was->slots == NULL) {
        return nx_fail_nomem("a collective that waits for its turn (retry=on)");
    }
    for (uint32_t i = 0; i < was->size; i++) {
        was->slots[i] = nx_comm_peer(comm, i);
    }
    return NEXAR_OK;
}

/* |comm| was rebuilt, by another thread, since |r| was called with the ranks of |was|.
 * NEXAR_EPEER, NEXAR_ENOMEM */
static nexar_err catch_up(nx_rerun *r, const nexar_comm *comm, const roster *was)
{
    const uint32_t root = nx_coll_rooted(r->now.kind) ? (uint32_t)r->now.root : 0;
    nx_rankset failed;
    nexar_err err = nx_rankset_init(&failed, was->size);

    for (uint32_t i = 0; (err == NEXAR_OK) && (i < was->size); i++) {
        if (nx_comm_find_peer(comm, was->slots[i]) < 0) {
            (void)nx_rankset_add(&failed, i);
        }
    }
    if (err == NEXAR_OK) {
        err = shrink(r, comm, &failed, was->slots[root]);
    }
    nx_rankset_fini(&failed);
    return err;
}

/* Runs |c|, which was made for the ranks of |was|; this thread has the turn.  Without the
 * lock. */
static nexar_err run_call(call *c, const roster *was, attempt *t)
{
    nexar_comm *comm = c->rerun.now.comm;
    nx_loop *loop = comm->world->loop;
    nexar_err err = NEXAR_OK;

    nx_loop_lock(loop);
    if ((was->slots != NULL) && (comm->recovery.epoch != was->epoch)) {
        err = catch_up(&c->rerun, comm, was);
        c->as_called = false;
    }
    if (err == NEXAR_OK) {
        err = run_until_done(c, t);
    }
    nx_loop_unlock(loop);
    return err;
}

/* The memory of a compressed allreduce is as it was after an error, also one of others. */
static nexar_err undo(call *c, nexar_err err)
{
    char sentence[NX_ERROR_ROOM], why[NX_ERROR_ROOM];

    if ((err == NEXAR_OK) || (c->rerun.now.guise != NX_GUISE_COMPRESSED)) {
        return err;
    }
    (void)snprintf(sentence, sizeof(sentence), "%s", nexar_last_error());
    if (nx_rerun_restore(&c->rerun) != NEXAR_OK) {
        (void)snprintf(why, sizeof(why), "%s", nexar_last_error());
        return nx_fail(err, "%s; what it has changed is not put back: %s", sentence, why);
    }
    return nx_fail(err, "%s", sentence);
}

nexar_err nx_retry_run(const nx_coll_args *a, nx_retry_once once, void *arg)
{
    nexar_comm *comm = a->comm;
    call c = {.as_called = true, .once = once, .arg = arg};
    attempt t = {.call = a};
    roster was;
    nexar_err err;

    nx_loop_lock(comm->world->loop);
    err = take_roster(comm, &was);
    if (err != NEXAR_OK) {
        nx_loop_unlock(comm->world->loop);
        return err;
    }
    nx_recover_take_turn(comm);
    nx_loop_unlock(comm->world->loop);
    err = nx_rerun_init(&c.rerun, a, was.size, was.rank);
    if (err == NEXAR_OK) {
        err = undo(&c, run_call(&c, &was, &t));
        nx_rerun_fini(&c.rerun);
    }
    nx_loop_lock(comm->world->loop);
    nx_recover_give_turn(comm);
    nx_loop_unlock(comm->world->loop);
    nx_free(was.slots);
    return err;
}
