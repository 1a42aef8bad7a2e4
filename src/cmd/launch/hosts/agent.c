/* agent.c - the ranks of one host, around one poll. */
#include "agent.h"
#include "base/os/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent_frame.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "cmd/cmd.h"
#include "cmd/launch/front.h"
#include "cmd/launch/io/catchers.h"
#include "cmd/launch/io/signals.h"
#include "cmd/launch/orphans.h"
#include "cmd/launch/ranks/bind.h"
#include "cmd/launch/ranks/program_check.h"
#include "cmd/launch/ranks/spawn.h"

/* Time limit for the launcher to send SETUP. */
#define SETUP_NS UINT64_C(60000000000)

typedef struct agent_rank {
    pid_t pid;      /* 0: the rank has ended */
    int streams[2]; /* the output of the rank; -1: closed */
} agent_rank;

typedef struct agent {
    const nx_front_ends *ends;
    nx_agent_input in;
    nx_output_sink to;
    int signals;
    void *texts; /* the payload that |setup| points into */
    nx_agent_setup setup;
    nx_agent_start start;
    char *join;    /* "NEXAR_JOIN=..." */
    nx_bind cores; /* if ranks are bound */
    agent_rank *ranks;
    struct pollfd *polls; /* indexed by AT_, then two for each rank */
    uint32_t started, running;
    struct rlimit files;
    uint64_t heard_at, timeout_ns;
    bool abandoned; /* the launcher has exited or has violated the protocol */

    /* The input of rank 0: |fed| bytes wait for the pipe |feed|. */
    int feed; /* -1: none, or rank 0 reads no more */
    uint8_t food[NX_AGENT_WINDOW];
    size_t fed;
    bool fed_all; /* the input has ended */
} agent;

enum { AT_LAUNCHER, AT_LIFE, AT_SIGNALS, AT_OUT, AT_FEED, AT_RANKS };

/* ---- the input of rank 0 ------------------------------------------------------------- */

static void close_feed(agent *a)
{
    if (a->feed >= 0) {
        (void)nx_sys_close(a->feed);
        a->feed = -1;
        nx_agent_put_numbers(&a->to, NX_AGENT_TAKEN, UINT32_MAX, 0);
    }
    a->fed = 0;
}

static void feed(agent *a)
{
    const ssize_t put = (a->fed > 0) ? nx_sys_write(a->feed, a->food, a->fed) : 0;

    if (put > 0) {
        a->fed -= (size_t)put;
        memmove(a->food, a->food + put, a->fed);
        nx_agent_put_numbers(&a->to, NX_AGENT_TAKEN, (uint32_t)put, 0);
    }
    if (((put < 0) && (errno != EAGAIN)) || ((a->fed == 0) && a->fed_all)) {
        close_feed(a);
    }
}

static void on_input(agent *a, const nx_agent_frame *f)
{
    if (a->feed < 0) {
        return;
    }
    if (f->len > sizeof(a->food) - a->fed) {
        a->abandoned = true;
        return;
    }
    memcpy(a->food + a->fed, f->data, f->len);
    a->fed += f->len;
    feed(a);
}

/* ---- starting ------------------------------------------------------------------------ */

static void refuse(agent *a)
{
    nx_agent_put(&a->to, NX_AGENT_REFUSED, nexar_last_error(), strlen(nexar_last_error()));
}

static nexar_err prepare(const nx_agent_setup *s)
{
    if (chdir(s->directory) != 0) {
        char text[128];

        return nx_fail(NEXAR_EINVAL, "cannot enter %s: %s; give --cwd DIRECTORY", s->directory,
                       strerror_r(errno, text, sizeof(text)));
    }
    for (const char **env = s->env; *env != NULL; env++) {
        /* There is one thread, and the string remains valid. */
        (void)putenv((char *)(uintptr_t)*env); // NOLINT(concurrency-mt-unsafe)
    }
    return nx_compiled_check(s->argv[0]);
}

