/* failure_detector.c - heartbeats, and verdicts about silent peers. */
#include "cluster/membership/failure_detector.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/containers/list.h"
#include "base/text/sentence.h"
#include "cluster/view.h"
#include "msg/control.h"
#include "wire/wire.h"

/* A watched peer. */
typedef struct entry {
    nx_list link; /* in |watched| or |spare| */
    uint32_t peer;
    uint32_t watches; /* number of operations that wait for it */
    bool ring;        /* it is a neighbour on the ring */
    bool pinged;
    uint64_t heard_ns, pinged_ns;
    char detail[NX_DETECTOR_WHY - 64];
} entry;

/* The state of a rank; a time is 0 if the event has not happened yet. */
typedef struct rank_state {
    entry *watch;         /* NULL: not watched */
    uint64_t heard_ns;    /* when it was last heard */
    uint64_t answered_ns; /* when it last said that it hears this rank */
    uint64_t accused_ns;  /* when that rank declared this one failed, doubted here */
    bool held;            /* its silence does not count */
} rank_state;

/* Invariant: the number of entries, watched and spare, equals the number of ring positions plus the
 * number of peers with watches.  So a new neighbour always finds an entry. */
struct nx_detector {
    nx_detector_config config;
    const nx_detector_ops *ops;
    void *ctx;
    rank_state *ranks;
    nx_list watched, spare;
    uint64_t ticked_ns;
    uint64_t resumed_ns; /* end of the last gap between ticks; 0: none */
    uint32_t asked;      /* number of distances to watch; 0: all */
    bool accused;        /* number of doubted verdicts; reason of the last one: */
    char verdict[NX_DETECTOR_VERDICT];
};

/* The ranks that have left or failed, and this rank itself. */
static const nx_rankset *gone(const nx_detector *h)
{
    return nx_membership_gone(h->config.members);
}

static bool is_gone(const nx_detector *h, uint32_t peer)
{
    return nx_rankset_has(gone(h), peer);
}

static nexar_err check_config(const nx_detector_config *c)
{
    if ((c->size == 0) || (c->size > NX_WORLD_MAX) || (c->self >= c->size)) {
        return nx_fail(NEXAR_EINVAL, "a failure detector of rank %" PRIu32 " of %" PRIu32, c->self,
                       c->size);
    }
    if ((c->interval_ns == 0) || (c->interval_ns > c->timeout_ns)) {
        return nx_fail(NEXAR_EINVAL,
                       "heartbeats each %" PRIu64 " ns with a time-out of %" PRIu64
                       " ns; accepted: an interval above 0, at most the time-out",
                       c->interval_ns, c->timeout_ns);
    }
    if (c->ring > NX_DETECTOR_RING_MAX) {
        return nx_fail(NEXAR_EINVAL, "%" PRIu32 " neighbours to watch; accepted: up to %d", c->ring,
                       NX_DETECTOR_RING_MAX);
    }
    return NEXAR_OK;
}

static nexar_err add_spare(nx_detector *h)
{
    entry *e = nx_zalloc(sizeof(*e));

    if (e == NULL) {
        return nx_fail_nomem("a watched rank");
    }
    nx_list_push_back(&h->spare, &e->link);
    return NEXAR_OK;
}

static entry *take_entry(nx_detector *h, uint32_t peer, uint64_t now_ns)
{
    entry *e = nx_list_entry(nx_list_pop(&h->spare), entry, link);

    if (nx_list_empty(&h->watched)) {
        h->ticked_ns = now_ns; /* the tick does not run while no peer is watched */
    }
    *e = (entry){.peer = peer, .heard_ns = now_ns};
    nx_list_init(&e->link);
    nx_list_push_back(&h->watched, &e->link);
    h->ranks[peer].watch = e;
    return e;
}

/* Returns the entry to the spare ones, unless the ring or an operation needs it. */
static void drop_entry(nx_detector *h, entry *e)
{
    if (!e->ring && (e->watches == 0)) {
        h->ranks[e->peer].watch = NULL;
        nx_list_remove(&e->link);
        nx_list_push_back(&h->spare, &e->link);
    }
}

