/* coll_test.c - collectives and communicators through the public API. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api_call.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "core/comm/comm.h"
#include "local_world.h"
#include "sched_plan.h"
#include "unit.h"

static void trial(nexar_comm *comm, nx_coll_kind kind, uint64_t seed)
{
    const char *wrong = nxt_api_trial(comm, kind, seed);

    nxt_rank_check(comm, wrong == NULL, (wrong == NULL) ? "" : wrong, __FILE__, __LINE__);
}

/* ---- results ------------------------------------------------------------------------- */

enum { CASES = 12 };

static void every_kind(nexar_comm *w, void *arg)
{
    (void)arg;
    for (int kind = 0; kind < NX_COLL_KINDS; kind++) {
        for (uint64_t seed = 0; seed < CASES; seed++) {
            trial(w, (nx_coll_kind)kind, 1000 * (uint64_t)kind + seed);
        }
    }
}

static void test_every_collective_gives_what_it_must(void **state)
{
    (void)state;
    for (int n = 1; n <= 5; n++) {
        nxt_local_world(n, NULL, every_kind, NULL);
    }
}

/* ---- several at once ------------------------------------------------------------------- */

enum { OUTSTANDING = 64, LENGTH = 10000 };

static void many_at_once(nexar_comm *w, void *arg)
{
    float *data = nxt_calloc((size_t)OUTSTANDING * LENGTH, sizeof(*data));
    nexar_request *reqs[OUTSTANDING];
    const int n = nexar_size(w);

    (void)arg;
    for (int i = 0; i < OUTSTANDING; i++) {
        for (int k = 0; k < LENGTH; k++) {
            data[i * LENGTH + k] = (float)(i + k % 100 + nexar_rank(w));
        }
        NXT_OK(w, nexar_iallreduce(w, NEXAR_IN_PLACE, data + (size_t)i * LENGTH, LENGTH, NEXAR_F32,
                                   NEXAR_SUM, &reqs[i]));
    }
    for (int i = OUTSTANDING - 1; i >= 0; i--) { /* completed in reverse */
        NXT_OK(w, nexar_wait(&reqs[i], NULL));
        for (int k = 0; k < LENGTH; k++) {
            const int sum = n * (i + k % 100) + n * (n - 1) / 2;

            NXT_IS(w, data[i * LENGTH + k] == (float)sum);
        }
    }
    free(data);
}

static void test_many_collectives_are_on_their_way_at_once(void **state)
{
    (void)state;
    nxt_local_world(3, NULL, many_at_once, NULL);
}

/* ---- data paths ----------------------------------------------------------------------- */

enum { LONG_COUNT = 16 << 20 }; /* 64 MiB */

/* Received data went directly into the vector: reduced, or stored.  Only data that arrived before
 * its receive was posted was buffered: |arg| is the limit in bytes. */
static void long_vector(nexar_comm *w, void *arg)
{
    float *data = nxt_calloc(LONG_COUNT, sizeof(*data));
    nx_msg_stats before, after;

    for (size_t i = 0; i < LONG_COUNT; i++) {
        data[i] = (float)(i % 1000 + (size_t)nexar_rank(w));
    }
    NXT_OK(w, nexar_barrier(w));
    nx_loop_lock(w->world->loop);
    nx_msg_stats_get(w->world->msg, &before);
    nx_loop_unlock(w->world->loop);
    NXT_OK(w, nexar_allreduce(w, NEXAR_IN_PLACE, data, LONG_COUNT, NEXAR_F32, NEXAR_SUM));
    nx_loop_lock(w->world->loop);
    nx_msg_stats_get(w->world->msg, &after);
    nx_loop_unlock(w->world->loop);
    for (size_t i = 0; i < LONG_COUNT; i++) {
        NXT_IS(w, data[i] == (float)(2 * (i % 1000) + 1));
    }
    /* Half of it is reduced here, half of it was reduced by the other rank. */
    NXT_IS(w, after.delivered - before.delivered + after.copied - before.copied ==
                  LONG_COUNT * sizeof(*data));
    NXT_IS(w, after.copied - before.copied <= *(const uint64_t *)arg);
    free(data);
}

