/*
 * op.c - operations on their way, and Request.
 *
 * An operation is in the list of its world from its start until it has completed.  The wait, test
 * or poll that finds it complete writes the outcome into it and takes it out of the list.  The GIL
 * orders all of that; |waiting| marks an operation that a thread waits for without the GIL, and
 * that no other thread may touch.
 */
#include "binding.h"

#include <stdlib.h>
#include <string.h>

PyTypeObject *nxp_request_type;

enum { REAP_EVERY = 64 }; /* requests between two looks for dropped ones that have completed */

typedef struct request {
    PyObject_HEAD nxp_op *op;
} request;

/* ---- life ---------------------------------------------------------------------------------- */

void nxp_op_init(nxp_op *op, nxp_comm *comm, nxp_gives gives)
{
    memset(op, 0, sizeof(*op));
    op->gives = gives;
    op->world = comm->world;
    op->world->refs++;
    op->comm = (PyObject *)comm;
    Py_INCREF(op->comm);
}

/* What only the operation itself needs; the outcome stays. */
static void give_back(nxp_op *op)
{
    nxp_memory_release(&op->mem[0]);
    nxp_memory_release(&op->mem[1]);
    PyMem_Free(op->blocks);
    op->blocks = NULL;
    Py_CLEAR(op->keep);
}

void nxp_op_fini(nxp_op *op)
{
    give_back(op);
    Py_CLEAR(op->comm);
    Py_CLEAR(op->result);
    Py_CLEAR(op->notify);
    free(op->reply);
    free(op->sentence);
    nxp_world_release(op->world);
}

