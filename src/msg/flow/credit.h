/*
 * credit.h - accounts: the bytes that one peer may send before the receiver requests them.
 *
 * There is one account per direction of a link and class of traffic. Both ends count the same three
 * totals since the link began:
 *
 *     sender                      receiver
 *     spent   by envelopes sent   charged   by envelopes and bytes arrived
 *     limit   as received         told      the limit sent last
 *                                 released  of what was charged: matched, or dropped
 *
 * Invariants
 * 1.  charged <= spent <= limit <= told: frames in flight explain each gap. The receiver checks
 *     charged <= told and ends the link of a peer that violates it.
 * 2.  told <= window + released, so the unmatched bytes here, charged - released, are at most
 *     |window|.
 * 3.  The sum of the windows of all accounts is at most the pool.
 *
 * Data is sent only while enough credit is left: eager bytes leave half of the window to later
 * messages, short messages a quarter. So envelopes still travel when no data can, and a receive
 * finds its message behind many others.
 *
 * A window may shrink while the link is up, when other peers need room. The receiver lowers it as
 * messages are released (|excess|), and asks the sender to return unspent credit. Returning is
 * spending without data: the totals grow at both ends, so it does not matter what is in flight
 * meanwhile.
 *
 * A new limit is sent when a quarter of the window has been released, or immediately when the
 * sender reports that it is out of credit. So one frame serves thousands of messages.
 */
#ifndef NX_CREDIT_H
#define NX_CREDIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "msg/msg.h"

/* ---- the sender's end ---------------------------------------------------------------- */

typedef struct nx_credit_out {
    uint64_t limit, spent, window;
    bool stalled; /* messages wait, and STALLED was sent at this limit */
} nx_credit_out;

/* How a message is sent. */
typedef enum nx_send_plan {
    NX_SEND_PLAN_WAIT,   /* not yet: no credit for its envelope */
    NX_SEND_PLAN_INLINE, /* data follows its envelope */
    NX_SEND_PLAN_LONG,   /* |eager| bytes as a fragment, the rest after CLEAR */
} nx_send_plan;

void nx_credit_out_init(nx_credit_out *c);

/* How to send a message of |len| bytes now. */
nx_send_plan nx_credit_plan(const nx_credit_out *c, uint64_t len, size_t inline_max,
                            size_t eager_max, uint64_t *eager);
/* Spends the credit of an envelope and |bytes|; nx_credit_plan allowed it. */
void nx_credit_spend(nx_credit_out *c, uint64_t bytes);

/* The receiver's first limit, and later ones.  NEXAR_EPROTO: lower than before, or out of range. */
NX_MUST_CHECK nexar_err nx_credit_open(nx_credit_out *c, uint64_t window);
NX_MUST_CHECK nexar_err nx_credit_raise(nx_credit_out *c, uint64_t limit);

/* The receiver asks for |bytes|: spends and returns what is unspent of it. */
uint64_t nx_credit_give_back(nx_credit_out *c, uint64_t bytes);

/* ---- the receiver's end -------------------------------------------------------------- */

typedef struct nx_credit_in {
    uint64_t window, told, charged, released;
    uint64_t excess; /* of the window: removed as messages are released, or returned by the
                        sender */
    bool starved;    /* the sender is out of credit at |told| */
} nx_credit_in;

/* |window| is at least NX_CREDIT_START. */
void nx_credit_in_init(nx_credit_in *c, uint64_t window);

/* Charges |cost|, which has arrived. False: credit did not cover it. */
NX_MUST_CHECK bool nx_credit_charge(nx_credit_in *c, uint64_t cost);
/* Releases |cost|. Returns the number of bytes by which the window has shrunk. */
uint64_t nx_credit_release(nx_credit_in *c, uint64_t cost);
/* The sender has returned |bytes|, and the window shrinks by them. False: it had less. */
NX_MUST_CHECK bool nx_credit_returned(nx_credit_in *c, uint64_t bytes);

/* Whether a new limit is due, and which one; |told| becomes that. */
NX_MUST_CHECK bool nx_credit_due(nx_credit_in *c, uint64_t *limit);

/* Unmatched bytes here. */
static inline uint64_t nx_credit_used(const nx_credit_in *c)
{
    return c->charged - c->released;
}

#endif /* NX_CREDIT_H */
