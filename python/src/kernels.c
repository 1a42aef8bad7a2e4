/*
 * kernels.c - reductions of MPI that nexar lacks: on complex numbers, long double and pairs, and
 * logical ones.
 *
 * An operation and an element type make a kernel.  The first use registers the kernel with
 * nexar_op_create(), under a number that is the same on every rank.
 */
#include "binding.h"

#include <complex.h>
#include <string.h>

/* The order must equal that of _op.py and _datatype.py. */
enum { LAST_ID = 1023 }; /* programs count from 0 */
enum { SUM, PROD, MIN, MAX, LAND, LOR, LXOR, BAND, BOR, BXOR, MINLOC, MAXLOC, OPS };
enum {
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    F32,
    F64,
    F80,
    BOOL,
    C32,
    C64,
    C80,
    F32_INT,
    F64_INT,
    LONG_INT,
    INT_INT,
    SHORT_INT,
    F80_INT,
    F16, /* reductions of nexar itself only */
    TYPES
};

typedef float _Complex c32;
typedef double _Complex c64;
typedef long double _Complex c80;
typedef long double f80;

#define PAIR(NAME, VALUE) \
    typedef struct NAME { \
        VALUE v;          \
        int k;            \
    } NAME;
PAIR(pair_f32, float)
PAIR(pair_f64, double)
PAIR(pair_long, long)
PAIR(pair_int, int)
PAIR(pair_short, short)
PAIR(pair_f80, f80)

/* One kernel: *a is the element so far, *b the next. */
#define KERNEL(NAME, OP, T, EXPRESSION)                                                          \
    static void NAME##_##OP(void *inout, const void *in, size_t n, nexar_dtype dtype, void *arg) \
    {                                                                                            \
        T *x = inout;                                                                            \
        const T *y = in;                                                                         \
                                                                                                 \
        (void)dtype;                                                                             \
        (void)arg;                                                                               \
        for (size_t i = 0; i < n; i++) {                                                         \
            const T a = x[i], b = y[i];                                                          \
                                                                                                 \
            x[i] = (T)(EXPRESSION);                                                              \
        }                                                                                        \
    }
#define ARITHMETIC(NAME, T)     \
    KERNEL(NAME, sum, T, a + b) \
    KERNEL(NAME, prod, T, a *b)
#define ORDER(NAME, T)                    \
    KERNEL(NAME, min, T, (b < a) ? b : a) \
    KERNEL(NAME, max, T, (b > a) ? b : a)
#define LOGIC(NAME, T)                          \
    KERNEL(NAME, land, T, (a != 0) && (b != 0)) \
    KERNEL(NAME, lor, T, (a != 0) || (b != 0))  \
    KERNEL(NAME, lxor, T, (a != 0) != (b != 0))
#define BITS(NAME, T)           \
    KERNEL(NAME, band, T, a &b) \
    KERNEL(NAME, bor, T, a | b) \
    KERNEL(NAME, bxor, T, a ^ b)
