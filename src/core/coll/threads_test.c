/*
 * threads_test.c - several threads of each rank, with communicators of their own, have many
 * collectives in flight: with requests, blocking, compressed.
 */
#include <pthread.h>
#include <stdlib.h>

#include "local_world.h"
#include "rand.h"
#include "sanitized.h"
#include "sched_plan.h"
#include "unit.h"

enum { THREADS = 4, DUPS = 4, AT_ONCE = 3, MOST = 20000, ROUNDS = NXT_SANITIZED ? 6 : 40 };

typedef struct worker {
    pthread_t thread;
    nexar_comm *world, *dups[DUPS];
    nxt_rand rand; /* the same on all ranks */
    double *data[DUPS][AT_ONCE];
    nexar_request *reqs[DUPS][AT_ONCE];
    size_t counts[DUPS];
} worker;

/* Sums of these are exact in all types. */
static double element(int rank, uint64_t salt, size_t i)
{
    return (double)((i * 7 + (size_t)rank * 3 + salt) % 64);
}

static void fill(const worker *w, double *data, size_t count, uint64_t salt)
{
    for (size_t i = 0; i < count; i++) {
        data[i] = element(nexar_rank(w->world), salt, i);
    }
}

static void check(const worker *w, const double *data, size_t count, uint64_t salt)
{
    for (size_t i = 0; i < count; i++) {
        double sum = 0;

        for (int rank = 0; rank < nexar_size(w->world); rank++) {
            sum += element(rank, salt, i);
        }
        NXT_IS(w->world, data[i] == sum);
    }
}

/* Several with a request on |dup|: plain, and one that is compressed. */
static void begin(worker *w, int dup)
{
    w->counts[dup] = 1 + nxt_below(&w->rand, MOST);
    for (int i = 0; i < AT_ONCE; i++) {
        double *data = w->data[dup][i];

        fill(w, data, w->counts[dup], (uint64_t)i);
        NXT_OK(w->world,
               (i == 1) ? nexar_iallreduce_compressed(w->dups[dup], data, w->counts[dup], NEXAR_F64,
                                                      NEXAR_SUM, NEXAR_COMPRESS_NONE, 0, NULL,
                                                      &w->reqs[dup][i])
                        : nexar_iallreduce(w->dups[dup], NEXAR_IN_PLACE, data, w->counts[dup],
                                           NEXAR_F64, NEXAR_SUM, &w->reqs[dup][i]));
    }
}

/* One blocking call, behind those with a request. */
static void block(worker *w, int dup, double *data)
{
    const size_t count = 1 + nxt_below(&w->rand, MOST);
    const bool compressed = nxt_one_in(&w->rand, 3);

    fill(w, data, count, 9);
    NXT_OK(w->world, compressed ? nexar_allreduce_compressed(w->dups[dup], data, count, NEXAR_F64,
                                                             NEXAR_SUM, NEXAR_COMPRESS_F16, 0, NULL)
                                : nexar_allreduce(w->dups[dup], NEXAR_IN_PLACE, data, count,
                                                  NEXAR_F64, NEXAR_SUM));
    check(w, data, count, 9);
}

static void *work(void *arg)
{
    static _Thread_local double data[MOST];
    worker *w = arg;

    for (int round = 0; round < ROUNDS; round++) {
        for (int dup = 0; dup < DUPS; dup++) {
            begin(w, dup);
        }
        block(w, (int)nxt_below(&w->rand, DUPS), data);
        for (int at = DUPS * AT_ONCE - 1; at >= 0; at--) {
            const int dup = at % DUPS, i = at / DUPS;

            NXT_OK(w->world, nexar_wait(&w->reqs[dup][i], NULL));
            check(w, w->data[dup][i], w->counts[dup], (uint64_t)i);
        }
    }
    return NULL;
}

static void many_threads(nexar_comm *world, void *arg)
{
    worker *workers = nxt_calloc(THREADS, sizeof(*workers));

    (void)arg;
    for (int t = 0; t < THREADS; t++) {
        workers[t].world = world;
        workers[t].rand.state = nxt_mix((uint64_t)t + 1);
        for (int dup = 0; dup < DUPS; dup++) {
            NXT_OK(world, nexar_comm_dup(world, &workers[t].dups[dup]));
            for (int i = 0; i < AT_ONCE; i++) {
                workers[t].data[dup][i] = nxt_calloc(MOST, sizeof(double));
            }
        }
    }
    for (int t = 0; t < THREADS; t++) {
        NXT_IS(world, pthread_create(&workers[t].thread, NULL, work, &workers[t]) == 0);
    }
    for (int t = 0; t < THREADS; t++) {
        NXT_IS(world, pthread_join(workers[t].thread, NULL) == 0);
        for (int dup = 0; dup < DUPS; dup++) {
            nexar_comm_free(workers[t].dups[dup]);
            for (int i = 0; i < AT_ONCE; i++) {
                free(workers[t].data[dup][i]);
            }
        }
    }
    free(workers);
}

static void test_threads_have_collectives_on_their_way_on_many_communicators(void **state)
{
    (void)state;
    nxt_local_world(3, NULL, many_threads, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads_have_collectives_on_their_way_on_many_communicators),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
