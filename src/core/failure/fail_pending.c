/* fail_pending.c - the end of all that needs the dead. */
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

/* A call of the application's function. */
typedef struct call {
    nx_job job;
    nx_list link;
    nexar_comm *comm; /* held */
    nexar_failure_fn fn;
    void *arg;
    int rank;
    char why[NX_FAILURE_WHY + NX_PEER_TEXT];
} call;

/* ---- the application's functions --------------------------------------------------------- */

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
    nx_world_begin(comm->world); /* finalize waits: whoever asked to be told is told */
    if (nx_world_work(comm->world, &c->job) != NEXAR_OK) {
        nx_log(NX_LOG_WARN, "the application is not told that a rank has failed: %s",
               nexar_last_error());
        call_done(&c->job);
    }
}

void nx_failure_call(nexar_comm *comm)
{
    const nx_failure *f = comm->world->failure;
    const nx_incarnation *inc = comm->inc;

    for (uint32_t rank = 0; (comm->on_failure != NULL) && (rank < inc->size); rank++) {
        const uint32_t slot = nx_incarnation_peer(inc, rank);

        if (nx_rankset_has(&f->dead, slot) && !comm->world->closing &&
            nx_rankset_add(&comm->called, slot)) {
            call_one(comm, rank, slot);
        }
    }
}

/* ---- what follows ------------------------------------------------------------------------- */

/* The first rank but this one of which something may still come on |comm|; its size: none. */
static uint32_t first_there(const nx_incarnation *inc)
{
    const nx_failure *f = inc->world->failure;
    uint32_t rank;

    for (rank = 0; rank < inc->size; rank++) {
        const uint32_t peer = nx_incarnation_peer(inc, rank);

        if ((rank != inc->rank) && !nx_rankset_has(&f->dead, peer) &&
            !nx_rankset_has(&f->left, peer) &&
            (nx_group_finished(&inc->group, rank) == NX_DEPARTURE_NONE)) {
            break;
        }
    }
    return rank;
}

/* While one is there, as far as is known, others need not be asked. */
void nx_failure_check_alone(nx_incarnation *inc)
{
    const uint32_t there = inc->world->failure->expelled ? inc->size : first_there(inc);

    if ((inc->size > 1) && (there == inc->size)) {
        inc->alone = true;
        nx_incarnation_fail_any(inc);
    } else if ((there < inc->size) && inc->inquires) {
        nx_group_inquire(&inc->group, there);
    }
}

/* Calls |each| for all incarnations that |rank| is in. */
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

/* The last of |comm| that is known to have failed, also if that was not acted upon yet; NULL:
 * none. */
static const nx_death *last_death(const nx_incarnation *inc)
{
    const nx_failure *f = inc->world->failure;

    for (const nx_list *at = f->deaths.prev; at != &f->deaths; at = at->prev) {
        const nx_death *d = nx_list_entry(at, nx_death, link);

        if (nx_rankset_has(&f->dead, d->rank) && (nx_incarnation_rank_of(inc, d->rank) >= 0)) {
            return d;
        }
    }
    return NULL;
}

const char *nx_failure_gone(const nx_incarnation *inc, char buf[NX_FAILURE_GONE])
{
    const nx_failure *f = inc->world->failure;
    const nx_death *last = last_death(inc);
    uint32_t failed = 0, left = 0;
    size_t n = 0;

    buf[0] = '\0';
    for (uint32_t rank = 0; rank < inc->size; rank++) {
        const uint32_t peer = nx_incarnation_peer(inc, rank);
        const bool dead = nx_rankset_has(&f->dead, peer) || nx_rankset_has(&f->absent, peer);

        failed += dead;
        left += !dead && nx_rankset_has(&f->left, peer);
    }
    if (f->expelled) {
        return buf;
    }
    if (last != NULL) {
        (void)snprintf(buf, NX_FAILURE_GONE, ": ");
        sentence_of(inc->world, last->rank, buf + 2, NX_FAILURE_GONE - 2);
        n = strlen(buf);
    }
    if ((last != NULL) && (failed > 1) && (n < NX_FAILURE_GONE)) {
        n += (size_t)snprintf(buf + n, NX_FAILURE_GONE - n, "; %" PRIu32 " more %s", failed - 1,
                              (failed == 2) ? "has" : "have");
    }
    if ((left > 0) && (n < NX_FAILURE_GONE)) {
        (void)snprintf(buf + n, NX_FAILURE_GONE - n, "%s%" PRIu32 " %s left",
                       (n == 0) ? ": " : "; ", left, (left == 1) ? "has" : "have");
    }
    return buf;
}

