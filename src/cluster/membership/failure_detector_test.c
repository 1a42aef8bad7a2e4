/* failure_detector_test.c - which ranks are pinged, and which are declared failed. */
#include "cluster/membership/failure_detector.h"
#include "msg/control.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "oom.h"
#include "unit.h"

#define MS UINT64_C(1000000)

enum { SIZE = 8, INTERVAL = 500, TIMEOUT = 5000, LOG = 4096 };

/* A log of the actions. */
typedef struct stage {
    char log[LOG];
    nx_membership *members;
    nx_detector *detector;
    uint64_t now;
} stage;

static void note(stage *s, const char *what, uint32_t peer, const char *why)
{
    const size_t at = strlen(s->log);

    (void)snprintf(s->log + at, sizeof(s->log) - at, "%s%s %" PRIu32 "%s%s", (at == 0) ? "" : "; ",
                   what, peer, (*why == '\0') ? "" : ": ", why);
}

static void on_send(void *ctx, uint32_t to, const void *frame, size_t len)
{
    const uint8_t *bytes = frame;
    static const char *const hears[] = {"", "hears it", "hears others", "hears it and others"};

    if (bytes[0] == NX_CONTROL_VERDICT) {
        assert_true((len > 3) && (len <= NX_DETECTOR_FRAME_MAX) && (bytes[1] < 4));
        note(ctx, "verdict", to, hears[bytes[1]]);
    } else {
        assert_int_equal(len, 2);
        assert_true(bytes[1] <= NX_WORD_HEARS_YOU);
        note(ctx, (bytes[0] == NX_CONTROL_PING) ? "ping" : "pong", to, "");
    }
}

static void report(stage *s, uint32_t peer, nx_life life)
{
    const nx_life_event event = {.slot = peer, .life = life};

    (void)nx_membership_report(s->members, &event, s->now);
}

static void on_dead(void *ctx, uint32_t peer, const char *why)
{
    note(ctx, "dead", peer, why);
    report(ctx, peer, NX_LIFE_FAILED);
}

static void on_zombie(void *ctx, uint32_t peer)
{
    note(ctx, "zombie", peer, "");
}

static void on_outcast(void *ctx, uint32_t by, const char *why)
{
    note(ctx, "outcast", by, why);
}

static const nx_detector_ops ops = {
    .send = on_send, .dead = on_dead, .zombie = on_zombie, .outcast = on_outcast};

static const nx_detector_config config = {
    .size = SIZE, .self = 6, .interval_ns = INTERVAL * MS, .timeout_ns = TIMEOUT * MS, .ring = 2};

static void on_gone(void *ctx, uint32_t peer)
{
    const stage *s = ctx;

    (void)peer;
    nx_detector_close_ring(s->detector, s->now);
}

static void on_due(void *ctx)
{
    (void)ctx;
}

static const nx_life_subscriber subscriber = {.on_left = on_gone, .on_failed = on_gone};

static nexar_err make(stage *s, nx_detector_config c)
{
    const nx_membership_config mc = {.slots = SIZE,
                                     .self = 6,
                                     .subscribers = &subscriber,
                                     .nsubscribers = 1,
                                     .on_due = on_due,
                                     .ctx = s};
    nexar_err err = nx_membership_create(&s->members, &mc);

    c.members = s->members;
    return (err == NEXAR_OK) ? nx_detector_create(&s->detector, &c, &ops, s, s->now) : err;
}

static void begin(stage *s)
{
    *s = (stage){.now = 1000 * MS};
    assert_int_equal(make(s, config), NEXAR_OK);
}

static void end(stage *s)
{
    nx_detector_destroy(s->detector);
    nx_membership_destroy(s->members);
}

/* |peer| has left, or failed, as other ranks report. */
static void hear(stage *s, uint32_t peer, nx_life life)
{
    report(s, peer, life);
    nx_membership_notify(s->members);
}

/* The actions since the last call. */
static void expect(stage *s, const char *log)
{
    assert_string_equal(s->log, log);
    s->log[0] = '\0';
}

/* Ticks when they are due, for |ms|. */
static void pass(stage *s, uint64_t ms)
{
    const uint64_t until = s->now + ms * MS;

    while (nx_detector_due(s->detector) <= until) {
        s->now = nx_detector_due(s->detector);
        nx_detector_tick(s->detector, s->now);
        nx_membership_notify(s->members);
    }
    s->now = until;
}

