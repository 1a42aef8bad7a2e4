/*
 * data_parallel_training.c - a network of two layers, trained by all ranks together.
 *
 *     nexar run -n 4 ./data_parallel_training
 *
 * Every rank has the whole network and its share of each batch.  It computes the
 * gradients of its share; nexar_allreduce_bucketed adds them up, four tensors in one
 * call; then every rank makes the same step.  Sums come out with the same bits on all
 * ranks, so the weights stay equal to the bit without being sent again, which is checked
 * at the end.
 *
 * The batches are made from a fixed seed and do not depend on how many ranks there are:
 * one process computes the same sums in another order.  Floating point rounds those
 * differently, so the last loss of N ranks is that of one within 0.1 %, not to the bit.
 */
#include <math.h>
#include <nexar.h>
#include <stdio.h>
#include <string.h>

enum { INPUTS = 8, HIDDEN = 32, BATCH = 240, STEPS = 600, REPORT = 100, TENSORS = 4 };

static const float rate = 0.4F;

/* The weights, or their gradients. */
typedef struct network {
    float w1[HIDDEN][INPUTS], b1[HIDDEN], w2[HIDDEN], b2;
} network;

/* Numbers that are the same on every machine: xorshift, from -1 to 1. */
static float made_number(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (float)((double)(*state >> 11) / (double)(UINT64_C(1) << 52) - 1.0);
}

static void start_weights(network *net)
{
    uint64_t seed = 88172645463325252U;

    memset(net, 0, sizeof(*net));
    for (int h = 0; h < HIDDEN; h++) {
        for (int i = 0; i < INPUTS; i++) {
            net->w1[h][i] = made_number(&seed) * 0.6F;
        }
        net->w2[h] = made_number(&seed) * 0.3F;
    }
}

/* Sample |s| of step |step|: what goes in, and what should come out. */
static float sample(int step, int s, float x[INPUTS])
{
    uint64_t seed = UINT64_C(0x9e3779b97f4a7c15) * (uint64_t)(step * BATCH + s + 1);

    for (int i = 0; i < INPUTS; i++) {
        x[i] = made_number(&seed);
    }
    return sinf(2 * x[0]) + x[1] * x[2] - 0.5F * x[3];
}

/* Adds the gradients of one sample to |g|; returns its loss. */
static float learn(const network *net, const float x[INPUTS], float want, network *g)
{
    float h[HIDDEN], out = net->b2, d;

    for (int k = 0; k < HIDDEN; k++) {
        float sum = net->b1[k];

        for (int i = 0; i < INPUTS; i++) {
            sum += net->w1[k][i] * x[i];
        }
        h[k] = tanhf(sum);
        out += net->w2[k] * h[k];
    }
    d = out - want; /* of the loss d * d / 2 */
    g->b2 += d;
    for (int k = 0; k < HIDDEN; k++) {
        const float dh = d * net->w2[k] * (1 - h[k] * h[k]);

        g->w2[k] += d * h[k];
        g->b1[k] += dh;
        for (int i = 0; i < INPUTS; i++) {
            g->w1[k][i] += dh * x[i];
        }
    }
    return d * d / 2;
}

static void descend(network *net, const network *g)
{
    const float by = rate / BATCH;

    for (int k = 0; k < HIDDEN; k++) {
        for (int i = 0; i < INPUTS; i++) {
            net->w1[k][i] -= by * g->w1[k][i];
        }
        net->b1[k] -= by * g->b1[k];
        net->w2[k] -= by * g->w2[k];
    }
    net->b2 -= by * g->b2;
}

/* One batch: this rank's samples, everybody's gradients, the same step for all. */
static nexar_err train(nexar_comm *world, network *net, int step, double *loss)
{
    const int rank = nexar_rank(world), size = nexar_size(world);
    network g = {0};
    const nexar_tensor tensors[TENSORS] = {
        {&g.w1[0][0], (size_t)HIDDEN * INPUTS}, {g.b1, HIDDEN}, {g.w2, HIDDEN}, {&g.b2, 1}};
    nexar_err err;

    *loss = 0;
    for (int s = BATCH * rank / size; s < BATCH * (rank + 1) / size; s++) {
        float x[INPUTS];
        const float want = sample(step, s, x);

        *loss += (double)learn(net, x, want, &g) / BATCH;
    }
    err = nexar_allreduce_bucketed(world, tensors, TENSORS, NEXAR_F32, NEXAR_SUM);
    if (err == NEXAR_OK) {
        err = nexar_allreduce(world, NEXAR_IN_PLACE, loss, 1, NEXAR_F64, NEXAR_SUM);
    }
    if (err == NEXAR_OK) {
        descend(net, &g);
    }
    return err;
}

static bool same_bits(const void *a, const void *b, size_t size)
{
    return memcmp(a, b, size) == 0;
}

/* Whether all ranks have the weights of rank 0, to the bit. */
static nexar_err compare(nexar_comm *world, const network *net, uint32_t *differ)
{
    network first = *net;
    nexar_err err = nexar_broadcast(world, &first, sizeof(first), NEXAR_U8, 0);

    *differ = (err == NEXAR_OK) && !same_bits(&first, net, sizeof(first));
    return (err == NEXAR_OK)
               ? nexar_allreduce(world, NEXAR_IN_PLACE, differ, 1, NEXAR_U32, NEXAR_SUM)
               : err;
}

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
        *wrong |= !(mean < before); /* it goes down, and is a number */
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
