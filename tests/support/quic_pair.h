/*
 * quic_pair.h - a small cluster for tests: an authority, identities, and endpoints on one loop in
 * one thread; links that record their upcalls.
 */
#ifndef NXT_QUIC_PAIR_H
#define NXT_QUIC_PAIR_H

#include <stdbool.h>
#include <string.h>

#include "loop/loop.h"
#include "transport/identity.h"
#include "transport/quic/quic.h"
#include "unit.h"

enum { NXT_MEMBERS = 4, NXT_ACCEPTED = 400 };

/* The recorded upcalls of a link. */
typedef struct nxt_peer {
    nx_link *link;
    uint64_t member; /* of an accepted one */
    bool up, down;
    nexar_err err;
    nx_end ended;
    char why[512];
    size_t frames, sent, sent_failed;
    uint64_t bytes, frame_bytes;
    size_t frame_len[NX_LANES];
    uint8_t last[64]; /* the first bytes of the last frame */
    size_t last_len;
    uint64_t sum; /* of all bytes of parts, each times its offset + 1 */
    size_t parts_empty;
    bool echo;  /* sends frames back */
    bool plain; /* parts are not summed up: for speed */
    struct nxt_endpoint *at;
} nxt_peer;

typedef struct nxt_endpoint {
    nx_quic *quic;
    nx_identity *identity;
    nxt_peer accepted[NXT_ACCEPTED];
    size_t naccepted;
    bool refuse; /* closes accepted links */
    bool echo;   /* accepted links send frames back */
    nx_loop *loop;
} nxt_endpoint;

typedef struct nxt_cluster {
    nx_loop *loop;
    nx_authority *authority;
    nx_job_id job;
    nxt_endpoint at[NXT_MEMBERS];
    size_t n;
} nxt_cluster;

static inline void nxt_on_up(void *ctx, nx_link *link)
{
    nxt_peer *p = ctx;

    assert_ptr_equal(p->link, link);
    assert_false(p->up);
    assert_false(p->down);
    p->up = true;
}

static inline void nxt_on_frame(void *ctx, nx_link *link, nx_lane lane, const void *data,
                                size_t len)
{
    nxt_peer *p = ctx;

    assert_true(p->up && !p->down);
    p->frames++;
    p->frame_bytes += len;
    p->frame_len[lane] = len;
    p->last_len = len;
    memcpy(p->last, data, (len < sizeof(p->last)) ? len : sizeof(p->last));
    if (p->echo) {
        nx_bytes b = {data, len};

        assert_int_equal(nx_link_send_frame(link, lane, &b, 1), NEXAR_OK);
    }
}

static inline uint64_t nxt_sum(uint64_t off, const void *data, size_t len)
{
    const uint8_t *at = data;
    uint64_t sum = 0;

    for (size_t i = 0; i < len; i++) {
        sum += (off + i + 1) * (at[i] + UINT64_C(1));
    }
    return sum;
}

static inline void nxt_on_data(void *ctx, nx_link *link, uint64_t id, uint64_t off,
                               const void *data, size_t len)
{
    nxt_peer *p = ctx;

    (void)link;
    assert_true(p->up && !p->down);
    p->bytes += len;
    p->parts_empty += (len == 0);
    if (!p->plain) {
        p->sum += (id + 1) * nxt_sum(off, data, len);
    }
}

static inline void nxt_on_sent(void *ctx, nx_link *link, nx_tx *tx, nexar_err err)
{
    nxt_peer *p = ctx;

    (void)link;
    (void)tx;
    p->sent++;
    p->sent_failed += (err != NEXAR_OK);
}

static inline void nxt_on_down(void *ctx, nx_link *link, nexar_err err, const char *why)
{
    nxt_peer *p = ctx;

    assert_ptr_equal(p->link, link);
    assert_false(p->down);
    p->down = true;
    p->err = err;
    p->ended = link->ended;
    (void)strncpy(p->why, why, sizeof(p->why) - 1);
    nx_link_close(link, false);
    p->link = NULL;
}

static const nx_link_up NXT_UP = {.on_up = nxt_on_up,
                                  .on_frame = nxt_on_frame,
                                  .on_data = nxt_on_data,
                                  .on_sent = nxt_on_sent,
                                  .on_down = nxt_on_down};

