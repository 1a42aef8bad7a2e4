/*
 * pace.h - the time of rounds, trees and pipelined streams of messages.
 *
 * The terms of the closed forms of the algorithms. They model the same network as the simulation
 * (cost_sim.h) without running it. Exact where all ranks do the same at the same time, approximate
 * elsewhere.
 */
#ifndef NX_PACE_H
#define NX_PACE_H

#include "coll/cost/net.h"

/* Combines or copies |len| elements. */
double nx_net_reduce(const nx_net *net, uint64_t len);

/* One message of |len| elements, alone, from its send to the end of its receive. */
double nx_net_message(const nx_net *net, bool local, uint64_t len);

/* ---- consecutive rounds -------------------------------------------------------------- */

/*
 * Ranks that share a wire queue for it once and keep their order in the following rounds, so the
 * queueing delay counts once:
 *
 *     nx_path path = {.net = net};
 *     for (each round) nx_path_add(&path, load, len, work);
 *     time = nx_path_time(&path);
 */
typedef struct nx_path {
    const nx_net *net;
    double time;   /* of the rounds so far, for the first rank in the queue */
    double turns;  /* additional queueing delay of the last rank */
    uint64_t way;  /* distance travelled in rounds that stay mostly inside hosts */
    double border; /* the cost of leaving a host in one of these */
} nx_path;

/* A round of messages of |len| elements; |work| elements are combined or copied
 * for each. */
void nx_path_add(nx_path *path, nx_load load, uint64_t len, uint64_t work);

/* The same, where every rank sends to the rank at |distance|. Short distances add up: a chain of
 * them crosses from host to host only now and then. */
void nx_path_shift(nx_path *path, uint32_t distance, uint64_t len, uint64_t work);

/* A round that nothing waits for: it only occupies the wire or the CPU. */
void nx_path_alternative(nx_path *path, uint64_t len, uint64_t work);

double nx_path_time(const nx_path *path);

/* ---- trees --------------------------------------------------------------------------- */

/* A binomial tree of |places| from |root| on (building_blocks/binomial.h). */
typedef struct nx_tree {
    const nx_net *net;
    uint32_t root, places;
    uint64_t len;  /* elements of a message ... */
    bool by_place; /* ... times the places of the subtree it is for */
    bool reduce;   /* a message is combined on arrival */
} nx_tree;

/* From the root to all; the largest subtree is served first. */
double nx_tree_down(const nx_tree *tree);
/* From all to the root; the smallest subtree is taken first. */
double nx_tree_up(const nx_tree *tree);

/* ---- streams ------------------------------------------------------------------------- */

/* A pipelined transfer from rank to rank. Each message costs CPU at both ends; a rank in the middle
 * combines or copies |work| bytes per byte. */
typedef struct nx_cost_stream {
    uint64_t len;      /* elements */
    uint64_t segments; /* messages that they are cut in ... */
    uint64_t each;     /* ... of this many elements, except the last */
    double work;
    uint64_t window; /* most messages that a rank may have in flight; 0: any number */
} nx_cost_stream;

/* The whole stream passes |hops| ranks, |borders| of the hops between hosts; each rank forwards
 * what it has received. */
double nx_net_chain(const nx_net *net, nx_cost_stream stream, uint32_t hops, uint32_t borders);

/* Every rank sends such a stream to the next, |rounds| times, each computed from the previous
 * round's. */
double nx_net_ring(const nx_net *net, nx_cost_stream stream, uint32_t rounds);

/* ---- stars --------------------------------------------------------------------------- */

/* One rank sends a message of |len| elements to each other rank, or the reverse. */
double nx_net_star(const nx_net *net, uint64_t len);

/* Every rank exchanges a message of |len| elements with each other rank, at most |window| in
 * flight. */
double nx_net_all(const nx_net *net, uint64_t len, uint32_t window);

#endif /* NX_PACE_H */
