/*
 * consensus_sim_test.c - consensus in virtual time, over many seeds.
 *
 *     consensus_sim_test          50 000 seeds, and each injected fault is found
 *     consensus_sim_test SEED     that seed, with a trace of its events
 *
 * NXT_LONG makes it a million seeds; NXT_SEED is the first seed.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "cluster/consensus_rig.h"
#include "unit.h"

enum { SEEDS = 50000, LONG_SEEDS = 1000000, FAULT_SEEDS = 20000 };

static uint64_t from_env(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name); /* NOLINT(concurrency-mt-unsafe) */

    return (text == NULL) ? otherwise : strtoull(text, NULL, 10);
}

static void test_all_seeds_agree(void **state)
{
    const bool many = (getenv("NXT_LONG") != NULL); /* NOLINT(concurrency-mt-unsafe) */
    const uint64_t first = from_env("NXT_SEED", 0);
    nxt_consensus_result sum = {0};

    (void)state;
    for (uint64_t seed = first; seed < first + (many ? LONG_SEEDS : SEEDS); seed++) {
        const nxt_consensus_plan plan = nxt_consensus_plan_of(seed);
        nxt_consensus_result r;

        nxt_consensus_run(&plan, false, &r);
        sum.frames += r.frames;
        sum.decided += r.decided;
        sum.ended += r.ended;
        sum.crashed += r.crashed;
        sum.leavers_gone += r.leavers_gone;
        if (!r.good) {
            nxt_consensus_plan_print(&plan);
            nxt_consensus_run(&plan, true, &r);
            fail_msg("seed %" PRIu64 ": %s", seed, r.text);
        }
    }
    printf("%u decisions, %u frames, %u ranks died, %u were told to end, %u left\n", sum.decided,
           sum.frames, sum.crashed, sum.ended, sum.leavers_gone);
}

/* Without failures a consensus takes four messages for each rank but one, with |early| two; DONE
 * and FORGET are sent once, at the end. */
static void test_without_failures_it_costs_what_is_promised(void **state)
{
    (void)state;
    for (uint32_t size = 1; size <= NXT_CONSENSUS_RANKS; size++) {
        for (uint32_t early = 0; early <= 1; early++) {
            const nxt_consensus_plan plan = {.seed = size,
                                             .size = size,
                                             .instances = 3,
                                             .early = (early != 0),
                                             .uniform = true,
                                             .delay = 20,
                                             .detection = 1};
            nxt_consensus_result r;

            nxt_consensus_run(&plan, false, &r);
            assert_true(r.good);
            assert_int_equal(r.decided, 3 * size);
            assert_int_equal(r.frames, (early ? 8U : 14U) * (size - 1));
        }
    }
}

static const char *const fault_names[NXT_FAULTS] = {
    [NXT_FAULT_LOSE_UP] = "UP is lost",
    [NXT_FAULT_LOSE_PROPOSE] = "PROPOSE is lost",
    [NXT_FAULT_LOSE_ACK] = "ACK is lost",
    [NXT_FAULT_LOSE_DECIDE] = "DECIDE is lost",
    [NXT_FAULT_LOSE_DONE] = "DONE is lost",
    [NXT_FAULT_LOSE_FORGET] = "FORGET is lost",
    [NXT_FAULT_FORGET_ACCEPTED] = "what was accepted is forgotten",
    [NXT_FAULT_FALSE_ACK] = "ACK without having accepted",
    [NXT_FAULT_ANY_BALLOT] = "ballots are not compared",
    [NXT_FAULT_OLD_UP] = "UP of another instance",
    [NXT_FAULT_OTHER_FLAGS] = "another value to one child",
    [NXT_FAULT_EARLY] = "decides before all have accepted",
    [NXT_FAULT_NO_QUORUM] = "a minority continues",
    [NXT_FAULT_LET_GO_AS_DEAD] = "leavers are declared failed",
    [NXT_FAULT_UNSAID_LEAVE] = "who has left is not said",
    [NXT_FAULT_AWAIT_LEAVERS] = "the end waits for leavers",
    [NXT_FAULT_DEAF_TO_LEAVERS] = "leavers are not answered",
};

/* Each injected fault must be detected in some seed. */
static void test_every_fault_is_noticed(void **state)
{
    (void)state;
    for (uint32_t fault = NXT_FAULT_NONE + 1; fault < NXT_FAULTS; fault++) {
        nxt_consensus_result r = {.good = true};
        uint64_t seed = 0;

        for (; (seed < FAULT_SEEDS) && r.good; seed++) {
            nxt_consensus_plan plan = nxt_consensus_plan_of(seed);

            plan.fault = (nxt_consensus_fault)fault;
            nxt_consensus_run(&plan, false, &r);
        }
        printf("%-34s %s after %" PRIu64 " seeds: %s\n", fault_names[fault],
               r.good ? "NOT NOTICED" : "noticed", seed, r.text);
        assert_false(r.good);
    }
}

static int run_one(uint64_t seed)
{
    const nxt_consensus_plan plan = nxt_consensus_plan_of(seed);
    nxt_consensus_result r;

    nxt_consensus_plan_print(&plan);
    nxt_consensus_run(&plan, true, &r);
    return r.good ? 0 : 1;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_seeds_agree),
        cmocka_unit_test(test_without_failures_it_costs_what_is_promised),
        cmocka_unit_test(test_every_fault_is_noticed),
    };

    if (argc == 2) {
        return run_one(strtoull(argv[1], NULL, 10));
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
