/* args.c - the arguments of a benchmark. */
#include "args.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/text.h"

enum { USAGE = 2, DAY = 86400 };

static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    return (slash == NULL) ? path : slash + 1;
}

nxb_args nxb_args_take(int argc, char **argv, size_t most, const char *help)
{
    const nxb_args args = {.program = (argc > 0) ? name_of(argv[0]) : "bench",
                           .words = argv + ((argc > 0) ? 1 : 0),
                           .n = (argc > 0) ? (size_t)argc - 1 : 0};

    for (size_t i = 0; i < args.n; i++) {
        if ((strcmp(args.words[i], "--help") == 0) || (strcmp(args.words[i], "-h") == 0)) {
            (void)fputs(help, stdout);
            exit(0); // NOLINT(concurrency-mt-unsafe): there is one thread
        }
    }
    for (size_t i = 0; i < args.n; i++) {
        if ((args.words[i][0] == '-') || (i >= most)) {
            (void)fprintf(stderr, "%s: unknown argument: %s; see %s --help\n", args.program,
                          args.words[i], args.program);
            exit(USAGE); // NOLINT(concurrency-mt-unsafe)
        }
    }
    return args;
}

uint64_t nxb_args_number(const nxb_args *args, size_t i, uint64_t otherwise, uint64_t least,
                         uint64_t most)
{
    uint64_t number = otherwise;

    if ((i < args->n) &&
        (!nx_parse_size(args->words[i], &number) || (number < least) || (number > most))) {
        (void)fprintf(stderr,
                      "%s: \"%s\" is no number from %" PRIu64 " to %" PRIu64 "; see %s --help\n",
                      args->program, args->words[i], least, most, args->program);
        exit(USAGE); // NOLINT(concurrency-mt-unsafe)
    }
    return number;
}

double nxb_args_seconds(const nxb_args *args, size_t i, double otherwise)
{
    double seconds = otherwise;
    char *end = NULL;

    if (i < args->n) {
        seconds = strtod(args->words[i], &end);
    }
    /* NaN fails the comparison with 0, too. */
    if ((i < args->n) && ((*end != '\0') || !(seconds > 0) || (seconds > DAY))) {
        (void)fprintf(stderr, "%s: \"%s\" is no number of seconds, such as 0.5; see %s --help\n",
                      args->program, args->words[i], args->program);
        exit(USAGE); // NOLINT(concurrency-mt-unsafe)
    }
    return seconds;
}

size_t nxb_args_word(const nxb_args *args, size_t i, const char *const words[], size_t n)
{
    size_t found = 0;

    while ((found < n) && (strcmp(args->words[i], words[found]) != 0)) {
        found++;
    }
    if (found < n) {
        return found;
    }
    (void)fprintf(stderr, "%s: unknown argument: %s; accepted:", args->program, args->words[i]);
    for (size_t k = 0; k < n; k++) {
        (void)fprintf(stderr, "%s %s", (k > 0) ? "," : "", words[k]);
    }
    (void)fprintf(stderr, "; see %s --help\n", args->program);
    exit(USAGE); // NOLINT(concurrency-mt-unsafe)
}
