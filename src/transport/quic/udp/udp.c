/* udp.c - reading and writing datagrams, in batches. */
#include "udp.h"

#include <errno.h>
#include <linux/errqueue.h>
#include <linux/sock_diag.h>
#include <netinet/udp.h>
#include <string.h>
#include <unistd.h>

#include "address.h"
#include "base/alloc.h"
#include "base/os/sys.h"
#include "udp_socket.h"

enum {
    BATCH = 8,      /* reads per system call: half a MiB, about a core's cache */
    BUFFER = 65536, /* the largest UDP_GRO batch, and any datagram */
    CONTROL = 256,  /* packet info, segment size */
    DATAGRAM_LEAST = 1200,
};

typedef struct control_buf {
    _Alignas(struct cmsghdr) uint8_t bytes[CONTROL];
} control_buf;

struct nx_udp {
    nx_udp_socket s;
    const nx_udp_up *up;
    void *ctx;
    uint8_t *buffers;   /* BATCH * BUFFER */
    unsigned int batch; /* number of datagrams that the next call requests */
    bool more;          /* the last call returned several datagrams, as many as requested */
    bool erred;         /* the last call found an error behind its datagrams */
    struct mmsghdr msgs[BATCH];
    struct iovec iov[BATCH];
    control_buf control[BATCH];
    struct sockaddr_storage from[BATCH];
};

static void reset_msg(nx_udp *u, size_t i)
{
    u->iov[i] = (struct iovec){.iov_base = u->buffers + i * BUFFER, .iov_len = BUFFER};
    u->msgs[i].msg_hdr = (struct msghdr){.msg_name = &u->from[i],
                                         .msg_namelen = sizeof(u->from[i]),
                                         .msg_iov = &u->iov[i],
                                         .msg_iovlen = 1,
                                         .msg_control = &u->control[i],
                                         .msg_controllen = sizeof(u->control[i])};
}

nexar_err nx_udp_open(nx_udp **out, const struct sockaddr_storage *listen, uint16_t first,
                      uint16_t last, const nx_udp_up *up, void *ctx)
{
    nx_udp *u = nx_zalloc(sizeof(*u));
    nexar_err err;

    if (u == NULL) {
        return nx_fail_nomem("a socket");
    }
    u->buffers = nx_alloc_aligned(4096, (size_t)BATCH * BUFFER);
    if (u->buffers == NULL) {
        nx_free(u);
        return nx_fail_nomem("a socket");
    }
    err = nx_udp_socket_open(&u->s, listen, first, last);
    if (err != NEXAR_OK) {
        nx_free(u->buffers);
        nx_free(u);
        return err;
    }
    u->up = up;
    u->ctx = ctx;
    u->batch = 1;
    for (size_t i = 0; i < BATCH; i++) {
        reset_msg(u, i);
    }
    *out = u;
    return NEXAR_OK;
}

void nx_udp_close(nx_udp *u)
{
    if (u == NULL) {
        return;
    }
    (void)nx_sys_close(u->s.fd);
    nx_free(u->buffers);
    nx_free(u);
}

int nx_udp_fd(const nx_udp *u)
{
    return u->s.fd;
}

int nx_udp_family(const nx_udp *u)
{
    return u->s.family;
}

uint16_t nx_udp_port(const nx_udp *u)
{
    return u->s.port;
}

void nx_udp_get_features(const nx_udp *u, nx_udp_features *out)
{
    *out = u->s.features;
}

/* ---- receiving ----------------------------------------------------------------------- */

/* The destination address, and the size of the coalesced datagrams (0: a single datagram). */
static size_t read_control(struct msghdr *hdr, nx_udp_path *path)
{
    size_t segment = 0;

    path->has_source = false;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(hdr); c != NULL; c = CMSG_NXTHDR(hdr, c)) {
        if ((c->cmsg_level == IPPROTO_UDP) && (c->cmsg_type == UDP_GRO)) {
            int size;

            memcpy(&size, CMSG_DATA(c), sizeof(size));
            segment = (size > 0) ? (size_t)size : 0;
        } else if ((c->cmsg_level == IPPROTO_IPV6) && (c->cmsg_type == IPV6_PKTINFO)) {
            struct in6_pktinfo info;

            memcpy(&info, CMSG_DATA(c), sizeof(info));
            path->source = info.ipi6_addr;
            path->interface = IN6_IS_ADDR_LINKLOCAL(&info.ipi6_addr) ? info.ipi6_ifindex : 0;
            path->has_source = true;
        } else if ((c->cmsg_level == IPPROTO_IP) && (c->cmsg_type == IP_PKTINFO)) {
            struct in_pktinfo info;

            memcpy(&info, CMSG_DATA(c), sizeof(info));
            memset(&path->source, 0, sizeof(path->source));
            path->source.s6_addr[10] = path->source.s6_addr[11] = 0xff;
            memcpy(&path->source.s6_addr[12], &info.ipi_addr, 4);
            path->interface = 0;
            path->has_source = true;
        }
    }
    return segment;
}

