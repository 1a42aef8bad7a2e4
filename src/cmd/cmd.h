/*
 * cmd.h - the frame of the `nexar` command.
 *
 * A subcommand is one function and one row in the table of main.c. It gets argv[0] = its own
 * name, parses the rest with nx_options_parse (options.h), writes its result to stdout, and
 * returns an exit code. main.c handles help, version, unknown commands, and write errors of
 * stdout.
 */
#ifndef NX_CMD_H
#define NX_CMD_H

#include <stddef.h>

enum {
    NX_EXIT_OK = 0,
    NX_EXIT_FAILURE = 1, /* a valid request failed */
    NX_EXIT_USAGE = 2    /* a bad command, option or setting */
};

typedef struct nx_command {
    const char *name;
    const char *help; /* one line */
    int (*run)(int argc, char **argv);
} nx_command;

extern const nx_command nx_commands[]; /* main.c */
extern const size_t nx_ncommands;

int nx_cmd_bench(int argc, char **argv);
int nx_cmd_completion(int argc, char **argv);
int nx_cmd_info(int argc, char **argv);
int nx_cmd_ping(int argc, char **argv);
int nx_cmd_plan(int argc, char **argv);
int nx_cmd_run(int argc, char **argv);
int nx_cmd_seed(int argc, char **argv);

/*
 * Prints one line to stderr, "nexar COMMAND: ...", and returns NX_EXIT_USAGE: `return
 * nx_usage("plan", "no collective \"%s\"; accepted: ...", name);`. The message names what is
 * wrong and what would be accepted.
 */
int nx_usage(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Prints nexar_last_error() in the same way. Returns NX_EXIT_USAGE for NEXAR_EINVAL,
 * NX_EXIT_FAILURE for everything else. */
int nx_cmd_error(const char *command, int err);

#endif /* NX_CMD_H */
