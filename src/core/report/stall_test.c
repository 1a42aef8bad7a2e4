/* stall_test.c - times and texts of the stall report, in virtual time. */
#include "core/report/stall.h"

#include <stdio.h>
#include <string.h>

#include "unit.h"

#define SECOND UINT64_C(1000000000)
enum { SIZE = 200, LINES_MAX = 64 };

/* A waiting operation, ranks with given answers, and the printed lines. */
typedef struct rig {
    nx_clock_manual clock;
    nx_loop *loop;
    nx_stall *stall;
    nx_pending op;
    bool pending;
    uint32_t whom[SIZE], nfor;
    const char *here, *note;
    uint64_t served;
    nx_ask asked[SIZE]; /* the last question to each; number 0: none */
    bool down[SIZE];
    uint32_t questions;
    char lines[LINES_MAX][512];
    nx_stall_voice voices[LINES_MAX];
    uint32_t nlines;
} rig;

static bool oldest(void *ctx, uint64_t since_ns, nx_pending *out)
{
    const rig *r = ctx;

    *out = r->op;
    return r->pending && (r->op.begun_ns > since_ns);
}

static uint32_t whom(void *ctx, const nx_pending *p, uint32_t *out, uint32_t room)
{
    const rig *r = ctx;

    (void)p;
    for (uint32_t i = 0; (i < r->nfor) && (i < room); i++) {
        out[i] = r->whom[i];
    }
    return r->nfor;
}

static void here(void *ctx, const nx_pending *p, char *out)
{
    const rig *r = ctx;

    (void)p;
    (void)snprintf(out, NX_DOING_HERE, "%s", (r->here == NULL) ? "" : r->here);
}

static void note(void *ctx, const nx_pending *p, char *out)
{
    const rig *r = ctx;

    (void)p;
    (void)snprintf(out, NX_NOTE_TEXT, "%s", (r->note == NULL) ? "" : r->note);
}

static uint64_t served(void *ctx)
{
    return ((const rig *)ctx)->served;
}

static const char *fate(void *ctx, uint32_t rank)
{
    const rig *r = ctx;

    return r->down[rank] ? "has failed" : "has left";
}

static nexar_err carry(void *ctx, uint32_t peer, const void *data, size_t len)
{
    rig *r = ctx;

    assert_true(peer < SIZE);
    assert_true(nx_ask_decode(data, len, &r->asked[peer]));
    r->questions++;
    if (r->down[peer]) { /* as msg reports it, from inside */
        nx_stall_on_down(r->stall, peer, "it closed the link");
        return NEXAR_EPEER;
    }
    return NEXAR_OK;
}

static void print(void *ctx, nx_stall_voice voice, const char *line)
{
    rig *r = ctx;

    assert_true(r->nlines < LINES_MAX);
    r->voices[r->nlines] = voice;
    (void)snprintf(r->lines[r->nlines++], sizeof(r->lines[0]), "%s", line);
}

static void setup(rig *r, uint64_t after_ns)
{
    nx_stall_config config = {.self = 0,
                              .size = SIZE,
                              .after_ns = after_ns,
                              .oldest = oldest,
                              .whom = whom,
                              .here = here,
                              .note = note,
                              .served = served,
                              .fate = fate,
                              .send = carry,
                              .print = print,
                              .ctx = r};

    memset(r, 0, sizeof(*r));
    nx_clock_manual_init(&r->clock, 1000 * SECOND);
    assert_int_equal(nx_loop_create(&r->loop, &r->clock.clock), NEXAR_OK);
    nx_loop_lock(r->loop);
    config.loop = r->loop;
    assert_int_equal(nx_stall_create(&r->stall, &config), NEXAR_OK);
    r->op = (nx_pending){.what = {.kind = NX_WHAT_RECV, .name = "recv", .peer = 1, .tag = 7}};
    r->whom[0] = 1;
    r->nfor = 1;
}

static void teardown(rig *r)
{
    nx_stall_destroy(r->stall);
    nx_loop_unlock(r->loop);
    nx_loop_destroy(r->loop);
}

