/*
 * inner.h - what the files of rpc share.
 *
 *   head.c      heads and bodies: pure
 *   handlers.c  who serves what
 *   call.c      calls of our own
 *   serve.c     calls of others
 *   rpc.c       making and ending
 */
#ifndef NX_RPC_INNER_H
#define NX_RPC_INNER_H

#include "base/containers/map.h"
#include "head.h"
#include "loop/worker.h"
#include "rpc.h"

/* A registration.  Freed by whoever ends last: its place in the map, or a call. */
typedef struct nx_rpc_entry {
    nx_rpc_handler handler;
    uint32_t running; /* calls */
    bool gone;        /* in the map no more */
    bool awaited;     /* somebody waits for |idle|, and frees it; else its last call does */
    nx_event idle;    /* set when the last call of a gone one has ended */
} nx_rpc_entry;

/* A receive for replies.  Invariant: one is always open, that is, posted and without
 * a message, if memory allows, or else will be when one of the others ends. */
typedef struct nx_rpc_inbox {
    nx_rpc *rpc;
    nx_list link; /* rpc->inboxes */
    nx_req req;
    nx_rpc_body body;
    nx_rpc_call *call; /* that its bytes are for; NULL: nobody's */
} nx_rpc_inbox;

/* The calls of others of one level.  Invariants: accepted is how many records there
 * are besides |open|; running of them are in the hands of the worker. */
typedef struct nx_rpc_level {
    nexar_rpc *open; /* the record whose receive is posted and has no message */
    nx_list ready;   /* calls that wait for a thread: nexar_rpc.link */
    unsigned accepted, running;
} nx_rpc_level;

struct nx_rpc {
    nx_rpc_config config;
    nx_worker *worker;
    nx_task refill; /* opens receives where others have got their message */
    bool closing, dead;
    nx_event *closed;

    nx_map entries; /* nx_rpc_entry by comm and fn */

    nx_rpc_level levels[NX_RPC_LEVELS];
    nx_list all; /* records of calls of others: nexar_rpc.all */

    nx_map calls; /* nx_rpc_call by id */
    nx_list mine; /* the same: nx_rpc_call.link */
    uint64_t ids;
    nx_list inboxes;
    nx_rpc_inbox *open; /* NULL: none */
    nx_rpc_stats stats;
};

/* ---- handlers.c ------------------------------------------------------------------- */

/* The registration for |comm| and |fn|; NULL: none. */
nx_rpc_entry *nx_rpc_entry_get(const nx_rpc *rpc, uint32_t comm, uint16_t fn);
/* A call of |entry| has ended. */
void nx_rpc_entry_end(nx_rpc *rpc, nx_rpc_entry *entry);
void nx_rpc_entries_free(nx_rpc *rpc);

/* ---- call.c ------------------------------------------------------------------------- */

/* Opens the receive for replies if there is none. */
void nx_rpc_inbox_open(nx_rpc *rpc);

/* ---- serve.c ------------------------------------------------------------------------ */

/* The handler that this thread runs; NULL: none. */
nexar_rpc *nx_rpc_current(void);
/* The level of a call that this thread makes now. */
unsigned nx_rpc_level_now(void);
/* Opens the receives of calls that there may be. */
void nx_rpc_serve_open(nx_rpc *rpc);
NX_MUST_CHECK nexar_err nx_rpc_serve_init(nx_rpc *rpc);
/* Refuses what waits for a thread. */
void nx_rpc_serve_close(nx_rpc *rpc);
void nx_rpc_serve_free(nx_rpc *rpc);

#endif /* NX_RPC_INNER_H */
