/* early_links_test.c - links of members that are one view ahead: held, accepted, or closed. */
#include <string.h>

#include "base/alloc.h"
#include "core/update/update.h"
#include "msg/matching/envelope.h"
#include "oom.h"
#include "transport_choice.h"
#include "unit.h"

enum { AHEAD = 77 }; /* the member that is */

/* A link that accepts everything and reports when it is closed. */
typedef struct fake {
    nx_link base;
    int closed, frames, late;
} fake;

/* The state of a closed link, which would be freed. */
static void on_late_frame(void *ctx, nx_link *link, nx_lane lane, const void *data, size_t len)
{
    (void)ctx;
    (void)lane;
    (void)data;
    (void)len;
    ((fake *)link)->late++;
}

static const nx_link_up gone_up = {.on_frame = on_late_frame};

static nexar_err take_frame(nx_link *link, nx_lane lane, const nx_bytes *bytes, size_t n)
{
    (void)lane;
    (void)bytes;
    (void)n;
    ((fake *)link)->frames++;
    return NEXAR_OK;
}

static void close_fake(nx_link *link, bool drain)
{
    (void)drain;
    ((fake *)link)->closed++;
    link->up = &gone_up;
}

static const nx_link_ops fake_ops = {.name = "fake", .send_frame = take_frame, .close = close_fake};

/* The part of a world that links need: this rank in slot 0 of two. */
static void make(nx_world *world, uint64_t second)
{
    nx_view *view = nx_view_create(2);
    nx_msg_config mc = {.peers = 2, .pool = 1 << 20, .inline_max = 1000};

    assert_non_null(view);
    *world = (nx_world){.slots = 2};
    nx_list_init(&world->parked);
    assert_int_equal(nx_early_create(&world->early), NEXAR_OK);
    assert_int_equal(nx_loop_create(&world->loop, &nx_clock_system), NEXAR_OK);
    mc.loop = world->loop;
    assert_int_equal(nx_msg_create(&world->msg, &mc), NEXAR_OK);
    view->slots = 2;
    view->members[0] = (nx_member){.id = 1};
    view->members[1] = (nx_member){.id = second, .rank = 1, .slot = 1};
    world->view = view;
}

static void end(nx_world *world)
{
    nx_early_links_close(world);
    nx_msg_destroy(world->msg);
    nx_loop_destroy(world->loop);
    nx_early_destroy(world->early);
    nx_view_destroy((nx_view *)(uintptr_t)world->view);
}

static void hear(fake *f, nx_lane lane, const nx_frame *frame, const void *bytes, size_t n)
{
    uint8_t data[256];
    size_t len = nx_frame_encode(frame, data);

    if (n > 0) {
        memcpy(data + len, bytes, n);
    }
    f->base.up->on_frame(f->base.up_ctx, &f->base, lane, data, len + n);
}

static void test_early_reports_count_when_the_view_is_installed(void **state)
{
    const nx_context c = {.comm = 5, .kind = 1, .class = NX_CLASS_USER};
    nx_frame hello = {.type = NX_FRAME_HELLO};
    nx_world world;
    nx_req found = {0};
    fake f = {.base.ops = &fake_ops};

    (void)state;
    make(&world, AHEAD);
    for (int i = 0; i < NX_CLASSES; i++) {
        hello.window[i] = 4096;
    }
    nx_early_links_take(&world, &f.base, AHEAD);
    assert_true(nx_early_links_has(&world, AHEAD) && !nx_early_links_has(&world, AHEAD + 1));
    f.base.up->on_up(f.base.up_ctx, &f.base);
    hear(&f, NX_LANE_CONTROL, &hello, NULL, 0);
    hear(&f, NX_LANE_MESSAGE, &(nx_frame){.type = NX_FRAME_INLINE, .context = c, .tag = 9}, "hi",
         2);
    f.base.up->on_data(f.base.up_ctx, &f.base, 4, 0, "", 0);
    assert_int_equal(f.frames, 0);
    nx_early_links_deliver(&world);
    assert_false(nx_early_links_has(&world, AHEAD));
    assert_ptr_equal(nx_msg_link(world.msg, 1), &f.base);
    assert_int_equal(f.frames, 1); /* this rank's greeting */
    assert_true(nx_msg_iprobe(world.msg, 1, c, 9, &found) && (found.bytes == 2));
    assert_int_equal(f.closed, 0);
    end(&world);
    assert_int_equal(f.closed, 1);
}

/* A joiner may be dialled before it has the view from the seed. */
static void test_an_early_connection_is_accepted_later(void **state)
{
    fake first = {.base.ops = &fake_ops}, second = first;
    nx_frame hello = {.type = NX_FRAME_HELLO};
    nx_world world;
    nx_msg *msg;

    (void)state;
    make(&world, AHEAD);
    msg = world.msg;
    world.msg = NULL;
    nx_links_accept(&world, &first.base, AHEAD);
    nx_links_accept(&world, &second.base, AHEAD);
    assert_true(nx_early_links_has(&world, AHEAD));
    assert_true((first.closed == 0) && (second.closed == 1));
    for (int i = 0; i < NX_CLASSES; i++) {
        hello.window[i] = 4096;
    }
    hear(&first, NX_LANE_CONTROL, &hello, NULL, 0);
    world.msg = msg;
    nx_early_links_deliver(&world);
    assert_ptr_equal(nx_msg_link(world.msg, 1), &first.base);
    assert_int_equal(first.closed, 0);
    end(&world);
}

