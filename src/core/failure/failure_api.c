/* failure_api.c - the calls about failures. */

#include "base/os/cancellation.h"
#include "base/text/sentence.h"
#include "core/agreement/agreement.h"
#include "core/failure/failure.h"
#include "core/recovery/retry_order.h"
#include "core/update/update.h"
#include "core/world/fork_guard.h"

static nexar_err check(const char *name, const nexar_comm *comm, const void *out, const char *what)
{
    if ((comm == NULL) || (out == NULL)) {
        return nx_fail(NEXAR_EINVAL, "%s: %s is NULL", name, (comm == NULL) ? "comm" : what);
    }
    return nx_fork_guard_check(name, comm->world);
}

nexar_err nexar_comm_failed(nexar_comm *comm, int ranks[], size_t *n)
{
    NX_NOT_CANCELLED;
    nexar_err err = check("comm_failed", comm, n, "n");
    size_t found = 0;

    if (err != NEXAR_OK) {
        return err;
    }
    if ((ranks == NULL) && (*n > 0)) {
        return nx_fail(NEXAR_EINVAL, "comm_failed: ranks is NULL, with room for %zu", *n);
    }
    nx_loop_lock(comm->world->loop);
    for (uint32_t rank = 0; rank < comm->inc->size; rank++) {
        if (nx_failure_life(comm->world, nx_incarnation_peer(comm->inc, rank)) == NX_LIFE_FAILED) {
            if (found < *n) {
                ranks[found] = (int)rank;
            }
            found++;
        }
    }
    nx_loop_unlock(comm->world->loop);
    *n = found;
    return NEXAR_OK;
}

nexar_err nexar_on_failure(nexar_comm *comm, nexar_failure_fn fn, void *arg)
{
    NX_NOT_CANCELLED;
    nexar_err err = check("on_failure", comm, comm, "comm");

    if (err != NEXAR_OK) {
        return err;
    }
    nx_loop_lock(comm->world->loop);
    if (comm->called.words == NULL) {
        err = nx_rankset_init(&comm->called, comm->world->slots);
    }
    if (err == NEXAR_OK) {
        comm->on_failure = fn;
        comm->on_failure_arg = arg;
        nx_rankset_clear(&comm->called);
        nx_failure_call(comm);
    }
    nx_loop_unlock(comm->world->loop);
    return err;
}

nexar_err nexar_comm_revoke(nexar_comm *comm)
{
    NX_NOT_CANCELLED;
    nexar_err err = check("comm_revoke", comm, comm, "comm");

    if (err == NEXAR_OK) {
        nx_loop_lock(comm->world->loop);
        err = nx_agreement_revoke(comm->active);
        nx_loop_kick(comm->world->loop);
        nx_loop_unlock(comm->world->loop);
    }
    return err;
}

nexar_err nexar_comm_agree(nexar_comm *comm, uint64_t *flags)
{
    NX_NOT_CANCELLED;
    nexar_err err = check("comm_agree", comm, flags, "flags");
    nx_outcome out = {0};
    nx_incarnation *inc;

    if (err != NEXAR_OK) {
        return err;
    }
    nx_loop_lock(comm->world->loop);
    nx_retry_order_drain(comm);
    inc = nx_incarnation_hold(comm->active);
    err = nx_agreement_agree(inc, "comm_agree", &(nx_agreement_input){.flags = *flags}, &out);
    if (err == NEXAR_OK) {
        *flags = out.flags;
        nx_failure_agreed(inc, &out.failed);
        nx_rankset_fini(&out.failed);
    }
    nx_incarnation_release(inc);
    nx_loop_unlock(comm->world->loop);
    return err;
}

static const char SHRINK[] = "comm_shrink";

/* Without memory for the agreed communicator, this rank leaves the world.  The other ranks have the
 * communicator, and detect there that this rank is gone. */
static nexar_err give_up(nx_world *world)
{
    char why[NX_ERROR_ROOM];

    (void)nx_sentence(why, sizeof(why), "%s", nexar_last_error());
    nx_failure_quit(world, "this rank could not take part in comm_shrink");
    return nx_fail(NEXAR_ENOMEM, "%s: this rank is out of the world: %s", SHRINK, why);
}

/* Creates |*out| from the agreement of all ranks of |inc|, an incarnation of |comm|. */
static nexar_err take_rest(nexar_comm *comm, const nx_incarnation *inc, const nx_outcome *outcome,
                           nexar_comm **out)
{
    nx_members who;
    nexar_err err =
        nx_update_enough(SHRINK, inc->size - outcome->failed.count, (uint32_t)outcome->highest);

    if (err != NEXAR_OK) {
        return err;
    }
    err = nx_incarnation_rest(inc, &outcome->failed, outcome->id, &who);
    if (err == NEXAR_OK) {
        err = nx_comm_create(comm, "shrink", &who, out);
    }
    return (err == NEXAR_ENOMEM) ? give_up(comm->world) : err;
}

nexar_err nexar_comm_shrink(nexar_comm *comm, nexar_comm **out)
{
    NX_NOT_CANCELLED;
    nexar_err err = check(SHRINK, comm, (const void *)out, "out");
    nx_agreement_input input = {.flags = UINT64_MAX};
    nx_outcome outcome = {0};
    nx_incarnation *inc;

    if (err != NEXAR_OK) {
        return err;
    }
    nx_loop_lock(comm->world->loop);
    nx_retry_order_drain(comm);
    inc = nx_incarnation_hold(comm->active);
    if (comm == comm->world->comm) { /* ranks may have different settings */
        input.highest = nx_config_number(comm->world->config, NX_SET_MIN_WORLD);
    }
    input.id = nx_comm_take_id(comm->world);
    err = nx_agreement_agree(inc, SHRINK, &input, &outcome);
    if (err == NEXAR_OK) {
        nx_failure_agreed(inc, &outcome.failed);
        err = take_rest(comm, inc, &outcome, out);
        nx_rankset_fini(&outcome.failed);
    }
    nx_incarnation_release(inc);
    nx_loop_unlock(comm->world->loop);
    return err;
}
