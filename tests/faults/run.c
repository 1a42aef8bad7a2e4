/* run.c - one cell: its processes, the fault, and the checks after it. */
#include "run.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "interrupt.h"

enum {
    SLOWER = NXT_SANITIZED ? 4 : 1,
    STEPS = 10,            /* steps of each rank before the fault */
    ALARMS = 1000,         /* signals per second */
    ONE_IN = 8,            /* calls: one is disturbed */
    BOARDS_MOST = 64,      /* NX_PASSED */
    PATIENCE_S = 60,       /* deadline for everything that a cell waits for */
    HELPER_S = 5,          /* time for which a leak check may outlive its process */
    GROWTH_KIB = 24 << 10, /* growth of a survivor, over fault and recovery: losses_test and churn
                              cannot see memory that is returned later */
    SEED_PLACE = NXT_CELL_PROCESSES
};
static const uint64_t BRIEF_NS = 1000000000; /* of 3 s */
static const double HARMLESS_MS = 1000;      /* a path recovers in half of it */

typedef struct run {
    const nxt_cell *cell;
    nxt_hosts *hosts;
    nxt_board *board;
    nxt_result *result;
    nxt_process at[NXT_CELL_PROCESSES + 1]; /* the seed is the last */
    int status[NXT_CELL_PROCESSES + 1];
    uint64_t deadline;
    int lenience;
} run;

__attribute__((format(printf, 2, 3))) static void fail(run *r, const char *format, ...)
{
    const size_t at = strlen(r->result->failure), room = sizeof(r->result->failure) - at;
    va_list args;

    va_start(args, format);
    (void)vsnprintf(r->result->failure + at, room, format, args);
    va_end(args);
    (void)strncat(r->result->failure, "; ",
                  sizeof(r->result->failure) - 1 - strlen(r->result->failure));
}

/* ---- definition of a cell -------------------------------------------------------------------- */

static bool of_the_network(nxt_strike s)
{
    return (s == NXT_MUTE) || (s == NXT_DEAF) || (s == NXT_CUT) || (s == NXT_BRIEF);
}

static bool harmless(nxt_strike s)
{
    return (s == NXT_BRIEF) || (s == NXT_SEED) || (s == NXT_ALARM) || (s == NXT_FAULTY);
}

const char *nxt_cell_na(const nxt_cell *cell)
{
    if (of_the_network(cell->fault->strike) && (cell->transport->host[2] == 0)) {
        return "no network between ranks of one host";
    }
    return NULL;
}

nxt_cell nxt_cell_make(const nxt_fault *f, const nxt_work *w, const nxt_transport *t)
{
    nxt_cell cell = {.fault = f, .work = w, .transport = t, .victims = f->victims};

    if (f->victims == NXT_HOST_OF_2) {
        cell.victims = 0;
        for (int i = 0; (i < NXT_CELL_RANKS) && !harmless(f->strike); i++) {
            cell.victims |= (t->host[i] == t->host[2]) ? 1U << i : 0;
        }
    }
    cell.living = NXT_CELL_RANKS - __builtin_popcount(cell.victims) -
                  ((f->during == NXT_NEVER) ? 0 : 1) + (f->joins ? 1 : 0);
    return cell;
}

static bool is_beside(unsigned victims, int rank)
{
    const unsigned left = 1U << ((rank + NXT_CELL_RANKS - 1) % NXT_CELL_RANKS);
    const unsigned right = 1U << ((rank + 1) % NXT_CELL_RANKS);

    return (victims & (left | right)) != 0;
}

/* Whether a live neighbour of |rank| may stop before |rank| does, because of a victim of its own.
 * Then |rank|, which may have received the last message of its own victim, waits for a live
 * rank. */
static bool may_be_let_down(unsigned victims, int rank)
{
    for (int by = 1; by < NXT_CELL_RANKS; by += NXT_CELL_RANKS - 2) {
        const int beside = (rank + by) % NXT_CELL_RANKS;

        if (!((victims >> beside) & 1) && is_beside(victims, beside)) {
            return true;
        }
    }
    return false;
}

bool nxt_cell_needs(const nxt_cell *cell, int rank)
{
    const bool in_init = cell->fault->during == NXT_IN_INIT;

    if (((cell->victims >> rank) & 1) || (in_init && (cell->fault->late == rank))) {
        return false;
    }
    return !cell->work->lonely ||
           (is_beside(cell->victims, rank) && !may_be_let_down(cell->victims, rank));
}

static bool is_victim(const run *r, int rank)
{
    return (r->cell->victims >> rank) & 1;
}

