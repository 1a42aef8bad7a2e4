/* agreement.c - the state machines of communicators, and the threads that wait for an agreement. */
#include "agreement.h"

#include <stdio.h>
#include <string.h>

#include "agreement_inner.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/text/sentence.h"
#include "core/comm/comm.h"
#include "core/failure/failure.h"

static uint32_t peer_of(const nx_agreement *a, uint32_t rank)
{
    return nx_incarnation_peer(a->inc, rank);
}

/* ---- all agreements of a world ----------------------------------------------------------- */

/* Iterates over world->accords.  Sending a frame or handling an outcome may close communicators, so
 * any agreement may be freed at any step. */
typedef struct nx_agreement_walk {
    struct nx_agreement_walk *outer;
    nx_list *next;
} nx_agreement_walk;

static void walk_begin(nx_world *world, nx_agreement_walk *walk)
{
    *walk = (nx_agreement_walk){.outer = world->walks, .next = world->accords.next};
    world->walks = walk;
}

/* The next agreement.  NULL: the iteration is over. */
static nx_agreement *walk_on(nx_world *world, nx_agreement_walk *walk)
{
    nx_list *at = walk->next;

    if (at == &world->accords) {
        world->walks = walk->outer;
        return NULL;
    }
    walk->next = at->next;
    return nx_list_entry(at, nx_agreement, link);
}

/* |a| is about to be freed: iterations in progress skip it. */
static void walk_past(const nx_agreement *a)
{
    for (nx_agreement_walk *w = a->world->walks; w != NULL; w = w->outer) {
        w->next = (w->next == &a->link) ? a->link.next : w->next;
    }
}

/* ---- callbacks of the machines ----------------------------------------------------------- */

void nx_agreement_send(void *ctx, uint32_t to, const void *frame, size_t len)
{
    const nx_agreement *a = ctx;

    nx_failure_send(a->world, peer_of(a, to), frame, len);
}

nx_life nx_agreement_life(void *ctx, uint32_t rank)
{
    const nx_agreement *a = ctx;

    return nx_failure_life(a->world, peer_of(a, rank));
}

static uint64_t overdue_key(uint64_t seq)
{
    return nx_rbcast_key(NX_RBCAST_OVERDUE, (uint16_t)seq);
}

/* The agreement whose number ends in |number| is overdue: the current one, or the next. */
static void note_overdue(nx_agreement *a, uint16_t number)
{
    const uint64_t seq = nx_consensus_seq(a->agree);
    const uint16_t ahead = (uint16_t)(number - (uint16_t)seq);

    if ((ahead < UINT16_MAX / 2) && (seq + ahead + 1 > a->overdue)) {
        a->overdue = seq + ahead + 1;
        nx_failure_wake(a->world);
    }
}

static void on_revoked(void *ctx, uint64_t key, const void *data, size_t len, uint32_t from)
{
    nx_agreement *a = ctx;

    (void)data;
    (void)len;
    (void)from;
    if ((key >> 32) == NX_RBCAST_REVOKED) {
        a->revoked = true;
        nx_failure_wake(a->world);
    } else if ((key >> 32) == NX_RBCAST_OVERDUE) {
        note_overdue(a, (uint16_t)key);
    }
}

static const nx_rbcast_ops rbcast_ops = {
    .send = nx_agreement_send, .learned = on_revoked, .life = nx_agreement_life};

static void finish(nx_agreement *a, nexar_err err, const char *why)
{
    nx_agreement_waiter *w = a->waiter;

    a->waiter = NULL;
    if (w != NULL) {
        w->err = err;
        (void)nx_sentence(w->why, sizeof(w->why), "%s", why);
        nx_event_set(a->world->loop, &w->event);
    }
}

/* The value that a rank contributes to an agreement that its application has not called for: the
 * maximum of all values. */
#define OVERDUE UINT64_MAX