/* Advances time by |ns|, in steps of the timers. */
static void pass(rig *r, uint64_t ns)
{
    const uint64_t end = r->clock.ns + ns;

    while (r->clock.ns < end) {
        const uint64_t due = nx_loop_next_due(r->loop);

        r->clock.ns = ((due > r->clock.ns) && (due < end)) ? due
                      : (due <= r->clock.ns)               ? r->clock.ns
                                                           : end;
        (void)nx_loop_refresh(r->loop);
        nx_loop_kick(r->loop);
    }
}

/* The operation begins now. */
static void start(rig *r)
{
    r->op.begun_ns = r->clock.ns;
    r->pending = true;
}

/* A collective, #5 of the world, that waits for ranks 1 .. |nfor|. */
static void start_collective(rig *r, uint32_t nfor, bool first)
{
    r->op = (nx_pending){.what = {.number = 5}, .first = first};
    r->nfor = nfor;
    for (uint32_t i = 0; i < nfor; i++) {
        r->whom[i] = i + 1;
    }
    start(r);
}

static void tell_user_code(rig *r, uint32_t peer)
{
    const nx_doing d = {.question = r->asked[peer].question,
                        .last = {.text = "#4 barrier", .number = 4, .age_ns = 2 * SECOND}};

    nx_stall_on_answer(r->stall, peer, &d);
}

/* In the same operation; waits for |other|. */
static void tell_in_it(rig *r, uint32_t peer, uint32_t other)
{
    const nx_doing d = {.question = r->asked[peer].question,
                        .waits = true,
                        .now = {.text = "#5 allreduce", .number = 5, .age_ns = SECOND},
                        .nfor = 1,
                        .listed = 1,
                        .who = {other}};

    nx_stall_on_answer(r->stall, peer, &d);
}

static bool said(const rig *r, const char *text)
{
    for (uint32_t i = 0; i < r->nlines; i++) {
        if (strstr(r->lines[i], text) != NULL) {
            return true;
        }
    }
    return false;
}

/* ---- times --------------------------------------------------------------------------- */

static void test_it_speaks_when_the_time_is_over_and_not_before(void **state)
{
    rig r;

    (void)state;
    setup(&r, 10 * SECOND);
    pass(&r, 7 * SECOND); /* it does not begin at a tick */
    assert_int_equal(r.questions, 0);
    start(&r);
    pass(&r, 10 * SECOND - 1);
    assert_int_equal(r.questions, 0);
    pass(&r, 1);
    assert_int_equal(r.questions, 1);
    assert_int_equal(r.nlines, 0);
    tell_user_code(&r, 1);
    assert_int_equal(r.nlines, 2);
    assert_string_equal(r.lines[0],
                        "rank 0 has waited 10.0 s in recv(from rank 1, tag 7) for rank 1");
    assert_string_equal(r.lines[1],
                        "rank 1 last finished #4 barrier 2.0 s ago and is in user code");
    assert_int_equal(r.voices[0], NX_STALL_WARN);
    teardown(&r);
}

static void test_intervals_grow_and_a_new_operation_begins_anew(void **state)
{
    rig r;
    uint32_t reports = 0;
    uint64_t at[3] = {0};

    (void)state;
    setup(&r, 10 * SECOND);
    start(&r);
    while (reports < 3) {
        pass(&r, SECOND);
        if (r.questions > reports) {
            at[reports++] = (r.clock.ns - r.op.begun_ns) / SECOND;
            tell_user_code(&r, 1);
        }
    }
    assert_int_equal(at[0], 10);
    assert_int_equal(at[1], 30);
    assert_int_equal(at[2], 70);
    start(&r); /* another one */
    pass(&r, 9 * SECOND);
    assert_int_equal(r.questions, 3);
    pass(&r, SECOND);
    assert_int_equal(r.questions, 4);
    teardown(&r);
}

static void test_what_ends_meanwhile_is_not_reported(void **state)
{
    rig r;

    (void)state;
    setup(&r, SECOND);
    start(&r);
    pass(&r, SECOND);
    assert_int_equal(r.questions, 1);
    r.pending = false;
    tell_user_code(&r, 1);
    pass(&r, 10 * SECOND);
    assert_int_equal(r.nlines, 0);
    teardown(&r);
}

