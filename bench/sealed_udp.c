/*
 * sealed_udp.c - datagrams over the loopback.
 *
 * One socket for each rank. Short datagrams of one length share a system call (UDP_SEGMENT,
 * UDP_GRO). There are no acknowledgements: both ends see the number in flight in shared memory,
 * which costs almost nothing. No datagram is lost.
 */
#include <netinet/udp.h>
#include <string.h>
#include <sys/socket.h>

#include "sealed.h"

enum {
    HEAD = 16,            /* the sender, and the number of the datagram */
    WINDOW = 1 << 20,     /* bytes in flight between two ranks */
    READS = 4,            /* datagrams or batches of a recvmmsg */
    PAYLOAD_MOST = 65507, /* of a datagram, and of one sendmsg */
    SEGMENTS_MOST = 64,   /* accepted by the kernel in one call */
    BUFFERS = 16 << 20,
};

static void prepare(nxb_rank *ranks, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct sockaddr_in *at = &ranks[i].all->at[i];
        const int size = BUFFERS, on = 1, fd = socket(AF_INET, SOCK_DGRAM, 0);
        socklen_t len = sizeof(*at);

        *at =
            (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        if ((fd < 0) || (bind(fd, (struct sockaddr *)at, len) != 0) ||
            (getsockname(fd, (struct sockaddr *)at, &len) != 0)) {
            nxb_give_up("socket");
        }
        if ((setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)) != 0) ||
            (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size)) != 0)) {
            nxb_give_up("room for what is in flight (SO_RCVBUFFORCE; needs root)");
        }
        (void)setsockopt(fd, IPPROTO_UDP, UDP_GRO, &on, sizeof(on));
        ranks[i].fd = fd;
    }
}

static void start(nxb_rank *r)
{
    r->packet = nxb_memory(NXB_BATCH);
    r->buffer = nxb_memory((size_t)READS * NXB_BATCH);
    r->last = r->me;
}

static size_t overhead(const nxb_rank *r)
{
    return HEAD + ((r->key != NULL) ? NXB_TAG : 0);
}

static bool takes_more(const nxb_rank *r, size_t to)
{
    const nxb_flow *f = &r->out[to];

    return (nxb_flow_left(f) > 0) &&
           ((f->number - atomic_load(&r->all->got[r->me][to])) * r->part < WINDOW);
}

/* The next rank, round-robin, that can accept another datagram; r->me: none. */
static size_t whom(const nxb_rank *r)
{
    for (size_t i = 1; i <= r->n; i++) {
        const size_t to = (r->last + i) % r->n;

        if ((to != r->me) && takes_more(r, to)) {
            return to;
        }
    }
    return r->me;
}

/* Seals the next piece for |to| after the |used| bytes of the batch; returns its length. */
static size_t add_datagram(nxb_rank *r, size_t to, size_t used)
{
    nxb_flow *f = &r->out[to];
    const size_t len = nxb_flow_piece(f, r->part);
    const uint64_t head[2] = {r->me, f->number};
    uint8_t *packet = r->packet + used;

    memcpy(packet, head, HEAD);
    nxb_seal(r->key,
             &(nxb_record){
                 .pair = r->me * r->n + to, .number = f->number, .head = packet, .head_len = HEAD},
             f->at + f->done % f->len, len, packet + HEAD);
    f->number++;
    f->done += len;
    return len + overhead(r);
}

