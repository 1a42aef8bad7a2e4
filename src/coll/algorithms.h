/*
 * algorithms.h - the table of algorithms.
 *
 * A new algorithm is its file and one row here.  The row's builder and closed
 * form are declared from it.
 */
#ifndef NX_ALGORITHMS_H
#define NX_ALGORITHMS_H

#include "coll/coll.h"
#include "coll/cost/forecast.h"

/* X(collective, name in the setting `algorithms`, prefix of builder and closed form, cut in
 * segments, supports the shard hook, can hear from all ranks without extra messages, best use) */
#define NX_ALGORITHM_LIST(X)                                                                       \
    X(BARRIER, dissemination, barrier_dissemination, false, false, false,                          \
      "log2 n rounds of empty messages")                                                           \
    X(BARRIER, twolevel, barrier_twolevel, false, false, false,                                    \
      "hosts of several ranks: one of each between them")                                          \
    X(BROADCAST, binomial, broadcast_binomial, false, false, true, "short vectors: log2 n rounds") \
    X(BROADCAST, chain, broadcast_chain, true, false, false,                                       \
      "long vectors on few ranks: one stream through all")                                         \
    X(BROADCAST, scatter_allgather, broadcast_scatter_allgather, false, false, false,              \
      "long vectors on many ranks: twice the bytes, no rank sends more")                           \
    X(BROADCAST, twolevel, broadcast_twolevel, false, false, false,                                \
      "short vectors on hosts of several ranks: two trees")                                        \
    X(BROADCAST, twolevel_chain, broadcast_twolevel_chain, true, false, false,                     \
      "long vectors on such hosts: one stream through the hosts")                                  \
    X(BROADCAST, star, broadcast_star, false, false, true,                                         \
      "short vectors on few ranks that share cores: the least messages")                           \
    X(REDUCE, binomial, reduce_binomial, false, false, true, "short vectors: log2 n rounds")       \
    X(REDUCE, chain, reduce_chain, true, false, false,                                             \
      "long vectors on few ranks: one stream through all")                                         \
    X(REDUCE, rs_gather, reduce_rs_gather, false, false, false,                                    \
      "long vectors on many ranks: recursive halving, then gather")                                \
    X(REDUCE, twolevel, reduce_twolevel, false, false, false,                                      \
      "short vectors on hosts of several ranks: added up there")                                   \
    X(REDUCE, twolevel_chain, reduce_twolevel_chain, true, false, false,                           \
      "long vectors on such hosts: one stream through the hosts")                                  \
    X(REDUCE, star, reduce_star, false, false, true,                                               \
      "short vectors on few ranks that share cores: the least messages")                           \
    X(ALLREDUCE, recdbl, allreduce_recdbl, false, false, false,                                    \
      "short vectors: log2 n rounds, whole vector")                                                \
    X(ALLREDUCE, ring, allreduce_ring, false, true, false,                                         \
      "long vectors: least bytes, 2 (n - 1) rounds")                                               \
    X(ALLREDUCE, ring_pipelined, allreduce_ring, true, true, false,                                \
      "very long vectors: the ring, receiving, reducing and sending at once")                      \
    X(ALLREDUCE, halving_doubling, allreduce_halving_doubling, false, false, false,                \
      "middle sizes and many ranks: least bytes, 2 log2 n rounds")                                 \
    X(ALLREDUCE, rs_ag, allreduce_rs_ag, false, true, false,                                       \
      "shards in few rounds: halving to rank r's shard r, then doubling")                          \
    X(ALLREDUCE, twolevel, allreduce_twolevel, false, false, false,                                \
      "short vectors on hosts of several ranks: one leads each")                                   \
    X(ALLREDUCE, twolevel_halving, allreduce_twolevel_halving, false, false, false,                \
      "middle sizes on many such hosts: all lead, each with a part")                               \
    X(ALLREDUCE, twolevel_ring, allreduce_twolevel_ring, true, false, false,                       \
      "long vectors on such hosts: all lead, each with a part")                                    \
    X(ALLREDUCE, star, allreduce_star, false, false, false,                                        \
      "short vectors on few ranks that share cores: the least messages")                           \
    X(ALLGATHER, ring, allgather_ring, true, false, false, "long blocks: neighbours only")         \
    X(ALLGATHER, recdbl, allgather_recdbl, false, false, false,                                    \
      "short blocks, no scratch: log2 n rounds")                                                   \
    X(ALLGATHER, bruck, allgather_bruck, false, false, false,                                      \
      "short blocks: ceil(log2 n) rounds for any n")                                               \
    X(ALLGATHER, twolevel, allgather_twolevel, false, false, false,                                \
      "short blocks on hosts of several ranks: one leads each")                                    \
    X(ALLGATHER, twolevel_ring, allgather_twolevel_ring, true, false, false,                       \
      "long blocks on such hosts: a ring of hosts for each leader")                                \
    X(ALLGATHER, star, allgather_star, false, false, false,                                        \
      "short blocks on few ranks that share cores: the least messages")                            \
    X(GATHER, binomial, gather_binomial, false, false, false, "short blocks: log2 n rounds")       \
    X(GATHER, direct, gather_direct, false, false, true, "long blocks: each byte travels once")    \
    X(GATHER, twolevel, gather_twolevel, false, false, false,                                      \
      "short blocks on hosts of several ranks: a message of each host")                            \
    X(SCATTER, binomial, scatter_binomial, false, false, false, "short blocks: log2 n rounds")     \
    X(SCATTER, direct, scatter_direct, false, false, true, "long blocks: each byte travels once")  \
    X(SCATTER, twolevel, scatter_twolevel, false, false, false,                                    \
      "short blocks on hosts of several ranks: a message to each host")                            \
    X(REDUCE_SCATTER, ring, reduce_scatter_ring, true, false, false,                               \
      "long vectors: neighbours only")                                                             \
    X(REDUCE_SCATTER, halving, reduce_scatter_halving, false, false, false,                        \
      "short vectors: log2 n rounds")                                                              \
    X(REDUCE_SCATTER, twolevel, reduce_scatter_twolevel, false, false, false,                      \
      "short vectors on hosts of several ranks: one leads each")                                   \
    X(REDUCE_SCATTER, twolevel_ring, reduce_scatter_twolevel_ring, true, false, false,             \
      "long vectors on such hosts: a ring of hosts for each leader")                               \
    X(ALLTOALL, pairwise, alltoall_pairwise, false, false, false,                                  \
      "each block travels once, straight")                                                         \
    X(ALLTOALL, bruck, alltoall_bruck, false, false, false, "tiny blocks: log2 n rounds")          \
    X(ALLTOALL, twolevel, alltoall_twolevel, false, false, false,                                  \
      "short blocks on hosts of several ranks: packed for each host")                              \
    X(ALLTOALL, star, alltoall_star, false, false, false,                                          \
      "short blocks on few ranks that share cores: the least messages")                            \
    X(SCAN, hillis_steele, scan_hillis_steele, false, false, true, "short vectors: log2 n rounds") \
    X(SCAN, chain, scan_chain, true, false, false, "long vectors: one stream through all ranks")   \
    X(EXSCAN, hillis_steele, scan_hillis_steele, false, false, false,                              \
      "short vectors: log2 n rounds")                                                              \
    X(EXSCAN, chain, scan_chain, true, false, false, "long vectors: one stream through all ranks") \
    X(ALLGATHERV, ring, allgather_ring, true, false, false, "long blocks: neighbours only")        \
    X(ALLGATHERV, bruck, allgather_bruck, false, false, false,                                     \
      "short blocks: ceil(log2 n) rounds for any n")                                               \
    X(GATHERV, direct, gather_direct, false, false, true, "only the root knows the counts")        \
    X(SCATTERV, direct, scatter_direct, false, false, true, "only the root knows the counts")      \
    X(REDUCE_SCATTERV, ring, reduce_scatter_ring, true, false, false,                              \
      "long vectors: neighbours only")                                                             \
    X(REDUCE_SCATTERV, halving, reduce_scatter_halving, false, false, false,                       \
      "short vectors: log2 n rounds")                                                              \
    X(ALLTOALLV, pairwise, alltoall_pairwise, false, false, true,                                  \
      "each block travels once, straight")

