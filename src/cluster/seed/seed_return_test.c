/*
 * seed_return_test.c - members lose the seed and return; the seed misses events, fails and
 * restarts.
 */
#include <string.h>

#include "cluster/seed_world.h"
#include "unit.h"

#define SECOND UINT64_C(1000000000)

/* ---- missed views -------------------------------------------------------------------- */

static void test_missed_epochs_are_asked_for(void **state)
{
    rig r;
    rig_joiner *a, *b, *c, *d;

    (void)state;
    rig_init(&r, 3, 0, 1);
    a = rig_join_as(&r, 0, 0);
    b = rig_join_as(&r, 1, 0);
    c = rig_join_as(&r, 2, 0);
    rig_run(&r);
    rig_kill(&r, c);
    rig_cut(&r, a, true);
    rig_cut(&r, b, true);
    rig_go_on(a, 4, NULL, 0); /* while they are disconnected from the seed */
    rig_go_on(b, 4, NULL, 0);
    rig_kill(&r, b);
    rig_go_on(a, 2, NULL, 0);
    d = rig_join_as(&r, NX_RANK_ANY, 0);
    rig_run_until(&r, r.now + 20 * SECOND);
    assert_true(nx_join_state_there(a->state));
    assert_int_equal(r.events[NX_SEED_BACK], 1);
    assert_int_equal(rig_waits(a), 1);
    rig_let_in(a);
    rig_later(&r);
    assert_int_equal(rig_phase(d), NX_JOIN_FORMED);
    rig_assert_same(a, d);
    assert_int_equal(rig_view(d)->epoch, 4);
    assert_int_equal(rig_view(d)->members[1].slot, 3);
    rig_fini(&r);
}

/* A view that exceeds one frame. */
static void test_a_large_view_is_sent_in_pieces(void **state)
{
    enum { N = 340 };
    static rig_joiner *all[N];
    rig r;
    rig_joiner *late;

    (void)state;
    rig_init(&r, N, 0, 1);
    for (int i = 0; i < N; i++) {
        nx_join_rules rules = rig_rules(&r, NX_RANK_ANY, 0);

        memset(rules.hello.self.host, 'h', sizeof(rules.hello.self.host) - 1);
        all[i] = rig_join(&r, &rules);
    }
    rig_run(&r);
    for (int i = 0; i < N; i++) {
        rig_cut(&r, all[i], true);
        rig_go_on(all[i], 0, NULL, 0);
        rig_go_on(all[i], 0, NULL, 0);
    }
    rig_run_until(&r, r.now + 30 * SECOND);
    assert_int_equal(r.events[NX_SEED_BACK], N);
    late = rig_join_as(&r, NX_RANK_ANY, 0);
    rig_later(&r);
    for (int i = 0; i < N; i++) {
        rig_let_in(all[i]);
    }
    rig_later(&r);
    assert_int_equal(rig_phase(late), NX_JOIN_FORMED);
    assert_int_equal(rig_view(late)->epoch, 4);
    rig_assert_same(all[0], late);
    rig_fini(&r);
}

static void send_return(rig *r, rig_conn *c, const nx_member *self, uint64_t epoch)
{
    const nx_return f = {.protocol = NX_JOIN_PROTOCOL, .epoch = epoch, .self = *self};
    uint8_t frame[NX_HELLO_MAX];
    nx_writer w = nx_writer_make(frame, sizeof(frame));

    nx_return_encode(&w, &f);
    rig_send(c, frame, w.len);
    rig_run(r);
}

static void test_a_member_that_does_not_answer_is_dropped_and_another_is_asked(void **state)
{
    rig r;
    rig_joiner *a, *b, *c;
    rig_conn *false_a;

    (void)state;
    rig_init(&r, 2, 0, 1);
    rig_form(&r, &a, &b);
    rig_cut(&r, b, true);
    rig_go_on(b, 0, NULL, 0);
    rig_go_on(b, 0, NULL, 0);
    /* A client takes the seat of a, and reports epoch 9 without its view. */
    false_a = rig_connect_as(&r, a->member);
    send_return(&r, false_a, &rig_view(a)->members[0], 9);
    assert_non_null(rig_find(false_a, NX_JOIN_ASK));
    rig_run_until(&r, r.now + 15 * SECOND);
    assert_true(rig_is_closed(false_a));
    c = rig_join_as(&r, NX_RANK_ANY, 0);
    rig_run_until(&r, r.now + 15 * SECOND);
    assert_int_equal(rig_waits(b), 1);
    assert_int_equal(r.events[NX_SEED_CHANGED], 1); /* the view of b was accepted */
    assert_int_equal(rig_phase(c), NX_JOIN_WAITING);
    rig_fini(&r);
}