/* The neighbours: the first present ranks at distance 1, 2, 4 ... */
static void close_ring(nx_detector *h, uint64_t now_ns)
{
    for (uint32_t j = 0; j < h->config.ring; j++) {
        const uint32_t at = nx_rankset_after_out(gone(h), h->config.self, UINT32_C(1) << j);

        if (at == h->config.self) {
            return;
        }
        if (h->ranks[at].watch == NULL) {
            take_entry(h, at, now_ns)->ring = true;
        } else {
            h->ranks[at].watch->ring = true;
        }
    }
}

/* The number of powers of two below |size|. */
static uint32_t distances(uint32_t size)
{
    uint32_t n = 0;

    while ((UINT32_C(1) << n) < size) {
        n++;
    }
    return n;
}

static uint32_t ring_of(uint32_t asked, uint32_t size)
{
    const uint32_t most = distances(size);

    return ((asked == 0) || (asked > most)) ? most : asked;
}

nexar_err nx_detector_create(nx_detector **out, const nx_detector_config *config,
                             const nx_detector_ops *ops, void *ctx, uint64_t now_ns)
{
    const nexar_err err = check_config(config);
    nx_detector *h;

    if (err != NEXAR_OK) {
        return err;
    }
    h = nx_zalloc(sizeof(*h));
    if (h == NULL) {
        return nx_fail_nomem("heartbeats");
    }
    h->config = *config;
    h->asked = config->ring;
    h->config.ring = ring_of(h->asked, config->size);
    h->ops = ops;
    h->ctx = ctx;
    h->ticked_ns = now_ns;
    nx_list_init(&h->watched);
    nx_list_init(&h->spare);
    h->ranks = nx_calloc(config->size, sizeof(*h->ranks));
    if (h->ranks == NULL) {
        nx_detector_destroy(h);
        return nx_fail_nomem("heartbeats");
    }
    for (uint32_t i = 0; i < h->config.ring; i++) {
        if (add_spare(h) != NEXAR_OK) {
            nx_detector_destroy(h);
            return NEXAR_ENOMEM;
        }
    }
    close_ring(h, now_ns);
    *out = h;
    return NEXAR_OK;
}

/* Allocates |more| spare entries. */
static nexar_err add_spares(nx_detector *h, uint32_t more)
{
    for (uint32_t i = 0; i < more; i++) {
        if (add_spare(h) != NEXAR_OK) {
            while (i-- > 0) {
                nx_free(nx_list_entry(nx_list_pop(&h->spare), entry, link));
            }
            return NEXAR_ENOMEM;
        }
    }
    return NEXAR_OK;
}

/* Remaining neighbours keep their state. */
void nx_detector_close_ring(nx_detector *h, uint64_t now_ns)
{
    nx_list_for_each (at, &h->watched) {
        nx_list_entry(at, entry, link)->ring = false;
    }
    for (uint32_t j = 0; j < h->config.ring; j++) {
        const uint32_t at = nx_rankset_after_out(gone(h), h->config.self, UINT32_C(1) << j);

        if (h->ranks[at].watch != NULL) {
            h->ranks[at].watch->ring = true;
        }
    }
    nx_list_for_each (at, &h->watched) {
        drop_entry(h, nx_list_entry(at, entry, link));
    }
    close_ring(h, now_ns);
}

nexar_err nx_detector_grow(nx_detector *h, uint32_t size, uint64_t now_ns)
{
    const uint32_t ring = ring_of(h->asked, size);
    rank_state *ranks = nx_grow(h->ranks, size, sizeof(*ranks));

    if (ranks == NULL) {
        return nx_fail_nomem("heartbeats");
    }
    h->ranks = ranks;
    if (add_spares(h, ring - h->config.ring) != NEXAR_OK) {
        return NEXAR_ENOMEM;
    }
    for (uint32_t rank = h->config.size; rank < size; rank++) {
        ranks[rank] = (rank_state){0};
    }
    h->config.size = size;
    h->config.ring = ring;
    nx_detector_close_ring(h, now_ns);
    return NEXAR_OK;
}

static void free_entries(nx_list *list)
{
    nx_list *at;

    while ((at = nx_list_pop(list)) != NULL) {
        nx_free(nx_list_entry(at, entry, link));
    }
}

