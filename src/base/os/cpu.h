/*
 * cpu.h - on which core a thread is, and how it leaves one to another.
 *
 * Those who poll in turns on one core are not parted by the scheduler for a long time:
 * none of them sleeps.  They know of each other, and one goes.
 */
#ifndef NX_CPU_H
#define NX_CPU_H

#include <stdbool.h>
#include <stdint.h>

/* The core of the calling thread, at this moment. */
uint32_t nx_cpu_here(void);

/* Of the cores that the calling thread may use, but for |here|: the one for which |load|
 * has least; |here| if there is no other. */
uint32_t nx_cpu_least(uint32_t here, unsigned (*load)(const void *ctx, uint32_t core),
                      const void *ctx);

/* Brings it to |core|, where it stays as long as the scheduler likes: it may use the same
 * cores as before.  Whether it has. */
bool nx_cpu_go(uint32_t core);

/* The core of the first thread of process |pid|, if it runs or would like to.  False: it
 * sleeps, it is gone, or cannot be seen from here. */
bool nx_cpu_of(long pid, uint32_t *core);

#endif /* NX_CPU_H */
