/*
 * recovery_test.c - ranks as processes with recovery=automatic or abort, some of which are killed:
 * collectives of every kind end once, on a communicator that was rebuilt.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <nexar.h>

#include "core/comm/comm.h"
#include "local_world.h"
#include "procs.h"
#include "unit.h"

enum { MOST = 6, RANKS = 4, SMALL = 16, LARGE = 1 << 19, TAG = 5, ECHO = 3, ABORT_CODE = 76 };
static const double GENEROUS_S = 20; /* a loaded machine is slow at everything */

/* Shared memory of the processes, besides nexar. */
typedef struct board {
    _Atomic int ready;        /* ranks that are in their loops */
    _Atomic int inside;       /* threads that are in position */
    _Atomic uint64_t at;      /* the time of the failure */
    _Atomic uint64_t told;    /* the latest at which a survivor had its error */
    _Atomic uint64_t rebuilt; /* and had the result of its next collective */
} board;

typedef struct plan {
    const char *name;
    int ranks;
    unsigned victims; /* killed by the parent, as bits */
    unsigned late;    /* ranks that exit by themselves */
    void (*body)(nexar_comm *w);
    nexar_err (*op)(nexar_comm *c);
    const char *settings[9];
    int code;   /* expected at the survivors; 0: success */
    int inside; /* threads that must be in position before the kill */
} plan;

static board *shared;
static const char *transport;
static const plan *current;
static int own; /* this process's first rank */

static int living(void)
{
    return current->ranks - __builtin_popcount(current->victims | current->late);
}

/* ---- collectives ------------------------------------------------------------------------- */

static nexar_err op_small(nexar_comm *c)
{
    return nxt_sum_all(c, SMALL);
}

static nexar_err op_large(nexar_comm *c)
{
    return nxt_sum_all(c, LARGE);
}

static nexar_err op_broadcast(nexar_comm *c)
{
    int32_t v[SMALL] = {0};

    return nexar_broadcast(c, v, SMALL, NEXAR_I32, 0);
}

static nexar_err op_reduce(nexar_comm *c)
{
    int32_t v[SMALL] = {0}, sum[SMALL];

    return nexar_reduce(c, v, sum, SMALL, NEXAR_I32, NEXAR_SUM, 0);
}

static nexar_err op_allgather(nexar_comm *c)
{
    int32_t v = nexar_rank(c), all[MOST];

    return nexar_allgather(c, &v, all, 1, NEXAR_I32);
}

static nexar_err op_alltoall(nexar_comm *c)
{
    static int32_t out[MOST * LARGE / 8], in[MOST * LARGE / 8];

    return nexar_alltoall(c, out, in, LARGE / 8, NEXAR_I32);
}

static nexar_err op_scan(nexar_comm *c)
{
    int32_t v = 1, sum = 0;
    const nexar_err err = nexar_scan(c, &v, &sum, 1, NEXAR_I32, NEXAR_SUM);

    NXT_IS(c, (err != NEXAR_OK) || (sum == nexar_rank(c) + 1));
    return err;
}

static nexar_err op_bucketed(nexar_comm *c)
{
    float a[SMALL] = {0}, b[3] = {0};
    const nexar_tensor tensors[] = {{a, SMALL}, {b, 3}};

    return nexar_allreduce_bucketed(c, tensors, 2, NEXAR_F32, NEXAR_SUM);
}

static nexar_err no_change(void *shard, size_t offset, size_t count, void *arg)
{
    (void)shard;
    (void)offset;
    (void)count;
    (void)arg;
    return NEXAR_OK;
}

static nexar_err op_rs_ag(nexar_comm *c)
{
    float v[SMALL] = {0};

    return nexar_allreduce_rs_ag(c, v, SMALL, NEXAR_F32, NEXAR_SUM, no_change, NULL);
}

static nexar_err op_compressed(nexar_comm *c)
{
    float v[64] = {1}, residual[64] = {0};

    return nexar_allreduce_compressed(c, v, 64, NEXAR_F32, NEXAR_SUM, NEXAR_COMPRESS_TOPK, 0.25,
                                      residual);
}

