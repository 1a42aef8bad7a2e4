/*
 * mutation_test.c - whether the suite detects mutants. Sealed schedules of every algorithm are
 * damaged in one place, and the simulator must detect the damage.
 *
 * Waits: each wait that matters is removed. A wait matters if without it two steps that share
 * memory are unordered along waits or messages. The other waits only limit the data in flight, or
 * follow from others, and are counted separately. First a few ordinary seeds try to detect the
 * mutant; then the step without its wait is delayed, which must reveal the fault.
 *
 * Blocks, peers, tags, lengths, kinds: every step is changed in each of the ways below.
 */
#include <stdio.h>
#include <string.h>

#include "rand.h"
#include "sched_plan.h"
#include "suite.h"
#include "unit.h"

enum { PLAIN_SEEDS = 8, HELD_SEEDS = 8 };

typedef enum mutation {
    OTHER_PEER,
    OTHER_ROUND,
    OTHER_SEGMENT,
    SWAPPED_TAGS,   /* with another message of equal length to or from that peer */
    SOURCE_SHIFTED, /* one element up or down */
    SOURCE_MOVED,   /* by its own length */
    SECOND_SHIFTED,
    TARGET_SHIFTED,
    TARGET_MOVED,
    SHORTER,
    OTHER_KIND,
    MUTATIONS
} mutation;

static const char *const names[MUTATIONS] = {
    [OTHER_PEER] = "another peer",
    [OTHER_ROUND] = "another round",
    [OTHER_SEGMENT] = "another segment",
    [SWAPPED_TAGS] = "tags swapped",
    [SOURCE_SHIFTED] = "source shifted",
    [SOURCE_MOVED] = "source in another block",
    [SECOND_SHIFTED] = "second source shifted",
    [TARGET_SHIFTED] = "target shifted",
    [TARGET_MOVED] = "target in another block",
    [SHORTER] = "one element less",
    [OTHER_KIND] = "another kind",
};

/* The results of the mutants of one kind. */
typedef struct score {
    uint32_t tried, caught;
} score;

static score scores[MUTATIONS];
static uint32_t idle_mutants;  /* of steps without effect */
static uint32_t equal_mutants; /* that compute the same differently */
static struct {
    uint32_t all, implied, limits; /* waits; not needed; only limits */
    uint32_t tried, plain, held;
} waits;

static nxt_trial trial_of(const nxt_world *w, uint64_t seed)
{
    return (nxt_trial){.dtype = NEXAR_I64,
                       .op = w->what.average ? NEXAR_AVG : NEXAR_SUM,
                       .data_seed = 17,
                       .seed = seed};
}

/* Whether one of |seeds| runs reveals a fault. */
static bool noticed_in_runs(nxt_world *w, uint32_t seeds)
{
    nxt_verdict v;

    for (uint32_t i = 0; i < seeds; i++) {
        nxt_trial t = trial_of(w, nxt_hash(3, i, w->what.seed));

        if (!nxt_world_run(w, &t, &v)) {
            return true;
        }
    }
    return (w->call.kind == NX_BARRIER) && !nxt_plan_synchronises(w->plan, &v);
}

/* Whether any check of the suite detects it. */
static bool noticed(nxt_world *w)
{
    nxt_verdict v;

    return !nxt_world_plan(w, &v) || !nxt_plan_ordered(w->plan, &v) ||
           noticed_in_runs(w, PLAIN_SEEDS);
}

/* ---- waits --------------------------------------------------------------------- */

static void drop_wait(nx_sched *s, uint32_t step, uint32_t nth)
{
    nx_step *st = &s->steps[step];
    nx_step_id *deps = s->deps + st->deps;

    memmove(deps + nth, deps + nth + 1, (st->ndeps - nth - 1) * sizeof(*deps));
    st->ndeps--;
}

static void restore_wait(nx_sched *s, uint32_t step, uint32_t nth, nx_step_id dep)
{
    nx_step *st = &s->steps[step];
    nx_step_id *deps = s->deps + st->deps;

    memmove(deps + nth + 1, deps + nth, (st->ndeps - nth) * sizeof(*deps));
    deps[nth] = dep;
    st->ndeps++;
}

