/*
 * sealed_ceiling.c - the minimum cost of any program that encrypts over UDP or TCP.
 *
 *     sealed_ceiling [udp|tcp|udp_plain|tcp_plain [exchange|pingpong|stream
 *                    [RANKS [BYTES [SECONDS [DATAGRAM]]]]]]
 *
 * Ranks are processes on the loopback that only copy, seal, send, receive and open: no
 * acknowledgements of their own, no message matching, no schedule. Bytes are sealed from the
 * source buffer and opened into the target buffer. An idle rank yields. Prints the median of the
 * times of the slowest rank, in us:
 *
 *   exchange  every rank sends BYTES / RANKS to each other rank and copies its own share: the
 *             traffic of an alltoall and of an allgather, and half of that of an allreduce
 *   pingpong  half of a round trip of BYTES between two ranks
 *   stream    one of many messages of BYTES, in one direction
 *
 * `make bench-net` prints the figures of nexar bench divided by these figures.
 */
#include "sealed.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "args.h"
#include "base/clock.h"

static const char help[] =
    "usage: sealed_ceiling [udp|tcp|udp_plain|tcp_plain [exchange|pingpong|stream\n"
    "                      [RANKS [BYTES [SECONDS [DATAGRAM]]]]]]\n"
    "\n"
    "Copies, seals (AES-128-GCM), sends, receives and opens on the loopback, without any\n"
    "protocol; plain: only copies.  RANKS processes (2), BYTES of a message or for all\n"
    "ranks of an exchange (1m), SECONDS (1), bytes of a DATAGRAM over UDP (61440).\n"
    "Prints the median time of the slowest rank in us.\n";

enum { EXCHANGE, PINGPONG, STREAM };
enum { STREAM_BYTES = 64 << 20, STREAM_TIMES = 256, OVERHEAD = 32 };

_Noreturn void nxb_give_up(const char *what)
{
    perror(what);
    _exit(1);
}

void *nxb_memory(size_t bytes)
{
    void *p = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);

    if (p == NULL) {
        nxb_give_up("memory");
    } else {
        memset(p, 1, bytes);
    }
    return p;
}

static double now_us(void)
{
    return (double)nx_now(&nx_clock_system) / 1e3;
}

static void barrier(const nxb_rank *r)
{
    const unsigned round = atomic_load(&r->all->round);

    if (atomic_fetch_add(&r->all->arrived, 1) == r->n - 1) {
        atomic_store(&r->all->arrived, 0);
        atomic_fetch_add(&r->all->round, 1);
    }
    while (atomic_load(&r->all->round) == round) {
        (void)sched_yield();
    }
}

/* ---- traffic patterns -------------------------------------------------------- */

typedef struct pattern {
    size_t kind, bytes;
    uint8_t *from, *to;
} pattern;

static void begin_flow(nxb_flow *f, uint8_t *at, size_t len, size_t times)
{
    f->at = at;
    f->len = len;
    f->times = times;
    f->done = 0;
    f->base = f->number;
}

static size_t times_of(const pattern *p)
{
    const size_t times = STREAM_BYTES / p->bytes;

    return (times > STREAM_TIMES) ? STREAM_TIMES : (times == 0) ? 1 : times;
}

static void begin(nxb_rank *r, const pattern *p)
{
    const size_t block = p->bytes / r->n;

    for (size_t i = 0; i < r->n; i++) {
        if (p->kind == EXCHANGE) {
            begin_flow(&r->out[i], p->from + i * block, block, i != r->me);
            begin_flow(&r->in[i], p->to + i * block, block, i != r->me);
        } else {
            const size_t times = (p->kind == STREAM) ? times_of(p) : 1;
            const bool two_ways = (p->kind == PINGPONG);

            begin_flow(&r->out[i], p->from, p->bytes,
                       ((i != r->me) && (two_ways || (r->me == 0))) ? times : 0);
            begin_flow(&r->in[i], p->to, p->bytes,
                       ((i != r->me) && (two_ways || (r->me == 1))) ? times : 0);
        }
    }
}

static bool is_done(const nxb_rank *r, bool out)
{
    const nxb_flow *f = out ? r->out : r->in;

    for (size_t i = 0; i < r->n; i++) {
        if ((nxb_flow_left(&f[i]) > 0) || (f[i].unsent > 0)) {
            return false;
        }
    }
    return true;
}

/* The pong follows when the whole ping has arrived. */
static void move(nxb_rank *r, const pattern *p, const nxb_over *over)
{
    const bool answers = (p->kind == PINGPONG) && (r->me == 1);
    bool moved = true;

    if (p->kind == EXCHANGE) {
        memcpy(r->in[r->me].at, r->out[r->me].at, r->in[r->me].len);
    }
    while (moved || !is_done(r, true) || !is_done(r, false)) {
        moved = (!answers || is_done(r, false)) && over->push(r);
        moved = over->pull(r) || moved;
        if (!moved) {
            (void)sched_yield();
        }
    }
}

