/* agree_inner.h - the insides of an agreement, shared by its files. */
#ifndef NX_AGREE_INNER_H
#define NX_AGREE_INNER_H

#include "cluster/agree.h"

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

/* Where this rank stands in the tree over the living. */
typedef struct nx_agree_tree {
    uint32_t parent; /* NX_AGREE_NOBODY: this is the root */
    uint32_t nchildren;
    uint32_t children[NX_AGREE_FANOUT_MAX];
} nx_agree_tree;

struct nx_agree {
    nx_agree_config config;
    const nx_agree_ops *ops;
    void *ctx;
    nx_rankset dead; /* the ballot */
    nx_agree_tree tree;
    nx_agree_slot slots[2];
    uint64_t next; /* the instance that runs, or will be the next to start */
    bool running, closed, ended, forgotten;
    uint64_t done; /* which children have said DONE, in this ballot */
    bool done_sent;
    nx_rankset in_dead; /* what is being read */
    nx_agree_value in_value;
    uint8_t *out;
    size_t out_room;
    char why[128];
};

/* Makes |s| the place of instance |seq|, of which nothing is known yet. */
void nx_agree_slot_open(nx_agree_slot *s, uint64_t seq);
/* Finds |a->tree| for |a->dead|. */
void nx_agree_find_place(nx_agree *a);

static inline bool nx_agree_is_root(const nx_agree *a)
{
    return a->tree.parent == NX_AGREE_NOBODY;
}

#endif /* NX_AGREE_INNER_H */
