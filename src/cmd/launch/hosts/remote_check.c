/* remote_check.c - whether the hosts of a job can be used. */
#include <signal.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/os/sys.h"
#include "cmd/cmd.h"
#include "cmd/launch/io/signals.h"
#include "remote_inner.h"

/* ---- checks -------------------------------------------------------------------------- */

static void open_links(nx_remote_job *r)
{
    for (size_t i = 0; i < r->n; i++) {
        nx_agent_link *link = &r->links[i];

        if (nx_agent_link_open(link, &r->job->shell, r->job->hosts->hosts[i], &r->setup,
                               r->job->host_timeout_ns, &r->files) != NEXAR_OK) {
            nx_agent_link_lose(link, "%s", nexar_last_error());
        }
    }
}

nx_agent_link *nx_remote_link_of(const nx_remote_job *r, pid_t pid)
{
    for (size_t i = 0; i < r->n; i++) {
        if (r->links[i].pid == pid) {
            return &r->links[i];
        }
    }
    return NULL;
}

/* The number of hosts that have not answered. */
static size_t unchecked(const nx_remote_job *r)
{
    size_t n = 0;

    for (size_t i = 0; i < r->n; i++) {
        n += (r->links[i].state == NX_AGENT_SILENT) || (r->links[i].state == NX_AGENT_CHECKS);
    }
    return n;
}

/* No frame about ranks arrives before they are started. */
static void ignore_frame(void *ctx, nx_agent_link *link, const nx_agent_frame *frame)
{
    (void)ctx;
    nx_agent_link_lose(link, "what came over %s is not of an agent of nexar (%u)", link->tool,
                       frame->kind);
}

uint64_t nx_remote_due(const nx_remote_job *r)
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

static void reap_links(nx_remote_job *r)
{
    siginfo_t info = {0};

    while ((nx_sys_waitid(P_ALL, 0, &info, WEXITED | WNOHANG) == 0) && (info.si_pid != 0)) {
        nx_agent_link *link = nx_remote_link_of(r, info.si_pid);

        if (link != NULL) {
            nx_agent_link_exited(link, &info, ignore_frame, NULL);
        }
        info.si_pid = 0;
    }
}

/* The first signal that requests the end; 0: none. */
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

/* Returns 0 when all hosts have answered or are lost; 128 + the signal if one arrives earlier. */
static int await_checks(nx_remote_job *r, int signals, int life)
{
    while (unchecked(r) > 0) {
        int number;

        r->polls[0] = (struct pollfd){.fd = signals, .events = POLLIN};
        r->polls[1] = (struct pollfd){.fd = life, .events = POLLIN};
        for (size_t i = 0; i < r->n; i++) {
            nx_agent_link_fill(&r->links[i], r->polls + 2 + NX_AGENT_POLLS * i, false);
        }
        if (nx_sys_poll(r->polls, 2 + NX_AGENT_POLLS * r->n, timeout_until(nx_remote_due(r))) < 0) {
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

/* Prints one line for each unusable host. 0: all hosts are usable. */
static int report_checks(const nx_remote_job *r)
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

int nx_remote_check(nx_remote_job *r, int life)
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
