/* log_limit_test.c - a flood of lines becomes a few lines and a count; every line is written or
 * counted. */
#include "base/log_limit.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "unit.h"

#define SECOND UINT64_C(1000000000)

static void test_a_few_are_written_in_a_second(void **state)
{
    nx_log_limit l = {0};
    unsigned lines = 0;

    (void)state;
    assert_true(nx_log_limit_due(&l) == UINT64_MAX);
    for (uint64_t i = 0; i < 10000; i++) {
        lines += nx_log_limit_allows(&l, 5 + i) ? 1 : 0;
    }
    assert_int_equal(lines, NX_LOG_LIMIT_LINES);
    assert_true(nx_log_limit_due(&l) == 5 + SECOND);
    assert_int_equal(nx_log_limit_missing(&l, 4 + SECOND), 0);
    assert_int_equal(nx_log_limit_missing(&l, 5 + SECOND), 10000 - NX_LOG_LIMIT_LINES);
    assert_int_equal(nx_log_limit_missing(&l, 5 + SECOND), 0);
    assert_true(nx_log_limit_due(&l) == UINT64_MAX);
    assert_true(nx_log_limit_allows(&l, 5 + SECOND));
}

static void test_lines_that_arrive_slowly_are_all_written(void **state)
{
    nx_log_limit l = {0};

    (void)state;
    for (uint64_t i = 0; i < 1000; i++) {
        assert_true(nx_log_limit_allows(&l, i * SECOND / NX_LOG_LIMIT_LINES));
        assert_true(nx_log_limit_due(&l) == UINT64_MAX);
    }
}

/* Logs a flood with stderr redirected to a file; returns the content of the file. */
static const char *flood(void)
{
    static char text[65536];
    const int saved = dup(STDERR_FILENO), fd = fileno(tmpfile()); // NOLINT: closed with the test
    nx_log_limit l = {0};
    ssize_t len;

    assert_true((saved >= 0) && (fd >= 0));
    assert_true(dup2(fd, STDERR_FILENO) >= 0);
    for (int i = 0; i < 5000; i++) {
        nx_log_limited(&l, (i < 4000) ? 1 : 1 + SECOND, NX_LOG_WARN, "stranger %d", i);
        nx_log_limited(&l, 1, NX_LOG_DEBUG, "nobody reads it, and it does not count");
    }
    nx_log_limit_end(&l, NX_LOG_WARN);
    assert_true(dup2(saved, STDERR_FILENO) >= 0);
    (void)close(saved);
    len = pread(fd, text, sizeof(text) - 1, 0);
    assert_true(len >= 0);
    text[len] = '\0';
    return text;
}

static void test_a_flood_in_the_log_is_a_few_lines_and_counts(void **state)
{
    const char *text = flood();
    unsigned lines = 0;

    (void)state;
    for (const char *at = text; (at = strchr(at, '\n')) != NULL; at++) {
        lines++;
    }
    assert_int_equal(lines, 2 * NX_LOG_LIMIT_LINES + 2);
    assert_non_null(strstr(text, "stranger 7\nnexar: warn: 3992 more lines like the last were held "
                                 "back\nnexar: warn: stranger 4000\n"));
    assert_non_null(strstr(text, "stranger 4007\nnexar: warn: 992 more lines like the last were "));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_few_are_written_in_a_second),
        cmocka_unit_test(test_lines_that_arrive_slowly_are_all_written),
        cmocka_unit_test(test_a_flood_in_the_log_is_a_few_lines_and_counts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
