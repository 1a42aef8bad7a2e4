/*
 * shm_bench.c - the shm transport alone, between forked processes: round trips of short frames,
 * frames in one direction, parts from 4 KiB to 64 MiB, compared with a plain memcpy.
 *
 *   shm_bench [PAIRS] [copy|read] [SPIN_US]
 *
 * PAIRS of processes at once (1; with more than cores / 2 they do not spin); `copy`: no process
 * reads the other's memory; SPIN_US: 100, or 0 with more processes than cores.
 */
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "args.h"
#include "base/clock.h"
#include "transport/shm/shm.h"

static const char help[] =
    "usage: shm_bench [PAIRS] [copy|read] [SPIN_US]\n"
    "\n"
    "The shm transport alone between PAIRS (1) of processes: round trips, frames one way,\n"
    "parts from 4 KiB to 64 MiB, beside a plain memcpy.\n"
    "\n"
    "  copy     nobody reads the other's memory; read: where it may\n"
    "  SPIN_US  100, or 0 with more processes than cores\n";

enum { DEEP = 4 }; /* parts in flight at most */
enum { WARM = 2000, TRIPS = 20000, FRAMES = 200000, PAIRS_MAX = 16, FRAME = 8 };
#define BIG ((size_t)64 << 20)

typedef struct side {
    nx_loop *loop;
    nx_shm *shm;
    nx_shm_offer offers[2];
    nx_link *link;
    bool up, down;
    uint64_t frames, bytes, sent;
    uint64_t want_frames, want_bytes, want_sent; /* the counts that set |event| */
    nx_event event;
    bool answers;
    nx_tx *spare[DEEP]; /* parts come back in any order */
    int nspare;
    uint8_t *sink;
} side;

static void check(side *s)
{
    if (s->up && (s->frames >= s->want_frames) && (s->bytes >= s->want_bytes) &&
        (s->sent >= s->want_sent)) {
        nx_event_set(s->loop, &s->event);
    }
}

static void send_frame(side *s)
{
    static const uint8_t data[FRAME];
    const nx_bytes bytes = {.ptr = data, .len = sizeof(data)};

    if (nx_link_send_frame(s->link, NX_LANE_MESSAGE, &bytes, 1) != NEXAR_OK) {
        abort();
    }
}

static void on_up(void *ctx, nx_link *link)
{
    side *s = ctx;

    s->link = link;
    s->up = true;
    check(s);
}

static void on_frame(void *ctx, nx_link *link, nx_lane lane, const void *data, size_t len)
{
    side *s = ctx;

    (void)link;
    (void)lane;
    (void)data;
    (void)len;
    s->frames++;
    if (s->answers) {
        send_frame(s);
    }
    check(s);
}

static void on_data(void *ctx, nx_link *link, uint64_t id, uint64_t off, const void *data,
                    size_t len)
{
    side *s = ctx;

    (void)link;
    (void)id;
    if (data != s->sink + off) {
        memcpy(s->sink + off, data, len);
    }
    s->bytes += len;
    check(s);
}

static void *on_want(void *ctx, nx_link *link, uint64_t id, uint64_t off,
                     size_t *len) // NOLINT(readability-non-const-parameter)
{
    (void)link;
    (void)id;
    (void)len;
    return ((side *)ctx)->sink + off;
}

static void on_sent(void *ctx, nx_link *link, nx_tx *tx, nexar_err err)
{
    side *s = ctx;

    (void)link;
    (void)err;
    s->spare[s->nspare++] = tx;
    s->sent++;
    check(s);
}

static void on_down(void *ctx, nx_link *link, nexar_err err, const char *why)
{
    side *s = ctx;

    (void)err;
    (void)why;
    nx_link_close(link, false);
    s->down = true;
    nx_event_set(s->loop, &s->event);
}

static const nx_link_up UP = {.on_up = on_up,
                              .on_frame = on_frame,
                              .on_data = on_data,
                              .on_sent = on_sent,
                              .on_down = on_down,
                              .on_want = on_want};

