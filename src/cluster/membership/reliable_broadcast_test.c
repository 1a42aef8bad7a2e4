/* reliable_broadcast_test.c - items reach all live ranks, whichever ranks fail meanwhile. */
#include "cluster/membership/reliable_broadcast.h"

#include <stdlib.h>
#include <string.h>

#include "oom.h"
#include "rand.h"
#include "unit.h"

enum { GROUP = 5, LARGE = 1024 };

typedef struct packet {
    uint32_t from, to, hops;
    size_t len;
    uint8_t frame[NX_RBCAST_FRAME_MAX];
} packet;

typedef struct net net;

typedef struct node {
    net *net;
    uint32_t self, hops, learned, sends_left;
    bool alive;
    bool failed[LARGE]; /* subject of its item */
    nx_rbcast *rbcast;
} node;

struct net {
    uint32_t size, hops; /* of the delivery in progress */
    node *nodes;
    packet *queue;
    size_t n, room, sent;
    nxt_rand rand;
};

static void on_send(void *ctx, uint32_t to, const void *frame, size_t len)
{
    node *from = ctx;
    net *w = from->net;

    assert_true((to < w->size) && (to != from->self) && (len <= NX_RBCAST_FRAME_MAX));
    from->alive = from->alive && (from->sends_left-- > 0);
    if (!from->alive) {
        return;
    }
    if (w->n == w->room) {
        w->room = 2 * w->room + 64;
        w->queue = realloc(w->queue, w->room * sizeof(packet));
        assert_non_null(w->queue);
    }
    w->queue[w->n] = (packet){.from = from->self, .to = to, .hops = w->hops + 1, .len = len};
    memcpy(w->queue[w->n].frame, frame, len);
    w->n++;
    w->sent++;
}

static void on_learned(void *ctx, uint64_t key, const void *data, size_t len, uint32_t from)
{
    node *at = ctx;

    assert_true(key >> 32 == NX_RBCAST_DEAD);
    assert_int_equal(len, 3);
    assert_memory_equal(data, "why", 3);
    assert_true(from < at->net->size);
    at->learned++;
    at->hops = at->net->hops;
}

static nx_life on_life(void *ctx, uint32_t rank)
{
    return ((const node *)ctx)->failed[rank] ? NX_LIFE_FAILED : NX_LIFE_ALIVE;
}

static const nx_rbcast_ops ops = {.send = on_send, .learned = on_learned, .life = on_life};

/* |at| detects that |rank| has failed. */
static void find_failed(node *at, uint32_t rank)
{
    at->failed[rank] = true;
    nx_rbcast_gone(at->rbcast, rank);
}

static void net_init(net *w, uint32_t size, uint64_t seed)
{
    *w = (net){.size = size, .rand = {seed}};
    w->nodes = calloc(size, sizeof(node));
    assert_non_null(w->nodes);
    for (uint32_t i = 0; i < size; i++) {
        w->nodes[i] = (node){.net = w, .self = i, .alive = true, .sends_left = UINT32_MAX};
        assert_int_equal(nx_rbcast_create(&w->nodes[i].rbcast, GROUP, size, i, &ops, &w->nodes[i]),
                         NEXAR_OK);
    }
}

static void net_fini(net *w)
{
    for (uint32_t i = 0; i < w->size; i++) {
        nx_rbcast_destroy(w->nodes[i].rbcast);
    }
    free(w->nodes);
    free(w->queue);
}

/* Delivers one packet: the oldest, or any. */
static void step(net *w, bool any)
{
    const size_t at = any ? nxt_below(&w->rand, w->n) : 0;
    const packet p = w->queue[at];

    w->n--;
    if (any) {
        w->queue[at] = w->queue[w->n];
    } else {
        memmove(w->queue, w->queue + 1, w->n * sizeof(packet));
    }
    w->hops = p.hops;
    if (w->nodes[p.to].alive) {
        assert_int_equal(nx_rbcast_frame(w->nodes[p.to].rbcast, p.from, p.frame, p.len), NEXAR_OK);
    }
}

