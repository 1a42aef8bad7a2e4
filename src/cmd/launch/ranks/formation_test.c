/* formation_test.c - the launcher's state follows the events of the seed. */
#include "formation.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "unit.h"

static void tell(nx_formation *f, nx_seed_event_kind kind, uint32_t rank, uint64_t id,
                 const char *text)
{
    const nx_member member = {.rank = rank, .id = id};
    const nx_seed_event event = {.kind = kind, .member = &member, .text = text};

    nx_formation_on_event(f, &event);
}

/* The lines to print since the last call. */
static const char *said(const nx_formation *f)
{
    static char text[256];
    const ssize_t n = read(f->notes[0], text, sizeof(text) - 1);

    text[(n < 0) ? 0 : n] = '\0';
    return text;
}

static bool has_news(const nx_formation *f)
{
    uint64_t count;

    return read(f->news, &count, sizeof(count)) == sizeof(count);
}

static void test_a_rank_is_followed_from_joining_to_its_end(void **state)
{
    nx_formation f;

    (void)state;
    assert_int_equal(nx_formation_init(&f, 3), NEXAR_OK);
    assert_false(has_news(&f));
    assert_int_equal(nx_formation_presence(&f, 1), NX_PRESENCE_NONE);
    tell(&f, NX_SEED_JOINED, 1, 11, "");
    tell(&f, NX_SEED_JOINED, 2, 12, "");
    assert_int_equal(nx_formation_presence(&f, 1), NX_PRESENCE_JOINED);
    assert_true(has_news(&f));
    tell(&f, NX_SEED_LOST, 0, 11, ""); /* ranks have been renumbered: the member's number decides */
    assert_int_equal(nx_formation_presence(&f, 1), NX_PRESENCE_LOST);
    tell(&f, NX_SEED_BACK, 0, 11, "");
    assert_int_equal(nx_formation_presence(&f, 1), NX_PRESENCE_JOINED);
    tell(&f, NX_SEED_LEFT, 1, 12, "");
    assert_int_equal(nx_formation_presence(&f, 2), NX_PRESENCE_FINALIZED);
    assert_int_equal(nx_formation_presence(&f, 1), NX_PRESENCE_JOINED);
    assert_int_equal(nx_formation_presence(&f, 0), NX_PRESENCE_NONE);
    nx_formation_fini(&f);
}

static void test_members_of_another_world_are_rejected(void **state)
{
    nx_formation f;

    (void)state;
    assert_int_equal(nx_formation_init(&f, 2), NEXAR_OK);
    tell(&f, NX_SEED_JOINED, NX_RANK_ANY, 20, "");
    tell(&f, NX_SEED_JOINED, 7, 21, "");
    tell(&f, NX_SEED_LOST, 7, 21, "");
    assert_int_equal(nx_formation_presence(&f, 0), NX_PRESENCE_NONE);
    assert_int_equal(nx_formation_presence(&f, 1), NX_PRESENCE_NONE);
    assert_int_equal(nx_formation_presence(&f, 7), NX_PRESENCE_NONE);
    nx_formation_fini(&f);
}

static void test_only_what_the_user_must_know_is_printed(void **state)
{
    nx_formation f;

    (void)state;
    assert_int_equal(nx_formation_init(&f, 2), NEXAR_OK);
    tell(&f, NX_SEED_REFUSED, 0, 1, "turned away");
    assert_string_equal(said(&f), "turned away\n");
    tell(&f, NX_SEED_STALLED, 0, 1, "missing: rank 0");
    assert_string_equal(said(&f), "missing: rank 0\n");
    tell(&f, NX_SEED_JOINED, 0, 1, "here");
    tell(&f, NX_SEED_STALLED, 0, 1, "missing: rank 1"); /* rank 0 reports it */
    tell(&f, NX_SEED_FORMED, 0, 1, "formed");
    assert_string_equal(said(&f), "");
    nx_formation_fini(&f);
}

static void test_without_memory_nothing_is_left(void **state)
{
    nx_formation f;

    (void)state;
    nx_alloc_fail_after(0);
    assert_int_equal(nx_formation_init(&f, 2), NEXAR_ENOMEM);
    assert_true(nx_alloc_failed());
    assert_int_equal(f.notes[0], -1);
    assert_int_equal(f.news, -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_rank_is_followed_from_joining_to_its_end),
        cmocka_unit_test(test_members_of_another_world_are_rejected),
        cmocka_unit_test(test_only_what_the_user_must_know_is_printed),
        cmocka_unit_test(test_without_memory_nothing_is_left),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
