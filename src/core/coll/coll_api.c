/* coll_api.c - the collectives of nexar.h, in their blocking and request forms. */
#include "core/coll/coll_run.h"

#define ARGS(...) (&(const nx_coll_args){__VA_ARGS__})

nexar_err nexar_barrier(nexar_comm *comm)
{
    return nx_coll_wait(ARGS(.name = "barrier", .comm = comm, .kind = NX_BARRIER), NULL);
}

nexar_err nexar_ibarrier(nexar_comm *comm, nexar_request **req)
{
    return nx_coll_start(ARGS(.name = "ibarrier", .comm = comm, .kind = NX_BARRIER), NULL, req);
}

nexar_err nexar_broadcast(nexar_comm *comm, void *buf, size_t count, nexar_dtype dtype, int root)
{
    return nx_coll_wait(ARGS(.name = "broadcast", .comm = comm, .kind = NX_BROADCAST, .recv = buf,
                             .count = count, .dtype = dtype, .root = root),
                        NULL);
}

nexar_err nexar_ibroadcast(nexar_comm *comm, void *buf, size_t count, nexar_dtype dtype, int root,
                           nexar_request **req)
{
    return nx_coll_start(ARGS(.name = "ibroadcast", .comm = comm, .kind = NX_BROADCAST, .recv = buf,
                              .count = count, .dtype = dtype, .root = root),
                         NULL, req);
}

nexar_err nexar_reduce(nexar_comm *comm, const void *sendbuf, void *recvbuf, size_t count,
                       nexar_dtype dtype, nexar_op op, int root)
{
    return nx_coll_wait(ARGS(.name = "reduce", .comm = comm, .kind = NX_REDUCE, .send = sendbuf,
                             .recv = recvbuf, .count = count, .dtype = dtype, .op = op,
                             .root = root),
                        NULL);
}

// NOLINTNEXTLINE(readability-function-size): the API has this many parameters
nexar_err nexar_ireduce(nexar_comm *comm, const void *sendbuf, void *recvbuf, size_t count,
                        nexar_dtype dtype, nexar_op op, int root, nexar_request **req)
{
    return nx_coll_start(ARGS(.name = "ireduce", .comm = comm, .kind = NX_REDUCE, .send = sendbuf,
                              .recv = recvbuf, .count = count, .dtype = dtype, .op = op,
                              .root = root),
                         NULL, req);
}

nexar_err nexar_allreduce(nexar_comm *comm, const void *sendbuf, void *recvbuf, size_t count,
                          nexar_dtype dtype, nexar_op op)
{
    return nx_coll_wait(ARGS(.name = "allreduce", .comm = comm, .kind = NX_ALLREDUCE,
                             .send = sendbuf, .recv = recvbuf, .count = count, .dtype = dtype,
                             .op = op),
                        NULL);
}

nexar_err nexar_iallreduce(nexar_comm *comm, const void *sendbuf, void *recvbuf, size_t count,
                           nexar_dtype dtype, nexar_op op, nexar_request **req)
{
    return nx_coll_start(ARGS(.name = "iallreduce", .comm = comm, .kind = NX_ALLREDUCE,
                              .send = sendbuf, .recv = recvbuf, .count = count, .dtype = dtype,
                              .op = op),
                         NULL, req);
}

nexar_err nexar_allgather(nexar_comm *comm, const void *sendbuf, void *recvbuf, size_t count,
                          nexar_dtype dtype)
{
    return nx_coll_wait(ARGS(.name = "allgather", .comm = comm, .kind = NX_ALLGATHER,
                             .send = sendbuf, .recv = recvbuf, .count = count, .dtype = dtype),
                        NULL);
}

nexar_err nexar_iallgather(nexar_comm *comm, const void *sendbuf, void *recvbuf, size_t count,
                           nexar_dtype dtype, nexar_request **req)
{
    return nx_coll_start(ARGS(.name = "iallgather", .comm = comm, .kind = NX_ALLGATHER,
                              .send = sendbuf, .recv = recvbuf, .count = count, .dtype = dtype),
                         NULL, req);
}

nexar_err nexar_gather(nexar_comm *comm, const void *sendbuf, void *recvbuf, size_t count,
                       nexar_dtype dtype, int root)
{
    return nx_coll_wait(ARGS(.name = "gather", .comm = comm, .kind = NX_GATHER, .send = sendbuf,
                             .recv = recvbuf, .count = count, .dtype = dtype, .root = root),
                        NULL);
}

