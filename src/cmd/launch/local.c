/* local.c - a world on this machine: a seed of its own, and local processes as ranks. */
#include "cmd/launch/local.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <nexar.h>

#include "base/log.h"
#include "base/sys.h"
#include "cluster/seed/seed.h"
#include "cmd/cmd.h"
#include "cmd/join_file.h"
#include "cmd/launch/front.h"
#include "cmd/launch/ranks.h"
#include "core/config/config.h"
#include "core/seed_config.h"

/* In the seed's thread: the line goes to the one that prints.  Nobody waits: what a full pipe does
 * not take is dropped. */
static void on_event(void *ctx, const nx_seed_event *event)
{
    const int *notes = ctx;
    char line[NX_LOG_ROOM];

    if ((event->kind == NX_SEED_REFUSED) || (event->kind == NX_SEED_TIMEOUT)) {
        const int len = snprintf(line, sizeof(line), "%.*s\n", NX_LOG_ROOM - 2, event->text);

        (void)nx_sys_write(*notes, line, (size_t)len);
    }
}

/* A seed on loopback for |n| ranks; what they join with in |join|.  What is to be
 * said goes to |*notes|. */
static nexar_err start_seed(uint64_t n, int *notes, nx_seed **seed, char *join, size_t size)
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
        /* Ranks are here; a fixed port of theirs is not the seed's to take, nor is the
         * state of another seed. */
        sc.state = NULL;
        sc.ranked = true;
        sc.listen = "127.0.0.1";
        sc.interfaces = "";
        sc.advertise = "";
        sc.port_first = 0;
        sc.port_last = 0;
        sc.on_event = on_event;
        sc.ctx = notes;
        err = nx_seed_create(seed, &sc);
    }
    if (err == NEXAR_OK) {
        err = nx_seed_join_text(*seed, join, size);
    }
    nexar_config_free(cfg);
    return err;
}

static int finish(const nx_local *job, const nx_ranks_result *result)
{
    char text[128];

    if (result->rank >= 0) {
        return result->code;
    }
    if (result->ended_by != 0) {
        return 128 + result->ended_by;
    }
    if (result->output_lost == EPIPE) {
        return 128 + SIGPIPE; /* as any program that writes to nobody */
    }
    if (result->output_lost != 0) {
        (void)fprintf(stderr, "nexar %s: cannot write the output: %s; ended the ranks\n",
                      job->command, strerror_r(result->output_lost, text, sizeof(text)));
        return NX_EXIT_FAILURE;
    }
    return NX_EXIT_OK;
}

static int keep(void *ctx, const nx_front_ends *ends)
{
    const nx_local *j = ctx;
    char join[NX_JOIN_STRING_MAX];
    int notes[2] = {-1, -1};
    nx_seed *seed = NULL;
    nexar_err err = (nx_sys_pipe(notes, O_NONBLOCK) == 0)
                        ? start_seed(j->n, &notes[1], &seed, join, sizeof(join))
                        : nx_fail_sys("pipe2", "", errno);
    const nx_ranks_config config = {
        .command = j->command,
        .n = (uint32_t)j->n,
        .argv = j->argv,
        .join = join,
        .prefix = j->prefix,
        .colour_out = isatty(STDOUT_FILENO) != 0,
        .colour_err = isatty(STDERR_FILENO) != 0,
        .grace_ns = j->grace_ns,
        .elastic = j->elastic,
        .input = ends->input,
        .life = ends->life,
        .notes = notes[0],
    };
    nx_ranks_result result;
    int code;

    if ((err == NEXAR_OK) && (j->join_file != NULL)) {
        err = nx_join_file_write(j->join_file, join);
    }
    if (err == NEXAR_OK) {
        err = nx_ranks_run(&config, &result);
    }
    code = (err == NEXAR_OK) ? finish(j, &result) : nx_cmd_error(j->command, err);
    nx_seed_destroy(seed);
    (void)nx_sys_close(notes[0]);
    (void)nx_sys_close(notes[1]);
    return code;
}

int nx_local_run(nx_local *job)
{
    return nx_front_run(keep, job);
}
