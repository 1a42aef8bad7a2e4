/*
 * bucketed_gradients.c - the gradients of a network are many tensors, most of them small. One
 * call averages them all in place, with one set of messages.
 *
 *     nexar run -n 4 ./bucketed_gradients
 *
 * The example repeats this with one call per tensor, and compares results and times.
 */
#include <nexar.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TENSORS = 200 };

static double now_s(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Weights and biases alternate: odd sizes, large and small. */
static size_t length(int tensor)
{
    return (tensor % 2 == 0) ? (size_t)(tensor * 37 + 501) : (size_t)(tensor % 17 + 1);
}

/* Places the tensors in |memory|; gradient i of rank r is r * 0.5 + i % 100. */
static void lay_out(float *memory, int rank, nexar_tensor tensors[])
{
    for (int k = 0; k < TENSORS; k++) {
        tensors[k] = (nexar_tensor){.ptr = memory, .count = length(k)};
        for (size_t i = 0; i < length(k); i++) {
            *memory++ = (float)rank * 0.5F + (float)(i % 100);
        }
    }
}

static nexar_err one_by_one(nexar_comm *world, const nexar_tensor tensors[])
{
    nexar_err err = NEXAR_OK;

    for (int k = 0; (k < TENSORS) && (err == NEXAR_OK); k++) {
        err = nexar_allreduce(world, NEXAR_IN_PLACE, tensors[k].ptr, tensors[k].count, NEXAR_F32,
                              NEXAR_AVG);
    }
    return err;
}

static size_t count_wrong(const nexar_tensor a[], const nexar_tensor b[], int size)
{
    size_t wrong = 0;

    for (int k = 0; k < TENSORS; k++) {
        const float *x = a[k].ptr, *y = b[k].ptr;

        for (size_t i = 0; i < a[k].count; i++) {
            /* The mean of r * 0.5 over the ranks, which is exact. */
            const float want = (float)(size - 1) * 0.25F + (float)(i % 100);
            const float off = (x[i] > want) ? x[i] - want : want - x[i];

            wrong += (off > 1e-4F) || (y[i] - x[i] > 1e-4F) || (x[i] - y[i] > 1e-4F);
        }
    }
    return wrong;
}

static nexar_err run(nexar_comm *world, float *a, float *b, size_t *wrong)
{
    nexar_tensor bucket[TENSORS], single[TENSORS];
    double start, together = 0, apart = 0;
    nexar_err err = NEXAR_OK;

    for (int round = 0; (round < 2) && (err == NEXAR_OK); round++) { /* the first warms up */
        lay_out(a, nexar_rank(world), bucket);
        lay_out(b, nexar_rank(world), single);
        start = now_s();
        err = nexar_allreduce_bucketed(world, bucket, TENSORS, NEXAR_F32, NEXAR_AVG);
        together = now_s() - start;
        if (err == NEXAR_OK) {
            start = now_s();
            err = one_by_one(world, single);
            apart = now_s() - start;
        }
    }
    if (err == NEXAR_OK) {
        *wrong = count_wrong(bucket, single, nexar_size(world));
    }
    if ((err == NEXAR_OK) && (nexar_rank(world) == 0)) {
        (void)printf("%d tensors: %.2f ms in one bucket, %.2f ms one by one\n", (int)TENSORS,
                     together * 1e3, apart * 1e3);
    }
    return err;
}

int main(void)
{
    size_t total = 0, wrong = 0;
    nexar_comm *world;
    float *a, *b;
    int code = 0;

    for (int k = 0; k < TENSORS; k++) {
        total += length(k);
    }
    a = malloc(total * sizeof(*a));
    b = malloc(total * sizeof(*b));
    if ((a == NULL) || (b == NULL)) {
        (void)fprintf(stderr, "bucketed_gradients: out of memory\n");
        code = 1;
    } else if ((nexar_init(NULL, &world) != NEXAR_OK) || (run(world, a, b, &wrong) != NEXAR_OK) ||
               (nexar_finalize(world) != NEXAR_OK)) {
        (void)fprintf(stderr, "bucketed_gradients: %s\n", nexar_last_error());
        code = 1;
    } else if (wrong > 0) {
        (void)fprintf(stderr, "bucketed_gradients: %zu gradients are wrong\n", wrong);
        code = 1;
    }
    free(a);
    free(b);
    return code;
}
