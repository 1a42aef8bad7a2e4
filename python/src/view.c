/*
 * view.c - View: memory with the buffer protocol, as bytes.
 *
 * A View shows either the memory of another object, whatever its elements are, or a block
 * (block.c) that holds a received message.
 */
#include "binding.h"

#include <sys/uio.h>
#include <unistd.h>

PyTypeObject *nxp_view_type;

typedef struct view {
    PyObject_HEAD nxp_memory mem; /* of another object, ... */
    void *own;                    /* ... or a block */
    void *at;
    Py_ssize_t bytes;
    bool readonly;
} view;

PyObject *nxp_memory_wrap(void *at, size_t bytes)
{
    view *self = (view *)PyType_GenericAlloc(nxp_view_type, 0);

    if (self == NULL) {
        nxp_block_give(at);
        return NULL;
    }
    self->own = self->at = at;
    self->bytes = (Py_ssize_t)bytes;
    return (PyObject *)self;
}

PyObject *nxp_memory_new(size_t bytes, void **at)
{
    *at = nxp_block_take(bytes, NULL);
    return (*at != NULL) ? nxp_memory_wrap(*at, bytes) : PyErr_NoMemory();
}

/* view(call, name, obj, writable) -> View of the memory of |obj| */
PyObject *nxp_view(PyObject *module, PyObject *args)
{
    const char *call, *name;
    PyObject *obj;
    int writable, any_order = 0;
    view *self;

    (void)module;
    if (!PyArg_ParseTuple(args, "ssOp|p", &call, &name, &obj, &writable, &any_order)) {
        return NULL;
    }
    self = (view *)PyType_GenericAlloc(nxp_view_type, 0);
    if ((self == NULL) ||
        !nxp_memory_get(&self->mem, call, name, obj,
                        (writable ? NXP_WRITE : NXP_READ) | (any_order ? NXP_ANY_ORDER : 0))) {
        Py_XDECREF((PyObject *)self);
        return NULL;
    }
    self->at = self->mem.ptr;
    self->bytes = (Py_ssize_t)self->mem.bytes;
    self->readonly = !writable;
    return (PyObject *)self;
}

static void view_dealloc(PyObject *obj)
{
    view *self = (view *)obj;
    PyTypeObject *type = Py_TYPE(obj);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);

    nxp_memory_release(&self->mem);
    if (self->own != NULL) {
        nxp_block_give(self->own);
    }
    release(obj);
    Py_DECREF(type);
}

static int get_buffer(PyObject *obj, Py_buffer *out, int flags)
{
    view *self = (view *)obj;

    return PyBuffer_FillInfo(out, obj, self->at, self->bytes, self->readonly, flags);
}

static Py_ssize_t length(PyObject *obj)
{
    return ((view *)obj)->bytes;
}

static PyObject *get_dtype(PyObject *obj, void *unused)
{
    (void)unused;
    return PyLong_FromLong((long)((view *)obj)->mem.dtype);
}

static PyObject *get_itemsize(PyObject *obj, void *unused)
{
    const view *self = (view *)obj;

    (void)unused;
    return PyLong_FromSize_t((self->mem.items != 0) ? self->mem.bytes / self->mem.items : 1);
}

static PyObject *get_address(PyObject *obj, void *unused)
{
    (void)unused;
    return PyLong_FromVoidPtr(((view *)obj)->at);
}

static PyGetSetDef getset[] = {
    {"dtype", get_dtype, NULL, NULL, NULL},
    {"itemsize", get_itemsize, NULL, NULL, NULL},
    {"address", get_address, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyType_Slot slots[] = {
    {Py_tp_dealloc, (void *)view_dealloc},
    {Py_tp_getset, getset},
    {Py_bf_getbuffer, (void *)get_buffer},
    {Py_sq_length, (void *)length},
    {0, NULL},
};
PyType_Spec nxp_view_spec = {"nexar._nexar.View", sizeof(view), 0, Py_TPFLAGS_DEFAULT, slots};

/* The kernel copies a byte from there, or reports that the address is invalid. */
static bool can_read(uintptr_t address)
{
    char byte;
    struct iovec to = {&byte, 1};
    struct iovec from = {(void *)address, 1}; // NOLINT(performance-no-int-to-ptr): that is asked

    return process_vm_readv(getpid(), &to, 1, &from, 1, 0) == 1;
}

PyObject *nxp_readable(PyObject *module, PyObject *args)
{
    unsigned long long at;
    Py_ssize_t bytes;

    (void)module;
    if (!PyArg_ParseTuple(args, "Kn", &at, &bytes)) {
        return NULL;
    }
    return PyBool_FromLong(
        (bytes == 0) || (can_read((uintptr_t)at) && can_read((uintptr_t)at + (size_t)bytes - 1)));
}
