/* main.c - `nexar`: finds the subcommand and runs it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <nexar.h>

#include "base/os/sys.h"
#include "base/text/suggest.h"
#include "base/text/text.h"
#include "cmd/cmd.h"

/* A new subcommand needs its file and one row here. */
const nx_command nx_commands[] = {
    {"run", "start a program as the ranks of a world on this machine", nx_cmd_run},
    {"seed", "run the seed that ranks on many machines join", nx_cmd_seed},
    {"info", "what this build and this machine offer, and every setting", nx_cmd_info},
    {"ping", "measure latency and bandwidth between two ranks", nx_cmd_ping},
    {"bench", "measure collectives and messages: a table, JSON, a report", nx_cmd_bench},
    {"plan", "what each algorithm would cost on a network, and which is taken", nx_cmd_plan},
    {"completion", "print a script that completes commands and options in a shell",
     nx_cmd_completion},
};

const size_t nx_ncommands = sizeof(nx_commands) / sizeof(nx_commands[0]);

static const nx_command *find(const char *name)
{
    for (size_t i = 0; i < nx_ncommands; i++) {
        if (strcmp(nx_commands[i].name, name) == 0) {
            return &nx_commands[i];
        }
    }
    return NULL;
}

static int unknown(const char *name)
{
    nx_suggest near = nx_suggest_start(name);
    nx_text text = {0};
    int code;

    for (size_t i = 0; i < nx_ncommands; i++) {
        nx_suggest_try(&near, nx_commands[i].name);
        nx_text_addf(&text, "%s, ", nx_commands[i].name);
    }
    nx_suggest_try(&near, "help");
    nx_suggest_try(&near, "--help");
    nx_suggest_try(&near, "--version");
    nx_text_addf(&text, "help, --help, --version");
    code = nx_usage("", "unknown %s %s%s%s%s accepted: %s", (name[0] == '-') ? "option" : "command",
                    name, (near.best == NULL) ? ";" : ", did you mean ",
                    (near.best == NULL) ? "" : near.best, (near.best == NULL) ? "" : "?",
                    (nx_text_str(&text) == NULL) ? "help" : nx_text_str(&text));
    nx_text_fini(&text);
    return code;
}

static void print_help(void)
{
    (void)printf("usage: nexar COMMAND [OPTION]...\n"
                 "       nexar help COMMAND\n"
                 "       nexar --help | --version\n\n"
                 "A distributed runtime: messages, collectives and remote calls.\n\ncommands:\n");
    for (size_t i = 0; i < nx_ncommands; i++) {
        (void)printf("  %-10s %s\n", nx_commands[i].name, nx_commands[i].help);
    }
    (void)printf("  %-10s %s\n\n", "help", "what a command does and which options it takes");
    (void)printf("Exit status: 0 done, 1 it did not work, 2 a bad command, option or setting.\n");
}

static bool is_help(const char *arg)
{
    return (strcmp(arg, "--help") == 0) || (strcmp(arg, "-h") == 0);
}

static int help(int argc, char **argv)
{
    char option[] = "--help";
    char *args[] = {NULL, option, NULL};
    const nx_command *command;

    if ((argc < 2) || is_help(argv[1]) || ((argc == 2) && (strcmp(argv[1], "help") == 0))) {
        print_help();
        return NX_EXIT_OK;
    }
    if (argc > 2) {
        return nx_usage("help", "unexpected argument %s; accepted: one command", argv[2]);
    }
    command = find(argv[1]);
    if (command == NULL) {
        return unknown(argv[1]);
    }
    args[0] = argv[1];
    return command->run(2, args);
}

static int run(int argc, char **argv)
{
    const nx_command *command;

    if (argc < 1) {
        return nx_usage("", "no command given; nexar --help lists them");
    }
    if (is_help(argv[0])) {
        print_help();
        return NX_EXIT_OK;
    }
    if (strcmp(argv[0], "--version") == 0) {
        if (argc > 1) {
            return nx_usage("", "unexpected argument %s behind --version", argv[1]);
        }
        (void)printf("nexar %s\n", nexar_version());
        return NX_EXIT_OK;
    }
    if (strcmp(argv[0], "help") == 0) {
        return help(argc, argv);
    }
    command = find(argv[0]);
    return (command == NULL) ? unknown(argv[0]) : command->run(argc, argv);
}

int main(int argc, char **argv)
{
    int code;

    nx_sys_hold_standard();
    code = run(argc - 1, argv + 1);

    /* Output that cannot be written completely is a failure. */
    if ((fflush(stdout) != 0) || (ferror(stdout) != 0)) {
        char text[128];

        (void)nx_usage("", "cannot write the output: %s", strerror_r(errno, text, sizeof(text)));
        return (code == NX_EXIT_OK) ? NX_EXIT_FAILURE : code;
    }
    return code;
}
