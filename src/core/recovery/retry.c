/* retry.c - runs a collective until all survivors have its result. */
#include "retry.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text/sentence.h"
#include "core/failure/failure.h"
#include "recovery.h"
#include "replay.h"
#include "retry_order.h"

/* ---- commit ---------------------------------------------------------------------------------- */

static void send_frame(void *ctx, uint32_t to, const void *frame, size_t len)
{
    const nx_incarnation *inc = ctx;

    /* An unreachable peer has failed or left, or its failure will be detected. */
    (void)!nx_msg_send_control(inc->world->msg, nx_incarnation_peer(inc, to), frame, len);
}

nexar_err nx_retry_frame(nx_incarnation *inc, uint32_t rank, const void *data, size_t len)
{
    nx_commit *c = &inc->recovery.confirm;
    const nexar_err err = nx_commit_frame(c, rank, data, len, send_frame, inc);

    if (!c->pending) {
        nx_recovery_wake(inc);
    }
    return err;
}

/* One attempt, with its error message. */
typedef struct attempt {
    const nx_coll_args *call; /* the original call, for its name */
    nexar_err err;
    char why[NX_ERROR_ROOM];
} attempt;

static void note(attempt *t, nexar_err err)
{
    t->err = err;
    (void)nx_sentence(t->why, sizeof(t->why), "%s", (err == NEXAR_OK) ? "" : nexar_last_error());
}

/* The common result: all ranks have contributed |errs|. */
static nexar_err verdict(const attempt *t, uint32_t errs)
{
    const nexar_err err = nx_commit_error(errs);

    if ((err == NEXAR_OK) || (err == t->err)) {
        return (err == NEXAR_OK) ? NEXAR_OK : nx_fail(err, "%s", t->why);
    }
    return nx_fail(err, "%s: on another rank: %s", t->call->name, nexar_strerror(err));
}

static bool is_pending(const nx_incarnation *inc)
{
    return inc->recovery.confirm.pending && (inc->recovery.state == NX_WHOLE) && !inc->revoked;
}

/* Not all ranks have confirmed within |limit_ns|. */
static void time_out(nx_incarnation *inc, uint64_t limit_ns)
{
    char why[NX_ERROR_ROOM];

    (void)nx_sentence(why, sizeof(why), "rank %u: not confirmed by all after %.1f s (%s)",
                      (unsigned)inc->rank, (double)limit_ns / 1e9, "collective_timeout");
    nx_recovery_give_up(inc, NEXAR_ETIMEDOUT, why);
}

/* Whether the rank that this rank waits for has left: it will not confirm, and no rank has
 * returned. */
static bool waits_in_vain(const nx_incarnation *inc)
{
    const uint32_t rank = nx_commit_awaits(&inc->recovery.confirm);

    return nx_failure_life(inc->world, nx_incarnation_peer(inc, rank)) == NX_LIFE_LEFT;
}

static void wait_no_more(nx_incarnation *inc, const attempt *t)
{
    const uint32_t peer = nx_incarnation_peer(inc, nx_commit_awaits(&inc->recovery.confirm));
    char why[NX_ERROR_ROOM], text[NX_PEER_TEXT], when[NX_TIME_TEXT];

    (void)nx_sentence(why, sizeof(why), "%s: %s called nexar_finalize instead, at %s",
                      t->call->name, nx_world_peer_text(inc->world, peer, text),
                      nx_time_text(when));
    nx_recovery_begin(inc, why);
}

/* Interval of calls to the rank that this rank waits for.  If that rank has left, and this rank has
 * no link to it, no other event reveals that. */
static const uint64_t CALL_NS = UINT64_C(200000000);

static void call_for(const nx_incarnation *inc)
{
    nx_failure_call_for(inc->world,
                        nx_incarnation_peer(inc, nx_commit_awaits(&inc->recovery.confirm)));
}

/* Waits until all ranks have the result.  False: the communicator breaks first, or this rank breaks
 * it because of a time-out. */
static bool confirm(nx_incarnation *inc, const attempt *t)
{
    nx_loop *loop = inc->world->loop;
    nx_commit *c = &inc->recovery.confirm;
    const uint64_t limit = nx_group_timeout(&inc->group);
    const uint64_t by = (limit == 0) ? UINT64_MAX : nx_loop_refresh(loop) + limit;

    nx_commit_enter(c, nx_commit_bits(t->err), send_frame, inc);
    while (is_pending(inc)) {
        const uint64_t call_at = nx_loop_now(loop) + CALL_NS;

        if (waits_in_vain(inc)) {
            wait_no_more(inc, t);
        } else if (nx_recovery_wait_change(inc->comm, (call_at < by) ? call_at : by) ||
                   !is_pending(inc)) {
            continue;
        } else if (nx_loop_now(loop) >= by) {
            time_out(inc, limit);
        } else {
            call_for(inc);
        }
    }
    nx_loop_kick(loop); /* the other ranks wait for this rank's last round */
    return !c->pending;
}

