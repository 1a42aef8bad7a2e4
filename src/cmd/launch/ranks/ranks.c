/* ranks.c - local processes as ranks, around one poll. */
#include "ranks.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/os/sys.h"
#include "cmd/launch/io/pty.h"
#include "cmd/launch/io/signals.h"
#include "cmd/launch/orphans.h"
#include "ranks_inner.h"

enum { AT_SIGNALS, AT_LIFE, AT_NOTES, AT_NEWS, AT_OUT, AT_ERR, AT_RANKS };

void nx_ranks_tell(nx_ranks *r, const char *format, ...)
{
    char line[1280], who[32];
    va_list args;
    int len;

    va_start(args, format);
    len = vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    len = (len < (int)sizeof(line)) ? len : (int)sizeof(line) - 1;
    (void)snprintf(who, sizeof(who), "nexar %s: ", r->config->command);
    nx_output_sink_line(r->err, who, line, (len < 0) ? 0 : (size_t)len);
}

const char *nx_ranks_where(const nx_ranks *r, uint32_t rank, char buf[NX_WHERE_ROOM])
{
    const nx_ranks_far *far = r->config->far;
    const char *host = (far == NULL) ? "" : far->host(r->config->ctx, rank);

    (void)snprintf(buf, NX_WHERE_ROOM, "%s%spid %ld", host, (far == NULL) ? "" : " ",
                   (long)r->processes[rank].was);
    return buf;
}

/* ---- the loop ------------------------------------------------------------------------ */

/* Nanoseconds. */
static uint64_t poll_timeout(const nx_ranks *r)
{
    const uint64_t now = nx_now(&nx_clock_system);
    uint64_t at = nx_ranks_end_due(r);

    at = ((r->stuck_at != 0) && (r->stuck_at < at)) ? r->stuck_at : at;
    if (r->config->far != NULL) {
        const uint64_t far = r->config->far->due(r->config->ctx);

        at = (far < at) ? far : at;
    }
    if (r->hurried && (r->running == 0)) {
        return 0;
    }
    if (at == UINT64_MAX) {
        return UINT64_MAX;
    }
    return (now >= at) ? 0 : at - now;
}

static struct pollfd poll_sink(const nx_output_sink *s)
{
    return (struct pollfd){.fd = nx_output_sink_waits(s) ? s->to : -1, .events = POLLOUT};
}

/* While the sink is full, the output of the rank is not read: the rank waits as for a slow pipe. */
static struct pollfd poll_output(const nx_output *o)
{
    return (struct pollfd){.fd = nx_output_sink_full(o->to) ? -1 : o->from, .events = POLLIN};
}

static void fill_polls(nx_ranks *r)
{
    r->polls[AT_SIGNALS] = (struct pollfd){.fd = r->signals, .events = POLLIN};
    r->polls[AT_LIFE] = (struct pollfd){.fd = r->life, .events = POLLIN};
    r->polls[AT_NOTES] = poll_output(&r->notes);
    r->polls[AT_NEWS] = (struct pollfd){.fd = r->config->news, .events = POLLIN};
    r->polls[AT_OUT] = poll_sink(&r->sinks[0]);
    r->polls[AT_ERR] = poll_sink(&r->sinks[1]);
    for (uint32_t i = 0; i < r->started; i++) {
        r->polls[AT_RANKS + 2 * i] = poll_output(&r->processes[i].out);
        r->polls[AT_RANKS + 2 * i + 1] = poll_output(&r->processes[i].err);
    }
    if (r->config->far != NULL) {
        r->config->far->fill(r->config->ctx, r->polls + AT_RANKS + 2 * r->started,
                             nx_output_sink_full(r->out) || nx_output_sink_full(r->err));
    }
}

static void pump(const struct pollfd *p, nx_output *o)
{
    if ((p->fd >= 0) && (p->revents != 0)) {
        (void)nx_output_pump(o);
    }
}

static void flush(const struct pollfd *p, nx_output_sink *s)
{
    if ((p->fd >= 0) && (p->revents != 0)) {
        nx_output_sink_flush(s);
    }
}

