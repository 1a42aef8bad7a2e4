/*
 * data_parallel_training.c - a network of two layers, trained by all ranks together.
 *
 *     nexar run -n 4 ./data_parallel_training
 *
 * Every rank has the whole network and its share of each batch. It computes the gradients of its
 * share; nexar_allreduce_bucketed adds them up, four tensors in one call; then every rank makes
 * the same step. Sums have the same bits on all ranks, so the weights stay bit-identical without
 * being sent again. The end of the program checks that.
 *
 * The batches come from a fixed seed and do not depend on the number of ranks: one process
 * computes the same sums in another order. Floating point rounds them differently, so the last
 * loss of N ranks equals that of one process within 0.1 %, not bit for bit.
 */
#include <stdio.h>

#include "training.h"

static nexar_err run(nexar_comm *world, int *wrong)
{
    double loss = 0, mean = 0, before = INFINITY, first = 0;
    nexar_err err = NEXAR_OK;
    uint32_t differ = 0;
    network net;

    start_weights(&net);
    for (int step = 1; (step <= STEPS) && (err == NEXAR_OK); step++) {
        err = train(world, &net, step, &loss);
        mean += loss / REPORT;
        if ((err != NEXAR_OK) || (step % REPORT != 0)) {
            continue;
        }
        if (nexar_rank(world) == 0) {
            (void)printf("steps %3d to %3d: mean loss %.6f\n", step - REPORT + 1, step, mean);
        }
        *wrong |= !(mean < before); /* the loss decreases and is not NaN */
        first = (step == REPORT) ? mean : first;
        before = mean;
        mean = 0;
    }
    if (err == NEXAR_OK) {
        err = compare(world, &net, &differ);
    }
    if ((err == NEXAR_OK) && (nexar_rank(world) == 0)) {
        (void)printf("last mean loss %.6f; weights differ on %u ranks\n", before, (unsigned)differ);
    }
    *wrong |= (differ != 0) || !(before < first / 4);
    return err;
}

int main(void)
{
    nexar_comm *world;
    int wrong = 0;

    if ((nexar_init(NULL, &world) != NEXAR_OK) || (run(world, &wrong) != NEXAR_OK) ||
        (nexar_finalize(world) != NEXAR_OK)) {
        (void)fprintf(stderr, "data_parallel_training: %s\n", nexar_last_error());
        return 1;
    }
    return wrong;
}
