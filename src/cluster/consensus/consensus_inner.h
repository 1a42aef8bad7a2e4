/*
 * consensus_inner.h - the insides of an agreement, shared by its files, and who does what.
 *
 *   consensus.c       one instance: bringing, proposing, accepting, deciding; frames that come in
 *   consensus_departures.c  who has gone: ballots, the quorum, leavers, news
 *   consensus_end.c   the end: DONE, ASK and FORGET, and those who were let go
 *   consensus_tree.c  the tree over those who live, and the frames that go out along it
 *   consensus_life.c  making and ending the machine, and what it can tell
 *   consensus_msg.c   values and frames as bytes
 */
#ifndef NX_CONSENSUS_INNER_H
#define NX_CONSENSUS_INNER_H

#include "consensus.h"

/* One instance. */
typedef struct nx_consensus_slot {
    uint64_t seq;
    bool started, decided;
    bool up_sent, accepted, ack_sent; /* in this ballot */
    uint64_t got, acks;               /* from which children, in this ballot */
    nx_consensus_value own;           /* this rank's contribution */
    nx_consensus_value gather;        /* what the children have brought, in this ballot */
    nx_consensus_value acc;           /* what was accepted last, then what was decided */
} nx_consensus_slot;

/* Where this rank stands in a tree over ranks. */
typedef struct nx_consensus_tree {
    uint32_t parent; /* NX_CONSENSUS_NOBODY: this is the root */
    uint32_t nchildren;
    uint32_t children[NX_CONSENSUS_FANOUT_MAX];
} nx_consensus_tree;

struct nx_consensus {
    nx_consensus_config config;
    const nx_consensus_ops *ops;
    void *ctx;
    nx_rankset dead;        /* the ballot */
    nx_rankset left;        /* those of it who have left, as somebody says: of no concern to it */
    nx_rankset fell;        /* those who have failed, as somebody says, which counts more */
    nx_rankset gone;        /* |left| without |fell|: what others are told */
    nx_consensus_tree tree; /* over all others */
    nx_consensus_tree rest; /* the same without those who were let go, if |let_go| */
    nx_consensus_slot slots[2];
    uint64_t next; /* the instance that runs, or will be the next to start */
    bool running, let_go, closed, ended, forgotten;
    nx_rankset done; /* who has said DONE, in this ballot */
    bool done_sent;
    nx_rankset away;             /* |dead|, and those who were let go: for |rest| */
    nx_rankset in_dead, in_left; /* what is being read */
    nx_consensus_value in_value;
    uint8_t *out;
    size_t out_room;
    char why[128];
};

/* The slot of the last decision, which is what others may still ask for; NULL: there is none. */
static inline nx_consensus_slot *nx_consensus_last(nx_consensus *a)
{
    nx_consensus_slot *s = &a->slots[(a->next - 1) & 1];

    return ((a->next > 0) && s->decided && (s->seq == a->next - 1)) ? s : NULL;
}

static inline bool nx_consensus_is_root(const nx_consensus *a)
{
    return a->tree.parent == NX_CONSENSUS_NOBODY;
}

/* Whether nobody can want to know anything of it.  One that was let go may, to the last. */
static inline bool nx_consensus_is_over(const nx_consensus *a)
{
    return a->ended || (a->forgotten && !a->let_go);
}

/* ---- consensus.c ------------------------------------------------------------------------------
 */

/* What |acc| holds is decided, by the word of |from|. */
void nx_consensus_decide_told(nx_consensus *a, nx_consensus_slot *s, uint32_t from);
/* Begins again, in a new ballot. */
void nx_consensus_slot_again(nx_consensus *a, nx_consensus_slot *s);

/* ---- consensus_departures.c
 * ------------------------------------------------------------------------- */

/* Without it nothing is proposed. */
bool nx_consensus_has_quorum(const nx_consensus *a);
/* It is over for this rank, which has none. */
void nx_consensus_end_as_minority(nx_consensus *a);
/* Takes over what the sender of the frame that is being read holds for dead. */
void nx_consensus_learn(nx_consensus *a);
/* |m| is of |from|, who holds this rank for dead. */
void nx_consensus_on_gone(nx_consensus *a, uint32_t from, const nx_consensus_msg *m);
/* |m| is of |from|, whom this rank holds for dead. */
void nx_consensus_on_dead(nx_consensus *a, uint32_t from, const nx_consensus_msg *m);

/* ---- consensus_end.c --------------------------------------------------------------------------
 */

/* In a new ballot all say again that they are done. */
void nx_consensus_end_again(nx_consensus *a);
/* DONE, ASK or FORGET of |from|; |stale|: said in a ballot that is over. */
void nx_consensus_on_end(nx_consensus *a, uint32_t from, nx_consensus_kind kind, bool stale);

/* ---- consensus_tree.c -------------------------------------------------------------------------
 */

/* Finds |a->tree| and |a->rest|. */
void nx_consensus_find_place(nx_consensus *a);
/* Says |kind| about |s|, with what was accepted or decided in it, if |kind| carries a value: to
 * |to|; to the children in |tree| but |but|; to all neighbours in |tree| but |but|. */
void nx_consensus_tell(nx_consensus *a, uint32_t to, nx_consensus_kind kind,
                       const nx_consensus_slot *s);
void nx_consensus_tell_below(nx_consensus *a, const nx_consensus_tree *tree, nx_consensus_kind kind,
                             const nx_consensus_slot *s, uint32_t but);
void nx_consensus_notify_neighbours(nx_consensus *a, const nx_consensus_tree *tree,
                                    nx_consensus_kind kind, const nx_consensus_slot *s,
                                    uint32_t but);
/* UP to the parent, with what was gathered. */
void nx_consensus_tell_up(nx_consensus *a, const nx_consensus_slot *s);
/* Whom this rank holds for dead. */
void nx_consensus_notify(nx_consensus *a, uint32_t to);

/* ---- consensus_life.c -------------------------------------------------------------------------
 */

/* Makes |s| the place of instance |seq|, of which nothing is known yet. */
void nx_consensus_slot_open(nx_consensus_slot *s, uint64_t seq);

#endif /* NX_CONSENSUS_INNER_H */
