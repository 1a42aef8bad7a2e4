/*
 * bare_bench.c - an exchange of all with all over UDP, and nothing else: what any protocol that
 * encrypts over UDP has to pay, with ranks that share cores.
 *
 *     bare_bench [sealed|plain [RANKS [BYTES [SECONDS]]]]
 *
 * Every rank is a process, and sends BYTES in all, the same to each; its own share it copies.
 * Datagrams of 60 KiB are sealed by nexar's AES-GCM straight out of the memory that they come
 * from, and opened straight into the one that they are for; or copied, when plain.  There are
 * no acknowledgements: how much is on its way all see in shared memory, which costs next to
 * nothing, and nothing is lost.  Who has nothing to do yields.  Prints the median of the times
 * of the slowest rank.  docs/performance.md has it beside nexar and its peers.
 */
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "args.h"
#include "base/clock.h"
#include "transport/quic/aead.h"

static const char help[] =
    "usage: bare_bench [sealed|plain [RANKS [BYTES [SECONDS]]]]\n"
    "\n"
    "An alltoall over UDP on the loopback, without a protocol: sealed by nexar's AES-GCM\n"
    "(the default) or plain, by RANKS processes (4) that send BYTES each (16m), for\n"
    "SECONDS (1).  Prints the median time of the slowest rank in us.\n";

enum {
    RANKS_MOST = 16,
    ROUNDS_MOST = 4096,
    HEAD = 16, /* the sender and the number of the datagram */
    PART = 61440 - HEAD - NX_AEAD_TAG,
    WINDOW = 16, /* datagrams on their way between two ranks */
    BURST = 4,
    BUFFER = 65536,
};

/* What all processes see.  |got| [a][b]: datagrams of a that b has taken, since the start. */
typedef struct common {
    atomic_uint arrived, round;
    atomic_bool over;
    _Alignas(64) atomic_ulong got[RANKS_MOST][RANKS_MOST];
    double us[RANKS_MOST][ROUNDS_MOST];
    struct sockaddr_in at[RANKS_MOST];
} common;

typedef struct rank {
    common *all;
    nx_aead *key; /* NULL: plain */
    size_t me, n, block, parts;
    int fd;
    uint8_t *from, *to, *packet, *in, *scrap;
    unsigned long sent[RANKS_MOST]; /* since the start */
    size_t next[RANKS_MOST];        /* part of this round */
    size_t last;                    /* whom the last datagram went to */
    size_t unsent, missing;         /* datagrams of this round */
} rank;

static double now_us(void)
{
    return (double)nx_now(&nx_clock_system) / 1e3;
}

static _Noreturn void give_up(const char *what)
{
    perror(what);
    _exit(1);
}

static void *memory(size_t bytes)
{
    void *p = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);

    if (p == NULL) {
        perror("memory");
        _exit(1);
    }
    memset(p, 1, bytes);
    return p;
}

static void barrier(const rank *r)
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

static size_t part_len(const rank *r, size_t part)
{
    const size_t left = r->block - part * PART;

    return (left < PART) ? left : PART;
}

/* The next rank in turn that takes another datagram; r->me: none does. */
static size_t whom(const rank *r)
{
    for (size_t i = 1; i <= r->n; i++) {
        const size_t to = (r->last + i) % r->n;

        if ((to != r->me) && (r->next[to] < r->parts) &&
            (r->sent[to] - atomic_load(&r->all->got[r->me][to]) < WINDOW)) {
            return to;
        }
    }
    return r->me;
}

static void nonce_of(const rank *r, size_t from, size_t to, uint64_t number, uint8_t *nonce)
{
    const uint32_t pair = (uint32_t)(from * r->n + to);

    memcpy(nonce, &pair, sizeof(pair));
    memcpy(nonce + sizeof(pair), &number, sizeof(number));
}

