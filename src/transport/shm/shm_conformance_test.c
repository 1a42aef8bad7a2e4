/*
 * shm_conformance_test.c - the suite of all transports, over shared memory: each end has an
 * endpoint of its own, all on one loop. Once with reads of the other side's memory, once without.
 */
#include <fcntl.h>
#include <sys/epoll.h>

#include "base/alloc.h"
#include "base/containers/vec.h"
#include "base/os/sys.h"
#include "conformance.h"
#include "shm_inner.h"
#include "unit.h"

typedef struct world world;

typedef struct end {
    world *world;
    uint64_t member;
    nx_shm *shm;
    const nx_link_up *up; /* of accepted links */
    void *up_ctx;
} end;

struct world {
    nx_loop *loop;
    bool no_reading;
    end **ends;
    size_t n, room;
};

static void *setup(void *ctx)
{
    static world w;

    w = (world){.no_reading = (ctx != NULL)};
    assert_int_equal(nx_loop_create(&w.loop, &nx_clock_system), NEXAR_OK);
    nx_loop_lock(w.loop);
    return &w;
}

static void destroy_end(end *e)
{
    nx_shm_close(e->shm);
    nx_free(e);
}

static void teardown(void *arg)
{
    world *w = arg;

    for (size_t i = 0; i < w->n; i++) {
        destroy_end(w->ends[i]);
    }
    nx_free(w->ends);
    nx_loop_unlock(w->loop);
    nx_loop_destroy(w->loop);
}

static bool find(void *ctx, uint64_t member, nx_shm_offer *offer)
{
    const end *e = ctx;

    for (size_t i = 0; i < e->world->n; i++) {
        if (e->world->ends[i]->member == member) {
            *offer = *nx_shm_offer_of(e->world->ends[i]->shm);
            return true;
        }
    }
    return false;
}

static void on_accept(void *ctx, nx_link *link, uint64_t member)
{
    end *e = ctx;

    (void)member;
    link->up = e->up;
    link->up_ctx = e->up_ctx;
}

static nexar_err make_end(world *w, uint64_t member, const nx_link_up *up, void *up_ctx)
{
    end **ends = nx_vec_grow(w->ends, &w->room, w->n + 1, sizeof(end *));
    end *e = nx_zalloc(sizeof(*e));
    nx_shm_config config = {.loop = w->loop,
                            .random = &nx_random_system,
                            .no_reading = w->no_reading,
                            .find = find,
                            .on_accept = on_accept,
                            .ctx = e};
    nexar_err err = NEXAR_ENOMEM;

    w->ends = (ends != NULL) ? ends : w->ends;
    if ((e == NULL) || (ends == NULL)) {
        nx_free(e);
        return err;
    }
    *e = (end){.world = w, .member = member, .up = up, .up_ctx = up_ctx};
    err = nx_shm_open(&e->shm, &config);
    if (err != NEXAR_OK) {
        nx_free(e);
        return err;
    }
    w->ends[w->n++] = e;
    return nx_shm_start(e->shm, member);
}

/* The lower and the higher member dial alternately. */
static nexar_err dial(void *arg, const nx_link_up *up, void *const up_ctx[2], nx_link **dialled)
{
    static uint64_t members;
    uint64_t first = (members % 4 == 0) ? 1 : 2;
    world *w = arg;
    nexar_err err = make_end(w, members + first, up, up_ctx[0]);

    if (err == NEXAR_OK) {
        err = make_end(w, members + 3 - first, up, up_ctx[1]);
    }
    if (err == NEXAR_OK) {
        err = nx_shm_dial(w->ends[w->n - 2]->shm, members + 3 - first, up, up_ctx[0], dialled);
    }
    members += 2;
    return err;
}

/* One iteration at a time, without sleeping: the copies are fast, and the suite observes them half
 * done. Now and then sleeps, which must not cost a wake-up. */
static bool progress(void *arg, bool (*done)(void *done_arg), void *done_arg)
{
    world *w = arg;
    uint64_t end_ns = nx_loop_refresh(w->loop) + UINT64_C(60000000000);
    unsigned turns = 0;

    while (!done(done_arg)) {
        nx_event never = {0};
        uint64_t now_ns = nx_loop_refresh(w->loop);

        if (now_ns > end_ns) {
            return false;
        }
        (void)nx_loop_wait(w->loop, &never, (++turns % 8 == 0) ? now_ns + 100000 : 0);
    }
    return true;
}

/* No upcall is made any more, and the socket closes silently. */
static void kill_end(void *arg, nx_link *link)
{
    static const nx_link_up silent = {.on_sent = nx_link_sent_ignored};
    nx_shm *shm = nx_shm_from_base(link)->shm;
    int null_fd = nx_sys_open("/dev/null", O_RDWR, 0);
    world *w = arg;

    assert_true(null_fd >= 0);
    assert_true(nx_sys_dup2(null_fd, nx_shm_from_base(link)->socket.fd) >= 0);
    (void)nx_sys_close(null_fd);
    link->up = &silent;
    for (size_t i = 0; i < w->n; i++) {
        if (w->ends[i]->shm == shm) {
            destroy_end(w->ends[i]);
            w->ends[i] = w->ends[--w->n];
            return;
        }
    }
}

static void hold(void *arg, nx_link *link, bool held)
{
    nx_shm *shm = nx_shm_from_base(link)->shm;
    const world *w = arg;

    if (held) {
        nx_loop_fd_remove(w->loop, &shm->bell);
    } else {
        assert_int_equal(nx_loop_fd_add(w->loop, &shm->bell, EPOLLIN), NEXAR_OK);
    }
}

int main(void)
{
    nxt_transport_harness harness = {
        .name = "shm",
        .setup = setup,
        .teardown = teardown,
        .dial = dial,
        .progress = progress,
        .kill = kill_end,
        .hold = hold,
        .links = 20,
        .huge = true,
        .oom_most = 0,
    };
    int failed = nxt_transport_conformance(&harness);

    harness.name = "shm, without reading the other's memory";
    harness.ctx = &harness;
    return failed + nxt_transport_conformance(&harness);
}
