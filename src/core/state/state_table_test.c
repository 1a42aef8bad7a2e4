/* state_table_test.c - tables of names are encoded, compared and described. */
#include <stdlib.h>
#include <string.h>

#include "core/state/state_table.h"
#include "unit.h"

enum { N = 3, ROOM = 256 };

static float some[8];
static const nexar_state here[N] = {{"a", some, 4, NEXAR_F32},
                                    {"", some, 0, NEXAR_I8},
                                    {"weights of layer 2", some, 1, NEXAR_STRUCT(24)}};

/* The table of |n| |tensors|; stores its size in |*size|. */
static uint8_t *write(const nexar_state *tensors, size_t n, size_t *size)
{
    static uint8_t table[ROOM];

    *size = nx_state_table_size(tensors, n);
    assert_true(*size <= ROOM);
    nx_state_table_write(tensors, n, table);
    return table;
}

static uint64_t first_difference(const nexar_state *tensors, size_t n)
{
    uint64_t first = 77;
    size_t size;
    const uint8_t *table = write(tensors, n, &size);

    assert_int_equal(nx_state_table_compare(here, N, table, size, &first), NEXAR_OK);
    return first;
}

static void the_first_difference_is_found(void **state)
{
    nexar_state there[N + 1];

    (void)state;
    memcpy(there, here, sizeof(here));
    there[N] = here[0];
    assert_true(first_difference(there, N) == UINT64_MAX);
    assert_int_equal(first_difference(there, N + 1), N);
    assert_int_equal(first_difference(there, N - 1), N - 1);
    assert_int_equal(first_difference(there, 0), 0);
    there[2].dtype = NEXAR_STRUCT(25);
    assert_int_equal(first_difference(there, N), 2);
    there[1].count = 1;
    assert_int_equal(first_difference(there, N), 1);
    there[0].name = "b";
    assert_int_equal(first_difference(there, N), 0);
    there[0].name = "ab";
    assert_int_equal(first_difference(there, N), 0);
}

static void a_tensor_is_described_by_name_count_and_type(void **state)
{
    char mine[NX_STATE_TEXT], theirs[NX_STATE_TEXT];
    size_t size;
    const uint8_t *table = write(here, N, &size);

    (void)state;
    for (uint64_t i = 0; i <= N; i++) {
        nx_state_describe(here, N, i, mine);
        nx_state_table_describe(table, size, i, theirs);
        assert_string_equal(mine, theirs);
    }
    nx_state_describe(here, N, 0, mine);
    assert_string_equal(mine, "\"a\" (4 x f32)");
    nx_state_describe(here, N, 2, mine);
    assert_string_equal(mine, "\"weights of layer 2\" (1 x struct(24))");
    nx_state_describe(here, N, N, mine);
    assert_string_equal(mine, "no tensor");
}

static void a_table_that_is_cut_short_is_malformed(void **state)
{
    size_t size;
    const uint8_t *table = write(here, N, &size);
    uint64_t first;

    (void)state;
    for (size_t n = 1; n < size; n++) {
        uint8_t *copy = malloc(n);
        const nexar_err err = (memcpy(copy, table, n) == NULL)
                                  ? NEXAR_ENOMEM
                                  : nx_state_table_compare(here, N, copy, n, &first);

        assert_true((err == NEXAR_EPROTO) || (n == 17) || (n == 33)); /* between two tensors */
        free(copy);
    }
}

static void tables_that_differ_have_different_digests(void **state)
{
    nexar_state there[N];
    size_t size;
    const uint8_t *table = write(here, N, &size);
    const nx_digest was = nx_state_table_digest(table, size);
    nx_digest now = nx_state_table_digest(table, size);

    (void)state;
    assert_true(nx_digest_equal(&was, &now));
    memcpy(there, here, sizeof(here));
    there[0].count++;
    table = write(there, N, &size);
    now = nx_state_table_digest(table, size);
    assert_false(nx_digest_equal(&was, &now));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_difference_is_found),
        cmocka_unit_test(a_tensor_is_described_by_name_count_and_type),
        cmocka_unit_test(a_table_that_is_cut_short_is_malformed),
        cmocka_unit_test(tables_that_differ_have_different_digests),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
