/*
 * p2p_wait.h - one operation on the stack of a thread that waits for it; and conversion of the
 * application's regions.
 */
#ifndef NX_P2P_WAIT_H
#define NX_P2P_WAIT_H

#include "core/p2p/p2p_op.h"

typedef struct nx_waited {
    nx_op op;
    nx_event event;
} nx_waited;

/* With the loop's lock. */
void nx_waited_init(nx_waited *w, nexar_comm *comm, nx_devmem mem);
/* Drives the world until |w|, which has begun, has completed; reports list it. */
void nx_waited_finish(nx_waited *w);
/* The same until |deadline_ns|; false: it has not completed. */
bool nx_waited_until(nx_waited *w, uint64_t deadline_ns);

/* Converts |n| regions to |out|; NULL: does nothing.  Returns |out|. */
nx_iov_span *nx_p2p_spans(const nexar_iov *iov, size_t n, nx_iov_span *out);
nx_bytes *nx_p2p_bytes(const nexar_iov *iov, size_t n, nx_bytes *out);

#endif /* NX_P2P_WAIT_H */
