/* state_vote_test.c - the election, and a plan that delivers the winners to every rank that lacks
 * them. */
#include <stdlib.h>
#include <string.h>

#include "core/state/state_vote.h"
#include "oom.h"
#include "rand.h"
#include "unit.h"

enum { RANKS = 9, MANY = 12, TRIALS = 300 };

static uint64_t revisions[RANKS];
static nx_digest digests[RANKS * MANY];
static size_t bytes[MANY];

static nx_state_ballot ballot(uint32_t ranks, size_t tensors, size_t segment)
{
    return (nx_state_ballot){.ranks = ranks,
                             .tensors = tensors,
                             .revisions = revisions,
                             .digests = digests,
                             .bytes = bytes,
                             .segment = segment};
}

static void set(const char *contents, const char *revs)
{
    memset(digests, 0, sizeof(digests));
    for (size_t i = 0; contents[i] != '\0'; i++) {
        digests[i].word[1] = (uint64_t)contents[i];
        revisions[i] = (uint64_t)(revs[i] - '0');
    }
}

static uint32_t winner(const char *contents, const char *revs, uint64_t revision)
{
    const nx_state_ballot b = ballot((uint32_t)strlen(contents), 1, 100);

    set(contents, revs);
    return nx_state_winner(&b, revision, 0);
}

static void the_majority_of_the_newest_wins_and_a_tie_goes_to_the_lowest(void **state)
{
    (void)state;
    assert_int_equal(winner("a", "0", 0), 0);
    assert_int_equal(winner("abb", "000", 0), 1);
    assert_int_equal(winner("abab", "0000", 0), 0);
    assert_int_equal(winner("baab", "0000", 0), 0);
    assert_int_equal(winner("abcc", "0000", 0), 2);
    assert_int_equal(winner("aaab", "0001", 1), 3);
    assert_int_equal(winner("aaabc", "00011", 1), 3);
    assert_int_equal(winner("abbbcc", "122211", 2), 1);
    assert_int_equal(winner("aabbb", "22111", 2), 0);
}

/* Marks in |got|, byte by byte, what |plan| delivers to |rank|. */
static void deliver(const nx_state_plan *plan, uint32_t rank, uint8_t *got)
{
    for (size_t i = 0; i < plan->distribution.n; i++) {
        const nx_distribution_piece *p = &plan->distribution.pieces[i];

        if (nx_distribution_receives(p, rank)) {
            for (size_t k = 0; k < p->len; k++) {
                got[p->off + k]++;
            }
        }
    }
}

static void check_rank(const nx_state_ballot *b, const nx_state_plan *plan, uint32_t rank)
{
    uint8_t got[MANY * 64] = {0};
    size_t off = 0;

    deliver(plan, rank, got);
    for (size_t i = 0; i < plan->differed; i++) {
        const size_t t = plan->which[i];
        const uint32_t best = nx_state_winner(b, plan->revision, t);
        const bool has =
            nx_digest_equal(&digests[rank * b->tensors + t], &digests[best * b->tensors + t]);

        for (size_t k = 0; k < bytes[t]; k++) {
            assert_int_equal(got[off + k], has ? 0 : 1);
        }
        off += bytes[t];
    }
}

/* Holders of pieces hold the winner. */
static void check_holders(const nx_state_ballot *b, const nx_state_plan *plan)
{
    size_t off = 0, at = 0;

    for (size_t i = 0; i < plan->differed; i++) {
        const size_t t = plan->which[i];
        const uint32_t best = nx_state_winner(b, plan->revision, t);

        while ((at < plan->distribution.n) && (plan->pieces[at].off < off + bytes[t])) {
            assert_true(nx_digest_equal(&digests[plan->pieces[at].holder * b->tensors + t],
                                        &digests[best * b->tensors + t]));
            at++;
        }
        off += bytes[t];
    }
    assert_int_equal(at, plan->distribution.n);
}

static void every_rank_receives_what_it_lacks_once_and_nothing_else(void **state)
{
    nxt_rand r = {5};

    (void)state;
    for (int trial = 0; trial < TRIALS; trial++) {
        const uint32_t ranks = 1 + (uint32_t)nxt_below(&r, RANKS);
        const size_t tensors = nxt_below(&r, MANY + 1);
        const nx_state_ballot b = ballot(ranks, tensors, 1 + nxt_below(&r, 40));
        nx_state_plan plan;

        memset(digests, 0, sizeof(digests));
        for (size_t i = 0; i < ranks * tensors; i++) {
            digests[i].word[0] = nxt_below(&r, 3) == 0 ? 1 + nxt_below(&r, 3) : 0;
        }
        for (size_t t = 0; t < tensors; t++) {
            bytes[t] = 1 + nxt_below(&r, 63);
        }
        for (uint32_t rank = 0; rank < ranks; rank++) {
            revisions[rank] = nxt_below(&r, 3);
        }
        assert_int_equal(nx_state_vote(&b, &plan), NEXAR_OK);
        for (uint32_t rank = 0; rank < ranks; rank++) {
            check_rank(&b, &plan, rank);
        }
        check_holders(&b, &plan);
        nx_state_plan_fini(&plan);
    }
}

static void a_long_content_is_cut_among_all_its_holders(void **state)
{
    const nx_state_ballot b = ballot(4, 1, 16);
    nx_state_plan plan;

    (void)state;
    set("aaab", "1110");
    bytes[0] = 3000;
    assert_int_equal(nx_state_vote(&b, &plan), NEXAR_OK);
    assert_int_equal(plan.distribution.n, 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(plan.pieces[i].holder, i);
    }
    assert_int_equal(plan.updated, 1);
    nx_state_plan_fini(&plan);
}

static void without_memory_there_is_no_plan(void **state)
{
    const nx_state_ballot b = ballot(4, 1, 16);

    (void)state;
    set("aaab", "1110");
    NXT_FOR_EACH_OOM (n) {
        nx_state_plan plan;
        const nexar_err err = nx_state_vote(&b, &plan);

        assert_int_equal(err, nx_alloc_failed() ? NEXAR_ENOMEM : NEXAR_OK);
        if (err == NEXAR_OK) {
            nx_state_plan_fini(&plan);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_majority_of_the_newest_wins_and_a_tie_goes_to_the_lowest),
        cmocka_unit_test(every_rank_receives_what_it_lacks_once_and_nothing_else),
        cmocka_unit_test(a_long_content_is_cut_among_all_its_holders),
        cmocka_unit_test(without_memory_there_is_no_plan),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
