/*
 * storm.c - messages, reductions and remote calls while signals come all the time.
 *
 *     nexar run -n 2 storm ROUNDS [report]
 *
 * With interrupt.c linked in: NXT_SIGNALS and NXT_CALLS of support/interrupt.h say what comes.
 * report: a thread also sends this process SIGUSR1 without end, for which the library prints where
 * it stands.  All content is checked, and that descriptors 0 to 2 stay closed if they are.  Prints
 * one line and exits with 0 if all was right.
 */
#include <nexar.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "interrupt.h"

enum { BYTES = 1600000, COUNT = 100000, REQUEST = 300000, REPORT_US = 1000, MIRROR = 1 };

static uint8_t out[BYTES], in[BYTES];
static float sums[COUNT], parts[COUNT];
static uint8_t request[REQUEST];
static atomic_bool over;

static void must(nexar_err err, const char *what)
{
    if (err != NEXAR_OK) {
        (void)fprintf(stderr, "storm: %s: %s\n", what, nexar_last_error());
        exit(1); // NOLINT(concurrency-mt-unsafe)
    }
}

static void must_be(bool right, const char *what, int round)
{
    if (!right) {
        (void)fprintf(stderr, "storm: round %d: %s is wrong\n", round, what);
        exit(1); // NOLINT(concurrency-mt-unsafe)
    }
}

/* Whether descriptors 0 to 2 are closed. */
static bool is_bare(void)
{
    for (int fd = 0; fd <= 2; fd++) {
        if ((fcntl(fd, F_GETFD) >= 0) || (errno != EBADF)) {
            return false;
        }
    }
    return true;
}

static void *report(void *arg)
{
    while (!atomic_load(&over)) {
        (void)kill(getpid(), SIGUSR1);
        (void)usleep(REPORT_US);
    }
    return arg;
}

static nexar_err mirror(nexar_rpc *call, const void *data, size_t len, void *arg)
{
    (void)arg;
    return nexar_rpc_reply(call, data, len);
}

/* One end of it differs in each round, and the whole in each of 256. */
static void fill(int rank, int round)
{
    memset(out, rank + round, sizeof(out));
    memcpy(out + sizeof(out) - sizeof(round), &round, sizeof(round));
}

static void exchange(nexar_comm *w, int round)
{
    const int rank = nexar_rank(w), other = 1 - rank;
    nexar_request *sent, *got;

    fill(rank, round);
    memset(in, 0, sizeof(in));
    must(nexar_irecv(w, in, sizeof(in), other, 1, &got), "irecv");
    must(nexar_isend(w, out, sizeof(out), other, 1, &sent), "isend");
    must(nexar_wait(&got, NULL), "wait for a message");
    must(nexar_wait(&sent, NULL), "wait for a send");
    fill(other, round);
    must_be(memcmp(in, out, sizeof(in)) == 0, "a message", round);
}

static void reduce(nexar_comm *w, int round)
{
    nexar_request *r;

    for (int i = 0; i < COUNT; i++) {
        parts[i] = (float)((i + round + nexar_rank(w)) % 1000);
    }
    must(nexar_iallreduce(w, parts, sums, COUNT, NEXAR_F32, NEXAR_SUM, &r), "iallreduce");
    must(nexar_wait(&r, NULL), "wait for a sum");
    for (int i = 0; i < COUNT; i++) {
        must_be(sums[i] == (float)((i + round) % 1000) + (float)((i + round + 1) % 1000), "a sum",
                round);
    }
}

static void call(nexar_comm *w, int round)
{
    void *reply = NULL;
    size_t len = 0;

    memset(request, round, sizeof(request));
    must(nexar_rpc_call(w, 1 - nexar_rank(w), MIRROR, request, sizeof(request), &reply, &len),
         "rpc_call");
    must_be((len == sizeof(request)) && (memcmp(reply, request, len) == 0), "a reply", round);
    free(reply);
}

int main(int argc, char **argv)
{
    const int rounds = (argc < 2) ? 100 : (int)strtol(argv[1], NULL, 10);
    const bool bare = is_bare();
    const bool reports = (argc > 2) && (strcmp(argv[2], "report") == 0);
    pthread_t reporter;
    nexar_comm *w;

    must(nexar_init(NULL, &w), "init");
    must(nexar_rpc_register(w, MIRROR, mirror, NULL), "rpc_register");
    must(nexar_barrier(w), "barrier");
    if (reports && (pthread_create(&reporter, NULL, report, NULL) != 0)) {
        return 1;
    }
    for (int i = 0; i < rounds; i++) {
        exchange(w, i);
        if (i % 8 == 0) {
            reduce(w, i);
            call(w, i);
        }
    }
    must(nexar_barrier(w), "barrier");
    if (reports) {
        atomic_store(&over, true);
        (void)pthread_join(reporter, NULL);
    }
    must_be(is_bare() == bare, "a descriptor of the program", rounds);
    if ((nexar_rank(w) == 0) && !bare) {
        (void)printf("storm: %d rounds, %lu signals and faults\n", rounds, nxt_interrupt_count());
    }
    must(nexar_finalize(w), "finalize");
    return 0;
}
