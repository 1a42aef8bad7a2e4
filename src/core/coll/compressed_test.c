/* compressed_test.c - the compressed allreduce between real ranks. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "compress_sim.h"
#include "local_world.h"
#include "rand.h"
#include "unit.h"

enum { HOWS = NEXAR_COMPRESS_INT8 + 1 };

/* ---- tensors ----------------------------------------------------------------------- */

/* Element |i| of rank |rank|: equal wherever it is computed. */
static float element(uint64_t seed, int rank, size_t i)
{
    const double x = (double)(nxt_hash(seed, (uint64_t)rank, i) >> 40) / (double)(1 << 23) - 1.0;

    return (float)(x * x * x * ((i % 11 == 0) ? 20.0 : 1.0));
}

static void fill(void *to, size_t count, nexar_dtype dtype, uint64_t seed, int rank)
{
    for (size_t i = 0; i < count; i++) {
        const float f32 = element(seed, rank, i);
        const double f64 = (double)f32;
        uint32_t bits;
        uint16_t bf16;

        memcpy(&bits, &f32, sizeof bits);
        bf16 = (uint16_t)(bits >> 16);
        if (dtype == NEXAR_F32) {
            memcpy((char *)to + i * sizeof f32, &f32, sizeof f32);
        } else if (dtype == NEXAR_F64) {
            memcpy((char *)to + i * sizeof f64, &f64, sizeof f64);
        } else { /* some f16, if it is not bf16 */
            memcpy((char *)to + i * sizeof bf16, &bf16, sizeof bf16);
        }
    }
}

static void *room(size_t bytes)
{
    void *p = calloc(1, bytes + 1);

    assert_non_null(p);
    return p;
}

/* ---- every method, compared with the simulation ---------------------------------------- */

typedef struct job {
    nexar_compression how;
    nexar_dtype dtype;
    nexar_op op;
    double ratio;
    size_t count;
    uint64_t seed;
    bool feedback;
} job;

/* The result of |rank|, computed in one thread. */
static void simulate(const job *j, int size, int rank, void *buf, void *residual)
{
    const size_t bytes = j->count * nexar_dtype_size(j->dtype);
    nx_compress_call *calls = room((size_t)size * sizeof *calls);
    nxt_compress_sim sim = {0};

    for (int r = 0; r < size; r++) {
        calls[r] = (nx_compress_call){.buf = room(bytes),
                                      .residual = j->feedback ? room(bytes) : NULL,
                                      .count = j->count,
                                      .dtype = j->dtype,
                                      .op = j->op,
                                      .how = j->how,
                                      .ratio = j->ratio};
        fill(calls[r].buf, j->count, j->dtype, j->seed, r);
        if (j->feedback) {
            fill(calls[r].residual, j->count, j->dtype, j->seed + 1, r);
        }
    }
    assert_int_equal(nxt_compress_run(&sim, calls, (uint32_t)size), NEXAR_OK);
    memcpy(buf, calls[rank].buf, bytes);
    if (j->feedback) {
        memcpy(residual, calls[rank].residual, bytes);
    }
    for (int r = 0; r < size; r++) {
        free(calls[r].buf);
        free(calls[r].residual);
    }
    free(calls);
}

static nexar_err call(nexar_comm *world, const job *j, void *buf, void *residual)
{
    nexar_request *req;
    nexar_err err;

    if (j->seed % 2 == 0) {
        return nexar_allreduce_compressed(world, buf, j->count, j->dtype, j->op, j->how, j->ratio,
                                          residual);
    }
    err = nexar_iallreduce_compressed(world, buf, j->count, j->dtype, j->op, j->how, j->ratio,
                                      residual, &req);
    return (err == NEXAR_OK) ? nexar_wait(&req, NULL) : err;
}

static void same_on_all(nexar_comm *world, const void *buf, size_t bytes)
{
    const int size = nexar_size(world);
    char *all = room(bytes * (size_t)size);

    NXT_OK(world, nexar_allgather(world, buf, all, bytes, NEXAR_U8));
    for (int r = 1; r < size; r++) {
        NXT_IS(world, memcmp(all, all + (size_t)r * bytes, bytes) == 0);
    }
    free(all);
}

static void run_job(nexar_comm *world, const job *j)
{
    const size_t bytes = j->count * nexar_dtype_size(j->dtype);
    const int rank = nexar_rank(world), size = nexar_size(world);
    void *buf = room(bytes), *expected = room(bytes);
    void *residual = room(bytes), *left = room(bytes);

    fill(buf, j->count, j->dtype, j->seed, rank);
    if (j->feedback) {
        fill(residual, j->count, j->dtype, j->seed + 1, rank);
    }
    NXT_OK(world, call(world, j, buf, j->feedback ? residual : NULL));
    same_on_all(world, buf, bytes);
    /* The others sum in the order of the engine's algorithm, or select by the communicator. */
    if ((j->how != NEXAR_COMPRESS_NONE) && (j->how != NEXAR_COMPRESS_RANDOMK)) {
        simulate(j, size, rank, expected, left);
        NXT_IS(world, memcmp(buf, expected, bytes) == 0);
        NXT_IS(world, !j->feedback || (memcmp(residual, left, bytes) == 0));
    }
    free(buf);
    free(expected);
    free(residual);
    free(left);
}

