/*
 * host_death_test.c - a process is killed while the others of its host wait for it on their board,
 * or access its memory: all of them get an error that names it.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host_world.h"
#include "local_world.h"
#include "pid_space.h"
#include "procs.h"
#include "unit.h"

enum { RANKS = 4, LARGE = 1 << 20, TENSORS = 100 };

/* Shared memory of the processes of a trial. */
typedef struct shared {
    _Atomic uint64_t died_ns;
} shared;

/* The victim is killed at work, or while the others wait. */
typedef enum form { WAITING, ALLREDUCE, BUCKET, SHARDS, SCAN, BLOCKS, FORMS } form;

typedef struct plan {
    int victim;
    form form;
    shared *shared;
    char spin[16];
} plan;

/* ---- ranks ------------------------------------------------------------------------------ */

// NOLINTNEXTLINE(readability-non-const-parameter): it is written to through the tensors
static nexar_err bucket(nexar_comm *w, float *buf)
{
    nexar_tensor tensors[TENSORS];
    size_t off = 0;

    for (size_t i = 0; i < TENSORS; i++) {
        tensors[i] = (nexar_tensor){.ptr = buf + off, .count = LARGE / TENSORS - i};
        off += tensors[i].count;
    }
    return nexar_allreduce_bucketed(w, tensors, TENSORS, NEXAR_F32, NEXAR_MAX);
}

static nexar_err work(nexar_comm *w, const plan *p, float *buf)
{
    const void *in_place = NEXAR_IN_PLACE; // NOLINT(performance-no-int-to-ptr)
    const size_t each = LARGE / RANKS, counts[RANKS] = {each, each, each, each};

    switch ((int)p->form) {
    case WAITING:
        return nexar_barrier(w);
    case ALLREDUCE:
        return nexar_allreduce(w, in_place, buf, LARGE, NEXAR_F32, NEXAR_MAX);
    case BUCKET:
        return bucket(w, buf);
    case SHARDS:
        return nexar_allreduce_rs_ag(w, buf, LARGE, NEXAR_F32, NEXAR_MAX, NULL, NULL);
    case SCAN:
        return nexar_scan(w, in_place, buf, LARGE, NEXAR_F32, NEXAR_MAX);
    default:
        return nexar_alltoallv(w, in_place, NULL, NULL, buf, counts, NULL, NEXAR_F32);
    }
}

/* Works until an error occurs. */
static void lose(nexar_comm *w, const plan *p, float *buf)
{
    nexar_err err = NEXAR_OK;
    char name[32];

    while (err == NEXAR_OK) {
        err = work(w, p, buf);
    }
    (void)snprintf(name, sizeof(name), "rank %d", p->victim);
    NXT_IS(w, (err == NEXAR_EPEER) && (strstr(nexar_last_error(), name) != NULL));
    /* At once, except on a busy machine. */
    NXT_IS(w, nxt_now_ns() - atomic_load(&p->shared->died_ns) < UINT64_C(20000000000));
}

static void run_rank(nexar_comm *w, plan *p)
{
    const bool victim = (nexar_rank(w) == p->victim);
    void *buf = NULL;
    nexar_comm *rest = NULL;
    pthread_t killer;
    int32_t one = 1, all = 0;

    if (p->victim % 2 == 0) {
        buf = calloc(LARGE, sizeof(float));
    } else {
        NXT_OK(w, nexar_alloc(w, LARGE * sizeof(float), &buf));
    }
    NXT_IS(w, buf != NULL);
    NXT_OK(w, nexar_comm_split(w, victim ? 1 : 0, 0, &rest));
    nxt_host_warm_up(w);
    if (victim && (p->form == WAITING)) {
        nxt_die(&p->shared->died_ns);
    }
    if (victim) {
        NXT_IS(w, pthread_create(&killer, NULL, nxt_die_soon, &p->shared->died_ns) == 0);
    }
    lose(w, p, buf);
    /* Some may have completed one more operation: the victim had done its part. */
    NXT_IS(w, work(w, p, buf) == NEXAR_EPEER);
    for (int i = 0; i < 50; i++) { /* the others continue */
        NXT_OK(w, nexar_allreduce(rest, &one, &all, 1, NEXAR_I32, NEXAR_SUM));
        NXT_IS(w, all == RANKS - 1);
    }
    nexar_comm_free(rest);
    if (p->victim % 2 == 0) {
        free(buf);
    } else {
        nexar_free(w, buf);
    }
}

static void child(int rank, int join_fd, void *arg)
{
    plan *p = arg;
    const char *const settings[] = {"spin", p->spin, NULL};
    nexar_comm *w = nxt_procs_join(rank, join_fd, settings);

    run_rank(w, p);
    NXT_OK(w, nexar_finalize(w));
}

/* ---- the parent --------------------------------------------------------------------------- */

