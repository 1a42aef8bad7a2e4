/* compress_sim.c - runs all ranks of a compressed allreduce alternately. */
#include "compress_sim.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reduce/reduce.h"

typedef struct run {
    nxt_compress_sim *sim;
    uint32_t size;
    nx_compress **ranks;
    nx_exchange *asked;
} run;

static void expect(int ok, const char *what)
{
    if (!ok) {
        (void)fprintf(stderr, "compress_sim: %s\n", what);
        abort();
    }
}

static void copy(void *to, const void *from, size_t bytes)
{
    if (bytes > 0) {
        memcpy(to, from, bytes);
    }
}

/* ---- collectives ---------------------------------------------------------- */

static void allreduce(run *r)
{
    const nx_exchange *first = &r->asked[0];
    const size_t bytes = first->count * nexar_dtype_size(first->dtype);
    void *sum = malloc(bytes + 1);

    assert(sum != NULL);
    copy(sum, first->recv, bytes);
    for (uint32_t i = 1; i < r->size; i++) {
        expect(r->asked[i].count == first->count && r->asked[i].send == NULL, "allreduce differs");
        nx_reduce(sum, sum, r->asked[i].recv, first->count, first->dtype, first->op);
    }
    if (first->op == NEXAR_AVG) {
        nx_reduce_divide(sum, first->count, first->dtype, r->size);
    }
    for (uint32_t i = 0; i < r->size; i++) {
        copy(r->asked[i].recv, sum, bytes);
    }
    r->sim->figures.sent += 2.0 * (r->size - 1) / r->size * (double)bytes;
    free(sum);
}

/* Exchanges blocks of |bytes| each: a different one for each rank, or the same for all. */
static void exchange_equal(run *r, bool same)
{
    const size_t bytes = r->asked[0].count * nexar_dtype_size(r->asked[0].dtype);

    for (uint32_t to = 0; to < r->size; to++) {
        for (uint32_t from = 0; from < r->size; from++) {
            const char *block = (const char *)r->asked[from].send + (same ? 0 : to * bytes);

            copy((char *)r->asked[to].recv + from * bytes, block, bytes);
        }
    }
    r->sim->figures.sent += (double)bytes * (r->size - 1);
}

static void exchange_v(run *r, bool same)
{
    size_t sent = 0;

    for (uint32_t to = 0; to < r->size; to++) {
        const nx_exchange *e = &r->asked[to];

        for (uint32_t from = 0; from < r->size; from++) {
            const nx_exchange *f = &r->asked[from];
            const size_t bytes = same ? f->count : f->send_counts[to];
            const size_t at = same ? 0 : f->send_displs[to];

            expect(bytes == e->recv_counts[from], "a block is not as long as expected");
            if (bytes > 0) {
                copy((char *)e->recv + e->recv_displs[from], (const char *)f->send + at, bytes);
            }
            sent += (from != to) ? bytes : 0;
        }
    }
    r->sim->figures.sent += (double)sent / r->size;
}

static void exchange(run *r)
{
    for (uint32_t i = 1; i < r->size; i++) {
        expect(r->asked[i].kind == r->asked[0].kind && r->asked[i].dtype == r->asked[0].dtype,
               "ranks ask for different collectives");
    }
    switch ((int)r->asked[0].kind) {
    case NX_ALLREDUCE:
        allreduce(r);
        break;
    case NX_ALLTOALL:
    case NX_ALLGATHER:
        exchange_equal(r, r->asked[0].kind == NX_ALLGATHER);
        break;
    case NX_ALLTOALLV:
    case NX_ALLGATHERV:
        exchange_v(r, r->asked[0].kind == NX_ALLGATHERV);
        break;
    default:
        expect(0, "no such exchange");
    }
}

/* ---- ranks ---------------------------------------------------------------- */

static nexar_err step_all(run *r)
{
    for (uint32_t i = 0; i < r->size; i++) {
        const nexar_err err = nx_compress_next(r->ranks[i], &r->asked[i]);

        if (err != NEXAR_OK) {
            return err;
        }
    }
    return NEXAR_OK;
}

static nexar_err run_all(run *r)
{
    nxt_compress_figures *figures = &r->sim->figures;
    nexar_err err = step_all(r);

    while ((err == NEXAR_OK) && (r->asked[0].kind != NX_COLL_KINDS)) {
        exchange(r);
        for (uint32_t i = 0; (i < r->size) && (r->sim->meddle != NULL); i++) {
            r->sim->meddle(i, figures->rounds, &r->asked[i], r->sim->arg);
        }
        figures->rounds++;
        err = step_all(r);
    }
    for (uint32_t i = 0; i < r->size; i++) {
        const size_t memory = nx_compress_memory(r->ranks[i]);

        expect((err != NEXAR_OK) || (r->asked[i].kind == NX_COLL_KINDS), "a rank goes on alone");
        figures->memory = (memory > figures->memory) ? memory : figures->memory;
    }
    return err;
}

nexar_err nxt_compress_run(nxt_compress_sim *sim, nx_compress_call *calls, uint32_t size)
{
    run r = {.sim = sim, .size = size};
    nexar_err err = NEXAR_OK;

    r.ranks = calloc(size, sizeof(nx_compress *));
    r.asked = calloc(size, sizeof(nx_exchange));
    assert(r.ranks != NULL && r.asked != NULL);
    sim->figures = (nxt_compress_figures){0};
    for (uint32_t i = 0; (i < size) && (err == NEXAR_OK); i++) {
        calls[i].rank = i;
        calls[i].size = size;
        err = nx_compress_check(&calls[i]);
        if (err == NEXAR_OK) {
            err = nx_compress_create(&r.ranks[i], &calls[i]);
        }
    }
    if (err == NEXAR_OK) {
        err = run_all(&r);
    }
    for (uint32_t i = 0; i < size; i++) {
        nx_compress_destroy(r.ranks[i]);
    }
    free(r.ranks);
    free(r.asked);
    return err;
}
