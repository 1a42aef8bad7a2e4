/* failure.c - events for the membership, notification of its subscribers, and its life. */
#include "core/failure/failure.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text/sentence.h"
#include "core/agreement/agreement.h"
#include "core/comm/comm.h"
#include "core/failure/failure_inner.h"
#include "core/recovery/recovery.h"
#include "core/world/transport_choice.h"

nx_life nx_failure_life(const nx_world *world, uint32_t slot)
{
    const nx_failure *f = world->failure;

    return ((f == NULL) || (f->members == NULL)) ? NX_LIFE_ALIVE
                                                 : nx_membership_life(f->members, slot);
}

bool nx_failure_any(const nx_world *world)
{
    const nx_failure *f = world->failure;

    return (f != NULL) && (f->members != NULL) && (nx_membership_failures(f->members) > 0);
}

const char *nx_failure_why(const nx_world *world, uint32_t slot)
{
    const char *why = nx_membership_of(world->failure->members, slot)->why;

    return (why == NULL) ? "there was no memory to keep why" : why;
}

void nx_failure_wake(nx_world *world)
{
    if (!world->failure->quiet) {
        nx_loop_defer(world->loop, &world->failure->task);
    }
}

/* ---- events ------------------------------------------------------------------------------- */

static void report(nx_world *world, const nx_life_event *event)
{
    if ((world->failure != NULL) && !world->failure->quiet) {
        (void)nx_membership_report(world->failure->members, event, nx_loop_now(world->loop));
    }
}

void nx_failure_suspect(nx_world *world, uint32_t slot, nx_life_source source, const char *why)
{
    report(world,
           &(nx_life_event){.slot = slot, .life = NX_LIFE_SUSPECT, .source = source, .why = why});
}

void nx_failure_failed(nx_world *world, uint32_t slot, nx_life_source source, const char *why)
{
    char sentence[NX_FAILURE_WHY];

    (void)nx_sentence(sentence, sizeof(sentence), "%s", why);
    report(world, &(nx_life_event){
                      .slot = slot, .life = NX_LIFE_FAILED, .source = source, .why = sentence});
}

void nx_failure_left(nx_world *world, uint32_t slot, nx_life_source source)
{
    report(world, &(nx_life_event){.slot = slot, .life = NX_LIFE_LEFT, .source = source});
}

void nx_failure_absent(nx_world *world, uint32_t slot, nx_life_source source)
{
    report(world, &(nx_life_event){
                      .slot = slot, .life = NX_LIFE_LEFT, .source = source, .presumed = true});
}

void nx_failure_agreed(const nx_incarnation *inc, const nx_rankset *failed)
{
    char why[NX_FAILURE_WHY], at[NX_TIME_TEXT];

    (void)snprintf(why, sizeof(why), "the others have agreed that it has, at %s", nx_time_text(at));
    for (uint32_t rank = 0; (rank = nx_rankset_next(failed, rank)) < failed->n; rank++) {
        const uint32_t slot = nx_incarnation_peer(inc, rank);

        if (nx_agreement_has_left(inc, rank)) {
            nx_failure_absent(inc->world, slot, NX_SOURCE_CONSENSUS);
        } else {
            nx_failure_failed(inc->world, slot, NX_SOURCE_CONSENSUS, why);
        }
    }
    nx_failure_conclude(inc->world);
}

void nx_failure_end_receives(nx_world *world)
{
    world->failure->starved = true;
    nx_failure_wake(world);
}

void nx_failure_expect(nx_world *world, uint32_t slot, bool can_answer)
{
    if (can_answer) {
        nx_detector_release(world->failure->detector, slot, nx_loop_now(world->loop));
    } else {
        nx_detector_hold(world->failure->detector, slot);
    }
}

/* |peer| was found unreachable.  If |peer| is on this host and its process has exited, this rank
 * notifies the others.  Otherwise each would ask the host, whose kernel limits such answers to
 * about one per second. */
static void tell_ended(nx_failure *f, uint32_t peer)
{
    const nx_world *world = f->world;
    const nx_member *m = (world->view == NULL) ? NULL : nx_view_slot(world->view, peer);

    if ((m != NULL) && nx_links_same_host(world, m) && nx_process_ended(&m->process) &&
        (nx_rbcast_start(f->rbcast, nx_rbcast_key(NX_RBCAST_ENDED, peer), NULL, 0) != NEXAR_OK)) {
        nx_log(NX_LOG_INFO, "others are not told that the process of rank %" PRIu32 " is gone: %s",
               nx_world_rank(world, peer), nexar_last_error());
    }
}

