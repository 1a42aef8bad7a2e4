/* roster_test.c - places, ranks, and the names of missing ranks. */
#include "cluster/seed/roster.h"

#include <stdio.h>
#include <string.h>

#include "cluster/addresses.h"
#include "oom.h"
#include "unit.h"

static nx_member make(uint64_t id, uint32_t rank)
{
    nx_member m = {.id = id, .rank = rank, .process = {.pid = (uint32_t)id + 100}, .naddresses = 1};

    (void)snprintf(m.host, sizeof(m.host), "h%u", (unsigned)id);
    assert_int_equal(nx_address_parse("10.0.0.1:5", 0, &m.addresses[0]), NEXAR_OK);
    return m;
}

static nx_member *add(nx_member_table *r, uint64_t id, uint32_t rank)
{
    const nx_member m = make(id, rank);
    nx_member *out = NULL;
    nx_refusal why;

    assert_int_equal(nx_member_table_check(r, rank, &why), NEXAR_OK);
    assert_int_equal(nx_member_table_add(r, &m, &out), NEXAR_OK);
    return out;
}

static void assert_text(const nx_member_table *r, const char *expected)
{
    char text[NX_REASON_MAX];

    assert_string_equal(nx_member_table_text(r, text, sizeof(text)), expected);
}

static void test_ranks_are_given_in_order_around_those_asked_for(void **state)
{
    const nx_job_id job = {{7}};
    nx_member_table r;
    nx_view *view;

    (void)state;
    assert_int_equal(nx_member_table_init(&r, 5), NEXAR_OK);
    (void)add(&r, 1, NX_RANK_ANY);
    (void)add(&r, 2, 0);
    (void)add(&r, 3, NX_RANK_ANY);
    (void)add(&r, 4, 2);
    (void)add(&r, 5, NX_RANK_ANY);
    assert_int_equal(nx_member_table_view(&r, &job, 3, &view), NEXAR_OK);
    assert_int_equal(view->epoch, 3);
    assert_int_equal(view->members[0].id, 2);
    assert_int_equal(view->members[1].id, 1);
    assert_int_equal(view->members[2].id, 4);
    assert_int_equal(view->members[3].id, 3);
    assert_int_equal(view->members[4].id, 5);
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(view->members[i].rank, i);
    }
    nx_view_destroy(view);
    nx_member_table_fini(&r);
}

static void test_ranks_close_up_where_some_are_missing(void **state)
{
    const nx_job_id job = {{7}};
    nx_member_table r;
    nx_view *view;

    (void)state;
    assert_int_equal(nx_member_table_init(&r, 8), NEXAR_OK);
    (void)add(&r, 1, 7);
    (void)add(&r, 2, NX_RANK_ANY);
    (void)add(&r, 3, 4);
    (void)add(&r, 4, NX_RANK_ANY);
    assert_int_equal(nx_member_table_view(&r, &job, 1, &view), NEXAR_OK);
    assert_int_equal(view->size, 4);
    assert_int_equal(view->slots, 4);
    assert_int_equal(view->members[0].id, 2);
    assert_int_equal(view->members[1].id, 4);
    assert_int_equal(view->members[2].id, 3);
    assert_int_equal(view->members[3].id, 1);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(view->members[i].rank, i);
        assert_int_equal(view->members[i].slot, i);
    }
    nx_view_destroy(view);
    nx_member_table_fini(&r);
}

static void test_a_rank_that_cannot_be_had_is_refused(void **state)
{
    nx_member_table r;
    nx_refusal why;
    nx_member *m;

    (void)state;
    assert_int_equal(nx_member_table_init(&r, 2), NEXAR_OK);
    assert_int_equal(nx_member_table_check(&r, 2, &why), NEXAR_EINVAL);
    assert_int_equal(why, NX_REFUSAL_SETTING);
    assert_non_null(strstr(nexar_last_error(), "ranks 0 to 1"));
    m = add(&r, 1, 1);
    assert_int_equal(nx_member_table_check(&r, 1, &why), NEXAR_EINVAL);
    assert_int_equal(why, NX_REFUSAL_SETTING);
    assert_non_null(strstr(nexar_last_error(), "taken by h1 pid 101"));
    (void)add(&r, 2, NX_RANK_ANY);
    assert_int_equal(nx_member_table_check(&r, NX_RANK_ANY, &why), NEXAR_EINVAL);
    assert_int_equal(why, NX_REFUSAL_FULL);
    assert_int_equal(nx_member_table_check(&r, 0, &why), NEXAR_EINVAL);
    assert_int_equal(why, NX_REFUSAL_FULL);
    nx_member_table_remove(&r, m, "x");
    assert_int_equal(nx_member_table_check(&r, 1, &why), NEXAR_OK);
    nx_member_table_fini(&r);
}

