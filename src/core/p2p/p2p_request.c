/* p2p_request.c - sends and receives with a request. */
#include "core/p2p/p2p_request.h"
#include "base/alloc.h"
#include "base/os/cancellation.h"
#include "core/p2p/message.h"
#include "core/p2p/p2p_args.h"
#include "core/p2p/p2p_wait.h"
#include "core/request.h"

enum { SPARE = 256 /* number of requests whose memory is kept: 256 KiB */ };

typedef struct p2p_request {
    nexar_request base;
    nx_op op;
    union { /* the buffer, ... */
        nx_iov_span span;
        nx_bytes bytes;
    };
    void *regions;                  /* ... or several: owned; NULL: one */
    nexar_message *made, **message; /* of a matched probe: where its result goes */
    nx_p2p_room *room;              /* of a receive that allocates its memory after the match */
} p2p_request;

/* ---- requests ------------------------------------------------------------------------ */

static nexar_err request_finish(nexar_request *req, nexar_status *status)
{
    p2p_request *r = (p2p_request *)req;
    const nexar_err err = nx_op_finish(&r->op, status);

    if ((err == NEXAR_OK) && (r->made != NULL)) {
        nx_message_init(r->made, &r->op);
        *r->message = r->made;
        r->made = NULL;
    }
    return err;
}

static void request_what(const nexar_request *req, nx_blocked *out)
{
    out->op = &((const p2p_request *)req)->op;
    out->what = nx_op_what(out->op);
}

static void request_cancel(nexar_request *req)
{
    nx_op_cancel(&((p2p_request *)req)->op);
}

static void request_destroy(nexar_request *req)
{
    nx_world *world = req->comm->world;

    nx_free(((p2p_request *)req)->regions);
    nx_free(((p2p_request *)req)->made);
    if (world->nspare >= SPARE) {
        nx_free(req);
        return;
    }
    nx_list_push_front(&world->spare, &req->link); /* the next request finds it in the cache */
    world->nspare++;
}

void nx_p2p_free_spare(nx_world *world)
{
    nx_list *at;

    while ((at = nx_list_pop(&world->spare)) != NULL) {
        nx_free(nx_list_entry(at, p2p_request, base.link));
    }
    world->nspare = 0;
}

static const nx_request_ops p2p_ops = {.finish = request_finish,
                                       .what = request_what,
                                       .cancel = request_cancel,
                                       .destroy = request_destroy};

static void on_request_over(nx_op *op)
{
    p2p_request *r = nx_list_entry(op, p2p_request, op);

    nx_request_done(&r->base);
}

/* A request on |comm|, not started; NULL: out of memory. */
static p2p_request *request_create(nexar_comm *comm, nx_devmem mem)
{
    nx_list *spare = nx_list_pop(&comm->world->spare);
    p2p_request *r;

    if (spare != NULL) {
        r = nx_list_entry(spare, p2p_request, base.link);
        r->base = (nexar_request){0};
        comm->world->nspare--;
    } else {
        r = nx_zalloc(sizeof(*r));
    }
    if (r != NULL) {
        nx_request_init(&r->base, &p2p_ops, comm);
        r->regions = NULL;
        r->made = NULL;
        nx_op_init(&r->op, comm, mem, on_request_over);
    }
    return r;
}

/* ---- public -------------------------------------------------------------------------- */

/* The check of |name| gave |*err|.  If that is NEXAR_OK, returns a request, and takes the lock.
 * Otherwise, or without memory, NULL with an error in |*err|. */
static p2p_request *open_request(const char *name, nexar_comm *comm, nexar_request **req,
                                 nexar_err *err)
{
    p2p_request *made;
    nx_devmem mem;

    if (req == NULL) {
        *err = nx_fail(NEXAR_EINVAL, "%s: req is NULL", name);
        return NULL;
    }
    if (*err == NEXAR_OK) {
        *err = nx_comm_memory(comm, &mem);
    }
    if (*err != NEXAR_OK) {
        return NULL;
    }
    nx_loop_enter(comm->world->loop);
    made = request_create(comm, mem);
    nx_comm_memory_done(&mem);
    if (made == NULL) {
        nx_loop_unlock(comm->world->loop);
        *err = nx_fail_nomem("a request");
    }
    return made;
}

