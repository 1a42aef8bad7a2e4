/*
 * compressed.c - the compressed allreduce for the application: computations without the loop's
 * lock, alternating with collectives of the engine.
 *
 * These collectives are parts of one operation.  The call takes the operation's number when it
 * begins.  What the application starts next therefore follows it on every rank, also on ranks that
 * have called something else.  All parts carry the fingerprint of the one public call.
 *
 * When a part fails here, the call is over.  Another rank may have completed that part and wait in
 * the next one for this rank, so this rank also cancels the next part.  No rank can be further:
 * every collective receives from all ranks before it ends.
 *
 * Tensors of a device are copied to the host as a whole, and back at the end: the CPU does the
 * computations.
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/os/cancellation.h"
#include "base/text/sentence.h"
#include "coll/compress/compress.h"
#include "coll/run/run.h"
#include "core/comm/comm_device.h"
#include "core/recovery/recovery.h"
#include "core/recovery/retry_queue.h"
#include "core/world/fork_guard.h"

typedef struct compressed {
    nexar_request base; /* used by the form with a request */
    nexar_comm *comm;
    nx_incarnation *inc; /* held: on which it runs */
    nx_compress *work;
    nx_coll_call whole; /* as the fingerprints encode it */
    nx_exchange next;
    uint32_t number, parts;
    uint32_t at;   /* the part that runs, or runs next */
    nexar_err err; /* of the computation, then of the call */
    char why[NX_RUN_WHY];
    nx_job job;     /* with a request: runs the computation */
    nx_event event; /* without a request: set when the collective is done */
    bool waited, running, done;
    nx_devmem mem; /* referenced; none: host memory */
    void *dev_buf, *dev_residual;
    uint8_t *shadow; /* both on the host, |bytes| each */
    size_t bytes;
    bool loaded;
} compressed;

_Static_assert((int)NX_COMPRESS_EXCHANGES <= (int)NX_CALL_PARTS, "each exchange is a part");

/* ---- one call, with the lock held unless noted -------------------------------------- */

static nexar_err load(compressed *c)
{
    nexar_err err = nx_device_read(c->mem, c->shadow, c->dev_buf, c->bytes);

    if ((err == NEXAR_OK) && (c->dev_residual != NULL)) {
        err = nx_device_read(c->mem, c->shadow + c->bytes, c->dev_residual, c->bytes);
    }
    c->loaded = true;
    return err;
}

static nexar_err store(const compressed *c)
{
    nexar_err err = nx_device_write(c->mem, c->dev_buf, c->shadow, c->bytes);

    if ((err == NEXAR_OK) && (c->dev_residual != NULL)) {
        err = nx_device_write(c->mem, c->dev_residual, c->shadow + c->bytes, c->bytes);
    }
    return err;
}

/* Without the lock. */
static void compute(compressed *c)
{
    c->err = ((c->shadow != NULL) && !c->loaded) ? load(c) : NEXAR_OK;
    if (c->err == NEXAR_OK) {
        c->err = nx_compress_next(c->work, &c->next);
    }
    if ((c->err == NEXAR_OK) && (c->shadow != NULL) && (c->next.kind == NX_COLL_KINDS)) {
        c->err = store(c);
    }
    if (c->err != NEXAR_OK) {
        (void)nx_sentence(c->why, sizeof(c->why), "rank %u: %s", c->inc->rank, nexar_last_error());
    }
}

static void drop_shadow(compressed *c)
{
    nx_free(c->shadow);
    c->shadow = NULL;
    nx_comm_memory_done(&c->mem);
}

static nexar_err outcome(const compressed *c)
{
    if (c->err == NEXAR_OK) {
        return NEXAR_OK;
    }
    return nx_fail(c->err, "allreduce_compressed #%u: %s", c->number, c->why);
}

/* The call is over: its remaining collectives never begin. */
static void finish(compressed *c)
{
    nx_group_unreserve(&c->inc->group, c->number, c->parts);
    nx_compress_destroy(c->work);
    c->work = NULL;
    drop_shadow(c);
    c->done = true;
    if ((c->err != NEXAR_OK) && c->comm->world->closing) {
        (void)outcome(c);
        nx_world_lost(c->comm->world, c->err, nexar_last_error());
    }
    nx_world_end(c->comm->world);
    nx_recovery_leave(c->inc);
    if (!c->waited) {
        nx_recovery_request_done(&c->base, c->err);
    }
}

