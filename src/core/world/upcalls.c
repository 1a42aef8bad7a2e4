/* upcalls.c - upcalls of messages, collectives and remote calls to the world, and their start. */
#include "upcalls.h"

#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text/sentence.h"
#include "core/comm/comm.h"
#include "core/create/create.h"
#include "core/failure/failure.h"
#include "core/failure/process_exit.h"
#include "core/job_end/job_abort.h"
#include "core/report/diagnosis.h"
#include "core/update/update.h"
#include "transport_choice.h"

/* ---- messages and collectives -------------------------------------------------------- */

static bool on_peer_end(void *ctx, uint32_t peer, nx_end end, nexar_err err)
{
    return nx_failure_on_end(ctx, peer, end, err);
}

static void on_peer_down(void *ctx, uint32_t peer, nexar_err err, const char *why)
{
    nx_world *world = ctx;
    char text[NX_PEER_TEXT];

    if (nx_failure_life(world, peer) != NX_LIFE_FAILED) { /* collectives know of it */
        nx_registry_on_down(world->hub, peer, err, why);
    }
    nx_failure_on_down(world, peer);
    nx_process_exit_forget(world, peer);
    nx_diagnosis_on_down(world, peer, why);
    if (!world->closing) {
        nx_log(NX_LOG_INFO, "lost the link to %s: %s (%s)", nx_world_peer_text(world, peer, text),
               why, nexar_strerror(err));
    }
    if (world->rpc != NULL) {
        nx_rpc_peer_down(world->rpc, peer, err, why);
    }
}

static void on_control(void *ctx, uint32_t peer, const void *data, size_t len)
{
    nx_world *world = ctx;

    if (!nx_job_abort_on_control(world, peer, data, len) &&
        !nx_registry_on_control(world->hub, peer, data, len) &&
        !nx_create_on_control(world, peer, data, len) &&
        !nx_diagnosis_on_control(world, peer, data, len) &&
        !nx_failure_on_control(world, peer, data, len)) {
        nx_log(NX_LOG_DEBUG, "peer %" PRIu32 " sent a control frame of a kind unknown here", peer);
    }
}

static nx_verdict on_mark(void *ctx, uint32_t peer, nx_context context, uint64_t tag,
                          const nx_mark *mark)
{
    const nx_world *world = ctx;

    return nx_registry_on_mark(world->hub, peer, context, tag, mark);
}

static nx_verdict on_unexpected(void *ctx, nx_context context)
{
    const nx_world *world = ctx;

    return nx_registry_on_unexpected(world->hub, context);
}

static void on_detached(void *ctx, uint32_t comm, uint32_t peer, nx_departure how)
{
    const nx_world *world = ctx;
    char why[64];

    (void)nx_sentence(why, sizeof(why), "it %s", nx_departure_text(how));
    nx_msg_refuse(world->msg, peer,
                  (nx_context){.comm = comm, .kind = NX_KIND_USER, .class = NX_CLASS_USER},
                  nx_departure_error(how), why);
}

/* The notification follows the messages sent on the communicator that this rank detaches from. */
static void on_detach(void *ctx, uint32_t comm, uint32_t peer, nx_departure how)
{
    const nx_world *world = ctx;

    nx_msg_finish(world->msg, peer,
                  (nx_context){.comm = comm, .kind = NX_KIND_USER, .class = NX_CLASS_USER},
                  (uint8_t)how);
}

static void on_msg_finished(void *ctx, uint32_t peer, nx_context context, uint8_t how)
{
    const nx_world *world = ctx;

    if (context.kind == NX_KIND_USER) {
        nx_registry_on_finished(world->hub, peer, context.comm, how);
    }
}

static void on_finished(void *ctx, uint32_t comm, uint32_t peer, nx_departure how)
{
    const nx_world *world = ctx;
    nx_incarnation *inc = nx_incarnation_find(world, comm);

    if (inc != NULL) { /* otherwise it is being created, and nothing waits on it */
        nx_incarnation_fail_from(inc, peer, how);
        nx_failure_check_alone(inc);
    }
}

static void inquire(void *ctx, uint32_t peer, nx_context context)
{
    nx_incarnation *inc =
        (context.kind == NX_KIND_USER) ? nx_incarnation_find(ctx, context.comm) : NULL;
    const int rank =
        ((inc == NULL) || (peer == NX_ANY_PEER)) ? -1 : nx_incarnation_rank_of(inc, peer);

    if (rank >= 0) {
        nx_group_inquire(&inc->group, (uint32_t)rank);
    } else if ((inc != NULL) && (peer == NX_ANY_PEER)) {
        inc->inquires = true;
        nx_failure_check_alone(inc);
    }
}