static nexar_err op_split(nexar_comm *c)
{
    nexar_comm *half = NULL;
    const nexar_err err = nexar_comm_split(c, nexar_rank(c) % 2, 0, &half);

    nexar_comm_free(half);
    return err;
}

static nexar_err op_dup(nexar_comm *c)
{
    nexar_comm *same = NULL;
    const nexar_err err = nexar_comm_dup(c, &same);

    nexar_comm_free(same);
    return err;
}

/* Several at once: if one fails, so do all later ones. */
static nexar_err op_requests(nexar_comm *c)
{
    static float large[LARGE];
    int32_t one = 1, sum = 0, all[MOST];
    nexar_request *reqs[5] = {NULL};
    nexar_err first = NEXAR_OK;
    float v[64] = {1};

    NXT_OK(c, nexar_iallreduce(c, NEXAR_IN_PLACE, large, LARGE, NEXAR_F32, NEXAR_MAX, &reqs[0]));
    NXT_OK(c, nexar_iallreduce(c, &one, &sum, 1, NEXAR_I32, NEXAR_SUM, &reqs[1]));
    NXT_OK(c, nexar_iallgather(c, &one, all, 1, NEXAR_I32, &reqs[2]));
    NXT_OK(c, nexar_iallreduce_compressed(c, v, 64, NEXAR_F32, NEXAR_SUM, NEXAR_COMPRESS_F16, 0,
                                          NULL, &reqs[3]));
    NXT_OK(c, nexar_ibarrier(c, &reqs[4]));
    for (int i = 0; i < 5; i++) {
        const nexar_err err = nexar_wait(&reqs[i], NULL);

        NXT_IS(c, (err == NEXAR_OK) || (err == NEXAR_EPEER));
        first = (first == NEXAR_OK) ? err : first;
    }
    return first;
}

static nexar_err op_tested(nexar_comm *c)
{
    nexar_request *req = NULL;
    nexar_err err;
    bool done = false;

    NXT_OK(c, nexar_ibarrier(c, &req));
    do {
        err = nexar_test(&req, &done, NULL);
    } while (!done);
    return err;
}

/* Each rank by its own method. */
static nexar_err op_mixed(nexar_comm *c)
{
    nexar_request *req = NULL;

    switch (nexar_rank(c) % 3) {
    case 0:
        return nexar_barrier(c);
    case 1:
        NXT_OK(c, nexar_ibarrier(c, &req));
        return nexar_wait(&req, NULL);
    default:
        return op_tested(c);
    }
}

/* ---- programs of the ranks ---------------------------------------------------------------- */

/* The ranks behind the counts are in order and were in |c|. */
static void check_ranks(nexar_comm *c, const nexar_change *change)
{
    int ranks[MOST];

    for (int kind = NEXAR_CHANGE_JOINED; kind <= NEXAR_CHANGE_FAILED; kind++) {
        const int counts[] = {change->joined, change->left, change->failed};
        size_t n = MOST;

        NXT_OK(c, nexar_last_change_ranks(c, (nexar_change_kind)kind, ranks, &n));
        NXT_IS(c, n == (size_t)counts[kind]);
        for (size_t i = 0; i < n; i++) {
            NXT_IS(c, (ranks[i] < change->old_size) && (ranks[i] != change->old_rank));
            NXT_IS(c, (i == 0) || (ranks[i] > ranks[i - 1]));
        }
    }
}

/* |c| was rebuilt |changes| times, as far as this rank was notified. */
static void check_change(nexar_comm *c, int before)
{
    nexar_change change = {0};
    size_t n = 0;

    NXT_OK(c, nexar_last_change(c, &change));
    NXT_IS(c, change.old_size == before);
    NXT_IS(c, change.new_size == nexar_size(c));
    NXT_IS(c, change.new_rank == nexar_rank(c));
    NXT_IS(c, change.failed + change.left == before - nexar_size(c));
    NXT_IS(c, change.joined == 0);
    check_ranks(c, &change);
    NXT_OK(c, nexar_comm_failed(c, NULL, &n));
    NXT_IS(c, (n == 0) || (current->late != 0) || (__builtin_popcount(current->victims) > 1));
}

