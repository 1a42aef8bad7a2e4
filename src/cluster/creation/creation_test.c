/* creation_test.c - frames of creations, and creations without memory. */
#include <stdio.h>
#include <string.h>

#include "cluster/creation/creation.h"
#include "oom.h"
#include "unit.h"

enum { PARENT = 5, TAG = 8, LEADER = 0, SELF = 2, RANKS = 3 };
static const uint32_t list[RANKS] = {2, 0, 1};

/* The last frame that the machine has sent, and its receiver. */
typedef struct sent {
    uint32_t to;
    unsigned n;
    nx_creation_frame last;
} sent;

static void on_send(void *ctx, uint32_t to, bool vouch, const void *frame, size_t len)
{
    sent *s = ctx;

    assert_int_equal(nx_creation_decode(frame, len, &s->last), NEXAR_OK);
    assert_int_equal(vouch, s->last.err == NEXAR_EPEER);
    s->to = to;
    s->n++;
}

static void on_changed(void *ctx, nx_creation *c)
{
    (void)ctx;
    (void)c;
}

static const char *name_of(void *ctx, uint32_t slot, char *buf)
{
    (void)ctx;
    (void)snprintf(buf, NX_CREATION_PEER, "rank %u", (unsigned)slot);
    return buf;
}

static const nx_creation_ops ops = {.send = on_send, .changed = on_changed, .name = name_of};

static nx_creation_key key(void)
{
    return (nx_creation_key){PARENT, TAG, nx_creation_print(list, RANKS)};
}

static void hear(nx_creations *cs, uint32_t from, const nx_creation_frame *f, nexar_err want)
{
    uint8_t buf[NX_CREATION_FRAME_MAX];

    assert_int_equal(nx_creations_frame(cs, from, buf, nx_creation_encode(f, buf, sizeof(buf)), 1),
                     want);
}

/* ---- frames ----------------------------------------------------------------------------- */

static void test_frames_are_what_they_were(void **state)
{
    (void)state;
    for (int form = NX_CREATION_JOIN; form < NX_CREATION_FORMS; form++) {
        const nx_creation_frame f = {.form = (nx_creation_form)form,
                                     .key = key(),
                                     .id = 77,
                                     .n = RANKS,
                                     .err = NEXAR_EPEER,
                                     .why = "a sentence",
                                     .slots = list};
        uint8_t buf[NX_CREATION_FRAME_MAX];
        const size_t len = nx_creation_encode(&f, buf, sizeof(buf));
        uint32_t slots[RANKS] = {0};
        nx_creation_frame g;

        assert_true(len > 0);
        assert_int_equal(nx_creation_decode(buf, len, &g), NEXAR_OK);
        assert_int_equal(g.form, form);
        assert_memory_equal(&g.key, &f.key, sizeof(g.key));
        for (size_t cut = 0; cut < len; cut++) {
            assert_int_equal(nx_creation_decode(buf, cut, &g), NEXAR_EPROTO);
        }
        if (form == NX_CREATION_HAVE) {
            assert_int_equal(nx_creation_decode(buf, len, &g), NEXAR_OK);
            nx_creation_members(&g, slots);
            assert_memory_equal(slots, list, sizeof(slots));
        }
    }
}

static void test_the_order_of_a_list_counts(void **state)
{
    const uint32_t other[RANKS] = {0, 2, 1};

    (void)state;
    assert_true(nx_creation_print(list, RANKS) != nx_creation_print(other, RANKS));
    assert_true(nx_creation_print(list, RANKS) != nx_creation_print(list, RANKS - 1));
}

/* ---- memory ----------------------------------------------------------------------------- */

static void test_a_call_without_memory_sends_nothing(void **state)
{
    nx_early *early;

    (void)state;
    assert_int_equal(nx_early_create(&early), NEXAR_OK);
    NXT_FOR_EACH_OOM (n) {
        nx_creation c = {.parent = PARENT, .tag = TAG, .slots = list, .n = RANKS};
        nx_creations *cs = NULL;
        sent s = {0};
        nexar_err err = nx_creations_create(&cs, SELF, early, &ops, &s);

        if (err == NEXAR_OK) {
            err = nx_creation_start(cs, &c, 1);
            assert_int_equal(s.n, (err == NEXAR_OK) ? 1 : 0);
        }
        assert_int_equal(err, nx_alloc_failed() ? NEXAR_ENOMEM : NEXAR_OK);
        if (err == NEXAR_OK) {
            nx_creation_end(cs, &c);
        }
        nx_creations_destroy(cs);
    }
    nx_early_destroy(early);
}

/* A call whose frame cannot be kept fails at its sender, and here when this rank calls. */
static void test_a_call_that_cannot_be_kept_fails_on_both_ranks(void **state)
{
    (void)state;
    NXT_FOR_EACH_OOM (n) {
        const nx_creation_frame join = {.form = NX_CREATION_JOIN, .key = key(), .n = RANKS};
        nx_creation c = {.parent = PARENT, .tag = TAG, .slots = list, .n = RANKS};
        nx_early *early = NULL;
        nx_creations *cs = NULL;
        sent s = {0};

        nx_alloc_fail_after(-1);
        assert_int_equal(nx_early_create(&early), NEXAR_OK);
        assert_int_equal(nx_creations_create(&cs, LEADER, early, &ops, &s), NEXAR_OK);
        nx_alloc_fail_after(n);
        hear(cs, SELF, &join, NEXAR_OK);
        if (nx_alloc_failed()) {
            assert_int_equal(s.to, SELF);
            assert_int_equal(s.last.form, NX_CREATION_FAIL);
            assert_int_equal(s.last.err, NEXAR_ENOMEM);
            assert_int_equal(nx_creation_start(cs, &c, 1), NEXAR_OK);
            assert_int_equal(c.state, NX_CREATION_FAILED);
            assert_int_equal(c.err, NEXAR_ENOMEM);
            nx_creation_end(cs, &c);
        } else {
            assert_int_equal(s.n, 0);
        }
        nx_creations_destroy(cs);
        nx_early_destroy(early);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frames_are_what_they_were),
        cmocka_unit_test(test_the_order_of_a_list_counts),
        cmocka_unit_test(test_a_call_without_memory_sends_nothing),
        cmocka_unit_test(test_a_call_that_cannot_be_kept_fails_on_both_ranks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
