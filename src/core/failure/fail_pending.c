/*
 * fail_pending.c - the subscribers of the membership: they end all operations that need a rank that
 * has left or failed.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/text/sentence.h"
#include "core/agreement/agreement.h"
#include "core/comm/comm.h"
#include "core/comm/early_replay.h"
#include "core/create/create.h"
#include "core/failure/failure_inner.h"
#include "core/recovery/recovery.h"
#include "core/update/update.h"

_Static_assert((int)NX_DETECTOR_FRAME_MAX <= (int)NX_LAST_MAX, "a verdict may be the last word");

/* A pending call of the application's function. */
typedef struct call {
    nx_job job;
    nx_list link;
    nexar_comm *comm; /* referenced */
    nexar_failure_fn fn;
    void *arg;
    int rank;
    char why[NX_FAILURE_WHY + NX_PEER_TEXT];
} call;

/* ---- functions of the application -------------------------------------------------------- */

static void call_work(nx_job *job)
{
    const call *c = nx_list_entry(job, call, job);

    c->fn(c->comm, c->rank, c->why, c->arg);
}

static void call_free(call *c)
{
    nx_list_remove(&c->link);
    nx_free(c);
}

static void call_done(nx_job *job)
{
    call *c = nx_list_entry(job, call, job);
    nexar_comm *comm = c->comm;

    call_free(c);
    nx_world_end(comm->world);
    nx_comm_release(comm);
}

static void call_one(nexar_comm *comm, uint32_t rank, uint32_t slot)
{
    nx_failure *f = comm->world->failure;
    call *c = nx_zalloc(sizeof(*c));
    char text[NX_PEER_TEXT];

    if (c == NULL) {
        nx_log(NX_LOG_WARN, "no memory to tell the application that a rank has failed");
        return;
    }
    c->job = (nx_job){.work = call_work, .done = call_done};
    c->comm = comm;
    c->fn = comm->on_failure;
    c->arg = comm->on_failure_arg;
    c->rank = (int)rank;
    (void)snprintf(c->why, sizeof(c->why), "%s: %s", nx_world_peer_text(comm->world, slot, text),
                   nx_failure_why(comm->world, slot));
    nx_list_push_back(&f->calls, &c->link);
    nx_comm_hold(comm);
    nx_world_begin(comm->world); /* finalize waits until the callback was called */
    if (nx_world_work(comm->world, &c->job) != NEXAR_OK) {
        nx_log(NX_LOG_WARN, "the application is not told that a rank has failed: %s",
               nexar_last_error());
        call_done(&c->job);
    }
}

void nx_failure_call(nexar_comm *comm)
{
    const nx_incarnation *inc = comm->inc;

    for (uint32_t rank = 0; (comm->on_failure != NULL) && (rank < inc->size); rank++) {
        const uint32_t slot = nx_incarnation_peer(inc, rank);

        if ((nx_failure_life(comm->world, slot) == NX_LIFE_FAILED) && !comm->world->closing &&
            nx_rankset_add(&comm->called, slot)) {
            call_one(comm, rank, slot);
        }
    }
}

/* ---- consequences ------------------------------------------------------------------------- */

/* The first other rank that may still send on |comm|; the size of |comm|: there is none. */
static uint32_t first_there(const nx_incarnation *inc)
{
    uint32_t rank;

    for (rank = 0; rank < inc->size; rank++) {
        const uint32_t peer = nx_incarnation_peer(inc, rank);

        if ((rank != inc->rank) && (nx_failure_life(inc->world, peer) < NX_LIFE_LEFT) &&
            (nx_group_finished(&inc->group, rank) == NX_DEPARTURE_NONE)) {
            break;
        }
    }
    return rank;
}

/* While one such rank is known, the other ranks need not be asked. */
void nx_failure_check_alone(nx_incarnation *inc)
{
    const bool expelled = nx_membership_expelled(inc->world->failure->members);
    const uint32_t there = expelled ? inc->size : first_there(inc);

    if ((inc->size > 1) && (there == inc->size)) {
        inc->alone = true;
        nx_incarnation_fail_any(inc);
    } else if ((there < inc->size) && inc->inquires) {
        nx_group_inquire(&inc->group, there);
    }
}

