/*
 * commit.h - whether all ranks of a communicator have the result of an operation, and, if
 * one dies, which operations count: (state, event) -> actions; no sockets, no clock.
 *
 * The operations of a communicator that are confirmed are numbered 1, 2, 3 ... and come one
 * after the other.  A rank that has the result of one *enters* it; it *returns* from it when
 * all ranks have entered it (a dissemination: log2 n rounds), and begins the next then.
 * Errors that ranks enter with are put together on the way, so that all return the same.
 *
 * When the communicator breaks each rank *freezes*: it neither enters nor returns any more.
 * It brings what it has come to into an agreement (consensus.h), and all decide alike: operations
 * up to |keep| have their results on all who are left, and count; those behind it have been
 * returned from by nobody, and are run again by all.
 *
 *  I1  A rank enters s when it has returned from s - 1 and has the complete result of s.
 *  I2  A rank returns from s when all ranks have entered s.
 *  I3  What it brings is fixed when it freezes.
 *
 * docs/internals/recovery.md says why that is enough.
 */
#ifndef NX_COMMIT_H
#define NX_COMMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* Sends a frame to |to|, a rank of the communicator; called from inside, does not call back. */
typedef void (*nx_commit_send)(void *ctx, uint32_t to, const void *frame, size_t len);

typedef struct nx_commit {
    uint64_t comm;
    uint32_t size, self;
    uint64_t entered; /* the last operation that this rank has entered; 0: none */
    bool pending;     /* it has not returned from it */
    bool frozen;
    uint32_t round; /* that it waits for */
    /* Of |entered| and the one after it, by their last bit: */
    uint32_t got[2];  /* rounds that were heard, as bits */
    uint32_t errs[2]; /* errors that were heard, as bits: 1 << -err */
    uint32_t before;  /* errors of the operation before |entered| */
} nx_commit;

enum { NX_COMMIT_FRAME_MAX = 1 + 8 + 8 + 1 + 4 };

void nx_commit_init(nx_commit *c, uint64_t comm, uint32_t size, uint32_t self);

/* The bits of |err|, below NEXAR_OK; 0 for NEXAR_OK.  The error of some bits: NEXAR_OK if
 * there is none, else the one that says most. */
uint32_t nx_commit_bits(nexar_err err);
nexar_err nx_commit_error(uint32_t bits);

/* This rank has the result of the next operation, or an error; not frozen, none pending. */
void nx_commit_enter(nx_commit *c, uint32_t errs, nx_commit_send say, void *ctx);
/* A frame from |from|, a rank of the communicator.  NEXAR_EPROTO: malformed or impossible. */
NX_MUST_CHECK nexar_err nx_commit_frame(nx_commit *c, uint32_t from, const void *frame, size_t len,
                                        nx_commit_send say, void *ctx);
/* Of an encoded frame.  NEXAR_EPROTO. */
NX_MUST_CHECK nexar_err nx_commit_frame_comm(const void *frame, size_t len, uint64_t *comm);

/* Whether this rank has returned from what it has entered, and with which errors. */
static inline bool nx_commit_returned(const nx_commit *c)
{
    return !c->pending;
}
static inline uint32_t nx_commit_errs(const nx_commit *c)
{
    return c->errs[c->entered & 1];
}

/* The rank without whose word this one does not go on; while it has not returned.  (What
 * that one has sent it sent before it returned itself: if it has left, and its word is not
 * there, it never returned.) */
static inline uint32_t nx_commit_awaits(const nx_commit *c)
{
    return (c->self + c->size - (UINT32_C(1) << c->round)) % c->size;
}

/* Freezes, and says what this rank brings: flags, which are and-ed, and a number of which the
 * highest counts. */
void nx_commit_freeze(nx_commit *c, uint64_t *flags, uint64_t *highest);
/* What came of them: operations up to |*keep| count, the last of them with |*errs|. */
void nx_commit_decide(uint64_t flags, uint64_t highest, uint64_t *keep, uint32_t *errs);

#endif /* NX_COMMIT_H */
