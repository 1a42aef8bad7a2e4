/*
 * failure_detector_sim_test.c - membership, heartbeats and broadcasts together in virtual time,
 * combined as in core.  All ranks learn in time of a failure that one rank detects, and no live
 * rank that was not stopped or cut off is declared failed.
 *
 * NXT_LONG makes it 6000 seeds of each cut instead of 400.
 */
#include <stdlib.h>
#include <string.h>

#include "base/containers/heap.h"
#include "cluster/membership/failure_detector.h"
#include "cluster/membership/heard_gate.h"
#include "cluster/membership/reliable_broadcast.h"
#include "msg/control.h"
#include "rand.h"
#include "unit.h"

#define MS UINT64_C(1000000)

enum {
    INTERVAL = 500,
    TIMEOUT = 5000,
    DELAY = 50,
    MOST = 200,
    SEEDS = 150,
    CUT_SEEDS = 400,
    LONG_SEEDS = 6000
};

typedef struct world world;

typedef struct node {
    world *world;
    uint32_t self;
    bool alive, told_off; /* told_off: was notified of its own failure */
    uint64_t resumes;     /* stopped until then */
    nx_membership *members;
    nx_detector *detector;
    nx_rbcast *rbcast;
    nx_heard_gate gate;
    uint32_t notified[MOST]; /* number of notifications, of each failure */
    bool closed[MOST];       /* the link has ended */
    uint64_t cut_ns[MOST];   /* frames to these ranks after this are lost; 0: never */
    uint64_t last_ns[MOST];  /* arrival of the last frame for each: frames keep their order */
} node;

typedef struct event {
    nx_heap_item item;                      /* first */
    enum { TICK, FRAME, CHAT, CLOSE } kind; /* chat: an application's message */
    uint32_t from, to;
    size_t len;
    uint8_t frame[NX_RBCAST_FRAME_MAX];
} event;

struct world {
    uint32_t size;
    uint64_t now;
    bool closes, chatty;
    size_t heartbeats;
    nxt_rand rand;
    nx_heap events;
    node nodes[MOST];
};

static event *post(world *w, uint64_t at, uint32_t to)
{
    event *e = calloc(1, sizeof(*e));

    assert_non_null(e);
    assert_int_equal(nx_heap_push(&w->events, &e->item, at), NEXAR_OK);
    e->to = to;
    return e;
}

/* A frame from |n| to |to|; NULL: it is lost. */
static event *emit(node *n, uint32_t to)
{
    world *w = n->world;
    uint64_t at = w->now + (1 + nxt_below(&w->rand, DELAY)) * MS;
    event *e;

    if (n->closed[to] || ((n->cut_ns[to] != 0) && (w->now >= n->cut_ns[to]))) {
        return NULL;
    }
    at = (at > n->last_ns[to]) ? at : n->last_ns[to] + 1;
    n->last_ns[to] = at;
    e = post(w, at, to);
    e->kind = FRAME;
    e->from = n->self;
    return e;
}

static void on_send(void *ctx, uint32_t to, const void *frame, size_t len)
{
    node *n = ctx;
    event *e = emit(n, to);

    n->world->heartbeats += (len == 2);
    if (e != NULL) {
        e->len = len;
        memcpy(e->frame, frame, len);
    }
}

/* Operations that depend on failures. */
static void on_news(void *ctx, uint32_t to, const void *frame, size_t len)
{
    nx_heard_gate_send(&((node *)ctx)->gate, to, frame, len);
}

static bool on_hears(void *ctx, uint32_t peer)
{
    const node *n = ctx;

    return nx_detector_hears(n->detector, peer, n->world->now);
}

static void on_begin(void *ctx, uint32_t peer)
{
    node *n = ctx;

    assert_int_equal(nx_detector_watch(n->detector, peer, n->world->now), NEXAR_OK);
    nx_detector_ask(n->detector, peer, n->world->now);
}

static void on_end(void *ctx, uint32_t peer)
{
    nx_detector_unwatch(((node *)ctx)->detector, peer);
}

static const nx_heard_gate_ops gate_ops = {
    .send = on_send, .hears = on_hears, .begin = on_begin, .end = on_end};

static void report(node *n, uint32_t slot, nx_life_source source, const char *why)
{
    const nx_life_event news = {.slot = slot, .life = NX_LIFE_FAILED, .source = source, .why = why};

    (void)nx_membership_report(n->members, &news, n->world->now);
}