/* Calls |each| for every incarnation that includes |rank|. */
static void with_members(nx_world *world, uint32_t rank, void (*each)(nx_incarnation *inc))
{
    nx_list_for_each (at, &world->incarnations) {
        nx_incarnation *inc = nx_list_entry(at, nx_incarnation, link);

        if (nx_incarnation_rank_of(inc, rank) >= 0) {
            each(inc);
        }
    }
}

static void call_for_comm(nx_incarnation *inc)
{
    nx_failure_call(inc->comm);
}

static void sentence_of(const nx_world *world, uint32_t rank, char *buf, size_t size)
{
    char text[NX_PEER_TEXT];

    (void)nx_sentence(buf, size, "%s has failed: %s", nx_world_peer_text(world, rank, text),
                      nx_failure_why(world, rank));
}

/* The rank of |inc| that failed last, also if no subscriber was notified yet; the size: none. */
static uint32_t last_failed(const nx_incarnation *inc)
{
    uint32_t last = inc->size;
    uint64_t number = 0;

    for (uint32_t rank = 0; rank < inc->size; rank++) {
        const nx_life_record *r =
            nx_membership_of(inc->world->failure->members, nx_incarnation_peer(inc, rank));

        if ((r->life == NX_LIFE_FAILED) && (r->number > number)) {
            last = rank;
            number = r->number;
        }
    }
    return last;
}

const char *nx_failure_gone(const nx_incarnation *inc, char buf[NX_FAILURE_GONE])
{
    const nx_failure *f = inc->world->failure;
    const uint32_t last = last_failed(inc);
    uint32_t failed = 0, left = 0;
    size_t n = 0;

    buf[0] = '\0';
    if (nx_membership_expelled(f->members)) {
        return buf;
    }
    for (uint32_t rank = 0; rank < inc->size; rank++) {
        const nx_life_record *r = nx_membership_of(f->members, nx_incarnation_peer(inc, rank));

        failed += (r->life == NX_LIFE_FAILED) || r->presumed;
        left += (r->life == NX_LIFE_LEFT) && !r->presumed;
    }
    if (last < inc->size) {
        (void)snprintf(buf, NX_FAILURE_GONE, ": ");
        sentence_of(inc->world, nx_incarnation_peer(inc, last), buf + 2, NX_FAILURE_GONE - 2);
        n = strlen(buf);
    }
    if ((last < inc->size) && (failed > 1) && (n < NX_FAILURE_GONE)) {
        n += (size_t)snprintf(buf + n, NX_FAILURE_GONE - n, "; %" PRIu32 " more %s", failed - 1,
                              (failed == 2) ? "has" : "have");
    }
    if ((left > 0) && (n < NX_FAILURE_GONE)) {
        (void)snprintf(buf + n, NX_FAILURE_GONE - n, "%s%" PRIu32 " %s left",
                       (n == 0) ? ": " : "; ", left, (left == 1) ? "has" : "have");
    }
    return buf;
}

/* ---- the table ---------------------------------------------------------------------------- */

static nx_world *world_of(void *ctx)
{
    return ((nx_failure *)ctx)->world;
}

static void end_process(void *ctx, uint32_t slot)
{
    char sentence[NX_FAILURE_WHY + NX_PEER_TEXT + 32];

    sentence_of(world_of(ctx), slot, sentence, sizeof(sentence));
    nx_log(NX_LOG_INFO, "%s", sentence);
    nx_recovery_abort(world_of(ctx), sentence);
}

/* The link to |slot| is lost, which proves nothing about the rank.  The failure detector watches
 * the rank until its verdict: a suspect never becomes alive again. */
