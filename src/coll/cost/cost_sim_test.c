/* The simulation of costs: small cases worked out by hand. */
#include "coll/cost/cost_sim.h"

#include "oom.h"
#include "unit.h"

/* Unambiguous numbers: bytes take seconds. */
static const nx_net network = {
    .ranks = 2,
    .hosts = 2,
    .elem_size = 1,
    .latency = 1000,
    .bandwidth = 1,
    .local_latency = 100,
    .local_bandwidth = 10,
    .message_cpu = 10,
    .local_cpu = 1,
    .reduce_bandwidth = 2,
};

static nx_forecast simulate(nx_net net, uint32_t ranks, uint32_t hosts, nx_rank_builder build)
{
    nx_forecast f = {.net = &net};

    net.ranks = ranks;
    net.hosts = hosts;
    assert_int_equal(nx_cost_simulate(build, NULL, 0, &f), NEXAR_OK);
    return f;
}

static void check_time(double is, double expected)
{
    assert_true((is > expected * (1 - 1e-6)) && (is < expected * (1 + 1e-6)));
}

static nx_ref recv_at(size_t off)
{
    return nx_at(NX_SPACE_RECV, off);
}

/* ---- one message --------------------------------------------------------------------- */

static nexar_err one_message(void *ctx, uint32_t rank, nx_sched *s)
{
    (void)ctx;
    if (rank == 0) {
        nx_send(s, 1, 0, recv_at(0), 50);
    } else {
        nx_recv(s, 0, 0, recv_at(0), 50);
    }
    return nx_sched_seal(s);
}

static void test_a_message_takes_cpu_wire_latency_and_cpu(void **state)
{
    (void)state;
    nx_forecast f = simulate(network, 2, 2, one_message);

    check_time(f.time_s, 10 + 50 + 1000 + 10);
    assert_int_equal(f.rounds, 1);
    assert_int_equal(f.messages, 1);
    assert_int_equal(f.sent, 50);
}

static void test_inside_a_host_the_local_numbers_count(void **state)
{
    (void)state;
    check_time(simulate(network, 2, 1, one_message).time_s, 1 + 5 + 100 + 1);
}

static nexar_err one_reduction(void *ctx, uint32_t rank, nx_sched *s)
{
    (void)ctx;
    if (rank == 0) {
        nx_send(s, 1, 0, recv_at(0), 50);
    } else {
        nx_recv_reduce(s, 0, 0, recv_at(0), recv_at(0), 50);
        nx_copy(s, recv_at(50), recv_at(0), 50);
    }
    return nx_sched_seal(s);
}

static void test_combining_and_copying_take_cpu(void **state)
{
    (void)state;
    check_time(simulate(network, 2, 2, one_reduction).time_s, 10 + 50 + 1000 + 10 + 25 + 25);
}

/* ---- chains -------------------------------------------------------------------------- */

static nexar_err chain(void *ctx, uint32_t rank, nx_sched *s)
{
    (void)ctx;
    if (rank > 0) {
        nx_recv(s, rank - 1, 0, recv_at(0), 50);
    }
    if (rank < 2) {
        nx_send(s, rank + 1, 0, recv_at(0), 50);
    }
    return nx_sched_seal(s);
}

static void test_a_chain_of_three_takes_two_messages(void **state)
{
    (void)state;
    nx_forecast f = simulate(network, 3, 3, chain);

    check_time(f.time_s, 2 * (10 + 50 + 1000 + 10));
    assert_int_equal(f.rounds, 2);
    assert_int_equal(f.messages, 1);

    /* The first two ranks share a host. */
    check_time(simulate(network, 3, 2, chain).time_s, (1 + 5 + 100 + 1) + (10 + 50 + 1000 + 10));
}

/* Two segments: the second follows a wire's time behind the first. */
static nexar_err two_segments(void *ctx, uint32_t rank, nx_sched *s)
{
    (void)ctx;
    for (uint32_t i = 0; i < 2; i++) {
        if (rank > 0) {
            nx_recv(s, rank - 1, i, recv_at(50 * i), 50);
        }
        if (rank < 2) {
            nx_send(s, rank + 1, i, recv_at(50 * i), 50);
        }
    }
    return nx_sched_seal(s);
}

