/*
 * anybody_test.c - a receive and a probe from any source that wait when ranks fail: they continue
 * to wait while any rank is left that could send, and fail when none is.
 */
#include <pthread.h>
#include <regex.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>

#include <nexar.h>

#include "core/comm/comm.h"
#include "local_world.h"
#include "procs.h"
#include "unit.h"

enum { RANKS = 3, FIRST = 2, LAST = 1, RECEIVED = 5, PROBED = 6, BLOCKING = 7 };
static const uint64_t PATIENCE_NS = UINT64_C(60000000000);

/* Shared memory of the processes, besides nexar. */
typedef struct board {
    _Atomic int waiting; /* how often rank 0 has begun to wait for any source */
    _Atomic int send;    /* rank LAST is to send */
} board;

static board *shared;

/* ---- waiting ranks ------------------------------------------------------------------------ */

/* A thread in a call that waits. */
typedef struct waiter {
    pthread_t thread;
    nexar_comm *w;
    char got;
    nexar_err err;
    nexar_status status;
    char sentence[512];
    _Atomic bool over;
} waiter;

static void end(waiter *a, nexar_err err)
{
    a->err = err;
    (void)snprintf(a->sentence, sizeof(a->sentence), "%s", nexar_last_error());
    atomic_store(&a->over, true);
}

static void *probe(void *arg)
{
    waiter *a = arg;

    end(a, nexar_probe(a->w, NEXAR_ANY_SOURCE, PROBED, &a->status));
    return NULL;
}

static void *receive(void *arg)
{
    waiter *a = arg;

    end(a, nexar_recv(a->w, &a->got, 1, NEXAR_ANY_SOURCE, BLOCKING, &a->status));
    return NULL;
}

/* The number of threads that wait in calls for messages. */
static int count_blocked(nexar_comm *w)
{
    int n = 0;

    nx_loop_lock(w->world->loop);
    nx_list_for_each (at, &w->world->log.blocked) {
        n++;
    }
    nx_loop_unlock(w->world->loop);
    return n;
}

/* Three ways to wait for any source at once. */
typedef struct waits {
    waiter probe, receive;
    nexar_request *req;
    char got;
} waits;

static void begin(waits *a, nexar_comm *w)
{
    const uint64_t deadline = nxt_now_ns() + PATIENCE_NS;

    *a = (waits){.probe = {.w = w}, .receive = {.w = w}};
    NXT_OK(w, nexar_irecv(w, &a->got, 1, NEXAR_ANY_SOURCE, RECEIVED, &a->req));
    NXT_IS(w, pthread_create(&a->probe.thread, NULL, probe, &a->probe) == 0);
    NXT_IS(w, pthread_create(&a->receive.thread, NULL, receive, &a->receive) == 0);
    while (count_blocked(w) < 2) {
        NXT_IS(w, nxt_now_ns() < deadline);
        nxt_nap();
    }
    atomic_fetch_add(&shared->waiting, 1);
}

static void join(waits *a)
{
    (void)pthread_join(a->probe.thread, NULL);
    (void)pthread_join(a->receive.thread, NULL);
}

/* Until |n| ranks are known to have failed. */
static void await_deaths(nexar_comm *w, size_t n)
{
    const uint64_t deadline = nxt_now_ns() + PATIENCE_NS;
    int failed[RANKS];
    size_t known;

    do {
        known = RANKS;
        NXT_OK(w, nexar_comm_failed(w, failed, &known));
        NXT_IS(w, nxt_now_ns() < deadline);
        nxt_nap();
    } while (known < n);
}

static void check_got(nexar_comm *w, const nexar_status *status, char got)
{
    NXT_IS(w, (status->source == LAST) && (status->bytes == 1) && (got == 'x'));
}

/* The error names the last rank, its host, the reason, and the time. */
static void check_sentence(nexar_comm *w, const char *what, const char *sentence)
{
    char pattern[256];
    regex_t re;

    (void)snprintf(pattern, sizeof(pattern),
                   "^%s from any rank, tag [0-9]+: no other rank is left: rank %d "
                   "\\([^,]+, [^ ]+:[0-9]+\\) has failed: .+, at [0-9:]{8} UTC",
                   what, LAST);
    NXT_IS(w, regcomp(&re, pattern, REG_EXTENDED | REG_NOSUB) == 0);
    if (regexec(&re, sentence, 0, NULL, 0) != 0) {
        (void)fprintf(stderr, "%s: %s\n", what, sentence);
        NXT_IS(w, false);
    }
    regfree(&re);
}

static void rank_0(nexar_comm *w)
{
    nexar_status status = {0};
    bool done = true;
    char byte = 0;
    waits a;

    begin(&a, w);
    await_deaths(w, 1);
    NXT_OK(w, nexar_test(&a.req, &done, NULL));
    NXT_IS(w, !done && !atomic_load(&a.probe.over) && !atomic_load(&a.receive.over));
    NXT_IS(w, count_blocked(w) == 2);
    atomic_store(&shared->send, 1);
    NXT_OK(w, nexar_wait(&a.req, &status));
    check_got(w, &status, a.got);
    join(&a);
    NXT_IS(w, (a.probe.err == NEXAR_OK) && (a.receive.err == NEXAR_OK));
    check_got(w, &a.receive.status, a.receive.got);
    NXT_OK(w, nexar_recv(w, &byte, 1, a.probe.status.source, PROBED, NULL));
    check_got(w, &a.probe.status, byte);

    begin(&a, w);
    NXT_IS(w, nexar_wait(&a.req, NULL) == NEXAR_EPEER);
    check_sentence(w, "irecv", nexar_last_error());
    join(&a);
    NXT_IS(w, (a.probe.err == NEXAR_EPEER) && (a.receive.err == NEXAR_EPEER));
    check_sentence(w, "probe", a.probe.sentence);
    check_sentence(w, "recv", a.receive.sentence);
}

/* ---- processes ------------------------------------------------------------------------------- */

static void child(int rank, int join_fd, void *arg)
{
    nexar_comm *w = nxt_procs_join(rank, join_fd, NULL);

    (void)arg;
    NXT_OK(w, nexar_barrier(w));
    if (rank == 0) {
        rank_0(w);
        (void)nexar_finalize(w);
        return;
    }
    if (rank == LAST) {
        nxt_await(&shared->send, 1);
        NXT_OK(w, nexar_send(w, "x", 1, 0, RECEIVED));
        NXT_OK(w, nexar_send(w, "x", 1, 0, PROBED));
        NXT_OK(w, nexar_send(w, "x", 1, 0, BLOCKING));
    }
    for (;;) {
        nxt_nap(); /* until it is killed */
    }
}

static void test_a_receive_from_any_source_ends_when_the_last_rank_fails(void **state)
{
    nxt_procs procs;

    (void)state;
    shared = nxt_share(sizeof(*shared));
    nxt_procs_start(&procs, RANKS, child, NULL);
    nxt_await(&shared->waiting, 1);
    nxt_procs_signal(&procs, 1U << FIRST, SIGKILL);
    nxt_await(&shared->waiting, 2);
    nxt_procs_signal(&procs, 1U << LAST, SIGKILL);
    nxt_procs_wait(&procs, (1U << FIRST) | (1U << LAST), 0);
    nxt_unshare(shared, sizeof(*shared));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_receive_from_any_source_ends_when_the_last_rank_fails),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
