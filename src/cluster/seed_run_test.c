/*
 * seed_run_test.c - a world that has formed: who comes later waits and is let in,
 * members go and come back, the seed misses things, dies and is there again.
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "join_rig.h"
#include "oom.h"
#include "unit.h"

#define MS     UINT64_C(1000000)
#define SECOND (1000 * MS)

static rig_joiner *join(rig *r, uint32_t rank, uint64_t timeout_ns)
{
    const nx_join_rules rules = rig_rules(r, rank, timeout_ns);

    return rig_join(r, &rules);
}

static nx_join_phase phase(const rig_joiner *j)
{
    return nx_join_state_phase(j->state);
}

static const nx_view *view_of(const rig_joiner *j)
{
    uint32_t rank;
    const nx_view *view = nx_join_state_view(j->state, &rank);

    assert_non_null(view);
    assert_int_equal(view->members[rank].id, j->member);
    return view;
}

static uint32_t waits(const rig_joiner *j)
{
    return nx_join_state_waiting(j->state)->n;
}

static void assert_failed(const rig_joiner *j, nexar_err err, const char *words)
{
    const char *text;

    assert_int_equal(phase(j), NX_JOIN_FAILED);
    assert_int_equal(nx_join_state_error(j->state, &text), err);
    if (strstr(text, words) == NULL) {
        fail_msg("\"%s\" lacks \"%s\"", text, words);
    }
}

/* A world of two; time for what is told late. */
static void form(rig *r, rig_joiner **a, rig_joiner **b)
{
    *a = join(r, 0, 0);
    *b = join(r, 1, 0);
    rig_run(r);
    assert_int_equal(phase(*a), NX_JOIN_FORMED);
    assert_int_equal(phase(*b), NX_JOIN_FORMED);
}

static void later(rig *r)
{
    rig_run_until(r, r->now + SECOND / 2);
}

/* |j| goes on without the ranks in |bits|, with the |n| members |joined|. */
static void go_on(rig_joiner *j, unsigned bits, const nx_member *joined, uint32_t n)
{
    nx_rankset gone;

    assert_int_equal(nx_rankset_init(&gone, view_of(j)->size), NEXAR_OK);
    for (uint32_t i = 0; i < 32; i++) {
        if ((bits >> i & 1) != 0) {
            (void)nx_rankset_add(&gone, i);
        }
    }
    assert_int_equal(nx_join_state_advance(j->state, &gone, joined, n, 7), NEXAR_OK);
    nx_rankset_fini(&gone);
}

/* With all who wait. */
static void let_in(rig_joiner *j)
{
    const nx_waiting *waiting = nx_join_state_waiting(j->state);
    nx_member joined[8];
    const uint32_t n = waiting->n;

    assert_in_range(n, 1, 8);
    memcpy(joined, waiting->list, n * sizeof(joined[0]));
    go_on(j, 0, joined, n);
    assert_int_equal(waits(j), 0);
}

static void assert_same(const rig_joiner *a, const rig_joiner *b)
{
    const nx_view *x = view_of(a), *y = view_of(b);

    assert_int_equal(x->epoch, y->epoch);
    assert_int_equal(x->size, y->size);
    assert_int_equal(x->world, y->world);
    assert_int_equal(x->slots, y->slots);
    assert_memory_equal(x->members, y->members, x->size * sizeof(x->members[0]));
}

/* ---- joining later -------------------------------------------------------------------- */

