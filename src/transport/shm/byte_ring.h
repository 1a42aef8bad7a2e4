/*
 * byte_ring.h - a ring of records in shared memory: one writer, one reader, no locks.
 *
 * Positions are bytes ever written or read, modulo 2^32; the size is a power of two. |tail| is the
 * writer's, |head| the reader's, each on a cache line of its side. The rings of a direction share
 * the line (segment.h), so one load tells whether any of them has data. Each side keeps its own
 * position and a cached copy of the other's in private memory, and loads the shared one only when
 * these do not suffice.
 *
 * A record is a header (length, kind, flags, mark) and its bytes, rounded up to 8, never split at
 * the end of the ring: a record of kind 0 fills the remainder. Written records become visible when
 * published; read records may be overwritten when released; both apply to several records at once.
 *
 * Order: publish stores |tail| after the records were written, peek loads it before they are read;
 * release and reserve do the same with |head|. So records are complete when visible, and are
 * overwritten only after they were read. Release and acquire suffice for that. The accesses are
 * sequentially consistent so that no wake-up is lost. A side that is about to sleep stores a flag
 * (|stuck|, or the sleeping flag of segment.h) and then loads the other's position. The other side
 * stores its position and then loads the flag. In the total order of these accesses one of the two
 * stores is first, and the load of the opposite side comes after it. So at least one side sees the
 * other's store.
 *
 * The reader validates everything. A tail out of range, a record longer than the available data, or
 * a wrong mark make the ring permanently broken; so does a head out of range for the writer.
 */
#ifndef NX_BYTE_RING_H
#define NX_BYTE_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    NX_RING_HEAD = 8,  /* size of the header of a record */
    NX_RING_UNIT = 8,  /* alignment of records */
    NX_RING_LEAST = 64 /* minimum size */
};

/* The shared state of a ring. */
typedef struct nx_ring_words {
    _Atomic uint32_t *tail, *head;
    _Atomic uint32_t *stuck; /* the writer waits for room */
} nx_ring_words;

typedef struct nx_ring_out {
    nx_ring_words words;
    uint8_t *data;
    uint32_t size;
    uint32_t tail, published, head; /* own position; as published; cached position of the reader */
    bool broken;
} nx_ring_out;

typedef struct nx_ring_in {
    nx_ring_words words;
    const uint8_t *data;
    uint32_t size;
    uint32_t head, released, tail, next; /* |next|: after the record that peek returned */
    bool broken;
} nx_ring_in;

typedef struct nx_record {
    uint8_t kind, flags;
    uint32_t len;
    const uint8_t *data; /* shared: copy a value before validating it */
} nx_record;

/* |words| and |data| are zero: both sides begin at 0. */
void nx_ring_out_init(nx_ring_out *r, nx_ring_words words, uint8_t *data, uint32_t size);
void nx_ring_in_init(nx_ring_in *r, nx_ring_words words, const uint8_t *data, uint32_t size);

/* Maximum length of a record. */
static inline uint32_t nx_ring_most(uint32_t size)
{
    return size / 2 - NX_RING_HEAD;
}

/* Reserves a record of |len| <= nx_ring_most bytes; NULL: the ring is full. */
void *nx_ring_reserve(nx_ring_out *r, uint32_t len);
/* Commits the record reserved last; |len| may be less than reserved. |kind| is not 0. */
void nx_ring_commit(nx_ring_out *r, uint8_t kind, uint8_t flags, uint32_t len);
/* Publishes committed records; returns whether there were any. */
bool nx_ring_publish(nx_ring_out *r);
/* Whether a record of |len| bytes would fit now. */
bool nx_ring_fits(nx_ring_out *r, uint32_t len);
/* The ring is full: requests a notification at the reader's next release. Returns whether there is
 * room after all. */
bool nx_ring_stick(nx_ring_out *r, uint32_t len);

/* The next record, valid until nx_ring_next; false: none, or broken. */
bool nx_ring_peek(nx_ring_in *r, nx_record *out);
void nx_ring_next(nx_ring_in *r);
/* Allows the writer to overwrite what was read. True: the writer waits and must be woken. */
bool nx_ring_release(nx_ring_in *r);
/* Whether peek would return a record or the ring is broken; changes nothing. */
static inline bool nx_ring_waiting(const nx_ring_in *r)
{
    return (r->head != r->tail) || (atomic_load(r->words.tail) != r->head);
}

#endif /* NX_BYTE_RING_H */
