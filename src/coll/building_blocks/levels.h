/*
 * levels.h - two levels: the ranks of each host among themselves, and one or several
 * of each host, its *leaders*, between the hosts.
 *
 * A pair of ranks is either of one host or of two, so the rounds of the two levels
 * never meet.
 */
#ifndef NX_LEVELS_H
#define NX_LEVELS_H

#include "coll/coll.h"
#include "coll/cost/pace.h"

typedef struct nx_levels {
    const nx_hosts *hosts;
    uint32_t n;     /* hosts */
    uint32_t host;  /* ours, */
    uint32_t place; /* our number there, from 0, */
    uint32_t count; /* how many there are, */
    uint32_t lead;  /* and which of them leads where one alone does */
    uint32_t root;  /* the host of the root */
    nx_team inside; /* all of our host */
    nx_team across; /* the leaders, where one of each host does */
} nx_levels;

/* The first rank of a host leads it, but the root leads its own. */
nx_levels nx_levels_make(const nx_coll *c);

/* The rank that is number |place| on our host, and its leader. */
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

/* The |i|-th of the others on our host, 0 < i < count: up from us, or down. */
static inline uint32_t nx_levels_up(const nx_levels *v, uint32_t i)
{
    return (v->place + i) % v->count;
}
static inline uint32_t nx_levels_down(const nx_levels *v, uint32_t i)
{
    return (v->place + v->count - i) % v->count;
}

/* The collective |sub| by |build| between the leaders, of which we are one, or inside
 * our host; rank, size, root and team are filled in here. */
void nx_levels_across(nx_sched *s, const nx_levels *v, nx_builder build, nx_coll sub,
                      nx_sched_frame frame);
void nx_levels_inside(nx_sched *s, const nx_levels *v, nx_builder build, nx_coll sub,
                      nx_sched_frame frame);

/* The same between those that have our number on their hosts: every host has one. */
void nx_levels_among(nx_sched *s, const nx_levels *v, nx_builder build, nx_coll sub,
                     nx_sched_frame frame);

/* Brings the sum of |in| over our host to the leader in round |round|, by way of |sum|,
 * which is its alone.  Returns where it is: |in| where nobody else is there. */
nx_ref nx_levels_reduce(nx_sched *s, const nx_levels *v, uint32_t round, nx_ref in, nx_ref sum,
                        size_t len);

/* Blocks of |each| elements, one for each rank, as one block for each host: of a vector
 * in the order of hosts. */
nx_split nx_levels_blocks(const nx_levels *v, size_t each);

/* Copies such a vector |from| in the order of hosts |to| the order of ranks, or back. */
void nx_levels_to_ranks(nx_sched *s, const nx_levels *v, nx_ref to, nx_ref from, size_t each);
void nx_levels_to_hosts(nx_sched *s, const nx_levels *v, nx_ref to, nx_ref from, size_t each);

/* ---- what they cost --------------------------------------------------------- */

/* The network as |leaders| ranks of each host see it, who share their wires, and as
 * the ranks of the largest host see it. */
nx_net nx_net_across(const nx_net *net, uint32_t leaders);
nx_net nx_net_inside(const nx_net *net);

/* One rank of a host gets |len| elements from each of the others and combines them with
 * its own if |work| is set; the reverse takes as long. */
double nx_net_collect(const nx_net *net, uint64_t len, bool work);

#endif /* NX_LEVELS_H */
