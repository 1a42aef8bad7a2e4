/* coll_memory.c - the counts, the memory and the result of a collective. */
#include "coll.h"

/* The counts of |obj|, one per rank, and their sum. */
static bool read_counts(const nxp_call *c, const char *name, PyObject *obj, size_t *counts,
                        size_t *total)
{
    PyObject *list = nxp_list(c->name, name, obj, "a sequence of ints");
    const Py_ssize_t n = (list != NULL) ? PyList_Size(list) : -1;

    if (list == NULL) {
        return false;
    }
    if (n != c->size) {
        Py_DECREF(list);
        (void)nxp_invalid("%s: %s has %zd numbers; one for each of the %d ranks is accepted",
                          c->name, name, (n < 0) ? 0 : n, c->size);
        return false;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *index = PyNumber_Index(PyList_GetItem(list, i));
        const Py_ssize_t value = (index != NULL) ? PyLong_AsSsize_t(index) : -1;

        Py_XDECREF(index);
        if ((value < 0) || (*total > (size_t)PY_SSIZE_T_MAX - (size_t)value)) {
            PyErr_Clear();
            (void)nxp_invalid("%s: %s[%zd] is no count; ints >= 0 are accepted", c->name, name, i);
            Py_DECREF(list);
            return false;
        }
        counts[i] = (size_t)value;
        *total += (size_t)value;
    }
    Py_DECREF(list);
    return true;
}

static bool prepare_counts(nxp_call *c, bool both)
{
    size_t *counts = PyMem_Calloc(2 * (size_t)c->size, sizeof(*counts));

    if (counts == NULL) {
        PyErr_NoMemory();
        return false;
    }
    c->o->blocks = counts;
    c->counts = counts;
    c->recvcounts = counts + c->size;
    if (c->arg[NXP_COUNTS] == NULL) {
        (void)nxp_invalid("%s: %s is None; one number for each of the %d ranks is accepted",
                          c->name, both ? "sendcounts" : "counts", c->size);
        return false;
    }
    if (both && (c->arg[NXP_RECVCOUNTS] == NULL)) {
        (void)nxp_invalid("%s: recvcounts is None; one number for each of the %d ranks is accepted",
                          c->name, c->size);
        return false;
    }
    return read_counts(c, both ? "sendcounts" : "counts", c->arg[NXP_COUNTS], counts, &c->total) &&
           (!both ||
            read_counts(c, "recvcounts", c->arg[NXP_RECVCOUNTS], c->recvcounts, &c->recvtotal));
}

/* ---- memory ---------------------------------------------------------------------------------- */

static bool get_buf(nxp_call *c, int access)
{
    if (c->arg[NXP_BUF] == NULL) {
        (void)nxp_bad_type("%s: buf is None; on this rank an array, or another object with a "
                           "buffer, is accepted",
                           c->name);
        return false;
    }
    if (!nxp_memory_get(c->in, c->name, "buf", c->arg[NXP_BUF], access)) {
        return false;
    }
    c->dtype = c->in->dtype;
    c->send = c->in->ptr;
    return true;
}

/* Whether these elements can be reduced; opaque elements and bool are special. */
static bool check_reducible(const nxp_call *c)
{
    const nexar_op op = c->op;

    if ((int)op > (int)NEXAR_BXOR) { /* opaque: the program knows its elements */
        return true;
    }
    if (c->in->is_bool && ((op == NEXAR_SUM) || (op == NEXAR_AVG))) {
        (void)nxp_invalid("%s: buf has elements of bool, and op is \"%s\"; \"min\", \"max\", "
                          "\"prod\", \"band\", \"bor\" and \"bxor\" are accepted",
                          c->name, nexar_op_name(op));
        return false;
    }
    if ((int)c->in->dtype > (int)NEXAR_U16) {
        (void)nxp_invalid("%s: buf has elements that nexar cannot reduce; float16, bfloat16, "
                          "float32, float64 and integers of 8 to 64 bits are accepted",
                          c->name);
        return false;
    }
    return true;
}

