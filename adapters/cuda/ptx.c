/*
 * ptx.c - dst[i] = op(dst[i], src[i]) in PTX, one entry per type and operation, with the bits
 * that nexar.h specifies.
 *
 * An entry takes (dst, src, n); each thread processes one element. Register names: p predicates,
 * h 16 bits, r 32, l 64, f f32, d f64. After the prologue l0 and l1 are the addresses of the two
 * elements. Sums and products use .rn, so that the assembler fuses none. No instruction uses
 * .ftz, so subnormals are kept. min and max order -0 below +0 but drop NaN; the code restores NaN
 * and its canonical payload. Conversions to a half yield another NaN, so the canonical NaN is
 * selected last.
 */
#include "inner.h"

#define ENTRY(NAME, SIZE, BODY)                                                      \
    ".visible .entry " NAME "(.param .u64 dst, .param .u64 src, .param .u64 n)\n{\n" \
    ".reg .pred %p<4>;\n.reg .b16 %h<4>;\n.reg .b32 %r<12>;\n.reg .b64 %l<12>;\n"    \
    ".reg .f32 %f<4>;\n.reg .f64 %d<4>;\n"                                           \
    "ld.param.u64 %l0, [dst];\nld.param.u64 %l1, [src];\nld.param.u64 %l2, [n];\n"   \
    "cvta.to.global.u64 %l0, %l0;\ncvta.to.global.u64 %l1, %l1;\n"                   \
    "mov.u32 %r0, %ctaid.x;\nmov.u32 %r1, %ntid.x;\nmov.u32 %r2, %tid.x;\n"          \
    "mul.wide.u32 %l3, %r0, %r1;\ncvt.u64.u32 %l4, %r2;\nadd.u64 %l3, %l3, %l4;\n"   \
    "setp.ge.u64 %p0, %l3, %l2;\n@%p0 ret;\n"                                        \
    "mul.lo.u64 %l3, %l3, " SIZE ";\n"                                               \
    "add.u64 %l0, %l0, %l3;\nadd.u64 %l1, %l1, %l3;\n" BODY "ret;\n}\n"

/* ---- floats: p1 is set if the result is NaN -------------------------------------------- */

#define F32_RESULT(OP) OP ".f32 %f2, %f0, %f1;\nsetp.nan.f32 %p1, %f2, %f2;\n"
#define F32_CHOICE(OP) OP ".f32 %f2, %f0, %f1;\nsetp.nan.f32 %p1, %f0, %f1;\n"
#define F64_RESULT(OP) OP ".f64 %d2, %d0, %d1;\nsetp.nan.f64 %p1, %d2, %d2;\n"
#define F64_CHOICE(OP) OP ".f64 %d2, %d0, %d1;\nsetp.nan.f64 %p1, %d0, %d1;\n"

#define F32(COMPUTE)                                                 \
    "ld.global.f32 %f0, [%l0];\nld.global.f32 %f1, [%l1];\n" COMPUTE \
    "selp.f32 %f2, 0f7FC00000, %f2, %p1;\nst.global.f32 [%l0], %f2;\n"

#define F64(COMPUTE)                                                 \
    "ld.global.f64 %d0, [%l0];\nld.global.f64 %d1, [%l1];\n" COMPUTE \
    "selp.f64 %d2, 0d7FF8000000000000, %d2, %p1;\nst.global.f64 [%l0], %d2;\n"

#define F16(COMPUTE)                                         \
    "ld.global.b16 %h0, [%l0];\nld.global.b16 %h1, [%l1];\n" \
    "cvt.f32.f16 %f0, %h0;\ncvt.f32.f16 %f1, %h1;\n" COMPUTE \
    "cvt.rn.f16.f32 %h2, %f2;\nselp.b16 %h2, 0x7E00, %h2, %p1;\nst.global.b16 [%l0], %h2;\n"

