/* membership_test.c - the invariants of membership.h, one by one and by random events. */
#include "cluster/membership/membership.h"

#include <stdio.h>
#include <string.h>

#include "oom.h"
#include "rand.h"
#include "unit.h"

enum { SLOTS = 8, SELF = 3, MORE = 12, LOG = 4096 };

typedef struct stage {
    nx_membership *m;
    char log[LOG]; /* the notifications of the subscribers, as text */
    uint32_t dues, expelled;
    bool again; /* a subscriber reports an event, and requests notifications */
    uint32_t failed[MORE], left[MORE];
} stage;

static void note(stage *s, const char *who, const char *what, uint32_t slot)
{
    const size_t at = strlen(s->log);

    (void)snprintf(s->log + at, sizeof(s->log) - at, "%s%s %s %u", (at == 0) ? "" : "; ", who, what,
                   slot);
}

static void report(stage *s, uint32_t slot, nx_life life, bool presumed, bool want)
{
    const nx_life_event event = {
        .slot = slot, .life = life, .source = NX_SOURCE_LINK, .presumed = presumed, .why = "why"};

    assert_int_equal(nx_membership_report(s->m, &event, 7), want);
}

static void first_suspect(void *ctx, uint32_t slot)
{
    note(ctx, "a", "suspect", slot);
}

static void first_left(void *ctx, uint32_t slot)
{
    note(ctx, "a", "left", slot);
}

static void first_failed(void *ctx, uint32_t slot)
{
    stage *s = ctx;

    note(s, "a", "failed", slot);
    if (s->again && (slot == 0)) { /* ending it reveals the failure of another rank */
        report(s, 1, NX_LIFE_FAILED, false, true);
        assert_int_equal(nx_membership_life(s->m, 1), NX_LIFE_FAILED);
    }
}

static void second_left(void *ctx, uint32_t slot)
{
    note(ctx, "b", "left", slot);
    ((stage *)ctx)->left[slot]++;
}

static void second_failed(void *ctx, uint32_t slot)
{
    stage *s = ctx;

    assert_int_equal(nx_membership_life(s->m, slot), NX_LIFE_FAILED); /* M3 */
    assert_false(nx_membership_expelled(s->m));
    note(s, "b", "failed", slot);
    s->failed[slot]++;
}

static const nx_life_subscriber table[] = {
    {.name = "a", .on_suspect = first_suspect, .on_left = first_left, .on_failed = first_failed},
    {.name = "b", .on_left = second_left, .on_failed = second_failed},
};

static void on_expelled(void *ctx)
{
    stage *s = ctx;

    assert_true(nx_membership_expelled(s->m));
    s->expelled++;
    note(s, "all", "failed", SELF);
}

static void on_due(void *ctx)
{
    ((stage *)ctx)->dues++;
}

static const nx_membership_config config = {.slots = SLOTS,
                                            .self = SELF,
                                            .subscribers = table,
                                            .nsubscribers = 2,
                                            .on_expelled = on_expelled,
                                            .on_due = on_due};

static void begin(stage *s)
{
    nx_membership_config c = config;

    *s = (stage){0};
    c.ctx = s;
    assert_int_equal(nx_membership_create(&s->m, &c), NEXAR_OK);
}

/* Notifies, and compares with the log of the subscribers. */
static void expect(stage *s, const char *log)
{
    nx_membership_notify(s->m);
    assert_string_equal(s->log, log);
    s->log[0] = '\0';
}

static void test_an_event_is_recorded_at_once_and_notified_later_in_order(void **state)
{
    const nx_life_record *r;
    stage s;

    (void)state;
    begin(&s);
    assert_int_equal(nx_membership_life(s.m, 5), NX_LIFE_ALIVE);
    report(&s, 5, NX_LIFE_FAILED, false, true);
    report(&s, 2, NX_LIFE_LEFT, false, true);
    report(&s, 6, NX_LIFE_SUSPECT, false, true);
    assert_string_equal(s.log, "");
    assert_int_equal(s.dues, 1);
    r = nx_membership_of(s.m, 5);
    assert_int_equal(r->life, NX_LIFE_FAILED);
    assert_int_equal(r->source, NX_SOURCE_LINK);
    assert_int_equal(r->since_ns, 7);
    assert_string_equal(r->why, "why");
    assert_false(nx_membership_settled(s.m, 5));
    expect(&s, "a left 2; b left 2; a failed 5; b failed 5; a suspect 6");
    assert_true(nx_membership_settled(s.m, 5) && nx_membership_settled(s.m, 2));
    assert_false(nx_membership_settled(s.m, 6) || nx_membership_settled(s.m, 0));
    assert_int_equal(nx_membership_failures(s.m), 1);
    assert_int_equal(nx_membership_gone(s.m)->count, 3); /* with this rank itself */
    expect(&s, "");
    nx_membership_destroy(s.m);
}

