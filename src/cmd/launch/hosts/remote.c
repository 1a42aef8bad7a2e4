/* remote.c - a world on several hosts: the environment of ranks, the seed, start and end. */
#include "remote.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <nexar.h>

#include "base/alloc.h"
#include "base/containers/vec.h"
#include "base/os/sys.h"
#include "cluster/seed/seed.h"
#include "cmd/cmd.h"
#include "cmd/join_file.h"
#include "cmd/launch/front.h"
#include "cmd/launch/local.h"
#include "cmd/launch/orphans.h"
#include "cmd/launch/ranks/ranks.h"
#include "cmd/print/terminal.h"
#include "core/config/config.h"
#include "core/world/seed_config.h"
#include "remote_inner.h"

/* ---- environment of the ranks -------------------------------------------------------- */

/* The protocol carries secrets; the agent sets ranks and sizes. */
static bool forwarded(const char *variable)
{
    static const char *const kept[] = {
        "NEXAR_JOIN=",       "NEXAR_JOIN_FILE=",  "NEXAR_TOKEN=",
        "NEXAR_TOKEN_FILE=", "NEXAR_RANK=",       "NEXAR_WORLD_SIZE=",
        "NEXAR_LOCAL_RANK=", "NEXAR_LOCAL_SIZE=", "NEXAR_SEED_STATE="};
    bool good = strncmp(variable, "NEXAR_", 6) == 0;

    for (size_t i = 0; good && (i < sizeof(kept) / sizeof(kept[0])); i++) {
        good = strncmp(variable, kept[i], strlen(kept[i])) != 0;
    }
    return good;
}

static nexar_err add_variable(nx_remote_job *r, const char *variable)
{
    const char **grown = nx_vec_grow(r->env, &r->env_room, r->nenv + 2, sizeof(*r->env));

    if (grown == NULL) {
        return nx_fail_nomem("the environment");
    }
    r->env = grown;
    r->env[r->nenv++] = variable;
    r->env[r->nenv] = NULL;
    return NEXAR_OK;
}

static nexar_err collect_environment(nx_remote_job *r)
{
    const nx_words *more = r->job->local->env;
    nexar_err err = NEXAR_OK;

    if (r->job->local->pty && !nx_terminal_colour(STDOUT_FILENO)) {
        err = add_variable(r, "NO_COLOR=1"); /* programs derive this from a pipe themselves */
    }
    for (char **own = environ; (err == NEXAR_OK) && (*own != NULL); own++) {
        err = forwarded(*own) ? add_variable(r, *own) : NEXAR_OK;
    }
    for (size_t i = 0; (err == NEXAR_OK) && (i < more->n); i++) {
        err = add_variable(r, more->at[i]);
    }
    return (err == NEXAR_OK) && (r->env == NULL) ? add_variable(r, NULL) : err;
}

/* The path as the user sees it: on another host a symbolic link may have another target. */
static nexar_err own_directory(nx_remote_job *r)
{
    const char *shown = getenv("PWD"); // NOLINT(concurrency-mt-unsafe): one thread
    struct stat a, b;

    if ((shown != NULL) && (shown[0] == '/') && (strlen(shown) < sizeof(r->directory)) &&
        (stat(shown, &a) == 0) && (stat(".", &b) == 0) && (a.st_dev == b.st_dev) &&
        (a.st_ino == b.st_ino)) {
        memcpy(r->directory, shown, strlen(shown) + 1);
        return NEXAR_OK;
    }
    return (getcwd(r->directory, sizeof(r->directory)) != NULL) ? NEXAR_OK
                                                                : nx_fail_sys("getcwd", "", errno);
}

/* --cwd is relative to this directory, too. */
static nexar_err find_directory(nx_remote_job *r)
{
    const char *cwd = r->job->local->cwd;
    const nexar_err err = own_directory(r);
    size_t len;
    int got;

    if ((err != NEXAR_OK) || (cwd == NULL)) {
        return err;
    }
    len = (cwd[0] == '/') ? 0 : strlen(r->directory);
    got = snprintf(r->directory + len, sizeof(r->directory) - len, "%s%s", (len == 0) ? "" : "/",
                   cwd);
    return ((got >= 0) && ((size_t)got < sizeof(r->directory) - len))
               ? NEXAR_OK
               : nx_fail(NEXAR_EINVAL, "--cwd %s: the path is too long", cwd);
}

/* Three descriptors per host may exceed the soft limit. */
static void raise_limit(nx_remote_job *r)
{
    struct rlimit more;

    (void)getrlimit(RLIMIT_NOFILE, &r->files);
    more = r->files;
    more.rlim_cur = more.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &more);
}

static nexar_err prepare(nx_remote_job *r)
{
    nexar_err err = find_directory(r);

    if (err == NEXAR_OK) {
        err = collect_environment(r);
    }
    raise_limit(r);
    r->n = r->job->hosts->n;
    r->links = nx_calloc(r->n, sizeof(*r->links));
    r->polls = nx_calloc(2 + NX_AGENT_POLLS * r->n, sizeof(*r->polls));
    if ((err == NEXAR_OK) && ((r->links == NULL) || (r->polls == NULL))) {
        err = nx_fail_nomem("the hosts");
    }
    r->setup = (nx_agent_setup){
        .timeout_ms = (uint32_t)(r->job->host_timeout_ns / 1000000),
        .directory = r->directory,
        .argv = (const char **)(uintptr_t)r->job->local->argv,
        .env = r->env,
    };
    return err;
}

/* ---- the seed ------------------------------------------------------------------------ */

static bool all_here(const nx_remote_job *r)
{
    for (size_t i = 0; i < r->n; i++) {
        if (!nx_host_is_here(r->links[i].host)) {
            return false;
        }
    }
    return r->job->shell.kind == NX_SHELL_SSH;
}