/* The whole |view|, in one piece. */
static void send_view(rig *r, rig_conn *c, const nx_view *view)
{
    uint8_t whole[2048], frame[2 * sizeof(whole)];
    nx_writer all = nx_writer_make(whole, sizeof(whole)), w = nx_writer_make(frame, sizeof(frame));

    nx_view_encode(&all, view);
    nx_view_piece_encode(
        &w, &(nx_view_piece){
                .epoch = view->epoch, .total = (uint32_t)all.len, .data = whole, .len = all.len});
    assert_false(all.failed || w.failed);
    rig_send(c, frame, w.len);
    rig_run(r);
}

/* Another member has sent the same view meanwhile: the asked member is not at fault. */
static void test_a_view_that_arrives_late_is_no_violation(void **state)
{
    rig r;
    rig_joiner *a, *b;
    rig_conn *slow;

    (void)state;
    rig_init(&r, 2, 0, 1);
    rig_form(&r, &a, &b);
    slow = rig_connect_as(&r, a->member);
    send_return(&r, slow, &rig_view(a)->members[0], 2);
    assert_non_null(rig_find(slow, NX_JOIN_ASK));
    rig_go_on(b, 0, NULL, 0);
    rig_run(&r);
    assert_int_equal(r.events[NX_SEED_CHANGED], 1);
    send_view(&r, slow, rig_view(b));
    assert_false(rig_is_closed(slow));
    assert_int_equal(r.events[NX_SEED_CHANGED], 1);
    assert_int_equal(r.events[NX_SEED_REFUSED], 0);
    rig_fini(&r);
}

/* A client takes the seat of a, reports epoch 3 and is asked: it sends an invalid view, which must
 * be rejected. */
static void tell_wrong(uint64_t epoch, uint32_t slot_of_a, uint64_t id_of_other,
                       uint32_t slot_of_other)
{
    rig r;
    rig_joiner *a, *b;
    rig_conn *liar;
    nx_view *view = nx_view_create(2);

    assert_non_null(view);
    rig_init(&r, 2, 0, 1);
    rig_form(&r, &a, &b);
    memcpy(view, rig_view(b), sizeof(*view) + 2 * sizeof(view->members[0]));
    view->epoch = epoch;
    view->slots = 9;
    view->members[0].slot = slot_of_a;
    view->members[1].slot = slot_of_other;
    view->members[1].id = id_of_other;
    liar = rig_connect_as(&r, a->member);
    send_return(&r, liar, &rig_view(a)->members[0], 3);
    send_view(&r, liar, view);
    assert_true(rig_is_closed(liar));
    assert_int_equal(r.events[NX_SEED_CHANGED], 0);
    assert_true(nx_seed_state_formed(r.seed) && nx_join_state_there(b->state));
    nx_view_destroy(view);
    rig_fini(&r);
}

static void test_a_view_that_cannot_be_is_not_taken(void **state)
{
    (void)state;
    tell_wrong(3, 7, 2, 8); /* no member would be in its place: the job would never end */
    tell_wrong(3, 0, 2, 8);
    tell_wrong(3, 0, 99, 5); /* never admitted */
    tell_wrong(3, 0, 99, 1);
    tell_wrong(2, 0, 2, 1); /* not the epoch that it has reported */
    tell_wrong(1, 0, 2, 1);
}

/* ---- returning ----------------------------------------------------------------------- */

