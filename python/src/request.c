/* request.c - Request: an operation that Python waits for, tests or cancels. */
#include "binding.h"

PyTypeObject *nxp_request_type;

enum { REAP_EVERY = 64 }; /* requests between two polls for dropped ones that have completed */

PyObject *nxp_op_request_heap(nxp_op *op, nexar_err err)
{
    PyObject *cls = nxp_request_class;
    nxp_request *self;

    if (err != NEXAR_OK) {
        PyObject *raised = nxp_op_failed(op, err);

        PyMem_Free(op);
        return raised;
    }
    nxp_op_enlist(op);
    if (++op->world->started % REAP_EVERY == 0) {
        nxp_world_poll(op->world);
    }
    self = (cls != NULL) ? (nxp_request *)PyType_GenericAlloc((PyTypeObject *)cls, 0) : NULL;
    if (self == NULL) {
        nxp_op_abandon(op);
        return NULL;
    }
    self->op = op;
    return (PyObject *)self;
}

PyObject *nxp_op_request(nxp_op *op, nexar_err err)
{
    nxp_op *heap;

    if (err != NEXAR_OK) {
        return nxp_op_failed(op, err);
    }
    heap = PyMem_Calloc(1, sizeof(*heap));
    if (heap == NULL) {
        return PyErr_NoMemory(); /* the operation continues with its memory */
    }
    *heap = *op;
    return nxp_op_request_heap(heap, NEXAR_OK);
}

static void request_dealloc(PyObject *obj)
{
    nxp_request *self = (nxp_request *)obj;
    PyTypeObject *type = Py_TYPE(obj);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);

    if (self->op != NULL) {
        Py_CLEAR(self->op->notify);
        nxp_op_abandon(self->op);
    }
    release(obj);
    Py_DECREF(type);
}

bool nxp_request_check(const nxp_request *self, const char *call)
{
    if ((self->op == NULL) || (self->op->world->forks != nxp_forks)) {
        (void)nxp_invalid("%s: this process was forked from the rank of the request; only the rank "
                          "itself may use it",
                          call);
        return false;
    }
    if (self->op->waiting) {
        (void)nxp_invalid("%s: another thread waits for this request; one thread may", call);
        return false;
    }
    return true;
}

static PyObject *request_wait(PyObject *obj, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    static const char *const names[] = {"timeout", NULL};
    nxp_request *self = (nxp_request *)obj;
    PyObject *timeout = NULL;
    uint64_t ns = UINT64_MAX;

    if (!nxp_parse("wait", names, 0, args, n, kwnames, &timeout) ||
        !nxp_request_check(self, "wait") || !nxp_timeout("wait", timeout, &ns) ||
        (!self->op->done && !nxp_op_await(self->op, ns))) {
        return NULL;
    }
    if (!self->op->done) {
        char text[96];

        (void)PyOS_snprintf(text, sizeof(text), "wait: the request had not completed after %.3f s",
                            (double)ns / 1e9);
        return nxp_raise(NEXAR_ETIMEDOUT, text, NULL);
    }
    return nxp_op_outcome(self->op);
}

static PyObject *request_test(PyObject *obj, PyObject *unused)
{
    nxp_request *self = (nxp_request *)obj;
    PyObject *result;

    (void)unused;
    if (!nxp_request_check(self, "test")) {
        return NULL;
    }
    nxp_op_look(self->op);
    if (!self->op->done) {
        Py_RETURN_FALSE;
    }
    result = nxp_op_outcome(self->op);
    if (result == NULL) {
        return NULL;
    }
    Py_DECREF(result);
    Py_RETURN_TRUE;
}

static PyObject *request_cancel(PyObject *obj, PyObject *unused)
{
    nxp_request *self = (nxp_request *)obj;
    nexar_err err;

    (void)unused;
    if (!nxp_request_check(self, "cancel")) {
        return NULL;
    }
    if (!self->op->done) {
        err = nexar_cancel(self->op->req);
        if (err != NEXAR_OK) {
            return nxp_raise_last(err, NULL);
        }
    }
    Py_RETURN_NONE;
}

/* _on_done(fn): calls fn() once, when the request has completed; now, if it has. */
static PyObject *request_on_done(PyObject *obj, PyObject *fn)
{
    nxp_request *self = (nxp_request *)obj;

    if (!nxp_request_check(self, "await")) {
        return NULL;
    }
    nxp_op_look(self->op);
    if (self->op->done) {
        return PyObject_CallFunctionObjArgs(fn, NULL);
    }
    Py_INCREF(fn);
    Py_XDECREF(self->op->notify);
    self->op->notify = fn;
    Py_RETURN_NONE;
}
/* _poll(): checks whether other requests of this world have completed, and makes their
 * callbacks. */
static PyObject *request_poll(PyObject *obj, PyObject *unused)
{
    nxp_request *self = (nxp_request *)obj;

    (void)unused;
    if (!nxp_request_check(self, "poll")) {
        return NULL;
    }
    nxp_world_poll(self->op->world);
    Py_RETURN_NONE;
}

/* _event_fd(): the descriptor that an event loop watches. */
static PyObject *request_event_fd(PyObject *obj, PyObject *unused)
{
    nxp_request *self = (nxp_request *)obj;
    nexar_err err;
    int fd;

    (void)unused;
    if (!nxp_request_check(self, "await")) {
        return NULL;
    }
    err = nexar_event_fd(self->op->world->root, &fd);
    return (err == NEXAR_OK) ? PyLong_FromLong(fd) : nxp_raise_last(err, NULL);
}

static PyMethodDef request_methods[] = {
    NXP_FAST("wait", request_wait),
    {"test", request_test, METH_NOARGS, NULL},
    {"cancel", request_cancel, METH_NOARGS, NULL},
    {"_on_done", request_on_done, METH_O, NULL},
    {"_poll", request_poll, METH_NOARGS, NULL},
    {"_event_fd", request_event_fd, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyObject *request_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    (void)type;
    (void)args;
    (void)kwargs;
    return nxp_invalid("Request: made by the i-form of a call, not by itself");
}

static PyType_Slot request_slots[] = {
    {Py_tp_dealloc, (void *)request_dealloc},
    {Py_tp_methods, request_methods},
    {Py_tp_new, (void *)request_new},
    {0, NULL},
};
PyType_Spec nxp_request_spec = {"nexar._nexar.Request", sizeof(nxp_request), 0,
                                Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, request_slots};
