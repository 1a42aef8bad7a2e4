/*
 * pace.h - how long rounds, trees and streams of messages take.
 *
 * What the closed forms of the algorithms add up: the same network as that of
 * the simulation (cost_sim.h), without running it.  Exact where all ranks do the
 * same at the same time, near it elsewhere.
 */
#ifndef NX_PACE_H
#define NX_PACE_H

#include "coll/cost/net.h"

/* Combining or copying |len| elements. */
double nx_net_reduce(const nx_net *net, uint64_t len);

/* One message of |len| elements, alone, from its send to the end of its receive. */
double nx_net_message(const nx_net *net, bool local, uint64_t len);

/* ---- rounds, one after the other ------------------------------------------ */

/*
 * Ranks that share a wire take their turns in one round and keep them in the
 * next, so the turns are waited for once and not in every round:
 *
 *     nx_path path = {.net = net};
 *     for (each round) nx_path_add(&path, load, len, work);
 *     time = nx_path_time(&path);
 */
typedef struct nx_path {
    const nx_net *net;
    double time;   /* of the rounds so far, for a rank whose turn is first */
    double turns;  /* what the last one waits longer, in all */
    uint64_t way;  /* ranks gone forward in rounds that stay mostly inside hosts */
    double border; /* what it costs to leave a host in one of these */
} nx_path;

/* A round of messages of |len| elements; |work| elements are combined or copied
 * for each. */
void nx_path_add(nx_path *path, nx_load load, uint64_t len, uint64_t work);

/* The same, where every rank sends to the one |distance| further.  Short ways
 * add up: only now and then does a chain of them cross from host to host. */
void nx_path_shift(nx_path *path, uint32_t distance, uint64_t len, uint64_t work);

/* A round that nothing waits for: it only takes the wire or the CPU a while. */
void nx_path_alternative(nx_path *path, uint64_t len, uint64_t work);

double nx_path_time(const nx_path *path);

/* ---- trees ---------------------------------------------------------------- */

/* A binomial tree of |places| from |root| on (phase/binomial.h). */
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

/* ---- streams -------------------------------------------------------------- */

/* A stream from rank to rank.  Each message of it costs both ends CPU, and a
 * rank on the way |work| bytes of combining or copying per byte. */
typedef struct nx_cost_stream {
    uint64_t len;      /* elements */
    uint64_t segments; /* messages that they are cut in ... */
    uint64_t each;     /* ... of so many elements but for the last */
    double work;
    uint64_t window; /* most messages that a rank may have on the way; 0: any number */
} nx_cost_stream;

/* All of the stream goes over |hops| ranks, |borders| of them between hosts, and
 * each rank sends on what it has. */
double nx_net_chain(const nx_net *net, nx_cost_stream stream, uint32_t hops, uint32_t borders);

/* Every rank sends such a stream to the next, |rounds| times, each made from
 * what came in the round before. */
double nx_net_ring(const nx_net *net, nx_cost_stream stream, uint32_t rounds);

/* ---- stars ---------------------------------------------------------------- */

/* One rank sends a message of |len| elements to each of the others, or they to
 * it. */
double nx_net_star(const nx_net *net, uint64_t len);

/* Every rank exchanges a message of |len| elements with each other one, and has
 * at most |window| of them on the way. */
double nx_net_all(const nx_net *net, uint64_t len, uint32_t window);

#endif /* NX_PACE_H */
