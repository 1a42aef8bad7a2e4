/*
 * host_forms_test.c - buckets, allreduce_rs_ag and the v forms on shared memory, through
 * the public API.
 */
#include <stdio.h>

#include "base/alloc.h"
#include "host_world.h"
#include "local_world.h"
#include "unit.h"

static int64_t value(int64_t rank, size_t at)
{
    return (rank + 1) * 1000003 + (int64_t)at * 7;
}

/* Over all ranks. */
static int64_t sum(int64_t n, size_t at)
{
    int64_t s = 0;

    for (int64_t r = 0; r < n; r++) {
        s += value(r, at);
    }
    return s;
}

/* ---- buckets ---------------------------------------------------------------------------- */

enum { TENSORS = 1000, MANY = 7000 };

/* Odd lengths, many short, some long, some empty: about |each| elements on average. */
static size_t tensor_count(size_t i, size_t each)
{
    if (i % 17 == 3) {
        return 0;
    }
    return (i % 97 == 5) ? 48 * each + i : (each / 2) + i % 7;
}

/* One tensor after another in |at|, with a gap, so that they are not contiguous. */
// NOLINTNEXTLINE(readability-non-const-parameter): it is written to through the tensors
static size_t lay_out(nexar_tensor *tensors, size_t n, size_t each, int64_t *at)
{
    size_t off = 0;

    for (size_t i = 0; i < n; i++) {
        tensors[i] =
            (nexar_tensor){.ptr = (at == NULL) ? NULL : at + off, .count = tensor_count(i, each)};
        off += tensors[i].count + 1;
    }
    return off;
}

static void bucket(nexar_comm *w, size_t n, size_t each, bool shared, nexar_op op)
{
    static _Thread_local nexar_tensor tensors[MANY];
    const size_t room = lay_out(tensors, n, each, NULL);
    const int64_t ranks = nexar_size(w), me = nexar_rank(w);
    int64_t *at = nxt_host_take(w, shared, room * sizeof(*at));
    size_t off = 0;

    for (size_t i = 0; i < room; i++) {
        at[i] = -5;
    }
    (void)lay_out(tensors, n, each, at);
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < tensors[i].count; k++) {
            ((int64_t *)tensors[i].ptr)[k] = value(me, off++);
        }
    }
    NXT_OK(w, nexar_allreduce_bucketed(w, tensors, n, NEXAR_I64, op));
    off = 0;
    for (size_t i = 0; i < n; i++) {
        const int64_t *got = tensors[i].ptr;

        for (size_t k = 0; k < tensors[i].count; k++, off++) {
            NXT_IS(w, got[k] == ((op == NEXAR_AVG) ? sum(ranks, off) / ranks : sum(ranks, off)));
        }
        NXT_IS(w, got[tensors[i].count] == -5); /* the gaps are unchanged */
    }
    nxt_host_give_back(w, shared, at);
}

static void buckets(nexar_comm *w, void *arg)
{
    static const size_t tensors[] = {1, 3, 100, TENSORS}, each[] = {4, 40, 500};
    const uint64_t before = (nxt_host_warm_up(w), nxt_host_count(w));
    uint64_t calls = 0;

    for (size_t i = 0; i < 4; i++) {
        for (size_t k = 0; k < 3; k++) {
            const bool some = (nexar_rank(w) % 2 == 0);

            bucket(w, tensors[i], each[k], false, NEXAR_SUM);
            bucket(w, tensors[i], each[k], true, NEXAR_AVG);
            bucket(w, tensors[i], each[k], some, NEXAR_SUM);
            calls += 3;
        }
    }
    bucket(w, MANY, 4, true, NEXAR_SUM); /* more than all slots hold, of short tensors */
    calls++;
    NXT_IS(w, (arg != NULL) || (nxt_host_count(w) - before == calls));
}

static void short_buckets(nexar_comm *w, void *arg)
{
    (void)arg;
    buckets(w, w);
}

