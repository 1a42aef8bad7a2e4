/* agent_link.c - the launcher's end of one agent. */
#include "agent_link.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/os/sys.h"
#include "base/text/text.h"
#include "cmd/launch/ranks/spawn.h"

/* PINGs in the time after which a silent agent counts as lost. */
enum { PINGS = 4 };
/* Time limit for ssh to exit after the agent. */
#define LINGER_NS UINT64_C(5000000000)

static void close_fd(int *fd)
{
    if (*fd >= 0) {
        (void)nx_sys_close(*fd);
        *fd = -1;
    }
}

void nx_agent_link_close(nx_agent_link *link)
{
    close_fd(&link->in);
    close_fd(&link->out);
    close_fd(&link->err);
    link->to.len = 0;
    if (link->pid != 0) {
        (void)kill(link->pid, SIGTERM);
    }
}

void nx_agent_link_fini(nx_agent_link *link)
{
    nx_agent_link_close(link);
    nx_output_sink_fini(&link->to);
    nx_agent_input_fini(&link->from);
}

void nx_agent_link_lose(nx_agent_link *link, const char *format, ...)
{
    va_list args;

    if ((link->state == NX_AGENT_IS_LOST) || (link->state == NX_AGENT_IS_DONE)) {
        return;
    }
    va_start(args, format);
    (void)vsnprintf(link->why, sizeof(link->why), format, args);
    va_end(args);
    nx_clean_text(link->why, strlen(link->why));
    link->state = NX_AGENT_IS_LOST;
    link->closed_at = nx_now(&nx_clock_system);
    nx_agent_link_close(link);
}

/* ---- starting ------------------------------------------------------------------------ */

static nexar_err start(nx_agent_link *link, char **argv, const struct rlimit *files)
{
    /* Removed from the environment of ssh: the join string is secret, and ssh may be configured
     * to send variables. */
    static const char *const env[] = {"NEXAR_JOIN", "NEXAR_JOIN_FILE", "NEXAR_TOKEN",
                                      "NEXAR_TOKEN_FILE", NULL};
    nx_spawn s = {.argv = argv, .env = env, .cwd = -1, .output = NX_SPAWN_PIPES, .files = files};
    nexar_err err;
    int fds[2];

    if (nx_sys_pipe(fds, 0) != 0) {
        return nx_fail_sys("pipe2", "", errno);
    }
    s.input = fds[0];
    err = nx_spawn_start(&s);
    (void)nx_sys_close(fds[0]);
    if (err != NEXAR_OK) {
        (void)nx_sys_close(fds[1]);
        return err;
    }
    (void)fcntl(fds[1], F_SETFL, O_NONBLOCK);
    link->pid = s.pid;
    link->in = fds[1];
    link->out = s.out;
    link->err = s.err;
    return NEXAR_OK;
}

nexar_err nx_agent_link_open(nx_agent_link *link, const nx_shell *shell, const nx_host *host,
                             const nx_agent_setup *setup, uint64_t timeout_ns,
                             const struct rlimit *files)
{
    nx_command_line words = {0};
    nexar_err err;

    *link = (nx_agent_link){.host = host,
                            .in = -1,
                            .out = -1,
                            .err = -1,
                            .timeout_ns = timeout_ns,
                            .heard_at = nx_now(&nx_clock_system),
                            .setup = setup};
    {
        char buf[sizeof(link->tool)];

        (void)snprintf(link->tool, sizeof(link->tool), "%s",
                       nx_shell_name(shell, host, buf, sizeof(buf)));
    }
    err = nx_shell_words(shell, host, &words);
    if (err == NEXAR_OK) {
        err = start(link, words.argv, files);
    }
    nx_output_sink_init(&link->to, link->in);
    nx_command_line_fini(&words);
    return err;
}

/* ---- reason of the end --------------------------------------------------------------- */

/* Keeps the end of the process's stderr. */
static void read_words(nx_agent_link *link)
{
    char bytes[NX_AGENT_TAIL / 2];
    const ssize_t got = (link->err < 0) ? -1 : nx_sys_read(link->err, bytes, sizeof(bytes));
    const size_t have = strlen(link->words), add = (got > 0) ? (size_t)got : 0;
    const size_t over =
        (have + add < sizeof(link->words)) ? 0 : have + add + 1 - sizeof(link->words);

    if ((got == 0) || ((got < 0) && (errno != EAGAIN))) {
        close_fd(&link->err);
        return;
    }
    for (size_t i = 0; i < add; i++) { /* makes the bytes a text */
        if (bytes[i] == '\0') {
            bytes[i] = '?';
        }
    }
    memmove(link->words, link->words + over, have - over);
    memcpy(link->words + have - over, bytes, add);
    link->words[have - over + add] = '\0';
}