static void test_everybody_learns_once_in_few_hops(void **state)
{
    static const uint32_t sizes[] = {1, 2, 3, 7, 8, 9, 100, LARGE};
    const uint64_t key = nx_rbcast_key(NX_RBCAST_DEAD, 0);

    (void)state;
    for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
        const uint32_t size = sizes[k], start = size / 3;
        uint32_t log = 0;
        net w;

        while ((1U << log) < size) {
            log++;
        }
        net_init(&w, size, 1);
        assert_int_equal(nx_rbcast_start(w.nodes[start].rbcast, key, "why", 3), NEXAR_OK);
        assert_int_equal(nx_rbcast_start(w.nodes[start].rbcast, key, "why", 3), NEXAR_OK);
        while (w.n > 0) {
            step(&w, false);
        }
        assert_true(w.sent <= (size_t)size * log);
        for (uint32_t i = 0; i < size; i++) {
            assert_int_equal(w.nodes[i].learned, i != start);
            assert_true(w.nodes[i].hops <= log);
            assert_true(nx_rbcast_knows(w.nodes[i].rbcast, key));
        }
        net_fini(&w);
    }
}

/* Live ranks detect failures, at different times; returns the number that is left. */
static uint32_t find_out(net *w, bool *known, nxt_rand *r)
{
    uint32_t pending = 0;

    for (uint32_t i = 0; i < w->size; i++) {
        for (uint32_t k = 0; (k < w->size) && w->nodes[i].alive; k++) {
            if (w->nodes[k].alive || known[i * w->size + k]) {
                continue;
            }
            if (nxt_one_in(r, 8)) {
                known[i * w->size + k] = true;
                find_failed(&w->nodes[i], k);
            } else {
                pending++;
            }
        }
    }
    return pending;
}

static void check_all_or_none(net *w, uint64_t key)
{
    uint32_t know = 0, living = 0;

    for (uint32_t i = 0; i < w->size; i++) {
        assert_true(w->nodes[i].learned <= 1);
        living += w->nodes[i].alive;
        know += w->nodes[i].alive && nx_rbcast_knows(w->nodes[i].rbcast, key);
    }
    assert_true((know == 0) || (know == living));
}

/* One rank broadcasts, and several fail while they send. */
static void flood_among_deaths(uint64_t seed)
{
    nxt_rand r = {nxt_mix(seed)};
    const uint32_t size = 2 + nxt_below(&r, 40), deaths = nxt_below(&r, size);
    const uint64_t key = nx_rbcast_key(NX_RBCAST_DEAD, 1);
    bool *known = calloc((size_t)size * size, sizeof(bool));
    uint32_t pending;
    net w;

    assert_non_null(known);
    net_init(&w, size, seed);
    for (uint32_t i = 0; i < deaths; i++) {
        w.nodes[nxt_below(&r, size)].sends_left = nxt_below(&r, 8);
    }
    assert_int_equal(nx_rbcast_start(w.nodes[0].rbcast, key, "why", 3), NEXAR_OK);
    do {
        if ((w.n > 0) && !nxt_one_in(&r, 4)) {
            step(&w, true);
        }
        pending = find_out(&w, known, &r);
    } while ((w.n > 0) || (pending > 0));
    check_all_or_none(&w, key);
    net_fini(&w);
    free(known);
}

static void test_what_one_living_rank_knows_all_come_to_know(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 3000; seed++) {
        flood_among_deaths(seed);
    }
}

static void test_a_new_target_receives_the_kept_items(void **state)
{
    const uint64_t key = nx_rbcast_key(NX_RBCAST_DEAD, 2);
    net w;

    (void)state;
    net_init(&w, 4, 1);
    assert_int_equal(nx_rbcast_start(w.nodes[0].rbcast, key, "why", 3), NEXAR_OK);
    assert_int_equal(w.sent, 2); /* 1 and 2 */
    find_failed(&w.nodes[0], 2);
    assert_int_equal(w.sent, 3);
    assert_int_equal(w.queue[2].to, 3);
    find_failed(&w.nodes[0], 1);
    find_failed(&w.nodes[0], 3);
    find_failed(&w.nodes[0], 3);
    assert_int_equal(w.sent, 3);
    net_fini(&w);
}