void nx_detector_destroy(nx_detector *h)
{
    if (h == NULL) {
        return;
    }
    free_entries(&h->watched);
    free_entries(&h->spare);
    nx_free(h->ranks);
    nx_free(h);
}

bool nx_detector_watches(const nx_detector *h, uint32_t peer)
{
    return (peer < h->config.size) && (h->ranks[peer].watch != NULL) && !is_gone(h, peer);
}

/* ---- watching ------------------------------------------------------------------------ */

nexar_err nx_detector_watch(nx_detector *h, uint32_t peer, uint64_t now_ns)
{
    entry *e;

    if ((peer >= h->config.size) || (peer == h->config.self)) {
        return nx_fail(NEXAR_EINVAL, "rank %" PRIu32 " is not one to watch", peer);
    }
    e = h->ranks[peer].watch;
    if ((e == NULL) || (e->watches == 0)) {
        const nexar_err err = add_spare(h);

        if (err != NEXAR_OK) {
            return err;
        }
    }
    if (e == NULL) {
        e = take_entry(h, peer, now_ns);
    }
    e->watches++;
    return NEXAR_OK;
}

void nx_detector_unwatch(nx_detector *h, uint32_t peer)
{
    entry *e = (peer < h->config.size) ? h->ranks[peer].watch : NULL;

    if ((e == NULL) || (e->watches == 0)) {
        return;
    }
    e->watches--;
    if (e->watches == 0) {
        drop_entry(h, e);
        nx_free(nx_list_entry(nx_list_pop(&h->spare), entry, link));
    }
}

void nx_detector_hold(nx_detector *h, uint32_t peer)
{
    if (peer < h->config.size) {
        h->ranks[peer].held = true;
    }
}

void nx_detector_release(nx_detector *h, uint32_t peer, uint64_t now_ns)
{
    const nx_detector_config *c = &h->config;
    const uint64_t left = (2 * c->interval_ns < c->timeout_ns) ? 2 * c->interval_ns : c->timeout_ns;
    entry *e = (peer < c->size) ? h->ranks[peer].watch : NULL;

    if (peer < c->size) {
        h->ranks[peer].held = false;
    }
    if ((e != NULL) && (now_ns - e->heard_ns > c->timeout_ns - left)) {
        e->heard_ns = now_ns - (c->timeout_ns - left);
    }
}

/* ---- which rank hears which ---------------------------------------------------------- */

static bool is_recent(const nx_detector *h, uint64_t at_ns, uint64_t now_ns)
{
    return (at_ns != 0) && (now_ns - at_ns < h->config.timeout_ns / 2);
}

bool nx_detector_hears(const nx_detector *h, uint32_t peer, uint64_t now_ns)
{
    return (peer < h->config.size) && is_recent(h, h->ranks[peer].heard_ns, now_ns);
}

static bool hears_others(const nx_detector *h, uint32_t but, uint64_t now_ns)
{
    for (uint32_t rank = 0; rank < h->config.size; rank++) {
        if ((rank != but) && !is_gone(h, rank) && nx_detector_hears(h, rank, now_ns)) {
            return true;
        }
    }
    return false;
}

/* Whether a peer other than |but| hears this rank. */
static bool heard_by_another(const nx_detector *h, uint32_t but, uint64_t now_ns)
{
    for (uint32_t rank = 0; rank < h->config.size; rank++) {
        if ((rank != but) && !is_gone(h, rank) &&
            is_recent(h, h->ranks[rank].answered_ns, now_ns)) {
            return true;
        }
    }
    return false;
}

static void say(nx_detector *h, uint32_t to, uint8_t type, uint64_t now_ns)
{
    const uint8_t frame[] = {type, nx_detector_hears(h, to, now_ns) ? NX_WORD_HEARS_YOU : 0};

    h->ops->send(h->ctx, to, frame, sizeof(frame));
}

