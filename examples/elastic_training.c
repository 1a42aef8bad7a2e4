/*
 * elastic_training.c - the training of data_parallel_training.c while ranks join, leave and fail.
 *
 *     nexar seed --world 2 --join-file join &
 *     NEXAR_JOIN_FILE=join ./elastic_training &      twice; and later, at any time, more
 *
 *     --leave STEP         leaves after that step
 *     --die STEP           kills itself after that step
 *     --hold STEP RANKS    waits after that step until there are RANKS ranks; the same for all
 *
 * After each step all ranks call nexar_comm_update(), which changes the world if ranks have
 * joined, left or failed. After a change all ranks call nexar_state_sync(), with the number of
 * the last step as the revision: a rank that has joined receives everything, and so does one that
 * had not completed the step in which a rank failed. A batch is divided among the current ranks,
 * so the loss does not depend on their number. The last loss equals that of a single process
 * within 0.1 %.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "training.h"

/* The sum since the last report; the mean of the first report; the mean of the last report. */
enum { SUM, FIRST, LAST, LOSSES };

/* The state that a new rank needs. */
typedef struct progress {
    network net;
    double losses[LOSSES];
    int step; /* the last completed step */
} progress;

static struct {
    int leave, die, hold_step, hold_ranks;
} options = {-1, -1, -1, 0};

/* All ranks get the state of a rank that has completed the most steps. */
static nexar_err catch_up(nexar_comm *world, progress *p)
{
    const nexar_state state[] = {{"w1", p->net.w1, (size_t)HIDDEN * INPUTS, NEXAR_F32},
                                 {"b1", p->net.b1, HIDDEN, NEXAR_F32},
                                 {"w2", p->net.w2, HIDDEN, NEXAR_F32},
                                 {"b2", &p->net.b2, 1, NEXAR_F32},
                                 {"losses", p->losses, LOSSES, NEXAR_F64}};
    uint64_t revision = (uint64_t)p->step;
    const nexar_err err =
        nexar_state_sync(world, state, sizeof(state) / sizeof(state[0]), &revision, NULL);

    if (err == NEXAR_OK) {
        p->step = (int)revision;
    }
    return err;
}

static void report(const nexar_comm *world, progress *p)
{
    if (p->step % REPORT != 0) {
        return;
    }
    if (nexar_rank(world) == 0) {
        (void)printf("steps %3d to %3d: mean loss %.6f, %d ranks\n", p->step - REPORT + 1, p->step,
                     p->losses[SUM] / REPORT, nexar_size(world));
        (void)fflush(stdout);
    }
    p->losses[LAST] = p->losses[SUM] / REPORT;
    p->losses[FIRST] = (p->step == REPORT) ? p->losses[LAST] : p->losses[FIRST];
    p->losses[SUM] = 0;
}

static nexar_err one_step(nexar_comm *world, progress *p)
{
    double loss = 0;
    nexar_err err;

    if (p->step == options.die) {
        (void)raise(SIGKILL);
    }
    err = train(world, &p->net, p->step + 1, &loss);
    if (err == NEXAR_OK) {
        p->step++;
        p->losses[SUM] += loss;
        report(world, p);
    }
    return err;
}

/* The current ranks wait for others. */
static nexar_err hold(void)
{
    const struct timespec nap = {.tv_nsec = 10000000};

    (void)nanosleep(&nap, NULL);
    return NEXAR_OK;
}

/* Whether the world has changed, with the same result on all ranks; reports the change. */
static bool has_changed(const nexar_change *c, const progress *p)
{
    if (c->joined + c->left + c->failed == 0) {
        return false;
    }
    if (c->new_rank == 0) {
        (void)printf("after step %d: %d ranks, %d joined, %d left, %d failed\n", p->step,
                     c->new_size, c->joined, c->left, c->failed);
        (void)fflush(stdout);
    }
    return true;
}

/* |*world| is NULL in the end if this rank has left. */
static nexar_err run(nexar_comm **world, progress *p)
{
    bool fresh = true; /* the states of the ranks may differ */
    nexar_err err = NEXAR_OK;

    while ((err == NEXAR_OK) && (*world != NULL) && (fresh || (p->step < STEPS))) {
        nexar_change change;

        if (fresh) {
            err = catch_up(*world, p);
        } else if ((p->step == options.hold_step) && (nexar_size(*world) < options.hold_ranks)) {
            err = hold();
        } else {
            err = one_step(*world, p);
        }
        fresh = fresh && (err != NEXAR_OK);
        if ((err == NEXAR_OK) && (p->step == options.leave)) {
            err = nexar_comm_leave(*world);
        }
        if ((err == NEXAR_OK) || (err == NEXAR_EPEER) || (err == NEXAR_EREVOKED)) {
            err = nexar_comm_update(world, &change);
        }
        if (err == NEXAR_OK) {
            fresh = has_changed(&change, p) || fresh;
        }
    }
    return err;
}

static void parse(int argc, char **argv)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        const int number = (int)strtol(argv[i + 1], NULL, 10);

        if (strcmp(argv[i], "--leave") == 0) {
            options.leave = number;
        } else if (strcmp(argv[i], "--die") == 0) {
            options.die = number;
        } else if ((strcmp(argv[i], "--hold") == 0) && (i + 2 < argc)) {
            options.hold_step = number;
            options.hold_ranks = (int)strtol(argv[i + 2], NULL, 10);
            i++;
        }
    }
}

int main(int argc, char **argv)
{
    progress p = {.losses = {[LAST] = INFINITY}};
    nexar_comm *world = NULL;
    uint32_t differ = 0;
    nexar_err err;

    parse(argc, argv);
    start_weights(&p.net);
    err = nexar_init(NULL, &world);
    if (err == NEXAR_OK) {
        err = run(&world, &p);
    }
    if ((err == NEXAR_OK) && (world == NULL)) {
        (void)printf("left after step %d\n", p.step);
        return 0;
    }
    if (err == NEXAR_OK) {
        err = compare(world, &p.net, &differ);
    }
    if ((err == NEXAR_OK) && (nexar_rank(world) == 0)) {
        (void)printf("last mean loss %.6f; weights differ on %u ranks\n", p.losses[LAST],
                     (unsigned)differ);
    }
    if ((err != NEXAR_OK) || (nexar_finalize(world) != NEXAR_OK)) {
        (void)fprintf(stderr, "elastic_training: %s\n", nexar_last_error());
        return 1;
    }
    return (differ != 0) || !(p.losses[LAST] < p.losses[FIRST] / 4);
}