static inline void nxt_on_accept(void *ctx, nx_link *link, uint64_t member)
{
    nxt_endpoint *e = ctx;
    nxt_peer *p = &e->accepted[e->naccepted % NXT_ACCEPTED];

    e->naccepted++;
    if (e->refuse) {
        nx_link_close(link, false);
        return;
    }
    *p = (nxt_peer){.link = link, .member = member, .at = e, .echo = e->echo};
    link->up = &NXT_UP;
    link->up_ctx = p;
}

static inline nx_identity *nxt_identity(nx_authority *a, uint64_t member)
{
    nx_identity *id = NULL;
    nx_der csr, cert;

    assert_int_equal(nx_identity_create(&id), NEXAR_OK);
    assert_int_equal(nx_identity_request(id, &csr), NEXAR_OK);
    assert_int_equal(nx_authority_sign(a, &csr, member, &cert), NEXAR_OK);
    assert_int_equal(nx_identity_adopt(id, &cert, nx_authority_cert(a)), NEXAR_OK);
    return id;
}

static inline nx_quic_config nxt_config(nxt_cluster *c, nxt_endpoint *e)
{
    return (nx_quic_config){.loop = c->loop,
                            .random = &nx_random_system,
                            .peers = 2,
                            .identity = e->identity,
                            .job = c->job,
                            .on_accept = nxt_on_accept,
                            .ctx = e};
}

/* Members 1 .. n, at[0 .. n - 1]; the lock is held on return. */
static inline void nxt_cluster_open_at(nxt_cluster *c, size_t n, const nx_clock *clock)
{
    *c = (nxt_cluster){.n = n, .job = {{7, 7, 7}}};
    assert_int_equal(nx_loop_create(&c->loop, clock), NEXAR_OK);
    assert_int_equal(nx_authority_create(&c->authority, &c->job), NEXAR_OK);
    nx_loop_lock(c->loop);
    for (size_t i = 0; i < n; i++) {
        nx_quic_config config;

        c->at[i].loop = c->loop;
        c->at[i].identity = nxt_identity(c->authority, i + 1);
        config = nxt_config(c, &c->at[i]);
        assert_int_equal(nx_quic_open(&c->at[i].quic, &config), NEXAR_OK);
    }
}

static inline void nxt_cluster_open(nxt_cluster *c, size_t n)
{
    nxt_cluster_open_at(c, n, &nx_clock_system);
}

static inline void nxt_cluster_close(nxt_cluster *c)
{
    for (size_t i = 0; i < c->n; i++) {
        nx_quic_close(c->at[i].quic);
        nx_identity_destroy(c->at[i].identity);
    }
    nx_loop_unlock(c->loop);
    nx_loop_destroy(c->loop);
    nx_authority_destroy(c->authority);
}

static inline struct sockaddr_storage nxt_loopback(uint16_t port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr_storage out = {0};

    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    memcpy(&out, &a, sizeof(a));
    return out;
}

/* at[from] dials at[to]. */
static inline void nxt_dial(nxt_cluster *c, size_t from, size_t to, nxt_peer *p)
{
    struct sockaddr_storage a = nxt_loopback(nx_quic_port(c->at[to].quic));
    nx_quic_target target = {.member = to + 1, .addresses = &a, .n = 1};

    *p = (nxt_peer){.member = to + 1, .at = &c->at[from]};
    assert_int_equal(nx_quic_dial(c->at[from].quic, &target, &NXT_UP, p, &p->link), NEXAR_OK);
}

/* Runs the loop until |condition|; fails after 20 s. */
#define nxt_until(loop, condition)                                   \
    do {                                                             \
        uint64_t nxt_end = nx_loop_refresh(loop) + 20000000000u;     \
        while (!(condition)) {                                       \
            nx_event nxt_never = {0};                                \
            uint64_t nxt_now = nx_loop_refresh(loop);                \
            assert_true(nxt_now < nxt_end);                          \
            (void)nx_loop_wait(loop, &nxt_never, nxt_now + 1000000); \
        }                                                            \
    } while (0)

#endif /* NXT_QUIC_PAIR_H */
