/*
 * completion.c - wait and test: one request, all, any, some, with and without a time-out.
 *
 * A request is complete when it is done and its outcome may be returned (nx_recovery_await).
 * Only then is it claimed: the caller gets its outcome and the request is freed.
 */
#include "base/os/cancellation.h"
#include "base/text/sentence.h"
#include "base/text/text.h"
#include "core/recovery/recovery.h"
#include "core/report/pending.h"
#include "core/request.h"
#include "core/world/fork_guard.h"

/* Gives the outcome of |*req|, which is complete, to the application and frees the request. */
static nexar_err claim(nexar_request **req, nexar_status *status)
{
    nx_world *world = (*req)->comm->world;
    nexar_err err;

    nx_recovery_claim(*req);
    err = (*req)->ops->finish(*req, status);
    nx_world_unclaimed(world, -1);
    nx_request_destroy(*req);
    *req = NULL;
    return err;
}

static bool is_complete(const nexar_request *req)
{
    return req->done && nx_recovery_await(req, 0);
}

/* Waits for |event| until |deadline_ns|.  Reports describe the wait as for |req|, by |name|. */
static void wait_event(const nexar_request *req, const char *name, nx_event *event,
                       uint64_t deadline_ns)
{
    nx_world *world = req->comm->world;
    nx_blocked b = {0};

    if (req->ops->what == NULL) {
        nx_oplog_enter(&world->log);
        (void)nx_loop_wait(world->loop, event, deadline_ns);
        nx_oplog_leave(&world->log);
        return;
    }
    req->ops->what(req, &b);
    b.what.name = name;
    nx_oplog_block(&world->log, &b, nx_loop_now(world->loop));
    (void)nx_loop_wait(world->loop, event, deadline_ns);
    nx_oplog_unblock(&world->log, &b, nx_loop_now(world->loop), NEXAR_OK);
}

/* A thread that waits without a time-out does some of the request's work.  A thread with a time-out
 * does not: that work can take longer than the time-out. */
static void help(nexar_request *req, const nx_event *until, uint64_t deadline_ns)
{
    if ((req->ops->help != NULL) && (deadline_ns == UINT64_MAX)) {
        req->ops->help(req, until);
    }
}

/* Waits until |req| is complete.  False: the deadline |deadline_ns| has passed. */
static bool await_one(nexar_request *req, const char *name, uint64_t deadline_ns)
{
    if (!req->done) {
        help(req, &req->event, deadline_ns);
    }
    if (!req->done) {
        (void)nx_loop_refresh(req->comm->world->loop);
        wait_event(req, name, &req->event, deadline_ns);
    }
    return req->done && nx_recovery_await(req, deadline_ns);
}

/* The time on |loop| after |timeout_ns|; UINT64_MAX: never. */
static uint64_t deadline_after(const nx_loop *loop, uint64_t timeout_ns)
{
    const uint64_t now = nx_loop_now(loop);

    return (timeout_ns < UINT64_MAX - now) ? now + timeout_ns : UINT64_MAX;
}

/* Describes |req| for messages. */
static const char *text_of(const nexar_request *req, char buf[NX_WHAT_TEXT])
{
    nx_blocked b = {0};

    if (req->ops->what == NULL) {
        return "a collective";
    }
    req->ops->what(req, &b);
    return nx_pending_text(req->comm->world, &b.what, buf);
}

/* Of the |n| requests |missing| were not complete, |first| of all.  With the lock of |first|. */
static nexar_err timed_out(const char *name, const nexar_request *first, size_t missing, size_t n,
                           uint64_t timeout_ns)
{
    char span[NX_NUMBER_ROOM], what[NX_WHAT_TEXT];

    (void)nx_format_duration(timeout_ns, span);
    return (n == 1) ? nx_fail(NEXAR_ETIMEDOUT, "%s: %s had not completed after %s", name,
                              text_of(first, what), span)
                    : nx_fail(NEXAR_ETIMEDOUT,
                              "%s: %zu of %zu requests had not completed after %s; the first: %s",
                              name, missing, n, span, text_of(first, what));
}

/* ---- one -------------------------------------------------------------------------- */

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
    err = nx_fork_guard_check("wait", (*req)->comm->world);
    if (err != NEXAR_OK) {
        return err;
    }
    loop = (*req)->comm->world->loop;
    nx_loop_enter(loop);
    (void)await_one(*req, "wait", UINT64_MAX);
    err = claim(req, status);
    nx_loop_unlock(loop);
    return err;
}