size_t nx_detector_verdict(const nx_detector *h, uint32_t peer, const char *why, uint64_t now_ns,
                           uint8_t frame[NX_DETECTOR_FRAME_MAX])
{
    nx_writer w = nx_writer_make(frame, NX_DETECTOR_FRAME_MAX);

    nx_write_u8(&w, NX_CONTROL_VERDICT);
    nx_write_u8(&w, (nx_detector_hears(h, peer, now_ns) ? NX_WORD_HEARS_YOU : 0) |
                        (hears_others(h, peer, now_ns) ? NX_WORD_HEARS_OTHERS : 0));
    nx_write_sentence(&w, why, NX_DETECTOR_VERDICT);
    return w.len;
}

void nx_detector_tell(nx_detector *h, uint32_t peer, const char *why, uint64_t now_ns)
{
    uint8_t frame[NX_DETECTOR_FRAME_MAX];

    h->ops->send(h->ctx, peer, frame, nx_detector_verdict(h, peer, why, now_ns, frame));
}

static void ping(nx_detector *h, entry *e, uint64_t now_ns)
{
    e->pinged = true;
    e->pinged_ns = now_ns;
    say(h, e->peer, NX_CONTROL_PING, now_ns);
}

void nx_detector_ask(nx_detector *h, uint32_t peer, uint64_t now_ns)
{
    if ((peer < h->config.size) && !is_gone(h, peer)) {
        say(h, peer, NX_CONTROL_PING, now_ns);
    }
}

void nx_detector_heard(nx_detector *h, uint32_t peer, uint64_t now_ns)
{
    entry *e;

    if (peer >= h->config.size) {
        return;
    }
    h->ranks[peer].heard_ns = now_ns;
    e = h->ranks[peer].watch;
    if (e != NULL) {
        e->heard_ns = now_ns;
        e->pinged = false;
        e->detail[0] = '\0';
    }
}

/* ---- failures ------------------------------------------------------------------------ */

static void die(nx_detector *h, uint32_t peer, const char *why)
{
    if (!is_gone(h, peer)) {
        h->ops->dead(h->ctx, peer, why);
    }
}

/* |by| has declared this rank failed (H5). */
static void on_verdict(nx_detector *h, uint32_t by, uint8_t word, const char *why, uint64_t now_ns)
{
    if (is_gone(h, by)) {
        return;
    }
    h->ranks[by].answered_ns = 0;
    if (((word & NX_WORD_HEARS_YOU) != 0) || !heard_by_another(h, by, now_ns)) {
        h->ops->outcast(h->ctx, by, why);
        return;
    }
    if ((word & NX_WORD_HEARS_OTHERS) == 0) {
        die(h, by, "it receives nothing that it is sent");
    } else if (h->ranks[by].accused_ns == 0) {
        h->ranks[by].accused_ns = now_ns;
        h->accused = true;
        (void)snprintf(h->verdict, sizeof(h->verdict), "%s", why);
    }
}

/* Checks whether any peer that hears this rank has confirmed the verdict of those that do not. */
static void judge_accusers(nx_detector *h, uint64_t now_ns)
{
    bool more = false;

    for (uint32_t by = 0; h->accused && (by < h->config.size); by++) {
        const uint64_t since = h->ranks[by].accused_ns;

        if ((since == 0) || is_gone(h, by)) {
            continue;
        }
        if (now_ns - since < h->config.interval_ns / 2) {
            more = true;
        } else if (heard_by_another(h, by, now_ns)) {
            die(h, by, "it does not hear this rank, which other ranks hear");
        } else {
            h->ops->outcast(h->ctx, by, h->verdict);
            return;
        }
    }
    h->accused = more;
}

nexar_err nx_detector_frame(nx_detector *h, uint32_t peer, const void *frame, size_t len,
                            uint64_t now_ns)
{
    nx_reader r = nx_reader_make(frame, len);
    const uint8_t type = nx_read_u8(&r), word = nx_read_u8(&r);
    const bool verdict = (type == NX_CONTROL_VERDICT);
    char why[NX_DETECTOR_VERDICT] = "";

    if (verdict) {
        nx_read_sentence(&r, why, sizeof(why));
    }
    if (!nx_reader_done(&r) || (peer >= h->config.size) || (peer == h->config.self) ||
        (!verdict && (type != NX_CONTROL_PING) && (type != NX_CONTROL_PONG)) ||
        (word > (NX_WORD_HEARS_YOU | NX_WORD_HEARS_OTHERS))) {
        return nx_fail(NEXAR_EPROTO, "a malformed heartbeat");
    }
    if (verdict) {
        on_verdict(h, peer, word, why, now_ns);
    } else if (nx_membership_life(h->config.members, peer) == NX_LIFE_FAILED) {
        h->ops->zombie(h->ctx, peer);
    } else {
        nx_detector_heard(h, peer, now_ns);
        h->ranks[peer].answered_ns = ((word & NX_WORD_HEARS_YOU) != 0) ? now_ns : 0;
        if (type == NX_CONTROL_PING) {
            say(h, peer, NX_CONTROL_PONG, now_ns);
        }
    }
    return NEXAR_OK;
}

