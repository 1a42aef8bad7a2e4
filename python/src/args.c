/* args.c - parses the arguments of calls. */
#include "binding.h"

#include <math.h>
#include <string.h>

/* The index of |key| in |names|; -1: none. */
static int index_of(const char *const names[], PyObject *key)
{
    for (int i = 0; names[i] != NULL; i++) {
        if (PyUnicode_CompareWithASCIIString(key, names[i]) == 0) {
            return i;
        }
    }
    return -1;
}

static bool take_keywords(const char *call, const char *const names[], PyObject *const *values,
                          Py_ssize_t n, PyObject *kwnames, PyObject *out[])
{
    const Py_ssize_t keywords = (kwnames != NULL) ? PyTuple_Size(kwnames) : 0;

    for (Py_ssize_t k = 0; k < keywords; k++) {
        PyObject *key = PyTuple_GetItem(kwnames, k);
        const int at = index_of(names, key);

        if (at < 0) {
            PyErr_Format(PyExc_TypeError, "%s: unexpected keyword argument '%U'", call, key);
            return false;
        }
        if (at < n) {
            PyErr_Format(PyExc_TypeError, "%s: %s is given twice", call, names[at]);
            return false;
        }
        out[at] = values[k];
    }
    return true;
}

bool nxp_parse(const char *call, const char *const names[], int required, PyObject *const *args,
               Py_ssize_t n, PyObject *kwnames, PyObject *out[])
{
    int accepted = 0;

    while (names[accepted] != NULL) {
        accepted++;
    }
    if (n > accepted) {
        PyErr_Format(PyExc_TypeError, "%s: takes at most %d arguments, got %zd", call, accepted, n);
        return false;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        out[i] = args[i];
    }
    if (!take_keywords(call, names, args + n, n, kwnames, out)) {
        return false;
    }
    for (int i = 0; i < required; i++) {
        if (out[i] == NULL) {
            PyErr_Format(PyExc_TypeError, "%s: %s is missing", call, names[i]);
            return false;
        }
    }
    return true;
}

/* Converts |obj|, which may have __index__, to an int; NULL: an exception that names the
 * argument. */
static PyObject *as_index(const char *call, const char *name, PyObject *obj)
{
    PyObject *index = PyNumber_Index(obj);

    if ((index == NULL) && PyErr_ExceptionMatches(PyExc_TypeError)) {
        PyErr_Clear();
        (void)nxp_bad_type("%s: %s is %R; an int is accepted", call, name, obj);
    }
    return index;
}

bool nxp_int(const char *call, const char *name, PyObject *obj, long low, long high, int *out)
{
    PyObject *index;
    long value;

    if (obj == NULL) {
        return true;
    }
    index = as_index(call, name, obj);
    if (index == NULL) {
        return false;
    }
    value = PyLong_AsLong(index);
    Py_DECREF(index);
    if (PyErr_Occurred() != NULL) {
        PyErr_Clear();
        value = low - 1;
    }
    if ((value < low) || (value > high)) {
        (void)nxp_invalid("%s: %s is %R; %ld to %ld is accepted", call, name, obj, low, high);
        return false;
    }
    *out = (int)value;
    return true;
}

bool nxp_tag(const char *call, const char *name, PyObject *obj, uint64_t *out)
{
    PyObject *index;
    unsigned long long value;

    if (obj == NULL) {
        return true;
    }
    index = as_index(call, name, obj);
    if (index == NULL) {
        return false;
    }
    value = PyLong_AsUnsignedLongLong(index);
    Py_DECREF(index);
    if (PyErr_Occurred() != NULL) {
        PyErr_Clear();
        (void)nxp_invalid("%s: %s is %R; 0 to 2**64 - 2 is accepted", call, name, obj);
        return false;
    }
    *out = value;
    return true;
}

PyObject *nxp_list(const char *call, const char *name, PyObject *obj, const char *accepted)
{
    PyObject *list = PySequence_List(obj);

    if ((list == NULL) && PyErr_ExceptionMatches(PyExc_TypeError)) {
        PyErr_Clear();
        (void)nxp_bad_type("%s: %s is %R; %s is accepted", call, name, obj, accepted);
    }
    return list;
}

bool nxp_op_arg(const char *call, PyObject *obj, nexar_op *out)
{
    PyObject *own;

    if (obj == NULL) {
        return true;
    }
    own = PyUnicode_Check(obj) ? NULL : nxp_hook("Op");
    if ((own != NULL) && (PyObject_IsInstance(obj, own) == 1)) {
        *out = (nexar_op)PyLong_AsLong(obj);
        return true;
    }
    if (PyUnicode_Check(obj)) {
        for (int op = 0; op <= (int)NEXAR_BXOR; op++) {
            if (PyUnicode_CompareWithASCIIString(obj, nexar_op_name((nexar_op)op)) == 0) {
                *out = (nexar_op)op;
                return true;
            }
        }
    }
    (void)(PyUnicode_Check(obj) ? nxp_invalid : nxp_bad_type)(
        "%s: op is %R; accepted: \"sum\", \"prod\", \"min\", \"max\", \"avg\", \"band\", \"bor\", "
        "\"bxor\", and what nexar.op_create() returned",
        call, obj);
    return false;
}

bool nxp_timeout(const char *call, PyObject *obj, uint64_t *out_ns)
{
    double seconds;

    if ((obj == NULL) || (obj == Py_None)) {
        return true;
    }
    seconds = PyFloat_AsDouble(obj);
    if ((seconds == -1.0) && (PyErr_Occurred() != NULL)) {
        PyErr_Clear();
        (void)nxp_bad_type("%s: timeout is %R; seconds, or None, are accepted", call, obj);
        return false;
    }
    if (isnan(seconds) || (seconds < 0.0)) {
        (void)nxp_invalid("%s: timeout is %R; seconds >= 0, or None, are accepted", call, obj);
        return false;
    }
    *out_ns = (seconds < 1e10) ? (uint64_t)(seconds * 1e9) : UINT64_MAX;
    return true;
}
