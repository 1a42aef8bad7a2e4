/* local_world.c - ranks as threads of a test. */
#include "local_world.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct rank {
    pthread_t thread;
    nexar_comm *world;
    void (*fn)(nexar_comm *world, void *arg);
    void *arg;
} rank;

void nxt_rank_check(nexar_comm *world, int ok, const char *what, const char *file, int line)
{
    if (!ok) {
        (void)fprintf(stderr, "%s:%d: rank %d: %s: %s\n", file, line, nexar_rank(world), what,
                      nexar_last_error());
        abort();
    }
}

static void *run(void *arg)
{
    rank *r = arg;

    r->fn(r->world, r->arg);
    NXT_OK(r->world, nexar_finalize(r->world));
    return NULL;
}

void nxt_local_world(int n, const nexar_config *cfg, void (*fn)(nexar_comm *world, void *arg),
                     void *arg)
{
    nexar_comm **worlds = calloc((size_t)n, sizeof(nexar_comm *));
    rank *ranks = calloc((size_t)n, sizeof(*ranks));

    if ((worlds == NULL) || (ranks == NULL)) {
        abort();
    }
    NXT_OK(NULL, nexar_init_local(n, cfg, worlds));
    for (int i = 0; i < n; i++) {
        ranks[i] = (rank){.world = worlds[i], .fn = fn, .arg = arg};
        NXT_IS(NULL, nexar_rank(worlds[i]) == i);
        NXT_IS(NULL, pthread_create(&ranks[i].thread, NULL, run, &ranks[i]) == 0);
    }
    for (int i = 0; i < n; i++) {
        (void)pthread_join(ranks[i].thread, NULL);
    }
    free(ranks);
    free(worlds);
}

static unsigned char pattern(size_t i, uint64_t seed)
{
    uint64_t x = (seed + i / 251) * UINT64_C(0x9e3779b97f4a7c15) + i;

    return (unsigned char)(x ^ (x >> 29));
}

void nxt_fill(void *buf, size_t bytes, uint64_t seed)
{
    unsigned char *p = buf;

    for (size_t i = 0; i < bytes; i++) {
        p[i] = pattern(i, seed);
    }
}

int nxt_filled(const void *buf, size_t bytes, uint64_t seed)
{
    const unsigned char *p = buf;

    for (size_t i = 0; i < bytes; i++) {
        if (p[i] != pattern(i, seed)) {
            return 0;
        }
    }
    return 1;
}

nexar_err nxt_sum_all(nexar_comm *c, size_t n)
{
    const int sum = nexar_size(c) * (nexar_size(c) + 1) / 2;
    float *v = malloc(n * sizeof(*v));
    nexar_err err;

    if (v == NULL) {
        abort();
    }
    for (size_t i = 0; i < n; i++) {
        v[i] = (float)(nexar_rank(c) + 1);
    }
    err = nexar_allreduce(c, NEXAR_IN_PLACE, v, n, NEXAR_F32, NEXAR_SUM);
    for (size_t i = 0; (err == NEXAR_OK) && (i < n); i++) {
        NXT_IS(c, v[i] == (float)sum);
    }
    free(v);
    return err;
}

void nxt_rank_says(nexar_comm *world, nexar_err got, nexar_err want, const char *part,
                   const char *file, int line)
{
    char what[600];

    (void)snprintf(what, sizeof(what), "want %s with \"%s\", got %s: %s", nexar_strerror(want),
                   part, nexar_strerror(got), nexar_last_error());
    nxt_rank_check(world, (got == want) && (strstr(nexar_last_error(), part) != NULL), what, file,
                   line);
}
