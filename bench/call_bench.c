/*
 * call_bench.c - the time of one call between two ranks, in C. call_bench.py makes the same calls
 * in Python; call_bench.sh runs both, and mpi4py, and compares.
 *
 * Each line: a case, its bytes, microseconds (the median of the batches).
 */
#include <nexar.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "args.h"

static const char help[] =
    "usage: nexar run -n 2 --no-prefix call_bench\n"
    "\n"
    "For allreduce, broadcast, half a round trip (exchange) and isend with wait, a line for\n"
    "each size: the case, bytes, microseconds.\n";

enum { BATCHES = 21, SHORT = 64 << 10, WINDOW = 32, LARGEST = 64 << 20 };

static const size_t sizes[] = {8, 1 << 10, 64 << 10, 1 << 20, LARGEST};

static nexar_comm *w;
static void *buf;

static double now_us(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void check(nexar_err err)
{
    if (err != NEXAR_OK) {
        (void)fprintf(stderr, "call_bench: %s\n", nexar_last_error());
        _exit(1);
    }
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void allreduce(size_t bytes)
{
    check(nexar_allreduce(w, NEXAR_IN_PLACE, buf, bytes / 8, NEXAR_F64, NEXAR_MAX));
}

static void broadcast(size_t bytes)
{
    check(nexar_broadcast(w, buf, bytes / 8, NEXAR_F64, 0));
}

static void exchange(size_t bytes)
{
    if (nexar_rank(w) == 0) {
        check(nexar_send(w, buf, bytes, 1, 1));
        check(nexar_recv(w, buf, bytes, 1, 1, NULL));
    } else {
        check(nexar_recv(w, buf, bytes, 0, 1, NULL));
        check(nexar_send(w, buf, bytes, 0, 1));
    }
}

/* Calls of a batch. */
static int calls_of(size_t bytes)
{
    if (bytes <= SHORT) {
        return 200;
    }
    return (bytes <= ((size_t)1 << 20)) ? 20 : 1;
}

static void print(const char *name, size_t bytes, double *took, double per)
{
    qsort(took, BATCHES, sizeof(*took), by_value);
    if (nexar_rank(w) == 0) {
        (void)printf("%s %zu %.3f\n", name, bytes, took[BATCHES / 2] / per);
        (void)fflush(stdout);
    }
}

static void measure(const char *name, void (*call)(size_t bytes), double halves)
{
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        const int n = calls_of(sizes[s]);
        double took[BATCHES];

        for (int b = -1; b < BATCHES; b++) { /* the first warms up */
            double begin;

            check(nexar_barrier(w));
            begin = now_us();
            for (int i = 0; i < n; i++) {
                call(sizes[s]);
            }
            if (b >= 0) {
                took[b] = now_us() - begin;
            }
        }
        print(name, sizes[s], took, n * halves);
    }
}

/* Only isend and wait are timed; the receiver answers once for a window. */
static void send_window(void)
{
    for (int i = 0; i < WINDOW; i++) {
        nexar_request *req;

        check(nexar_isend(w, buf, 8, 1, 2, &req));
        check(nexar_wait(&req, NULL));
    }
}

static void measure_isend(void)
{
    double took[BATCHES];

    for (int b = -1; b < BATCHES; b++) {
        const double begin = now_us();

        if (nexar_rank(w) == 0) {
            send_window();
            if (b >= 0) {
                took[b] = now_us() - begin;
            }
            check(nexar_recv(w, buf, 8, 1, 3, NULL));
        } else {
            for (int i = 0; i < WINDOW; i++) {
                check(nexar_recv(w, buf, 8, 0, 2, NULL));
            }
            check(nexar_send(w, buf, 8, 0, 3));
            took[(b >= 0) ? b : 0] = 0;
        }
    }
    print("isend", 8, took, WINDOW);
}

int main(int argc, char **argv)
{
    (void)nxb_args_take(argc, argv, 0, help);
    check(nexar_init(NULL, &w));
    if ((posix_memalign(&buf, 4096, LARGEST) != 0) || (nexar_size(w) != 2)) {
        (void)fprintf(stderr, "call_bench: needs two ranks, and memory\n");
        return 1;
    }
    memset(buf, 0, LARGEST);
    measure("allreduce", allreduce, 1);
    measure("broadcast", broadcast, 1);
    measure("exchange", exchange, 2);
    measure_isend();
    free(buf);
    check(nexar_finalize(w));
    return 0;
}
