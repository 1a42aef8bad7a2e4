/* ranks.c - local processes as ranks, around one poll. */
#include "cmd/launch/ranks.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/sys.h"
#include "cmd/launch/orphans.h"
#include "cmd/launch/output.h"
#include "cmd/launch/signals.h"
#include "cmd/launch/spawn.h"
#include "core/config/settings.h"

/* A signal that reaches us by two ways (timeout(1) sends it to us and to our
 * group) is no second wish; nobody presses Ctrl-C twice as fast. */
#define ECHO_NS UINT64_C(250000000)
/* How long after those who follow it the first that failed may be seen to end: its links are
 * closed before it is gone, and one that was only stopped never is. */
#define BLAME_NS UINT64_C(3000000000)
/* How long ranks may be stopped when all the others have ended. */
#define STUCK_NS UINT64_C(3000000000)

typedef struct process {
    pid_t pid;   /* 0: has ended */
    int stopped; /* by which signal; 0: it is not */
    nx_output out, err;
} process;

typedef struct ranks {
    const nx_ranks_config *config;
    nx_ranks_result *result;
    process *processes;
    struct pollfd *polls; /* as AT_ has it, then two for each rank */
    nx_sink sinks[2];     /* stdout, stderr; if they are one file, only the first is used */
    nx_sink *out, *err;
    nx_output notes;
    struct rlimit files;
    uint32_t started, running; /* the first |started| have been started */
    int signals, input, life;
    bool ending;
    bool well;                  /* some rank has ended with code 0 */
    uint64_t asked_at, kill_at; /* when the first signal came; when to kill, 0: not */
    bool paused;                /* the user has stopped them all */
    uint64_t stuck_at;          /* when to end those that are stopped, 0: not */

    /* The first rank that ended since another one had failed, as it says by its code
     * (recovery=abort): the other one is named, if it is seen to end before |blame_at|. */
    int64_t follower; /* -1: none */
    pid_t follower_pid;
    uint64_t blame_at;
} ranks;

enum { AT_SIGNALS, AT_LIFE, AT_NOTES, AT_OUT, AT_ERR, AT_RANKS };

/* ---- ending -------------------------------------------------------------------- */

static void signal_all(const ranks *r, int number)
{
    for (uint32_t i = 0; i < r->config->n; i++) {
        if (r->processes[i].pid != 0) {
            (void)kill(-r->processes[i].pid, number);
        }
    }
}

/* Asks those that still run to end, and sets the time when they must. */
static void end_all(ranks *r, int number)
{
    signal_all(r, number);
    signal_all(r, SIGCONT); /* one that was stopped could not hear it */
    if (!r->ending) {
        r->ending = true;
        r->kill_at = nx_now(&nx_clock_system) + r->config->grace_ns;
        r->kill_at += (r->kill_at == 0);
    }
}

/* At once, and nobody waits for the output any more. */
static void kill_all(ranks *r)
{
    r->ending = true;
    r->kill_at = 0;
    signal_all(r, SIGKILL);
    nx_sink_break(r->out, ECANCELED);
    nx_sink_break(r->err, ECANCELED);
}

static void tell(ranks *r, const char *line, int len)
{
    char who[32];

    (void)snprintf(who, sizeof(who), "nexar %s: ", r->config->command);
    nx_sink_line(r->err, who, line, (size_t)len);
}

static void tell_failure(ranks *r, uint32_t rank, pid_t pid, const siginfo_t *info)
{
    const char *others = ((r->running > 0) && !r->config->elastic) ? "; ending the others" : "";
    char line[256];
    int len;

    if (info->si_code == CLD_EXITED) {
        len = snprintf(line, sizeof(line), "rank %lld (pid %ld) exited with code %d%s",
                       (long long)rank, (long)pid, info->si_status, others);
    } else {
        len = snprintf(line, sizeof(line), "rank %lld (pid %ld) was killed by signal %d (%s)%s",
                       (long long)rank, (long)pid, info->si_status,
                       strsignal(info->si_status), // NOLINT(concurrency-mt-unsafe)
                       others);
    }
    tell(r, line, len);
}

/* |rank| has failed, and the others end with it, unless they may go on. */
static void blame(ranks *r, uint32_t rank, pid_t pid, const siginfo_t *info)
{
    if (r->result->rank < 0) {
        r->result->code = (info->si_code == CLD_EXITED) ? info->si_status : 128 + info->si_status;
        r->result->rank = rank;
    }
    tell_failure(r, rank, pid, info);
    if (!r->config->elastic) {
        end_all(r, SIGTERM);
    }
}

