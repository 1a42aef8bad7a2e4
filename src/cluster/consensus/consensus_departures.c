/* consensus_departures.c - ranks that fail or leave: ballots, the quorum, learning and
 * notification. */
#include <inttypes.h>
#include <stdio.h>

#include "base/text/sentence.h"
#include "consensus_inner.h"

/* ---- the end for this rank ----------------------------------------------------------- */

static void end(nx_consensus *a)
{
    a->ended = true;
    a->running = false;
    a->ops->ended(a->ctx, NEXAR_EPEER, a->why);
}

/* This rank was declared failed, by |by| or by an unknown rank. */
static void be_excluded(nx_consensus *a, uint32_t by)
{
    if (by == NX_CONSENSUS_NOBODY) {
        (void)nx_sentence(a->why, sizeof(a->why), "other ranks have declared this rank failed");
    } else {
        (void)nx_sentence(a->why, sizeof(a->why),
                          "rank %" PRIu32 " and others have declared this rank failed", by);
    }
    end(a);
}

void nx_consensus_end_as_minority(nx_consensus *a)
{
    (void)nx_sentence(a->why, sizeof(a->why),
                      "%" PRIu32 " of %" PRIu32 " ranks are alive: no majority",
                      a->config.size - a->dead.count, a->config.size);
    end(a);
}

/* ---- quorum -------------------------------------------------------------------------- */

/* Whether |alive| of |size| ranks are a majority; |first|: rank 0 is among them. */
static bool is_majority(uint32_t alive, uint32_t size, bool first)
{
    return (alive > size - alive) || ((alive == size - alive) && first);
}

bool nx_consensus_has_quorum(const nx_consensus *a)
{
    return (a->config.quorum == NX_QUORUM_NONE) ||
           is_majority(a->config.size - a->dead.count, a->config.size,
                       !nx_rankset_has(&a->dead, 0));
}

/* Without a quorum this rank need not wait for others. Most ranks that asked to leave, and have
 * left, received the decision and forwarded it: it may be in flight. */
static bool may_have_quorum(const nx_consensus *a)
{
    const nx_consensus_value *v = nx_consensus_accepted(a);
    uint32_t size = a->config.size;

    for (uint32_t rank = 0;
         (v != NULL) && (rank = nx_rankset_next(&v->leavers, rank)) < v->leavers.n; rank++) {
        size -= nx_rankset_has(&a->dead, rank) && nx_rankset_has(&a->left, rank);
    }
    return nx_consensus_has_quorum(a) ||
           ((size < a->config.size) && is_majority(a->config.size - a->dead.count, size, true));
}

/* ---- a new ballot -------------------------------------------------------------------- */

/* |dead| has grown: begins a new ballot. */
static void begin_ballot(nx_consensus *a)
{
    const uint64_t older = (a->slots[0].seq < a->slots[1].seq) ? 0 : 1;

    if (!may_have_quorum(a)) {
        nx_consensus_end_as_minority(a);
        return;
    }
    nx_consensus_find_place(a);
    nx_consensus_slot_again(a, &a->slots[older]);
    if (!a->ended) {
        nx_consensus_slot_again(a, &a->slots[1 - older]);
    }
    nx_consensus_end_again(a);
}

/* All ranks are notified of failures (reliable_broadcast.h), but of departures only the ranks that
 * learn of them here. So ranks forward departures along the tree. Each ballot has other neighbours
 * to notify. */
static void spread(nx_consensus *a)
{
    for (uint32_t i = 0; !a->ended && (i < a->tree.nchildren); i++) {
        nx_consensus_notify(a, a->tree.children[i]);
    }
    if (!a->ended && !nx_consensus_is_root(a)) {
        nx_consensus_notify(a, a->tree.parent);
    }
}

/* A rank that has left may be a released leaver that has not received the decision and waits for
 * this rank, which does not use the link any more: this notifies it (nx_consensus_on_exclusion). */
static void tell_leaver(nx_consensus *a, const nx_consensus_slot *s, uint32_t rank)
{
    if (nx_rankset_has(&a->dead, rank) && nx_rankset_has(&a->left, rank) &&
        nx_rankset_has(&s->acc.leavers, rank)) {
        nx_consensus_notify(a, rank);
    }
}

/* |dead| has grown, and the tree is not rebuilt yet: sends the decision to neighbours that have
 * left. */
static void bid_farewell(nx_consensus *a)
{
    const nx_consensus_slot *s = &a->slots[a->next & 1];

    if (!a->running || (s->acc.ballot == 0)) {
        return;
    }
    for (uint32_t i = 0; i < a->tree.nchildren; i++) {
        tell_leaver(a, s, a->tree.children[i]);
    }
    if (!nx_consensus_is_root(a)) {
        tell_leaver(a, s, a->tree.parent);
    }
}