static void say(stage *s, uint32_t peer, uint8_t type)
{
    const uint8_t frame[] = {type, NX_WORD_HEARS_YOU};

    assert_int_equal(nx_detector_frame(s->detector, peer, frame, sizeof(frame), s->now), NEXAR_OK);
}

/* |by| has declared this rank failed; |word| is the frame. */
static void condemn(stage *s, uint32_t by, uint8_t word)
{
    const uint8_t frame[] = {NX_CONTROL_VERDICT, word, 4, 's', 'o', 'r', 'r'};

    assert_int_equal(nx_detector_frame(s->detector, by, frame, sizeof(frame), s->now), NEXAR_OK);
}

static void test_the_neighbours_on_the_circle_are_pinged(void **state)
{
    stage s;

    (void)state;
    begin(&s);
    pass(&s, INTERVAL - 1);
    expect(&s, "");
    pass(&s, 1);
    expect(&s, "ping 7; ping 0");
    assert_true(nx_detector_watches(s.detector, 0) && !nx_detector_watches(s.detector, 1));
    say(&s, 7, NX_CONTROL_PONG);
    say(&s, 0, NX_CONTROL_PONG);
    say(&s, 3, NX_CONTROL_PING); /* watched by another */
    expect(&s, "pong 3");
    pass(&s, INTERVAL);
    expect(&s, "ping 7; ping 0");
    nx_detector_heard(s.detector, 0, s.now + 400 * MS); /* a peer that sends is not pinged */
    pass(&s, INTERVAL);
    expect(&s, "ping 7");
    nx_detector_heard(s.detector, 0, s.now + 400 * MS); /* only to learn if it hears us */
    pass(&s, INTERVAL);
    expect(&s, "ping 7; ping 0");
    end(&s);
}

static void test_silence_for_the_timeout_is_failure_and_the_ring_closes(void **state)
{
    stage s;

    (void)state;
    begin(&s);
    for (uint32_t i = 0; i < 9; i++) {
        pass(&s, INTERVAL);
        say(&s, 7, NX_CONTROL_PONG);
    }
    s.log[0] = '\0';
    pass(&s, INTERVAL);
    expect(&s, "ping 7; dead 0: no heartbeat for 5.0 s");
    assert_int_equal(nx_membership_life(s.members, 0), NX_LIFE_FAILED);
    assert_true(nx_detector_watches(s.detector, 7) && nx_detector_watches(s.detector, 1));
    pass(&s, INTERVAL);
    expect(&s, "ping 7; ping 1");
    hear(&s, 7, NX_LIFE_FAILED); /* 1 is the next neighbour now, at 3 */
    pass(&s, INTERVAL);
    expect(&s, "ping 1");
    end(&s);
}

static void test_the_silence_of_one_that_cannot_answer_yet_does_not_count(void **state)
{
    stage s;

    (void)state;
    begin(&s);
    nx_detector_hold(s.detector, 0);
    for (uint32_t i = 0; i < 3 * TIMEOUT / INTERVAL; i++) {
        pass(&s, INTERVAL);
        say(&s, 7, NX_CONTROL_PONG);
    }
    assert_null(strstr(s.log, "dead"));
    assert_non_null(strstr(s.log, "ping 0"));
    nx_detector_release(s.detector, 0, s.now);
    s.log[0] = '\0';
    pass(&s, INTERVAL);
    say(&s, 7, NX_CONTROL_PONG);
    expect(&s, "ping 7; ping 0");
    pass(&s, INTERVAL); /* it has two */
    expect(&s, "ping 7; dead 0: no heartbeat for 5.0 s");
    end(&s);
}

