/*
 * sealed_tcp.c - records over TCP on the loopback: a head of 5 bytes, up to 16 KiB, and a tag, as
 * in TLS. One connection per pair of ranks; up to four records per system call.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sealed.h"

enum { HEAD = 5, RECORD = 16384, RECORDS = 4, ROOM = RECORDS * (HEAD + RECORD + NXB_TAG) };

/* One connection: bytes that the socket has not accepted yet, and bytes of an incomplete record. */
typedef struct nxb_pipe {
    uint8_t out[ROOM], in[ROOM];
    size_t queued, sent, have;
} nxb_pipe;

static void join(const int listener, const struct sockaddr_in *at, int *a, int *b)
{
    const int on = 1;

    *a = socket(AF_INET, SOCK_STREAM, 0);
    if ((*a < 0) || (connect(*a, (const struct sockaddr *)at, sizeof(*at)) != 0)) {
        nxb_give_up("connect");
    }
    *b = accept(listener, NULL, NULL);
    if ((*b < 0) || (fcntl(*a, F_SETFL, O_NONBLOCK) != 0) ||
        (fcntl(*b, F_SETFL, O_NONBLOCK) != 0) ||
        (setsockopt(*a, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0) ||
        (setsockopt(*b, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0)) {
        nxb_give_up("accept");
    }
}

static void prepare(nxb_rank *ranks, size_t n)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    socklen_t len = sizeof(at);

    if ((listener < 0) || (bind(listener, (struct sockaddr *)&at, len) != 0) ||
        (getsockname(listener, (struct sockaddr *)&at, &len) != 0) || (listen(listener, 1) != 0)) {
        nxb_give_up("listen");
    }
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < i; j++) {
            join(listener, &at, &ranks[i].fds[j], &ranks[j].fds[i]);
        }
    }
    (void)close(listener);
}

static void start(nxb_rank *r)
{
    r->pipes = nxb_memory(r->n * sizeof(*r->pipes));
    memset(r->pipes, 0, r->n * sizeof(*r->pipes));
}

static size_t tag_of(const nxb_rank *r)
{
    return (r->key != NULL) ? NXB_TAG : 0;
}

static void fill(nxb_rank *r, size_t to, nxb_pipe *p)
{
    nxb_flow *f = &r->out[to];

    p->queued = p->sent = 0;
    for (size_t n = 0; (n < RECORDS) && (nxb_flow_left(f) > 0); n++) {
        const size_t len = nxb_flow_piece(f, RECORD), sealed = len + tag_of(r);
        uint8_t *head = p->out + p->queued;

        memcpy(head, (const uint8_t[]){23, 3, 3, (uint8_t)(sealed >> 8), (uint8_t)sealed}, HEAD);
        nxb_seal(
            r->key,
            &(nxb_record){
                .pair = r->me * r->n + to, .number = f->number++, .head = head, .head_len = HEAD},
            f->at + f->done % f->len, len, head + HEAD);
        f->done += len;
        p->queued += HEAD + sealed;
    }
}

static bool push_to(nxb_rank *r, size_t to)
{
    nxb_pipe *p = &r->pipes[to];
    ssize_t n;

    if (p->sent == p->queued) {
        fill(r, to, p);
    }
    if (p->sent == p->queued) {
        return false;
    }
    n = send(r->fds[to], p->out + p->sent, p->queued - p->sent, MSG_DONTWAIT | MSG_NOSIGNAL);
    if ((n < 0) && (errno != EAGAIN)) {
        nxb_give_up("send");
    }
    p->sent += (n > 0) ? (size_t)n : 0;
    r->out[to].unsent = p->queued - p->sent;
    return n > 0;
}

/* Opens the complete records. */
static void open_records(nxb_rank *r, size_t from, nxb_pipe *p)
{
    nxb_flow *f = &r->in[from];
    size_t at = 0;

    while (p->have - at >= HEAD) {
        const uint8_t *head = p->in + at;
        const size_t sealed = ((size_t)head[3] << 8) + head[4], len = sealed - tag_of(r);

        if (p->have - at < HEAD + sealed) {
            break;
        }
        nxb_open(
            r->key,
            &(nxb_record){
                .pair = from * r->n + r->me, .number = f->number++, .head = head, .head_len = HEAD},
            head + HEAD, len, f->at + f->done % f->len);
        f->done += len;
        at += HEAD + sealed;
    }
    memmove(p->in, p->in + at, p->have - at);
    p->have -= at;
}

static bool pull_from(nxb_rank *r, size_t from)
{
    nxb_pipe *p = &r->pipes[from];
    const ssize_t n = (nxb_flow_left(&r->in[from]) > 0)
                          ? recv(r->fds[from], p->in + p->have, ROOM - p->have, MSG_DONTWAIT)
                          : 0;

    if ((n < 0) && (errno != EAGAIN)) {
        nxb_give_up("recv");
    }
    if (n <= 0) {
        return false;
    }
    p->have += (size_t)n;
    open_records(r, from, p);
    return true;
}

static bool each(nxb_rank *r, bool (*move)(nxb_rank *, size_t))
{
    bool any = false;

    for (size_t i = 1; i < r->n; i++) {
        any = move(r, (r->me + i) % r->n) || any;
    }
    return any;
}

static bool push(nxb_rank *r)
{
    return each(r, push_to);
}

static bool pull(nxb_rank *r)
{
    return each(r, pull_from);
}

const nxb_over nxb_over_tcp = {
    .name = "tcp", .prepare = prepare, .start = start, .push = push, .pull = pull};
