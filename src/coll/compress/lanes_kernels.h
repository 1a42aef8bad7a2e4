/*
 * lanes_kernels.h - the interface between lanes.c and one code path.
 *
 * Kernels process whole pieces of NX_PIECE elements in aligned memory, in loops of constant length
 * that compilers vectorise. Only lanes.c calls them.
 */
#ifndef NX_LANES_KERNELS_H
#define NX_LANES_KERNELS_H

#include "coll/compress/lanes.h"

/* The code of a piece. */
typedef struct nx_code {
    float scale; /* INT8 */
    _Alignas(64) union {
        uint16_t half[NX_PIECE];
        uint8_t bytes[NX_PIECE]; /* of i8 */
    };
} nx_code;

typedef struct nx_lanes_kernels {
    /* f32 to codes; larger finite values become |limit|, the bits of a positive f32. */
    void (*encode[NX_CODECS])(nx_code *code, const float *x, uint32_t limit);
    void (*decode[NX_CODECS])(float *x, const nx_code *code);
    /* f64 to f32; larger finite values become |limit|. */
    void (*narrow)(float *to, const double *from, double limit);
    void (*widen)(double *to, const float *from);
    void (*add_f32)(float *x, const float *y);
    void (*add_f64)(double *x, const double *y);
    void (*divide_f32)(float *x, float divisor);
    void (*divide_f64)(double *x, double divisor);
    void (*residue_f32)(float *x, const float *sent, float times);
    void (*residue_f64)(double *x, const double *sent, double times);
} nx_lanes_kernels;

extern const nx_lanes_kernels nx_lanes_portable;
extern const nx_lanes_kernels nx_lanes_avx2; /* if AVX2 and F16C are available */

#endif /* NX_LANES_KERNELS_H */