static bool noticed_when_held(nxt_world *w, uint32_t rank, nx_step_id dep)
{
    nxt_verdict v;

    for (uint32_t i = 0; i < HELD_SEEDS; i++) {
        nxt_trial t = trial_of(w, nxt_hash(4, i, w->what.seed));

        t.hold = true;
        t.hold_rank = rank;
        t.hold_step = dep;
        if (!nxt_world_run(w, &t, &v)) {
            return true;
        }
    }
    return false;
}

/* The wait is removed: does it matter, and is the removal detected? */
static void judge_wait(nxt_world *w, uint32_t rank, uint32_t step, nx_step_id dep)
{
    nxt_verdict v;
    char text[300];

    if (!nxt_world_plan(w, &v)) {
        fail_msg("a schedule with a wait less is still one: %s", v.text);
    }
    bool barrier = (w->call.kind == NX_BARRIER);

    if (barrier ? nxt_plan_synchronises(w->plan, &v) : nxt_plan_ordered(w->plan, &v)) {
        waits.limits++;
        return;
    }
    waits.tried++;
    if (noticed_in_runs(w, PLAIN_SEEDS)) {
        waits.plain++;
    } else if (noticed_when_held(w, rank, dep)) {
        waits.held++;
    } else {
        nxt_case_text(&w->what, text, sizeof(text));
        printf("not noticed: %s: rank %u step %u without its wait for %u\n", text, rank, step, dep);
    }
}

static void mutate_waits(nxt_world *w, uint32_t rank, uint32_t step)
{
    nx_sched *s = &w->scheds[rank];
    nxt_verdict v;

    for (uint32_t nth = 0; nth < s->steps[step].ndeps; nth++) {
        nx_step_id dep = s->deps[s->steps[step].deps + nth];

        waits.all++;
        if (!nxt_world_plan(w, &v)) {
            fail_msg("the schedule was not restored: %s", v.text);
        }
        if (!nxt_plan_wait_needed(w->plan, rank, step, nth)) {
            waits.implied++;
            continue;
        }
        drop_wait(s, step, nth);
        judge_wait(w, rank, step, dep);
        restore_wait(s, step, nth, dep);
    }
}

/* ---- steps ---------------------------------------------------------------------- */

/* Moves |ref| by |by| elements, up or otherwise down, where there is room; returns whether there
 * was. */
static bool move_ref(const nxt_world *w, uint32_t rank, nx_ref *ref, size_t by, size_t len)
{
    const size_t rooms[NX_SPACES] = {w->call.send_len[rank], w->call.recv_len[rank],
                                     w->scheds[rank].scratch};

    if (ref->off + by + len <= rooms[ref->space]) {
        *ref = nx_at((nx_space)ref->space, ref->off + by);
        return true;
    }
    if (ref->off >= by) {
        *ref = nx_at((nx_space)ref->space, ref->off - by);
        return true;
    }
    return false;
}

/* Another message of |step|'s direction, peer and length; NULL if there is none. */
static nx_step *find_twin(nx_sched *s, const nx_step *step)
{
    for (uint32_t i = 0; i < s->nsteps; i++) {
        nx_step *o = &s->steps[i];

        if ((o != step) && (o->kind == step->kind) && (o->peer == step->peer) &&
            (o->len == step->len)) {
            return o;
        }
    }
    return NULL;
}

static bool swap_tags(nx_sched *s, nx_step *st)
{
    nx_step *twin = nxt_is_message(st) ? find_twin(s, st) : NULL;

    if (twin == NULL) {
        return false;
    }
    uint32_t round = st->round;
    uint32_t segment = st->segment;

    st->round = twin->round;
    st->segment = twin->segment;
    twin->round = round;
    twin->segment = segment;
    return true;
}