static void every_method(nexar_comm *world, void *arg)
{
    static const nexar_dtype dtypes[] = {NEXAR_F32, NEXAR_F64, NEXAR_F16, NEXAR_BF16};
    static const size_t counts[] = {0, 1, 3, 257, 5003};
    nxt_rand rand = {(uint64_t)nexar_size(world)};

    (void)arg;
    for (int trial = 0; trial < 5 * HOWS; trial++) {
        const job j = {.how = (nexar_compression)(trial % HOWS),
                       .dtype = dtypes[nxt_below(&rand, 4)],
                       .op = nxt_one_in(&rand, 2) ? NEXAR_SUM : NEXAR_AVG,
                       .ratio = nxt_one_in(&rand, 2) ? 0.02 : 0.6,
                       .count = counts[trial / HOWS],
                       .seed = nxt_below(&rand, 1000),
                       .feedback = !nxt_one_in(&rand, 4)};

        run_job(world, &j);
    }
}

static void test_every_method_gives_what_the_simulation_gives(void **state)
{
    (void)state;
    for (int size = 1; size <= 5; size++) {
        nxt_local_world(size, NULL, every_method, NULL);
    }
}

/* ---- no loss -------------------------------------------------------------------------- */

static void steps_add_up(nexar_comm *world, void *arg)
{
    enum { COUNT = 3001, STEPS = 12 };
    const int rank = nexar_rank(world);
    double *total = room(COUNT * sizeof *total), *want = room(COUNT * sizeof *want);
    float *gradient = room(COUNT * sizeof *gradient), *residual = room(COUNT * sizeof *residual);

    (void)arg;
    for (int how = 0; how < HOWS; how++) {
        memset(residual, 0, COUNT * sizeof *residual);
        memset(total, 0, COUNT * sizeof *total);
        memset(want, 0, COUNT * sizeof *want);
        for (uint64_t step = 0; step < STEPS; step++) {
            fill(gradient, COUNT, NEXAR_F32, step, rank);
            for (size_t i = 0; i < COUNT; i++) {
                want[i] += (double)gradient[i];
            }
            NXT_OK(world, nexar_allreduce_compressed(world, gradient, COUNT, NEXAR_F32, NEXAR_SUM,
                                                     (nexar_compression)how, 0.1, residual));
            for (size_t i = 0; i < COUNT; i++) {
                total[i] += (double)gradient[i];
            }
        }
        for (size_t i = 0; i < COUNT; i++) {
            want[i] -= (double)residual[i]; /* the data that this rank has sent */
        }
        NXT_OK(world, nexar_allreduce(world, NEXAR_IN_PLACE, want, COUNT, NEXAR_F64, NEXAR_SUM));
        for (size_t i = 0; i < COUNT; i++) {
            NXT_IS(world, fabs(total[i] - want[i]) < 1e-3);
        }
    }
    free(total);
    free(want);
    free(gradient);
    free(residual);
}

static void test_results_and_residuals_add_up(void **state)
{
    (void)state;
    nxt_local_world(3, NULL, steps_add_up, NULL);
}

/* ---- several at once ------------------------------------------------------------------ */

static void many_at_once(nexar_comm *world, void *arg)
{
    enum { MANY = 24, COUNT = 1500 };
    const int rank = nexar_rank(world), size = nexar_size(world);
    nexar_request *reqs[2 * MANY];
    float *bufs[MANY];
    int64_t sums[MANY];

    (void)arg;
    for (int i = 0; i < MANY; i++) {
        bufs[i] = room(COUNT * sizeof(float));
        fill(bufs[i], COUNT, NEXAR_F32, (uint64_t)i, rank);
        sums[i] = rank + i;
        NXT_OK(world,
               nexar_iallreduce_compressed(world, bufs[i], COUNT, NEXAR_F32, NEXAR_SUM,
                                           (nexar_compression)(i % HOWS), 0.3, NULL, &reqs[2 * i]));
        NXT_OK(world, nexar_iallreduce(world, NEXAR_IN_PLACE, &sums[i], 1, NEXAR_I64, NEXAR_SUM,
                                       &reqs[2 * i + 1]));
    }
    NXT_OK(world, nexar_barrier(world));
    NXT_OK(world, nexar_wait_all(2 * MANY, reqs));
    for (int i = 0; i < MANY; i++) {
        NXT_IS(world, sums[i] == size * (size - 1) / 2 + (int64_t)size * i);
        same_on_all(world, bufs[i], COUNT * sizeof(float));
        free(bufs[i]);
    }
}

