/* join_state_test.c - a joiner enters the world, or fails with a reason. */
#include "cluster/join/join_state.h"

#include <string.h>

#include "base/alloc.h"
#include "cluster/addresses.h"
#include "cluster/join_rig.h"
#include "unit.h"

#define MS     UINT64_C(1000000)
#define SECOND (1000 * MS)

static void test_worlds_of_many_sizes_form(void **state)
{
    static const uint32_t sizes[] = {1, 2, 3, 16, 200};

    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        rig r;

        rig_init(&r, sizes[i], 0, i);
        for (uint32_t k = 0; k < sizes[i]; k++) {
            (void)rig_join_as(&r, (k % 3 == 0) ? sizes[i] - 1 - k : NX_RANK_ANY, 0);
        }
        rig_run(&r);
        assert_int_equal(r.events[NX_SEED_FORMED], 1);
        nx_list_for_each (at, &r.joiners) {
            const rig_joiner *j = nx_list_entry(at, rig_joiner, link);
            uint32_t rank;
            const nx_view *view = nx_join_state_view(j->state, &rank);

            assert_non_null(view);
            assert_int_equal(view->size, sizes[i]);
            assert_int_equal(view->members[rank].id, j->member);
        }
        rig_fini(&r);
    }
}

/* Before the view arrives, by the seed's report; a member that dials early finds it so. */
static void test_how_many_the_others_are_is_known_with_the_welcome(void **state)
{
    rig r;
    rig_joiner *first, *second, *late;

    (void)state;
    rig_init(&r, 2, 0, 5);
    first = rig_join_as(&r, NX_RANK_ANY, 0);
    assert_int_equal(nx_join_state_peers(first->state), 0);
    rig_run(&r);
    assert_int_equal(nx_join_state_phase(first->state), NX_JOIN_WAITING);
    assert_int_equal(nx_join_state_peers(first->state), 1);
    second = rig_join_as(&r, NX_RANK_ANY, 0);
    rig_run(&r);
    assert_int_equal(nx_join_state_phase(second->state), NX_JOIN_FORMED);
    assert_int_equal(nx_join_state_peers(second->state), 1);
    late = rig_join_as(&r, NX_RANK_ANY, 0);
    rig_run(&r);
    assert_int_equal(nx_join_state_phase(late->state), NX_JOIN_WAITING);
    assert_int_equal(nx_join_state_peers(late->state), 2); /* it becomes the third */
    rig_fini(&r);
}

/* With 16 IPv6 addresses each, 150 members take several pieces. */
static void test_a_view_in_pieces_arrives(void **state)
{
    rig r;
    nx_join_rules rules;
    rig_joiner *last = NULL;
    const nx_view *view;
    uint32_t rank;

    (void)state;
    rig_init(&r, 150, 0, 3);
    rules = rig_rules(&r, NX_RANK_ANY, 0);
    rules.hello.self.naddresses = NX_ADDRESSES_MAX;
    for (size_t i = 0; i < NX_ADDRESSES_MAX; i++) {
        assert_int_equal(nx_address_parse("fd00::1", 1, &rules.hello.self.addresses[i]), NEXAR_OK);
    }
    for (uint32_t k = 0; k < 150; k++) {
        last = rig_join(&r, &rules);
    }
    rig_run(&r);
    view = nx_join_state_view(last->state, &rank);
    assert_non_null(view);
    assert_int_equal(view->members[149].naddresses, NX_ADDRESSES_MAX);
    assert_true(150 * 16 * 19 > NX_VIEW_PIECE);
    rig_fini(&r);
}

static void test_a_wrong_token_is_an_authentication_error_at_once(void **state)
{
    rig r;
    nx_join_rules rules;
    rig_joiner *j;
    const uint64_t began = 1000;

    (void)state;
    rig_init(&r, 2, 0, 1);
    rules = rig_rules(&r, 0, SECOND);
    rules.token.bytes[0] ^= 0x80;
    j = rig_join(&r, &rules);
    rig_run(&r);
    rig_assert_failed(j, NEXAR_EAUTH, "token");
    assert_int_equal(r.now, began);
    rig_fini(&r);
}

static void test_a_seed_that_is_not_there_is_named(void **state)
{
    rig r;
    rig_joiner *j;

    (void)state;
    rig_init(&r, 1, 0, 1);
    r.seed_lives = false;
    j = rig_join_as(&r, 0, 3 * SECOND);
    rig_run_until(&r, r.now + 3 * SECOND);
    rig_assert_failed(j, NEXAR_ECONNECT, "seed:1 within 3s");
    rig_fini(&r);
}

