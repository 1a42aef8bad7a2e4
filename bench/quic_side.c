/* quic_side.c - the two ends of a link that is measured. */
#include "quic_side.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "transport/quic/quic.h"

enum {
    SLOTS = 16,   /* parts in flight at most */
    SMALL = 64,   /* bytes of a small message */
    BURST = 8192, /* small messages before the peer must report its count */
};

static void die(const char *what)
{
    (void)fprintf(stderr, "quic_bench: %s: %s\n", what, nexar_last_error());
    _exit(1);
}

struct nxb_side {
    nx_loop *loop;
    nx_quic *quic;
    nx_link *link;
    nx_event event;          /* the event that the main program waits for */
    uint64_t done;           /* the last count that the peer reported */
    uint64_t got, got_until; /* bytes or frames; reported when reached */
    uint64_t queued, total;  /* bytes to send, of parts of |size| */
    size_t size;
    nx_tx tx[SLOTS];
    nx_bytes bytes[SLOTS];
    uint8_t *from, *to;
};

/* Control frames: an operation and a number. */
typedef struct order {
    char what;
    uint64_t n, size;
} order;

static void tell(nxb_side *b, char what, uint64_t n, uint64_t size)
{
    order o = {.what = what, .n = n, .size = size};
    nx_bytes bytes = {&o, sizeof(o)};

    if (nx_link_send_frame(b->link, NX_LANE_CONTROL, &bytes, 1) != NEXAR_OK) {
        die("send");
    }
}

static void send_next(nxb_side *b, nx_tx *tx)
{
    size_t slot = (size_t)(tx - b->tx);

    if (b->queued >= b->total) {
        return;
    }
    b->bytes[slot] = (nx_bytes){b->from + (b->queued % NXB_LARGE), b->size};
    *tx = (nx_tx){.id = b->queued, .len = b->size, .bytes = &b->bytes[slot], .nbytes = 1};
    b->queued += b->size;
    if (nx_link_send_part(b->link, tx) != NEXAR_OK) {
        die("send");
    }
}

static void send_parts(nxb_side *b, uint64_t total, size_t size)
{
    size_t slots = (size == NXB_LARGE) ? 2 : SLOTS;

    b->queued = 0;
    b->total = total;
    b->size = size;
    for (size_t i = 0; i < slots; i++) {
        send_next(b, &b->tx[i]);
    }
}

