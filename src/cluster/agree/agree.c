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

#include "cluster/agree/agree_inner.h"

/* ---- one instance -------------------------------------------------------------- */

static void tell_children(nx_agree *a, nx_agree_kind kind, const nx_agree_slot *s)
{
    nx_agree_tell_below(a, &a->tree, kind, s, NX_AGREE_NOBODY);
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

/* What |acc| holds is decided. */
static void decide(nx_agree *a, nx_agree_slot *s)
{
    s->decided = true;
    a->running = false;
    a->next = s->seq + 1;
    a->ops->decided(a->ctx, s->seq, &s->acc);
}

/* Decided by the word of |from|.  The other neighbours may wait for us, and not only the children,
 * if |from| is not the parent of this ballot. */
static void decide_told(nx_agree *a, nx_agree_slot *s, uint32_t from)
{
    nx_agree_tell_around(a, &a->tree, NX_AGREE_DECIDE, s, from);
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
        nx_agree_tell(a, a->tree.parent, NX_AGREE_ACK, s);
        return;
    }
    tell_children(a, NX_AGREE_DECIDE, s);
    decide(a, s);
}

/* Takes |value| as the one of this ballot, and passes it on. */
static void adopt(nx_agree *a, nx_agree_slot *s, const nx_agree_value *value)
{
    nx_agree_value_copy(&s->acc, value);
    s->acc.ballot = 1 + a->dead.count;
    s->accepted = true;
    tell_children(a, NX_AGREE_PROPOSE, s);
    if (a->config.early) {
        decide(a, s);
    } else {
        try_ack(a, s);
    }
}

/* Whether nobody can want to know anything of it.  One that was let go may, to the last. */
static bool is_over(const nx_agree *a)
{
    return a->ended || (a->forgotten && !a->let_go);
}

/* ---- quorum -------------------------------------------------------------------- */

static void end(nx_agree *a)
{
    a->ended = true;
    a->running = false;
    a->ops->ended(a->ctx, NEXAR_EPEER, a->why);
}

static void end_as_minority(nx_agree *a)
{
    (void)snprintf(a->why, sizeof(a->why), "%" PRIu32 " of %" PRIu32 " ranks are left: no majority",
                   a->config.size - a->dead.count, a->config.size);
    end(a);
}

/* Whether |alive| of |size| are a majority; |first|: rank 0 is one of them. */
static bool is_majority(uint32_t alive, uint32_t size, bool first)
{
    return (alive > size - alive) || ((alive == size - alive) && first);
}

/* Without it nothing is proposed. */
static bool has_quorum(const nx_agree *a)
{
    return (a->config.quorum == NX_QUORUM_NONE) ||
           is_majority(a->config.size - a->dead.count, a->config.size,
                       !nx_rankset_has(&a->dead, 0));
}

/* Without it this rank need not wait for others any more.  Of those who asked to leave, and have,
 * most have been told of the decision, and told others: it may be on its way here. */
static bool may_have_quorum(const nx_agree *a)
{
    const nx_agree_value *v = nx_agree_accepted(a);
    uint32_t size = a->config.size;

    for (uint32_t rank = 0;
         (v != NULL) && (rank = nx_rankset_next(&v->leavers, rank)) < v->leavers.n; rank++) {
        size -= nx_rankset_has(&a->dead, rank) && nx_rankset_has(&a->left, rank);
    }
    return has_quorum(a) ||
           ((size < a->config.size) && is_majority(a->config.size - a->dead.count, size, true));
}

/* ---- bringing and proposing ---------------------------------------------------- */

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
        nx_agree_tell_up(a, s);
        return;
    }
    if (!has_quorum(a)) {
        end_as_minority(a);
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

/* ---- deaths -------------------------------------------------------------------- */

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
    } else if (!superseded(a, s)) {
        /* The new parent may have nothing, and wait for what we bring. */
        if (!nx_agree_is_root(a)) {
            nx_agree_tell(a, a->tree.parent, NX_AGREE_DECIDE, s);
        }
        if (a->let_go) { /* and those who stay, for one that has gone already */
            nx_agree_tell_around(a, &a->rest, NX_AGREE_DECIDE, s, a->tree.parent);
        }
    }
}

