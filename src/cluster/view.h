/*
 * view.h - who is in the world: what the seed tells everybody.
 *
 * A view is immutable; a change makes a new one with a higher epoch.  The only
 * thing that cluster hands upward.
 *
 * A member has three numbers.  Its id is in its certificate.  Its slot is how
 * messages and links know it: given when it comes into the world, never to
 * another one after it; at formation it is the rank.  Its rank is its place in
 * the world as it is now, and changes when somebody before it goes.
 */
#ifndef NX_VIEW_H
#define NX_VIEW_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/error.h"
#include "base/os/process.h"
#include "cluster/rankset.h"
#include "transport/identity.h"
#include "wire/wire.h"

enum {
    NX_WORLD_MAX = 65536,  /* ranks */
    NX_ADDRESSES_MAX = 16, /* per member */
    NX_HOST_NAME_MAX = 64,
    NX_BOOT_ID_SIZE = 16,
    NX_LOCAL_MAX = 48,
};

#define NX_RANK_ANY UINT32_MAX /* no rank was asked for: in order of arrival */

typedef struct nx_member {
    uint64_t id; /* what its certificate names; never used again */
    uint32_t rank;
    uint32_t slot;
    uint8_t boot_id[NX_BOOT_ID_SIZE]; /* equal: one host, so shared memory may work */
    char host[NX_HOST_NAME_MAX];      /* for people only */
    nx_process process;               /* which it is on its host: core/failure/process_exit.h */
    struct sockaddr_storage addresses[NX_ADDRESSES_MAX]; /* port included, best first */
    size_t naddresses;
    uint8_t local[NX_LOCAL_MAX]; /* for members of the same host, who know what it says: */
    size_t nlocal;               /* a secret of the members; 0: nothing */
} nx_member;

/* Invariant: slots rise with ranks, since who stays keeps the order and who comes
 * gets the next ranks and the next slots. */
typedef struct nx_view {
    nx_job_id job;
    uint64_t epoch;
    uint32_t size;
    uint32_t world;      /* the id of the world's communicator; 0 at formation */
    uint32_t slots;      /* how many were ever given out: at most NX_WORLD_MAX */
    nx_member members[]; /* by rank */
} nx_view;

/* A view with room for |size| members, zeroed; given back with nx_view_destroy.
 * NULL: no memory. */
nx_view *nx_view_create(uint32_t size);
void nx_view_destroy(nx_view *view);

/* What an encoded member takes at least (no host name, one IPv4 address, nothing
 * local) and at most, and an encoded view of |size|. */
enum { NX_MEMBER_ENCODED_MIN = 8 + 4 + 4 + NX_BOOT_ID_SIZE + 1 + 20 + 1 + 7 + 1 };
enum { NX_MEMBER_ENCODED_MAX = 55 + NX_HOST_NAME_MAX + NX_ADDRESSES_MAX * 19 + NX_LOCAL_MAX };
static inline size_t nx_view_encoded_max(uint32_t size)
{
    return (size_t)NX_JOB_SIZE + 20 + (size_t)size * NX_MEMBER_ENCODED_MAX;
}

/* Addresses are IPv4 or IPv6; of an IPv6 one the scope is not sent. */
void nx_view_encode(nx_writer *w, const nx_view *view);
/* NEXAR_EPROTO: malformed (sizes, ranks twice or missing, a member twice or
 * without an id, slots that do not rise or were never given out, a world whose id
 * names such a slot, unknown address family); NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_view_decode(nx_reader *r, nx_view **out);

/* One member.  The decoder fails |r| unless it has 1 .. NX_ADDRESSES_MAX
 * addresses, each of which can be dialled; id, rank and slot are not looked at. */
void nx_member_encode(nx_writer *w, const nx_member *m);
void nx_member_decode(nx_reader *r, nx_member *m);

/* The member with |id|; NULL if there is none. */
const nx_member *nx_view_member(const nx_view *view, uint64_t id);
/* The member in |slot|; NULL: it has gone, or the slot was never given out. */
const nx_member *nx_view_slot(const nx_view *view, uint32_t slot);

/*
 * The view after |old|: without the ranks in |gone| (of old->size; NULL: nobody),
 * the others in their order, then the |n| members |joined|, which get the ranks
 * and slots behind in their order; the next epoch; |world| is the id of the new
 * communicator.  Of |joined| rank and slot are not looked at.  Who calls it with
 * the same gets the same.
 *
 * NEXAR_EINVAL
 *     Nobody of |old| is left; the slots do not suffice; somebody joins twice or without
 *     an id; |world| names a slot that nobody of |old| or before it had.
 * NEXAR_ENOMEM
 */
NX_MUST_CHECK nexar_err nx_view_next(const nx_view *old, const nx_rankset *gone,
                                     const nx_member *joined, uint32_t n, uint32_t world,
                                     nx_view **out);

#endif /* NX_VIEW_H */
