/*
 * coll_raw.c - collectives on plain bytes, for nexar.mpi, which knows the elements and the layout.
 *
 * _coll(kind, blocking, send, recv, count, dtype, op, root, counts, displs, recvcounts,
 * recvdispls): |kind| is an nxp_kind; a buffer is None where the rank has none, and True for
 * NEXAR_IN_PLACE; counts are None or lists, the second pair those of what alltoallv receives.  The
 * sizes of the buffers are checked here.
 */
#include "coll.h"

/* Number of elements of |counts| at |displs|: the largest end. */
static size_t extent(const nxp_call *c, const size_t *counts, const size_t *displs)
{
    size_t end = 0;

    for (int i = 0; i < c->size; i++) {
        const size_t last = counts[i] + ((displs != NULL) ? displs[i] : end);

        end = ((displs == NULL) || (last > end)) ? last : end;
    }
    return end;
}

/* The elements that the call reads and writes. */
static void room(const nxp_call *c, size_t *out, size_t *in)
{
    const size_t n = c->count, all = c->count * (size_t)c->size;
    const bool at_root = (c->rank == c->root);

    *out = *in = n;
    switch ((int)c->kind) {
    case NXP_BARRIER:
        *out = *in = 0;
        break;
    case NXP_BROADCAST:
        *out = 0;
        break;
    case NXP_REDUCE:
        *in = at_root ? n : 0;
        break;
    case NXP_ALLGATHER:
        *in = all;
        break;
    case NXP_GATHER:
        *in = at_root ? all : 0;
        break;
    case NXP_SCATTER:
        *out = at_root ? all : 0;
        break;
    case NXP_REDUCE_SCATTER:
        *out = all;
        break;
    case NXP_ALLTOALL:
        *out = *in = all;
        break;
    case NXP_ALLGATHERV:
        *in = extent(c, c->counts, c->displs);
        break;
    case NXP_GATHERV:
        *in = at_root ? extent(c, c->counts, c->displs) : 0;
        break;
    case NXP_SCATTERV:
        *out = at_root ? extent(c, c->counts, c->displs) : 0;
        break;
    case NXP_REDUCE_SCATTERV:
        *out = extent(c, c->counts, NULL);
        *in = c->counts[c->rank];
        break;
    case NXP_ALLTOALLV:
        *out = extent(c, c->counts, c->displs);
        *in = extent(c, c->recvcounts, c->recvdispls);
        break;
    default:
        break;
    }
}

static bool take_buffer(const nxp_call *c, nxp_memory *m, const char *name, PyObject *obj,
                        int access, size_t items)
{
    const size_t each = nexar_dtype_size(c->dtype);

    if ((obj == Py_None) || (obj == Py_True)) {
        return true;
    }
    if (!nxp_memory_get(m, c->name, name, obj, access)) {
        return false;
    }
    if (m->bytes / each < items) {
        (void)nxp_invalid("%s: %s has %zu bytes; %zu are needed", c->name, name, m->bytes,
                          items * each);
        return false;
    }
    return true;
}

static bool take_buffers(nxp_call *c, PyObject *send, PyObject *recv)
{
    size_t out, in;

    room(c, &out, &in);
    if (send == Py_True) { /* the input is in the buffer of the result */
        in = (out > in) ? out : in;
    }
    if (!take_buffer(c, c->in, "sendbuf", send, NXP_READ, out) ||
        !take_buffer(c, c->out, "recvbuf", recv, NXP_WRITE, in)) {
        return false;
    }
    if (((send == Py_None) && (out != 0)) || ((recv == Py_None) && (in != 0)) ||
        (recv == Py_True)) {
        (void)nxp_bad_type("%s: %s is missing on this rank", c->name,
                           ((send == Py_None) && (out != 0)) ? "sendbuf" : "recvbuf");
        return false;
    }
    c->send = (send == Py_True) ? NEXAR_IN_PLACE : c->in->ptr;
    c->recv = c->out->ptr;
    return true;
}

/* Converts |obj|, None or a list of sizes, into |*out|; |at| is its memory. */
static bool take_sizes(const nxp_call *c, PyObject *obj, size_t *at, const size_t **out)
{
    if (obj == Py_None) {
        return true;
    }
    if (!PyList_Check(obj) || (PyList_Size(obj) != c->size)) {
        (void)nxp_invalid("%s: counts and displacements are lists of %d numbers", c->name, c->size);
        return false;
    }
    for (Py_ssize_t i = 0; i < c->size; i++) {
        at[i] = PyLong_AsSize_t(PyList_GetItem(obj, i));
        if (PyErr_Occurred() != NULL) {
            PyErr_Clear();
            (void)nxp_invalid("%s: counts and displacements: ints >= 0 are accepted", c->name);
            return false;
        }
    }
    *out = at;
    return true;
}

enum { LISTS = 4 };

static bool take_lists(nxp_call *c, PyObject *const lists[LISTS])
{
    const size_t n = (size_t)c->size;
    size_t *all = PyMem_Calloc(LISTS * n, sizeof(*all));
    const size_t *counts = NULL, *recvcounts = NULL;
    bool ok;

    if (all == NULL) {
        PyErr_NoMemory();
        return false;
    }
    c->o->blocks = all;
    ok = take_sizes(c, lists[0], all, &counts) && take_sizes(c, lists[1], all + n, &c->displs) &&
         take_sizes(c, lists[2], all + 2 * n, &recvcounts) &&
         take_sizes(c, lists[3], all + 3 * n, &c->recvdispls);
    c->counts = all; /* zeros if not given */
    c->recvcounts = all + 2 * n;
    return ok;
}

PyObject *nxp_coll_raw(PyObject *obj, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    nxp_comm *self = (nxp_comm *)obj;
    nxp_op op;
    nxp_call c = {.o = &op, .in = &op.mem[0], .out = &op.mem[1]};
    int kind = 0, dtype = 0, how = 0;
    bool blocking;
    nexar_err err;

    if ((n != 12) || (kwnames != NULL)) {
        PyErr_SetString(PyExc_TypeError, "_coll: 12 arguments");
        return NULL;
    }
    if (!nxp_int("_coll", "kind", args[0], NXP_BARRIER, NXP_ALLTOALLV, &kind)) {
        return NULL;
    }
    c.kind = (nxp_kind)kind;
    c.name = nxp_coll_name(c.kind);
    blocking = (args[1] == Py_True);
    if (!nxp_comm_ready(self, c.name)) {
        return NULL;
    }
    c.comm = self->comm;
    c.rank = nexar_rank(c.comm);
    c.size = nexar_size(c.comm);
    c.count = PyLong_AsSize_t(args[4]);
    if ((PyErr_Occurred() != NULL) || !nxp_int(c.name, "dtype", args[5], 0, INT32_MAX, &dtype) ||
        !nxp_int(c.name, "op", args[6], 0, INT32_MAX, &how) ||
        !nxp_int(c.name, "root", args[7], 0, (long)c.size - 1, &c.root)) {
        return NULL;
    }
    c.dtype = (nexar_dtype)dtype;
    c.op = (nexar_op)how;
    nxp_op_init(&op, self, NXP_NOTHING);
    op.blocking = blocking ? c.name : NULL;
    if (!take_lists(&c, args + 8) || !take_buffers(&c, args[2], args[3])) {
        nxp_op_fini(&op);
        return NULL;
    }
    err = nxp_coll_start(&c, &op.req);
    return blocking ? nxp_op_block(&op, err) : nxp_op_request(&op, err);
}
