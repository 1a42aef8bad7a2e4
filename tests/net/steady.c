/*
 * steady.c - repeats one operation, checks it, and reports how long it was held up. For tests that
 * cut the network in between.
 *
 *     steady --until FILE stream|small|large|rpc|idle
 *
 *     stream  messages of 1 MiB to the next rank, numbered: none may be missing or repeated
 *     small   allreduces of 8 bytes, large: of 4 MiB
 *     rpc     calls to the next rank, which counts them
 *     idle    nothing; then a message travels around the ring
 *
 * Prints "begun" after the first step, "pause FROM TO" (in ms since 1970) for each step
 * that took longer than 150 ms and, when rank 0 has found the file, "steady ok: N steps".
 */
#include <nexar.h>

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MESSAGE = 1 << 20, LARGE = 1 << 19, ASK_EVERY = 16, PAUSE_MS = 150, COUNT = 1 };

static const char *until, *mode;
static nexar_comm *world;
static int rank, size;
static uint64_t called; /* by the previous rank */
static uint64_t *out, *in;

static _Noreturn void die(const char *what)
{
    (void)fprintf(stderr, "steady: %s: %s\n", what, nexar_last_error());
    exit(1);
}

static void check(nexar_err err, const char *what)
{
    if (err != NEXAR_OK) {
        die(what);
    }
}

static void expect(bool right, const char *what)
{
    if (!right) {
        (void)fprintf(stderr, "steady: %s\n", what);
        exit(1);
    }
}

static int64_t now_ms(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_REALTIME, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* ---- operations --------------------------------------------------------------------- */

static void fill(uint64_t *words, uint64_t number, int from)
{
    for (size_t i = 0; i < MESSAGE / sizeof(*words); i++) {
        words[i] = number * 1000003 + i * 31 + (uint64_t)from;
    }
}

static void stream(uint64_t number)
{
    const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
    nexar_status status;

    fill(out, number, rank);
    check(nexar_sendrecv(world, out, MESSAGE, next, 1, in, MESSAGE, previous, 1, &status),
          "sendrecv");
    fill(out, number, previous);
    expect(memcmp(out, in, MESSAGE) == 0, "a message that is not the next one");
}

static void reduce(uint64_t number, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        out[i] = number * 7 + i + (uint64_t)rank;
    }
    check(nexar_allreduce(world, out, in, count, NEXAR_U64, NEXAR_SUM), "allreduce");
    for (size_t i = 0; i < count; i++) {
        uint64_t sum = 0;

        for (int r = 0; r < size; r++) {
            sum += number * 7 + i + (uint64_t)r;
        }
        expect(in[i] == sum, "a wrong sum");
    }
}

static nexar_err on_count(nexar_rpc *call, const void *data, size_t bytes, void *arg)
{
    uint64_t number = 0;

    (void)arg;
    if (bytes == sizeof(number)) {
        memcpy(&number, data, sizeof(number));
    }
    if (number != called) {
        return NEXAR_EINVAL; /* one is missing, or repeated */
    }
    called++;
    return nexar_rpc_reply(call, &called, sizeof(called));
}

static void call_next(uint64_t number)
{
    uint64_t answer = 0;
    void *reply = NULL;
    size_t got = 0;

    check(nexar_rpc_call(world, (rank + 1) % size, COUNT, &number, sizeof(number), &reply, &got),
          "rpc");
    if (got == sizeof(answer)) {
        memcpy(&answer, reply, sizeof(answer));
    }
    free(reply);
    expect(answer == number + 1, "a wrong reply");
}

/* Rank 0 waits for the file; the others wait for its message. */
static void idle(void)
{
    const struct timespec little = {.tv_nsec = 20000000};
    int word = 0;

    while ((rank == 0) && (access(until, F_OK) != 0)) {
        (void)nanosleep(&little, NULL);
    }
    if (rank > 0) {
        check(nexar_recv(world, &word, sizeof(word), rank - 1, 2, NULL), "recv");
        expect(word == rank, "a wrong word");
    }
    word++;
    if (rank + 1 < size) {
        check(nexar_send(world, &word, sizeof(word), rank + 1, 2), "send");
    }
}

static void step(uint64_t number)
{
    if (strcmp(mode, "stream") == 0) {
        stream(number);
    } else if (strcmp(mode, "small") == 0) {
        reduce(number, 1);
    } else if (strcmp(mode, "large") == 0) {
        reduce(number, LARGE);
    } else if (strcmp(mode, "rpc") == 0) {
        call_next(number);
    } else if (number > 0) {
        idle();
    }
}

/* ---- repetition ----------------------------------------------------------------------- */

static bool is_over(void)
{
    float mine = ((rank == 0) && (access(until, F_OK) == 0)) ? 1 : 0, all = 0;

    check(nexar_allreduce(world, &mine, &all, 1, NEXAR_F32, NEXAR_SUM), "allreduce");
    return all > 0;
}

static void run(void)
{
    const bool once = (strcmp(mode, "idle") == 0);
    uint64_t n = 0;
    bool over = false;

    while (!over) {
        const int64_t begin = now_ms();

        step(n++);
        over = once ? (n == 2) : (n % ASK_EVERY == 0) && is_over();
        if (n == 1) {
            check(nexar_barrier(world), "barrier");
            (void)printf("begun\n");
        } else if (now_ms() - begin > PAUSE_MS) {
            (void)printf("pause %" PRId64 " %" PRId64 "\n", begin, now_ms());
        }
    }
    check(nexar_finalize(world), "finalize");
    (void)printf("steady ok: %" PRIu64 " steps\n", n);
}

int main(int argc, char **argv)
{
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    if ((argc != 4) || (strcmp(argv[1], "--until") != 0)) {
        (void)fprintf(stderr, "usage: steady --until FILE MODE\n");
        return 1;
    }
    until = argv[2];
    mode = argv[3];
    out = malloc(LARGE * sizeof(uint64_t));
    in = malloc(LARGE * sizeof(uint64_t));
    expect((out != NULL) && (in != NULL), "no memory");
    check(nexar_init(NULL, &world), "init");
    rank = nexar_rank(world);
    size = nexar_size(world);
    check(nexar_rpc_register(world, COUNT, on_count, NULL), "register");
    check(nexar_barrier(world), "barrier");
    run();
    free(out);
    free(in);
    return 0;
}
