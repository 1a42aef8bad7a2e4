/* work.c - the workloads during which faults occur. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cell.h"

enum { SMALL = 16, LARGE = 1 << 20, TENSORS = 40, TENSOR = 500, PAIR = 4096, MESSAGE = 64 };
enum { TAG = 5, CALL = 7, NOTHING = -1 };

static float floats[LARGE];
static int32_t out[NXT_CELL_RANKS * PAIR], in[NXT_CELL_RANKS * PAIR];

/* ---- sums ------------------------------------------------------------------------------------ */

static unsigned may_be_lost;

void nxt_work_may_lose(unsigned ranks)
{
    may_be_lost = ranks;
}

/* Rank r contributes r + 1 + i % 5 in all |n|. */
static void give(nexar_comm *c, uint64_t i, float *v, size_t n)
{
    for (size_t k = 0; k < n; k++) {
        v[k] = (float)(nexar_rank(c) + 1 + (int)(i % 5));
    }
}

/* Whether |rank| has contributed nothing to a completed step; |size|: of |c| when the step
 * began. */
static bool is_lost(nexar_comm *c, int size, int rank)
{
    return (nexar_size(c) != size) && (((may_be_lost >> rank) & 1) != 0);
}

/* |size|: of |c| when the step began; ranks lost since have contributed nothing. */
static void check_sum(nexar_comm *c, int size, uint64_t i, const float *v, size_t n,
                      const char **wrong)
{
    int whole = 0;
    float sum;

    for (int rank = 0; rank < size; rank++) {
        whole += is_lost(c, size, rank) ? 0 : rank + 1 + (int)(i % 5);
    }
    sum = (float)whole;
    for (size_t k = 0; k < n; k++) {
        if (v[k] != sum) {
            *wrong = "a sum over all ranks is wrong";
        }
    }
}

static nexar_err sum(nexar_comm *c, uint64_t i, size_t n, const char **wrong)
{
    const int size = nexar_size(c);
    nexar_err err;

    give(c, i, floats, n);
    err = nexar_allreduce(c, NEXAR_IN_PLACE, floats, n, NEXAR_F32, NEXAR_SUM);
    if (err == NEXAR_OK) {
        check_sum(c, size, i, floats, n, wrong);
    }
    return err;
}

nexar_err nxt_work_sum(nexar_comm *c, uint64_t i, const char **wrong)
{
    return sum(c, i, SMALL, wrong);
}

static nexar_err step_large(nexar_comm *c, uint64_t i, const char **wrong)
{
    return sum(c, i, LARGE, wrong);
}

static nexar_err step_bucketed(nexar_comm *c, uint64_t i, const char **wrong)
{
    const int size = nexar_size(c);
    nexar_tensor tensors[TENSORS];
    nexar_err err;

    give(c, i, floats, (size_t)TENSORS * TENSOR);
    for (size_t t = 0; t < TENSORS; t++) {
        tensors[t] = (nexar_tensor){floats + t * TENSOR, TENSOR};
    }
    err = nexar_allreduce_bucketed(c, tensors, TENSORS, NEXAR_F32, NEXAR_SUM);
    if (err == NEXAR_OK) {
        check_sum(c, size, i, floats, (size_t)TENSORS * TENSOR, wrong);
    }
    return err;
}

/* ---- others ----------------------------------------------------------------------------- */

static char said[320];

const char *nxt_work_said(void)
{
    return (said[0] == '\0') ? nexar_last_error() : said;
}

/* Ends the pending ones of |n| requests; |err| is the first error. */
static nexar_err give_up(nexar_err err, size_t n, nexar_request *requests[])
{
    (void)snprintf(said, sizeof(said), "%s", nexar_last_error());
    for (size_t k = 0; k < n; k++) {
        if (requests[k] != NULL) {
            (void)nexar_cancel(requests[k]);
        }
    }
    (void)nexar_wait_all(n, requests);
    return err;
}

/* Exchanges with both neighbours at once: a neighbour of a failed rank waits for it, whatever
 * happens on the other side. */
