/*
 * rpc_inner.h - shared by the files of rpc.
 *
 *   head.c      heads and bodies: pure
 *   handlers.c  registrations
 *   call.c      calls of this rank
 *   serve.c     calls of peers
 *   rpc.c       creation and shutdown
 */
#ifndef NX_RPC_INNER_H
#define NX_RPC_INNER_H

#include "base/containers/map.h"
#include "head.h"
#include "loop/worker.h"
#include "rpc.h"

/* A registration.  Freed when it is out of the map and no call uses it. */
typedef struct nx_rpc_entry {
    nx_rpc_handler handler;
    uint32_t running; /* calls */
    bool gone;        /* no longer in the map */
    bool awaited;     /* a thread waits for |idle| and frees it; otherwise its last call does */
    nx_event idle;    /* set when the last call of a removed registration has ended */
} nx_rpc_entry;

/* A receive for replies. Invariant: one is always open, that is, posted and without a message.
 * Without memory, one is opened when another ends. */
typedef struct nx_rpc_inbox {
    nx_rpc *rpc;
    nx_list link; /* rpc->inboxes */
    nx_req req;
    nx_rpc_body body;
    nx_rpc_call *call; /* the call that its bytes belong to; NULL: none */
} nx_rpc_inbox;

/* The calls of peers of one level. Invariants: |accepted| is the number of records besides |open|;
 * |running| of them are with the worker. */
typedef struct nx_rpc_level {
    nexar_rpc *open; /* the record whose receive is posted and has no message */
    nx_list ready;   /* calls that wait for a thread: nexar_rpc.link */
    unsigned accepted, running;
} nx_rpc_level;

struct nx_rpc {
    nx_rpc_config config;
    nx_worker *worker;
    nx_task refill; /* opens receives after others have received a message */
    bool closing, dead;
    nx_event *closed;

    nx_map entries; /* nx_rpc_entry by comm and fn */

    nx_rpc_level levels[NX_RPC_LEVELS];
    nx_list all; /* records of calls of peers: nexar_rpc.all */

    nx_map calls; /* nx_rpc_call by id */
    nx_list mine; /* the same: nx_rpc_call.link */
    uint64_t ids;
    nx_list inboxes;
    nx_rpc_inbox *open; /* NULL: none */
    nx_rpc_stats stats;
};

/* ---- handlers.c ---------------------------------------------------------------------- */

/* The registration for |comm| and |fn|, or NULL. */
nx_rpc_entry *nx_rpc_entry_get(const nx_rpc *rpc, uint32_t comm, uint16_t fn);
/* A call of |entry| has ended. */
void nx_rpc_entry_end(nx_rpc *rpc, nx_rpc_entry *entry);
void nx_rpc_entries_free(nx_rpc *rpc);

/* ---- call.c -------------------------------------------------------------------------- */

/* Opens the receive for replies if there is none. */
void nx_rpc_inbox_open(nx_rpc *rpc);

/* ---- serve.c ------------------------------------------------------------------------- */

/* The handler that this thread runs, or NULL. */
nexar_rpc *nx_rpc_current(void);
/* The level of a call that this thread makes now. */
unsigned nx_rpc_level_now(void);
/* Opens the receives of calls, up to the limit. */
void nx_rpc_serve_open(nx_rpc *rpc);
NX_MUST_CHECK nexar_err nx_rpc_serve_init(nx_rpc *rpc);
/* Rejects calls that wait for a thread. */
void nx_rpc_serve_close(nx_rpc *rpc);
void nx_rpc_serve_free(nx_rpc *rpc);

#endif /* NX_RPC_INNER_H */
