/*
 * allreduce.c - every rank has a vector; all ranks get the sum and the maximum of all vectors.
 *
 *     nexar run -n 4 ./allreduce
 */
#include <nexar.h>
#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 100000 };

/* Element i of rank r is r + i % 10: integers, so that the sum is exact. */
static size_t count_wrong(const float *sum, int size)
{
    size_t wrong = 0;

    for (int i = 0; i < COUNT; i++) {
        const int want = size * (size - 1) / 2 + size * (i % 10);

        wrong += (sum[i] != (float)want);
    }
    return wrong;
}

static nexar_err run(nexar_comm *world, float *mine, float *sum, size_t *wrong)
{
    const int rank = nexar_rank(world), size = nexar_size(world);
    double largest = 1.5 * rank; /* in place: the result replaces the input */
    nexar_err err;

    for (int i = 0; i < COUNT; i++) {
        mine[i] = (float)(rank + i % 10);
    }
    err = nexar_allreduce(world, mine, sum, COUNT, NEXAR_F32, NEXAR_SUM);
    if (err == NEXAR_OK) {
        err = nexar_allreduce(world, NEXAR_IN_PLACE, &largest, 1, NEXAR_F64, NEXAR_MAX);
    }
    if (err == NEXAR_OK) {
        *wrong = count_wrong(sum, size) + (largest != 1.5 * (size - 1));
        (void)printf("rank %d: the first sum is %g, the last %g, the largest number %g\n", rank,
                     (double)sum[0], (double)sum[COUNT - 1], largest);
    }
    return err;
}

int main(void)
{
    float *mine = malloc(COUNT * sizeof(*mine)), *sum = malloc(COUNT * sizeof(*sum));
    nexar_comm *world;
    size_t wrong = 0;
    int code = 0;

    if ((mine == NULL) || (sum == NULL)) {
        (void)fprintf(stderr, "allreduce: out of memory\n");
        code = 1;
    } else if ((nexar_init(NULL, &world) != NEXAR_OK) ||
               (run(world, mine, sum, &wrong) != NEXAR_OK) || (nexar_finalize(world) != NEXAR_OK)) {
        (void)fprintf(stderr, "allreduce: %s\n", nexar_last_error());
        code = 1;
    } else if (wrong > 0) {
        (void)fprintf(stderr, "allreduce: %zu numbers are wrong\n", wrong);
        code = 1;
    }
    free(mine);
    free(sum);
    return code;
}
