/* group.c - communicators of listed ranks, and the timeout of a communicator. */
#include "binding.h"

/* ---- ranks of a list ------------------------------------------------------------------------- */

/* Converts |list| to ints, in memory of PyMem; NULL: an exception is set. */
static int *ints_of(const char *call, PyObject *list, int size)
{
    const Py_ssize_t n = PyList_Size(list);
    int *ranks = PyMem_Calloc((size_t)n + 1, sizeof(*ranks));

    if (ranks == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        char name[40];

        (void)PyOS_snprintf(name, sizeof(name), "ranks[%d]", (int)i);
        if (!nxp_int(call, name, PyList_GetItem(list, i), 0, (long)size - 1, &ranks[i])) {
            PyMem_Free(ranks);
            return NULL;
        }
    }
    return ranks;
}

/* A job with the ranks in |obj|; NULL: an exception is set. */
static nxp_job *job_of_ranks(nxp_comm *self, const char *call, PyObject *obj,
                             nexar_err (*run)(nxp_job *))
{
    PyObject *list = nxp_list(call, "ranks", obj, "a sequence of ranks");
    nxp_job *job = (list != NULL) ? nxp_job_create(run, self->comm) : NULL;

    if (job != NULL) {
        job->nranks = (size_t)PyList_Size(list);
        job->ranks = ints_of(call, list, nexar_size(self->comm));
        if (job->ranks == NULL) {
            nxp_job_free(job);
            job = NULL;
        }
    }
    Py_XDECREF(list);
    return job;
}

static nexar_err run_create(nxp_job *job)
{
    return nexar_comm_create(job->comm, job->ranks, job->nranks, job->tag, &job->out);
}

/* create(ranks, tag=0) -> Comm; only the listed ranks call it. */
static PyObject *comm_create(PyObject *obj, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    static const char *const names[] = {"ranks", "tag", NULL};
    nxp_comm *self = (nxp_comm *)obj;
    PyObject *arg[2] = {NULL, NULL};
    uint64_t tag = 0;
    nxp_job *job;

    if (!nxp_comm_ready(self, "create") || !nxp_parse("create", names, 1, args, n, kwnames, arg) ||
        !nxp_tag("create", "tag", arg[1], &tag)) {
        return NULL;
    }
    job = job_of_ranks(self, "create", arg[0], run_create);
    if (job == NULL) {
        return NULL;
    }
    job->tag = tag;
    return nxp_make_comm(self, job);
}

/* set_timeout(seconds); None restores the setting. */
static PyObject *comm_set_timeout(PyObject *obj, PyObject *seconds)
{
    nxp_comm *self = (nxp_comm *)obj;
    uint64_t ns = 0;
    nexar_err err;

    if (!nxp_comm_ready(self, "set_timeout") || !nxp_timeout("set_timeout", seconds, &ns)) {
        return NULL;
    }
    err = nexar_comm_set_timeout(self->comm, ns);
    if (err != NEXAR_OK) {
        return nxp_raise_last(err, self->comm);
    }
    Py_RETURN_NONE;
}

PyMethodDef nxp_group_methods[] = {
    {"set_timeout", comm_set_timeout, METH_O, NULL},
    NXP_FAST("create", comm_create),
    {NULL, NULL, 0, NULL},
};