static void on_setup(agent *a, const nx_agent_frame *frame)
{
    nx_agent_frame kept = *frame;
    nexar_err err = NEXAR_OK;

    if (a->texts != NULL) {
        a->abandoned = true;
        return;
    }
    a->texts = nx_zalloc(frame->len);
    if (a->texts == NULL) {
        err = nx_fail_nomem("the arguments");
    } else {
        memcpy(a->texts, frame->data, frame->len);
        kept.data = a->texts;
        err = nx_agent_read_setup(&kept, &a->setup);
    }
    err = (err == NEXAR_OK) ? prepare(&a->setup) : err;
    if (err != NEXAR_OK) {
        refuse(a);
        return;
    }
    a->timeout_ns = (uint64_t)a->setup.timeout_ms * 1000000;
    nx_agent_put(&a->to, NX_AGENT_READY, NULL, 0);
}

static nexar_err open_feed(agent *a, int *theirs)
{
    int fds[2];

    if (a->start.first != 0) {
        return NEXAR_OK;
    }
    if (nx_sys_pipe(fds, 0) != 0) {
        return nx_fail_sys("pipe2", "", errno);
    }
    (void)fcntl(fds[1], F_SETFL, O_NONBLOCK);
    *theirs = fds[0];
    a->feed = fds[1];
    return NEXAR_OK;
}

enum { VARIABLE_ROOM = 48 };

static nexar_err start_rank(agent *a, uint32_t local, int input)
{
    char rank[VARIABLE_ROOM], size[VARIABLE_ROOM], local_rank[VARIABLE_ROOM],
        local_size[VARIABLE_ROOM];
    const char *env[] = {local_rank, local_size, a->join, rank, size, NULL};
    const struct winsize window = {.ws_col = (unsigned short)a->start.columns,
                                   .ws_row = (unsigned short)a->start.rows};
    nx_spawn s = {.argv = (char **)(uintptr_t)a->setup.argv,
                  .env = env,
                  .cpus = (a->cores.n > 0) ? nx_bind_core(&a->cores, local) : NULL,
                  .cwd = -1,
                  .input = input,
                  .output = (a->start.output == NX_SPAWN_PTY) ? NX_SPAWN_PTY : NX_SPAWN_PIPES,
                  .window = (a->start.columns > 0) ? &window : NULL,
                  .files = &a->files};
    nexar_err err;

    (void)snprintf(rank, sizeof(rank), "NEXAR_RANK=%u", a->start.first + local);
    (void)snprintf(size, sizeof(size), "NEXAR_WORLD_SIZE=%u", a->start.size);
    if (a->start.joins != 0) {
        env[3] = "NEXAR_RANK=auto"; /* a number from a launcher would be the same for all ranks */
        env[4] = NULL;
    }
    (void)snprintf(local_rank, sizeof(local_rank), "NEXAR_LOCAL_RANK=%u", local);
    (void)snprintf(local_size, sizeof(local_size), "NEXAR_LOCAL_SIZE=%u", a->start.ranks);
    err = nx_spawn_start(&s);
    if (err == NEXAR_OK) {
        a->ranks[local] = (agent_rank){.pid = s.pid, .streams = {s.out, s.err}};
        a->started++;
        a->running++;
        nx_agent_put_numbers(&a->to, NX_AGENT_STARTED, a->start.first + local, (uint32_t)s.pid);
    }
    return err;
}

