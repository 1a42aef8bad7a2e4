/*
 * stable.h - Python's limited API of 3.9, and the few parts outside it that the binding uses.
 *
 * Py_buffer, PyObject_GetBuffer and METH_FASTCALL entered the limited API in 3.10 and 3.11.  Every
 * CPython since 3.7 exports them with the same layout, so a module that declares them loads on 3.9
 * too.  The wheel tests run it on 3.9.
 */
#ifndef NXP_STABLE_H
#define NXP_STABLE_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x03090000
#include <Python.h>

#ifdef Py_GIL_DISABLED
#error "nexar: free-threaded Python has no limited API; build with a Python that has the GIL"
#endif

/* The slots of a Python type are void pointers, also to functions. */
#pragma GCC diagnostic ignored "-Wpedantic"

#ifndef METH_FASTCALL
#define METH_FASTCALL 0x0080
#endif

#ifndef PyBUF_FORMAT /* hidden by a limited API below 3.11 */
typedef struct {
    void *buf;
    PyObject *obj;
    Py_ssize_t len;
    Py_ssize_t itemsize;
    int readonly;
    int ndim;
    char *format;
    Py_ssize_t *shape;
    Py_ssize_t *strides;
    Py_ssize_t *suboffsets;
    void *internal;
} Py_buffer;
PyAPI_FUNC(int) PyObject_GetBuffer(PyObject *obj, Py_buffer *view, int flags);
PyAPI_FUNC(int) PyBuffer_IsContiguous(const Py_buffer *view, char fort);
PyAPI_FUNC(void) PyBuffer_Release(Py_buffer *view);
PyAPI_FUNC(int) PyBuffer_FillInfo(Py_buffer *view, PyObject *obj, void *buf, Py_ssize_t len,
                                  int readonly, int flags);
#define Py_bf_getbuffer 1 /* PyType_FromSpec takes it since 3.9 */
#define PyBUF_READ      0x100
#define PyBUF_FULL_RO   0x011c /* PyBUF_INDIRECT | PyBUF_FORMAT */
#endif

#endif
