/* reduce_cases.c - elements for the tests of the kernels, as bits. */
#include "reduce_cases.h"

#include <assert.h>
#include <string.h>

uint64_t nxt_get(const void *vec, nexar_dtype dtype, size_t i)
{
    const size_t size = nexar_dtype_size(dtype);
    const char *at = (const char *)vec + i * size;
    uint8_t u8;
    uint16_t u16;
    uint32_t u32;
    uint64_t u64;

    switch (size) {
    case 1:
        memcpy(&u8, at, sizeof u8);
        return u8;
    case 2:
        memcpy(&u16, at, sizeof u16);
        return u16;
    case 4:
        memcpy(&u32, at, sizeof u32);
        return u32;
    default:
        memcpy(&u64, at, sizeof u64);
        return u64;
    }
}

void nxt_put(void *vec, nexar_dtype dtype, size_t i, uint64_t bits)
{
    const size_t size = nexar_dtype_size(dtype);
    char *at = (char *)vec + i * size;
    const uint8_t u8 = (uint8_t)bits;
    const uint16_t u16 = (uint16_t)bits;
    const uint32_t u32 = (uint32_t)bits;

    switch (size) {
    case 1:
        memcpy(at, &u8, sizeof u8);
        break;
    case 2:
        memcpy(at, &u16, sizeof u16);
        break;
    case 4:
        memcpy(at, &u32, sizeof u32);
        break;
    default:
        memcpy(at, &bits, sizeof bits);
        break;
    }
}

/* ---- specials ------------------------------------------------------------ */

/*
 * For a binary format with |fraction| bits below the leading one, |exponent| bits and a sign.
 * Each value has both signs.
 */
static size_t float_specials(unsigned exponent, unsigned fraction, uint64_t *out)
{
    const uint64_t sign = UINT64_C(1) << (exponent + fraction);
    const uint64_t infinity = sign - (UINT64_C(1) << fraction);
    const uint64_t least_normal = UINT64_C(1) << fraction;
    const uint64_t bias = (UINT64_C(1) << (exponent - 1)) - 1;
    const uint64_t one = bias << fraction;
    const uint64_t values[] = {
        0,                                 /* zero */
        1,                                 /* the least subnormal */
        3,                                 /* an odd one, for halves */
        least_normal - 1,                  /* the largest subnormal */
        least_normal,                      /* the least normal */
        one,                               /* 1 */
        one + 1,                           /* 1 and one unit in its last place */
        one - 1,                           /* just below 1 */
        (bias - fraction - 1) << fraction, /* half a unit of 1 */
        ((bias - fraction - 1) << fraction) + 1,
        (bias - fraction) << fraction,        /* a unit of 1 */
        ((bias - fraction) << fraction) + 1,  /* slightly more: above halfway to 2 */
        ((bias / 2) << fraction) + 5,         /* its square is near the least normal */
        infinity - 1,                         /* the largest */
        infinity - (UINT64_C(1) << fraction), /* 2^bias: twice it overflows */
        infinity,
        infinity + 1,                                      /* signalling NaN */
        infinity + (UINT64_C(1) << (fraction - 1)),        /* the quiet NaN */
        infinity + (UINT64_C(1) << (fraction - 1)) + 0x2a, /* with a payload */
        infinity + (UINT64_C(1) << fraction) - 1,          /* all payload bits */
    };
    size_t n = 0;

    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        out[n++] = values[i];
        out[n++] = values[i] | sign;
    }
    assert(n <= NXT_SPECIALS_MAX);
    return n;
}

static size_t int_specials(unsigned bits, uint64_t *out)
{
    const uint64_t half = UINT64_C(1) << (bits - 1);
    const uint64_t values[] = {
        0,
        1,
        2,
        3,
        0x7f,
        0x80,
        0x81,
        half - 1,
        half,
        half + 1,
        0 - half,
        UINT64_MAX,
        0 - (uint64_t)2,
        0 - (uint64_t)3,
        0x5555555555555555,
        0xaaaaaaaaaaaaaaaa,
        UINT64_C(1) << (bits / 2),
        (UINT64_C(1) << (bits / 2)) - 1,
        0xff00ff00ff00ff00,
    };

    memcpy(out, values, sizeof values);
    return sizeof values / sizeof values[0];
}

size_t nxt_specials(nexar_dtype dtype, uint64_t specials[NXT_SPECIALS_MAX])
{
    if (dtype == NEXAR_F32) {
        return float_specials(8, 23, specials);
    }
    if (dtype == NEXAR_F64) {
        return float_specials(11, 52, specials);
    }
    if (dtype == NEXAR_F16) {
        return float_specials(5, 10, specials);
    }
    if (dtype == NEXAR_BF16) {
        return float_specials(8, 7, specials);
    }
    return int_specials((unsigned)(8 * nexar_dtype_size(dtype)), specials);
}

/* ---- pairs --------------------------------------------------------------- */

uint64_t nxt_random(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15)); /* splitmix64 */

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

void nxt_pairs(nexar_dtype dtype, void *a, void *b)
{
    uint64_t specials[NXT_SPECIALS_MAX];
    const size_t n = nxt_specials(dtype, specials);
    const unsigned bits = (unsigned)(8 * nexar_dtype_size(dtype));
    uint64_t state = (uint64_t)dtype;

    for (size_t i = 0; i < n * n; i++) {
        nxt_put(a, dtype, i, specials[i / n]);
        nxt_put(b, dtype, i, specials[i % n]);
    }
    /* Floats of random bits differ so much that their sum equals the larger one. So in every
     * second pair only the sign and the lower half differ. */
    for (size_t i = n * n; i < NXT_PAIRS; i++) {
        const uint64_t x = nxt_random(&state);
        const uint64_t near = (UINT64_C(1) << (bits / 2)) - 1 + (UINT64_C(1) << (bits - 1));

        nxt_put(a, dtype, i, x);
        nxt_put(b, dtype, i, i % 2 == 0 ? nxt_random(&state) : x ^ (nxt_random(&state) & near));
    }
}
