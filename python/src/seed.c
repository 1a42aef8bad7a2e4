/* seed.c - the seed, and the callback for its events. */
#include "binding.h"

#include <pthread.h>

typedef struct seed {
    PyObject_HEAD nexar_seed *seed;
    PyObject *fns;    /* callbacks, kept until the seed stops; or NULL */
    unsigned forks;   /* nxp_forks when it was made */
    unsigned setting; /* threads that are setting a function */
} seed;

static _Thread_local bool serving; /* this thread belongs to a seed, and runs its callback */

static bool is_open(const seed *self, const char *call)
{
    if ((self->seed == NULL) || (self->forks != nxp_forks)) {
        (void)nxp_invalid("%s: the seed is closed", call);
        return false;
    }
    return true;
}

static PyObject *seed_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *settings;
    nexar_config *cfg;
    nexar_seed *made = NULL;
    nexar_err err;
    seed *self;

    (void)kwargs;
    if (!PyArg_ParseTuple(args, "O", &settings)) {
        return NULL;
    }
    cfg = nxp_config_of(settings);
    if (cfg == NULL) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS err = nexar_seed_start(cfg, &made);
    Py_END_ALLOW_THREADS nexar_config_free(cfg);
    if (err != NEXAR_OK) {
        return nxp_raise_last(err, NULL);
    }
    self = (seed *)PyType_GenericAlloc(type, 0);
    if (self == NULL) {
        nexar_seed_stop(made);
        return NULL;
    }
    self->seed = made;
    self->forks = nxp_forks;
    return (PyObject *)self;
}

/* ---- end ---------------------------------------------------------------------------------- */

/* The running callback may wait for the GIL, so this thread releases the GIL. */
static void stop(nexar_seed *mine, PyObject *fns)
{
    Py_BEGIN_ALLOW_THREADS nexar_seed_stop(mine);
    Py_END_ALLOW_THREADS Py_XDECREF(fns);
}

typedef struct rest {
    nexar_seed *seed;
    PyObject *fns;
} rest;

static void *stop_rest(void *arg)
{
    rest *r = arg;
    PyGILState_STATE state;

    nexar_seed_stop(r->seed);
    if (nxp_enter_python(&state)) {
        Py_XDECREF(r->fns);
        PyMem_Free(r);
        nxp_leave_python(state);
    }
    return NULL;
}

/* The last reference was dropped in the seed's own thread, which cannot wait for its own end.
 * Without another thread for that, the seed ends with the process. */
static void stop_elsewhere(nexar_seed *mine, PyObject *fns)
{
    rest *r = PyMem_Calloc(1, sizeof(*r));
    pthread_t thread;

    if (r == NULL) {
        return;
    }
    r->seed = mine;
    r->fns = fns;
    if (pthread_create(&thread, NULL, stop_rest, r) == 0) {
        (void)pthread_detach(thread);
    } else {
        PyMem_Free(r);
    }
}

static PyObject *seed_close(PyObject *obj, PyObject *unused)
{
    seed *self = (seed *)obj;
    nexar_seed *mine = self->seed;
    PyObject *fns = self->fns;

    (void)unused;
    if ((mine == NULL) || (self->forks != nxp_forks)) {
        Py_RETURN_NONE;
    }
    if (serving) {
        return nxp_invalid("close: the function of on_event runs in a seed's thread, which cannot "
                           "wait for its own end; close the seed in another thread");
    }
    if (self->setting != 0) {
        return nxp_invalid("close: another thread is in on_event of this seed; wait for it");
    }
    self->seed = NULL;
    self->fns = NULL;
    stop(mine, fns);
    Py_RETURN_NONE;
}

static void seed_dealloc(PyObject *obj)
{
    seed *self = (seed *)obj;
    PyTypeObject *type = Py_TYPE(obj);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);

    if ((self->seed != NULL) && (self->forks == nxp_forks)) {
        (serving ? stop_elsewhere : stop)(self->seed, self->fns);
    }
    release(obj);
    Py_DECREF(type);
}

/* ---- events ------------------------------------------------------------------------------- */

static const char *name_kind(nexar_seed_event_kind kind)
{
    static const char *const names[] = {
        [NEXAR_SEED_JOINED] = "joined",   [NEXAR_SEED_FORMED] = "formed",
        [NEXAR_SEED_WAITING] = "waiting", [NEXAR_SEED_CHANGED] = "changed",
        [NEXAR_SEED_LEFT] = "left",       [NEXAR_SEED_FAILED] = "failed",
        [NEXAR_SEED_BACK] = "back",       [NEXAR_SEED_REFUSED] = "refused",
        [NEXAR_SEED_MISSING] = "missing", [NEXAR_SEED_ENDED] = "ended"};

    return ((size_t)kind < sizeof(names) / sizeof(names[0])) ? names[kind] : "unknown";
}

/* Runs in the seed's thread. */
static void on_event(const nexar_seed_event *event, void *fn)
{
    PyGILState_STATE state;
    PyObject *said;

    if (!nxp_enter_python(&state)) {
        return;
    }
    serving = true;
    said = PyObject_CallFunction(fn, "siiis", name_kind(event->kind), event->rank, event->joined,
                                 event->world, event->text);
    if (said == NULL) {
        PyErr_WriteUnraisable(fn);
    }
    Py_XDECREF(said);
    serving = false;
    nxp_leave_python(state);
}

/* Keeps |fn| as long as the seed lives; false: an exception is set. */
static bool keep(seed *self, PyObject *fn)
{
    if (self->fns == NULL) {
        self->fns = PyList_New(0);
    }
    return (self->fns != NULL) && (PyList_Append(self->fns, fn) == 0);
}

/* _on_event(fn or None): fn(kind, rank, joined, world, text). */
static PyObject *seed_on_event(PyObject *obj, PyObject *fn)
{
    seed *self = (seed *)obj;
    const bool none = (fn == Py_None);
    nexar_err err;

    if (!is_open(self, "on_event") || (!none && !keep(self, fn))) {
        return NULL;
    }
    self->setting++;
    Py_BEGIN_ALLOW_THREADS err = nexar_seed_on_event(self->seed, none ? NULL : on_event, fn);
    Py_END_ALLOW_THREADS self->setting--;
    if (err != NEXAR_OK) {
        return nxp_raise_last(err, NULL);
    }
    Py_RETURN_NONE;
}

/* ---- the type ----------------------------------------------------------------------------- */

static PyObject *seed_join_string(PyObject *obj, void *unused)
{
    const seed *self = (seed *)obj;
    char text[NXP_JOIN_STRING];
    nexar_err err;

    (void)unused;
    if (!is_open(self, "join_string")) {
        return NULL;
    }
    err = nexar_seed_join_string(self->seed, text, sizeof(text));
    return (err == NEXAR_OK) ? PyUnicode_FromString(text) : nxp_raise_last(err, NULL);
}

static PyMethodDef seed_methods[] = {
    {"close", seed_close, METH_NOARGS, NULL},
    {"_on_event", seed_on_event, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef seed_getset[] = {
    {"join_string", seed_join_string, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyType_Slot seed_slots[] = {
    {Py_tp_dealloc, (void *)seed_dealloc},
    {Py_tp_methods, seed_methods},
    {Py_tp_getset, seed_getset},
    {Py_tp_new, (void *)seed_new},
    {0, NULL},
};
PyType_Spec nxp_seed_spec = {"nexar._nexar.Seed", sizeof(seed), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, seed_slots};
