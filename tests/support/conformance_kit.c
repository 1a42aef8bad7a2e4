/* conformance_kit.c - the ends of the conformance suite, which check every upcall. */
#include "conformance_kit.h"

#include <string.h>

#include "base/alloc.h"
#include "base/containers/vec.h"
#include "unit.h"

/* The bytes of all messages: a pattern whose period is prime, so that cuts fall at different
 * positions of it. The buffer has it twice, so that any piece up to a period is contiguous. */
enum { PERIOD = 1048573, OWN_MOST = 4 << 20 };
static uint8_t pattern[2 * PERIOD];

static void make_pattern(void)
{
    nx_random_seeded r;

    nx_random_seeded_init(&r, 7);
    nx_random_fill(&r.random, pattern, PERIOD);
    memcpy(pattern + PERIOD, pattern, PERIOD);
}

static size_t phase(uint64_t id, uint64_t off)
{
    return (size_t)((id * 7919 + off % PERIOD) % PERIOD);
}

static bool is_pattern(const uint8_t *data, size_t len, uint64_t id, uint64_t off)
{
    while (len > 0) {
        size_t n = (len < PERIOD) ? len : PERIOD;

        if (memcmp(data, pattern + phase(id, off), n) != 0) {
            return false;
        }
        data += n;
        off += n;
        len -= n;
    }
    return true;
}

uint64_t nxt_chance(nxt_rig *rig, uint64_t limit)
{
    return nx_random_below(&rig->random.random, limit);
}

/* ---- frames ------------------------------------------------------------------- */

/* Frame |seq| of a lane: its length and its start in the pattern. */
static size_t frame_len(const nxt_end *from, nx_lane lane, uint32_t seq)
{
    uint64_t h = (seq + 1) * UINT64_C(0x9e3779b97f4a7c15) + (uint64_t)lane * 12345;

    return (size_t)((h >> 20) % (from->frame_most + 1));
}

nexar_err nxt_send_frame(nxt_end *end, nx_lane lane)
{
    uint32_t seq = end->frames_sent[lane];
    size_t len = frame_len(end, lane, seq), cut = len / 3;
    uint8_t *copy = nx_zalloc(len);
    nx_bytes bytes[2];
    nexar_err err;

    if (copy == NULL) {
        return NEXAR_ENOMEM;
    }
    memcpy(copy, pattern + phase(seq, lane), len);
    bytes[0] = (nx_bytes){copy, cut};
    bytes[1] = (nx_bytes){copy + cut, len - cut};
    end->rig->in_operation++;
    err = nx_link_send_frame(end->link, lane, bytes, 2);
    if ((err == NEXAR_OK) && (nxt_chance(end->rig, 3) == 0)) {
        nx_link_push(end->link);
    }
    end->rig->in_operation--;
    memset(copy, 0xee, len); /* the transport copies frames on send */
    nx_free(copy);
    end->frames_sent[lane] += (err == NEXAR_OK);
    return err;
}

void nxt_send_frames(nxt_end *end, nx_lane lane, int n)
{
    for (int i = 0; i < n; i++) {
        assert_int_equal(nxt_send_frame(end, lane), NEXAR_OK);
    }
}

/* ---- parcels ------------------------------------------------------------------- */

static void free_parcel(nxt_parcel *p)
{
    nx_free(p->own);
    nx_free(p->bytes);
    nx_free(p);
}

/* Cuts a parcel's own memory into random stretches, some of them empty. */
static void cut_own(nxt_rig *rig, nxt_parcel *p, size_t n)
{
    size_t at = 0, len = (size_t)p->tx.len;

    for (size_t i = 0; i + 1 < n; i++) {
        size_t most = (len - at) / (n - i) * 2;
        size_t cut = (size_t)nxt_chance(rig, most + 1);

        cut = (cut > len - at) ? len - at : cut;
        p->bytes[i] = (nx_bytes){p->own + at, cut};
        at += cut;
    }
    p->bytes[n - 1] = (nx_bytes){p->own + at, len - at};
}

static void cut_shared(nxt_parcel *p, size_t n)
{
    uint64_t at = 0;

    for (size_t i = 0; i < n; i++) {
        uint64_t left = p->tx.len - at;

        p->bytes[i].ptr = pattern + phase(p->tx.id, p->tx.off + at);
        p->bytes[i].len = (left < PERIOD) ? (size_t)left : PERIOD;
        at += p->bytes[i].len;
    }
}

