/*
 * consensus.c - consensus among the live ranks: one instance, and received frames.
 *
 * Invariants
 *  - |dead| only grows. When it does, the state of the ballot (|got|, |acks|, |accepted| and
 *    what was sent) is reset; |own| and |acc| are kept.
 *  - A rank accepts in a ballot only while |dead| is that ballot, and only after it has
 *    contributed what it had accepted before. So the proposer in a larger ballot knows what may
 *    have been decided in a smaller one.
 *  - Two slots suffice. A message of instance k + 1 comes from a rank that has decided k. So all
 *    live ranks had begun k, and had decided k - 1: no rank will ask for k - 1 again.
 */
#include <inttypes.h>
#include <string.h>

#include "consensus_inner.h"

/* ---- one instance -------------------------------------------------------------------- */

static void tell_children(nx_consensus *a, nx_consensus_kind kind, const nx_consensus_slot *s)
{
    nx_consensus_send_below(a, &a->tree, kind, s, NX_CONSENSUS_NOBODY);
}

static uint64_t all_children(const nx_consensus *a)
{
    return (a->tree.nchildren == 64) ? UINT64_MAX : (UINT64_C(1) << a->tree.nchildren) - 1;
}

/* The bit of |rank| among the children; 0 if it is none. */
static uint64_t child_bit(const nx_consensus *a, uint32_t rank)
{
    for (uint32_t i = 0; i < a->tree.nchildren; i++) {
        if (a->tree.children[i] == rank) {
            return UINT64_C(1) << i;
        }
    }
    return 0;
}

/* The value in |acc| is decided. */
static void decide(nx_consensus *a, nx_consensus_slot *s)
{
    s->decided = true;
    a->running = false;
    a->next = s->seq + 1;
    a->ops->decided(a->ctx, s->seq, &s->acc);
}

/* The decision came from |from|.  If |from| is not the parent of this ballot, any other neighbour
 * may wait for this rank, not only the children. */
void nx_consensus_decide_from(nx_consensus *a, nx_consensus_slot *s, uint32_t from)
{
    nx_consensus_notify_neighbours(a, &a->tree, NX_CONSENSUS_DECIDE, s, from);
    decide(a, s);
}

/* The whole subtree has accepted: notifies the parent or, at the root, decides. */
static void try_ack(nx_consensus *a, nx_consensus_slot *s)
{
    if (!s->accepted || s->ack_sent || (s->acks != all_children(a))) {
        return;
    }
    s->ack_sent = true;
    if (!nx_consensus_is_root(a)) {
        nx_consensus_send(a, a->tree.parent, NX_CONSENSUS_ACK, s);
        return;
    }
    tell_children(a, NX_CONSENSUS_DECIDE, s);
    decide(a, s);
}

/* Adopts |value| as the value of this ballot, and forwards it. */
static void adopt(nx_consensus *a, nx_consensus_slot *s, const nx_consensus_value *value)
{
    nx_consensus_value_copy(&s->acc, value);
    s->acc.ballot = 1 + a->dead.count;
    s->accepted = true;
    tell_children(a, NX_CONSENSUS_PROPOSE, s);
    if (a->config.early) {
        decide(a, s);
    } else {
        try_ack(a, s);
    }
}

/* The whole subtree has contributed: notifies the parent or, at the root, proposes. */
static void try_up(nx_consensus *a, nx_consensus_slot *s)
{
    if (!s->started || s->up_sent || (s->got != all_children(a))) {
        return;
    }
    s->up_sent = true;
    nx_consensus_value_merge(&s->gather, &s->own);
    nx_consensus_value_merge(&s->gather, &s->acc);
    if (!nx_consensus_is_root(a)) {
        nx_consensus_tell_up(a, s);
        return;
    }
    if (!nx_consensus_has_quorum(a)) {
        nx_consensus_end_as_minority(a);
        return;
    }
    if (s->gather.ballot == 0) {
        nx_rankset_copy(&s->gather.failed, &a->dead);
    }
    adopt(a, s, &s->gather);
}

