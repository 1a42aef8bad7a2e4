/* bench_ops.c - the operations that can be measured, one row each. */
#include "bench.h"
#include "reduce/reduce.h"

enum { TAG_PING = 1, TAG_PONG, TAG_STREAM, TAG_DONE, WINDOW = 64, ROOT = 0 };

static nexar_err run_barrier(const nx_bench *b, size_t count)
{
    (void)count;
    return nexar_barrier(b->world);
}

static nexar_err run_allreduce(const nx_bench *b, size_t count)
{
    return nexar_allreduce(b->world, NEXAR_IN_PLACE, b->a, count, b->dtype, b->op);
}

static nexar_err run_reduce(const nx_bench *b, size_t count)
{
    return nexar_reduce(b->world, b->a, b->b, count, b->dtype, b->op, ROOT);
}

static nexar_err run_broadcast(const nx_bench *b, size_t count)
{
    return nexar_broadcast(b->world, b->a, count, b->dtype, ROOT);
}

static nexar_err run_allgather(const nx_bench *b, size_t count)
{
    return nexar_allgather(b->world, b->a, b->b, count, b->dtype);
}

static nexar_err run_gather(const nx_bench *b, size_t count)
{
    return nexar_gather(b->world, b->a, b->b, count, b->dtype, ROOT);
}

static nexar_err run_scatter(const nx_bench *b, size_t count)
{
    return nexar_scatter(b->world, b->a, b->b, count, b->dtype, ROOT);
}

static nexar_err run_reduce_scatter(const nx_bench *b, size_t count)
{
    return nexar_reduce_scatter(b->world, b->a, b->b, count, b->dtype, b->op);
}

static nexar_err run_alltoall(const nx_bench *b, size_t count)
{
    return nexar_alltoall(b->world, b->a, b->b, count, b->dtype);
}

static nexar_err run_scan(const nx_bench *b, size_t count)
{
    return nexar_scan(b->world, b->a, b->b, count, b->dtype, b->op);
}

static nexar_err run_exscan(const nx_bench *b, size_t count)
{
    return nexar_exscan(b->world, b->a, b->b, count, b->dtype, b->op);
}

/* ---- v forms: the block of the first rank lies last ---------------------------------- */

static void place_blocks(const nx_bench *b, size_t count)
{
    for (size_t rank = 0; rank < (size_t)b->size; rank++) {
        b->counts[rank] = count;
        b->displs[rank] = nx_bench_place(b, rank) * count;
    }
}

static nexar_err run_allgatherv(const nx_bench *b, size_t count)
{
    place_blocks(b, count);
    return nexar_allgatherv(b->world, b->a, count, b->b, b->counts, b->displs, b->dtype);
}

static nexar_err run_gatherv(const nx_bench *b, size_t count)
{
    place_blocks(b, count);
    return nexar_gatherv(b->world, b->a, count, b->b, b->counts, b->displs, b->dtype, ROOT);
}

static nexar_err run_scatterv(const nx_bench *b, size_t count)
{
    place_blocks(b, count);
    return nexar_scatterv(b->world, b->a, b->counts, b->displs, b->b, count, b->dtype, ROOT);
}

static nexar_err run_reduce_scatterv(const nx_bench *b, size_t count)
{
    place_blocks(b, count);
    return nexar_reduce_scatterv(b->world, b->a, b->b, b->counts, b->dtype, b->op);
}

static nexar_err run_alltoallv(const nx_bench *b, size_t count)
{
    place_blocks(b, count);
    return nexar_alltoallv(b->world, b->a, b->counts, b->displs, b->b, b->counts, b->displs,
                           b->dtype);
}

/* ---- variants of allreduce ----------------------------------------------------------- */

static nexar_err run_compressed(const nx_bench *b, size_t count)
{
    return nexar_allreduce_compressed(b->world, b->a, count, b->dtype, b->op, NEXAR_COMPRESS_F16, 0,
                                      NULL);
}

/* Tensors whose sizes grow evenly from almost zero, since the tensors of a network differ in
 * size. */
