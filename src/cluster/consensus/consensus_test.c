/* consensus_test.c - single steps of consensus; consensus_sim_test.c has the rest. */
#include "consensus.h"
#include "msg/control.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "oom.h"
#include "unit.h"

enum { SIZE = 4, COMM = 9, ROOM = 4096, PAYLOAD = 8 };

/* One rank, and a log of its actions: "UP>0" went to rank 0. */
typedef struct stage {
    char log[ROOM];
    nx_consensus *agree;
    uint32_t self;
    nx_rankset dead, left;
    nx_consensus_value value;
    uint32_t left_bits, leaver_bits; /* contents of the frames of other ranks from now on */
    uint8_t sent[256];               /* the last frame */
    size_t sent_len;
} stage;

static void note(stage *s, const char *what, uint64_t number)
{
    const size_t at = strlen(s->log);

    (void)snprintf(s->log + at, sizeof(s->log) - at, "%s%s%" PRIu64, (at == 0) ? "" : " ", what,
                   number);
}

static void on_send(void *ctx, uint32_t to, const void *frame, size_t len)
{
    static const char *const names[] = {"",      "UP>",   "PROPOSE>", "ACK>",   "DECIDE>",
                                        "NEWS>", "DONE>", "ASK>",     "FORGET>"};
    stage *s = ctx;
    nx_consensus_msg m;

    assert_int_equal(nx_consensus_msg_decode(frame, len, &s->dead, &s->left, &s->value, &m),
                     NEXAR_OK);
    note(s, names[m.kind], to);
    assert_true(len <= sizeof(s->sent));
    memcpy(s->sent, frame, len);
    s->sent_len = len;
}

static void on_decided(void *ctx, uint64_t seq, const nx_consensus_value *v)
{
    (void)seq;
    note(ctx, "decided:", v->flags);
}

static void on_learned(void *ctx, uint32_t rank)
{
    note(ctx, "learned:", rank);
}

static void on_ended(void *ctx, nexar_err err, const char *why)
{
    stage *s = ctx;

    assert_int_equal(err, NEXAR_EPEER);
    (void)snprintf(s->log, sizeof(s->log), "%s", why);
}

static void on_forgotten(void *ctx)
{
    note(ctx, "forgotten:", 1);
}

static const nx_consensus_ops ops = {.send = on_send,
                                     .decided = on_decided,
                                     .learned = on_learned,
                                     .ended = on_ended,
                                     .forgotten = on_forgotten};

static nx_consensus_config config_of(uint32_t size, uint32_t self)
{
    return (nx_consensus_config){
        .comm = COMM, .size = size, .self = self, .fanout = 2, .payload_max = PAYLOAD};
}

static void begin(stage *s, const nx_consensus_config *config)
{
    *s = (stage){.self = config->self};
    assert_int_equal(nx_rankset_init(&s->dead, config->size), NEXAR_OK);
    assert_int_equal(nx_rankset_init(&s->left, config->size), NEXAR_OK);
    assert_int_equal(nx_consensus_value_init(&s->value, config->size, PAYLOAD), NEXAR_OK);
    assert_int_equal(nx_consensus_create(&s->agree, config, &ops, s), NEXAR_OK);
}

static void end(stage *s)
{
    nx_consensus_destroy(s->agree);
    nx_rankset_fini(&s->dead);
    nx_rankset_fini(&s->left);
    nx_consensus_value_fini(&s->value);
}

static void expect(stage *s, const char *log)
{
    assert_string_equal(s->log, log);
    s->log[0] = '\0';
}

static void start_to_leave(stage *s, uint64_t flags)
{
    const nx_consensus_input input = {.flags = flags, .leave = true};

    assert_int_equal(nx_consensus_start(s->agree, &input), NEXAR_OK);
}

static void start(stage *s, uint64_t flags)
{
    const nx_consensus_input input = {.flags = flags};

    assert_int_equal(nx_consensus_start(s->agree, &input), NEXAR_OK);
}

static void fill(nx_rankset *set, uint32_t bits)
{
    nx_rankset_clear(set);
    for (uint32_t i = 0; i < set->n; i++) {
        if ((bits >> i) & 1) {
            (void)nx_rankset_add(set, i);
        }
    }
}

