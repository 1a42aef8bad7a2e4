/* change.c - changes of communicators, and the callback for them. */
#include "binding.h"

PyObject *nxp_change_of(const nexar_change *c)
{
    return Py_BuildValue("(iiiiiii)", c->old_rank, c->old_size, c->new_rank, c->new_size, c->joined,
                         c->left, c->failed);
}

/* Runs on a thread of the runtime. */
static void on_change(nexar_comm *comm, const nexar_change *change, void *fn)
{
    PyGILState_STATE state;
    PyObject *numbers, *said = NULL;

    (void)comm;
    if (!nxp_enter_python(&state)) {
        return;
    }
    numbers = nxp_change_of(change);
    if (numbers != NULL) {
        said = PyObject_CallObject(fn, numbers);
    }
    if (said == NULL) {
        PyErr_WriteUnraisable(fn);
    }
    Py_XDECREF(numbers);
    Py_XDECREF(said);
    nxp_leave_python(state);
}

/* _on_change(fn or None): fn(the fields of nexar_change); the caller keeps a reference to |fn|. */
static PyObject *comm_on_change(PyObject *obj, PyObject *fn)
{
    nxp_comm *self = (nxp_comm *)obj;
    nexar_comm *comm = self->comm;
    nexar_err err;

    if (!nxp_comm_ready(self, "on_change")) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS err = nexar_on_change(comm, (fn == Py_None) ? NULL : on_change, fn);
    Py_END_ALLOW_THREADS if (err != NEXAR_OK)
    {
        return nxp_raise_last(err, comm);
    }
    Py_RETURN_NONE;
}

static PyObject *list_of(const int *ranks, size_t n)
{
    PyObject *list = PyList_New((Py_ssize_t)n);

    for (size_t i = 0; (list != NULL) && (i < n); i++) {
        (void)PyList_SetItem(list, (Py_ssize_t)i, PyLong_FromLong(ranks[i]));
    }
    return list;
}

/* The ranks of |kind|; NULL: an exception is set. */
static PyObject *changed_ranks(nexar_comm *comm, nexar_change_kind kind)
{
    size_t room = 0, n = 0;
    nexar_err err = nexar_last_change_ranks(comm, kind, NULL, &n);
    int *ranks = NULL;
    PyObject *list;

    while ((err == NEXAR_OK) && (n > room)) { /* another thread may change it meanwhile */
        PyMem_Free(ranks);
        room = n;
        ranks = PyMem_Calloc(room, sizeof(*ranks));
        if (ranks == NULL) {
            return PyErr_NoMemory();
        }
        err = nexar_last_change_ranks(comm, kind, ranks, &n);
    }
    list = (err == NEXAR_OK) ? list_of(ranks, n) : nxp_raise_last(err, comm);
    PyMem_Free(ranks);
    return list;
}

/* _last_change_ranks() -> (joined, left, failed) */
static PyObject *comm_last_change_ranks(PyObject *obj, PyObject *unused)
{
    static const nexar_change_kind kinds[] = {NEXAR_CHANGE_JOINED, NEXAR_CHANGE_LEFT,
                                              NEXAR_CHANGE_FAILED};
    nxp_comm *self = (nxp_comm *)obj;
    PyObject *all;

    (void)unused;
    if (!nxp_comm_ready(self, "last_change_ranks")) {
        return NULL;
    }
    all = PyTuple_New(3);
    for (Py_ssize_t i = 0; (all != NULL) && (i < 3); i++) {
        PyObject *ranks = changed_ranks(self->comm, kinds[i]);

        if (ranks == NULL) {
            Py_CLEAR(all);
        } else {
            (void)PyTuple_SetItem(all, i, ranks);
        }
    }
    return all;
}

PyMethodDef nxp_change_methods[] = {
    {"_on_change", comm_on_change, METH_O, NULL},
    {"_last_change_ranks", comm_last_change_ranks, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};
