/* failure.c - what is known of those who have failed or left, and when it is acted upon. */
#include "core/failure.h"

#include <stdio.h>

#include "base/alloc.h"
#include "core/accord.h"
#include "core/comm.h"
#include "core/failure_inner.h"
#include "core/recover.h"

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

void nx_failure_stir(nx_world *world)
{
    if (!world->failure->quiet) {
        nx_loop_defer(world->loop, &world->failure->task);
    }
}

static void make_death(nx_list *list, uint32_t rank, const char *why)
{
    nx_death *d = nx_zalloc(sizeof(*d));

    if (d != NULL) {
        d->rank = rank;
        (void)snprintf(d->why, sizeof(d->why), "%s", why);
        nx_list_push_back(list, &d->link);
    }
}

/* Without memory it is found out by its silence. */
static void learn_early(nx_failure *f, uint32_t rank, const char *why)
{
    if (!f->quiet) {
        make_death(&f->early, rank, why);
    }
}

/* Its link says that it has left in order: |f| is about to hear that. */
static bool has_taken_leave(const nx_failure *f, uint32_t rank)
{
    const char *why;

    return nx_rankset_has(&f->down, rank) &&
           (nx_msg_ended(f->world->msg, rank, &why) == NX_END_LEFT);
}

void nx_failure_learn(nx_world *world, uint32_t rank, const char *why)
{
    nx_failure *f = world->failure;

    if (rank >= f->dead.n) {
        learn_early(f, rank, why);
        return;
    }
    if (has_taken_leave(f, rank)) {
        return;
    }
    if (f->quiet || nx_rankset_has(&f->dead, rank) ||
        (nx_rankset_has(&f->left, rank) && !nx_rankset_has(&f->absent, rank)) ||
        !nx_rankset_add(&f->died, rank)) {
        return;
    }
    make_death(&f->deaths, rank, why);
    nx_failure_stir(world);
}

void nx_failure_starve(nx_world *world)
{
    world->failure->starved = true;
    nx_failure_stir(world);
}

void nx_failure_on_down(nx_world *world, uint32_t peer)
{
    nx_failure *f = world->failure;

    if ((f != NULL) && !f->quiet && nx_rankset_add(&f->down, peer)) {
        nx_failure_stir(world);
    }
}

void nx_failure_leaves(nx_world *world, uint32_t slot)
{
    nx_failure *f = world->failure;

    if (!f->quiet && !nx_rankset_has(&f->dead, slot) && nx_rankset_add(&f->left, slot)) {
        (void)nx_rankset_add(&f->leaves, slot);
        nx_failure_stir(world);
    }
}

static void on_leaves(nx_failure *f)
{
    for (uint32_t slot = 0; (slot = nx_rankset_next(&f->leaves, slot)) < f->leaves.n; slot++) {
        nx_health_left(f->health, slot, nx_loop_now(f->world->loop));
        nx_gate_drop(&f->gate, slot);
        nx_aftermath_left(f, slot);
    }
    nx_rankset_clear(&f->leaves);
}

/* The link to |peer| has ended. */
static void on_link_end(nx_failure *f, uint32_t peer)
{
    nx_world *world = f->world;
    const uint64_t now = nx_loop_now(world->loop);
    const char *why;
    nx_end end;

    if (nx_rankset_has(&f->dead, peer)) {
        return;
    }
    end = nx_msg_ended(world->msg, peer, &why);
    if (end == NX_END_ABSENT) {
        (void)nx_rankset_add(&f->absent, peer);
    }
    switch (end) {
    case NX_END_ABSENT:
    case NX_END_LEFT:
        nx_health_left(f->health, peer, now);
        nx_gate_drop(&f->gate, peer);
        if (nx_rankset_add(&f->left, peer)) {
            nx_aftermath_left(f, peer);
        }
        break;
    case NX_END_GONE:
        nx_health_link_down(f->health, peer, NX_DOWN_CLOSED, why, now);
        break;
    case NX_END_LOST:
        if (nx_msg_starved(world->msg, peer)) {
            nx_failure_starve(world); /* or this rank would accuse one that is well */
            break;
        }
        /* Watched from now on, until it is given up: there is no way back to it. */
        if (nx_rankset_add(&f->lost, peer) && (nx_health_watch(f->health, peer, now) != NEXAR_OK)) {
            nx_failure_learn(world, peer, why);
        }
        nx_health_link_down(f->health, peer, NX_DOWN_LOST, why, now);
        break;
    }
}

/* Without memory for the timer only ends of links tell of failures. */
static void set_timer(nx_failure *f)
{
    const uint64_t due = nx_health_due(f->health);

    if ((due != UINT64_MAX) && !f->quiet && !f->expelled) {
        (void)!nx_loop_timer_set(f->world->loop, &f->timer, due - f->early_ns);
    }
}

