/*
 * churn.c - a world in which every second a rank is killed or joins, while the others add up
 * numbers.  Every sum is correct, and a rank that stays uses no more memory and descriptors at
 * the end than at the beginning.
 *
 *     churn [--ranks N] [--hosts N] [--seconds N] [--every MS] [--pause MS] [--most MS]
 *           [--quic | --both] [--verbose] WIRE
 *
 * 8 ranks on one host, by shared memory; with --quic two on each of four hosts, by QUIC; with
 * --both the same, and shared memory within each host.  --ranks and --hosts change the numbers.
 * A rank joins or is killed --every MS (1000).  Between two steps a rank sleeps for --pause MS
 * (2), in place of computing: 20 need a tenth of the processor.  With --most the test fails if
 * the survivors take longer to continue after a kill, and prints the output of all ranks.  WIRE
 * is the program of tests/net/wire.c. Exit code 0: passed; 77: not possible here.
 */
#include <malloc.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <nexar.h>

#include "hosts.h"
#include "party.h"

enum {
    HOSTS = 4, /* if ranks are on several hosts */
    STAYS = 0, /* the process that is never killed, and is measured */
    PROCESSES_MOST = 2048,
    COUNT = 1024, /* numbers that are added up */
    PATIENCE_S = NXT_SANITIZED ? 120 : 60,
    GROWTH_KIB = 2048, /* growth between the first third of the time and the last, */
    HEAP_KIB = 128,    /* of the heap, */
    LOSS_KIB = 10,     /* and per killed rank between them */
    SKIPPED = 77
};
static const uint64_t SECOND = 1000000000;

/* Of one process. */
typedef struct seen {
    _Atomic int size; /* size of the world in its last correct step; 0: none yet */
    _Atomic uint64_t steps;
    _Atomic long heap; /* of the surviving process, KiB in use */
    char wrong[256];
} seen;

typedef struct board {
    nxt_seed_place seed;
    _Atomic bool end;
    seen of[PROCESSES_MOST];
} board;

typedef struct churn {
    nxt_hosts hosts;
    bool verbose;
    const char *transports; /* "shm": all are on one host */
    int ranks, on_hosts;    /* on_hosts: 0: by the transports */
    int seconds, every_ms, pause_ms, most_ms;
    board *board;
    nxt_process seed, at[PROCESSES_MOST];
    int started, living;
    int host[PROCESSES_MOST]; /* a joiner takes the host of the killed rank: a host has */
    int vacant;               /* the same number of ranks at any sample; -1: no place is free */
    int fds[PROCESSES_MOST];  /* samples of the surviving process, when all ranks are present */
    long rss[PROCESSES_MOST], heap[PROCESSES_MOST];
    int samples, killed, joined;
    double rebuilt_ms[PROCESSES_MOST], joined_ms; /* per killed rank; the longest */
    double stood_ms; /* maximum time for which this process itself did not run */
    char failure[512];
} churn;

static struct timespec time_of(int ms)
{
    return (struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};
}

/* ---- a rank ----------------------------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static _Noreturn void wrong(seen *s, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(s->wrong, sizeof(s->wrong), format, args);
    va_end(args);
    _exit(1);
}

/* One step: the sum over all ranks, and whether all have completed it. */
static nexar_err step(nexar_comm *w, const board *b, seen *s, bool *end)
{
    static int64_t v[COUNT];
    const int64_t n = nexar_size(w);
    nexar_err err;

    for (int i = 0; i < COUNT; i++) {
        v[i] = nexar_rank(w) + 1 + i;
    }
    v[COUNT - 1] = atomic_load(&b->end);
    err = nexar_allreduce(w, NEXAR_IN_PLACE, v, COUNT, NEXAR_I64, NEXAR_SUM);
    if (err != NEXAR_OK) {
        return err;
    }
    for (int i = 0; i < COUNT - 1; i++) {
        if (v[i] != n * (n + 1) / 2 + n * i) {
            wrong(s, "the sum over %d ranks is wrong", (int)n);
        }
    }
    *end = v[COUNT - 1] != 0;
    if (s == &b->of[STAYS]) {
        const struct mallinfo2 m = mallinfo2();

        atomic_store(&s->heap, (long)((m.uordblks + m.hblkhd) / 1024));
    }
    atomic_store(&s->size, (int)n);
    atomic_fetch_add(&s->steps, 1);
    return NEXAR_OK;
}

