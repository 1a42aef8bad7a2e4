/*
 * creation_sim_test.c - communicators created from lists, by the machine alone.
 *
 * Ranks call along random plans: several tags at once, lists that share ranks, the same list again.
 * Frames of a link keep their order; apart from that every event comes at random.  Calls time
 * out and ranks fail at any time.  `creation_sim_test SEED` prints the events of one plan.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/creation/creation.h"
#include "rand.h"
#include "unit.h"

enum { RANKS = 5, TAGS = 3, CALLS = 4, SEEDS = 20000, PARENT = 9, FRAMES = 512 };

typedef struct list {
    uint32_t n, slots[RANKS];
} list;

typedef struct letter {
    size_t len; /* 0: the sender has failed */
    uint8_t data[NX_CREATION_FRAME_MAX];
} letter;

typedef struct line {
    letter *letters[FRAMES];
    uint32_t head, tail;
} line;

/* One thread of one rank: it makes the calls of its tag, one after the other. */
typedef struct caller {
    nx_creation c;
    bool in;
    uint32_t at; /* the call: an index over all calls of the tag */
    nx_creation_state state[CALLS];
    nexar_err err[CALLS];
    uint32_t id[CALLS];
} caller;

typedef struct sim {
    nxt_rand rand;
    bool trace;
    list lists[TAGS][CALLS];
    struct node {
        struct sim *sim;
        uint32_t self, ids;
        bool dead, told[RANKS];
        nx_early *early;
        nx_creations *cs;
        caller callers[TAGS];
        uint32_t dropped[TAGS * CALLS * RANKS];
        uint32_t ndropped;
    } nodes[RANKS];
    line lines[RANKS][RANKS];
    uint32_t deaths, timeouts;
} sim;

static void post(sim *s, uint32_t from, uint32_t to, const void *data, size_t len)
{
    line *l = &s->lines[from][to];
    letter *m = calloc(1, sizeof(*m));

    assert_non_null(m);
    assert_true(l->tail - l->head < FRAMES);
    m->len = len;
    if (len > 0) {
        memcpy(m->data, data, len);
    }
    l->letters[l->tail++ % FRAMES] = m;
}

static void send_frame(void *ctx, uint32_t to, bool vouch, const void *frame, size_t len)
{
    struct node *n = ctx;

    (void)vouch;
    assert_true(len > 0);
    assert_int_not_equal(to, n->self);
    if (n->sim->trace) {
        nx_creation_frame f;

        assert_int_equal(nx_creation_decode(frame, len, &f), NEXAR_OK);
        printf("%u -> %u: form %u, tag %u, list %04x\n", n->self, to, (unsigned)f.form,
               (unsigned)f.key.tag, (unsigned)f.key.print & 0xffff);
    }
    post(n->sim, n->self, to, frame, len);
}

static void changed(void *ctx, nx_creation *c)
{
    (void)ctx;
    (void)c;
}

/* The communicator of |key| that this rank has. */
static void lacks(void *ctx, uint32_t from, const nx_creation_key *key)
{
    struct node *n = ctx;
    const caller *p = &n->callers[key->tag];

    for (uint32_t i = p->at; i-- > 0;) {
        const list *l = &n->sim->lists[key->tag][i];

        if ((p->state[i] == NX_CREATION_MADE) &&
            (nx_creation_print(l->slots, l->n) == key->print)) {
            const nx_creation_frame f = {.form = NX_CREATION_HAVE,
                                         .key = *key,
                                         .id = p->id[i],
                                         .n = l->n,
                                         .slots = l->slots};
            uint8_t buf[NX_CREATION_FRAME_MAX];

            send_frame(n, from, false, buf, nx_creation_encode(&f, buf, sizeof(buf)));
            return;
        }
    }
}

static void have(void *ctx, const nx_creation_frame *f)
{
    struct node *n = ctx;
    uint32_t slots[RANKS];

    assert_true(f->n <= RANKS);
    nx_creation_members(f, slots);
    if (n->ndropped < TAGS * CALLS * RANKS) {
        n->dropped[n->ndropped++] = f->id;
    }
}

static const char *name(void *ctx, uint32_t slot, char *buf)
{
    (void)ctx;
    (void)snprintf(buf, NX_CREATION_PEER, "rank %" PRIu32, slot);
    return buf;
}

static const nx_creation_ops ops = {
    .send = send_frame, .changed = changed, .lacks = lacks, .have = have, .name = name};

/* ---- plans ------------------------------------------------------------------------------ */

static void plan_list(sim *s, list *l)
{
    uint32_t order[RANKS] = {0};

    for (uint32_t i = 0; i < RANKS; i++) {
        const uint32_t k = nxt_below(&s->rand, i + 1);

        order[i] = order[k];
        order[k] = i;
    }
    l->n = 1 + nxt_below(&s->rand, RANKS);
    memcpy(l->slots, order, l->n * sizeof(l->slots[0]));
}

