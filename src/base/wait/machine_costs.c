/* machine_costs.c - two threads, one cache line, one futex, two blocks of memory. */
#include "base/wait/machine_costs.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/memory/copy.h"
#include "base/os/sys.h"
#include "base/text/text.h"
#include "base/wait/cpu.h"

enum { LINE = 128, BATCHES = 8, BATCH = 64, HANDOVERS = 64, PARKS = 9 };
/* Limits of the wait for the other thread: one round, and all rounds together. On a loaded
 * machine the two threads rarely run at the same time. [ns; bounds the time of the first
 * nexar_init] */
#define ROUND_NS UINT64_C(100000)
#define TOTAL_NS UINT64_C(20000000)

typedef struct pair {
    _Alignas(LINE) _Atomic uint32_t ball; /* odd: the helper's turn */
    _Alignas(LINE) _Atomic uint32_t word; /* the helper sleeps on it */
    _Alignas(LINE) _Atomic uint32_t asleep, awake;
    atomic_bool playing, stop;
    uint32_t core; /* used by the measuring thread */
} pair;

static uint64_t now(void)
{
    return nx_now(&nx_clock_system);
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return (a < b) ? a : b;
}

/* ---- the helper ----------------------------------------------------------------------- */

static void *help(void *arg)
{
    pair *p = arg;

    (void)nx_cpu_avoid(p->core); /* moves only this helper thread */
    while (atomic_load(&p->playing)) {
        const uint32_t ball = atomic_load(&p->ball);

        if (ball % 2 == 1) {
            atomic_store(&p->ball, ball + 1);
        } else {
            nx_cpu_pause();
        }
    }
    for (uint32_t round = 0; !atomic_load(&p->stop); round++) {
        atomic_store(&p->asleep, round + 1);
        while ((atomic_load(&p->word) == round) && !atomic_load(&p->stop)) {
            nx_sys_futex(&p->word, FUTEX_WAIT_PRIVATE, round, NULL);
        }
        atomic_store(&p->awake, round + 1);
    }
    return NULL;
}

/* Waits until |*word| is |value|. False: timed out. */
static bool await(_Atomic uint32_t *word, uint32_t value)
{
    const uint64_t until_ns = now() + ROUND_NS;

    while (atomic_load(word) != value) {
        if (now() >= until_ns) {
            (void)sched_yield(); /* the helper may need this core */
            return false;
        }
        nx_cpu_pause();
    }
    return true;
}

/* ---- one cost each -------------------------------------------------------------------- */

static uint64_t measure_pause(void)
{
    _Atomic uint32_t cell = 0;
    uint64_t best_ns = UINT64_MAX;

    for (int i = 0; i < BATCHES; i++) {
        const uint64_t begun_ns = now();

        for (int k = 0; k < BATCH; k++) {
            (void)atomic_load(&cell);
            nx_cpu_pause();
        }
        best_ns = least(best_ns, now() - begun_ns);
    }
    return best_ns / BATCH + 1;
}

static uint64_t measure_yield(void)
{
    uint64_t best_ns = UINT64_MAX;

    for (int i = 0; i < BATCH; i++) {
        const uint64_t begun_ns = now();

        (void)sched_yield();
        best_ns = least(best_ns, now() - begun_ns);
    }
    return best_ns;
}

/* Half a round trip of the ball.  UINT64_MAX: no round ended in time. */
static uint64_t measure_handover(pair *p, uint64_t until_ns)
{
    uint64_t best_ns = UINT64_MAX;
    uint32_t ball = 0;
    int good = 0;

    while ((good < HANDOVERS) && (now() < until_ns)) {
        const uint64_t begun_ns = now();

        atomic_store(&p->ball, ball + 1);
        if (await(&p->ball, ball + 2)) {
            best_ns = least(best_ns, (now() - begun_ns) / 2);
            good++;
        } else {
            while ((atomic_load(&p->ball) != ball + 2) && (now() < until_ns)) {
                (void)sched_yield();
            }
        }
        ball += 2;
    }
    return best_ns;
}

