/* ranks_far.c - ranks on other hosts: the events that their agents report. */
#include <signal.h>

#include "ranks_inner.h"

bool nx_ranks_far_window(const nx_ranks *r, uint32_t *columns, uint32_t *rows)
{
    *columns = r->sized ? r->window.ws_col : 0;
    *rows = r->sized ? r->window.ws_row : 0;
    return r->sized;
}

bool nx_ranks_far_hurried(const nx_ranks *r)
{
    return r->hurried;
}

static bool runs(const nx_ranks *r, uint32_t rank)
{
    return (rank < r->config->n) && (r->processes[rank].pid != 0);
}

void nx_ranks_far_started(nx_ranks *r, uint32_t rank, pid_t pid)
{
    if (runs(r, rank)) {
        r->processes[rank].pid = r->processes[rank].was = pid;
    }
}

/* Also for a rank that has ended: a process that it has left may print. */
void nx_ranks_far_printed(nx_ranks *r, uint32_t rank, int stream, const char *bytes, size_t len)
{
    if (rank < r->config->n) {
        nx_output_push((stream == 1) ? &r->processes[rank].out : &r->processes[rank].err, bytes,
                       len);
    }
}

static void end_outputs(nx_rank_process *p)
{
    nx_output_end(&p->out);
    nx_output_end(&p->err);
}

void nx_ranks_far_ended(nx_ranks *r, uint32_t rank, const siginfo_t *info)
{
    if (runs(r, rank)) {
        end_outputs(&r->processes[rank]);
        nx_ranks_on_end(r, rank, info);
    }
}

void nx_ranks_far_stopped(nx_ranks *r, uint32_t rank, int number)
{
    if (runs(r, rank) && (number != 0)) {
        nx_ranks_on_stop(r, rank, number);
    } else if (runs(r, rank)) {
        r->processes[rank].stopped = 0;
    }
}

void nx_ranks_far_lost(nx_ranks *r, uint32_t first, uint32_t n, int code, const char *why)
{
    const bool elastic = r->config->elastic;
    uint32_t lost = 0;

    for (uint32_t i = first; i < first + n; i++) {
        end_outputs(&r->processes[i]);
        lost += runs(r, i) ? 1 : 0;
        r->processes[i].pid = 0;
    }
    r->running -= lost;
    if (r->ending && (lost == 0)) {
        return;
    }
    nx_ranks_tell(r, "%s%s", why,
                  ((r->running > 0) && !elastic && !r->ending) ? "; ending the others" : "");
    if ((r->result->rank < 0) && (r->result->ended_by == 0)) {
        r->result->rank = first;
        r->result->code = code;
    }
    if (!elastic && !r->ending) {
        nx_ranks_end(r, SIGTERM);
    }
}

void nx_ranks_far_wish(nx_ranks *r, int number)
{
    if (r->wishes == 0) {
        nx_ranks_wish(r, number);
    }
}
