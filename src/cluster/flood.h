/*
 * flood.h - news that reach every living rank of a group if they reach one that
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
 * death must come to be known to the rank before it in the circle; health.h has it
 * watched from there, and by all the others that tell it.
 *
 * Used for the revocation of a communicator, in the communicator, and for deaths,
 * in the world.  A frame is sent when its receiver is heard (gate.h): what it says is known
 * to come from one that hears whom it tells.
 */
#ifndef NX_FLOOD_H
#define NX_FLOOD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum {
    NX_FLOOD_DATA_MAX = 256,
    NX_FLOOD_FRAME_MAX = 1 + 8 + 8 + 2 + NX_FLOOD_DATA_MAX,
};

/* What is told, in the key: its kind, and of whom. */
typedef enum nx_flood_kind {
    NX_FLOOD_DEAD = 1, /* rank of the world; the data is a sentence: why */
    NX_FLOOD_REVOKED,  /* by that rank of the communicator; no data */
    NX_FLOOD_ENDED     /* rank of the world: its process is no more, says one of its host, to
                          which it has never spoken; it has failed, or left; no data */
} nx_flood_kind;

static inline uint64_t nx_flood_key(nx_flood_kind kind, uint32_t rank)
{
    return ((uint64_t)kind << 32) | rank;
}

/* Called from inside the events; none of them may call back. */
typedef struct nx_flood_ops {
    void (*send)(void *ctx, uint32_t to, const void *frame, size_t len);
    /* Something was learned from |from|, for the first time; |data| is borrowed, and one line
     * (nx_clean_text). */
    void (*learned)(void *ctx, uint64_t key, const void *data, size_t len, uint32_t from);
} nx_flood_ops;

typedef struct nx_flood nx_flood;

/* |group| tells floods apart, below 2^62: the communicator's id.  |ops| and |ctx|
 * are borrowed while it lives.  NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_flood_create(nx_flood **out, uint64_t group, uint32_t size,
                                        uint32_t self, const nx_flood_ops *ops, void *ctx);
void nx_flood_destroy(nx_flood *f);

/*
 * There are |size| ranks from now on, as many as now or more; those to whom this rank
 * is to tell things now are told all that is kept.
 *
 * A frame may be about a rank that is not there yet: the sender has grown before.  Its
 * news are kept, and passed on, all the same.  NEXAR_ENOMEM: nothing has changed.
 */
NX_MUST_CHECK nexar_err nx_flood_grow(nx_flood *f, uint32_t size);
/* What is known by |key| need not be told any more: all who are there know it. */
void nx_flood_forget(nx_flood *f, uint64_t key);

/* Tells everybody; nothing if it is known already.  `learned` is not called here.
 * NEXAR_EINVAL: too much data.  NEXAR_ENOMEM: nobody was told. */
NX_MUST_CHECK nexar_err nx_flood_start(nx_flood *f, uint64_t key, const void *data, size_t len);

/* The frame that tells of |key| in |group|, in |frame|; returns its length.  |len| is at most
 * NX_FLOOD_DATA_MAX. */
size_t nx_flood_encode(uint64_t group, uint64_t key, const void *data, size_t len,
                       uint8_t frame[NX_FLOOD_FRAME_MAX]);
/* The group of a frame.  NEXAR_EPROTO. */
NX_MUST_CHECK nexar_err nx_flood_frame_group(const void *frame, size_t len, uint64_t *group);
/* A frame from |from|.  NEXAR_EPROTO: malformed.  NEXAR_ENOMEM: it was not taken in,
 * and may be given again. */
NX_MUST_CHECK nexar_err nx_flood_frame(nx_flood *f, uint32_t from, const void *frame, size_t len);

/* |rank| of the group is dead. */
void nx_flood_failed(nx_flood *f, uint32_t rank);

bool nx_flood_knows(const nx_flood *f, uint64_t key);

#endif /* NX_FLOOD_H */
