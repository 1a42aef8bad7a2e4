/*
 * compress_test.c - the complete compressed allreduce, all ranks in one thread: the same bits on
 * every rank, no error is lost, memory is bounded, and it converges.
 */
#include "coll/compress/compress.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compress_sim.h"
#include "oom.h"
#include "rand.h"
#include "reduce/reduce.h"
#include "reduce/scalar.h"
#include "unit.h"

enum { HOWS = NEXAR_COMPRESS_INT8 + 1, DTYPES = 4 };

static const nexar_dtype dtypes[DTYPES] = {NEXAR_F32, NEXAR_F64, NEXAR_F16, NEXAR_BF16};

/* ---- tensors ------------------------------------------------------------------------- */

static double get(nexar_dtype dtype, const void *at, size_t i)
{
    double f64;
    float f32;
    uint16_t half;

    switch ((int)dtype) {
    case NEXAR_F32:
        memcpy(&f32, (const char *)at + i * sizeof f32, sizeof f32);
        return (double)f32;
    case NEXAR_F64:
        memcpy(&f64, (const char *)at + i * sizeof f64, sizeof f64);
        return f64;
    default:
        memcpy(&half, (const char *)at + i * sizeof half, sizeof half);
        return (double)((dtype == NEXAR_F16) ? nx_f32_of_f16(half) : nx_f32_of_bf16(half));
    }
}

static void put(nexar_dtype dtype, void *at, size_t i, double x)
{
    const float f32 = (float)x;
    const uint16_t half = (dtype == NEXAR_F16) ? nx_f16_of_f32(f32) : nx_bf16_of_f32(f32);

    switch ((int)dtype) {
    case NEXAR_F32:
        memcpy((char *)at + i * sizeof f32, &f32, sizeof f32);
        break;
    case NEXAR_F64:
        memcpy((char *)at + i * sizeof x, &x, sizeof x);
        break;
    default:
        memcpy((char *)at + i * sizeof half, &half, sizeof half);
    }
}

/* Relative rounding error of |dtype|, and its smallest number: for bounds. */
static double epsilon_of(nexar_dtype dtype)
{
    switch ((int)dtype) {
    case NEXAR_F32:
        return (double)FLT_EPSILON;
    case NEXAR_F64:
        return DBL_EPSILON;
    default:
        return (dtype == NEXAR_F16) ? 0x1p-10 : 0x1p-7;
    }
}

/* The tensors of all ranks. */
typedef struct world {
    uint32_t size;
    nx_compress_call *calls;
    size_t bytes;
    nxt_compress_sim sim;
} world;

static void *room(size_t bytes)
{
    char *p = calloc(1, bytes + 2);

    assert_non_null(p);
    return p + 1; /* tensors need no alignment */
}

static world world_of(uint32_t size, const nx_compress_call *like, bool feedback)
{
    world w = {.size = size, .bytes = like->count * nexar_dtype_size(like->dtype)};

    w.calls = calloc(size, sizeof *w.calls);
    assert_non_null(w.calls);
    for (uint32_t r = 0; r < size; r++) {
        w.calls[r] = *like;
        w.calls[r].buf = room(w.bytes);
        w.calls[r].residual = feedback ? room(w.bytes) : NULL;
    }
    return w;
}

static void world_free(world *w)
{
    for (uint32_t r = 0; r < w->size; r++) {
        free((char *)w->calls[r].buf - 1);
        if (w->calls[r].residual != NULL) {
            free((char *)w->calls[r].residual - 1);
        }
    }
    free(w->calls);
}

/* Gradients: most are small, some are large. */
static double gradient(nxt_rand *rand)
{
    const double x = ((double)nxt_below(rand, 20001) - 10000.0) / 10000.0;

    return x * x * x * (nxt_one_in(rand, 10) ? 8.0 : 0.5);
}

static void fill(world *w, nxt_rand *rand)
{
    for (uint32_t r = 0; r < w->size; r++) {
        const nx_compress_call *c = &w->calls[r];

        for (size_t i = 0; i < c->count; i++) {
            put(c->dtype, c->buf, i, gradient(rand));
            if (c->residual != NULL) {
                put(c->dtype, c->residual, i, gradient(rand) / 16);
            }
        }
    }
}