static void test_many_change_concurrently_among_others(void **state)
{
    (void)state;
    nxt_local_world(3, NULL, many_at_once, NULL);
}

/* A request that is never waited for ends with the world, like others. */
static void left_behind(nexar_comm *world, void *arg)
{
    nexar_request *req;

    NXT_OK(world,
           nexar_iallreduce_compressed(world, (char *)arg + nexar_rank(world) * 400, 100, NEXAR_F32,
                                       NEXAR_SUM, NEXAR_COMPRESS_TOPK, 0.5, NULL, &req));
}

static void test_a_request_may_be_left_behind(void **state)
{
    static float tensors[3][100];

    (void)state;
    nxt_local_world(3, NULL, left_behind, tensors);
}

/* ---- wrong use ------------------------------------------------------------------------ */

static void wrong_arguments(nexar_comm *world, void *arg)
{
    float buf[8] = {1}, residual[8] = {0};
    nexar_request *req = NULL;

    (void)arg;
    NXT_IS(world, nexar_allreduce_compressed(NULL, buf, 8, NEXAR_F32, NEXAR_SUM, NEXAR_COMPRESS_F16,
                                             0, NULL) == NEXAR_EINVAL);
    NXT_IS(world, nexar_allreduce_compressed(world, buf, 8, NEXAR_I32, NEXAR_SUM,
                                             NEXAR_COMPRESS_F16, 0, NULL) == NEXAR_EINVAL);
    NXT_IS(world, strcmp(nexar_last_error(),
                         "allreduce_compressed: the dtype i32 (5) cannot be compressed: accepted "
                         "are f32, f64, f16 and bf16") == 0);
    NXT_IS(world, nexar_iallreduce_compressed(world, buf, 8, NEXAR_F32, NEXAR_MAX,
                                              NEXAR_COMPRESS_F16, 0, NULL, &req) == NEXAR_EINVAL);
    NXT_IS(world, nexar_iallreduce_compressed(world, buf, 8, NEXAR_F32, NEXAR_SUM,
                                              NEXAR_COMPRESS_F16, 0, NULL, NULL) == NEXAR_EINVAL);
    NXT_IS(world, nexar_allreduce_compressed(world, buf, 8, NEXAR_F32, NEXAR_SUM,
                                             NEXAR_COMPRESS_TOPK, 1.01, residual) == NEXAR_EINVAL);
    NXT_IS(world, (req == NULL) && (buf[0] == 1.0F));
    NXT_OK(world, nexar_allreduce_compressed(world, buf, 8, NEXAR_F32, NEXAR_SUM,
                                             NEXAR_COMPRESS_TOPK, 0.1, residual));
    NXT_IS(world, buf[0] == (float)nexar_size(world));
}

static void test_wrong_arguments_leave_the_communicator_usable(void **state)
{
    (void)state;
    nxt_local_world(2, NULL, wrong_arguments, NULL);
}

/* Returns when all ranks are here; their counts of collectives may differ. */
static void meet(nexar_comm *world)
{
    const int rank = nexar_rank(world), size = nexar_size(world);
    char mine = 0, its;

    for (int i = 1; i < size; i++) {
        NXT_OK(world, nexar_sendrecv(world, &mine, 1, (rank + i) % size, 1, &its, 1,
                                     (rank + size - i) % size, 1, NULL));
    }
}

/* Rank 1 calls a different operation; all ranks must get an error. */
static void other_call(nexar_comm *world, void *arg)
{
    enum { COUNT = 700 };
    const int which = *(const int *)arg;
    const bool odd = (nexar_rank(world) == 1);
    float buf[COUNT + 1] = {0}, residual[COUNT + 1] = {0};
    const size_t count = (odd && (which == 0)) ? COUNT + 1 : COUNT;
    const nexar_op op = (odd && (which == 1)) ? NEXAR_AVG : NEXAR_SUM;
    const nexar_compression how = (odd && (which == 2)) ? NEXAR_COMPRESS_INT8 : NEXAR_COMPRESS_TOPK;
    const double ratio = (odd && (which == 3)) ? 0.2 : 0.3;
    nexar_err err;

    if (odd && (which == 4)) {
        err = nexar_allreduce(world, NEXAR_IN_PLACE, buf, COUNT, NEXAR_F32, NEXAR_SUM);
    } else {
        err = nexar_allreduce_compressed(world, buf, count, NEXAR_F32, op, how, ratio, residual);
    }
    NXT_IS(world, err == NEXAR_EMISMATCH);
    NXT_IS(world, strstr(nexar_last_error(), "allreduce_compressed(70") != NULL);
    if (which == 4) {
        NXT_IS(world, strstr(nexar_last_error(), " allreduce(700 x f32, sum)") != NULL);
    }
    meet(world); /* otherwise a departing rank would be reported instead */
}