/* A frame from |from| with the ballot |dead|, as bits. */
static nexar_err tell(stage *s, uint32_t from, nx_consensus_kind kind, uint64_t seq, uint32_t dead,
                      uint64_t flags)
{
    uint8_t frame[256];
    nx_writer w = nx_writer_make(frame, sizeof(frame));
    const nx_consensus_msg m = {.comm = COMM,
                                .seq = seq,
                                .kind = kind,
                                .dead = &s->dead,
                                .left = &s->left,
                                .value = &s->value};

    fill(&s->dead, dead);
    fill(&s->left, dead & s->left_bits);
    nx_consensus_value_reset(&s->value);
    fill(&s->value.leavers, s->leaver_bits);
    s->value.flags = flags;
    if ((kind == NX_CONSENSUS_PROPOSE) || (kind == NX_CONSENSUS_DECIDE)) {
        s->value.ballot = 1 + s->dead.count;
        nx_rankset_copy(&s->value.failed, &s->dead);
    }
    nx_consensus_msg_encode(&w, &m);
    return nx_consensus_frame(s->agree, from, frame, w.len);
}

#define TELL(...) assert_int_equal(tell(&s, __VA_ARGS__), NEXAR_OK)

static void test_one_rank_agrees_with_itself(void **state)
{
    const nx_consensus_config config = config_of(1, 0);
    stage s;

    (void)state;
    begin(&s, &config);
    start(&s, 5);
    expect(&s, "decided:5");
    start(&s, 6);
    expect(&s, "decided:6");
    assert_int_equal(nx_consensus_seq(s.agree), 2);
    nx_consensus_close(s.agree);
    expect(&s, "forgotten:1");
    end(&s);
}

static void test_the_root_gathers_proposes_and_decides(void **state)
{
    const nx_consensus_config config = config_of(SIZE, 0);
    uint32_t waits[SIZE];
    stage s;

    (void)state;
    begin(&s, &config);
    TELL(2, NX_CONSENSUS_UP, 0, 0, 6); /* before this rank has begun */
    start(&s, 7);
    assert_int_equal(nx_consensus_waits_for(s.agree, waits, SIZE), 1);
    assert_int_equal(waits[0], 1);
    expect(&s, "");
    TELL(1, NX_CONSENSUS_UP, 0, 0, 3);
    TELL(1, NX_CONSENSUS_UP, 0, 0, 0); /* twice: the first one counts */
    expect(&s, "PROPOSE>1 PROPOSE>2");
    TELL(1, NX_CONSENSUS_ACK, 0, 0, 0);
    TELL(1, NX_CONSENSUS_ACK, 0, 0, 0);
    expect(&s, "");
    TELL(2, NX_CONSENSUS_ACK, 0, 0, 0);
    expect(&s, "DECIDE>1 DECIDE>2 decided:2");
    TELL(2, NX_CONSENSUS_ACK, 0, 0, 0); /* every request is answered */
    expect(&s, "DECIDE>2");
    end(&s);
}

static void test_a_leaf_goes_to_its_new_parent_with_what_it_accepted(void **state)
{
    const nx_consensus_config config = config_of(SIZE, 3);
    uint32_t waits[SIZE];
    stage s;

    (void)state;
    begin(&s, &config);
    start(&s, 7);
    assert_int_equal(nx_consensus_waits_for(s.agree, waits, SIZE), 1);
    assert_int_equal(waits[0], 1);
    TELL(1, NX_CONSENSUS_PROPOSE, 0, 0, 4);
    expect(&s, "UP>1 ACK>1");
    nx_consensus_failed(s.agree, 0);
    expect(&s, "UP>1");
    assert_int_equal(s.value.ballot, 1); /* with the accepted value */
    assert_int_equal(s.value.flags, 4);
    TELL(2, NX_CONSENSUS_NEWS, 0, 3, 0);
    expect(&s, "learned:1 UP>2");
    TELL(1, NX_CONSENSUS_DECIDE, 0, 0, 9); /* frames of failed ranks are ignored */
    expect(&s, "NEWS>1");
    TELL(2, NX_CONSENSUS_DECIDE, 0, 3, 4);
    expect(&s, "decided:4");
    end(&s);
}

