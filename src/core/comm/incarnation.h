/*
 * incarnation.h - one identity of a communicator: its members and what runs among them.
 *
 * A communicator handle (comm.h) points to incarnations.  Recovery and nexar_comm_update() make
 * the next incarnation beside the current one and then swap a pointer; nothing is copied.
 *
 *      comm->inc  ->  ...  ->  comm->active  ->  ...  ->  newest          (inc->next)
 *
 *  I1  The identity (id, epoch, rank, size, peers, hosts, change) is constant from
 * nx_incarnation_open until the memory is freed. I2  comm->inc is what the application knows: its
 * ranks are the ranks in arguments and results, and messages and remote calls run on it.  It
 * advances only where the application is told: in a blocking collective, when a request of a
 * collective is claimed, in nexar_comm_update(). I3  comm->active is where the next collective
 * runs.  It differs from comm->inc only with retry=on (retry.h), where collectives continue before
 * the application is told. I4  Incarnations behind comm->active were agreed on and are not used yet
 * (recovery.h). I5  An incarnation is revoked before its successor becomes active, so what the
 * application has pending on it, or starts on it, ends: messages and remote calls with
 * NEXAR_EREVOKED, collectives with NEXAR_EPEER after a failure and with NEXAR_EREVOKED after an
 * update. I6  A replaced incarnation is closed, at the swap: frames for its id are dropped from
 * then on. If collectives are still inside (requests at an update), it is closed with the last
 * hold. I7  The memory lives until the last hold is released.  The handle holds comm->inc and all
 * that follow it; requests, messages, waiting threads and agreements hold the incarnation that they
 * were started on.
 *
 * Everything here needs the loop's lock.  A thread without the lock reads the identity of an
 * incarnation that it holds, and no other: nexar_rank() and nexar_size() read comm->seat, so no
 * thread without the lock ever follows comm->inc, and the last hold may free at once.
 */
#ifndef NX_INCARNATION_H
#define NX_INCARNATION_H

#include "cluster/commit.h"
#include "cluster/creation/creation_frame.h"
#include "coll/group/group.h"
#include "core/world/world.h"

/* Kinds of messages inside a communicator: they never meet.  2 is NX_KIND_COLL. */
enum {
    NX_KIND_USER = 1,
    NX_KIND_RPC_REPLY = 4,
    NX_KIND_RPC_CALL = 64, /* and one for each level of calls: NX_RPC_LEVELS */
};

enum { NX_LOST_WHY = 256 };

/* One of so many ranks. */
typedef struct nx_seat {
    uint32_t size, rank;
} nx_seat;

/* The members of an incarnation. */
typedef struct nx_members {
    uint32_t id; /* in every message; the world's is 0 at first */
    uint32_t rank, size;
    uint32_t *peers; /* by rank: the slot; owned; NULL: the same */
} nx_members;

/* How far automatic recovery of an incarnation has come: recovery.h. */
typedef enum nx_repair {
    NX_WHOLE,
    NX_REPAIRING, /* ranks agree on who is left */
    NX_REPAIRED,  /* they have: its successor is used when the application is told */
    NX_LOST       /* there is no agreement, or there are too few */
} nx_repair;

typedef struct nx_recovery {
    nx_repair state;
    uint32_t inside;       /* collectives on it that have not ended: it is not replaced before */
    bool wanted;           /* noted: the agreement is to begin */
    bool updating;         /* of the world: this rank is in the agreement of an update */
    nexar_err gives_up;    /* this rank breaks it, so that all end an operation alike */
    nx_list due;           /* requests that end when the application can be told */
    nx_commit confirm;     /* with retry=on: of its operations */
    char why[NX_LOST_WHY]; /* NX_LOST */
} nx_recovery;

struct nx_incarnation {
    nx_list link; /* in world->incarnations, until it is closed */
    nx_world *world;
    nexar_comm *comm;     /* whose it is; NULL: it is closed */
    nx_incarnation *next; /* its successor, held by |comm|; NULL: none so far */
    uint32_t holds;

    /* The identity. */
    uint32_t id, rank, size;
    unsigned epoch;          /* how many of |comm| came before it */
    uint32_t *peers;         /* by rank: the slot; NULL: the same */
    nx_hosts *hosts;         /* on which its ranks are; the same on each of them */
    nexar_change change;     /* made by the recovery that led to it; without one: of nobody */
    int *changed;            /* owned: the ranks that |change| counts: comm_change.h; NULL: none */
    nx_creation_key created; /* if nexar_comm_create made it; otherwise zeros */

    /* What runs on it. */
    nx_group group;              /* collectives */
    nx_list staged;              /* sends from it that wait for their turn */
    struct nx_agreement *accord; /* agreement.h; NULL: not needed so far */
    struct nx_agreement *rescue; /* auto_shrink.h; NULL: no automatic recovery */
    nx_recovery recovery;
    struct {
        bool off;     /* all collectives are run by the engine */
        int fd;       /* the board, on the first rank, while it is ... */
        uint64_t due; /* ... due to these ranks, as bits */
    } board;          /* direct.h */
    bool revoked;     /* all calls on it end with NEXAR_EREVOKED */
    bool alone;       /* of several ranks this one alone is left, or has not freed it */
    bool inquires;    /* a receive from anybody has waited: whether anybody is left is asked */
};

/*
 * Opens an incarnation of |comm| for messages, held by the caller.  |who->peers| is taken over,
 * also on error.  The caller links it into |comm|, then calls nx_failure_opened.
 *
 * NEXAR_ENOMEM
 */
NX_MUST_CHECK nexar_err nx_incarnation_open(nexar_comm *comm, const nx_members *who,
                                            nx_incarnation **out);
/* The ranks of |inc| that are not in |failed|, in their order, with |id|, for nx_incarnation_open.
 * NEXAR_ENOMEM */
NX_MUST_CHECK nexar_err nx_incarnation_rest(const nx_incarnation *inc, const nx_rankset *failed,
                                            uint32_t id, nx_members *out);
/* Ends what runs on |inc|; does nothing where that was done. */
void nx_incarnation_close(nx_incarnation *inc);

nx_incarnation *nx_incarnation_hold(nx_incarnation *inc);
/* NULL is left alone. */
void nx_incarnation_release(nx_incarnation *inc);

/* The one that is open with |id|; NULL: none. */
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

/* ---- the end of what waits ----------------------------------------------------------------- */

/* |inc| is revoked: all that waits on it ends. */
void nx_incarnation_revoke(nx_incarnation *inc);
/* The same for messages and remote calls alone. */
void nx_incarnation_end_messages(nx_incarnation *inc);
/* No other rank is left: receives from any source that wait end. */
void nx_incarnation_fail_any(const nx_incarnation *inc);
/* Why no message comes from any source any more on |inc|, which is alone. */
enum { NX_ALONE_WHY = 640 };
nexar_err nx_incarnation_alone_why(const nx_incarnation *inc, char text[NX_ALONE_WHY]);
/* Ends what waits for a message of |peer|, which has detached and sends nothing any more. */
void nx_incarnation_fail_from(const nx_incarnation *inc, uint32_t peer, nx_departure how);

#endif /* NX_INCARNATION_H */