static nexar_err step_ring(nexar_comm *c, uint64_t i, const char **wrong)
{
    const int n = nexar_size(c), me = nexar_rank(c);
    const int beside[2] = {(me + n - 1) % n, (me + 1) % n};
    uint64_t gives[MESSAGE] = {i * 100 + (uint64_t)me}, gets[2][MESSAGE] = {{0}};
    nexar_request *requests[4] = {NULL};
    nexar_err err = NEXAR_OK;
    size_t at;

    said[0] = '\0';
    for (size_t k = 0; (err == NEXAR_OK) && (k < 2);
         k++) { /* tags: from the right, from the left */
        err = nexar_irecv(c, gets[k], sizeof(gets[k]), beside[k], TAG + 1 - k, &requests[k]);
        if (err == NEXAR_OK) {
            err = nexar_isend(c, gives, sizeof(gives), beside[k], TAG + k, &requests[2 + k]);
        }
    }
    for (size_t k = 0; (err == NEXAR_OK) && (k < 4); k++) {
        err = nexar_wait_any(4, requests, &at, NULL);
    }
    if (err != NEXAR_OK) {
        return give_up(err, 4, requests);
    }
    for (size_t k = 0; k < 2; k++) {
        if (gets[k][0] != i * 100 + (uint64_t)beside[k]) {
            *wrong = "a message is not the one that was sent for this step";
        }
    }
    return NEXAR_OK;
}

static int32_t pair_value(uint64_t i, int from, int to)
{
    return (int32_t)(i % 100000) * 100 + from * 10 + to;
}

static nexar_err step_alltoall(nexar_comm *c, uint64_t i, const char **wrong)
{
    const int n = nexar_size(c), me = nexar_rank(c);
    nexar_err err;

    for (int k = 0; k < n * PAIR; k++) {
        out[k] = pair_value(i, me, k / PAIR);
        in[k] = NOTHING;
    }
    err = nexar_alltoall(c, out, in, PAIR, NEXAR_I32);
    for (int k = 0; (err == NEXAR_OK) && (k < n * PAIR); k++) {
        const int from = k / PAIR;

        if (in[k] != (is_lost(c, n, from) ? NOTHING : pair_value(i, from, me))) {
            *wrong = "an element of an alltoall is wrong";
        }
    }
    return err;
}

static nexar_err step_barrier(nexar_comm *c, uint64_t i, const char **wrong)
{
    (void)i;
    (void)wrong;
    return nexar_barrier(c);
}

static nexar_err answer(nexar_rpc *call, const void *data, size_t bytes, void *arg)
{
    uint64_t x = 0;

    (void)arg;
    if (bytes != sizeof(x)) {
        return NEXAR_EINVAL;
    }
    memcpy(&x, data, sizeof(x));
    x = x * 3 + (uint64_t)nexar_rpc_caller(call);
    return nexar_rpc_reply(call, &x, sizeof(x));
}

static nexar_err prepare_rpc(nexar_comm *c)
{
    nexar_err err = nexar_rpc_register(c, CALL, answer, NULL);

    return (err == NEXAR_OK) ? nexar_barrier(c) : err; /* all ranks have it */
}

static nexar_err step_rpc(nexar_comm *c, uint64_t i, const char **wrong)
{
    const int n = nexar_size(c), me = nexar_rank(c);

    for (int k = 1; k < n; k++) {
        uint64_t reply = 0;
        size_t bytes = sizeof(reply);
        void *at = NULL;
        nexar_err err = nexar_rpc_call(c, (me + k) % n, CALL, &i, sizeof(i), &at, &bytes);

        if (err != NEXAR_OK) {
            return err;
        }
        if (bytes == sizeof(reply)) {
            memcpy(&reply, at, sizeof(reply));
        }
        if (reply != i * 3 + (uint64_t)me) {
            *wrong = "the reply of a remote call is wrong";
        }
        free(at);
    }
    return NEXAR_OK;
}

/* A split that a failure interrupts may succeed on some ranks only.  Those would wait for the
 * others on the result, so the step does nothing on it. */
static nexar_err step_split(nexar_comm *c, uint64_t i, const char **wrong)
{
    const int size = nexar_size(c), rank = nexar_rank(c);
    nexar_comm *half = NULL;
    int32_t there = 1;
    nexar_err err = nexar_comm_split(c, (rank + (int)(i % 2)) % 2, 0, &half);

    if ((err == NEXAR_OK) && (nexar_size(c) == size) &&
        ((nexar_rank(half) != rank / 2) || (nexar_size(half) != (size - rank % 2 + 1) / 2))) {
        *wrong = "a part of a communicator has another size or order";
    }
    if (err == NEXAR_OK) {
        err = nexar_allreduce(half, NEXAR_IN_PLACE, &there, 1, NEXAR_I32, NEXAR_SUM);
        if ((err == NEXAR_OK) && (there != nexar_size(half))) {
            *wrong = "a part of a communicator does not count its ranks right";
        }
    }
    nexar_comm_free(half);
    return err;
}

