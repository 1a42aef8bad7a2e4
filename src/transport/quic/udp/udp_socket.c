/* udp_socket.c - binds the socket and sets its options, each of which may be missing. */
#include "udp_socket.h"

#include <errno.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "address.h"
#include "base/os/sys.h"

static bool set(int fd, int level, int option, int value)
{
    return setsockopt(fd, level, option, &value, sizeof(value)) == 0;
}

/* Exceeds the system's limit if permitted; returns the granted size (the kernel reports twice that,
 * to count its own book-keeping). */
static size_t set_buffer(int fd, int forced, int plain, int value)
{
    socklen_t len = sizeof(value);

    if (!set(fd, SOL_SOCKET, forced, value)) {
        (void)set(fd, SOL_SOCKET, plain, value);
    }
    if (getsockopt(fd, SOL_SOCKET, plain, &value, &len) != 0) {
        return 0;
    }
    return (size_t)value / 2;
}

static void set_options(nx_udp_socket *s)
{
    s->features.rcvbuf = set_buffer(s->fd, SO_RCVBUFFORCE, SO_RCVBUF, NX_UDP_BUFFERS);
    s->features.sndbuf = set_buffer(s->fd, SO_SNDBUFFORCE, SO_SNDBUF, NX_UDP_BUFFERS);
    s->features.gro = set(s->fd, IPPROTO_UDP, UDP_GRO, 1);
    /* A size for the whole socket tests whether the option exists; each send sets its own. */
    s->features.gso =
        set(s->fd, IPPROTO_UDP, UDP_SEGMENT, 1200) && set(s->fd, IPPROTO_UDP, UDP_SEGMENT, 0);
    /* Requests no message, so that none is lost: only a sandbox refuses the call. */
    s->features.recvmmsg = (nx_sys_recvmmsg(s->fd, NULL, 0, MSG_DONTWAIT) == 0);
    s->features.ipv6 = (s->family == AF_INET6);
    /* IPv4 through an IPv6 socket uses the options of both. */
    (void)set(s->fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO);
    (void)set(s->fd, IPPROTO_IP, IP_RECVERR, 1);
    if (s->family == AF_INET6) {
        (void)set(s->fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1);
        (void)set(s->fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO);
        (void)set(s->fd, IPPROTO_IPV6, IPV6_RECVERR, 1);
    } else {
        (void)set(s->fd, IPPROTO_IP, IP_PKTINFO, 1);
    }
}

static int make(const struct sockaddr_storage *address, bool both)
{
    int fd = nx_sys_socket(address->ss_family, SOCK_DGRAM | SOCK_NONBLOCK, 0);

    if ((fd >= 0) && (address->ss_family == AF_INET6) &&
        !set(fd, IPPROTO_IPV6, IPV6_V6ONLY, both ? 0 : 1)) {
        (void)nx_sys_close(fd);
        return -1;
    }
    return fd;
}

/* Binds the first free port of the range; returns an errno if there is none. */
static int bind_range(int fd, const struct sockaddr_storage *address, uint16_t first, uint16_t last)
{
    struct sockaddr_storage a = *address;

    for (uint32_t port = first; port <= last; port++) {
        nx_address_set_port(&a, (uint16_t)port);
        if (bind(fd, (const struct sockaddr *)&a, nx_address_len(&a)) == 0) {
            return 0;
        }
        if ((errno != EADDRINUSE) && (errno != EACCES)) {
            return errno;
        }
    }
    return EADDRINUSE;
}

static nexar_err fail_bind(const struct sockaddr_storage *address, uint16_t first, uint16_t last,
                           int code)
{
    char text[NX_ADDRESS_TEXT], what[NX_ADDRESS_TEXT + 32];

    if (first == last) {
        struct sockaddr_storage a = *address;

        nx_address_set_port(&a, first);
        (void)snprintf(what, sizeof(what), "%s", nx_address_text(&a, text));
    } else {
        (void)snprintf(what, sizeof(what), "%s, ports %u to %u", nx_address_text(address, text),
                       first, last);
    }
    return nx_fail_sys("bind", what, code);
}

static nexar_err open_at(nx_udp_socket *s, const struct sockaddr_storage *address, bool both,
                         uint16_t first, uint16_t last)
{
    struct sockaddr_storage bound = {0};
    socklen_t len = sizeof(bound);
    int code;

    s->family = address->ss_family;
    s->fd = make(address, both);
    if (s->fd < 0) {
        return nx_fail_sys("socket", "", errno);
    }
    code = bind_range(s->fd, address, first, last);
    if ((code == 0) && (getsockname(s->fd, (struct sockaddr *)&bound, &len) != 0)) {
        code = errno;
    }
    if (code != 0) {
        (void)nx_sys_close(s->fd);
        return fail_bind(address, first, last, code);
    }
    s->port = nx_address_port(&bound);
    set_options(s);
    return NEXAR_OK;
}

nexar_err nx_udp_socket_open(nx_udp_socket *s, const struct sockaddr_storage *listen,
                             uint16_t first, uint16_t last)
{
    struct sockaddr_storage any = {.ss_family = AF_INET6};

    *s = (nx_udp_socket){.fd = -1};
    if (last < first) {
        last = first;
    }
    if (listen->ss_family != 0) {
        uint16_t own = nx_address_port(listen);

        return open_at(s, listen, false, (own != 0) ? own : first, (own != 0) ? own : last);
    }
    if (open_at(s, &any, true, first, last) == NEXAR_OK) {
        return NEXAR_OK;
    }
    any.ss_family = AF_INET; /* a host without IPv6 */
    return open_at(s, &any, false, first, last);
}