/* Whether all ranks are known to have decided |s|: they have begun the next instance. */
static bool superseded(const nx_consensus *a, const nx_consensus_slot *s)
{
    const nx_consensus_slot *after = &a->slots[(s->seq + 1) & 1];

    return (after->seq == s->seq + 1) && (after->acc.ballot > 0);
}

void nx_consensus_slot_again(nx_consensus *a, nx_consensus_slot *s)
{
    s->up_sent = s->accepted = s->ack_sent = false;
    s->got = s->acks = 0;
    nx_consensus_value_reset(&s->gather);
    if (!s->decided) {
        try_up(a, s);
    } else if (!superseded(a, s)) {
        /* The new parent may have nothing, and wait for this rank's contribution. */
        if (!nx_consensus_is_root(a)) {
            nx_consensus_send(a, a->tree.parent, NX_CONSENSUS_DECIDE, s);
        }
        if (a->let_go) { /* also the staying ranks, for a rank that has left already */
            nx_consensus_notify_neighbours(a, &a->rest, NX_CONSENSUS_DECIDE, s, a->tree.parent);
        }
    }
}

/* The slot of instance |seq|, which may have begun; NULL: an earlier instance. */
static nx_consensus_slot *slot_of(nx_consensus *a, uint64_t seq)
{
    nx_consensus_slot *s = &a->slots[seq & 1];

    if (s->seq < seq) {
        nx_consensus_slot_open(s, seq);
    }
    return (s->seq == seq) ? s : NULL;
}

nexar_err nx_consensus_start(nx_consensus *a, const nx_consensus_input *input)
{
    nx_consensus_slot *s;

    if (a->ended) {
        return nx_fail(NEXAR_EPEER, "%s", a->why);
    }
    if (a->running || a->closed || a->let_go) {
        return nx_fail(NEXAR_EINVAL, "an agreement on a communicator %s",
                       a->running ? "where one is running" : "that is closed");
    }
    if ((input->payload != NULL) && (input->payload_len > a->config.payload_max)) {
        return nx_fail(NEXAR_EINVAL, "a payload of %" PRIu32 " bytes; at most %" PRIu32 " fit",
                       input->payload_len, a->config.payload_max);
    }
    s = slot_of(a, a->next);
    if (s == NULL) {
        return nx_fail(NEXAR_EINTERNAL, "agreement %" PRIu64 " has no place", a->next);
    }
    s->own.flags = input->flags;
    s->own.highest = input->highest;
    if (input->leave) {
        (void)nx_rankset_add(&s->own.leavers, a->config.self);
    }
    if (input->payload != NULL) {
        s->own.author = a->config.self;
        s->own.payload_len = input->payload_len;
        if (input->payload_len > 0) {
            memcpy(s->own.payload, input->payload, input->payload_len);
        }
    }
    s->started = true;
    a->running = true;
    try_up(a, s);
    return NEXAR_OK;
}

/* ---- frames -------------------------------------------------------------------------- */

static void on_up(nx_consensus *a, nx_consensus_slot *s, uint32_t from,
                  const nx_consensus_value *value)
{
    const uint64_t bit = child_bit(a, from);

    if ((bit != 0) && ((s->got & bit) == 0)) {
        s->got |= bit;
        nx_consensus_value_merge(&s->gather, value);
        try_up(a, s);
    }
}

static void on_propose(nx_consensus *a, nx_consensus_slot *s, uint32_t from,
                       const nx_consensus_value *value)
{
    if ((from == a->tree.parent) && s->up_sent && !s->accepted) {
        adopt(a, s, value);
    }
}

static void on_ack(nx_consensus *a, nx_consensus_slot *s, uint32_t from)
{
    s->acks |= child_bit(a, from);
    try_ack(a, s);
}

