/* local.c - local processes as ranks: their seed, and the environment of each. */
#include "cmd/launch/local.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <nexar.h>

#include "base/os/sys.h"
#include "cluster/seed/seed.h"
#include "cmd/cmd.h"
#include "cmd/join_file.h"
#include "cmd/launch/front.h"
#include "cmd/launch/ranks/bind.h"
#include "cmd/launch/ranks/formation.h"
#include "cmd/launch/ranks/ranks.h"
#include "cmd/print/terminal.h"
#include "core/config/config.h"
#include "core/world/seed_config.h"

enum { NUMBER_ROOM = 64, NUMBERS = 4, PLAIN = 2 };

/* The job in the keeper, and the parameters of the next rank. */
typedef struct local_job {
    const nx_local *local;
    nx_formation formation; /* if there is a seed */
    nx_seed *seed;          /* NULL: the ranks join another seed */
    nx_bind cores;          /* if they are bound */
    int cwd;                /* -1: the current directory */
    bool plain;             /* stdout of the ranks is a terminal, but stdout here shows no colour */
    char join[sizeof("NEXAR_JOIN=") + NX_JOIN_STRING_MAX];
    char numbers[NUMBERS][NUMBER_ROOM];
    const char *env[NX_WORDS_MAX + NUMBERS + PLAIN + 2];
} local_job;

/* ---- the seed ------------------------------------------------------------------------ */

/* Without a join file only ranks of this host join, so the seed listens on the loopback only. */
static void open_to_others(const nx_local *local, nx_seed_config *sc)
{
    if (local->join_file == NULL) {
        sc->listen = "127.0.0.1";
        sc->interfaces = "";
        sc->advertise = "";
    }
    /* The seed must not take a fixed port from the ranks, nor the state of another seed. */
    sc->port_first = 0;
    sc->port_last = 0;
    sc->state = NULL;
}

static nexar_err create_seed(local_job *j, const nexar_config *cfg)
{
    nx_seed_config sc;
    nexar_err err = nx_seed_config_from(cfg, &sc);

    if (err != NEXAR_OK) {
        return err;
    }
    open_to_others(j->local, &sc);
    sc.ranked = true;
    sc.on_event = nx_formation_on_event;
    sc.ctx = &j->formation;
    return nx_seed_create(&j->seed, &sc);
}

/* Starts a seed for the ranks; |j->join| gets the join string. */
static nexar_err start_seed(local_job *j)
{
    nexar_config *cfg = NULL;
    char number[32];
    const size_t before = (size_t)snprintf(j->join, sizeof(j->join), "NEXAR_JOIN=");
    nexar_err err = nexar_config_create(&cfg);

    (void)snprintf(number, sizeof(number), "%llu", (unsigned long long)j->local->n);
    err = (err == NEXAR_OK) ? nexar_config_set(cfg, "world_size", number) : err;
    err = (err == NEXAR_OK) ? nx_config_apply(cfg) : err;
    err = (err == NEXAR_OK) ? create_seed(j, cfg) : err;
    if (err == NEXAR_OK) {
        err = nx_seed_join_text(j->seed, j->join + before, sizeof(j->join) - before);
    }
    if ((err == NEXAR_OK) && (j->local->join_file != NULL)) {
        err = nx_join_file_write(j->local->join_file, j->join + before);
    }
    nexar_config_free(cfg);
    return err;
}

/* ---- the ranks ----------------------------------------------------------------------- */

static const char *number(local_job *j, size_t i, const char *name, uint64_t value)
{
    (void)snprintf(j->numbers[i], NUMBER_ROOM, "%s=%llu", name, (unsigned long long)value);
    return j->numbers[i];
}

/* Variables from the user override derived values, but not the variables that define a rank. */
static void fill_env(local_job *j, uint32_t rank)
{
    const nx_local *l = j->local;
    size_t n = 0;

    if (j->plain) {
        j->env[n++] = "NO_COLOR=1"; /* programs derive this from a pipe themselves */
    }
    for (size_t i = 0; (l->env != NULL) && (i < l->env->n); i++) {
        j->env[n++] = l->env->at[i];
    }
    j->env[n++] = number(j, 0, "NEXAR_LOCAL_RANK", rank);
    j->env[n++] = number(j, 1, "NEXAR_LOCAL_SIZE", l->n);
    if (l->joins) {
        j->env[n++] = "NEXAR_RANK=auto"; /* a launcher has the same number for all */
    } else {
        j->env[n++] = number(j, 2, "NEXAR_RANK", rank);
        j->env[n++] = number(j, 3, "NEXAR_WORLD_SIZE", l->n);
        j->env[n++] = j->join;
    }
    j->env[n] = NULL;
}