static bool dies_late(const run *r, int rank)
{
    return (r->cell->fault->during != NXT_NEVER) && (r->cell->fault->late == rank);
}

/* A victim whose process continues and ends by itself. */
static bool is_lost(const run *r, int rank)
{
    const nxt_strike s = r->cell->fault->strike;

    return is_victim(r, rank) && ((s == NXT_STOP) || of_the_network(s));
}

static bool survives(const run *r, int rank)
{
    return !is_victim(r, rank) && !dies_late(r, rank);
}

/* ---- processes -------------------------------------------------------------------------- */

/* nxt_process_start with the settings of the cell. */
static bool start(run *r, int i, int host)
{
    if (nxt_process_start(&r->at[i], r->hosts, host)) {
        return true;
    }
    nxt_set("transports", r->cell->transport->transports);
    nxt_set_all((r->cell->fault->settings == NULL) ? "" : r->cell->fault->settings);
    return false;
}

/* In this process, from here on. */
static void disturb(const nxt_cell *cell, int rank)
{
    if (cell->fault->strike == NXT_ALARM) {
        nxt_interrupt_signals(ALARMS);
    } else if (cell->fault->strike == NXT_FAULTY) {
        const uint64_t seed = nxt_now_ns() + (uint64_t)rank;

        (void)fprintf(stderr, "rank %d: NXT_CALLS=%d NXT_CALLS_SEED=%llu\n", rank, ONE_IN,
                      (unsigned long long)seed);
        nxt_interrupt_calls(ONE_IN, seed);
    }
}

static void start_rank(run *r, int rank)
{
    char number[16];

    if (start(r, rank, r->cell->transport->host[(rank == NXT_JOINER) ? 2 : rank])) {
        return;
    }
    (void)snprintf(number, sizeof(number), "%d", rank);
    nxt_set("rank", (rank == NXT_JOINER) ? "auto" : number);
    nxt_set("join", r->board->seed.join);
    disturb(r->cell, rank);
    // NOLINTNEXTLINE(concurrency-mt-unsafe): its threads have ended
    exit(nxt_rank_live(r->cell, r->board, rank)); /* not _exit: the leak check runs in exit */
}

/* Records which processes have ended.  False: one ended unexpectedly, or no progress is made. */
static bool look(run *r)
{
    for (int i = 0; i <= SEED_PLACE; i++) {
        if ((r->at[i].pid == 0) || (waitpid(r->at[i].pid, &r->status[i], WNOHANG) <= 0)) {
            continue;
        }
        r->at[i].pid = 0;
        if (i == SEED_PLACE) {
            fail(r, "the seed ended with status %#x", (unsigned)r->status[i]);
        } else if (!is_victim(r, i) && !dies_late(r, i) && (r->status[i] != 0)) {
            fail(r, "rank %d ended with status %#x", i, (unsigned)r->status[i]);
        }
    }
    if ((r->result->failure[0] == '\0') && (nxt_now_ns() > r->deadline)) {
        fail(r, "not done after %d s", PATIENCE_S * SLOWER);
    }
    return r->result->failure[0] == '\0';
}

/* Waits until |ready| is true; false: it never will be. */
static bool await(run *r, bool (*ready)(run *r))
{
    while (!ready(r)) {
        if (!look(r)) {
            return false;
        }
        nxt_nap();
    }
    return true;
}

static bool seed_is_ready(run *r)
{
    return atomic_load(&r->board->seed.ready);
}

static bool all_are_at_it(run *r)
{
    for (int i = 0; i < NXT_CELL_RANKS; i++) {
        if (atomic_load(&r->board->seen[i].steps) < STEPS) {
            return false;
        }
    }
    return true;
}

static bool survivors_have_ended(run *r)
{
    for (int i = 0; i < NXT_CELL_PROCESSES; i++) {
        if ((r->at[i].pid != 0) && survives(r, i)) {
            return false;
        }
    }
    return true;
}

static bool all_have_ended(run *r)
{
    for (int i = 0; i < NXT_CELL_PROCESSES; i++) {
        if (r->at[i].pid != 0) {
            return false;
        }
    }
    return true;
}

/* The leak check has helper processes, which may outlive their parent. */
static void await_helpers(const run *r)
{
    const uint64_t end = nxt_now_ns() + HELPER_S * UINT64_C(1000000000);

    while ((nxt_find_child(r->hosts->wire) != 0) && (nxt_now_ns() < end)) {
        (void)waitpid(-1, NULL, WNOHANG);
        nxt_nap();
    }
}