static void test_missing_ranks_and_leavers_are_named(void **state)
{
    nx_member_table r;
    nx_member *m;

    (void)state;
    assert_int_equal(nx_member_table_init(&r, 8), NEXAR_OK);
    assert_text(&r, "0 of 8 ranks have joined; missing: ranks 0-7");
    (void)add(&r, 1, 1);
    m = add(&r, 2, 4);
    assert_text(&r, "2 of 8 ranks have joined; missing: ranks 0, 2-3, 5-7; "
                    "here: rank 1 (h1 pid 101), rank 4 (h2 pid 102)");
    (void)add(&r, 3, NX_RANK_ANY);
    assert_text(&r, "3 of 8 ranks have joined; missing: ranks 2-3, 5-7; "
                    "here: rank 1 (h1 pid 101), rank 4 (h2 pid 102), h3 pid 103");
    nx_member_table_remove(&r, m, "it gave up");
    assert_text(&r, "2 of 8 ranks have joined; missing: ranks 2-7; gone: rank 4 (h2 pid 102): it "
                    "gave up; here: rank 1 (h1 pid 101), h3 pid 103");
    (void)add(&r, 5, 4);
    assert_text(&r, "3 of 8 ranks have joined; missing: ranks 2-3, 5-7; "
                    "here: rank 1 (h1 pid 101), h3 pid 103, rank 4 (h5 pid 105)");
    nx_member_table_clear(&r);
    assert_text(&r, "0 of 8 ranks have joined; missing: ranks 0-7");
    nx_member_table_fini(&r);
}

static void test_the_text_of_a_large_world_is_short(void **state)
{
    nx_member_table r;
    char text[4096];

    (void)state;
    assert_int_equal(nx_member_table_init(&r, NX_WORLD_MAX), NEXAR_OK);
    for (uint32_t i = 0; i < NX_WORLD_MAX / 64; i++) {
        (void)add(&r, i + 1, i * 64);
    }
    (void)nx_member_table_text(&r, text, sizeof(text));
    assert_true(strlen(text) < 1000);
    assert_non_null(strstr(text, "1024 of 65536 ranks have joined; missing: ranks 1-63, 65-127"));
    assert_non_null(strstr(text, "and 63756 more; here: rank 0 (h1 pid 101)"));
    assert_non_null(strstr(text, "and 1012 more"));
    nx_member_table_fini(&r);
}

static void test_only_the_last_leavers_are_kept(void **state)
{
    nx_member_table r;
    char text[4096];

    (void)state;
    assert_int_equal(nx_member_table_init(&r, 2), NEXAR_OK);
    for (uint64_t id = 1; id <= 20; id++) {
        nx_member_table_remove(&r, add(&r, id, NX_RANK_ANY), "died");
        (void)add(&r, id + 100, 1);
        nx_member_table_remove(&r, r.asked[1], "died");
    }
    assert_int_equal(r.ngone, 2);
    (void)nx_member_table_text(&r, text, sizeof(text));
    assert_non_null(strstr(text, "h20 pid 120: died"));
    assert_null(strstr(text, "h19 pid 119: died"));
    nx_member_table_fini(&r);
}

static void test_lack_of_memory_is_reported(void **state)
{
    const nx_job_id job = {{7}};

    (void)state;
    NXT_FOR_EACH_OOM (n) {
        const nx_member m = make(1, 0);
        nx_member_table r;
        nx_member *out;
        nx_view *view = NULL;
        char text[NX_REASON_MAX];
        nexar_err err = nx_member_table_init(&r, 1);

        if (err == NEXAR_OK) {
            err = nx_member_table_add(&r, &m, &out);
            if (err == NEXAR_OK) {
                assert_true(strlen(nx_member_table_text(&r, text, sizeof(text))) > 0);
                err = nx_member_table_view(&r, &job, 1, &view);
            }
            nx_member_table_fini(&r);
            nx_view_destroy(view);
        }
        assert_true((err == NEXAR_OK) || (nx_alloc_failed() && (err == NEXAR_ENOMEM)));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranks_are_given_in_order_around_those_asked_for),
        cmocka_unit_test(test_ranks_close_up_where_some_are_missing),
        cmocka_unit_test(test_a_rank_that_cannot_be_had_is_refused),
        cmocka_unit_test(test_missing_ranks_and_leavers_are_named),
        cmocka_unit_test(test_the_text_of_a_large_world_is_short),
        cmocka_unit_test(test_only_the_last_leavers_are_kept),
        cmocka_unit_test(test_lack_of_memory_is_reported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
