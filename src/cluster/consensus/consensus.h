/*
 * consensus.h - fault-tolerant consensus among the live ranks of a communicator: (state, event) ->
 * actions; no sockets, no clock, no threads.
 *
 * A communicator has one machine on each rank, and runs instances one after another: number 0, 1, 2
 * ... Every rank contributes to an instance, and all decide the same value: the bitwise and of the
 * flags, the maximum of the numbers, the union of the ranks that want to leave, the payload of the
 * lowest rank that has one, and the set of excluded ranks (|failed|).
 *
 *  - Agreement, uniform: no two ranks decide differently, not even one that fails
 *    right after its decision. With |early| this holds among survivors only.
 *  - Validity: flags and the rest are those of all ranks that are not in |failed|,
 *    and only of ranks that started. A rank that all survivors knew as failed is in |failed|.
 *  - Termination: once all live ranks know the same failed ranks, all decide.
 *
 * Assumptions: nx_consensus_failed is eventually called on every live rank for every rank that any
 * rank has declared failed (failure_detector.h and reliable_broadcast.h ensure that; for a rank
 * that has left, one call of nx_consensus_left suffices). A message between two live ranks arrives,
 * in any order, perhaps twice. A rank that was declared failed is excluded permanently: its
 * messages are ignored, and it is notified.
 *
 * The live ranks form a tree with the lowest rank as root. A message carries the ranks that its
 * sender knows as failed, the ballot. It counts only at receivers with the same ballot. A rank that
 * learns of a failure restarts with the new tree, and contributes what it has accepted before.
 * docs/internals/consensus.md proves correctness.
 *
 * A decision is kept until every rank has it: until all have begun the instance after the next or,
 * after nx_consensus_close, have reported DONE. Nothing is allocated after nx_consensus_create.
 */
#ifndef NX_CONSENSUS_H
#define NX_CONSENSUS_H

#include "consensus_msg.h"

typedef enum nx_quorum {
    NX_QUORUM_NONE,    /* survivors continue, however few */
    NX_QUORUM_MAJORITY /* more than half of the communicator, or half with rank 0 */
} nx_quorum;

enum { NX_CONSENSUS_FANOUT = 8, NX_CONSENSUS_FANOUT_MAX = 64 };

typedef struct nx_consensus_config {
    uint64_t comm; /* below 2^62; never used again for other ranks */
    uint32_t size, self;
    nx_quorum quorum;
    bool early;           /* decide at PROPOSE: half the latency; not with a majority */
    uint32_t fanout;      /* children per rank, 2 .. NX_CONSENSUS_FANOUT_MAX; 0: the default */
    uint32_t payload_max; /* up to NX_CONSENSUS_PAYLOAD_MAX; 0: no payloads */
} nx_consensus_config;

/* Called from inside the events; must not call back. Arguments are borrowed during the call. */
typedef struct nx_consensus_ops {
    /* Sends a frame to |to|, a rank of the communicator. If that is impossible, the rank will be
     * declared failed. */
    void (*send)(void *ctx, uint32_t to, const void *frame, size_t len);
    /* Instance |seq|, which this rank has started, is decided. */
    void (*decided)(void *ctx, uint64_t seq, const nx_consensus_value *value);
    /* Other ranks, and now this one, know |rank| as failed; before any `ended` that follows from
     * it. */
    void (*learned)(void *ctx, uint32_t rank);
    /* The machine ends for this rank: other ranks declared it failed, or it is in the minority of a
     * partition. The last call; nothing is sent any more. Keep the machine as long as frames may
     * arrive: it drops them, while nx_consensus_unexpected would answer that all ranks are done. */
    void (*ended)(void *ctx, nexar_err err, const char *why);
    /* After nx_consensus_close: no rank will ask any more, and the machine may be destroyed. Once.
     * A released leaver that has not heard of the decision may still ask: keep the machine as long
     * as its frames may arrive, to answer it. */
    void (*forgotten)(void *ctx);
} nx_consensus_ops;

