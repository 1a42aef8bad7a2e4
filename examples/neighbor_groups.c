/*
 * neighbor_groups.c - communicators of listed ranks, created by these ranks only.
 *
 *     nexar run -n 4 ./neighbor_groups
 *
 * Each rank has a communicator with the rank before it and one with the rank after it. They
 * overlap, so each pair has its own tag. No rank waits for ranks that are not in its pairs.
 */
#include <nexar.h>
#include <stdio.h>

static const uint64_t LIMIT_NS = UINT64_C(30000000000); /* a rank that does not call is an error */

/* Adds up the ranks of the world in the pair |low|, |low| + 1. */
static nexar_err add_pair(nexar_comm *world, int low, int *sum)
{
    const int pair[] = {low, low + 1};
    nexar_comm *both = NULL;
    nexar_err err = nexar_comm_create(world, pair, 2, (uint64_t)low, &both);

    *sum = nexar_rank(world);
    if (err == NEXAR_OK) {
        err = nexar_allreduce(both, NEXAR_IN_PLACE, sum, 1, NEXAR_I32, NEXAR_SUM);
    }
    nexar_comm_free(both);
    return err;
}

static nexar_err run(nexar_comm *world)
{
    const int rank = nexar_rank(world), last = nexar_size(world) - 1;
    int before = 0, after = 0;
    nexar_err err = nexar_comm_set_timeout(world, LIMIT_NS);

    if ((err == NEXAR_OK) && (rank > 0)) {
        err = add_pair(world, rank - 1, &before);
    }
    if ((err == NEXAR_OK) && (rank < last)) {
        err = add_pair(world, rank, &after);
    }
    if (err == NEXAR_OK) {
        (void)printf("rank %d: sums %d and %d\n", rank, before, after);
    }
    return err;
}

int main(void)
{
    nexar_comm *world = NULL;
    nexar_err err = nexar_init(NULL, &world);

    if (err == NEXAR_OK) {
        err = run(world);
    }
    if ((err != NEXAR_OK) || (nexar_finalize(world) != NEXAR_OK)) {
        (void)fprintf(stderr, "neighbor_groups: %s\n", nexar_last_error());
        return 1;
    }
    return 0;
}
