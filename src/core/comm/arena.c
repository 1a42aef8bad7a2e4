/* arena.c - nexar_alloc: this rank's memory in a sealed memfd, and mappings of other ranks'
 * arenas. */
#include "arena.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/containers/list.h"
#include "base/log.h"
#include "base/os/cancellation.h"
#include "base/os/sys.h"
#include "comm.h"
#include "core/world/fork_guard.h"
#include "transport/shm/segment.h"

/* Size of the reserved address space; memory is used only when touched. */
#define ARENA_SIZE ((size_t)1 << 36)
enum { PAGE = 4096 };

/* The segments of the arena, in address order and without gaps. */
typedef struct stretch {
    nx_list link;
    size_t off, len;
    bool used;
} stretch;

struct nx_arena {
    int fd;
    uint64_t inode;
    uint8_t *base;
    nx_list stretches;
};

/* ---- allocation and release ---------------------------------------------------------- */

static void punch(const nx_arena *a, size_t off, size_t len)
{
    if (nx_sys_fallocate(a->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)off,
                         (off_t)len) != 0) {
        nx_log(NX_LOG_DEBUG, "freed memory stays with the process: errno %d", errno);
    }
}

/* Splits |s| after |len| bytes.  False: no memory. */
static bool cut(stretch *s, size_t len)
{
    stretch *rest;

    if (s->len == len) {
        return true;
    }
    rest = nx_zalloc(sizeof(*rest));
    if (rest == NULL) {
        return false;
    }
    rest->off = s->off + len;
    rest->len = s->len - len;
    s->len = len;
    nx_list_push_front(&s->link, &rest->link);
    return true;
}

void *nx_arena_take(nx_arena *a, size_t bytes)
{
    const size_t len = (bytes + PAGE - 1) / PAGE * PAGE;

    if (len < bytes) {
        return NULL;
    }
    nx_list_for_each (at, &a->stretches) {
        stretch *s = nx_list_entry(at, stretch, link);

        if (!s->used && (s->len >= len)) {
            if (!cut(s, len)) {
                return NULL;
            }
            s->used = true;
            (void)madvise(a->base + s->off, s->len, MADV_DODUMP);
            return a->base + s->off;
        }
    }
    return NULL;
}

/* Joins |s| with its successor if both are free. */
static void join_next(const nx_arena *a, stretch *s)
{
    stretch *next;

    if (s->link.next == &a->stretches) {
        return;
    }
    next = nx_list_entry(s->link.next, stretch, link);
    if (!s->used && !next->used) {
        s->len += next->len;
        nx_list_remove(&next->link);
        nx_free(next);
    }
}

bool nx_arena_give_back(nx_arena *a, void *ptr)
{
    nx_list_for_each (at, &a->stretches) {
        stretch *s = nx_list_entry(at, stretch, link);

        if (s->used && (a->base + s->off == (uint8_t *)ptr)) {
            s->used = false;
            (void)madvise(a->base + s->off, s->len, MADV_DONTDUMP);
            punch(a, s->off, s->len);
            join_next(a, s);
            if (s->link.prev != &a->stretches) {
                join_next(a, nx_list_entry(s->link.prev, stretch, link));
            }
            return true;
        }
    }
    return false;
}

/* ---- life ---------------------------------------------------------------------------- */

nexar_err nx_arena_create(nx_arena **out)
{
    nx_arena *a = nx_zalloc(sizeof(*a));
    stretch *all = nx_zalloc(sizeof(*all));
    void *at = NULL;
    struct stat st;
    nexar_err err;

    if ((a == NULL) || (all == NULL)) {
        err = nx_fail_nomem("an arena");
        goto fail_free;
    }
    err = nx_memfd_create(ARENA_SIZE, &a->fd);
    if (err != NEXAR_OK) {
        goto fail_free;
    }
    err = nx_memfd_map(a->fd, ARENA_SIZE, &at);
    if ((err != NEXAR_OK) || (at == NULL) || (fstat(a->fd, &st) != 0)) {
        goto fail_close;
    }
    (void)madvise(at, ARENA_SIZE, MADV_DONTDUMP); /* a core dump includes only used segments */
    a->base = at;
    a->inode = (uint64_t)st.st_ino;
    nx_list_init(&a->stretches);
    all->len = ARENA_SIZE;
    nx_list_push_back(&a->stretches, &all->link);
    *out = a;
    return NEXAR_OK;

fail_close:
    (void)nx_sys_close(a->fd);
fail_free:
    nx_free(a);
    nx_free(all);
    return err;
}

