/* life.c - worlds and communicators: creation, change and end. */
#include "binding.h"

#include <stdlib.h>
#include <string.h>

#include "core/config/settings.h"

/* ---- settings --------------------------------------------------------------------------- */

nexar_config *nxp_config_of(PyObject *settings)
{
    nexar_config *cfg = NULL;
    nexar_err err = nexar_config_create(&cfg);
    PyObject *items = (err == NEXAR_OK) ? PyDict_Items(settings) : NULL;

    for (Py_ssize_t i = 0; (items != NULL) && (err == NEXAR_OK) && (i < PyList_Size(items)); i++) {
        const char *name, *value;

        if (!PyArg_ParseTuple(PyList_GetItem(items, i), "ss", &name, &value)) {
            Py_DECREF(items);
            nexar_config_free(cfg);
            return NULL;
        }
        err = nexar_config_set(cfg, name, value);
    }
    Py_XDECREF(items);
    if (err != NEXAR_OK) {
        (void)nxp_raise_last(err, NULL);
    }
    if ((err != NEXAR_OK) || (items == NULL)) {
        nexar_config_free(cfg);
        return NULL;
    }
    return cfg;
}

/* settings() -> {name: value}, from the environment; without the secret settings. */
PyObject *nxp_setting(PyObject *module, PyObject *unused)
{
    nexar_config *cfg = NULL;
    const nexar_err err = nexar_config_create(&cfg);
    PyObject *dict = PyDict_New();

    (void)module;
    (void)unused;
    if (err != NEXAR_OK) {
        Py_XDECREF(dict);
        return nxp_raise_last(err, NULL);
    }
    for (int i = 0; (dict != NULL) && (i < NX_SETTINGS); i++) {
        char value[1024];
        PyObject *text;

        if (nx_settings[i].secret ||
            (nexar_config_get(cfg, nx_settings[i].name, value, sizeof(value)) != NEXAR_OK)) {
            continue;
        }
        text = PyUnicode_FromString(value);
        if ((text == NULL) || (PyDict_SetItemString(dict, nx_settings[i].name, text) != 0)) {
            Py_CLEAR(dict);
        }
        Py_XDECREF(text);
    }
    nexar_config_free(cfg);
    return dict;
}

/* durations() -> the names of the settings that are durations. */
PyObject *nxp_durations(PyObject *module, PyObject *unused)
{
    PyObject *list = PyList_New(0);

    (void)module;
    (void)unused;
    for (int i = 0; (list != NULL) && (i < NX_SETTINGS); i++) {
        const nx_setting *s = &nx_settings[i];
        const bool is = (s->type == NX_SETTING_NUMBER) && (s->number == NX_NUMBER_DURATION);
        PyObject *name = is ? PyUnicode_FromString(s->name) : NULL;

        if (is && ((name == NULL) || (PyList_Append(list, name) != 0))) {
            Py_CLEAR(list);
        }
        Py_XDECREF(name);
    }
    return list;
}

/* ---- init and close ------------------------------------------------------------------------- */

static nexar_err run_init(nxp_job *job)
{
    return nexar_init(job->cfg, &job->out);
}

static void drop_world(nxp_job *job)
{
    (void)nexar_finalize(job->out);
}

PyObject *nxp_init(PyObject *module, PyObject *settings)
{
    nexar_config *cfg = nxp_config_of(settings);
    nxp_world *world;
    nxp_job *job;
    PyObject *comm;

    (void)module;
    if (cfg == NULL) {
        return NULL;
    }
    job = nxp_job_create(run_init, NULL);
    if (job == NULL) {
        nexar_config_free(cfg);
        return NULL;
    }
    job->cfg = cfg;
    job->drop = drop_world;
    if (!nxp_job_run(job)) {
        return NULL;
    }
    if (job->err != NEXAR_OK) {
        return nxp_job_raise(job, NULL);
    }
    world = nxp_world_create(job->out);
    comm = (world != NULL) ? nxp_comm_wrap(job->out, world) : NULL;
    nxp_job_free(job);
    return comm;
}

static nexar_err run_finalize(nxp_job *job)
{
    return nexar_finalize(job->comm);
}

static PyObject *close_world(nxp_comm *self)
{
    nxp_world *world = self->world;
    nxp_job *job = nxp_job_create(run_finalize, self->comm);
    const bool settled = (job != NULL) && nxp_world_settle(world);

    if (job == NULL) {
        return NULL;
    }
    world->root = NULL; /* the world is closed, whatever the result */
    self->comm = NULL;
    if (!settled) { /* a thread is in a call on it: it lives until the process exits */
        nxp_job_free(job);
        Py_RETURN_NONE;
    }
    if (!nxp_job_run(job)) {
        return NULL;
    }
    nxp_world_closed(world);
    if (job->err != NEXAR_OK) {
        return nxp_job_raise(job, NULL);
    }
    nxp_job_free(job);
    Py_RETURN_NONE;
}