static void test_zero_means_on_demand_only(void **state)
{
    rig r;

    (void)state;
    setup(&r, 0);
    assert_false(nx_stall_demand(r.stall));
    start(&r);
    pass(&r, 1000 * SECOND);
    assert_int_equal(r.questions, 0);
    assert_true(nx_stall_demand(r.stall));
    tell_user_code(&r, 1);
    assert_int_equal(r.nlines, 2);
    assert_int_equal(r.voices[1], NX_STALL_DEMAND);
    teardown(&r);
}

/* ---- texts --------------------------------------------------------------------------- */

static void test_who_is_silent_and_who_is_gone_is_said(void **state)
{
    rig r;

    (void)state;
    setup(&r, SECOND);
    r.down[2] = true;
    start_collective(&r, 3, true);
    pass(&r, SECOND);
    tell_user_code(&r, 3);
    assert_int_equal(r.nlines, 0);                              /* rank 1 has a second to answer */
    nx_stall_on_answer(r.stall, 1, &(nx_doing){.question = 0}); /* not to this question */
    pass(&r, SECOND);
    assert_true(said(&r, "for rank 1, rank 2 and rank 3"));
    assert_true(said(&r, "rank 1 does not answer"));
    assert_true(said(&r, "rank 2 has failed: it closed the link"));
    assert_true(said(&r, "rank 3 last finished #4 barrier"));
    tell_user_code(&r, 1); /* too late */
    assert_int_equal(r.nlines, 4);
    teardown(&r);
}

static void test_lists_are_short(void **state)
{
    rig r;

    (void)state;
    setup(&r, SECOND);
    start_collective(&r, 65, true);
    pass(&r, SECOND);
    assert_int_equal(r.questions, 64);
    pass(&r, SECOND);
    assert_true(said(&r, "rank 7, rank 8 and 57 more"));
    assert_true(said(&r, "and 56 more"));
    assert_int_equal(r.nlines, 1 + 8 + 1);
    teardown(&r);
}

static void test_ranks_in_the_middle_do_not_print(void **state)
{
    rig r;

    (void)state;
    setup(&r, SECOND);
    start_collective(&r, 1, false);
    pass(&r, SECOND);
    tell_in_it(&r, 1, 2);
    assert_int_equal(r.questions, 1); /* rank 0 follows chains */
    assert_int_equal(r.nlines, 1);
    assert_int_equal(r.voices[0], NX_STALL_INFO);
    /* The rank next to the late one reports. */
    r.nlines = 0;
    start_collective(&r, 2, false);
    r.op.begun_ns++;
    pass(&r, 2 * SECOND);
    tell_in_it(&r, 1, 2);
    tell_user_code(&r, 2);
    assert_int_equal(r.voices[0], NX_STALL_WARN);
    assert_true(said(&r, "rank 2 last finished #4 barrier"));
    assert_true(said(&r, "rank 1 is in it too"));
    teardown(&r);
}

static void test_rank_0_follows_the_chain_to_its_end(void **state)
{
    rig r;

    (void)state;
    setup(&r, SECOND);
    start_collective(&r, 1, true);
    pass(&r, SECOND);
    tell_in_it(&r, 1, 2);
    tell_in_it(&r, 2, 3);
    assert_int_equal(r.questions, 3);
    assert_int_equal(r.nlines, 0);
    tell_user_code(&r, 3);
    assert_true(said(&r, "rank 3 last finished #4 barrier"));
    assert_true(said(&r, "rank 1 and rank 2 are in it too"));
    /* A ring of questions ends. */
    r.nlines = 0;
    start_collective(&r, 1, true);
    r.op.begun_ns++;
    pass(&r, 2 * SECOND);
    tell_in_it(&r, 1, 2);
    tell_in_it(&r, 2, 0);
    assert_true(said(&r, "rank 2 is in #5 allreduce for 1.0 s, waiting for rank 0"));
    teardown(&r);
}