static bool find(void *ctx, uint64_t member, nx_shm_offer *offer)
{
    *offer = ((side *)ctx)->offers[member - 1];
    return true;
}

static void on_accept(void *ctx, nx_link *link, uint64_t member)
{
    (void)member;
    link->up = &UP;
    link->up_ctx = ctx;
}

/* Waits for the given further frames and bytes. */
static void wait_for(side *s, uint64_t frames, uint64_t bytes, uint64_t sent)
{
    s->want_frames += frames;
    s->want_bytes += bytes;
    s->want_sent += sent;
    s->event.set = false;
    check(s);
    if (!nx_loop_wait(s->loop, &s->event, UINT64_MAX) || s->down) {
        _exit(1);
    }
}

static uint64_t now(void)
{
    return nx_now(&nx_clock_system);
}

/* ---- the two ends ------------------------------------------------------------------ */

static const size_t sizes[] = {4096, 16384, 65536, 1 << 18, 1 << 20, 1 << 22, BIG};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

static uint64_t rounds(size_t size)
{
    uint64_t n = ((uint64_t)512 << 20) / size;

    return (n > 20000) ? 20000 : (n < 8) ? 8 : n;
}

static void echo(side *s)
{
    s->answers = true;
    wait_for(s, WARM + TRIPS, 0, 0);
    s->answers = false;
    wait_for(s, FRAMES, 0, 0);
    send_frame(s);
    for (size_t i = 0; i < SIZES; i++) {
        wait_for(s, 0, rounds(sizes[i]) * sizes[i], 0);
        send_frame(s);
    }
    wait_for(s, 1, 0, 0); /* the final frame */
}

