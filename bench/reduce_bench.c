/* reduce_bench.c - the speed of the reduction kernels, compared with the limit of memory. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "reduce/reduce.h"
#include "reduce_rivals.h"

static const char help[] =
    "usage: reduce_bench [--quick] [--path NAME] [--offset BYTES]\n"
    "\n"
    "Prints one line for each kernel, dst = op(dst, src): the memory traffic in\n"
    "GB/s (two reads and a write for each element), median of many rounds;\n"
    "\n"
    "  cold   on vectors of 64 MiB, beside the ideal loop on the same core, which\n"
    "         does nothing but read two vectors and write one (AVX2 on x86)\n"
    "  hot    on a working set of 256 KiB, beside the plain C loop as gcc and as\n"
    "         clang vectorise it at -O3; and the elements per nanosecond\n"
    "\n"
    "A percentage is the speed of nexar's kernel against the ideal loop, or against\n"
    "the faster of the two plain ones.  It is the median over rounds in which all\n"
    "ran in turn, by CPU time, so that noise meets them alike.  A \"-\" stands where\n"
    "there is no such loop.\n"
    "\n"
    "  --quick         a smoke run: few rounds on 1 MiB; the figures mean nothing\n"
    "  --path NAME     portable, avx2, avx512 or neon instead of the best one\n"
    "  --offset BYTES  0 to 63: how far dst is from the start of a cache line\n"
    "  --help          this text\n";

enum {
    MAX_ROUNDS = 201,
    MAX_OFFSET = 63,
    SRC_OFFSET = 1024, /* src and dst differ in their page offset: otherwise loads wait for stores
                          with a falsely matching address */
};

typedef struct buffers {
    char *dst, *src;
} buffers;

typedef struct plan {
    size_t cold_bytes, hot_bytes; /* of each of the two vectors */
    int cold_rounds, hot_rounds;
    int hot_passes; /* in a round */
} plan;

static const plan full_plan = {64U << 20, 128U << 10, 21, 201, 32};
static const plan quick_plan = {1U << 20, 128U << 10, 3, 5, 2};

/* A measurement: a kernel, its vectors, the number of passes. */
typedef struct job {
    nexar_dtype dtype;
    nexar_op op;
    char *dst;
    const char *src;
    size_t bytes;
    int rounds, passes;
} job;

typedef enum runner { RUN_NEXAR, RUN_IDEAL, RUN_PLAIN } runner;

typedef struct rival {
    runner runner;
    nxb_loop *plain;
    double seconds[MAX_ROUNDS]; /* of one pass, in each round */
} rival;

static const struct {
    nexar_dtype dtype;
    nexar_op op;
} kernels[] = {
    {NEXAR_F32, NEXAR_SUM},  {NEXAR_F32, NEXAR_PROD}, {NEXAR_F32, NEXAR_MIN},
    {NEXAR_F32, NEXAR_MAX},  {NEXAR_F64, NEXAR_SUM},  {NEXAR_F64, NEXAR_MIN},
    {NEXAR_F16, NEXAR_SUM},  {NEXAR_F16, NEXAR_MAX},  {NEXAR_BF16, NEXAR_SUM},
    {NEXAR_BF16, NEXAR_MAX}, {NEXAR_I32, NEXAR_SUM},  {NEXAR_I32, NEXAR_BAND},
    {NEXAR_I64, NEXAR_SUM},  {NEXAR_I64, NEXAR_PROD}, {NEXAR_U8, NEXAR_SUM},
    {NEXAR_U8, NEXAR_PROD},
};

/* ---- measuring ----------------------------------------------------------- */

/* CPU time of this thread: a cold pass is about as long as a time slice. On a busy machine wall
 * time would charge other processes to one rival only. */
