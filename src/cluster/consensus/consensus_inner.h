/*
 * consensus_inner.h - shared by the files of consensus.
 *
 *   consensus.c             one instance: contribute, propose, accept, decide; received frames
 *   consensus_departures.c  failed and departing ranks: ballots, the quorum, leavers, NEWS
 *   consensus_end.c         the end: DONE, ASK and FORGET, and released leavers
 *   consensus_tree.c        the tree of live ranks, and the frames sent along it
 *   consensus_life.c        creation and destruction of the machine; queries
 *   consensus_msg.c         encodes and decodes values and frames
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
    nx_consensus_value acc;           /* the value accepted last, then the decision */
} nx_consensus_slot;

/* The position of this rank in a tree. */
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
    nx_rankset left;        /* of |dead|, ranks that some rank reported as left */
    nx_rankset fell;        /* ranks that some rank reported as failed, which takes precedence */
    nx_rankset gone;        /* |left| without |fell|: sent to others */
    nx_consensus_tree tree; /* over all live ranks */
    nx_consensus_tree rest; /* over the same without released leavers, if |let_go| */
    nx_consensus_slot slots[2];
    uint64_t next; /* the instance that runs, or will be the next to start */
    bool running, let_go, closed, ended, forgotten;
    nx_rankset done; /* ranks that have sent DONE in this ballot */
    bool done_sent;
    nx_rankset away;             /* |dead| and released leavers: excluded from |rest| */
    nx_rankset in_dead, in_left; /* what is being read */
    nx_consensus_value in_value;
    uint8_t *out;
    size_t out_room;
    char why[128];
};

/* The slot of the last decision, for which others may still ask; NULL: there is none. */
static inline nx_consensus_slot *nx_consensus_last(nx_consensus *a)
{
    nx_consensus_slot *s = &a->slots[(a->next - 1) & 1];

    return ((a->next > 0) && s->decided && (s->seq == a->next - 1)) ? s : NULL;
}

static inline bool nx_consensus_is_root(const nx_consensus *a)
{
    return a->tree.parent == NX_CONSENSUS_NOBODY;
}

/* Whether no rank can ask for anything any more. A released leaver always may. */
static inline bool nx_consensus_is_over(const nx_consensus *a)
{
    return a->ended || (a->forgotten && !a->let_go);
}

/* ---- consensus.c --------------------------------------------------------------------- */

/* |acc| is decided, according to |from|. */
void nx_consensus_decide_from(nx_consensus *a, nx_consensus_slot *s, uint32_t from);
/* Begins again, in a new ballot. */
void nx_consensus_slot_again(nx_consensus *a, nx_consensus_slot *s);

/* ---- consensus_departures.c ---------------------------------------------------------- */

/* Without a quorum nothing is proposed. */
bool nx_consensus_has_quorum(const nx_consensus *a);
/* Ends the machine: this rank has no quorum. */
void nx_consensus_end_as_minority(nx_consensus *a);
/* Merges the ballot of the sender of the current frame. */
void nx_consensus_learn(nx_consensus *a);
/* Handles |m| of |from|, which has declared this rank failed. */
void nx_consensus_on_exclusion(nx_consensus *a, uint32_t from, const nx_consensus_msg *m);
/* Handles |m| of |from|, which this rank has declared failed. */
void nx_consensus_on_failed_sender(nx_consensus *a, uint32_t from, const nx_consensus_msg *m);

/* ---- consensus_end.c ----------------------------------------------------------------- */

/* In a new ballot all ranks repeat DONE. */
void nx_consensus_end_again(nx_consensus *a);
/* Handles DONE, ASK or FORGET of |from|; |stale|: from an earlier ballot. */
void nx_consensus_on_end(nx_consensus *a, uint32_t from, nx_consensus_kind kind, bool stale);

/* ---- consensus_tree.c ---------------------------------------------------------------- */

/* Finds |a->tree| and |a->rest|. */
void nx_consensus_find_place(nx_consensus *a);
/* Send |kind| about |s|, with the accepted or decided value if |kind| carries one: to |to|; to the
 * children in |tree| except |but|; to all neighbours in |tree| except |but|. */
void nx_consensus_send(nx_consensus *a, uint32_t to, nx_consensus_kind kind,
                       const nx_consensus_slot *s);
void nx_consensus_send_below(nx_consensus *a, const nx_consensus_tree *tree, nx_consensus_kind kind,
                             const nx_consensus_slot *s, uint32_t but);
void nx_consensus_notify_neighbours(nx_consensus *a, const nx_consensus_tree *tree,
                                    nx_consensus_kind kind, const nx_consensus_slot *s,
                                    uint32_t but);
/* UP to the parent, with what was gathered. */
void nx_consensus_tell_up(nx_consensus *a, const nx_consensus_slot *s);
/* Sends the failed ranks that this rank knows. */
void nx_consensus_notify(nx_consensus *a, uint32_t to);

/* ---- consensus_life.c ---------------------------------------------------------------- */

/* Initialises |s| for instance |seq|. */
void nx_consensus_slot_open(nx_consensus_slot *s, uint64_t seq);

#endif /* NX_CONSENSUS_INNER_H */
