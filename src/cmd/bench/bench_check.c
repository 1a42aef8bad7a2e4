/*
 * bench_check.c - the expected results, element by element.
 *
 * The input is small integers that depend on rank and position. So every sum is exact in every
 * type, and a block at a wrong position is detected.
 */
#include <string.h>

#include "base/alloc.h"
#include "bench.h"
#include "reduce/reduce.h"

_Static_assert(NX_BENCH_COMPRESSED * 113 <= 1 << 11, "sums of so many ranks are exact as f16");
enum {
    MOST = 113,          /* of the numbers; a prime, and bf16 and i8 hold it */
    CHUNK = 2048,        /* elements that are checked together */
    ELEM = 8,            /* bytes of the largest one */
    EXACT_F16 = 1 << 11, /* integers up to here are exact */
    EXACT_BF16 = 1 << 8
};

/* The largest input number whose sums over all ranks are exact. */
static unsigned most_of(const nx_bench *b)
{
    const unsigned exact = (b->dtype == NEXAR_F16)    ? EXACT_F16
                           : (b->dtype == NEXAR_BF16) ? EXACT_BF16
                                                      : 1 << 24;
    const unsigned most = exact / (unsigned)b->size;

    return (most < MOST) ? most : MOST;
}

bool nx_bench_exact(const nx_bench *b)
{
    return most_of(b) > 0;
}

/* ---- numbers ------------------------------------------------------------------------- */

static uint16_t f16_of(unsigned value)
{
    unsigned exponent = 0;

    while (value >> (exponent + 1) != 0) {
        exponent++;
    }
    return (uint16_t)(((exponent + 15) << 10) | ((value << (10 - exponent)) & 0x3ff));
}

static uint16_t bf16_of(unsigned value)
{
    const float wide = (float)value;
    uint32_t bits;

    memcpy(&bits, &wide, sizeof(bits));
    return (uint16_t)(bits >> 16);
}

/* |value|, from 1 to MOST, as an element. */
static void encode(nexar_dtype dtype, unsigned value, unsigned char out[ELEM])
{
    const uint64_t whole = value; /* memcpy from the own type fits either endianness */
    const uint32_t u32 = value;
    const uint16_t u16 = (dtype == NEXAR_F16)    ? f16_of(value)
                         : (dtype == NEXAR_BF16) ? bf16_of(value)
                                                 : (uint16_t)value;
    const double f64 = value;
    const float f32 = (float)value;

    switch (nexar_dtype_size(dtype)) {
    case 1:
        out[0] = (unsigned char)value;
        break;
    case 2:
        memcpy(out, &u16, sizeof(u16));
        break;
    case 4:
        memcpy(out, (dtype == NEXAR_F32) ? (const void *)&f32 : (const void *)&u32, sizeof(u32));
        break;
    default:
        memcpy(out, (dtype == NEXAR_F64) ? (const void *)&f64 : (const void *)&whole,
               sizeof(whole));
        break;
    }
}

/* The input of rank |from| at element |i|. For products only one rank has a number other than 1,
 * so that results stay small. */
static unsigned number(const nx_bench *b, bool product, unsigned most, size_t from, size_t i)
{
    if (product) {
        return (i % (size_t)b->size == from) ? 1 + (unsigned)(i % 7) : 1;
    }
    return 1 + (unsigned)((i * 7 + from * 31) % most);
}

/* Elements [at, at + n) of the input of rank |from|. */
static void numbers(const nx_bench *b, int from, size_t at, size_t n, void *out)
{
    const size_t elem = nexar_dtype_size(b->dtype);
    const unsigned most = most_of(b);
    unsigned char coded[MOST + 1][ELEM];
    unsigned char *p = out;

    for (unsigned value = 1; value <= MOST; value++) {
        encode(b->dtype, value, coded[value]);
    }
    for (size_t i = 0; i < n; i++, p += elem) {
        memcpy(p, coded[number(b, b->op == NEXAR_PROD, most, (size_t)from, at + i)], elem);
    }
}

/* ---- expectations -------------------------------------------------------------------- */

/* The reduction of the ranks [0, ranks). */
static void reduced(const nx_bench *b, int ranks, size_t at, size_t n, void *out)
{
    unsigned char other[CHUNK * ELEM];

    numbers(b, 0, at, n, out);
    for (int rank = 1; rank < ranks; rank++) {
        numbers(b, rank, at, n, other);
        nx_reduce(out, out, other, n, b->dtype, b->op);
    }
    if (b->op == NEXAR_AVG) {
        nx_reduce_divide(out, n, b->dtype, (uint32_t)ranks);
    }
}