static void reduce_long(const char *eager, uint64_t copied)
{
    nexar_config *cfg;

    assert_int_equal(nexar_config_create(&cfg), NEXAR_OK);
    assert_int_equal(nexar_config_set(cfg, "algorithms", "allreduce:0-:ring_pipelined"), NEXAR_OK);
    assert_int_equal(nexar_config_set(cfg, "transports", "quic"), NEXAR_OK);
    assert_int_equal(nexar_config_set(cfg, "eager", eager), NEXAR_OK);
    nxt_local_world(2, cfg, long_vector, &copied);
    nexar_config_free(cfg);
}

static void test_a_long_vector_is_reduced_where_it_arrives(void **state)
{
    (void)state;
    reduce_long("0", 0);
}

/* Here a segment may arrive before the receiver has begun the call, or has sent the previous
 * contents of its place.  How many do is a matter of timing: 0 to 180 KiB of the 64 MiB on a
 * machine with eight times as many threads as cores.  A sixteenth would be 16 segments in a row. */
static void test_little_of_it_comes_too_early(void **state)
{
    (void)state;
    reduce_long("256k", LONG_COUNT * sizeof(float) / 16);
}

/* ---- many ranks ------------------------------------------------------------------------- */

static void crowd(nexar_comm *w, void *arg)
{
    /* Otherwise all ranks would shake hands with all: 2016 handshakes, which take long on two
     * cores. */
    // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody sets variables
    const bool by_quic = (getenv("NEXAR_TRANSPORTS") != NULL);
    nexar_comm *row;

    (void)arg;
    trial(w, NX_BARRIER, 1);
    trial(w, NX_ALLREDUCE, 2);
    trial(w, NX_BROADCAST, 3);
    trial(w, NX_ALLGATHER, 4);
    for (int kind = NX_GATHER; kind < NX_COLL_KINDS; kind++) {
        if (!by_quic || ((kind != NX_ALLTOALL) && (kind != NX_ALLTOALLV))) {
            trial(w, (nx_coll_kind)kind, 10 + (uint64_t)kind);
        }
    }
    NXT_OK(w, nexar_comm_split(w, nexar_rank(w) / 8, 0, &row));
    trial(row, NX_ALLTOALL, 5);
    trial(row, NX_ALLTOALLV, 7);
    trial(row, NX_SCAN, 6);
    nexar_comm_free(row);
}

static void test_many_ranks(void **state)
{
    nexar_config *cfg;

    (void)state;
    assert_int_equal(nexar_config_create(&cfg), NEXAR_OK);
    /* Handshakes between 64 ranks take long without a core for each. */
    assert_int_equal(nexar_config_set(cfg, "heartbeat_timeout", "1m"), NEXAR_OK);
    nxt_local_world(64, cfg, crowd, NULL);
    nexar_config_free(cfg);
}

/* ---- buckets and shards ------------------------------------------------------------------ */

static void buckets(nexar_comm *w, void *arg)
{
    enum { TENSORS = 300 };
    nexar_tensor tensors[TENSORS];

    (void)arg;
    for (int i = 0; i < TENSORS; i++) {
        tensors[i].count = (size_t)((i * 7919) % 997);
        tensors[i].ptr = nxt_calloc(tensors[i].count + 1, sizeof(double));
        for (size_t k = 0; k < tensors[i].count; k++) {
            ((double *)tensors[i].ptr)[k] = (double)(k * (size_t)(nexar_rank(w) + 1) + (size_t)i);
        }
    }
    NXT_OK(w, nexar_allreduce_bucketed(w, tensors, TENSORS, NEXAR_F64, NEXAR_SUM));
    for (int i = 0; i < TENSORS; i++) {
        for (size_t k = 0; k < tensors[i].count; k++) {
            const size_t n = (size_t)nexar_size(w), sum = k * n * (n + 1) / 2 + (size_t)i * n;

            NXT_IS(w, ((double *)tensors[i].ptr)[k] == (double)sum);
        }
        free(tensors[i].ptr);
    }
    NXT_OK(w, nexar_allreduce_bucketed(w, NULL, 0, NEXAR_F64, NEXAR_SUM));
}

