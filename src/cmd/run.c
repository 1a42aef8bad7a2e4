/* run.c - `nexar run`: a seed and local ranks, one command. */
#include "cmd/cmd.h"
#include "cmd/launch/local.h"
#include "cmd/options.h"

int nx_cmd_run(int argc, char **argv)
{
    nx_local j = {.command = "run", .grace_ns = UINT64_C(5000000000)};
    bool no_prefix = false, no_pty = false;
    int rest = argc, code = NX_EXIT_OK;
    const nx_option table[] = {
        {"ranks", NX_OPTION_UINT, &j.n, "N", "how many ranks to start (required)", 1, 4096, 'n'},
        {"no-prefix", NX_OPTION_FLAG, &no_prefix, NULL,
         "pass output on as it is: no rank before it, lines over 1 MiB not cut", 0, 0, 0},
        {"no-pty", NX_OPTION_FLAG, &no_pty, NULL,
         "give ranks a pipe as stdout: programs print when 4 KiB have come together", 0, 0, 0},
        {"grace", NX_OPTION_DURATION, &j.grace_ns, "TIME",
         "what ranks get to end in before they are killed", 0, 0, 0},
        {"elastic", NX_OPTION_FLAG, &j.elastic, NULL,
         "a rank that fails does not end the others: they may go on without it", 0, 0, 0},
        {"join-file", NX_OPTION_TEXT, &j.join_file, "FILE",
         "write there what others join with later (NEXAR_JOIN)", 0, 0, 0},
    };
    const nx_options options = {
        .command = "run",
        .operands = "PROGRAM [ARGUMENT]...",
        .help = "Starts N processes on this machine as the ranks of one world: a seed of their\n"
                "own, output line by line with the rank before it, standard input to rank 0,\n"
                "signals passed on.  When a rank fails the others are ended, and its code is\n"
                "returned (128 + the signal that killed it); with --elastic that of the first\n"
                "that failed if none has ended well.",
        .table = table,
        .n = sizeof(table) / sizeof(table[0]),
        .notes = "example:\n  nexar run -n 4 ./hello",
        .rest = &rest,
    };

    if (!nx_options_parse(&options, argc, argv, NULL, &code)) {
        return code;
    }
    if (j.n == 0) {
        return nx_usage("run", "how many ranks? give -n N, such as: nexar run -n 4 ./hello");
    }
    if (rest >= argc) {
        return nx_usage("run", "no program given, such as: nexar run -n 4 ./hello");
    }
    j.prefix = !no_prefix;
    j.pty = !no_pty;
    j.argv = argv + rest;
    return nx_local_run(&j);
}
