/* quic_limits.c - sockets and ciphers without a protocol. */
#include "quic_limits.h"

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <netinet/in.h>
#include <netinet/udp.h>
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

#include "base/clock.h"

enum {
    CALL = 65000, /* bytes of a system call */
    HEAD = 13,    /* size of a short header, which is authenticated */
    TAG = 16,
    MIB = 1 << 20,
    WINDOW = 1500 << 10,          /* bytes in flight: the loopback has no back-pressure */
    LINE = 64 / sizeof(uint64_t), /* keeps the writes of two cores on separate lines */
};

static const double PATIENCE_S = 0.02;

double nxb_now_s(void)
{
    return (double)nx_now(&nx_clock_system) / 1e9;
}

void nxb_pin_to(size_t cpu)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    (void)sched_setaffinity(0, sizeof(set), &set);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double nxb_median(double *v, size_t n)
{
    qsort(v, n, sizeof(*v), by_value);
    return v[n / 2];
}

void nxb_enter(const nxb_host *host)
{
    if ((host->netns >= 0) && (setns(host->netns, CLONE_NEWNET) != 0)) {
        perror("setns");
        _exit(1);
    }
}

static int udp_socket(const nxb_host *host, struct sockaddr_in *a)
{
    socklen_t len = sizeof(*a);
    int size = 4 << 20, fd;

    nxb_enter(host);
    *a = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = host->address};
    fd = socket(AF_INET, SOCK_DGRAM, 0);
    if ((fd < 0) || (bind(fd, (struct sockaddr *)a, len) != 0) ||
        (getsockname(fd, (struct sockaddr *)a, &len) != 0)) {
        perror("socket");
        _exit(1);
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size));
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size));
    return fd;
}

static void udp_pair(const nxb_host hosts[2], int fd[2])
{
    struct sockaddr_in a[2];

    for (int i = 0; i < 2; i++) {
        fd[i] = udp_socket(&hosts[i], &a[i]);
    }
    nxb_enter(&hosts[0]);
    (void)connect(fd[0], (struct sockaddr *)&a[1], sizeof(a[1]));
    (void)connect(fd[1], (struct sockaddr *)&a[0], sizeof(a[0]));
}

pid_t nxb_fork_on_other_core(void)
{
    pid_t pid = fork();

    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        nxb_pin_to(1);
    }
    return pid;
}

double nxb_raw_round_trip(const nxb_host hosts[2], double seconds)
{
    static double samples[1000000];
    char bytes[8] = {0};
    size_t n = 0;
    double end;
    pid_t pid;
    int fd[2];

    udp_pair(hosts, fd);
    pid = nxb_fork_on_other_core();
    if (pid == 0) {
        for (;;) {
            while (recv(fd[1], bytes, sizeof(bytes), MSG_DONTWAIT) < 0) {
            }
            (void)!send(fd[1], bytes, sizeof(bytes), 0);
        }
    }
    end = nxb_now_s() + seconds;
    while ((nxb_now_s() < end) && (n < sizeof(samples) / sizeof(samples[0]))) {
        double begin = nxb_now_s();

        (void)!send(fd[0], bytes, sizeof(bytes), 0);
        while (recv(fd[0], bytes, sizeof(bytes), MSG_DONTWAIT) < 0) {
        }
        samples[n++] = nxb_now_s() - begin;
    }
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
    (void)close(fd[0]);
    (void)close(fd[1]);
    return nxb_median(samples, n) * 1e6;
}

/* Decrypts |n| bytes: datagrams of |segment| bytes; the last may be shorter. */
static void open_datagrams(gnutls_aead_cipher_hd_t aead, const uint8_t *in, size_t n,
                           size_t segment)
{
    static uint8_t out[4 * MIB];
    static size_t at;

    while (n > HEAD + TAG) {
        size_t m = (segment < n) ? segment : n, len = sizeof(out) - at;
        uint8_t nonce[12] = {0};

        memcpy(nonce + 4, in + 1, 8);
        if (gnutls_aead_cipher_decrypt(aead, nonce, sizeof(nonce), in, HEAD, TAG, in + HEAD,
                                       m - HEAD, out + at, &len) != 0) {
            abort();
        }
        at = (at + (size_t)2 * CALL > sizeof(out)) ? 0 : at + len;
        in += m;
        n -= m;
    }
}

