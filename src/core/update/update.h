/*
 * update.h - the world changes: some join, some leave, the failed are dropped.
 *
 * docs/internals/elastic.md says how and why it is right.  With the loop's lock held.
 */
#ifndef NX_UPDATE_H
#define NX_UPDATE_H

#include "cluster/view.h"
#include "core/world/world.h"

/*
 * Whether |member|, which is not in the view, is in the next one, as this rank has
 * accepted: others may have come to that before it.  |out| may be NULL.
 */
bool nx_update_expects(const nx_world *world, uint64_t member, nx_member *out);

/* For nx_rpc_config: the communicator of incarnation |id|.  Ranks advance one after the other, so
 * |id| may also be that of the world's incarnation before this one, or of the next. */
uint32_t nx_update_handlers_of(void *ctx, uint32_t id);

/* For nx_join_config; |ctx| is the world. */
void nx_update_on_waiting(void *ctx, uint32_t n);
void nx_update_on_started(void *ctx, uint64_t epoch);
/* A rank has failed: who waits for those who joined looks again. */
void nx_update_on_death(nx_world *world);
/* The seed has gone, or is back. */
void nx_update_on_seed(nx_world *world, bool there);

/*
 * |left| ranks would be the world: enough?
 *
 * NEXAR_EPEER
 *     Fewer than |wanted| (the setting min_world).
 */
NX_MUST_CHECK nexar_err nx_update_enough(const char *name, uint32_t left, uint32_t wanted);

/* ---- early_links.c ------------------------------------------------------------------------ */

/* |member| has connected by |link| before this rank is in the view that it comes from (see
 * nx_update_expects), or in any: what it says is kept until then, which is little, since it has
 * no credit.  Without memory it is closed. */
void nx_early_links_take(nx_world *world, nx_link *link, uint64_t member);
/* There is a new view: those who are in it are let in, the others are closed. */
void nx_early_links_deliver(nx_world *world);
/* Closes all. */
void nx_early_links_close(nx_world *world);
/* Whether a link of |member| is here. */
bool nx_early_links_has(const nx_world *world, uint64_t member);

#endif /* NX_UPDATE_H */
