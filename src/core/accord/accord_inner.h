/*
 * accord_inner.h - what the files of agreements share, and who does what.
 *
 *   accord.c         the machines of communicators, and who waits for them
 *   accord_frames.c  the frames that come for them
 *   rescue.c         those by which a communicator is rebuilt
 */
#ifndef NX_ACCORD_INNER_H
#define NX_ACCORD_INNER_H

#include "cluster/agree/agree.h"
#include "cluster/reliable_broadcast.h"
#include "core/accord/accord.h"

enum { NX_ACCORD_WHY = 256, NX_ACCORD_ID_SIZE = 4 };

/* A thread that waits for an agreement. */
typedef struct nx_accord_waiter {
    nx_event event;
    nexar_err err;
    char why[NX_ACCORD_WHY];
    nx_outcome *out;       /* one of both is */
    nx_agree_value *value; /* NULL */
} nx_accord_waiter;

struct nx_accord {
    nx_list link; /* in world->accords */
    nx_world *world;
    nx_incarnation *inc; /* its own, or, ... */
    bool detached;       /* ... when that is closed: held */
    uint64_t id;         /* of frames: that of |inc|, and NX_RESCUE_ID */
    nx_rbcast *rbcast;
    nx_agree *agree;
    nx_accord_waiter *waiter;
    bool used;      /* an agreement was ever begun */
    bool revoked;   /* noted, to be acted upon */
    bool let_go;    /* those who leave by the last decision have been let go */
    bool forgotten; /* nobody will ask any more, but those */

    /* Of a rescue alone: rescue.c. */
    bool rescue;
    bool told;               /* noted: others have begun */
    bool over, acted;        /* noted: it has ended; acted upon */
    bool closed;             /* nx_agree_close was called */
    nexar_err err;           /* how it has ended */
    nx_outcome outcome;      /* if well */
    char why[NX_ACCORD_WHY]; /* of the first who began, or of |err| */
};

/* Frames of rescues have ids beyond those of communicators and of the world's deaths. */
#define NX_RESCUE_ID (UINT64_C(1) << 33)

/* One for |inc|, in its world's list; NULL: no memory. */
nx_accord *nx_accord_make(nx_incarnation *inc, bool rescue);
void nx_accord_free(nx_accord *a);
/* a->inc is closed, and |a| is still to answer others. */
void nx_accord_detach(nx_accord *a);
/* That of |inc|, made if there is none; NULL: no memory. */
nx_accord *nx_accord_get(nx_incarnation *inc);
/* Those that have left bring nothing. */
void nx_accord_tell_left(nx_accord *a);

/* ---- rescue.c ------------------------------------------------------------------------ */

extern const nx_rbcast_ops nx_rescue_rbcast_ops;
extern const nx_agree_ops nx_rescue_agree_ops;
/* Does what was noted of |a|, which may be freed. */
void nx_rescue_settle(nx_accord *a);

/* ---- accord.c, for the machines ---------------------------------------------------------- */

void nx_accord_send(void *ctx, uint32_t to, const void *frame, size_t len);
void nx_accord_learned(void *ctx, uint32_t rank);
void nx_accord_forgotten(void *ctx);

#endif /* NX_ACCORD_INNER_H */
