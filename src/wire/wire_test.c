/* wire_test.c - written values read back; truncated, too long or invalid input fails. */
#include "wire/wire.h"

#include <string.h>

#include "base/random.h"
#include "unit.h"

static void test_integers_are_big_endian(void **state)
{
    static const uint8_t expected[] = {0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef,
                                       0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd};
    uint8_t buf[15];
    nx_writer w = nx_writer_make(buf, sizeof(buf));
    nx_reader r = nx_reader_make(buf, sizeof(buf));

    (void)state;
    nx_write_u8(&w, 0x01);
    nx_write_u16(&w, 0x2345);
    nx_write_u32(&w, 0x6789abcd);
    nx_write_u64(&w, UINT64_C(0xef0123456789abcd));
    assert_false(w.failed);
    assert_int_equal(w.len, sizeof(expected));
    assert_memory_equal(buf, expected, sizeof(expected));
    assert_int_equal(nx_read_u8(&r), 0x01);
    assert_int_equal(nx_read_u16(&r), 0x2345);
    assert_int_equal(nx_read_u32(&r), 0x6789abcd);
    assert_true(nx_read_u64(&r) == UINT64_C(0xef0123456789abcd));
    assert_true(nx_reader_done(&r));
}

/* RFC 9000, A.1. */
static void test_varints_are_those_of_the_standard(void **state)
{
    static const struct {
        uint8_t bytes[8];
        size_t len;
        uint64_t value;
    } samples[] = {
        {{0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c}, 8, UINT64_C(151288809941952652)},
        {{0x9d, 0x7f, 0x3e, 0x7d}, 4, 494878333},
        {{0x7b, 0xbd}, 2, 15293},
        {{0x25}, 1, 37},
    };
    static const uint8_t longer[] = {0x40, 0x25};
    nx_reader r = nx_reader_make(longer, sizeof(longer));

    (void)state;
    assert_int_equal(nx_read_varint(&r), 37);
    assert_true(nx_reader_done(&r));
    for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
        uint8_t buf[8];
        nx_writer w = nx_writer_make(buf, sizeof(buf));

        r = nx_reader_make(samples[i].bytes, samples[i].len);
        assert_true(nx_read_varint(&r) == samples[i].value);
        assert_true(nx_reader_done(&r));
        nx_write_varint(&w, samples[i].value);
        assert_int_equal(w.len, samples[i].len);
        assert_int_equal(nx_varint_size(samples[i].value), samples[i].len);
        assert_memory_equal(buf, samples[i].bytes, w.len);
    }
}

static void test_varints_at_the_edges_read_back(void **state)
{
    (void)state;
    for (int bit = 0; bit < 62; bit++) {
        for (int64_t delta = -1; delta <= 1; delta++) {
            uint64_t v = (UINT64_C(1) << bit) + (uint64_t)delta;
            uint8_t buf[8];
            nx_writer w = nx_writer_make(buf, sizeof(buf));
            nx_reader r;

            nx_write_varint(&w, v);
            assert_false(w.failed);
            r = nx_reader_make(buf, w.len);
            assert_true(nx_read_varint(&r) == v);
            assert_true(nx_reader_done(&r));
        }
    }
}

static void test_a_number_of_63_bits_is_no_varint(void **state)
{
    uint8_t buf[8];
    nx_writer w = nx_writer_make(buf, sizeof(buf));

    (void)state;
    nx_write_varint(&w, UINT64_C(1) << 62);
    assert_true(w.failed);
    assert_int_equal(w.len, 0);
}

static void test_a_cut_input_fails_and_the_error_sticks(void **state)
{
    static const uint8_t bytes[] = {0xc0, 1, 2, 3};
    nx_reader r = nx_reader_make(bytes, sizeof(bytes));

    (void)state;
    assert_int_equal(nx_read_varint(&r), 0);
    assert_true(r.failed);
    assert_int_equal(nx_reader_left(&r), 0);
    assert_int_equal(nx_read_u8(&r), 0);
    assert_int_equal(nx_read_varint(&r), 0);
    assert_true(nx_read_bytes(&r, 0) == NULL);
    assert_false(nx_reader_done(&r));
}

static void test_no_input_is_an_empty_one(void **state)
{
    nx_reader r = nx_reader_make(NULL, 0);

    (void)state;
    assert_true(nx_reader_done(&r));
    assert_int_equal(nx_read_u16(&r), 0);
    assert_true(r.failed);
}

static void test_a_full_writer_writes_nothing_more(void **state)
{
    uint8_t buf[3] = {0, 0, 9};
    nx_writer w = nx_writer_make(buf, 2);

    (void)state;
    nx_write_u8(&w, 1);
    nx_write_u16(&w, 0x0203);
    assert_true(w.failed);
    nx_write_u8(&w, 4);
    assert_int_equal(w.len, 1);
    assert_int_equal(buf[1], 0);
    assert_int_equal(buf[2], 9);
}

static void test_blobs_and_texts_read_back(void **state)
{
    uint8_t buf[64];
    char text[6], empty[1] = {'x'};
    size_t len = 9;
    nx_writer w = nx_writer_make(buf, sizeof(buf));
    nx_reader r;
    const uint8_t *blob;

    (void)state;
    nx_write_blob(&w, "\0\1\2", 3);
    nx_write_text(&w, "seed!");
    nx_write_text(&w, "");
    nx_write_blob(&w, NULL, 0);
    r = nx_reader_make(buf, w.len);
    blob = nx_read_blob(&r, 3, &len);
    assert_int_equal(len, 3);
    assert_memory_equal(blob, "\0\1\2", 3);
    nx_read_text(&r, text, sizeof(text));
    assert_string_equal(text, "seed!");
    nx_read_text(&r, empty, sizeof(empty));
    assert_string_equal(empty, "");
    assert_true(nx_read_blob(&r, 0, &len) != NULL);
    assert_int_equal(len, 0);
    assert_true(nx_reader_done(&r));
}

