/* conformance.c - the suite: everything sent arrives complete and in the specified order. */
#include "conformance.h"

#include "conformance_ends.h"
#include "conformance_kit.h"
#include "conformance_press.h"
#include "unit.h"

#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)

/* ---- frames ------------------------------------------------------------------- */

static void test_frames_arrive_in_order_within_their_lane(void **state)
{
    nxt_rig rig;

    nxt_rig_begin(&rig, *state, 1, false);
    for (int i = 0; i < 1000; i++) {
        nxt_send_frames(&rig.ends[nxt_chance(&rig, 2)], (nx_lane)nxt_chance(&rig, NX_LANES), 1);
    }
    nxt_rig_until(&rig, nxt_all_settled);
    nxt_rig_end(&rig);
}

static void test_frames_may_be_as_long_as_the_contract_says(void **state)
{
    nxt_rig rig;

    nxt_rig_begin(&rig, *state, 1, false);
    rig.ends[0].frame_most = NX_FRAME_MAX;
    nxt_send_frames(&rig.ends[0], NX_LANE_MESSAGE, 100);
    nxt_send_frames(&rig.ends[0], NX_LANE_CONTROL, 10);
    rig.ends[1].frame_most = 0; /* also empty ones */
    nxt_send_frames(&rig.ends[1], NX_LANE_MESSAGE, 10);
    nxt_rig_until(&rig, nxt_all_settled);
    nxt_rig_end(&rig);
}

static void test_what_is_sent_before_the_link_is_up_arrives_after(void **state)
{
    nxt_rig rig;

    nxt_rig_begin(&rig, *state, 1, true);
    nxt_send_frames(&rig.ends[0], NX_LANE_MESSAGE, 20);
    nxt_send_frames(&rig.ends[0], NX_LANE_CONTROL, 20);
    (void)nxt_send(&rig.ends[0], 100 * KIB);
    (void)nxt_send(&rig.ends[0], 0);
    nxt_rig_until(&rig, nxt_all_settled);
    assert_int_equal(rig.ends[0].ups, 1);
    nxt_rig_end(&rig);
}

/* ---- control overtakes --------------------------------------------------------- */

static void note_bytes(nxt_end *end, nx_lane lane)
{
    if (lane == NX_LANE_CONTROL) {
        end->note = end->bytes_got;
    }
}

static bool some_data_has_come(nxt_rig *rig)
{
    return rig->ends[1].bytes_got > 0;
}

static void test_control_overtakes_what_was_queued_before(void **state)
{
    enum { PARTS = 16 };
    nxt_rig rig;

    nxt_rig_begin(&rig, *state, 1, false);
    rig.ends[1].then_frame = note_bytes;
    for (int i = 0; i < PARTS; i++) {
        (void)nxt_send(&rig.ends[0], 2 * MIB);
    }
    nxt_rig_until(&rig, some_data_has_come);
    nxt_send_frames(&rig.ends[0], NX_LANE_CONTROL, 1);
    nxt_rig_until(&rig, nxt_all_settled);
    assert_true(rig.ends[1].note < PARTS * 2 * MIB / 2);
    nxt_rig_end(&rig);
}

static void note_messages(nxt_end *end, nx_lane lane)
{
    if (lane == NX_LANE_CONTROL) {
        end->note = end->frames_got[NX_LANE_MESSAGE];
    }
}

static bool a_message_frame_has_come(nxt_rig *rig)
{
    return rig->ends[1].frames_got[NX_LANE_MESSAGE] > 0;
}

static void test_control_overtakes_the_message_lane(void **state)
{
    nxt_rig rig;

    nxt_rig_begin(&rig, *state, 1, false);
    rig.ends[0].frame_most = NX_FRAME_MAX;
    rig.ends[1].then_frame = note_messages;
    nxt_send_frames(&rig.ends[0], NX_LANE_MESSAGE, 1000);
    nxt_rig_until(&rig, a_message_frame_has_come);
    nxt_send_frames(&rig.ends[0], NX_LANE_CONTROL, 1);
    nxt_rig_until(&rig, nxt_all_settled);
    assert_true(rig.ends[1].note < 900);
    nxt_rig_end(&rig);
}

/* ---- parts --------------------------------------------------------------------- */

