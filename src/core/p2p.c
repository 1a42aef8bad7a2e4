/* p2p.c - point to point: the public calls, blocking and not. */
#include <inttypes.h>
#include <stdio.h>

#include "base/alloc.h"
#include "core/p2p_args.h"
#include "core/request.h"

enum { SMALL = 16 }; /* regions that need no memory of their own */

/* What a blocking call and a request have in common: the message request and the
 * words for its error. */
typedef struct nx_op {
    nx_req req;
    nx_event event;
    nexar_comm *comm;
    const char *name; /* "send", "recv", ... */
    int peer;         /* rank as the caller gave it; NEXAR_ANY_SOURCE too */
    uint64_t tag;
    bool sending;
} nx_op;

typedef struct p2p_request {
    nexar_request base;
    nx_op op;
    union { /* the buffer */
        nx_iov_span span;
        nx_bytes bytes;
    };
} p2p_request;

/* ---- outcomes ---------------------------------------------------------------- */

static void describe(const nx_op *op, char *buf, size_t size)
{
    char peer[NX_PEER_TEXT] = "any rank", tag[32] = "any tag";

    if (op->peer != NEXAR_ANY_SOURCE) {
        (void)nx_world_peer_text(op->comm->world, nx_comm_peer(op->comm, (uint32_t)op->peer), peer);
    }
    if (op->tag != NEXAR_ANY_TAG) {
        (void)snprintf(tag, sizeof(tag), "tag %" PRIu64, op->tag);
    }
    (void)snprintf(buf, size, "%s %s %s, %s", op->name, op->sending ? "to" : "from", peer, tag);
}

static nexar_err op_finish(nx_op *op, nexar_status *status)
{
    const nx_req *r = &op->req;

    if ((status != NULL) && !op->sending && ((r->err == NEXAR_OK) || (r->err == NEXAR_ETRUNC))) {
        *status = (nexar_status){
            .source = (int)nx_comm_rank_of(op->comm, r->peer), .tag = r->tag, .bytes = r->bytes};
    }
    if (r->err != NEXAR_OK) {
        char what[256];

        describe(op, what, sizeof(what));
        return nx_fail(r->err, "%s: %s", what,
                       (r->why[0] == '\0') ? nexar_strerror(r->err) : r->why);
    }
    return NEXAR_OK;
}

/* ---- requests ------------------------------------------------------------------ */

static nexar_err request_finish(nexar_request *req, nexar_status *status)
{
    return op_finish(&((p2p_request *)req)->op, status);
}

/* |op| as reports have it. */
static nx_what op_what(const nx_op *op)
{
    return (nx_what){.kind = op->sending ? NX_WHAT_SEND : NX_WHAT_RECV,
                     .name = op->name,
                     .comm = op->comm->id,
                     .peer = (op->peer == NEXAR_ANY_SOURCE)
                                 ? NX_ANY_PEER
                                 : nx_comm_peer(op->comm, (uint32_t)op->peer),
                     .tag = op->tag};
}

static void request_what(const nexar_request *req, nx_what *out)
{
    *out = op_what(&((const p2p_request *)req)->op);
}

static void request_cancel(nexar_request *req)
{
    (void)nx_msg_cancel(req->comm->world->msg, &((p2p_request *)req)->op.req);
}

static void request_destroy(nexar_request *req)
{
    nx_free(req);
}

static const nx_request_ops p2p_ops = {.finish = request_finish,
                                       .what = request_what,
                                       .cancel = request_cancel,
                                       .destroy = request_destroy};

static void on_request_done(nx_req *req)
{
    p2p_request *r = nx_list_entry(req, p2p_request, op.req);

    if (r->op.sending) {
        nx_world_end(r->op.comm->world, req->err);
    }
    nx_request_done(&r->base);
}

/* A request on |comm|, not started; NULL: out of memory. */
static p2p_request *request_create(nexar_comm *comm)
{
    p2p_request *r = nx_zalloc(sizeof(*r));

    if (r != NULL) {
        nx_request_init(&r->base, &p2p_ops, comm);
        r->op.comm = comm;
        r->op.req.on_done = on_request_done;
    }
    return r;
}

