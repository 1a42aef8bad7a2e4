/*
 * limit_bench.c - compares an allreduce on one host with the limit of its memory.
 *
 *     nexar run -n 2 limit_bench [BYTES]
 *
 * The limit: one thread per rank reads its part of all vectors once, adds them and writes the sum
 * to all. No thread waits and no byte is copied: every byte is read once and written once. The
 * compared cases are allreduce in place with memory from malloc and from nexar_alloc.
 * Measurements alternate; the figures are medians.
 */
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <nexar.h>

#include "args.h"

static const char help[] =
    "usage: nexar run -n 2 limit_bench [BYTES]\n"
    "\n"
    "How far an allreduce of BYTES, 64m without more, is from what the memory allows:\n"
    "threads that go once through all vectors, add them up and write the sum to all.\n";

enum { ROUNDS = 15, RANKS = 64, WAYS = 3 };
static const char *const names[WAYS] = {"limit", "allreduce, malloc", "allreduce, nexar_alloc"};

static double now_us(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void must(int ok, const char *what)
{
    if (!ok) {
        (void)fprintf(stderr, "limit_bench: %s: %s\n", what, nexar_last_error());
        _exit(1);
    }
}

/* ---- the limit ------------------------------------------------------------------------------ */

typedef struct part {
    float *const *vectors;
    size_t n, off, len, core;
    pthread_barrier_t *start;
    pthread_t thread;
    double begun, ended;
} part;

/* Eight elements, of any alignment. */
typedef float eight __attribute__((vector_size(32), aligned(4)));
enum { EIGHT = 8 };

static void add_up(const part *p)
{
    for (size_t off = p->off; off < p->off + p->len; off += EIGHT) {
        eight sum = *(const eight *)(const void *)(p->vectors[0] + off);

        for (size_t v = 1; v < p->n; v++) {
            sum += *(const eight *)(const void *)(p->vectors[v] + off);
        }
        for (size_t v = 0; v < p->n; v++) {
            *(eight *)(void *)(p->vectors[v] + off) = sum;
        }
    }
}

/* Binds the thread to core |at| of the cores that this process may use. */
static void bind_to_core(size_t at)
{
    cpu_set_t all, one;

    if (sched_getaffinity(0, sizeof(all), &all) != 0) {
        return;
    }
    at %= (size_t)CPU_COUNT(&all);
    CPU_ZERO(&one);
    for (size_t core = 0; core < CPU_SETSIZE; core++) {
        if (CPU_ISSET(core, &all) && (at-- == 0)) {
            CPU_SET(core, &one);
        }
    }
    (void)sched_setaffinity(0, sizeof(one), &one); /* of this thread */
}

static void *run_part(void *arg)
{
    part *p = arg;

    bind_to_core(p->core);
    (void)pthread_barrier_wait(p->start);
    p->begun = now_us();
    add_up(p);
    p->ended = now_us();
    return NULL;
}

static double limit(float *const *vectors, size_t n, size_t count)
{
    const size_t each = count / n / EIGHT * EIGHT; /* a few at the end may be omitted */
    part parts[RANKS];
    pthread_barrier_t start;
    double begun = 0, ended = 0;

    must(pthread_barrier_init(&start, NULL, (unsigned)n) == 0, "barrier");
    for (size_t i = 0; i < n; i++) {
        parts[i] = (part){
            .vectors = vectors, .n = n, .off = each * i, .len = each, .core = i, .start = &start};
        must(pthread_create(&parts[i].thread, NULL, run_part, &parts[i]) == 0, "thread");
    }
    for (size_t i = 0; i < n; i++) {
        (void)pthread_join(parts[i].thread, NULL);
        begun = ((i == 0) || (parts[i].begun < begun)) ? parts[i].begun : begun;
        ended = (parts[i].ended > ended) ? parts[i].ended : ended;
    }
    (void)pthread_barrier_destroy(&start);
    return ended - begun;
}

/* ---- all --------------------------------------------------------------------------------------
 */

static double allreduce(nexar_comm *w, float *buf, size_t count)
{
    const void *in_place = NEXAR_IN_PLACE; // NOLINT(performance-no-int-to-ptr)
    double begun, mine, longest = 0;

    must(nexar_barrier(w) == NEXAR_OK, "barrier");
    begun = now_us();
    must(nexar_allreduce(w, in_place, buf, count, NEXAR_F32, NEXAR_SUM) == NEXAR_OK, "allreduce");
    mine = now_us() - begun;
    must(nexar_allreduce(w, &mine, &longest, 1, NEXAR_F64, NEXAR_MAX) == NEXAR_OK, "allreduce");
    return longest;
}

static float *take(size_t bytes)
{
    float *at = malloc(bytes);

    must(at != NULL, "memory");
    memset(at, 0, bytes);
    return at;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    static double times[WAYS][ROUNDS];
    const nxb_args args = nxb_args_take(argc, argv, 1, help);
    const size_t bytes = nxb_args_number(&args, 0, (size_t)64 << 20, 1024, (size_t)1 << 32);
    const size_t count = bytes / sizeof(float);
    float *vectors[RANKS], *own = take(bytes);
    void *shared = NULL;
    nexar_comm *w;
    size_t n;

    must(nexar_init(NULL, &w) == NEXAR_OK, "init");
    n = (size_t)nexar_size(w);
    must(n <= RANKS, "too many ranks");
    must(nexar_alloc(w, bytes, &shared) == NEXAR_OK, "alloc");
    memset(shared, 0, bytes);
    for (size_t i = 0; (nexar_rank(w) == 0) && (i < n); i++) {
        vectors[i] = take(bytes);
    }
    for (int round = -2; round < ROUNDS; round++) { /* two warm-up rounds */
        const double one = (nexar_rank(w) == 0) ? limit(vectors, n, count) : 0;
        const double two = allreduce(w, own, count), three = allreduce(w, shared, count);

        for (int i = 0; (round >= 0) && (i < WAYS); i++) {
            times[i][round] = (i == 0) ? one : (i == 1) ? two : three;
        }
    }
    for (int i = 0; (nexar_rank(w) == 0) && (i < WAYS); i++) {
        qsort(times[i], ROUNDS, sizeof(double), by_value);
        (void)printf("%-24s %10.0f us  [least %10.0f]  %7.2f GB/s  %5.2f of the limit's time\n",
                     names[i], times[i][ROUNDS / 2], times[i][0],
                     (double)bytes / times[i][ROUNDS / 2] / 1e3,
                     times[i][ROUNDS / 2] / times[0][ROUNDS / 2]);
    }
    must(nexar_finalize(w) == NEXAR_OK, "finalize"); /* the system frees the memory */
    return 0;
}
