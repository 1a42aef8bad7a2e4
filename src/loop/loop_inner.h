/*
 * loop_inner.h - shared by the files of the loop.
 *
 *   loop.c        life, clock, the rest of an iteration, streams of short messages
 *   lock.c        the lock, and yielding it to waiting threads
 *   fds.c         descriptors: epoll, dispatching
 *   timers.c      timers and deferred work
 *   wait.c        waiting, spinning, sleeping, passing on the duty to drive
 *   background.c  the thread that drives when no other does
 *
 * |mutex| protects everything that is not atomic.
 */
#ifndef NX_LOOP_INNER_H
#define NX_LOOP_INNER_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/epoll.h>

#include "base/containers/map.h"
#include "base/wait/cpu.h"
#include "base/wait/wait_policy.h"
#include "loop.h"
#include "park.h"

enum { NX_LOOP_BATCH = 64 }; /* descriptors dispatched per iteration */

/* A thread in nx_loop_wait: on its stack. */
typedef struct nx_waiter {
    nx_event *event;
    nx_park park;
    nx_list link; /* in |waiters|, as long as it waits */
} nx_waiter;

typedef struct nx_background {
    pthread_t thread;
    bool running;
    int fd;           /* eventfd that ends its sleep as the driver; only it reads it */
    bool woken;       /* fd was written and not yet read */
    bool deep;        /* sleeps until it is signalled, not only for a tick */
    nx_waiter driver; /* what |driver| points to while it drives */
    nx_park rest;     /* where it sleeps while it does not drive */
    atomic_bool stop;
} nx_background;

/* See nx_loop_flush. */
typedef struct nx_stream {
    unsigned run;      /* consecutive calls */
    uint64_t last_ns;  /* time of the last one */
    uint64_t since_ns; /* time of the first delayed one, if |bytes| > 0 */
    size_t bytes;
} nx_stream;

struct nx_loop {
    const nx_clock *clock;
    uint64_t now_ns;

    pthread_mutex_t mutex;
    atomic_uint wanted;                       /* threads that wait for |mutex| */
    nx_wait_policy policy;                    /* nx_loop_set_policy */
    atomic_uint polls_of_spin, polls_of_park; /* of it, for threads without the lock */
    atomic_bool crowded;                      /* the same */

    /* Descriptors.  epoll identifies them by number, so that one removed while the kernel's answer
     * is in flight is recognised. */
    int epoll_fd, wake_fd;
    nx_map fd_by_id;
    uint64_t fd_ids;      /* numbers given; 0 is wake_fd */
    nx_list fds;          /* nx_fd.link: all but wake_fd; first those with on_idle */
    size_t fds_plain;     /* descriptors without on_spin */
    uint64_t fds_changes; /* additions and removals ever */
    bool coarse;          /* no epoll_pwait2: milliseconds */
    uint64_t asked_ns;    /* last poll of the kernel without sleeping */
    unsigned silent;      /* consecutive empty polls of it */

    nx_heap timers;
    nx_list tasks;
    bool dispatching; /* callbacks run: the iteration runs what they defer */
    nx_stream stream; /* short messages that an application thread sends consecutively */

    /* Driving: see wait.c. */
    nx_waiter *driver;       /* NULL: none */
    nx_list waiters;         /* including the driver, unless it is the background thread */
    bool sleeping;           /* the driver is in the kernel */
    bool woken;              /* wake_fd was written and not yet read */
    uint64_t sleep_until;    /* at the latest, while |sleeping| */
    nx_wait_history history; /* of the driver's waits */
    nx_wait wait;            /* of the driver; real time */
    unsigned finds;          /* polls that ended a wait */
    unsigned spins;
    unsigned looks;             /* calls of nx_loop_looks that have found nothing against it */
    uint64_t expected_ns;       /* until when a wait polls, whatever its budget */
    bool (*migrate)(void *ctx); /* nx_loop_set_migration; may be NULL */
    void *migrate_ctx;
    atomic_ullong migrate_due_ns; /* real time: not before */

    nx_background background;
    atomic_bool app_drives; /* |driver| is an application thread */
    atomic_uint app_visits; /* times that one has left, or kicked */
};

/* ---- lock.c ---------------------------------------------------------------- */

/* The driver's own unlock, before it sleeps: wakes no thread. */
void nx_loop_release(nx_loop *loop);
/* Yields the lock to waiting threads; returns whether there were any.  The clock is fresh then. */
bool nx_loop_give_way(nx_loop *loop);

/* Whether other threads want the lock. */
static inline bool nx_loop_is_wanted(const nx_loop *loop)
{
    return atomic_load_explicit(&loop->wanted, memory_order_relaxed) > 0;
}

/* ---- fds.c ----------------------------------------------------------------- */

NX_MUST_CHECK nexar_err nx_loop_fds_init(nx_loop *loop);
void nx_loop_fds_fini(nx_loop *loop);
/* Polls the kernel, for at most |timeout_ns| of real time (UINT64_MAX: indefinitely). Returns how
 * many of |ready| are filled.  Without the lock if it may sleep. */
int nx_loop_fds_ask(nx_loop *loop, struct epoll_event *ready, uint64_t timeout_ns);
void nx_loop_fds_dispatch(nx_loop *loop, const struct epoll_event *ready, int n);
/* Polls without sleeping and dispatches; returns whether there was anything. */
bool nx_loop_fds_poll(nx_loop *loop);
/* The same, but polls the kernel only now and then if messages arrive through memory. */
bool nx_loop_fds_glance(nx_loop *loop);
/* Whether the kernel need not be polled now. */
bool nx_loop_fds_quiet(const nx_loop *loop);
/* The same by the on_spin hooks, in a wait that began at |since_ns|. */
bool nx_loop_fds_spin(nx_loop *loop, uint64_t since_ns, bool yields);
/* Calls the on_idle hooks; whether one of them has something. */
bool nx_loop_fds_idle(nx_loop *loop, bool sleep);

/* ---- timers.c -------------------------------------------------------------- */

void nx_loop_run_timers(nx_loop *loop);
void nx_loop_run_tasks(nx_loop *loop);

/* ---- loop.c ---------------------------------------------------------------- */

/* Sends what was delayed; the stream may have ended. */
void nx_loop_stream_pause(nx_loop *loop);

/* ---- wait.c ---------------------------------------------------------------- */

/* The background thread stops driving, if it did: it sleeps until no thread drives. */
void nx_loop_relieve_background(nx_loop *loop);
/* Ends the driver's sleep; does nothing if it is awake. */
void nx_loop_wake_driver(nx_loop *loop);
/* Ends it if something is due earlier than it knows: before releasing the lock. */
void nx_loop_wake_if_due(nx_loop *loop);

static inline uint64_t nx_loop_span(uint64_t from_ns, uint64_t until_ns)
{
    if (until_ns == UINT64_MAX) {
        return UINT64_MAX;
    }
    return (until_ns > from_ns) ? until_ns - from_ns : 0;
}

/* An application thread was here.  Only the lock holder writes it. */
static inline void nx_loop_note_visit(nx_loop *loop)
{
    unsigned visits = atomic_load_explicit(&loop->app_visits, memory_order_relaxed);

    atomic_store_explicit(&loop->app_visits, visits + 1, memory_order_relaxed);
}

/* ---- background.c ---------------------------------------------------------- */

/* An application thread has left and none waits. */
void nx_loop_background_notice(nx_loop *loop);

#endif /* NX_LOOP_INNER_H */