/* Among equal values the lower index wins. */
#define PLACE(NAME, T)                                                                             \
    static void NAME##_minloc(void *inout, const void *in, size_t n, nexar_dtype dtype, void *arg) \
    {                                                                                              \
        T *a = inout;                                                                              \
        const T *b = in;                                                                           \
                                                                                                   \
        (void)dtype;                                                                               \
        (void)arg;                                                                                 \
        for (size_t i = 0; i < n; i++) {                                                           \
            if ((b[i].v < a[i].v) || ((b[i].v == a[i].v) && (b[i].k < a[i].k))) {                  \
                a[i] = b[i];                                                                       \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    static void NAME##_maxloc(void *inout, const void *in, size_t n, nexar_dtype dtype, void *arg) \
    {                                                                                              \
        T *a = inout;                                                                              \
        const T *b = in;                                                                           \
                                                                                                   \
        (void)dtype;                                                                               \
        (void)arg;                                                                                 \
        for (size_t i = 0; i < n; i++) {                                                           \
            if ((b[i].v > a[i].v) || ((b[i].v == a[i].v) && (b[i].k < a[i].k))) {                  \
                a[i] = b[i];                                                                       \
            }                                                                                      \
        }                                                                                          \
    }
/* Signed integers are added and multiplied as unsigned ones, so that overflow wraps. */
#define WHOLE(NAME, T, U)             \
    KERNEL(NAME, sum, U, a + b)       \
    KERNEL(NAME, prod, U, 1U * a * b) \
    ORDER(NAME, T)                    \
    LOGIC(NAME, T)                    \
    BITS(NAME, U)
#define FLOATING(NAME, T) \
    ARITHMETIC(NAME, T)   \
    ORDER(NAME, T)        \
    LOGIC(NAME, T)

WHOLE(i8, int8_t, uint8_t)
WHOLE(i16, int16_t, uint16_t)
WHOLE(i32, int32_t, uint32_t)
WHOLE(i64, int64_t, uint64_t)
WHOLE(u8, uint8_t, uint8_t)
WHOLE(u16, uint16_t, uint16_t)
WHOLE(u32, uint32_t, uint32_t)
WHOLE(u64, uint64_t, uint64_t)
FLOATING(f32, float)
FLOATING(f64, double)
FLOATING(f80, f80)
LOGIC(truth, uint8_t)
ARITHMETIC(c32, c32)
ARITHMETIC(c64, c64)
ARITHMETIC(c80, c80)
PLACE(f32_int, pair_f32)
PLACE(f64_int, pair_f64)
PLACE(long_int, pair_long)
PLACE(int_int, pair_int)
PLACE(short_int, pair_short)
PLACE(f80_int, pair_f80)

#define SUM_PROD(NAME)     [SUM] = NAME##_sum, [PROD] = NAME##_prod
#define ALL_BUT_BITS(NAME) SUM_PROD(NAME), [MIN] = NAME##_min, [MAX] = NAME##_max, LOGIC_OPS(NAME)
#define LOGIC_OPS(NAME)    [LAND] = NAME##_land, [LOR] = NAME##_lor, [LXOR] = NAME##_lxor
#define ALL(NAME)          ALL_BUT_BITS(NAME), [BAND] = NAME##_band, [BOR] = NAME##_bor, [BXOR] = NAME##_bxor
#define PLACES(NAME)       [MINLOC] = NAME##_minloc, [MAXLOC] = NAME##_maxloc

static const struct kind {
    size_t bytes;
    nexar_reduce_fn fn[OPS];
} kinds[TYPES] = {
    [I8] = {1, {ALL(i8)}},
    [I16] = {2, {ALL(i16)}},
    [I32] = {4, {ALL(i32)}},
    [I64] = {8, {ALL(i64)}},
    [U8] = {1, {ALL(u8)}},
    [U16] = {2, {ALL(u16)}},
    [U32] = {4, {ALL(u32)}},
    [U64] = {8, {ALL(u64)}},
    [F32] = {4, {ALL_BUT_BITS(f32)}},
    [F64] = {8, {ALL_BUT_BITS(f64)}},
    [F80] = {sizeof(f80), {ALL_BUT_BITS(f80)}},
    [BOOL] = {1, {LOGIC_OPS(truth)}},
    [C32] = {sizeof(c32), {SUM_PROD(c32)}},
    [C64] = {sizeof(c64), {SUM_PROD(c64)}},
    [C80] = {sizeof(c80), {SUM_PROD(c80)}},
    [F32_INT] = {sizeof(pair_f32), {PLACES(f32_int)}},
    [F64_INT] = {sizeof(pair_f64), {PLACES(f64_int)}},
    [LONG_INT] = {sizeof(pair_long), {PLACES(long_int)}},
    [INT_INT] = {sizeof(pair_int), {PLACES(int_int)}},
    [SHORT_INT] = {sizeof(pair_short), {PLACES(short_int)}},
    [F80_INT] = {sizeof(pair_f80), {PLACES(f80_int)}},
    [F16] = {2, {0}},
};

static nexar_reduce_fn find(int operation, int kind)
{
    return ((operation >= 0) && (operation < OPS) && (kind >= 0) && (kind < TYPES))
               ? kinds[kind].fn[operation]
               : NULL;
}

/* The reductions that nexar has itself, which are faster. */
static bool is_native(int operation, int kind, nexar_op *op, nexar_dtype *dtype)
{
    static const nexar_dtype dtypes[] = {NEXAR_I8,  NEXAR_I16, NEXAR_I32, NEXAR_I64, NEXAR_U8,
                                         NEXAR_U16, NEXAR_U32, NEXAR_U64, NEXAR_F32, NEXAR_F64};
    static const int ops[OPS] = {
        [SUM] = NEXAR_SUM, [PROD] = NEXAR_PROD, [MIN] = NEXAR_MIN, [MAX] = NEXAR_MAX,
        [LAND] = -1,       [LOR] = -1,          [LXOR] = -1,       [BAND] = NEXAR_BAND,
        [BOR] = NEXAR_BOR, [BXOR] = NEXAR_BXOR, [MINLOC] = -1,     [MAXLOC] = -1};

    if (((kind > F64) && (kind != F16)) || (ops[operation] < 0)) {
        return false;
    }
    *op = (nexar_op)ops[operation];
    *dtype = (kind == F16) ? NEXAR_F16 : dtypes[kind];
    return true;
}

/* op_of(operation, kind) -> (nexar_op, nexar_dtype); None: no such reduction. */
PyObject *nxp_op_of(PyObject *module, PyObject *args)
{
    static nexar_op made[OPS][TYPES]; /* protected by the GIL; 0: not registered yet */
    int operation = 0, kind = 0;
    nexar_reduce_fn fn;
    nexar_dtype dtype;
    nexar_op op;

    (void)module;
    if (!PyArg_ParseTuple(args, "ii", &operation, &kind)) {
        return NULL;
    }
    fn = find(operation, kind);
    if ((fn == NULL) && ((kind != F16) || (operation < SUM) || (operation > MAX))) {
        Py_RETURN_NONE;
    }
    if (!is_native(operation, kind, &op, &dtype)) {
        dtype = NEXAR_STRUCT(kinds[kind].bytes);
        op = made[operation][kind];
        if ((int)op == 0) {
            const nexar_err err =
                nexar_op_create((uint16_t)(LAST_ID - operation * TYPES - kind), fn, NULL, &op);

            if (err != NEXAR_OK) {
                return nxp_raise_last(err, NULL);
            }
            made[operation][kind] = op;
        }
    }
    return Py_BuildValue("ii", (int)op, (int)dtype);
}

/* reduce_local(operation, kind, inout, in): inout = in op inout, of equal length.  Returns whether
 * the reduction exists. */
PyObject *nxp_reduce_local(PyObject *module, PyObject *args)
{
    int operation, kind;
    PyObject *inout, *in;
    nxp_memory to = {0}, from = {0};
    nexar_reduce_fn fn;

    (void)module;
    if (!PyArg_ParseTuple(args, "iiOO", &operation, &kind, &inout, &in)) {
        return NULL;
    }
    fn = find(operation, kind);
    if (fn == NULL) {
        Py_RETURN_FALSE;
    }
    if (!nxp_memory_get(&to, "Reduce_local", "inoutbuf", inout, NXP_WRITE) ||
        !nxp_memory_get(&from, "Reduce_local", "inbuf", in, NXP_READ)) {
        nxp_memory_release(&to);
        return NULL;
    }
    if (to.bytes == from.bytes) {
        const size_t n = to.bytes / kinds[kind].bytes;

        Py_BEGIN_ALLOW_THREADS fn(to.ptr, from.ptr, n, NEXAR_STRUCT(kinds[kind].bytes), NULL);
        Py_END_ALLOW_THREADS
    }
    nxp_memory_release(&to);
    nxp_memory_release(&from);
    Py_RETURN_TRUE;
}
