/* copy_test.c - copies are correct at every offset of source and target in their pages. */
#include "copy.h"

#include <stdlib.h>

#include "unit.h"

enum { ROOM = 3 * NX_COPY_PAGE, EDGE = 256 };

static void check(uint8_t *to, const uint8_t *from, size_t len)
{
    nx_memcpy(to, from, len);
    assert_memory_equal(to, from, len);
    for (size_t i = 1; i <= EDGE; i++) {
        assert_int_equal(to[-(ptrdiff_t)i], 0xee);
        assert_int_equal(to[len + i - 1], 0xee);
    }
    memset(to, 0xee, len);
}

static void test_any_distance(void **state)
{
    static const size_t lens[] = {
        0, 1, NX_COPY_LEAST - 1, NX_COPY_LEAST, NX_COPY_LEAST + 77, NX_COPY_PAGE + 1};
    uint8_t *from = aligned_alloc(NX_COPY_PAGE, ROOM), *to = aligned_alloc(NX_COPY_PAGE, ROOM);

    (void)state;
    assert_true((from != NULL) && (to != NULL));
    for (size_t i = 0; i < ROOM; i++) {
        from[i] = (uint8_t)(i * 31 + i / 251);
    }
    memset(to, 0xee, ROOM);
    for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
        for (size_t at = 0; at < 70; at += 3) {
            for (size_t behind = 0; behind < 130; behind += 5) {
                check(to + EDGE + at + behind, from + EDGE + at, lens[i]);
            }
        }
    }
    free(from);
    free(to);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_any_distance)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