static void test_a_deadlock_of_two_is_named(void **state)
{
    nx_doing d = {.waits = true,
                  .now = {.text = "recv(from rank 0, tag 7)", .age_ns = SECOND},
                  .nfor = 1,
                  .listed = 1,
                  .who = {0}};
    rig r;

    (void)state;
    setup(&r, SECOND);
    start(&r);
    pass(&r, SECOND);
    d.question = r.asked[1].question;
    nx_stall_on_answer(r.stall, 1, &d);
    assert_true(said(&r, "rank 1 is in recv(from rank 0, tag 7) for 1.0 s, waiting for rank 0: "
                         "each waits for the other"));
    teardown(&r);
}

/* The operation of the rig is recv(from rank 1, tag 7). */
static void test_a_long_message_is_no_deadlock(void **state)
{
    static const struct {
        const char *text, *says;
    } cases[] = {{"send(to rank 0, tag 7)", ": that message is in flight"},
                 {"send(to rank 0, tag 8)", ": each waits for the other"},
                 {"recv(from rank 0, any tag)", ": each waits for the other"}};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        nx_doing d = {.waits = true, .now = {.age_ns = SECOND}, .nfor = 1, .listed = 1, .who = {0}};
        rig r;

        (void)snprintf(d.now.text, sizeof(d.now.text), "%s", cases[i].text);
        setup(&r, SECOND);
        start(&r);
        pass(&r, SECOND);
        d.question = r.asked[1].question;
        nx_stall_on_answer(r.stall, 1, &d);
        assert_true(said(&r, cases[i].text));
        assert_true(said(&r, cases[i].says));
        teardown(&r);
    }
}

static void test_a_local_wait_of_a_rank_is_reported(void **state)
{
    nx_doing d = {.waits = true,
                  .now = {.text = "#5 allreduce", .number = 5, .age_ns = SECOND},
                  .nfor = 1,
                  .listed = 1,
                  .who = {0},
                  .here = "device sim to copy 8 bytes (0.9 s)"};
    rig r;

    (void)state;
    setup(&r, SECOND);
    /* Local: no other rank reports it, though all that it waits for are in the operation. */
    r.here = "its on_shard (0.9 s)";
    start_collective(&r, 1, false);
    pass(&r, SECOND);
    tell_in_it(&r, 1, 2);
    assert_int_equal(r.voices[0], NX_STALL_WARN);
    assert_true(said(&r, "for rank 1, and for its on_shard (0.9 s)"));
    r.nlines = 0;
    start_collective(&r, 0, false);
    r.op.begun_ns++;
    pass(&r, 2 * SECOND);
    assert_true(said(&r, " for its on_shard (0.9 s)"));
    /* Remote: it does not count as one of the waiting ranks, and no deadlock is reported. */
    r.here = NULL;
    r.nlines = 0;
    start_collective(&r, 2, true);
    r.op.begun_ns++;
    pass(&r, 2 * SECOND);
    tell_in_it(&r, 2, 1);
    d.question = r.asked[1].question;
    nx_stall_on_answer(r.stall, 1, &d);
    assert_true(said(&r, "rank 1 is in #5 allreduce for 1.0 s, waiting for rank 0, and for device "
                         "sim to copy 8 bytes (0.9 s)"));
    assert_false(said(&r, "each waits for the other"));
    assert_true(said(&r, "rank 2 is in it too"));
    teardown(&r);
}

/* |peer| has been in |text| for some time, and waits for |other| alone. */
static void tell_message(rig *r, uint32_t peer, const char *text, uint32_t other)
{
    nx_doing d = {.question = r->asked[peer].question,
                  .waits = true,
                  .now = {.age_ns = 8 * SECOND},
                  .nfor = 1,
                  .listed = 1,
                  .who = {other}};

    (void)snprintf(d.now.text, sizeof(d.now.text), "%s", text);
    nx_stall_on_answer(r->stall, peer, &d);
}