static void test_a_bucket_is_one_allreduce(void **state)
{
    (void)state;
    for (int n = 1; n <= 4; n++) {
        nxt_local_world(n, NULL, buckets, NULL);
    }
}

/* Short tensors, some of them empty, with a word between them that must not change. */
enum { SHORT_TENSORS = 1000, SHORT_ROOM = SHORT_TENSORS * 12 };

typedef struct short_bucket {
    nexar_tensor tensors[SHORT_TENSORS];
    double at[SHORT_ROOM];
    nexar_request *req;
} short_bucket;

static void fill_short(short_bucket *b, double first)
{
    size_t off = 0;

    for (size_t i = 0; i < SHORT_ROOM; i++) {
        b->at[i] = -1;
    }
    for (size_t i = 0; i < SHORT_TENSORS; i++) {
        b->tensors[i] = (nexar_tensor){.ptr = b->at + off, .count = i * 7 % 11};
        for (size_t k = 0; k < b->tensors[i].count; k++) {
            b->at[off + k] = first + (double)(off + k);
        }
        off += b->tensors[i].count + 1;
    }
}

static void check_short(nexar_comm *w, const short_bucket *b, double mean)
{
    for (size_t i = 0; i < SHORT_TENSORS; i++) {
        const double *got = b->tensors[i].ptr;
        const size_t n = b->tensors[i].count, off = (size_t)(got - b->at);

        for (size_t k = 0; k < n; k++) {
            NXT_IS(w, got[k] == mean + (double)(off + k));
        }
        NXT_IS(w, got[n] == -1);
    }
}

/* Through the engine, several at once. */
static void short_tensors(nexar_comm *w, void *arg)
{
    enum { BUCKETS = 3 };
    short_bucket *b = nxt_calloc(BUCKETS, sizeof(*b));
    const int n = nexar_size(w);

    (void)arg;
    for (int i = 0; i < BUCKETS; i++) {
        fill_short(&b[i], 2 * n * i + 2 * nexar_rank(w));
        NXT_OK(w, nexar_iallreduce_bucketed(w, b[i].tensors, SHORT_TENSORS, NEXAR_F64, NEXAR_AVG,
                                            &b[i].req));
    }
    for (int i = BUCKETS - 1; i >= 0; i--) {
        NXT_OK(w, nexar_wait(&b[i].req, NULL));
        check_short(w, &b[i], 2 * n * i + n - 1);
    }
    free(b);
}

static void test_a_bucket_may_be_of_a_thousand_short_tensors(void **state)
{
    (void)state;
    for (int n = 1; n <= 5; n++) {
        nxt_local_world(n, NULL, short_tensors, NULL);
    }
}

typedef struct shards {
    nexar_comm *world;
    int calls;
    size_t count;
} shards;

static nexar_err double_it(void *shard, size_t offset, size_t count, void *arg)
{
    shards *s = arg;
    size_t want_offset, want_count;

    nexar_shard(s->world, s->count, nexar_rank(s->world), &want_offset, &want_count);
    NXT_IS(s->world, (offset == want_offset) && (count == want_count));
    for (size_t i = 0; i < count; i++) {
        ((int64_t *)shard)[i] *= 2;
    }
    s->calls++;
    return NEXAR_OK;
}

static nexar_err refuse(void *shard, size_t offset, size_t count, void *arg)
{
    (void)shard;
    (void)offset;
    (void)count;
    return (nexar_rank(arg) == 1) ? NEXAR_EDEVICE : NEXAR_OK;
}