nexar_err nexar_wait_for(nexar_request **req, uint64_t timeout_ns, nexar_status *status)
{
    NX_NOT_CANCELLED;
    nx_loop *loop;
    nexar_err err;

    if (req == NULL) {
        return nx_fail(NEXAR_EINVAL, "wait_for: req is NULL");
    }
    if (*req == NULL) {
        return NEXAR_OK;
    }
    err = nx_fork_guard_check("wait_for", (*req)->comm->world);
    if (err != NEXAR_OK) {
        return err;
    }
    loop = (*req)->comm->world->loop;
    nx_loop_lock(loop);
    err = await_one(*req, "wait_for", deadline_after(loop, timeout_ns))
              ? claim(req, status)
              : timed_out("wait_for", *req, 1, 1, timeout_ns);
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
    err = nx_fork_guard_check("test", (*req)->comm->world);
    if (err != NEXAR_OK) {
        return err;
    }
    loop = (*req)->comm->world->loop;
    nx_loop_lock(loop);
    if (!(*req)->done) {
        nx_loop_kick(loop);
    }
    *done = is_complete(*req);
    if (!*done) {
        nx_loop_pass(loop, (*req)->ops->help != NULL);
        return NEXAR_OK;
    }
    err = claim(req, status);
    nx_loop_unlock(loop);
    return err;
}

/* ---- all --------------------------------------------------------------------------- */

/* The first error of several, with its message. */
typedef struct first_error {
    nexar_err err;
    char sentence[NX_ERROR_ROOM];
} first_error;

static void note(first_error *first, nexar_err err)
{
    if ((err != NEXAR_OK) && (first->err == NEXAR_OK)) {
        first->err = err;
        (void)nx_sentence(first->sentence, sizeof(first->sentence), "%s", nexar_last_error());
    }
}

static nexar_err outcome(const first_error *first)
{
    return (first->err == NEXAR_OK) ? NEXAR_OK : nx_fail(first->err, "%s", first->sentence);
}

/* Waits for one request after another. */
static nexar_err claim_all(size_t n, nexar_request *reqs[])
{
    first_error first = {.err = NEXAR_OK};

    for (size_t i = 0; i < n; i++) {
        note(&first, nexar_wait(&reqs[i], NULL));
    }
    return outcome(&first);
}

/* NEXAR_EINVAL: there is no array, or a request belongs to another process. */
static nexar_err check_all(const char *name, size_t n, nexar_request *const reqs[])
{
    nexar_err err = NEXAR_OK;

    if ((reqs == NULL) && (n != 0)) {
        return nx_fail(NEXAR_EINVAL, "%s: reqs is NULL", name);
    }
    for (size_t i = 0; (err == NEXAR_OK) && (i < n); i++) {
        err = (reqs[i] == NULL) ? NEXAR_OK : nx_fork_guard_check(name, reqs[i]->comm->world);
    }
    return err;
}

nexar_err nexar_wait_all(size_t n, nexar_request *reqs[])
{
    NX_NOT_CANCELLED;
    const nexar_err err = check_all("wait_all", n, reqs);

    return (err == NEXAR_OK) ? claim_all(n, reqs) : err;
}

/* Waits for |req| for at most |*left_ns|, and subtracts the elapsed time. */
static bool await_for(nexar_request *req, uint64_t *left_ns)
{
    nx_loop *loop = req->comm->world->loop;
    uint64_t begun, passed;
    bool complete;

    nx_loop_lock(loop);
    begun = nx_loop_now(loop);
    complete = await_one(req, "wait_all_for", deadline_after(loop, *left_ns));
    passed = nx_loop_now(loop) - begun;
    nx_loop_unlock(loop);
    *left_ns -= (passed < *left_ns) ? passed : *left_ns;
    return complete;
}

/* Reports that |missing| of |n| requests, |first| among them, were not complete. */
static nexar_err not_all(nexar_request *first, size_t missing, size_t n, uint64_t timeout_ns)
{
    nexar_err err;

    nx_loop_lock(first->comm->world->loop);
    err = timed_out("wait_all_for", first, missing, n, timeout_ns);
    nx_loop_unlock(first->comm->world->loop);
    return err;
}

