/*
 * hosts.h - which ranks of a communicator share a host, and teams of them.
 *
 * Hosts are numbered by their first rank: rank 0 is on host 0, the first rank on another host is on
 * host 1, and so on.  The ranks of a host are counted in their order, from 0.  Every rank has the
 * same map, so builders may use it as they use the size. Any distribution is legal: hosts of
 * unequal sizes, ranks assigned round-robin.
 *
 * A map argument of NULL means that each rank has its own host.
 */
#ifndef NX_HOSTS_H
#define NX_HOSTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

typedef struct nx_hosts {
    uint32_t ranks, n;     /* n hosts */
    uint32_t least, most;  /* fewest and most ranks of a host */
    bool in_order;         /* the ranks of each host are consecutive */
    const uint32_t *of;    /* host, by rank */
    const uint32_t *place; /* position on its host, by rank */
    const uint32_t *order; /* all ranks, by host ... */
    const uint32_t *first; /* ... host h has those from first[h] to first[h + 1] */
    uint32_t tables[];     /* these four */
} nx_hosts;

/*
 * Makes the map of |ranks| > 0 ranks; ranks with equal |labels| share a host, and labels are less
 * than |ranks|. Linear time. Free it with nx_hosts_destroy().  NEXAR_ENOMEM.
 */
NX_MUST_CHECK nexar_err nx_hosts_create(nx_hosts **out, const uint32_t *labels, uint32_t ranks);
void nx_hosts_destroy(nx_hosts *hosts);

static inline uint32_t nx_hosts_n(const nx_hosts *hosts, uint32_t ranks)
{
    return (hosts == NULL) ? ranks : hosts->n;
}

static inline uint32_t nx_hosts_of(const nx_hosts *hosts, uint32_t rank)
{
    return (hosts == NULL) ? rank : hosts->of[rank];
}

static inline uint32_t nx_hosts_place(const nx_hosts *hosts, uint32_t rank)
{
    return (hosts == NULL) ? 0 : hosts->place[rank];
}

/* The number of ranks of |host|. */
static inline uint32_t nx_hosts_count(const nx_hosts *hosts, uint32_t host)
{
    return (hosts == NULL) ? 1 : hosts->first[host + 1] - hosts->first[host];
}

/* The number of ranks on the hosts before |host|. */
static inline uint32_t nx_hosts_before(const nx_hosts *hosts, uint32_t host)
{
    return (hosts == NULL) ? host : hosts->first[host];
}

/* The rank at position |place| of |host|. */
static inline uint32_t nx_hosts_rank(const nx_hosts *hosts, uint32_t host, uint32_t place)
{
    return (hosts == NULL) ? host : hosts->order[hosts->first[host] + place];
}

/* The |i|-th of all ranks, by host. */
static inline uint32_t nx_hosts_order(const nx_hosts *hosts, uint32_t i)
{
    return (hosts == NULL) ? i : hosts->order[i];
}

static inline bool nx_hosts_in_order(const nx_hosts *hosts)
{
    return (hosts == NULL) || hosts->in_order;
}

/* Whether all hosts have the same number of ranks. */
static inline bool nx_hosts_equal(const nx_hosts *hosts)
{
    return (hosts == NULL) || (hosts->least == hosts->most);
}

/* The smallest number of ranks of a host. */
static inline uint32_t nx_hosts_least(const nx_hosts *hosts)
{
    return (hosts == NULL) ? 1 : hosts->least;
}

/* ---- teams --------------------------------------------------------------------------- */

/*
 * A subset of ranks that runs a collective, numbered from 0: all ranks of one host, or one rank of
 * each host. |chief| replaces the usual rank of its host.
 */
typedef struct nx_team {
    const nx_hosts *hosts;
    bool across;    /* one rank of each host, at position |which| ... */
    uint32_t which; /* ... or all ranks of this host */
    uint32_t chief_host, chief;
} nx_team;
#define NX_NO_HOST UINT32_MAX

static inline uint32_t nx_team_rank(const nx_team *team, uint32_t i)
{
    if (!team->across) {
        return nx_hosts_rank(team->hosts, team->which, i);
    }
    return (i == team->chief_host) ? team->chief : nx_hosts_rank(team->hosts, i, team->which);
}

#endif /* NX_HOSTS_H */
