/*
 * coll_run.c - runs collectives for the application: blocking, or with a request.
 *
 * The hook of allreduce_rs_ag runs without the loop's lock: on the thread that
 * waits (with retry=on also that of a communicator's requests), or on one of the world's
 * worker for a request.
 */
#include "core/coll/coll_run.h"

#include <stdio.h>

#include "base/alloc.h"
#include "base/os/cancellation.h"
#include "base/text/sentence.h"
#include "coll/run/run.h"
#include "core/comm/comm_device.h"
#include "core/recovery/recovery.h"
#include "core/recovery/retry_queue.h"
#include "host_boards.h"
#include "reduce/reduce.h"

/* The error message of |run|, which has failed. */
static nexar_err outcome(const nexar_comm *comm, const nx_run *run)
{
    char on[NX_COMM_ON];

    if (run->err == NEXAR_OK) {
        return NEXAR_OK;
    }
    return nx_fail(run->err, "%s #%u%s: %s", nx_mark_name(&run->mark), run->number,
                   nx_comm_on(comm, on), run->why);
}

/* The shard that the hook receives. */
typedef struct shard {
    nexar_shard_fn fn;
    void *arg;
    void *ptr;
    size_t off, count;
} shard;

/* Adapters move and reduce numbers only. */
static nexar_err check_device(const nx_coll_args *a, const nx_coll_call *call)
{
    const bool own = nx_dtype_is_struct(call->dtype) ||
                     (nx_coll_reduces(call->coll.kind) && nx_op_is_user(call->op));

    if (!own || (call->mem.device == NULL)) {
        return NEXAR_OK;
    }
    return nx_fail(NEXAR_ENOTSUP,
                   "%s: NEXAR_STRUCT and operations of nexar_op_create are for host memory; the "
                   "communicator has the device %s",
                   a->name, nx_device_name(call->mem.device));
}

/* The ranks that |a| was called for; without the lock. */
static nx_seat seat_of(const nx_coll_args *a)
{
    const nx_seat none = {0};

    if (a->inc != NULL) {
        return nx_incarnation_seat(a->inc);
    }
    return (a->comm == NULL) ? none : nx_comm_seat(a->comm);
}

/* Checks the arguments and determines the memory kind of the buffers. */
static nexar_err prepare(const nx_coll_args *a, nx_coll_checked *out)
{
    nexar_err err = nx_coll_args_check(a, seat_of(a), out);

    if ((err != NEXAR_OK) || a->host_memory) {
        return err;
    }
    err = nx_comm_memory(a->comm, &out->call.mem);
    if (err == NEXAR_OK) {
        err = check_device(a, &out->call);
        if (err != NEXAR_OK) {
            nx_comm_memory_done(&out->call.mem);
        }
    }
    if (err != NEXAR_OK) {
        nx_coll_args_done(out);
    }
    return err;
}

/* Creates a run of |checked|, and frees |checked|; with the lock. */
static nexar_err make_run(nx_incarnation *inc, nx_coll_checked *checked, uint32_t number,
                          nx_run **out)
{
    nexar_err err;

    checked->call.worker = inc->world->device_worker;
    err = nx_run_make(out, &inc->group, &checked->call, number);
    nx_comm_memory_done(&checked->call.mem);
    nx_coll_args_done(checked);
    return err;
}

/* The same.  If memory is short, notifies the other ranks, which wait for this one. */
static nexar_err make_run_or_tell(nx_incarnation *inc, nx_coll_checked *checked, uint32_t number,
                                  nx_run **out)
{
    nexar_err err = make_run(inc, checked, number, out);

    return (err == NEXAR_OK) ? err : nx_comm_give_up(inc, number, err);
}

/* The incarnation that runs |a|, which was checked in |epoch|.  NULL: the communicator was rebuilt
 * since. */
static nx_incarnation *where(const nx_coll_args *a, unsigned epoch)
{
    if (a->inc != NULL) {
        return a->inc;
    }
    return (a->comm->epoch == epoch) ? a->comm->inc : NULL;
}

/* This rank cannot create a run of |a|, whose arguments are valid. */
static bool tell_short(const nx_coll_args *a, unsigned epoch, nexar_err err)
{
    nx_loop *loop = a->comm->world->loop;
    nx_incarnation *inc;

    nx_loop_lock(loop);
    inc = where(a, epoch);
    if (inc != NULL) {
        (void)nx_comm_give_up(inc, 0, err);
        nx_loop_kick(loop);
    }
    nx_loop_unlock(loop);
    return inc != NULL;
}

/* ---- blocking ------------------------------------------------------------------------ */

typedef struct waited {
    nx_event event;
    bool done, called; /* the run is done; the hook is due */
    shard shard;
    nx_world *world;
} waited;

static void on_waited_done(nx_run *run)
{
    waited *w = run->owner;

    w->done = true;
    nx_event_set(w->world->loop, &w->event);
}

