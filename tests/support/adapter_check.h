/* adapter_check.h - operations on a device, shared by the tests of all adapters. */
#ifndef NXT_ADAPTER_CHECK_H
#define NXT_ADAPTER_CHECK_H

#include <nexar.h>

/* Synchronous copies. */
void nxt_dev_put(const nexar_device *dev, void *at, const void *host, size_t bytes);
void nxt_dev_get(const nexar_device *dev, void *host, const void *at, size_t bytes);
/* Returns the adapter's result; the stream is empty on return. */
nexar_err nxt_dev_reduce(const nexar_device *dev, void *at, const void *host, size_t count,
                         nexar_dtype dtype, nexar_op op);

/* Fills |buf| so that neighbouring bytes differ; the content depends on |seed|. */
void nxt_bytes_make(unsigned char *buf, size_t bytes, unsigned seed);

/* Checks that the device's op(a, b), computed at |at|, has the bits of nx_reduce. */
void nxt_dev_check_bits(const nexar_device *dev, void *at, const void *a, const void *b,
                        size_t count, nexar_dtype dtype, nexar_op op);
/* The same for every kernel, on special and random pairs; |at| has NXT_PAIRS words. */
void nxt_dev_check_kernels(const nexar_device *dev, void *at);

#endif /* NXT_ADAPTER_CHECK_H */