static PyObject *comm_close(PyObject *obj, PyObject *unused)
{
    nxp_comm *self = (nxp_comm *)obj;
    nexar_comm *comm = self->comm;

    (void)unused;
    if ((comm == NULL) || (self->world->root == NULL)) {
        Py_RETURN_NONE;
    }
    if (!nxp_comm_ready(self, "close")) {
        return NULL;
    }
    if (comm == self->world->root) {
        return close_world(self);
    }
    self->comm = NULL;
    Py_BEGIN_ALLOW_THREADS nexar_comm_free(comm);
    Py_END_ALLOW_THREADS Py_RETURN_NONE;
}

/* ---- new communicators ------------------------------------------------------------------ */

static nexar_err run_split(nxp_job *job)
{
    return nexar_comm_split(job->comm, job->color, job->key, &job->out);
}

static nexar_err run_dup(nxp_job *job)
{
    return nexar_comm_dup(job->comm, &job->out);
}

static nexar_err run_split_host(nxp_job *job)
{
    return nexar_comm_split_host(job->comm, &job->out);
}

static nexar_err run_shrink(nxp_job *job)
{
    return nexar_comm_shrink(job->comm, &job->out);
}

static void drop_comm(nxp_job *job)
{
    nexar_comm_free(job->out);
}

PyObject *nxp_make_comm(nxp_comm *self, nxp_job *job)
{
    PyObject *made;

    Py_INCREF((PyObject *)self);
    job->keep = (PyObject *)self;
    job->world = self->world;
    job->drop = drop_comm;
    if (!nxp_job_run(job)) {
        return NULL;
    }
    if (job->err != NEXAR_OK) {
        return nxp_job_raise(job, self->comm);
    }
    if (job->out == NULL) {
        nxp_job_free(job);
        Py_RETURN_NONE;
    }
    made = nxp_comm_wrap(job->out, self->world);
    nxp_job_free(job);
    return made;
}

static PyObject *comm_split(PyObject *obj, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    static const char *const names[] = {"color", "key", NULL};
    nxp_comm *self = (nxp_comm *)obj;
    PyObject *arg[2] = {NULL, NULL};
    int color = NEXAR_NO_COLOR, key = 0;
    nxp_job *job;

    if (!nxp_comm_ready(self, "split") || !nxp_parse("split", names, 1, args, n, kwnames, arg) ||
        !nxp_int("split", "color", (arg[0] == Py_None) ? NULL : arg[0], NEXAR_NO_COLOR, INT32_MAX,
                 &color) ||
        !nxp_int("split", "key", arg[1], INT32_MIN, INT32_MAX, &key)) {
        return NULL;
    }
    job = nxp_job_create(run_split, self->comm);
    if (job == NULL) {
        return NULL;
    }
    job->color = color;
    job->key = key;
    return nxp_make_comm(self, job);
}

static PyObject *make_simply(PyObject *obj, const char *call, nexar_err (*run)(nxp_job *))
{
    nxp_comm *self = (nxp_comm *)obj;
    nxp_job *job = nxp_comm_ready(self, call) ? nxp_job_create(run, self->comm) : NULL;

    return (job != NULL) ? nxp_make_comm(self, job) : NULL;
}

static PyObject *comm_dup(PyObject *obj, PyObject *unused)
{
    (void)unused;
    return make_simply(obj, "dup", run_dup);
}

static PyObject *comm_split_host(PyObject *obj, PyObject *unused)
{
    (void)unused;
    return make_simply(obj, "split_host", run_split_host);
}

static PyObject *comm_shrink(PyObject *obj, PyObject *unused)
{
    (void)unused;
    return make_simply(obj, "shrink", run_shrink);
}

/* _host(rank) -> (host, hosts, local_rank, local_size, leader, name) */
static PyObject *comm_host(PyObject *obj, PyObject *arg)
{
    nxp_comm *self = (nxp_comm *)obj;
    nexar_host where;
    nexar_err err;
    int rank = 0;

    if (!nxp_comm_ready(self, "host") ||
        !nxp_int("host", "rank", arg, 0, (long)nexar_size(self->comm) - 1, &rank)) {
        return NULL;
    }
    err = nexar_comm_host(self->comm, rank, &where);
    return (err != NEXAR_OK) ? nxp_raise_last(err, self->comm)
                             : Py_BuildValue("iiiiis", where.host, where.hosts, where.local_rank,
                                             where.local_size, where.leader, where.name);
}

/* ---- failures and changes --------------------------------------------------------------- */

static nexar_err run_agree(nxp_job *job)
{
    return nexar_comm_agree(job->comm, &job->flags);
}

static nexar_err run_revoke(nxp_job *job)
{
    return nexar_comm_revoke(job->comm);
}

static nexar_err run_leave(nxp_job *job)
{
    return nexar_comm_leave(job->comm);
}

static nexar_err run_update(nxp_job *job)
{
    job->out = job->comm;
    return nexar_comm_update(&job->out, &job->change);
}

