/*
 * failure_test.c - ranks as processes, some of which are killed or stopped: the others detect it,
 * agree, and continue without them.
 */
#include <pthread.h>
#include <regex.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <nexar.h>

#include "local_world.h"
#include "procs.h"
#include "unit.h"

enum { MOST = 6, SMALL = 16, LARGE = 1 << 20, TAG = 5 };
static const double GENEROUS_S = 20; /* a loaded machine is slow at everything */

/* Shared memory of the processes, besides nexar. */
typedef struct board {
    _Atomic int ready; /* ranks that are in their loops */
    _Atomic int done;
    _Atomic int said;         /* have checked their messages, and may leave */
    _Atomic int told[MOST];   /* calls of on_failure */
    _Atomic uint64_t at;      /* when it happened */
    _Atomic uint64_t known;   /* the latest at which a survivor knew */
    _Atomic uint64_t rebuilt; /* and had the result of its next collective */
    _Atomic uint64_t final[MOST];
} board;

static board *shared;
static const char *transport;

/* ---- programs of the ranks --------------------------------------------------------------- */

typedef struct plan {
    const char *name;
    int ranks;
    unsigned victims; /* bits */
    int sig;
    void (*body)(nexar_comm *w);
    const char *interval, *timeout; /* NULL: as preset */
    bool late;                      /* another rank besides the victims exits by itself */
} plan;

static const plan *current;

static int living(void)
{
    return current->ranks - __builtin_popcount(current->victims) - (current->late ? 1 : 0);
}

/* The parts of an error message, in this order: the operation, a rank, its host and address, the
 * reason, the time. */
static void check_sentence(nexar_comm *w, const char *operation)
{
    char pattern[256];
    regex_t re;

    (void)snprintf(pattern, sizeof(pattern),
                   "^%s: .*rank [0-9]+ \\([^,]+, [^ ]+:[0-9]+\\)( has failed)?: .+, at "
                   "[0-9]{2}:[0-9]{2}:[0-9]{2} UTC",
                   operation);
    NXT_IS(w, regcomp(&re, pattern, REG_EXTENDED | REG_NOSUB) == 0);
    NXT_IS(w, regexec(&re, nexar_last_error(), 0, NULL, 0) == 0);
    regfree(&re);
}

/* From the first error to a communicator that works. */
static void recover(nexar_comm *w, nexar_err err)
{
    nexar_comm *c = w, *next;
    int left[MOST];
    size_t n = MOST;
    char byte = 'x';

    if (err == NEXAR_EPEER) {
        NXT_IS(w, strstr(nexar_last_error(), "rank ") != NULL);
        NXT_IS(w, strstr(nexar_last_error(), " UTC") != NULL); /* the time of the failure */
    } else {
        NXT_IS(w, err == NEXAR_EREVOKED);
    }
    nxt_note_latest(&shared->known);
    while ((err != NEXAR_OK) || (nexar_size(c) != living())) { /* one may still be about to fail */
        if (err != NEXAR_OK) {
            NXT_IS(w, (err == NEXAR_EPEER) || (err == NEXAR_EREVOKED));
            NXT_OK(w, nexar_comm_revoke(c));
            NXT_IS(w, nexar_barrier(c) == NEXAR_EREVOKED);
            NXT_IS(w, nexar_send(c, &byte, 1, nexar_rank(c), TAG) == NEXAR_EREVOKED);
            NXT_OK(w, nexar_comm_shrink(c, &next));
            if (c != w) {
                nexar_comm_free(c);
            }
            c = next;
        }
        err = nxt_sum_all(c, SMALL);
    }
    nxt_note_latest(&shared->rebuilt);
    NXT_OK(w, nexar_comm_failed(w, left, &n));
    NXT_IS(w, (int)n == current->ranks - living());
    for (size_t i = 0; i < n; i++) {
        NXT_IS(w, current->late || ((current->victims >> left[i]) & 1));
    }
    n = 0;
    NXT_OK(w, nexar_comm_failed(c, NULL, &n));
    NXT_IS(w, n == 0);
    NXT_OK(w, nxt_sum_all(c, LARGE));
    NXT_OK(w, nexar_barrier(c));
    nexar_comm_free(c);
}

static void loop_small(nexar_comm *w)
{
    nexar_err err;

    while ((err = nxt_sum_all(w, SMALL)) == NEXAR_OK) {
    }
    recover(w, err);
}

