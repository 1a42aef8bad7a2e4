/* heard_gate.c - holds frames until their receiver has been heard from. */
#include "cluster/membership/heard_gate.h"

#include <string.h>

#include "base/alloc.h"

typedef struct waiting {
    nx_list link;
    uint32_t to;
    size_t len;
    uint8_t frame[];
} waiting;

void nx_heard_gate_init(nx_heard_gate *g, const nx_heard_gate_ops *ops, void *ctx)
{
    *g = (nx_heard_gate){.ops = ops, .ctx = ctx};
    nx_list_init(&g->frames);
}

static void free_all(nx_list *list)
{
    nx_list *at;

    while ((at = nx_list_pop(list)) != NULL) {
        nx_free(nx_list_entry(at, waiting, link));
    }
}

void nx_heard_gate_fini(nx_heard_gate *g)
{
    free_all(&g->frames);
}

/* Moves the frames held for |peer| to |out|; returns whether there were any. */
static bool take(nx_heard_gate *g, uint32_t peer, nx_list *out)
{
    nx_list_init(out);
    nx_list_for_each (at, &g->frames) {
        if (nx_list_entry(at, waiting, link)->to == peer) {
            nx_list_remove(at);
            nx_list_push_back(out, at);
        }
    }
    return !nx_list_empty(out);
}

static bool waits(const nx_heard_gate *g, uint32_t peer)
{
    for (const nx_list *at = g->frames.next; at != &g->frames; at = at->next) {
        if (nx_list_entry(at, waiting, link)->to == peer) {
            return true;
        }
    }
    return false;
}

void nx_heard_gate_heard(nx_heard_gate *g, uint32_t peer)
{
    nx_list ready, *at;

    if (!take(g, peer, &ready)) {
        return;
    }
    g->ops->end(g->ctx, peer);
    while ((at = nx_list_pop(&ready)) != NULL) {
        waiting *w = nx_list_entry(at, waiting, link);

        g->ops->send(g->ctx, peer, w->frame, w->len);
        nx_free(w);
    }
}

void nx_heard_gate_drop(nx_heard_gate *g, uint32_t peer)
{
    nx_list dropped;

    if (take(g, peer, &dropped)) {
        g->ops->end(g->ctx, peer);
        free_all(&dropped);
    }
}

void nx_heard_gate_send(nx_heard_gate *g, uint32_t to, const void *frame, size_t len)
{
    waiting *w = NULL;
    bool first;

    if (g->ops->hears(g->ctx, to)) {
        nx_heard_gate_heard(g, to);
    } else {
        w = nx_zalloc(sizeof(*w) + len);
    }
    if (w == NULL) {
        g->ops->send(g->ctx, to, frame, len);
        return;
    }
    w->to = to;
    w->len = len;
    memcpy(w->frame, frame, len);
    first = !waits(g, to);
    nx_list_init(&w->link);
    nx_list_push_back(&g->frames, &w->link);
    if (first) {
        g->ops->begin(g->ctx, to);
    }
}
