/* conformance_press.c - a receiver that does not keep up: memory, order and control. */
#include "conformance_press.h"

#include <stdio.h>
#include <unistd.h>

#include "conformance_kit.h"
#include "unit.h"

#define MIB (UINT64_C(1) << 20)

enum {
    PART_MIB = 8,   /* long enough that the kit sends it from shared memory */
    MOST_MIB = 32,  /* limit for windows and buffers of both ends: several times their size */
    FEW = 8,        /* parts */
    MANY = 32,      /* parts for the other links */
    STILL = 500,    /* iterations after which nothing moves any more */
    EVERY = 256,    /* iterations between two measurements of memory */
    STATM_ROOM = 64 /* bytes read from /proc/self/statm */
};

/* The resident memory of both ends and the test. */
static uint64_t resident(void)
{
    char text[STATM_ROOM] = "";
    unsigned long long pages = 0;
    FILE *f = fopen("/proc/self/statm", "re");

    assert_non_null(f);
    assert_non_null(fgets(text, sizeof(text), f));
    (void)fclose(f);
    assert_int_equal(sscanf(text, "%*s %llu", &pages), 1); /* NOLINT(cert-err34-c) */
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static uint64_t before; /* the test began */

/* Asserts that memory has grown by less than the queued bytes. */
static void assert_bounded(void)
{
    const uint64_t now = resident();

    assert_true((now < before) || (now - before < MOST_MIB * MIB));
}

static bool all_settled_in_bounds(nxt_rig *rig)
{
    static unsigned turns;

    if (++turns % EVERY == 0) {
        assert_bounded();
    }
    return nxt_all_settled(rig);
}

static void note_bytes(nxt_end *end, nx_lane lane)
{
    if (lane == NX_LANE_CONTROL) {
        end->note = end->bytes_got;
    }
}

/* Each end bounds its own memory, and the data queued last is not lost. */
void nxt_test_a_receiver_that_stands_still_holds_the_sender_back(void **state)
{
    const nxt_transport_harness *harness = *state;
    const uint64_t parts = harness->huge ? MANY : FEW;
    size_t sent;
    nxt_rig rig;
    nxt_end *from, *to;

    nxt_rig_begin(&rig, harness, 1, false);
    from = &rig.ends[0];
    to = &rig.ends[1];
    nxt_send_frames(from, NX_LANE_CONTROL, 1);
    nxt_send_frames(to, NX_LANE_CONTROL, 1);
    (void)nxt_send(from, MIB); /* initial allocations are done */
    nxt_rig_until(&rig, nxt_all_settled);
    before = resident();
    to->bytes_got = 0;
    to->then_frame = note_bytes;

    harness->hold(rig.world, to->link, true);
    for (uint64_t i = 0; i < parts; i++) {
        (void)nxt_send(from, PART_MIB * MIB);
    }
    nxt_rig_let(&rig, STILL);
    sent = from->parcels_done;
    assert_true((sent - 1) * PART_MIB <= MOST_MIB);
    nxt_send_frames(from, NX_LANE_CONTROL, 1);
    nxt_rig_let(&rig, STILL / 5);
    assert_int_equal(from->parcels_done, sent);
    assert_int_equal(to->bytes_got, 0);
    assert_int_equal(to->frames_got[NX_LANE_CONTROL], 1);
    assert_bounded();

    harness->hold(rig.world, to->link, false);
    nxt_rig_until(&rig, all_settled_in_bounds);
    assert_true(to->note <= MOST_MIB * MIB); /* control frames have overtaken the others */
    assert_bounded();
    nxt_rig_end(&rig);
}
