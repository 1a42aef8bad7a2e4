/* agree_rig.c - ranks that agree in virtual time. */
#include "agree_rig.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agree_rig_inner.h"
#include "base/alloc.h"

static const char *const event_names[] = {
    [EV_FRAME] = "frame",  [EV_FLOOD] = "told of",    [EV_DETECT] = "detects",
    [EV_START] = "starts", [EV_CLOSE] = "closes",     [EV_CRASH] = "crashes",
    [EV_PAUSE] = "stops",  [EV_SUSPECT] = "suspects", [EV_PARTITION] = "partition",
    [EV_DEPART] = "goes",  [EV_GONE] = "finds gone",  [EV_REMIND] = "reminds"};

static const char *const kind_names[] = {
    [NX_AGREE_UP] = "UP",         [NX_AGREE_PROPOSE] = "PROPOSE", [NX_AGREE_ACK] = "ACK",
    [NX_AGREE_DECIDE] = "DECIDE", [NX_AGREE_NEWS] = "NEWS",       [NX_AGREE_DONE] = "DONE",
    [NX_AGREE_ASK] = "ASK",       [NX_AGREE_FORGET] = "FORGET"};

static void say(const rig *g, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void say(const rig *g, const char *format, ...)
{
    va_list args;

    if (g->trace) {
        va_start(args, format);
        printf("%6" PRIu64 "  ", g->now);
        (void)vprintf(format, args);
        printf("\n");
        va_end(args);
    }
}

void nxt_agree_wrong(rig *g, const char *format, ...)
{
    va_list args;

    if (g->result->good) {
        g->result->good = false;
        va_start(args, format);
        (void)vsnprintf(g->result->text, sizeof(g->result->text), format, args);
        va_end(args);
        say(g, "WRONG: %s", g->result->text);
    }
}

/* ---- events -------------------------------------------------------------------- */

static event *post(rig *g, event_kind kind, uint64_t after, uint32_t to, uint32_t rank)
{
    event *e = nx_zalloc(sizeof(*e));

    if ((e == NULL) || (nx_heap_push(&g->events, &e->item, g->now + after) != NEXAR_OK)) {
        abort();
    }
    e->kind = kind;
    e->to = to;
    e->rank = rank;
    return e;
}

/* A delay: mostly short, sometimes ten times as long. */
static uint64_t some_delay(rig *g)
{
    const uint64_t d = 1 + nxt_below(&g->rand, g->plan.delay);

    return nxt_one_in(&g->rand, 20) ? 10 * d : d;
}

static uint64_t detection_delay(rig *g)
{
    return 1 + nxt_below(&g->rand, nxt_one_in(&g->rand, 2) ? 5 : g->plan.detection);
}

static bool cut_between(const rig *g, uint32_t a, uint32_t b)
{
    return g->cut && (g->ranks[a].side != g->ranks[b].side);
}

static void crash(rig *g, uint32_t who)
{
    rank_state *r = &g->ranks[who];

    if (!r->alive) {
        return;
    }
    say(g, "%u dies", who);
    r->alive = false;
    g->result->crashed++;
    g->accused |= 1U << who;
    for (uint32_t i = 0; i < g->plan.size; i++) {
        if (i != who) {
            (void)post(g, EV_DETECT, detection_delay(g), i, who);
        }
    }
}

/* Whoever hears it say goodbye has heard all that it said before; others may be told sooner. */
static void depart(rig *g, uint32_t who)
{
    rank_state *r = &g->ranks[who];

    r->alive = false;
    g->departed |= 1U << who;
    g->result->departed++;
    for (uint32_t i = 0; i < g->plan.size; i++) {
        const uint64_t at = g->now + detection_delay(g);

        if (i != who) {
            event *e = post(g, EV_GONE, 0, i, who);

            nx_heap_move(&g->events, &e->item, (at < g->last[who][i]) ? g->last[who][i] : at);
            e->from = who;
        }
    }
}

/* Whether |from| lives to send one more thing. */
static bool may_send(rig *g, uint32_t from)
{
    rank_state *r = &g->ranks[from];

    if (r->alive && (r->sends_left != NEVER) && (r->sends_left-- == 0)) {
        crash(g, from);
    }
    return r->alive;
}

static event *send_event(rig *g, event_kind kind, uint32_t from, uint32_t to, uint32_t rank)
{
    uint64_t at = g->now + some_delay(g);
    event *e;

    if (g->plan.ordered && (at < g->last[from][to])) {
        at = g->last[from][to];
    }
    g->last[from][to] = (at > g->last[from][to]) ? at : g->last[from][to];
    e = post(g, kind, at - g->now, to, rank);
    e->from = from;
    return e;
}

static void note_dead(rig *g, uint32_t who, uint32_t rank, bool tell_machine)
{
    rank_state *r = &g->ranks[who];

    if (!r->alive || ((r->known >> rank) & 1)) {
        return;
    }
    r->known |= 1U << rank;
    g->accused |= 1U << rank;
    for (uint32_t i = 0; i < g->plan.size; i++) {
        if ((i != who) && may_send(g, who) && !cut_between(g, who, i)) {
            (void)send_event(g, EV_FLOOD, who, i, rank);
        }
    }
    if (tell_machine && r->alive && (r->machine != NULL)) {
        nx_agree_failed(r->machine, rank);
    }
}

/* |rank| has left, as |who| has found out, or was told: of no concern to one that waits for
 * nobody. */
static void note_gone(rig *g, uint32_t who, uint32_t rank)
{
    rank_state *r = &g->ranks[who];

    r->gone |= 1U << rank;
    if ((r->machine != NULL) && (r->starts > 0) && !r->decisions[r->starts - 1].have) {
        nx_agree_left(r->machine, rank);
    }
}

/* Somebody is told of a leaver that it has gone, by another way than the agreement. */
static void spread_hearsay(rig *g, uint32_t by, uint32_t leavers)
{
    const uint32_t to = nxt_below(&g->rand, g->plan.size), rank = nxt_below(&g->rand, g->plan.size);

    if (((leavers >> rank) & 1) && (to != rank) && (to != by)) {
        event *e = post(g, EV_GONE, some_delay(g), to, rank);

        e->from = by;
        for (uint32_t i = 0; i < g->plan.size; i++) {
            (void)post(g, EV_REMIND, LONG, i, 0);
        }
    }
}

/* ---- what the machines call ---------------------------------------------------- */

static void on_send(void *ctx, uint32_t to, const void *frame, size_t len)
{
    rank_state *r = ctx;
    rig *g = r->rig;

    if ((to >= g->plan.size) || (to == r->self) || (len > FRAME_ROOM)) {
        nxt_agree_wrong(g, "rank %u sent %zu bytes to rank %u", r->self, len, to);
        return;
    }
    if (!may_send(g, r->self) || cut_between(g, r->self, to)) {
        return;
    }
    for (uint32_t copies = (g->plan.twice && nxt_one_in(&g->rand, 8)) ? 2 : 1; copies > 0;
         copies--) {
        event *e = send_event(g, EV_FRAME, r->self, to, 0);

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

/* What a rank does that has decided |d|. */
static void go_on(rig *g, rank_state *r, const decision *d)
{
    const bool parting = g->plan.departs && (d->leavers != 0);
    const bool quits = g->plan.quits && nxt_one_in(&g->rand, 6);

    r->over = parting || quits || (r->starts == g->plan.instances);
    if (parting && ((d->leavers >> r->self) & 1)) {
        (void)post(g, EV_DEPART, nxt_one_in(&g->rand, 2) ? 0 : some_delay(g), r->self, 0);
    } else if (parting) {
        g->leaving |= d->leavers;
        (void)post(g, EV_CLOSE, nxt_one_in(&g->rand, 2) ? 0 : some_delay(g), r->self, 0);
        if (g->plan.hearsay) {
            spread_hearsay(g, r->self, d->leavers);
        }
    } else if (quits) {
        g->quit |= 1U << r->self;
        (void)post(g, EV_DEPART, some_delay(g), r->self, 0);
    } else {
        (void)post(g, r->over ? EV_CLOSE : EV_START, some_delay(g), r->self, 0);
    }
}

static void on_decided(void *ctx, uint64_t seq, const nx_agree_value *v)
{
    rank_state *r = ctx;
    rig *g = r->rig;
    decision *d;

    if (!r->alive) {
        return;
    }
    if ((seq >= g->plan.instances) || (seq + 1 != r->starts) || r->decisions[seq].have) {
        nxt_agree_wrong(g, "rank %u decided %" PRIu64 " after %u starts", r->self, seq, r->starts);
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
    say(g, "%u decides %" PRIu64 ": flags %" PRIx64 " failed %x", r->self, seq, d->flags,
        d->failed);
    go_on(g, r, d);
}

static void on_learned(void *ctx, uint32_t rank)
{
    rank_state *r = ctx;
    rig *g = r->rig;
    const bool left = nx_agree_has_left(r->machine, rank);

    if (left && !(((g->departed | g->leaving) >> rank) & 1)) {
        nxt_agree_wrong(g, "rank %u hears that rank %u has left, which has not", r->self, rank);
    }
    if (!left && !((g->accused >> rank) & 1)) {
        nxt_agree_wrong(g, "rank %u takes rank %u for dead, which has left", r->self, rank);
    }
    if (left) {
        r->gone |= 1U << rank;
    } else {
        note_dead(g, r->self, rank, false);
    }
}

static void on_ended(void *ctx, nexar_err err, const char *why)
{
    rank_state *r = ctx;

    if (r->ended || (err != NEXAR_EPEER)) {
        nxt_agree_wrong(r->rig, "rank %u ended twice or with %d", r->self, (int)err);
    }
    say(r->rig, "%u ends: %s", r->self, why);
    if (r->alive && (strstr(why, "for dead") != NULL) && !((r->rig->accused >> r->self) & 1)) {
        nxt_agree_wrong(r->rig, "rank %u is told that it is dead, which nobody held it for",
                        r->self);
    }
    if (r->alive && (r->rig->accused == 0) &&
        (2 * (uint32_t)__builtin_popcount(r->rig->departed) < r->rig->plan.size)) {
        nxt_agree_wrong(r->rig, "rank %u ends although nobody has failed: %s", r->self, why);
    }
    r->ended = true;
    r->rig->result->ended += r->alive;
    (void)post(r->rig, EV_CRASH, some_delay(r->rig), r->self, 0);
}

static void on_forgotten(void *ctx)
{
    rank_state *r = ctx;

    if (r->forgotten || !r->closed) {
        nxt_agree_wrong(r->rig, "rank %u was told to forget %s", r->self,
                        r->closed ? "twice" : "too early");
    }
    r->forgotten = true;
}

static const nx_agree_ops ops = {.send = on_send,
                                 .decided = on_decided,
                                 .learned = on_learned,
                                 .ended = on_ended,
                                 .forgotten = on_forgotten};

/* ---- what happens -------------------------------------------------------------- */

/* Whether one that was let go, and has not gone, may still ask |r|. */
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

static void bury(rank_state *r)
{
    if (r->forgotten && (r->machine != NULL) && !may_be_asked(r)) {
        nx_agree_destroy(r->machine);
        r->machine = NULL;
    }
}

static void stray(rig *g, event *e)
{
    rank_state *r = &g->ranks[e->to];
    uint8_t reply[NX_AGREE_STRAY_MAX];
    size_t len;
    const bool keep = nx_agree_stray(e->frame, e->len, reply, &len);

    if (len > 0) {
        if (!r->was_made) {
            nxt_agree_wrong(g, "rank %u was asked to forget what it never knew", e->to);
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

static void deliver(rig *g, event *e)
{
    rank_state *r = &g->ranks[e->to];

    if (cut_between(g, e->from, e->to)) {
        return;
    }
    if (r->machine == NULL) {
        stray(g, e);
        return;
    }
    say(g, "%u <- %u %s", e->to, e->from,
        kind_names[(e->len > 3) ? e->frame[3] % NX_AGREE_KINDS : 0]);
    if (nx_agree_frame(r->machine, e->from, e->frame, e->len) != NEXAR_OK) {
        nxt_agree_wrong(g, "rank %u refused a frame: %s", e->to, nexar_last_error());
    }
    bury(r);
}

static void make_machine(rig *g, rank_state *r)
{
    const nxt_agree_plan *p = &g->plan;
    const nx_agree_config config = {
        .comm = COMM,
        .size = p->size,
        .self = r->self,
        .quorum = (p->fault == NXT_FAULT_NO_QUORUM) ? NX_QUORUM_NONE : p->quorum,
        .early = p->early || ((p->fault == NXT_FAULT_EARLY) && (p->quorum == NX_QUORUM_NONE)),
        .fanout = p->fanout,
        .payload_max = PAYLOAD};

    if (nx_agree_create(&r->machine, &config, &ops, r) != NEXAR_OK) {
        abort();
    }
    r->was_made = true;
    for (uint32_t i = 0; i < p->size; i++) {
        if ((r->known >> i) & 1) {
            nx_agree_failed(r->machine, i);
        }
    }
    for (uint32_t i = 0; i < r->nheld; i++) {
        if (r->alive && (r->machine != NULL)) {
            deliver(g, r->held[i]);
        }
        nx_free(r->held[i]);
    }
    r->nheld = 0;
}

static void start(rig *g, rank_state *r)
{
    const uint32_t seq = r->starts;
    nx_agree_input *in = &r->inputs[seq];

    if (!r->was_made) {
        make_machine(g, r);
    }
    if (r->ended || !r->alive) {
        return;
    }
    *in = (nx_agree_input){.flags = ~(UINT64_C(1) << nxt_below(&g->rand, 64)),
                           .highest = (uint64_t)seq * 1000 + nxt_below(&g->rand, 900),
                           .leave = nxt_one_in(&g->rand, 4)};
    if (nxt_one_in(&g->rand, 2)) {
        in->payload = r->payloads[seq];
        in->payload_len = nxt_below(&g->rand, PAYLOAD + 1);
        memset(r->payloads[seq], (int)(seq * MOST + r->self + 1), PAYLOAD);
    }
    r->known_at_start[seq] = r->known;
    r->starts++;
    if (nx_agree_start(r->machine, in) != NEXAR_OK) {
        nxt_agree_wrong(g, "rank %u could not start: %s", r->self, nexar_last_error());
    }
    for (uint32_t i = 0; i < g->plan.size; i++) {
        if (((r->gone >> i) & 1) && r->alive) {
            note_gone(g, r->self, i);
        }
    }
}

/* Those who leave by what |r| has decided go. */
static void let_go(rank_state *r)
{
    const rig *g = r->rig;
    const decision *d = &r->decisions[r->starts - 1];

    if (!g->plan.departs || (d->leavers == 0) || (g->plan.fault == NXT_FAULT_AWAIT_LEAVERS)) {
        return;
    }
    nx_agree_let_go(r->machine);
    for (uint32_t i = 0; (g->plan.fault == NXT_FAULT_LET_GO_AS_DEAD) && (i < g->plan.size); i++) {
        if ((d->leavers >> i) & 1) {
            nx_agree_failed(r->machine, i);
        }
    }
}

static void close_rank(rank_state *r)
{
    if ((r->machine != NULL) && !r->ended && !r->closed) {
        r->closed = true;
        let_go(r);
        nx_agree_close(r->machine);
        bury(r);
    }
}

static void partition(rig *g)
{
    g->cut = true;
    for (uint32_t i = 0; i < g->plan.size; i++) {
        for (uint32_t k = 0; k < g->plan.size; k++) {
            if (cut_between(g, i, k)) {
                (void)post(g, EV_DETECT, detection_delay(g), i, k);
            }
        }
    }
}

static void happen(rig *g, event *e)
{
    rank_state *r = &g->ranks[e->to];

    if ((e->kind != EV_FRAME) && r->alive) {
        say(g, "%u %s %u", e->to, event_names[e->kind], e->rank);
    }
    switch (e->kind) {
    case EV_FRAME:
        if (nxt_agree_spoil(g, e) && g->ranks[e->to].alive) {
            deliver(g, e);
        }
        break;
    case EV_FLOOD:
        if (!cut_between(g, e->from, e->to)) {
            note_dead(g, e->to, e->rank, true);
        }
        break;
    case EV_DETECT:
    case EV_SUSPECT:
        note_dead(g, e->to, e->rank, true);
        break;
    case EV_START:
        start(g, r);
        break;
    case EV_CLOSE:
        close_rank(r);
        break;
    case EV_CRASH:
        crash(g, e->to);
        break;
    case EV_PAUSE:
        r->resumes = g->now + 1 + nxt_below(&g->rand, 200);
        break;
    case EV_PARTITION:
        partition(g);
        break;
    case EV_DEPART:
        depart(g, e->to);
        break;
    case EV_REMIND:
        if ((r->machine != NULL) && !r->ended) {
            nx_agree_remind(r->machine);
        }
        break;
    case EV_GONE:
        if (!cut_between(g, e->from, e->to)) {
            note_gone(g, e->to, e->rank);
        }
        break;
    }
    bury(r);
}

static void run_events(rig *g)
{
    nx_heap_item *top;
    uint32_t n = 0;

    while (((top = nx_heap_top(&g->events)) != NULL) && g->result->good) {
        event *e = (event *)(void *)top;
        rank_state *r = &g->ranks[e->to];

        g->now = top->key;
        if (r->alive && (r->resumes > g->now) && (e->kind != EV_CRASH) &&
            (e->kind != EV_PARTITION)) {
            nx_heap_move(&g->events, top, r->resumes);
            continue;
        }
        nx_heap_remove(&g->events, top);
        if (r->alive || (e->kind == EV_PARTITION)) {
            happen(g, e);
        }
        nx_free(e);
        if (++n > EVENTS_MAX) {
            nxt_agree_wrong(g, "it does not end");
        }
    }
}

/* ---- a run --------------------------------------------------------------------- */

static void plan_troubles(rig *g)
{
    const nxt_agree_plan *p = &g->plan;
    const uint32_t span = 8 * p->delay * p->instances;
    const uint32_t accuser = nxt_below(&g->rand, p->size);

    for (uint32_t i = 0; i < p->crashes; i++) {
        const uint32_t who = nxt_below(&g->rand, p->size);

        if (nxt_one_in(&g->rand, 3)) {
            (void)post(g, EV_CRASH, nxt_below(&g->rand, span), who, 0);
        } else {
            g->ranks[who].sends_left = nxt_below(&g->rand, 16 * p->instances);
        }
    }
    for (uint32_t i = 0; i < p->pauses; i++) {
        (void)post(g, EV_PAUSE, nxt_below(&g->rand, span), nxt_below(&g->rand, p->size), 0);
    }
    for (uint32_t i = 0; i < p->suspicions; i++) {
        /* Without a quorum two that hold each other for dead may both go on. */
        const uint32_t by = (p->quorum == NX_QUORUM_NONE) ? accuser : nxt_below(&g->rand, p->size);
        const uint32_t who = nxt_below(&g->rand, p->size);

        if (by != who) {
            (void)post(g, EV_SUSPECT, nxt_below(&g->rand, span), by, who);
        }
    }
    if (p->partition) {
        (void)post(g, EV_PARTITION, nxt_below(&g->rand, span), 0, 0);
    }
}

static void rig_init(rig *g)
{
    const nxt_agree_plan *p = &g->plan;

    if ((nx_rankset_init(&g->dead, p->size) != NEXAR_OK) ||
        (nx_rankset_init(&g->left, p->size) != NEXAR_OK) ||
        (nx_agree_value_init(&g->value, p->size, PAYLOAD) != NEXAR_OK)) {
        abort();
    }
    for (uint32_t i = 0; i < p->size; i++) {
        rank_state *r = &g->ranks[i];

        if (nx_agree_value_init(&g->old[i].value, p->size, PAYLOAD) != NEXAR_OK) {
            abort();
        }
        r->rig = g;
        r->self = i;
        r->alive = true;
        r->side = nxt_one_in(&g->rand, 2);
        r->sends_left = NEVER;
        (void)post(g, EV_START, some_delay(g), i, 0);
    }
    plan_troubles(g);
}

static void rig_fini(rig *g)
{
    nx_heap_item *top;

    while ((top = nx_heap_top(&g->events)) != NULL) {
        nx_heap_remove(&g->events, top);
        nx_free(top);
    }
    nx_heap_fini(&g->events);
    for (uint32_t i = 0; i < g->plan.size; i++) {
        nx_agree_destroy(g->ranks[i].machine);
        for (uint32_t k = 0; k < g->ranks[i].nheld; k++) {
            nx_free(g->ranks[i].held[k]);
        }
        nx_agree_value_fini(&g->old[i].value);
    }
    nx_rankset_fini(&g->dead);
    nx_rankset_fini(&g->left);
    nx_agree_value_fini(&g->value);
    nx_free(g);
}

void nxt_agree_run(const nxt_agree_plan *plan, bool trace, nxt_agree_result *result)
{
    rig *g = nx_zalloc(sizeof(*g));

    if (g == NULL) {
        abort();
    }
    *result = (nxt_agree_result){.good = true};
    g->plan = *plan;
    g->rand.state = nxt_mix(plan->seed + 1);
    g->fault_rand.state = nxt_mix(plan->seed + 2);
    g->trace = trace;
    g->result = result;
    rig_init(g);
    run_events(g);
    if (result->good) {
        nxt_agree_check(g);
    }
    rig_fini(g);
}

nxt_agree_plan nxt_agree_plan_of(uint64_t seed)
{
    static const uint32_t fanouts[] = {2, 2, 3, 4, 0};
    static const uint32_t delays[] = {1, 5, 50};
    nxt_rand r = {nxt_mix(seed)};
    nxt_agree_plan p = {.seed = seed};

    p.size = 2 + nxt_below(&r, NXT_AGREE_RANKS - 1);
    p.fanout = fanouts[nxt_below(&r, 5)];
    p.instances = 1 + nxt_below(&r, NXT_AGREE_INSTANCES);
    p.quorum = nxt_one_in(&r, 2) ? NX_QUORUM_MAJORITY : NX_QUORUM_NONE;
    p.early = (p.quorum == NX_QUORUM_NONE) && nxt_one_in(&r, 2);
    p.ordered = nxt_one_in(&r, 2);
    p.twice = nxt_one_in(&r, 4);
    p.delay = delays[nxt_below(&r, 3)];
    p.detection = 1 + nxt_below(&r, 300);
    p.crashes = nxt_one_in(&r, 8) ? 0 : nxt_below(&r, 1 + (nxt_one_in(&r, 3) ? p.size : 3));
    p.pauses = nxt_below(&r, 3);
    p.suspicions = nxt_one_in(&r, 4) ? 1 + nxt_below(&r, 4) : 0;
    p.partition = nxt_one_in(&r, 5);
    p.uniform = (p.quorum == NX_QUORUM_MAJORITY) || (!p.early && (p.suspicions == 0));
    p.departs = !p.early && nxt_one_in(&r, 2);
    p.hearsay = p.departs && p.uniform && nxt_one_in(&r, 4);
    p.quits = nxt_one_in(&r, 6);
    return p;
}

void nxt_agree_plan_print(const nxt_agree_plan *p)
{
    printf("seed %" PRIu64 ": %u ranks, fan-out %u, %u instances, quorum %s%s%s%s, delay %u, "
           "detection %u, %u crashes, %u pauses, %u suspicions%s%s%s%s, fault %d\n",
           p->seed, p->size, p->fanout, p->instances,
           (p->quorum == NX_QUORUM_NONE) ? "none" : "majority", p->early ? ", early" : "",
           p->ordered ? ", ordered" : "", p->twice ? ", twice" : "", p->delay, p->detection,
           p->crashes, p->pauses, p->suspicions, p->partition ? ", a partition" : "",
           p->departs ? ", leavers go" : "", p->hearsay ? ", hearsay" : "",
           p->quits ? ", some go on their own" : "", (int)p->fault);
}
