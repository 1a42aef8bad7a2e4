/*
 * world.h - the runtime of one rank: owns the loop, the membership, the message engine, the
 * communicators and the requests, and destroys them in order.
 *
 * The loop's lock protects everything in a world. An application thread takes it at the start of a
 * public call and releases it at the end.
 */
#ifndef NX_WORLD_H
#define NX_WORLD_H

#include "base/containers/list.h"
#include "cluster/join/join.h"
#include "coll/group/group.h"
#include "core/config/config.h"
#include "core/report/oplog.h"
#include "loop/loop.h"
#include "loop/worker.h"
#include "msg/msg.h"
#include "rpc/rpc.h"
#include "transport/shm/shm.h"

typedef struct nx_creations nx_creations;         /* core/create/create.h */
typedef struct nx_diagnosis nx_diagnosis;         /* diagnosis.h */
typedef struct nx_process_exits nx_process_exits; /* process_exit.h */
typedef struct nx_failure nx_failure;             /* failure.h */
typedef struct nx_incarnation nx_incarnation;     /* incarnation.h */
typedef struct nx_join_secret nx_join_secret;     /* join_secret.h */
typedef struct nx_local_seed nx_local_seed;       /* local_seed.h */
typedef struct nx_rendezvous nx_rendezvous;       /* rendezvous.h */

/* This process is about to exit: core/job_end/job_abort.h. */
typedef struct nx_ending {
    int code; /* 0: it is not */
    nx_timer timer;
} nx_ending;

typedef struct nx_world {
    nexar_config *config;
    nx_loop *loop;
    nx_join *join; /* NULL: a world of one, without a network */
    nx_shm *shm;   /* NULL: no rank is reached by shared memory */
    nx_msg *msg;
    nx_registry *hub;         /* of collectives */
    nx_worker *worker;        /* for callbacks of the application; made on first use */
    nx_worker *device_worker; /* for calls of devices; made with the first */
    nx_rpc *rpc;
    const nx_view *view;  /* of |join|; NULL in a world of one */
    uint32_t self, slots; /* its slot (below), and how many were ever given out */
    nexar_comm *comm;     /* the world communicator */
    nx_list incarnations; /* of all communicators: incarnation.h */
    nx_failure *failure;
    nx_process_exits *process_exits; /* NULL until a process is watched */
    nx_list accords;                 /* of communicators: agreement.h */
    struct nx_agreement_walk *walks; /* iterations over them in progress: agreement.c */
    nx_early *early;                 /* early frames, for communicators and members that do not
                                        exist here yet */
    nx_list requests;                /* messages that the application has not freed */
    nx_list runners;                 /* with retry=on, threads that run them: retry_queue.h */
    nx_list messages;                /* that matched probes have taken: p2p/message.h */
    nx_list spare;                   /* memory of messages' requests to use again: p2p_request.c */
    unsigned nspare;

    nx_creations *creations;  /* communicators that are made from lists */
    struct nx_passes *passes; /* descriptors passed for host boards; NULL until there are some */
    struct nx_arena *arena;   /* arena.h: NULL until nexar_alloc ... */
    bool no_arena;            /* ... or if it cannot be had */
    struct nx_arenas *arenas; /* arenas of other ranks */
    nx_wait_policy waits;     /* of the loop and of host boards */

    uint32_t ids; /* that were given out for communicators */

    /* update.h */
    uint32_t waiting; /* joiners that wait at the seed */
    bool leaving;     /* nexar_comm_leave was called */
    bool seed_away;   /* there is no connection to it */
    uint64_t started; /* the last epoch whose joiners have started */
    nx_event start;   /* set when |started| changes, or the seed is lost */
    uint32_t before;  /* the id of the world's communicator before this one */
    nx_list parked;   /* links of members that are ahead of this rank */

    nx_rendezvous *rendezvous;   /* NULL: nothing of the launcher is in use */
    nx_join_secret *join_secret; /* by which it has joined; NULL: by none */
    nx_local_seed *local_seed;   /* held; NULL: it was not made by nexar_init_local */

    nx_oplog log;            /* for reports */
    nx_diagnosis *diagnosis; /* NULL until the world has formed */

    uint64_t ops;  /* sends, collectives and callbacks, started and not done */
    nx_event idle; /* set when |ops| becomes 0 and a thread waits for it */
    bool idle_wanted;
    bool closing;
    bool departing; /* and has detached from all communicators: coll/group/group.h */
    nx_ending ending;
    nexar_err lost_err; /* the first error of a send or a collective while closing */
    char lost_why[NX_ERROR_ROOM];
    nexar_err start_err; /* of messages, when the world had formed */
    unsigned forks;      /* fork_guard.h: the process that this belongs to */

    int event_fd;       /* -1 until it is asked for */
    uint64_t unclaimed; /* requests done, and neither waited for nor tested */
} nx_world;

/*
 * Forms or joins the world that |config| names; takes |config|, also on error.  Errors as
 * nexar_init().
 */
NX_MUST_CHECK nexar_err nx_world_create(nexar_config *config, nx_world **out);

/* finalize.c: leaves the world and frees it.  Errors as nexar_finalize(). */
nexar_err nx_world_destroy(nx_world *world);
/* Undoes what was made, in reverse order; closes all links. */
void nx_world_teardown(nx_world *world);

/* For messages: "rank 3 (node7, 10.0.0.7:4433)"; |buf| has 160 bytes. */
enum { NX_PEER_TEXT = 160 };
const char *nx_world_peer_text(const nx_world *world, uint32_t peer, char *buf);

/* The message engine identifies a peer by its *slot*, which belongs to one member permanently,
 * whatever its rank. The rank of |slot| in the world, and the slot of |rank|; for one that has left
 * or never existed, the number itself, for messages. */
uint32_t nx_world_rank(const nx_world *world, uint32_t slot);
uint32_t nx_world_slot(const nx_world *world, uint32_t rank);
/* Configures waiting for the current ranks. */
void nx_world_set_waits(nx_world *world);

/* An operation that finalize waits for (a send, a collective, a callback) has begun or ended. */
void nx_world_begin(nx_world *world);
void nx_world_end(nx_world *world);
/* Called before the end of an operation that no caller can wait for any more: it has failed, as
 * |why| says. */
void nx_world_lost(nx_world *world, nexar_err err, const char *why);
/* The last operation on |inc| has begun: notifies the others if this rank finalizes. */
void nx_world_part(nx_incarnation *inc);
/* The same for |peer|, to which there is a link now. */
void nx_world_part_from(nx_world *world, uint32_t peer);
/* Asks the ranks from which receives and probes have waited since the last call whether they have
 * detached from the communicator. A receive from any source asks one rank that is not known to
 * have. */
void nx_world_inquire(nx_world *world);

/* Runs |job| on a thread of the world, without the lock.  NEXAR_ENOMEM, NEXAR_ESYS: not
 * accepted. */
NX_MUST_CHECK nexar_err nx_world_work(nx_world *world, nx_job *job);

/* A request was done, or was taken by the application. */
void nx_world_unclaimed(nx_world *world, int change);

#endif /* NX_WORLD_H */
