/*
 * state_vote.h - which contents win, and which ranks send them to which: a pure function of what
 * all ranks have announced, so that all ranks get the same result.
 */
#ifndef NX_STATE_VOTE_H
#define NX_STATE_VOTE_H

#include "base/memory/content_hash.h"
#include "coll/distribution/distribution.h"

/* What the ranks have announced. */
typedef struct nx_state_ballot {
    uint32_t ranks;
    size_t tensors;
    const uint64_t *revisions; /* by rank */
    const nx_digest *digests;  /* by rank, then by tensor */
    const size_t *bytes;       /* by tensor */
    size_t segment;            /* bytes; the setting */
} nx_state_ballot;

typedef struct nx_state_plan {
    uint64_t revision;            /* the highest */
    size_t differed;              /* tensors that differ on some rank, ... */
    size_t *which;                /* ... ascending */
    uint32_t updated;             /* ranks that receive anything */
    nx_distribution distribution; /* of these tensors, one behind the other, in bytes */
    nx_distribution_piece *pieces;
    uint32_t *receivers; /* of pieces */
} nx_state_plan;

/* NEXAR_ENOMEM.  The caller frees |*out| with nx_state_plan_fini(). */
NX_MUST_CHECK nexar_err nx_state_vote(const nx_state_ballot *ballot, nx_state_plan *out);
void nx_state_plan_fini(nx_state_plan *plan);

/* The rank whose content of |tensor| wins: the content that most ranks with the highest |revision|
 * hold; of equally many, that of the lowest rank. */
uint32_t nx_state_winner(const nx_state_ballot *ballot, uint64_t revision, size_t tensor);

#endif /* NX_STATE_VOTE_H */