/* Repeats until |c| has the expected size; returns the number of errors. */
static int go_on(nexar_comm *c, nexar_err err)
{
    int errors = 0, before = nexar_size(c);

    while ((err != NEXAR_OK) || (nexar_size(c) != living())) {
        if (err != NEXAR_OK) {
            NXT_SAYS(c, err, NEXAR_EPEER, "rank ");
            errors++;
            check_change(c, (errors == 1) ? current->ranks : before);
        }
        before = nexar_size(c);
        err = op_small(c);
    }
    nxt_note_latest(&shared->rebuilt);
    return errors;
}

/* One operation after another, and nothing in between. */
static void loop(nexar_comm *w)
{
    nexar_err err;
    int errors;

    while ((err = current->op(w)) == NEXAR_OK) {
    }
    nxt_note_latest(&shared->told);
    errors = go_on(w, err);
    NXT_IS(w, (errors == 1) || (living() < current->ranks - 1));
    for (int i = 0; i < 20; i++) {
        NXT_OK(w, current->op(w));
    }
    NXT_OK(w, op_large(w));
}

/* The same on communicators made from the world: each is rebuilt separately. */
static void loop_others(nexar_comm *w)
{
    nexar_comm *same = NULL, *part = NULL;
    nexar_err err;

    NXT_OK(w, nexar_comm_dup(w, &same));
    NXT_OK(w, nexar_comm_split(w, nexar_rank(w) / 2, -nexar_rank(w), &part));
    NXT_OK(w, nexar_barrier(w));
    atomic_fetch_add(&shared->inside, 1);
    while ((err = op_small(same)) == NEXAR_OK) {
    }
    nxt_note_latest(&shared->told);
    NXT_IS(w, go_on(same, err) == 1);
    NXT_IS(w, nexar_size(w) == current->ranks); /* it was not notified so far */
    while ((err = op_small(w)) == NEXAR_OK) {
    }
    NXT_IS(w, go_on(w, err) == 1);
    if (nexar_rank(w) == 2) { /* was alone with the victim */
        NXT_SAYS(w, nexar_barrier(part), NEXAR_EPEER, "rank 2");
        NXT_IS(w, nexar_size(part) == 1);
    }
    for (int i = 0; i < 20; i++) {
        NXT_OK(w, op_small(part));
    }
    nexar_comm_free(part);
    nexar_comm_free(same);
}

static _Atomic int calls;

static void on_change(nexar_comm *c, const nexar_change *change, void *arg)
{
    NXT_IS(c, arg == &calls);
    NXT_IS(c, (change->left == 1) && (change->failed == 1) && (change->new_size == 2));
    NXT_IS(c, nexar_size(c) == 2);
    atomic_fetch_add(&calls, 1);
}

/* Rank 0 has freed the communicator when another rank fails: it is not in the communicator that the
 * others get. */