static void test_an_early_decision_comes_with_the_proposal(void **state)
{
    nx_consensus_config config = config_of(SIZE, 1);
    stage s;

    (void)state;
    config.early = true;
    begin(&s, &config);
    start(&s, 7);
    TELL(3, NX_CONSENSUS_UP, 0, 0, 5);
    TELL(0, NX_CONSENSUS_PROPOSE, 0, 0, 5);
    expect(&s, "UP>0 PROPOSE>3 decided:5");
    nx_consensus_failed(s.agree, 0); /* now the root; rank 2 may have nothing, and asks */
    expect(&s, "");
    TELL(2, NX_CONSENSUS_UP, 0, 1, 1);
    expect(&s, "DECIDE>2");
    end(&s);
}

static void test_who_is_told_of_one_that_has_left_knows_that_it_has_not_failed(void **state)
{
    const nx_consensus_config config = config_of(SIZE, 0), other_config = config_of(SIZE, 1);
    stage s, other;

    (void)state;
    begin(&s, &config);
    begin(&other, &other_config);
    start(&s, 7);
    nx_consensus_failed(s.agree, 2);
    TELL(1, NX_CONSENSUS_UP, 0, 4, 5); /* before it knows: otherwise it would not ask again */
    nx_consensus_left(s.agree, 3);
    expect(&s, "NEWS>1");
    assert_int_equal(nx_consensus_frame(other.agree, 0, s.sent, s.sent_len), NEXAR_OK);
    expect(&other, "learned:2 learned:3 NEWS>0");
    assert_false(nx_consensus_has_left(other.agree, 2));
    assert_true(nx_consensus_has_left(other.agree, 3));
    end(&s);
    end(&other);
}

/* A rank may assume that a rank has left if there never was a link to it, and it is unreachable. */
static void test_that_one_has_failed_counts_more_than_that_it_has_left(void **state)
{
    const nx_consensus_config config = config_of(SIZE, 0);
    stage s;

    (void)state;
    for (int first = 0; first < 2; first++) {
        begin(&s, &config);
        start(&s, 7);
        s.left_bits = (first == 0) ? 0 : 8;
        TELL(1, NX_CONSENSUS_UP, 0, 8, 7);
        s.left_bits = 8 - s.left_bits;
        TELL(2, NX_CONSENSUS_UP, 0, 8, 7);
        assert_false(nx_consensus_has_left(s.agree, 3));
        assert_non_null(strstr(s.log, "PROPOSE>1 PROPOSE>2"));
        assert_false(nx_rankset_has(&s.left, 3)); /* by the proposal */
        nx_consensus_left(s.agree, 3);
        assert_false(nx_consensus_has_left(s.agree, 3));
        end(&s);
    }
    begin(&s, &config);
    nx_consensus_left(s.agree, 3);
    assert_true(nx_consensus_has_left(s.agree, 3));
    nx_consensus_failed(s.agree, 3);
    assert_false(nx_consensus_has_left(s.agree, 3));
    end(&s);
}

static void test_who_speaks_of_an_old_ballot_is_told_the_news(void **state)
{
    const nx_consensus_config config = config_of(SIZE, 0);
    stage s;

    (void)state;
    begin(&s, &config);
    start(&s, 7);
    nx_consensus_failed(s.agree, 3);
    TELL(1, NX_CONSENSUS_UP, 0, 0, 5);
    expect(&s, "NEWS>1");
    TELL(1, NX_CONSENSUS_UP, 0, 8, 5);
    TELL(2, NX_CONSENSUS_UP, 0, 8, 5);
    expect(&s, "PROPOSE>1 PROPOSE>2");
    end(&s);
}

static void test_who_is_held_for_dead_ends(void **state)
{
    const nx_consensus_config config = config_of(SIZE, 2);
    const nx_consensus_input input = {0};
    stage s;

    (void)state;
    begin(&s, &config);
    start(&s, 7);
    s.log[0] = '\0';
    TELL(1, NX_CONSENSUS_NEWS, 0, 4, 0);
    expect(&s, "rank 1 and others have declared this rank failed");
    TELL(1, NX_CONSENSUS_DECIDE, 0, 0, 4);
    nx_consensus_failed(s.agree, 0);
    expect(&s, "");
    assert_int_equal(nx_consensus_start(s.agree, &input), NEXAR_EPEER);
    nx_consensus_close(s.agree);
    expect(&s, ""); /* it stays, and contributes nothing */
    end(&s);
}

