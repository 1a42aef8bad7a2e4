/*
 * commit_test.c - confirmed operations: the machine alone, and ranks that fail at any step, over
 * many seeds, with the agreement that decides which operations count.
 *
 *     commit_test           20 000 seeds, and each fault is found
 *
 * NXT_LONG makes it 500 000 seeds; NXT_SEED is the first seed.
 */
#include "commit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/consensus/consensus.h"
#include "rand.h"
#include "unit.h"

enum { RANKS = 9, OPS = 6, EPOCHS = RANKS + 1, FRAME = 256, MESSAGES = 8192 };
enum { SEEDS = 20000, LONG_SEEDS = 500000, FAULT_SEEDS = 20000 };

/* Injected faults. */
typedef enum fault {
    FAULT_NONE,
    FAULT_NO_CONFIRM, /* a rank returns with its own result */
    FAULT_NO_FREEZE,  /* it continues after it has frozen */
    FAULT_HIGHEST,    /* an operation counts if any rank has its result */
    FAULT_ALWAYS,     /* no operation counts: all are repeated */
    FAULT_EARLY_HOLD, /* it enters before it has the result */
    FAULTS
} fault;

typedef struct sim sim;

/* A communicator on one rank. */
typedef struct comm {
    sim *sim;
    uint32_t rank, epoch; /* its rank */
    bool made, begun, over;
    nx_consensus *agree;
    nx_commit confirm;
    uint64_t keep;
    uint32_t failed; /* ranks of the world, as bits */
} comm;

typedef enum phase { IDLE, RUNNING, HELD, BROKEN } phase;

typedef struct rank {
    bool alive;
    int sends_left; /* steps until it fails; -1: it does not */
    uint32_t dead;  /* ranks that it knows as failed */
    comm comms[EPOCHS];
    uint32_t at; /* the communicator of its application */
    phase phase;
    bool entered;     /* the interrupted operation */
    uint32_t done;    /* operations */
    uint32_t by[OPS]; /* the contributing ranks of each */
} rank;

typedef struct message {
    uint32_t from, to, epoch;
    uint8_t data[FRAME];
    size_t len;
} message;

struct sim {
    nxt_rand rand;
    fault fault;
    uint32_t size, ops, root_kinds;
    rank ranks[RANKS];
    uint32_t members[EPOCHS];          /* of each communicator, as bits */
    uint32_t started[EPOCHS][OPS + 1]; /* ranks that have begun an operation, by its number there */
    message messages[MESSAGES];
    size_t nmessages;
    char bad[128];
};

/* ---- helpers ------------------------------------------------------------------------- */

static void complain(sim *s, const char *what, uint32_t who, uint32_t op)
{
    if (s->bad[0] == '\0') {
        (void)snprintf(s->bad, sizeof(s->bad), "%s: rank %u, operation %u", what, who, op);
    }
}

/* The |index|-th rank of |set|, and the reverse. */
static uint32_t nth(uint32_t set, uint32_t index)
{
    for (; index > 0; index--) {
        set &= set - 1;
    }
    return (uint32_t)__builtin_ctz(set);
}

static uint32_t index_in(uint32_t set, uint32_t who)
{
    return (uint32_t)__builtin_popcount(set & ((UINT32_C(1) << who) - 1));
}

static void die(sim *s, uint32_t who)
{
    s->ranks[who].alive = false;
}

static void send_frame(void *ctx, uint32_t to, const void *frame, size_t len)
{
    const comm *c = ctx;
    sim *s = c->sim;
    rank *r = &s->ranks[c->rank];
    message *m;

    if (!r->alive) {
        return;
    }
    if (r->sends_left == 0) {
        die(s, c->rank);
        return;
    }
    r->sends_left -= (r->sends_left > 0);
    if ((s->nmessages == MESSAGES) || (len > FRAME)) {
        complain(s, "too many messages", c->rank, 0);
        return;
    }
    m = &s->messages[s->nmessages++];
    m->from = c->rank;
    m->to = nth(s->members[c->epoch], to);
    m->epoch = c->epoch;
    m->len = len;
    memcpy(m->data, frame, len);
}

/* ---- communicators ------------------------------------------------------------------- */

static void begin(comm *c)
{
    sim *s = c->sim;
    nx_consensus_input input = {0};

    if (!c->made || c->begun || !s->ranks[c->rank].alive) {
        return;
    }
    c->begun = true;
    nx_commit_freeze(&c->confirm, &input.flags, &input.highest);
    c->confirm.frozen = (s->fault != FAULT_NO_FREEZE);
    if (s->fault == FAULT_HIGHEST) {
        input.highest = c->confirm.entered;
    }
    (void)!nx_consensus_start(c->agree, &input);
}

