/* recovery_wait.c - threads and requests that wait until the application can be notified. */
#include "base/log.h"
#include "base/text/sentence.h"
#include "recovery.h"

/* A thread that waits until a communicator can be rebuilt. */
typedef struct waiter {
    nx_list link; /* in comm->waiting */
    nx_event event;
} waiter;

/* Whether the application can be notified. */
static bool is_ready(const nx_incarnation *inc)
{
    const nx_recovery *r = &inc->recovery;

    return (r->state == NX_LOST) || ((r->state == NX_REPAIRED) && (r->inside == 0));
}

void nx_recovery_wake(nx_incarnation *inc)
{
    nx_recovery *r = &inc->recovery;
    nx_list *at;

    nx_list_for_each (w, &inc->comm->waiting) {
        nx_event_set(inc->world->loop, &nx_list_entry(w, waiter, link)->event);
    }
    while (is_ready(inc) && ((at = nx_list_pop(&r->due)) != NULL)) {
        nx_request_done(nx_list_entry(at, nexar_request, due));
    }
}

/* ---- collectives --------------------------------------------------------------------------- */

void nx_recovery_enter(nx_incarnation *inc)
{
    inc->recovery.inside++;
}

void nx_recovery_leave(nx_incarnation *inc)
{
    inc->recovery.inside--;
    nx_recovery_wake(inc);
}

bool nx_recovery_wait_change(nexar_comm *comm, uint64_t deadline_ns)
{
    nx_world *world = comm->world;
    waiter m = {.event = {0}};
    bool changed;

    nx_list_push_back(&comm->waiting, &m.link);
    nx_oplog_enter(&world->log);
    changed = nx_loop_wait(world->loop, &m.event, deadline_ns);
    nx_oplog_leave(&world->log);
    nx_list_remove(&m.link);
    return changed;
}

static bool is_active(const nx_incarnation *inc)
{
    return (inc->comm != NULL) && (inc->comm->active == inc);
}

/* Waits until |inc| is ready, or until another thread has replaced it.  False: |deadline_ns| has
 * passed first. */
static bool wait_ready(const nx_incarnation *inc, uint64_t deadline_ns)
{
    while (is_active(inc) && !is_ready(inc)) {
        if (nx_loop_now(inc->world->loop) >= deadline_ns) {
            return false;
        }
        (void)nx_recovery_wait_change(inc->comm, deadline_ns);
    }
    return true;
}

nexar_err nx_recovery_after(nx_incarnation *inc, nexar_err err)
{
    char sentence[NX_ERROR_ROOM];

    if ((err != NEXAR_EPEER) || (inc->rescue == NULL) || !is_active(inc)) {
        return err;
    }
    (void)nx_sentence(sentence, sizeof(sentence), "%s", nexar_last_error());
    nx_recovery_begin(inc, sentence);
    (void)wait_ready(inc, UINT64_MAX);
    if (is_active(inc)) {
        if (inc->recovery.state == NX_LOST) {
            return nx_fail(NEXAR_EPEER, "%s; it is not rebuilt: %s", sentence, inc->recovery.why);
        }
        err = nx_recovery_advance(inc->comm);
    }
    return (err == NEXAR_ENOMEM) ? err : nx_fail(NEXAR_EPEER, "%s", sentence);
}

void nx_recovery_request_done(nexar_request *req, nexar_err err)
{
    nx_incarnation *inc = req->inc;

    if ((err == NEXAR_EPEER) && (inc->rescue != NULL) && is_active(inc)) {
        nx_recovery_want(inc);
        req->mends = true;
        if (!is_ready(inc)) {
            nx_list_push_back(&inc->recovery.due, &req->due);
            return;
        }
    }
    nx_request_done(req);
}

bool nx_recovery_await(const nexar_request *req, uint64_t deadline_ns)
{
    return !req->mends || wait_ready(req->inc, deadline_ns);
}

void nx_recovery_claim(nexar_request *req)
{
    const nx_incarnation *inc = req->inc;

    (void)nx_recovery_await(req, UINT64_MAX);
    if (req->mends && is_active(inc) && (inc->recovery.state == NX_REPAIRED) && !inc->comm->freed &&
        (nx_recovery_advance(inc->comm) != NEXAR_OK)) {
        nx_log(NX_LOG_WARN, "a communicator is rebuilt later: %s", nexar_last_error());
    }
}

nexar_err nx_recovery_wait_mended(const nx_incarnation *inc)
{
    const nx_recovery *r = &inc->recovery;

    while (!is_ready(inc)) {
        (void)nx_recovery_wait_change(inc->comm, UINT64_MAX);
    }
    if (r->state == NX_LOST) {
        return nx_fail(NEXAR_EPEER, "%s; it is not rebuilt: %s", inc->group.broken_why, r->why);
    }
    return NEXAR_OK;
}

nexar_err nx_recovery_rebuild(nx_incarnation *inc, const char *name)
{
    nexar_comm *comm = inc->comm;
    char sentence[NX_ERROR_ROOM];
    nexar_err err;

    (void)nx_sentence(sentence, sizeof(sentence), "%s", inc->group.broken_why);
    (void)wait_ready(inc, UINT64_MAX);
    if (inc->recovery.state == NX_LOST) {
        return nx_fail(NEXAR_EPEER, "%s: %s; it is not rebuilt: %s", name, sentence,
                       inc->recovery.why);
    }
    err = nx_recovery_advance(comm);
    if (err != NEXAR_OK) {
        return err;
    }
    nx_comm_show(comm, comm->active);
    return nx_fail(NEXAR_EPEER, "%s: %s", name, sentence);
}