static void on_dead(void *ctx, uint32_t peer, const char *why)
{
    report(ctx, peer, NX_SOURCE_HEARTBEAT, why);
}

static void on_zombie(void *ctx, uint32_t peer)
{
    node *n = ctx;

    nx_detector_tell(n->detector, peer, "why", n->world->now);
}

static void on_outcast(void *ctx, uint32_t by, const char *why)
{
    node *n = ctx;

    (void)by;
    assert_string_equal(why, "why");
    report(n, n->self, NX_SOURCE_VERDICT, why);
}

static const nx_detector_ops detector_ops = {
    .send = on_send, .dead = on_dead, .zombie = on_zombie, .outcast = on_outcast};

static void on_learned(void *ctx, uint64_t key, const void *data, size_t len, uint32_t from)
{
    node *n = ctx;

    (void)from;
    assert_true((len == 3) && (memcmp(data, "why", 3) == 0));
    report(n, (uint32_t)key, NX_SOURCE_BROADCAST, "why");
}

static nx_life on_life(void *ctx, uint32_t rank)
{
    return nx_membership_life(((node *)ctx)->members, rank);
}

static const nx_rbcast_ops rbcast_ops = {.send = on_news, .learned = on_learned, .life = on_life};

/* The table of core, in its order; with |closes| the link to the failed rank is closed. */
static void detect_no_more(void *ctx, uint32_t peer)
{
    node *n = ctx;

    nx_detector_close_ring(n->detector, n->world->now);
    nx_heard_gate_drop(&n->gate, peer);
}

static void broadcast(void *ctx, uint32_t peer)
{
    node *n = ctx;

    nx_rbcast_gone(n->rbcast, peer);
    assert_int_equal(nx_rbcast_start(n->rbcast, nx_rbcast_key(NX_RBCAST_DEAD, peer), "why", 3),
                     NEXAR_OK);
}

static void fail_messages(void *ctx, uint32_t peer)
{
    node *n = ctx;
    event *e;

    n->notified[peer]++;
    nx_detector_tell(n->detector, peer, "why", n->world->now);
    if (n->world->closes) {
        e = emit(n, peer);
        if (e != NULL) {
            e->kind = CLOSE;
        }
        n->closed[peer] = true;
    }
}

static const nx_life_subscriber table[] = {
    {.name = "failure detector", .on_failed = detect_no_more},
    {.name = "reliable broadcast", .on_failed = broadcast},
    {.name = "messages", .on_failed = fail_messages},
};

static void on_due(void *ctx)
{
    (void)ctx; /* they are notified when the event is over */
}

/* A rank that was declared failed closes all its links. */
static void on_expelled(void *ctx)
{
    node *n = ctx;

    n->told_off = true;
    for (uint32_t to = 0; n->world->closes && (to < n->world->size); to++) {
        event *e = (to == n->self) ? NULL : emit(n, to);

        if (e != NULL) {
            e->kind = CLOSE;
        }
        n->closed[to] = true;
    }
}

static void world_init(world *w, uint32_t size, uint64_t seed)
{
    *w = (world){.size = size, .now = 1, .rand = {nxt_mix(seed)}};
    for (uint32_t i = 0; i < size; i++) {
        node *n = &w->nodes[i];
        const nx_membership_config mc = {.slots = size,
                                         .self = i,
                                         .subscribers = table,
                                         .nsubscribers = sizeof(table) / sizeof(table[0]),
                                         .on_expelled = on_expelled,
                                         .on_due = on_due,
                                         .ctx = n};
        nx_detector_config config = {
            .size = size, .self = i, .interval_ns = INTERVAL * MS, .timeout_ns = TIMEOUT * MS};

        *n = (node){.world = w, .self = i, .alive = true};
        assert_int_equal(nx_membership_create(&n->members, &mc), NEXAR_OK);
        config.members = n->members;
        assert_int_equal(nx_detector_create(&n->detector, &config, &detector_ops, n, w->now),
                         NEXAR_OK);
        assert_int_equal(nx_rbcast_create(&n->rbcast, 0, size, i, &rbcast_ops, n), NEXAR_OK);
        nx_heard_gate_init(&n->gate, &gate_ops, n);
        post(w, nx_detector_due(n->detector), i)->kind = TICK;
    }
}

