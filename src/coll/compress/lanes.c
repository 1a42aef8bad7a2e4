/* lanes.c - pieces of tensors to lanes and back, on the path of this machine. */
#include "coll/compress/lanes.h"

#include <float.h>
#include <string.h>

#include "coll/compress/lanes_kernels.h"
#include "reduce/reduce.h"

/* The largest finite value, as bits of an f32. */
enum { MOST_F16 = 0x477fe000, MOST_BF16 = 0x7f7f0000, MOST_F32 = 0x7f7fffff };

static const nx_lanes_kernels *kernels(void)
{
#if defined(__x86_64__)
    const nx_reduce_path path = nx_reduce_path_now();

    if ((path == NX_REDUCE_AVX2) || (path == NX_REDUCE_AVX512)) {
        return &nx_lanes_avx2;
    }
#endif
    return &nx_lanes_portable;
}

/* ---- codes --------------------------------------------------------------------------- */

static uint32_t limit_of(nx_codec codec, bool saturate)
{
    if (!saturate) {
        return MOST_F32;
    }
    return (codec == NX_CODEC_F16) ? MOST_F16 : MOST_BF16;
}

size_t nx_codec_bytes(nx_codec codec, size_t count)
{
    size_t more = count, bytes;

    if (codec == NX_CODEC_INT8) {
        more = (count / NX_PIECE + (count % NX_PIECE > 0)) * sizeof(float);
    }
    return __builtin_add_overflow(count, more, &bytes) ? SIZE_MAX : bytes;
}

void nx_codec_encode(nx_codec codec, void *out, const nx_lanes *x, size_t n, nexar_dtype work,
                     bool saturate)
{
    const nx_lanes_kernels *k = kernels();
    const float *values = x->f32;
    nx_lanes narrowed;
    nx_code code;

    if (work == NEXAR_F64) {
        k->narrow(narrowed.f32, x->f64, saturate ? (double)FLT_MAX : DBL_MAX);
        values = narrowed.f32;
    }
    k->encode[codec](&code, values, limit_of(codec, saturate));
    if (codec == NX_CODEC_INT8) {
        memcpy(out, &code.scale, sizeof code.scale);
        memcpy((char *)out + sizeof code.scale, code.bytes, n);
    } else {
        memcpy(out, code.half, n * sizeof code.half[0]);
    }
}

static void decode_f32(nx_codec codec, float *x, const void *in, size_t n)
{
    nx_code code;

    if (codec == NX_CODEC_INT8) {
        memcpy(&code.scale, in, sizeof code.scale);
        memcpy(code.bytes, (const char *)in + sizeof code.scale, n);
        memset(code.bytes + n, 0, NX_PIECE - n);
    } else {
        memcpy(code.half, in, n * sizeof code.half[0]);
        memset(code.half + n, 0, (NX_PIECE - n) * sizeof code.half[0]);
    }
    kernels()->decode[codec](x, &code);
}

void nx_codec_decode(nx_codec codec, nx_lanes *x, const void *in, size_t n, nexar_dtype work)
{
    nx_lanes values;

    if (work == NEXAR_F32) {
        decode_f32(codec, x->f32, in, n);
        return;
    }
    decode_f32(codec, values.f32, in, n);
    kernels()->widen(x->f64, values.f32);
}

/* ---- tensors ------------------------------------------------------------------------- */

static bool is_half(nexar_dtype dtype)
{
    return (dtype == NEXAR_F16) || (dtype == NEXAR_BF16);
}

static nx_codec codec_of(nexar_dtype half)
{
    return (half == NEXAR_F16) ? NX_CODEC_F16 : NX_CODEC_BF16;
}

void nx_lanes_load(nx_lanes *x, nexar_dtype dtype, const void *from, size_t n)
{
    const size_t size = nexar_dtype_size(dtype);

    if (is_half(dtype)) {
        decode_f32(codec_of(dtype), x->f32, from, n);
        return;
    }
    memcpy(x, from, n * size);
    memset((char *)x + n * size, 0, (NX_PIECE - n) * size);
}

void nx_lanes_store(const nx_lanes *x, nexar_dtype dtype, void *to, size_t n, bool saturate)
{
    if (is_half(dtype)) {
        nx_codec_encode(codec_of(dtype), to, x, n, NEXAR_F32, saturate);
    } else {
        memcpy(to, x, n * nexar_dtype_size(dtype));
    }
}

void nx_lanes_add(nx_lanes *x, const nx_lanes *y, nexar_dtype work)
{
    if (work == NEXAR_F64) {
        kernels()->add_f64(x->f64, y->f64);
    } else {
        kernels()->add_f32(x->f32, y->f32);
    }
}

void nx_lanes_divide(nx_lanes *x, uint32_t divisor, nexar_dtype work)
{
    if (work == NEXAR_F64) {
        kernels()->divide_f64(x->f64, (double)divisor);
    } else {
        kernels()->divide_f32(x->f32, (float)divisor);
    }
}

void nx_lanes_residue(nx_lanes *x, const nx_lanes *sent, uint32_t times, nexar_dtype work)
{
    if (work == NEXAR_F64) {
        kernels()->residue_f64(x->f64, sent->f64, (double)times);
    } else {
        kernels()->residue_f32(x->f32, sent->f32, (float)times);
    }
}