static void test_who_comes_later_waits_and_is_let_in(void **state)
{
    rig r;
    rig_joiner *a, *b, *c, *d;

    (void)state;
    rig_init(&r, 2, 0, 1);
    form(&r, &a, &b);
    c = join(&r, NX_RANK_ANY, 0);
    d = join(&r, NX_RANK_ANY, 0);
    later(&r);
    assert_int_equal(phase(c), NX_JOIN_WAITING);
    assert_int_equal(waits(a), 2);
    assert_int_equal(waits(b), 2);
    assert_int_equal(waits(c), 0);
    assert_int_equal(r.events[NX_SEED_WAITING], 2);
    assert_non_null(strstr(r.last_text[NX_SEED_WAITING], "waits to join the world"));
    let_in(a);
    let_in(b);
    later(&r);
    assert_int_equal(phase(c), NX_JOIN_FORMED);
    assert_int_equal(phase(d), NX_JOIN_FORMED);
    assert_int_equal(view_of(a)->size, 4);
    assert_int_equal(view_of(a)->epoch, 2);
    assert_int_equal(view_of(a)->world, 7);
    assert_int_equal(view_of(a)->members[2].slot, 2);
    assert_same(a, b);
    assert_same(a, c);
    assert_same(a, d);
    assert_int_equal(nx_join_state_started(a->state), 2);
    assert_int_equal(nx_join_state_started(c->state), 2);
    assert_int_equal(r.events[NX_SEED_CHANGED], 1);
    assert_non_null(strstr(r.last_text[NX_SEED_CHANGED], "has 4 ranks now, 2 of them new"));
    assert_int_equal(waits(a) + waits(b) + waits(c) + waits(d), 0);

    /* And again: a new one, told also to those who are new. */
    (void)join(&r, NX_RANK_ANY, 0);
    later(&r);
    assert_int_equal(waits(d), 1);
    rig_fini(&r);
}

static void test_a_start_waits_for_every_member(void **state)
{
    rig r;
    rig_joiner *a, *b, *c;
    nx_member joined;

    (void)state;
    rig_init(&r, 2, 0, 1);
    form(&r, &a, &b);
    c = join(&r, NX_RANK_ANY, 0);
    later(&r);
    joined = nx_join_state_waiting(a->state)->list[0];
    let_in(a);
    later(&r);
    assert_int_equal(phase(c), NX_JOIN_OFFERED); /* b would not know it */
    assert_int_equal(nx_join_state_started(a->state), 1);
    go_on(b, 0, &joined, 1);
    later(&r);
    assert_int_equal(phase(c), NX_JOIN_FORMED);
    assert_int_equal(nx_join_state_started(b->state), 2);
    rig_fini(&r);

    /* But not for one that has died. */
    rig_init(&r, 2, 0, 1);
    form(&r, &a, &b);
    c = join(&r, NX_RANK_ANY, 0);
    later(&r);
    let_in(a);
    rig_kill(&r, b);
    later(&r);
    assert_int_equal(phase(c), NX_JOIN_FORMED);
    rig_fini(&r);
}

static void test_a_waiter_that_goes_is_taken_back(void **state)
{
    rig r;
    rig_joiner *a, *b, *c;

    (void)state;
    rig_init(&r, 2, 0, 1);
    form(&r, &a, &b);
    c = join(&r, NX_RANK_ANY, 0);
    later(&r);
    assert_int_equal(waits(a), 1);
    rig_kill(&r, c);
    later(&r);
    assert_int_equal(waits(a), 0);
    assert_int_equal(waits(b), 0);
    assert_non_null(strstr(r.last_text[NX_SEED_LOST], "while it waited"));

    /* More than are told of one by one. */
    for (int i = 0; i < 100; i++) {
        (void)join(&r, NX_RANK_ANY, 2 * SECOND);
    }
    later(&r);
    assert_int_equal(waits(b), 100);
    c = join(&r, NX_RANK_ANY, 0);
    rig_run_until(&r, r.now + 10 * SECOND);
    assert_int_equal(waits(a), 1);
    assert_int_equal(waits(b), 1);
    assert_int_equal(phase(c), NX_JOIN_WAITING);
    rig_fini(&r);
}

static void test_one_who_is_named_and_gone_is_in_the_view(void **state)
{
    rig r;
    rig_joiner *a, *b, *c, *d;
    nx_member gone[2];

    (void)state;
    rig_init(&r, 2, 0, 1);
    form(&r, &a, &b);
    c = join(&r, NX_RANK_ANY, 0);
    d = join(&r, NX_RANK_ANY, 0);
    later(&r);
    memcpy(gone, nx_join_state_waiting(a->state)->list, sizeof(gone));
    rig_kill(&r, c);
    later(&r);
    assert_int_equal(waits(a), 1);
    go_on(a, 0, gone, 2);
    go_on(b, 0, gone, 2);
    later(&r);
    assert_int_equal(phase(d), NX_JOIN_FORMED);
    assert_same(a, d);
    assert_int_equal(view_of(d)->size, 4);
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
    form(&r, &a, &b);
    c = join(&r, 2, 0);
    later(&r);
    assert_failed(c, NEXAR_EINVAL, "rank 2 was asked for, but the world of 2 ranks has formed");
    rules = rig_rules(&r, NX_RANK_ANY, 0);
    rules.hello.world_size = 5;
    c = rig_join(&r, &rules);
    later(&r);
    assert_int_equal(phase(c), NX_JOIN_WAITING);
    rig_fini(&r);
}

