/* parts_test.c - sparse blocks, the cut at the k-th largest, random picks. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "coll/compress/cut.h"
#include "coll/compress/picks.h"
#include "coll/compress/sparse.h"
#include "oom.h"
#include "rand.h"
#include "reduce/scalar.h"
#include "unit.h"

/* ---- sparse blocks ------------------------------------------------------------------- */

enum { BLOCK = 300 };

static size_t shortest(size_t len, size_t n, size_t value)
{
    const size_t list = 1 + n * (4 + value), map = 1 + (len + 7) / 8 + n * value;
    const size_t dense = 1 + len * value, some = (list < map) ? list : map;

    if (n == 0) {
        return 0;
    }
    return (some < dense) ? some : dense;
}

static void one_block(nxt_rand *rand, size_t value, uint32_t share)
{
    const nx_sparse_shape shape = {.len = 1 + nxt_below(rand, BLOCK), .value = value};
    unsigned char elements[BLOCK][8] = {0}, back[BLOCK][8] = {0}, out[1 + BLOCK * 8 + 1];
    nx_sparse_writer w;
    nx_sparse_reader r;
    const void *at;
    size_t n = 0, bytes, index;

    for (size_t i = 0; i < shape.len; i++) {
        if (nxt_below(rand, 100) < share) {
            elements[i][0] = (unsigned char)(1 + i % 255);
            elements[i][value - 1] |= 1;
            n++;
        }
    }
    bytes = nx_sparse_bytes(shape, n);
    assert_int_equal(bytes, shortest(shape.len, n, value));
    assert_true(bytes <= nx_sparse_most(shape));
    memset(out, 0xa5, sizeof out);
    nx_sparse_write(&w, out, shape, n);
    for (size_t i = 0; i < shape.len; i++) {
        if (elements[i][0] != 0) {
            nx_sparse_put(&w, i, elements[i]);
        }
    }
    assert_int_equal(out[bytes], 0xa5);
    nx_sparse_read(&r, out, bytes, shape);
    for (size_t limit = 0; limit < shape.len + 20; limit += 20) { /* as pieces are read */
        while (nx_sparse_get(&r, limit, &index, &at)) {
            assert_true((index < limit) && (index < shape.len));
            memcpy(back[index], at, value);
        }
    }
    assert_true(nx_sparse_over(&r));
    assert_memory_equal(elements, back, sizeof elements);
}

static void test_blocks_are_read_as_written(void **state)
{
    static const size_t values[] = {2, 4, 8};
    nxt_rand rand = {3};

    (void)state;
    for (int trial = 0; trial < 600; trial++) {
        one_block(&rand, values[trial % 3], (uint32_t)(trial * 7 % 101));
    }
}

/* Whatever the bytes are: ascending indexes within the block, or failure. */
static void test_a_reader_believes_nothing(void **state)
{
    static const char forms[] = {'L', 'B', 'D', 'X'};
    nxt_rand rand = {4};

    (void)state;
    for (int trial = 0; trial < 20000; trial++) {
        const nx_sparse_shape shape = {.len = nxt_below(&rand, 20), .value = 4};
        const size_t bytes = nxt_below(&rand, 90);
        unsigned char *in = malloc(bytes + (bytes == 0)); /* asan watches its end */
        size_t index, last = 0, n = 0;
        const void *value;
        nx_sparse_reader r;

        assert_non_null(in);
        for (size_t i = 0; i < bytes; i++) {
            in[i] = (unsigned char)(nxt_one_in(&rand, 4) ? nxt_below(&rand, 16) : 0);
        }
        if (bytes > 0) {
            in[0] = (unsigned char)forms[nxt_below(&rand, 4)];
        }
        nx_sparse_read(&r, in, bytes, shape);
        while (nx_sparse_get(&r, SIZE_MAX, &index, &value)) {
            assert_true((index < shape.len) && ((n == 0) || (index > last)));
            assert_true((const unsigned char *)value + 4 <= in + bytes);
            last = index;
            n++;
        }
        assert_true((bytes > 0) || nx_sparse_over(&r));
        if (nx_sparse_over(&r)) {
            assert_true(n <= shape.len);
        }
        free(in);
    }
}

