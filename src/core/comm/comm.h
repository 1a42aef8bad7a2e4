/*
 * comm.h - a communicator, as the application holds it: an ordered subset of the ranks of a world.
 *
 * The handle has the state that outlives changes of membership: name, device, callbacks, queued
 * requests.  Its incarnations (incarnation.h) have the members.
 */
#ifndef NX_COMM_H
#define NX_COMM_H

#include <stdatomic.h>

#include "cluster/comm_id.h"
#include "cluster/rankset.h"
#include "device/device.h"
#include "incarnation.h"

typedef struct nx_runner nx_runner; /* retry_queue.h */

/* Memory for copies of what collectives overwrite: as much as the largest has needed, so that calls
 * reuse its pages. */
typedef struct nx_kept {
    uint8_t *mem; /* owned */
    size_t bytes;
} nx_kept;

/* With retry=on: retry.h. */
typedef struct nx_retry {
    bool on;
    bool busy;         /* a collective is running; others wait in ... */
    nx_list turns;     /* ... this order */
    nx_kept kept;      /* used by the running collective */
    nx_runner *runner; /* runs its requests; NULL: there were none; owned by the world */
    uint32_t queued;   /* requests that have not ended */
    bool free_due;     /* it is released when they have */
} nx_retry;

enum { NX_COMM_NAME = 64 };

struct nexar_comm {
    nx_world *world;
    nx_incarnation *inc;    /* what the application knows, */
    nx_incarnation *active; /* where the next collective runs: incarnation.h */
    _Atomic uint64_t seat;  /* rank and size of |inc|, for threads without the lock; */
    atomic_uint epoch;      /* its epoch, for the same: stored after |seat| */
    uint32_t handlers;      /* id of the handlers of remote calls: that of the first incarnation */
    uint32_t holds;         /* references of requests and the application */
    bool freed;             /* the application has given it back */
    uint64_t timeout_ns;    /* of calls on it; 0: the setting collective_timeout */
    nx_list waiting;        /* threads that wait for a change: recovery.h */
    nx_retry retry;

    char name[NX_COMM_NAME]; /* for people */
    unsigned children;       /* number of communicators made from it here */
    nx_device *device;       /* held; NULL: buffers are host memory */
    void *stream;            /* for its functions */
    atomic_bool has_device;  /* |device|, for threads without the lock */
    nexar_failure_fn on_failure;
    void *on_failure_arg;
    nexar_change_fn on_change;
    void *on_change_arg;
    nx_list changes;   /* calls of it that have not ended, in order: comm_change.h */
    nx_rankset called; /* slots for which |on_failure| was called; zero: it was never set */
};

/* The communicator of all ranks of the view, with its |id|; with the loop's lock.  NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_comm_create_world(nx_world *world, uint32_t id);
/* The members of the world's next incarnation.  NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_comm_world_members(const nx_world *world, uint32_t id, nx_members *out);
/* A communicator of |who|, made from |parent| by |how| ("split"), initially with the device of
 * |parent|.  Takes |who->peers|, also on error.
 *
 * NEXAR_ENOTSUP
 *     |who->id| is 0: no member had one left.
 * NEXAR_ENOMEM */
NX_MUST_CHECK nexar_err nx_comm_create(nexar_comm *parent, const char *how, const nx_members *who,
                                       nexar_comm **out);
/* How long a call on |comm| waits for others; 0: without end. */
uint64_t nx_comm_timeout(const nexar_comm *comm);
/* Names |child|, made from |parent| by |how|: "world.split.1". */
void nx_comm_name_child(nexar_comm *child, nexar_comm *parent, const char *how);
/* " on NAME", for messages about an operation; "" for the communicator of the world.  |buf| has
 * NX_COMM_ON bytes. */
enum { NX_COMM_ON = NX_COMM_NAME + 8 };
const char *nx_comm_on(const nexar_comm *comm, char *buf);
/* Frees all communicators of |world|. */
void nx_comms_free(nx_world *world);

/* Adds and drops a reference; the last one frees |comm|.  The world's own stays until
 * nx_comms_free. */
void nx_comm_hold(nexar_comm *comm);
void nx_comm_release(nexar_comm *comm);

/* ---- the swap ------------------------------------------------------------------------ */

/* Collectives run on the successor of comm->active from now on; no collective may be running. */
void nx_comm_advance(nexar_comm *comm);
/* Makes |inc| of |comm| visible to the application; does nothing if it, or a later one, is. */
void nx_comm_show(nexar_comm *comm, const nx_incarnation *inc);
/* |next| replaces all incarnations of |comm|, also for the application; takes the caller's
 * reference. */
void nx_comm_replace(nexar_comm *comm, nx_incarnation *next);
/* Closes incarnations that were agreed on and are not used. */
void nx_comm_drop_unused(nexar_comm *comm);

/* Rank and size as visible to the application; without the lock. */
static inline nx_seat nx_comm_seat(const nexar_comm *comm)
{
    const uint64_t seat = atomic_load_explicit(&comm->seat, memory_order_acquire);

    return (nx_seat){.rank = (uint32_t)(seat >> 32), .size = (uint32_t)seat};
}

/* This rank cannot begin the collective |number| of |inc| (0: the next), because of |err| and its
 * message, which it returns.  Notifies the others.  With the lock. */
nexar_err nx_comm_give_up(nx_incarnation *inc, uint32_t number, nexar_err err);

/* The application frees |comm|. */
void nx_comm_give_back(nexar_comm *comm);

/* A new id for a communicator; 0: this rank has none left. */
uint32_t nx_comm_take_id(nx_world *world);

#endif /* NX_COMM_H */
