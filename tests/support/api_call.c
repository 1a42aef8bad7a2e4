/* api_call.c - collectives through the public API, held to the oracle. */
#include "api_call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inputs.h"
#include "oracle.h"
#include "rand.h"
#include "reduce/reduce.h"
#include "sched_plan.h"
#include "sim_device.h"

/* ---- the call ---------------------------------------------------------------------- */

typedef struct given {
    nexar_comm *comm;
    const nxt_call *call;
    nexar_dtype dtype;
    nexar_op op;
    const void *send;
    void *recv;
    nexar_request *req;
} given;

/* Both forms of a call: NAME(arguments) and iNAME(arguments, &req). */
#define BOTH(NAME, ...) (later ? nexar_i##NAME(__VA_ARGS__, &g->req) : nexar_##NAME(__VA_ARGS__))

static nexar_err make_plain(given *g, bool later)
{
    const nxt_call *c = g->call;
    const int root = (int)c->root;

    switch ((int)c->kind) {
    case NX_BARRIER:
        return BOTH(barrier, g->comm);
    case NX_BROADCAST:
        return BOTH(broadcast, g->comm, g->recv, c->count, g->dtype, root);
    case NX_REDUCE:
        return BOTH(reduce, g->comm, g->send, g->recv, c->count, g->dtype, g->op, root);
    case NX_ALLREDUCE:
        return BOTH(allreduce, g->comm, g->send, g->recv, c->count, g->dtype, g->op);
    case NX_ALLGATHER:
        return BOTH(allgather, g->comm, g->send, g->recv, c->count, g->dtype);
    case NX_GATHER:
        return BOTH(gather, g->comm, g->send, g->recv, c->count, g->dtype, root);
    case NX_SCATTER:
        return BOTH(scatter, g->comm, g->send, g->recv, c->count, g->dtype, root);
    case NX_REDUCE_SCATTER:
        return BOTH(reduce_scatter, g->comm, g->send, g->recv, c->count, g->dtype, g->op);
    case NX_ALLTOALL:
        return BOTH(alltoall, g->comm, g->send, g->recv, c->count, g->dtype);
    case NX_SCAN:
        return BOTH(scan, g->comm, g->send, g->recv, c->count, g->dtype, g->op);
    default:
        return BOTH(exscan, g->comm, g->send, g->recv, c->count, g->dtype, g->op);
    }
}

static nexar_err make_v(given *g, bool later)
{
    const nxt_call *c = g->call;
    const uint32_t rank = (uint32_t)nexar_rank(g->comm);
    const size_t row = (size_t)rank * c->size;
    const size_t *counts = c->counts + row, *displs = c->displs + row;
    const size_t own =
        nxt_call_block(c, ((c->kind == NX_GATHERV) || (c->kind == NX_SCATTERV)) ? c->root : rank,
                       rank)
            .len;
    const int root = (int)c->root;

    switch ((int)c->kind) {
    case NX_ALLGATHERV:
        return BOTH(allgatherv, g->comm, g->send, own, g->recv, counts, displs, g->dtype);
    case NX_GATHERV:
        return BOTH(gatherv, g->comm, g->send, own, g->recv, counts, displs, g->dtype, root);
    case NX_SCATTERV:
        return BOTH(scatterv, g->comm, g->send, counts, displs, g->recv, own, g->dtype, root);
    case NX_REDUCE_SCATTERV:
        return BOTH(reduce_scatterv, g->comm, g->send, g->recv, counts, g->dtype, g->op);
    default:
        return BOTH(alltoallv, g->comm, g->send, c->send_counts + row, c->send_displs + row,
                    g->recv, counts, displs, g->dtype);
    }
}

static nexar_err call_on(nexar_comm *comm, const nxt_call *call, nexar_dtype dtype, nexar_op op,
                         const void *send, void *recv, bool later)
{
    given g = {.comm = comm, .call = call, .dtype = dtype, .op = op, .send = send, .recv = recv};
    nexar_err err;

    if (call->in_place[nexar_rank(comm)]) {
        g.send = NEXAR_IN_PLACE;
    }
    err = nxt_is_v(call->kind) ? make_v(&g, later) : make_plain(&g, later);
    return (later && (err == NEXAR_OK)) ? nexar_wait(&g.req, NULL) : err;
}

/* ---- on device memory ---------------------------------------------------------------- */

static _Thread_local nxt_sim_device *device;

void nxt_api_use_device(nxt_sim_device *d)
{
    device = d;
}