static void send_one(rank *r, size_t to)
{
    const size_t part = r->next[to], len = part_len(r, part);
    const uint8_t *bytes = r->from + to * r->block + part * PART;
    uint64_t head[2] = {r->me, r->sent[to]};
    struct iovec io[2] = {{.iov_base = r->packet, .iov_len = HEAD},
                          {.iov_base = (void *)(uintptr_t)bytes, .iov_len = len}};
    struct msghdr hdr = {.msg_name = &r->all->at[to],
                         .msg_namelen = sizeof(r->all->at[to]),
                         .msg_iov = io,
                         .msg_iovlen = 2};
    uint8_t nonce[NX_AEAD_NONCE];

    memcpy(r->packet, head, HEAD);
    if (r->key != NULL) {
        nonce_of(r, r->me, to, r->sent[to], nonce);
        if (!nx_aead_seal(r->key,
                          &(nx_aead_text){.nonce = nonce,
                                          .head = r->packet,
                                          .head_len = HEAD,
                                          .in = bytes,
                                          .len = len,
                                          .next = {.at = bytes + len, .len = len}},
                          r->packet + HEAD)) {
            give_up("the key has sealed what it may");
        }
        io[0].iov_len = HEAD + len + NX_AEAD_TAG;
        hdr.msg_iovlen = 1;
    }
    if (sendmsg(r->fd, &hdr, 0) < 0) {
        give_up("sendmsg");
    }
    r->next[to]++;
    r->sent[to]++;
    r->unsent--;
    r->last = to;
}

/* One datagram, to its place. */
static void take(rank *r, uint8_t *datagram, size_t bytes)
{
    const size_t over = HEAD + ((r->key != NULL) ? NX_AEAD_TAG : 0), len = bytes - over;
    uint8_t nonce[NX_AEAD_NONCE], *place;
    uint64_t head[2];
    size_t from;

    memcpy(head, datagram, HEAD);
    from = (size_t)head[0];
    place = r->to + from * r->block + (head[1] % r->parts) * PART;
    if (r->key == NULL) {
        memcpy(place, datagram + HEAD, len);
    } else {
        nonce_of(r, from, r->me, head[1], nonce);
        if (!nx_aead_open(r->key,
                          &(nx_aead_text){.nonce = nonce,
                                          .head = datagram,
                                          .head_len = HEAD,
                                          .in = datagram + HEAD,
                                          .len = len + NX_AEAD_TAG,
                                          .next = {.at = place + len, .len = len},
                                          .place = {.at = place, .from = 0, .to = len}},
                          r->scrap)) {
            give_up("a datagram is not what was sealed");
        }
    }
    atomic_fetch_add(&r->all->got[from][r->me], 1);
    r->missing--;
}

/* How many datagrams were there. */
static int take_some(rank *r)
{
    struct mmsghdr hdrs[BURST];
    struct iovec io[BURST];
    int n;

    for (size_t i = 0; i < BURST; i++) {
        io[i] = (struct iovec){.iov_base = r->in + i * BUFFER, .iov_len = BUFFER};
        hdrs[i] = (struct mmsghdr){.msg_hdr = {.msg_iov = &io[i], .msg_iovlen = 1}};
    }
    n = recvmmsg(r->fd, hdrs, BURST, MSG_DONTWAIT, NULL);
    for (int i = 0; i < n; i++) {
        take(r, r->in + (size_t)i * BUFFER, hdrs[i].msg_len);
    }
    return n;
}

static void exchange(rank *r)
{
    r->unsent = r->missing = r->parts * (r->n - 1);
    memset(r->next, 0, sizeof(r->next));
    memcpy(r->to + r->me * r->block, r->from + r->me * r->block, r->block);
    while ((r->unsent > 0) || (r->missing > 0)) {
        bool idle = true;

        for (int i = 0; (i < BURST) && (r->unsent > 0); i++) {
            const size_t to = whom(r);

            if (to == r->me) {
                break;
            }
            send_one(r, to);
            idle = false;
        }
        if ((take_some(r) <= 0) && idle) {
            (void)sched_yield();
        }
    }
}

