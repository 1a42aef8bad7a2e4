/*
 * out_of_memory_test.c - every builder with every allocation failing in turn:
 * NEXAR_ENOMEM is returned and nothing leaks (which the sanitizer sees).
 */
#include "base/alloc.h"
#include "suite.h"
#include "unit.h"

enum { RANKS = 7, ENOUGH = 200 };

/* Builds with the allocation after |n| failing; whether it did fail. */
static bool build_failing(const nxt_world *w, uint32_t rank, long n)
{
    nx_coll c = nxt_world_coll(w, rank);
    nx_sched s;

    nx_alloc_fail_after(n);
    nx_sched_init(&s, w->what.segment);
    nexar_err err = w->what.row->build(&s, &c);
    bool failed = nx_alloc_failed();

    nx_alloc_fail_after(-1);
    nx_sched_fini(&s);
    assert_int_equal(err, failed ? NEXAR_ENOMEM : NEXAR_OK);
    return failed;
}

static void row_fails(const nx_algorithm *row)
{
    nxt_case c = {.row = row, .size = RANKS, .root = 2, .count = 13, .segment = 2, .seed = 5};
    nxt_world w;
    nxt_verdict v;

    c.hook = row->hook;
    c.average = nx_coll_reduces(row->kind) && (row->kind != NX_SCAN) && (row->kind != NX_EXSCAN);
    for (uint32_t place = 0; place <= NXT_IN_PLACE; place++) {
        c.place = (nxt_place)place;
        if (!nxt_world_init(&w, &c, &v)) {
            nxt_fail_case(&c, NULL, &v);
        }
        for (uint32_t r = 0; r < RANKS; r++) {
            long n = 0;

            while (build_failing(&w, r, n)) {
                n++;
                assert_true(n < ENOUGH);
            }
            assert_true(n > 0);
        }
        nxt_world_fini(&w);
    }
}

static void test_every_builder_survives_every_failing_allocation(void **state)
{
    (void)state;
    nxt_for_rows(row_fails);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_builder_survives_every_failing_allocation),
    };

    nxt_choose_kinds(0, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
