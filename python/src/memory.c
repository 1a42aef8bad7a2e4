/* memory.c - the memory of Python objects: by the buffer protocol, otherwise by the Python
 * layer. */
#include "binding.h"

#include <string.h>

/* ---- element types ------------------------------------------------------------------- */

static bool signed_of(size_t itemsize, nexar_dtype *out)
{
    switch (itemsize) {
    case 1:
        *out = NEXAR_I8;
        return true;
    case 2:
        *out = NEXAR_I16;
        return true;
    case 4:
        *out = NEXAR_I32;
        return true;
    case 8:
        *out = NEXAR_I64;
        return true;
    default:
        return false;
    }
}

static bool unsigned_of(size_t itemsize, nexar_dtype *out)
{
    switch (itemsize) {
    case 1:
        *out = NEXAR_U8;
        return true;
    case 2:
        *out = NEXAR_U16;
        return true;
    case 4:
        *out = NEXAR_U32;
        return true;
    case 8:
        *out = NEXAR_U64;
        return true;
    default:
        return false;
    }
}

/* The dtype of a letter of module struct; false: none, and the elements are opaque. */
static bool dtype_of_letter(char letter, size_t itemsize, nexar_dtype *out)
{
    switch (letter) {
    case 'b':
    case 'h':
    case 'i':
    case 'l':
    case 'q':
    case 'n':
        return signed_of(itemsize, out);
    case 'B':
    case 'H':
    case 'I':
    case 'L':
    case 'Q':
    case 'N':
    case 'c':
    case '?':
        return unsigned_of(itemsize, out);
    case 'e':
        *out = NEXAR_F16;
        return itemsize == 2;
    case 'f':
        *out = NEXAR_F32;
        return itemsize == 4;
    case 'd':
        *out = NEXAR_F64;
        return itemsize == 8;
    default:
        return false;
    }
}

/* The dtype of |format|; opaque elements if nexar has no such type. */
static bool set_dtype(nxp_memory *m, const char *format, size_t itemsize)
{
    const char *f = (format != NULL) ? format : "B";

    if ((f[0] != 0) && (f[1] == 0) && dtype_of_letter(f[0], itemsize, &m->dtype)) {
        m->is_bool = (f[0] == '?');
        return true;
    }
    if ((f[0] == '@') || (f[0] == '=') || (f[0] == '<')) { /* the machine is little-endian */
        f++;
    }
    m->is_bool = (strcmp(f, "?") == 0);
    if ((strlen(f) == 1) && dtype_of_letter(f[0], itemsize, &m->dtype)) {
        return true;
    }
    if ((itemsize == 0) || (itemsize > NEXAR_STRUCT_MAX)) {
        return false;
    }
    m->dtype = NEXAR_STRUCT(itemsize);
    return true;
}

/* ---- the buffer protocol ------------------------------------------------------------- */

static bool fill(nxp_memory *m, const char *call, const char *name, size_t itemsize)
{
    const char *format = m->view.format;

    if ((format != NULL) && ((format[0] == 'O') || ((format[0] != 0) && (format[1] != 0) &&
                                                    (strchr(format, 'O') != NULL)))) {
        (void)nxp_bad_type("%s: %s has Python objects as elements; numbers and other plain memory "
                           "are accepted (the _obj form of the call takes objects)",
                           call, name);
        return false;
    }
    if (!set_dtype(m, m->view.format, itemsize)) {
        (void)nxp_invalid("%s: %s has elements of %zu bytes; 1 to %d are accepted", call, name,
                          itemsize, NEXAR_STRUCT_MAX);
        return false;
    }
    m->ptr = m->view.buf;
    m->bytes = (size_t)m->view.len;
    m->items = m->bytes / itemsize;
    return true;
}

static bool check_view(nxp_memory *m, const char *call, const char *name, int access)
{
    if (!PyBuffer_IsContiguous(&m->view, ((access & NXP_ANY_ORDER) != 0) ? 'A' : 'C')) {
        (void)nxp_invalid("%s: %s is not contiguous; give a C-contiguous array "
                          "(numpy.ascontiguousarray makes a copy)",
                          call, name);
        return false;
    }
    if (((access & NXP_WRITE) != 0) && m->view.readonly) {
        (void)nxp_invalid("%s: %s is read-only; memory that can be written is accepted", call,
                          name);
        return false;
    }
    return fill(m, call, name, (m->view.itemsize > 0) ? (size_t)m->view.itemsize : 1);
}

/* ---- objects without the buffer protocol ------------------------------------------------ */

/* |spec| is (pointer, bytes, itemsize, format or dtype code, readonly, keep). */
static bool take_spec(nxp_memory *m, const char *call, const char *name, PyObject *spec, int access)
{
    Py_ssize_t bytes, itemsize;
    unsigned long long ptr;
    int code, readonly, is_bool;
    PyObject *keep;

    if (!PyArg_ParseTuple(spec, "KnniiiO", &ptr, &bytes, &itemsize, &code, &readonly, &is_bool,
                          &keep)) {
        return false;
    }
    if (((access & NXP_WRITE) != 0) && readonly) {
        (void)nxp_invalid("%s: %s is read-only; memory that can be written is accepted", call,
                          name);
        return false;
    }
    Py_INCREF(keep);
    m->keep = keep;
    m->ptr =
        (void *)(uintptr_t)ptr; // NOLINT(performance-no-int-to-ptr): an address is an int there
    m->bytes = (size_t)bytes;
    m->items = (itemsize > 0) ? (size_t)(bytes / itemsize) : 0;
    m->dtype = (code >= 0) ? (nexar_dtype)code : NEXAR_STRUCT((size_t)itemsize);
    m->is_bool = (is_bool != 0);
    return true;
}

