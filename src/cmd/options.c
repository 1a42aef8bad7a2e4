/* options.c - parsing, errors and help from the option table. */
#include "cmd/options.h"

#include <stdio.h>
#include <string.h>

#include "base/text/suggest.h"
#include "base/text/text.h"
#include "cmd/cmd.h"

static const nx_number *number_of(const nx_option *row)
{
    switch (row->kind) {
    case NX_OPTION_UINT:
        return &nx_numbers[NX_NUMBER_UINT];
    case NX_OPTION_SIZE:
        return &nx_numbers[NX_NUMBER_SIZE];
    case NX_OPTION_DURATION:
        return &nx_numbers[NX_NUMBER_DURATION];
    case NX_OPTION_RATE:
        return &nx_numbers[NX_NUMBER_RATE];
    case NX_OPTION_FLAG:
    case NX_OPTION_TEXT:
    case NX_OPTION_WORDS:
        break;
    }
    return NULL;
}

/* The row for |arg|, "name" or "name=value" without its dashes. */
static const nx_option *find(const nx_options *o, const char *arg)
{
    size_t len = strcspn(arg, "=");

    for (size_t i = 0; i < o->n; i++) {
        if ((strlen(o->table[i].name) == len) && (memcmp(o->table[i].name, arg, len) == 0)) {
            return &o->table[i];
        }
    }
    return NULL;
}

/* The row whose letter begins "-l" or "-l4". */
static const nx_option *find_letter(const nx_options *o, const char *arg)
{
    for (size_t i = 0; i < o->n; i++) {
        if ((o->table[i].letter != '\0') && (o->table[i].letter == arg[1])) {
            return &o->table[i];
        }
    }
    return NULL;
}

/* The row for |arg|, and the value inside |arg|; NULL: none. */
static const nx_option *find_option(const nx_options *o, const char *arg, const char **value)
{
    const nx_option *row;

    *value = NULL;
    if (strncmp(arg, "--", 2) == 0) {
        const char *equals = strchr(arg, '=');

        *value = (equals == NULL) ? NULL : equals + 1;
        return find(o, arg + 2);
    }
    row = find_letter(o, arg);
    if ((row == NULL) || (arg[2] == '\0')) {
        return row;
    }
    /* Only a number may follow its letter directly. */
    *value = arg + 2;
    return ((number_of(row) != NULL) && nx_is_digit(arg[2])) ? row : NULL;
}

/* A suggestion for |word|, which is no option: "--ranks", "-n" or NULL; |buf| has room for it. */
static const char *guess(const nx_options *o, const char *word, char *buf, size_t size)
{
    nx_suggest near = nx_suggest_start(word + strspn(word, "-"));

    for (size_t i = 0; i < o->n; i++) {
        nx_suggest_try(&near, o->table[i].name);
    }
    if (near.best != NULL) {
        (void)snprintf(buf, size, "--%s", near.best);
    } else if ((word[1] != '-') && (find_letter(o, word) != NULL)) {
        (void)snprintf(buf, size, "-%c", word[1]);
    } else {
        return NULL;
    }
    return buf;
}

static int unknown(const nx_options *o, const char *arg)
{
    nx_text text = {0};
    char word[64], room[64];
    const char *meant;
    int code;

    (void)snprintf(word, sizeof(word), "%.*s", (int)strcspn(arg, "="), arg);
    meant = guess(o, word, room, sizeof(room));
    for (size_t i = 0; i < o->n; i++) {
        if (o->table[i].letter != '\0') {
            nx_text_addf(&text, "-%c, ", o->table[i].letter);
        }
        nx_text_addf(&text, "--%s, ", o->table[i].name);
    }
    nx_text_addf(&text, "--help");
    if (nx_text_str(&text) == NULL) {
        code = nx_usage(o->command, "unknown option %s", word);
    } else if (meant != NULL) {
        code = nx_usage(o->command, "unknown option %s, did you mean %s? accepted: %s", word, meant,
                        nx_text_str(&text));
    } else {
        code = nx_usage(o->command, "unknown option %s; accepted: %s", word, nx_text_str(&text));
    }
    nx_text_fini(&text);
    return code;
}

static int set_number(const nx_options *o, const nx_option *row, const char *value)
{
    const nx_number *number = number_of(row);
    uint64_t most = (row->max == 0) ? UINT64_MAX : row->max;
    char min[NX_NUMBER_ROOM], max[NX_NUMBER_ROOM];
    uint64_t parsed;

    if (number->parse(value, &parsed) && (parsed >= row->min) && (parsed <= most)) {
        *(uint64_t *)row->out = parsed;
        return NX_EXIT_OK;
    }
    (void)number->format(row->min, min);
    (void)number->format(most, max);
    if (row->max != 0) {
        return nx_usage(o->command, "--%s %s: not accepted; give %s, from %s to %s", row->name,
                        value, number->accepted, min, max);
    }
    if (row->min != 0) {
        return nx_usage(o->command, "--%s %s: not accepted; give %s, at least %s", row->name, value,
                        number->accepted, min);
    }
    return nx_usage(o->command, "--%s %s: not accepted; give %s", row->name, value,
                    number->accepted);
}

