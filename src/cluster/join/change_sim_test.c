/*
 * change_sim_test.c - thousands of small worlds that change, in virtual time.  Ranks fail, leave
 * and join; connections to the seed are lost; the seed fails and restarts; members agree (here by a
 * list of decisions) and follow at their own pace.
 *
 * Invariants:
 * - members with a view of the same epoch have the same view;
 * - a waiting joiner ends in the world, or with a reason, or still waits;
 * - a member with a view is in it; slots belong to one member permanently;
 * - when no event is left, the seed has the members' view, every live member has it too, and all of
 *   them know the waiting joiners.
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "cluster/join_rig.h"
#include "unit.h"

#define MS     UINT64_C(1000000)
#define SECOND (1000 * MS)

enum { SEEDS = 4000, STEPS = 400, DECISIONS = 64, JOINERS_MAX = 20, SLOTS = 256 };

/* The decisions of the members: the view of each epoch. */
typedef struct history {
    nx_view *views[DECISIONS]; /* by epoch */
    uint64_t last;
    nx_rankset gone[DECISIONS]; /* of the epoch before */
    nx_member *joined[DECISIONS];
    uint32_t njoined[DECISIONS];
    uint64_t owner[SLOTS];
} history;

static uint64_t below(rig *r, uint64_t n)
{
    return nx_random_below(&r->random.random, n);
}

static const nx_view *view_of(const rig_joiner *j)
{
    uint32_t rank;

    return nx_join_state_view(j->state, &rank);
}

static rig_joiner *joiner_with(const rig *r, uint64_t member)
{
    nx_list_for_each (at, &r->joiners) {
        rig_joiner *j = nx_list_entry(at, rig_joiner, link);

        if (j->member == member) {
            return j;
        }
    }
    return NULL;
}

/* Whether it can still take part. */
static bool lives(const rig_joiner *j)
{
    return (j != NULL) && !j->dead && (nx_join_state_phase(j->state) != NX_JOIN_FAILED);
}

/* ---- the members --------------------------------------------------------------------- */

static void note(history *h, const nx_view *view)
{
    h->views[view->epoch] = nx_view_create(view->size);
    assert_non_null(h->views[view->epoch]);
    memcpy(h->views[view->epoch], view, sizeof(*view) + view->size * sizeof(view->members[0]));
    h->last = view->epoch;
    for (uint32_t i = 0; i < view->size; i++) {
        uint64_t *owner = &h->owner[view->members[i].slot];

        assert_true((*owner == 0) || (*owner == view->members[i].id));
        *owner = view->members[i].id;
    }
}

/* A live member with the last view decides: without the failed members, with some of the joiners
 * that it knows. */
static void decide(rig *r, history *h)
{
    const nx_view *last = h->views[h->last];
    const rig_joiner *leader = NULL;
    const nx_join_queue *waiting;
    nx_rankset *gone;
    nx_view *next = NULL;
    uint64_t epoch;

    for (uint32_t i = 0; (i < last->size) && (leader == NULL); i++) {
        rig_joiner *j = joiner_with(r, last->members[i].id);

        if (lives(j) && (view_of(j) != NULL) && (view_of(j)->epoch == h->last)) {
            leader = j;
        }
    }
    if ((leader == NULL) || (h->last + 1 == DECISIONS)) {
        return;
    }
    epoch = h->last + 1;
    gone = &h->gone[epoch];
    assert_int_equal(nx_rankset_init(gone, last->size), NEXAR_OK);
    for (uint32_t i = 0; i < last->size; i++) {
        if (!lives(joiner_with(r, last->members[i].id))) {
            (void)nx_rankset_add(gone, i);
        }
    }
    waiting = nx_join_state_waiting(leader->state);
    h->njoined[epoch] = (uint32_t)below(r, waiting->n + 1);
    h->joined[epoch] = nx_calloc(waiting->n + 1, sizeof(nx_member));
    assert_non_null(h->joined[epoch]);
    if (h->njoined[epoch] > 0) {
        memcpy(h->joined[epoch], waiting->list, h->njoined[epoch] * sizeof(nx_member));
    }
    assert_int_equal(
        nx_view_next(last, gone, h->joined[epoch], h->njoined[epoch], (uint32_t)epoch, &next),
        NEXAR_OK);
    note(h, next);
    nx_view_destroy(next);
}

/* |j| advances to the next decision, if one includes it. */
static bool follow(rig_joiner *j, history *h)
{
    const nx_view *view = lives(j) ? view_of(j) : NULL;
    uint64_t next;

    if (view == NULL) {
        return false;
    }
    next = view->epoch + 1;
    if ((next > h->last) || (nx_view_member(h->views[next], j->member) == NULL)) {
        return false;
    }
    assert_int_equal(nx_join_state_advance(j->state, &h->gone[next], h->joined[next],
                                           h->njoined[next], (uint32_t)next),
                     NEXAR_OK);
    return true;
}

static void follow_all(rig *r, history *h)
{
    nx_list_for_each (at, &r->joiners) {
        while (follow(nx_list_entry(at, rig_joiner, link), h)) {
        }
    }
}

/* ---- the checks ---------------------------------------------------------------------- */

