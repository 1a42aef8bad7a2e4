/* comm_change.c - nexar_last_change, nexar_last_change_ranks, nexar_on_change. */
#include "core/comm/comm_change.h"

#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/os/cancellation.h"
#include "core/world/fork_guard.h"

/* ---- the changed ranks ------------------------------------------------------------------ */

static size_t count_all(const nexar_change *change)
{
    return (size_t)change->joined + (size_t)change->left + (size_t)change->failed;
}

/* Enters the ranks of |gone| that are in |some|, or those that are not. */
static int *enter(int *at, const nx_rankset *gone, const nx_rankset *some, bool in)
{
    for (uint32_t rank = 0; (rank = nx_rankset_next(gone, rank)) < gone->n; rank++) {
        if (nx_rankset_has(some, rank) == in) {
            *at++ = (int)rank;
        }
    }
    return at;
}

nexar_err nx_change_keep(nx_incarnation *next, const nx_rankset *gone, const nx_rankset *some,
                         nexar_change_kind they)
{
    const nexar_change *change = &next->change;
    int *at = nx_calloc(count_all(change) + 1, sizeof(*at));

    if (at == NULL) {
        return nx_fail_nomem("a communicator");
    }
    next->changed = at;
    for (int i = change->joined; i > 0; i--) {
        *at++ = change->new_size - i;
    }
    at = enter(at, gone, some, they == NEXAR_CHANGE_LEFT);
    (void)enter(at, gone, some, they == NEXAR_CHANGE_FAILED);
    return NEXAR_OK;
}

nexar_err nx_change_copy(nx_incarnation *next, const nx_incarnation *old)
{
    const size_t bytes = count_all(&old->change) * sizeof(*old->changed);

    if ((old->changed != NULL) && (bytes > 0)) {
        next->changed = nx_zalloc(bytes);
        if (next->changed == NULL) {
            return nx_fail_nomem("a communicator");
        }
        memcpy(next->changed, old->changed, bytes);
        next->change = old->change;
    }
    return NEXAR_OK;
}

/* ---- the application's function --------------------------------------------------------- */

typedef struct change_call {
    nx_job job;
    nx_list link; /* in comm->changes; the first one runs */
    nexar_comm *comm;
    nexar_change_fn fn;
    void *arg;
    nexar_change change;
} change_call;

static void change_work(nx_job *job)
{
    const change_call *c = nx_list_entry(job, change_call, job);

    c->fn(c->comm, &c->change, c->arg);
}

static void drop_call(change_call *c)
{
    nx_list_remove(&c->link);
    nx_free(c);
}

/* Runs the first of |comm|, if there is one. */
static void run_first(nexar_comm *comm)
{
    while (!nx_list_empty(&comm->changes)) {
        change_call *c = nx_list_entry(comm->changes.next, change_call, link);

        if (nx_world_work(comm->world, &c->job) == NEXAR_OK) {
            return;
        }
        nx_log(NX_LOG_WARN, "the application is not told that a communicator has changed: %s",
               nexar_last_error());
        drop_call(c);
        nx_world_end(comm->world);
        nx_comm_release(comm);
    }
}

static void change_done(nx_job *job)
{
    change_call *c = nx_list_entry(job, change_call, job);
    nexar_comm *comm = c->comm;

    drop_call(c);
    run_first(comm);
    nx_world_end(comm->world);
    nx_comm_release(comm);
}

void nx_change_tell(nexar_comm *comm, const nexar_change *change)
{
    const bool first = nx_list_empty(&comm->changes);
    change_call *c;

    if ((comm->on_change == NULL) || comm->world->closing) {
        return;
    }
    c = nx_zalloc(sizeof(*c));
    if (c == NULL) {
        nx_log(NX_LOG_WARN, "no memory to tell the application that a communicator has changed");
        return;
    }
    *c = (change_call){.job = {.work = change_work, .done = change_done},
                       .comm = comm,
                       .fn = comm->on_change,
                       .arg = comm->on_change_arg,
                       .change = *change};
    nx_list_push_back(&comm->changes, &c->link);
    nx_comm_hold(comm);
    nx_world_begin(comm->world); /* finalize waits */
    if (first) {
        nx_comm_hold(comm); /* the function may fail, and free the communicator */
        run_first(comm);
        nx_comm_release(comm);
    }
}

void nx_changes_drop(nexar_comm *comm)
{
    while (!nx_list_empty(&comm->changes)) {
        drop_call(nx_list_entry(comm->changes.next, change_call, link));
    }
}

/* ---- public ----------------------------------------------------------------------------- */

static nexar_err check(const char *name, const nexar_comm *comm, const void *out, const char *what)
{
    if ((comm == NULL) || (out == NULL)) {
        return nx_fail(NEXAR_EINVAL, "%s: %s is NULL", name, (comm == NULL) ? "comm" : what);
    }
    return nx_fork_guard_check(name, comm->world);
}

nexar_err nexar_last_change(nexar_comm *comm, nexar_change *change)
{
    NX_NOT_CANCELLED;
    nexar_err err = check("last_change", comm, change, "change");

    if (err == NEXAR_OK) {
        nx_loop_lock(comm->world->loop);
        *change = comm->inc->change;
        nx_loop_unlock(comm->world->loop);
    }
    return err;
}

/* The ranks of |kind| that |inc| keeps; returns their number. */
static size_t ranks_of(const nx_incarnation *inc, nexar_change_kind kind, const int **first)
{
    const nexar_change *c = &inc->change;

    *first = inc->changed;
    if (inc->changed == NULL) {
        return 0;
    }
    switch (kind) {
    case NEXAR_CHANGE_JOINED:
        return (size_t)c->joined;
    case NEXAR_CHANGE_LEFT:
        *first += c->joined;
        return (size_t)c->left;
    case NEXAR_CHANGE_FAILED:
        *first += c->joined + c->left;
        return (size_t)c->failed;
    }
    return 0;
}

nexar_err nexar_last_change_ranks(nexar_comm *comm, nexar_change_kind kind, int ranks[], size_t *n)
{
    NX_NOT_CANCELLED;
    nexar_err err = check("last_change_ranks", comm, n, "n");
    const int *first;
    size_t found;

    if (err != NEXAR_OK) {
        return err;
    }
    if ((ranks == NULL) && (*n > 0)) {
        return nx_fail(NEXAR_EINVAL, "last_change_ranks: ranks is NULL, with room for %zu", *n);
    }
    if ((unsigned)kind > NEXAR_CHANGE_FAILED) {
        return nx_fail(NEXAR_EINVAL, "last_change_ranks: there is no kind of change %d", (int)kind);
    }
    nx_loop_lock(comm->world->loop);
    found = ranks_of(comm->inc, kind, &first);
    for (size_t i = 0; (i < found) && (i < *n); i++) {
        ranks[i] = first[i];
    }
    nx_loop_unlock(comm->world->loop);
    *n = found;
    return NEXAR_OK;
}

nexar_err nexar_on_change(nexar_comm *comm, nexar_change_fn fn, void *arg)
{
    NX_NOT_CANCELLED;
    nexar_err err = check("on_change", comm, comm, "comm");

    if (err == NEXAR_OK) {
        nx_loop_lock(comm->world->loop);
        comm->on_change = fn;
        comm->on_change_arg = arg;
        nx_loop_unlock(comm->world->loop);
    }
    return err;
}