void nx_detector_suspect(nx_detector *h, uint32_t peer, const char *detail, uint64_t now_ns)
{
    entry *e = (peer < h->config.size) ? h->ranks[peer].watch : NULL;

    if ((e != NULL) && !is_gone(h, peer)) {
        (void)snprintf(e->detail, sizeof(e->detail), "%s", detail);
        ping(h, e, now_ns);
    }
}

bool nx_detector_doubts(const nx_detector *h, uint32_t peer)
{
    return (peer < h->config.size) && (h->ranks[peer].accused_ns != 0);
}

/* ---- timing -------------------------------------------------------------------------- */

uint64_t nx_detector_due(const nx_detector *h)
{
    return nx_list_empty(&h->watched) ? UINT64_MAX : h->ticked_ns + h->config.interval_ns;
}

static void die_of_silence(nx_detector *h, const entry *e, uint64_t now_ns)
{
    const uint64_t tenths = (now_ns - e->heard_ns) / UINT64_C(100000000);
    char why[NX_DETECTOR_WHY];

    (void)nx_sentence(why, sizeof(why), "no heartbeat for %" PRIu64 ".%" PRIu64 " s%s%s",
                      tenths / 10, tenths % 10,
                      (e->detail[0] == '\0') ? "" : ", link lost: ", e->detail);
    die(h, e->peer, why);
}

static void check_entry(nx_detector *h, entry *e, uint64_t now_ns)
{
    const nx_detector_config *c = &h->config;
    const uint64_t quiet = now_ns - e->heard_ns;
    const uint64_t unanswered = now_ns - h->ranks[e->peer].answered_ns;

    if (is_gone(h, e->peer)) {
        return;
    }
    if ((quiet >= c->timeout_ns) && (now_ns - h->resumed_ns >= c->interval_ns) &&
        !h->ranks[e->peer].held) {
        die_of_silence(h, e, now_ns);
    } else if ((quiet >= c->interval_ns) &&
               (!e->pinged || (now_ns - e->pinged_ns >= c->interval_ns))) {
        ping(h, e, now_ns);
    } else if ((unanswered >= c->timeout_ns / 4) && (now_ns - e->pinged_ns >= c->interval_ns)) {
        ping(h, e, now_ns);
    }
}

/* This rank was itself stopped for |gap_ns|: it may have lost what arrived meanwhile, so it pings
 * all peers again. */
static void resume(nx_detector *h, uint64_t gap_ns, uint64_t now_ns)
{
    const bool pause = (gap_ns < h->config.timeout_ns); /* of which an interval counts */
    const uint64_t away = pause ? gap_ns - h->config.interval_ns : UINT64_MAX;

    h->resumed_ns = now_ns;
    nx_list_for_each (at, &h->watched) {
        entry *e = nx_list_entry(at, entry, link);

        e->heard_ns = (now_ns - e->heard_ns < away) ? now_ns : e->heard_ns + away;
        if (!is_gone(h, e->peer)) {
            ping(h, e, now_ns);
        }
    }
}

void nx_detector_tick(nx_detector *h, uint64_t now_ns)
{
    const uint64_t gap = now_ns - h->ticked_ns;

    h->ticked_ns = now_ns;
    if (gap > 2 * h->config.interval_ns) {
        resume(h, gap, now_ns);
        return;
    }
    judge_accusers(h, now_ns);
    nx_list_for_each (at, &h->watched) {
        check_entry(h, nx_list_entry(at, entry, link), now_ns);
    }
}
