/*
 * consensus_rig.h - a communicator in virtual time for tests of consensus: ranks crash, stop, are
 * partitioned and leave; frames are late or overtake each other.
 *
 * A run is a function of its plan. Ranks run a few instances one after another, then close. Each
 * rank detects a failure after its own delay and notifies the others. A rank that is requested to
 * end dies. With plan.departs the first instance in which a rank asks to leave is the last one.
 * The leavers leave when they have decided it, some at once, and the remaining ranks let them go.
 * With plan.quits a rank may leave instead of starting its next instance. Every rank that runs or
 * starts an instance then learns that it has left.
 *
 * What must hold at the end:
 *  - no two ranks decided differently in the same instance (plan.uniform: among all ranks;
 *    otherwise: among the surviving ranks);
 *  - flags, highest, leavers and payload are exactly the inputs to this instance of the ranks
 *    that are not in |failed|;
 *  - |failed| contains only ranks that some rank has declared failed, and every rank that all
 *    ranks had declared failed before the instance began;
 *  - all surviving ranks have decided every instance and have been notified to forget it;
 *  - no rank, not even a leaver, is notified that it was declared failed unless some rank has
 *    declared that; without failures no rank ends while a majority is present;
 *  - a rank that learns of the departure of a rank that has not failed learns that it has left.
 */
#ifndef NXT_CONSENSUS_RIG_H
#define NXT_CONSENSUS_RIG_H

#include "cluster/consensus/consensus.h"

enum { NXT_CONSENSUS_RANKS = 17, NXT_CONSENSUS_INSTANCES = 4, NXT_CONSENSUS_TEXT = 256 };

/* Injected faults, applied to frames in flight. */
typedef enum nxt_consensus_fault {
    NXT_FAULT_NONE,
    NXT_FAULT_LOSE_UP, /* loses one frame in eight of its kind */
    NXT_FAULT_LOSE_PROPOSE,
    NXT_FAULT_LOSE_ACK,
    NXT_FAULT_LOSE_DECIDE,
    NXT_FAULT_LOSE_DONE,
    NXT_FAULT_LOSE_FORGET,
    NXT_FAULT_FORGET_ACCEPTED, /* an UP omits what was accepted before */
    NXT_FAULT_FALSE_ACK,       /* an ACK of a rank that never received the proposal */
    NXT_FAULT_ANY_BALLOT,      /* frames of any ballot count */
    NXT_FAULT_OLD_UP,          /* an UP of one instance is repeated in the next */
    NXT_FAULT_OTHER_FLAGS,     /* one child receives another value */
    NXT_FAULT_EARLY,           /* decides at PROPOSE although it must not */
    NXT_FAULT_NO_QUORUM,       /* continues in a minority */
    NXT_FAULT_LET_GO_AS_DEAD,  /* leavers are declared failed when their leave is decided */
    NXT_FAULT_UNSAID_LEAVE,    /* a frame omits the ranks that have left */
    NXT_FAULT_AWAIT_LEAVERS,   /* the end waits for released leavers */
    NXT_FAULT_DEAF_TO_LEAVERS, /* remaining ranks do not answer a leaver without the decision */
    NXT_FAULTS
} nxt_consensus_fault;

typedef struct nxt_consensus_plan {
    uint64_t seed;
    uint32_t size, fanout, instances;
    nx_quorum quorum;
    bool early;
    bool uniform;       /* what is checked, see above */
    bool ordered;       /* frames between two ranks do not overtake each other */
    bool twice;         /* some frames arrive twice */
    uint32_t delay;     /* usual maximum for a frame */
    uint32_t detection; /* maximum time until a failure is detected */
    uint32_t crashes, pauses, suspicions;
    bool partition;
    bool departs;  /* a rank that asks to leave does leave */
    bool indirect; /* some learn of a departure before it, or before the leaver knows */
    bool quits;    /* some ranks leave unasked */
    nxt_consensus_fault fault;
} nxt_consensus_plan;

/* The plan of |seed|: over all seeds every kind of fault occurs. */
nxt_consensus_plan nxt_consensus_plan_of(uint64_t seed);

typedef struct nxt_consensus_result {
    bool good;
    char text[NXT_CONSENSUS_TEXT]; /* the violated property */
    uint32_t frames;               /* frames of consensus */
    uint32_t decided, ended, crashed, leavers_gone;
} nxt_consensus_result;

/* Runs |plan|; with |trace| it prints every event. */
void nxt_consensus_run(const nxt_consensus_plan *plan, bool trace, nxt_consensus_result *result);

/* Prints |plan| in one line. */
void nxt_consensus_plan_print(const nxt_consensus_plan *plan);

#endif /* NXT_CONSENSUS_RIG_H */
