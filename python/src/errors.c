/* errors.c - converts errors of nexar to exceptions. */
#include "binding.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"

static PyObject *hooks; /* dict: the objects that the Python layer has registered */
PyObject *nxp_status_class, *nxp_request_class;

PyObject *nxp_register(PyObject *module, PyObject *dict)
{
    (void)module;
    Py_INCREF(dict);
    Py_XDECREF(hooks);
    hooks = dict;
    nxp_status_class = PyDict_GetItemString(dict, "Status"); /* |dict| holds the reference */
    nxp_request_class = PyDict_GetItemString(dict, "Request");
    Py_RETURN_NONE;
}

PyObject *nxp_hook(const char *name)
{
    PyObject *found = (hooks != NULL) ? PyDict_GetItemString(hooks, name) : NULL;

    if (found == NULL) {
        PyErr_Format(PyExc_RuntimeError, "_nexar: %s is not registered; import nexar first", name);
    }
    return found;
}

enum { TRIES = 100, TRY_NS = 1000000 };

/* An operation may end with NEXAR_EPEER, because a link has broken, some milliseconds before the
 * failure detector declares the rank failed.  A rank that has finalized is never declared: the
 * wait ends.
 */
static size_t await_failed(nexar_comm *comm, int *ranks, size_t n)
{
    const struct timespec pause = {.tv_nsec = TRY_NS};
    size_t known = 0;

    Py_BEGIN_ALLOW_THREADS for (int i = 0; (known == 0) && (i < TRIES); i++)
    {
        if (i != 0) {
            (void)nanosleep(&pause, NULL);
        }
        known = n;
        if (nexar_comm_failed(comm, ranks, &known) != NEXAR_OK) {
            known = 0;
            break;
        }
    }
    Py_END_ALLOW_THREADS return (known < n) ? known : n;
}

/* The failed ranks of |comm|, as a list. */
static PyObject *failed_ranks(nexar_comm *comm)
{
    const size_t n = (comm != NULL) ? (size_t)nexar_size(comm) : 0;
    int *ranks = PyMem_Calloc(n + 1, sizeof(*ranks));
    const size_t known = ((ranks != NULL) && (n != 0)) ? await_failed(comm, ranks, n) : 0;
    PyObject *list = PyList_New(0);

    for (size_t i = 0; (list != NULL) && (i < known); i++) {
        PyObject *rank = PyLong_FromLong(ranks[i]);

        if ((rank == NULL) || (PyList_Append(list, rank) != 0)) {
            Py_CLEAR(list);
        }
        Py_XDECREF(rank);
    }
    PyMem_Free(ranks);
    return list;
}

static void raise_as(PyObject *cls, const char *sentence)
{
    PyObject *text = PyUnicode_DecodeUTF8(sentence, (Py_ssize_t)strlen(sentence), "replace");

    if (text != NULL) {
        PyErr_SetObject(cls, text);
        Py_DECREF(text);
    }
}

PyObject *nxp_raise(nexar_err err, const char *sentence, nexar_comm *comm)
{
    PyObject *classes = nxp_hook("errors");
    PyObject *code = PyLong_FromLong((long)err);
    PyObject *cls = NULL, *failed = NULL, *type, *value, *trace;

    if ((classes == NULL) || (code == NULL)) {
        Py_XDECREF(code);
        return NULL;
    }
    cls = PyDict_GetItemWithError(classes, code);
    Py_DECREF(code);
    if (cls == NULL) {
        return PyErr_Format(PyExc_RuntimeError, "_nexar: %d: %s", (int)err, sentence);
    }
    if (err == NEXAR_EPEER) {
        failed = failed_ranks(comm);
        if (failed == NULL) {
            return NULL;
        }
    }
    raise_as(cls, ((sentence != NULL) && (sentence[0] != '\0')) ? sentence : nexar_strerror(err));
    if (failed != NULL) {
        PyErr_Fetch(&type, &value, &trace);
        PyErr_NormalizeException(&type, &value, &trace);
        if ((value != NULL) && (PyObject_SetAttrString(value, "failed", failed) != 0)) {
            PyErr_Clear();
        }
        PyErr_Restore(type, value, trace);
        Py_DECREF(failed);
    }
    return NULL;
}

PyObject *nxp_raise_last(nexar_err err, nexar_comm *comm)
{
    char sentence[NXP_SENTENCE];

    (void)PyOS_snprintf(sentence, sizeof(sentence), "%s", nexar_last_error());
    return nxp_raise(err, sentence, comm);
}

static PyObject *raise_hook(const char *name, const char *format, va_list args)
{
    PyObject *cls = nxp_hook(name);
    PyObject *text = PyUnicode_FromFormatV(format, args);

    if ((cls != NULL) && (text != NULL)) {
        PyErr_SetObject(cls, text);
    }
    Py_XDECREF(text);
    return NULL;
}

PyObject *nxp_invalid(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)raise_hook("InvalidError", format, args);
    va_end(args);
    return NULL;
}

PyObject *nxp_bad_type(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)raise_hook("InvalidTypeError", format, args);
    va_end(args);
    return NULL;
}

/* ---- exceptions of callbacks ------------------------------------------------------ */

nexar_err nxp_callback_failed(const char *what)
{
    PyObject *type, *value, *trace, *text, *bytes = NULL, *name = NULL;
    nexar_err err;

    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    name = PyObject_GetAttrString(type, "__name__");
    text = (name != NULL) ? PyUnicode_FromFormat("%U: %S", name, value) : NULL;
    bytes = (text != NULL) ? PyUnicode_AsEncodedString(text, "utf-8", "replace") : NULL;
    err = nx_fail(NEXAR_EREMOTE, "%s: %s", what,
                  (bytes != NULL) ? PyBytes_AsString(bytes) : "an exception without text");
    PyErr_Clear();
    Py_XDECREF(bytes);
    Py_XDECREF(text);
    Py_XDECREF(name);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
    return err;
}
