/*
 * cpu.h - the pause instruction, and CPU affinity: the core that a thread runs on, and its
 * migration to another core.
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

/* The core with the least |load| among the cores that the calling thread may use, except |here|;
 * |here| if there is no other core. */
uint32_t nx_cpu_least_loaded(uint32_t here, unsigned (*load)(const void *ctx, uint32_t core),
                             const void *ctx);

/* Migrates the calling thread to |core|. Its affinity mask is unchanged afterwards, so the
 * scheduler may move the thread again. False: the thread may not use |core|. */
bool nx_cpu_migrate(uint32_t core);

/* Lets the calling thread use all cores of the machine except |core|, also cores outside the
 * affinity mask of its process. False: there is no other core, or a cpuset forbids it. */
bool nx_cpu_avoid(uint32_t core);

/* The core of the first thread of process |pid|, if that thread runs or is ready to run. False:
 * the thread sleeps, has exited, or is not visible here. */
bool nx_cpu_of(long pid, uint32_t *core);

#endif /* NX_CPU_H */