static void test_a_waiter_that_nobody_lets_in_gives_up(void **state)
{
    rig r;
    rig_joiner *a, *b, *c;

    (void)state;
    rig_init(&r, 2, 0, 1);
    form(&r, &a, &b);
    c = join(&r, NX_RANK_ANY, 3 * SECOND);
    rig_run_until(&r, r.now + 10 * SECOND);
    assert_failed(c, NEXAR_ETIMEDOUT,
                  "not let in within 3s: the world has formed and its ranks have not called "
                  "nexar_comm_update since");
    assert_int_equal(waits(a), 0);
    assert_non_null(strstr(r.last_text[NX_SEED_LEFT], "it gave up waiting after 3s"));
    rig_fini(&r);
}

/* Full but not formed: who comes waits, and takes the place of one that is lost. */
static void test_a_waiter_takes_a_place_that_becomes_free(void **state)
{
    uint8_t hello[NX_HELLO_MAX];
    rig r;
    rig_joiner *a, *b;
    rig_conn *mute;

    (void)state;
    rig_init(&r, 2, 0, 1);
    a = join(&r, 0, 0);
    rig_run(&r);
    mute = rig_connect(&r);
    rig_send(mute, hello, rig_hello(mute, &r.rules.token, NX_RANK_ANY, hello));
    rig_run(&r);
    b = join(&r, NX_RANK_ANY, 0);
    rig_run(&r);
    assert_int_equal(phase(b), NX_JOIN_WAITING);
    rig_send(mute, "\1", 1);
    later(&r);
    assert_true(rig_is_closed(mute));
    assert_int_equal(phase(b), NX_JOIN_FORMED);
    assert_same(a, b);
    rig_fini(&r);
}

static void test_waiters_form_the_next_world_or_are_told_of_the_end(void **state)
{
    rig r;
    rig_joiner *a, *b, *c, *d;

    (void)state;
    for (int keep = 0; keep < 2; keep++) {
        rig_init(&r, 2, 0, 1);
        nx_seed_state_destroy(r.seed);
        r.rules.keep = (keep == 1);
        rig_seed(&r);
        form(&r, &a, &b);
        c = join(&r, NX_RANK_ANY, 0);
        later(&r);
        nx_join_state_leave(a->state);
        nx_join_state_leave(b->state);
        later(&r);
        assert_int_equal(r.events[NX_SEED_ENDED], 1);
        if (keep == 0) {
            assert_failed(c, NEXAR_ENOTSUP, "the job has ended while it waited");
        } else {
            assert_int_equal(phase(c), NX_JOIN_WAITING);
            d = join(&r, 0, 0);
            later(&r);
            assert_int_equal(phase(c), NX_JOIN_FORMED);
            assert_same(c, d);
            assert_true(view_of(c)->epoch > 1);
        }
        rig_fini(&r);
    }
}

/* ---- forming with fewer ------------------------------------------------------------------ */

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
    a = join(&r, 3, 5 * SECOND);
    b = join(&r, NX_RANK_ANY, 5 * SECOND);
    rig_run_until(&r, r.now + 2 * SECOND);
    assert_int_equal(phase(a), NX_JOIN_WAITING);
    rig_run_until(&r, r.now + 2 * SECOND);
    assert_int_equal(phase(a), NX_JOIN_FORMED);
    assert_same(a, b);
    assert_int_equal(view_of(a)->size, 2);
    assert_int_equal(view_of(a)->members[0].id, b->member); /* ranks close up */
    assert_non_null(strstr(r.last_text[NX_SEED_FORMED], "formed with 2 of 4 ranks"));
    c = join(&r, NX_RANK_ANY, 0);
    later(&r);
    assert_int_equal(phase(c), NX_JOIN_WAITING);
    rig_fini(&r);

    rig_init(&r, 4, 3 * SECOND, 1); /* too few */
    rules_min(&r, 3);
    a = join(&r, 3, 0);
    b = join(&r, NX_RANK_ANY, 0);
    rig_run_until(&r, r.now + 4 * SECOND);
    assert_failed(a, NEXAR_ETIMEDOUT, "missing: ranks 1-2");
    assert_failed(b, NEXAR_ETIMEDOUT, "2 of 4 ranks");
    rig_fini(&r);
}

