/*
 * early_links.c - links of members that are one view ahead of this rank.
 *
 * Ranks install a new view one after another.  A joiner may connect to a rank that has not
 * installed the view yet; a rank may connect to a joiner before the seed has sent the joiner the
 * view.  This rank accepts such a link, keeps its frames (msg/matching/early_frames.h), and replays
 * them when it has installed the view.  The kept data is bounded: a greeting, a few frames, and the
 * bytes that a sender may send before the receiver's first answer (NX_CREDIT_START).
 */
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "core/update/update.h"
#include "transport_choice.h"

/* The header before the bytes of a kept frame or message. */
typedef struct head {
    bool frame;
    nx_lane lane;
    uint64_t id, off;
} head;

typedef struct parked {
    nx_list at; /* in world->parked */
    nx_world *world;
    nx_link *link;
    uint64_t member;
} parked;

static void free_parked(parked *p)
{
    nx_list_remove(&p->at);
    nx_early_drop(p->world->early, NX_EARLY_LINK, p->member);
    nx_free(p);
}

static void give_up(parked *p, nx_log_level level, const char *why)
{
    nx_log(level, "a link of member %" PRIu64 " of the next view is closed: %s", p->member, why);
    nx_link_close(p->link, false);
    free_parked(p);
}

/* ---- callbacks ----------------------------------------------------------------------- */

static void keep(parked *p, const head *h, const void *data, size_t len)
{
    const nx_early_key key = {.kind = NX_EARLY_LINK, .id = p->member, .from = p->member};
    const nx_bytes parts[] = {{.ptr = h, .len = sizeof(*h)}, {.ptr = data, .len = len}};

    if (nx_early_keep(p->world->early, &key, parts, 2, nx_loop_now(p->world->loop)) != NEXAR_OK) {
        give_up(p, NX_LOG_WARN, nexar_last_error());
    }
}

static void on_up(void *ctx, nx_link *link)
{
    (void)ctx;
    (void)link;
}

static void on_frame(void *ctx, nx_link *link, nx_lane lane, const void *data, size_t len)
{
    (void)link;
    keep(ctx, &(head){.frame = true, .lane = lane}, data, len);
}

static void on_data(void *ctx, nx_link *link, uint64_t id, uint64_t off, const void *data,
                    size_t len)
{
    (void)link;
    keep(ctx, &(head){.id = id, .off = off}, data, len);
}

static void on_down(void *ctx, nx_link *link, nexar_err err, const char *why)
{
    (void)link;
    (void)err;
    give_up(ctx, NX_LOG_INFO, why);
}

static const nx_link_up parked_up = {.on_up = on_up,
                                     .on_frame = on_frame,
                                     .on_data = on_data,
                                     .on_sent = nx_link_sent_ignored,
                                     .on_down = on_down};

/* ---- accepting and replaying --------------------------------------------------------- */

void nx_early_links_take(nx_world *world, nx_link *link, uint64_t member)
{
    parked *p = nx_zalloc(sizeof(*p));

    if (p == NULL) {
        nx_link_close(link, false);
        return;
    }
    nx_list_init(&p->at);
    p->world = world;
    p->link = link;
    p->member = member;
    link->up = &parked_up;
    link->up_ctx = p;
    nx_list_push_back(&world->parked, &p->at);
    nx_log(NX_LOG_DEBUG, "member %" PRIu64 " is ahead of this rank, and is let in later", member);
}

bool nx_early_links_has(const nx_world *world, uint64_t member)
{
    for (const nx_list *at = world->parked.next; at != &world->parked; at = at->next) {
        if (nx_list_entry(at, parked, at)->member == member) {
            return true;
        }
    }
    return false;
}

/* Replays the kept frames to the new owner of the link, while it holds the link.  The link may be
 * rejected, or closed because of a frame. */
typedef struct player {
    nx_link *link;
    const nx_msg *msg;
    uint32_t slot;
} player;

static void play(void *ctx, const nx_early_frame *f)
{
    const player *p = ctx;
    nx_link *link = p->link;
    const uint8_t *data = f->data + sizeof(head);
    const size_t len = f->len - sizeof(head);
    head h;

    if (nx_msg_link(p->msg, p->slot) != link) {
        return;
    }
    memcpy(&h, f->data, sizeof(h));
    if (h.frame) {
        link->up->on_frame(link->up_ctx, link, h.lane, data, len);
    } else {
        link->up->on_data(link->up_ctx, link, h.id, h.off, data, len);
    }
}

void nx_early_links_deliver(nx_world *world)
{
    nx_list_for_each (at, &world->parked) {
        parked *p = nx_list_entry(at, parked, at);
        const nx_member *m = nx_view_member(world->view, p->member);

        if (m == NULL) {
            give_up(p, NX_LOG_INFO, "it is not in the new view");
            continue;
        }
        nx_links_accept(world, p->link, p->member);
        nx_early_deliver(world->early, NX_EARLY_LINK, p->member, play,
                         &(player){.link = p->link, .msg = world->msg, .slot = m->slot});
        free_parked(p);
    }
}

void nx_early_links_close(nx_world *world)
{
    nx_list_for_each (at, &world->parked) {
        parked *p = nx_list_entry(at, parked, at);

        nx_link_close(p->link, false);
        free_parked(p);
    }
}