static int compare(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

/* The helper has announced that it is about to sleep: waits until it probably sleeps. */
static void let_sleep(void)
{
    for (int i = 0; i < BATCH; i++) {
        (void)sched_yield();
    }
}

/* The median time from a wake-up until the woken thread runs: a wake-up on the core of the waker
 * is cheaper than usual, so the minimum would be too low. */
static uint64_t measure_park(pair *p, uint64_t until_ns)
{
    uint64_t spans[PARKS] = {0};
    size_t n = 0;

    for (uint32_t round = 1; (n < PARKS) && (now() < until_ns); round++) {
        while ((atomic_load(&p->asleep) != round) && (now() < until_ns)) {
            (void)sched_yield();
        }
        let_sleep();

        const uint64_t begun_ns = now();

        atomic_store(&p->word, round);
        nx_sys_futex(&p->word, FUTEX_WAKE_PRIVATE, 1, NULL);
        if (await(&p->awake, round)) {
            spans[n++] = now() - begun_ns;
        }
    }
    qsort(spans, n, sizeof(spans[0]), compare);
    return (n > 0) ? spans[n / 2] : ROUND_NS;
}

/* ---- memory ----------------------------------------------------------------------------- */

enum { COPIES = 4 };

static uint64_t measure_copy(void *to, const void *from)
{
    uint64_t best_ns = UINT64_MAX;

    for (int i = 0; i < COPIES; i++) {
        const uint64_t begun_ns = now();

        nx_memcpy(to, from, NX_COSTS_BLOCK);
        best_ns = least(best_ns, now() - begun_ns);
    }
    return best_ns + 1;
}

/* Measures a read of remote memory. 0: the system refuses it. */
static uint64_t measure_read(void *to, void *from)
{
    const struct iovec here = {.iov_base = to, .iov_len = NX_COSTS_BLOCK};
    const struct iovec there = {.iov_base = from, .iov_len = NX_COSTS_BLOCK};
    uint64_t best_ns = UINT64_MAX;

    for (int i = 0; i < COPIES; i++) {
        const uint64_t begun_ns = now();

        if (nx_sys_process_vm_readv(getpid(), &here, 1, &there, 1) != NX_COSTS_BLOCK) {
            return 0;
        }
        best_ns = least(best_ns, now() - begun_ns);
    }
    return best_ns + 1;
}

static void measure_memory(nx_machine_costs *out)
{
    uint8_t *blocks = nx_calloc(2, NX_COSTS_BLOCK);

    if (blocks == NULL) {
        return; /* the costs stay 0, and nothing is derived from them */
    }
    memset(blocks, 1, 2 * (size_t)NX_COSTS_BLOCK); /* untouched memory is one page of zeros */
    out->copy_ns = measure_copy(blocks, blocks + NX_COSTS_BLOCK);
    out->read_ns = measure_read(blocks, blocks + NX_COSTS_BLOCK);
    nx_free(blocks);
}

/* The size of cache |index| of the first processor; 0: there is none. */
static uint64_t cache_size(int index)
{
    char path[96], text[32] = "";
    uint64_t bytes = 0;
    ssize_t len;
    int fd;

    (void)snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu0/cache/index%d/size", index);
    fd = nx_sys_open(path, O_RDONLY, 0);
    if (fd < 0) {
        return 0;
    }
    len = nx_sys_read(fd, text, sizeof(text) - 1);
    (void)nx_sys_close(fd);
    text[(len > 0) ? len : 0] = '\0';
    text[strcspn(text, "\n")] = '\0';
    return nx_parse_size(text, &bytes) ? bytes : 0;
}

static uint64_t largest_cache(void)
{
    enum { CACHES = 8 };
    uint64_t most = 0;

    for (int i = 0; i < CACHES; i++) {
        const uint64_t its = cache_size(i);

        most = (its > most) ? its : most;
    }
    return most;
}

/* ---- all of them ---------------------------------------------------------------------- */

static void measure_pair(pair *p, nx_machine_costs *out)
{
    const uint64_t until_ns = now() + TOTAL_NS;
    const uint64_t handover_ns = measure_handover(p, until_ns);

    atomic_store(&p->playing, false);
    /* If the threads share one core, or no round ended: a hand-over is seen by the next poll. */
    out->handover_ns = (handover_ns == UINT64_MAX) ? out->pause_ns : handover_ns;
    out->park_ns = measure_park(p, until_ns + TOTAL_NS);
}

static nx_machine_costs costs;

static void measure(void)
{
    static pair p;
    sigset_t all, before;
    pthread_t helper;
    int code;

    costs = (nx_machine_costs){.pause_ns = measure_pause(), .yield_ns = measure_yield()};
    costs.cache_bytes = largest_cache();
    measure_memory(&costs);
    costs.handover_ns = costs.pause_ns;
    costs.park_ns = ROUND_NS;
    atomic_store(&p.playing, true);
    p.core = nx_cpu_current();
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    code = pthread_create(&helper, NULL, help, &p);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (code != 0) {
        return;
    }
    measure_pair(&p, &costs);
    atomic_store(&p.stop, true);
    atomic_fetch_add(&p.word, 1);
    nx_sys_futex(&p.word, FUTEX_WAKE_PRIVATE, 1, NULL);
    (void)pthread_join(helper, NULL);
}

const nx_machine_costs *nx_machine_costs_get(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void)pthread_once(&once, measure);
    return &costs;
}
