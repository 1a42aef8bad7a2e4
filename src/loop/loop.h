/*
 * loop.h - the progress engine: descriptors, timers, deferred work, waiting.
 *
 * A world has one loop and one lock: everything below core runs with it held. A waiting thread
 * drives the loop: a thread in nx_loop_wait polls and dispatches itself, so a message costs no
 * hand-over.  If several wait, one drives, and the others sleep until their own event wakes them; a
 * driver that leaves passes the duty on.  A background thread drives when no thread has waited for
 * a while, so that heartbeats, acknowledgements and non-blocking operations continue while the
 * application computes.
 *
 * Waiting follows the policy of base/wait/wait_policy.h: it spins, yields, then sleeps in the
 * kernel.
 *
 * Every function but create, destroy, lock and background_* is called with the lock held.  The
 * driver releases it while it sleeps, and between two polls or iterations when another thread wants
 * it.  Callbacks run with it held, on the driver's thread or on that of a kick; they may call every
 * function here but nx_loop_wait, nx_loop_lock, nx_loop_unlock and nx_loop_destroy.
 */
#ifndef NX_LOOP_H
#define NX_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/containers/heap.h"
#include "base/containers/list.h"
#include "base/error.h"
#include "base/wait/wait_policy.h"

typedef struct nx_loop nx_loop;

/*
 * |clock| is borrowed for the life of the loop.
 *
 * NEXAR_ENOMEM, NEXAR_ESYS
 *     No memory, no descriptors.
 */
NX_MUST_CHECK nexar_err nx_loop_create(nx_loop **out, const nx_clock *clock);
/* Requires: no thread waits, the background thread is stopped, no descriptor or timer is left;
 * without the lock. */
void nx_loop_destroy(nx_loop *loop);

/* Not recursive.  Unlock wakes a driver that would sleep past a timer that was set meanwhile, or
 * past deferred work that nx_loop_kick has not run. */
void nx_loop_lock(nx_loop *loop);
/* nx_loop_lock with a time limit of about |span_ns|: false, and the lock is not held.  A thread
 * that holds it already waits in vain. */
NX_MUST_CHECK bool nx_loop_lock_within(nx_loop *loop, uint64_t span_ns);
void nx_loop_unlock(nx_loop *loop);
/* Unlocks for a thread that polls and returns soon: yields the lock to waiting threads, and the
 * core if cores are scarce or another thread must do the work (|theirs|). */
void nx_loop_pass(nx_loop *loop, bool theirs);
/* As nx_loop_lock without reading the clock: for short calls that need no time, or end with
 * nx_loop_flush. */
void nx_loop_enter(nx_loop *loop);

/* The time of the current iteration: read once per iteration and by nx_loop_lock; never goes
 * backwards. */
uint64_t nx_loop_now(const nx_loop *loop);
/* Reads the clock, for users that cannot use the start of the iteration. */
uint64_t nx_loop_refresh(nx_loop *loop);

/* ---- descriptors ---------------------------------------------------------- */

typedef struct nx_fd {
    int fd;
    /* |events| is a set of EPOLLIN, EPOLLOUT, EPOLLERR, EPOLLHUP.  May remove
     * this and any other descriptor. */
    void (*on_ready)(struct nx_fd *self, uint32_t events);
    /* Optional: polls without the kernel, while the loop spins or is busy; returns whether there
     * was anything.  The clock is fresh.  Without it the loop uses epoll. */
    bool (*on_spin)(struct nx_fd *self);
    /* Optional, for data that also arrives through memory, invisible to the kernel.  Requires
     * on_spin, which is then called in every poll.  Called with true before the loop sleeps: from
     * now on a writer of that memory must make |fd| ready.  Returns whether there is data already;
     * then the loop does not sleep. Called with false: the sleep is over, or was not begun.  Must
     * not call the loop. */
    bool (*on_idle)(struct nx_fd *self, bool sleep);
    uint64_t id;     /* private; zero-initialised is not watched */
    uint32_t events; /* the loop's */
    nx_list link;    /* the loop's */
} nx_fd;

/* Watches |self->fd| for |events|; |self| is borrowed until removed. */
NX_MUST_CHECK nexar_err nx_loop_fd_add(nx_loop *loop, nx_fd *self, uint32_t events);
NX_MUST_CHECK nexar_err nx_loop_fd_change(nx_loop *loop, nx_fd *self, uint32_t events);
/* Does nothing if it is not watched.  Does not close the descriptor. */
void nx_loop_fd_remove(nx_loop *loop, nx_fd *self);

/* ---- timers and deferred work --------------------------------------------- */

typedef struct nx_timer {
    nx_heap_item item;
    void (*on_expire)(struct nx_timer *self, uint64_t now_ns);
} nx_timer;

