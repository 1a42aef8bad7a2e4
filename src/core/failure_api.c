/* failure_api.c - the calls about failures. */
#include <stdio.h>

#include "base/clock.h"
#include "core/accord.h"
#include "core/failure.h"
#include "core/forked.h"
#include "core/recover.h"
#include "core/roster.h"
#include "core/update.h"

static nexar_err check(const char *name, const nexar_comm *comm, const void *out, const char *what)
{
    if ((comm == NULL) || (out == NULL)) {
        return nx_fail(NEXAR_EINVAL, "%s: %s is NULL", name, (comm == NULL) ? "comm" : what);
    }
    return nx_forked_check(name, comm->world);
}

nexar_err nexar_comm_failed(nexar_comm *comm, int ranks[], size_t *n)
{
    nexar_err err = check("comm_failed", comm, n, "n");
    size_t found = 0;

    if (err != NEXAR_OK) {
        return err;
    }
    if ((ranks == NULL) && (*n > 0)) {
        return nx_fail(NEXAR_EINVAL, "comm_failed: ranks is NULL, with room for %zu", *n);
    }
    nx_loop_lock(comm->world->loop);
    for (uint32_t rank = 0; rank < comm->known_size; rank++) {
        const nx_roster *shown = comm->recovery.shown;
        const uint32_t slot = (shown == NULL) ? nx_comm_peer(comm, rank) : shown->slots[rank];

        if (nx_rankset_has(nx_failure_dead(comm->world), slot)) {
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
    nexar_err err = check("on_failure", comm, comm, "comm");

    if (err != NEXAR_OK) {
        return err;
    }
    nx_loop_lock(comm->world->loop);
    if (comm->called.words == NULL) {
        err = nx_rankset_init(&comm->called, comm->size);
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
    nexar_err err = check("comm_revoke", comm, comm, "comm");

    if (err == NEXAR_OK) {
        nx_loop_lock(comm->world->loop);
        err = nx_accord_revoke(comm);
        nx_loop_kick(comm->world->loop);
        nx_loop_unlock(comm->world->loop);
    }
    return err;
}

/* Whom an agreement has left out has failed, also where the news of it have not come yet:
 * what is asked or called for after it shall not say otherwise. */
static void learn_failed(nexar_comm *comm, const nx_rankset *failed)
{
    char why[NX_FAILURE_WHY], at[NX_TIME_TEXT];

    (void)snprintf(why, sizeof(why), "the others have agreed that it has, at %s", nx_time_text(at));
    for (uint32_t rank = 0; (rank = nx_rankset_next(failed, rank)) < failed->n; rank++) {
        nx_failure_learn(comm->world, nx_comm_peer(comm, rank), why);
    }
    nx_failure_settle(comm->world);
}

nexar_err nexar_comm_agree(nexar_comm *comm, uint64_t *flags)
{
    nexar_err err = check("comm_agree", comm, flags, "flags");
    nx_outcome out = {0};

    if (err != NEXAR_OK) {
        return err;
    }
    nx_loop_lock(comm->world->loop);
    nx_recover_drain(comm);
    err = nx_accord_agree(comm, "comm_agree", *flags, &out);
    if (err == NEXAR_OK) {
        *flags = out.flags;
        learn_failed(comm, &out.failed);
        nx_rankset_fini(&out.failed);
    }
    nx_loop_unlock(comm->world->loop);
    return err;
}

nexar_err nexar_comm_shrink(nexar_comm *comm, nexar_comm **out)
{
    nexar_err err = check("comm_shrink", comm, (const void *)out, "out");
    nx_outcome outcome = {0};

    if (err != NEXAR_OK) {
        return err;
    }
    nx_loop_lock(comm->world->loop);
    nx_recover_drain(comm);
    err = nx_accord_agree(comm, "comm_shrink", UINT64_MAX, &outcome);
    if (err == NEXAR_OK) {
        learn_failed(comm, &outcome.failed);
        if (comm == comm->world->comm) {
            err =
                nx_update_enough("comm_shrink", comm->size - outcome.failed.count,
                                 (uint32_t)nx_config_number(comm->world->config, NX_SET_MIN_WORLD));
        }
        if (err == NEXAR_OK) {
            err = nx_comm_make_rest(comm, &outcome.failed, outcome.serial, out);
        }
        nx_rankset_fini(&outcome.failed);
    }
    nx_loop_unlock(comm->world->loop);
    return err;
}
