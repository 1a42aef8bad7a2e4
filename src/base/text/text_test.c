/* text_test.c - numbers with units, and growing texts. */
#include "text.h"

#include <string.h>

#include "oom.h"
#include "unit.h"

typedef bool (*parser)(const char *text, uint64_t *out);

typedef struct example {
    const char *text;
    uint64_t value;
} example;

static void accepts(parser parse, const example *examples, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t value = ~examples[i].value;

        if (!parse(examples[i].text, &value)) {
            fail_msg("\"%s\" was refused", examples[i].text);
        }
        assert_int_equal(value, examples[i].value);
    }
}

static void refuses(parser parse, const char *const *texts, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t value = 4711;

        if (parse(texts[i], &value)) {
            fail_msg("\"%s\" was taken for %llu", texts[i], (unsigned long long)value);
        }
        assert_int_equal(value, 4711);
    }
}

#define COUNT(ARRAY) (sizeof(ARRAY) / sizeof((ARRAY)[0]))

/* No parser accepts any of these. */
static const char *const rubbish[] = {
    "",
    " ",
    "x",
    "-1",
    "+1",
    "-",
    "1 ",
    " 1",
    "1 k",
    "1kk",
    "1kx",
    "0x10",
    "1e3",
    "1.",
    ".5",
    "1..5s",
    "1.5.5s",
    "k",
    "s",
    "1,5s",
    "1\n",
    "١",
    "1k-2",
    "nan",
    "inf",
    "1_000",
    "1'000",
    "1\xff",
    "--1",
    "1/2",
    "1%",
    "1ks",
    "1bk",
    "1ibk",
    "1bit",
    "1bitm",
    "1000000000000000000000000000000t",
};

static void test_whole_numbers_are_read_to_the_end(void **state)
{
    static const example good[] = {
        {"0", 0}, {"7", 7}, {"007", 7}, {"18446744073709551615", UINT64_MAX}};
    static const char *const bad[] = {"18446744073709551616", "99999999999999999999", "1k", "1.0"};

    (void)state;
    accepts(nx_parse_uint, good, COUNT(good));
    refuses(nx_parse_uint, bad, COUNT(bad));
    refuses(nx_parse_uint, rubbish, COUNT(rubbish));
}

static void test_sizes_are_powers_of_1024(void **state)
{
    static const example good[] = {{"0", 0},
                                   {"512", 512},
                                   {"64k", 65536},
                                   {"64K", 65536},
                                   {"64kb", 65536},
                                   {"64KiB", 65536},
                                   {"8m", UINT64_C(8) << 20},
                                   {"2G", UINT64_C(2) << 30},
                                   {"1tib", UINT64_C(1) << 40},
                                   {"16777215t", UINT64_C(16777215) << 40}};
    static const char *const bad[] = {
        "16777216t", "1.5k", "512b", "512ib", "1p", "18446744073709551616", "1kbit", "1ms"};

    (void)state;
    accepts(nx_parse_size, good, COUNT(good));
    refuses(nx_parse_size, bad, COUNT(bad));
    refuses(nx_parse_size, rubbish, COUNT(rubbish));
}

static void test_durations_need_a_unit_unless_zero(void **state)
{
    static const example good[] = {{"0", 0},
                                   {"0s", 0},
                                   {"1ns", 1},
                                   {"20us", 20000},
                                   {"250ms", 250000000},
                                   {"5s", UINT64_C(5000000000)},
                                   {"1.5s", UINT64_C(1500000000)},
                                   {"0.000000001s", 1},
                                   {"0.0000000019s", 1},
                                   {"1.99999999999999999999999999999ns", 1},
                                   {"2m", UINT64_C(120000000000)},
                                   {"0.5m", UINT64_C(30000000000)},
                                   {"1h", UINT64_C(3600000000000)},
                                   {"18446744073709551615ns", UINT64_MAX},
                                   {"18446744073.709551615s", UINT64_MAX}};
    static const char *const bad[] = {"5",        "1.5",
                                      "0.0",      "5S",
                                      "5sec",     "1d",
                                      "5min",     "18446744073.709551616s",
                                      "5124096h", "18446744073709551616ns"};

    (void)state;
    accepts(nx_parse_duration, good, COUNT(good));
    refuses(nx_parse_duration, bad, COUNT(bad));
    refuses(nx_parse_duration, rubbish, COUNT(rubbish));
}

static void test_rates_are_powers_of_1000(void **state)
{
    static const example good[] = {{"0", 0},
                                   {"9600", 9600},
                                   {"100m", 100000000},
                                   {"10g", UINT64_C(10000000000)},
                                   {"2.5G", UINT64_C(2500000000)},
                                   {"10gbit", UINT64_C(10000000000)},
                                   {"56Kbit", 56000},
                                   {"1t", UINT64_C(1000000000000)}};
    static const char *const bad[] = {"18446745t", "10gb", "10gib", "100bit"};

    (void)state;
    accepts(nx_parse_rate, good, COUNT(good));
    refuses(nx_parse_rate, bad, COUNT(bad));
    refuses(nx_parse_rate, rubbish, COUNT(rubbish));
}

static void test_what_is_formatted_is_parsed_back(void **state)
{
    char buf[NX_NUMBER_ROOM];

    (void)state;
    for (uint64_t x = 1, y = 0; x != 0; y = x, x = x * 5 + 3) {
        const uint64_t values[] = {0, x, x << 10, x * 1000, UINT64_MAX - x};
        uint64_t back;

        for (size_t i = 0; i < COUNT(values); i++) {
            assert_true(nx_parse_size(nx_format_size(values[i], buf), &back));
            assert_int_equal(back, values[i]);
            assert_true(nx_parse_duration(nx_format_duration(values[i], buf), &back));
            assert_int_equal(back, values[i]);
            assert_true(nx_parse_rate(nx_format_rate(values[i], buf), &back));
            assert_int_equal(back, values[i]);
        }
        if (x < y) {
            break;
        }
    }
}