static int add_word(const nx_options *o, const nx_option *row, const char *value)
{
    nx_words *words = row->out;

    if (words->n == NX_WORDS_MAX) {
        return nx_usage(o->command, "--%s is given more than %d times", row->name,
                        (int)NX_WORDS_MAX);
    }
    words->at[words->n++] = value;
    return NX_EXIT_OK;
}

static int set(const nx_options *o, const nx_option *row, const char *value)
{
    if (row->kind == NX_OPTION_TEXT) {
        *(const char **)row->out = value;
        return NX_EXIT_OK;
    }
    return (row->kind == NX_OPTION_WORDS) ? add_word(o, row, value) : set_number(o, row, value);
}

/* Parses the option at argv[*i]. Advances |*i| if the value is the next word. */
static int take(const nx_options *o, int argc, char **argv, int *i)
{
    const char *arg = argv[*i];
    const char *value;
    const nx_option *row = find_option(o, arg, &value);

    if (row == NULL) {
        return unknown(o, arg);
    }
    if (row->kind == NX_OPTION_FLAG) {
        if (value != NULL) {
            return nx_usage(o->command, "--%s takes no value; given: %s", row->name, value);
        }
        *(bool *)row->out = true;
        return NX_EXIT_OK;
    }
    if (value != NULL) {
        return set(o, row, value);
    }
    if (*i + 1 >= argc) {
        return nx_usage(o->command, "--%s needs a value: --%s %s", row->name, row->name,
                        row->value);
    }
    *i += 1;
    return set(o, row, argv[*i]);
}

static int take_operand(const nx_options *o, const char *arg, const char **operands, size_t *n)
{
    if (*n < o->max_operands) {
        operands[(*n)++] = arg;
        return NX_EXIT_OK;
    }
    if (o->max_operands == 0) {
        return nx_usage(o->command, "unexpected argument %s; only options are accepted", arg);
    }
    return nx_usage(o->command, "unexpected argument %s; accepted: %s", arg, o->operands);
}

static void (*shown_to)(void *ctx, const nx_options *options);
static void *shown_ctx;

void nx_options_show(void (*show)(void *ctx, const nx_options *options), void *ctx)
{
    shown_to = show;
    shown_ctx = ctx;
}

bool nx_options_parse(const nx_options *options, int argc, char **argv, const char **operands,
                      int *code)
{
    bool only_operands = false;
    size_t n = 0;

    if (shown_to != NULL) {
        shown_to(shown_ctx, options);
        *code = NX_EXIT_OK;
        return false;
    }
    if (options->rest != NULL) {
        *options->rest = argc;
    }
    for (size_t i = 0; i < options->max_operands; i++) {
        operands[i] = NULL;
    }
    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i];

        const bool dash = strcmp(arg, "--") == 0;

        if ((options->rest != NULL) && (dash || (arg[0] != '-'))) {
            *options->rest = i + (dash ? 1 : 0);
            return true;
        }
        if (only_operands || (arg[0] != '-') || (arg[1] == '\0')) {
            *code = take_operand(options, arg, operands, &n);
        } else if (dash) {
            only_operands = true;
            continue;
        } else if ((strcmp(arg, "--help") == 0) || (strcmp(arg, "-h") == 0)) {
            nx_options_help(options);
            *code = NX_EXIT_OK;
            return false;
        } else {
            *code = take(options, argc, argv, &i);
        }
        if (*code != NX_EXIT_OK) {
            return false;
        }
    }
    return true;
}

/* " (default 20us)", or nothing. */
static void print_default(const nx_option *row)
{
    char number[NX_NUMBER_ROOM];

    if ((row->kind == NX_OPTION_FLAG) || (row->kind == NX_OPTION_WORDS)) {
        return;
    }
    if (row->kind == NX_OPTION_TEXT) {
        if (*(const char **)row->out != NULL) {
            (void)printf(" (default %s)", *(const char **)row->out);
        }
        return;
    }
    if (*(uint64_t *)row->out != 0) {
        (void)printf(" (default %s)", number_of(row)->format(*(uint64_t *)row->out, number));
    }
}

void nx_options_help(const nx_options *options)
{
    (void)printf("usage: nexar %s [OPTION]...%s%s\n\n%s\n\noptions:\n", options->command,
                 (options->operands == NULL) ? "" : " ",
                 (options->operands == NULL) ? "" : options->operands, options->help);
    for (size_t i = 0; i < options->n; i++) {
        const nx_option *row = &options->table[i];
        char head[64];

        const char letter[] = {'-', row->letter, ',', ' ', '\0'};

        (void)snprintf(head, sizeof(head), "%s--%s%s%s", (row->letter == '\0') ? "" : letter,
                       row->name, (row->value == NULL) ? "" : " ",
                       (row->value == NULL) ? "" : row->value);
        (void)printf("  %-22s %s", head, row->help);
        print_default(row);
        (void)printf("\n");
    }
    (void)printf("  %-22s %s\n", "--help", "print this");
    if (options->notes != NULL) {
        (void)printf("\n%s\n", options->notes);
    }
}
