/* process.c - functions of the whole process or job: abort, user-defined reductions, counters. */
#include "binding.h"

/* _abort(code, why): does not return. */
static PyObject *comm_abort(PyObject *obj, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    static const char *const names[] = {"code", "why", NULL};
    nxp_comm *self = (nxp_comm *)obj;
    PyObject *arg[2] = {NULL, NULL}, *text = NULL;
    int code = 1;

    if (!nxp_comm_ready(self, "abort") || !nxp_parse("abort", names, 0, args, n, kwnames, arg) ||
        !nxp_int("abort", "code", arg[0], 1, 125, &code)) {
        return NULL;
    }
    if ((arg[1] != NULL) && (arg[1] != Py_None)) {
        if (!PyUnicode_Check(arg[1])) {
            return nxp_bad_type("abort: why is %R; a str is accepted", arg[1]);
        }
        text = PyUnicode_AsEncodedString(arg[1], "utf-8", "replace");
        if (text == NULL) {
            return NULL;
        }
    }
    {
        const char *why = (text != NULL) ? PyBytes_AsString(text) : NULL;

        Py_BEGIN_ALLOW_THREADS nexar_abort(self->comm, code, why);
        Py_END_ALLOW_THREADS /* not reached */
    }
    Py_RETURN_NONE;
}

/* op_create(id, address) -> the number of the operation.  The function at |address| is native code.
 * It runs with locks of nexar held, so waiting for the GIL would deadlock. */
PyObject *nxp_op_create_native(PyObject *module, PyObject *args)
{
    nexar_reduce_fn fn;
    unsigned long long address;
    nexar_op op;
    nexar_err err;
    int id;

    (void)module;
    if (!PyArg_ParseTuple(args, "iK", &id, &address)) {
        return NULL;
    }
    fn = (nexar_reduce_fn)(uintptr_t)
        address; // NOLINT(performance-no-int-to-ptr): an address is an int in Python
    err = nexar_op_create((uint16_t)id, fn, NULL, &op);
    return (err == NEXAR_OK) ? PyLong_FromLong((long)op) : nxp_raise_last(err, NULL);
}

/* _counters() -> (operations started on the world, operations that have not completed). */
static PyObject *counters(PyObject *obj, PyObject *unused)
{
    nxp_comm *self = (nxp_comm *)obj;
    unsigned long long pending = 0;

    (void)unused;
    if (!nxp_comm_ready(self, "snapshot")) {
        return NULL;
    }
    nxp_world_poll(self->world);
    for (const nxp_op *op = self->world->ops; op != NULL; op = op->next) {
        pending++;
    }
    return Py_BuildValue("KK", (unsigned long long)self->world->begun, pending);
}

PyMethodDef nxp_process_methods[] = {
    NXP_FAST("_abort", comm_abort),
    {"_counters", counters, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};