static bool lists(const list *l, uint32_t slot)
{
    for (uint32_t i = 0; i < l->n; i++) {
        if (l->slots[i] == slot) {
            return true;
        }
    }
    return false;
}

static void start(sim *s, uint64_t seed, bool trace)
{
    memset(s, 0, sizeof(*s));
    s->rand.state = seed;
    s->trace = trace;
    for (uint32_t t = 0; t < TAGS; t++) {
        for (uint32_t i = 0; i < CALLS; i++) {
            plan_list(s, &s->lists[t][i]);
            if ((i > 0) && nxt_one_in(&s->rand, 3)) {
                s->lists[t][i] = s->lists[t][i - 1];
            }
        }
    }
    for (uint32_t r = 0; r < RANKS; r++) {
        s->nodes[r].sim = s;
        s->nodes[r].self = r;
        assert_int_equal(nx_early_create(&s->nodes[r].early), NEXAR_OK);
        assert_int_equal(
            nx_creations_create(&s->nodes[r].cs, r, s->nodes[r].early, &ops, &s->nodes[r]),
            NEXAR_OK);
    }
    s->deaths = nxt_one_in(&s->rand, 2) ? nxt_below(&s->rand, RANKS) : 0;
    s->timeouts = nxt_one_in(&s->rand, 2) ? nxt_below(&s->rand, 6) : 0;
}

static void stop(sim *s)
{
    for (uint32_t r = 0; r < RANKS; r++) {
        for (uint32_t t = 0; t < TAGS; t++) {
            if (s->nodes[r].callers[t].in) {
                nx_creation_end(s->nodes[r].cs, &s->nodes[r].callers[t].c);
            }
        }
        nx_creations_destroy(s->nodes[r].cs);
        nx_early_destroy(s->nodes[r].early);
        for (uint32_t to = 0; to < RANKS; to++) {
            line *l = &s->lines[r][to];

            while (l->head != l->tail) {
                free(l->letters[l->head++ % FRAMES]);
            }
        }
    }
}

/* ---- events ----------------------------------------------------------------------------- */

/* The application has its outcome. */
static void end_call(struct node *n, caller *p)
{
    if (n->sim->trace) {
        printf("%u has call %u of tag %u: %d %d\n", n->self, p->at, (unsigned)p->c.tag, p->c.state,
               p->c.err);
    }
    p->state[p->at] = p->c.state;
    p->err[p->at] = p->c.err;
    p->id[p->at] = p->c.id;
    nx_creation_end(n->cs, &p->c);
    p->in = false;
    p->at++;
}

static bool step_caller(sim *s, struct node *n, uint32_t t)
{
    caller *p = &n->callers[t];

    while (!p->in && (p->at < CALLS) && !lists(&s->lists[t][p->at], n->self)) {
        p->at++;
    }
    if (!p->in && (p->at < CALLS)) {
        const list *l = &s->lists[t][p->at];

        if (s->trace) {
            printf("%u calls %u of tag %u, list %04x\n", n->self, p->at, t,
                   (unsigned)nx_creation_print(l->slots, l->n) & 0xffff);
        }
        p->c = (nx_creation){.parent = PARENT, .tag = t, .slots = l->slots, .n = l->n};
        p->c.id = 1000 * (n->self + 1) + ++n->ids;
        p->in = true;
        assert_int_equal(nx_creation_start(n->cs, &p->c, 1), NEXAR_OK);
        for (uint32_t r = 0; r < RANKS; r++) { /* ranks that have failed already */
            if (n->told[r] && lists(l, r)) {
                nx_creations_gone(n->cs, r, "it is gone");
            }
        }
        return true;
    }
    if (p->in && (p->c.state == NX_CREATION_READY)) {
        nx_creation_commit(n->cs, &p->c, p->c.id);
    }
    if (p->in && (p->c.state != NX_CREATION_WAITS)) {
        end_call(n, p);
        return true;
    }
    if (p->in && (s->timeouts > 0) && nxt_one_in(&s->rand, 20)) {
        s->timeouts--;
        if (s->trace) {
            printf("%u times out in tag %u\n", n->self, t);
        }
        nx_creation_fail(n->cs, &p->c, NEXAR_ETIMEDOUT, "it takes too long");
        return true;
    }
    return false;
}

/* A failed rank has sent a part of its frames. */
static void die(sim *s, uint32_t r)
{
    if (s->trace) {
        printf("%u dies\n", r);
    }
    s->nodes[r].dead = true;
    s->deaths--;
    for (uint32_t to = 0; to < RANKS; to++) {
        line *l = &s->lines[r][to];

        for (uint32_t cut = nxt_below(&s->rand, l->tail - l->head + 1); cut > 0; cut--) {
            free(l->letters[--l->tail % FRAMES]);
        }
        if (to != r) {
            post(s, r, to, NULL, 0);
        }
    }
}

