/* comm.h - a communicator: some ranks of a world, in an order of their own. */
#ifndef NX_COMM_H
#define NX_COMM_H

#include <stdatomic.h>

#include "cluster/comm_id.h"
#include "cluster/confirm.h"
#include "cluster/rankset.h"
#include "coll/group/group.h"
#include "core/world.h"
#include "device/device.h"

/* Kinds of messages inside a communicator: they never meet.  2 is NX_KIND_COLL. */
enum {
    NX_KIND_USER = 1,
    NX_KIND_RPC_REPLY = 4,
    NX_KIND_RPC_CALL = 64, /* and one for each level of calls: NX_RPC_LEVELS */
};

enum { NX_LOST_WHY = 256 };

/* Whether a communicator can be used: recover.h. */
typedef enum nx_mend {
    NX_WHOLE,
    NX_MENDING, /* ranks agree on who is left */
    NX_MENDED,  /* they have: it is rebuilt when the application is told */
    NX_LOST     /* there is no agreement, or there are too few */
} nx_mend;

typedef struct nx_roster nx_roster; /* roster.h */
typedef struct nx_runner nx_runner; /* queued.h */

/* Memory for copies of what collectives overwrite: as much as the longest has needed, so that
 * pages are not new with each call. */
typedef struct nx_kept {
    uint8_t *mem; /* owned */
    size_t bytes;
} nx_kept;

typedef struct nx_recovery {
    nx_mend state;
    atomic_uint epoch; /* how often it was rebuilt */
    uint32_t inside;   /* collectives on it that have not ended: it is not rebuilt before */
    bool wanted;       /* noted: it is to be begun */
    bool freed;        /* the application has given the communicator back */
    bool updating;     /* the world's: this rank is in the agreement of an update */
    nexar_comm *next;  /* what it is to become; NULL: there was no memory so far */
    nx_list waiting;   /* threads and ... */
    nx_list due;       /* ... requests that end when it can be rebuilt */
    nexar_change last;
    char why[NX_LOST_WHY]; /* it is lost */

    /* With retry=on: retry.h. */
    bool retries;
    bool busy;          /* a collective is on its way; others wait in ... */
    nx_list turns;      /* ... this order */
    nx_confirm confirm; /* of this communicator */
    nexar_err gives_up; /* this rank breaks it, so that all end an operation alike */
    nx_kept kept;       /* belongs to the one that is on its way */
    nx_roster *now;     /* its ranks, and ... */
    nx_roster *shown;   /* ... what the application knows of them; NULL: the same */
    nx_runner *runner;  /* runs its requests; NULL: there were none; the world's */
    uint32_t queued;    /* requests that have not ended */
    bool free_due;      /* it is given back when they have */
} nx_recovery;

enum { NX_COMM_NAME = 64 };

struct nexar_comm {
    nx_world *world;
    char name[NX_COMM_NAME];  /* for people */
    unsigned children;        /* how many communicators were made from it here */
    uint32_t id;              /* in every message; the world's is 0 at first */
    atomic_uint rank, size;   /* changed with the lock, also read without */
    atomic_uint known_rank;   /* the same as the application knows ... */
    atomic_uint known_size;   /* ... them: roster.h */
    uint32_t *peers;          /* by rank: the slot; NULL: the same */
    nx_hosts *hosts;          /* on which its ranks are; the same on each of them */
    nx_group group;           /* its collectives */
    nx_device *device;        /* held; NULL: buffers are host memory */
    void *stream;             /* for its functions */
    atomic_bool has_device;   /* |device|, for those without the lock */
    nx_list staged;           /* sends from it that wait for their turn */
    bool board_off;           /* direct.h: all collectives are run by the engine */
    int board_fd;             /* the board, on the first rank, while it is ... */
    uint64_t board_due;       /* ... due to these ranks, as bits */
    nx_list link;             /* in world->comms */
    struct nx_accord *accord; /* accord.h; NULL: not needed so far */
    struct nx_accord *rescue; /* rescue.h; NULL: it is not rebuilt by itself */
    nx_recovery recovery;
    bool revoked;  /* all calls on it end with NEXAR_EREVOKED */
    bool alone;    /* of several ranks this one alone is left, or has not freed it */
    bool inquires; /* a receive from anybody has waited: whether anybody is left is asked */
    nexar_failure_fn on_failure;
    void *on_failure_arg;
    nx_rankset called; /* for whom |on_failure| was called; zero: it was never set */
    uint32_t holds;    /* requests and the handle: it is freed with the last */
};

