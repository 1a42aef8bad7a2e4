/* suggest_test.c - a suggestion is close to the word, or there is none. */
#include "suggest.h"

#include <string.h>

#include "unit.h"

static const char *nearest(const char *word)
{
    static const char *const names[] = {"log", "algorithms", "segment", "kernels"};
    nx_suggest n = nx_suggest_start(word);

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        nx_suggest_try(&n, names[i]);
    }
    return (n.best == NULL) ? "" : n.best;
}

static void test_a_slip_finds_the_name(void **state)
{
    (void)state;
    assert_string_equal(nearest("segmnt"), "segment");
    assert_string_equal(nearest("SEGMENTS"), "segment");
    assert_string_equal(nearest("algorithm"), "algorithms");
    assert_string_equal(nearest("kernles"), "kernels");
    assert_string_equal(nearest("lg"), "log");
    assert_string_equal(nearest("olg"), "log");
}

static void test_another_word_finds_nothing(void **state)
{
    char word[500];

    (void)state;
    assert_string_equal(nearest(""), "");
    assert_string_equal(nearest("x"), "");
    assert_string_equal(nearest("foo"), "");
    assert_string_equal(nearest("bandwidth"), "");
    memset(word, 'k', sizeof(word));
    word[sizeof(word) - 1] = '\0';
    assert_string_equal(nearest(word), "");
}

static void test_of_equally_near_names_the_first_is_kept(void **state)
{
    nx_suggest n = nx_suggest_start("cat");

    (void)state;
    nx_suggest_try(&n, "car");
    nx_suggest_try(&n, "can");
    assert_string_equal(n.best, "car");
    nx_suggest_try(&n, "cat");
    assert_string_equal(n.best, "cat");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_slip_finds_the_name),
        cmocka_unit_test(test_another_word_finds_nothing),
        cmocka_unit_test(test_of_equally_near_names_the_first_is_kept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
