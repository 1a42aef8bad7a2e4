/* inputs.c - values that are exact in any order of combination. */
#include "inputs.h"

#include <math.h>
#include <string.h>

#include "rand.h"
#include "scalar_values.h"

/* What a float type represents exactly. */
typedef struct limits {
    uint64_t whole; /* integers up to here are exact */
    int spread;     /* scaling sums by 2^-spread .. 2^spread stays exact */
    int expo;       /* products within 2^-expo .. 2^expo times |odd| stay exact */
    uint32_t odd;
} limits;

static limits limits_of(nexar_dtype dtype)
{
    if (dtype == NEXAR_F64) {
        return (limits){UINT64_C(1) << 53, 300, 500, 1U << 20};
    }
    if (dtype == NEXAR_F32) {
        return (limits){UINT64_C(1) << 24, 40, 60, 1U << 15};
    }
    if (dtype == NEXAR_BF16) {
        return (limits){UINT64_C(1) << 8, 40, 60, 1U << 7};
    }
    return (limits){UINT64_C(1) << 11, 4, 8, 1U << 5}; /* f16 */
}

/* Integers whose magnitudes add up to at most |whole|, all scaled by a power of two that depends
 * on the element. */
static double exact_sum(const nxt_inputs *in, uint32_t rank, size_t i, uint64_t h)
{
    limits l = limits_of(in->dtype);
    uint64_t most = l.whole / in->size;
    int scale = (int)(nxt_hash(in->seed, UINT64_MAX, i) % (2 * (uint64_t)l.spread + 1)) - l.spread;

    if (most == 0) { /* more ranks than that: some contribute 0 */
        most = (rank < l.whole) ? 1 : 0;
    }
    double whole = (double)((h >> 1) % (most + 1));

    return ldexp((h & 1) ? -whole : whole, scale);
}

/* Powers of two whose exponents' magnitudes add up to at most |expo|; one rank per element
 * contributes an odd factor. */
static double exact_product(const nxt_inputs *in, uint32_t rank, size_t i, uint64_t h)
{
    limits l = limits_of(in->dtype);
    uint64_t element = nxt_hash(in->seed, UINT64_MAX, i);
    uint64_t most = (uint64_t)l.expo / in->size;
    uint64_t apart = 1;
    double odd = 1;

    if (most == 0) { /* more ranks than that: only some contribute a factor */
        most = 1;
        apart = (in->size / (uint64_t)l.expo) + 1;
    }
    int expo = ((rank + element) % apart == 0) ? (int)((h >> 2) % (most + 1)) : 0;

    if (element % in->size == rank) {
        odd = (double)(((element >> 20) % l.odd) | 1);
    }
    return ldexp((h & 1) ? -odd : odd, (h & 2) ? -expo : expo);
}

/* Bits that are rare enough that some survive the combination of all ranks. */
static uint64_t rare_bits(const nxt_inputs *in, uint64_t h)
{
    uint64_t width = 8 * nexar_dtype_size(in->dtype);

    if ((h >> 32) % (2 * (uint64_t)in->size) >= width) {
        return 0;
    }
    return UINT64_C(1) << (h % width);
}

static void exact_integer(const nxt_inputs *in, uint64_t h, void *out)
{
    uint64_t v = h;

    if (in->op == NEXAR_PROD) {
        v |= 1; /* even factors would make every product 0 */
    } else if (in->op == NEXAR_BOR) {
        v = rare_bits(in, h);
    } else if (in->op == NEXAR_BAND) {
        v = ~rare_bits(in, h);
    }
    memcpy(out, &v, nexar_dtype_size(in->dtype));
}

/* Anything but NaN: the order does not matter to minimum and maximum. */
static double any_number(uint64_t h)
{
    switch (h % 32) {
    case 0:
        return 0.0;
    case 1:
        return -0.0;
    case 2:
        return (double)INFINITY;
    case 3:
        return -(double)INFINITY;
    default:
        return ldexp((double)(int64_t)h, (int)((h >> 5) % 24) - 70);
    }
}

void nxt_input_exact(const nxt_inputs *in, uint32_t rank, size_t i, void *out)
{
    uint64_t h = nxt_hash(in->seed, rank, i);

    if (!nxt_dtype_is_float(in->dtype)) {
        exact_integer(in, h, out);
    } else if (in->op == NEXAR_PROD) {
        nxt_from_double(in->dtype, exact_product(in, rank, i, h), out);
    } else if ((in->op == NEXAR_MIN) || (in->op == NEXAR_MAX)) {
        nxt_from_double(in->dtype, any_number(h), out);
    } else {
        nxt_from_double(in->dtype, exact_sum(in, rank, i, h), out);
    }
}

void nxt_input_wild(const nxt_inputs *in, uint32_t rank, size_t i, void *out)
{
    uint64_t h = nxt_hash(in->seed, rank, i);

    /* If every rank drew random bits, almost every sum would be NaN. So most elements are
     * numbers on all ranks. */
    if (!nxt_dtype_is_float(in->dtype) || ((i % 7 == 3) && (h % 5 == 0))) {
        h = nxt_mix(h);
        memcpy(out, &h, nexar_dtype_size(in->dtype));
    } else {
        nxt_from_double(in->dtype, ldexp((double)(int64_t)h, (int)((h >> 5) % 16) - 70), out);
    }
}

void nxt_fill_random(uint64_t seed, void *out, size_t bytes)
{
    nxt_rand r = {seed};
    char *at = out;

    for (; bytes >= sizeof(uint64_t); bytes -= sizeof(uint64_t), at += sizeof(uint64_t)) {
        uint64_t v = nxt_next(&r);

        memcpy(at, &v, sizeof(v));
    }
    uint64_t v = nxt_next(&r);

    memcpy(at, &v, bytes);
}
