/*
 * fake_net.h - links between message engines in one thread, without time. Every step delivers one
 * item that may arrive next, chosen by a seed.
 *
 * It shows every behaviour that transport.h allows. Lanes and parts overtake each other, parts
 * interleave in fragments of any size, bytes arrive before their envelope, on_sent comes late. A
 * property that holds here for many seeds holds for every transport that keeps the contract.
 */
#ifndef NXT_FAKE_NET_H
#define NXT_FAKE_NET_H

#include "base/random.h"
#include "msg/msg.h"

enum { NXT_NODES = 8 };

typedef struct nxt_net nxt_net;

typedef struct nxt_net_config {
    uint32_t nodes;
    uint32_t first; /* nodes that each node knows at first, besides itself; 0: all */
    uint64_t seed;
    size_t pool, inline_max, eager_max; /* of every engine */
    bool inline_auto;                   /* the same */
    uint32_t frame_best;                /* reported by every link */
    size_t fragment_max;                /* bytes of a fragment; 0: 64 KiB */
    bool plain;                         /* oldest first, whole parts, no copies: for measurements */
    /* Called instead of delivering control frames that are not msg's own. */
    void (*on_control)(nxt_net *net, uint32_t node, uint32_t peer, const void *data, size_t len);
    void (*on_peer_down)(nxt_net *net, uint32_t node, uint32_t peer, nexar_err err,
                         const char *why);
    /* What on_peer_end of every engine returns. */
    bool holds;
    /* The on_unexpected of every engine, as in msg. */
    nx_verdict (*on_unexpected)(void *ctx, nx_context context);
    void *ctx;
} nxt_net_config;

/* NULL: an allocation failed. */
nxt_net *nxt_net_create(const nxt_net_config *config);
/* The same with low thresholds, which short messages exceed; ends the test if out of memory. */
enum { NXT_NET_INLINE = 1000, NXT_NET_EAGER = 8192 };
nxt_net *nxt_net_plain(uint32_t nodes, uint64_t seed, size_t pool);
/* Fills |data| with bytes that depend on |salt| and on the position. */
void nxt_net_fill(uint8_t *data, size_t len, unsigned salt);
/* Destroys the remaining engines, then everything else. */
void nxt_net_destroy(nxt_net *net);

nx_msg *nxt_net_msg(nxt_net *net, uint32_t node);
void *nxt_net_ctx(nxt_net *net);

/* Delivers one item. False: nothing is in flight. */
bool nxt_net_step(nxt_net *net);
/* Steps until nothing is in flight. */
void nxt_net_run(nxt_net *net);

/* The node dies: its links break at both ends, its engine is destroyed. */
void nxt_net_kill(nxt_net *net, uint32_t node);
/* The link between two nodes breaks. */
void nxt_net_cut(nxt_net *net, uint32_t a, uint32_t b);
/* From now on |node| opens no new links: connect returns |err|. */
void nxt_net_refuse(nxt_net *net, uint32_t node, nexar_err err);

/* Delivers |data| to |node| as if |peer| had sent it; there is a link. */
void nxt_net_inject_frame(nxt_net *net, uint32_t node, uint32_t peer, nx_lane lane,
                          const void *data, size_t len);
void nxt_net_inject_data(nxt_net *net, uint32_t node, uint32_t peer, uint64_t id, uint64_t off,
                         const void *data, size_t len);

/* Frames that |node| has sent to |peer| in all, on |lane|; bytes of parts. */
uint64_t nxt_net_frames(const nxt_net *net, uint32_t node, uint32_t peer, nx_lane lane);
uint64_t nxt_net_part_bytes(const nxt_net *net, uint32_t node, uint32_t peer);

/* Called after every step, if set, to check invariants. */
void nxt_net_watch(nxt_net *net, void (*watch)(nxt_net *net));

/* ---- shorthands for tests ------------------------------------------------------- */

/* A node and its peer. */
typedef struct nxt_way {
    uint32_t node, peer;
} nxt_way;

static inline void nxt_send(nxt_net *net, nx_req *r, nxt_way way, nx_context c, uint64_t tag,
                            const void *data, size_t len)
{
    nx_bytes bytes = {.ptr = data, .len = len};

    *r = (nx_req){0};
    nx_msg_send(nxt_net_msg(net, way.node), r, way.peer, c, tag, &bytes, 1);
}

static inline void nxt_recv(nxt_net *net, nx_req *r, nxt_way way, nx_context c, uint64_t tag,
                            void *data, size_t room)
{
    nx_iov_span span = {.ptr = data, .len = room};

    *r = (nx_req){0};
    nx_msg_recv(nxt_net_msg(net, way.node), r, way.peer, c, tag,
                &(nx_sink){.iov = &span, .niov = 1, .room = room});
}

#endif /* NXT_FAKE_NET_H */
