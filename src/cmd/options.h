/*
 * options.h - the options of a subcommand, from one table that also prints
 * itself.
 *
 *     uint64_t ranks = 64;
 *     bool json = false;
 *     const nx_option table[] = {
 *         {"ranks", NX_OPTION_UINT, &ranks, "N", "how many ranks", .min = 1, .max = 65536},
 *         {"json", NX_OPTION_FLAG, &json, NULL, "print JSON"},
 *     };
 *     const nx_options options = {.command = "plan", .help = "...", .table = table, .n = 2};
 *
 *     if (!nx_options_parse(&options, argc, argv, NULL, &code)) {
 *         return code;
 *     }
 */
#ifndef NX_OPTIONS_H
#define NX_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What an option's value is, and so what |out| points to. */
typedef enum nx_option_kind {
    NX_OPTION_FLAG,     /* bool; takes no value, becomes true */
    NX_OPTION_TEXT,     /* const char *, borrowed from argv */
    NX_OPTION_WORDS,    /* nx_words: each time that it is given adds one */
    NX_OPTION_UINT,     /* uint64_t, as are those below (text.h has their forms) */
    NX_OPTION_SIZE,     /* bytes: "64m" */
    NX_OPTION_DURATION, /* nanoseconds: "20us" */
    NX_OPTION_RATE      /* bits per second: "10g" */
} nx_option_kind;

enum { NX_WORDS_MAX = 128 };

typedef struct nx_words {
    const char *at[NX_WORDS_MAX]; /* borrowed from argv */
    size_t n;
} nx_words;

typedef struct nx_option {
    const char *name; /* without the dashes */
    nx_option_kind kind;
    void *out;         /* holds the default before; --help prints it unless 0 */
    const char *value; /* what --help calls the value; NULL for a flag */
    const char *help;  /* one line */
    uint64_t min, max; /* of numbers, both included; max 0: no limit */
    char letter;       /* "-n" besides "--ranks"; 0: none */
} nx_option;

typedef struct nx_options {
    const char *command;
    const char *operands; /* as the usage line shows them: "COLLECTIVE"; NULL: none */
    size_t max_operands;
    const char *help; /* what the command does: lines without an end at the last */
    const nx_option *table;
    size_t n;
    const char *notes; /* printed below the options, e.g. examples; may be NULL */
    int *rest;         /* not NULL: parsing stops before the first operand, or after
                          `--`, and this is set to the index of what follows */
} nx_options;

/*
 * Parses argv[1] on: `--name value`, `--name=value`, `-l value`, `-l4`, `--` before operands that
 * begin with a dash; operands and options in any order; the last of several equal options counts
 * (of NX_OPTION_WORDS all).  The first operands go to |operands|, which has room for |max_operands|
 * and is filled up with NULL.
 *
 * Returns true if the command must run.  Otherwise |*code| is what it returns: NX_EXIT_OK after
 * --help, which was printed; NX_EXIT_USAGE after an error, of which one line was written to stderr.
 */
bool nx_options_parse(const nx_options *options, int argc, char **argv, const char **operands,
                      int *code);

/* From now on nx_options_parse calls |show| with its options and parses nothing: it returns false
 * and NX_EXIT_OK.  NULL: no more.  For one thread. */
void nx_options_show(void (*show)(void *ctx, const nx_options *options), void *ctx);

/* What --help prints, to stdout. */
void nx_options_help(const nx_options *options);

#endif /* NX_OPTIONS_H */
