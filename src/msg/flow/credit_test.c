/* credit_test.c - both ends of an account agree, whatever is in flight. */
#include "credit.h"

#include "base/random.h"
#include "unit.h"

static void test_a_new_account_has_a_little_credit_before_the_first_word(void **state)
{
    nx_credit_out c;
    uint64_t eager = 99;

    (void)state;
    nx_credit_out_init(&c);
    assert_int_equal(nx_credit_plan(&c, 8, 1024, 4096, &eager), NX_SEND_PLAN_INLINE);
    nx_credit_spend(&c, 8);
    assert_int_equal(nx_credit_plan(&c, 8, 1024, 4096, &eager), NX_SEND_PLAN_WAIT);
    assert_int_equal(nx_credit_open(&c, NX_CREDIT_START - 1), NEXAR_EPROTO);
    assert_int_equal(nx_credit_open(&c, 1 << 20), NEXAR_OK);
    assert_int_equal(nx_credit_plan(&c, 8, 1024, 4096, &eager), NX_SEND_PLAN_INLINE);
}

static void test_bytes_stop_before_envelopes_do(void **state)
{
    nx_credit_out c;
    uint64_t eager = 0, window = 1 << 20;
    size_t wholes = 0, shorts = 0, envelopes = 0;

    (void)state;
    nx_credit_out_init(&c);
    assert_int_equal(nx_credit_open(&c, window), NEXAR_OK);
    while ((nx_credit_plan(&c, 10000, 1000, 10000, &eager) == NX_SEND_PLAN_LONG) &&
           (eager == 10000)) {
        nx_credit_spend(&c, eager);
        wholes++;
    }
    assert_true(c.spent <= window / 2);
    while (nx_credit_plan(&c, 1000, 1000, 10000, &eager) == NX_SEND_PLAN_INLINE) {
        nx_credit_spend(&c, 1000);
        shorts++;
    }
    assert_true(c.spent <= window / 4 * 3);
    while (nx_credit_plan(&c, 1000, 1000, 10000, &eager) == NX_SEND_PLAN_LONG) {
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
        if (nx_credit_plan(&c, len, inline_max, eager_max, &eager) != NX_SEND_PLAN_LONG) {
            continue;
        }
        assert_true((eager <= eager_max) && (eager <= len));
        assert_true((eager == len) || (eager % NX_UNIT_MAX == 0));
        nx_credit_spend(&c, eager); /* asserts that credit covers it */
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

static void test_a_starved_sender_gets_at_once_what_there_is(void **state)
{
    nx_credit_in c;
    uint64_t limit = 0;

    (void)state;
    nx_credit_in_init(&c, 100000);
    assert_true(nx_credit_charge(&c, 100000));
    nx_credit_release(&c, 1000);
    assert_false(nx_credit_due(&c, &limit)); /* not worth a frame */
    c.starved = true;
    assert_true(nx_credit_due(&c, &limit) && (limit == 101000) && !c.starved);
    c.starved = true;
    nx_credit_release(&c, NX_ENVELOPE_COST - 1);
    assert_false(nx_credit_due(&c, &limit)); /* the sender could not use it */
    nx_credit_release(&c, 1);
    assert_true(nx_credit_due(&c, &limit));
    nx_credit_release(&c, 25000);
    assert_true(nx_credit_due(&c, &limit) && (limit == 126000 + NX_ENVELOPE_COST));
}

static void test_what_is_given_back_makes_the_window_smaller(void **state)
{
    nx_credit_out out;
    nx_credit_in in;
    uint64_t limit = 0;

    (void)state;
    nx_credit_out_init(&out);
    nx_credit_in_init(&in, 10000);
    assert_int_equal(nx_credit_open(&out, in.told), NEXAR_OK);
    nx_credit_spend(&out, 1000 - NX_ENVELOPE_COST);
    in.excess = 6000;
    assert_int_equal(nx_credit_give_back(&out, 6000), 6000);
    assert_true(nx_credit_returned(&in, 6000)); /* which may arrive before the message */
    assert_true(nx_credit_charge(&in, 1000));
    assert_true((in.window == 4000) && (in.excess == 0) && (nx_credit_used(&in) == 1000));
    assert_int_equal(nx_credit_release(&in, 1000), 0);
    assert_true(nx_credit_due(&in, &limit));
    assert_int_equal(nx_credit_raise(&out, limit), NEXAR_OK);
    assert_int_equal(out.limit - out.spent, 4000);
    assert_int_equal(nx_credit_give_back(&out, 5000), 4000); /* all its credit */
    assert_false(nx_credit_returned(&in, 4001));

    nx_credit_in_init(
        &in, 10000); /* the sender has spent everything: the window shrinks as credit is released */
    assert_true(nx_credit_charge(&in, 10000));
    in.excess = 6000;
    assert_int_equal(nx_credit_release(&in, 5000), 5000);
    assert_int_equal(nx_credit_release(&in, 5000), 1000);
    assert_true((in.window == 4000) && nx_credit_due(&in, &limit) && (limit == 14000));
}

/* Sender, wire and receiver. The receiver matches at any time. */
enum { WIRE = 64 };

typedef struct account {
    nx_random_seeded random;
    nx_credit_out out;
    nx_credit_in in;
    uint64_t flying[WIRE], told[WIRE]; /* costs in one direction, limits in the other */
    size_t nflying, ntold;
    uint64_t lying, messages, frames;
} account;

static uint64_t below(account *a, uint64_t limit)
{
    return nx_random_below(&a->random.random, limit);
}

static void try_send(account *a)
{
    uint64_t len = below(a, 3000), eager = 0;
    nx_send_plan plan = nx_credit_plan(&a->out, len, 1000, 2048, &eager);

    if (plan != NX_SEND_PLAN_WAIT) {
        uint64_t bytes = (plan == NX_SEND_PLAN_INLINE) ? len : eager;

        nx_credit_spend(&a->out, bytes);
        a->flying[a->nflying++] = NX_ENVELOPE_COST + bytes;
        a->messages++;
    } else if (a->in.told == a->out.limit) {
        a->in.starved = true;
    }
}

static void arrive(account *a)
{
    a->lying += a->flying[--a->nflying];
    assert_true(nx_credit_charge(&a->in, a->flying[a->nflying])); /* no sender is refused */
}

static void match(account *a, uint64_t some)
{
    nx_credit_release(&a->in, some);
    a->lying -= some;
}

static void tell(account *a)
{
    if ((a->ntold < WIRE) && nx_credit_due(&a->in, &a->told[a->ntold])) {
        a->ntold++;
        a->frames++;
    }
}

static void hear(account *a)
{
    assert_int_equal(nx_credit_raise(&a->out, a->told[0]), NEXAR_OK);
    a->ntold--;
    for (size_t k = 0; k < a->ntold; k++) {
        a->told[k] = a->told[k + 1];
    }
}

static void check(const account *a)
{
    assert_int_equal(nx_credit_used(&a->in), a->lying);
    assert_true(a->lying <= a->in.window);
    assert_true((a->in.charged <= a->out.spent) && (a->out.spent <= a->out.limit));
    assert_true((a->out.limit <= a->in.told) && (a->in.told <= a->in.window + a->in.released));
}

static void live(account *a)
{
    for (int i = 0; i < 5000; i++) {
        if ((a->nflying < WIRE) && below(a, 2)) {
            try_send(a);
        } else if ((a->nflying > 0) && below(a, 2)) {
            arrive(a);
        } else if (a->lying > 0) {
            match(a, 1 + below(a, a->lying));
        }
        tell(a);
        if ((a->ntold > 0) && below(a, 2)) {
            hear(a);
        }
        check(a);
    }
}

static void test_both_ends_agree_at_every_step(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        account a = {.nflying = 0};
        uint64_t eager;

        nx_random_seeded_init(&a.random, seed);
        nx_credit_out_init(&a.out);
        nx_credit_in_init(&a.in, NX_CREDIT_START + below(&a, 1 << 18));
        assert_int_equal(nx_credit_open(&a.out, a.in.told), NEXAR_OK);
        live(&a);
        assert_true((a.messages > 0) && (a.frames <= a.messages));
        /* With everything matched the sender can continue. */
        while (a.nflying > 0) {
            arrive(&a);
        }
        match(&a, a.lying);
        a.in.starved = true;
        tell(&a);
        while (a.ntold > 0) {
            hear(&a);
        }
        assert_true(nx_credit_plan(&a.out, 1, 0, 0, &eager) != NX_SEND_PLAN_WAIT);
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
        cmocka_unit_test(test_a_starved_sender_gets_at_once_what_there_is),
        cmocka_unit_test(test_what_is_given_back_makes_the_window_smaller),
        cmocka_unit_test(test_both_ends_agree_at_every_step),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