static void on_decided(void *ctx, uint64_t seq, const nx_consensus_value *value)
{
    nx_agreement *a = ctx;
    nx_outcome *out = (a->waiter == NULL) ? NULL : a->waiter->out;

    nx_rbcast_forget(a->rbcast, overdue_key(seq));
    nx_rbcast_forget(a->rbcast, overdue_key(seq - 1)); /* another rank may have started it again */
    a->proxied = false;
    if (a->overdue > seq + 1) {
        nx_failure_wake(a->world);
    }
    if (a->opposing) {
        a->opposing = false;
        nx_failure_wake(a->world);
        finish(a, NEXAR_OK, "");
    } else if (value->highest == OVERDUE) {
        finish(a, NEXAR_ETIMEDOUT, "not all ranks have called in time");
    } else if ((a->waiter != NULL) && (a->waiter->value != NULL)) {
        nx_consensus_value_copy(a->waiter->value, value);
        finish(a, NEXAR_OK, "");
    } else if (out != NULL) {
        nx_reader r = nx_reader_make(value->payload, value->payload_len);

        out->flags = value->flags;
        out->highest = value->highest;
        out->id = nx_read_u32(&r); /* 0: no rank has contributed one */
        nx_rankset_copy(&out->failed, &value->failed);
        finish(a, NEXAR_OK, "");
    }
}

void nx_agreement_learned(void *ctx, uint32_t rank)
{
    const nx_agreement *a = ctx;
    const nx_consensus_value *accepted = nx_consensus_accepted(a->agree);
    char why[64], at[NX_TIME_TEXT];

    if (!a->rescue && (accepted != NULL) && nx_rankset_has(&accepted->leavers, rank)) {
        nx_failure_left(a->world, peer_of(a, rank), NX_SOURCE_CONSENSUS);
    } else if (nx_consensus_has_left(a->agree, rank)) {
        nx_failure_absent(a->world, peer_of(a, rank), NX_SOURCE_CONSENSUS);
    } else {
        (void)nx_sentence(why, sizeof(why), "other ranks have declared it failed, at %s",
                          nx_time_text(at));
        nx_failure_failed(a->world, peer_of(a, rank), NX_SOURCE_CONSENSUS, why);
    }
}

/* Why the agreements of |a| have ended (|why|), and which ranks have failed or left. */
static const char *explain(const nx_agreement *a, const char *why, char buf[NX_AGREEMENT_WHY])
{
    char gone[NX_FAILURE_GONE] = "";

    if (!a->detached) {
        (void)nx_failure_gone(a->inc, gone);
    }
    (void)snprintf(buf, NX_AGREEMENT_WHY, "%s%.200s", why, gone); /* a longer message is cut */
    return buf;
}

static void on_ended(void *ctx, nexar_err err, const char *why)
{
    char sentence[NX_AGREEMENT_WHY];

    ((nx_agreement *)ctx)->opposing = false;
    finish(ctx, err, explain(ctx, why, sentence));
}

void nx_agreement_forgotten(void *ctx)
{
    nx_agreement *a = ctx;

    a->forgotten = true;
    nx_failure_wake(a->world);
}

static const nx_consensus_ops agree_ops = {.send = nx_agreement_send,
                                           .decided = on_decided,
                                           .learned = nx_agreement_learned,
                                           .ended = on_ended,
                                           .forgotten = nx_agreement_forgotten};

/* ---- life ------------------------------------------------------------------------------------ */

void nx_agreement_free(nx_agreement *a)
{
    walk_past(a);
    nx_list_remove(&a->link);
    if (a->detached) {
        nx_incarnation_release(a->inc);
    } else {
        *(a->rescue ? &a->inc->rescue : &a->inc->accord) = NULL;
    }
    nx_rankset_fini(&a->outcome.failed);
    nx_rankset_fini(&a->outcome.left);
    nx_rbcast_destroy(a->rbcast);
    nx_consensus_destroy(a->agree);
    nx_free(a);
}

