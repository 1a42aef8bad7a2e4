/*
 * health_sim_test.c - heartbeats and floods together in virtual time, as core joins
 * them: what one rank finds out all come to know, in time, and nobody who lives and
 * was not stopped is taken for dead.
 */
#include <stdlib.h>
#include <string.h>

#include "base/heap.h"
#include "cluster/flood.h"
#include "cluster/health.h"
#include "rand.h"
#include "unit.h"

#define MS UINT64_C(1000000)

enum { INTERVAL = 500, TIMEOUT = 5000, DELAY = 50, MOST = 200, SEEDS = 150 };

typedef struct world world;

typedef struct node {
    world *world;
    uint32_t self;
    bool alive, told_off; /* told_off: learned that it is held for dead */
    uint64_t resumes;     /* stopped until then */
    nx_health *health;
    nx_flood *flood;
    uint64_t learned_ns[MOST]; /* when it knew of whose death */
} node;

typedef struct event {
    nx_heap_item item; /* first */
    bool tick;
    uint32_t from, to;
    size_t len;
    uint8_t frame[NX_FLOOD_FRAME_MAX];
} event;

struct world {
    uint32_t size;
    uint64_t now;
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

static void on_send(void *ctx, uint32_t to, const void *frame, size_t len)
{
    const node *n = ctx;
    world *w = n->world;
    event *e = post(w, w->now + (1 + nxt_below(&w->rand, DELAY)) * MS, to);

    e->from = n->self;
    e->len = len;
    memcpy(e->frame, frame, len);
    w->heartbeats += (len == NX_HEALTH_FRAME);
}

static void on_suspected(void *ctx, uint32_t peer, const char *why)
{
    (void)ctx;
    fail_msg("rank %u is suspected: %s", peer, why);
}

/* What core does with a verdict of its own: everybody is told. */
static void on_dead(void *ctx, uint32_t peer, const char *why)
{
    node *n = ctx;

    n->learned_ns[peer] = n->world->now;
    assert_int_equal(nx_flood_start(n->flood, nx_flood_key(NX_FLOOD_DEAD, peer), why, strlen(why)),
                     NEXAR_OK);
    nx_flood_failed(n->flood, peer);
}

static void on_zombie(void *ctx, uint32_t peer)
{
    node *n = ctx;

    nx_flood_tell(n->flood, nx_flood_key(NX_FLOOD_DEAD, peer), peer);
}

static const nx_health_ops health_ops = {
    .send = on_send, .suspected = on_suspected, .dead = on_dead, .zombie = on_zombie};

/* And with what others found out.  nx_flood_failed follows outside: no call back. */
static void on_learned(void *ctx, uint64_t key, const void *data, size_t len, uint32_t from)
{
    node *n = ctx;
    const uint32_t peer = (uint32_t)key;

    (void)from;
    assert_true((len > 0) && (memcmp(data, "no heartbeat for ", 17) == 0));
    if (peer == n->self) {
        n->told_off = true;
    } else if (nx_health_told(n->health, peer, n->world->now)) {
        n->learned_ns[peer] = n->world->now;
    }
}

static const nx_flood_ops flood_ops = {.send = on_send, .learned = on_learned};

static void world_init(world *w, uint32_t size, uint64_t seed)
{
    *w = (world){.size = size, .now = 1, .rand = {nxt_mix(seed)}};
    for (uint32_t i = 0; i < size; i++) {
        node *n = &w->nodes[i];
        const nx_health_config config = {
            .size = size, .self = i, .interval_ns = INTERVAL * MS, .timeout_ns = TIMEOUT * MS};

        *n = (node){.world = w, .self = i, .alive = true};
        assert_int_equal(nx_health_create(&n->health, &config, &health_ops, n, w->now), NEXAR_OK);
        assert_int_equal(nx_flood_create(&n->flood, 0, size, i, &flood_ops, n), NEXAR_OK);
        post(w, nx_health_due(n->health), i)->tick = true;
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
        nx_health_destroy(w->nodes[i].health);
        nx_flood_destroy(w->nodes[i].flood);
    }
}

static void happen(world *w, const event *e)
{
    node *n = &w->nodes[e->to];

    if (!n->alive || n->told_off) {
        return;
    }
    if (e->tick) {
        nx_health_tick(n->health, w->now);
        post(w, w->now + INTERVAL * MS, e->to)->tick = true;
    } else if (e->len == NX_HEALTH_FRAME) {
        assert_int_equal(nx_health_frame(n->health, e->from, e->frame, e->len, w->now), NEXAR_OK);
    } else {
        nx_health_heard(n->health, e->from, w->now);
        assert_int_equal(nx_flood_frame(n->flood, e->from, e->frame, e->len), NEXAR_OK);
    }
    for (uint32_t i = nx_rankset_next(nx_health_dead(n->health), 0); i < w->size;
         i = nx_rankset_next(nx_health_dead(n->health), i + 1)) {
        nx_flood_failed(n->flood, i);
    }
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

static uint32_t dead_known(const world *w, uint32_t at)
{
    return nx_health_dead(w->nodes[at].health)->count;
}

/* Several neighbours die at once, as when their host does. */
static void test_all_know_all_deaths_in_time(void **state)
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
                assert_int_equal(nx_rankset_has(nx_health_dead(w->nodes[i].health), k),
                                 !w->nodes[k].alive);
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
    assert_int_equal(dead_known(w, 3), 0); /* it accuses nobody */
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

static void test_the_cost_of_a_rank_is_that_of_a_few_peers(void **state)
{
    world *w = malloc(sizeof(*w));

    (void)state;
    assert_non_null(w);
    world_init(w, MOST, 1);
    run(w, 20 * INTERVAL);
    /* Eight neighbours, a ping and its answer, each interval at most. */
    assert_true(w->heartbeats <= (size_t)20 * 2 * 8 * MOST);
    assert_true(w->heartbeats > (size_t)5 * 8 * MOST);
    world_fini(w);
    free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_know_all_deaths_in_time),
        cmocka_unit_test(test_who_was_stopped_accuses_nobody_and_learns_what_became_of_it),
        cmocka_unit_test(test_the_cost_of_a_rank_is_that_of_a_few_peers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
