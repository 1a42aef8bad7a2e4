/* rpc.c - remote calls, and the Python functions that the runtime calls. */
#include "binding.h"

#include <pthread.h>
#include <stdlib.h>

/* ---- calls into Python --------------------------------------------------------------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool stopped;

bool nxp_enter_python(PyGILState_STATE *state)
{
    bool may;

    (void)pthread_mutex_lock(&lock);
    may = !stopped;
    (void)pthread_mutex_unlock(&lock);
    if (may) {
        *state = PyGILState_Ensure();
    }
    return may;
}

void nxp_leave_python(PyGILState_STATE state)
{
    PyGILState_Release(state);
}

PyObject *nxp_stop_callbacks(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    (void)pthread_mutex_lock(&lock);
    stopped = true;
    (void)pthread_mutex_unlock(&lock);
    Py_RETURN_NONE;
}

/* ---- handlers -------------------------------------------------------------------------------- */

/* Sends the result of the handler: bytes, or another object with a buffer; None is empty. */
static nexar_err reply_with(nexar_rpc *call, PyObject *said)
{
    nxp_memory m;
    nexar_err err;

    if (said == Py_None) {
        return NEXAR_OK;
    }
    if (!nxp_memory_get(&m, "rpc handler", "its result", said, NXP_READ)) {
        return nxp_callback_failed("handler");
    }
    Py_BEGIN_ALLOW_THREADS err = nexar_rpc_reply(call, m.ptr, m.bytes);
    Py_END_ALLOW_THREADS nxp_memory_release(&m);
    return err;
}

static nexar_err handle(nexar_rpc *call, const void *data, size_t bytes, void *arg)
{
    PyGILState_STATE state;
    PyObject *view, *said = NULL, *closed;
    nexar_err err;

    if (!nxp_enter_python(&state)) {
        return NEXAR_ECANCELED;
    }
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): PyBUF_READ
    view = PyMemoryView_FromMemory((char *)(uintptr_t)data, (Py_ssize_t)bytes, PyBUF_READ);
    if (view != NULL) {
        said = PyObject_CallFunction(arg, "iO", nexar_rpc_caller(call), view);
    }
    err = (said != NULL) ? reply_with(call, said) : nxp_callback_failed("handler");
    Py_XDECREF(said);
    if (view != NULL) { /* views must not outlive the memory */
        closed = PyObject_CallMethod(view, "release", NULL);
        if (closed == NULL) {
            PyErr_Clear();
        }
        Py_XDECREF(closed);
    }
    Py_XDECREF(view);
    nxp_leave_python(state);
    return err;
}

/* _register(fn_id, fn or None): the caller keeps a reference to |fn| while it is registered. */
static PyObject *comm_register(PyObject *obj, PyObject *const *args, Py_ssize_t n,
                               PyObject *kwnames)
{
    static const char *const names[] = {"fn_id", "fn", NULL};
    nxp_comm *self = (nxp_comm *)obj;
    PyObject *arg[2] = {NULL, NULL};
    nexar_comm *comm = self->comm;
    nexar_err err;
    int id = 0;

    if (!nxp_comm_ready(self, "rpc") || !nxp_parse("rpc", names, 2, args, n, kwnames, arg) ||
        !nxp_int("rpc", "fn_id", arg[0], 0, UINT16_MAX, &id)) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS err =
        nexar_rpc_register(comm, (uint16_t)id, (arg[1] == Py_None) ? NULL : handle, arg[1]);
    Py_END_ALLOW_THREADS if (err != NEXAR_OK)
    {
        return nxp_raise_last(err, comm);
    }
    Py_RETURN_NONE;
}

static void on_failure(nexar_comm *comm, int rank, const char *why, void *arg)
{
    PyGILState_STATE state;
    PyObject *said;

    (void)comm;
    if (!nxp_enter_python(&state)) {
        return;
    }
    said = PyObject_CallFunction(arg, "is", rank, why);
    if (said == NULL) {
        PyErr_WriteUnraisable(arg);
    }
    Py_XDECREF(said);
    nxp_leave_python(state);
}

/* _on_failure(fn or None): the caller keeps a reference to |fn|. */
static PyObject *comm_on_failure(PyObject *obj, PyObject *fn)
{
    nxp_comm *self = (nxp_comm *)obj;
    nexar_comm *comm = self->comm;
    nexar_err err;

    if (!nxp_comm_ready(self, "on_failure")) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS err = nexar_on_failure(comm, (fn == Py_None) ? NULL : on_failure, fn);
    Py_END_ALLOW_THREADS if (err != NEXAR_OK)
    {
        return nxp_raise_last(err, comm);
    }
    Py_RETURN_NONE;
}

/* ---- calls ------------------------------------------------------------------------------ */

static nexar_err run_call(nxp_job *job)
{
    return nexar_rpc_call_for(job->comm, job->rank, (uint16_t)job->fn_id, job->data, job->bytes,
                              job->timeout_ns, &job->reply, &job->reply_bytes);
}

