/*
 * reads.c - offered parts: taken from the ring, or read from the sender's memory.
 *
 * An offer names memory of the sender. While the sender copies the part into the ring, this rank
 * takes it from there. When nothing has arrived for a while, or this rank would sleep, it takes the
 * remainder (claim.h). The sender keeps the memory until this rank sends DONE. The remainder is
 * read in slices, alternating with other offers and with the rings. A slice goes directly into its
 * destination if the owner has one, otherwise into a buffer that stays in the cache.
 *
 * Whether the ring is faster depends on the positions of the two cores, and a hypervisor migrates
 * them. With 46 ns for a word between the cores, 1 MiB takes 55 us by the ring and 90 when read by
 * the receiver; with 236 ns it takes 190 and 100. So the receiver measures both
 * (adaptive_choice.h), and takes an offer immediately if reading is faster now.
 *
 * A read counts only if the sender had not closed the link before its end: the sender announces the
 * close in the segment before it returns the memory to its owner.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "base/alloc.h"
#include "base/memory/nontemporal_copy.h"
#include "base/os/sys.h"
#include "base/wait/machine_costs.h"
#include "shm_inner.h"

/* The reader waits while the sender is not silent for longer than this and at least this much is
 * left: half of the rest comes through the ring in less time than a read of it would take. */
enum { PATIENCE_BYTES = 1 << 20 };
/* Bytes: classes of parts. */
enum { MIDDLE = 256 << 10, LONG = 4 << 20 };

bool nx_shm_reads_probe(const nx_shm_link *link, uint64_t at, uint64_t token)
{
    uint64_t got = 0;
    const struct iovec to = {.iov_base = &got, .iov_len = sizeof(got)};
    struct iovec from;

    /* An address in the other process, not valid in this one. */
    from.iov_base = (void *)(uintptr_t)at; // NOLINT(performance-no-int-to-ptr)
    from.iov_len = sizeof(got);

    return !link->shm->config.no_reading && (link->peer != NULL) &&
           (nx_sys_process_vm_readv(link->pid, &to, 1, &from, 1) == (ssize_t)sizeof(got)) &&
           !nx_pidfd_exited(link->peer) && (got == token);
}

/* ---- offers come and go -------------------------------------------------------------- */

/* How long the sender of |r| may be silent now. The sender puts 256 KiB into the ring, and takes as
 * much from another ring, in less than the time of a wake-up and of 1 MiB. A sender that has begun
 * to push may have been preempted for a moment. It gets half of the time that the rest would take
 * through the ring, because the ring is faster than reading here; otherwise it would not be in
 * use. */
static uint64_t patience(const nx_shm_read *r)
{
    const nx_machine_costs *costs = nx_machine_costs_get();
    const uint64_t rest = r->offer.len - r->done;
    const uint64_t least_ns = costs->park_ns + nx_machine_costs_copy(costs, PATIENCE_BYTES);
    const uint64_t span_ns = nx_machine_costs_copy(costs, rest) / 2;

    return ((r->done == 0) || (span_ns < least_ns)) ? least_ns : span_ns;
}

/* Takes the bytes that the sender has not claimed. False: all of it comes through the ring. */
static bool take_rest(nx_shm_link *link, nx_shm_read *r)
{
    nx_claim *claim = &nx_shm_way_in(link)->claims[r - link->reads];
    const uint64_t units = (r->offer.len + NX_SHM_CHUNK - 1) / NX_SHM_CHUNK;
    uint32_t claimed;

    if (!r->taken &&
        nx_claim_take(claim, r->offer.number,
                      (uint32_t)((units < NX_CLAIM_UNITS) ? units : NX_CLAIM_UNITS), &claimed)) {
        r->taken = true;
        r->pushed = (uint64_t)claimed * NX_SHM_CHUNK;
    }
    link->heard_ns = nx_loop_now(link->shm->config.loop);
    return r->taken;
}

/* ---- choice of the method ------------------------------------------------------------ */

static nx_adaptive *ways_for(nx_shm_link *link, uint64_t len)
{
    return &link->ways[(len < MIDDLE) ? 0 : (len < LONG) ? 1 : 2];
}