/* The caller's array for the result, with |items| elements like those of buf. */
static bool get_out(nxp_call *c, size_t items)
{
    if (!nxp_memory_get(c->out, c->name, "out", c->arg[NXP_OUT], NXP_WRITE)) {
        return false;
    }
    if ((c->arg[NXP_BUF] != NULL) && (c->out->dtype != c->dtype)) {
        (void)nxp_invalid("%s: out has elements of %s, and buf of %s; the same are accepted",
                          c->name, nexar_dtype_name(c->out->dtype), nexar_dtype_name(c->dtype));
        return false;
    }
    if (c->out->items != items) {
        (void)nxp_invalid("%s: out has %zu elements; %zu are accepted", c->name, c->out->items,
                          items);
        return false;
    }
    return true;
}

/* Makes |obj| the result. */
static void gives(nxp_call *c, PyObject *obj)
{
    Py_INCREF(obj);
    c->o->result = obj;
    c->o->gives = NXP_OBJECT;
}

/* The result is the caller's out, or a new array like buf: |how| is an argument of
 * nexar._arrays.new. */
static bool result_array(nxp_call *c, const char *how, size_t items)
{
    PyObject *make, *array;
    bool ok;

    if (c->arg[NXP_OUT] != NULL) {
        gives(c, c->arg[NXP_OUT]);
        ok = get_out(c, items);
    } else {
        make = nxp_hook("new_array");
        array = (make != NULL) ? PyObject_CallFunction(make, "Osni", c->arg[NXP_BUF], how,
                                                       (Py_ssize_t)items, c->size)
                               : NULL;
        if (array == NULL) {
            return false;
        }
        gives(c, array);
        Py_DECREF(array);
        ok = nxp_memory_get(c->out, c->name, "out", array, NXP_WRITE);
    }
    c->recv = c->out->ptr;
    return ok;
}

/* ---- one function for each layout ------------------------------------------------------- */

static bool prepare_broadcast(nxp_call *c)
{
    if (!get_buf(c, (c->rank == c->root) ? NXP_READ : NXP_WRITE)) {
        return false;
    }
    c->recv = c->in->ptr;
    c->count = c->in->items;
    gives(c, c->arg[NXP_BUF]);
    return true;
}

/* allreduce, reduce, scan, exscan: in place, or into out. */
static bool prepare_elements(nxp_call *c)
{
    const bool receives = (c->kind != NXP_REDUCE) || (c->rank == c->root);
    const bool in_place =
        receives && ((c->arg[NXP_OUT] == NULL) || (c->arg[NXP_OUT] == c->arg[NXP_BUF]));

    if (!get_buf(c, in_place ? NXP_WRITE : NXP_READ) || !check_reducible(c)) {
        return false;
    }
    c->count = c->in->items;
    if (in_place) {
        c->recv = c->in->ptr;
        c->send = NEXAR_IN_PLACE;
        gives(c, c->arg[NXP_BUF]);
        return true;
    }
    return !receives || result_array(c, "same", c->count);
}

static bool prepare_gather(nxp_call *c)
{
    const bool receives = (c->kind == NXP_ALLGATHER) || (c->rank == c->root);

    if (!get_buf(c, NXP_READ)) {
        return false;
    }
    c->count = c->in->items;
    return !receives || result_array(c, "stack", c->count * (size_t)c->size);
}

static bool divides(const nxp_call *c)
{
    if (c->in->items % (size_t)c->size != 0) {
        (void)nxp_invalid("%s: buf has %zu elements; a multiple of the %d ranks is accepted",
                          c->name, c->in->items, c->size);
        return false;
    }
    return true;
}

