/*
 * transport.h - the contract of a transport.
 *
 * A link is one connection to one peer. A transport has no notion of ranks, tags or matching. It
 * carries:
 *
 *  - frames: short, copied when sent, in order within their lane. The control
 *    lane never waits behind the message lane.
 *  - parts: fragments [off, off + len) of the message |id|, of any length, read
 *    straight from the sender's memory. Parts are not ordered among themselves
 *    nor with frames; the bytes of one part are delivered in order.
 *
 * A transport delivers data on arrival and keeps nothing back. msg, above, bounds unrequested data,
 * so unrequested data never exhausts a window of the transport.
 *
 * Every function runs with the loop's lock held, and none blocks.
 */
#ifndef NX_TRANSPORT_H
#define NX_TRANSPORT_H

#include <stddef.h>
#include <stdint.h>

#include <nexar.h>

#include "base/containers/list.h"
#include "base/error.h"

typedef struct nx_link nx_link;

enum {
    NX_FRAME_MAX = 65536, /* bytes of a frame */
    NX_LAST_MAX = 216,    /* of the last frame of a link: nx_link_dismiss */
};

typedef enum nx_lane {
    NX_LANE_CONTROL, /* heartbeats, credit, abort: small and rare */
    NX_LANE_MESSAGE, /* envelopes, with short messages behind them */
    NX_LANES
} nx_lane;

/* Contiguous read-only memory. */
typedef struct nx_bytes {
    const void *ptr;
    size_t len;
} nx_bytes;

/*
 * A part that is being sent. The caller's memory; it and the memory of |bytes| stay unchanged from
 * nx_link_send_part until on_sent.
 */
typedef struct nx_tx {
    uint64_t id;  /* of the message: unique for this link and direction */
    uint64_t off; /* offset of this part in the message */
    uint64_t len; /* sum of |bytes|; 0 is legal */
    const nx_bytes *bytes;
    size_t nbytes;

    /* Used by the transport while it holds the part. */
    nx_list link;
    uint64_t stream, queued, acked;
    void *owner;
} nx_tx;

/*
 * Upcalls, implemented by msg. Made from the loop, never from inside an operation below. |ctx| is
 * nx_link.up_ctx.
 */
typedef struct nx_link_up {
    /* The link is established: frames and parts sent before are in flight. Once. */
    void (*on_up)(void *ctx, nx_link *link);

    /* A frame; |data| is borrowed until the call returns. */
    void (*on_frame)(void *ctx, nx_link *link, nx_lane lane, const void *data, size_t len);

    /* Bytes [off, off + len) of message |id| have arrived, in order within their part. |data| is
     * borrowed; a collective reduces it here. An empty part makes one call with len 0. */
    void (*on_data)(void *ctx, nx_link *link, uint64_t id, uint64_t off, const void *data,
                    size_t len);

    /* The transport has released |tx| and its bytes, including for retransmission. Exactly once for
     * every accepted part; NEXAR_ECANCELED if it was cancelled, the link's error if the link
     * failed. */
    void (*on_sent)(void *ctx, nx_link *link, nx_tx *tx, nexar_err err);

    /* The link has failed; |why| is the reason as text. The last call, after on_sent for every
     * part. The owner must close the link. */
    void (*on_down)(void *ctx, nx_link *link, nexar_err err, const char *why);

    /* Optional. Returns the destination of bytes [off, off + *len) of message |id|, the next ones
     * of their part, so that the transport can write them itself. |*len| may be reduced to one
     * contiguous piece. on_data follows immediately, before any other upcall, with that memory as
     * |data| and at most |*len| bytes. on_data may not follow if the link fails in between, or if a
     * forged packet caused the call (an attacker may choose any |id| and |off|). Then the memory
     * may hold any bytes, and the right ones follow later. So the call must change no state, and
     * the memory must be waiting for exactly these bytes. NULL: no such memory; on_data delivers as
     * usual. */
    void *(*on_want)(void *ctx, nx_link *link, uint64_t id, uint64_t off, size_t *len);

    /* Optional. A link that was not up yet is replaced by |to|, of another transport, with
     * everything queued and the same upcalls. |link| no longer exists. NULL: such a link goes down
     * instead. */
    void (*on_moved)(void *ctx, nx_link *link, nx_link *to);
} nx_link_up;

/* An on_sent for users that send no parts or need no notification. */
static inline void nx_link_sent_ignored(void *ctx, nx_link *link, nx_tx *tx, nexar_err err)
{
    (void)ctx;
    (void)link;
    (void)tx;
    (void)err;
}

/* The state of a link, for `nexar info --links` and for reports. */
typedef struct nx_link_info {
    const char *state;          /* "dialling", "up" or "down"; a literal */
    char local[64], remote[64]; /* addresses as text */
    uint64_t rtt_ns;            /* smoothed; 0: unknown */
    uint32_t mtu;               /* payload bytes per datagram; 0: not applicable */
    uint64_t bytes_sent, bytes_received, packets_lost;
    uint64_t heard_ns;   /* time of the last arrival, on the loop's clock; 0: unknown */
    uint64_t waiting;    /* bytes sent and not acknowledged, if known, */
    uint64_t waiting_ns; /* and since when none was acknowledged */
} nx_link_info;

