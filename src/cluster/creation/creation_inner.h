/*
 * creation_inner.h - shared by the files of creations.
 *
 *   creation.c          calls and their outcome
 *   creation_events.c   frames
 *   creation_refusal.c  creations that have failed, for members that call later
 *   creation_frame.c    encoding
 */
#ifndef NX_CREATION_INNER_H
#define NX_CREATION_INNER_H

#include "cluster/creation/creation.h"

/* A creation that has failed here, and that not all members know of. */
typedef struct nx_creation_refusal {
    nx_list link;
    nx_creation_key key;
    nexar_err err;
    char why[NX_CREATION_WHY];
    bool own;        /* the next call of this rank fails as well */
    nx_rankset told; /* slots; one beyond it is sent again */
    uint32_t n;      /* members to notify; 0: their number is unknown */
} nx_creation_refusal;

struct nx_creations {
    uint32_t self;
    nx_early *early;
    const nx_creation_ops *ops;
    void *ctx;
    nx_list running;  /* nx_creation.link */
    nx_list refusals; /* oldest first */
    uint32_t nrefusals;
};

static inline bool nx_creation_key_equal(const nx_creation_key *a, const nx_creation_key *b)
{
    return (a->parent == b->parent) && (a->tag == b->tag) && (a->print == b->print);
}

/* ---- creation.c ---------------------------------------------------------------------- */

/* The creation with the parent and tag of |key| that is not over; NULL: none. */
nx_creation *nx_creation_find(const nx_creations *cs, const nx_creation_key *key);
/* |from| has joined |c|, which this rank leads. */
void nx_creation_joined(nx_creations *cs, nx_creation *c, uint32_t from, uint32_t offered);
/* |c| fails here and, if this rank leads it, for all members. */
void nx_creation_over(nx_creations *cs, nx_creation *c, nexar_err err, const char *why);
/* The leader of |c| is gone, before or just after it made the communicator: |c| fails, and the
 * other members are notified. */
void nx_creation_orphaned(nx_creations *cs, nx_creation *c, const char *why);
void nx_creation_send(const nx_creations *cs, uint32_t to, const nx_creation_frame *f);
/* Notifies |to| that the creation |key| has failed. */
void nx_creation_tell(const nx_creations *cs, uint32_t to, const nx_creation_key *key,
                      nexar_err err, const char *why);

/* ---- creation_events.c --------------------------------------------------------------- */

/* Replays the early frames of the parent and tag of |key|. */
void nx_creation_replay(nx_creations *cs, const nx_creation_key *key, uint64_t now_ns);

/* ---- creation_refusal.c -------------------------------------------------------------- */

/* Records that |key|, with |n| ranks (0: unknown), has failed: |told| (may be NULL) know it, |own|:
 * this rank does not.  NEXAR_ENOMEM */
NX_MUST_CHECK nexar_err nx_creation_refuse(nx_creations *cs, const nx_creation_key *key,
                                           nexar_err err, const char *why, const nx_rankset *told,
                                           uint32_t n, bool own);
/* A call of |slot| with the parent and tag of |key| has failed, whatever its list: refusals do not
 * apply to its next call. */
void nx_creation_answered(nx_creations *cs, const nx_creation_key *key, uint32_t slot);
/* Notifies |from| that |key| has failed, if there is a refusal that |from| was not notified of. */
bool nx_creation_refused(nx_creations *cs, const nx_creation_key *key, uint32_t from);
/* The same, if it has failed because lists differ. */
bool nx_creation_refused_list(nx_creations *cs, const nx_creation_key *key, uint32_t from);
/* A call of this rank: returns whether it fails, with |err| and |why|.  Ends refusals of the same
 * parent and tag that are due to differing lists. */
bool nx_creation_refused_here(nx_creations *cs, const nx_creation_key *key, nexar_err *err,
                              char why[NX_CREATION_WHY]);
void nx_creation_refusals_free(nx_creations *cs);

#endif /* NX_CREATION_INNER_H */
