/*
 * sharded_optimizer.c - Adam with sharded state: the two moments exist once in the world, and
 * each rank keeps those of its shard.
 *
 *     nexar run -n 4 ./sharded_optimizer
 *
 * The call gets the gradients. Between its two phases a rank has the averaged gradients of its
 * shard only. There the callback updates the moments and overwrites the gradients with the new
 * weights. The second phase distributes the weights to all ranks.
 *
 * The loss is the distance to a target. Every rank has its gradient with a different error; the
 * errors of all ranks cancel. So every rank can also compute the result of an Adam in one
 * process, and compares.
 */
#include <math.h>
#include <nexar.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 10007, STEPS = 60 };

static const float rate = 0.05F, beta1 = 0.9F, beta2 = 0.999F, tiny = 1e-8F;

/* The moments of |n| weights from |offset| on, and the weights themselves. */
typedef struct adam {
    float *first, *second;
    const float *weights; /* all weights, before this step */
    int step;
} adam;

/* Writes the new weights to |g|, which contains the gradients. */
static void update(adam *a, float *g, size_t offset, size_t n)
{
    const float fix1 = 1 - powf(beta1, (float)a->step), fix2 = 1 - powf(beta2, (float)a->step);

    for (size_t i = 0; i < n; i++) {
        a->first[i] = beta1 * a->first[i] + (1 - beta1) * g[i];
        a->second[i] = beta2 * a->second[i] + (1 - beta2) * g[i] * g[i];
        g[i] = a->weights[offset + i] -
               rate * (a->first[i] / fix1) / (sqrtf(a->second[i] / fix2) + tiny);
    }
}

static nexar_err on_shard(void *shard, size_t offset, size_t count, void *arg)
{
    update(arg, shard, offset, count);
    return NEXAR_OK;
}

static float target(size_t i)
{
    return (float)(i % 13) * 0.1F - 0.6F;
}

/* The gradient of |rank|: slightly too large or too small. */
static void gradient(const float *weights, int rank, int size, float *g)
{
    const float error = ((float)rank - (float)(size - 1) / 2) * 0.25F;

    for (size_t i = 0; i < COUNT; i++) {
        g[i] = weights[i] - target(i) + error;
    }
}

static double loss(const float *weights)
{
    double sum = 0;

    for (size_t i = 0; i < COUNT; i++) {
        const double d = (double)weights[i] - (double)target(i);

        sum += d * d / COUNT;
    }
    return sum;
}

/* |memory| has room for the weights, the gradients, and all of one process's Adam. */
static nexar_err train(nexar_comm *world, float *memory, adam *mine, double *off)
{
    const int rank = nexar_rank(world), size = nexar_size(world);
    float *weights = memory, *g = weights + COUNT, *alone = g + COUNT, *own = alone + COUNT;
    adam whole = {.first = own + COUNT, .second = own + 2 * (size_t)COUNT, .weights = alone};
    nexar_err err = NEXAR_OK;

    mine->weights = weights;
    for (int step = 1; (step <= STEPS) && (err == NEXAR_OK); step++) {
        mine->step = whole.step = step;
        gradient(weights, rank, size, g);
        err = nexar_allreduce_rs_ag(world, g, COUNT, NEXAR_F32, NEXAR_AVG, on_shard, mine);
        memcpy(weights, g, COUNT * sizeof(*weights));
        gradient(alone, 0, 1, own);
        update(&whole, own, 0, COUNT);
        memcpy(alone, own, COUNT * sizeof(*alone));
        if ((rank == 0) && (step % 20 == 0) && (err == NEXAR_OK)) {
            (void)printf("step %2d: loss %.6f\n", step, loss(weights));
        }
    }
    *off = 0;
    for (size_t i = 0; i < COUNT; i++) {
        *off = fmax(*off, fabs((double)weights[i] - (double)alone[i]));
    }
    return err;
}

static nexar_err run(nexar_comm *world, int *wrong)
{
    float *memory = calloc(6 * (size_t)COUNT, sizeof(*memory)), *moments;
    size_t offset, n;
    nexar_err err = NEXAR_ENOMEM;
    double off = 0;

    nexar_shard(world, COUNT, nexar_rank(world), &offset, &n);
    moments = calloc(2 * n + 1, sizeof(*moments));
    if ((memory != NULL) && (moments != NULL)) {
        adam mine = {.first = moments, .second = moments + n};

        err = train(world, memory, &mine, &off);
        (void)printf("rank %d: moments of %zu of %d weights; off by %s\n", nexar_rank(world), n,
                     (int)COUNT, (off < 1e-4) ? "less than 0.0001" : "too much");
        *wrong = (off >= 1e-4) || (loss(memory) > 1e-3);
    }
    free(memory);
    free(moments);
    return err;
}

int main(void)
{
    nexar_comm *world;
    int wrong = 0;

    if ((nexar_init(NULL, &world) != NEXAR_OK) || (run(world, &wrong) != NEXAR_OK) ||
        (nexar_finalize(world) != NEXAR_OK)) {
        (void)fprintf(stderr, "sharded_optimizer: %s\n", nexar_last_error());
        return 1;
    }
    return wrong;
}