nexar_err nexar_wait_all_for(size_t n, nexar_request *reqs[], uint64_t timeout_ns)
{
    NX_NOT_CANCELLED;
    const nexar_err err = check_all("wait_all_for", n, reqs);
    nexar_request *first = NULL;
    uint64_t left_ns = timeout_ns;
    size_t missing = 0;

    for (size_t i = 0; (err == NEXAR_OK) && (i < n); i++) {
        if ((reqs[i] != NULL) && !await_for(reqs[i], &left_ns)) {
            first = (missing++ == 0) ? reqs[i] : first;
        }
    }
    if (err != NEXAR_OK) {
        return err;
    }
    return (missing == 0) ? claim_all(n, reqs) : not_all(first, missing, n, timeout_ns);
}

/* Whether |req| is complete after one poll. */
static bool poll_one(nexar_request *req)
{
    nx_loop *loop = req->comm->world->loop;
    bool complete;

    nx_loop_lock(loop);
    if (!req->done) {
        nx_loop_kick(loop);
    }
    complete = is_complete(req);
    if (complete) {
        nx_loop_unlock(loop);
    } else {
        nx_loop_pass(loop, req->ops->help != NULL);
    }
    return complete;
}

nexar_err nexar_test_all(size_t n, nexar_request *reqs[], bool *done)
{
    NX_NOT_CANCELLED;
    nexar_err err = check_all("test_all", n, reqs);
    bool all = true;

    if (done == NULL) {
        return nx_fail(NEXAR_EINVAL, "test_all: done is NULL");
    }
    if (err != NEXAR_OK) {
        return err;
    }
    for (size_t i = 0; all && (i < n); i++) {
        all = (reqs[i] == NULL) || poll_one(reqs[i]);
    }
    *done = all;
    return all ? claim_all(n, reqs) : NEXAR_OK;
}

/* ---- any and some ------------------------------------------------------------------ */

/* The first request that is done; n: none is. */
static size_t find_done(size_t n, nexar_request *const reqs[])
{
    size_t i = 0;

    while ((i < n) && ((reqs[i] == NULL) || !reqs[i]->done)) {
        i++;
    }
    return i;
}

/* The first request that is not NULL. */
static nexar_request *find_active(size_t n, nexar_request *const reqs[])
{
    size_t i = 0;

    while ((i + 1 < n) && (reqs[i] == NULL)) {
        i++;
    }
    return reqs[i];
}

/* Makes all requests also set |event|; NULL: none. */
static void point_events(size_t n, nexar_request *const reqs[], nx_event *event)
{
    for (size_t i = 0; i < n; i++) {
        if (reqs[i] != NULL) {
            reqs[i]->any = event;
        }
    }
}

/* A thread that waits for any request helps if all requests are in the queue of one communicator,
 * where the first one completes first.  Otherwise helping one would delay the others. */
static void help_any(size_t n, nexar_request *const reqs[], const nx_event *any,
                     uint64_t deadline_ns)
{
    nexar_request *first = NULL;

    for (size_t i = 0; i < n; i++) {
        if (reqs[i] == NULL) {
            continue;
        }
        first = (first == NULL) ? reqs[i] : first;
        if ((reqs[i]->ops->help == NULL) || (reqs[i]->comm != first->comm)) {
            return;
        }
    }
    if (first != NULL) {
        help(first, any, deadline_ns);
    }
}

/* |*world| is the world of all requests.  NEXAR_EINVAL: they belong to two worlds, or every request
 * is NULL. */
static nexar_err check_any(const char *name, size_t n, nexar_request *const reqs[],
                           nx_world **world)
{
    const nx_world *of = NULL;

    if ((reqs == NULL) && (n != 0)) {
        return nx_fail(NEXAR_EINVAL, "%s: reqs is NULL", name);
    }
    for (size_t i = 0; i < n; i++) {
        if ((reqs[i] != NULL) && (of != NULL) && (reqs[i]->comm->world != of)) {
            return nx_fail(NEXAR_EINVAL, "%s: request %zu belongs to another world", name, i);
        }
        of = (reqs[i] != NULL) ? (*world = reqs[i]->comm->world) : of;
    }
    if (of == NULL) {
        return nx_fail(NEXAR_EINVAL, "%s: none of the %zu requests is active", name, n);
    }
    return nx_fork_guard_check(name, of);
}

/* Waits until one of the requests is complete; returns its index, or n when |deadline_ns| has
 * passed. */