static void test_a_peer_of_an_operation_is_watched_while_it_waits(void **state)
{
    stage s;

    (void)state;
    begin(&s);
    assert_int_equal(nx_detector_watch(s.detector, 3, s.now), NEXAR_OK);
    assert_int_equal(nx_detector_watch(s.detector, 3, s.now), NEXAR_OK);
    assert_int_equal(nx_detector_watch(s.detector, 7, s.now), NEXAR_OK);
    pass(&s, INTERVAL);
    expect(&s, "ping 7; ping 0; ping 3");
    nx_detector_unwatch(s.detector, 3);
    nx_detector_unwatch(s.detector, 7);
    pass(&s, INTERVAL);
    expect(&s, "ping 7; ping 0; ping 3");
    nx_detector_unwatch(s.detector, 3);
    nx_detector_unwatch(s.detector, 3); /* one unwatch too many does no harm */
    pass(&s, INTERVAL);
    expect(&s, "ping 7; ping 0");
    assert_int_equal(nx_detector_watch(s.detector, 6, s.now), NEXAR_EINVAL);
    assert_int_equal(nx_detector_watch(s.detector, SIZE, s.now), NEXAR_EINVAL);
    end(&s);
}

static void test_a_gap_in_the_own_time_fails_no_peer(void **state)
{
    stage s;

    (void)state;
    begin(&s);
    pass(&s, TIMEOUT - INTERVAL);
    s.log[0] = '\0';
    s.now += 3600 * 1000 * MS; /* this rank was stopped for an hour */
    nx_detector_tick(s.detector, s.now);
    expect(&s, "ping 7; ping 0");
    pass(&s, TIMEOUT - 1);
    assert_null(strstr(s.log, "dead"));
    pass(&s, 1);
    assert_non_null(strstr(s.log, "dead 7: no heartbeat for 5.0 s"));
    end(&s);
}

/* Delayed for three intervals twice in each time-out. */
static void test_a_rank_with_short_pauses_detects_silent_peers(void **state)
{
    stage s;

    (void)state;
    begin(&s);
    for (uint32_t i = 0; i < 2; i++) {
        pass(&s, TIMEOUT / 2 - INTERVAL);
        assert_null(strstr(s.log, "dead"));
        s.log[0] = '\0';
        s.now = nx_detector_due(s.detector) - INTERVAL * MS + 3 * INTERVAL * MS;
        nx_detector_tick(s.detector, s.now);
        expect(&s, "ping 7; ping 0"); /* and no peer is judged by earlier pings */
        say(&s, 7, NX_CONTROL_PONG);
    }
    pass(&s, INTERVAL - 1); /* they have the time to answer */
    assert_null(strstr(s.log, "dead"));
    pass(&s, 1);
    assert_non_null(strstr(s.log, "dead 0: no heartbeat for "));
    assert_null(strstr(s.log, "dead 7"));
    end(&s);
}

static void test_late_ticks_are_no_gap(void **state)
{
    stage s;

    (void)state;
    begin(&s);
    for (uint32_t i = 0; i < 7; i++) { /* 950 ms instead of 500 */
        s.now += 950 * MS;
        nx_detector_tick(s.detector, s.now);
    }
    assert_non_null(strstr(s.log, "dead 7: no heartbeat for 5.7 s"));
    end(&s);
}

static void test_one_behind_a_lost_link_is_pinged_and_has_its_timeout(void **state)
{
    stage s;

    (void)state;
    begin(&s);
    nx_detector_suspect(s.detector, 7, "no route", s.now);
    nx_detector_suspect(s.detector, 3, "others watch it", s.now);
    expect(&s, "ping 7");
    pass(&s, TIMEOUT - INTERVAL);
    say(&s, 7, NX_CONTROL_PONG);
    say(&s, 0, NX_CONTROL_PONG);
    s.log[0] = '\0';
    nx_detector_suspect(s.detector, 7, "again", s.now);
    expect(&s, "ping 7");
    pass(&s, TIMEOUT);
    assert_non_null(strstr(s.log, "dead 7: no heartbeat for 5.0 s, link lost: again"));
    assert_non_null(strstr(s.log, "dead 0: no heartbeat for 5.0 s"));
    assert_null(strstr(s.log, "dead 0: no heartbeat for 5.0 s, link"));
    end(&s);
}

static void test_a_failure_reported_by_others_is_not_broadcast_again(void **state)
{
    stage s;

    (void)state;
    begin(&s);
    hear(&s, 7, NX_LIFE_FAILED);
    pass(&s, INTERVAL);
    assert_null(strstr(s.log, "7"));
    s.log[0] = '\0';
    say(&s, 7, NX_CONTROL_PING);
    expect(&s, "zombie 7");
    end(&s);
}