static void on_waited_shard(nx_run *run, void *ptr, size_t off, size_t count)
{
    waited *w = run->owner;

    if (w->shard.fn == NULL) {
        nx_run_called(run, NEXAR_OK);
        return;
    }
    w->shard.ptr = ptr;
    w->shard.off = off;
    w->shard.count = count;
    w->called = true;
    nx_event_set(w->world->loop, &w->event);
}

/* With the lock held. */
static void wait_for(waited *w, nx_run *run)
{
    nx_loop *loop = w->world->loop;
    nexar_err err;

    while (!w->done) {
        if (!w->event.set) {
            nx_oplog_enter(&w->world->log);
            (void)nx_loop_wait(loop, &w->event, UINT64_MAX);
            nx_oplog_leave(&w->world->log);
        }
        w->event.set = false;
        if (w->called) {
            w->called = false;
            nx_loop_unlock(loop);
            err = w->shard.fn(w->shard.ptr, w->shard.off, w->shard.count, w->shard.arg);
            nx_loop_lock(loop);
            nx_run_called(run, err);
        }
    }
    nx_loop_kick(loop);
}

/* Runs the collective with the lock held, and waits.  |*begun|: other ranks know of it. */
static nexar_err run_waiting(nx_incarnation *inc, nx_coll_checked *checked, waited *w, bool *begun)
{
    nexar_comm *comm = inc->comm;
    nexar_err err = NEXAR_OK;
    uint32_t number = 0;
    nx_run *run;

    *begun = true;
    if ((checked->call.mem.device == NULL) &&
        nx_incarnation_direct(inc, &checked->call, &number, &err)) {
        return err;
    }
    err = make_run_or_tell(inc, checked, number, &run);
    if (err == NEXAR_OK) {
        run->owner = w;
        run->on_done = on_waited_done;
        run->on_shard = on_waited_shard;
        nx_world_begin(w->world);
        nx_run_begin(run);
        wait_for(w, run);
        nx_world_end(w->world);
        err = outcome(comm, run);
        nx_run_destroy(run);
    }
    return err;
}

/* The communicator was rebuilt after |name| had been called and checked. */
static nexar_err fail_rebuilt(const char *name)
{
    return nx_fail(NEXAR_EPEER,
                   "%s: a rank has failed, and the communicator was rebuilt, by a "
                   "collective of another thread",
                   name);
}

/* With |rebuild| the communicator is rebuilt after a failure, if the settings say so. */
static nexar_err run_once(const nx_coll_args *a, void *shard_arg, bool rebuild, bool *begun)
{
    const unsigned epoch = (a->comm == NULL) ? 0 : a->comm->epoch; /* before the check */
    nx_coll_checked checked;
    nexar_err err = prepare(a, &checked);
    nx_incarnation *inc;

    *begun = false;
    if (err != NEXAR_OK) {
        *begun = (err == NEXAR_ENOMEM) && tell_short(a, epoch, err);
        return err;
    }
    waited w = {.world = a->comm->world, .shard = {.fn = a->on_shard, .arg = shard_arg}};

    checked.call.on_shard = a->on_shard;
    checked.call.shard_arg = shard_arg;
    nx_loop_lock(w.world->loop);
    inc = where(a, epoch);
    if (inc == NULL) {
        nx_comm_memory_done(&checked.call.mem);
        err = fail_rebuilt(a->name);
    } else {
        (void)nx_incarnation_hold(inc);
        nx_recovery_enter(inc);
        err = run_waiting(inc, &checked, &w, begun);
        nx_recovery_leave(inc);
        if (rebuild) {
            err = nx_recovery_after(inc, err);
        }
        nx_incarnation_release(inc);
    }
    nx_loop_unlock(w.world->loop);
    nx_coll_args_done(&checked);
    return err;
}

static nexar_err run_for_retry(const nx_coll_args *a, void *shard_arg, bool *begun)
{
    return run_once(a, shard_arg, false, begun);
}

/* Checks |a| for the ranks that the application knows.  If |a| is valid, |*was| is their
 * incarnation, with a reference. */
static nexar_err check_known(const nx_coll_args *a, nx_incarnation **was)
{
    nx_coll_checked checked;
    nexar_err err;

    *was = nx_retry_known(a->comm);
    err = nx_coll_args_check(a, nx_incarnation_seat(*was), &checked);
    if (err == NEXAR_OK) {
        nx_coll_args_done(&checked);
    } else {
        nx_retry_refuse(a->comm, *was);
    }
    return err;
}

nexar_err nx_coll_wait(const nx_coll_args *a, void *shard_arg)
{
    NX_NOT_CANCELLED;
    const nx_retry_how how = {.once = run_for_retry, .arg = shard_arg};
    nx_incarnation *was;
    nexar_err err;
    bool begun;

    if ((a->comm == NULL) || !a->comm->retry.on) {
        return run_once(a, shard_arg, true, &begun);
    }
    err = check_known(a, &was);
    return (err == NEXAR_OK) ? nx_retry_run(a, was, &how) : err;
}

/* ---- with a request -------------------------------------------------------------------- */

