/*
 * seed_run_test.c - a world that has formed: later joiners wait and are admitted, whatever a member
 * sends and however short memory is.
 */
#include <string.h>

#include "base/alloc.h"
#include "cluster/comm_id.h"
#include "cluster/seed_world.h"
#include "unit.h"

#define SECOND UINT64_C(1000000000)

/* ---- later joiners ------------------------------------------------------------------- */

/* A world of two has formed, and one joiner waits. */
static rig_joiner *init_with_waiter(rig *r, rig_joiner **a, rig_joiner **b)
{
    rig_joiner *c;

    rig_init(r, 2, 0, 1);
    rig_form(r, a, b);
    c = rig_join_as(r, NX_RANK_ANY, 0);
    rig_later(r);
    assert_int_equal(rig_phase(c), NX_JOIN_WAITING);
    return c;
}

static void test_a_later_joiner_waits_and_is_admitted(void **state)
{
    rig r;
    rig_joiner *a, *b, *c, *d;

    (void)state;
    rig_init(&r, 2, 0, 1);
    rig_form(&r, &a, &b);
    c = rig_join_as(&r, NX_RANK_ANY, 0);
    d = rig_join_as(&r, NX_RANK_ANY, 0);
    rig_later(&r);
    assert_int_equal(rig_phase(c), NX_JOIN_WAITING);
    assert_int_equal(rig_waits(a), 2);
    assert_int_equal(rig_waits(b), 2);
    assert_int_equal(rig_waits(c), 0);
    assert_int_equal(r.events[NX_SEED_WAITING], 2);
    assert_non_null(strstr(r.last_text[NX_SEED_WAITING], "waits to join the world"));
    rig_let_in(a);
    rig_let_in(b);
    rig_later(&r);
    assert_int_equal(rig_phase(c), NX_JOIN_FORMED);
    assert_int_equal(rig_phase(d), NX_JOIN_FORMED);
    assert_int_equal(rig_view(a)->size, 4);
    assert_int_equal(rig_view(a)->epoch, 2);
    assert_int_equal(rig_view(a)->world, 7);
    assert_int_equal(rig_view(a)->members[2].slot, 2);
    rig_assert_same(a, b);
    rig_assert_same(a, c);
    rig_assert_same(a, d);
    assert_int_equal(nx_join_state_started(a->state), 2);
    assert_int_equal(nx_join_state_started(c->state), 2);
    assert_int_equal(r.events[NX_SEED_CHANGED], 1);
    assert_non_null(strstr(r.last_text[NX_SEED_CHANGED], "has 4 ranks now, 2 of them new"));
    assert_int_equal(rig_waits(a) + rig_waits(b) + rig_waits(c) + rig_waits(d), 0);

    /* Again: a new view, also sent to the new members. */
    (void)rig_join_as(&r, NX_RANK_ANY, 0);
    rig_later(&r);
    assert_int_equal(rig_waits(d), 1);
    rig_fini(&r);
}

static void test_a_start_waits_for_every_member(void **state)
{
    rig r;
    rig_joiner *a, *b, *c;
    nx_member joined;

    (void)state;
    c = init_with_waiter(&r, &a, &b);
    joined = nx_join_state_waiting(a->state)->list[0];
    rig_let_in(a);
    rig_later(&r);
    assert_int_equal(rig_phase(c), NX_JOIN_OFFERED); /* b would not know it */
    assert_int_equal(nx_join_state_started(a->state), 1);
    rig_go_on(b, 0, &joined, 1);
    rig_later(&r);
    assert_int_equal(rig_phase(c), NX_JOIN_FORMED);
    assert_int_equal(nx_join_state_started(b->state), 2);
    rig_fini(&r);

    /* But not for a joiner that has failed. */
    c = init_with_waiter(&r, &a, &b);
    rig_let_in(a);
    rig_kill(&r, b);
    rig_later(&r);
    assert_int_equal(rig_phase(c), NX_JOIN_FORMED);
    rig_fini(&r);
}