static void test_a_minority_ends_and_half_with_rank_0_does_not(void **state)
{
    nx_consensus_config config = config_of(SIZE, 1);
    stage s;

    (void)state;
    config.quorum = NX_QUORUM_MAJORITY;
    begin(&s, &config);
    start(&s, 7);
    nx_consensus_failed(s.agree, 3);
    nx_consensus_failed(s.agree, 2); /* 0 and 1 are left */
    expect(&s, "UP>0 UP>0");
    end(&s);
    begin(&s, &config);
    start(&s, 7);
    nx_consensus_failed(s.agree, 0);
    s.log[0] = '\0';
    nx_consensus_failed(s.agree, 2); /* 1 and 3 are left */
    expect(&s, "2 of 4 ranks are alive: no majority");
    end(&s);
}

static void test_the_end_waits_for_all(void **state)
{
    const nx_consensus_config config = config_of(3, 0);
    stage s;

    (void)state;
    begin(&s, &config);
    start(&s, 1);
    TELL(1, NX_CONSENSUS_DECIDE, 0, 0, 1);
    expect(&s, "DECIDE>2 decided:1");
    TELL(1, NX_CONSENSUS_DONE, 0, 0, 0);
    nx_consensus_close(s.agree);
    expect(&s, "");
    nx_consensus_failed(s.agree, 1);
    expect(&s, "ASK>2");
    TELL(2, NX_CONSENSUS_DONE, 0, 0, 0); /* of the previous ballot */
    expect(&s, "NEWS>2");
    TELL(2, NX_CONSENSUS_DONE, 0, 2, 0);
    expect(&s, "FORGET>2 forgotten:1");
    end(&s);
}

/* Rank 0 of four has decided that the ranks in |leavers| leave. */
static void decide_to_part(stage *s, uint32_t leavers)
{
    const nx_consensus_config config = config_of(SIZE, 0);

    begin(s, &config);
    s->leaver_bits = leavers;
    start(s, 7);
    assert_int_equal(tell(s, 1, NX_CONSENSUS_DECIDE, 0, 0, 1), NEXAR_OK);
    expect(s, "DECIDE>2 decided:1");
}

/* Rank 3 of four has asked to leave with the ranks in |leavers|, and has accepted that. */
static void accept_to_part(stage *s, uint32_t leavers)
{
    const nx_consensus_config config = config_of(SIZE, 3);

    begin(s, &config);
    s->leaver_bits = leavers;
    start_to_leave(s, 7);
    assert_int_equal(tell(s, 1, NX_CONSENSUS_PROPOSE, 0, 0, 4), NEXAR_OK);
    expect(s, "UP>1 ACK>1");
}

static void test_a_released_leaver_is_sent_the_decision(void **state)
{
    stage s;

    (void)state;
    decide_to_part(&s, 6);
    nx_consensus_let_go(s.agree);
    expect(&s, ""); /* the others decide it themselves */
    assert_int_equal(nx_consensus_dead(s.agree)->count, 0);
    TELL(1, NX_CONSENSUS_ACK, 0, 0, 0);
    TELL(2, NX_CONSENSUS_UP, 0, 0, 5);
    expect(&s, "DECIDE>1 DECIDE>2");
    TELL(2, NX_CONSENSUS_UP, 0, 2, 5); /* it knew before that rank 1 has left */
    expect(&s, "learned:1 DECIDE>3 DECIDE>2");
    end(&s);
}

static void test_the_end_does_not_wait_for_leavers_and_answers_them_after_it(void **state)
{
    stage s;

    (void)state;
    decide_to_part(&s, 6);
    nx_consensus_let_go(s.agree);
    nx_consensus_close(s.agree);
    expect(&s, "");
    TELL(3, NX_CONSENSUS_DONE, 0, 0, 0); /* a child in the tree of staying ranks, not of all */
    expect(&s, "FORGET>3 forgotten:1");
    TELL(1, NX_CONSENSUS_UP, 0, 0, 5);
    TELL(3, NX_CONSENSUS_DONE, 0, 0, 0); /* it was not notified */
    expect(&s, "DECIDE>1 FORGET>3");
    nx_consensus_failed(s.agree, 1); /* rank 2 may wait for this rank */
    expect(&s, "DECIDE>3");
    end(&s);
}