static void make(sim *s, uint32_t who, uint32_t epoch);

static void on_decided(void *ctx, uint64_t seq, const nx_consensus_value *value)
{
    comm *c = ctx;
    sim *s = c->sim;
    uint32_t errs;

    (void)seq;
    nx_commit_decide(value->flags, value->highest, &c->keep, &errs);
    if (s->fault == FAULT_HIGHEST) {
        c->keep = value->highest;
    } else if (s->fault == FAULT_ALWAYS) {
        c->keep = 0;
    }
    c->failed = 0;
    for (uint32_t i = 0; (i = nx_rankset_next(&value->failed, i)) < value->failed.n; i++) {
        c->failed |= UINT32_C(1) << nth(s->members[c->epoch], i);
    }
    c->over = true;
}

static void on_learned(void *ctx, uint32_t index)
{
    const comm *c = ctx;
    sim *s = c->sim;

    /* Its own detector reports it, too. */
    (void)s;
    (void)index;
}

static void on_ended(void *ctx, nexar_err err, const char *why)
{
    (void)ctx;
    (void)err;
    (void)why;
}

static void on_forgotten(void *ctx)
{
    (void)ctx;
}

static const nx_consensus_ops agree_ops = {.send = send_frame,
                                           .decided = on_decided,
                                           .learned = on_learned,
                                           .ended = on_ended,
                                           .forgotten = on_forgotten};

static void tell_dead(sim *s, uint32_t who, comm *c)
{
    const uint32_t dead = s->ranks[who].dead & s->members[c->epoch];

    for (uint32_t other = 0; other < s->size; other++) {
        if ((dead >> other) & 1) {
            nx_consensus_failed(c->agree, index_in(s->members[c->epoch], other));
        }
    }
    if (dead != 0) {
        begin(c);
    }
}

/* |who| has communicator |epoch| from now on. */
static void make(sim *s, uint32_t who, uint32_t epoch)
{
    comm *c = &s->ranks[who].comms[epoch];
    const nx_consensus_config config = {.comm = epoch,
                                        .size = (uint32_t)__builtin_popcount(s->members[epoch]),
                                        .self = index_in(s->members[epoch], who),
                                        .payload_max = 0};

    c->sim = s;
    c->rank = who;
    c->epoch = epoch;
    assert_int_equal(nx_consensus_create(&c->agree, &config, &agree_ops, c), NEXAR_OK);
    nx_commit_init(&c->confirm, epoch, config.size, config.self);
    c->made = true;
    tell_dead(s, who, c);
}

/* Handles the consequences of a decision; not from inside its callback. */
static void go_further(sim *s, uint32_t who)
{
    for (uint32_t e = 0; e + 1 < EPOCHS; e++) {
        const comm *c = &s->ranks[who].comms[e];
        const uint32_t members = s->members[e] & ~c->failed;

        if (c->over && !s->ranks[who].comms[e + 1].made && s->ranks[who].alive) {
            if ((s->members[e + 1] != 0) && (s->members[e + 1] != members)) {
                complain(s, "other members", who, e + 1);
            }
            s->members[e + 1] = members;
            make(s, who, e + 1);
        }
    }
}

/* ---- applications -------------------------------------------------------------------- */

static void finish(sim *s, uint32_t who)
{
    rank *r = &s->ranks[who];

    r->by[r->done++] = s->members[r->at];
    r->phase = IDLE;
}

/* Whether the operation that |r| is in can give it its result. */
static bool has_all(const sim *s, const rank *r)
{
    const uint32_t there = s->started[r->at][r->comms[r->at].confirm.entered + 1];
    const uint32_t members = s->members[r->at];

    if (((s->root_kinds >> r->done) & 1) != 0) { /* from one to all */
        return ((there >> nth(members, 0)) & 1) != 0;
    }
    return (there & members) == members;
}

/* The agreement on the communicator of |r| is decided. */
static void recover(sim *s, uint32_t who)
{
    rank *r = &s->ranks[who];
    const comm *c = &r->comms[r->at];
    const uint64_t number = c->confirm.entered + (r->entered ? 0 : 1);

    if (number <= c->keep) {
        finish(s, who);
    } else {
        r->at++;
        r->phase = IDLE;
    }
    r->entered = false;
}