nexar_err nexar_igather(nexar_comm *comm, const void *sendbuf, void *recvbuf, size_t count,
                        nexar_dtype dtype, int root, nexar_request **req)
{
    return nx_coll_start(ARGS(.name = "igather", .comm = comm, .kind = NX_GATHER, .send = sendbuf,
                              .recv = recvbuf, .count = count, .dtype = dtype, .root = root),
                         NULL, req);
}

nexar_err nexar_scatter(nexar_comm *comm, const void *sendbuf, void *recvbuf, size_t count,
                        nexar_dtype dtype, int root)
{
    return nx_coll_wait(ARGS(.name = "scatter", .comm = comm, .kind = NX_SCATTER, .send = sendbuf,
                             .recv = recvbuf, .count = count, .dtype = dtype, .root = root),
                        NULL);
}

nexar_err nexar_iscatter(nexar_comm *comm, const void *sendbuf, void *recvbuf, size_t count,
                         nexar_dtype dtype, int root, nexar_request **req)
{
    return nx_coll_start(ARGS(.name = "iscatter", .comm = comm, .kind = NX_SCATTER, .send = sendbuf,
                              .recv = recvbuf, .count = count, .dtype = dtype, .root = root),
                         NULL, req);
}

nexar_err nexar_reduce_scatter(nexar_comm *comm, const void *sendbuf, void *recvbuf, size_t count,
                               nexar_dtype dtype, nexar_op op)
{
    return nx_coll_wait(ARGS(.name = "reduce_scatter", .comm = comm, .kind = NX_REDUCE_SCATTER,
                             .send = sendbuf, .recv = recvbuf, .count = count, .dtype = dtype,
                             .op = op),
                        NULL);
}

nexar_err nexar_ireduce_scatter(nexar_comm *comm, const void *sendbuf, void *recvbuf, size_t count,
                                nexar_dtype dtype, nexar_op op, nexar_request **req)
{
    return nx_coll_start(ARGS(.name = "ireduce_scatter", .comm = comm, .kind = NX_REDUCE_SCATTER,
                              .send = sendbuf, .recv = recvbuf, .count = count, .dtype = dtype,
                              .op = op),
                         NULL, req);
}

nexar_err nexar_alltoall(nexar_comm *comm, const void *sendbuf, void *recvbuf, size_t count,
                         nexar_dtype dtype)
{
    return nx_coll_wait(ARGS(.name = "alltoall", .comm = comm, .kind = NX_ALLTOALL, .send = sendbuf,
                             .recv = recvbuf, .count = count, .dtype = dtype),
                        NULL);
}

nexar_err nexar_ialltoall(nexar_comm *comm, const void *sendbuf, void *recvbuf, size_t count,
                          nexar_dtype dtype, nexar_request **req)
{
    return nx_coll_start(ARGS(.name = "ialltoall", .comm = comm, .kind = NX_ALLTOALL,
                              .send = sendbuf, .recv = recvbuf, .count = count, .dtype = dtype),
                         NULL, req);
}

nexar_err nexar_scan(nexar_comm *comm, const void *sendbuf, void *recvbuf, size_t count,
                     nexar_dtype dtype, nexar_op op)
{
    return nx_coll_wait(ARGS(.name = "scan", .comm = comm, .kind = NX_SCAN, .send = sendbuf,
                             .recv = recvbuf, .count = count, .dtype = dtype, .op = op),
                        NULL);
}

nexar_err nexar_iscan(nexar_comm *comm, const void *sendbuf, void *recvbuf, size_t count,
                      nexar_dtype dtype, nexar_op op, nexar_request **req)
{
    return nx_coll_start(ARGS(.name = "iscan", .comm = comm, .kind = NX_SCAN, .send = sendbuf,
                              .recv = recvbuf, .count = count, .dtype = dtype, .op = op),
                         NULL, req);
}

nexar_err nexar_exscan(nexar_comm *comm, const void *sendbuf, void *recvbuf, size_t count,
                       nexar_dtype dtype, nexar_op op)
{
    return nx_coll_wait(ARGS(.name = "exscan", .comm = comm, .kind = NX_EXSCAN, .send = sendbuf,
                             .recv = recvbuf, .count = count, .dtype = dtype, .op = op),
                        NULL);
}

