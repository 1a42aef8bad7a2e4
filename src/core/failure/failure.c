/* failure.c - what is known of those who have failed or left, and when it is acted upon. */
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

const nx_rankset *nx_failure_dead(const nx_world *world)
{
    return &world->failure->dead;
}

const nx_rankset *nx_failure_left(const nx_world *world)
{
    return &world->failure->left;
}

static const nx_death *find_death(const nx_failure *f, uint32_t rank)
{
    for (const nx_list *at = f->deaths.next; at != &f->deaths; at = at->next) {
        const nx_death *d = nx_list_entry(at, nx_death, link);

        if (d->rank == rank) {
            return d;
        }
    }
    return NULL;
}

const char *nx_failure_why(const nx_world *world, uint32_t rank)
{
    const nx_death *d = find_death(world->failure, rank);

    return (d == NULL) ? "there was no memory to keep why" : d->why;
}

void nx_failure_wake(nx_world *world)
{
    if (!world->failure->quiet) {
        nx_loop_defer(world->loop, &world->failure->task);
    }
}

/* Without memory for |told| whoever is told may be told again. */
static void make_death(nx_failure *f, nx_list *list, uint32_t rank, const char *why)
{
    nx_death *d = nx_zalloc(sizeof(*d));

    if (d != NULL) {
        d->rank = rank;
        if (nx_rankset_init(&d->told, f->world->slots) != NEXAR_OK) {
            d->told = (nx_rankset){0};
        }
        (void)nx_sentence(d->why, sizeof(d->why), "%s", why);
        nx_list_push_back(list, &d->link);
    }
}

/* Without memory it is found out by its silence. */
static void learn_early(nx_failure *f, uint32_t rank, const char *why)
{
    if (!f->quiet) {
        make_death(f, &f->early, rank, why);
    }
}

/* Nothing more is found out of |rank|, or by this one. */
static bool is_settled(const nx_failure *f, uint32_t rank)
{
    return f->quiet || nx_rankset_has(&f->dead, f->world->self) || nx_rankset_has(&f->dead, rank) ||
           (nx_rankset_has(&f->left, rank) && !nx_rankset_has(&f->absent, rank));
}

void nx_failure_learn(nx_world *world, uint32_t rank, const char *why)
{
    nx_failure *f = world->failure;

    if (rank >= f->dead.n) {
        learn_early(f, rank, why);
        return;
    }
    if (is_settled(f, rank)) {
        return;
    }
    (void)nx_rankset_add(&f->dead, rank);
    (void)nx_rankset_add(&f->burials, rank);
    make_death(f, &f->deaths, rank, why);
    nx_failure_wake(world);
}

void nx_failure_absent(nx_world *world, uint32_t slot)
{
    nx_failure *f = world->failure;

    if (!nx_rankset_has(&f->dead, slot) && !nx_rankset_has(&f->left, slot)) {
        (void)nx_rankset_add(&f->absent, slot);
        nx_failure_leaves(world, slot);
    }
}

void nx_failure_agreed(const nx_incarnation *inc, const nx_rankset *failed)
{
    char why[NX_FAILURE_WHY], at[NX_TIME_TEXT];

    (void)snprintf(why, sizeof(why), "the others have agreed that it has, at %s", nx_time_text(at));
    for (uint32_t rank = 0; (rank = nx_rankset_next(failed, rank)) < failed->n; rank++) {
        const uint32_t slot = nx_incarnation_peer(inc, rank);

        if (nx_agreement_has_left(inc, rank)) {
            nx_failure_absent(inc->world, slot);
        } else {
            nx_failure_learn(inc->world, slot, why);
        }
    }
    nx_failure_conclude(inc->world);
}

void nx_failure_end_receives(nx_world *world)
{
    world->failure->starved = true;
    nx_failure_wake(world);
}

void nx_failure_leaves(nx_world *world, uint32_t slot)
{
    nx_failure *f = world->failure;

    if (!f->quiet && !nx_rankset_has(&f->dead, slot) && nx_rankset_add(&f->left, slot)) {
        (void)nx_rankset_add(&f->leaves, slot);
        nx_failure_wake(world);
    }
}

void nx_failure_expect(nx_world *world, uint32_t slot, bool can_answer)
{
    if (can_answer) {
        nx_detector_release(world->failure->detector, slot, nx_loop_now(world->loop));
    } else {
        nx_detector_hold(world->failure->detector, slot);
    }
}

static void on_leaves(nx_failure *f)
{
    for (uint32_t slot = 0; (slot = nx_rankset_next(&f->leaves, slot)) < f->leaves.n; slot++) {
        nx_detector_left(f->detector, slot, nx_loop_now(f->world->loop));
        nx_heard_gate_drop(&f->heard_gate, slot);
        nx_msg_let_go(f->world->msg, slot);
        nx_fail_pending_left(f, slot);
    }
    nx_rankset_clear(&f->leaves);
}

/* |peer| was found absent.  If it is of this host, and its process is no more, others need not
 * find out by themselves: its host refuses to tell more than one a second of them. */
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

