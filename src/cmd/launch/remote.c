/* remote.c - a world on several hosts: checks, the seed, and the agents as carriers of ranks. */
#include "cmd/launch/remote.h"

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
#include "base/clock.h"
#include "base/sys.h"
#include "base/vec.h"
#include "cluster/seed/seed.h"
#include "cmd/cmd.h"
#include "cmd/join_file.h"
#include "cmd/launch/agent_link.h"
#include "cmd/launch/formation.h"
#include "cmd/launch/front.h"
#include "cmd/launch/local.h"
#include "cmd/launch/orphans.h"
#include "cmd/launch/ranks.h"
#include "cmd/launch/ranks_far.h"
#include "cmd/launch/signals.h"
#include "cmd/terminal.h"
#include "core/config/config.h"
#include "core/seed_config.h"

enum { PATH_ROOM = 4096 };

typedef struct remote {
    const nx_remote *job;
    nx_agent_setup setup;
    char directory[PATH_ROOM];
    const char **env;
    size_t nenv, env_room;
    nx_agent_link *links;
    size_t n;
    struct rlimit files; /* as it was given to us */
    struct pollfd *polls;
    nx_formation formation; /* if there is a seed */
    nx_seed *seed;          /* NULL: they join another */
    char join[NX_JOIN_STRING_MAX];
    nx_ranks *ranks; /* while they run */
    bool dropped;    /* nobody waits for the hosts any more */

    /* The input of rank 0, which is on the first host. */
    int input;       /* -1: none, or ended */
    uint32_t unread; /* bytes that rank 0 has not taken yet */
} remote;

/* ---- what the ranks get ------------------------------------------------------------------ */

/* Secrets go by the protocol; ranks and sizes are the agent's to set. */
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

static nexar_err add_variable(remote *r, const char *variable)
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

static nexar_err collect_environment(remote *r)
{
    const nx_words *more = r->job->local->env;
    nexar_err err = NEXAR_OK;

    if (r->job->local->pty && !nx_terminal_colour(STDOUT_FILENO)) {
        err = add_variable(r, "NO_COLOR=1"); /* what a program would conclude from a pipe */
    }
    for (char **own = environ; (err == NEXAR_OK) && (*own != NULL); own++) {
        err = forwarded(*own) ? add_variable(r, *own) : NEXAR_OK;
    }
    for (size_t i = 0; (err == NEXAR_OK) && (i < more->n); i++) {
        err = add_variable(r, more->at[i]);
    }
    return (err == NEXAR_OK) && (r->env == NULL) ? add_variable(r, NULL) : err;
}

/* As the user sees it: on another host a symbolic link may lead elsewhere. */
static nexar_err own_directory(remote *r)
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

/* --cwd is from here on, too. */
static nexar_err find_directory(remote *r)
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

/* Three descriptors for each host are more than many a limit allows at first. */
static void raise_limit(remote *r)
{
    struct rlimit more;

    (void)getrlimit(RLIMIT_NOFILE, &r->files);
    more = r->files;
    more.rlim_cur = more.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &more);
}

static nexar_err prepare(remote *r)
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

/* ---- checks ------------------------------------------------------------------------------- */

static void open_links(remote *r)
{
    for (size_t i = 0; i < r->n; i++) {
        nx_agent_link *link = &r->links[i];

        if (nx_agent_link_open(link, &r->job->shell, r->job->hosts->hosts[i], &r->setup,
                               r->job->host_timeout_ns, &r->files) != NEXAR_OK) {
            nx_agent_link_lose(link, "%s", nexar_last_error());
        }
    }
}

static nx_agent_link *link_of(const remote *r, pid_t pid)
{
    for (size_t i = 0; i < r->n; i++) {
        if (r->links[i].pid == pid) {
            return &r->links[i];
        }
    }
    return NULL;
}

/* How many hosts have not answered. */
static size_t unchecked(const remote *r)
{
    size_t n = 0;

    for (size_t i = 0; i < r->n; i++) {
        n += (r->links[i].state == NX_AGENT_SILENT) || (r->links[i].state == NX_AGENT_CHECKS);
    }
    return n;
}

/* Nothing of ranks is said before they are started. */
static void ignore_frame(void *ctx, nx_agent_link *link, const nx_agent_frame *frame)
{
    (void)ctx;
    nx_agent_link_lose(link, "what came over %s is not of an agent of nexar (%u)", link->tool,
                       frame->kind);
}

static uint64_t next_due(const remote *r)
{
    uint64_t due = UINT64_MAX;

    for (size_t i = 0; i < r->n; i++) {
        const uint64_t at = nx_agent_link_due(&r->links[i]);

        due = (at < due) ? at : due;
    }
    return due;
}

