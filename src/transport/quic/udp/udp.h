/*
 * udp.h - the socket: batched reads and writes where the kernel supports them.
 *
 * UDP_SEGMENT (many datagrams in one send), UDP_GRO (many in one read), recvmmsg and large buffers
 * are tried when the socket is opened and used if available. Replies leave from the address that
 * received the request, also on a host with several.
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
    NX_UDP_BUFFERS = 16 << 20 /* requested size of socket buffers */
};

/* The addresses of a datagram. */
typedef struct nx_udp_path {
    struct sockaddr_storage remote;
    struct in6_addr source; /* local, IPv4 as ::ffff:a.b.c.d */
    unsigned int interface; /* the only interface on which |source| is valid; 0: any */
    bool has_source;        /* if not, the kernel chooses */
} nx_udp_path;

/* The network reports that a datagram could not be delivered. */
typedef struct nx_udp_refusal {
    struct sockaddr_storage remote; /* where it was sent */
    int code;                       /* an errno; EMSGSIZE: the datagram was too long */
    size_t mtu;
    const uint8_t *sent; /* its first bytes, if the network reports them; borrowed */
    size_t len;
} nx_udp_refusal;

typedef struct nx_udp nx_udp;

typedef struct nx_udp_up {
    /* The kernel has returned datagrams, which follow. Round-trip measurements that they end must
     * use a time read here or later: an earlier time would be too short if this thread was
     * preempted in between. NULL: not needed. */
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

/* Reads available datagrams, at most some hundred KiB, without blocking; returns whether there were
 * any. */
bool nx_udp_receive(nx_udp *u);
/* Whether the last read filled its buffers: there is probably more. */
bool nx_udp_has_more(const nx_udp *u);

/* Datagrams that the kernel has dropped so far because the receive buffer was full; 0 if
 * unknown. */
uint32_t nx_udp_drops(const nx_udp *u);

/*
 * Sends |len| bytes as datagrams of |segment| bytes (the last may be shorter). Returns 0, EAGAIN if
 * the socket is full, or another errno: then they are lost, as any datagram may be.
 */
int nx_udp_send(nx_udp *u, const nx_udp_path *path, const uint8_t *data, size_t len,
                size_t segment);

/* Largest datagram to |remote| according to the interface (and the kernel's path MTU); 1200 if
 * unknown. */
size_t nx_udp_datagram_max(const struct sockaddr_storage *remote);

#endif /* NX_UDP_H */
