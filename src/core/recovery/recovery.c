/* recovery.c - replaces a communicator by one of the surviving ranks. */
#include "recovery.h"

#include <stdio.h>

#include "auto_shrink.h"
#include "base/alloc.h"
#include "base/log.h"
#include "base/os/cancellation.h"
#include "base/text/sentence.h"
#include "core/agreement/agreement.h"
#include "core/comm/comm_change.h"
#include "core/failure/failure.h"

/* Bits in the flags of a rescue: the rank was in the agreement of an update; the rank has not given
 * up an operation because of a time-out, a device error or lack of memory.  The other bits are
 * those of errors (commit.h), none of which uses these bits. */
#define FLAG_UPDATING    UINT64_C(1)
#define FLAG_IN_TIME     (UINT64_C(1) << 31)
#define FLAG_DEVICE_WELL (UINT64_C(1) << 30)
#define FLAG_HAS_MEMORY  (UINT64_C(1) << 29)
#define FLAGS_OWN        (FLAG_UPDATING | FLAG_IN_TIME | FLAG_DEVICE_WELL | FLAG_HAS_MEMORY)

bool nx_recovery_is_automatic(const nx_world *world)
{
    return nx_config_choice(world->config, NX_SET_RECOVERY) == NX_RECOVERY_AUTOMATIC;
}

/* ---- beginning ------------------------------------------------------------------------------ */

nexar_err nx_recovery_open(nx_incarnation *inc)
{
    if (!nx_recovery_is_automatic(inc->world)) {
        return NEXAR_OK;
    }
    nx_commit_init(&inc->recovery.confirm, inc->id, inc->size, inc->rank);
    return (inc->size == 1) ? NEXAR_OK : nx_auto_shrink_open(inc);
}

void nx_recovery_want(nx_incarnation *inc)
{
    if ((inc->rescue != NULL) && (inc->recovery.state == NX_WHOLE)) {
        inc->recovery.wanted = true;
        nx_failure_wake(inc->world);
    }
}

/* The flag that is set unless an operation was given up with |err|. */
static uint64_t flag_against(nexar_err err)
{
    switch ((int)err) {
    case NEXAR_OK:
        return 0;
    case NEXAR_ETIMEDOUT:
        return FLAG_IN_TIME;
    case NEXAR_ENOMEM:
        return FLAG_HAS_MEMORY;
    default:
        return FLAG_DEVICE_WELL;
    }
}

/* This rank's contribution: the error bits of its confirmations, and the flags above. */
static void take_input(nx_recovery *r, nx_auto_shrink_input *input)
{
    nx_commit_freeze(&r->confirm, &input->flags, &input->highest);
    input->flags |= FLAGS_OWN;
    if (!r->updating) {
        input->flags &= ~FLAG_UPDATING;
    }
    input->flags &= ~flag_against(r->gives_up);
}

void nx_recovery_begin(nx_incarnation *inc, const char *why)
{
    nx_recovery *r = &inc->recovery;
    nx_auto_shrink_input input;

    r->wanted = false;
    if ((inc->rescue == NULL) || (r->state != NX_WHOLE)) {
        return;
    }
    r->state = NX_REPAIRING;
    if (inc->group.broken != NEXAR_EREVOKED) {
        nx_group_break(&inc->group, NEXAR_EPEER, why);
    }
    nx_incarnation_end_messages(inc);
    take_input(r, &input);
    nx_auto_shrink_begin(inc, &input, why);
    nx_recovery_wake(inc);
}

void nx_recovery_on_failure(nx_incarnation *inc)
{
    nx_recovery_begin(inc, inc->group.broken_why);
}

/* Begins the recovery of |inc| if it is requested. */
static void begin_wanted(nx_incarnation *inc)
{
    const bool broken = (inc->group.broken != NEXAR_OK);

    if (inc->recovery.wanted) {
        nx_recovery_begin(inc, broken ? inc->group.broken_why : "a rank has failed or left");
    }
}

void nx_recovery_conclude(nx_world *world)
{
    nx_list_for_each (at, &world->incarnations) {
        begin_wanted(nx_list_entry(at, nx_incarnation, link));
    }
}

/* ---- the outcome ----------------------------------------------------------------------------- */

static void lose(nx_incarnation *inc, const char *why)
{
    inc->recovery.state = NX_LOST;
    (void)nx_sentence(inc->recovery.why, sizeof(inc->recovery.why), "%s", why);
    nx_log(NX_LOG_WARN, "a communicator is not rebuilt: %s", why);
}

