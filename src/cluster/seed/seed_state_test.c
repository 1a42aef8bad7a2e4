/* seed_state_test.c - the seed survives every client, and logs why it has rejected one. */
#include "cluster/seed/seed_state.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log_limit.h"
#include "cluster/join_rig.h"
#include "unit.h"

#define SECOND UINT64_C(1000000000)

static const char *refusal(const rig_conn *c, nx_refusal *why)
{
    static nx_refused refused;
    const rig_item *item = rig_find(c, NX_JOIN_REFUSED);
    nx_reader r;

    assert_non_null(item);
    r = nx_reader_make(item->data + 1, item->len - 1);
    assert_int_equal(nx_refused_decode(&r, &refused), NEXAR_OK);
    *why = refused.why;
    return refused.text;
}

static void assert_refused(const rig_conn *c, nx_refusal expected, const char *words)
{
    nx_refusal why;
    const char *text = refusal(c, &why);

    assert_true(rig_is_closed(c));
    assert_int_equal(why, expected);
    if (strstr(text, words) == NULL) {
        fail_msg("\"%s\" lacks \"%s\"", text, words);
    }
}

/* An honest joiner is still admitted, alone in its world. */
static void assert_still_serves(rig *r)
{
    const rig_joiner *j = rig_join_as(r, 0, 0);

    rig_run(r);
    assert_int_equal(nx_join_state_phase(j->state), NX_JOIN_FORMED);
}

/* Sends |len| bytes over a new connection to a seed of a world of one. */
static void refuse_bytes(const void *data, size_t len, nx_refusal why, const char *words)
{
    rig r;
    rig_conn *c;

    rig_init(&r, 1, 0, 1);
    c = rig_connect(&r);
    rig_send(c, data, len);
    rig_run(&r);
    assert_refused(c, why, words);
    assert_int_equal(r.events[NX_SEED_REFUSED], 1);
    assert_non_null(strstr(r.last_text[NX_SEED_REFUSED], "10.9.8.7:6"));
    assert_still_serves(&r);
    rig_fini(&r);
}

static void test_garbage_is_turned_away(void **state)
{
    static const uint8_t big[NX_FRAME_MAX] = {NX_JOIN_HELLO, 0, NX_JOIN_PROTOCOL};

    (void)state;
    refuse_bytes("", 0, NX_REFUSAL_PROTOCOL, "no hello");
    refuse_bytes("GET / HTTP/1.1\r\n", 16, NX_REFUSAL_PROTOCOL, "no hello");
    refuse_bytes("\1", 1, NX_REFUSAL_PROTOCOL, "no hello");
    refuse_bytes("\1\0\4xxxx", 7, NX_REFUSAL_PROTOCOL, "no hello");
    refuse_bytes("\7\0\0\0\0\0\0\0\0", 9, NX_REFUSAL_PROTOCOL, "no hello");
    refuse_bytes(big, sizeof(big), NX_REFUSAL_PROTOCOL, "no hello");
}

static void test_an_error_names_both_versions(void **state)
{
    (void)state;
    refuse_bytes("\1\0\1 and what that version has behind it", 30, NX_REFUSAL_PROTOCOL,
                 "protocol 1");
    refuse_bytes("\1\0\2", 3, NX_REFUSAL_PROTOCOL, "speaks 4");
}

static void test_a_wrong_token_is_turned_away_unread(void **state)
{
    uint8_t hello[NX_HELLO_MAX];
    nx_token wrong;
    rig r;
    rig_conn *c;
    size_t len;

    (void)state;
    rig_init(&r, 1, 0, 1);
    c = rig_connect(&r);
    wrong = r.rules.token;
    wrong.bytes[31] ^= 1;
    len = rig_hello(c, &wrong, 0, hello);
    memset(hello + 40, 0xff, len - 40); /* the bytes after the proof are garbage too */
    rig_send(c, hello, len);
    rig_run(&r);
    assert_refused(c, NX_REFUSAL_TOKEN, "token");

    c = rig_connect(&r);
    len = rig_hello(c, &wrong, 77, hello); /* an impossible rank is not examined */
    rig_send(c, hello, len);
    rig_run(&r);
    assert_refused(c, NX_REFUSAL_TOKEN, "token");
    assert_still_serves(&r);
    rig_fini(&r);
}

