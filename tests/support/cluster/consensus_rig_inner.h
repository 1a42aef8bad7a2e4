/*
 * consensus_rig_inner.h - what the files of the rig share, and who does what.
 *
 *   consensus_rig.c         a run, from the first event to the last
 *   consensus_rig_plan.c    what a seed stands for
 *   consensus_rig_events.c  what is to happen, and when
 *   consensus_rig_rank.c    a rank and its machine
 *   consensus_rig_faults.c  what is broken on purpose
 *   consensus_rig_check.c   what must hold at the end
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
    LONG = 5000,         /* after it nothing is on its way, mostly */
    NEVER = 0x7fffffff,
    HELD_MAX = 1024,
};

typedef enum event_kind {
    EV_FRAME,
    EV_FLOOD,  /* |from| tells |to| that |rank| is dead */
    EV_DETECT, /* |to| finds out that |rank| is dead */
    EV_START,
    EV_CLOSE,
    EV_CRASH,
    EV_PAUSE,
    EV_SUSPECT, /* |to| holds |rank| for dead, who may be alive */
    EV_PARTITION,
    EV_DEPART, /* it goes, in order */
    EV_GONE,   /* |to| finds that |rank| has left */
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
    nx_consensus *machine; /* NULL before its first instance and after it was forgotten */
    bool alive, closed, ended, forgotten, was_made;
    bool over;           /* has decided all that it will */
    bool side;           /* of the partition */
    uint32_t sends_left; /* before it crashes; NEVER */
    uint64_t resumes;    /* until when it is stopped */
    uint32_t known;      /* dead ranks, as bits */
    uint32_t gone;       /* those who have left */
    uint32_t starts;     /* how many instances it has begun */
    nx_consensus_input inputs[INSTANCES];
    uint8_t payloads[INSTANCES][PAYLOAD];
    uint32_t known_at_start[INSTANCES];
    decision decisions[INSTANCES];
    event *held[HELD_MAX]; /* frames before the machine was made */
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
    uint32_t accused;      /* ranks that anybody has held for dead, as bits */
    uint32_t leaving;      /* whose leave was decided */
    uint32_t leavers_gone; /* who have gone in order */
    uint32_t quit;         /* those of them who did on their own */
    rank_state ranks[MOST];
    uint64_t last[MOST][MOST]; /* when the last frame of a pair arrives */
    old_value old[MOST];       /* for one of the faults */
    nx_rankset dead, left;     /* for reading frames */
    nx_consensus_value value;
    nxt_consensus_result *result;
};

/* ---- consensus_rig.c --------------------------------------------------------------------------
 */

/* A line of the trace, if there is one. */
void nxt_consensus_say(const rig *g, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Something does not hold; the first counts. */
void nxt_consensus_wrong(rig *g, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- consensus_rig_plan.c ---------------------------------------------------------------------
 */

/* Posts what the plan has in store. */
void nxt_consensus_plan_troubles(rig *g);

/* ---- consensus_rig_events.c -------------------------------------------------------------------
 */

/* |kind| happens to |to|, so long after now.  The event is the rig's. */
event *nxt_consensus_post(rig *g, event_kind kind, uint64_t after, uint32_t to, uint32_t rank);
/* A delay: mostly short, sometimes ten times as long. */
uint64_t nxt_consensus_some_delay(rig *g);
/* Whether the partition is between |a| and |b|. */
bool nxt_consensus_cut_between(const rig *g, uint32_t a, uint32_t b);
/* |who| dies, or goes in order; the others find out. */
void nxt_consensus_crash(rig *g, uint32_t who);
void nxt_consensus_depart(rig *g, uint32_t who);
void nxt_consensus_partition(rig *g);
/* Whether |from| lives to send one more thing. */
bool nxt_consensus_may_send(rig *g, uint32_t from);
/* |kind| is on its way from |from| to |to|. */
event *nxt_consensus_send_event(rig *g, event_kind kind, uint32_t from, uint32_t to, uint32_t rank);
/* |who| holds |rank| for dead from now on, and tells all; |tell_machine|: its machine as well. */
void nxt_consensus_note_dead(rig *g, uint32_t who, uint32_t rank, bool tell_machine);
/* |rank| has left, as |who| has found out, or was told. */
void nxt_consensus_note_gone(rig *g, uint32_t who, uint32_t rank);
/* Somebody is told of a leaver that it has gone, by another way than the agreement. */
void nxt_consensus_spread_indirectly(rig *g, uint32_t by, uint32_t leavers);

/* ---- consensus_rig_rank.c ---------------------------------------------------------------------
 */

/* The frame of |e| arrives. */
void nxt_consensus_rank_deliver(rig *g, event *e);
/* Begins its next instance. */
void nxt_consensus_rank_start(rig *g, rank_state *r);
/* Begins no more; those go who leave by what it has decided. */
void nxt_consensus_rank_close(rank_state *r);
/* The machine goes once it was forgotten and nobody may ask it. */
void nxt_consensus_rank_bury(rank_state *r);

/* ---- consensus_rig_faults.c -------------------------------------------------------------------
 */

/* Does its worst to the frame of |e|; whether there is still one to deliver. */
bool nxt_consensus_spoil(rig *g, event *e);

/* ---- consensus_rig_check.c --------------------------------------------------------------------
 */

/* Of a run that is over. */
void nxt_consensus_check(rig *g);

#endif /* NXT_CONSENSUS_RIG_INNER_H */