static void loop_large(nexar_comm *w)
{
    nexar_err err;

    while ((err = nxt_sum_all(w, LARGE)) == NEXAR_OK) {
    }
    recover(w, err);
}

static void loop_barrier(nexar_comm *w)
{
    nexar_err err;

    while ((err = nexar_barrier(w)) == NEXAR_OK) {
    }
    recover(w, err);
}

/* Ranks that are not neighbours of the victim wait for one that has revoked the communicator. */
static void loop_ring(nexar_comm *w)
{
    const int n = nexar_size(w), me = nexar_rank(w);
    nexar_err err;
    char out[64] = "", in[64];

    do {
        err = nexar_sendrecv(w, out, sizeof(out), (me + 1) % n, TAG, in, sizeof(in),
                             (me + n - 1) % n, TAG, NULL);
    } while (err == NEXAR_OK);
    recover(w, err);
}

static void die_too(nexar_comm *comm, int rank, const char *why, void *arg)
{
    (void)rank;
    (void)why;
    (void)arg;
    if (nexar_rank(comm) == 0) {
        (void)raise(SIGKILL);
    }
}

/* Rank 0, which leads agreements, exits when it learns of the first failure. */
static void loop_chain(nexar_comm *w)
{
    NXT_OK(w, nexar_on_failure(w, die_too, NULL));
    loop_small(w);
}

/* Agreements until all know of the failure: equal results, also of the last. */
static void loop_agree(nexar_comm *w)
{
    const uint64_t unknown = UINT64_C(1) << 63, all = ~UINT64_C(0);
    uint64_t flags, rounds = 0;
    nexar_comm *c;
    size_t n;

    do {
        n = 0;
        NXT_OK(w, nexar_comm_failed(w, NULL, &n));
        flags = all & ~(UINT64_C(1) << nexar_rank(w));
        flags &= (n > 0) ? ~unknown : all;
        NXT_OK(w, nexar_comm_agree(w, &flags));
        rounds = rounds * 31 + flags;
    } while (flags & unknown);
    NXT_IS(w, !(flags & (UINT64_C(1) << nexar_rank(w))));
    atomic_store(&shared->final[nexar_rank(w)], rounds);
    nxt_note_latest(&shared->known);
    NXT_OK(w, nexar_comm_shrink(w, &c));
    NXT_IS(w, nexar_size(c) == living());
    NXT_OK(w, nxt_sum_all(c, SMALL));
    nxt_note_latest(&shared->rebuilt);
    nexar_comm_free(c);
}

/* Half of the ranks, without rank 0, are no quorum. */
static void loop_minority(nexar_comm *w)
{
    uint64_t flags = 1;
    nexar_comm *c = NULL;

    while (nxt_sum_all(w, SMALL) == NEXAR_OK) {
    }
    nxt_note_latest(&shared->known);
    NXT_IS(w, nexar_comm_agree(w, &flags) == NEXAR_EPEER);
    check_sentence(w, "comm_agree: 2 of 4 ranks are alive: no majority");
    NXT_IS(w, nexar_comm_shrink(w, &c) == NEXAR_EPEER);
    check_sentence(w, "comm_shrink: 2 of 4 ranks are alive: no majority");
    NXT_IS(w, c == NULL);
    nxt_note_latest(&shared->rebuilt);
}

/* Rank 0 requires one rank more than are left: that applies to all. */
static void loop_too_few(nexar_comm *w)
{
    nexar_comm *c = NULL;

    while (nxt_sum_all(w, SMALL) == NEXAR_OK) {
    }
    nxt_note_latest(&shared->known);
    NXT_OK(w, nexar_comm_revoke(w));
    NXT_SAYS(w, nexar_comm_shrink(w, &c), NEXAR_EPEER, "min_world asks for 3");
    NXT_IS(w, c == NULL);
    nxt_note_latest(&shared->rebuilt);
}

