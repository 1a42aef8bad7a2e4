/*
 * parting_test.c - ranks that finalize while they wait for each other, and communicators that one
 * rank has freed while others use them: all calls end, with an error that names the departed rank.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <nexar.h>

#include "local_world.h"
#include "unit.h"

enum { RANKS = 3, LONG = 5000000 };

typedef struct part {
    pthread_t thread;
    nexar_comm *world;
    nexar_err (*fn)(nexar_comm *world);
    nexar_err ended; /* the result of finalize */
    char why[512];
} part;

static void *run(void *arg)
{
    part *p = arg;

    NXT_OK(p->world, p->fn(p->world));
    p->ended = nexar_finalize(p->world);
    (void)strncpy(p->why, nexar_last_error(), sizeof(p->why) - 1);
    return NULL;
}

/* Runs |fn| on |n| ranks, which all finalize after it, whatever is pending. */
static void all_finalize(int n, nexar_err (*fn)(nexar_comm *world), part parts[RANKS])
{
    nexar_comm *worlds[RANKS];

    assert_int_equal(nexar_init_local(n, NULL, worlds), NEXAR_OK);
    for (int i = 0; i < n; i++) {
        parts[i] = (part){.world = worlds[i], .fn = fn};
        assert_int_equal(pthread_create(&parts[i].thread, NULL, run, &parts[i]), 0);
    }
    for (int i = 0; i < n; i++) {
        (void)pthread_join(parts[i].thread, NULL);
    }
}

static char out[LONG];

/* ---- finalize ---------------------------------------------------------------------------- */

static nexar_err send_to_next(nexar_comm *w)
{
    nexar_request *req;

    return nexar_isend(w, out, LONG, (nexar_rank(w) + 1) % nexar_size(w), 7, &req);
}

static void test_unreceived_sends_end_when_all_finalize(void **state)
{
    part parts[RANKS];

    (void)state;
    for (int n = 2; n <= RANKS; n++) {
        int lost = 0;

        all_finalize(n, send_to_next, parts);
        for (int i = 0; i < n; i++) {
            assert_true((parts[i].ended == NEXAR_OK) || (parts[i].ended == NEXAR_EPEER));
            if (parts[i].ended == NEXAR_EPEER) {
                assert_non_null(strstr(parts[i].why, "isend to rank "));
                lost++;
            }
        }
        assert_true(lost > 0); /* that of another rank may have ended before it finalized */
    }
}

/* Each has begun operations that the others have not. */
static nexar_err reduce_alone(nexar_comm *w)
{
    static float in[1000], sum[RANKS][1000];
    nexar_comm *own[RANKS] = {NULL};
    nexar_request *req;

    for (int i = 0; i < nexar_size(w); i++) {
        NXT_OK(w, nexar_comm_dup(w, &own[i]));
    }
    return nexar_iallreduce(own[nexar_rank(w)], in, sum[nexar_rank(w)], 1000, NEXAR_F32, NEXAR_SUM,
                            &req);
}

static void test_collectives_that_others_do_not_begin_end_when_all_finalize(void **state)
{
    part parts[RANKS];

    (void)state;
    for (int n = 2; n <= RANKS; n++) {
        int failed = 0;

        all_finalize(n, reduce_alone, parts);
        for (int i = 0; i < n; i++) {
            assert_true((parts[i].ended == NEXAR_OK) || (parts[i].ended == NEXAR_EPEER));
            if (parts[i].ended == NEXAR_EPEER) {
                assert_non_null(strstr(parts[i].why, "allreduce #1: rank "));
                failed++;
            }
        }
        assert_true(failed > 0);
    }
}

/* All have begun it: it completes normally. */
static nexar_err reduce_together(nexar_comm *w)
{
    static float in[100000], sum[RANKS][100000];
    nexar_request *req;

    return nexar_iallreduce(w, in, sum[nexar_rank(w)], 100000, NEXAR_F32, NEXAR_SUM, &req);
}