static void test_a_slot_never_goes_back_and_keeps_its_first_reason(void **state)
{
    stage s;

    (void)state;
    begin(&s);
    report(&s, 1, NX_LIFE_FAILED, false, true);
    report(&s, 1, NX_LIFE_FAILED, false, false);
    report(&s, 1, NX_LIFE_LEFT, false, false);
    report(&s, 1, NX_LIFE_SUSPECT, false, false);
    report(&s, 2, NX_LIFE_LEFT, false, true);
    report(&s, 2, NX_LIFE_LEFT, true, false);
    report(&s, 2, NX_LIFE_SUSPECT, false, false);
    report(&s, 2, NX_LIFE_FAILED, false, false); /* it has sent its goodbye */
    report(&s, 4, NX_LIFE_SUSPECT, false, true);
    report(&s, 4, NX_LIFE_SUSPECT, false, false); /* the same source */
    report(&s, 4, NX_LIFE_LEFT, false, true);
    expect(&s, "a failed 1; b failed 1; a left 2; b left 2; a left 4; b left 4");
    nx_membership_destroy(s.m);
}

static void test_a_rank_presumed_to_have_left_may_have_failed(void **state)
{
    stage s;

    (void)state;
    begin(&s);
    report(&s, 1, NX_LIFE_LEFT, true, true);
    report(&s, 2, NX_LIFE_LEFT, true, true);
    expect(&s, "a left 1; b left 1; a left 2; b left 2");
    report(&s, 1, NX_LIFE_FAILED, false, true);
    report(&s, 2, NX_LIFE_LEFT, false, true); /* certain now; no notification is needed */
    report(&s, 2, NX_LIFE_FAILED, false, false);
    expect(&s, "a failed 1; b failed 1");
    report(&s, 4, NX_LIFE_LEFT, true, true);
    report(&s, 4, NX_LIFE_FAILED, false, true);
    expect(&s, "a failed 4; b failed 4"); /* no rank had reported its departure */
    nx_membership_destroy(s.m);
}

static void
test_an_event_inside_a_subscriber_is_recorded_at_once_and_notified_afterwards(void **state)
{
    stage s;

    (void)state;
    begin(&s);
    s.again = true;
    report(&s, 0, NX_LIFE_FAILED, false, true);
    expect(&s, "a failed 0; b failed 0; a failed 1; b failed 1");
    nx_membership_destroy(s.m);
}

static void test_a_rank_that_was_declared_failed_is_sent_the_verdict_only(void **state)
{
    stage s;

    (void)state;
    begin(&s);
    report(&s, 1, NX_LIFE_FAILED, false, true); /* the accusing ranks close their links */
    report(&s, SELF, NX_LIFE_LEFT, false, false);
    report(&s, SELF, NX_LIFE_FAILED, false, true);
    report(&s, SELF, NX_LIFE_FAILED, false, false);
    report(&s, 2, NX_LIFE_FAILED, false, false);
    assert_false(nx_membership_expelled(s.m));
    expect(&s, "all failed 3");
    assert_int_equal(s.expelled, 1);
    report(&s, 4, NX_LIFE_LEFT, false, false);
    expect(&s, "");
    nx_membership_destroy(s.m);
}

static void test_a_failure_in_a_slot_that_is_not_known_yet_is_kept(void **state)
{
    stage s;

    (void)state;
    begin(&s);
    report(&s, MORE - 1, NX_LIFE_FAILED, false, false);
    report(&s, MORE + 5, NX_LIFE_FAILED, false, false);
    report(&s, SLOTS, NX_LIFE_LEFT, false, false); /* which no rank can know */
    assert_int_equal(nx_membership_life(s.m, MORE - 1), NX_LIFE_UNKNOWN);
    nx_membership_replay(s.m, 8);
    expect(&s, "");
    assert_int_equal(nx_membership_grow(s.m, MORE), NEXAR_OK);
    assert_int_equal(nx_membership_life(s.m, SLOTS), NX_LIFE_ALIVE);
    nx_membership_replay(s.m, 9);
    expect(&s, "a failed 11; b failed 11");
    assert_string_equal(nx_membership_of(s.m, MORE - 1)->why, "why");
    nx_membership_forget_why(s.m, MORE - 1);
    assert_null(nx_membership_of(s.m, MORE - 1)->why);
    nx_membership_destroy(s.m); /* with one that is still kept */
}

static void test_a_slot_outside_the_view_has_left_without_notification(void **state)
{
    stage s;

    (void)state;
    begin(&s);
    report(&s, 1, NX_LIFE_FAILED, false, true);
    report(&s, 2, NX_LIFE_SUSPECT, false, true);
    assert_true(nx_membership_retire(s.m, 2) && nx_membership_retire(s.m, 5));
    assert_false(nx_membership_retire(s.m, 1) || nx_membership_retire(s.m, 5));
    assert_int_equal(nx_membership_life(s.m, 1), NX_LIFE_FAILED);
    report(&s, 5, NX_LIFE_FAILED, false, false);
    expect(&s, "a failed 1; b failed 1");
    nx_membership_destroy(s.m);
}

