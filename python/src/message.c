/* message.c - Message: a message that a matched probe has taken; it is received once. */
#include "binding.h"

PyTypeObject *nxp_message_type;

typedef struct message {
    PyObject_HEAD nexar_message *msg; /* NULL: received */
    nxp_comm *comm;
    nxp_world *world;
    nexar_status status;
} message;

PyObject *nxp_message_wrap(nxp_comm *comm, nexar_message *msg, const nexar_status *status)
{
    message *self = (message *)PyType_GenericAlloc(nxp_message_type, 0);

    if (self == NULL) {
        nxp_message_drop(msg);
        return NULL;
    }
    self->msg = msg;
    self->comm = comm;
    Py_INCREF((PyObject *)comm);
    self->world = comm->world;
    self->world->refs++;
    self->status = *status;
    return (PyObject *)self;
}

void nxp_message_drop(nexar_message *msg)
{
    Py_BEGIN_ALLOW_THREADS(void) nexar_mrecv(&msg, NULL, 0, NULL);
    Py_END_ALLOW_THREADS
}

static void message_dealloc(PyObject *obj)
{
    message *self = (message *)obj;
    PyTypeObject *type = Py_TYPE(obj);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);

    if (self->world != NULL) {
        if ((self->msg != NULL) && (self->world->root != NULL) &&
            (self->world->forks == nxp_forks)) {
            nxp_message_drop(self->msg);
        }
        nxp_world_release(self->world);
    }
    Py_XDECREF((PyObject *)self->comm);
    release(obj);
    Py_DECREF(type);
}

/* Receives into |at|.  False: an exception is set. */
static bool receive(message *self, void *at, size_t bytes)
{
    nexar_err err;

    if (!nxp_comm_ready(self->comm, "mrecv")) {
        return false;
    }
    if (self->msg == NULL) {
        (void)nxp_invalid("mrecv: the message was received before");
        return false;
    }
    Py_BEGIN_ALLOW_THREADS err = nexar_mrecv(&self->msg, at, bytes, &self->status);
    Py_END_ALLOW_THREADS if (err != NEXAR_OK)
    {
        (void)nxp_raise_last(err, self->comm->comm);
    }
    return err == NEXAR_OK;
}

/* take() -> Memory, or a bytearray: a new object that holds the message. */
static PyObject *message_take(PyObject *obj, PyObject *unused)
{
    message *self = (message *)obj;
    void *at = NULL;
    PyObject *memory = nxp_memory_new(self->status.bytes, &at);

    (void)unused;
    if ((memory != NULL) && !receive(self, at, self->status.bytes)) {
        Py_CLEAR(memory);
    }
    return memory;
}

/* recv(buf) -> bytes received */
static PyObject *message_recv(PyObject *obj, PyObject *buf)
{
    message *self = (message *)obj;
    nxp_memory m;
    bool ok;

    if (!nxp_memory_get(&m, "mrecv", "buf", buf, NXP_WRITE)) {
        return NULL;
    }
    ok = receive(self, m.ptr, m.bytes);
    nxp_memory_release(&m);
    return ok ? PyLong_FromUnsignedLongLong(self->status.bytes) : NULL;
}

static PyObject *get_source(PyObject *obj, void *unused)
{
    (void)unused;
    return PyLong_FromLong(((message *)obj)->status.source);
}

static PyObject *get_tag(PyObject *obj, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLongLong(((message *)obj)->status.tag);
}

static PyObject *get_bytes(PyObject *obj, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLongLong(((message *)obj)->status.bytes);
}

static PyGetSetDef getset[] = {
    {"source", get_source, NULL, NULL, NULL},
    {"tag", get_tag, NULL, NULL, NULL},
    {"bytes", get_bytes, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyMethodDef methods[] = {
    {"take", message_take, METH_NOARGS, NULL},
    {"recv", message_recv, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static PyObject *message_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    (void)type;
    (void)args;
    (void)kwargs;
    return nxp_invalid("Message: made by a matched probe only");
}

static PyType_Slot slots[] = {
    {Py_tp_dealloc, (void *)message_dealloc},
    {Py_tp_methods, methods},
    {Py_tp_getset, getset},
    {Py_tp_new, (void *)message_new},
    {0, NULL},
};
PyType_Spec nxp_message_spec = {"nexar._nexar.Message", sizeof(message), 0, Py_TPFLAGS_DEFAULT,
                                slots};
