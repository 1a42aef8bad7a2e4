/* output_test.c - lines of ranks pass through pipes complete and in order; none is lost. */
#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "unit.h"

/* The writing end of a rank, the output, the sink, and the reading end. */
typedef struct rig {
    int rank, reader, writer; /* ends of pipes that |output| does not own */
    nx_output_sink sink;
    nx_output output;
} rig;

static void rig_init(rig *r)
{
    int in[2], out[2];

    (void)signal(SIGPIPE, SIG_IGN);
    assert_int_equal(pipe2(in, O_NONBLOCK), 0);
    assert_int_equal(pipe2(out, O_NONBLOCK), 0);
    r->rank = in[1];
    r->reader = out[0];
    r->writer = out[1];
    nx_output_sink_init(&r->sink, out[1]);
    nx_output_init(&r->output, in[0], &r->sink, "[1] ");
}

static void rig_fini(rig *r)
{
    nx_output_fini(&r->output);
    nx_output_sink_fini(&r->sink);
    (void)close(r->rank);
    (void)close(r->reader);
    (void)close(r->writer);
}

static void say(const rig *r, const char *text)
{
    assert_int_equal(write(r->rank, text, strlen(text)), strlen(text));
}

/* Checks that all output so far is |text|. */
static void expect(rig *r, const char *text)
{
    char got[256] = "";
    ssize_t n;

    while (nx_output_sink_waits(&r->sink)) {
        nx_output_sink_flush(&r->sink);
    }
    n = read(r->reader, got, sizeof(got) - 1);
    assert_int_equal((n < 0) ? 0 : n, strlen(text));
    assert_string_equal(got, text);
}

static void test_a_line_in_pieces_comes_out_whole(void **state)
{
    rig r;

    (void)state;
    rig_init(&r);
    say(&r, "one");
    assert_true(nx_output_pump(&r.output));
    expect(&r, "");
    say(&r, " line\nthe next\nand");
    assert_true(nx_output_pump(&r.output));
    expect(&r, "[1] one line\n[1] the next\n");
    (void)close(r.rank);
    r.rank = -1;
    assert_false(nx_output_pump(&r.output));
    expect(&r, "[1] and\n");
    assert_int_equal(r.output.from, -1);
    rig_fini(&r);
}

static void test_an_endless_line_is_cut_and_no_byte_is_lost(void **state)
{
    static char block[4096];
    size_t put = 0, got = 0, lines = 0;
    rig r;

    (void)state;
    rig_init(&r);
    memset(block, 'x', sizeof(block));
    while (put < 2 * (size_t)NX_LINE_MAX + 5000) {
        ssize_t n = write(r.rank, block, sizeof(block));

        put += (n > 0) ? (size_t)n : 0;
        assert_true(nx_output_pump(&r.output));
    }
    (void)close(r.rank);
    r.rank = -1;
    while (nx_output_pump(&r.output)) {
    }
    while (nx_output_sink_waits(&r.sink)) {
        ssize_t n;

        nx_output_sink_flush(&r.sink);
        n = read(r.reader, block, sizeof(block));
        for (ssize_t i = 0; i < n; i++) {
            got += block[i] == 'x';
            lines += block[i] == '\n';
        }
    }
    assert_int_equal(got, put);
    assert_int_equal(lines, 3);
    rig_fini(&r);
}

static void test_lines_leave_in_pieces_that_a_pipe_takes_whole(void **state)
{
    char line[1000], got[PIPE_BUF + 1];
    rig r;

    (void)state;
    rig_init(&r);
    memset(line, 'y', sizeof(line));
    for (int i = 0; i < 50; i++) {
        nx_output_sink_line(&r.sink, "p ", line, sizeof(line));
    }
    while (nx_output_sink_waits(&r.sink)) {
        ssize_t n;

        nx_output_sink_flush(&r.sink);
        n = read(r.reader, got, sizeof(got));
        assert_in_range(n, 1, PIPE_BUF);
        assert_int_equal(n % 1003, 0);
        assert_int_equal(got[n - 1], '\n');
    }
    rig_fini(&r);
}

static void test_a_sink_without_reader_is_full_and_waits(void **state)
{
    char line[1000];
    rig r;

    (void)state;
    rig_init(&r);
    memset(line, 'z', sizeof(line));
    while (!nx_output_sink_full(&r.sink)) {
        nx_output_sink_line(&r.sink, "", line, sizeof(line));
    }
    for (int i = 0; i < 1000; i++) {
        nx_output_sink_flush(&r.sink); /* the pipe fills up: EAGAIN is not an end */
    }
    assert_int_equal(r.sink.broken, 0);
    assert_true(nx_output_sink_waits(&r.sink));
    rig_fini(&r);
}

static void test_a_closed_reader_breaks_the_sink_permanently(void **state)
{
    rig r;

    (void)state;
    rig_init(&r);
    (void)close(r.reader);
    r.reader = -1;
    nx_output_sink_line(&r.sink, "", "x", 1);
    nx_output_sink_flush(&r.sink);
    assert_int_equal(r.sink.broken, EPIPE);
    nx_output_sink_line(&r.sink, "", "y", 1);
    assert_false(nx_output_sink_waits(&r.sink));
    nx_output_sink_break(&r.sink, EIO);
    assert_int_equal(r.sink.broken, EPIPE);
    rig_fini(&r);
}

static void test_without_memory_the_sink_breaks_and_says_so(void **state)
{
    rig r;

    (void)state;
    rig_init(&r);
    nx_alloc_fail_after(0);
    nx_output_sink_line(&r.sink, "", "x", 1);
    assert_true(nx_alloc_failed());
    assert_int_equal(r.sink.broken, ENOMEM);
    rig_fini(&r);

    rig_init(&r);
    say(&r, "x\n");
    nx_alloc_fail_after(0);
    assert_false(nx_output_pump(&r.output));
    assert_int_equal(r.sink.broken, ENOMEM);
    rig_fini(&r);
}

static void test_prefixes_are_aligned_and_coloured_by_rank(void **state)
{
    char prefix[NX_PREFIX_ROOM];

    (void)state;
    nx_output_prefix(prefix, "", 3, 2, false);
    assert_string_equal(prefix, "[ 3] ");
    nx_output_prefix(prefix, "", 1, 1, true);
    assert_string_equal(prefix, "\033[35m[1]\033[0m ");
    nx_output_prefix(prefix, "", 4294967295U, 10, true);
    assert_string_equal(prefix + strlen(prefix) - 5, "\033[0m ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_line_in_pieces_comes_out_whole),
        cmocka_unit_test(test_an_endless_line_is_cut_and_no_byte_is_lost),
        cmocka_unit_test(test_lines_leave_in_pieces_that_a_pipe_takes_whole),
        cmocka_unit_test(test_a_sink_without_reader_is_full_and_waits),
        cmocka_unit_test(test_a_closed_reader_breaks_the_sink_permanently),
        cmocka_unit_test(test_without_memory_the_sink_breaks_and_says_so),
        cmocka_unit_test(test_prefixes_are_aligned_and_coloured_by_rank),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