/* |inc| is broken, and the ranks have agreed on the outcome of |number|. */
static nexar_err conclude_broken(nx_incarnation *inc, uint64_t number, const attempt *t)
{
    uint64_t keep = 0;
    uint32_t errs = 0;

    while (inc->recovery.state == NX_REPAIRING) {
        (void)nx_recovery_wait_change(inc->comm, UINT64_MAX);
    }
    if (inc->recovery.state == NX_REPAIRED) {
        nx_recovery_verdict(inc, &keep, &errs);
    }
    if (number <= keep) {
        return verdict(t, errs);
    }
    return nx_fail(NEXAR_EPEER, "%s", (t->err == NEXAR_EPEER) ? t->why : inc->group.broken_why);
}

nexar_err nx_retry_conclude(nx_incarnation *inc, const char *name, nexar_err err)
{
    const nx_coll_args call = {.name = name};
    const uint64_t number = inc->recovery.confirm.entered + 1;
    attempt t = {.call = &call};

    note(&t, err);
    nx_recovery_enter(inc);
    if ((inc->recovery.state == NX_WHOLE) && (err == NEXAR_EPEER)) {
        nx_recovery_begin(inc, t.why);
    }
    if ((inc->recovery.state == NX_WHOLE) && !inc->revoked && confirm(inc, &t)) {
        err = verdict(&t, nx_commit_errs(&inc->recovery.confirm));
    } else if (inc->recovery.state == NX_WHOLE) {
        err = nx_fail(NEXAR_EREVOKED, "%s: the communicator was revoked", name);
    } else {
        err = conclude_broken(inc, number, &t);
    }
    nx_recovery_leave(inc);
    return err;
}

/* ---- the same call among fewer ranks ------------------------------------------------------ */

/* A call, what is saved for it, and how it is run. */
typedef struct call {
    nx_replay rerun;
    bool as_called;     /* neither it nor its memory was changed */
    bool queued;        /* by a request: the application is not notified before its end */
    bool unable;        /* this rank cannot run it; the others are notified when they do */
    uint32_t root_slot; /* of its root, if it has one */
    const nx_retry_how *how;
} call;

/* NEXAR_EPEER: the root of |c| is gone, or is in |failed| (may be NULL).  All ranks find the
 * same. */
static nexar_err check_root(const call *c, const nx_incarnation *inc, const nx_rankset *failed)
{
    char text[NX_PEER_TEXT];
    int root;

    if (!nx_coll_rooted(c->rerun.now.kind)) {
        return NEXAR_OK;
    }
    root = nx_incarnation_rank_of(inc, c->root_slot);
    if ((root >= 0) && ((failed == NULL) || !nx_rankset_has(failed, (uint32_t)root))) {
        return NEXAR_OK;
    }
    return nx_fail(NEXAR_EPEER, "it is not run again: its root has failed, %s",
                   nx_world_peer_text(inc->world, c->root_slot, text));
}

/* |c|, which may have begun, becomes a call without |failed|.  NEXAR_EPEER: no rank can run it
 * again. */
static nexar_err translate(call *c, const nx_incarnation *inc, const nx_rankset *failed)
{
    nexar_err err;

    if (c->rerun.now.guise == NX_VARIANT_RS_AG) {
        return nx_fail(NEXAR_EPEER, "it is not run again: its function may have been called");
    }
    err = check_root(c, inc, failed);
    if ((err == NEXAR_OK) && !c->unable) {
        nx_replay_shrink(&c->rerun, failed);
    }
    return err;
}

/* Prepares |c|, which was called for |was|, for a run on |inc|.  NEXAR_EPEER, NEXAR_ENOMEM */
static nexar_err catch_up(call *c, const nx_incarnation *inc, const nx_incarnation *was)
{
    nx_rankset failed;
    nexar_err err = check_root(c, inc, NULL);

    if ((err != NEXAR_OK) || c->unable) {
        return err;
    }
    err = nx_rankset_init(&failed, was->size);
    for (uint32_t i = 0; (err == NEXAR_OK) && (i < was->size); i++) {
        if (nx_incarnation_rank_of(inc, nx_incarnation_peer(was, i)) < 0) {
            (void)nx_rankset_add(&failed, i);
        }
    }
    if (err == NEXAR_OK) {
        nx_replay_shrink(&c->rerun, &failed);
    }
    nx_rankset_fini(&failed);
    c->as_called = false;
    return err;
}