static void test_a_member_that_returns_receives_the_waiting_joiners(void **state)
{
    rig r;
    rig_joiner *a, *b;
    uint64_t began;

    (void)state;
    for (int known = 0; known < 2; known++) {
        rig_init(&r, 2, 0, 3);
        rig_form(&r, &a, &b);
        (void)rig_join_as(&r, NX_RANK_ANY, 0);
        rig_later(&r);
        rig_cut(&r, a, known == 1);
        assert_int_equal(rig_phase(a), NX_JOIN_FORMED);
        assert_false(nx_join_state_there(a->state));
        assert_int_equal(rig_waits(a), 0); /* no joiner could be admitted now */
        began = r.now;
        assert_in_range(nx_join_state_due(a->state) - began, SECOND, 3 * SECOND / 2);
        rig_run_until(&r, r.now + 2 * SECOND);
        assert_true(nx_join_state_there(a->state));
        assert_int_equal(rig_waits(a), 1);
        assert_int_equal(r.events[NX_SEED_BACK], 1);
        assert_true(nx_seed_state_formed(r.seed));
        rig_let_in(a);
        rig_let_in(b);
        rig_later(&r);
        assert_int_equal(nx_join_state_started(a->state), 2);
        rig_fini(&r);
    }
}

static void test_a_lost_seed_is_dialled_permanently_but_not_often(void **state)
{
    rig r;
    rig_joiner *a, *b;
    uint64_t last, most = 0;

    (void)state;
    rig_init_lasting(&r, 2);
    rig_form(&r, &a, &b);
    rig_kill(&r, b);
    rig_later(&r);
    rig_seed_dies(&r);
    rig_run(&r);
    for (int i = 0; i < 50; i++) {
        last = r.now;
        assert_false(nx_join_state_there(a->state));
        assert_true(rig_advance(&r, r.now + 11 * SECOND));
        most = (r.now - last > most) ? r.now - last : most;
        assert_in_range(r.now - last, SECOND, 10 * SECOND);
        rig_cut(&r, a, false); /* no process listens there */
    }
    assert_true(most > 6 * SECOND);
    rig_seed_again(&r);
    rig_run_until(&r, r.now + 11 * SECOND);
    assert_true(nx_join_state_there(a->state));
    rig_fini(&r);
}

static void test_a_seed_that_has_ended_and_does_not_last_is_given_up(void **state)
{
    rig r;
    rig_joiner *a, *b;

    (void)state;
    rig_init(&r, 2, 0, 3);
    rig_form(&r, &a, &b);
    rig_seed_dies(&r);
    rig_run(&r);
    assert_int_equal(rig_phase(a), NX_JOIN_GONE);
    assert_non_null(rig_view(a));
    assert_int_equal(nx_join_state_due(a->state), UINT64_MAX);
    rig_go_on(a, 2, NULL, 0); /* the world continues */
    assert_int_equal(rig_view(a)->size, 1);
    rig_fini(&r);
}

static void test_the_job_ends_when_no_member_returns(void **state)
{
    rig r;
    rig_joiner *a, *b;

    (void)state;
    rig_init(&r, 2, 0, 3);
    rig_form(&r, &a, &b);
    nx_join_state_leave(b->state);
    rig_run(&r);
    rig_cut(&r, a, true);
    a->dead = true;
    rig_run_until(&r, r.now + NX_SEED_RETURN_NS - SECOND);
    assert_int_equal(r.events[NX_SEED_ENDED], 0);
    rig_run_until(&r, r.now + 2 * SECOND);
    assert_int_equal(r.events[NX_SEED_ENDED], 1);
    assert_true(nx_seed_state_ended(r.seed));
    rig_fini(&r);
}

/* A holder of the token without the key. */
static void test_no_member_returns_as_another(void **state)
{
    rig r;
    rig_joiner *a, *b;
    rig_conn *c;
    nx_member self;

    (void)state;
    rig_init(&r, 2, 0, 3);
    rig_form(&r, &a, &b);
    self = rig_view(a)->members[0];
    c = rig_connect(&r);
    send_return(&r, c, &self, 1);
    assert_true(rig_is_closed(c));
    assert_non_null(strstr(r.last_text[NX_SEED_REFUSED], "without a certificate"));
    c = rig_connect_as(&r, b->member);
    send_return(&r, c, &self, 1);
    assert_true(rig_is_closed(c));
    assert_non_null(strstr(r.last_text[NX_SEED_REFUSED], "certificate is of another member"));
    c = rig_connect_as(&r, b->member);
    rig_send(c, (const uint8_t[]){NX_JOIN_RETURN, 0}, 2);
    rig_run(&r);
    assert_true(rig_is_closed(c));
    assert_non_null(strstr(r.last_text[NX_SEED_REFUSED], "is malformed"));
    assert_int_equal(r.events[NX_SEED_BACK], 0);
    assert_int_equal(r.events[NX_SEED_LOST], 0);
    rig_fini(&r);
}

