/* remote_carry.c - connects ranks.c to ranks on other hosts, through the links to their agents. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/os/sys.h"
#include "cmd/cmd.h"
#include "cmd/launch/ranks/spawn.h"
#include "remote_inner.h"

/* ---- frames of agents ---------------------------------------------------------------- */

static void on_taken(nx_remote_job *r, const nx_agent_link *link, uint32_t bytes)
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

static void on_ended(nx_remote_job *r, uint32_t rank, uint32_t code)
{
    siginfo_t info = {.si_code = CLD_EXITED, .si_status = (int)code};

    if (code >= NX_AGENT_KILLED) {
        info = (siginfo_t){.si_code = CLD_KILLED, .si_status = (int)(code - NX_AGENT_KILLED)};
    }
    nx_ranks_far_ended(r->ranks, rank, &info);
}

static void on_output(nx_remote_job *r, const nx_agent_link *link, const nx_agent_frame *frame)
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
    nx_remote_job *r = ctx;
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

/* ---- ranks on other hosts: nx_ranks_far ---------------------------------------------- */

static void far_start(void *ctx, nx_ranks *ranks)
{
    nx_remote_job *r = ctx;
    nx_agent_start s = {
        .join = r->join,
        .size = nx_remote_world_size(r),
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
    nx_remote_job *r = ctx;

    for (size_t i = 0; i < r->n; i++) {
        if (r->links[i].state == NX_AGENT_IS_READY) {
            nx_agent_put_numbers(&r->links[i].to, NX_AGENT_SIGNAL, (uint32_t)number, 0);
        }
    }
}

static void far_fill(void *ctx, struct pollfd *polls, bool full)
{
    nx_remote_job *r = ctx;
    const bool wanted = r->unread < NX_AGENT_WINDOW;

    polls[0] = (struct pollfd){.fd = wanted ? r->input : -1, .events = POLLIN};
    for (size_t i = 0; i < r->n; i++) {
        nx_agent_link_fill(&r->links[i], polls + 1 + NX_AGENT_POLLS * i, full);
    }
}

static void read_input(nx_remote_job *r)
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

/* Reports once: the ranks of lost hosts are lost, the ranks of hosts that are done have ended. */
static void note_losses(nx_remote_job *r)
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

static void drop_hosts(nx_remote_job *r)
{
    r->dropped = true;
    for (size_t i = 0; i < r->n; i++) {
        nx_agent_link_lose(&r->links[i], "given up; its agent ends the ranks there");
    }
}

static void far_turn(void *ctx, nx_ranks *ranks, const struct pollfd *polls)
{
    nx_remote_job *r = ctx;

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
    return nx_remote_due(ctx);
}

static void far_child(void *ctx, nx_ranks *ranks, const siginfo_t *info)
{
    nx_remote_job *r = ctx;
    nx_agent_link *link = nx_remote_link_of(r, info->si_pid);

    (void)ranks;
    if (link != NULL) {
        nx_agent_link_exited(link, info, on_frame, r);
        note_losses(r);
    }
}

/* ssh may still transmit the end of its input. */
static bool far_busy(void *ctx)
{
    const nx_remote_job *r = ctx;

    for (size_t i = 0; i < r->n; i++) {
        if (r->links[i].pid != 0) {
            return !r->dropped;
        }
    }
    return false;
}

static const char *far_host(void *ctx, uint32_t rank)
{
    const nx_remote_job *r = ctx;
    const nx_host_list *hosts = r->job->hosts;
    size_t i = 0;

    while ((i + 1 < hosts->n) && (rank >= hosts->hosts[i + 1]->first)) {
        i++;
    }
    return hosts->hosts[i]->name;
}

const nx_ranks_far nx_remote_ops = {
    .start = far_start,
    .signal = far_signal,
    .fill = far_fill,
    .turn = far_turn,
    .due = far_due,
    .child = far_child,
    .busy = far_busy,
    .host = far_host,
};