static void describe(void *ctx, uint32_t rank, nx_spawn *s)
{
    local_job *j = ctx;

    fill_env(j, rank);
    s->argv = j->local->argv;
    s->env = j->env;
    s->cwd = j->cwd;
    s->cpus = j->local->bind ? nx_bind_core(&j->cores, rank) : NULL;
}

static nx_presence presence(void *ctx, uint32_t rank)
{
    local_job *j = ctx;

    return nx_formation_presence(&j->formation, rank);
}

static bool situation(void *ctx, char *text, size_t size)
{
    const local_job *j = ctx;

    return nx_seed_situation(j->seed, text, size);
}

static const nx_ranks_ops own_ops = {
    .describe = describe, .presence = presence, .situation = situation};
static const nx_ranks_ops joining_ops = {.describe = describe};

/* ---- start and end ------------------------------------------------------------------- */

static nexar_err open_cwd(local_job *j)
{
    if (j->local->cwd == NULL) {
        return NEXAR_OK;
    }
    j->cwd = nx_sys_open(j->local->cwd, O_PATH | O_DIRECTORY, 0);
    if (j->cwd < 0) {
        char text[128];

        return nx_fail(NEXAR_EINVAL, "--cwd %s: %s", j->local->cwd,
                       strerror_r(errno, text, sizeof(text)));
    }
    return NEXAR_OK;
}

static nexar_err bind_ranks(local_job *j)
{
    nexar_err err = j->local->bind ? nx_bind_init(&j->cores) : NEXAR_OK;

    if ((err == NEXAR_OK) && j->local->bind && (j->cores.n < j->local->n)) {
        (void)fprintf(stderr, "nexar %s: --bind core: %llu ranks share %u %s\n", j->local->command,
                      (unsigned long long)j->local->n, j->cores.n,
                      (j->cores.n == 1) ? "core" : "cores");
    }
    return err;
}

int nx_local_code(const char *command, const nx_ranks_result *result)
{
    char text[128];

    if (result->rank >= 0) {
        return result->code;
    }
    if (result->ended_by != 0) {
        return 128 + result->ended_by;
    }
    if (result->output_lost == EPIPE) {
        return 128 + SIGPIPE; /* like any program whose reader has gone */
    }
    if (result->output_lost != 0) {
        (void)fprintf(stderr, "nexar %s: cannot write the output: %s; ended the ranks\n", command,
                      strerror_r(result->output_lost, text, sizeof(text)));
        return NX_EXIT_FAILURE;
    }
    return NX_EXIT_OK;
}

static nexar_err run_ranks(local_job *j, const nx_front_ends *ends, nx_ranks_result *result)
{
    const nx_local *l = j->local;
    const nx_ranks_config config = {
        .command = l->command,
        .noun = l->joins ? "process" : "rank", /* the seed assigns the ranks */
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
        .notes = j->formation.notes[0],
        .news = j->formation.news,
        .ops = l->joins ? &joining_ops : &own_ops,
        .ctx = j,
    };

    j->plain = (config.output == NX_SPAWN_PTY) && !config.colour_out;
    return nx_ranks_run(&config, result);
}

static int keep(void *ctx, const nx_front_ends *ends)
{
    const nx_local *l = ctx;
    local_job j = {.local = l, .cwd = -1, .formation = {.notes = {-1, -1}, .news = -1}};
    nx_ranks_result result;
    nexar_err err = open_cwd(&j);
    int code;

    err = (err == NEXAR_OK) ? bind_ranks(&j) : err;
    if ((err == NEXAR_OK) && !l->joins) {
        err = nx_formation_init(&j.formation, (uint32_t)l->n);
        err = (err == NEXAR_OK) ? start_seed(&j) : err;
    }
    err = (err == NEXAR_OK) ? run_ranks(&j, ends, &result) : err;
    code = (err == NEXAR_OK) ? nx_local_code(l->command, &result) : nx_cmd_error(l->command, err);
    nx_seed_destroy(j.seed);
    if (j.formation.seats != NULL) {
        nx_formation_fini(&j.formation);
    }
    nx_bind_fini(&j.cores);
    if (j.cwd >= 0) {
        (void)nx_sys_close(j.cwd);
    }
    explicit_bzero(j.join, sizeof(j.join));
    return code;
}

int nx_local_run(nx_local *local)
{
    return nx_front_run(keep, local);
}