void nx_arena_destroy(nx_arena *a)
{
    nx_list *at;

    if (a == NULL) {
        return;
    }
    punch(a, 0, ARENA_SIZE);
    (void)munmap(a->base, ARENA_SIZE);
    (void)nx_sys_close(a->fd);
    while ((at = nx_list_pop(&a->stretches)) != NULL) {
        nx_free(nx_list_entry(at, stretch, link));
    }
    nx_free(a);
}

void nx_arena_lend(const nx_arena *a, nx_lent *lent)
{
    if (a != NULL) {
        lent->arena = (uint64_t)(uintptr_t)a->base;
        lent->arena_size = ARENA_SIZE;
        lent->arena_inode = a->inode;
        lent->arena_fd = a->fd;
    }
}

/* ---- arenas of other ranks ----------------------------------------------------------- */

struct nx_arenas {
    pthread_mutex_t lock;
    uint32_t ranks;
    struct seen {
        nx_pidfd *process; /* NULL: not known yet */
        bool tried;
        uint64_t base;
        uint8_t *here; /* NULL: not mapped */
    } * of;
};

nexar_err nx_arenas_create(nx_arenas **out, uint32_t ranks)
{
    nx_arenas *as = nx_zalloc(sizeof(*as));
    struct seen *of = nx_calloc(ranks, sizeof(*of));

    if ((as == NULL) || (of == NULL)) {
        nx_free(as);
        nx_free(of);
        return nx_fail_nomem("arenas");
    }
    as->of = of;
    as->ranks = ranks;
    *out = as;
    return nx_fail_sys("pthread_mutex_init", "", pthread_mutex_init(&as->lock, NULL));
}

void nx_arenas_destroy(nx_arenas *as)
{
    if (as == NULL) {
        return;
    }
    for (uint32_t i = 0; i < as->ranks; i++) {
        nx_pidfd_unref(as->of[i].process);
        if (as->of[i].here != NULL) {
            (void)munmap(as->of[i].here, ARENA_SIZE);
        }
    }
    (void)pthread_mutex_destroy(&as->lock);
    nx_free(as->of);
    nx_free(as);
}

nexar_err nx_arenas_grow(nx_arenas *as, uint32_t ranks)
{
    struct seen *of;

    (void)pthread_mutex_lock(&as->lock);
    of = (ranks > as->ranks) ? nx_grow(as->of, ranks, sizeof(*of)) : as->of;
    if (of != NULL) {
        as->of = of;
        for (uint32_t i = as->ranks; i < ranks; i++) {
            of[i] = (struct seen){0};
        }
        as->ranks = (ranks > as->ranks) ? ranks : as->ranks;
    }
    (void)pthread_mutex_unlock(&as->lock);
    return (of == NULL) ? nx_fail_nomem("arenas") : NEXAR_OK;
}

nx_pidfd *nx_arenas_process(nx_arenas *as, uint32_t peer, int64_t pid, nx_pidfd *known)
{
    nx_pidfd *p = NULL;
    struct seen *s;

    (void)pthread_mutex_lock(&as->lock);
    s = (peer < as->ranks) ? &as->of[peer] : NULL;
    if ((s != NULL) && (s->process == NULL)) {
        s->process = (known != NULL) ? nx_pidfd_ref(known) : nx_pidfd_open((pid_t)pid);
    }
    p = (s != NULL) ? nx_pidfd_ref(s->process) : NULL;
    (void)pthread_mutex_unlock(&as->lock);
    return p;
}

void nx_arenas_drop(nx_arenas *as, uint32_t peer)
{
    struct seen *s;

    (void)pthread_mutex_lock(&as->lock);
    s = (peer < as->ranks) ? &as->of[peer] : NULL;
    if (s != NULL) {
        nx_pidfd_unref(s->process);
        s->process = NULL;
    }
    if ((s != NULL) && (s->here != NULL)) {
        (void)munmap(s->here, ARENA_SIZE);
        s->here = NULL;
    }
    (void)pthread_mutex_unlock(&as->lock);
}