static void test_who_said_goodbye_is_not_dead(void **state)
{
    stage s;

    (void)state;
    begin(&s);
    hear(&s, 7, NX_LIFE_LEFT);
    nx_detector_close_ring(s.detector, s.now); /* twice does no harm */
    nx_detector_suspect(s.detector, 7, "no route", s.now);
    expect(&s, "");
    pass(&s, INTERVAL);
    expect(&s, "ping 0");
    assert_int_equal(nx_detector_watch(s.detector, 7, s.now), NEXAR_OK); /* no effect */
    pass(&s, INTERVAL);
    expect(&s, "ping 0");
    nx_detector_unwatch(s.detector, 7);
    end(&s);
}

static void test_the_last_one_watches_nobody(void **state)
{
    stage s;

    (void)state;
    begin(&s);
    for (uint32_t i = 0; i < SIZE; i++) {
        if (i == 6) {
            continue;
        }
        hear(&s, i, ((i % 2) == 0) ? NX_LIFE_LEFT : NX_LIFE_FAILED);
    }
    assert_true(nx_detector_due(s.detector) == UINT64_MAX);
    end(&s);
}

static void test_the_ring_closes_over_several_at_once(void **state)
{
    stage s;

    (void)state;
    begin(&s);
    report(&s, 7, NX_LIFE_FAILED);
    report(&s, 0, NX_LIFE_LEFT); /* both positions on the ring must be filled again */
    nx_membership_notify(s.members);
    pass(&s, INTERVAL);
    expect(&s, "ping 1");
    end(&s);
    s = (stage){.now = 1000 * MS};
    assert_int_equal(make(&s, (nx_detector_config){.size = SIZE,
                                                   .self = 6,
                                                   .interval_ns = INTERVAL * MS,
                                                   .timeout_ns = TIMEOUT * MS}),
                     NEXAR_OK);
    report(&s, 7, NX_LIFE_FAILED); /* at distances 1 and 4 */
    report(&s, 2, NX_LIFE_FAILED);
    nx_membership_notify(s.members);
    pass(&s, INTERVAL);
    expect(&s, "ping 0; ping 3");
    end(&s);
}

static void test_new_members_are_watched_too(void **state)
{
    stage s;

    (void)state;
    begin(&s);
    hear(&s, 7, NX_LIFE_LEFT);
    pass(&s, INTERVAL / 2);
    assert_int_equal(nx_membership_grow(s.members, SIZE + 2), NEXAR_OK);
    assert_int_equal(nx_detector_grow(s.detector, SIZE + 2, s.now), NEXAR_OK);
    pass(&s, INTERVAL + INTERVAL / 2);
    expect(&s, "ping 8"); /* which is the first at distance 1, and at distance 2 */
    hear(&s, 8, NX_LIFE_FAILED);
    pass(&s, INTERVAL);
    expect(&s, "ping 9");
    assert_int_equal(nx_membership_grow(s.members, 200), NEXAR_OK);
    assert_int_equal(nx_detector_grow(s.detector, 200, s.now), NEXAR_OK);
    assert_true(nx_detector_watches(s.detector, 9) && !nx_detector_watches(s.detector, 10));
    assert_int_equal(nx_detector_frame(s.detector, 199, "\x43\x00", 2, s.now), NEXAR_OK);
    expect(&s, "pong 199");
    end(&s);
}

/* ---- which rank hears which (H1 to H5 of failure_detector.h) ------------------------- */

static void test_who_was_heard_in_half_the_timeout_is_heard(void **state)
{
    stage s;

    (void)state;
    begin(&s);
    assert_false(nx_detector_hears(s.detector, 7, s.now)); /* watched does not mean heard */
    nx_detector_heard(s.detector, 7, s.now);
    nx_detector_heard(s.detector, 3, s.now); /* nor is it needed */
    assert_true(nx_detector_hears(s.detector, 3, s.now + TIMEOUT / 2 * MS - 1));
    assert_false(nx_detector_hears(s.detector, 3, s.now + TIMEOUT / 2 * MS));
    nx_detector_ask(s.detector, 3, s.now);
    nx_detector_tell(s.detector, 3, "why", s.now);
    s.now += TIMEOUT / 4 * MS;
    nx_detector_heard(s.detector, 7, s.now);
    s.now += TIMEOUT / 4 * MS;
    nx_detector_tell(s.detector, 3, "why", s.now);
    nx_detector_tell(s.detector, 7, "why", s.now);
    s.now += TIMEOUT / 4 * MS;
    nx_detector_tell(s.detector, 7, "why", s.now);
    expect(&s, "ping 3; verdict 3: hears it and others; verdict 3: hears others; "
               "verdict 7: hears it; verdict 7");
    end(&s);
}

