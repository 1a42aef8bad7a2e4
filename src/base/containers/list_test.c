/* list_test.c - order, removal, and removal during iteration. */
#include "list.h"

#include "unit.h"

typedef struct job {
    int id;
    nx_list link;
} job;

static int digits(nx_list *head)
{
    int all = 0;

    nx_list_for_each (at, head) {
        all = all * 10 + nx_list_entry(at, job, link)->id;
    }
    return all;
}

static void test_members_come_in_the_order_of_their_ends(void **state)
{
    job jobs[] = {{.id = 1}, {.id = 2}, {.id = 3}, {.id = 4}};
    nx_list head;

    (void)state;
    nx_list_init(&head);
    assert_true(nx_list_empty(&head));
    assert_true(nx_list_pop(&head) == NULL);
    nx_list_push_back(&head, &jobs[1].link);
    nx_list_push_back(&head, &jobs[2].link);
    nx_list_push_front(&head, &jobs[0].link);
    nx_list_insert(&jobs[2].link, &jobs[3].link);
    assert_int_equal(digits(&head), 1243);
    assert_true(nx_list_pop(&head) == &jobs[0].link);
    assert_int_equal(digits(&head), 243);
}

static void test_a_removed_member_is_in_no_list(void **state)
{
    job jobs[] = {{.id = 1}, {.id = 2}, {.id = 3}};
    nx_list head;

    (void)state;
    nx_list_init(&head);
    for (int i = 0; i < 3; i++) {
        nx_list_init(&jobs[i].link);
        assert_false(nx_list_linked(&jobs[i].link));
        nx_list_push_back(&head, &jobs[i].link);
        assert_true(nx_list_linked(&jobs[i].link));
    }
    nx_list_remove(&jobs[1].link);
    assert_false(nx_list_linked(&jobs[1].link));
    nx_list_remove(&jobs[1].link);
    assert_int_equal(digits(&head), 13);
}

static void test_the_body_of_a_walk_may_remove_where_it_stands(void **state)
{
    job jobs[] = {{.id = 1}, {.id = 2}, {.id = 3}, {.id = 4}};
    nx_list head;

    (void)state;
    nx_list_init(&head);
    for (int i = 0; i < 4; i++) {
        nx_list_push_back(&head, &jobs[i].link);
    }
    nx_list_for_each (at, &head) {
        if (nx_list_entry(at, job, link)->id % 2 == 0) {
            nx_list_remove(at);
        }
    }
    assert_int_equal(digits(&head), 13);
    nx_list_for_each (at, &head) {
        nx_list_remove(at);
    }
    assert_true(nx_list_empty(&head));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_members_come_in_the_order_of_their_ends),
        cmocka_unit_test(test_a_removed_member_is_in_no_list),
        cmocka_unit_test(test_the_body_of_a_walk_may_remove_where_it_stands),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