static void loop_freed(nexar_comm *w)
{
    nexar_comm *same = NULL;
    nexar_change change = {0};
    int gone[MOST];
    size_t n = MOST;
    nexar_err err = NEXAR_OK;

    NXT_OK(w, nexar_comm_dup(w, &same));
    NXT_OK(w, nexar_on_change(same, on_change, &calls));
    NXT_OK(w, nexar_barrier(w));
    atomic_fetch_add(&shared->inside, 1);
    if (nexar_rank(w) == 0) {
        nexar_comm_free(same);
    }
    while ((nexar_rank(w) != 0) && ((err = nexar_barrier(same)) == NEXAR_OK)) {
    }
    if (nexar_rank(w) != 0) {
        NXT_SAYS(w, err, NEXAR_EPEER, "rank 2");
        NXT_IS(w, nexar_size(same) == 2);
        NXT_OK(w, nexar_last_change(same, &change));
        NXT_IS(w, (change.left == 1) && (change.failed == 1));
        NXT_OK(w, nexar_last_change_ranks(same, NEXAR_CHANGE_LEFT, gone, &n));
        NXT_IS(w, (n == 1) && (gone[0] == 0));
        NXT_OK(w, nexar_last_change_ranks(same, NEXAR_CHANGE_FAILED, gone, &n));
        NXT_IS(w, (n == 1) && (gone[0] == 2));
        while (atomic_load(&calls) == 0) { /* on a thread of nexar */
            (void)usleep(1000);
        }
        NXT_IS(w, atomic_load(&calls) == 1);
        NXT_OK(w, op_small(same));
        nexar_comm_free(same);
    }
    nxt_note_latest(&shared->told);
    while ((err = op_small(w)) == NEXAR_OK) {
    }
    NXT_IS(w, go_on(w, err) == 1);
}

/* A communicator is freed with a request on it, and enough others after it that the machines kept
 * for the oldest are freed when that one is over. */
static void loop_given_back(nexar_comm *w)
{
    nexar_comm *same = NULL, *other = NULL;
    nexar_request *req = NULL;
    nexar_err err;
    char byte;

    NXT_OK(w, nexar_comm_dup(w, &same));
    for (int i = 0; i < 300; i++) {
        NXT_OK(w, nexar_comm_dup(w, &other));
        nexar_comm_free(other);
    }
    NXT_OK(w, nexar_barrier(w));
    if (nexar_rank(w) == 2) {
        atomic_fetch_add(&shared->inside, 1);
        (void)nexar_recv(w, &byte, 1, 2, TAG, NULL);
    }
    NXT_OK(w, nexar_ibarrier(same, &req));
    nexar_comm_free(same);
    atomic_fetch_add(&shared->inside, 1);
    NXT_IS(w, nexar_wait(&req, NULL) == NEXAR_EPEER);
    nxt_note_latest(&shared->told);
    while ((err = op_small(w)) == NEXAR_OK) {
    }
    NXT_IS(w, go_on(w, err) == 1);
}

/* Messages that were sent on the communicator and not received are dropped with it, and hold no
 * memory. */
static void loop_left_behind(nexar_comm *w)
{
    const char out[SMALL] = "";
    char byte = 'x';
    bool found = true;
    nx_msg_stats s;
    nexar_err err;

    for (int i = 0; i < 20 * current->ranks; i++) {
        if (i % current->ranks != nexar_rank(w)) {
            NXT_OK(w, nexar_send(w, out, sizeof(out), i % current->ranks, TAG));
        }
    }
    atomic_fetch_add(&shared->inside, 1);
    while ((err = op_small(w)) == NEXAR_OK) {
    }
    nxt_note_latest(&shared->told);
    NXT_IS(w, go_on(w, err) == 1);
    for (int i = 0; i < nexar_size(w); i++) { /* after everything that they have sent before */
        NXT_OK(w, nexar_send(w, &byte, 1, i, ECHO));
    }
    for (int i = 0; i < nexar_size(w); i++) {
        NXT_OK(w, nexar_recv(w, &byte, 1, i, ECHO, NULL));
    }
    NXT_OK(w, nexar_iprobe(w, NEXAR_ANY_SOURCE, NEXAR_ANY_TAG, &found, NULL));
    NXT_IS(w, !found);
    NXT_OK(w, nexar_barrier(w)); /* from which no message arrives any more */
    nx_loop_lock(w->world->loop);
    nx_msg_stats_get(w->world->msg, &s);
    nx_loop_unlock(w->world->loop);
    NXT_IS(w, s.unexpected == 0);
}

/* Two threads in collectives on one communicator, in which the victim takes no part. */
static void *one_barrier(void *arg)
{
    nexar_comm *c = arg;

    atomic_fetch_add(&shared->inside, 1);
    NXT_IS(c, nexar_barrier(c) == NEXAR_EPEER);
    return NULL;
}

