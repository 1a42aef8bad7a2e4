/* ranks_end.c - the end of one rank, and its consequences for the others. */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/os/sys.h"
#include "base/text/text.h"
#include "core/config/settings.h"
#include "ranks_inner.h"

/* Time by which a consequence may be observed before its cause. The links of a failing rank
 * close before its process has exited, and the seed is notified after both. */
#define BLAME_NS UINT64_C(3000000000)

void nx_ranks_signal(const nx_ranks *r, int number)
{
    if (r->config->far != NULL) {
        r->config->far->signal(r->config->ctx, number);
        return;
    }
    for (uint32_t i = 0; i < r->config->n; i++) {
        if (r->processes[i].pid != 0) {
            (void)kill(-r->processes[i].pid, number);
        }
    }
}

void nx_ranks_end(nx_ranks *r, int number)
{
    nx_ranks_signal(r, number);
    nx_ranks_signal(r, SIGCONT); /* a stopped rank could not receive the signal */
    if (!r->ending) {
        r->ending = true;
        r->kill_at = nx_now(&nx_clock_system) + r->config->grace_ns;
        r->kill_at += (r->kill_at == 0);
    }
}

void nx_ranks_kill(nx_ranks *r)
{
    r->ending = true;
    r->kill_at = 0;
    nx_ranks_signal(r, SIGKILL);
}

/* ---- a failed rank ------------------------------------------------------------------- */

static void tell_failure(nx_ranks *r, uint32_t rank, const siginfo_t *info)
{
    char room[NX_WHERE_ROOM];
    const char *where = nx_ranks_where(r, rank, room);
    const char *others = ((r->running > 0) && !r->config->elastic) ? "; ending the others" : "";

    if (info->si_code == CLD_EXITED) {
        nx_ranks_tell(r, "%s %u (%s) exited with code %d%s", r->config->noun, (unsigned)rank, where,
                      info->si_status, others);
    } else {
        nx_ranks_tell(r, "%s %u (%s) was killed by signal %d (%s)%s", r->config->noun,
                      (unsigned)rank, where, info->si_status,
                      strsignal(info->si_status), // NOLINT(concurrency-mt-unsafe)
                      others);
    }
}

/* |rank| has failed: ends the others, unless they may continue without it. */
static void blame(nx_ranks *r, uint32_t rank, const siginfo_t *info)
{
    if (r->result->rank < 0) {
        r->result->code = (info->si_code == CLD_EXITED) ? info->si_status : 128 + info->si_status;
        r->result->rank = rank;
    }
    tell_failure(r, rank, info);
    if (!r->config->elastic) {
        nx_ranks_end(r, SIGTERM);
    }
}

/* No other rank was observed to fail: names the first rank that reported a failure. */
static void blame_follower(nx_ranks *r)
{
    const siginfo_t info = {.si_code = CLD_EXITED, .si_status = NX_ABORT_CODE};

    if ((r->follower >= 0) && !r->ending &&
        ((r->running == 0) || (nx_now(&nx_clock_system) >= r->blame_at))) {
        blame(r, (uint32_t)r->follower, &info);
        r->follower = -1;
    }
}

/* ---- a rank that has not called nexar_finalize --------------------------------------- */

static nx_presence presence(const nx_ranks *r, uint32_t rank)
{
    const nx_ranks_ops *ops = r->config->ops;

    return (ops->presence == NULL) ? NX_PRESENCE_NONE : ops->presence(r->config->ctx, rank);
}

/* Its last frame to the seed may still be in flight: see check_unsaid. */
static void note_silent_exit(nx_ranks *r, uint32_t rank)
{
    const nx_presence now = presence(r, rank);

    if ((r->running > 0) && ((now == NX_PRESENCE_JOINED) || (now == NX_PRESENCE_LOST))) {
        r->processes[rank].unsaid_at = nx_now(&nx_clock_system) + BLAME_NS;
        r->unsaid++;
    }
}

static void forget_unsaid(nx_ranks *r, nx_rank_process *p)
{
    p->unsaid_at = 0;
    r->unsaid--;
}

/* Several ranks have not called it: prints one line, which names the first. */
static void tell_unsaid_all(nx_ranks *r)
{
    const unsigned n = r->unsaid;

    for (uint32_t i = 0; r->unsaid > 0; i++) {
        if (r->processes[i].unsaid_at != 0) {
            if (r->unsaid == n) {
                nx_ranks_tell(r,
                              "%u ranks exited with code 0 without nexar_finalize, such as %s %u",
                              n, r->config->noun, (unsigned)i);
            }
            forget_unsaid(r, &r->processes[i]);
        }
    }
}