static void on_end(ranks *r, uint32_t rank, const siginfo_t *info)
{
    const int code = (info->si_code == CLD_EXITED) ? info->si_status : 128 + info->si_status;
    const pid_t pid = r->processes[rank].pid;

    r->processes[rank].pid = 0;
    r->running--;
    r->well = r->well || (code == 0);
    if ((code == NX_ABORT_CODE) && !r->ending) {
        if (r->follower < 0) {
            r->follower = rank;
            r->follower_pid = pid;
            r->blame_at = nx_now(&nx_clock_system) + BLAME_NS;
        }
    } else if ((code != 0) && !r->ending) {
        blame(r, rank, pid, info);
    }
}

/* No other rank was seen to fail: the first that said so is named. */
static void blame_follower(ranks *r)
{
    const siginfo_t info = {.si_code = CLD_EXITED, .si_status = NX_ABORT_CODE};

    if ((r->follower >= 0) && !r->ending &&
        ((r->running == 0) || (nx_now(&nx_clock_system) >= r->blame_at))) {
        blame(r, (uint32_t)r->follower, r->follower_pid, &info);
        r->follower = -1;
    }
}

/* The rank that |pid| is; config->n: an orphan that we adopted. */
static uint32_t rank_of(const ranks *r, pid_t pid)
{
    uint32_t rank = 0;

    while ((rank < r->config->n) && (r->processes[rank].pid != pid)) {
        rank++;
    }
    return rank;
}

static void reap(ranks *r)
{
    siginfo_t info = {0};

    while ((nx_sys_waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0) &&
           (info.si_pid != 0)) {
        const uint32_t rank = rank_of(r, info.si_pid);

        if (rank < r->config->n) {
            /* What it has left in its group goes with it.  Its number is not
             * somebody else's as long as we have not taken its code. */
            (void)kill(-info.si_pid, SIGKILL);
        }
        (void)nx_sys_waitpid(info.si_pid, NULL, 0);
        if (rank < r->config->n) {
            on_end(r, rank, &info);
        }
        info.si_pid = 0;
    }
}

/* ---- being stopped ------------------------------------------------------------------- */

static void on_stop(ranks *r, uint32_t rank, int number)
{
    const long pid = (long)r->processes[rank].pid;
    char line[128];

    r->processes[rank].stopped = number;
    if (!r->ending && !r->paused) {
        tell(r, line,
             snprintf(line, sizeof(line),
                      "rank %u (pid %ld) was stopped by signal %d; kill -CONT %ld lets it go on",
                      rank, pid, number, pid));
    }
}

static void note_stops(ranks *r)
{
    siginfo_t info = {0};

    while ((nx_sys_waitid(P_ALL, 0, &info, WSTOPPED | WCONTINUED | WNOHANG) == 0) &&
           (info.si_pid != 0)) {
        const uint32_t rank = rank_of(r, info.si_pid);

        if ((rank < r->config->n) && (info.si_code == CLD_STOPPED)) {
            on_stop(r, rank, info.si_status);
        } else if (rank < r->config->n) {
            r->processes[rank].stopped = 0;
        }
        info.si_pid = 0;
    }
}

static void end_stuck(ranks *r)
{
    char line[128];

    for (uint32_t i = 0; i < r->config->n; i++) {
        const process *p = &r->processes[i];

        if (p->pid != 0) {
            tell(r, line,
                 snprintf(line, sizeof(line),
                          "rank %u (pid %ld) is stopped, and the others have ended; ending it", i,
                          (long)p->pid));
            r->result->code = (r->result->rank < 0) ? 128 + p->stopped : r->result->code;
            r->result->rank = (r->result->rank < 0) ? i : r->result->rank;
        }
    }
    end_all(r, SIGTERM);
}

/* Ranks that are stopped while no other runs any more would be waited for without end. */
static void check_stuck(ranks *r)
{
    bool stuck = !r->ending && !r->paused && (r->running > 0) && (r->running < r->started);

    for (uint32_t i = 0; stuck && (i < r->config->n); i++) {
        stuck = (r->processes[i].pid == 0) || (r->processes[i].stopped != 0);
    }
    if (!stuck) {
        r->stuck_at = 0;
    } else if (r->stuck_at == 0) {
        r->stuck_at = nx_now(&nx_clock_system) + STUCK_NS;
    } else if (nx_now(&nx_clock_system) >= r->stuck_at) {
        r->stuck_at = 0;
        end_stuck(r);
    }
}

/* ---- signals ------------------------------------------------------------------------- */

/* The first asks, as gently as it says; a later one kills. */
static void on_wish(ranks *r, int number)
{
    const uint64_t now = nx_now(&nx_clock_system);

    if (r->result->ended_by == 0) {
        r->result->ended_by = number;
        r->asked_at = now;
        end_all(r, number);
    } else if (now - r->asked_at >= ECHO_NS) {
        kill_all(r);
    }
}

