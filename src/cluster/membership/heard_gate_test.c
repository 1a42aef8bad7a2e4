/* heard_gate_test.c - an unheard peer is sent nothing; a heard peer is sent everything, in
 * order. */
#include "cluster/membership/heard_gate.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "oom.h"
#include "unit.h"

enum { PEERS = 4 };

typedef struct stage {
    nx_heard_gate gate;
    bool heard[PEERS];
    char log[256];
} stage;

static void note(stage *s, const char *what, uint32_t peer, const char *more, size_t len)
{
    const size_t at = strlen(s->log);

    (void)snprintf(s->log + at, sizeof(s->log) - at, "%s%s %" PRIu32 "%s%.*s",
                   (at == 0) ? "" : "; ", what, peer, (len == 0) ? "" : " ", (int)len, more);
}

static void on_send(void *ctx, uint32_t to, const void *frame, size_t len)
{
    note(ctx, "send", to, frame, len);
}

static bool on_hears(void *ctx, uint32_t peer)
{
    return ((stage *)ctx)->heard[peer];
}

static void on_begin(void *ctx, uint32_t peer)
{
    note(ctx, "begin", peer, "", 0);
}

static void on_end(void *ctx, uint32_t peer)
{
    note(ctx, "end", peer, "", 0);
}

static const nx_heard_gate_ops ops = {
    .send = on_send, .hears = on_hears, .begin = on_begin, .end = on_end};

static void begin(stage *s)
{
    *s = (stage){.heard = {[1] = true}};
    nx_heard_gate_init(&s->gate, &ops, s);
}

static void expect(stage *s, const char *log)
{
    assert_string_equal(s->log, log);
    s->log[0] = '\0';
}

static void test_who_is_not_heard_is_told_when_it_is(void **state)
{
    stage s;

    (void)state;
    begin(&s);
    nx_heard_gate_send(&s.gate, 1, "a", 1);
    nx_heard_gate_send(&s.gate, 2, "b", 1);
    nx_heard_gate_send(&s.gate, 3, "c", 1);
    nx_heard_gate_send(&s.gate, 2, "dd", 2);
    expect(&s, "send 1 a; begin 2; begin 3");
    nx_heard_gate_heard(&s.gate, 1);
    expect(&s, "");
    nx_heard_gate_heard(&s.gate, 2);
    expect(&s, "end 2; send 2 b; send 2 dd");
    nx_heard_gate_heard(&s.gate, 2);
    expect(&s, "");
    s.heard[3] = true; /* before any frame was received */
    nx_heard_gate_send(&s.gate, 3, "e", 1);
    expect(&s, "end 3; send 3 c; send 3 e");
    nx_heard_gate_fini(&s.gate);
}

static void test_frames_for_a_failed_rank_are_dropped(void **state)
{
    stage s;

    (void)state;
    begin(&s);
    nx_heard_gate_send(&s.gate, 2, "b", 1);
    nx_heard_gate_send(&s.gate, 3, "c", 1);
    nx_heard_gate_drop(&s.gate, 2);
    nx_heard_gate_drop(&s.gate, 2);
    expect(&s, "begin 2; begin 3; end 2");
    nx_heard_gate_heard(&s.gate, 2);
    expect(&s, "");
    nx_heard_gate_fini(&s.gate); /* with what waits for 3 */
    expect(&s, "");
}

static void test_without_memory_it_goes_at_once(void **state)
{
    (void)state;
    NXT_FOR_EACH_OOM (n) {
        stage s;

        begin(&s);
        nx_heard_gate_send(&s.gate, 2, "b", 1);
        expect(&s, nx_alloc_failed() ? "send 2 b" : "begin 2");
        nx_heard_gate_fini(&s.gate);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_is_not_heard_is_told_when_it_is),
        cmocka_unit_test(test_frames_for_a_failed_rank_are_dropped),
        cmocka_unit_test(test_without_memory_it_goes_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
