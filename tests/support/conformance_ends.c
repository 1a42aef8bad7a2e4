/* conformance_ends.c - cancelling, closing, dying, running out of memory. */
#include "conformance_ends.h"

#include "base/alloc.h"
#include "conformance_kit.h"
#include "unit.h"

#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)

static bool some_data_has_come(nxt_rig *rig)
{
    return rig->ends[1].bytes_got > 0;
}

static bool both_are_down(nxt_rig *rig)
{
    for (size_t i = 0; i < rig->n; i++) {
        const nxt_end *end = &rig->ends[i];

        if (!end->closed && !end->dead && (end->downs == 0)) {
            return false;
        }
    }
    return nxt_all_told(rig);
}

/* ---- cancelling ------------------------------------------------------------------ */

void nxt_test_cancelled_parts_are_told_of_and_leave_the_others_alone(void **state)
{
    enum { PARTS = 60 };
    nxt_parcel *parcels[PARTS];
    nxt_rig rig;

    nxt_rig_begin(&rig, *state, 1, false);
    for (int i = 0; i < PARTS; i++) {
        parcels[i] = nxt_send(&rig.ends[0], (i % 7 == 0) ? 0 : MIB);
    }
    for (int i = 0; i < PARTS; i += 3) {
        nxt_cancel(parcels[i]); /* the first may have begun, the last has not */
    }
    nxt_rig_until(&rig, some_data_has_come);
    for (int i = 1; i < PARTS; i += 3) {
        if (parcels[i]->sents == 0) {
            nxt_cancel(parcels[i]);
        }
    }
    nxt_rig_until(&rig, nxt_all_settled);
    for (int i = 0; i < PARTS; i++) {
        assert_int_equal(parcels[i]->sents, 1);
        assert_true((parcels[i]->err == NEXAR_OK) ||
                    (parcels[i]->cancelled && (parcels[i]->err == NEXAR_ECANCELED)));
    }
    (void)nxt_send(&rig.ends[0], 3 * MIB);
    (void)nxt_send(&rig.ends[1], 3 * MIB);
    nxt_send_frames(&rig.ends[0], NX_LANE_MESSAGE, 3);
    nxt_rig_until(&rig, nxt_all_settled);
    nxt_rig_end(&rig);
}

/* ---- closing --------------------------------------------------------------------- */

static void load(nxt_rig *rig, nxt_end *end)
{
    for (int i = 0; i < 8; i++) {
        nxt_send_frames(end, NX_LANE_MESSAGE, 10);
        nxt_send_frames(end, NX_LANE_CONTROL, 1);
        (void)nxt_send(end, nxt_chance(rig, 2 * MIB));
    }
}

void nxt_test_close_with_drain_delivers_everything(void **state)
{
    for (int early = 0; early < 2; early++) {
        nxt_rig rig;

        nxt_rig_begin(&rig, *state, 1, early == 1);
        load(&rig, &rig.ends[0]);
        nxt_close(&rig.ends[0], true);
        nxt_rig_until(&rig, both_are_down);
        assert_true(nxt_all_arrived(&rig));
        for (size_t i = 0; i < rig.ends[0].nparcels; i++) {
            assert_int_equal(rig.ends[0].parcels[i]->err, NEXAR_OK);
        }
        assert_int_equal(rig.ends[1].downs, 1);
        nxt_rig_end(&rig);
    }
}

void nxt_test_close_without_drain_gives_every_part_back(void **state)
{
    for (int begun = 0; begun < 2; begun++) {
        nxt_rig rig;

        nxt_rig_begin(&rig, *state, 1, false);
        load(&rig, &rig.ends[0]);
        load(&rig, &rig.ends[1]);
        if (begun == 1) {
            nxt_rig_until(&rig, some_data_has_come);
        }
        nxt_close(&rig.ends[0], false);
        nxt_rig_until(&rig, both_are_down);
        assert_int_equal(rig.ends[1].downs, 1);
        nxt_rig_end(&rig);
    }
}

void nxt_test_a_dismissed_end_gets_the_last_frame_whatever_was_queued(void **state)
{
    for (int begun = 0; begun < 3; begun++) {
        nxt_rig rig;

        nxt_rig_begin(&rig, *state, 1, false);
        if (begun > 0) {
            load(&rig, &rig.ends[0]);
            load(&rig, &rig.ends[1]);
            nxt_send_frames(&rig.ends[0], NX_LANE_CONTROL, 2000); /* more than a ring holds */
        }
        if (begun > 1) {
            nxt_rig_until(&rig, some_data_has_come);
        }
        nxt_dismiss(&rig.ends[0]);
        nxt_rig_until(&rig, both_are_down);
        assert_int_equal(rig.ends[1].lasts, 1);
        assert_int_equal(rig.ends[1].downs, 1);
        nxt_rig_end(&rig);
    }
}

void nxt_test_both_ends_can_close_at_once(void **state)
{
    for (int drain = 0; drain < 4; drain++) {
        nxt_rig rig;

        nxt_rig_begin(&rig, *state, 1, false);
        load(&rig, &rig.ends[0]);
        load(&rig, &rig.ends[1]);
        nxt_rig_until(&rig, some_data_has_come);
        nxt_close(&rig.ends[0], (drain & 1) != 0);
        nxt_close(&rig.ends[1], (drain & 2) != 0);
        nxt_rig_until(&rig, nxt_all_told);
        nxt_rig_end(&rig);
    }
}

