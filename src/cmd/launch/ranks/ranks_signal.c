/* ranks_signal.c - signals of the user to the launcher, and ranks that are stopped. */
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/os/sys.h"
#include "cmd/launch/io/catchers.h"
#include "cmd/launch/io/signals.h"
#include "ranks_inner.h"

/* timeout(1) sends a signal to the process and to its group. A second copy within this time is
 * not a second request: no user presses Ctrl-C twice that fast. */
#define ECHO_NS UINT64_C(250000000)
/* How long ranks may stay stopped when all others have ended. */
#define STUCK_NS UINT64_C(3000000000)

enum { ABSENT_MAX = 8 };

/* ---- requests to end ----------------------------------------------------------------- */

static void tell_first_wish(nx_ranks *r, int number)
{
    if (r->running == 0) {
        return;
    }
    if (number == SIGINT) {
        nx_ranks_tell(r, "ending the ranks; press Ctrl-C again to kill them");
    } else {
        nx_ranks_tell(r, "ending the ranks on signal %d (%s); a second one kills them", number,
                      strsignal(number)); // NOLINT(concurrency-mt-unsafe)
    }
}

/* The first request sends its own signal to the ranks, the second kills them, the third also
 * drops output without a reader. */
void nx_ranks_wish(nx_ranks *r, int number)
{
    const uint64_t now = nx_now(&nx_clock_system);

    if ((r->wishes > 0) && (now - r->asked_at < ECHO_NS)) {
        return;
    }
    r->wishes++;
    r->asked_at = now;
    if (r->wishes == 1) {
        r->result->ended_by = number;
        tell_first_wish(r, number);
        nx_ranks_end(r, number);
        return;
    }
    if ((r->wishes == 2) && (r->running > 0)) {
        nx_ranks_tell(r, "killing the ranks");
    }
    r->hurried = (r->wishes > 2);
    nx_ranks_kill(r);
}

/* ---- other signals ------------------------------------------------------------------- */

/* No terminal of the ranks is a controlling terminal, so the kernel signals no process: the
 * caller does. */
static void resize(nx_ranks *r)
{
    const bool sized = nx_ranks_measure(r);

    for (uint32_t i = 0; sized && (i < r->started); i++) {
        if (r->processes[i].out.from >= 0) {
            (void)ioctl(r->processes[i].out.from, TIOCSWINSZ, &r->window);
        }
    }
}

static bool is_rank(void *ctx, pid_t group)
{
    const nx_ranks *r = ctx;

    return (group > 0) && (nx_ranks_of(r, group) < r->config->n);
}

/* Processes that have ended and never joined: reports that no rank need wait for them. */
static void tell_absent(nx_ranks *r)
{
    const nx_ranks_ops *ops = r->config->ops;
    char where[NX_WHERE_ROOM];
    unsigned told = 0;

    for (uint32_t i = 0; (ops->presence != NULL) && (i < r->started) && (told < ABSENT_MAX); i++) {
        if ((r->processes[i].pid == 0) && (ops->presence(r->config->ctx, i) == NX_PRESENCE_NONE)) {
            nx_ranks_tell(r, "%s %u (%s) has ended without joining", r->config->noun, (unsigned)i,
                          nx_ranks_where(r, i, where));
            told++;
        }
    }
}

/* On these signals running ranks report what they wait for. While the world forms they cannot,
 * and the seed knows more. */
static void report(nx_ranks *r, int number)
{
    const nx_ranks_ops *ops = r->config->ops;
    char text[1024];

    if ((ops->situation != NULL) && ops->situation(r->config->ctx, text, sizeof(text))) {
        nx_ranks_tell(r, "the world has not formed: %s", text);
        tell_absent(r);
    }
    if (r->config->far != NULL) {
        nx_ranks_signal(r, number); /* the agents find the processes that catch it */
    } else {
        nx_catchers_signal(number, is_rank, r);
    }
}

void nx_ranks_signals(nx_ranks *r)
{
    int number;

    while ((number = nx_signals_next(r->signals)) != 0) {
        if (nx_signal_ends(number)) {
            nx_ranks_wish(r, number);
        } else if ((number == SIGUSR1) || (number == SIGUSR2)) {
            report(r, number);
        } else if (number != SIGCHLD) { /* the loop reaps in every iteration */
            if (number == SIGWINCH) {
                resize(r);
            }
            r->paused = (number == SIGTSTP) || (r->paused && (number != SIGCONT));
            nx_ranks_signal(r, number);
        }
    }
}

/* ---- ranks that are stopped ---------------------------------------------------------- */

void nx_ranks_on_stop(nx_ranks *r, uint32_t rank, int number)
{
    const long pid = (long)r->processes[rank].pid;
    char where[NX_WHERE_ROOM];

    r->processes[rank].stopped = number;
    if (!r->ending && !r->paused) {
        nx_ranks_tell(r, "%s %u (%s) was stopped by signal %d; kill -CONT %ld resumes it",
                      r->config->noun, (unsigned)rank, nx_ranks_where(r, rank, where), number, pid);
    }
}

static void note_stops(nx_ranks *r)
{
    siginfo_t info = {0};

    while ((nx_sys_waitid(P_ALL, 0, &info, WSTOPPED | WCONTINUED | WNOHANG) == 0) &&
           (info.si_pid != 0)) {
        const uint32_t rank = nx_ranks_of(r, info.si_pid);

        if ((rank < r->config->n) && (info.si_code == CLD_STOPPED)) {
            nx_ranks_on_stop(r, rank, info.si_status);
        } else if (rank < r->config->n) {
            r->processes[rank].stopped = 0;
        }
        info.si_pid = 0;
    }
}

static void end_stuck(nx_ranks *r)
{
    char where[NX_WHERE_ROOM];

    for (uint32_t i = 0; i < r->config->n; i++) {
        const nx_rank_process *p = &r->processes[i];

        if (p->pid != 0) {
            nx_ranks_tell(r, "%s %u (%s) is stopped, and the others have ended; ending it",
                          r->config->noun, (unsigned)i, nx_ranks_where(r, i, where));
            r->result->code = (r->result->rank < 0) ? 128 + p->stopped : r->result->code;
            r->result->rank = (r->result->rank < 0) ? i : r->result->rank;
        }
    }
    nx_ranks_end(r, SIGTERM);
}

/* Without this check the launcher would wait indefinitely for stopped ranks when no other rank
 * runs. */
static void check_stuck(nx_ranks *r)
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

void nx_ranks_check_stops(nx_ranks *r)
{
    note_stops(r);
    check_stuck(r);
}
