/* rpc_test.c - remote calls between ranks in one process, over QUIC. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <nexar.h>

#include "core/comm/comm.h"
#include "local_world.h"
#include "oom.h"
#include "unit.h"

enum {
    ECHO = 1,   /* echoes its input */
    FAIL,       /* returns an error with a message */
    SILENT,     /* returns without a reply */
    TWICE,      /* replies twice */
    CHAIN,      /* calls the caller back, this many times */
    GATE,       /* waits until the gate opens */
    BACK,       /* calls ECHO at the caller */
    COUNT,      /* counts */
    WHO,        /* replies the caller's rank */
    REGRET,     /* replies, and then returns an error */
    NOBODY = 99 /* is never registered */
};

static const size_t sizes[] = {0,      1,      7,      8184,    8185,    8192,          65536,
                               262136, 262144, 262145, 1 << 20, 5 << 20, (16 << 20) + 3};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

static void *memory(size_t bytes)
{
    void *p = calloc(1, bytes + 1);

    assert_non_null(p);
    return p;
}

/* ---- handlers -------------------------------------------------------------------------- */

static nexar_err echo(nexar_rpc *call, const void *data, size_t bytes, void *arg)
{
    (void)arg;
    return nexar_rpc_reply(call, data, bytes);
}

static nexar_err fails(nexar_rpc *call, const void *data, size_t bytes, void *arg)
{
    (void)call;
    (void)data;
    (void)bytes;
    return nexar_send(arg, NULL, 1, 0, 0); /* NEXAR_EINVAL, with a message */
}

static nexar_err silent(nexar_rpc *call, const void *data, size_t bytes, void *arg)
{
    (void)call;
    (void)data;
    (void)bytes;
    (void)arg;
    return NEXAR_OK;
}

static nexar_err twice(nexar_rpc *call, const void *data, size_t bytes, void *arg)
{
    nexar_err err = nexar_rpc_reply(call, data, bytes);

    (void)arg;
    if (err == NEXAR_OK) {
        err = nexar_rpc_reply(call, "again", 5);
        assert_int_equal(err, NEXAR_EINVAL);
        assert_non_null(strstr(nexar_last_error(), "once"));
    }
    return NEXAR_OK;
}

static nexar_err regret(nexar_rpc *call, const void *data, size_t bytes, void *arg)
{
    nexar_err err = nexar_rpc_reply(call, NULL, 5);

    assert_int_equal(err, NEXAR_EINVAL); /* and it may still reply */
    assert_non_null(strstr(nexar_last_error(), "the data of 5 bytes is NULL"));
    err = nexar_rpc_reply(call, data, bytes);
    return (err == NEXAR_OK) ? nexar_send(arg, NULL, 1, 0, 0) : err;
}

static nexar_err who(nexar_rpc *call, const void *data, size_t bytes, void *arg)
{
    int rank = nexar_rpc_caller(call);

    (void)data;
    (void)bytes;
    (void)arg;
    return nexar_rpc_reply(call, &rank, sizeof(rank));
}

/* |data|: the remaining depth.  Replies the depth reached. */
static nexar_err chain(nexar_rpc *call, const void *data, size_t bytes, void *arg)
{
    nexar_comm *w = arg;
    uint32_t left, depth = 1;
    void *reply = NULL;
    nexar_err err = NEXAR_OK;

    assert_int_equal(bytes, sizeof(left));
    memcpy(&left, data, sizeof(left));
    if (left > 0) {
        left--;
        err = nexar_rpc_call(w, nexar_rpc_caller(call), CHAIN, &left, sizeof(left), &reply, &bytes);
        if (err == NEXAR_OK) {
            memcpy(&depth, reply, sizeof(depth));
            depth++;
            free(reply);
        }
    }
    return (err == NEXAR_OK) ? nexar_rpc_reply(call, &depth, sizeof(depth)) : err;
}

static nexar_err back(nexar_rpc *call, const void *data, size_t bytes, void *arg)
{
    void *reply = NULL;
    size_t got = 0;
    nexar_err err = nexar_rpc_call(arg, nexar_rpc_caller(call), ECHO, data, bytes, &reply, &got);

    if (err == NEXAR_OK) {
        err = nexar_rpc_reply(call, reply, got);
        free(reply);
    }
    return err;
}

