/* log_test.c - the lines that the reader of stderr receives. */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <nexar.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "unit.h"

/* Runs |lines| with stderr redirected to a pipe; returns what the pipe has received. */
static const char *captured(void (*lines)(void))
{
    static char text[65536];
    size_t len = 0;
    ssize_t n;
    int ends[2], saved = dup(STDERR_FILENO);

    assert_true(saved >= 0);
    assert_int_equal(pipe(ends), 0);
    assert_true(dup2(ends[1], STDERR_FILENO) >= 0);
    lines();
    assert_true(dup2(saved, STDERR_FILENO) >= 0);
    (void)close(saved);
    (void)close(ends[1]);
    while ((n = read(ends[0], text + len, sizeof(text) - 1 - len)) > 0) {
        len += (size_t)n;
    }
    (void)close(ends[0]);
    text[len] = '\0';
    return text;
}

static void log_all_levels(void)
{
    nx_log(NX_LOG_ERROR, "one %d", 1);
    nx_log(NX_LOG_WARN, "two");
    nx_log(NX_LOG_INFO, "three");
    nx_log(NX_LOG_DEBUG, "four");
}

static void test_lines_up_to_the_level_are_written(void **state)
{
    (void)state;
    assert_string_equal(captured(log_all_levels), "nexar: error: one 1\nnexar: warn: two\n");
    nx_log_set_level(NX_LOG_ERROR);
    assert_false(nx_log_on(NX_LOG_WARN));
    assert_string_equal(captured(log_all_levels), "nexar: error: one 1\n");
    nx_log_set_level(NX_LOG_DEBUG);
    assert_string_equal(captured(log_all_levels), "nexar: error: one 1\nnexar: warn: two\n"
                                                  "nexar: info: three\nnexar: debug: four\n");
    nx_log_set_level(NX_LOG_WARN);
}

static size_t rank_prefix(char *buf, size_t room)
{
    return (size_t)snprintf(buf, room, "rank %d: ", 3);
}

static void test_the_prefix_stands_before_the_level(void **state)
{
    (void)state;
    nx_log_set_prefix(rank_prefix);
    assert_string_equal(captured(log_all_levels),
                        "nexar: rank 3: error: one 1\nnexar: rank 3: warn: two\n");
    nx_log_set_prefix(NULL);
}

