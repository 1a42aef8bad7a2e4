/*
 * direct_bench.c - collectives between ranks of one host.
 *
 *     nexar run -n 2 direct_bench [MAX_BYTES [shared] [bind] [NAME]...]
 *
 * shared: the buffers are from nexar_alloc; bind: each rank keeps to a core; NAME: only that
 * operation. With NEXAR_DIRECT=off the engine runs the collectives.
 *
 * The time of a call is the maximum over ranks, the median of many calls. A barrier precedes each
 * call. "b2b" is the mean of back-to-back calls. Sizes are as usual for MPI: the vector of
 * allreduce, broadcast and scan, the send buffer of alltoall, the input of reduce_scatter, the
 * result of allgather. A bucket has 1000 tensors of odd sizes, or fewer if it is short. Blocks of
 * v forms have two lengths.
 */
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <nexar.h>

#include "args.h"

enum { KINDS = 12, WORDS = KINDS + 2, MOST = 2000, TENSORS = 1000, RANKS = 64 };

typedef struct bench {
    nexar_comm *world;
    float *in, *out;
    size_t bytes;
    int n, rank;
    nexar_tensor tensors[TENSORS];
    size_t ntensors;
    size_t counts[RANKS], back[RANKS]; /* v forms: counts to each rank, counts from each rank */
} bench;

