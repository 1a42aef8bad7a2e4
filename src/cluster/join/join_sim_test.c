/*
 * join_sim_test.c - thousands of small worlds in virtual time.  Joiners arrive, fail, time out,
 * request the impossible; malicious clients send anything; frames of different connections arrive
 * in any order.
 *
 * Invariants:
 * - every live joiner ends in the world, or fails with a reason;
 * - all members hold the same view: ranks complete, members once, requested ranks honoured, and
 *   only honest joiners in it;
 * - a member may dial any other live member and is known there;
 * - without failures and time-outs the world forms, however many malicious clients there are.
 */
#include <string.h>

#include "cluster/join_rig.h"
#include "unit.h"

#define MS     UINT64_C(1000000)
#define SECOND (1000 * MS)

enum { SEEDS = 3000, WORLD_MAX = 9, JOINERS_MAX = 24, BAD_MAX = 12 };

static uint64_t below(rig *r, uint64_t n)
{
    return nx_random_below(&r->random.random, n);
}

/* ---- malicious clients --------------------------------------------------------------- */

static void bad_client(rig *r)
{
    uint8_t bytes[NX_HELLO_MAX];
    rig_conn *c = rig_connect(r);
    nx_token wrong = r->rules.token;
    size_t len;

    wrong.bytes[below(r, 32)] ^= (uint8_t)(1 + below(r, 255));
    switch (below(r, 7)) {
    case 0: /* silent */
        break;
    case 1:
        nx_random_fill(&r->random.random, bytes, 300);
        rig_send(c, bytes, below(r, 300));
        break;
    case 2:
        rig_send(c, bytes, rig_hello(c, &wrong, (uint32_t)below(r, WORLD_MAX), bytes));
        break;
    case 3: /* another version */
        len = rig_hello(c, &r->rules.token, 0, bytes);
        bytes[2] ^= 4;
        rig_send(c, bytes, len);
        break;
    case 4: /* a HELLO of another session */
        len = rig_hello(c, &r->rules.token, 0, bytes);
        rig_send(rig_connect(r), bytes, len);
        break;
    case 5: /* a valid one with one changed byte: only the proof reveals it */
        len = rig_hello(c, &wrong, 0, bytes);
        bytes[below(r, len)] ^= (uint8_t)(1 + below(r, 255));
        rig_send(c, bytes, len);
        break;
    default: /* many frames at once */
        for (int i = 0; i < 5; i++) {
            nx_random_fill(&r->random.random, bytes, 20);
            bytes[0] = (uint8_t)below(r, 12);
            rig_send(c, bytes, 20);
        }
        break;
    }
}

/* ---- the checks ---------------------------------------------------------------------- */

static const rig_joiner *joiner_with(const rig *r, uint64_t member)
{
    nx_list_for_each (at, &r->joiners) {
        const rig_joiner *j = nx_list_entry(at, rig_joiner, link);

        if (j->member == member) {
            return j;
        }
    }
    return NULL;
}

static void check_view(const rig *r, const nx_view *view)
{
    assert_int_equal(view->size, r->rules.world_size);
    for (uint32_t i = 0; i < view->size; i++) {
        assert_int_equal(view->members[i].rank, i);
        assert_non_null(joiner_with(r, view->members[i].id));
        for (uint32_t k = 0; k < i; k++) {
            assert_true(view->members[k].id != view->members[i].id);
        }
    }
}

/* Now and then, a member dials the others. */
static void dial_peers(rig *r)
{
    nx_list_for_each (at, &r->joiners) {
        const rig_joiner *j = nx_list_entry(at, rig_joiner, link);
        uint32_t rank;
        const nx_view *view = nx_join_state_view(j->state, &rank);

        if ((view == NULL) || j->dead || (below(r, 8) != 0)) {
            continue;
        }
        for (uint32_t i = 0; i < view->size; i++) {
            const rig_joiner *peer = joiner_with(r, view->members[i].id);

            /* A joiner that gave up at the time of the start counts as failed. */
            if ((i != rank) && !peer->dead &&
                (nx_join_state_phase(peer->state) != NX_JOIN_FAILED)) {
                assert_true(nx_join_state_peer(peer->state, j->member));
            }
        }
    }
}