/* Descriptor |number| of |process|, opened here; -1: it cannot be opened. */
static int open_of(const nx_pidfd *process, int64_t number)
{
    char path[64];
    int dir, fd = -1;

    (void)snprintf(path, sizeof(path), "/proc/%lld", (long long)nx_pidfd_pid(process));
    dir = nx_sys_open(path, O_PATH | O_DIRECTORY, 0);
    if (dir < 0) {
        return -1;
    }
    if (!nx_pidfd_exited(process)) { /* the directory belongs to this process, permanently */
        (void)snprintf(path, sizeof(path), "/proc/self/fd/%d/fd/%lld", dir, (long long)number);
        fd = nx_sys_open(path, O_RDWR | O_NONBLOCK | O_NOCTTY, 0);
    }
    (void)nx_sys_close(dir);
    return fd;
}

static void *map_arena(const nx_lent *lent, const nx_pidfd *process)
{
    struct stat st;
    void *at = NULL;
    const int fd = (process == NULL) ? -1 : open_of(process, lent->arena_fd);

    if (fd < 0) {
        return NULL;
    }
    if ((fstat(fd, &st) != 0) || ((uint64_t)st.st_ino != lent->arena_inode) ||
        (nx_memfd_map(fd, ARENA_SIZE, &at) != NEXAR_OK)) {
        at = NULL;
    }
    if (at != NULL) {
        (void)madvise(at, ARENA_SIZE, MADV_DONTDUMP);
    }
    (void)nx_sys_close(fd);
    return at;
}

void nx_arenas_see(nx_arenas *as, uint32_t peer, const nx_lent *lent, nx_remote_memory *far)
{
    struct seen *s;

    if (lent->arena_size != ARENA_SIZE) {
        return;
    }
    (void)pthread_mutex_lock(&as->lock);
    s = &as->of[peer];
    if (!s->tried) {
        s->tried = true;
        s->base = lent->arena;
        s->here = map_arena(lent, far->process);
        nx_log(NX_LOG_DEBUG, "the arena of rank %u %s", peer,
               (s->here != NULL) ? "is mapped" : "cannot be mapped: it is copied from and to");
    }
    if ((s->here != NULL) && (s->base == lent->arena)) {
        far->base = s->base;
        far->here = s->here;
        far->size = ARENA_SIZE;
    }
    (void)pthread_mutex_unlock(&as->lock);
}

/* ---- public -------------------------------------------------------------------------- */

static void *take(nx_world *world, size_t bytes)
{
    if ((world->arena == NULL) && !world->no_arena &&
        (nx_arena_create(&world->arena) != NEXAR_OK)) {
        world->no_arena = true;
        nx_log(NX_LOG_INFO, "nexar_alloc gives memory that is not shared: %s", nexar_last_error());
    }
    return (world->arena == NULL) ? NULL : nx_arena_take(world->arena, bytes);
}

nexar_err nexar_alloc(nexar_comm *comm, size_t bytes, void **ptr)
{
    NX_NOT_CANCELLED;
    nx_world *world;
    void *at = NULL;
    nexar_err err;

    if ((comm == NULL) || (ptr == NULL)) {
        return nx_fail(NEXAR_EINVAL, "alloc: %s is NULL", (comm == NULL) ? "comm" : "ptr");
    }
    err = nx_fork_guard_check("alloc", comm->world);
    if (err != NEXAR_OK) {
        return err;
    }
    world = comm->world;
    bytes = (bytes == 0) ? 1 : bytes;
    nx_loop_lock(world->loop);
    if (world->shm != NULL) {
        at = take(world, bytes);
    }
    nx_loop_unlock(world->loop);
    if (at == NULL) {
        at = nx_alloc_aligned(PAGE, bytes);
    }
    if (at == NULL) {
        return nx_fail(NEXAR_ENOMEM, "alloc: no memory for %zu bytes", bytes);
    }
    *ptr = at;
    return NEXAR_OK;
}

static bool in_arena(const nx_arena *a, const void *ptr)
{
    return (a != NULL) && ((uintptr_t)ptr - (uintptr_t)a->base < ARENA_SIZE);
}

void nexar_free(nexar_comm *comm, void *ptr)
{
    NX_NOT_CANCELLED;
    nx_world *world;
    bool ours;

    if ((comm == NULL) || (ptr == NULL) || (nx_fork_guard_check("free", comm->world) != NEXAR_OK)) {
        return;
    }
    world = comm->world;
    nx_loop_lock(world->loop);
    ours = in_arena(world->arena, ptr);
    if (ours && !nx_arena_give_back(world->arena, ptr)) {
        nx_log(NX_LOG_WARN, "nexar_free: %p is not the beginning of memory from nexar_alloc", ptr);
    }
    nx_loop_unlock(world->loop);
    if (!ours) {
        nx_free(ptr);
    }
}
