/* state_digests_test.c - digests of tensors do not depend on threads, and find every change. */
#include <stdlib.h>
#include <string.h>

#include "core/state/state_digests.h"
#include "local_world.h"
#include "oom.h"
#include "unit.h"

enum { N = 5, LONG = 2 * NX_STATE_LEAF + 4 };

static const size_t counts[N] = {0, 1, NX_STATE_LEAF / 4, NX_STATE_LEAF / 4 + 1, LONG / 4};
static nx_content_key key;

static void make(nexar_state *t)
{
    const uint64_t seed[NX_CONTENT_SEED] = {9, 8, 7, 6};

    nx_content_key_init(&key, seed);
    for (size_t i = 0; i < N; i++) {
        t[i] = (nexar_state){"t", malloc(4 * counts[i] + 1), counts[i], NEXAR_F32};
        assert_non_null(t[i].ptr);
        nxt_fill(t[i].ptr, 4 * counts[i], i);
    }
}

static void drop(nexar_state *t)
{
    for (size_t i = 0; i < N; i++) {
        free(t[i].ptr);
    }
}

static void digest(const nexar_state *t, unsigned threads, nx_digest *out)
{
    assert_int_equal(nx_state_digests((nx_devmem){0}, t, N, &key, threads, out), NEXAR_OK);
}

static void threads_change_nothing(void **state)
{
    nx_digest one[N], more[N];
    nexar_state t[N];

    (void)state;
    make(t);
    digest(t, 1, one);
    for (unsigned threads = 2; threads < 6; threads++) {
        digest(t, threads, more);
        assert_memory_equal(one, more, sizeof(one));
    }
    drop(t);
}

static void a_change_of_one_byte_changes_that_digest_alone(void **state)
{
    nx_digest was[N], now[N];
    nexar_state t[N];

    (void)state;
    make(t);
    digest(t, 2, was);
    for (size_t i = 1; i < N; i++) {
        uint8_t *last = (uint8_t *)t[i].ptr + 4 * counts[i] - 1;

        *last ^= 1;
        digest(t, 2, now);
        *last ^= 1;
        for (size_t k = 0; k < N; k++) {
            assert_int_equal(nx_digest_equal(&was[k], &now[k]), k != i);
        }
    }
    drop(t);
}

static void without_memory_there_are_no_digests(void **state)
{
    nexar_state t[N];

    (void)state;
    make(t);
    NXT_FOR_EACH_OOM (n) {
        nx_digest out[N];
        const nexar_err err = nx_state_digests((nx_devmem){0}, t, N, &key, 1, out);

        assert_int_equal(err, nx_alloc_failed() ? NEXAR_ENOMEM : NEXAR_OK);
    }
    drop(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_change_nothing),
        cmocka_unit_test(a_change_of_one_byte_changes_that_digest_alone),
        cmocka_unit_test(without_memory_there_are_no_digests),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
