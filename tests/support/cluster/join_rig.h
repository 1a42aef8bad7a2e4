/*
 * join_rig.h - for tests: a seed and its joiners without a network, in virtual
 * time.  Frames lie in queues until the test delivers them, in any order among
 * connections.
 */
#ifndef NX_JOIN_RIG_H
#define NX_JOIN_RIG_H

#include "base/containers/list.h"
#include "base/random.h"
#include "cluster/join/join_state.h"
#include "cluster/seed/seed_state.h"

typedef struct rig rig;

/* A frame on its way, or with |end| the end of the connection. */
typedef struct rig_item {
    nx_list link;
    bool end, ended; /* and of the process behind it */
    size_t len;
    uint8_t data[];
} rig_item;

typedef struct rig_joiner rig_joiner;

typedef struct rig_conn {
    nx_list link;
    rig *owner;
    bool up;                /* the seed knows of it */
    nx_seed_client *client; /* NULL: the seed has closed it */
    rig_joiner *joiner;     /* NULL: a bad client's, or the joiner has gone */
    uint8_t exporter[32];
    uint64_t certified;         /* without a joiner */
    nx_list to_seed, to_joiner; /* rig_item.link */
    bool told_up;               /* the joiner knows that it is connected */
} rig_conn;

struct rig_joiner {
    nx_list link;
    rig *owner;
    nx_join_state *state;
    rig_conn *conn;
    uint64_t member;  /* adopted; 0: not yet */
    unsigned reports; /* of what it waits for; the last one */
    char last_report[NX_ERROR_ROOM];
    uint64_t missed;  /* of whom the seed has answered last; 0: of nobody */
    nx_farewell went; /* what */
    bool dead;
};

struct rig {
    nx_seed_state *seed;
    nx_seed_rules rules;
    nx_random_seeded random;
    uint64_t now;
    nx_list conns, joiners;
    unsigned events[NX_SEED_ENDED + 1];
    char last_text[NX_SEED_ENDED + 1][700]; /* of each kind */
    bool seed_lives;
    nx_seed_memory saved; /* with a view of our own */
    unsigned saves;
    bool fail_sends; /* of the seed: every one fails */
    bool refuse_csr;
    bool fail_saves;
};

void rig_init(rig *r, uint32_t world, uint64_t timeout_ns, uint64_t seed);
void rig_fini(rig *r);
/* A seed by r->rules, in place of one that was destroyed. */
void rig_seed(rig *r);

/* The seed dies, and is there again with what it has saved when rig_seed_again is
 * called. */
void rig_seed_dies(rig *r);
void rig_seed_again(rig *r);

/* What a joiner is made with, to be changed and given to rig_join. */
nx_join_rules rig_rules(const rig *r, uint32_t rank, uint64_t timeout_ns);
rig_joiner *rig_join(rig *r, const nx_join_rules *rules);
/* One with nothing changed. */
rig_joiner *rig_join_as(rig *r, uint32_t rank, uint64_t timeout_ns);
/* It has failed, for a reason with |words| in it. */
void rig_assert_failed(const rig_joiner *j, nexar_err err, const char *words);
/* Its process dies: the seed hears of it when that is delivered. */
void rig_kill(rig *r, rig_joiner *j);

/* Its connection is lost; |known|: the seed has noticed. */
void rig_cut(rig *r, rig_joiner *j, bool known);

/* A connection without a joiner, up at once. */
rig_conn *rig_connect(rig *r);
/* One with the certificate of |member|. */
rig_conn *rig_connect_as(rig *r, uint64_t member);
/* Frames of a bad client. */
void rig_send(rig_conn *c, const void *data, size_t len);
/* A hello over |c| with |token|: its length in |buf|, NX_HELLO_MAX bytes. */
size_t rig_hello(const rig_conn *c, const nx_token *token, uint32_t rank, uint8_t *buf);

/* Delivers one thing, chosen at random; false: there is none. */
bool rig_step(rig *r);
/* Delivers all there is. */
void rig_run(rig *r);
/* Moves time to the next thing that is due, at most to |limit|; false: to that. */
bool rig_advance(rig *r, uint64_t limit);
/* Both, until |limit|. */
void rig_run_until(rig *r, uint64_t limit);

/* The first frame that lies in the queue to a bad client, of type |type|. */
const rig_item *rig_find(const rig_conn *c, nx_join_frame type);
/* How many of them lie there. */
unsigned rig_count(const rig_conn *c, nx_join_frame type);
bool rig_is_closed(const rig_conn *c);

#endif /* NX_JOIN_RIG_H */
