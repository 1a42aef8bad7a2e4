/* sink_test.c - arbitrary fragments arrive at their offsets, in complete units. */
#include "msg/sink.h"

#include <string.h>

#include "base/random.h"
#include "unit.h"

enum { LENGTH = 5000 };

static uint8_t pattern(uint64_t at)
{
    return (uint8_t)(at * 31 + at / 251);
}

/* Delivers bytes [0, cut) as part 0 and [cut, length) as part 1, in random
 * fragments, the parts mixed. */
static void deliver(nx_delivery *d, nx_random_seeded *random, uint64_t cut, uint64_t length)
{
    uint64_t next[NX_PARTS] = {0, cut}, end[NX_PARTS] = {cut, length};

    while ((next[0] < end[0]) || (next[1] < end[1])) {
        unsigned part = (unsigned)nx_random_below(&random->random, 2);
        uint64_t left, n;
        uint8_t data[64];

        part = (next[part] < end[part]) ? part : 1 - part;
        left = end[part] - next[part];
        n = 1 + nx_random_below(&random->random, sizeof(data));
        n = (n < left) ? n : left;
        for (uint64_t i = 0; i < n; i++) {
            data[i] = pattern(next[part] + i);
        }
        nx_delivery_put(d, part, next[part], data, (size_t)n);
        next[part] += n;
    }
}

static void test_scattered_memory_is_filled_in_order(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 300; seed++) {
        nx_random_seeded random;
        static uint8_t memory[2 * LENGTH];
        nx_iov_span spans[40];
        uint64_t room = 0, length, cut;
        size_t n, at = 0;
        nx_delivery d;

        nx_random_seeded_init(&random, seed);
        memset(memory, 0xee, sizeof(memory));
        n = 1 + (size_t)nx_random_below(&random.random, 40);
        for (size_t i = 0; i < n; i++) {
            spans[i].len = (size_t)nx_random_below(&random.random, 120);
            spans[i].ptr = memory + at;
            at += spans[i].len + 1; /* a byte in between, which stays */
            room += spans[i].len;
        }
        length = nx_random_below(&random.random, LENGTH);
        cut = nx_random_below(&random.random, length / 16 + 1) * 16;
        nx_delivery_init(&d, &(nx_sink){.iov = spans, .niov = n, .room = room});
        deliver(&d, &random, cut, length);
        at = 0;
        for (size_t i = 0; i < n; i++) {
            uint8_t *p = spans[i].ptr;

            for (size_t k = 0; k < spans[i].len; k++, at++) {
                assert_int_equal(p[k], (at < length) ? pattern(at) : 0xee);
            }
            assert_int_equal(p[spans[i].len], 0xee);
        }
    }
}

typedef struct taken {
    uint8_t seen[LENGTH], times[LENGTH];
    uint32_t unit;
} taken;

static void take(void *ctx, uint64_t off, const void *data, size_t len)
{
    taken *t = ctx;
    const uint8_t *p = data;

    assert_true((off % t->unit == 0) && (len % t->unit == 0) && (len > 0));
    for (size_t i = 0; i < len; i++) {
        t->seen[off + i] = p[i];
        t->times[off + i]++;
    }
}

static void test_a_function_gets_every_whole_unit_once(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 300; seed++) {
        static taken t;
        nx_random_seeded random;
        uint64_t room, length, cut, whole;
        nx_delivery d;

        nx_random_seeded_init(&random, seed);
        memset(&t, 0, sizeof(t));
        t.unit = 1U << nx_random_below(&random.random, 5);
        length = nx_random_below(&random.random, LENGTH);
        room =
            nx_random_below(&random.random, 2) ? LENGTH : nx_random_below(&random.random, LENGTH);
        cut = nx_random_below(&random.random, length / 16 + 1) * 16;
        nx_delivery_init(&d, &(nx_sink){.take = take, .ctx = &t, .unit = t.unit, .room = room});
        deliver(&d, &random, cut, length);
        whole = (room < length) ? room : length;
        whole -= whole % t.unit;
        for (uint64_t i = 0; i < LENGTH; i++) {
            assert_int_equal(t.times[i], (i < whole) ? 1 : 0);
            assert_true((i >= whole) || (t.seen[i] == pattern(i)));
        }
    }
}

static void test_a_sink_without_room_drops_everything(void **state)
{
    nx_delivery d;

    (void)state;
    nx_delivery_init(&d, &(nx_sink){.room = 0});
    nx_delivery_put(&d, 0, 0, "abc", 3);
    nx_delivery_init(&d, &(nx_sink){.room = 100}); /* neither memory nor function */
    nx_delivery_put(&d, 0, 0, "abc", 3);
    assert_int_equal(d.cursor[0].ncarry, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scattered_memory_is_filled_in_order),
        cmocka_unit_test(test_a_function_gets_every_whole_unit_once),
        cmocka_unit_test(test_a_sink_without_room_drops_everything),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