static void detect(void *ctx, uint32_t slot)
{
    nx_failure *f = ctx;
    nx_world *world = f->world;
    const nx_life_record *r = nx_membership_of(f->members, slot);
    const uint64_t now = nx_loop_now(world->loop);
    char text[NX_PEER_TEXT];

    if (r->source != NX_SOURCE_LINK) {
        return;
    }
    if (nx_msg_starved(world->msg, slot)) {
        nx_failure_end_receives(world); /* otherwise this rank would accuse a healthy one */
        return;
    }
    nx_log(NX_LOG_INFO, "%s may have failed: its link is lost: %s",
           nx_world_peer_text(world, slot, text), nx_failure_why(world, slot));
    if (nx_detector_watch(f->detector, slot, now) == NEXAR_OK) {
        nx_detector_suspect(f->detector, slot, nx_failure_why(world, slot), now);
    } else {
        nx_failure_failed(world, slot, NX_SOURCE_LINK, nx_failure_why(world, slot));
    }
}

static void detect_no_more(void *ctx, uint32_t slot)
{
    nx_failure *f = ctx;

    nx_detector_close_ring(f->detector, nx_loop_now(f->world->loop));
    nx_heard_gate_drop(&f->heard_gate, slot);
}

static void broadcast_past(void *ctx, uint32_t slot)
{
    nx_rbcast_gone(((nx_failure *)ctx)->rbcast, slot);
}

static void broadcast(void *ctx, uint32_t slot)
{
    const nx_failure *f = ctx;
    const char *why = nx_failure_why(f->world, slot);

    nx_rbcast_gone(f->rbcast, slot);
    if (nx_rbcast_start(f->rbcast, nx_rbcast_key(NX_RBCAST_DEAD, slot), why, strlen(why)) !=
        NEXAR_OK) {
        nx_log(NX_LOG_WARN, "others are not told that rank %" PRIu32 " has failed: %s", slot,
               nexar_last_error());
    }
}

static void leave_agreements(void *ctx, uint32_t slot)
{
    nx_agreement_left(world_of(ctx), slot);
}

static void fail_agreements(void *ctx, uint32_t slot)
{
    nx_agreement_failed(world_of(ctx), slot);
}

static void fail_collectives(void *ctx, uint32_t slot)
{
    char sentence[NX_FAILURE_WHY + NX_PEER_TEXT + 32];

    sentence_of(world_of(ctx), slot, sentence, sizeof(sentence));
    nx_registry_on_failed(world_of(ctx)->hub, slot, NEXAR_EPEER, sentence);
}

static void let_messages_go(void *ctx, uint32_t slot)
{
    nx_msg_let_go(world_of(ctx)->msg, slot);
}

/* If |slot| is alive and reads again, the last frame on its link notifies it of the verdict. */
static void fail_messages(void *ctx, uint32_t slot)
{
    const nx_failure *f = ctx;
    const char *why = nx_failure_why(f->world, slot);
    uint8_t verdict[NX_DETECTOR_FRAME_MAX];
    const size_t len =
        nx_detector_verdict(f->detector, slot, why, nx_loop_now(f->world->loop), verdict);

    nx_msg_dismiss_peer(f->world->msg, slot, NEXAR_EPEER, why, verdict, len);
}

static void check_alone(void *ctx, uint32_t slot)
{
    with_members(world_of(ctx), slot, nx_failure_check_alone);
}

static void drop_creations(void *ctx, uint32_t slot)
{
    char sentence[NX_PEER_TEXT + 16], text[NX_PEER_TEXT];

    (void)nx_sentence(sentence, sizeof(sentence), "%s has left",
                      nx_world_peer_text(world_of(ctx), slot, text));
    nx_create_gone(world_of(ctx), slot, sentence);
}

static void fail_creations(void *ctx, uint32_t slot)
{
    char sentence[NX_FAILURE_WHY + NX_PEER_TEXT + 32];

    sentence_of(world_of(ctx), slot, sentence, sizeof(sentence));
    nx_create_gone(world_of(ctx), slot, sentence);
}

static void wake_recovery(void *ctx, uint32_t slot)
{
    with_members(world_of(ctx), slot, nx_recovery_wake); /* waiters check again */
}

static void recover(void *ctx, uint32_t slot)
{
    with_members(world_of(ctx), slot, nx_recovery_on_failure);
}

static void call_all(void *ctx, uint32_t slot)
{
    with_members(world_of(ctx), slot, call_for_comm);
}

