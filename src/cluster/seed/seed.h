/*
 * seed.h - the seed: admits processes that hold the token, signs their certificates, assigns ranks,
 * and distributes the membership.
 *
 * seed_state.h is the protocol: (state, event, now) -> actions, no sockets, no clock, no threads.
 * This is the running seed: an endpoint and a thread around that state.
 *
 * No client can disturb the seed: one that sends a wrong proof, garbage, another version, or
 * nothing for 10 s is rejected with a reason in the log.  The seed notifies it where that is
 * safe. Other clients are unaffected.
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
    NX_SEED_FORMED,  /* all are there, the view was sent */
    NX_SEED_LEFT,    /* |member| has said goodbye */
    NX_SEED_LOST,    /* its connection was lost without a goodbye */
    NX_SEED_REFUSED, /* a process was rejected: |text| names it and the reason */
    NX_SEED_TIMEOUT, /* formation: |text| names the missing */
    NX_SEED_STALLED, /* the same before the time-out, after |stall_report_ns| */
    NX_SEED_WAITING, /* |member| was admitted, and waits for the world to let it in */
    NX_SEED_CHANGED, /* the world's members have agreed on a new view */
    NX_SEED_BACK,    /* |member|, whose connection was lost, is back */
    NX_SEED_ENDED    /* the last member has left */
} nx_seed_event_kind;

typedef struct nx_seed_event {
    nx_seed_event_kind kind;
    const nx_member *member; /* may be NULL */
    uint32_t joined, world;
    const char *text; /* one line for people */
} nx_seed_event;

typedef struct nx_seed_config {
    uint32_t world_size;
    uint32_t min_world;     /* this many form the world at the time-out; 0: all must */
    const char *listen;     /* "" or host[:port] */
    const char *interfaces; /* as in addresses.h */
    const char *advertise;
    uint16_t port_first, port_last;
    uint64_t formation_timeout_ns; /* from the first joiner on; 0: never */
    uint64_t stall_report_ns;      /* the setting; 0: no NX_SEED_STALLED */
    bool keep;                     /* when a world has ended, form the next */
    /* The world forms of processes that request a rank, started by the launcher. A process with the
     * join string and no rank takes none of their places, and waits. */
    bool ranked;
    /* The state file of a lasting seed (seed_file.h). If it exists, this seed resumes where the
     * last one ended, with its key, token and port. NULL or "": none. */
    const char *state;
    /* |token| is what joiners must prove; they get it elsewhere, and the join string omits it.
     * Otherwise a new one is made, and is in the join string. */
    bool has_token;
    nx_token token;
    /* The private key that signs certificates, as PEM; NULL: a new one, or that of |state|, from
     * which |key| must not differ. */
    const char *key;
    size_t key_len;
    const char *qlog_dir;
    /* From the seed's thread, one at a time; must not destroy the seed. May be NULL. */
    void (*on_event)(void *ctx, const nx_seed_event *event);
    void *ctx;
} nx_seed_config;

/* Logs |event|, as a seed without |on_event| does. */
void nx_seed_log(const nx_seed_event *event);

/* The strings of |config| are borrowed until the call returns. NEXAR_EINVAL, NEXAR_ESYS (address in
 * use: names it), NEXAR_ENOMEM; for the state file as nx_seed_file_read, and NEXAR_EINVAL if it has
 * another world size or token. */
NX_MUST_CHECK nexar_err nx_seed_create(nx_seed **out, const nx_seed_config *config);
/* Ends at once: members continue without it, and reconnect to a lasting one. */
void nx_seed_destroy(nx_seed *seed);

/* If the world has not formed, writes which ranks have joined and which are missing, one line, and
 * returns true. Any thread but the seed's own. */
bool nx_seed_situation(nx_seed *seed, char *text, size_t size);

NX_MUST_CHECK nexar_err nx_seed_join_text(const nx_seed *seed, char *buf, size_t size);

/* Waits until the job has ended (all members that formed the world have left), |*ended| true, or
 * |timeout_ns| has passed (UINT64_MAX: never). A seed with `keep` does not end. */
NX_MUST_CHECK nexar_err nx_seed_wait(nx_seed *seed, uint64_t timeout_ns, bool *ended);

#endif /* NX_SEED_H */
