/*
 * out.c - from queues to rings.
 *
 * A record that does not fit leaves its length in |need|; nothing enters that ring before the
 * record does. The peer's next release wakes this rank (nx_ring_stick).
 *
 * Parts are copied into the data ring, alternating, a chunk at a time. Long parts are first
 * offered, so that the peer can read the remainder from this rank's memory, and confirm it, if this
 * rank does not copy it in time (claim.h). nx_tx.stream and nx_tx.acked are the stretch that
 * contains byte |queued|, and the offset in it.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/memory/copy.h"
#include "base/wait/machine_costs.h"
#include "shm_inner.h"

enum { TURN = 32 }; /* chunks of one offer, then the next one's */

void *nx_shm_reserve(nx_shm_link *link, nx_shm_ring ring, uint32_t len)
{
    void *at = nx_ring_reserve(&link->out[ring], len);

    link->need[ring] = (at == NULL) ? len : 0;
    return at;
}

void nx_shm_commit(nx_shm_link *link, nx_shm_ring ring, uint8_t kind, uint8_t flags, uint32_t len)
{
    nx_ring_commit(&link->out[ring], kind, flags, len);
    nx_shm_dirty(link);
}

/* ---- frames -------------------------------------------------------------------------- */

/* Copies [from, from + len) of the stretches. */
static void gather(uint8_t *to, const nx_bytes *bytes, size_t from, size_t len)
{
    for (; len > 0; bytes++) {
        size_t n;

        if (from >= bytes->len) {
            from -= bytes->len;
            continue;
        }
        n = (bytes->len - from < len) ? bytes->len - from : len;
        nx_memcpy(to, (const uint8_t *)bytes->ptr + from, n);
        to += n;
        len -= n;
        from = 0;
    }
}

bool nx_shm_put_frame(nx_shm_link *link, nx_lane lane, const nx_bytes *bytes, size_t n,
                      size_t *sent)
{
    nx_shm_ring ring = (lane == NX_LANE_CONTROL) ? NX_SHM_CONTROL : NX_SHM_MESSAGE;
    size_t most = nx_ring_most(link->out[ring].size), len = 0;

    for (size_t i = 0; i < n; i++) {
        len += bytes[i].len;
    }
    do {
        size_t piece = (len - *sent < most) ? len - *sent : most;
        uint8_t *at = nx_shm_reserve(link, ring, (uint32_t)piece);

        if (at == NULL) {
            return false;
        }
        gather(at, bytes, *sent, piece);
        *sent += piece;
        nx_shm_commit(link, ring, NX_REC_FRAME, (*sent < len) ? NX_REC_MORE : 0, (uint32_t)piece);
        link->bytes_sent += piece;
    } while (*sent < len);
    return true;
}

static bool pump_frames(nx_shm_link *link, nx_lane lane)
{
    while (!nx_list_empty(&link->frames[lane])) {
        nx_shm_frame *f = nx_list_entry(link->frames[lane].next, nx_shm_frame, link);
        nx_bytes bytes = {.ptr = f->data, .len = f->len};

        if (!nx_shm_put_frame(link, lane, &bytes, 1, &f->sent)) {
            return false;
        }
        nx_list_remove(&f->link);
        nx_free(f);
    }
    return true;
}

/* ---- parts --------------------------------------------------------------------------- */

void nx_shm_part_queue(nx_shm_link *link, nx_tx *tx)
{
    bool readable =
        (link->state == NX_SHM_UP) && (atomic_load(&nx_shm_way_out(link)->reads) == NX_READS_YES);

    tx->owner = NULL;
    nx_list_push_back((readable && (tx->len - tx->queued >= NX_SHM_OFFER_LEAST)) ? &link->big
                                                                                 : &link->small,
                      &tx->link);
}

/* The stretch that contains byte |queued|, and the bytes left in it. */
static const uint8_t *part_at(nx_tx *tx, size_t *left)
{
    while (tx->acked == tx->bytes[tx->stream].len) {
        tx->stream++;
        tx->acked = 0;
    }
    *left = tx->bytes[tx->stream].len - (size_t)tx->acked;
    return (const uint8_t *)tx->bytes[tx->stream].ptr + tx->acked;
}

static void part_advance(nx_tx *tx, size_t n)
{
    tx->acked += n;
    tx->queued += n;
}

