/* allreduce.c - allreduce of many arrays, compressed allreduce, and allreduce with a function on
 * each shard. */
#include "coll.h"

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
PyObject *nxp_bucketed(PyObject *obj, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
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
    list = nxp_list("allreduce_bucketed", "bufs", arg[1], "a sequence of arrays");
    if (list == NULL) {
        return NULL;
    }
    nxp_op_init(&op, self, NXP_NOTHING);
    op.blocking = (arg[0] == Py_True) ? "allreduce_bucketed" : NULL;
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

/* The residual of a compressed allreduce, with as many elements as buf. */
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
PyObject *nxp_compressed(PyObject *obj, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
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
        PyErr_Clear();
        return nxp_bad_type("allreduce_compressed: ratio is %R; a float is accepted", arg[5]);
    }
    nxp_op_init(&op, self, NXP_OBJECT);
    op.blocking = (arg[0] == Py_True) ? "allreduce_compressed" : NULL;
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

/* Runs on a thread of the runtime. */
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
PyObject *nxp_rs_ag(PyObject *obj, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
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
    op.blocking = (arg[0] == Py_True) ? "allreduce_rs_ag" : NULL;
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