bool nx_failure_ended(const nx_world *world, uint32_t peer)
{
    const nx_failure *f = world->failure;

    return (f != NULL) && (f->rbcast != NULL) &&
           nx_rbcast_knows(f->rbcast, nx_rbcast_key(NX_RBCAST_ENDED, peer));
}

bool nx_failure_on_end(nx_world *world, uint32_t peer, nx_end end, nexar_err err)
{
    nx_failure *f = world->failure;
    const char *why;

    if ((f == NULL) || nx_failure_is_out(f)) {
        return false;
    }
    (void)nx_msg_ended(world->msg, peer, &why);
    switch (end) {
    case NX_END_ABSENT:
        if (nx_membership_life(f->members, peer) < NX_LIFE_LEFT) {
            tell_ended(f, peer);
            nx_unreachable_ask(f, peer);
        }
        break;
    case NX_END_LEFT:
        nx_failure_left(world, peer, NX_SOURCE_LINK);
        break;
    case NX_END_GONE: /* a rank that accuses this one is not judged yet (H5) */
        if (nx_detector_doubts(f->detector, peer)) {
            nx_failure_suspect(world, peer, NX_SOURCE_VERDICT, why);
        } else {
            nx_failure_failed(world, peer, NX_SOURCE_LINK, why);
        }
        break;
    case NX_END_LOST:
        if (err != NEXAR_EPEER) { /* the error concerns the link only */
            return false;
        }
        nx_failure_suspect(world, peer, NX_SOURCE_LINK, why);
        break;
    }
    return !nx_membership_settled(f->members, peer);
}

void nx_failure_on_down(nx_world *world, uint32_t peer)
{
    const char *why;

    if (nx_msg_ended(world->msg, peer, &why) == NX_END_LOST) {
        nx_failure_suspect(world, peer, NX_SOURCE_LINK, why);
    }
}

/* Without memory for the timer only the end of a link reveals a failure. */
static void set_timer(nx_failure *f)
{
    const uint64_t due = nx_detector_due(f->detector);

    if ((due != UINT64_MAX) && !nx_failure_is_out(f)) {
        (void)!nx_loop_timer_set(f->world->loop, &f->timer, due - f->early_ns);
    }
}

static void on_task(nx_task *task)
{
    nx_failure *f = nx_list_entry(task, nx_failure, task);

    if (f->starved) {
        nx_failure_quit(f->world, "this rank had no memory for what others have said");
    }
    nx_membership_notify(f->members);
    nx_recovery_conclude(f->world);
    nx_agreement_conclude(f->world);
    set_timer(f);
}

static void on_due(void *ctx)
{
    nx_failure_wake(((nx_failure *)ctx)->world);
}

void nx_failure_quit(nx_world *world, const char *why)
{
    nx_failure *f = world->failure;

    if (!nx_failure_is_out(f)) {
        nx_failure_failed(world, world->self, NX_SOURCE_SELF, why);
        nx_membership_notify(f->members);
    }
}

void nx_failure_conclude(nx_world *world)
{
    nx_loop_undefer(&world->failure->task);
    on_task(&world->failure->task);
}

uint64_t nx_failure_pause(const nx_failure *f)
{
    return (f->pause_ns[0] > f->pause_ns[1]) ? f->pause_ns[0] : f->pause_ns[1];
}

static void note_pause(nx_failure *f, uint64_t now_ns)
{
    const uint64_t pause = (f->ticked_ns == 0) ? 0 : now_ns - f->ticked_ns;

    f->ticked_ns = now_ns;
    if (now_ns - f->span_ns >= f->spans_ns) {
        f->span_ns = now_ns;
        f->pause_ns[1] = f->pause_ns[0];
        f->pause_ns[0] = 0;
    }
    f->pause_ns[0] = (pause > f->pause_ns[0]) ? pause : f->pause_ns[0];
}

/* The timer expires four times per interval.  A rank heard since the last tick counts as heard now.
 * A rank that falls silent is asked after five quarters of the interval at the latest. */
static void on_timer(nx_timer *timer, uint64_t now_ns)
{
    nx_failure *f = nx_list_entry(timer, nx_failure, timer);

    note_pause(f, now_ns);
    for (uint32_t peer = 0; peer < f->world->slots; peer++) {
        if (nx_msg_heard(f->world->msg, peer)) {
            nx_detector_events_heard(f, peer, now_ns);
        }
    }
    nx_detector_tick(f->detector, now_ns);
    nx_unreachable_tick(f, now_ns);
    nx_world_inquire(f->world);
    set_timer(f);
}

/* ---- life ----------------------------------------------------------------------------------- */

/* Slots that are no longer in the view: all ranks know the items about them, so those need not be
 * forwarded. */