static bool change_kind(nx_step *st)
{
    static const uint8_t others[NX_STEP_KINDS] = {
        [NX_STEP_SEND] = NX_STEP_SEND,        [NX_STEP_RECV] = NX_STEP_RECV_REDUCE,
        [NX_STEP_RECV_REDUCE] = NX_STEP_RECV, [NX_STEP_COPY] = NX_STEP_FILL,
        [NX_STEP_REDUCE] = NX_STEP_COPY,      [NX_STEP_FILL] = NX_STEP_DIVIDE,
        [NX_STEP_DIVIDE] = NX_STEP_FILL,      [NX_STEP_CALL] = NX_STEP_CALL,
    };
    uint8_t other = others[st->kind];

    if (st->kind == NX_STEP_RECV) {
        st->a = st->dst;
    }
    bool changed = (other != st->kind);

    st->kind = other;
    return changed;
}

/* Applies |m|; false where it is impossible or has no effect. */
static bool mutate(nxt_world *w, uint32_t rank, nx_step *st, mutation m)
{
    const nxt_refs refs = nxt_step_refs(st);
    const bool message = nxt_is_message(st);
    const bool some = (st->len > 0);
    const bool reads_a =
        (refs.reads > 0) && (st->kind != NX_STEP_DIVIDE) && (st->kind != NX_STEP_CALL);

    switch (m) {
    case OTHER_PEER:
        st->peer = (st->peer + 1 == rank) ? st->peer + 2 : st->peer + 1;
        st->peer %= w->call.size;
        return message && (w->call.size > 2) && (st->peer != rank);
    case OTHER_ROUND:
        st->round++;
        return message;
    case OTHER_SEGMENT:
        st->segment++;
        return message;
    case SWAPPED_TAGS:
        return some && swap_tags(&w->scheds[rank], st);
    case SOURCE_SHIFTED:
        return some && reads_a && move_ref(w, rank, &st->a, 1, st->len);
    case SOURCE_MOVED:
        return some && reads_a && move_ref(w, rank, &st->a, st->len, st->len);
    case SECOND_SHIFTED:
        return some && (refs.reads == 2) && move_ref(w, rank, &st->b, 1, st->len);
    case TARGET_SHIFTED:
        return some && refs.writes && move_ref(w, rank, &st->dst, 1, st->len);
    case TARGET_MOVED:
        return some && refs.writes && move_ref(w, rank, &st->dst, st->len, st->len);
    case SHORTER:
        st->len--;
        return some;
    case OTHER_KIND:
        return some && change_kind(st);
    case MUTATIONS:
        break;
    }
    return false;
}

/* Whether |st| has no visible effect: in place, Bruck's alltoall moves a rank's own block along
 * with the others although it stays. */
static bool is_idle(nxt_world *w, nx_step *st)
{
    const size_t len = st->len;

    if (nxt_is_message(st)) {
        return false;
    }
    st->len = 0;
    bool idle = !noticed(w);

    st->len = len;
    return idle;
}

/* Whether |m| of a step of that |kind| leaves the result unchanged:
 *  - an exscan's shifted input and the first addition to it may be exchanged, since a + b = b + a;
 *  - in place, a rank's own block of a two-level alltoall or allgather is already at its place when
 *    it is copied with others;
 *  - the sums of a two-level reduce-scatter, in place, are in scratch twice. */
static bool is_equal(const nxt_world *w, mutation m, uint8_t kind)
{
    const char *name = w->what.row->name;
    const bool copy = (kind == NX_STEP_COPY) && (w->what.place == NXT_IN_PLACE) &&
                      (strcmp(name, "twolevel") == 0);

    return ((m == SWAPPED_TAGS) && (w->call.kind == NX_EXSCAN) &&
            (strcmp(name, "hillis_steele") == 0)) ||
           (copy && (m == SHORTER) &&
            ((w->call.kind == NX_ALLTOALL) || (w->call.kind == NX_ALLGATHER))) ||
           (copy && (m == SOURCE_MOVED) && (w->call.kind == NX_REDUCE_SCATTER));
}