static void test_a_blob_longer_than_allowed_fails(void **state)
{
    static const uint8_t bytes[] = {4, 1, 2, 3, 4};
    nx_reader r = nx_reader_make(bytes, sizeof(bytes));
    size_t len = 9;

    (void)state;
    assert_true(nx_read_blob(&r, 3, &len) == NULL);
    assert_int_equal(len, 0);
    assert_true(r.failed);
    r = nx_reader_make(bytes, sizeof(bytes) - 1);
    assert_true(nx_read_blob(&r, 100, &len) == NULL);
    assert_true(r.failed);
}

/* A message of any bytes reaches the reader. */
static void test_a_sentence_is_cut_and_cleaned(void **state)
{
    static const char *const said[] = {
        "", "short", "too long for it", "a\nb\x7f\xe4", "\xc3\xa4\033\xc2\x9b", "1234\xc3\xa4"};
    static const char *const heard[] = {"", "short", "to...", "a?b??", "\xc3\xa4???", "12..."};
    uint8_t buf[16];
    char text[6];

    (void)state;
    for (size_t i = 0; i < sizeof(said) / sizeof(said[0]); i++) {
        nx_writer w = nx_writer_make(buf, sizeof(buf));
        nx_reader r;

        nx_write_sentence(&w, said[i], sizeof(text));
        assert_false(w.failed);
        assert_memory_equal(buf + 1, heard[i], w.len - 1);
        r = nx_reader_make(buf, w.len);
        nx_read_sentence(&r, text, sizeof(text));
        assert_true(nx_reader_done(&r));
        assert_string_equal(text, heard[i]);
    }
}

/* The writer may be a foreign implementation. */
static void test_a_foul_sentence_is_cleaned_where_it_is_read(void **state)
{
    uint8_t buf[32];
    char text[16];
    nx_writer w = nx_writer_make(buf, sizeof(buf));
    nx_reader r;

    (void)state;
    nx_write_blob(&w, "a\n\033[2J\0\xc3\xa4", 9);
    r = nx_reader_make(buf, w.len);
    nx_read_sentence(&r, text, sizeof(text));
    assert_true(nx_reader_done(&r));
    assert_string_equal(text, "a??[2J?\xc3\xa4");
    r = nx_reader_make(buf, w.len);
    nx_read_sentence(&r, text, 9);
    assert_true(r.failed);
    assert_string_equal(text, "");
}

static void test_a_text_that_does_not_fit_or_is_foul_is_empty(void **state)
{
    static const char *const foul[] = {"sixsix", "a\nb", "a\x7f", "\x80"};
    char text[6];

    (void)state;
    for (size_t i = 0; i < sizeof(foul) / sizeof(foul[0]); i++) {
        uint8_t buf[16];
        nx_writer w = nx_writer_make(buf, sizeof(buf));
        nx_reader r;

        nx_write_text(&w, foul[i]);
        r = nx_reader_make(buf, w.len);
        memset(text, 'x', sizeof(text));
        nx_read_text(&r, text, sizeof(text));
        assert_true(r.failed);
        assert_string_equal(text, "");
    }
}

/* Under ASan this shows that decoding random bytes never reads past their end. */
static void test_garbage_never_leaves_its_bounds(void **state)
{
    nx_random_seeded random;

    (void)state;
    nx_random_seeded_init(&random, 1);
    for (int turn = 0; turn < 20000; turn++) {
        uint8_t buf[24];
        char text[8];
        size_t len, n = (size_t)nx_random_below(&random.random, sizeof(buf));
        nx_reader r;

        nx_random_fill(&random.random, buf, sizeof(buf));
        r = nx_reader_make(buf + sizeof(buf) - n, n);
        while (!r.failed && (nx_reader_left(&r) > 0)) {
            switch (nx_random_below(&random.random, 5)) {
            case 0:
                assert_true(nx_read_varint(&r) < (UINT64_C(1) << 62));
                break;
            case 1:
                (void)nx_read_blob(&r, 8, &len);
                assert_true(len <= 8);
                break;
            case 2:
                nx_read_text(&r, text, sizeof(text));
                assert_true(strlen(text) < sizeof(text));
                break;
            case 3:
                nx_read_sentence(&r, text, sizeof(text));
                assert_true(strlen(text) < sizeof(text));
                break;
            default:
                (void)nx_read_u32(&r);
                break;
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_integers_are_big_endian),
        cmocka_unit_test(test_varints_are_those_of_the_standard),
        cmocka_unit_test(test_varints_at_the_edges_read_back),
        cmocka_unit_test(test_a_number_of_63_bits_is_no_varint),
        cmocka_unit_test(test_a_cut_input_fails_and_the_error_sticks),
        cmocka_unit_test(test_no_input_is_an_empty_one),
        cmocka_unit_test(test_a_full_writer_writes_nothing_more),
        cmocka_unit_test(test_blobs_and_texts_read_back),
        cmocka_unit_test(test_a_blob_longer_than_allowed_fails),
        cmocka_unit_test(test_a_sentence_is_cut_and_cleaned),
        cmocka_unit_test(test_a_foul_sentence_is_cleaned_where_it_is_read),
        cmocka_unit_test(test_a_text_that_does_not_fit_or_is_foul_is_empty),
        cmocka_unit_test(test_garbage_never_leaves_its_bounds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