static void test_collectives_that_all_have_begun_end_well(void **state)
{
    part parts[RANKS];

    (void)state;
    for (int round = 0; round < 10; round++) {
        all_finalize(RANKS, reduce_together, parts);
        for (int i = 0; i < RANKS; i++) {
            if (parts[i].ended != NEXAR_OK) {
                print_message("rank %d: %s\n", i, parts[i].why);
            }
            assert_int_equal(parts[i].ended, NEXAR_OK);
        }
    }
}

/* Rank 0 finalizes while its message is in flight; rank 1 has not called yet. */
static nexar_err late_receiver(nexar_comm *w)
{
    static char in[LONG];
    nexar_request *req;
    nexar_status status;

    if (nexar_rank(w) == 0) {
        return nexar_isend(w, out, LONG, 1, 7, &req);
    }
    /* It has detached before this, or will: in either case this ends. */
    (void)nexar_send(w, out, LONG, 0, 8);
    (void)nexar_barrier(w);
    return nexar_recv(w, in, LONG, 0, 7, &status);
}

static void test_what_is_received_from_one_that_finalizes_is_not_lost(void **state)
{
    part parts[RANKS];

    (void)state;
    for (int round = 0; round < 5; round++) {
        all_finalize(2, late_receiver, parts);
        assert_int_equal(parts[0].ended, NEXAR_OK);
        assert_int_equal(parts[1].ended, NEXAR_OK);
    }
}

/* ---- a freed communicator ----------------------------------------------------------------- */

static void one_frees(nexar_comm *w, void *arg)
{
    float a = 0, b = 0;
    nexar_comm *c = NULL;

    NXT_OK(w, nexar_comm_dup(w, &c));
    if (*(const bool *)arg) {
        NXT_OK(w, nexar_barrier(c));
    }
    if (nexar_rank(w) == 0) {
        nexar_comm_free(c);
    } else {
        NXT_SAYS(w, nexar_barrier(c), NEXAR_EREVOKED, "rank 0 ");
        NXT_SAYS(w, nexar_allreduce(c, &a, &b, 1, NEXAR_F32, NEXAR_SUM), NEXAR_EREVOKED,
                 "has freed the communicator");
        NXT_SAYS(w, nexar_send(c, out, LONG, 0, 1), NEXAR_EREVOKED, "has freed the communicator");
        nexar_comm_free(c);
    }
    NXT_OK(w, nexar_barrier(w));
}

static void test_who_uses_what_another_has_freed_hears_of_it(void **state)
{
    (void)state;
    for (int used = 0; used < 2; used++) {
        bool before = (used != 0);

        nxt_local_world(2, NULL, one_frees, &before);
        nxt_local_world(RANKS, NULL, one_frees, &before);
    }
}

/* Ranks free a communicator when they have done everything, at different times. */
static void freed_after_use(nexar_comm *w, void *arg)
{
    float v[64] = {0};

    (void)arg;
    for (int i = 0; i < 20; i++) {
        nexar_comm *c = NULL;

        NXT_OK(w, nexar_comm_dup(w, &c));
        NXT_OK(w, nexar_broadcast(c, v, 64, NEXAR_F32, i % nexar_size(w)));
        if (nexar_rank(w) == 0) {
            NXT_OK(w, nexar_send(c, v, sizeof(v), 1, 3));
        } else if (nexar_rank(w) == 1) {
            NXT_OK(w, nexar_recv(c, v, sizeof(v), 0, 3, NULL));
        }
        NXT_OK(w, nexar_broadcast(c, v, 64, NEXAR_F32, 0));
        nexar_comm_free(c);
    }
}

static void test_what_was_begun_before_a_communicator_is_freed_ends_well(void **state)
{
    (void)state;
    nxt_local_world(RANKS, NULL, freed_after_use, NULL);
}

