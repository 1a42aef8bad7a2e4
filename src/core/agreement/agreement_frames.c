/*
 * agreement_frames.c - passes frames of agreements to their machines, which may not exist yet, or
 * not any more.
 */
#include <inttypes.h>

#include "agreement_inner.h"
#include "base/log.h"
#include "core/comm/comm.h"
#include "core/failure/failure.h"
#include "core/recovery/auto_shrink.h"
#include "core/recovery/recovery.h"
#include "core/recovery/retry.h"
#include "msg/control.h"

static nx_agreement *find_accord(const nx_world *world, uint64_t id)
{
    for (const nx_list *at = world->accords.next; at != &world->accords; at = at->next) {
        nx_agreement *a = nx_list_entry(at, nx_agreement, link);

        if (a->id == id) {
            return a;
        }
    }
    return NULL;
}

/* A frame for communicator |id|, which is closed here.  A frame that needs no answer is dropped.
 * The sender of an UP waits for an answer.  If the UP belongs to a recovery that never began here,
 * and its machines are freed (NX_AUTO_SHRINK_ORPHANS), no answer is possible: NEXAR_ENOMEM. */
static nexar_err refuse_late(const nx_world *world, uint64_t id, uint32_t peer, bool up)
{
    if (!up || world->closing ||
        nx_early_is_closed(world->early, id)) { /* a leaver is not waited for */
        return NEXAR_OK;
    }
    if ((id & NX_AUTO_SHRINK_ID) != 0) {
        return nx_fail(NEXAR_ENOMEM,
                       "rank %" PRIu32 " rebuilds a communicator of which nothing is kept here",
                       peer);
    }
    nx_log(NX_LOG_WARN, "rank %" PRIu32 " calls for an agreement on a communicator that was freed",
           peer);
    return NEXAR_OK;
}

/* A frame for a communicator that does not exist here: keeps the frame, or answers that the
 * communicator is closed. */
static nexar_err keep(nx_world *world, uint64_t id, uint32_t peer, const void *data, size_t len)
{
    const nx_early_key key = {.kind = NX_EARLY_CONTROL, .id = (uint32_t)id, .from = peer};
    const bool agree = (*(const uint8_t *)data == NX_CONTROL_AGREE);
    uint8_t reply[NX_CONSENSUS_UNEXPECTED_MAX];
    size_t nreply = 0;

    if (agree && !nx_consensus_unexpected(data, len, reply, &nreply)) {
        if (nreply > 0) {
            (void)!nx_msg_send_control(world->msg, peer, reply, nreply);
        }
        return NEXAR_OK;
    }
    if (nx_early_is_closed(world->early, (uint32_t)id)) {
        return refuse_late(world, id, peer, agree && nx_consensus_msg_is_up(data, len));
    }
    if (nx_incarnation_find(world, (uint32_t)id) != NULL) {
        return nx_fail(NEXAR_EPROTO, "rank %" PRIu32 " rebuilds what is not rebuilt here", peer);
    }
    return nx_early_keep(world->early, &key, &(nx_bytes){.ptr = data, .len = len}, 1,
                         nx_loop_now(world->loop));
}

/* A frame CONFIRM. */
static nexar_err confirm_frame(nx_world *world, uint32_t peer, const void *data, size_t len)
{
    nx_incarnation *inc;
    uint64_t id;
    nexar_err err = nx_commit_frame_comm(data, len, &id);
    int rank;

    if (err != NEXAR_OK) {
        return err;
    }
    inc = nx_incarnation_find(world, id);
    if (inc == NULL) {
        return keep(world, id, peer, data, len);
    }
    rank = nx_incarnation_rank_of(inc, peer);
    if ((rank < 0) || !nx_recovery_is_automatic(world)) {
        return nx_fail(NEXAR_EPROTO, "rank %" PRIu32 " confirms what is not confirmed here", peer);
    }
    return nx_retry_frame(inc, (uint32_t)rank, data, len);
}

nexar_err nx_agreement_frame(nx_world *world, uint32_t peer, const void *data, size_t len)
{
    const bool agree = (*(const uint8_t *)data == NX_CONTROL_AGREE);
    nx_incarnation *inc;
    nx_agreement *a;
    uint64_t id;
    nexar_err err;
    int rank;

    if (*(const uint8_t *)data == NX_CONTROL_CONFIRM) {
        return confirm_frame(world, peer, data, len);
    }
    err = agree ? nx_consensus_msg_comm(data, len, &id) : nx_rbcast_frame_group(data, len, &id);
    if (err != NEXAR_OK) {
        return err;
    }
    a = find_accord(world, id);
    if (a == NULL) {
        inc = nx_incarnation_find(world, id);
        if (inc == NULL) {
            return keep(world, id, peer, data, len);
        }
        a = nx_agreement_get(inc);
        if (a == NULL) {
            return NEXAR_ENOMEM;
        }
    }
    rank = nx_incarnation_rank_of(a->inc, peer);
    if (rank < 0) {
        return nx_fail(NEXAR_EPROTO, "rank %" PRIu32 " is not in the communicator of its frame",
                       peer);
    }
    return agree ? nx_consensus_frame(a->agree, (uint32_t)rank, data, len)
                 : nx_rbcast_frame(a->rbcast, (uint32_t)rank, data, len);
}

void nx_agreement_take(nx_world *world, uint32_t peer, const void *data, size_t len)
{
    const nexar_err err = nx_agreement_frame(world, peer, data, len);

    if (err != NEXAR_OK) {
        nx_log(NX_LOG_WARN, "peer %" PRIu32 " sent what was not taken: %s", peer,
               nexar_last_error());
    }
    if (err == NEXAR_ENOMEM) {
        nx_failure_end_receives(world);
    }
}
