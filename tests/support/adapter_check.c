/* adapter_check.c - compares an adapter with the library's own kernels. */
#include "adapter_check.h"

#include <stdlib.h>

#include "reduce/reduce.h"
#include "reduce/reduce_cases.h"
#include "unit.h"

static void settle(const nexar_device *dev)
{
    assert_int_equal(dev->synchronize(dev->ctx, NULL), NEXAR_OK);
}

void nxt_dev_put(const nexar_device *dev, void *at, const void *host, size_t bytes)
{
    assert_int_equal(dev->to_device(dev->ctx, at, host, bytes, NULL), NEXAR_OK);
    settle(dev);
}

void nxt_dev_get(const nexar_device *dev, void *host, const void *at, size_t bytes)
{
    assert_int_equal(dev->to_host(dev->ctx, host, at, bytes, NULL), NEXAR_OK);
    settle(dev);
}

nexar_err nxt_dev_reduce(const nexar_device *dev, void *at, const void *host, size_t count,
                         nexar_dtype dtype, nexar_op op)
{
    nexar_err err = dev->reduce(dev->ctx, at, host, count, dtype, op, NULL);

    settle(dev);
    return err;
}

void nxt_bytes_make(unsigned char *buf, size_t bytes, unsigned seed)
{
    for (size_t i = 0; i < bytes; i++) {
        buf[i] = (unsigned char)((i * 2654435761U + seed * 97U) >> 7);
    }
}

void nxt_dev_check_bits(const nexar_device *dev, void *at, const void *a, const void *b,
                        size_t count, nexar_dtype dtype, nexar_op op)
{
    const size_t bytes = count * nexar_dtype_size(dtype);
    char *got = malloc(bytes), *expected = malloc(bytes);

    assert_non_null(got);
    assert_non_null(expected);
    nxt_dev_put(dev, at, a, bytes);
    assert_int_equal(nxt_dev_reduce(dev, at, b, count, dtype, op), NEXAR_OK);
    nxt_dev_get(dev, got, at, bytes);
    nx_reduce(expected, a, b, count, dtype, op);
    for (size_t i = 0; i < count; i++) {
        if (nxt_get(got, dtype, i) != nxt_get(expected, dtype, i)) {
            fail_msg("%s %s of %llx and %llx is %llx, expected %llx", nexar_op_name(op),
                     nexar_dtype_name(dtype), (unsigned long long)nxt_get(a, dtype, i),
                     (unsigned long long)nxt_get(b, dtype, i),
                     (unsigned long long)nxt_get(got, dtype, i),
                     (unsigned long long)nxt_get(expected, dtype, i));
        }
    }
    free(got);
    free(expected);
}

void nxt_dev_check_kernels(const nexar_device *dev, void *at)
{
    static uint64_t a[NXT_PAIRS], b[NXT_PAIRS];

    for (nexar_dtype d = NEXAR_F32; d <= NEXAR_U16; d++) {
        for (nexar_op o = NEXAR_SUM; o <= NEXAR_BXOR; o++) {
            if (nx_reduce_legal(d, o) && (o != NEXAR_AVG)) {
                nxt_pairs(d, a, b);
                nxt_dev_check_bits(dev, at, a, b, NXT_PAIRS, d, o);
            }
        }
    }
}