static void log_long_and_odd(void)
{
    char text[4 * NX_LOG_ROOM];

    memset(text, 'x', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    errno = 4711;
    nx_log(NX_LOG_ERROR, "%s", text);
    nx_log(NX_LOG_ERROR, "a\nb\tc\033[2Jd\177e\xc2\x9b\xc3\xbc");
    assert_int_equal(errno, 4711);
}

static void test_a_line_is_one_line_and_is_cut_where_it_ends(void **state)
{
    const char *text = captured(log_long_and_odd), *end = strchr(text, '\n');

    (void)state;
    assert_true(end != NULL);
    assert_true(end - text < NX_LOG_ROOM);
    assert_true(end - text > NX_LOG_ROOM - 8);
    assert_string_equal(end + 1, "nexar: error: a?b?c?[2Jd?e??\xc3\xbc\n");
}

static void *log_many(void *arg)
{
    for (int i = 0; i < 100; i++) {
        nx_log(NX_LOG_ERROR, "thread %s %s", (const char *)arg, (const char *)arg);
    }
    return NULL;
}

static void log_from_two_threads(void)
{
    char a[] = "aaaaaaaa", b[] = "bbbbbbbb";
    pthread_t other;

    assert_int_equal(pthread_create(&other, NULL, log_many, b), 0);
    (void)log_many(a);
    assert_int_equal(pthread_join(other, NULL), 0);
}

static void test_lines_of_threads_stay_whole(void **state)
{
    const char *at = captured(log_from_two_threads);
    int lines = 0;

    (void)state;
    for (; *at != '\0'; lines++) {
        static const char *const whole[] = {"nexar: error: thread aaaaaaaa aaaaaaaa\n",
                                            "nexar: error: thread bbbbbbbb bbbbbbbb\n"};
        size_t len = strlen(whole[0]);

        assert_true((strncmp(at, whole[0], len) == 0) || (strncmp(at, whole[1], len) == 0));
        at += len;
    }
    assert_int_equal(lines, 200);
}

enum { UNREAD = 2000 }; /* lines: more than a pipe holds */

/* More than the pipe holds; then, after the pipe has been read, one more line. */
static void test_a_stopped_reader_delays_no_caller(void **state)
{
    static char text[1 << 20];
    ssize_t n;
    int ends[2], saved = dup(STDERR_FILENO);
    long written = 0, missing;
    char *note;

    (void)state;
    assert_int_equal(pipe(ends), 0);
    assert_true(dup2(ends[1], STDERR_FILENO) >= 0);
    for (int i = 0; i < UNREAD; i++) {
        nx_log(NX_LOG_ERROR, "a line of some length, so that they fill the pipe soon: %d", i);
    }
    n = read(ends[0], text, sizeof(text) - 1);
    nx_log(NX_LOG_ERROR, "the last");
    nx_log(NX_LOG_ERROR, "the very last");
    assert_true(dup2(saved, STDERR_FILENO) >= 0);
    (void)close(saved);
    (void)close(ends[1]);
    assert_true(n > 0);
    for (ssize_t i = 0; i < n; i++) {
        written += (text[i] == '\n');
    }
    n = read(ends[0], text, sizeof(text) - 1);
    assert_true(n > 0);
    text[n] = '\0';
    (void)close(ends[0]);
    assert_memory_equal(text, "nexar: ", 7);
    missing = strtol(text + 7, &note, 10);
    assert_memory_equal(note, " lines are missing here", 23);
    assert_int_equal(written + missing, UNREAD);
    note = strchr(text, '\n');
    assert_non_null(note);
    assert_string_equal(note + 1, "nexar: error: the last\nnexar: error: the very last\n");
}

/* ---- a pipe that cannot be written to ------------------------------------------------ */

static bool lies; /* ppoll reports every descriptor as writable */

/* Replaces ppoll of libc. */
// NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): it has reserved ones
int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask)
{
    struct timespec ts = {0};

    if (lies) {
        for (nfds_t i = 0; i < n; i++) {
            fds[i].revents = POLLOUT;
        }
        return (int)n;
    }
    if (timeout != NULL) {
        ts = *timeout; /* the kernel writes the rest there */
    }
    return (int)syscall(SYS_ppoll, fds, n, (timeout == NULL) ? NULL : &ts, mask, 8);
}

/* Makes stderr the writing end of |ends|; returns a duplicate of the old stderr. */
static int divert(int ends[2])
{
    const int saved = dup(STDERR_FILENO);

    assert_true(saved >= 0);
    assert_int_equal(pipe(ends), 0);
    assert_true(dup2(ends[1], STDERR_FILENO) >= 0);
    (void)close(ends[1]);
    return saved;
}

static void restore(int saved)
{
    assert_true(dup2(saved, STDERR_FILENO) >= 0);
    (void)close(saved);
}

/* The pipe was writable when polled; then another process filled it. */
static void test_a_full_pipe_delays_no_caller(void **state)
{
    static char text[1 << 20];
    static const char line[] = "nexar: 3 lines are missing here: nobody took them\n"
                               "nexar: error: after\n";
    int ends[2];
    const int saved = divert(ends), flags = fcntl(STDERR_FILENO, F_GETFL);
    ssize_t n;

    (void)state;
    assert_int_equal(fcntl(STDERR_FILENO, F_SETFL, flags | O_NONBLOCK), 0);
    while (write(STDERR_FILENO, text, 4096) > 0) {
    }
    assert_int_equal(fcntl(STDERR_FILENO, F_SETFL, flags), 0);
    lies = true;
    for (int i = 0; i < 3; i++) {
        nx_log(NX_LOG_ERROR, "lost");
    }
    lies = false;
    assert_true(read(ends[0], text, sizeof(text)) > 0);
    nx_log(NX_LOG_ERROR, "after");
    restore(saved);
    n = read(ends[0], text, sizeof(text) - 1);
    assert_int_equal(n, sizeof(line) - 1);
    assert_memory_equal(text, line, sizeof(line) - 1);
    (void)close(ends[0]);
}