static void test_a_member_that_the_world_continued_without_is_notified(void **state)
{
    rig r;
    rig_joiner *a, *b;
    const char *text;

    (void)state;
    rig_init(&r, 2, 0, 3);
    rig_form(&r, &a, &b);
    rig_cut(&r, b, true);
    rig_go_on(a, 2, NULL, 0);
    rig_run_until(&r, r.now + 2 * SECOND);
    assert_int_equal(rig_phase(b), NX_JOIN_GONE);
    (void)nx_join_state_error(b->state, &text);
    assert_non_null(strstr(text, "the world has continued without it"));
    assert_true(nx_seed_state_formed(r.seed));
    rig_fini(&r);

    /* Frames of an excluded member that is still connected do not count. */
    rig_init(&r, 2, 0, 3);
    rig_form(&r, &a, &b);
    rig_go_on(a, 2, NULL, 0);
    rig_run(&r);
    rig_go_on(b, 1, NULL, 0);
    rig_run(&r);
    assert_int_equal(r.events[NX_SEED_CHANGED], 1);
    nx_join_state_leave(b->state);
    rig_run(&r);
    assert_int_equal(rig_phase(b), NX_JOIN_GONE);
    assert_int_equal(r.events[NX_SEED_ENDED], 0);
    rig_fini(&r);
}

/* ---- a lasting seed ------------------------------------------------------------------ */

static void test_a_seed_that_comes_back_resumes(void **state)
{
    rig r;
    rig_joiner *a, *b, *c, *d;

    (void)state;
    rig_init_lasting(&r, 2);
    rig_form(&r, &a, &b);
    c = rig_join_as(&r, NX_RANK_ANY, 60 * SECOND);
    rig_later(&r);
    rig_seed_dies(&r);
    rig_run_until(&r, r.now + 20 * SECOND);
    assert_int_equal(rig_phase(a), NX_JOIN_FORMED);
    assert_int_equal(rig_phase(c), NX_JOIN_WAITING);
    assert_int_equal(rig_waits(a), 0);
    rig_seed_again(&r);
    rig_run_until(&r, r.now + 15 * SECOND);
    assert_int_equal(rig_waits(a), 1);
    assert_int_equal(rig_waits(b), 1);
    assert_int_equal(r.events[NX_SEED_BACK], 3);
    d = rig_join_as(&r, NX_RANK_ANY, 0);
    rig_later(&r);
    assert_true(d->member > c->member);
    rig_let_in(a);
    rig_let_in(b);
    rig_later(&r);
    assert_int_equal(rig_phase(c), NX_JOIN_FORMED);
    assert_int_equal(rig_phase(d), NX_JOIN_FORMED);
    rig_assert_same(a, c);
    rig_assert_same(a, d);
    assert_int_equal(rig_view(a)->members[2].id, c->member); /* the older one first */
    rig_fini(&r);
}

static void test_changes_while_the_seed_was_away_are_reported(void **state)
{
    rig r;
    rig_joiner *a, *b, *c, *d;
    nx_member joined;

    (void)state;
    rig_init_lasting(&r, 3);
    a = rig_join_as(&r, 0, 0);
    b = rig_join_as(&r, 1, 0);
    c = rig_join_as(&r, 2, 0);
    rig_run(&r);
    d = rig_join_as(&r, NX_RANK_ANY, 60 * SECOND);
    rig_later(&r);
    joined = nx_join_state_waiting(a->state)->list[0];
    rig_seed_dies(&r);
    rig_kill(&r, c);
    rig_go_on(a, 4, &joined, 1); /* agreed immediately before */
    rig_go_on(b, 4, &joined, 1);
    rig_run_until(&r, r.now + 3 * SECOND);
    rig_seed_again(&r);
    rig_run_until(&r, r.now + 15 * SECOND);
    assert_int_equal(rig_phase(d), NX_JOIN_FORMED);
    rig_assert_same(a, d);
    assert_int_equal(rig_view(d)->size, 3);
    assert_int_equal(nx_join_state_started(a->state), 2);
    rig_fini(&r);
}

