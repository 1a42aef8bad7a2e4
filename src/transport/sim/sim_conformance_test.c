/* sim_conformance_test.c - the suite of all transports, over networks of several kinds. */
#include <string.h>

#include "conformance.h"
#include "transport/sim/sim.h"
#include "unit.h"

#ifdef __SANITIZE_THREAD__
#define HUGE_PART false /* a minute of copying, and nothing to see in one thread */
#else
#define HUGE_PART true
#endif

#define MS UINT64_C(1000000)

/* A kind of network; the world is the net itself. */
typedef struct kind {
    const char *name;
    nx_sim_path path;
    uint64_t seed;
} kind;

typedef struct world {
    const kind *kind;
    nx_sim_net *net;
} world;

static void *setup(void *ctx)
{
    static world w;

    w = (world){.kind = ctx};
    assert_int_equal(nx_sim_create(&w.net, w.kind->seed, NULL), NEXAR_OK);
    return &w;
}

static void teardown(void *arg)
{
    world *w = arg;

    while (nx_sim_step(w->net)) {
    }
    nx_sim_destroy(w->net);
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

static bool progress(void *arg, bool (*done)(void *done_arg), void *done_arg)
{
    world *w = arg;

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

int main(void)
{
    static kind kinds[] = {
        {"sim: no delay at all", {0}, 1},
        {"sim: a plain network", {.rate = UINT64_C(1000000000), .delay_ns = 100000}, 2},
        {"sim: disorder, loss, a small window",
         {.rate = 100000000,
          .delay_ns = 5 * MS,
          .jitter_ns = 20 * MS,
          .loss_ppm = 20000,
          .retry_ns = 30 * MS,
          .window = 100000,
          .piece = 4000},
         3},
        {"sim: one packet at a time", {.delay_ns = MS, .window = 1, .piece = 60000}, 4},
    };
    int failed = 0;

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        nxt_transport_harness harness = {
            .name = kinds[i].name,
            .ctx = &kinds[i],
            .setup = setup,
            .teardown = teardown,
            .dial = dial,
            .progress = progress,
            .kill = kill_end,
            .links = 100,
            .huge = HUGE_PART && (i == 0),
        };

        failed += nxt_transport_conformance(&harness);
    }
    return failed;
}
