/* comm.c - Comm: its life as an object, and its messages. */
#include "binding.h"

#include <string.h>

PyTypeObject *nxp_comm_type;

bool nxp_comm_ready(const nxp_comm *self, const char *call)
{
    if ((self->world == NULL) || (self->world->forks != nxp_forks)) {
        (void)nxp_invalid("%s: this process was forked from the rank; only the rank itself may use "
                          "its communicators (start processes by spawn, not fork)",
                          call);
        return false;
    }
    if ((self->comm == NULL) || (self->world->root == NULL)) {
        (void)nxp_invalid("%s: the communicator is closed", call);
        return false;
    }
    return true;
}

PyObject *nxp_comm_wrap(nexar_comm *comm, nxp_world *world)
{
    PyObject *cls = nxp_hook("Comm");
    nxp_comm *self = (cls != NULL) ? (nxp_comm *)PyType_GenericAlloc((PyTypeObject *)cls, 0) : NULL;

    if (self == NULL) {
        if (comm != world->root) {
            nexar_comm_free(comm);
        }
        return NULL;
    }
    self->comm = comm;
    self->world = world;
    world->refs++;
    return (PyObject *)self;
}

/* Releases a communicator that Python has dropped.  A world that was not closed by close() stays
 * until the process exits. */
static void comm_dealloc(PyObject *obj)
{
    nxp_comm *self = (nxp_comm *)obj;
    PyTypeObject *type = Py_TYPE(obj);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    nexar_comm *comm = self->comm;

    if (self->world != NULL) {
        const bool mine = (self->world->forks == nxp_forks) && (comm != NULL) &&
                          (self->world->root != NULL) && (comm != self->world->root);

        if (mine) {
            Py_BEGIN_ALLOW_THREADS nexar_comm_free(comm);
            Py_END_ALLOW_THREADS
        }
        nxp_world_release(self->world);
    }
    release(obj);
    Py_DECREF(type);
}

static PyObject *comm_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    (void)type;
    (void)args;
    (void)kwargs;
    return nxp_invalid("Comm: made by nexar.init(), split() or dup(), not by itself");
}

/* ---- messages ---------------------------------------------------------------------------- */

bool nxp_rank_arg(const nxp_comm *self, const char *call, const char *name, PyObject *obj, long low,
                  int *out)
{
    return nxp_int(call, name, obj, low, (long)nexar_size(self->comm) - 1, out);
}

static bool set_up_send(nxp_op *op, const char *call, PyObject *const *args, Py_ssize_t n,
                        PyObject *kwnames, nexar_err *err)
{
    static const char *const names[] = {"buf", "dest", "tag", NULL};
    nxp_comm *self = (nxp_comm *)op->comm;
    PyObject *arg[3] = {NULL, NULL, NULL};
    uint64_t tag = 0;
    int dest = 0;

    if (!nxp_parse(call, names, 2, args, n, kwnames, arg) ||
        !nxp_rank_arg(self, call, "dest", arg[1], 0, &dest) ||
        !nxp_tag(call, "tag", arg[2], &tag) ||
        !nxp_memory_get(&op->mem[0], call, "buf", arg[0], NXP_READ)) {
        return false;
    }
    op->cancelable = true;
    *err = nexar_isend(self->comm, op->mem[0].ptr, op->mem[0].bytes, dest, tag, &op->req);
    return true;
}

static bool set_up_recv(nxp_op *op, const char *call, PyObject *const *args, Py_ssize_t n,
                        PyObject *kwnames, nexar_err *err)
{
    static const char *const names[] = {"buf", "source", "tag", NULL};
    nxp_comm *self = (nxp_comm *)op->comm;
    PyObject *arg[3] = {NULL, NULL, NULL};
    uint64_t tag = NEXAR_ANY_TAG;
    int source = NEXAR_ANY_SOURCE;

    if (!nxp_parse(call, names, 1, args, n, kwnames, arg) ||
        !nxp_rank_arg(self, call, "source", arg[1], NEXAR_ANY_SOURCE, &source) ||
        !nxp_tag(call, "tag", arg[2], &tag) ||
        !nxp_memory_get(&op->mem[0], call, "buf", arg[0], NXP_WRITE)) {
        return false;
    }
    op->cancelable = true;
    op->receives = true;
    *err = nexar_irecv(self->comm, op->mem[0].ptr, op->mem[0].bytes, source, tag, &op->req);
    return true;
}

PyObject *nxp_message_call(PyObject *obj, const char *call, nxp_set_up set_up, nxp_gives gives,
                           PyObject *(*end)(nxp_op *, nexar_err), PyObject *const *args,
                           Py_ssize_t n, PyObject *kwnames)
{
    nexar_err err = NEXAR_OK;
    nxp_op op;

    if (!nxp_comm_ready((nxp_comm *)obj, call)) {
        return NULL;
    }
    nxp_op_init(&op, (nxp_comm *)obj, gives);
    op.blocking = (end == nxp_op_block) ? call : NULL;
    if (!set_up(&op, call, args, n, kwnames, &err)) {
        nxp_op_fini(&op);
        return NULL;
    }
    return end(&op, err);
}