static void test_a_waiter_that_goes_is_taken_back(void **state)
{
    rig r;
    rig_joiner *a, *b, *c;

    (void)state;
    c = init_with_waiter(&r, &a, &b);
    assert_int_equal(rig_waits(a), 1);
    rig_kill(&r, c);
    rig_later(&r);
    assert_int_equal(rig_waits(a), 0);
    assert_int_equal(rig_waits(b), 0);
    assert_non_null(strstr(r.last_text[NX_SEED_LOST], "while it waited"));

    /* More joiners than are announced one by one. */
    for (int i = 0; i < 100; i++) {
        (void)rig_join_as(&r, NX_RANK_ANY, 2 * SECOND);
    }
    rig_later(&r);
    assert_int_equal(rig_waits(b), 100);
    c = rig_join_as(&r, NX_RANK_ANY, 0);
    rig_run_until(&r, r.now + 10 * SECOND);
    assert_int_equal(rig_waits(a), 1);
    assert_int_equal(rig_waits(b), 1);
    assert_int_equal(rig_phase(c), NX_JOIN_WAITING);
    rig_fini(&r);
}

static void test_a_named_rank_that_has_left_is_in_the_view(void **state)
{
    rig r;
    rig_joiner *a, *b, *c, *d;
    nx_member gone[2];

    (void)state;
    rig_init(&r, 2, 0, 1);
    rig_form(&r, &a, &b);
    c = rig_join_as(&r, NX_RANK_ANY, 0);
    d = rig_join_as(&r, NX_RANK_ANY, 0);
    rig_later(&r);
    memcpy(gone, nx_join_state_waiting(a->state)->list, sizeof(gone));
    rig_kill(&r, c);
    rig_later(&r);
    assert_int_equal(rig_waits(a), 1);
    rig_go_on(a, 0, gone, 2);
    rig_go_on(b, 0, gone, 2);
    rig_later(&r);
    assert_int_equal(rig_phase(d), NX_JOIN_FORMED);
    rig_assert_same(a, d);
    assert_int_equal(rig_view(d)->size, 4);
    assert_int_equal(r.events[NX_SEED_CHANGED], 2);
    assert_non_null(
        strstr(r.last_text[NX_SEED_CHANGED], "1 of the new ranks is not here any more"));
    rig_fini(&r);
}

static void test_a_rank_cannot_be_asked_for_later_and_a_size_is_not_looked_at(void **state)
{
    rig r;
    rig_joiner *a, *b, *c;
    nx_join_rules rules;

    (void)state;
    rig_init(&r, 2, 0, 1);
    rig_form(&r, &a, &b);
    c = rig_join_as(&r, 2, 0);
    rig_later(&r);
    rig_assert_failed(c, NEXAR_EINVAL, "rank 2 was asked for, but the world of 2 ranks has formed");
    rules = rig_rules(&r, NX_RANK_ANY, 0);
    rules.hello.world_size = 5;
    c = rig_join(&r, &rules);
    rig_later(&r);
    assert_int_equal(rig_phase(c), NX_JOIN_WAITING);
    rig_fini(&r);
}

static rig_joiner *join_hinted(rig *r, uint32_t rank)
{
    nx_join_rules rules = rig_rules(r, rank, 0);

    rules.hello.hinted = true;
    rules.launcher = "SLURM_PROCID";
    return rig_join(r, &rules);
}

/* A launcher numbers its processes, whatever world they reach. */
static void test_a_launchers_number_is_a_rank_only_while_the_world_forms(void **state)
{
    rig r;
    rig_joiner *a, *b, *c;

    (void)state;
    rig_init_lasting(&r, 2);
    a = join_hinted(&r, 1);
    rig_later(&r);
    c = join_hinted(&r, 1);
    rig_later(&r);
    rig_assert_failed(c, NEXAR_EINVAL, "rank 1 is taken by");
    rig_assert_failed(c, NEXAR_EINVAL,
                      "(its rank is from SLURM_PROCID; with NEXAR_RANK=auto that does not count)");
    b = join_hinted(&r, 0);
    rig_later(&r);
    rig_assert_same(a, b);
    assert_int_equal(rig_view(a)->members[1].id, a->member);
    c = join_hinted(&r, 0);
    rig_later(&r);
    assert_int_equal(rig_phase(c), NX_JOIN_WAITING);
    rig_cut(&r, c, true); /* it returns with the same number */
    rig_run_until(&r, r.now + 5 * SECOND);
    assert_int_equal(r.events[NX_SEED_BACK], 1);
    assert_int_equal(rig_waits(a), 1);
    rig_let_in(a);
    rig_let_in(b);
    rig_later(&r);
    assert_int_equal(rig_phase(c), NX_JOIN_FORMED);
    rig_assert_same(a, c);
    assert_int_equal(rig_view(c)->size, 3);
    rig_fini(&r);
}

