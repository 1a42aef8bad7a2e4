/*
 * agreement.h - what the ranks of one communicator agree on: revocation and agreement.
 *
 * The machines of a communicator (cluster/reliable_broadcast.h, cluster/consensus/consensus.h) are
 * made with the first call or frame that needs them.  They outlive the communicator until nobody
 * can ask any more.  Frames for a communicator that is still to be made here are kept; those for
 * one that was closed here are dropped.  None that is needed is lost: rather this rank leaves the
 * world.
 *
 * Everything here is called with the loop's lock held.
 */
#ifndef NX_AGREEMENT_H
#define NX_AGREEMENT_H

#include "cluster/consensus/consensus.h"
#include "cluster/rankset.h"
#include "core/comm/incarnation.h"

typedef struct nx_agreement nx_agreement;

/* What came of an agreement. */
typedef struct nx_outcome {
    uint64_t flags;
    nx_rankset failed; /* ranks of the communicator: left out */
    uint32_t id;       /* of the first of the others that has brought one; 0: none has */
    uint64_t highest;  /* of what they have brought */
    nx_rankset left;   /* those of |failed| that leave: of a rescue alone */
} nx_outcome;

/* What a rank brings: flags, and-ed; a number, of which the highest counts; an id for a new
 * communicator, or 0. */
typedef struct nx_agreement_input {
    uint64_t flags, highest;
    uint32_t id;
} nx_agreement_input;

/*
 * The |highest| that a state_sync brings.  A rank whose state_sync has failed early takes no part
 * in its agreement, in which others may wait: it says no by nx_agreement_oppose.  A rank that was
 * never in the state_sync, since it knew of the failure before, says no by its next agreement of
 * another kind, which is the same instance: ranks that have brought another |highest| go on to the
 * next one.
 */
#define NX_AGREEMENT_ASIDE UINT64_MAX

/*
 * All living ranks of |inc| call.  Waits.  On NEXAR_OK nx_rankset_fini(&out->failed) is the
 * caller's.
 *
 * NEXAR_EINVAL
 *     Another thread is in such a call on |inc|.
 * NEXAR_EPEER
 *     This rank is held for dead, or there is no quorum.
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
/* nx_agreement_decide on |inc|, if a thread is in it, ends with NEXAR_EPEER: it will never be
 * decided. */
void nx_agreement_abandon(nx_incarnation *inc);
/* Whether |rank| of |inc|, whom an agreement on it has left out, has left and not failed, as far
 * as this rank was told. */
bool nx_agreement_has_left(const nx_incarnation *inc, uint32_t rank);
/* What this rank has accepted last on |inc|; NULL: nothing. */
const nx_consensus_value *nx_agreement_accepted(const nx_incarnation *inc);
/* For which ranks of |inc| the call of a thread on it waits, up to |room|: those that have not
 * called, where it can know, or the one that has more to say.  How many; 0: no thread is in one. */
uint32_t nx_agreement_waits_for(const nx_incarnation *inc, uint32_t ranks[], uint32_t room);
/* Those who leave by what was decided last on |inc|, which has been decided here, and on which
 * nothing is any more, go; this rank stays. */
void nx_agreement_let_go(nx_incarnation *inc);

/* Tells all ranks of |inc| that it is revoked, and revokes it here.  NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_agreement_revoke(nx_incarnation *inc);

/* A frame RBCAST, AGREE or CONFIRM of a communicator; kept if that is still to be made here.
 * NEXAR_EPROTO, NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_agreement_frame(nx_world *world, uint32_t peer, const void *data,
                                           size_t len);
/* The same.  An error is logged; without memory this rank leaves the world. */
void nx_agreement_take(nx_world *world, uint32_t peer, const void *data, size_t len);
/* |rank| of the world has failed. */
void nx_agreement_failed(nx_world *world, uint32_t rank);
/* |slot| has left.  Agreements that run continue without it; others need not know, and must not say
 * that it has failed. */
void nx_agreement_left(nx_world *world, uint32_t slot);
/* Does what was noted meanwhile. */
void nx_agreement_conclude(nx_world *world);

/* |inc| is about to be closed. */
void nx_agreement_closed(nx_incarnation *inc);
/* Frees those of all communicators. */
void nx_agreements_free(nx_world *world);

#endif /* NX_AGREEMENT_H */