typedef struct coll_request {
    nexar_request base;
    nx_run *run;
    shard shard;
    nx_job job;
    nexar_err hook_err;
} coll_request;

static nexar_err request_finish(nexar_request *req, nexar_status *status)
{
    (void)status;
    return outcome(req->comm, ((coll_request *)req)->run);
}

static void request_destroy(nexar_request *req)
{
    coll_request *r = (coll_request *)req;

    if (r->run != NULL) {
        nx_run_destroy(r->run);
    }
    nx_free(r);
}

static const nx_request_ops coll_ops = {.finish = request_finish, .destroy = request_destroy};

/* finalize waits for it; no caller can any more */
static void tell_lost(nx_world *world, const nx_run *run)
{
    char why[NX_ERROR_ROOM];

    (void)nx_sentence(why, sizeof(why), "a collective in flight has failed: %s #%u: %s",
                      nx_mark_name(&run->mark), run->number, run->why);
    nx_world_lost(world, run->err, why);
}

static void on_request_done(nx_run *run)
{
    coll_request *r = run->owner;

    if ((run->err != NEXAR_OK) && r->base.comm->world->closing) {
        tell_lost(r->base.comm->world, run);
    }
    nx_world_end(r->base.comm->world);
    nx_recovery_leave(r->base.inc);
    nx_recovery_request_done(&r->base, run->err);
}

static void hook_work(nx_job *job)
{
    coll_request *r = nx_list_entry(job, coll_request, job);

    r->hook_err = r->shard.fn(r->shard.ptr, r->shard.off, r->shard.count, r->shard.arg);
}

static void hook_done(nx_job *job)
{
    coll_request *r = nx_list_entry(job, coll_request, job);

    nx_run_called(r->run, r->hook_err);
}

static void on_request_shard(nx_run *run, void *ptr, size_t off, size_t count)
{
    coll_request *r = run->owner;
    nexar_err err = NEXAR_OK;

    r->shard.ptr = ptr;
    r->shard.off = off;
    r->shard.count = count;
    if (r->shard.fn == NULL) {
        nx_run_called(run, NEXAR_OK);
        return;
    }
    r->job = (nx_job){.work = hook_work, .done = hook_done};
    err = nx_world_work(r->base.comm->world, &r->job);
    if (err != NEXAR_OK) {
        nx_run_called(run, err);
    }
}

/* With retry=on. */
static nexar_err start_queued(const nx_coll_args *a, void *shard_arg, nexar_request **req)
{
    const nx_retry_how how = {.once = run_for_retry, .arg = shard_arg};
    nx_incarnation *was;
    nexar_err err;

    if (req == NULL) {
        return nx_fail(NEXAR_EINVAL, "%s: req is NULL", a->name);
    }
    err = check_known(a, &was);
    return (err == NEXAR_OK) ? nx_queued_start(a, was, &how, req) : err;
}

/* Without retry=on. */
static nexar_err start_once(const nx_coll_args *a, void *shard_arg, nexar_request **req)
{
    const unsigned epoch = (a->comm == NULL) ? 0 : a->comm->epoch; /* before the check */
    nx_coll_checked checked;
    nexar_err err = prepare(a, &checked);
    nx_incarnation *inc;
    coll_request *r;
    nx_loop *loop;

    if (err != NEXAR_OK) {
        (void)((err == NEXAR_ENOMEM) && tell_short(a, epoch, err));
        return err;
    }
    r = (req == NULL) ? NULL : nx_zalloc(sizeof(*r));
    if (r == NULL) {
        nx_comm_memory_done(&checked.call.mem);
        nx_coll_args_done(&checked);
        if (req == NULL) {
            return nx_fail(NEXAR_EINVAL, "%s: req is NULL", a->name);
        }
        err = nx_fail_nomem("a request");
        (void)tell_short(a, epoch, err);
        return err;
    }
    r->shard = (shard){.fn = a->on_shard, .arg = shard_arg};
    loop = a->comm->world->loop;
    nx_loop_lock(loop);
    inc = where(a, epoch);
    if (inc == NULL) {
        nx_comm_memory_done(&checked.call.mem);
        nx_coll_args_done(&checked);
        err = fail_rebuilt(a->name);
    } else {
        err = make_run_or_tell(inc, &checked, 0, &r->run);
    }
    if (err == NEXAR_OK) {
        nx_recovery_enter(inc);
        nx_request_init(&r->base, &coll_ops, a->comm);
        r->run->owner = r;
        r->run->on_done = on_request_done;
        r->run->on_shard = on_request_shard;
        *req = &r->base;
        nx_world_begin(a->comm->world);
        nx_run_begin(r->run);
        nx_loop_kick(loop);
    } else {
        nx_free(r);
    }
    nx_loop_unlock(loop);
    return err;
}

nexar_err nx_coll_start(const nx_coll_args *a, void *shard_arg, nexar_request **req)
{
    NX_NOT_CANCELLED;
    const bool retries = (a->comm != NULL) && a->comm->retry.on;

    return (retries ? start_queued : start_once)(a, shard_arg, req);
}