static void on_signals(ranks *r)
{
    int number;

    while ((number = nx_signals_next(r->signals)) != 0) {
        if (nx_signal_ends(number)) {
            on_wish(r, number);
        } else if (number != SIGCHLD) { /* the loop reaps in every turn */
            r->paused = (number == SIGTSTP) || (r->paused && (number != SIGCONT));
            signal_all(r, number);
        }
    }
}

/* ---- the loop -------------------------------------------------------------------------- */

/* Nanoseconds. */
static uint64_t poll_timeout(const ranks *r)
{
    const uint64_t now = nx_now(&nx_clock_system);
    const bool blames = (r->follower >= 0) && !r->ending;
    uint64_t at = blames ? r->blame_at : r->kill_at;

    if ((r->stuck_at != 0) && ((at == 0) || (r->stuck_at < at))) {
        at = r->stuck_at;
    }
    if (at == 0) {
        return UINT64_MAX;
    }
    return (now >= at) ? 0 : at - now;
}

static struct pollfd poll_sink(const nx_sink *s)
{
    return (struct pollfd){.fd = nx_sink_waits(s) ? s->to : -1, .events = POLLOUT};
}

/* A rank whose lines cannot be written is not read: it waits as for a slow pipe. */
static struct pollfd poll_output(const nx_output *o)
{
    return (struct pollfd){.fd = nx_sink_full(o->to) ? -1 : o->from, .events = POLLIN};
}

static void fill_polls(ranks *r)
{
    r->polls[AT_SIGNALS] = (struct pollfd){.fd = r->signals, .events = POLLIN};
    r->polls[AT_LIFE] = (struct pollfd){.fd = r->life, .events = POLLIN};
    r->polls[AT_NOTES] = poll_output(&r->notes);
    r->polls[AT_OUT] = poll_sink(&r->sinks[0]);
    r->polls[AT_ERR] = poll_sink(&r->sinks[1]);
    for (uint32_t i = 0; i < r->started; i++) {
        r->polls[AT_RANKS + 2 * i] = poll_output(&r->processes[i].out);
        r->polls[AT_RANKS + 2 * i + 1] = poll_output(&r->processes[i].err);
    }
}

static void pump(const struct pollfd *p, nx_output *o)
{
    if ((p->fd >= 0) && (p->revents != 0)) {
        (void)nx_output_pump(o);
    }
}

static void flush(const struct pollfd *p, nx_sink *s)
{
    if ((p->fd >= 0) && (p->revents != 0)) {
        nx_sink_flush(s);
    }
}

/* Ranks that talk to nobody end, unless we have given up listening ourselves. */
static void check_output(ranks *r)
{
    const int why = (r->out->broken != 0) ? r->out->broken : r->err->broken;

    if ((why != 0) && (why != ECANCELED) && (r->result->output_lost == 0)) {
        r->result->output_lost = why;
        end_all(r, SIGTERM);
    }
}

static void turn(ranks *r)
{
    const struct pollfd *p = r->polls;

    fill_polls(r);
    /* Not more than there are descriptors: poll takes no more than the limit. */
    if (nx_sys_poll(r->polls, AT_RANKS + 2 * (nfds_t)r->started, poll_timeout(r)) < 0) {
        return;
    }
    flush(&p[AT_OUT], &r->sinks[0]);
    flush(&p[AT_ERR], &r->sinks[1]);
    pump(&p[AT_NOTES], &r->notes);
    for (uint32_t i = 0; i < r->started; i++) {
        pump(&p[AT_RANKS + 2 * i], &r->processes[i].out);
        pump(&p[AT_RANKS + 2 * i + 1], &r->processes[i].err);
    }
    check_output(r);
    on_signals(r);
    reap(r);
    note_stops(r);
    check_stuck(r);
    blame_follower(r);
    if (p[AT_LIFE].revents != 0) {
        r->life = -1;
        kill_all(r);
    }
    if ((r->kill_at != 0) && (nx_now(&nx_clock_system) >= r->kill_at)) {
        r->kill_at = 0;
        signal_all(r, SIGKILL);
    }
}

/* Something is still to be read or to be written. */
static bool output_left(const ranks *r)
{
    for (uint32_t i = 0; i < r->config->n; i++) {
        if ((r->processes[i].out.from >= 0) || (r->processes[i].err.from >= 0)) {
            return true;
        }
    }
    return nx_sink_waits(&r->sinks[0]) || nx_sink_waits(&r->sinks[1]);
}

