/*
 * incarnation.h - one identity of a communicator: its members and what runs among them.
 *
 * A communicator handle (comm.h) points to incarnations.  Recovery and nexar_comm_update() make the
 * next incarnation beside the current one and then swap a pointer; nothing is copied.
 *
 *      comm->inc  ->  ...  ->  comm->active  ->  ...  ->  newest          (inc->next)
 *
 *  I1  The identity (id, epoch, rank, size, peers, hosts, change) is constant from
 *      nx_incarnation_open until the memory is freed.
 *  I2  comm->inc is what the application knows: its ranks are the ranks in arguments and results,
 *      and messages and remote calls run on it.  It advances only where the application is
 *      notified: in a blocking collective, when a request of a collective is claimed, in
 *      nexar_comm_update().
 *  I3  comm->active is where the next collective runs.  It differs from comm->inc only with
 *      retry=on (retry.h), where collectives continue before the application is notified.
 *  I4  Incarnations after comm->active were agreed on and are not used yet (recovery.h).
 *  I5  An incarnation is revoked before its successor becomes active, so what the application
 *      has pending on it, or starts on it, ends: messages and remote calls with NEXAR_EREVOKED,
 *      collectives with NEXAR_EPEER after a failure and with NEXAR_EREVOKED after an update.
 *  I6  A replaced incarnation is closed, at the swap: frames for its id are dropped from then on.
 *      If collectives are still inside (requests at an update), it is closed with the last
 *      reference.
 *  I7  The memory lives until the last reference is released.  The handle references comm->inc and
 *      all that follow it; requests, messages, waiting threads and agreements reference the
 *      incarnation that they were started on.
 *
 * Every function needs the loop's lock.  A thread without the lock reads the identity of an
 * incarnation that it references, and no other: nexar_rank() and nexar_size() read comm->seat, so
 * no thread without the lock ever follows comm->inc, and the last release may free at once.
 */
#ifndef NX_INCARNATION_H
#define NX_INCARNATION_H

#include "cluster/commit.h"
#include "cluster/creation/creation_frame.h"
#include "coll/group/group.h"
#include "core/world/world.h"

/* Kinds of messages inside a communicator: they never match each other.  2 is NX_KIND_COLL. */
enum {
    NX_KIND_USER = 1,
    NX_KIND_RPC_REPLY = 4,
    NX_KIND_RPC_CALL = 64, /* and one for each level of calls: NX_RPC_LEVELS */
};

enum { NX_LOST_WHY = 256 };

/* One of this many ranks. */
typedef struct nx_seat {
    uint32_t size, rank;
} nx_seat;

/* The members of an incarnation. */
typedef struct nx_members {
    uint32_t id; /* in every message; the world's is 0 at first */
    uint32_t rank, size;
    uint32_t *peers; /* by rank: the slot; owned; NULL: the same */
} nx_members;

/* State of the automatic recovery of an incarnation: recovery.h. */
typedef enum nx_repair {
    NX_WHOLE,
    NX_REPAIRING, /* ranks agree on the survivors */
    NX_REPAIRED,  /* agreed: the successor is used when the application is notified */
    NX_LOST       /* there is no agreement, or too few survivors */
} nx_repair;

typedef struct nx_recovery {
    nx_repair state;
    uint32_t inside;       /* collectives on it that have not ended: it is not replaced before */
    bool wanted;           /* noted: the agreement is to begin */
    bool updating;         /* of the world: this rank is in the agreement of an update */
    nexar_err gives_up;    /* this rank breaks it, so that all end an operation alike */
    nx_list due;           /* requests that end when the application can be notified */
    nx_commit confirm;     /* with retry=on: of its operations */
    char why[NX_LOST_WHY]; /* NX_LOST */
} nx_recovery;

struct nx_incarnation {
    nx_list link; /* in world->incarnations, until it is closed */
    nx_world *world;
    nexar_comm *comm;     /* its communicator; NULL: it is closed */
    nx_incarnation *next; /* its successor, referenced by |comm|; NULL: none so far */
    uint32_t holds;

