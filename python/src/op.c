/*
 * op.c - operations in flight.
 *
 * An operation is in the list of its world from its start until its completion.  The wait, test
 * or poll that finds the operation complete stores the outcome and removes the operation from
 * the list.  The GIL orders all of that; |waiting| marks an operation that a thread waits for
 * without the GIL, and that no other thread may touch.
 */
#include "binding.h"

#include <stdlib.h>
#include <string.h>
/* ---- life ---------------------------------------------------------------------------------- */

void nxp_op_init(nxp_op *op, nxp_comm *comm, nxp_gives gives)
{
    memset(op, 0, sizeof(*op));
    op->gives = gives;
    op->world = comm->world;
    op->world->refs++;
    op->world->begun++;
    op->comm = (PyObject *)comm;
    Py_INCREF(op->comm);
}

/* Releases what only the running operation needs; the outcome stays. */
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
    if (op->message != NULL) {
        nxp_message_drop(op->message);
    }
    if (op->room.ptr != NULL) {
        nxp_block_give(op->room.ptr);
    }
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

void nxp_op_free(nxp_op *op)
{
    nxp_op_fini(op);
    PyMem_Free(op);
}

void nxp_op_enlist(nxp_op *op)
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

/* |op| has completed with |err|; the error message is this thread's last one. */
void nxp_op_completed(nxp_op *op, nexar_err err, const char *sentence)
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

/* Polls once whether |op| has completed. */
void nxp_op_look(nxp_op *op)
{
    bool done = false;
    nexar_err err;

    if (op->done || op->waiting) {
        return;
    }
    err = nexar_test(&op->req, &done, &op->status);
    if (op->req == NULL) {
        nxp_op_completed(op, err, (err != NEXAR_OK) ? nexar_last_error() : "");
    }
}

/* ---- outcomes --------------------------------------------------------------------------- */

/* A Status is a tuple.  Creating it without its own __new__, a Python function, takes a third of
 * the time. */
static PyObject *make_status(const nexar_status *s)
{
    static newfunc new_tuple; /* NULL in Python 3.9, whose limited API lacks it */
    PyObject *fields =
        Py_BuildValue("(iKK)", s->source, (unsigned long long)s->tag, (unsigned long long)s->bytes);
    PyObject *args, *made;

    if ((fields == NULL) || (nxp_status_class == NULL)) {
        return fields;
    }
    if (new_tuple == NULL) {
        new_tuple = (newfunc)PyType_GetSlot(&PyTuple_Type, Py_tp_new);
    }
    if (new_tuple == NULL) {
        PyErr_Clear();
        made = PyObject_CallObject(nxp_status_class, fields);
        Py_DECREF(fields);
        return made;
    }
    args = PyTuple_New(1);
    if (args == NULL) {
        Py_DECREF(fields);
        return NULL;
    }
    (void)PyTuple_SetItem(args, 0, fields);
    made = new_tuple((PyTypeObject *)nxp_status_class, args, NULL);
    Py_DECREF(args);
    return made;
}

/* (View, source, tag) of a message of any length. */
static PyObject *take_room(nxp_op *op)
{
    PyObject *view = nxp_memory_wrap(op->room.ptr, op->room.bytes);

    op->room.ptr = NULL;
    return (view == NULL)
               ? NULL
               : Py_BuildValue("NiK", view, op->status.source, (unsigned long long)op->status.tag);
}

/* A blocking call starts its operation by the i-form, whose name |sentence| begins with. */
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

/* The result of |op|, which has completed, or its exception.  May be called again. */
PyObject *nxp_op_outcome(nxp_op *op)
{
    op->claimed = true;
    if (op->err != NEXAR_OK) {
        return raise_outcome(op);
    }
    if ((op->result == NULL) && (op->gives == NXP_STATUS)) {
        op->result = make_status(&op->status);
    } else if ((op->result == NULL) && (op->gives == NXP_MESSAGE)) {
        op->result = nxp_message_wrap((nxp_comm *)op->comm, op->message, &op->status);
        op->message = NULL;
    } else if ((op->result == NULL) && (op->gives == NXP_BYTES)) {
        op->result = take_room(op);
    } else if ((op->result == NULL) && (op->gives == NXP_REPLY)) {
        op->result = PyBytes_FromStringAndSize(op->reply, (Py_ssize_t)op->reply_bytes);
    } else if (op->result == NULL) {
        Py_INCREF(Py_None);
        op->result = Py_None;
    }
    Py_XINCREF(op->result);
    return op->result;
}