static void loop_threads(nexar_comm *w)
{
    pthread_t other;
    char byte;

    if ((current->victims >> own) & 1) {
        (void)nexar_recv(w, &byte, 1, own, TAG, NULL); /* until it is killed */
    }
    NXT_IS(w, pthread_create(&other, NULL, one_barrier, w) == 0);
    (void)one_barrier(w);
    NXT_IS(w, pthread_join(other, NULL) == 0);
    nxt_note_latest(&shared->told);
    NXT_IS(w, nexar_size(w) == living());
    NXT_OK(w, op_small(w));
    nxt_note_latest(&shared->rebuilt);
}

/* Rank 1 waits for a message that never arrives, rank 0 is in a collective. */
static void loop_messages(nexar_comm *w)
{
    nexar_request *recv = NULL;
    nexar_err err;
    char byte = 'x';

    NXT_OK(w, nexar_irecv(w, &byte, 1, NEXAR_ANY_SOURCE, TAG, &recv));
    if (nexar_rank(w) != 0) {
        NXT_SAYS(w, nexar_wait(&recv, NULL), NEXAR_EREVOKED, "was revoked");
        NXT_SAYS(w, nexar_send(w, &byte, 1, 0, TAG), NEXAR_EREVOKED, "was revoked");
        NXT_SAYS(w, nexar_rpc_call(w, 0, ECHO, NULL, 0, NULL, NULL), NEXAR_EREVOKED, "was revoked");
        NXT_IS(w, nexar_size(w) == current->ranks);
    }
    while ((err = nexar_barrier(w)) == NEXAR_OK) {
    }
    nxt_note_latest(&shared->told);
    NXT_IS(w, go_on(w, err) == 1);
    NXT_IS(w, (recv == NULL) || (nexar_wait(&recv, NULL) == NEXAR_EREVOKED));
    if (nexar_rank(w) == 0) {
        NXT_OK(w, nexar_send(w, &byte, 1, nexar_size(w) - 1, TAG));
    } else if (nexar_rank(w) == nexar_size(w) - 1) {
        NXT_OK(w, nexar_recv(w, &byte, 1, 0, TAG, NULL));
    }
}

static nexar_err echo(nexar_rpc *call, const void *data, size_t bytes, void *arg)
{
    (void)arg;
    return nexar_rpc_reply(call, data, bytes);
}

/* Functions that were registered before serve the new communicator. */
static void loop_calls(nexar_comm *w)
{
    void *reply = NULL;
    size_t bytes = 0;
    nexar_err err;

    NXT_OK(w, nexar_rpc_register(w, ECHO, echo, NULL));
    while ((err = nexar_barrier(w)) == NEXAR_OK) {
    }
    nxt_note_latest(&shared->told);
    NXT_OK(w, nexar_rpc_register(w, ECHO + 1, echo, NULL));
    NXT_IS(w, go_on(w, err) == 1);
    for (int rank = 0; rank < nexar_size(w); rank++) {
        for (int fn = ECHO; fn <= ECHO + 1; fn++) {
            NXT_OK(w, nexar_rpc_call(w, rank, (uint16_t)fn, "abc", 3, &reply, &bytes));
            NXT_IS(w, (bytes == 3) && (memcmp(reply, "abc", 3) == 0));
            free(reply);
        }
    }
    NXT_OK(w, nexar_barrier(w));
}

static void die_too(nexar_comm *comm, int rank, const char *why, void *arg)
{
    (void)comm; /* where it may have another rank by now */
    (void)rank;
    (void)why;
    (void)arg;
    if (own == 0) {
        (void)raise(SIGKILL);
    }
}

/* Rank 0, which leads agreements, exits when it learns of the first failure. */
static void loop_chain(nexar_comm *w)
{
    NXT_OK(w, nexar_on_failure(w, die_too, NULL));
    loop(w);
}