static void test_a_hello_of_another_session_is_turned_away(void **state)
{
    uint8_t hello[NX_HELLO_MAX];
    rig r;
    rig_conn *c, *other;
    size_t len;

    (void)state;
    rig_init(&r, 1, 0, 1);
    c = rig_connect(&r);
    other = rig_connect(&r);
    len = rig_hello(c, &r.rules.token, 0, hello);
    rig_send(other, hello, len); /* replayed */
    rig_run(&r);
    assert_refused(other, NX_REFUSAL_TOKEN, "token");
    rig_fini(&r);
}

static void test_every_cut_hello_is_turned_away(void **state)
{
    uint8_t hello[NX_HELLO_MAX];
    rig r;
    size_t len;

    (void)state;
    rig_init(&r, 1, 0, 1);
    len = rig_hello(rig_connect(&r), &r.rules.token, 0, hello);
    for (size_t cut = 0; cut <= len; cut++) {
        rig_conn *c = rig_connect(&r);

        (void)rig_hello(c, &r.rules.token, 0, hello);
        hello[len] = 0;
        rig_send(c, hello, (cut == len) ? len + 1 : cut); /* and one that is too long */
        rig_run(&r);
        assert_true(rig_is_closed(c));
        assert_non_null(rig_find(c, NX_JOIN_REFUSED));
        assert_null(rig_find(c, NX_JOIN_WELCOME));
    }
    assert_still_serves(&r);
    rig_fini(&r);
}

static void send_hello(rig *r, rig_conn *c, uint32_t rank)
{
    uint8_t hello[NX_HELLO_MAX];

    rig_send(c, hello, rig_hello(c, &r->rules.token, rank, hello));
    rig_run(r);
}

static void test_a_second_hello_frees_the_place(void **state)
{
    rig r;
    rig_conn *c;

    (void)state;
    rig_init(&r, 1, 0, 1);
    c = rig_connect(&r);
    send_hello(&r, c, 0);
    assert_non_null(rig_find(c, NX_JOIN_WELCOME));
    send_hello(&r, c, 0);
    assert_refused(c, NX_REFUSAL_PROTOCOL, "second hello");
    assert_still_serves(&r);
    rig_fini(&r);
}

static void test_frames_that_no_member_sends_end_it(void **state)
{
    static const struct {
        const char *bytes;
        size_t len;
        const char *words;
    } frames[] = {{"", 0, "no member"},
                  {"\2", 1, "no member"},
                  {"\377garbage", 8, "no member"},
                  {"\6\0", 2, "malformed"},
                  {"\7\0", 2, "malformed"},
                  {"\7\0\0\0\0\0\0\0\1\0", 10, "malformed"},
                  {"\11\5abc", 5, "malformed"},
                  /* a piece that was sent already, one after the end, one too early */
                  {"\6\0\0\0\0\0\0\0\1\0\0\0\0", 13, "out of order"},
                  {"\6\0\0\0\0\0\0\0\1\377\0\0\0", 13, "out of order"}};

    (void)state;
    for (size_t i = 0; i < sizeof(frames) / sizeof(frames[0]); i++) {
        rig r;
        rig_conn *c;

        rig_init(&r, 1, 0, 1);
        c = rig_connect(&r);
        send_hello(&r, c, 0);
        rig_send(c, frames[i].bytes, frames[i].len);
        rig_run(&r);
        assert_refused(c, NX_REFUSAL_PROTOCOL, frames[i].words);
        assert_still_serves(&r);
        rig_fini(&r);
    }
}