static void test_frames_of_failed_ranks_do_not_count(void **state)
{
    const uint64_t key = nx_rbcast_key(NX_RBCAST_DEAD, 2);
    net w;

    (void)state;
    net_init(&w, 3, 1);
    assert_int_equal(nx_rbcast_start(w.nodes[1].rbcast, key, "why", 3), NEXAR_OK);
    find_failed(&w.nodes[0], 1);
    while (w.n > 0) {
        if (w.queue[0].to == 2) {
            w.nodes[2].alive = false;
        }
        step(&w, false);
    }
    assert_false(nx_rbcast_knows(w.nodes[0].rbcast, key));
    net_fini(&w);
}

/* Ranks grow at different times, and the items concern one that some do not know yet. */
static void test_news_reach_all_while_the_group_grows(void **state)
{
    enum { BEFORE = 5, AFTER = 12 };

    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        const uint64_t key = nx_rbcast_key(NX_RBCAST_DEAD, AFTER - 1);
        uint32_t left = BEFORE, started = AFTER;
        bool grown[BEFORE] = {false};
        net w;

        net_init(&w, AFTER, seed);
        for (uint32_t i = 0; i < BEFORE; i++) {
            nx_rbcast_destroy(w.nodes[i].rbcast);
            assert_int_equal(
                nx_rbcast_create(&w.nodes[i].rbcast, GROUP, BEFORE, i, &ops, &w.nodes[i]),
                NEXAR_OK);
        }
        while ((left > 0) || (w.n > 0) || (started == AFTER)) {
            const uint32_t i = (uint32_t)nxt_below(&w.rand, BEFORE);

            if (!grown[i] && nxt_one_in(&w.rand, 4)) {
                nx_rbcast_grow(w.nodes[i].rbcast, AFTER);
                grown[i] = true;
                left--;
            } else if (grown[i] && (started == AFTER)) {
                started = i;
                assert_int_equal(nx_rbcast_start(w.nodes[i].rbcast, key, "why", 3), NEXAR_OK);
            } else if (w.n > 0) {
                step(&w, true);
            }
        }
        for (uint32_t i = 0; i < AFTER; i++) {
            assert_int_equal(w.nodes[i].learned, i != started);
            nx_rbcast_forget(w.nodes[i].rbcast, key);
            assert_false(nx_rbcast_knows(w.nodes[i].rbcast, key));
        }
        net_fini(&w);
    }
}

static void test_malformed_news_are_refused(void **state)
{
    static const char good[] = "\x45\x05\0\0\0\x01\0\0\0\x01\x03why";
    const size_t len = sizeof(good) - 1;
    char bad[sizeof(good)];
    uint64_t group;
    net w;

    (void)state;
    net_init(&w, 2, 1);
    assert_int_equal(nx_rbcast_frame_group(good, len, &group), NEXAR_OK);
    assert_int_equal(group, GROUP);
    assert_int_equal(nx_rbcast_frame_group("\x46\x05", 2, &group), NEXAR_EPROTO);
    assert_int_equal(nx_rbcast_frame_group("\x45", 1, &group), NEXAR_EPROTO);
    for (size_t cut = 0; cut < len; cut++) {
        assert_int_equal(nx_rbcast_frame(w.nodes[0].rbcast, 1, good, cut), NEXAR_EPROTO);
    }
    assert_int_equal(nx_rbcast_frame(w.nodes[0].rbcast, 1, good, len + 1), NEXAR_EPROTO);
    memcpy(bad, good, sizeof(good));
    bad[1] = 6; /* another group */
    assert_int_equal(nx_rbcast_frame(w.nodes[0].rbcast, 1, bad, len), NEXAR_EPROTO);
    bad[1] = GROUP;
    bad[7] = 1; /* rank 65 536 */
    assert_int_equal(nx_rbcast_frame(w.nodes[0].rbcast, 1, bad, len), NEXAR_EPROTO);
    bad[7] = 0;
    bad[5] = NX_RBCAST_ENDED + 1; /* of no kind */
    assert_int_equal(nx_rbcast_frame(w.nodes[0].rbcast, 1, bad, len), NEXAR_EPROTO);
    bad[5] = 0;
    assert_int_equal(nx_rbcast_frame(w.nodes[0].rbcast, 1, bad, len), NEXAR_EPROTO);
    assert_int_equal(nx_rbcast_frame(w.nodes[0].rbcast, 1, good, len), NEXAR_OK);
    assert_int_equal(w.nodes[0].learned, 1);
    net_fini(&w);
}