/* Operations: a static const table per transport. */
typedef struct nx_link_ops {
    const char *name; /* "quic", "shm", "sim" */

    /* Queues a frame of |n| pieces, at most NX_FRAME_MAX bytes in all, which are copied. Also
     * before on_up.
     *
     * NEXAR_ENOMEM, or the error of a failed link: the frame was not queued. */
    nexar_err (*send_frame)(nx_link *link, nx_lane lane, const nx_bytes *bytes, size_t n);

    /* Queues a part. On NEXAR_OK the transport holds |tx| until on_sent; on error the caller keeps
     * it. Parts begin in the order queued and share the wire when several are in flight. */
    nexar_err (*send_part)(nx_link *link, nx_tx *tx);

    /* Cancels a held part; on_sent follows, from the loop. The peer may have received any of its
     * bytes. */
    void (*cancel_part)(nx_link *link, nx_tx *tx);

    /* Closes the link: on_sent for held parts, and no further upcall. With |drain|, queued data is
     * sent first, within the transport's own time-out. The link must not be used afterwards; it
     * frees itself. */
    void (*close)(nx_link *link, bool drain);

    void (*info)(const nx_link *link, nx_link_info *info);

    /* Like close without drain, with a reason: when the peer's end of the link goes down, however
     * late, |frame| is delivered first as a control frame, regardless of data queued or in flight.
     * |len| is at most NX_LAST_MAX. If the link never came up at the peer, |frame| is lost.
     * Optional. NULL: the frame is queued as any other. */
    void (*dismiss)(nx_link *link, const void *frame, size_t len);

    /* Optional. Transmits queued frames now instead of at the end of the iteration: for a frame
     * that a caller waits for. */
    void (*push)(nx_link *link);

    /* Optional, for transports that have a frame in memory before its upcall. Returns the complete
     * frame of the message lane that on_frame would deliver next. False: there is none, or
     * something else is pending that needs the loop. Borrowed until drop_frame or the next
     * iteration of the loop; the peer may modify it until then. Not in a callback. */
    bool (*peek_frame)(nx_link *link, nx_bytes *frame);
    /* The owner has consumed the frame of peek_frame: on_frame will not deliver it. */
    void (*drop_frame)(nx_link *link);
} nx_link_ops;

/* What the end of a link tells about the peer's process. */
typedef enum nx_end {
    NX_END_LOST,   /* nothing: it may be alive */
    NX_END_LEFT,   /* it has closed the link in order */
    NX_END_ABSENT, /* nothing listens there, and it never answered (msg decides that) */
    NX_END_GONE,   /* it has exited, or closed without notice, or nothing listens there */
} nx_end;

/* Header of every transport's link. */
struct nx_link {
    const nx_link_ops *ops;
    const nx_link_up *up;
    void *up_ctx;
    nx_end ended; /* valid in on_down */
    /* Messages up to this size are better copied into a frame than sent as a part; 0: the caller
     * decides. At most NX_FRAME_MAX / 2. */
    uint32_t frame_best;
    /* Why this transport carries it, in a few words, for `nexar info --links`: static; or NULL. */
    const char *chosen;
};

static inline NX_MUST_CHECK nexar_err nx_link_send_frame(nx_link *link, nx_lane lane,
                                                         const nx_bytes *bytes, size_t n)
{
    return link->ops->send_frame(link, lane, bytes, n);
}

static inline NX_MUST_CHECK nexar_err nx_link_send_part(nx_link *link, nx_tx *tx)
{
    return link->ops->send_part(link, tx);
}

static inline void nx_link_cancel_part(nx_link *link, nx_tx *tx)
{
    link->ops->cancel_part(link, tx);
}

static inline void nx_link_close(nx_link *link, bool drain)
{
    link->ops->close(link, drain);
}

static inline void nx_link_push(nx_link *link)
{
    if (link->ops->push != NULL) {
        link->ops->push(link);
    }
}

static inline bool nx_link_peek_frame(nx_link *link, nx_bytes *frame)
{
    return (link->ops->peek_frame != NULL) && link->ops->peek_frame(link, frame);
}

static inline void nx_link_drop_frame(nx_link *link)
{
    link->ops->drop_frame(link);
}

static inline void nx_link_dismiss(nx_link *link, const void *frame, size_t len)
{
    const nx_bytes bytes = {.ptr = frame, .len = len};

    if (link->ops->dismiss != NULL) {
        link->ops->dismiss(link, frame, len);
    } else {
        (void)!link->ops->send_frame(link, NX_LANE_CONTROL, &bytes, 1);
        link->ops->close(link, false);
    }
}

#endif /* NX_TRANSPORT_H */
