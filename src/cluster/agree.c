/*
 * agree.c - agreement among the living.
 *
 * Invariants
 *  - |dead| only grows.  All that counts in a ballot, |got|, |acks|, |accepted| and
 *    what was sent, is forgotten when it does; |own| and |acc| are kept.
 *  - A rank accepts in a ballot only while |dead| is that ballot, and only once it
 *    has brought what it had accepted before: so whoever proposes in a larger ballot
 *    knows what may have been decided in a smaller one.
 *  - Two slots are enough.  A message of instance k + 1 comes from a rank that has
 *    decided k, for which all the living had begun k, and so had decided k - 1:
 *    nobody will ask for k - 1 again.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cluster/agree_inner.h"

/* ---- sending ------------------------------------------------------------------- */

static size_t encode(nx_agree *a, nx_agree_kind kind, uint64_t seq, const nx_agree_value *value)
{
    const nx_agree_msg m = {
        .comm = a->config.comm, .seq = seq, .kind = kind, .dead = &a->dead, .value = value};
    nx_writer w = nx_writer_make(a->out, a->out_room);

    nx_agree_msg_encode(&w, &m);
    return w.len;
}

static void tell(nx_agree *a, uint32_t to, nx_agree_kind kind, const nx_agree_slot *s)
{
    a->ops->send(a->ctx, to, a->out, encode(a, kind, s->seq, &s->acc));
}

static void tell_children(nx_agree *a, nx_agree_kind kind, const nx_agree_slot *s, uint32_t but)
{
    const size_t len = encode(a, kind, s->seq, &s->acc);

    for (uint32_t i = 0; i < a->tree.nchildren; i++) {
        if (a->tree.children[i] != but) {
            a->ops->send(a->ctx, a->tree.children[i], a->out, len);
        }
    }
}

static void tell_news(nx_agree *a, uint32_t to)
{
    a->ops->send(a->ctx, to, a->out, encode(a, NX_AGREE_NEWS, a->next, NULL));
}

static uint64_t all_children(const nx_agree *a)
{
    return (a->tree.nchildren == 64) ? UINT64_MAX : (UINT64_C(1) << a->tree.nchildren) - 1;
}

/* The bit of |rank| among the children; 0 if it is none. */
static uint64_t child_bit(const nx_agree *a, uint32_t rank)
{
    for (uint32_t i = 0; i < a->tree.nchildren; i++) {
        if (a->tree.children[i] == rank) {
            return UINT64_C(1) << i;
        }
    }
    return 0;
}

/* ---- one instance -------------------------------------------------------------- */

/* What |acc| holds is decided. */
static void decide(nx_agree *a, nx_agree_slot *s)
{
    s->decided = true;
    a->running = false;
    a->next = s->seq + 1;
    a->ops->decided(a->ctx, s->seq, &s->acc);
}

/* Passes on what |from| said to the other neighbours in the tree: they may wait for
 * us, and not only the children, if |from| is not the parent of this ballot. */
static void pass_on(nx_agree *a, nx_agree_kind kind, const nx_agree_slot *s, uint32_t from)
{
    tell_children(a, kind, s, from);
    if (!nx_agree_is_root(a) && (a->tree.parent != from)) {
        tell(a, a->tree.parent, kind, s);
    }
}

/* Decided by the word of |from|. */
static void decide_told(nx_agree *a, nx_agree_slot *s, const nx_agree_value *value, uint32_t from)
{
    nx_agree_value_copy(&s->acc, value);
    pass_on(a, NX_AGREE_DECIDE, s, from);
    decide(a, s);
}

/* All of the subtree have accepted: the parent is told, or, at the root, all have. */
static void try_ack(nx_agree *a, nx_agree_slot *s)
{
    if (!s->accepted || s->ack_sent || (s->acks != all_children(a))) {
        return;
    }
    s->ack_sent = true;
    if (!nx_agree_is_root(a)) {
        tell(a, a->tree.parent, NX_AGREE_ACK, s);
        return;
    }
    tell_children(a, NX_AGREE_DECIDE, s, NX_AGREE_NOBODY);
    decide(a, s);
}