static void test_segments_follow_one_another(void **state)
{
    (void)state;
    nx_forecast f = simulate(network, 3, 3, two_segments);

    check_time(f.time_s, 2 * (10 + 50 + 1000 + 10) + 50);
    assert_int_equal(f.rounds, 2);
    assert_int_equal(f.messages, 2);
    assert_int_equal(f.sent, 100);
}

/* ---- shared resources ---------------------------------------------------------------- */

/* Ranks 0, 1 send to ranks 2, 3. */
static nexar_err two_pairs(void *ctx, uint32_t rank, nx_sched *s)
{
    (void)ctx;
    if (rank < 2) {
        nx_send(s, rank + 2, 0, recv_at(0), 50);
    } else {
        nx_recv(s, rank - 2, 0, recv_at(0), 50);
    }
    return nx_sched_seal(s);
}

static void test_ranks_of_a_host_share_its_wire(void **state)
{
    (void)state;
    check_time(simulate(network, 4, 4, two_pairs).time_s, 10 + 50 + 1000 + 10);
    check_time(simulate(network, 4, 2, two_pairs).time_s, 10 + 50 + 50 + 1000 + 10);
}

/* Ranks 1, 2 send to rank 0. */
static nexar_err two_to_one(void *ctx, uint32_t rank, nx_sched *s)
{
    (void)ctx;
    if (rank == 0) {
        nx_recv(s, 1, 0, recv_at(0), 50);
        nx_recv(s, 2, 0, recv_at(50), 50);
    } else {
        nx_send(s, 0, 0, recv_at(0), 50);
    }
    return nx_sched_seal(s);
}

static void test_the_way_in_is_shared_too(void **state)
{
    (void)state;
    check_time(simulate(network, 3, 3, two_to_one).time_s, 10 + 1000 + 50 + 50 + 10);
}

/* Two empty messages: they occupy only the CPUs, one message at a time. */
static nexar_err two_empty(void *ctx, uint32_t rank, nx_sched *s)
{
    (void)ctx;
    for (uint32_t i = 0; i < 2; i++) {
        if (rank == 0) {
            nx_send(s, 1, i, recv_at(0), 0);
        } else {
            nx_recv(s, 0, i, recv_at(0), 0);
        }
    }
    return nx_sched_seal(s);
}

static void test_a_cpu_does_one_thing_at_a_time(void **state)
{
    (void)state;
    check_time(simulate(network, 2, 2, two_empty).time_s, 10 + 10 + 1000 + 10);
}

/* ---- waits --------------------------------------------------------------------------- */

/* Rank 0 sends its block and overwrites it with the block from rank 1. */
static nexar_err overwrite(void *ctx, uint32_t rank, nx_sched *s)
{
    (void)ctx;
    if (rank == 0) {
        nx_send(s, 1, 0, recv_at(0), 50);
        nx_recv(s, 1, 0, recv_at(0), 50);
    } else {
        nx_send(s, 0, 0, recv_at(100), 50);
        nx_recv(s, 0, 0, recv_at(0), 50);
    }
    return nx_sched_seal(s);
}

static void test_a_block_is_overwritten_when_its_send_was_acknowledged(void **state)
{
    (void)state;
    nx_forecast f = simulate(network, 2, 2, overwrite);

    /* Sent, arrived, acknowledged; only then is the message received that arrived long ago. */
    check_time(f.time_s, (10 + 50 + 1000) + 1000 + 10);
    assert_int_equal(f.rounds, 1);
}

static nexar_err nothing(void *ctx, uint32_t rank, nx_sched *s)
{
    (void)ctx;
    (void)rank;
    return nx_sched_seal(s);
}

