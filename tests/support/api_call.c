/* api_call.c - runs collectives through the public API and compares them with the oracle. */
#include "api_call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inputs.h"
#include "oracle.h"
#include "rand.h"
#include "reduce/reduce.h"
#include "sched_plan.h"

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

/* Makes |call| as the rank of g->comm; with |later| only starts it. */
static nexar_err make_call(given *g, bool later)
{
    if (g->call->in_place[nexar_rank(g->comm)]) {
        g->send = NEXAR_IN_PLACE;
    }
    return nxt_is_v(g->call->kind) ? make_v(g, later) : make_plain(g, later);
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

/* Long vectors on few ranks, shorter ones on many: every rank computes the inputs and results of
 * all ranks. */
static size_t draw_count(nxt_rand *rand, uint32_t n)
{
    const size_t count = counts[nxt_below(rand, sizeof(counts) / sizeof(counts[0]))];
    const size_t most = 600000 / ((size_t)n * n * n);

    return (count < most) ? count : most;
}

struct nxt_api_op {
    nxt_call call;
    given given;
    uint64_t seed;
    size_t size; /* of an element */
    bool later;
    nexar_err err;
    char **send, **recv, **want, **loose;
    nxt_sim_device *device; /* device of the buffers; NULL: host memory */
    char why[256];
};

static _Thread_local nxt_sim_device *device;
static _Thread_local unsigned on_device; /* operations that have not ended */

void nxt_api_use_device(nxt_sim_device *d)
{
    device = d;
}

/* Copies the buffers of |op| to the device. */
static void to_device(nxt_api_op *op, size_t sent, size_t received)
{
    void *send = nxt_sim_device_alloc(device, sent + 1);
    void *recv = nxt_sim_device_alloc(device, received + 1);

    if ((send == NULL) || (recv == NULL)) {
        abort();
    }
    nxt_sim_device_load(device, send, op->given.send, sent);
    nxt_sim_device_load(device, recv, op->given.recv, received);
    op->given.send = send;
    op->given.recv = recv;
    op->device = device;
    on_device++;
}

/* Copies the result back. */
static void from_device(nxt_api_op *op)
{
    const int me = nexar_rank(op->given.comm);

    nxt_sim_device_store(op->device, op->recv[me], op->given.recv,
                         op->call.recv_len[me] * op->size);
    if (--on_device == 0) {
        nxt_sim_device_reset(op->device);
    }
}

nxt_api_op *nxt_api_begin(nexar_comm *comm, nx_coll_kind kind, uint64_t seed)
{
    nxt_api_op *op = nxt_calloc(1, sizeof(*op));
    nxt_rand rand = {nxt_mix(seed)};
    const uint32_t n = (uint32_t)nexar_size(comm), me = (uint32_t)nexar_rank(comm);
    const nexar_dtype dtype = (nexar_dtype)nxt_below(&rand, NX_DTYPES);
    const nexar_op how = draw_op(&rand, kind, dtype);
    const size_t count = draw_count(&rand, n);

    op->seed = seed;
    op->size = nexar_dtype_size(dtype);
    op->later = nxt_below(&rand, 2) != 0;
    nxt_call_init(&op->call, kind, n, nxt_below(&rand, n), count,
                  (nxt_place)nxt_below(&rand, NXT_PLACES), seed);
    op->send = vectors(&op->call, op->call.send_len, op->size);
    op->recv = vectors(&op->call, op->call.recv_len, op->size);
    op->want = vectors(&op->call, op->call.recv_len, op->size);
    op->loose = vectors(&op->call, op->call.recv_len, sizeof(bool));

    nxt_inputs in = {.dtype = dtype, .op = how, .size = n, .seed = seed};
    nxt_data data = {
        .call = &op->call, .dtype = dtype, .op = how, .send = op->send, .recv = op->recv};

    draw(&op->call, &in, op->send, op->recv, op->size);
    nxt_oracle(&data, op->want, (bool *const *)op->loose);
    op->given = (given){.comm = comm,
                        .call = &op->call,
                        .dtype = dtype,
                        .op = how,
                        .send = op->send[me],
                        .recv = op->recv[me]};
    if (device != NULL) {
        to_device(op, op->call.send_len[me] * op->size, op->call.recv_len[me] * op->size);
    }
    op->err = make_call(&op->given, op->later);
    if (op->err != NEXAR_OK) {
        (void)snprintf(op->why, sizeof(op->why), "%s", nexar_last_error());
    }
    return op;
}

/* Compares the result with the oracle; describes a difference in |op->why|. */
static void check_result(nxt_api_op *op)
{
    const size_t size = op->size;
    const int me = nexar_rank(op->given.comm);

    for (size_t i = 0; i < op->call.recv_len[me]; i++) {
        if (!op->loose[me][i] &&
            (memcmp(op->recv[me] + i * size, op->want[me] + i * size, size) != 0)) {
            (void)snprintf(
                op->why, sizeof(op->why), "%s of %zu x %s, %s, seed %llu: element %zu is wrong",
                nx_coll_name(op->call.kind), op->call.count, nexar_dtype_name(op->given.dtype),
                nexar_op_name(op->given.op), (unsigned long long)op->seed, i);
            return;
        }
    }
}

const char *nxt_api_end(nxt_api_op *op)
{
    static _Thread_local char why[256];

    if ((op->err == NEXAR_OK) && op->later) {
        op->err = nexar_wait(&op->given.req, NULL);
        if (op->err != NEXAR_OK) {
            (void)snprintf(op->why, sizeof(op->why), "%s", nexar_last_error());
        }
    }
    if (op->device != NULL) {
        from_device(op);
    }
    if (op->err == NEXAR_OK) {
        check_result(op);
    }
    memcpy(why, op->why, sizeof(why));
    vectors_free(&op->call, op->send);
    vectors_free(&op->call, op->recv);
    vectors_free(&op->call, op->want);
    vectors_free(&op->call, op->loose);
    nxt_call_fini(&op->call);
    free(op);
    return (why[0] == '\0') ? NULL : why;
}

const char *nxt_api_trial(nexar_comm *comm, nx_coll_kind kind, uint64_t seed)
{
    return nxt_api_end(nxt_api_begin(comm, kind, seed));
}
