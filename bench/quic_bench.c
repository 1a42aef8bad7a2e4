/*
 * quic_bench.c - what the quic transport reaches between two processes on one host,
 * beside what the machine allows in the same run: a raw UDP ping-pong, and
 * encrypting, sending, receiving and decrypting 61440-byte datagrams.
 *
 *     quic_bench [seconds per figure [rtt | rate | one]]
 *
 * The word leaves only that figure, for a profile.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "quic_limits.h"
#include "transport/quic/quic.h"

enum {
    MIB = 1 << 20,
    LARGE = 64 * MIB,
    SLOTS = 16,   /* parts under way at most */
    SMALL = 64,   /* bytes of a small message */
    BURST = 8192, /* small messages before the other side is asked how far it is */
    SPIN_NS = 100000,
};

static void die(const char *what)
{
    (void)fprintf(stderr, "quic_bench: %s: %s\n", what, nexar_last_error());
    _exit(1);
}

/* ---- the transport --------------------------------------------------------------- */

typedef struct bench {
    nx_loop *loop;
    nx_quic *quic;
    nx_link *link;
    nx_event event;          /* what the main program waits for */
    uint64_t done;           /* the other side's count, when it says so */
    uint64_t got, got_until; /* bytes or frames; tell when it is reached */
    uint64_t queued, total;  /* bytes to send, of parts of |size| */
    size_t size;
    nx_tx tx[SLOTS];
    nx_bytes bytes[SLOTS];
    uint8_t *from, *to;
} bench;

/* Control frames: what to do, and a number. */
typedef struct order {
    char what;
    uint64_t n, size;
} order;

static void tell(bench *b, char what, uint64_t n, uint64_t size)
{
    order o = {.what = what, .n = n, .size = size};
    nx_bytes bytes = {&o, sizeof(o)};

    if (nx_link_send_frame(b->link, NX_LANE_CONTROL, &bytes, 1) != NEXAR_OK) {
        die("send");
    }
}

static void send_next(bench *b, nx_tx *tx)
{
    size_t slot = (size_t)(tx - b->tx);

    if (b->queued >= b->total) {
        return;
    }
    b->bytes[slot] = (nx_bytes){b->from + (b->queued % LARGE), b->size};
    *tx = (nx_tx){.id = b->queued, .len = b->size, .bytes = &b->bytes[slot], .nbytes = 1};
    b->queued += b->size;
    if (nx_link_send_part(b->link, tx) != NEXAR_OK) {
        die("send");
    }
}

static void send_parts(bench *b, uint64_t total, size_t size)
{
    size_t slots = (size == LARGE) ? 2 : SLOTS;

    b->queued = 0;
    b->total = total;
    b->size = size;
    for (size_t i = 0; i < slots; i++) {
        send_next(b, &b->tx[i]);
    }
}

static void obey(bench *b, const order *o)
{
    switch (o->what) {
    case 'd': /* done: so much has come */
        b->done = o->n;
        nx_event_set(b->loop, &b->event);
        break;
    case 'r': /* receive */
        b->got = 0;
        b->got_until = o->n;
        break;
    case 's': /* send */
        send_parts(b, o->n, (size_t)o->size);
        break;
    default: /* quit */
        nx_event_set(b->loop, &b->event);
        break;
    }
}

static void on_up(void *ctx, nx_link *link)
{
    bench *b = ctx;

    (void)link;
    nx_event_set(b->loop, &b->event);
}

static void count(bench *b, uint64_t n)
{
    b->got += n;
    if ((b->got_until != 0) && (b->got >= b->got_until)) {
        b->got_until = 0;
        tell(b, 'd', b->got, 0);
    }
}

static void on_frame(void *ctx, nx_link *link, nx_lane lane, const void *data, size_t len)
{
    bench *b = ctx;
    nx_bytes back = {data, len};
    order o;

    if (lane == NX_LANE_CONTROL) {
        memcpy(&o, data, sizeof(o));
        obey(b, &o);
    } else if (len == SMALL) {
        count(b, 1);
    } else if (b->to == NULL) { /* the pinger */
        nx_event_set(b->loop, &b->event);
    } else if (nx_link_send_frame(link, NX_LANE_MESSAGE, &back, 1) != NEXAR_OK) {
        die("send");
    }
}

static void on_data(void *ctx, nx_link *link, uint64_t id, uint64_t off, const void *data,
                    size_t len)
{
    bench *b = ctx;

    (void)link;
    memcpy(b->from + LARGE + (id + off) % LARGE, data, len);
    count(b, len);
}