/* One step of the application of |who|; false: it cannot do anything. */
static bool step(sim *s, uint32_t who)
{
    rank *r = &s->ranks[who];
    comm *c = &r->comms[r->at];

    switch (r->phase) {
    case IDLE:
        if ((r->done == s->ops) || !c->made) {
            return false;
        }
        r->phase = c->begun ? BROKEN : RUNNING;
        if (!c->begun) {
            s->started[r->at][c->confirm.entered + 1] |= UINT32_C(1) << who;
        }
        return true;
    case RUNNING:
        if (c->begun && ((s->fault != FAULT_NO_FREEZE) || !has_all(s, r))) {
            r->phase = BROKEN;
        } else if (has_all(s, r) || (s->fault == FAULT_EARLY_HOLD)) {
            r->phase = HELD;
            nx_commit_enter(&c->confirm, 0, send_frame, c);
        } else {
            return false;
        }
        return true;
    case HELD:
        if (nx_commit_returned(&c->confirm) || (s->fault == FAULT_NO_CONFIRM)) {
            if ((s->fault == FAULT_EARLY_HOLD) && !has_all(s, r)) {
                complain(s, "returns without a result", who, r->done);
            }
            finish(s, who);
        } else if ((s->fault == FAULT_NO_FREEZE) ? c->over : c->begun) {
            r->phase = BROKEN;
            r->entered = true;
        } else {
            return false;
        }
        return true;
    case BROKEN:
        if (!c->over) {
            return false;
        }
        recover(s, who);
        return true;
    }
    return false;
}

/* ---- events -------------------------------------------------------------------------- */

static void deliver(sim *s, size_t which)
{
    const message m = s->messages[which];
    rank *r = &s->ranks[m.to];
    comm *c = &r->comms[m.epoch];
    const uint32_t from = index_in(s->members[m.epoch], m.from);

    if (r->alive && !c->made) {
        return; /* kept until the communicator exists here */
    }
    s->messages[which] = s->messages[--s->nmessages];
    if (!r->alive || ((r->dead >> m.from) & 1)) {
        return;
    }
    if (m.data[0] == 64 + 6) {
        (void)!nx_consensus_frame(c->agree, from, m.data, m.len);
    } else if (nx_commit_frame(&c->confirm, from, m.data, m.len, send_frame, c) != NEXAR_OK) {
        complain(s, "a frame was not taken", m.to, (uint32_t)m.epoch);
    }
}

/* |who| detects that |other| has failed. */
static void detect(sim *s, uint32_t who, uint32_t other)
{
    rank *r = &s->ranks[who];

    r->dead |= UINT32_C(1) << other;
    for (uint32_t e = 0; e < EPOCHS; e++) {
        if (r->comms[e].made) {
            tell_dead(s, who, &r->comms[e]);
        }
    }
}

static bool step_any(sim *s, uint32_t offset)
{
    for (uint32_t i = 0; i < s->size; i++) {
        const uint32_t who = (i + offset) % s->size;

        if (s->ranks[who].alive && step(s, who)) {
            return true;
        }
    }
    return false;
}

static bool detect_any(sim *s, uint32_t offset)
{
    for (uint32_t other = 0; other < s->size; other++) {
        for (uint32_t i = 0; !s->ranks[other].alive && (i < s->size); i++) {
            const uint32_t who = (i + offset) % s->size;

            if (s->ranks[who].alive && (((s->ranks[who].dead >> other) & 1) == 0)) {
                detect(s, who, other);
                return true;
            }
        }
    }
    return false;
}

/* One random event; false: none is possible any more. */
static bool event(sim *s)
{
    const uint32_t offset = nxt_below(&s->rand, s->size);
    const bool detects = nxt_one_in(&s->rand, 8);

    if ((s->nmessages > 0) && !nxt_one_in(&s->rand, 3)) {
        deliver(s, nxt_below(&s->rand, s->nmessages));
        return true;
    }
    if ((detects && detect_any(s, offset)) || step_any(s, offset) || detect_any(s, offset)) {
        return true;
    }
    if (s->nmessages > 0) {
        deliver(s, nxt_below(&s->rand, s->nmessages));
        return true;
    }
    return false;
}

/* ---- a run --------------------------------------------------------------------------- */

static void check(sim *s)
{
    uint32_t by[OPS] = {0};

    for (uint32_t who = 0; who < s->size; who++) {
        const rank *r = &s->ranks[who];

        if (r->alive && (r->done < s->ops)) {
            complain(s, "hangs", who, r->done);
        }
        for (uint32_t op = 0; op < r->done; op++) { /* including failed ranks */
            if ((by[op] != 0) && (by[op] != r->by[op])) {
                complain(s, "other contributions", who, op);
            }
            by[op] = r->by[op];
        }
    }
}