    /* The identity. */
    uint32_t id, rank, size;
    unsigned epoch;          /* number of earlier incarnations of |comm| */
    uint32_t *peers;         /* by rank: the slot; NULL: the same */
    nx_hosts *hosts;         /* host of each rank; the same on all of them */
    nexar_change change;     /* result of the recovery that led to it; otherwise empty */
    int *changed;            /* owned: the ranks that |change| counts: comm_change.h; NULL: none */
    nx_creation_key created; /* if nexar_comm_create made it; otherwise zeros */

    /* What runs on it. */
    nx_group group;              /* collectives */
    nx_list staged;              /* sends from it that are queued */
    struct nx_agreement *accord; /* agreement.h; NULL: not needed so far */
    struct nx_agreement *rescue; /* auto_shrink.h; NULL: no automatic recovery */
    nx_recovery recovery;
    struct {
        bool off;     /* all collectives are run by the engine */
        int fd;       /* the board, on the first rank, while it is ... */
        uint64_t due; /* ... due to these ranks, as bits */
    } board;          /* host_boards.h */
    bool revoked;     /* all calls on it fail with NEXAR_EREVOKED */
    bool alone;       /* all other ranks have failed, left or freed it */
    bool inquires;    /* a receive from any source has waited: checks whether any rank is left */
};

/*
 * Opens an incarnation of |comm| for messages, referenced by the caller.  Takes |who->peers|, also
 * on error.  The caller links it into |comm|, then calls nx_failure_opened.
 *
 * NEXAR_ENOMEM
 */
NX_MUST_CHECK nexar_err nx_incarnation_open(nexar_comm *comm, const nx_members *who,
                                            nx_incarnation **out);
/* The ranks of |inc| that are not in |failed|, in their order, with |id|, for nx_incarnation_open.
 * NEXAR_ENOMEM */
NX_MUST_CHECK nexar_err nx_incarnation_rest(const nx_incarnation *inc, const nx_rankset *failed,
                                            uint32_t id, nx_members *out);
/* Fails what runs on |inc|; does nothing if it is closed. */
void nx_incarnation_close(nx_incarnation *inc);

nx_incarnation *nx_incarnation_hold(nx_incarnation *inc);
/* NULL is left alone. */
void nx_incarnation_release(nx_incarnation *inc);

/* The open incarnation with |id|, or NULL. */
nx_incarnation *nx_incarnation_find(const nx_world *world, uint64_t id);

/* |rank| as a peer of the message engine. */
static inline uint32_t nx_incarnation_peer(const nx_incarnation *inc, uint32_t rank)
{
    return (inc->peers == NULL) ? rank : inc->peers[rank];
}

/* The rank of |peer|; -1: it is not a member. */
int nx_incarnation_rank_of(const nx_incarnation *inc, uint32_t peer);

static inline nx_seat nx_incarnation_seat(const nx_incarnation *inc)
{
    return (nx_seat){.size = inc->size, .rank = inc->rank};
}

/* The context of the application's own messages. */
static inline nx_context nx_incarnation_user(const nx_incarnation *inc)
{
    return (nx_context){.comm = inc->id, .kind = NX_KIND_USER, .class = NX_CLASS_USER};
}

/* ---- the end of what waits ----------------------------------------------------------- */

/* |inc| is revoked: everything that waits on it fails. */
void nx_incarnation_revoke(nx_incarnation *inc);
/* The same for messages and remote calls alone. */
void nx_incarnation_end_messages(nx_incarnation *inc);
/* No other rank is left: fails pending receives from any source. */
void nx_incarnation_fail_any(const nx_incarnation *inc);
/* Why no message can arrive from any source on |inc|, which is alone. */
enum { NX_ALONE_WHY = 640 };
nexar_err nx_incarnation_alone_why(const nx_incarnation *inc, char text[NX_ALONE_WHY]);
/* Fails what waits for a message of |peer|, which has detached and sends nothing any more. */
void nx_incarnation_fail_from(const nx_incarnation *inc, uint32_t peer, nx_departure how);

#endif /* NX_INCARNATION_H */
