/* dtype.c - the names and sizes of element types and operations. */
#include <nexar.h>

#include "reduce/user_op.h"

typedef struct dtype_info {
    const char *name;
    size_t size;
    bool is_float;
} dtype_info;

static const dtype_info dtypes[NX_DTYPES] = {
    [NEXAR_F32] = {"f32", 4, true},  [NEXAR_F64] = {"f64", 8, true},
    [NEXAR_F16] = {"f16", 2, true},  [NEXAR_BF16] = {"bf16", 2, true},
    [NEXAR_I8] = {"i8", 1, false},   [NEXAR_I32] = {"i32", 4, false},
    [NEXAR_I64] = {"i64", 8, false}, [NEXAR_U8] = {"u8", 1, false},
    [NEXAR_U32] = {"u32", 4, false}, [NEXAR_U64] = {"u64", 8, false},
    [NEXAR_I16] = {"i16", 2, false}, [NEXAR_U16] = {"u16", 2, false},
};

static const char *const op_names[NX_OPS] = {
    [NEXAR_SUM] = "sum", [NEXAR_PROD] = "prod", [NEXAR_MIN] = "min", [NEXAR_MAX] = "max",
    [NEXAR_AVG] = "avg", [NEXAR_BAND] = "band", [NEXAR_BOR] = "bor", [NEXAR_BXOR] = "bxor",
};

/* An enum may hold any int, and the caller of a public function may pass one. */
static bool is_number(nexar_dtype dtype)
{
    return (unsigned)dtype < NX_DTYPES;
}

static bool is_built_in(nexar_op op)
{
    return (unsigned)op < NX_OPS;
}

bool nx_dtype_is_known(nexar_dtype dtype)
{
    return is_number(dtype) || nx_dtype_is_struct(dtype);
}

bool nx_op_is_known(nexar_op op)
{
    return is_built_in(op) || nx_user_op_is(op);
}

size_t nexar_dtype_size(nexar_dtype dtype)
{
    if (nx_dtype_is_struct(dtype)) {
        return (size_t)dtype - (size_t)NEXAR_STRUCT(0);
    }
    return is_number(dtype) ? dtypes[dtype].size : 0;
}

const char *nexar_dtype_name(nexar_dtype dtype)
{
    if (nx_dtype_is_struct(dtype)) {
        return "struct";
    }
    return is_number(dtype) ? dtypes[dtype].name : "?";
}

const char *nexar_op_name(nexar_op op)
{
    if (nx_user_op_is(op)) {
        return "user op";
    }
    return is_built_in(op) ? op_names[op] : "?";
}

bool nx_reduce_legal(nexar_dtype dtype, nexar_op op)
{
    if (nx_user_op_is(op)) {
        return nx_dtype_is_known(dtype);
    }
    return is_number(dtype) && is_built_in(op) && (op < NEXAR_BAND || !dtypes[dtype].is_float);
}
