/* byte_ring.c - records in a ring between one writer and one reader. */
#include "byte_ring.h"

#include <assert.h>
#include <string.h>

enum { PAD = 0, MARK = 0x6e78 };

static uint64_t head_word(uint8_t kind, uint8_t flags, uint32_t len)
{
    return (uint64_t)len | ((uint64_t)kind << 32) | ((uint64_t)flags << 40) |
           ((uint64_t)MARK << 48);
}

static uint32_t span(uint32_t len)
{
    return NX_RING_HEAD + ((len + NX_RING_UNIT - 1) & ~(uint32_t)(NX_RING_UNIT - 1));
}

/* ---- writing ------------------------------------------------------------------------- */

void nx_ring_out_init(nx_ring_out *r, nx_ring_words words, uint8_t *data, uint32_t size)
{
    assert((size >= NX_RING_LEAST) && ((size & (size - 1)) == 0));
    *r = (nx_ring_out){.words = words, .size = size};
    r->data = data;
}

static void write_head(nx_ring_out *r, uint32_t at, uint64_t word)
{
    memcpy(r->data + (at & (r->size - 1)), &word, sizeof(word));
}

/* Whether |need| more bytes may be written. */
static bool has_room(nx_ring_out *r, uint32_t need)
{
    uint32_t head;

    if (need <= r->size - (r->tail - r->head)) {
        return true;
    }
    head = atomic_load(r->words.head);
    if (head - r->head > r->published - r->head) {
        r->broken = true; /* the reader has read what was not published */
        return false;
    }
    r->head = head;
    return need <= r->size - (r->tail - r->head);
}

/* The space of a record of |need| bytes, with the padding before it. */
static uint32_t whole(const nx_ring_out *r, uint32_t need)
{
    uint32_t left = r->size - (r->tail & (r->size - 1));

    return (left < need) ? left + need : need;
}

void *nx_ring_reserve(nx_ring_out *r, uint32_t len)
{
    uint32_t need = span(len), left = r->size - (r->tail & (r->size - 1));

    assert(len <= nx_ring_most(r->size));
    if (r->broken || !has_room(r, whole(r, need))) {
        return NULL;
    }
    if (left < need) {
        write_head(r, r->tail, head_word(PAD, 0, left - NX_RING_HEAD));
        r->tail += left;
    }
    return r->data + (r->tail & (r->size - 1)) + NX_RING_HEAD;
}

void nx_ring_commit(nx_ring_out *r, uint8_t kind, uint8_t flags, uint32_t len)
{
    assert(kind != PAD);
    write_head(r, r->tail, head_word(kind, flags, len));
    r->tail += span(len);
}

bool nx_ring_publish(nx_ring_out *r)
{
    if (r->published == r->tail) {
        return false;
    }
    r->published = r->tail;
    atomic_store(r->words.tail, r->tail);
    return true;
}

bool nx_ring_fits(nx_ring_out *r, uint32_t len)
{
    return !r->broken && has_room(r, whole(r, span(len)));
}

bool nx_ring_stick(nx_ring_out *r, uint32_t len)
{
    atomic_store(r->words.stuck, 1);
    return nx_ring_fits(r, len);
}

/* ---- reading ------------------------------------------------------------------------- */

void nx_ring_in_init(nx_ring_in *r, nx_ring_words words, const uint8_t *data, uint32_t size)
{
    assert((size >= NX_RING_LEAST) && ((size & (size - 1)) == 0));
    *r = (nx_ring_in){.words = words, .data = data, .size = size};
}

/* Whether at least a record's header is readable. */
static bool look(nx_ring_in *r)
{
    uint32_t tail;

    if (r->head != r->tail) {
        return true;
    }
    tail = atomic_load(r->words.tail);
    if (tail == r->head) {
        return false;
    }
    /* Compared with |released|: the writer cannot be more than one round ahead of it. */
    if ((tail - r->released > r->size) || (tail - r->released < r->head - r->released) ||
        ((tail & (NX_RING_UNIT - 1)) != 0)) {
        r->broken = true;
        return false;
    }
    r->tail = tail;
    return true;
}

bool nx_ring_peek(nx_ring_in *r, nx_record *out)
{
    while (!r->broken && look(r)) {
        uint32_t at = r->head & (r->size - 1), there = r->tail - r->head, len;
        uint64_t word;

        memcpy(&word, r->data + at, sizeof(word));
        len = (uint32_t)word;
        if (((word >> 48) != MARK) || (len > r->size - NX_RING_HEAD) || (span(len) > there) ||
            (span(len) > r->size - at)) {
            r->broken = true;
            return false;
        }
        r->next = r->head + span(len);
        if ((uint8_t)(word >> 32) == PAD) {
            r->head = r->next;
            continue;
        }
        *out = (nx_record){.kind = (uint8_t)(word >> 32),
                           .flags = (uint8_t)(word >> 40),
                           .len = len,
                           .data = r->data + at + NX_RING_HEAD};
        return true;
    }
    return false;
}

void nx_ring_next(nx_ring_in *r)
{
    r->head = r->next;
}

bool nx_ring_release(nx_ring_in *r)
{
    if (r->released == r->head) {
        return false;
    }
    r->released = r->head;
    atomic_store(r->words.head, r->head);
    return (atomic_load(r->words.stuck) != 0) && (atomic_exchange(r->words.stuck, 0) != 0);
}
