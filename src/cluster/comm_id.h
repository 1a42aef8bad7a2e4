/*
 * comm_id.h - ids of communicators: the slot of a member, and a number that it has assigned.
 *
 * Unique without coordination, since no two members share a slot and none assigns a number twice.
 * Every message carries an id in 32 bits. Most worlds are small, so small slots have few bits and
 * many numbers:
 *
 *     11 ssss  and a number of 26 bits    slots 0 .. 15
 *     10 ssssssssss           20 bits     16 .. 1023
 *     0 ssssssssssssssss      15 bits     from 1024 on
 *
 * 0 is the id of the first world and is never assigned: numbers begin at 1.
 */
#ifndef NX_COMM_ID_H
#define NX_COMM_ID_H

#include <stdint.h>

#include "cluster/view.h"

enum {
    NX_ID_TINY_SLOTS = 1 << 4,
    NX_ID_TINY_BITS = 26,
    NX_ID_SMALL_SLOTS = 1 << 10,
    NX_ID_SMALL_BITS = 20,
    NX_ID_LARGE_SLOTS = 1 << 16,
    NX_ID_LARGE_BITS = 15
};
#define NX_ID_TINY  (UINT32_C(3) << 30)
#define NX_ID_SMALL (UINT32_C(2) << 30)
_Static_assert((int)NX_WORLD_MAX <= (int)NX_ID_LARGE_SLOTS, "every slot has a place in an id");

/* The number of bits in the numbers of |slot|. */
static inline uint32_t nx_comm_id_bits(uint32_t slot)
{
    return (slot < NX_ID_TINY_SLOTS)    ? NX_ID_TINY_BITS
           : (slot < NX_ID_SMALL_SLOTS) ? NX_ID_SMALL_BITS
                                        : NX_ID_LARGE_BITS;
}

/* The highest number of |slot|: one less than would fit, so that no id is UINT32_MAX. */
static inline uint32_t nx_comm_id_last(uint32_t slot)
{
    return (UINT32_C(1) << nx_comm_id_bits(slot)) - 2;
}

/* |number| is in 1 .. nx_comm_id_last(slot). */
static inline uint32_t nx_comm_id_make(uint32_t slot, uint32_t number)
{
    const uint32_t mark = (slot < NX_ID_TINY_SLOTS)    ? NX_ID_TINY
                          : (slot < NX_ID_SMALL_SLOTS) ? NX_ID_SMALL
                                                       : 0;

    return mark | (slot << nx_comm_id_bits(slot)) | number;
}

/* The slot whose member has assigned |id|, and the number. */
static inline uint32_t nx_comm_id_first(uint32_t id)
{
    if ((id & NX_ID_TINY) == NX_ID_TINY) {
        return (id & ~NX_ID_TINY) >> NX_ID_TINY_BITS;
    }
    return ((id & NX_ID_SMALL) != 0) ? (id & ~NX_ID_SMALL) >> NX_ID_SMALL_BITS
                                     : id >> NX_ID_LARGE_BITS;
}
static inline uint32_t nx_comm_id_number(uint32_t id)
{
    const uint32_t bits = ((id & NX_ID_TINY) == NX_ID_TINY) ? NX_ID_TINY_BITS
                          : ((id & NX_ID_SMALL) != 0)       ? NX_ID_SMALL_BITS
                                                            : NX_ID_LARGE_BITS;

    return id & ((UINT32_C(1) << bits) - 1);
}

#endif /* NX_COMM_ID_H */
