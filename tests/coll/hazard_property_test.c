/*
 * hazard_property_test.c - random programs: a schedule, in any order of events, computes the same
 * as its steps executed sequentially.
 *
 * A program is a list of local steps and messages among a few ranks, drawn by a seed. While the
 * program is drawn it is also executed, in order, on plain arrays; the simulator then runs the
 * schedules that the library builds from it.
 */
#include <stdio.h>
#include <string.h>

#include "memory.h"
#include "rand.h"
#include "sched_sim.h"
#include "suite.h"
#include "unit.h"

enum { MAX_RANKS = 4, ROOM = 24, MOST = 7 };

typedef struct program {
    nxt_rand rand;
    uint32_t ranks, rounds;
    nx_sched scheds[MAX_RANKS];
    int64_t start[MAX_RANKS][NX_SPACES][ROOM]; /* before */
    int64_t now[MAX_RANKS][NX_SPACES][ROOM];   /* after the steps so far */
} program;

static nx_ref draw_ref(program *p, bool writable, size_t len)
{
    uint32_t space = writable ? 1 + nxt_below(&p->rand, 2) : nxt_below(&p->rand, NX_SPACES);

    return nx_at((nx_space)space, nxt_below(&p->rand, ROOM - len + 1));
}

/* A source for a step that writes |dst|: the same place, or a different one. */
static nx_ref draw_source(program *p, nx_ref dst, size_t len)
{
    for (;;) {
        nx_ref a = draw_ref(p, false, len);

        if ((a.space != dst.space) || (a.off == dst.off) || (a.off + len <= dst.off) ||
            (dst.off + len <= a.off)) {
            return a;
        }
    }
}

static int64_t *at(program *p, uint32_t rank, nx_ref ref)
{
    return &p->now[rank][ref.space][ref.off];
}

static void draw_message(program *p, size_t len)
{
    uint32_t from = nxt_below(&p->rand, p->ranks);
    uint32_t to = (from + 1 + nxt_below(&p->rand, p->ranks - 1)) % p->ranks;
    nx_ref a = draw_ref(p, false, len);
    nx_ref dst = draw_ref(p, true, len);
    nx_ref own = draw_source(p, dst, len);
    bool reduce = nxt_one_in(&p->rand, 2);

    nx_send(&p->scheds[from], to, p->rounds, a, len);
    if (reduce) {
        nx_recv_reduce(&p->scheds[to], from, p->rounds, dst, own, len);
    } else {
        nx_recv(&p->scheds[to], from, p->rounds, dst, len);
    }
    p->rounds++;
    for (size_t i = 0; i < len; i++) {
        at(p, to, dst)[i] = at(p, from, a)[i] + (reduce ? at(p, to, own)[i] : 0);
    }
}

static void draw_local(program *p, size_t len)
{
    uint32_t r = nxt_below(&p->rand, p->ranks);
    nx_ref dst = draw_ref(p, true, len);
    nx_ref a = draw_source(p, dst, len);
    nx_ref b = draw_source(p, dst, len);
    uint32_t what = nxt_below(&p->rand, 8);

    if (what == 0) {
        nx_fill(&p->scheds[r], dst, len);
    } else if (what == 1) {
        nx_divide(&p->scheds[r], dst, len);
    } else if (what < 5) {
        nx_copy(&p->scheds[r], dst, a, len);
    } else {
        nx_reduce_local(&p->scheds[r], dst, a, b, len);
    }
    for (size_t i = 0; i < len; i++) {
        int64_t value = at(p, r, a)[i];

        if (what < 2) {
            value = (what == 0) ? 0 : at(p, r, dst)[i] / (int64_t)p->ranks;
        } else if (what >= 5) {
            value += at(p, r, b)[i];
        }
        at(p, r, dst)[i] = value;
    }
}

/* A block moved down onto itself in part, as in-place reduce-scatter does. */
static void draw_move(program *p, size_t len)
{
    uint32_t r = nxt_below(&p->rand, p->ranks);
    size_t to = nxt_below(&p->rand, 4);
    size_t from = to + 1 + nxt_below(&p->rand, 4);

    nx_copy(&p->scheds[r], nx_at(NX_SPACE_RECV, to), nx_at(NX_SPACE_RECV, from), len);
    memmove(&p->now[r][NX_SPACE_RECV][to], &p->now[r][NX_SPACE_RECV][from], len * sizeof(int64_t));
}

/* Sometimes steps wait for more than necessary. */
static void draw_gate(program *p)
{
    nx_sched *s = &p->scheds[nxt_below(&p->rand, p->ranks)];
    nx_step_id last = nx_sched_last(s);

    if (nxt_one_in(&p->rand, 2) || (last == NX_NO_STEP)) {
        nx_sched_gate(s, NX_NO_STEP, NX_NO_STEP);
    } else {
        nx_sched_gate(s, nxt_below(&p->rand, (uint64_t)last + 1), last);
    }
}

