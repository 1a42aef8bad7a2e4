/* p2p.c - point to point: the public calls, blocking and not. */
#include "base/alloc.h"
#include "base/cancellation.h"
#include "core/failure/failure.h"
#include "core/p2p/p2p_args.h"
#include "core/p2p/p2p_op.h"
#include "core/request.h"

enum {
    SMALL = 16, /* regions that need no memory of their own */
    SPARE = 256 /* requests whose memory is kept: 256 KiB */
};

typedef struct p2p_request {
    nexar_request base;
    nx_op op;
    union { /* the buffer */
        nx_iov_span span;
        nx_bytes bytes;
    };
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
        nx_op_init(&r->op, comm, mem, on_request_over);
    }
    return r;
}

/* ---- waiting for an operation of our own --------------------------------------------- */

typedef struct waited {
    nx_op op;
    nx_event event;
} waited;

static void on_waited_over(nx_op *op)
{
    waited *w = (waited *)op; /* its first member */

    nx_event_set(op->comm->world->loop, &w->event);
}

static void wait_init(waited *w, nexar_comm *comm, nx_devmem mem)
{
    w->event = (nx_event){0};
    nx_op_init(&w->op, comm, mem, on_waited_over);
}

/* Drives the world until |w| is over. */
static void wait_for(waited *w)
{
    nx_world *world = w->op.comm->world;
    nx_blocked b;

    if (w->op.over) {
        nx_loop_flush(world->loop, 0);
        return;
    }
    b.what = nx_op_what(&w->op);
    b.op = &w->op;
    nx_oplog_block(&world->log, &b, nx_loop_now(world->loop));
    (void)nx_loop_wait(world->loop, &w->event, UINT64_MAX);
    nx_oplog_unblock(&world->log, &b, nx_loop_now(world->loop), w->op.req.err);
}

static nexar_err send_bytes(nexar_comm *comm, const char *name, const nx_bytes *bytes, size_t n,
                            int dest, uint64_t tag)
{
    NX_NOT_CANCELLED;
    nx_devmem mem;
    nexar_err err = nx_comm_memory(comm, &mem);
    waited w;

    if (err != NEXAR_OK) {
        return err;
    }
    nx_loop_enter(comm->world->loop);
    if ((n == 1) && nx_op_send_short(comm, bytes, dest, tag)) {
        nx_loop_flush(comm->world->loop, bytes->len + 1);
        nx_comm_memory_done(&mem);
        nx_loop_unlock(comm->world->loop);
        return NEXAR_OK;
    }
    (void)nx_loop_refresh(comm->world->loop);
    wait_init(&w, comm, mem);
    nx_op_send(&w.op, name, bytes, n, dest, tag);
    wait_for(&w);
    err = nx_op_finish(&w.op, NULL);
    nx_comm_memory_done(&mem);
    nx_loop_unlock(comm->world->loop);
    return err;
}

static nexar_err recv_spans(nexar_comm *comm, const char *name, const nx_iov_span *iov, size_t n,
                            int source, uint64_t tag, nexar_status *status)
{
    NX_NOT_CANCELLED;
    nx_devmem mem;
    nexar_err err = nx_comm_memory(comm, &mem);
    waited w;

    if (err != NEXAR_OK) {
        return err;
    }
    nx_loop_enter(comm->world->loop);
    if ((n == 1) && nx_op_recv_short(comm, iov, source, tag, status)) {
        nx_loop_settle(comm->world->loop);
        nx_comm_memory_done(&mem);
        nx_loop_unlock(comm->world->loop);
        return NEXAR_OK;
    }
    (void)nx_loop_refresh(comm->world->loop);
    wait_init(&w, comm, mem);
    nx_op_recv(&w.op, name, iov, n, source, tag);
    wait_for(&w);
    err = nx_op_finish(&w.op, status);
    nx_comm_memory_done(&mem);
    nx_loop_unlock(comm->world->loop);
    return err;
}

/* ---- public, blocking ------------------------------------------------------------------ */

nexar_err nexar_send(nexar_comm *comm, const void *buf, size_t bytes, int dest, uint64_t tag)
{
    const nx_bytes one = {.ptr = buf, .len = bytes};
    nexar_err err = nx_p2p_check_dest("send", comm, dest, tag);

    if (err == NEXAR_OK) {
        err = nx_p2p_check_memory("send", buf, bytes);
    }
    return (err == NEXAR_OK) ? send_bytes(comm, "send", &one, 1, dest, tag) : err;
}

