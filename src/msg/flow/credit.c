/* credit.c - the arithmetic of both ends of an account. */
#include "credit.h"

#include <assert.h>

#include "msg/matching/envelope.h"

enum {
    EAGER_LEAVES = 2,  /* eager bytes leave 1/2 of the window */
    INLINE_LEAVES = 4, /* the share that bytes behind envelopes leave */
    TELL_AT = 4,       /* a new limit is sent for 1/4 of the window */
    /* A partial eager part below this size is not worth a fragment: a packet holds more. */
    EAGER_LEAST = 1024,
};

/* ---- the sender's end ---------------------------------------------------------------- */

void nx_credit_out_init(nx_credit_out *c)
{
    *c = (nx_credit_out){.limit = NX_CREDIT_START, .window = NX_CREDIT_START};
}

static uint64_t min64(uint64_t a, uint64_t b)
{
    return (a < b) ? a : b;
}

/* Bytes that may accompany an envelope if 1/|part| of the window must remain. */
static uint64_t spare(const nx_credit_out *c, unsigned part)
{
    uint64_t left = c->limit - c->spent, keep = c->window / part + NX_ENVELOPE_COST;

    return (left > keep) ? left - keep : 0;
}

nx_send_plan nx_credit_plan(const nx_credit_out *c, uint64_t len, size_t inline_max,
                            size_t eager_max, uint64_t *eager)
{
    uint64_t most;

    if (c->limit - c->spent < NX_ENVELOPE_COST) {
        return NX_SEND_PLAN_WAIT;
    }
    if ((len == 0) || ((len <= inline_max) && (len <= spare(c, INLINE_LEAVES)))) {
        return NX_SEND_PLAN_INLINE;
    }
    most = min64(spare(c, EAGER_LEAVES), eager_max);
    if (len <= most) {
        *eager = len;
        return NX_SEND_PLAN_LONG;
    }
    most -= most % NX_UNIT_MAX;
    *eager = (most < EAGER_LEAST) ? 0 : most;
    return NX_SEND_PLAN_LONG;
}

void nx_credit_spend(nx_credit_out *c, uint64_t bytes)
{
    c->spent += NX_ENVELOPE_COST + bytes;
    assert(c->spent <= c->limit);
}

nexar_err nx_credit_open(nx_credit_out *c, uint64_t window)
{
    if ((window < c->limit) || (window > NX_WIRE_MAX)) {
        return NEXAR_EPROTO;
    }
    c->window = c->limit = window;
    return NEXAR_OK;
}

nexar_err nx_credit_raise(nx_credit_out *c, uint64_t limit)
{
    if ((limit < c->limit) || (limit > NX_WIRE_MAX)) {
        return NEXAR_EPROTO;
    }
    c->limit = limit;
    c->window = (limit - c->spent > c->window) ? limit - c->spent : c->window;
    return NEXAR_OK;
}

uint64_t nx_credit_give_back(nx_credit_out *c, uint64_t bytes)
{
    const uint64_t given = min64(bytes, c->limit - c->spent);

    c->spent += given;
    c->window = (given < c->window) ? c->window - given : 0;
    return given;
}

/* ---- the receiver's end -------------------------------------------------------------- */

void nx_credit_in_init(nx_credit_in *c, uint64_t window)
{
    assert(window >= NX_CREDIT_START);
    *c = (nx_credit_in){.window = window, .told = window};
}

bool nx_credit_charge(nx_credit_in *c, uint64_t cost)
{
    if (cost > c->told - c->charged) {
        return false;
    }
    c->charged += cost;
    assert(c->charged - c->released <= c->window);
    return true;
}

uint64_t nx_credit_release(nx_credit_in *c, uint64_t cost)
{
    const uint64_t shrunk = min64(cost, c->excess);

    c->released += cost;
    c->window -= shrunk;
    c->excess -= shrunk;
    assert(c->released <= c->charged);
    return shrunk;
}

bool nx_credit_returned(nx_credit_in *c, uint64_t bytes)
{
    if (bytes > c->told - c->charged) {
        return false;
    }
    c->charged += bytes;
    c->released += bytes;
    c->window -= bytes;
    c->excess -= min64(bytes, c->excess);
    assert(c->charged - c->released <= c->window);
    return true;
}

bool nx_credit_due(nx_credit_in *c, uint64_t *limit)
{
    uint64_t now = c->window + c->released;

    assert(c->told <= now);
    if ((now - c->told < c->window / TELL_AT) &&
        !(c->starved && (now - c->told >= NX_ENVELOPE_COST))) {
        return false;
    }
    c->told = *limit = now;
    c->starved = false;
    return true;
}
