/* request.c - completion: wait, test, wait_all, wait_any, cancel, event_fd. */
#include "core/request.h"

#include <errno.h>
#include <stdio.h>
#include <sys/eventfd.h>

#include "base/alloc.h"
#include "base/cancellation.h"
#include "base/sentence.h"
#include "base/sys.h"
#include "core/forked.h"
#include "core/recover/recover.h"

/* ---- life ---------------------------------------------------------------------- */

void nx_request_init(nexar_request *req, const nx_request_ops *ops, nexar_comm *comm)
{
    req->ops = ops;
    req->comm = comm;
    nx_comm_hold(comm);
    nx_list_push_back(&comm->world->requests, &req->link);
    nx_list_init(&req->due);
    req->epoch = comm->recovery.epoch;
}

void nx_request_done(nexar_request *req)
{
    nx_loop *loop = req->comm->world->loop;

    req->done = true;
    nx_world_unclaimed(req->comm->world, 1);
    nx_event_set(loop, &req->event);
    if (req->any != NULL) {
        nx_event_set(loop, req->any);
    }
}

void nx_request_destroy(nexar_request *req)
{
    nexar_comm *comm = req->comm;

    nx_list_remove(&req->link);
    nx_list_remove(&req->due);
    req->ops->destroy(req);
    nx_comm_release(comm);
}

void nx_requests_free(nx_world *world)
{
    while (!nx_list_empty(&world->requests)) {
        nx_request_destroy(nx_list_entry(world->requests.next, nexar_request, link));
    }
    nx_p2p_free_spare(world);
}

/* Takes a request that is done from the application. */
static nexar_err claim(nexar_request **req, nexar_status *status)
{
    nx_world *world = (*req)->comm->world;
    nexar_err err = (*req)->ops->finish(*req, status);

    nx_world_unclaimed(world, -1);
    nx_request_destroy(*req);
    *req = NULL;
    return err;
}

/* Waits for |event|; reports say that it is for |req|, by |name|, or for the first of
 * several. */
static void wait_event(nx_world *world, const nexar_request *req, const char *name, nx_event *event)
{
    nx_blocked b = {0};

    if (req->ops->what == NULL) {
        nx_oplog_enter(&world->log);
        (void)nx_loop_wait(world->loop, event, UINT64_MAX);
        nx_oplog_leave(&world->log);
        return;
    }
    req->ops->what(req, &b);
    b.what.name = name;
    nx_oplog_block(&world->log, &b, nx_loop_now(world->loop));
    (void)nx_loop_wait(world->loop, event, UINT64_MAX);
    nx_oplog_unblock(&world->log, &b, nx_loop_now(world->loop), NEXAR_OK);
}

/* ---- completion ------------------------------------------------------------------ */

nexar_err nexar_wait(nexar_request **req, nexar_status *status)
{
    NX_NOT_CANCELLED;
    nx_loop *loop;
    nexar_err err;

    if (req == NULL) {
        return nx_fail(NEXAR_EINVAL, "wait: req is NULL");
    }
    if (*req == NULL) {
        return NEXAR_OK;
    }
    err = nx_forked_check("wait", (*req)->comm->world);
    if (err != NEXAR_OK) {
        return err;
    }
    loop = (*req)->comm->world->loop;
    nx_loop_enter(loop);
    if (!(*req)->done && ((*req)->ops->help != NULL)) {
        (*req)->ops->help(*req, &(*req)->event);
    }
    if (!(*req)->done) {
        (void)nx_loop_refresh(loop);
        wait_event((*req)->comm->world, *req, "wait", &(*req)->event);
    }
    (void)nx_recover_claim(*req, true);
    err = claim(req, status);
    nx_loop_unlock(loop);
    return err;
}

nexar_err nexar_test(nexar_request **req, bool *done, nexar_status *status)
{
    NX_NOT_CANCELLED;
    nx_loop *loop;
    nexar_err err;

    if ((req == NULL) || (done == NULL)) {
        return nx_fail(NEXAR_EINVAL, "test: %s is NULL", (req == NULL) ? "req" : "done");
    }
    if (*req == NULL) {
        *done = true;
        return NEXAR_OK;
    }
    err = nx_forked_check("test", (*req)->comm->world);
    if (err != NEXAR_OK) {
        return err;
    }
    loop = (*req)->comm->world->loop;
    nx_loop_lock(loop);
    if (!(*req)->done) {
        nx_loop_kick(loop);
    }
    *done = (*req)->done && nx_recover_claim(*req, false);
    if (!*done) {
        nx_loop_pass(loop, (*req)->ops->help != NULL);
        return NEXAR_OK;
    }
    err = claim(req, status);
    nx_loop_unlock(loop);
    return err;
}