static unsigned check_all(const rig *r)
{
    const nx_view *first = NULL;
    unsigned formed = 0;

    nx_list_for_each (at, &r->joiners) {
        const rig_joiner *j = nx_list_entry(at, rig_joiner, link);
        uint32_t rank;
        const nx_view *view = nx_join_state_view(j->state, &rank);
        const char *text;

        if (view == NULL) {
            if (!j->dead) {
                assert_int_equal(nx_join_state_phase(j->state), NX_JOIN_FAILED);
                assert_true(nx_join_state_error(j->state, &text) != NEXAR_OK);
                assert_true(strlen(text) > 10);
            }
            continue;
        }
        formed++;
        assert_int_equal(view->members[rank].id, j->member);
        if (first == NULL) {
            first = view;
            check_view(r, view);
        } else {
            assert_int_equal(view->epoch, first->epoch);
            assert_memory_equal(view->members, first->members,
                                view->size * sizeof(view->members[0]));
        }
    }
    return formed;
}

/* ---- the runs ------------------------------------------------------------------------ */

static rig_joiner *random_joiner(rig *r)
{
    nx_list *at = r->joiners.next;

    for (uint64_t skip = below(r, JOINERS_MAX); skip > 0; skip--) {
        at = (at->next == &r->joiners) ? r->joiners.next : at->next;
    }
    return (at == &r->joiners) ? NULL : nx_list_entry(at, rig_joiner, link);
}

/* Exactly the right joiners, no failures, no time-outs: the world must form. */
static void test_bad_clients_never_disturb(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        rig r;
        uint32_t world, left, bad = 0;

        rig_init(&r, 1 + (uint32_t)(seed % WORLD_MAX), 0, seed);
        world = left = r.rules.world_size;
        while (!nx_seed_state_formed(r.seed)) {
            if ((left > 0) && (below(&r, 6) == 0)) {
                /* Some request ranks from the top, the others none. */
                (void)rig_join_as(&r, (below(&r, 2) == 0) ? left - 1 : NX_RANK_ANY, 0);
                left--;
            }
            if ((bad < BAD_MAX) && (below(&r, 6) == 0)) {
                bad_client(&r);
                bad++;
            }
            if (!rig_step(&r) && (left == 0) && (bad == BAD_MAX)) {
                assert_true(rig_advance(&r, r.now + 60 * SECOND));
            }
            dial_peers(&r);
        }
        rig_run_until(&r, r.now + 60 * SECOND);
        assert_int_equal(check_all(&r), world);
        assert_int_equal(r.events[NX_SEED_FORMED], 1);
        assert_int_equal(r.events[NX_SEED_JOINED], world);
        rig_fini(&r);
    }
}

/* Anything may happen at any time. */
static void anything(rig *r, unsigned *joiners, unsigned *bad)
{
    const uint64_t what = below(r, 40);

    if ((what < 6) && (*joiners > 0)) {
        uint32_t rank = (below(r, 2) == 0) ? NX_RANK_ANY : (uint32_t)below(r, WORLD_MAX + 1);

        (void)rig_join_as(r, rank, (1 + below(r, 20)) * 500 * MS);
        (*joiners)--;
    } else if ((what < 9) && (*bad < BAD_MAX)) {
        bad_client(r);
        (*bad)++;
    } else if (what == 9) {
        rig_joiner *j = random_joiner(r);

        if ((j != NULL) && !j->dead) {
            rig_kill(r, j);
        }
    } else if (what == 10) {
        (void)rig_advance(r, r->now + 500 * MS);
    } else if (what == 11) {
        dial_peers(r);
    } else {
        (void)rig_step(r);
    }
}

static void test_whatever_happens_all_agree_or_know_why_not(void **state)
{
    unsigned formed_worlds = 0, timeouts = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        rig r;
        unsigned joiners = 1 + (unsigned)(seed * 7 % JOINERS_MAX), bad = 0, formed;

        rig_init(&r, 1 + (uint32_t)(seed % WORLD_MAX), (seed % 2 == 0) ? 2 * SECOND : 0, seed);
        for (int i = 0; i < 600; i++) {
            anything(&r, &joiners, &bad);
        }
        rig_run_until(&r, r.now + 60 * SECOND);
        formed = check_all(&r);
        assert_true((formed == 0) || (r.events[NX_SEED_FORMED] == 1));
        assert_true(formed <= r.rules.world_size);
        formed_worlds += r.events[NX_SEED_FORMED];
        timeouts += r.events[NX_SEED_TIMEOUT];
        rig_fini(&r);
    }
    /* The runs must include both outcomes. */
    print_message("%d runs: %u worlds formed, %u time-outs of the seed\n", SEEDS, formed_worlds,
                  timeouts);
    assert_true((formed_worlds > SEEDS / 5) && (timeouts > SEEDS / 20));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad_clients_never_disturb),
        cmocka_unit_test(test_whatever_happens_all_agree_or_know_why_not),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