static void judge_step(nxt_world *w, uint32_t rank, nx_step *st, const nx_step *before, mutation m)
{
    char text[300];

    if (noticed(w)) {
        scores[m].tried++;
        scores[m].caught++;
        return;
    }
    *st = *before;
    if (is_idle(w, st)) {
        idle_mutants++;
    } else if (is_equal(w, m, before->kind)) {
        equal_mutants++;
    } else {
        scores[m].tried++;
        nxt_case_text(&w->what, text, sizeof(text));
        printf("not noticed: %s: rank %u step %zu (%s, %zu elements): %s\n", text, rank,
               (size_t)(st - w->scheds[rank].steps), nxt_step_kind_name(before->kind), before->len,
               names[m]);
    }
}

static void mutate_step(nxt_world *w, uint32_t rank, uint32_t step)
{
    nx_sched *s = &w->scheds[rank];
    nx_step *st = &s->steps[step];

    for (uint32_t m = 0; m < MUTATIONS; m++) {
        const nx_step before = *st;
        nx_step *twin = find_twin(s, st);
        const nx_step twin_before = (twin != NULL) ? *twin : before;

        if (mutate(w, rank, st, (mutation)m)) {
            judge_step(w, rank, st, &before, (mutation)m);
        }
        *st = before;
        if (twin != NULL) {
            *twin = twin_before;
        }
    }
}

/* ---- all ------------------------------------------------------------------------ */

static void mutate_world(const nxt_case *c)
{
    nxt_world w;
    nxt_verdict v;

    if (!nxt_world_init(&w, c, &v)) {
        nxt_fail_case(c, NULL, &v);
    }
    assert_false(noticed(&w));
    for (uint32_t r = 0; r < c->size; r++) {
        for (uint32_t i = 0; i < w.scheds[r].nsteps; i++) {
            mutate_waits(&w, r, i);
            mutate_step(&w, r, i);
        }
    }
    nxt_world_fini(&w);
}

static void mutate_row(const nx_algorithm *row)
{
    static const uint32_t sizes[] = {2, 3, 4, 5, 6, 8};
    bool average = nx_coll_reduces(row->kind) && (row->kind != NX_SCAN) && (row->kind != NX_EXSCAN);

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        for (uint32_t place = 0; place <= NXT_IN_PLACE; place++) {
            nxt_case c = {.row = row,
                          .size = sizes[i],
                          .root = 1,
                          .count = nxt_is_v(row->kind) ? 3 : sizes[i] + 2,
                          .segment = row->cut ? 2 : 0,
                          .place = (nxt_place)place,
                          .average = average && (i % 2 == 0),
                          .seed = i + 1};

            if (((place == 0) || nxt_may_be_in_place(row->kind, true)) &&
                !nxt_thin((7 * i) + place + (uint64_t)row->kind)) {
                mutate_world(&c);
            }
        }
    }
}

static void print_scores(void)
{
    for (uint32_t m = 0; m < MUTATIONS; m++) {
        printf("%-24s %7u tried, %7u noticed\n", names[m], scores[m].tried, scores[m].caught);
    }
    printf("%-24s %7u tried, %7u noticed: %u by %d ordinary seeds, %u more when held up\n",
           "a wait that matters", waits.tried, waits.plain + waits.held, waits.plain, PLAIN_SEEDS,
           waits.held);
    printf("(not counted: %u mutants of steps that do nothing, %u that compute the same)\n",
           idle_mutants, equal_mutants);
    printf("(of %u waits %u follow from others and %u only limit what is in flight)\n", waits.all,
           waits.implied, waits.limits);
}

static void test_every_damaged_step_and_every_missing_wait_is_noticed(void **state)
{
    (void)state;
    nxt_for_rows(mutate_row);
    print_scores();
    for (uint32_t m = 0; m < MUTATIONS; m++) {
        assert_int_equal(scores[m].caught, scores[m].tried);
    }
    assert_int_equal(waits.plain + waits.held, waits.tried);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_damaged_step_and_every_missing_wait_is_noticed),
    };

    nxt_choose_kinds(argc - 1, argv + 1);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);

    nxt_report("mutants");
    return failed;
}