/* An offer has arrived. The first of several concurrent offers chooses the method. Its measurement
 * counts all bytes that arrived during it, including those of other offers. Concurrent offers
 * follow its choice; offers behind them use the best known method, without trials. */
static void choose_way(nx_shm_link *link, nx_shm_read *r)
{
    nx_adaptive *w = ways_for(link, r->offer.len);

    if (link->nreads > 1) {
        link->watched =
            (link->watched == r) ? NULL : link->watched; /* an earlier offer in this slot */
        if ((link->watched != NULL) ? (link->way == NX_BY_READING)
                                    : ((w->now == NX_BY_READING) && !w->trying)) {
            (void)take_rest(link, r);
        }
        return;
    }
    link->way = nx_adaptive_next(w);
    link->watched = ((link->way == NX_BY_RING) || take_rest(link, r)) ? r : NULL;
    link->watched_ns = nx_loop_refresh(link->shm->config.loop);
    link->watched_bytes = link->bytes_received;
}

/* |r|, of |len| bytes, is complete. */
static void note_end(nx_shm_link *link, const nx_shm_read *r, uint64_t len)
{
    if (link->watched == r) {
        nx_adaptive_took(ways_for(link, len), link->way, link->bytes_received - link->watched_bytes,
                         nx_loop_refresh(link->shm->config.loop) - link->watched_ns);
        link->watched = NULL;
    }
}

/* ---- new offers ---------------------------------------------------------------------- */

bool nx_shm_reads_add(nx_shm_link *link, const nx_rec_offer *offer, size_t len)
{
    nx_shm_read *r = &link->reads[offer->slot % NX_SHM_OFFERS];
    uint64_t sum = 0;

    if ((offer->slot >= NX_SHM_OFFERS) || r->used || (offer->nspans == 0) ||
        (offer->nspans > NX_SHM_SPANS) ||
        (len != offsetof(nx_rec_offer, spans) + offer->nspans * sizeof(nx_rec_span))) {
        return false;
    }
    for (uint32_t i = 0; i < offer->nspans; i++) {
        if ((offer->spans[i].len == 0) || (offer->spans[i].len > offer->len - sum)) {
            return false;
        }
        sum += offer->spans[i].len;
    }
    if ((sum != offer->len) || (offer->off > UINT64_MAX - sum)) {
        return false;
    }
    *r = (nx_shm_read){.used = true, .offer = *offer};
    link->heard_ns = nx_loop_now(link->shm->config.loop);
    link->nreads++;
    choose_way(link, r);
    return true;
}

/* Only for what was taken. */
static void finish(nx_shm_read *r, nx_done how)
{
    r->over = true;
    r->how = how;
}

bool nx_shm_reads_cancel(nx_shm_link *link, uint32_t slot, uint32_t number)
{
    nx_shm_read *r = &link->reads[slot % NX_SHM_OFFERS];

    if (slot >= NX_SHM_OFFERS) {
        return false;
    }
    if (r->used && !r->over && (r->offer.number == number) && take_rest(link, r)) {
        finish(r, NX_DONE_DROPPED);
    } /* otherwise the DONE or the offer is in flight: its arrival triggers the read */
    return true;
}

bool nx_shm_reads_send_done(nx_shm_link *link)
{
    for (uint32_t slot = 0; (link->nreads > 0) && (slot < NX_SHM_OFFERS); slot++) {
        nx_shm_read *r = &link->reads[slot];
        nx_rec_done done = {
            .read = r->done, .slot = slot, .number = r->offer.number, .how = (uint32_t)r->how};
        void *at;

        if (!r->used || !r->over) {
            continue;
        }
        at = nx_shm_reserve(link, NX_SHM_CONTROL, sizeof(done));
        if (at == NULL) {
            return false;
        }
        memcpy(at, &done, sizeof(done));
        nx_shm_commit(link, NX_SHM_CONTROL, NX_REC_DONE, 0, sizeof(done));
        r->used = false;
        link->nreads--;
    }
    return true;
}

/* ---- a slice ------------------------------------------------------------------------- */

