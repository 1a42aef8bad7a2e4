/*
 * auto_shrink.h - the consensus that rebuilds a communicator without the application.
 *
 * Each rank of a communicator has machines for one additional agreement (agreement.h has those of
 * the application's calls), made with it.  Any rank that finds the communicator broken begins it.
 * That is broadcast, so all begin, whatever their applications do: it does not wait for a call.
 * recovery.h is notified of the outcome.
 *
 * A rank that has released the communicator takes part too, and announces that it leaves; so the
 * machines outlive the communicator.  Of the unused ones the last NX_AUTO_SHRINK_ORPHANS are kept:
 * a rank that asked for an older one would be that many communicators behind.  If one does, this
 * rank leaves the world, since it cannot answer.  For used machines that all ranks are done with,
 * frames of an earlier ballot may still be in flight: no rank waits for an answer to these.
 *
 * With the loop's lock held.
 */
#ifndef NX_AUTO_SHRINK_H
#define NX_AUTO_SHRINK_H

#include "core/agreement/agreement.h"

enum { NX_AUTO_SHRINK_ORPHANS = 256 };

/* What a rank brings: and-ed, and the highest. */
typedef struct nx_auto_shrink_input {
    uint64_t flags, highest;
} nx_auto_shrink_input;

/* Makes the machines of |inc|, which has several ranks.  NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_auto_shrink_open(nx_incarnation *inc);
/* Undoes that, for one that no other rank knows. */
void nx_auto_shrink_undo(nx_incarnation *inc);
/* |inc| is about to be closed: its machines are on their own. */
void nx_auto_shrink_close(nx_incarnation *inc);
/* Begins it here and everywhere; |why| is a message for ranks that do not know the reason yet. */
void nx_auto_shrink_begin(nx_incarnation *inc, const nx_auto_shrink_input *input, const char *why);

/* Of a completed one: NEXAR_OK, and |*out| is its outcome, whose |failed| includes leavers; or the
 * error. */
nexar_err nx_auto_shrink_outcome(const nx_incarnation *inc, const nx_outcome **out,
                                 const char **why);

#endif /* NX_AUTO_SHRINK_H */