/* For each element, over all ranks: the sum of x, of |x|, and the largest |x|. */
typedef struct sums {
    double x, magnitude;
} sums;

static sums *sums_of(const world *w)
{
    sums *s = calloc(w->calls[0].count + 1, sizeof *s);

    assert_non_null(s);
    for (uint32_t r = 0; r < w->size; r++) {
        const nx_compress_call *c = &w->calls[r];

        for (size_t i = 0; i < c->count; i++) {
            double x = get(c->dtype, c->buf, i);

            if (c->residual != NULL) {
                x += get(c->dtype, c->residual, i);
            }
            s[i].x += x;
            s[i].magnitude += fabs(x);
        }
    }
    return s;
}

static void same_bits(const world *w)
{
    for (uint32_t r = 1; (r < w->size) && (w->bytes > 0); r++) {
        assert_memory_equal(w->calls[0].buf, w->calls[r].buf, w->bytes);
    }
}

/* ---- nothing is lost ----------------------------------------------------------------- */

/* The largest rounding error of a residual: residuals of half types are halves. */
static double lost_at_most(const world *w, double magnitude)
{
    return (double)(4 + w->size) * epsilon_of(w->calls[0].dtype) * magnitude + 1e-6;
}

static void check_sums(const world *w, const sums *before)
{
    const nx_compress_call *c = w->calls;
    const double times = (c->op == NEXAR_AVG) ? w->size : 1.0;

    for (size_t i = 0; i < c->count; i++) {
        double after = times * get(c->dtype, c->buf, i);

        for (uint32_t r = 0; r < w->size; r++) {
            after += get(c->dtype, w->calls[r].residual, i);
        }
        if (!(fabs(after - before[i].x) <= lost_at_most(w, before[i].magnitude + 16))) {
            (void)fprintf(stderr, "%s of %s, %u ranks, %zu elements: [%zu] %.17g is not %.17g\n",
                          nx_compress_name(c->how), nexar_dtype_name(c->dtype), (unsigned)w->size,
                          c->count, i, after, before[i].x);
            fail();
        }
    }
}

static double ratio_of(nxt_rand *rand)
{
    static const double ratios[] = {0.01, 0.1, 0.5, 0.9, 1.0, 1e-9};

    return ratios[nxt_below(rand, sizeof ratios / sizeof ratios[0])];
}

static size_t count_of(nxt_rand *rand)
{
    static const size_t counts[] = {0, 1, 2, 3, 5, 255, 256, 257, 511, 1000, 1537, 4099};

    return counts[nxt_below(rand, sizeof counts / sizeof counts[0])];
}

static void test_results_and_residuals_add_up_to_the_input(void **state)
{
    nxt_rand rand = {1};

    (void)state;
    for (int trial = 0; trial < 720; trial++) {
        const nx_compress_call like = {.count = count_of(&rand),
                                       .dtype = dtypes[trial / HOWS % DTYPES],
                                       .op = nxt_one_in(&rand, 2) ? NEXAR_SUM : NEXAR_AVG,
                                       .how = (nexar_compression)(trial % HOWS),
                                       .ratio = ratio_of(&rand),
                                       .seed = nxt_next(&rand)};
        world w = world_of(1 + nxt_below(&rand, 9), &like, true);
        sums *before;

        fill(&w, &rand);
        before = sums_of(&w);
        assert_int_equal(nxt_compress_run(&w.sim, w.calls, w.size), NEXAR_OK);
        assert_int_equal(w.sim.figures.rounds, nx_compress_exchanges(like.how));
        same_bits(&w);
        check_sums(&w, before);
        free(before);
        world_free(&w);
    }
}

/* Without a residual the result is near the sum itself, as near as the code allows. */
static double error_of(nexar_compression how)
{
    switch ((int)how) {
    case NEXAR_COMPRESS_F16:
        return 0x1p-10;
    case NEXAR_COMPRESS_BF16:
        return 0x1p-7;
    case NEXAR_COMPRESS_INT8:
        return 1.0 / 127;
    default:
        return 0;
    }
}