/* Whatever happens in a step, all ranks meet in the following update. */
static void live(board *b, seen *s, int pause_ms)
{
    const struct timespec pause = time_of(pause_ms); /* stands for computation */
    nexar_comm *w = NULL;
    bool end = false, fresh = true;
    nexar_err err = nexar_init(NULL, &w);

    while ((err == NEXAR_OK) && !end) {
        nexar_change change = {0};

        (void)nanosleep(&pause, NULL);
        err = fresh ? nxt_link_all(w) : NEXAR_OK;
        if (err == NEXAR_OK) {
            err = step(w, b, s, &end);
        }
        if ((err != NEXAR_OK) && (err != NEXAR_EPEER) && (err != NEXAR_EREVOKED)) {
            break;
        }
        fresh = (err != NEXAR_OK);
        if (!end) {
            err = nexar_comm_update(&w, &change);
            fresh = fresh || (change.joined + change.failed > 0);
        }
    }
    if (err == NEXAR_OK) {
        err = nexar_finalize(w);
    }
    if (err != NEXAR_OK) {
        wrong(s, "%s: %s", nexar_err_name(err), nexar_last_error());
    }
}

/* ---- the world -------------------------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static void fail(churn *c, const char *format, ...)
{
    va_list args;

    if (c->failure[0] == '\0') {
        va_start(args, format);
        (void)vsnprintf(c->failure, sizeof(c->failure), format, args);
        va_end(args);
    }
}

static void start_rank(churn *c)
{
    const int i = c->started++, next = (c->on_hosts > 1) ? i % c->on_hosts : 0;

    c->living++;
    c->host[i] = (c->vacant >= 0) ? c->vacant : next;
    c->vacant = -1;
    if (nxt_process_start(&c->at[i], &c->hosts, c->host[i])) {
        return;
    }
    nxt_set("transports", c->transports);
    nxt_set("join", c->board->seed.join);
    if (i == STAYS) {
        char last[16];

        (void)snprintf(last, sizeof(last), "%d", c->ranks - 1); /* not the first rank, the leader */
        nxt_set("rank", last);
    }
    live(c->board, &c->board->of[i], c->pause_ms);
    // NOLINTNEXTLINE(concurrency-mt-unsafe): its threads have ended
    exit(0);
}

/* Only processes that this test has killed may have ended. */
static bool all_well(churn *c, uint64_t deadline)
{
    int status = 0;

    for (int i = 0; i < c->started; i++) {
        if ((c->at[i].pid != 0) && (waitpid(c->at[i].pid, &status, WNOHANG) > 0)) {
            c->at[i].pid = 0;
            if ((status != 0) || !atomic_load(&c->board->end)) {
                fail(c, "process %d ended with status %#x: %s", i, (unsigned)status,
                     c->board->of[i].wrong);
            }
        }
    }
    if (nxt_now_ns() > deadline) {
        fail(c, "not done after %d s", PATIENCE_S);
    }
    return c->failure[0] == '\0';
}

static bool all_have_size(const churn *c)
{
    for (int i = 0; i < c->started; i++) {
        if ((c->at[i].pid != 0) && (atomic_load(&c->board->of[i].size) != c->living)) {
            return false;
        }
    }
    return true;
}

/* Waits until all live ranks have made a step together after |what|; returns ms. */
static double await_world(churn *c, const char *what)
{
    const uint64_t from = nxt_now_ns(), deadline = from + PATIENCE_S * SECOND;
    uint64_t last = from;
    double ms;

    c->stood_ms = 0;
    while (!all_have_size(c) && all_well(c, deadline)) {
        const uint64_t now = nxt_now_ns();

        c->stood_ms =
            ((double)(now - last) / 1e6 > c->stood_ms) ? (double)(now - last) / 1e6 : c->stood_ms;
        last = now;
        nxt_nap();
    }
    ms = (double)(nxt_now_ns() - from) / 1e6;
    if (c->verbose) {
        (void)printf("%s: %d ranks after %.1f ms\n", what, c->living, ms);
        (void)fflush(stdout);
    }
    return ms;
}