/* The hook's error is not one of nexar. */
static nexar_err refuse_oddly(void *shard, size_t offset, size_t count, void *arg)
{
    return (refuse(shard, offset, count, arg) == NEXAR_OK) ? NEXAR_OK : (nexar_err)42;
}

static void sharded(nexar_comm *w, void *arg)
{
    static const size_t counts[] = {0, 1, 5, 1000, 100003};
    const int64_t n = nexar_size(w);

    (void)arg;
    for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
        shards s = {.world = w, .count = counts[c]};
        int64_t *buf = nxt_calloc(counts[c] + 1, sizeof(*buf));
        nexar_request *req = NULL;

        for (size_t i = 0; i < counts[c]; i++) {
            buf[i] = (int64_t)i + nexar_rank(w);
        }
        if (c % 2 == 0) {
            NXT_OK(w,
                   nexar_allreduce_rs_ag(w, buf, counts[c], NEXAR_I64, NEXAR_SUM, double_it, &s));
        } else {
            NXT_OK(w, nexar_iallreduce_rs_ag(w, buf, counts[c], NEXAR_I64, NEXAR_SUM, double_it, &s,
                                             &req));
            NXT_OK(w, nexar_wait(&req, NULL));
        }
        NXT_IS(w, s.calls == 1);
        for (size_t i = 0; i < counts[c]; i++) {
            NXT_IS(w, buf[i] == 2 * ((int64_t)i * n + n * (n - 1) / 2));
        }
        NXT_OK(w, nexar_allreduce_rs_ag(w, buf, counts[c], NEXAR_I64, NEXAR_MAX, NULL, NULL));
        free(buf);
    }
    if (n > 1) {
        int64_t one = 1, some[25] = {0};

        NXT_IS(w,
               nexar_allreduce_rs_ag(w, &one, 1, NEXAR_I64, NEXAR_SUM, refuse, w) == NEXAR_EDEVICE);
        NXT_IS(w, strstr(nexar_last_error(), "on_shard of rank 1") != NULL);
        NXT_SAYS(w, nexar_allreduce_rs_ag(w, some, 25, NEXAR_I64, NEXAR_SUM, refuse_oddly, w),
                 NEXAR_EINVAL, "on_shard of rank 1 returned 42");
        trial(w, NX_ALLREDUCE, 5);
    }
}

static void test_a_shard_is_changed_between_the_phases(void **state)
{
    (void)state;
    for (int n = 1; n <= 5; n++) {
        nxt_local_world(n, NULL, sharded, NULL);
    }
}

/* ---- wrong use ------------------------------------------------------------------------------ */