nexar_err nexar_wait_all(size_t n, nexar_request *reqs[])
{
    NX_NOT_CANCELLED;
    nexar_err first = NEXAR_OK;
    char sentence[NX_ERROR_ROOM] = "";

    if ((reqs == NULL) && (n != 0)) {
        return nx_fail(NEXAR_EINVAL, "wait_all: reqs is NULL");
    }
    for (size_t i = 0; i < n; i++) {
        nexar_err err = nexar_wait(&reqs[i], NULL);

        if ((err != NEXAR_OK) && (first == NEXAR_OK)) {
            first = err;
            (void)nx_sentence(sentence, sizeof(sentence), "%s", nexar_last_error());
        }
    }
    return (first == NEXAR_OK) ? NEXAR_OK : nx_fail(first, "%s", sentence);
}

/* The first that is done; n if there is none. */
static size_t find_done(size_t n, nexar_request *const reqs[])
{
    size_t i = 0;

    while ((i < n) && ((reqs[i] == NULL) || !reqs[i]->done)) {
        i++;
    }
    return i;
}

/* The first that is there. */
static size_t find_active(size_t n, nexar_request *const reqs[])
{
    size_t i = 0;

    while ((i + 1 < n) && (reqs[i] == NULL)) {
        i++;
    }
    return i;
}

/* Lets all requests set |event| too, or none. */
static void point_events(size_t n, nexar_request *const reqs[], nx_event *event)
{
    for (size_t i = 0; i < n; i++) {
        if (reqs[i] != NULL) {
            reqs[i]->any = event;
        }
    }
}

/* A thread that waits for |any| helps if all requests are in the row of one communicator, in
 * which the first is done first: not where it would be kept from what comes otherwise. */
static void help_any(size_t n, nexar_request *const reqs[], const nx_event *any)
{
    nexar_request *first = reqs[find_active(n, reqs)];

    for (size_t i = 0; i < n; i++) {
        if ((reqs[i] != NULL) && ((reqs[i]->ops->help == NULL) || (reqs[i]->comm != first->comm))) {
            return;
        }
    }
    first->ops->help(first, any);
}

nexar_err nexar_wait_any(size_t n, nexar_request *reqs[], size_t *index, nexar_status *status)
{
    NX_NOT_CANCELLED;
    nx_event any = {0};
    nx_world *world = NULL;
    nexar_err err;

    if (((reqs == NULL) && (n != 0)) || (index == NULL)) {
        return nx_fail(NEXAR_EINVAL, "wait_any: %s is NULL", (index == NULL) ? "index" : "reqs");
    }
    for (size_t i = 0; i < n; i++) {
        if ((reqs[i] != NULL) && (world != NULL) && (reqs[i]->comm->world != world)) {
            return nx_fail(NEXAR_EINVAL, "wait_any: request %zu belongs to another world", i);
        }
        world = (reqs[i] != NULL) ? reqs[i]->comm->world : world;
    }
    if (world == NULL) {
        *index = n;
        return nx_fail(NEXAR_EINVAL, "wait_any: none of the %zu requests is active", n);
    }
    err = nx_forked_check("wait_any", world);
    if (err != NEXAR_OK) {
        return err;
    }

    nx_loop_lock(world->loop);
    while (find_done(n, reqs) == n) {
        any.set = false;
        point_events(n, reqs, &any);
        help_any(n, reqs, &any);
        wait_event(world, reqs[find_active(n, reqs)], "wait_any", &any);
        point_events(n, reqs, NULL);
    }
    *index = find_done(n, reqs);
    (void)nx_recover_claim(reqs[*index], true);
    err = claim(&reqs[*index], status);
    nx_loop_unlock(world->loop);
    return err;
}

nexar_err nexar_cancel(nexar_request *req)
{
    NX_NOT_CANCELLED;
    nx_world *world;
    nexar_err err;

    if (req == NULL) {
        return nx_fail(NEXAR_EINVAL, "cancel: req is NULL");
    }
    err = nx_forked_check("cancel", req->comm->world);
    if (err != NEXAR_OK) {
        return err;
    }
    if (req->ops->cancel == NULL) {
        return nx_fail(NEXAR_ENOTSUP, "cancel: the other ranks are in this operation too; only "
                                      "messages and calls can be cancelled");
    }
    world = req->comm->world;
    nx_loop_lock(world->loop);
    if (!req->done) {
        req->ops->cancel(req);
        nx_loop_kick(world->loop);
    }
    nx_loop_unlock(world->loop);
    return NEXAR_OK;
}

nexar_err nexar_event_fd(nexar_comm *world, int *fd)
{
    NX_NOT_CANCELLED;
    nx_world *w;
    nexar_err err;

    if ((world == NULL) || (fd == NULL)) {
        return nx_fail(NEXAR_EINVAL, "event_fd: %s is NULL", (fd == NULL) ? "fd" : "world");
    }
    w = world->world;
    err = nx_forked_check("event_fd", w);
    if (err != NEXAR_OK) {
        return err;
    }
    nx_loop_lock(w->loop);
    if (w->event_fd < 0) {
        w->event_fd = nx_sys_eventfd((w->unclaimed != 0) ? 1 : 0);
        if (w->event_fd < 0) {
            err = nx_fail_sys("eventfd", "", errno);
        }
    }
    if (err == NEXAR_OK) {
        *fd = w->event_fd;
    }
    nx_loop_unlock(w->loop);
    return err;
}