/* Collectives that run during the failure, and later ones. */
static void loop_kinds(nexar_comm *w)
{
    static const char *const names[] = {"allreduce", "barrier", "broadcast", "alltoall"};
    nexar_err err = NEXAR_OK;
    float word[MOST] = {0}, got[MOST];
    char operation[64];
    int i;

    for (i = 0; err == NEXAR_OK; i++) {
        switch (i % 4) {
        case 0:
            err = nexar_allreduce(w, word, got, 1, NEXAR_F32, NEXAR_SUM);
            break;
        case 1:
            err = nexar_barrier(w);
            break;
        case 2:
            err = nexar_broadcast(w, word, 1, NEXAR_F32, 0);
            break;
        default:
            err = nexar_alltoall(w, word, got, 1, NEXAR_F32);
            break;
        }
    }
    nxt_note_latest(&shared->known);
    NXT_IS(w, err == NEXAR_EPEER);
    (void)snprintf(operation, sizeof(operation), "%s #[0-9]+", names[(i - 1) % 4]);
    check_sentence(w, operation);
    NXT_IS(w, nexar_barrier(w) == NEXAR_EPEER);
    check_sentence(w, "barrier #[0-9]+");
    NXT_IS(w, strstr(nexar_last_error(), "rank 2 (") != NULL);
    nxt_note_latest(&shared->rebuilt);
    atomic_fetch_add(&shared->said, 1);
    nxt_await(&shared->said, living());
}

/* Rank 0 receives from any source: the victim's failure does not end the receive, a message does;
 * when no rank is left it fails. */
static void wait_for_anybody(nexar_comm *w)
{
    int failed[MOST];
    size_t n = 0;
    bool found = false;
    char byte = 'x';

    if (nexar_rank(w) != 0) {
        NXT_OK(w, nexar_recv(w, &byte, 1, 0, TAG, NULL));
        return;
    }
    while (n == 0) {
        n = MOST;
        NXT_OK(w, nexar_comm_failed(w, failed, &n));
    }
    nxt_note_latest(&shared->known);
    if (living() > 1) {
        nexar_request *req = NULL;
        bool done = true;

        NXT_OK(w, nexar_irecv(w, &byte, 1, NEXAR_ANY_SOURCE, TAG, &req));
        NXT_OK(w, nexar_test(&req, &done, NULL));
        NXT_IS(w, !done);
        NXT_OK(w, nexar_send(w, &byte, 1, 0, TAG));
        NXT_OK(w, nexar_wait(&req, NULL));
        for (int rank = 1; rank < nexar_size(w); rank++) {
            if (!((current->victims >> rank) & 1)) {
                NXT_OK(w, nexar_send(w, &byte, 1, rank, TAG));
            }
        }
    } else {
        NXT_IS(w, nexar_recv(w, &byte, 1, NEXAR_ANY_SOURCE, TAG, NULL) == NEXAR_EPEER);
        NXT_IS(w, strstr(nexar_last_error(), "no other rank") != NULL);
        NXT_IS(w, nexar_iprobe(w, NEXAR_ANY_SOURCE, TAG, &found, NULL) == NEXAR_EPEER);
        NXT_IS(w, strstr(nexar_last_error(), "no other rank") != NULL);
        NXT_IS(w, nexar_iprobe(w, nexar_size(w) - 1, TAG, &found, NULL) == NEXAR_EPEER);
        NXT_IS(w, strstr(nexar_last_error(), "iprobe from rank") != NULL);
    }
    nxt_note_latest(&shared->rebuilt);
}

/* The last rank computes for several time-outs. */
static void one_is_busy(nexar_comm *w)
{
    const uint64_t end = nxt_now_ns() + UINT64_C(5000000000);
    size_t n = 0;

    while ((nexar_rank(w) == nexar_size(w) - 1) && (nxt_now_ns() < end)) {
    }
    NXT_OK(w, nexar_barrier(w));
    NXT_OK(w, nexar_comm_failed(w, NULL, &n));
    NXT_IS(w, n == 0);
}

/* ---- processes ----------------------------------------------------------------------------- */

static void count_call(nexar_comm *comm, int rank, const char *why, void *arg)
{
    NXT_IS(comm, strstr(why, "rank ") != NULL);
    (void)arg;
    (void)rank;
    atomic_fetch_add(&shared->told[nexar_rank(comm)], 1);
}

static nexar_comm *join_world(int rank, int join_fd)
{
    const char *settings[7] = {NULL};
    size_t n = 0;

    if (current->interval != NULL) {
        settings[n++] = "heartbeat_interval";
        settings[n++] = current->interval;
        settings[n++] = "heartbeat_timeout";
        settings[n++] = current->timeout;
    }
    if (current->body == loop_minority) {
        settings[n++] = "quorum";
        settings[n++] = "majority";
    }
    if (current->body == loop_too_few) {
        settings[n++] = "min_world";
        settings[n++] = (rank == 0) ? "3" : "1";
    }
    return nxt_procs_join(rank, join_fd, settings);
}

