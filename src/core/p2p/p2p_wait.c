/* p2p_wait.c - waits for one operation; converts regions. */
#include "core/p2p/p2p_wait.h"

static void on_over(nx_op *op)
{
    nx_waited *w = (nx_waited *)op; /* its first member */

    nx_event_set(op->comm->world->loop, &w->event);
}

void nx_waited_init(nx_waited *w, nexar_comm *comm, nx_devmem mem)
{
    w->event = (nx_event){0};
    nx_op_init(&w->op, comm, mem, on_over);
}

bool nx_waited_until(nx_waited *w, uint64_t deadline_ns)
{
    nx_world *world = w->op.comm->world;
    nx_blocked b;

    if (w->op.over) {
        nx_loop_flush(world->loop, 0);
        return true;
    }
    b.what = nx_op_what(&w->op);
    b.op = &w->op;
    nx_oplog_block(&world->log, &b, nx_loop_now(world->loop));
    (void)nx_loop_wait(world->loop, &w->event, deadline_ns);
    nx_oplog_unblock(&world->log, &b, nx_loop_now(world->loop), w->op.req.err);
    return w->op.over;
}

void nx_waited_finish(nx_waited *w)
{
    (void)nx_waited_until(w, UINT64_MAX);
}

nx_iov_span *nx_p2p_spans(const nexar_iov *iov, size_t n, nx_iov_span *out)
{
    for (size_t i = 0; (out != NULL) && (i < n); i++) {
        out[i] = (nx_iov_span){.ptr = iov[i].ptr, .len = iov[i].bytes};
    }
    return out;
}

nx_bytes *nx_p2p_bytes(const nexar_iov *iov, size_t n, nx_bytes *out)
{
    for (size_t i = 0; (out != NULL) && (i < n); i++) {
        out[i] = (nx_bytes){.ptr = iov[i].ptr, .len = iov[i].bytes};
    }
    return out;
}