/* Takes |value| as the one of this ballot, and passes it on. */
static void adopt(nx_agree *a, nx_agree_slot *s, const nx_agree_value *value)
{
    nx_agree_value_copy(&s->acc, value);
    s->acc.ballot = 1 + a->dead.count;
    s->accepted = true;
    tell_children(a, NX_AGREE_PROPOSE, s, NX_AGREE_NOBODY);
    if (a->config.early) {
        decide(a, s);
    } else {
        try_ack(a, s);
    }
}

/* All of the subtree have brought theirs: the parent is told, or the root proposes. */
static void try_up(nx_agree *a, nx_agree_slot *s)
{
    if (!s->started || s->up_sent || (s->got != all_children(a))) {
        return;
    }
    s->up_sent = true;
    nx_agree_value_merge(&s->gather, &s->own);
    nx_agree_value_merge(&s->gather, &s->acc);
    if (!nx_agree_is_root(a)) {
        a->ops->send(a->ctx, a->tree.parent, a->out, encode(a, NX_AGREE_UP, s->seq, &s->gather));
        return;
    }
    if (s->gather.ballot == 0) {
        nx_rankset_copy(&s->gather.failed, &a->dead);
    }
    adopt(a, s, &s->gather);
}

/* The slot of instance |seq|; NULL: of the past.  |*err|: of an impossible future. */
static nx_agree_slot *slot_of(nx_agree *a, uint64_t seq, nexar_err *err)
{
    nx_agree_slot *s = &a->slots[seq & 1];

    if (seq > a->next + (a->running ? 1 : 0)) {
        *err = nx_fail(NEXAR_EPROTO,
                       "a frame about agreement %" PRIu64 ", which cannot have begun before "
                       "agreement %" PRIu64,
                       seq, a->next);
        return NULL;
    }
    if (s->seq < seq) {
        nx_agree_slot_open(s, seq);
    }
    return (s->seq == seq) ? s : NULL;
}

