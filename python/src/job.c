/*
 * job.c - calls that have no request: each runs on a thread of its own, while the caller handles
 * signals.
 *
 * An interrupted caller leaves its job behind; the thread then releases the outcome.
 */
#include "binding.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RUNS, ENDED, LEFT };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ended = PTHREAD_COND_INITIALIZER;
static nxp_job *left_jobs; /* that continue although their callers were interrupted */
static nxp_job *finished;  /* jobs whose callers were interrupted: their objects are released */

nxp_job *nxp_job_create(nexar_err (*run)(nxp_job *job), nexar_comm *comm)
{
    nxp_job *job = PyMem_Calloc(1, sizeof(*job));

    if (job == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    job->run = run;
    job->comm = comm;
    return job;
}

void nxp_job_free(nxp_job *job)
{
    nexar_config_free(job->cfg);
    Py_XDECREF(job->keep);
    free(job->sentence);
    free(job->reply);
    PyMem_Free(job->ranks);
    PyMem_Free(job->tensors);
    PyMem_Free(job);
}

static void reap(void)
{
    nxp_job *job, *next;

    (void)pthread_mutex_lock(&lock);
    job = finished;
    finished = NULL;
    (void)pthread_mutex_unlock(&lock);
    for (; job != NULL; job = next) {
        next = job->next;
        nxp_job_free(job);
    }
}

/* With the lock. */
static void unlink_left(nxp_job *job)
{
    nxp_job **at = &left_jobs;

    while (*at != job) {
        at = &(*at)->next;
    }
    *at = job->next;
    if (job->world != NULL) {
        job->world->jobs--;
    }
}

static void *run_job(void *arg)
{
    nxp_job *job = arg;
    const nexar_err err = job->run(job);
    char *sentence = (err != NEXAR_OK) ? strdup(nexar_last_error()) : NULL;
    bool left;

    (void)pthread_mutex_lock(&lock);
    job->err = err;
    job->sentence = sentence;
    left = (job->state == LEFT);
    job->state = left ? LEFT : ENDED;
    (void)pthread_cond_broadcast(&ended);
    (void)pthread_mutex_unlock(&lock);
    if (left) { /* counted until the job has released its results */
        if ((job->drop != NULL) && (err == NEXAR_OK)) {
            job->drop(job);
        }
        (void)pthread_mutex_lock(&lock);
        unlink_left(job);
        job->next = finished;
        finished = job;
        (void)pthread_cond_broadcast(&ended);
        (void)pthread_mutex_unlock(&lock);
    }
    return NULL;
}

static bool start(nxp_job *job)
{
    pthread_attr_t attr;
    pthread_t thread;
    int err = pthread_attr_init(&attr);

    if (err == 0) {
        (void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
        err = pthread_create(&thread, &attr, run_job, job);
        (void)pthread_attr_destroy(&attr);
    }
    if (err != 0) {
        errno = err;
        PyErr_SetFromErrno(PyExc_OSError);
        return false;
    }
    return true;
}

static void set_deadline(struct timespec *until)
{
    (void)clock_gettime(CLOCK_REALTIME, until);
    until->tv_nsec += (long)NXP_SLICE_NS;
    until->tv_sec += until->tv_nsec / 1000000000;
    until->tv_nsec %= 1000000000;
}

/* Waits one slice for |job|. */
static bool wait_slice(nxp_job *job)
{
    struct timespec until;
    bool is;

    set_deadline(&until);
    (void)pthread_mutex_lock(&lock);
    if (job->state == RUNS) {
        (void)pthread_cond_timedwait(&ended, &lock, &until);
    }
    is = (job->state == ENDED);
    (void)pthread_mutex_unlock(&lock);
    return is;
}

/* The caller abandons the job; false: the job has just ended. */
static bool leave(nxp_job *job)
{
    bool left;

    (void)pthread_mutex_lock(&lock);
    left = (job->state == RUNS);
    if (left) {
        job->state = LEFT;
        job->next = left_jobs;
        left_jobs = job;
        if (job->world != NULL) {
            job->world->jobs++;
        }
    }
    (void)pthread_mutex_unlock(&lock);
    return left;
}

enum { SETTLE_SLICES = 25 }; /* one second: only an agreement cannot be ended */

static bool wait_settled(nxp_world *world)
{
    struct timespec until;
    bool is;

    set_deadline(&until);
    (void)pthread_mutex_lock(&lock);
    if (world->jobs != 0) {
        (void)pthread_cond_timedwait(&ended, &lock, &until);
    }
    is = (world->jobs == 0);
    (void)pthread_mutex_unlock(&lock);
    return is;
}

bool nxp_jobs_settle(nxp_world *world)
{
    bool is;

    (void)pthread_mutex_lock(&lock);
    is = (world->jobs == 0);
    for (const nxp_job *job = left_jobs; job != NULL; job = job->next) {
        if ((job->world == world) && (job->comm != NULL)) {
            (void)nexar_comm_revoke(job->comm);
        }
    }
    (void)pthread_mutex_unlock(&lock);
    for (int i = 0; !is && (i < SETTLE_SLICES); i++) {
        Py_BEGIN_ALLOW_THREADS is = wait_settled(world);
        Py_END_ALLOW_THREADS
    }
    return is;
}

bool nxp_job_run(nxp_job *job)
{
    bool is;

    reap();
    if (!start(job)) {
        nxp_job_free(job);
        return false;
    }
    for (;;) {
        Py_BEGIN_ALLOW_THREADS is = wait_slice(job);
        Py_END_ALLOW_THREADS if (is)
        {
            return true;
        }
        if (PyErr_CheckSignals() != 0) {
            if (!leave(job)) {
                if ((job->drop != NULL) && (job->err == NEXAR_OK)) {
                    job->drop(job);
                }
                nxp_job_free(job);
            }
            return false;
        }
    }
}

PyObject *nxp_job_raise(nxp_job *job, nexar_comm *comm)
{
    (void)nxp_raise(job->err, (job->sentence != NULL) ? job->sentence : "", comm);
    nxp_job_free(job);
    return NULL;
}