/* One rank after another fails, each when the world was rebuilt without the previous one: the first
 * of the survivors. */
static void loop_row(nexar_comm *w)
{
    nexar_err err = NEXAR_OK;
    int errors = 0;

    while ((err != NEXAR_OK) || (nexar_size(w) > living())) {
        err = op_small(w);
        if (err != NEXAR_OK) {
            NXT_IS(w, err == NEXAR_EPEER);
            errors++;
            if ((nexar_rank(w) == 0) && (nexar_size(w) > living())) {
                (void)raise(SIGKILL);
            }
        }
    }
    NXT_IS(w, errors == current->ranks - living());
    nxt_note_latest(&shared->told);
    nxt_note_latest(&shared->rebuilt);
}

/* One of two ranks, without rank 0, has no quorum: an error, no world, and no hang. */
static void loop_minority(nexar_comm *w)
{
    nexar_request *req = NULL;
    nexar_change change = {0};
    nexar_err err;

    while ((err = op_small(w)) == NEXAR_OK) {
    }
    nxt_note_latest(&shared->told);
    NXT_SAYS(w, err, NEXAR_EPEER, "no majority");
    NXT_SAYS(w, nexar_barrier(w), NEXAR_EPEER, "not rebuilt");
    NXT_OK(w, nexar_ibarrier(w, &req));
    NXT_IS(w, nexar_wait(&req, NULL) == NEXAR_EPEER);
    NXT_OK(w, nexar_last_change(w, &change));
    NXT_IS(w, (nexar_size(w) == current->ranks) && (change.failed == 0));
    nxt_note_latest(&shared->rebuilt);
}

/* The last rank finalizes while the others continue. */
static void one_leaves(nexar_comm *w)
{
    nexar_err err;

    if (nexar_rank(w) == current->ranks - 1) {
        return;
    }
    while ((err = nexar_barrier(w)) == NEXAR_OK) {
    }
    NXT_IS(w, err == NEXAR_EPEER);
    NXT_IS(w, nexar_size(w) == current->ranks - 1);
    NXT_OK(w, op_small(w));
}

static void wait_for_the_end(nexar_comm *w)
{
    char byte;

    if (nexar_rank(w) % 2 == 0) {
        (void)nexar_recv(w, &byte, 1, nexar_rank(w), TAG, NULL);
    }
    while (op_small(w) == NEXAR_OK) {
    }
    for (;;) { /* it ends in any state */
        (void)nexar_recv(w, &byte, 1, nexar_rank(w), TAG, NULL);
    }
}

/* stderr is a full pipe that no process reads. */
static void stop_reading_stderr(void)
{
    static const char page[4096];
    int ends[2], flags;

    NXT_IS(NULL, pipe(ends) == 0);
    flags = fcntl(ends[1], F_GETFL);
    NXT_IS(NULL, fcntl(ends[1], F_SETFL, flags | O_NONBLOCK) == 0);
    while (write(ends[1], page, sizeof(page)) > 0) {
    }
    NXT_IS(NULL, fcntl(ends[1], F_SETFL, flags) == 0);
    NXT_IS(NULL, dup2(ends[1], STDERR_FILENO) == STDERR_FILENO);
}

static void wait_for_the_end_unread(nexar_comm *w)
{
    stop_reading_stderr();
    wait_for_the_end(w);
}

/* ---- processes ----------------------------------------------------------------------------- */

static void child(int rank, int join_fd, void *arg)
{
    nexar_comm *w = nxt_procs_join(rank, join_fd, current->settings);

    (void)arg;
    own = rank;
    NXT_OK(w, op_small(w));
    NXT_OK(w, nexar_barrier(w));
    atomic_fetch_add(&shared->ready, 1);
    current->body(w);
    (void)nexar_finalize(w);
}

