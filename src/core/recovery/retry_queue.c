/* retry_queue.c - the requests of a communicator, one after another. */
#include "retry_queue.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text/sentence.h"
#include "recovery.h"

/* ---- runners --------------------------------------------------------------------------------- */

void nx_runner_retire(nx_runner *runner)
{
    if (runner != NULL) {
        runner->retired = true;
    }
}

void nx_runners_reap(nx_world *world)
{
    nx_list retired;

    nx_list_init(&retired);
    nx_loop_lock(world->loop);
    nx_list_for_each (at, &world->runners) {
        if (nx_list_entry(at, nx_runner, link)->retired) {
            nx_list_remove(at);
            nx_list_push_back(&retired, at);
        }
    }
    nx_loop_unlock(world->loop);
    while (!nx_list_empty(&retired)) {
        nx_runner *r = nx_list_entry(nx_list_pop(&retired), nx_runner, link);

        nx_worker_destroy(r->worker);
        nx_free(r);
    }
}

void nx_runners_stop(nx_world *world)
{
    nx_list_for_each (at, &world->runners) {
        nx_runner *r = nx_list_entry(at, nx_runner, link);

        nx_worker_destroy(r->worker);
        r->worker = NULL;
    }
}

void nx_runners_free(nx_world *world)
{
    while (!nx_list_empty(&world->runners)) {
        nx_free(nx_list_entry(nx_list_pop(&world->runners), nx_runner, link));
    }
}

/* ---- a request -------------------------------------------------------------------------- */

typedef struct queued {
    nexar_request base;
    nx_coll_args args;
    nx_retry_how how;
    nx_incarnation *was;   /* referenced: its communicator */
    nx_incarnation *after; /* referenced: the incarnation at its end */
    nx_retry_turn turn;
    nx_list link; /* in the runner's queue, until it begins */
    nexar_err err;
    char why[NX_ERROR_ROOM];
    max_align_t own[]; /* the copied parts of the call */
} queued;

static void end(queued *q)
{
    nexar_comm *comm = q->base.comm;
    nx_retry *r = &comm->retry;

    q->after = nx_incarnation_hold(comm->active);
    nx_episode_give(comm);
    r->queued--;
    if (r->free_due && (r->queued == 0)) {
        r->free_due = false;
        nx_comm_give_back(comm); /* the request holds a reference */
    }
    for (nx_incarnation *inc = comm->active; inc != NULL; inc = inc->next) {
        nx_world_part(inc);
    }
    nx_world_end(comm->world);
    nx_request_done(&q->base);
}

/* ---- execution -------------------------------------------------------------------------- */

/* Runs the first request in the queue of |r|; with the lock, which is released meanwhile. */
static void run_first(nx_runner *r)
{
    queued *q = nx_list_entry(nx_list_pop(&r->row), queued, link);

    nx_episode_take(q->base.comm, &q->turn);
    nx_loop_unlock(r->loop);
    q->err = nx_retry_in_turn(&q->args, q->was, &q->how, true);
    if (q->err != NEXAR_OK) {
        (void)nx_sentence(q->why, sizeof(q->why), "%s", nexar_last_error());
    }
    nx_loop_lock(r->loop);
    end(q);
}

/* Makes the thread of |r| check for work. */
static nexar_err wake(nx_runner *r)
{
    nexar_err err = NEXAR_OK;

    if (!r->awake) {
        err = nx_worker_submit(r->worker, &r->job);
        r->awake = (err == NEXAR_OK);
    }
    return err;
}

/* This thread stops running requests: another one continues if any are left. */
static void stop_draining(nx_runner *r)
{
    r->draining = false;
    if (r->wanted != NULL) {
        nx_event_set(r->loop, r->wanted);
    } else if (!nx_list_empty(&r->row)) {
        (void)!wake(r); /* the first request started its thread, so this cannot fail */
    }
}

/* On the thread of the runner, without the lock. */
static void drain(nx_job *job)
{
    nx_runner *r = nx_list_entry(job, nx_runner, job);

    nx_oplog_serve();
    nx_loop_lock(r->loop);
    if (!r->draining) {
        r->draining = true;
        while (!nx_list_empty(&r->row) && (r->wanted == NULL)) {
            run_first(r);
        }
        stop_draining(r);
    }
    nx_loop_unlock(r->loop);
}

static void drained(nx_job *job)
{
    nx_runner *r = nx_list_entry(job, nx_runner, job);

    r->awake = false;
    if (!r->draining && (r->wanted == NULL) && !nx_list_empty(&r->row)) {
        (void)!wake(r);
    }
}

static bool may_run_first(const nx_runner *r)
{
    const nx_list *first = r->row.next;

    return (first != &r->row) && (nx_list_entry(first, queued, link)->args.on_shard == NULL);
}

/* A thread that waits for a queued request runs that request and the ones before it: that saves a
 * wake-up for each of their steps.  (Functions of the application are an exception: threads of
 * nexar call them.) */
static void help(nexar_request *req, const nx_event *until)
{
    const queued *q = nx_list_entry(req, queued, base);
    nx_runner *r = req->comm->retry.runner;
    nx_event event = {0};

    if (r->draining && nx_list_linked(&q->link) && (r->wanted == NULL)) {
        r->wanted = &event; /* set when the current runner has ended its request */
        nx_oplog_enter(&req->comm->world->log);
        (void)nx_loop_wait(r->loop, &event, UINT64_MAX);
        nx_oplog_leave(&req->comm->world->log);
        r->wanted = NULL;
    }
    if (r->draining) {
        return;
    }
    r->draining = true;
    while (!until->set && may_run_first(r)) {
        run_first(r);
    }
    stop_draining(r);
}