static void draw_program(program *p, uint64_t seed)
{
    memset(p, 0, sizeof(*p));
    p->rand.state = seed;
    p->ranks = 1 + nxt_below(&p->rand, MAX_RANKS);
    uint32_t length = 1 + nxt_below(&p->rand, 40);
    size_t segment = nxt_below(&p->rand, 4); /* as in a collective, the same for all ranks */

    for (uint32_t r = 0; r < p->ranks; r++) {
        nx_sched_init(&p->scheds[r], segment);
        (void)nx_sched_scratch(&p->scheds[r], ROOM);
        for (uint32_t i = 0; i < 2 * ROOM; i++) {
            p->start[r][i / ROOM][i % ROOM] = (int64_t)(nxt_next(&p->rand) >> 20);
        }
        memcpy(p->now[r], p->start[r], sizeof(p->now[r]));
        nx_copy(&p->scheds[r], nx_at(NX_SPACE_SCRATCH, 0), nx_at(NX_SPACE_SEND, 0), ROOM);
        memcpy(p->now[r][NX_SPACE_SCRATCH], p->start[r][NX_SPACE_SEND], sizeof(p->now[r][0]));
    }
    for (uint32_t i = 0; i < length; i++) {
        size_t len = nxt_below(&p->rand, MOST + 1);
        uint32_t what = nxt_below(&p->rand, 16);

        if ((what < 8) && (p->ranks > 1)) {
            draw_message(p, len);
        } else if (what == 15) {
            draw_move(p, len);
        } else if (what == 14) {
            draw_gate(p);
        } else {
            draw_local(p, len);
        }
    }
    for (uint32_t r = 0; r < p->ranks; r++) {
        assert_int_equal(nx_sched_seal(&p->scheds[r]), NEXAR_OK);
    }
}

static bool memory_equals(const program *p, const nxt_memory *m, nxt_verdict *v)
{
    int64_t got[ROOM];

    for (uint32_t r = 0; r < p->ranks; r++) {
        for (uint32_t s = 0; s < NX_SPACES; s++) {
            nxt_memory_read(m, r, (nx_space)s, (char *)got);
            if (memcmp(got, p->now[r][s], sizeof(got)) != 0) {
                return nxt_find(v, NXT_WRONG_DATA, r, 0, "rank %u space %u differs", r, s);
            }
        }
    }
    return true;
}

static bool run_program(const program *p, const nxt_plan *plan, uint64_t seed, nxt_verdict *v)
{
    size_t rooms[MAX_RANKS][NX_SPACES];
    nxt_rand rand = {seed};
    nxt_memory m;

    for (uint32_t i = 0; i < MAX_RANKS * NX_SPACES; i++) {
        rooms[i / NX_SPACES][i % NX_SPACES] = ROOM;
    }
    nxt_memory_init(&m, p->ranks, sizeof(int64_t), (const size_t(*)[NX_SPACES])rooms,
                    nxt_below(&rand, 6), &rand);
    for (uint32_t r = 0; r < p->ranks; r++) {
        nxt_memory_write(&m, r, NX_SPACE_SEND, (const char *)p->start[r][NX_SPACE_SEND]);
        nxt_memory_write(&m, r, NX_SPACE_RECV, (const char *)p->start[r][NX_SPACE_RECV]);
        nxt_memory_poison(&m, r, NX_SPACE_SCRATCH, 0xAB);
    }
    nxt_run run = {.bindings = m.bindings, .dtype = NEXAR_I64, .op = NEXAR_SUM, .seed = seed};
    bool ok = nxt_plan_run(plan, &run, v) && memory_equals(p, &m, v) && nxt_memory_guarded(&m);

    nxt_memory_fini(&m);
    return ok;
}

/* Draws program |seed| and builds a plan from it; NULL if it is refused. */
static nxt_plan *plan_program(program *p, uint64_t seed, nxt_verdict *v)
{
    nxt_member members[MAX_RANKS];

    draw_program(p, seed);
    for (uint32_t r = 0; r < p->ranks; r++) {
        members[r] =
            (nxt_member){.sched = &p->scheds[r], .room = {ROOM, ROOM, ROOM}, .recv_is_input = true};
    }
    return nxt_plan_create(members, p->ranks, v);
}

static void free_program(program *p)
{
    for (uint32_t r = 0; r < p->ranks; r++) {
        nx_sched_fini(&p->scheds[r]);
    }
}

static bool check_program(program *p, uint64_t seed, nxt_verdict *v)
{
    nxt_plan *plan = plan_program(p, seed, v);
    bool ok = (plan != NULL) && nxt_plan_ordered(plan, v);

    for (uint64_t i = 0; ok && (i < 4); i++) {
        ok = run_program(p, plan, nxt_hash(seed, i, 0), v);
    }
    nxt_plan_destroy(plan);
    free_program(p);
    return ok;
}

static void test_any_order_of_events_computes_what_program_order_does(void **state)
{
    (void)state;
    program p;
    nxt_verdict v = {.finding = NXT_FINE};

    for (uint64_t seed = 1; seed <= 20000; seed++) {
        if (!nxt_thin(seed) && !check_program(&p, seed, &v)) {
            fail_msg("program %llu: %s", (unsigned long long)seed, v.text);
        }
    }
}

static void count_waits(const program *p, const nxt_plan *plan, uint32_t *waits, uint32_t *needed)
{
    for (uint32_t r = 0; r < p->ranks; r++) {
        for (uint32_t i = 0; i < p->scheds[r].nsteps; i++) {
            for (uint32_t d = 0; d < p->scheds[r].steps[i].ndeps; d++) {
                *waits += 1;
                *needed += nxt_plan_wait_needed(plan, r, i, d) ? 1 : 0;
            }
        }
    }
}

/* Redundant waits would only cost the engine time. */
static void test_most_waits_are_needed(void **state)
{
    (void)state;
    uint32_t waits = 0;
    uint32_t needed = 0;

    for (uint64_t seed = 1; seed <= 200; seed++) {
        program p;
        nxt_verdict v;
        nxt_plan *plan = plan_program(&p, seed, &v);

        assert_non_null(plan);
        count_waits(&p, plan, &waits, &needed);
        nxt_plan_destroy(plan);
        free_program(&p);
    }
    printf("of %u waits in random programs %u are needed\n", waits, needed);
    assert_true(2 * needed > waits);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_order_of_events_computes_what_program_order_does),
        cmocka_unit_test(test_most_waits_are_needed),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);

    nxt_report("random programs");
    return failed;
}
