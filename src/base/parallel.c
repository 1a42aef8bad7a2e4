/* parallel.c - each idle thread takes the next piece. */
#include "base/parallel.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>

#include "base/os/cancellation.h"

enum { MOST_THREADS = 64 };

typedef struct team {
    nx_parallel_fn fn;
    void *ctx;
    size_t n;
    atomic_size_t next;
} team;

static void work(team *t)
{
    size_t index;

    while ((index = atomic_fetch_add_explicit(&t->next, 1, memory_order_relaxed)) < t->n) {
        t->fn(t->ctx, index);
    }
}

static void *run(void *arg)
{
    (void)nx_cancellation_disable();
    work(arg);
    return NULL;
}

/* Blocks signals in the threads: the application handles them. */
static unsigned start(team *t, pthread_t threads[], unsigned want)
{
    unsigned started = 0;
    sigset_t all, old;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &old);
    while ((started < want) && (pthread_create(&threads[started], NULL, run, t) == 0)) {
        started++;
    }
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    return started;
}

void nx_parallel(size_t n, unsigned threads, nx_parallel_fn fn, void *ctx)
{
    team t = {.fn = fn, .ctx = ctx, .n = n};
    pthread_t helpers[MOST_THREADS];
    unsigned want = (threads > MOST_THREADS) ? MOST_THREADS : threads, started;

    want = (want > n) ? (unsigned)n : want;
    started = (want > 1) ? start(&t, helpers, want - 1) : 0;
    work(&t);
    for (unsigned i = 0; i < started; i++) {
        (void)pthread_join(helpers[i], NULL);
    }
}

unsigned nx_parallel_cpus(void)
{
    cpu_set_t own;

    if (sched_getaffinity(0, sizeof(own), &own) != 0) {
        return 1;
    }
    return (CPU_COUNT(&own) < 1) ? 1 : (unsigned)CPU_COUNT(&own);
}