/* ---- starting, with the lock held ------------------------------------------------- */

static void start_send(nx_op *op, const char *name, const nx_bytes *bytes, size_t n, int dest,
                       uint64_t tag)
{
    op->name = name;
    op->peer = dest;
    op->tag = tag;
    op->sending = true;
    nx_world_begin(op->comm->world);
    nx_msg_send(op->comm->world->msg, &op->req, nx_comm_peer(op->comm, (uint32_t)dest),
                nx_comm_user(op->comm), tag, bytes, n);
}

static uint32_t source_peer(const nexar_comm *comm, int source)
{
    return (source == NEXAR_ANY_SOURCE) ? NX_ANY_PEER : nx_comm_peer(comm, (uint32_t)source);
}

static void start_recv(nx_op *op, const char *name, const nx_iov_span *iov, size_t n, int source,
                       uint64_t tag)
{
    nx_sink sink = {.iov = iov, .niov = n, .unit = 1};

    for (size_t i = 0; i < n; i++) {
        sink.room += iov[i].len;
    }
    op->name = name;
    op->peer = source;
    op->tag = tag;
    nx_msg_recv(op->comm->world->msg, &op->req, source_peer(op->comm, source),
                nx_comm_user(op->comm), tag, &sink);
}

/* ---- waiting for an operation of our own --------------------------------------------- */

static void on_done(nx_req *req)
{
    nx_op *op = (nx_op *)req; /* its first member */

    if (op->sending) {
        nx_world_end(op->comm->world, req->err);
    }
}

static void op_init(nx_op *op, nexar_comm *comm)
{
    *op = (nx_op){.comm = comm};
    op->req.on_done = on_done;
    op->req.event = &op->event;
}

/* Drives the world until |op| is done. */
static void op_wait(nx_op *op)
{
    nx_world *world = op->comm->world;
    nx_blocked b;

    if (op->req.done) {
        nx_loop_kick(world->loop);
        return;
    }
    b.what = op_what(op);
    nx_oplog_block(&world->log, &b, nx_loop_now(world->loop));
    (void)nx_loop_wait(world->loop, &op->event, UINT64_MAX);
    nx_oplog_unblock(&world->log, &b, nx_loop_now(world->loop), op->req.err);
}

static nexar_err send_bytes(nexar_comm *comm, const char *name, const nx_bytes *bytes, size_t n,
                            int dest, uint64_t tag)
{
    nx_op op;
    nexar_err err;

    op_init(&op, comm);
    nx_loop_lock(comm->world->loop);
    start_send(&op, name, bytes, n, dest, tag);
    op_wait(&op);
    err = op_finish(&op, NULL);
    nx_loop_unlock(comm->world->loop);
    return err;
}