static void test_a_seed_that_comes_late_is_found(void **state)
{
    rig r;
    rig_joiner *j;

    (void)state;
    rig_init(&r, 1, 0, 1);
    r.seed_lives = false;
    j = rig_join_as(&r, 0, 30 * SECOND);
    for (int i = 0; i < 5; i++) { /* failing attempts */
        rig_conn *c = j->conn;

        assert_non_null(c);
        c->up = true;
        nx_list_remove(&c->link);
        nx_free(c);
        j->conn = NULL;
        nx_join_state_closed(j->state, NEXAR_ECONNECT, false, "connection refused", r.now);
        assert_true(rig_advance(&r, r.now + 10 * SECOND));
    }
    assert_in_range(r.now, SECOND, 4 * SECOND);
    r.seed_lives = true;
    rig_run(&r);
    assert_int_equal(nx_join_state_phase(j->state), NX_JOIN_FORMED);
    rig_fini(&r);
}

static void test_a_wrong_pin_is_not_tried_again(void **state)
{
    rig r;
    rig_joiner *j;

    (void)state;
    rig_init(&r, 1, 0, 1);
    j = rig_join_as(&r, 0, 30 * SECOND);
    nx_join_state_closed(j->state, NEXAR_EAUTH, false, "its key is not the pinned one", r.now);
    rig_assert_failed(j, NEXAR_EAUTH, "seed:1: its key is not the pinned one");
    assert_int_equal(nx_join_state_due(j->state), UINT64_MAX);
    rig_fini(&r);
}

/* Both time-outs, the seed's and the joiners' own. */
static void test_the_missing_are_named_on_every_rank(void **state)
{
    (void)state;
    for (int who = 0; who < 2; who++) {
        rig r;
        rig_joiner *a, *b, *c;

        rig_init(&r, 4, (who == 0) ? 5 * SECOND : 0, 1);
        a = rig_join_as(&r, 0, (who == 0) ? 0 : 5 * SECOND);
        b = rig_join_as(&r, 3, (who == 0) ? 0 : 6 * SECOND);
        rig_run_until(&r, r.now + 2 * SECOND);
        c = rig_join_as(&r, 1, (who == 0) ? 0 : 7 * SECOND);
        rig_run_until(&r, r.now + 20 * SECOND);
        rig_assert_failed(a, NEXAR_ETIMEDOUT, "missing: rank 2; here: rank 0 (host pid 7)");
        rig_assert_failed(a, NEXAR_ETIMEDOUT, "the world did not form within 5s: 3 of 4");
        /* Members that gave up earlier are distinguished from members that never joined. */
        rig_assert_failed(b, NEXAR_ETIMEDOUT,
                          (who == 0)
                              ? "missing: rank 2;"
                              : "missing: ranks 0, 2; gone: rank 0 (host pid 7): it gave up");
        rig_assert_failed(c, NEXAR_ETIMEDOUT, "2");
        assert_int_equal(r.events[NX_SEED_TIMEOUT], (who == 0) ? 1 : 0);
        assert_int_equal(r.events[NX_SEED_LEFT], (who == 0) ? 0 : 3);
        rig_fini(&r);
    }
}

/* After 2 s, 4 s and 8 s; then the world forms, and no joiner waits any more. */
static void test_who_is_missing_is_reported_more_and_more_rarely(void **state)
{
    rig r;
    nx_join_rules rules;
    rig_joiner *j;

    (void)state;
    rig_init(&r, 2, 0, 1);
    nx_seed_state_destroy(r.seed);
    r.rules.stall_report_ns = 2 * SECOND;
    rig_seed(&r);
    r.seed_lives = false;
    rules = rig_rules(&r, 0, 0);
    rules.report_ns = 2 * SECOND;
    j = rig_join(&r, &rules);
    rig_run_until(&r, r.now + 3 * SECOND);
    assert_int_equal(j->reports, 1);
    assert_non_null(strstr(j->last_report, "the seed at seed:1 has not answered for 2.0 s"));
    assert_int_equal(r.events[NX_SEED_STALLED], 0);
    r.seed_lives = true;
    rig_run_until(&r, r.now + 2 * SECOND);
    assert_int_equal(j->reports, 2);
    assert_non_null(strstr(j->last_report,
                           "the world has not formed after 4.0 s: 1 of 2 ranks have joined; "
                           "missing: rank 1"));
    while (r.events[NX_SEED_STALLED] == 0) {
        rig_run_until(&r, r.now + SECOND / 4);
        r.now += SECOND / 4;
    }
    assert_non_null(strstr(r.last_text[NX_SEED_STALLED], " s: 1 of 2 ranks have joined; "
                                                         "missing: rank 1"));
    (void)rig_join_as(&r, 1, 0);
    rig_run(&r);
    assert_int_equal(nx_join_state_phase(j->state), NX_JOIN_FORMED);
    rig_run_until(&r, r.now + 60 * SECOND);
    assert_int_equal(j->reports, 2);
    assert_int_equal(r.events[NX_SEED_STALLED], 1);
    rig_fini(&r);
}

