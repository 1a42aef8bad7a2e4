/*
 * in.c - from rings to callbacks.
 *
 * The control ring is read first, and again before every record of the others. Each record is
 * copied before any decision depends on it. Only the bytes of parts are passed up in place, since
 * their receiver does nothing but copy or reduce them.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "shm_inner.h"

enum {
    RECORDS = 64, /* of a ring in one iteration */
    LARGE = 4096  /* bytes: the writer may wait for the space of a record this long */
};

static void bad(nx_shm_link *link, const char *what)
{
    nx_shm_link_down(link, NEXAR_EPROTO, "the peer wrote %s into the shared memory", what);
}

/* ---- frames -------------------------------------------------------------------------- */

static void frame_up(nx_shm_link *link, nx_lane lane, const uint8_t *data, size_t len)
{
    if (nx_shm_listens(link)) {
        link->base.up->on_frame(link->base.up_ctx, &link->base, lane, data, len);
    }
}

/* A fragment of a frame that is longer than a record. */
static void take_piece(nx_shm_link *link, nx_lane lane, const nx_record *rec)
{
    nx_shm_pieces *p = &link->pieces[lane];

    if (rec->len > NX_FRAME_MAX - p->len) {
        bad(link, "a frame that is too long");
        return;
    }
    if (p->data == NULL) {
        p->data = nx_grow(NULL, NX_FRAME_MAX, 1);
        if (p->data == NULL) {
            nx_shm_link_down(link, NEXAR_ENOMEM, "no memory for a frame that came");
            return;
        }
    }
    memcpy(p->data + p->len, rec->data, rec->len);
    p->len += rec->len;
    if ((rec->flags & NX_REC_MORE) == 0) {
        size_t len = p->len;

        p->len = 0;
        frame_up(link, lane, p->data, len);
    }
}

static void take_frame(nx_shm_link *link, nx_lane lane, const nx_record *rec)
{
    link->bytes_received += rec->len;
    if (((rec->flags & NX_REC_MORE) != 0) || (link->pieces[lane].len > 0)) {
        take_piece(link, lane, rec);
    } else if (rec->len > NX_FRAME_MAX) {
        bad(link, "a frame that is too long");
    } else {
        memcpy(link->shm->frame, rec->data, rec->len);
        frame_up(link, lane, link->shm->frame, rec->len);
    }
}

/* ---- the other records --------------------------------------------------------------- */

static void take_data(nx_shm_link *link, const nx_record *rec)
{
    nx_rec_data head;

    if (rec->len < sizeof(head)) {
        bad(link, "a piece of a message that is too short");
        return;
    }
    memcpy(&head, rec->data, sizeof(head));
    link->bytes_received += rec->len - sizeof(head);
    if (head.off > UINT64_MAX - rec->len) {
        bad(link, "a piece of a message that cannot be");
    } else if (nx_shm_listens(link)) {
        link->part_ended = (rec->len >= LARGE);
        link->base.up->on_data(link->base.up_ctx, &link->base, head.id, head.off,
                               rec->data + sizeof(head), rec->len - sizeof(head));
    }
}

static void take_offer(nx_shm_link *link, const nx_record *rec)
{
    nx_rec_offer offer = {0};

    memcpy(&offer, rec->data, (rec->len < sizeof(offer)) ? rec->len : sizeof(offer));
    if (!nx_shm_reads_add(link, &offer, rec->len)) {
        bad(link, "an offer that cannot be");
    }
}

static void take_push(nx_shm_link *link, const nx_record *rec)
{
    nx_rec_push head;

    if (rec->len <= sizeof(head)) {
        bad(link, "a piece of a message that is too short");
        return;
    }
    memcpy(&head, rec->data, sizeof(head));
    if (!nx_shm_reads_pushed(link, &head, rec->data + sizeof(head), rec->len - sizeof(head))) {
        bad(link, "a piece of a message that cannot be");
    }
}

static void take_done(nx_shm_link *link, const nx_record *rec)
{
    nx_rec_done done = {0};

    memcpy(&done, rec->data, (rec->len < sizeof(done)) ? rec->len : sizeof(done));
    if (rec->len != sizeof(done)) {
        bad(link, "an answer of a wrong length");
    } else if (rec->kind == NX_REC_CANCEL) {
        if (!nx_shm_reads_cancel(link, done.slot, done.number)) {
            bad(link, "a wish that cannot be");
        }
    } else if (!nx_shm_lent_back(link, &done)) {
        bad(link, "an answer to what was not offered");
    }
}

static void take_record(nx_shm_link *link, nx_shm_ring ring, const nx_record *rec)
{
    if ((ring != NX_SHM_DATA) && (rec->kind == NX_REC_FRAME)) {
        take_frame(link, (ring == NX_SHM_CONTROL) ? NX_LANE_CONTROL : NX_LANE_MESSAGE, rec);
    } else if ((ring == NX_SHM_DATA) && (rec->kind == NX_REC_DATA)) {
        take_data(link, rec);
    } else if ((ring == NX_SHM_DATA) && (rec->kind == NX_REC_PUSH)) {
        take_push(link, rec);
    } else if ((ring == NX_SHM_DATA) && (rec->kind == NX_REC_OFFER)) {
        take_offer(link, rec);
    } else if ((ring == NX_SHM_CONTROL) &&
               ((rec->kind == NX_REC_DONE) || (rec->kind == NX_REC_CANCEL))) {
        take_done(link, rec);
    } else {
        bad(link, "a record of no known kind");
    }
}

