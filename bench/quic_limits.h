/* quic_limits.h - the limits of this machine, which quic_bench.c compares with. */
#ifndef NXB_QUIC_LIMITS_H
#define NXB_QUIC_LIMITS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* The location of one of the two processes. */
typedef struct nxb_host {
    int netns; /* descriptor of its network namespace; -1: the current one */
    struct in_addr address;
} nxb_host;

/* Moves the calling process to |host|. */
void nxb_enter(const nxb_host *host);

double nxb_now_s(void);
void nxb_pin_to(size_t cpu);
/* Sorts |v|. */
double nxb_median(double *v, size_t n);
/* fork(); the child is on core 1 and dies with its parent. */
pid_t nxb_fork_on_other_core(void);

/* Microseconds of a round trip of 8 bytes by UDP between two cores, spinning. */
double nxb_raw_round_trip(const nxb_host hosts[2], double seconds);
/* GB/s of encrypting (AES-128-GCM, GnuTLS), sending, receiving and decrypting datagrams of
 * |datagram| bytes, as many per system call (GSO, GRO) as fit. One direction, or with |both| each
 * of two directions at once. */
double nxb_ceiling(const nxb_host hosts[2], size_t datagram, bool both, double seconds);

#endif /* NXB_QUIC_LIMITS_H */