static void test_what_there_is_to_report_can_be_asked_for(void **state)
{
    char text[700] = "";
    rig r;

    (void)state;
    rig_init(&r, 2, 0, 1);
    assert_true(nx_seed_state_situation(r.seed, text, sizeof(text)));
    assert_string_equal(text, "0 of 2 ranks have joined; missing: ranks 0-1");
    (void)rig_join_as(&r, 1, 0);
    rig_run(&r);
    assert_true(nx_seed_state_situation(r.seed, text, sizeof(text)));
    assert_non_null(strstr(text, "1 of 2 ranks have joined; missing: rank 0; here: rank 1 ("));
    (void)rig_join_as(&r, 0, 0);
    rig_run(&r);
    assert_false(nx_seed_state_situation(r.seed, text, sizeof(text)));
    rig_fini(&r);
}

static void test_the_clock_starts_anew_when_all_have_gone(void **state)
{
    rig r;
    rig_joiner *first, *second;

    (void)state;
    rig_init(&r, 2, 5 * SECOND, 1);
    first = rig_join_as(&r, 0, 0);
    rig_run_until(&r, r.now + 4 * SECOND);
    rig_kill(&r, first);
    rig_run(&r);
    second = rig_join_as(&r, 1, 0);
    rig_run_until(&r, r.now + 4 * SECOND);
    assert_int_equal(nx_join_state_phase(second->state), NX_JOIN_WAITING);
    rig_run_until(&r, r.now + 2 * SECOND);
    rig_assert_failed(second, NEXAR_ETIMEDOUT, "missing: rank 0; gone: rank 0 (host pid 7)");
    rig_fini(&r);
}

static void test_the_next_world_forms_after_a_time_out(void **state)
{
    rig r;
    rig_joiner *j;

    (void)state;
    rig_init(&r, 2, SECOND, 1);
    j = rig_join_as(&r, 0, 0);
    rig_run_until(&r, r.now + 5 * SECOND);
    rig_assert_failed(j, NEXAR_ETIMEDOUT, "missing: rank 1");
    (void)rig_join_as(&r, 0, 0);
    (void)rig_join_as(&r, 1, 0);
    rig_run(&r);
    assert_int_equal(r.events[NX_SEED_FORMED], 1);
    rig_fini(&r);
}

static void test_a_rank_that_does_not_confirm_is_named(void **state)
{
    rig r;
    rig_joiner *a;
    rig_conn *mute;
    uint8_t hello[NX_HELLO_MAX];

    (void)state;
    rig_init(&r, 2, 3 * SECOND, 1);
    a = rig_join_as(&r, 0, 0);
    rig_run(&r);
    mute = rig_connect(&r);
    rig_send(mute, hello, rig_hello(mute, &r.rules.token, 1, hello));
    rig_run_until(&r, r.now + 10 * SECOND);
    rig_assert_failed(a, NEXAR_ETIMEDOUT, "did not confirm the view: rank 1 (host pid 7)");
    rig_fini(&r);
}

