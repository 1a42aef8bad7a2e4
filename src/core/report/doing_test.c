/* doing_test.c - questions and answers: encoding and text. */
#include "core/report/doing.h"

#include <stdio.h>
#include <string.h>

#include "unit.h"

static nx_doing full(void)
{
    nx_doing d = {.question = 0xdeadbeef,
                  .waits = true,
                  .now = {.comm = 1, .number = 5, .age_ns = UINT64_C(12300000000)},
                  .last = {.comm = 2, .number = 4, .age_ns = (UINT64_C(1) << 62) - 1},
                  .nfor = UINT32_MAX,
                  .listed = NX_DOING_LISTED};

    memset(d.now.text, 'x', sizeof(d.now.text) - 1);
    memset(d.last.text, '~', sizeof(d.last.text) - 1);
    memset(d.here, 'y', sizeof(d.here) - 1);
    for (uint32_t i = 0; i < NX_DOING_LISTED; i++) {
        d.who[i] = UINT32_MAX - i;
    }
    return d;
}

static void test_the_largest_fits_and_comes_back(void **state)
{
    const nx_ask ask = {.question = 7, .comm = UINT32_MAX, .number = 3};
    const nx_doing d = full();
    uint8_t buf[NX_DOING_ROOM];
    size_t len = nx_doing_encode(&d, buf);
    nx_doing back = {0};
    nx_ask asked = {0};

    (void)state;
    assert_true(nx_doing_decode(buf, len, &back));
    assert_memory_equal(&d, &back, sizeof(d));
    for (size_t cut = 0; cut < len; cut++) {
        assert_false(nx_doing_decode(buf, cut, &back));
    }
    assert_int_equal(nx_ask_encode(&ask, buf), NX_ASK_SIZE);
    assert_true(nx_ask_decode(buf, NX_ASK_SIZE, &asked));
    assert_memory_equal(&ask, &asked, sizeof(ask));
    for (size_t cut = 0; cut < NX_ASK_SIZE; cut++) {
        assert_false(nx_ask_decode(buf, cut, &asked));
    }
}

static void test_what_makes_no_sense_is_refused(void **state)
{
    nx_doing d = {.nfor = 2, .listed = 2}, back;
    uint8_t buf[NX_DOING_ROOM + 1] = {0};
    size_t len;

    (void)state;
    len = nx_doing_encode(&d, buf);
    assert_true(nx_doing_decode(buf, len, &back));
    assert_false(nx_doing_decode(buf, len + 1, &back)); /* extra bytes */
    buf[5] = 4;                                         /* an undefined flag */
    assert_false(nx_doing_decode(buf, len, &back));
    d.nfor = 1; /* more ranks listed than exist */
    len = nx_doing_encode(&d, buf);
    assert_false(nx_doing_decode(buf, len, &back));
    d = full();
    d.now.text[3] = '\n';
    len = nx_doing_encode(&d, buf);
    assert_false(nx_doing_decode(buf, len, &back));
    assert_false(nx_ask_decode(buf, NX_ASK_SIZE, &(nx_ask){0}));
}

/* A device has the name that its user sets. */
static void test_what_is_waited_for_here_may_have_any_name(void **state)
{
    nx_doing d = {.here = "device gr\xc3\xbcn\n\033[2J"}, back;
    uint8_t buf[NX_DOING_ROOM];

    (void)state;
    assert_true(nx_doing_decode(buf, nx_doing_encode(&d, buf), &back));
    assert_string_equal(back.here, "device gr\xc3\xbcn??[2J");
}

static void test_words(void **state)
{
    nx_doing d = {.last = {.text = "#6 barrier", .age_ns = UINT64_C(4100000000)}};
    const uint32_t some[] = {1, 4, 5};
    char buf[NX_DOING_TEXT], ranks[NX_RANKS_TEXT];

    (void)state;
    assert_string_equal(nx_doing_text(&d, buf),
                        "last finished #6 barrier 4.1 s ago and is in user code");
    d.closing = true;
    assert_string_equal(nx_doing_text(&d, buf),
                        "last finished #6 barrier 4.1 s ago and is in finalize");
    d = (nx_doing){0};
    assert_string_equal(nx_doing_text(&d, buf),
                        "has finished no operation yet and is in user code");
    d = (nx_doing){.waits = true,
                   .now = {.text = "#5 allreduce(1024 x f32, sum)", .age_ns = 12300000000},
                   .nfor = 1,
                   .listed = 1,
                   .who = {1}};
    assert_string_equal(nx_doing_text(&d, buf),
                        "is in #5 allreduce(1024 x f32, sum) for 12.3 s, waiting for rank 1");
    d.waits = false;
    assert_non_null(strstr(nx_doing_text(&d, buf), "waiting for rank 1, and in user code"));
    (void)snprintf(d.here, sizeof(d.here), "its on_shard");
    assert_non_null(strstr(nx_doing_text(&d, buf), "s, waiting for rank 1, and for its on_shard"));
    d.nfor = d.listed = 0;
    assert_non_null(strstr(nx_doing_text(&d, buf), "s, waiting for its on_shard, and in user"));

    assert_string_equal(nx_ranks_text(some, 1, 1, ranks), "rank 1");
    assert_string_equal(nx_ranks_text(some, 3, 3, ranks), "rank 1, rank 4 and rank 5");
    assert_string_equal(nx_ranks_text(some, 3, 60, ranks), "rank 1, rank 4, rank 5 and 57 more");
    assert_string_equal(nx_ranks_text(some, 0, 2, ranks), "2 ranks");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_largest_fits_and_comes_back),
        cmocka_unit_test(test_what_makes_no_sense_is_refused),
        cmocka_unit_test(test_what_is_waited_for_here_may_have_any_name),
        cmocka_unit_test(test_words),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
