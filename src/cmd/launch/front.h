/*
 * front.h - two processes, so that one is left to clean up whatever happens to
 * the other.
 *
 * The front is the process that the user started, sees and signals.  It only
 * passes signals on, and what is typed on a terminal.  The work is done by its
 * child, the keeper, in a session of its own: a kill of the front, or of its
 * whole group, does not reach it.  Both adopt orphans: the keeper ends all that
 * it has started when the front is gone, the front when the keeper is.
 */
#ifndef NX_FRONT_H
#define NX_FRONT_H

typedef struct nx_front_ends {
    int input; /* what rank 0 reads; the keeper's to close */
    int life;  /* ends (POLLHUP) when the front is gone */
} nx_front_ends;

/* Calls |keep| in the keeper and returns, in the front, what it returned. */
int nx_front_run(int (*keep)(void *ctx, const nx_front_ends *ends), void *ctx);

#endif /* NX_FRONT_H */