static void test_a_failure_before_start_voids_the_offer(void **state)
{
    rig r;
    rig_joiner *a, *b, *c;
    uint32_t rank;
    const nx_view *view;

    (void)state;
    rig_init(&r, 2, 0, 1);
    a = rig_join_as(&r, NX_RANK_ANY, 0);
    rig_run(&r);
    b = rig_join_as(&r, NX_RANK_ANY, 0);
    while (nx_join_state_phase(a->state) != NX_JOIN_OFFERED) {
        assert_true(rig_step(&r));
    }
    rig_kill(&r, b);
    rig_run(&r);
    assert_true((nx_join_state_phase(a->state) == NX_JOIN_OFFERED) ||
                (r.events[NX_SEED_FORMED] == 1));
    if (r.events[NX_SEED_FORMED] == 0) {
        c = rig_join_as(&r, 0, 0); /* now a, which requested none, is rank 1 */
        rig_run(&r);
        view = nx_join_state_view(a->state, &rank);
        assert_non_null(view);
        assert_int_equal(view->epoch, 2);
        assert_int_equal(rank, 1);
        assert_int_equal(view->members[0].id, c->member);
    }
    rig_fini(&r);
}

static void test_a_seed_lost_early_fails_the_join_and_late_does_not(void **state)
{
    rig r;
    rig_joiner *early, *late;
    const char *text;

    (void)state;
    rig_init(&r, 2, 0, 1);
    early = rig_join_as(&r, 0, 0);
    rig_run(&r);
    nx_join_state_closed(early->state, NEXAR_ECONNECT, false, "idle for 10 s", r.now);
    rig_assert_failed(early, NEXAR_ECONNECT, "gone before the world formed (idle for 10 s)");
    rig_assert_failed(early, NEXAR_ECONNECT, "missing: rank 1");
    rig_fini(&r);

    rig_init(&r, 1, 0, 1);
    late = rig_join_as(&r, 0, 0);
    rig_run(&r);
    nx_join_state_closed(late->state, NEXAR_ECONNECT, false, "idle for 10 s", r.now);
    assert_int_equal(nx_join_state_phase(late->state), NX_JOIN_FORMED);
    assert_false(nx_join_state_there(late->state));
    assert_int_equal(nx_join_state_error(late->state, &text), NEXAR_ECONNECT);
    assert_non_null(strstr(text, "idle for 10 s"));
    rig_fini(&r);
}

static void test_a_dialling_peer_shows_that_the_world_has_formed(void **state)
{
    rig r;
    rig_joiner *a, *b;

    (void)state;
    rig_init(&r, 2, 0, 5);
    a = rig_join_as(&r, 0, 0);
    b = rig_join_as(&r, 1, 0);
    while ((nx_join_state_phase(a->state) != NX_JOIN_FORMED) &&
           (nx_join_state_phase(b->state) != NX_JOIN_FORMED)) {
        assert_true(rig_step(&r));
    }
    if (nx_join_state_phase(a->state) != NX_JOIN_FORMED) {
        rig_joiner *swap = a;

        a = b;
        b = swap;
    }
    assert_false(nx_join_state_peer(b->state, 4711));
    assert_int_equal(nx_join_state_phase(b->state), NX_JOIN_OFFERED);
    assert_true(nx_join_state_peer(b->state, a->member));
    assert_int_equal(nx_join_state_phase(b->state), NX_JOIN_FORMED);
    assert_false(nx_join_state_peer(b->state, b->member));
    rig_run(&r); /* START arrives late and is accepted */
    assert_int_equal(nx_join_state_phase(b->state), NX_JOIN_FORMED);
    rig_fini(&r);
}

static void test_leaving_ends_the_job(void **state)
{
    rig r;
    rig_joiner *a, *b;

    (void)state;
    rig_init(&r, 2, 0, 1);
    a = rig_join_as(&r, 0, 0);
    b = rig_join_as(&r, 1, 0);
    rig_run(&r);
    nx_join_state_leave(a->state);
    rig_run(&r);
    assert_int_equal(nx_join_state_phase(a->state), NX_JOIN_GONE);
    assert_int_equal(r.events[NX_SEED_LEFT], 1);
    assert_int_equal(r.events[NX_SEED_ENDED], 0);
    rig_kill(&r, b);
    rig_run(&r);
    assert_int_equal(r.events[NX_SEED_LOST], 1);
    assert_int_equal(r.events[NX_SEED_ENDED], 1);
    assert_true(nx_seed_state_ended(r.seed));
    rig_fini(&r);
}

