/*
 * agree_inner.h - the insides of an agreement, shared by its files, and who does what.
 *
 *   agree.c       one instance: bringing, proposing, accepting, deciding; frames that come in
 *   agree_gone.c  who has gone: ballots, the quorum, leavers, news
 *   agree_end.c   the end: DONE, ASK and FORGET, and those who were let go
 *   agree_tree.c  the tree over those who live, and the frames that go out along it
 *   agree_life.c  making and ending the machine, and what it can tell
 *   agree_msg.c   values and frames as bytes
 */
#ifndef NX_AGREE_INNER_H
#define NX_AGREE_INNER_H

#include "cluster/agree/agree.h"

/* One instance. */
typedef struct nx_agree_slot {
    uint64_t seq;
    bool started, decided;
    bool up_sent, accepted, ack_sent; /* in this ballot */
    uint64_t got, acks;               /* from which children, in this ballot */
    nx_agree_value own;               /* this rank's contribution */
    nx_agree_value gather;            /* what the children have brought, in this ballot */
    nx_agree_value acc;               /* what was accepted last, then what was decided */
} nx_agree_slot;

/* Where this rank stands in a tree over ranks. */
typedef struct nx_agree_tree {
    uint32_t parent; /* NX_AGREE_NOBODY: this is the root */
    uint32_t nchildren;
    uint32_t children[NX_AGREE_FANOUT_MAX];
} nx_agree_tree;

struct nx_agree {
    nx_agree_config config;
    const nx_agree_ops *ops;
    void *ctx;
    nx_rankset dead;    /* the ballot */
    nx_rankset left;    /* those of it who have left, as somebody says: of no concern to it */
    nx_rankset fell;    /* those who have failed, as somebody says, which counts more */
    nx_rankset gone;    /* |left| without |fell|: what others are told */
    nx_agree_tree tree; /* over all others */
    nx_agree_tree rest; /* the same without those who were let go, if |let_go| */
    nx_agree_slot slots[2];
    uint64_t next; /* the instance that runs, or will be the next to start */
    bool running, let_go, closed, ended, forgotten;
    nx_rankset done; /* who has said DONE, in this ballot */
    bool done_sent;
    nx_rankset away;             /* |dead|, and those who were let go: for |rest| */
    nx_rankset in_dead, in_left; /* what is being read */
    nx_agree_value in_value;
    uint8_t *out;
    size_t out_room;
    char why[128];
};

/* The slot of the last decision, which is what others may still ask for; NULL: there is none. */
static inline nx_agree_slot *nx_agree_last(nx_agree *a)
{
    nx_agree_slot *s = &a->slots[(a->next - 1) & 1];

    return ((a->next > 0) && s->decided && (s->seq == a->next - 1)) ? s : NULL;
}

static inline bool nx_agree_is_root(const nx_agree *a)
{
    return a->tree.parent == NX_AGREE_NOBODY;
}

/* Whether nobody can want to know anything of it.  One that was let go may, to the last. */
static inline bool nx_agree_is_over(const nx_agree *a)
{
    return a->ended || (a->forgotten && !a->let_go);
}

/* ---- agree.c ------------------------------------------------------------------------------ */

/* What |acc| holds is decided, by the word of |from|. */
void nx_agree_decide_told(nx_agree *a, nx_agree_slot *s, uint32_t from);
/* Begins again, in a new ballot. */
void nx_agree_slot_again(nx_agree *a, nx_agree_slot *s);

/* ---- agree_gone.c ------------------------------------------------------------------------- */

/* Without it nothing is proposed. */
bool nx_agree_has_quorum(const nx_agree *a);
/* It is over for this rank, which has none. */
void nx_agree_end_as_minority(nx_agree *a);
/* Takes over what the sender of the frame that is being read holds for dead. */
void nx_agree_learn(nx_agree *a);
/* |m| is of |from|, who holds this rank for dead. */
void nx_agree_on_gone(nx_agree *a, uint32_t from, const nx_agree_msg *m);
/* |m| is of |from|, whom this rank holds for dead. */
void nx_agree_on_dead(nx_agree *a, uint32_t from, const nx_agree_msg *m);

/* ---- agree_end.c -------------------------------------------------------------------------- */

/* In a new ballot all say again that they are done. */
void nx_agree_end_again(nx_agree *a);
/* DONE, ASK or FORGET of |from|; |stale|: said in a ballot that is over. */
void nx_agree_on_end(nx_agree *a, uint32_t from, nx_agree_kind kind, bool stale);

/* ---- agree_tree.c ------------------------------------------------------------------------- */

/* Finds |a->tree| and |a->rest|. */
void nx_agree_find_place(nx_agree *a);
/* Says |kind| about |s|, with what was accepted or decided in it, if |kind| carries a value: to
 * |to|; to the children in |tree| but |but|; to all neighbours in |tree| but |but|. */
void nx_agree_tell(nx_agree *a, uint32_t to, nx_agree_kind kind, const nx_agree_slot *s);
void nx_agree_tell_below(nx_agree *a, const nx_agree_tree *tree, nx_agree_kind kind,
                         const nx_agree_slot *s, uint32_t but);
void nx_agree_tell_around(nx_agree *a, const nx_agree_tree *tree, nx_agree_kind kind,
                          const nx_agree_slot *s, uint32_t but);
/* UP to the parent, with what was gathered. */
void nx_agree_tell_up(nx_agree *a, const nx_agree_slot *s);
/* Whom this rank holds for dead. */
void nx_agree_tell_news(nx_agree *a, uint32_t to);

/* ---- agree_life.c ------------------------------------------------------------------------- */

/* Makes |s| the place of instance |seq|, of which nothing is known yet. */
void nx_agree_slot_open(nx_agree_slot *s, uint64_t seq);

#endif /* NX_AGREE_INNER_H */