static void test_who_does_not_confirm_is_left_behind(void **state)
{
    uint8_t hello[NX_HELLO_MAX];
    rig r;
    rig_joiner *a, *b;
    rig_conn *mute;

    (void)state;
    rig_init(&r, 3, 3 * SECOND, 1);
    rules_min(&r, 2);
    a = join(&r, NX_RANK_ANY, 0);
    b = join(&r, NX_RANK_ANY, 0);
    rig_run(&r);
    mute = rig_connect(&r);
    rig_send(mute, hello, rig_hello(mute, &r.rules.token, 1, hello));
    rig_run_until(&r, r.now + 4 * SECOND);
    assert_true(rig_is_closed(mute));
    assert_int_equal(phase(a), NX_JOIN_FORMED);
    assert_int_equal(view_of(a)->size, 2);
    assert_same(a, b);
    rig_fini(&r);
}

/* ---- what the seed has missed ------------------------------------------------------------- */

static void test_missed_epochs_are_asked_for(void **state)
{
    rig r;
    rig_joiner *a, *b, *c, *d;

    (void)state;
    rig_init(&r, 3, 0, 1);
    a = join(&r, 0, 0);
    b = join(&r, 1, 0);
    c = join(&r, 2, 0);
    rig_run(&r);
    rig_kill(&r, c);
    rig_cut(&r, a, true);
    rig_cut(&r, b, true);
    go_on(a, 4, NULL, 0); /* while the seed does not hear them */
    go_on(b, 4, NULL, 0);
    rig_kill(&r, b);
    go_on(a, 2, NULL, 0);
    d = join(&r, NX_RANK_ANY, 0);
    rig_run_until(&r, r.now + 20 * SECOND);
    assert_true(nx_join_state_there(a->state));
    assert_int_equal(r.events[NX_SEED_BACK], 1);
    assert_int_equal(waits(a), 1);
    let_in(a);
    later(&r);
    assert_int_equal(phase(d), NX_JOIN_FORMED);
    assert_same(a, d);
    assert_int_equal(view_of(d)->epoch, 4);
    assert_int_equal(view_of(d)->members[1].slot, 3);
    rig_fini(&r);
}

/* A view that does not fit into one frame. */
static void test_a_large_view_is_told_in_pieces(void **state)
{
    enum { N = 1200 };
    static rig_joiner *all[N];
    rig r;
    rig_joiner *late;

    (void)state;
    rig_init(&r, N, 0, 1);
    for (int i = 0; i < N; i++) {
        all[i] = join(&r, NX_RANK_ANY, 0);
    }
    rig_run(&r);
    for (int i = 0; i < N; i++) {
        rig_cut(&r, all[i], true);
        go_on(all[i], 0, NULL, 0);
        go_on(all[i], 0, NULL, 0);
    }
    rig_run_until(&r, r.now + 30 * SECOND);
    assert_int_equal(r.events[NX_SEED_BACK], N);
    late = join(&r, NX_RANK_ANY, 0);
    later(&r);
    for (int i = 0; i < N; i++) {
        let_in(all[i]);
    }
    later(&r);
    assert_int_equal(phase(late), NX_JOIN_FORMED);
    assert_int_equal(view_of(late)->epoch, 4);
    assert_same(all[0], late);
    rig_fini(&r);
}

