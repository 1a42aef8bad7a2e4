/*
 * transport.h - what a transport must do, and may expect.
 *
 * A link is one connection to one peer.  It knows nothing of ranks, tags or
 * matching; it carries two things:
 *
 *  - frames: short, copied when sent, in order within their lane.  The control
 *    lane never waits behind the message lane.
 *  - parts: a piece [off, off + len) of the message |id|, of any length, read
 *    straight from the sender's memory.  Parts are not ordered among themselves
 *    nor with frames; the bytes of one part are delivered in order.
 *
 * A transport delivers whatever arrives at once and keeps nothing back: bounding
 * what may be sent without having been asked for is the task of msg, above.  So
 * no window of the transport is ever used up by data that nobody wants.
 *
 * Everything here runs with the loop's lock held, and nothing here blocks.
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
    NX_LAST_MAX = 216,    /* of the last one of a link: nx_link_dismiss */
};

typedef enum nx_lane {
    NX_LANE_CONTROL, /* heartbeats, credit, abort: small and rare */
    NX_LANE_MESSAGE, /* envelopes, with short messages behind them */
    NX_LANES
} nx_lane;

/* A stretch of memory that is only read. */
typedef struct nx_bytes {
    const void *ptr;
    size_t len;
} nx_bytes;

/*
 * A part on its way out: the caller's memory, held with what |bytes| points to,
 * unchanged, from nx_link_send_part until on_sent.
 */
typedef struct nx_tx {
    uint64_t id;  /* of the message: unique among those of this link and direction */
    uint64_t off; /* where in the message this part begins */
    uint64_t len; /* all of |bytes| together; 0 is legal */
    const nx_bytes *bytes;
    size_t nbytes;

    /* The transport's, while it holds the part. */
    nx_list link;
    uint64_t stream, queued, acked;
    void *owner;
} nx_tx;

/*
 * Calls up, implemented by msg.  Made from the loop, never from inside one of
 * the operations below.  |ctx| is nx_link.up_ctx.
 */
typedef struct nx_link_up {
    /* The link can be used: frames and parts that were sent before are on their
     * way.  Once. */
    void (*on_up)(void *ctx, nx_link *link);

    /* A frame; |data| is borrowed until the call returns. */
    void (*on_frame)(void *ctx, nx_link *link, nx_lane lane, const void *data, size_t len);

    /* Bytes [off, off + len) of message |id| have arrived, in order within their
     * part; |data| is borrowed: this is where a collective reduces on arrival.
     * An empty part makes one call with len 0. */
    void (*on_data)(void *ctx, nx_link *link, uint64_t id, uint64_t off, const void *data,
                    size_t len);

    /* The transport no longer needs |tx| nor its bytes, not even to retransmit.
     * Exactly once for every part that was accepted; NEXAR_ECANCELED if it was
     * cancelled, the link's error if that went down. */
    void (*on_sent)(void *ctx, nx_link *link, nx_tx *tx, nexar_err err);

    /* The link is gone, for the reason that |why| says in words; the last call,
     * after on_sent for every part.  The owner must close it. */
    void (*on_down)(void *ctx, nx_link *link, nexar_err err, const char *why);

    /* Optional.  Where bytes [off, off + *len) of message |id|, the next ones of their
     * part, are to go: memory that the transport may fill itself.  |*len| may be made
     * less, to what lies in one stretch.  on_data follows at once, before any other call
     * up, with that memory as |data| and at most |*len| bytes: they are in their place
     * then.  It may not come, if the link goes down meanwhile or the question was not the
     * peer's (whoever forges a packet may have any |id| and |off| asked for): then anything
     * may have been written there, and the right bytes follow later.  So nothing but that
     * memory may change by it, and it must be memory that waits for just these bytes.  NULL:
     * no such place, by on_data as always. */
    void *(*on_want)(void *ctx, nx_link *link, uint64_t id, uint64_t off, size_t *len);

    /* Optional.  A link that was not up yet goes on as |to|, by another transport: with
     * all that was queued, with the same calls up, in |link|'s place.  |link| is gone.
     * Where it is NULL such a link goes down instead. */
    void (*on_moved)(void *ctx, nx_link *link, nx_link *to);
} nx_link_up;