static uint64_t timeout_until(uint64_t due)
{
    const uint64_t now = nx_now(&nx_clock_system);

    if (due == UINT64_MAX) {
        return UINT64_MAX;
    }
    return (due <= now) ? 0 : due - now;
}

static void reap_links(remote *r)
{
    siginfo_t info = {0};

    while ((nx_sys_waitid(P_ALL, 0, &info, WEXITED | WNOHANG) == 0) && (info.si_pid != 0)) {
        nx_agent_link *link = link_of(r, info.si_pid);

        if (link != NULL) {
            nx_agent_link_exited(link, &info, ignore_frame, NULL);
        }
        info.si_pid = 0;
    }
}

/* The first signal that asks for the end; 0: none. */
static int wished_end(int signals)
{
    int number;

    while ((number = nx_signals_next(signals)) != 0) {
        if (nx_signal_ends(number)) {
            return number;
        }
    }
    return 0;
}

/* Until all hosts have answered or are lost: 0; 128 + the signal that came before. */
static int await_checks(remote *r, int signals, int life)
{
    while (unchecked(r) > 0) {
        int number;

        r->polls[0] = (struct pollfd){.fd = signals, .events = POLLIN};
        r->polls[1] = (struct pollfd){.fd = life, .events = POLLIN};
        for (size_t i = 0; i < r->n; i++) {
            nx_agent_link_fill(&r->links[i], r->polls + 2 + NX_AGENT_POLLS * i, false);
        }
        if (nx_sys_poll(r->polls, 2 + NX_AGENT_POLLS * r->n, timeout_until(next_due(r))) < 0) {
            continue;
        }
        for (size_t i = 0; i < r->n; i++) {
            nx_agent_link_turn(&r->links[i], r->polls + 2 + NX_AGENT_POLLS * i, ignore_frame, NULL);
        }
        reap_links(r);
        number = wished_end(signals);
        if ((number != 0) || (r->polls[1].revents != 0)) {
            return 128 + ((number != 0) ? number : SIGTERM);
        }
    }
    return 0;
}

/* One line for each host that cannot be used.  0: all can. */
static int report_checks(const remote *r)
{
    size_t lost = 0, refused = 0;

    for (size_t i = 0; i < r->n; i++) {
        const nx_agent_link *link = &r->links[i];

        if (link->state == NX_AGENT_IS_LOST) {
            (void)fprintf(stderr, "nexar %s: %s: %s\n", r->job->local->command, link->host->name,
                          link->why);
            lost++;
            refused += link->refused ? 1 : 0;
        }
    }
    if (lost == 0) {
        return 0;
    }
    return (refused == lost) ? NX_EXIT_USAGE : NX_EXIT_FAILURE;
}

/* 0: all hosts are ready; an exit code. */
static int check_hosts(remote *r, int life)
{
    int signals = -1, code;

    if (nx_signals_open(&signals) != NEXAR_OK) {
        return nx_cmd_error(r->job->local->command, NEXAR_ESYS);
    }
    open_links(r);
    code = await_checks(r, signals, life);
    (void)nx_sys_close(signals);
    return (code == 0) ? report_checks(r) : code;
}

/* ---- the seed ---------------------------------------------------------------------------------
 */

static bool all_here(const remote *r)
{
    for (size_t i = 0; i < r->n; i++) {
        if (!nx_host_is_here(r->links[i].host)) {
            return false;
        }
    }
    return r->job->shell.kind == NX_SHELL_SSH;
}

static uint32_t world_size(const remote *r)
{
    const nx_host *last = r->job->hosts->hosts[r->n - 1];

    return last->first + last->ranks;
}

