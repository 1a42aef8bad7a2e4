/* quic_limits.c - sockets and ciphers without a protocol. */
#include "quic_limits.h"

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
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

#include "base/clock.h"

enum {
    DATAGRAM = 61440,
    HEAD = 13, /* what a short header takes, and is authenticated */
    TAG = 16,
    MIB = 1 << 20,
    WINDOW = 1500 << 10, /* bytes under way: there is no back-pressure on the loopback */
};

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

static void udp_pair(int fd[2])
{
    struct sockaddr_in a[2] = {{.sin_family = AF_INET}, {.sin_family = AF_INET}};
    int size = 4 << 20;

    for (int i = 0; i < 2; i++) {
        socklen_t len = sizeof(a[i]);

        a[i].sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        fd[i] = socket(AF_INET, SOCK_DGRAM, 0);
        if ((fd[i] < 0) || (bind(fd[i], (struct sockaddr *)&a[i], len) != 0) ||
            (getsockname(fd[i], (struct sockaddr *)&a[i], &len) != 0)) {
            perror("socket");
            _exit(1);
        }
        (void)setsockopt(fd[i], SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size));
        (void)setsockopt(fd[i], SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size));
    }
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

double nxb_raw_round_trip(double seconds)
{
    static double samples[1000000];
    char bytes[8] = {0};
    size_t n = 0;
    double end;
    pid_t pid;
    int fd[2];

    udp_pair(fd);
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

static void ceiling_receive(int fd, _Atomic uint64_t *received, gnutls_aead_cipher_hd_t aead)
{
    static uint8_t in[65536], out[4 * MIB];
    size_t at = 0;

    for (;;) {
        ssize_t n = recv(fd, in, sizeof(in), MSG_DONTWAIT);
        size_t len = sizeof(out) - at;
        uint8_t nonce[12] = {0};

        if (n < HEAD + TAG) {
            continue;
        }
        memcpy(nonce + 4, in + 1, 8);
        if (gnutls_aead_cipher_decrypt(aead, nonce, sizeof(nonce), in, HEAD, TAG, in + HEAD,
                                       (size_t)n - HEAD, out + at, &len) != 0) {
            abort();
        }
        at = (at + (size_t)2 * DATAGRAM > sizeof(out)) ? 0 : at + len;
        atomic_fetch_add(received, (uint64_t)n);
    }
}

static uint64_t ceiling_send(int fd, _Atomic uint64_t *received, gnutls_aead_cipher_hd_t aead,
                             double seconds)
{
    static uint8_t in[4 * MIB], out[DATAGRAM];
    uint64_t number = 0, sent = 0;
    double end = nxb_now_s() + seconds;
    size_t at = 0;

    while (nxb_now_s() < end) {
        size_t len = sizeof(out) - HEAD;
        uint8_t nonce[12] = {0};

        while (sent - atomic_load(received) > WINDOW) {
        }
        number++;
        memcpy(out + 1, &number, 8);
        memcpy(nonce + 4, &number, 8);
        (void)gnutls_aead_cipher_encrypt(aead, nonce, sizeof(nonce), out, HEAD, TAG, in + at,
                                         DATAGRAM - HEAD - TAG, out + HEAD, &len);
        at = (at + (size_t)2 * DATAGRAM > sizeof(in)) ? 0 : at + DATAGRAM;
        if (send(fd, out, DATAGRAM, 0) == DATAGRAM) {
            sent += DATAGRAM;
        }
    }
    return sent;
}

double nxb_ceiling(double seconds)
{
    _Atomic uint64_t *received =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint8_t key[16] = {7};
    gnutls_datum_t datum = {.data = key, .size = sizeof(key)};
    gnutls_aead_cipher_hd_t aead;
    uint64_t sent;
    double begin;
    pid_t pid;
    int fd[2];

    (void)gnutls_aead_cipher_init(&aead, GNUTLS_CIPHER_AES_128_GCM, &datum);
    udp_pair(fd);
    pid = nxb_fork_on_other_core();
    if (pid == 0) {
        ceiling_receive(fd[1], received, aead);
    }
    begin = nxb_now_s();
    sent = ceiling_send(fd[0], received, aead, seconds);
    begin = nxb_now_s() - begin;
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
    (void)close(fd[0]);
    (void)close(fd[1]);
    gnutls_aead_cipher_deinit(aead);
    (void)munmap(received, 4096);
    return (double)sent / begin / 1e9;
}