/* An on_sent for those who send no parts, or need not know. */
static inline void nx_link_sent_ignored(void *ctx, nx_link *link, nx_tx *tx, nexar_err err)
{
    (void)ctx;
    (void)link;
    (void)tx;
    (void)err;
}

/* What a link can tell about itself, for `nexar info --links` and for who asks why nothing
 * comes. */
typedef struct nx_link_info {
    const char *state;          /* "dialling", "up" or "down"; not to be freed */
    char local[64], remote[64]; /* addresses as text */
    uint64_t rtt_ns;            /* smoothed; 0: unknown */
    uint32_t mtu;               /* bytes of payload per datagram; 0: no such thing */
    uint64_t bytes_sent, bytes_received, packets_lost;
    uint64_t heard_ns;   /* when something last came, on the loop's clock; 0: not known */
    uint64_t waiting;    /* bytes that were sent and not acknowledged, if that is known, */
    uint64_t waiting_ns; /* none of them since then */
} nx_link_info;

/* Operations, implemented once by each transport as a static const table. */
typedef struct nx_link_ops {
    const char *name; /* "quic", "shm", "sim" */

    /* Queues a frame of |n| stretches, at most NX_FRAME_MAX bytes together; they
     * are copied.  Also before on_up.
     *
     * NEXAR_ENOMEM, or the error of a link that is down: it was not queued. */
    nexar_err (*send_frame)(nx_link *link, nx_lane lane, const nx_bytes *bytes, size_t n);

    /* Queues a part.  On NEXAR_OK the transport holds |tx| until on_sent; on
     * error the caller keeps it.  Parts are begun in the order queued and share
     * the wire when several are on their way. */
    nexar_err (*send_part)(nx_link *link, nx_tx *tx);

    /* Gives up a part that is held; on_sent follows, from the loop.  The peer may
     * have got any of it. */
    void (*cancel_part)(nx_link *link, nx_tx *tx);

    /* Ends the link: on_sent for what is held and no further call up.  With
     * |drain| what was queued is sent first, as long as the transport's own
     * time-out allows.  The link must not be used afterwards; it frees itself. */
    void (*close)(nx_link *link, bool drain);

    void (*info)(const nx_link *link, nx_link_info *info);

    /* Ends the link as close does without drain, and says why: whoever learns of the end over
     * there, however late, is handed |frame| before it, as one of the control lane, whatever was
     * queued or is stuck on the way.  |len| is at most NX_LAST_MAX.  A link that never came up
     * there ends without it.  Optional: where it is NULL the frame is queued as any other. */
    void (*dismiss)(nx_link *link, const void *frame, size_t len);

    /* Optional.  Frames that were queued go out now, not at the end of the turn: for one that
     * somebody waits for. */
    void (*push)(nx_link *link);

    /* Optional, for transports where a frame lies in memory before it is handed up.  The frame of
     * the message lane, whole, for which on_frame would be the next call up of this link; false:
     * there is none, or something else is under way that needs the loop.  Borrowed until
     * drop_frame or the next turn of the loop; the peer may write to it meanwhile.  Not in a
     * callback. */
    bool (*peek_frame)(nx_link *link, nx_bytes *frame);
    /* The owner has taken what peek_frame has just shown: there will be no on_frame for it. */
    void (*drop_frame)(nx_link *link);
} nx_link_ops;

/* What the end of a link says of the process behind it. */
typedef enum nx_end {
    NX_END_LOST,   /* nothing: it may live */
    NX_END_LEFT,   /* it has closed the link, as it should */
    NX_END_ABSENT, /* nothing listens there, and it has never spoken: as msg tells it */
    NX_END_GONE,   /* it has ended, or closed without a goodbye, or nothing listens there */
} nx_end;

/* What every transport's link begins with. */
struct nx_link {
    const nx_link_ops *ops;
    const nx_link_up *up;
    void *up_ctx;
    nx_end ended; /* valid in on_down */
    /* A message of up to so many bytes is better copied into a frame than sent as a part; 0:
     * that is for the caller to know.  At most NX_FRAME_MAX / 2. */
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