/* Cycles of any length, with this rank at any position. */
static void test_a_circle_of_ranks_is_a_deadlock(void **state)
{
    rig r;

    (void)state;
    setup(&r, 10 * SECOND);
    r.op.what = (nx_what){.kind = NX_WHAT_SEND, .name = "send", .peer = 1, .tag = 7};
    start(&r);
    pass(&r, 10 * SECOND);
    tell_message(&r, 1, "send(to rank 2, tag 7)", 2);
    tell_message(&r, 2, "send(to rank 0, tag 7)", 0);
    assert_string_equal(r.lines[1], "deadlock: 0 -> 1 -> 2 -> 0");
    assert_int_equal(r.voices[1], NX_STALL_WARN);
    r.nlines = 0;
    pass(&r, 20 * SECOND); /* and again; now it leads from this rank to a cycle of nine */
    for (uint32_t i = 1; i < 9; i++) {
        tell_message(&r, i, "send(to rank 2, tag 7)", i + 1);
    }
    tell_message(&r, 9, "send(to rank 1, tag 7)", 1);
    assert_string_equal(r.lines[1], "deadlock: 1 -> 2 -> 3 -> 4 -> 5 -> 6 -> 7 -> 8 -> 9 -> 1");
    teardown(&r);
}

static void test_what_is_no_circle_is_no_deadlock(void **state)
{
    rig r;

    (void)state;
    setup(&r, 10 * SECOND);
    start(&r);
    pass(&r, 10 * SECOND);
    tell_message(&r, 1, "recv(from rank 2, tag 7)", 2);
    tell_user_code(&r, 2);
    assert_int_equal(r.nlines, 3);
    assert_false(said(&r, "deadlock"));
    teardown(&r);
}

static void test_a_message_that_nobody_receives_explains_the_wait(void **state)
{
    rig r;

    (void)state;
    setup(&r, 10 * SECOND);
    r.note = "a message from rank 1 with tag 8" NX_UNMATCHED;
    start(&r);
    pass(&r, 10 * SECOND);
    tell_message(&r, 1, "recv(from rank 0, tag 9)", 0);
    assert_string_equal(r.lines[0], "rank 0 has waited 10.0 s in recv(from rank 1, tag 7) for rank "
                                    "1: a message from rank 1 with tag 8 is here and matches no "
                                    "receive");
    assert_false(said(&r, "each waits for the other"));
    r.note = NULL; /* the other one knows */
    r.nlines = 0;
    pass(&r, 20 * SECOND);
    tell_message(&r, 1,
                 "recv(from rank 0, tag 9) (a message from rank 0 with tag 7" NX_UNMATCHED ")", 0);
    assert_int_equal(r.nlines, 2);
    assert_false(said(&r, "each waits for the other"));
    teardown(&r);
}

/* It warns when it serves no more calls. */
static void test_a_server_in_a_barrier_does_not_warn(void **state)
{
    rig r;

    (void)state;
    setup(&r, 10 * SECOND);
    start_collective(&r, 1, true);
    r.served++;
    pass(&r, 10 * SECOND);
    tell_user_code(&r, 1);
    assert_int_equal(r.nlines, 1);
    assert_int_equal(r.voices[0], NX_STALL_INFO);
    assert_true(said(&r, "for rank 1; rank 0 serves RPCs"));
    r.nlines = 0;
    pass(&r, 20 * SECOND);
    tell_user_code(&r, 1);
    assert_int_equal(r.voices[0], NX_STALL_WARN);
    assert_false(said(&r, "serves"));
    teardown(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_speaks_when_the_time_is_over_and_not_before),
        cmocka_unit_test(test_intervals_grow_and_a_new_operation_begins_anew),
        cmocka_unit_test(test_what_ends_meanwhile_is_not_reported),
        cmocka_unit_test(test_zero_means_on_demand_only),
        cmocka_unit_test(test_who_is_silent_and_who_is_gone_is_said),
        cmocka_unit_test(test_lists_are_short),
        cmocka_unit_test(test_ranks_in_the_middle_do_not_print),
        cmocka_unit_test(test_rank_0_follows_the_chain_to_its_end),
        cmocka_unit_test(test_a_deadlock_of_two_is_named),
        cmocka_unit_test(test_a_long_message_is_no_deadlock),
        cmocka_unit_test(test_a_local_wait_of_a_rank_is_reported),
        cmocka_unit_test(test_a_circle_of_ranks_is_a_deadlock),
        cmocka_unit_test(test_what_is_no_circle_is_no_deadlock),
        cmocka_unit_test(test_a_message_that_nobody_receives_explains_the_wait),
        cmocka_unit_test(test_a_server_in_a_barrier_does_not_warn),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
