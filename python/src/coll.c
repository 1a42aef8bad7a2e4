/*
 * coll.c - collectives.  One table has their parameters; a call is parsed, its memory found
 * (prepare), and started; the blocking form and the form with a request differ in their ends alone.
 */
#include "binding.h"

#include <string.h>

typedef enum kind {
    BARRIER,
    BROADCAST,
    ALLREDUCE,
    REDUCE,
    SCAN,
    EXSCAN,
    ALLGATHER,
    GATHER,
    SCATTER,
    REDUCE_SCATTER,
    ALLTOALL,
    ALLGATHERV,
    GATHERV,
    SCATTERV,
    REDUCE_SCATTERV,
    ALLTOALLV
} kind;

/* Parameters, by the first letter of what they are. */
typedef enum param { BUF, OUT, OP, ROOT, COUNTS, RECVCOUNTS, PARAMS } param;

typedef struct form {
    const char *name, *iname;
    const char *names[NXP_PARAMS];
    param params[NXP_PARAMS];
    int required;
} form;

static const form forms[] = {
    [BARRIER] = {"barrier", "ibarrier", {NULL}, {BUF}, 0},
    [BROADCAST] = {"broadcast", "ibroadcast", {"buf", "root"}, {BUF, ROOT}, 1},
    [ALLREDUCE] = {"allreduce", "iallreduce", {"buf", "out", "op"}, {BUF, OUT, OP}, 1},
    [REDUCE] = {"reduce", "ireduce", {"buf", "out", "op", "root"}, {BUF, OUT, OP, ROOT}, 1},
    [SCAN] = {"scan", "iscan", {"buf", "out", "op"}, {BUF, OUT, OP}, 1},
    [EXSCAN] = {"exscan", "iexscan", {"buf", "out", "op"}, {BUF, OUT, OP}, 1},
    [ALLGATHER] = {"allgather", "iallgather", {"buf", "out"}, {BUF, OUT}, 1},
    [GATHER] = {"gather", "igather", {"buf", "out", "root"}, {BUF, OUT, ROOT}, 1},
    [SCATTER] = {"scatter", "iscatter", {"buf", "out", "root"}, {BUF, OUT, ROOT}, 1},
    [REDUCE_SCATTER] =
        {"reduce_scatter", "ireduce_scatter", {"buf", "out", "op"}, {BUF, OUT, OP}, 1},
    [ALLTOALL] = {"alltoall", "ialltoall", {"buf", "out"}, {BUF, OUT}, 1},
    [ALLGATHERV] = {"allgatherv", "iallgatherv", {"buf", "counts", "out"}, {BUF, COUNTS, OUT}, 2},
    [GATHERV] =
        {"gatherv", "igatherv", {"buf", "counts", "out", "root"}, {BUF, COUNTS, OUT, ROOT}, 2},
    [SCATTERV] =
        {"scatterv", "iscatterv", {"buf", "counts", "out", "root"}, {BUF, COUNTS, OUT, ROOT}, 2},
    [REDUCE_SCATTERV] = {"reduce_scatterv",
                         "ireduce_scatterv",
                         {"buf", "counts", "out", "op"},
                         {BUF, COUNTS, OUT, OP},
                         2},
    [ALLTOALLV] = {"alltoallv",
                   "ialltoallv",
                   {"buf", "sendcounts", "recvcounts", "out"},
                   {BUF, COUNTS, RECVCOUNTS, OUT},
                   3},
};

/* A call that is being prepared. */
typedef struct call {
    const form *form;
    kind kind;
    const char *name;
    nexar_comm *comm;
    int rank, size, root;
    nexar_op op;
    PyObject *arg[PARAMS];
    nxp_op *o;
    nxp_memory *in, *out; /* o->mem: of buf, and of what receives */
    const void *send;
    void *recv;
    size_t count; /* of the call without v; what this rank gives or gets of one with it */
    size_t *counts, *recvcounts, total, recvtotal;
    nexar_dtype dtype;
} call;

/* ---- arguments ---------------------------------------------------------------------------- */