static void test_a_launchers_number_takes_no_place_of_another_launcher(void **state)
{
    rig r;
    rig_joiner *a, *b, *c;

    (void)state;
    rig_init(&r, 2, 0, 1);
    nx_seed_state_destroy(r.seed);
    r.rules.ranked = true;
    rig_seed(&r);
    c = join_hinted(&r, 0);
    rig_later(&r);
    assert_int_equal(r.events[NX_SEED_WAITING], 1);
    a = rig_join_as(&r, 0, 0);
    b = rig_join_as(&r, 1, 0);
    rig_later(&r);
    rig_assert_same(a, b);
    assert_int_equal(rig_phase(c), NX_JOIN_WAITING);
    rig_fini(&r);
}

static void test_a_joiner_that_is_not_admitted_gives_up(void **state)
{
    rig r;
    rig_joiner *a, *b, *c;

    (void)state;
    rig_init(&r, 2, 0, 1);
    rig_form(&r, &a, &b);
    c = rig_join_as(&r, NX_RANK_ANY, 3 * SECOND);
    rig_run_until(&r, r.now + 10 * SECOND);
    rig_assert_failed(c, NEXAR_ETIMEDOUT,
                      "not let in within 3s: the world has formed and its ranks have not called "
                      "nexar_comm_update since");
    assert_int_equal(rig_waits(a), 0);
    assert_non_null(strstr(r.last_text[NX_SEED_LEFT], "it gave up waiting after 3s"));
    rig_fini(&r);
}

/* Full but not formed: a joiner waits, and takes the place of a lost member. */
static void test_a_waiter_takes_a_place_that_becomes_free(void **state)
{
    uint8_t hello[NX_HELLO_MAX];
    rig r;
    rig_joiner *a, *b;
    rig_conn *mute;

    (void)state;
    rig_init(&r, 2, 0, 1);
    a = rig_join_as(&r, 0, 0);
    rig_run(&r);
    mute = rig_connect(&r);
    rig_send(mute, hello, rig_hello(mute, &r.rules.token, NX_RANK_ANY, hello));
    rig_run(&r);
    b = rig_join_as(&r, NX_RANK_ANY, 0);
    rig_run(&r);
    assert_int_equal(rig_phase(b), NX_JOIN_WAITING);
    rig_send(mute, "\1", 1);
    rig_later(&r);
    assert_true(rig_is_closed(mute));
    assert_int_equal(rig_phase(b), NX_JOIN_FORMED);
    rig_assert_same(a, b);
    rig_fini(&r);
}

/* A launcher has started the ranks.  A process with only the join string takes none of their
 * places, however early it is, even if one of them has to reconnect. */
static void test_places_of_ranks_that_were_started_are_kept(void **state)
{
    nx_join_rules rules;
    rig r;
    rig_joiner *a, *b, *lost, *early, *wide;

    (void)state;
    rig_init(&r, 2, 0, 1);
    nx_seed_state_destroy(r.seed);
    r.rules.ranked = true;
    rig_seed(&r);
    early = rig_join_as(&r, NX_RANK_ANY, 0);
    rules = rig_rules(&r, NX_RANK_ANY, 0);
    rules.hello.world_size = 3; /* to form, which it does not */
    wide = rig_join(&r, &rules);
    rig_later(&r);
    assert_int_equal(r.events[NX_SEED_WAITING], 2);
    lost = rig_join_as(&r, 0, 0);
    rig_later(&r);
    rig_cut(&r, early, true);
    rig_kill(&r, lost);
    rig_later(&r);
    assert_int_equal(r.events[NX_SEED_FORMED], 0);
    a = rig_join_as(&r, 0, 0);
    rig_later(&r);
    assert_int_equal(r.events[NX_SEED_FORMED], 0);
    b = rig_join_as(&r, 1, 0);
    rig_later(&r);
    rig_assert_same(a, b);
    assert_int_equal(rig_view(a)->size, 2);
    assert_int_equal(rig_phase(wide), NX_JOIN_WAITING);
    assert_true(rig_waits(a) >= 1);
    rig_let_in(a);
    rig_let_in(b);
    rig_later(&r);
    assert_int_equal(rig_phase(wide), NX_JOIN_FORMED);
    rig_assert_same(a, wide);
    rig_fini(&r);
}

