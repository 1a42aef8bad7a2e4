/* options_test.c - valid options are accepted, invalid ones rejected with helpful messages. */
#include "cmd/options.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "unit.h"

enum { MAX_ARGS = 8 };

typedef struct parsed {
    bool json;
    const char *plot;
    uint64_t ranks, bytes, latency, bandwidth;
    const char *operands[1];
    bool go_on;
    int code;
    char said[512]; /* on stderr, or on stdout for --help */
} parsed;

static void parse(parsed *p, int argc, char **argv)
{
    const nx_option table[] = {
        {"json", NX_OPTION_FLAG, &p->json, NULL, "print JSON", 0, 0, 0},
        {"plot", NX_OPTION_TEXT, &p->plot, "FILE", "draw it", 0, 0, 0},
        {"ranks", NX_OPTION_UINT, &p->ranks, "N", "how many ranks", 1, 65536, 0},
        {"bytes", NX_OPTION_SIZE, &p->bytes, "SIZE", "how much", 0, 0, 0},
        {"latency", NX_OPTION_DURATION, &p->latency, "TIME", "of a link", 0, 0, 0},
        {"bandwidth", NX_OPTION_RATE, &p->bandwidth, "RATE", "of a link", 1, 0, 0},
    };
    const nx_options options = {
        .command = "plan",
        .operands = "COLLECTIVE",
        .max_operands = 1,
        .help = "Tells.",
        .table = table,
        .n = sizeof(table) / sizeof(table[0]),
    };

    p->go_on = nx_options_parse(&options, argc, argv, p->operands, &p->code);
}

/* Parses |line|, words separated by blanks, and captures |fd| in |said|. */
static parsed run(const char *line, int fd)
{
    parsed p = {.ranks = 64, .latency = 20000, .code = -1};
    char words[256], name[] = "plan", *argv[MAX_ARGS] = {name}, *save = NULL;
    int argc = 1, ends[2], saved = dup(fd);
    ssize_t n;

    (void)snprintf(words, sizeof(words), "%s", line);
    for (char *w = strtok_r(words, " ", &save); w != NULL; w = strtok_r(NULL, " ", &save)) {
        assert_true(argc < MAX_ARGS);
        argv[argc++] = w;
    }
    assert_true(saved >= 0);
    assert_int_equal(pipe(ends), 0);
    (void)fflush(NULL);
    assert_true(dup2(ends[1], fd) >= 0);
    parse(&p, argc, argv);
    (void)fflush(NULL);
    assert_true(dup2(saved, fd) >= 0);
    (void)close(saved);
    (void)close(ends[1]);
    n = read(ends[0], p.said, sizeof(p.said) - 1);
    (void)close(ends[0]);
    p.said[(n < 0) ? 0 : n] = '\0';
    p.operands[0] = (p.operands[0] == NULL) ? "" : line + (p.operands[0] - words);
    p.plot = (p.plot == NULL) ? "" : line + (p.plot - words);
    return p;
}

static void test_values_stand_behind_a_blank_or_an_equals_sign(void **state)
{
    parsed p =
        run("allreduce --ranks 8 --bytes=64m --bandwidth=2.5g --json --plot=a=b", STDERR_FILENO);

    (void)state;
    assert_true(p.go_on);
    assert_int_equal(p.ranks, 8);
    assert_int_equal(p.bytes, 64 << 20);
    assert_int_equal(p.bandwidth, UINT64_C(2500000000));
    assert_int_equal(p.latency, 20000);
    assert_true(p.json);
    assert_string_equal(p.plot, "a=b");
    assert_memory_equal(p.operands[0], "allreduce", 9);
    assert_string_equal(p.said, "");
}

static void test_the_last_of_equal_options_counts(void **state)
{
    parsed p = run("--ranks 8 --ranks=9", STDERR_FILENO);

    (void)state;
    assert_true(p.go_on);
    assert_int_equal(p.ranks, 9);
    assert_string_equal(p.operands[0], "");
}

static void test_words_are_gathered(void **state)
{
    nx_words words = {0};
    const nx_option table[] = {{"env", NX_OPTION_WORDS, &words, "NAME", "a variable", 0, 0, 0}};
    const nx_options options = {.command = "run", .help = "Runs.", .table = table, .n = 1};
    char name[] = "run", env[] = "--env", a[] = "A=1", b[] = "--env=B=x=y";
    char *argv[] = {name, env, a, b, NULL};
    int code = -1;

    (void)state;
    assert_true(nx_options_parse(&options, 4, argv, NULL, &code));
    assert_int_equal(words.n, 2);
    assert_string_equal(words.at[0], "A=1");
    assert_string_equal(words.at[1], "B=x=y");
}

