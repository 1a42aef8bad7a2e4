/*
 * nonblocking_overlap.c - an allreduce that runs while the program computes.
 *
 *     nexar run -n 2 ./nonblocking_overlap
 *
 * Three times are taken: of the allreduce alone, of the computation alone (made about
 * as long), and of both at once.  Had neither waited for the other, both would take as
 * long as the longer one: that is an overlap of 100 %; one after the other is 0 %.
 * nexar moves data in a thread of its own, so an overlap needs a core that is free.
 */
#include <nexar.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { COUNT = 4 << 20, ROUNDS = 5 }; /* 16 MiB */

static double now_s(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* A computation that needs no memory. */
static double compute(uint64_t steps)
{
    double x = 0.5;

    for (uint64_t i = 0; i < steps; i++) {
        x = 3.9 * x * (1 - x);
    }
    return x;
}

typedef struct times {
    double network, compute, both; /* seconds, the least of some rounds */
} times;

/* Either of them or both: |data| may be NULL and |steps| 0. */
static nexar_err once(nexar_comm *world, float *data, uint64_t steps, double *seconds)
{
    nexar_request *req = NULL;
    volatile double result; /* keeps the computation alive */
    double start = now_s();
    nexar_err err = NEXAR_OK;

    if (data != NULL) {
        err = nexar_iallreduce(world, NEXAR_IN_PLACE, data, COUNT, NEXAR_F32, NEXAR_AVG, &req);
    }
    result = compute(steps);
    (void)result;
    if (err == NEXAR_OK) {
        err = nexar_wait(&req, NULL);
    }
    *seconds = now_s() - start;
    return err;
}

/* The least of some rounds, each begun together; of the slowest rank. */
static nexar_err measure(nexar_comm *world, float *data, uint64_t steps, double *least)
{
    nexar_err err = NEXAR_OK;

    *least = 1e9;
    for (int i = 0; (i < ROUNDS) && (err == NEXAR_OK); i++) {
        double seconds = 0;

        err = nexar_barrier(world);
        if (err == NEXAR_OK) {
            err = once(world, data, steps, &seconds);
        }
        if (err == NEXAR_OK) {
            err = nexar_allreduce(world, NEXAR_IN_PLACE, &seconds, 1, NEXAR_F64, NEXAR_MAX);
        }
        *least = (seconds < *least) ? seconds : *least;
    }
    return err;
}

static nexar_err run(nexar_comm *world, float *data, times *t)
{
    uint64_t steps = 1000000;
    nexar_err err = measure(world, data, 0, &t->network);

    if (err == NEXAR_OK) {
        err = measure(world, NULL, steps, &t->compute);
    }
    for (int i = 0; (i < 2) && (err == NEXAR_OK); i++) { /* until about as long as the network */
        steps = (uint64_t)((double)steps * t->network / t->compute) + 1;
        err = measure(world, NULL, steps, &t->compute);
    }
    return (err == NEXAR_OK) ? measure(world, data, steps, &t->both) : err;
}

/* The averages of equal numbers are those numbers. */
static size_t count_wrong(const float *data)
{
    size_t wrong = 0;

    for (size_t i = 0; i < COUNT; i++) {
        wrong += (data[i] != (float)(i % 1000));
    }
    return wrong;
}

int main(void)
{
    float *data = malloc(COUNT * sizeof(*data));
    times t = {0};
    nexar_comm *world;
    int code = 1;

    for (size_t i = 0; (i < COUNT) && (data != NULL); i++) {
        data[i] = (float)(i % 1000);
    }
    if (data == NULL) {
        (void)fprintf(stderr, "nonblocking_overlap: out of memory\n");
    } else if ((nexar_init(NULL, &world) != NEXAR_OK) || (run(world, data, &t) != NEXAR_OK)) {
        (void)fprintf(stderr, "nonblocking_overlap: %s\n", nexar_last_error());
    } else if (count_wrong(data) > 0) {
        (void)fprintf(stderr, "nonblocking_overlap: %zu numbers are wrong\n", count_wrong(data));
    } else {
        const double less = (t.network < t.compute) ? t.network : t.compute;
        const double overlap = 100 * (t.network + t.compute - t.both) / less;

        if (nexar_rank(world) == 0) {
            (void)printf("allreduce %.1f ms, compute %.1f ms, both %.1f ms: overlap %.0f %%\n",
                         t.network * 1e3, t.compute * 1e3, t.both * 1e3,
                         (overlap > 0) ? overlap : 0);
        }
        code = (nexar_finalize(world) == NEXAR_OK) ? 0 : 1;
    }
    free(data);
    return code;
}
