/* failure.c - from silence and ended links to the end of all that needs the dead. */
#include "core/failure.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/log.h"
#include "cluster/flood.h"
#include "cluster/gate.h"
#include "cluster/health.h"
#include "core/accord.h"
#include "core/comm.h"
#include "core/recover.h"
#include "msg/control.h"

/* The flood of deaths; those of communicators have their ids, of 32 bits. */
#define DEATHS (UINT64_C(1) << 32)

typedef struct death {
    nx_list link;
    uint32_t rank;
    char why[NX_FAILURE_WHY];
} death;

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

struct nx_failure {
    nx_world *world;
    nx_health *health;
    nx_flood *flood;
    nx_gate gate;          /* for what rests upon deaths */
    nx_rankset dead, left; /* acted upon */
    nx_rankset died, down; /* noted: ranks that have failed; whose link has ended */
    nx_rankset absent;     /* of those that have left: it may be that they have failed */
    nx_rankset lost;       /* watched since their link is lost */
    nx_rankset leaves;     /* noted: who will leave, as was agreed; of |left| */
    nx_list deaths, calls;
    nx_list early; /* deaths in slots that are not known yet */
    nx_timer timer;
    uint64_t early_ns; /* it expires so long before it is due: see on_timer */
    nx_task task;
    bool quiet;
    bool expelled; /* this rank is out: the others hold it for dead, or will */
    bool starved;  /* it has no memory to go on */
};

const nx_rankset *nx_failure_dead(const nx_world *world)
{
    return &world->failure->dead;
}

const nx_rankset *nx_failure_left(const nx_world *world)
{
    return &world->failure->left;
}

static const death *find_death(const nx_failure *f, uint32_t rank)
{
    for (const nx_list *at = f->deaths.next; at != &f->deaths; at = at->next) {
        const death *d = nx_list_entry(at, death, link);

        if (d->rank == rank) {
            return d;
        }
    }
    return NULL;
}

const char *nx_failure_why(const nx_world *world, uint32_t rank)
{
    const death *d = find_death(world->failure, rank);

    return (d == NULL) ? "there was no memory to keep why" : d->why;
}

/* ---- what the machines say ------------------------------------------------------------ */

void nx_failure_stir(nx_world *world)
{
    if (!world->failure->quiet) {
        nx_loop_defer(world->loop, &world->failure->task);
    }
}

