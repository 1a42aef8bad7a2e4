/*
 * wire.c - a network in user space, with reproducible faults: the kernel of a
 * test machine may lack netem.
 *
 *     wire [option]... NAMESPACE=ADDRESS[,ADDRESS]...
 *
 * Opens a tun device "nx0" in each network namespace (a name, or a path) and carries
 * IP packets from one to the other by their destination address: lost, delayed,
 * duplicated, reordered as the options say, the same for the same seed.  Prints "ready" when the
 * devices exist (the caller assigns their addresses and brings them up), then executes
 * lines of its standard input, prints "done" after each, and exits at end of input:
 *
 *     rate MBIT (a bottleneck on the path to each host; 0: none) | queue KIB (before the
 *     bottleneck; excess is dropped) | loss PERCENT | delay MS | jitter MS | double PERCENT | mtu
 *     BYTES (larger packets vanish: a black hole) | cut NAMESPACE | mute NAMESPACE (packets from
 *     it are lost) | deaf NAMESPACE (packets to it are lost) | heal NAMESPACE
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { MOST_HOSTS = 16, MOST_ADDRESSES = 4, MOST_BYTES = 65536, MOST_QUEUED = 65536 };

typedef struct host {
    char name[64];
    int tun;
    struct {
        int family; /* 0: none */
        uint8_t bytes[16];
    } addresses[MOST_ADDRESSES];
    bool mute, deaf;
    uint64_t free_ns; /* when the bottleneck to it is free again */
} host;

typedef struct packet {
    uint64_t at_ns, order;
    int tun;
    size_t len;
    uint8_t *data;
} packet;

static host hosts[MOST_HOSTS];
static int nhosts;
static packet *queue[MOST_QUEUED]; /* a binary heap by time, then order */
static size_t queued;
static uint64_t order, state = 1;
static double loss, doubling, delay_ms, jitter_ms, rate_mbit, queue_kib = 1024;
static size_t mtu = MOST_BYTES;

static _Noreturn void die(const char *what)
{
    (void)fprintf(stderr, "wire: %s: %s\n", what, strerror(errno));
    exit(1);
}

static uint64_t now_ns(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000U + (uint64_t)ts.tv_nsec;
}

/* In [0, 1). */
static double chance(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (double)(state >> 11) / 9007199254740992.0;
}

/* ---- packets in flight ---------------------------------------------------------- */

static bool before(const packet *a, const packet *b)
{
    return (a->at_ns != b->at_ns) ? (a->at_ns < b->at_ns) : (a->order < b->order);
}

