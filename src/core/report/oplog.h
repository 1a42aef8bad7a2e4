/*
 * oplog.h - the last operations of a rank, and what its threads wait for.
 *
 * Two records, protected by the loop's lock and without a clock of their own (times are those of
 * the loop's iteration):
 *
 *  - a ring of the last completed operations: every collective, and message calls
 *    that blocked for NX_OPLOG_WORTH_NS or longer;
 *  - the threads that wait in a call now.
 *
 * A running collective is not recorded here: its group knows it (nx_group.runs). So an operation
 * costs one stored entry when it ends.  A blocking call links a record on its own stack, and a
 * non-blocking call costs nothing.
 */
#ifndef NX_OPLOG_H
#define NX_OPLOG_H

#include "base/containers/list.h"
#include "coll/coll_call.h"

typedef enum nx_what_kind {
    NX_WHAT_COLL, /* by |number| and |mark| */
    NX_WHAT_SEND, /* to |peer| with |tag| */
    NX_WHAT_RECV, /* also probe: from |peer|, or NX_ANY_PEER, with |tag|, or NX_ANY_TAG */
    NX_WHAT_RPC,  /* function |tag| of |peer| */
    NX_WHAT_OTHER /* the name is sufficient; waits for |peer| */
} nx_what_kind;

/* An operation, before it is formatted. */
typedef struct nx_what {
    nx_what_kind kind;
    uint32_t comm;    /* its id */
    const char *name; /* "recv", a literal; not of collectives */
    uint32_t number;  /* of a collective */
    uint32_t peer;    /* its slot; its rank in the world for nx_what_text */
    uint64_t tag;
    nx_mark mark;
} nx_what;

/* "#5 allreduce(1024 x f32, sum)", "recv(from rank 1, tag 7)"; followed by the communicator if it
 * is not the world's.  Ranks are those of the world. */
enum { NX_WHAT_TEXT = 160 };
const char *nx_what_text(const nx_what *w, char *buf);

typedef struct nx_op_entry {
    nx_what what;
    uint64_t begun_ns, ended_ns;
    nexar_err err;
} nx_op_entry;

enum { NX_OPLOG_ENTRIES = 64 }; /* a power of two */
#define NX_OPLOG_WORTH_NS UINT64_C(100000000)

typedef struct nx_oplog {
    nx_op_entry ring[NX_OPLOG_ENTRIES];
    uint64_t ended;   /* how many ever were entered */
    nx_list blocked;  /* nx_blocked, oldest first */
    uint32_t waiting; /* threads of the application inside a call that waits */
} nx_oplog;

/* A call for messages in which a thread waits; on its stack. */
typedef struct nx_blocked {
    nx_list link;
    nx_what what;
    uint64_t begun_ns;
    const struct nx_op *op; /* a message, which may wait for its device; NULL: something else */
} nx_blocked;

void nx_oplog_init(nx_oplog *log);

/* The calling thread begins, or ends, to wait in a call. */
void nx_oplog_enter(nx_oplog *log);
void nx_oplog_leave(nx_oplog *log);
/* The calling thread runs operations on behalf of the application, which continues meanwhile: its
 * waits are not recorded. */
void nx_oplog_serve(void);

/* |what| has ended. */
void nx_oplog_ended(nx_oplog *log, const nx_what *what, uint64_t begun_ns, uint64_t now_ns,
                    nexar_err err);

/* A thread begins to wait for |b->what|; the wait has ended, with |err|. */
void nx_oplog_block(nx_oplog *log, nx_blocked *b, uint64_t now_ns);
void nx_oplog_unblock(nx_oplog *log, nx_blocked *b, uint64_t now_ns, nexar_err err);

/* The |back|-th entry before the last one (0: the last), or NULL. */
const nx_op_entry *nx_oplog_at(const nx_oplog *log, size_t back);
/* The last collective on |comm|, otherwise the last entry, or NULL. */
const nx_op_entry *nx_oplog_last(const nx_oplog *log, uint32_t comm);

#endif /* NX_OPLOG_H */
