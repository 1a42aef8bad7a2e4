/* fake_cuda.h - the control interface of the fake driver for tests; found by dlsym. */
#ifndef NXT_FAKE_CUDA_H
#define NXT_FAKE_CUDA_H

#include <stdint.h>

typedef struct nxt_fake_cuda_counts {
    uint64_t calls;
    uint64_t to_host, to_device; /* bytes */
    uint64_t from_pinned;        /* of these, bytes with pinned host memory */
    uint64_t launches;
    uint64_t contexts, events, modules, host_blocks, device_blocks; /* existing now */
} nxt_fake_cuda_counts;

void nxt_fake_cuda_get(nxt_fake_cuda_counts *out);

/* Makes call number |n| from now on (0: the next) return 700, an illegal address; negative: none.
 * Calls that release something never fail. */
void nxt_fake_cuda_fail(int64_t n);

/* The reason why the last launch or load was rejected; "" before. */
const char *nxt_fake_cuda_why(void);

#endif /* NXT_FAKE_CUDA_H */