static void test_a_view_is_confirmed_once_and_when_it_is_whole(void **state)
{
    static const char have[] = "\7\0\0\0\0\0\0\0\1";
    rig r;
    rig_conn *a, *b;

    (void)state;
    rig_init(&r, 2, 0, 1);
    a = rig_connect(&r);
    b = rig_connect(&r);
    send_hello(&r, a, 0);
    rig_send(a, have, 9); /* no view is offered yet: ignored */
    send_hello(&r, b, 1);
    assert_false(nx_seed_state_formed(r.seed));
    rig_send(a, have, 9);
    rig_send(a, have, 9);
    rig_run(&r);
    assert_refused(a, NX_REFUSAL_PROTOCOL, "confirms");
    assert_false(nx_seed_state_formed(r.seed));
    assert_false(rig_is_closed(b));
    rig_fini(&r);
}

static void test_the_silent_are_turned_away_after_ten_seconds(void **state)
{
    rig r;
    rig_conn *c;

    (void)state;
    rig_init(&r, 1, 0, 1);
    c = rig_connect(&r);
    rig_run_until(&r, r.now + NX_SEED_HELLO_TIMEOUT_NS - 1);
    assert_false(rig_is_closed(c));
    rig_run_until(&r, r.now + 1);
    assert_refused(c, NX_REFUSAL_PROTOCOL, "10 s");
    assert_int_equal(nx_seed_state_due(r.seed), UINT64_MAX);
    rig_fini(&r);
}

static void test_a_thousand_at_once_write_few_lines(void **state)
{
    rig r;

    (void)state;
    rig_init(&r, 1, 0, 1);
    for (int i = 0; i < 1000; i++) {
        rig_send(rig_connect(&r), "x", 1);
    }
    rig_run(&r);
    assert_int_equal(r.events[NX_SEED_REFUSED], NX_LOG_LIMIT_LINES);
    rig_run_until(&r, r.now + 2 * SECOND);
    assert_int_equal(r.events[NX_SEED_REFUSED], NX_LOG_LIMIT_LINES + 1);
    assert_string_equal(r.last_text[NX_SEED_REFUSED], "992 more were rejected in that second");
    assert_still_serves(&r);
    rig_fini(&r);
}

static void test_a_flood_of_the_silent_pushes_out_its_own(void **state)
{
    rig r;
    rig_conn *first;

    (void)state;
    rig_init(&r, 1, 0, 1);
    first = rig_connect(&r);
    for (int i = 1; i < NX_SEED_PENDING_MAX; i++) {
        (void)rig_connect(&r);
    }
    assert_false(rig_is_closed(first));
    assert_still_serves(&r); /* one more than there is room for */
    assert_refused(first, NX_REFUSAL_PROTOCOL, "too many");
    rig_fini(&r);
}

static void test_ranks_and_sizes_are_refused_in_words(void **state)
{
    rig r;
    rig_conn *c;
    nx_join_rules rules;
    rig_joiner *j;
    const char *text;

    (void)state;
    rig_init(&r, 3, 0, 1);
    c = rig_connect(&r);
    send_hello(&r, c, 1);
    assert_non_null(rig_find(c, NX_JOIN_WELCOME));
    c = rig_connect(&r);
    send_hello(&r, c, 1);
    assert_refused(c, NX_REFUSAL_SETTING, "rank 1 is taken by host pid 7");
    c = rig_connect(&r);
    send_hello(&r, c, 3);
    assert_refused(c, NX_REFUSAL_SETTING, "a world of 3 has ranks 0 to 2");

    rules = rig_rules(&r, 0, 0);
    rules.hello.world_size = 4;
    j = rig_join(&r, &rules);
    rig_run(&r);
    assert_int_equal(nx_join_state_error(j->state, &text), NEXAR_EINVAL);
    assert_non_null(strstr(text, "expects a world of 4 ranks; this one has 3"));
    rig_fini(&r);
}

