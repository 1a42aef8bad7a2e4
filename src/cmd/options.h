/*
 * options.h - the options of a subcommand: one table serves parsing and help.
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

/* The type of an option's value, and so of |*out|. */
typedef enum nx_option_kind {
    NX_OPTION_FLAG,     /* bool; takes no value, becomes true */
    NX_OPTION_TEXT,     /* const char *, borrowed from argv */
    NX_OPTION_WORDS,    /* nx_words: each occurrence adds one */
    NX_OPTION_UINT,     /* uint64_t, like the kinds below (formats: text.h) */
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
    void *out;         /* initially the default; --help prints it unless 0 */
    const char *value; /* name of the value in --help; NULL for a flag */
    const char *help;  /* one line */
    uint64_t min, max; /* of numbers, both included; max 0: no limit */
    char letter;       /* "-n" besides "--ranks"; 0: none */
} nx_option;

typedef struct nx_options {
    const char *command;
    const char *operands; /* operands in the usage line: "COLLECTIVE"; NULL: none */
    size_t max_operands;
    const char *help; /* what the command does: lines without an end at the last */
    const nx_option *table;
    size_t n;
    const char *notes; /* printed below the options, e.g. examples; may be NULL */
    int *rest;         /* not NULL: parsing stops before the first operand, or after
                          `--`; gets the index of the next word */
} nx_options;

/*
 * Parses from argv[1] on: `--name value`, `--name=value`, `-l value`, `-l4`, `--` before operands
 * that begin with a dash. Operands and options come in any order. Of repeated options the last
 * counts; for NX_OPTION_WORDS all count. The operands are stored in |operands|, which has room
 * for |max_operands|; unused entries become NULL.
 *
 * Returns true if the command must run. Otherwise |*code| is its exit code: NX_EXIT_OK after
 * printing --help; NX_EXIT_USAGE after an error, reported in one line on stderr.
 */
bool nx_options_parse(const nx_options *options, int argc, char **argv, const char **operands,
                      int *code);

/* From now on nx_options_parse calls |show| with its options and parses nothing: it returns
 * false and NX_EXIT_OK. NULL ends this mode. For one thread. */
void nx_options_show(void (*show)(void *ctx, const nx_options *options), void *ctx);

/* Prints the text of --help to stdout. */
void nx_options_help(const nx_options *options);

#endif /* NX_OPTIONS_H */