static void fini(sim *s)
{
    for (uint32_t who = 0; who < s->size; who++) {
        for (uint32_t e = 0; e < EPOCHS; e++) {
            nx_consensus_destroy(s->ranks[who].comms[e].agree);
        }
    }
}

/* Runs |seed|; returns the number of ranks that failed. */
static uint32_t run(sim *s, uint64_t seed, fault how)
{
    uint32_t deaths, died = 0;

    memset(s, 0, sizeof(*s));
    s->rand.state = nxt_mix(seed + 1);
    s->fault = how;
    s->size = 2 + nxt_below(&s->rand, RANKS - 1);
    s->ops = 1 + nxt_below(&s->rand, OPS);
    s->root_kinds = nxt_below(&s->rand, UINT32_C(1) << OPS);
    s->members[0] = (UINT32_C(1) << s->size) - 1;
    for (uint32_t who = 0; who < s->size; who++) {
        s->ranks[who].alive = true;
        s->ranks[who].sends_left = -1;
        make(s, who, 0);
    }
    deaths = nxt_below(&s->rand, s->size);
    for (uint32_t i = 0; i < deaths; i++) {
        s->ranks[nxt_below(&s->rand, s->size)].sends_left =
            (int)nxt_below(&s->rand, 1 + 4 * s->ops);
    }
    s->ranks[nxt_below(&s->rand, s->size)].sends_left = -1; /* one rank is left */
    for (int i = 0; event(s) && (s->bad[0] == '\0'); i++) {
        for (uint32_t who = 0; who < s->size; who++) {
            go_further(s, who);
        }
        if (i > 1000000) {
            complain(s, "no end", 0, 0);
        }
    }
    check(s);
    for (uint32_t who = 0; who < s->size; who++) {
        died += !s->ranks[who].alive;
    }
    fini(s);
    return died;
}

/* ---- tests --------------------------------------------------------------------------- */

static uint64_t from_env(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name); /* NOLINT(concurrency-mt-unsafe) */

    return (text == NULL) ? otherwise : strtoull(text, NULL, 10);
}

static void test_all_have_the_same_contributions(void **state)
{
    const bool many = (getenv("NXT_LONG") != NULL); /* NOLINT(concurrency-mt-unsafe) */
    const uint64_t first = from_env("NXT_SEED", 0);
    uint64_t died = 0, rebuilt = 0;
    sim *s = malloc(sizeof(*s));

    (void)state;
    assert_non_null(s);
    for (uint64_t seed = first; seed < first + (many ? LONG_SEEDS : SEEDS); seed++) {
        died += run(s, seed, FAULT_NONE);
        if (s->bad[0] != '\0') {
            fail_msg("seed %" PRIu64 ": %s", seed, s->bad);
        }
        for (uint32_t e = 1; e < EPOCHS; e++) {
            rebuilt += (s->members[e] != 0);
        }
    }
    printf("%" PRIu64 " ranks died, %" PRIu64 " communicators were rebuilt\n", died, rebuilt);
    free(s);
}

static void test_every_fault_is_noticed(void **state)
{
    sim *s = malloc(sizeof(*s));

    (void)state;
    assert_non_null(s);
    for (int how = FAULT_NONE + 1; how < FAULTS; how++) {
        uint64_t seed = 0;

        do {
            (void)run(s, seed, (fault)how);
        } while ((s->bad[0] == '\0') && (++seed < FAULT_SEEDS));
        printf("fault %d is noticed after %" PRIu64 " seeds: %s\n", how, seed + 1, s->bad);
        assert_true(s->bad[0] != '\0');
    }
    free(s);
}

typedef struct wire {
    uint32_t to[64];
    uint8_t frames[64][NX_COMMIT_FRAME_MAX];
    size_t lens[64], n;
} wire;

static void put(void *ctx, uint32_t to, const void *frame, size_t len)
{
    wire *w = ctx;

    w->to[w->n] = to;
    w->lens[w->n] = len;
    memcpy(w->frames[w->n++], frame, len);
}