static void send_batch(nxb_rank *r, size_t to, size_t used, uint16_t segment)
{
    _Alignas(struct cmsghdr) uint8_t control[CMSG_SPACE(sizeof(segment))] = {0};
    struct iovec io = {.iov_base = r->packet, .iov_len = used};
    struct msghdr hdr = {.msg_name = &r->all->at[to],
                         .msg_namelen = sizeof(r->all->at[to]),
                         .msg_iov = &io,
                         .msg_iovlen = 1};

    if (used > segment) {
        struct cmsghdr *c = (struct cmsghdr *)control;

        c->cmsg_level = IPPROTO_UDP;
        c->cmsg_type = UDP_SEGMENT;
        c->cmsg_len = CMSG_LEN(sizeof(segment));
        memcpy(CMSG_DATA(c), &segment, sizeof(segment));
        hdr.msg_control = control;
        hdr.msg_controllen = sizeof(control);
    }
    if (sendmsg(r->fd, &hdr, 0) < 0) {
        nxb_give_up("sendmsg");
    }
}

/* Sends as many datagrams to one rank as fit in a call. */
static bool push(nxb_rank *r)
{
    const size_t to = whom(r), whole = r->part + overhead(r);
    size_t used = 0, last = whole, first = 0;

    if (to == r->me) {
        return false;
    }
    for (size_t n = 0; (n < SEGMENTS_MOST) && (last == whole) && (used + whole <= PAYLOAD_MOST) &&
                       takes_more(r, to);
         n++) {
        last = add_datagram(r, to, used);
        first = (first == 0) ? last : first;
        used += last;
    }
    send_batch(r, to, used, (uint16_t)first);
    r->last = to;
    return true;
}

/* Opens one datagram into its place. */
static void take(nxb_rank *r, const uint8_t *datagram, size_t bytes)
{
    const size_t len = bytes - overhead(r);
    uint64_t head[2];
    size_t from, pieces, at;
    nxb_flow *f;

    memcpy(head, datagram, HEAD);
    from = (size_t)head[0];
    f = &r->in[from];
    pieces = (f->len + r->part - 1) / r->part;
    at = (size_t)((head[1] - f->base) % pieces) * r->part;
    nxb_open(
        r->key,
        &(nxb_record){
            .pair = from * r->n + r->me, .number = head[1], .head = datagram, .head_len = HEAD},
        datagram + HEAD, len, f->at + at);
    f->number++;
    f->done += len;
}

static size_t segment_of(struct msghdr *hdr, size_t len)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(hdr); c != NULL; c = CMSG_NXTHDR(hdr, c)) {
        if ((c->cmsg_level == IPPROTO_UDP) && (c->cmsg_type == UDP_GRO)) {
            int size;

            memcpy(&size, CMSG_DATA(c), sizeof(size));
            return (size > 0) ? (size_t)size : len;
        }
    }
    return len;
}

static void take_batch(nxb_rank *r, struct msghdr *hdr, size_t len)
{
    const size_t segment = segment_of(hdr, len);
    const uint8_t *data = hdr->msg_iov->iov_base;

    for (size_t at = 0; at < len; at += segment) {
        take(r, data + at, (len - at < segment) ? len - at : segment);
    }
}

static bool pull(nxb_rank *r)
{
    _Alignas(struct cmsghdr) uint8_t control[READS][64];
    struct mmsghdr hdrs[READS];
    struct iovec io[READS];
    int n;

    for (size_t i = 0; i < READS; i++) {
        io[i] = (struct iovec){.iov_base = r->buffer + i * NXB_BATCH, .iov_len = NXB_BATCH};
        hdrs[i] = (struct mmsghdr){.msg_hdr = {.msg_iov = &io[i],
                                               .msg_iovlen = 1,
                                               .msg_control = control[i],
                                               .msg_controllen = sizeof(control[i])}};
    }
    n = recvmmsg(r->fd, hdrs, READS, MSG_DONTWAIT, NULL);
    for (int i = 0; i < n; i++) {
        take_batch(r, &hdrs[i].msg_hdr, hdrs[i].msg_len);
    }
    for (size_t from = 0; (n > 0) && (from < r->n); from++) {
        atomic_store(&r->all->got[from][r->me], r->in[from].number);
    }
    return n > 0;
}

const nxb_over nxb_over_udp = {
    .name = "udp", .prepare = prepare, .start = start, .push = push, .pull = pull};
