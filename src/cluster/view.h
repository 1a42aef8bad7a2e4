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
};

typedef struct nx_member {
    uint64_t id; /* what its certificate names; never used again */
    uint32_t rank;
    uint8_t boot_id[16];         /* equal: the same kernel, so shared memory may work */
    char host[NX_HOST_NAME_MAX]; /* for people only */
    uint32_t pid;                /* for people only */
    struct sockaddr_storage addresses[NX_ADDRESSES_MAX]; /* port included, best first */
    size_t naddresses;
} nx_member;

typedef struct nx_view {
    nx_job job;
    uint64_t epoch;
    uint32_t size;
    nx_member members[]; /* by rank */
} nx_view;

/* A view with room for |size| members, zeroed; given back with nx_view_destroy. */
nx_view *nx_view_create(uint32_t size);
void nx_view_destroy(nx_view *view);

void nx_view_encode(nx_writer *w, const nx_view *view);
/* NEXAR_EPROTO: malformed (sizes, ranks twice or missing, unknown address
 * family); NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_view_decode(nx_reader *r, nx_view **out);

#endif /* NX_VIEW_H */