nxp_op *nxp_op_create(nxp_comm *comm, nxp_gives gives)
{
    nxp_op *op = PyMem_Calloc(1, sizeof(*op));

    if (op == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    nxp_op_init(op, comm, gives);
    return op;
}

static void op_free(nxp_op *op)
{
    nxp_op_fini(op);
    PyMem_Free(op);
}

static void enlist(nxp_op *op)
{
    op->link = &op->world->ops;
    op->next = *op->link;
    if (op->next != NULL) {
        op->next->link = &op->next;
    }
    *op->link = op;
}

static void delist(nxp_op *op)
{
    if (op->link == NULL) {
        return;
    }
    *op->link = op->next;
    if (op->next != NULL) {
        op->next->link = op->link;
    }
    op->link = NULL;
}

/* |op| has completed with |err|, whose sentence is this thread's last one. */
static void completed(nxp_op *op, nexar_err err, const char *sentence)
{
    PyObject *notify = op->notify;

    op->done = true;
    op->err = err;
    give_back(op);
    if (err != NEXAR_OK) {
        op->sentence = strdup(sentence);
    }
    op->notify = NULL;
    delist(op);
    if (notify != NULL) {
        PyObject *type, *value, *trace, *said;

        PyErr_Fetch(&type, &value, &trace);
        said = PyObject_CallFunctionObjArgs(notify, NULL);
        if (said == NULL) {
            PyErr_WriteUnraisable(notify);
        }
        Py_XDECREF(said);
        PyErr_Restore(type, value, trace);
        Py_DECREF(notify);
    }
}

/* Looks once whether |op| has completed. */
static void look(nxp_op *op)
{
    bool done = false;
    nexar_err err;

    if (op->done || op->waiting) {
        return;
    }
    err = nexar_test(&op->req, &done, &op->status);
    if (op->req == NULL) {
        completed(op, err, (err != NEXAR_OK) ? nexar_last_error() : "");
    }
}

/* ---- outcomes ----------------------------------------------------------------------------------
 */

static PyObject *make_status(const nexar_status *s)
{
    PyObject *cls = nxp_hook("Status");

    return (cls == NULL) ? NULL
                         : PyObject_CallFunction(cls, "iKK", s->source, (unsigned long long)s->tag,
                                                 (unsigned long long)s->bytes);
}

/* A blocking call begins its operation by the i-form, which |sentence| begins with. */
static const char *as_called(const nxp_op *op, const char *sentence)
{
    const size_t n = (op->blocking != NULL) ? strlen(op->blocking) : 0;

    return ((n != 0) && (sentence[0] == 'i') && (strncmp(sentence + 1, op->blocking, n) == 0))
               ? sentence + 1
               : sentence;
}

static PyObject *raise_outcome(nxp_op *op)
{
    nexar_comm *comm = (op->comm != NULL) ? ((nxp_comm *)op->comm)->comm : NULL;

    return nxp_raise(op->err, (op->sentence != NULL) ? as_called(op, op->sentence) : "", comm);
}

/* The result of |op|, which has completed; or its exception.  May be asked for again. */
static PyObject *outcome(nxp_op *op)
{
    op->claimed = true;
    if (op->err != NEXAR_OK) {
        return raise_outcome(op);
    }
    if ((op->result == NULL) && (op->gives == NXP_STATUS)) {
        op->result = make_status(&op->status);
    } else if ((op->result == NULL) && (op->gives == NXP_REPLY)) {
        op->result = PyBytes_FromStringAndSize(op->reply, (Py_ssize_t)op->reply_bytes);
    } else if (op->result == NULL) {
        Py_INCREF(Py_None);
        op->result = Py_None;
    }
    Py_XINCREF(op->result);
    return op->result;
}

/* ---- waiting
 * ------------------------------------------------------------------------------------- */

/* Waits one slice, at most until |left_ns|. */
static nexar_err wait_slice(nxp_op *op, uint64_t left_ns)
{
    const uint64_t slice = (left_ns < NXP_SLICE_NS) ? left_ns : NXP_SLICE_NS;
    nexar_err err;

    op->waiting = true;
    Py_BEGIN_ALLOW_THREADS err = nexar_wait_for(&op->req, slice, &op->status);
    Py_END_ALLOW_THREADS op->waiting = false;
    if (op->req == NULL) {
        completed(op, err, (err != NEXAR_OK) ? nexar_last_error() : "");
        return NEXAR_OK;
    }
    return err;
}

/* Waits until |op| has completed or |timeout_ns| has passed.  False: an exception is set. */
static bool await(nxp_op *op, uint64_t timeout_ns)
{
    uint64_t left = timeout_ns;

    look(op);
    while (!op->done && (left != 0)) {
        const nexar_err err = wait_slice(op, left);

        if (!op->done && (err != NEXAR_OK) && (err != NEXAR_ETIMEDOUT)) {
            (void)nxp_raise_last(err, NULL);
            return false;
        }
        left = (left == UINT64_MAX) ? left : left - ((left < NXP_SLICE_NS) ? left : NXP_SLICE_NS);
        if (!op->done && (PyErr_CheckSignals() != 0)) {
            return false;
        }
    }
    return true;
}

/* Raises what was pending when a receive completed in spite of it. */
static int raise_later(void *arg)
{
    PyObject *value = arg;

    PyErr_SetObject((PyObject *)Py_TYPE(value), value);
    Py_DECREF(value);
    return -1;
}

/* The exception that is set is raised after the call that is about to return a message. */
static bool postpone_exception(void)
{
    PyObject *type, *value, *trace;

    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    if ((value == NULL) || (Py_AddPendingCall(raise_later, value) != 0)) {
        PyErr_Restore(type, value, trace);
        return false;
    }
    Py_XDECREF(type);
    Py_XDECREF(trace);
    return true;
}

/* The caller was interrupted, an exception is set.  True: |op| has a message all the same. */
static bool interrupted(nxp_op *op)
{
    PyObject *type, *value, *trace;
    bool again = true;

    if (!op->done && op->cancelable) {
        PyErr_Fetch(&type, &value, &trace);
        (void)nexar_cancel(op->req);
        do { /* a message that has begun to arrive is received; a second signal gives it up */
            again = await(op, NXP_SLICE_NS) && op->receives;
            PyErr_Clear();
        } while (!op->done && again);
        PyErr_Restore(type, value, trace);
    }
    return op->done && (op->err == NEXAR_OK) && op->receives && postpone_exception();
}

/* |op|, on the caller's stack, has not completed: it lives on in its world. */
static void leave_behind(nxp_op *op)
{
    nxp_op *heap = PyMem_Calloc(1, sizeof(*heap));

    if (heap == NULL) { /* its memory is never given back: it is in use */
        return;
    }
    *heap = *op;
    heap->claimed = true;
    heap->left = true;
    enlist(heap);
}

static PyObject *failed_start(nxp_op *op, nexar_err err)
{
    char sentence[NXP_SENTENCE];

    (void)PyOS_snprintf(sentence, sizeof(sentence), "%s", nexar_last_error());
    (void)nxp_raise(err, as_called(op, sentence), ((nxp_comm *)op->comm)->comm);
    nxp_op_fini(op);
    return NULL;
}

PyObject *nxp_op_block(nxp_op *op, nexar_err err)
{
    PyObject *result = NULL;

    if (err != NEXAR_OK) {
        return failed_start(op, err);
    }
    if (await(op, UINT64_MAX) || interrupted(op)) {
        result = outcome(op);
    } else if (!op->done) {
        leave_behind(op);
        return NULL;
    }
    nxp_op_fini(op);
    return result;
}

/* Nobody has a Request for |op|, which is on the heap. */
static void abandon(nxp_op *op)
{
    if (op->done) {
        op_free(op);
        return;
    }
    if (op->receives && (op->req != NULL)) {
        (void)nexar_cancel(op->req);
    }
    op->claimed = true;
    op->cancelable = false;
    op->gives = NXP_NOTHING;
    if (op->link == NULL) {
        enlist(op);
    }
}

PyObject *nxp_op_block_heap(nxp_op *op, nexar_err err, uint64_t timeout_ns)
{
    PyObject *result = NULL;

    if (err != NEXAR_OK) {
        result = failed_start(op, err);
        PyMem_Free(op);
        return result;
    }
    if (await(op, timeout_ns) || interrupted(op)) {
        if (op->done) {
            result = outcome(op);
        } else {
            (void)nexar_cancel(op->req);
            (void)nxp_raise(NEXAR_ETIMEDOUT, "call: no reply within timeout", NULL);
        }
    }
    abandon(op);
    return result;
}

/* ---- Request
 * --------------------------------------------------------------------------------------- */

PyObject *nxp_op_request_heap(nxp_op *op, nexar_err err)
{
    PyObject *cls = nxp_hook("Request");
    request *self;

    if (err != NEXAR_OK) {
        PyObject *raised = failed_start(op, err);

        PyMem_Free(op);
        return raised;
    }
    enlist(op);
    if (++op->world->started % REAP_EVERY == 0) {
        nxp_world_poll(op->world);
    }
    self = (cls != NULL) ? (request *)PyType_GenericAlloc((PyTypeObject *)cls, 0) : NULL;
    if (self == NULL) {
        abandon(op);
        return NULL;
    }
    self->op = op;
    return (PyObject *)self;
}

PyObject *nxp_op_request(nxp_op *op, nexar_err err)
{
    nxp_op *heap;

    if (err != NEXAR_OK) {
        return failed_start(op, err);
    }
    heap = PyMem_Calloc(1, sizeof(*heap));
    if (heap == NULL) {
        return PyErr_NoMemory(); /* the operation runs on with its memory */
    }
    *heap = *op;
    return nxp_op_request_heap(heap, NEXAR_OK);
}

static void request_dealloc(PyObject *obj)
{
    request *self = (request *)obj;
    PyTypeObject *type = Py_TYPE(obj);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);

    if (self->op != NULL) {
        Py_CLEAR(self->op->notify);
        abandon(self->op);
    }
    release(obj);
    Py_DECREF(type);
}