static void test_waiting_joiners_form_the_next_world_or_are_notified_of_the_end(void **state)
{
    rig r;
    rig_joiner *a, *b, *c, *d;

    (void)state;
    for (int keep = 0; keep < 2; keep++) {
        rig_init(&r, 2, 0, 1);
        nx_seed_state_destroy(r.seed);
        r.rules.keep = (keep == 1);
        rig_seed(&r);
        rig_form(&r, &a, &b);
        c = rig_join_as(&r, NX_RANK_ANY, 0);
        rig_later(&r);
        nx_join_state_leave(a->state);
        nx_join_state_leave(b->state);
        rig_later(&r);
        assert_int_equal(r.events[NX_SEED_ENDED], 1);
        if (keep == 0) {
            rig_assert_failed(c, NEXAR_ENOTSUP, "the job has ended while it waited");
        } else {
            assert_int_equal(rig_phase(c), NX_JOIN_WAITING);
            d = rig_join_as(&r, 0, 0);
            rig_later(&r);
            assert_int_equal(rig_phase(c), NX_JOIN_FORMED);
            rig_assert_same(c, d);
            assert_true(rig_view(c)->epoch > 1);
        }
        rig_fini(&r);
    }
}

/* ---- forming with fewer ranks -------------------------------------------------------- */

static void rules_min(rig *r, uint32_t min)
{
    nx_seed_state_destroy(r->seed);
    r->rules.min_world = min;
    rig_seed(r);
}

static void test_enough_form_the_world_when_the_time_has_passed(void **state)
{
    rig r;
    rig_joiner *a, *b, *c;

    (void)state;
    rig_init(&r, 4, 3 * SECOND, 1);
    rules_min(&r, 2);
    a = rig_join_as(&r, 3, 5 * SECOND);
    b = rig_join_as(&r, NX_RANK_ANY, 5 * SECOND);
    rig_run_until(&r, r.now + 2 * SECOND);
    assert_int_equal(rig_phase(a), NX_JOIN_WAITING);
    rig_run_until(&r, r.now + 2 * SECOND);
    assert_int_equal(rig_phase(a), NX_JOIN_FORMED);
    rig_assert_same(a, b);
    assert_int_equal(rig_view(a)->size, 2);
    assert_int_equal(rig_view(a)->members[0].id, b->member); /* ranks move down */
    assert_non_null(strstr(r.last_text[NX_SEED_FORMED], "formed with 2 of 4 ranks"));
    c = rig_join_as(&r, NX_RANK_ANY, 0);
    rig_later(&r);
    assert_int_equal(rig_phase(c), NX_JOIN_WAITING);
    rig_fini(&r);

    rig_init(&r, 4, 3 * SECOND, 1); /* too few */
    rules_min(&r, 3);
    a = rig_join_as(&r, 3, 0);
    b = rig_join_as(&r, NX_RANK_ANY, 0);
    rig_run_until(&r, r.now + 4 * SECOND);
    rig_assert_failed(a, NEXAR_ETIMEDOUT, "missing: ranks 1-2");
    rig_assert_failed(b, NEXAR_ETIMEDOUT, "2 of 4 ranks");
    rig_fini(&r);
}

static void test_a_joiner_that_does_not_confirm_is_dropped(void **state)
{
    uint8_t hello[NX_HELLO_MAX];
    rig r;
    rig_joiner *a, *b;
    rig_conn *mute;

    (void)state;
    rig_init(&r, 3, 3 * SECOND, 1);
    rules_min(&r, 2);
    a = rig_join_as(&r, NX_RANK_ANY, 0);
    b = rig_join_as(&r, NX_RANK_ANY, 0);
    rig_run(&r);
    mute = rig_connect(&r);
    rig_send(mute, hello, rig_hello(mute, &r.rules.token, 1, hello));
    rig_run_until(&r, r.now + 4 * SECOND);
    assert_true(rig_is_closed(mute));
    assert_int_equal(rig_phase(a), NX_JOIN_FORMED);
    assert_int_equal(rig_view(a)->size, 2);
    rig_assert_same(a, b);
    rig_fini(&r);
}

