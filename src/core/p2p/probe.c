/* probe.c - probes: find messages without receiving them. */
#include "base/alloc.h"
#include "base/os/cancellation.h"
#include "core/failure/failure.h"
#include "core/p2p/message.h"
#include "core/p2p/p2p_args.h"
#include "core/p2p/p2p_wait.h"

nexar_err nexar_probe(nexar_comm *comm, int source, uint64_t tag, nexar_status *status)
{
    NX_NOT_CANCELLED;
    nexar_err err = nx_p2p_check_source("probe", comm, source);
    nx_waited w;

    if (err != NEXAR_OK) {
        return err;
    }
    nx_loop_lock(comm->world->loop);
    nx_waited_init(&w, comm, (nx_devmem){0});
    nx_op_probe(&w.op, "probe", source, tag);
    nx_waited_finish(&w);
    err = nx_op_finish(&w.op, status);
    nx_loop_unlock(comm->world->loop);
    return err;
}

/* Whether a failure prevents messages from |source|.  Ranks that have left, or have freed the
 * communicator, are no failure: a late last check simply finds no message. */
static bool has_failed(const nx_incarnation *inc, int source)
{
    const nx_world *world = inc->world;
    bool failed = nx_failure_life(world, world->self) == NX_LIFE_FAILED;

    if (!failed && (source != NEXAR_ANY_SOURCE)) {
        return nx_failure_life(world, nx_incarnation_peer(inc, (uint32_t)source)) == NX_LIFE_FAILED;
    }
    for (uint32_t rank = 0; inc->alone && !failed && (rank < inc->size); rank++) {
        failed = nx_failure_life(world, nx_incarnation_peer(inc, rank)) == NX_LIFE_FAILED;
    }
    return failed;
}

/* No message from |source| has arrived: a polling caller gets an error if none can arrive. */
static nexar_err look_no_more(const char *name, const nx_incarnation *inc, int source)
{
    char text[NX_ALONE_WHY], peer[NX_PEER_TEXT];
    const nx_world *world = inc->world;
    uint32_t slot;

    if ((inc->size == 1) || (source == (int)inc->rank) || !has_failed(inc, source)) {
        return NEXAR_OK;
    }
    if (source == NEXAR_ANY_SOURCE) {
        (void)nx_incarnation_alone_why(inc, text);
        return nx_fail(NEXAR_EPEER, "%s from any rank: %s", name, text);
    }
    slot = (nx_failure_life(world, world->self) == NX_LIFE_FAILED)
               ? world->self
               : nx_incarnation_peer(inc, (uint32_t)source);
    return nx_fail(NEXAR_EPEER, "%s from %s: %s%s", name, nx_world_peer_text(world, slot, peer),
                   (slot == world->self) ? "the other ranks have declared this rank failed: " : "",
                   nx_failure_why(world, slot));
}

/* Looks for a message.  |*found|: it has arrived, or its sender holds it back for lack of credit;
 * |message| has its peer, tag and bytes.  Errors as of iprobe; with the lock. */
static nexar_err look(const char *name, nexar_comm *comm, int source, uint64_t tag, nx_req *message,
                      bool *found)
{
    bool there;

    nx_loop_kick(comm->world->loop);
    if (comm->inc->revoked) {
        return nx_fail(NEXAR_EREVOKED, "%s: the communicator was revoked", name);
    }
    there = nx_msg_iprobe(comm->world->msg, nx_op_source(comm->inc, source),
                          nx_incarnation_user(comm->inc), tag, message);
    if (!there) {
        const nexar_err err = look_no_more(name, comm->inc, source);

        if (err != NEXAR_OK) {
            return err;
        }
    }
    *found = there;
    return NEXAR_OK;
}

/* Unlocks; a thread that has found nothing is likely to poll again soon. */
static void unlock(const nexar_comm *comm, bool found)
{
    if (found) {
        nx_loop_unlock(comm->world->loop);
    } else {
        nx_loop_pass(comm->world->loop, false);
    }
}

