/* completion.c - `nexar completion`: scripts for shells, from the option tables. */
#include <stdio.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/options.h"

/* How a shell gets its completion. */
typedef struct shell {
    const char *name;
    void (*begin)(void);
    void (*command)(const nx_command *command, const nx_options *options);
    void (*end)(void);
} shell;

/* ---- values of options --------------------------------------------------------------- */

static bool takes_file(const nx_option *o)
{
    return (o->value != NULL) &&
           ((strcmp(o->value, "FILE") == 0) || (strcmp(o->value, "DIR") == 0));
}

/* Whether the value is one of listed words, as "core|none". Other texts name a kind of value. */
static bool takes_word(const nx_option *o)
{
    return (o->value != NULL) && (strchr(o->value, '|') != NULL);
}

/* Prints |text| with |with| before each character of |special|. */
static void escape(const char *text, const char *special, const char *with)
{
    for (; *text != '\0'; text++) {
        if (strchr(special, *text) != NULL) {
            (void)printf("%s", with);
        }
        (void)putchar(*text);
    }
}

/* The words of "core|none" with blanks between. */
static void print_words(const char *value)
{
    for (; *value != '\0'; value++) {
        (void)putchar((*value == '|') ? ' ' : *value);
    }
}

/* ---- bash ---------------------------------------------------------------------------- */

static void bash_begin(void)
{
    (void)printf("# bash completion of nexar, made by `nexar completion bash`\n"
                 "_nexar() {\n"
                 "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}\n"
                 "    local options='' values='' program=no i\n"
                 "    COMPREPLY=()\n"
                 "    if [ \"$cur\" = = ]; then cur=''; fi\n"
                 "    if [ \"$prev\" = = ]; then prev=${COMP_WORDS[COMP_CWORD - 2]}; fi\n"
                 "    if [ \"$COMP_CWORD\" = 1 ]; then\n"
                 "        options='");
    for (size_t i = 0; i < nx_ncommands; i++) {
        (void)printf("%s ", nx_commands[i].name);
    }
    (void)printf("help --help --version'\n"
                 "        COMPREPLY=($(compgen -W \"$options\" -- \"$cur\"))\n"
                 "        return\n"
                 "    fi\n"
                 "    case ${COMP_WORDS[1]} in\n");
}

/* "--bind) values='core none' ;;": the values offered after the option; '-': none. */
static void bash_value(const nx_option *o)
{
    if (o->letter != '\0') {
        (void)printf("        -%c | --%s) values=", o->letter, o->name);
    } else {
        (void)printf("        --%s) values=", o->name);
    }
    if (takes_word(o)) {
        (void)printf("'");
        print_words(o->value);
        (void)printf("'");
    } else {
        (void)printf("%s", takes_file(o) ? "FILE" : "-");
    }
    (void)printf(" ;;\n");
}

static void bash_command(const nx_command *command, const nx_options *options)
{
    (void)printf("    %s)\n        options='", command->name);
    for (size_t i = 0; i < options->n; i++) {
        (void)printf("--%s ", options->table[i].name);
    }
    (void)printf("--help'\n        case $prev in\n");
    for (size_t i = 0; i < options->n; i++) {
        if (options->table[i].value != NULL) {
            bash_value(&options->table[i]);
        }
    }
    (void)printf("        esac\n");
    if (options->rest != NULL) {
        (void)printf("        for ((i = 2; i < COMP_CWORD; i++)); do\n"
                     "            case ${COMP_WORDS[i]} in\n            ");
        for (size_t i = 0; i < options->n; i++) {
            const nx_option *o = &options->table[i];

            if ((o->value != NULL) && (o->letter != '\0')) {
                (void)printf("-%c | ", o->letter);
            }
            if (o->value != NULL) {
                (void)printf("--%s | ", o->name);
            }
        }
        (void)printf("=)\n"
                     "                i=$((i + 1))\n"
                     "                if [ \"${COMP_WORDS[i]}\" = = ]; then i=$((i + 1)); fi\n"
                     "                ;;\n"
                     "            --) program=yes ;;\n"
                     "            -*) ;;\n"
                     "            *) program=yes; break ;;\n"
                     "            esac\n"
                     "        done\n"
                     "        if [ $program = no ] && [ -z \"$values\" ] && [ \"${cur#-}\" = "
                     "\"$cur\" ]; then\n"
                     "            COMPREPLY=($(compgen -c -- \"$cur\"))\n"
                     "        fi\n");
    }
    (void)printf("        ;;\n");
}

