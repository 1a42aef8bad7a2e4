/* p2p.c - blocking sends and receives. */
#include "base/alloc.h"
#include "base/os/cancellation.h"
#include "core/p2p/p2p_args.h"
#include "core/p2p/p2p_wait.h"

enum { SMALL = 16 }; /* regions that need no allocation */

static nexar_err send_bytes(nexar_comm *comm, const char *name, const nx_bytes *bytes, size_t n,
                            int dest, uint64_t tag)
{
    NX_NOT_CANCELLED;
    nx_devmem mem;
    nexar_err err = nx_comm_memory(comm, &mem);
    nx_waited w;

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
    nx_waited_init(&w, comm, mem);
    nx_op_send(&w.op, name, bytes, n, dest, tag);
    nx_waited_finish(&w);
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
    nx_waited w;

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
    nx_waited_init(&w, comm, mem);
    nx_op_recv(&w.op, name, iov, n, source, tag);
    nx_waited_finish(&w);
    err = nx_op_finish(&w.op, status);
    nx_comm_memory_done(&mem);
    nx_loop_unlock(comm->world->loop);
    return err;
}

/* ---- public -------------------------------------------------------------------------- */

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

// NOLINTNEXTLINE(readability-function-size): the API has this many parameters
nexar_err nexar_sendrecv(nexar_comm *comm, const void *sendbuf, size_t sendbytes, int dest,
                         uint64_t sendtag, void *recvbuf, size_t recvbytes, int source,
                         uint64_t recvtag, nexar_status *status)
{
    NX_NOT_CANCELLED;
    const nx_bytes out = {.ptr = sendbuf, .len = sendbytes};
    const nx_iov_span in = {.ptr = recvbuf, .len = recvbytes};
    nexar_err err = nx_p2p_check_dest("sendrecv", comm, dest, sendtag);
    nx_waited send, recv;
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
    nx_waited_init(&send, comm, mem);
    nx_waited_init(&recv, comm, mem);
    nx_op_recv(&recv.op, "sendrecv", &in, 1, source, recvtag);
    nx_op_send(&send.op, "sendrecv", &out, 1, dest, sendtag);
    nx_waited_finish(&recv);
    nx_waited_finish(&send);
    err = nx_op_finish(&recv.op, status);
    if (send.op.req.err != NEXAR_OK) {
        err = nx_op_finish(&send.op, NULL);
    }
    nx_comm_memory_done(&mem);
    nx_loop_unlock(comm->world->loop);
    return err;
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
    bytes = nx_p2p_bytes(iov, n, (n <= SMALL) ? small : nx_calloc(n, sizeof(*bytes)));
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
    spans = nx_p2p_spans(iov, n, (n <= SMALL) ? small : nx_calloc(n, sizeof(*spans)));
    if (spans == NULL) {
        return nx_fail_nomem("the regions of a recvv");
    }
    err = recv_spans(comm, "recvv", spans, n, source, tag, status);
    if (spans != small) {
        nx_free(spans);
    }
    return err;
}