static void world_fini(world *w)
{
    nx_heap_item *top;

    while ((top = nx_heap_top(&w->events)) != NULL) {
        nx_heap_remove(&w->events, top);
        free(top);
    }
    nx_heap_fini(&w->events);
    for (uint32_t i = 0; i < w->size; i++) {
        for (uint32_t k = 0; k < w->size; k++) {
            assert_true(w->nodes[i].notified[k] <= 1);
        }
        nx_membership_destroy(w->nodes[i].members);
        nx_detector_destroy(w->nodes[i].detector);
        nx_rbcast_destroy(w->nodes[i].rbcast);
        nx_heard_gate_fini(&w->nodes[i].gate);
    }
}

static void on_frame(node *n, const event *e)
{
    const uint64_t now = n->world->now;

    if (nx_membership_life(n->members, e->from) != NX_LIFE_FAILED) {
        nx_detector_heard(n->detector, e->from, now);
        nx_heard_gate_heard(&n->gate, e->from);
    }
    if (e->frame[0] == NX_CONTROL_RBCAST) {
        assert_int_equal(nx_rbcast_frame(n->rbcast, e->from, e->frame, e->len), NEXAR_OK);
    } else {
        assert_int_equal(nx_detector_frame(n->detector, e->from, e->frame, e->len, now), NEXAR_OK);
    }
}

/* All ranks send to all, so that no rank needs to be pinged. */
static void chat(node *n)
{
    for (uint32_t to = 0; to < n->world->size; to++) {
        event *e = (to == n->self) ? NULL : emit(n, to);

        if (e != NULL) {
            e->kind = CHAT;
        }
    }
}

static void happen(world *w, const event *e)
{
    node *n = &w->nodes[e->to];

    if (!n->alive || n->told_off || ((e->kind != TICK) && n->closed[e->from])) {
        return;
    }
    switch (e->kind) {
    case TICK:
        if (w->chatty) {
            chat(n);
        }
        nx_detector_tick(n->detector, w->now);
        post(w, w->now + (w->closes ? INTERVAL / 4 : INTERVAL) * MS, e->to)->kind = TICK;
        break;
    case FRAME:
        on_frame(n, e);
        break;
    case CHAT:
        nx_detector_heard(n->detector, e->from, w->now);
        nx_heard_gate_heard(&n->gate, e->from);
        break;
    case CLOSE:
        n->closed[e->from] = true;
        if (!nx_detector_doubts(n->detector, e->from)) {
            report(n, e->from, NX_SOURCE_LINK, "closed its connection without a goodbye");
        }
        break;
    }
    nx_membership_notify(n->members);
}

static void run(world *w, uint64_t ms)
{
    const uint64_t end = w->now + ms * MS;
    nx_heap_item *top;

    while (((top = nx_heap_top(&w->events)) != NULL) && (top->key <= end)) {
        event *e = (event *)(void *)top;
        const node *n = &w->nodes[e->to];

        w->now = top->key;
        if (n->resumes > w->now) {
            nx_heap_move(&w->events, top, n->resumes);
            continue;
        }
        nx_heap_remove(&w->events, top);
        happen(w, e);
        free(e);
    }
    w->now = end;
}

static bool knows(const world *w, uint32_t at, uint32_t failed)
{
    return nx_membership_life(w->nodes[at].members, failed) == NX_LIFE_FAILED;
}

/* Except itself. */
static uint32_t dead_known(const world *w, uint32_t at)
{
    return nx_membership_failures(w->nodes[at].members) - knows(w, at, at);
}

/* Several neighbours fail together, as when their host does. */
static void test_all_ranks_know_all_failures_in_time(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        nxt_rand r = {nxt_mix(seed + 1000)};
        const uint32_t size = 2 + nxt_below(&r, 40);
        const uint32_t deaths = 1 + nxt_below(&r, (size > 2) ? size / 2 : 1);
        uint32_t died = 0;
        world *w = malloc(sizeof(*w));

        assert_non_null(w);
        world_init(w, size, seed);
        run(w, 2000 + nxt_below(&r, 1000));
        for (uint32_t first = nxt_below(&r, size); died < deaths; died++) {
            w->nodes[(first + died) % size].alive = false;
        }
        run(w, TIMEOUT + 2 * INTERVAL + 20 * DELAY);
        for (uint32_t i = 0; i < size; i++) {
            for (uint32_t k = 0; (k < size) && w->nodes[i].alive; k++) {
                assert_int_equal(knows(w, i, k), !w->nodes[k].alive);
            }
        }
        world_fini(w);
        free(w);
    }
}

