/*
 * credit.h - accounts: what one peer may lay unasked at another's door.
 *
 * There is an account for each direction of a link and class of traffic.  Its two
 * ends count the same three things, all of them sums since the link began:
 *
 *     sender                      receiver
 *     spent   by envelopes sent   charged   by envelopes and bytes arrived
 *     limit   as told             told      the limit that was told last
 *                                 released  of what was charged: matched, or dropped
 *
 * Invariants
 *  1. charged <= spent <= limit <= told: bytes on the way explain each gap.  The
 *     receiver checks charged <= told; whoever breaks it loses the link.
 *  2. told <= window + released, so what lies here unmatched, charged - released,
 *     is at most |window|.
 *  3. the windows of all accounts are at most the pool.
 *
 * Bytes are only sent while plenty is left: eager parts leave half of the window
 * to those behind, short messages a quarter.  So envelopes still travel when no
 * bytes can, and a receive finds its message deep in a flood.
 *
 * A window may shrink while the link is up, when others need room: the receiver lowers
 * it as what lies here is released (|excess|), and asks the sender to give back what it
 * has not spent.  Giving back is spending on nothing: at both ends the sums grow, so
 * that it does not matter what is on the way meanwhile.
 *
 * Credit is told again when a quarter of the window has come together, or at once
 * when the sender says that it is stalled: one frame for thousands of messages.
 */
#ifndef NX_CREDIT_H
#define NX_CREDIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "msg/msg.h"

/* ---- the sender's end ------------------------------------------------------- */

typedef struct nx_credit_out {
    uint64_t limit, spent, window;
    bool stalled; /* messages wait, and the receiver has been told at this limit */
} nx_credit_out;

/* How a message goes. */
typedef enum nx_send_plan {
    NX_SEND_PLAN_WAIT,   /* not yet: there is no credit for its envelope */
    NX_SEND_PLAN_INLINE, /* behind its envelope */
    NX_SEND_PLAN_LONG,   /* |eager| bytes as a part, the rest when it is cleared */
} nx_send_plan;

void nx_credit_out_init(nx_credit_out *c);

/* What is to be done with a message of |len| bytes now. */
nx_send_plan nx_credit_plan(const nx_credit_out *c, uint64_t len, size_t inline_max,
                            size_t eager_max, uint64_t *eager);
/* An envelope goes out with |bytes| unasked; nx_credit_plan allowed it. */
void nx_credit_spend(nx_credit_out *c, uint64_t bytes);

/* The receiver's first word, and its later ones.  NEXAR_EPROTO: less than it has
 * said before, or beyond any number that can be. */
NX_MUST_CHECK nexar_err nx_credit_open(nx_credit_out *c, uint64_t window);
NX_MUST_CHECK nexar_err nx_credit_raise(nx_credit_out *c, uint64_t limit);

/* The receiver would have |bytes| back: how much of it is unspent, and spent now. */
uint64_t nx_credit_give_back(nx_credit_out *c, uint64_t bytes);

/* ---- the receiver's end ----------------------------------------------------- */

typedef struct nx_credit_in {
    uint64_t window, told, charged, released;
    uint64_t excess; /* of the window: it goes as it is released, or given back */
    bool starved;    /* the sender is stalled at |told| */
} nx_credit_in;

/* |window| is at least NX_CREDIT_START. */
void nx_credit_in_init(nx_credit_in *c, uint64_t window);

/* |cost| has arrived.  False: it was not covered. */
NX_MUST_CHECK bool nx_credit_charge(nx_credit_in *c, uint64_t cost);
/* |cost| of it is gone.  Returns by how much the window has shrunk. */
uint64_t nx_credit_release(nx_credit_in *c, uint64_t cost);
/* The sender has given |bytes| back: the window is smaller by so much.  False: it had
 * not so many. */
NX_MUST_CHECK bool nx_credit_returned(nx_credit_in *c, uint64_t bytes);

/* Whether it is time to tell a new limit, and then which; |told| is that now. */
NX_MUST_CHECK bool nx_credit_due(nx_credit_in *c, uint64_t *limit);

/* What lies here. */
static inline uint64_t nx_credit_used(const nx_credit_in *c)
{
    return c->charged - c->released;
}

#endif /* NX_CREDIT_H */
