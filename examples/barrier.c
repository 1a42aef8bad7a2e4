/*
 * barrier.c - no rank leaves before the last one has arrived.
 *
 *     nexar run -n 4 ./barrier
 *
 * In each round a different rank is late. The ranks compare their clocks, which are the same on
 * one machine: the first rank left after the last had arrived.
 */
#include <nexar.h>
#include <stdio.h>
#include <time.h>

enum { LATE_MS = 50 };

static int64_t now_us(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static nexar_err meet(nexar_comm *world, int late, int *wrong)
{
    const struct timespec pause = {.tv_nsec = LATE_MS * 1000000L};
    int64_t came, left;
    nexar_err err;

    if (nexar_rank(world) == late) {
        (void)nanosleep(&pause, NULL);
    }
    came = now_us();
    err = nexar_barrier(world);
    left = now_us();
    if (err == NEXAR_OK) {
        err = nexar_allreduce(world, NEXAR_IN_PLACE, &came, 1, NEXAR_I64, NEXAR_MAX);
    }
    if (err == NEXAR_OK) {
        err = nexar_allreduce(world, NEXAR_IN_PLACE, &left, 1, NEXAR_I64, NEXAR_MIN);
    }
    if ((err == NEXAR_OK) && (left < came)) {
        *wrong = 1;
    }
    if ((err == NEXAR_OK) && (nexar_rank(world) == 0)) {
        (void)printf("rank %d was late: %s\n", late,
                     (left < came) ? "somebody did not wait" : "all waited");
    }
    return err;
}

int main(void)
{
    nexar_comm *world = NULL;
    nexar_err err = nexar_init(NULL, &world);
    int wrong = 0;

    for (int late = 0; (err == NEXAR_OK) && (late < nexar_size(world)); late++) {
        err = meet(world, late, &wrong);
    }
    if ((err != NEXAR_OK) || (nexar_finalize(world) != NEXAR_OK)) {
        (void)fprintf(stderr, "barrier: %s\n", nexar_last_error());
        return 1;
    }
    return wrong;
}
