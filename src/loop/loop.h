/*
 * loop.h - the progress engine: descriptors, timers, deferred work, waiting.
 *
 * A world has one loop, and one lock: everything below core runs with it held.
 * Whoever waits drives: a thread in nx_loop_wait polls and dispatches itself, so
 * a message costs no hand-over.  If several wait, one drives, the others sleep
 * and are woken each by its own event; the driver passes the duty on when it
 * leaves.  A background thread drives when nobody has waited for a while, so
 * that heartbeats, acknowledgements and non-blocking operations go on while the
 * application computes.
 *
 * Waiting follows the policy of base/wait/wait_policy.h: it spins, yields, then
 * sleeps in the kernel.
 *
 * Everything but create, destroy, lock and background_* is called with the lock
 * held.  The driver releases it while it sleeps, and between two polls or turns
 * when another thread wants it.  Callbacks run with it held, on the driver's
 * thread or on that of a kick; they may call everything here but nx_loop_wait,
 * nx_loop_lock, nx_loop_unlock and nx_loop_destroy.
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
/* No thread waits, the background thread is stopped, no descriptor or timer is
 * left; not with the lock held. */
void nx_loop_destroy(nx_loop *loop);

/* Not recursive.  Unlock wakes a driver that would sleep past a timer that was set
 * or past work that was deferred, and not run by nx_loop_kick, meanwhile. */
void nx_loop_lock(nx_loop *loop);
/* nx_loop_lock that gives up after about |span_ns|: false, and the lock is not held.  A thread
 * that holds it already waits in vain. */
NX_MUST_CHECK bool nx_loop_lock_within(nx_loop *loop, uint64_t span_ns);
void nx_loop_unlock(nx_loop *loop);
/* Unlocks, of a thread that has not found what it came for and comes back soon, perhaps at
 * once: others are let have the lock, and the core where cores are scarce, or if another
 * thread has to do it (|theirs|). */
void nx_loop_pass(nx_loop *loop, bool theirs);
/* The same as nx_loop_lock, but the clock is as it was last read: for short calls that need
 * no time, or end with nx_loop_flush. */
void nx_loop_enter(nx_loop *loop);

/* The time of the current turn: read once per turn and by nx_loop_lock; never goes
 * backwards. */
uint64_t nx_loop_now(const nx_loop *loop);
/* Reads the clock anew, for what must not use the turn's beginning. */
uint64_t nx_loop_refresh(nx_loop *loop);

/* ---- descriptors ---------------------------------------------------------- */

typedef struct nx_fd {
    int fd;
    /* |events| is a set of EPOLLIN, EPOLLOUT, EPOLLERR, EPOLLHUP.  May remove
     * this and any other descriptor. */
    void (*on_ready)(struct nx_fd *self, uint32_t events);
    /* Optional: tries without the kernel's word, while the loop spins or is busy:
     * returns whether there was anything.  The clock is fresh.  Without it the loop
     * asks epoll. */
    bool (*on_spin)(struct nx_fd *self);
    /* Optional: something comes by memory too, where the kernel does not see it.  Then
     * on_spin must be there and is asked in every poll.  Before the loop sleeps it is
     * called with true: from now on whoever writes that memory makes |fd| ready.  It
     * returns whether there is something already, and then the loop does not sleep.
     * With false: the sleep is over, or was not begun.  It makes no other calls. */
    bool (*on_idle)(struct nx_fd *self, bool sleep);
    uint64_t id;     /* the loop's; zero-initialised is not watched */
    uint32_t events; /* the loop's */
    nx_list link;    /* the loop's */
} nx_fd;

/* Watches |self->fd| for |events|; |self| is held until removed. */
NX_MUST_CHECK nexar_err nx_loop_fd_add(nx_loop *loop, nx_fd *self, uint32_t events);
NX_MUST_CHECK nexar_err nx_loop_fd_change(nx_loop *loop, nx_fd *self, uint32_t events);
/* Does nothing if it is not watched.  The descriptor is not closed. */
void nx_loop_fd_remove(nx_loop *loop, nx_fd *self);

/* ---- timers and deferred work --------------------------------------------- */

typedef struct nx_timer {
    nx_heap_item item;
    void (*on_expire)(struct nx_timer *self, uint64_t now_ns);
} nx_timer;