static void make_death(nx_list *list, uint32_t rank, const char *why)
{
    death *d = nx_zalloc(sizeof(*d));

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

void nx_failure_learn(nx_world *world, uint32_t rank, const char *why)
{
    nx_failure *f = world->failure;

    if (rank >= f->dead.n) {
        learn_early(f, rank, why);
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

static void send_frame(void *ctx, uint32_t to, const void *frame, size_t len)
{
    const nx_failure *f = ctx;

    /* Whoever cannot be told is gone, or will be found out. */
    (void)!nx_msg_send_control(f->world->msg, to, frame, len);
}

void nx_failure_send(nx_world *world, uint32_t to, const void *frame, size_t len)
{
    nx_failure *f = world->failure;

    /* Whoever is gone is not waited for. */
    if ((f == NULL) || f->quiet || f->expelled || nx_rankset_has(&f->dead, to) ||
        nx_rankset_has(&f->left, to)) {
        (void)!nx_msg_send_control(world->msg, to, frame, len);
    } else {
        nx_gate_send(&f->gate, to, frame, len);
    }
}

static void send_news(void *ctx, uint32_t to, const void *frame, size_t len)
{
    const nx_failure *f = ctx;

    nx_failure_send(f->world, to, frame, len);
}

static bool hears(void *ctx, uint32_t peer)
{
    const nx_failure *f = ctx;

    return nx_health_hears(f->health, peer, nx_loop_now(f->world->loop));
}

/* Watched until it is heard: it answers, or is dead. */
static void begin_asking(void *ctx, uint32_t peer)
{
    const nx_failure *f = ctx;
    const uint64_t now = nx_loop_now(f->world->loop);

    if (nx_health_watch(f->health, peer, now) != NEXAR_OK) {
        nx_failure_starve(f->world);
    }
    nx_health_ask(f->health, peer, now);
}

static void end_asking(void *ctx, uint32_t peer)
{
    const nx_failure *f = ctx;

    nx_health_unwatch(f->health, peer);
}

static const nx_gate_ops gate_ops = {
    .send = send_frame, .hears = hears, .begin = begin_asking, .end = end_asking};

static void on_suspected(void *ctx, uint32_t peer, const char *why)
{
    const nx_failure *f = ctx;
    char text[NX_PEER_TEXT];

    nx_log(NX_LOG_INFO, "%s may have failed: %s", nx_world_peer_text(f->world, peer, text), why);
}

static void on_dead(void *ctx, uint32_t peer, const char *why)
{
    const nx_failure *f = ctx;
    const time_t now = time(NULL);
    char sentence[NX_FAILURE_WHY];
    const char *words;
    struct tm tm;

    if (nx_rankset_has(&f->down, peer) &&
        (nx_msg_ended(f->world->msg, peer, &words) == NX_END_GONE)) {
        why = words;
    }
    (void)gmtime_r(&now, &tm);
    (void)snprintf(sentence, sizeof(sentence), "%.160s, at %02d:%02d:%02d UTC", why, tm.tm_hour,
                   tm.tm_min, tm.tm_sec);
    nx_failure_learn(f->world, peer, sentence);
}

static void on_zombie(void *ctx, uint32_t peer)
{
    const nx_failure *f = ctx;

    nx_health_tell(f->health, peer, nx_failure_why(f->world, peer), nx_loop_now(f->world->loop));
}

static void on_outcast(void *ctx, uint32_t by, const char *why)
{
    const nx_failure *f = ctx;
    char sentence[NX_HEALTH_VERDICT + 64];

    (void)snprintf(sentence, sizeof(sentence), "%s, says rank %" PRIu32, why,
                   nx_world_rank(f->world, by));
    nx_failure_learn(f->world, f->world->self, sentence);
}

static const nx_health_ops health_ops = {.send = send_frame,
                                         .suspected = on_suspected,
                                         .dead = on_dead,
                                         .zombie = on_zombie,
                                         .outcast = on_outcast};

static void on_learned(void *ctx, uint64_t key, const void *data, size_t len, uint32_t from)
{
    const nx_failure *f = ctx;
    char why[NX_FLOOD_DATA_MAX + 64];

    (void)snprintf(why, sizeof(why), "%.*s, says rank %" PRIu32, (int)len, (const char *)data,
                   nx_world_rank(f->world, from));
    if ((key >> 32) == NX_FLOOD_DEAD) {
        nx_failure_learn(f->world, (uint32_t)key, why);
    }
}

void nx_failure_starve(nx_world *world)
{
    world->failure->starved = true;
    nx_failure_stir(world);
}

static const nx_flood_ops flood_ops = {.send = send_news, .learned = on_learned};

static void heard(nx_failure *f, uint32_t peer, uint64_t now_ns)
{
    if (!nx_rankset_has(&f->dead, peer)) {
        nx_health_heard(f->health, peer, now_ns);
        nx_gate_heard(&f->gate, peer);
    }
}

bool nx_failure_on_control(nx_world *world, uint32_t peer, const void *data, size_t len)
{
    const uint8_t kind = *(const uint8_t *)data;
    nx_failure *f = world->failure;
    nexar_err err = NEXAR_OK;
    uint64_t group = 0;

    if (((kind < NX_CONTROL_PING) || (kind > NX_CONTROL_AGREE)) && (kind != NX_CONTROL_CONFIRM) &&
        (kind != NX_CONTROL_VERDICT)) {
        return false;
    }
    if ((f == NULL) || f->quiet || f->expelled) {
        return true;
    }
    heard(f, peer, nx_loop_now(world->loop));
    if ((kind <= NX_CONTROL_PONG) || (kind == NX_CONTROL_VERDICT)) {
        err = nx_health_frame(f->health, peer, data, len, nx_loop_now(world->loop));
    } else if ((kind == NX_CONTROL_FLOOD) &&
               (nx_flood_frame_group(data, len, &group) == NEXAR_OK) && (group == DEATHS)) {
        err = nx_flood_frame(f->flood, peer, data, len);
    } else {
        err = nx_accord_frame(world, peer, data, len);
    }
    if (err != NEXAR_OK) {
        nx_log(NX_LOG_WARN, "peer %" PRIu32 " sent what was not taken: %s", peer,
               nexar_last_error());
    }
    if (err == NEXAR_ENOMEM) {
        nx_failure_starve(world);
    }
    return true;
}

void nx_failure_on_down(nx_world *world, uint32_t peer)
{
    nx_failure *f = world->failure;

    if ((f != NULL) && !f->quiet && nx_rankset_add(&f->down, peer)) {
        nx_failure_stir(world);
    }
}

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
    nx_world_end(comm->world, NEXAR_OK);
    nx_comm_release(comm);
}

static void call_one(nexar_comm *comm, uint32_t rank)
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
    (void)snprintf(c->why, sizeof(c->why), "%s: %s",
                   nx_world_peer_text(comm->world, nx_comm_peer(comm, rank), text),
                   nx_failure_why(comm->world, nx_comm_peer(comm, rank)));
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

    for (uint32_t rank = 0; (comm->on_failure != NULL) && (rank < comm->size); rank++) {
        if (nx_rankset_has(&f->dead, nx_comm_peer(comm, rank)) && !comm->world->closing &&
            nx_rankset_add(&comm->called, rank)) {
            call_one(comm, rank);
        }
    }
}

void nx_failure_keep_called(const nexar_comm *from, nexar_comm *to)
{
    for (uint32_t rank = 0; rank < to->size; rank++) {
        const int was = nx_comm_find_peer(from, nx_comm_peer(to, rank));

        if ((was >= 0) && nx_rankset_has(&from->called, (uint32_t)was)) {
            (void)nx_rankset_add(&to->called, rank);
        }
    }
}

/* ---- what follows ------------------------------------------------------------------------- */

/* Receives from anybody end where nobody else of |comm| is left. */
static void check_alone(nexar_comm *comm)
{
    const nx_failure *f = comm->world->failure;
    bool alone = (comm->size > 1);

    for (uint32_t rank = 0; alone && !f->expelled && (rank < comm->size); rank++) {
        const uint32_t peer = nx_comm_peer(comm, rank);

        alone = (rank == comm->rank) || nx_rankset_has(&f->dead, peer) ||
                nx_rankset_has(&f->left, peer);
    }
    if (alone) {
        comm->alone = true;
        nx_comm_fail_any(comm);
    }
}

/* Calls |each| for all communicators that |rank| is in. */
static void with_comms(nx_world *world, uint32_t rank, void (*each)(nexar_comm *comm))
{
    if ((world->comm != NULL) && (nx_comm_find_peer(world->comm, rank) >= 0)) {
        each(world->comm);
    }
    nx_list_for_each (at, &world->comms) {
        nexar_comm *comm = nx_list_entry(at, nexar_comm, link);

        if (nx_comm_find_peer(comm, rank) >= 0) {
            each(comm);
        }
    }
}

static void sentence_of(const nx_world *world, uint32_t rank, char *buf, size_t size)
{
    char text[NX_PEER_TEXT];

    (void)snprintf(buf, size, "%s has failed: %s", nx_world_peer_text(world, rank, text),
                   nx_failure_why(world, rank));
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
    nx_hub_on_death(world->hub, world->self, NEXAR_EPEER, why);
    nx_accord_failed(world, world->self);
    with_comms(world, world->self, check_alone);
    nx_recover_abort(world, why);
}

static void bury(nx_failure *f, uint32_t rank)
{
    nx_world *world = f->world;
    char sentence[NX_FAILURE_WHY + NX_PEER_TEXT + 32];
    const char *why = nx_failure_why(world, rank);

    (void)nx_rankset_add(&f->dead, rank);
    if (rank == world->self) {
        (void)snprintf(sentence, sizeof(sentence), "the other ranks hold this one for dead: %s",
                       why);
        expel(f, sentence);
        return;
    }
    sentence_of(world, rank, sentence, sizeof(sentence));
    nx_log(NX_LOG_INFO, "%s", sentence);
    nx_recover_abort(world, sentence);
    nx_gate_drop(&f->gate, rank);
    /* If it lives, and reads again, it learns what it is held for. */
    nx_health_tell(f->health, rank, why, nx_loop_now(world->loop));
    (void)nx_health_told(f->health, rank, nx_loop_now(world->loop));
    nx_flood_failed(f->flood, rank);
    if (nx_flood_start(f->flood, nx_flood_key(NX_FLOOD_DEAD, rank), why, strlen(why)) != NEXAR_OK) {
        nx_log(NX_LOG_WARN, "others are not told that rank %" PRIu32 " has failed: %s", rank,
               nexar_last_error());
    }
    nx_accord_failed(world, rank);
    nx_msg_fail_peer(world->msg, rank, NEXAR_EPEER, why);
    nx_hub_on_death(world->hub, rank, NEXAR_EPEER, sentence);
    with_comms(world, rank, check_alone);
    with_comms(world, rank, nx_recover_on_failure);
    with_comms(world, rank, nx_failure_call);
}

void nx_failure_quit(nx_world *world, const char *why)
{
    nx_failure *f = world->failure;

    if (!f->expelled && !f->quiet) {
        (void)nx_rankset_add(&f->dead, world->self);
        expel(f, why);
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
        nx_accord_left(f->world);
        with_comms(f->world, slot, check_alone);
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
            nx_accord_left(world);
            with_comms(world, peer, check_alone);
        }
        break;
    case NX_END_GONE:
        nx_health_link_down(f->health, peer, NX_DOWN_CLOSED, why, now);
        break;
    case NX_END_LOST:
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
        bury(f, self);
    }
    for (uint32_t rank = 0; (rank = nx_rankset_next(&f->died, rank)) < size; rank++) {
        if (!nx_rankset_has(&f->dead, rank)) {
            bury(f, rank);
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
            heard(f, peer, now_ns);
        }
    }
    nx_health_tick(f->health, now_ns);
    set_timer(f);
}