static void test_buckets_of_any_size_are_direct(void **state)
{
    (void)state;
    for (int n = 2; n <= 5; n++) {
        nxt_local_world(n, NULL, buckets, NULL);
    }
    nxt_host_with_setting(3, "spin", "20us",
                          buckets); /* as if there were a core for each rank: pieces */
    nxt_host_with_setting(2, "direct", "short", short_buckets);
}

static void uneven_bucket(nexar_comm *w, void *arg)
{
    static _Thread_local float at[3000];
    const int odd = nexar_rank(w) == nexar_size(w) - 1;
    const nexar_tensor tensors[2] = {{at, odd ? 1000 : 2000}, {at + 2000, odd ? 2000 : 1000}};

    (void)arg;
    nxt_host_warm_up(w);
    NXT_SAYS(w, nexar_allreduce_bucketed(w, tensors, 2, NEXAR_F32, NEXAR_SUM), NEXAR_EMISMATCH,
             "with other counts, tensors");
    bucket(w, 10, 100, false, NEXAR_SUM);
}

static void test_buckets_that_differ_are_found_out(void **state)
{
    (void)state;
    nxt_local_world(3, NULL, uneven_bucket, NULL);
}

/* ---- rs_ag ------------------------------------------------------------------------------- */

typedef struct hooked {
    nexar_comm *w;
    const int64_t *buf;
    size_t count;
    unsigned calls;
    nexar_err answer;
} hooked;

/* Adds one to its whole shard. */
static nexar_err on_shard(void *shard, size_t off, size_t n, void *arg)
{
    hooked *h = arg;
    int64_t *at = shard;
    size_t want_off, want_n;

    nexar_shard(h->w, h->count, nexar_rank(h->w), &want_off, &want_n);
    NXT_IS(h->w, (off == want_off) && (n == want_n));
    NXT_IS(h->w, (n == 0) || (at == h->buf + off));
    for (size_t i = 0; i < n; i++) {
        NXT_IS(h->w, at[i] == sum(nexar_size(h->w), off + i));
        at[i]++;
    }
    h->calls++;
    return h->answer;
}

static void shards(nexar_comm *w, size_t n, bool shared, bool hook)
{
    int64_t *at = nxt_host_take(w, shared, (n + 1) * sizeof(*at));
    hooked h = {.w = w, .buf = at, .count = n};

    for (size_t i = 0; i < n; i++) {
        at[i] = value(nexar_rank(w), i);
    }
    NXT_OK(w, nexar_allreduce_rs_ag(w, at, n, NEXAR_I64, NEXAR_SUM, hook ? on_shard : NULL, &h));
    NXT_IS(w, h.calls == hook);
    for (size_t i = 0; i < n; i++) {
        NXT_IS(w, at[i] == sum(nexar_size(w), i) + hook);
    }
    nxt_host_give_back(w, shared, at);
}

static void sharded(nexar_comm *w, void *arg)
{
    static const size_t counts[] = {0, 1, 3, 100, 1001, 8192, 8193, 100003};
    const uint64_t before = (nxt_host_warm_up(w), nxt_host_count(w));

    for (size_t i = 0; i < 8; i++) {
        shards(w, counts[i], false, true);
        shards(w, counts[i], true, true);
        shards(w, counts[i], nexar_rank(w) == 0, false);
    }
    NXT_IS(w, (arg != NULL) || (nxt_host_count(w) - before == 24));
}

static void short_sharded(nexar_comm *w, void *arg)
{
    (void)arg;
    sharded(w, w);
}

static void test_the_hook_has_its_shard_between_the_phases(void **state)
{
    (void)state;
    for (int n = 2; n <= 5; n++) {
        nxt_local_world(n, NULL, sharded, NULL);
    }
    nxt_host_with_setting(3, "spin", "20us", sharded);
    nxt_host_with_setting(3, "direct", "short", short_sharded);
}

