/*
 * serve.c - receives, runs and answers calls of peers.
 *
 * States of a record: open -> accepted (its message is arriving) -> ready -> running -> answered.
 * Then it is reopened or freed. So there is always a record for the next call, even without free
 * memory. A call that cannot be handled goes directly from accepted to answered.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/text/sentence.h"
#include "rpc_inner.h"

struct nexar_rpc {
    nx_job job;
    nx_rpc *rpc;
    unsigned level;
    nx_list all, link; /* rpc->all; level->ready */
    nx_req req;        /* the receive, then the send of the reply */
    nx_rpc_body body;
    uint32_t peer;
    uint64_t id;
    uint16_t fn;
    int rank; /* of the caller */
    nx_rpc_entry *entry;
    bool replied;
    nx_event sent;    /* nx_rpc_reply waits for this event */
    nexar_err result; /* of the handler */
    uint8_t head[NX_RPC_HEAD];
    nx_bytes bytes[2];
    char why[NX_ERROR_ROOM]; /* the error message that is sent */
};

static _Thread_local nexar_rpc *current;

static void post(nexar_rpc *call);
static void start_ready(nx_rpc *rpc, nx_rpc_level *level);
static void open_level(nx_rpc *rpc, unsigned i);

nexar_rpc *nx_rpc_current(void)
{
    return current;
}

unsigned nx_rpc_level_now(void)
{
    return (current == NULL) ? 0 : current->level + 1;
}

int nx_rpc_caller(const nexar_rpc *call)
{
    return call->rank;
}

nx_loop *nx_rpc_loop_of(const nexar_rpc *call)
{
    return call->rpc->config.loop;
}

/* ---- the end of a record ------------------------------------------------------------- */

static void record_free(nexar_rpc *call)
{
    nx_list_remove(&call->all);
    nx_free(call);
}

static void check_closed(nx_rpc *rpc)
{
    if (rpc->closing && (rpc->stats.accepted == 0) && (rpc->closed != NULL)) {
        nx_event_set(rpc->config.loop, rpc->closed);
        rpc->closed = NULL;
    }
}

/* The work for |call| is complete: reopens or frees the record. */
static void release(nexar_rpc *call)
{
    nx_rpc *rpc = call->rpc;
    nx_rpc_level *level = &rpc->levels[call->level];

    nx_free(call->body.data);
    call->body.data = NULL;
    level->accepted--;
    rpc->stats.accepted--;
    if ((level->open == NULL) && !rpc->dead) {
        post(call);
    } else {
        record_free(call);
    }
    check_closed(rpc);
}

/* ---- answers ------------------------------------------------------------------------- */

static void send_reply(nexar_rpc *call, const nx_rpc_reply_head *head, const void *data,
                       size_t bytes, void (*on_done)(nx_req *req))
{
    nx_rpc *rpc = call->rpc;
    const nx_context context = {.kind = rpc->config.reply_kind, .class = NX_CLASS_REPLY};

    nx_rpc_reply_encode(head, call->head);
    call->bytes[0] = (nx_bytes){.ptr = call->head, .len = sizeof(call->head)};
    call->bytes[1] = (nx_bytes){.ptr = data, .len = bytes};
    call->req.on_done = on_done;
    nx_msg_send(rpc->config.msg, &call->req, call->peer, context, call->id, call->bytes,
                (bytes > 0) ? 2 : 1);
}

static void on_answered(nx_req *req)
{
    release(nx_list_entry(req, nexar_rpc, req));
}

/* Replies on behalf of the handler: with an error, or with an empty reply. */
static void answer(nexar_rpc *call, nx_rpc_outcome outcome, int32_t code)
{
    nx_free(call->body.data); /* sending may take a while */
    call->body.data = NULL;
    send_reply(call, &(nx_rpc_reply_head){.outcome = outcome, .code = code}, call->why,
               (code == 0) ? 0 : strlen(call->why), on_answered);
}

static void refuse(nexar_rpc *call, nexar_err err, const char *why)
{
    call->rpc->stats.refused++;
    (void)nx_sentence(call->why, sizeof(call->why), "%s", why);
    answer(call, NX_RPC_REFUSED, (int32_t)err);
}

static void on_reply_sent(nx_req *req)
{
    nexar_rpc *call = nx_list_entry(req, nexar_rpc, req);

    nx_event_set(call->rpc->config.loop, &call->sent);
}

