/* pending.h - what a world waits for now, for reports; with the loop's lock held. */
#ifndef NX_PENDING_H
#define NX_PENDING_H

#include "core/report/stall.h"
#include "core/world/world.h"

/* Implement nx_stall_config; |ctx| is the world.  Ranks are those of the world. */
bool nx_pending_oldest(void *ctx, uint64_t since_ns, nx_pending *out);
uint32_t nx_pending_whom(void *ctx, const nx_pending *p, uint32_t *out, uint32_t room);

void nx_pending_here(void *ctx, const nx_pending *p, char *out);
void nx_pending_note(void *ctx, const nx_pending *p, char *out);
uint64_t nx_pending_served(void *ctx);

/* Calls |each| with every operation that waits. */
void nx_pending_each(const nx_world *world, void (*each)(void *ctx, const nx_pending *p),
                     void *ctx);

/* nx_what_text() of an operation as the log has it. */
const char *nx_pending_text(const nx_world *world, const nx_what *what, char *buf);

/* The answer to |ask|. */
void nx_pending_tell(nx_world *world, const nx_ask *ask, nx_doing *out);

#endif /* NX_PENDING_H */
