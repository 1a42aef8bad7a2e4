/*
 * levels.h - two levels: the ranks of each host, and one or several *leaders* of each host between
 * the hosts.
 *
 * A pair of ranks is either on one host or on two, so rounds of the two levels never collide.
 */
#ifndef NX_LEVELS_H
#define NX_LEVELS_H

#include "coll/coll.h"
#include "coll/cost/pace.h"

typedef struct nx_levels {
    const nx_hosts *hosts;
    uint32_t n;     /* hosts */
    uint32_t host;  /* this host, */
    uint32_t place; /* position of this rank on its host, from 0 */
    uint32_t count; /* number of ranks there */
    uint32_t lead;  /* position of the leader, if one rank leads */
    uint32_t root;  /* the host of the root */
    nx_team inside; /* all ranks of this host */
    nx_team across; /* the leaders, if one rank of each host leads */
} nx_levels;

/* The first rank of a host leads it, but the root leads its own. */
nx_levels nx_levels_make(const nx_coll *c);

/* The rank at position |place| of this host, and its leader. */
static inline uint32_t nx_levels_rank(const nx_levels *v, uint32_t place)
{
    return nx_hosts_rank(v->hosts, v->host, place);
}
static inline uint32_t nx_levels_leader(const nx_levels *v)
{
    return nx_levels_rank(v, v->lead);
}
static inline bool nx_levels_leads(const nx_levels *v)
{
    return v->place == v->lead;
}

/* The |i|-th other rank of this host, 0 < i < count, counting up or down from this rank. */
static inline uint32_t nx_levels_up(const nx_levels *v, uint32_t i)
{
    return (v->place + i) % v->count;
}
static inline uint32_t nx_levels_down(const nx_levels *v, uint32_t i)
{
    return (v->place + v->count - i) % v->count;
}

/* Adds the collective |sub| by |build| among the leaders (this rank is one), or inside this host.
 * Sets rank, size, root and team of |sub|. */
void nx_levels_across(nx_sched *s, const nx_levels *v, nx_builder build, nx_coll sub,
                      nx_sched_frame frame);
void nx_levels_inside(nx_sched *s, const nx_levels *v, nx_builder build, nx_coll sub,
                      nx_sched_frame frame);

/* The same among the ranks at this rank's position on every host. */
void nx_levels_among(nx_sched *s, const nx_levels *v, nx_builder build, nx_coll sub,
                     nx_sched_frame frame);

/* Reduces |in| over this host to the leader in round |round|, through |sum|, the leader's scratch.
 * Returns where the sum is: |in| if the host has one rank. */
nx_ref nx_levels_reduce(nx_sched *s, const nx_levels *v, uint32_t round, nx_ref in, nx_ref sum,
                        size_t len);

/* Blocks of |each| elements per rank, as one block per host, of a vector in order of hosts. */
nx_split nx_levels_blocks(const nx_levels *v, size_t each);

/* Copies such a vector |from| the order of hosts |to| the order of ranks, or back. */
void nx_levels_to_ranks(nx_sched *s, const nx_levels *v, nx_ref to, nx_ref from, size_t each);
void nx_levels_to_hosts(nx_sched *s, const nx_levels *v, nx_ref to, nx_ref from, size_t each);

/* ---- costs --------------------------------------------------------------------------- */

/* The network as seen by |leaders| ranks per host, which share its links, and as seen by the ranks
 * of the largest host. */
nx_net nx_net_across(const nx_net *net, uint32_t leaders);
nx_net nx_net_inside(const nx_net *net);

/* Time for one rank of a host to receive |len| elements from each other rank and, if |work|, to
 * reduce them. The reverse takes as long. */
double nx_net_collect(const nx_net *net, uint64_t len, bool work);

#endif /* NX_LEVELS_H */