static void serve(nexar_comm *w)
{
    NXT_OK(w, nexar_rpc_register(w, ECHO, echo, w));
    NXT_OK(w, nexar_rpc_register(w, FAIL, fails, w));
    NXT_OK(w, nexar_rpc_register(w, SILENT, silent, w));
    NXT_OK(w, nexar_rpc_register(w, TWICE, twice, w));
    NXT_OK(w, nexar_rpc_register(w, CHAIN, chain, w));
    NXT_OK(w, nexar_rpc_register(w, BACK, back, w));
    NXT_OK(w, nexar_rpc_register(w, WHO, who, w));
    NXT_OK(w, nexar_rpc_register(w, REGRET, regret, w));
}

/* All ranks have arrived. */
static void meet(nexar_comm *w)
{
    const int rank = nexar_rank(w), size = nexar_size(w);
    char byte = 0;

    for (int turn = 0; turn < 2; turn++) { /* twice around the ring */
        if ((rank != 0) || (turn > 0)) {
            NXT_OK(w, nexar_recv(w, &byte, 1, (rank + size - 1) % size, 77, NULL));
        }
        NXT_OK(w, nexar_send(w, &byte, 1, (rank + 1) % size, 77));
    }
    if (rank == 0) {
        NXT_OK(w, nexar_recv(w, &byte, 1, size - 1, 77, NULL));
    }
}

static nexar_config *config(const char *name, const char *value)
{
    nexar_config *cfg = NULL;

    assert_int_equal(nexar_config_create(&cfg), NEXAR_OK);
    assert_int_equal(nexar_config_set(cfg, name, value), NEXAR_OK);
    return cfg;
}

static nx_rpc_stats stats_of(nexar_comm *w)
{
    nx_rpc_stats stats;

    nx_loop_lock(w->world->loop);
    nx_rpc_stats_get(w->world->rpc, &stats);
    nx_loop_unlock(w->world->loop);
    return stats;
}

/* ---- a world of one --------------------------------------------------------------------- */

static void test_bad_arguments_are_named(void **state)
{
    nexar_comm *w = NULL;
    nexar_request *req = NULL;
    void *reply = NULL;
    size_t bytes = 0;

    (void)state;
    assert_int_equal(nexar_init(NULL, &w), NEXAR_OK);
    assert_int_equal(nexar_rpc_register(NULL, 1, echo, NULL), NEXAR_EINVAL);
    assert_int_equal(nexar_rpc_call(NULL, 0, 1, NULL, 0, NULL, NULL), NEXAR_EINVAL);
    assert_int_equal(nexar_rpc_call(w, 1, 1, NULL, 0, NULL, NULL), NEXAR_EINVAL);
    assert_non_null(strstr(nexar_last_error(), "no rank 1; ranks are 0 to 0"));
    assert_int_equal(nexar_rpc_call(w, -1, 1, NULL, 0, NULL, NULL), NEXAR_EINVAL);
    assert_int_equal(nexar_rpc_call(w, 0, 1, NULL, 4, NULL, NULL), NEXAR_EINVAL);
    assert_int_equal(nexar_rpc_call(w, 0, 1, NULL, 0, &reply, NULL), NEXAR_EINVAL);
    assert_non_null(strstr(nexar_last_error(), "reply_bytes"));
    assert_int_equal(nexar_rpc_icall(w, 0, 1, NULL, 0, &reply, &bytes, NULL), NEXAR_EINVAL);
    assert_int_equal(nexar_rpc_icall(w, 2, 1, NULL, 0, &reply, &bytes, &req), NEXAR_EINVAL);
    assert_int_equal(nexar_rpc_caller(NULL), -1);
    assert_int_equal(nexar_rpc_reply(NULL, NULL, 0), NEXAR_EINVAL);
    assert_true((reply == NULL) && (req == NULL));
    assert_int_equal(nexar_finalize(w), NEXAR_OK);
}

static void check_echo(nexar_comm *w, int rank, size_t bytes, uint64_t seed)
{
    unsigned char *out = memory(bytes);
    void *reply = NULL;
    size_t got = 1;

    nxt_fill(out, bytes, seed);
    NXT_OK(w, nexar_rpc_call(w, rank, ECHO, out, bytes, &reply, &got));
    NXT_IS(w, (reply != NULL) && (got == bytes) && nxt_filled(reply, bytes, seed));
    free(reply);
    free(out);
}

