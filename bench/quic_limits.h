/* quic_limits.h - what this machine allows at best, for quic_bench.c to compare with. */
#ifndef NXB_QUIC_LIMITS_H
#define NXB_QUIC_LIMITS_H

#include <stddef.h>
#include <sys/types.h>

double nxb_now_s(void);
void nxb_pin_to(size_t cpu);
/* Sorts |v|. */
double nxb_median(double *v, size_t n);
/* fork(); the child is on core 1 and dies with its parent. */
pid_t nxb_fork_on_other_core(void);

/* Microseconds of a round trip of 8 bytes by UDP between two cores, spinning. */
double nxb_raw_round_trip(double seconds);
/* GB/s of encrypting (AES-128-GCM, GnuTLS), sending, receiving and decrypting
 * datagrams of 61440 bytes. */
double nxb_ceiling(double seconds);

#endif /* NXB_QUIC_LIMITS_H */
