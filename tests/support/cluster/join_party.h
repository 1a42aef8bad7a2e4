/*
 * join_party.h - for tests: a seed and ranks over the loopback; each rank is a thread with its
 * own loop.
 */
#ifndef NX_JOIN_PARTY_H
#define NX_JOIN_PARTY_H

#include <pthread.h>

#include "cluster/join/join.h"
#include "cluster/seed/seed.h"

#define PARTY_MS     UINT64_C(1000000)
#define PARTY_SECOND UINT64_C(1000000000)
/* Time limit for expected events, on a loaded machine under a sanitizer. */
#define PARTY_PATIENCE (60 * PARTY_SECOND)

enum { PARTY_MAX = 64 };

typedef struct party party;

typedef struct party_rank {
    party *owner;
    pthread_t thread;
    nx_join_config config;
    char join[NX_JOIN_STRING_MAX];

    nexar_err err;
    char text[NX_ERROR_ROOM];
    uint64_t took_ns;
    nx_loop *loop;
    nx_join *j; /* NULL: it has not joined */
    unsigned views;
    nx_event seed_gone; /* for a test's on_seed */
    bool drive;         /* its loop keeps running after joining */
    /* The last notifications, under the party's lock. */
    uint32_t waiting;
    uint64_t started;
    unsigned seed_lost, seed_back;
} party_rank;

struct party {
    nx_seed *seed;
    nx_seed_config config;
    char join[NX_JOIN_STRING_MAX];
    party_rank ranks[PARTY_MAX];
    size_t n;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned events[NX_SEED_ENDED + 1];
    char last_text[NX_SEED_ENDED + 1][700];
};

/* A seed at 127.0.0.1, or at |listen|, for |world| ranks. */
void party_begin(party *p, uint32_t world, const char *listen, uint64_t timeout_ns);
/* Replaces the seed by a persistent one with its state in |path|; |p| has no ranks yet. */
void party_last(party *p, const char *path);
/* Ends the seed as if killed, and starts another in its place. */
void party_seed_dies(party *p);
void party_seed_again(party *p);
/* Ends the party; all ranks have left. */
void party_end(party *p);

/* Adds a rank that will join; its config may be changed before party_start. */
party_rank *party_add(party *p, uint32_t rank);
void party_start(party_rank *r);
/* Waits until |r| has joined or failed. */
void party_finish(party_rank *r);
/* Starts and finishes all ranks; asserts that all have joined with equal views. */
void party_form(party *p);

/* Waits until |r|, which is driven, was notified that |n| joiners wait; that |epoch| has
 * started; that the seed is back for the |n|th time. */
void party_wait_waiting(party_rank *r, uint32_t n);
void party_wait_started(party_rank *r, uint64_t epoch);
void party_wait_back(party_rank *r, unsigned n);
/* All ranks, |members|, admit the waiting joiners. */
void party_let_in(party_rank *const *members, size_t n);
/* Asserts that both ranks have the same view. */
void party_assert_same(const party_rank *a, const party_rank *b);

/* Leaves, with a farewell if |bye|, and frees everything. */
void party_leave(party_rank *r, bool bye);

/* Waits until event |kind| has occurred |n| times. */
void party_wait_event(party *p, nx_seed_event_kind kind, unsigned n);
unsigned party_events(party *p, nx_seed_event_kind kind);
/* Whether the last line of |kind| contains |words|. */
bool party_said(party *p, nx_seed_event_kind kind, const char *words);

void party_assert_failed(const party_rank *r, nexar_err err, const char *words);

/* The one address of the seed. */
struct sockaddr_storage party_address(const party *p);

#endif /* NX_JOIN_PARTY_H */