static nexar_err start_ranks(agent *a)
{
    const size_t n = a->start.ranks, room = strlen(a->start.join) + sizeof("NEXAR_JOIN=");
    struct pollfd *polls = nx_grow(a->polls, AT_RANKS + 2 * n, sizeof(*polls));
    int input = -1;
    nexar_err err = NEXAR_OK;

    if (polls != NULL) {
        a->polls = polls;
    }
    a->ranks = nx_calloc(n, sizeof(*a->ranks));
    a->join = nx_zalloc(room);
    if ((polls == NULL) || (a->ranks == NULL) || (a->join == NULL)) {
        return nx_fail_nomem("the ranks");
    }
    (void)snprintf(a->join, room, "NEXAR_JOIN=%s", a->start.join);
    err = (a->start.bind != 0) ? nx_bind_init(&a->cores) : NEXAR_OK;
    err = (err == NEXAR_OK) ? open_feed(a, &input) : err;
    for (uint32_t i = 0; (err == NEXAR_OK) && (i < n); i++) {
        err = start_rank(a, i, (i == 0) ? input : -1);
    }
    if (input >= 0) {
        (void)nx_sys_close(input);
    }
    return err;
}

static uint32_t local_of(const agent *a, pid_t pid)
{
    uint32_t local = 0;

    while ((local < a->started) && (a->ranks[local].pid != pid)) {
        local++;
    }
    return local;
}

static bool is_rank(void *ctx, pid_t group)
{
    const agent *a = ctx;

    return (group > 0) && (local_of(a, group) < a->started);
}

/* On these two signals ranks report what they wait for: sent only to processes that catch them. */
static void signal_all(agent *a, int number)
{
    if ((number == SIGUSR1) || (number == SIGUSR2)) {
        nx_catchers_signal(number, is_rank, a);
        return;
    }
    for (uint32_t i = 0; i < a->started; i++) {
        if (a->ranks[i].pid != 0) {
            (void)kill(-a->ranks[i].pid, number);
        }
    }
}

static void on_start(agent *a, const nx_agent_frame *frame)
{
    if ((a->setup.argv == NULL) || (a->ranks != NULL) || !nx_agent_read_start(frame, &a->start)) {
        a->abandoned = true;
        return;
    }
    if (start_ranks(a) != NEXAR_OK) {
        refuse(a);
        signal_all(a, SIGKILL);
    }
    a->start.join = NULL; /* points into the frame, which is overwritten */
}

/* ---- the launcher -------------------------------------------------------------------- */

static void on_frame(agent *a, const nx_agent_frame *f)
{
    uint32_t number, unused;

    switch (f->kind) {
    case NX_AGENT_SETUP:
        on_setup(a, f);
        break;
    case NX_AGENT_START:
        on_start(a, f);
        break;
    case NX_AGENT_SIGNAL:
        if (nx_agent_numbers(f, &number, &unused)) {
            signal_all(a, (int)number);
        }
        break;
    case NX_AGENT_INPUT:
        on_input(a, f);
        break;
    case NX_AGENT_INPUT_END:
        a->fed_all = true;
        feed(a);
        break;
    case NX_AGENT_PING:
        nx_agent_put(&a->to, NX_AGENT_PONG, NULL, 0);
        break;
    default:
        a->abandoned = true;
    }
}

static void read_launcher(agent *a)
{
    nx_agent_frame f;
    int got;

    if (nx_agent_input_fill(&a->in, a->ends->input) < 0) {
        a->abandoned = true;
        return;
    }
    a->heard_at = nx_now(&nx_clock_system);
    while (((got = nx_agent_input_next(&a->in, &f)) == 1) && !a->abandoned) {
        on_frame(a, &f);
    }
    a->abandoned = a->abandoned || (got < 0);
}

/* Forwards signals of this process to the launcher, which decides. */
static void read_signals(agent *a)
{
    int number;

    while ((number = nx_signals_next(a->signals)) != 0) {
        if (nx_signal_ends(number)) {
            nx_agent_put_numbers(&a->to, NX_AGENT_WISH, (uint32_t)number, 0);
        }
    }
}

/* ---- output and ends of ranks -------------------------------------------------------- */