void nx_agreement_detach(nx_agreement *a)
{
    *(a->rescue ? &a->inc->rescue : &a->inc->accord) = NULL;
    a->detached = true;
    (void)nx_incarnation_hold(a->inc);
}

/* Calls |tell| for the ranks of |a| in state |life|. */
static void tell_gone(nx_agreement *a, nx_life life,
                      void (*tell)(nx_consensus *agree, uint32_t rank))
{
    for (uint32_t rank = 0; rank < a->inc->size; rank++) {
        if (nx_agreement_life(a, rank) == life) {
            tell(a->agree, rank);
        }
    }
}

void nx_agreement_tell_left(nx_agreement *a)
{
    tell_gone(a, NX_LIFE_LEFT, nx_consensus_left);
}

static nexar_err make_machines(nx_agreement *a)
{
    const nx_incarnation *inc = a->inc;
    const bool majority =
        nx_config_choice(a->world->config, NX_SET_QUORUM) == NX_SETTING_QUORUM_MAJORITY;
    const nx_consensus_config config = {.comm = a->id,
                                        .size = inc->size,
                                        .self = inc->rank,
                                        .quorum = majority ? NX_QUORUM_MAJORITY : NX_QUORUM_NONE,
                                        .payload_max = (!a->rescue && (inc->comm == a->world->comm))
                                                           ? NX_CONSENSUS_PAYLOAD_MAX
                                                           : NX_AGREEMENT_ID_SIZE};
    nexar_err err = nx_rbcast_create(&a->rbcast, a->id, inc->size, inc->rank,
                                     a->rescue ? &nx_auto_shrink_rbcast_ops : &rbcast_ops, a);

    if (err == NEXAR_OK) {
        err = nx_consensus_create(&a->agree, &config,
                                  a->rescue ? &nx_auto_shrink_agree_ops : &agree_ops, a);
    }
    return err;
}

nx_agreement *nx_agreement_make(nx_incarnation *inc, bool rescue)
{
    nx_agreement *a = nx_zalloc(sizeof(*a));

    if (a == NULL) {
        (void)nx_fail_nomem("an agreement");
        return NULL;
    }
    nx_list_init(&a->link);
    a->world = inc->world;
    a->inc = inc;
    a->id = inc->id | (rescue ? NX_AUTO_SHRINK_ID : 0);
    a->rescue = rescue;
    if (make_machines(a) != NEXAR_OK) {
        nx_agreement_free(a);
        return NULL;
    }
    nx_list_push_back(&inc->world->accords, &a->link);
    tell_gone(a, NX_LIFE_FAILED, nx_consensus_failed);
    return a;
}

nx_agreement *nx_agreement_get(nx_incarnation *inc)
{
    if (inc->accord == NULL) {
        inc->accord = nx_agreement_make(inc, false);
    }
    return inc->accord;
}

void nx_agreement_closed(nx_incarnation *inc)
{
    nx_agreement *a = inc->accord;

    if (a == NULL) {
        return;
    }
    if (a->used) {
        nx_agreement_detach(a);
        a->close_due = a->opposing;
        if (!a->opposing) {
            nx_consensus_close(a->agree); /* other ranks may still ask for the outcome */
        }
    } else {
        nx_agreement_free(a);
    }
}

void nx_agreements_free(nx_world *world)
{
    while (!nx_list_empty(&world->accords)) {
        nx_agreement_free(nx_list_entry(world->accords.next, nx_agreement, link));
    }
}

/* ---- failed and departing ranks ------------------------------------------------------- */

/* Calls |tell| for every agreement that includes |slot|, with its rank there. */
static void tell_all(nx_world *world, uint32_t slot, void (*tell)(nx_agreement *a, uint32_t rank))
{
    nx_agreement_walk walk;
    nx_agreement *a;

    walk_begin(world, &walk);
    while ((a = walk_on(world, &walk)) != NULL) {
        const int rank = nx_incarnation_rank_of(a->inc, slot);

        if (rank >= 0) {
            nx_rbcast_gone(a->rbcast, (uint32_t)rank);
            tell(a, (uint32_t)rank);
        }
    }
}

