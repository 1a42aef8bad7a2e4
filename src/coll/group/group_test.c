/*
 * group_test.c - runs of a group that end while others of it fail, and reserved numbers. The other
 * rank is a link that accepts everything and never answers.
 */
#include "coll/group/group.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "coll/run/run.h"
#include "msg/control.h"
#include "unit.h"
#include "wire/wire.h"

enum { SIZE = 2, COMM = 5, RUNS = 4, COUNT = 30000, ROOM = 64 };

typedef struct rig {
    nx_clock_manual clock;
    nx_loop *loop;
    nx_msg *msg;
    nx_early *early;
    nx_registry *hub;
    nx_group group;
    nx_link link;
    bool broken; /* the link has no memory for sends */
    nx_tx *held[ROOM];
    size_t nheld;
    unsigned ended;
    nexar_err errs[RUNS]; /* in the order of their ends */
    float send[COUNT * SIZE], recv[COUNT * SIZE];
} rig;

/* ---- the link ------------------------------------------------------------------------ */

static rig *rig_of(nx_link *link)
{
    return (rig *)(void *)((char *)link - offsetof(rig, link));
}

static nexar_err send_frame(nx_link *link, nx_lane lane, const nx_bytes *bytes, size_t n)
{
    (void)lane;
    (void)bytes;
    (void)n;
    return rig_of(link)->broken ? NEXAR_ENOMEM : NEXAR_OK;
}

static nexar_err send_part(nx_link *link, nx_tx *tx)
{
    rig *r = rig_of(link);

    assert_true(r->nheld < ROOM);
    r->held[r->nheld++] = tx;
    return NEXAR_OK;
}

static void cancel_part(nx_link *link, nx_tx *tx)
{
    (void)link;
    (void)tx; /* on_sent arrives with the others */
}

static void close_link(nx_link *link, bool drain)
{
    (void)link;
    (void)drain;
}

static void info(const nx_link *link, nx_link_info *out)
{
    (void)link;
    (void)out;
}

static const nx_link_ops ops = {.name = "silent",
                                .send_frame = send_frame,
                                .send_part = send_part,
                                .cancel_part = cancel_part,
                                .close = close_link,
                                .info = info};

static nexar_err connect_peer(void *ctx, uint32_t peer, const nx_link_up *up, void *up_ctx,
                              nx_link **link)
{
    rig *r = ctx;

    (void)peer;
    r->link = (nx_link){.ops = &ops, .up = up, .up_ctx = up_ctx};
    *link = &r->link;
    return NEXAR_OK;
}

static void give_back(rig *r)
{
    while (r->nheld > 0) {
        r->link.up->on_sent(r->link.up_ctx, &r->link, r->held[--r->nheld], NEXAR_EPEER);
    }
}

/* ---- the group ----------------------------------------------------------------------- */

static nx_verdict on_mark(void *ctx, uint32_t peer, nx_context context, uint64_t tag,
                          const nx_mark *mark)
{
    return nx_registry_on_mark(((rig *)ctx)->hub, peer, context, tag, mark);
}

static const char *peer_text(void *ctx, uint32_t peer, char *buf)
{
    (void)ctx;
    (void)peer;
    (void)snprintf(buf, NX_REGISTRY_TEXT, "rank 1");
    return buf;
}

static void make(rig *r)
{
    nx_msg_config mc = {.peers = SIZE,
                        .inline_max = 32,
                        .eager_max = 48,
                        .connect = connect_peer,
                        .on_mark = on_mark,
                        .ctx = r};
    nx_registry_config hc = {.verify = true, .peer_text = peer_text, .ctx = r};

    memset(r, 0, sizeof(*r));
    nx_log_set_level(NX_LOG_ERROR);
    nx_clock_manual_init(&r->clock, 1);
    assert_int_equal(nx_loop_create(&r->loop, &r->clock.clock), NEXAR_OK);
    nx_loop_lock(r->loop);
    mc.loop = hc.loop = r->loop;
    assert_int_equal(nx_msg_create(&r->msg, &mc), NEXAR_OK);
    assert_int_equal(nx_early_create(&r->early), NEXAR_OK);
    hc.msg = r->msg;
    hc.early = r->early;
    assert_int_equal(nx_registry_create(&r->hub, &hc), NEXAR_OK);
    r->group = (nx_group){.hub = r->hub, .comm = COMM, .size = SIZE};
    assert_int_equal(nx_group_open(&r->group), NEXAR_OK);
}