nexar_err nexar_iprobe(nexar_comm *comm, int source, uint64_t tag, bool *found,
                       nexar_status *status)
{
    NX_NOT_CANCELLED;
    nexar_err err = nx_p2p_check_source("iprobe", comm, source);
    nx_req message = {0};
    bool there = false;

    if (found == NULL) {
        return nx_fail(NEXAR_EINVAL, "iprobe: found is NULL");
    }
    if (err != NEXAR_OK) {
        return err;
    }
    nx_loop_lock(comm->world->loop);
    err = look("iprobe", comm, source, tag, &message, &there);
    if (there && (status != NULL)) {
        *status = (nexar_status){.source = nx_incarnation_rank_of(comm->inc, message.peer),
                                 .tag = message.tag,
                                 .bytes = message.bytes};
    }
    unlock(comm, there);
    *found = (err == NEXAR_OK) ? there : *found;
    return err;
}

/* ---- matched probes ------------------------------------------------------------------ */

static nexar_err check_matched(const char *name, const nexar_comm *comm, int source,
                               nexar_message *const *msg)
{
    const nexar_err err = nx_p2p_check_source(name, comm, source);

    if ((err == NEXAR_OK) && (msg == NULL)) {
        return nx_fail(NEXAR_EINVAL, "%s: msg is NULL", name);
    }
    return err;
}

/* The outcome of the match |w|, which has ended; |made| is given to the caller or freed. */
static nexar_err conclude(nx_waited *w, nexar_message *made, nexar_message **msg,
                          nexar_status *status)
{
    const nexar_err err = nx_op_finish(&w->op, status);

    if (err == NEXAR_OK) {
        nx_message_init(made, &w->op);
        *msg = made;
    } else {
        nx_free(made);
    }
    return err;
}

nexar_err nexar_mprobe(nexar_comm *comm, int source, uint64_t tag, nexar_message **msg,
                       nexar_status *status)
{
    NX_NOT_CANCELLED;
    nexar_err err = check_matched("mprobe", comm, source, msg);
    nexar_message *made;
    nx_waited w;

    if (err != NEXAR_OK) {
        return err;
    }
    made = nx_zalloc(sizeof(*made));
    if (made == NULL) {
        return nx_fail_nomem("a matched message");
    }
    nx_loop_lock(comm->world->loop);
    nx_waited_init(&w, comm, (nx_devmem){0});
    nx_op_match(&w.op, "mprobe", source, tag);
    nx_waited_finish(&w);
    err = conclude(&w, made, msg, status);
    nx_loop_unlock(comm->world->loop);
    return err;
}

/*
 * Takes |found|.  The message has arrived, or its sender holds it back and is asked for it. Another
 * thread may receive it first, and no other message may follow.  So the wait is limited to the time
 * for which a rank may be silent.  False: |w| has ended without a message.
 */
static bool fetch(nexar_comm *comm, const nx_req *found, nx_waited *w)
{
    nx_loop *loop = comm->world->loop;
    const uint64_t most_ns = nx_config_number(comm->world->config, NX_SET_HEARTBEAT_TIMEOUT);

    nx_waited_init(w, comm, (nx_devmem){0});
    nx_op_match(&w->op, "improbe", nx_incarnation_rank_of(comm->inc, found->peer), found->tag);
    if (!nx_waited_until(w, nx_loop_now(loop) + most_ns)) {
        nx_op_cancel(&w->op);
        nx_waited_finish(w);
    }
    return w->op.req.err != NEXAR_ECANCELED;
}

nexar_err nexar_improbe(nexar_comm *comm, int source, uint64_t tag, bool *found,
                        nexar_message **msg, nexar_status *status)
{
    NX_NOT_CANCELLED;
    nexar_err err = check_matched("improbe", comm, source, msg);
    nx_req message = {0};
    nexar_message *made;
    bool there = false;
    nx_waited w;

    if ((err == NEXAR_OK) && (found == NULL)) {
        return nx_fail(NEXAR_EINVAL, "improbe: found is NULL");
    }
    if (err != NEXAR_OK) {
        return err;
    }
    made = nx_zalloc(sizeof(*made));
    if (made == NULL) {
        return nx_fail_nomem("a matched message");
    }
    nx_loop_lock(comm->world->loop);
    err = look("improbe", comm, source, tag, &message, &there);
    there = there && fetch(comm, &message, &w);
    if (there) {
        err = conclude(&w, made, msg, status);
    } else {
        nx_free(made);
    }
    unlock(comm, there);
    *found = (err == NEXAR_OK) ? there : *found;
    return err;
}