static void check_views(const rig *r, const history *h)
{
    nx_list_for_each (at, &r->joiners) {
        const rig_joiner *j = nx_list_entry(at, rig_joiner, link);
        const nx_view *view = view_of(j), *known;

        if (view == NULL) {
            continue;
        }
        assert_non_null(nx_view_member(view, j->member));
        known = h->views[view->epoch];
        assert_non_null(known);
        assert_int_equal(view->size, known->size);
        assert_memory_equal(view->members, known->members, view->size * sizeof(known->members[0]));
    }
}

/* No event is left, and the seed runs. */
static void check_quiet(const rig *r, const history *h)
{
    const nx_view *last = h->views[h->last];
    nx_seed_memory memory;
    uint32_t waiters = 0, living = 0;

    nx_list_for_each (at, &r->joiners) {
        const rig_joiner *j = nx_list_entry(at, rig_joiner, link);

        waiters += (lives(j) && (view_of(j) == NULL)) ? 1 : 0;
        living += (lives(j) && (view_of(j) != NULL) && (view_of(j)->epoch == h->last)) ? 1 : 0;
    }
    if (living == 0) {
        return; /* no rank could tell */
    }
    nx_seed_state_memory(r->seed, &memory);
    assert_non_null(memory.view);
    assert_int_equal(memory.view->epoch, h->last);
    for (uint32_t i = 0; i < last->size; i++) {
        const rig_joiner *j = joiner_with(r, last->members[i].id);

        if (lives(j)) {
            assert_non_null(view_of(j));
            assert_int_equal(view_of(j)->epoch, h->last);
            assert_true(nx_join_state_there(j->state));
            assert_int_equal(nx_join_state_waiting(j->state)->n, waiters);
            assert_int_equal(nx_join_state_started(j->state), h->last);
        }
    }
}

/* ---- the runs ------------------------------------------------------------------------ */

static rig_joiner *random_joiner(rig *r)
{
    nx_list *at = r->joiners.next;

    for (uint64_t skip = below(r, JOINERS_MAX); skip > 0; skip--) {
        at = (at->next == &r->joiners) ? r->joiners.next : at->next;
    }
    return nx_list_entry(at, rig_joiner, link);
}

static void anything(rig *r, history *h, unsigned *joiners)
{
    const uint64_t what = below(r, 60);
    rig_joiner *j = random_joiner(r);

    if ((what < 4) && (*joiners > 0)) {
        const nx_join_rules rules = rig_rules(r, NX_RANK_ANY, 0);

        (void)rig_join(r, &rules);
        (*joiners)--;
    } else if (what == 4) {
        decide(r, h);
    } else if (what < 10) {
        (void)follow(j, h);
    } else if ((what == 10) && lives(j) && (below(r, 3) == 0)) {
        rig_kill(r, j);
    } else if ((what == 11) && lives(j) && (j->conn != NULL) && j->conn->told_up) {
        rig_cut(r, j, below(r, 2) == 0);
    } else if (what == 12) {
        (void)rig_advance(r, r->now + 500 * MS);
    } else if ((what == 13) && (below(r, 4) == 0)) {
        if (r->seed_lives) {
            rig_seed_dies(r);
        } else {
            rig_seed_again(r);
        }
    } else {
        (void)rig_step(r);
    }
}

static void begin(rig *r, history *h, uint64_t seed)
{
    const uint32_t world = 1 + (uint32_t)(seed % 5);

    memset(h, 0, sizeof(*h));
    rig_init(r, world, 0, seed);
    nx_seed_state_destroy(r->seed);
    r->rules.lasting = true;
    rig_seed(r);
    for (uint32_t i = 0; i < world; i++) {
        const nx_join_rules rules = rig_rules(r, NX_RANK_ANY, 0);

        (void)rig_join(r, &rules);
    }
    rig_run(r);
    note(h, view_of(nx_list_entry(r->joiners.next, rig_joiner, link)));
}

static void finish(rig *r, history *h)
{
    for (int i = 0; i < DECISIONS; i++) {
        nx_view_destroy(h->views[i]);
        nx_rankset_fini(&h->gone[i]);
        nx_free(h->joined[i]);
    }
    rig_fini(r);
}

static void test_whatever_happens_all_follow(void **state)
{
    unsigned changes = 0, joined = 0, quiet = 0;
    static history h;

    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        rig r;
        unsigned joiners = (unsigned)(seed * 7 % JOINERS_MAX);

        begin(&r, &h, seed);
        for (int i = 0; (i < STEPS) && (r.events[NX_SEED_ENDED] == 0); i++) {
            anything(&r, &h, &joiners);
        }
        if (!r.seed_lives) {
            rig_seed_again(&r);
        }
        /* Removes members that were found failed, and those that joined and failed. */
        for (int i = 0; (i < 3) && (r.events[NX_SEED_ENDED] == 0); i++) {
            follow_all(&r, &h);
            rig_run_until(&r, r.now + 25 * SECOND);
            if (r.events[NX_SEED_ENDED] == 0) {
                check_views(&r, &h);
            }
        }
        if (r.events[NX_SEED_ENDED] == 0) {
            check_quiet(&r, &h);
            quiet++;
        }
        changes += (unsigned)h.last - 1;
        joined += h.views[h.last]->slots - h.views[1]->slots;
        finish(&r, &h);
    }
    print_message("%d runs: %u changes, %u joined later, %u worlds lived on\n", SEEDS, changes,
                  joined, quiet);
    assert_true((changes > SEEDS) && (joined > SEEDS / 2) && (quiet > SEEDS / 2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whatever_happens_all_follow),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
