/* comm_id_test.c - ids of communicators: encoding and decoding. */
#include "cluster/comm_id.h"

#include "unit.h"

/* Slots at the ends of each form. */
static const uint32_t slots[] = {0, 1, 15, 16, 1023, 1024, 65535};
enum { SLOTS = sizeof(slots) / sizeof(slots[0]) };

static void check(uint32_t slot, uint32_t number)
{
    const uint32_t id = nx_comm_id_make(slot, number);

    assert_int_equal(nx_comm_id_first(id), slot);
    assert_int_equal(nx_comm_id_number(id), number);
    assert_true((id != 0) && (id != UINT32_MAX));
}

static void test_an_id_has_the_slot_that_assigned_it_and_a_number(void **state)
{
    (void)state;
    for (int i = 0; i < SLOTS; i++) {
        check(slots[i], 1);
        check(slots[i], 2);
        check(slots[i], nx_comm_id_last(slots[i]));
    }
    assert_int_equal(nx_comm_id_first(0), 0);
}

static void test_ids_of_different_slots_differ(void **state)
{
    (void)state;
    for (int i = 0; i < SLOTS; i++) {
        for (int k = 0; k < i; k++) {
            assert_true(nx_comm_id_make(slots[i], 1) != nx_comm_id_make(slots[k], 1));
            assert_true(nx_comm_id_make(slots[i], nx_comm_id_last(slots[i])) !=
                        nx_comm_id_make(slots[k], nx_comm_id_last(slots[k])));
        }
    }
}

static void test_a_small_world_has_ids_for_years(void **state)
{
    (void)state;
    assert_true(nx_comm_id_last(15) > 67000000);
    assert_true(nx_comm_id_last(1023) > 1000000);
    assert_true(nx_comm_id_last(65535) > 32000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_id_has_the_slot_that_assigned_it_and_a_number),
        cmocka_unit_test(test_ids_of_different_slots_differ),
        cmocka_unit_test(test_a_small_world_has_ids_for_years),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
