/* envelope_test.c - decoding returns what was encoded; damaged frames are refused. */
#include "envelope.h"

#include <string.h>

#include "unit.h"

static const nx_frame samples[] = {
    {.type = NX_FRAME_INLINE, .context = {0xdeadbeef, 7, NX_CLASS_COLL}, .tag = UINT64_MAX - 1},
    {.type = NX_FRAME_LONG,
     .context = {1, 255, NX_CLASS_USER},
     .tag = 0,
     .id = 4,
     .length = NX_WIRE_MAX,
     .eager = 65536},
    {.type = NX_FRAME_LONG,
     .context = {UINT32_MAX, 0, NX_CLASS_REPLY},
     .tag = 3,
     .id = NX_WIRE_MAX,
     .length = 33,
     .eager = 33},
    {.type = NX_FRAME_PULLED, .context = {9, 1, NX_CLASS_COLL}, .id = 5, .length = 0},
    {.type = NX_FRAME_LONG, .context = {9, 1, NX_CLASS_COLL}, .id = 5, .length = 0},
    {.type = NX_FRAME_RETRACT, .id = 77},
    {.type = NX_FRAME_HELLO, .window = {NX_CREDIT_START, NX_WIRE_MAX, 512, 1 << 20}},
    {.type = NX_FRAME_CREDIT, .context.class = NX_CLASS_COLL, .limit = 1 << 30},
    {.type = NX_FRAME_CLEAR, .id = 1000, .limit = 12},
    {.type = NX_FRAME_STALLED, .limit = 512},
    {.type = NX_FRAME_WANT, .context = {3, 4, NX_CLASS_USER}, .tag = 5},
    {.type = NX_FRAME_WANT, .context = {3, 4, NX_CLASS_USER}, .any_tag = true},
    {.type = NX_FRAME_UNWANT, .limit = 3},
    {.type = NX_FRAME_UNASK, .context.class = NX_CLASS_COLL},
    {.type = NX_FRAME_UNASKED, .limit = 0},
    {.type = NX_FRAME_PUTBACK, .id = 4},
};
enum { SAMPLES = sizeof(samples) / sizeof(samples[0]) };

static nx_lane lane_of(const nx_frame *f)
{
    return (f->type < NX_FRAME_HELLO) ? NX_LANE_MESSAGE : NX_LANE_CONTROL;
}

static nexar_err decode(nx_lane lane, const uint8_t *data, size_t len, nx_frame *f)
{
    const char *why = NULL;
    nexar_err err = nx_frame_decode(lane, data, len, f, &why);

    assert_true((err == NEXAR_OK) == (why == NULL));
    assert_true((err == NEXAR_OK) || (err == NEXAR_EPROTO));
    return err;
}

static void test_every_frame_comes_back_as_it_went(void **state)
{
    (void)state;
    for (size_t i = 0; i < SAMPLES; i++) {
        uint8_t data[NX_MSG_FRAME_ROOM];
        size_t len = nx_frame_encode(&samples[i], data);
        const nx_frame *s = &samples[i];
        nx_frame f;

        assert_int_equal(decode(lane_of(s), data, len, &f), NEXAR_OK);
        f.data = NULL;
        assert_int_equal(f.type, s->type);
        assert_memory_equal(&f.context, &s->context, sizeof(f.context));
        assert_true((f.tag == s->tag) && (f.any_tag == s->any_tag));
        assert_true((f.id == s->id) && (f.length == s->length) && (f.eager == s->eager));
        assert_true(f.limit == s->limit);
        assert_memory_equal(f.window, s->window, sizeof(f.window));
    }
}

static void test_the_bytes_of_a_short_message_are_found_behind_its_envelope(void **state)
{
    uint8_t data[NX_MSG_FRAME_ROOM + 5];
    size_t len = nx_frame_encode(&samples[0], data);
    nx_frame f;

    (void)state;
    assert_int_equal(len, NX_ENVELOPE_HEAD);
    memcpy(data + len, (const uint8_t[]){'h', 'e', 'l', 'l', 'o'}, 5);
    assert_int_equal(decode(NX_LANE_MESSAGE, data, len + 5, &f), NEXAR_OK);
    assert_int_equal(f.length, 5);
    assert_memory_equal(f.data, "hello", 5);
}

static void test_a_frame_cut_or_lengthened_or_on_the_wrong_lane_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < SAMPLES; i++) {
        uint8_t data[NX_MSG_FRAME_ROOM + 1] = {0};
        size_t len = nx_frame_encode(&samples[i], data);
        nx_lane lane = lane_of(&samples[i]);
        nx_frame f;

        for (size_t cut = 0; cut < len; cut++) {
            assert_int_equal(decode(lane, data, cut, &f), NEXAR_EPROTO);
        }
        if (samples[i].type != NX_FRAME_INLINE) {
            assert_int_equal(decode(lane, data, len + 1, &f), NEXAR_EPROTO);
        }
        assert_int_equal(decode((nx_lane)(1 - (int)lane), data, len, &f), NEXAR_EPROTO);
    }
    assert_int_equal(decode(NX_LANE_CONTROL, NULL, 0, &(nx_frame){0}), NEXAR_EPROTO);
}

static void test_impossible_fields_are_refused(void **state)
{
    nx_frame bad[] = {
        {.type = NX_FRAME_INLINE, .context.class = NX_CLASSES},
        {.type = NX_FRAME_INLINE, .tag = NX_ANY_TAG},
        {.type = NX_FRAME_LONG, .id = 0, .length = 1, .eager = 0},
        {.type = NX_FRAME_LONG, .id = 3, .length = 1, .eager = 0},
        {.type = NX_FRAME_LONG, .id = 4, .length = 16, .eager = 17},
        {.type = NX_FRAME_LONG, .id = 4, .length = 32, .eager = 15},
        {.type = NX_FRAME_LONG, .id = 5, .length = 32, .eager = 16},
        {.type = NX_FRAME_PULLED, .id = 4, .length = 32, .eager = 16},
        {.type = NX_FRAME_RETRACT, .id = 3},
        {.type = NX_FRAME_HELLO, .window = {NX_CREDIT_START, NX_CREDIT_START - 1, 512, 512}},
        {.type = NX_FRAME_CREDIT, .context.class = NX_CLASSES},
        {.type = NX_FRAME_WANT, .tag = 1, .any_tag = true},
        {.type = NX_FRAME_WANT, .tag = NX_ANY_TAG},
        {.type = (nx_frame_type)63},
        {.type = (nx_frame_type)0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        uint8_t data[NX_MSG_FRAME_ROOM];
        size_t len = nx_frame_encode(&bad[i], data);
        nx_frame f;

        assert_int_equal(decode(lane_of(&bad[i]), data, len, &f), NEXAR_EPROTO);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_frame_comes_back_as_it_went),
        cmocka_unit_test(test_the_bytes_of_a_short_message_are_found_behind_its_envelope),
        cmocka_unit_test(test_a_frame_cut_or_lengthened_or_on_the_wrong_lane_is_refused),
        cmocka_unit_test(test_impossible_fields_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
