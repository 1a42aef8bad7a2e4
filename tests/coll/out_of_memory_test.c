/*
 * out_of_memory_test.c - every builder with each allocation failing once:
 * NEXAR_ENOMEM is returned and nothing leaks (which the sanitizer sees).
 */
#include "oom.h"
#include "suite.h"
#include "unit.h"

enum { RANKS = 7 };

static void build_failing(const nxt_world *w, uint32_t rank)
{
    nx_coll c = nxt_world_coll(w, rank);
    long builds = 0;

    NXT_FOR_EACH_OOM (n) {
        nx_sched s;

        nx_sched_init(&s, w->what.segment);
        nexar_err err = w->what.row->build(&s, &c);

        assert_int_equal(err, nx_alloc_failed() ? NEXAR_ENOMEM : NEXAR_OK);
        nx_sched_fini(&s);
        builds++;
    }
    assert_true(builds > 1);
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
            build_failing(&w, r);
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
