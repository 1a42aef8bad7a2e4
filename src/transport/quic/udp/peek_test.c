/* peek_test.c - the first stream of a packet, and packets without streams. */
#include "peek.h"

#include <string.h>

#include "hex.h"
#include "unit.h"

enum { ROOM = 192 };

typedef struct example {
    const char *head; /* then zeros up to ROOM */
    size_t len;       /* of the packet */
    int64_t stream;   /* -1: there is none */
    uint64_t off;
    size_t at, n;
} example;

static const example examples[] = {
    /* STREAM with and without its offset and length. */
    {"0807", 60000, 7, 0, 2, 59998},
    {"090b", 60000, 11, 0, 2, 59998},
    {"0c074002", 60000, 7, 2, 4, 59996},
    {"0e07800010008000ea00", 65000, 7, 4096, 10, 60000 - 96},
    {"0a0744d2", 1238, 7, 0, 4, 1234},
    {"0a0744d2", 1237, -1, 0, 0, 0}, /* one byte short */
    /* After frames without a callback. */
    {"000001", 60000, -1, 0, 0, 0}, /* padding without end */
    {"0108"
     "07",
     60000, 7, 0, 3, 59997}, /* PING */
    {"0205010003"
     "0807",
     60000, 7, 0, 7, 59993}, /* ACK */
    {"02050102030102"
     "0304"
     "0807",
     60000, 7, 0, 11, 59989}, /* of two more ranges */
    {"0305010003"
     "010203"
     "0807",
     60000, 7, 0, 10, 59990}, /* with ECN */
    {"1040ff"
     "110740ff"
     "1305"
     "1404"
     "150706"
     "1703"
     "0807",
     60000, 7, 0, 18, 59982},
    {"04070000"
     "1205"
     "1603"
     "0807",
     60000, 7, 0, 10, 59990}, /* the reset of a stream, bidirectional streams */
    /* Frames that end the search: a new id, a close, an unknown type. */
    {"18"
     "0807",
     60000, -1, 0, 0, 0},
    {"1c"
     "0807",
     60000, -1, 0, 0, 0},
    {"40ff"
     "0807",
     60000, -1, 0, 0, 0},
    /* More ranges than bytes. */
    {"02050140ff03"
     "0807",
     60000, -1, 0, 0, 0},
    {"020501ffffffffffffffff03"
     "0807",
     60000, -1, 0, 0, 0},
    {"0205018000005f03", 60000, -1, 0, 0, 0},
};

static void test_examples(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(examples) / sizeof(examples[0]); i++) {
        const example *e = &examples[i];
        uint8_t head[ROOM] = {0};
        nx_peek got;

        (void)nxt_unhex(e->head, head);
        assert_int_equal(nx_peek_stream(head, sizeof(head), e->len, &got), e->stream >= 0);
        if (e->stream >= 0) {
            assert_true(got.stream == e->stream);
            assert_true(got.off == e->off);
            assert_int_equal(got.at, e->at);
            assert_int_equal(got.len, e->n);
        }
    }
}

/* With any prefix of the head: the same result, or none. */
static void test_a_part_of_the_head_is_not_enough(void **state)
{
    uint8_t head[32];
    size_t n = nxt_unhex("02050102030102"
                         "0304"
                         "0e0780001000800003e8",
                         head);
    nx_peek got;

    (void)state;
    for (size_t known = 0; known < n; known++) {
        assert_false(nx_peek_stream(head, known, 5000, &got));
    }
    assert_true(nx_peek_stream(head, n, 5000, &got));
    assert_int_equal(got.at, n);
    assert_int_equal(got.len, 1000);
    assert_true(got.off == 4096);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_examples),
        cmocka_unit_test(test_a_part_of_the_head_is_not_enough),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