static nexar_err run_bucketed(const nx_bench *b, size_t count)
{
    const size_t elem = nexar_dtype_size(b->dtype);
    const uint64_t all = (uint64_t)NX_BENCH_TENSORS * NX_BENCH_TENSORS;
    nexar_tensor tensors[NX_BENCH_TENSORS];
    size_t n = 0, at = 0;

    for (uint64_t k = 1; k <= NX_BENCH_TENSORS; k++) {
        const size_t end = (size_t)((uint64_t)count * (k * k) / all);

        if (end > at) {
            tensors[n++] = (nexar_tensor){.ptr = b->a + at * elem, .count = end - at};
            at = end;
        }
    }
    return nexar_allreduce_bucketed(b->world, tensors, n, b->dtype, b->op);
}

static nexar_err keep_shard(void *shard, size_t offset, size_t count, void *arg)
{
    (void)shard;
    (void)offset;
    (void)count;
    (void)arg;
    return NEXAR_OK;
}

static nexar_err run_rs_ag(const nx_bench *b, size_t count)
{
    return nexar_allreduce_rs_ag(b->world, b->a, count, b->dtype, b->op, keep_shard, NULL);
}

/* A round trip. */
static nexar_err run_p2p(const nx_bench *b, size_t count)
{
    const size_t bytes = count * nexar_dtype_size(b->dtype);
    nexar_err err;

    if (b->rank == 0) {
        err = nexar_send(b->world, b->a, bytes, 1, TAG_PING);
        return (err == NEXAR_OK) ? nexar_recv(b->world, b->b, bytes, 1, TAG_PONG, NULL) : err;
    }
    err = nexar_recv(b->world, b->b, bytes, 0, TAG_PING, NULL);
    return (err == NEXAR_OK) ? nexar_send(b->world, b->a, bytes, 0, TAG_PONG) : err;
}

size_t nx_bench_window(uint64_t bytes)
{
    return (bytes >= UINT64_C(16) << 20) ? 4 : (bytes >= UINT64_C(1) << 20) ? 16 : WINDOW;
}

/* A window of messages in one direction, all into one buffer, then a short reply. */
static nexar_err run_stream(const nx_bench *b, size_t count)
{
    const size_t bytes = count * nexar_dtype_size(b->dtype), n = nx_bench_window(bytes);
    const int other = 1 - b->rank;
    nexar_request *reqs[WINDOW] = {NULL};
    nexar_err err = NEXAR_OK, ended;
    char word = 0;

    for (size_t i = 0; (i < n) && (err == NEXAR_OK); i++) {
        err = (b->rank == 0) ? nexar_isend(b->world, b->a, bytes, other, TAG_STREAM, &reqs[i])
                             : nexar_irecv(b->world, b->b, bytes, other, TAG_STREAM, &reqs[i]);
    }
    ended = nexar_wait_all(n, reqs);
    if ((err != NEXAR_OK) || (ended != NEXAR_OK)) {
        return (err != NEXAR_OK) ? err : ended;
    }
    return (b->rank == 0) ? nexar_recv(b->world, &word, 1, other, TAG_DONE, NULL)
                          : nexar_send(b->world, &word, 1, other, TAG_DONE);
}

/* ---- the table ----------------------------------------------------------------------- */

/* The factors of nccl-tests: the least that a link must carry, per byte of size. */
static double bus_allreduce(int ranks)
{
    return 2.0 * (ranks - 1) / ranks;
}

static double bus_blocks(int ranks)
{
    return (double)(ranks - 1) / ranks;
}

static double times_p2p(uint64_t bytes)
{
    (void)bytes;
    return 2;
}

static double times_stream(uint64_t bytes)
{
    return (double)nx_bench_window(bytes);
}

