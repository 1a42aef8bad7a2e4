/* oplog_test.c - the ring of completed operations, and their texts. */
#include "core/report/oplog.h"

#include <string.h>

#include "cluster/comm_id.h"
#include "unit.h"

static nx_what barrier(uint32_t comm, uint32_t number)
{
    const nx_coll_call call = {.coll = {.kind = NX_BARRIER, .size = 2}, .dtype = NEXAR_U8};
    const nx_choice choice = nx_select(NULL, &call.coll, 1, 1, 4096);

    return (nx_what){.comm = comm, .number = number, .mark = nx_call_mark(&call, &choice, true)};
}

static void test_the_ring_keeps_the_last(void **state)
{
    nx_oplog log = {0};

    (void)state;
    nx_oplog_init(&log);
    assert_null(nx_oplog_at(&log, 0));
    assert_null(nx_oplog_last(&log, 0));
    for (uint32_t i = 1; i <= 3 * NX_OPLOG_ENTRIES + 5; i++) {
        const nx_what w = barrier(i % 2, i);

        nx_oplog_ended(&log, &w, i, i + 1, NEXAR_OK);
        assert_int_equal(nx_oplog_at(&log, 0)->what.number, i);
        assert_int_equal(nx_oplog_last(&log, i % 2)->what.number, i);
        if (i > 1) {
            assert_int_equal(nx_oplog_last(&log, (i + 1) % 2)->what.number, i - 1);
        }
    }
    assert_non_null(nx_oplog_at(&log, NX_OPLOG_ENTRIES - 1));
    assert_null(nx_oplog_at(&log, NX_OPLOG_ENTRIES));
    /* A communicator without operations: the last operation of any. */
    assert_ptr_equal(nx_oplog_last(&log, 77), nx_oplog_at(&log, 0));
}

static void test_calls_are_entered_when_they_took_long(void **state)
{
    nx_blocked a = {.what = {.kind = NX_WHAT_RECV, .name = "recv", .peer = 1}}, b = a;
    nx_oplog log = {0};

    (void)state;
    nx_oplog_init(&log);
    nx_oplog_block(&log, &a, 1000);
    nx_oplog_block(&log, &b, 2000);
    assert_int_equal(log.waiting, 2);
    nx_oplog_unblock(&log, &a, 1000 + NX_OPLOG_WORTH_NS - 1, NEXAR_OK);
    assert_null(nx_oplog_at(&log, 0));
    assert_ptr_equal(log.blocked.next, &b.link);
    nx_oplog_unblock(&log, &b, 2000 + NX_OPLOG_WORTH_NS, NEXAR_EPEER);
    assert_int_equal(nx_oplog_at(&log, 0)->err, NEXAR_EPEER);
    assert_int_equal(log.waiting, 0);
    assert_true(nx_list_empty(&log.blocked));
}

static void test_texts(void **state)
{
    char buf[NX_WHAT_TEXT];
    nx_what w = barrier(0, 6);

    (void)state;
    assert_string_equal(nx_what_text(&w, buf), "#6 barrier");
    w.comm = nx_comm_id_make(3, 2);
    assert_string_equal(nx_what_text(&w, buf), "#6 barrier of communicator 3.2");
    w = (nx_what){.kind = NX_WHAT_RECV, .name = "recv", .peer = NX_ANY_PEER, .tag = NX_ANY_TAG};
    assert_string_equal(nx_what_text(&w, buf), "recv(from any rank, any tag)");
    w = (nx_what){.kind = NX_WHAT_SEND, .name = "send", .peer = 1, .tag = 7};
    assert_string_equal(nx_what_text(&w, buf), "send(to rank 1, tag 7)");
    w = (nx_what){.kind = NX_WHAT_RPC, .name = "rpc_call", .peer = 1, .tag = 9};
    assert_string_equal(nx_what_text(&w, buf), "rpc_call(to rank 1, function 9)");
    w = (nx_what){.kind = NX_WHAT_OTHER, .name = "finalize"};
    assert_string_equal(nx_what_text(&w, buf), "finalize");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_ring_keeps_the_last),
        cmocka_unit_test(test_calls_are_entered_when_they_took_long),
        cmocka_unit_test(test_texts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