static void test_nothing_is_recorded_or_notified_after_the_end(void **state)
{
    stage s;

    (void)state;
    begin(&s);
    report(&s, 1, NX_LIFE_FAILED, false, true);
    nx_membership_close(s.m);
    report(&s, 2, NX_LIFE_FAILED, false, false);
    report(&s, MORE, NX_LIFE_FAILED, false, false);
    expect(&s, "");
    assert_int_equal(nx_membership_life(s.m, 1), NX_LIFE_FAILED);
    nx_membership_destroy(s.m);
}

static void test_without_memory_a_failure_counts_and_its_reason_is_lost(void **state)
{
    (void)state;
    NXT_FOR_EACH_OOM (n) {
        nx_membership_config c = config;
        stage s = {0};
        nexar_err err;

        c.ctx = &s;
        err = nx_membership_create(&s.m, &c);
        if (err == NEXAR_OK) {
            report(&s, MORE - 1, NX_LIFE_FAILED, false, false);
            report(&s, 1, NX_LIFE_FAILED, false, true);
            assert_int_equal(nx_membership_life(s.m, 1), NX_LIFE_FAILED);
            err = nx_membership_grow(s.m, MORE);
            assert_int_equal(nx_membership_life(s.m, MORE - 1),
                             (err == NEXAR_OK) ? NX_LIFE_ALIVE : NX_LIFE_UNKNOWN);
            nx_membership_notify(s.m);
            assert_int_equal(s.failed[1], 1);
            nx_membership_destroy(s.m);
        }
        assert_true((err == NEXAR_OK) || nx_alloc_failed());
    }
}

/* Random events and notifications.  States only advance.  Each subscriber is notified of each
 * failure once, of a departure at most once, and of the former after the latter. */
static void test_random_events_keep_the_invariants(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20000; seed++) {
        nxt_rand r = {nxt_mix(seed)};
        stage s;

        begin(&s);
        for (int i = 0; i < 40; i++) {
            const uint32_t slot = (uint32_t)nxt_below(&r, SLOTS);
            const nx_life_event event = {.slot = slot,
                                         .life = (nx_life)(NX_LIFE_SUSPECT + nxt_below(&r, 3)),
                                         .source =
                                             (nx_life_source)(1 + nxt_below(&r, NX_SOURCE_SELF)),
                                         .presumed = nxt_one_in(&r, 2)};
            const nx_life before = nx_membership_life(s.m, slot);

            if ((slot == SELF) && !nxt_one_in(&r, 16)) {
                continue;
            }
            (void)nx_membership_report(s.m, &event, (uint64_t)i);
            assert_true(nx_membership_life(s.m, slot) >= before);
            assert_true((nx_membership_life(s.m, SELF) == NX_LIFE_FAILED) ||
                        (nx_membership_life(s.m, slot) >= event.life) || (before == NX_LIFE_LEFT) ||
                        (slot == SELF));
            if (nxt_one_in(&r, 4)) {
                s.log[0] = '\0';
                nx_membership_notify(s.m);
            }
        }
        s.log[0] = '\0';
        nx_membership_notify(s.m);
        for (uint32_t slot = 0; (slot < SLOTS) && (s.expelled == 0); slot++) {
            assert_int_equal(s.failed[slot], nx_membership_life(s.m, slot) == NX_LIFE_FAILED);
            assert_true(s.left[slot] <= 1);
            assert_int_equal(nx_rankset_has(nx_membership_gone(s.m), slot),
                             (slot == SELF) || (nx_membership_life(s.m, slot) >= NX_LIFE_LEFT));
        }
        assert_int_equal(s.expelled, nx_membership_life(s.m, SELF) == NX_LIFE_FAILED);
        nx_membership_destroy(s.m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_event_is_recorded_at_once_and_notified_later_in_order),
        cmocka_unit_test(test_a_slot_never_goes_back_and_keeps_its_first_reason),
        cmocka_unit_test(test_a_rank_presumed_to_have_left_may_have_failed),
        cmocka_unit_test(
            test_an_event_inside_a_subscriber_is_recorded_at_once_and_notified_afterwards),
        cmocka_unit_test(test_a_rank_that_was_declared_failed_is_sent_the_verdict_only),
        cmocka_unit_test(test_a_failure_in_a_slot_that_is_not_known_yet_is_kept),
        cmocka_unit_test(test_a_slot_outside_the_view_has_left_without_notification),
        cmocka_unit_test(test_nothing_is_recorded_or_notified_after_the_end),
        cmocka_unit_test(test_without_memory_a_failure_counts_and_its_reason_is_lost),
        cmocka_unit_test(test_random_events_keep_the_invariants),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