static void test_a_block_too_long_or_too_short_is_none(void **state)
{
    const nx_sparse_shape shape = {.len = 16, .value = 4};
    unsigned char block[1 + 16 * 4 + 4] = {'B', 0x01, 0x80};
    nx_sparse_reader r;
    const void *value;
    size_t index;

    (void)state;
    nx_sparse_read(&r, block, 1 + 2 + 8, shape);
    assert_true(nx_sparse_get(&r, 16, &index, &value) && (index == 0));
    assert_false(nx_sparse_over(&r)); /* reads the entry of 15 */
    assert_true(nx_sparse_over(&r));
    nx_sparse_read(&r, block, 1 + 2 + 4, shape); /* a value is missing */
    assert_true(nx_sparse_get(&r, 16, &index, &value));
    assert_false(nx_sparse_get(&r, 16, &index, &value));
    assert_true(r.failed);
    nx_sparse_read(&r, block, 1 + 2 + 12, shape); /* one too many */
    while (nx_sparse_get(&r, 16, &index, &value)) {
    }
    assert_false(nx_sparse_over(&r));
    block[0] = 'D';
    nx_sparse_read(&r, block, 1 + 16 * 4 + 4, shape);
    assert_true(r.failed);
}

/* ---- the cut ------------------------------------------------------------------------- */

enum { MANY = 1500 };

typedef struct rated {
    double magnitude;
    size_t index;
} rated;

static int by_magnitude(const void *a, const void *b)
{
    const rated *x = a, *y = b;

    if (x->magnitude != y->magnitude) {
        return (x->magnitude > y->magnitude) ? -1 : 1;
    }
    return (x->index < y->index) ? -1 : 1;
}

/* NaN ranks above infinity, which ranks above all other values. */
static double rate(double x)
{
    if (isnan(x)) {
        return 3e300;
    }
    return isinf(x) ? 2e300 : fabs(x);
}

static double element(nxt_rand *rand, int kind)
{
    const double sign = nxt_one_in(rand, 2) ? -1.0 : 1.0;

    switch (kind) {
    case 0: /* many ties */
        return sign * (double)nxt_below(rand, 5);
    case 1: /* mostly zeros */
        return nxt_one_in(rand, 40) ? sign * (double)(1 + nxt_below(rand, 3)) : sign * 0.0;
    case 2: /* all scales, and NaN */
        return nxt_one_in(rand, 50) ? (nxt_one_in(rand, 2) ? (double)NAN : sign * (double)INFINITY)
                                    : ldexp(sign, (int)nxt_below(rand, 100) - 50);
    default:
        return sign * (double)(float)nxt_next(rand) * 0x1p-60;
    }
}

/* Asserts that exactly the first |k| of |sorted| that are not 0 are taken. */
static void check_cut(const nx_cut_tensor *t, nx_cut cut, size_t k, const rated *sorted)
{
    bool wanted[MANY] = {false};

    for (size_t i = 0; i < k; i++) {
        wanted[sorted[i].index] = (sorted[i].magnitude > 0);
    }
    for (size_t at = 0; at < t->count; at += NX_PIECE) {
        const size_t n = (t->count - at < NX_PIECE) ? t->count - at : NX_PIECE;
        uint16_t taken[NX_PIECE];
        bool is_taken[NX_PIECE] = {false};
        nx_lanes x;
        size_t found;

        nx_cut_load(t, at, n, &x);
        found = nx_cut_take(&cut, &x, n, nx_lanes_work(t->dtype), taken);
        for (size_t i = 0; i < found; i++) {
            assert_true((taken[i] < n) && ((i == 0) || (taken[i] > taken[i - 1])));
            is_taken[taken[i]] = true;
        }
        for (size_t i = 0; i < n; i++) {
            assert_int_equal(is_taken[i], wanted[at + i]);
        }
    }
}

static void one_cut(nxt_rand *rand, int kind, nexar_dtype dtype)
{
    const size_t count = 1 + nxt_below(rand, MANY), k = 1 + nxt_below(rand, count);
    static double f64[MANY];
    static float f32[MANY];
    static rated sorted[MANY];
    const nx_cut_tensor t = {(dtype == NEXAR_F64) ? (void *)f64 : f32, NULL, count, dtype};
    nx_cut cut;

    for (size_t i = 0; i < count; i++) {
        f64[i] = element(rand, kind);
        f32[i] = (float)f64[i];
        sorted[i] = (rated){rate(f64[i]), i};
    }
    qsort(sorted, count, sizeof *sorted, by_magnitude);
    assert_int_equal(nx_cut_find(&t, k, &cut), NEXAR_OK);
    check_cut(&t, cut, k, sorted);
    assert_int_equal(nx_cut_find(&t, count, &cut), NEXAR_OK);
    check_cut(&t, cut, count, sorted);
}

static void test_the_k_largest_are_taken(void **state)
{
    nxt_rand rand = {5};

    (void)state;
    for (int trial = 0; trial < 300; trial++) {
        one_cut(&rand, trial % 4, (trial % 3 == 0) ? NEXAR_F64 : NEXAR_F32);
    }
}

/* Enough elements for the longer digits: exactly the requested number is taken, and no remaining
 * element is larger. */