static void tell_left(nx_agreement *a, uint32_t rank)
{
    if ((a->waiter != NULL) || a->opposing || (a->rescue && a->used && !a->over)) {
        nx_consensus_left(a->agree, rank);
    }
}

static void tell_failed(nx_agreement *a, uint32_t rank)
{
    nx_consensus_failed(a->agree, rank);
}

void nx_agreement_left(nx_world *world, uint32_t slot)
{
    tell_all(world, slot, tell_left);
}

void nx_agreement_failed(nx_world *world, uint32_t slot)
{
    tell_all(world, slot, tell_failed);
}

/* Whether a released leaver may still ask for the decision: its link is still up. */
static bool may_be_asked(const nx_agreement *a)
{
    const nx_consensus_value *v = nx_consensus_accepted(a->agree);

    for (uint32_t rank = 0;
         a->let_go && (v != NULL) && (rank = nx_rankset_next(&v->leavers, rank)) < v->leavers.n;
         rank++) {
        if (nx_msg_link(a->world->msg, peer_of(a, rank)) != NULL) {
            return true;
        }
    }
    return false;
}

/* On another rank the agreement has waited for too long, and the application has not called it
 * here.  This rank contributes the value OVERDUE, so the agreement times out on all ranks or on
 * none. */
static void end_overdue(nx_agreement *a)
{
    const nx_consensus_input input = {.flags = UINT64_MAX, .highest = OVERDUE};

    if ((a->waiter != NULL) || a->proxied || a->opposing || a->detached ||
        (a->overdue <= nx_consensus_seq(a->agree))) {
        return;
    }
    a->proxied = true;
    if (nx_consensus_start(a->agree, &input) != NEXAR_OK) { /* one runs, or closed here */
        a->proxied = false;
        return;
    }
    a->used = true;
    a->owed++;
    nx_agreement_tell_left(a);
}

void nx_agreement_conclude(nx_world *world)
{
    nx_agreement_walk walk;
    nx_agreement *a;

    walk_begin(world, &walk);
    while ((a = walk_on(world, &walk)) != NULL) {
        if (a->rescue) {
            nx_auto_shrink_conclude(a);
            continue;
        }
        if (a->revoked && !a->detached) {
            nx_incarnation_revoke(a->inc);
        }
        a->revoked = false;
        if (a->close_due && !a->opposing) {
            a->close_due = false;
            nx_consensus_close(a->agree);
        }
        end_overdue(a);
        if (a->forgotten && a->detached && !may_be_asked(a)) {
            nx_agreement_free(a);
        }
    }
}

/* ---- calls --------------------------------------------------------------------------- */

nexar_err nx_agreement_revoke(nx_incarnation *inc)
{
    nx_agreement *a = nx_agreement_get(inc);
    nexar_err err;

    if (a == NULL) {
        return NEXAR_ENOMEM;
    }
    err = nx_rbcast_start(a->rbcast, nx_rbcast_key(NX_RBCAST_REVOKED, inc->rank), NULL, 0);
    if (err == NEXAR_OK) {
        nx_incarnation_revoke(inc);
    }
    return err;
}

/* Interval of calls to the ranks that the agreement waits for.  If such a rank has left, and this
 * rank has no link to it, no other event may reveal that. */
static const uint64_t CALL_NS = UINT64_C(200000000);

static void call_for(const nx_agreement *a)
{
    uint32_t ranks[NX_CONSENSUS_FANOUT_MAX];
    const uint32_t n = nx_consensus_waits_for(a->agree, ranks, NX_CONSENSUS_FANOUT_MAX);

    for (uint32_t i = 0; i < n; i++) {
        nx_failure_call_for(a->world, peer_of(a, ranks[i]));
    }
}

