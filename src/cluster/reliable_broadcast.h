/*
 * reliable_broadcast.h - items that reach every living rank of a group if they reach one that
 * lives on: (state, event) -> actions; no sockets, no clock, no threads.
 *
 * The ranks stand in a circle.  Each tells what it learns for the first time to the
 * first living rank at distance 1, 2, 4, 8 ... after it: everybody has it after
 * log2 n steps, n log2 n messages, over links that collectives use too.  When one of
 * those dies, the rank that takes its place is told all that is kept.
 *
 * Why it is reliable: a rank that knows an item has told it to the next living rank
 * of the circle, and does so again when that turns out to be dead.  So if one that
 * lives on knows it, its successor does, and in the end all do.  For that every
 * death must come to be known to the rank before it in the circle; failure_detector.h has it
 * watched from there, and by all the others that tell it.
 *
 * Used for the revocation of a communicator, in the communicator, and for deaths,
 * in the world.  A frame is sent when its receiver is heard (heard_gate.h): what it says is known
 * to come from one that hears whom it tells.
 */
#ifndef NX_RELIABLE_BROADCAST_H
#define NX_RELIABLE_BROADCAST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "cluster/membership.h"

enum {
    NX_RBCAST_DATA_MAX = 256,
    NX_RBCAST_FRAME_MAX = 1 + 8 + 8 + 2 + NX_RBCAST_DATA_MAX,
};

/* What is told, in the key: its kind, and of whom. */
typedef enum nx_rbcast_kind {
    NX_RBCAST_DEAD = 1, /* rank of the world; the data is a sentence: why */
    NX_RBCAST_REVOKED,  /* by that rank of the communicator; no data */
    NX_RBCAST_ENDED     /* rank of the world: its process is no more, says one of its host, to
                          which it has never spoken; it has failed, or left; no data */
} nx_rbcast_kind;

static inline uint64_t nx_rbcast_key(nx_rbcast_kind kind, uint32_t rank)
{
    return ((uint64_t)kind << 32) | rank;
}

/* Called from inside the events; none of them may call back. */
typedef struct nx_rbcast_ops {
    void (*send)(void *ctx, uint32_t to, const void *frame, size_t len);
    /* Something was learned from |from|, for the first time; |data| is borrowed, and one line
     * (nx_clean_text). */
    void (*learned)(void *ctx, uint64_t key, const void *data, size_t len, uint32_t from);
    /* The state of |rank|: one that has left or failed is told nothing, and what one says that has
     * failed does not count. */
    nx_life (*life)(void *ctx, uint32_t rank);
} nx_rbcast_ops;

typedef struct nx_rbcast nx_rbcast;

/* |group| tells floods apart, below 2^62: the communicator's id.  |ops| and |ctx|
 * are borrowed while it lives.  NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_rbcast_create(nx_rbcast **out, uint64_t group, uint32_t size,
                                         uint32_t self, const nx_rbcast_ops *ops, void *ctx);
void nx_rbcast_destroy(nx_rbcast *f);

/*
 * There are |size| ranks from now on, as many as now or more; those to whom this rank
 * is to tell things now are told all that is kept.
 *
 * A frame may be about a rank that is not there yet: the sender has grown before.  Its
 * news are kept, and passed on, all the same.
 */
void nx_rbcast_grow(nx_rbcast *f, uint32_t size);
/* What is known by |key| need not be told any more: all who are there know it. */
void nx_rbcast_forget(nx_rbcast *f, uint64_t key);

/* Tells everybody; nothing if it is known already.  `learned` is not called here.
 * NEXAR_EINVAL: too much data.  NEXAR_ENOMEM: nobody was told. */
NX_MUST_CHECK nexar_err nx_rbcast_start(nx_rbcast *f, uint64_t key, const void *data, size_t len);

/* The frame that tells of |key| in |group|, in |frame|; returns its length.  |len| is at most
 * NX_RBCAST_DATA_MAX. */
size_t nx_rbcast_encode(uint64_t group, uint64_t key, const void *data, size_t len,
                        uint8_t frame[NX_RBCAST_FRAME_MAX]);
/* The group of a frame.  NEXAR_EPROTO. */
NX_MUST_CHECK nexar_err nx_rbcast_frame_group(const void *frame, size_t len, uint64_t *group);
/* A frame from |from|.  NEXAR_EPROTO: malformed.  NEXAR_ENOMEM: it was not taken in,
 * and may be given again. */
NX_MUST_CHECK nexar_err nx_rbcast_frame(nx_rbcast *f, uint32_t from, const void *frame, size_t len);

/* |rank| of the group has left or failed: another may take its place. */
void nx_rbcast_gone(nx_rbcast *f, uint32_t rank);

bool nx_rbcast_knows(const nx_rbcast *f, uint64_t key);

#endif /* NX_RELIABLE_BROADCAST_H */
