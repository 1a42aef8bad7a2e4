/* identity.c - the identity element of each operation. */
#include <assert.h>
#include <string.h>

#include "reduce/reduce.h"

typedef struct identities {
    uint64_t zero, one, lowest, highest; /* bits; those above the element size are cut off */
} identities;

static const identities of_dtype[NX_DTYPES] = {
    [NEXAR_F32] = {0, 0x3f800000, 0xff800000, 0x7f800000},
    [NEXAR_F64] = {0, 0x3ff0000000000000, 0xfff0000000000000, 0x7ff0000000000000},
    [NEXAR_F16] = {0, 0x3c00, 0xfc00, 0x7c00},
    [NEXAR_BF16] = {0, 0x3f80, 0xff80, 0x7f80},
    [NEXAR_I8] = {0, 1, 0x80, INT8_MAX},
    [NEXAR_I16] = {0, 1, 0x8000, INT16_MAX},
    [NEXAR_I32] = {0, 1, 0x80000000, INT32_MAX},
    [NEXAR_I64] = {0, 1, 0x8000000000000000, INT64_MAX},
    [NEXAR_U8] = {0, 1, 0, UINT8_MAX},
    [NEXAR_U16] = {0, 1, 0, UINT16_MAX},
    [NEXAR_U32] = {0, 1, 0, UINT32_MAX},
    [NEXAR_U64] = {0, 1, 0, UINT64_MAX},
};

static uint64_t identity_bits(const identities *id, nexar_op op)
{
    switch (op) {
    case NEXAR_PROD:
        return id->one;
    case NEXAR_MIN:
        return id->highest;
    case NEXAR_MAX:
        return id->lowest;
    case NEXAR_BAND:
        return UINT64_MAX;
    case NEXAR_SUM:
    case NEXAR_AVG:
    case NEXAR_BOR:
    case NEXAR_BXOR:
        break;
    }
    return id->zero;
}

/* Through a type of the right size, so that byte order does not matter. */
static void put_element(void *out, size_t size, uint64_t bits)
{
    const uint8_t u8 = (uint8_t)bits;
    const uint16_t u16 = (uint16_t)bits;
    const uint32_t u32 = (uint32_t)bits;

    switch (size) {
    case sizeof u8:
        memcpy(out, &u8, sizeof u8);
        break;
    case sizeof u16:
        memcpy(out, &u16, sizeof u16);
        break;
    case sizeof u32:
        memcpy(out, &u32, sizeof u32);
        break;
    default:
        memcpy(out, &bits, sizeof bits);
        break;
    }
}

void nx_reduce_identity(void *out, size_t count, nexar_dtype dtype, nexar_op op)
{
    enum { MAX_COPY = 4096 }; /* the source of the copies stays in the first-level cache */
    const size_t size = nexar_dtype_size(dtype);
    const size_t bytes = count * size;
    unsigned char *dst = out;

    assert(nx_reduce_legal(dtype, op));
    if (nx_op_is_user(op)) {
        return;
    }
    if (count == 0) {
        return;
    }
    put_element(dst, size, identity_bits(&of_dtype[dtype], op));
    for (size_t done = size, n; done < bytes; done += n) {
        n = done < MAX_COPY ? done : MAX_COPY;
        n = n < bytes - done ? n : bytes - done;
        memcpy(dst + done, dst, n);
    }
}