/*
 * Reports that an exited rank has missed nexar_finalize in one of three cases. The seed reports
 * that its connection is lost. Another rank ends because a rank has failed. Or the seed has not
 * received its last frame BLAME_NS after the exit.
 */
static void check_unsaid(nx_ranks *r)
{
    char where[NX_WHERE_ROOM];
    const bool late = (r->running == 0) || (r->follower >= 0) || r->ending;

    for (uint32_t i = 0; (r->unsaid > 0) && (i < r->started); i++) {
        nx_rank_process *p = &r->processes[i];
        nx_presence now;

        if (p->unsaid_at == 0) {
            continue;
        }
        now = presence(r, i);
        if (now == NX_PRESENCE_FINALIZED) {
            forget_unsaid(r, p);
        } else if ((r->running == 0) && (r->unsaid > 1)) {
            tell_unsaid_all(r);
        } else if (late || (now == NX_PRESENCE_LOST) ||
                   (nx_now(&nx_clock_system) >= p->unsaid_at)) {
            nx_ranks_tell(r, "%s %u (%s) exited with code 0 without nexar_finalize",
                          r->config->noun, (unsigned)i, nx_ranks_where(r, i, where));
            forget_unsaid(r, p);
        }
    }
}

/* ---- a rank that has ended ----------------------------------------------------------- */

void nx_ranks_on_end(nx_ranks *r, uint32_t rank, const siginfo_t *info)
{
    const int code = (info->si_code == CLD_EXITED) ? info->si_status : 128 + info->si_status;
    nx_rank_process *p = &r->processes[rank];

    p->pid = 0;
    r->running--;
    r->well = r->well || (code == 0);
    nx_output_drain(&p->out);
    nx_output_drain(&p->err);
    if (r->ending) {
        return;
    }
    if (code == 0) {
        note_silent_exit(r, rank);
    } else if (code != NX_ABORT_CODE) {
        check_unsaid(r);
        blame(r, rank, info);
    } else if (r->follower < 0) {
        r->follower = rank;
        r->blame_at = nx_now(&nx_clock_system) + BLAME_NS;
    }
}

uint32_t nx_ranks_of(const nx_ranks *r, pid_t pid)
{
    uint32_t rank = (r->config->far == NULL) ? 0 : r->config->n;

    while ((rank < r->config->n) && (r->processes[rank].pid != pid)) {
        rank++;
    }
    return rank;
}

void nx_ranks_reap(nx_ranks *r)
{
    siginfo_t info = {0};

    while ((nx_sys_waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0) &&
           (info.si_pid != 0)) {
        const uint32_t rank = nx_ranks_of(r, info.si_pid);

        if (rank < r->config->n) {
            /* Kills the processes left in its group. The kernel does not reuse its pid before
             * this process has reaped it. */
            (void)kill(-info.si_pid, SIGKILL);
        }
        (void)nx_sys_waitpid(info.si_pid, NULL, 0);
        if (r->config->far != NULL) {
            r->config->far->child(r->config->ctx, r, &info);
        } else if (rank < r->config->n) {
            nx_ranks_on_end(r, rank, &info);
        }
        info.si_pid = 0;
    }
}

/* ---- time ---------------------------------------------------------------------------- */

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return ((b != 0) && (b < a)) ? b : a;
}

uint64_t nx_ranks_end_due(const nx_ranks *r)
{
    uint64_t due = earlier(UINT64_MAX, r->kill_at);

    if ((r->follower >= 0) && !r->ending) {
        due = earlier(due, r->blame_at);
    }
    for (uint32_t i = 0; (r->unsaid > 0) && (i < r->started); i++) {
        due = earlier(due, r->processes[i].unsaid_at);
    }
    return due;
}

static void kill_late(nx_ranks *r)
{
    char grace[NX_NUMBER_ROOM];

    if (r->running > 0) {
        nx_ranks_tell(r, "%u %s did not end within %s; killing %s", (unsigned)r->running,
                      (r->running == 1) ? "process" : "processes",
                      nx_format_duration(r->config->grace_ns, grace),
                      (r->running == 1) ? "it" : "them");
    }
    nx_ranks_kill(r);
}

void nx_ranks_check_end(nx_ranks *r)
{
    check_unsaid(r);
    blame_follower(r);
    if ((r->kill_at != 0) && (nx_now(&nx_clock_system) >= r->kill_at)) {
        kill_late(r);
    }
}