/* Sets or moves |self|, which is held until it expires or is cancelled, to
 * |at_ns| on the loop's clock; a time that has passed expires in this turn or
 * the next. */
NX_MUST_CHECK nexar_err nx_loop_timer_set(nx_loop *loop, nx_timer *self, uint64_t at_ns);
void nx_loop_timer_cancel(nx_loop *loop, nx_timer *self);

/* Work for the end of the turn (outside of a turn: for the caller's next
 * nx_loop_kick or nx_loop_wait, or else the driver's next turn), once, however often
 * it is deferred before.  What is deferred by such work itself is for the turn after
 * it.  Connections write their packets so. */
typedef struct nx_task {
    nx_list link;
    void (*run)(struct nx_task *self);
    bool patient; /* gains by waiting for more to do: nx_loop_flush; false at first */
} nx_task;
void nx_task_init(nx_task *self, void (*run)(nx_task *self));
void nx_loop_defer(nx_loop *loop, nx_task *self);
void nx_loop_undefer(nx_task *self);

/* When the loop has something to do by itself: 0 if there is deferred work, the time
 * of the first timer, UINT64_MAX: never.  For those who simulate time. */
uint64_t nx_loop_next_due(const nx_loop *loop);

/* ---- driving and waiting --------------------------------------------------- */

/* Something that threads wait for.  Zero-initialised is unset. */
typedef struct nx_event {
    bool set;
    struct nx_waiter *waiter; /* the loop's: at most one thread waits for it */
} nx_event;

/* Sets |event| and wakes the thread that waits for it. */
void nx_event_set(nx_loop *loop, nx_event *event);

/* Runs what is due without sleeping, on this thread: deferred work, timers, and
 * descriptors unless another application thread drives.  After an application
 * thread has queued something.  Does nothing inside a callback: its turn does. */
void nx_loop_kick(nx_loop *loop);

/* The same after |bytes| were queued that need no answer, such as a short message (0: what
 * was queued must not wait): where messages come by memory, and nothing else has come lately,
 * descriptors and timers have their turn only now and then.
 *
 * A run of such calls, one right after the other, is a stream, and the work of one message does
 * for many: if all that is deferred is patient, it waits for more, until 16 KiB or 20 us have
 * come together, or for whatever comes first of nx_loop_kick, nx_loop_wait and the background
 * thread, which takes over within about 2 ms of the last call.  Only while nobody drives, and
 * with a background thread. */
void nx_loop_flush(nx_loop *loop, size_t bytes);

/* The same after something was queued that others need not hear of now, such as a receive:
 * only deferred work is run.  Nothing is read, so that what comes finds the receives that
 * the caller is about to post. */
void nx_loop_settle(nx_loop *loop);

/*
 * For a thread that has the lock, is in no callback, and knows the place in memory where what it
 * waits for will be seen first: how often it may look there before it waits as others do.  In
 * between it asks whether it may look once more, which takes a pause.
 *
 * 0: it must wait at once: others drive or want the lock, or something else is due, or has not had
 * its turn for some time.
 */
unsigned nx_loop_looks(nx_loop *loop);
bool nx_loop_look_again(nx_loop *loop, unsigned *looks);

/* Waits, driving the loop if nobody does, until |event| is set or the clock has
 * reached |deadline_ns| (UINT64_MAX: never; past: one turn without sleeping).  The
 * lock is held before and after.  Returns whether it is set.  With a clock that
 * stands it returns only if what is due or ready now sets |event| or moves the
 * clock. */
bool nx_loop_wait(nx_loop *loop, nx_event *event, uint64_t deadline_ns);

/* Somebody works for us, and will say by memory that it is done, before |at_ns| or so: a
 * wait that is not crowded polls until then. */
void nx_loop_expect(nx_loop *loop, uint64_t at_ns);

/* How waits spin, yield and park; at first they park at once.  What they have learned is
 * forgotten. */
void nx_loop_set_policy(nx_loop *loop, const nx_wait_policy *policy);
/* While waits yield, and before a wait parks, |migrate| may move the calling thread to another
 * core; whether it has.  It runs with the lock held, for a hundredth of the time at most, and makes
 * no calls here.  NULL: never. */
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