static bool parse(call *c, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    PyObject *given[NXP_PARAMS] = {NULL};
    int high = c->size - 1;

    if (!nxp_parse(c->name, c->form->names, c->form->required, args, n, kwnames, given)) {
        return false;
    }
    for (int i = 0; c->form->names[i] != NULL; i++) {
        c->arg[c->form->params[i]] = (given[i] == Py_None) ? NULL : given[i];
    }
    return nxp_op_arg(c->name, c->arg[OP], &c->op) &&
           nxp_int(c->name, "root", c->arg[ROOT], 0, high, &c->root);
}

/* The counts of |obj|, one per rank, and their sum. */
static bool read_counts(const call *c, const char *name, PyObject *obj, size_t *counts,
                        size_t *total)
{
    PyObject *list = PySequence_List(obj);
    const Py_ssize_t n = (list != NULL) ? PyList_Size(list) : -1;

    if (n != c->size) {
        PyErr_Clear();
        Py_XDECREF(list);
        (void)nxp_invalid("%s: %s has %zd numbers; one for each of the %d ranks is accepted",
                          c->name, name, (n < 0) ? 0 : n, c->size);
        return false;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *index = PyNumber_Index(PyList_GetItem(list, i));
        const Py_ssize_t value = (index != NULL) ? PyLong_AsSsize_t(index) : -1;

        Py_XDECREF(index);
        if ((value < 0) || (*total > (size_t)PY_SSIZE_T_MAX - (size_t)value)) {
            PyErr_Clear();
            (void)nxp_invalid("%s: %s[%zd] is no count; ints >= 0 are accepted", c->name, name, i);
            Py_DECREF(list);
            return false;
        }
        counts[i] = (size_t)value;
        *total += (size_t)value;
    }
    Py_DECREF(list);
    return true;
}

static bool prepare_counts(call *c, bool both)
{
    size_t *counts = PyMem_Calloc(2 * (size_t)c->size, sizeof(*counts));

    if (counts == NULL) {
        PyErr_NoMemory();
        return false;
    }
    c->o->blocks = counts;
    c->counts = counts;
    c->recvcounts = counts + c->size;
    if (c->arg[COUNTS] == NULL) {
        (void)nxp_invalid("%s: %s is None; one number for each of the %d ranks is accepted",
                          c->name, both ? "sendcounts" : "counts", c->size);
        return false;
    }
    if (both && (c->arg[RECVCOUNTS] == NULL)) {
        (void)nxp_invalid("%s: recvcounts is None; one number for each of the %d ranks is accepted",
                          c->name, c->size);
        return false;
    }
    return read_counts(c, both ? "sendcounts" : "counts", c->arg[COUNTS], counts, &c->total) &&
           (!both ||
            read_counts(c, "recvcounts", c->arg[RECVCOUNTS], c->recvcounts, &c->recvtotal));
}

/* ---- memory ---------------------------------------------------------------------------------- */

static bool get_buf(call *c, int access)
{
    if (c->arg[BUF] == NULL) {
        (void)nxp_bad_type("%s: buf is None; on this rank an array, or another object with a "
                           "buffer, is accepted",
                           c->name);
        return false;
    }
    if (!nxp_memory_get(c->in, c->name, "buf", c->arg[BUF], access)) {
        return false;
    }
    c->dtype = c->in->dtype;
    c->send = c->in->ptr;
    return true;
}

/* Whether the reduction can be done on these elements; opaque ones and bool are special. */
static bool check_reducible(const call *c)
{
    const nexar_op op = c->op;

    if (c->in->is_bool && ((op == NEXAR_SUM) || (op == NEXAR_AVG))) {
        (void)nxp_invalid("%s: buf has elements of bool, and op is \"%s\"; \"min\", \"max\", "
                          "\"prod\", \"band\", \"bor\" and \"bxor\" are accepted",
                          c->name, nexar_op_name(op));
        return false;
    }
    if ((int)c->in->dtype > (int)NEXAR_U16) {
        (void)nxp_invalid("%s: buf has elements that nexar cannot reduce; float16, bfloat16, "
                          "float32, float64 and integers of 8 to 64 bits are accepted",
                          c->name);
        return false;
    }
    return true;
}