static void test_a_closed_reader_ends_no_process(void **state)
{
    int ends[2];
    const int saved = divert(ends);

    (void)state;
    (void)close(ends[0]);
    nx_log(NX_LOG_ERROR, "to nobody");
    lies = true; /* and the reader leaves after the poll */
    nx_log(NX_LOG_ERROR, "to nobody");
    lies = false;
    restore(saved);
}

/* ---- the program's own function ------------------------------------------------------ */

typedef struct heard {
    char lines[4][64];
    nexar_log_level levels[4];
    int n;
} heard;

static void hear(nexar_log_level level, const char *line, void *arg)
{
    heard *h = arg;

    assert_true(h->n < 4);
    h->levels[h->n] = level;
    (void)snprintf(h->lines[h->n++], sizeof(h->lines[0]), "%s", line);
}

static void test_lines_go_to_the_function_of_the_program(void **state)
{
    heard h = {.n = 0};

    (void)state;
    nexar_set_log(hear, &h);
    assert_string_equal(captured(log_all_levels), "");
    nx_log_always("asked for");
    nexar_set_log(NULL, NULL);
    assert_string_equal(captured(log_all_levels), "nexar: error: one 1\nnexar: warn: two\n");
    assert_int_equal(h.n, 3);
    assert_string_equal(h.lines[0], "nexar: error: one 1");
    assert_int_equal(h.levels[0], NEXAR_LOG_ERROR);
    assert_string_equal(h.lines[1], "nexar: warn: two");
    assert_int_equal(h.levels[1], NEXAR_LOG_WARN);
    assert_string_equal(h.lines[2], "nexar: asked for");
}

typedef struct changing {
    atomic_bool stop, inside, valid;
} changing;

static void watch(nexar_log_level level, const char *line, void *arg)
{
    changing *c = arg;

    (void)level;
    (void)line;
    assert_true(atomic_load(&c->valid));
    assert_false(atomic_exchange(&c->inside, true)); /* one call at a time */
    atomic_store(&c->inside, false);
}

static void *log_on(void *arg)
{
    while (!atomic_load(&((changing *)arg)->stop)) {
        nx_log(NX_LOG_WARN, "x");
    }
    return NULL;
}

static void change_function(void)
{
    changing c = {false, false, false};
    pthread_t threads[2];

    nx_log_set_level(NX_LOG_WARN);
    atomic_store(&c.valid, true);
    nexar_set_log(watch, &c);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, log_on, &c), 0);
    }
    for (int i = 0; i < 200; i++) {
        nexar_set_log(watch, &c);
    }
    nx_log_set_level(NX_LOG_ERROR); /* not to flood stderr */
    nexar_set_log(NULL, NULL);
    atomic_store(&c.valid, false); /* as if |c| were freed */
    atomic_store(&c.stop, true);
    for (int i = 0; i < 2; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    nx_log_set_level(NX_LOG_WARN);
}

static void test_the_function_does_not_run_after_it_was_replaced(void **state)
{
    (void)state;
    (void)captured(change_function);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines_go_to_the_function_of_the_program),
        cmocka_unit_test(test_the_function_does_not_run_after_it_was_replaced),
        cmocka_unit_test(test_lines_up_to_the_level_are_written),
        cmocka_unit_test(test_the_prefix_stands_before_the_level),
        cmocka_unit_test(test_a_line_is_one_line_and_is_cut_where_it_ends),
        cmocka_unit_test(test_lines_of_threads_stay_whole),
        cmocka_unit_test(test_a_stopped_reader_delays_no_caller),
        cmocka_unit_test(test_a_full_pipe_delays_no_caller),
        cmocka_unit_test(test_a_closed_reader_ends_no_process),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