static void test_a_verdict_counts_if_its_judge_hears_us_or_no_peer_does(void **state)
{
    stage s;

    (void)state;
    begin(&s);
    condemn(&s, 7, NX_WORD_HEARS_OTHERS); /* this rank is mute, as far as it knows */
    expect(&s, "outcast 7: sorr");
    say(&s, 7, NX_CONTROL_PONG);
    condemn(&s, 7, NX_WORD_HEARS_OTHERS); /* that was itself */
    expect(&s, "outcast 7: sorr");
    say(&s, 0, NX_CONTROL_PONG);
    condemn(&s, 7, NX_WORD_HEARS_YOU | NX_WORD_HEARS_OTHERS);
    expect(&s, "outcast 7: sorr");
    s.now += TIMEOUT / 2 * MS;
    condemn(&s, 7, 0); /* 0 heard this rank long ago */
    expect(&s, "outcast 7: sorr");
    end(&s);
}

static void test_a_verdict_is_one_line_whatever_it_is_made_of(void **state)
{
    static const uint8_t frame[] = {
        NX_CONTROL_VERDICT, NX_WORD_HEARS_OTHERS, 8, 'a', '\n', 033, '[', 0xc3, 0xa4, 0, 'b'};
    stage s;

    (void)state;
    begin(&s);
    assert_int_equal(nx_detector_frame(s.detector, 7, frame, sizeof(frame), s.now), NEXAR_OK);
    expect(&s, "outcast 7: a??[\xc3\xa4?b");
    end(&s);
}

static void test_a_rank_that_hears_no_peer_is_deaf_and_failed(void **state)
{
    stage s;

    (void)state;
    begin(&s);
    say(&s, 3, NX_CONTROL_PING); /* it hears this rank */
    condemn(&s, 7, 0);
    expect(&s, "pong 3; dead 7: it receives nothing that it is sent");
    nx_membership_notify(s.members);
    condemn(&s, 7, NX_WORD_HEARS_YOU); /* frames of failed ranks do not count */
    expect(&s, "");
    end(&s);
}

static void test_a_judge_that_hears_others_is_doubted_until_they_report(void **state)
{
    stage s;

    (void)state;
    begin(&s);
    pass(&s, INTERVAL * 3 / 4);
    say(&s, 0, NX_CONTROL_PONG);
    condemn(&s, 7, NX_WORD_HEARS_OTHERS);
    assert_true(nx_detector_doubts(s.detector, 7) && !nx_detector_doubts(s.detector, 0));
    pass(&s, INTERVAL / 4);
    expect(&s, "ping 7"); /* 0 was heard just now */
    pass(&s, INTERVAL);
    expect(&s, "dead 7: it does not hear this rank, which other ranks hear; ping 0");
    pass(&s, INTERVAL);
    expect(&s, "ping 0");
    end(&s);
}

static void test_a_doubted_verdict_is_right_if_no_peer_hears_this_rank(void **state)
{
    stage s;

    (void)state;
    begin(&s);
    say(&s, 0, NX_CONTROL_PONG);
    condemn(&s, 7, NX_WORD_HEARS_OTHERS);
    condemn(&s, 0, NX_WORD_HEARS_OTHERS);
    expect(&s, "outcast 0: sorr");
    say(&s, 3, NX_CONTROL_PONG);
    /* The frame of 3 was old: this rank was stopped, and read it late. */
    assert_int_equal(nx_detector_frame(s.detector, 3, "\x43\x00", 2, s.now), NEXAR_OK);
    s.log[0] = '\0';
    pass(&s, INTERVAL);
    expect(&s, "outcast 7: sorr; ping 7; ping 0");
    end(&s);
}