/* The Python layer describes objects with __dlpack__ or __array_interface__, and arrays whose
 * elements have no letter in module struct. */
static bool take_other(nxp_memory *m, const char *call, const char *name, PyObject *obj, int access)
{
    PyObject *describe = nxp_hook("describe");
    PyObject *spec =
        (describe != NULL) ? PyObject_CallFunction(describe, "ssO", call, name, obj) : NULL;
    bool ok;

    if (spec == NULL) {
        return false;
    }
    ok = take_spec(m, call, name, spec, access);
    Py_DECREF(spec);
    return ok;
}

bool nxp_memory_get(nxp_memory *m, const char *call, const char *name, PyObject *obj, int access)
{
    bool ok;

    *m = (nxp_memory){0};
    if (PyObject_GetBuffer(obj, &m->view, PyBUF_FULL_RO) != 0) {
        PyErr_Clear();
        ok = take_other(m, call, name, obj, access);
    } else {
        m->has_view = true;
        ok = check_view(m, call, name, access);
    }
    if (!ok) {
        nxp_memory_release(m);
    }
    return ok;
}

void nxp_memory_release(nxp_memory *m)
{
    if (m->has_view) {
        PyBuffer_Release(&m->view);
        m->has_view = false;
    }
    Py_CLEAR(m->keep);
}

/* ---- DLPack -------------------------------------------------------------------------------- */

/* The tensor of DLPack.  Before version 1 it is the start of the capsule's struct. */
typedef struct dl_tensor {
    void *data;
    int32_t device_type, device_id;
    int32_t ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides;
    uint64_t offset;
} dl_tensor;

/* Since version 1. */
typedef struct dl_versioned {
    uint32_t major, minor;
    void *manager_ctx;
    void (*deleter)(struct dl_versioned *self);
    uint64_t flags;
    dl_tensor tensor;
} dl_versioned;

enum { DL_READ_ONLY = 1 };
enum { DL_INT, DL_UINT, DL_FLOAT, DL_BFLOAT = 4, DL_BOOL = 6 };

/* The format string of module struct. */
static char float_letter(size_t itemsize)
{
    switch (itemsize) {
    case 2:
        return 'e';
    case 4:
        return 'f';
    default:
        return 'd';
    }
}

static int dl_dtype(const dl_tensor *t, size_t itemsize)
{
    nexar_dtype dtype = NEXAR_BF16;
    bool known = (t->code == DL_BFLOAT) && (itemsize == 2);

    if ((t->code == DL_INT) && signed_of(itemsize, &dtype)) {
        known = true;
    } else if (((t->code == DL_UINT) || (t->code == DL_BOOL)) && unsigned_of(itemsize, &dtype)) {
        known = true;
    } else if ((t->code == DL_FLOAT) && (itemsize <= 8)) {
        known = dtype_of_letter(float_letter(itemsize), itemsize, &dtype);
    }
    return known ? (int)dtype : -1;
}

static bool dl_contiguous(const dl_tensor *t)
{
    int64_t step = 1;

    for (int32_t i = t->ndim - 1; (t->strides != NULL) && (i >= 0); i--) {
        if ((t->shape[i] != 1) && (t->strides[i] != step)) {
            return false;
        }
        step *= t->shape[i];
    }
    return true;
}

/* The tensor of |capsule|; NULL: no tensor of a known version. */
static const dl_tensor *tensor_of(PyObject *capsule, bool *readonly)
{
    const dl_versioned *v;

    if (PyCapsule_IsValid(capsule, "dltensor")) {
        return PyCapsule_GetPointer(capsule, "dltensor");
    }
    if (!PyCapsule_IsValid(capsule, "dltensor_versioned")) {
        return NULL;
    }
    v = PyCapsule_GetPointer(capsule, "dltensor_versioned");
    if ((v == NULL) || (v->major != 1)) {
        return NULL;
    }
    *readonly = (v->flags & DL_READ_ONLY) != 0;
    return &v->tensor;
}

PyObject *nxp_dlpack_view(PyObject *module, PyObject *capsule)
{
    bool readonly = false;
    const dl_tensor *t = tensor_of(capsule, &readonly);
    Py_ssize_t items = 1, itemsize;
    unsigned long long at;

    (void)module;
    if (t == NULL) {
        return nxp_invalid(
            "the object that __dlpack__() returned is no capsule of a tensor of DLPack "
            "0 or 1");
    }
    for (int32_t i = 0; i < t->ndim; i++) {
        items *= (Py_ssize_t)t->shape[i];
    }
    itemsize = (Py_ssize_t)t->bits * t->lanes / 8;
    at = (uintptr_t)t->data;
    if (!dl_contiguous(t)) {
        Py_RETURN_NONE;
    }
    return Py_BuildValue("KnniiiO", at + t->offset, items * itemsize, itemsize,
                         dl_dtype(t, (size_t)itemsize), (int)readonly, t->code == DL_BOOL, capsule);
}
