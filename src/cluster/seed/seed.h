/*
 * seed.h - the seed: admits those who hold the token, signs their certificates,
 * hands out ranks, tells everybody who is there and who is missing.
 *
 * seed_state.h is the protocol: (state, event, now) -> actions, no sockets, no
 * clock, no threads.  This is the seed as a running thing: an endpoint and a
 * thread of its own around that state.
 *
 * The seed outlives any client: one that shows a wrong proof, garbage, another
 * version, or nothing at all for 10 s is refused with a reason in the log, and
 * told it where that is safe; the others notice nothing.
 */
#ifndef NX_SEED_H
#define NX_SEED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cluster/join/join_string.h"
#include "cluster/view.h"

typedef struct nx_seed nx_seed;

typedef enum nx_seed_event_kind {
    NX_SEED_JOINED,  /* |member| was admitted; joined of world have */
    NX_SEED_FORMED,  /* all are there, the view has gone out */
    NX_SEED_LEFT,    /* |member| has said good-bye */
    NX_SEED_LOST,    /* its connection is gone without */
    NX_SEED_REFUSED, /* somebody was turned away: |text| says who and why */
    NX_SEED_TIMEOUT, /* formation: |text| names the missing */
    NX_SEED_STALLED, /* the same before the time-out, after |stall_report_ns| */
    NX_SEED_WAITING, /* |member| was admitted, and waits for the world to let it in */
    NX_SEED_CHANGED, /* the world's members have agreed on a new view */
    NX_SEED_BACK,    /* |member|, whose connection was lost, is here again */
    NX_SEED_ENDED    /* the last member has gone */
} nx_seed_event_kind;

typedef struct nx_seed_event {
    nx_seed_event_kind kind;
    const nx_member *member; /* may be NULL */
    uint32_t joined, world;
    const char *text; /* one line for people */
} nx_seed_event;

typedef struct nx_seed_config {
    uint32_t world_size;
    uint32_t min_world;     /* so many form the world at the time-out; 0: all must */
    const char *listen;     /* "" or host[:port] */
    const char *interfaces; /* as in addresses.h */
    const char *advertise;
    uint16_t port_first, port_last;
    uint64_t formation_timeout_ns; /* from the first joiner on; 0: never */
    uint64_t stall_report_ns;      /* the setting; 0: no NX_SEED_STALLED */
    bool keep;                     /* when a world has ended, form the next */
    /* The world forms of those who ask for a rank, whom the launcher has started: who comes by
     * the join string and asks for none takes no place of theirs, and waits. */
    bool ranked;
    /* The file of a seed that lasts (seed_file.h): if it is there, this seed goes on
     * where the last one ended, with its key, token and port.  NULL or "": none. */
    const char *state;
    /* |token| is what joiners must hold: they have it from elsewhere, and the join string lacks
     * it.  Otherwise there is a new one, in the join string. */
    bool has_token;
    nx_token token;
    const char *qlog_dir;
    /* From the seed's thread, one at a time; not to destroy the seed from.  May be
     * NULL. */
    void (*on_event)(void *ctx, const nx_seed_event *event);
    void *ctx;
} nx_seed_config;

/* The strings of |config| are borrowed until the call returns.
 * NEXAR_EINVAL, NEXAR_ESYS (address in use: names it), NEXAR_ENOMEM; for the state as
 * nx_seed_file_read, and NEXAR_EINVAL if it is of another world size or
 * token. */
NX_MUST_CHECK nexar_err nx_seed_create(nx_seed **out, const nx_seed_config *config);
/* Ends at once: members run on without it, and come back to one that lasts. */
void nx_seed_destroy(nx_seed *seed);

/* Writes who has joined and who is missing, one line, and returns true, if the world has not
 * formed.  Any thread but the seed's own. */
bool nx_seed_situation(nx_seed *seed, char *text, size_t size);

NX_MUST_CHECK nexar_err nx_seed_join_text(const nx_seed *seed, char *buf, size_t size);

/* Waits until the job has ended (all members that formed the world have gone),
 * |*ended| true, or |timeout_ns| has passed (UINT64_MAX: never).  A seed that is
 * kept does not end. */
NX_MUST_CHECK nexar_err nx_seed_wait(nx_seed *seed, uint64_t timeout_ns, bool *ended);

#endif /* NX_SEED_H */