/* The caller's array for the result, of |items| elements like those of buf. */
static bool get_out(call *c, size_t items)
{
    if (!nxp_memory_get(c->out, c->name, "out", c->arg[OUT], NXP_WRITE)) {
        return false;
    }
    if ((c->arg[BUF] != NULL) && (c->out->dtype != c->dtype)) {
        (void)nxp_invalid("%s: out has elements of %s, and buf of %s; the same are accepted",
                          c->name, nexar_dtype_name(c->out->dtype), nexar_dtype_name(c->dtype));
        return false;
    }
    if (c->out->items != items) {
        (void)nxp_invalid("%s: out has %zu elements; %zu are accepted", c->name, c->out->items,
                          items);
        return false;
    }
    return true;
}

/* The result is |obj|. */
static void gives(call *c, PyObject *obj)
{
    Py_INCREF(obj);
    c->o->result = obj;
    c->o->gives = NXP_OBJECT;
}

/* The result is the caller's out, or a new array like buf: |how| as of nexar._arrays.new. */
static bool result_array(call *c, const char *how, size_t items)
{
    PyObject *make, *array;
    bool ok;

    if (c->arg[OUT] != NULL) {
        gives(c, c->arg[OUT]);
        ok = get_out(c, items);
    } else {
        make = nxp_hook("new_array");
        array = (make != NULL) ? PyObject_CallFunction(make, "Osni", c->arg[BUF], how,
                                                       (Py_ssize_t)items, c->size)
                               : NULL;
        if (array == NULL) {
            return false;
        }
        gives(c, array);
        Py_DECREF(array);
        ok = nxp_memory_get(c->out, c->name, "out", array, NXP_WRITE);
    }
    c->recv = c->out->ptr;
    return ok;
}

/* ---- one function for each layout
 * ----------------------------------------------------------------- */

static bool prepare_broadcast(call *c)
{
    if (!get_buf(c, (c->rank == c->root) ? NXP_READ : NXP_WRITE)) {
        return false;
    }
    c->recv = c->in->ptr;
    c->count = c->in->items;
    gives(c, c->arg[BUF]);
    return true;
}

/* allreduce, reduce, scan, exscan: in place, or into out. */
static bool prepare_elements(call *c)
{
    const bool receives = (c->kind != REDUCE) || (c->rank == c->root);
    const bool in_place = receives && ((c->arg[OUT] == NULL) || (c->arg[OUT] == c->arg[BUF]));

    if (!get_buf(c, in_place ? NXP_WRITE : NXP_READ) || !check_reducible(c)) {
        return false;
    }
    c->count = c->in->items;
    if (in_place) {
        c->recv = c->in->ptr;
        c->send = NEXAR_IN_PLACE;
        gives(c, c->arg[BUF]);
        return true;
    }
    return !receives || result_array(c, "same", c->count);
}

static bool prepare_gather(call *c)
{
    const bool receives = (c->kind == ALLGATHER) || (c->rank == c->root);

    if (!get_buf(c, NXP_READ)) {
        return false;
    }
    c->count = c->in->items;
    return !receives || result_array(c, "stack", c->count * (size_t)c->size);
}

static bool divides(const call *c)
{
    if (c->in->items % (size_t)c->size != 0) {
        (void)nxp_invalid("%s: buf has %zu elements; a multiple of the %d ranks is accepted",
                          c->name, c->in->items, c->size);
        return false;
    }
    return true;
}

static bool prepare_scatter(call *c)
{
    if (c->rank == c->root) {
        if (!get_buf(c, NXP_READ) || !divides(c)) {
            return false;
        }
        c->count = c->in->items / (size_t)c->size;
        return result_array(c, "block", c->count);
    }
    if (c->arg[OUT] == NULL) {
        (void)nxp_bad_type("%s: out is None; on a rank other than the root an array for the block "
                           "is accepted",
                           c->name);
        return false;
    }
    c->arg[BUF] = NULL;
    if (!nxp_memory_get(c->out, c->name, "out", c->arg[OUT], NXP_WRITE)) {
        return false;
    }
    gives(c, c->arg[OUT]);
    c->recv = c->out->ptr;
    c->count = c->out->items;
    c->dtype = c->out->dtype;
    return true;
}