/* Back to byte |to|. */
static void part_rewind(nx_tx *tx, uint64_t to)
{
    size_t left;

    tx->stream = tx->acked = tx->queued = 0;
    while (tx->queued < to) {
        (void)part_at(tx, &left);
        part_advance(tx, (to - tx->queued < left) ? (size_t)(to - tx->queued) : left);
    }
}

static bool put_chunk(nx_shm_link *link, nx_tx *tx)
{
    const nx_rec_data head = {.id = tx->id, .off = tx->off + tx->queued};
    uint64_t rest = tx->len - tx->queued;
    size_t len = (rest < NX_SHM_CHUNK) ? (size_t)rest : NX_SHM_CHUNK;
    uint8_t *at = nx_shm_reserve(link, NX_SHM_DATA, (uint32_t)(sizeof(head) + len));

    if (at == NULL) {
        return false;
    }
    memcpy(at, &head, sizeof(head));
    for (size_t done = 0; done < len;) {
        size_t left;
        const uint8_t *from = part_at(tx, &left);
        size_t n = (left < len - done) ? left : len - done;

        nx_memcpy(at + sizeof(head) + done, from, n);
        part_advance(tx, n);
        done += n;
    }
    nx_shm_commit(link, NX_SHM_DATA, NX_REC_DATA, 0, (uint32_t)(sizeof(head) + len));
    link->bytes_sent += len;
    if (len == NX_SHM_CHUNK) {
        nx_shm_publish(link); /* the peer reads it while this rank copies the next */
    }
    return true;
}

/* Copies a chunk of one short part; false: no room. */
static bool pump_small(nx_shm_link *link)
{
    nx_tx *tx = nx_list_entry(link->small.next, nx_tx, link);

    if (!put_chunk(link, tx)) {
        return false;
    }
    nx_list_remove(&tx->link);
    if (tx->queued == tx->len) {
        nx_shm_part_end(link, tx, NEXAR_OK);
    } else {
        nx_list_push_back(&link->small, &tx->link); /* parts alternate */
    }
    return true;
}

/* Names the next stretches of |tx|. */
static void make_offer(nx_tx *tx, nx_rec_offer *offer)
{
    *offer = (nx_rec_offer){.id = tx->id, .off = tx->off + tx->queued};
    while ((tx->queued < tx->len) && (offer->nspans < NX_SHM_SPANS)) {
        nx_rec_span *span = &offer->spans[offer->nspans++];
        size_t left;

        span->at = (uint64_t)(uintptr_t)part_at(tx, &left);
        span->len = left;
        offer->len += left;
        part_advance(tx, left);
    }
}

static nx_shm_lent *free_slot(nx_shm_link *link)
{
    for (int i = 0; i < NX_SHM_OFFERS; i++) {
        if (link->lent[i].tx == NULL) {
            return &link->lent[i];
        }
    }
    return NULL;
}

/* The reader takes some time for |len| bytes, twice what this process measured at most, and may
 * have to be woken first. If this rank slept during that time, its own wake-up would come on
 * top. */
static void expect(nx_shm_link *link, uint64_t len)
{
    nx_loop *loop = link->shm->config.loop;
    const nx_machine_costs *costs = nx_machine_costs_get();

    nx_loop_expect(loop,
                   nx_loop_now(loop) + costs->park_ns + 2 * nx_machine_costs_read(costs, len));
}

/* Offers long parts; false: no room. */
static bool pump_offers(nx_shm_link *link)
{
    while (!nx_list_empty(&link->big) && (link->nlent < NX_SHM_OFFERS)) {
        nx_tx *tx = nx_list_entry(link->big.next, nx_tx, link);
        nx_shm_lent *lent = free_slot(link);
        void *at = nx_shm_reserve(link, NX_SHM_DATA, sizeof(nx_rec_offer));
        const size_t stretch = (size_t)tx->stream, in = (size_t)tx->acked;
        nx_rec_offer offer;
        uint32_t len;

        if (at == NULL) {
            return false;
        }
        make_offer(tx, &offer);
        nx_list_remove(&tx->link);
        if (offer.len < NX_SHM_OFFER_LEAST) { /* crumbs */
            part_rewind(tx, offer.off - tx->off);
            nx_list_push_back(&link->small, &tx->link);
            continue;
        }
        offer.slot = (uint32_t)(lent - link->lent);
        offer.number = ++link->numbers;
        *lent = (nx_shm_lent){
            .tx = tx, .len = offer.len, .stretch = stretch, .in = in, .number = offer.number};
        nx_claim_open(&nx_shm_way_out(link)->claims[offer.slot], offer.number);
        link->nlent++;
        tx->owner = lent;
        len = (uint32_t)(offsetof(nx_rec_offer, spans) + offer.nspans * sizeof(nx_rec_span));
        memcpy(at, &offer, len);
        nx_shm_commit(link, NX_SHM_DATA, NX_REC_OFFER, 0, len);
        expect(link, offer.len);
    }
    return true;
}