static nxt_parcel *make_parcel(nxt_end *end, uint64_t id, uint64_t off, uint64_t len, size_t n)
{
    nxt_parcel *p = nx_zalloc(sizeof(*p));
    bool own = (len <= OWN_MOST);

    if (p == NULL) {
        return NULL;
    }
    n = own ? n : (size_t)((len + PERIOD - 1) / PERIOD);
    p->from = end;
    p->own = own ? nx_zalloc((size_t)len) : NULL;
    p->bytes = nx_calloc(n, sizeof(*p->bytes));
    if ((own && (p->own == NULL)) || (p->bytes == NULL)) {
        free_parcel(p);
        return NULL;
    }
    p->tx = (nx_tx){.id = id, .off = off, .len = len, .bytes = p->bytes, .nbytes = n};
    if (own) {
        for (uint64_t at = 0; at < len; at += PERIOD) {
            uint64_t left = len - at;

            memcpy(p->own + at, pattern + phase(id, off + at),
                   (left < PERIOD) ? (size_t)left : PERIOD);
        }
        cut_own(end->rig, p, n);
    } else {
        cut_shared(p, n);
    }
    return p;
}

nxt_parcel *nxt_send_part(nxt_end *end, uint64_t id, uint64_t off, uint64_t len, size_t stretches,
                          nexar_err *err)
{
    nxt_parcel **grown = nx_vec_grow(end->parcels, &end->room, end->nparcels + 1, sizeof(void *));
    nxt_parcel *p = NULL;

    *err = NEXAR_ENOMEM;
    if (grown == NULL) {
        return NULL;
    }
    end->parcels = grown;
    p = make_parcel(end, (id == NXT_NEW) ? end->nparcels : id, off, len, stretches);
    if (p == NULL) {
        return NULL;
    }
    end->rig->in_operation++;
    *err = nx_link_send_part(end->link, &p->tx);
    end->rig->in_operation--;
    if (*err != NEXAR_OK) {
        free_parcel(p);
        return NULL;
    }
    end->parcels[end->nparcels++] = p;
    return p;
}

nxt_parcel *nxt_send(nxt_end *end, uint64_t len)
{
    nexar_err err;
    nxt_parcel *p = nxt_send_part(end, NXT_NEW, 0, len, 1, &err);

    assert_int_equal(err, NEXAR_OK);
    return p;
}

void nxt_cancel(nxt_parcel *parcel)
{
    nxt_rig *rig = parcel->from->rig;

    if (!parcel->cancelled && ((parcel->got < parcel->tx.len) || (parcel->calls == 0))) {
        parcel->from->parcels_excused++;
    }
    parcel->cancelled = true;
    rig->in_operation++;
    nx_link_cancel_part(parcel->from->link, &parcel->tx);
    rig->in_operation--;
}

/* The parcel that byte |off| of message |id| belongs to: |id| is the index of the message's
 * first parcel. */
static nxt_parcel *find_parcel(const nxt_end *from, uint64_t id, uint64_t off)
{
    for (size_t i = (size_t)id; i < from->nparcels; i++) {
        nxt_parcel *p = from->parcels[i];

        if (p->tx.id != id) {
            break;
        }
        if ((off >= p->tx.off) && ((off < p->tx.off + p->tx.len) || (off == p->tx.off))) {
            return p;
        }
    }
    return NULL;
}

/* ---- upcalls ------------------------------------------------------------------- */

/* Checks that apply to all upcalls. |late|: on_sent, which may also come before on_up and after
 * close. */
static nxt_end *called(void *ctx, nx_link *link, bool late)
{
    nxt_end *end = ctx;

    assert_int_equal(end->rig->in_operation, 0);
    assert_false(end->dead);
    assert_int_equal(end->downs, 0);
    if (!late) {
        assert_false(end->closed);
        if (end->link == NULL) {
            end->link = link;
        }
        assert_true(end->link == link);
    }
    return end;
}

static void on_up(void *ctx, nx_link *link)
{
    nxt_end *end = called(ctx, link, false);

    end->ups++;
    assert_int_equal(end->ups, 1);
}

