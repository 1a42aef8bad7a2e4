/* agree_end.c - the end of a communicator: when nobody will ask for its last decision any more. */
#include "cluster/agree/agree_inner.h"
#include "msg/control.h"

static void forget(nx_agree *a)
{
    if (!a->forgotten) {
        a->forgotten = true;
        a->ops->forgotten(a->ctx);
    }
}

/* The tree of those who say DONE: whoever was let go does not. */
static const nx_agree_tree *end_tree(const nx_agree *a)
{
    return a->let_go ? &a->rest : &a->tree;
}

static bool all_done(const nx_agree *a)
{
    const nx_agree_tree *tree = end_tree(a);

    for (uint32_t i = 0; i < tree->nchildren; i++) {
        if (!nx_rankset_has(&a->done, tree->children[i])) {
            return false;
        }
    }
    return true;
}

static void try_done(nx_agree *a)
{
    const nx_agree_slot *last = nx_agree_last(a);

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
    if (end_tree(a)->parent != NX_AGREE_NOBODY) {
        nx_agree_tell(a, end_tree(a)->parent, NX_AGREE_DONE, last);
        return;
    }
    nx_agree_tell_below(a, end_tree(a), NX_AGREE_FORGET, last, NX_AGREE_NOBODY);
    forget(a);
}

void nx_agree_close(nx_agree *a)
{
    a->closed = true;
    try_done(a);
}

/* They stay in ballots, and in the tree, until they have gone: one that has not heard of the
 * decision yet is as any other rank until it has. */
void nx_agree_let_go(nx_agree *a)
{
    if (!a->ended && !a->forgotten && !a->running && !a->closed && (nx_agree_last(a) != NULL)) {
        a->let_go = true;
        nx_agree_find_place(a);
        if (a->left.count > 0) { /* what the leavers did not live to tell */
            nx_agree_tell_around(a, &a->rest, NX_AGREE_NEWS, nx_agree_last(a), NX_AGREE_NOBODY);
        }
    }
}

void nx_agree_end_again(nx_agree *a)
{
    nx_rankset_clear(&a->done);
    a->done_sent = false;
    if (!a->ended && a->closed && !a->forgotten && (nx_agree_last(a) != NULL)) {
        /* A new child may have been told to forget by one who died before it told
         * all: it has nothing to be done with any more, and says so. */
        nx_agree_tell_below(a, end_tree(a), NX_AGREE_ASK, nx_agree_last(a), NX_AGREE_NOBODY);
    }
    try_done(a);
}

static void on_done(nx_agree *a, uint32_t from, bool stale)
{
    if (stale) {
        nx_agree_tell_news(a, from);
    } else {
        (void)nx_rankset_add(&a->done, from);
        try_done(a);
    }
}

static void on_forget(nx_agree *a, uint32_t from)
{
    const nx_agree_slot *last = nx_agree_last(a);

    if (a->closed && (last != NULL) && !a->forgotten) {
        nx_agree_tell_around(a, end_tree(a), NX_AGREE_FORGET, last, from);
        forget(a);
    }
}

void nx_agree_on_end(nx_agree *a, uint32_t from, nx_agree_kind kind, bool stale)
{
    if (kind == NX_AGREE_FORGET) {
        on_forget(a, from);
    } else if (a->forgotten) {
        nx_agree_tell(a, from, NX_AGREE_FORGET, nx_agree_last(a));
    } else if (kind == NX_AGREE_DONE) { /* to ASK nothing: DONE will come, in this ballot */
        on_done(a, from, stale);
    }
}

bool nx_agree_stray(const void *frame, size_t len, uint8_t *reply, size_t *reply_len)
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
    if ((kind == NX_AGREE_DONE) || (kind == NX_AGREE_ASK)) {
        uint64_t none = 0;
        const nx_rankset nobody = {.words = &none, .n = 1};
        const nx_agree_msg m = {.comm = comm,
                                .seq = seq,
                                .kind = NX_AGREE_FORGET,
                                .dead = &nobody,
                                .left = &nobody,
                                .value = NULL};
        nx_writer w = nx_writer_make(reply, NX_AGREE_STRAY_MAX);

        nx_agree_msg_encode(&w, &m);
        *reply_len = w.len;
    }
    return (kind == NX_AGREE_UP) || (kind == NX_AGREE_NEWS);
}
