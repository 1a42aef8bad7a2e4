/*
 * cost_graph.h - the schedules of all ranks as one compact graph.
 *
 * Steps are numbered through all ranks. Only dependencies and durations are kept; addresses and
 * tags are not.
 */
#ifndef NX_COST_GRAPH_H
#define NX_COST_GRAPH_H

#include "coll/sched.h"

typedef enum nx_cost_kind {
    NX_COST_SEND,
    NX_COST_RECV,
    NX_COST_RECV_REDUCE,
    NX_COST_LOCAL,
} nx_cost_kind;

typedef struct nx_cost_step {
    uint32_t first;   /* its successors are succ[first] to succ[the next step's first] */
    uint32_t mate;    /* a send's receive, a receive's send */
    uint32_t pending; /* unfinished dependencies; a receive has one for its message */
    uint32_t depth;   /* longest chain of messages before it, found by the run */
    float bytes;
    uint32_t rank : 29;
    uint32_t kind : 3; /* nx_cost_kind */
} nx_cost_step;

_Static_assert(sizeof(nx_cost_step) == 24, "millions of them are kept");

typedef struct nx_cost_graph {
    nx_cost_step *steps; /* nsteps + 1: the last one only ends the successors */
    uint32_t *succ;
    uint32_t nsteps, nsucc;

    /* Used while building. */
    uint32_t ranks;
    uint32_t steps_room, succ_room;
    struct nx_cost_mail *mail; /* one per rank: its messages, to be matched */
    uint32_t *places;          /* scratch of one rank: per peer */
    uint32_t *order;           /* scratch of one rank: per step */
    uint32_t order_room;
} nx_cost_graph;

/* NEXAR_ENOMEM; nx_cost_graph_fini() is safe after an error too. */
NX_MUST_CHECK nexar_err nx_cost_graph_init(nx_cost_graph *g, uint32_t ranks);

/* Adds the sealed schedule of |rank|, borrowed for the call. Ranks come in order.
 *
 * NEXAR_ENOMEM
 *     Out of memory, or more than 2^32 - 1 steps or dependencies in all.
 * NEXAR_EINTERNAL
 *     A message has a receiver that does not exist. */
NX_MUST_CHECK nexar_err nx_cost_graph_add(nx_cost_graph *g, uint32_t rank, const nx_sched *s,
                                          size_t elem_size);

/* Matches each send with its receive, after all ranks were added.
 *
 * NEXAR_EINTERNAL
 *     A message is sent and not received, or the reverse, or the lengths differ. */
NX_MUST_CHECK nexar_err nx_cost_graph_match(nx_cost_graph *g);

void nx_cost_graph_fini(nx_cost_graph *g);

#endif /* NX_COST_GRAPH_H */