static void unmake(rig *r)
{
    nx_registry_stop(r->hub, NEXAR_ECANCELED, "the end");
    nx_msg_destroy(r->msg);
    give_back(r);
    nx_loop_kick(r->loop);
    nx_group_close(&r->group);
    nx_registry_destroy(r->hub);
    nx_early_destroy(r->early);
    nx_loop_unlock(r->loop);
    nx_loop_destroy(r->loop);
}

static void on_done(nx_run *run)
{
    rig *r = run->owner;

    r->errs[r->ended++] = run->err;
    nx_run_destroy(run);
}

/* The next operation: each run waits for the other rank, and has sent it a long message. */
static void begin(rig *r)
{
    const nx_coll_call call = {.coll = {.kind = NX_ALLTOALL, .count = COUNT},
                               .dtype = NEXAR_F32,
                               .op = NEXAR_SUM,
                               .send = r->send,
                               .recv = r->recv};
    nx_run *run = NULL;

    assert_int_equal(nx_run_make(&run, &r->group, &call, 0), NEXAR_OK);
    run->on_done = on_done;
    run->owner = r;
    nx_run_begin(run);
}

static void begin_all(rig *r)
{
    make(r);
    for (int i = 0; i < RUNS; i++) {
        begin(r);
    }
    assert_int_equal(r->ended, 0);
}

/* Receives a message of operation |number| with a different fingerprint. */
static void hear_other(rig *r, uint32_t number)
{
    const nx_context context = {.comm = COMM, .kind = NX_KIND_COLL, .class = NX_CLASS_COLL};
    const nx_mark other = {.word = {1, 2}};

    assert_int_equal(
        nx_registry_on_mark(r->hub, 1, context, (uint64_t)number << NX_NUMBER_SHIFT, &other),
        NX_KEEP);
}

/* Receives the announcement that rank 1 begins nothing on |comm|. */
static void receive_detached(rig *at, uint32_t comm)
{
    uint8_t frame[16];
    nx_writer w = nx_writer_make(frame, sizeof(frame));

    nx_write_u8(&w, NX_CONTROL_DETACHED);
    nx_write_u32(&w, comm);
    nx_write_u32(&w, 1);
    nx_write_u8(&w, NX_DEPARTURE_FREED);
    assert_true(nx_registry_on_control(at->hub, 1, frame, w.len));
}

/* ---- tests --------------------------------------------------------------------------- */

static rig r;

/* The announcement of the first failure cannot be sent: the other rank is given up, and with it all
 * other runs. */
static void test_a_difference_may_end_all_others_at_once(void **state)
{
    (void)state;
    begin_all(&r);
    hear_other(&r, 1);
    r.broken = true;
    nx_loop_kick(r.loop);
    give_back(&r);
    assert_int_equal(r.ended, RUNS);
    unmake(&r);
}

static void test_a_cancelled_send_may_end_all_others_at_once(void **state)
{
    (void)state;
    begin_all(&r);
    r.broken = true;
    nx_group_break(&r.group, NEXAR_EREVOKED, "it was revoked");
    give_back(&r);
    assert_int_equal(r.ended, RUNS);
    unmake(&r);

    begin_all(&r);
    r.broken = true;
    nx_registry_stop(r.hub, NEXAR_ECANCELED, "the end");
    give_back(&r);
    assert_int_equal(r.ended, RUNS);
    unmake(&r);
}

/* Early frames for numbers that could not be reserved are kept for the operations that receive
 * these numbers. */
static void test_numbers_that_cannot_be_reserved_keep_what_was_heard(void **state)
{
    uint32_t first = 0;
    nexar_err err = NEXAR_ENOMEM;

    (void)state;
    for (long n = 0; err != NEXAR_OK; n++) {
        make(&r);
        hear_other(&r, 1);
        nx_alloc_fail_after(n);
        err = nx_group_reserve(&r.group, 1000, &first);
        nx_alloc_fail_after(-1);
        if (err == NEXAR_OK) {
            nx_group_unreserve(&r.group, first, 1000);
        } else {
            assert_int_equal(err, NEXAR_ENOMEM);
            begin(&r);
            nx_loop_kick(r.loop);
            give_back(&r);
            assert_int_equal(r.ended, 1);
            assert_int_equal(r.errs[0], NEXAR_EMISMATCH);
        }
        unmake(&r);
    }
}

/* A rank detached before the first operation, and the ABORT cannot be sent. */
static void test_an_operation_that_needs_a_detached_rank_may_end_all_others_at_once(void **state)
{
    (void)state;
    begin_all(&r);
    r.broken = true;
    receive_detached(&r, COMM);
    give_back(&r);
    assert_int_equal(r.ended, RUNS);
    unmake(&r);
}