void nxt_test_a_link_can_be_closed_before_it_is_up(void **state)
{
    nxt_rig rig;

    nxt_rig_begin(&rig, *state, 1, true);
    load(&rig, &rig.ends[0]);
    nxt_close(&rig.ends[0], false);
    nxt_rig_until(&rig, nxt_all_told);
    nxt_rig_end(&rig);
}

static void close_on_third(nxt_end *end, nx_lane lane)
{
    (void)lane;
    if (end->frames_got[NX_LANE_MESSAGE] == 3) {
        nxt_close(end, end->note == 1);
    }
}

static void close_when_sent(nxt_end *end, nxt_parcel *parcel)
{
    (void)parcel;
    if (!end->closed) {
        nxt_close(end, end->note == 1);
    }
}

static void close_when_down(nxt_end *end)
{
    nxt_close(end, end->note == 1);
}

void nxt_test_a_link_can_be_closed_inside_a_call_up(void **state)
{
    for (uint64_t way = 0; way < 4; way++) {
        nxt_rig rig;

        nxt_rig_begin(&rig, *state, 1, false);
        rig.ends[1].then_frame = (way < 2) ? close_on_third : NULL;
        rig.ends[1].then_sent = (way >= 2) ? close_when_sent : NULL;
        rig.ends[0].then_down = close_when_down;
        rig.ends[0].note = rig.ends[1].note = way % 2;
        load(&rig, &rig.ends[0]);
        load(&rig, &rig.ends[1]);
        nxt_rig_until(&rig, both_are_down);
        assert_int_equal(rig.ends[0].downs, 1);
        nxt_rig_end(&rig);
    }
}

/* ---- failures --------------------------------------------------------------------- */

static bool the_first_is_down(nxt_rig *rig)
{
    return rig->ends[0].downs > 0;
}

void nxt_test_a_peer_that_dies_is_noticed_once(void **state)
{
    for (int way = 0; way < 3; way++) {
        nxt_rig rig;

        nxt_rig_begin(&rig, *state, 2, false);
        if (way > 0) {
            load(&rig, &rig.ends[0]);
            load(&rig, &rig.ends[1]);
        }
        if (way == 2) {
            nxt_rig_until(&rig, some_data_has_come);
        }
        nxt_kill(&rig.ends[1]);
        nxt_rig_until(&rig, the_first_is_down);
        /* The other link is unaffected. */
        assert_int_equal(rig.ends[2].downs + rig.ends[3].downs, 0);
        nxt_send_frames(&rig.ends[2], NX_LANE_MESSAGE, 1);
        (void)nxt_send(&rig.ends[3], MIB);
        nxt_rig_until(&rig, nxt_all_told);
        nxt_rig_end(&rig);
    }
}

void nxt_test_a_link_that_is_down_refuses_and_says_why(void **state)
{
    nexar_err err;
    nxt_rig rig;

    nxt_rig_begin(&rig, *state, 1, false);
    nxt_kill(&rig.ends[1]);
    nxt_rig_until(&rig, both_are_down);
    assert_int_equal(nxt_send_frame(&rig.ends[0], NX_LANE_MESSAGE), rig.ends[0].down_err);
    assert_int_equal(nxt_send_frame(&rig.ends[0], NX_LANE_CONTROL), rig.ends[0].down_err);
    assert_true(nxt_send_part(&rig.ends[0], NXT_NEW, 0, 10, 1, &err) == NULL);
    assert_int_equal(err, rig.ends[0].down_err);
    nxt_close(&rig.ends[0], true);
    nxt_rig_end(&rig);
}

/* ---- running out of memory ----------------------------------------------------------- */

static bool settled_or_down(nxt_rig *rig)
{
    return (rig->ends[0].downs > 0) || (rig->ends[1].downs > 0) || nxt_all_settled(rig);
}

/* Sends frames and parts of all kinds; rejections are allowed. */
static void try_everything(nxt_rig *rig)
{
    nexar_err err;

    for (int i = 0; i < 4; i++) {
        err = nxt_send_frame(&rig->ends[0], (nx_lane)(i % NX_LANES));
        assert_true((err == NEXAR_OK) || (err == NEXAR_ENOMEM));
        (void)nxt_send_part(&rig->ends[0], NXT_NEW, 0, (uint64_t)i * 20 * KIB, 2, &err);
        assert_true((err == NEXAR_OK) || (err == NEXAR_ENOMEM));
    }
}

static bool run_short_of_memory(const nxt_transport_harness *harness, long n)
{
    bool failed;
    nxt_rig rig;

    nxt_rig_prepare(&rig, harness, 1);
    nx_alloc_fail_after(n);
    if (nxt_rig_dial(&rig, 0) == NEXAR_OK) {
        try_everything(&rig);
        nxt_rig_until(&rig, settled_or_down);
    } else {
        rig.ends[0].link = NULL;
        assert_true(nx_alloc_failed());
    }
    if (rig.ends[0].downs + rig.ends[1].downs > 0) {
        assert_true(nx_alloc_failed());
    }
    failed = nx_alloc_failed();
    nx_alloc_fail_after(-1);
    nxt_rig_end(&rig);
    return failed;
}

void nxt_test_a_failed_allocation_is_told_or_ends_the_link(void **state)
{
    const nxt_transport_harness *harness = *state;

    for (long n = 0; (harness->oom_most == 0) || (n < harness->oom_most); n++) {
        if (!run_short_of_memory(harness, n)) {
            return; /* fewer allocations than |n| */
        }
    }
}