static void child(int rank, int join_fd, void *arg)
{
    nexar_comm *w = join_world(rank, join_fd);

    (void)arg;
    NXT_OK(w, nexar_on_failure(w, count_call, NULL));
    NXT_OK(w, nxt_sum_all(w, SMALL));
    NXT_OK(w, nexar_barrier(w));
    atomic_fetch_add(&shared->ready, 1);
    if (((current->victims >> rank) & 1) && (current->sig == SIGSTOP)) {
        /* On resuming it learns that it was declared failed. */
        nexar_err err;

        while ((err = nxt_sum_all(w, SMALL)) == NEXAR_OK) {
        }
        NXT_IS(w, (err == NEXAR_EPEER) || (err == NEXAR_EREVOKED));
        err = nexar_barrier(w);
        NXT_IS(w, (err == NEXAR_EPEER) || (err == NEXAR_EREVOKED));
        _exit(0);
    }
    current->body(w);
    (void)nexar_finalize(w);
    atomic_fetch_add(&shared->done, 1);
}

static void strike(const plan *p, const nxt_procs *procs)
{
    const struct timespec nap = {.tv_nsec = 100000000}; /* well inside their loops */

    nxt_await(&shared->ready, p->ranks);
    (void)nanosleep(&nap, NULL);
    atomic_store(&shared->at, nxt_now_ns());
    nxt_procs_signal(procs, p->victims, p->sig);
}

static void run_plan(const plan *p)
{
    nxt_procs procs;
    double known, rebuilt;

    current = p;
    shared = nxt_share(sizeof(*shared));
    nxt_procs_start(&procs, p->ranks, child, NULL);
    if (p->victims != 0) {
        strike(p, &procs);
    }
    nxt_await(&shared->done, living());
    if (p->sig == SIGSTOP) {
        nxt_procs_signal(&procs, p->victims, SIGCONT);
    }
    nxt_procs_wait(&procs, ((p->sig == SIGKILL) ? p->victims : 0) | (p->late ? 1 : 0), 0);
    if (p->victims != 0) {
        known = (double)(shared->known - shared->at) / 1e9;
        rebuilt = (double)(shared->rebuilt - shared->at) / 1e9;
        printf("%-5s %-28s known to all after %7.1f ms, rebuilt after %7.1f ms\n", transport,
               p->name, 1e3 * known, 1e3 * rebuilt);
        assert_true(known < GENEROUS_S);
    }
}

static void forget(void)
{
    nxt_unshare(shared, sizeof(*shared));
}

/* ---- cases ------------------------------------------------------------------------------ */

static void test_a_killed_rank_ends_what_needs_it_and_the_others_continue(void **state)
{
    static const plan plans[] = {
        {.name = "kill, small allreduce", .ranks = 4, .victims = 4, .body = loop_small},
        {.name = "kill, large allreduce", .ranks = 4, .victims = 4, .body = loop_large},
        {.name = "kill, barrier", .ranks = 4, .victims = 2, .body = loop_barrier},
        {.name = "kill, ring of messages", .ranks = 4, .victims = 8, .body = loop_ring},
        {.name = "kill rank 0, allreduce", .ranks = 4, .victims = 1, .body = loop_small},
        {.name = "two at once", .ranks = 5, .victims = 2 | 8, .body = loop_small},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(plans) / sizeof(plans[0]); i++) {
        plan p = plans[i];

        p.sig = SIGKILL;
        run_plan(&p);
        for (int rank = 0; rank < p.ranks; rank++) {
            if (!((p.victims >> rank) & 1)) {
                assert_int_equal(shared->told[rank], __builtin_popcount(p.victims));
            }
        }
        forget();
    }
}

static void test_a_rank_that_fails_in_the_recovery_is_excluded_too(void **state)
{
    static const plan p = {.name = "kill, then rank 0 in recovery",
                           .ranks = 5,
                           .victims = 8,
                           .sig = SIGKILL,
                           .body = loop_chain,
                           .late = true};

    (void)state;
    run_plan(&p);
    forget();
}