#define X(KIND, NAME, FN, CUT, HOOK, HEARS, HELP)     \
    nexar_err nx_##FN(nx_sched *s, const nx_coll *c); \
    void nx_##FN##_forecast(const nx_coll *c, size_t segment, nx_forecast *f);
NX_ALGORITHM_LIST(X)
#undef X

/* Adds the steps of a dissemination barrier, from round |round| on. */
void nx_disseminate(nx_sched *s, const nx_coll *c, uint32_t round);

/* The last steps of a schedule with a hook, from round |round| on. No rank completes before the
 * hooks of all ranks have returned, so a hook's error is returned on every rank. |call| is this
 * rank's hook step. Adds nothing where every rank has a shard, since the other ranks wait for its
 * content. */
void nx_await_hooks(nx_sched *s, const nx_coll *c, nx_step_id call, uint32_t round);

/* The last steps of an nx_coll_private schedule that must hear from all ranks, from round |round|
 * on. No rank completes before all have received their messages with the expected lengths. Adds
 * nothing to other schedules. */
void nx_await_blocks(nx_sched *s, const nx_coll *c, uint32_t round);

typedef struct nx_algorithm {
    nx_coll_kind kind;
    const char *name;
    nx_builder build;
    nx_forecaster forecast;
    bool cut;   /* uses segments; the other algorithms are built with segment 0 */
    bool hook;  /* rank r holds shard r between the phases: nx_coll.hook is legal */
    bool hears; /* nx_coll.heard is legal: needs no additional messages */
    const char *help;
} nx_algorithm;

/* All rows, grouped by collective; |*n| is their number. */
const nx_algorithm *nx_algorithms(size_t *n);
/* The row of |kind| with name |name|, or NULL. */
const nx_algorithm *nx_algorithm_find(nx_coll_kind kind, const char *name);

#endif /* NX_ALGORITHMS_H */
