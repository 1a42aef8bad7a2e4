/*
 * rank.c - a rank of a cell: works until a fault affects it or another rank, and then recovers.  It
 * records its observations on the board; an unexpected one ends the process.
 */
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cell.h"
#include "party.h"

enum { WARM_UP = 3, SETTLED = 8, AFTER = 10, SKEW = 16, PATIENCE_S = 40, CLOSING_S = 5 };

typedef struct life {
    const nxt_cell *cell;
    nxt_board *board;
    nxt_seen *seen;
    int rank;
    nexar_comm *world, *comm; /* steps use |comm| */
    uint64_t steps;
} life;

/* ---- shared --------------------------------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static _Noreturn void wrong(life *l, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(l->seen->wrong, sizeof(l->seen->wrong), format, args);
    va_end(args);
    _exit(1);
}

static void expect_ok(life *l, nexar_err err, const char *what)
{
    if (err != NEXAR_OK) {
        wrong(l, "%s: %s: %s", what, nexar_err_name(err), nexar_last_error());
    }
}

static void expect_lost(life *l, nexar_err err, const char *what)
{
    /* There may never have been a link to a rank that died in init. */
    if ((err != NEXAR_EPEER) && (err != NEXAR_EREVOKED) &&
        ((err != NEXAR_ECONNECT) || (l->cell->fault->during != NXT_IN_INIT))) {
        wrong(l, "%s, of which a rank is gone: %s", what, nexar_err_name(err));
    }
}

static void expect_value(life *l, const char *what)
{
    if (what != NULL) {
        wrong(l, "step %llu on %d ranks: %s", (unsigned long long)l->steps, nexar_size(l->comm),
              what);
    }
}

/* ---- a victim's own end ----------------------------------------------------------------- */

/* Ends the process in |us| microseconds, whatever it does then. */
static void die_in(life *l, uint64_t us)
{
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};
    const struct itimerspec when = {.it_value = {.tv_nsec = (long)us * 1000 + 1}};
    timer_t timer;

    if (atomic_load(&l->board->at) == 0) {
        atomic_store(&l->board->at, nxt_now_ns() + us * 1000);
    }
    if ((timer_create(CLOCK_MONOTONIC, &event, &timer) != 0) ||
        (timer_settime(timer, 0, &when, NULL) != 0)) {
        wrong(l, "no timer");
    }
}

static bool dies_in(const life *l, nxt_during during)
{
    return (l->cell->fault->during == during) && (l->cell->fault->late == l->rank);
}

/* The faults of user code, in the victim. */
static void commit_wrong(life *l)
{
    if (!atomic_load(&l->board->strike) || !((l->cell->victims >> l->rank) & 1)) {
        return;
    }
    atomic_store(&l->board->at, nxt_now_ns());
    if (l->cell->fault->strike == NXT_EXIT) {
        exit(0); // NOLINT(concurrency-mt-unsafe): that is the point
    }
    (void)signal(SIGSEGV, SIG_DFL);
    (void)raise(SIGSEGV);
}

/* ---- working ---------------------------------------------------------------------------- */

static nexar_err step(life *l)
{
    const char *words = NULL;
    nexar_err err = l->cell->work->step(l->comm, l->steps, &words);

    if (err == NEXAR_OK) {
        expect_value(l, words);
        l->steps++;
    }
    return err;
}

static nexar_err sum(life *l)
{
    const char *words = NULL;
    nexar_err err = nxt_work_sum(l->comm, l->steps, &words);

    if (err == NEXAR_OK) {
        expect_value(l, words);
    }
    return err;
}

static nexar_err prepare(life *l)
{
    return (l->cell->work->prepare == NULL) ? NEXAR_OK : l->cell->work->prepare(l->comm);
}

/* Afterwards all ranks are connected to all, and have the resources for steps and their ends. */
static nexar_err warm_up(life *l)
{
    nexar_err err = nxt_link_all(l->comm);

    if (err == NEXAR_OK) {
        err = nexar_barrier(l->comm);
    }
    if (err == NEXAR_OK) {
        err = sum(l);
    }
    if (err == NEXAR_OK) {
        err = prepare(l);
    }
    for (int i = 0; (err == NEXAR_OK) && (i < WARM_UP); i++) {
        err = step(l);
    }
    return err;
}