static void test_who_is_told_that_it_has_left_knows_the_decision(void **state)
{
    stage s;

    (void)state;
    accept_to_part(&s, 9);
    s.left_bits = 15;
    TELL(2, NX_CONSENSUS_NEWS, 0, 9, 0);
    expect(&s, "DECIDE>1 decided:4");
    TELL(2, NX_CONSENSUS_NEWS, 0, 9, 0); /* it is about to leave */
    expect(&s, "");
    end(&s);
}

static void test_a_leaver_that_has_not_accepted_its_leave_counts_as_failed(void **state)
{
    const nx_consensus_config config = config_of(SIZE, 3);
    stage s;

    (void)state;
    begin(&s, &config);
    s.left_bits = 15;
    start_to_leave(&s, 7);
    s.log[0] = '\0';
    TELL(2, NX_CONSENSUS_NEWS, 0, 8, 0);
    expect(&s, "rank 2 and others have declared this rank failed");
    end(&s);
    accept_to_part(&s, 8);
    s.log[0] = '\0';
    TELL(2, NX_CONSENSUS_NEWS, 0, 8, 0); /* not that it has left */
    expect(&s, "rank 2 and others have declared this rank failed");
    end(&s);
}

static void test_a_waiting_leaver_is_notified_when_it_is_treated_as_gone(void **state)
{
    const nx_consensus_config config = config_of(SIZE, 1);
    stage s;

    (void)state;
    begin(&s, &config);
    s.leaver_bits = 8;
    start(&s, 7);
    TELL(3, NX_CONSENSUS_UP, 0, 0, 7);
    TELL(0, NX_CONSENSUS_PROPOSE, 0, 0, 4);
    expect(&s, "UP>0 PROPOSE>3");
    nx_consensus_left(s.agree, 3);
    expect(&s, "NEWS>3 UP>0 NEWS>0");
    end(&s);
}

static void test_a_decision_of_a_rank_that_has_left_counts(void **state)
{
    stage s;

    (void)state;
    accept_to_part(&s, 2);
    nx_consensus_left(s.agree, 1);
    expect(&s, "NEWS>1 UP>0 NEWS>0");
    TELL(1, NX_CONSENSUS_DECIDE, 0, 0, 4);
    expect(&s, "DECIDE>0 decided:4");
    end(&s);
}

/* The decision may be in flight, so the rank waits for it, but proposes nothing. */
static void test_leavers_that_have_gone_do_not_cost_the_majority(void **state)
{
    nx_consensus_config config = config_of(5, 4);
    stage s;

    (void)state;
    config.quorum = NX_QUORUM_MAJORITY;
    for (uint32_t told = 0; told <= 1; told++) {
        begin(&s, &config);
        s.leaver_bits = 7;
        start(&s, 7);
        TELL(1, NX_CONSENSUS_PROPOSE, 0, 0, 4);
        nx_consensus_left(s.agree, 0);
        nx_consensus_left(s.agree, 1);
        nx_consensus_left(s.agree, 2); /* 3 and 4 are left */
        s.log[0] = '\0';
        if (told == 0) {
            nx_consensus_failed(s.agree, 3);
            expect(&s, "1 of 5 ranks are alive: no majority");
        } else {
            s.left_bits = 7;
            TELL(3, NX_CONSENSUS_DECIDE, 0, 7, 4);
            expect(&s, "decided:4");
        }
        end(&s);
    }
}

static void test_with_each_ballot_new_neighbours_hear_who_has_left(void **state)
{
    const nx_consensus_config config = config_of(SIZE, 2);
    stage s;

    (void)state;
    begin(&s, &config);
    start(&s, 7);
    nx_consensus_left(s.agree, 1);
    expect(&s, "UP>0 UP>0 NEWS>0");
    nx_consensus_failed(s.agree, 0); /* 3 does not wait, and was notified of a failure only */
    expect(&s, "NEWS>3");
    end(&s);
}

static void test_a_reminder_is_sent_to_the_awaited_ranks(void **state)
{
    const nx_consensus_config config = config_of(SIZE, 1);
    stage s;

    (void)state;
    begin(&s, &config);
    nx_consensus_remind(s.agree);
    expect(&s, "");
    start(&s, 7);
    nx_consensus_remind(s.agree);
    expect(&s, "NEWS>3");
    TELL(3, NX_CONSENSUS_UP, 0, 0, 5);
    nx_consensus_remind(s.agree);
    expect(&s, "UP>0 NEWS>0");
    end(&s);
}