/* ---- attempts ------------------------------------------------------------------------------ */

/* How often, and how long, a request waits for memory to rebuild its communicator. */
enum { BECOME_TRIES = 100 };
#define BECOME_NS UINT64_C(10000000)

/* Advances |comm|.  NEXAR_ENOMEM: the application may repeat a blocking call.  A request is never
 * repeated: if memory stays short this rank leaves the world. */
static nexar_err advance(nexar_comm *comm, const call *c)
{
    nexar_err err = nx_recovery_advance(comm);

    for (int i = 0; c->queued && (err == NEXAR_ENOMEM) && (i < BECOME_TRIES); i++) {
        (void)nx_recovery_wait_change(comm, nx_loop_refresh(comm->world->loop) + BECOME_NS);
        err = nx_recovery_advance(comm);
    }
    if (c->queued && (err == NEXAR_ENOMEM)) {
        nx_failure_quit(comm->world, "this rank has no memory to rebuild a communicator");
    }
    return err;
}

/* |inc| broke in operation |number|.  True: |*err| is the operation's result.  False: |c| is to be
 * run on the successor. */
static bool recover(nx_incarnation *inc, uint64_t number, call *c, const attempt *t, nexar_err *err)
{
    char sentence[NX_ERROR_ROOM], why[NX_ERROR_ROOM];
    nexar_err again, given_up;
    uint64_t keep;
    uint32_t errs;

    (void)nx_sentence(sentence, sizeof(sentence), "%s", inc->group.broken_why);
    *err = nx_recovery_wait_mended(inc);
    if (*err != NEXAR_OK) {
        return true;
    }
    nx_recovery_verdict(inc, &keep, &errs);
    if (number <= keep) {
        *err = verdict(t, errs);
        return true;
    }
    given_up = nx_recovery_given_up(inc);
    again = translate(c, inc, nx_recovery_failed(inc));
    (void)nx_sentence(why, sizeof(why), "%s", nexar_last_error());
    *err = advance(inc->comm, c);
    if ((*err == NEXAR_OK) && (given_up != NEXAR_OK)) {
        *err = nx_fail(given_up, "%s: %s", t->call->name, sentence);
    } else if ((*err == NEXAR_OK) && (again != NEXAR_OK)) {
        *err = nx_fail(again, "%s: %s; %s", t->call->name, sentence, why);
    }
    return *err != NEXAR_OK;
}

/* Whether |c|, which failed with |err| before it began, cannot run here although the other ranks
 * wait for it: they repeat it, or the application has continued. */
static bool falls_short(const call *c, bool again, nexar_err err)
{
    if (c->queued) {
        return (err != NEXAR_OK) && (err != NEXAR_EPEER) && (err != NEXAR_EREVOKED) &&
               (err != NEXAR_ECANCELED);
    }
    return again && ((err == NEXAR_ENOMEM) || (err == NEXAR_EDEVICE));
}

/* One attempt, from the original memory.  False: it cannot run here, and the other ranks wait for
 * it.  |*begun|: they may know of it. */
static bool run_attempt(call *c, attempt *t, bool *begun)
{
    const bool again = !c->as_called;
    nexar_err err;
    bool able;

    *begun = true;
    if (c->unable) {
        return false; /* |t| holds the message */
    }
    err = again ? nx_replay_restore(&c->rerun) : NEXAR_OK;
    able = (err == NEXAR_OK);
    c->as_called = false;
    if (able) {
        err = c->how->once(&c->rerun.now, c->how->arg, begun);
        able = *begun || !falls_short(c, again, err);
        *begun = *begun || !able;
    }
    if (again && (err == NEXAR_OK)) {
        err = nx_replay_deliver(&c->rerun);
    }
    note(t, err);
    return able;
}