static void test_more_words_than_there_is_room_for_are_refused(void **state)
{
    nx_words words = {.n = NX_WORDS_MAX};
    const nx_option table[] = {{"env", NX_OPTION_WORDS, &words, "NAME", "a variable", 0, 0, 0}};
    const nx_options options = {.command = "run", .help = "Runs.", .table = table, .n = 1};
    char name[] = "run", b[] = "--env=B";
    char *argv[] = {name, b, NULL};
    int code = -1;

    (void)state;
    assert_false(nx_options_parse(&options, 2, argv, NULL, &code));
    assert_int_equal(code, NX_EXIT_USAGE);
    assert_int_equal(words.n, NX_WORDS_MAX);
}

static void count_shown(void *ctx, const nx_options *options)
{
    size_t *rows = ctx;

    *rows = options->n;
}

static void test_options_are_shown_instead_of_parsed(void **state)
{
    size_t rows = 0;
    parsed p;

    (void)state;
    nx_options_show(count_shown, &rows);
    p = run("--no-such-option", STDERR_FILENO);
    nx_options_show(NULL, NULL);
    assert_false(p.go_on);
    assert_int_equal(p.code, NX_EXIT_OK);
    assert_string_equal(p.said, "");
    assert_int_equal(rows, 6);
    assert_true(run("--json", STDERR_FILENO).go_on);
}

static void test_behind_two_dashes_everything_is_an_operand(void **state)
{
    parsed p = run("-- --ranks", STDERR_FILENO);

    (void)state;
    assert_true(p.go_on);
    assert_string_equal(p.operands[0], "--ranks");
    p = run("-", STDERR_FILENO);
    assert_true(p.go_on);
    assert_string_equal(p.operands[0], "-");
}

static void refuses(const char *line, const char *said)
{
    parsed p = run(line, STDERR_FILENO);

    assert_false(p.go_on);
    assert_int_equal(p.code, NX_EXIT_USAGE);
    assert_string_equal(p.said, said);
}

#define ALL "--json, --plot, --ranks, --bytes, --latency, --bandwidth, --help\n"

static void test_what_is_wrong_is_named_with_what_is_accepted(void **state)
{
    (void)state;
    refuses("--rank 3", "nexar plan: unknown option --rank, did you mean --ranks? accepted: " ALL);
    refuses("-x", "nexar plan: unknown option -x; accepted: " ALL);
    refuses("--xyzzy=1", "nexar plan: unknown option --xyzzy; accepted: " ALL);
    refuses("--ranks", "nexar plan: --ranks needs a value: --ranks N\n");
    refuses("--json=yes", "nexar plan: --json takes no value; given: yes\n");
    refuses("--ranks 0", "nexar plan: --ranks 0: not accepted; give a whole number, from 1 to "
                         "65536\n");
    refuses("--ranks 65537", "nexar plan: --ranks 65537: not accepted; give a whole number, from "
                             "1 to 65536\n");
    refuses("--bytes=-1", "nexar plan: --bytes -1: not accepted; give a size such as 64k, 8m or "
                          "1g\n");
    refuses("--latency 5", "nexar plan: --latency 5: not accepted; give a duration such as 20us, "
                           "5ms or 1.5s\n");
    refuses("--bandwidth 0", "nexar plan: --bandwidth 0: not accepted; give bits per second such "
                             "as 100m or 10g, at least 1\n");
    refuses("one two", "nexar plan: unexpected argument two; accepted: COLLECTIVE\n");
}

static void test_help_prints_the_table_with_its_defaults(void **state)
{
    parsed p = run("--help", STDOUT_FILENO);

    (void)state;
    assert_false(p.go_on);
    assert_int_equal(p.code, NX_EXIT_OK);
    assert_string_equal(p.said, "usage: nexar plan [OPTION]... COLLECTIVE\n\nTells.\n\noptions:\n"
                                "  --json                 print JSON\n"
                                "  --plot FILE            draw it\n"
                                "  --ranks N              how many ranks (default 64)\n"
                                "  --bytes SIZE           how much\n"
                                "  --latency TIME         of a link (default 20us)\n"
                                "  --bandwidth RATE       of a link\n"
                                "  --help                 print this\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_stand_behind_a_blank_or_an_equals_sign),
        cmocka_unit_test(test_the_last_of_equal_options_counts),
        cmocka_unit_test(test_words_are_gathered),
        cmocka_unit_test(test_more_words_than_there_is_room_for_are_refused),
        cmocka_unit_test(test_options_are_shown_instead_of_parsed),
        cmocka_unit_test(test_behind_two_dashes_everything_is_an_operand),
        cmocka_unit_test(test_what_is_wrong_is_named_with_what_is_accepted),
        cmocka_unit_test(test_help_prints_the_table_with_its_defaults),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
