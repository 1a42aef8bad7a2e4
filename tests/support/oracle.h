/*
 * oracle.h - the expected result of every collective, directly from its definition in nexar.h.
 * Plain loops over ranks and elements; no messages, no splitting code and no kernels of the
 * library.
 */
#ifndef NXT_ORACLE_H
#define NXT_ORACLE_H

#include "call_check.h"

/* A call with its data. */
typedef struct nxt_data {
    const nxt_call *call;
    nexar_dtype dtype;
    nexar_op op;
    char *const *send; /* per rank, before the call */
    char *const *recv;
} nxt_data;

/*
 * Fills, for every rank, |want[rank]| with its receive buffer after the call; |loose[rank][i]| is
 * set for elements with undefined content (in-place reduce_scatter leaves some). Both have
 * recv_len elements.
 */
void nxt_oracle(const nxt_data *d, char *const *want, bool *const *loose);

/* Shard |rank| of |count| elements among |size| ranks: as even as possible, the first shards
 * larger by one. */
nx_span nxt_shard(size_t count, uint32_t size, uint32_t rank);

#endif /* NXT_ORACLE_H */
