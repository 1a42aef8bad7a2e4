/*
 * arena.h - memory shared with the ranks of the host: nexar_alloc.
 *
 * A world has one arena: a sealed memfd, large and empty, mapped once.  Its pages are allocated on
 * use, and returned to the system when freed.  Another rank of the host maps all of it when a
 * collective first names memory in it.  It opens the descriptor in /proc of the owner's process,
 * and checks the inode's number.  The kernel allows that to a process that may read the owner's
 * memory.  The mapping rank opens the directory of the process first, and then checks the pidfd:
 * that directory never shows another process.
 *
 * The mapping stays until its rank leaves the world, or the owner does.  It is accessed only inside
 * an operation for which the owner has lent the memory, so freed memory is never read.  A leaving
 * owner empties its arena first.
 *
 * With the loop's lock held, except nx_arenas_see.
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

/* |bytes| > 0, page-aligned.  NULL: the arena is full. */
void *nx_arena_take(nx_arena *a, size_t bytes);
/* False: |ptr| is not from this arena. */
bool nx_arena_give_back(nx_arena *a, void *ptr);
/* Stores its location in |lent|; |a| may be NULL. */
void nx_arena_lend(const nx_arena *a, nx_lent *lent);

/* Arenas of other ranks that are mapped here. */
typedef struct nx_arenas nx_arenas;
NX_MUST_CHECK nexar_err nx_arenas_create(nx_arenas **out, uint32_t ranks);
void nx_arenas_destroy(nx_arenas *as);
/* For peers below |ranks|.  NEXAR_ENOMEM: it is as it was. */
NX_MUST_CHECK nexar_err nx_arenas_grow(nx_arenas *as, uint32_t ranks);
/* The process of |peer|, with the id |pid|: a reference to the descriptor that all communicators
 * share. |known|, if not NULL, is it already.  NULL: it cannot be pinned. */
nx_pidfd *nx_arenas_process(nx_arenas *as, uint32_t peer, int64_t pid, nx_pidfd *known);
/* |peer| has left permanently, and no running operation reads its memory. */
void nx_arenas_drop(nx_arenas *as, uint32_t peer);
/* Maps the arena of |peer| that |lent| names, unless it is mapped, and stores it in |far|. Any
 * thread, without the lock. */
void nx_arenas_see(nx_arenas *as, uint32_t peer, const nx_lent *lent, nx_remote_memory *far);

#endif /* NX_ARENA_H */
