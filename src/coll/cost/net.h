/*
 * net.h - the network as the cost model sees it: its numbers, which rank is on
 * which host, and what a round of messages asks of it.
 */
#ifndef NX_NET_H
#define NX_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coll/building_blocks/fold.h"
#include "coll/hosts.h"

/*
 * Ranks are placed on hosts in blocks as even as it goes: nx_net_host().  Times
 * in seconds, rates in bytes per second.
 */
typedef struct nx_net {
    uint32_t ranks, hosts; /* 1 <= hosts <= ranks */
    size_t elem_size;
    double latency, bandwidth;             /* between hosts; bandwidth per host and direction */
    double local_latency, local_bandwidth; /* inside a host; per rank and direction */
    double message_cpu, local_cpu;         /* per message and end: between hosts, inside one */
    double reduce_bandwidth;               /* bytes of input combined, or copied, per second */
} nx_net;

/* The host of |rank|: the first hosts have one rank more where it does not
 * divide. */
uint32_t nx_net_host(const nx_net *net, uint32_t rank);

/* The map of its ranks; |*out| is NULL where each has a host of its own, and is given
 * back with nx_hosts_destroy() otherwise.  NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_net_hosts(const nx_net *net, nx_hosts **out);

/* The most ranks that one host has. */
uint32_t nx_net_per_host(const nx_net *net);

/* ---- what a round asks of the network ------------------------------------ */

typedef struct nx_load {
    uint32_t out; /* messages that leave the host which most of them leave */
    bool local;   /* some stay inside their host */
} nx_load;

/* Every rank sends to the one |distance| further, around the end. */
nx_load nx_load_shift(const nx_net *net, uint32_t distance);

/* Every place of |fold| exchanges with the one that differs in |mask|; place 0
 * is rank |first|. */
nx_load nx_load_exchange(const nx_net *net, nx_fold fold, uint32_t first, uint32_t mask);

/* The guests of |fold| send to their hosts, or the reverse. */
nx_load nx_load_guests(const nx_net *net, nx_fold fold, uint32_t first);

/* Every place of a binomial tree at |root| that has a child |far| further sends
 * to it, or the reverse. */
nx_load nx_load_tree(const nx_net *net, uint32_t root, uint32_t far);

/* How often one goes from host to host in |hops| steps from rank to rank,
 * around the end: from |first|, or from where it is most often. */
uint32_t nx_net_borders(const nx_net *net, uint32_t first, uint32_t hops);
uint32_t nx_net_most_borders(const nx_net *net, uint32_t hops);

#endif /* NX_NET_H */