static void test_another_call_is_found_out_on_all(void **state)
{
    (void)state;
    for (int which = 0; which <= 4; which++) {
        nxt_local_world(3, NULL, other_call, &which);
    }
}

/* ---- failures ------------------------------------------------------------------------- */

/* Rank 1 has no memory for its computation: no rank waits for it. */
static void no_memory(nexar_comm *world, void *arg)
{
    enum { COUNT = 2000, CREATE = 2 /* allocations before the call gets its numbers */ };
    const int rank = nexar_rank(world);
    float *buf = room(COUNT * sizeof *buf), *kept = room(COUNT * sizeof *kept);
    float *residual = room(COUNT * sizeof *residual);

    (void)arg;
    fill(kept, COUNT, NEXAR_F32, 1, rank);
    memcpy(buf, kept, COUNT * sizeof *buf);
    NXT_OK(world, nexar_allreduce_compressed(world, buf, COUNT, NEXAR_F32, NEXAR_SUM,
                                             NEXAR_COMPRESS_INT8, 0, residual));
    memset(residual, 0, COUNT * sizeof *residual);
    for (long n = CREATE; n < CREATE + 2; n++) {
        memcpy(buf, kept, COUNT * sizeof *buf);
        if (rank == 1) {
            nx_alloc_fail_after(n);
        }
        NXT_IS(world, nexar_allreduce_compressed(world, buf, COUNT, NEXAR_F32, NEXAR_SUM,
                                                 NEXAR_COMPRESS_INT8, 0, residual) == NEXAR_ENOMEM);
        nx_alloc_fail_after(-1);
        NXT_IS(world, strstr(nexar_last_error(), "rank 1: ") != NULL);
        for (size_t i = 0; i < COUNT; i++) {
            NXT_IS(world, (buf[i] == kept[i]) && (residual[i] == 0.0F));
        }
        NXT_OK(world, nexar_barrier(world));
    }
    NXT_OK(world, nexar_allreduce_compressed(world, buf, COUNT, NEXAR_F32, NEXAR_SUM,
                                             NEXAR_COMPRESS_INT8, 0, residual));
    same_on_all(world, buf, COUNT * sizeof *buf);
    free(buf);
    free(kept);
    free(residual);
}

static void test_without_memory_on_one_rank_all_fail_and_go_on(void **state)
{
    (void)state;
    nxt_local_world(3, NULL, no_memory, NULL);
}

/* Rank 2 calls only when the others have given up, and gets the reason. */
static void late(nexar_comm *world, void *arg)
{
    float buf[100] = {0}, residual[100] = {0};
    char word = 0;

    (void)arg;
    for (int how = 0; how < HOWS; how++) {
        if (nexar_rank(world) == 2) {
            NXT_OK(world, nexar_recv(world, &word, 1, 0, (uint64_t)how, NULL));
            NXT_OK(world, nexar_recv(world, &word, 1, 1, (uint64_t)how, NULL));
        }
        NXT_IS(world, nexar_allreduce_compressed(world, buf, 100, NEXAR_F32, NEXAR_SUM,
                                                 (nexar_compression)how, 0.5,
                                                 residual) == NEXAR_ETIMEDOUT);
        if (nexar_rank(world) != 2) {
            NXT_OK(world, nexar_send(world, &word, 1, 2, (uint64_t)how));
        }
    }
}

static void test_a_joiner_that_is_too_late_gets_the_reason(void **state)
{
    nexar_config *cfg = NULL;

    (void)state;
    assert_int_equal(nexar_config_create(&cfg), NEXAR_OK);
    assert_int_equal(nexar_config_set(cfg, "collective_timeout", "300ms"), NEXAR_OK);
    nxt_local_world(3, cfg, late, NULL);
    nexar_config_free(cfg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_method_gives_what_the_simulation_gives),
        cmocka_unit_test(test_results_and_residuals_add_up),
        cmocka_unit_test(test_many_change_concurrently_among_others),
        cmocka_unit_test(test_a_request_may_be_left_behind),
        cmocka_unit_test(test_wrong_arguments_leave_the_communicator_usable),
        cmocka_unit_test(test_another_call_is_found_out_on_all),
        cmocka_unit_test(test_without_memory_on_one_rank_all_fail_and_go_on),
        cmocka_unit_test(test_a_joiner_that_is_too_late_gets_the_reason),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