/* Reads and decrypts the available datagrams once; returns the number of bytes. */
static uint64_t receive_some(int fd, gnutls_aead_cipher_hd_t aead)
{
    static uint8_t in[65536];
    _Alignas(struct cmsghdr) uint8_t control[CMSG_SPACE(sizeof(int))];
    struct iovec iov = {.iov_base = in, .iov_len = sizeof(in)};
    struct msghdr hdr = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control,
                         .msg_controllen = sizeof(control)};
    ssize_t n = recvmsg(fd, &hdr, MSG_DONTWAIT);
    const struct cmsghdr *c = (n > 0) ? CMSG_FIRSTHDR(&hdr) : NULL;
    int segment = (int)n;

    if (n <= 0) {
        return 0;
    }
    if ((c != NULL) && (c->cmsg_level == IPPROTO_UDP) && (c->cmsg_type == UDP_GRO)) {
        memcpy(&segment, CMSG_DATA(c), sizeof(segment));
    }
    open_datagrams(aead, in, (size_t)n, (size_t)segment);
    return (uint64_t)n;
}

/* Fills |out| with |count| datagrams. */
static void seal_datagrams(gnutls_aead_cipher_hd_t aead, uint8_t *out, size_t datagram,
                           size_t count)
{
    static uint8_t in[4 * MIB];
    static uint64_t number;
    static size_t at;

    for (; count > 0; count--) {
        size_t len = datagram - HEAD;
        uint8_t nonce[12] = {0};

        number++;
        memcpy(out + 1, &number, 8);
        memcpy(nonce + 4, &number, 8);
        (void)gnutls_aead_cipher_encrypt(aead, nonce, sizeof(nonce), out, HEAD, TAG, in + at,
                                         datagram - HEAD - TAG, out + HEAD, &len);
        at = (at + (size_t)2 * CALL > sizeof(in)) ? 0 : at + datagram;
        out += datagram;
    }
}

/* One of the two processes. */
typedef struct end {
    int fd;
    gnutls_aead_cipher_hd_t aead;
    size_t datagram;         /* 0: this end only receives */
    _Atomic uint64_t *got;   /* bytes received by this end */
    _Atomic uint64_t *there; /* bytes received by the other end */
} end;

static void work(const end *e, double seconds)
{
    static uint8_t out[CALL];
    size_t len = (e->datagram > 0) ? CALL / e->datagram * e->datagram : 0;
    double now = nxb_now_s(), until = now + seconds, progress = now;
    uint64_t sent = 0;

    while (now < until) {
        if ((e->datagram > 0) && (sent - atomic_load(e->there) <= WINDOW)) {
            seal_datagrams(e->aead, out, e->datagram, len / e->datagram);
            sent += (send(e->fd, out, len, 0) == (ssize_t)len) ? len : 0;
            progress = now;
        } else if (now - progress > PATIENCE_S) {
            sent = atomic_load(e->there); /* some were lost */
        }
        atomic_fetch_add(e->got, receive_some(e->fd, e->aead));
        now = nxb_now_s();
    }
}

static void set_segments(const int fd[2], size_t datagram)
{
    int size = (int)datagram, one = 1;

    for (int i = 0; (i < 2) && (CALL / datagram > 1); i++) {
        if ((setsockopt(fd[i], IPPROTO_UDP, UDP_SEGMENT, &size, sizeof(size)) != 0) ||
            (setsockopt(fd[i], IPPROTO_UDP, UDP_GRO, &one, sizeof(one)) != 0)) {
            perror("UDP_SEGMENT, UDP_GRO");
            _exit(1);
        }
    }
}

double nxb_ceiling(const nxb_host hosts[2], size_t datagram, bool both, double seconds)
{
    _Atomic uint64_t *got =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint8_t key[16] = {7};
    gnutls_datum_t datum = {.data = key, .size = sizeof(key)};
    gnutls_aead_cipher_hd_t aead;
    uint64_t total;
    double begin;
    pid_t pid;
    int fd[2];

    (void)gnutls_aead_cipher_init(&aead, GNUTLS_CIPHER_AES_128_GCM, &datum);
    udp_pair(hosts, fd);
    set_segments(fd, datagram);
    pid = nxb_fork_on_other_core();
    if (pid == 0) {
        work(&(end){fd[1], aead, both ? datagram : 0, &got[LINE], &got[0]}, 1e9);
    }
    begin = nxb_now_s();
    work(&(end){fd[0], aead, datagram, &got[0], &got[LINE]}, seconds);
    begin = nxb_now_s() - begin;
    total = both ? (atomic_load(&got[0]) + atomic_load(&got[LINE])) / 2 : atomic_load(&got[LINE]);
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
    (void)close(fd[0]);
    (void)close(fd[1]);
    gnutls_aead_cipher_deinit(aead);
    (void)munmap(got, 4096);
    return (double)total / begin / 1e9 * (double)(datagram - HEAD - TAG) / (double)datagram;
}