/* ---- receiving from a rank that has freed it ---------------------------------------------- */

enum { KEPT = 1, NEVER = 9, SHORT = 3 };

static void send_and_free(nexar_comm *w, nexar_comm *c)
{
    static const char *const texts[] = {"a", "b", "c"};
    nexar_request *req = NULL;

    for (int i = 0; i < SHORT; i++) {
        NXT_OK(c, nexar_send(c, texts[i], 2, 1, KEPT));
    }
    NXT_OK(c, nexar_isend(c, out, LONG, 1, KEPT, &req));
    nexar_comm_free(c);
    NXT_OK(w, nexar_wait(&req, NULL)); /* it continues: messages in flight end first */
}

static void take_what_was_sent(nexar_comm *c)
{
    static char in[LONG];

    for (int i = 0; i < SHORT; i++) {
        NXT_OK(c, nexar_recv(c, in, LONG, 0, KEPT, NULL));
        NXT_IS(c, in[0] == 'a' + i);
    }
    NXT_OK(c, nexar_recv(c, in, LONG, 0, KEPT, NULL));
}

static void find_no_more(nexar_comm *c)
{
    nexar_request *req = NULL;
    bool found = true;
    char byte;

    NXT_SAYS(c, nexar_recv(c, &byte, 1, 0, KEPT, NULL), NEXAR_EREVOKED,
             "has freed the communicator");
    NXT_SAYS(c, nexar_probe(c, 0, NEXAR_ANY_TAG, NULL), NEXAR_EREVOKED,
             "has freed the communicator");
    NXT_OK(c, nexar_iprobe(c, 0, KEPT, &found, NULL)); /* a probe is no error */
    NXT_IS(c, !found);
    found = true;
    NXT_OK(c, nexar_iprobe(c, NEXAR_ANY_SOURCE, KEPT, &found, NULL));
    NXT_IS(c, !found);
    NXT_OK(c, nexar_irecv(c, &byte, 1, 0, KEPT, &req));
    NXT_SAYS(c, nexar_wait(&req, NULL), NEXAR_EREVOKED, "has freed the communicator");
}

/* |arg|: whether rank 1 waits already when rank 0 frees it. */
static void receive_from_freed(nexar_comm *w, void *arg)
{
    nexar_request *never = NULL;
    nexar_comm *c = NULL;
    char byte;

    NXT_OK(w, nexar_comm_dup(w, &c));
    if (nexar_rank(w) == 1) {
        NXT_OK(c, nexar_irecv(c, &byte, 1, 0, NEVER, &never));
    }
    if (*(const bool *)arg) {
        NXT_OK(w, nexar_barrier(w));
    }
    if (nexar_rank(w) == 0) {
        send_and_free(w, c);
    } else if (nexar_rank(w) == 1) {
        take_what_was_sent(c);
        NXT_SAYS(c, nexar_wait(&never, NULL), NEXAR_EREVOKED, "has freed the communicator");
        find_no_more(c);
    }
    NXT_OK(w, nexar_barrier(w));
    if (nexar_rank(w) != 0) {
        nexar_comm_free(c);
    }
}

static void
test_what_one_has_sent_before_it_freed_is_received_and_nothing_is_waited_for(void **state)
{
    (void)state;
    for (int i = 0; i < 10; i++) {
        bool before = (i % 2 != 0);

        nxt_local_world(2 + i % 2, NULL, receive_from_freed, &before);
    }
}

/* Nothing was ever sent between them. */
static void wait_for_freed(nexar_comm *w, void *arg)
{
    nexar_comm *c = NULL;
    char byte;

    (void)arg;
    NXT_OK(w, nexar_comm_dup(w, &c));
    if (nexar_rank(w) == 1) {
        NXT_SAYS(c, nexar_recv(c, &byte, 1, nexar_size(c) - 1, KEPT, NULL), NEXAR_EREVOKED,
                 "has freed the communicator");
    }
    nexar_comm_free(c);
    NXT_OK(w, nexar_barrier(w));
}