static bool prepare_scatter(nxp_call *c)
{
    if (c->rank == c->root) {
        if (!get_buf(c, NXP_READ) || !divides(c)) {
            return false;
        }
        c->count = c->in->items / (size_t)c->size;
        return result_array(c, "block", c->count);
    }
    if (c->arg[NXP_OUT] == NULL) {
        (void)nxp_bad_type("%s: out is None; on a rank other than the root an array for the block "
                           "is accepted",
                           c->name);
        return false;
    }
    c->arg[NXP_BUF] = NULL;
    if (!nxp_memory_get(c->out, c->name, "out", c->arg[NXP_OUT], NXP_WRITE)) {
        return false;
    }
    gives(c, c->arg[NXP_OUT]);
    c->recv = c->out->ptr;
    c->count = c->out->items;
    c->dtype = c->out->dtype;
    return true;
}

static bool prepare_reduce_scatter(nxp_call *c)
{
    if (!get_buf(c, NXP_READ) || !check_reducible(c) || !divides(c)) {
        return false;
    }
    c->count = c->in->items / (size_t)c->size;
    return result_array(c, "block", c->count);
}

static bool prepare_alltoall(nxp_call *c)
{
    if (!get_buf(c, NXP_READ) || !divides(c)) {
        return false;
    }
    c->count = c->in->items / (size_t)c->size;
    return result_array(c, "same", c->in->items);
}

/* Whether buf has |wanted| elements, which |what| describes. */
static bool fits(const nxp_call *c, const char *what, size_t wanted)
{
    if (c->in->items != wanted) {
        (void)nxp_invalid("%s: buf has %zu elements; %s: %zu", c->name, c->in->items, what, wanted);
        return false;
    }
    return true;
}

static bool prepare_gatherv(nxp_call *c)
{
    const bool receives = (c->kind == NXP_ALLGATHERV) || (c->rank == c->root);

    if (!get_buf(c, NXP_READ)) {
        return false;
    }
    c->count = c->in->items;
    if (!receives) {
        return true;
    }
    return prepare_counts(c, false) && fits(c, "counts has for this rank", c->counts[c->rank]) &&
           result_array(c, "flat", c->total);
}

static bool prepare_scatterv(nxp_call *c)
{
    if (c->rank != c->root) {
        return prepare_scatter(c);
    }
    if (!get_buf(c, NXP_READ) || !prepare_counts(c, false) ||
        !fits(c, "the sum of counts is", c->total)) {
        return false;
    }
    c->count = c->counts[c->rank];
    return result_array(c, "flat", c->count);
}

static bool prepare_reduce_scatterv(nxp_call *c)
{
    return get_buf(c, NXP_READ) && check_reducible(c) && prepare_counts(c, false) &&
           fits(c, "the sum of counts is", c->total) && result_array(c, "flat", c->counts[c->rank]);
}

static bool prepare_alltoallv(nxp_call *c)
{
    return get_buf(c, NXP_READ) && prepare_counts(c, true) &&
           fits(c, "the sum of sendcounts is", c->total) && result_array(c, "flat", c->recvtotal);
}

bool nxp_coll_prepare(nxp_call *c)
{
    switch (c->kind) {
    case NXP_BARRIER:
        return true;
    case NXP_BROADCAST:
        return prepare_broadcast(c);
    case NXP_ALLREDUCE:
    case NXP_REDUCE:
    case NXP_SCAN:
    case NXP_EXSCAN:
        return prepare_elements(c);
    case NXP_ALLGATHER:
    case NXP_GATHER:
        return prepare_gather(c);
    case NXP_SCATTER:
        return prepare_scatter(c);
    case NXP_REDUCE_SCATTER:
        return prepare_reduce_scatter(c);
    case NXP_ALLTOALL:
        return prepare_alltoall(c);
    case NXP_ALLGATHERV:
    case NXP_GATHERV:
        return prepare_gatherv(c);
    case NXP_SCATTERV:
        return prepare_scatterv(c);
    case NXP_REDUCE_SCATTERV:
        return prepare_reduce_scatterv(c);
    case NXP_ALLTOALLV:
        return prepare_alltoallv(c);
    default:
        return false;
    }
}