/* The call fails with |err|, because of |why|.  Part |at| and the following parts do not run
 * here. */
static void give_up(compressed *c, uint32_t at)
{
    if (at < c->parts) {
        nx_group_tell(&c->inc->group, c->number, at, c->err, c->why);
    }
    finish(c);
}

static void start_computing(compressed *c);

static void on_part_done(nx_run *run)
{
    compressed *c = run->owner;

    c->running = false;
    c->err = run->err;
    if (run->err != NEXAR_OK) {
        (void)nx_sentence(c->why, sizeof(c->why), "%s", run->why);
    }
    nx_run_destroy(run);
    c->at++;
    if (c->err != NEXAR_OK) {
        give_up(c, c->at);
    } else if (!c->waited) {
        start_computing(c);
    }
    if (c->waited) {
        nx_event_set(c->comm->world->loop, &c->event);
    }
}

static nx_coll_call part_call(const compressed *c)
{
    const nx_exchange *e = &c->next;
    const uint32_t n = c->inc->size;
    nx_coll_call call = {.guise = NX_VARIANT_COMPRESSED,
                         .dtype = e->dtype,
                         .op = e->op,
                         .send = e->send,
                         .recv = e->recv};

    call.coll = (nx_coll){.kind = e->kind,
                          .rank = c->inc->rank,
                          .size = n,
                          .count = e->count,
                          .in_place = (e->kind == NX_ALLREDUCE),
                          .average = (e->kind == NX_ALLREDUCE) && (e->op == NEXAR_AVG)};
    if (e->recv_counts != NULL) {
        call.coll.parts = nx_split_counts(e->recv_counts, e->recv_displs, n);
    }
    if (e->send_counts != NULL) {
        call.coll.send_parts = nx_split_counts(e->send_counts, e->send_displs, n);
    }
    return call;
}

/* After a computation: the next collective, or the end. */
static void go_on(compressed *c)
{
    const nx_coll_call call = part_call(c);
    nx_run *run;

    if ((c->err == NEXAR_OK) && (c->next.kind == NX_COLL_KINDS)) {
        finish(c);
        return;
    }
    if (c->err == NEXAR_OK) {
        c->err = nx_run_make(&run, &c->inc->group, &call, c->number);
        if (c->err == NEXAR_OK) {
            run->part = c->at;
            run->mark = nx_mark_within(&run->mark, &c->whole);
            run->owner = c;
            run->on_done = on_part_done;
            c->running = true;
            nx_run_begin(run);
            return;
        }
        (void)nx_sentence(c->why, sizeof(c->why), "rank %u: %s", c->inc->rank, nexar_last_error());
    }
    give_up(c, c->at);
}

/* ---- start -------------------------------------------------------------------------- */

/* The values that must be equal on every rank. */
static nx_coll_call whole_call(const nx_compress_call *call)
{
    const bool some = (call->how == NEXAR_COMPRESS_TOPK) || (call->how == NEXAR_COMPRESS_RANDOMK);
    nx_coll_call whole = {.guise = NX_VARIANT_COMPRESSED, .dtype = call->dtype, .op = call->op};
    uint64_t ratio = 0;

    if (some) {
        memcpy(&ratio, &call->ratio, sizeof(ratio));
    }
    whole.coll = (nx_coll){.kind = NX_ALLREDUCE, .count = call->count};
    whole.detail = nx_mark_mix(nx_mark_mix(1, (uint64_t)call->how), ratio);
    return whole;
}

/* Makes |call| use a host copy of its device memory; without the lock. */
static nexar_err open_memory(compressed *c, nx_compress_call *call)
{
    nexar_err err = nx_comm_memory(c->comm, &c->mem);

    if ((err != NEXAR_OK) || (c->mem.device == NULL) || (call->count == 0)) {
        return err;
    }
    c->bytes = call->count * nexar_dtype_size(call->dtype);
    c->shadow = nx_calloc(c->bytes, (call->residual == NULL) ? 1 : 2);
    if (c->shadow == NULL) {
        nx_comm_memory_done(&c->mem);
        return nx_fail_nomem("a tensor of a device");
    }
    c->dev_buf = call->buf;
    c->dev_residual = call->residual;
    call->buf = c->shadow;
    call->residual = (call->residual == NULL) ? NULL : c->shadow + c->bytes;
    return NEXAR_OK;
}

