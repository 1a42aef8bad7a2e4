/* p2p_request.c - sends and receives with a request. */
#include "base/alloc.h"
#include "base/cancellation.h"
#include "core/p2p/p2p_args.h"
#include "core/p2p/p2p_wait.h"
#include "core/request.h"

enum { SPARE = 256 /* requests whose memory is kept: 256 KiB */ };

typedef struct p2p_request {
    nexar_request base;
    nx_op op;
    union { /* the buffer, ... */
        nx_iov_span span;
        nx_bytes bytes;
    };
    void *regions; /* ... or several: owned; NULL: one */
} p2p_request;

/* ---- requests ------------------------------------------------------------------ */

static nexar_err request_finish(nexar_request *req, nexar_status *status)
{
    return nx_op_finish(&((p2p_request *)req)->op, status);
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
    if (world->nspare >= SPARE) {
        nx_free(req);
        return;
    }
    nx_list_push_front(&world->spare, &req->link); /* the next one finds it in cache */
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
        nx_op_init(&r->op, comm, mem, on_request_over);
    }
    return r;
}

/* ---- public ----------------------------------------------------------------- */

/* What |name| checked came to |*err|: a request, and the lock, if that is NEXAR_OK.  NULL
 * with an error in |*err| otherwise. */
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

/* Its operation has begun. */
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

/* Regions of a request, which it owns: as many as |n|, one at least. */
static void *own(p2p_request *made, size_t n, size_t each)
{
    made->regions = nx_calloc((n == 0) ? 1 : n, each);
    return made->regions;
}

/* There is no memory for the regions of |made|, which was not begun. */
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