static void test_a_world_forms_although_the_seed_dies_at_any_moment(void **state)
{
    unsigned formed_before = 0;

    (void)state;
    for (unsigned steps = 0; steps < 40; steps++) {
        rig r;
        rig_joiner *a, *b;

        rig_init_lasting(&r, 2);
        a = rig_join_as(&r, 1, 60 * SECOND);
        b = rig_join_as(&r, NX_RANK_ANY, 60 * SECOND);
        for (unsigned i = 0; i < steps; i++) {
            (void)rig_step(&r);
        }
        formed_before += nx_seed_state_formed(r.seed) ? 1 : 0;
        rig_seed_dies(&r);
        rig_run_until(&r, r.now + SECOND);
        rig_seed_again(&r);
        rig_run_until(&r, r.now + 20 * SECOND);
        assert_int_equal(rig_phase(a), NX_JOIN_FORMED);
        assert_int_equal(rig_phase(b), NX_JOIN_FORMED);
        rig_assert_same(a, b);
        assert_true(nx_seed_state_formed(r.seed));
        assert_true(nx_join_state_there(a->state) && nx_join_state_there(b->state));
        rig_fini(&r);
    }
    assert_in_range(formed_before, 5, 35);
}

static void test_no_number_is_given_out_again(void **state)
{
    uint64_t last = 0;
    rig r;

    (void)state;
    rig_init_lasting(&r, 1);
    for (int life = 0; life < 5; life++) {
        for (int i = 0; i < 300; i++) {
            rig_joiner *j = rig_join_as(&r, NX_RANK_ANY, 0);

            while (j->member == 0) {
                assert_true(rig_step(&r));
            }
            assert_true(j->member > last);
            last = j->member;
        }
        rig_seed_dies(&r);
        rig_seed_again(&r);
    }
    assert_in_range(r.saves, 5, 40); /* and it is not written for each of them */
    rig_fini(&r);
}

/* A member that the seed's state, an old copy, does not contain. */
static void test_a_number_that_a_certificate_names_is_not_given_out_again(void **state)
{
    rig r;
    rig_joiner *a, *b;
    const rig_joiner *c;

    (void)state;
    rig_init_lasting(&r, 2);
    rig_form(&r, &a, &b);
    (void)rig_connect_as(&r, 5000);
    c = rig_join_as(&r, NX_RANK_ANY, 0);
    rig_run(&r);
    assert_int_equal(c->member, 5001);
    rig_seed_dies(&r); /* and it is kept */
    rig_seed_again(&r);
    c = rig_join_as(&r, NX_RANK_ANY, 0);
    rig_run(&r);
    assert_true(c->member > 5001);
    rig_fini(&r);
}

static void test_a_lasting_seed_that_stays_away_is_named(void **state)
{
    rig r;
    rig_joiner *a, *b, *c;

    (void)state;
    rig_init_lasting(&r, 2);
    rig_form(&r, &a, &b);
    c = rig_join_as(&r, NX_RANK_ANY, 5 * SECOND);
    rig_later(&r);
    rig_seed_dies(&r);
    rig_run_until(&r, r.now + 10 * SECOND);
    rig_assert_failed(c, NEXAR_ECONNECT, "has gone and was not back within 5s");
    rig_fini(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_missed_epochs_are_asked_for),
        cmocka_unit_test(test_a_large_view_is_sent_in_pieces),
        cmocka_unit_test(test_a_member_that_does_not_answer_is_dropped_and_another_is_asked),
        cmocka_unit_test(test_a_view_that_arrives_late_is_no_violation),
        cmocka_unit_test(test_a_view_that_cannot_be_is_not_taken),
        cmocka_unit_test(test_a_member_that_returns_receives_the_waiting_joiners),
        cmocka_unit_test(test_a_lost_seed_is_dialled_permanently_but_not_often),
        cmocka_unit_test(test_a_seed_that_has_ended_and_does_not_last_is_given_up),
        cmocka_unit_test(test_the_job_ends_when_no_member_returns),
        cmocka_unit_test(test_no_member_returns_as_another),
        cmocka_unit_test(test_a_member_that_the_world_continued_without_is_notified),
        cmocka_unit_test(test_a_seed_that_comes_back_resumes),
        cmocka_unit_test(test_changes_while_the_seed_was_away_are_reported),
        cmocka_unit_test(test_a_world_forms_although_the_seed_dies_at_any_moment),
        cmocka_unit_test(test_no_number_is_given_out_again),
        cmocka_unit_test(test_a_number_that_a_certificate_names_is_not_given_out_again),
        cmocka_unit_test(test_a_lasting_seed_that_stays_away_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
