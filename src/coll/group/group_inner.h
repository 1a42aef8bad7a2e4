/*
 * inner.h - what the files of coll/group/group.h share, and who does what.
 *
 *   registry.c         the hub and its groups: life, who is in them, whose frame is whose
 *   operations.c  numbers of operations; how they begin, end and are forgotten
 *   early.c       what is heard of operations before they begin here
 *   fingerprints.c       fingerprints, and what happens when they differ
 *   call_announce.c      CALLED: those that are waited for hear what was called
 *   failures.c    ABORT: operations that fail; and what ends with a rank or with all
 *   departure.c     PARTED, WAITS: ranks that begin nothing more, and who asks them
 *
 * Frames for a group that is not open yet do not reach the handlers below (registry.c): where one
 * finds no group, it is closed.
 */
#ifndef NX_GROUP_INNER_H
#define NX_GROUP_INNER_H

#include "coll/run/run.h"
#include "group.h"
#include "wire/wire.h"

/* Communicators that this rank has freed, of which it tells those who wait for it there. */
enum { NX_GROUP_FREED = 1024 };
/* Of nx_group_place. */
enum { NX_CPU_BITS = NX_NUMBER_BITS + NX_PART_BITS };

/* What a rank has said that has parted. */
typedef struct nx_group_word {
    uint32_t comm, peer, next;
    nx_departure how; /* NX_DEPARTURE_NONE: nothing */
} nx_group_word;

struct nx_registry {
    nx_registry_config config;
    nx_map groups; /* by id + 1 */
    nx_map early;  /* by early_key: early.c */
    nx_task task;  /* ends runs of which a fingerprint differs, when msg is at rest */
    nx_timer tick; /* while there are runs */
    bool ticking;
    nx_group_word freed[NX_GROUP_FREED]; /* the last that this rank has freed */
    size_t nfreed;
    bool stopped; /* msg is gone, or about to go */
};

/* What |active| and |reserved| have it by. */
static inline uint64_t nx_group_place_key(uint32_t place)
{
    return place + UINT64_C(1);
}

/* The group of |comm|; NULL: it is not here. */
static inline nx_group *nx_group_find(const nx_registry *hub, uint32_t comm)
{
    return nx_map_get(&hub->groups, (uint64_t)comm + 1);
}

/* What runs at |place|; NULL: nothing does. */
static inline nx_run *nx_group_find_run(const nx_group *g, uint32_t place)
{
    return nx_map_get(&g->active, nx_group_place_key(place));
}

/* Whether |number| is |from| or comes after it. */
static inline bool nx_group_is_from(uint32_t number, uint32_t from)
{
    return ((number - from) & NX_NUMBER_MASK) <= NX_NUMBER_MASK / 2;
}

/* ---- registry.c --------------------------------------------------------------------------------
 */

/* The rank of |peer| in |g|; the size if it is not in it. */
uint32_t nx_group_rank_of(const nx_group *g, uint32_t peer);
/* Whether |comm| is still to be opened here, as far as is known. */
bool nx_group_is_early(const nx_registry *hub, uint32_t comm);
/* Keeps what has come for a group that is early; the link to the sender ends if it cannot be
 * kept. */
void nx_group_keep_early(nx_registry *hub, const nx_early_key *key, const void *data, size_t len);
/* What |peer| has said could not be taken in, as |why| says: the link to it ends. */
void nx_group_fail_waiting(nx_registry *hub, uint32_t peer, const char *why);
/* Sends |rank| the frame that |w| has. */
void nx_group_tell_one(const nx_group *g, uint32_t rank, const nx_writer *w);

/* ---- operations.c ------------------------------------------------------------------------- */

/* Whether |place|, which does not run, is still to begin. */
bool nx_group_to_come(const nx_group *g, uint32_t place);

/* ---- early.c ------------------------------------------------------------------------------ */

/* A message of |place| has come from |peer|, with |mark|. */
void nx_group_note_mark(nx_registry *hub, uint32_t comm, uint32_t place, uint32_t peer,
                        const nx_mark *mark);
/* It was ended by another rank already; the first that says so counts. */
void nx_group_note_abort(nx_registry *hub, uint32_t comm, uint32_t place, nexar_err err,
                         const char *why);
/* What was heard of |run| before its time: it may fail by it. */
void nx_group_use_early(nx_group *g, nx_run *run);
/* What was heard of one part of operation |number| is forgotten. */
void nx_group_forget_early(nx_group *g, uint32_t number, uint32_t part);
/* Drops what was noted for |comm|; NULL: for all. */
void nx_group_drop_early(nx_registry *hub, const uint32_t *comm);

/* ---- fingerprints.c
 * ------------------------------------------------------------------------------ */

/* |run| fails: |peer| has called something else. */
void nx_group_mismatch(nx_group *g, nx_run *run, uint32_t peer, const nx_mark *its);
/* nx_registry.task */
void nx_group_on_trouble(nx_task *task);

/* ---- call_announce.c
 * ----------------------------------------------------------------------------- */

/* There is a run: the timer is set, if it was not. */
void nx_group_tick(nx_registry *hub);
/* nx_registry.tick */
void nx_group_on_tick(nx_timer *timer, uint64_t now_ns);
/* The rest of a frame CALLED. */
void nx_group_on_called(nx_registry *hub, uint32_t peer, nx_reader *r);

/* ---- failures.c --------------------------------------------------------------------------- */

/* The rest of a frame ABORT. */
void nx_group_on_abort(nx_registry *hub, uint32_t peer, nx_reader *r);

/* ---- departure.c ---------------------------------------------------------------------------- */

/* |peer| waits for this rank at |place|: if this rank will not begin that, it says so. */
void nx_group_answer_called(nx_registry *hub, uint32_t peer, uint32_t comm, uint32_t place);
/* The rest of a frame WAITS; or PARTED. */
void nx_group_on_waits(nx_registry *hub, uint32_t peer, nx_reader *r);
void nx_group_on_departed(nx_registry *hub, uint32_t peer, nx_reader *r);
/* Frees what is known of ranks that have. */
void nx_group_drop_gone(nx_group *g);

#endif /* NX_GROUP_INNER_H */