/* The request's operation has begun. */
static void give_request(p2p_request *made, nexar_comm *comm, nexar_request **req)
{
    *req = &made->base;
    nx_loop_unlock(comm->world->loop);
}

nexar_err nexar_isend(nexar_comm *comm, const void *buf, size_t bytes, int dest, uint64_t tag,
                      nexar_request **req)
{
    NX_NOT_CANCELLED;
    p2p_request *made;
    nexar_err err = nx_p2p_check_dest("isend", comm, dest, tag);

    if (err == NEXAR_OK) {
        err = nx_p2p_check_memory("isend", buf, bytes);
    }
    made = open_request("isend", comm, req, &err);
    if (made != NULL) {
        made->bytes = (nx_bytes){.ptr = buf, .len = bytes};
        if (nx_op_send_short(comm, &made->bytes, dest, tag)) {
            nx_op_sent(&made->op, "isend", dest, tag);
        } else {
            (void)nx_loop_refresh(comm->world->loop);
            nx_op_send(&made->op, "isend", &made->bytes, 1, dest, tag);
        }
        nx_loop_flush(comm->world->loop, bytes + 1);
        give_request(made, comm, req);
    }
    return err;
}

nexar_err nexar_irecv(nexar_comm *comm, void *buf, size_t bytes, int source, uint64_t tag,
                      nexar_request **req)
{
    NX_NOT_CANCELLED;
    p2p_request *made;
    nexar_err err = nx_p2p_check_source("irecv", comm, source);

    if (err == NEXAR_OK) {
        err = nx_p2p_check_memory("irecv", buf, bytes);
    }
    made = open_request("irecv", comm, req, &err);
    if (made != NULL) {
        made->span = (nx_iov_span){.ptr = buf, .len = bytes};
        nx_op_recv(&made->op, "irecv", &made->span, 1, source, tag);
        nx_loop_settle(comm->world->loop);
        give_request(made, comm, req);
    }
    return err;
}

/* The regions of a request, which owns them: |n|, at least one. */
static void *own(p2p_request *made, size_t n, size_t each)
{
    made->regions = nx_calloc((n == 0) ? 1 : n, each);
    return made->regions;
}

/* No memory for the regions of |made|, which was not begun. */
static nexar_err no_regions(p2p_request *made, nexar_comm *comm)
{
    nx_request_destroy(&made->base);
    nx_loop_unlock(comm->world->loop);
    return nx_fail_nomem("the regions of a request");
}

nexar_err nexar_isendv(nexar_comm *comm, const nexar_iov *iov, size_t n, int dest, uint64_t tag,
                       nexar_request **req)
{
    NX_NOT_CANCELLED;
    p2p_request *made;
    nexar_err err = nx_p2p_check_dest("isendv", comm, dest, tag);

    if (err == NEXAR_OK) {
        err = nx_p2p_check_regions("isendv", iov, n);
    }
    made = open_request("isendv", comm, req, &err);
    if (made == NULL) {
        return err;
    }
    if (own(made, n, sizeof(nx_bytes)) == NULL) {
        return no_regions(made, comm);
    }
    (void)nx_loop_refresh(comm->world->loop);
    nx_op_send(&made->op, "isendv", nx_p2p_bytes(iov, n, made->regions), n, dest, tag);
    nx_loop_flush(comm->world->loop, 0);
    give_request(made, comm, req);
    return NEXAR_OK;
}

nexar_err nexar_irecvv(nexar_comm *comm, const nexar_iov *iov, size_t n, int source, uint64_t tag,
                       nexar_request **req)
{
    NX_NOT_CANCELLED;
    p2p_request *made;
    nexar_err err = nx_p2p_check_source("irecvv", comm, source);

    if (err == NEXAR_OK) {
        err = nx_p2p_check_regions("irecvv", iov, n);
    }
    made = open_request("irecvv", comm, req, &err);
    if (made == NULL) {
        return err;
    }
    if (own(made, n, sizeof(nx_iov_span)) == NULL) {
        return no_regions(made, comm);
    }
    nx_op_recv(&made->op, "irecvv", nx_p2p_spans(iov, n, made->regions), n, source, tag);
    nx_loop_settle(comm->world->loop);
    give_request(made, comm, req);
    return NEXAR_OK;
}