static void test_one_that_does_not_tell_is_let_go_and_another_is_asked(void **state)
{
    rig r;
    rig_joiner *a, *b, *c;
    nx_writer w;
    uint8_t frame[256];
    rig_conn *false_a;
    nx_return f = {.protocol = NX_JOIN_PROTOCOL, .epoch = 9};

    (void)state;
    rig_init(&r, 2, 0, 1);
    form(&r, &a, &b);
    rig_cut(&r, b, true);
    go_on(b, 0, NULL, 0);
    go_on(b, 0, NULL, 0);
    /* In the place of a comes one that says it knows of epoch 9, and no more. */
    false_a = rig_connect_as(&r, a->member);
    f.self = view_of(a)->members[0];
    w = nx_writer_make(frame, sizeof(frame));
    nx_return_encode(&w, &f);
    rig_send(false_a, frame, w.len);
    rig_run(&r);
    assert_non_null(rig_find(false_a, NX_JOIN_ASK));
    rig_run_until(&r, r.now + 15 * SECOND);
    assert_true(rig_is_closed(false_a));
    c = join(&r, NX_RANK_ANY, 0);
    rig_run_until(&r, r.now + 15 * SECOND);
    assert_int_equal(waits(b), 1);
    assert_int_equal(r.events[NX_SEED_CHANGED], 1); /* b's view was taken */
    assert_int_equal(phase(c), NX_JOIN_WAITING);
    rig_fini(&r);
}

/* ---- coming back ---------------------------------------------------------------------------- */

static void test_a_member_comes_back_and_is_told_who_waits(void **state)
{
    rig r;
    rig_joiner *a, *b;
    uint64_t began;

    (void)state;
    for (int known = 0; known < 2; known++) {
        rig_init(&r, 2, 0, 3);
        form(&r, &a, &b);
        (void)join(&r, NX_RANK_ANY, 0);
        later(&r);
        rig_cut(&r, a, known == 1);
        assert_int_equal(phase(a), NX_JOIN_FORMED);
        assert_false(nx_join_state_there(a->state));
        assert_int_equal(waits(a), 0); /* nobody could be let in now */
        began = r.now;
        assert_in_range(nx_join_state_due(a->state) - began, SECOND, 3 * SECOND / 2);
        rig_run_until(&r, r.now + 2 * SECOND);
        assert_true(nx_join_state_there(a->state));
        assert_int_equal(waits(a), 1);
        assert_int_equal(r.events[NX_SEED_BACK], 1);
        assert_true(nx_seed_state_formed(r.seed));
        let_in(a);
        let_in(b);
        later(&r);
        assert_int_equal(nx_join_state_started(a->state), 2);
        rig_fini(&r);
    }
}