/* Lists |len| bytes from the current position of |r|. */
static size_t locate(const nx_shm_read *r, size_t len, struct iovec *from)
{
    uint64_t in = r->in_span;
    size_t n = 0;

    for (uint32_t i = r->span; (len > 0) && (i < r->offer.nspans); i++) {
        const nx_rec_span *span = &r->offer.spans[i];
        uint64_t left = span->len - in;

        from[n].iov_base = (void *)(uintptr_t)(span->at + in); // NOLINT(performance-no-int-to-ptr)
        from[n].iov_len = (left < len) ? (size_t)left : len;
        len -= from[n++].iov_len;
        in = 0;
    }
    return n;
}

static void advance(nx_shm_read *r, uint64_t n)
{
    r->done += n;
    while (n > 0) {
        uint64_t left = r->offer.spans[r->span].len - r->in_span;

        if (n < left) {
            r->in_span += n;
            return;
        }
        n -= left;
        r->span++;
        r->in_span = 0;
    }
}

/* Passes up bytes of a very long part, copied to their destination by non-temporal stores if there
 * is one. */
static void put_past(nx_shm_link *link, uint64_t id, uint64_t at, const uint8_t *data, size_t len)
{
    const nx_link_up *up = link->base.up;

    while ((len > 0) && nx_shm_listens(link)) {
        size_t n = len;
        void *to =
            (up->on_want == NULL) ? NULL : up->on_want(link->base.up_ctx, &link->base, id, at, &n);

        if (to == NULL) {
            n = len;
        } else {
            nx_nontemporal_piece(to, data, n);
        }
        up->on_data(link->base.up_ctx, &link->base, id, at, (to == NULL) ? data : to, n);
        at += n;
        data += n;
        len -= n;
    }
}

bool nx_shm_reads_pushed(nx_shm_link *link, const nx_rec_push *head, const void *data, size_t len)
{
    nx_shm_read *r = &link->reads[head->slot % NX_SHM_OFFERS];
    const nx_link_up *up = link->base.up;
    const uint64_t id = r->offer.id, at = r->offer.off + r->done, whole = r->offer.len;
    const uint64_t end = r->taken ? r->pushed : r->offer.len;
    bool last;

    if (head->slot >= NX_SHM_OFFERS) {
        return false;
    }
    if (!r->used || r->over || (r->offer.number != head->number)) {
        return true; /* the offer was cancelled */
    }
    if ((r->done > end) || (len > end - r->done)) {
        return false;
    }
    advance(r, len);
    link->heard_ns = nx_loop_now(link->shm->config.loop);
    link->bytes_received += len;
    last = (r->done == r->offer.len);
    if (last) { /* the sender knows already */
        r->used = false;
        link->nreads--;
        link->part_ended = true;
    } else if (r->offer.len - r->done >= PATIENCE_BYTES) {
        nx_loop_expect(link->shm->config.loop, link->heard_ns + patience(r));
    }
    if (whole >= nx_machine_costs_past_cache(nx_machine_costs_get())) {
        put_past(link, id, at, data, len);
    } else if (nx_shm_listens(link)) {
        up->on_data(link->base.up_ctx, &link->base, id, at, data, len);
    }
    if (last) {
        note_end(link, r, whole);
    }
    return true;
}

/* The destination of the next bytes of |r|; NULL: no memory. */
static void *place(nx_shm_link *link, const nx_shm_read *r, size_t *len)
{
    const nx_link_up *up = link->base.up;
    uint64_t left = r->offer.len - r->done;
    void *at = NULL;

    *len = (left < NX_SHM_SLICE) ? (size_t)left : NX_SHM_SLICE;
    if (up->on_want != NULL) {
        at = up->on_want(link->base.up_ctx, &link->base, r->offer.id, r->offer.off + r->done, len);
    }
    if (at != NULL) {
        return at;
    }
    *len = (left < NX_SHM_BOUNCE) ? (size_t)left : NX_SHM_BOUNCE;
    if (link->shm->bounce == NULL) {
        link->shm->bounce = nx_alloc_aligned(NX_SHM_PAGE, NX_SHM_BOUNCE);
    }
    return link->shm->bounce;
}