static void test_the_cut_of_many(void **state)
{
    enum { LOTS = 300000, K = 12345 };
    static float x[LOTS];
    const nx_cut_tensor t = {x, NULL, LOTS, NEXAR_F32};
    float least_taken = INFINITY, most_left = 0;
    size_t found = 0;
    nxt_rand rand = {9};
    nx_cut cut;

    (void)state;
    for (size_t i = 0; i < LOTS; i++) {
        x[i] = (float)element(&rand, 3);
    }
    assert_int_equal(nx_cut_find(&t, K, &cut), NEXAR_OK);
    for (size_t at = 0; at < LOTS; at += NX_PIECE) {
        const size_t n = (LOTS - at < NX_PIECE) ? LOTS - at : NX_PIECE;
        uint16_t taken[NX_PIECE];
        nx_lanes piece;
        size_t here, next = 0;

        nx_cut_load(&t, at, n, &piece);
        here = nx_cut_take(&cut, &piece, n, NEXAR_F32, taken);
        found += here;
        for (size_t i = 0; i < n; i++) {
            if ((next < here) && (taken[next] == i)) {
                least_taken = fminf(least_taken, fabsf(x[at + i]));
                next++;
            } else {
                most_left = fmaxf(most_left, fabsf(x[at + i]));
            }
        }
    }
    assert_int_equal(found, K);
    assert_true(least_taken >= most_left);
}

static void test_a_cut_adds_the_residual(void **state)
{
    const float buf[] = {1, -5, 3}, residual[] = {1, 5, 3};
    const nx_cut_tensor t = {buf, residual, 3, NEXAR_F32};
    uint16_t taken[NX_PIECE];
    nx_lanes x;
    nx_cut cut = {0};

    (void)state;
    NXT_FOR_EACH_OOM (n) {
        const nexar_err err = nx_cut_find(&t, 3, &cut);

        assert_int_equal(err, nx_alloc_failed() ? NEXAR_ENOMEM : NEXAR_OK);
    }
    nx_cut_load(&t, 0, 3, &x);
    assert_int_equal(nx_cut_take(&cut, &x, 3, NEXAR_F32, taken), 2); /* 0 is not taken */
    assert_int_equal(taken[0], 0);
    assert_int_equal(taken[1], 2);
}

/* ---- picks --------------------------------------------------------------------------- */

static void test_picks_are_distinct_and_the_same_for_the_same_seed(void **state)
{
    static bool picked[997];
    nxt_rand rand = {6};

    (void)state;
    for (int trial = 0; trial < 500; trial++) {
        const size_t count = 1 + nxt_below(&rand, 997), k = 1 + nxt_below(&rand, count);
        const nx_picks p = nx_picks_of(count, k, (uint64_t)trial);
        const nx_picks q = nx_picks_of(count, k, (uint64_t)trial);

        memset(picked, 0, sizeof picked);
        for (size_t i = 0; i < k; i++) {
            const size_t index = nx_picks_at(&p, i);

            assert_true((index < count) && !picked[index]);
            assert_int_equal(index, nx_picks_at(&q, i));
            picked[index] = true;
        }
    }
}

static void test_every_element_is_as_likely(void **state)
{
    enum { COUNT = 50, K = 30, TRIALS = 20000 };
    size_t times[COUNT] = {0};
    const double expected = (double)TRIALS * K / COUNT, spread = sqrt(expected * (1.0 - 0.6));

    (void)state;
    for (uint64_t seed = 0; seed < TRIALS; seed++) {
        const nx_picks p = nx_picks_of(COUNT, K, seed);

        for (size_t i = 0; i < K; i++) {
            times[nx_picks_at(&p, i)]++;
        }
    }
    for (size_t i = 0; i < COUNT; i++) {
        assert_true(fabs((double)times[i] - expected) < 5 * spread);
    }
}

static void test_the_largest_counts_do_not_overflow(void **state)
{
    const nx_picks p = nx_picks_of(SIZE_MAX, SIZE_MAX - 1, 9);
    const size_t last = SIZE_MAX - 2;

    (void)state;
    assert_true(nx_picks_at(&p, last) < SIZE_MAX);
    assert_true(nx_picks_at(&p, last) != nx_picks_at(&p, last - 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks_are_read_as_written),
        cmocka_unit_test(test_a_reader_believes_nothing),
        cmocka_unit_test(test_a_block_too_long_or_too_short_is_none),
        cmocka_unit_test(test_the_k_largest_are_taken),
        cmocka_unit_test(test_the_cut_of_many),
        cmocka_unit_test(test_a_cut_adds_the_residual),
        cmocka_unit_test(test_picks_are_distinct_and_the_same_for_the_same_seed),
        cmocka_unit_test(test_every_element_is_as_likely),
        cmocka_unit_test(test_the_largest_counts_do_not_overflow),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
