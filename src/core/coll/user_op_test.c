/* user_op_test.c - element types and operations of the application. */
#include <nexar.h>
#include <stdlib.h>
#include <string.h>

#include "local_world.h"
#include "unit.h"

/* A value and its location, as in MPI_MINLOC. */
typedef struct loc {
    double value;
    int64_t rank;
} loc;

static const nexar_dtype LOC = NEXAR_STRUCT(sizeof(loc));

static void min_loc(void *inout, const void *in, size_t count, nexar_dtype dtype, void *arg)
{
    const loc *b = in;
    loc *a = inout;

    assert_int_equal(dtype, LOC);
    assert_ptr_equal(arg, &LOC);
    assert_int_equal((uintptr_t)a % _Alignof(loc), 0);
    assert_int_equal((uintptr_t)b % _Alignof(loc), 0);
    for (size_t i = 0; i < count; i++) {
        if ((b[i].value < a[i].value) || ((b[i].value == a[i].value) && (b[i].rank < a[i].rank))) {
            a[i] = b[i];
        }
    }
}

/* Greatest common divisor, on a type that nexar has. */
static void gcd(void *inout, const void *in, size_t count, nexar_dtype dtype, void *arg)
{
    const uint32_t *b = in;
    uint32_t *a = inout;

    assert_int_equal(dtype, NEXAR_U32);
    (void)arg;
    for (size_t i = 0; i < count; i++) {
        for (uint32_t y = b[i]; y != 0;) {
            const uint32_t rest = a[i] % y;

            a[i] = y;
            y = rest;
        }
    }
}

static nexar_op MINLOC, GCD;

static int create(void **state)
{
    (void)state;
    return (nexar_op_create(0, min_loc, (void *)(uintptr_t)&LOC, &MINLOC) != NEXAR_OK) ||
           (nexar_op_create(1023, gcd, NULL, &GCD) != NEXAR_OK);
}

/* The contribution of |rank| at |i|: the minimum is at rank i mod size, and at all ranks for every
 * fifth. */
static loc brought(int rank, size_t i, int size)
{
    const int at = (int)(i % (size_t)size);

    return (loc){.value = (i % 5 == 0) ? 1.5 : (double)((rank + size - at) % size), .rank = rank};
}

/* The result over the ranks before |end|. */
static loc least(size_t i, int size, int end)
{
    loc best = brought(0, i, size);

    for (int rank = 1; rank < end; rank++) {
        const loc its = brought(rank, i, size);

        best = (its.value < best.value) ? its : best;
    }
    return best;
}

static void fill(nexar_comm *w, loc *at, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        at[i] = brought(nexar_rank(w), i, nexar_size(w));
    }
}

static bool holds(nexar_comm *w, const loc *at, size_t from, size_t n, int end)
{
    bool right = true;

    for (size_t i = 0; right && (i < n); i++) {
        const loc want = least(from + i, nexar_size(w), end);

        right = (at[i].value == want.value) && (at[i].rank == want.rank);
    }
    return right;
}

static nexar_err hook(void *shard, size_t off, size_t count, void *arg)
{
    nexar_comm *w = arg;

    NXT_IS(w, holds(w, shard, off, count, nexar_size(w)));
    return NEXAR_OK;
}

static void reduce_all(nexar_comm *w, loc *in, loc *out, size_t n)
{
    const int me = nexar_rank(w), size = nexar_size(w);
    const nexar_tensor tensors[] = {{.ptr = out, .count = n / 3},
                                    {.ptr = out + n / 3, .count = n - n / 3}};
    nexar_request *req = NULL;

    NXT_OK(w, nexar_allreduce(w, in, out, n, LOC, MINLOC));
    NXT_IS(w, holds(w, out, 0, n, size));
    NXT_OK(w, nexar_reduce(w, in, out, n, LOC, MINLOC, size - 1));
    NXT_IS(w, (me != size - 1) || holds(w, out, 0, n, size));
    NXT_OK(w, nexar_scan(w, in, out, n, LOC, MINLOC));
    NXT_IS(w, holds(w, out, 0, n, me + 1));
    memset(out, 0x5a, n * sizeof(*out));
    NXT_OK(w, nexar_exscan(w, in, out, n, LOC, MINLOC));
    if (me == 0) {
        NXT_IS(w, (n == 0) || (out[0].rank == 0x5a5a5a5a5a5a5a5a));
        NXT_IS(w, (n == 0) || (out[n - 1].rank == 0x5a5a5a5a5a5a5a5a));
    } else {
        NXT_IS(w, holds(w, out, 0, n, me));
    }
    fill(w, out, n);
    NXT_OK(w, nexar_allreduce_bucketed(w, tensors, 2, LOC, MINLOC));
    NXT_IS(w, holds(w, out, 0, n, size));
    fill(w, out, n);
    NXT_OK(w, nexar_allreduce_rs_ag(w, out, n, LOC, MINLOC, hook, w));
    NXT_IS(w, holds(w, out, 0, n, size));
    fill(w, out, n);
    NXT_OK(w, nexar_iallreduce(w, NEXAR_IN_PLACE, out, n, LOC, MINLOC, &req));
    NXT_OK(w, nexar_wait(&req, NULL));
    NXT_IS(w, holds(w, out, 0, n, size));
}

