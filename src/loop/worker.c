/*
 * worker.c - a bounded pool of threads beside the loop.
 *
 * The worker's lock nests inside the loop's, never the reverse: a thread takes a job with the
 * worker's lock alone, and calls |done| with the loop's alone.
 */
#include "loop/worker.h"

#include <pthread.h>
#include <signal.h>

#include "base/alloc.h"
#include "base/os/cancellation.h"

struct nx_worker {
    nx_loop *loop;
    pthread_mutex_t lock;
    pthread_cond_t work;
    nx_list jobs; /* queued jobs */
    unsigned waiting, idle, started, most;
    unsigned working; /* threads in a job's |work|; the remaining threads take queued jobs */
    bool stop;
    pthread_t threads[]; /* |most| */
};

nexar_err nx_worker_create(nx_worker **out, nx_loop *loop, unsigned threads)
{
    nx_worker *w = nx_zalloc(sizeof(*w) + threads * sizeof(w->threads[0]));

    if (w == NULL) {
        return nx_fail_nomem("a pool of threads");
    }
    w->loop = loop;
    w->most = threads;
    nx_list_init(&w->jobs);
    (void)pthread_mutex_init(&w->lock, NULL);
    (void)pthread_cond_init(&w->work, NULL);
    *out = w;
    return NEXAR_OK;
}

/* The next job, or NULL when the thread must stop. */
static nx_job *next_job(nx_worker *w)
{
    nx_list *at = NULL;

    (void)pthread_mutex_lock(&w->lock);
    w->idle++;
    while (!w->stop && ((at = nx_list_pop(&w->jobs)) == NULL)) {
        (void)pthread_cond_wait(&w->work, &w->lock);
    }
    w->idle--;
    w->waiting -= (at != NULL);
    w->working += (at != NULL);
    (void)pthread_mutex_unlock(&w->lock);
    return (at == NULL) ? NULL : nx_list_entry(at, nx_job, link);
}

static void worked(nx_worker *w)
{
    (void)pthread_mutex_lock(&w->lock);
    w->working--;
    (void)pthread_mutex_unlock(&w->lock);
}

static void *run(void *arg)
{
    nx_worker *w = arg;
    nx_job *job;

    (void)nx_cancellation_disable();
    while ((job = next_job(w)) != NULL) {
        job->work(job);
        worked(w);
        nx_loop_lock(w->loop);
        job->done(job);
        nx_loop_kick(w->loop);
        nx_loop_unlock(w->loop);
    }
    return NULL;
}

/* With the worker's lock.  Signals are the application's. */
static int start_thread(nx_worker *w)
{
    sigset_t all, old;
    int failed;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &old);
    failed = pthread_create(&w->threads[w->started], NULL, run, w);
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    w->started += (failed == 0);
    return failed;
}

/* If no thread can be started, the job waits for any thread, or, |at_once|, for a free one. */
static nexar_err submit(nx_worker *w, nx_job *job, bool at_once)
{
    int failed = 0;

    (void)pthread_mutex_lock(&w->lock);
    if ((w->idle <= w->waiting) && (w->started < w->most)) {
        failed = start_thread(w);
    }
    if (at_once ? (w->started - w->working > w->waiting) : (w->started > 0)) {
        failed = 0;
    }
    if (failed == 0) {
        nx_list_push_back(&w->jobs, &job->link);
        w->waiting++;
        (void)pthread_cond_signal(&w->work);
    }
    (void)pthread_mutex_unlock(&w->lock);
    return (failed == 0) ? NEXAR_OK : nx_fail_sys("pthread_create", "", failed);
}

nexar_err nx_worker_submit(nx_worker *w, nx_job *job)
{
    return submit(w, job, false); /* one thread suffices */
}

nexar_err nx_worker_submit_free(nx_worker *w, nx_job *job)
{
    return submit(w, job, true);
}

bool nx_worker_cancel(nx_worker *w, nx_job *job)
{
    bool waits = false;

    (void)pthread_mutex_lock(&w->lock);
    nx_list_for_each (at, &w->jobs) {
        waits = waits || (at == &job->link);
    }
    if (waits) {
        nx_list_remove(&job->link);
        w->waiting--;
    }
    (void)pthread_mutex_unlock(&w->lock);
    return waits;
}

void nx_worker_destroy(nx_worker *w)
{
    (void)pthread_mutex_lock(&w->lock);
    w->stop = true;
    (void)pthread_cond_broadcast(&w->work);
    (void)pthread_mutex_unlock(&w->lock);
    for (unsigned i = 0; i < w->started; i++) {
        (void)pthread_join(w->threads[i], NULL);
    }
    (void)pthread_cond_destroy(&w->work);
    (void)pthread_mutex_destroy(&w->lock);
    nx_free(w);
}
