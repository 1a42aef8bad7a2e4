/*
 * sizes_bench.c - messages of each size between two ranks: the effect of the settings `inline`
 * and `eager`. sizes.sh compares runs with and without them.
 *
 * For each size a line with the bytes and three figures: microseconds of half a round trip; GB/s
 * of messages in one direction with receives posted first; and the same with receives posted
 * late, after all unexpected messages have arrived.
 */
#include <nexar.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "args.h"

static const char help[] =
    "usage: nexar run -n 2 --no-prefix sizes_bench\n"
    "\n"
    "For each size from 1 KiB to 4 MiB a line: bytes, microseconds of half a round trip,\n"
    "GB/s one way with receives posted before, and with receives posted late.\n";

enum { TAG_DATA = 1, TAG_WORD, WINDOW = 16, LEAST = 1 << 10, MOST = 4 << 20 };

static unsigned char *block; /* WINDOW messages of MOST bytes */

static double now_s(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void check(nexar_err err)
{
    if (err != NEXAR_OK) {
        (void)fprintf(stderr, "sizes_bench: %s\n", nexar_last_error());
        _exit(1);
    }
}

static void word(nexar_comm *w, int from)
{
    char byte = 0;

    if (nexar_rank(w) == from) {
        check(nexar_send(w, &byte, 1, 1 - from, TAG_WORD));
    } else {
        check(nexar_recv(w, &byte, 1, from, TAG_WORD, NULL));
    }
}

static void swap(nexar_comm *w, size_t bytes)
{
    if (nexar_rank(w) == 0) {
        check(nexar_send(w, block, bytes, 1, TAG_DATA));
        check(nexar_recv(w, block, bytes, 1, TAG_DATA, NULL));
    } else {
        check(nexar_recv(w, block, bytes, 0, TAG_DATA, NULL));
        check(nexar_send(w, block, bytes, 0, TAG_DATA));
    }
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double half_trip_us(nexar_comm *w, size_t bytes)
{
    double took[200] = {0};
    const size_t n = (bytes > (size_t)256 << 10) ? 50 : 200;

    for (size_t i = 0; i < n; i++) {
        double begin = now_s();

        swap(w, bytes);
        took[i] = now_s() - begin;
    }
    qsort(took, n, sizeof(took[0]), by_value);
    return took[n / 2] / 2 * 1e6;
}

static void start(nexar_comm *w, size_t bytes, nexar_request **requests)
{
    for (size_t i = 0; i < WINDOW; i++) {
        void *at = block + i * MOST;

        check((nexar_rank(w) == 0) ? nexar_isend(w, at, bytes, 1, TAG_DATA, &requests[i])
                                   : nexar_irecv(w, at, bytes, 0, TAG_DATA, &requests[i]));
    }
}

/* GB/s: a window of messages at a time, then a short reply. */
static double one_way(nexar_comm *w, size_t bytes, int late)
{
    nexar_request *requests[WINDOW];
    double took = 0;
    const int n = (bytes > (size_t)256 << 10) ? 6 : 40;

    for (int i = 0; i < n; i++) {
        double begin;

        if (!late && (nexar_rank(w) == 1)) {
            start(w, bytes, requests);
        }
        word(w, 1);
        begin = now_s();
        if (nexar_rank(w) == 0) {
            start(w, bytes, requests);
        }
        if (late) { /* sent after all unexpected messages, on the same lane */
            word(w, 0);
        }
        if (late && (nexar_rank(w) == 1)) {
            start(w, bytes, requests);
        }
        check(nexar_wait_all(WINDOW, requests));
        word(w, 1);
        took += now_s() - begin;
    }
    return (double)n * WINDOW * (double)bytes / took / 1e9;
}

int main(int argc, char **argv)
{
    nexar_comm *w;

    (void)nxb_args_take(argc, argv, 0, help);
    check(nexar_init(NULL, &w));
    block = malloc((size_t)WINDOW * MOST);
    if ((block == NULL) || (nexar_size(w) != 2)) {
        (void)fprintf(stderr, "sizes_bench: needs two ranks, and memory\n");
        return 1;
    }
    memset(block, 1, (size_t)WINDOW * MOST);
    for (size_t bytes = LEAST; bytes <= MOST; bytes *= 2) {
        double half = half_trip_us(w, bytes), posted = one_way(w, bytes, 0);
        double late = one_way(w, bytes, 1);

        if (nexar_rank(w) == 0) {
            (void)printf("%zu %.2f %.3f %.3f\n", bytes, half, posted, late);
        }
    }
    free(block);
    check(nexar_finalize(w));
    return 0;
}