/* A lane becomes the parent of its processes' children when those have ended. */
static void end_all(run *r)
{
    pid_t ended;

    for (int i = 0; i <= SEED_PLACE; i++) {
        if (r->at[i].pid != 0) {
            (void)kill(r->at[i].pid, SIGKILL);
            (void)waitpid(r->at[i].pid, &r->status[i], 0);
            r->at[i].pid = 0;
        }
    }
    while ((ended = waitpid(-1, NULL, WNOHANG)) > 0) {
        if (!NXT_SANITIZED || (ended == r->hosts->wire)) {
            fail(r, "process %d was left", (int)ended);
        }
    }
    if (NXT_SANITIZED) {
        await_helpers(r);
    }
    while ((ended = nxt_find_child(r->hosts->wire)) != 0) {
        fail(r, "process %d is left, and lives", (int)ended);
        (void)kill(ended, SIGKILL);
        (void)waitpid(ended, NULL, 0);
    }
}

/* ---- the fault -------------------------------------------------------------------------- */

static void signal_victims(run *r, int sig)
{
    for (int i = 0; i < NXT_CELL_RANKS; i++) {
        if (is_victim(r, i) && (r->at[i].pid != 0)) {
            (void)kill(r->at[i].pid, sig);
        }
    }
}

/* Waits for steps of all ranks after |r->board->at|, which show that they continue. */
static bool await_steps(run *r, uint64_t more)
{
    uint64_t before[NXT_CELL_RANKS];
    bool there = false;

    for (int i = 0; i < NXT_CELL_RANKS; i++) {
        before[i] = atomic_load(&r->board->seen[i].steps);
    }
    while (!there) {
        there = true;
        for (int i = 0; i < NXT_CELL_RANKS; i++) {
            there = there && (atomic_load(&r->board->seen[i].steps) >= before[i] + more);
        }
        if (!look(r)) {
            return false;
        }
        nxt_nap();
    }
    return true;
}

static void now_it_happens(run *r)
{
    atomic_store(&r->board->at, nxt_now_ns());
}

/* A fault that must go unnoticed: all ranks continue, and end together. */
static void strike_in_vain(run *r)
{
    const int host = r->cell->transport->host[2];
    const struct timespec brief = {.tv_sec = (time_t)(BRIEF_NS / 1000000000),
                                   .tv_nsec = (long)(BRIEF_NS % 1000000000)};

    if (r->cell->fault->strike == NXT_SEED) {
        now_it_happens(r);
        (void)kill(r->at[SEED_PLACE].pid, SIGKILL);
        (void)waitpid(r->at[SEED_PLACE].pid, NULL, 0);
        r->at[SEED_PLACE].pid = 0;
    } else if (r->cell->fault->strike == NXT_BRIEF) {
        nxt_hosts_order(r->hosts, "cut", host);
        (void)nanosleep(&brief, NULL); /* this is the fault, not a wait */
        nxt_hosts_order(r->hosts, "heal", host);
        now_it_happens(r);
    } else {
        now_it_happens(r); /* all the time */
    }
    if (await_steps(r, 1)) {
        r->result->rebuilt_ms = (double)(nxt_now_ns() - r->board->at) / 1e6;
        (void)await_steps(r, STEPS / 2);
    }
    atomic_store(&r->board->end, true);
}

static void strike(run *r)
{
    const int host = r->cell->transport->host[2];

    switch (r->cell->fault->strike) {
    case NXT_KILL:
    case NXT_STOP:
        now_it_happens(r);
        signal_victims(r, (r->cell->fault->strike == NXT_KILL) ? SIGKILL : SIGSTOP);
        break;
    case NXT_EXIT:
    case NXT_CRASH:
        atomic_store(&r->board->strike, true);
        break;
    case NXT_MUTE:
    case NXT_DEAF:
    case NXT_CUT:
        now_it_happens(r);
        nxt_hosts_order(r->hosts,
                        (r->cell->fault->strike == NXT_MUTE)   ? "mute"
                        : (r->cell->fault->strike == NXT_DEAF) ? "deaf"
                                                               : "cut",
                        host);
        break;
    case NXT_BRIEF:
    case NXT_SEED:
    case NXT_ALARM:
    case NXT_FAULTY:
        strike_in_vain(r);
        break;
    case NXT_TIMED:
        break;
    }
}

/* ---- checks ----------------------------------------------------------------------------- */

/* Checks that |sentence| names a victim.  In a part of the world, where ranks have other numbers,
 * any rank will do. */
static bool names_victim(const run *r, const char *sentence)
{
    char name[24];

    for (int i = 0; i < NXT_CELL_RANKS; i++) {
        (void)snprintf(name, sizeof(name), "rank %d (", i);
        if (!survives(r, i) && (strstr(sentence, name) != NULL)) {
            return true;
        }
    }
    return false;
}