static int by_value(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

static void trips(side *s)
{
    static uint64_t took[TRIPS];
    const size_t middle = TRIPS / 2, late = (size_t)TRIPS * 99 / 100;

    for (int i = 0; i < WARM + TRIPS; i++) {
        uint64_t begin = now();

        send_frame(s);
        wait_for(s, 1, 0, 0);
        if (i >= WARM) {
            took[i - WARM] = now() - begin;
        }
    }
    qsort(took, TRIPS, sizeof(took[0]), by_value);
    printf("  %d B round trip: median %.2f us, least %.2f, 99%% below %.2f\n", FRAME,
           (double)took[middle] / 1e3, (double)took[0] / 1e3, (double)took[late] / 1e3);
}

static void frames(side *s)
{
    uint64_t begin = now();

    for (int i = 0; i < FRAMES; i++) {
        send_frame(s);
        if (i % 16 == 15) {
            nx_loop_kick(s->loop);
        }
    }
    wait_for(s, 1, 0, 0);
    printf("  %d B frames: %.2f M/s\n", FRAME, FRAMES * 1e3 / (double)(now() - begin));
}

static void parts(side *s, uint8_t *source, size_t size)
{
    const uint64_t n = rounds(size);
    const nx_bytes bytes = {.ptr = source, .len = size};
    nx_tx tx[DEEP];
    uint64_t begin = now(), copied;

    for (s->nspare = 0; s->nspare < DEEP; s->nspare++) {
        s->spare[s->nspare] = &tx[s->nspare];
    }
    for (uint64_t i = 0; i < n; i++) {
        nx_tx *next;

        if (i >= DEEP) {
            wait_for(s, 0, 0, 1);
        }
        next = s->spare[--s->nspare];
        *next = (nx_tx){.id = i + 1, .len = size, .bytes = &bytes, .nbytes = 1};
        if (nx_link_send_part(s->link, next) != NEXAR_OK) {
            abort();
        }
    }
    wait_for(s, 1, 0, (n < DEEP) ? n : DEEP);
    copied = now();
    printf("  %8zu B parts: %6.2f GB/s", size, (double)n * (double)size / (double)(copied - begin));
    for (uint64_t i = 0; i < n; i++) {
        memcpy(s->sink, source, size);
        __asm__ __volatile__("" ::"r"(s->sink) : "memory");
    }
    printf("   memcpy %6.2f\n", (double)n * (double)size / (double)(now() - copied));
}

static void drive(side *s, uint8_t *source)
{
    trips(s);
    frames(s);
    for (size_t i = 0; i < SIZES; i++) {
        parts(s, source, sizes[i]);
    }
    send_frame(s);
    nx_loop_kick(s->loop);
    (void)fflush(stdout);
}

/* ---- life ------------------------------------------------------------------------------ */

static void *memory(size_t size)
{
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (at == MAP_FAILED) {
        abort();
    }
    memset(at, 1, size);
    return at;
}

/* Sends our offer to the peer and receives the peer's. */
static void swap(side *s, int who, int in, int out)
{
    s->offers[who] = *nx_shm_offer_of(s->shm);
    if ((write(out, &s->offers[who], sizeof(s->offers[0])) < 0) ||
        (read(in, &s->offers[1 - who], sizeof(s->offers[0])) < 0)) {
        abort();
    }
}

static int run(int who, int in, int out, bool copy, uint64_t spin_ns)
{
    side s = {0};
    const nx_shm_config config = {.random = &nx_random_system,
                                  .no_reading = copy,
                                  .find = find,
                                  .on_accept = on_accept,
                                  .ctx = &s};
    nx_shm_config own = config;

    s.sink = memory(BIG);
    if (nx_loop_create(&s.loop, &nx_clock_system) != NEXAR_OK) {
        return 1;
    }
    nx_loop_lock(s.loop);
    const nx_wait_policy waits = nx_wait_policy_make(nx_machine_costs_get(), spin_ns, false);

    nx_loop_set_policy(s.loop, &waits);
    own.loop = s.loop;
    if ((nx_shm_open(&s.shm, &own) != NEXAR_OK) ||
        (nx_shm_start(s.shm, (uint64_t)who + 1) != NEXAR_OK)) {
        return 1;
    }
    swap(&s, who, in, out);
    if ((who == 0) && (nx_shm_dial(s.shm, 2, &UP, &s, &s.link) != NEXAR_OK)) {
        return 1;
    }
    wait_for(&s, 0, 0, 0);
    if (who == 0) {
        drive(&s, memory(BIG));
        wait_for(&s, UINT64_MAX / 2, 0, 0);
    }
    echo(&s);
    nx_shm_close(s.shm);
    return 0;
}

int main(int argc, char **argv)
{
    static const char *const ways[] = {"read", "copy"};
    const nxb_args args = nxb_args_take(argc, argv, 3, help);
    const int pairs = (int)nxb_args_number(&args, 0, 1, 1, PAIRS_MAX);
    const bool copy = (args.n > 1) && (nxb_args_word(&args, 1, ways, 2) == 1);
    cpu_set_t cores;
    uint64_t spin_ns = 100000;

    (void)sched_getaffinity(0, sizeof(cores), &cores);
    spin_ns = (2 * pairs > CPU_COUNT(&cores)) ? 0 : spin_ns;
    spin_ns = nxb_args_number(&args, 2, spin_ns / 1000, 0, 1000000) * 1000;
    printf("%d pairs on %d cores, spin %" PRIu64 " us%s\n", pairs, CPU_COUNT(&cores),
           spin_ns / 1000, copy ? ", everything copied twice" : "");
    (void)fflush(stdout);
    for (int i = 0; i < pairs; i++) {
        int a[2], b[2];

        if ((pipe(a) != 0) || (pipe(b) != 0)) {
            return 1;
        }
        for (int who = 0; who < 2; who++) {
            if (fork() == 0) {
                _exit(run(who, (who == 0) ? a[0] : b[0], (who == 0) ? b[1] : a[1], copy, spin_ns));
            }
        }
    }
    while (wait(NULL) > 0) {
    }
    return 0;
}
