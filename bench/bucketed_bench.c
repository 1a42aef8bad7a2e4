/*
 * bucketed_bench.c - the cost of an allreduce of many tensors, compared with one vector of their
 * total size.
 *
 *     nexar run -n 2 bucketed_bench [MEAN_BYTES]...
 *
 * Three cases alternate. 1000 tensors of odd sizes, from half to one and a half times the mean,
 * in memory in random order with gaps between them. One vector of the same number of bytes. And
 * the tensors copied into such a vector and back "by hand". The time of a call is the maximum
 * over ranks, the median of many calls. A barrier precedes each call.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <nexar.h>

#include "args.h"

static const char help[] =
    "usage: nexar run -n 2 bucketed_bench [MEAN_BYTES]...\n"
    "\n"
    "An allreduce of 1000 tensors of MEAN_BYTES each, beside one vector of their size and\n"
    "the tensors copied into one by hand; 16, 64, 1k and 64k without more.\n";

enum { TENSORS = 1000, MOST = 1000, GAP = 16, WORDS = 64 };
enum { ONE, BY_HAND, BUCKETED, FORMS };

typedef struct bench {
    nexar_comm *world;
    nexar_tensor tensors[TENSORS];
    float *scattered, *one;
    size_t count; /* of all of them */
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
        (void)fprintf(stderr, "bucketed_bench: %s\n", nexar_last_error());
        _exit(1);
    }
}

static void *take(size_t bytes)
{
    void *at = calloc(1, bytes);

    if (at == NULL) {
        (void)fprintf(stderr, "bucketed_bench: no memory\n");
        _exit(1);
    }
    return at;
}

/* Cuts tensors of |mean| bytes on average; the same on all ranks. */
static void cut(bench *b, size_t mean)
{
    const size_t even = mean / sizeof(float), most = even + even / 2 + GAP;
    uint32_t random = 1;

    b->count = 0;
    b->scattered = take(TENSORS * most * sizeof(float));
    for (size_t i = 0; i < TENSORS; i++) {
        const size_t place = i * 387 % TENSORS; /* each once: 387 and 1000 are coprime */

        random = random * 1664525 + 1013904223;
        b->tensors[i].count = even / 2 + (random >> 16) % (even + 1);
        b->tensors[i].ptr = b->scattered + place * most;
        b->count += b->tensors[i].count;
    }
    b->one = take(b->count * sizeof(float));
}

static void reduce_one(const bench *b)
{
    const void *in_place = NEXAR_IN_PLACE; // NOLINT(performance-no-int-to-ptr)

    must(nexar_allreduce(b->world, in_place, b->one, b->count, NEXAR_F32, NEXAR_SUM));
}

/* A program without bucketed calls does this. */
static void reduce_by_hand(const bench *b)
{
    float *at = b->one;

    for (size_t i = 0; i < TENSORS; i++) {
        memcpy(at, b->tensors[i].ptr, b->tensors[i].count * sizeof(float));
        at += b->tensors[i].count;
    }
    reduce_one(b);
    at = b->one;
    for (size_t i = 0; i < TENSORS; i++) {
        memcpy(b->tensors[i].ptr, at, b->tensors[i].count * sizeof(float));
        at += b->tensors[i].count;
    }
}

static void call(const bench *b, int form)
{
    if (form == ONE) {
        reduce_one(b);
    } else if (form == BY_HAND) {
        reduce_by_hand(b);
    } else {
        must(nexar_allreduce_bucketed(b->world, b->tensors, TENSORS, NEXAR_F32, NEXAR_SUM));
    }
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void measure(const bench *b, size_t mean)
{
    static double times[FORMS][MOST], longest[FORMS][MOST];
    const size_t bytes = b->count * sizeof(float);
    const int rounds = (bytes <= 1 << 18) ? MOST : (bytes <= 4 << 20) ? 100 : 9;

    for (int i = -rounds / 10 - 2; i < rounds; i++) {
        for (int k = 0; k < FORMS; k++) {
            double begun;

            must(nexar_barrier(b->world));
            begun = now_us();
            call(b, k);
            times[k][(i < 0) ? 0 : i] = now_us() - begun;
        }
    }
    for (int k = 0; k < FORMS; k++) {
        must(nexar_allreduce(b->world, times[k], longest[k], (size_t)rounds, NEXAR_F64, NEXAR_MAX));
        qsort(longest[k], (size_t)rounds, sizeof(**longest), by_value);
    }
    if (nexar_rank(b->world) == 0) {
        const double one = longest[ONE][rounds / 2], hand = longest[BY_HAND][rounds / 2],
                     all = longest[BUCKETED][rounds / 2];

        (void)printf("%7zu B each %9zu B  one %9.1f us  by hand %9.1f us %5.2f  "
                     "bucketed %9.1f us %5.2f\n",
                     mean, bytes, one, hand, hand / one, all, all / one);
        (void)fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    static const size_t means[] = {16, 64, 1024, 65536};
    const nxb_args args = nxb_args_take(argc, argv, WORDS, help);
    const size_t n = (args.n > 0) ? args.n : sizeof(means) / sizeof(means[0]);
    size_t mean[WORDS];
    static bench b;

    for (size_t i = 0; i < n; i++) {
        mean[i] = nxb_args_number(&args, i, (args.n > 0) ? 0 : means[i], 8, (size_t)4 << 20);
    }

    must(nexar_init(NULL, &b.world));
    for (size_t i = 0; i < n; i++) {
        cut(&b, mean[i]);
        measure(&b, mean[i]);
        free(b.scattered);
        free(b.one);
    }
    must(nexar_finalize(b.world));
    return 0;
}