/* This rank is out: nothing that needs others can go on. */
static void expel(nx_failure *f, const char *why)
{
    nx_world *world = f->world;

    f->expelled = true;
    nx_log(NX_LOG_WARN, "%s", why);
    nx_loop_timer_cancel(world->loop, &f->timer);
    for (uint32_t peer = 0; peer < world->slots; peer++) {
        nx_msg_fail_peer(world->msg, peer, NEXAR_EPEER, why);
    }
    nx_registry_on_failed(world->hub, world->self, NEXAR_EPEER, why);
    nx_agreement_failed(world, world->self);
    nx_create_gone(world, world->self, why);
    with_members(world, world->self, nx_failure_check_alone);
    nx_recovery_abort(world, why);
}

void nx_fail_pending_failed(nx_failure *f, uint32_t rank)
{
    nx_world *world = f->world;
    char sentence[NX_FAILURE_WHY + NX_PEER_TEXT + 32];
    const char *why = nx_failure_why(world, rank);
    uint8_t verdict[NX_DETECTOR_FRAME_MAX];
    size_t len;

    if (rank == world->self) {
        (void)nx_sentence(sentence, sizeof(sentence), NX_FAILURE_HELD "%s", why);
        expel(f, sentence);
        return;
    }
    sentence_of(world, rank, sentence, sizeof(sentence));
    nx_log(NX_LOG_INFO, "%s", sentence);
    nx_recovery_abort(world, sentence);
    nx_heard_gate_drop(&f->heard_gate, rank);
    /* If it lives, and reads again, it learns what it is held for. */
    len = nx_detector_verdict(f->detector, rank, why, nx_loop_now(world->loop), verdict);
    (void)nx_detector_told(f->detector, rank, nx_loop_now(world->loop));
    nx_rbcast_failed(f->rbcast, rank);
    if (nx_rbcast_start(f->rbcast, nx_rbcast_key(NX_RBCAST_DEAD, rank), why, strlen(why)) !=
        NEXAR_OK) {
        nx_log(NX_LOG_WARN, "others are not told that rank %" PRIu32 " has failed: %s", rank,
               nexar_last_error());
    }
    nx_agreement_failed(world, rank);
    nx_msg_dismiss_peer(world->msg, rank, NEXAR_EPEER, why, verdict, len);
    nx_registry_on_failed(world->hub, rank, NEXAR_EPEER, sentence);
    with_members(world, rank, nx_failure_check_alone);
    with_members(world, rank, nx_recovery_on_failure);
    with_members(world, rank, call_for_comm);
    nx_create_gone(world, rank, sentence);
    nx_update_on_death(world);
}

bool nx_failure_turn_away(nx_world *world, uint32_t slot, nx_link *link)
{
    const nx_failure *f = world->failure;
    uint8_t verdict[NX_DETECTOR_FRAME_MAX];

    if ((f == NULL) || f->quiet || f->expelled || !nx_rankset_has(&f->dead, slot)) {
        return false;
    }
    nx_link_dismiss(link, verdict,
                    nx_detector_verdict(f->detector, slot, nx_failure_why(world, slot),
                                        nx_loop_now(world->loop), verdict));
    return true;
}

void nx_failure_quit(nx_world *world, const char *why)
{
    nx_failure *f = world->failure;

    if (!f->expelled && !f->quiet) {
        (void)nx_rankset_add(&f->dead, world->self);
        expel(f, why);
    }
}

void nx_failure_opened(nx_incarnation *inc)
{
    nx_world *world = inc->world;
    const nx_failure *f = world->failure;
    char sentence[NX_FAILURE_WHY + NX_PEER_TEXT + 32];

    for (uint32_t rank = 0; rank < inc->size; rank++) {
        const uint32_t peer = nx_incarnation_peer(inc, rank);

        if (nx_rankset_has(&f->dead, peer)) {
            sentence_of(world, peer, sentence, sizeof(sentence));
            nx_group_break(&inc->group, NEXAR_EPEER, sentence);
            nx_recovery_want(inc);
        }
    }
    nx_failure_check_alone(inc);
    nx_early_opened(world, inc->id);
}

void nx_fail_pending_left(nx_failure *f, uint32_t rank)
{
    char sentence[NX_PEER_TEXT + 16], text[NX_PEER_TEXT];

    (void)nx_sentence(sentence, sizeof(sentence), "%s has left",
                      nx_world_peer_text(f->world, rank, text));
    nx_create_gone(f->world, rank, sentence);
    nx_agreement_left(f->world);
    with_members(f->world, rank, nx_failure_check_alone);
    with_members(f->world, rank, nx_recovery_wake); /* who waits for its word looks again */
}

void nx_fail_pending_stop(nx_failure *f)
{
    while (!nx_list_empty(&f->calls)) {
        call_free(nx_list_entry(f->calls.next, call, link));
    }
}
