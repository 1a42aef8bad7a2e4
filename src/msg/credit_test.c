/* credit_test.c - both ends of an account agree, whatever is on the way. */
#include "msg/credit.h"

#include "base/random.h"
#include "unit.h"

static void test_a_new_account_has_a_little_credit_before_the_first_word(void **state)
{
    nx_credit_out c;
    uint64_t eager = 99;

    (void)state;
    nx_credit_out_init(&c);
    assert_int_equal(nx_credit_plan(&c, 8, 1024, 4096, &eager), NX_PLAN_INLINE);
    nx_credit_spend(&c, 8);
    assert_int_equal(nx_credit_plan(&c, 8, 1024, 4096, &eager), NX_PLAN_WAIT);
    assert_int_equal(nx_credit_open(&c, NX_CREDIT_START - 1), NEXAR_EPROTO);
    assert_int_equal(nx_credit_open(&c, 1 << 20), NEXAR_OK);
    assert_int_equal(nx_credit_plan(&c, 8, 1024, 4096, &eager), NX_PLAN_INLINE);
}

static void test_bytes_stop_before_envelopes_do(void **state)
{
    nx_credit_out c;
    uint64_t eager = 0, window = 1 << 20;
    size_t wholes = 0, shorts = 0, envelopes = 0;

    (void)state;
    nx_credit_out_init(&c);
    assert_int_equal(nx_credit_open(&c, window), NEXAR_OK);
    while ((nx_credit_plan(&c, 10000, 1000, 10000, &eager) == NX_PLAN_LONG) && (eager == 10000)) {
        nx_credit_spend(&c, eager);
        wholes++;
    }
    assert_true(c.spent <= window / 2);
    while (nx_credit_plan(&c, 1000, 1000, 10000, &eager) == NX_PLAN_INLINE) {
        nx_credit_spend(&c, 1000);
        shorts++;
    }
    assert_true(c.spent <= window / 4 * 3);
    while (nx_credit_plan(&c, 1000, 1000, 10000, &eager) == NX_PLAN_LONG) {
        assert_int_equal(eager, 0);
        nx_credit_spend(&c, 0);
        envelopes++;
    }
    assert_true((wholes > 40) && (shorts > 180) && (envelopes >= window / 4 / NX_ENVELOPE_COST));
    assert_true(c.limit - c.spent < NX_ENVELOPE_COST);
}

static void test_an_eager_part_ends_at_a_unit_or_is_the_whole(void **state)
{
    nx_random_seeded random;

    (void)state;
    nx_random_seeded_init(&random, 4);
    for (int i = 0; i < 20000; i++) {
        nx_credit_out c = {.window = 1 << 16, .limit = 1 << 16};
        uint64_t len = 1 + nx_random_below(&random.random, 1 << 17), eager = 0;
        size_t inline_max = (size_t)nx_random_below(&random.random, 4096),
               eager_max = (size_t)nx_random_below(&random.random, 1 << 16);

        c.spent = nx_random_below(&random.random, c.limit);
        if (nx_credit_plan(&c, len, inline_max, eager_max, &eager) != NX_PLAN_LONG) {
            continue;
        }
        assert_true((eager <= eager_max) && (eager <= len));
        assert_true((eager == len) || (eager % NX_UNIT_MAX == 0));
        nx_credit_spend(&c, eager); /* asserts that it is covered */
    }
}

static void test_credit_never_goes_back(void **state)
{
    nx_credit_out c;

    (void)state;
    nx_credit_out_init(&c);
    assert_int_equal(nx_credit_raise(&c, 2000), NEXAR_OK);
    assert_int_equal(nx_credit_raise(&c, 2000), NEXAR_OK);
    assert_int_equal(nx_credit_raise(&c, 1999), NEXAR_EPROTO);
    assert_int_equal(nx_credit_raise(&c, UINT64_MAX), NEXAR_EPROTO);
    assert_int_equal(c.limit, 2000);
}

