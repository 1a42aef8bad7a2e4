/*
 * exchange.c - every rank sends every other rank messages of many sizes, and
 * checks what it gets.  For tests that care about the network in between.
 *
 *     exchange [ROUNDS] [LARGEST]
 *
 * Prints "exchange ok: ..." on rank 0.  The words SECRET-WORD stand in every
 * message, for those who listen.
 */
#include <nexar.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char secret[] = "SECRET-WORD";

static void die(const char *what)
{
    (void)fprintf(stderr, "exchange: %s: %s\n", what, nexar_last_error());
    exit(1);
}

static unsigned char byte_of(size_t i, int from, int to, int round)
{
    if (i < sizeof(secret)) {
        return (unsigned char)secret[i];
    }
    return (unsigned char)((i * 31 + i / 251 + (size_t)from * 7 + (size_t)to * 13) ^ (size_t)round);
}

static void fill(unsigned char *buf, size_t bytes, int from, int to, int round)
{
    for (size_t i = 0; i < bytes; i++) {
        buf[i] = byte_of(i, from, to, round);
    }
}

static void check(const unsigned char *buf, size_t bytes, int from, int to, int round)
{
    for (size_t i = 0; i < bytes; i++) {
        if (buf[i] != byte_of(i, from, to, round)) {
            (void)fprintf(stderr, "exchange: byte %zu of %zu from rank %d to %d is wrong\n", i,
                          bytes, from, to);
            exit(1);
        }
    }
}

int main(int argc, char **argv)
{
    const int rounds = (argc > 1) ? atoi(argv[1]) : 4;
    const size_t largest = (argc > 2) ? (size_t)strtoull(argv[2], NULL, 10) : 1 << 20;
    unsigned char *out = malloc(largest + 1), *in = malloc(largest + 1);
    unsigned long long moved = 0;
    nexar_comm *world = NULL;

    if ((out == NULL) || (in == NULL)) {
        return 1;
    }
    if (nexar_init(NULL, &world) != NEXAR_OK) {
        die("init");
    }
    const int me = nexar_rank(world), size = nexar_size(world);

    for (int round = 0; round < rounds; round++) {
        for (int k = 1; k < size; k++) {
            const int to = (me + k) % size, from = (me + size - k) % size;
            const size_t bytes = (round % 4 == 0)   ? 64
                                 : (round % 4 == 1) ? 5000
                                 : (round % 4 == 2) ? largest
                                                    : largest / 7;
            nexar_status status;

            fill(out, bytes, me, to, round);
            if (nexar_sendrecv(world, out, bytes, to, (uint64_t)round, in, largest, from,
                               (uint64_t)round, &status) != NEXAR_OK) {
                die("sendrecv");
            }
            if (status.bytes != bytes) {
                (void)fprintf(stderr, "exchange: %zu bytes instead of %zu\n", status.bytes, bytes);
                return 1;
            }
            check(in, bytes, from, me, round);
            moved += bytes;
        }
    }
    if (nexar_finalize(world) != NEXAR_OK) {
        die("finalize");
    }
    if (me == 0) {
        (void)printf("exchange ok: %d ranks, %llu bytes received by each\n", size, moved);
    }
    free(out);
    free(in);
    return 0;
}