/* A joiner reconnects while the view is being sent to another joiner: that one does not get it
 * twice, and may confirm it once. */
static void test_who_is_shown_a_view_is_shown_it_once(void **state)
{
    uint8_t hello[NX_HELLO_MAX], frame[NX_HELLO_MAX];
    nx_writer w = nx_writer_make(frame, sizeof(frame));
    nx_return back = {.protocol = NX_JOIN_PROTOCOL};
    rig r;
    rig_joiner *a, *b;
    rig_conn *c[2];

    (void)state;
    rig_init(&r, 2, 0, 1);
    rig_form(&r, &a, &b);
    for (int i = 0; i < 2; i++) {
        c[i] = rig_connect(&r);
        rig_send(c[i], hello, rig_hello(c[i], &r.rules.token, NX_RANK_ANY, hello));
        rig_run(&r);
    }
    rig_later(&r);
    rig_let_in(a);
    rig_let_in(b);
    rig_run(&r);
    assert_non_null(rig_find(c[0], NX_JOIN_VIEW));
    back.self = rig_view(a)->members[3];
    back.self.rank = NX_RANK_ANY;
    nx_return_encode(&w, &back);
    c[1] = rig_connect_as(&r, back.self.id);
    rig_send(c[1], frame, w.len);
    rig_run(&r);
    assert_non_null(rig_find(c[1], NX_JOIN_VIEW));
    w = nx_writer_make(frame, sizeof(frame));
    nx_have_encode(&w, 2);
    rig_send(c[0], frame, w.len);
    if (rig_count(c[0], NX_JOIN_VIEW) > 1) { /* as a joiner would */
        rig_send(c[0], frame, w.len);
    }
    rig_run(&r);
    assert_false(rig_is_closed(c[0]));
    assert_null(rig_find(c[0], NX_JOIN_START));
    rig_send(c[1], frame, w.len);
    rig_run(&r);
    assert_non_null(rig_find(c[0], NX_JOIN_START));
    assert_non_null(rig_find(c[1], NX_JOIN_START));
    rig_fini(&r);
}

/* The answer to |j| when it asks how |member| has left. */
static nx_farewell ask_about(rig *r, rig_joiner *j, uint64_t member)
{
    j->missed = 0;
    assert_true(nx_join_state_missed(j->state, member, false));
    rig_run(r);
    assert_int_equal(j->missed, member);
    return j->went;
}

/* The same, for a member whose process is known to have ended. */
static nx_farewell ask_about_ended(rig *r, rig_joiner *j, uint64_t member)
{
    assert_true(nx_join_state_missed(j->state, member, true));
    rig_run(r);
    return j->went;
}

static void test_the_seed_knows_which_members_said_goodbye(void **state)
{
    rig r;
    rig_joiner *a, *b, *c, *d;

    (void)state;
    rig_init(&r, 4, 0, 1);
    a = rig_join_as(&r, 0, 0);
    b = rig_join_as(&r, 1, 0);
    c = rig_join_as(&r, 2, 0);
    d = rig_join_as(&r, 3, 0);
    rig_run(&r);
    assert_int_equal(ask_about(&r, a, d->member), NX_FAREWELL_HERE); /* not yet */
    assert_int_equal(ask_about_ended(&r, a, d->member), NX_FAREWELL_NONE);
    assert_int_equal(rig_phase(d), NX_JOIN_FORMED); /* without harm to it */
    nx_join_state_leave(d->state);
    rig_run(&r);
    assert_int_equal(ask_about(&r, a, d->member), NX_FAREWELL_SAID);
    assert_int_equal(ask_about_ended(&r, a, d->member), NX_FAREWELL_SAID);
    rig_cut(&r, c, true); /* it may return, and say so where the seed does not receive it */
    rig_run(&r);
    assert_int_equal(ask_about(&r, a, c->member), NX_FAREWELL_UNKNOWN);
    rig_kill(&r, b);
    rig_run(&r);
    assert_int_equal(ask_about(&r, a, b->member), NX_FAREWELL_NONE);
    assert_int_equal(ask_about(&r, a, 4711), NX_FAREWELL_UNKNOWN);
    rig_fini(&r);
}

