/*
 * ring.h - a ring of records in shared memory: one writes, one reads, no locks.
 *
 * Positions are bytes ever written or read, modulo 2^32; the size is a power of two.
 * |tail| is the writer's, |head| the reader's, each on a cache line of its side: a
 * direction's rings share the line (segment.h), so that one load sees whether any of
 * them has something.  Each side keeps its own position and the last it saw of the
 * other in private memory, and looks at the shared one only when these do not suffice.
 *
 * A record is a word (length, kind, flags, a mark) and its bytes, rounded up to 8, never
 * split at the end of the ring: a record of kind 0 fills what is left there.  What is
 * written is seen by the reader when it is published, what is read may be overwritten
 * when it is released; both for several records at once.
 *
 * Order: publish stores |tail| after the records were written, peek loads it before they
 * are read; release and reserve are the same for |head|.  So records are complete when
 * they are seen, and are overwritten only after they were read.  For that release and
 * acquire would do.  The accesses are sequentially consistent so that no wake is lost:
 * who is about to rest stores that it rests (|stuck|, or the sleeping flag of
 * segment.h) and then loads the other's position; the other stores its position and
 * then loads that flag.  In the one order of all these accesses one of the two stores is
 * the first, and the load of its opposite comes after it: so the one sees the position,
 * or the other sees the flag, or both.
 *
 * The reader trusts nothing: a tail that is out of range, a record that is longer than
 * what is there, a bad mark make the ring broken, for good; so does a head that is out
 * of range to the writer.
 */
#ifndef NX_BYTE_RING_H
#define NX_BYTE_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    NX_RING_HEAD = 8,  /* bytes before those of a record */
    NX_RING_UNIT = 8,  /* records begin at multiples of this */
    NX_RING_LEAST = 64 /* the smallest size */
};

/* The shared words of a ring. */
typedef struct nx_ring_words {
    _Atomic uint32_t *tail, *head;
    _Atomic uint32_t *stuck; /* the writer waits for room */
} nx_ring_words;

typedef struct nx_ring_out {
    nx_ring_words words;
    uint8_t *data;
    uint32_t size;
    uint32_t tail, published, head; /* ours; what others see of it; the last seen */
    bool broken;
} nx_ring_out;

typedef struct nx_ring_in {
    nx_ring_words words;
    const uint8_t *data;
    uint32_t size;
    uint32_t head, released, tail, next; /* |next|: behind the record that peek gave */
    bool broken;
} nx_ring_in;

typedef struct nx_record {
    uint8_t kind, flags;
    uint32_t len;
    const uint8_t *data; /* shared: whoever decides by it copies it first */
} nx_record;

/* |words| and |data| are zero: both sides begin at 0. */
void nx_ring_out_init(nx_ring_out *r, nx_ring_words words, uint8_t *data, uint32_t size);
void nx_ring_in_init(nx_ring_in *r, nx_ring_words words, const uint8_t *data, uint32_t size);

/* The most bytes that a record can have. */
static inline uint32_t nx_ring_most(uint32_t size)
{
    return size / 2 - NX_RING_HEAD;
}

/* Room for a record of |len| <= nx_ring_most bytes; NULL: none now. */
void *nx_ring_reserve(nx_ring_out *r, uint32_t len);
/* The record that was reserved last is written; |len| may be less than was reserved.
 * |kind| is not 0. */
void nx_ring_commit(nx_ring_out *r, uint8_t kind, uint8_t flags, uint32_t len);
/* Lets the reader see what was committed; whether there was anything. */
bool nx_ring_publish(nx_ring_out *r);
/* Whether a record of |len| bytes would fit now. */
bool nx_ring_fits(nx_ring_out *r, uint32_t len);
/* It does not: the reader will see that on its next release.  Whether it does after
 * all. */
bool nx_ring_stick(nx_ring_out *r, uint32_t len);

/* The next record, which stays there until nx_ring_next; false: none, or broken. */
bool nx_ring_peek(nx_ring_in *r, nx_record *out);
void nx_ring_next(nx_ring_in *r);
/* Lets the writer overwrite what was read.  True: it was stuck, and must be told. */
bool nx_ring_release(nx_ring_in *r);
/* Whether peek would find something, or is broken; changes nothing. */
static inline bool nx_ring_waiting(const nx_ring_in *r)
{
    return (r->head != r->tail) || (atomic_load(r->words.tail) != r->head);
}

#endif /* NX_BYTE_RING_H */