static char learned_text[NX_RBCAST_DATA_MAX + 1];

static void on_hostile(void *ctx, uint64_t key, const void *data, size_t len, uint32_t from)
{
    (void)ctx;
    (void)key;
    (void)from;
    memcpy(learned_text, data, len);
    learned_text[len] = '\0';
}

static void on_sent_on(void *ctx, uint32_t to, const void *frame, size_t len)
{
    (void)ctx;
    (void)to;
    (void)frame;
    (void)len;
}

static void test_news_are_one_line_whatever_they_are_made_of(void **state)
{
    static const char frame[] = "\x45\x05\0\0\0\x01\0\0\0\x01\x09it\n\033[2J\xc3\xa4";
    static const nx_rbcast_ops hostile = {
        .send = on_sent_on, .learned = on_hostile, .life = on_life};
    static node at;
    nx_rbcast *f = NULL;

    (void)state;
    assert_int_equal(nx_rbcast_create(&f, GROUP, 2, 0, &hostile, &at), NEXAR_OK);
    assert_int_equal(nx_rbcast_frame(f, 1, frame, sizeof(frame) - 1), NEXAR_OK);
    assert_string_equal(learned_text, "it??[2J\xc3\xa4");
    nx_rbcast_destroy(f);
}

static void test_lack_of_memory_is_reported_and_the_frame_may_be_repeated(void **state)
{
    static const char frame[] = "\x45\x05\0\0\0\x01\0\0\0\x01\x03why";
    node at = {.alive = true, .sends_left = UINT32_MAX};
    net w = {.size = 2, .nodes = &at};
    char large[NX_RBCAST_DATA_MAX + 1] = {0};

    (void)state;
    at.net = &w;
    NXT_FOR_EACH_OOM (n) {
        nexar_err err;

        at.rbcast = NULL;
        err = nx_rbcast_create(&at.rbcast, GROUP, 2, 0, &ops, &at);
        if (err == NEXAR_OK) {
            err = nx_rbcast_frame(at.rbcast, 1, frame, sizeof(frame) - 1);
        }
        assert_int_equal(err, nx_alloc_failed() ? NEXAR_ENOMEM : NEXAR_OK);
        if ((err != NEXAR_OK) && (at.rbcast != NULL)) {
            assert_int_equal(nx_rbcast_frame(at.rbcast, 1, frame, sizeof(frame) - 1), NEXAR_OK);
        }
        nx_rbcast_destroy(at.rbcast);
    }
    assert_int_equal(nx_rbcast_create(&at.rbcast, GROUP, 2, 2, &ops, &at), NEXAR_EINVAL);
    assert_int_equal(nx_rbcast_create(&at.rbcast, GROUP, 2, 0, &ops, &at), NEXAR_OK);
    assert_int_equal(nx_rbcast_start(at.rbcast, 1, large, sizeof(large)), NEXAR_EINVAL);
    nx_rbcast_destroy(at.rbcast);
    free(w.queue);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_everybody_learns_once_in_few_hops),
        cmocka_unit_test(test_what_one_living_rank_knows_all_come_to_know),
        cmocka_unit_test(test_a_new_target_receives_the_kept_items),
        cmocka_unit_test(test_frames_of_failed_ranks_do_not_count),
        cmocka_unit_test(test_news_reach_all_while_the_group_grows),
        cmocka_unit_test(test_malformed_news_are_refused),
        cmocka_unit_test(test_news_are_one_line_whatever_they_are_made_of),
        cmocka_unit_test(test_lack_of_memory_is_reported_and_the_frame_may_be_repeated),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
