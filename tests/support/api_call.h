/* api_call.h - a collective call of call.h, made through nexar.h by one rank. */
#ifndef NXT_API_CALL_H
#define NXT_API_CALL_H

#include "call.h"
#include "sim_device.h"

/* Calls of this thread are made on memory of |d|, which their communicator has; NULL:
 * on host memory again. */
void nxt_api_use_device(nxt_sim_device *d);

/* Makes |call| on |comm| as its rank, from |send| to |recv|, and waits for it; with
 * |later| by the form with a request. */
nexar_err nxt_api_call(nexar_comm *comm, const nxt_call *call, nexar_dtype dtype, nexar_op op,
                       const void *send, void *recv, bool later);

/* Draws the case |seed| of |kind| for the size of |comm|, makes the call and holds
 * the result against the oracle: NULL, or a sentence that says what is wrong. */
const char *nxt_api_trial(nexar_comm *comm, nx_coll_kind kind, uint64_t seed);

#endif /* NXT_API_CALL_H */