static void test_parts_of_every_size_arrive_whole(void **state)
{
    static const uint64_t sizes[] = {0,     1,     2,     3,       63,      64,          65,
                                     1199,  1200,  1452,  4095,    4096,    16383,       16384,
                                     16385, 65535, 65536, 65537,   MIB - 1, MIB,         MIB + 1,
                                     0,     7,     16777, 3 * MIB, 0,       16 * MIB + 3};
    nxt_rig rig;

    nxt_rig_begin(&rig, *state, 1, false);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        (void)nxt_send(&rig.ends[i % 2], sizes[i]);
        if (i % 5 == 4) { /* alone, and with other parts */
            nxt_rig_until(&rig, nxt_all_settled);
        }
    }
    nxt_rig_until(&rig, nxt_all_settled);
    for (size_t i = 0; i < rig.ends[0].nparcels; i++) {
        assert_int_equal(rig.ends[0].parcels[i]->err, NEXAR_OK);
    }
    nxt_rig_end(&rig);
}

static void test_a_part_of_a_gibibyte_arrives_whole(void **state)
{
    const nxt_transport_harness *harness = *state;
    nxt_rig rig;

    if (!harness->huge) {
        skip();
    }
    nxt_rig_begin(&rig, harness, 1, false);
    (void)nxt_send(&rig.ends[0], (uint64_t)1 << 30);
    nxt_rig_until(&rig, nxt_all_settled);
    nxt_rig_end(&rig);
}

static void test_scattered_memory_arrives_as_one_part(void **state)
{
    nexar_err err;
    nxt_rig rig;

    nxt_rig_begin(&rig, *state, 1, false);
    for (size_t i = 0; i < 50; i++) {
        uint64_t len = nxt_chance(&rig, (i % 5 == 0) ? MIB : 2000);

        (void)nxt_send_part(&rig.ends[0], NXT_NEW, 0, len, 1 + nxt_chance(&rig, 100), &err);
        assert_int_equal(err, NEXAR_OK);
    }
    nxt_rig_until(&rig, nxt_all_settled);
    nxt_rig_end(&rig);
}

/* Offsets of 64 bits, parts in any order, gaps between them. */
static void test_a_message_may_come_in_parts_at_any_offset(void **state)
{
    static const uint64_t offs[] = {5000000000, 0, (uint64_t)1 << 40, 100000, 4294967290};
    nexar_err err;
    nxt_rig rig;

    nxt_rig_begin(&rig, *state, 1, false);
    for (int message = 0; message < 20; message++) {
        uint64_t id = NXT_NEW;

        for (size_t i = 0; i < sizeof(offs) / sizeof(offs[0]); i++) {
            uint64_t len = 1 + nxt_chance(&rig, 99999);
            nxt_parcel *p = nxt_send_part(&rig.ends[0], id, offs[i], len, 2, &err);

            assert_int_equal(err, NEXAR_OK);
            id = p->tx.id;
        }
    }
    nxt_rig_until(&rig, nxt_all_settled);
    nxt_rig_end(&rig);
}

static bool the_second_part_is_there(nxt_rig *rig)
{
    return rig->ends[0].parcels[1]->got == rig->ends[0].parcels[1]->tx.len;
}

static void test_a_short_part_does_not_wait_for_a_long_one(void **state)
{
    nxt_rig rig;

    nxt_rig_begin(&rig, *state, 1, false);
    (void)nxt_send(&rig.ends[0], 32 * MIB);
    nxt_rig_until(&rig, some_data_has_come);
    (void)nxt_send(&rig.ends[0], 4 * KIB);
    nxt_rig_until(&rig, the_second_part_is_there);
    assert_true(rig.ends[0].parcels[0]->got < 32 * MIB);
    nxt_rig_until(&rig, nxt_all_settled);
    nxt_rig_end(&rig);
}

static void test_thousands_of_parts_at_once_in_both_directions(void **state)
{
    nxt_rig rig;

    nxt_rig_begin(&rig, *state, 1, false);
    for (int i = 0; i < 6000; i++) {
        nxt_end *end = &rig.ends[i % 2];

        (void)nxt_send(end, nxt_chance(&rig, (i % 100 == 0) ? 300000 : 3000));
        if (i % 10 == 0) {
            nxt_send_frames(end, NX_LANE_MESSAGE, 1);
        }
    }
    nxt_rig_until(&rig, nxt_all_settled);
    nxt_rig_end(&rig);
}

static void test_many_links_do_not_meet(void **state)
{
    const nxt_transport_harness *harness = *state;
    nxt_rig rig;

    nxt_rig_begin(&rig, harness, (harness->links == 0) ? 20 : harness->links, false);
    for (int round = 0; round < 10; round++) {
        for (size_t i = 0; i < rig.n; i++) {
            nxt_send_frames(&rig.ends[i], (nx_lane)nxt_chance(&rig, NX_LANES), 1);
            (void)nxt_send(&rig.ends[i], nxt_chance(&rig, 30000));
        }
    }
    nxt_rig_until(&rig, nxt_all_settled);
    nxt_rig_end(&rig);
}

