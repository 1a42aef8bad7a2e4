/*
 * nonblocking_overlap.c - an allreduce that runs while the program computes.
 *
 *     nexar run -n 2 ./nonblocking_overlap [MIB [RANKS]]
 *
 * The program measures three times: the allreduce alone, the computation alone (made about as
 * long), and both at once. If both take as long as the longer one, the overlap is 100 %; if they
 * take the sum, it is 0 %. nexar moves data in its own thread, so an overlap needs a free core.
 * With fewer than two cores per rank let only the first RANKS compute. bench/overlap.sh measures
 * it over a network.
 */
#include <nexar.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { MIB = 16, MIB_MAX = 4096, FLOATS_PER_MIB = 1 << 18, ROUNDS = 5 };

static int computing = 1 << 30; /* the number of ranks that compute, from rank 0 */

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
    double network, compute, both; /* seconds, the minimum of several rounds */
} times;

typedef struct vector {
    float *data;
    size_t count;
} vector;

/* Runs the allreduce, the computation, or both: |v| may be NULL and |steps| 0. */
static nexar_err once(nexar_comm *world, const vector *v, uint64_t steps, double *seconds)
{
    nexar_request *req = NULL;
    volatile double result; /* keeps the computation alive */
    double start = now_s();
    nexar_err err = NEXAR_OK;

    if (v != NULL) {
        err =
            nexar_iallreduce(world, NEXAR_IN_PLACE, v->data, v->count, NEXAR_F32, NEXAR_AVG, &req);
    }
    result = compute((nexar_rank(world) < computing) ? steps : 0);
    (void)result;
    if (err == NEXAR_OK) {
        err = nexar_wait(&req, NULL);
    }
    *seconds = now_s() - start;
    return err;
}

/* The minimum over several rounds of the slowest rank's time. All ranks begin a round together. */
static nexar_err measure(nexar_comm *world, const vector *v, uint64_t steps, double *least)
{
    nexar_err err = NEXAR_OK;

    *least = 1e9;
    for (int i = 0; (i < ROUNDS) && (err == NEXAR_OK); i++) {
        double seconds = 0;

        err = nexar_barrier(world);
        if (err == NEXAR_OK) {
            err = once(world, v, steps, &seconds);
        }
        if (err == NEXAR_OK) {
            err = nexar_allreduce(world, NEXAR_IN_PLACE, &seconds, 1, NEXAR_F64, NEXAR_MAX);
        }
        *least = (seconds < *least) ? seconds : *least;
    }
    return err;
}

static nexar_err run(nexar_comm *world, const vector *v, times *t)
{
    uint64_t steps = 1000000;
    nexar_err err = measure(world, v, 0, &t->network);

    if (err == NEXAR_OK) {
        err = measure(world, NULL, steps, &t->compute);
    }
    for (int i = 0; (i < 2) && (err == NEXAR_OK); i++) { /* until about as long as the network */
        steps = (uint64_t)((double)steps * t->network / t->compute) + 1;
        err = measure(world, NULL, steps, &t->compute);
    }
    return (err == NEXAR_OK) ? measure(world, v, steps, &t->both) : err;
}

/* The averages of equal numbers are those numbers. */
static size_t count_wrong(const vector *v)
{
    size_t wrong = 0;

    for (size_t i = 0; i < v->count; i++) {
        wrong += (v->data[i] != (float)(i % 1000));
    }
    return wrong;
}

/* Memory of |mib| MiB, filled; NULL data: there is none. */
static vector make_vector(long mib)
{
    vector v = {.count = (size_t)mib * FLOATS_PER_MIB};

    v.data = malloc(v.count * sizeof(*v.data));
    for (size_t i = 0; (i < v.count) && (v.data != NULL); i++) {
        v.data[i] = (float)(i % 1000);
    }
    return v;
}

static void report(const times *t)
{
    const double less = (t->network < t->compute) ? t->network : t->compute;
    const double overlap = 100 * (t->network + t->compute - t->both) / less;

    (void)printf("allreduce %.1f ms, compute %.1f ms, both %.1f ms: overlap %.0f %%\n",
                 t->network * 1e3, t->compute * 1e3, t->both * 1e3, (overlap > 0) ? overlap : 0);
}

int main(int argc, char **argv)
{
    const long mib = (argc > 1) ? strtol(argv[1], NULL, 10) : MIB;
    times t = {0};
    nexar_comm *world;
    int code = 1;

    computing = (argc > 2) ? (int)strtol(argv[2], NULL, 10) : computing;
    if ((argc > 3) || (mib < 1) || (mib > MIB_MAX) || (computing < 1)) {
        (void)fprintf(stderr,
                      "usage: nonblocking_overlap [MIB [RANKS]]\n"
                      "MIB: 1 to %d; RANKS: how many compute, 1 and more\n",
                      MIB_MAX);
        return 2;
    }
    vector v = make_vector(mib);
    if (v.data == NULL) {
        (void)fprintf(stderr, "nonblocking_overlap: out of memory\n");
    } else if ((nexar_init(NULL, &world) != NEXAR_OK) || (run(world, &v, &t) != NEXAR_OK)) {
        (void)fprintf(stderr, "nonblocking_overlap: %s\n", nexar_last_error());
    } else if (count_wrong(&v) > 0) {
        (void)fprintf(stderr, "nonblocking_overlap: %zu numbers are wrong\n", count_wrong(&v));
    } else {
        if (nexar_rank(world) == 0) {
            report(&t);
        }
        code = (nexar_finalize(world) == NEXAR_OK) ? 0 : 1;
    }
    free(v.data);
    return code;
}
