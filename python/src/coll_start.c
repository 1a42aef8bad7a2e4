/* coll_start.c - starts a prepared collective by the call of nexar.h. */
#include "coll.h"

static nexar_err start_v(const nxp_call *c, nexar_request **req)
{
    switch ((int)c->kind) {
    case NXP_ALLGATHERV:
        return nexar_iallgatherv(c->comm, c->send, c->count, c->recv, c->counts, c->displs,
                                 c->dtype, req);
    case NXP_GATHERV:
        return nexar_igatherv(c->comm, c->send, c->count, c->recv, c->counts, c->displs, c->dtype,
                              c->root, req);
    case NXP_SCATTERV:
        return nexar_iscatterv(c->comm, c->send, c->counts, c->displs, c->recv, c->count, c->dtype,
                               c->root, req);
    case NXP_REDUCE_SCATTERV:
        return nexar_ireduce_scatterv(c->comm, c->send, c->recv, c->counts, c->dtype, c->op, req);
    default:
        return nexar_ialltoallv(c->comm, c->send, c->counts, c->displs, c->recv, c->recvcounts,
                                c->recvdispls, c->dtype, req);
    }
}

nexar_err nxp_coll_start(const nxp_call *c, nexar_request **req)
{
    switch ((int)c->kind) {
    case NXP_BARRIER:
        return nexar_ibarrier(c->comm, req);
    case NXP_BROADCAST:
        return nexar_ibroadcast(c->comm, c->recv, c->count, c->dtype, c->root, req);
    case NXP_ALLREDUCE:
        return nexar_iallreduce(c->comm, c->send, c->recv, c->count, c->dtype, c->op, req);
    case NXP_REDUCE:
        return nexar_ireduce(c->comm, c->send, c->recv, c->count, c->dtype, c->op, c->root, req);
    case NXP_SCAN:
        return nexar_iscan(c->comm, c->send, c->recv, c->count, c->dtype, c->op, req);
    case NXP_EXSCAN:
        return nexar_iexscan(c->comm, c->send, c->recv, c->count, c->dtype, c->op, req);
    case NXP_ALLGATHER:
        return nexar_iallgather(c->comm, c->send, c->recv, c->count, c->dtype, req);
    case NXP_GATHER:
        return nexar_igather(c->comm, c->send, c->recv, c->count, c->dtype, c->root, req);
    case NXP_SCATTER:
        return nexar_iscatter(c->comm, c->send, c->recv, c->count, c->dtype, c->root, req);
    case NXP_REDUCE_SCATTER:
        return nexar_ireduce_scatter(c->comm, c->send, c->recv, c->count, c->dtype, c->op, req);
    case NXP_ALLTOALL:
        return nexar_ialltoall(c->comm, c->send, c->recv, c->count, c->dtype, req);
    default:
        return start_v(c, req);
    }
}
