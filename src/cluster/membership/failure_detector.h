/*
 * failure_detector.h - which ranks are alive: (state, event, now) -> actions; no sockets, no clock,
 * no threads.
 *
 * A rank watches the first live ranks at distance 1, 2, 4 ... on the ring, so every rank is watched
 * by a few distant ranks (a host that fails takes neighbours with it). It also watches the ranks
 * that its operations wait for. It pings a watched rank that was silent for an interval, and
 * declares it failed after the time-out. Any arrival from a process proves that it lives. A stopped
 * process sends nothing; a busy one answers, since its progress thread does. So a rank monitors
 * log2 n peers, 16 in the largest world. The others are notified by reliable_broadcast.h.
 *
 * A rank that was itself stopped must not take that for the silence of others. After a gap of at
 * least the time-out between its own ticks, every peer gets the whole time-out again. Of a shorter
 * gap, above two intervals, only one interval counts; every peer is pinged at its end, and none is
 * declared failed before another interval. So a rank that is often delayed still detects silent
 * peers.
 *
 * A verdict is permanent. A rank that was declared failed and sends is notified (`zombie`); its
 * messages do not count.
 *
 * A network may be cut in one direction. A rank that receives nothing would declare the others
 * failed, and they would receive that. So frames carry, and verdicts consider, which rank hears
 * which:
 *
 * H1. A rank *hears* the peers from which something arrived in the last half of the time-out.
 *     A connected peer is heard each interval; a peer that is cut off has been silent for
 *     nearly the whole time-out when its failure is announced. The half is far from both. (If
 *     the interval is not, connected peers are pinged more often before the announcement.)
 * H2. A PONG, and a PING with the flag, show that the sender hears this rank. So a rank pings the
 *     peers it watches each quarter of the time-out even if they exchange messages.
 * H3. Notifications of failures, and what depends on them, are sent only to peers that this rank
 *     hears (heard_gate.h). A rank that hears no peer notifies none; the ranks of a host that hears
 *     nothing notify each other. So a notification comes from a rank that hears its receiver.
 * H4. Only the accused rank is always sent its VERDICT, whether or not the sender hears it or
 *     others.
 * H5. A rank accepts a VERDICT from a peer that hears it. It accepts any VERDICT if no other peer
 *     hears it: then it is mute. If others hear it, and the judge hears no peer, the judge is
 *     deaf, and has failed. If the judge hears some peers, they know its verdict, and one of them
 *     that hears the accused repeats it. If none has after half an interval, the judge is on the
 *     other side of a cut, and has failed; if no peer hears the accused any more by then, the
 *     accused has failed. Until then the end of the judge's link does not count as its failure.
 *
 * Hence, if one rank is deaf or mute, only that rank is lost. If a host is, its ranks are lost, as
 * in a partition, which they cannot distinguish from this (consensus.h has quorums). If one pair is
 * cut in one direction, the rank that is not heard is lost.
 */
#ifndef NX_FAILURE_DETECTOR_H
#define NX_FAILURE_DETECTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "cluster/membership/membership.h"

enum {
    NX_DETECTOR_RING_MAX = 16,
    NX_DETECTOR_WHY = 160,
    NX_DETECTOR_VERDICT = 200,                           /* maximum length of a verdict's message */
    NX_DETECTOR_FRAME_MAX = 2 + 2 + NX_DETECTOR_VERDICT, /* PING and PONG: 2 */
};

/* Which peers the sender of a frame hears: its second byte. */
enum { NX_WORD_HEARS_YOU = 1, NX_WORD_HEARS_OTHERS = 2 /* of a VERDICT alone */ };

typedef struct nx_detector_config {
    uint32_t size, self;
    const nx_membership *members;     /* which ranks have failed or left; borrowed */
    uint64_t interval_ns, timeout_ns; /* 0 < interval <= timeout */
    uint32_t ring;                    /* number of distances to watch; 0: all, log2 of the size */
} nx_detector_config;