/* The last lines of |words| as one: "a; b". */
static void last_words(const nx_agent_link *link, char *out, size_t size)
{
    enum { LINES = 3 };
    char copy[sizeof(link->words)];
    const char *lines[LINES] = {NULL};
    char *save = NULL;
    size_t len = 0;

    memcpy(copy, link->words, sizeof(copy));
    for (char *line = strtok_r(copy, "\r\n", &save); line != NULL;
         line = strtok_r(NULL, "\r\n", &save)) {
        memmove(lines, lines + 1, sizeof(lines) - sizeof(lines[0]));
        lines[LINES - 1] = line;
    }
    out[0] = '\0';
    for (int i = 0; i < LINES; i++) {
        if ((lines[i] != NULL) && (len < size)) {
            const int got =
                snprintf(out + len, size - len, "%s%s", (len == 0) ? "" : "; ", lines[i]);

            len += (got > 0) ? (size_t)got : 0;
        }
    }
}

static void lose_by_end(nx_agent_link *link)
{
    char said[NX_ERROR_ROOM / 2];
    const char *before;

    last_words(link, said, sizeof(said));
    if ((said[0] == '\0') && (link->state == NX_AGENT_SILENT)) {
        (void)snprintf(said, sizeof(said), "%s", link->noise);
    }
    before = (said[0] == '\0') ? "" : ": ";
    if (link->code >= NX_AGENT_KILLED) {
        nx_agent_link_lose(link, "%s was killed by signal %d%s%s", link->tool,
                           link->code - NX_AGENT_KILLED, before, said);
    } else {
        nx_agent_link_lose(link, "%s ended with code %d%s%s", link->tool, link->code, before, said);
    }
}

/* ---- receiving ----------------------------------------------------------------------- */

/* Lines before the greeting are a login shell's. */
static void read_greeting(nx_agent_link *link)
{
    static const char greeting[] = NX_AGENT_GREETING;
    char line[sizeof(link->noise)];

    if ((link->state == NX_AGENT_SILENT) && (link->from.len > NX_AGENT_PAYLOAD_MAX)) {
        nx_agent_link_lose(link, "what came over %s is not of an agent of nexar", link->tool);
    }
    while ((link->state == NX_AGENT_SILENT) &&
           nx_agent_input_line(&link->from, line, sizeof(line))) {
        const char *version = line + sizeof(greeting) - 1;

        if (strncmp(line, greeting, sizeof(greeting) - 1) != 0) {
            if (line[0] != '\0') {
                memcpy(link->noise, line, sizeof(line));
            }
        } else if (strcmp(version, nexar_version()) != 0) {
            nx_agent_link_lose(link,
                               "nexar there is version %s, here %s; install the same, or give "
                               "--remote-nexar PATH",
                               version, nexar_version());
        } else {
            link->state = NX_AGENT_CHECKS;
            nx_agent_put_setup(&link->to, link->setup);
            link->setup = NULL;
        }
    }
}

static void on_refused(nx_agent_link *link, const nx_agent_frame *frame)
{
    char text[NX_ERROR_ROOM];

    link->refused = true;
    nx_agent_link_lose(link, "%s", nx_agent_sentence(frame, text, sizeof(text)) ? text : "refused");
}

static void read_frames(nx_agent_link *link, nx_agent_on_frame *on_frame, void *ctx)
{
    nx_agent_frame f;
    int got = 0;

    while ((link->state != NX_AGENT_SILENT) && (link->state != NX_AGENT_IS_LOST) &&
           ((got = nx_agent_input_next(&link->from, &f)) == 1)) {
        switch (f.kind) {
        case NX_AGENT_PONG:
            break;
        case NX_AGENT_READY:
            link->state = NX_AGENT_IS_READY;
            link->words[0] = '\0'; /* a banner or a warning, not the reason of a later end */
            break;
        case NX_AGENT_REFUSED:
            on_refused(link, &f);
            break;
        case NX_AGENT_DONE:
            link->state = NX_AGENT_IS_DONE;
            link->closed_at = nx_now(&nx_clock_system);
            close_fd(&link->in);
            break;
        default:
            on_frame(ctx, link, &f);
        }
    }
    if (got < 0) {
        nx_agent_link_lose(link, "what came over %s is not of an agent of nexar", link->tool);
    }
}