static size_t await_any(const char *name, size_t n, nexar_request *const reqs[],
                        uint64_t deadline_ns)
{
    const nx_world *world = find_active(n, reqs)->comm->world;
    nx_event any = {0};
    size_t i;

    for (i = find_done(n, reqs); i == n; i = find_done(n, reqs)) {
        any.set = false;
        point_events(n, reqs, &any);
        help_any(n, reqs, &any, deadline_ns);
        wait_event(find_active(n, reqs), name, &any, deadline_ns);
        point_events(n, reqs, NULL);
        if ((nx_loop_now(world->loop) >= deadline_ns) && (find_done(n, reqs) == n)) {
            return n;
        }
    }
    return nx_recovery_await(reqs[i], deadline_ns) ? i : n;
}

static nexar_err wait_any(const char *name, size_t n, nexar_request *reqs[], uint64_t timeout_ns,
                          size_t *index, nexar_status *status)
{
    nx_world *world = NULL;
    nexar_err err;
    size_t i;

    if (index == NULL) {
        return nx_fail(NEXAR_EINVAL, "%s: index is NULL", name);
    }
    err = check_any(name, n, reqs, &world);
    if (err != NEXAR_OK) {
        *index = (world == NULL) ? n : *index;
        return err;
    }
    nx_loop_lock(world->loop);
    i = await_any(name, n, reqs, deadline_after(world->loop, timeout_ns));
    err =
        (i < n) ? claim(&reqs[i], status) : timed_out(name, find_active(n, reqs), n, n, timeout_ns);
    nx_loop_unlock(world->loop);
    *index = (i < n) ? i : *index;
    return err;
}

nexar_err nexar_wait_any(size_t n, nexar_request *reqs[], size_t *index, nexar_status *status)
{
    NX_NOT_CANCELLED;
    return wait_any("wait_any", n, reqs, UINT64_MAX, index, status);
}

nexar_err nexar_wait_any_for(size_t n, nexar_request *reqs[], uint64_t timeout_ns, size_t *index,
                             nexar_status *status)
{
    NX_NOT_CANCELLED;
    return wait_any("wait_any_for", n, reqs, timeout_ns, index, status);
}

nexar_err nexar_test_any(size_t n, nexar_request *reqs[], bool *done, size_t *index,
                         nexar_status *status)
{
    NX_NOT_CANCELLED;
    nx_world *world = NULL;
    nexar_err err;
    size_t i = 0;

    if ((done == NULL) || (index == NULL)) {
        return nx_fail(NEXAR_EINVAL, "test_any: %s is NULL", (done == NULL) ? "done" : "index");
    }
    err = check_any("test_any", n, reqs, &world);
    if (err != NEXAR_OK) {
        *index = (world == NULL) ? n : *index;
        return err;
    }
    nx_loop_lock(world->loop);
    nx_loop_kick(world->loop);
    while ((i < n) && ((reqs[i] == NULL) || !is_complete(reqs[i]))) {
        i++;
    }
    *done = (i < n);
    if (!*done) {
        nx_loop_pass(world->loop, find_active(n, reqs)->ops->help != NULL);
        return NEXAR_OK;
    }
    *index = i;
    err = claim(&reqs[i], status);
    nx_loop_unlock(world->loop);
    return err;
}

nexar_err nexar_wait_some(size_t n, nexar_request *reqs[], size_t indices[], nexar_err errs[],
                          size_t *done)
{
    NX_NOT_CANCELLED;
    first_error first = {.err = NEXAR_OK};
    nx_world *world = NULL;
    nexar_err err;

    if ((done == NULL) || ((indices == NULL) && (n != 0))) {
        return nx_fail(NEXAR_EINVAL, "wait_some: %s is NULL", (done == NULL) ? "done" : "indices");
    }
    err = check_any("wait_some", n, reqs, &world);
    *done = ((err == NEXAR_OK) || (world == NULL)) ? 0 : *done;
    if ((err != NEXAR_OK) || (world == NULL)) {
        return err;
    }
    nx_loop_lock(world->loop);
    for (size_t i = await_any("wait_some", n, reqs, UINT64_MAX); i < n; i++) {
        if ((reqs[i] != NULL) && is_complete(reqs[i])) {
            err = claim(&reqs[i], NULL);
            note(&first, err);
            if (errs != NULL) {
                errs[*done] = err;
            }
            indices[(*done)++] = i;
        }
    }
    nx_loop_unlock(world->loop);
    return outcome(&first);
}
