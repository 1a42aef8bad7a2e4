/*
 * matrix.c - the fault matrix: every fault, in every workload, over every transport.
 *
 *     matrix [--subset] [--only TEXT] [--jobs N] [--tries N] [--table FILE] WIRE
 *
 * WIRE is the program of tests/net/wire.c.  --subset: every fault with every workload, over
 * alternating transports.  --only: cells whose name "fault, workload, transport" has TEXT in it.
 * --jobs: the number of concurrent cells, each with hosts of its own.  --tries: a cell that
 * exceeds its deadline is repeated, up to this number of tries; without it, the deadline is ten
 * times as long, for busy machines.  --table: the measured times as Markdown.  Exit code 0: all
 * cells passed; 77: not possible here.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "run.h"

/* A new row is a new line here. */
#define FAST   "heartbeat_interval=200ms heartbeat_timeout=1s"
#define PARTED FAST " quorum=majority"
static const nxt_fault faults[] = {
    {.name = "SIGKILL", .strike = NXT_KILL, .victims = 4},
    {.name = "SIGKILL of rank 0", .strike = NXT_KILL, .victims = 1},
    {.name = "SIGSTOP", .strike = NXT_STOP, .victims = 4, .settings = FAST, .aim_ms = 1200},
    {.name = "exit without finalize", .strike = NXT_EXIT, .victims = 4},
    {.name = "crash (SIGSEGV)", .strike = NXT_CRASH, .victims = 4},
    {.name = "cut: nothing from it arrives",
     .strike = NXT_MUTE,
     .victims = NXT_HOST_OF_2,
     .settings = PARTED,
     .aim_ms = 1200},
    {.name = "cut: nothing to it arrives",
     .strike = NXT_DEAF,
     .victims = NXT_HOST_OF_2,
     .settings = PARTED,
     .aim_ms = 1200},
    {.name = "cut both ways",
     .strike = NXT_CUT,
     .victims = NXT_HOST_OF_2,
     .settings = PARTED,
     .aim_ms = 1200},
    {.name = "cut for 1 s of 3 s",
     .strike = NXT_BRIEF,
     .victims = NXT_HOST_OF_2,
     .settings = "heartbeat_interval=200ms heartbeat_timeout=3s"},
    {.name = "seed killed", .strike = NXT_SEED},
    {.name = "signals at 1 kHz", .strike = NXT_ALARM},
    {.name = "EINTR and short counts", .strike = NXT_FAULTY},
    {.name = "two killed at once", .strike = NXT_KILL, .victims = 2 | 4},
    {.name = "SIGKILL, then rank 0 in shrink",
     .strike = NXT_KILL,
     .victims = 4,
     .during = NXT_IN_RECOVERY,
     .late = 0},
    {.name = "SIGKILL, update", .strike = NXT_KILL, .victims = 4, .recovery = NXT_UPDATE},
    {.name = "SIGKILL, then rank 0 in update",
     .strike = NXT_KILL,
     .victims = 4,
     .during = NXT_IN_RECOVERY,
     .late = 0,
     .recovery = NXT_UPDATE},
    {.name = "SIGKILL, one joins, update",
     .strike = NXT_KILL,
     .victims = 4,
     .recovery = NXT_UPDATE,
     .joins = true},
    {.name = "SIGKILL, recovery=automatic",
     .strike = NXT_KILL,
     .victims = 4,
     .recovery = NXT_AUTOMATIC,
     .settings = "recovery=automatic"},
    {.name = "two killed, recovery=automatic",
     .strike = NXT_KILL,
     .victims = 2 | 4,
     .recovery = NXT_AUTOMATIC,
     .settings = "recovery=automatic"},
    {.name = "SIGKILL, retry=on",
     .strike = NXT_KILL,
     .victims = 4,
     .recovery = NXT_RETRIED,
     .settings = "recovery=automatic retry=on"},
    {.name = "SIGKILL in init",
     .strike = NXT_TIMED,
     .during = NXT_IN_INIT,
     .late = 2,
     .settings = "formation_timeout=2s", /* and a value to start with */
     .aim_ms = 2500},
};
static const nxt_transport transports[] = {
    {.name = "quic", .transports = "quic", .host = {0, 1, 2, 3}, .aim_ms = 1000, .rebuild_ms = 300},
    {.name = "shm", .transports = "shm", .host = {0, 0, 0, 0}, .aim_ms = 200, .rebuild_ms = 100},
    {.name = "both", .transports = "auto", .host = {0, 0, 1, 1}, .aim_ms = 1000, .rebuild_ms = 300},
};
enum {
    FAULTS = sizeof(faults) / sizeof(faults[0]),
    TRANSPORTS = sizeof(transports) / sizeof(transports[0]),
    WORKS_MOST = 16,
    LANES_MOST = 8,
    HOSTS = 4,
    LENIENCE = 10, /* without --tries */
    SKIPPED = 77
};

