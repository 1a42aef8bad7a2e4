/* quic_ranks.c - messages between two ranks: rank 0 chooses the next operation, both execute it. */
#include "quic_ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "quic_limits.h"

enum { TAG_ORDER = 1, TAG_DATA, TAG_DONE };
enum { WINDOW = 256, SHORT = 64, TRIP = 8 };
/* Bytes in flight for long messages. */
static const size_t AHEAD = 8 << 20;

/* An operation of both ranks: |n| messages of |part| bytes from rank 0 to rank 1 or in both
 * directions, |window| at a time; or |n| round trips. n is 0: the end. */
typedef struct order {
    uint64_t part, n, window;
    bool both, trips;
} order;

static void must(nexar_err err)
{
    if (err != NEXAR_OK) {
        (void)fprintf(stderr, "quic_bench: %s\n", nexar_last_error());
        _exit(1);
    }
}

/* The send and receive buffers, as large as was ever needed. */
static struct {
    char *out, *in;
    size_t out_len, in_len;
} buffers;

static void need(char **buffer, size_t *len, size_t bytes)
{
    if (*len < bytes) {
        free(*buffer);
        *buffer = malloc(bytes);
        if (*buffer == NULL) {
            perror("quic_bench");
            _exit(1);
        }
        memset(*buffer, 1, bytes);
        *len = bytes;
    }
}

/* On rank 0: the durations of the last round trips of the last order, in seconds. */
static double trips[1 << 16];
enum { TRIPS = sizeof(trips) / sizeof(trips[0]) };

static void do_trips(nexar_comm *world, const order *o)
{
    const int me = nexar_rank(world);
    char word[TRIP] = {0};

    for (uint64_t i = 0; i < o->n; i++) {
        const double begin = nxb_now_s();

        if (me == 0) {
            must(nexar_send(world, word, TRIP, 1, TAG_DATA));
        }
        must(nexar_recv(world, word, TRIP, 1 - me, TAG_DATA, NULL));
        if (me == 1) {
            must(nexar_send(world, word, TRIP, 0, TAG_DATA));
        }
        trips[i % TRIPS] = nxb_now_s() - begin;
    }
}

static void do_messages(nexar_comm *world, const order *o)
{
    const int me = nexar_rank(world), other = 1 - me;
    const bool sends = o->both || (me == 0), receives = o->both || (me == 1);
    static nexar_request *requests[2 * WINDOW];

    for (uint64_t done = 0; done < o->n; done += o->window) {
        size_t k = 0;

        for (uint64_t i = 0; receives && (i < o->window); i++) {
            must(nexar_irecv(world, buffers.in + i * o->part, o->part, other, TAG_DATA,
                             &requests[k++]));
        }
        for (uint64_t i = 0; sends && (i < o->window); i++) {
            must(nexar_isend(world, buffers.out, o->part, other, TAG_DATA, &requests[k++]));
        }
        must(nexar_wait_all(k, requests));
    }
}

/* Executes |o|; returns the seconds until both ranks are done. */
static double perform(nexar_comm *world, const order *o)
{
    const int me = nexar_rank(world);
    double start;

    if (me == 0) {
        must(nexar_send(world, o, sizeof(*o), 1, TAG_ORDER));
    }
    need(&buffers.out, &buffers.out_len, o->part);
    need(&buffers.in, &buffers.in_len, o->part * o->window);
    must(nexar_barrier(world));
    start = nxb_now_s();
    if (o->trips) {
        do_trips(world, o);
    } else {
        do_messages(world, o);
    }
    if (me == 0) {
        must(nexar_recv(world, NULL, 0, 1, TAG_DONE, NULL));
    } else {
        must(nexar_send(world, NULL, 0, 0, TAG_DONE));
    }
    return nxb_now_s() - start;
}

nexar_comm *nxb_ranks_join(void)
{
    nexar_comm *world;
    order o;

    must(nexar_init(NULL, &world));
    if (nexar_size(world) != 2) {
        (void)fprintf(stderr, "quic_bench: ranks is for two of them: nexar run -n 2 quic_bench\n");
        _exit(2);
    }
    if (nexar_rank(world) == 0) {
        return world;
    }
    nxb_pin_to(1);
    for (;;) {
        must(nexar_recv(world, &o, sizeof(o), 0, TAG_ORDER, NULL));
        if (o.n == 0) {
            must(nexar_finalize(world));
            _exit(0);
        }
        (void)perform(world, &o);
    }
}

void nxb_ranks_end(nexar_comm *world)
{
    const order o = {0};

    must(nexar_send(world, &o, sizeof(o), 1, TAG_ORDER));
    must(nexar_finalize(world));
}

double nxb_ranks_bandwidth(nexar_comm *world, size_t part, uint64_t total, bool both)
{
    order o = {.part = part, .window = (part < AHEAD) ? AHEAD / part : 1, .both = both};

    o.n = (total / part + o.window - 1) / o.window * o.window;
    return (double)(o.n * part) / perform(world, &o) / 1e9;
}

/* Repeats |o|, doubling it each time, until it takes |seconds|; returns the duration of the last
 * run. */
static double for_seconds(nexar_comm *world, order *o, double seconds)
{
    for (;;) {
        const double took = perform(world, o);

        if (took > seconds / 2) {
            return took;
        }
        o->n *= 2;
    }
}

/* The median, as for raw UDP. */
double nxb_ranks_round_trip(nexar_comm *world, double seconds)
{
    order o = {.n = 1024, .trips = true};

    (void)for_seconds(world, &o, seconds);
    return nxb_median(trips, (o.n < TRIPS) ? (size_t)o.n : TRIPS) * 1e6;
}

double nxb_ranks_message_rate(nexar_comm *world, double seconds)
{
    order o = {.part = SHORT, .n = 16 * WINDOW, .window = WINDOW};
    const double took = for_seconds(world, &o, seconds);

    return (double)o.n / took;
}
