/* reduce.c - the entry points, and the choice of the path on this machine. */
#include <assert.h>
#include <stdatomic.h>

#include "reduce/fpenv.h"
#include "reduce/kernels.h"
#include "reduce/user_op.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

/* ---- paths --------------------------------------------------------------------------- */

static const struct path_info {
    const char *name;
    const nx_kernels *kernels; /* NULL: not in this build */
} paths[NX_REDUCE_PATHS] = {
    [NX_REDUCE_PORTABLE] = {"portable", &nx_kernels_portable},
#if defined(__x86_64__)
    [NX_REDUCE_AVX2] = {"avx2", &nx_kernels_avx2},
    [NX_REDUCE_AVX512] = {"avx512", &nx_kernels_avx512},
#else
    [NX_REDUCE_AVX2] = {"avx2", NULL},
    [NX_REDUCE_AVX512] = {"avx512", NULL},
#endif
#if defined(__aarch64__)
    [NX_REDUCE_NEON] = {"neon", &nx_kernels_neon},
#else
    [NX_REDUCE_NEON] = {"neon", NULL},
#endif
};

#if defined(__x86_64__)
/* __builtin_cpu_supports also checks that the system saves the registers. clang 14 does not
 * accept "f16c" there; F16C needs the same registers as AVX. */
static bool cpu_has_f16c(void)
{
    unsigned eax, ebx, ecx, edx;

    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

static bool cpu_runs(nx_reduce_path path)
{
    const bool avx2 = __builtin_cpu_supports("avx2") && cpu_has_f16c();

    if (path == NX_REDUCE_AVX512) {
        return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
    }
    return path == NX_REDUCE_AVX2 ? avx2 : true;
}
#else
/* NEON is part of every aarch64. */
static bool cpu_runs(nx_reduce_path path)
{
    (void)path;
    return true;
}
#endif

const char *nx_reduce_path_name(nx_reduce_path path)
{
    return (unsigned)path < NX_REDUCE_PATHS ? paths[path].name : "?";
}

bool nx_reduce_path_usable(nx_reduce_path path)
{
    return (unsigned)path < NX_REDUCE_PATHS && paths[path].kernels != NULL && cpu_runs(path);
}

nx_reduce_path nx_reduce_path_best(void)
{
    static const nx_reduce_path fastest_first[] = {NX_REDUCE_AVX512, NX_REDUCE_AVX2,
                                                   NX_REDUCE_NEON};

    for (size_t i = 0; i < sizeof fastest_first / sizeof fastest_first[0]; i++) {
        if (nx_reduce_path_usable(fastest_first[i])) {
            return fastest_first[i];
        }
    }
    return NX_REDUCE_PORTABLE;
}

/* Threads that race on first use choose the same path, so no ordering is needed. */
static atomic_int chosen = -1;

nx_reduce_path nx_reduce_path_now(void)
{
    int path = atomic_load_explicit(&chosen, memory_order_relaxed);

    if (path < 0) {
        path = (int)nx_reduce_path_best();
        atomic_store_explicit(&chosen, path, memory_order_relaxed);
    }
    return (nx_reduce_path)path;
}

void nx_reduce_path_set(nx_reduce_path path)
{
    assert(nx_reduce_path_usable(path));
    atomic_store_explicit(&chosen, (int)path, memory_order_relaxed);
}

/* ---- entry points -------------------------------------------------------------------- */

void nx_reduce(void *out, const void *a, const void *b, size_t count, nexar_dtype dtype,
               nexar_op op)
{
    assert(nx_reduce_legal(dtype, op));
    if (count == 0) {
        return;
    }
    if (nx_op_is_user(op)) {
        nx_user_op_apply(out, a, b, count, dtype, op);
        return;
    }
    nx_combine_kernel *combine = paths[nx_reduce_path_now()].kernels->combine[dtype][op];
    const uint64_t saved = nx_fpenv_enter();

    combine(out, a, b, count * nexar_dtype_size(dtype));
    nx_fpenv_leave(saved);
}

void nx_reduce_divide(void *buf, size_t count, nexar_dtype dtype, uint32_t divisor)
{
    assert(nx_reduce_legal(dtype, NEXAR_AVG) && divisor > 0);
    if (count == 0) {
        return;
    }
    nx_divide_kernel *divide = paths[nx_reduce_path_now()].kernels->divide[dtype];

    if (divide == NULL) {
        divide = nx_kernels_portable.divide[dtype];
    }
    const uint64_t saved = nx_fpenv_enter();

    divide(buf, count * nexar_dtype_size(dtype), divisor);
    nx_fpenv_leave(saved);
}