static void on_sent(void *ctx, nx_link *link, nx_tx *tx, nexar_err err)
{
    (void)link;
    if (err == NEXAR_OK) {
        send_next(ctx, tx);
    }
}

static void on_down(void *ctx, nx_link *link, nexar_err err, const char *why)
{
    (void)ctx;
    (void)link;
    (void)err;
    (void)fprintf(stderr, "quic_bench: down: %s\n", why);
    _exit(1);
}

static const nx_link_up UP = {on_up, on_frame, on_data, on_sent, on_down};

static void on_accept(void *ctx, nx_link *link, uint64_t member)
{
    bench *b = ctx;

    (void)member;
    b->link = link;
    link->up = &UP;
    link->up_ctx = b;
}

static void await(bench *b)
{
    if (!nx_loop_wait(b->loop, &b->event, nx_loop_refresh(b->loop) + UINT64_C(60000000000))) {
        die("nothing happens");
    }
    b->event.set = false;
}

/* GB/s one way; with |both| each way. */
static double bandwidth(bench *b, size_t size, uint64_t total, bool both)
{
    double begin = nxb_now_s();

    tell(b, 'r', total, 0);
    if (both) {
        b->got = 0;
        b->got_until = total;
        tell(b, 's', total, size);
    }
    send_parts(b, total, size);
    await(b);
    while (both && (b->got < total)) {
        nx_event never = {0};

        (void)nx_loop_wait(b->loop, &never, nx_loop_refresh(b->loop) + 100000);
    }
    return (double)total / (nxb_now_s() - begin) / 1e9;
}

static double round_trip(bench *b, double seconds)
{
    static double samples[1000000];
    uint8_t bytes[8] = {0};
    nx_bytes ping = {bytes, sizeof(bytes)};
    double end = nxb_now_s() + seconds;
    size_t n = 0;

    while ((nxb_now_s() < end) && (n < sizeof(samples) / sizeof(samples[0]))) {
        double begin = nxb_now_s();

        if (nx_link_send_frame(b->link, NX_LANE_MESSAGE, &ping, 1) != NEXAR_OK) {
            die("send");
        }
        await(b);
        samples[n++] = nxb_now_s() - begin;
    }
    return nxb_median(samples, n) * 1e6;
}

/* Messages per second: two bursts are under way at any time. */
static double message_rate(bench *b, double seconds)
{
    uint8_t bytes[SMALL] = {0};
    nx_bytes message = {bytes, sizeof(bytes)};
    uint64_t sent = 0;
    double begin = nxb_now_s(), took;

    do {
        tell(b, 'r', BURST, 0);
        for (int i = 0; i < BURST; i++) {
            if (nx_link_send_frame(b->link, NX_LANE_MESSAGE, &message, 1) != NEXAR_OK) {
                die("send");
            }
            if (i % 256 == 255) {
                nx_loop_kick(b->loop);
            }
        }
        sent += BURST;
        await(b);
        took = nxb_now_s() - begin;
    } while (took < seconds);
    return (double)sent / took;
}

static void open_side(bench *b, const nx_identity *identity, const nx_job_id *job)
{
    nx_quic_config config = {.loop = b->loop,
                             .random = &nx_random_system,
                             .peers = 1,
                             .identity = identity,
                             .job = *job,
                             .on_accept = on_accept,
                             .ctx = b};

    if (nx_quic_open(&b->quic, &config) != NEXAR_OK) {
        die("open");
    }
}

static nx_identity *make_identity(nx_authority *a, uint64_t member)
{
    nx_identity *id = NULL;
    nx_der csr, cert;

    if ((nx_identity_create(&id) != NEXAR_OK) || (nx_identity_request(id, &csr) != NEXAR_OK) ||
        (nx_authority_sign(a, &csr, member, 3600, &cert) != NEXAR_OK) ||
        (nx_identity_adopt(id, &cert, nx_authority_cert(a)) != NEXAR_OK)) {
        die("identity");
    }
    return id;
}

