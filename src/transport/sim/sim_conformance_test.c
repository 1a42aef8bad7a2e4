/* sim_conformance_test.c - the suite of all transports, over networks of several kinds. */
#include <string.h>

#include "conformance.h"
#include "transport/sim/sim.h"
#include "unit.h"

/* ThreadSanitizer makes copies expensive, and has nothing to check in one thread. */
#ifdef __SANITIZE_THREAD__
enum { FIRST_KIND = 3 };
#else
enum { FIRST_KIND = 0 };
#endif

#define MS UINT64_C(1000000)

/* A kind of network; |real|: on a loop, in real time, like sockets. */
typedef struct kind {
    const char *name;
    nx_sim_path path;
    uint64_t seed;
    bool real;
} kind;

typedef struct world {
    const kind *kind;
    nx_sim_net *net;
    nx_loop *loop; /* NULL: virtual time */
} world;

static void *setup(void *ctx)
{
    static world w;

    w = (world){.kind = ctx};
    if (w.kind->real) {
        assert_int_equal(nx_loop_create(&w.loop, &nx_clock_system), NEXAR_OK);
        nx_loop_lock(w.loop);
    }
    assert_int_equal(nx_sim_create(&w.net, w.kind->seed, w.loop), NEXAR_OK);
    return &w;
}

static void teardown(void *arg)
{
    world *w = arg;

    while ((w->loop == NULL) && nx_sim_step(w->net)) {
    }
    nx_sim_destroy(w->net);
    if (w->loop != NULL) {
        nx_loop_unlock(w->loop);
        nx_loop_destroy(w->loop);
    }
}

static nexar_err dial(void *arg, const nx_link_up *up, void *const up_ctx[2], nx_link **dialled)
{
    world *w = arg;
    nx_sim_end ends[2] = {{up, up_ctx[0]}, {up, up_ctx[1]}};
    nx_link *links[2];
    nexar_err err = nx_sim_pair(w->net, &w->kind->path, ends, links);

    if (err == NEXAR_OK) {
        *dialled = links[0];
    }
    return err;
}

/* Every wait is short: the suite checks its condition after every iteration. */
static bool progress_for_real(nx_loop *loop, bool (*done)(void *done_arg), void *done_arg)
{
    uint64_t deadline_ns = nx_loop_now(loop) + 30000 * MS;
    nx_event never = {0};

    while (!done(done_arg)) {
        if (nx_loop_now(loop) > deadline_ns) {
            return false;
        }
        (void)nx_loop_wait(loop, &never, nx_loop_now(loop) + MS / 10);
    }
    return true;
}

static bool progress(void *arg, bool (*done)(void *done_arg), void *done_arg)
{
    world *w = arg;

    if (w->loop != NULL) {
        return progress_for_real(w->loop, done, done_arg);
    }
    while (!done(done_arg)) {
        if (!nx_sim_step(w->net)) {
            return false;
        }
    }
    return true;
}

static void kill_end(void *arg, nx_link *link)
{
    (void)arg;
    nx_sim_kill(link);
}

static void hold(void *arg, nx_link *link, bool held)
{
    (void)arg;
    nx_sim_block(link, held);
}

int main(void)
{
    static kind kinds[] = {
        {.name = "sim: no delay at all", .seed = 1},
        {.name = "sim: a plain network",
         .path = {.rate = UINT64_C(1000000000), .delay_ns = MS / 10},
         .seed = 2},
        {.name = "sim: disorder, loss, a small window",
         .path = {.rate = 100000000,
                  .delay_ns = 5 * MS,
                  .jitter_ns = 20 * MS,
                  .loss_ppm = 20000,
                  .retry_ns = 30 * MS,
                  .window = 100000,
                  .piece = 4000},
         .seed = 3},
        {.name = "sim: one packet at a time",
         .path = {.delay_ns = MS, .window = 1, .piece = 60000},
         .seed = 4},
        {.name = "sim: in real time",
         .path = {.delay_ns = MS / 50, .jitter_ns = MS / 50},
         .seed = 5,
         .real = true},
    };
    int failed = 0;

    for (size_t i = FIRST_KIND; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        nxt_transport_harness harness = {
            .name = kinds[i].name,
            .ctx = &kinds[i],
            .setup = setup,
            .teardown = teardown,
            .dial = dial,
            .progress = progress,
            .kill = kill_end,
            .hold = hold,
            .links = 100,
            .huge = (i == 0),
        };

        failed += nxt_transport_conformance(&harness);
    }
    return failed;
}