/* Reads once. False: no data. */
static bool read_agent(nx_agent_link *link, nx_agent_on_frame *on_frame, void *ctx)
{
    const long got = (link->out < 0) ? -1 : nx_agent_input_fill(&link->from, link->out);

    if (got <= 0) {
        if (got < 0) {
            close_fd(&link->out);
        }
        return false;
    }
    link->heard_at = nx_now(&nx_clock_system);
    read_greeting(link);
    read_frames(link, on_frame, ctx);
    return true;
}

/* ---- the owner's loop ---------------------------------------------------------------- */

void nx_agent_link_fill(const nx_agent_link *link, struct pollfd polls[NX_AGENT_POLLS], bool full)
{
    polls[0] =
        (struct pollfd){.fd = nx_output_sink_waits(&link->to) ? link->in : -1, .events = POLLOUT};
    polls[1] = (struct pollfd){.fd = full ? -1 : link->out, .events = POLLIN};
    polls[2] = (struct pollfd){.fd = link->err, .events = POLLIN};
}

static bool alive(const nx_agent_link *link)
{
    return (link->state != NX_AGENT_IS_LOST) && (link->state != NX_AGENT_IS_DONE);
}

static void keep_time(nx_agent_link *link, bool full)
{
    const uint64_t now = nx_now(&nx_clock_system);

    if (!alive(link)) {
        if ((link->pid != 0) && (now - link->closed_at >= LINGER_NS)) {
            (void)kill(link->pid, SIGKILL);
        }
        return;
    }
    if ((link->to.broken != 0) && (link->to.broken != EPIPE)) { /* the exit gives the reason */
        char text[128];

        nx_agent_link_lose(link, "cannot send to %s: %s", link->tool,
                           strerror_r(link->to.broken, text, sizeof(text)));
        return;
    }
    if (full) {
        link->heard_at = now; /* no reader is left */
    }
    if (now - link->heard_at >= link->timeout_ns) {
        char text[NX_NUMBER_ROOM];

        nx_agent_link_lose(link, "nothing was heard from there for %s; ended %s",
                           nx_format_duration(link->timeout_ns, text), link->tool);
    } else if ((link->state == NX_AGENT_IS_READY) &&
               (now - link->pinged_at >= link->timeout_ns / PINGS)) {
        link->pinged_at = now;
        nx_agent_put(&link->to, NX_AGENT_PING, NULL, 0);
    }
}

void nx_agent_link_turn(nx_agent_link *link, const struct pollfd polls[NX_AGENT_POLLS],
                        nx_agent_on_frame *on_frame, void *ctx)
{
    if ((polls[0].fd >= 0) && (polls[0].revents != 0)) {
        nx_output_sink_flush(&link->to);
    }
    if ((polls[2].fd >= 0) && (polls[2].revents != 0)) {
        read_words(link);
    }
    if ((polls[1].fd >= 0) && (polls[1].revents != 0)) {
        (void)read_agent(link, on_frame, ctx);
    }
    keep_time(link, (polls[1].fd < 0) && (link->out >= 0));
}

void nx_agent_link_exited(nx_agent_link *link, const siginfo_t *info, nx_agent_on_frame *on_frame,
                          void *ctx)
{
    link->pid = 0;
    link->code = info->si_status + ((info->si_code == CLD_EXITED) ? 0 : NX_AGENT_KILLED);
    while (read_agent(link, on_frame, ctx)) {
    }
    read_words(link);
    lose_by_end(link);
    nx_agent_link_close(link);
}

uint64_t nx_agent_link_due(const nx_agent_link *link)
{
    uint64_t silent;

    if (!alive(link)) {
        return (link->pid != 0) ? link->closed_at + LINGER_NS : UINT64_MAX;
    }
    silent = link->heard_at + link->timeout_ns;
    if ((link->state == NX_AGENT_IS_READY) &&
        (link->pinged_at + link->timeout_ns / PINGS < silent)) {
        return link->pinged_at + link->timeout_ns / PINGS;
    }
    return silent;
}