static void init_side(bench *b)
{
    *b = (bench){0};
    b->from = mmap(NULL, 2 * (size_t)LARGE, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if ((b->from == MAP_FAILED) || (nx_loop_create(&b->loop, &nx_clock_system) != NEXAR_OK)) {
        die("memory");
    }
    nx_loop_set_spin(b->loop, SPIN_NS);
    nx_loop_lock(b->loop);
}

/* The child: listens, says where, and obeys. */
static void serve(int out, const nx_identity *identity, const nx_job_id *job)
{
    static bench b;
    uint16_t port;

    init_side(&b);
    b.to = b.from + LARGE;
    open_side(&b, identity, job);
    port = nx_quic_port(b.quic);
    if (write(out, &port, sizeof(port)) != sizeof(port)) {
        _exit(1);
    }
    await(&b); /* up */
    for (;;) {
        nx_event never = {0};

        (void)nx_loop_wait(b.loop, &never, UINT64_MAX);
    }
}

static void report(const char *what, double value, const char *unit, double ratio,
                   const char *target)
{
    printf("%-44s %9.2f %-9s %6.2f  %s\n", what, value, unit, ratio, target);
    (void)fflush(stdout);
}

static void measure_one(bench *b, double seconds, const char *which)
{
    if (strcmp(which, "rtt") == 0) {
        report("round trip, 8 bytes, spinning", round_trip(b, seconds), "us", 1, "");
    } else if (strcmp(which, "rate") == 0) {
        report("64-byte messages one way", message_rate(b, seconds) / 1e6, "M/s", 1, "");
    } else {
        report("one way, parts of 1 MiB",
               bandwidth(b, MIB, (uint64_t)(seconds * 1e9 / LARGE + 1) * LARGE, false), "GB/s", 1,
               "");
    }
}

static void measure(bench *b, double seconds, double raw_us, double limit)
{
    uint64_t total = (uint64_t)(seconds * limit * 1e9 / 2 / LARGE + 1) * LARGE;
    double one, large, each, rtt, rate;

    (void)bandwidth(b, MIB, LARGE, false); /* warm */
    one = bandwidth(b, MIB, total, false);
    report("one way, parts of 1 MiB", one, "GB/s", one / limit, "of the ceiling, wanted 0.60");
    large = bandwidth(b, LARGE, total, false);
    report("one way, parts of 64 MiB", large, "GB/s", large / limit, "of the ceiling, wanted 0.60");
    each = bandwidth(b, MIB, total, true);
    report("both ways, each, parts of 1 MiB", each, "GB/s", each / one, "of one way, wanted 0.55");
    rtt = round_trip(b, seconds);
    report("round trip, 8 bytes, spinning", rtt, "us", rtt / raw_us, "of raw UDP, wanted < 2.5");
    rate = message_rate(b, seconds);
    report("64-byte messages one way", rate / 1e6, "M/s", rate / 500000, "of the wanted 0.5 M/s");
}

int main(int argc, char **argv)
{
    double seconds = (argc > 1) ? strtod(argv[1], NULL) : 2, raw_us, limit;
    struct sockaddr_in to = {.sin_family = AF_INET};
    struct sockaddr_storage address = {0};
    nx_quic_target target = {.member = 2, .addresses = &address, .n = 1};
    nx_job_id job = {{1}};
    nx_authority *a = NULL;
    nx_identity *id[2];
    static bench b;
    uint16_t port;
    int fds[2];
    pid_t pid;

    if ((pipe(fds) != 0) || (nx_authority_create(&a, &job) != NEXAR_OK)) {
        die("start");
    }
    id[0] = make_identity(a, 1);
    id[1] = make_identity(a, 2);
    nxb_pin_to(0);
    raw_us = (argc > 2) ? 1 : nxb_raw_round_trip(seconds / 2);
    limit = (argc > 2) ? 1 : nxb_ceiling(seconds);
    report("raw UDP round trip, 8 bytes, spinning", raw_us, "us", 1, "");
    report("ceiling: GnuTLS AES-128-GCM and UDP, 61440 B", limit, "GB/s", 1, "");
    pid = nxb_fork_on_other_core();
    if (pid == 0) {
        serve(fds[1], id[1], &job);
    }
    init_side(&b);
    open_side(&b, id[0], &job);
    if (read(fds[0], &port, sizeof(port)) != sizeof(port)) {
        die("child");
    }
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons(port);
    memcpy(&address, &to, sizeof(to));
    if (nx_quic_dial(b.quic, &target, &UP, &b, &b.link) != NEXAR_OK) {
        die("dial");
    }
    await(&b);
    if (argc > 2) {
        measure_one(&b, seconds, argv[2]);
    } else {
        measure(&b, seconds, raw_us, limit);
    }
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
    return 0;
}
