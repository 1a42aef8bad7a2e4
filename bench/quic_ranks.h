/*
 * quic_ranks.h - the figures of quic_bench.c between two ranks, by the public interface.
 */
#ifndef NXB_QUIC_RANKS_H
#define NXB_QUIC_RANKS_H

#include <nexar.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Joins the world of two that `nexar run -n 2` has started, on the core of its rank. Rank 1
 * executes the orders of rank 0 until nxb_ranks_end, and does not return. */
nexar_comm *nxb_ranks_join(void);
/* Rank 0: ends both. */
void nxb_ranks_end(nexar_comm *world);

/* GB/s, in messages of |part| bytes, |total| in all; one direction, or each of both at once. */
double nxb_ranks_bandwidth(nexar_comm *world, size_t part, uint64_t total, bool both);
/* Microseconds of a round trip of 8 bytes. */
double nxb_ranks_round_trip(nexar_comm *world, double seconds);
/* Messages of 64 bytes in a second, one way. */
double nxb_ranks_message_rate(nexar_comm *world, double seconds);

#endif /* NXB_QUIC_RANKS_H */