nexar_err nexar_iexscan(nexar_comm *comm, const void *sendbuf, void *recvbuf, size_t count,
                        nexar_dtype dtype, nexar_op op, nexar_request **req)
{
    return nx_coll_start(ARGS(.name = "iexscan", .comm = comm, .kind = NX_EXSCAN, .send = sendbuf,
                              .recv = recvbuf, .count = count, .dtype = dtype, .op = op),
                         NULL, req);
}

nexar_err nexar_allgatherv(nexar_comm *comm, const void *sendbuf, size_t sendcount, void *recvbuf,
                           const size_t counts[], const size_t displs[], nexar_dtype dtype)
{
    return nx_coll_wait(ARGS(.name = "allgatherv", .comm = comm, .kind = NX_ALLGATHERV,
                             .send = sendbuf, .count = sendcount, .recv = recvbuf, .counts = counts,
                             .displs = displs, .dtype = dtype),
                        NULL);
}

// NOLINTNEXTLINE(readability-function-size): the API has this many parameters
nexar_err nexar_iallgatherv(nexar_comm *comm, const void *sendbuf, size_t sendcount, void *recvbuf,
                            const size_t counts[], const size_t displs[], nexar_dtype dtype,
                            nexar_request **req)
{
    return nx_coll_start(ARGS(.name = "iallgatherv", .comm = comm, .kind = NX_ALLGATHERV,
                              .send = sendbuf, .count = sendcount, .recv = recvbuf,
                              .counts = counts, .displs = displs, .dtype = dtype),
                         NULL, req);
}

// NOLINTNEXTLINE(readability-function-size): the API has this many parameters
nexar_err nexar_gatherv(nexar_comm *comm, const void *sendbuf, size_t sendcount, void *recvbuf,
                        const size_t counts[], const size_t displs[], nexar_dtype dtype, int root)
{
    return nx_coll_wait(ARGS(.name = "gatherv", .comm = comm, .kind = NX_GATHERV, .send = sendbuf,
                             .count = sendcount, .recv = recvbuf, .counts = counts,
                             .displs = displs, .dtype = dtype, .root = root),
                        NULL);
}

// NOLINTNEXTLINE(readability-function-size): the API has this many parameters
nexar_err nexar_igatherv(nexar_comm *comm, const void *sendbuf, size_t sendcount, void *recvbuf,
                         const size_t counts[], const size_t displs[], nexar_dtype dtype, int root,
                         nexar_request **req)
{
    return nx_coll_start(ARGS(.name = "igatherv", .comm = comm, .kind = NX_GATHERV, .send = sendbuf,
                              .count = sendcount, .recv = recvbuf, .counts = counts,
                              .displs = displs, .dtype = dtype, .root = root),
                         NULL, req);
}

// NOLINTNEXTLINE(readability-function-size): the API has this many parameters
nexar_err nexar_scatterv(nexar_comm *comm, const void *sendbuf, const size_t counts[],
                         const size_t displs[], void *recvbuf, size_t recvcount, nexar_dtype dtype,
                         int root)
{
    return nx_coll_wait(ARGS(.name = "scatterv", .comm = comm, .kind = NX_SCATTERV, .send = sendbuf,
                             .counts = counts, .displs = displs, .recv = recvbuf,
                             .count = recvcount, .dtype = dtype, .root = root),
                        NULL);
}

// NOLINTNEXTLINE(readability-function-size): the API has this many parameters
nexar_err nexar_iscatterv(nexar_comm *comm, const void *sendbuf, const size_t counts[],
                          const size_t displs[], void *recvbuf, size_t recvcount, nexar_dtype dtype,
                          int root, nexar_request **req)
{
    return nx_coll_start(ARGS(.name = "iscatterv", .comm = comm, .kind = NX_SCATTERV,
                              .send = sendbuf, .counts = counts, .displs = displs, .recv = recvbuf,
                              .count = recvcount, .dtype = dtype, .root = root),
                         NULL, req);
}

nexar_err nexar_reduce_scatterv(nexar_comm *comm, const void *sendbuf, void *recvbuf,
                                const size_t counts[], nexar_dtype dtype, nexar_op op)
{
    return nx_coll_wait(ARGS(.name = "reduce_scatterv", .comm = comm, .kind = NX_REDUCE_SCATTERV,
                             .send = sendbuf, .recv = recvbuf, .counts = counts, .dtype = dtype,
                             .op = op),
                        NULL);
}