static PyObject *comm_send(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    return nxp_message_call(self, "send", set_up_send, NXP_NOTHING, nxp_op_block, args, n, kwnames);
}

static PyObject *comm_isend(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    return nxp_message_call(self, "isend", set_up_send, NXP_NOTHING, nxp_op_request, args, n,
                            kwnames);
}

static PyObject *comm_recv(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    return nxp_message_call(self, "recv", set_up_recv, NXP_STATUS, nxp_op_block, args, n, kwnames);
}

static PyObject *comm_irecv(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    return nxp_message_call(self, "irecv", set_up_recv, NXP_STATUS, nxp_op_request, args, n,
                            kwnames);
}

PyMethodDef nxp_p2p_methods[] = {
    NXP_FAST("send", comm_send),   NXP_FAST("isend", comm_isend), NXP_FAST("recv", comm_recv),
    NXP_FAST("irecv", comm_irecv), {NULL, NULL, 0, NULL},
};

/* ---- the type --------------------------------------------------------------------------- */

static PyObject *get_rank(PyObject *obj, void *unused)
{
    (void)unused;
    return nxp_comm_ready((nxp_comm *)obj, "rank")
               ? PyLong_FromLong(nexar_rank(((nxp_comm *)obj)->comm))
               : NULL;
}

static PyObject *get_size(PyObject *obj, void *unused)
{
    (void)unused;
    return nxp_comm_ready((nxp_comm *)obj, "size")
               ? PyLong_FromLong(nexar_size(((nxp_comm *)obj)->comm))
               : NULL;
}

static PyObject *get_closed(PyObject *obj, void *unused)
{
    const nxp_comm *self = (nxp_comm *)obj;

    (void)unused;
    return PyBool_FromLong((self->comm == NULL) || (self->world->root == NULL));
}

static PyObject *get_name(PyObject *obj, void *unused)
{
    (void)unused;
    return nxp_comm_ready((nxp_comm *)obj, "name")
               ? PyUnicode_FromString(nexar_comm_name(((nxp_comm *)obj)->comm))
               : NULL;
}

static int set_name(PyObject *obj, PyObject *value, void *unused)
{
    nxp_comm *self = (nxp_comm *)obj;
    const bool ready = nxp_comm_ready(self, "name");
    PyObject *text =
        (ready && (value != NULL) && PyUnicode_Check(value)) ? PyUnicode_AsUTF8String(value) : NULL;
    nexar_err err = NEXAR_EINVAL;

    (void)unused;
    if (text == NULL) {
        if (PyErr_Occurred() == NULL) {
            (void)nxp_bad_type("name: a str of at most 63 bytes is accepted");
        }
        return -1;
    }
    err = nexar_comm_set_name(self->comm, PyBytes_AsString(text));
    Py_DECREF(text);
    if (err != NEXAR_OK) {
        (void)nxp_raise_last(err, self->comm);
    }
    return (err == NEXAR_OK) ? 0 : -1;
}

static PyObject *get_join_string(PyObject *obj, void *unused)
{
    const nxp_comm *self = (nxp_comm *)obj;
    char text[NXP_JOIN_STRING];
    nexar_err err;

    (void)unused;
    if (!nxp_comm_ready(self, "join_string")) {
        return NULL;
    }
    err = nexar_join_string(self->comm, text, sizeof(text));
    return (err == NEXAR_OK) ? PyUnicode_FromString(text) : nxp_raise_last(err, self->comm);
}

static PyGetSetDef getset[] = {
    {"rank", get_rank, NULL, NULL, NULL},
    {"size", get_size, NULL, NULL, NULL},
    {"closed", get_closed, NULL, NULL, NULL},
    {"name", get_name, set_name, NULL, NULL},
    {"join_string", get_join_string, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef methods[128]; /* filled by nxp_comm_methods() */

static void add_methods(size_t *at, const PyMethodDef *table)
{
    for (; table->ml_name != NULL; table++) {
        if (*at + 1 < sizeof(methods) / sizeof(methods[0])) {
            methods[(*at)++] = *table;
        }
    }
}

void nxp_comm_methods(void)
{
    size_t at = 0;

    add_methods(&at, nxp_p2p_methods);
    add_methods(&at, nxp_object_methods);
    add_methods(&at, nxp_coll_methods);
    add_methods(&at, nxp_life_methods);
    add_methods(&at, nxp_rpc_methods);
    add_methods(&at, nxp_process_methods);
    add_methods(&at, nxp_group_methods);
    add_methods(&at, nxp_change_methods);
    add_methods(&at, nxp_state_methods);
}

static PyType_Slot slots[] = {
    {Py_tp_dealloc, (void *)comm_dealloc},
    {Py_tp_methods, methods},
    {Py_tp_getset, getset},
    {Py_tp_new, (void *)comm_new},
    {0, NULL},
};
PyType_Spec nxp_comm_spec = {"nexar._nexar.Comm", sizeof(nxp_comm), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};