static void deliver(nx_udp *u, size_t i)
{
    nx_udp_path path = {.remote = u->from[i]};
    size_t len = u->msgs[i].msg_len, segment = read_control(&u->msgs[i].msg_hdr, &path);
    const uint8_t *data = u->iov[i].iov_base;

    if ((segment == 0) || (segment > len)) {
        segment = len;
    }
    while (len > 0) {
        size_t n = (segment < len) ? segment : len;

        u->up->on_datagram(u->ctx, &path, data, n);
        data += n;
        len -= n;
    }
}

/* Reads the network's reports about datagrams sent before. */
static bool read_errors(nx_udp *u)
{
    bool any = false;

    for (;;) {
        uint8_t sent[64];
        nx_udp_refusal r = {.sent = sent};
        control_buf control;
        struct iovec iov = {.iov_base = sent, .iov_len = sizeof(sent)};
        struct msghdr hdr = {.msg_name = &r.remote,
                             .msg_namelen = sizeof(r.remote),
                             .msg_iov = &iov,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof(control)};
        ssize_t n = nx_sys_recvmsg(u->s.fd, &hdr, MSG_ERRQUEUE | MSG_DONTWAIT);

        if (n < 0) {
            return any;
        }
        any = true;
        r.len = (size_t)n;
        for (struct cmsghdr *c = CMSG_FIRSTHDR(&hdr); c != NULL; c = CMSG_NXTHDR(&hdr, c)) {
            struct sock_extended_err e;

            if (((c->cmsg_level == IPPROTO_IP) && (c->cmsg_type == IP_RECVERR)) ||
                ((c->cmsg_level == IPPROTO_IPV6) && (c->cmsg_type == IPV6_RECVERR))) {
                memcpy(&e, CMSG_DATA(c), sizeof(e));
                r.code = (int)e.ee_errno;
                r.mtu = (r.code == EMSGSIZE) ? e.ee_info : 0;
                u->up->on_unreachable(u->ctx, &r);
            }
        }
    }
}

/* Emulates recvmmsg, by a call for each datagram. */
static int receive_apart(nx_udp *u)
{
    unsigned int n = 0;

    while (n < u->batch) {
        ssize_t len = nx_sys_recvmsg(u->s.fd, &u->msgs[n].msg_hdr, MSG_DONTWAIT);

        if (len < 0) {
            u->erred = (n > 0) && (errno != EAGAIN);
            return (n > 0) ? (int)n : -1;
        }
        u->msgs[n++].msg_len = (unsigned int)len;
    }
    return (int)n;
}

/* Requests as many datagrams as came last time and, if all came, twice that: a lone datagram does
 * not pay for a second call. */
bool nx_udp_receive(nx_udp *u)
{
    int n = u->s.features.recvmmsg ? nx_sys_recvmmsg(u->s.fd, u->msgs, u->batch, MSG_DONTWAIT)
                                   : receive_apart(u);

    u->more = (n > 1) && ((unsigned int)n == u->batch);
    if ((n > 0) && ((unsigned int)n == u->batch)) {
        u->batch = (2 * u->batch < BATCH) ? 2 * u->batch : BATCH;
    } else {
        u->batch = (n > 1) ? (unsigned int)n : 1;
    }
    if (n < 0) {
        /* A pending error makes every call fail until it is read. */
        return (errno != EAGAIN) ? read_errors(u) : false;
    }
    if ((n > 0) && (u->up->on_batch != NULL)) {
        u->up->on_batch(u->ctx);
    }
    for (size_t i = 0; i < (size_t)n; i++) {
        deliver(u, i);
    }
    for (size_t i = 0; i < (size_t)n; i++) {
        reset_msg(u, i);
    }
    if (u->erred) { /* the call has returned the error, and the kernel does not report it again */
        u->erred = false;
        (void)read_errors(u);
    }
    return n > 0;
}

bool nx_udp_has_more(const nx_udp *u)
{
    return u->more;
}

uint32_t nx_udp_drops(const nx_udp *u)
{
    uint32_t info[SK_MEMINFO_VARS] = {0};
    socklen_t len = sizeof(info);

    return (getsockopt(u->s.fd, SOL_SOCKET, SO_MEMINFO, info, &len) == 0) ? info[SK_MEMINFO_DROPS]
                                                                          : 0;
}

/* ---- sending ------------------------------------------------------------------------- */

static struct cmsghdr *add_control(struct msghdr *hdr, int level, int type, const void *data,
                                   size_t len)
{
    struct cmsghdr *c =
        (struct cmsghdr *)(void *)((uint8_t *)hdr->msg_control + hdr->msg_controllen);

    c->cmsg_level = level;
    c->cmsg_type = type;
    c->cmsg_len = CMSG_LEN(len);
    memcpy(CMSG_DATA(c), data, len);
    hdr->msg_controllen += CMSG_SPACE(len);
    return c;
}