void nx_world_inquire(nx_world *world)
{
    nx_msg_each_waiting(world->msg, NX_CLASS_USER, inquire, world);
}

static const char *peer_text(void *ctx, uint32_t peer, char *buf)
{
    return nx_world_peer_text(ctx, peer, buf);
}

static bool on_exited(void *ctx, uint32_t peer)
{
    char why[64], at[NX_TIME_TEXT];

    (void)nx_sentence(why, sizeof(why), "its process has ended, at %s", nx_time_text(at));
    nx_failure_failed(ctx, peer, NX_SOURCE_PROCESS, why);
    return nx_failure_life(ctx, peer) == NX_LIFE_FAILED;
}

/* An operation has failed, perhaps because a rank has failed. */
static void tell(void *ctx, uint32_t peer, const void *frame, size_t len)
{
    nx_world *world = ctx;

    if (nx_failure_any(world)) {
        nx_failure_send(world, peer, frame, len);
    } else {
        /* An unreachable peer has failed or left; the other ranks detect that. */
        (void)!nx_msg_send_control(world->msg, peer, frame, len);
    }
}

/* ---- starting ------------------------------------------------------------------------ */

static bool is_there(void *ctx, uint32_t peer)
{
    const nx_world *world = ctx;

    return nx_view_slot(world->view, peer) != NULL;
}

nexar_err nx_upcalls_start_messages(nx_world *world)
{
    char buf[NX_NUMBER_ROOM];
    bool by_link;
    const size_t inline_max =
        nx_setting_inline(nx_config_text(world->config, NX_SET_INLINE, buf), &by_link);
    const nx_msg_config mc = {
        .loop = world->loop,
        .peers = world->slots,
        .there =
            (world->view == NULL) || (world->view->slots == world->view->size) ? NULL : is_there,
        .self = world->self,
        .grows = (world->view != NULL),
        .pool = nx_config_size(world->config, NX_SET_UNEXPECTED),
        .inline_max = inline_max,
        .inline_auto = by_link,
        .eager_max = nx_config_size(world->config, NX_SET_EAGER),
        .connect = nx_links_connect,
        .on_peer_end = on_peer_end,
        .on_peer_down = on_peer_down,
        .on_control = on_control,
        .on_mark = on_mark,
        .on_unexpected = on_unexpected,
        .on_finished = on_msg_finished,
        .ctx = world,
    };
    nx_registry_config hc = {
        .loop = world->loop,
        .early = world->early,
        .rules = nx_config_rules(world->config),
        .segment = nx_config_size(world->config, NX_SET_SEGMENT),
        .verify = nx_config_choice(world->config, NX_SET_VERIFY) == NX_VERIFY_ON,
        .timeout_ns = nx_config_number(world->config, NX_SET_COLLECTIVE_TIMEOUT),
        .watch = {.on_end = nx_diagnosis_on_end, .ctx = world},
        .peer_text = peer_text,
        .verdict_ns = nx_config_number(world->config, NX_SET_HEARTBEAT_TIMEOUT) +
                      nx_config_number(world->config, NX_SET_HEARTBEAT_INTERVAL),
        .on_exited = on_exited,
        .tell = tell,
        .on_detached = on_detached,
        .on_detach = on_detach,
        .on_finished = on_finished,
        .ctx = world,
    };
    nexar_err err;

    nx_world_set_waits(world);
    err = nx_msg_create(&world->msg, &mc);
    if (err != NEXAR_OK) {
        return err;
    }
    hc.msg = world->msg;
    err = nx_registry_create(&world->hub, &hc);
    err = (err == NEXAR_OK) ? nx_create_open(world) : err;
    return (err == NEXAR_OK) ? nx_failure_start(world) : err;
}

static int rank_of(void *owner, uint32_t peer)
{
    return nx_incarnation_rank_of(((const nexar_comm *)owner)->inc, peer);
}

static void release_comm(void *owner)
{
    nx_comm_release(owner);
}

nexar_err nx_upcalls_start_rpc(nx_world *world)
{
    const nx_rpc_config rc = {
        .loop = world->loop,
        .msg = world->msg,
        .threads = (unsigned)nx_config_number(world->config, NX_SET_RPC_THREADS),
        .call_kind = NX_KIND_RPC_CALL,
        .reply_kind = NX_KIND_RPC_REPLY,
        .rank_of = rank_of,
        .handlers_of = nx_update_handlers_of,
        .ctx = world,
        .release = release_comm,
    };

    return nx_rpc_create(&world->rpc, &rc);
}
