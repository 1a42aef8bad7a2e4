/* head_test.c - heads survive encoding and decoding; bodies are assembled from fragments in any
 * order. */
#include "rpc/head.h"

#include <string.h>

#include "base/alloc.h"
#include "oom.h"
#include "unit.h"

static void test_heads_come_back_as_they_went(void **state)
{
    static const nx_rpc_call_head calls[] = {{0, 0}, {1, 2}, {UINT32_MAX, UINT16_MAX}, {77, 256}};
    static const nx_rpc_reply_head replies[] = {{NX_RPC_OK, 0},
                                                {NX_RPC_NO_HANDLER, 0},
                                                {NX_RPC_FAILED, NEXAR_EINVAL},
                                                {NX_RPC_FAILED, INT32_MAX},
                                                {NX_RPC_FAILED, INT32_MIN},
                                                {NX_RPC_REFUSED, NEXAR_ENOMEM}};
    uint8_t data[NX_RPC_HEAD];

    (void)state;
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        nx_rpc_call_head h;

        nx_rpc_call_encode(&calls[i], data);
        assert_true(nx_rpc_call_decode(data, &h));
        assert_true((h.comm == calls[i].comm) && (h.fn == calls[i].fn));
    }
    for (size_t i = 0; i < sizeof(replies) / sizeof(replies[0]); i++) {
        nx_rpc_reply_head h;

        nx_rpc_reply_encode(&replies[i], data);
        assert_true(nx_rpc_reply_decode(data, &h));
        assert_true((h.outcome == replies[i].outcome) && (h.code == replies[i].code));
    }
}

static void test_impossible_heads_are_refused(void **state)
{
    static const uint8_t calls[][NX_RPC_HEAD] = {{0, 0, 0, 0, 0, 1, 0, 1}, {0, 0, 0, 0, 0, 1, 9}};
    static const uint8_t replies[][NX_RPC_HEAD] = {
        {NX_RPC_OUTCOMES},
        {255},
        {NX_RPC_OK, 1},
        {NX_RPC_OK, 0, 0, 1},
        {NX_RPC_FAILED},
        {NX_RPC_REFUSED},
        {NX_RPC_OK, 0, 0, 0, 0, 0, 0, 1},
        {NX_RPC_NO_HANDLER, 0, 0, 0, 255, 255, 255, 255}};
    nx_rpc_call_head call;
    nx_rpc_reply_head reply;

    (void)state;
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        assert_false(nx_rpc_call_decode(calls[i], &call));
    }
    for (size_t i = 0; i < sizeof(replies) / sizeof(replies[0]); i++) {
        assert_false(nx_rpc_reply_decode(replies[i], &reply));
    }
}

/* Two parts, each in fragments of |step| bytes, the second one first. */
static void put_in_parts(nx_rpc_body *b, const uint8_t *data, size_t total, size_t cut, size_t step)
{
    for (int part = 1; part >= 0; part--) {
        size_t from = (part == 0) ? 0 : cut, to = (part == 0) ? cut : total;

        for (size_t at = from; at < to; at += step) {
            nx_rpc_body_put(b, at, data + at, (step < to - at) ? step : to - at);
        }
    }
}

static void test_bodies_are_put_together_from_any_fragments(void **state)
{
    uint8_t data[64];

    (void)state;
    for (size_t i = 0; i < sizeof(data); i++) {
        data[i] = (uint8_t)(i * 7 + 1);
    }
    for (size_t total = NX_RPC_HEAD; total <= sizeof(data); total++) {
        for (size_t cut = 0; cut <= total; cut++) {
            for (size_t step = 1; step <= total; step += 1 + total / 9) {
                nx_rpc_body b = {0};

                nx_rpc_body_begin(&b, total, false);
                put_in_parts(&b, data, total, cut, step);
                assert_true(b.begun && !b.headless && !b.nomem && (b.data != NULL));
                assert_int_equal(b.len, total - NX_RPC_HEAD);
                assert_memory_equal(b.head, data, NX_RPC_HEAD);
                assert_memory_equal(b.data, data + NX_RPC_HEAD, (size_t)b.len);
                nx_rpc_body_drop(&b);
                put_in_parts(&b, data, total, cut, step); /* later fragments are dropped */
                assert_null(b.data);
            }
        }
    }
}

static void test_what_is_shorter_than_a_head_is_noticed(void **state)
{
    (void)state;
    for (size_t total = 0; total < NX_RPC_HEAD; total++) {
        nx_rpc_body b = {0};

        nx_rpc_body_begin(&b, total, false);
        nx_rpc_body_put(&b, 0, "1234567", total);
        assert_true(b.headless && (b.data == NULL));
    }
}

static void test_without_memory_bytes_are_dropped_but_the_head_is_read(void **state)
{
    uint8_t data[16] = {1, 2, 3};

    (void)state;
    NXT_FOR_EACH_OOM (n) {
        nx_rpc_body b = {0};

        nx_rpc_body_begin(&b, sizeof(data), false);
        nx_rpc_body_put(&b, 0, data, sizeof(data));
        assert_true((b.data == NULL) == nx_alloc_failed());
        assert_true(b.nomem == nx_alloc_failed());
        assert_memory_equal(b.head, data, NX_RPC_HEAD);
        nx_rpc_body_drop(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_heads_come_back_as_they_went),
        cmocka_unit_test(test_impossible_heads_are_refused),
        cmocka_unit_test(test_bodies_are_put_together_from_any_fragments),
        cmocka_unit_test(test_what_is_shorter_than_a_head_is_noticed),
        cmocka_unit_test(test_without_memory_bytes_are_dropped_but_the_head_is_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
