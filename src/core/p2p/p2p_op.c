/* p2p_op.c - pending sends, receives and probes. */
#include "core/p2p/p2p_op.h"
#include "base/text/sentence.h"

#include <inttypes.h>
#include <stdio.h>

static void on_done(nx_req *req)
{
    nx_op *op = (nx_op *)req; /* its first member */

    if (op->device == NULL) {
        nx_op_over(op);
    } else if (op->sending) {
        nx_op_device_sent(op);
    } else {
        nx_op_device_received(op);
    }
}

static void describe(const nx_op *op, char *buf, size_t size)
{
    char peer[NX_PEER_TEXT] = "any rank", tag[32] = "any tag", on[NX_COMM_ON];

    if (op->to != NX_ANY_PEER) {
        (void)nx_world_peer_text(op->comm->world, op->to, peer);
    }
    if (op->tag != NEXAR_ANY_TAG) {
        (void)snprintf(tag, sizeof(tag), "tag %" PRIu64, op->tag);
    }
    (void)snprintf(buf, size, "%s %s %s, %s%s", op->name, op->sending ? "to" : "from", peer, tag,
                   nx_comm_on(op->comm, on));
}

/* Finalize waits for it; no caller can any more. */
static void tell_lost(const nx_op *op)
{
    char what[256], why[NX_ERROR_ROOM];

    describe(op, what, sizeof(what));
    (void)nx_sentence(why, sizeof(why), "a message in flight was lost: %s: %s", what,
                      (op->req.why[0] == '\0') ? nexar_strerror(op->req.err) : op->req.why);
    nx_world_lost(op->comm->world, op->req.err, why);
}

static void end(nx_op *op)
{
    nx_incarnation_release(op->inc);
    op->inc = NULL;
    op->over = true;
    op->on_over(op);
}

void nx_op_over(nx_op *op)
{
    if (!op->sending && ((op->req.err == NEXAR_OK) || (op->req.err == NEXAR_ETRUNC))) {
        op->source = (op->peer == NEXAR_ANY_SOURCE) ? nx_incarnation_rank_of(op->inc, op->req.peer)
                                                    : op->peer;
    }
    if ((op->req.err == NEXAR_ECANCELED) && op->inc->revoked) {
        op->req.err = NEXAR_EREVOKED;
        (void)nx_sentence(op->req.why, sizeof(op->req.why), "the communicator was revoked");
    }
    nx_op_device_free(op);
    nx_comm_memory_done(&op->mem);
    if (op->sending) {
        if (op->comm->world->closing && (op->req.err != NEXAR_OK)) {
            tell_lost(op);
        }
        nx_world_end(op->comm->world);
    }
    end(op);
}

void nx_op_init(nx_op *op, nexar_comm *comm, nx_devmem mem, void (*on_over)(nx_op *op))
{
    /* The request is a large struct: it is initialised where it starts. */
    op->req.on_done = on_done;
    op->req.event = NULL;
    op->req.done = false;
    op->req.state = 0;
    op->req.err = NEXAR_OK;
    op->req.why[0] = '\0';
    op->comm = comm;
    op->inc = NULL;
    op->source = -1;
    op->sending = op->over = false;
    op->on_over = on_over;
    op->mem = mem;
    op->device = NULL;
    if (mem.device != NULL) {
        nx_device_hold(mem.device);
    }
}

uint32_t nx_op_source(const nx_incarnation *inc, int source)
{
    return (source == NEXAR_ANY_SOURCE) ? NX_ANY_PEER : nx_incarnation_peer(inc, (uint32_t)source);
}

nx_what nx_op_what(const nx_op *op)
{
    return (nx_what){.kind = op->sending ? NX_WHAT_SEND : NX_WHAT_RECV,
                     .name = op->name,
                     .comm = op->id,
                     .peer = op->to,
                     .tag = op->tag};
}

