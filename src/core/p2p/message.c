/* message.c - receives messages that a matched probe has taken. */
#include "core/p2p/message.h"

#include "base/alloc.h"
#include "base/os/cancellation.h"
#include "base/text/sentence.h"
#include "core/p2p/p2p_args.h"
#include "core/p2p/p2p_wait.h"
#include "core/world/fork_guard.h"

void nx_message_init(nexar_message *msg, const nx_op *op)
{
    *msg = (nexar_message){.comm = op->comm,
                           .id = op->id,
                           .source = op->source,
                           .tag = op->req.tag,
                           .number = op->req.recv.number};
    nx_list_push_back(&op->comm->world->messages, &msg->link);
}

void nx_messages_lose(const nexar_comm *comm)
{
    nx_list_for_each (at, &comm->world->messages) {
        nexar_message *msg = nx_list_entry(at, nexar_message, link);

        msg->comm = (msg->comm == comm) ? NULL : msg->comm;
    }
}

static void destroy(nexar_message *msg)
{
    nx_list_remove(&msg->link);
    nx_free(msg);
}

void nx_messages_free(nx_world *world)
{
    while (!nx_list_empty(&world->messages)) {
        destroy(nx_list_entry(world->messages.next, nexar_message, link));
    }
}

/* Whether |msg| can still be received. */
static nexar_err usable(const nexar_message *msg)
{
    if (msg->lost != NEXAR_OK) {
        return nx_fail(msg->lost, "mrecv: the message was lost before: %s", msg->why);
    }
    if (msg->comm->inc->revoked || (msg->id != msg->comm->inc->id)) {
        return nx_fail(NEXAR_EREVOKED, "mrecv: the communicator was revoked");
    }
    return NEXAR_OK;
}

/* Receives |msg|; with the lock. */
static nexar_err take(nexar_message *msg, const nx_iov_span *span, nx_devmem mem,
                      nexar_status *status)
{
    nexar_err err = usable(msg);
    nx_waited w;

    if (err != NEXAR_OK) {
        return err;
    }
    nx_waited_init(&w, msg->comm, mem);
    nx_op_take(&w.op, "mrecv", span, msg->source, msg->tag, msg->number);
    nx_waited_finish(&w);
    err = nx_op_finish(&w.op, status);
    if ((err != NEXAR_OK) && (err != NEXAR_ETRUNC)) {
        msg->lost = err;
        (void)nx_sentence(msg->why, sizeof(msg->why), "%s", w.op.req.why);
    }
    return err;
}

nexar_err nexar_mrecv(nexar_message **msg, void *buf, size_t bytes, nexar_status *status)
{
    NX_NOT_CANCELLED;
    const nx_iov_span span = {.ptr = buf, .len = bytes};
    nexar_err err = nx_p2p_check_memory("mrecv", buf, bytes);
    nexar_comm *comm;
    nx_devmem mem;

    if ((msg == NULL) || (*msg == NULL)) {
        return nx_fail(NEXAR_EINVAL, "mrecv: %s is NULL", (msg == NULL) ? "msg" : "*msg");
    }
    comm = (*msg)->comm;
    if (comm == NULL) {
        return nx_fail(NEXAR_EINVAL, "mrecv: the communicator of the message was freed");
    }
    if (err == NEXAR_OK) {
        err = nx_fork_guard_check("mrecv", comm->world);
    }
    if (err == NEXAR_OK) {
        err = nx_comm_memory(comm, &mem);
    }
    if (err != NEXAR_OK) {
        return err;
    }
    nx_loop_lock(comm->world->loop);
    err = take(*msg, &span, mem, status);
    if ((err == NEXAR_OK) || (err == NEXAR_ETRUNC)) {
        destroy(*msg);
        *msg = NULL;
    }
    nx_comm_memory_done(&mem);
    nx_loop_unlock(comm->world->loop);
    return err;
}