static void test_goodbyes_are_known_after_a_change(void **state)
{
    rig r;
    rig_joiner *a, *b, *late;

    (void)state;
    rig_init(&r, 2, 0, 1);
    rig_form(&r, &a, &b);
    nx_join_state_leave(b->state);
    rig_run(&r);
    late = rig_join_as(&r, NX_RANK_ANY, 0);
    rig_run(&r);
    rig_later(&r);
    rig_let_in(a);
    rig_run(&r);
    assert_int_equal(rig_phase(late), NX_JOIN_FORMED);
    assert_int_equal(ask_about(&r, late, b->member), NX_FAREWELL_SAID);
    rig_fini(&r);
}

/* Departures reported to the earlier seed are not on its disk. */
static void test_a_seed_that_is_back_does_not_say_what_it_has_forgotten(void **state)
{
    rig r;
    rig_joiner *a, *b;

    (void)state;
    rig_init(&r, 2, 0, 1);
    nx_seed_state_destroy(r.seed);
    r.rules.lasting = true;
    rig_seed(&r);
    rig_form(&r, &a, &b);
    nx_join_state_leave(b->state);
    rig_run(&r);
    rig_seed_dies(&r);
    rig_run(&r);
    assert_false(nx_join_state_missed(a->state, b->member, true)); /* no member is there to ask */
    rig_seed_again(&r);
    rig_run_until(&r, r.now + UINT64_C(20000000000));
    assert_int_equal(ask_about(&r, a, b->member), NX_FAREWELL_UNKNOWN);
    rig_fini(&r);
}

static void test_who_waits_does_not_ask_how_others_went(void **state)
{
    uint8_t hello[NX_HELLO_MAX], frame[16];
    nx_writer w = nx_writer_make(frame, sizeof(frame));
    rig r;
    rig_joiner *a, *b;
    rig_conn *c;

    (void)state;
    rig_init(&r, 2, 0, 1);
    rig_form(&r, &a, &b);
    c = rig_connect(&r);
    rig_send(c, hello, rig_hello(c, &r.rules.token, NX_RANK_ANY, hello));
    rig_run(&r);
    nx_unreachable_encode(&w, b->member, false);
    rig_send(c, frame, w.len);
    rig_run(&r);
    assert_non_null(rig_find(c, NX_JOIN_REFUSED));
    assert_null(rig_find(c, NX_JOIN_FAREWELL));
    rig_fini(&r);
}

/* Two join, and one of them does not answer: when a member hurries, the others start without it. */
static void test_a_silent_joiner_is_not_waited_for_after_hurry(void **state)
{
    uint8_t hello[NX_HELLO_MAX], frame[16];
    nx_writer w = nx_writer_make(frame, sizeof(frame));
    rig r;
    rig_joiner *a, *b;
    rig_conn *c[2];

    (void)state;
    rig_init(&r, 2, 0, 1);
    rig_form(&r, &a, &b);
    for (int i = 0; i < 2; i++) {
        c[i] = rig_connect(&r);
        rig_send(c[i], hello, rig_hello(c[i], &r.rules.token, NX_RANK_ANY, hello));
        rig_run(&r);
    }
    rig_later(&r);
    rig_let_in(a);
    rig_let_in(b);
    rig_run(&r);
    nx_have_encode(&w, 2);
    rig_send(c[0], frame, w.len);
    rig_run(&r);
    assert_null(rig_find(c[0], NX_JOIN_START));
    nx_join_state_urge(a->state);
    rig_run(&r);
    assert_non_null(rig_find(c[0], NX_JOIN_START));
    assert_non_null(rig_find(c[1], NX_JOIN_REFUSED));
    assert_true(rig_is_closed(c[1]) && !rig_is_closed(c[0]));
    assert_int_equal(nx_join_state_started(a->state), 2);
    assert_int_equal(nx_join_state_started(b->state), 2);
    nx_join_state_urge(b->state); /* too late, and harmless */
    rig_run(&r);
    assert_false(rig_is_closed(c[0]));
    rig_fini(&r);
}