static void stop_one(uint64_t ms, bool survives)
{
    world *w = malloc(sizeof(*w));

    assert_non_null(w);
    world_init(w, 8, ms);
    run(w, 3000);
    w->nodes[3].resumes = w->now + ms * MS;
    run(w, ms + 2 * TIMEOUT);
    assert_int_equal(w->nodes[3].told_off, !survives);
    assert_int_equal(dead_known(w, 3), 0); /* it accuses no rank */
    for (uint32_t i = 0; i < 8; i++) {
        assert_int_equal(dead_known(w, i), (survives || (i == 3)) ? 0 : 1);
    }
    world_fini(w);
    free(w);
}

static void test_who_was_stopped_accuses_nobody_and_learns_what_became_of_it(void **state)
{
    (void)state;
    stop_one(TIMEOUT - 2 * INTERVAL, true);
    stop_one(TIMEOUT + 2 * INTERVAL, false);
    stop_one(60 * TIMEOUT, false);
}

/* ---- cuts ---------------------------------------------------------------------------- */

static uint64_t cut_seeds(void)
{
    const bool many = (getenv("NXT_LONG") != NULL); /* NOLINT(concurrency-mt-unsafe) */

    return many ? LONG_SEEDS : CUT_SEEDS;
}

/* The ranks of |group| are on one host. */
static bool same_side(uint32_t group, uint32_t a, uint32_t b)
{
    return ((group >> a) & 1) == ((group >> b) & 1);
}

/* From |at_ms| on all frames from ranks of |from| to the others are lost. */
static void cut(world *w, uint32_t from, uint64_t at_ms)
{
    for (uint32_t a = 0; a < w->size; a++) {
        for (uint32_t b = 0; b < w->size; b++) {
            if (((from >> a) & 1) && !same_side(from, a, b)) {
                w->nodes[a].cut_ns[b] = w->now + at_ms * MS;
            }
        }
    }
}

static world *begin_cut(uint32_t size, uint64_t seed)
{
    world *w = malloc(sizeof(*w));

    assert_non_null(w);
    world_init(w, size, seed);
    w->closes = true;
    w->chatty = (seed % 3 == 0);
    run(w, TIMEOUT + nxt_below(&w->rand, 1000));
    return w;
}

static void end_cut(world *w)
{
    world_fini(w);
    free(w);
}

/* Whether |n| is alive and has declared exactly the ranks in |lost| failed. */
static bool has_it_right(const node *n, uint32_t lost)
{
    bool right = !n->told_off;

    for (uint32_t k = 0; k < n->world->size; k++) {
        right = right && (knows(n->world, n->self, k) == ((lost >> k) & 1));
    }
    return right;
}

/* All ranks outside |lost| do. */
static void expect_lost(const world *w, uint32_t lost, uint64_t seed)
{
    for (uint32_t i = 0; i < w->size; i++) {
        if (!((lost >> i) & 1) && !has_it_right(&w->nodes[i], lost)) {
            fail_msg("seed %llu, %u ranks, lost %#x: rank %u%s has it wrong",
                     (unsigned long long)seed, w->size, lost, i,
                     w->nodes[i].told_off ? " (out)" : "");
        }
    }
}

/* One rank, or a host of several, receives nothing, or is not received, or neither.  It is lost,
 * and no other rank, in time; a single unheard rank is notified. */
static void lose_a_host(uint64_t seed, bool deaf, bool mute)
{
    nxt_rand r = {nxt_mix(seed + 77)};
    const uint32_t size = 3 + nxt_below(&r, 7), hosted = 1 + nxt_below(&r, (size - 1) / 2);
    const uint32_t all = (1U << size) - 1, first = nxt_below(&r, size);
    uint32_t group = 0;
    world *w = begin_cut(size, seed);

    for (uint32_t i = 0; i < hosted; i++) {
        group |= 1U << (first + i) % size;
    }
    if (deaf) {
        cut(w, all & ~group, 0);
    }
    if (mute) {
        cut(w, group, 0);
    }
    run(w, TIMEOUT + INTERVAL + INTERVAL / 4 + 8 * DELAY);
    expect_lost(w, group, seed);
    run(w, 2 * TIMEOUT + INTERVAL);
    expect_lost(w, group, seed);
    if (!deaf && (hosted == 1)) {
        assert_true(w->nodes[first].told_off);
    }
    end_cut(w);
}

static void test_who_is_deaf_or_mute_is_lost_and_nobody_else(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < cut_seeds(); seed++) {
        lose_a_host(seed, true, false);
        lose_a_host(seed, false, true);
        lose_a_host(seed, true, true);
    }
}