static void test_a_rank_without_a_link_answers_when_it_is_waited_for(void **state)
{
    (void)state;
    nxt_local_world(RANKS, NULL, wait_for_freed, NULL);
    nxt_local_world(12, NULL, wait_for_freed, NULL);
}

/* Rank 0 frees it at once, rank 1 after a send. */
static void receive_from_any(nexar_comm *w, void *arg)
{
    nexar_comm *c = NULL;
    nexar_status status;
    char in[2] = "";

    (void)arg;
    NXT_OK(w, nexar_comm_dup(w, &c));
    if (nexar_rank(w) == 0) {
        nexar_comm_free(c);
    }
    if (nexar_rank(w) == 1) {
        NXT_SAYS(c, nexar_recv(c, in, 2, 0, KEPT, NULL), NEXAR_EREVOKED, "has freed");
        NXT_OK(c, nexar_send(c, "x", 2, 2, KEPT));
        nexar_comm_free(c);
    }
    if (nexar_rank(w) == 2) {
        NXT_OK(c, nexar_recv(c, in, 2, NEXAR_ANY_SOURCE, KEPT, &status));
        NXT_IS(c, (in[0] == 'x') && (status.source == 1));
        NXT_SAYS(c, nexar_recv(c, in, 2, NEXAR_ANY_SOURCE, NEXAR_ANY_TAG, NULL), NEXAR_EREVOKED,
                 "all other ranks have freed the communicator");
        NXT_SAYS(c, nexar_probe(c, NEXAR_ANY_SOURCE, KEPT, NULL), NEXAR_EREVOKED, "all other");
        nexar_comm_free(c);
    }
    NXT_OK(w, nexar_barrier(w));
}

static void test_a_receive_from_any_source_ends_when_all_others_have_freed_it(void **state)
{
    (void)state;
    for (int i = 0; i < 10; i++) {
        nxt_local_world(RANKS, NULL, receive_from_any, NULL);
    }
}

/* Rank 0 waits in finalize until its message is received; rank 1 waits for another one before. */
static nexar_err receive_another(nexar_comm *w)
{
    static char in[LONG];
    nexar_request *req;

    if (nexar_rank(w) == 0) {
        return nexar_isend(w, out, LONG, 1, 7, &req);
    }
    NXT_SAYS(w, nexar_recv(w, in, LONG, 0, 8, NULL), NEXAR_EPEER, "has called finalize");
    return nexar_recv(w, in, LONG, 0, 7, NULL);
}

static void test_who_waits_for_what_one_that_finalizes_has_not_sent_does_not_hang(void **state)
{
    part parts[RANKS];

    (void)state;
    for (int round = 0; round < 5; round++) {
        all_finalize(2, receive_another, parts);
        assert_int_equal(parts[0].ended, NEXAR_OK);
        assert_int_equal(parts[1].ended, NEXAR_OK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unreceived_sends_end_when_all_finalize),
        cmocka_unit_test(test_collectives_that_others_do_not_begin_end_when_all_finalize),
        cmocka_unit_test(test_collectives_that_all_have_begun_end_well),
        cmocka_unit_test(test_what_is_received_from_one_that_finalizes_is_not_lost),
        cmocka_unit_test(test_who_uses_what_another_has_freed_hears_of_it),
        cmocka_unit_test(test_what_was_begun_before_a_communicator_is_freed_ends_well),
        cmocka_unit_test(
            test_what_one_has_sent_before_it_freed_is_received_and_nothing_is_waited_for),
        cmocka_unit_test(test_a_rank_without_a_link_answers_when_it_is_waited_for),
        cmocka_unit_test(test_a_receive_from_any_source_ends_when_all_others_have_freed_it),
        cmocka_unit_test(test_who_waits_for_what_one_that_finalizes_has_not_sent_does_not_hang),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
