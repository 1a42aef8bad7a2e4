/* consensus_tree.c - the tree of live ranks, and the frames sent along it. */
#include "consensus_inner.h"

/* A tree of the ranks that are not in |out|, in which the children of the i-th are the f i + 1 st
 * to the f i + f th. */
static void find_place(const nx_consensus *a, const nx_rankset *out, nx_consensus_tree *p)
{
    const uint32_t fanout = a->config.fanout, alive = a->config.size - out->count;
    const uint32_t at = nx_rankset_index_out(out, a->config.self);
    const uint64_t first = (uint64_t)at * fanout + 1;
    uint32_t child = a->config.size;

    p->parent = (at == 0) ? NX_CONSENSUS_NOBODY : nx_rankset_nth_out(out, (at - 1) / fanout);
    p->nchildren = 0;
    for (uint64_t i = first; (i < first + fanout) && (i < alive); i++) {
        child = (i == first) ? nx_rankset_nth_out(out, (uint32_t)i)
                             : nx_rankset_next_out(out, child + 1);
        p->children[p->nchildren++] = child;
    }
}

void nx_consensus_find_place(nx_consensus *a)
{
    find_place(a, &a->dead, &a->tree);
    if (a->let_go) {
        nx_rankset_copy(&a->away, &a->dead);
        (void)nx_rankset_unite(&a->away, &nx_consensus_last(a)->acc.leavers);
        find_place(a, &a->away, &a->rest);
    }
}

/* ---- frames -------------------------------------------------------------------------- */

static size_t encode(nx_consensus *a, nx_consensus_kind kind, uint64_t seq,
                     const nx_consensus_value *value)
{
    const nx_consensus_msg m = {.comm = a->config.comm,
                                .seq = seq,
                                .kind = kind,
                                .dead = &a->dead,
                                .left = &a->gone,
                                .value = value};
    nx_writer w = nx_writer_make(a->out, a->out_room);

    nx_consensus_msg_encode(&w, &m);
    return w.len;
}

void nx_consensus_send(nx_consensus *a, uint32_t to, nx_consensus_kind kind,
                       const nx_consensus_slot *s)
{
    a->ops->send(a->ctx, to, a->out, encode(a, kind, s->seq, &s->acc));
}

void nx_consensus_send_below(nx_consensus *a, const nx_consensus_tree *tree, nx_consensus_kind kind,
                             const nx_consensus_slot *s, uint32_t but)
{
    const size_t len = encode(a, kind, s->seq, &s->acc);

    for (uint32_t i = 0; i < tree->nchildren; i++) {
        if (tree->children[i] != but) {
            a->ops->send(a->ctx, tree->children[i], a->out, len);
        }
    }
}

void nx_consensus_notify_neighbours(nx_consensus *a, const nx_consensus_tree *tree,
                                    nx_consensus_kind kind, const nx_consensus_slot *s,
                                    uint32_t but)
{
    nx_consensus_send_below(a, tree, kind, s, but);
    if ((tree->parent != NX_CONSENSUS_NOBODY) && (tree->parent != but)) {
        nx_consensus_send(a, tree->parent, kind, s);
    }
}

void nx_consensus_tell_up(nx_consensus *a, const nx_consensus_slot *s)
{
    a->ops->send(a->ctx, a->tree.parent, a->out, encode(a, NX_CONSENSUS_UP, s->seq, &s->gather));
}

void nx_consensus_notify(nx_consensus *a, uint32_t to)
{
    a->ops->send(a->ctx, to, a->out, encode(a, NX_CONSENSUS_NEWS, a->next, NULL));
}