static void bad_arguments(nexar_comm *w, void *arg)
{
    float a[8] = {0}, b[8] = {0};
    const size_t counts[2] = {4, 4};

    (void)arg;
    NXT_SAYS(w, nexar_allreduce(NULL, a, b, 8, NEXAR_F32, NEXAR_SUM), NEXAR_EINVAL, "comm is NULL");
    NXT_SAYS(w, nexar_allreduce(w, a, b, 8, (nexar_dtype)99, NEXAR_SUM), NEXAR_EINVAL, "dtype 99");
    NXT_SAYS(w, nexar_allreduce(w, a, b, 8, NEXAR_F32, (nexar_op)99), NEXAR_EINVAL, "op 99");
    NXT_SAYS(w, nexar_allreduce(w, a, b, 8, NEXAR_F32, NEXAR_BOR), NEXAR_EINVAL, "integer");
    NXT_SAYS(w, nexar_allreduce(w, NULL, b, 8, NEXAR_F32, NEXAR_SUM), NEXAR_EINVAL,
             "sendbuf is NULL");
    NXT_SAYS(w, nexar_allreduce(w, a, NULL, 8, NEXAR_F32, NEXAR_SUM), NEXAR_EINVAL,
             "recvbuf is NULL");
    NXT_SAYS(w, nexar_allreduce(w, a, a + 4, 8, NEXAR_F32, NEXAR_SUM), NEXAR_EINVAL, "overlap");
    NXT_SAYS(w, nexar_allreduce(w, a, b, SIZE_MAX / 2, NEXAR_F32, NEXAR_SUM), NEXAR_EINVAL,
             "PTRDIFF_MAX");
    NXT_SAYS(w, nexar_allreduce(w, a, b, SIZE_MAX / 4, NEXAR_F32, NEXAR_SUM), NEXAR_EINVAL,
             "PTRDIFF_MAX");
    NXT_SAYS(w, nexar_broadcast(w, a, 8, NEXAR_F32, 2), NEXAR_EINVAL, "ranks are 0 to 1");
    NXT_SAYS(w, nexar_scan(w, a, b, 8, NEXAR_F32, NEXAR_AVG), NEXAR_EINVAL, "avg");
    NXT_SAYS(w, nexar_allgatherv(w, a, 4, b, NULL, NULL, NEXAR_F32), NEXAR_EINVAL,
             "counts is NULL");
    NXT_SAYS(w, nexar_allgatherv(w, a, 3, b, counts, NULL, NEXAR_F32), NEXAR_EINVAL,
             "sendcount is 3");
    NXT_SAYS(w, nexar_iallreduce(w, a, b, 8, NEXAR_F32, NEXAR_SUM, NULL), NEXAR_EINVAL,
             "req is NULL");
    NXT_SAYS(w, nexar_comm_split(w, -7, 0, &w), NEXAR_EINVAL, "colour -7");
    trial(w, NX_ALLREDUCE, 1);
}

static void test_bad_arguments_are_named_and_break_nothing(void **state)
{
    (void)state;
    nxt_local_world(2, NULL, bad_arguments, NULL);
}

/* Each rank gives different lengths for its own block in sendcounts and in recvcounts. */
static void own_block_differs(nexar_comm *w, void *arg)
{
    int in[200], out[200];
    size_t send[2] = {1, 1}, recv[2] = {1, 1};
    const size_t displs[2] = {0, 100};
    const int me = nexar_rank(w);
    char sentence[64];
    nexar_request *req = NULL;

    (void)arg;
    memset(in, 7, sizeof(in));
    memset(out, -1, sizeof(out));
    send[me] = 90;
    recv[me] = 10;
    (void)snprintf(sentence, sizeof(sentence), "sendcounts[%d] is 90, but recvcounts[%d] is 10", me,
                   me);
    NXT_SAYS(w, nexar_alltoallv(w, in, send, displs, out, recv, displs, NEXAR_I32), NEXAR_EINVAL,
             sentence);
    NXT_SAYS(w, nexar_ialltoallv(w, in, send, displs, out, recv, displs, NEXAR_I32, &req),
             NEXAR_EINVAL, sentence);
    send[me] = 9;
    NXT_SAYS(w, nexar_alltoallv(w, in, send, displs, out, recv, displs, NEXAR_I32), NEXAR_EINVAL,
             "sendcounts[");
    for (size_t i = 0; i < 200; i++) {
        NXT_IS(w, out[i] == -1);
    }
    send[me] = 10;
    NXT_OK(w, nexar_alltoallv(w, in, send, displs, out, recv, displs, NEXAR_I32));
    /* In place there is only one length, and sendcounts are ignored. */
    send[me] = 90;
    NXT_OK(w, nexar_alltoallv(w, NEXAR_IN_PLACE, send, displs, out, recv, displs, NEXAR_I32));
}

static void test_an_own_block_is_as_long_received_as_sent(void **state)
{
    (void)state;
    nxt_local_world(2, NULL, own_block_differs, NULL);
}