nexar_err nxt_api_call(nexar_comm *comm, const nxt_call *call, nexar_dtype dtype, nexar_op op,
                       const void *send, void *recv, bool later)
{
    const int me = nexar_rank(comm);
    const size_t sent = call->send_len[me] * nexar_dtype_size(dtype);
    const size_t received = call->recv_len[me] * nexar_dtype_size(dtype);
    void *dev_send, *dev_recv;
    nexar_err err;

    if (device == NULL) {
        return call_on(comm, call, dtype, op, send, recv, later);
    }
    dev_send = nxt_sim_device_alloc(device, sent + 1);
    dev_recv = nxt_sim_device_alloc(device, received + 1);
    if ((dev_send == NULL) || (dev_recv == NULL)) {
        abort();
    }
    nxt_sim_device_load(device, dev_send, send, sent);
    nxt_sim_device_load(device, dev_recv, recv, received);
    err = call_on(comm, call, dtype, op, dev_send, dev_recv, later);
    nxt_sim_device_store(device, recv, dev_recv, received);
    nxt_sim_device_reset(device);
    return err;
}

/* ---- a trial ------------------------------------------------------------------------- */

/* Vectors of all ranks. */
static char **vectors(const nxt_call *call, const size_t *lens, size_t size)
{
    char **at = nxt_calloc(call->size, sizeof(*at));

    for (uint32_t r = 0; r < call->size; r++) {
        at[r] = nxt_calloc(lens[r] + 1, size);
    }
    return at;
}

static void vectors_free(const nxt_call *call, char **at)
{
    for (uint32_t r = 0; r < call->size; r++) {
        free(at[r]);
    }
    free(at);
}

static void draw(const nxt_call *call, const nxt_inputs *in, char **send, char **recv, size_t size)
{
    for (uint32_t r = 0; r < call->size; r++) {
        nxt_fill_random(in->seed + r, send[r], call->send_len[r] * size);
        nxt_fill_random(in->seed + 77 + r, recv[r], call->recv_len[r] * size);
        if (nx_coll_reduces(call->kind)) {
            char *at = call->in_place[r] ? recv[r] : send[r];
            size_t len = call->in_place[r] ? call->recv_len[r] : call->send_len[r];

            for (size_t i = 0; i < len; i++) {
                nxt_input_exact(in, r, i, at + i * size);
            }
        }
    }
}

static const size_t counts[] = {0, 1, 2, 7, 64, 1000, 4099, 40000, 300000};

static nexar_op draw_op(nxt_rand *rand, nx_coll_kind kind, nexar_dtype dtype)
{
    nexar_op op;

    do {
        op = (nexar_op)nxt_below(rand, NX_OPS);
    } while (!nx_reduce_legal(dtype, op) ||
             ((op == NEXAR_AVG) && ((kind == NX_SCAN) || (kind == NX_EXSCAN))));
    return nx_coll_reduces(kind) ? op : NEXAR_SUM;
}

const char *nxt_api_trial(nexar_comm *comm, nx_coll_kind kind, uint64_t seed)
{
    static _Thread_local char why[256];
    nxt_rand rand = {nxt_mix(seed)};
    const uint32_t n = (uint32_t)nexar_size(comm), me = (uint32_t)nexar_rank(comm);
    const nexar_dtype dtype = (nexar_dtype)nxt_below(&rand, NX_DTYPES);
    const nexar_op op = draw_op(&rand, kind, dtype);
    const size_t size = nexar_dtype_size(dtype);
    const size_t count = counts[nxt_below(&rand, sizeof(counts) / sizeof(counts[0]))];
    const bool later = nxt_below(&rand, 2) != 0;
    nxt_call call;
    nexar_err err;

    nxt_call_init(&call, kind, n, (uint32_t)nxt_below(&rand, n), count,
                  (nxt_place)nxt_below(&rand, NXT_PLACES), seed);
    nxt_inputs in = {.dtype = dtype, .op = op, .size = n, .seed = seed};
    char **send = vectors(&call, call.send_len, size), **recv = vectors(&call, call.recv_len, size);
    char **want = vectors(&call, call.recv_len, size);
    char **loose = vectors(&call, call.recv_len, sizeof(bool));
    nxt_data data = {.call = &call, .dtype = dtype, .op = op, .send = send, .recv = recv};

    draw(&call, &in, send, recv, size);
    nxt_oracle(&data, want, (bool *const *)loose);
    err = nxt_api_call(comm, &call, dtype, op, send[me], recv[me], later);
    why[0] = '\0';
    if (err != NEXAR_OK) {
        (void)snprintf(why, sizeof(why), "%s", nexar_last_error());
    }
    for (size_t i = 0; (why[0] == '\0') && (i < call.recv_len[me]); i++) {
        if (!loose[me][i] && (memcmp(recv[me] + i * size, want[me] + i * size, size) != 0)) {
            (void)snprintf(why, sizeof(why), "%s of %zu x %s, %s, seed %llu: element %zu is wrong",
                           nx_coll_name(kind), count, nexar_dtype_name(dtype), nexar_op_name(op),
                           (unsigned long long)seed, i);
        }
    }
    vectors_free(&call, send);
    vectors_free(&call, recv);
    vectors_free(&call, want);
    vectors_free(&call, loose);
    nxt_call_fini(&call);
    return (why[0] == '\0') ? NULL : why;
}