/* This rank cannot begin the call, and the other ranks wait for it.  Notifies them; the call's
 * number is used up.  With the lock held. */
static nexar_err fall_out(nx_incarnation *inc, nexar_err err)
{
    err = nx_comm_give_up(inc, 0, err);
    nx_loop_kick(inc->world->loop);
    return err;
}

/* Prepares the call for its computations; with the lock held.  An error uses up no number. */
static nexar_err begin(compressed *c, nx_compress_call *call)
{
    nx_group *group = &c->inc->group;
    nexar_err err;

    c->parts = nx_compress_exchanges(call->how);
    c->whole = whole_call(call);
    call->rank = c->inc->rank;
    call->size = c->inc->size;
    call->seed = nx_mark_mix(nx_mark_mix(c->inc->id, c->inc->size), group->next);
    err = nx_compress_create(&c->work, call);
    if (err != NEXAR_OK) {
        drop_shadow(c);
        return err;
    }
    err = nx_group_reserve(group, c->parts, &c->number);
    if (err != NEXAR_OK) {
        nx_compress_destroy(c->work);
        drop_shadow(c);
        return err;
    }
    nx_world_begin(c->comm->world);
    nx_recovery_enter(c->inc);
    return NEXAR_OK;
}

static nexar_err check(const char *name, nexar_comm *comm, const nx_compress_call *call)
{
    char why[NX_ERROR_ROOM];
    nexar_err err;

    if (comm == NULL) {
        return nx_fail(NEXAR_EINVAL, "%s: comm is NULL", name);
    }
    err = nx_fork_guard_check(name, comm->world);
    if (err != NEXAR_OK) {
        return err;
    }
    err = nx_compress_check(call);
    if (err != NEXAR_OK) {
        (void)nx_sentence(why, sizeof(why), "%s", nexar_last_error());
        return nx_fail(err, "%s: %s", name, why);
    }
    return NEXAR_OK;
}

/* ---- blocking ----------------------------------------------------------------------- */

/* Runs |c| with the lock, which is released while this thread waits. */
static void run_waiting(compressed *c)
{
    nx_world *world = c->comm->world;

    while (!c->done) {
        nx_loop_unlock(world->loop);
        compute(c);
        nx_loop_lock(world->loop);
        go_on(c);
        while (c->running) {
            c->event.set = false;
            nx_oplog_enter(&world->log);
            (void)nx_loop_wait(world->loop, &c->event, UINT64_MAX);
            nx_oplog_leave(&world->log);
        }
    }
    nx_loop_kick(world->loop);
}

/* Runs |asked| once, on |inc|.  NULL: on comm->inc, and the communicator is rebuilt if the settings
 * say so.  |*begun|: other ranks know of it. */
static nexar_err run_once(nexar_comm *comm, nx_incarnation *inc, const nx_compress_call *asked,
                          bool *begun)
{
    nx_loop *loop = comm->world->loop;
    compressed c = {.comm = comm, .waited = true};
    nx_compress_call call = *asked;
    nexar_err err = open_memory(&c, &call);

    *begun = true;
    nx_loop_lock(loop);
    c.inc = nx_incarnation_hold((inc == NULL) ? comm->inc : inc);
    if (err == NEXAR_OK) {
        err = begin(&c, &call);
    }
    if (err == NEXAR_OK) {
        run_waiting(&c);
        err = outcome(&c);
    } else {
        err = fall_out(c.inc, err);
    }
    if (inc == NULL) {
        err = nx_recovery_after(c.inc, err);
    }
    nx_incarnation_release(c.inc);
    nx_loop_unlock(loop);
    return err;
}

static nexar_err run_for_retry(const nx_coll_args *a, void *arg, bool *begun)
{
    return run_once(a->comm, a->inc, arg, begun);
}

/* Adapts |call| for retry.h; |changed| is the memory that it changes. */
enum { CHANGED = 2 };
static nx_coll_args retry_args(const char *name, nexar_comm *comm, const nx_compress_call *call,
                               nexar_tensor changed[CHANGED])
{
    changed[0] = (nexar_tensor){.ptr = call->buf, .count = call->count};
    changed[1] =
        (nexar_tensor){.ptr = call->residual, .count = (call->residual == NULL) ? 0 : call->count};
    return (nx_coll_args){.name = name,
                          .comm = comm,
                          .kind = NX_ALLREDUCE,
                          .guise = NX_VARIANT_COMPRESSED,
                          .tensors = changed,
                          .ntensors = CHANGED,
                          .dtype = call->dtype,
                          .op = call->op};
}