/* Whether |rank| may be notified of the others' revocation. */
static bool may_be_revoked(const nxt_cell *cell, int rank)
{
    return !nxt_cell_needs(cell, rank) || cell->work->makes ||
           (cell->work->lonely && (cell->fault->during == NXT_IN_INIT)) ||
           (cell->work->calls && (cell->fault->recovery >= NXT_AUTOMATIC));
}

/* A rank has detected the failure itself, or there was no reason to revoke. */
static void check_found(run *r)
{
    bool found = harmless(r->cell->fault->strike) || (r->cell->fault->recovery >= NXT_AUTOMATIC) ||
                 (r->cell->fault->during == NXT_IN_INIT);

    for (int i = 0; i < NXT_CELL_RANKS; i++) {
        found = found || (survives(r, i) && (r->board->seen[i].err == NEXAR_EPEER));
    }
    if (!found) {
        fail(r, "nobody has NEXAR_EPEER");
    }
}

static void check_verdict(run *r, int rank)
{
    const nxt_seen *seen = &r->board->seen[rank];

    if (harmless(r->cell->fault->strike) ||
        ((r->cell->fault->recovery == NXT_RETRIED) && r->cell->work->again)) {
        if (seen->err != NEXAR_OK) {
            fail(r, "rank %d should not notice, and has %s: %s", rank, nexar_err_name(seen->err),
                 seen->sentence);
        }
    } else if ((seen->err == NEXAR_EREVOKED) && may_be_revoked(r->cell, rank)) {
        return;
    } else if ((seen->err != NEXAR_EPEER) || !names_victim(r, seen->sentence)) {
        fail(r, "the verdict of rank %d is %s: %s", rank, nexar_err_name(seen->err),
             seen->sentence);
    }
}

/* A rank died before the world had formed: no rank has a world, and all get an error in time. */
static void check_unformed(run *r)
{
    for (int i = 0; i < NXT_CELL_RANKS; i++) {
        const nxt_seen *seen = &r->board->seen[i];

        if (survives(r, i) && (seen->err != NEXAR_ETIMEDOUT)) {
            fail(r, "rank %d: %s where others have no world: %s", i, nexar_err_name(seen->err),
                 seen->sentence);
        }
    }
}

/* A board that arrives after its communicator was freed is kept until NX_PASSED
 * (core/coll/host_boards.h) others have arrived.  Where receiving calls are interrupted, some
 * do. */
static int late_boards(const run *r)
{
    const bool late =
        (r->cell->fault->strike == NXT_ALARM) || (r->cell->fault->strike == NXT_FAULTY);

    return (late && r->cell->work->makes) ? BOARDS_MOST : 0;
}

static void check_cost(run *r, int rank)
{
    const nxt_seen *seen = &r->board->seen[rank];

    if ((seen->fds_running > 0) && (seen->fds_rebuilt > seen->fds_running + late_boards(r))) {
        fail(r, "rank %d has %d descriptors, before it were %d:%s", rank, seen->fds_rebuilt,
             seen->fds_running, seen->files);
    }
    if (!NXT_SANITIZED && (seen->rss_running > 0) &&
        (seen->rss_rebuilt > seen->rss_running + GROWTH_KIB)) {
        fail(r, "rank %d has %ld KiB, before it were %ld", rank, seen->rss_rebuilt,
             seen->rss_running);
    }
}

double nxt_cell_known_ms(const nxt_cell *cell)
{
    return (cell->fault->aim_ms > 0) ? cell->fault->aim_ms : cell->transport->aim_ms;
}

/* A rank that dies in the recovery must be detected, too. */
double nxt_cell_rebuilt_ms(const nxt_cell *cell)
{
    const bool again = cell->fault->during == NXT_IN_RECOVERY;

    return harmless(cell->fault->strike) ? HARMLESS_MS
                                         : nxt_cell_known_ms(cell) + cell->transport->rebuild_ms +
                                               (again ? cell->transport->aim_ms : 0);
}

static double later_ms(double ms, uint64_t at, uint64_t from)
{
    const double now = (at > from) ? (double)(at - from) / 1e6 : 0;

    return (now > ms) ? now : ms;
}