/* Forwards the result of one read. False: no data. */
static bool pump(agent *a, uint32_t local, int stream)
{
    uint8_t payload[NX_AGENT_OUTPUT_HEAD + NX_AGENT_CHUNK];
    int *fd = &a->ranks[local].streams[stream];
    const ssize_t got =
        (*fd < 0) ? 0 : nx_sys_read(*fd, payload + NX_AGENT_OUTPUT_HEAD, NX_AGENT_CHUNK);

    if (got > 0) {
        nx_agent_put_output(&a->to, a->start.first + local, (uint8_t)(stream + 1), payload,
                            (size_t)got);
    } else if ((*fd >= 0) && ((got == 0) || (errno != EAGAIN))) {
        (void)nx_sys_close(*fd); /* a pty ends with EIO */
        *fd = -1;
    }
    return got > 0;
}

/* Forwards all that the rank had printed when it ended: at most the capacity of a pipe or a pty. */
static void drain(agent *a, uint32_t local)
{
    for (int stream = 0; stream < 2; stream++) {
        for (int left = 128; (left > 0) && pump(a, local, stream); left--) {
        }
    }
}

static void reap(agent *a)
{
    siginfo_t info = {0};

    while ((nx_sys_waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0) &&
           (info.si_pid != 0)) {
        const uint32_t local = local_of(a, info.si_pid);
        const bool exited = info.si_code == CLD_EXITED;

        if (local < a->started) {
            (void)kill(-info.si_pid, SIGKILL); /* processes left in its process group */
        }
        (void)nx_sys_waitpid(info.si_pid, NULL, 0);
        if (local < a->started) {
            a->ranks[local].pid = 0;
            a->running--;
            drain(a, local);
            nx_agent_put_numbers(&a->to, NX_AGENT_ENDED, a->start.first + local,
                                 (uint32_t)info.si_status + (exited ? 0 : NX_AGENT_KILLED));
        }
        info.si_pid = 0;
    }
}

static void note_stops(agent *a)
{
    siginfo_t info = {0};

    while ((nx_sys_waitid(P_ALL, 0, &info, WSTOPPED | WCONTINUED | WNOHANG) == 0) &&
           (info.si_pid != 0)) {
        const uint32_t local = local_of(a, info.si_pid);

        if (local < a->started) {
            nx_agent_put_numbers(&a->to, NX_AGENT_STOPPED, a->start.first + local,
                                 (info.si_code == CLD_STOPPED) ? (uint32_t)info.si_status : 0);
        }
        info.si_pid = 0;
    }
}

/* ---- the loop ------------------------------------------------------------------------ */

static void fill_polls(const agent *a)
{
    const bool full = nx_output_sink_full(&a->to);

    a->polls[AT_LAUNCHER] = (struct pollfd){.fd = a->ends->input, .events = POLLIN};
    a->polls[AT_LIFE] = (struct pollfd){.fd = a->ends->life, .events = POLLIN};
    a->polls[AT_SIGNALS] = (struct pollfd){.fd = a->signals, .events = POLLIN};
    a->polls[AT_OUT] =
        (struct pollfd){.fd = nx_output_sink_waits(&a->to) ? a->to.to : -1, .events = POLLOUT};
    a->polls[AT_FEED] = (struct pollfd){.fd = (a->fed > 0) ? a->feed : -1, .events = POLLOUT};
    for (uint32_t i = 0; i < 2 * a->started; i++) {
        a->polls[AT_RANKS + i] =
            (struct pollfd){.fd = full ? -1 : a->ranks[i / 2].streams[i % 2], .events = POLLIN};
    }
}

static uint64_t poll_timeout(const agent *a)
{
    const uint64_t silent = nx_now(&nx_clock_system) - a->heard_at;

    if (a->timeout_ns == 0) {
        return UINT64_MAX;
    }
    return (silent >= a->timeout_ns) ? 0 : a->timeout_ns - silent;
}