// NOLINTNEXTLINE(readability-function-size): the API has this many parameters
nexar_err nexar_allreduce_compressed(nexar_comm *comm, void *buf, size_t count, nexar_dtype dtype,
                                     nexar_op op, nexar_compression how, double ratio,
                                     void *residual)
{
    NX_NOT_CANCELLED;
    nx_compress_call call = {.buf = buf,
                             .residual = residual,
                             .count = count,
                             .dtype = dtype,
                             .op = op,
                             .how = how,
                             .ratio = ratio};
    nexar_err err = check("allreduce_compressed", comm, &call);
    nexar_tensor changed[CHANGED];
    nx_coll_args args;
    bool begun;

    if (err != NEXAR_OK) {
        return err;
    }
    if (!comm->retry.on) {
        return run_once(comm, NULL, &call, &begun);
    }
    args = retry_args("allreduce_compressed", comm, &call, changed);
    return nx_retry_run(&args, nx_retry_known(comm),
                        &(nx_retry_how){.once = run_for_retry, .arg = &call});
}

/* ---- with a request ----------------------------------------------------------------- */

static void compute_job(nx_job *job)
{
    compute(nx_list_entry(job, compressed, job));
}

static void computed(nx_job *job)
{
    go_on(nx_list_entry(job, compressed, job));
}

static void start_computing(compressed *c)
{
    nexar_err err;

    c->job = (nx_job){.work = compute_job, .done = computed};
    err = nx_world_work(c->comm->world, &c->job); /* it may run by now, and owns |c| */
    if (err != NEXAR_OK) {
        c->err = err;
        (void)nx_sentence(c->why, sizeof(c->why), "rank %u: %s", c->inc->rank, nexar_last_error());
        give_up(c, c->at);
    }
}

static nexar_err request_finish(nexar_request *req, nexar_status *status)
{
    (void)status;
    return outcome((compressed *)req);
}

static void request_destroy(nexar_request *req)
{
    nx_free(req);
}

static const nx_request_ops compressed_ops = {.finish = request_finish, .destroy = request_destroy};

/* With retry=on. */
static nexar_err start_queued(nexar_comm *comm, nx_compress_call *call, nexar_request **req)
{
    nexar_tensor changed[CHANGED];
    const nx_coll_args args = retry_args("iallreduce_compressed", comm, call, changed);

    return nx_queued_start(
        &args, nx_retry_known(comm),
        &(nx_retry_how){.once = run_for_retry, .arg = call, .kept = sizeof(*call)}, req);
}

/* Without retry=on. */
static nexar_err start_once(nexar_comm *comm, nx_compress_call *call, nexar_request **req)
{
    compressed *c = nx_zalloc(sizeof(*c));
    nexar_err err;

    if (c == NULL) {
        err = nx_fail_nomem("a request");
    } else {
        c->comm = comm;
        err = open_memory(c, call);
    }
    nx_loop_lock(comm->world->loop);
    if ((c != NULL) && (err == NEXAR_OK)) {
        c->inc = comm->inc; /* which the request holds */
        err = begin(c, call);
    }
    if ((c != NULL) && (err == NEXAR_OK)) {
        nx_request_init(&c->base, &compressed_ops, comm);
        *req = &c->base;
        start_computing(c);
    } else {
        err = fall_out(comm->inc, err);
        nx_free(c);
    }
    nx_loop_unlock(comm->world->loop);
    return err;
}

// NOLINTNEXTLINE(readability-function-size): the API has this many parameters
nexar_err nexar_iallreduce_compressed(nexar_comm *comm, void *buf, size_t count, nexar_dtype dtype,
                                      nexar_op op, nexar_compression how, double ratio,
                                      void *residual, nexar_request **req)
{
    NX_NOT_CANCELLED;
    nx_compress_call call = {.buf = buf,
                             .residual = residual,
                             .count = count,
                             .dtype = dtype,
                             .op = op,
                             .how = how,
                             .ratio = ratio};
    nexar_err err = check("iallreduce_compressed", comm, &call);

    if (err != NEXAR_OK) {
        return err;
    }
    if (req == NULL) {
        return nx_fail(NEXAR_EINVAL, "iallreduce_compressed: req is NULL");
    }
    return (comm->retry.on ? start_queued : start_once)(comm, &call, req);
}
