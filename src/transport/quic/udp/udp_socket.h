/* udp_socket.h - opens a UDP socket and asks the kernel for its features. */
#ifndef NX_UDP_SOCKET_H
#define NX_UDP_SOCKET_H

#include "udp.h"

typedef struct nx_udp_socket {
    int fd, family;
    uint16_t port;
    nx_udp_features features;
} nx_udp_socket;

/* As nx_udp_open. */
NX_MUST_CHECK nexar_err nx_udp_socket_open(nx_udp_socket *s, const struct sockaddr_storage *listen,
                                           uint16_t first, uint16_t last);

#endif /* NX_UDP_SOCKET_H */