static void test_a_rank_calls_itself(void **state)
{
    nexar_comm *w = NULL;

    (void)state;
    assert_int_equal(nexar_init(NULL, &w), NEXAR_OK);
    serve(w);
    for (uint64_t i = 0; i < SIZES; i++) {
        check_echo(w, 0, sizes[i], i);
    }
    assert_int_equal(nexar_finalize(w), NEXAR_OK);
}

/* Every allocation of the calling thread fails once: also those of receiving, since the rank calls
 * itself. */
static void test_without_memory_a_call_fails_and_the_next_one_works(void **state)
{
    nexar_comm *w = NULL;

    (void)state;
    assert_int_equal(nexar_init(NULL, &w), NEXAR_OK);
    serve(w);
    check_echo(w, 0, 100, 1);
    NXT_FOR_EACH_OOM (n) {
        nexar_request *req = NULL;
        void *reply = NULL;
        size_t got = 0;
        nexar_err err = nexar_rpc_icall(w, 0, ECHO, "12345678", 8, &reply, &got, &req);

        if (err == NEXAR_OK) {
            err = nexar_wait(&req, NULL);
        }
        assert_true((err == NEXAR_OK) || (err == NEXAR_ENOMEM));
        assert_true((err == NEXAR_OK) || nx_alloc_failed());
        assert_true((err == NEXAR_OK) == (reply != NULL));
        free(reply);
    }
    check_echo(w, 0, 100, 2);
    assert_int_equal(stats_of(w).calls, 0);
    assert_int_equal(nexar_finalize(w), NEXAR_OK);
}

static void test_without_memory_a_registration_fails(void **state)
{
    nexar_comm *w = NULL;

    (void)state;
    assert_int_equal(nexar_init(NULL, &w), NEXAR_OK);
    NXT_FOR_EACH_OOM (n) {
        nexar_err err = nexar_rpc_register(w, ECHO, echo, w);

        assert_int_equal(err, nx_alloc_failed() ? NEXAR_ENOMEM : NEXAR_OK);
    }
    check_echo(w, 0, 100, 1);
    assert_int_equal(nexar_finalize(w), NEXAR_OK);
}

/* ---- between ranks ------------------------------------------------------------------------ */

static void every_size(nexar_comm *w, void *arg)
{
    const int rank = nexar_rank(w), size = nexar_size(w);

    (void)arg;
    serve(w);
    meet(w);
    for (int to = 0; to < size; to++) {
        for (uint64_t i = 0; i < SIZES; i++) {
            check_echo(w, to, sizes[i], 100 * (uint64_t)rank + i);
        }
    }
    meet(w);
}

static void test_calls_of_every_size_are_answered(void **state)
{
    (void)state;
    nxt_local_world(3, NULL, every_size, NULL);
}

static void outcomes(nexar_comm *w, void *arg)
{
    const int rank = nexar_rank(w), other = 1 - rank;
    char number[32];
    void *reply = NULL;
    size_t got = 7;
    int caller = -1;

    (void)arg;
    serve(w);
    meet(w);
    NXT_IS(w, nexar_rpc_call(w, other, NOBODY, "x", 1, &reply, &got) == NEXAR_ENOHANDLER);
    (void)snprintf(number, sizeof(number), "at rank %d", other);
    NXT_IS(w, strstr(nexar_last_error(), "function 99 ") != NULL);
    NXT_IS(w, strstr(nexar_last_error(), number) != NULL);
    NXT_IS(w, nexar_rpc_call(w, other, FAIL, NULL, 0, &reply, &got) == NEXAR_EREMOTE);
    NXT_IS(w, strstr(nexar_last_error(), "NEXAR_EINVAL (-1): send: the buffer of 1") != NULL);
    NXT_IS(w, nexar_rpc_call(w, other, FAIL, NULL, 0, NULL, NULL) == NEXAR_EREMOTE);
    NXT_IS(w, strstr(nexar_last_error(), "NEXAR_EINVAL (-1): send: the buffer of 1") != NULL);
    NXT_IS(w, (reply == NULL) && (got == 7));
    NXT_OK(w, nexar_rpc_call(w, other, SILENT, "x", 1, &reply, &got));
    NXT_IS(w, (reply != NULL) && (got == 0));
    free(reply);
    NXT_OK(w, nexar_rpc_call(w, other, TWICE, "abc", 3, &reply, &got));
    NXT_IS(w, (got == 3) && (memcmp(reply, "abc", 3) == 0));
    free(reply);
    NXT_OK(w, nexar_rpc_call(w, other, REGRET, "abc", 3, &reply, &got)); /* printed in a log */
    NXT_IS(w, (got == 3) && (memcmp(reply, "abc", 3) == 0));
    free(reply);
    NXT_OK(w, nexar_rpc_call(w, other, WHO, NULL, 0, &reply, &got));
    memcpy(&caller, reply, sizeof(caller));
    NXT_IS(w, caller == rank);
    free(reply);
    NXT_OK(w, nexar_rpc_call(w, other, ECHO, "abcd", 4, NULL, NULL));
    NXT_OK(w, nexar_rpc_call(w, other, ECHO, "abcd", 4, NULL, &got));
    NXT_IS(w, got == 4);
    meet(w);
}