static double cpu_seconds(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void run(const job *j, const rival *r)
{
    const size_t count = j->bytes / nexar_dtype_size(j->dtype);

    switch (r->runner) {
    case RUN_NEXAR:
        nx_reduce(j->dst, j->dst, j->src, count, j->dtype, j->op);
        break;
    case RUN_IDEAL:
        nxb_ideal(j->dst, j->src, j->bytes);
        break;
    case RUN_PLAIN:
        r->plain(j->dst, j->src, count);
        break;
    }
}

/* Each round runs all rivals in turn; the one before the first warms up. */
static void measure(const job *j, rival *rivals, size_t n)
{
    for (int round = -1; round < j->rounds; round++) {
        for (size_t i = 0; i < n; i++) {
            const double start = cpu_seconds();

            for (int pass = 0; pass < j->passes; pass++) {
                run(j, &rivals[i]);
            }
            if (round >= 0) {
                rivals[i].seconds[round] = (cpu_seconds() - start) / j->passes;
            }
        }
    }
}

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(const double *values, int n)
{
    double sorted[MAX_ROUNDS];

    memcpy(sorted, values, (size_t)n * sizeof *values);
    qsort(sorted, (size_t)n, sizeof *sorted, compare_doubles);
    return sorted[n / 2];
}

/* The speed of |a| divided by the speed of |b|. */
static double speed_ratio(const job *j, const rival *a, const rival *b)
{
    double ratios[MAX_ROUNDS] = {0};

    for (int i = 0; i < j->rounds; i++) {
        ratios[i] = b->seconds[i] / a->seconds[i];
    }
    return median(ratios, j->rounds);
}

static double gigabytes_per_second(const job *j, const rival *r)
{
    return 3 * (double)j->bytes / median(r->seconds, j->rounds) * 1e-9;
}

/* ---- printing ------------------------------------------------------------ */

static const struct {
    const char *name;
    nxb_loop *const (*loops)[NX_OPS]; /* NULL: not built, the compiler is missing */
} compilers[] = {
#if defined(NXB_HAVE_GCC)
    {"gcc", nxb_plain_gcc},
#else
    {"gcc", NULL},
#endif
#if defined(NXB_HAVE_CLANG)
    {"clang", nxb_plain_clang},
#else
    {"clang", NULL},
#endif
};

enum { COMPILERS = sizeof compilers / sizeof compilers[0] };

/* A row of the table; 0: nothing to compare with. */
typedef struct result {
    double against_ideal, against_plain; /* speed, as a ratio */
    double elements_per_ns;              /* hot */
} result;

/* On x86 the rivals are built for AVX2. */
static bool rivals_usable(void)
{
#if defined(__x86_64__)
    return nx_reduce_path_usable(NX_REDUCE_AVX2);
#else
    return true;
#endif
}

static void print_number(double x)
{
    if (x > 0) {
        printf(" %7.1f", x);
    } else {
        printf(" %7s", "-");
    }
}

static void print_percent(double ratio)
{
    if (ratio > 0) {
        printf(" %5.0f %%", 100 * ratio);
    } else {
        printf(" %7s", "-");
    }
}

static void measure_cold(const job *j, result *res)
{
    static rival nexar_and_ideal[] = {{.runner = RUN_NEXAR}, {.runner = RUN_IDEAL}};
    const rival *nexar = &nexar_and_ideal[0], *ideal = &nexar_and_ideal[1];

    measure(j, nexar_and_ideal, rivals_usable() ? 2 : 1);
    res->against_ideal = rivals_usable() ? speed_ratio(j, nexar, ideal) : 0;
    print_number(gigabytes_per_second(j, nexar));
    print_number(rivals_usable() ? gigabytes_per_second(j, ideal) : 0);
    print_percent(res->against_ideal);
}

static void measure_hot(const job *j, result *res)
{
    static rival rivals[1 + COMPILERS] = {{.runner = RUN_NEXAR}};
    size_t at[COMPILERS] = {0}; /* index of a compiler's loop in rivals; 0: none */
    size_t n = 1;

    for (size_t c = 0; c < COMPILERS; c++) {
        if (rivals_usable() && compilers[c].loops != NULL &&
            compilers[c].loops[j->dtype][j->op] != NULL) {
            rivals[n].runner = RUN_PLAIN;
            rivals[n].plain = compilers[c].loops[j->dtype][j->op];
            at[c] = n++;
        }
    }
    measure(j, rivals, n);
    print_number(gigabytes_per_second(j, &rivals[0]));
    for (size_t c = 0; c < COMPILERS; c++) {
        print_number(at[c] > 0 ? gigabytes_per_second(j, &rivals[at[c]]) : 0);
    }
    res->against_plain = n > 1 ? speed_ratio(j, &rivals[0], &rivals[1]) : 0;
    for (size_t i = 2; i < n; i++) {
        const double ratio = speed_ratio(j, &rivals[0], &rivals[i]);

        res->against_plain = ratio < res->against_plain ? ratio : res->against_plain;
    }
    print_percent(res->against_plain);
    res->elements_per_ns =
        gigabytes_per_second(j, &rivals[0]) / 3 / (double)nexar_dtype_size(j->dtype);
    print_number(res->elements_per_ns);
}

/* Ones: none of their sums or products reaches values with slow arithmetic. */
static void fill_with_ones(const buffers *b, size_t bytes, nexar_dtype dtype)
{
    nx_reduce_identity(b->dst, bytes / nexar_dtype_size(dtype), dtype, NEXAR_PROD);
    nx_reduce_identity(b->src, bytes / nexar_dtype_size(dtype), dtype, NEXAR_PROD);
}

static result print_row(const plan *p, const buffers *b, nexar_dtype dtype, nexar_op op)
{
    job j = {.dtype = dtype, .op = op, .dst = b->dst, .src = b->src};
    result res;

    printf("%-4s %-5s", nexar_dtype_name(dtype), nexar_op_name(op));
    fill_with_ones(b, p->cold_bytes, dtype);
    j.bytes = p->cold_bytes;
    j.rounds = p->cold_rounds;
    j.passes = 1;
    measure_cold(&j, &res);

    fill_with_ones(b, p->hot_bytes, dtype);
    j.bytes = p->hot_bytes;
    j.rounds = p->hot_rounds;
    j.passes = p->hot_passes;
    printf("  ");
    measure_hot(&j, &res);
    printf("\n");
    return res;
}

static void print_table(const plan *p, const buffers *b)
{
    double f32_rate = 0, bf16_rate = 0;

    printf("path %s; GB/s\n", nx_reduce_path_name(nx_reduce_path_now()));
    printf("%10s %7s %7s %7s   %7s %7s %7s %7s %7s\n", "", "cold", "ideal", "", "hot",
           compilers[0].name, compilers[1].name, "", "elem/ns");
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++) {
        const result res = print_row(p, b, kernels[i].dtype, kernels[i].op);

        if (kernels[i].op == NEXAR_SUM) {
            f32_rate = kernels[i].dtype == NEXAR_F32 ? res.elements_per_ns : f32_rate;
            bf16_rate = kernels[i].dtype == NEXAR_BF16 ? res.elements_per_ns : bf16_rate;
        }
    }
    printf("hot, bf16 sum has %.2f times the element rate of f32 sum\n", bf16_rate / f32_rate);
}