static void test_two_ranks_that_declared_each_other_failed_fall_silent(void **state)
{
    const nx_consensus_config config = config_of(SIZE, 0);
    stage s;

    (void)state;
    begin(&s, &config);
    nx_consensus_failed(s.agree, 3);
    TELL(3, NX_CONSENSUS_NEWS, 0, 4, 0); /* it does not know */
    expect(&s, "NEWS>3");
    TELL(3, NX_CONSENSUS_NEWS, 0, 1, 0);
    expect(&s, "");
    end(&s);
}

static void test_frames_for_a_communicator_that_is_not_here(void **state)
{
    static const uint8_t up[] = {NX_CONTROL_AGREE, COMM, NX_CONSENSUS_UP, 0},
                         done[] = {NX_CONTROL_AGREE, COMM, NX_CONSENSUS_DONE, 3},
                         ack[] = {NX_CONTROL_AGREE, COMM, NX_CONSENSUS_ACK, 0};
    const nx_consensus_config config = config_of(SIZE, 0);
    uint8_t reply[NX_CONSENSUS_UNEXPECTED_MAX];
    uint64_t comm = 0;
    nx_consensus_msg m;
    size_t len;
    stage s;

    (void)state;
    begin(&s, &config);
    assert_true(nx_consensus_unexpected(up, sizeof(up), reply, &len));
    assert_int_equal(len, 0);
    assert_false(nx_consensus_unexpected(ack, sizeof(ack), reply, &len));
    assert_int_equal(len, 0);
    assert_false(nx_consensus_unexpected("x", 1, reply, &len));
    assert_false(nx_consensus_unexpected(done, sizeof(done), reply, &len));
    assert_int_equal(nx_consensus_msg_decode(reply, len, &s.dead, &s.left, &s.value, &m), NEXAR_OK);
    assert_int_equal(m.kind, NX_CONSENSUS_FORGET);
    assert_int_equal(nx_consensus_msg_comm(reply, len, &comm), NEXAR_OK);
    assert_int_equal(comm, COMM);
    assert_int_equal(nx_consensus_msg_comm("x", 1, &comm), NEXAR_EPROTO);
    end(&s);
}

static void test_nonsense_is_refused(void **state)
{
    nx_consensus_config bad[5];
    const nx_consensus_input large = {.payload = "123456789", .payload_len = PAYLOAD + 1};
    stage s;

    (void)state;
    for (uint32_t i = 0; i < 5; i++) {
        bad[i] = config_of(SIZE, 0);
    }
    bad[0].self = SIZE;
    bad[1].fanout = 1;
    bad[2].payload_max = NX_CONSENSUS_PAYLOAD_MAX + 1;
    bad[3].early = true;
    bad[3].quorum = NX_QUORUM_MAJORITY;
    bad[4].size = 0;
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(nx_consensus_create(&s.agree, &bad[i], &ops, &s), NEXAR_EINVAL);
    }
    bad[0].self = 0;
    begin(&s, &bad[0]);
    assert_int_equal(nx_consensus_start(s.agree, &large), NEXAR_EINVAL);
    assert_int_equal(tell(&s, 1, NX_CONSENSUS_UP, 1, 0, 0), NEXAR_EPROTO); /* too early */
    assert_int_equal(tell(&s, 0, NX_CONSENSUS_UP, 0, 0, 0), NEXAR_EPROTO); /* from itself */
    assert_int_equal(tell(&s, SIZE, NX_CONSENSUS_UP, 0, 0, 0), NEXAR_EPROTO);
    assert_int_equal(tell(&s, 1, NX_CONSENSUS_UP, 0, 2, 0), NEXAR_EPROTO); /* failed, by itself */
    assert_int_equal(tell(&s, 1, NX_CONSENSUS_ACK, 9, 8, 0), NEXAR_EPROTO);
    assert_int_equal(nx_consensus_dead(s.agree)->count, 0); /* the rest is ignored */
    start(&s, 0);
    assert_int_equal(nx_consensus_start(s.agree, &large), NEXAR_EINVAL);
    end(&s);
}

