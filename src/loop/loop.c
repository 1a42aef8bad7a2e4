/* loop.c - making and ending a loop, its clock, and a turn on request. */
#include "loop/loop.h"

#include <assert.h>

#include "base/alloc.h"
#include "loop/internal.h"

nexar_err nx_loop_create(nx_loop **out, const nx_clock *clock)
{
    nx_loop *loop = nx_zalloc(sizeof(*loop));
    nexar_err err;

    if (loop == NULL) {
        return nx_fail_nomem("a progress engine");
    }
    loop->clock = clock;
    loop->background.fd = -1;
    nx_list_init(&loop->fds);
    nx_list_init(&loop->tasks);
    nx_list_init(&loop->waiters);
    err = nx_loop_fds_init(loop);
    if (err != NEXAR_OK) {
        goto fail_free;
    }
    err = nx_fail_sys("pthread_mutex_init", "", pthread_mutex_init(&loop->mutex, NULL));
    if (err != NEXAR_OK) {
        goto fail_fds;
    }
    (void)nx_loop_refresh(loop);
    *out = loop;
    return NEXAR_OK;

fail_fds:
    nx_loop_fds_fini(loop);
fail_free:
    nx_free(loop);
    return err;
}

void nx_loop_destroy(nx_loop *loop)
{
    if (loop == NULL) {
        return;
    }
    assert(!loop->background.running);
    assert(nx_list_empty(&loop->waiters));
    assert(nx_list_empty(&loop->fds));
    assert(nx_heap_top(&loop->timers) == NULL);
    (void)pthread_mutex_destroy(&loop->mutex);
    nx_loop_fds_fini(loop);
    nx_heap_fini(&loop->timers);
    nx_free(loop);
}

uint64_t nx_loop_now(const nx_loop *loop)
{
    return loop->now_ns;
}

uint64_t nx_loop_refresh(nx_loop *loop)
{
    uint64_t now_ns = nx_now(loop->clock);

    if (now_ns > loop->now_ns) {
        loop->now_ns = now_ns;
    }
    return loop->now_ns;
}

void nx_loop_set_spin(nx_loop *loop, uint64_t spin_ns)
{
    atomic_store_explicit(&loop->spin_ns, spin_ns, memory_order_relaxed);
    loop->misses = 0;
    loop->crowded_until_ns = 0;
}

void nx_loop_expect(nx_loop *loop, uint64_t at_ns)
{
    if (at_ns > loop->expected_ns) {
        loop->expected_ns = at_ns;
    }
}

void nx_loop_set_yield(nx_loop *loop, bool yields)
{
    atomic_store_explicit(&loop->yields, yields, memory_order_relaxed);
}

void nx_loop_set_crowd(nx_loop *loop, void (*look)(void *ctx), void *ctx, uint64_t every_ns)
{
    loop->look = look;
    loop->look_ctx = ctx;
    loop->look_every_ns = every_ns;
}

void nx_loop_kick(nx_loop *loop)
{
    if (loop->dispatching) {
        return; /* a callback asks: its turn does all this when it returns */
    }
    (void)nx_loop_refresh(loop);
    nx_loop_run_tasks(loop); /* first: the caller's packets leave before anything is read */
    if (!atomic_load_explicit(&loop->app_drives, memory_order_relaxed)) {
        (void)nx_loop_fds_glance(loop);
    }
    nx_loop_run_timers(loop);
    nx_loop_run_tasks(loop);
    nx_loop_note_visit(loop);
}

void nx_loop_flush(nx_loop *loop)
{
    if (loop->dispatching) {
        return;
    }
    if (nx_loop_fds_quiet(loop)) {
        nx_loop_run_tasks(loop); /* before the clock is read, which takes 30 ns */
        (void)nx_loop_refresh(loop);
        nx_loop_note_visit(loop);
    }
    if (!nx_loop_fds_quiet(loop)) {
        nx_loop_kick(loop);
    }
}

void nx_loop_settle(nx_loop *loop)
{
    if (!loop->dispatching) {
        nx_loop_run_tasks(loop);
    }
}