/* Numbers wrap around, and slots of messages much sooner: before anything has run, the slot of the
 * first operation belongs to none. */
static void test_a_place_where_nothing_has_run_is_not_one_that_is_over(void **state)
{
    const nx_context context = {.comm = COMM, .kind = NX_KIND_COLL, .class = NX_CLASS_COLL};
    const nx_mark other = {.word = {1, 2}};

    (void)state;
    make(&r);
    r.group.next = 2;
    assert_int_equal(nx_registry_on_mark(r.hub, 1, context, 0, &other),
                     NX_DROP); /* the operation is over */
    assert_int_equal(r.group.late, NEXAR_OK);
    unmake(&r);
}

static void test_no_operation_has_the_number_of_none(void **state)
{
    uint32_t number = 0;

    (void)state;
    make(&r);
    r.group.next = UINT32_MAX;
    assert_int_equal(nx_group_reserve(&r.group, 1, &number), NEXAR_OK);
    assert_int_equal(number, UINT32_MAX);
    nx_group_unreserve(&r.group, number, 1);
    assert_int_equal(nx_group_reserve(&r.group, 1, &number), NEXAR_OK);
    assert_int_equal(number, 1);
    nx_group_unreserve(&r.group, number, 1);
    unmake(&r);
}

/* ---- frames for a group that is not open yet ----------------------------------------- */

enum { LATE = COMM + 1 };

static void replay(void *ctx, const nx_early_frame *f)
{
    const rig *at = ctx;

    assert_int_equal(f->key.from, 1);
    if (f->key.kind == NX_EARLY_FINISHED) {
        nx_registry_on_finished(at->hub, 1, (uint32_t)f->key.id, f->data[0]);
    } else {
        assert_true(nx_registry_on_control(at->hub, 1, f->data, f->len));
    }
}

static void test_frames_for_a_group_that_is_not_open_wait_for_it(void **state)
{
    nx_group late = {.comm = LATE, .size = SIZE};

    (void)state;
    make(&r);
    receive_detached(&r, LATE);
    nx_registry_on_finished(r.hub, 1, LATE, NX_DEPARTURE_FREED);
    assert_true(nx_early_bytes(r.early, NX_EARLY_CONTROL) > 0);
    late.hub = r.hub;
    assert_int_equal(nx_group_open(&late), NEXAR_OK);
    assert_int_equal(nx_group_detached(&late, 1), NX_DEPARTURE_NONE);
    nx_early_deliver(r.early, NX_EARLY_CONTROL, LATE, replay, &r);
    nx_early_deliver(r.early, NX_EARLY_FINISHED, LATE, replay, &r);
    assert_int_equal(nx_group_detached(&late, 1), NX_DEPARTURE_FREED);
    assert_int_equal(nx_group_finished(&late, 1), NX_DEPARTURE_FREED);
    assert_int_equal(late.over, NEXAR_EREVOKED);
    nx_group_close(&late);
    receive_detached(&r, LATE); /* closed: no frame is kept */
    nx_registry_on_finished(r.hub, 1, LATE, NX_DEPARTURE_FREED);
    assert_int_equal(nx_early_bytes(r.early, NX_EARLY_CONTROL), 0);
    assert_int_equal(nx_early_bytes(r.early, NX_EARLY_FINISHED), 0);
    unmake(&r);
}

/* No run waits for that rank in vain: this rank sends it nothing more. */
static void test_a_frame_that_cannot_be_kept_ends_the_link(void **state)
{
    (void)state;
    begin_all(&r); /* they wait for that rank */
    nx_alloc_fail_after(0);
    receive_detached(&r, LATE);
    nx_alloc_fail_after(-1);
    nx_loop_kick(r.loop);
    assert_true(nx_msg_starved(r.msg, 1));
    give_back(&r);
    unmake(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_difference_may_end_all_others_at_once),
        cmocka_unit_test(test_a_cancelled_send_may_end_all_others_at_once),
        cmocka_unit_test(test_numbers_that_cannot_be_reserved_keep_what_was_heard),
        cmocka_unit_test(test_an_operation_that_needs_a_detached_rank_may_end_all_others_at_once),
        cmocka_unit_test(test_a_place_where_nothing_has_run_is_not_one_that_is_over),
        cmocka_unit_test(test_no_operation_has_the_number_of_none),
        cmocka_unit_test(test_frames_for_a_group_that_is_not_open_wait_for_it),
        cmocka_unit_test(test_a_frame_that_cannot_be_kept_ends_the_link),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