static void turn(agent *a)
{
    const struct pollfd *p = a->polls;

    fill_polls(a);
    if (nx_sys_poll(a->polls, AT_RANKS + 2 * (nfds_t)a->started, poll_timeout(a)) < 0) {
        return;
    }
    if (p[AT_OUT].revents != 0) {
        nx_output_sink_flush(&a->to);
    }
    if (p[AT_FEED].revents != 0) {
        feed(a);
    }
    for (uint32_t i = 0; i < 2 * a->started; i++) {
        if (p[AT_RANKS + i].revents != 0) {
            (void)pump(a, i / 2, (int)(i % 2));
        }
    }
    read_signals(a);
    reap(a);
    note_stops(a);
    if (p[AT_LAUNCHER].revents != 0) {
        read_launcher(a); /* last: it moves |polls| */
    }
    a->abandoned =
        a->abandoned || (a->polls[AT_LIFE].revents != 0) || (a->to.broken != 0) ||
        ((a->timeout_ns != 0) && (nx_now(&nx_clock_system) - a->heard_at >= a->timeout_ns));
}

/* Whether output of the ranks is still to be read. */
static bool output_left(const agent *a)
{
    for (uint32_t i = 0; i < a->started; i++) {
        if ((a->ranks[i].streams[0] >= 0) || (a->ranks[i].streams[1] >= 0)) {
            return true;
        }
    }
    return false;
}

/* Runs until the ranks have ended. Then ends the processes that they have left, which may hold
 * their pipes open. Then sends all remaining output. */
static void stay(agent *a)
{
    while (!a->abandoned && ((a->started == 0) || (a->running > 0))) {
        turn(a);
    }
    signal_all(a, SIGKILL);
    nx_orphans_end();
    while (!a->abandoned && output_left(a)) {
        turn(a);
    }
    nx_agent_put(&a->to, NX_AGENT_DONE, NULL, 0);
    while (!a->abandoned && nx_output_sink_waits(&a->to)) {
        turn(a);
    }
}

static void raise_limit(agent *a)
{
    struct rlimit more;

    (void)getrlimit(RLIMIT_NOFILE, &a->files);
    more = a->files;
    more.rlim_cur = more.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &more);
}

static void fini(agent *a)
{
    for (uint32_t i = 0; i < a->started; i++) {
        for (int stream = 0; stream < 2; stream++) {
            if (a->ranks[i].streams[stream] >= 0) {
                (void)nx_sys_close(a->ranks[i].streams[stream]);
            }
        }
    }
    if (a->feed >= 0) {
        (void)nx_sys_close(a->feed);
    }
    if (a->signals >= 0) {
        (void)nx_sys_close(a->signals);
    }
    nx_bind_fini(&a->cores);
    nx_agent_input_fini(&a->in);
    nx_output_sink_fini(&a->to);
    nx_free(a->setup.argv);
    /* The environment points into the texts; the process ends now. */
    nx_free(a->setup.env);
    nx_free(a->ranks);
    nx_free(a->polls);
    nx_free(a->join);
}

static int keep(void *ctx, const nx_front_ends *ends)
{
    agent *a = ctx;
    nexar_err err;

    a->ends = ends;
    a->heard_at = nx_now(&nx_clock_system);
    nx_output_sink_init(&a->to, STDOUT_FILENO);
    nx_output_sink_line(&a->to, "\n" NX_AGENT_GREETING, nexar_version(), strlen(nexar_version()));
    raise_limit(a);
    (void)fcntl(STDOUT_FILENO, F_SETFL, O_NONBLOCK); /* under sshd, stdin may be a socket */
    a->polls = nx_calloc(AT_RANKS, sizeof(*a->polls));
    err = (a->polls == NULL) ? nx_fail_nomem("the agent") : nx_signals_open(&a->signals);
    if ((err == NEXAR_OK) && (a->polls != NULL)) {
        stay(a);
    }
    fini(a);
    return (err == NEXAR_OK) ? NX_EXIT_OK : nx_cmd_error("run", err);
}

int nx_agent_run(void)
{
    static agent a = {.signals = -1, .feed = -1, .timeout_ns = SETUP_NS};

    return nx_front_run(keep, &a);
}
