/* nontemporal_copy_test.c - non-temporal copies are correct. */
#include "nontemporal_copy.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "unit.h"

enum { ROOM = NX_STREAM_MIN + 1000, SKEW = 70 };

static uint8_t byte_at(size_t i)
{
    return (uint8_t)(i * 31 + i / 251);
}

/* Copies |len| bytes; source and target begin |skew| bytes after the start of a line. Checks
 * that no other byte is written. */
static void copy_skewed(uint8_t *from, uint8_t *to, size_t skew, size_t len)
{
    memset(to, 0xee, ROOM + 2 * SKEW);
    nx_nontemporal_copy(to + skew, from + SKEW - skew, len);
    assert_memory_equal(to + skew, from + SKEW - skew, len);
    memset(to + skew, 0xee, len);
    nx_nontemporal_piece(to + skew, from + SKEW - skew, len);
    assert_memory_equal(to + skew, from + SKEW - skew, len);
    for (size_t i = 0; i < skew; i++) {
        assert_int_equal(to[i], 0xee);
    }
    for (size_t i = skew + len; i < skew + len + SKEW; i++) {
        assert_int_equal(to[i], 0xee);
    }
}

static void test_any_length_at_any_place(void **state)
{
    static const size_t lens[] = {0, 1, 63, 4096, NX_STREAM_MIN - 1, NX_STREAM_MIN, ROOM};
    uint8_t *from = malloc(ROOM + 2 * SKEW), *to = malloc(ROOM + 2 * SKEW);

    (void)state;
    assert_true((from != NULL) && (to != NULL));
    for (size_t i = 0; i < ROOM + 2 * SKEW; i++) {
        from[i] = byte_at(i);
    }
    for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
        for (size_t skew = 0; skew < SKEW; skew += 3) {
            copy_skewed(from, to, skew, lens[i]);
        }
    }
    free(from);
    free(to);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_any_length_at_any_place)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
