/*
 * agreement.h - revocation and agreement of one communicator.
 *
 * The machines of a communicator (cluster/membership/reliable_broadcast.h,
 * cluster/consensus/consensus.h) are made with the first call or frame that needs them.  They
 * outlive the communicator until no rank can ask any more.  Frames for a communicator that does not
 * exist here yet are kept; frames for a closed one are dropped.  If a needed frame cannot be kept,
 * this rank leaves the world.
 *
 * Every function is called with the loop's lock held.
 */
#ifndef NX_AGREEMENT_H
#define NX_AGREEMENT_H

#include "cluster/consensus/consensus.h"
#include "cluster/rankset.h"
#include "core/comm/incarnation.h"

typedef struct nx_agreement nx_agreement;

/* The outcome of an agreement. */
typedef struct nx_outcome {
    uint64_t flags;
    nx_rankset failed; /* excluded ranks of the communicator */
    uint32_t id;       /* of the lowest other rank that has contributed one; 0: none */
    uint64_t highest;  /* maximum of the contributions */
    nx_rankset left;   /* ranks of |failed| that leave: only in a rescue */
} nx_outcome;

/* A rank's contribution: flags, combined by and; a number, combined by maximum; an id for a new
 * communicator, or 0. */
typedef struct nx_agreement_input {
    uint64_t flags, highest;
    uint32_t id;
} nx_agreement_input;

/*
 * The |highest| that a state_sync brings.  A rank whose state_sync has failed early takes no part
 * in its agreement, in which others may wait: it contributes its veto by nx_agreement_oppose.  A
 * rank that knew of the failure before was never in the state_sync.  It vetoes by its next
 * agreement of another kind, which is the same instance: ranks that have brought another
 * |highest| go on to the next one.
 */
#define NX_AGREEMENT_ASIDE (UINT64_MAX - 1) /* the value above ends an overdue agreement */

/*
 * All living ranks of |inc| call.  Waits.  On NEXAR_OK nx_rankset_fini(&out->failed) is the
 * caller's.
 *
 * NEXAR_EINVAL
 *     Another thread is in such a call on |inc|.
 * NEXAR_EPEER
 *     This rank was declared failed, or there is no quorum.
 * NEXAR_ENOMEM
 */
NX_MUST_CHECK nexar_err nx_agreement_agree(nx_incarnation *inc, const char *name,
                                           const nx_agreement_input *input, nx_outcome *out);

/* Brings |input| (flags, highest) to the next instance, and does not wait for it.  The next call
 * on |inc| waits for its end first. */
void nx_agreement_oppose(nx_incarnation *inc, const nx_agreement_input *input);

/* The same as nx_agreement_agree with all that an agreement has (consensus.h): |out|, made by the
 * caller for inc->size and NX_CONSENSUS_PAYLOAD_MAX.  Payloads are of the world's communicator
 * only. */
NX_MUST_CHECK nexar_err nx_agreement_decide(nx_incarnation *inc, const char *name,
                                            const nx_consensus_input *input,
                                            nx_consensus_value *out);
/* Fails nx_agreement_decide on |inc|, if a thread is in it, with NEXAR_EPEER: it will never be
 * decided. */
void nx_agreement_abandon(nx_incarnation *inc);
/* Whether |rank| of |inc|, excluded by an agreement, has left and not failed, as far as this rank
 * knows. */
bool nx_agreement_has_left(const nx_incarnation *inc, uint32_t rank);
/* What this rank has accepted last on |inc|, or NULL. */
const nx_consensus_value *nx_agreement_accepted(const nx_incarnation *inc);
/* The ranks of |inc| for which the call of a thread waits, up to |room|: the ranks that have not
 * called, if known, or the rank that knows more.  Returns their number; 0: no thread is in a
 * call. */
uint32_t nx_agreement_waits_for(const nx_incarnation *inc, uint32_t ranks[], uint32_t room);
/* Releases the ranks that leave by the last decision on |inc|, which has been decided here and is
 * unused; this rank stays. */
void nx_agreement_let_go(nx_incarnation *inc);

/* Revokes |inc| here, and notifies all its ranks.  NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_agreement_revoke(nx_incarnation *inc);

/* A frame RBCAST, AGREE or CONFIRM of a communicator; kept if that does not exist here yet.
 * NEXAR_EPROTO, NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_agreement_frame(nx_world *world, uint32_t peer, const void *data,
                                           size_t len);
/* The same.  Logs an error; without memory this rank leaves the world. */
void nx_agreement_take(nx_world *world, uint32_t peer, const void *data, size_t len);
/* |slot| has failed. */
void nx_agreement_failed(nx_world *world, uint32_t slot);
/* |slot| has left.  Running agreements continue without it; other ranks need not know, and it must
 * not be reported as failed. */
void nx_agreement_left(nx_world *world, uint32_t slot);
/* Handles recorded events. */
void nx_agreement_conclude(nx_world *world);

/* |inc| is about to be closed. */
void nx_agreement_closed(nx_incarnation *inc);
/* Frees the machines of all communicators. */
void nx_agreements_free(nx_world *world);

#endif /* NX_AGREEMENT_H */