static void test_without_a_residual_the_sum_is_near(void **state)
{
    nxt_rand rand = {2};

    (void)state;
    for (int trial = 0; trial < 300; trial++) {
        const nx_compress_call like = {.count = count_of(&rand),
                                       .dtype = dtypes[trial / HOWS % DTYPES],
                                       .op = NEXAR_SUM,
                                       .how = (nexar_compression)(trial % HOWS),
                                       .ratio = 1.0};
        world w = world_of(1 + nxt_below(&rand, 7), &like, false);
        sums *before;
        double largest = 0;

        fill(&w, &rand);
        before = sums_of(&w);
        for (size_t i = 0; i < like.count; i++) {
            largest = fmax(largest, before[i].magnitude);
        }
        assert_int_equal(nxt_compress_run(&w.sim, w.calls, w.size), NEXAR_OK);
        same_bits(&w);
        for (size_t i = 0; i < like.count; i++) {
            const double error = fabs(get(like.dtype, w.calls[0].buf, i) - before[i].x);

            assert_true(error <= largest * (2 * error_of(like.how) +
                                            (double)w.size * epsilon_of(like.dtype)));
        }
        free(before);
        world_free(&w);
    }
}

/* ---- convergence --------------------------------------------------------------------- */

/* A constant gradient, |steps| times: results must add up to that many gradients, except for the
 * content of one residual. The mean error of an element. */
static double error_after(nexar_compression how, double ratio, unsigned steps)
{
    enum { COUNT = 600, RANKS = 3 };
    const nx_compress_call like = {
        .count = COUNT, .dtype = NEXAR_F32, .op = NEXAR_SUM, .how = how, .ratio = ratio};
    world w = world_of(RANKS, &like, true);
    double total[COUNT] = {0}, error = 0;
    nxt_rand rand = {3};
    void *gradients[RANKS];
    sums *once;

    fill(&w, &rand);
    for (uint32_t r = 0; r < RANKS; r++) {
        memset(w.calls[r].residual, 0, w.bytes);
        gradients[r] = malloc(w.bytes);
        assert_non_null(gradients[r]);
        memcpy(gradients[r], w.calls[r].buf, w.bytes);
    }
    once = sums_of(&w);
    for (unsigned step = 0; step < steps; step++) {
        for (uint32_t r = 0; r < RANKS; r++) {
            memcpy(w.calls[r].buf, gradients[r], w.bytes);
            w.calls[r].seed = step;
        }
        assert_int_equal(nxt_compress_run(&w.sim, w.calls, RANKS), NEXAR_OK);
        for (size_t i = 0; i < COUNT; i++) {
            total[i] += get(NEXAR_F32, w.calls[0].buf, i);
        }
    }
    for (size_t i = 0; i < COUNT; i++) {
        error += fabs(total[i] / steps - once[i].x) / COUNT;
    }
    for (uint32_t r = 0; r < RANKS; r++) {
        free(gradients[r]);
    }
    free(once);
    world_free(&w);
    return error;
}

static void test_feedback_makes_the_mean_exact(void **state)
{
    (void)state;
    for (int how = 0; how < HOWS; how++) {
        const double ratio = 0.05;
        const double early = error_after((nexar_compression)how, ratio, 40);
        const double late = error_after((nexar_compression)how, ratio, 800);

        /* The residual is bounded, so the error of the mean falls as 1 / steps. */
        assert_true(late < 0.02);
        assert_true((late < early / 8) || (late < 1e-4));
    }
}

/* ---- memory and bytes ---------------------------------------------------------------- */

static double bound(nexar_compression how, size_t tensor, uint32_t size)
{
    const double shard = (double)tensor / size;

    switch ((int)how) {
    case NEXAR_COMPRESS_NONE:
        return (double)tensor;
    case NEXAR_COMPRESS_RANDOMK:
        return 0.1 * (double)tensor;
    case NEXAR_COMPRESS_TOPK: /* sent, received, and a shard's sum and block */
        return 2.0 * (double)tensor + 2.0 * shard;
    case NEXAR_COMPRESS_INT8:
        return 2 * 0.26 * (double)tensor + 1.26 * shard;
    default:
        return 2 * 0.5 * (double)tensor + 1.5 * shard;
    }
}