/* Ranks that call different operations: all get an error, and continue. */
static void mismatches(nexar_comm *w, void *arg)
{
    float a[64] = {0}, b[64] = {0};
    const int odd = nexar_rank(w) == nexar_size(w) - 1, n = nexar_size(w);
    const size_t count = odd ? 16 : 8;

    (void)arg;
    NXT_SAYS(w,
             odd ? nexar_broadcast(w, a, 8, NEXAR_F32, 0)
                 : nexar_allreduce(w, a, b, 8, NEXAR_F32, NEXAR_SUM),
             NEXAR_EMISMATCH, "operation #1");
    NXT_SAYS(w, nexar_allreduce(w, a, b, count, NEXAR_F32, NEXAR_SUM), NEXAR_EMISMATCH, "16 x f32");
    NXT_SAYS(w, nexar_allreduce(w, a, b, 8, odd ? NEXAR_I32 : NEXAR_F32, NEXAR_SUM),
             NEXAR_EMISMATCH, "8 x i32");
    NXT_SAYS(w, nexar_allreduce(w, a, b, 8, NEXAR_F32, odd ? NEXAR_MAX : NEXAR_SUM),
             NEXAR_EMISMATCH, "max");
    NXT_SAYS(w, nexar_broadcast(w, a, 8, NEXAR_F32, odd ? n - 1 : 0), NEXAR_EMISMATCH, "root 0");
    NXT_SAYS(w, nexar_reduce(w, a, b, 8, NEXAR_F32, NEXAR_SUM, odd ? n - 1 : 0), NEXAR_EMISMATCH,
             "root 0");
    NXT_SAYS(w, nexar_gather(w, a, b, odd ? 2 : 1, NEXAR_F32, 0), NEXAR_EMISMATCH, "2 x f32");
    NXT_SAYS(w, nexar_scan(w, a, b, count, NEXAR_F32, NEXAR_SUM), NEXAR_EMISMATCH, "16 x f32");
    NXT_SAYS(w, odd ? nexar_barrier(w) : nexar_exscan(w, a, b, 8, NEXAR_F32, NEXAR_SUM),
             NEXAR_EMISMATCH, "barrier()");
    for (uint64_t seed = 0; seed < 8; seed++) {
        trial(w, (nx_coll_kind)(seed % NX_COLL_KINDS), seed);
    }
}

static void test_ranks_that_call_different_things_are_notified(void **state)
{
    (void)state;
    for (int n = 2; n <= 5; n++) {
        nxt_local_world(n, NULL, mismatches, NULL);
    }
}

/* ---- communicators ------------------------------------------------------------------------- */

static void splits(nexar_comm *w, void *arg)
{
    const int rank = nexar_rank(w), n = nexar_size(w);
    nexar_comm *half = NULL, *twin = NULL, *none = w, *back = NULL;
    int mine = rank, got = -1;

    (void)arg;
    NXT_OK(w, nexar_comm_split(w, rank % 2, -rank, &half));
    NXT_IS(w, nexar_size(half) == (n + 1 - rank % 2) / 2);
    NXT_IS(w, nexar_rank(half) == nexar_size(half) - 1 - rank / 2);
    NXT_OK(w, nexar_comm_dup(half, &twin));
    NXT_OK(w, nexar_comm_split(w, NEXAR_NO_COLOR, 0, &none));
    NXT_IS(w, none == NULL);
    NXT_OK(w, nexar_comm_split(w, 0, n - rank, &back));
    NXT_IS(w, (nexar_rank(back) == n - 1 - rank) && (nexar_size(back) == n));

    /* The same tag on four communicators: messages do not mix. */
    nexar_comm *comms[] = {w, half, twin, back};
    for (int i = 0; i < 4; i++) {
        const int me = nexar_rank(comms[i]), size = nexar_size(comms[i]);
        int out = 1000 * i + me;

        NXT_OK(w, nexar_sendrecv(comms[3 - i], &mine, sizeof(mine), nexar_rank(comms[3 - i]), 9,
                                 &got, sizeof(got), NEXAR_ANY_SOURCE, 9, NULL));
        NXT_OK(w, nexar_sendrecv(comms[i], &out, sizeof(out), (me + 1) % size, 7, &got, sizeof(got),
                                 NEXAR_ANY_SOURCE, 7, NULL));
        NXT_IS(w, got == 1000 * i + (me + size - 1) % size);
    }
    for (int kind = 0; kind < NX_COLL_KINDS; kind++) {
        trial(half, (nx_coll_kind)kind, 50 + (uint64_t)kind);
        trial(back, (nx_coll_kind)kind, 60 + (uint64_t)kind);
    }
    nexar_comm_free(half);
    trial(twin, NX_ALLGATHER, 3);
    nexar_comm_free(back);
    nexar_comm_free(twin);
    nexar_comm_free(NULL);
    nexar_comm_free(w);
    trial(w, NX_ALLREDUCE, 4);
}

