/*
 * sched_sim_test.c - the simulator itself, on schedules written by hand: correct schedules pass,
 * and each possible fault is detected and named.
 */
#include <string.h>

#include "memory.h"
#include "sched_sim.h"
#include "unit.h"

enum { RANKS = 2, ROOM = 8, MAX_STEPS = 8, SEEDS = 200 };

/* A schedule in fixed arrays; |deps| as many as fit. */
typedef struct hand {
    nx_step steps[MAX_STEPS];
    nx_step_id deps[MAX_STEPS * 2];
    nx_sched sched;
} hand;

/* Adds a step that waits for |after|, NX_NO_STEP for none. */
static void add(hand *h, nx_step step, nx_step_id after)
{
    nx_sched *s = &h->sched;

    s->steps = h->steps;
    s->deps = h->deps;
    step.deps = s->ndeps;
    if (after != NX_NO_STEP) {
        step.ndeps = 1;
        s->deps[s->ndeps++] = after;
    }
    s->steps[s->nsteps++] = step;
}

static nx_step send_step(uint32_t peer, uint32_t round, nx_ref a, size_t len)
{
    return (nx_step){.kind = NX_STEP_SEND, .a = a, .len = len, .peer = peer, .round = round};
}

static nx_step recv_step(uint32_t peer, uint32_t round, nx_ref dst, size_t len)
{
    return (nx_step){.kind = NX_STEP_RECV, .dst = dst, .len = len, .peer = peer, .round = round};
}

static nx_ref at_send(size_t off)
{
    return nx_at(NX_SPACE_SEND, off);
}

static nx_ref at_recv(size_t off)
{
    return nx_at(NX_SPACE_RECV, off);
}

static nxt_plan *plan_of(hand *hands, nxt_verdict *v)
{
    nxt_member members[RANKS];

    for (uint32_t r = 0; r < RANKS; r++) {
        members[r] = (nxt_member){.sched = &hands[r].sched, .room = {ROOM, ROOM, ROOM}};
    }
    return nxt_plan_create(members, RANKS, v);
}

/* Runs once; |recv| gets the final content of the ranks. */
static bool run_once(nxt_plan *plan, uint64_t seed, int64_t (*recv)[ROOM], nxt_verdict *v)
{
    const size_t rooms[RANKS][NX_SPACES] = {{ROOM, ROOM, ROOM}, {ROOM, ROOM, ROOM}};
    nxt_rand rand = {seed};
    nxt_memory m;

    nxt_memory_init(&m, RANKS, sizeof(int64_t), rooms, 0, &rand);
    for (uint32_t r = 0; r < RANKS; r++) {
        int64_t in[ROOM];

        for (int i = 0; i < ROOM; i++) {
            in[i] = (10 * (int64_t)(r + 1)) + i;
        }
        nxt_memory_write(&m, r, NX_SPACE_SEND, (const char *)in);
        nxt_memory_poison(&m, r, NX_SPACE_RECV, 0);
    }
    nxt_run run = {.bindings = m.bindings, .dtype = NEXAR_I64, .op = NEXAR_SUM, .seed = seed};
    bool ok = nxt_plan_run(plan, &run, v);

    for (uint32_t r = 0; r < RANKS; r++) {
        nxt_memory_read(&m, r, NX_SPACE_RECV, (char *)recv[r]);
    }
    assert_true(nxt_memory_guarded(&m));
    nxt_memory_fini(&m);
    return ok;
}

/* Asserts that |hands| has no fault, in any of many orders. */
static void assert_fine(hand *hands, int64_t (*recv)[ROOM])
{
    nxt_verdict v;
    nxt_plan *plan = plan_of(hands, &v);

    assert_non_null(plan);
    assert_true(nxt_plan_ordered(plan, &v));
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        assert_true(run_once(plan, seed, recv, &v));
    }
    nxt_plan_destroy(plan);
}

/* The plan is refused for |finding|. */
static void assert_refused(hand *hands, nxt_finding finding)
{
    nxt_verdict v;

    assert_null(plan_of(hands, &v));
    assert_int_equal(v.finding, finding);
    assert_true(strlen(v.text) > 10);
}

/* Asserts that some order of events reveals |finding|. */
static void assert_found(hand *hands, nxt_finding finding)
{
    int64_t recv[RANKS][ROOM];
    nxt_verdict v;
    nxt_plan *plan = plan_of(hands, &v);
    uint32_t found = 0;

    assert_non_null(plan);
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        if (!run_once(plan, seed, recv, &v)) {
            assert_int_equal(v.finding, finding);
            found++;
        }
    }
    nxt_plan_destroy(plan);
    assert_true(found > 0);
}

/* ---- right ------------------------------------------------------------------ */

