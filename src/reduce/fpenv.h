/*
 * fpenv.h - the floating-point environment of the kernels.
 *
 * An application may run with subnormals flushed to zero (gcc -ffast-math enables that at
 * start-up), another rounding mode, or traps. Ranks that differ in this would compute different
 * bits, and a progress thread must not trap on its user's NaN. So calls that compute set the
 * default environment and restore the thread's; usually both only read it.
 */
#ifndef NX_FPENV_H
#define NX_FPENV_H

#include <stdint.h>

#if defined(__x86_64__)

#include <xmmintrin.h>

enum {
    NX_MXCSR_CONTROL = 0xffc0, /* all but the sticky flags */
    NX_MXCSR_DEFAULT = 0x1f80, /* nearest even, subnormals kept, nothing traps */
};

static inline uint64_t nx_fpenv_enter(void)
{
    const unsigned saved = _mm_getcsr();

    if ((saved & NX_MXCSR_CONTROL) != NX_MXCSR_DEFAULT) {
        _mm_setcsr(NX_MXCSR_DEFAULT);
    }
    return saved;
}

static inline void nx_fpenv_leave(uint64_t saved)
{
    if ((saved & NX_MXCSR_CONTROL) != NX_MXCSR_DEFAULT) {
        _mm_setcsr((unsigned)saved);
    }
}

#elif defined(__aarch64__)

static inline void nx_fpcr_write(uint64_t value)
{
    __asm__ volatile("msr fpcr, %0" : : "r"(value) : "memory");
}

static inline uint64_t nx_fpenv_enter(void)
{
    uint64_t saved;

    __asm__ volatile("mrs %0, fpcr" : "=r"(saved));
    if (saved != 0) {
        nx_fpcr_write(0);
    }
    return saved;
}

static inline void nx_fpenv_leave(uint64_t saved)
{
    if (saved != 0) {
        nx_fpcr_write(saved);
    }
}

#else

#include <fenv.h>

/* C has no name for flush to zero: only the rounding mode is set here. */
static inline uint64_t nx_fpenv_enter(void)
{
    const int saved = fegetround();

    if (saved != FE_TONEAREST) {
        (void)fesetround(FE_TONEAREST);
    }
    return (uint64_t)(unsigned)saved;
}

static inline void nx_fpenv_leave(uint64_t saved)
{
    if ((int)saved != FE_TONEAREST) {
        (void)fesetround((int)saved);
    }
}

#endif

#endif /* NX_FPENV_H */