static void test_what_is_not_covered_is_noticed(void **state)
{
    nx_credit_in c;

    (void)state;
    nx_credit_in_init(&c, NX_CREDIT_START);
    assert_true(nx_credit_charge(&c, NX_CREDIT_START));
    assert_false(nx_credit_charge(&c, 1));
    assert_false(nx_credit_charge(&c, UINT64_MAX));
    assert_true(nx_credit_charge(&c, 0));
}

/* Sender, wire and receiver as three numbers each way; the receiver matches when
 * it likes.  The window is never exceeded, nobody is ever refused, few frames tell
 * the credit, and with everything matched the sender can go on. */
static void test_both_ends_agree_at_every_step(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        nx_random_seeded random;
        nx_credit_out out;
        nx_credit_in in;
        uint64_t flying[64], lying = 0, told[64], limit, eager = 0, messages = 0, frames = 0;
        size_t nflying = 0, ntold = 0;

        nx_random_seeded_init(&random, seed);
        nx_credit_out_init(&out);
        nx_credit_in_init(&in, NX_CREDIT_START + nx_random_below(&random.random, 1 << 18));
        assert_int_equal(nx_credit_open(&out, in.told), NEXAR_OK);
        for (int i = 0; i < 5000; i++) {
            uint64_t len = nx_random_below(&random.random, 3000), bytes = len;

            if ((nflying < 64) && nx_random_below(&random.random, 2)) {
                nx_plan plan = nx_credit_plan(&out, len, 1000, 2048, &eager);

                if (plan != NX_PLAN_WAIT) {
                    bytes = (plan == NX_PLAN_INLINE) ? len : eager;
                    nx_credit_spend(&out, bytes);
                    flying[nflying++] = NX_ENVELOPE_COST + bytes;
                    messages++;
                } else if (in.told == out.limit) {
                    in.starved = true;
                }
            } else if ((nflying > 0) && nx_random_below(&random.random, 2)) {
                assert_true(nx_credit_charge(&in, flying[--nflying]));
                lying += flying[nflying];
            } else if (lying > 0) {
                uint64_t some = 1 + nx_random_below(&random.random, lying);

                nx_credit_release(&in, some);
                lying -= some;
            }
            if ((ntold < 64) && nx_credit_due(&in, &limit)) {
                told[ntold++] = limit;
                frames++;
            }
            if ((ntold > 0) && nx_random_below(&random.random, 2)) {
                assert_int_equal(nx_credit_raise(&out, told[0]), NEXAR_OK);
                ntold--;
                for (size_t k = 0; k < ntold; k++) {
                    told[k] = told[k + 1];
                }
            }
            assert_int_equal(nx_credit_used(&in), lying);
            assert_true(lying <= in.window);
            assert_true((in.charged <= out.spent) && (out.spent <= out.limit));
            assert_true((out.limit <= in.told) && (in.told <= in.window + in.released));
        }
        while (nflying > 0) {
            assert_true(nx_credit_charge(&in, flying[--nflying]));
            lying += flying[nflying];
        }
        nx_credit_release(&in, lying);
        in.starved = true;
        if (nx_credit_due(&in, &limit)) {
            assert_int_equal(nx_credit_raise(&out, limit), NEXAR_OK);
        }
        assert_true(nx_credit_plan(&out, 1, 0, 0, &eager) != NX_PLAN_WAIT);
        assert_true(messages > 0);
        assert_true(frames <= messages);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_new_account_has_a_little_credit_before_the_first_word),
        cmocka_unit_test(test_bytes_stop_before_envelopes_do),
        cmocka_unit_test(test_an_eager_part_ends_at_a_unit_or_is_the_whole),
        cmocka_unit_test(test_credit_never_goes_back),
        cmocka_unit_test(test_what_is_not_covered_is_noticed),
        cmocka_unit_test(test_both_ends_agree_at_every_step),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