/* A rank's contribution.  The payload is copied. */
typedef struct nx_consensus_input {
    uint64_t flags, highest;
    bool leave;
    const void *payload; /* NULL: none */
    uint32_t payload_len;
} nx_consensus_input;

typedef struct nx_consensus nx_consensus;

/* |ops| and |ctx| are borrowed for its lifetime.  NEXAR_EINVAL, NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_consensus_create(nx_consensus **out, const nx_consensus_config *config,
                                            const nx_consensus_ops *ops, void *ctx);
void nx_consensus_destroy(nx_consensus *a);

/* Begins the next instance; `decided` or `ended` follows, perhaps from inside. NEXAR_EINVAL: the
 * payload is too long; an instance runs; closed; leavers were released.  NEXAR_EPEER: the machine
 * has ended for this rank. */
NX_MUST_CHECK nexar_err nx_consensus_start(nx_consensus *a, const nx_consensus_input *input);

/* A frame from |from|, a rank of the communicator that nx_consensus_msg_comm names. NEXAR_EPROTO:
 * malformed or impossible; nothing has changed. */
NX_MUST_CHECK nexar_err nx_consensus_frame(nx_consensus *a, uint32_t from, const void *frame,
                                           size_t len);

/* |rank|, possibly this one, has failed or was declared failed by others. */
void nx_consensus_failed(nx_consensus *a, uint32_t rank);
/* The same for a rank that has left in order or was released. Consensus continues without it as
 * without a failed rank, but reports it as left. Not for a rank that takes part in an instance,
 * unless it asked to leave in it and that is decided. */
void nx_consensus_left(nx_consensus *a, uint32_t rank);
/* Whether |rank|, which is excluded, has left: some rank reported that, and none reported a
 * failure. Each contribution carries this knowledge, so at the end all ranks share it. */
bool nx_consensus_has_left(const nx_consensus *a, uint32_t rank);

/* Releases the leavers of the last decision: this rank, which stays, starts no further instance,
 * and nx_consensus_close does not wait for them. All staying ranks do so, after the same
 * instance. */
void nx_consensus_let_go(nx_consensus *a);
/* This rank has waited long: repeats its messages to the ranks it waits for. That detects a rank
 * that has failed; a rank that has declared this one failed answers so. */
void nx_consensus_remind(nx_consensus *a);
/* This rank starts no further instance (none runs); `forgotten` follows, perhaps from inside. */
void nx_consensus_close(nx_consensus *a);

/*
 * A frame for a communicator that this rank does not have. UP (and NEWS) may arrive before the
 * communicator is made here: returns true, keep the frame. Otherwise the communicator is closed
 * here: returns false, and |*len| bytes of |reply| (NX_CONSENSUS_UNEXPECTED_MAX) must be sent to
 * the sender; 0: none.
 */
enum { NX_CONSENSUS_UNEXPECTED_MAX = NX_CONSENSUS_HEAD_MAX + 2 * 2 };
bool nx_consensus_unexpected(const void *frame, size_t len, uint8_t *reply, size_t *reply_len);

/* What this rank has accepted last, or the last decision if no instance runs; NULL: nothing. If
 * others have decided, this is their decision: nothing is decided before all ranks that are not
 * excluded have accepted it. */
const nx_consensus_value *nx_consensus_accepted(const nx_consensus *a);
/* The number of the instance that runs, or would be the next. */
uint64_t nx_consensus_seq(const nx_consensus *a);
/* The ranks of the communicator that this rank knows as failed. */
const nx_rankset *nx_consensus_dead(const nx_consensus *a);
/* For stall reports: the ranks that this rank waits for, its children without an answer or its
 * parent; up to |room|. Returns their number; 0 if no instance runs. */
uint32_t nx_consensus_waits_for(const nx_consensus *a, uint32_t ranks[], uint32_t room);

#endif /* NX_CONSENSUS_H */
