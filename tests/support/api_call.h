/* api_call.h - collectives through nexar.h by one rank, compared with the oracle. */
#ifndef NXT_API_CALL_H
#define NXT_API_CALL_H

#include "call_check.h"
#include "sim_device.h"

/* From now on, operations of this thread use memory of |d|, the device of the communicators;
 * NULL: host memory. */
void nxt_api_use_device(nxt_sim_device *d);

typedef struct nxt_api_op nxt_api_op;

/* Draws the case |seed| of |kind| for the size of |comm|, the same on all ranks. Makes the call,
 * blocking or with a request, depending on the seed. */
nxt_api_op *nxt_api_begin(nexar_comm *comm, nx_coll_kind kind, uint64_t seed);
/* Waits for the operation and compares the result with the oracle. NULL: correct; otherwise a
 * message. */
const char *nxt_api_end(nxt_api_op *op);

/* Both. */
const char *nxt_api_trial(nexar_comm *comm, nx_coll_kind kind, uint64_t seed);

#endif /* NXT_API_CALL_H */
