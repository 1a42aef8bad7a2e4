/* pty_test.c - a pty transmits all bytes unchanged, then an end. */
#include "pty.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "output.h"
#include "unit.h"

static void open_pair(const struct winsize *window, int *ours, int *theirs)
{
    int code = 0;

    assert_int_equal(nx_pty_open(window, ours, theirs, &code), NEXAR_OK);
    assert_int_equal(code, 0);
    (void)fcntl(*ours, F_SETFL, O_NONBLOCK);
}

static void test_every_byte_comes_out_as_it_went_in(void **state)
{
    unsigned char all[256], got[300];
    int ours, theirs;

    (void)state;
    open_pair(NULL, &ours, &theirs);
    assert_true(isatty(theirs));
    for (int i = 0; i < 256; i++) {
        all[i] = (unsigned char)i;
    }
    assert_int_equal(write(theirs, all, sizeof(all)), sizeof(all));
    assert_int_equal(read(ours, got, sizeof(got)), sizeof(all));
    assert_memory_equal(got, all, sizeof(all));
    (void)close(theirs);
    (void)close(ours);
}

static void test_what_was_written_before_the_end_is_read(void **state)
{
    char text[64];
    int ours, theirs, ends[2];
    nx_output_sink sink;
    nx_output output;
    ssize_t n;

    (void)state;
    assert_int_equal(pipe(ends), 0);
    open_pair(NULL, &ours, &theirs);
    nx_output_sink_init(&sink, ends[1]);
    nx_output_init(&output, ours, &sink, "[1] ");
    assert_int_equal(write(theirs, "one\ntwo", 7), 7);
    (void)close(theirs);
    nx_output_drain(&output);
    assert_int_equal(output.from, -1);
    nx_output_sink_flush(&sink);
    n = read(ends[0], text, sizeof(text));
    assert_int_equal(n, 16);
    assert_memory_equal(text, "[1] one\n[1] two\n", 16);
    nx_output_fini(&output);
    nx_output_sink_fini(&sink);
    (void)close(ends[0]);
    (void)close(ends[1]);
}

static void test_a_drain_ends_although_the_writer_lives(void **state)
{
    int ours, theirs;
    nx_output_sink sink;
    nx_output output;

    (void)state;
    open_pair(NULL, &ours, &theirs);
    nx_output_sink_init(&sink, STDOUT_FILENO);
    nx_output_init(&output, ours, &sink, "");
    assert_int_equal(write(theirs, "part", 4), 4);
    nx_output_drain(&output);
    assert_int_equal(output.from, ours);
    assert_int_equal(output.len, 4);
    assert_false(nx_output_sink_waits(&sink));
    nx_output_fini(&output);
    nx_output_sink_fini(&sink);
    (void)close(theirs);
}

static void test_a_program_sees_the_size_it_is_given(void **state)
{
    const struct winsize given = {.ws_row = 24, .ws_col = 76};
    struct winsize seen = {0};
    int ours, theirs;

    (void)state;
    open_pair(&given, &ours, &theirs);
    assert_true(nx_pty_window(theirs, &seen));
    assert_int_equal(seen.ws_row, 24);
    assert_int_equal(seen.ws_col, 76);
    (void)close(theirs);
    (void)close(ours);
    open_pair(NULL, &ours, &theirs);
    assert_false(nx_pty_window(theirs, &seen));
    (void)close(theirs);
    (void)close(ours);
}

static void test_without_descriptors_the_reason_is_told(void **state)
{
    struct rlimit before, none;
    int ours = -1, theirs = -1, code = 0;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    assert_int_equal(nx_pty_open(NULL, &ours, &theirs, &code), NEXAR_ESYS);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(code, EMFILE);
    assert_int_equal(ours, -1);
    assert_int_equal(theirs, -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_byte_comes_out_as_it_went_in),
        cmocka_unit_test(test_what_was_written_before_the_end_is_read),
        cmocka_unit_test(test_a_drain_ends_although_the_writer_lives),
        cmocka_unit_test(test_a_program_sees_the_size_it_is_given),
        cmocka_unit_test(test_without_descriptors_the_reason_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