static void reduce_blocks(nexar_comm *w, loc *in, loc *out, size_t n)
{
    const int me = nexar_rank(w), size = nexar_size(w);
    const size_t block = n / (size_t)size;
    size_t counts[8], off = 0;

    NXT_OK(w, nexar_reduce_scatter(w, in, out, block, LOC, MINLOC));
    NXT_IS(w, holds(w, out, (size_t)me * block, block, size));
    for (int rank = 0; rank < size; rank++) {
        counts[rank] = (rank == 0) ? n - (size_t)(size - 1) * (block / 2) : block / 2;
        off += (rank < me) ? counts[rank] : 0;
    }
    NXT_OK(w, nexar_reduce_scatterv(w, in, out, counts, LOC, MINLOC));
    NXT_IS(w, holds(w, out, off, counts[me], size));
}

static void numbers(nexar_comm *w)
{
    uint32_t value = 6U * 35U * (uint32_t)(nexar_rank(w) + 1);

    NXT_OK(w, nexar_allreduce(w, NEXAR_IN_PLACE, &value, 1, NEXAR_U32, GCD));
    NXT_IS(w, value == 6U * 35U);
}

static loc *room(size_t n)
{
    loc *at = calloc(n + 1, sizeof(*at));

    if (at == NULL) {
        abort();
    }
    return at;
}

static void every_call(nexar_comm *w, void *arg)
{
    static const size_t counts[] = {0, 1, 7, 1000, 70001};

    (void)arg;
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        loc *in = room(counts[i]), *out = room(counts[i]);

        fill(w, in, counts[i]);
        reduce_all(w, in, out, counts[i]);
        reduce_blocks(w, in, out, counts[i]);
        free(in);
        free(out);
    }
    numbers(w);
}

static void test_every_reduction_takes_them(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 4; ranks++) {
        nxt_local_world(ranks, NULL, every_call, NULL);
    }
}

static void test_so_does_every_algorithm(void **state)
{
    static const char *const rules[] = {
        "allreduce:0-:recdbl,reduce:0-:binomial,reduce_scatter:0-:ring,scan:0-:hillis_steele",
        "exscan:0-:hillis_steele",
        "allreduce:0-:ring,reduce:0-:chain,reduce_scatter:0-:halving,scan:0-:chain,exscan:0-:chain",
        "allreduce:0-:halving_doubling,reduce:0-:rs_gather,reduce_scatter:0-:twolevel",
        "allreduce:0-:rs_ag,reduce:0-:twolevel,reduce_scatter:0-:twolevel_ring",
        "allreduce:0-:twolevel,reduce:0-:star",
        "allreduce:0-:star",
        "allreduce:0-:ring_pipelined",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        nexar_config *cfg;

        assert_int_equal(nexar_config_create(&cfg), NEXAR_OK);
        assert_int_equal(nexar_config_set(cfg, "algorithms", rules[i]), NEXAR_OK);
        nxt_local_world(3, cfg, every_call, NULL);
        nexar_config_free(cfg);
    }
}