static void test_agreements_are_the_same_on_all_survivors(void **state)
{
    static const plan plans[] = {
        {.name = "kill, agree", .ranks = 4, .victims = 4, .sig = SIGKILL, .body = loop_agree},
        {.name = "kill the leader, agree",
         .ranks = 4,
         .victims = 1,
         .sig = SIGKILL,
         .body = loop_agree},
    };

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        run_plan(&plans[i]);
        assert_int_equal(shared->final[1], shared->final[3]);
        forget();
    }
}

static void test_a_failed_collective_says_who_where_in_what_why_and_when(void **state)
{
    static const plan p = {
        .name = "sentences", .ranks = 4, .victims = 4, .sig = SIGKILL, .body = loop_kinds};

    (void)state;
    run_plan(&p);
    forget();
}

static void test_a_stopped_rank_is_given_up(void **state)
{
    /* (bounds_test has a shorter time-out, with which a busy machine may lose other ranks too.) */
    static const plan p = {.name = "stop, time-out 3 s",
                           .ranks = 4,
                           .victims = 4,
                           .sig = SIGSTOP,
                           .body = loop_small,
                           .interval = "200ms",
                           .timeout = "3s"};

    (void)state;
    run_plan(&p);
    assert_true(shared->known - shared->at > UINT64_C(2000000000));
    forget();
}

static void test_a_busy_rank_is_not(void **state)
{
    static const plan p = {.name = "busy",
                           .ranks = 3,
                           .sig = SIGKILL,
                           .body = one_is_busy,
                           .interval = "250ms",
                           .timeout = "2s"};

    (void)state;
    run_plan(&p);
    forget();
}

static void test_a_minority_does_not_continue(void **state)
{
    static const plan p = {
        .name = "no quorum", .ranks = 4, .victims = 1 | 4, .sig = SIGKILL, .body = loop_minority};

    (void)state;
    run_plan(&p);
    forget();
}

static void test_the_highest_min_world_counts_in_a_shrink(void **state)
{
    static const plan p = {
        .name = "too few", .ranks = 3, .victims = 4, .sig = SIGKILL, .body = loop_too_few};

    (void)state;
    run_plan(&p);
    forget();
}

/* ---- without a failure -------------------------------------------------------------------- */

/* The last rank finalizes while the others agree: some have its goodbye, others learn from them
 * that it is gone. */
static void agree_and_leave(nexar_comm *w, void *arg)
{
    (void)arg;
    NXT_OK(w, nexar_on_failure(w, count_call, NULL));
    NXT_OK(w, nexar_barrier(w));
    for (int i = 0; (i < 30) && (nexar_rank(w) != nexar_size(w) - 1); i++) {
        uint64_t flags = 1;
        size_t n = 0;

        NXT_OK(w, nexar_comm_agree(w, &flags));
        NXT_OK(w, nexar_comm_failed(w, NULL, &n));
        NXT_IS(w, n == 0);
    }
}

static void test_a_rank_that_finalizes_has_not_failed_in_any_report(void **state)
{
    (void)state;
    shared = nxt_share(sizeof(*shared));
    for (int round = 0; round < 30; round++) {
        nxt_local_world(4, NULL, agree_and_leave, NULL);
    }
    for (int rank = 0; rank < MOST; rank++) {
        assert_int_equal(shared->told[rank], 0);
    }
    nxt_unshare(shared, sizeof(*shared));
}

/* Rank 1 revokes while the others wait, each on a communicator of its own: in a receive, in a long
 * send that is not received, in a receive from any source, in a collective. */
static pthread_mutex_t hold_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t hold_moved = PTHREAD_COND_INITIALIZER;
static bool hold_over;

/* Runs until the communicator was revoked. */
static nexar_err hold(nexar_rpc *call, const void *data, size_t bytes, void *arg)
{
    (void)call;
    (void)data;
    (void)bytes;
    (void)arg;
    (void)pthread_mutex_lock(&hold_lock);
    while (!hold_over) {
        (void)pthread_cond_wait(&hold_moved, &hold_lock);
    }
    (void)pthread_mutex_unlock(&hold_lock);
    return NEXAR_OK;
}

static void let_go(void)
{
    (void)pthread_mutex_lock(&hold_lock);
    hold_over = true;
    (void)pthread_cond_broadcast(&hold_moved);
    (void)pthread_mutex_unlock(&hold_lock);
}