static const nx_bench_op ops[] = {
    {.name = "allreduce",
     .sized = true,
     .reduces = true,
     .in_place = true,
     .run = run_allreduce,
     .expect = nx_bench_expect_reduced,
     .bus = bus_allreduce},
    {.name = "reduce",
     .sized = true,
     .reduces = true,
     .at_root = true,
     .run = run_reduce,
     .expect = nx_bench_expect_reduced},
    {.name = "broadcast",
     .sized = true,
     .in_place = true,
     .run = run_broadcast,
     .expect = nx_bench_expect_root},
    {.name = "allgather",
     .sized = true,
     .out_blocks = true,
     .run = run_allgather,
     .expect = nx_bench_expect_gathered,
     .bus = bus_blocks},
    {.name = "gather",
     .sized = true,
     .out_blocks = true,
     .at_root = true,
     .run = run_gather,
     .expect = nx_bench_expect_gathered,
     .bus = bus_blocks},
    {.name = "scatter",
     .sized = true,
     .in_blocks = true,
     .run = run_scatter,
     .expect = nx_bench_expect_part,
     .bus = bus_blocks},
    {.name = "reduce_scatter",
     .sized = true,
     .reduces = true,
     .in_blocks = true,
     .run = run_reduce_scatter,
     .expect = nx_bench_expect_scattered,
     .bus = bus_blocks},
    {.name = "alltoall",
     .sized = true,
     .in_blocks = true,
     .out_blocks = true,
     .run = run_alltoall,
     .expect = nx_bench_expect_exchanged,
     .bus = bus_blocks},
    {.name = "scan",
     .sized = true,
     .reduces = true,
     .run = run_scan,
     .expect = nx_bench_expect_scan},
    {.name = "exscan",
     .sized = true,
     .reduces = true,
     .run = run_exscan,
     .expect = nx_bench_expect_exscan},
    {.name = "allgatherv",
     .sized = true,
     .out_blocks = true,
     .run = run_allgatherv,
     .expect = nx_bench_expect_gathered_v,
     .bus = bus_blocks},
    {.name = "gatherv",
     .sized = true,
     .out_blocks = true,
     .at_root = true,
     .run = run_gatherv,
     .expect = nx_bench_expect_gathered_v,
     .bus = bus_blocks},
    {.name = "scatterv",
     .sized = true,
     .in_blocks = true,
     .run = run_scatterv,
     .expect = nx_bench_expect_part_v,
     .bus = bus_blocks},
    {.name = "reduce_scatterv",
     .sized = true,
     .reduces = true,
     .in_blocks = true,
     .run = run_reduce_scatterv,
     .expect = nx_bench_expect_scattered,
     .bus = bus_blocks},
    {.name = "alltoallv",
     .sized = true,
     .in_blocks = true,
     .out_blocks = true,
     .run = run_alltoallv,
     .expect = nx_bench_expect_exchanged_v,
     .bus = bus_blocks},
    {.name = "barrier", .run = run_barrier},
    {.name = "bucketed",
     .sized = true,
     .reduces = true,
     .in_place = true,
     .run = run_bucketed,
     .expect = nx_bench_expect_reduced,
     .bus = bus_allreduce},
    {.name = "rs_ag",
     .sized = true,
     .reduces = true,
     .in_place = true,
     .run = run_rs_ag,
     .expect = nx_bench_expect_reduced,
     .bus = bus_allreduce},
    {.name = "compressed",
     .sized = true,
     .reduces = true,
     .in_place = true,
     .run = run_compressed,
     .expect = nx_bench_expect_reduced,
     .bus = bus_allreduce},
    {.name = "p2p",
     .sized = true,
     .pair = true,
     .run = run_p2p,
     .expect = nx_bench_expect_other,
     .times = times_p2p},
    {.name = "p2p_stream", .sized = true, .pair = true, .run = run_stream, .times = times_stream},
};

const nx_bench_op *nx_bench_ops(size_t *n)
{
    *n = sizeof(ops) / sizeof(ops[0]);
    return ops;
}

size_t nx_bench_count(const nx_bench *b, const nx_bench_op *op, uint64_t bytes)
{
    const bool blocks = op->in_blocks || op->out_blocks;
    const size_t elem = nexar_dtype_size(b->dtype);
    const size_t count = (size_t)(bytes / elem / (blocks ? (uint64_t)b->size : 1));

    return !op->sized ? 0 : (count == 0) ? 1 : count;
}

bool nx_bench_fits(const nx_bench *b, const nx_bench_op *op)
{
    const bool scans =
        (op->expect == nx_bench_expect_scan) || (op->expect == nx_bench_expect_exscan);

    if (op->run == run_compressed) {
        return (b->op == NEXAR_SUM) && (b->size <= NX_BENCH_COMPRESSED) &&
               ((b->dtype == NEXAR_F32) || (b->dtype == NEXAR_F64) || (b->dtype == NEXAR_F16) ||
                (b->dtype == NEXAR_BF16));
    }
    return (!op->pair || (b->size >= 2)) && !(scans && (b->op == NEXAR_AVG));
}