static void on_task(nx_task *task)
{
    nx_failure *f = nx_list_entry(task, nx_failure, task);
    const uint32_t size = f->world->slots, self = f->world->self;

    if (f->starved) {
        nx_failure_quit(f->world, "this rank had no memory for what others have said");
    }
    on_leaves(f);
    for (uint32_t rank = 0; !f->expelled && (rank = nx_rankset_next(&f->down, rank)) < size;
         rank++) {
        on_link_end(f, rank);
    }
    nx_rankset_clear(&f->down);
    /* At first: one that is dead itself accuses nobody. */
    if (nx_rankset_has(&f->died, self) && !nx_rankset_has(&f->dead, self)) {
        nx_aftermath_bury(f, self);
    }
    for (uint32_t rank = 0; (rank = nx_rankset_next(&f->died, rank)) < size; rank++) {
        if (!nx_rankset_has(&f->dead, rank)) {
            nx_aftermath_bury(f, rank);
        }
    }
    nx_recover_settle(f->world);
    nx_accord_settle(f->world);
    set_timer(f);
}

void nx_failure_settle(nx_world *world)
{
    nx_loop_undefer(&world->failure->task);
    on_task(&world->failure->task);
}

/* Four times in an interval: who was heard since the last time is taken to be heard now, and
 * who falls silent is asked after five quarters at the latest. */
static void on_timer(nx_timer *timer, uint64_t now_ns)
{
    nx_failure *f = nx_list_entry(timer, nx_failure, timer);

    for (uint32_t peer = 0; peer < f->world->slots; peer++) {
        if (nx_msg_heard(f->world->msg, peer)) {
            nx_hearsay_heard(f, peer, now_ns);
        }
    }
    nx_health_tick(f->health, now_ns);
    set_timer(f);
}

/* ---- life ----------------------------------------------------------------------------------- */

/* Those in slots that the view does not have any more are nobody's concern: what was
 * told of them all know, and it is not passed on. */
static void leave_gone(nx_failure *f)
{
    const nx_world *world = f->world;
    const uint64_t now = nx_loop_refresh(world->loop);

    for (uint32_t slot = 0; (world->view != NULL) && (slot < world->slots); slot++) {
        if (nx_view_slot(world->view, slot) == NULL) {
            (void)nx_rankset_add(&f->left, slot);
            nx_health_left(f->health, slot, now);
            nx_gate_drop(&f->gate, slot);
            nx_flood_failed(f->flood, slot);
            nx_flood_forget(f->flood, nx_flood_key(NX_FLOOD_DEAD, slot));
        }
    }
}

static void free_deaths(nx_list *list)
{
    nx_list *at;

    while ((at = nx_list_pop(list)) != NULL) {
        nx_free(nx_list_entry(at, nx_death, link));
    }
}

/* Whether a communicator is still here that |slot| is in. */
static bool in_use(const nx_world *world, uint32_t slot)
{
    for (const nx_list *at = world->comms.next; at != &world->comms; at = at->next) {
        if (nx_comm_find_peer(nx_list_entry(at, nexar_comm, link), slot) >= 0) {
            return true;
        }
    }
    return nx_view_slot(world->view, slot) != NULL;
}

nexar_err nx_failure_grow(nx_world *world)
{
    nx_failure *f = world->failure;
    nx_rankset *const sets[] = {&f->left, &f->died,   &f->down, &f->absent,
                                &f->lost, &f->leaves, &f->dead};
    const uint64_t now = nx_loop_refresh(world->loop);
    nexar_err err = nx_health_grow(f->health, world->slots, now);
    nx_list early;

    for (size_t i = 0; (i < sizeof(sets) / sizeof(sets[0])) && (err == NEXAR_OK); i++) {
        err = nx_rankset_grow(sets[i], world->slots);
    }
    err = (err == NEXAR_OK) ? nx_flood_grow(f->flood, world->slots) : err;
    if (err != NEXAR_OK) {
        return err;
    }
    leave_gone(f);
    nx_list_for_each (at, &f->deaths) {
        if (!in_use(world, nx_list_entry(at, nx_death, link)->rank)) {
            nx_list_remove(at);
            nx_free(nx_list_entry(at, nx_death, link));
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

static nexar_err make_machines(nx_failure *f, const nx_health_config *hc)
{
    nx_rankset *const sets[] = {&f->dead,   &f->left, &f->died,  &f->down,
                                &f->absent, &f->lost, &f->leaves};
    nexar_err err = NEXAR_OK;

    for (size_t i = 0; (i < sizeof(sets) / sizeof(sets[0])) && (err == NEXAR_OK); i++) {
        err = nx_rankset_init(sets[i], hc->size);
    }
    if (err == NEXAR_OK) {
        err = nx_hearsay_start(f, hc);
    }
    if (err == NEXAR_OK) {
        leave_gone(f);
    }
    return err;
}

nexar_err nx_failure_start(nx_world *world)
{
    nx_health_config hc = {
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
    nx_hearsay_init(f);
    nx_task_init(&f->task, on_task);
    f->timer.on_expire = on_timer;
    f->early_ns = hc.interval_ns - hc.interval_ns / 4;
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

    if (f == NULL) {
        return;
    }
    nx_failure_quiet(world);
    nx_accords_free(world);
    free_deaths(&f->deaths);
    free_deaths(&f->early);
    nx_aftermath_stop(f);
    nx_hearsay_stop(f);
    nx_rankset_fini(&f->dead);
    nx_rankset_fini(&f->left);
    nx_rankset_fini(&f->died);
    nx_rankset_fini(&f->down);
    nx_rankset_fini(&f->absent);
    nx_rankset_fini(&f->lost);
    nx_rankset_fini(&f->leaves);
    nx_free(f);
    world->failure = NULL;
}