static void on_frame(void *ctx, nx_link *link, nx_lane lane, const void *data, size_t len)
{
    nxt_end *end = called(ctx, link, false);
    uint32_t seq = end->frames_got[lane];

    assert_int_equal(end->ups, 1);
    if ((end->peer->last[0] != '\0') && (lane == NX_LANE_CONTROL) &&
        (len == sizeof(end->peer->last)) && (memcmp(data, end->peer->last, len) == 0)) {
        end->lasts++;
        return;
    }
    assert_int_equal(end->lasts, 0);
    assert_true(seq < end->peer->frames_sent[lane]);
    assert_int_equal(len, frame_len(end->peer, lane, seq));
    assert_true(is_pattern(data, len, seq, lane));
    end->frames_got[lane]++;
    if (end->then_frame != NULL) {
        end->then_frame(end, lane);
    }
}

static void on_data(void *ctx, nx_link *link, uint64_t id, uint64_t off, const void *data,
                    size_t len)
{
    nxt_end *end = called(ctx, link, false);
    nxt_parcel *p = find_parcel(end->peer, id, off);

    assert_int_equal(end->ups, 1);
    assert_true(p != NULL);
    assert_true(off == p->tx.off + p->got);
    assert_true(len <= p->tx.len - p->got);
    assert_true((len > 0) || ((p->tx.len == 0) && (p->calls == 0)));
    assert_true(is_pattern(data, len, id, off));
    p->got += len;
    p->calls++;
    end->bytes_got += len;
    if ((p->got == p->tx.len) && !p->cancelled) {
        p->from->parcels_arrived++;
    }
}

static void on_sent(void *ctx, nx_link *link, nx_tx *tx, nexar_err err)
{
    nxt_end *end = called(ctx, link, true);
    nxt_parcel *p = nx_list_entry(tx, nxt_parcel, tx);

    assert_true(p->from == end);
    assert_int_equal(p->sents, 0);
    assert_true((err != NEXAR_ECANCELED) || p->cancelled || end->closed);
    p->sents++;
    p->err = err;
    end->parcels_done++;
    if (p->own != NULL) {
        memset(p->own, 0xee, (size_t)p->tx.len); /* ours again: later reads see wrong bytes */
    }
    memset(p->bytes, 0xee, p->tx.nbytes * sizeof(*p->bytes));
    if (end->then_sent != NULL) {
        end->then_sent(end, p);
    }
}

static void on_down(void *ctx, nx_link *link, nexar_err err, const char *why)
{
    nxt_end *end = called(ctx, link, false);

    assert_int_not_equal(err, NEXAR_OK);
    assert_true((why != NULL) && (why[0] != '\0'));
    assert_int_equal(end->parcels_done, end->nparcels);
    end->downs++;
    end->down_err = err;
    if (end->then_down != NULL) {
        end->then_down(end);
    }
}

static const nx_link_up up = {.on_up = on_up,
                              .on_frame = on_frame,
                              .on_data = on_data,
                              .on_sent = on_sent,
                              .on_down = on_down};

/* ---- conditions ---------------------------------------------------------------- */

bool nxt_all_up(nxt_rig *rig)
{
    for (size_t i = 0; i < rig->n; i++) {
        if (rig->ends[i].ups == 0) {
            return false;
        }
    }
    return true;
}

static bool has_arrived(const nxt_end *from)
{
    for (int lane = 0; lane < NX_LANES; lane++) {
        if (from->peer->frames_got[lane] != from->frames_sent[lane]) {
            return false;
        }
    }
    return from->parcels_arrived + from->parcels_excused == from->nparcels;
}

bool nxt_all_arrived(nxt_rig *rig)
{
    for (size_t i = 0; i < rig->n; i++) {
        if (!has_arrived(&rig->ends[i])) {
            return false;
        }
    }
    return true;
}

bool nxt_all_told(nxt_rig *rig)
{
    for (size_t i = 0; i < rig->n; i++) {
        const nxt_end *end = &rig->ends[i];

        if (!end->dead && (end->parcels_done < end->nparcels)) {
            return false;
        }
    }
    return true;
}

bool nxt_all_settled(nxt_rig *rig)
{
    return nxt_all_told(rig) && nxt_all_arrived(rig);
}

typedef struct question {
    nxt_rig *rig;
    bool (*done)(nxt_rig *rig);
} question;