static void begin(nx_op *op, const char *name, int peer, uint64_t tag)
{
    op->name = name;
    op->peer = peer;
    op->inc = nx_incarnation_hold(op->comm->inc);
    op->id = op->inc->id;
    op->number = 0;
    op->tag = tag;
}

/* True: the communicator accepts no new operation, and |op| has ended.  That includes a
 * communicator that was rebuilt without the peer after the call was checked. */
static bool is_refused(nx_op *op)
{
    const nx_incarnation *inc = op->inc;
    const bool gone = (op->peer != NEXAR_ANY_SOURCE) && ((uint32_t)op->peer >= inc->size);

    op->to = gone ? NX_ANY_PEER : nx_op_source(inc, op->peer);
    if (inc->revoked || gone) {
        op->req.done = true;
        op->req.err = NEXAR_EREVOKED;
        (void)nx_sentence(op->req.why, sizeof(op->req.why), "the communicator was revoked");
        nx_op_over(op);
        return true;
    }
    return false;
}

/* Ends a receive from any source if no other rank is left.  Ends a receive from a peer that has
 * freed the communicator, unless the receive matches a message that the peer sent before. */
static void check_sources(const nx_op *op)
{
    const nx_incarnation *inc = op->inc;
    nx_departure how;

    if (inc == NULL) { /* it has ended already */
        return;
    }
    if (op->peer == NEXAR_ANY_SOURCE) {
        if (inc->alone) {
            nx_incarnation_fail_any(inc);
        }
        return;
    }
    how = nx_group_finished(&inc->group, (uint32_t)op->peer);
    if (how != NX_DEPARTURE_NONE) {
        nx_incarnation_fail_from(inc, op->to, how);
    }
}

/* True: the peer has detached from the communicator, and the operation has ended. */
static bool is_detached(nx_op *op)
{
    const nx_departure how = nx_group_detached(&op->inc->group, (uint32_t)op->peer);

    if (how == NX_DEPARTURE_NONE) {
        return false;
    }
    op->req.done = true;
    op->req.err = nx_departure_error(how);
    (void)nx_sentence(op->req.why, sizeof(op->req.why), "it %s", nx_departure_text(how));
    nx_op_over(op);
    return true;
}

void nx_op_send(nx_op *op, const char *name, const nx_bytes *bytes, size_t n, int dest,
                uint64_t tag)
{
    begin(op, name, dest, tag);
    op->sending = true;
    nx_world_begin(op->comm->world);
    if (is_refused(op) || is_detached(op)) {
        return;
    }
    /* Queues |op| behind sends that are being staged, even if |op| itself needs no staging. */
    if ((op->mem.device != NULL) || !nx_list_empty(&op->inc->staged)) {
        nx_op_device_send(op, bytes, n);
    } else {
        nx_msg_send(op->comm->world->msg, &op->req, op->to, nx_incarnation_user(op->inc), tag,
                    bytes, n);
    }
}

void nx_op_send_synchronous(nx_op *op, const char *name, const nx_bytes *bytes, size_t n, int dest,
                            uint64_t tag)
{
    begin(op, name, dest, tag);
    op->sending = true;
    nx_world_begin(op->comm->world);
    if (!is_refused(op) && !is_detached(op)) {
        nx_msg_send_synchronous(op->comm->world->msg, &op->req, op->to,
                                nx_incarnation_user(op->inc), tag, bytes, n);
    }
}

bool nx_op_send_short(nexar_comm *comm, const nx_bytes *bytes, int dest, uint64_t tag)
{
    const nx_incarnation *inc = comm->inc;

    return !inc->revoked && ((uint32_t)dest < inc->size) && (inc->group.detached.n == 0) &&
           !atomic_load(&comm->has_device) && nx_list_empty(&inc->staged) &&
           nx_msg_send_short(inc->world->msg, nx_incarnation_peer(inc, (uint32_t)dest),
                             nx_incarnation_user(inc), tag, bytes->ptr, bytes->len);
}