/* A number that is not on disk might be assigned twice. */
static void test_no_joiner_is_admitted_while_the_seed_cannot_save(void **state)
{
    rig r;
    rig_joiner *a, *b, *c;

    (void)state;
    rig_init_lasting(&r, 2);
    r.fail_saves = true;
    a = rig_join_as(&r, 0, 0);
    rig_run(&r);
    rig_assert_failed(a, NEXAR_ECONNECT, "the disk is full");
    r.fail_saves = false;
    rig_form(&r, &a, &b);
    r.fail_saves = true;
    c = rig_join_as(&r, NX_RANK_ANY, 0); /* its number is below the limit */
    rig_later(&r);
    rig_let_in(a);
    rig_let_in(b);
    rig_later(&r);
    assert_int_equal(rig_phase(c), NX_JOIN_FORMED);
    rig_seed_dies(&r);
    rig_seed_again(&r);
    r.fail_saves = false;
    rig_run_until(&r, r.now + 20 * SECOND);
    assert_true(nx_join_state_there(c->state));
    b = rig_join_as(&r, NX_RANK_ANY, 0);
    rig_later(&r);
    assert_true(b->member > c->member);
    rig_fini(&r);
}

/* ---- malicious members --------------------------------------------------------------- */

enum { FRAMES = 3, FRAME_MAX = 2048 };

/* The frames of a member of a world of two: it advances by one epoch and by more, and sends a piece
 * of its view. */
static void member_frames(uint8_t frames[FRAMES][FRAME_MAX], size_t len[FRAMES])
{
    const nx_member m = {.id = 3};
    rig r;
    rig_joiner *a, *b;
    nx_rankset gone;
    nx_view *next = NULL;
    nx_writer w;

    rig_init(&r, 2, 0, 3);
    rig_form(&r, &a, &b);
    assert_int_equal(nx_rankset_init(&gone, 2), NEXAR_OK);
    (void)nx_rankset_add(&gone, 1);
    assert_int_equal(nx_view_next(rig_view(a), NULL, NULL, 0, 7, &next), NEXAR_OK);
    w = nx_writer_make(frames[0], FRAME_MAX);
    nx_advance_encode(&w, next, &gone, &m, 1);
    len[0] = w.len;
    next->epoch = 4;
    w = nx_writer_make(frames[1], FRAME_MAX);
    nx_advance_encode(&w, next, &gone, NULL, 0);
    len[1] = w.len;
    w = nx_writer_make(frames[2], FRAME_MAX);
    nx_view_piece_encode(
        &w, &(nx_view_piece){.epoch = 4, .total = 100, .data = frames[0], .len = len[0]});
    len[2] = w.len;
    nx_view_destroy(next);
    nx_rankset_fini(&gone);
    rig_fini(&r);
}

/* One of two members sends |frame|; the other can still see the waiting joiners, unless the world
 * has advanced by that frame. */
static void send_bad(const uint8_t *frame, size_t len)
{
    rig r;
    rig_joiner *a, *b;

    rig_init(&r, 2, 0, 3);
    rig_form(&r, &a, &b);
    rig_send(a->conn, frame, len);
    rig_run(&r);
    assert_true(nx_join_state_there(b->state));
    (void)rig_join_as(&r, NX_RANK_ANY, 0);
    rig_later(&r);
    assert_int_equal(rig_waits(b), (r.events[NX_SEED_CHANGED] > 0) ? 0 : 1);
    rig_fini(&r);
}

/* Every frame of a member, with every bit changed or cut: it is accepted, or its sender removed;
 * the others are unaffected. */
static void test_bad_frames_of_a_member_disturb_no_other(void **state)
{
    uint8_t frames[FRAMES][FRAME_MAX];
    size_t len[FRAMES];

    (void)state;
    member_frames(frames, len);
    for (int i = 0; i < FRAMES; i++) {
        for (size_t bit = 0; bit < len[i] * 8; bit++) {
            frames[i][bit / 8] ^= (uint8_t)(1U << (bit % 8));
            send_bad(frames[i], len[i]);
            frames[i][bit / 8] ^= (uint8_t)(1U << (bit % 8));
        }
        for (size_t cut = 0; cut < len[i]; cut++) {
            send_bad(frames[i], cut);
        }
    }
}

/* The id of the world is sent to joiners and saved by the seed: an id that they would reject is
 * rejected here too. */
