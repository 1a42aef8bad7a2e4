/*
 * view.h - the agreed membership of a world: what the seed sends to every member.
 *
 * A view is immutable; a change makes a new one with a higher epoch. Cluster passes nothing else
 * upward.
 *
 * A member has three numbers. Its certificate holds its id. Its slot identifies it for messages and
 * links: assigned when it joins the world, never reused; at formation it is the rank. Its rank is
 * its current position in the world, and changes when a lower rank leaves.
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
    nx_process process;               /* identity of the process on its host:
                                         core/failure/process_exit.h */
    struct sockaddr_storage addresses[NX_ADDRESSES_MAX]; /* port included, best first */
    size_t naddresses;
    uint8_t local[NX_LOCAL_MAX]; /* for members of the same host, which can interpret it: */
    size_t nlocal;               /* a secret of the members; 0: none */
} nx_member;

/* Invariant: slots rise with ranks, since remaining members keep their order and new ones get the
 * next ranks and slots. */
typedef struct nx_view {
    nx_job_id job;
    uint64_t epoch;
    uint32_t size;
    uint32_t world;      /* the id of the world's communicator; 0 at formation */
    uint32_t slots;      /* number of slots ever assigned: at most NX_WORLD_MAX */
    nx_member members[]; /* by rank */
} nx_view;

/* Creates a zeroed view of |size| members; free it with nx_view_destroy. NULL: out of memory. */
nx_view *nx_view_create(uint32_t size);
void nx_view_destroy(nx_view *view);

/* Size of an encoded member, minimum (no host name, one IPv4 address, nothing local) and maximum,
 * and of an encoded view of |size|. */
enum { NX_MEMBER_ENCODED_MIN = 8 + 4 + 4 + NX_BOOT_ID_SIZE + 1 + 20 + 1 + 7 + 1 };
enum { NX_MEMBER_ENCODED_MAX = 55 + NX_HOST_NAME_MAX + NX_ADDRESSES_MAX * 19 + NX_LOCAL_MAX };
static inline size_t nx_view_encoded_max(uint32_t size)
{
    return (size_t)NX_JOB_SIZE + 20 + (size_t)size * NX_MEMBER_ENCODED_MAX;
}

/* Addresses are IPv4 or IPv6; the scope of an IPv6 address is not sent. */
void nx_view_encode(nx_writer *w, const nx_view *view);
/* NEXAR_EPROTO: malformed (sizes, duplicate or missing ranks, a duplicate member or one without id,
 * slots that do not rise or were never assigned, a world whose id names such a slot, unknown
 * address family); NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_view_decode(nx_reader *r, nx_view **out);

/* One member. The decoder fails |r| unless it has 1 .. NX_ADDRESSES_MAX addresses that can be
 * dialled; it does not check id, rank and slot. */
void nx_member_encode(nx_writer *w, const nx_member *m);
void nx_member_decode(nx_reader *r, nx_member *m);

/* The member with |id|, or NULL. */
const nx_member *nx_view_member(const nx_view *view, uint64_t id);
/* The member in |slot|; NULL: it has left, or the slot was never assigned. */
const nx_member *nx_view_slot(const nx_view *view, uint32_t slot);

/*
 * The view after |old|: without the ranks in |gone| (of old->size; NULL: none), the others in their
 * order, then the |n| members |joined|, with the following ranks and slots; the next epoch; |world|
 * is the id of the new communicator. Ignores rank and slot of |joined|. Equal arguments give equal
 * views.
 *
 * NEXAR_EINVAL
 *     No member of |old| is left; slots are exhausted; a joiner is duplicate or has no id;
 *     |world| names a slot that was never assigned.
 * NEXAR_ENOMEM
 */
NX_MUST_CHECK nexar_err nx_view_next(const nx_view *old, const nx_rankset *gone,
                                     const nx_member *joined, uint32_t n, uint32_t world,
                                     nx_view **out);

#endif /* NX_VIEW_H */