static void test_a_message_arrives_whole(void **state)
{
    (void)state;
    hand h[RANKS] = {0};
    int64_t recv[RANKS][ROOM];

    add(&h[0], send_step(1, 0, at_send(2), 5), NX_NO_STEP);
    add(&h[1], recv_step(0, 0, at_recv(1), 5), NX_NO_STEP);
    assert_fine(h, recv);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(recv[1][1 + i], 12 + i);
    }
    assert_int_equal(recv[1][0], 0);
    assert_int_equal(recv[1][6], 0);
}

static void test_a_reduction_happens_on_arrival(void **state)
{
    (void)state;
    hand h[RANKS] = {0};
    int64_t recv[RANKS][ROOM];
    nx_step step = recv_step(0, 0, at_recv(0), ROOM);

    step.kind = NX_STEP_RECV_REDUCE;
    step.a = at_send(0);
    add(&h[0], send_step(1, 0, at_send(0), ROOM), NX_NO_STEP);
    add(&h[1], step, NX_NO_STEP);
    assert_fine(h, recv);
    for (int i = 0; i < ROOM; i++) {
        assert_int_equal(recv[1][i], 30 + (2 * i));
    }
}

static void test_messages_may_overtake_each_other(void **state)
{
    (void)state;
    hand h[RANKS] = {0};
    int64_t recv[RANKS][ROOM];

    add(&h[0], send_step(1, 0, at_send(0), 1), NX_NO_STEP);
    add(&h[0], send_step(1, 1, at_send(1), 1), NX_NO_STEP);
    add(&h[1], recv_step(0, 1, at_recv(1), 1), NX_NO_STEP);
    add(&h[1], recv_step(0, 0, at_recv(0), 1), 0);
    assert_fine(h, recv);
    assert_int_equal(recv[1][0], 10);
    assert_int_equal(recv[1][1], 11);
}

static void test_empty_messages_and_empty_schedules_are_fine(void **state)
{
    (void)state;
    hand h[RANKS] = {0};
    int64_t recv[RANKS][ROOM];

    assert_fine(h, recv);
    add(&h[0], send_step(1, 0, at_send(ROOM), 0), NX_NO_STEP);
    add(&h[1], recv_step(0, 0, at_recv(ROOM), 0), NX_NO_STEP);
    assert_fine(h, recv);
}

/* ---- faults in any order ------------------------------------------------------ */

static void test_a_message_that_nobody_receives_is_found(void **state)
{
    (void)state;
    hand h[RANKS] = {0};

    add(&h[0], send_step(1, 0, at_send(0), 1), NX_NO_STEP);
    assert_refused(h, NXT_BAD_MESSAGE);
}

static void test_a_message_that_nobody_sends_is_found(void **state)
{
    (void)state;
    hand h[RANKS] = {0};

    add(&h[0], send_step(1, 0, at_send(0), 1), NX_NO_STEP);
    add(&h[1], recv_step(0, 1, at_recv(0), 1), NX_NO_STEP);
    assert_refused(h, NXT_BAD_MESSAGE);
}

static void test_ends_of_different_length_are_found(void **state)
{
    (void)state;
    hand h[RANKS] = {0};

    add(&h[0], send_step(1, 0, at_send(0), 2), NX_NO_STEP);
    add(&h[1], recv_step(0, 0, at_recv(0), 3), NX_NO_STEP);
    assert_refused(h, NXT_BAD_MESSAGE);
}

static void test_two_messages_with_one_tag_are_found(void **state)
{
    (void)state;
    hand h[RANKS] = {0};

    add(&h[0], send_step(1, 0, at_send(0), 1), NX_NO_STEP);
    add(&h[0], send_step(1, 0, at_send(1), 1), NX_NO_STEP);
    add(&h[1], recv_step(0, 0, at_recv(0), 1), NX_NO_STEP);
    assert_refused(h, NXT_BAD_MESSAGE);
}

static void test_a_round_too_large_for_its_tag_is_found(void **state)
{
    (void)state;
    hand h[RANKS] = {0};

    add(&h[0], send_step(1, NX_MAX_ROUNDS, at_send(0), 1), NX_NO_STEP);
    add(&h[1], recv_step(0, NX_MAX_ROUNDS, at_recv(0), 1), NX_NO_STEP);
    assert_refused(h, NXT_BAD_MESSAGE);
}

static void test_a_message_to_oneself_is_found(void **state)
{
    (void)state;
    hand h[RANKS] = {0};

    add(&h[0], send_step(0, 0, at_send(0), 1), NX_NO_STEP);
    add(&h[0], recv_step(0, 0, at_recv(0), 1), NX_NO_STEP);
    assert_refused(h, NXT_BAD_MESSAGE);
}

static void test_a_wait_that_does_not_point_backwards_is_found(void **state)
{
    (void)state;
    hand h[RANKS] = {0};
    nx_step copy = {.kind = NX_STEP_COPY, .dst = at_recv(0), .a = at_send(0), .len = 1};

    add(&h[0], copy, 0);
    assert_refused(h, NXT_BAD_WAIT);
}

