/* consensus_rig_rank.c - a rank and its consensus machine: actions and callbacks. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "consensus_rig_inner.h"

static const char *const kind_names[] = {
    [NX_CONSENSUS_UP] = "UP",     [NX_CONSENSUS_PROPOSE] = "PROPOSE",
    [NX_CONSENSUS_ACK] = "ACK",   [NX_CONSENSUS_DECIDE] = "DECIDE",
    [NX_CONSENSUS_NEWS] = "NEWS", [NX_CONSENSUS_DONE] = "DONE",
    [NX_CONSENSUS_ASK] = "ASK",   [NX_CONSENSUS_FORGET] = "FORGET"};

/* ---- callbacks of the machine -------------------------------------------------- */

static void on_send(void *ctx, uint32_t to, const void *frame, size_t len)
{
    rank_state *r = ctx;
    rig *g = r->rig;

    if ((to >= g->plan.size) || (to == r->self) || (len > FRAME_ROOM)) {
        nxt_consensus_wrong(g, "rank %u sent %zu bytes to rank %u", r->self, len, to);
        return;
    }
    if (!nxt_consensus_may_send(g, r->self) || nxt_consensus_cut_between(g, r->self, to)) {
        return;
    }
    for (uint32_t copies = (g->plan.twice && nxt_one_in(&g->rand, 8)) ? 2 : 1; copies > 0;
         copies--) {
        event *e = nxt_consensus_send_event(g, EV_FRAME, r->self, to, 0);

        memcpy(e->frame, frame, len);
        e->len = len;
    }
    g->result->frames++;
}

static uint32_t bits_of(const nx_rankset *s)
{
    uint32_t bits = 0;

    for (uint32_t i = nx_rankset_next(s, 0); i < s->n; i = nx_rankset_next(s, i + 1)) {
        bits |= 1U << i;
    }
    return bits;
}

/* The next step of a rank that has decided |d|. */
static void go_on(rig *g, rank_state *r, const decision *d)
{
    const bool departure = g->plan.departs && (d->leavers != 0);
    const bool quits = g->plan.quits && nxt_one_in(&g->rand, 6);

    r->over = departure || quits || (r->starts == g->plan.instances);
    if (departure && ((d->leavers >> r->self) & 1)) {
        (void)nxt_consensus_post(
            g, EV_DEPART, nxt_one_in(&g->rand, 2) ? 0 : nxt_consensus_some_delay(g), r->self, 0);
    } else if (departure) {
        g->leaving |= d->leavers;
        (void)nxt_consensus_post(
            g, EV_CLOSE, nxt_one_in(&g->rand, 2) ? 0 : nxt_consensus_some_delay(g), r->self, 0);
        if (g->plan.indirect) {
            nxt_consensus_spread_indirectly(g, r->self, d->leavers);
        }
    } else if (quits) {
        g->quit |= 1U << r->self;
        (void)nxt_consensus_post(g, EV_DEPART, nxt_consensus_some_delay(g), r->self, 0);
    } else {
        (void)nxt_consensus_post(g, r->over ? EV_CLOSE : EV_START, nxt_consensus_some_delay(g),
                                 r->self, 0);
    }
}

static void on_decided(void *ctx, uint64_t seq, const nx_consensus_value *v)
{
    rank_state *r = ctx;
    rig *g = r->rig;
    decision *d;

    if (!r->alive) {
        return;
    }
    if ((seq >= g->plan.instances) || (seq + 1 != r->starts) || r->decisions[seq].have) {
        nxt_consensus_wrong(g, "rank %u decided %" PRIu64 " after %u starts", r->self, seq,
                            r->starts);
        return;
    }
    d = &r->decisions[seq];
    *d = (decision){.have = true,
                    .flags = v->flags,
                    .highest = v->highest,
                    .failed = bits_of(&v->failed),
                    .leavers = bits_of(&v->leavers),
                    .author = v->author,
                    .payload_len = v->payload_len};
    if (v->payload_len > 0) {
        memcpy(d->payload, v->payload, v->payload_len);
    }
    g->result->decided++;
    nxt_consensus_say(g, "%u decides %" PRIu64 ": flags %" PRIx64 " failed %x", r->self, seq,
                      d->flags, d->failed);
    go_on(g, r, d);
}

