/*
 * arena.h - memory that a rank gives its neighbours to see: nexar_alloc.
 *
 * A world has one arena: a sealed memfd, large and empty, mapped once; its pages are
 * there as they are used, and given back to the system when they are freed.  Another
 * rank of the host maps all of it when a collective first names memory in it: it opens
 * the descriptor in /proc of the owner's process, which the kernel allows to those whom
 * it allows to read its memory, and looks at the inode's number.  The directory of the process
 * is opened first, and the pidfd asked: that directory never shows another process.
 *
 * Such a mapping stays until the rank that made it leaves the world, or its owner is gone
 * from it.  It is used only
 * inside an operation to which the owner has lent the memory: what is freed afterwards
 * nobody reads.  An owner that leaves empties its arena first.
 *
 * With the loop's lock held, but nx_arenas_see.
 */
#ifndef NX_ARENA_H
#define NX_ARENA_H

#include "coll/host/host_call.h"
#include "core/world/world.h"

typedef struct nx_arena nx_arena;

/* NEXAR_ESYS, NEXAR_ENOMEM: ordinary memory must do. */
NX_MUST_CHECK nexar_err nx_arena_create(nx_arena **out);
/* |a| may be NULL. */
void nx_arena_destroy(nx_arena *a);

/* |bytes| > 0, on a page of its own.  NULL: it is full. */
void *nx_arena_take(nx_arena *a, size_t bytes);
/* False: it was not taken here. */
bool nx_arena_give_back(nx_arena *a, void *ptr);
/* Says in |lent| where it is; |a| may be NULL. */
void nx_arena_lend(const nx_arena *a, nx_lent *lent);

/* Arenas of other ranks that were mapped here. */
typedef struct nx_arenas nx_arenas;
NX_MUST_CHECK nexar_err nx_arenas_create(nx_arenas **out, uint32_t ranks);
void nx_arenas_destroy(nx_arenas *as);
/* For peers below |ranks|.  NEXAR_ENOMEM: it is as it was. */
NX_MUST_CHECK nexar_err nx_arenas_grow(nx_arenas *as, uint32_t ranks);
/* The process of |peer|, whose id is |pid|: one reference, of the one that all communicators use.
 * |known|, if not NULL, is it already.  NULL: it cannot be pinned. */
nx_pidfd *nx_arenas_process(nx_arenas *as, uint32_t peer, int64_t pid, nx_pidfd *known);
/* |peer| is gone for good, and no operation runs that may look at its memory. */
void nx_arenas_drop(nx_arenas *as, uint32_t peer);
/* Maps the arena of |peer|, which |lent| names, unless it is, and puts it into |far|.
 * From any thread, without the lock. */
void nx_arenas_see(nx_arenas *as, uint32_t peer, const nx_lent *lent, nx_remote_memory *far);

#endif /* NX_ARENA_H */
