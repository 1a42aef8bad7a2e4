/*
 * elastic_training.c - the training of data_parallel_training.c while ranks join, leave and fail.
 *
 *     nexar seed --world 3 --join-file join &
 *     NEXAR_JOIN=$(cat join) ./elastic_training &      three times; and later, at any time, more
 *
 *     --leave STEP         leaves at that step
 *     --die STEP           kills itself at that step
 *     --hold STEP RANKS    waits there until there are RANKS ranks: the same for all
 *
 * After each step all ranks call nexar_comm_update(), which changes the world if ranks have
 * joined, left or failed.  Then the rank with the most steps broadcasts its state: new ranks have
 * none, and some of the others may not have finished the step in which a rank failed.  The batches
 * are divided among the current ranks, so the loss develops as in one process: the last value
 * differs from that of a single process by at most 0.1 %.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "training.h"

/* What everybody has: all that a new rank needs. */
typedef struct progress {
    network net;
    int step; /* the last that is done */
    double sum, first, before;
} progress;

static struct {
    int leave, die, hold_step, hold_ranks;
} options = {-1, -1, -1, 0};

/* Everybody gets what the one who has come furthest has. */
static nexar_err catch_up(nexar_comm *world, progress *p)
{
    const int size = nexar_size(world);
    int64_t furthest = (int64_t)p->step * size + nexar_rank(world);
    nexar_err err = nexar_allreduce(world, NEXAR_IN_PLACE, &furthest, 1, NEXAR_I64, NEXAR_MAX);

    if (err == NEXAR_OK) {
        err = nexar_broadcast(world, p, sizeof(*p), NEXAR_U8, (int)(furthest % size));
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
                     p->sum / REPORT, nexar_size(world));
        (void)fflush(stdout);
    }
    p->before = p->sum / REPORT;
    p->first = (p->step == REPORT) ? p->before : p->first;
    p->sum = 0;
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
        p->sum += loss;
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

/* Whether the world is another now, which all ranks see alike; says so. */
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
    bool fresh = true; /* what ranks have may differ */
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
    progress p = {.before = INFINITY};
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
        (void)printf("last mean loss %.6f; weights differ on %u ranks\n", p.before,
                     (unsigned)differ);
    }
    if ((err != NEXAR_OK) || (nexar_finalize(world) != NEXAR_OK)) {
        (void)fprintf(stderr, "elastic_training: %s\n", nexar_last_error());
        return 1;
    }
    return (differ != 0) || !(p.before < p.first / 4);
}