/* Shared by all lanes. */
typedef struct results {
    _Atomic int next; /* the next cell to run */
    _Atomic int skipped, ran;
    nxt_result at[FAULTS * WORKS_MOST * TRANSPORTS];
} results;

static struct {
    bool subset;
    const char *only, *table, *wire;
    int jobs, tries; /* tries: 0: one, with a longer deadline */
} options = {.jobs = 1};
static results *all;

/* ---- cells ------------------------------------------------------------------------------ */

static int place(int fault, int work, int transport)
{
    return (fault * nxt_works_count + work) * TRANSPORTS + transport;
}

static nxt_cell cell_at(int i)
{
    return nxt_cell_make(&faults[i / TRANSPORTS / nxt_works_count],
                         &nxt_works[i / TRANSPORTS % nxt_works_count], &transports[i % TRANSPORTS]);
}

static void name_cell(const nxt_cell *cell, char *text, size_t size)
{
    (void)snprintf(text, size, "%s, %s, %s", cell->fault->name, cell->work->name,
                   cell->transport->name);
}

/* Every fault meets every workload and every transport. */
static bool in_subset(int i)
{
    const int fault = i / TRANSPORTS / nxt_works_count, work = i / TRANSPORTS % nxt_works_count;
    nxt_cell other = cell_at(place(fault, work, (fault + work) % TRANSPORTS));

    if (nxt_cell_na(&other) == NULL) {
        return i % TRANSPORTS == (fault + work) % TRANSPORTS;
    }
    return i % TRANSPORTS == ((work % 2 == 0) ? 0 : TRANSPORTS - 1);
}

static bool is_wanted(int i)
{
    const nxt_cell cell = cell_at(i);
    char name[128];

    name_cell(&cell, name, sizeof(name));
    return (nxt_cell_na(&cell) == NULL) && (!options.subset || in_subset(i)) &&
           ((options.only == NULL) || (strstr(name, options.only) != NULL));
}

/* ---- lanes ------------------------------------------------------------------------------ */

static void say(const nxt_cell *cell, const nxt_result *r)
{
    char name[128];

    name_cell(cell, name, sizeof(name));
    if (r->failure[0] != '\0') {
        (void)printf("FAILED %s: %s\n", name, r->failure);
    } else {
        (void)printf("ok     %-58s known %7.1f ms, works %7.1f ms%s\n", name, r->known_ms,
                     r->rebuilt_ms, r->formed ? "" : "; nobody has a world");
    }
    (void)fflush(stdout);
}

/* Runs it once; false: not possible. */
static bool run_cell(const nxt_cell *cell, nxt_board *board, nxt_result *result)
{
    nxt_hosts hosts; /* new ones: a host that has sent many refusals limits their rate */

    if (!nxt_hosts_open(&hosts, HOSTS, options.wire)) {
        atomic_fetch_add(&all->skipped, 1);
        return false;
    }
    atomic_fetch_add(&all->ran, 1);
    nxt_cell_run(cell, &hosts, board, (options.tries == 0) ? LENIENCE : 1, result);
    nxt_hosts_close(&hosts);
    return true;
}

/* Repeats the cell until it meets its deadline. */
static bool try_cell(const nxt_cell *cell, nxt_board *board, nxt_result *result)
{
    char late[512] = "", name[128];

    for (int i = 0; (i == 0) || (i < options.tries); i++) {
        const size_t at = strlen(late);

        if (!run_cell(cell, board, result)) {
            return false;
        }
        if ((result->failure[0] != '\0') || !result->late) {
            break;
        }
        (void)snprintf(late + at, sizeof(late) - at, "%sknown %.1f ms, works %.1f ms",
                       (i == 0) ? "late: " : "; again: ", result->known_ms, result->rebuilt_ms);
    }
    if (result->late && (result->failure[0] == '\0')) {
        (void)snprintf(result->failure, sizeof(result->failure), "%s; may be %.0f and %.0f", late,
                       nxt_cell_known_ms(cell), nxt_cell_rebuilt_ms(cell));
    } else if (late[0] != '\0') {
        name_cell(cell, name, sizeof(name));
        (void)printf("once   %s: %s\n", name, late);
    }
    return true;
}

