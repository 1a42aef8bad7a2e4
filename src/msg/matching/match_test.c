/* match_test.c - the tables against two plain lists, over many seeds; and size. */
#include "match.h"

#include <stdlib.h>

#include "base/random.h"
#include "unit.h"

/* ---- the oracle: lists in order, looked through from the beginning ------------------- */

enum { ITEMS = 400, OPS = 4000, SEEDS = 150 };

typedef struct world {
    nx_match match;
    nx_random_seeded random;
    nx_posted receives[ITEMS];
    nx_held messages[ITEMS];
    bool used_receive[ITEMS], used_message[ITEMS];
    nx_posted *posted[ITEMS]; /* in order */
    nx_held *held[ITEMS];
    size_t nposted, nheld;
    uint64_t peers, tags, contexts, wild; /* number of each; one in |wild| is a wildcard */
} world;

static uint64_t below(world *w, uint64_t limit)
{
    return nx_random_below(&w->random.random, limit);
}

static nx_key message_key(world *w)
{
    return (nx_key){.context = below(w, w->contexts) << 32,
                    .tag = below(w, w->tags),
                    .peer = (uint32_t)below(w, w->peers)};
}

static nx_key receive_key(world *w)
{
    nx_key key = message_key(w);

    if (below(w, w->wild) == 0) {
        key.peer = NX_ANY_PEER;
    }
    if (below(w, w->wild) == 0) {
        key.tag = NX_ANY_TAG;
    }
    return key;
}

static bool fits(const nx_key *want, const nx_key *have)
{
    return (want->context == have->context) &&
           ((want->peer == NX_ANY_PEER) || (want->peer == have->peer)) &&
           ((want->tag == NX_ANY_TAG) || (want->tag == have->tag));
}

static nx_posted *oracle_arrive(world *w, const nx_key *key, size_t *at)
{
    for (size_t i = 0; i < w->nposted; i++) {
        if (fits(&w->posted[i]->key, key)) {
            *at = i;
            return w->posted[i];
        }
    }
    return NULL;
}

static nx_held *oracle_find(world *w, const nx_key *key, size_t *at)
{
    for (size_t i = 0; i < w->nheld; i++) {
        if (fits(key, &w->held[i]->key)) {
            *at = i;
            return w->held[i];
        }
    }
    return NULL;
}

static void unpost(world *w, size_t at)
{
    nx_posted *r = w->posted[at];

    nx_match_unpost(&w->match, r);
    w->used_receive[r - w->receives] = false;
    w->nposted--;
    for (size_t i = at; i < w->nposted; i++) {
        w->posted[i] = w->posted[i + 1];
    }
}

static void drop(world *w, size_t at)
{
    nx_held *h = w->held[at];

    nx_match_drop(&w->match, h);
    w->used_message[h - w->messages] = false;
    w->nheld--;
    for (size_t i = at; i < w->nheld; i++) {
        w->held[i] = w->held[i + 1];
    }
}

static void arrive(world *w)
{
    nx_key key = message_key(w);
    size_t at = 0, i = 0;
    nx_posted *expected = oracle_arrive(w, &key, &at);

    assert_ptr_equal(nx_match_arrive(&w->match, &key), expected);
    if (expected != NULL) {
        unpost(w, at);
        return;
    }
    while ((i < ITEMS) && w->used_message[i]) {
        i++;
    }
    if (i < ITEMS) {
        w->used_message[i] = true;
        w->messages[i].key = key;
        nx_match_hold(&w->match, &w->messages[i]);
        w->held[w->nheld++] = &w->messages[i];
    }
}

static void receive(world *w, bool probe)
{
    nx_key key = receive_key(w);
    size_t at = 0, i = 0;
    nx_held *expected = oracle_find(w, &key, &at);

    assert_ptr_equal(nx_match_find(&w->match, &key), expected);
    if (probe) {
        return;
    }
    if (expected != NULL) {
        drop(w, at);
        return;
    }
    while ((i < ITEMS) && w->used_receive[i]) {
        i++;
    }
    if (i < ITEMS) {
        w->used_receive[i] = true;
        w->receives[i].key = key;
        nx_match_post(&w->match, &w->receives[i]);
        w->posted[w->nposted++] = &w->receives[i];
    }
}

static void cancel(world *w)
{
    if (w->nposted > 0) {
        unpost(w, (size_t)below(w, w->nposted));
    }
    if ((w->nheld > 0) && (below(w, 3) == 0)) {
        drop(w, (size_t)below(w, w->nheld));
    }
}