static void test_memory_does_not_grow_with_the_ranks(void **state)
{
    static const uint32_t sizes[] = {1, 2, 5, 16, 64};
    nxt_rand rand = {4};

    (void)state;
    for (int trial = 0; trial < 5 * HOWS; trial++) {
        const nx_compress_call like = {.count = 15000,
                                       .dtype = NEXAR_F32,
                                       .op = NEXAR_SUM,
                                       .how = (nexar_compression)(trial % HOWS),
                                       .ratio = 0.1};
        const uint32_t size = sizes[trial / HOWS];
        world w = world_of(size, &like, true);

        fill(&w, &rand);
        assert_int_equal(nxt_compress_run(&w.sim, w.calls, size), NEXAR_OK);
        /* The share that grows with the ranks: a few words for each, and codes of shards that do
         * not end with a complete piece. */
        assert_true((double)w.sim.figures.memory <=
                    bound(like.how, w.bytes, size) + 64.0 * size + 64);
        world_free(&w);
    }
}

static void test_bytes_on_the_wire(void **state)
{
    static const struct {
        nexar_compression how;
        double least, most; /* relative to the bytes of a plain allreduce */
    } cases[] = {
        {NEXAR_COMPRESS_NONE, 1.0, 1.0},        {NEXAR_COMPRESS_F16, 0.5, 0.5},
        {NEXAR_COMPRESS_BF16, 0.5, 0.5},        {NEXAR_COMPRESS_INT8, 0.25, 0.2545},
        {NEXAR_COMPRESS_RANDOMK, 0.0099, 0.01}, {NEXAR_COMPRESS_TOPK, 0.02, 0.05},
    };
    nxt_rand rand = {5};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const nx_compress_call like = {.count = 65536,
                                       .dtype = NEXAR_F32,
                                       .op = NEXAR_SUM,
                                       .how = cases[i].how,
                                       .ratio = 0.01};
        world w = world_of(4, &like, true);
        double part;

        fill(&w, &rand);
        assert_int_equal(nxt_compress_run(&w.sim, w.calls, 4), NEXAR_OK);
        part = w.sim.figures.sent / (2.0 * 3 / 4 * (double)w.bytes);
        assert_true((part >= cases[i].least) && (part <= cases[i].most + 1e-3));
        world_free(&w);
    }
}

/* ---- what is not finite -------------------------------------------------------------- */

static void test_what_is_not_finite_shows_once_and_on_all(void **state)
{
    (void)state;
    for (int how = 0; how < HOWS; how++) {
        const nx_compress_call like = {.count = 600,
                                       .dtype = NEXAR_F32,
                                       .op = NEXAR_SUM,
                                       .how = (nexar_compression)how,
                                       .ratio = 1.0};
        world w = world_of(3, &like, true);
        nxt_rand rand = {6};

        fill(&w, &rand);
        put(NEXAR_F32, w.calls[1].buf, 7, (double)INFINITY);
        put(NEXAR_F32, w.calls[2].buf, 599, (double)NAN);
        put(NEXAR_F32, w.calls[0].buf, 300, -(double)INFINITY);
        assert_int_equal(nxt_compress_run(&w.sim, w.calls, 3), NEXAR_OK);
        same_bits(&w);
        assert_true(isnan(get(NEXAR_F32, w.calls[0].buf, 599)));
        if (how == NEXAR_COMPRESS_INT8) {
            assert_true(isnan(get(NEXAR_F32, w.calls[0].buf, 7)));
        } else {
            assert_true(get(NEXAR_F32, w.calls[0].buf, 7) == (double)INFINITY);
            assert_true(get(NEXAR_F32, w.calls[0].buf, 300) == -(double)INFINITY);
        }
        for (size_t i = 0; i < like.count; i++) {
            const bool odd = (i == 7) || (i == 599) || (i == 300);

            assert_true(odd || isfinite(get(NEXAR_F32, w.calls[0].buf, i)));
            for (uint32_t r = 0; r < 3; r++) {
                assert_true(isfinite(get(NEXAR_F32, w.calls[r].residual, i)));
            }
        }
        world_free(&w);
    }
}

/* 3 x 60000 is beyond f16: with a residual the rest is sent later, without one the result is
 * infinity. */