static nexar_err configure_seed(remote *r, nexar_config *cfg, nx_seed_config *sc)
{
    char number[32];
    nexar_err err;

    (void)snprintf(number, sizeof(number), "%u", world_size(r));
    err = nexar_config_set(cfg, "world_size", number);
    err = (err == NEXAR_OK) ? nx_config_apply(cfg) : err;
    err = (err == NEXAR_OK) ? nx_seed_config_from(cfg, sc) : err;
    if (err == NEXAR_OK) {
        sc->state = NULL; /* of another seed */
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

/* A seed that all hosts reach; what the ranks join with in |r->join|. */
static nexar_err start_seed(remote *r)
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

/* The cluster that the user has named. */
static nexar_err take_join(remote *r)
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
    remote *r = ctx;

    return nx_formation_presence(&r->formation, rank);
}

static bool situation(void *ctx, char *text, size_t size)
{
    const remote *r = ctx;

    return nx_seed_situation(r->seed, text, size);
}

/* ---- what agents say --------------------------------------------------------------------------
 */

static void on_taken(remote *r, const nx_agent_link *link, uint32_t bytes)
{
    if (link != &r->links[0]) {
        return;
    }
    if ((bytes > r->unread) && (r->input >= 0)) { /* rank 0 reads no more */
        (void)nx_sys_close(r->input);
        r->input = -1;
    }
    r->unread = (bytes > r->unread) ? 0 : r->unread - bytes;
}

static bool has_rank(const nx_agent_link *link, uint32_t rank)
{
    return (rank >= link->host->first) && (rank - link->host->first < link->host->ranks);
}

static void on_ended(remote *r, uint32_t rank, uint32_t code)
{
    siginfo_t info = {.si_code = CLD_EXITED, .si_status = (int)code};

    if (code >= NX_AGENT_KILLED) {
        info = (siginfo_t){.si_code = CLD_KILLED, .si_status = (int)(code - NX_AGENT_KILLED)};
    }
    nx_ranks_far_ended(r->ranks, rank, &info);
}

static void on_output(remote *r, const nx_agent_link *link, const nx_agent_frame *frame)
{
    const char *bytes = NULL;
    size_t len = 0;
    uint32_t rank;
    uint8_t stream;

    if (nx_agent_output(frame, &rank, &stream, &bytes, &len) && has_rank(link, rank)) {
        nx_ranks_far_printed(r->ranks, rank, stream, bytes, len);
    }
}

static void on_frame(void *ctx, nx_agent_link *link, const nx_agent_frame *frame)
{
    remote *r = ctx;
    uint32_t a = 0, b = 0;

    if (frame->kind == NX_AGENT_OUTPUT) {
        on_output(r, link, frame);
        return;
    }
    if (!nx_agent_numbers(frame, &a, &b)) {
        nx_agent_link_lose(link, "what came over %s is not of an agent of nexar", link->tool);
        return;
    }
    switch (frame->kind) {
    case NX_AGENT_TAKEN:
        on_taken(r, link, a);
        return;
    case NX_AGENT_WISH:
        nx_ranks_far_wish(r->ranks, (int)a);
        return;
    default:
        break;
    }
    if (!has_rank(link, a)) {
        return;
    }
    if (frame->kind == NX_AGENT_STARTED) {
        nx_ranks_far_started(r->ranks, a, (pid_t)b);
    } else if (frame->kind == NX_AGENT_ENDED) {
        on_ended(r, a, b);
    } else if (frame->kind == NX_AGENT_STOPPED) {
        nx_ranks_far_stopped(r->ranks, a, (int)b);
    }
}

/* ---- ranks on other hosts: nx_ranks_far -------------------------------------------------------
 */

static void far_start(void *ctx, nx_ranks *ranks)
{
    remote *r = ctx;
    nx_agent_start s = {
        .join = r->join,
        .size = world_size(r),
        .bind = r->job->local->bind ? 1 : 0,
        .joins = r->job->local->joins ? 1 : 0,
        .output = (r->job->local->pty && (r->job->local->prefix || (isatty(STDOUT_FILENO) != 0)))
                      ? NX_SPAWN_PTY
                      : NX_SPAWN_PIPES,
    };

    r->ranks = ranks;
    (void)nx_ranks_far_window(ranks, &s.columns, &s.rows);
    for (size_t i = 0; i < r->n; i++) {
        s.first = r->links[i].host->first;
        s.ranks = r->links[i].host->ranks;
        nx_agent_put_start(&r->links[i].to, &s);
    }
}

static void far_signal(void *ctx, int number)
{
    remote *r = ctx;

    for (size_t i = 0; i < r->n; i++) {
        if (r->links[i].state == NX_AGENT_IS_READY) {
            nx_agent_put_numbers(&r->links[i].to, NX_AGENT_SIGNAL, (uint32_t)number, 0);
        }
    }
}

static void far_fill(void *ctx, struct pollfd *polls, bool full)
{
    remote *r = ctx;
    const bool wanted = r->unread < NX_AGENT_WINDOW;

    polls[0] = (struct pollfd){.fd = wanted ? r->input : -1, .events = POLLIN};
    for (size_t i = 0; i < r->n; i++) {
        nx_agent_link_fill(&r->links[i], polls + 1 + NX_AGENT_POLLS * i, full);
    }
}

static void read_input(remote *r)
{
    char bytes[NX_AGENT_CHUNK];
    const size_t left = NX_AGENT_WINDOW - r->unread;
    const ssize_t got = nx_sys_read(r->input, bytes, (left < sizeof(bytes)) ? left : sizeof(bytes));

    if (got > 0) {
        r->unread += (uint32_t)got;
        nx_agent_put(&r->links[0].to, NX_AGENT_INPUT, bytes, (size_t)got);
    } else if ((got == 0) || (errno != EAGAIN)) {
        nx_agent_put(&r->links[0].to, NX_AGENT_INPUT_END, NULL, 0);
        (void)nx_sys_close(r->input);
        r->input = -1;
    }
}

/* The ranks of hosts that were lost are lost, once; those of hosts that are done have ended. */
static void note_losses(remote *r)
{
    for (size_t i = 0; i < r->n; i++) {
        nx_agent_link *link = &r->links[i];
        char line[NX_ERROR_ROOM + NX_HOST_MAX];

        if ((link->state == NX_AGENT_IS_LOST) && !link->told) {
            (void)snprintf(line, sizeof(line), "%s: %s", link->host->name, link->why);
            nx_ranks_far_lost(r->ranks, link->host->first, link->host->ranks,
                              link->refused ? NX_EXIT_USAGE : NX_EXIT_FAILURE, line);
            link->told = true;
        }
    }
}

static void drop_hosts(remote *r)
{
    r->dropped = true;
    for (size_t i = 0; i < r->n; i++) {
        nx_agent_link_lose(&r->links[i], "given up");
    }
}

static void far_turn(void *ctx, nx_ranks *ranks, const struct pollfd *polls)
{
    remote *r = ctx;

    if ((polls[0].fd >= 0) && (polls[0].revents != 0)) {
        read_input(r);
    }
    for (size_t i = 0; i < r->n; i++) {
        nx_agent_link_turn(&r->links[i], polls + 1 + NX_AGENT_POLLS * i, on_frame, r);
    }
    if (nx_ranks_far_hurried(ranks) && !r->dropped) {
        drop_hosts(r);
    }
    note_losses(r);
}

static uint64_t far_due(void *ctx)
{
    return next_due(ctx);
}

static void far_child(void *ctx, nx_ranks *ranks, const siginfo_t *info)
{
    remote *r = ctx;
    nx_agent_link *link = link_of(r, info->si_pid);

    (void)ranks;
    if (link != NULL) {
        nx_agent_link_exited(link, info, on_frame, r);
        note_losses(r);
    }
}

/* ssh may still carry the end of what it has been given. */
static bool far_busy(void *ctx)
{
    const remote *r = ctx;

    for (size_t i = 0; i < r->n; i++) {
        if (r->links[i].pid != 0) {
            return !r->dropped;
        }
    }
    return false;
}

static const char *far_host(void *ctx, uint32_t rank)
{
    const remote *r = ctx;
    const nx_host_list *hosts = r->job->hosts;
    size_t i = 0;

    while ((i + 1 < hosts->n) && (rank >= hosts->hosts[i + 1]->first)) {
        i++;
    }
    return hosts->hosts[i]->name;
}

static const nx_ranks_far far_ranks = {
    .start = far_start,
    .signal = far_signal,
    .fill = far_fill,
    .turn = far_turn,
    .due = far_due,
    .child = far_child,
    .busy = far_busy,
    .host = far_host,
};

/* ---- the job ------------------------------------------------------------------------------------
 */

static const nx_ranks_ops own_ops = {.presence = presence, .situation = situation};
static const nx_ranks_ops joining_ops = {.presence = NULL};

static nexar_err run_ranks(remote *r, const nx_front_ends *ends, nx_ranks_result *result)
{
    const nx_local *l = r->job->local;
    const nx_ranks_config config = {
        .command = l->command,
        .noun = l->joins ? "process" : "rank",
        .n = world_size(r),
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
        .far = &far_ranks,
        .far_polls = 1 + NX_AGENT_POLLS * r->n,
        .ctx = r,
    };

    return nx_ranks_run(&config, result);
}

static int serve(remote *r, const nx_front_ends *ends)
{
    const nx_local *l = r->job->local;
    nx_ranks_result result;
    nexar_err err = NEXAR_OK;

    if (l->joins) {
        err = take_join(r);
    } else {
        err = nx_formation_init(&r->formation, world_size(r));
        err = (err == NEXAR_OK) ? start_seed(r) : err;
    }
    err = (err == NEXAR_OK) ? run_ranks(r, ends, &result) : err;
    return (err == NEXAR_OK) ? nx_local_code(l->command, &result) : nx_cmd_error(l->command, err);
}

static void fini(remote *r)
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
    remote r = {.job = ctx, .input = ends->input, .formation = {.notes = {-1, -1}, .news = -1}};
    const nexar_err err = prepare(&r);
    int code =
        (err == NEXAR_OK) ? check_hosts(&r, ends->life) : nx_cmd_error(r.job->local->command, err);

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