static void update(void *ctx, uint32_t slot)
{
    (void)slot;
    nx_update_on_death(world_of(ctx));
}

/* The subscribers run in this order.  Other ranks are notified of a failure before any operation
 * ends here because of it.  Subscribers that end whole operations precede those that end their
 * messages. */
const nx_life_subscriber nx_fail_pending_table[] = {
    {.name = "recovery=abort", .on_failed = end_process},
    {.name = "failure detector",
     .on_suspect = detect,
     .on_left = detect_no_more,
     .on_failed = detect_no_more},
    {.name = "reliable broadcast", .on_left = broadcast_past, .on_failed = broadcast},
    {.name = "agreements", .on_left = leave_agreements, .on_failed = fail_agreements},
    {.name = "collectives and host boards", .on_failed = fail_collectives},
    {.name = "messages and remote calls", .on_left = let_messages_go, .on_failed = fail_messages},
    {.name = "receives from any source", .on_left = check_alone, .on_failed = check_alone},
    {.name = "nexar_comm_create", .on_left = drop_creations, .on_failed = fail_creations},
    {.name = "recovery", .on_left = wake_recovery, .on_failed = recover},
    {.name = "nexar_on_failure", .on_failed = call_all},
    {.name = "update", .on_failed = update},
};
const size_t nx_fail_pending_rows =
    sizeof(nx_fail_pending_table) / sizeof(nx_fail_pending_table[0]);

/* This rank has left the world: no operation that needs other ranks can continue. */
void nx_fail_pending_all(void *ctx)
{
    nx_failure *f = ctx;
    nx_world *world = f->world;
    const bool gives_up = nx_membership_of(f->members, world->self)->source == NX_SOURCE_SELF;
    char why[NX_FAILURE_WHY + sizeof(NX_FAILURE_HELD)];

    (void)nx_sentence(why, sizeof(why), "%s%s", gives_up ? "" : NX_FAILURE_HELD,
                      nx_failure_why(world, world->self));
    nx_log(NX_LOG_WARN, "%s", why);
    nx_loop_timer_cancel(world->loop, &f->timer);
    nx_agreement_failed(world, world->self);
    nx_registry_on_failed(world->hub, world->self, NEXAR_EPEER, why);
    for (uint32_t peer = 0; peer < world->slots; peer++) {
        nx_msg_fail_peer(world->msg, peer, NEXAR_EPEER, why);
    }
    nx_create_gone(world, world->self, why);
    with_members(world, world->self, nx_failure_check_alone);
    nx_recovery_abort(world, why);
}

/* ---- deferred events ---------------------------------------------------------------------- */

bool nx_failure_turn_away(nx_world *world, uint32_t slot, nx_link *link)
{
    const nx_failure *f = world->failure;
    uint8_t verdict[NX_DETECTOR_FRAME_MAX];

    if ((f == NULL) || nx_failure_is_out(f) ||
        (nx_membership_life(f->members, slot) != NX_LIFE_FAILED)) {
        return false;
    }
    nx_link_dismiss(link, verdict,
                    nx_detector_verdict(f->detector, slot, nx_failure_why(world, slot),
                                        nx_loop_now(world->loop), verdict));
    return true;
}

void nx_failure_opened(nx_incarnation *inc)
{
    nx_world *world = inc->world;
    char sentence[NX_FAILURE_WHY + NX_PEER_TEXT + 32];

    for (uint32_t rank = 0; rank < inc->size; rank++) {
        const uint32_t peer = nx_incarnation_peer(inc, rank);

        if (nx_failure_life(world, peer) == NX_LIFE_FAILED) {
            sentence_of(world, peer, sentence, sizeof(sentence));
            nx_group_break(&inc->group, NEXAR_EPEER, sentence);
            nx_recovery_want(inc);
        }
    }
    nx_failure_check_alone(inc);
    nx_early_opened(world, inc->id);
}

void nx_fail_pending_stop(nx_failure *f)
{
    while (!nx_list_empty(&f->calls)) {
        call_free(nx_list_entry(f->calls.next, call, link));
    }
}
