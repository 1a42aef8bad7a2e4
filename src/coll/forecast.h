/*
 * forecast.h - what an algorithm costs, by its closed form.
 *
 * Beside each builder stands a function that says the same thing without
 * building: which rounds the busiest rank goes through, how far apart the two
 * ranks of a round are, how much it sends.  Tests hold it against the exact
 * count of the built schedules for every size where both exist; beyond that the
 * cost model trusts it.
 */
#ifndef NX_FORECAST_H
#define NX_FORECAST_H

#include <stdint.h>

#include "coll/coll.h"

/*
 * The network as the model sees it.  Ranks are placed on hosts in blocks: rank r
 * is on host r / (ranks / hosts), rounded up.  Times in seconds, rates in bytes
 * per second.
 */
typedef struct nx_net {
    uint32_t ranks, hosts;
    size_t elem_size;
    double latency, bandwidth;             /* between hosts; bandwidth per host and direction */
    double local_latency, local_bandwidth; /* inside a host, per pair */
    double message_cpu;                    /* per message, at each end */
    double reduce_bandwidth;               /* bytes of input combined per second */
} nx_net;

typedef struct nx_forecast {
    const nx_net *net;

    /* Of the busiest rank, each by itself. */
    uint64_t rounds;   /* the longest chain of messages that wait for one another */
    uint64_t messages; /* sent */
    uint64_t sent;     /* elements */
    double time_s;
} nx_forecast;

typedef void (*nx_forecaster)(const nx_coll *c, size_t segment, nx_forecast *f);

/* How many segments a transfer of |len| elements is cut in; at least 1. */
uint64_t nx_segments(size_t len, size_t segment);

/* The time of one message of |len| elements to the rank |distance| further when
 * all ranks do the same: of a host's ranks min(distance, ranks per host) share
 * the wire. */
double nx_net_hop(const nx_net *net, uint32_t distance, uint64_t len);

/* The time to combine |len| elements. */
double nx_net_reduce(const nx_net *net, uint64_t len);

#endif /* NX_FORECAST_H */