/* ---- polling ------------------------------------------------------------------------- */

/* Lets the writer overwrite what was read; the writer may be waiting for this. */
static void release(nx_shm_link *link, nx_shm_ring ring)
{
    if (nx_ring_release(&link->in[ring])) {
        nx_shm_wake(link);
    }
}

/* Reads at most |most| records; |all|: also after the end of a long part. */
static void take_ring(nx_shm_link *link, nx_shm_ring ring, int most, bool all)
{
    nx_ring_in *in = &link->in[ring];
    nx_record rec;

    link->part_ended = false;
    while ((link->state == NX_SHM_UP) && (most-- > 0)) {
        if ((ring != NX_SHM_CONTROL) && nx_ring_waiting(&link->in[NX_SHM_CONTROL])) {
            take_ring(link, NX_SHM_CONTROL, RECORDS, all);
            continue;
        }
        if (!nx_ring_peek(in, &rec)) {
            break;
        }
        take_record(link, ring, &rec);
        nx_ring_next(in);
        if (rec.len >= LARGE) {
            release(link, ring); /* the writer continues while the next record is read */
        }
        if (link->part_ended && !all) {
            break; /* a part is done: its owner may now set another destination for the next part */
        }
    }
    if (in->broken) {
        bad(link, "positions that cannot be");
    }
}

void nx_shm_poll(nx_shm_link *link)
{
    nx_shm_notify_up(link);
    for (int ring = 0; ring < NX_SHM_RINGS; ring++) {
        take_ring(link, (nx_shm_ring)ring, RECORDS, false);
    }
    for (int ring = 0; ring < NX_SHM_RINGS; ring++) {
        release(link, (nx_shm_ring)ring);
    }
    if (link->state == NX_SHM_UP) {
        nx_shm_reads_run(link);
    }
    if (nx_shm_can_pump(link, false)) {
        nx_shm_pump(link);
    }
}

/* Whether only frames of the message lane may be pending, in or out: everything else makes progress
 * only in polls. */
static bool is_plain(const nx_shm_link *link)
{
    return nx_shm_listens(link) && link->told_up && (link->nreads == 0) && !link->more &&
           ((link->need[NX_SHM_CONTROL] | link->need[NX_SHM_MESSAGE] | link->need[NX_SHM_DATA]) ==
            0) &&
           !nx_ring_waiting(&link->in[NX_SHM_CONTROL]) && !nx_ring_waiting(&link->in[NX_SHM_DATA]);
}

bool nx_shm_peek_frame(nx_link *base, nx_bytes *frame)
{
    nx_shm_link *link = nx_shm_from_base(base);
    nx_record rec;

    if (!is_plain(link) || !nx_ring_peek(&link->in[NX_SHM_MESSAGE], &rec) ||
        (rec.kind != NX_REC_FRAME) || (rec.flags != 0) || (link->pieces[NX_LANE_MESSAGE].len > 0) ||
        (rec.len > NX_FRAME_MAX)) {
        return false;
    }
    link->peeked = rec.len;
    *frame = (nx_bytes){.ptr = rec.data, .len = rec.len};
    return true;
}

void nx_shm_drop_frame(nx_link *base)
{
    nx_shm_link *link = nx_shm_from_base(base);

    link->bytes_received += link->peeked;
    nx_ring_next(&link->in[NX_SHM_MESSAGE]);
    release(link, NX_SHM_MESSAGE);
}

bool nx_shm_waiting(nx_shm_link *link, bool sleep)
{
    for (int i = 0; i < NX_SHM_RINGS; i++) {
        if (nx_ring_waiting(&link->in[i])) {
            return true;
        }
    }
    return nx_shm_reads_ready(link, sleep) || nx_shm_can_pump(link, sleep);
}

/* Copies the peer's last frame first: the peer may still modify it. */
static void take_last(nx_shm_link *link)
{
    const nx_segment_way *way = nx_shm_way_in(link);
    const uint32_t len = *(const volatile uint32_t *)&way->last_len;

    if ((len > 0) && (len <= NX_LAST_MAX) && (link->state == NX_SHM_UP)) {
        memcpy(link->shm->frame, way->last, len);
        frame_up(link, NX_LANE_CONTROL, link->shm->frame, len);
    }
}

void nx_shm_hangup(nx_shm_link *link, const char *why)
{
    uint32_t closed;

    /* At most the content of the rings: a peer that keeps writing is ignored. */
    nx_shm_notify_up(link);
    for (int ring = 0; ring < NX_SHM_RINGS; ring++) {
        take_ring(link, (nx_shm_ring)ring, (int)(link->in[ring].size / NX_RING_HEAD), true);
    }
    closed = atomic_load(&nx_shm_way_in(link)->closed);
    if (closed == NX_SHM_DISMISSED) {
        take_last(link);
    }
    link->base.ended = (closed == NX_SHM_LEFT) ? NX_END_LEFT : NX_END_GONE;
    nx_shm_link_down(link, NEXAR_EPEER, "%s",
                     (closed == NX_SHM_OPEN)   ? why
                     : (closed == NX_SHM_LEFT) ? "the peer closed the link"
                                               : "the peer closed the link without a good-bye");
}