static void on_learned(void *ctx, uint32_t rank)
{
    rank_state *r = ctx;
    rig *g = r->rig;
    const bool left = nx_consensus_has_left(r->machine, rank);

    if (left && !(((g->leavers_gone | g->leaving) >> rank) & 1)) {
        nxt_consensus_wrong(g, "rank %u hears that rank %u has left, which has not", r->self, rank);
    }
    if (!left && !((g->accused >> rank) & 1)) {
        nxt_consensus_wrong(g, "rank %u treats rank %u as failed, which has left", r->self, rank);
    }
    if (left) {
        r->gone |= 1U << rank;
    } else {
        nxt_consensus_note_dead(g, r->self, rank, false);
    }
}

static void on_ended(void *ctx, nexar_err err, const char *why)
{
    rank_state *r = ctx;

    if (r->ended || (err != NEXAR_EPEER)) {
        nxt_consensus_wrong(r->rig, "rank %u ended twice or with %d", r->self, (int)err);
    }
    nxt_consensus_say(r->rig, "%u ends: %s", r->self, why);
    if (r->alive && (strstr(why, "declared") != NULL) && !((r->rig->accused >> r->self) & 1)) {
        nxt_consensus_wrong(r->rig, "rank %u is told that it is dead, which nobody held it for",
                            r->self);
    }
    if (r->alive && (r->rig->accused == 0) &&
        (2 * (uint32_t)__builtin_popcount(r->rig->leavers_gone) < r->rig->plan.size)) {
        nxt_consensus_wrong(r->rig, "rank %u ends although nobody has failed: %s", r->self, why);
    }
    r->ended = true;
    r->rig->result->ended += r->alive;
    (void)nxt_consensus_post(r->rig, EV_CRASH, nxt_consensus_some_delay(r->rig), r->self, 0);
}

static void on_forgotten(void *ctx)
{
    rank_state *r = ctx;

    if (r->forgotten || !r->closed) {
        nxt_consensus_wrong(r->rig, "rank %u was told to forget %s", r->self,
                            r->closed ? "twice" : "too early");
    }
    r->forgotten = true;
}

static const nx_consensus_ops ops = {.send = on_send,
                                     .decided = on_decided,
                                     .learned = on_learned,
                                     .ended = on_ended,
                                     .forgotten = on_forgotten};

/* ---- actions of the rank ------------------------------------------------------- */

/* Whether a released leaver that is still present may query |r|. */
static bool may_be_asked(const rank_state *r)
{
    const rig *g = r->rig;
    const decision *d = &r->decisions[r->starts - 1];

    for (uint32_t i = 0; g->plan.departs && (i < g->plan.size); i++) {
        if (((d->leavers >> i) & 1) && g->ranks[i].alive && !g->ranks[i].over &&
            !g->ranks[i].ended && (g->plan.fault != NXT_FAULT_DEAF_TO_LEAVERS)) {
            return true;
        }
    }
    return false;
}

void nxt_consensus_rank_bury(rank_state *r)
{
    if (r->forgotten && (r->machine != NULL) && !may_be_asked(r)) {
        nx_consensus_destroy(r->machine);
        r->machine = NULL;
    }
}

static void stray(rig *g, event *e)
{
    rank_state *r = &g->ranks[e->to];
    uint8_t reply[NX_CONSENSUS_UNEXPECTED_MAX];
    size_t len;
    const bool keep = nx_consensus_unexpected(e->frame, e->len, reply, &len);

    if (len > 0) {
        if (!r->was_made) {
            nxt_consensus_wrong(g, "rank %u was asked to forget what it never knew", e->to);
        }
        on_send(r, e->from, reply, len);
    }
    if (keep && !r->was_made) {
        event *copy = nx_zalloc(sizeof(*copy));

        if ((copy == NULL) || (r->nheld == sizeof(r->held) / sizeof(r->held[0]))) {
            abort();
        }
        *copy = *e;
        r->held[r->nheld++] = copy;
    }
}