/* Whether both ends have one address: a host answers packets to itself from the same address. */
static bool is_loop(const nx_udp_path *path)
{
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)&path->remote;
    const struct sockaddr_in *four = (const struct sockaddr_in *)&path->remote;

    if (path->remote.ss_family == AF_INET6) {
        return (path->interface == 0) &&
               (memcmp(&six->sin6_addr, &path->source, sizeof(path->source)) == 0);
    }
    return memcmp(&four->sin_addr, &path->source.s6_addr[12], 4) == 0;
}

/* The kernel takes 0.3 us to check a source (8 bytes on the loopback). */
static void add_source(const nx_udp *u, struct msghdr *hdr, const nx_udp_path *path)
{
    if (!path->has_source || is_loop(path)) {
        return;
    }
    if (u->s.family == AF_INET6) {
        struct in6_pktinfo info = {.ipi6_addr = path->source, .ipi6_ifindex = path->interface};

        (void)add_control(hdr, IPPROTO_IPV6, IPV6_PKTINFO, &info, sizeof(info));
    } else {
        struct in_pktinfo info = {0};

        memcpy(&info.ipi_spec_dst, &path->source.s6_addr[12], 4);
        (void)add_control(hdr, IPPROTO_IP, IP_PKTINFO, &info, sizeof(info));
    }
}

static int send_once(nx_udp *u, const nx_udp_path *path, const uint8_t *data, size_t len,
                     size_t segment)
{
    control_buf control = {0};
    struct iovec iov = {.iov_base = (void *)data, .iov_len = len};
    struct msghdr hdr = {.msg_name = (void *)&path->remote,
                         .msg_namelen = nx_address_len(&path->remote),
                         .msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = &control};

    add_source(u, &hdr, path);
    if (segment < len) {
        uint16_t size = (uint16_t)segment;

        (void)add_control(&hdr, IPPROTO_UDP, UDP_SEGMENT, &size, sizeof(size));
    }
    if (hdr.msg_controllen == 0) {
        hdr.msg_control = NULL;
    }
    return (nx_sys_sendmsg(u->s.fd, &hdr, MSG_DONTWAIT) < 0) ? errno : 0;
}

/* The next call returns errors about earlier datagrams, to any address, and then sends nothing: the
 * call is repeated. Their details are in the error queue, unless the receive buffer was full.
 * "Refused" is always such an error, and is never attributed to this path. */
static int send_checked(nx_udp *u, const nx_udp_path *path, const uint8_t *data, size_t len,
                        size_t segment)
{
    int code = 0;

    for (int tries = 0; tries < 3; tries++) {
        code = send_once(u, path, data, len, segment);
        if ((code == 0) || (code == EAGAIN) || (code == EMSGSIZE)) {
            return code;
        }
        (void)read_errors(u);
    }
    return (code == ECONNREFUSED) ? ENOBUFS : code;
}

static int send_apart(nx_udp *u, const nx_udp_path *path, const uint8_t *data, size_t len,
                      size_t segment)
{
    int code = 0;

    while (len > 0) {
        size_t n = (segment < len) ? segment : len;

        code = send_checked(u, path, data, n, n);
        if (code != 0) {
            return (code == EAGAIN)
                       ? ENOBUFS
                       : code; /* half of the batch has left: lost, not to be repeated */
        }
        data += n;
        len -= n;
    }
    return code;
}

int nx_udp_send(nx_udp *u, const nx_udp_path *path, const uint8_t *data, size_t len, size_t segment)
{
    int code;

    if ((segment < len) && !u->s.features.gso) {
        return send_apart(u, path, data, len, segment);
    }
    code = send_checked(u, path, data, len, segment);
    if ((segment < len) && ((code == EIO) || (code == EINVAL) || (code == EOPNOTSUPP))) {
        code = send_apart(u, path, data, len, segment);
        if (code == 0) {
            u->s.features.gso =
                false; /* the device does not support it, whatever the kernel has reported */
        }
    }
    return code;
}

size_t nx_udp_datagram_max(const struct sockaddr_storage *remote)
{
    struct sockaddr_storage to;
    socklen_t len = sizeof(int);
    int fd, mtu = 0, level, option;
    size_t head;

    nx_address_plain(remote, &to);
    head = (to.ss_family == AF_INET6) ? 40 + 8 : 20 + 8;
    level = (to.ss_family == AF_INET6) ? IPPROTO_IPV6 : IPPROTO_IP;
    option = (to.ss_family == AF_INET6) ? IPV6_MTU : IP_MTU;
    fd = nx_sys_socket(to.ss_family, SOCK_DGRAM, 0);
    if (fd < 0) {
        return DATAGRAM_LEAST;
    }
    if ((nx_sys_connect(fd, &to, nx_address_len(&to)) != 0) ||
        (getsockopt(fd, level, option, &mtu, &len) != 0) || (mtu < 0)) {
        mtu = 0;
    }
    (void)nx_sys_close(fd);
    if ((size_t)mtu < DATAGRAM_LEAST + head) {
        return DATAGRAM_LEAST;
    }
    return ((size_t)mtu - head < NX_UDP_MAX) ? (size_t)mtu - head : NX_UDP_MAX;
}
