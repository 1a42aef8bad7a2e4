/*
 * send_recv.c - a ring: each rank sends to the next one and receives from the one
 * before, until every rank has seen every number.
 *
 *     nexar run -n 4 ./send_recv
 *
 * It shows nexar_sendrecv (both directions at once, so that no order of ranks can deadlock) and
 * the same with requests: start, compute, wait.
 */
#include <nexar.h>
#include <stdint.h>
#include <stdio.h>

enum { TAG_RING = 1, TAG_BLOCK, BLOCK = 1 << 20 };

/* Passes numbers around the ring; every rank gets the same sum. */
static nexar_err ring(nexar_comm *world, int next, int before, uint64_t *sum)
{
    uint64_t held = (uint64_t)nexar_rank(world) + 1, got = 0;
    nexar_err err = NEXAR_OK;

    *sum = held;
    for (int step = 1; (step < nexar_size(world)) && (err == NEXAR_OK); step++) {
        err = nexar_sendrecv(world, &held, sizeof(held), next, TAG_RING, &got, sizeof(got), before,
                             TAG_RING, NULL);
        held = got;
        *sum += held;
    }
    return err;
}

/* The same step with a larger block, waiting for it later. */
static nexar_err block(nexar_comm *world, int next, int before, nexar_status *status)
{
    static unsigned char mine[BLOCK], theirs[BLOCK];
    nexar_request *in = NULL, *out = NULL;
    nexar_err err = nexar_irecv(world, theirs, sizeof(theirs), before, TAG_BLOCK, &in);
    nexar_err sent = NEXAR_OK;

    if (err == NEXAR_OK) {
        sent = nexar_isend(world, mine, sizeof(mine), next, TAG_BLOCK, &out);
    }
    if (sent != NEXAR_OK) {
        (void)nexar_cancel(in);
    }
    /* A program would compute here. */
    if (sent == NEXAR_OK) {
        sent = nexar_wait(&out, NULL);
    }
    if (err == NEXAR_OK) {
        err = nexar_wait(&in, status);
    }
    return (sent == NEXAR_OK) ? err : sent;
}

static nexar_err run(nexar_comm *world)
{
    const int rank = nexar_rank(world), size = nexar_size(world);
    const int next = (rank + 1) % size, before = (rank + size - 1) % size;
    nexar_status status = {0};
    uint64_t sum = 0;
    nexar_err err = ring(world, next, before, &sum);

    if (err == NEXAR_OK) {
        err = block(world, next, before, &status);
    }
    if (err == NEXAR_OK) {
        (void)printf("rank %d: the sum of 1 to %d is %llu; a block of %zu bytes from rank %d\n",
                     rank, size, (unsigned long long)sum, status.bytes, status.source);
    }
    return err;
}

static int failed(void)
{
    (void)fprintf(stderr, "send_recv: %s\n", nexar_last_error());
    return 1;
}

int main(void)
{
    nexar_comm *world;

    if ((nexar_init(NULL, &world) != NEXAR_OK) || (run(world) != NEXAR_OK) ||
        (nexar_finalize(world) != NEXAR_OK)) {
        return failed();
    }
    return 0;
}