static bool prepare_reduce_scatter(call *c)
{
    if (!get_buf(c, NXP_READ) || !check_reducible(c) || !divides(c)) {
        return false;
    }
    c->count = c->in->items / (size_t)c->size;
    return result_array(c, "block", c->count);
}

static bool prepare_alltoall(call *c)
{
    if (!get_buf(c, NXP_READ) || !divides(c)) {
        return false;
    }
    c->count = c->in->items / (size_t)c->size;
    return result_array(c, "same", c->in->items);
}

/* Whether buf has as many elements as |wanted|, which |what| say. */
static bool fits(const call *c, const char *what, size_t wanted)
{
    if (c->in->items != wanted) {
        (void)nxp_invalid("%s: buf has %zu elements; %s: %zu", c->name, c->in->items, what, wanted);
        return false;
    }
    return true;
}

static bool prepare_gatherv(call *c)
{
    const bool receives = (c->kind == ALLGATHERV) || (c->rank == c->root);

    if (!get_buf(c, NXP_READ)) {
        return false;
    }
    c->count = c->in->items;
    if (!receives) {
        return true;
    }
    return prepare_counts(c, false) && fits(c, "counts has for this rank", c->counts[c->rank]) &&
           result_array(c, "flat", c->total);
}

static bool prepare_scatterv(call *c)
{
    if (c->rank != c->root) {
        return prepare_scatter(c);
    }
    if (!get_buf(c, NXP_READ) || !prepare_counts(c, false) ||
        !fits(c, "the sum of counts is", c->total)) {
        return false;
    }
    c->count = c->counts[c->rank];
    return result_array(c, "flat", c->count);
}

static bool prepare_reduce_scatterv(call *c)
{
    return get_buf(c, NXP_READ) && check_reducible(c) && prepare_counts(c, false) &&
           fits(c, "the sum of counts is", c->total) && result_array(c, "flat", c->counts[c->rank]);
}

static bool prepare_alltoallv(call *c)
{
    return get_buf(c, NXP_READ) && prepare_counts(c, true) &&
           fits(c, "the sum of sendcounts is", c->total) && result_array(c, "flat", c->recvtotal);
}

static bool prepare(call *c)
{
    switch (c->kind) {
    case BARRIER:
        return true;
    case BROADCAST:
        return prepare_broadcast(c);
    case ALLREDUCE:
    case REDUCE:
    case SCAN:
    case EXSCAN:
        return prepare_elements(c);
    case ALLGATHER:
    case GATHER:
        return prepare_gather(c);
    case SCATTER:
        return prepare_scatter(c);
    case REDUCE_SCATTER:
        return prepare_reduce_scatter(c);
    case ALLTOALL:
        return prepare_alltoall(c);
    case ALLGATHERV:
    case GATHERV:
        return prepare_gatherv(c);
    case SCATTERV:
        return prepare_scatterv(c);
    case REDUCE_SCATTERV:
        return prepare_reduce_scatterv(c);
    case ALLTOALLV:
        return prepare_alltoallv(c);
    default:
        return false;
    }
}

/* ---- the call
 * ------------------------------------------------------------------------------------- */

static nexar_err start_v(const call *c, nexar_request **req)
{
    switch ((int)c->kind) {
    case ALLGATHERV:
        return nexar_iallgatherv(c->comm, c->send, c->count, c->recv, c->counts, NULL, c->dtype,
                                 req);
    case GATHERV:
        return nexar_igatherv(c->comm, c->send, c->count, c->recv, c->counts, NULL, c->dtype,
                              c->root, req);
    case SCATTERV:
        return nexar_iscatterv(c->comm, c->send, c->counts, NULL, c->recv, c->count, c->dtype,
                               c->root, req);
    case REDUCE_SCATTERV:
        return nexar_ireduce_scatterv(c->comm, c->send, c->recv, c->counts, c->dtype, c->op, req);
    default:
        return nexar_ialltoallv(c->comm, c->send, c->counts, NULL, c->recv, c->recvcounts, NULL,
                                c->dtype, req);
    }
}