static uint64_t until(uint64_t at, bool told, uint64_t by)
{
    return (!told && (by < at)) ? by : at;
}

/* Notifies the other ranks that the running agreement has waited for too long.  False: out of
 * memory, to be repeated. */
static bool tell_overdue(const nx_agreement *a)
{
    return nx_rbcast_start(a->rbcast, overdue_key(nx_consensus_seq(a->agree)), NULL, 0) == NEXAR_OK;
}

/* Drives the world until |w|, a waiter of |a|, has its result. */
static void wait_for(nx_agreement *a, nx_agreement_waiter *w, const char *name)
{
    nx_world *world = a->world;
    const uint64_t limit = nx_group_timeout(&a->inc->group);
    const uint64_t by = (limit == 0) ? UINT64_MAX : nx_loop_refresh(world->loop) + limit;
    bool told = false;
    nx_blocked b = {
        .what = {
            .kind = NX_WHAT_OTHER, .name = name, .comm = (uint32_t)a->id, .peer = NX_ANY_PEER}};

    nx_oplog_block(&world->log, &b, nx_loop_now(world->loop));
    for (uint64_t n = 1; !nx_loop_wait(world->loop, &w->event,
                                       until(nx_loop_refresh(world->loop) + CALL_NS, told, by));
         n++) {
        if (!told && (nx_loop_refresh(world->loop) >= by)) {
            told = tell_overdue(a);
        }
        call_for(a);
        if ((n & (n - 1)) == 0) { /* ever more rarely: a rank without |comm| keeps the frames */
            nx_consensus_remind(a->agree);
        }
    }
    nx_oplog_unblock(&world->log, &b, nx_loop_now(world->loop), w->err);
}

/* Runs one instance of the consensus to its end. */
static nexar_err run_instance(nx_agreement *a, const char *name, const nx_consensus_input *input,
                              nx_agreement_waiter *w)
{
    nexar_err err;

    a->used = true;
    a->waiter = w;
    w->event.set = false;
    err = nx_consensus_start(a->agree, input);
    if (err != NEXAR_OK) {
        a->waiter = NULL;
        return nx_fail(err, "%s: %s", name, explain(a, nexar_last_error(), w->why));
    }
    nx_agreement_tell_left(a); /* ranks that have left contribute nothing */
    wait_for(a, w, name);
    return (w->err == NEXAR_OK) ? NEXAR_OK : nx_fail(w->err, "%s: %s", name, w->why);
}

/* Whether the instance that |w| waited for belonged to a state_sync of other ranks. */
static bool was_aside(const nx_agreement_waiter *w, const nx_consensus_input *input)
{
    const uint64_t highest = (w->value != NULL) ? w->value->highest : w->out->highest;

    return (input->highest != NX_AGREEMENT_ASIDE) && (highest == NX_AGREEMENT_ASIDE);
}

/* Waits for the instance that this rank has begun without a waiting thread (nx_agreement_oppose).
 * It ends before the next one begins. */
static nexar_err finish_opposing(nx_agreement *a, const char *name)
{
    nx_agreement_waiter w = {.err = NEXAR_OK};

    if (!a->opposing) {
        return NEXAR_OK;
    }
    a->waiter = &w; /* cppcheck-suppress autoVariables */
    wait_for(a, &w, name);
    return (w.err == NEXAR_OK) ? NEXAR_OK : nx_fail(w.err, "%s: %s", name, w.why);
}

/* This rank's own call of an agreement in which it was already represented (end_overdue). */
static nexar_err take_owed(nx_agreement *a, const char *name, nx_agreement_waiter *w)
{
    if (a->proxied && (a->owed == 1)) {
        a->waiter = w;
        wait_for(a, w, name);
    } else {
        w->err = NEXAR_ETIMEDOUT;
        (void)nx_sentence(w->why, sizeof(w->why), "not all ranks have called in time");
    }
    a->owed--;
    return (w->err == NEXAR_OK) ? NEXAR_OK : nx_fail(w->err, "%s: %s", name, w->why);
}