/* The communicator of all ranks of the view, with its |id|; with the loop's lock.  It is
 * the world's from now on.  NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_comm_create_world(nx_world *world, uint32_t id, nexar_comm **out);
/* Names |child|, made from |parent| by |how|: "world.split.1". */
void nx_comm_name_child(nexar_comm *child, nexar_comm *parent, const char *how);
/* " on NAME", for sentences about an operation; "" for the communicator of the world.  |buf| has
 * NX_COMM_ON bytes. */
enum { NX_COMM_ON = NX_COMM_NAME + 8 };
const char *nx_comm_on(const nexar_comm *comm, char *buf);
/* Frees all communicators of |world|. */
void nx_comms_free(nx_world *world);

/* One more needs |comm|; one less, which may free it.  The world's own stays until
 * nx_comms_free. */
void nx_comm_hold(nexar_comm *comm);
void nx_comm_release(nexar_comm *comm);

/* This rank cannot begin the collective |number| of |comm| (0: the next), for |err| and its
 * sentence, which are returned: the others hear of it.  With the lock. */
nexar_err nx_comm_give_up(nexar_comm *comm, uint32_t number, nexar_err err);

/* The application gives |comm| back. */
void nx_comm_give_back(nexar_comm *comm);

/* |rank| of |comm| as a peer of the message engine. */
static inline uint32_t nx_comm_peer(const nexar_comm *comm, uint32_t rank)
{
    return (comm->peers == NULL) ? rank : comm->peers[rank];
}

/* The rank that |peer| has in |comm|, of which it is a member. */
uint32_t nx_comm_rank_of(const nexar_comm *comm, uint32_t peer);
/* The same of any peer; -1: it is not a member. */
int nx_comm_find_peer(const nexar_comm *comm, uint32_t peer);

/* An id for a communicator, which is not given out again; 0: this rank has none left. */
uint32_t nx_comm_take_id(nx_world *world);
/* The communicator of the ranks of |comm| that are not in |failed|, in their order, with
 * |id|.  NEXAR_ENOMEM.  NEXAR_ENOTSUP: |id| is 0, none of them had one left. */
NX_MUST_CHECK nexar_err nx_comm_make_rest(nexar_comm *comm, const nx_rankset *failed, uint32_t id,
                                          nexar_comm **out);

/* Whether messages and remote calls are refused: it is revoked, or was rebuilt and the
 * application does not know (roster.h). */
static inline bool nx_comm_refuses(const nexar_comm *comm)
{
    return comm->revoked || (comm->recovery.shown != NULL);
}

/* |comm| is revoked: all that waits on it ends. */
void nx_comm_revoked(nexar_comm *comm);
/* The same for messages and remote calls alone. */
void nx_comm_end_messages(nexar_comm *comm);
/* Nobody else is left on |comm|: receives from anybody that wait end. */
void nx_comm_fail_any(nexar_comm *comm);
/* Why nothing comes from anybody any more on |comm|, which is alone. */
enum { NX_COMM_ALONE_WHY = 640 };
nexar_err nx_comm_alone_why(const nexar_comm *comm, char text[NX_COMM_ALONE_WHY]);
/* Ends what waits for a message of |peer|, which has parted and of which nothing comes any more. */
void nx_comm_fail_from(nexar_comm *comm, uint32_t peer, nx_parting how);

/* The context of the application's own messages. */
static inline nx_context nx_comm_user(const nexar_comm *comm)
{
    return (nx_context){.comm = comm->id, .kind = NX_KIND_USER, .class = NX_CLASS_USER};
}

#endif /* NX_COMM_H */