/* Handles the growth of |dead|: a new ballot, and news for the neighbours. */
static void on_grown(nx_consensus *a)
{
    bid_farewell(a);
    begin_ballot(a);
    if (a->left.count > 0) {
        spread(a);
    }
}

/* ---- knowledge of failures and departures -------------------------------------------- */

/* |rank| was reported as left or as failed. Failed takes precedence: for an unreachable rank some
 * ranks may only guess that it has left. */
static void note_left(nx_consensus *a, uint32_t rank)
{
    (void)nx_rankset_add(&a->left, rank);
    if (!nx_rankset_has(&a->fell, rank)) {
        (void)nx_rankset_add(&a->gone, rank);
    }
}

static void note_fell(nx_consensus *a, uint32_t rank)
{
    (void)nx_rankset_add(&a->fell, rank);
    (void)nx_rankset_remove(&a->gone, rank);
}

void nx_consensus_failed(nx_consensus *a, uint32_t rank)
{
    if (nx_consensus_is_over(a) || (rank >= a->config.size)) {
        return;
    }
    if (rank == a->config.self) {
        be_excluded(a, NX_CONSENSUS_NOBODY);
        return;
    }
    note_fell(a, rank);
    if (nx_rankset_add(&a->dead, rank)) {
        on_grown(a);
    }
}

void nx_consensus_left(nx_consensus *a, uint32_t rank)
{
    if (nx_consensus_is_over(a) || (rank >= a->config.size) || (rank == a->config.self)) {
        return;
    }
    note_left(a, rank);
    if (nx_rankset_add(&a->dead, rank)) {
        on_grown(a);
    }
}

void nx_consensus_remind(nx_consensus *a)
{
    uint32_t ranks[NX_CONSENSUS_FANOUT_MAX];
    const uint32_t n = nx_consensus_waits_for(a, ranks, NX_CONSENSUS_FANOUT_MAX);

    for (uint32_t i = 0; i < n; i++) {
        nx_consensus_notify(a, ranks[i]);
    }
}

void nx_consensus_learn(nx_consensus *a)
{
    bool grown = false;

    for (uint32_t rank = nx_rankset_next(&a->in_dead, 0); rank < a->in_dead.n;
         rank = nx_rankset_next(&a->in_dead, rank + 1)) {
        if (nx_rankset_has(&a->in_left, rank)) {
            note_left(a, rank);
        } else {
            note_fell(a, rank);
        }
        if (nx_rankset_add(&a->dead, rank)) {
            grown = true;
            a->ops->learned(a->ctx, rank);
        }
    }
    if (grown) {
        on_grown(a);
    }
}

/* ---- one rank has declared the other failed ------------------------------------------ */

/* Whether |m| reports this rank as left, and it asked to leave in what it has accepted or
 * decided. */
static bool lets_us_go(nx_consensus *a, const nx_consensus_msg *m)
{
    const nx_consensus_slot *s = a->running ? &a->slots[a->next & 1] : nx_consensus_last(a);

    return (s != NULL) && (s->acc.ballot > 0) && !a->config.early &&
           nx_rankset_has(m->left, a->config.self) &&
           nx_rankset_has(&s->acc.leavers, a->config.self);
}

/* |from| has declared this rank failed, or left. A rank that is reported as left and has not left
 * was released by others: its leave is decided, and the decision is what it has accepted. */
void nx_consensus_on_exclusion(nx_consensus *a, uint32_t from, const nx_consensus_msg *m)
{
    if (!lets_us_go(a, m)) {
        be_excluded(a, from);
    } else if (a->running) {
        nx_consensus_decide_from(a, &a->slots[a->next & 1], from);
    }
}

/* Handles |from|, which this rank has declared failed. A rank that has left may have sent an
 * earlier decision. */
void nx_consensus_on_failed_sender(nx_consensus *a, uint32_t from, const nx_consensus_msg *m)
{
    nx_consensus_slot *s = &a->slots[a->next & 1];

    if ((m->kind == NX_CONSENSUS_DECIDE) && nx_rankset_has(&a->left, from) && !a->config.early &&
        a->running && (s->seq == m->seq) && !nx_rankset_has(m->dead, a->config.self)) {
        nx_consensus_value_copy(&s->acc, m->value);
        nx_consensus_decide_from(a, s, from);
    } else if ((m->kind != NX_CONSENSUS_NEWS) || !nx_rankset_has(m->dead, a->config.self)) {
        nx_consensus_notify(a, from); /* two ranks must not answer each other endlessly */
    }
}
