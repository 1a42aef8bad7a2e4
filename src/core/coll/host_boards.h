/*
 * host_boards.h - boards for communicators whose ranks are all on one host.
 *
 * The first rank of a communicator makes its board at its first blocking collective.  It passes
 * the board to the others over the links of the shm transport; if it has none to a rank, it
 * opens one with an empty control frame.  The others find it at a later collective. All of this
 * happens besides the operations, which the engine runs meanwhile.
 */
#ifndef NX_HOST_BOARDS_H
#define NX_HOST_BOARDS_H

#include "coll/coll_call.h"
#include "core/comm/incarnation.h"

/* A descriptor that was passed to this rank and is not claimed yet. */
typedef struct nx_passed {
    uint64_t name; /* the id of a communicator */
    uint32_t from; /* its slot */
    int fd;        /* -1: none */
} nx_passed;

/* Passed descriptors of the world.  Later ones replace unclaimed ones. */
enum { NX_PASSED = 64 };
typedef struct nx_passes {
    nx_passed at[NX_PASSED];
    size_t next;
} nx_passes;

/* For nx_shm_config; |ctx| is the world. */
void nx_host_coll_on_pass(void *ctx, uint64_t member, uint64_t name, int fd);
/* Closes all that are left; |passes| may be NULL. */
void nx_host_coll_close_passes(nx_passes *passes);

/*
 * Runs |call| on the board of |inc|, and waits; |*err| is its result.  False: the engine must run
 * it, with |*number| (0: the next one), before the lock is released. With the loop's lock, which is
 * released meanwhile.
 */
bool nx_incarnation_direct(nx_incarnation *inc, const nx_coll_call *call, uint32_t *number,
                           nexar_err *err);
/* |inc| is about to be closed. */
void nx_incarnation_direct_fini(nx_incarnation *inc);

#endif /* NX_HOST_BOARDS_H */