static void obey(nxb_side *b, const order *o)
{
    switch (o->what) {
    case 'd': /* done: the count received */
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
    nxb_side *b = ctx;

    (void)link;
    nx_event_set(b->loop, &b->event);
}

static void count(nxb_side *b, uint64_t n)
{
    b->got += n;
    if ((b->got_until != 0) && (b->got >= b->got_until)) {
        b->got_until = 0;
        tell(b, 'd', b->got, 0);
    }
}

static void on_frame(void *ctx, nx_link *link, nx_lane lane, const void *data, size_t len)
{
    nxb_side *b = ctx;
    nx_bytes back = {data, len};
    order o;

    if (lane == NX_LANE_CONTROL) {
        memcpy(&o, data, sizeof(o));
        obey(b, &o);
    } else if (len == SMALL) {
        count(b, 1);
    } else if (b->to == NULL) { /* this side has sent the ping */
        nx_event_set(b->loop, &b->event);
    } else if (nx_link_send_frame(link, NX_LANE_MESSAGE, &back, 1) != NEXAR_OK) {
        die("send");
    }
}

static uint8_t *place_of(nxb_side *b, uint64_t id, uint64_t off)
{
    return b->from + NXB_LARGE + (id + off) % NXB_LARGE;
}

static void on_data(void *ctx, nx_link *link, uint64_t id, uint64_t off, const void *data,
                    size_t len)
{
    nxb_side *b = ctx;
    uint8_t *place = place_of(b, id, off);

    (void)link;
    if (place != data) {
        memcpy(place, data, len);
    }
    count(b, len);
}

static void *on_want(void *ctx, nx_link *link, uint64_t id, uint64_t off, size_t *len)
{
    const size_t left = NXB_LARGE - (size_t)((id + off) % NXB_LARGE);

    (void)link;
    *len = (*len < left) ? *len : left;
    return place_of(ctx, id, off);
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

static const nx_link_up UP = {.on_up = on_up,
                              .on_frame = on_frame,
                              .on_data = on_data,
                              .on_want = on_want,
                              .on_sent = on_sent,
                              .on_down = on_down};

static void on_accept(void *ctx, nx_link *link, uint64_t member)
{
    nxb_side *b = ctx;

    (void)member;
    b->link = link;
    link->up = &UP;
    link->up_ctx = b;
}

static void await(nxb_side *b)
{
    if (!nx_loop_wait(b->loop, &b->event, nx_loop_refresh(b->loop) + UINT64_C(60000000000))) {
        die("nothing happens");
    }
    b->event.set = false;
}

/* GB/s in one direction; with |both| in each direction. */
double nxb_bandwidth(nxb_side *b, size_t size, uint64_t total, bool both)
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

double nxb_round_trip(nxb_side *b, double seconds)
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

/* Messages per second: two bursts are in flight at any time. */
double nxb_message_rate(nxb_side *b, double seconds)
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

static void open_side(nxb_side *b, const nx_identity *identity, const nx_job_id *job)
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
        (nx_authority_sign(a, &csr, member, &cert) != NEXAR_OK) ||
        (nx_identity_adopt(id, &cert, nx_authority_cert(a)) != NEXAR_OK)) {
        die("identity");
    }
    return id;
}

static void init_side(nxb_side *b)
{
    *b = (nxb_side){0};
    b->from = mmap(NULL, 2 * (size_t)NXB_LARGE, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if ((b->from == MAP_FAILED) || (nx_loop_create(&b->loop, &nx_clock_system) != NEXAR_OK)) {
        die("memory");
    }
    const nx_wait_policy waits = nx_wait_policy_make(nx_machine_costs_get(), NX_WAIT_AUTO, false);

    nx_loop_set_policy(b->loop, &waits);
    nx_loop_lock(b->loop);
}

/* The child: listens, reports its address, and executes orders. */
static void serve(const nxb_host *host, int out, const nx_identity *identity, const nx_job_id *job)
{
    static nxb_side b;
    uint16_t port;

    nxb_enter(host);
    init_side(&b);
    b.to = b.from + NXB_LARGE;
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

nxb_side *nxb_connect(const nxb_host hosts[2], pid_t *child)
{
    static nxb_side b;
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr = hosts[1].address};
    struct sockaddr_storage address = {0};
    nx_quic_target target = {.member = 2, .addresses = &address, .n = 1};
    nx_job_id job = {{1}};
    nx_authority *a = NULL;
    nx_identity *id[2];
    uint16_t port;
    int fds[2];

    if ((pipe(fds) != 0) || (nx_authority_create(&a, &job) != NEXAR_OK)) {
        die("start");
    }
    id[0] = make_identity(a, 1);
    id[1] = make_identity(a, 2);
    *child = nxb_fork_on_other_core();
    if (*child == 0) {
        serve(&hosts[1], fds[1], id[1], &job);
    }
    nxb_enter(&hosts[0]);
    init_side(&b);
    open_side(&b, id[0], &job);
    if (read(fds[0], &port, sizeof(port)) != sizeof(port)) {
        die("child");
    }
    to.sin_port = htons(port);
    memcpy(&address, &to, sizeof(to));
    if (nx_quic_dial(b.quic, &target, &UP, &b, &b.link) != NEXAR_OK) {
        die("dial");
    }
    await(&b);
    return &b;
}

size_t nxb_datagram(nxb_side *b)
{
    nx_link_info info;

    b->link->ops->info(b->link, &info);
    return info.mtu;
}
