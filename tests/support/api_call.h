/* api_call.h - collectives through nexar.h by one rank, held to the oracle. */
#ifndef NXT_API_CALL_H
#define NXT_API_CALL_H

#include "call_check.h"
#include "sim_device.h"

/* What this thread begins from now on is on memory of |d|, which the communicators have;
 * NULL: on host memory again. */
void nxt_api_use_device(nxt_sim_device *d);

typedef struct nxt_api_op nxt_api_op;

/* Draws the case |seed| of |kind| for the size of |comm|, the same on all ranks, and
 * makes the call: by its form with a request, or not, as the seed says. */
nxt_api_op *nxt_api_begin(nexar_comm *comm, nx_coll_kind kind, uint64_t seed);
/* Waits for it and holds the result against the oracle: NULL, or a sentence that
 * says what is wrong. */
const char *nxt_api_end(nxt_api_op *op);

/* Both. */
const char *nxt_api_trial(nexar_comm *comm, nx_coll_kind kind, uint64_t seed);

#endif /* NXT_API_CALL_H */