static nexar_err finish(nexar_request *req, nexar_status *status)
{
    const queued *q = nx_list_entry(req, queued, base);

    (void)status;
    nx_comm_show(req->comm, q->after);
    return (q->err == NEXAR_OK) ? NEXAR_OK : nx_fail(q->err, "%s", q->why);
}

static void destroy(nexar_request *req)
{
    queued *q = nx_list_entry(req, queued, base);

    nx_incarnation_release(q->was);
    nx_incarnation_release(q->after);
    nx_free(q);
}

static const nx_request_ops queued_ops = {.finish = finish, .help = help, .destroy = destroy};

/* ---- copies ----------------------------------------------------------------------------- */

/* Rounds up, so that the next part is aligned. */
static size_t room(size_t n, size_t each)
{
    return (n * each + sizeof(max_align_t) - 1) / sizeof(max_align_t) * sizeof(max_align_t);
}

/* Arrays that are not read may be absent. */
static void drop_unread(nx_coll_args *a, const nx_incarnation *was)
{
    const bool blocks =
        (a->guise == NX_VARIANT_PLAIN) && nx_coll_has_blocks(a, nx_incarnation_seat(was));

    if (!blocks) {
        a->counts = NULL;
        a->displs = NULL;
    }
    if (!blocks || (a->send == NEXAR_IN_PLACE)) {
        a->send_counts = NULL;
        a->send_displs = NULL;
    }
}

static const size_t *copy_numbers(char **to, const size_t *from, uint32_t n)
{
    char *at = *to;

    if (from == NULL) {
        return NULL;
    }
    memcpy(at, from, n * sizeof(*from));
    *to += room(n, sizeof(*from));
    return (const size_t *)(void *)at;
}

/* A request with copies of all that |a| and |how| point to, except buffers; NULL: no memory. */
static queued *copy_call(const nx_coll_args *a, const nx_incarnation *was, const nx_retry_how *how)
{
    const size_t numbers = room(was->size, sizeof(size_t));
    const size_t tensors = room(a->ntensors, sizeof(*a->tensors));
    queued *q = nx_zalloc(sizeof(*q) + 4 * numbers + tensors + room(how->kept, 1));
    char *at;

    if (q == NULL) {
        return NULL;
    }
    at = (char *)q->own;
    q->args = *a;
    drop_unread(&q->args, was);
    q->args.counts = copy_numbers(&at, q->args.counts, was->size);
    q->args.displs = copy_numbers(&at, q->args.displs, was->size);
    q->args.send_counts = copy_numbers(&at, q->args.send_counts, was->size);
    q->args.send_displs = copy_numbers(&at, q->args.send_displs, was->size);
    if (a->ntensors > 0) {
        memcpy(at, a->tensors, a->ntensors * sizeof(*a->tensors));
        q->args.tensors = (const nexar_tensor *)(void *)at;
        at += tensors;
    }
    q->how = *how;
    if (how->kept > 0) {
        memcpy(at, how->arg, how->kept);
        q->how.arg = at;
    }
    return q;
}

/* ---- the call --------------------------------------------------------------------------- */

/* Ensures that |comm| has a runner.  NEXAR_ENOMEM, NEXAR_ESYS */
static nexar_err need_runner(nexar_comm *comm)
{
    nx_runner *r;
    nexar_err err;

    if (comm->retry.runner != NULL) {
        return NEXAR_OK;
    }
    r = nx_zalloc(sizeof(*r));
    if (r == NULL) {
        return nx_fail_nomem("the thread of a communicator (retry=on)");
    }
    err = nx_worker_create(&r->worker, comm->world->loop, 1);
    if (err != NEXAR_OK) {
        nx_free(r);
        return err;
    }
    r->loop = comm->world->loop;
    r->job = (nx_job){.work = drain, .done = drained};
    nx_list_init(&r->row);
    nx_list_push_back(&comm->world->runners, &r->link);
    comm->retry.runner = r;
    return NEXAR_OK;
}

/* With the lock.  NEXAR_ENOMEM, NEXAR_ESYS */
static nexar_err start(queued *q, nexar_comm *comm)
{
    nexar_err err = need_runner(comm);

    if (err == NEXAR_OK) {
        err = wake(comm->retry.runner); /* its thread waits for the lock first */
    }
    if (err != NEXAR_OK) {
        return err;
    }
    nx_request_init(&q->base, &queued_ops, comm);
    nx_episode_queue(comm, &q->turn);
    nx_list_push_back(&comm->retry.runner->row, &q->link);
    nx_world_begin(comm->world);
    comm->retry.queued++;
    return NEXAR_OK;
}

nexar_err nx_queued_start(const nx_coll_args *a, nx_incarnation *was, const nx_retry_how *how,
                          nexar_request **req)
{
    nexar_comm *comm = a->comm;
    queued *q = copy_call(a, was, how);
    nexar_err err;

    if (q == NULL) {
        nx_retry_refuse(comm, was);
        return nx_fail_nomem("a request");
    }
    nx_loop_lock(comm->world->loop);
    err = start(q, comm);
    if (err == NEXAR_OK) {
        q->was = was;
        *req = &q->base;
    } else {
        nx_incarnation_release(was);
    }
    nx_loop_unlock(comm->world->loop);
    if (err != NEXAR_OK) {
        nx_free(q);
    }
    return err;
}