void nxt_consensus_rank_deliver(rig *g, event *e)
{
    rank_state *r = &g->ranks[e->to];

    if (nxt_consensus_cut_between(g, e->from, e->to)) {
        return;
    }
    if (r->machine == NULL) {
        stray(g, e);
        return;
    }
    nxt_consensus_say(g, "%u <- %u %s", e->to, e->from,
                      kind_names[(e->len > 3) ? e->frame[3] % NX_CONSENSUS_KINDS : 0]);
    if (nx_consensus_frame(r->machine, e->from, e->frame, e->len) != NEXAR_OK) {
        nxt_consensus_wrong(g, "rank %u refused a frame: %s", e->to, nexar_last_error());
    }
    nxt_consensus_rank_bury(r);
}

static void make_machine(rig *g, rank_state *r)
{
    const nxt_consensus_plan *p = &g->plan;
    const nx_consensus_config config = {
        .comm = COMM,
        .size = p->size,
        .self = r->self,
        .quorum = (p->fault == NXT_FAULT_NO_QUORUM) ? NX_QUORUM_NONE : p->quorum,
        .early = p->early || ((p->fault == NXT_FAULT_EARLY) && (p->quorum == NX_QUORUM_NONE)),
        .fanout = p->fanout,
        .payload_max = PAYLOAD};

    if (nx_consensus_create(&r->machine, &config, &ops, r) != NEXAR_OK) {
        abort();
    }
    r->was_made = true;
    for (uint32_t i = 0; i < p->size; i++) {
        if ((r->known >> i) & 1) {
            nx_consensus_failed(r->machine, i);
        }
    }
    for (uint32_t i = 0; i < r->nheld; i++) {
        if (r->alive && (r->machine != NULL)) {
            nxt_consensus_rank_deliver(g, r->held[i]);
        }
        nx_free(r->held[i]);
    }
    r->nheld = 0;
}

void nxt_consensus_rank_start(rig *g, rank_state *r)
{
    const uint32_t seq = r->starts;
    nx_consensus_input *in = &r->inputs[seq];

    if (!r->was_made) {
        make_machine(g, r);
    }
    if (r->ended || !r->alive) {
        return;
    }
    *in = (nx_consensus_input){0}; /* separate statements: draws in one expression have no order */
    in->flags = ~(UINT64_C(1) << nxt_below(&g->rand, 64));
    in->highest = (uint64_t)seq * 1000 + nxt_below(&g->rand, 900);
    in->leave = nxt_one_in(&g->rand, 4);
    if (nxt_one_in(&g->rand, 2)) {
        in->payload = r->payloads[seq];
        in->payload_len = nxt_below(&g->rand, PAYLOAD + 1);
        memset(r->payloads[seq], (int)(seq * MOST + r->self + 1), PAYLOAD);
    }
    r->known_at_start[seq] = r->known;
    r->starts++;
    if (nx_consensus_start(r->machine, in) != NEXAR_OK) {
        nxt_consensus_wrong(g, "rank %u could not start: %s", r->self, nexar_last_error());
    }
    for (uint32_t i = 0; i < g->plan.size; i++) {
        if (((r->gone >> i) & 1) && r->alive) {
            nxt_consensus_note_gone(g, r->self, i);
        }
    }
}

/* The ranks whose leave |r| has decided leave. */
static void let_go(rank_state *r)
{
    const rig *g = r->rig;
    const decision *d = &r->decisions[r->starts - 1];

    if (!g->plan.departs || (d->leavers == 0) || (g->plan.fault == NXT_FAULT_AWAIT_LEAVERS)) {
        return;
    }
    nx_consensus_let_go(r->machine);
    for (uint32_t i = 0; (g->plan.fault == NXT_FAULT_LET_GO_AS_DEAD) && (i < g->plan.size); i++) {
        if ((d->leavers >> i) & 1) {
            nx_consensus_failed(r->machine, i);
        }
    }
}

void nxt_consensus_rank_close(rank_state *r)
{
    if ((r->machine != NULL) && !r->ended && !r->closed) {
        r->closed = true;
        let_go(r);
        nx_consensus_close(r->machine);
        nxt_consensus_rank_bury(r);
    }
}