/* ---- inside calls up ------------------------------------------------------------ */

static void answer(nxt_end *end, nx_lane lane)
{
    if (end->frames_sent[lane] < 500) {
        nxt_send_frames(end, lane, 1);
    }
}

static void send_another(nxt_end *end, nxt_parcel *parcel)
{
    (void)parcel;
    if (end->nparcels < 500) {
        (void)nxt_send(end, nxt_chance(end->rig, 5000));
    }
}

static bool all_is_said(nxt_rig *rig)
{
    return nxt_all_settled(rig) && (rig->ends[0].nparcels == 500) &&
           (rig->ends[0].frames_got[NX_LANE_CONTROL] == 500);
}

static void test_calls_up_may_send(void **state)
{
    nxt_rig rig;

    nxt_rig_begin(&rig, *state, 1, false);
    for (int i = 0; i < 2; i++) {
        rig.ends[i].then_frame = answer;
        rig.ends[i].then_sent = send_another;
    }
    nxt_send_frames(&rig.ends[0], NX_LANE_MESSAGE, 1);
    nxt_send_frames(&rig.ends[1], NX_LANE_CONTROL, 1);
    (void)nxt_send(&rig.ends[0], 1);
    nxt_rig_until(&rig, all_is_said);
    nxt_rig_end(&rig);
}

static void test_a_link_tells_about_itself(void **state)
{
    nx_link_info info;
    nxt_rig rig;

    nxt_rig_begin(&rig, *state, 1, false);
    (void)nxt_send(&rig.ends[0], MIB);
    nxt_rig_until(&rig, nxt_all_settled);
    rig.ends[0].link->ops->info(rig.ends[0].link, &info);
    assert_true(info.bytes_sent >= MIB);
    assert_true((info.local[0] != '\0') && (info.remote[0] != '\0'));
    rig.ends[1].link->ops->info(rig.ends[1].link, &info);
    assert_true(info.bytes_received >= MIB);
    nxt_rig_end(&rig);
}

int nxt_transport_conformance(const nxt_transport_harness *harness)
{
    nxt_transport_harness shared = *harness; /* cmocka accepts no const */
    struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frames_arrive_in_order_within_their_lane),
        cmocka_unit_test(test_frames_may_be_as_long_as_the_contract_says),
        cmocka_unit_test(test_what_is_sent_before_the_link_is_up_arrives_after),
        cmocka_unit_test(test_control_overtakes_what_was_queued_before),
        cmocka_unit_test(test_control_overtakes_the_message_lane),
        cmocka_unit_test(test_parts_of_every_size_arrive_whole),
        cmocka_unit_test(test_a_part_of_a_gibibyte_arrives_whole),
        cmocka_unit_test(test_scattered_memory_arrives_as_one_part),
        cmocka_unit_test(test_a_message_may_come_in_parts_at_any_offset),
        cmocka_unit_test(test_a_short_part_does_not_wait_for_a_long_one),
        cmocka_unit_test(test_thousands_of_parts_at_once_in_both_directions),
        cmocka_unit_test(test_many_links_do_not_meet),
        cmocka_unit_test(test_calls_up_may_send),
        cmocka_unit_test(test_a_link_tells_about_itself),
        cmocka_unit_test(nxt_test_a_receiver_that_stands_still_holds_the_sender_back),
        cmocka_unit_test(nxt_test_cancelled_parts_are_told_of_and_leave_the_others_alone),
        cmocka_unit_test(nxt_test_close_with_drain_delivers_everything),
        cmocka_unit_test(nxt_test_close_without_drain_gives_every_part_back),
        cmocka_unit_test(nxt_test_a_dismissed_end_gets_the_last_frame_whatever_was_queued),
        cmocka_unit_test(nxt_test_both_ends_can_close_at_once),
        cmocka_unit_test(nxt_test_a_link_can_be_closed_before_it_is_up),
        cmocka_unit_test(nxt_test_a_link_can_be_closed_inside_a_call_up),
        cmocka_unit_test(nxt_test_a_peer_that_dies_is_noticed_once),
        cmocka_unit_test(nxt_test_a_link_that_is_down_refuses_and_says_why),
        cmocka_unit_test(nxt_test_a_failed_allocation_is_told_or_ends_the_link),
    };

    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
        tests[i].initial_state = &shared;
    }
    return cmocka_run_group_tests_name(harness->name, tests, NULL, NULL);
}