/* A creation takes no part in recovery: the next collective rebuilds the communicator. */
static nexar_err step_create(nexar_comm *c, uint64_t i, const char **wrong)
{
    const int size = nexar_size(c);
    nexar_comm *all = NULL;
    int ranks[64];
    int32_t there = 1;
    nexar_err err, told;

    for (int rank = 0; rank < size; rank++) {
        ranks[rank] = (rank + (int)(i % (uint64_t)size)) % size;
    }
    err = nexar_comm_create(c, ranks, (size_t)size, i % 3, &all);
    if ((err == NEXAR_OK) &&
        ((nexar_size(all) != size) || (ranks[nexar_rank(all)] != nexar_rank(c)))) {
        *wrong = "a communicator of listed ranks has another size or order";
    }
    if (err == NEXAR_OK) {
        err = nexar_allreduce(all, NEXAR_IN_PLACE, &there, 1, NEXAR_I32, NEXAR_SUM);
        if ((err == NEXAR_OK) && (there != nexar_size(all))) {
            *wrong = "a communicator of listed ranks does not count its ranks right";
        }
    }
    nexar_comm_free(all);
    if (err == NEXAR_OK) {
        return NEXAR_OK;
    }
    told = nexar_barrier(c);
    return (told != NEXAR_OK) ? told : err;
}

static float stale_or_new(bool stale, uint64_t i, size_t k)
{
    return (float)((i - (stale ? 1 : 0)) % 1000) + (float)(k % 7);
}

static bool holds(const float *v, bool stale, uint64_t i)
{
    for (size_t k = 0; k < LARGE; k++) {
        if (v[k] != stale_or_new(stale, i, k)) {
            return false;
        }
    }
    return true;
}

/* One rank is a step behind.  A failed call leaves the previous contents. */
static nexar_err step_state_sync(nexar_comm *c, uint64_t i, const char **wrong)
{
    const nexar_state state[] = {{"long", floats, LARGE - 3, NEXAR_F32},
                                 {"short", floats + LARGE - 3, 3, NEXAR_F32}};
    const bool stale = (nexar_rank(c) == (int)(i % (uint64_t)nexar_size(c)));
    uint64_t revision = i + (stale ? 1 : 2);
    nexar_sync_report report;
    nexar_err err;

    for (size_t k = 0; k < LARGE; k++) {
        floats[k] = stale_or_new(stale, i, k);
    }
    err = nexar_state_sync(c, state, 2, &revision, &report);
    if (report.updated != (err == NEXAR_OK)) {
        *wrong = "the report of a state_sync contradicts its result";
    }
    /* If only the rank that was behind is left, it has nothing to catch up with. */
    if (!holds(floats, (err == NEXAR_OK) ? (revision != i + 2) : stale, i) ||
        ((err == NEXAR_OK) && (revision != i + 2) && (nexar_size(c) > 1))) {
        *wrong = "a state is not that of the newest, or a mixture";
    }
    return err;
}

const nxt_work nxt_works[] = {
    {.name = "p2p", .step = step_ring, .lonely = true, .calls = true},
    {.name = "allreduce 64 B", .step = nxt_work_sum, .again = true},
    {.name = "allreduce 4 MiB", .step = step_large, .again = true},
    {.name = "bucketed", .step = step_bucketed, .again = true},
    {.name = "alltoall", .step = step_alltoall, .again = true},
    {.name = "barrier", .step = step_barrier, .again = true},
    {.name = "RPC", .prepare = prepare_rpc, .step = step_rpc, .calls = true},
    {.name = "state_sync", .step = step_state_sync, .again = true},
    {.name = "split", .step = step_split, .again = true, .makes = true},
    {.name = "create", .step = step_create, .makes = true},
};
const int nxt_works_count = sizeof(nxt_works) / sizeof(nxt_works[0]);
