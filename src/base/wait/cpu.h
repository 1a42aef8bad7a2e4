/*
 * cpu.h - the pause instruction, and CPU affinity: on which core a thread runs, how it goes to
 * another one.
 */
#ifndef NX_CPU_H
#define NX_CPU_H

#include <stdbool.h>
#include <stdint.h>

/* Tells the core that the thread polls memory. */
static inline void nx_cpu_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}

/* The core of the calling thread, at this moment. */
uint32_t nx_cpu_current(void);

/* Of the cores that the calling thread may use, without |here|: the one for which |load| is
 * least; |here| if there is no other. */
uint32_t nx_cpu_least_loaded(uint32_t here, unsigned (*load)(const void *ctx, uint32_t core),
                             const void *ctx);

/* Brings the calling thread to |core|.  It may use the same cores as before, so that the scheduler
 * may move it again.  False: it may not use |core|. */
bool nx_cpu_migrate(uint32_t core);

/* The calling thread uses all cores of the machine but |core| from now on, also those that its
 * process was not bound to.  False: there is none, or a cpuset forbids it. */
bool nx_cpu_avoid(uint32_t core);

/* The core of the first thread of process |pid|, if it runs or is ready to run.  False: it sleeps,
 * has ended, or cannot be seen from here. */
bool nx_cpu_of(long pid, uint32_t *core);

#endif /* NX_CPU_H */