static void retire_slots(nx_failure *f)
{
    const nx_world *world = f->world;

    for (uint32_t slot = 0; (world->view != NULL) && (slot < world->slots); slot++) {
        if (nx_view_slot(world->view, slot) == NULL) {
            (void)nx_membership_retire(f->members, slot);
        }
    }
}

/* Whether any incarnation here still includes |slot|. */
static bool in_use(const nx_world *world, uint32_t slot)
{
    for (const nx_list *at = world->incarnations.next; at != &world->incarnations; at = at->next) {
        if (nx_incarnation_rank_of(nx_list_entry(at, nx_incarnation, link), slot) >= 0) {
            return true;
        }
    }
    return nx_view_slot(world->view, slot) != NULL;
}

/* Notifies the machines that |slot| was retired. */
static void forget_slot(nx_failure *f, uint32_t slot)
{
    nx_detector_close_ring(f->detector, nx_loop_now(f->world->loop));
    nx_heard_gate_drop(&f->heard_gate, slot);
    nx_rbcast_gone(f->rbcast, slot);
    nx_rbcast_forget(f->rbcast, nx_rbcast_key(NX_RBCAST_DEAD, slot));
    nx_rbcast_forget(f->rbcast, nx_rbcast_key(NX_RBCAST_ENDED, slot));
    if (!in_use(f->world, slot)) {
        nx_membership_forget_why(f->members, slot);
    }
}

nexar_err nx_failure_grow(nx_world *world)
{
    nx_failure *f = world->failure;
    const uint64_t now = nx_loop_refresh(world->loop);
    nexar_err err = nx_membership_grow(f->members, world->slots);

    if (err == NEXAR_OK) {
        retire_slots(f);
        err = nx_detector_grow(f->detector, world->slots, now);
    }
    if (err != NEXAR_OK) {
        return err;
    }
    nx_rbcast_grow(f->rbcast, world->slots);
    for (uint32_t slot = 0; slot < world->slots; slot++) {
        if (nx_view_slot(world->view, slot) == NULL) {
            forget_slot(f, slot);
        }
    }
    nx_membership_replay(f->members, now);
    set_timer(f);
    return NEXAR_OK;
}

static nexar_err make_machines(nx_failure *f, nx_detector_config *hc)
{
    const nx_membership_config config = {.slots = hc->size,
                                         .self = hc->self,
                                         .subscribers = nx_fail_pending_table,
                                         .nsubscribers = nx_fail_pending_rows,
                                         .on_expelled = nx_fail_pending_all,
                                         .on_due = on_due,
                                         .ctx = f};
    nexar_err err = nx_membership_create(&f->members, &config);

    if (err == NEXAR_OK) {
        retire_slots(f);
        err = nx_detector_events_start(f, hc);
    }
    return err;
}

nexar_err nx_failure_start(nx_world *world)
{
    nx_detector_config hc = {
        .size = world->slots,
        .self = world->self,
        .interval_ns = nx_config_number(world->config, NX_SET_HEARTBEAT_INTERVAL),
        .timeout_ns = nx_config_number(world->config, NX_SET_HEARTBEAT_TIMEOUT),
    };
    nx_failure *f;
    nexar_err err;

    /* A path that was cut for nearly the time-out needs time to recover.  With the quarters of
     * on_timer all states are known within one more interval. */
    hc.timeout_ns += hc.interval_ns / 2;
    f = nx_zalloc(sizeof(*f));
    if (f == NULL) {
        return nx_fail_nomem("the detection of failures");
    }
    f->world = world;
    nx_list_init(&f->calls);
    nx_detector_events_init(f);
    nx_task_init(&f->task, on_task);
    f->timer.on_expire = on_timer;
    f->early_ns = hc.interval_ns - hc.interval_ns / 4;
    f->spans_ns = hc.timeout_ns;
    world->failure = f; /* the end of the world stops it */
    err = make_machines(f, &hc);
    if (err == NEXAR_OK) {
        set_timer(f);
    } else {
        f->quiet = true; /* members may connect before the world is given up */
    }
    return err;
}

void nx_failure_quiet(nx_world *world)
{
    nx_failure *f = world->failure;

    if (f != NULL) {
        f->quiet = true;
        if (f->members != NULL) {
            nx_membership_close(f->members);
        }
        nx_loop_timer_cancel(world->loop, &f->timer);
        nx_loop_undefer(&f->task);
    }
}

void nx_failure_stop(nx_world *world)
{
    nx_failure *f = world->failure;

    if (f == NULL) {
        return;
    }
    nx_failure_quiet(world);
    nx_agreements_free(world);
    nx_fail_pending_stop(f);
    nx_detector_events_stop(f);
    nx_membership_destroy(f->members);
    nx_free(f);
    world->failure = NULL;
}
