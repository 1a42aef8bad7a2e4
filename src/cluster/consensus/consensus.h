/*
 * consensus.h - agreement among the living ranks of a communicator, whatever dies
 * meanwhile: (state, event) -> actions; no sockets, no clock, no threads.
 *
 * A communicator has one machine on each of its ranks, and runs one instance after
 * another: number 0, 1, 2 ...  In each, every rank brings a contribution, and all
 * get the same value: the flags of all and-ed, the highest of their numbers, the
 * union of those who want to leave, the payload of the lowest rank that brought
 * one, and who was left out as dead.
 *
 *  - Agreement, uniform: no two ranks decide differently, not even one that dies
 *    right after.  With |early| this holds among those who survive only.
 *  - Validity: flags and the rest are of all who are not in |failed|, and only of
 *    ranks that started; whoever all survivors knew to be dead is in |failed|.
 *  - Termination: once each living rank knows the same dead, all decide.
 *
 * What it assumes: nx_consensus_failed is called on every living rank for every rank
 * that anybody holds for dead, sooner or later (failure_detector.h and reliable_broadcast.h do
 * that; of those who have left, nx_consensus_left, one will do); a message between two living ranks
 * arrives, in any order, perhaps twice.  A rank that is held for dead is out for good: it is not
 * listened to, and is told so.
 *
 * The ranks form a tree over those who live, the lowest as its root.  A message
 * says whom its sender holds for dead, the ballot; it counts only where the same
 * is held.  Whoever learns of a death begins again with the new tree, and brings
 * what it has accepted before.  docs/internals/consensus.md says why that is right.
 *
 * A decision is kept until everybody has it: until all have begun the instance
 * after the next, or, after nx_consensus_close, have said that they are done.  No
 * memory is taken after nx_consensus_create.
 */
#ifndef NX_CONSENSUS_H
#define NX_CONSENSUS_H

#include "consensus_msg.h"

typedef enum nx_quorum {
    NX_QUORUM_NONE,    /* survivors go on, however few */
    NX_QUORUM_MAJORITY /* more than half of the communicator, or half with rank 0 */
} nx_quorum;

enum { NX_CONSENSUS_FANOUT = 8, NX_CONSENSUS_FANOUT_MAX = 64 };

typedef struct nx_consensus_config {
    uint64_t comm; /* below 2^62; never used again for other ranks */
    uint32_t size, self;
    nx_quorum quorum;
    bool early;           /* decide at PROPOSE: half the way; not with a majority */
    uint32_t fanout;      /* children of a rank, 2 .. NX_CONSENSUS_FANOUT_MAX; 0: the default */
    uint32_t payload_max; /* up to NX_CONSENSUS_PAYLOAD_MAX; 0: no payloads */
} nx_consensus_config;

/* Called from inside the events; none of them may call back.  What they are given
 * is borrowed until they return. */
typedef struct nx_consensus_ops {
    /* Sends a frame to |to|, a rank of the communicator; if it cannot, that rank
     * is dead sooner or later. */
    void (*send)(void *ctx, uint32_t to, const void *frame, size_t len);
    /* Instance |seq|, which this rank has started, is decided. */
    void (*decided)(void *ctx, uint64_t seq, const nx_consensus_value *value);
    /* Others hold |rank| for dead, and so do we now; before any `ended` by it. */
    void (*learned)(void *ctx, uint32_t rank);
    /* It is over for this rank: held for dead by others, or on the smaller side of
     * a partition.  The last call; nothing is sent any more.  The machine stays as
     * long as frames may come, and drops them: nx_consensus_unexpected would say of what it
     * does not have that everybody is done with it. */
    void (*ended)(void *ctx, nexar_err err, const char *why);
    /* After nx_consensus_close: nobody will ask any more; the machine may be
     * destroyed.  Once.  Of those who were let go one may ask that has not heard of the decision:
     * as long as frames of one may come, the machine is kept, and answers. */
    void (*forgotten)(void *ctx);
} nx_consensus_ops;

