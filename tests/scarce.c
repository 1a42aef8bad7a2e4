/*
 * scarce.c - ranks that have few file descriptors left when they meet.
 *
 *     nexar run -n 3 scarce FREE [ODD]
 *
 * Each rank, or with ODD each second one, takes all descriptors but FREE before it talks
 * to the others; then messages go between all pairs, and collectives on memory of nexar_alloc.
 * Prints one line and exits with 0 if all was right.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <nexar.h>

enum { MESSAGE = 300000, COUNT = 100000, LIMIT = 256 };

static void must(int ok, const char *what)
{
    if (!ok) {
        (void)fprintf(stderr, "scarce: %s: %s\n", what, nexar_last_error());
        _exit(1);
    }
}

/* Takes all descriptors but |left|. */
static void take_descriptors(int left)
{
    const struct rlimit few = {.rlim_cur = LIMIT, .rlim_max = LIMIT};
    int taken[LIMIT], n = 0;

    must(setrlimit(RLIMIT_NOFILE, &few) == 0, "setrlimit");
    while ((n < LIMIT) && ((taken[n] = dup(0)) >= 0)) {
        n++;
    }
    must((errno == EMFILE) && (n >= left), "taking descriptors");
    for (int i = 0; i < left; i++) {
        (void)close(taken[n - 1 - i]);
    }
}

/* Rank 0 calls: nobody calls it. */
static void listen_to_first(nexar_comm *w)
{
    uint32_t word = 77;

    for (int to = 1; (nexar_rank(w) == 0) && (to < nexar_size(w)); to++) {
        must(nexar_send(w, &word, sizeof(word), to, 2) == NEXAR_OK, "send");
    }
    if (nexar_rank(w) != 0) {
        word = 0;
        must(nexar_recv(w, &word, sizeof(word), 0, 2, NULL) == NEXAR_OK, "recv");
        must(word == 77, "a word is wrong");
    }
}

static void talk(nexar_comm *w)
{
    static uint8_t out[MESSAGE], in[MESSAGE];
    const int n = nexar_size(w), me = nexar_rank(w);

    for (int i = 1; i < n; i++) {
        const int to = (me + i) % n, from = (me + n - i) % n;
        nexar_request *req = NULL;

        memset(out, me + 1, sizeof(out));
        must(nexar_irecv(w, in, sizeof(in), from, 3, &req) == NEXAR_OK, "irecv");
        must(nexar_send(w, out, sizeof(out), to, 3) == NEXAR_OK, "send");
        must(nexar_wait(&req, NULL) == NEXAR_OK, "wait");
        must((in[0] == from + 1) && (in[MESSAGE - 1] == from + 1), "a message is wrong");
    }
}

int main(int argc, char **argv)
{
    void *memory[2] = {NULL, NULL};
    int32_t *in, *out;
    const int left = (argc > 1) ? (int)strtol(argv[1], NULL, 10) : 0;
    nexar_comm *w;
    int n, me;

    must(nexar_init(NULL, &w) == NEXAR_OK, "init");
    n = nexar_size(w);
    me = nexar_rank(w);
    if ((argc <= 2) || (me % 2 == 1)) {
        take_descriptors(left);
    }
    listen_to_first(w);
    talk(w);
    must(nexar_alloc(w, COUNT * sizeof(*in), &memory[0]) == NEXAR_OK, "alloc");
    must(nexar_alloc(w, COUNT * sizeof(*out), &memory[1]) == NEXAR_OK, "alloc");
    in = memory[0];
    out = memory[1];
    for (int round = 0; round < 20; round++) {
        const size_t count = (round % 2 == 0) ? 5 : COUNT;

        for (size_t i = 0; i < count; i++) {
            in[i] = me + round;
        }
        must(nexar_allreduce(w, in, out, count, NEXAR_I32, NEXAR_SUM) == NEXAR_OK, "allreduce");
        must(out[count - 1] == n * (n - 1) / 2 + n * round, "a sum is wrong");
    }
    nexar_free(w, memory[0]);
    nexar_free(w, memory[1]);
    if (me == 0) {
        (void)printf("scarce: all was right\n");
    }
    must(nexar_finalize(w) == NEXAR_OK, "finalize");
    return 0;
}
