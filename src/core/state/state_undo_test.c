/* state_undo_test.c - replaced contents are restored, whatever they were. */
#include <stdlib.h>
#include <string.h>

#include "core/state/state_digests.h"
#include "core/state/state_undo.h"
#include "local_world.h"
#include "oom.h"
#include "unit.h"

enum { LONG = 3 * NX_STATE_LEAF + 12345, REGIONS = 6 };

static const size_t lengths[REGIONS] = {0, 1, 8, 100, NX_STATE_LEAF, LONG};

/* Regions with random contents, or that repeat one word, or both. */
static void fill(nexar_iov *r, int how)
{
    for (size_t i = 0; i < REGIONS; i++) {
        r[i] = (nexar_iov){.ptr = malloc(lengths[i] + 1), .bytes = lengths[i]};
        assert_non_null(r[i].ptr);
        memset(r[i].ptr, 17 * how, lengths[i]);
        nxt_fill(r[i].ptr, (how == 0) ? lengths[i] : (how == 1) ? 0 : lengths[i] / 2, i);
    }
}

static void drop(nexar_iov *r)
{
    for (size_t i = 0; i < REGIONS; i++) {
        free(r[i].ptr);
    }
}

static void contents_are_put_back(void **state)
{
    (void)state;
    for (int how = 0; how < 3; how++) {
        for (unsigned threads = 1; threads < 4; threads++) {
            nexar_iov now[REGIONS], before[REGIONS];
            nx_state_undo u;

            fill(now, how);
            fill(before, how);
            assert_int_equal(nx_state_undo_init(&u, (nx_devmem){0}, now, REGIONS, threads),
                             NEXAR_OK);
            for (size_t i = 0; i < REGIONS; i++) {
                memset(now[i].ptr, 99, now[i].bytes);
            }
            assert_int_equal(nx_state_undo_restore(&u), NEXAR_OK);
            for (size_t i = 0; i < REGIONS; i++) {
                assert_memory_equal(now[i].ptr, before[i].ptr, now[i].bytes);
            }
            nx_state_undo_fini(&u);
            drop(now);
            drop(before);
        }
    }
}

static void cleared_memory_needs_no_copy(void **state)
{
    nexar_iov r[REGIONS];
    nx_state_undo u;

    (void)state;
    fill(r, 1);
    assert_int_equal(nx_state_undo_init(&u, (nx_devmem){0}, &r[REGIONS - 1], 1, 1), NEXAR_OK);
    assert_null(u.copies);
    nx_state_undo_fini(&u);
    drop(r);
}

static void without_memory_nothing_is_kept(void **state)
{
    nexar_iov r[REGIONS];

    (void)state;
    fill(r, 0);
    NXT_FOR_EACH_OOM (n) {
        nx_state_undo u;
        const nexar_err err = nx_state_undo_init(&u, (nx_devmem){0}, r, REGIONS, 1);

        assert_int_equal(err, nx_alloc_failed() ? NEXAR_ENOMEM : NEXAR_OK);
        nx_state_undo_fini(&u);
    }
    drop(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contents_are_put_back),
        cmocka_unit_test(cleared_memory_needs_no_copy),
        cmocka_unit_test(without_memory_nothing_is_kept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