static void kill_one(plan *p)
{
    nxt_procs procs;

    p->shared = nxt_share(sizeof(*p->shared));
    nxt_procs_start(&procs, RANKS, child, p);
    nxt_procs_wait(&procs, 1U << p->victim, 0);
    nxt_unshare(p->shared, sizeof(*p->shared));
}

/* The creator of the board, and others; waiting ranks sleep, or spin first. */
static void test_who_waits_for_a_killed_rank_learns_of_it(void **state)
{
    (void)state;
    for (int victim = 0; victim < RANKS; victim += RANKS - 1) {
        plan p = {.victim = victim, .spin = "0"};
        kill_one(&p);
        (void)snprintf(p.spin, sizeof(p.spin), "1ms");
        kill_one(&p);
    }
}

static void test_who_works_with_a_killed_rank_learns_of_it(void **state)
{
    (void)state;
    for (int victim = 0; victim < RANKS; victim++) {
        plan p = {.victim = victim, .form = ALLREDUCE, .spin = "0"};
        kill_one(&p);
    }
    for (int i = BUCKET; i < FORMS; i++) {
        plan p = {.victim = i % RANKS, .form = (form)i, .spin = "0"};
        kill_one(&p);
        p.victim = (i + 1) % RANKS;
        (void)snprintf(p.spin, sizeof(p.spin), "20us");
        kill_one(&p);
    }
}

/* ---- the pid of a killed rank ------------------------------------------------------------- */

enum { VECTOR = 4 << 20, PATTERN = 0x5a };

/* A rank is killed while the other is in on_shard, and an unrelated process gets its pid.  That
 * process has memory at the address of the victim's vector. */
typedef struct reborn {
    shared s; /* shared by all processes from here on */
    _Atomic int in_hook, reborn, done;
    uint8_t *vector; /* the memory of each process, at the same address */
} reborn;

static nexar_err wait_in_hook(void *shard, size_t offset, size_t count, void *arg)
{
    reborn *r = arg;

    (void)shard;
    (void)offset;
    (void)count;
    atomic_fetch_add(&r->in_hook, 1);
    nxt_await(&r->reborn, 1);
    return NEXAR_OK;
}

static void reborn_rank(int rank, int join_fd, void *arg)
{
    reborn *r = arg;
    nexar_comm *w = nxt_procs_join(rank, join_fd, NULL);
    nexar_err err;

    nxt_host_warm_up(w);
    err = nexar_allreduce_rs_ag(w, r->vector, VECTOR / sizeof(float), NEXAR_F32, NEXAR_SUM,
                                wait_in_hook, r);
    NXT_IS(w, err == NEXAR_EPEER);
    NXT_IS(w, strstr(nexar_last_error(), "rank 1") != NULL);
    atomic_store(&r->done, 1);
    NXT_OK(w, nexar_finalize(w));
}

/* Ends by SIGKILL if no process has written to its memory. */
_Noreturn static void be_a_stranger(reborn *r)
{
    memset(r->vector, PATTERN, VECTOR);
    atomic_store(&r->reborn, 1);
    nxt_await(&r->done, 1);
    for (size_t i = 0; i < VECTOR; i++) {
        if (r->vector[i] != PATTERN) {
            _exit(1);
        }
    }
    nxt_die(&r->s.died_ns);
    _exit(1);
}

static int reuse_id(void *arg)
{
    reborn *r = arg;
    nxt_procs procs;
    pid_t stranger;

    nxt_procs_start(&procs, 2, reborn_rank, r);
    nxt_await(&r->in_hook, 2);
    nxt_procs_signal(&procs, 2, SIGKILL);
    if (waitpid(procs.pids[1], NULL, 0) != procs.pids[1]) {
        return 1;
    }
    stranger = nxt_pid_space_fork(procs.pids[1]);
    if (stranger == 0) {
        be_a_stranger(r);
    }
    nxt_procs_wait(&procs, 1U << 1, 0); /* of the second one, the unrelated process */
    return (stranger == procs.pids[1]) ? 0 : 1;
}

static void test_a_process_that_gets_the_id_of_a_killed_rank_is_left_alone(void **state)
{
    reborn *r = nxt_share(sizeof(*r));
    int code;

    (void)state;
    r->vector = mmap(NULL, VECTOR, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(r->vector, MAP_FAILED);
    code = nxt_pid_space_run(reuse_id, r);
    if (code < 0) {
        print_message("process ids cannot be chosen here: nothing was tested\n");
    } else {
        assert_int_equal(code, 0);
    }
    nxt_unshare(r->vector, VECTOR);
    nxt_unshare(r, sizeof(*r));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_waits_for_a_killed_rank_learns_of_it),
        cmocka_unit_test(test_who_works_with_a_killed_rank_learns_of_it),
        cmocka_unit_test(test_a_process_that_gets_the_id_of_a_killed_rank_is_left_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
