/*
 * fds.c - descriptors: epoll, level-triggered.
 *
 * Level-triggered, so that a thread may drop the kernel's answer: the next poll reports it again.
 * nx_loop_kick and the background thread rely on this.
 */
#include <assert.h>
#include <errno.h>
#include <unistd.h>

#include "loop_inner.h"

#include "base/os/sys.h"

/* When some descriptors have a spin hook, a spin asks epoll once per PLAIN_EVERY polls for the
 * descriptors without one. */
enum { PLAIN_EVERY = 16 };

/* Where data also arrives through memory, one poll of memory takes 20 ns and one system call takes
 * 150 ns or more. So the kernel is asked once per KERNEL_EVERY spins of |BURST| memory polls. After
 * SILENT_ASKS consecutive empty answers the kernel is asked only while memory is also silent, or
 * every ASK_NS. Without this limit each message by memory cost two fruitless calls (ping-pong of 8
 * bytes: 1.7 us with them, 0.8 without). */
enum { BURST = 4, KERNEL_EVERY = 2, PLAIN_IN_MEMORY = 4, SILENT_ASKS = 16 };
enum { LULL_NS = 3000, ASK_NS = 50000, ASK_KICK_NS = 10000 };

static nexar_err control(nx_loop *loop, int op, int fd, uint32_t events, uint64_t id)
{
    struct epoll_event e = {.events = events, .data = {.u64 = id}};

    return nx_fail_sys("epoll_ctl", "", (epoll_ctl(loop->epoll_fd, op, fd, &e) == 0) ? 0 : errno);
}

nexar_err nx_loop_fds_init(nx_loop *loop)
{
    nexar_err err;

    loop->epoll_fd = nx_sys_epoll_create();
    if (loop->epoll_fd < 0) {
        return nx_fail_sys("epoll_create1", "", errno);
    }
    loop->wake_fd = nx_sys_eventfd(0);
    if (loop->wake_fd < 0) {
        err = nx_fail_sys("eventfd", "", errno);
        goto fail_epoll;
    }
    err = control(loop, EPOLL_CTL_ADD, loop->wake_fd, EPOLLIN, 0);
    if (err != NEXAR_OK) {
        goto fail_wake;
    }
    return NEXAR_OK;

fail_wake:
    (void)nx_sys_close(loop->wake_fd);
fail_epoll:
    (void)nx_sys_close(loop->epoll_fd);
    return err;
}

void nx_loop_fds_fini(nx_loop *loop)
{
    (void)nx_sys_close(loop->wake_fd);
    (void)nx_sys_close(loop->epoll_fd);
    nx_map_fini(&loop->fd_by_id);
}

/* Whether the hook alone observes every event that |self| waits for. */
static bool is_plain(const nx_fd *self)
{
    return (self->on_spin == NULL) || ((self->events & ~(uint32_t)EPOLLIN) != 0);
}

nexar_err nx_loop_fd_add(nx_loop *loop, nx_fd *self, uint32_t events)
{
    uint64_t id = loop->fd_ids + 1;
    nexar_err err = nx_map_put(&loop->fd_by_id, id, self);

    if (err != NEXAR_OK) {
        return err;
    }
    err = control(loop, EPOLL_CTL_ADD, self->fd, events, id);
    if (err != NEXAR_OK) {
        (void)nx_map_take(&loop->fd_by_id, id);
        return err;
    }
    loop->fd_ids = id;
    self->id = id;
    self->events = events;
    assert((self->on_idle == NULL) || (self->on_spin != NULL));
    if (self->on_idle != NULL) {
        nx_list_push_front(&loop->fds, &self->link);
    } else {
        nx_list_push_back(&loop->fds, &self->link);
    }
    loop->fds_plain += is_plain(self);
    loop->fds_changes++;
    if (loop->sleeping && (self->on_idle != NULL) && self->on_idle(self, true)) {
        nx_loop_wake_driver(loop);
    }
    return NEXAR_OK;
}

