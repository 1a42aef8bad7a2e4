/*
 * worker.h - work that must not run with the loop's lock held.
 *
 * Callbacks of the application and blocking copies run on separate threads; their completions run
 * with the lock held again.  A thread is started when there is work and no idle thread, up to a
 * bound; beyond it work is queued.
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
/* Waits for running jobs; drops queued ones without a call.  Without the lock. */
void nx_worker_destroy(nx_worker *w);

/*
 * Borrows |job| until its |done|; runs jobs in the order submitted.
 *
 * NEXAR_ESYS
 *     The first thread could not be started: the job was not accepted.
 */
NX_MUST_CHECK nexar_err nx_worker_submit(nx_worker *w, nx_job *job);
/*
 * The same for a job that other threads may wait for: it is not queued behind running jobs, unless
 * the maximum number of threads runs.
 *
 * NEXAR_ESYS
 *     All threads are busy, and no other could be started: the job was not accepted.
 */
NX_MUST_CHECK nexar_err nx_worker_submit_free(nx_worker *w, nx_job *job);
/* Withdraws a job that has not begun: true, and nothing of it is called. */
bool nx_worker_cancel(nx_worker *w, nx_job *job);

#endif /* NX_WORKER_H */
