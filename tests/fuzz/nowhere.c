/* nowhere.c - a link to a peer that never answers. */
#include "nowhere.h"

static nexar_err send_frame(nx_link *link, nx_lane lane, const nx_bytes *bytes, size_t n)
{
    (void)link;
    (void)lane;
    (void)bytes;
    (void)n;
    return NEXAR_OK;
}

static nexar_err send_part(nx_link *link, nx_tx *tx)
{
    nxt_nowhere *w = (nxt_nowhere *)(void *)link;

    nxt_must(w->nheld < NXT_NOWHERE_HELD);
    w->held[w->nheld++] = tx;
    return NEXAR_OK;
}

static void cancel_part(nx_link *link, nx_tx *tx)
{
    (void)link;
    (void)tx; /* on_sent is called with the others */
}

static void close_link(nx_link *link, bool drain)
{
    (void)drain;
    ((nxt_nowhere *)(void *)link)->closed = true;
}

static void info(const nx_link *link, nx_link_info *out)
{
    (void)link;
    (void)out;
}

static const nx_link_ops ops = {.name = "nowhere",
                                .send_frame = send_frame,
                                .send_part = send_part,
                                .cancel_part = cancel_part,
                                .close = close_link,
                                .info = info};

void nxt_nowhere_init(nxt_nowhere *w)
{
    *w = (nxt_nowhere){.link = {.ops = &ops}};
}

nexar_err nxt_nowhere_connect(void *ctx, uint32_t peer, const nx_link_up *up, void *up_ctx,
                              nx_link **link)
{
    nxt_nowhere *w = ctx;

    (void)peer;
    w->link.up = up;
    w->link.up_ctx = up_ctx;
    *link = &w->link;
    return NEXAR_OK;
}

void nxt_nowhere_give_back(nxt_nowhere *w, nexar_err err)
{
    while (w->nheld > 0) {
        nx_tx *tx = w->held[--w->nheld];

        w->link.up->on_sent(w->link.up_ctx, &w->link, tx, err);
    }
}