/* ---- command line -------------------------------------------------------- */

/* NULL: none is left.  Huge pages if the system has them, so that the cold runs
 * measure memory. */
static char *map_vector(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED) {
        return NULL;
    }
    (void)madvise(p, bytes, MADV_HUGEPAGE);
    return p;
}

typedef struct request {
    const plan *plan;
    size_t offset;
    bool help;
} request;

static bool refuse(const char *what, const char *value)
{
    (void)fprintf(stderr, "reduce_bench: %s \"%s\"; --help lists what is accepted\n", what, value);
    return false;
}

static bool choose_path(const char *name)
{
    for (int p = 0; p < NX_REDUCE_PATHS; p++) {
        if (strcmp(name, nx_reduce_path_name((nx_reduce_path)p)) == 0) {
            if (!nx_reduce_path_usable((nx_reduce_path)p)) {
                return refuse("this machine cannot run the path", name);
            }
            nx_reduce_path_set((nx_reduce_path)p);
            return true;
        }
    }
    return refuse("there is no path", name);
}

static bool parse_offset(const char *text, size_t *offset)
{
    char *end;
    const unsigned long n = strtoul(text, &end, 10);

    if (*text < '0' || *text > '9' || *end != '\0' || n > MAX_OFFSET) {
        return refuse("--offset does not take", text);
    }
    *offset = n;
    return true;
}

/* The option at argv[*i], and its value if it takes one. */
static bool parse_option(char **argv, int *i, request *req)
{
    const char *name = argv[*i], *value = argv[*i + 1];

    if (strcmp(name, "--help") == 0) {
        req->help = true;
        return true;
    }
    if (strcmp(name, "--quick") == 0) {
        req->plan = &quick_plan;
        return true;
    }
    if (strcmp(name, "--path") != 0 && strcmp(name, "--offset") != 0) {
        return refuse("unknown argument", name);
    }
    if (value == NULL) {
        return refuse("a value must follow", name);
    }
    (*i)++;
    return strcmp(name, "--path") == 0 ? choose_path(value) : parse_offset(value, &req->offset);
}

int main(int argc, char **argv)
{
    request req = {.plan = &full_plan};

    for (int i = 1; i < argc; i++) {
        if (!parse_option(argv, &i, &req)) {
            return 2;
        }
    }
    if (req.help) {
        (void)fputs(help, stdout);
        return 0;
    }

    const size_t room = req.plan->cold_bytes + 4096;
    char *dst = map_vector(room), *src = map_vector(room);

    if (dst == NULL || src == NULL) {
        (void)fprintf(stderr, "reduce_bench: no memory for two vectors of %zu bytes\n", room);
        return 1;
    }
    const buffers b = {.dst = dst + req.offset, .src = src + SRC_OFFSET};

    print_table(req.plan, &b);
    return 0;
}