static void failing_hook(nexar_comm *w, void *arg)
{
    static _Thread_local int64_t at[20000];
    const size_t n = (arg == NULL) ? 100 : 20000;
    hooked h = {.w = w, .buf = at, .count = n};

    nxt_host_warm_up(w);
    for (size_t i = 0; i < n; i++) {
        at[i] = value(nexar_rank(w), i);
    }
    h.answer = (nexar_rank(w) == 1) ? NEXAR_EINVAL : NEXAR_OK;
    NXT_SAYS(w, nexar_allreduce_rs_ag(w, at, n, NEXAR_I64, NEXAR_SUM, on_shard, &h), NEXAR_EINVAL,
             "on_shard of rank 1 returned");
    shards(w, n, false, true); /* by the engine from here on */
}

static void test_a_hook_that_fails_ends_the_call_on_all(void **state)
{
    static int big;

    (void)state;
    nxt_local_world(3, NULL, failing_hook, NULL);
    nxt_local_world(3, NULL, failing_hook, &big);
}

/* The hook of one rank fails, for a vector with fewer elements than ranks. */
static void fail_at(nexar_comm *w, int bad, size_t count, bool with_request)
{
    int64_t at[8];
    hooked h = {.w = w, .buf = at, .count = count};
    char says[64];
    nexar_err err;

    for (size_t i = 0; i < count; i++) {
        at[i] = value(nexar_rank(w), i);
    }
    h.answer = (nexar_rank(w) == bad) ? NEXAR_EDEVICE : NEXAR_OK;
    (void)snprintf(says, sizeof(says), "on_shard of rank %d returned", bad);
    if (with_request) {
        nexar_request *req = NULL;

        NXT_OK(w, nexar_iallreduce_rs_ag(w, at, count, NEXAR_I64, NEXAR_SUM, on_shard, &h, &req));
        err = nexar_wait(&req, NULL);
    } else {
        err = nexar_allreduce_rs_ag(w, at, count, NEXAR_I64, NEXAR_SUM, on_shard, &h);
    }
    NXT_SAYS(w, err, NEXAR_EDEVICE, says);
}

/* |arg|: uses the board, which the first failure breaks. */
static void failing_without_a_shard(nexar_comm *w, void *arg)
{
    const int n = nexar_size(w);

    for (size_t count = 0; count < (size_t)n; count++) {
        for (int bad = 0; bad < n; bad++) {
            nexar_comm *sub = NULL;

            NXT_OK(w, nexar_comm_dup(w, &sub));
            if (arg != NULL) {
                nxt_host_warm_up(sub);
            }
            fail_at(sub, bad, count, false);
            fail_at(sub, bad, count, true);
            shards(sub, count, false, true);
            nexar_comm_free(sub);
        }
    }
}

static void engine_without_a_shard(nexar_comm *w, void *arg)
{
    (void)arg;
    failing_without_a_shard(w, NULL);
}

static void test_a_hook_without_a_shard_that_fails_ends_the_call_on_all(void **state)
{
    static int direct;

    (void)state;
    for (int n = 2; n <= 5; n++) {
        nxt_local_world(n, NULL, failing_without_a_shard, &direct);
        nxt_host_with_setting(n, "direct", "off", engine_without_a_shard);
        nxt_host_with_setting(n, "transports", "quic", engine_without_a_shard);
    }
    nxt_host_with_setting(5, "algorithms", "allreduce:0-:ring", engine_without_a_shard);
}

/* ---- v forms ------------------------------------------------------------------------------- */

typedef struct blocks {
    nexar_comm *w;
    int n, me;
    size_t each, counts[8], displs[8];
    int64_t *in, *out;
    size_t room;
} blocks;

/* The data from |from| to |to|; the lengths differ by a factor of two and more. */
static size_t block_len(const blocks *b, int from, int to)
{
    return ((from + 2 * to) % 5 == 4) ? 0 : b->each * (size_t)(1 + from) + (size_t)to;
}

static int64_t block_value(int from, int to, size_t at)
{
    return value(from * 100 + to, at);
}

/* |counts| and |displs|: consecutive blocks, in |order|, with a gap. */
static void place_blocks(blocks *b, bool backwards)
{
    size_t off = 0;

    for (int i = 0; i < b->n; i++) {
        const int rank = backwards ? b->n - 1 - i : i;

        b->displs[rank] = off;
        off += b->counts[rank] + 1;
    }
    NXT_IS(b->w, off <= b->room);
    for (size_t i = 0; i < b->room; i++) {
        b->out[i] = -1;
    }
}