static void bash_end(void)
{
    (void)printf("    help) options='");
    for (size_t i = 0; i < nx_ncommands; i++) {
        (void)printf("%s%s", (i == 0) ? "" : " ", nx_commands[i].name);
    }
    (void)printf("' ;;\n"
                 "    esac\n"
                 "    case $program$values in\n"
                 "    yes* | noFILE) compopt -o default ;;\n"
                 "    no-) ;;\n"
                 "    no)\n"
                 "        case ${COMP_WORDS[1]}$cur in\n"
                 "        help* | *-*) COMPREPLY=($(compgen -W \"$options\" -- \"$cur\")) ;;\n"
                 "        *) compopt -o default ;;\n"
                 "        esac\n"
                 "        ;;\n"
                 "    *) COMPREPLY=($(compgen -W \"$values\" -- \"$cur\")) ;;\n"
                 "    esac\n"
                 "}\n"
                 "complete -F _nexar nexar\n");
}

/* ---- zsh ----------------------------------------------------------------------------- */

static void zsh_text(const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '\'') {
            (void)printf("'\\''");
        } else {
            char one[2] = {*text, '\0'};

            escape(one, "[]:\\", "\\");
        }
    }
}

static void zsh_begin(void)
{
    (void)printf("#compdef nexar\n"
                 "# zsh completion of nexar, made by `nexar completion zsh`\n"
                 "_nexar() {\n"
                 "    local -a commands\n"
                 "    commands=(\n");
    for (size_t i = 0; i < nx_ncommands; i++) {
        (void)printf("        '%s:", nx_commands[i].name);
        zsh_text(nx_commands[i].help);
        (void)printf("'\n");
    }
    (void)printf("        'help:what a command does and which options it takes'\n"
                 "    )\n"
                 "    if (( CURRENT == 2 )); then\n"
                 "        _describe command commands\n"
                 "        return\n"
                 "    fi\n"
                 "    shift words\n"
                 "    (( CURRENT-- ))\n"
                 "    case $words[1] in\n"
                 "    help) _describe command commands ;;\n");
}

static void zsh_option(const nx_option *o)
{
    const char *equals = (o->value == NULL) ? "" : "=";

    if (o->letter != '\0') {
        (void)printf("            '(-%c --%s)'{-%c%s,--%s%s}'[", o->letter, o->name, o->letter,
                     (o->value == NULL) ? "" : "+", o->name, equals);
    } else {
        (void)printf("            '%s--%s%s[", (o->kind == NX_OPTION_WORDS) ? "*" : "", o->name,
                     equals);
    }
    zsh_text(o->help);
    (void)printf("]");
    if (o->value != NULL) {
        (void)printf(":");
        zsh_text(o->value);
        (void)printf(":");
        if (takes_word(o)) {
            (void)printf("(");
            print_words(o->value);
            (void)printf(")");
        } else if (takes_file(o)) {
            (void)printf("_files");
        }
    }
    (void)printf("' \\\n");
}

static void zsh_command(const nx_command *command, const nx_options *options)
{
    (void)printf("    %s)\n        _arguments : \\\n", command->name);
    for (size_t i = 0; i < options->n; i++) {
        zsh_option(&options->table[i]);
    }
    (void)printf("            '--help[print this]'%s\n        ;;\n",
                 (options->rest != NULL) ? " '*::program:_normal'" : " '*:argument:_files'");
}