static void test_numbers_are_formatted_in_the_largest_unit_that_divides_them(void **state)
{
    char buf[NX_NUMBER_ROOM];

    (void)state;
    assert_string_equal(nx_format_size(0, buf), "0");
    assert_string_equal(nx_format_size(65536, buf), "64k");
    assert_string_equal(nx_format_size(65537, buf), "65537");
    assert_string_equal(nx_format_size(UINT64_C(3) << 40, buf), "3t");
    assert_string_equal(nx_format_duration(0, buf), "0");
    assert_string_equal(nx_format_duration(1500000, buf), "1500us");
    assert_string_equal(nx_format_duration(UINT64_C(90000000000), buf), "90s");
    assert_string_equal(nx_format_duration(UINT64_C(3600000000000), buf), "1h");
    assert_string_equal(nx_format_rate(UINT64_C(2500000000), buf), "2500m");
}

/* Each text is given as bytes, so that it may contain a 0. */
typedef struct said {
    const char *text, *clean, *ascii;
    size_t len;
} said;

#define SAID(TEXT, CLEAN, ASCII)                                                    \
    {                                                                               \
        .text = (TEXT), .clean = (CLEAN), .ascii = (ASCII), .len = sizeof(TEXT) - 1 \
    }

static void test_words_of_others_keep_their_letters_and_no_controls(void **state)
{
    static const said cases[] = {
        SAID("", "", ""),
        SAID("plain ~ text", "plain ~ text", "plain ~ text"),
        SAID("a\nnexar seed: forged", "a?nexar seed: forged", "a?nexar seed: forged"),
        SAID("\r\033[2J\a\b\177", "??[2J???", "??[2J???"),
        SAID("a\0b", "a?b", "a?b"),
        SAID("gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80",
             "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80", "gr???? ??? ????"),
        SAID("\xc2\x9b"
             "2J",
             "??2J", "??2J"), /* CSI as one character of C1 */
        SAID("\x9b"
             "2J",
             "?2J", "?2J"), /* and as one byte */
        SAID("to nexar://0123456789-_abcd@host:1/?pin=x, \"nexar://0123456789abcdef",
             "to nexar://****************@host:1/?pin=x, \"nexar://****************",
             "to nexar://****************@host:1/?pin=x, \"nexar://****************"),
        SAID("such as nexar://TOKEN@host:port", "such as nexar://TOKEN@host:port",
             "such as nexar://TOKEN@host:port"),
        SAID("nexar:// nexar://", "nexar:// nexar://", "nexar:// nexar://"),
        SAID("\xe2\x80\xa8 \xe2\x80\xae \xe2\x81\xa6", "??? ??? ???", "??? ??? ???"),
        SAID("\xc0\x8a \xe0\x80\x8a \xf0\x80\x80\x8a", "?? ??? ????", "?? ??? ????"),
        SAID("\xed\xa0\x80 \xf4\x90\x80\x80 \xff", "??? ???? ?", "??? ???? ?"),
        SAID("\xc3\n \xe2\x82", "?? ??", "?? ??"), /* a truncated character */
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[96] = "";

        memcpy(text, cases[i].text, cases[i].len);
        nx_clean_text(text, cases[i].len);
        assert_string_equal(text, cases[i].clean);
        memcpy(text, cases[i].text, cases[i].len);
        nx_clean_ascii(text, cases[i].len);
        assert_string_equal(text, cases[i].ascii);
    }
}

static void test_text_grows_as_it_is_added_to(void **state)
{
    nx_text t = {0};
    size_t len = 0;

    (void)state;
    assert_string_equal(nx_text_str(&t), "");
    for (int i = 0; i < 1000; i++) {
        nx_text_addf(&t, "%d,", i % 10);
        len += 2;
        assert_int_equal(strlen(nx_text_str(&t)), len);
    }
    assert_memory_equal(nx_text_str(&t), "0,1,2,3,4,5,6,7,8,9,0,", 22);
    nx_text_fini(&t);
    assert_string_equal(nx_text_str(&t), "");
}

static void test_text_without_memory_stays_failed(void **state)
{
    (void)state;
    NXT_FOR_EACH_OOM (n) {
        nx_text t = {0};

        for (int i = 0; i < 100; i++) {
            nx_text_addf(&t, "%s", "0123456789");
        }
        if (nx_alloc_failed()) {
            assert_true(nx_text_str(&t) == NULL);
        } else {
            assert_int_equal(strlen(nx_text_str(&t)), 1000);
        }
        nx_text_fini(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_numbers_are_read_to_the_end),
        cmocka_unit_test(test_sizes_are_powers_of_1024),
        cmocka_unit_test(test_durations_need_a_unit_unless_zero),
        cmocka_unit_test(test_rates_are_powers_of_1000),
        cmocka_unit_test(test_what_is_formatted_is_parsed_back),
        cmocka_unit_test(test_numbers_are_formatted_in_the_largest_unit_that_divides_them),
        cmocka_unit_test(test_words_of_others_keep_their_letters_and_no_controls),
        cmocka_unit_test(test_text_grows_as_it_is_added_to),
        cmocka_unit_test(test_text_without_memory_stays_failed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
