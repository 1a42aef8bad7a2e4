/* claim_test.c - every unit of an offer is transferred once, by one of the two sides. */
#include "transport/shm/claim.h"

#include <pthread.h>
#include <sched.h>

#include "unit.h"

enum { OFFERS = 5000, UNITS = 7 };

static void test_alone(void **state)
{
    uint32_t claimed = 99;
    nx_claim c;

    (void)state;
    nx_claim_open(&c, 5);
    assert_true(nx_claim_next(&c) && nx_claim_next(&c));
    assert_false(nx_claim_take(&c, 4, UNITS, &claimed)); /* another offer */
    assert_false(nx_claim_take(&c, 5, 2, &claimed));     /* no unit is left */
    assert_true(nx_claim_next(&c));
    assert_true(nx_claim_take(&c, 5, UNITS, &claimed));
    assert_int_equal(claimed, 3);
    assert_false(nx_claim_next(&c));
    nx_claim_open(&c, 6);
    assert_true(nx_claim_next(&c));
    assert_true(nx_claim_take(&c, 6, UNITS, &claimed));
    assert_int_equal(claimed, 1);
}

typedef struct pair {
    nx_claim claim;
    _Atomic uint32_t offered; /* the number of the offer */
    _Atomic uint32_t ended;   /* the receiver has finished this offer */
    uint8_t brought[OFFERS + 1][UNITS];
    uint32_t sent[OFFERS + 1], read[OFFERS + 1]; /* units, by side */
} pair;

static void *send_all(void *arg)
{
    pair *p = arg;

    for (uint32_t number = 1; number <= OFFERS; number++) {
        nx_claim_open(&p->claim, number);
        atomic_store(&p->offered, number);
        while ((p->sent[number] < UNITS) && nx_claim_next(&p->claim)) {
            p->brought[number][p->sent[number]++]++;
        }
        while (atomic_load(&p->ended) < number) {
            (void)sched_yield();
        }
    }
    return NULL;
}

/* Takes the rest now and then, at random times. */
static void receive_all(pair *p)
{
    for (uint32_t number = 1; number <= OFFERS; number++) {
        uint32_t claimed = 0;

        while (atomic_load(&p->offered) < number) {
            (void)sched_yield();
        }
        for (uint32_t i = 0; i < number % 97; i++) {
            (void)atomic_load(&p->offered);
        }
        if (nx_claim_take(&p->claim, number, UNITS, &claimed)) {
            assert_in_range(claimed, 0, UNITS - 1);
            for (uint32_t unit = claimed; unit < UNITS; unit++, p->read[number]++) {
                p->brought[number][unit]++;
            }
        }
        atomic_store(&p->ended, number);
    }
}

static void test_two_at_once(void **state)
{
    static pair p;
    uint64_t sent = 0, read = 0;
    pthread_t sender;

    (void)state;
    assert_int_equal(pthread_create(&sender, NULL, send_all, &p), 0);
    receive_all(&p);
    assert_int_equal(pthread_join(sender, NULL), 0);
    for (uint32_t number = 1; number <= OFFERS; number++) {
        for (uint32_t unit = 0; unit < UNITS; unit++) {
            assert_int_equal(p.brought[number][unit], 1);
        }
        sent += p.sent[number];
        read += p.read[number];
    }
    assert_int_equal(sent + read, (uint64_t)OFFERS * UNITS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_alone),
                                       cmocka_unit_test(test_two_at_once)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