static void check_block(const blocks *b, const int64_t *at, int from, int to, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        NXT_IS(b->w, at[i] == block_value(from, to, i));
    }
}

static void all_gather_v(blocks *b, bool in_place)
{
    const void *in = in_place ? NEXAR_IN_PLACE : b->in; // NOLINT(performance-no-int-to-ptr)

    for (int r = 0; r < b->n; r++) {
        b->counts[r] = block_len(b, r, 0);
    }
    place_blocks(b, b->me % 2 == 0); /* each rank may place them differently */
    for (size_t i = 0; i < b->counts[b->me]; i++) {
        (in_place ? b->out + b->displs[b->me] : b->in)[i] = block_value(b->me, 0, i);
    }
    NXT_OK(b->w,
           nexar_allgatherv(b->w, in, b->counts[b->me], b->out, b->counts, b->displs, NEXAR_I64));
    for (int r = 0; r < b->n; r++) {
        check_block(b, b->out + b->displs[r], r, 0, b->counts[r]);
        NXT_IS(b->w, b->out[b->displs[r] + b->counts[r]] == -1);
    }
}

static void to_root_v(blocks *b, bool in_place, int root)
{
    const bool here = (b->me == root);
    const size_t own = block_len(b, b->me, root);
    const void *in = (here && in_place) ? NEXAR_IN_PLACE : b->in; // NOLINT

    for (int r = 0; r < b->n; r++) {
        b->counts[r] = block_len(b, r, root);
    }
    place_blocks(b, true);
    for (size_t i = 0; i < own; i++) {
        ((here && in_place) ? b->out + b->displs[root] : b->in)[i] = block_value(b->me, root, i);
    }
    NXT_OK(b->w, nexar_gatherv(b->w, in, own, b->out, here ? b->counts : NULL,
                               here ? b->displs : NULL, NEXAR_I64, root));
    for (int r = 0; here && (r < b->n); r++) {
        check_block(b, b->out + b->displs[r], r, root, b->counts[r]);
        NXT_IS(b->w, b->out[b->displs[r] + b->counts[r]] == -1);
    }
}

static void from_root_v(blocks *b, int root)
{
    const bool here = (b->me == root);
    const size_t own = block_len(b, root, b->me);

    for (int r = 0; r < b->n; r++) {
        b->counts[r] = block_len(b, root, r);
    }
    place_blocks(b, true);
    for (int r = 0; here && (r < b->n); r++) {
        for (size_t i = 0; i < b->counts[r]; i++) {
            b->in[b->displs[r] + i] = block_value(root, r, i);
        }
    }
    NXT_OK(b->w, nexar_scatterv(b->w, b->in, here ? b->counts : NULL, here ? b->displs : NULL,
                                b->out, own, NEXAR_I64, root));
    check_block(b, b->out, root, b->me, own);
    NXT_IS(b->w, b->out[own] == -1);
}

static void all_to_all_v(blocks *b)
{
    size_t counts[8], displs[8], off = 0;

    for (int r = 0; r < b->n; r++) {
        counts[r] = block_len(b, b->me, r);
        displs[r] = off;
        for (size_t i = 0; i < counts[r]; i++) {
            b->in[off + i] = block_value(b->me, r, i);
        }
        off += counts[r];
        b->counts[r] = block_len(b, r, b->me);
    }
    place_blocks(b, true);
    NXT_OK(b->w,
           nexar_alltoallv(b->w, b->in, counts, displs, b->out, b->counts, b->displs, NEXAR_I64));
    for (int r = 0; r < b->n; r++) {
        check_block(b, b->out + b->displs[r], r, b->me, b->counts[r]);
        NXT_IS(b->w, b->out[b->displs[r] + b->counts[r]] == -1);
    }
}