static void test_communicators_are_apart(void **state)
{
    (void)state;
    for (int n = 1; n <= 5; n++) {
        nxt_local_world(n, NULL, splits, NULL);
    }
}

static void one_split(nexar_comm *w, bool used)
{
    nexar_comm *part;
    int one = 1, sum = 0;

    NXT_OK(w, nexar_comm_split(w, nexar_rank(w) % 2, 0, &part));
    for (int i = 0; used && (i < 12); i++) { /* until ranks of one host have a board */
        NXT_OK(w, nexar_allreduce(part, &one, &sum, 1, NEXAR_I32, NEXAR_SUM));
        NXT_IS(w, sum == nexar_size(part));
    }
    nexar_comm_free(part);
}

typedef struct held {
    int fds, maps; /* of the process, which contains all ranks */
} held;

static held look(void)
{
    held h = {0};
    DIR *dir = opendir("/proc/self/fd");
    FILE *maps = fopen("/proc/self/maps", "r");

    assert_true((dir != NULL) && (maps != NULL));
    while (readdir(dir) != NULL) { // NOLINT(concurrency-mt-unsafe): it is this thread's
        h.fds++;
    }
    for (int c = getc(maps); c != EOF; c = getc(maps)) {
        h.maps += (c == '\n');
    }
    (void)closedir(dir);
    (void)fclose(maps);
    return h;
}

/* A link may have come up late, and the allocator has a few more segments.  Leaking splits would
 * add at least 200, since that many are made. */
enum { SPLITS = 1000, USED = 5, MORE = 50 };

/* The other ranks release their memory in their own time. */
static void must_come_down(nexar_comm *w, const held *before)
{
    const uint64_t deadline_ns = nx_now(&nx_clock_system) + UINT64_C(60000000000);
    held now = look();

    while (((now.fds > before->fds + MORE) || (now.maps > before->maps + MORE)) &&
           (nx_now(&nx_clock_system) < deadline_ns)) {
        (void)usleep(1000);
        now = look();
    }
    NXT_IS(w, now.fds <= before->fds + MORE);
    NXT_IS(w, now.maps <= before->maps + MORE);
}

static void many_splits(nexar_comm *w, void *arg)
{
    held before;

    (void)arg;
    for (int i = 0; i < 20; i++) {
        one_split(w, true);
    }
    NXT_OK(w, nexar_barrier(w));
    before = look();
    for (int i = 0; i < SPLITS; i++) {
        one_split(w, i % USED == 0);
    }
    NXT_OK(w, nexar_barrier(w));
    if (nexar_rank(w) == 0) {
        must_come_down(w, &before);
    }
    NXT_OK(w, nexar_barrier(w));
}

static void test_a_thousand_splits_leave_nothing_behind(void **state)
{
    (void)state;
    nxt_local_world(3, NULL, many_splits, NULL);
}

/* ---- timing ------------------------------------------------------------------------------- */

