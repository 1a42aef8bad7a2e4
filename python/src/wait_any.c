/* wait_any.c - waits for the first of many requests. */
#include "binding.h"

/* Index of a completed operation whose result was not returned yet; -1: none; -2: all were
 * returned. */
static Py_ssize_t find_done(nxp_op *const *ops, Py_ssize_t n)
{
    Py_ssize_t left = 0;

    for (Py_ssize_t i = 0; i < n; i++) {
        if (!ops[i]->claimed) {
            nxp_op_look(ops[i]);
            left++;
            if (ops[i]->done) {
                return i;
            }
        }
    }
    return (left != 0) ? -1 : -2;
}

/* One slice of waiting for any of |ops|; returns an error other than a time-out. */
static nexar_err any_slice(nxp_op *const *ops, nexar_request **reqs, size_t n, uint64_t ns)
{
    nexar_status status = {0};
    size_t index = n;
    nexar_err err;

    for (size_t i = 0; i < n; i++) {
        reqs[i] = ops[i]->done ? NULL : ops[i]->req;
        ops[i]->waiting = true;
    }
    Py_BEGIN_ALLOW_THREADS err = nexar_wait_any_for(n, reqs, ns, &index, &status);
    Py_END_ALLOW_THREADS for (size_t i = 0; i < n; i++)
    {
        ops[i]->waiting = false;
    }
    if ((index < n) && (reqs[index] == NULL)) {
        ops[index]->req = NULL;
        ops[index]->status = status;
        nxp_op_completed(ops[index], err, (err != NEXAR_OK) ? nexar_last_error() : "");
        return NEXAR_OK;
    }
    return err;
}

static PyObject *wait_any(nxp_op *const *ops, nexar_request **reqs, Py_ssize_t n, uint64_t left)
{
    for (;;) {
        const Py_ssize_t at = find_done(ops, n);
        const uint64_t slice = (left < NXP_SLICE_NS) ? left : NXP_SLICE_NS;
        nexar_err err;

        if (at >= 0) {
            ops[at]->claimed = true;
            return PyLong_FromSsize_t(at);
        }
        if (at == -2) {
            return nxp_invalid("wait_any: reqs: all have been waited for already");
        }
        if (left == 0) {
            return nxp_raise(NEXAR_ETIMEDOUT, "wait_any: no request has completed", NULL);
        }
        err = any_slice(ops, reqs, (size_t)n, slice);
        if ((err != NEXAR_OK) && (err != NEXAR_ETIMEDOUT)) {
            return nxp_raise_last(err, NULL);
        }
        left = (left == UINT64_MAX) ? left : left - slice;
        if (PyErr_CheckSignals() != 0) {
            return NULL;
        }
    }
}

static bool collect(PyObject *list, nxp_op **ops, Py_ssize_t n)
{
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *item = PyList_GetItem(list, i);
        const int is = PyObject_IsInstance(item, (PyObject *)nxp_request_type);

        if (is <= 0) {
            if (is == 0) {
                (void)nxp_bad_type("wait_any: reqs[%zd] is %R; requests are accepted", i, item);
            }
            return false;
        }
        if (!nxp_request_check((nxp_request *)item, "wait_any")) {
            return false;
        }
        ops[i] = ((nxp_request *)item)->op;
    }
    return true;
}

PyObject *nxp_wait_any(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    static const char *const names[] = {"reqs", "timeout", NULL};
    PyObject *arg[2] = {NULL, NULL}, *list, *result = NULL;
    uint64_t ns = UINT64_MAX;
    Py_ssize_t count;
    nxp_op **ops;
    nexar_request **reqs;

    (void)module;
    if (!nxp_parse("wait_any", names, 1, args, n, kwnames, arg) ||
        !nxp_timeout("wait_any", arg[1], &ns)) {
        return NULL;
    }
    /* holds the requests, even if the argument changes */
    list = nxp_list("wait_any", "reqs", arg[0], "an iterable of requests");
    if (list == NULL) {
        return NULL;
    }
    count = PyList_Size(list);
    ops = PyMem_Calloc((size_t)count + 1, sizeof(nxp_op *));
    reqs = PyMem_Calloc((size_t)count + 1, sizeof(nexar_request *));
    if ((ops == NULL) || (reqs == NULL)) {
        PyErr_NoMemory();
    } else if (collect(list, ops, count)) {
        result = wait_any(ops, reqs, count, ns);
    }
    PyMem_Free(ops);
    PyMem_Free(reqs);
    Py_DECREF(list);
    return result;
}