/* Lengths are equal in both directions. */
static void all_to_all_in_place_v(blocks *b)
{
    const void *in_place = NEXAR_IN_PLACE; // NOLINT(performance-no-int-to-ptr)

    for (int r = 0; r < b->n; r++) {
        b->counts[r] = b->each * (size_t)(1 + r + b->me);
    }
    place_blocks(b, true);
    for (int r = 0; r < b->n; r++) {
        for (size_t i = 0; i < b->counts[r]; i++) {
            b->out[b->displs[r] + i] = block_value(b->me, r, i);
        }
    }
    NXT_OK(b->w,
           nexar_alltoallv(b->w, in_place, NULL, NULL, b->out, b->counts, b->displs, NEXAR_I64));
    for (int r = 0; r < b->n; r++) {
        check_block(b, b->out + b->displs[r], r, b->me, b->counts[r]);
    }
}

static void reduce_scatter_v(blocks *b, bool in_place)
{
    const void *in = in_place ? NEXAR_IN_PLACE : b->in; // NOLINT(performance-no-int-to-ptr)
    size_t all = 0, before = 0;

    for (int r = 0; r < b->n; r++) {
        b->counts[r] = block_len(b, r, 1);
        before += (r < b->me) ? b->counts[r] : 0;
        all += b->counts[r];
    }
    for (size_t i = 0; i < all; i++) {
        (in_place ? b->out : b->in)[i] = value(b->me, i);
    }
    NXT_OK(b->w, nexar_reduce_scatterv(b->w, in, b->out, b->counts, NEXAR_I64, NEXAR_AVG));
    for (size_t i = 0; i < b->counts[b->me]; i++) {
        NXT_IS(b->w, b->out[i] == sum(b->n, before + i) / b->n);
    }
}

static void v_forms(nexar_comm *w, void *arg)
{
    static const size_t each[] = {1, 300, 5000};
    const uint64_t start = (nxt_host_warm_up(w), nxt_host_count(w));

    for (size_t k = 0; k < 3; k++) {
        blocks b = {.w = w, .n = nexar_size(w), .me = nexar_rank(w), .each = each[k]};
        const bool in_shared = (b.me % 2 == 0), out_shared = (k == 2);

        b.room = (size_t)(b.n * b.n * 3) * (b.each + 2);
        b.in = nxt_host_take(w, in_shared, b.room * sizeof(*b.in));
        b.out = nxt_host_take(w, out_shared, b.room * sizeof(*b.out));
        for (int i = 0; i < 3; i++) {
            const bool in_place = (i == 2) ? (b.me % 2 == 0) : (i == 1);

            all_gather_v(&b, in_place);
            to_root_v(&b, in_place, i % b.n);
            from_root_v(&b, (i + 1) % b.n);
            all_to_all_v(&b);
            all_to_all_in_place_v(&b);
            reduce_scatter_v(&b, in_place);
        }
        nxt_host_give_back(w, in_shared, b.in);
        nxt_host_give_back(w, out_shared, b.out);
    }
    NXT_IS(w, (arg != NULL) || (nxt_host_count(w) - start == 54));
}

static void short_v_forms(nexar_comm *w, void *arg)
{
    const uint64_t before = nxt_host_count(w);

    (void)arg;
    v_forms(w, w);
    NXT_IS(w, nxt_host_count(w) - before >= 18); /* as much as fits on the board */
}

static void test_v_forms_are_direct(void **state)
{
    (void)state;
    for (int n = 2; n <= 5; n++) {
        nxt_local_world(n, NULL, v_forms, NULL);
    }
    nxt_local_world(8, NULL, v_forms, NULL);
    nxt_host_with_setting(3, "direct", "short", short_v_forms);
}

/* Rank 0 expects more than rank 1 has. */
static void uneven_blocks(nexar_comm *w, void *arg)
{
    static _Thread_local int64_t in[20000], out[40000];
    const size_t each = (arg == NULL) ? 5 : 9000;
    size_t counts[2] = {each, each + 1}, send[2] = {each, each};
    const int me = nexar_rank(w);
    uint64_t before;

    nxt_host_warm_up(w);
    before = nxt_host_count(w);
    counts[1] = (me == 0) ? each + 1 : each;
    NXT_SAYS(w, nexar_alltoallv(w, in, send, NULL, out, counts, NULL, NEXAR_I64), NEXAR_EMISMATCH,
             (arg == NULL) ? "sends 5 x i64 to rank 0, which called the same and expects 6"
                           : "sends 9000 x i64 to rank 0, which called the same and expects 9001");
    NXT_OK(w, nexar_barrier(w));
    NXT_IS(w, nxt_host_count(w) == before + 2); /* the board is intact */
}

