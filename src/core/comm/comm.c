/* comm.c - communicator handles: creation, change of incarnation, release. */
#include "comm.h"

#include <stdio.h>

#include "base/alloc.h"
#include "base/os/cancellation.h"
#include "base/text/sentence.h"
#include "comm_device.h"
#include "core/comm/comm_change.h"
#include "core/failure/failure.h"
#include "core/p2p/message.h"
#include "core/recovery/recovery.h"
#include "core/recovery/retry_queue.h"
#include "core/world/fork_guard.h"

/* ---- the swap ------------------------------------------------------------------------ */

/* The values that threads read without the lock.  A thread that reads the epoch before the seat
 * finds a different epoch under the lock if the seat does not belong to that epoch. */
static void publish(nexar_comm *comm)
{
    const nx_incarnation *inc = comm->inc;

    atomic_store(&comm->seat, (uint64_t)inc->rank << 32 | inc->size);
    atomic_store(&comm->epoch, inc->epoch);
}

void nx_comm_advance(nexar_comm *comm)
{
    nx_incarnation *old = comm->active;

    comm->active = old->next;
    nx_incarnation_close(old);
    if (!comm->retry.on) {
        nx_comm_show(comm, comm->active);
    }
}

void nx_comm_show(nexar_comm *comm, const nx_incarnation *inc)
{
    while (comm->inc->epoch < inc->epoch) {
        nx_incarnation *old = comm->inc;

        comm->inc = old->next;
        nx_incarnation_release(old);
        publish(comm);
        nx_change_tell(comm, &comm->inc->change);
    }
    publish(comm);
}

static void release_chain(nx_incarnation *inc)
{
    while (inc != NULL) {
        nx_incarnation *next = inc->next;

        nx_incarnation_release(inc);
        inc = next;
    }
}

void nx_comm_drop_unused(nexar_comm *comm)
{
    nx_incarnation *unused = comm->active->next;

    comm->active->next = NULL;
    for (nx_incarnation *inc = unused; inc != NULL; inc = inc->next) {
        nx_incarnation_close(inc);
    }
    release_chain(unused);
}

void nx_comm_replace(nexar_comm *comm, nx_incarnation *next)
{
    nx_incarnation *old = comm->inc;

    nx_comm_drop_unused(comm);
    next->epoch = comm->active->epoch + 1;
    if (comm->active->recovery.inside == 0) {
        nx_incarnation_close(comm->active);
    }
    comm->inc = comm->active = next;
    publish(comm);
    release_chain(old);
}

/* ---- life ---------------------------------------------------------------------------- */

/* A handle with its first incarnation, not yet visible to the application.  Takes |who->peers|,
 * also on error.  NEXAR_ENOMEM */
static nexar_err make(nx_world *world, const nx_members *who, nexar_comm **out)
{
    nexar_comm *comm = nx_zalloc(sizeof(*comm));
    nexar_err err;

    if (comm == NULL) {
        nx_free(who->peers);
        return nx_fail_nomem("a communicator");
    }
    comm->world = world;
    comm->holds = 1;
    comm->retry.on = nx_recovery_is_automatic(world) &&
                     (nx_config_choice(world->config, NX_SET_RETRY) == NX_RETRY_ON);
    nx_list_init(&comm->waiting);
    nx_list_init(&comm->changes);
    nx_list_init(&comm->retry.turns);
    err = nx_incarnation_open(comm, who, &comm->inc);
    if (err != NEXAR_OK) {
        nx_free(comm);
        return err;
    }
    comm->active = comm->inc;
    comm->handlers = who->id;
    publish(comm);
    *out = comm;
    return NEXAR_OK;
}

nexar_err nx_comm_world_members(const nx_world *world, uint32_t id, nx_members *out)
{
    const nx_view *view = world->view;

    *out = (nx_members){.id = id, .size = (view == NULL) ? 1 : view->size};
    if (view == NULL) {
        return NEXAR_OK;
    }
    out->rank = nx_view_slot(view, world->self)->rank;
    if (view->slots == view->size) {
        return NEXAR_OK;
    }
    out->peers = nx_calloc(view->size, sizeof(*out->peers));
    if (out->peers == NULL) {
        return nx_fail_nomem("a communicator");
    }
    for (uint32_t rank = 0; rank < view->size; rank++) {
        out->peers[rank] = view->members[rank].slot;
    }
    return NEXAR_OK;
}

nexar_err nx_comm_create_world(nx_world *world, uint32_t id)
{
    nx_members who;
    nexar_err err = nx_comm_world_members(world, id, &who);

    if (err == NEXAR_OK) {
        err = make(world, &who, &world->comm);
    }
    if (err == NEXAR_OK) {
        (void)snprintf(world->comm->name, sizeof(world->comm->name), "world");
        nx_failure_opened(world->comm->inc);
    }
    return err;
}