/* Whether this is the step before which all ranks stop.  Rank 0 chooses a step a little ahead,
 * since no rank is more than a few steps ahead of another (remote calls: each rank stops by
 * itself). */
static bool at_end(life *l)
{
    uint64_t last = atomic_load(&l->board->last);

    if ((last == 0) && (l->rank == 0) && atomic_load(&l->board->end)) {
        last = l->steps + SKEW;
        atomic_store(&l->board->last, last);
    }
    return (last != 0) && (l->steps >= last);
}

/* Runs until the first error, or the first correct step without a lost rank. */
static nexar_err work(life *l)
{
    const int size = nexar_size(l->comm);
    nexar_err err = NEXAR_OK;

    while ((err == NEXAR_OK) && !at_end(l) && (nexar_size(l->comm) == size)) {
        commit_wrong(l);
        if (l->steps == SETTLED) { /* before the fault, when links have all their resources */
            l->seen->fds_running = nxt_open_files(0);
            l->seen->rss_running = nxt_resident_kib(0);
        }
        err = step(l);
        atomic_store(&l->seen->steps, l->steps);
    }
    return err;
}

/* ---- after a failure -------------------------------------------------------------------- */

static void note_error(life *l, nexar_err err)
{
    l->seen->known = nxt_now_ns();
    l->seen->err = err;
    (void)snprintf(l->seen->sentence, sizeof(l->seen->sentence), "%s", nxt_work_said());
    atomic_store(&l->seen->stage, NXT_KNOWS);
}

/* No call is needed, except the collective that reports the change. */
static bool by_itself(const life *l)
{
    return l->cell->fault->recovery >= NXT_AUTOMATIC;
}

/* Waits until all survivors that detect the failure themselves have an error, so that none gets an
 * error from the others' revocation. */
static void await_verdicts(life *l)
{
    const uint64_t end = nxt_now_ns() + PATIENCE_S * UINT64_C(1000000000);

    for (int rank = 0; (rank < NXT_CELL_RANKS) && !by_itself(l); rank++) {
        while (nxt_cell_needs(l->cell, rank) &&
               (atomic_load(&l->board->seen[rank].stage) < NXT_KNOWS)) {
            if (nxt_now_ns() > end) {
                wrong(l, "rank %d does not know after %d s", rank, PATIENCE_S);
            }
            nxt_nap();
        }
    }
}

static nexar_err shrink(life *l)
{
    nexar_comm *next = NULL;
    nexar_err err;

    expect_ok(l, nexar_comm_revoke(l->comm), "revoke");
    err = nexar_barrier(l->comm);
    if (err != NEXAR_EREVOKED) {
        wrong(l, "a barrier on what was revoked: %s", nexar_err_name(err));
    }
    err = nexar_comm_shrink(l->comm, &next);
    if (err == NEXAR_OK) {
        if (l->comm != l->world) {
            nexar_comm_free(l->comm);
        }
        l->comm = next;
        l->steps = 0; /* equal on all ranks, which are in different steps */
    }
    return err;
}

/* After |failed|: ranks that do not need a failed rank wait for others, which have stopped. */
static nexar_err update(life *l, bool failed)
{
    nexar_change change = {0};
    nexar_err err;

    if (failed && l->cell->work->lonely) {
        expect_ok(l, nexar_comm_revoke(l->world), "revoke");
    }
    err = nexar_comm_update(&l->world, &change);
    if (err == NEXAR_OK) {
        if ((change.joined > (l->cell->fault->joins ? 1 : 0)) || (change.left != 0) ||
            (change.old_size + change.joined - change.failed != change.new_size) ||
            (change.new_size != nexar_size(l->world)) ||
            (change.new_rank != nexar_rank(l->world))) {
            wrong(l, "the change from %d to %d ranks: %d joined, %d left, %d failed",
                  change.old_size, change.new_size, change.joined, change.left, change.failed);
        }
        l->comm = l->world;
        l->steps = 0;
    }
    return err;
}

