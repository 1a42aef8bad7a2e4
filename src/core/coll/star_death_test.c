/*
 * star_death_test.c - a process is killed while other ranks wait for it, or it for them, in short
 * operations through one rank (coll/building_blocks/star.h), over QUIC: all of them get an error
 * that names it, and none reports a mismatch.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "local_world.h"
#include "procs.h"
#include "unit.h"

enum { RANKS = 4, COUNT = 16 };

typedef struct shared {
    _Atomic uint64_t died_ns;
    _Atomic int began; /* ranks that have completed the first operation */
} shared;

typedef enum form { BROADCAST, REDUCE, GATHER, SCATTER, ALLGATHER, ALLTOALL, FORMS } form;

typedef struct plan {
    int victim, root;
    form form;
    bool waiting; /* it is killed while the others wait; otherwise at work */
    shared *shared;
} plan;

/* ---- ranks ------------------------------------------------------------------------------ */

static nexar_err work(nexar_comm *w, const plan *p)
{
    float a[COUNT * RANKS] = {0}, b[COUNT * RANKS] = {0};

    switch (p->form) {
    case BROADCAST:
        return nexar_broadcast(w, a, COUNT, NEXAR_F32, p->root);
    case REDUCE:
        return nexar_reduce(w, a, b, COUNT, NEXAR_F32, NEXAR_SUM, p->root);
    case GATHER:
        return nexar_gather(w, a, b, COUNT, NEXAR_F32, p->root);
    case SCATTER:
        return nexar_scatter(w, a, b, COUNT, NEXAR_F32, p->root);
    case ALLGATHER:
        return nexar_allgather(w, a, b, COUNT, NEXAR_F32);
    case ALLTOALL:
    case FORMS:
        break;
    }
    return nexar_alltoall(w, a, b, COUNT, NEXAR_F32);
}

static void run_rank(nexar_comm *w, plan *p)
{
    const bool victim = (nexar_rank(w) == p->victim);
    nexar_err err = NEXAR_OK;
    nexar_comm *rest = NULL;
    int32_t one = 1, all = 0;
    pthread_t killer;
    char name[32];

    NXT_OK(w, nexar_comm_split(w, victim ? 1 : 0, 0, &rest));
    NXT_OK(w, work(w, p));
    atomic_fetch_add(&p->shared->began, 1);
    /* A rank without a result yet would fail in that one. */
    for (int i = 0; victim && (i < 60000) && (atomic_load(&p->shared->began) < RANKS); i++) {
        (void)usleep(1000);
    }
    if (victim && p->waiting) {
        nxt_die(&p->shared->died_ns);
    }
    if (victim) {
        NXT_IS(w, pthread_create(&killer, NULL, nxt_die_soon, &p->shared->died_ns) == 0);
    }
    while (err == NEXAR_OK) {
        err = work(w, p);
    }
    (void)snprintf(name, sizeof(name), "rank %d", p->victim);
    NXT_IS(w, (err == NEXAR_EPEER) && (strstr(nexar_last_error(), name) != NULL));
    /* At once, except on a busy machine. */
    NXT_IS(w, nxt_now_ns() - atomic_load(&p->shared->died_ns) < UINT64_C(20000000000));
    NXT_IS(w, work(w, p) == NEXAR_EPEER);
    NXT_OK(w, nexar_allreduce(rest, &one, &all, 1, NEXAR_I32, NEXAR_SUM));
    NXT_IS(w, all == RANKS - 1);
    nexar_comm_free(rest);
}

static void child(int rank, int join_fd, void *arg)
{
    const char *const settings[] = {"transports", "quic", NULL};
    nexar_comm *w = nxt_procs_join(rank, join_fd, settings);

    run_rank(w, arg);
    NXT_OK(w, nexar_finalize(w));
}

/* ---- the parent --------------------------------------------------------------------------- */

static void kill_one(plan p)
{
    nxt_procs procs;

    p.shared = nxt_share(sizeof(*p.shared));
    nxt_procs_start(&procs, RANKS, child, &p);
    nxt_procs_wait(&procs, 1U << p.victim, 0);
    nxt_unshare(p.shared, sizeof(*p.shared));
}

static void test_who_waits_for_a_killed_rank_learns_of_it(void **state)
{
    (void)state;
    for (int i = 0; i < FORMS; i++) {
        kill_one((plan){.form = (form)i, .root = 1, .victim = 1, .waiting = true});
        kill_one((plan){.form = (form)i, .root = 1, .victim = 2, .waiting = true});
    }
}

static void test_who_works_with_a_killed_rank_learns_of_it(void **state)
{
    (void)state;
    for (int i = 0; i < FORMS; i++) {
        kill_one((plan){.form = (form)i, .root = 0, .victim = 0});
        kill_one((plan){.form = (form)i, .root = 0, .victim = 3});
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_waits_for_a_killed_rank_learns_of_it),
        cmocka_unit_test(test_who_works_with_a_killed_rank_learns_of_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