/* Nothing listens where |peer| should be: whether the seed tells how it went. */
static bool on_absent(nx_failure *f, uint32_t peer)
{
    tell_ended(f, peer);
    if (nx_unreachable_ask(f, peer)) {
        return true;
    }
    nx_failure_absent(f->world, peer);
    return false;
}

/* It has ended; where one accuses this rank, that is not said yet (failure_detector.h, H5). */
static bool on_gone(nx_failure *f, uint32_t peer)
{
    const char *why;

    (void)nx_msg_ended(f->world->msg, peer, &why);
    if (nx_rankset_has(&f->absent, peer)) { /* others did not know which; this rank does */
        nx_failure_learn(f->world, peer, why);
    }
    nx_detector_link_down(f->detector, peer, NX_DOWN_CLOSED, why, nx_loop_now(f->world->loop));
    return !is_settled(f, peer);
}

static void note_lost(nx_failure *f, uint32_t peer)
{
    if (nx_rankset_add(&f->down, peer)) {
        nx_failure_wake(f->world);
    }
}

bool nx_failure_on_end(nx_world *world, uint32_t peer, nx_end end, nexar_err err)
{
    nx_failure *f = world->failure;

    if ((f == NULL) || is_settled(f, peer)) {
        return false;
    }
    switch (end) {
    case NX_END_ABSENT:
        return on_absent(f, peer);
    case NX_END_LEFT:
        nx_failure_leaves(world, peer);
        return false;
    case NX_END_GONE:
        return on_gone(f, peer);
    case NX_END_LOST:
        break;
    }
    if (err != NEXAR_EPEER) { /* the error is of the link */
        return false;
    }
    note_lost(f, peer);
    return true;
}

void nx_failure_on_down(nx_world *world, uint32_t peer)
{
    nx_failure *f = world->failure;
    const char *why;

    if ((f != NULL) && !is_settled(f, peer) &&
        (nx_msg_ended(world->msg, peer, &why) == NX_END_LOST)) {
        note_lost(f, peer);
    }
}

/* The link to |peer| has ended, and that says nothing of it.  It is watched from now on, until it
 * is given up: there is no way back to it. */
static void on_lost(nx_failure *f, uint32_t peer)
{
    nx_world *world = f->world;
    const uint64_t now = nx_loop_now(world->loop);
    const char *why;

    (void)nx_msg_ended(world->msg, peer, &why);
    if (nx_msg_starved(world->msg, peer)) {
        nx_failure_end_receives(world); /* or this rank would accuse one that is well */
        return;
    }
    if (nx_rankset_add(&f->lost, peer) && (nx_detector_watch(f->detector, peer, now) != NEXAR_OK)) {
        nx_failure_learn(world, peer, why);
    }
    nx_detector_link_down(f->detector, peer, NX_DOWN_LOST, why, now);
}

/* Without memory for the timer only ends of links tell of failures. */
static void set_timer(nx_failure *f)
{
    const uint64_t due = nx_detector_due(f->detector);

    if ((due != UINT64_MAX) && !f->quiet && !f->expelled) {
        (void)!nx_loop_timer_set(f->world->loop, &f->timer, due - f->early_ns);
    }
}

/* One by one: what is sent because of one may be the end of another link, also of a lower
 * rank, which is noted meanwhile. */
static void act_on_downs(nx_failure *f)
{
    uint32_t rank;

    while (!f->expelled && ((rank = nx_rankset_next(&f->down, 0)) < f->down.n)) {
        if (!is_settled(f, rank)) {
            on_lost(f, rank);
        }
        (void)nx_rankset_remove(&f->down, rank);
    }
    nx_rankset_clear(&f->down);
}

static void bury(nx_failure *f, uint32_t rank)
{
    if (nx_rankset_remove(&f->burials, rank) && !f->expelled) {
        nx_fail_pending_failed(f, rank);
    }
}