static nexar_err start(const call *c, nexar_request **req)
{
    switch ((int)c->kind) {
    case BARRIER:
        return nexar_ibarrier(c->comm, req);
    case BROADCAST:
        return nexar_ibroadcast(c->comm, c->recv, c->count, c->dtype, c->root, req);
    case ALLREDUCE:
        return nexar_iallreduce(c->comm, c->send, c->recv, c->count, c->dtype, c->op, req);
    case REDUCE:
        return nexar_ireduce(c->comm, c->send, c->recv, c->count, c->dtype, c->op, c->root, req);
    case SCAN:
        return nexar_iscan(c->comm, c->send, c->recv, c->count, c->dtype, c->op, req);
    case EXSCAN:
        return nexar_iexscan(c->comm, c->send, c->recv, c->count, c->dtype, c->op, req);
    case ALLGATHER:
        return nexar_iallgather(c->comm, c->send, c->recv, c->count, c->dtype, req);
    case GATHER:
        return nexar_igather(c->comm, c->send, c->recv, c->count, c->dtype, c->root, req);
    case SCATTER:
        return nexar_iscatter(c->comm, c->send, c->recv, c->count, c->dtype, c->root, req);
    case REDUCE_SCATTER:
        return nexar_ireduce_scatter(c->comm, c->send, c->recv, c->count, c->dtype, c->op, req);
    case ALLTOALL:
        return nexar_ialltoall(c->comm, c->send, c->recv, c->count, c->dtype, req);
    default:
        return start_v(c, req);
    }
}

static PyObject *collective(PyObject *obj, kind k, bool blocking, PyObject *const *args,
                            Py_ssize_t n, PyObject *kwnames)
{
    nxp_comm *self = (nxp_comm *)obj;
    nxp_op op;
    call c = {.form = &forms[k], .kind = k, .o = &op, .in = &op.mem[0], .out = &op.mem[1]};
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
    if (!parse(&c, args, n, kwnames) || !prepare(&c)) {
        nxp_op_fini(&op);
        return NULL;
    }
    err = start(&c, &op.req);
    return blocking ? nxp_op_block(&op, err) : nxp_op_request(&op, err);
}

/* clang-format off */
#define COLLECTIVES(X) \
    X(barrier, BARRIER) \
    X(broadcast, BROADCAST) \
    X(allreduce, ALLREDUCE) \
    X(reduce, REDUCE) \
    X(scan, SCAN) \
    X(exscan, EXSCAN) \
    X(allgather, ALLGATHER) \
    X(gather, GATHER) \
    X(scatter, SCATTER) \
    X(reduce_scatter, REDUCE_SCATTER) \
    X(alltoall, ALLTOALL) \
    X(allgatherv, ALLGATHERV) \
    X(gatherv, GATHERV) \
    X(scatterv, SCATTERV) \
    X(reduce_scatterv, REDUCE_SCATTERV) \
    X(alltoallv, ALLTOALLV)
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

/* ---- allreduce of many arrays, compressed, and with a function between
 * -------------------------------- */

static bool set_up_bucket(nxp_op *op, PyObject *list, nexar_tensor *tensors, nexar_dtype *dtype)
{
    for (Py_ssize_t i = 0; i < PyList_Size(list); i++) {
        char name[40];
        nxp_memory m;

        (void)PyOS_snprintf(name, sizeof(name), "bufs[%d]", (int)i);
        if (!nxp_memory_get(&m, "allreduce_bucketed", name, PyList_GetItem(list, i), NXP_WRITE)) {
            return false;
        }
        tensors[i] = (nexar_tensor){m.ptr, m.items};
        nxp_memory_release(&m); /* |list| keeps the array */
        if ((i != 0) && (m.dtype != *dtype)) {
            (void)nxp_invalid("allreduce_bucketed: %s has elements of %s, and bufs[0] of %s; one "
                              "type is accepted",
                              name, nexar_dtype_name(m.dtype), nexar_dtype_name(*dtype));
            return false;
        }
        *dtype = m.dtype;
    }
    Py_INCREF(list);
    op->result = list;
    op->gives = NXP_OBJECT;
    return true;
}