static void test_a_seed_that_is_away_is_dialled_for_ever_but_not_often(void **state)
{
    rig r;
    rig_joiner *a, *b;
    uint64_t last, most = 0;

    (void)state;
    rig_init(&r, 2, 0, 3);
    r.rules.lasting = true;
    nx_seed_state_destroy(r.seed);
    rig_seed(&r);
    form(&r, &a, &b);
    rig_kill(&r, b);
    later(&r);
    rig_seed_dies(&r);
    rig_run(&r);
    for (int i = 0; i < 50; i++) {
        last = r.now;
        assert_false(nx_join_state_there(a->state));
        assert_true(rig_advance(&r, r.now + 11 * SECOND));
        most = (r.now - last > most) ? r.now - last : most;
        assert_in_range(r.now - last, SECOND, 10 * SECOND);
        rig_cut(&r, a, false); /* nothing listens there */
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
    form(&r, &a, &b);
    rig_seed_dies(&r);
    rig_run(&r);
    assert_int_equal(phase(a), NX_JOIN_GONE);
    assert_non_null(view_of(a));
    assert_int_equal(nx_join_state_due(a->state), UINT64_MAX);
    go_on(a, 2, NULL, 0); /* the world goes on */
    assert_int_equal(view_of(a)->size, 1);
    rig_fini(&r);
}

static void test_the_job_ends_when_nobody_comes_back(void **state)
{
    rig r;
    rig_joiner *a, *b;

    (void)state;
    rig_init(&r, 2, 0, 3);
    form(&r, &a, &b);
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

static void send_return(rig *r, rig_conn *c, const nx_member *self, uint64_t epoch)
{
    const nx_return f = {.protocol = NX_JOIN_PROTOCOL, .epoch = epoch, .self = *self};
    uint8_t frame[NX_HELLO_MAX];
    nx_writer w = nx_writer_make(frame, sizeof(frame));

    nx_return_encode(&w, &f);
    rig_send(c, frame, w.len);
    rig_run(r);
}

/* A holder of the token, but not of the key. */
static void test_nobody_comes_back_as_another(void **state)
{
    rig r;
    rig_joiner *a, *b;
    rig_conn *c;
    nx_member self;

    (void)state;
    rig_init(&r, 2, 0, 3);
    form(&r, &a, &b);
    self = view_of(a)->members[0];
    c = rig_connect(&r);
    send_return(&r, c, &self, 1);
    assert_true(rig_is_closed(c));
    assert_non_null(strstr(r.last_text[NX_SEED_REFUSED], "without a certificate"));
    c = rig_connect_as(&r, b->member);
    send_return(&r, c, &self, 1);
    assert_true(rig_is_closed(c));
    assert_non_null(strstr(r.last_text[NX_SEED_REFUSED], "certificate is of another member"));
    assert_int_equal(r.events[NX_SEED_BACK], 0);
    assert_int_equal(r.events[NX_SEED_LOST], 0);
    rig_fini(&r);
}

static void test_one_that_the_world_has_gone_on_without_is_told_so(void **state)
{
    rig r;
    rig_joiner *a, *b;
    const char *text;

    (void)state;
    rig_init(&r, 2, 0, 3);
    form(&r, &a, &b);
    rig_cut(&r, b, true);
    go_on(a, 2, NULL, 0);
    rig_run_until(&r, r.now + 2 * SECOND);
    assert_int_equal(phase(b), NX_JOIN_GONE);
    (void)nx_join_state_error(b->state, &text);
    assert_non_null(strstr(text, "the world has gone on without it"));
    assert_true(nx_seed_state_formed(r.seed));
    rig_fini(&r);

    /* And what one says that is out, but still connected, does not count. */
    rig_init(&r, 2, 0, 3);
    form(&r, &a, &b);
    go_on(a, 2, NULL, 0);
    rig_run(&r);
    go_on(b, 1, NULL, 0);
    rig_run(&r);
    assert_int_equal(r.events[NX_SEED_CHANGED], 1);
    nx_join_state_leave(b->state);
    rig_run(&r);
    assert_int_equal(phase(b), NX_JOIN_GONE);
    assert_int_equal(r.events[NX_SEED_ENDED], 0);
    rig_fini(&r);
}

/* ---- a seed that lasts ------------------------------------------------------------------------
 */

static void lasting(rig *r, uint32_t world, uint64_t timeout_ns)
{
    rig_init(r, world, timeout_ns, 3);
    nx_seed_state_destroy(r->seed);
    r->rules.lasting = true;
    rig_seed(r);
}

static void test_a_seed_that_comes_back_goes_on(void **state)
{
    rig r;
    rig_joiner *a, *b, *c, *d;

    (void)state;
    lasting(&r, 2, 0);
    form(&r, &a, &b);
    c = join(&r, NX_RANK_ANY, 60 * SECOND);
    later(&r);
    rig_seed_dies(&r);
    rig_run_until(&r, r.now + 20 * SECOND);
    assert_int_equal(phase(a), NX_JOIN_FORMED);
    assert_int_equal(phase(c), NX_JOIN_WAITING);
    assert_int_equal(waits(a), 0);
    rig_seed_again(&r);
    rig_run_until(&r, r.now + 15 * SECOND);
    assert_int_equal(waits(a), 1);
    assert_int_equal(waits(b), 1);
    assert_int_equal(r.events[NX_SEED_BACK], 3);
    d = join(&r, NX_RANK_ANY, 0);
    later(&r);
    assert_true(d->member > c->member);
    let_in(a);
    let_in(b);
    later(&r);
    assert_int_equal(phase(c), NX_JOIN_FORMED);
    assert_int_equal(phase(d), NX_JOIN_FORMED);
    assert_same(a, c);
    assert_same(a, d);
    assert_int_equal(view_of(a)->members[2].id, c->member); /* the older one first */
    rig_fini(&r);
}

static void test_what_happened_while_the_seed_was_away_is_told(void **state)
{
    rig r;
    rig_joiner *a, *b, *c, *d;
    nx_member joined;

    (void)state;
    lasting(&r, 3, 0);
    a = join(&r, 0, 0);
    b = join(&r, 1, 0);
    c = join(&r, 2, 0);
    rig_run(&r);
    d = join(&r, NX_RANK_ANY, 60 * SECOND);
    later(&r);
    joined = nx_join_state_waiting(a->state)->list[0];
    rig_seed_dies(&r);
    rig_kill(&r, c);
    go_on(a, 4, &joined, 1); /* agreed upon in the moment before */
    go_on(b, 4, &joined, 1);
    rig_run_until(&r, r.now + 3 * SECOND);
    rig_seed_again(&r);
    rig_run_until(&r, r.now + 15 * SECOND);
    assert_int_equal(phase(d), NX_JOIN_FORMED);
    assert_same(a, d);
    assert_int_equal(view_of(d)->size, 3);
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

        lasting(&r, 2, 0);
        a = join(&r, 1, 60 * SECOND);
        b = join(&r, NX_RANK_ANY, 60 * SECOND);
        for (unsigned i = 0; i < steps; i++) {
            (void)rig_step(&r);
        }
        formed_before += nx_seed_state_formed(r.seed) ? 1 : 0;
        rig_seed_dies(&r);
        rig_run_until(&r, r.now + SECOND);
        rig_seed_again(&r);
        rig_run_until(&r, r.now + 20 * SECOND);
        assert_int_equal(phase(a), NX_JOIN_FORMED);
        assert_int_equal(phase(b), NX_JOIN_FORMED);
        assert_same(a, b);
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
    lasting(&r, 1, 0);
    for (int life = 0; life < 5; life++) {
        for (int i = 0; i < 300; i++) {
            rig_joiner *j = join(&r, NX_RANK_ANY, 0);

            while (j->member == 0) {
                assert_true(rig_step(&r));
            }
            assert_true(j->member > last);
            last = j->member;
        }
        rig_seed_dies(&r);
        rig_seed_again(&r);
    }
    assert_in_range(r.saves, 5, 40); /* and it is not written for each */
    rig_fini(&r);
}

static void test_a_lasting_seed_that_stays_away_is_named(void **state)
{
    rig r;
    rig_joiner *a, *b, *c;

    (void)state;
    lasting(&r, 2, 0);
    form(&r, &a, &b);
    c = join(&r, NX_RANK_ANY, 5 * SECOND);
    later(&r);
    rig_seed_dies(&r);
    rig_run_until(&r, r.now + 10 * SECOND);
    assert_failed(c, NEXAR_ECONNECT, "has gone and was not back within 5s");
    rig_fini(&r);
}

/* ---- bad members -------------------------------------------------------------------------------
 */

/* Every frame that a member sends, with every byte changed or cut: it is taken, or
 * its sender let go; the others notice nothing. */
static void test_bad_frames_of_a_member_disturb_nobody(void **state)
{
    uint8_t good[3][2048];
    size_t len[3];
    nx_writer w;
    rig r;
    rig_joiner *a, *b;
    nx_rankset gone;

    (void)state;
    rig_init(&r, 2, 0, 3);
    form(&r, &a, &b);
    assert_int_equal(nx_rankset_init(&gone, 2), NEXAR_OK);
    (void)nx_rankset_add(&gone, 1);
    {
        nx_view *next = NULL;
        const nx_member m = {.id = 3};

        assert_int_equal(nx_view_next(view_of(a), NULL, NULL, 0, 7, &next), NEXAR_OK);
        w = nx_writer_make(good[0], sizeof(good[0]));
        nx_advance_encode(&w, next, &gone, &m, 1);
        len[0] = w.len;
        next->epoch = 4;
        w = nx_writer_make(good[1], sizeof(good[1]));
        nx_advance_encode(&w, next, &gone, NULL, 0);
        len[1] = w.len;
        nx_view_destroy(next);
    }
    w = nx_writer_make(good[2], sizeof(good[2]));
    nx_view_piece_encode(
        &w, &(nx_view_piece){.epoch = 4, .total = 100, .data = good[0], .len = len[0]});
    len[2] = w.len;
    rig_fini(&r);
    for (int i = 0; i < 3; i++) {
        for (size_t at = 0; at < len[i] * 9; at++) {
            uint8_t copy[2048];

            rig_init(&r, 2, 0, 3);
            form(&r, &a, &b);
            memcpy(copy, good[i], len[i]);
            if (at < len[i] * 8) {
                copy[at / 8] ^= (uint8_t)(1U << (at % 8));
                rig_send(a->conn, copy, len[i]);
            } else {
                rig_send(a->conn, copy, at - len[i] * 8);
            }
            rig_run(&r);
            assert_true(nx_join_state_there(b->state));
            (void)join(&r, NX_RANK_ANY, 0);
            later(&r);
            assert_int_equal(waits(b), (r.events[NX_SEED_CHANGED] > 0) ? 0 : 1);
            rig_fini(&r);
        }
    }
    nx_rankset_fini(&gone);
}

/* Memory may be short at any moment of a change; all come through in the end. */
static void test_lack_of_memory_delays_a_change_and_no_more(void **state)
{
    int failed = 0;

    (void)state;
    for (long n = 0; n < 60; n++) {
        rig r;
        rig_joiner *a, *b, *c;

        lasting(&r, 2, 0);
        form(&r, &a, &b);
        c = join(&r, NX_RANK_ANY, 0);
        later(&r);
        if (waits(a) == 1) {
            let_in(a);
            let_in(b);
        }
        nx_alloc_fail_after(n);
        for (int i = 0; i < 6; i++) {
            (void)rig_step(&r);
        }
        nx_alloc_fail_after(-1);
        rig_run_until(&r, r.now + 30 * SECOND);
        assert_int_equal(phase(a), NX_JOIN_FORMED);
        assert_true(nx_join_state_there(a->state) && nx_join_state_there(b->state));
        if (phase(c) == NX_JOIN_FAILED) { /* it was its own memory */
            assert_failed(c, NEXAR_ENOMEM, "memory");
            failed++;
        } else {
            assert_int_equal(phase(c), NX_JOIN_FORMED);
            assert_same(a, c);
        }
        rig_fini(&r);
    }
    assert_in_range(failed, 0, 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_comes_later_waits_and_is_let_in),
        cmocka_unit_test(test_a_start_waits_for_every_member),
        cmocka_unit_test(test_a_waiter_that_goes_is_taken_back),
        cmocka_unit_test(test_one_who_is_named_and_gone_is_in_the_view),
        cmocka_unit_test(test_a_rank_cannot_be_asked_for_later_and_a_size_is_not_looked_at),
        cmocka_unit_test(test_a_waiter_that_nobody_lets_in_gives_up),
        cmocka_unit_test(test_a_waiter_takes_a_place_that_becomes_free),
        cmocka_unit_test(test_waiters_form_the_next_world_or_are_told_of_the_end),
        cmocka_unit_test(test_enough_form_the_world_when_the_time_has_passed),
        cmocka_unit_test(test_who_does_not_confirm_is_left_behind),
        cmocka_unit_test(test_missed_epochs_are_asked_for),
        cmocka_unit_test(test_a_large_view_is_told_in_pieces),
        cmocka_unit_test(test_one_that_does_not_tell_is_let_go_and_another_is_asked),
        cmocka_unit_test(test_a_member_comes_back_and_is_told_who_waits),
        cmocka_unit_test(test_a_seed_that_is_away_is_dialled_for_ever_but_not_often),
        cmocka_unit_test(test_a_seed_that_has_ended_and_does_not_last_is_given_up),
        cmocka_unit_test(test_the_job_ends_when_nobody_comes_back),
        cmocka_unit_test(test_nobody_comes_back_as_another),
        cmocka_unit_test(test_one_that_the_world_has_gone_on_without_is_told_so),
        cmocka_unit_test(test_a_seed_that_comes_back_goes_on),
        cmocka_unit_test(test_what_happened_while_the_seed_was_away_is_told),
        cmocka_unit_test(test_a_world_forms_although_the_seed_dies_at_any_moment),
        cmocka_unit_test(test_no_number_is_given_out_again),
        cmocka_unit_test(test_a_lasting_seed_that_stays_away_is_named),
        cmocka_unit_test(test_bad_frames_of_a_member_disturb_nobody),
        cmocka_unit_test(test_lack_of_memory_delays_a_change_and_no_more),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
