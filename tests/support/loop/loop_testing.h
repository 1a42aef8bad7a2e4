/* loop_testing.h - shared by the tests with several threads. */
#ifndef NX_LOOP_TESTING_H
#define NX_LOOP_TESTING_H

#include <pthread.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "loop/loop_inner.h"
#include "unit.h"
#include "waits.h"

#define MS UINT64_C(1000000)

/* Only a lost wake-up takes this long. */
static const uint64_t PATIENCE_NS = UINT64_C(60000000000);

static inline uint64_t soon(const nx_loop *loop)
{
    return nx_loop_now(loop) + PATIENCE_NS;
}

/* cmocka's assertions work only in the thread of the test. */
static inline void must(bool condition, const char *what)
{
    if (!condition) {
        print_error("in a thread: %s\n", what);
        abort();
    }
}

/* Checks that |event| is set in time. A wait runs a last iteration at its deadline, which would
 * hide that no thread had driven the loop before. */
static inline void must_come(nx_loop *loop, nx_event *event, const char *what)
{
    uint64_t deadline_ns = soon(loop);

    must(nx_loop_wait(loop, event, deadline_ns), what);
    must(nx_loop_now(loop) < deadline_ns, what);
}

static inline nx_loop *make(uint64_t spin_ns)
{
    const nx_wait_policy policy = nxt_waits(spin_ns, false);
    nx_loop *loop = NULL;

    assert_int_equal(nx_loop_create(&loop, &nx_clock_system), NEXAR_OK);
    nx_loop_set_policy(loop, &policy);
    return loop;
}

/* Waits, without driving the loop, until |event| is set. */
static inline bool eventually(nx_loop *loop, const nx_event *event)
{
    uint64_t deadline_ns = nx_now(&nx_clock_system) + PATIENCE_NS;
    bool set = false;

    while (!set && (nx_now(&nx_clock_system) < deadline_ns)) {
        nx_loop_lock(loop);
        set = event->set;
        nx_loop_unlock(loop);
        (void)usleep(100);
    }
    return set;
}

/* A timer that sets an event. */
typedef struct bell {
    nx_timer timer;
    nx_loop *loop;
    nx_event *event;
} bell;

static inline void on_bell(nx_timer *self, uint64_t now_ns)
{
    bell *b = nx_list_entry(self, bell, timer);

    (void)now_ns;
    nx_event_set(b->loop, b->event);
}

/* Deferred work that sets an event. */
typedef struct chore {
    nx_task task;
    nx_loop *loop;
    nx_event *event;
} chore;

static inline void on_chore(nx_task *self)
{
    chore *c = nx_list_entry(self, chore, task);

    nx_event_set(c->loop, c->event);
}

/* A pipe whose bytes the driving thread counts. */
typedef struct tap {
    nx_fd fd;
    nx_loop *loop;
    int write_fd;
    int got, want;
    nx_event done;
} tap;

static inline void on_tap(nx_fd *self, uint32_t events)
{
    tap *t = nx_list_entry(self, tap, fd);
    char byte;

    (void)events;
    must(read(self->fd, &byte, 1) == 1, "a byte was there");
    if (++t->got == t->want) {
        nx_event_set(t->loop, &t->done);
    }
}

static inline void open_tap(tap *t, nx_loop *loop, int want)
{
    int ends[2];

    must(pipe(ends) == 0, "pipe");
    *t = (tap){
        .fd = {.fd = ends[0], .on_ready = on_tap}, .loop = loop, .write_fd = ends[1], .want = want};
    must(nx_loop_fd_add(loop, &t->fd, EPOLLIN) == NEXAR_OK, "add");
}

static inline void close_tap(tap *t)
{
    nx_loop_fd_remove(t->loop, &t->fd);
    must((close(t->fd.fd) == 0) && (close(t->write_fd) == 0), "close");
}

#endif /* NX_LOOP_TESTING_H */