static void test_an_empty_world_is_not_installed(void **state)
{
    rig r;
    rig_joiner *a, *b;
    nx_rankset nobody;
    nx_view *next = NULL;
    uint8_t frame[FRAME_MAX];
    nx_writer w = nx_writer_make(frame, sizeof(frame));

    (void)state;
    rig_init(&r, 2, 0, 3);
    rig_form(&r, &a, &b);
    assert_int_equal(nx_view_next(rig_view(a), NULL, NULL, 0, nx_comm_id_make(2, 1), &next),
                     NEXAR_EINVAL);
    assert_int_equal(nx_view_next(rig_view(a), NULL, NULL, 0, nx_comm_id_make(1, 1), &next),
                     NEXAR_OK);
    assert_int_equal(nx_rankset_init(&nobody, 2), NEXAR_OK);
    next->world = UINT32_MAX;
    nx_advance_encode(&w, next, &nobody, NULL, 0);
    rig_send(a->conn, frame, w.len);
    rig_run(&r);
    assert_int_equal(r.events[NX_SEED_CHANGED], 0);
    assert_false(nx_join_state_there(a->state));
    nx_rankset_fini(&nobody);
    nx_view_destroy(next);
    rig_fini(&r);
}

/* Memory may be short at any moment of a change; all members complete it in the end. */
static void test_lack_of_memory_delays_a_change_and_no_more(void **state)
{
    int failed = 0;

    (void)state;
    for (long n = 0; n < 60; n++) {
        rig r;
        rig_joiner *a, *b, *c;

        rig_init_lasting(&r, 2);
        rig_form(&r, &a, &b);
        c = rig_join_as(&r, NX_RANK_ANY, 0);
        rig_later(&r);
        if (rig_waits(a) == 1) {
            rig_let_in(a);
            rig_let_in(b);
        }
        nx_alloc_fail_after(n);
        for (int i = 0; i < 6; i++) {
            (void)rig_step(&r);
        }
        nx_alloc_fail_after(-1);
        rig_run_until(&r, r.now + 30 * SECOND);
        assert_int_equal(rig_phase(a), NX_JOIN_FORMED);
        assert_true(nx_join_state_there(a->state) && nx_join_state_there(b->state));
        if (rig_phase(c) == NX_JOIN_FAILED) { /* it was its own memory */
            rig_assert_failed(c, NEXAR_ENOMEM, "memory");
            failed++;
        } else {
            assert_int_equal(rig_phase(c), NX_JOIN_FORMED);
            rig_assert_same(a, c);
        }
        rig_fini(&r);
    }
    assert_in_range(failed, 0, 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_later_joiner_waits_and_is_admitted),
        cmocka_unit_test(test_a_start_waits_for_every_member),
        cmocka_unit_test(test_a_waiter_that_goes_is_taken_back),
        cmocka_unit_test(test_a_named_rank_that_has_left_is_in_the_view),
        cmocka_unit_test(test_a_rank_cannot_be_asked_for_later_and_a_size_is_not_looked_at),
        cmocka_unit_test(test_a_launchers_number_is_a_rank_only_while_the_world_forms),
        cmocka_unit_test(test_a_launchers_number_takes_no_place_of_another_launcher),
        cmocka_unit_test(test_a_joiner_that_is_not_admitted_gives_up),
        cmocka_unit_test(test_a_waiter_takes_a_place_that_becomes_free),
        cmocka_unit_test(test_places_of_ranks_that_were_started_are_kept),
        cmocka_unit_test(test_waiting_joiners_form_the_next_world_or_are_notified_of_the_end),
        cmocka_unit_test(test_enough_form_the_world_when_the_time_has_passed),
        cmocka_unit_test(test_a_joiner_that_does_not_confirm_is_dropped),
        cmocka_unit_test(test_who_is_shown_a_view_is_shown_it_once),
        cmocka_unit_test(test_the_seed_knows_which_members_said_goodbye),
        cmocka_unit_test(test_goodbyes_are_known_after_a_change),
        cmocka_unit_test(test_a_seed_that_is_back_does_not_say_what_it_has_forgotten),
        cmocka_unit_test(test_who_waits_does_not_ask_how_others_went),
        cmocka_unit_test(test_a_silent_joiner_is_not_waited_for_after_hurry),
        cmocka_unit_test(test_no_joiner_is_admitted_while_the_seed_cannot_save),
        cmocka_unit_test(test_bad_frames_of_a_member_disturb_no_other),
        cmocka_unit_test(test_an_empty_world_is_not_installed),
        cmocka_unit_test(test_lack_of_memory_delays_a_change_and_no_more),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