nexar_err nexar_recv(nexar_comm *comm, void *buf, size_t bytes, int source, uint64_t tag,
                     nexar_status *status)
{
    const nx_iov_span one = {.ptr = buf, .len = bytes};
    nexar_err err = nx_p2p_check_source("recv", comm, source);

    if (err == NEXAR_OK) {
        err = nx_p2p_check_memory("recv", buf, bytes);
    }
    return (err == NEXAR_OK) ? recv_spans(comm, "recv", &one, 1, source, tag, status) : err;
}

// NOLINTNEXTLINE(readability-function-size): so many parameters the contract has
nexar_err nexar_sendrecv(nexar_comm *comm, const void *sendbuf, size_t sendbytes, int dest,
                         uint64_t sendtag, void *recvbuf, size_t recvbytes, int source,
                         uint64_t recvtag, nexar_status *status)
{
    NX_NOT_CANCELLED;
    const nx_bytes out = {.ptr = sendbuf, .len = sendbytes};
    const nx_iov_span in = {.ptr = recvbuf, .len = recvbytes};
    nexar_err err = nx_p2p_check_dest("sendrecv", comm, dest, sendtag);
    waited send, recv;
    nx_devmem mem;

    if (err == NEXAR_OK) {
        err = nx_p2p_check_source("sendrecv", comm, source);
    }
    if (err == NEXAR_OK) {
        err = nx_p2p_check_memory("sendrecv", sendbuf, sendbytes);
    }
    if (err == NEXAR_OK) {
        err = nx_p2p_check_memory("sendrecv", recvbuf, recvbytes);
    }
    if (err == NEXAR_OK) {
        err = nx_p2p_check_apart("sendrecv", &out, &in);
    }
    if (err == NEXAR_OK) {
        err = nx_comm_memory(comm, &mem);
    }
    if (err != NEXAR_OK) {
        return err;
    }
    nx_loop_lock(comm->world->loop);
    wait_init(&send, comm, mem);
    wait_init(&recv, comm, mem);
    nx_op_recv(&recv.op, "sendrecv", &in, 1, source, recvtag);
    nx_op_send(&send.op, "sendrecv", &out, 1, dest, sendtag);
    wait_for(&recv);
    wait_for(&send);
    err = nx_op_finish(&recv.op, status);
    if (send.op.req.err != NEXAR_OK) {
        err = nx_op_finish(&send.op, NULL);
    }
    nx_comm_memory_done(&mem);
    nx_loop_unlock(comm->world->loop);
    return err;
}

/* Regions as the message engine names them: in |small| if they fit, else in
 * memory that the caller frees.  Both structs are a pointer and a length. */
static nx_iov_span *spans_of(const nexar_iov *iov, size_t n, nx_iov_span *small)
{
    nx_iov_span *spans = (n <= SMALL) ? small : nx_calloc(n, sizeof(*spans));

    for (size_t i = 0; (spans != NULL) && (i < n); i++) {
        spans[i] = (nx_iov_span){.ptr = iov[i].ptr, .len = iov[i].bytes};
    }
    return spans;
}

static nx_bytes *bytes_of(const nexar_iov *iov, size_t n, nx_bytes *small)
{
    nx_bytes *bytes = (n <= SMALL) ? small : nx_calloc(n, sizeof(*bytes));

    for (size_t i = 0; (bytes != NULL) && (i < n); i++) {
        bytes[i] = (nx_bytes){.ptr = iov[i].ptr, .len = iov[i].bytes};
    }
    return bytes;
}

nexar_err nexar_sendv(nexar_comm *comm, const nexar_iov *iov, size_t n, int dest, uint64_t tag)
{
    nx_bytes small[SMALL];
    nx_bytes *bytes;
    nexar_err err = nx_p2p_check_dest("sendv", comm, dest, tag);

    if (err == NEXAR_OK) {
        err = nx_p2p_check_regions("sendv", iov, n);
    }
    if (err != NEXAR_OK) {
        return err;
    }
    bytes = bytes_of(iov, n, small);
    if (bytes == NULL) {
        return nx_fail_nomem("the regions of a sendv");
    }
    err = send_bytes(comm, "sendv", bytes, n, dest, tag);
    if (bytes != small) {
        nx_free(bytes);
    }
    return err;
}