void nx_failure_opened(nexar_comm *comm)
{
    nx_world *world = comm->world;
    const nx_failure *f = world->failure;
    char sentence[NX_FAILURE_WHY + NX_PEER_TEXT + 32];

    for (uint32_t rank = 0; rank < comm->size; rank++) {
        const uint32_t peer = nx_comm_peer(comm, rank);

        if (nx_rankset_has(&f->dead, peer)) {
            sentence_of(world, peer, sentence, sizeof(sentence));
            nx_group_break(&comm->group, NEXAR_EPEER, sentence);
            nx_recover_want(comm);
        }
    }
    check_alone(comm);
    nx_accord_opened(comm);
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
        nx_free(nx_list_entry(at, death, link));
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
        if (!in_use(world, nx_list_entry(at, death, link)->rank)) {
            nx_list_remove(at);
            nx_free(nx_list_entry(at, death, link));
        }
    }
    nx_list_init(&early);
    nx_list_for_each (at, &f->early) {
        nx_list_remove(at);
        nx_list_push_back(&early, at);
    }
    nx_list_for_each (at, &early) {
        nx_failure_learn(world, nx_list_entry(at, death, link)->rank,
                         nx_list_entry(at, death, link)->why);
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
        err = nx_health_create(&f->health, hc, &health_ops, f, nx_loop_refresh(f->world->loop));
    }
    if (err == NEXAR_OK) {
        err = nx_flood_create(&f->flood, DEATHS, hc->size, hc->self, &flood_ops, f);
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

    if (hc.interval_ns > hc.timeout_ns) {
        return nx_fail(NEXAR_EINVAL,
                       "setting heartbeat_timeout: %.3f s; accepted: at least heartbeat_interval, "
                       "%.3f s",
                       (double)hc.timeout_ns / 1e9, (double)hc.interval_ns / 1e9);
    }
    err = nx_recover_check(world->config);
    if (err != NEXAR_OK) {
        return err;
    }
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
    nx_gate_init(&f->gate, &gate_ops, f);
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
    while (!nx_list_empty(&f->calls)) {
        call_free(nx_list_entry(f->calls.next, call, link));
    }
    nx_gate_fini(&f->gate);
    nx_health_destroy(f->health);
    nx_flood_destroy(f->flood);
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