/* Checks that the received bytes are those sent: all ranks send the same bytes. */
static void check(const nxb_rank *r, const pattern *p)
{
    for (size_t i = 0; i < r->n; i++) {
        const nxb_flow *in = &r->in[i];
        const uint8_t *sent = (p->kind == EXCHANGE) ? p->from + r->me * in->len : p->from;

        if ((in->times > 0) && (memcmp(in->at, sent, in->len) != 0)) {
            (void)fprintf(stderr, "sealed_ceiling: wrong bytes from rank %zu\n", i);
            _exit(1);
        }
    }
}

/* ---- rounds -------------------------------------------------------------------- */

/* Runs one of the processes; the first one decides when to stop. */
static void run(nxb_rank *r, pattern *p, const nxb_over *over, double seconds)
{
    const double until = now_us() + seconds * 1e6;
    const double share = (p->kind == PINGPONG) ? 2.0
                         : (p->kind == STREAM) ? (double)times_of(p)
                                               : 1;

    p->from = nxb_memory(p->bytes);
    p->to = nxb_memory(p->bytes);
    for (size_t i = 0; i < p->bytes; i++) {
        p->from[i] = (uint8_t)(i / (p->bytes / r->n) + i);
    }
    over->start(r);
    for (size_t round = 0; round < NXB_ROUNDS_MOST; round++) {
        double start;

        if (r->me == 0) {
            atomic_store(&r->all->over,
                         (round > 0) && ((now_us() > until) || (round == NXB_ROUNDS_MOST - 1)));
        }
        begin(r, p);
        barrier(r);
        if (atomic_load(&r->all->over)) {
            check(r, p);
            return;
        }
        start = now_us();
        move(r, p, over);
        r->all->us[r->me][round] = (now_us() - start) / share;
        barrier(r); /* before data of the next round arrives */
    }
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The median over rounds of the slowest rank's time. */
static double median_of(nxb_common *all, size_t n, size_t *rounds)
{
    double *slowest = all->us[0];

    for (*rounds = 0; (*rounds < NXB_ROUNDS_MOST) && (slowest[*rounds] > 0); (*rounds)++) {
        for (size_t i = 1; i < n; i++) {
            if (all->us[i][*rounds] > slowest[*rounds]) {
                slowest[*rounds] = all->us[i][*rounds];
            }
        }
    }
    qsort(slowest, *rounds, sizeof(*slowest), by_value);
    return slowest[*rounds / 2];
}

/* Whether all processes have succeeded. If one fails, the others are ended: they would wait
 * indefinitely. */
static bool wait_for_all(const pid_t *pids, size_t n)
{
    int status;
    bool fine = true;

    while (wait(&status) > 0) {
        for (size_t i = 0; (status != 0) && fine && (i < n); i++) {
            (void)kill(pids[i], SIGKILL);
        }
        fine = fine && (status == 0);
    }
    return fine;
}

int main(int argc, char **argv)
{
    static const char *const ways[] = {"udp", "tcp", "udp_plain", "tcp_plain"};
    static const char *const kinds[] = {"exchange", "pingpong", "stream"};
    nxb_args args = nxb_args_take(argc, argv, 6, help);
    const size_t way = (args.n > 0) ? nxb_args_word(&args, 0, ways, 4) : 0;
    pattern p = {.kind = (args.n > 1) ? nxb_args_word(&args, 1, kinds, 3) : EXCHANGE};
    const size_t n =
        (size_t)nxb_args_number(&args, 2, 2, 2, (p.kind == EXCHANGE) ? NXB_RANKS_MOST : 2);
    const double seconds = nxb_args_seconds(&args, 4, 1);
    const size_t datagram = (size_t)nxb_args_number(&args, 5, 61440, 256, 61440);
    const nxb_over *over = (way % 2 == 0) ? &nxb_over_udp : &nxb_over_tcp;
    nxb_common *all =
        mmap(NULL, sizeof(*all), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    static nxb_rank ranks[NXB_RANKS_MOST];
    pid_t pids[NXB_RANKS_MOST];
    size_t rounds;
    double us;

    p.bytes = (size_t)nxb_args_number(&args, 3, 1 << 20, n, 1 << 30) / n * n;
    if (all == MAP_FAILED) {
        nxb_give_up("mmap");
    }
    for (size_t i = 0; i < n; i++) {
        ranks[i] = (nxb_rank){.all = all, .me = i, .n = n, .part = datagram - OVERHEAD};
    }
    over->prepare(ranks, n);
    for (size_t i = 0; i < n; i++) {
        pids[i] = fork();
        if (pids[i] < 0) {
            nxb_give_up("fork");
        }
        if (pids[i] == 0) {
            (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
            ranks[i].key = (way < 2) ? nxb_key_create() : NULL;
            run(&ranks[i], &p, over, seconds);
            _exit(0);
        }
    }
    if (!wait_for_all(pids, n)) {
        return 1;
    }
    us = median_of(all, n, &rounds);
    (void)printf("%s %s: %zu ranks, %zu bytes, median of %zu: %.1f us\n", kinds[p.kind], ways[way],
                 n, p.bytes, rounds, us);
    return rounds == 0;
}