nexar_err nexar_recvv(nexar_comm *comm, const nexar_iov *iov, size_t n, int source, uint64_t tag,
                      nexar_status *status)
{
    nx_iov_span small[SMALL];
    nx_iov_span *spans;
    nexar_err err = nx_p2p_check_source("recvv", comm, source);

    if (err == NEXAR_OK) {
        err = nx_p2p_check_regions("recvv", iov, n);
    }
    if (err != NEXAR_OK) {
        return err;
    }
    spans = spans_of(iov, n, small);
    if (spans == NULL) {
        return nx_fail_nomem("the regions of a recvv");
    }
    err = recv_spans(comm, "recvv", spans, n, source, tag, status);
    if (spans != small) {
        nx_free(spans);
    }
    return err;
}

/* ---- public, not blocking ----------------------------------------------------------------- */

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

nexar_err nexar_probe(nexar_comm *comm, int source, uint64_t tag, nexar_status *status)
{
    NX_NOT_CANCELLED;
    nexar_err err = nx_p2p_check_source("probe", comm, source);
    waited w;

    if (err != NEXAR_OK) {
        return err;
    }
    nx_loop_lock(comm->world->loop);
    wait_init(&w, comm, (nx_devmem){0});
    nx_op_probe(&w.op, "probe", source, tag);
    wait_for(&w);
    err = nx_op_finish(&w.op, status);
    nx_loop_unlock(comm->world->loop);
    return err;
}

/* Whether nothing can come from |source| because of a failure.  That others have left, or freed the
 * communicator, is none: whoever looks once more at the end finds nothing, however late it is. */
static bool has_failed(const nexar_comm *comm, int source)
{
    const nx_rankset *dead = nx_failure_dead(comm->world);
    bool failed = false;

    if (nx_rankset_has(dead, comm->world->self) || (source != NEXAR_ANY_SOURCE)) {
        return nx_rankset_has(dead, comm->world->self) ||
               nx_rankset_has(dead, nx_comm_peer(comm, (uint32_t)source));
    }
    for (uint32_t rank = 0; comm->alone && !failed && (rank < comm->size); rank++) {
        failed = nx_rankset_has(dead, nx_comm_peer(comm, rank));
    }
    return failed;
}

/* There is nothing from |source|: whoever looks again and again need not if nothing can come. */
static nexar_err look_no_more(const nexar_comm *comm, int source)
{
    char text[NX_COMM_ALONE_WHY], peer[NX_PEER_TEXT];
    const nx_world *world = comm->world;
    uint32_t slot;

    if ((comm->size == 1) || (source == (int)comm->rank) || !has_failed(comm, source)) {
        return NEXAR_OK;
    }
    if (source == NEXAR_ANY_SOURCE) {
        (void)nx_comm_alone_why(comm, text);
        return nx_fail(NEXAR_EPEER, "iprobe from any rank: %s", text);
    }
    slot = nx_rankset_has(nx_failure_dead(world), world->self)
               ? world->self
               : nx_comm_peer(comm, (uint32_t)source);
    return nx_fail(NEXAR_EPEER, "iprobe from %s: %s%s", nx_world_peer_text(world, slot, peer),
                   (slot == world->self) ? "the other ranks hold this one for dead: " : "",
                   nx_failure_why(world, slot));
}

nexar_err nexar_iprobe(nexar_comm *comm, int source, uint64_t tag, bool *found,
                       nexar_status *status)
{
    NX_NOT_CANCELLED;
    nexar_err err = nx_p2p_check_source("iprobe", comm, source);
    nx_req message = {0};
    bool there;

    if (found == NULL) {
        return nx_fail(NEXAR_EINVAL, "iprobe: found is NULL");
    }
    if (err != NEXAR_OK) {
        return err;
    }
    nx_loop_lock(comm->world->loop);
    nx_loop_kick(comm->world->loop);
    if (nx_comm_refuses(comm)) {
        nx_loop_unlock(comm->world->loop);
        return nx_fail(NEXAR_EREVOKED, "iprobe: the communicator was revoked");
    }
    there = nx_msg_iprobe(comm->world->msg, nx_op_source(comm, source), nx_comm_user(comm), tag,
                          &message);
    if (there && (status != NULL)) {
        *status = (nexar_status){.source = (int)nx_comm_rank_of(comm, message.peer),
                                 .tag = message.tag,
                                 .bytes = message.bytes};
    }
    if (there) {
        nx_loop_unlock(comm->world->loop);
    } else {
        err = look_no_more(comm, source);
        nx_loop_pass(comm->world->loop, false);
    }
    *found = (err == NEXAR_OK) ? there : *found;
    return err;
}
