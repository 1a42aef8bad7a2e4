/* consensus_end.c - the end of a communicator: when no rank can ask for its last decision. */
#include "consensus_inner.h"
#include "msg/control.h"

static void forget(nx_consensus *a)
{
    if (!a->forgotten) {
        a->forgotten = true;
        a->ops->forgotten(a->ctx);
    }
}

/* The tree of ranks that send DONE, without released leavers. */
static const nx_consensus_tree *end_tree(const nx_consensus *a)
{
    return a->let_go ? &a->rest : &a->tree;
}

static bool all_done(const nx_consensus *a)
{
    const nx_consensus_tree *tree = end_tree(a);

    for (uint32_t i = 0; i < tree->nchildren; i++) {
        if (!nx_rankset_has(&a->done, tree->children[i])) {
            return false;
        }
    }
    return true;
}

static void try_done(nx_consensus *a)
{
    const nx_consensus_slot *last = nx_consensus_last(a);

    if (!a->closed || a->forgotten || a->ended) {
        return;
    }
    if (last == NULL) {
        forget(a);
        return;
    }
    if (a->done_sent || !all_done(a)) {
        return;
    }
    a->done_sent = true;
    if (end_tree(a)->parent != NX_CONSENSUS_NOBODY) {
        nx_consensus_send(a, end_tree(a)->parent, NX_CONSENSUS_DONE, last);
        return;
    }
    nx_consensus_send_below(a, end_tree(a), NX_CONSENSUS_FORGET, last, NX_CONSENSUS_NOBODY);
    forget(a);
}

void nx_consensus_close(nx_consensus *a)
{
    a->closed = true;
    try_done(a);
}

/* Leavers stay in ballots, and in the tree, until they have left.  Until then a leaver without the
 * decision is treated like any other rank. */
void nx_consensus_let_go(nx_consensus *a)
{
    if (!a->ended && !a->forgotten && !a->running && !a->closed && (nx_consensus_last(a) != NULL)) {
        a->let_go = true;
        nx_consensus_find_place(a);
        if (a->left.count > 0) { /* the failures that leavers did not report */
            nx_consensus_notify_neighbours(a, &a->rest, NX_CONSENSUS_NEWS, nx_consensus_last(a),
                                           NX_CONSENSUS_NOBODY);
        }
    }
}

void nx_consensus_end_again(nx_consensus *a)
{
    nx_rankset_clear(&a->done);
    a->done_sent = false;
    if (!a->ended && a->closed && !a->forgotten && (nx_consensus_last(a) != NULL)) {
        /* A new child may have received FORGET from a rank that failed before it notified all: the
         * child has nothing to wait for and answers so. */
        nx_consensus_send_below(a, end_tree(a), NX_CONSENSUS_ASK, nx_consensus_last(a),
                                NX_CONSENSUS_NOBODY);
    }
    try_done(a);
}

static void on_done(nx_consensus *a, uint32_t from, bool stale)
{
    if (stale) {
        nx_consensus_notify(a, from);
    } else {
        (void)nx_rankset_add(&a->done, from);
        try_done(a);
    }
}

static void on_forget(nx_consensus *a, uint32_t from)
{
    const nx_consensus_slot *last = nx_consensus_last(a);

    if (a->closed && (last != NULL) && !a->forgotten) {
        nx_consensus_notify_neighbours(a, end_tree(a), NX_CONSENSUS_FORGET, last, from);
        forget(a);
    }
}

void nx_consensus_on_end(nx_consensus *a, uint32_t from, nx_consensus_kind kind, bool stale)
{
    if (kind == NX_CONSENSUS_FORGET) {
        on_forget(a, from);
    } else if (a->forgotten) {
        nx_consensus_send(a, from, NX_CONSENSUS_FORGET, nx_consensus_last(a));
    } else if (kind == NX_CONSENSUS_DONE) { /* no answer to ASK: DONE follows, in this ballot */
        on_done(a, from, stale);
    }
}

bool nx_consensus_unexpected(const void *frame, size_t len, uint8_t *reply, size_t *reply_len)
{
    nx_reader r = nx_reader_make(frame, len);
    const uint8_t type = nx_read_u8(&r);
    const uint64_t comm = nx_read_varint(&r);
    const uint8_t kind = nx_read_u8(&r);
    const uint64_t seq = nx_read_varint(&r);

    *reply_len = 0;
    if (r.failed || (type != NX_CONTROL_AGREE)) {
        return false;
    }
    if ((kind == NX_CONSENSUS_DONE) || (kind == NX_CONSENSUS_ASK)) {
        uint64_t none = 0;
        const nx_rankset nobody = {.words = &none, .n = 1};
        const nx_consensus_msg m = {.comm = comm,
                                    .seq = seq,
                                    .kind = NX_CONSENSUS_FORGET,
                                    .dead = &nobody,
                                    .left = &nobody,
                                    .value = NULL};
        nx_writer w = nx_writer_make(reply, NX_CONSENSUS_UNEXPECTED_MAX);

        nx_consensus_msg_encode(&w, &m);
        *reply_len = w.len;
    }
    return (kind == NX_CONSENSUS_UP) || (kind == NX_CONSENSUS_NEWS);
}
