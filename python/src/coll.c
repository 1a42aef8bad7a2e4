/*
 * coll.c - collectives.  One table has their parameters.  A call is parsed, its memory is found
 * (prepare), and it is started.  The blocking form and the form with a request differ only in their
 * last step.
 */
#include "coll.h"

static const nxp_form forms[] = {
    [NXP_BARRIER] = {"barrier", "ibarrier", {NULL}, {NXP_BUF}, 0},
    [NXP_BROADCAST] = {"broadcast", "ibroadcast", {"buf", "root"}, {NXP_BUF, NXP_ROOT}, 1},
    [NXP_ALLREDUCE] =
        {"allreduce", "iallreduce", {"buf", "out", "op"}, {NXP_BUF, NXP_OUT, NXP_OP}, 1},
    [NXP_REDUCE] = {"reduce",
                    "ireduce",
                    {"buf", "out", "op", "root"},
                    {NXP_BUF, NXP_OUT, NXP_OP, NXP_ROOT},
                    1},
    [NXP_SCAN] = {"scan", "iscan", {"buf", "out", "op"}, {NXP_BUF, NXP_OUT, NXP_OP}, 1},
    [NXP_EXSCAN] = {"exscan", "iexscan", {"buf", "out", "op"}, {NXP_BUF, NXP_OUT, NXP_OP}, 1},
    [NXP_ALLGATHER] = {"allgather", "iallgather", {"buf", "out"}, {NXP_BUF, NXP_OUT}, 1},
    [NXP_GATHER] = {"gather", "igather", {"buf", "out", "root"}, {NXP_BUF, NXP_OUT, NXP_ROOT}, 1},
    [NXP_SCATTER] =
        {"scatter", "iscatter", {"buf", "out", "root"}, {NXP_BUF, NXP_OUT, NXP_ROOT}, 1},
    [NXP_REDUCE_SCATTER] =
        {"reduce_scatter", "ireduce_scatter", {"buf", "out", "op"}, {NXP_BUF, NXP_OUT, NXP_OP}, 1},
    [NXP_ALLTOALL] = {"alltoall", "ialltoall", {"buf", "out"}, {NXP_BUF, NXP_OUT}, 1},
    [NXP_ALLGATHERV] =
        {"allgatherv", "iallgatherv", {"buf", "counts", "out"}, {NXP_BUF, NXP_COUNTS, NXP_OUT}, 2},
    [NXP_GATHERV] = {"gatherv",
                     "igatherv",
                     {"buf", "counts", "out", "root"},
                     {NXP_BUF, NXP_COUNTS, NXP_OUT, NXP_ROOT},
                     2},
    [NXP_SCATTERV] = {"scatterv",
                      "iscatterv",
                      {"buf", "counts", "out", "root"},
                      {NXP_BUF, NXP_COUNTS, NXP_OUT, NXP_ROOT},
                      2},
    [NXP_REDUCE_SCATTERV] = {"reduce_scatterv",
                             "ireduce_scatterv",
                             {"buf", "counts", "out", "op"},
                             {NXP_BUF, NXP_COUNTS, NXP_OUT, NXP_OP},
                             2},
    [NXP_ALLTOALLV] = {"alltoallv",
                       "ialltoallv",
                       {"buf", "sendcounts", "recvcounts", "out"},
                       {NXP_BUF, NXP_COUNTS, NXP_RECVCOUNTS, NXP_OUT},
                       3},
};

const char *nxp_coll_name(nxp_kind kind)
{
    return forms[kind].name;
}

static bool parse(nxp_call *c, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    PyObject *given[NXP_PARAMS] = {NULL};
    int high = c->size - 1;

    if (!nxp_parse(c->name, c->form->names, c->form->required, args, n, kwnames, given)) {
        return false;
    }
    for (int i = 0; c->form->names[i] != NULL; i++) {
        c->arg[c->form->params[i]] = (given[i] == Py_None) ? NULL : given[i];
    }
    return nxp_op_arg(c->name, c->arg[NXP_OP], &c->op) &&
           nxp_int(c->name, "root", c->arg[NXP_ROOT], 0, high, &c->root);
}
static PyObject *collective(PyObject *obj, nxp_kind k, bool blocking, PyObject *const *args,
                            Py_ssize_t n, PyObject *kwnames)
{
    nxp_comm *self = (nxp_comm *)obj;
    nxp_op op;
    nxp_call c = {.form = &forms[k], .kind = k, .o = &op, .in = &op.mem[0], .out = &op.mem[1]};
    nexar_err err;

    c.name = blocking ? c.form->name : c.form->iname;
    if (!nxp_comm_ready(self, c.name)) {
        return NULL;
    }
    c.comm = self->comm;
    c.rank = nexar_rank(c.comm);
    c.size = nexar_size(c.comm);
    nxp_op_init(&op, self, NXP_NOTHING);
    op.blocking = blocking ? c.name : NULL;
    if (!parse(&c, args, n, kwnames) || !nxp_coll_prepare(&c)) {
        nxp_op_fini(&op);
        return NULL;
    }
    err = nxp_coll_start(&c, &op.req);
    return blocking ? nxp_op_block(&op, err) : nxp_op_request(&op, err);
}

/* clang-format off */
#define COLLECTIVES(X) \
    X(barrier, NXP_BARRIER) \
    X(broadcast, NXP_BROADCAST) \
    X(allreduce, NXP_ALLREDUCE) \
    X(reduce, NXP_REDUCE) \
    X(scan, NXP_SCAN) \
    X(exscan, NXP_EXSCAN) \
    X(allgather, NXP_ALLGATHER) \
    X(gather, NXP_GATHER) \
    X(scatter, NXP_SCATTER) \
    X(reduce_scatter, NXP_REDUCE_SCATTER) \
    X(alltoall, NXP_ALLTOALL) \
    X(allgatherv, NXP_ALLGATHERV) \
    X(gatherv, NXP_GATHERV) \
    X(scatterv, NXP_SCATTERV) \
    X(reduce_scatterv, NXP_REDUCE_SCATTERV) \
    X(alltoallv, NXP_ALLTOALLV)
/* clang-format on */

#define DEFINE(NAME, KIND)                                                             \
    static PyObject *comm_##NAME(PyObject *self, PyObject *const *args, Py_ssize_t n,  \
                                 PyObject *kwnames)                                    \
    {                                                                                  \
        return collective(self, KIND, true, args, n, kwnames);                         \
    }                                                                                  \
    static PyObject *comm_i##NAME(PyObject *self, PyObject *const *args, Py_ssize_t n, \
                                  PyObject *kwnames)                                   \
    {                                                                                  \
        return collective(self, KIND, false, args, n, kwnames);                        \
    }
COLLECTIVES(DEFINE)
#define ROW(NAME, KIND) NXP_FAST(#NAME, comm_##NAME), NXP_FAST("i" #NAME, comm_i##NAME),
PyMethodDef nxp_coll_methods[] = {
    COLLECTIVES(ROW) NXP_FAST("_allreduce_bucketed", nxp_bucketed),
    NXP_FAST("_allreduce_compressed", nxp_compressed),
    NXP_FAST("_allreduce_rs_ag", nxp_rs_ag),
    NXP_FAST("_coll", nxp_coll_raw),
    {NULL, NULL, 0, NULL},
};