static void revoke_what_waits(nexar_comm *w, void *arg)
{
    static char large[8 << 20];
    nexar_request *reqs[5] = {NULL};
    nexar_comm *c = NULL, *next = NULL;
    char byte, got[2];
    bool found;

    (void)arg;
    NXT_OK(w, nexar_comm_dup(w, &c));
    NXT_OK(w, nexar_rpc_register(c, TAG, hold, NULL));
    NXT_OK(w, nexar_barrier(w));
    if (nexar_rank(w) == 1) {
        for (int rank = 0; rank < nexar_size(w); rank++) {
            if (rank != 1) {
                NXT_OK(w, nexar_recv(w, &byte, 1, rank, TAG, NULL));
            }
        }
        NXT_OK(w, nexar_comm_revoke(c));
        NXT_OK(w, nexar_comm_revoke(c));
        NXT_IS(w, nexar_rpc_call(c, 1, TAG, NULL, 0, NULL, NULL) == NEXAR_EREVOKED);
    } else {
        NXT_OK(w, nexar_irecv(c, &got[0], 1, 1, TAG, &reqs[0]));
        NXT_OK(w, nexar_irecv(c, &got[1], 1, NEXAR_ANY_SOURCE, NEXAR_ANY_TAG, &reqs[1]));
        NXT_OK(w, nexar_isend(c, large, sizeof(large), 1, TAG + 1, &reqs[2]));
        NXT_OK(w, nexar_ibarrier(c, &reqs[3]));
        NXT_OK(w, nexar_rpc_icall(c, 1, TAG, NULL, 0, NULL, NULL, &reqs[4]));
        NXT_OK(w, nexar_send(w, "x", 1, 1, TAG));
        for (int i = 0; i < 5; i++) {
            NXT_IS(w, nexar_wait(&reqs[i], NULL) == NEXAR_EREVOKED);
            NXT_IS(w, strstr(nexar_last_error(), "was revoked") != NULL);
        }
    }
    NXT_OK(w, nexar_barrier(w));
    let_go();
    NXT_IS(w, nexar_barrier(c) == NEXAR_EREVOKED);
    NXT_IS(w, nexar_recv(c, &byte, 1, 0, TAG, NULL) == NEXAR_EREVOKED);
    NXT_IS(w, nexar_probe(c, 0, TAG, NULL) == NEXAR_EREVOKED);
    NXT_IS(w, nexar_iprobe(c, 0, TAG, &found, NULL) == NEXAR_EREVOKED);
    NXT_IS(w, nexar_comm_dup(c, &next) == NEXAR_EREVOKED);
    NXT_OK(w, nexar_comm_shrink(c, &next));
    nexar_comm_free(c);
    NXT_IS(w, nexar_size(next) == nexar_size(w));
    NXT_OK(w, nxt_sum_all(next, SMALL));
    nexar_comm_free(next);
    NXT_OK(w, nxt_sum_all(w, SMALL)); /* which no rank has revoked */
}

static void test_revoking_ends_what_waits_on_all_ranks(void **state)
{
    (void)state;
    nxt_local_world(3, NULL, revoke_what_waits, NULL);
}

/* Collectives without data, too. */
static void test_a_communicator_of_one_can_be_revoked(void **state)
{
    nexar_comm *w = NULL, *c = NULL;
    nexar_request *req = NULL;
    int word = 1;

    (void)state;
    assert_int_equal(nexar_init(NULL, &w), NEXAR_OK);
    assert_int_equal(nexar_comm_dup(w, &c), NEXAR_OK);
    assert_int_equal(nexar_comm_revoke(c), NEXAR_OK);
    assert_int_equal(nexar_barrier(c), NEXAR_EREVOKED);
    assert_int_equal(nexar_broadcast(c, &word, 1, NEXAR_I32, 0), NEXAR_EREVOKED);
    assert_int_equal(nexar_allreduce(c, NEXAR_IN_PLACE, &word, 1, NEXAR_I32, NEXAR_SUM),
                     NEXAR_EREVOKED);
    assert_int_equal(nexar_allgather(c, NULL, NULL, 0, NEXAR_I32), NEXAR_EREVOKED);
    assert_int_equal(nexar_ibarrier(c, &req), NEXAR_OK);
    assert_int_equal(nexar_wait(&req, NULL), NEXAR_EREVOKED);
    assert_int_equal(nexar_barrier(w), NEXAR_OK);
    assert_int_equal(nexar_finalize(w), NEXAR_OK);
}