static void test_blocks_of_another_length_are_found_out(void **state)
{
    static int big;

    (void)state;
    nxt_local_world(2, NULL, uneven_blocks, NULL);
    nxt_local_world(2, NULL, uneven_blocks, &big);
}

/* The counts of a rank's block to itself differ. */
static void own_block_differs(nexar_comm *w, void *arg)
{
    int64_t in[40] = {0}, out[40] = {0};
    size_t send[2] = {5, 5}, counts[2] = {5, 5};

    (void)arg;
    nxt_host_warm_up(w);
    send[nexar_rank(w)] = 9;
    NXT_SAYS(w, nexar_alltoallv(w, in, send, NULL, out, counts, NULL, NEXAR_I64), NEXAR_EINVAL,
             "is 9, but recvcounts[");
    send[nexar_rank(w)] = 5;
    NXT_OK(w, nexar_alltoallv(w, in, send, NULL, out, counts, NULL, NEXAR_I64));
}

static void test_an_own_block_is_as_long_received_as_sent(void **state)
{
    (void)state;
    nxt_local_world(2, NULL, own_block_differs, NULL);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static nexar_err one_of_each(nexar_comm *w, int which, int64_t *in, int64_t *out)
{
    enum { EACH = 150000 };
    const void *in_place = NEXAR_IN_PLACE; // NOLINT(performance-no-int-to-ptr)
    const size_t counts[2] = {EACH, EACH};
    const nexar_tensor tensors[2] = {{out, EACH}, {out + EACH, EACH}};

    switch (which) {
    case 0:
        return nexar_allreduce_bucketed(w, tensors, 2, NEXAR_I64, NEXAR_SUM);
    case 1:
        return nexar_alltoall(w, in_place, out, EACH, NEXAR_I64);
    case 2:
        return nexar_alltoallv(w, in_place, NULL, NULL, out, counts, counts, NEXAR_I64);
    case 3:
        return nexar_reduce(w, in, out, EACH, NEXAR_I64, NEXAR_SUM, 0);
    default:
        return nexar_exscan(w, in, out, EACH, NEXAR_I64, NEXAR_SUM);
    }
}

/* Allocations of rank 0 fail in the call: the error is reported, or has no effect, and no rank
 * waits indefinitely. */
static void no_memory(nexar_comm *w, void *arg)
{
    static _Thread_local int64_t in[300000], out[300000];
    const int which = *(const int *)arg;

    nxt_host_warm_up(w);
    for (long n = 0; n < 6; n++) {
        nexar_err err;

        if (nexar_rank(w) == 0) {
            nx_alloc_fail_after(n);
        }
        err = one_of_each(w, which, in, out);
        nx_alloc_fail_after(-1);
        NXT_IS(w, (err == NEXAR_OK) || (err == NEXAR_ENOMEM));
        NXT_OK(w, nexar_barrier(w));
    }
}

static void test_lack_of_memory_is_an_error(void **state)
{
    (void)state;
    for (int which = 0; which < 5; which++) {
        nxt_local_world(2, NULL, no_memory, &which);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_buckets_of_any_size_are_direct),
        cmocka_unit_test(test_buckets_that_differ_are_found_out),
        cmocka_unit_test(test_the_hook_has_its_shard_between_the_phases),
        cmocka_unit_test(test_a_hook_that_fails_ends_the_call_on_all),
        cmocka_unit_test(test_a_hook_without_a_shard_that_fails_ends_the_call_on_all),
        cmocka_unit_test(test_v_forms_are_direct),
        cmocka_unit_test(test_blocks_of_another_length_are_found_out),
        cmocka_unit_test(test_an_own_block_is_as_long_received_as_sent),
        cmocka_unit_test(test_lack_of_memory_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