static nexar_err recv_spans(nexar_comm *comm, const char *name, const nx_iov_span *iov, size_t n,
                            int source, uint64_t tag, nexar_status *status)
{
    nx_op op;
    nexar_err err;

    op_init(&op, comm);
    nx_loop_lock(comm->world->loop);
    start_recv(&op, name, iov, n, source, tag);
    op_wait(&op);
    err = op_finish(&op, status);
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
    const nx_bytes out = {.ptr = sendbuf, .len = sendbytes};
    const nx_iov_span in = {.ptr = recvbuf, .len = recvbytes};
    nexar_err err = nx_p2p_check_dest("sendrecv", comm, dest, sendtag);
    nx_op send, recv;

    if (err == NEXAR_OK) {
        err = nx_p2p_check_source("sendrecv", comm, source);
    }
    if (err == NEXAR_OK) {
        err = nx_p2p_check_memory("sendrecv", sendbuf, sendbytes);
    }
    if (err == NEXAR_OK) {
        err = nx_p2p_check_memory("sendrecv", recvbuf, recvbytes);
    }
    if (err != NEXAR_OK) {
        return err;
    }
    op_init(&send, comm);
    op_init(&recv, comm);
    nx_loop_lock(comm->world->loop);
    start_recv(&recv, "sendrecv", &in, 1, source, recvtag);
    start_send(&send, "sendrecv", &out, 1, dest, sendtag);
    op_wait(&recv);
    op_wait(&send);
    err = op_finish(&recv, status);
    if (send.req.err != NEXAR_OK) {
        err = op_finish(&send, NULL);
    }
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

nexar_err nexar_isend(nexar_comm *comm, const void *buf, size_t bytes, int dest, uint64_t tag,
                      nexar_request **req)
{
    p2p_request *made;
    nexar_err err = nx_p2p_check_dest("isend", comm, dest, tag);

    if (err == NEXAR_OK) {
        err = nx_p2p_check_memory("isend", buf, bytes);
    }
    if (req == NULL) {
        return nx_fail(NEXAR_EINVAL, "isend: req is NULL");
    }
    if (err != NEXAR_OK) {
        return err;
    }
    nx_loop_lock(comm->world->loop);
    made = request_create(comm);
    if (made != NULL) {
        made->bytes = (nx_bytes){.ptr = buf, .len = bytes};
        start_send(&made->op, "isend", &made->bytes, 1, dest, tag);
        nx_loop_kick(comm->world->loop);
        *req = &made->base;
    }
    nx_loop_unlock(comm->world->loop);
    return (made == NULL) ? nx_fail_nomem("a request") : NEXAR_OK;
}

nexar_err nexar_irecv(nexar_comm *comm, void *buf, size_t bytes, int source, uint64_t tag,
                      nexar_request **req)
{
    p2p_request *made;
    nexar_err err = nx_p2p_check_source("irecv", comm, source);

    if (err == NEXAR_OK) {
        err = nx_p2p_check_memory("irecv", buf, bytes);
    }
    if (req == NULL) {
        return nx_fail(NEXAR_EINVAL, "irecv: req is NULL");
    }
    if (err != NEXAR_OK) {
        return err;
    }
    nx_loop_lock(comm->world->loop);
    made = request_create(comm);
    if (made != NULL) {
        made->span = (nx_iov_span){.ptr = buf, .len = bytes};
        start_recv(&made->op, "irecv", &made->span, 1, source, tag);
        nx_loop_kick(comm->world->loop);
        *req = &made->base;
    }
    nx_loop_unlock(comm->world->loop);
    return (made == NULL) ? nx_fail_nomem("a request") : NEXAR_OK;
}

nexar_err nexar_probe(nexar_comm *comm, int source, uint64_t tag, nexar_status *status)
{
    nexar_err err = nx_p2p_check_source("probe", comm, source);
    nx_op op;

    if (err != NEXAR_OK) {
        return err;
    }
    op_init(&op, comm);
    op.name = "probe";
    op.peer = source;
    op.tag = tag;
    nx_loop_lock(comm->world->loop);
    nx_msg_probe(comm->world->msg, &op.req, source_peer(comm, source), nx_comm_user(comm), tag);
    op_wait(&op);
    err = op_finish(&op, status);
    nx_loop_unlock(comm->world->loop);
    return err;
}

nexar_err nexar_iprobe(nexar_comm *comm, int source, uint64_t tag, bool *found,
                       nexar_status *status)
{
    nexar_err err = nx_p2p_check_source("iprobe", comm, source);
    nx_req message = {0};

    if (found == NULL) {
        return nx_fail(NEXAR_EINVAL, "iprobe: found is NULL");
    }
    if (err != NEXAR_OK) {
        return err;
    }
    nx_loop_lock(comm->world->loop);
    nx_loop_kick(comm->world->loop);
    *found = nx_msg_iprobe(comm->world->msg, source_peer(comm, source), nx_comm_user(comm), tag,
                           &message);
    if (*found && (status != NULL)) {
        *status = (nexar_status){.source = (int)nx_comm_rank_of(comm, message.peer),
                                 .tag = message.tag,
                                 .bytes = message.bytes};
    }
    nx_loop_unlock(comm->world->loop);
    return NEXAR_OK;
}
