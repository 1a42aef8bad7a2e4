/*
 * seed_state.h - the seed's side of joining: (state, event, now) -> actions; no
 * sockets, no clock, no threads.
 *
 * A connection is a client once it is up.  It has 10 s for a HELLO that shows the
 * proof of the token, and is told nothing and read no further before.  Then it is
 * a member with a number of its own.  When all are there, the seed offers
 * everybody the view, piece by piece as it is asked for; when all hold it, START
 * says so, and only then has the world formed: a member that is lost before frees
 * its place, the offer is void, and the others go on waiting.
 *
 * Who comes later is admitted and waits; the members are told of it.  They decide:
 * when they say that they have gone on to another view, the seed follows, offers
 * that view to those who are new in it, and says START when they hold it and the
 * others have said the same.  What the seed has missed it asks a member for.
 *
 * A member that has lost its connection comes back with RETURN, and is known by
 * the certificate of the connection.  The job has ended when all members have
 * left, or nobody has been here for a while.
 *
 * Actions are calls to nx_seed_ops, made from inside the events; none of them may
 * call back.
 */
#ifndef NX_SEED_STATE_H
#define NX_SEED_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "cluster/join/join_string.h"
#include "cluster/seed/seed.h"
#include "cluster/view.h"

enum {
    /* Connections without a hello: above this the oldest is turned away, since
     * who is honest says hello at once. */
    NX_SEED_PENDING_MAX = 4096
};
#define NX_SEED_HELLO_TIMEOUT_NS UINT64_C(10000000000)
/* A member that was asked for its view has so long for each piece. */
#define NX_SEED_ASK_TIMEOUT_NS UINT64_C(10000000000)
/* With no member here, and not all of them gone for certain: a member notices the
 * loss after 10 s at most and dials again within 10 s. */
#define NX_SEED_RETURN_NS UINT64_C(30000000000)

typedef struct nx_seed_state nx_seed_state;
typedef struct nx_seed_client nx_seed_client;

typedef struct nx_seed_rules {
    uint32_t world_size;           /* 1 .. NX_WORLD_MAX */
    uint32_t min_world;            /* so many form the world at the time-out; 0: all must */
    uint64_t formation_timeout_ns; /* from the first member on; 0: never */
    /* From the first member on: then NX_SEED_STALLED is told, after twice that again, and so on;
     * 0: never. */
    uint64_t stall_report_ns;
    bool keep;    /* form another world when one has ended */
    bool ranked;  /* it forms of those who ask for a rank; others wait until then */
    bool lasting; /* its memory outlives it: see `save` */
    nx_token token;
    nx_job_id job;
    const nx_der *authority; /* its certificate: borrowed while the state lives */
} nx_seed_rules;

typedef struct nx_seed_ops {
    /* Sends a frame; an error means that the connection is of no use any more. */
    nexar_err (*send)(void *ctx, void *conn, const void *frame, size_t len);
    /* Ends it after what was sent; no event for it follows. */
    void (*close)(void *ctx, void *conn);
    /* nx_authority_sign, with the errors of that. */
    nexar_err (*sign)(void *ctx, const nx_der *csr, uint64_t member, nx_der *cert);
    void (*notify)(void *ctx, const nx_seed_event *event);
    /* nx_seed_state_memory has changed, and what follows is to be done only when it
     * is safe.  Called if the rules say lasting.  An error: it is not; nobody is given a
     * number that a seed after this one might give out again. */
    nexar_err (*save)(void *ctx);
} nx_seed_ops;

/* What a seed must remember to go on where another one ended.  (Who waits, and who
 * was about to form a world, comes back and says so himself.) */
typedef struct nx_seed_memory {
    uint64_t member_limit; /* no member number at or above it was given out */
    uint64_t epoch;        /* of the last view that was offered or learnt */
    const nx_view *view;   /* of the world that has formed; NULL: none has */
} nx_seed_memory;

/* |ops| and |ctx| are borrowed while the state lives.  NEXAR_EINVAL: the size;
 * NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_seed_state_create(nx_seed_state **out, const nx_seed_rules *rules,
                                             const nx_seed_ops *ops, void *ctx);
/* |view| is the state's. */
void nx_seed_state_memory(const nx_seed_state *s, nx_seed_memory *memory);
/* Goes on where |memory| ends; before any other event.  Takes a copy of the view.
 * NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_seed_state_restore(nx_seed_state *s, const nx_seed_memory *memory,
                                              uint64_t now_ns);
/* Closes no connection. */
void nx_seed_state_destroy(nx_seed_state *s);

/*
 * A connection has come up; |*out| is what the other events name it by, until the
 * event `closed` or the action `close`.  NEXAR_ENOMEM: the caller closes it.
 */
typedef struct nx_seed_caller {
    void *conn;          /* the caller's name for it */
    const char *address; /* for people */
    uint8_t exporter[32];
    uint64_t certified; /* the member that its certificate names; 0: it showed none */
} nx_seed_caller;
NX_MUST_CHECK nexar_err nx_seed_state_connected(nx_seed_state *s, const nx_seed_caller *caller,
                                                uint64_t now_ns, nx_seed_client **out);
/* A frame of the control lane, borrowed. */
void nx_seed_state_frame(nx_seed_state *s, nx_seed_client *c, const void *data, size_t len,
                         uint64_t now_ns);
/* It has sent what no joiner sends, as |what| says: it is turned away. */
void nx_seed_state_misbehaved(nx_seed_state *s, nx_seed_client *c, const char *what,
                              uint64_t now_ns);
/* |ended|: not only the connection has gone, but the process behind it. */
void nx_seed_state_closed(nx_seed_state *s, nx_seed_client *c, bool ended, const char *why,
                          uint64_t now_ns);

/* When nx_seed_state_tick is wanted; UINT64_MAX: not before another event. */
uint64_t nx_seed_state_due(const nx_seed_state *s);
void nx_seed_state_tick(nx_seed_state *s, uint64_t now_ns);

/* Writes who has joined and who is missing, and returns true, if the world is forming. */
bool nx_seed_state_situation(const nx_seed_state *s, char *text, size_t size);

/* Whether the world has formed; whether it has ended for good. */
bool nx_seed_state_formed(const nx_seed_state *s);
bool nx_seed_state_ended(const nx_seed_state *s);

#endif /* NX_SEED_STATE_H */
