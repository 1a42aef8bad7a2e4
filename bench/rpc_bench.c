/*
 * rpc_bench.c - the cost of a remote call, compared with a round trip of a message: two ranks of
 * this process over QUIC on the loopback.
 *
 * The other rank is idle (its application computes, so the runtime drives the loop), or waits in
 * a receive (that thread drives the loop). Rounds of each kind alternate. One line per kind has
 * the median over rounds of the mean time. Then concurrent calls follow.
 */
#include <nexar.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "args.h"
#include "base/clock.h"

static const char help[] =
    "usage: rpc_bench\n"
    "\n"
    "What a remote call costs beside a message there and back: two ranks of this process\n"
    "over QUIC on loopback, medians.\n";

enum { ECHO = 1, PING = 1, STOP = 2, ROUNDS = 9, EACH = 1000, FLIGHT = 64, TURNS = 100 };

static nexar_comm *worlds[2];

static void must(nexar_err err)
{
    if (err != NEXAR_OK) {
        (void)fprintf(stderr, "rpc_bench: %s\n", nexar_last_error());
        _exit(1);
    }
}

static nexar_err echo(nexar_rpc *call, const void *data, size_t bytes, void *arg)
{
    (void)arg;
    return nexar_rpc_reply(call, data, bytes);
}

/* Rank 1: answers messages until it is notified to stop. */
static void *answer(void *arg)
{
    nexar_status status = {0};
    uint64_t word = 0;

    (void)arg;
    while (status.tag != STOP) {
        must(nexar_recv(worlds[1], &word, sizeof(word), 0, NEXAR_ANY_TAG, &status));
        if (status.tag == PING) {
            must(nexar_send(worlds[1], &word, sizeof(word), 0, PING));
        }
    }
    return NULL;
}

static void ping_pong(void)
{
    uint64_t word = 1;

    must(nexar_send(worlds[0], &word, sizeof(word), 1, PING));
    must(nexar_recv(worlds[0], &word, sizeof(word), 1, PING, NULL));
}

static void call(void)
{
    uint64_t word = 1;
    void *reply = NULL;
    size_t bytes = 0;

    must(nexar_rpc_call(worlds[0], 1, ECHO, &word, sizeof(word), &reply, &bytes));
    free(reply);
}

/* Mean time of one, in microseconds. */
static double measure(void (*one)(void), int n)
{
    uint64_t began = nx_now(&nx_clock_system);

    for (int i = 0; i < n; i++) {
        one();
    }
    return (double)(nx_now(&nx_clock_system) - began) / 1e3 / n;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void report(const char *what, double *us)
{
    qsort(us, ROUNDS, sizeof(*us), compare);
    (void)printf("%8.1f us  %s\n", us[ROUNDS / 2], what);
}

/* FLIGHT concurrent calls, repeatedly. */
static double in_flight(void)
{
    nexar_request *reqs[FLIGHT];
    uint64_t began = nx_now(&nx_clock_system), word = 1;

    for (int round = 0; round < TURNS; round++) {
        for (int i = 0; i < FLIGHT; i++) {
            must(nexar_rpc_icall(worlds[0], 1, ECHO, &word, sizeof(word), NULL, NULL, &reqs[i]));
        }
        must(nexar_wait_all(FLIGHT, reqs));
    }
    return (double)(nx_now(&nx_clock_system) - began) / 1e3 / FLIGHT / TURNS;
}

int main(int argc, char **argv)
{
    double message[ROUNDS], idle[ROUNDS], waiting[ROUNDS], flight[ROUNDS];
    pthread_t thread;
    uint64_t word = 0;

    (void)nxb_args_take(argc, argv, 0, help);
    must(nexar_init_local(2, NULL, worlds));
    must(nexar_rpc_register(worlds[1], ECHO, echo, NULL));
    (void)measure(call, EACH / 10);
    for (int i = 0; i < ROUNDS; i++) {
        idle[i] = measure(call, EACH);
        flight[i] = in_flight();
        if (pthread_create(&thread, NULL, answer, NULL) != 0) {
            return 1;
        }
        (void)measure(ping_pong, EACH / 10);
        message[i] = measure(ping_pong, EACH);
        waiting[i] = measure(call, EACH);
        must(nexar_send(worlds[0], &word, sizeof(word), 1, STOP));
        (void)pthread_join(thread, NULL);
    }
    report("8 B message there and back", message);
    report("8 B call, the other rank waits in a receive", waiting);
    report("8 B call, the other rank is idle", idle);
    report("8 B call, each of 64 at once, the other rank is idle", flight);
    for (int i = 0; i < 2; i++) {
        must(nexar_finalize(worlds[i]));
    }
    return 0;
}
