/* rpc_api.c - remote procedure calls: the public interface of src/rpc. */
#include <inttypes.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/os/cancellation.h"
#include "core/request.h"
#include "core/world/fork_guard.h"
#include "rpc/rpc.h"

/* A call, with the data for its error message and the destination of its reply. */
typedef struct rpc_op {
    nx_rpc_call call;
    nexar_comm *comm;
    uint32_t id;      /* of its incarnation when it was started */
    const char *name; /* "rpc_call", "rpc_icall" */
    int rank;
    uint16_t fn;
    void **reply;
    size_t *reply_bytes;
} rpc_op;

typedef struct rpc_request {
    nexar_request base;
    rpc_op op;
} rpc_request;

/* ---- outcomes ------------------------------------------------------------------------- */

static nexar_err op_error(const rpc_op *op)
{
    const nx_rpc_call *call = &op->call;
    const bool text = (call->text != NULL) && (call->text[0] != '\0');
    char peer[NX_PEER_TEXT], on[NX_COMM_ON];

    (void)nx_world_peer_text(op->comm->world, call->peer, peer);
    return nx_fail(call->err, "%s of function %u at %s%s: %s%s%s", op->name, op->fn, peer,
                   nx_comm_on(op->comm, on), call->why, text ? ": " : "", text ? call->text : "");
}

/* Passes on the reply, or formats the error; the call then holds nothing. */
static nexar_err op_finish(rpc_op *op)
{
    nx_rpc_call *call = &op->call;
    nexar_err err = call->err;

    if (err != NEXAR_OK) {
        err = op_error(op);
    } else {
        if (op->reply != NULL) {
            *op->reply = call->reply;
            call->reply = NULL;
        }
        if (op->reply_bytes != NULL) {
            *op->reply_bytes = (size_t)call->reply_bytes;
        }
    }
    nx_free(call->reply);
    nx_free(call->text);
    call->reply = NULL;
    call->text = NULL;
    return err;
}

/* ---- requests ---------------------------------------------------------------------------- */

static nexar_err request_finish(nexar_request *req, nexar_status *status)
{
    (void)status;
    return op_finish(&((rpc_request *)req)->op);
}

static void request_cancel(nexar_request *req)
{
    nx_rpc_cancel(&((rpc_request *)req)->op.call);
}

static void request_destroy(nexar_request *req)
{
    rpc_op *op = &((rpc_request *)req)->op;

    nx_free(op->call.reply);
    nx_free(op->call.text);
    nx_free(req);
}

/* |op| as reports have it. */
static nx_what op_what(const rpc_op *op)
{
    return (nx_what){.kind = NX_WHAT_RPC,
                     .name = op->name,
                     .comm = op->id,
                     .peer = op->call.peer,
                     .tag = op->fn};
}

static void request_what(const nexar_request *req, nx_blocked *out)
{
    out->what = op_what(&((const rpc_request *)req)->op);
}

static const nx_request_ops rpc_ops = {.finish = request_finish,
                                       .what = request_what,
                                       .cancel = request_cancel,
                                       .destroy = request_destroy};

static void on_done(nx_rpc_call *call)
{
    nx_request_done(&nx_list_entry(call, rpc_request, op.call)->base);
}

/* ---- arguments ---------------------------------------------------------------------------- */

static nexar_err check(const rpc_op *op, const void *data, size_t bytes)
{
    if (op->comm == NULL) {
        return nx_fail(NEXAR_EINVAL, "%s: comm is NULL", op->name);
    }
    if ((op->rank < 0) || (op->rank >= nexar_size(op->comm))) {
        return nx_fail(NEXAR_EINVAL, "%s: there is no rank %d; ranks are 0 to %d", op->name,
                       op->rank, nexar_size(op->comm) - 1);
    }
    if ((data == NULL) && (bytes != 0)) {
        return nx_fail(NEXAR_EINVAL, "%s: the data of %zu bytes is NULL", op->name, bytes);
    }
    if ((op->reply != NULL) && (op->reply_bytes == NULL)) {
        return nx_fail(NEXAR_EINVAL,
                       "%s: reply_bytes is NULL, so nobody would know how long the "
                       "reply is; it may be NULL only if reply is",
                       op->name);
    }
    return nx_fork_guard_check(op->name, op->comm->world);
}

static void start(rpc_op *op, const void *data, size_t bytes, uint64_t timeout_ns)
{
    nx_world *world = op->comm->world;
    const nx_incarnation *inc = op->comm->inc;
    /* The communicator may have been rebuilt without the peer after the call was checked. */
    const bool gone = ((uint32_t)op->rank >= inc->size);
    const nx_rpc_target target = {
        .peer = nx_incarnation_peer(inc, gone ? inc->rank : (uint32_t)op->rank),
        .comm = inc->id,
        .fn = op->fn,
        .revoked = (inc->revoked || gone) ? "the communicator was revoked" : NULL};

    op->id = inc->id;
    op->call.wanted = (op->reply != NULL);
    nx_rpc_start(world->rpc, &op->call, &target, data, bytes, timeout_ns);
}

static uint64_t default_timeout(const nexar_comm *comm)
{
    return nx_config_number(comm->world->config, NX_SET_RPC_TIMEOUT);
}

