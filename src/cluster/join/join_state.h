/*
 * join_state.h - the joiner's side of joining: (state, event, now) -> actions; no sockets, no
 * clock, no threads.
 *
 * Dials the seed until it answers, sends HELLO, stores its certificate, waits for the view and for
 * START. An unreachable seed is retried until the deadline; a rejection is final.
 *
 * A member that has lost the seed dials it again, as long as it lives, and receives the waiting
 * joiners anew. So does a joiner of a lasting seed, until its deadline. Only a seed that has exited
 * and is not lasting is not retried.
 *
 * Actions are calls to nx_join_ops, made from inside the events; none of them may call back.
 */
#ifndef NX_JOIN_STATE_H
#define NX_JOIN_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/random.h"
#include "cluster/join/frames.h"
#include "cluster/join/join_string.h"
#include "cluster/join_queue.h"
#include "cluster/view.h"

typedef enum nx_join_phase {
    NX_JOIN_DIALLING, /* no connection; an attempt runs or will be made */
    NX_JOIN_GREETED,  /* connected, hello sent */
    NX_JOIN_WAITING,  /* a member; others are missing */
    NX_JOIN_OFFERED,  /* the view has arrived here, not yet everywhere */
    NX_JOIN_FORMED,   /* START has arrived: nx_join_state_view */
    NX_JOIN_LEAVING,  /* BYE was sent */
    NX_JOIN_GONE,     /* after FORMED: the seed is permanently lost */
    NX_JOIN_FAILED    /* nx_join_state_error */
} nx_join_phase;

typedef struct nx_join_rules {
    nx_token token;
    nx_hello hello;
    nx_der csr;
    const char *seed;        /* its addresses, for people: borrowed while the state lives */
    uint64_t timeout_ns;     /* 0: never */
    uint64_t report_ns;      /* time outside of a world until |report|, then doubled each time; 0:
                                never */
    const nx_random *random; /* borrowed too: so that not all dial again at once */
    const char *launcher;    /* also borrowed, or NULL: the variable of hello.hinted */
} nx_join_rules;

typedef struct nx_join_ops {
    /* Begins to connect; `connected` or `closed` follows. */
    void (*dial)(void *ctx);
    /* Sends a frame; if it cannot, `closed` follows. */
    void (*send)(void *ctx, const void *frame, size_t len);
    /* Adopts the identity of |welcome| after checking the certificate. NEXAR_EAUTH and others: the
     * join fails with that. */
    nexar_err (*adopt)(void *ctx, const nx_welcome *welcome);
    /* What this process still waits for, one line. Only called if the rules have |report_ns|. */
    void (*report)(void *ctx, const char *text);
    /* The answer to nx_join_state_missed. */
    void (*farewell)(void *ctx, uint64_t member, nx_farewell how);
} nx_join_ops;

typedef struct nx_join_state nx_join_state;

/* Dials at once. |ops| and |ctx| are borrowed for the state's lifetime. NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_join_state_create(nx_join_state **out, const nx_join_rules *rules,
                                             const nx_join_ops *ops, void *ctx, uint64_t now_ns);
void nx_join_state_destroy(nx_join_state *s);

void nx_join_state_connected(nx_join_state *s, const uint8_t exporter[32], uint64_t now_ns);
void nx_join_state_frame(nx_join_state *s, const void *data, size_t len, uint64_t now_ns);
/* The connection, or the attempt, has ended; |ended|: so has the seed's process. */
void nx_join_state_closed(nx_join_state *s, nexar_err err, bool ended, const char *why,
                          uint64_t now_ns);
/* The attempt has ended, and no host has answered at any address of the seed: a joiner for which
 * there is a time-out fails after a few seconds of this, and otherwise it tries again. */
void nx_join_state_unreached(nx_join_state *s, const char *why, uint64_t now_ns);
/* Member |id| has connected, which none does before START: if this process holds the view, its
 * START is in flight and the world has formed. Returns whether |id| is in that world. */
bool nx_join_state_peer(nx_join_state *s, uint64_t id);
/* Sends BYE. */
void nx_join_state_leave(nx_join_state *s);

/* When nx_join_state_tick is due; UINT64_MAX: not before another event. */
uint64_t nx_join_state_due(const nx_join_state *s);
void nx_join_state_tick(nx_join_state *s, uint64_t now_ns);

nx_join_phase nx_join_state_phase(const nx_join_state *s);
/* Whether there is an authenticated connection to the seed. */
bool nx_join_state_there(const nx_join_state *s);
/* Whether the connection must be closed; the next one is dialled later. */
bool nx_join_state_hung_up(const nx_join_state *s);
/* The error of a join that has FAILED, or why the seed is away; |*text| belongs to the state. */
nexar_err nx_join_state_error(const nx_join_state *s, const char **text);
/* The view; NULL before FORMED. |*rank| is the own rank. */
const nx_view *nx_join_state_view(const nx_join_state *s, uint32_t *rank);

/* How many others are or will be in the world, as far as known: by the view from OFFERED on, before
 * that by the seed's report; 0: none yet. */
uint32_t nx_join_state_peers(const nx_join_state *s);

/* The joiners that wait at the seed, owned by the state. Empty while the seed is away. */
const nx_join_queue *nx_join_state_waiting(const nx_join_state *s);
/* The epoch of the last START. */
uint64_t nx_join_state_started(const nx_join_state *s);
/* As nx_join_advance. */
NX_MUST_CHECK nexar_err nx_join_state_advance(nx_join_state *s, const nx_rankset *gone,
                                              const nx_member *joined, uint32_t n, uint32_t world);
/* This member has waited for START long enough: the seed must not wait for other joiners any
 * more. */
void nx_join_state_urge(nx_join_state *s);
/* As nx_join_missed. */
bool nx_join_state_missed(nx_join_state *s, uint64_t member, bool ended);

#endif /* NX_JOIN_STATE_H */
