/*
 * host_damage_test.c - random bytes are written into the board of a communicator: every call of
 * every rank ends, whatever its outcome.
 *
 *     host_damage_test [TRIALS [SEED]]
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "coll/host/board.h"
#include "host_world.h"
#include "local_world.h"
#include "rand.h"
#include "unit.h"

enum { CALLS = 60, SHORT = 3, MIDDLE = 5000, LONG = 60000, PATIENCE_S = 120 };

static uint64_t the_seed;
static unsigned the_trials = 100;

/* The last write and its offset, and the calls that each rank has made; for on_alarm. */
static size_t the_at, the_len;
static uint64_t the_bytes;
static _Atomic unsigned the_calls[4];

/* Called when a trial does not end. */
static void on_alarm(int sig)
{
    char text[160];
    const int len = snprintf( // NOLINT: it ends here
        text, sizeof(text), "\nno end: seed %llu, %zu bytes %llx at %zu, calls %u %u %u %u\n",
        (unsigned long long)the_seed, the_len, (unsigned long long)the_bytes, the_at, the_calls[0],
        the_calls[1], the_calls[2], the_calls[3]);

    (void)sig;
    (void)!write(STDERR_FILENO, text, (size_t)len);
    abort();
}

typedef struct trial {
    uint64_t seed;
    int size;
    _Atomic unsigned calls; /* of all ranks */
    _Atomic unsigned failed, damaged;
    uint8_t *board;          /* of the first rank */
    _Atomic int ready, over; /* ranks that have a board; the first has made its calls */
} trial;

/* The mapping of the board of |size| ranks; the last mapping of that length. */
static uint8_t *find_board(int size)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t bytes = (nx_board_bytes((uint32_t)size) + page - 1) / page * page;
    FILE *maps = fopen("/proc/self/maps", "re");
    uint8_t *found = NULL;
    char line[512];

    while ((maps != NULL) && (fgets(line, sizeof(line), maps) != NULL)) {
        unsigned long from = 0, to = 0;

        if ((sscanf(line, "%lx-%lx", &from, &to) == 2) && (to - from == bytes) && // NOLINT
            (strstr(line, "memfd:nexar") != NULL)) {
            found = (uint8_t *)from; // NOLINT(performance-no-int-to-ptr)
        }
    }
    if (maps != NULL) {
        (void)fclose(maps);
    }
    return found;
}

/* An offset into the shared state of the ranks: their slots, or the heads of their inputs. */
static size_t pick(nxt_rand *r, int size)
{
    const nx_board *b = NULL;
    const size_t rank = nxt_below(r, (uint64_t)size);

    switch (nxt_below(r, 4)) {
    case 0:
        return nxt_below(r, offsetof(nx_board, ranks));
    case 1:
        return offsetof(nx_board, ranks) + rank * sizeof(b->ranks[0]) +
               nxt_below(r, sizeof(b->ranks[0]));
    default:
        return offsetof(nx_board, slots) + (2 * rank + nxt_below(r, 2)) * sizeof(nx_board_slot) +
               nxt_below(r, nxt_one_in(r, 3) ? 256 : 32);
    }
}

/* Writes up to 8 random bytes. */
static void scribble(trial *t, nxt_rand *r)
{
    const uint64_t bytes = nxt_one_in(r, 3) ? 0 : nxt_one_in(r, 3) ? UINT64_MAX : nxt_next(r);
    const size_t len = 1 + nxt_below(r, sizeof(bytes));

    the_at = pick(r, t->size);
    the_len = len;
    the_bytes = bytes;
    memcpy(t->board + the_at, &bytes, len);
}

/* Writes to one offset, or to many, when the ranks have made some number of calls. */
static void *vandal(void *arg)
{
    trial *t = arg;
    nxt_rand r = {.state = t->seed};
    const unsigned when = nxt_below(&r, (uint64_t)CALLS * (uint64_t)t->size);
    const unsigned spins = nxt_below(&r, 20000);
    const unsigned writes = nxt_one_in(&r, 4) ? 1 + nxt_below(&r, 100) : 1;

    while ((atomic_load(&t->ready) < t->size) ||
           ((atomic_load(&t->calls) < when) && (atomic_load(&t->over) == 0))) {
        (void)usleep(10);
    }
    for (volatile unsigned i = 0; i < spins; i++) {
    }
    for (unsigned i = 0; i < writes; i++) {
        scribble(t, &r);
    }
    return NULL;
}

