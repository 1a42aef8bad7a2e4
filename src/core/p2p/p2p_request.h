/*
 * p2p_request.h - requests for messages that only the Python package uses.
 *
 * They complete and are waited for, tested and cancelled like those of nexar_isendv() and
 * nexar_irecv(), with the same errors.
 */
#ifndef NX_P2P_REQUEST_H
#define NX_P2P_REQUEST_H

#include <stddef.h>
#include <stdint.h>

#include <nexar.h>

#include "base/error.h"

/* nexar_isendv() in MPI's synchronous mode: the request completes when a receive has taken the
 * message.  The memory is the host's. */
NX_MUST_CHECK nexar_err nx_p2p_issendv(nexar_comm *comm, const nexar_iov *iov, size_t n, int dest,
                                       uint64_t tag, nexar_request **req);

/* nexar_mprobe() with a request.  It is ordered with posted receives.  |*msg| is set when the
 * request was waited for or tested and has succeeded. */
NX_MUST_CHECK nexar_err nx_p2p_imatch(nexar_comm *comm, int source, uint64_t tag,
                                      nexar_message **msg, nexar_request **req);

/* Memory for a message whose length is not known before. */
typedef struct nx_p2p_room {
    void *(*alloc)(size_t bytes, void *arg); /* on any thread, with the loop's lock: must not call
                                                nexar.  NULL: NEXAR_ENOMEM */
    void *arg;
    void *ptr; /* what |alloc| gave, once; the caller's, also after an error */
    size_t bytes;
} nx_p2p_room;

/* nexar_irecv() of a message of any length.  |room| is borrowed until the request has ended. */
NX_MUST_CHECK nexar_err nx_p2p_irecv_any(nexar_comm *comm, int source, uint64_t tag,
                                         nx_p2p_room *room, nexar_request **req);
/* nexar_probe() with a request. */
NX_MUST_CHECK nexar_err nx_p2p_iprobe(nexar_comm *comm, int source, uint64_t tag,
                                      nexar_request **req);

#endif /* NX_P2P_REQUEST_H */