static void kill_one(churn *c)
{
    int which = 1 + (int)((nxt_now_ns() / 1000) % (uint64_t)(c->living - 1)), i = STAYS;
    double ms;

    while (which > 0) { /* the which-th live rank, without the first */
        i++;
        which -= (c->at[i].pid != 0);
    }
    nxt_process_end(&c->at[i], &(int){0});
    c->vacant = c->host[i];
    c->living--;
    ms = await_world(c, "killed");
    c->rebuilt_ms[c->killed++] = ms;
    if ((c->most_ms > 0) && (ms > c->most_ms)) {
        fail(c,
             "process %d was killed, and the others went on after %.0f ms, of which this "
             "process was not run for up to %.0f",
             i, ms, c->stood_ms);
    }
}

static void add_one(churn *c)
{
    double ms;

    start_rank(c);
    ms = await_world(c, "joined");
    c->joined_ms = (ms > c->joined_ms) ? ms : c->joined_ms;
    c->joined++;
    c->fds[c->samples] = nxt_open_files(c->at[STAYS].pid);
    c->heap[c->samples] = atomic_load(&c->board->of[STAYS].heap);
    c->rss[c->samples++] = nxt_resident_kib(c->at[STAYS].pid);
    if (c->verbose) {
        (void)printf("the one that stays: %ld KiB, %ld in use, %d descriptors\n",
                     c->rss[c->samples - 1], c->heap[c->samples - 1], c->fds[c->samples - 1]);
    }
}

/* ---- checks ----------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    const long x = *(const long *)a, y = *(const long *)b;

    return (x > y) - (x < y);
}

static int compare_times(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The median of |n| numbers from |at| on. */
static long median(const long *at, int n)
{
    long copy[PROCESSES_MOST];

    memcpy(copy, at, (size_t)n * sizeof(*at));
    qsort(copy, (size_t)n, sizeof(*copy), compare);
    return copy[n / 2];
}

static void check_flat(churn *c)
{
    const int third = c->samples / 3, last = c->samples - third;
    long fds[PROCESSES_MOST], rss[2], heap[2], open[2];

    if (third == 0) {
        return;
    }
    for (int i = 0; i < c->samples; i++) {
        fds[i] = c->fds[i];
    }
    for (int k = 0; k < 2; k++) {
        const int from = (k == 0) ? 0 : last;

        rss[k] = median(c->rss + from, third);
        heap[k] = median(c->heap + from, third);
        open[k] = median(fds + from, third);
    }
    (void)printf(
        "churn: the one that stays: %ld, then %ld KiB; in use %ld, then %ld KiB; %ld, then "
        "%ld descriptors\n",
        rss[0], rss[1], heap[0], heap[1], open[0], open[1]);
    if (!NXT_SANITIZED && (rss[1] > rss[0] + GROWTH_KIB)) {
        fail(c, "the memory of the one that stays grows");
    }
    if (!NXT_SANITIZED && (heap[1] > heap[0] + HEAP_KIB + (long)last * LOSS_KIB)) {
        fail(c, "the heap of the one that stays grows");
    }
    if (open[1] > open[0]) {
        fail(c, "the descriptors of the one that stays grow");
    }
}

static void end(churn *c)
{
    const uint64_t deadline = nxt_now_ns() + PATIENCE_S * SECOND;
    bool left = true;

    atomic_store(&c->board->end, true);
    while (left && all_well(c, deadline)) {
        left = false;
        for (int i = 0; i < c->started; i++) {
            left = left || (c->at[i].pid != 0);
        }
        nxt_nap();
    }
}

static void tell(const churn *c)
{
    (void)fprintf(stderr, "FAILED: %s\n", c->failure);
    for (int i = 0; i < c->started; i++) {
        const seen *s = &c->board->of[i];

        if ((c->at[i].pid != 0) || (s->wrong[0] != '\0')) {
            (void)fprintf(stderr, "    process %d: %llu steps, the last with %d ranks; %s\n", i,
                          (unsigned long long)s->steps, s->size, s->wrong);
            nxt_process_tell(&c->at[i]);
        }
    }
    nxt_process_tell(&c->seed);
}

