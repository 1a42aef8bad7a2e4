/*
 * call.c - calls of this rank, from start to end.
 *
 * The first event that ends a call decides its outcome, once. The call is done when, in addition,
 * the transport has released the caller's bytes. From the decision on the call is in no table, so
 * anything that arrives for it later is dropped.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/text/text.h"
#include "rpc_inner.h"

/* ---- ends ---------------------------------------------------------------------------- */

/* The outcome is known, and the transport has released the bytes. */
static void finish(nx_rpc_call *call)
{
    call->done = true;
    if (call->event != NULL) {
        nx_event_set(call->rpc->config.loop, call->event);
    }
    if (call->on_done != NULL) {
        call->on_done(call);
    }
}

/* The outcome has been set; |call| must not be touched afterwards. */
static void decide(nx_rpc_call *call)
{
    nx_rpc *rpc = call->rpc;

    assert(!call->decided);
    call->decided = true;
    (void)nx_map_take(&rpc->calls, call->id);
    nx_list_remove(&call->link);
    rpc->stats.calls--;
    nx_loop_timer_cancel(rpc->config.loop, &call->timer);
    if (call->from != NULL) {
        call->from->call = NULL;
        nx_rpc_body_drop(&call->from->body);
        call->from = NULL;
    }
    if (call->sent) {
        finish(call);
    } else {
        (void)nx_msg_cancel(rpc->config.msg, &call->send); /* on_sent finishes */
    }
}