/* Makes the successor of |inc|, unless it exists.  NEXAR_ENOMEM. */
static nexar_err make_next(nx_incarnation *inc)
{
    const nx_outcome *out;
    const char *why;
    nx_incarnation *next;
    nx_members who;
    nexar_err err;

    if (inc->next != NULL) {
        return NEXAR_OK;
    }
    (void)nx_auto_shrink_outcome(inc, &out, &why);
    err = nx_incarnation_rest(inc, &out->failed, out->id, &who);
    if (err == NEXAR_OK) {
        err = nx_incarnation_open(inc->comm, &who, &next);
    }
    if (err != NEXAR_OK) {
        return err;
    }
    next->epoch = inc->epoch + 1;
    next->change = (nexar_change){.old_rank = (int)inc->rank,
                                  .old_size = (int)inc->size,
                                  .new_rank = (int)next->rank,
                                  .new_size = (int)next->size,
                                  .left = (int)out->left.count,
                                  .failed = (int)(out->failed.count - out->left.count)};
    err = nx_change_keep(next, &out->failed, &out->left, NEXAR_CHANGE_LEFT);
    if (err != NEXAR_OK) {
        nx_incarnation_release(next);
        return err;
    }
    inc->next = next;
    nx_failure_opened(next);
    return NEXAR_OK;
}

/* The minimum number of ranks of |inc|. */
static uint32_t fewest(const nx_incarnation *inc)
{
    const uint64_t least = nx_config_number(inc->world->config, NX_SET_MIN_WORLD);

    return ((inc->comm == inc->world->comm) && (least > 0)) ? (uint32_t)least : 1;
}

/* Whether the recovery of |inc| voids an update: not all survivors were in its agreement, so no
 * rank uses the update's outcome. */
static bool voids_update(const nx_incarnation *inc)
{
    const nx_outcome *out;
    const char *why;

    return (inc->recovery.state == NX_REPAIRED) &&
           (nx_auto_shrink_outcome(inc, &out, &why) == NEXAR_OK) &&
           ((out->flags & FLAG_UPDATING) == 0);
}

void nx_recovery_decided(nx_incarnation *inc)
{
    nx_recovery *r = &inc->recovery;
    const nx_outcome *out;
    const char *why;
    const nexar_err err = nx_auto_shrink_outcome(inc, &out, &why);
    char few[NX_LOST_WHY];

    if (err != NEXAR_OK) {
        lose(inc, why);
    } else if (inc->size - out->failed.count < fewest(inc)) {
        (void)snprintf(few, sizeof(few), "%u ranks are left; min_world is %u",
                       inc->size - out->failed.count, fewest(inc));
        lose(inc, few);
    } else if (out->id == 0) {
        lose(inc, "its ranks have no ids for communicators left");
    } else {
        r->state = NX_REPAIRED;
        if (make_next(inc) != NEXAR_OK) {
            nx_log(NX_LOG_WARN, "a communicator is rebuilt later: %s", nexar_last_error());
        } else if (inc->comm->freed) {
            nx_comm_drop_unused(inc->comm); /* it was still in use when the agreement began */
        }
    }
    if (voids_update(inc)) {
        nx_agreement_abandon(inc);
    }
    nx_recovery_wake(inc);
}

/* ---- the swap --------------------------------------------------------------------------- */

nexar_err nx_recovery_advance(nexar_comm *comm)
{
    nexar_err err = make_next(comm->active);

    if (err != NEXAR_OK) {
        return err;
    }
    nx_comm_advance(comm);
    nx_log(NX_LOG_INFO, "a communicator of %d ranks is rebuilt with %d, as rank %d",
           comm->active->change.old_size, comm->active->change.new_size,
           comm->active->change.new_rank);
    nx_failure_call(comm);
    return NEXAR_OK;
}

/* ---- for update.h ------------------------------------------------------------------------ */

bool nx_recovery_update_counts(nx_incarnation *inc, bool failed)
{
    if (failed) {
        nx_recovery_begin(inc, "a rank has failed, as was agreed in an update");
    }
    while (failed && (inc->recovery.state == NX_REPAIRING)) {
        (void)nx_recovery_wait_change(inc->comm, UINT64_MAX);
    }
    return !voids_update(inc);
}

/* ---- for retry.h ------------------------------------------------------------------------ */

void nx_recovery_verdict(const nx_incarnation *inc, uint64_t *keep, uint32_t *errs)
{
    const nx_outcome *out;
    const char *why;

    (void)nx_auto_shrink_outcome(inc, &out, &why);
    nx_commit_decide(out->flags | FLAGS_OWN, out->highest, keep, errs);
}

void nx_recovery_give_up(nx_incarnation *inc, nexar_err err, const char *why)
{
    inc->recovery.gives_up = err;
    nx_recovery_begin(inc, why);
}

nexar_err nx_recovery_given_up(const nx_incarnation *inc)
{
    static const nexar_err errs[] = {NEXAR_EDEVICE, NEXAR_ENOMEM, NEXAR_ETIMEDOUT};
    const nx_outcome *out;
    const char *why;

    (void)nx_auto_shrink_outcome(inc, &out, &why);
    for (size_t i = 0; i < sizeof(errs) / sizeof(errs[0]); i++) {
        if ((out->flags & flag_against(errs[i])) == 0) {
            return errs[i];
        }
    }
    return NEXAR_OK;
}

const nx_rankset *nx_recovery_failed(const nx_incarnation *inc)
{
    const nx_outcome *out;
    const char *why;

    (void)nx_auto_shrink_outcome(inc, &out, &why);
    return &out->failed;
}
