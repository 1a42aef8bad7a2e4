/*
 * view.h - who is in the world: what the seed tells everybody.
 *
 * A view is immutable; a change makes a new one with a higher epoch.  The only
 * thing that cluster hands upward.
 */
#ifndef NX_VIEW_H
#define NX_VIEW_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/error.h"
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
    uint8_t boot_id[NX_BOOT_ID_SIZE]; /* equal: one host, so shared memory may work */
    char host[NX_HOST_NAME_MAX];      /* for people only */
    uint32_t pid;                     /* for people, and for guesses on the same host */
    struct sockaddr_storage addresses[NX_ADDRESSES_MAX]; /* port included, best first */
    size_t naddresses;
    uint8_t local[NX_LOCAL_MAX]; /* for members of the same host, who know what it says: */
    size_t nlocal;               /* a secret of the members; 0: nothing */
} nx_member;

typedef struct nx_view {
    nx_job_id job;
    uint64_t epoch;
    uint32_t size;
    nx_member members[]; /* by rank */
} nx_view;

/* A view with room for |size| members, zeroed; given back with nx_view_destroy.
 * NULL: no memory. */
nx_view *nx_view_create(uint32_t size);
void nx_view_destroy(nx_view *view);

/* What an encoded member, and an encoded view of |size|, take at most. */
enum { NX_MEMBER_ENCODED_MAX = 35 + NX_HOST_NAME_MAX + NX_ADDRESSES_MAX * 19 + NX_LOCAL_MAX };
static inline size_t nx_view_encoded_max(uint32_t size)
{
    return (size_t)NX_JOB_SIZE + 12 + (size_t)size * NX_MEMBER_ENCODED_MAX;
}

/* Addresses are IPv4 or IPv6; of an IPv6 one the scope is not sent. */
void nx_view_encode(nx_writer *w, const nx_view *view);
/* NEXAR_EPROTO: malformed (sizes, ranks twice or missing, a member twice or
 * without an id, unknown address family); NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_view_decode(nx_reader *r, nx_view **out);

/* One member.  The decoder fails |r| unless it has 1 .. NX_ADDRESSES_MAX
 * addresses, each of which can be dialled; id and rank are not looked at. */
void nx_member_encode(nx_writer *w, const nx_member *m);
void nx_member_decode(nx_reader *r, nx_member *m);

/* The member with |id|; NULL if there is none. */
const nx_member *nx_view_member(const nx_view *view, uint64_t id);

#endif /* NX_VIEW_H */