static bool check_request(const request *self, const char *call)
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
    request *self = (request *)obj;
    PyObject *timeout = NULL;
    uint64_t ns = UINT64_MAX;

    if (!nxp_parse("wait", names, 0, args, n, kwnames, &timeout) || !check_request(self, "wait") ||
        !nxp_timeout("wait", timeout, &ns) || (!self->op->done && !await(self->op, ns))) {
        return NULL;
    }
    if (!self->op->done) {
        char text[96];

        (void)PyOS_snprintf(text, sizeof(text), "wait: the request had not completed after %.3f s",
                            (double)ns / 1e9);
        return nxp_raise(NEXAR_ETIMEDOUT, text, NULL);
    }
    return outcome(self->op);
}

static PyObject *request_test(PyObject *obj, PyObject *unused)
{
    request *self = (request *)obj;
    PyObject *result;

    (void)unused;
    if (!check_request(self, "test")) {
        return NULL;
    }
    look(self->op);
    if (!self->op->done) {
        Py_RETURN_FALSE;
    }
    result = outcome(self->op);
    if (result == NULL) {
        return NULL;
    }
    Py_DECREF(result);
    Py_RETURN_TRUE;
}

static PyObject *request_cancel(PyObject *obj, PyObject *unused)
{
    request *self = (request *)obj;
    nexar_err err;

    (void)unused;
    if (!check_request(self, "cancel")) {
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

/* _on_done(fn): fn() is called once when the request has completed; now, if it has. */
static PyObject *request_on_done(PyObject *obj, PyObject *fn)
{
    request *self = (request *)obj;

    if (!check_request(self, "await")) {
        return NULL;
    }
    look(self->op);
    if (self->op->done) {
        return PyObject_CallFunctionObjArgs(fn, NULL);
    }
    Py_INCREF(fn);
    Py_XDECREF(self->op->notify);
    self->op->notify = fn;
    Py_RETURN_NONE;
}

/* Completes what has completed, of all requests of |world|. */
void nxp_world_poll(nxp_world *world)
{
    nxp_op *op = world->ops, *next;

    for (; op != NULL; op = next) {
        next = op->next;
        look(op);
        if (op->done && op->claimed) { /* nobody has a Request for it */
            op_free(op);
        }
    }
}

/* _poll(): whether other requests of this world have completed; each tells whom it must. */
static PyObject *request_poll(PyObject *obj, PyObject *unused)
{
    request *self = (request *)obj;

    (void)unused;
    if (!check_request(self, "poll")) {
        return NULL;
    }
    nxp_world_poll(self->op->world);
    Py_RETURN_NONE;
}

/* _event_fd(): the descriptor that an event loop watches. */
static PyObject *request_event_fd(PyObject *obj, PyObject *unused)
{
    request *self = (request *)obj;
    nexar_err err;
    int fd;

    (void)unused;
    if (!check_request(self, "await")) {
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
PyType_Spec nxp_request_spec = {"nexar._nexar.Request", sizeof(request), 0,
                                Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, request_slots};

/* ---- wait_any
 * ------------------------------------------------------------------------------------------ */

/* Index of an operation that has completed and was not yet given out; -1: none; -2: all are. */
static Py_ssize_t find_done(nxp_op *const *ops, Py_ssize_t n)
{
    Py_ssize_t left = 0;

    for (Py_ssize_t i = 0; i < n; i++) {
        if (!ops[i]->claimed) {
            look(ops[i]);
            left++;
            if (ops[i]->done) {
                return i;
            }
        }
    }
    return (left != 0) ? -1 : -2;
}

/* One slice of waiting for any of |ops|; an error but of a time-out. */
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
        completed(ops[index], err, (err != NEXAR_OK) ? nexar_last_error() : "");
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
        if (!check_request((request *)item, "wait_any")) {
            return false;
        }
        ops[i] = ((request *)item)->op;
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
    list = PySequence_List(arg[0]); /* holds the requests, whatever happens to the argument */
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

/* ---- the end of a world
 * -------------------------------------------------------------------------------------- */

bool nxp_world_settle(nxp_world *world)
{
    nxp_world_poll(world);
    for (nxp_op *op = world->ops; op != NULL; op = op->next) {
        if (op->left && (op->comm != NULL) && (((nxp_comm *)op->comm)->comm != NULL)) {
            (void)nexar_comm_revoke(((nxp_comm *)op->comm)->comm);
        }
    }
    return nxp_jobs_settle(world);
}

void nxp_world_closed(nxp_world *world) /* the requests are gone: none is looked at */
{
    while (world->ops != NULL) {
        nxp_op *op = world->ops;

        op->req = NULL;
        completed(op, NEXAR_ECANCELED, "the world was closed while the operation was pending");
        if (op->claimed) {
            op_free(op);
        }
    }
}