/* _allreduce_bucketed(blocking, bufs, op) */
static PyObject *comm_bucketed(PyObject *obj, PyObject *const *args, Py_ssize_t n,
                               PyObject *kwnames)
{
    static const char *const names[] = {"blocking", "bufs", "op", NULL};
    nxp_comm *self = (nxp_comm *)obj;
    PyObject *arg[3] = {NULL, NULL, NULL}, *list;
    nexar_op how = NEXAR_SUM;
    nexar_dtype dtype = NEXAR_F32;
    nexar_tensor *tensors;
    nexar_err err;
    nxp_op op;
    bool ok;

    if (!nxp_comm_ready(self, "allreduce_bucketed") ||
        !nxp_parse("allreduce_bucketed", names, 2, args, n, kwnames, arg) ||
        !nxp_op_arg("allreduce_bucketed", arg[2], &how)) {
        return NULL;
    }
    list = PySequence_List(arg[1]);
    if (list == NULL) {
        return NULL;
    }
    nxp_op_init(&op, self, NXP_NOTHING);
    tensors = PyMem_Calloc((size_t)PyList_Size(list) + 1, sizeof(*tensors));
    op.blocks = tensors;
    ok = (tensors != NULL) && set_up_bucket(&op, list, tensors, &dtype);
    if (!ok) {
        nxp_op_fini(&op);
        Py_DECREF(list);
        return (tensors == NULL) ? PyErr_NoMemory() : NULL;
    }
    err = nexar_iallreduce_bucketed(self->comm, tensors, (size_t)PyList_Size(list), dtype, how,
                                    &op.req);
    Py_DECREF(list);
    return (arg[0] == Py_True) ? nxp_op_block(&op, err) : nxp_op_request(&op, err);
}

static bool compression_arg(PyObject *obj, nexar_compression *out)
{
    static const char *const hows[] = {"none", "topk", "randomk", "f16", "bf16", "int8", NULL};

    for (int i = 0; PyUnicode_Check(obj) && (hows[i] != NULL); i++) {
        if (PyUnicode_CompareWithASCIIString(obj, hows[i]) == 0) {
            *out = (nexar_compression)i;
            return true;
        }
    }
    (void)nxp_invalid("allreduce_compressed: how is %R; accepted: \"none\", \"topk\", \"randomk\", "
                      "\"f16\", \"bf16\", \"int8\"",
                      obj);
    return false;
}

/* The residual of a compressed allreduce, which has as many elements as buf. */
static bool residual_arg(nxp_op *op, PyObject *obj)
{
    if ((obj == NULL) || (obj == Py_None)) {
        return true;
    }
    if (!nxp_memory_get(&op->mem[1], "allreduce_compressed", "residual", obj, NXP_WRITE)) {
        return false;
    }
    if ((op->mem[1].dtype != op->mem[0].dtype) || (op->mem[1].items != op->mem[0].items)) {
        (void)nxp_invalid("allreduce_compressed: residual has %zu elements of %s; %zu of %s, as in "
                          "buf, are accepted",
                          op->mem[1].items, nexar_dtype_name(op->mem[1].dtype), op->mem[0].items,
                          nexar_dtype_name(op->mem[0].dtype));
        return false;
    }
    return true;
}