static void run_plan(const plan *p)
{
    /* Well inside their loops; threads that begin only after a notification are too late. */
    const struct timespec nap = {.tv_nsec = (p->inside == 0) ? 50000000 : 500000000};
    nxt_procs procs;
    double told, rebuilt;

    current = p;
    shared = nxt_share(sizeof(*shared));
    nxt_procs_start(&procs, p->ranks, child, NULL);
    nxt_await(&shared->ready, p->ranks);
    nxt_await(&shared->inside, p->inside);
    (void)nanosleep(&nap, NULL);
    atomic_store(&shared->at, nxt_now_ns());
    nxt_procs_signal(&procs, p->victims, SIGKILL);
    nxt_procs_wait(&procs, p->victims | p->late, p->code);
    told = (shared->told == 0) ? 0 : (double)(shared->told - shared->at) / 1e6;
    rebuilt = (shared->rebuilt == 0) ? 0 : (double)(shared->rebuilt - shared->at) / 1e6;
    printf("%-5s %-34s told, and rebuilt, after %7.1f ms; next result after %7.1f ms\n", transport,
           p->name, told, rebuilt);
    assert_true(told < 1e3 * GENEROUS_S);
    assert_true(rebuilt < 1e3 * GENEROUS_S);
    nxt_unshare(shared, sizeof(*shared));
}

#define AUTOMATIC .settings = {"recovery", "automatic", "heartbeat_timeout", "1m", NULL}

static void test_every_collective_rebuilds_its_communicator(void **state)
{
    static const struct {
        const char *name;
        nexar_err (*op)(nexar_comm *c);
    } ops[] = {
        {"allreduce, small", op_small},
        {"allreduce, large", op_large},
        {"barrier", nexar_barrier},
        {"broadcast", op_broadcast},
        {"reduce", op_reduce},
        {"allgather", op_allgather},
        {"alltoall, large", op_alltoall},
        {"scan", op_scan},
        {"bucketed", op_bucketed},
        {"rs_ag", op_rs_ag},
        {"compressed", op_compressed},
        {"split", op_split},
        {"dup", op_dup},
        {"five requests at once", op_requests},
        {"a request that is tested", op_tested},
        {"blocking, waiting, testing", op_mixed},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
        const plan p = {.name = ops[i].name,
                        .ranks = RANKS,
                        .victims = 1U << (i % RANKS),
                        .body = loop,
                        .op = ops[i].op,
                        AUTOMATIC};

        run_plan(&p);
    }
}

static void test_what_else_is_on_a_communicator(void **state)
{
    static const plan plans[] = {
        {.name = "communicators of a world",
         .ranks = RANKS,
         .victims = 4,
         .body = loop_others,
         .inside = RANKS,
         AUTOMATIC},
        {.name = "one has freed it",
         .ranks = RANKS,
         .victims = 4,
         .body = loop_freed,
         .inside = RANKS,
         AUTOMATIC},
        {.name = "given back in use, many after it",
         .ranks = RANKS,
         .victims = 4,
         .body = loop_given_back,
         .inside = RANKS,
         AUTOMATIC},
        {.name = "messages are left behind",
         .ranks = RANKS,
         .victims = 4,
         .body = loop_left_behind,
         .inside = RANKS,
         AUTOMATIC},
        {.name = "two threads",
         .ranks = RANKS,
         .victims = 2,
         .body = loop_threads,
         .inside = 2 * (RANKS - 1),
         AUTOMATIC},
        {.name = "messages wait", .ranks = RANKS, .victims = 4, .body = loop_messages, AUTOMATIC},
        {.name = "remote calls", .ranks = RANKS, .victims = 2, .body = loop_calls, AUTOMATIC},
        {.name = "one finalizes", .ranks = RANKS, .body = one_leaves, AUTOMATIC},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(plans) / sizeof(plans[0]); i++) {
        run_plan(&plans[i]);
    }
}

