/*
 * lanes.h - the arithmetic of compression, on 256 elements at a time.
 *
 * f32, f16 and bf16 tensors are computed in f32, f64 tensors in f64. A piece of at most NX_PIECE
 * elements is loaded, added to, encoded, decoded and stored while it is in the first-level cache.
 *
 * Codecs have a fixed length for a number of elements:
 *
 *   F16   IEEE binary16, round to nearest even               2 bytes an element
 *   BF16  the upper half of an f32, round to nearest even    2 bytes an element
 *   INT8  pieces of 256 (the last one shorter): an f32 scale, then one byte an
 *         element.  scale = largest finite magnitude of the piece / 127, code =
 *         x / scale to nearest even within -127 .. 127, value = code * scale.
 *         Code -128 is an element that is not finite, and its value NaN.  A piece
 *         without a magnitude of 2^-100 and above has scale 0; the scale is 2^121
 *         at most, so that no value is infinite.
 *
 * f64 is converted to f32 before encoding.  Infinity stays infinity in F16 and BF16, every NaN
 * becomes the canonical one.  A finite number beyond the range of a code becomes infinity, or, with
 * |saturate|, the largest finite one.
 *
 * Every path and machine computes identical bits in the default floating-point environment, which
 * the caller sets (reduce/fpenv.h).  Pointers into tensors and codes need no alignment.  Values on
 * the wire have the machine's byte order, as the vectors of all collectives have.  No function
 * allocates or fails.
 */
#ifndef NX_LANES_H
#define NX_LANES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <nexar.h>

enum { NX_PIECE = 256 };

/* Elements beyond those loaded are 0. */
typedef struct nx_lanes {
    _Alignas(64) union {
        float f32[NX_PIECE];
        double f64[NX_PIECE];
    };
} nx_lanes;

typedef enum nx_codec { NX_CODEC_F16, NX_CODEC_BF16, NX_CODEC_INT8, NX_CODECS } nx_codec;

/* The type that |dtype| (f32, f64, f16, bf16) is computed in: f32 or f64. */
static inline nexar_dtype nx_lanes_work(nexar_dtype dtype)
{
    return (dtype == NEXAR_F64) ? NEXAR_F64 : NEXAR_F32;
}

/* Copies one element of |size| bytes, 2, 4 or 8, without calling memcpy. */
static inline void nx_element_copy(void *to, const void *from, size_t size)
{
    if (size == sizeof(float)) {
        memcpy(to, from, sizeof(float));
    } else if (size == sizeof(double)) {
        memcpy(to, from, sizeof(double));
    } else {
        memcpy(to, from, sizeof(uint16_t));
    }
}

/* Loads |n| <= NX_PIECE elements of |dtype|, exactly. */
void nx_lanes_load(nx_lanes *x, nexar_dtype dtype, const void *from, size_t n);
/* Stores the first |n|, rounded to nearest even if |dtype| is f16 or bf16. */
void nx_lanes_store(const nx_lanes *x, nexar_dtype dtype, void *to, size_t n, bool saturate);

/* x += y; NaN is canonical. */
void nx_lanes_add(nx_lanes *x, const nx_lanes *y, nexar_dtype work);
/* x /= divisor, > 0. */
void nx_lanes_divide(nx_lanes *x, uint32_t divisor, nexar_dtype work);
/* x -= times * sent: the residual. 0 where x or sent is not finite, so an infinity has an effect
 * only once. */
void nx_lanes_residue(nx_lanes *x, const nx_lanes *sent, uint32_t times, nexar_dtype work);

/* Bytes of |count| elements; SIZE_MAX on overflow. */
size_t nx_codec_bytes(nx_codec codec, size_t count);
/* One piece of |n| elements. */
void nx_codec_encode(nx_codec codec, void *out, const nx_lanes *x, size_t n, nexar_dtype work,
                     bool saturate);
void nx_codec_decode(nx_codec codec, nx_lanes *x, const void *in, size_t n, nexar_dtype work);

#endif /* NX_LANES_H */
