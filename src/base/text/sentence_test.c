/* sentence_test.c - a message that does not fit is cut after a whole word. */
#include "sentence.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "unit.h"

static void test_what_fits_is_left_alone(void **state)
{
    char buf[16];

    (void)state;
    assert_int_equal(nx_sentence(buf, sizeof(buf), "%s", "fifteen letters"), 15);
    assert_string_equal(buf, "fifteen letters");
    assert_int_equal(nx_sentence(buf, sizeof(buf), "%s", ""), 0);
    assert_string_equal(buf, "");
    assert_int_equal(nx_sentence_fit("fifteen letters", 16), 15);
}

static void test_it_is_cut_behind_a_word(void **state)
{
    static const struct {
        const char *text, *cut;
    } cases[] = {
        {"one two three four", "one two..."},
        {"tried [fd00::2]:52414", "tried..."},
        {"tried a, b, c, d and e", "tried a, b..."},
        {"a: no answer; b: none", "a: no answer..."},
        {"onelongwordthatdoesnotfit", "onelongwordt..."},
        {"gr\xc3\xbc\xc3\xbc\xc3\xbc\xc3\xbc\xc3\xbc\xc3\xbc\xc3\xbc",
         "gr\xc3\xbc\xc3\xbc\xc3\xbc\xc3\xbc\xc3\xbc..."},
    };
    char buf[16];

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const size_t len = nx_sentence(buf, sizeof(buf), "%s", cases[i].text);

        assert_string_equal(buf, cases[i].cut);
        assert_int_equal(len, strlen(buf));
    }
}

/* At every size of the buffer, a whole word precedes the dots. */
static void test_no_room_leaves_half_an_address(void **state)
{
    static const char text[] = "no route to 10.0.0.1:4433: no answer; [fd00::2]:52414: refused; "
                               "192.0.2.7:4433: no answer";
    char buf[sizeof(text) + 1], whole[sizeof(text) + 2];

    (void)state;
    (void)snprintf(whole, sizeof(whole), "%s ", text);
    for (size_t room = 20; room <= sizeof(text); room++) {
        const size_t len = nx_sentence(buf, room, "%s", text);

        assert_true(len < room);
        if (room < sizeof(text)) {
            assert_string_equal(buf + len - 3, "...");
            assert_memory_equal(buf, whole, len - 3);
            assert_non_null(strchr(" ,;:", whole[len - 3]));
        }
    }
    assert_string_equal(buf, text);
}

static void test_errors_are_cut_so(void **state)
{
    static const char item[] = "[::1]:52 ";
    const size_t len = sizeof(item) - 1;
    char words[2 * NX_ERROR_ROOM] = "";

    (void)state;
    for (size_t i = 0; i + len < sizeof(words); i += len) {
        memcpy(words + i, item, len + 1);
    }
    (void)nx_fail(NEXAR_EINVAL, "%s", words);
    assert_true(strlen(nexar_last_error()) < NX_ERROR_ROOM);
    assert_string_equal(strrchr(nexar_last_error(), '['), "[::1]:52...");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_fits_is_left_alone),
        cmocka_unit_test(test_it_is_cut_behind_a_word),
        cmocka_unit_test(test_no_room_leaves_half_an_address),
        cmocka_unit_test(test_errors_are_cut_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
