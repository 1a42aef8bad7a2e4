/* adaptive_choice_test.c - the faster method is chosen, also after the two have swapped. */
#include "adaptive_choice.h"

#include "unit.h"

enum { BYTES = 1000 };

/* Runs |uses| uses; method i takes |ns|[i]. Returns the number of uses of method 1. */
static unsigned use(nx_adaptive *w, unsigned uses, const uint64_t ns[2])
{
    unsigned second = 0;

    for (unsigned i = 0; i < uses; i++) {
        const unsigned way = nx_adaptive_next(w);

        assert_true(way < 2);
        second += way;
        nx_adaptive_took(w, way, BYTES, ns[way]);
    }
    return second;
}

static void test_the_other_way_is_tried_first_after_some_uses(void **state)
{
    static const uint64_t ns[2] = {1000, 1000};
    nx_adaptive w;

    (void)state;
    nx_adaptive_init(&w, 1);
    assert_int_equal(use(&w, NX_ADAPTIVE_FIRST, ns), NX_ADAPTIVE_FIRST);
    assert_int_equal(use(&w, NX_ADAPTIVE_TRY, ns), 0);
    assert_int_equal(use(&w, 1, ns), 1);
}

static void test_tries_of_a_slower_way_become_rare(void **state)
{
    static const uint64_t ns[2] = {1000, 3000};
    nx_adaptive w;
    unsigned tried;

    (void)state;
    nx_adaptive_init(&w, 0);
    (void)use(&w, 4 * NX_ADAPTIVE_MOST, ns);
    tried = use(&w, 20 * (NX_ADAPTIVE_MOST + NX_ADAPTIVE_TRY), ns);
    assert_int_equal(tried, 20 * NX_ADAPTIVE_TRY);
}

static void test_a_faster_way_comes_into_use_and_goes_out_of_it(void **state)
{
    static const uint64_t near[2] = {1000, 2000}, far[2] = {4000, 2200};
    nx_adaptive w;

    (void)state;
    nx_adaptive_init(&w, 0);
    (void)use(&w, 10 * NX_ADAPTIVE_MOST, near);
    /* The method in use has become expensive: that shows at once, not in the next sample period. */
    (void)use(&w, 2 * NX_ADAPTIVE_KEPT + NX_ADAPTIVE_TRY + 1, far);
    assert_int_equal(w.now, 1);
    assert_int_equal(use(&w, NX_ADAPTIVE_AGAIN / 2, far), NX_ADAPTIVE_AGAIN / 2);
    (void)use(&w, 10 * NX_ADAPTIVE_MOST, far);
    /* The method in use has not become more expensive: the next sample period finds the faster
     * one. */
    (void)use(&w, NX_ADAPTIVE_MOST + NX_ADAPTIVE_TRY + 1, near);
    assert_int_equal(w.now, 0);
}

static void test_a_little_faster_is_no_reason(void **state)
{
    static const uint64_t ns[2] = {1000, 930};
    nx_adaptive w;

    (void)state;
    nx_adaptive_init(&w, 0);
    (void)use(&w, NX_ADAPTIVE_FIRST + NX_ADAPTIVE_TRY, ns);
    assert_int_equal(use(&w, NX_ADAPTIVE_FIRST, ns), 0);
}

static void test_what_disturbs_does_not_decide(void **state)
{
    nx_adaptive w;

    (void)state;
    nx_adaptive_init(&w, 0);
    for (unsigned i = 0; i < 50 * NX_ADAPTIVE_MOST; i++) {
        const unsigned way = nx_adaptive_next(&w);

        /* Every second use of the first method is disturbed, and many of the second method. */
        nx_adaptive_took(&w, way, BYTES,
                         (way == 0) ? ((i % 2 == 0) ? 20000 : 1000) : ((i % 3 == 0) ? 1500 : 9000));
        assert_true((way == 0) || w.trying);
    }
}

static void test_without_costs_it_stays(void **state)
{
    nx_adaptive w;
    unsigned second = 0;

    (void)state;
    nx_adaptive_init(&w, 0);
    for (unsigned i = 0; i < 10 * NX_ADAPTIVE_MOST; i++) {
        const unsigned way = nx_adaptive_next(&w);

        second += way;
        nx_adaptive_took(&w, way, BYTES, 0); /* a clock that does not advance */
        if (way == 0) {
            nx_adaptive_took(&w, way, BYTES, 1000); /* the other one is never recorded */
        }
    }
    assert_int_equal(w.now, 0);
    assert_true(second < 100 * NX_ADAPTIVE_TRY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_other_way_is_tried_first_after_some_uses),
        cmocka_unit_test(test_tries_of_a_slower_way_become_rare),
        cmocka_unit_test(test_a_faster_way_comes_into_use_and_goes_out_of_it),
        cmocka_unit_test(test_a_little_faster_is_no_reason),
        cmocka_unit_test(test_what_disturbs_does_not_decide),
        cmocka_unit_test(test_without_costs_it_stays),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