static void test_several_deaths(void **state)
{
    static const plan plans[] = {
        {.name = "two at once",
         .ranks = 5,
         .victims = 2 | 8,
         .body = loop,
         .op = op_small,
         AUTOMATIC},
        {.name = "one more in the recovery",
         .ranks = 5,
         .victims = 8,
         .late = 1,
         .body = loop_chain,
         .op = op_small,
         AUTOMATIC},
        {.name = "three in a row",
         .ranks = 5,
         .victims = 4,
         .late = 1 | 2,
         .body = loop_row,
         AUTOMATIC},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(plans) / sizeof(plans[0]); i++) {
        run_plan(&plans[i]);
    }
}

static void test_a_minority_gets_an_error_and_no_world(void **state)
{
    static const plan p = {.name = "no quorum",
                           .ranks = 2,
                           .victims = 1,
                           .body = loop_minority,
                           .settings = {"recovery", "automatic", "quorum", "majority", NULL}};

    (void)state;
    run_plan(&p);
}

static void test_abort_ends_all(void **state)
{
    static const plan p = {.name = "abort",
                           .ranks = RANKS,
                           .victims = 4,
                           .body = wait_for_the_end,
                           .settings = {"recovery", "abort", NULL},
                           .code = ABORT_CODE};

    (void)state;
    run_plan(&p);
}

static void test_abort_ends_all_ranks_without_a_reader(void **state)
{
    static const plan p = {.name = "abort, stderr is full",
                           .ranks = RANKS,
                           .victims = 4,
                           .body = wait_for_the_end_unread,
                           .settings = {"recovery", "abort", NULL},
                           .code = ABORT_CODE};

    (void)state;
    run_plan(&p);
}

/* ---- without a failure -------------------------------------------------------------------- */

static void test_last_change_of_what_never_changed(void **state)
{
    nexar_change change = {.failed = 7};
    int rank;
    size_t n = 0;
    nexar_comm *w = NULL;

    (void)state;
    assert_int_equal(nexar_init(NULL, &w), NEXAR_OK);
    assert_int_equal(nexar_last_change(w, &change), NEXAR_OK);
    assert_int_equal(change.old_size, 1);
    assert_int_equal(change.new_size, 1);
    assert_int_equal(change.failed + change.joined + change.left, 0);
    assert_int_equal(nexar_last_change(NULL, &change), NEXAR_EINVAL);
    assert_int_equal(nexar_last_change(w, NULL), NEXAR_EINVAL);
    assert_int_equal(nexar_last_change_ranks(w, NEXAR_CHANGE_FAILED, NULL, &n), NEXAR_OK);
    assert_int_equal(n, 0);
    n = 1;
    assert_int_equal(nexar_last_change_ranks(w, NEXAR_CHANGE_FAILED, NULL, &n), NEXAR_EINVAL);
    assert_int_equal(nexar_last_change_ranks(w, (nexar_change_kind)3, &rank, &n), NEXAR_EINVAL);
    assert_int_equal(nexar_last_change_ranks(w, NEXAR_CHANGE_LEFT, &rank, NULL), NEXAR_EINVAL);
    assert_int_equal(nexar_last_change_ranks(NULL, NEXAR_CHANGE_LEFT, &rank, &n), NEXAR_EINVAL);
    assert_int_equal(nexar_on_change(NULL, NULL, NULL), NEXAR_EINVAL);
    assert_int_equal(nexar_on_change(w, NULL, NULL), NEXAR_OK);
    assert_int_equal(nexar_finalize(w), NEXAR_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_collective_rebuilds_its_communicator),
        cmocka_unit_test(test_what_else_is_on_a_communicator),
        cmocka_unit_test(test_several_deaths),
        cmocka_unit_test(test_a_minority_gets_an_error_and_no_world),
        cmocka_unit_test(test_abort_ends_all),
        cmocka_unit_test(test_abort_ends_all_ranks_without_a_reader),
        cmocka_unit_test(test_last_change_of_what_never_changed),
    };

    // NOLINTNEXTLINE(concurrency-mt-unsafe): there are no threads yet
    transport = getenv("NEXAR_TRANSPORTS");
    transport = (transport == NULL) ? "auto" : transport;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