static void test_a_world_that_has_ended_admits_no_process(void **state)
{
    rig r;
    rig_conn *c, *late;

    (void)state;
    rig_init(&r, 1, 0, 1);
    c = rig_connect(&r);
    send_hello(&r, c, NX_RANK_ANY); /* it has not confirmed the view yet: full, not formed */
    late = rig_connect(&r);
    send_hello(&r, late, 0);
    assert_refused(late, NX_REFUSAL_FULL, "all 1 places");
    rig_send(c, "\7\0\0\0\0\0\0\0\1", 9); /* HAVE */
    rig_run(&r);
    assert_true(nx_seed_state_formed(r.seed));

    rig_send(c, "\11\0", 2); /* BYE */
    rig_run(&r);
    assert_non_null(rig_find(c, NX_JOIN_BYE));
    assert_true(nx_seed_state_ended(r.seed));
    assert_int_equal(r.events[NX_SEED_LEFT], 1);
    assert_int_equal(r.events[NX_SEED_ENDED], 1);
    late = rig_connect(&r);
    send_hello(&r, late, NX_RANK_ANY);
    assert_refused(late, NX_REFUSAL_FORMED, "ended");
    rig_fini(&r);
}

static void test_a_request_that_cannot_be_signed_takes_no_place(void **state)
{
    rig r;
    rig_conn *c;

    (void)state;
    rig_init(&r, 1, 0, 1);
    r.refuse_csr = true;
    c = rig_connect(&r);
    send_hello(&r, c, 0);
    assert_refused(c, NX_REFUSAL_PROTOCOL, "malformed");
    r.refuse_csr = false;
    assert_still_serves(&r);
    rig_fini(&r);
}

static void test_a_client_with_a_failed_send_is_removed(void **state)
{
    rig r;
    rig_conn *c;

    (void)state;
    rig_init(&r, 1, 0, 1);
    c = rig_connect(&r);
    r.fail_sends = true;
    send_hello(&r, c, 0);
    assert_true(rig_is_closed(c));
    assert_int_equal(r.events[NX_SEED_LOST], 1);
    r.fail_sends = false;
    assert_still_serves(&r);
    rig_fini(&r);
}

static void test_lack_of_memory_turns_one_away_and_no_more(void **state)
{
    (void)state;
    for (long n = 0; n < 40; n++) {
        uint8_t hello[NX_HELLO_MAX];
        rig r;
        rig_conn *c;
        size_t len;

        rig_init(&r, 1, 0, 1);
        c = rig_connect(&r);
        len = rig_hello(c, &r.rules.token, 0, hello);
        nx_alloc_fail_after(n);
        nx_seed_state_frame(r.seed, c->client, hello, len, r.now);
        nx_alloc_fail_after(-1);
        if (!rig_is_closed(c)) {
            /* Admitted; the view arrives late or at once. */
            rig_run_until(&r, r.now + SECOND);
            assert_non_null(rig_find(c, NX_JOIN_WELCOME));
            assert_non_null(rig_find(c, NX_JOIN_VIEW));
        } else {
            assert_still_serves(&r);
        }
        rig_fini(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_garbage_is_turned_away),
        cmocka_unit_test(test_an_error_names_both_versions),
        cmocka_unit_test(test_a_wrong_token_is_turned_away_unread),
        cmocka_unit_test(test_a_hello_of_another_session_is_turned_away),
        cmocka_unit_test(test_every_cut_hello_is_turned_away),
        cmocka_unit_test(test_a_second_hello_frees_the_place),
        cmocka_unit_test(test_frames_that_no_member_sends_end_it),
        cmocka_unit_test(test_a_view_is_confirmed_once_and_when_it_is_whole),
        cmocka_unit_test(test_the_silent_are_turned_away_after_ten_seconds),
        cmocka_unit_test(test_a_thousand_at_once_write_few_lines),
        cmocka_unit_test(test_a_flood_of_the_silent_pushes_out_its_own),
        cmocka_unit_test(test_ranks_and_sizes_are_refused_in_words),
        cmocka_unit_test(test_a_world_that_has_ended_admits_no_process),
        cmocka_unit_test(test_a_request_that_cannot_be_signed_takes_no_place),
        cmocka_unit_test(test_a_client_with_a_failed_send_is_removed),
        cmocka_unit_test(test_lack_of_memory_turns_one_away_and_no_more),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