static void test_f16_saturates_where_there_is_a_residual(void **state)
{
    for (int feedback = 0; feedback < 2; feedback++) {
        const nx_compress_call like = {
            .count = 3, .dtype = NEXAR_F32, .op = NEXAR_SUM, .how = NEXAR_COMPRESS_F16};
        world w = world_of(3, &like, feedback == 1);
        double result;

        (void)state;
        for (uint32_t r = 0; r < 3; r++) {
            put(NEXAR_F32, w.calls[r].buf, 1, 60000);
        }
        assert_int_equal(nxt_compress_run(&w.sim, w.calls, 3), NEXAR_OK);
        result = get(NEXAR_F32, w.calls[2].buf, 1);
        if (feedback == 0) {
            assert_true(result == (double)INFINITY);
        } else {
            assert_true(result == 65504.0);
            assert_true(get(NEXAR_F32, w.calls[1].residual, 1) == 180000.0 - 65504.0);
        }
        world_free(&w);
    }
}

/* A third is not representable in f16: three times the error of the average remains with the
 * shard's owner. */
static void test_the_owner_keeps_what_the_result_lacks(void **state)
{
    const nx_compress_call like = {
        .count = 3, .dtype = NEXAR_F16, .op = NEXAR_AVG, .how = NEXAR_COMPRESS_TOPK, .ratio = 1.0};
    world w = world_of(3, &like, true);
    const double third = 0x555p-12; /* the f16 next to 1/3 */

    (void)state;
    put(NEXAR_F16, w.calls[0].buf, 1, 1.0);
    assert_int_equal(nxt_compress_run(&w.sim, w.calls, 3), NEXAR_OK);
    assert_true(get(NEXAR_F16, w.calls[2].buf, 1) == third);
    assert_true(get(NEXAR_F16, w.calls[1].residual, 1) == 1.0 - 3 * third);
    assert_true(get(NEXAR_F16, w.calls[0].residual, 1) == 0.0);
    world_free(&w);
}

/* ---- errors -------------------------------------------------------------------------- */

static void refused(nx_compress_call call, const char *sentence)
{
    assert_int_equal(nx_compress_check(&call), NEXAR_EINVAL);
    assert_non_null(strstr(nexar_last_error(), sentence));
}

static void test_arguments_are_checked(void **state)
{
    static float tensor[4], residual[4];
    static const nx_compress_call good = {.buf = tensor,
                                          .residual = residual,
                                          .count = 4,
                                          .dtype = NEXAR_F32,
                                          .op = NEXAR_AVG,
                                          .how = NEXAR_COMPRESS_TOPK,
                                          .ratio = 0.5};
    nx_compress_call bad[9], c = good;

    (void)state;
    assert_int_equal(nx_compress_check(&good), NEXAR_OK);
    for (size_t i = 0; i < 9; i++) {
        bad[i] = good;
    }
    bad[0].dtype = NEXAR_I32;
    bad[1].op = NEXAR_MAX;
    bad[2].how = (nexar_compression)17;
    bad[3].ratio = 0.0;
    bad[4].ratio = 1.5;
    bad[5].ratio = (double)NAN;
    bad[6].buf = NULL;
    bad[7].residual = tensor + 3;
    bad[8].count = SIZE_MAX / 4;
    refused(bad[0], "accepted are f32, f64, f16 and bf16");
    refused(bad[1], "accepted are sum and avg");
    refused(bad[2], "NEXAR_COMPRESS_NONE");
    refused(bad[3], "0 < ratio <= 1");
    refused(bad[4], "0 < ratio <= 1");
    refused(bad[5], "0 < ratio <= 1");
    refused(bad[6], "buf is NULL");
    refused(bad[7], "overlaps");
    refused(bad[8], "bytes");
    c.ratio = 0.0;
    c.how = NEXAR_COMPRESS_INT8; /* ignores |ratio| */
    assert_int_equal(nx_compress_check(&c), NEXAR_OK);
    c.buf = c.residual = NULL;
    c.count = 0;
    assert_int_equal(nx_compress_check(&c), NEXAR_OK);
}

