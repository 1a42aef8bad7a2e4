/*
 * update.h - changes the world: joiners are added, leavers and failed ranks are removed.
 *
 * docs/internals/elastic.md describes the protocol and its proof.  With the loop's lock held.
 */
#ifndef NX_UPDATE_H
#define NX_UPDATE_H

#include "cluster/view.h"
#include "core/world/world.h"

/*
 * Whether |member|, which is not in the view, is in the next one, as this rank has accepted: others
 * may have installed that earlier.  |out| may be NULL.
 */
bool nx_update_expects(const nx_world *world, uint64_t member, nx_member *out);

/* For nx_rpc_config: the communicator of incarnation |id|.  Ranks advance one after another, so
 * |id| may also be that of the world's previous or next incarnation. */
uint32_t nx_update_handlers_of(void *ctx, uint32_t id);

/* For nx_join_config; |ctx| is the world. */
void nx_update_on_waiting(void *ctx, uint32_t n);
void nx_update_on_started(void *ctx, uint64_t epoch);
/* A rank has failed: wakes threads that wait for joiners. */
void nx_update_on_death(nx_world *world);
/* The seed is away, or is back. */
void nx_update_on_seed(nx_world *world, bool there);

/*
 * Whether a world of |left| ranks is large enough.
 *
 * NEXAR_EPEER
 *     Fewer than |wanted| (the setting min_world).
 */
NX_MUST_CHECK nexar_err nx_update_enough(const char *name, uint32_t left, uint32_t wanted);

/* ---- early_links.c ------------------------------------------------------------------------ */

/* |member| has connected by |link| before this rank has installed the view that contains it (see
 * nx_update_expects), or any view: keeps its frames until then, which are few, since it has no
 * credit.  Without memory the link is closed. */
void nx_early_links_take(nx_world *world, nx_link *link, uint64_t member);
/* There is a new view: accepts links of its members, closes the others. */
void nx_early_links_deliver(nx_world *world);
/* Closes all. */
void nx_early_links_close(nx_world *world);
/* Whether there is a link of |member|. */
bool nx_early_links_has(const nx_world *world, uint64_t member);

#endif /* NX_UPDATE_H */