static void late(nexar_comm *w, void *arg)
{
    float a = 1, b = 0;

    (void)arg;
    if (nexar_rank(w) != 0) {
        NXT_SAYS(w, nexar_allreduce(w, &a, &b, 1, NEXAR_F32, NEXAR_SUM), NEXAR_ETIMEDOUT,
                 "collective_timeout");
        NXT_OK(w, nexar_send(w, &a, sizeof(a), 0, 1));
    } else {
        for (int i = 1; i < nexar_size(w); i++) {
            NXT_OK(w, nexar_recv(w, &a, sizeof(a), i, 1, NULL));
        }
        NXT_SAYS(w, nexar_allreduce(w, &a, &b, 1, NEXAR_F32, NEXAR_SUM), NEXAR_ETIMEDOUT,
                 "allreduce #1");
    }
}

static void test_a_collective_can_time_out(void **state)
{
    nexar_config *cfg;

    (void)state;
    assert_int_equal(nexar_config_create(&cfg), NEXAR_OK);
    assert_int_equal(nexar_config_set(cfg, "collective_timeout", "100ms"), NEXAR_OK);
    nxt_local_world(3, cfg, late, NULL);
    nexar_config_free(cfg);
}

/* Rank 0 has no memory for a call, from its first allocation on: all ranks get an error, and
 * continue. */
static void no_memory(nexar_comm *w, void *arg)
{
    float buf[64] = {0};
    const size_t counts[2] = {1, 1};

    (void)arg;
    for (int what = 0; what < 5; what++) {
        nexar_request *req = NULL;
        nexar_comm *part = NULL;
        nexar_err err = NEXAR_OK;

        if (nexar_rank(w) == 0) {
            nx_alloc_fail_after(0);
        }
        switch (what) {
        case 0: /* of a length that was not used before */
            err = nexar_allreduce(w, NEXAR_IN_PLACE, buf, 63, NEXAR_F32, NEXAR_SUM);
            break;
        case 1:
            err = nexar_iallreduce(w, NEXAR_IN_PLACE, buf, 62, NEXAR_F32, NEXAR_SUM, &req);
            break;
        case 2:
            err = nexar_allgatherv(w, buf, 1, buf + 8, counts, NULL, NEXAR_F32);
            break;
        case 3:
            err = nexar_comm_split(w, 0, 0, &part);
            break;
        default:
            err = nexar_allreduce_compressed(w, buf, 64, NEXAR_F32, NEXAR_SUM, NEXAR_COMPRESS_INT8,
                                             0, NULL);
            break;
        }
        if ((err == NEXAR_OK) && (req != NULL)) {
            err = nexar_wait(&req, NULL);
        }
        nx_alloc_fail_after(-1);
        NXT_IS(w, (err == NEXAR_ENOMEM) || (err == NEXAR_OK)); /* on the board it needs no memory */
        trial(w, NX_ALLREDUCE, 1);
    }
}

static void test_a_rank_without_memory_does_not_leave_the_others_waiting(void **state)
{
    (void)state;
    nxt_local_world(2, NULL, no_memory, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_collective_gives_what_it_must),
        cmocka_unit_test(test_many_collectives_are_on_their_way_at_once),
        cmocka_unit_test(test_a_long_vector_is_reduced_where_it_arrives),
        cmocka_unit_test(test_little_of_it_comes_too_early),
        cmocka_unit_test(test_many_ranks),
        cmocka_unit_test(test_a_bucket_is_one_allreduce),
        cmocka_unit_test(test_a_bucket_may_be_of_a_thousand_short_tensors),
        cmocka_unit_test(test_a_shard_is_changed_between_the_phases),
        cmocka_unit_test(test_bad_arguments_are_named_and_break_nothing),
        cmocka_unit_test(test_a_rank_without_memory_does_not_leave_the_others_waiting),
        cmocka_unit_test(test_an_own_block_is_as_long_received_as_sent),
        cmocka_unit_test(test_ranks_that_call_different_things_are_notified),
        cmocka_unit_test(test_communicators_are_apart),
        cmocka_unit_test(test_a_thousand_splits_leave_nothing_behind),
        cmocka_unit_test(test_a_collective_can_time_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