static void zsh_end(void)
{
    (void)printf(
        "    esac\n"
        "}\n"
        "if [ \"$funcstack[1]\" = _nexar ]; then _nexar \"$@\"; else compdef _nexar nexar; fi\n");
}

/* ---- fish ---------------------------------------------------------------------------- */

static void fish_begin(void)
{
    (void)printf("# fish completion of nexar, made by `nexar completion fish`\n"
                 "complete -c nexar -n __fish_use_subcommand -f\n");
    for (size_t i = 0; i < nx_ncommands; i++) {
        (void)printf("complete -c nexar -n __fish_use_subcommand -a %s -d '", nx_commands[i].name);
        escape(nx_commands[i].help, "'\\", "\\");
        (void)printf("'\n");
    }
}

static void fish_option(const nx_command *command, const nx_option *o)
{
    (void)printf("complete -c nexar -n '__fish_seen_subcommand_from %s' -l %s", command->name,
                 o->name);
    if (o->letter != '\0') {
        (void)printf(" -s %c", o->letter);
    }
    if (takes_word(o)) {
        (void)printf(" -x -a '");
        print_words(o->value);
        (void)printf("'");
    } else if (o->value != NULL) {
        (void)printf("%s", takes_file(o) ? " -r -F" : " -x");
    }
    (void)printf(" -d '");
    escape(o->help, "'\\", "\\");
    (void)printf("'\n");
}

static void fish_command(const nx_command *command, const nx_options *options)
{
    for (size_t i = 0; i < options->n; i++) {
        fish_option(command, &options->table[i]);
    }
}

static void fish_end(void)
{
    (void)printf("complete -c nexar -n '__fish_seen_subcommand_from help' -f -a '");
    for (size_t i = 0; i < nx_ncommands; i++) {
        (void)printf("%s%s", (i == 0) ? "" : " ", nx_commands[i].name);
    }
    (void)printf("'\n");
}

/* ---- the command --------------------------------------------------------------------- */

static const shell shells[] = {
    {"bash", bash_begin, bash_command, bash_end},
    {"zsh", zsh_begin, zsh_command, zsh_end},
    {"fish", fish_begin, fish_command, fish_end},
};

typedef struct listing {
    const shell *to;
    const nx_command *command;
} listing;

static void on_options(void *ctx, const nx_options *options)
{
    const listing *l = ctx;

    l->to->command(l->command, options);
}

static void print_all(const shell *to)
{
    to->begin();
    for (size_t i = 0; i < nx_ncommands; i++) {
        listing l = {.to = to, .command = &nx_commands[i]};
        char name[32];
        char *argv[] = {name, NULL};

        (void)snprintf(name, sizeof(name), "%s", nx_commands[i].name);
        nx_options_show(on_options, &l);
        (void)nx_commands[i].run(1, argv);
    }
    nx_options_show(NULL, NULL);
    to->end();
}

int nx_cmd_completion(int argc, char **argv)
{
    const char *name[1];
    int code = NX_EXIT_OK;
    const nx_options options = {
        .command = "completion",
        .operands = "bash|zsh|fish",
        .max_operands = 1,
        .help = "Prints a script that completes commands and options of nexar in that shell.\n"
                "`make install` puts it where the shell looks for it.",
        .notes = "example:\n  eval \"$(nexar completion bash)\"",
    };

    if (!nx_options_parse(&options, argc, argv, name, &code)) {
        return code;
    }
    for (size_t i = 0; (name[0] != NULL) && (i < sizeof(shells) / sizeof(shells[0])); i++) {
        if (strcmp(shells[i].name, name[0]) == 0) {
            print_all(&shells[i]);
            return NX_EXIT_OK;
        }
    }
    return (name[0] == NULL)
               ? nx_usage("completion", "of which shell? give bash, zsh or fish")
               : nx_usage("completion", "no script for %s; accepted: bash, zsh, fish", name[0]);
}
