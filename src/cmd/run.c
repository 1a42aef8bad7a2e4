/* run.c - `nexar run`: local ranks, one command. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "cmd/launch/hosts/agent.h"
#include "cmd/launch/hosts/run_hosts.h"
#include "cmd/launch/local.h"
#include "cmd/options.h"

enum { LOCAL_RANKS = 4096 };

/* The command line, before it is checked. */
typedef struct request {
    nx_local local;
    nx_words env;
    nx_run_hosts hosts;
    const char *bind;
    bool no_prefix, no_pty;
} request;

static const char example[] = "such as: nexar run -n 4 ./hello";

/* ---- checks: each prints one line and returns NX_EXIT_USAGE, or returns NX_EXIT_OK --- */

/* Options after the program belong to the program: the most likely mistake if -n is missing. */
static int refuse_no_ranks(char **program)
{
    for (char **at = program; *at != NULL; at++) {
        if ((strncmp(*at, "-n", 2) == 0) || (strncmp(*at, "--ranks", 7) == 0)) {
            return nx_usage("run",
                            "how many ranks? options of nexar run precede the program: nexar run "
                            "-n N %s",
                            program[0]);
        }
    }
    return nx_usage("run", "how many ranks? give -n N, %s", example);
}

/* The entry "NAME=VALUE" of the environment; NULL: not set. */
static const char *entry_of(const char *name)
{
    const size_t len = strlen(name);

    for (char **at = environ; (at != NULL) && (*at != NULL); at++) {
        if ((strncmp(*at, name, len) == 0) && ((*at)[len] == '=')) {
            return *at;
        }
    }
    return NULL;
}

static int check_env(nx_words *env)
{
    for (size_t i = 0; i < env->n; i++) {
        const char *word = env->at[i];

        if ((word[0] == '\0') || (word[0] == '=')) {
            return nx_usage("run", "--env %s: not accepted; give NAME or NAME=VALUE", word);
        }
        if (strchr(word, '=') == NULL) {
            env->at[i] = entry_of(word);
            if (env->at[i] == NULL) {
                return nx_usage("run", "--env %s: not set here; give %s=VALUE", word, word);
            }
        }
    }
    return NX_EXIT_OK;
}

static int check_bind(request *r)
{
    if ((r->bind == NULL) || (strcmp(r->bind, "none") == 0)) {
        return NX_EXIT_OK;
    }
    if (strcmp(r->bind, "core") == 0) {
        r->local.bind = true;
        return NX_EXIT_OK;
    }
    return nx_usage("run", "--bind %s: not accepted; give core or none", r->bind);
}

/*
 * NEXAR_JOIN, set by the user, names the cluster to join. If this process is itself a rank, a new
 * world is meant.
 */
static int check_join(request *r)
{
    const char *join = getenv("NEXAR_JOIN"); // NOLINT(concurrency-mt-unsafe): no other thread
    const char *rank = getenv("NEXAR_RANK"); // NOLINT(concurrency-mt-unsafe)

    if ((join == NULL) || (strcmp(join, "none") == 0) || (entry_of("NEXAR_LOCAL_RANK") != NULL)) {
        return NX_EXIT_OK;
    }
    if (join[0] == '\0') {
        return nx_usage("run", "NEXAR_JOIN is set and empty; unset it, or give a join string");
    }
    if ((rank != NULL) && (strcmp(rank, "auto") != 0)) {
        return nx_usage("run",
                        "NEXAR_RANK is %s, but the processes join the cluster of NEXAR_JOIN, which "
                        "gives them their ranks; unset NEXAR_RANK",
                        rank);
    }
    if (r->local.join_file != NULL) {
        return nx_usage("run",
                        "--join-file %s: the processes join the cluster of NEXAR_JOIN; its seed "
                        "writes the file",
                        r->local.join_file);
    }
    r->local.joins = true;
    return NX_EXIT_OK;
}

static int start(request *r, int argc, char **argv, int rest)
{
    nx_local *j = &r->local;
    const bool far = nx_run_hosts_wanted(&r->hosts);
    int code;

    if (rest >= argc) {
        return ((j->n == 0) && !far) ? nx_usage("run", "how many ranks? give -n N, %s", example)
                                     : nx_usage("run", "no program given, %s", example);
    }
    if ((j->n == 0) && !far) {
        return refuse_no_ranks(argv + rest);
    }
    if ((j->n > LOCAL_RANKS) && !far) {
        return nx_usage("run", "-n %llu: one machine gets at most %d ranks",
                        (unsigned long long)j->n, LOCAL_RANKS);
    }
    code = check_env(&r->env);
    code = (code == NX_EXIT_OK) ? check_bind(r) : code;
    code = (code == NX_EXIT_OK) ? check_join(r) : code;
    if (code != NX_EXIT_OK) {
        return code;
    }
    j->prefix = !r->no_prefix;
    j->pty = !r->no_pty;
    j->env = &r->env;
    j->argv = argv + rest;
    return far ? nx_run_hosts_run(&r->hosts, j) : nx_local_run(j);
}