/* All return when all have entered, with the errors of all ranks. */
static void test_errors_reach_all(void **state)
{
    enum { N = 5 };
    nx_commit c[N];
    wire w = {.n = 0};
    uint32_t from[64] = {0};

    (void)state;
    for (uint32_t i = 0; i < N; i++) {
        nx_commit_init(&c[i], 7, N, i);
    }
    for (uint32_t i = 0; i < N; i++) {
        const size_t before = w.n;

        nx_commit_enter(&c[i], (i == 3) ? nx_commit_bits(NEXAR_ETIMEDOUT) : 0, put, &w);
        for (size_t k = before; k < w.n; k++) {
            from[k] = i;
        }
        assert_false(nx_commit_returned(&c[i]));
    }
    for (size_t at = 0; at < w.n; at++) {
        const uint32_t to = w.to[at];
        const size_t before = w.n;
        uint64_t id = 0;

        assert_int_equal(nx_commit_frame_comm(w.frames[at], w.lens[at], &id), NEXAR_OK);
        assert_int_equal(id, 7);
        assert_int_equal(nx_commit_frame(&c[to], from[at], w.frames[at], w.lens[at], put, &w),
                         NEXAR_OK);
        for (size_t k = before; k < w.n; k++) {
            from[k] = to;
        }
    }
    for (uint32_t i = 0; i < N; i++) {
        assert_true(nx_commit_returned(&c[i]));
        assert_int_equal(nx_commit_error(nx_commit_errs(&c[i])), NEXAR_ETIMEDOUT);
    }
}

static void test_what_no_rank_sends_is_refused(void **state)
{
    nx_commit c, other;
    wire w = {.n = 0};

    (void)state;
    nx_commit_init(&c, 1, 4, 0);
    nx_commit_init(&other, 1, 4, 3);
    nx_commit_enter(&other, 0, put, &w);
    assert_int_equal(w.to[0], 0);
    assert_int_equal(nx_commit_frame(&c, 2, w.frames[0], w.lens[0], put, &w), NEXAR_EPROTO);
    assert_int_equal(nx_commit_frame(&c, 9, w.frames[0], w.lens[0], put, &w), NEXAR_EPROTO);
    for (size_t len = 0; len < w.lens[0]; len++) {
        assert_int_equal(nx_commit_frame(&c, 3, w.frames[0], len, put, &w), NEXAR_EPROTO);
    }
    for (unsigned bit = 0; bit < 32; bit++) { /* none of them, or all: an error that there is */
        const bool known = (bit > 0) && (bit <= (unsigned)-NEXAR_EINTERNAL);
        uint8_t *errs = w.frames[0] + w.lens[0] - 4;

        errs[3 - bit / 8] = (uint8_t)(1U << (bit % 8));
        assert_int_equal(nx_commit_frame(&other, 2, w.frames[0], w.lens[0], put, &w),
                         known ? NEXAR_OK : NEXAR_EPROTO);
        errs[3 - bit / 8] = 0;
    }
    other.pending = false;
    nx_commit_enter(&other, 0, put, &w);
    assert_int_equal(nx_commit_frame(&c, 3, w.frames[1], w.lens[1], put, &w), NEXAR_EPROTO);
    assert_int_equal(nx_commit_frame(&c, 3, w.frames[0], w.lens[0], put, &w), NEXAR_OK);
}

/* Ranks that have entered two and three operations: two counts, with the errors received so far. */
static void test_the_decision_is_what_all_have(void **state)
{
    nx_commit a = {.size = 2, .entered = 2, .pending = true, .errs = {0, 0}};
    nx_commit b = {.size = 2, .entered = 3, .pending = true, .before = 8, .errs = {0, 2}};
    uint64_t flags[2], highest[2], keep = 0;
    uint32_t errs = 0;

    (void)state;
    nx_commit_freeze(&a, &flags[0], &highest[0]);
    nx_commit_freeze(&b, &flags[1], &highest[1]);
    nx_commit_decide(flags[0] & flags[1], (highest[0] > highest[1]) ? highest[0] : highest[1],
                     &keep, &errs);
    assert_int_equal(keep, 2);
    assert_int_equal(errs, 8);
    assert_true(a.frozen && b.frozen);
    assert_int_equal(nx_commit_error(0), NEXAR_OK);
    assert_int_equal(
        nx_commit_error(nx_commit_bits(NEXAR_ENOMEM) | nx_commit_bits(NEXAR_EMISMATCH)),
        NEXAR_EMISMATCH);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_errors_reach_all),
        cmocka_unit_test(test_what_no_rank_sends_is_refused),
        cmocka_unit_test(test_the_decision_is_what_all_have),
        cmocka_unit_test(test_all_have_the_same_contributions),
        cmocka_unit_test(test_every_fault_is_noticed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