static void check_times(run *r)
{
    for (int i = 0; i < NXT_CELL_RANKS; i++) {
        if (survives(r, i)) {
            const nxt_seen *seen = &r->board->seen[i];

            r->result->known_ms = later_ms(r->result->known_ms, seen->known, r->board->at);
            r->result->rebuilt_ms = later_ms(r->result->rebuilt_ms, seen->rebuilt, r->board->at);
        }
    }
    r->result->late = (r->result->known_ms > nxt_cell_known_ms(r->cell) * r->lenience * SLOWER) ||
                      (r->result->rebuilt_ms > nxt_cell_rebuilt_ms(r->cell) * r->lenience * SLOWER);
}

static int named_in_shm(void)
{
    DIR *d = opendir("/dev/shm");
    struct dirent *entry;
    int n = 0;

    // NOLINTNEXTLINE(concurrency-mt-unsafe): there are no threads
    while ((d != NULL) && ((entry = readdir(d)) != NULL)) {
        n += (strstr(entry->d_name, "nexar") != NULL);
    }
    if (d != NULL) {
        (void)closedir(d);
    }
    return n;
}

static void check_left(run *r)
{
    for (int i = 0; i < r->hosts->n; i++) {
        const int n = nxt_hosts_sockets(r->hosts, i);

        if (n != 0) {
            fail(r, "%d sockets are left on host %d", n, i);
        }
    }
    if (named_in_shm() != 0) {
        fail(r, "something is left in /dev/shm");
    }
}

static void check(run *r)
{
    r->result->formed = false;
    for (int i = 0; i < NXT_CELL_RANKS; i++) {
        r->result->formed |= survives(r, i) && (r->board->seen[i].stage == NXT_DONE);
    }
    if (!r->result->formed && (r->cell->fault->during == NXT_IN_INIT)) {
        check_unformed(r);
        r->result->known_ms = 0;
    } else {
        for (int i = 0; i < NXT_CELL_RANKS; i++) {
            if (survives(r, i)) {
                check_verdict(r, i);
                check_cost(r, i);
            }
        }
        check_found(r);
    }
    check_times(r);
    check_left(r);
}

/* ---- main ------------------------------------------------------------------------------- */

/* For debugging. */
static void tell(const run *r)
{
    for (int i = 0; i < NXT_CELL_RANKS + (r->cell->fault->joins ? 1 : 0); i++) {
        const nxt_seen *seen = &r->board->seen[i];

        (void)fprintf(stderr,
                      "    rank %d: stage %d, %llu steps, told %d times, status %#x, %s: %s\n", i,
                      seen->stage, (unsigned long long)seen->steps, seen->told,
                      (unsigned)r->status[i], nexar_err_name(seen->err), seen->sentence);
        if (seen->wrong[0] != '\0') {
            (void)fprintf(stderr, "      wrong: %s\n", seen->wrong);
        }
        nxt_process_tell(&r->at[i]);
    }
    nxt_process_tell(&r->at[SEED_PLACE]);
}

static void play(run *r)
{
    if (!start(r, SEED_PLACE, 0)) {
        nxt_be_seed(&r->board->seed, NXT_CELL_RANKS);
    }
    if (!await(r, seed_is_ready)) {
        return;
    }
    for (int i = 0; i < NXT_CELL_RANKS; i++) {
        start_rank(r, i);
    }
    if (r->cell->fault->strike != NXT_TIMED) {
        if (!await(r, all_are_at_it)) {
            return;
        }
        if (r->cell->fault->joins) {
            start_rank(r, NXT_JOINER);
        }
        strike(r);
    }
    if (await(r, survivors_have_ended)) {
        signal_victims(r, SIGCONT);
        (void)await(r, all_have_ended);
    }
}

void nxt_cell_run(const nxt_cell *cell, nxt_hosts *hosts, nxt_board *board, int lenience,
                  nxt_result *result)
{
    run r = {.cell = cell,
             .hosts = hosts,
             .board = board,
             .result = result,
             .lenience = lenience,
             .deadline = nxt_now_ns() + (uint64_t)PATIENCE_S * SLOWER * UINT64_C(1000000000)};

    memset(board, 0, sizeof(*board));
    memset(result, 0, sizeof(*result));
    play(&r);
    nxt_hosts_order(hosts, "heal", cell->transport->host[2]);
    for (int i = 0; i < NXT_CELL_RANKS; i++) {
        if (is_lost(&r, i) && (r.status[i] != 0)) {
            fail(&r, "rank %d, which was lost, ended with status %#x", i, (unsigned)r.status[i]);
        }
    }
    end_all(&r);
    if (result->failure[0] == '\0') {
        check(&r);
    }
    if ((result->failure[0] != '\0') || result->late) {
        tell(&r);
    }
    for (int i = 0; i <= SEED_PLACE; i++) {
        nxt_process_end(&r.at[i], &r.status[i]);
    }
    atomic_store(&result->done, true);
}