/* ---- for bindings: p2p_request.h ----------------------------------------------------- */

nexar_err nx_p2p_issendv(nexar_comm *comm, const nexar_iov *iov, size_t n, int dest, uint64_t tag,
                         nexar_request **req)
{
    NX_NOT_CANCELLED;
    p2p_request *made;
    nexar_err err = nx_p2p_check_dest("issend", comm, dest, tag);

    if (err == NEXAR_OK) {
        err = nx_p2p_check_regions("issend", iov, n);
    }
    made = open_request("issend", comm, req, &err);
    if (made == NULL) {
        return err;
    }
    if (own(made, n, sizeof(nx_bytes)) == NULL) {
        return no_regions(made, comm);
    }
    (void)nx_loop_refresh(comm->world->loop);
    nx_op_send_synchronous(&made->op, "issend", nx_p2p_bytes(iov, n, made->regions), n, dest, tag);
    nx_loop_flush(comm->world->loop, 0);
    give_request(made, comm, req);
    return NEXAR_OK;
}

nexar_err nx_p2p_imatch(nexar_comm *comm, int source, uint64_t tag, nexar_message **msg,
                        nexar_request **req)
{
    NX_NOT_CANCELLED;
    p2p_request *made;
    nexar_err err = nx_p2p_check_source("mprobe", comm, source);

    made = open_request("mprobe", comm, req, &err);
    if (made == NULL) {
        return err;
    }
    made->made = nx_zalloc(sizeof(*made->made));
    if (made->made == NULL) {
        return no_regions(made, comm);
    }
    made->message = msg;
    nx_op_match(&made->op, "mprobe", source, tag);
    nx_loop_settle(comm->world->loop);
    give_request(made, comm, req);
    return NEXAR_OK;
}

/* The message of |op| is known: receives it into memory of its length. */
static void on_matched(nx_op *op)
{
    p2p_request *r = nx_list_entry(op, p2p_request, op);
    nx_p2p_room *room = r->room;
    const int source = op->source;
    const uint64_t tag = op->req.tag, number = op->req.recv.number;

    if (op->req.err == NEXAR_OK) {
        room->ptr = room->alloc((size_t)op->req.bytes, room->arg);
        room->bytes = (size_t)op->req.bytes;
        if (room->ptr == NULL) { /* the message is lost, like one that is too long */
            op->req.err = NEXAR_ENOMEM;
        }
    }
    if (op->req.err != NEXAR_OK) {
        nx_request_done(&r->base);
        return;
    }
    r->span = (nx_iov_span){.ptr = room->ptr, .len = room->bytes};
    nx_op_init(op, op->comm, (nx_devmem){0}, on_request_over);
    nx_op_take(op, "irecv", &r->span, source, tag, number);
}

nexar_err nx_p2p_irecv_any(nexar_comm *comm, int source, uint64_t tag, nx_p2p_room *room,
                           nexar_request **req)
{
    NX_NOT_CANCELLED;
    nexar_err err = nx_p2p_check_source("irecv", comm, source);
    p2p_request *made = open_request("irecv", comm, req, &err);

    if (made != NULL) {
        made->room = room;
        made->op.on_over = on_matched;
        nx_op_match(&made->op, "irecv", source, tag);
        nx_loop_settle(comm->world->loop);
        give_request(made, comm, req);
    }
    return err;
}

nexar_err nx_p2p_iprobe(nexar_comm *comm, int source, uint64_t tag, nexar_request **req)
{
    NX_NOT_CANCELLED;
    nexar_err err = nx_p2p_check_source("probe", comm, source);
    p2p_request *made = open_request("probe", comm, req, &err);

    if (made != NULL) {
        nx_op_probe(&made->op, "probe", source, tag);
        nx_loop_settle(comm->world->loop);
        give_request(made, comm, req);
    }
    return err;
}