static double now_us(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void must(nexar_err err)
{
    if (err != NEXAR_OK) {
        (void)fprintf(stderr, "direct_bench: %s\n", nexar_last_error());
        _exit(1);
    }
}

static const char help[] =
    "usage: nexar run -n 2 direct_bench [MAX_BYTES [shared] [bind] [NAME]...]\n"
    "\n"
    "Collectives between ranks of one host, of 8 bytes to MAX_BYTES, 64m without more.\n"
    "\n"
    "  shared  the buffers are from nexar_alloc\n"
    "  bind    each rank keeps to a core\n"
    "  NAME    only that: barrier, allreduce, broadcast, allgather, alltoall,\n"
    "          reduce_scatter, scan, bucketed, rs_ag, allgatherv, alltoallv or\n"
    "          reduce_scatterv\n";

/* The words that may follow MAX_BYTES: operations and modes. */
static const char *const names[WORDS] = {
    "barrier", "allreduce", "broadcast", "allgather",  "alltoall",  "reduce_scatter",
    "scan",    "bucketed",  "rs_ag",     "allgatherv", "alltoallv", "reduce_scatterv",
    "shared",  "bind"};
enum { SHARED = KINDS, BIND };

/* Cuts |b->bytes| into tensors of odd sizes, and into blocks. */
static void cut(bench *b)
{
    const size_t count = b->bytes / sizeof(float), n = (count < TENSORS * 4) ? 1 : TENSORS;
    const size_t each = count / (size_t)b->n, less = each / 4;
    size_t off = 0;

    for (size_t i = 0; i < n; i++) {
        const size_t even = count / n,
                     odd = (i % 2 == 0) ? even - i % (even / 2 + 1) : even + i % 2;
        const size_t left = count - off;

        b->tensors[i] = (nexar_tensor){.ptr = b->out + off,
                                       .count = ((i + 1 == n) || (odd > left)) ? left : odd};
        off += b->tensors[i].count;
    }
    b->ntensors = n;
    for (int r = 0; r < b->n; r++) { /* moves |less| elements from the first to the last */
        b->counts[r] = each + ((r == b->n - 1) ? less : 0) - ((r == 0) ? less : 0);
    }
    for (int r = 0; r < b->n; r++) {
        b->back[r] = b->counts[b->rank];
    }
}

/* The forms whose blocks have any length. */
static void call_parts(const bench *b, int kind)
{
    const size_t count = b->bytes / sizeof(float);

    switch (kind) {
    case 7:
        must(nexar_allreduce_bucketed(b->world, b->tensors, b->ntensors, NEXAR_F32, NEXAR_SUM));
        break;
    case 8:
        must(nexar_allreduce_rs_ag(b->world, b->out, count, NEXAR_F32, NEXAR_SUM, NULL, NULL));
        break;
    case 9:
        must(nexar_allgatherv(b->world, b->in, b->counts[b->rank], b->out, b->counts, NULL,
                              NEXAR_F32));
        break;
    case 10:
        must(nexar_alltoallv(b->world, b->in, b->counts, NULL, b->out, b->back, NULL, NEXAR_F32));
        break;
    default:
        must(nexar_reduce_scatterv(b->world, b->in, b->out, b->counts, NEXAR_F32, NEXAR_SUM));
        break;
    }
}

static void call(const bench *b, int kind)
{
    const size_t count = b->bytes / sizeof(float), each = count / (size_t)b->n;
    const void *in_place = NEXAR_IN_PLACE; // NOLINT(performance-no-int-to-ptr)

    switch (kind) {
    case 0:
        must(nexar_barrier(b->world));
        break;
    case 1:
        must(nexar_allreduce(b->world, in_place, b->out, count, NEXAR_F32, NEXAR_SUM));
        break;
    case 2:
        must(nexar_broadcast(b->world, b->out, count, NEXAR_F32, 0));
        break;
    case 3:
        must(nexar_allgather(b->world, b->in, b->out, each, NEXAR_F32));
        break;
    case 4:
        must(nexar_alltoall(b->world, b->in, b->out, each, NEXAR_F32));
        break;
    case 5:
        must(nexar_reduce_scatter(b->world, b->in, b->out, each, NEXAR_F32, NEXAR_SUM));
        break;
    case 6:
        must(nexar_scan(b->world, b->in, b->out, count, NEXAR_F32, NEXAR_SUM));
        break;
    default:
        call_parts(b, kind);
        break;
    }
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void measure(const bench *b, int kind)
{
    static double times[MOST], longest[MOST];
    const int rounds = (b->bytes <= 65536) ? MOST : (b->bytes <= 1 << 20) ? 300 : 11;
    double begun;

    for (int i = 0; i < 10 + rounds / 50; i++) {
        call(b, kind);
    }
    for (int i = 0; i < rounds; i++) {
        must(nexar_barrier(b->world));
        begun = now_us();
        call(b, kind);
        times[i] = now_us() - begun;
    }
    must(nexar_allreduce(b->world, times, longest, (size_t)rounds, NEXAR_F64, NEXAR_MAX));
    qsort(longest, (size_t)rounds, sizeof(*longest), by_value);
    begun = now_us();
    for (int i = 0; i < rounds; i++) {
        call(b, kind);
    }
    if (b->rank == 0) {
        (void)printf("%-14s %9zu B  %10.2f us  [p10 %10.2f]  b2b %10.2f us  %7.3f GB/s\n",
                     names[kind], (kind == 0) ? 0 : b->bytes, longest[rounds / 2],
                     longest[rounds / 10], (now_us() - begun) / rounds,
                     (double)b->bytes / longest[rounds / 2] / 1e3);
        (void)fflush(stdout);
    }
}

static float *take(const bench *b, bool shared, size_t bytes)
{
    void *at = NULL;

    if (shared) {
        must(nexar_alloc(b->world, bytes, &at));
    } else if ((at = malloc(bytes)) == NULL) {
        (void)fprintf(stderr, "direct_bench: no memory\n");
        _exit(1);
    }
    return at;
}

/* Reads which of |names| are requested. */
static void read_words(const nxb_args *args, bool asked[WORDS])
{
    bool all = true;

    for (size_t i = 1; i < args->n; i++) {
        asked[nxb_args_word(args, i, names, WORDS)] = true;
    }
    for (int kind = 0; kind < KINDS; kind++) {
        all = all && !asked[kind];
    }
    for (int kind = 0; all && (kind < KINDS); kind++) {
        asked[kind] = true;
    }
}

/* Call it before the library starts threads. */
static void bind_to_core(void)
{
    const char *rank = getenv("NEXAR_RANK"); // NOLINT(concurrency-mt-unsafe)
    cpu_set_t all, one;
    long at;

    if ((rank == NULL) || (sched_getaffinity(0, sizeof(all), &all) != 0)) {
        return;
    }
    at = strtol(rank, NULL, 10) % CPU_COUNT(&all);
    CPU_ZERO(&one);
    for (size_t core = 0; core < CPU_SETSIZE; core++) {
        if (CPU_ISSET(core, &all) && (at-- == 0)) {
            CPU_SET(core, &one);
        }
    }
    (void)sched_setaffinity(0, sizeof(one), &one);
}

int main(int argc, char **argv)
{
    static const size_t sizes[] = {8, 1024, 65536, 1 << 20, 16 << 20, 64 << 20};
    const nxb_args args = nxb_args_take(argc, argv, 1 + WORDS, help);
    const size_t most = nxb_args_number(&args, 0, (size_t)64 << 20, 8, (size_t)1 << 32);
    bool asked[WORDS] = {false};
    static bench b;

    read_words(&args, asked);
    if (asked[BIND]) {
        bind_to_core();
    }
    must(nexar_init(NULL, &b.world));
    b.n = nexar_size(b.world);
    b.rank = nexar_rank(b.world);
    /* The last rank of an alltoallv gets more than it sends. */
    b.in = take(&b, asked[SHARED], 2 * most + 64);
    b.out = take(&b, asked[SHARED], 2 * most + 64);
    memset(b.in, 0, 2 * most);
    memset(b.out, 0, 2 * most);
    for (int kind = 0; kind < KINDS; kind++) {
        for (size_t i = 0; i < ((kind == 0) ? 1 : sizeof(sizes) / sizeof(sizes[0])); i++) {
            b.bytes = sizes[i];
            if (asked[kind] && (sizes[i] <= most) &&
                ((kind == 0) || (sizes[i] / sizeof(float) >= (size_t)b.n))) {
                cut(&b);
                measure(&b, kind);
            }
        }
    }
    must(nexar_finalize(b.world)); /* the system frees the buffers */
    return 0;
}
