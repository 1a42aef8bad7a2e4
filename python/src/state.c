/* state.c - nexar_state_sync: equal state on all ranks. */
#include "binding.h"

static nexar_err run_sync(nxp_job *job)
{
    return nexar_state_sync(job->comm, job->tensors, job->bytes, &job->flags, &job->report);
}

/* Converts |item|, (name as bytes, memory), to a tensor; appends the objects that keep it to
 * |kept|. */
static bool take_tensor(nexar_state *tensor, PyObject *item, PyObject *kept)
{
    char about[96];
    const char *name;
    PyObject *bytes, *obj, *view;
    nxp_memory m;
    bool ok;

    if (!PyArg_ParseTuple(item, "SO", &bytes, &obj)) {
        return false;
    }
    name = PyBytes_AsString(bytes);
    (void)PyOS_snprintf(about, sizeof(about), "state['%.60s']", name);
    if (!nxp_memory_get(&m, "sync_state", about, obj, NXP_WRITE)) {
        return false;
    }
    *tensor = (nexar_state){.name = name, .ptr = m.ptr, .count = m.items, .dtype = m.dtype};
    view = m.has_view ? PyMemoryView_FromObject(obj) : NULL; /* prevents resizing */
    ok = (view != NULL) || !m.has_view;
    if (ok) {
        ok = (PyList_Append(kept, (view != NULL) ? view : (m.keep != NULL) ? m.keep : obj) == 0);
    }
    Py_XDECREF(view);
    nxp_memory_release(&m);
    return ok;
}

static nxp_job *job_of(nxp_comm *self, PyObject *items, uint64_t revision)
{
    const Py_ssize_t n = PyList_Size(items);
    nxp_job *job = nxp_job_create(run_sync, self->comm);

    if (job == NULL) {
        return NULL;
    }
    job->world = self->world;
    job->flags = revision;
    job->bytes = (size_t)n;
    job->tensors = PyMem_Calloc((size_t)n + 1, sizeof(*job->tensors));
    job->keep = PyList_New(0); /* the names, the memory, the communicator */
    if ((job->tensors == NULL) || (job->keep == NULL) || (PyList_Append(job->keep, items) != 0) ||
        (PyList_Append(job->keep, (PyObject *)self) != 0)) {
        nxp_job_free(job);
        return (nxp_job *)PyErr_NoMemory();
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        if (!take_tensor(&job->tensors[i], PyList_GetItem(items, i), job->keep)) {
            nxp_job_free(job);
            return NULL;
        }
    }
    return job;
}

/* _state_sync([(name, memory)], revision) -> the fields of nexar_sync_report, and the revision */
static PyObject *comm_state_sync(PyObject *obj, PyObject *const *args, Py_ssize_t n,
                                 PyObject *kwnames)
{
    static const char *const names[] = {"state", "revision", NULL};
    nxp_comm *self = (nxp_comm *)obj;
    PyObject *arg[2] = {NULL, NULL}, *result;
    uint64_t revision = 0;
    nxp_job *job;

    if (!nxp_comm_ready(self, "sync_state") ||
        !nxp_parse("sync_state", names, 2, args, n, kwnames, arg) ||
        !nxp_tag("sync_state", "revision", arg[1], &revision)) {
        return NULL;
    }
    job = job_of(self, arg[0], revision);
    if ((job == NULL) || !nxp_job_run(job)) {
        return NULL;
    }
    if (job->err != NEXAR_OK) {
        return nxp_job_raise(job, self->comm);
    }
    result = Py_BuildValue(
        "KKKKiOK", (unsigned long long)job->report.received,
        (unsigned long long)job->report.differed, (unsigned long long)job->report.bytes_received,
        (unsigned long long)job->report.bytes_sent, job->report.ranks_updated,
        job->report.updated ? Py_True : Py_False, (unsigned long long)job->flags);
    nxp_job_free(job);
    return result;
}

PyMethodDef nxp_state_methods[] = {
    NXP_FAST("_state_sync", comm_state_sync),
    {NULL, NULL, 0, NULL},
};