static void test_who_is_not_in_the_view_is_closed(void **state)
{
    nx_world world;
    fake a = {.base.ops = &fake_ops}, b = a, c = a;

    (void)state;
    make(&world, AHEAD);
    nx_early_links_take(&world, &a.base, AHEAD + 1);
    nx_early_links_deliver(&world);
    assert_int_equal(a.closed, 1);
    nx_early_links_take(&world, &b.base, AHEAD);
    b.base.up->on_down(b.base.up_ctx, &b.base, NEXAR_EPEER, "it has ended");
    assert_true((b.closed == 1) && !nx_early_links_has(&world, AHEAD));
    nx_early_links_take(&world, &c.base, AHEAD);
    end(&world);
    assert_int_equal(c.closed, 1);
}

/* A certificate identifies a member permanently; the view decides whether it is admitted. */
static void test_a_certificate_does_not_admit_a_process_outside_the_view(void **state)
{
    nx_world world;
    fake f = {.base.ops = &fake_ops}, self = f;

    (void)state;
    make(&world, AHEAD);
    nx_links_accept(&world, &f.base, AHEAD + 1); /* a member that has left, or was never admitted */
    assert_true((f.closed == 1) && !nx_early_links_has(&world, AHEAD + 1));
    nx_links_accept(&world, &self.base, 1);
    assert_true((self.closed == 1) && !nx_early_links_has(&world, 1));
    assert_int_equal(f.frames + self.frames, 0);
    end(&world);
}

/* Another process is at the addresses of the rank: a network error for callers. */
static void test_a_peer_that_is_not_believed_cannot_be_reached(void **state)
{
    const nx_context c = {.comm = 5, .kind = 1, .class = NX_CLASS_USER};
    char data[4];
    nx_iov_span span = {.ptr = data, .len = sizeof(data)};
    nx_world world;
    nx_req r = {0};
    fake f = {.base.ops = &fake_ops};

    (void)state;
    make(&world, AHEAD);
    nx_msg_attach(world.msg, 1, &f.base);
    f.base.up = nx_msg_up(world.msg);
    f.base.up_ctx = nx_msg_up_ctx(world.msg, 1);
    nx_msg_recv(world.msg, &r, 1, c, 9, &(nx_sink){.iov = &span, .niov = 1, .room = sizeof(data)});
    assert_false(r.done);
    f.base.up->on_down(f.base.up_ctx, &f.base, NEXAR_EAUTH, "the certificate is of another job");
    assert_true(r.done && (r.err == NEXAR_ECONNECT));
    assert_non_null(strstr(r.why, "of another job"));
    end(&world);
}

/* The memory that a peer makes this rank keep is bounded: the peer has no credit. */
static void test_a_peer_that_sends_too_much_is_closed(void **state)
{
    static uint8_t much[40 << 10];
    nx_world world;
    fake f = {.base.ops = &fake_ops};

    (void)state;
    make(&world, AHEAD);
    nx_early_links_take(&world, &f.base, AHEAD);
    f.base.up->on_data(f.base.up_ctx, &f.base, 4, 0, much, sizeof(much));
    assert_int_equal(f.closed, 0);
    f.base.up->on_data(f.base.up_ctx, &f.base, 4, sizeof(much), much, sizeof(much));
    assert_true((f.closed == 1) && !nx_early_links_has(&world, AHEAD));
    end(&world);
}

static void test_a_peer_that_sends_too_many_empty_frames_is_closed(void **state)
{
    nx_world world;
    fake f = {.base.ops = &fake_ops};

    (void)state;
    make(&world, AHEAD);
    nx_early_links_take(&world, &f.base, AHEAD);
    for (int i = 0; (i < 10000) && (f.closed == 0); i++) {
        f.base.up->on_frame(f.base.up_ctx, &f.base, NX_LANE_CONTROL, "", 0);
    }
    assert_int_equal(f.closed, 1);
    end(&world);
}

/* A kept frame is invalid: the link is closed during the replay, without other effects. */
static void test_a_peer_that_sends_garbage_is_read_no_further(void **state)
{
    nx_world world;
    fake f = {.base.ops = &fake_ops};

    (void)state;
    make(&world, AHEAD);
    nx_early_links_take(&world, &f.base, AHEAD);
    for (int i = 0; i < 3; i++) {
        f.base.up->on_frame(f.base.up_ctx, &f.base, NX_LANE_MESSAGE, "\xff\xff", 2);
    }
    nx_early_links_deliver(&world);
    assert_true(f.closed > 0);
    assert_int_equal(f.late, 0);
    end(&world);
}

static void test_without_memory_it_is_closed(void **state)
{
    (void)state;
    NXT_FOR_EACH_OOM (n) {
        nx_world world;
        fake f = {.base.ops = &fake_ops};
        const long after = n;

        nx_alloc_fail_after(-1);
        make(&world, AHEAD);
        nx_alloc_fail_after(after);
        nx_early_links_take(&world, &f.base, AHEAD);
        if (nx_early_links_has(&world, AHEAD)) {
            f.base.up->on_data(f.base.up_ctx, &f.base, 4, 0, "x", 1);
        }
        assert_int_equal(f.closed, nx_alloc_failed() ? 1 : 0);
        end(&world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_early_reports_count_when_the_view_is_installed),
        cmocka_unit_test(test_an_early_connection_is_accepted_later),
        cmocka_unit_test(test_who_is_not_in_the_view_is_closed),
        cmocka_unit_test(test_a_certificate_does_not_admit_a_process_outside_the_view),
        cmocka_unit_test(test_a_peer_that_is_not_believed_cannot_be_reached),
        cmocka_unit_test(test_a_peer_that_sends_too_much_is_closed),
        cmocka_unit_test(test_a_peer_that_sends_too_many_empty_frames_is_closed),
        cmocka_unit_test(test_a_peer_that_sends_garbage_is_read_no_further),
        cmocka_unit_test(test_without_memory_it_is_closed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
