/* run.c - `nexar run`: a seed and local ranks, one command. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <nexar.h>

#include "cluster/seed.h"
#include "cmd/cmd.h"
#include "cmd/options.h"
#include "cmd/ranks.h"
#include "core/config.h"
#include "core/seed_config.h"

static void on_failure(const nx_ranks_result *result)
{
    if (result->code > 128) {
        (void)fprintf(stderr,
                      "nexar run: rank %lld (pid %lld) was killed by signal %d (%s); ending the "
                      "others\n",
                      (long long)result->rank, (long long)result->pid, result->code - 128,
                      strsignal(result->code - 128)); // NOLINT(concurrency-mt-unsafe)
    } else {
        (void)fprintf(stderr,
                      "nexar run: rank %lld (pid %lld) exited with code %d; ending the others\n",
                      (long long)result->rank, (long long)result->pid, result->code);
    }
}

static void on_event(void *ctx, const nx_seed_event *event)
{
    (void)ctx;
    if ((event->kind == NX_SEED_REFUSED) || (event->kind == NX_SEED_TIMEOUT)) {
        (void)fprintf(stderr, "nexar run: %s\n", event->text);
    }
}

/* A seed on loopback for |n| ranks; what they join with in |join|. */
static nexar_err start_seed(uint64_t n, nx_seed **seed, char *join, size_t size)
{
    nexar_config *cfg = NULL;
    nx_seed_config sc;
    char number[32];
    nexar_err err = nexar_config_create(&cfg);

    (void)snprintf(number, sizeof(number), "%llu", (unsigned long long)n);
    if (err == NEXAR_OK) {
        err = nexar_config_set(cfg, "world_size", number);
    }
    if (err == NEXAR_OK) {
        err = nx_config_apply(cfg);
    }
    if (err == NEXAR_OK) {
        err = nx_seed_config_from(cfg, &sc);
    }
    if (err == NEXAR_OK) {
        /* Ranks are here; a fixed port of theirs is not the seed's to take. */
        sc.listen = "127.0.0.1";
        sc.interfaces = "";
        sc.advertise = "";
        sc.port_first = 0;
        sc.port_last = 0;
        sc.on_event = on_event;
        err = nx_seed_create(seed, &sc);
    }
    if (err == NEXAR_OK) {
        err = nx_seed_join_text(*seed, join, size);
    }
    nexar_config_free(cfg);
    return err;
}

static int finish(const nx_ranks_result *result)
{
    if (result->rank >= 0) {
        return result->code;
    }
    if (result->ended_by != 0) {
        return 128 + result->ended_by;
    }
    if (result->output_lost) {
        (void)fprintf(stderr, "nexar run: the output could not be written; ended the ranks\n");
        return NX_EXIT_FAILURE;
    }
    return NX_EXIT_OK;
}

static int run(uint64_t n, bool prefix, uint64_t grace_ns, char **argv)
{
    char join[NX_JOIN_STRING_MAX];
    nx_seed *seed = NULL;
    nexar_err err = start_seed(n, &seed, join, sizeof(join));
    const nx_ranks_config config = {
        .n = (uint32_t)n,
        .argv = argv,
        .join = join,
        .prefix = prefix,
        .colour_out = isatty(STDOUT_FILENO) != 0,
        .colour_err = isatty(STDERR_FILENO) != 0,
        .grace_ns = grace_ns,
    };
    nx_ranks_result result;
    int code;

    if (err == NEXAR_OK) {
        err = nx_ranks_run(&config, on_failure, &result);
    }
    code = (err == NEXAR_OK) ? finish(&result) : nx_cmd_error("run", err);
    if (seed != NULL) {
        nx_seed_destroy(seed);
    }
    return code;
}

int nx_cmd_run(int argc, char **argv)
{
    uint64_t ranks = 0, grace_ns = UINT64_C(5000000000);
    bool no_prefix = false;
    int rest = argc, code = NX_EXIT_OK;
    const nx_option table[] = {
        {"ranks", NX_OPTION_UINT, &ranks, "N", "how many ranks to start (required)", 1, 4096, 'n'},
        {"no-prefix", NX_OPTION_FLAG, &no_prefix, NULL, "pass output on without the rank before it",
         0, 0, 0},
        {"grace", NX_OPTION_DURATION, &grace_ns, "TIME",
         "what ranks get to end in before they are killed", 0, 0, 0},
    };
    const nx_options options = {
        .command = "run",
        .operands = "PROGRAM [ARGUMENT]...",
        .help = "Starts N processes on this machine as the ranks of one world: a seed of their\n"
                "own, output line by line with the rank before it, standard input to rank 0,\n"
                "signals passed on.  When a rank fails the others are ended, and its code is\n"
                "returned (128 + the signal that killed it).",
        .table = table,
        .n = sizeof(table) / sizeof(table[0]),
        .notes = "example:\n  nexar run -n 4 ./hello\n",
        .rest = &rest,
    };

    if (!nx_options_parse(&options, argc, argv, NULL, &code)) {
        return code;
    }
    if (ranks == 0) {
        return nx_usage("run", "how many ranks? give -n N, such as: nexar run -n 4 ./hello");
    }
    if (rest >= argc) {
        return nx_usage("run", "no program given, such as: nexar run -n 4 ./hello");
    }
    return run(ranks, !no_prefix, grace_ns, argv + rest);
}