/* One agreement: the first instance that does not belong to a state_sync of other ranks. */
static nexar_err run(nx_incarnation *inc, const char *name, const nx_consensus_input *input,
                     nx_agreement_waiter *w)
{
    nx_agreement *a = nx_agreement_get(inc);
    nexar_err err;

    if (a == NULL) {
        return NEXAR_ENOMEM;
    }
    if (a->waiter != NULL) {
        return nx_fail(NEXAR_EINVAL, "%s: another thread is in such a call on this communicator",
                       name);
    }
    err = finish_opposing(a, name);
    if (err != NEXAR_OK) {
        return err;
    }
    if (a->owed > 0) { /* its agreement has ended without this call, or will */
        return take_owed(a, name, w);
    }
    do {
        err = run_instance(a, name, input, w);
    } while ((err == NEXAR_OK) && was_aside(w, input));
    return err;
}

void nx_agreement_oppose(nx_incarnation *inc, const nx_agreement_input *input)
{
    const nx_consensus_input brought = {.flags = input->flags, .highest = input->highest};
    nx_agreement *a = nx_agreement_get(inc);

    if ((a == NULL) || (a->waiter != NULL) || a->opposing || a->proxied) {
        return; /* the next agreement on |inc| gives the same answer */
    }
    a->used = true;
    a->opposing = true;
    if (nx_consensus_start(a->agree, &brought) != NEXAR_OK) {
        a->opposing = false;
        return;
    }
    nx_agreement_tell_left(a);
}

nexar_err nx_agreement_agree(nx_incarnation *inc, const char *name, const nx_agreement_input *input,
                             nx_outcome *out)
{
    uint8_t payload[NX_AGREEMENT_ID_SIZE];
    const nx_consensus_input brought = {.flags = input->flags,
                                        .highest = input->highest,
                                        .payload = (input->id == 0) ? NULL : payload,
                                        .payload_len = NX_AGREEMENT_ID_SIZE};
    nx_writer writer = nx_writer_make(payload, sizeof(payload));
    nx_agreement_waiter w = {.out = out};
    nexar_err err = nx_rankset_init(&out->failed, inc->size);

    if (err != NEXAR_OK) {
        return err;
    }
    nx_write_u32(&writer, input->id);
    err = run(inc, name, &brought, &w);
    if (err != NEXAR_OK) {
        nx_rankset_fini(&out->failed);
    }
    return err;
}

nexar_err nx_agreement_decide(nx_incarnation *inc, const char *name,
                              const nx_consensus_input *input, nx_consensus_value *out)
{
    nx_agreement_waiter w = {.value = out};

    return run(inc, name, input, &w);
}

void nx_agreement_abandon(nx_incarnation *inc)
{
    nx_agreement *a = inc->accord;

    if ((a != NULL) && (a->waiter != NULL) && (a->waiter->value != NULL)) {
        finish(a, NEXAR_EPEER, inc->group.broken_why);
    }
}

bool nx_agreement_has_left(const nx_incarnation *inc, uint32_t rank)
{
    return (inc->accord != NULL) && nx_consensus_has_left(inc->accord->agree, rank);
}

const nx_consensus_value *nx_agreement_accepted(const nx_incarnation *inc)
{
    return (inc->accord == NULL) ? NULL : nx_consensus_accepted(inc->accord->agree);
}

uint32_t nx_agreement_waits_for(const nx_incarnation *inc, uint32_t ranks[], uint32_t room)
{
    const nx_agreement *a = inc->accord;

    return ((a == NULL) || (a->waiter == NULL)) ? 0 : nx_consensus_waits_for(a->agree, ranks, room);
}

void nx_agreement_let_go(nx_incarnation *inc)
{
    inc->accord->let_go = true;
    nx_consensus_let_go(inc->accord->agree);
}
