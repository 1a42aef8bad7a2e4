/*
 * creation.h - creates a communicator from a list of ranks: (state, event) -> actions; no sockets,
 * no clock.
 *
 * Only the listed ranks take part.  The rank with the lowest slot is the *leader*.  Every other
 * rank sends it JOIN.  When all have joined and agree on the list, the leader makes the
 * communicator and sends DONE with its id.  Otherwise it sends FAIL.  One round trip, n - 1
 * frames each way.
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
 * JOIN of each of them with it.  A leader that did not call fails with its next call.  Where
 * lists differ the leader cannot know which member called with which list: such a refusal ends
 * when the leader calls with that parent and tag.
 *
 * C3  A rank is in one creation at a time for each parent and tag.  A JOIN for another list waits
 * (msg/matching/early_frames.h) until this rank begins that creation.  If its sender is in the list
 * of the creation that runs here, neither of the two can end: both fail with NEXAR_EMISMATCH.  What
 * a follower sees of this it reports to its leader, which knows whether its creation is still
 * pending: the other may be the next one of a rank that has got DONE already.
 *
 * C4  A leader may fail when it has sent DONE to some members only.  A member that fails because
 * the leader is gone says so to the others (LACK).  A member that has not returned fails as
 * well.  A member that has the communicator answers HAVE.  The failed member then makes, revokes
 * and frees the communicator, so that no rank waits for it there.
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

typedef struct nx_creations nx_creations; /* the creations of one rank */

typedef enum nx_creation_state {
    NX_CREATION_WAITS,
    NX_CREATION_READY, /* of the leader: all have joined */
    NX_CREATION_MADE,
    NX_CREATION_FAILED
} nx_creation_state;

/* A call; the caller's memory, from nx_creation_start to nx_creation_end. */
typedef struct nx_creation {
    /* Set by the caller. */
    uint32_t parent;
    uint64_t tag;
    const uint32_t *slots; /* borrowed: the list */
    uint32_t n;
    uint32_t id; /* offered by this rank, 0: it has none; then the communicator's */

    /* The outcome. */
    nx_creation_state state;
    nexar_err err;
    char why[NX_CREATION_WHY];

    /* Owned by the machine. */
    nx_list link;
    nx_creation_key key;
    uint32_t leader;            /* its slot */
    nx_rankset members, joined; /* slots; |joined|: of the leader */
    uint64_t rival;             /* the list that a member has called with instead; 0: none ... */
    uint32_t culprit;           /* ... and the member */
    bool lacking;               /* a member has failed without the leader */
} nx_creation;

typedef struct nx_creation_ops {
    /* Sends a control frame.  |vouch|: the frame says that a rank has failed, and |to| must learn
     * of that failure first. */
    void (*send)(void *ctx, uint32_t to, bool vouch, const void *frame, size_t len);
    /* The state of |c| has changed.  Not called if the caller's own call changes it. */
    void (*changed)(void *ctx, nx_creation *c);
    /* |from| has no communicator of |key|, whose leader is gone; other members have it, and this
     * rank does not (C4). */
    void (*lacks)(void *ctx, uint32_t from, const nx_creation_key *key);
    void (*have)(void *ctx, const nx_creation_frame *f);
    /* The name of a member, for messages; |buf| has NX_CREATION_PEER bytes. */
    const char *(*name)(void *ctx, uint32_t slot, char *buf);
} nx_creation_ops;

/* |early| is borrowed.  NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_creations_create(nx_creations **out, uint32_t self, nx_early *early,
                                            const nx_creation_ops *ops, void *ctx);
/* Requires that no creation is left.  NULL is allowed. */
void nx_creations_destroy(nx_creations *cs);

/*
 * A call of this rank, which is in the list.  |c| may have its outcome on return.
 *
 * NEXAR_EINVAL
 *     A creation with this parent and tag runs here.
 * NEXAR_ENOMEM
 *     Nothing was sent.
 */
NX_MUST_CHECK nexar_err nx_creation_start(nx_creations *cs, nx_creation *c, uint64_t now_ns);
/* The leader, which is READY, has made the communicator |id|. */
void nx_creation_commit(nx_creations *cs, nx_creation *c, uint32_t id);
/* Makes |c| fail if it is not over: at the leader at once, otherwise on the verdict of the leader
 * (C1). */
void nx_creation_fail(nx_creations *cs, nx_creation *c, nexar_err err, const char *why);
/* |c| has waited for long: asks the members that it waits for.  Calls |waits_for| with each. */
void nx_creation_remind(nx_creations *cs, const nx_creation *c,
                        void (*waits_for)(void *ctx, uint32_t slot));
/* Removes |c|, which has its outcome. */
void nx_creation_end(nx_creations *cs, nx_creation *c);

/* A frame of |from|.  NEXAR_EPROTO; NEXAR_ENOMEM: the frame was lost, and this rank can notify no
 * other. */
NX_MUST_CHECK nexar_err nx_creations_frame(nx_creations *cs, uint32_t from, const void *data,
                                           size_t len, uint64_t now_ns);
/* |slot| has failed or left; this rank itself: it is out of the world. */
void nx_creations_gone(nx_creations *cs, uint32_t slot, const char *why);
/* |parent| was revoked or closed. */
void nx_creations_revoked(nx_creations *cs, uint32_t parent, const char *why);

#endif /* NX_CREATION_H */