/* Handles a frame about an instance that is not decided here, in this ballot. */
static void on_open(nx_consensus *a, nx_consensus_slot *s, uint32_t from, const nx_consensus_msg *m)
{
    switch (m->kind) {
    case NX_CONSENSUS_UP:
        on_up(a, s, from, m->value);
        break;
    case NX_CONSENSUS_PROPOSE:
        on_propose(a, s, from, m->value);
        break;
    case NX_CONSENSUS_ACK:
        on_ack(a, s, from);
        break;
    case NX_CONSENSUS_DECIDE:
    case NX_CONSENSUS_NEWS:
    case NX_CONSENSUS_DONE:
    case NX_CONSENSUS_ASK:
    case NX_CONSENSUS_FORGET:
    case NX_CONSENSUS_KINDS:
        break;
    }
}

/* UP, PROPOSE, ACK, DECIDE. */
static void on_instance(nx_consensus *a, uint32_t from, const nx_consensus_msg *m, bool stale)
{
    nx_consensus_slot *s = slot_of(a, m->seq);

    if (s == NULL) {
        return;
    }
    if (s->decided) {
        if (m->kind != NX_CONSENSUS_DECIDE) {
            nx_consensus_send(a, from, NX_CONSENSUS_DECIDE, s);
        }
    } else if (m->kind == NX_CONSENSUS_DECIDE) {
        if (s->started) {
            nx_consensus_value_copy(&s->acc, m->value);
            nx_consensus_decide_from(a, s, from);
        }
    } else if (stale) {
        nx_consensus_notify(a, from);
    } else {
        on_open(a, s, from, m);
    }
}

static void on_message(nx_consensus *a, uint32_t from, const nx_consensus_msg *m)
{
    /* This rank now knows all failures that |from| knows.  If |from| knows fewer, its frame belongs
     * to an earlier ballot. */
    const bool stale = (m->dead->count != a->dead.count);

    switch (m->kind) {
    case NX_CONSENSUS_DONE:
    case NX_CONSENSUS_ASK:
    case NX_CONSENSUS_FORGET:
        nx_consensus_on_end(a, from, m->kind, stale);
        break;
    case NX_CONSENSUS_UP:
    case NX_CONSENSUS_PROPOSE:
    case NX_CONSENSUS_ACK:
    case NX_CONSENSUS_DECIDE:
        on_instance(a, from, m, stale);
        break;
    case NX_CONSENSUS_NEWS:
    case NX_CONSENSUS_KINDS:
        break;
    }
}

/* Whether |m| is about an instance that cannot have begun on any rank. */
static bool is_too_early(const nx_consensus *a, const nx_consensus_msg *m)
{
    return (nx_consensus_has_value(m->kind) || (m->kind == NX_CONSENSUS_ACK)) &&
           (m->seq > a->next + (a->running ? 1 : 0));
}

nexar_err nx_consensus_frame(nx_consensus *a, uint32_t from, const void *frame, size_t len)
{
    nx_consensus_msg m;
    nexar_err err = nx_consensus_msg_decode(frame, len, &a->in_dead, &a->in_left, &a->in_value, &m);

    if (err != NEXAR_OK) {
        return err;
    }
    if ((m.comm != a->config.comm) || (from >= a->config.size) || (from == a->config.self) ||
        nx_rankset_has(m.dead, from)) {
        return nx_fail(NEXAR_EPROTO, "a frame about an agreement of others");
    }
    if (nx_consensus_is_over(a)) {
        return NEXAR_OK;
    }
    if (is_too_early(a, &m)) {
        return nx_fail(NEXAR_EPROTO,
                       "a frame about agreement %" PRIu64 ", which cannot have begun before "
                       "agreement %" PRIu64,
                       m.seq, a->next);
    }
    if (nx_rankset_has(&a->dead, from)) {
        nx_consensus_on_failed_sender(a, from, &m);
        return NEXAR_OK;
    }
    if (nx_rankset_has(m.dead, a->config.self)) {
        nx_consensus_on_exclusion(a, from, &m);
        return NEXAR_OK;
    }
    nx_consensus_learn(a);
    if (!a->ended) {
        on_message(a, from, &m);
    }
    return NEXAR_OK;
}