/* Until all have ended; then those that they left, which may hold pipes open. */
static void stay(ranks *r)
{
    while (r->running > 0) {
        turn(r);
    }
    nx_orphans_end();
    if (r->notes.from >= 0) {
        (void)nx_output_pump(&r->notes);
    }
    while (output_left(r)) {
        turn(r);
    }
}

/* ---- beginning and end ---------------------------------------------------------------------- */

static nexar_err start_rank(ranks *r, uint32_t rank, int digits)
{
    const nx_ranks_config *c = r->config;
    process *p = &r->processes[rank];
    char prefix[32];
    nx_spawn s = {.argv = c->argv,
                  .join = c->join,
                  .rank = rank,
                  .size = c->n,
                  .pipes = c->prefix,
                  .input = (rank == 0) ? r->input : -1,
                  .files = &r->files};
    nexar_err err = nx_spawn_rank(&s);

    if (err != NEXAR_OK) {
        return err;
    }
    p->pid = s.pid;
    r->started++;
    r->running++;
    nx_output_prefix(prefix, rank, digits, c->colour_out);
    nx_output_init(&p->out, s.out, r->out, prefix);
    nx_output_prefix(prefix, rank, digits, c->colour_err);
    nx_output_init(&p->err, s.err, r->err, prefix);
    return NEXAR_OK;
}

static nexar_err start_all(ranks *r)
{
    char widest[16];
    int digits = snprintf(widest, sizeof(widest), "%u", r->config->n - 1);
    nexar_err err = NEXAR_OK;

    for (uint32_t i = 0; (i < r->config->n) && (err == NEXAR_OK); i++) {
        err = start_rank(r, i, digits);
    }
    (void)nx_sys_close(r->input); /* rank 0 has it */
    r->input = -1;
    return err;
}

/* Two pipes for each rank are more than many a limit allows at first. */
static void raise_limit(ranks *r)
{
    struct rlimit more;

    (void)getrlimit(RLIMIT_NOFILE, &r->files);
    more = r->files;
    more.rlim_cur = more.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &more);
}

static bool same_file(int a, int b)
{
    struct stat x, y;

    return (fstat(a, &x) == 0) && (fstat(b, &y) == 0) && (x.st_dev == y.st_dev) &&
           (x.st_ino == y.st_ino);
}

static nexar_err prepare(ranks *r)
{
    const size_t n = r->config->n;
    char who[32];

    r->processes = nx_calloc(n, sizeof(*r->processes));
    r->polls = nx_calloc(AT_RANKS + 2 * n, sizeof(*r->polls));
    if ((r->processes == NULL) || (r->polls == NULL)) {
        return nx_fail_nomem("the ranks");
    }
    nx_sink_init(&r->sinks[0], STDOUT_FILENO);
    nx_sink_init(&r->sinks[1], STDERR_FILENO);
    r->out = &r->sinks[0];
    r->err = &r->sinks[same_file(STDOUT_FILENO, STDERR_FILENO) ? 0 : 1];
    (void)snprintf(who, sizeof(who), "nexar %s: ", r->config->command);
    nx_output_init(&r->notes, r->config->notes, r->err, who);
    for (size_t i = 0; i < n; i++) {
        nx_output_init(&r->processes[i].out, -1, r->out, "");
        nx_output_init(&r->processes[i].err, -1, r->err, "");
    }
    raise_limit(r);
    return nx_signals_open(&r->signals);
}

static void fini(ranks *r)
{
    for (uint32_t i = 0; (r->processes != NULL) && (i < r->config->n); i++) {
        nx_output_fini(&r->processes[i].out);
        nx_output_fini(&r->processes[i].err);
    }
    r->notes.from = -1; /* borrowed */
    nx_output_fini(&r->notes);
    nx_sink_fini(&r->sinks[0]);
    nx_sink_fini(&r->sinks[1]);
    if (r->input >= 0) {
        (void)nx_sys_close(r->input);
    }
    if (r->signals >= 0) {
        (void)nx_sys_close(r->signals);
    }
    nx_free(r->processes);
    nx_free(r->polls);
}

nexar_err nx_ranks_run(const nx_ranks_config *config, nx_ranks_result *result)
{
    ranks r = {.config = config,
               .result = result,
               .signals = -1,
               .input = config->input,
               .follower = -1,
               .life = config->life};
    nexar_err err;

    *result = (nx_ranks_result){.rank = -1};
    err = prepare(&r);
    if (err == NEXAR_OK) {
        err = start_all(&r);
        if (err != NEXAR_OK) {
            kill_all(&r);
        }
        stay(&r);
    }
    if (config->elastic && r.well) {
        result->rank = -1;
        result->code = 0;
    }
    fini(&r);
    return err;
}
