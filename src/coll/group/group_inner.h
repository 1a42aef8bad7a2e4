/*
 * group_inner.h - shared by the files that implement coll/group/group.h.
 *
 *   registry.c       the registry and its groups: life, members, dispatch of frames
 *   operations.c     operation numbers; how operations begin, end and are forgotten
 *   early.c          frames for operations that have not begun here
 *   fingerprints.c   fingerprints, and mismatches
 *   call_announce.c  CALLED: announces a fingerprint to the ranks that are waited for
 *   failures.c       ABORT: failed operations; failure of a rank, end of the world
 *   departure.c      DETACHED, WAITS: detached ranks, and inquiries about them
 *
 * Frames for a group that is not open yet do not reach the handlers below (registry.c). A handler
 * that finds no group concludes that it is closed.
 */
#ifndef NX_GROUP_INNER_H
#define NX_GROUP_INNER_H

#include "coll/run/run.h"
#include "group.h"
#include "wire/wire.h"

/* The number of freed communicators that a rank remembers, to answer ranks that still wait for it
 * there. */
enum { NX_GROUP_FREED = 1024 };
/* Of nx_group_part_id. */
enum { NX_PART_ID_BITS = NX_NUMBER_BITS + NX_PART_BITS };

/* The content of a DETACHED frame. */
typedef struct nx_group_word {
    uint32_t comm, peer, next;
    nx_departure how; /* NX_DEPARTURE_NONE: nothing */
} nx_group_word;

struct nx_registry {
    nx_registry_config config;
    nx_map groups; /* by id + 1 */
    nx_map early;  /* early frames, by early_key (early.c) */
    nx_task task;  /* fails runs with a mismatch, outside of msg's callbacks */
    nx_timer tick; /* armed while operations run */
    bool ticking;
    nx_group_word freed[NX_GROUP_FREED]; /* communicators freed last by this rank */
    size_t nfreed;
    bool stopped; /* msg is destroyed or about to be */
};

/* The key in |active| and |reserved|. */
static inline uint64_t nx_group_part_key(uint32_t place)
{
    return place + UINT64_C(1);
}

/* The open group of |comm|, or NULL. */
static inline nx_group *nx_group_find(const nx_registry *hub, uint32_t comm)
{
    return nx_map_get(&hub->groups, (uint64_t)comm + 1);
}

/* The run of |part_id|, or NULL. */
static inline nx_run *nx_group_find_run(const nx_group *g, uint32_t place)
{
    return nx_map_get(&g->active, nx_group_part_key(place));
}

/* Whether |number| is at or after |from|, with wrap-around. */
static inline bool nx_group_is_from(uint32_t number, uint32_t from)
{
    return ((number - from) & NX_NUMBER_MASK) <= NX_NUMBER_MASK / 2;
}

/* ---- registry.c ---------------------------------------------------------------------- */

/* The rank of |peer| in |g|; |g->size| if it is no member. */
uint32_t nx_group_rank_of(const nx_group *g, uint32_t peer);
/* Whether |comm| may still be opened here. */
bool nx_group_is_early(const nx_registry *hub, uint32_t comm);
/* Keeps a frame for a group that is not open yet. If it cannot be kept, the link to the sender
 * fails. */
void nx_group_keep_early(nx_registry *hub, const nx_early_key *key, const void *data, size_t len);
/* A frame of |peer| could not be processed, because of |why|: the link to it fails. */
void nx_group_fail_waiting(nx_registry *hub, uint32_t peer, const char *why);
/* Sends the frame in |w| to |rank|. */
void nx_group_send_frame(const nx_group *g, uint32_t rank, const nx_writer *w);

/* ---- operations.c -------------------------------------------------------------------- */

/* Whether |part_id|, which does not run, has not begun yet. */
bool nx_group_to_come(const nx_group *g, uint32_t place);

/* ---- early.c ------------------------------------------------------------------------- */

/* A message of |part_id| has arrived from |peer|, with |mark|. */
void nx_group_note_mark(nx_registry *hub, uint32_t comm, uint32_t place, uint32_t peer,
                        const nx_mark *mark);
/* Another rank has aborted the operation; the first report counts. */
void nx_group_note_abort(nx_registry *hub, uint32_t comm, uint32_t place, nexar_err err,
                         const char *why);
/* Applies to |run| the frames that arrived before it began; |run| may fail. */
void nx_group_use_early(nx_group *g, nx_run *run);
/* Forgets early frames of one part of operation |number|. */
void nx_group_forget_early(nx_group *g, uint32_t number, uint32_t part);
/* Forgets early frames of |comm|; NULL: of all. */
void nx_group_drop_early(nx_registry *hub, const uint32_t *comm);

/* ---- fingerprints.c ------------------------------------------------------------------ */

/* |run| fails: |peer| has called another operation. */
void nx_group_mismatch(nx_group *g, nx_run *run, uint32_t peer, const nx_mark *its);
/* Callback of nx_registry.task. */
void nx_group_on_trouble(nx_task *task);

/* ---- call_announce.c ----------------------------------------------------------------- */

/* A run exists: arms the timer if it is not armed. */
void nx_group_tick(nx_registry *hub);
/* Callback of nx_registry.tick. */
void nx_group_on_tick(nx_timer *timer, uint64_t now_ns);
/* Handles the rest of a CALLED frame. */
void nx_group_on_called(nx_registry *hub, uint32_t peer, nx_reader *r);

/* ---- failures.c ---------------------------------------------------------------------- */

/* Handles the rest of an ABORT frame. */
void nx_group_on_abort(nx_registry *hub, uint32_t peer, nx_reader *r);

/* ---- departure.c --------------------------------------------------------------------- */

/* |peer| waits for this rank at |part_id|. Answers if this rank will not begin that operation. */
void nx_group_answer_called(nx_registry *hub, uint32_t peer, uint32_t comm, uint32_t place);
/* Handle the rest of a WAITS and of a DETACHED frame. */
void nx_group_on_waits(nx_registry *hub, uint32_t peer, nx_reader *r);
void nx_group_on_detached(nx_registry *hub, uint32_t peer, nx_reader *r);
/* Frees the records of detached ranks. */
void nx_group_drop_detached(nx_group *g);

#endif /* NX_GROUP_INNER_H */
