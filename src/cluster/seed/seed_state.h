/*
 * seed_state.h - the seed's side of joining: (state, event, now) -> actions; no sockets, no clock,
 * no threads.
 *
 * A connection is a client once it is up. It has 10 s for a HELLO with the proof of the token;
 * before that the seed sends it nothing and reads nothing else. Then it is a member with a unique
 * number. When all are there, the seed offers each the view, piece by piece on request. When all
 * hold it, START follows, and only then has the world formed. If a member is lost before, its place
 * becomes free, the offer is void, and the others wait again.
 *
 * Later joiners are admitted and wait; the seed notifies the members. The members decide: when they
 * report that they have advanced to another view, the seed follows, and offers that view to the new
 * members.  It sends START when these hold the view and the others have reported the same. The seed
 * asks a member for views that it has missed.
 *
 * A member that has lost its connection comes back with RETURN, identified by the certificate of
 * the connection. The job has ended when all members have left, or none was connected for a while.
 *
 * Actions are calls to nx_seed_ops, made from inside the events; none of them may call back.
 */
#ifndef NX_SEED_STATE_H
#define NX_SEED_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "cluster/join/join_string.h"
#include "cluster/seed/seed.h"
#include "cluster/view.h"

enum {
    /* Connections without HELLO: above this number the oldest is rejected, since a correct client
     * sends HELLO at once. */
    NX_SEED_PENDING_MAX = 4096
};
#define NX_SEED_HELLO_TIMEOUT_NS UINT64_C(10000000000)
/* Time for each piece of a view that a member was asked for. */
#define NX_SEED_ASK_TIMEOUT_NS UINT64_C(10000000000)
/* Grace period without any connected member, unless all have certainly left: a member notices the
 * loss within 10 s and dials again within 10 s. */
#define NX_SEED_RETURN_NS UINT64_C(30000000000)

typedef struct nx_seed_state nx_seed_state;
typedef struct nx_seed_client nx_seed_client;

typedef struct nx_seed_rules {
    uint32_t world_size;           /* 1 .. NX_WORLD_MAX */
    uint32_t min_world;            /* this many form the world at the time-out; 0: all must */
    uint64_t formation_timeout_ns; /* from the first member on; 0: never */
    /* Time after the first member until NX_SEED_STALLED, then doubled each time; 0: never. */
    uint64_t stall_report_ns;
    bool keep;    /* form another world when one has ended */
    bool ranked;  /* it forms of processes that request a rank; others wait until then */
    bool lasting; /* its memory outlives it: see `save` */
    nx_token token;
    nx_job_id job;
    const nx_der *authority; /* its certificate: borrowed while the state lives */
} nx_seed_rules;

typedef struct nx_seed_ops {
    /* Sends a frame; an error means that the connection is unusable. */
    nexar_err (*send)(void *ctx, void *conn, const void *frame, size_t len);
    /* Closes it after sending what is queued; no event for it follows. */
    void (*close)(void *ctx, void *conn);
    /* nx_authority_sign, with the errors of that. */
    nexar_err (*sign)(void *ctx, const nx_der *csr, uint64_t member, nx_der *cert);
    void (*notify)(void *ctx, const nx_seed_event *event);
    /* nx_seed_state_memory has changed and must be saved before what follows. Called if the rules
     * say lasting.  An error: not saved; then no number is assigned that a restarted seed might
     * assign again. */
    nexar_err (*save)(void *ctx);
} nx_seed_ops;

/* What a seed must remember to resume. (Waiting joiners, and members of a forming world, reconnect
 * and introduce themselves.) */
typedef struct nx_seed_memory {
    uint64_t member_limit; /* no member number at or above it was given out */
    uint64_t epoch;        /* of the last view offered or learned */
    const nx_view *view;   /* of the formed world; NULL: none */
} nx_seed_memory;

/* |ops| and |ctx| are borrowed for the state's lifetime.  NEXAR_EINVAL: the size; NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_seed_state_create(nx_seed_state **out, const nx_seed_rules *rules,
                                             const nx_seed_ops *ops, void *ctx);
/* |view| is the state's. */
void nx_seed_state_memory(const nx_seed_state *s, nx_seed_memory *memory);
/* Resumes from |memory|; before any other event. Copies the view. NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_seed_state_restore(nx_seed_state *s, const nx_seed_memory *memory,
                                              uint64_t now_ns);
/* Closes no connection. */
void nx_seed_state_destroy(nx_seed_state *s);

/*
 * A connection is up; |*out| identifies it in other events, until the event `closed` or the action
 * `close`.  NEXAR_ENOMEM: the caller closes it.
 */
typedef struct nx_seed_caller {
    void *conn;          /* the caller's name for it */
    const char *address; /* for people */
    uint8_t exporter[32];
    uint64_t certified; /* the member that its certificate names; 0: no certificate */
} nx_seed_caller;
NX_MUST_CHECK nexar_err nx_seed_state_connected(nx_seed_state *s, const nx_seed_caller *caller,
                                                uint64_t now_ns, nx_seed_client **out);
/* A frame of the control lane, borrowed. */
void nx_seed_state_frame(nx_seed_state *s, nx_seed_client *c, const void *data, size_t len,
                         uint64_t now_ns);
/* It has violated the protocol, as |what| says: it is rejected. */
void nx_seed_state_misbehaved(nx_seed_state *s, nx_seed_client *c, const char *what,
                              uint64_t now_ns);
/* |ended|: the process behind the connection has exited, too. */
void nx_seed_state_closed(nx_seed_state *s, nx_seed_client *c, bool ended, const char *why,
                          uint64_t now_ns);

/* When nx_seed_state_tick is due; UINT64_MAX: not before another event. */
uint64_t nx_seed_state_due(const nx_seed_state *s);
void nx_seed_state_tick(nx_seed_state *s, uint64_t now_ns);

/* If the world is forming: writes which ranks have joined and which are missing, and returns
 * true. */
bool nx_seed_state_situation(const nx_seed_state *s, char *text, size_t size);

/* Whether the world has formed; whether it has ended. */
bool nx_seed_state_formed(const nx_seed_state *s);
bool nx_seed_state_ended(const nx_seed_state *s);

#endif /* NX_SEED_STATE_H */
