/*
 * commit.h - a commit barrier: whether all ranks of a communicator have the result of an operation
 * and, after a failure, which operations count: (state, event) -> actions; no sockets, no clock.
 *
 * The committed operations of a communicator are numbered 1, 2, 3 ... and run one after another. A
 * rank that has the result of one *enters* its barrier. It *returns* when all ranks have entered (a
 * dissemination: log2 n rounds), and then begins the next. The barrier combines the errors that
 * ranks enter with, so all return the same error.
 *
 * When the communicator fails each rank *freezes*: it neither enters nor returns any more. It
 * contributes its state to a consensus (consensus.h), and all decide alike: operations up to |keep|
 * have their results on all survivors, and count. No rank has returned from later operations; all
 * ranks run them again.
 *
 * I1  A rank enters s when it has returned from s - 1 and has the complete result of s.
 * I2  A rank returns from s when all ranks have entered s.
 * I3  Its contribution is fixed when it freezes.
 *
 * docs/internals/recovery.md proves that this suffices.
 */
#ifndef NX_COMMIT_H
#define NX_COMMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* Sends a frame to |to|, a rank of the communicator; called from inside, must not call back. */
typedef void (*nx_commit_send)(void *ctx, uint32_t to, const void *frame, size_t len);

typedef struct nx_commit {
    uint64_t comm;
    uint32_t size, self;
    uint64_t entered; /* the last operation that this rank has entered; 0: none */
    bool pending;     /* it has not returned from it */
    bool frozen;
    uint32_t round; /* that it waits for */
    /* For |entered| and the next operation, by their last bit: */
    uint32_t got[2];  /* received rounds, as bits */
    uint32_t errs[2]; /* received errors, as bits: 1 << -err */
    uint32_t before;  /* errors of the operation before |entered| */
} nx_commit;

enum { NX_COMMIT_FRAME_MAX = 1 + 8 + 8 + 1 + 4 };

void nx_commit_init(nx_commit *c, uint64_t comm, uint32_t size, uint32_t self);

/* The bits of |err|, below NEXAR_OK; 0 for NEXAR_OK. The error of some bits: NEXAR_OK if none is
 * set, otherwise the most significant one. */
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

/* The rank whose frame this one waits for, while it has not returned. (A rank sends its frame
 * before it returns. If it has left, and its frame is missing, it never returned.) */
static inline uint32_t nx_commit_awaits(const nx_commit *c)
{
    return (c->self + c->size - (UINT32_C(1) << c->round)) % c->size;
}

/* Freezes; returns this rank's contribution: flags, combined by and, and a number, combined by
 * maximum. */
void nx_commit_freeze(nx_commit *c, uint64_t *flags, uint64_t *highest);
/* Evaluates the decision: operations up to |*keep| count, the last of them with |*errs|. */
void nx_commit_decide(uint64_t flags, uint64_t highest, uint64_t *keep, uint32_t *errs);

#endif /* NX_COMMIT_H */