/* Data movement works with structs of any size. */
static void moves(nexar_comm *w, void *arg)
{
    static const size_t sizes[] = {1, 3, 24, 1000, NEXAR_STRUCT_MAX};
    enum { N = 5 };
    const int me = nexar_rank(w), size = nexar_size(w);
    const size_t all = (size_t)size * N;

    (void)arg;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        const size_t each = sizes[i];
        const nexar_dtype type = NEXAR_STRUCT(each);
        uint8_t *in = malloc(all * each), *out = malloc(all * each);

        NXT_IS(w, nexar_dtype_size(type) == each);
        nxt_fill(in, N * each, (uint64_t)me);
        NXT_OK(w, nexar_allgather(w, in, out, N, type));
        for (int rank = 0; rank < size; rank++) {
            NXT_IS(w, nxt_filled(out + (size_t)rank * N * each, N * each, (uint64_t)rank));
        }
        memcpy(in, out, all * each);
        NXT_OK(w, nexar_alltoall(w, in, out, N, type));
        for (int rank = 0; rank < size; rank++) {
            NXT_IS(w, nxt_filled(out + (size_t)rank * N * each, N * each, (uint64_t)me));
        }
        NXT_OK(w, nexar_gather(w, in, out, N, type, 0));
        NXT_OK(w, nexar_scatter(w, in, out, N, type, 1));
        NXT_IS(w, nxt_filled(out, N * each, (uint64_t)me));
        NXT_OK(w, nexar_broadcast(w, in, all, type, 1));
        free(in);
        free(out);
    }
}

static void test_structs_of_any_size_are_moved(void **state)
{
    (void)state;
    nxt_local_world(3, NULL, moves, NULL);
}

/* Ranks that differ in the size or the operation get an error. */
static void mismatch(nexar_comm *w, void *arg)
{
    loc a = {0}, b;

    (void)arg;
    NXT_SAYS(w,
             nexar_allgather(w, &a, (loc[2]){{0}}, 1, (nexar_rank(w) == 0) ? LOC : NEXAR_STRUCT(8)),
             NEXAR_EMISMATCH, "struct");
    NXT_SAYS(w, nexar_allreduce(w, &a, &b, 1, NEXAR_U32, (nexar_rank(w) == 0) ? GCD : NEXAR_SUM),
             NEXAR_EMISMATCH, "user op");
}

static void test_a_difference_is_a_mismatch(void **state)
{
    (void)state;
    nxt_local_world(2, NULL, mismatch, NULL);
}

static void misuse(nexar_comm *w, void *arg)
{
    nexar_op op = NEXAR_MAX;
    loc a = {0}, b;
    float f = 0;

    (void)arg;
    NXT_SAYS(w, nexar_op_create(0, min_loc, NULL, &op), NEXAR_EINVAL, "the id 0 is taken");
    NXT_SAYS(w, nexar_op_create(1024, min_loc, NULL, &op), NEXAR_EINVAL, "0 to 1023");
    NXT_SAYS(w, nexar_op_create(5, NULL, NULL, &op), NEXAR_EINVAL, "fn is NULL");
    NXT_SAYS(w, nexar_op_create(5, min_loc, NULL, NULL), NEXAR_EINVAL, "op is NULL");
    NXT_IS(w, op == NEXAR_MAX);
    NXT_SAYS(w, nexar_allreduce(w, &a, &b, 1, LOC, NEXAR_SUM), NEXAR_EINVAL,
             "a struct is reduced only by an operation of nexar_op_create, not by sum");
    NXT_SAYS(w, nexar_allreduce(w, &a, &b, 1, NEXAR_STRUCT(0), MINLOC), NEXAR_EINVAL,
             "there is no dtype 65536");
    NXT_SAYS(w, nexar_allreduce(w, &f, &f, 1, NEXAR_F32, (nexar_op)(MINLOC + 7)), NEXAR_EINVAL,
             "there is no op 263");
    NXT_SAYS(w,
             nexar_allreduce_compressed(w, &f, 1, NEXAR_F32, MINLOC, NEXAR_COMPRESS_INT8, 0, NULL),
             NEXAR_EINVAL, "");
    NXT_IS(w, strcmp(nexar_dtype_name(LOC), "struct") == 0);
    NXT_IS(w, strcmp(nexar_op_name(MINLOC), "user op") == 0);
}

static void test_misuse_is_refused_in_words(void **state)
{
    (void)state;
    nxt_local_world(1, NULL, misuse, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_reduction_takes_them),
        cmocka_unit_test(test_so_does_every_algorithm),
        cmocka_unit_test(test_structs_of_any_size_are_moved),
        cmocka_unit_test(test_a_difference_is_a_mismatch),
        cmocka_unit_test(test_misuse_is_refused_in_words),
    };

    return cmocka_run_group_tests(tests, create, NULL);
}