static void test_k(void **state)
{
    (void)state;
    assert_int_equal(nx_compress_k(NEXAR_COMPRESS_TOPK, 0.5, 5), 3);
    assert_int_equal(nx_compress_k(NEXAR_COMPRESS_TOPK, 1e-12, 5), 1);
    assert_int_equal(nx_compress_k(NEXAR_COMPRESS_RANDOMK, 1.0, 5), 5);
    assert_int_equal(nx_compress_k(NEXAR_COMPRESS_RANDOMK, 0.3, 0), 0);
    assert_int_equal(nx_compress_k(NEXAR_COMPRESS_F16, 0.3, 9), 9);
}

static void test_without_memory_nothing_is_touched(void **state)
{
    (void)state;
    for (int how = 0; how < HOWS; how++) {
        const nx_compress_call like = {.count = 700,
                                       .dtype = NEXAR_F32,
                                       .op = NEXAR_SUM,
                                       .how = (nexar_compression)how,
                                       .ratio = 0.2};
        world w = world_of(3, &like, true);
        char *kept = malloc(2 * w.bytes);
        nxt_rand rand = {7};

        assert_non_null(kept);
        fill(&w, &rand);
        memcpy(kept, w.calls[0].buf, w.bytes);
        memcpy(kept + w.bytes, w.calls[0].residual, w.bytes);
        NXT_FOR_EACH_OOM (n) {
            const nexar_err err = nxt_compress_run(&w.sim, w.calls, 3);

            assert_int_equal(err, nx_alloc_failed() ? NEXAR_ENOMEM : NEXAR_OK);
            if (err != NEXAR_OK) {
                assert_memory_equal(kept, w.calls[0].buf, w.bytes);
                assert_memory_equal(kept + w.bytes, w.calls[0].residual, w.bytes);
            }
        }
        free(kept);
        world_free(&w);
    }
}

/* Corrupts a byte that rank 1 receives in a round. */
typedef struct spoil {
    unsigned round;
    size_t byte;
    unsigned char value;
} spoil;

static void meddle(uint32_t rank, unsigned round, const nx_exchange *e, void *arg)
{
    const spoil *s = arg;

    if ((rank == 1) && (round == s->round)) {
        ((unsigned char *)e->recv)[s->byte] = s->value;
    }
}

static void test_topk_refuses_what_is_no_block(void **state)
{
    /* A size beyond a shard's, and the form of a block, in both directions. */
    spoil spoils[] = {{0, 6, 1}, {1, 0, 'X'}, {2, 6, 1}, {3, 0, 'X'}};

    (void)state;
    for (size_t i = 0; i < sizeof spoils / sizeof spoils[0]; i++) {
        const nx_compress_call like = {.count = 700,
                                       .dtype = NEXAR_F32,
                                       .op = NEXAR_SUM,
                                       .how = NEXAR_COMPRESS_TOPK,
                                       .ratio = 0.2};
        world w = world_of(3, &like, true);
        char *kept = malloc(w.bytes);
        nxt_rand rand = {8};

        assert_non_null(kept);
        fill(&w, &rand);
        memcpy(kept, w.calls[1].buf, w.bytes);
        w.sim.meddle = meddle;
        w.sim.arg = &spoils[i];
        assert_int_equal(nxt_compress_run(&w.sim, w.calls, 3), NEXAR_EPROTO);
        assert_memory_equal(kept, w.calls[1].buf, w.bytes);
        free(kept);
        world_free(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_results_and_residuals_add_up_to_the_input),
        cmocka_unit_test(test_without_a_residual_the_sum_is_near),
        cmocka_unit_test(test_feedback_makes_the_mean_exact),
        cmocka_unit_test(test_memory_does_not_grow_with_the_ranks),
        cmocka_unit_test(test_bytes_on_the_wire),
        cmocka_unit_test(test_what_is_not_finite_shows_once_and_on_all),
        cmocka_unit_test(test_f16_saturates_where_there_is_a_residual),
        cmocka_unit_test(test_the_owner_keeps_what_the_result_lacks),
        cmocka_unit_test(test_arguments_are_checked),
        cmocka_unit_test(test_k),
        cmocka_unit_test(test_without_memory_nothing_is_touched),
        cmocka_unit_test(test_topk_refuses_what_is_no_block),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
