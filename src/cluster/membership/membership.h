/*
 * membership.h - the life of every slot of a world, with reason, source and time: (state, event,
 * now) -> actions; no sockets, no clock, no threads.
 *
 *      unknown ---> alive ---> suspect ---> left ---> failed
 *                     |           |          |          ^
 *                     +-----------+----------+----------+
 *
 * A slot that has not been given out is unknown.  It is alive from the view that names it.  It is
 * suspect while something speaks against it, and what needs it waits for the verdict: left or
 * failed.  A rank that cannot be found may be *presumed* to have left; it may still turn out to
 * have failed.  Nothing else ends a state.
 *
 * Every detector reports events here: the end of a process or a link, the refusal by a host, the
 * failure detector, the reliable broadcast, the seed, consensus.  Everything that reacts is a
 * subscriber.
 *
 * Invariants
 *  M1  This machine is the only writer of the state.  Every other module queries it.
 *  M2  A slot moves along the arrows above, never back, and keeps the first reason for a state.
 *  M3  nx_membership_report records at once and notifies no subscriber.  nx_membership_notify
 *      notifies the subscribers.  What a subscriber ends is therefore never seen before the
 *      state that explains it: no call returns an error that names a failed rank before
 *      nexar_comm_failed includes it.
 *  M4  All subscribers are notified of one slot, in the order of the table, before any of them is
 *      notified of the next slot.  Each is notified of a failure exactly once, and of a departure
 *      at most once.
 *  M5  A rank that was itself declared failed records nothing more: it is not heard, and what it
 *      finds out is an effect of that.  It is notified of its own failure first, and of no other.
 *  M6  A failure in a slot that is unknown here is kept until the slot is known.
 *
 * cluster/membership/membership_test.c tests them, docs/internals/model/membership.pml is their
 * model.
 */
#ifndef NX_MEMBERSHIP_H
#define NX_MEMBERSHIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "cluster/rankset.h"

typedef enum nx_life {
    NX_LIFE_UNKNOWN,
    NX_LIFE_ALIVE,
    NX_LIFE_SUSPECT,
    NX_LIFE_LEFT,
    NX_LIFE_FAILED
} nx_life;

/* What has reported an event. */
typedef enum nx_life_source {
    NX_SOURCE_NONE,
    NX_SOURCE_PROCESS,   /* the kernel: the process has ended */
    NX_SOURCE_LINK,      /* the link has ended, or the host refuses one */
    NX_SOURCE_HEARTBEAT, /* the failure detector */
    NX_SOURCE_BROADCAST, /* another rank */
    NX_SOURCE_SEED,      /* the seed, or that it does not answer */
    NX_SOURCE_CONSENSUS, /* an agreement, or one that is running */
    NX_SOURCE_VERDICT,   /* a rank that declares this one failed */
    NX_SOURCE_SELF       /* this rank, which gives up */
} nx_life_source;

typedef struct nx_life_event {
    uint32_t slot;
    nx_life life; /* suspect, left or failed */
    nx_life_source source;
    bool presumed;   /* left: it may have failed */
    const char *why; /* why, without a subject; NULL: unknown */
} nx_life_event;

typedef struct nx_life_record {
    nx_life life;
    nx_life_source source;
    bool presumed;
    uint64_t since_ns;
    uint64_t number; /* of the event: later ones have higher numbers */
    char *why;       /* NULL: none was given, or there was no memory for it */
} nx_life_record;

/* A row of the table of subscribers: what it does for each state; NULL: nothing. */
typedef struct nx_life_subscriber {
    const char *name;
    void (*on_suspect)(void *ctx, uint32_t slot);
    void (*on_left)(void *ctx, uint32_t slot);
    void (*on_failed)(void *ctx, uint32_t slot);
} nx_life_subscriber;

typedef struct nx_membership_config {
    uint32_t slots, self;
    const nx_life_subscriber *subscribers; /* borrowed */
    size_t nsubscribers;
    void (*on_expelled)(void *ctx); /* this rank was declared failed */
    void (*on_due)(void *ctx);      /* nx_membership_notify is to be called soon */
    void *ctx;
} nx_membership_config;

typedef struct nx_membership nx_membership;

/* All slots begin alive.  NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_membership_create(nx_membership **out,
                                             const nx_membership_config *config);
void nx_membership_destroy(nx_membership *m);
/* From now on nothing is recorded and no subscriber is notified. */
void nx_membership_close(nx_membership *m);

/* Sets the number of slots to |slots|, not less than now; new slots are alive. NEXAR_ENOMEM:
 * nothing has changed. */
NX_MUST_CHECK nexar_err nx_membership_grow(nx_membership *m, uint32_t slots);
/* Call after nx_membership_grow, when slots that the view does not name are retired: records the
 * kept events (M6). */
void nx_membership_replay(nx_membership *m, uint64_t now_ns);
/* The view does not name |slot| any more: the rank has left, unless it has failed.  No subscriber
 * is notified.  Returns whether |slot| was alive or suspect before. */
bool nx_membership_retire(nx_membership *m, uint32_t slot);
/* The reason for the state of |slot| is no longer needed. */
void nx_membership_forget_why(nx_membership *m, uint32_t slot);

/* Records |event|; false: it changes nothing (M2, M5). */
bool nx_membership_report(nx_membership *m, const nx_life_event *event, uint64_t now_ns);
/* Notifies the subscribers of everything that was recorded, including events recorded meanwhile.
 * Not from inside a callback of msg. */
void nx_membership_notify(nx_membership *m);

/* The record of |slot|, valid until the next event; of an unknown one, NX_LIFE_UNKNOWN. */
const nx_life_record *nx_membership_of(const nx_membership *m, uint32_t slot);
static inline nx_life nx_membership_life(const nx_membership *m, uint32_t slot)
{
    return nx_membership_of(m, slot)->life;
}
/* Whether |slot| has left or failed, and all subscribers were notified. */
bool nx_membership_settled(const nx_membership *m, uint32_t slot);
/* The slots that have left or failed, and this rank's own slot: frames to these are not needed. */
const nx_rankset *nx_membership_gone(const nx_membership *m);
/* How many slots have failed. */
uint32_t nx_membership_failures(const nx_membership *m);
/* This rank was declared failed, and was notified. */
bool nx_membership_expelled(const nx_membership *m);

#endif /* NX_MEMBERSHIP_H */
