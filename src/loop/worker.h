/*
 * worker.h - work that must not run with the loop's lock held.
 *
 * Callbacks of the application and copies that block run on threads of their own;
 * what follows from them runs with the lock held again.  Threads are started when
 * there is work that no idle thread takes, up to a bound; then work waits.
 *
 * nx_worker_submit, nx_worker_submit_free and nx_worker_cancel are called with the loop's lock
 * held.
 */
#ifndef NX_WORKER_H
#define NX_WORKER_H

#include "loop/loop.h"

typedef struct nx_worker nx_worker;

typedef struct nx_job {
    nx_list link;                     /* the worker's; zero-initialised: idle */
    void (*work)(struct nx_job *job); /* on a thread of the worker, without the lock */
    void (*done)(struct nx_job *job); /* after it, with the lock; may free |job| and
                                         submit others */
} nx_job;

/*
 * |threads| at most, > 0; none is started yet.
 *
 * NEXAR_ENOMEM, NEXAR_ESYS
 */
NX_MUST_CHECK nexar_err nx_worker_create(nx_worker **out, nx_loop *loop, unsigned threads);
/* Waits for the jobs that run; those that wait are dropped without a call.  Not
 * with the lock held. */
void nx_worker_destroy(nx_worker *w);

/*
 * Takes |job|, the caller's memory, until its |done|; in the order submitted.
 *
 * NEXAR_ESYS
 *     The first thread could not be started: the job was not taken.
 */
NX_MUST_CHECK nexar_err nx_worker_submit(nx_worker *w, nx_job *job);
/*
 * The same for a job that others may wait for: it does not wait behind those that are at work,
 * unless there are as many threads as there may be.
 *
 * NEXAR_ESYS
 *     All threads are at work, and no other could be started: the job was not taken.
 */
NX_MUST_CHECK nexar_err nx_worker_submit_free(nx_worker *w, nx_job *job);
/* Takes back a job that has not begun: true, and nothing of it is called. */
bool nx_worker_cancel(nx_worker *w, nx_job *job);

#endif /* NX_WORKER_H */
