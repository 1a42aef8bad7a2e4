/*
 * coll.h - preparation of a collective.
 *
 * coll.c parses the arguments, coll_memory.c finds the memory (prepare), coll_start.c starts it.
 */
#ifndef NXP_COLL_H
#define NXP_COLL_H

#include "binding.h"

typedef enum nxp_kind {
    NXP_BARRIER,
    NXP_BROADCAST,
    NXP_ALLREDUCE,
    NXP_REDUCE,
    NXP_SCAN,
    NXP_EXSCAN,
    NXP_ALLGATHER,
    NXP_GATHER,
    NXP_SCATTER,
    NXP_REDUCE_SCATTER,
    NXP_ALLTOALL,
    NXP_ALLGATHERV,
    NXP_GATHERV,
    NXP_SCATTERV,
    NXP_REDUCE_SCATTERV,
    NXP_ALLTOALLV
} nxp_kind;

/* Parameters, by the first letter of their kind. */
typedef enum nxp_param {
    NXP_BUF,
    NXP_OUT,
    NXP_OP,
    NXP_ROOT,
    NXP_COUNTS,
    NXP_RECVCOUNTS,
    NXP_PARAM_KINDS
} nxp_param;

typedef struct nxp_form {
    const char *name, *iname;
    const char *names[NXP_PARAMS];
    nxp_param params[NXP_PARAMS];
    int required;
} nxp_form;

/* A call in preparation. */
typedef struct nxp_call {
    const nxp_form *form;
    nxp_kind kind;
    const char *name;
    nexar_comm *comm;
    int rank, size, root;
    nexar_op op;
    PyObject *arg[NXP_PARAM_KINDS];
    nxp_op *o;
    nxp_memory *in, *out; /* o->mem: the memory of buf, and of the receive buffer */
    const void *send;
    void *recv;
    size_t count; /* of the call without v; with v: what this rank sends or receives */
    size_t *counts, *recvcounts, total, recvtotal;
    const size_t *displs, *recvdispls; /* NULL: contiguous blocks */
    nexar_dtype dtype;
} nxp_call;

const char *nxp_coll_name(nxp_kind kind);
/* Finds the memory of the arguments and of the result.  False: an exception is set. */
bool nxp_coll_prepare(nxp_call *c);
nexar_err nxp_coll_start(const nxp_call *c, nexar_request **req);

/* allreduce.c; coll_raw.c */
PyObject *nxp_bucketed(PyObject *obj, PyObject *const *args, Py_ssize_t n, PyObject *kwnames);
PyObject *nxp_compressed(PyObject *obj, PyObject *const *args, Py_ssize_t n, PyObject *kwnames);
PyObject *nxp_rs_ag(PyObject *obj, PyObject *const *args, Py_ssize_t n, PyObject *kwnames);
PyObject *nxp_coll_raw(PyObject *obj, PyObject *const *args, Py_ssize_t n, PyObject *kwnames);

#endif