static void test_a_wait_named_twice_is_found(void **state)
{
    (void)state;
    hand h[RANKS] = {0};
    nx_step copy = {.kind = NX_STEP_COPY, .dst = at_recv(0), .a = at_send(0), .len = 1};

    add(&h[0], copy, NX_NO_STEP);
    add(&h[0], copy, 0);
    h[0].deps[1] = 0;
    h[0].sched.ndeps = 2;
    h[0].steps[1].ndeps = 2;
    assert_refused(h, NXT_BAD_WAIT);
}

static void test_a_step_beyond_its_space_is_found(void **state)
{
    (void)state;
    hand h[RANKS] = {0};
    nx_step fill = {.kind = NX_STEP_FILL, .dst = at_recv(ROOM - 1), .len = 2};

    add(&h[0], fill, NX_NO_STEP);
    assert_refused(h, NXT_BAD_REF);
}

static void test_a_write_to_the_send_buffer_is_found(void **state)
{
    (void)state;
    hand h[RANKS] = {0};
    nx_step fill = {.kind = NX_STEP_FILL, .dst = at_send(0), .len = 1};

    add(&h[0], fill, NX_NO_STEP);
    assert_refused(h, NXT_BAD_REF);
}

static void test_a_reduction_onto_half_of_its_source_is_found(void **state)
{
    (void)state;
    hand h[RANKS] = {0};
    nx_step step = {
        .kind = NX_STEP_REDUCE, .dst = at_recv(1), .a = at_recv(0), .b = at_send(0), .len = 2};

    add(&h[0], step, NX_NO_STEP);
    assert_refused(h, NXT_BAD_REF);
}

/* ---- faults in some orders ------------------------------------------------------ */

/* Rank 0 sends a block and overwrites it; the required wait is |after|. */
static void send_and_overwrite(hand *h, nx_step_id after)
{
    nx_step copy = {.kind = NX_STEP_COPY, .dst = at_recv(0), .a = at_send(0), .len = 4};

    add(&h[0], copy, NX_NO_STEP);
    add(&h[0], send_step(1, 0, at_recv(0), 4), 0);
    add(&h[0], recv_step(1, 1, at_recv(2), 1), after);
    add(&h[1], recv_step(0, 0, at_recv(0), 4), NX_NO_STEP);
    add(&h[1], send_step(0, 1, at_recv(0), 1), 0);
}

static void test_a_block_overwritten_while_it_is_sent_is_found(void **state)
{
    (void)state;
    hand right[RANKS] = {0};
    hand wrong[RANKS] = {0};
    int64_t recv[RANKS][ROOM];
    nxt_verdict v;

    send_and_overwrite(right, 1);
    assert_fine(right, recv);
    assert_int_equal(recv[0][2], 10);
    assert_int_equal(recv[1][2], 12);

    /* The overwriting message arrives only after this one arrived: the only fault is that the
     * buffer was not returned yet. */
    send_and_overwrite(wrong, 0);
    assert_found(wrong, NXT_RACE);
    nxt_plan *plan = plan_of(wrong, &v);
    assert_false(nxt_plan_ordered(plan, &v));
    assert_int_equal(v.finding, NXT_UNORDERED);
    nxt_plan_destroy(plan);
}

static void test_a_send_before_its_block_is_ready_is_found(void **state)
{
    (void)state;
    hand h[RANKS] = {0};
    nx_step copy = {.kind = NX_STEP_COPY, .dst = at_recv(0), .a = at_send(0), .len = 4};
    nx_step again = {.kind = NX_STEP_COPY, .dst = at_recv(0), .a = at_send(4), .len = 4};

    add(&h[0], copy, NX_NO_STEP);
    add(&h[0], again, 0);
    add(&h[0], send_step(1, 0, at_recv(3), 1), 0);
    add(&h[1], recv_step(0, 0, at_recv(0), 1), NX_NO_STEP);
    assert_found(h, NXT_RACE);
}

static void test_a_read_of_unwritten_scratch_is_found(void **state)
{
    (void)state;
    hand h[RANKS] = {0};
    nx_step copy = {
        .kind = NX_STEP_COPY, .dst = at_recv(0), .a = nx_at(NX_SPACE_SCRATCH, 0), .len = 1};

    add(&h[0], copy, NX_NO_STEP);
    assert_found(h, NXT_UNDEFINED);
}

static void test_ranks_that_wait_for_each_other_are_found(void **state)
{
    (void)state;
    hand h[RANKS] = {0};

    for (uint32_t r = 0; r < RANKS; r++) {
        add(&h[r], recv_step(1 - r, 0, at_recv(0), 1), NX_NO_STEP);
        add(&h[r], send_step(1 - r, 0, at_send(0), 1), 0);
    }
    assert_found(h, NXT_DEADLOCK);
}

