/*
 * auto_shrink.h - the agreement by which a communicator is rebuilt without the application.
 *
 * Each rank of a communicator has machines for one agreement more (agreement.h has those of
 * the application's calls), made with it.  It is begun by whoever finds the communicator
 * broken; that floods, so that all begin, whatever their applications do: nothing here
 * waits for a call.  The outcome is told to recovery.h.
 *
 * A rank that has given the communicator back takes part too, and says that it leaves; so
 * the machines outlive the communicator.  Of those that were never used the last
 * NX_AUTO_SHRINK_ORPHANS are kept: a rank that would ask one that is older is as many
 * communicators behind.  If one does, this rank leaves the world, for it cannot answer.  Of those
 * that were used, and that all are done with, something may still be on its way that was said in a
 * ballot which is over: nobody waits for an answer to that.
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
/* The same undone, of one that nobody has heard of. */
void nx_auto_shrink_undo(nx_incarnation *inc);
/* |inc| is about to be closed: its machines are on their own. */
void nx_auto_shrink_close(nx_incarnation *inc);
/* Begins here and everywhere; |why| is a sentence for those who do not know yet. */
void nx_auto_shrink_begin(nx_incarnation *inc, const nx_auto_shrink_input *input, const char *why);

/* Of one that is over: NEXAR_OK, and |*out| is its outcome, whose |failed| has those that
 * leave too; or why not. */
nexar_err nx_auto_shrink_outcome(const nx_incarnation *inc, const nx_outcome **out,
                                 const char **why);

#endif /* NX_AUTO_SHRINK_H */
