/*
 * process_exit.c - descriptors of processes, in one epoll that the loop watches.
 *
 * The loop watches one descriptor, with a poll hook.  For descriptors without a hook the loop
 * would make one more system call for every packet.
 */
#include "core/failure/process_exit.h"

#include <sys/epoll.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/os/sys.h"
#include "core/world/transport_choice.h"

/* How often the hook polls, while the loop is too busy to sleep. */
#define ASK_NS UINT64_C(1000000)

enum { BATCH = 8 };

typedef struct watch {
    uint32_t slot;
    int fd;
} watch;

struct nx_process_exits {
    nx_world *world;
    nx_fd all; /* an epoll of the descriptors below, each with its slot */
    uint64_t asked_ns;
    uint32_t n;
    watch at[NX_PROCESS_EXIT_MOST];
};

static void drop(nx_process_exits *e, uint32_t i)
{
    /* Closing the descriptor does not remove it from the epoll: a forked child may hold it. */
    (void)epoll_ctl(e->all.fd, EPOLL_CTL_DEL, e->at[i].fd, NULL);
    (void)nx_sys_close(e->at[i].fd);
    e->at[i] = e->at[--e->n];
}

void nx_process_exit_forget(nx_world *world, uint32_t slot)
{
    nx_process_exits *e = world->process_exits;

    for (uint32_t i = 0; (e != NULL) && (i < e->n); i++) {
        if (e->at[i].slot == slot) {
            drop(e, i);
            return;
        }
    }
}

static void on_end(nx_process_exits *e, uint32_t slot)
{
    nx_world *world = e->world;
    nx_link *link = nx_msg_link(world->msg, slot);
    char text[NX_PEER_TEXT];

    nx_process_exit_forget(world, slot);
    /* A shared-memory link detects the exit itself, and has more to read than the socket holds. */
    if ((link != NULL) && !nx_shm_is(link)) {
        nx_log(NX_LOG_DEBUG, "the process of %s has ended", nx_world_peer_text(world, slot, text));
        nx_inet_link_exited(link);
    }
}

static bool ask(nx_process_exits *e)
{
    struct epoll_event ready[BATCH];
    const int n = nx_sys_epoll_wait(e->all.fd, ready, BATCH, 0);

    e->asked_ns = nx_loop_now(e->world->loop);
    for (int i = 0; i < n; i++) {
        on_end(e, ready[i].data.u32);
    }
    return n > 0;
}

static void on_ready(nx_fd *fd, uint32_t events)
{
    (void)events;
    (void)ask(nx_list_entry(fd, nx_process_exits, all));
}

static bool on_spin(nx_fd *fd)
{
    nx_process_exits *e = nx_list_entry(fd, nx_process_exits, all);

    return (nx_loop_now(e->world->loop) - e->asked_ns >= ASK_NS) && ask(e);
}

/* NULL: no memory, or no descriptor available. */
static nx_process_exits *make(nx_world *world)
{
    nx_process_exits *e = nx_zalloc(sizeof(*e));

    if (e == NULL) {
        return NULL;
    }
    e->world = world;
    e->all = (nx_fd){.fd = nx_sys_epoll_create(), .on_ready = on_ready, .on_spin = on_spin};
    if (e->all.fd < 0) {
        nx_free(e);
        return NULL;
    }
    if (nx_loop_fd_add(world->loop, &e->all, EPOLLIN) != NEXAR_OK) {
        (void)nx_sys_close(e->all.fd);
        nx_free(e);
        return NULL;
    }
    return e;
}

/* The distance of |slot| after this rank, on the circle of slots. */
static uint32_t distance(const nx_world *world, uint32_t slot)
{
    return (slot > world->self) ? slot - world->self : slot + (world->slots - world->self);
}

/* Whether there is a descriptor for |slot|, if necessary by replacing the farthest rank. */
static bool make_room(nx_process_exits *e, uint32_t slot)
{
    uint32_t last = 0;

    for (uint32_t i = 0; i < e->n; i++) {
        if (e->at[i].slot == slot) {
            return false; /* |slot| is already watched */
        }
        last =
            (distance(e->world, e->at[i].slot) > distance(e->world, e->at[last].slot)) ? i : last;
    }
    if (e->n < NX_PROCESS_EXIT_MOST) {
        return true;
    }
    if (distance(e->world, e->at[last].slot) < distance(e->world, slot)) {
        return false;
    }
    drop(e, last);
    return true;
}

void nx_process_exit_watch(nx_world *world, const nx_member *m)
{
    struct epoll_event event = {.events = EPOLLIN, .data = {.u32 = m->slot}};
    const int fd = nx_links_same_host(world, m) ? nx_process_open(&m->process) : -1;
    nx_process_exits *e;

    if (fd < 0) {
        return;
    }
    if (world->process_exits == NULL) {
        world->process_exits = make(world);
    }
    e = world->process_exits;
    if ((e == NULL) || !make_room(e, m->slot) ||
        (epoll_ctl(e->all.fd, EPOLL_CTL_ADD, fd, &event) != 0)) {
        (void)nx_sys_close(fd);
        return;
    }
    e->at[e->n++] = (watch){.slot = m->slot, .fd = fd};
}

void nx_process_exit_stop(nx_world *world)
{
    nx_process_exits *e = world->process_exits;

    if (e == NULL) {
        return;
    }
    while (e->n > 0) {
        drop(e, e->n - 1);
    }
    nx_loop_fd_remove(world->loop, &e->all);
    (void)nx_sys_close(e->all.fd);
    nx_free(e);
    world->process_exits = NULL;
}

uint32_t nx_process_exit_watched(const nx_world *world)
{
    return (world->process_exits == NULL) ? 0 : world->process_exits->n;
}