/* ---- pushing what was offered -------------------------------------------------------- */

/* The part of |lent| is transferred up to the end of its offer. */
static void lent_ends(nx_shm_link *link, nx_shm_lent *lent)
{
    nx_tx *tx = lent->tx;

    lent->tx = NULL;
    link->nlent--;
    link->cancels &= ~(1U << (lent - link->lent));
    if (tx->queued == tx->len) {
        nx_shm_part_end(link, tx, NEXAR_OK);
    } else {
        nx_shm_part_queue(link, tx);
    }
}

/* Copies the next |len| bytes of |lent|. */
static void push_bytes(nx_shm_lent *lent, uint8_t *to, size_t len)
{
    const nx_bytes *bytes = lent->tx->bytes;

    lent->pushed += len;
    while (len > 0) {
        const size_t left = bytes[lent->stretch].len - lent->in;
        const size_t n = (left < len) ? left : len;

        if (n > 0) {
            nx_memcpy(to, (const uint8_t *)bytes[lent->stretch].ptr + lent->in, n);
        }
        to += n;
        len -= n;
        lent->in += n;
        if (n == left) {
            lent->stretch++;
            lent->in = 0;
        }
    }
}

/* Copies a chunk of |lent| into the ring, unless the peer reads it; false: no room. */
static bool push_chunk(nx_shm_link *link, nx_shm_lent *lent)
{
    const nx_rec_push head = {.slot = (uint32_t)(lent - link->lent), .number = lent->number};
    const uint64_t rest = lent->len - lent->pushed;
    const size_t len = (rest < NX_SHM_CHUNK) ? (size_t)rest : NX_SHM_CHUNK;
    uint8_t *at = nx_shm_reserve(link, NX_SHM_DATA, (uint32_t)(sizeof(head) + len));

    if (at == NULL) {
        return false;
    }
    if (!nx_claim_next(&nx_shm_way_out(link)->claims[head.slot])) {
        lent->taken = true; /* the reserved space is not used */
        return true;
    }
    memcpy(at, &head, sizeof(head));
    push_bytes(lent, at + sizeof(head), len);
    nx_shm_commit(link, NX_SHM_DATA, NX_REC_PUSH, 0, (uint32_t)(sizeof(head) + len));
    link->bytes_sent += len;
    nx_shm_publish(link); /* the peer reads it while this rank copies the next */
    if (lent->pushed == lent->len) {
        lent_ends(link, lent);
    }
    return true;
}

/* The next offer to push; NULL: there is none. */
static nx_shm_lent *pushed_next(nx_shm_link *link)
{
    for (unsigned i = 0; (link->nlent > 0) && (i < NX_SHM_OFFERS); i++) {
        const unsigned slot = (link->pushing + i) % NX_SHM_OFFERS;
        nx_shm_lent *lent = &link->lent[slot];

        if ((lent->tx == NULL) || lent->cancelled || lent->taken) {
            continue;
        }
        if ((i > 0) || (link->turn == 0)) {
            link->turn = TURN;
        }
        link->turn--;
        link->pushing = (link->turn > 0) ? slot : (slot + 1) % NX_SHM_OFFERS;
        return lent;
    }
    return NULL;
}

/* Fills the data ring; false: the ring is full. Bounded: |more| requests another call after other
 * links were served. */
static bool pump_data(nx_shm_link *link)
{
    nx_shm_lent *lent = NULL;

    link->more = false;
    link->need[NX_SHM_DATA] = 0; /* the peer may have taken the part, or its owner cancelled it */
    for (int i = 0; i < NX_SHM_CHUNKS; i++) {
        if (!pump_offers(link) || (!nx_list_empty(&link->small) && !pump_small(link))) {
            return false;
        }
        lent = pushed_next(link);
        if ((lent != NULL) && !push_chunk(link, lent)) {
            return false;
        }
        if ((lent == NULL) && nx_list_empty(&link->small)) {
            return true;
        }
    }
    link->more = true;
    return true;
}