/* A step towards a communicator of the survivors, after a step that |failed| or not. */
static void go_without(life *l, bool failed)
{
    switch (l->cell->fault->recovery) {
    case NXT_SHRINK:
        if (failed) {
            expect_ok(l, shrink(l), "shrink");
        }
        break;
    case NXT_UPDATE:
        expect_ok(l, update(l, failed), "update");
        break;
    case NXT_AUTOMATIC:
    case NXT_RETRIED:
        l->steps = 0; /* equal on all ranks, which are in different steps */
        break;
    }
}

/* Repeats until the survivors have a communicator with a correct sum. */
static void recover(life *l, nexar_err err)
{
    if (dies_in(l, NXT_IN_RECOVERY)) {
        die_in(l, nxt_now_ns() % 2000);
    }
    while ((err != NEXAR_OK) || (nexar_size(l->comm) != l->cell->living)) {
        if (err != NEXAR_OK) {
            expect_lost(l, err, "an operation");
        }
        go_without(l, err != NEXAR_OK);
        err = sum(l);
    }
    l->seen->rebuilt = nxt_now_ns();
    atomic_store(&l->seen->stage, NXT_REBUILT);
}

/* Checks what recovery reports. */
static void check_change(life *l)
{
    nexar_change change = {0};

    if (!by_itself(l)) {
        return;
    }
    expect_ok(l, nexar_last_change(l->world, &change), "last_change");
    if ((change.new_size != l->cell->living) || (change.new_rank != nexar_rank(l->world)) ||
        (change.old_size - change.failed != change.new_size) || (change.failed == 0)) {
        wrong(l, "the last change was from %d to %d ranks, %d failed", change.old_size,
              change.new_size, change.failed);
    }
}

/* Checks that the world has lost the victims, and no other rank. */
static void check_failed(life *l)
{
    const uint64_t end = nxt_now_ns() + PATIENCE_S * UINT64_C(1000000000);
    const int lost = NXT_CELL_RANKS - l->cell->living;
    int ranks[NXT_CELL_RANKS];
    size_t n = NXT_CELL_RANKS;

    expect_ok(l, nexar_comm_failed(l->world, ranks, &n), "comm_failed");
    if (l->cell->fault->recovery != NXT_SHRINK) {
        if (n != 0) {
            wrong(l, "of the new world %zu ranks have failed", n);
        }
        check_change(l);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        if (!((l->cell->victims >> ranks[i]) & 1) &&
            ((l->cell->fault->during == NXT_NEVER) || (ranks[i] != l->cell->fault->late))) {
            wrong(l, "rank %d counts as failed", ranks[i]);
        }
    }
    /* A rank that died in init may never have been a member. */
    if ((n != (size_t)lost) && (l->cell->fault->during != NXT_IN_INIT)) {
        wrong(l, "%zu ranks count as failed, not %d", n, lost);
    }
    while (atomic_load(&l->seen->told) != (int)n) {
        if (nxt_now_ns() > end) {
            wrong(l, "on_failure was called %d times, not %zu", atomic_load(&l->seen->told), n);
        }
        nxt_nap();
    }
}

/* The number of descriptors when ended objects have been closed. */
static int settled_files(const life *l)
{
    const uint64_t end = nxt_now_ns() + CLOSING_S * UINT64_C(1000000000);
    int n = nxt_open_files(0);

    while ((n > l->seen->fds_running) && (l->seen->fds_running > 0) && (nxt_now_ns() < end)) {
        nxt_nap();
        n = nxt_open_files(0);
    }
    return n;
}

static void go_on(life *l)
{
    nexar_err err = prepare(l);

    for (int i = 0; (err == NEXAR_OK) && (i < AFTER); i++) {
        err = step(l);
    }
    expect_ok(l, err, "a step of those who are left");
    expect_ok(l, nexar_barrier(l->comm), "the last barrier");
    if (l->comm != l->world) {
        nexar_comm_free(l->comm);
    }
    l->comm = l->world;
    l->seen->fds_rebuilt = settled_files(l);
    l->seen->rss_rebuilt = nxt_resident_kib(0);
    nxt_name_files(l->seen->files, sizeof(l->seen->files));
}