/* One rank does not hear another; both hear the rest.  Either the unheard rank is lost, or the rank
 * that does not answer. */
static void test_a_cut_of_one_pair_one_way_loses_one_of_them(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < cut_seeds(); seed++) {
        nxt_rand r = {nxt_mix(seed + 99)};
        const uint32_t size = 3 + nxt_below(&r, 7), from = nxt_below(&r, size);
        uint32_t to = nxt_below(&r, size - 1);
        world *w = begin_cut(size, seed);

        to += (to >= from);
        w->nodes[from].cut_ns[to] = w->now;
        run(w, 3 * TIMEOUT);
        assert_false(w->nodes[from].told_off && w->nodes[to].told_off);
        expect_lost(w,
                    w->nodes[from].told_off ? 1U << from
                    : w->nodes[to].told_off ? 1U << to
                                            : 0, /* neither watches the other */
                    seed);
        end_cut(w);
    }
}

/* Cut both ways: one of them or both are lost; all others agree which. */
static void test_a_cut_of_one_pair_in_both_directions_loses_no_other_rank(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < cut_seeds(); seed++) {
        nxt_rand r = {nxt_mix(seed + 111)};
        const uint32_t size = 3 + nxt_below(&r, 7), a = nxt_below(&r, size);
        uint32_t b = nxt_below(&r, size - 1), other = 0, lost = 0;
        world *w = begin_cut(size, seed);

        b += (b >= a);
        w->nodes[a].cut_ns[b] = w->nodes[b].cut_ns[a] = w->now;
        run(w, 3 * TIMEOUT);
        while ((other == a) || (other == b)) {
            other++;
        }
        lost |= knows(w, other, a) ? 1U << a : 0;
        lost |= knows(w, other, b) ? 1U << b : 0;
        expect_lost(w, lost, seed);
        end_cut(w);
    }
}

/* In a world of two the deaf rank cannot be determined: one of them continues. */
static void test_of_two_one_is_left(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        world *w = begin_cut(2, seed);

        w->nodes[0].cut_ns[1] = w->now;
        run(w, 3 * TIMEOUT);
        assert_true(w->nodes[0].told_off && !w->nodes[1].told_off);
        assert_int_equal(dead_known(w, 0), 0);
        assert_int_equal(dead_known(w, 1), 1);
        end_cut(w);
    }
}

static void test_a_short_cut_of_the_network_loses_no_rank(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < cut_seeds(); seed++) {
        nxt_rand r = {nxt_mix(seed + 55)};
        const uint32_t size = 2 + nxt_below(&r, 8);
        world *w = begin_cut(size, seed);

        cut(w, 1 + nxt_below(&r, (1U << size) - 2), 0);
        if (nxt_one_in(&r, 2)) {
            cut(w, 1 + nxt_below(&r, (1U << size) - 2), 0);
        }
        run(w, TIMEOUT - 2 * INTERVAL - 2 * (uint64_t)DELAY);
        for (uint32_t i = 0; i < size; i++) {
            memset(w->nodes[i].cut_ns, 0, sizeof(w->nodes[i].cut_ns));
        }
        run(w, 2 * TIMEOUT);
        expect_lost(w, 0, seed);
        end_cut(w);
    }
}

static void test_the_cost_of_a_rank_is_that_of_a_few_peers(void **state)
{
    world *w = malloc(sizeof(*w));

    (void)state;
    assert_non_null(w);
    world_init(w, MOST, 1);
    run(w, 20 * INTERVAL);
    /* At most eight neighbours, a ping and its answer, per interval. */
    assert_true(w->heartbeats <= (size_t)20 * 2 * 8 * MOST);
    assert_true(w->heartbeats > (size_t)5 * 8 * MOST);
    world_fini(w);
    free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_ranks_know_all_failures_in_time),
        cmocka_unit_test(test_who_was_stopped_accuses_nobody_and_learns_what_became_of_it),
        cmocka_unit_test(test_who_is_deaf_or_mute_is_lost_and_nobody_else),
        cmocka_unit_test(test_a_cut_of_one_pair_one_way_loses_one_of_them),
        cmocka_unit_test(test_a_cut_of_one_pair_in_both_directions_loses_no_other_rank),
        cmocka_unit_test(test_of_two_one_is_left),
        cmocka_unit_test(test_a_short_cut_of_the_network_loses_no_rank),
        cmocka_unit_test(test_the_cost_of_a_rank_is_that_of_a_few_peers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
