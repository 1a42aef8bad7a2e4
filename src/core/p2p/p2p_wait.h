/*
 * p2p_wait.h - one operation that the calling thread waits for, on its stack; and regions of the
 * application as the message engine names them.
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
/* Drives the world until |w|, which has begun, is over; reports say what it waits for. */
void nx_waited_finish(nx_waited *w);
/* The same until |deadline_ns|; false: it is not over. */
bool nx_waited_until(nx_waited *w, uint64_t deadline_ns);

/* Writes |n| regions to |out|, which may be NULL: then nothing is written.  Returns |out|. */
nx_iov_span *nx_p2p_spans(const nexar_iov *iov, size_t n, nx_iov_span *out);
nx_bytes *nx_p2p_bytes(const nexar_iov *iov, size_t n, nx_bytes *out);

#endif /* NX_P2P_WAIT_H */