/* Correct only if the transport copies the data it sends. */
static void test_a_schedule_that_counts_on_buffering_is_found(void **state)
{
    (void)state;
    hand h[RANKS] = {0};

    add(&h[0], send_step(1, 0, at_send(0), 1), NX_NO_STEP);
    add(&h[0], send_step(1, 1, at_send(1), 1), 0);
    add(&h[1], recv_step(0, 1, at_recv(1), 1), NX_NO_STEP);
    add(&h[1], recv_step(0, 0, at_recv(0), 1), 0);
    assert_found(h, NXT_DEADLOCK);
}

static void test_a_call_without_a_hook_is_found(void **state)
{
    (void)state;
    hand h[RANKS] = {0};
    nx_step call = {.kind = NX_STEP_CALL, .dst = at_recv(0), .len = 0};

    add(&h[0], call, NX_NO_STEP);
    assert_found(h, NXT_BAD_CALL);
}

/* ---- chains --------------------------------------------------------------------- */

static void test_a_wait_is_needed_unless_others_imply_it(void **state)
{
    (void)state;
    hand h[RANKS] = {0};
    nx_step copy = {.kind = NX_STEP_COPY, .dst = at_recv(0), .a = at_send(0), .len = 1};
    nxt_verdict v;

    add(&h[0], copy, NX_NO_STEP);
    add(&h[0], copy, 0);
    add(&h[0], copy, 0);
    h[0].deps[h[0].sched.ndeps++] = 1; /* step 2 waits for 0 and 1 */
    h[0].steps[2].ndeps = 2;
    nxt_plan *plan = plan_of(h, &v);

    assert_non_null(plan);
    assert_true(nxt_plan_wait_needed(plan, 0, 1, 0));
    assert_false(nxt_plan_wait_needed(plan, 0, 2, 0));
    assert_true(nxt_plan_wait_needed(plan, 0, 2, 1));
    nxt_plan_destroy(plan);
}

static void test_a_schedule_without_messages_is_no_barrier(void **state)
{
    (void)state;
    hand h[RANKS] = {0};
    nxt_verdict v;

    add(&h[0], send_step(1, 0, at_send(0), 0), NX_NO_STEP);
    add(&h[1], recv_step(0, 0, at_recv(0), 0), NX_NO_STEP);
    nxt_plan *plan = plan_of(h, &v);

    assert_non_null(plan);
    assert_false(nxt_plan_synchronises(plan, &v));
    assert_int_equal(v.rank, 0);
    nxt_plan_destroy(plan);

    add(&h[1], send_step(0, 0, at_send(0), 0), NX_NO_STEP);
    add(&h[0], recv_step(1, 0, at_recv(0), 0), NX_NO_STEP);
    plan = plan_of(h, &v);
    assert_non_null(plan);
    assert_true(nxt_plan_synchronises(plan, &v));
    nxt_plan_destroy(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_message_arrives_whole),
        cmocka_unit_test(test_a_reduction_happens_on_arrival),
        cmocka_unit_test(test_messages_may_overtake_each_other),
        cmocka_unit_test(test_empty_messages_and_empty_schedules_are_fine),
        cmocka_unit_test(test_a_message_that_nobody_receives_is_found),
        cmocka_unit_test(test_a_message_that_nobody_sends_is_found),
        cmocka_unit_test(test_ends_of_different_length_are_found),
        cmocka_unit_test(test_two_messages_with_one_tag_are_found),
        cmocka_unit_test(test_a_round_too_large_for_its_tag_is_found),
        cmocka_unit_test(test_a_message_to_oneself_is_found),
        cmocka_unit_test(test_a_wait_that_does_not_point_backwards_is_found),
        cmocka_unit_test(test_a_wait_named_twice_is_found),
        cmocka_unit_test(test_a_step_beyond_its_space_is_found),
        cmocka_unit_test(test_a_write_to_the_send_buffer_is_found),
        cmocka_unit_test(test_a_reduction_onto_half_of_its_source_is_found),
        cmocka_unit_test(test_a_block_overwritten_while_it_is_sent_is_found),
        cmocka_unit_test(test_a_send_before_its_block_is_ready_is_found),
        cmocka_unit_test(test_a_read_of_unwritten_scratch_is_found),
        cmocka_unit_test(test_ranks_that_wait_for_each_other_are_found),
        cmocka_unit_test(test_a_schedule_that_counts_on_buffering_is_found),
        cmocka_unit_test(test_a_call_without_a_hook_is_found),
        cmocka_unit_test(test_a_wait_is_needed_unless_others_imply_it),
        cmocka_unit_test(test_a_schedule_without_messages_is_no_barrier),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
