/*
 * front.h - two processes, so that one remains to clean up if the other ends.
 *
 * The front is the process that the user started, sees and signals. It only passes on signals and
 * terminal input. Its child, the keeper, does the work in its own session: a kill of the front,
 * or of its whole group, does not reach the keeper. Both adopt orphans: when one of the two ends,
 * the other ends all processes of the job.
 */
#ifndef NX_FRONT_H
#define NX_FRONT_H

typedef struct nx_front_ends {
    int input; /* the input of rank 0; the keeper closes it */
    int life;  /* ends (POLLHUP) when the front has exited */
} nx_front_ends;

/* Calls |keep| in the keeper; returns its result in the front. */
int nx_front_run(int (*keep)(void *ctx, const nx_front_ends *ends), void *ctx);

#endif /* NX_FRONT_H */