/* With the lock, which is released meanwhile. */
static nexar_err run_until_done(call *c, attempt *t)
{
    nexar_comm *comm = c->rerun.now.comm;
    nx_loop *loop = comm->world->loop;
    nexar_err err;

    for (;;) {
        nx_incarnation *inc = comm->active; /* only the thread at the front advances it */
        const nx_recovery *r = &inc->recovery;
        const uint64_t number = r->confirm.entered + 1;
        bool begun, able;

        c->rerun.now.inc = inc;

        if (r->state == NX_WHOLE) {
            nx_loop_unlock(loop);
            able = run_attempt(c, t, &begun);
            err = t->err;
            nx_loop_lock(loop);
            if (!begun || (err == NEXAR_EREVOKED) || (err == NEXAR_ECANCELED)) {
                return err;
            }
            if (!able) {
                nx_recovery_give_up(inc, err, t->why);
            } else if (err == NEXAR_EPEER) {
                nx_recovery_begin(inc, t->why);
            } else if ((r->state == NX_WHOLE) && confirm(inc, t)) {
                return verdict(t, nx_commit_errs(&r->confirm));
            }
            if (r->state == NX_WHOLE) {
                return nx_fail(NEXAR_EREVOKED, "%s: the communicator was revoked", t->call->name);
            }
        }
        if (recover(inc, number, c, t, &err)) {
            return err;
        }
        c->as_called = false;
    }
}

/* ---- start --------------------------------------------------------------------------------- */

/* This rank has no memory for |c|, as |err| says, before it was run.  The application may repeat a
 * blocking call, and the other ranks wait for that.  A request is in the queue, with others behind
 * it. */
static nexar_err lack(call *c, attempt *t, nexar_err err)
{
    if (!c->queued || (err == NEXAR_OK) || (err == NEXAR_EPEER)) {
        return err;
    }
    note(t, err);
    c->unable = true;
    return NEXAR_OK;
}

/* Restores the memory of a compressed allreduce after an error, also an error of other ranks. */
static nexar_err undo(call *c, nexar_err err)
{
    char sentence[NX_ERROR_ROOM], why[NX_ERROR_ROOM];

    if ((err == NEXAR_OK) || c->unable || (c->rerun.now.guise != NX_VARIANT_COMPRESSED)) {
        return err;
    }
    (void)nx_sentence(sentence, sizeof(sentence), "%s", nexar_last_error());
    if (nx_replay_restore(&c->rerun) != NEXAR_OK) {
        (void)nx_sentence(why, sizeof(why), "%s", nexar_last_error());
        return nx_fail(err, "%s; what it has changed is not put back: %s", sentence, why);
    }
    return nx_fail(err, "%s", sentence);
}

nexar_err nx_retry_in_turn(const nx_coll_args *a, const nx_incarnation *was,
                           const nx_retry_how *how, bool queued)
{
    nexar_comm *comm = a->comm;
    call c = {.as_called = true,
              .queued = queued,
              .root_slot =
                  nx_coll_rooted(a->kind) ? nx_incarnation_peer(was, (uint32_t)a->root) : 0,
              .how = how};
    attempt t = {.call = a};
    nexar_err err =
        lack(&c, &t, nx_replay_init(&c.rerun, a, nx_incarnation_seat(was), &comm->retry.kept));

    if (err != NEXAR_OK) {
        return err;
    }
    nx_loop_lock(comm->world->loop);
    if (comm->active != was) {
        err = lack(&c, &t, catch_up(&c, comm->active, was));
    }
    if (err == NEXAR_OK) {
        err = run_until_done(&c, &t);
    }
    nx_loop_unlock(comm->world->loop);
    err = undo(&c, err);
    nx_replay_fini(&c.rerun);
    return err;
}

nexar_err nx_retry_run(const nx_coll_args *a, nx_incarnation *was, const nx_retry_how *how)
{
    nexar_comm *comm = a->comm;
    nx_retry_turn turn = {0};
    nexar_err err;

    nx_loop_lock(comm->world->loop);
    nx_episode_queue(comm, &turn);
    nx_episode_take(comm, &turn);
    nx_loop_unlock(comm->world->loop);
    err = nx_retry_in_turn(a, was, how, false);
    nx_loop_lock(comm->world->loop);
    nx_comm_show(comm, comm->active);
    nx_episode_give(comm);
    nx_incarnation_release(was);
    nx_loop_unlock(comm->world->loop);
    return err;
}

/* ---- incarnations of calls ------------------------------------------------------------------- */

nx_incarnation *nx_retry_known(const nexar_comm *comm)
{
    nx_incarnation *was;

    nx_loop_lock(comm->world->loop);
    was = nx_incarnation_hold(comm->inc);
    nx_loop_unlock(comm->world->loop);
    return was;
}

void nx_retry_refuse(const nexar_comm *comm, nx_incarnation *was)
{
    nx_loop_lock(comm->world->loop);
    nx_incarnation_release(was);
    nx_loop_unlock(comm->world->loop);
}
