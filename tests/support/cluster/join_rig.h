/*
 * join_rig.h - for tests: a seed and its joiners without a network, in virtual time. Frames stay
 * in queues until the test delivers them, in any order among connections.
 */
#ifndef NX_JOIN_RIG_H
#define NX_JOIN_RIG_H

#include "base/containers/list.h"
#include "base/random.h"
#include "cluster/join/join_state.h"
#include "cluster/seed/seed_state.h"

typedef struct rig rig;

/* A frame in flight, or with |end| the end of the connection. */
typedef struct rig_item {
    nx_list link;
    bool end, ended; /* the end of the process, too */
    size_t len;
    uint8_t data[];
} rig_item;

typedef struct rig_joiner rig_joiner;

typedef struct rig_conn {
    nx_list link;
    rig *owner;
    bool up;                /* the seed knows the connection */
    nx_seed_client *client; /* NULL: the seed has closed it */
    rig_joiner *joiner;     /* NULL: a bad client, or the joiner has gone */
    uint8_t exporter[32];
    uint64_t certified;         /* without a joiner */
    nx_list to_seed, to_joiner; /* rig_item.link */
    bool told_up;               /* the joiner was notified that it is connected */
} rig_conn;

struct rig_joiner {
    nx_list link;
    rig *owner;
    nx_join_state *state;
    rig_conn *conn;
    uint64_t member;  /* adopted; 0: not yet */
    unsigned reports; /* reports about what it waits for; the last one */
    char last_report[NX_ERROR_ROOM];
    uint64_t missed;  /* the rank in the seed's last answer; 0: none */
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
    char last_text[NX_SEED_ENDED + 1][700]; /* events of each kind */
    bool seed_lives;
    nx_seed_memory saved; /* with its own view */
    unsigned saves;
    bool fail_sends; /* every save of the seed fails */
    bool refuse_csr;
    bool fail_saves;
};

void rig_init(rig *r, uint32_t world, uint64_t timeout_ns, uint64_t seed);
void rig_fini(rig *r);
/* Creates a seed with r->rules in place of a destroyed one. */
void rig_seed(rig *r);

/* The seed dies. rig_seed_again restarts it from its saved state. */
void rig_seed_dies(rig *r);
void rig_seed_again(rig *r);

/* The rules of a joiner, to be modified and passed to rig_join. */
nx_join_rules rig_rules(const rig *r, uint32_t rank, uint64_t timeout_ns);
rig_joiner *rig_join(rig *r, const nx_join_rules *rules);
/* Joins with unmodified rules. */
rig_joiner *rig_join_as(rig *r, uint32_t rank, uint64_t timeout_ns);
/* Asserts that |j| has failed, with a message that contains |words|. */
void rig_assert_failed(const rig_joiner *j, nexar_err err, const char *words);
/* The process of |j| dies; the seed learns of it when the end is delivered. */
void rig_kill(rig *r, rig_joiner *j);

/* The connection of |j| is lost; |known|: the seed has noticed. */
void rig_cut(rig *r, rig_joiner *j, bool known);

/* A connection without a joiner, up at once. */
rig_conn *rig_connect(rig *r);
/* The same with the certificate of |member|. */
rig_conn *rig_connect_as(rig *r, uint64_t member);
/* Sends a frame of a bad client. */
void rig_send(rig_conn *c, const void *data, size_t len);
/* Encodes a hello for |c| with |token| into |buf|, NX_HELLO_MAX bytes; returns its length. */
size_t rig_hello(const rig_conn *c, const nx_token *token, uint32_t rank, uint8_t *buf);

/* Delivers one random item. False: there is none. */
bool rig_step(rig *r);
/* Delivers all items. */
void rig_run(rig *r);
/* Advances time to the next due event, at most to |limit|. False: |limit| was reached. */
bool rig_advance(rig *r, uint64_t limit);
/* Delivers items and advances time until |limit|. */
void rig_run_until(rig *r, uint64_t limit);

/* The first queued frame of type |type| to a bad client. */
const rig_item *rig_find(const rig_conn *c, nx_join_frame type);
/* The number of such frames. */
unsigned rig_count(const rig_conn *c, nx_join_frame type);
bool rig_is_closed(const rig_conn *c);

#endif /* NX_JOIN_RIG_H */
