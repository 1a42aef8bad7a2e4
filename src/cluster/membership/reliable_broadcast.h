/*
 * reliable_broadcast.h - reliable broadcast over a circulant graph: an item reaches every live rank
 * of a group if it reaches one rank that stays alive. (state, event) -> actions; no sockets, no
 * clock, no threads.
 *
 * The ranks form a ring. Each forwards an item that is new to it to the first live rank at distance
 * 1, 2, 4, 8 ... All have it after log2 n steps and n log2 n messages, over links that collectives
 * use too. When one of these ranks fails, its replacement receives all kept items.
 *
 * Why it is reliable: a rank that knows an item has sent it to the next live rank of the ring.
 * It sends the item again when that rank has failed. So if a rank that stays alive knows it, so
 * does its successor, and in the end all do. This requires that the predecessor on the ring
 * learns of every failure; failure_detector.h makes it watch its successor, and all others
 * notify it.
 *
 * Used for the revocation of a communicator, in the communicator, and for failures, in the world. A
 * frame is sent only to a receiver that was heard recently (heard_gate.h), so its sender is known
 * to receive.
 */
#ifndef NX_RELIABLE_BROADCAST_H
#define NX_RELIABLE_BROADCAST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "cluster/membership/membership.h"

enum {
    NX_RBCAST_DATA_MAX = 256,
    NX_RBCAST_FRAME_MAX = 1 + 8 + 8 + 2 + NX_RBCAST_DATA_MAX,
};

/* The kind of item, in the key, along with its subject. */
typedef enum nx_rbcast_kind {
    NX_RBCAST_DEAD = 1, /* rank of the world; the data is a text: why */
    NX_RBCAST_REVOKED,  /* rank of the communicator that revoked it; no data */
    NX_RBCAST_OVERDUE,  /* the agreement with that number in the communicator has waited for too
                           long; no data */
    NX_RBCAST_ENDED     /* rank of the world: a process of its host reports that its process has
                           exited, without ever having had a link to it; it has failed, or left; no
                           data */
} nx_rbcast_kind;

static inline uint64_t nx_rbcast_key(nx_rbcast_kind kind, uint32_t rank)
{
    return ((uint64_t)kind << 32) | rank;
}

/* Called from inside the events; none of them may call back. */
typedef struct nx_rbcast_ops {
    void (*send)(void *ctx, uint32_t to, const void *frame, size_t len);
    /* A new item arrived from |from|; |data| is borrowed, and one line (nx_clean_text). */
    void (*learned)(void *ctx, uint64_t key, const void *data, size_t len, uint32_t from);
    /* The state of |rank|: nothing is sent to a rank that has left or failed, and frames of a
     * failed one do not count. */
    nx_life (*life)(void *ctx, uint32_t rank);
} nx_rbcast_ops;

typedef struct nx_rbcast nx_rbcast;

/* |group| distinguishes broadcasts, below 2^62: the communicator's id. |ops| and |ctx| are borrowed
 * for its lifetime.  NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_rbcast_create(nx_rbcast **out, uint64_t group, uint32_t size,
                                         uint32_t self, const nx_rbcast_ops *ops, void *ctx);
void nx_rbcast_destroy(nx_rbcast *f);

/*
 * Sets the number of ranks to |size|, not less than now. New neighbours receive all kept items.
 *
 * A frame may be about a rank that is not there yet: the sender has grown before.  Its
 * news are kept, and passed on, all the same.
 */
void nx_rbcast_grow(nx_rbcast *f, uint32_t size);
/* The item |key| need not be sent any more: all ranks know it. */
void nx_rbcast_forget(nx_rbcast *f, uint64_t key);

/* Broadcasts an item; does nothing if it is known already. Does not call `learned`. NEXAR_EINVAL:
 * too much data.  NEXAR_ENOMEM: nothing was sent. */
NX_MUST_CHECK nexar_err nx_rbcast_start(nx_rbcast *f, uint64_t key, const void *data, size_t len);

/* Encodes the frame of item |key| in |group| into |frame|; returns its length. |len| is at most
 * NX_RBCAST_DATA_MAX. */
size_t nx_rbcast_encode(uint64_t group, uint64_t key, const void *data, size_t len,
                        uint8_t frame[NX_RBCAST_FRAME_MAX]);
/* The group of a frame.  NEXAR_EPROTO. */
NX_MUST_CHECK nexar_err nx_rbcast_frame_group(const void *frame, size_t len, uint64_t *group);
/* A frame from |from|.  NEXAR_EPROTO: malformed.  NEXAR_ENOMEM: not processed; it may be passed
 * again. */
NX_MUST_CHECK nexar_err nx_rbcast_frame(nx_rbcast *f, uint32_t from, const void *frame, size_t len);

/* |rank| of the group has left or failed: another may take its place. */
void nx_rbcast_gone(nx_rbcast *f, uint32_t rank);

bool nx_rbcast_knows(const nx_rbcast *f, uint64_t key);

#endif /* NX_RELIABLE_BROADCAST_H */
