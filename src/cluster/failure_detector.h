/*
 * failure_detector.h - who is alive: (state, event, now) -> actions; no sockets, no clock, no
 * threads.
 *
 * A rank watches the first living ranks at distance 1, 2, 4 ... after it on the
 * circle, so that everybody is watched by a few who are far from each other (a host
 * that dies takes neighbours with it), and those for whom one of its operations
 * waits.  Whom it watches and has not heard for an interval it pings; who has not been
 * heard for the time-out is dead.  Everything that comes from a process shows that it lives, and a
 * process that is stopped says nothing; one that is busy answers, since the progress
 * thread does.  So the cost of a rank is that of log2 n peers, 16 in the largest world;
 * what one finds out the others are told by reliable_broadcast.h.
 *
 * A rank that was itself stopped must not take that for the silence of the others: after a gap
 * of the time-out or more between its own ticks everybody has the whole time-out again.  Of a
 * shorter one, of more than two intervals, only one interval counts; everybody is asked at its
 * end, and nobody is dead before an interval after that.  So a rank that is often held up for a
 * moment still finds out who is silent.
 *
 * Death is for good.  A rank that is held for dead and speaks is to be told so
 * (`zombie`); what it says does not count.
 *
 * A path may be cut in one direction.  Who hears nothing takes the others for dead, and
 * they hear what it says.  So it is said, and judged, who hears whom:
 *
 *  H1. A rank *hears* those from whom something came in the last half of the time-out.
 *      Whoever is in contact is heard each interval; whoever is cut off has been silent for
 *      nearly all of the time-out when its death is told.  The half is far from both.  (If
 *      the interval is not, those in contact are asked more often before they are told.)
 *  H2. A PONG, and a PING that says so, show that the other one hears this rank; so whom it
 *      watches it pings each quarter of the time-out even if they talk.
 *  H3. News of deaths, and what rests upon them, go to those alone whom this rank hears
 *      (heard_gate.h).  A rank that hears nobody tells nobody; the ranks of a host that hears
 *      nothing tell each other.  So news come from one that hears whom it tells.
 *  H4. Only the one that it is about is told of its death in any case, with a VERDICT: by
 *      one that hears it, or does not; that hears others, or does not.
 *  H5. A rank believes a VERDICT of one that hears it; and of any, if nobody else hears it:
 *      then it is mute.  If others hear it, and the judge hears nobody, that one is deaf, and
 *      is dead.  If the judge hears some, its verdict is known to those: whoever of them hears
 *      the accused says the same.  If none has after half an interval, the judge is on the
 *      other side of a cut, and is dead; if nobody hears the accused any more by then, it is
 *      itself.  Until then the end of the judge's link is not taken for its death.
 *
 * Hence, where one rank is deaf or mute, it is the only one that is lost; where a host is,
 * its ranks are, as in a partition, which they cannot tell from this (consensus.h has quorums);
 * where one pair is cut in one direction, the one that is not heard, and not the other.
 */
#ifndef NX_FAILURE_DETECTOR_H
#define NX_FAILURE_DETECTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "cluster/membership.h"

enum {
    NX_DETECTOR_RING_MAX = 16,
    NX_DETECTOR_WHY = 160,
    NX_DETECTOR_VERDICT = 200,                           /* the most of a verdict's sentence */
    NX_DETECTOR_FRAME_MAX = 2 + 2 + NX_DETECTOR_VERDICT, /* PING and PONG: 2 */
};

/* What a frame says of what its sender hears: its second byte. */
enum { NX_WORD_HEARS_YOU = 1, NX_WORD_HEARS_OTHERS = 2 /* of a VERDICT alone */ };

typedef struct nx_detector_config {
    uint32_t size, self;
    const nx_membership *members;     /* who has failed or left; borrowed */
    uint64_t interval_ns, timeout_ns; /* 0 < interval <= timeout */
    uint32_t ring;                    /* at how many distances to watch; 0: all, log2 of the size */
} nx_detector_config;