/* _allreduce_compressed(blocking, buf, how, residual, op, ratio) */
static PyObject *comm_compressed(PyObject *obj, PyObject *const *args, Py_ssize_t n,
                                 PyObject *kwnames)
{
    static const char *const names[] = {"blocking", "buf", "how", "residual", "op", "ratio", NULL};
    nxp_comm *self = (nxp_comm *)obj;
    PyObject *arg[6] = {NULL};
    nexar_op reduction = NEXAR_AVG;
    nexar_compression how = NEXAR_COMPRESS_NONE;
    double ratio;
    nexar_err err;
    nxp_op op;

    if (!nxp_comm_ready(self, "allreduce_compressed") ||
        !nxp_parse("allreduce_compressed", names, 6, args, n, kwnames, arg) ||
        !nxp_op_arg("allreduce_compressed", arg[4], &reduction) || !compression_arg(arg[2], &how)) {
        return NULL;
    }
    ratio = PyFloat_AsDouble(arg[5]);
    if (PyErr_Occurred() != NULL) {
        return NULL;
    }
    nxp_op_init(&op, self, NXP_OBJECT);
    if (!nxp_memory_get(&op.mem[0], "allreduce_compressed", "buf", arg[1], NXP_WRITE) ||
        !residual_arg(&op, arg[3])) {
        nxp_op_fini(&op);
        return NULL;
    }
    Py_INCREF(arg[1]);
    op.result = arg[1];
    err = nexar_iallreduce_compressed(self->comm, op.mem[0].ptr, op.mem[0].items, op.mem[0].dtype,
                                      reduction, how, ratio,
                                      (op.mem[1].items != 0) ? op.mem[1].ptr : NULL, &op.req);
    return (arg[0] == Py_True) ? nxp_op_block(&op, err) : nxp_op_request(&op, err);
}

/* On a thread of the runtime. */
static nexar_err on_shard(void *shard, size_t offset, size_t count, void *arg)
{
    PyObject *pair = arg, *said; /* (function of offset and count, list for its exception) */
    PyGILState_STATE state;
    nexar_err err = NEXAR_OK;

    (void)shard;
    if (!nxp_enter_python(&state)) {
        return NEXAR_ECANCELED;
    }
    said = PyObject_CallFunction(PyTuple_GetItem(pair, 0), "nn", (Py_ssize_t)offset,
                                 (Py_ssize_t)count);
    if (said == NULL) {
        PyObject *type, *value, *trace;

        PyErr_Fetch(&type, &value, &trace);
        PyErr_NormalizeException(&type, &value, &trace);
        if (value != NULL) {
            (void)PyList_Append(PyTuple_GetItem(pair, 1), value);
        }
        PyErr_Restore(type, value, trace);
        err = nxp_callback_failed("on_shard");
    }
    Py_XDECREF(said);
    nxp_leave_python(state);
    return err;
}

/* _allreduce_rs_ag(blocking, buf, on_shard, op): on_shard is None or (fn(offset, count), []). */
static PyObject *comm_rs_ag(PyObject *obj, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    static const char *const names[] = {"blocking", "buf", "on_shard", "op", NULL};
    nxp_comm *self = (nxp_comm *)obj;
    PyObject *arg[4] = {NULL};
    nexar_op reduction = NEXAR_AVG;
    nexar_err err;
    nxp_op op;

    if (!nxp_comm_ready(self, "allreduce_rs_ag") ||
        !nxp_parse("allreduce_rs_ag", names, 4, args, n, kwnames, arg) ||
        !nxp_op_arg("allreduce_rs_ag", arg[3], &reduction)) {
        return NULL;
    }
    nxp_op_init(&op, self, NXP_OBJECT);
    if (!nxp_memory_get(&op.mem[0], "allreduce_rs_ag", "buf", arg[1], NXP_WRITE)) {
        nxp_op_fini(&op);
        return NULL;
    }
    Py_INCREF(arg[1]);
    op.result = arg[1];
    Py_INCREF(arg[2]);
    op.keep = arg[2];
    err = nexar_iallreduce_rs_ag(self->comm, op.mem[0].ptr, op.mem[0].items, op.mem[0].dtype,
                                 reduction, (arg[2] == Py_None) ? NULL : on_shard, arg[2], &op.req);
    return (arg[0] == Py_True) ? nxp_op_block(&op, err) : nxp_op_request(&op, err);
}

#define ROW(NAME, KIND) NXP_FAST(#NAME, comm_##NAME), NXP_FAST("i" #NAME, comm_i##NAME),
PyMethodDef nxp_coll_methods[] = {
    COLLECTIVES(ROW) NXP_FAST("_allreduce_bucketed", comm_bucketed),
    NXP_FAST("_allreduce_compressed", comm_compressed),
    NXP_FAST("_allreduce_rs_ag", comm_rs_ag),
    {NULL, NULL, 0, NULL},
};