/* What a rank brings.  The payload is copied. */
typedef struct nx_consensus_input {
    uint64_t flags, highest;
    bool leave;
    const void *payload; /* NULL: none */
    uint32_t payload_len;
} nx_consensus_input;

typedef struct nx_consensus nx_consensus;

/* |ops| and |ctx| are borrowed while it lives.  NEXAR_EINVAL, NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_consensus_create(nx_consensus **out, const nx_consensus_config *config,
                                            const nx_consensus_ops *ops, void *ctx);
void nx_consensus_destroy(nx_consensus *a);

/* Begins the next instance; `decided` or `ended` follows, perhaps from inside.
 * NEXAR_EINVAL: the payload is too long; one is running; closed; leavers were let go.  NEXAR_EPEER:
 * it is over for this rank. */
NX_MUST_CHECK nexar_err nx_consensus_start(nx_consensus *a, const nx_consensus_input *input);

/* A frame from |from|, a rank of the communicator; nx_consensus_msg_comm says of which.
 * NEXAR_EPROTO: malformed or impossible; nothing has changed. */
NX_MUST_CHECK nexar_err nx_consensus_frame(nx_consensus *a, uint32_t from, const void *frame,
                                           size_t len);

/* |rank| is dead, or is held for it by others; it may be this one. */
void nx_consensus_failed(nx_consensus *a, uint32_t rank);
/* The same of one that has left in order: it has gone, or was let go.  Agreements go on without it
 * as without a dead one, but whoever learns of it from this rank learns that too.  Not of one that
 * is in an instance, unless it asked to leave in it and that is decided. */
void nx_consensus_left(nx_consensus *a, uint32_t rank);
/* Whether |rank|, which is held for dead, has left: somebody has said so, and nobody that it has
 * failed.  Whoever knows how one has gone says so with what it brings; so at the end all know. */
bool nx_consensus_has_left(const nx_consensus *a, uint32_t rank);

/* The leavers of the last decision go: this rank, which stays, starts no further instance, and
 * nx_consensus_close does not wait for them.  All who stay do so, after the same instance. */
void nx_consensus_let_go(nx_consensus *a);
/* This rank has waited long: those for whom it waits are reminded.  One that has gone is found out
 * by it, and one that holds this rank for gone says so. */
void nx_consensus_remind(nx_consensus *a);
/* This rank starts no further instance (none is running); `forgotten` follows,
 * perhaps from inside. */
void nx_consensus_close(nx_consensus *a);

/*
 * A frame for a communicator that this rank does not have.  UP (and NEWS) may come
 * before the communicator is made here: true, keep it until then.  Otherwise the
 * communicator is gone here: false, and |*len| bytes of |reply| (NX_CONSENSUS_UNEXPECTED_MAX)
 * go back to the sender; 0: none.
 */
enum { NX_CONSENSUS_UNEXPECTED_MAX = NX_CONSENSUS_HEAD_MAX + 2 * 2 };
bool nx_consensus_unexpected(const void *frame, size_t len, uint8_t *reply, size_t *reply_len);

/* What this rank has accepted last, or what was decided last if none runs; NULL: nothing.
 * What others have decided is that, before this rank hears of it: nothing is decided
 * before all who are not left out have accepted it. */
const nx_consensus_value *nx_consensus_accepted(const nx_consensus *a);
/* The number of the instance that runs, or would be the next. */
uint64_t nx_consensus_seq(const nx_consensus *a);
/* Whom this rank holds for dead: ranks of the communicator. */
const nx_rankset *nx_consensus_dead(const nx_consensus *a);
/* For whom this rank waits, for a report of stalls: the children whose answer is
 * missing, or the parent; up to |room|.  Returns how many; 0 when none runs. */
uint32_t nx_consensus_waits_for(const nx_consensus *a, uint32_t ranks[], uint32_t room);

#endif /* NX_CONSENSUS_H */
