/*
 * creation.h - creates a communicator from a list of ranks: (state, event) -> actions; no sockets,
 * no clock.
 *
 * Only the listed ranks take part.  The one with the lowest slot is the *leader*.  Every other one
 * sends it JOIN.  When all have joined and agree on the list, the leader makes the communicator and
 * sends DONE with its id.  Otherwise it sends FAIL.  One round trip, n - 1 frames each way.
 *
 *     leader     WAITS  -- all have joined -->  READY  -- nx_creation_commit -->  DONE
 *     follower   WAITS  -- DONE ------------------------------------------------>  DONE
 *     both       WAITS, READY  -- FAIL, nx_creation_fail, the leader is gone --->  FAILED
 *
 * C1  The leader decides.  A follower that wants to give up (a time-out, a member that is gone, the
 * parent revoked) sends WITHDRAW and waits for the verdict.  The runtime of the leader answers,
 * whether its application has called or not.  Only when the leader is gone does a follower fail
 * without it.  So all living members get the same outcome while the leader lives.
 *
 * C2  A creation that has failed fails once for every member, also for those that call later: the
 * leader keeps a *refusal*, of which the last NX_CREATION_REFUSALS are kept, and answers the next
 * JOIN of each of them with it.  A leader that did not call fails with its next call.  Where lists
 * differ the leader cannot know who called with which: such a refusal ends when it calls with that
 * parent and tag.
 *
 * C3  A rank is in one creation at a time for each parent and tag.  A JOIN for another list waits
 * (msg/matching/early_frames.h) until this rank begins that creation.  If its sender is in the list
 * of the creation that runs here, neither of the two can end: both fail with NEXAR_EMISMATCH.  What
 * a follower sees of this it reports to its leader, which knows whether its creation is still
 * pending: the other may be the next one of a rank that has got DONE already.
 *
 * C4  A leader may fail when it has sent DONE to some members only.  A member that fails because
 * the leader is gone says so to the others (LACK).  One that has not returned fails as well.  One
 * that has the communicator answers HAVE, and the other makes it, revokes and frees it, so that
 * nobody waits for it there.
 *
 * A frame for a parent that does not exist here yet waits in the same way.  With the loop's lock.
 */
#ifndef NX_CREATION_H
#define NX_CREATION_H

#include "base/containers/list.h"
#include "cluster/creation/creation_frame.h"
#include "cluster/rankset.h"
#include "msg/matching/early_frames.h"

enum { NX_CREATION_REFUSALS = 64, NX_CREATION_PEER = 160 };

typedef struct nx_creations nx_creations; /* those of one rank */

typedef enum nx_creation_state {
    NX_CREATION_WAITS,
    NX_CREATION_READY, /* of the leader: all have joined */
    NX_CREATION_MADE,
    NX_CREATION_FAILED
} nx_creation_state;

/* A call; the caller's memory, from nx_creation_start to nx_creation_end. */
typedef struct nx_creation {
    /* The caller's. */
    uint32_t parent;
    uint64_t tag;
    const uint32_t *slots; /* borrowed: the list */
    uint32_t n;
    uint32_t id; /* that this rank offers, 0: it has none; then the communicator's */

    /* The outcome. */
    nx_creation_state state;
    nexar_err err;
    char why[NX_CREATION_WHY];

    /* The machine's. */
    nx_list link;
    nx_creation_key key;
    uint32_t leader;            /* its slot */
    nx_rankset members, joined; /* slots; |joined|: of the leader */
    uint64_t rival;             /* the list that a member has called with instead; 0: none ... */
    uint32_t culprit;           /* ... and the member */
    bool lacking;               /* a member has failed without the leader */
} nx_creation;

typedef struct nx_creation_ops {
    /* Sends a control frame.  |vouch|: it says that a rank has failed, which |to| has to know
     * first. */
    void (*send)(void *ctx, uint32_t to, bool vouch, const void *frame, size_t len);
    /* The state of |c| has changed; not called for a call of the caller. */
    void (*changed)(void *ctx, nx_creation *c);
    /* |from| has no communicator of |key|, whose leader is gone; there is one, which this rank does
     * not have (C4). */
    void (*lacks)(void *ctx, uint32_t from, const nx_creation_key *key);
    void (*have)(void *ctx, const nx_creation_frame *f);
    /* A name of a member, for sentences; |buf| has NX_CREATION_PEER bytes. */
    const char *(*name)(void *ctx, uint32_t slot, char *buf);
} nx_creation_ops;

/* |early| is borrowed.  NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_creations_create(nx_creations **out, uint32_t self, nx_early *early,
                                            const nx_creation_ops *ops, void *ctx);
/* No creation is left.  NULL is allowed. */
void nx_creations_destroy(nx_creations *cs);

/*
 * This rank, which is in the list, calls.  |c| may have its outcome on return.
 *
 * NEXAR_EINVAL
 *     A creation with this parent and tag runs here.
 * NEXAR_ENOMEM
 *     Nothing was sent.
 */
NX_MUST_CHECK nexar_err nx_creation_start(nx_creations *cs, nx_creation *c, uint64_t now_ns);
/* The leader, which is READY, has made the communicator |id|. */
void nx_creation_commit(nx_creations *cs, nx_creation *c, uint32_t id);
/* |c| shall fail if it is not over: at the leader at once, else when that says so (C1). */
void nx_creation_fail(nx_creations *cs, nx_creation *c, nexar_err err, const char *why);
/* |c| waits for long: those that it waits for are asked.  Calls |waits_for| with each. */
void nx_creation_remind(nx_creations *cs, const nx_creation *c,
                        void (*waits_for)(void *ctx, uint32_t slot));
/* |c|, which has its outcome, is forgotten. */
void nx_creation_end(nx_creations *cs, nx_creation *c);

/* A frame of |from|.  NEXAR_EPROTO; NEXAR_ENOMEM: it was lost, and this rank cannot tell anybody.
 */
NX_MUST_CHECK nexar_err nx_creations_frame(nx_creations *cs, uint32_t from, const void *data,
                                           size_t len, uint64_t now_ns);
/* |slot| has failed or left; this rank itself: it is out of the world. */
void nx_creations_gone(nx_creations *cs, uint32_t slot, const char *why);
/* |parent| was revoked or closed. */
void nx_creations_revoked(nx_creations *cs, uint32_t parent, const char *why);

#endif /* NX_CREATION_H */
