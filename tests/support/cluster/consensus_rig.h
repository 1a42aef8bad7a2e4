/*
 * consensus_rig.h - a communicator in virtual time for tests of agreement: ranks that
 * crash, stop, are cut off and leave, frames that are late or overtake each other.
 *
 * A run is a function of its plan.  Ranks agree a few times one after another, then
 * close.  Who dies is found out by each other rank in a time of its own, and whoever
 * knows tells the others.  A rank that is told to end dies.  With plan.departs the first
 * instance in which somebody asks to leave is the last: the leavers go when they have decided it,
 * some at once, and those who stay let them go.  With plan.quits a rank may go instead of starting
 * its next instance.  That one has gone every other finds out that has an instance running, or
 * starts one.
 *
 * What must hold at the end:
 *  - nobody decided differently from another in the same instance (plan.uniform:
 *    whatever became of them; otherwise: among those who are left);
 *  - flags, highest, leavers and payload are exactly those of the ranks that are not
 *    in |failed|, brought to this instance and no other;
 *  - |failed| holds only ranks that somebody held for dead, and all whom everybody
 *    held for dead before it began;
 *  - all who are left have decided everything and have been told to forget;
 *  - nobody is told that others hold it for dead, of whom nobody did: also not one that leaves;
 *    without failures nobody ends while most are there;
 *  - whoever hears of one that has gone, and has not failed, hears that it has left.
 */
#ifndef NXT_CONSENSUS_RIG_H
#define NXT_CONSENSUS_RIG_H

#include "cluster/consensus/consensus.h"

enum { NXT_CONSENSUS_RANKS = 17, NXT_CONSENSUS_INSTANCES = 4, NXT_CONSENSUS_TEXT = 256 };

/* What is broken on purpose, on the way of the frames. */
typedef enum nxt_consensus_fault {
    NXT_FAULT_NONE,
    NXT_FAULT_LOSE_UP, /* one in eight of its kind does not arrive */
    NXT_FAULT_LOSE_PROPOSE,
    NXT_FAULT_LOSE_ACK,
    NXT_FAULT_LOSE_DECIDE,
    NXT_FAULT_LOSE_DONE,
    NXT_FAULT_LOSE_FORGET,
    NXT_FAULT_FORGET_ACCEPTED, /* an UP does not say what was accepted before */
    NXT_FAULT_FALSE_ACK,       /* an ACK of one who never saw the proposal */
    NXT_FAULT_ANY_BALLOT,      /* a frame counts whatever its ballot */
    NXT_FAULT_OLD_UP,          /* an UP of one instance comes again in the next */
    NXT_FAULT_OTHER_FLAGS,     /* one child is told another value */
    NXT_FAULT_EARLY,           /* decides at PROPOSE although it must not */
    NXT_FAULT_NO_QUORUM,       /* goes on in a minority */
    NXT_FAULT_LET_GO_AS_DEAD,  /* leavers are held for dead when their leave is decided */
    NXT_FAULT_UNSAID_LEAVE,    /* a frame does not say who has left */
    NXT_FAULT_AWAIT_LEAVERS,   /* the end waits for those who were let go */
    NXT_FAULT_DEAF_TO_LEAVERS, /* those who stay do not answer one that has not heard */
    NXT_FAULTS
} nxt_consensus_fault;

typedef struct nxt_consensus_plan {
    uint64_t seed;
    uint32_t size, fanout, instances;
    nx_quorum quorum;
    bool early;
    bool uniform;       /* what is checked; see above */
    bool ordered;       /* frames between two ranks do not overtake each other */
    bool twice;         /* some frames come twice */
    uint32_t delay;     /* of a frame, at most, mostly */
    uint32_t detection; /* how long a death may go unnoticed */
    uint32_t crashes, pauses, suspicions;
    bool partition;
    bool departs;  /* whoever asks to leave does */
    bool indirect; /* some hear that a leaver has gone before it has, or has heard */
    bool quits;    /* some go on their own */
    nxt_consensus_fault fault;
} nxt_consensus_plan;

/* The plan of |seed|: every kind of trouble turns up. */
nxt_consensus_plan nxt_consensus_plan_of(uint64_t seed);

typedef struct nxt_consensus_result {
    bool good;
    char text[NXT_CONSENSUS_TEXT]; /* what did not hold */
    uint32_t frames;               /* of agreement */
    uint32_t decided, ended, crashed, leavers_gone;
} nxt_consensus_result;

/* Runs |plan|; with |trace| it prints every event. */
void nxt_consensus_run(const nxt_consensus_plan *plan, bool trace, nxt_consensus_result *result);

/* One line. */
void nxt_consensus_plan_print(const nxt_consensus_plan *plan);

#endif /* NXT_CONSENSUS_RIG_H */
