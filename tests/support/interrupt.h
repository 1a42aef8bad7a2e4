/*
 * interrupt.h - disturbs the system calls of its process: signals, EINTR, EAGAIN, short counts.
 *
 * A program that links interrupt.c has it. These environment variables enable it:
 *
 *     NXT_SIGNALS=N       SIGALRM N times per second.  The handler alternates between SA_RESTART
 *                         and none.
 *     NXT_CALLS=N         one call in N fails with EINTR, if the kernel may do so; other calls get
 * EAGAIN (network sockets, accept4), or transfer fewer bytes, messages or events than possible
 *     NXT_CALLS_SEED=S    which calls. Without it the seed is random and is printed
 *
 * Calls from inside libc are not disturbed.
 */
#ifndef NXT_INTERRUPT_H
#define NXT_INTERRUPT_H

#include <stdint.h>

/* The same for a process that enables it itself; |n| is NXT_CALLS, |first| the seed. */
void nxt_interrupt_signals(unsigned per_second);
void nxt_interrupt_calls(unsigned n, uint64_t first);

/* The number of signals, and of disturbed calls, in this process. */
unsigned long nxt_interrupt_count(void);

#endif /* NXT_INTERRUPT_H */