nexar_err nx_loop_fd_change(nx_loop *loop, nx_fd *self, uint32_t events)
{
    nexar_err err;

    assert(self->id != 0);
    if (events == self->events) {
        return NEXAR_OK;
    }
    err = control(loop, EPOLL_CTL_MOD, self->fd, events, self->id);
    if (err != NEXAR_OK) {
        return err;
    }
    loop->fds_plain -= is_plain(self);
    self->events = events;
    loop->fds_plain += is_plain(self);
    return NEXAR_OK;
}

void nx_loop_fd_remove(nx_loop *loop, nx_fd *self)
{
    if (self->id == 0) {
        return;
    }
    /* Fails only if the descriptor was closed before; epoll has then removed it. */
    (void)epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, self->fd, NULL);
    (void)nx_map_take(&loop->fd_by_id, self->id);
    nx_list_remove(&self->link);
    loop->fds_plain -= is_plain(self);
    loop->fds_changes++;
    self->id = 0;
}

/* Milliseconds, rounded up: a timer is never early. */
static int ask_coarsely(nx_loop *loop, struct epoll_event *ready, uint64_t timeout_ns)
{
    int ms = -1;

    if (timeout_ns != UINT64_MAX) {
        uint64_t up = timeout_ns / 1000000 + ((timeout_ns % 1000000) != 0);

        ms = (up > 60000) ? 60000 : (int)up;
    }
    return nx_sys_epoll_wait(loop->epoll_fd, ready, NX_LOOP_BATCH, ms);
}

int nx_loop_fds_ask(nx_loop *loop, struct epoll_event *ready, uint64_t timeout_ns)
{
    int n;

    if ((timeout_ns == 0) || loop->coarse) { /* only the driver may sleep and touch |coarse| */
        n = ask_coarsely(loop, ready, timeout_ns);
    } else {
        n = nx_sys_epoll_pwait2(loop->epoll_fd, ready, NX_LOOP_BATCH, timeout_ns);
        if ((n < 0) && ((errno == ENOSYS) || (errno == EPERM))) {
            loop->coarse = true; /* before Linux 5.11, or denied by a seccomp filter */
            n = ask_coarsely(loop, ready, timeout_ns);
        }
    }
    return (n < 0) ? 0 : n;
}

void nx_loop_fds_dispatch(nx_loop *loop, const struct epoll_event *ready, int n)
{
    loop->dispatching = true;
    for (int i = 0; i < n; i++) {
        /* NULL if another callback or thread has removed the descriptor since; wake_fd is not in
         * the map either. */
        nx_fd *fd = nx_map_get(&loop->fd_by_id, ready[i].data.u64);
        uint32_t events = ready[i].events;

        if (fd == NULL) {
            continue;
        }
        events &= fd->events | (uint32_t)EPOLLERR | (uint32_t)EPOLLHUP;
        if (events != 0) {
            fd->on_ready(fd, events);
        }
    }
    loop->dispatching = false;
}

/* Records that the kernel was asked; |found|: and reported an event. */
static void note_asked(nx_loop *loop, bool found)
{
    loop->asked_ns = loop->now_ns;
    loop->silent = found ? 0 : loop->silent + 1;
}

static bool ask_epoll(nx_loop *loop)
{
    struct epoll_event ready[NX_LOOP_BATCH];
    int n = nx_loop_fds_ask(loop, ready, 0);

    note_asked(loop, n > 0);
    nx_loop_fds_dispatch(loop, ready, n);
    return n > 0;
}

static bool by_memory(const nx_loop *loop)
{
    return !nx_list_empty(&loop->fds) &&
           (nx_list_entry(loop->fds.next, nx_fd, link)->on_idle != NULL);
}

