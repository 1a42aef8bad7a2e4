/* request.c - the life of requests; cancellation and event_fd. */
#include "core/request.h"

#include <errno.h>
#include <sys/eventfd.h>

#include "base/alloc.h"
#include "base/os/cancellation.h"
#include "base/os/sys.h"
#include "core/recovery/recovery.h"
#include "core/world/fork_guard.h"

/* ---- life ---------------------------------------------------------------------- */

void nx_request_init(nexar_request *req, const nx_request_ops *ops, nexar_comm *comm)
{
    req->ops = ops;
    req->comm = comm;
    req->inc = nx_incarnation_hold(comm->inc);
    nx_comm_hold(comm);
    nx_list_push_back(&comm->world->requests, &req->link);
    nx_list_init(&req->due);
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
    nx_incarnation *inc = req->inc;
    nexar_comm *comm = req->comm;

    nx_list_remove(&req->link);
    nx_list_remove(&req->due);
    req->ops->destroy(req);
    nx_incarnation_release(inc);
    nx_comm_release(comm);
}

void nx_requests_free(nx_world *world)
{
    while (!nx_list_empty(&world->requests)) {
        nx_request_destroy(nx_list_entry(world->requests.next, nexar_request, link));
    }
    nx_p2p_free_spare(world);
}

/* ---- public ----------------------------------------------------------------------- */

nexar_err nexar_cancel(nexar_request *req)
{
    NX_NOT_CANCELLED;
    nx_world *world;
    nexar_err err;

    if (req == NULL) {
        return nx_fail(NEXAR_EINVAL, "cancel: req is NULL");
    }
    err = nx_fork_guard_check("cancel", req->comm->world);
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
    err = nx_fork_guard_check("event_fd", w);
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