static void push(packet *p)
{
    size_t i = queued++;

    while ((i > 0) && before(p, queue[(i - 1) / 2])) {
        queue[i] = queue[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    queue[i] = p;
}

static packet *pop(void)
{
    packet *top = queue[0], *last = queue[--queued];
    size_t i = 0;

    for (size_t child = 1; child < queued; child = 2 * i + 1) {
        child += (child + 1 < queued) && before(queue[child + 1], queue[child]);
        if (!before(queue[child], last)) {
            break;
        }
        queue[i] = queue[child];
        i = child;
    }
    queue[i] = last;
    return top;
}

/* The time at which a packet of |len| bytes has passed the bottleneck to |h|; 0: its queue is
 * full. */
static uint64_t pass(host *h, size_t len)
{
    const uint64_t now = now_ns();
    uint64_t begin;

    if (rate_mbit <= 0) {
        return now;
    }
    begin = (h->free_ns > now) ? h->free_ns : now;
    if ((double)(begin - now) * rate_mbit / 8e3 > queue_kib * 1024) {
        return 0;
    }
    h->free_ns = begin + (uint64_t)((double)len * 8e3 / rate_mbit);
    return h->free_ns;
}

static void send_later(host *to, const uint8_t *data, size_t len)
{
    packet *p;
    uint64_t at_ns;

    if (queued == MOST_QUEUED) {
        return; /* a full queue drops, as a router does */
    }
    at_ns = pass(to, len);
    if (at_ns == 0) {
        return;
    }
    p = malloc(sizeof(*p));
    if ((p == NULL) || ((p->data = malloc(len)) == NULL)) {
        die("memory");
    }
    memcpy(p->data, data, len);
    p->len = len;
    p->tun = to->tun;
    p->order = order++;
    p->at_ns = at_ns + (uint64_t)((delay_ms + jitter_ms * chance()) * 1e6);
    push(p);
}

static void deliver_due(void)
{
    while ((queued > 0) && (queue[0]->at_ns <= now_ns())) {
        packet *p = pop();

        (void)!write(p->tun, p->data, p->len);
        free(p->data);
        free(p);
    }
}

/* ---- carrying ------------------------------------------------------------------------ */

static host *find_target(const uint8_t *data, size_t len)
{
    const int family = (data[0] >> 4 == 6) ? AF_INET6 : AF_INET;
    const size_t at = (family == AF_INET6) ? 24 : 16, size = (family == AF_INET6) ? 16 : 4;

    for (int i = 0; (i < nhosts) && (len >= at + size); i++) {
        for (int k = 0; k < MOST_ADDRESSES; k++) {
            if ((hosts[i].addresses[k].family == family) &&
                (memcmp(hosts[i].addresses[k].bytes, data + at, size) == 0)) {
                return &hosts[i];
            }
        }
    }
    return NULL;
}

static void carry_one(const host *from, const uint8_t *data, size_t len)
{
    host *to = find_target(data, len);

    if ((to == NULL) || from->mute || to->deaf || (len > mtu) || (chance() < loss / 100)) {
        return;
    }
    send_later(to, data, len);
    if (chance() < doubling / 100) {
        send_later(to, data, len);
    }
}

static void carry(const host *from)
{
    static uint8_t data[MOST_BYTES];
    ssize_t len;

    /* A few at a time, so that a busy host does not starve the others. */
    for (int i = 0; (i < 64) && ((len = read(from->tun, data, sizeof(data))) > 0); i++) {
        carry_one(from, data, (size_t)len);
    }
}

/* ---- set-up and orders ------------------------------------------------------------------ */

static int open_tun(const char *name)
{
    struct ifreq request = {.ifr_flags = IFF_TUN | IFF_NO_PI};
    char path[128];
    int ns, tun;

    (void)snprintf(path, sizeof(path), "%s%s", (name[0] == '/') ? "" : "/var/run/netns/", name);
    ns = open(path, O_RDONLY | O_CLOEXEC);
    if ((ns < 0) || (setns(ns, CLONE_NEWNET) != 0)) {
        die(path);
    }
    (void)close(ns);
    tun = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    (void)snprintf(request.ifr_name, sizeof(request.ifr_name), "nx0");
    if ((tun < 0) || (ioctl(tun, TUNSETIFF, &request) != 0)) {
        die("/dev/net/tun");
    }
    return tun;
}

static void add_host(char *text)
{
    host *h = &hosts[nhosts++];
    char *equals = strchr(text, '=');
    int n = 0;

    if ((equals == NULL) || (nhosts > MOST_HOSTS)) {
        errno = EINVAL;
        die(text);
    }
    *equals = '\0';
    (void)snprintf(h->name, sizeof(h->name), "%s", text);
    for (char *at = strtok(equals + 1, ","); (at != NULL) && (n < MOST_ADDRESSES);
         at = strtok(NULL, ","), n++) {
        h->addresses[n].family = (strchr(at, ':') != NULL) ? AF_INET6 : AF_INET;
        if (inet_pton(h->addresses[n].family, at, h->addresses[n].bytes) != 1) {
            errno = EINVAL;
            die(at);
        }
    }
    h->tun = open_tun(h->name);
}

static void obey(char *line)
{
    char *word = strtok(line, " \n"), *value = strtok(NULL, " \n");

    if ((word == NULL) || (value == NULL)) {
        return;
    }
    for (int i = 0; i < nhosts; i++) {
        if (strcmp(hosts[i].name, value) == 0) {
            hosts[i].mute = (strcmp(word, "cut") == 0) || (strcmp(word, "mute") == 0);
            hosts[i].deaf = (strcmp(word, "cut") == 0) || (strcmp(word, "deaf") == 0);
        }
    }
    loss = (strcmp(word, "loss") == 0) ? atof(value) : loss;
    rate_mbit = (strcmp(word, "rate") == 0) ? atof(value) : rate_mbit;
    queue_kib = (strcmp(word, "queue") == 0) ? atof(value) : queue_kib;
    delay_ms = (strcmp(word, "delay") == 0) ? atof(value) : delay_ms;
    jitter_ms = (strcmp(word, "jitter") == 0) ? atof(value) : jitter_ms;
    doubling = (strcmp(word, "double") == 0) ? atof(value) : doubling;
    mtu = (strcmp(word, "mtu") == 0) ? (size_t)atol(value) : mtu;
}

static void loop(void)
{
    for (;;) {
        struct pollfd polls[MOST_HOSTS + 1] = {{.fd = STDIN_FILENO, .events = POLLIN}};
        struct timespec wait = {0};
        char line[256];

        for (int i = 0; i < nhosts; i++) {
            polls[i + 1] = (struct pollfd){.fd = hosts[i].tun, .events = POLLIN};
        }
        if (queued > 0) {
            uint64_t now = now_ns(), at = queue[0]->at_ns, left = (at > now) ? at - now : 0;

            wait = (struct timespec){.tv_sec = (time_t)(left / 1000000000U),
                                     .tv_nsec = (long)(left % 1000000000U)};
        }
        (void)ppoll(polls, (nfds_t)nhosts + 1, (queued > 0) ? &wait : NULL, NULL);
        for (int i = 0; i < nhosts; i++) {
            if (polls[i + 1].revents != 0) {
                carry(&hosts[i]);
            }
        }
        deliver_due();
        if (polls[0].revents != 0) {
            if (fgets(line, sizeof(line), stdin) == NULL) {
                return;
            }
            obey(line);
            (void)printf("done\n");
        }
    }
}

int main(int argc, char **argv)
{
    int i = 1;

    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    (void)setvbuf(stdin, NULL, _IONBF, 0);
    for (; (i + 1 < argc) && (argv[i][0] == '-'); i += 2) {
        char line[256];

        if (strcmp(argv[i], "--seed") == 0) {
            state = strtoull(argv[i + 1], NULL, 10) * 2654435761U + 1;
            continue;
        }
        (void)snprintf(line, sizeof(line), "%s %s", argv[i] + 2, argv[i + 1]);
        obey(line);
    }
    for (; i < argc; i++) {
        add_host(argv[i]);
    }
    (void)printf("ready\n");
    loop();
    return 0;
}
