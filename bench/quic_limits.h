/* quic_limits.h - what this machine allows at best, for quic_bench.c to compare with. */
#ifndef NXB_QUIC_LIMITS_H
#define NXB_QUIC_LIMITS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Where one of the two processes is. */
typedef struct nxb_host {
    int netns; /* descriptor of its network namespace; -1: as it is */
    struct in_addr address;
} nxb_host;

/* The calling process is there from now on. */
void nxb_enter(const nxb_host *host);

double nxb_now_s(void);
void nxb_pin_to(size_t cpu);
/* Sorts |v|. */
double nxb_median(double *v, size_t n);
/* fork(); the child is on core 1 and dies with its parent. */
pid_t nxb_fork_on_other_core(void);

/* Microseconds of a round trip of 8 bytes by UDP between two cores, spinning. */
double nxb_raw_round_trip(const nxb_host hosts[2], double seconds);
/* GB/s of encrypting (AES-128-GCM, GnuTLS), sending, receiving and decrypting
 * datagrams of |datagram| bytes, as many in a system call (GSO, GRO) as fit; one way,
 * or |both| at once: each. */
double nxb_ceiling(const nxb_host hosts[2], size_t datagram, bool both, double seconds);

#endif /* NXB_QUIC_LIMITS_H */
