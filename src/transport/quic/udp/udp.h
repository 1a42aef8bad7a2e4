/*
 * udp.h - the socket: large reads and writes where the kernel has them.
 *
 * UDP_SEGMENT (many datagrams in one send), UDP_GRO (many in one read), recvmmsg
 * and large buffers are tried when the socket is opened; what the kernel does not
 * have is done without.  Replies leave from the address that was written to, also
 * on a host with many.
 */
#ifndef NX_UDP_H
#define NX_UDP_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/error.h"

enum {
    NX_UDP_MAX = 65507,       /* bytes of one send, and of the largest datagram on IPv4 */
    NX_UDP_SEGMENTS = 64,     /* datagrams of one send */
    NX_UDP_BUFFERS = 16 << 20 /* socket buffers that are asked for */
};

/* Between which addresses a datagram goes. */
typedef struct nx_udp_path {
    struct sockaddr_storage remote;
    struct in6_addr source; /* ours, IPv4 as ::ffff:a.b.c.d */
    unsigned int interface; /* the one that |source| is only valid on; 0: any */
    bool has_source;        /* if not, the kernel chooses */
} nx_udp_path;

/* The network says that something could not be delivered. */
typedef struct nx_udp_refusal {
    struct sockaddr_storage remote; /* where it was sent */
    int code;                       /* an errno; EMSGSIZE: not with datagrams longer than */
    size_t mtu;
    const uint8_t *sent; /* how it began, as far as the network tells; borrowed */
    size_t len;
} nx_udp_refusal;

typedef struct nx_udp nx_udp;

typedef struct nx_udp_up {
    /* The kernel has returned datagrams, which follow.  A round trip that ends with one of them is
     * measured with a time that is read here or later: with an earlier time it would come out too
     * short wherever this thread was preempted between.  NULL: no interest. */
    void (*on_batch)(void *ctx);
    /* A datagram, borrowed. */
    void (*on_datagram)(void *ctx, const nx_udp_path *path, const uint8_t *data, size_t len);
    void (*on_unreachable)(void *ctx, const nx_udp_refusal *r);
} nx_udp_up;

/*
 * Binds |listen| (family 0: every address) with its own port or, if that is 0, one
 * of first .. last (0: any).
 *
 * NEXAR_ESYS, NEXAR_ENOMEM
 */
NX_MUST_CHECK nexar_err nx_udp_open(nx_udp **out, const struct sockaddr_storage *listen,
                                    uint16_t first, uint16_t last, const nx_udp_up *up, void *ctx);
void nx_udp_close(nx_udp *u);

int nx_udp_fd(const nx_udp *u);
int nx_udp_family(const nx_udp *u);
uint16_t nx_udp_port(const nx_udp *u);

typedef struct nx_udp_features {
    bool gso, gro, recvmmsg, ipv6;
    size_t rcvbuf, sndbuf; /* granted */
} nx_udp_features;
void nx_udp_get_features(const nx_udp *u, nx_udp_features *out);

/* Reads what is there, some hundred KiB at most, without blocking; returns whether
 * there was anything. */
bool nx_udp_receive(nx_udp *u);
/* Whether the last read left off with a full hand: there is probably more. */
bool nx_udp_has_more(const nx_udp *u);

/* How many datagrams the kernel has dropped so far because the receive buffer was full; 0 where it
 * does not say. */
uint32_t nx_udp_drops(const nx_udp *u);

/*
 * Sends |len| bytes as datagrams of |segment| bytes (the last may be shorter).
 * Returns 0, EAGAIN when the socket is full, or another errno: then they are lost,
 * as any datagram may be.
 */
int nx_udp_send(nx_udp *u, const nx_udp_path *path, const uint8_t *data, size_t len,
                size_t segment);

/* How many bytes a datagram to |remote| may have by what the interface (and what
 * the kernel has learnt) says; 1200 if it does not. */
size_t nx_udp_datagram_max(const struct sockaddr_storage *remote);

#endif /* NX_UDP_H */