/* Discards the event, which only wakes the loop. */
static void swallow(const struct pollfd *p)
{
    if ((p->fd >= 0) && (p->revents != 0)) {
        (void)nx_sys_event_clear(p->fd);
    }
}

/* Drops the remaining output, whose reader does not read. */
static void give_up_output(nx_ranks *r)
{
    nx_output_sink_break(r->out, ECANCELED);
    nx_output_sink_break(r->err, ECANCELED);
    for (uint32_t i = 0; i < r->started; i++) {
        nx_output_fini(&r->processes[i].out);
        nx_output_fini(&r->processes[i].err);
    }
}

/* Ends ranks whose output has no reader, unless this process has given up its output itself. */
static void check_output(nx_ranks *r)
{
    const int why = (r->out->broken != 0) ? r->out->broken : r->err->broken;

    if ((why != 0) && (why != ECANCELED) && (r->result->output_lost == 0)) {
        r->result->output_lost = why;
        nx_ranks_end(r, SIGTERM);
    }
}

static void turn(nx_ranks *r)
{
    const struct pollfd *p = r->polls;
    int ready;

    fill_polls(r);
    /* Passes no more entries than descriptors: poll rejects more than the limit. */
    ready = nx_sys_poll(r->polls, AT_RANKS + 2 * (nfds_t)r->started + r->config->far_polls,
                        poll_timeout(r));
    if (ready < 0) {
        return;
    }
    flush(&p[AT_OUT], &r->sinks[0]);
    flush(&p[AT_ERR], &r->sinks[1]);
    pump(&p[AT_NOTES], &r->notes);
    swallow(&p[AT_NEWS]);
    for (uint32_t i = 0; i < r->started; i++) {
        pump(&p[AT_RANKS + 2 * i], &r->processes[i].out);
        pump(&p[AT_RANKS + 2 * i + 1], &r->processes[i].err);
    }
    if (r->config->far != NULL) {
        r->config->far->turn(r->config->ctx, r, p + AT_RANKS + 2 * r->started);
    }
    check_output(r);
    nx_ranks_signals(r);
    nx_ranks_reap(r);
    nx_ranks_check_stops(r);
    nx_ranks_check_end(r);
    if ((r->life >= 0) && (p[AT_LIFE].revents != 0)) {
        r->life = -1;
        r->hurried = true;
        nx_ranks_kill(r);
    }
    if ((ready == 0) && r->hurried && (r->running == 0)) {
        give_up_output(r);
    }
}

/* Whether output is still to be read or written. */
static bool output_left(const nx_ranks *r)
{
    for (uint32_t i = 0; i < r->config->n; i++) {
        if ((r->processes[i].out.from >= 0) || (r->processes[i].err.from >= 0)) {
            return true;
        }
    }
    return nx_output_sink_waits(&r->sinks[0]) || nx_output_sink_waits(&r->sinks[1]);
}

/* Runs until all ranks have ended. Then ends the processes that they left, which may hold pipes
 * open. */
static void stay(nx_ranks *r)
{
    const nx_ranks_far *far = r->config->far;

    while ((r->running > 0) || ((far != NULL) && far->busy(r->config->ctx))) {
        turn(r);
    }
    nx_orphans_end();
    nx_output_drain(&r->notes);
    while (output_left(r)) {
        turn(r);
    }
}

/* ---- start and end ------------------------------------------------------------------- */

/* Reported once: the reason is the same for all later ranks. */
static void tell_no_pty(nx_ranks *r, uint32_t rank, int why)
{
    char text[128];

    if ((why != 0) && !r->said_no_pty) {
        r->said_no_pty = true;
        nx_ranks_tell(r,
                      "no pty for %s %u: %s; its output and that of later ones goes through "
                      "pipes, which programs buffer (--no-pty: no note)",
                      r->config->noun, (unsigned)rank, strerror_r(why, text, sizeof(text)));
    }
}

bool nx_ranks_measure(nx_ranks *r)
{
    const unsigned before = (unsigned)(r->digits + (int)r->host_width) + 3; /* "[7] " */

    if (!nx_pty_window(STDOUT_FILENO, &r->window)) {
        return false;
    }
    if (r->window.ws_col > before) {
        r->window.ws_col = (unsigned short)(r->window.ws_col - before);
    }
    return true;
}