static PyObject *comm_agree(PyObject *obj, PyObject *arg)
{
    nxp_comm *self = (nxp_comm *)obj;
    PyObject *result;
    uint64_t flags = 0;
    nxp_job *job;

    if (!nxp_comm_ready(self, "agree") || !nxp_tag("agree", "flags", arg, &flags)) {
        return NULL;
    }
    job = nxp_job_create(run_agree, self->comm);
    if (job == NULL) {
        return NULL;
    }
    job->flags = flags;
    Py_INCREF(obj);
    job->keep = obj;
    job->world = self->world;
    if (!nxp_job_run(job)) {
        return NULL;
    }
    if (job->err != NEXAR_OK) {
        return nxp_job_raise(job, self->comm);
    }
    result = PyLong_FromUnsignedLongLong(job->flags);
    nxp_job_free(job);
    return result;
}

static PyObject *run_simply(PyObject *obj, const char *call, nexar_err (*run)(nxp_job *))
{
    nxp_comm *self = (nxp_comm *)obj;
    nxp_job *job = nxp_comm_ready(self, call) ? nxp_job_create(run, self->comm) : NULL;

    if (job == NULL) {
        return NULL;
    }
    Py_INCREF(obj);
    job->keep = obj;
    job->world = self->world;
    if (!nxp_job_run(job)) {
        return NULL;
    }
    if (job->err != NEXAR_OK) {
        return nxp_job_raise(job, self->comm);
    }
    nxp_job_free(job);
    Py_RETURN_NONE;
}

static PyObject *comm_revoke(PyObject *obj, PyObject *unused)
{
    (void)unused;
    return run_simply(obj, "revoke", run_revoke);
}

static PyObject *comm_leave(PyObject *obj, PyObject *unused)
{
    (void)unused;
    return run_simply(obj, "leave", run_leave);
}

/* _update() -> the numbers of nexar_change */
static PyObject *comm_update(PyObject *obj, PyObject *unused)
{
    nxp_comm *self = (nxp_comm *)obj;
    PyObject *result;
    nxp_job *job = nxp_comm_ready(self, "update") ? nxp_job_create(run_update, self->comm) : NULL;

    (void)unused;
    if (job == NULL) {
        return NULL;
    }
    Py_INCREF(obj);
    job->keep = obj;
    job->world = self->world;
    if (!nxp_job_run(job)) { /* the thread may replace the world at any time: the world is lost */
        self->world->root = NULL;
        self->comm = NULL;
        return NULL;
    }
    if (self->comm == self->world->root) {
        self->world->root = job->out;
        self->comm = job->out;
    }
    if (job->err != NEXAR_OK) {
        return nxp_job_raise(job, self->comm);
    }
    if (job->out == NULL) {
        nxp_world_closed(self->world);
    }
    result = nxp_change_of(&job->change);
    nxp_job_free(job);
    return result;
}

static PyObject *comm_last_change(PyObject *obj, PyObject *unused)
{
    nxp_comm *self = (nxp_comm *)obj;
    nexar_change change;
    nexar_err err;

    (void)unused;
    if (!nxp_comm_ready(self, "last_change")) {
        return NULL;
    }
    err = nexar_last_change(self->comm, &change);
    return (err == NEXAR_OK) ? nxp_change_of(&change) : nxp_raise_last(err, self->comm);
}

static PyObject *comm_failed(PyObject *obj, PyObject *unused)
{
    nxp_comm *self = (nxp_comm *)obj;
    PyObject *list;
    size_t n, room;
    int *ranks;
    nexar_err err;

    (void)unused;
    if (!nxp_comm_ready(self, "failed")) {
        return NULL;
    }
    n = (size_t)nexar_size(self->comm);
    room = n;
    ranks = PyMem_Calloc(n, sizeof(*ranks));
    if (ranks == NULL) {
        return PyErr_NoMemory();
    }
    err = nexar_comm_failed(self->comm, ranks, &room);
    if (err != NEXAR_OK) {
        PyMem_Free(ranks);
        return nxp_raise_last(err, self->comm);
    }
    list = PyList_New((Py_ssize_t)room);
    for (size_t i = 0; (list != NULL) && (i < room); i++) {
        (void)PyList_SetItem(list, (Py_ssize_t)i, PyLong_FromLong(ranks[i]));
    }
    PyMem_Free(ranks);
    return list;
}

PyMethodDef nxp_life_methods[] = {
    {"close", comm_close, METH_NOARGS, NULL},
    NXP_FAST("split", comm_split),
    {"dup", comm_dup, METH_NOARGS, NULL},
    {"split_host", comm_split_host, METH_NOARGS, NULL},
    {"shrink", comm_shrink, METH_NOARGS, NULL},
    {"_host", comm_host, METH_O, NULL},
    {"agree", comm_agree, METH_O, NULL},
    {"revoke", comm_revoke, METH_NOARGS, NULL},
    {"leave", comm_leave, METH_NOARGS, NULL},
    {"_update", comm_update, METH_NOARGS, NULL},
    {"_last_change", comm_last_change, METH_NOARGS, NULL},
    {"failed", comm_failed, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};
