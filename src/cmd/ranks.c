/* ranks.c - local processes as ranks, around one poll. */
#include "cmd/ranks.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "cmd/guardian.h"
#include "cmd/output.h"
#include "cmd/spawn.h"

typedef struct process {
    pid_t pid; /* 0: has ended */
    nx_output out, err;
} process;

typedef struct ranks {
    const nx_ranks_config *config;
    void (*on_failure)(const nx_ranks_result *result);
    nx_ranks_result *result;
    process *processes;
    struct pollfd *polls; /* signals, our input, then two for each rank */
    nx_guardian guardian;
    uint32_t running;
    int signals;
    int input; /* to rank 0; -1: none */
    char fed[4096];
    size_t fed_len, fed_at;
    uint64_t kill_at; /* 0: nobody is being ended */
} ranks;

enum { POLL_SIGNALS, POLL_INPUT, POLL_FEED, POLL_RANKS };

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
    if (r->kill_at == 0) {
        r->kill_at = nx_now(&nx_clock_system) + r->config->grace_ns;
        r->kill_at += (r->kill_at == 0);
    }
}

static void on_end(ranks *r, uint32_t rank, int status)
{
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    const pid_t pid = r->processes[rank].pid;

    /* What it started and left behind goes with it. */
    (void)kill(-pid, SIGKILL);
    r->processes[rank].pid = 0;
    r->running--;
    if ((code != 0) && (r->result->rank < 0) && (r->kill_at == 0)) {
        r->result->code = code;
        r->result->rank = rank;
        r->result->pid = pid;
        if (r->on_failure != NULL) {
            r->on_failure(r->result);
        }
        end_all(r, SIGTERM);
    }
}

static void reap(ranks *r)
{
    for (uint32_t i = 0; i < r->config->n; i++) {
        int status;

        if ((r->processes[i].pid != 0) &&
            (waitpid(r->processes[i].pid, &status, WNOHANG) == r->processes[i].pid)) {
            on_end(r, i, status);
        }
    }
}

static bool ends_us(int number)
{
    return (number == SIGINT) || (number == SIGTERM) || (number == SIGHUP) || (number == SIGQUIT);
}