/* Rounded to nearest even by integer operations, which every device supports. */
#define BF16(COMPUTE)                                                           \
    "ld.global.b16 %h0, [%l0];\nld.global.b16 %h1, [%l1];\n"                    \
    "cvt.u32.u16 %r4, %h0;\nshl.b32 %r4, %r4, 16;\nmov.b32 %f0, %r4;\n"         \
    "cvt.u32.u16 %r5, %h1;\nshl.b32 %r5, %r5, 16;\nmov.b32 %f1, %r5;\n" COMPUTE \
    "mov.b32 %r6, %f2;\nshr.u32 %r7, %r6, 16;\nand.b32 %r7, %r7, 1;\n"          \
    "add.u32 %r6, %r6, %r7;\nadd.u32 %r6, %r6, 32767;\nshr.u32 %r6, %r6, 16;\n" \
    "cvt.u16.u32 %h2, %r6;\nselp.b16 %h2, 0x7FC0, %h2, %p1;\nst.global.b16 [%l0], %h2;\n"

#define FLOATS(NAME, SIZE, FRAME, F)                            \
    ENTRY("sum_" NAME, SIZE, FRAME(F##_RESULT("add.rn"))),      \
        ENTRY("prod_" NAME, SIZE, FRAME(F##_RESULT("mul.rn"))), \
        ENTRY("min_" NAME, SIZE, FRAME(F##_CHOICE("min"))),     \
        ENTRY("max_" NAME, SIZE, FRAME(F##_CHOICE("max")))

/* ---- integers: 8 and 16 bits are computed in 32 bits ------------------------------------- */

#define I32(LOAD, STORE, OP)                                              \
    "ld.global." LOAD " %r4, [%l0];\nld.global." LOAD " %r5, [%l1];\n" OP \
    " %r6, %r4, %r5;\nst.global." STORE " [%l0], %r6;\n"
#define I64(LOAD, STORE, OP)                                              \
    "ld.global." LOAD " %l6, [%l0];\nld.global." LOAD " %l7, [%l1];\n" OP \
    " %l8, %l6, %l7;\nst.global." STORE " [%l0], %l8;\n"

/* SIGN: s or u; BITS: of the element; FRAME and WIDE: the registers of the computation. */
#define INTEGERS(NAME, SIZE, SIGN, BITS, FRAME, WIDE)                           \
    ENTRY("sum_" NAME, SIZE, FRAME(SIGN BITS, "u" BITS, "add.u" WIDE)),         \
        ENTRY("prod_" NAME, SIZE, FRAME(SIGN BITS, "u" BITS, "mul.lo.u" WIDE)), \
        ENTRY("min_" NAME, SIZE, FRAME(SIGN BITS, "u" BITS, "min." SIGN WIDE)), \
        ENTRY("max_" NAME, SIZE, FRAME(SIGN BITS, "u" BITS, "max." SIGN WIDE)), \
        ENTRY("band_" NAME, SIZE, FRAME(SIGN BITS, "u" BITS, "and.b" WIDE)),    \
        ENTRY("bor_" NAME, SIZE, FRAME(SIGN BITS, "u" BITS, "or.b" WIDE)),      \
        ENTRY("bxor_" NAME, SIZE, FRAME(SIGN BITS, "u" BITS, "xor.b" WIDE))

/* Drivers since CUDA 9 accept this version, devices since 2014 this target. */
const char *const nx_cu_ptx[] = {
    ".version 6.0\n.target sm_50\n.address_size 64\n",
    FLOATS("f32", "4", F32, F32),
    FLOATS("f64", "8", F64, F64),
    FLOATS("f16", "2", F16, F32),
    FLOATS("bf16", "2", BF16, F32),
    INTEGERS("i8", "1", "s", "8", I32, "32"),
    INTEGERS("u8", "1", "u", "8", I32, "32"),
    INTEGERS("i16", "2", "s", "16", I32, "32"),
    INTEGERS("u16", "2", "u", "16", I32, "32"),
    INTEGERS("i32", "4", "s", "32", I32, "32"),
    INTEGERS("u32", "4", "u", "32", I32, "32"),
    INTEGERS("i64", "8", "s", "64", I64, "64"),
    INTEGERS("u64", "8", "u", "64", I64, "64"),
};
const size_t nx_cu_ptx_parts = sizeof(nx_cu_ptx) / sizeof(nx_cu_ptx[0]);
