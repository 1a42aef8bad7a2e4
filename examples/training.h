/*
 * training.h - a network of two layers, and a step of its training by all ranks. Shared by
 * data_parallel_training.c and elastic_training.c.
 *
 * The batches come from a fixed seed and do not depend on the number of ranks.
 */
#ifndef TRAINING_H
#define TRAINING_H

#include <math.h>
#include <nexar.h>
#include <string.h>

enum { INPUTS = 8, HIDDEN = 32, BATCH = 240, STEPS = 600, REPORT = 100, TENSORS = 4 };

static const float rate = 0.4F;

/* The weights, or their gradients. */
typedef struct network {
    float w1[HIDDEN][INPUTS], b1[HIDDEN], w2[HIDDEN], b2;
} network;

/* Numbers that are the same on every machine: xorshift, from -1 to 1. */
static inline float made_number(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (float)((double)(*state >> 11) / (double)(UINT64_C(1) << 52) - 1.0);
}

static inline void start_weights(network *net)
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

/* Sample |s| of step |step|: the input and the target. */
static inline float sample(int step, int s, float x[INPUTS])
{
    uint64_t seed = UINT64_C(0x9e3779b97f4a7c15) * (uint64_t)(step * BATCH + s + 1);

    for (int i = 0; i < INPUTS; i++) {
        x[i] = made_number(&seed);
    }
    return sinf(2 * x[0]) + x[1] * x[2] - 0.5F * x[3];
}

/* Adds the gradients of one sample to |g|; returns its loss. */
static inline float learn(const network *net, const float x[INPUTS], float want, network *g)
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

static inline void descend(network *net, const network *g)
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

/* One batch: this rank's samples, the gradients of all ranks, the same step on all. */
static inline nexar_err train(nexar_comm *world, network *net, int step, double *loss)
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

static inline bool same_bits(const void *a, const void *b, size_t size)
{
    return memcmp(a, b, size) == 0;
}

/* Whether all ranks have bit-identical weights to rank 0. */
static inline nexar_err compare(nexar_comm *world, const network *net, uint32_t *differ)
{
    network first = *net;
    nexar_err err = nexar_broadcast(world, &first, sizeof(first), NEXAR_U8, 0);

    *differ = (err == NEXAR_OK) && !same_bits(&first, net, sizeof(first));
    return (err == NEXAR_OK)
               ? nexar_allreduce(world, NEXAR_IN_PLACE, differ, 1, NEXAR_U32, NEXAR_SUM)
               : err;
}

#endif /* TRAINING_H */