void nx_bench_expect_reduced(const nx_bench *b, size_t count, size_t at, size_t n, void *out)
{
    (void)count;
    reduced(b, b->size, at, n, out);
}

void nx_bench_expect_scattered(const nx_bench *b, size_t count, size_t at, size_t n, void *out)
{
    reduced(b, b->size, (size_t)b->rank * count + at, n, out);
}

void nx_bench_expect_scan(const nx_bench *b, size_t count, size_t at, size_t n, void *out)
{
    (void)count;
    reduced(b, b->rank + 1, at, n, out);
}

void nx_bench_expect_exscan(const nx_bench *b, size_t count, size_t at, size_t n, void *out)
{
    (void)count;
    if (b->rank == 0) {
        nx_reduce_identity(out, n, b->dtype, b->op);
    } else {
        reduced(b, b->rank, at, n, out);
    }
}

void nx_bench_expect_root(const nx_bench *b, size_t count, size_t at, size_t n, void *out)
{
    (void)count;
    numbers(b, 0, at, n, out);
}

void nx_bench_expect_part(const nx_bench *b, size_t count, size_t at, size_t n, void *out)
{
    numbers(b, 0, (size_t)b->rank * count + at, n, out);
}

void nx_bench_expect_gathered(const nx_bench *b, size_t count, size_t at, size_t n, void *out)
{
    numbers(b, (int)(at / count), at % count, n, out);
}

void nx_bench_expect_exchanged(const nx_bench *b, size_t count, size_t at, size_t n, void *out)
{
    numbers(b, (int)(at / count), (size_t)b->rank * count + at % count, n, out);
}

/* The same for blocks with other displacements. */

size_t nx_bench_place(const nx_bench *b, size_t rank)
{
    return (size_t)b->size - 1 - rank;
}

void nx_bench_expect_part_v(const nx_bench *b, size_t count, size_t at, size_t n, void *out)
{
    numbers(b, 0, nx_bench_place(b, (size_t)b->rank) * count + at, n, out);
}

void nx_bench_expect_gathered_v(const nx_bench *b, size_t count, size_t at, size_t n, void *out)
{
    numbers(b, (int)nx_bench_place(b, at / count), at % count, n, out);
}

void nx_bench_expect_exchanged_v(const nx_bench *b, size_t count, size_t at, size_t n, void *out)
{
    numbers(b, (int)nx_bench_place(b, at / count),
            nx_bench_place(b, (size_t)b->rank) * count + at % count, n, out);
}

void nx_bench_expect_other(const nx_bench *b, size_t count, size_t at, size_t n, void *out)
{
    (void)count;
    numbers(b, 1 - b->rank, at, n, out);
}

/* ---- checking ------------------------------------------------------------------------ */

static int64_t count_wrong(const nx_bench *b, const nx_bench_op *op, size_t count)
{
    const size_t elem = nexar_dtype_size(b->dtype);
    const size_t all = count * (op->out_blocks ? (size_t)b->size : 1);
    const unsigned char *got = op->in_place ? b->a : b->b;
    unsigned char want[CHUNK * ELEM];
    int64_t wrong = 0;

    if (count == 0) {
        return 0;
    }
    for (size_t at = 0, n; at < all; at += n, got += n * elem) {
        const size_t left = count - at % count; /* elements left in this block */

        n = (left < CHUNK) ? left : CHUNK;
        op->expect(b, count, at, n, want);
        if (memcmp(got, want, n * elem) == 0) {
            continue;
        }
        for (size_t i = 0; i < n; i++) {
            wrong += (memcmp(got + i * elem, want + i * elem, elem) != 0);
        }
    }
    return wrong;
}

nexar_err nx_bench_check(const nx_bench *b, const nx_bench_op *op, size_t count, int64_t *wrong)
{
    const bool takes_part = !op->pair || (b->rank < 2);
    const bool looks = takes_part && (!op->at_root || (b->rank == 0));
    const size_t in = count * (op->in_blocks ? (size_t)b->size : 1);
    nexar_err err = NEXAR_OK;
    int64_t sum = 0;

    numbers(b, b->rank, 0, in, b->a);
    memset(b->b, 0xff, b->room); /* a byte pattern that no result has */
    if (takes_part) {
        err = op->run(b, count);
    }
    if ((err == NEXAR_OK) && looks) {
        sum = count_wrong(b, op, count);
    }
    if (err == NEXAR_OK) {
        err = nexar_allreduce(b->world, NEXAR_IN_PLACE, &sum, 1, NEXAR_I64, NEXAR_SUM);
    }
    memset(b->a, 0, b->room); /* zeros stay zeros in repeated sums */
    memset(b->b, 0, b->room);
    *wrong = sum;
    return err;
}
