/* object.c - messages that carry objects: scattered memory, and messages of unknown length. */
#include "binding.h"

#include "core/p2p/p2p_request.h"

/* The regions of |list|, held as buffers in op->blocks. */
static nexar_iov *regions_of(nxp_op *op, const char *call, PyObject *list, Py_ssize_t n)
{
    nexar_iov *iov = PyMem_Calloc((size_t)n + 1, sizeof(*iov));

    if (iov == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    op->blocks = iov;
    for (Py_ssize_t i = 0; i < n; i++) {
        nxp_memory m;

        if (!nxp_memory_get(&m, call, "buffers", PyList_GetItem(list, i),
                            op->receives ? NXP_WRITE : NXP_READ)) {
            return NULL;
        }
        iov[i] = (nexar_iov){m.ptr, m.bytes};
        nxp_memory_release(&m); /* PickleBuffers and bytes do not move */
    }
    return iov;
}

typedef nexar_err (*start_fn)(nexar_comm *comm, const nexar_iov *iov, size_t n, int peer,
                              uint64_t tag, nexar_request **req);

/* (buffers, dest, tag): buffers is a list of objects whose memory does not move. */
static bool set_up_regions(nxp_op *op, const char *call, PyObject *const *args, Py_ssize_t n,
                           PyObject *kwnames, nexar_err *err, start_fn start)
{
    static const char *const names[] = {"buffers", "dest", "tag", NULL};
    nxp_comm *self = (nxp_comm *)op->comm;
    PyObject *arg[3] = {NULL, NULL, NULL};
    const nexar_iov *iov;
    uint64_t tag = 0;
    int peer = 0;

    if (!nxp_parse(call, names, 3, args, n, kwnames, arg) ||
        !nxp_rank_arg(self, call, "dest", arg[1], op->receives ? NEXAR_ANY_SOURCE : 0, &peer) ||
        !nxp_tag(call, "tag", arg[2], &tag)) {
        return false;
    }
    op->keep = PySequence_List(arg[0]);
    iov = (op->keep != NULL) ? regions_of(op, call, op->keep, PyList_Size(op->keep)) : NULL;
    if (iov == NULL) {
        return false;
    }
    op->cancelable = true;
    *err = start(self->comm, iov, (size_t)PyList_Size(op->keep), peer, tag, &op->req);
    return true;
}

static bool set_up_sendv(nxp_op *op, const char *call, PyObject *const *args, Py_ssize_t n,
                         PyObject *kwnames, nexar_err *err)
{
    return set_up_regions(op, call, args, n, kwnames, err, nexar_isendv);
}

static bool set_up_issendv(nxp_op *op, const char *call, PyObject *const *args, Py_ssize_t n,
                           PyObject *kwnames, nexar_err *err)
{
    return set_up_regions(op, call, args, n, kwnames, err, nx_p2p_issendv);
}

static bool set_up_recvv(nxp_op *op, const char *call, PyObject *const *args, Py_ssize_t n,
                         PyObject *kwnames, nexar_err *err)
{
    op->receives = true;
    return set_up_regions(op, call, args, n, kwnames, err, nexar_irecvv);
}

static PyObject *comm_sendv(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    return nxp_message_call(self, "send_obj", set_up_sendv, NXP_NOTHING, nxp_op_block, args, n,
                            kwnames);
}

static PyObject *comm_isendv(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    return nxp_message_call(self, "isend_obj", set_up_sendv, NXP_NOTHING, nxp_op_request, args, n,
                            kwnames);
}

static PyObject *comm_issendv(PyObject *self, PyObject *const *args, Py_ssize_t n,
                              PyObject *kwnames)
{
    return nxp_message_call(self, "issend", set_up_issendv, NXP_NOTHING, nxp_op_request, args, n,
                            kwnames);
}

static PyObject *comm_irecvv(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    return nxp_message_call(self, "irecv", set_up_recvv, NXP_STATUS, nxp_op_request, args, n,
                            kwnames);
}

/* ---- matched probes --------------------------------------------------------------------- */

/* A Message, or the bytes of a message of any length. */
static PyObject *receive(PyObject *obj, nxp_gives gives, bool blocking, PyObject *const *args,
                         Py_ssize_t n, PyObject *kwnames)
{
    static const char *const names[] = {"source", "tag", NULL};
    nxp_comm *self = (nxp_comm *)obj;
    PyObject *arg[2] = {NULL, NULL};
    uint64_t tag = NEXAR_ANY_TAG;
    int source = NEXAR_ANY_SOURCE;
    const char *call = (gives == NXP_MESSAGE) ? "mprobe" : "recv_obj";
    nexar_err err;
    nxp_op *op;

    if (!nxp_comm_ready(self, call) || !nxp_parse(call, names, 0, args, n, kwnames, arg) ||
        !nxp_rank_arg(self, call, "source", arg[0], NEXAR_ANY_SOURCE, &source) ||
        !nxp_tag(call, "tag", arg[1], &tag)) {
        return NULL;
    }
    op = nxp_op_create(self, gives);
    if (op == NULL) {
        return NULL;
    }
    op->cancelable = true;
    op->receives = true;
    op->room.alloc = nxp_block_take;
    err = (gives == NXP_MESSAGE) ? nx_p2p_imatch(self->comm, source, tag, &op->message, &op->req)
                                 : nx_p2p_irecv_any(self->comm, source, tag, &op->room, &op->req);
    return blocking ? nxp_op_block_heap(op, err, UINT64_MAX) : nxp_op_request_heap(op, err);
}

/* _match(source, tag) -> Message */
static PyObject *comm_match(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    return receive(self, NXP_MESSAGE, true, args, n, kwnames);
}

/* _recv_any(source, tag) -> (View, source, tag) */
static PyObject *comm_recv_any(PyObject *self, PyObject *const *args, Py_ssize_t n,
                               PyObject *kwnames)
{
    return receive(self, NXP_BYTES, true, args, n, kwnames);
}

static PyObject *comm_irecv_any(PyObject *self, PyObject *const *args, Py_ssize_t n,
                                PyObject *kwnames)
{
    return receive(self, NXP_BYTES, false, args, n, kwnames);
}

/* _probe(source, tag) -> Status of the first message that a receive would take. */
static bool set_up_probe(nxp_op *op, const char *call, PyObject *const *args, Py_ssize_t n,
                         PyObject *kwnames, nexar_err *err)
{
    static const char *const names[] = {"source", "tag", NULL};
    nxp_comm *self = (nxp_comm *)op->comm;
    PyObject *arg[2] = {NULL, NULL};
    uint64_t tag = NEXAR_ANY_TAG;
    int source = NEXAR_ANY_SOURCE;

    if (!nxp_parse(call, names, 0, args, n, kwnames, arg) ||
        !nxp_rank_arg(self, call, "source", arg[0], NEXAR_ANY_SOURCE, &source) ||
        !nxp_tag(call, "tag", arg[1], &tag)) {
        return false;
    }
    op->cancelable = true;
    *err = nx_p2p_iprobe(self->comm, source, tag, &op->req);
    return true;
}

static PyObject *comm_probe(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    return nxp_message_call(self, "probe", set_up_probe, NXP_STATUS, nxp_op_block, args, n,
                            kwnames);
}

/* A message that has arrived: taken out of matching, or only its (source, tag, bytes).  None: no
 * message. */
static PyObject *look_for(PyObject *obj, bool takes, PyObject *const *args, Py_ssize_t n,
                          PyObject *kwnames)
{
    static const char *const names[] = {"source", "tag", NULL};
    nxp_comm *self = (nxp_comm *)obj;
    PyObject *arg[2] = {NULL, NULL};
    nexar_message *msg = NULL;
    nexar_status status = {0};
    uint64_t tag = NEXAR_ANY_TAG;
    int source = NEXAR_ANY_SOURCE;
    const char *call = takes ? "improbe" : "iprobe";
    bool found = false;
    nexar_err err;

    if (!nxp_comm_ready(self, call) || !nxp_parse(call, names, 0, args, n, kwnames, arg) ||
        !nxp_rank_arg(self, call, "source", arg[0], NEXAR_ANY_SOURCE, &source) ||
        !nxp_tag(call, "tag", arg[1], &tag)) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS err = takes
                                     ? nexar_improbe(self->comm, source, tag, &found, &msg, &status)
                                     : nexar_iprobe(self->comm, source, tag, &found, &status);
    Py_END_ALLOW_THREADS if (err != NEXAR_OK)
    {
        return nxp_raise_last(err, self->comm);
    }
    if (!found) {
        Py_RETURN_NONE;
    }
    return takes ? nxp_message_wrap(self, msg, &status)
                 : Py_BuildValue("iKK", status.source, (unsigned long long)status.tag,
                                 (unsigned long long)status.bytes);
}

/* _try_match(source, tag) -> Message, or None: no message. */
static PyObject *comm_try_match(PyObject *obj, PyObject *const *args, Py_ssize_t n,
                                PyObject *kwnames)
{
    return look_for(obj, true, args, n, kwnames);
}

/* _iprobe(source, tag) -> (source, tag, bytes), or None. */
static PyObject *comm_iprobe(PyObject *obj, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    return look_for(obj, false, args, n, kwnames);
}

PyMethodDef nxp_object_methods[] = {
    NXP_FAST("_sendv", comm_sendv),
    NXP_FAST("_isendv", comm_isendv),
    NXP_FAST("_issendv", comm_issendv),
    NXP_FAST("_irecvv", comm_irecvv),
    NXP_FAST("_match", comm_match),
    NXP_FAST("_recv_any", comm_recv_any),
    NXP_FAST("_irecv_any", comm_irecv_any),
    NXP_FAST("_try_match", comm_try_match),
    NXP_FAST("_iprobe", comm_iprobe),
    NXP_FAST("_probe", comm_probe),
    {NULL, NULL, 0, NULL},
};