/* number of distances to watch; 0: all, log2 of the size */
typedef struct nx_detector_ops {
    /* Sends a frame on the control lane, dialling if there is no link. */
    void (*send)(void *ctx, uint32_t to, const void *frame, size_t len);
    /* This rank has detected the failure of |peer|, to be reported to |members|. */
    void (*dead)(void *ctx, uint32_t peer, const char *why);
    /* |peer| was declared failed and does not know it. */
    void (*zombie)(void *ctx, uint32_t peer);
    /* This rank was declared failed by |by|, and accepts that. */
    void (*outcast)(void *ctx, uint32_t by, const char *why);
} nx_detector_ops;

typedef struct nx_detector nx_detector;

/* |ops| and |ctx| are borrowed for its lifetime.  NEXAR_EINVAL, NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_detector_create(nx_detector **out, const nx_detector_config *config,
                                           const nx_detector_ops *ops, void *ctx, uint64_t now_ns);
void nx_detector_destroy(nx_detector *h);

/* The world now has |size| ranks, by |members|; recomputes the ring.
 * NEXAR_ENOMEM: nothing has changed. */
NX_MUST_CHECK nexar_err nx_detector_grow(nx_detector *h, uint32_t size, uint64_t now_ns);

/* An operation begins, or ceases, to wait for |peer|: every watch has its unwatch. Watching a
 * failed peer has no effect.  NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_detector_watch(nx_detector *h, uint32_t peer, uint64_t now_ns);
void nx_detector_unwatch(nx_detector *h, uint32_t peer);

/* hold: |peer| cannot answer yet; it is pinged, but its silence does not count. After the release
 * it has at least two intervals. */
void nx_detector_hold(nx_detector *h, uint32_t peer);
void nx_detector_release(nx_detector *h, uint32_t peer, uint64_t now_ns);

/* Something arrived from |peer|. Cheap. */
void nx_detector_heard(nx_detector *h, uint32_t peer, uint64_t now_ns);
/* This rank was declared failed by |by|, and accepts that. */
NX_MUST_CHECK nexar_err nx_detector_frame(nx_detector *h, uint32_t peer, const void *frame,
                                          size_t len, uint64_t now_ns);
/* The link to |peer|, which is watched, is lost, as |detail| says: it is pinged at once, and has
 * until its time-out. */
void nx_detector_suspect(nx_detector *h, uint32_t peer, const char *detail, uint64_t now_ns);
/* Whether |peer| declares this rank failed, which this rank does not believe yet (H5): the end of
 * its link says nothing. */
bool nx_detector_doubts(const nx_detector *h, uint32_t peer);
/* Encodes the VERDICT that notifies |peer| of its own failure; returns its length. */
size_t nx_detector_verdict(const nx_detector *h, uint32_t peer, const char *why, uint64_t now_ns,
                           uint8_t frame[NX_DETECTOR_FRAME_MAX]);
/* Sends |peer| the VERDICT that it has failed. */
void nx_detector_tell(nx_detector *h, uint32_t peer, const char *why, uint64_t now_ns);
/* Whether this rank hears |peer| (H1); if not, it may ping it at once. */
bool nx_detector_hears(const nx_detector *h, uint32_t peer, uint64_t now_ns);
void nx_detector_ask(nx_detector *h, uint32_t peer, uint64_t now_ns);
/* More ranks have left or failed, by |members|: recomputes the ring. */
void nx_detector_close_ring(nx_detector *h, uint64_t now_ns);

/* When nx_detector_tick is due; UINT64_MAX: not before another event. */
uint64_t nx_detector_due(const nx_detector *h);
void nx_detector_tick(nx_detector *h, uint64_t now_ns);

/* Whether |peer| is watched, as neighbour or for an operation. */
bool nx_detector_watches(const nx_detector *h, uint32_t peer);

#endif /* NX_FAILURE_DETECTOR_H */