static int count_victims(const life *l)
{
    return __builtin_popcount(l->cell->victims);
}

/* A rank that was stopped or cut off must get errors, and no world of its own. */
static void be_lost(life *l)
{
    nexar_comm *next = NULL;
    nexar_err err;

    while (l->cell->fault->strike == NXT_KILL) {
        nxt_nap(); /* of two that are killed together the second lives a moment longer */
    }
    err = nexar_barrier(l->comm);
    /* Of two ranks that are lost together, one may be a step further than the other.  Both then
     * detect that before they know which ranks they have lost. */
    if ((err != NEXAR_EMISMATCH) || (count_victims(l) < 2)) {
        expect_lost(l, err, "a barrier");
    }
    err = nexar_comm_shrink(l->comm, &next);
    if (err == NEXAR_OK) {
        wrong(l, "one that is lost gets a world of %d", nexar_size(next));
    }
    l->seen->fds_rebuilt = 0;
}

/* ---- life of a rank --------------------------------------------------------------------- */

static void count_call(nexar_comm *comm, int rank, const char *why, void *arg)
{
    life *l = arg;

    (void)comm;
    (void)rank;
    if (strstr(why, "rank ") == NULL) {
        wrong(l, "on_failure gets the sentence: %s", why);
    }
    atomic_fetch_add(&l->seen->told, 1);
}

static nexar_err join(life *l)
{
    nexar_err err;

    l->seen->fds_first = nxt_open_files(0);
    if (dies_in(l, NXT_IN_INIT)) {
        /* Spread over all of init, and a little more, by the workload. */
        die_in(l, (uint64_t)(l->cell->work - nxt_works) * 8000);
    }
    err = nexar_init(NULL, &l->world);
    if (err == NEXAR_OK) {
        l->comm = l->world;
        nxt_work_may_lose(l->cell->victims);
        expect_ok(l, nexar_on_failure(l->world, count_call, l), "on_failure");
    }
    return err;
}

static void leave(life *l)
{
    const bool struck = (l->cell->victims >> l->rank) & 1;
    nexar_err err = nexar_finalize(l->world);

    l->seen->fds_last = nxt_open_files(0);
    if (!struck) {
        expect_ok(l, err, "finalize");
    }
    if (l->seen->fds_last != l->seen->fds_first) {
        wrong(l, "%d descriptors are open after finalize, %d were before init", l->seen->fds_last,
              l->seen->fds_first);
    }
}

/* A joiner has nothing to lose. */
static void come_late(life *l)
{
    recover(l, sum(l));
    check_failed(l);
    go_on(l);
    leave(l);
    atomic_store(&l->seen->stage, NXT_DONE);
}

int nxt_rank_live(const nxt_cell *cell, nxt_board *board, int rank)
{
    life l = {.cell = cell, .board = board, .seen = &board->seen[rank], .rank = rank};
    nexar_err err = join(&l);

    if (err != NEXAR_OK) {
        note_error(&l, err); /* the driver decides whether that is allowed */
        return 0;
    }
    if (rank == NXT_JOINER) {
        come_late(&l);
        return 0;
    }
    err = warm_up(&l);
    if (err == NEXAR_OK) {
        atomic_store(&l.seen->stage, NXT_RUNNING);
        err = work(&l);
    }
    if ((err != NEXAR_OK) || (nexar_size(l.comm) != NXT_CELL_RANKS)) {
        if (err != NEXAR_OK) {
            note_error(&l, err);
        } else {
            l.seen->known = nxt_now_ns();
            l.steps = 0;
        }
        if ((cell->victims >> rank) & 1) {
            be_lost(&l);
        } else {
            await_verdicts(&l);
            recover(&l, err);
            check_failed(&l);
        }
    }
    if (!((cell->victims >> rank) & 1)) {
        go_on(&l);
    }
    leave(&l);
    atomic_store(&l.seen->stage, NXT_DONE);
    return 0;
}