int nx_cmd_run(int argc, char **argv)
{
    request r = {.local = {.command = "run", .grace_ns = UINT64_C(5000000000)},
                 .hosts = {.timeout_ns = NX_HOST_TIMEOUT}};
    nx_run_hosts *h = &r.hosts;
    nx_local *j = &r.local;
    int rest = argc, code = NX_EXIT_OK;
    const nx_option table[] = {
        {"ranks", NX_OPTION_UINT, &j->n, "N", "how many ranks to start", 1, NX_HOST_RANKS_MAX, 'n'},
        {"hosts", NX_OPTION_TEXT, &h->list, "LIST",
         "start them on these hosts, by ssh: node1:4,node2:4", 0, 0, 0},
        {"hostfile", NX_OPTION_TEXT, &h->file, "FILE", "the same, from the lines of a file", 0, 0,
         0},
        {"ssh", NX_OPTION_TEXT, &h->ssh, "COMMAND",
         "the command that reaches a host (default: ssh)", 0, 0, 0},
        {"remote-nexar", NX_OPTION_TEXT, &h->nexar, "PATH",
         "nexar on the hosts (default: the path here, or what PATH has)", 0, 0, 0},
        {"host-timeout", NX_OPTION_DURATION, &h->timeout_ns, "TIME",
         "a host that is silent for this time is lost", NX_HOST_TIMEOUT_MIN, NX_HOST_TIMEOUT_MAX,
         0},
        {"env", NX_OPTION_WORDS, &r.env, "NAME[=VALUE]",
         "set a variable for the ranks; may be given again", 0, 0, 0},
        {"cwd", NX_OPTION_TEXT, &j->cwd, "DIR", "the directory in which the ranks start", 0, 0, 0},
        {"bind", NX_OPTION_TEXT, &r.bind, "core|none",
         "core: each rank runs on one core; none: on all (default)", 0, 0, 0},
        {"no-prefix", NX_OPTION_FLAG, &r.no_prefix, NULL,
         "pass output on as it is: no rank before it, lines over 1 MiB not cut", 0, 0, 0},
        {"no-pty", NX_OPTION_FLAG, &r.no_pty, NULL,
         "the stdout of a rank is a pipe: most programs print after 4 KiB", 0, 0, 0},
        {"grace", NX_OPTION_DURATION, &j->grace_ns, "TIME",
         "time for ranks to end before they are killed", 0, 0, 0},
        {"elastic", NX_OPTION_FLAG, &j->elastic, NULL,
         "a rank that fails does not end the others: they may continue without it", 0, 0, 0},
        {"join-file", NX_OPTION_TEXT, &j->join_file, "FILE",
         "write the join string there, for processes of any host (NEXAR_JOIN)", 0, 0, 0},
    };
    const nx_options options = {
        .command = "run",
        .operands = "PROGRAM [ARGUMENT]...",
        .help = "Starts N processes, on this machine or on --hosts, as the ranks of one world,\n"
                "with a seed of their own; with NEXAR_JOIN set they join that cluster instead.\n"
                "Prints their output line by line with the rank before it, gives standard input\n"
                "to rank 0, passes signals on.  When a rank fails the others are ended, and its "
                "code is\n"
                "returned (128 + the signal that killed it); with --elastic that of the first\n"
                "that failed if none has ended well.",
        .table = table,
        .n = sizeof(table) / sizeof(table[0]),
        .notes = "Inside an allocation of Slurm hosts and number come from it, and srun starts the "
                 "ranks.\n\n"
                 "examples:\n  nexar run -n 4 ./hello\n"
                 "  nexar run --hosts node1:4,node2:4 ./hello",
        .rest = &rest,
    };

    if ((argc == 2) && (strcmp(argv[1], "--agent") == 0)) {
        return nx_agent_run(); /* set by another nexar run, not by users */
    }
    if (!nx_options_parse(&options, argc, argv, NULL, &code)) {
        return code;
    }
    return start(&r, argc, argv, rest);
}