/* The next call, the same on all ranks. */
static nexar_err call(nexar_comm *w, nxt_rand *r, float *in, float *out)
{
    static const size_t lengths[] = {SHORT, MIDDLE, LONG};
    const size_t n = lengths[nxt_below(r, 3)], size = (size_t)nexar_size(w);
    const int root = (int)nxt_below(r, size);
    size_t counts[4];

    for (size_t i = 0; i < size; i++) {
        counts[i] = n / size + i;
    }
    switch (nxt_below(r, 8)) {
    case 0:
        return nexar_barrier(w);
    case 1:
        return nexar_broadcast(w, out, n, NEXAR_F32, root);
    case 2:
        return nexar_allgather(w, in, out, n / size, NEXAR_F32);
    case 3:
        return nexar_gather(w, in, out, n / size, NEXAR_F32, root);
    case 4:
        return nexar_allgatherv(w, in, counts[nexar_rank(w)], out, counts, NULL, NEXAR_F32);
    case 5:
        return nexar_allreduce_rs_ag(w, out, n, NEXAR_F32, NEXAR_MAX, NULL, NULL);
    case 6:
        return nexar_exscan(w, in, out, n, NEXAR_F32, NEXAR_MAX);
    default:
        return nexar_allreduce(w, in, out, n, NEXAR_F32, NEXAR_MAX);
    }
}

static void run_rank(nexar_comm *w, void *arg)
{
    trial *t = arg;
    nxt_rand r = {.state = t->seed * 3};
    float *in = calloc(LONG + 64, sizeof(float)), *out = calloc(LONG + 64, sizeof(float));
    pthread_t thread;

    NXT_IS(w, (in != NULL) && (out != NULL));
    nxt_host_warm_up(w);
    atomic_fetch_add(&t->ready, 1);
    if (nexar_rank(w) == 0) {
        t->board = find_board(t->size);
        NXT_IS(w, t->board != NULL);
        NXT_IS(w, pthread_create(&thread, NULL, vandal, t) == 0);
    }
    for (int i = 0; i < CALLS; i++) {
        const nexar_err err = call(w, &r, in, out);

        atomic_fetch_add(&t->calls, 1);
        atomic_store(&the_calls[nexar_rank(w)], (unsigned)i + 1);
        atomic_fetch_add(&t->failed, err != NEXAR_OK);
        atomic_fetch_add(&t->damaged, err == NEXAR_EPROTO);
    }
    if (nexar_rank(w) == 0) {
        atomic_store(&t->over, 1);
        NXT_IS(w, pthread_join(thread, NULL) == 0);
    }
    free(in);
    free(out);
}

static void test_whatever_is_written_into_a_board_all_calls_end(void **state)
{
    nexar_config *cfg = NULL;
    unsigned failed = 0, damaged = 0;

    (void)state;
    print_message("seed %llu\n", (unsigned long long)the_seed);
    (void)signal(SIGALRM, on_alarm);
    assert_int_equal(nexar_config_create(&cfg), NEXAR_OK);
    assert_int_equal(nexar_config_set(cfg, "heartbeat_interval", "20ms"), NEXAR_OK);
    assert_int_equal(nexar_config_set(cfg, "log", "error"), NEXAR_OK);
    for (unsigned i = 0; i < the_trials; i++, the_seed++) {
        trial t = {.seed = the_seed, .size = 2 + (int)(the_seed % 3)};

        (void)alarm(PATIENCE_S);
        nxt_local_world(t.size, cfg, run_rank, &t);
        failed += (atomic_load(&t.failed) != 0);
        damaged += (atomic_load(&t.damaged) != 0);
    }
    (void)alarm(0);
    print_message("%u trials, %u with a failed call, %u with a damaged board\n", the_trials, failed,
                  damaged);
    nexar_config_free(cfg);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whatever_is_written_into_a_board_all_calls_end),
    };

    the_trials = (argc > 1) ? (unsigned)strtoul(argv[1], NULL, 0) : the_trials;
    the_seed = (argc > 2) ? strtoull(argv[2], NULL, 0) : nx_now(&nx_clock_system) / 1000;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
