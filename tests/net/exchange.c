/*
 * exchange.c - in every round each rank sends every other rank a message and checks the messages it
 * receives. For tests that care about the network in between.
 *
 *     exchange [--until FILE] [--survive] [ROUNDS] [LARGEST]
 *
 * Prints "rank R of N" when the world has formed, "round K" after each round, and
 * "exchange ok: ..." at the end.  With --until the rounds continue until rank 0 finds the
 * file.  With --survive each rank reports a failed rank and continues without it:
 *
 *     lost rank P after S s: NAME: sentence
 *
 * (S since the round began) instead of ending this one. SECRET-WORD is in every message, for
 * eavesdroppers.
 */
#include <nexar.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { STOP_AT = 12, MOST_RANKS = 64 };

static const char secret[] = "SECRET-WORD";

typedef struct peer {
    unsigned char *out, *in;
    nexar_request *send, *recv;
    bool lost;
} peer;

static const char *until;
static bool survive, stopping;
static size_t rounds = 12, largest = 1 << 20;
static unsigned long long moved;
static peer peers[MOST_RANKS];

static _Noreturn void die(const char *what)
{
    (void)fprintf(stderr, "exchange: %s: %s\n", what, nexar_last_error());
    exit(1);
}

static double now_s(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* Empty, about one datagram, around the inline limit, around the eager limit, and long. */
static size_t size_of(size_t round)
{
    const size_t sizes[] = {64,    0,     1252,  1473,   5000,        8192,
                            10000, 65536, 65537, 262145, largest / 7, largest};
    const size_t size = sizes[round % (sizeof(sizes) / sizeof(sizes[0]))];

    return (size < largest) ? size : largest;
}

static unsigned char byte_of(size_t i, int from, int to, size_t round)
{
    if (i < sizeof(secret)) {
        return (unsigned char)secret[i];
    }
    return (unsigned char)((i * 31 + i / 251 + (size_t)from * 7 + (size_t)to * 13) ^ round);
}

static void fill(unsigned char *buf, size_t bytes, int from, int to, size_t round)
{
    for (size_t i = 0; i < bytes; i++) {
        buf[i] = byte_of(i, from, to, round);
    }
    if (bytes > STOP_AT) {
        buf[STOP_AT] = stopping;
    }
}

static void check(const unsigned char *buf, size_t bytes, int from, int to, size_t round)
{
    if (bytes != size_of(round)) {
        (void)fprintf(stderr, "exchange: %zu bytes instead of %zu\n", bytes, size_of(round));
        exit(1);
    }
    for (size_t i = 0; i < bytes; i++) {
        if ((i != STOP_AT) && (buf[i] != byte_of(i, from, to, round))) {
            (void)fprintf(stderr, "exchange: byte %zu of %zu from rank %d to %d is wrong\n", i,
                          bytes, from, to);
            exit(1);
        }
    }
    if ((bytes > STOP_AT) && (from == 0)) {
        stopping = stopping || (buf[STOP_AT] != 0);
    }
    moved += bytes;
}

/* Both directions with |p|, as far as that is possible. */
static nexar_err start(nexar_comm *world, int p, size_t round)
{
    const int me = nexar_rank(world);
    nexar_err err;

    fill(peers[p].out, size_of(round), me, p, round);
    err = nexar_irecv(world, peers[p].in, largest, p, round, &peers[p].recv);
    return (err == NEXAR_OK)
               ? nexar_isend(world, peers[p].out, size_of(round), p, round, &peers[p].send)
               : err;
}

static nexar_err finish(nexar_comm *world, int p, size_t round)
{
    nexar_status status = {0};
    nexar_err err = nexar_wait(&peers[p].recv, &status);

    if (err == NEXAR_OK) {
        check(peers[p].in, status.bytes, p, nexar_rank(world), round);
        return nexar_wait(&peers[p].send, NULL);
    }
    return err;
}

static void lose(int p, nexar_err err, double since)
{
    if (!survive) {
        die("a round");
    }
    (void)printf("lost rank %d after %.1f s: %s: %s\n", p, now_s() - since, nexar_err_name(err),
                 nexar_last_error());
    peers[p].lost = true;
    (void)nexar_wait(&peers[p].send, NULL);
}

static void run_round(nexar_comm *world, size_t round)
{
    const int me = nexar_rank(world), size = nexar_size(world);
    const double since = now_s();
    nexar_err err;

    for (int p = 0; p < size; p++) {
        if ((p != me) && !peers[p].lost && ((err = start(world, p, round)) != NEXAR_OK)) {
            lose(p, err, since);
        }
    }
    for (int p = 0; p < size; p++) {
        if ((p != me) && !peers[p].lost && ((err = finish(world, p, round)) != NEXAR_OK)) {
            lose(p, err, since);
        }
    }
}

static void run(nexar_comm *world)
{
    size_t round = 0;

    for (bool more = true; more; round++) {
        /* Rank 0 decides, in a round whose messages can carry the decision. */
        if ((until != NULL) && (nexar_rank(world) == 0) && (size_of(round) > STOP_AT)) {
            stopping = access(until, F_OK) == 0;
        }
        run_round(world, round);
        (void)printf("round %zu\n", round);
        more = (until != NULL) ? !stopping : (round + 1 < rounds);
    }
    rounds = round;
}

static void read_options(int argc, char **argv)
{
    int i = 1;

    for (; (i < argc) && (argv[i][0] == '-'); i++) {
        survive = survive || (strcmp(argv[i], "--survive") == 0);
        if ((strcmp(argv[i], "--until") == 0) && (i + 1 < argc)) {
            until = argv[++i];
        }
    }
    rounds = (i < argc) ? (size_t)strtoull(argv[i], NULL, 10) : rounds;
    largest = (i + 1 < argc) ? (size_t)strtoull(argv[i + 1], NULL, 10) : largest;
}

int main(int argc, char **argv)
{
    nexar_comm *world = NULL;

    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    read_options(argc, argv);
    if (nexar_init(NULL, &world) != NEXAR_OK) {
        die("init");
    }
    if (nexar_size(world) > MOST_RANKS) {
        (void)fprintf(stderr, "exchange: at most %d ranks\n", MOST_RANKS);
        return 1;
    }
    (void)printf("rank %d of %d\n", nexar_rank(world), nexar_size(world));
    for (int p = 0; p < nexar_size(world); p++) {
        peers[p].out = malloc(largest + 1);
        peers[p].in = malloc(largest + 1);
        if ((peers[p].out == NULL) || (peers[p].in == NULL)) {
            return 1;
        }
    }
    run(world);
    const int size = nexar_size(world);
    if ((nexar_finalize(world) != NEXAR_OK) && !survive) {
        die("finalize");
    }
    (void)printf("exchange ok: %d ranks, %zu rounds, %llu bytes received\n", size, rounds, moved);
    for (int p = 0; p < size; p++) {
        free(peers[p].out);
        free(peers[p].in);
    }
    return 0;
}