/* One of the processes; the first says when it is enough. */
static void run(rank *r, double seconds)
{
    const double until = now_us() + seconds * 1e6;

    r->from = memory(r->n * r->block);
    r->to = memory(r->n * r->block);
    r->packet = memory(BUFFER);
    r->in = memory((size_t)BURST * BUFFER);
    r->scrap = memory(BUFFER);
    for (size_t round = 0; round < ROUNDS_MOST; round++) {
        double start;

        if (r->me == 0) {
            atomic_store(&r->all->over, (now_us() > until) || (round == ROUNDS_MOST - 1));
        }
        barrier(r);
        if (atomic_load(&r->all->over)) {
            return;
        }
        start = now_us();
        exchange(r);
        r->all->us[r->me][round] = now_us() - start;
    }
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Of the slowest rank in each round. */
static double median_of(common *all, size_t n, size_t *rounds)
{
    double *slowest = all->us[0];

    for (*rounds = 0; (*rounds < ROUNDS_MOST) && (slowest[*rounds] > 0); (*rounds)++) {
        for (size_t i = 1; i < n; i++) {
            if (all->us[i][*rounds] > slowest[*rounds]) {
                slowest[*rounds] = all->us[i][*rounds];
            }
        }
    }
    qsort(slowest, *rounds, sizeof(*slowest), by_value);
    return slowest[*rounds / 2];
}

static int open_socket(struct sockaddr_in *at)
{
    const int size = 16 << 20, fd = socket(AF_INET, SOCK_DGRAM, 0);
    socklen_t len = sizeof(*at);

    *at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if ((fd < 0) || (bind(fd, (struct sockaddr *)at, len) != 0) ||
        (getsockname(fd, (struct sockaddr *)at, &len) != 0)) {
        give_up("socket");
    }
    if ((setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)) != 0) ||
        (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size)) != 0)) {
        give_up("room for what is on its way (SO_RCVBUFFORCE)");
    }
    return fd;
}

int main(int argc, char **argv)
{
    static const char *const ways[] = {"sealed", "plain"};
    static const uint8_t key[16] = {1};
    nxb_args args = nxb_args_take(argc, argv, 4, help);
    const size_t way = (args.n > 0) ? nxb_args_word(&args, 0, ways, 2) : 0;
    const size_t n = (size_t)nxb_args_number(&args, 1, 4, 2, RANKS_MOST);
    const size_t bytes = (size_t)nxb_args_number(&args, 2, 16 << 20, n, 1 << 30);
    const double seconds = nxb_args_seconds(&args, 3, 1);
    common *all =
        mmap(NULL, sizeof(*all), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t pids[RANKS_MOST];
    int fds[RANKS_MOST], status, bad = 0;
    size_t rounds;
    double us;

    if (all == MAP_FAILED) {
        give_up("mmap");
    }
    if ((way == 0) && !nx_aead_usable()) {
        (void)fprintf(stderr, "bare_bench: this CPU has no VAES; plain is all that it can do\n");
        return 2;
    }
    for (size_t i = 0; i < n; i++) {
        fds[i] = open_socket(&all->at[i]);
    }
    for (size_t i = 0; i < n; i++) {
        pids[i] = fork();
        if (pids[i] < 0) {
            give_up("fork");
        }
        if (pids[i] == 0) {
            rank r = {.all = all, .me = i, .n = n, .block = bytes / n, .fd = fds[i], .last = i};

            (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
            r.parts = (r.block + PART - 1) / PART;
            r.key = (way == 0) ? nx_aead_create(key, sizeof(key)) : NULL;
            run(&r, seconds);
            _exit(0);
        }
    }
    while (wait(&status) > 0) {
        for (size_t i = 0; (status != 0) && (bad == 0) && (i < n); i++) {
            (void)kill(pids[i], SIGKILL); /* without one of them the others wait for ever */
        }
        bad |= status;
    }
    us = median_of(all, n, &rounds);
    (void)printf("alltoall %s: %zu ranks, %zu bytes, median of %zu: %.1f us\n", ways[way], n, bytes,
                 rounds, us);
    return (bad != 0) || (rounds == 0);
}
