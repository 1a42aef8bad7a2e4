/*
 * interrupt.h - disturbs the system calls of its process: signals, EINTR, EAGAIN, short counts.
 *
 * A program has it by linking interrupt.c.  Then these variables of the environment switch it on:
 *
 *     NXT_SIGNALS=N       N times SIGALRM per second.  The handler alternates between SA_RESTART
 *                         and none.
 *     NXT_CALLS=N         one call in N fails with EINTR, as far as the kernel may do so; other
 *                         calls get EAGAIN (sockets of the network, accept4), or move fewer bytes,
 *                         messages or events than they could
 *     NXT_CALLS_SEED=S    which calls.  Without it the seed is a random one, and is printed
 *
 * Calls that libc makes itself are not disturbed.
 */
#ifndef NXT_INTERRUPT_H
#define NXT_INTERRUPT_H

#include <stdint.h>

/* The same for a process that decides it itself; |n| as NXT_CALLS, |first| the seed. */
void nxt_interrupt_signals(unsigned per_second);
void nxt_interrupt_calls(unsigned n, uint64_t first);

/* How many signals came, and how many calls were disturbed, in this process. */
unsigned long nxt_interrupt_count(void);

#endif /* NXT_INTERRUPT_H */