nexar_err nx_agree_start(nx_agree *a, const nx_agree_input *input)
{
    nexar_err err = NEXAR_OK;
    nx_agree_slot *s;

    if (a->ended) {
        return nx_fail(NEXAR_EPEER, "%s", a->why);
    }
    if (a->running || a->closed) {
        return nx_fail(NEXAR_EINVAL, "an agreement on a communicator %s",
                       a->running ? "where one is running" : "that is closed");
    }
    if ((input->payload != NULL) && (input->payload_len > a->config.payload_max)) {
        return nx_fail(NEXAR_EINVAL, "a payload of %" PRIu32 " bytes; at most %" PRIu32 " fit",
                       input->payload_len, a->config.payload_max);
    }
    s = slot_of(a, a->next, &err);
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

/* ---- the end ------------------------------------------------------------------- */

static void forget(nx_agree *a)
{
    if (!a->forgotten) {
        a->forgotten = true;
        a->ops->forgotten(a->ctx);
    }
}

/* The slot of the last decision, which is what others may still ask for. */
static nx_agree_slot *last_of(nx_agree *a)
{
    nx_agree_slot *s = &a->slots[(a->next - 1) & 1];

    return ((a->next > 0) && s->decided && (s->seq == a->next - 1)) ? s : NULL;
}

static void try_done(nx_agree *a)
{
    const nx_agree_slot *last = last_of(a);

    if (!a->closed || a->forgotten || a->ended) {
        return;
    }
    if (last == NULL) {
        forget(a);
        return;
    }
    if (a->done_sent || (a->done != all_children(a))) {
        return;
    }
    a->done_sent = true;
    if (!nx_agree_is_root(a)) {
        tell(a, a->tree.parent, NX_AGREE_DONE, last);
        return;
    }
    tell_children(a, NX_AGREE_FORGET, last, NX_AGREE_NOBODY);
    forget(a);
}

void nx_agree_close(nx_agree *a)
{
    a->closed = true;
    try_done(a);
}

static void end(nx_agree *a)
{
    a->ended = true;
    a->running = false;
    a->ops->ended(a->ctx, NEXAR_EPEER, a->why);
}

/* ---- deaths -------------------------------------------------------------------- */

static bool has_quorum(const nx_agree *a)
{
    const uint32_t size = a->config.size, alive = size - a->dead.count;

    return (a->config.quorum == NX_QUORUM_NONE) || (alive > size - alive) ||
           ((alive == size - alive) && !nx_rankset_has(&a->dead, 0));
}

/* Whether everybody is known to have decided |s|: they have begun the next one. */
static bool superseded(const nx_agree *a, const nx_agree_slot *s)
{
    const nx_agree_slot *after = &a->slots[(s->seq + 1) & 1];

    return (after->seq == s->seq + 1) && (after->acc.ballot > 0);
}

static void slot_again(nx_agree *a, nx_agree_slot *s)
{
    s->up_sent = s->accepted = s->ack_sent = false;
    s->got = s->acks = 0;
    nx_agree_value_reset(&s->gather);
    if (!s->decided) {
        try_up(a, s);
    } else if (!nx_agree_is_root(a) && !superseded(a, s)) {
        /* The new parent may have nothing, and wait for what we bring. */
        tell(a, a->tree.parent, NX_AGREE_DECIDE, s);
    }
}

/* |dead| has grown: a new ballot. */
static void begin_ballot(nx_agree *a)
{
    const uint64_t older = (a->slots[0].seq < a->slots[1].seq) ? 0 : 1;

    if (!has_quorum(a)) {
        (void)snprintf(a->why, sizeof(a->why),
                       "%" PRIu32 " of %" PRIu32 " ranks are left: no majority",
                       a->config.size - a->dead.count, a->config.size);
        end(a);
        return;
    }
    nx_agree_find_place(a);
    a->done = 0;
    a->done_sent = false;
    slot_again(a, &a->slots[older]);
    slot_again(a, &a->slots[1 - older]);
    if (a->closed && (last_of(a) != NULL)) {
        /* A new child may have been told to forget by one who died before it told
         * all: it has nothing to be done with any more, and says so. */
        tell_children(a, NX_AGREE_ASK, last_of(a), NX_AGREE_NOBODY);
    }
    try_done(a);
}

/* This rank is held for dead: by |by|, or by nobody in particular. */
static void be_excluded(nx_agree *a, uint32_t by)
{
    if (by == NX_AGREE_NOBODY) {
        (void)snprintf(a->why, sizeof(a->why), "the others hold this rank for dead");
    } else {
        (void)snprintf(a->why, sizeof(a->why),
                       "rank %" PRIu32 " and others hold this rank for dead", by);
    }
    end(a);
}

void nx_agree_failed(nx_agree *a, uint32_t rank)
{
    if (a->ended || a->forgotten || (rank >= a->config.size)) {
        return;
    }
    if (rank == a->config.self) {
        be_excluded(a, NX_AGREE_NOBODY);
    } else if (nx_rankset_add(&a->dead, rank)) {
        begin_ballot(a);
    }
}

/* Takes over what the sender holds for dead. */
static void learn(nx_agree *a)
{
    bool grown = false;

    for (uint32_t rank = nx_rankset_next(&a->in_dead, 0); rank < a->in_dead.n;
         rank = nx_rankset_next(&a->in_dead, rank + 1)) {
        if (nx_rankset_add(&a->dead, rank)) {
            grown = true;
            a->ops->learned(a->ctx, rank);
        }
    }
    if (grown) {
        begin_ballot(a);
    }
}

/* ---- frames -------------------------------------------------------------------- */

static void on_up(nx_agree *a, nx_agree_slot *s, uint32_t from, const nx_agree_value *value)
{
    const uint64_t bit = child_bit(a, from);

    if ((bit != 0) && ((s->got & bit) == 0)) {
        s->got |= bit;
        nx_agree_value_merge(&s->gather, value);
        try_up(a, s);
    }
}

static void on_propose(nx_agree *a, nx_agree_slot *s, uint32_t from, const nx_agree_value *value)
{
    if ((from == a->tree.parent) && s->up_sent && !s->accepted) {
        adopt(a, s, value);
    }
}

static void on_ack(nx_agree *a, nx_agree_slot *s, uint32_t from)
{
    s->acks |= child_bit(a, from);
    try_ack(a, s);
}

/* What is said about an instance that is not decided here, in this ballot. */
static void on_open(nx_agree *a, nx_agree_slot *s, uint32_t from, const nx_agree_msg *m)
{
    switch (m->kind) {
    case NX_AGREE_UP:
        on_up(a, s, from, m->value);
        break;
    case NX_AGREE_PROPOSE:
        on_propose(a, s, from, m->value);
        break;
    case NX_AGREE_ACK:
        on_ack(a, s, from);
        break;
    case NX_AGREE_DECIDE:
    case NX_AGREE_NEWS:
    case NX_AGREE_DONE:
    case NX_AGREE_ASK:
    case NX_AGREE_FORGET:
    case NX_AGREE_KINDS:
        break;
    }
}

static void on_done(nx_agree *a, uint32_t from)
{
    a->done |= child_bit(a, from);
    try_done(a);
}

static void on_forget(nx_agree *a, uint32_t from)
{
    const nx_agree_slot *last = last_of(a);

    if (a->closed && (last != NULL) && !a->forgotten) {
        pass_on(a, NX_AGREE_FORGET, last, from);
        forget(a);
    }
}

/* UP, PROPOSE, ACK, DECIDE. */
static nexar_err on_instance(nx_agree *a, uint32_t from, const nx_agree_msg *m, bool stale)
{
    nexar_err err = NEXAR_OK;
    nx_agree_slot *s = slot_of(a, m->seq, &err);

    if (s == NULL) {
        return err;
    }
    if (s->decided) {
        if (m->kind != NX_AGREE_DECIDE) {
            tell(a, from, NX_AGREE_DECIDE, s);
        }
    } else if (m->kind == NX_AGREE_DECIDE) {
        if (s->started) {
            decide_told(a, s, m->value, from);
        }
    } else if (stale) {
        tell_news(a, from);
    } else {
        on_open(a, s, from, m);
    }
    return NEXAR_OK;
}

static nexar_err on_message(nx_agree *a, uint32_t from, const nx_agree_msg *m)
{
    /* All that |from| knows we know now; if it does not know as much, it speaks in
     * a ballot that is over. */
    const bool stale = (m->dead->count != a->dead.count);

    switch (m->kind) {
    case NX_AGREE_NEWS:
    case NX_AGREE_ASK: /* DONE will come, in this ballot */
        return NEXAR_OK;
    case NX_AGREE_DONE:
        if (stale) {
            tell_news(a, from);
        } else {
            on_done(a, from);
        }
        return NEXAR_OK;
    case NX_AGREE_FORGET:
        on_forget(a, from);
        return NEXAR_OK;
    case NX_AGREE_UP:
    case NX_AGREE_PROPOSE:
    case NX_AGREE_ACK:
    case NX_AGREE_DECIDE:
    case NX_AGREE_KINDS:
        break;
    }
    return on_instance(a, from, m, stale);
}

nexar_err nx_agree_frame(nx_agree *a, uint32_t from, const void *frame, size_t len)
{
    nx_agree_msg m;
    nexar_err err = nx_agree_msg_decode(frame, len, &a->in_dead, &a->in_value, &m);

    if (err != NEXAR_OK) {
        return err;
    }
    if ((m.comm != a->config.comm) || (from >= a->config.size) || (from == a->config.self) ||
        nx_rankset_has(m.dead, from)) {
        return nx_fail(NEXAR_EPROTO, "a frame about an agreement of others");
    }
    if (a->ended || a->forgotten) {
        return NEXAR_OK;
    }
    if (nx_rankset_has(&a->dead, from)) {
        if (m.kind != NX_AGREE_NEWS) {
            tell_news(a, from);
        }
        return NEXAR_OK;
    }
    if (nx_rankset_has(m.dead, a->config.self)) {
        be_excluded(a, from);
        return NEXAR_OK;
    }
    learn(a);
    return a->ended ? NEXAR_OK : on_message(a, from, &m);
}