nexar_err nexar_ireduce_scatterv(nexar_comm *comm, const void *sendbuf, void *recvbuf,
                                 const size_t counts[], nexar_dtype dtype, nexar_op op,
                                 nexar_request **req)
{
    return nx_coll_start(ARGS(.name = "ireduce_scatterv", .comm = comm, .kind = NX_REDUCE_SCATTERV,
                              .send = sendbuf, .recv = recvbuf, .counts = counts, .dtype = dtype,
                              .op = op),
                         NULL, req);
}

// NOLINTNEXTLINE(readability-function-size): the API has this many parameters
nexar_err nexar_alltoallv(nexar_comm *comm, const void *sendbuf, const size_t sendcounts[],
                          const size_t senddispls[], void *recvbuf, const size_t recvcounts[],
                          const size_t recvdispls[], nexar_dtype dtype)
{
    return nx_coll_wait(ARGS(.name = "alltoallv", .comm = comm, .kind = NX_ALLTOALLV,
                             .send = sendbuf, .send_counts = sendcounts, .send_displs = senddispls,
                             .recv = recvbuf, .counts = recvcounts, .displs = recvdispls,
                             .dtype = dtype),
                        NULL);
}

// NOLINTNEXTLINE(readability-function-size): the API has this many parameters
nexar_err nexar_ialltoallv(nexar_comm *comm, const void *sendbuf, const size_t sendcounts[],
                           const size_t senddispls[], void *recvbuf, const size_t recvcounts[],
                           const size_t recvdispls[], nexar_dtype dtype, nexar_request **req)
{
    return nx_coll_start(ARGS(.name = "ialltoallv", .comm = comm, .kind = NX_ALLTOALLV,
                              .send = sendbuf, .send_counts = sendcounts, .send_displs = senddispls,
                              .recv = recvbuf, .counts = recvcounts, .displs = recvdispls,
                              .dtype = dtype),
                         NULL, req);
}

nexar_err nexar_allreduce_bucketed(nexar_comm *comm, const nexar_tensor *tensors, size_t n,
                                   nexar_dtype dtype, nexar_op op)
{
    return nx_coll_wait(ARGS(.name = "allreduce_bucketed", .comm = comm, .kind = NX_ALLREDUCE,
                             .guise = NX_VARIANT_BUCKETED, .tensors = tensors, .ntensors = n,
                             .dtype = dtype, .op = op),
                        NULL);
}

nexar_err nexar_iallreduce_bucketed(nexar_comm *comm, const nexar_tensor *tensors, size_t n,
                                    nexar_dtype dtype, nexar_op op, nexar_request **req)
{
    return nx_coll_start(ARGS(.name = "iallreduce_bucketed", .comm = comm, .kind = NX_ALLREDUCE,
                              .guise = NX_VARIANT_BUCKETED, .tensors = tensors, .ntensors = n,
                              .dtype = dtype, .op = op),
                         NULL, req);
}

nexar_err nexar_allreduce_rs_ag(nexar_comm *comm, void *buf, size_t count, nexar_dtype dtype,
                                nexar_op op, nexar_shard_fn on_shard, void *arg)
{
    return nx_coll_wait(ARGS(.name = "allreduce_rs_ag", .comm = comm, .kind = NX_ALLREDUCE,
                             .guise = NX_VARIANT_RS_AG, .send = NEXAR_IN_PLACE, .recv = buf,
                             .count = count, .dtype = dtype, .op = op, .on_shard = on_shard),
                        arg);
}

// NOLINTNEXTLINE(readability-function-size): the API has this many parameters
nexar_err nexar_iallreduce_rs_ag(nexar_comm *comm, void *buf, size_t count, nexar_dtype dtype,
                                 nexar_op op, nexar_shard_fn on_shard, void *arg,
                                 nexar_request **req)
{
    return nx_coll_start(ARGS(.name = "iallreduce_rs_ag", .comm = comm, .kind = NX_ALLREDUCE,
                              .guise = NX_VARIANT_RS_AG, .send = NEXAR_IN_PLACE, .recv = buf,
                              .count = count, .dtype = dtype, .op = op, .on_shard = on_shard),
                         arg, req);
}

void nexar_shard(const nexar_comm *comm, size_t count, int rank, size_t *offset, size_t *n)
{
    const bool known = (comm != NULL) && (rank >= 0) && (rank < nexar_size(comm));
    const nx_split split = nx_split_even(count, known ? (uint32_t)nexar_size(comm) : 1);
    const nx_span span = known ? nx_split_at(&split, (uint32_t)rank) : (nx_span){0};

    if (offset != NULL) {
        *offset = span.off;
    }
    if (n != NULL) {
        *n = span.len;
    }
}