/* ---- offers -------------------------------------------------------------------------- */

static bool pump_recalls(nx_shm_link *link)
{
    for (uint32_t slot = 0; (link->cancels != 0) && (slot < NX_SHM_OFFERS); slot++) {
        nx_rec_done want = {.slot = slot, .number = link->lent[slot].number};
        void *at;

        if ((link->cancels & (1U << slot)) == 0) {
            continue;
        }
        at = nx_shm_reserve(link, NX_SHM_CONTROL, sizeof(want));
        if (at == NULL) {
            return false;
        }
        memcpy(at, &want, sizeof(want));
        nx_shm_commit(link, NX_SHM_CONTROL, NX_REC_CANCEL, 0, sizeof(want));
        link->cancels &= ~(1U << slot);
    }
    return true;
}

void nx_shm_recall(nx_shm_link *link, nx_shm_lent *lent)
{
    if (!lent->cancelled) {
        lent->cancelled = true;
        link->cancels |= 1U << (lent - link->lent);
        nx_shm_pump(link);
    }
}

bool nx_shm_lent_back(nx_shm_link *link, const nx_rec_done *done)
{
    nx_shm_lent *lent = &link->lent[done->slot % NX_SHM_OFFERS];
    nx_shm_lent was = *lent;
    nx_tx *tx = was.tx;

    if ((done->slot >= NX_SHM_OFFERS) || (tx == NULL) || (was.number != done->number) ||
        (done->read > was.len) || (done->how > NX_DONE_UNREADABLE) ||
        ((done->how == NX_DONE_READ) && (done->read != was.len))) {
        return false;
    }
    link->bytes_sent += (done->read > was.pushed) ? done->read - was.pushed : 0;
    lent->tx = NULL;
    link->nlent--;
    link->cancels &= ~(1U << done->slot);
    if ((done->how == NX_DONE_READ) && (tx->queued == tx->len)) {
        nx_shm_part_end(link, tx, NEXAR_OK);
    } else if (was.cancelled) {
        nx_shm_part_end(link, tx, NEXAR_ECANCELED);
    } else if (done->how == NX_DONE_DROPPED) {
        nx_shm_part_end(link, tx, NEXAR_OK); /* the owner has closed the link in a callback */
    } else if (done->how == NX_DONE_UNREADABLE) {
        part_rewind(tx, tx->queued - was.len + done->read);
        tx->owner = NULL;
        nx_list_push_back(&link->small, &tx->link);
    } else {
        nx_shm_part_queue(link, tx);
    }
    nx_shm_pump(link);
    return true;
}

/* ---- all rings ----------------------------------------------------------------------- */

static bool pump_all(nx_shm_link *link)
{
    bool control =
        nx_shm_reads_send_done(link) && pump_recalls(link) && pump_frames(link, NX_LANE_CONTROL);
    bool message = pump_frames(link, NX_LANE_MESSAGE);

    return (int)control & (int)message & (int)pump_data(link);
}

void nx_shm_pump(nx_shm_link *link)
{
    if (link->state != NX_SHM_UP) {
        return;
    }
    while (!pump_all(link) && !link->more && nx_shm_can_pump(link, true)) {
    }
    for (int i = 0; i < NX_SHM_RINGS; i++) {
        if (link->out[i].broken) {
            nx_shm_link_down(link, NEXAR_EPROTO, "the peer has read what was not written");
            return;
        }
    }
    if (link->draining && nx_shm_all_sent(link)) {
        nx_shm_trouble(link);
    }
}

bool nx_shm_can_pump(nx_shm_link *link, bool sleep)
{
    if (link->more) {
        return true;
    }
    for (int i = 0; i < NX_SHM_RINGS; i++) {
        if ((link->need[i] != 0) && (sleep ? nx_ring_stick(&link->out[i], link->need[i])
                                           : nx_ring_fits(&link->out[i], link->need[i]))) {
            return true;
        }
    }
    return false;
}

bool nx_shm_all_sent(const nx_shm_link *link)
{
    return nx_list_empty(&link->frames[NX_LANE_CONTROL]) &&
           nx_list_empty(&link->frames[NX_LANE_MESSAGE]) && nx_list_empty(&link->big) &&
           nx_list_empty(&link->small) && (link->nlent == 0);
}