/* Whether the loop may skip the kernel for |span_ns|. A clock that stands still proves nothing. */
static bool is_silent(const nx_loop *loop, uint64_t span_ns)
{
    return (loop->silent >= SILENT_ASKS) && (loop->now_ns - loop->asked_ns < span_ns) &&
           (loop->clock == &nx_clock_system) && by_memory(loop);
}

/* Calls the spin hooks; |kernel|: also the hooks that ask the kernel. Returns whether one has found
 * something; |*hooks|: whether any hook exists. */
static bool ask_hooks(nx_loop *loop, bool kernel, bool *hooks)
{
    uint64_t changes = loop->fds_changes;
    bool found = false, told = false;

    *hooks = false;
    loop->dispatching = true;
    nx_list_for_each (at, &loop->fds) {
        nx_fd *fd = nx_list_entry(at, nx_fd, link);
        bool has;

        if ((fd->on_idle == NULL) && !kernel) {
            break;
        }
        if (fd->on_spin == NULL) {
            continue;
        }
        *hooks = true;
        has = fd->on_spin(fd);
        found = has || found;
        told = told || (has && (fd->on_idle == NULL));
        if (loop->fds_changes != changes) {
            found = true; /* the list has changed: the next poll starts over */
            break;
        }
    }
    loop->dispatching = false;
    if (kernel) {
        note_asked(loop, told);
    }
    return found;
}

bool nx_loop_fds_poll(nx_loop *loop)
{
    bool hooks, found;

    if (nx_list_empty(&loop->fds)) {
        return false;
    }
    if (loop->fds_plain > 0) {
        found = ask_hooks(loop, false, &hooks);
        return ask_epoll(loop) || found;
    }
    /* Epoll would give the same answer at the cost of one more call per packet. */
    (void)nx_loop_refresh(loop);
    return ask_hooks(loop, true, &hooks);
}

bool nx_loop_fds_glance(nx_loop *loop)
{
    bool hooks;

    return is_silent(loop, ASK_KICK_NS) ? ask_hooks(loop, false, &hooks) : nx_loop_fds_poll(loop);
}

bool nx_loop_fds_quiet(const nx_loop *loop)
{
    return is_silent(loop, ASK_NS);
}

/* Polls memory; repeats |times| times unless a thread wants the lock. */
static bool look(nx_loop *loop, int times)
{
    bool hooks;

    while (!ask_hooks(loop, false, &hooks)) {
        if ((--times <= 0) || nx_loop_is_wanted(loop)) {
            return false;
        }
        nx_cpu_pause();
    }
    return true;
}

/* The same for descriptors that nothing reaches through memory. */
static bool spin_in_kernel(nx_loop *loop)
{
    bool hooks, found = ask_hooks(loop, true, &hooks);

    if ((loop->fds_plain > 0) && (!hooks || (loop->spins % PLAIN_EVERY == 0))) {
        found = ask_epoll(loop) || found;
    }
    loop->spins++;
    return found;
}

bool nx_loop_fds_spin(nx_loop *loop, uint64_t since_ns, bool yields)
{
    bool found, hooks;

    if (!by_memory(loop)) {
        return spin_in_kernel(loop);
    }
    found = look(loop, yields ? 1 : BURST);
    if (is_silent(loop, ASK_NS) && (found || (loop->now_ns - since_ns < LULL_NS))) {
        return found;
    }
    if (loop->spins % KERNEL_EVERY == 0) {
        found = ask_hooks(loop, true, &hooks) || found;
    }
    if ((loop->fds_plain > 0) && (loop->spins % PLAIN_IN_MEMORY == 0)) {
        found = ask_epoll(loop) || found;
    }
    loop->spins++;
    return found;
}

bool nx_loop_fds_idle(nx_loop *loop, bool sleep)
{
    bool found = false;

    nx_list_for_each (at, &loop->fds) {
        nx_fd *fd = nx_list_entry(at, nx_fd, link);

        if (fd->on_idle == NULL) {
            break;
        }
        found = fd->on_idle(fd, sleep) || found;
    }
    return found;
}