static void on_task(nx_task *task)
{
    nx_failure *f = nx_list_entry(task, nx_failure, task);
    uint32_t rank;

    if (f->starved) {
        nx_failure_quit(f->world, "this rank had no memory for what others have said");
    }
    on_leaves(f);
    /* At first: one that is dead itself accuses nobody, least of all those who have ended their
     * links to it. */
    bury(f, f->world->self);
    act_on_downs(f);
    bury(f, f->world->self);
    while ((rank = nx_rankset_next(&f->burials, 0)) < f->burials.n) {
        bury(f, rank);
    }
    nx_recovery_conclude(f->world);
    nx_agreement_conclude(f->world);
    set_timer(f);
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

/* Four times in an interval: who was heard since the last time is taken to be heard now, and
 * who falls silent is asked after five quarters at the latest. */
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

/* All that |f| has of them. */
enum { NSETS = 8 };
static void find_sets(nx_failure *f, nx_rankset *sets[NSETS])
{
    nx_rankset *const all[NSETS] = {&f->dead,  &f->left,   &f->burials, &f->down,
                                    &f->asked, &f->absent, &f->lost,    &f->leaves};

    memcpy(sets, all, sizeof(all));
}

/* Those in slots that the view does not have any more are nobody's concern: what was
 * told of them all know, and it is not passed on. */
static void leave_gone(nx_failure *f)
{
    const nx_world *world = f->world;
    const uint64_t now = nx_loop_refresh(world->loop);

    for (uint32_t slot = 0; (world->view != NULL) && (slot < world->slots); slot++) {
        if (nx_view_slot(world->view, slot) == NULL) {
            (void)nx_rankset_add(&f->left, slot);
            (void)nx_rankset_remove(&f->asked, slot);
            nx_detector_left(f->detector, slot, now);
            nx_heard_gate_drop(&f->heard_gate, slot);
            nx_rbcast_failed(f->rbcast, slot);
            nx_rbcast_forget(f->rbcast, nx_rbcast_key(NX_RBCAST_DEAD, slot));
            nx_rbcast_forget(f->rbcast, nx_rbcast_key(NX_RBCAST_ENDED, slot));
        }
    }
}

static void free_death(nx_death *d)
{
    nx_rankset_fini(&d->told);
    nx_free(d);
}

static void free_deaths(nx_list *list)
{
    nx_list *at;

    while ((at = nx_list_pop(list)) != NULL) {
        free_death(nx_list_entry(at, nx_death, link));
    }
}

/* Whether an incarnation is still here that |slot| is in. */
static bool in_use(const nx_world *world, uint32_t slot)
{
    for (const nx_list *at = world->incarnations.next; at != &world->incarnations; at = at->next) {
        if (nx_incarnation_rank_of(nx_list_entry(at, nx_incarnation, link), slot) >= 0) {
            return true;
        }
    }
    return nx_view_slot(world->view, slot) != NULL;
}

nexar_err nx_failure_grow(nx_world *world)
{
    nx_failure *f = world->failure;
    nx_rankset *sets[NSETS];
    const uint64_t now = nx_loop_refresh(world->loop);
    nexar_err err = nx_detector_grow(f->detector, world->slots, now);
    nx_list early;

    find_sets(f, sets);
    for (size_t i = 0; (i < NSETS) && (err == NEXAR_OK); i++) {
        err = nx_rankset_grow(sets[i], world->slots);
    }
    err = (err == NEXAR_OK) ? nx_rbcast_grow(f->rbcast, world->slots) : err;
    if (err != NEXAR_OK) {
        return err;
    }
    leave_gone(f);
    nx_list_for_each (at, &f->deaths) {
        if (!in_use(world, nx_list_entry(at, nx_death, link)->rank)) {
            nx_list_remove(at);
            free_death(nx_list_entry(at, nx_death, link));
        }
    }
    nx_list_init(&early);
    nx_list_for_each (at, &f->early) {
        nx_list_remove(at);
        nx_list_push_back(&early, at);
    }
    nx_list_for_each (at, &early) {
        nx_failure_learn(world, nx_list_entry(at, nx_death, link)->rank,
                         nx_list_entry(at, nx_death, link)->why);
    }
    free_deaths(&early);
    set_timer(f);
    return NEXAR_OK;
}

static nexar_err make_machines(nx_failure *f, const nx_detector_config *hc)
{
    nx_rankset *sets[NSETS];
    nexar_err err = NEXAR_OK;

    find_sets(f, sets);
    for (size_t i = 0; (i < NSETS) && (err == NEXAR_OK); i++) {
        err = nx_rankset_init(sets[i], hc->size);
    }
    if (err == NEXAR_OK) {
        err = nx_detector_events_start(f, hc);
    }
    if (err == NEXAR_OK) {
        leave_gone(f);
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

    /* A path that was cut for nearly as long must have the time to be found again; with the
     * quarters of on_timer it is still within an interval that all is known. */
    hc.timeout_ns += hc.interval_ns / 2;
    f = nx_zalloc(sizeof(*f));
    if (f == NULL) {
        return nx_fail_nomem("the detection of failures");
    }
    f->world = world;
    nx_list_init(&f->deaths);
    nx_list_init(&f->calls);
    nx_list_init(&f->early);
    nx_detector_events_init(f);
    nx_task_init(&f->task, on_task);
    f->timer.on_expire = on_timer;
    f->early_ns = hc.interval_ns - hc.interval_ns / 4;
    f->spans_ns = hc.timeout_ns;
    world->failure = f; /* whoever ends the world ends it */
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
        nx_loop_timer_cancel(world->loop, &f->timer);
        nx_loop_undefer(&f->task);
    }
}

void nx_failure_stop(nx_world *world)
{
    nx_failure *f = world->failure;
    nx_rankset *sets[NSETS];

    if (f == NULL) {
        return;
    }
    nx_failure_quiet(world);
    nx_agreements_free(world);
    free_deaths(&f->deaths);
    free_deaths(&f->early);
    nx_fail_pending_stop(f);
    nx_detector_events_stop(f);
    find_sets(f, sets);
    for (size_t i = 0; i < NSETS; i++) {
        nx_rankset_fini(sets[i]);
    }
    nx_free(f);
    world->failure = NULL;
}