static int be_lane(void)
{
    nxt_board *board =
        mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int i;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    if (board == MAP_FAILED) {
        return 1;
    }
    while ((i = atomic_fetch_add(&all->next, 1)) < FAULTS * nxt_works_count * TRANSPORTS) {
        if (is_wanted(i)) {
            const nxt_cell cell = cell_at(i);

            if (!try_cell(&cell, board, &all->at[i])) {
                return SKIPPED;
            }
            say(&cell, &all->at[i]);
        }
    }
    return 0;
}

static bool run_lanes(void)
{
    pid_t lanes[LANES_MOST];
    bool ok = true;
    int status;

    for (int i = 0; i < options.jobs; i++) {
        lanes[i] = fork();
        if (lanes[i] == 0) {
            _exit(be_lane());
        }
    }
    for (int i = 0; i < options.jobs; i++) {
        ok = (waitpid(lanes[i], &status, 0) == lanes[i]) && (status == 0) && ok;
    }
    return ok;
}

/* ---- the table -------------------------------------------------------------------------- */

static void write_cell(FILE *f, int i)
{
    const nxt_cell cell = cell_at(i);
    const nxt_result *r = &all->at[i];

    if (nxt_cell_na(&cell) != NULL) {
        (void)fprintf(f, " n/a |");
    } else if (!r->done) {
        (void)fprintf(f, " - |");
    } else if (r->failure[0] != '\0') {
        (void)fprintf(f, " FAILED |");
    } else if (!r->formed) {
        (void)fprintf(f, " no world |");
    } else if (r->known_ms > 0) {
        (void)fprintf(f, " %.0f / %.0f |", r->known_ms, r->rebuilt_ms);
    } else {
        (void)fprintf(f, " 0 / %.0f |", r->rebuilt_ms);
    }
}

static void write_table(FILE *f, int transport)
{
    (void)fprintf(f, "\n| %s |", transports[transport].name);
    for (int w = 0; w < nxt_works_count; w++) {
        (void)fprintf(f, " %s |", nxt_works[w].name);
    }
    (void)fprintf(f, "\n|---|");
    for (int w = 0; w < nxt_works_count; w++) {
        (void)fprintf(f, "---|");
    }
    for (int k = 0; k < FAULTS; k++) {
        (void)fprintf(f, "\n| %s |", faults[k].name);
        for (int w = 0; w < nxt_works_count; w++) {
            write_cell(f, place(k, w, transport));
        }
    }
    (void)fprintf(f, "\n");
}

static int report(void)
{
    FILE *f = (options.table == NULL) ? NULL : fopen(options.table, "we");
    int failed = 0, ran = 0;

    for (int i = 0; i < FAULTS * nxt_works_count * TRANSPORTS; i++) {
        ran += all->at[i].done;
        failed += all->at[i].done && (all->at[i].failure[0] != '\0');
    }
    for (int t = 0; (f != NULL) && (t < TRANSPORTS); t++) {
        write_table(f, t);
    }
    if (f != NULL) {
        (void)fclose(f);
    }
    (void)printf("%d cells, %d failed\n", ran, failed);
    return (failed == 0) && (ran > 0) ? 0 : 1;
}

static bool parse(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const bool more = (i + 1 < argc);

        if (strcmp(argv[i], "--subset") == 0) {
            options.subset = true;
        } else if (more && (strcmp(argv[i], "--only") == 0)) {
            options.only = argv[++i];
        } else if (more && (strcmp(argv[i], "--table") == 0)) {
            options.table = argv[++i];
        } else if (more && (strcmp(argv[i], "--jobs") == 0)) {
            options.jobs = (int)strtol(argv[++i], NULL, 10);
        } else if (more && (strcmp(argv[i], "--tries") == 0)) {
            options.tries = (int)strtol(argv[++i], NULL, 10);
        } else {
            options.wire = argv[i];
        }
    }
    if ((options.wire != NULL) && (access(options.wire, X_OK) != 0)) {
        perror(options.wire);
        return false;
    }
    return (options.wire != NULL) && (options.jobs > 0) && (options.jobs <= LANES_MOST) &&
           (options.tries >= 0) && (nxt_works_count <= WORKS_MOST);
}

int main(int argc, char **argv)
{
    bool ok;

    if (!parse(argc, argv)) {
        (void)fprintf(stderr,
                      "matrix [--subset] [--only TEXT] [--jobs 1-8] [--tries N] [--table FILE] "
                      "WIRE\n");
        return 2;
    }
    all = mmap(NULL, sizeof(*all), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED) {
        return 1;
    }
    ok = run_lanes();
    if ((all->skipped > 0) && (all->ran == 0)) {
        return SKIPPED; /* not possible here; in a later cell that is a failure */
    }
    return report() + !ok;
}