static void test_nonsense_is_refused(void **state)
{
    nx_detector_config bad[5];
    stage s;

    (void)state;
    for (uint32_t i = 0; i < 5; i++) {
        bad[i] = config;
    }
    bad[0].self = SIZE;
    bad[1].interval_ns = 0;
    bad[2].interval_ns = bad[2].timeout_ns + 1;
    bad[3].ring = NX_DETECTOR_RING_MAX + 1;
    bad[4].size = 0;
    for (uint32_t i = 0; i < 5; i++) {
        s = (stage){0};
        assert_int_equal(make(&s, bad[i]), NEXAR_EINVAL);
        nx_membership_destroy(s.members);
    }
    begin(&s);
    assert_int_equal(nx_detector_frame(s.detector, 7, "\x43", 1, s.now), NEXAR_EPROTO);
    assert_int_equal(nx_detector_frame(s.detector, 7, "\x43\x00\x00", 3, s.now), NEXAR_EPROTO);
    assert_int_equal(nx_detector_frame(s.detector, 7, "\x43\x04", 2, s.now), NEXAR_EPROTO);
    assert_int_equal(nx_detector_frame(s.detector, 7, "\x42\x00", 2, s.now), NEXAR_EPROTO);
    assert_int_equal(nx_detector_frame(s.detector, 7, "\x49\x00", 2, s.now), NEXAR_EPROTO);
    assert_int_equal(nx_detector_frame(s.detector, 7, "\x49\x00\x02s", 4, s.now), NEXAR_EPROTO);
    assert_int_equal(nx_detector_frame(s.detector, 6, "\x43\x00", 2, s.now), NEXAR_EPROTO);
    assert_int_equal(nx_detector_frame(s.detector, SIZE, "\x43\x00", 2, s.now), NEXAR_EPROTO);
    expect(&s, "");
    end(&s);
}

static void test_lack_of_memory_is_reported(void **state)
{
    stage s = {.now = 1};

    (void)state;
    NXT_FOR_EACH_OOM (n) {
        nexar_err err;

        s = (stage){.now = 1};
        err = make(&s, config);
        if (err == NEXAR_OK) {
            err = nx_detector_watch(s.detector, 3, s.now);
        }
        if (err == NEXAR_OK) {
            err = nx_membership_grow(s.members, 100);
        }
        if (err == NEXAR_OK) {
            err = nx_detector_grow(s.detector, 100, s.now);
        }
        assert_int_equal(err, nx_alloc_failed() ? NEXAR_ENOMEM : NEXAR_OK);
        end(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_neighbours_on_the_circle_are_pinged),
        cmocka_unit_test(test_silence_for_the_timeout_is_failure_and_the_ring_closes),
        cmocka_unit_test(test_the_silence_of_one_that_cannot_answer_yet_does_not_count),
        cmocka_unit_test(test_a_peer_of_an_operation_is_watched_while_it_waits),
        cmocka_unit_test(test_a_gap_in_the_own_time_fails_no_peer),
        cmocka_unit_test(test_a_rank_with_short_pauses_detects_silent_peers),
        cmocka_unit_test(test_late_ticks_are_no_gap),
        cmocka_unit_test(test_one_behind_a_lost_link_is_pinged_and_has_its_timeout),
        cmocka_unit_test(test_a_failure_reported_by_others_is_not_broadcast_again),
        cmocka_unit_test(test_who_said_goodbye_is_not_dead),
        cmocka_unit_test(test_the_last_one_watches_nobody),
        cmocka_unit_test(test_the_ring_closes_over_several_at_once),
        cmocka_unit_test(test_new_members_are_watched_too),
        cmocka_unit_test(test_who_was_heard_in_half_the_timeout_is_heard),
        cmocka_unit_test(test_a_verdict_counts_if_its_judge_hears_us_or_no_peer_does),
        cmocka_unit_test(test_a_verdict_is_one_line_whatever_it_is_made_of),
        cmocka_unit_test(test_a_rank_that_hears_no_peer_is_deaf_and_failed),
        cmocka_unit_test(test_a_judge_that_hears_others_is_doubted_until_they_report),
        cmocka_unit_test(test_a_doubted_verdict_is_right_if_no_peer_hears_this_rank),
        cmocka_unit_test(test_nonsense_is_refused),
        cmocka_unit_test(test_lack_of_memory_is_reported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
