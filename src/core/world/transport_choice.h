/*
 * transport_choice.h - which transport connects two ranks: shared memory on one host, else the
 * network.
 *
 * Shared memory is tried where the boot ids of both are the same and both offer it.  If shared
 * memory fails, whatever the reason, the link moves to the network automatically.
 */
#ifndef NX_TRANSPORT_CHOICE_H
#define NX_TRANSPORT_CHOICE_H

#include "world.h"

/* Before joining, with the loop's lock held: prepares what this rank offers to ranks of its host
 * (world->shm, or NULL).  Fails only if no other transport is allowed. */
NX_MUST_CHECK nexar_err nx_links_open(nx_world *world);
/* The view is available.  Errors as nx_links_open. */
NX_MUST_CHECK nexar_err nx_links_start(nx_world *world);

/* What links over the network may use, for nx_inet_config: NX_INET_...; 0: no link may.  The seed
 * is reached by either then. */
unsigned int nx_links_network(const nx_world *world);

/* For nx_msg_config, nx_join_config; |ctx| is the world. */
nexar_err nx_links_connect(void *ctx, uint32_t peer, const nx_link_up *up, void *up_ctx,
                           nx_link **link);
void nx_links_accept(void *ctx, nx_link *link, uint64_t member);

/* A rank on the host of |slot| reports that the process of |slot| has exited: a network link to
 * |slot| ends. */
void nx_links_ended(nx_world *world, uint32_t slot);

/* The state of the link to |slot|, for messages: "quic to 10.0.0.2:4433, up, ...".  Returns
 * |out|. */
enum { NX_LINKS_TEXT = 320 };
const char *nx_links_text(const nx_world *world, uint32_t slot, char out[NX_LINKS_TEXT]);

/* Whether |m| is on this host.  There must be a view. */
bool nx_links_same_host(const nx_world *world, const nx_member *m);
/* How many ranks of the world are on this host. */
uint32_t nx_links_neighbours(const nx_world *world);

#endif /* NX_TRANSPORT_CHOICE_H */