static void run_seed(world *w, uint64_t seed)
{
    nx_random_seeded_init(&w->random, seed);
    nx_match_init(&w->match, seed * 77);
    w->peers = 1 + below(w, 6);
    w->contexts = 1 + below(w, 3);
    w->tags = 1 + below(w, (seed % 3 == 0) ? 300 : 8);
    w->wild = (seed % 5 == 0) ? UINT64_MAX : 2 + below(w, 6);
    for (int i = 0; i < OPS; i++) {
        /* Long tides of arrivals and of receives: queues grow and drain. */
        uint64_t tide = ((i / 500) % 2 == 0) ? 6 : 2, dice = below(w, 10);

        if (dice < tide) {
            arrive(w);
        } else if (dice < 8) {
            receive(w, false);
        } else if (dice < 9) {
            receive(w, true);
        } else {
            cancel(w);
        }
        assert_int_equal(w->match.nposted, w->nposted);
        assert_int_equal(w->match.nheld, w->nheld);
    }
    nx_match_fini(&w->match);
}

static void test_the_tables_choose_as_two_plain_lists_would(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        world *w = test_calloc(1, sizeof(*w));

        assert_non_null(w);
        run_seed(w, seed);
        test_free(w);
    }
}

static void test_the_oldest_receive_wins_whatever_it_leaves_open(void **state)
{
    nx_posted any = {.key = {1, NX_ANY_TAG, NX_ANY_PEER}}, exact = {.key = {1, 5, 2}},
              tag = {.key = {1, 5, NX_ANY_PEER}}, peer = {.key = {1, NX_ANY_TAG, 2}};
    nx_posted *order[] = {&tag, &exact, &any, &peer};
    nx_key message = {1, 5, 2}, elsewhere = {2, 5, 2};
    nx_match m;

    (void)state;
    nx_match_init(&m, 9);
    for (int i = 0; i < 4; i++) {
        nx_match_post(&m, order[i]);
    }
    assert_null(nx_match_arrive(&m, &elsewhere));
    for (int i = 0; i < 4; i++) {
        assert_ptr_equal(nx_match_arrive(&m, &message), order[i]);
        nx_match_unpost(&m, order[i]);
    }
    assert_null(nx_match_arrive(&m, &message));
    nx_match_fini(&m);
}

/* A linear search would take hours. */
static void test_300000_messages_are_taken_in_reverse_by_tag_at_once(void **state)
{
    enum { MANY = 300000 };
    nx_held *all = test_calloc(MANY, sizeof(*all));
    nx_match m;

    (void)state;
    assert_non_null(all);
    nx_match_init(&m, 1);
    for (uint64_t i = 0; i < MANY; i++) {
        all[i].key = (nx_key){.context = 7, .tag = i, .peer = (uint32_t)(i % 3)};
        nx_match_hold(&m, &all[i]);
    }
    for (uint64_t i = MANY; i-- > 0;) {
        nx_key key = {.context = 7, .tag = i, .peer = (i % 2) ? NX_ANY_PEER : (uint32_t)(i % 3)};

        assert_ptr_equal(nx_match_find(&m, &key), &all[i]);
        nx_match_drop(&m, &all[i]);
    }
    assert_int_equal(m.nheld, 0);
    nx_match_fini(&m);
    test_free(all);
}

/* All messages of one tag, beside one message that hashes to any chain. */
static void test_a_long_queue_of_one_tag_does_not_slow_others(void **state)
{
    enum { MANY = 200000 };
    nx_posted *all = test_calloc(MANY, sizeof(*all));
    nx_key message = {.context = 1, .tag = 1, .peer = 0};
    nx_match m;

    (void)state;
    assert_non_null(all);
    nx_match_init(&m, 2);
    for (size_t i = 0; i < MANY; i++) {
        all[i].key = (nx_key){.context = 1, .tag = 1, .peer = (i % 2) ? NX_ANY_PEER : 0};
        nx_match_post(&m, &all[i]);
    }
    for (size_t i = 0; i < MANY; i++) {
        assert_ptr_equal(nx_match_arrive(&m, &message), &all[i]);
        nx_match_unpost(&m, &all[i]);
    }
    nx_match_fini(&m);
    test_free(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_tables_choose_as_two_plain_lists_would),
        cmocka_unit_test(test_the_oldest_receive_wins_whatever_it_leaves_open),
        cmocka_unit_test(test_300000_messages_are_taken_in_reverse_by_tag_at_once),
        cmocka_unit_test(test_a_long_queue_of_one_tag_does_not_slow_others),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