/* Sets up the outputs of |rank|, read from |out| and |err|. */
static void init_outputs(nx_ranks *r, uint32_t rank, int out, int err)
{
    const nx_ranks_config *c = r->config;
    const char *host = (c->far == NULL) ? "" : c->far->host(c->ctx, rank);
    nx_rank_process *p = &r->processes[rank];
    char prefix[NX_PREFIX_ROOM];

    nx_output_prefix(prefix, host, rank, r->digits, c->colour_out);
    nx_output_init(&p->out, out, r->out, prefix);
    nx_output_prefix(prefix, host, rank, r->digits, c->colour_err);
    nx_output_init(&p->err, err, r->err, prefix);
    p->out.plain = p->err.plain = (c->output == NX_SPAWN_INHERIT);
}

/* Starts all at once; the result of each is reported later. */
static void start_far(nx_ranks *r)
{
    const nx_ranks_far *far = r->config->far;

    for (uint32_t i = 0; i < r->config->n; i++) {
        const size_t width = strlen(far->host(r->config->ctx, i)) + 1;

        r->host_width = (width > r->host_width) ? width : r->host_width;
        init_outputs(r, i, -1, -1);
        r->processes[i].pid = -1;
    }
    r->started = r->running = r->config->n;
    r->sized = nx_ranks_measure(r);
    far->start(r->config->ctx, r);
}

static nexar_err start_rank(nx_ranks *r, uint32_t rank)
{
    const nx_ranks_config *c = r->config;
    nx_rank_process *p = &r->processes[rank];
    nx_spawn s = {.cwd = -1,
                  .output = c->output,
                  .window = r->sized ? &r->window : NULL,
                  .input = (rank == 0) ? r->input : -1,
                  .files = &r->files};
    nexar_err err;

    c->ops->describe(c->ctx, rank, &s);
    err = nx_spawn_start(&s);
    if (err != NEXAR_OK) {
        return err;
    }
    tell_no_pty(r, rank, s.no_pty);
    p->pid = p->was = s.pid;
    r->started++;
    r->running++;
    init_outputs(r, rank, s.out, s.err);
    return NEXAR_OK;
}

static nexar_err start_all(nx_ranks *r)
{
    char widest[16];
    nexar_err err = NEXAR_OK;

    r->digits = snprintf(widest, sizeof(widest), "%u", r->config->n - 1);
    if (r->config->far != NULL) {
        start_far(r);
        return NEXAR_OK;
    }
    r->sized = nx_ranks_measure(r);
    for (uint32_t i = 0; (i < r->config->n) && (err == NEXAR_OK); i++) {
        err = start_rank(r, i);
    }
    (void)nx_sys_close(r->input); /* rank 0 owns it */
    r->input = -1;
    return err;
}

/* Two descriptors per rank may exceed the soft limit. */
static void raise_limit(nx_ranks *r)
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

static nexar_err prepare(nx_ranks *r)
{
    const size_t n = r->config->n;
    char who[32];

    r->processes = nx_calloc(n, sizeof(*r->processes));
    r->polls = nx_calloc(AT_RANKS + 2 * n + r->config->far_polls, sizeof(*r->polls));
    if ((r->processes == NULL) || (r->polls == NULL)) {
        return nx_fail_nomem("the ranks");
    }
    nx_output_sink_init(&r->sinks[0], STDOUT_FILENO);
    nx_output_sink_init(&r->sinks[1], STDERR_FILENO);
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

static void fini(nx_ranks *r)
{
    for (uint32_t i = 0; (r->processes != NULL) && (i < r->config->n); i++) {
        nx_output_fini(&r->processes[i].out);
        nx_output_fini(&r->processes[i].err);
    }
    r->notes.from = -1; /* borrowed */
    nx_output_fini(&r->notes);
    nx_output_sink_fini(&r->sinks[0]);
    nx_output_sink_fini(&r->sinks[1]);
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
    nx_ranks r = {.config = config,
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
            nx_ranks_kill(&r);
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
