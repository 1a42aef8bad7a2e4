/*
 * host_coll.h - collectives of a communicator whose ranks share a board.
 *
 * Made when the board is mapped here; used when all ranks have mapped it and have reported whether
 * they can read each other's memory.  No rank waits for that: until then, and for calls that the
 * board does not support, the engine runs.  Each rank finds out independently. One that does so
 * later runs an operation by the engine that others begin on the board, and these follow it
 * (board.h).
 *
 * One operation of a communicator is on the board at a time: another thread waits. It takes the
 * group's next number, like all operations.
 *
 * Damage (board.h) fails the operation on the board with NEXAR_EPROTO. The other ranks of the group
 * are notified that it, and the previous operation on the board, have failed; a rank that has
 * completed them ignores that. The engine runs later operations.
 *
 * Called with the loop's lock held, unless noted.
 */
#ifndef NX_HOST_COLL_H
#define NX_HOST_COLL_H

#include "coll/group/group.h"
#include "host_call.h"

typedef struct nx_host_coll nx_host_coll;

typedef struct nx_host_coll_config {
    nx_group *group;
    nx_board *board; /* of nx_board_bytes(size) bytes, from mmap; owned from here on */
    uint64_t token;  /* random */
    nx_wait_policy waits;
    uint64_t check_ns; /* period of the check for damage: board.h */
    bool no_reading;   /* as if the memory of other ranks could not be read */
    /* The process of |rank|, which reports the id |pid|: one reference.  NULL: it cannot be pinned,
     * and its memory is not read.  With the lock. */
    nx_pidfd *(*process)(void *ctx, uint32_t rank, int64_t pid);
    /* Describes this rank's arena, with the lock; maps another rank's arena, named by |lent|, into
     * |far|, without it.  Both may be NULL. */
    void (*lend)(void *ctx, nx_lent *own);
    void (*on_lent)(void *ctx, uint32_t rank, const nx_lent *lent, nx_remote_memory *far);
    void *ctx;
} nx_host_coll_config;

/* |group->direct| is set from here on, until nx_group_close.  NEXAR_ENOMEM, NEXAR_ESYS: the caller
 * keeps the board. */
NX_MUST_CHECK nexar_err nx_host_coll_create(const nx_host_coll_config *config);
void nx_host_coll_destroy(nx_host_coll *d);

/* Whether |call| can be tried; also checks whether all ranks are ready. */
bool nx_host_coll_takes(nx_host_coll *d, const nx_coll_call *call);
/* The operation on the board, for reports. */
typedef struct nx_host_coll_now {
    uint32_t number; /* 0: nothing */
    nx_mark mark;
    uint64_t begun_ns; /* on the loop's clock */
    uint64_t missing;  /* ranks that have not arrived, as bits */
} nx_host_coll_now;

/*
 * Runs it, without the lock; |*err| is its result, |*was| describes the operation. False: the
 * engine must run it, with |*number|, immediately, before the lock is released.
 */
bool nx_host_coll_run(nx_host_coll *d, const nx_coll_call *call, uint32_t *number, nexar_err *err,
                      nx_host_coll_now *was);

/* The number of operations completed on the board. */
uint64_t nx_host_coll_count(const nx_host_coll *d);

void nx_host_coll_look(const nx_host_coll *d, nx_host_coll_now *out);

/* ---- for the group ------------------------------------------------------------------- */

/* Whether operation |number| is on the board. */
bool nx_host_coll_has(const nx_host_coll *d, uint32_t number);
/* Operation |number| begins by the engine. */
void nx_host_coll_engine(nx_host_coll *d, uint32_t number);
/* The operation on the board was aborted by a rank that may never arrive in it. */
void nx_host_coll_on_abort(nx_host_coll *d, nexar_err err, const char *why);
/* This rank starts nothing more: other ranks, which would wait for it on the board, use the
 * engine. */
void nx_host_coll_part(nx_host_coll *d);
/* |rank| is down. */
void nx_host_coll_on_down(nx_host_coll *d, uint32_t rank, nexar_err err, const char *why);

#endif /* NX_HOST_COLL_H */