static void test_empty_schedules_take_no_time(void **state)
{
    (void)state;
    nx_forecast f = simulate(network, 3, 2, nothing);

    check_time(1 + f.time_s, 1);
    assert_int_equal(f.rounds, 0);
    assert_int_equal(f.messages, 0);
}

/* ---- errors -------------------------------------------------------------------------- */

static nexar_err only_sends(void *ctx, uint32_t rank, nx_sched *s)
{
    (void)ctx;
    if (rank == 0) {
        nx_send(s, 1, 0, recv_at(0), 50);
    }
    return nx_sched_seal(s);
}

static nexar_err only_receives(void *ctx, uint32_t rank, nx_sched *s)
{
    (void)ctx;
    if (rank == 1) {
        nx_recv(s, 0, 0, recv_at(0), 50);
    }
    return nx_sched_seal(s);
}

static nexar_err other_length(void *ctx, uint32_t rank, nx_sched *s)
{
    (void)ctx;
    if (rank == 0) {
        nx_send(s, 1, 0, recv_at(0), 50);
    } else {
        nx_recv(s, 0, 0, recv_at(0), 51);
    }
    return nx_sched_seal(s);
}

static nexar_err nobody(void *ctx, uint32_t rank, nx_sched *s)
{
    (void)ctx;
    (void)rank;
    nx_send(s, 7, 0, recv_at(0), 50);
    return nx_sched_seal(s);
}

/* Each rank waits for the other's message before it sends its own. */
static nexar_err deadlock(void *ctx, uint32_t rank, nx_sched *s)
{
    (void)ctx;
    nx_recv(s, 1 - rank, 0, recv_at(0), 50);
    nx_send(s, 1 - rank, 0, recv_at(0), 50);
    return nx_sched_seal(s);
}

static nexar_err refused(void *ctx, uint32_t rank, nx_sched *s)
{
    (void)ctx;
    (void)rank;
    nx_send(s, 0, NX_MAX_ROUNDS, recv_at(0), 1);
    return nx_sched_seal(s);
}

static void check_refused(nx_rank_builder build, nexar_err expected)
{
    nx_forecast f = {.net = &network, .time_s = -1};

    assert_int_equal(nx_cost_simulate(build, NULL, 0, &f), expected);
    assert_true(f.time_s < 0);
}

static void test_wrong_schedules_are_refused(void **state)
{
    (void)state;
    check_refused(only_sends, NEXAR_EINTERNAL);
    check_refused(only_receives, NEXAR_EINTERNAL);
    check_refused(other_length, NEXAR_EINTERNAL);
    check_refused(nobody, NEXAR_EINTERNAL);
    check_refused(deadlock, NEXAR_EINTERNAL);
    check_refused(refused, NEXAR_EINVAL);
}

static void test_out_of_memory(void **state)
{
    (void)state;
    NXT_FOR_EACH_OOM (n) {
        nx_forecast f = {.net = &network, .time_s = -1};
        nexar_err err = nx_cost_simulate(one_reduction, NULL, 0, &f);

        assert_int_equal(err, nx_alloc_failed() ? NEXAR_ENOMEM : NEXAR_OK);
        assert_true((err == NEXAR_OK) == (f.time_s > 0));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_message_takes_cpu_wire_latency_and_cpu),
        cmocka_unit_test(test_inside_a_host_the_local_numbers_count),
        cmocka_unit_test(test_combining_and_copying_take_cpu),
        cmocka_unit_test(test_a_chain_of_three_takes_two_messages),
        cmocka_unit_test(test_segments_follow_one_another),
        cmocka_unit_test(test_ranks_of_a_host_share_its_wire),
        cmocka_unit_test(test_the_way_in_is_shared_too),
        cmocka_unit_test(test_a_cpu_does_one_thing_at_a_time),
        cmocka_unit_test(test_a_block_is_overwritten_when_its_send_was_acknowledged),
        cmocka_unit_test(test_empty_schedules_take_no_time),
        cmocka_unit_test(test_wrong_schedules_are_refused),
        cmocka_unit_test(test_out_of_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
