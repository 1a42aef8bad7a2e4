/*
 * linger.c - a rank that says who it is and stays until its standard input ends.
 *
 *     linger [RANKS]
 *
 * With RANKS it then calls nexar_comm_update() until they are as many, adds up something over
 * all of them, and says whether the sum is right.
 */
#include <nexar.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static nexar_err grow(nexar_comm **world, int ranks)
{
    const struct timespec nap = {.tv_nsec = 5000000};
    nexar_err err = NEXAR_OK;

    while ((err == NEXAR_OK) && (nexar_size(*world) < ranks)) {
        (void)nanosleep(&nap, NULL); /* a step that computes */
        err = nexar_comm_update(world, NULL);
    }
    return err;
}

static nexar_err add_up(nexar_comm *world)
{
    const int n = nexar_size(world);
    int32_t sum = nexar_rank(world) + 1;
    nexar_err err = nexar_allreduce(world, NEXAR_IN_PLACE, &sum, 1, NEXAR_I32, NEXAR_SUM);

    if (err == NEXAR_OK) {
        (void)printf("the sum over %d ranks is %s\n", n,
                     (sum == n * (n + 1) / 2) ? "right" : "wrong");
    }
    return err;
}

int main(int argc, char **argv)
{
    const int ranks = (argc > 1) ? (int)strtol(argv[1], NULL, 10) : 0;
    nexar_comm *world = NULL;
    nexar_err err = nexar_init(NULL, &world);

    if (err == NEXAR_OK) {
        (void)printf("rank %d of %d\n", nexar_rank(world), nexar_size(world));
        (void)fflush(stdout);
        while (getchar() != EOF) {
        }
        if (ranks > 0) {
            err = grow(&world, ranks);
            err = (err == NEXAR_OK) ? add_up(world) : err;
        }
        err = (err == NEXAR_OK) ? nexar_barrier(world) : err;
    }
    if (err != NEXAR_OK) {
        (void)fprintf(stderr, "linger: %s\n", nexar_last_error());
    }
    if ((world != NULL) && (nexar_finalize(world) != NEXAR_OK)) {
        err = NEXAR_EINTERNAL;
    }
    return (err == NEXAR_OK) ? 0 : 1;
}