static void on_signal(ranks *r)
{
    struct signalfd_siginfo info;

    while (read(r->signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        int number = (int)info.ssi_signo;

        if (number == SIGCHLD) {
            continue; /* the loop reaps in every turn */
        }
        if (!ends_us(number)) {
            signal_all(r, number);
        } else if (r->result->ended_by == 0) {
            r->result->ended_by = number;
            end_all(r, number);
        } else {
            signal_all(r, SIGKILL); /* asked twice */
        }
    }
}

/* ---- input of rank 0 --------------------------------------------------------------- */

static void close_input(ranks *r)
{
    if (r->input >= 0) {
        (void)close(r->input);
        r->input = -1;
    }
}

static void read_input(ranks *r)
{
    ssize_t got = read(STDIN_FILENO, r->fed, sizeof(r->fed));

    if (got > 0) {
        r->fed_len = (size_t)got;
        r->fed_at = 0;
    } else if ((got == 0) || ((errno != EINTR) && (errno != EAGAIN))) {
        close_input(r);
    }
}

static void feed_input(ranks *r)
{
    ssize_t put = write(r->input, r->fed + r->fed_at, r->fed_len - r->fed_at);

    if (put > 0) {
        r->fed_at += (size_t)put;
        r->fed_len = (r->fed_at == r->fed_len) ? 0 : r->fed_len;
    } else if ((put < 0) && (errno != EINTR) && (errno != EAGAIN)) {
        close_input(r);
    }
}

/* ---- the loop -------------------------------------------------------------------------- */

static int poll_timeout(const ranks *r)
{
    uint64_t now = nx_now(&nx_clock_system);

    if (r->kill_at == 0) {
        return -1;
    }
    return (now >= r->kill_at) ? 0 : (int)((r->kill_at - now) / 1000000 + 1);
}

static void fill_polls(ranks *r)
{
    const bool full = r->fed_len != 0;

    r->polls[POLL_SIGNALS] = (struct pollfd){.fd = r->signals, .events = POLLIN};
    r->polls[POLL_INPUT] =
        (struct pollfd){.fd = ((r->input >= 0) && !full) ? STDIN_FILENO : -1, .events = POLLIN};
    r->polls[POLL_FEED] = (struct pollfd){.fd = full ? r->input : -1, .events = POLLOUT};
    for (uint32_t i = 0; i < r->config->n; i++) {
        r->polls[POLL_RANKS + 2 * i] =
            (struct pollfd){.fd = r->processes[i].out.from, .events = POLLIN};
        r->polls[POLL_RANKS + 2 * i + 1] =
            (struct pollfd){.fd = r->processes[i].err.from, .events = POLLIN};
    }
}

static void pump(ranks *r, const struct pollfd *p, nx_output *o)
{
    if ((p->fd >= 0) && (p->revents != 0)) {
        (void)nx_output_pump(o);
        if (o->broken && !r->result->output_lost) {
            r->result->output_lost = true;
            end_all(r, SIGTERM);
        }
    }
}

static bool pipes_open(const ranks *r)
{
    for (uint32_t i = 0; i < r->config->n; i++) {
        if ((r->processes[i].out.from >= 0) || (r->processes[i].err.from >= 0)) {
            return true;
        }
    }
    return false;
}

static void turn(ranks *r)
{
    fill_polls(r);
    if (poll(r->polls, POLL_RANKS + 2 * (nfds_t)r->config->n, poll_timeout(r)) < 0) {
        return; /* only EINTR can be */
    }
    for (uint32_t i = 0; i < r->config->n; i++) {
        pump(r, &r->polls[POLL_RANKS + 2 * i], &r->processes[i].out);
        pump(r, &r->polls[POLL_RANKS + 2 * i + 1], &r->processes[i].err);
    }
    if (r->polls[POLL_INPUT].revents != 0) {
        read_input(r);
    }
    if (r->polls[POLL_FEED].revents != 0) {
        feed_input(r);
    }
    if (r->polls[POLL_SIGNALS].revents != 0) {
        on_signal(r);
    }
    reap(r);
    if ((r->kill_at != 0) && (nx_now(&nx_clock_system) >= r->kill_at)) {
        signal_all(r, SIGKILL);
    }
}

/* ---- beginning and end ---------------------------------------------------------------------- */

static nexar_err start_rank(ranks *r, uint32_t rank, int digits)
{
    const nx_ranks_config *c = r->config;
    process *p = &r->processes[rank];
    nx_spawn s = {.argv = c->argv,
                  .join = c->join,
                  .rank = rank,
                  .size = c->n,
                  .pipes = c->prefix,
                  .stdin_ = rank == 0};
    nexar_err err = nx_spawn_rank(&s);

    if (err != NEXAR_OK) {
        return err;
    }
    nx_guardian_watch(&r->guardian, s.pid);
    p->pid = s.pid;
    r->running++;
    if (rank == 0) {
        r->input = s.in;
        (void)fcntl(r->input, F_SETFL, O_NONBLOCK);
    }
    if (c->prefix) {
        err = nx_output_init(&p->out, s.out, STDOUT_FILENO, rank, digits, c->colour_out);
    }
    if (c->prefix && (err == NEXAR_OK)) {
        err = nx_output_init(&p->err, s.err, STDERR_FILENO, rank, digits, c->colour_err);
    }
    return err;
}

static nexar_err start_all(ranks *r)
{
    char widest[16];
    int digits = snprintf(widest, sizeof(widest), "%u", r->config->n - 1);
    nexar_err err = NEXAR_OK;

    for (uint32_t i = 0; (i < r->config->n) && (err == NEXAR_OK); i++) {
        err = start_rank(r, i, digits);
    }
    return err;
}

/* Signals that come to us are read from a descriptor from now on. */
static nexar_err catch_signals(ranks *r)
{
    static const int numbers[] = {SIGCHLD, SIGINT,  SIGTERM, SIGHUP,  SIGQUIT,
                                  SIGUSR1, SIGUSR2, SIGCONT, SIGWINCH};
    sigset_t set;

    (void)sigemptyset(&set);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        (void)sigaddset(&set, numbers[i]);
    }
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    r->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return (r->signals < 0) ? nx_fail_sys("signalfd", "", errno) : NEXAR_OK;
}

static nexar_err prepare(ranks *r)
{
    const size_t n = r->config->n;
    nexar_err err;

    r->processes = nx_calloc(n, sizeof(*r->processes));
    r->polls = nx_calloc(POLL_RANKS + 2 * n, sizeof(*r->polls));
    if ((r->processes == NULL) || (r->polls == NULL)) {
        return nx_fail_nomem("the ranks");
    }
    for (size_t i = 0; i < n; i++) {
        r->processes[i].out.from = -1;
        r->processes[i].err.from = -1;
    }
    err = catch_signals(r);
    return (err == NEXAR_OK) ? nx_guardian_start(&r->guardian) : err;
}

static void fini(ranks *r)
{
    if (r->guardian.pid > 0) {
        nx_guardian_stop(&r->guardian);
    }
    for (uint32_t i = 0; (r->processes != NULL) && (i < r->config->n); i++) {
        nx_output_fini(&r->processes[i].out);
        nx_output_fini(&r->processes[i].err);
    }
    close_input(r);
    if (r->signals >= 0) {
        (void)close(r->signals);
    }
    nx_free(r->processes);
    nx_free(r->polls);
}

nexar_err nx_ranks_run(const nx_ranks_config *config,
                       void (*on_failure)(const nx_ranks_result *result), nx_ranks_result *result)
{
    ranks r = {
        .config = config, .on_failure = on_failure, .result = result, .signals = -1, .input = -1};
    nexar_err err;

    *result = (nx_ranks_result){.rank = -1};
    err = prepare(&r);
    if (err == NEXAR_OK) {
        err = start_all(&r);
    }
    if (err != NEXAR_OK) {
        signal_all(&r, SIGKILL);
        while (r.running > 0) {
            turn(&r);
        }
        fini(&r);
        return err;
    }
    while ((r.running > 0) || pipes_open(&r)) {
        turn(&r);
    }
    fini(&r);
    return NEXAR_OK;
}
