/* bench_run.c - measures the slowest rank of each iteration, and takes the median. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "bench.h"

/* Bounds of the number of iterations, if it is chosen here. */
enum { PROBES = 2, LEAST = 7, MOST = 100000 };
static const double NEARLY = 0.9; /* of the time limit: counts as used up */

static double now_s(void)
{
    return (double)nx_now(&nx_clock_system) / 1e9;
}

/* One iteration: the ranks of a pair alternate and need no barrier. */
static nexar_err once(const nx_bench *b, const nx_bench_op *op, size_t count, double *seconds)
{
    nexar_err err = op->pair ? NEXAR_OK : nexar_barrier(b->world);
    double start;

    if (err != NEXAR_OK) {
        return err;
    }
    start = now_s();
    err = op->run(b, count);
    *seconds = now_s() - start;
    return err;
}

/* Chooses the number of further iterations; |done| iterations took |spent| seconds. The first
 * quarter is estimated from the warm-up, which may have been disturbed. Then the remaining time
 * decides. Rank 0 decides for all. */
static nexar_err choose(const nx_bench *b, uint64_t done, double spent, uint64_t *more)
{
    const double all = (double)b->time_ns / 1e9, each = spent / (double)done;

    *more = 0;
    if ((b->iters != 0) && (done < b->iters)) {
        *more = b->iters - done;
    } else if ((b->iters == 0) && (done < MOST) && ((done < LEAST) || (spent < all * NEARLY))) {
        const double left = (all - spent) / ((each > 1e-9) ? each : 1e-9);
        const double fit = (done <= PROBES) ? left / 4 : left;

        *more = (fit < LEAST) ? LEAST : (uint64_t)((fit < MOST) ? fit : MOST);
        *more = (*more < MOST - done) ? *more : MOST - done;
    }
    return nexar_broadcast(b->world, more, 1, NEXAR_U64, 0);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void sum_up(const nx_bench *b, double times[], nx_bench_row *row)
{
    const nx_bench_op *op = row->op;
    const uint64_t n = row->iters;
    const double part = (op->times == NULL) ? 1 : op->times(row->bytes);

    qsort(times, n, sizeof(*times), by_value);
    row->median = times[n / 2] / part;
    row->min = times[0] / part;
    row->p99 = times[(n - 1) * 99 / 100] / part;
    row->max = times[n - 1] / part;
    row->algbw = (row->median > 0) ? (double)row->bytes / row->median : 0;
    row->busbw = row->algbw * ((op->bus == NULL) ? 1 : op->bus(b->size));
}

/* Runs until there are enough iterations, and sets row->iters. */
static nexar_err repeat(const nx_bench *b, nx_bench_row *row, bool takes_part, double times[])
{
    const double start = now_s();
    nexar_err err = NEXAR_OK;
    uint64_t more = (b->iters == 0) ? PROBES : b->iters;

    row->iters = 0;
    while ((err == NEXAR_OK) && (more > 0)) {
        for (; (more > 0) && (err == NEXAR_OK); more--, row->iters++) {
            if (takes_part) {
                err = once(b, row->op, row->count, &times[row->iters]);
            }
            if (row->op->pair && (b->rank != 0)) {
                times[row->iters] = 0;
            }
        }
        if (err == NEXAR_OK) {
            err = choose(b, row->iters, now_s() - start, &more);
        }
    }
    return err;
}

static nexar_err iterate(const nx_bench *b, nx_bench_row *row)
{
    const bool takes_part = !row->op->pair || (b->rank < 2);
    double *times, last = 0;
    nexar_err err = NEXAR_OK;

    for (uint64_t i = 0; (i < b->warmup) && (err == NEXAR_OK) && takes_part; i++) {
        err = once(b, row->op, row->count, &last);
    }
    if (err != NEXAR_OK) {
        return err;
    }
    times = nx_calloc((b->iters == 0) ? MOST : b->iters, sizeof(*times));
    if (times == NULL) {
        return nx_fail_nomem("the times");
    }
    err = repeat(b, row, takes_part, times);
    if (err == NEXAR_OK) {
        err = nexar_allreduce(b->world, NEXAR_IN_PLACE, times, row->iters, NEXAR_F64, NEXAR_MAX);
    }
    if (err == NEXAR_OK) {
        sum_up(b, times, row);
    }
    nx_free(times);
    return err;
}

nexar_err nx_bench_measure(const nx_bench *b, const nx_bench_op *op, uint64_t size,
                           nx_bench_row *row)
{
    const uint64_t blocks = (op->in_blocks || op->out_blocks) ? (uint64_t)b->size : 1;
    nexar_err err = NEXAR_OK;

    *row = (nx_bench_row){.op = op, .size = size, .wrong = -1};
    row->count = nx_bench_count(b, op, size);
    row->bytes = row->count * blocks * nexar_dtype_size(b->dtype);
    if (b->check && (op->expect != NULL)) {
        err = nx_bench_check(b, op, row->count, &row->wrong);
    }
    return (err == NEXAR_OK) ? iterate(b, row) : err;
}