/* Memory that cannot be read comes through the ring instead; if no memory can be read, all later
 * parts do too. */
static void give_back(nx_shm_link *link, nx_shm_read *r, int code)
{
    if (code != EFAULT) {
        atomic_store(&nx_shm_way_in(link)->reads, NX_READS_NO);
    }
    finish(r, NX_DONE_UNREADABLE);
}

/* Whether the bytes read are the peer's: the peer has not closed the link, nor has its process
 * exited, its pid perhaps reused. A process that has executed another program has hung up. 1: they
 * are. 0: the hangup is in flight. -1, with errno: the kernel does not say. */
static int still_there(const nx_shm_link *link)
{
    /* Not POLLIN of the socket: descriptors arrive there too (nx_shm_pass). */
    struct pollfd ends[] = {{.fd = link->socket.fd, .events = POLLRDHUP},
                            {.fd = nx_pidfd_fd(link->peer), .events = POLLIN}};
    int ended;

    if (atomic_load(&nx_shm_way_in(link)->closed) != 0) {
        return 0;
    }
    ended = nx_sys_poll(ends, sizeof(ends) / sizeof(ends[0]), 0);
    return (ended < 0) ? -1 : (ended == 0);
}

static void read_slice(nx_shm_link *link, nx_shm_read *r)
{
    struct iovec to, from[NX_SHM_SPANS];
    uint64_t at = r->offer.off + r->done;
    size_t len, n;
    ssize_t got;
    int code, there;

    to.iov_base = place(link, r, &len);
    if (to.iov_base == NULL) {
        nx_shm_link_down(link, NEXAR_ENOMEM, "no memory to read the peer's");
        return;
    }
    to.iov_len = len;
    n = locate(r, len, from);
    got = nx_sys_process_vm_readv(link->pid, &to, 1, from, n);
    code = (got < 0) ? errno : EFAULT;
    there = still_there(link);
    if (there < 0) {
        (void)nx_fail_sys("poll", "the socket of a pair", errno);
        nx_shm_link_down(link, NEXAR_ESYS, "%s", nexar_last_error());
    } else if (there == 0) {
        finish(r, NX_DONE_DROPPED);
    } else if (got <= 0) {
        give_back(link, r, code);
    } else {
        advance(r, (size_t)got);
        link->bytes_received += (size_t)got;
        if (r->done == r->offer.len) {
            finish(r, NX_DONE_READ);
        }
        link->base.up->on_data(link->base.up_ctx, &link->base, r->offer.id, at, to.iov_base,
                               (size_t)got);
        if (r->over) {
            note_end(link, r, r->offer.len);
        }
    }
}

/* Whether this rank may read: the pushed bytes have arrived, and the rest is claimed for
 * reading. */
static bool is_ours(const nx_shm_read *r)
{
    return r->used && !r->over && r->taken && (r->done >= r->pushed);
}

bool nx_shm_reads_ready(nx_shm_link *link, bool sleep)
{
    bool ready = false;

    for (int i = 0; (link->nreads > 0) && (i < NX_SHM_OFFERS); i++) {
        nx_shm_read *r = &link->reads[i];

        if (r->used && !r->taken &&
            (sleep || (nx_loop_now(link->shm->config.loop) - link->heard_ns >= patience(r)))) {
            link->watched = take_rest(link, r) ? NULL : link->watched;
        }
        ready = ready || is_ours(r);
    }
    return ready;
}

void nx_shm_reads_run(nx_shm_link *link)
{
    for (unsigned i = 0; (link->nreads > 0) && (i < NX_SHM_OFFERS); i++) {
        unsigned slot = (link->next_read + i) % NX_SHM_OFFERS;
        nx_shm_read *r = &link->reads[slot];

        if (r->used && !r->over && !nx_shm_listens(link) && take_rest(link, r)) {
            finish(r, NX_DONE_DROPPED);
        }
        if (!is_ours(r)) {
            continue;
        }
        read_slice(link, r);
        link->next_read = slot + 1;
        break;
    }
    if (link->state == NX_SHM_UP) {
        (void)nx_shm_reads_send_done(link);
    }
}