/* Called from inside the events; none of them may call back.  |why| is a sentence
 * without a subject, "no heartbeat for 5.0 s", borrowed. */
typedef struct nx_detector_ops {
    /* Sends a frame on the control lane, dialling if there is no link. */
    void (*send)(void *ctx, uint32_t to, const void *frame, size_t len);
    /* |peer| has failed, as this rank has found out itself: to be reported to |members|. */
    void (*dead)(void *ctx, uint32_t peer, const char *why);
    /* |peer| is held for dead and does not know. */
    void (*zombie)(void *ctx, uint32_t peer);
    /* This rank itself is dead, as |by| has said. */
    void (*outcast)(void *ctx, uint32_t by, const char *why);
} nx_detector_ops;

typedef struct nx_detector nx_detector;

/* |ops| and |ctx| are borrowed while it lives.  NEXAR_EINVAL, NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_detector_create(nx_detector **out, const nx_detector_config *config,
                                           const nx_detector_ops *ops, void *ctx, uint64_t now_ns);
void nx_detector_destroy(nx_detector *h);

/* There are |size| ranks from now on, as |members| knows; the ring closes again.
 * NEXAR_ENOMEM: nothing has changed. */
NX_MUST_CHECK nexar_err nx_detector_grow(nx_detector *h, uint32_t size, uint64_t now_ns);

/* An operation begins, or has ceased, to wait for |peer|: every watch has its
 * unwatch.  A dead peer may be watched; nothing comes of it.  NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_detector_watch(nx_detector *h, uint32_t peer, uint64_t now_ns);
void nx_detector_unwatch(nx_detector *h, uint32_t peer);

/* |peer| cannot answer yet: it is asked, and its silence does not count.  Released, it has two
 * intervals, if it has no more left of its time-out. */
void nx_detector_hold(nx_detector *h, uint32_t peer);
void nx_detector_release(nx_detector *h, uint32_t peer, uint64_t now_ns);

/* Anything came from |peer|.  Cheap. */
void nx_detector_heard(nx_detector *h, uint32_t peer, uint64_t now_ns);
/* A frame PING, PONG or VERDICT.  NEXAR_EPROTO. */
NX_MUST_CHECK nexar_err nx_detector_frame(nx_detector *h, uint32_t peer, const void *frame,
                                          size_t len, uint64_t now_ns);
/* The link to |peer|, which is watched, is lost, as |detail| says: it is pinged at once, and has
 * until its time-out. */
void nx_detector_suspect(nx_detector *h, uint32_t peer, const char *detail, uint64_t now_ns);
/* Whether |peer| declares this rank failed, which this rank does not believe yet (H5): the end of
 * its link says nothing. */
bool nx_detector_doubts(const nx_detector *h, uint32_t peer);
/* Makes the frame that tells |peer| that it is dead; returns its length. */
size_t nx_detector_verdict(const nx_detector *h, uint32_t peer, const char *why, uint64_t now_ns,
                           uint8_t frame[NX_DETECTOR_FRAME_MAX]);
/* Sends |peer| the verdict that it is dead. */
void nx_detector_tell(nx_detector *h, uint32_t peer, const char *why, uint64_t now_ns);
/* Whether this rank hears |peer| (H1); if not, it can be asked for a PONG at once. */
bool nx_detector_hears(const nx_detector *h, uint32_t peer, uint64_t now_ns);
void nx_detector_ask(nx_detector *h, uint32_t peer, uint64_t now_ns);
/* More have left or failed, as |members| knows: the ring closes over them. */
void nx_detector_close_ring(nx_detector *h, uint64_t now_ns);

/* When nx_detector_tick is wanted; UINT64_MAX: not before another event. */
uint64_t nx_detector_due(const nx_detector *h);
void nx_detector_tick(nx_detector *h, uint64_t now_ns);

/* Whether |peer| is watched at present, as neighbour or for an operation. */
bool nx_detector_watches(const nx_detector *h, uint32_t peer);

#endif /* NX_FAILURE_DETECTOR_H */