void nx_op_sent(nx_op *op, const char *name, int dest, uint64_t tag)
{
    begin(op, name, dest, tag);
    op->to = nx_op_source(op->inc, dest);
    op->sending = true;
    op->req.done = true;
    nx_comm_memory_done(&op->mem);
    end(op);
}

void nx_op_post(nx_op *op, const nx_sink *sink)
{
    nx_msg *msg = op->comm->world->msg;

    if (op->number != 0) {
        nx_msg_take(msg, &op->req, op->to, nx_incarnation_user(op->inc), op->number, sink);
    } else {
        nx_msg_recv(msg, &op->req, op->to, nx_incarnation_user(op->inc), op->tag, sink);
    }
}

static void receive(nx_op *op, const nx_iov_span *iov, size_t n)
{
    nx_sink sink = {.iov = iov, .niov = n, .unit = 1};

    if (op->mem.device != NULL) {
        nx_op_device_recv(op, iov, n);
        check_sources(op);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        sink.room += iov[i].len;
    }
    nx_op_post(op, &sink);
    check_sources(op);
}

void nx_op_recv(nx_op *op, const char *name, const nx_iov_span *iov, size_t n, int source,
                uint64_t tag)
{
    begin(op, name, source, tag);
    if (!is_refused(op)) {
        receive(op, iov, n);
    }
}

void nx_op_take(nx_op *op, const char *name, const nx_iov_span *span, int source, uint64_t tag,
                uint64_t number)
{
    begin(op, name, source, tag);
    op->number = number;
    if (!is_refused(op)) {
        receive(op, span, 1);
    }
}

bool nx_op_recv_short(nexar_comm *comm, const nx_iov_span *span, int source, uint64_t tag,
                      nexar_status *status)
{
    const nx_incarnation *inc = comm->inc;
    size_t got;

    if (inc->revoked || (source == NEXAR_ANY_SOURCE) || (tag == NEXAR_ANY_TAG) ||
        ((uint32_t)source >= inc->size) || atomic_load(&comm->has_device) ||
        !nx_msg_recv_short(inc->world->msg, nx_incarnation_peer(inc, (uint32_t)source),
                           nx_incarnation_user(inc), tag, true, *span, &got)) {
        return false;
    }
    if (status != NULL) {
        *status = (nexar_status){.source = source, .tag = tag, .bytes = got};
    }
    return true;
}

void nx_op_probe(nx_op *op, const char *name, int source, uint64_t tag)
{
    begin(op, name, source, tag);
    if (is_refused(op)) {
        return;
    }
    nx_msg_probe(op->comm->world->msg, &op->req, op->to, nx_incarnation_user(op->inc), tag);
    check_sources(op);
}

void nx_op_match(nx_op *op, const char *name, int source, uint64_t tag)
{
    begin(op, name, source, tag);
    if (is_refused(op)) {
        return;
    }
    nx_msg_match(op->comm->world->msg, &op->req, op->to, nx_incarnation_user(op->inc), tag);
    check_sources(op);
}

void nx_op_cancel(nx_op *op)
{
    if (!nx_op_device_cancel(op) && !op->req.done) {
        (void)nx_msg_cancel(op->comm->world->msg, &op->req);
    }
}

/* ---- outcomes ------------------------------------------------------------------------ */

nexar_err nx_op_finish(nx_op *op, nexar_status *status)
{
    const nx_req *r = &op->req;

    if ((status != NULL) && !op->sending && ((r->err == NEXAR_OK) || (r->err == NEXAR_ETRUNC))) {
        *status = (nexar_status){
            .source = op->source, .tag = (op->number == 0) ? r->tag : op->tag, .bytes = r->bytes};
    }
    if (r->err != NEXAR_OK) {
        char what[256];

        describe(op, what, sizeof(what));
        return nx_fail(r->err, "%s: %s", what,
                       (r->why[0] == '\0') ? nexar_strerror(r->err) : r->why);
    }
    return NEXAR_OK;
}