static void fail(nx_rpc_call *call, nexar_err err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void fail(nx_rpc_call *call, nexar_err err, const char *format, ...)
{
    va_list args;

    call->err = err;
    va_start(args, format);
    (void)vsnprintf(call->why, sizeof(call->why), format, args);
    va_end(args);
    decide(call);
}

static void on_sent(nx_req *req)
{
    nx_rpc_call *call = nx_list_entry(req, nx_rpc_call, send);

    call->sent = true;
    if (call->decided) {
        finish(call);
    } else if (req->err != NEXAR_OK) {
        fail(call, req->err, "%s", req->why);
    }
}

static void on_timeout(nx_timer *timer, uint64_t now_ns)
{
    nx_rpc_call *call = nx_list_entry(timer, nx_rpc_call, timer);

    (void)now_ns;
    fail(call, NEXAR_ETIMEDOUT, "no reply within %.3g s", (double)call->timeout_ns / 1e9);
}

void nx_rpc_cancel(nx_rpc_call *call)
{
    if (!call->decided) {
        fail(call, NEXAR_ECANCELED, "cancelled");
    }
}

/* Fails the calls to |peer|, or the calls on |comm| if |peer| is NULL. */
static void fail_some(nx_rpc *rpc, const uint32_t *peer, uint32_t comm, nexar_err err,
                      const char *why)
{
    nx_list lost;

    nx_list_init(&lost);
    nx_list_for_each (at, &rpc->mine) {
        const nx_rpc_call *call = nx_list_entry(at, nx_rpc_call, link);

        if ((peer != NULL) ? (call->peer == *peer) : (call->comm == comm)) {
            nx_list_remove(at);
            nx_list_push_back(&lost, at);
        }
    }
    while (!nx_list_empty(&lost)) {
        fail(nx_list_entry(lost.next, nx_rpc_call, link), err, "%s", why);
    }
}

void nx_rpc_peer_down(nx_rpc *rpc, uint32_t peer, nexar_err err, const char *why)
{
    fail_some(rpc, &peer, 0, err, why);
}

void nx_rpc_fail_comm(nx_rpc *rpc, uint32_t comm, nexar_err err, const char *why)
{
    fail_some(rpc, NULL, comm, err, why);
}

void nx_rpc_end(nx_rpc *rpc)
{
    rpc->dead = true;
    while (!nx_list_empty(&rpc->mine)) {
        fail(nx_list_entry(rpc->mine.next, nx_rpc_call, link), NEXAR_ECANCELED,
             "this rank is leaving");
    }
}

/* ---- replies ------------------------------------------------------------------------- */

/* Keeps the peer's error message, if there is one, for the call. */
static void keep_text(nx_rpc_call *call, nx_rpc_body *body)
{
    char *text = (body->data == NULL) ? NULL : nx_grow(body->data, (size_t)body->len + 1, 1);

    if (text != NULL) {
        text[body->len] = '\0';
        nx_clean_text(text, (size_t)body->len);
        body->data = NULL;
    }
    call->text = text;
}

static bool is_error(int32_t code)
{
    return (code < 0) && (code >= NEXAR_EINTERNAL);
}

/* Ends |call| with the error in its reply. */
static void reply_failed(nx_rpc_call *call, const nx_rpc_reply_head *head, nx_rpc_body *body)
{
    if (body->len < NX_ERROR_ROOM) {
        keep_text(call, body);
    }
    if (head->outcome == NX_RPC_NO_HANDLER) {
        fail(call, NEXAR_ENOHANDLER, "no such function is registered there");
    } else if (head->outcome == NX_RPC_FAILED) {
        fail(call, NEXAR_EREMOTE, "the handler returned %s (%" PRId32 ")",
             is_error(head->code) ? nexar_err_name((nexar_err)head->code) : "an error", head->code);
    } else {
        fail(call, is_error(head->code) ? (nexar_err)head->code : NEXAR_EREMOTE, "refused");
    }
}

static void replied(nx_rpc_call *call, nx_rpc_body *body)
{
    nx_rpc_reply_head head;

    if (body->headless || !nx_rpc_reply_decode(body->head, &head)) {
        fail(call, NEXAR_EPROTO, "what came is no reply");
    } else if (head.outcome != NX_RPC_OK) {
        reply_failed(call, &head, body);
    } else if (body->nomem) {
        fail(call, NEXAR_ENOMEM, "out of memory for a reply of %" PRIu64 " bytes", body->len);
    } else {
        if (call->wanted) {
            call->reply = body->data;
            body->data = NULL;
        }
        call->reply_bytes = body->len;
        decide(call);
    }
}

/* The first bytes of a reply have arrived: finds its call. */
static void begin(nx_rpc_inbox *in)
{
    nx_rpc *rpc = in->rpc;
    nx_rpc_call *call = nx_map_get(&rpc->calls, in->req.tag);

    if ((call != NULL) && (call->peer == in->req.peer) && (call->from == NULL)) {
        in->call = call;
        call->from = in;
    } else {
        rpc->stats.dropped++;
    }
    /* Even if the reply is not needed, its error message may be. */
    nx_rpc_body_begin(&in->body, in->req.bytes,
                      (in->call == NULL) ||
                          (!in->call->wanted && (in->req.bytes > NX_RPC_HEAD + NX_ERROR_ROOM)));
    rpc->open = NULL;
}

static void take(void *ctx, uint64_t off, const void *data, size_t len)
{
    nx_rpc_inbox *in = ctx;

    if (!in->body.begun) {
        begin(in);
        if (len < in->req.bytes) { /* other replies need not wait for the end of this one */
            nx_loop_defer(in->rpc->config.loop, &in->rpc->refill);
        }
    }
    nx_rpc_body_put(&in->body, off, data, len);
}

static void post(nx_rpc_inbox *in)
{
    nx_rpc *rpc = in->rpc;
    const nx_context context = {.kind = rpc->config.reply_kind, .class = NX_CLASS_REPLY};

    rpc->open = in;
    in->body = (nx_rpc_body){0};
    in->call = NULL;
    nx_msg_recv(rpc->config.msg, &in->req, NX_ANY_PEER, context, NX_ANY_TAG,
                &(nx_sink){.take = take, .ctx = in, .room = UINT64_MAX, .unit = 1});
}

static void on_received(nx_req *req)
{
    nx_rpc_inbox *in = nx_list_entry(req, nx_rpc_inbox, req);
    nx_rpc *rpc = in->rpc;
    nx_rpc_call *call;

    if (!in->body.begun && (req->err == NEXAR_OK)) {
        begin(in); /* no byte arrived */
    }
    if (rpc->open == in) {
        rpc->open = NULL;
    }
    call = in->call;
    in->call = NULL;
    if (call != NULL) {
        call->from = NULL;
        if (req->err == NEXAR_OK) {
            replied(call, &in->body);
        } else {
            fail(call, req->err, "%s", req->why);
        }
    }
    nx_free(in->body.data);
    in->body.data = NULL;
    if ((rpc->open != NULL) || rpc->dead) {
        nx_list_remove(&in->link);
        nx_free(in);
        return;
    }
    post(in);
}

void nx_rpc_inbox_open(nx_rpc *rpc)
{
    nx_rpc_inbox *in;

    if ((rpc->open != NULL) || rpc->dead) {
        return;
    }
    in = nx_zalloc(sizeof(*in));
    if (in != NULL) { /* otherwise the next receive that ends is reopened */
        in->rpc = rpc;
        in->req.on_done = on_received;
        nx_list_push_back(&rpc->inboxes, &in->link);
        post(in);
    }
}

/* ---- starting ------------------------------------------------------------------------ */

/* NEXAR_ENOMEM */
static nexar_err enter(nx_rpc_call *call)
{
    nx_rpc *rpc = call->rpc;
    nexar_err err = nx_map_put(&rpc->calls, call->id, call);

    if ((err == NEXAR_OK) && (call->timeout_ns > 0)) {
        err = nx_loop_timer_set(rpc->config.loop, &call->timer,
                                nx_loop_now(rpc->config.loop) + call->timeout_ns);
    }
    return err;
}

void nx_rpc_start(nx_rpc *rpc, nx_rpc_call *call, const nx_rpc_target *target, const void *data,
                  size_t bytes, uint64_t timeout_ns)
{
    const unsigned level = nx_rpc_level_now();
    const nx_context context = {.kind = (uint8_t)(rpc->config.call_kind + level),
                                .class = NX_CLASS_CALL};

    call->rpc = rpc;
    call->id = ++rpc->ids;
    call->peer = target->peer;
    call->comm = target->comm;
    call->timeout_ns = timeout_ns;
    call->timer.on_expire = on_timeout;
    call->sent = true;
    call->send.on_done = on_sent;
    nx_list_push_back(&rpc->mine, &call->link);
    rpc->stats.calls++;
    if (level >= NX_RPC_LEVELS) {
        fail(call, NEXAR_EINVAL, "calls from handlers are nested at most %d deep", NX_RPC_LEVELS);
        return;
    }
    if (target->revoked != NULL) {
        fail(call, NEXAR_EREVOKED, "%s", target->revoked);
        return;
    }
    nx_rpc_inbox_open(rpc);
    if ((rpc->open == NULL) && nx_list_empty(&rpc->inboxes)) {
        fail(call, NEXAR_ENOMEM, "out of memory for a reply");
        return;
    }
    if (enter(call) != NEXAR_OK) {
        fail(call, NEXAR_ENOMEM, "out of memory for a call");
        return;
    }
    nx_rpc_call_encode(&(nx_rpc_call_head){.comm = target->comm, .fn = target->fn}, call->head);
    call->bytes[0] = (nx_bytes){.ptr = call->head, .len = sizeof(call->head)};
    call->bytes[1] = (nx_bytes){.ptr = data, .len = bytes};
    call->sent = false;
    nx_msg_send(rpc->config.msg, &call->send, target->peer, context, call->id, call->bytes,
                (bytes > 0) ? 2 : 1);
}