/* A call with a time-out of its own: a separate thread waits for it. */
static PyObject *call_for(nxp_comm *self, int rank, int id, PyObject *data, uint64_t ns)
{
    nxp_job *job = nxp_job_create(run_call, self->comm);
    PyObject *result;
    char *bytes;
    Py_ssize_t n;

    if (job == NULL) {
        return NULL;
    }
    job->keep = PyBytes_FromObject(data); /* the thread may outlive the call */
    if ((job->keep == NULL) || (PyBytes_AsStringAndSize(job->keep, &bytes, &n) != 0)) {
        nxp_job_free(job);
        return NULL;
    }
    job->world = self->world;
    job->rank = rank;
    job->fn_id = id;
    job->data = bytes;
    job->bytes = (size_t)n;
    job->timeout_ns = (ns == UINT64_MAX) ? 0 : ns;
    if (!nxp_job_run(job)) {
        return NULL;
    }
    if (job->err != NEXAR_OK) {
        return nxp_job_raise(job, self->comm);
    }
    result = PyBytes_FromStringAndSize(job->reply, (Py_ssize_t)job->reply_bytes);
    nxp_job_free(job);
    return result;
}

typedef struct target {
    PyObject *data, *timeout;
    int rank, id;
    uint64_t ns;
} target;

static bool parse_call(nxp_comm *self, const char *call, PyObject *const *args, Py_ssize_t n,
                       PyObject *kwnames, target *t)
{
    static const char *const names[] = {"rank", "fn_id", "data", "timeout", NULL};
    PyObject *arg[4] = {NULL};

    if (!nxp_comm_ready(self, call) || !nxp_parse(call, names, 2, args, n, kwnames, arg) ||
        !nxp_int(call, "rank", arg[0], 0, (long)nexar_size(self->comm) - 1, &t->rank) ||
        !nxp_int(call, "fn_id", arg[1], 0, UINT16_MAX, &t->id) ||
        !nxp_timeout(call, arg[3], &t->ns)) {
        return false;
    }
    t->data = arg[2];
    t->timeout = (arg[3] == Py_None) ? NULL : arg[3];
    return true;
}

/* Starts the call with a request; NULL: an exception is set. */
static nxp_op *start_call(nxp_comm *self, const char *call, const target *t, nexar_err *err)
{
    nxp_op *op = nxp_op_create(self, NXP_REPLY);

    if (op == NULL) {
        return NULL;
    }
    if ((t->data != NULL) && !nxp_memory_get(&op->mem[0], call, "data", t->data, NXP_READ)) {
        nxp_op_fini(op);
        PyMem_Free(op);
        return NULL;
    }
    op->cancelable = true;
    *err = nexar_rpc_icall(self->comm, t->rank, (uint16_t)t->id, op->mem[0].ptr, op->mem[0].bytes,
                           &op->reply, &op->reply_bytes, &op->req);
    return op;
}

static PyObject *comm_call(PyObject *obj, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    nxp_comm *self = (nxp_comm *)obj;
    target t = {.ns = UINT64_MAX};
    nexar_err err;
    nxp_op *op;

    if (!parse_call(self, "call", args, n, kwnames, &t)) {
        return NULL;
    }
    if (t.timeout != NULL) {
        nxp_memory m = {0};
        PyObject *result;

        if ((t.data != NULL) && !nxp_memory_get(&m, "call", "data", t.data, NXP_READ)) {
            return NULL;
        }
        nxp_memory_release(&m);
        t.data =
            (t.data != NULL) ? PyMemoryView_FromObject(t.data) : PyBytes_FromStringAndSize("", 0);
        result =
            (t.data != NULL) ? call_for(self, t.rank, t.id, t.data, (t.ns != 0) ? t.ns : 1) : NULL;
        Py_XDECREF(t.data);
        return result;
    }
    op = start_call(self, "call", &t, &err);
    return (op != NULL) ? nxp_op_block_heap(op, err, UINT64_MAX) : NULL;
}

static PyObject *comm_icall(PyObject *obj, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    nxp_comm *self = (nxp_comm *)obj;
    target t = {.ns = UINT64_MAX};
    nexar_err err;
    nxp_op *op;

    if (!parse_call(self, "icall", args, n, kwnames, &t)) {
        return NULL;
    }
    if (t.timeout != NULL) {
        return nxp_invalid("icall: timeout is not accepted; give it to wait()");
    }
    op = start_call(self, "icall", &t, &err);
    return (op != NULL) ? nxp_op_request_heap(op, err) : NULL;
}

PyMethodDef nxp_rpc_methods[] = {
    NXP_FAST("_register", comm_register),
    {"_on_failure", comm_on_failure, METH_O, NULL},
    NXP_FAST("call", comm_call),
    NXP_FAST("icall", comm_icall),
    {NULL, NULL, 0, NULL},
};
