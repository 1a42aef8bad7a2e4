/*
 * agreement_inner.h - shared by the files of agreements.
 *
 *   agreement.c         the machines of communicators, and their callers
 *   agreement_frames.c  their frames
 *   auto_shrink.c       the agreements that rebuild a communicator
 */
#ifndef NX_AGREEMENT_INNER_H
#define NX_AGREEMENT_INNER_H

#include "agreement.h"
#include "cluster/consensus/consensus.h"
#include "cluster/membership/reliable_broadcast.h"

enum { NX_AGREEMENT_WHY = 256, NX_AGREEMENT_ID_SIZE = 4 };

/* A thread that waits for an agreement. */
typedef struct nx_agreement_waiter {
    nx_event event;
    nexar_err err;
    char why[NX_AGREEMENT_WHY];
    nx_outcome *out;           /* one of both is */
    nx_consensus_value *value; /* NULL */
} nx_agreement_waiter;

struct nx_agreement {
    nx_list link; /* in world->accords */
    nx_world *world;
    nx_incarnation *inc; /* its own, or, ... */
    bool detached;       /* ... when that is closed: held */
    uint64_t id;         /* of frames: that of |inc|, and NX_AUTO_SHRINK_ID */
    nx_rbcast *rbcast;
    nx_consensus *agree;
    nx_agreement_waiter *waiter;
    uint64_t overdue; /* agreements up to before this number end, whatever ranks have called */
    uint32_t owed;    /* this many ended before this rank has called: its next calls fail */
    bool proxied;     /* one runs in which this rank takes part without its application */
    bool used;        /* an agreement was ever begun */
    bool opposing;    /* an instance runs without a waiting thread: nx_agreement_oppose */
    bool close_due;   /* noted: nx_consensus_close, when that instance is over */
    bool revoked;     /* noted, to be acted upon */
    bool let_go;      /* the leavers of the last decision were released */
    bool forgotten;   /* no rank will ask any more, except released leavers */

    /* Of a rescue alone: auto_shrink.c. */
    bool rescue;
    bool told;                  /* noted: others have begun */
    bool over, acted;           /* recorded: it has ended; handled */
    bool closed;                /* nx_consensus_close was called */
    nexar_err err;              /* its result */
    nx_outcome outcome;         /* if well */
    char why[NX_AGREEMENT_WHY]; /* of the first ranks that began, or of |err| */
};

/* Ids of automatic agreements, beyond the ids of communicators and of the world's failures. */
#define NX_AUTO_SHRINK_ID (UINT64_C(1) << 33)

/* One for |inc|, in its world's list; NULL: no memory. */
nx_agreement *nx_agreement_make(nx_incarnation *inc, bool rescue);
void nx_agreement_free(nx_agreement *a);
/* a->inc is closed, and |a| is still to answer others. */
void nx_agreement_detach(nx_agreement *a);
/* The agreement of |inc|, made if there is none; NULL: out of memory. */
nx_agreement *nx_agreement_get(nx_incarnation *inc);
/* Ranks that have left contribute nothing. */
void nx_agreement_tell_left(nx_agreement *a);

/* ---- auto_shrink.c ------------------------------------------------------------------------ */

extern const nx_rbcast_ops nx_auto_shrink_rbcast_ops;
extern const nx_consensus_ops nx_auto_shrink_agree_ops;
/* Does what was noted of |a|, which may be freed. */
void nx_auto_shrink_conclude(nx_agreement *a);

/* ---- agreement.c, for the machines ---------------------------------------------------------- */

void nx_agreement_send(void *ctx, uint32_t to, const void *frame, size_t len);
nx_life nx_agreement_life(void *ctx, uint32_t rank);
void nx_agreement_learned(void *ctx, uint32_t rank);
void nx_agreement_forgotten(void *ctx);

#endif /* NX_AGREEMENT_INNER_H */
