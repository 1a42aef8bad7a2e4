/*
 * creation_inner.h - what the files of creations share.
 *
 *   creation.c          calls and their outcome
 *   creation_events.c   frames
 *   creation_refusal.c  creations that have failed, for members that call later
 *   creation_frame.c    encoding
 */
#ifndef NX_CREATION_INNER_H
#define NX_CREATION_INNER_H

#include "cluster/creation/creation.h"

/* A creation that has failed here, of which not all members know. */
typedef struct nx_creation_refusal {
    nx_list link;
    nx_creation_key key;
    nexar_err err;
    char why[NX_CREATION_WHY];
    bool own;        /* the next call of this rank fails as well */
    nx_rankset told; /* slots; one beyond it is sent again */
    uint32_t n;      /* so many are to be told; 0: that is not known */
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

/* That with the parent and tag of |key| which is not over; NULL: none. */
nx_creation *nx_creation_find(const nx_creations *cs, const nx_creation_key *key);
/* |from| has joined |c|, which this rank leads. */
void nx_creation_joined(nx_creations *cs, nx_creation *c, uint32_t from, uint32_t offered);
/* |c| fails here, and, if this rank leads it, for all. */
void nx_creation_over(nx_creations *cs, nx_creation *c, nexar_err err, const char *why);
/* The leader of |c| is gone, before or just after it was made: |c| fails, and the others hear that.
 */
void nx_creation_orphaned(nx_creations *cs, nx_creation *c, const char *why);
void nx_creation_send(const nx_creations *cs, uint32_t to, const nx_creation_frame *f);
/* Tells |to| that the creation |key| has failed. */
void nx_creation_tell(const nx_creations *cs, uint32_t to, const nx_creation_key *key,
                      nexar_err err, const char *why);

/* ---- creation_events.c --------------------------------------------------------------- */

/* The early frames of the parent and tag of |key| come again. */
void nx_creation_replay(nx_creations *cs, const nx_creation_key *key, uint64_t now_ns);

/* ---- creation_refusal.c -------------------------------------------------------------- */

/* Remembers that |key|, with |n| ranks (0: not known), has failed: |told| (may be NULL) know it,
 * |own|: this rank does not.  NEXAR_ENOMEM */
NX_MUST_CHECK nexar_err nx_creation_refuse(nx_creations *cs, const nx_creation_key *key,
                                           nexar_err err, const char *why, const nx_rankset *told,
                                           uint32_t n, bool own);
/* A call of |slot| with the parent and tag of |key|, whatever its list, has failed: refusals are
 * not for its next one. */
void nx_creation_answered(nx_creations *cs, const nx_creation_key *key, uint32_t slot);
/* Tells |from| that |key| has failed, if that was refused and |from| was not told. */
bool nx_creation_refused(nx_creations *cs, const nx_creation_key *key, uint32_t from);
/* The same, if it has failed because lists differ. */
bool nx_creation_refused_list(nx_creations *cs, const nx_creation_key *key, uint32_t from);
/* This rank calls: whether its call fails, as |err| and |why| say.  Refusals of the same
 * parent and tag because of lists that differ end. */
bool nx_creation_refused_here(nx_creations *cs, const nx_creation_key *key, nexar_err *err,
                              char why[NX_CREATION_WHY]);
void nx_creation_refusals_free(nx_creations *cs);

#endif /* NX_CREATION_INNER_H */