static void test_outcomes_are_distinguished(void **state)
{
    (void)state;
    nxt_local_world(2, NULL, outcomes, NULL);
}

/* ---- several at once ---------------------------------------------------------------------- */

enum { THREADS = 4, EACH = 100 };

static void *caller_main(void *arg)
{
    nexar_comm *w = arg;
    const int size = nexar_size(w);

    for (uint64_t i = 0; i < EACH; i++) {
        check_echo(w, (int)(i % (uint64_t)size), (size_t)((i * i * 37) % 40000), i);
    }
    return NULL;
}

static void many_threads(nexar_comm *w, void *arg)
{
    pthread_t threads[THREADS];

    (void)arg;
    serve(w);
    meet(w);
    for (int i = 0; i < THREADS; i++) {
        NXT_IS(w, pthread_create(&threads[i], NULL, caller_main, w) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    meet(w);
}

static void test_threads_of_all_ranks_call_at_once(void **state)
{
    (void)state;
    nxt_local_world(3, NULL, many_threads, NULL);
}

/* ---- calls from handlers ------------------------------------------------------------------ */

static nexar_err call_chain(nexar_comm *w, uint32_t more, uint32_t *depth)
{
    void *reply = NULL;
    size_t got = 0;
    nexar_err err = nexar_rpc_call(w, (nexar_rank(w) + 1) % nexar_size(w), CHAIN, &more,
                                   sizeof(more), &reply, &got);

    if (err == NEXAR_OK) {
        memcpy(depth, reply, sizeof(*depth));
        free(reply);
    }
    return err;
}

static void nested(nexar_comm *w, void *arg)
{
    uint32_t depth = 0;

    (void)arg;
    serve(w);
    meet(w);
    NXT_OK(w, call_chain(w, NX_RPC_LEVELS - 1, &depth)); /* both at once */
    NXT_IS(w, depth == NX_RPC_LEVELS);
    NXT_IS(w, call_chain(w, NX_RPC_LEVELS, &depth) == NEXAR_EREMOTE);
    NXT_OK(w, call_chain(w, 3, &depth));
    NXT_IS(w, depth == 4);
    meet(w);
}

static void test_chains_deeper_than_the_pool_end(void **state)
{
    nexar_config *cfg = config("rpc_threads", "1");

    (void)state;
    nxt_local_world(2, cfg, nested, NULL);
    nxt_local_world(1, cfg, nested, NULL);
    nexar_config_free(cfg);
}

enum { RING = 600 };

/* More concurrent calls than threads; each needs threads on both sides. */
static void nested_flood(nexar_comm *w, void *arg)
{
    nexar_request *reqs[RING];
    uint32_t more = 5;

    (void)arg;
    serve(w);
    meet(w);
    for (int i = 0; i < RING; i++) {
        NXT_OK(w, nexar_rpc_icall(w, i % nexar_size(w), (i % 3 == 0) ? CHAIN : BACK, &more,
                                  sizeof(more), NULL, NULL, &reqs[i]));
    }
    NXT_OK(w, nexar_wait_all(RING, reqs));
    meet(w);
}

static void test_floods_of_nested_calls_end(void **state)
{
    nexar_config *cfg = config("rpc_threads", "1");

    (void)state;
    nxt_local_world(3, cfg, nested_flood, NULL);
    nexar_config_free(cfg);
}

/* ---- floods ---------------------------------------------------------------------------------- */

enum { SENDERS = 3 };

static nexar_err count(nexar_rpc *call, const void *data, size_t bytes, void *arg)
{
    (void)call;
    (void)data;
    (void)bytes;
    atomic_fetch_add((atomic_uint *)arg, 1);
    return NEXAR_OK;
}

static void flood(nexar_comm *w, void *arg)
{
    const unsigned each = *(unsigned *)arg;
    static atomic_uint counted;
    nexar_request **reqs;
    nx_msg_stats msgs;
    char data[200] = {0};

    if (nexar_rank(w) == 0) {
        NXT_OK(w, nexar_rpc_register(w, COUNT, count, &counted));
        meet(w);
        for (int i = 0; i < 50 * SENDERS; i++) { /* messages are not blocked by it */
            NXT_OK(w, nexar_recv(w, data, sizeof(data), 1 + i % SENDERS, 5, NULL));
            NXT_OK(w, nexar_send(w, data, 1, 1 + i % SENDERS, 6));
        }
        meet(w);
        NXT_IS(w, atomic_load(&counted) == SENDERS * each);
        nx_loop_lock(w->world->loop);
        nx_msg_stats_get(w->world->msg, &msgs);
        nx_loop_unlock(w->world->loop);
        NXT_IS(w, msgs.pool_peak <= 1 << 20);
        NXT_IS(w, stats_of(w).most <= 2 * 2);
        NXT_IS(w, stats_of(w).accepted == 0);
        return;
    }
    reqs = memory(each * sizeof(nexar_request *));
    meet(w);
    for (unsigned i = 0; i < each; i++) {
        NXT_OK(w, nexar_rpc_icall(w, 0, COUNT, data, i % sizeof(data), NULL, NULL, &reqs[i]));
    }
    for (int i = 0; i < 50; i++) {
        NXT_OK(w, nexar_send(w, data, 1, 0, 5));
        NXT_OK(w, nexar_recv(w, data, 1, 0, 6, NULL));
    }
    NXT_OK(w, nexar_wait_all(each, reqs));
    free(reqs);
    meet(w);
}

static void test_a_flood_of_calls_needs_bounded_memory_and_loses_none(void **state)
{
    unsigned each = (getenv("NXT_LONG") != NULL) ? 100000 : 10000; // NOLINT(concurrency-mt-unsafe)
    nexar_config *cfg = config("rpc_threads", "2");

    (void)state;
    assert_int_equal(nexar_config_set(cfg, "unexpected", "1m"), NEXAR_OK);
    nxt_local_world(SENDERS + 1, cfg, flood, &each);
    nexar_config_free(cfg);
}

/* ---- waiting handlers ------------------------------------------------------------------- */

typedef struct gate {
    pthread_mutex_t lock;
    pthread_cond_t moved;
    bool open;
    int inside, passed;
} gate;

static nexar_err wait_at_gate(nexar_rpc *call, const void *data, size_t bytes, void *arg)
{
    gate *g = arg;

    (void)pthread_mutex_lock(&g->lock);
    g->inside++;
    (void)pthread_cond_broadcast(&g->moved);
    while (!g->open) {
        (void)pthread_cond_wait(&g->moved, &g->lock);
    }
    g->passed++;
    (void)pthread_mutex_unlock(&g->lock);
    return nexar_rpc_reply(call, data, bytes);
}

static void gate_wait_inside(gate *g, int n)
{
    (void)pthread_mutex_lock(&g->lock);
    while (g->inside < n) {
        (void)pthread_cond_wait(&g->moved, &g->lock);
    }
    (void)pthread_mutex_unlock(&g->lock);
}

static void gate_open(gate *g)
{
    (void)pthread_mutex_lock(&g->lock);
    g->open = true;
    (void)pthread_cond_broadcast(&g->moved);
    (void)pthread_mutex_unlock(&g->lock);
}

static void gate_init(gate *g)
{
    *g = (gate){.open = false};
    (void)pthread_mutex_init(&g->lock, NULL);
    (void)pthread_cond_init(&g->moved, NULL);
}

static void gate_fini(gate *g)
{
    (void)pthread_cond_destroy(&g->moved);
    (void)pthread_mutex_destroy(&g->lock);
}

/* Waits until the reply of an abandoned call was received and dropped. */
static void wait_dropped(nexar_comm *w, uint64_t n)
{
    while (stats_of(w).dropped < n) {
        (void)usleep(1000);
    }
}

static void late(nexar_comm *w, void *arg)
{
    gate *g = arg;
    void *reply = NULL;
    size_t got = 0;

    NXT_OK(w, nexar_rpc_register(w, GATE, wait_at_gate, g));
    meet(w);
    if (nexar_rank(w) == 0) {
        NXT_IS(w, nexar_rpc_call(w, 1, GATE, "x", 1, &reply, &got) == NEXAR_ETIMEDOUT);
        NXT_IS(w, strstr(nexar_last_error(), "no reply within 0.2 s") != NULL);
        NXT_IS(w, (reply == NULL) && (stats_of(w).calls == 0));
        gate_open(g);
        wait_dropped(w, 1);
    }
    meet(w);
}

static void test_a_call_ends_by_its_time_and_its_reply_is_dropped(void **state)
{
    nexar_config *cfg = config("rpc_timeout", "200ms");
    gate g;

    (void)state;
    gate_init(&g);
    nxt_local_world(2, cfg, late, &g);
    assert_int_equal(g.passed, 1);
    gate_fini(&g);
    nexar_config_free(cfg);
}

/* One thread, which waits at the gate: the calls behind it wait until their time-out, or until they
 * are cancelled. */
static void queued(nexar_comm *w, void *arg)
{
    enum { BEHIND = 4 };
    gate *g = arg;
    nexar_request *first = NULL, *behind[BEHIND];
    void *reply = NULL;
    size_t got = 0;

    serve(w);
    NXT_OK(w, nexar_rpc_register(w, GATE, wait_at_gate, g));
    meet(w);
    if (nexar_rank(w) == 0) {
        NXT_OK(w, nexar_rpc_icall(w, 1, GATE, "x", 1, &reply, &got, &first));
        gate_wait_inside(g, 1);
        for (int i = 0; i < BEHIND; i++) {
            NXT_OK(w, nexar_rpc_icall(w, 1, ECHO, "x", 1, NULL, NULL, &behind[i]));
        }
        NXT_OK(w, nexar_cancel(behind[1]));
        NXT_IS(w, nexar_wait(&behind[1], NULL) == NEXAR_ECANCELED);
        NXT_SAYS(w, nexar_wait(&first, NULL), NEXAR_ETIMEDOUT, "no reply within 0.2 s");
        for (int i = 0; i < BEHIND; i++) {
            NXT_IS(w, nexar_wait(&behind[i], NULL) == ((i == 1) ? NEXAR_OK : NEXAR_ETIMEDOUT));
        }
        NXT_IS(w, (reply == NULL) && (stats_of(w).calls == 0));
        gate_open(g);
        wait_dropped(w, BEHIND); /* the cancelled one may have been removed in time */
        check_echo(w, 1, 100, 1);
    }
    meet(w);
}

static void test_calls_that_wait_for_a_thread_end_by_their_time_or_by_a_cancel(void **state)
{
    nexar_config *cfg = config("rpc_timeout", "200ms");
    gate g;

    (void)state;
    assert_int_equal(nexar_config_set(cfg, "rpc_threads", "1"), NEXAR_OK);
    gate_init(&g);
    nxt_local_world(2, cfg, queued, &g);
    assert_int_equal(g.passed, 1);
    gate_fini(&g);
    nexar_config_free(cfg);
}

/* Rank 0 leaves with a call that runs at rank 1 and others that wait for a thread there. */
static void caller_leaves(nexar_comm *w, void *arg)
{
    enum { CALLS = 5 };
    gate *g = arg;
    nexar_request *reqs[CALLS];
    char byte = 0;

    serve(w);
    NXT_OK(w, nexar_rpc_register(w, GATE, wait_at_gate, g));
    meet(w);
    if (nexar_rank(w) == 0) {
        for (int i = 0; i < CALLS; i++) {
            NXT_OK(w, nexar_rpc_icall(w, 1, GATE, "x", 1, NULL, NULL, &reqs[i]));
        }
        gate_wait_inside(g, 1);
        return;
    }
    NXT_IS(w, nexar_recv(w, &byte, 1, 0, 3, NULL) == NEXAR_EPEER); /* it has left */
    gate_open(g);
    while (stats_of(w).accepted != 0) {
        (void)usleep(1000);
    }
    check_echo(w, 1, 100, 1); /* automatically: the thread is free again */
}

static void test_a_caller_that_leaves_leaves_no_calls_behind(void **state)
{
    nexar_config *cfg = config("rpc_threads", "1");
    gate g;

    (void)state;
    gate_init(&g);
    nxt_local_world(2, cfg, caller_leaves, &g);
    assert_true(g.passed >= 1);
    gate_fini(&g);
    nexar_config_free(cfg);
}

static void cancelled(nexar_comm *w, void *arg)
{
    gate *g = arg;
    void *reply = NULL;
    nexar_request *req = NULL;
    size_t got = 0;

    serve(w);
    NXT_OK(w, nexar_rpc_register(w, GATE, wait_at_gate, g));
    meet(w);
    if (nexar_rank(w) == 0) {
        unsigned char *data = memory(3 << 20);

        NXT_OK(w, nexar_rpc_icall(w, 1, GATE, data, 3 << 20, &reply, &got, &req));
        gate_wait_inside(g, 1);
        NXT_OK(w, nexar_cancel(req));
        NXT_IS(w, nexar_wait(&req, NULL) == NEXAR_ECANCELED);
        NXT_IS(w, (reply == NULL) && (stats_of(w).calls == 0));
        gate_open(g);
        wait_dropped(w, 1);
        check_echo(w, 1, 100, 1);
        free(data);
    }
    meet(w);
}

static void test_a_call_is_cancelled_and_its_reply_is_dropped(void **state)
{
    gate g;

    (void)state;
    gate_init(&g);
    nxt_local_world(2, NULL, cancelled, &g);
    assert_int_equal(g.passed, 1);
    gate_fini(&g);
}

/* Rank 1 leaves while a handler runs, other calls wait for a thread and the rest was held back;
 * |wait| opens the gate while it leaves. */
static void leaving(nexar_comm *w, void *arg)
{
    enum { CALLS = 40 };
    gate *g = arg;
    nexar_request *reqs[CALLS];
    int answered = 0, refused = 0;
    char byte = 0;

    NXT_OK(w, nexar_rpc_register(w, GATE, wait_at_gate, g));
    meet(w);
    if (nexar_rank(w) == 1) {
        NXT_OK(w, nexar_recv(w, &byte, 1, 0, 3, NULL)); /* all calls are made */
        return;
    }
    for (int i = 0; i < CALLS; i++) {
        NXT_OK(w, nexar_rpc_icall(w, 1, GATE, "x", 1, NULL, NULL, &reqs[i]));
    }
    gate_wait_inside(g, 1);
    NXT_OK(w, nexar_send(w, &byte, 1, 1, 3));
    for (int i = CALLS; i-- > 0;) {
        nexar_err err;

        if (i == 0) { /* all others were refused by then, and so are new ones */
            NXT_SAYS(w, nexar_rpc_call(w, 1, NOBODY, "x", 1, NULL, NULL), NEXAR_EPEER,
                     "it is leaving");
            gate_open(g);
        }
        err = nexar_wait(&reqs[i], NULL);
        NXT_IS(w, (err == NEXAR_OK) || (err == NEXAR_EPEER));
        if (err == NEXAR_EPEER) {
            NXT_IS(w, strstr(nexar_last_error(), "rank 1") != NULL);
        }
        refused += (err == NEXAR_EPEER);
        answered += (err == NEXAR_OK);
    }
    NXT_IS(w, (answered == 1) && (refused == CALLS - 1));
}

static void test_leaving_ends_what_runs_and_refuses_the_rest(void **state)
{
    nexar_config *cfg = config("rpc_threads", "1");
    gate g;

    (void)state;
    gate_init(&g);
    nxt_local_world(2, cfg, leaving, &g);
    assert_int_equal(g.passed, 1);
    gate_fini(&g);
    nexar_config_free(cfg);
}

static void *open_later(void *arg)
{
    gate *g = arg;

    gate_wait_inside(g, 1);
    gate_open(g);
    return NULL;
}

static void test_unregistering_waits_for_what_runs(void **state)
{
    nexar_comm *w = NULL;
    nexar_request *req = NULL;
    pthread_t thread;
    gate g;

    (void)state;
    gate_init(&g);
    assert_int_equal(nexar_init(NULL, &w), NEXAR_OK);
    assert_int_equal(nexar_rpc_register(w, GATE, wait_at_gate, &g), NEXAR_OK);
    assert_int_equal(nexar_rpc_icall(w, 0, GATE, "x", 1, NULL, NULL, &req), NEXAR_OK);
    gate_wait_inside(&g, 1);
    assert_int_equal(pthread_create(&thread, NULL, open_later, &g), 0);
    assert_int_equal(nexar_rpc_register(w, GATE, NULL, NULL), NEXAR_OK);
    assert_int_equal(g.passed, 1);
    (void)pthread_join(thread, NULL);
    gate_fini(&g); /* no thread is in it */
    assert_int_equal(nexar_wait(&req, NULL), NEXAR_OK);
    assert_int_equal(nexar_rpc_call(w, 0, GATE, NULL, 0, NULL, NULL), NEXAR_ENOHANDLER);
    assert_int_equal(nexar_rpc_register(w, GATE, NULL, NULL), NEXAR_OK);
    assert_int_equal(nexar_finalize(w), NEXAR_OK);
}

/* A handler that unregisters itself, and another that replaces itself. */
static nexar_err replace(nexar_rpc *call, const void *data, size_t bytes, void *arg)
{
    nexar_err err = nexar_rpc_register(arg, COUNT, echo, arg);

    return (err == NEXAR_OK) ? nexar_rpc_reply(call, data, bytes) : err;
}

static void test_a_handler_may_replace_itself(void **state)
{
    nexar_comm *w = NULL;

    (void)state;
    assert_int_equal(nexar_init(NULL, &w), NEXAR_OK);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(nexar_rpc_register(w, COUNT, replace, w), NEXAR_OK);
        assert_int_equal(nexar_rpc_call(w, 0, COUNT, "x", 1, NULL, NULL), NEXAR_OK);
        assert_int_equal(nexar_rpc_call(w, 0, COUNT, "x", 1, NULL, NULL), NEXAR_OK);
    }
    assert_int_equal(nexar_finalize(w), NEXAR_OK);
}

/* An abandoned call: never waited for. */
static void left(nexar_comm *w, void *arg)
{
    gate *g = arg;
    static char *reply[2];
    static size_t got[2];
    nexar_request *req[2];

    serve(w);
    NXT_OK(w, nexar_rpc_register(w, GATE, wait_at_gate, g));
    meet(w);
    if (nexar_rank(w) == 0) {
        NXT_OK(w, nexar_rpc_icall(w, 1, GATE, "x", 1, (void **)&reply[0], &got[0], &req[0]));
        NXT_OK(w, nexar_rpc_icall(w, 1, ECHO, "x", 1, (void **)&reply[1], &got[1], &req[1]));
        gate_wait_inside(g, 1);
    } else {
        gate_wait_inside(g, 1);
        gate_open(g);
    }
}

static void test_calls_left_behind_are_freed(void **state)
{
    gate g;

    (void)state;
    gate_init(&g);
    nxt_local_world(2, NULL, left, &g);
    gate_fini(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad_arguments_are_named),
        cmocka_unit_test(test_a_rank_calls_itself),
        cmocka_unit_test(test_without_memory_a_call_fails_and_the_next_one_works),
        cmocka_unit_test(test_without_memory_a_registration_fails),
        cmocka_unit_test(test_calls_of_every_size_are_answered),
        cmocka_unit_test(test_outcomes_are_distinguished),
        cmocka_unit_test(test_threads_of_all_ranks_call_at_once),
        cmocka_unit_test(test_chains_deeper_than_the_pool_end),
        cmocka_unit_test(test_floods_of_nested_calls_end),
        cmocka_unit_test(test_a_flood_of_calls_needs_bounded_memory_and_loses_none),
        cmocka_unit_test(test_a_call_ends_by_its_time_and_its_reply_is_dropped),
        cmocka_unit_test(test_calls_that_wait_for_a_thread_end_by_their_time_or_by_a_cancel),
        cmocka_unit_test(test_a_caller_that_leaves_leaves_no_calls_behind),
        cmocka_unit_test(test_a_call_is_cancelled_and_its_reply_is_dropped),
        cmocka_unit_test(test_leaving_ends_what_runs_and_refuses_the_rest),
        cmocka_unit_test(test_unregistering_waits_for_what_runs),
        cmocka_unit_test(test_a_handler_may_replace_itself),
        cmocka_unit_test(test_calls_left_behind_are_freed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