/* Calls and waits; the arguments are valid. */
static nexar_err call(rpc_op *op, const void *data, size_t bytes, uint64_t timeout_ns)
{
    nx_world *world = op->comm->world;
    nx_event event = {0};
    nx_blocked b = {0};
    nexar_err err;

    op->call.event = &event;
    nx_loop_lock(world->loop);
    start(op, data, bytes, timeout_ns);
    b.what = op_what(op);
    nx_oplog_block(&world->log, &b, nx_loop_now(world->loop));
    (void)nx_loop_wait(world->loop, &event, UINT64_MAX);
    nx_oplog_unblock(&world->log, &b, nx_loop_now(world->loop), op->call.err);
    err = op_finish(op);
    nx_loop_unlock(world->loop);
    return err;
}

/* ---- public --------------------------------------------------------------------------------- */

nexar_err nexar_rpc_register(nexar_comm *comm, uint16_t fn_id, nexar_rpc_fn fn, void *arg)
{
    NX_NOT_CANCELLED;
    const nx_rpc_handler handler = {.fn = fn, .arg = arg, .owner = comm};
    nexar_err err;

    if (comm == NULL) {
        return nx_fail(NEXAR_EINVAL, "rpc_register: comm is NULL");
    }
    err = nx_fork_guard_check("rpc_register", comm->world);
    if (err != NEXAR_OK) {
        return err;
    }
    nx_loop_lock(comm->world->loop);
    nx_comm_hold(comm);
    err = nx_rpc_register(comm->world->rpc, comm->handlers, fn_id, &handler);
    nx_loop_unlock(comm->world->loop);
    return err;
}

// NOLINTBEGIN(readability-non-const-parameter): written when the reply is here
nexar_err nexar_rpc_call(nexar_comm *comm, int rank, uint16_t fn_id, const void *data, size_t bytes,
                         void **reply, size_t *reply_bytes)
{
    NX_NOT_CANCELLED;
    // NOLINTEND(readability-non-const-parameter)
    rpc_op op = {.comm = comm,
                 .name = "rpc_call",
                 .rank = rank,
                 .fn = fn_id,
                 .reply = reply,
                 .reply_bytes = reply_bytes};
    const nexar_err err = check(&op, data, bytes);

    return (err == NEXAR_OK) ? call(&op, data, bytes, default_timeout(comm)) : err;
}

// NOLINTBEGIN(readability-function-size,readability-non-const-parameter): as the API has it
nexar_err nexar_rpc_call_for(nexar_comm *comm, int rank, uint16_t fn_id, const void *data,
                             size_t bytes, uint64_t timeout_ns, void **reply, size_t *reply_bytes)
{
    NX_NOT_CANCELLED;
    // NOLINTEND(readability-function-size,readability-non-const-parameter)
    rpc_op op = {.comm = comm,
                 .name = "rpc_call_for",
                 .rank = rank,
                 .fn = fn_id,
                 .reply = reply,
                 .reply_bytes = reply_bytes};
    const nexar_err err = check(&op, data, bytes);

    return (err == NEXAR_OK) ? call(&op, data, bytes, timeout_ns) : err;
}

// NOLINTBEGIN(readability-function-size,readability-non-const-parameter): as the API has it
nexar_err nexar_rpc_icall(nexar_comm *comm, int rank, uint16_t fn_id, const void *data,
                          size_t bytes, void **reply, size_t *reply_bytes, nexar_request **req)
{
    NX_NOT_CANCELLED;
    // NOLINTEND(readability-function-size,readability-non-const-parameter)
    const rpc_op op = {.comm = comm,
                       .name = "rpc_icall",
                       .rank = rank,
                       .fn = fn_id,
                       .reply = reply,
                       .reply_bytes = reply_bytes};
    nexar_err err = check(&op, data, bytes);
    rpc_request *made;

    if (err != NEXAR_OK) {
        return err;
    }
    if (req == NULL) {
        return nx_fail(NEXAR_EINVAL, "rpc_icall: req is NULL");
    }
    made = nx_zalloc(sizeof(*made));
    if (made == NULL) {
        return nx_fail_nomem("a call");
    }
    made->op = op;
    made->op.call.on_done = on_done;
    nx_loop_lock(comm->world->loop);
    nx_request_init(&made->base, &rpc_ops, comm);
    *req = &made->base; /* the request may complete at once */
    start(&made->op, data, bytes, default_timeout(comm));
    nx_loop_kick(comm->world->loop);
    nx_loop_unlock(comm->world->loop);
    return NEXAR_OK;
}

int nexar_rpc_caller(const nexar_rpc *call)
{
    return (call == NULL) ? -1 : nx_rpc_caller(call);
}

nexar_err nexar_rpc_reply(nexar_rpc *call, const void *data, size_t bytes)
{
    NX_NOT_CANCELLED;
    nexar_err err;

    if (call == NULL) {
        return nx_fail(NEXAR_EINVAL, "rpc_reply: call is NULL");
    }
    if ((data == NULL) && (bytes != 0)) {
        return nx_fail(NEXAR_EINVAL, "rpc_reply: the data of %zu bytes is NULL", bytes);
    }
    nx_loop_lock(nx_rpc_loop_of(call));
    err = nx_rpc_reply(call, data, bytes);
    nx_loop_unlock(nx_rpc_loop_of(call));
    return err;
}