static bool deliver(sim *s, uint32_t from, uint32_t to)
{
    line *l = &s->lines[from][to];
    struct node *n = &s->nodes[to];
    letter *m;

    if (l->head == l->tail) {
        return false;
    }
    m = l->letters[l->head++ % FRAMES];
    if (!n->dead && !n->told[from]) {
        if (m->len == 0) {
            n->told[from] = true;
            nx_creations_gone(n->cs, from, "it is gone");
        } else {
            assert_int_equal(nx_creations_frame(n->cs, from, m->data, m->len, 1), NEXAR_OK);
        }
    }
    free(m);
    return true;
}

/* One event on any rank; false: none is left. */
static bool step(sim *s)
{
    const uint32_t first = nxt_below(&s->rand, RANKS * (RANKS + TAGS));

    if ((s->deaths > 0) && nxt_one_in(&s->rand, 60)) {
        const uint32_t r = nxt_below(&s->rand, RANKS);

        if (!s->nodes[r].dead) {
            die(s, r);
        }
    }
    for (uint32_t i = 0; i < RANKS * (RANKS + TAGS); i++) {
        const uint32_t k = (first + i) % (RANKS * (RANKS + TAGS));
        const uint32_t r = k / (RANKS + TAGS), what = k % (RANKS + TAGS);

        if ((what < RANKS) ? deliver(s, r, what)
                           : (!s->nodes[r].dead && step_caller(s, &s->nodes[r], what - RANKS))) {
            return true;
        }
    }
    return false;
}

/* ---- checks at the end ------------------------------------------------------------------ */

static bool has_dropped(const struct node *n, uint32_t id)
{
    for (uint32_t i = 0; i < n->ndropped; i++) {
        if (n->dropped[i] == id) {
            return true;
        }
    }
    return false;
}

/* All live members of call |i| of |t| have ended it, with one outcome while the leader lives.  If
 * only some have the communicator, the others were notified of it. */
static const char *check_call(const sim *s, uint32_t t, uint32_t i)
{
    const list *l = &s->lists[t][i];
    uint32_t leader = RANKS, made = 0, failed = 0, id = 0;
    bool death = false;

    for (uint32_t k = 0; k < l->n; k++) {
        const struct node *n = &s->nodes[l->slots[k]];
        const caller *p = &n->callers[t];

        leader = (l->slots[k] < leader) ? l->slots[k] : leader;
        death = death || n->dead;
        if (n->dead) {
            continue;
        }
        if (p->at <= i) {
            return "a call has not ended";
        }
        if (p->state[i] == NX_CREATION_MADE) {
            if ((made++ > 0) && (p->id[i] != id)) {
                return "two ids for one communicator";
            }
            id = p->id[i];
        } else {
            failed++;
        }
    }
    if ((made > 0) && (failed > 0) && !s->nodes[leader].dead) {
        return "the outcomes differ, and the leader lives";
    }
    for (uint32_t k = 0; (made > 0) && (failed > 0) && (k < l->n); k++) {
        const struct node *n = &s->nodes[l->slots[k]];

        if (!n->dead && (n->callers[t].state[i] != NX_CREATION_MADE) && !has_dropped(n, id)) {
            return "a rank lacks a communicator that others have, and does not know";
        }
    }
    return NULL;
}

static const char *run(uint64_t seed, bool trace, uint32_t *made)
{
    static sim s;
    const char *bad = NULL;
    bool quiet;

    start(&s, seed, trace);
    quiet = (s.deaths == 0) && (s.timeouts == 0);
    while (step(&s)) {
    }
    for (uint32_t t = 0; t < TAGS; t++) {
        for (uint32_t i = 0; (i < CALLS) && (bad == NULL); i++) {
            const caller *p = &s.nodes[s.lists[t][i].slots[0]].callers[t];

            bad = check_call(&s, t, i);
            *made += (p->state[i] == NX_CREATION_MADE);
            if ((bad == NULL) && quiet && (p->state[i] != NX_CREATION_MADE)) {
                bad = "it has failed without a reason";
            }
        }
    }
    stop(&s);
    return bad;
}

static void test_all_living_ranks_get_the_same_outcome(void **state)
{
    uint32_t made = 0;

    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        const char *bad = run(seed, false, &made);

        if (bad != NULL) {
            fail_msg("seed %" PRIu64 ": %s", seed, bad);
        }
    }
    printf("%u communicators made\n", made);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_living_ranks_get_the_same_outcome),
    };
    uint32_t made = 0;

    if (argc > 1) {
        const char *bad = run(strtoull(argv[1], NULL, 10), true, &made);

        printf("%s\n", (bad == NULL) ? "good" : bad);
        return bad != NULL;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
