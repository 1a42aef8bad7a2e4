/*
 * net.h - the network of the cost model: its parameters, the map of ranks to hosts, and the load of
 * a round of messages.
 */
#ifndef NX_NET_H
#define NX_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coll/building_blocks/fold.h"
#include "coll/hosts.h"

/*
 * Ranks are placed on hosts in blocks as even as possible: nx_net_host(). Times in seconds, rates
 * in bytes per second.
 */
typedef struct nx_net {
    uint32_t ranks, hosts; /* 1 <= hosts <= ranks */
    size_t elem_size;
    double latency, bandwidth;             /* between hosts; bandwidth per host and direction */
    double local_latency, local_bandwidth; /* inside a host; per rank and direction */
    double message_cpu, local_cpu;         /* per message and end: between hosts, inside one */
    double reduce_bandwidth;               /* bytes of input combined, or copied, per second */
} nx_net;

/* The host of |rank|: the first hosts have one rank more if the division has a remainder. */
uint32_t nx_net_host(const nx_net *net, uint32_t rank);

/* The host map of its ranks. |*out| is NULL if each rank has its own host; otherwise free it with
 * nx_hosts_destroy().  NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_net_hosts(const nx_net *net, nx_hosts **out);

/* The largest number of ranks on one host. */
uint32_t nx_net_per_host(const nx_net *net);

/* ---- load of a round on the network -------------------------------------------------- */

typedef struct nx_load {
    uint32_t out; /* messages that leave the most loaded host */
    bool local;   /* some stay inside their host */
} nx_load;

/* Every rank sends to the rank at |distance|, modulo the size. */
nx_load nx_load_shift(const nx_net *net, uint32_t distance);

/* Every position of |fold| exchanges with its partner at |mask|; place 0 is rank |first|. */
nx_load nx_load_exchange(const nx_net *net, nx_fold fold, uint32_t first, uint32_t mask);

/* The guests of |fold| send to their hosts, or the reverse. */
nx_load nx_load_guests(const nx_net *net, nx_fold fold, uint32_t first);

/* Every position of a binomial tree at |root| sends to its child at distance |far|, or the
 * reverse. */
nx_load nx_load_tree(const nx_net *net, uint32_t root, uint32_t far);

/* The number of host boundaries on |hops| steps from rank to rank, modulo the size: from |first|,
 * or from the worst start. */
uint32_t nx_net_borders(const nx_net *net, uint32_t first, uint32_t hops);
uint32_t nx_net_most_borders(const nx_net *net, uint32_t hops);

#endif /* NX_NET_H */