/* Sometimes takes a waiting frame without an upcall, if the transport supports that. */
static void take_frame(nxt_end *end)
{
    nxt_rig *rig = end->rig;
    nx_link *link = end->link;
    nx_bytes frame;
    bool there;

    if ((link == NULL) || (end->ups == 0) || (nxt_chance(rig, 4) != 0)) {
        return;
    }
    rig->in_operation++;
    there = nx_link_peek_frame(link, &frame);
    rig->in_operation--;
    if (there) {
        on_frame(end, link, NX_LANE_MESSAGE, frame.ptr, frame.len);
        if (end->link == link) { /* only if the test has not closed it */
            rig->in_operation++;
            nx_link_drop_frame(link);
            rig->in_operation--;
        }
    }
}

static bool ask(void *arg)
{
    question *q = arg;

    for (size_t i = 0; i < q->rig->n; i++) {
        take_frame(&q->rig->ends[i]);
    }
    return q->done(q->rig);
}

void nxt_rig_until(nxt_rig *rig, bool (*done)(nxt_rig *rig))
{
    question q = {rig, done};

    assert_true(rig->harness->progress(rig->world, ask, &q));
}

static bool is_over(void *arg)
{
    unsigned *turns = arg;

    return (*turns)-- == 0;
}

void nxt_rig_let(nxt_rig *rig, unsigned turns)
{
    (void)rig->harness->progress(rig->world, is_over, &turns);
}

/* ---- life ----------------------------------------------------------------------- */

void nxt_close(nxt_end *end, bool drain)
{
    nx_link *link = end->link;

    end->closed = true;
    end->link = NULL;
    end->rig->in_operation++;
    nx_link_close(link, drain);
    end->rig->in_operation--;
}

void nxt_dismiss(nxt_end *end)
{
    nx_link *link = end->link;

    memset(end->last, 'L', sizeof(end->last));
    end->closed = true;
    end->link = NULL;
    end->rig->in_operation++;
    nx_link_dismiss(link, end->last, sizeof(end->last));
    end->rig->in_operation--;
}

void nxt_kill(nxt_end *end)
{
    end->dead = true;
    end->rig->harness->kill(end->rig->world, end->link);
    end->link = NULL;
}

nexar_err nxt_rig_dial(nxt_rig *rig, size_t pair)
{
    void *const ctx[2] = {&rig->ends[2 * pair], &rig->ends[2 * pair + 1]};
    nexar_err err;

    rig->in_operation++;
    err = rig->harness->dial(rig->world, &up, ctx, &rig->ends[2 * pair].link);
    rig->in_operation--;
    return err;
}

void nxt_rig_prepare(nxt_rig *rig, const nxt_transport_harness *harness, size_t pairs)
{
    make_pattern();
    *rig = (nxt_rig){.harness = harness, .n = 2 * pairs};
    nx_random_seeded_init(&rig->random, 1);
    rig->ends = nx_calloc(rig->n, sizeof(*rig->ends));
    assert_true(rig->ends != NULL);
    for (size_t i = 0; i < rig->n; i++) {
        rig->ends[i].rig = rig;
        rig->ends[i].peer = &rig->ends[i ^ 1];
        rig->ends[i].frame_most = 1000;
    }
    rig->world = harness->setup(harness->ctx);
}

void nxt_rig_begin(nxt_rig *rig, const nxt_transport_harness *harness, size_t pairs, bool early)
{
    nxt_rig_prepare(rig, harness, pairs);
    for (size_t i = 0; i < pairs; i++) {
        assert_int_equal(nxt_rig_dial(rig, i), NEXAR_OK);
    }
    if (!early) {
        nxt_rig_until(rig, nxt_all_up);
    }
}

void nxt_rig_end(nxt_rig *rig)
{
    for (size_t i = 0; i < rig->n; i++) {
        if (rig->ends[i].link != NULL) {
            nxt_close(&rig->ends[i], false);
        }
    }
    nxt_rig_until(rig, nxt_all_told);
    rig->harness->teardown(rig->world);
    for (size_t i = 0; i < rig->n; i++) {
        for (size_t n = 0; n < rig->ends[i].nparcels; n++) {
            free_parcel(rig->ends[i].parcels[n]);
        }
        nx_free(rig->ends[i].parcels);
    }
    nx_free(rig->ends);
}