static void test_a_world_of_one_agrees_with_itself(void **state)
{
    nexar_comm *w = NULL, *c = NULL;
    uint64_t flags = 5;
    size_t n = 0;

    (void)state;
    assert_int_equal(nexar_init(NULL, &w), NEXAR_OK);
    assert_int_equal(nexar_comm_agree(w, &flags), NEXAR_OK);
    assert_int_equal(flags, 5);
    assert_int_equal(nexar_comm_shrink(w, &c), NEXAR_OK);
    assert_int_equal(nexar_size(c), 1);
    assert_int_equal(nexar_comm_failed(c, NULL, &n), NEXAR_OK);
    assert_int_equal(n, 0);
    n = 1;
    assert_int_equal(nexar_comm_failed(c, NULL, &n), NEXAR_EINVAL);
    assert_int_equal(nexar_comm_failed(NULL, NULL, &n), NEXAR_EINVAL);
    assert_int_equal(nexar_on_failure(NULL, count_call, NULL), NEXAR_EINVAL);
    assert_int_equal(nexar_comm_revoke(NULL), NEXAR_EINVAL);
    assert_int_equal(nexar_comm_agree(w, NULL), NEXAR_EINVAL);
    assert_int_equal(nexar_comm_shrink(w, NULL), NEXAR_EINVAL);
    nexar_comm_free(c);
    assert_int_equal(nexar_finalize(w), NEXAR_OK);
}

static void test_settings_that_do_not_go_together_are_refused(void **state)
{
    nexar_config *cfg = NULL;
    nexar_comm *w = NULL;

    (void)state;
    assert_int_equal(nexar_config_create(&cfg), NEXAR_OK);
    assert_int_equal(nexar_config_set(cfg, "heartbeat_timeout", "100ms"), NEXAR_OK);
    assert_int_equal(nexar_init(cfg, &w), NEXAR_EINVAL);
    assert_non_null(strstr(nexar_last_error(), "heartbeat_timeout"));
    /* Before any seed is asked. */
    assert_int_equal(
        nexar_config_set(cfg, "join",
                         "nexar://AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA@127.0.0.1:1"
                         "/?pin=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"),
        NEXAR_OK);
    assert_int_equal(nexar_init(cfg, &w), NEXAR_EINVAL);
    assert_int_equal(nexar_config_set(cfg, "heartbeat_timeout", "5s"), NEXAR_OK);
    assert_int_equal(nexar_config_set(cfg, "retry", "on"), NEXAR_OK);
    assert_int_equal(nexar_init(cfg, &w), NEXAR_EINVAL);
    assert_non_null(strstr(nexar_last_error(), "recovery=automatic"));
    nexar_config_free(cfg);
}

static void test_a_receive_from_any_source_waits_for_live_ranks(void **state)
{
    static const plan plans[] = {
        {.name = "receive from anybody",
         .ranks = 3,
         .victims = 4,
         .sig = SIGKILL,
         .body = wait_for_anybody},
        {.name = "nobody is left",
         .ranks = 2,
         .victims = 2,
         .sig = SIGKILL,
         .body = wait_for_anybody},
    };

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        run_plan(&plans[i]);
        forget();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_killed_rank_ends_what_needs_it_and_the_others_continue),
        cmocka_unit_test(test_a_rank_that_fails_in_the_recovery_is_excluded_too),
        cmocka_unit_test(test_agreements_are_the_same_on_all_survivors),
        cmocka_unit_test(test_a_failed_collective_says_who_where_in_what_why_and_when),
        cmocka_unit_test(test_a_stopped_rank_is_given_up),
        cmocka_unit_test(test_a_busy_rank_is_not),
        cmocka_unit_test(test_a_receive_from_any_source_waits_for_live_ranks),
        cmocka_unit_test(test_a_minority_does_not_continue),
        cmocka_unit_test(test_the_highest_min_world_counts_in_a_shrink),
        cmocka_unit_test(test_a_rank_that_finalizes_has_not_failed_in_any_report),
        cmocka_unit_test(test_revoking_ends_what_waits_on_all_ranks),
        cmocka_unit_test(test_a_communicator_of_one_can_be_revoked),
        cmocka_unit_test(test_a_world_of_one_agrees_with_itself),
        cmocka_unit_test(test_settings_that_do_not_go_together_are_refused),
    };

    // NOLINTNEXTLINE(concurrency-mt-unsafe): there are no threads yet
    transport = getenv("NEXAR_TRANSPORTS");
    transport = (transport == NULL) ? "auto" : transport;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