uint32_t nx_remote_world_size(const nx_remote_job *r)
{
    const nx_host *last = r->job->hosts->hosts[r->n - 1];

    return last->first + last->ranks;
}

static nexar_err configure_seed(nx_remote_job *r, nexar_config *cfg, nx_seed_config *sc)
{
    char number[32];
    nexar_err err;

    (void)snprintf(number, sizeof(number), "%u", nx_remote_world_size(r));
    err = nexar_config_set(cfg, "world_size", number);
    err = (err == NEXAR_OK) ? nx_config_apply(cfg) : err;
    err = (err == NEXAR_OK) ? nx_seed_config_from(cfg, sc) : err;
    if (err == NEXAR_OK) {
        sc->state = NULL; /* belongs to another seed */
        sc->ranked = true;
        sc->on_event = nx_formation_on_event;
        sc->ctx = &r->formation;
        if (all_here(r)) {
            sc->listen = "127.0.0.1";
            sc->interfaces = sc->advertise = "";
        }
    }
    return err;
}

/* Starts a seed that all hosts can reach; |r->join| gets the join string. */
static nexar_err start_seed(nx_remote_job *r)
{
    nexar_config *cfg = NULL;
    nx_seed_config sc;
    nexar_err err = nexar_config_create(&cfg);

    err = (err == NEXAR_OK) ? configure_seed(r, cfg, &sc) : err;
    err = (err == NEXAR_OK) ? nx_seed_create(&r->seed, &sc) : err;
    err = (err == NEXAR_OK) ? nx_seed_join_text(r->seed, r->join, sizeof(r->join)) : err;
    nexar_config_free(cfg);
    if ((err == NEXAR_OK) && (r->job->local->join_file != NULL)) {
        err = nx_join_file_write(r->job->local->join_file, r->join);
    }
    return err;
}

/* Uses the cluster that NEXAR_JOIN names. */
static nexar_err take_join(nx_remote_job *r)
{
    const char *join = getenv("NEXAR_JOIN"); // NOLINT(concurrency-mt-unsafe): one thread

    if ((join == NULL) || (strlen(join) >= sizeof(r->join))) {
        return nx_fail(NEXAR_EINVAL, "NEXAR_JOIN is no join string");
    }
    memcpy(r->join, join, strlen(join) + 1);
    return NEXAR_OK;
}

static nx_presence presence(void *ctx, uint32_t rank)
{
    nx_remote_job *r = ctx;

    return nx_formation_presence(&r->formation, rank);
}

static bool situation(void *ctx, char *text, size_t size)
{
    const nx_remote_job *r = ctx;

    return nx_seed_situation(r->seed, text, size);
}

/* ---- the job ------------------------------------------------------------------------- */

static const nx_ranks_ops own_ops = {.presence = presence, .situation = situation};
static const nx_ranks_ops joining_ops = {.presence = NULL};

static nexar_err run_ranks(nx_remote_job *r, const nx_front_ends *ends, nx_ranks_result *result)
{
    const nx_local *l = r->job->local;
    const nx_ranks_config config = {
        .command = l->command,
        .noun = l->joins ? "process" : "rank",
        .n = nx_remote_world_size(r),
        .output = l->prefix ? NX_SPAWN_PIPES : NX_SPAWN_INHERIT,
        .colour_out = nx_terminal_colour(STDOUT_FILENO),
        .colour_err = nx_terminal_colour(STDERR_FILENO),
        .grace_ns = l->grace_ns,
        .elastic = l->elastic,
        .input = -1,
        .life = ends->life,
        .notes = r->formation.notes[0],
        .news = r->formation.news,
        .ops = l->joins ? &joining_ops : &own_ops,
        .far = &nx_remote_ops,
        .far_polls = 1 + NX_AGENT_POLLS * r->n,
        .ctx = r,
    };

    return nx_ranks_run(&config, result);
}

static int serve(nx_remote_job *r, const nx_front_ends *ends)
{
    const nx_local *l = r->job->local;
    nx_ranks_result result;
    nexar_err err = NEXAR_OK;

    if (l->joins) {
        err = take_join(r);
    } else {
        err = nx_formation_init(&r->formation, nx_remote_world_size(r));
        err = (err == NEXAR_OK) ? start_seed(r) : err;
    }
    err = (err == NEXAR_OK) ? run_ranks(r, ends, &result) : err;
    return (err == NEXAR_OK) ? nx_local_code(l->command, &result) : nx_cmd_error(l->command, err);
}

static void fini(nx_remote_job *r)
{
    for (size_t i = 0; (r->links != NULL) && (i < r->n); i++) {
        nx_agent_link_fini(&r->links[i]);
    }
    if (r->input >= 0) {
        (void)nx_sys_close(r->input);
    }
    nx_orphans_end();
    nx_seed_destroy(r->seed);
    if (r->formation.seats != NULL) {
        nx_formation_fini(&r->formation);
    }
    explicit_bzero(r->join, sizeof(r->join));
    nx_free(r->links);
    nx_free(r->polls);
    nx_free(r->env);
}

static int keep(void *ctx, const nx_front_ends *ends)
{
    nx_remote_job r = {
        .job = ctx, .input = ends->input, .formation = {.notes = {-1, -1}, .news = -1}};
    const nexar_err err = prepare(&r);
    int code = (err == NEXAR_OK) ? nx_remote_check(&r, ends->life)
                                 : nx_cmd_error(r.job->local->command, err);

    if (code == 0) {
        code = serve(&r, ends);
    }
    fini(&r);
    return code;
}

int nx_remote_run(nx_remote *job)
{
    return nx_front_run(keep, job);
}
