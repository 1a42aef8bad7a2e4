/*
 * compress_bench.c - the cost and the benefit of compression, for docs/guide/compression.md.
 *
 *     compress_bench accuracy          error, bytes and memory, simulated, 4 ranks
 *     compress_bench codes             GiB/s of the computations of one rank
 *     compress_bench time [RANKS] [MIB]  against a plain allreduce, ranks as threads, QUIC
 */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "args.h"
#include "base/clock.h"
#include "coll/compress/compress.h"
#include "compress_sim.h"

static const char help[] =
    "usage: compress_bench [accuracy | codes | time [RANKS] [MIB]]\n"
    "\n"
    "  accuracy  error, bytes and memory, simulated, 4 ranks (the default)\n"
    "  codes     GiB/s of the computations of one rank\n"
    "  time      against a plain allreduce: 2 RANKS as threads, 16 MIB, over QUIC\n";

typedef struct method {
    nexar_compression how;
    double ratio;
} method;

static const method methods[] = {
    {NEXAR_COMPRESS_NONE, 0},      {NEXAR_COMPRESS_F16, 0},        {NEXAR_COMPRESS_BF16, 0},
    {NEXAR_COMPRESS_INT8, 0},      {NEXAR_COMPRESS_TOPK, 0.1},     {NEXAR_COMPRESS_TOPK, 0.01},
    {NEXAR_COMPRESS_RANDOMK, 0.1}, {NEXAR_COMPRESS_RANDOMK, 0.01},
};
enum { METHODS = sizeof methods / sizeof methods[0] };

static const char *name_of(const method *m, char *buf, size_t size)
{
    const char *name = nx_compress_name(m->how);

    if (m->ratio > 0) {
        (void)snprintf(buf, size, "%s %g", name, m->ratio);
    } else {
        (void)snprintf(buf, size, "%s", name);
    }
    return buf;
}

static void *room(size_t bytes)
{
    void *p = calloc(1, bytes);

    if (p == NULL) {
        abort();
    }
    return p;
}

/* Like gradients: most near 0, a few large; different for each seed. */
static void fill(float *to, size_t count, uint64_t seed)
{
    uint64_t state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;

    for (size_t i = 0; i < count; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        const double x = (double)(int64_t)(state ^ (state >> 29)) * 0x1p-63;

        to[i] = (float)(x * x * x * x * x);
    }
}

/* ---- accuracy ------------------------------------------------------------------------- */

enum { RANKS = 4, COUNT = 1 << 16, STEPS = 200 };

typedef struct rig {
    nx_compress_call calls[RANKS];
    float *gradients[RANKS];
    double *sum; /* of the gradients, over ranks */
} rig;

static rig rig_of(const method *m)
{
    rig r = {.sum = room(COUNT * sizeof(double))};

    for (uint32_t rank = 0; rank < RANKS; rank++) {
        r.gradients[rank] = room(COUNT * sizeof(float));
        fill(r.gradients[rank], COUNT, rank + 1);
        r.calls[rank] = (nx_compress_call){.buf = room(COUNT * sizeof(float)),
                                           .residual = room(COUNT * sizeof(float)),
                                           .count = COUNT,
                                           .dtype = NEXAR_F32,
                                           .op = NEXAR_SUM,
                                           .how = m->how,
                                           .ratio = m->ratio};
        for (size_t i = 0; i < COUNT; i++) {
            r.sum[i] += (double)r.gradients[rank][i];
        }
    }
    return r;
}

static void rig_free(rig *r)
{
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        free(r->gradients[rank]);
        free(r->calls[rank].buf);
        free(r->calls[rank].residual);
    }
    free(r->sum);
}

/* The relative root-mean-square error of |total| / steps against the sum. */
static double error_of(const rig *r, const double *total, unsigned steps)
{
    double off = 0, all = 0;

    for (size_t i = 0; i < COUNT; i++) {
        const double d = total[i] / steps - r->sum[i];

        off += d * d;
        all += r->sum[i] * r->sum[i];
    }
    return sqrt(off / all);
}

static void accuracy_of(const method *m)
{
    double *total = room(COUNT * sizeof(double)), errors[3] = {0};
    nxt_compress_sim sim = {0};
    rig r = rig_of(m);
    char name[32];

    for (unsigned step = 1; step <= STEPS; step++) {
        for (uint32_t rank = 0; rank < RANKS; rank++) {
            memcpy(r.calls[rank].buf, r.gradients[rank], COUNT * sizeof(float));
            r.calls[rank].seed = step;
        }
        if (nxt_compress_run(&sim, r.calls, RANKS) != NEXAR_OK) {
            abort();
        }
        for (size_t i = 0; i < COUNT; i++) {
            total[i] += (double)((const float *)r.calls[0].buf)[i];
        }
        if ((step == 1) || (step == 20) || (step == STEPS)) {
            errors[(step > 1) + (step > 20)] = error_of(&r, total, step);
        }
    }
    (void)printf("| %-12s | %8.4f | %5.2f | %8.1e | %8.1e | %8.1e |\n",
                 name_of(m, name, sizeof name), sim.figures.sent / (COUNT * sizeof(float)),
                 (double)sim.figures.memory / (COUNT * sizeof(float)), errors[0], errors[1],
                 errors[2]);
    rig_free(&r);
    free(total);
}