/* Sets or moves |self|, which is borrowed until it expires or is cancelled, to |at_ns| on the
 * loop's clock; a time in the past expires in this iteration or the next. */
NX_MUST_CHECK nexar_err nx_loop_timer_set(nx_loop *loop, nx_timer *self, uint64_t at_ns);
void nx_loop_timer_cancel(nx_loop *loop, nx_timer *self);

/* Work for the end of the iteration (outside of one: for the caller's next nx_loop_kick or
 * nx_loop_wait, otherwise the driver's next iteration), run once, however often it is deferred
 * before.  Work deferred by it runs in the next iteration.  Connections write their packets so. */
typedef struct nx_task {
    nx_list link;
    void (*run)(struct nx_task *self);
    bool patient; /* gains by waiting for more work: nx_loop_flush; initially false */
} nx_task;
void nx_task_init(nx_task *self, void (*run)(nx_task *self));
void nx_loop_defer(nx_loop *loop, nx_task *self);
void nx_loop_undefer(nx_task *self);

/* When the loop has work without further input: 0 if there is deferred work, the time of the first
 * timer, UINT64_MAX: never.  For simulated time. */
uint64_t nx_loop_next_due(const nx_loop *loop);

/* ---- driving and waiting --------------------------------------------------- */

/* An event that threads wait for.  Zero-initialised is unset. */
typedef struct nx_event {
    bool set;
    struct nx_waiter *waiter; /* private: at most one thread waits for it */
} nx_event;

/* Sets |event| and wakes the thread that waits for it. */
void nx_event_set(nx_loop *loop, nx_event *event);

/* Runs due work on this thread without sleeping: deferred work, timers, and descriptors unless
 * another application thread drives.  After an application thread has queued something.  Does
 * nothing inside a callback: the current iteration does it. */
void nx_loop_kick(nx_loop *loop);

/* The same after |bytes| were queued that need no answer, such as a short message (0: must not
 * wait). Where messages arrive through memory, and nothing else has arrived lately, descriptors and
 * timers are served only now and then.
 *
 * Consecutive calls form a stream, in which one run of deferred work serves many messages. If all
 * deferred work is patient, it waits until 16 KiB or 20 us have accumulated. It runs earlier at the
 * first of nx_loop_kick, nx_loop_wait and the background thread, which takes over within about 2 ms
 * of the last call. Only while no thread drives, and with a background thread. */
void nx_loop_flush(nx_loop *loop, size_t bytes);

/* The same after something was queued that other ranks need not know of now, such as a receive:
 * runs deferred work only. Reads nothing, so that arriving data finds the receives that the caller
 * is about to post. */
void nx_loop_settle(nx_loop *loop);

/*
 * For a thread with the lock, outside of callbacks, that knows the memory where the awaited data
 * appears first: how often it may poll there before it waits normally.  It asks again between
 * polls, which includes a pause.
 *
 * 0: it must wait immediately: other threads drive or want the lock, or other work is due.
 */
unsigned nx_loop_looks(nx_loop *loop);
bool nx_loop_look_again(nx_loop *loop, unsigned *looks);

/* Waits, driving the loop if no thread does, until |event| is set or the clock has reached
 * |deadline_ns| (UINT64_MAX: never; past: one iteration without sleeping).  The lock is held before
 * and after.  Returns whether it is set.  With a clock that stands still it returns only if due or
 * ready work sets |event| or moves the clock. */
bool nx_loop_wait(nx_loop *loop, nx_event *event, uint64_t deadline_ns);

/* Another process works for this one, and will signal through memory before about |at_ns|: a wait
 * that is not crowded polls until then. */
void nx_loop_expect(nx_loop *loop, uint64_t at_ns);

/* Sets how waits spin, yield and park; initially they park immediately. Discards what they have
 * learned. */
void nx_loop_set_policy(nx_loop *loop, const nx_wait_policy *policy);
/* While waits yield, and before a wait parks, |migrate| may move the calling thread to another
 * core; it returns whether it has.  It runs with the lock held, for at most a hundredth of the
 * time, and must not call the loop.  NULL: never. */
void nx_loop_set_migration(nx_loop *loop, bool (*migrate)(void *ctx), void *ctx);
/* Calls it, if it is due; |now_ns| is real time. */
bool nx_loop_migrate(nx_loop *loop, uint64_t now_ns);
/* The same for waits outside the loop, without the lock; does nothing if the lock is taken. */
bool nx_loop_migrate_unlocked(nx_loop *loop, uint64_t now_ns);

/* The background thread: drives when no thread has waited for about 1 ms.  Stop
 * ends and joins it; not with the lock held.  Signals are blocked in it. */
NX_MUST_CHECK nexar_err nx_loop_background_start(nx_loop *loop);
void nx_loop_background_stop(nx_loop *loop);

#endif /* NX_LOOP_H */
