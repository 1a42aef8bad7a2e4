/*
 * consensus_rig_inner.h - shared by the files of the rig.
 *
 *   consensus_rig.c         a run, from the first event to the last
 *   consensus_rig_plan.c    the plan of a seed
 *   consensus_rig_events.c  the event queue
 *   consensus_rig_rank.c    a rank and its machine
 *   consensus_rig_faults.c  injected faults
 *   consensus_rig_check.c   the properties at the end
 */
#ifndef NXT_CONSENSUS_RIG_INNER_H
#define NXT_CONSENSUS_RIG_INNER_H

#include "base/containers/heap.h"
#include "consensus_rig.h"
#include "rand.h"

enum {
    MOST = NXT_CONSENSUS_RANKS,
    INSTANCES = NXT_CONSENSUS_INSTANCES,
    COMM = 77,
    PAYLOAD = 16,
    FRAME_ROOM = 256,
    EVENTS_MAX = 200000, /* far more than any run that ends */
    LONG = 5000,         /* usually nothing is in flight after it */
    NEVER = 0x7fffffff,
    HELD_MAX = 1024,
};

typedef enum event_kind {
    EV_FRAME,
    EV_FLOOD,  /* |from| notifies |to| that |rank| has failed */
    EV_DETECT, /* |to| detects that |rank| has failed */
    EV_START,
    EV_CLOSE,
    EV_CRASH,
    EV_PAUSE,
    EV_SUSPECT, /* |to| declares |rank| failed, which may be alive */
    EV_PARTITION,
    EV_DEPART, /* |to| leaves in order */
    EV_GONE,   /* |to| learns that |rank| has left */
    EV_REMIND  /* |to| has waited long */
} event_kind;

typedef struct event {
    nx_heap_item item; /* first: key is the time */
    event_kind kind;
    uint32_t to, from, rank;
    size_t len;
    uint8_t frame[FRAME_ROOM];
} event;

/* What a rank decided, small enough to compare. */
typedef struct decision {
    bool have;
    uint64_t flags, highest;
    uint32_t failed, leavers, author, payload_len;
    uint8_t payload[PAYLOAD];
} decision;

typedef struct rig rig;

typedef struct rank_state {
    rig *rig;
    uint32_t self;
    nx_consensus *machine; /* NULL before its first instance and after forgetting */
    bool alive, closed, ended, forgotten, was_made;
    bool over;           /* has decided its last instance */
    bool side;           /* side of the partition */
    uint32_t sends_left; /* before it crashes; NEVER */
    uint64_t resumes;    /* the time when it resumes */
    uint32_t known;      /* failed ranks, as bits */
    uint32_t gone;       /* ranks that have left, as bits */
    uint32_t starts;     /* number of instances begun */
    nx_consensus_input inputs[INSTANCES];
    uint8_t payloads[INSTANCES][PAYLOAD];
    uint32_t known_at_start[INSTANCES];
    decision decisions[INSTANCES];
    event *held[HELD_MAX]; /* frames that arrived before the machine existed */
    uint32_t nheld;
} rank_state;

typedef struct old_value {
    bool have;
    uint64_t seq;
    nx_consensus_value value;
} old_value;

struct rig {
    nxt_consensus_plan plan;
    nxt_rand rand, fault_rand;
    bool trace, cut;
    uint64_t now;
    nx_heap events;
    uint32_t accused;      /* ranks that any rank has declared failed, as bits */
    uint32_t leaving;      /* ranks whose leave was decided */
    uint32_t leavers_gone; /* ranks that have left in order */
    uint32_t quit;         /* of these, ranks that left unasked */
    rank_state ranks[MOST];
    uint64_t last[MOST][MOST]; /* when the last frame of a pair arrives */
    old_value old[MOST];       /* for one of the faults */
    nx_rankset dead, left;     /* for reading frames */
    nx_consensus_value value;
    nxt_consensus_result *result;
};

/* ---- consensus_rig.c --------------------------------------------------------------------------
 */

/* Prints a line of the trace, if tracing. */
void nxt_consensus_say(const rig *g, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Reports a violated property; the first one counts. */
void nxt_consensus_wrong(rig *g, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- consensus_rig_plan.c ---------------------------------------------------------------------
 */

/* Posts the faults of the plan. */
void nxt_consensus_plan_troubles(rig *g);

/* ---- consensus_rig_events.c -------------------------------------------------------------------
 */

/* Posts |kind| for |to|, |after| from now. The rig owns the event. */
event *nxt_consensus_post(rig *g, event_kind kind, uint64_t after, uint32_t to, uint32_t rank);
/* A delay: mostly short, sometimes ten times as long. */
uint64_t nxt_consensus_some_delay(rig *g);
/* Whether the partition separates |a| and |b|. */
bool nxt_consensus_cut_between(const rig *g, uint32_t a, uint32_t b);
/* |who| dies, or leaves in order; the others detect it. */
void nxt_consensus_crash(rig *g, uint32_t who);
void nxt_consensus_depart(rig *g, uint32_t who);
void nxt_consensus_partition(rig *g);
/* Whether |from| is still alive to send one more frame. */
bool nxt_consensus_may_send(rig *g, uint32_t from);
/* Sends |kind| from |from| to |to|. */
event *nxt_consensus_send_event(rig *g, event_kind kind, uint32_t from, uint32_t to, uint32_t rank);
/* |who| declares |rank| failed and notifies all ranks; |tell_machine|: also its own machine. */
void nxt_consensus_note_dead(rig *g, uint32_t who, uint32_t rank, bool tell_machine);
/* |who| has learned that |rank| has left. */
void nxt_consensus_note_gone(rig *g, uint32_t who, uint32_t rank);
/* Some ranks learn outside of consensus that a leaver has left. */
void nxt_consensus_spread_indirectly(rig *g, uint32_t by, uint32_t leavers);

/* ---- consensus_rig_rank.c ---------------------------------------------------------------------
 */

/* Delivers the frame of |e|. */
void nxt_consensus_rank_deliver(rig *g, event *e);
/* Begins the next instance of |r|. */
void nxt_consensus_rank_start(rig *g, rank_state *r);
/* |r| begins no further instance; the ranks whose leave it has decided may go. */
void nxt_consensus_rank_close(rank_state *r);
/* Destroys the machine once it may be forgotten and no rank may query it. */
void nxt_consensus_rank_bury(rank_state *r);

/* ---- consensus_rig_faults.c -------------------------------------------------------------------
 */

/* Applies the fault to the frame of |e|. True: a frame remains to be delivered. */
bool nxt_consensus_spoil(rig *g, event *e);

/* ---- consensus_rig_check.c --------------------------------------------------------------------
 */

/* Checks a finished run. */
void nxt_consensus_check(rig *g);

#endif /* NXT_CONSENSUS_RIG_INNER_H */
