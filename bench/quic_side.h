/* quic_side.h - two processes with a quic link between them, and its performance: for
 * quic_bench.c. */
#ifndef NXB_QUIC_SIDE_H
#define NXB_QUIC_SIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "quic_limits.h"

enum { NXB_MIB = 1 << 20, NXB_LARGE = 64 * NXB_MIB };

typedef struct nxb_side nxb_side;

/* This process is on host 0, a child |*child| on host 1. Call it once per process. */
nxb_side *nxb_connect(const nxb_host hosts[2], pid_t *child);
/* Bytes of a datagram that the path carries, as far as that is known. */
size_t nxb_datagram(nxb_side *b);

/* GB/s of |total| bytes in one direction, in parts of |size|; with |both| in each direction. */
double nxb_bandwidth(nxb_side *b, size_t size, uint64_t total, bool both);
/* Microseconds of a round trip of 8 bytes, the median. */
double nxb_round_trip(nxb_side *b, double seconds);
/* Messages of 64 bytes a second, one way: two bursts are in flight at any time. */
double nxb_message_rate(nxb_side *b, double seconds);

#endif /* NXB_QUIC_SIDE_H */