nexar_err nx_comm_create(nexar_comm *parent, const char *how, const nx_members *who,
                         nexar_comm **out)
{
    nexar_comm *comm = NULL;
    nexar_err err;

    if (who->id == 0) {
        nx_free(who->peers);
        return nx_fail(NEXAR_ENOTSUP,
                       "a communicator: its ranks have given out all ids that they have, %u each "
                       "at most",
                       nx_comm_id_last(0));
    }
    err = make(parent->world, who, &comm);
    if ((err == NEXAR_OK) && (comm != NULL)) {
        nx_comm_inherit_device(comm, parent);
        comm->timeout_ns = comm->inc->group.timeout_ns = parent->timeout_ns;
        nx_comm_name_child(comm, parent, how);
        nx_failure_opened(comm->inc);
        *out = comm;
    }
    return err;
}

static void destroy(nexar_comm *comm)
{
    nx_messages_lose(comm);
    nx_changes_drop(comm);
    nx_rankset_fini(&comm->called);
    nx_comm_drop_device(comm);
    nx_comm_drop_unused(comm);
    nx_incarnation_close(comm->active);
    release_chain(comm->inc);
    nx_free(comm->retry.kept.mem);
    nx_runner_retire(comm->retry.runner);
    nx_free(comm);
}

void nx_comm_hold(nexar_comm *comm)
{
    comm->holds++;
}

void nx_comm_release(nexar_comm *comm)
{
    nx_incarnation *inc = comm->active;

    if (--comm->holds == 0) {
        if (!comm->world->closing && !inc->revoked && !nx_recovery_is_automatic(comm->world)) {
            nx_group_detach(&inc->group, NX_DEPARTURE_FREED);
        }
        destroy(comm);
    }
}

void nx_comms_free(nx_world *world)
{
    while (!nx_list_empty(&world->incarnations)) {
        destroy(nx_list_entry(world->incarnations.next, nx_incarnation, link)->comm);
    }
    world->comm = NULL;
}

void nx_comm_give_back(nexar_comm *comm)
{
    comm->freed = true;
    nx_comm_drop_unused(comm);
    nx_comm_release(comm);
}

/* ---- accessors ----------------------------------------------------------------------- */

uint32_t nx_comm_take_id(nx_world *world)
{
    if (world->ids == nx_comm_id_last(world->self)) {
        return 0;
    }
    return nx_comm_id_make(world->self, ++world->ids);
}

nexar_err nx_comm_give_up(nx_incarnation *inc, uint32_t number, nexar_err err)
{
    char sentence[NX_ERROR_ROOM];

    (void)nx_sentence(sentence, sizeof(sentence), "rank %u: %s", inc->rank, nexar_last_error());
    nx_group_give_up(&inc->group, number, err, sentence);
    return nx_fail(err, "%s", sentence);
}

uint64_t nx_comm_timeout(const nexar_comm *comm)
{
    return nx_group_timeout(&comm->inc->group);
}

/* ---- public -------------------------------------------------------------------------- */

int nexar_rank(const nexar_comm *comm)
{
    return (comm == NULL) ? -1 : (int)nx_comm_seat(comm).rank;
}

int nexar_size(const nexar_comm *comm)
{
    return (comm == NULL) ? -1 : (int)nx_comm_seat(comm).size;
}

nexar_err nexar_comm_set_timeout(nexar_comm *comm, uint64_t timeout_ns)
{
    NX_NOT_CANCELLED;
    const uint64_t longest = UINT64_MAX / 4; /* so that deadlines do not overflow */
    nexar_err err;

    if (comm == NULL) {
        return nx_fail(NEXAR_EINVAL, "comm_set_timeout: comm is NULL");
    }
    err = nx_fork_guard_check("comm_set_timeout", comm->world);
    if (err != NEXAR_OK) {
        return err;
    }
    nx_loop_lock(comm->world->loop);
    comm->timeout_ns = (timeout_ns < longest) ? timeout_ns : longest;
    for (nx_incarnation *inc = comm->inc; inc != NULL; inc = inc->next) {
        inc->group.timeout_ns = comm->timeout_ns;
    }
    nx_loop_unlock(comm->world->loop);
    return NEXAR_OK;
}

void nexar_comm_free(nexar_comm *comm)
{
    NX_NOT_CANCELLED;
    nx_world *world;

    if ((comm == NULL) || (comm == comm->world->comm) ||
        (nx_fork_guard_check("comm_free", comm->world) != NEXAR_OK)) {
        return;
    }
    world = comm->world;
    nx_loop_lock(world->loop);
    nx_rpc_forget(world->rpc, comm->handlers);
    if (comm->retry.queued > 0) { /* they may need other ranks */
        comm->retry.free_due = true;
    } else {
        nx_comm_give_back(comm);
    }
    nx_loop_unlock(world->loop);
    nx_runners_reap(world);
}