static void accuracy(void)
{
    (void)printf("%d ranks, %d x f32, the same gradients %d times\n\n", RANKS, COUNT, STEPS);
    (void)printf("| method       | sent     | held  | error, 1 | 20       | %d      |\n", STEPS);
    (void)printf("|--------------|----------|-------|----------|----------|----------|\n");
    for (size_t i = 0; i < METHODS; i++) {
        accuracy_of(&methods[i]);
    }
}

/* ---- computations --------------------------------------------------------------------- */

static double now_s(void)
{
    return (double)nx_now(&nx_clock_system) * 1e-9;
}

/* In a world of one a rank computes everything except the codes of other ranks. */
static void codes(void)
{
    enum { MANY = 4 << 20, ROUNDS = 5 };
    float *buf = room(MANY * sizeof *buf), *residual = room(MANY * sizeof *residual);

    (void)printf("one rank, %d MiB of f32, all computations\n\n", MANY >> 18);
    for (size_t i = 0; i < METHODS; i++) {
        nx_compress_call call = {.buf = buf,
                                 .residual = residual,
                                 .count = MANY,
                                 .dtype = NEXAR_F32,
                                 .op = NEXAR_SUM,
                                 .how = methods[i].how,
                                 .ratio = methods[i].ratio};
        nxt_compress_sim sim = {0};
        double best = 1e9;
        char name[32];

        for (int round = 0; round < ROUNDS; round++) {
            fill(buf, MANY, (uint64_t)round);
            const double began = now_s();

            if (nxt_compress_run(&sim, &call, 1) != NEXAR_OK) {
                abort();
            }
            best = fmin(best, now_s() - began);
        }
        (void)printf("%-14s %7.2f ms  %6.2f GiB/s\n", name_of(&methods[i], name, sizeof name),
                     best * 1e3, MANY * sizeof(float) / best / (1 << 30));
    }
    free(buf);
    free(residual);
}

/* ---- time ------------------------------------------------------------------------------ */

enum { TRIES = 7 };

typedef struct timing {
    size_t count;
    double median[METHODS + 1]; /* the plain allreduce last */
} timing;

typedef struct rank_job {
    nexar_comm *world;
    timing *timing;
} rank_job;

static void ok(nexar_err err)
{
    if (err != NEXAR_OK) {
        (void)fprintf(stderr, "compress_bench: %s\n", nexar_last_error());
        abort();
    }
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void *measure(void *arg)
{
    const rank_job *job = arg;
    const size_t count = job->timing->count;
    float *buf = room(count * sizeof *buf), *residual = room(count * sizeof *residual);
    double took[METHODS + 1][TRIES];

    for (int try = 0; try < TRIES; try++) {
        for (size_t i = 0; i <= METHODS; i++) {
            fill(buf, count, (uint64_t)nexar_rank(job->world));
            ok(nexar_barrier(job->world));
            const double began = now_s();

            if (i == METHODS) {
                ok(nexar_allreduce(job->world, NEXAR_IN_PLACE, buf, count, NEXAR_F32, NEXAR_SUM));
            } else {
                ok(nexar_allreduce_compressed(job->world, buf, count, NEXAR_F32, NEXAR_SUM,
                                              methods[i].how, methods[i].ratio, residual));
            }
            ok(nexar_barrier(job->world));
            took[i][try] = now_s() - began;
        }
    }
    for (size_t i = 0; (i <= METHODS) && (nexar_rank(job->world) == 0); i++) {
        qsort(took[i], TRIES, sizeof took[i][0], by_value);
        job->timing->median[i] = took[i][TRIES / 2];
    }
    free(buf);
    free(residual);
    ok(nexar_finalize(job->world));
    return NULL;
}

static void time_all(int ranks, size_t mib)
{
    nexar_comm **worlds = room((size_t)ranks * sizeof(nexar_comm *));
    pthread_t *threads = room((size_t)ranks * sizeof(pthread_t));
    rank_job *jobs = room((size_t)ranks * sizeof *jobs);
    timing t = {.count = mib << 18};
    char name[32];

    ok(nexar_init_local(ranks, NULL, worlds));
    for (int i = 0; i < ranks; i++) {
        jobs[i] = (rank_job){worlds[i], &t};
        if (pthread_create(&threads[i], NULL, measure, &jobs[i]) != 0) {
            abort();
        }
    }
    for (int i = 0; i < ranks; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    (void)printf("%d ranks in one process, %zu MiB of f32, median of %d\n\n", ranks, mib, TRIES);
    (void)printf("%-14s %8.2f ms\n", "allreduce", t.median[METHODS] * 1e3);
    for (size_t i = 0; i < METHODS; i++) {
        (void)printf("%-14s %8.2f ms  %5.2f of it\n", name_of(&methods[i], name, sizeof name),
                     t.median[i] * 1e3, t.median[i] / t.median[METHODS]);
    }
    free(jobs);
    free(threads);
    free(worlds);
}

int main(int argc, char **argv)
{
    static const char *const words[] = {"accuracy", "codes", "time"};
    const nxb_args args = nxb_args_take(argc, argv, 3, help);
    const size_t what = (args.n > 0) ? nxb_args_word(&args, 0, words, 3) : 0;
    const uint64_t ranks = nxb_args_number(&args, 1, 2, 1, 64);
    const uint64_t mib = nxb_args_number(&args, 2, 16, 1, 4096);

    switch (what) {
    case 0:
        accuracy();
        break;
    case 1:
        codes();
        break;
    default:
        time_all((int)ranks, (size_t)mib);
        break;
    }
    return 0;
}