/* |dead| has grown: a new ballot. */
static void begin_ballot(nx_agree *a)
{
    const uint64_t older = (a->slots[0].seq < a->slots[1].seq) ? 0 : 1;

    if (!may_have_quorum(a)) {
        end_as_minority(a);
        return;
    }
    nx_agree_find_place(a);
    slot_again(a, &a->slots[older]);
    if (!a->ended) {
        slot_again(a, &a->slots[1 - older]);
    }
    nx_agree_end_again(a);
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

/* Of deaths all are told (flood.h); of those who have left only those who hear of it here: so
 * they tell each other, along the tree.  With each ballot there are other neighbours to tell. */
static void spread(nx_agree *a)
{
    for (uint32_t i = 0; !a->ended && (i < a->tree.nchildren); i++) {
        nx_agree_tell_news(a, a->tree.children[i]);
    }
    if (!a->ended && !nx_agree_is_root(a)) {
        nx_agree_tell_news(a, a->tree.parent);
    }
}

/* One that has left may be a leaver that was let go, has not heard of it, and waits for this rank,
 * which will not speak to it any more: then it learns it by this (on_gone). */
static void tell_leaver(nx_agree *a, const nx_agree_slot *s, uint32_t rank)
{
    if (nx_rankset_has(&a->dead, rank) && nx_rankset_has(&a->left, rank) &&
        nx_rankset_has(&s->acc.leavers, rank)) {
        nx_agree_tell_news(a, rank);
    }
}

/* |dead| has grown, and the tree has not been found anew. */
static void bid_farewell(nx_agree *a)
{
    const nx_agree_slot *s = &a->slots[a->next & 1];

    if (!a->running || (s->acc.ballot == 0)) {
        return;
    }
    for (uint32_t i = 0; i < a->tree.nchildren; i++) {
        tell_leaver(a, s, a->tree.children[i]);
    }
    if (!nx_agree_is_root(a)) {
        tell_leaver(a, s, a->tree.parent);
    }
}

/* |rank| has left, as is said; or, which counts more, has failed: of one that cannot be found some
 * may only guess that it has left. */
static void note_left(nx_agree *a, uint32_t rank)
{
    (void)nx_rankset_add(&a->left, rank);
    if (!nx_rankset_has(&a->fell, rank)) {
        (void)nx_rankset_add(&a->gone, rank);
    }
}

static void note_fell(nx_agree *a, uint32_t rank)
{
    (void)nx_rankset_add(&a->fell, rank);
    (void)nx_rankset_remove(&a->gone, rank);
}

/* |dead| has grown. */
static void on_grown(nx_agree *a)
{
    bid_farewell(a);
    begin_ballot(a);
    if (a->left.count > 0) {
        spread(a);
    }
}

void nx_agree_failed(nx_agree *a, uint32_t rank)
{
    if (is_over(a) || (rank >= a->config.size)) {
        return;
    }
    if (rank == a->config.self) {
        be_excluded(a, NX_AGREE_NOBODY);
        return;
    }
    note_fell(a, rank);
    if (nx_rankset_add(&a->dead, rank)) {
        on_grown(a);
    }
}

void nx_agree_left(nx_agree *a, uint32_t rank)
{
    if (is_over(a) || (rank >= a->config.size) || (rank == a->config.self)) {
        return;
    }
    note_left(a, rank);
    if (nx_rankset_add(&a->dead, rank)) {
        on_grown(a);
    }
}

void nx_agree_remind(nx_agree *a)
{
    uint32_t ranks[NX_AGREE_FANOUT_MAX];
    const uint32_t n = nx_agree_waits_for(a, ranks, NX_AGREE_FANOUT_MAX);

    for (uint32_t i = 0; i < n; i++) {
        nx_agree_tell_news(a, ranks[i]);
    }
}

/* Takes over what the sender holds for dead. */
static void learn(nx_agree *a)
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
            nx_agree_tell(a, from, NX_AGREE_DECIDE, s);
        }
    } else if (m->kind == NX_AGREE_DECIDE) {
        if (s->started) {
            nx_agree_value_copy(&s->acc, m->value);
            decide_told(a, s, from);
        }
    } else if (stale) {
        nx_agree_tell_news(a, from);
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
        return NEXAR_OK;
    case NX_AGREE_DONE:
    case NX_AGREE_ASK:
    case NX_AGREE_FORGET:
        nx_agree_on_end(a, from, m->kind, stale);
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

/* Whether |m| says that this rank has left, and it asked to in what it has accepted, or decided. */
static bool lets_us_go(nx_agree *a, const nx_agree_msg *m)
{
    const nx_agree_slot *s = a->running ? &a->slots[a->next & 1] : nx_agree_last(a);

    return (s != NULL) && (s->acc.ballot > 0) && !a->config.early &&
           nx_rankset_has(m->left, a->config.self) &&
           nx_rankset_has(&s->acc.leavers, a->config.self);
}

/* This rank is held for dead by |from|.  Whoever is said to have left, and has not, is one whom
 * others have let go: that it leaves is decided, and what is decided is what it has accepted. */
static void on_gone(nx_agree *a, uint32_t from, const nx_agree_msg *m)
{
    if (!lets_us_go(a, m)) {
        be_excluded(a, from);
    } else if (a->running) {
        decide_told(a, &a->slots[a->next & 1], from);
    }
}

/* |from|, whom we hold for dead.  One that has left may have said what was decided before. */
static void on_dead(nx_agree *a, uint32_t from, const nx_agree_msg *m)
{
    nx_agree_slot *s = &a->slots[a->next & 1];

    if ((m->kind == NX_AGREE_DECIDE) && nx_rankset_has(&a->left, from) && !a->config.early &&
        a->running && (s->seq == m->seq) && !nx_rankset_has(m->dead, a->config.self)) {
        nx_agree_value_copy(&s->acc, m->value);
        decide_told(a, s, from);
    } else if ((m->kind != NX_AGREE_NEWS) || !nx_rankset_has(m->dead, a->config.self)) {
        nx_agree_tell_news(a, from); /* not two to each other for ever */
    }
}

nexar_err nx_agree_frame(nx_agree *a, uint32_t from, const void *frame, size_t len)
{
    nx_agree_msg m;
    nexar_err err = nx_agree_msg_decode(frame, len, &a->in_dead, &a->in_left, &a->in_value, &m);

    if (err != NEXAR_OK) {
        return err;
    }
    if ((m.comm != a->config.comm) || (from >= a->config.size) || (from == a->config.self) ||
        nx_rankset_has(m.dead, from)) {
        return nx_fail(NEXAR_EPROTO, "a frame about an agreement of others");
    }
    if (is_over(a)) {
        return NEXAR_OK;
    }
    if (nx_rankset_has(&a->dead, from)) {
        on_dead(a, from, &m);
        return NEXAR_OK;
    }
    if (nx_rankset_has(m.dead, a->config.self)) {
        on_gone(a, from, &m);
        return NEXAR_OK;
    }
    learn(a);
    return a->ended ? NEXAR_OK : on_message(a, from, &m);
}