static void run(churn *c)
{
    const struct timespec pace = time_of(c->every_ms);
    const uint64_t stop = nxt_now_ns() + (uint64_t)c->seconds * SECOND;

    if (!nxt_process_start(&c->seed, &c->hosts, 0)) {
        nxt_be_seed(&c->board->seed, c->ranks);
    }
    while (!atomic_load(&c->board->seed.ready) && all_well(c, stop)) {
        nxt_nap();
    }
    for (int i = 0; i < c->ranks; i++) {
        start_rank(c);
    }
    (void)await_world(c, "formed");
    while ((c->failure[0] == '\0') && (nxt_now_ns() < stop) && (c->started < PROCESSES_MOST)) {
        (void)nanosleep(&pace, NULL); /* the pace of the churn, not a wait */
        if (c->living == c->ranks) {
            kill_one(c);
        } else {
            add_one(c);
        }
    }
    if (c->failure[0] == '\0') {
        end(c);
    }
    qsort(c->rebuilt_ms, (size_t)c->killed, sizeof(*c->rebuilt_ms), compare_times);
    (void)printf("churn, %s: %d killed, the others went on within %.0f ms (median %.0f); "
                 "%d joined, within %.0f ms; %llu steps\n",
                 c->transports, c->killed, c->rebuilt_ms[(c->killed > 0) ? c->killed - 1 : 0],
                 c->rebuilt_ms[c->killed / 2], c->joined, c->joined_ms,
                 (unsigned long long)c->board->of[STAYS].steps);
    check_flat(c);
}

/* Parses the options of |c|; returns the program WIRE, or NULL. */
static const char *read_arguments(churn *c, int argc, char **argv)
{
    const struct {
        const char *name;
        int *value;
    } numbers[] = {
        {"--ranks", &c->ranks},    {"--hosts", &c->on_hosts}, {"--seconds", &c->seconds},
        {"--every", &c->every_ms}, {"--pause", &c->pause_ms}, {"--most", &c->most_ms},
    };
    const char *wire = NULL;

    for (int i = 1; i < argc; i++) {
        int *value = NULL;

        for (size_t k = 0; k < sizeof(numbers) / sizeof(numbers[0]); k++) {
            value = (strcmp(argv[i], numbers[k].name) == 0) ? numbers[k].value : value;
        }
        if (strcmp(argv[i], "--quic") == 0) {
            c->transports = "quic";
        } else if (strcmp(argv[i], "--both") == 0) {
            c->transports = "shm,quic";
        } else if (strcmp(argv[i], "--verbose") == 0) {
            c->verbose = true;
        } else if ((value != NULL) && (i + 1 < argc)) {
            *value = (int)strtol(argv[++i], NULL, 10);
        } else {
            wire = argv[i];
        }
    }
    if (c->on_hosts == 0) {
        c->on_hosts = (strcmp(c->transports, "shm") == 0) ? 1 : HOSTS;
    }
    return ((c->seconds > 0) && (c->every_ms >= 0) && (c->pause_ms >= 0) && (c->ranks > 1) &&
            (c->on_hosts > 0) && (c->on_hosts <= NXT_HOSTS_MOST))
               ? wire
               : NULL;
}

int main(int argc, char **argv)
{
    static churn c = {.transports = "shm",
                      .ranks = 8,
                      .seconds = 600,
                      .every_ms = 1000,
                      .pause_ms = 2,
                      .vacant = -1};
    const char *wire = read_arguments(&c, argc, argv);

    if (wire == NULL) {
        (void)fprintf(stderr,
                      "churn [--ranks N] [--hosts N] [--seconds N] [--every MS] [--pause MS] "
                      "[--most MS] [--quic | --both] [--verbose] WIRE\n");
        return 2;
    }
    if (access(wire, X_OK) != 0) {
        perror(wire);
        return 2;
    }
    c.board =
        mmap(NULL, sizeof(*c.board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if ((c.board == MAP_FAILED) || !nxt_hosts_open(&c.hosts, c.on_hosts, wire)) {
        return SKIPPED;
    }
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1); /* becomes parent of orphans */
    run(&c);
    if (c.failure[0] != '\0') {
        tell(&c);
    }
    for (int i = 0; i < c.started; i++) {
        nxt_process_end(&c.at[i], &(int){0});
    }
    nxt_process_end(&c.seed, &(int){0});
    if (!NXT_SANITIZED && (nxt_find_child(c.hosts.wire) != 0)) { /* it starts helper processes */
        fail(&c, "a process is left, and lives");
        (void)fprintf(stderr, "FAILED: %s\n", c.failure);
    }
    nxt_hosts_close(&c.hosts);
    return (c.failure[0] == '\0') ? 0 : 1;
}