nexar_err nx_rpc_reply(nexar_rpc *call, const void *data, size_t bytes)
{
    if (call->replied) {
        return nx_fail(NEXAR_EINVAL,
                       "rpc_reply: function %u has replied to rank %d already; a handler replies "
                       "once",
                       call->fn, call->rank);
    }
    call->replied = true;
    call->sent = (nx_event){0};
    send_reply(call, &(nx_rpc_reply_head){.outcome = NX_RPC_OK}, data, bytes, on_reply_sent);
    if (call->sent.set) {
        nx_loop_kick(call->rpc->config.loop);
    } else {
        (void)nx_loop_wait(call->rpc->config.loop, &call->sent, UINT64_MAX);
    }
    return (call->req.err == NEXAR_OK)
               ? NEXAR_OK
               : nx_fail(call->req.err, "rpc_reply of function %u to rank %d: %s", call->fn,
                         call->rank, call->req.why);
}

/* ---- handlers ------------------------------------------------------------------------ */

/* Runs on a thread of the worker, without the lock. */
static void work(nx_job *job)
{
    nexar_rpc *call = nx_list_entry(job, nexar_rpc, job);
    const nx_rpc_handler *handler = &call->entry->handler;

    current = call;
    (void)nx_fail(NEXAR_OK, "%s", ""); /* an earlier error of this thread is not the handler's */
    call->result = handler->fn(call, call->body.data, (size_t)call->body.len, handler->arg);
    current = NULL;
    (void)nx_sentence(call->why, sizeof(call->why), "%s", nexar_last_error());
}

static void done(nx_job *job)
{
    nexar_rpc *call = nx_list_entry(job, nexar_rpc, job);
    nx_rpc *rpc = call->rpc;
    const unsigned level = call->level;

    nx_rpc_entry_end(rpc, call->entry);
    rpc->levels[level].running--;
    rpc->stats.running--;
    rpc->stats.served++;
    if (!call->replied) {
        answer(call, (call->result == NEXAR_OK) ? NX_RPC_OK : NX_RPC_FAILED, call->result);
    } else {
        if ((call->result != NEXAR_OK) && (call->req.err == NEXAR_OK)) {
            nx_log(NX_LOG_WARN, "the handler of function %u returned %d after it had replied: %s",
                   call->fn, (int)call->result, call->why);
        }
        release(call);
    }
    start_ready(rpc, &rpc->levels[level]);
    open_level(rpc, level);
}

/* Submits |call| to a thread. */
static void run(nexar_rpc *call)
{
    nx_rpc *rpc = call->rpc;
    nx_rpc_call_head head;
    char why[NX_ERROR_ROOM];
    nexar_err err;

    if (!nx_rpc_call_decode(call->body.head, &head)) {
        refuse(call, NEXAR_EPROTO, "what came is no call");
        return;
    }
    call->fn = head.fn;
    if (rpc->config.handlers_of != NULL) {
        head.comm = rpc->config.handlers_of(rpc->config.ctx, head.comm);
    }
    call->entry = nx_rpc_entry_get(rpc, head.comm, head.fn);
    call->rank =
        (call->entry == NULL) ? -1 : rpc->config.rank_of(call->entry->handler.owner, call->peer);
    if (call->rank < 0) {
        rpc->stats.refused++;
        answer(call, NX_RPC_NO_HANDLER, 0);
        return;
    }
    /* Running handlers may wait for this call, so it needs a free thread. */
    err = nx_worker_submit_free(rpc->worker, &call->job);
    if (err != NEXAR_OK) {
        (void)nx_sentence(why, sizeof(why), "no thread could be started for it: %s",
                          nexar_last_error());
        refuse(call, err, why);
        return;
    }
    call->entry->running++;
    rpc->levels[call->level].running++;
    rpc->stats.running++;
}

static void start_ready(nx_rpc *rpc, nx_rpc_level *level)
{
    nx_list *at;

    while ((level->running < rpc->config.threads) && ((at = nx_list_pop(&level->ready)) != NULL)) {
        run(nx_list_entry(at, nexar_rpc, link));
    }
}

/* ---- receiving ----------------------------------------------------------------------- */

/* The record has received a message and is no longer open. */
static void accept_call(nexar_rpc *call)
{
    nx_rpc *rpc = call->rpc;
    nx_rpc_level *level = &rpc->levels[call->level];

    assert(level->open == call);
    level->open = NULL;
    level->accepted++;
    rpc->stats.accepted++;
    if (rpc->stats.accepted > rpc->stats.most) {
        rpc->stats.most = rpc->stats.accepted;
    }
    call->peer = call->req.peer;
    call->id = call->req.tag;
    nx_rpc_body_begin(&call->body, call->req.bytes, false);
}