static void test_a_seed_that_is_kept_forms_the_next_world(void **state)
{
    rig r;
    rig_joiner *a, *b;
    uint32_t rank;

    (void)state;
    rig_init(&r, 1, 0, 1);
    nx_seed_state_destroy(r.seed);
    r.rules.keep = true;
    rig_seed(&r);
    a = rig_join_as(&r, 0, 0);
    rig_run(&r);
    nx_join_state_leave(a->state);
    rig_run(&r);
    assert_int_equal(r.events[NX_SEED_ENDED], 1);
    assert_false(nx_seed_state_ended(r.seed));
    b = rig_join_as(&r, 0, 0);
    rig_run(&r);
    assert_int_equal(r.events[NX_SEED_FORMED], 2);
    assert_true(b->member > a->member);
    assert_true(nx_join_state_view(b->state, &rank)->epoch >
                nx_join_state_view(a->state, &rank)->epoch);
    rig_fini(&r);
}

/* Every frame of a complete join, with every byte changed, is sent to a joiner in the phase of that
 * frame: the joiner fails with a message, or continues. */
static void test_a_mad_seed_only_fails_the_join(void **state)
{
    uint8_t frames[3][NX_HELLO_MAX];
    size_t len[3] = {0};
    rig r;
    rig_conn *c;
    uint8_t hello[NX_HELLO_MAX];
    static const nx_join_frame order[] = {NX_JOIN_WELCOME, NX_JOIN_VIEW, NX_JOIN_START};

    (void)state;
    rig_init(&r, 1, 0, 1);
    c = rig_connect(&r);
    rig_send(c, hello, rig_hello(c, &r.rules.token, 0, hello));
    rig_run(&r);
    rig_send(c, "\7\0\0\0\0\0\0\0\1", 9);
    rig_run(&r);
    for (size_t i = 0; i < 3; i++) {
        const rig_item *item = rig_find(c, order[i]);

        assert_non_null(item);
        assert_true(item->len <= sizeof(frames[i]));
        memcpy(frames[i], item->data, item->len);
        len[i] = item->len;
    }
    for (size_t i = 0; i < 3; i++) {
        for (size_t at = 0; at < len[i] * 9; at++) {
            rig_joiner *j = rig_join_as(&r, 0, 0);
            uint8_t copy[NX_HELLO_MAX];
            const char *text;

            nx_join_state_connected(j->state, c->exporter, r.now);
            for (size_t k = 0; k < i; k++) {
                nx_join_state_frame(j->state, frames[k], len[k], r.now);
            }
            memcpy(copy, frames[i], len[i]);
            if (at < len[i] * 8) {
                copy[at / 8] ^= (uint8_t)(1U << (at % 8));
                nx_join_state_frame(j->state, copy, len[i], r.now);
            } else {
                nx_join_state_frame(j->state, copy, at - len[i] * 8, r.now);
            }
            /* A START is valid or invalid, nothing else. */
            assert_true((i < 2) || (nx_join_state_phase(j->state) == NX_JOIN_FAILED));
            if (nx_join_state_phase(j->state) == NX_JOIN_FAILED) {
                assert_true(nx_join_state_error(j->state, &text) != NEXAR_OK);
                assert_true(strlen(text) > 10);
            }
            rig_kill(&r, j);
        }
    }
    rig_fini(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_worlds_of_many_sizes_form),
        cmocka_unit_test(test_how_many_the_others_are_is_known_with_the_welcome),
        cmocka_unit_test(test_a_view_in_pieces_arrives),
        cmocka_unit_test(test_a_wrong_token_is_an_authentication_error_at_once),
        cmocka_unit_test(test_a_seed_that_is_not_there_is_named),
        cmocka_unit_test(test_a_seed_that_comes_late_is_found),
        cmocka_unit_test(test_a_wrong_pin_is_not_tried_again),
        cmocka_unit_test(test_the_missing_are_named_on_every_rank),
        cmocka_unit_test(test_who_is_missing_is_reported_more_and_more_rarely),
        cmocka_unit_test(test_what_there_is_to_report_can_be_asked_for),
        cmocka_unit_test(test_the_clock_starts_anew_when_all_have_gone),
        cmocka_unit_test(test_the_next_world_forms_after_a_time_out),
        cmocka_unit_test(test_a_rank_that_does_not_confirm_is_named),
        cmocka_unit_test(test_a_failure_before_start_voids_the_offer),
        cmocka_unit_test(test_a_seed_lost_early_fails_the_join_and_late_does_not),
        cmocka_unit_test(test_a_dialling_peer_shows_that_the_world_has_formed),
        cmocka_unit_test(test_leaving_ends_the_job),
        cmocka_unit_test(test_a_seed_that_is_kept_forms_the_next_world),
        cmocka_unit_test(test_a_mad_seed_only_fails_the_join),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