static void test_what_was_not_proposed_is_not_decided(void **state)
{
    const nx_consensus_config config = config_of(SIZE, 3);
    uint8_t frame[256];
    nx_writer w = nx_writer_make(frame, sizeof(frame));
    stage s;

    (void)state;
    begin(&s, &config);
    start(&s, 7);
    expect(&s, "UP>1");
    nx_consensus_value_reset(&s.value);
    fill(&s.dead, 0);
    nx_consensus_msg_encode(&w, &(nx_consensus_msg){.comm = COMM,
                                                    .kind = NX_CONSENSUS_DECIDE,
                                                    .dead = &s.dead,
                                                    .left = &s.left,
                                                    .value = &s.value});
    assert_int_equal(nx_consensus_frame(s.agree, 1, frame, w.len), NEXAR_EPROTO);
    expect(&s, "");
    end(&s);
}

static void test_a_rank_that_released_leavers_starts_no_instance(void **state)
{
    const nx_consensus_input input = {.flags = 1};
    const nx_consensus_config config = config_of(1, 0);
    stage s;

    (void)state;
    begin(&s, &config);
    start(&s, 5);
    expect(&s, "decided:5");
    nx_consensus_let_go(s.agree);
    assert_int_equal(nx_consensus_start(s.agree, &input), NEXAR_EINVAL);
    end(&s);
}

static void test_the_largest_message_is_one_frame(void **state)
{
    assert_true(nx_consensus_encoded_max(NX_WORLD_MAX, NX_CONSENSUS_PAYLOAD_MAX) <= NX_FRAME_MAX);
    (void)state;
}

static void test_lack_of_memory_is_reported(void **state)
{
    const nx_consensus_config config = config_of(SIZE, 0);

    (void)state;
    NXT_FOR_EACH_OOM (n) {
        nx_consensus *agree = NULL;
        const nexar_err err = nx_consensus_create(&agree, &config, &ops, NULL);

        assert_int_equal(err, nx_alloc_failed() ? NEXAR_ENOMEM : NEXAR_OK);
        nx_consensus_destroy(agree);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_rank_agrees_with_itself),
        cmocka_unit_test(test_the_root_gathers_proposes_and_decides),
        cmocka_unit_test(test_a_leaf_goes_to_its_new_parent_with_what_it_accepted),
        cmocka_unit_test(test_an_early_decision_comes_with_the_proposal),
        cmocka_unit_test(test_who_is_told_of_one_that_has_left_knows_that_it_has_not_failed),
        cmocka_unit_test(test_that_one_has_failed_counts_more_than_that_it_has_left),
        cmocka_unit_test(test_who_speaks_of_an_old_ballot_is_told_the_news),
        cmocka_unit_test(test_who_is_held_for_dead_ends),
        cmocka_unit_test(test_a_minority_ends_and_half_with_rank_0_does_not),
        cmocka_unit_test(test_the_end_waits_for_all),
        cmocka_unit_test(test_a_released_leaver_is_sent_the_decision),
        cmocka_unit_test(test_the_end_does_not_wait_for_leavers_and_answers_them_after_it),
        cmocka_unit_test(test_who_is_told_that_it_has_left_knows_the_decision),
        cmocka_unit_test(test_a_leaver_that_has_not_accepted_its_leave_counts_as_failed),
        cmocka_unit_test(test_a_waiting_leaver_is_notified_when_it_is_treated_as_gone),
        cmocka_unit_test(test_a_decision_of_a_rank_that_has_left_counts),
        cmocka_unit_test(test_leavers_that_have_gone_do_not_cost_the_majority),
        cmocka_unit_test(test_with_each_ballot_new_neighbours_hear_who_has_left),
        cmocka_unit_test(test_a_reminder_is_sent_to_the_awaited_ranks),
        cmocka_unit_test(test_two_ranks_that_declared_each_other_failed_fall_silent),
        cmocka_unit_test(test_frames_for_a_communicator_that_is_not_here),
        cmocka_unit_test(test_nonsense_is_refused),
        cmocka_unit_test(test_what_was_not_proposed_is_not_decided),
        cmocka_unit_test(test_a_rank_that_released_leavers_starts_no_instance),
        cmocka_unit_test(test_the_largest_message_is_one_frame),
        cmocka_unit_test(test_lack_of_memory_is_reported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