static void take(void *ctx, uint64_t off, const void *data, size_t len)
{
    nexar_rpc *call = ctx;

    if (!call->body.begun) {
        accept_call(call);
        if (len < call->req.bytes) { /* further calls need not wait for the end of this one */
            nx_loop_defer(call->rpc->config.loop, &call->rpc->refill);
        }
    }
    nx_rpc_body_put(&call->body, off, data, len);
}

/* The message is complete. */
static void received(nexar_rpc *call)
{
    nx_rpc *rpc = call->rpc;
    nx_rpc_level *level = &rpc->levels[call->level];
    char why[96];

    if (call->body.headless) {
        refuse(call, NEXAR_EPROTO, "what came is no call");
    } else if (call->body.nomem) {
        (void)nx_sentence(why, sizeof(why), "out of memory for a call of %" PRIu64 " bytes",
                          call->body.len);
        refuse(call, NEXAR_ENOMEM, why);
    } else if (rpc->closing) {
        refuse(call, NEXAR_EPEER, "it is leaving");
    } else {
        nx_list_push_back(&level->ready, &call->link);
        start_ready(rpc, level);
    }
}

static void on_received(nx_req *req)
{
    nexar_rpc *call = nx_list_entry(req, nexar_rpc, req);
    nx_rpc *rpc = call->rpc;
    const unsigned level = call->level;

    if (!call->body.begun) {
        if (rpc->dead) { /* received no message */
            rpc->levels[level].open = NULL;
            record_free(call);
            return;
        }
        accept_call(call);
    }
    if (req->err == NEXAR_OK) {
        received(call);
    } else {
        release(call); /* its caller has failed or has cancelled it */
    }
    open_level(rpc, level);
}

static void post(nexar_rpc *call)
{
    nx_rpc *rpc = call->rpc;
    const nx_context context = {.kind = (uint8_t)(rpc->config.call_kind + call->level),
                                .class = NX_CLASS_CALL};

    rpc->levels[call->level].open = call;
    call->body = (nx_rpc_body){0};
    call->replied = false;
    call->entry = NULL;
    call->req.on_done = on_received;
    nx_msg_recv(rpc->config.msg, &call->req, NX_ANY_PEER, context, NX_ANY_TAG,
                &(nx_sink){.take = take, .ctx = call, .room = UINT64_MAX, .unit = 1});
}

/* ---- records ------------------------------------------------------------------------- */

static nexar_rpc *record_create(nx_rpc *rpc, unsigned level)
{
    nexar_rpc *call = nx_zalloc(sizeof(*call));

    if (call != NULL) {
        call->rpc = rpc;
        call->level = level;
        call->job.work = work;
        call->job.done = done;
        nx_list_init(&call->link);
        nx_list_push_back(&rpc->all, &call->all);
    }
    return call;
}

/* Opens a receive of a level below its limit. Without memory, the next record that ends reopens
 * it. */
static void open_level(nx_rpc *rpc, unsigned i)
{
    nx_rpc_level *level = &rpc->levels[i];

    while ((level->open == NULL) && (level->accepted < 2 * rpc->config.threads) && !rpc->dead) {
        nexar_rpc *call = record_create(rpc, i);

        if (call == NULL) {
            return;
        }
        post(call);
    }
}

void nx_rpc_serve_open(nx_rpc *rpc)
{
    for (unsigned i = 0; i < NX_RPC_LEVELS; i++) {
        open_level(rpc, i);
    }
}

nexar_err nx_rpc_serve_init(nx_rpc *rpc)
{
    nexar_rpc *first[NX_RPC_LEVELS];

    for (unsigned i = 0; i < NX_RPC_LEVELS; i++) {
        first[i] = record_create(rpc, i);
        if (first[i] == NULL) {
            nx_rpc_serve_free(rpc);
            return nx_fail_nomem("calls of other ranks");
        }
    }
    for (unsigned i = 0; i < NX_RPC_LEVELS; i++) {
        post(first[i]);
    }
    return NEXAR_OK;
}

void nx_rpc_serve_close(nx_rpc *rpc)
{
    nx_list *at;

    for (unsigned i = 0; i < NX_RPC_LEVELS; i++) {
        while ((at = nx_list_pop(&rpc->levels[i].ready)) != NULL) {
            refuse(nx_list_entry(at, nexar_rpc, link), NEXAR_EPEER, "it is leaving");
        }
    }
    check_closed(rpc);
}

void nx_rpc_serve_free(nx_rpc *rpc)
{
    while (!nx_list_empty(&rpc->all)) {
        nexar_rpc *call = nx_list_entry(rpc->all.next, nexar_rpc, all);

        nx_free(call->body.data);
        record_free(call);
    }
}
