/* local.c - a world on this machine: a seed of its own, and local processes as ranks. */
#include "cmd/launch/local.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <nexar.h>

#include "cluster/seed/seed.h"
#include "cmd/cmd.h"
#include "cmd/join_file.h"
#include "cmd/launch/front.h"
#include "cmd/launch/ranks.h"
#include "cmd/terminal.h"
#include "core/config/config.h"
#include "core/seed_config.h"

/* In the seed's thread: the line goes to the one that prints.  Nobody waits: what a full pipe does
 * not take is dropped. */
static void on_event(void *ctx, const nx_seed_event *event)
{
    const int *notes = ctx;

    if ((event->kind == NX_SEED_REFUSED) || (event->kind == NX_SEED_TIMEOUT)) {
        (void)dprintf(*notes, "%s\n", event->text);
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

static int finish(const nx_local *local, const nx_ranks_result *result)
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
                      local->command, strerror_r(result->output_lost, text, sizeof(text)));
        return NX_EXIT_FAILURE;
    }
    return NX_EXIT_OK;
}

/* ---- the ranks --------------------------------------------------------------------- */

enum { ENV_ROOM = 64, VARIABLES = 8 };

/* The job, and what the rank that is about to be started gets. */
typedef struct job {
    const nx_local *local;
    char join[NX_JOIN_STRING_MAX + ENV_ROOM];
    char numbers[VARIABLES + 3][ENV_ROOM];
    const char *env[VARIABLES + 3];
    size_t nenv;
    bool plain; /* stdout of the ranks is a terminal, and ours shows no colour */
} job;

static void set_number(job *j, const char *name, uint64_t value)
{
    char *entry = j->numbers[j->nenv]; /* as many as |env|, at most */

    (void)snprintf(entry, ENV_ROOM, "%s=%llu", name, (unsigned long long)value);
    j->env[j->nenv++] = entry;
}

static void describe(void *ctx, uint32_t rank, nx_spawn *s)
{
    job *j = ctx;

    j->nenv = 0;
    if (j->plain) {
        j->env[j->nenv++] = "NO_COLOR=1"; /* what a program would conclude from a pipe */
    }
    set_number(j, "NEXAR_RANK", rank);
    set_number(j, "NEXAR_WORLD_SIZE", j->local->n);
    set_number(j, "NEXAR_LOCAL_RANK", rank);
    set_number(j, "NEXAR_LOCAL_SIZE", j->local->n);
    j->env[j->nenv++] = j->join;
    j->env[j->nenv] = NULL;
    s->argv = j->local->argv;
    s->env = j->env;
}

static const nx_ranks_ops ops = {.describe = describe};

static int keep(void *ctx, const nx_front_ends *ends)
{
    const nx_local *l = ctx;
    static const char variable[] = "NEXAR_JOIN=";
    job j = {.local = l};
    char *join = j.join + sizeof(variable) - 1;
    int notes[2] = {-1, -1};
    nx_seed *seed = NULL;
    nexar_err err = (pipe2(notes, O_CLOEXEC | O_NONBLOCK) == 0)
                        ? start_seed(l->n, &notes[1], &seed, join, NX_JOIN_STRING_MAX)
                        : nx_fail_sys("pipe2", "", errno);
    const nx_ranks_config config = {
        .command = l->command,
        .noun = "rank",
        .n = (uint32_t)l->n,
        .output = !l->prefix ? NX_SPAWN_INHERIT
                  : l->pty   ? NX_SPAWN_PTY
                             : NX_SPAWN_PIPES,
        .colour_out = nx_terminal_colour(STDOUT_FILENO),
        .colour_err = nx_terminal_colour(STDERR_FILENO),
        .grace_ns = l->grace_ns,
        .elastic = l->elastic,
        .input = ends->input,
        .life = ends->life,
        .notes = notes[0],
        .news = -1,
        .ops = &ops,
        .ctx = &j,
    };
    nx_ranks_result result;
    int code;

    j.plain = (config.output == NX_SPAWN_PTY) && !config.colour_out;
    memcpy(j.join, variable, sizeof(variable) - 1);
    if ((err == NEXAR_OK) && (l->join_file != NULL)) {
        err = nx_join_file_write(l->join_file, join);
    }
    if (err == NEXAR_OK) {
        err = nx_ranks_run(&config, &result);
    }
    code = (err == NEXAR_OK) ? finish(l, &result) : nx_cmd_error(l->command, err);
    nx_seed_destroy(seed);
    (void)close(notes[0]);
    (void)close(notes[1]);
    return code;
}

int nx_local_run(nx_local *local)
{
    return nx_front_run(keep, local);
}