/* ---- waiting ---------------------------------------------------------------------------- */

/* Waits one slice, at most until |left_ns|. */
static nexar_err wait_slice(nxp_op *op, uint64_t left_ns)
{
    const uint64_t slice = (left_ns < NXP_SLICE_NS) ? left_ns : NXP_SLICE_NS;
    nexar_err err;

    op->waiting = true;
    Py_BEGIN_ALLOW_THREADS err = nexar_wait_for(&op->req, slice, &op->status);
    Py_END_ALLOW_THREADS op->waiting = false;
    if (op->req == NULL) {
        nxp_op_completed(op, err, (err != NEXAR_OK) ? nexar_last_error() : "");
        return NEXAR_OK;
    }
    return err;
}

/* Waits until |op| has completed or |timeout_ns| has passed.  False: an exception is set. */
bool nxp_op_await(nxp_op *op, uint64_t timeout_ns)
{
    uint64_t left = timeout_ns;

    nxp_op_look(op);
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

/* Raises the exception that was pending when a receive completed in spite of it. */
static int raise_later(void *arg)
{
    PyObject *value = arg;

    PyErr_SetObject((PyObject *)Py_TYPE(value), value);
    Py_DECREF(value);
    return -1;
}

/* Raises the pending exception after the call that is about to return a message. */
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

/* The caller was interrupted, and an exception is set.  True: |op| has received a message
 * nevertheless. */
static bool interrupted(nxp_op *op)
{
    PyObject *type, *value, *trace;
    bool again = true;

    if (!op->done && op->cancelable) {
        PyErr_Fetch(&type, &value, &trace);
        (void)nexar_cancel(op->req);
        do { /* a message that has begun to arrive is received; a second signal abandons it */
            again = nxp_op_await(op, NXP_SLICE_NS) && op->receives;
            PyErr_Clear();
        } while (!op->done && again);
        PyErr_Restore(type, value, trace);
    }
    return op->done && (op->err == NEXAR_OK) && op->receives && postpone_exception();
}

/* |op|, on the caller's stack, has not completed: moves it to the heap, owned by its world. */
static void leave_behind(nxp_op *op)
{
    nxp_op *heap = PyMem_Calloc(1, sizeof(*heap));

    if (heap == NULL) { /* its memory is never freed: it is in use */
        return;
    }
    *heap = *op;
    heap->claimed = true;
    heap->left = true;
    nxp_op_enlist(heap);
}

PyObject *nxp_op_failed(nxp_op *op, nexar_err err)
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
        return nxp_op_failed(op, err);
    }
    if (nxp_op_await(op, UINT64_MAX) || interrupted(op)) {
        result = nxp_op_outcome(op);
    } else if (!op->done) {
        leave_behind(op);
        return NULL;
    }
    nxp_op_fini(op);
    return result;
}

/* No Request refers to |op|, which is on the heap. */
void nxp_op_abandon(nxp_op *op)
{
    if (op->done) {
        nxp_op_free(op);
        return;
    }
    if (op->receives && (op->req != NULL)) {
        (void)nexar_cancel(op->req);
    }
    op->claimed = true;
    op->cancelable = false;
    op->gives = NXP_NOTHING;
    if (op->link == NULL) {
        nxp_op_enlist(op);
    }
}

PyObject *nxp_op_block_heap(nxp_op *op, nexar_err err, uint64_t timeout_ns)
{
    PyObject *result = NULL;

    if (err != NEXAR_OK) {
        result = nxp_op_failed(op, err);
        PyMem_Free(op);
        return result;
    }
    if (nxp_op_await(op, timeout_ns) || interrupted(op)) {
        if (op->done) {
            result = nxp_op_outcome(op);
        } else {
            (void)nexar_cancel(op->req);
            (void)nxp_raise(NEXAR_ETIMEDOUT, "call: no reply within timeout", NULL);
        }
    }
    nxp_op_abandon(op);
    return result;
}
