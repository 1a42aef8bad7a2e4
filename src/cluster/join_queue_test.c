/* join_queue_test.c - the waiting joiners: kept in order, encoded and decoded. */
#include "join_queue.h"

#include <stdio.h>
#include <string.h>

#include "addresses.h"
#include "base/alloc.h"
#include "oom.h"
#include "unit.h"

static nx_member member(uint64_t id)
{
    nx_member m = {
        .id = id, .rank = NX_RANK_ANY, .process = {.pid = (uint32_t)id}, .naddresses = 1};

    (void)snprintf(m.host, sizeof(m.host), "host%u", (unsigned)id);
    assert_int_equal(nx_address_parse("10.0.0.1:5", 0, &m.addresses[0]), NEXAR_OK);
    return m;
}

static void add(nx_join_queue *waiting, uint64_t id)
{
    const nx_member m = member(id);

    assert_int_equal(nx_join_queue_add(waiting, &m), NEXAR_OK);
}

static void test_they_wait_in_order_and_once(void **state)
{
    nx_join_queue waiting = {0};

    (void)state;
    for (uint64_t id = 1; id <= 9; id++) {
        add(&waiting, id * 2 % 10 + id / 5); /* in any order */
        add(&waiting, id);
    }
    assert_int_equal(waiting.n, 9);
    for (uint64_t id = 1; id <= 9; id++) {
        assert_int_equal(nx_join_queue_find(&waiting, id)->process.pid, id);
    }
    assert_null(nx_join_queue_find(&waiting, 10));
    assert_true(nx_join_queue_remove(&waiting, 1));
    assert_true(nx_join_queue_remove(&waiting, 5));
    assert_true(nx_join_queue_remove(&waiting, 9));
    assert_false(nx_join_queue_remove(&waiting, 9));
    assert_int_equal(waiting.n, 6);
    assert_int_equal(waiting.list[0].id, 2);
    assert_int_equal(waiting.list[3].id, 6);
    assert_int_equal(waiting.list[5].id, 8);
    nx_join_queue_clear(&waiting);
    assert_int_equal(waiting.n, 0);
    add(&waiting, 3);
    assert_int_equal(waiting.list[0].id, 3);
    nx_join_queue_fini(&waiting);
    assert_false(nx_join_queue_remove(&waiting, 3));
    nx_join_queue_fini(&waiting);
}

/* How many of |want| fit into |room| bytes; decodes them again. */
static uint32_t round_trip(const nx_join_queue *waiting, size_t room, uint32_t want)
{
    uint8_t *bytes = nx_zalloc(room);
    nx_writer w = nx_writer_make(bytes, room);
    nx_member *joined = NULL;
    uint32_t n = 99;
    const uint32_t told = nx_join_queue_encode(waiting, &w, want);
    nx_reader r = nx_reader_make(bytes, w.len);

    assert_false(w.failed);
    assert_true(told <= want);
    assert_int_equal(nx_join_queue_decode(&r, &joined, &n), NEXAR_OK);
    assert_true(nx_reader_done(&r));
    assert_int_equal(n, told);
    assert_true((n == 0) == (joined == NULL));
    for (uint32_t i = 0; i < n; i++) {
        assert_memory_equal(&joined[i], &waiting->list[i], sizeof(joined[i]));
    }
    nx_free(joined);
    nx_free(bytes);
    return told;
}

static void test_as_many_joiners_are_encoded_as_fit(void **state)
{
    nx_join_queue waiting = {0};
    uint32_t last = 0;

    (void)state;
    assert_int_equal(round_trip(&waiting, 100, 5), 0);
    for (uint64_t id = 1; id <= 5; id++) {
        add(&waiting, id);
    }
    assert_int_equal(round_trip(&waiting, 1000, 5), 5);
    assert_int_equal(round_trip(&waiting, 1000, 50), 5);
    assert_int_equal(round_trip(&waiting, 1000, 2), 2);
    assert_int_equal(round_trip(&waiting, 1000, 0), 0);
    for (size_t room = 1; room < 400; room++) {
        const uint32_t told = round_trip(&waiting, room, 5);

        assert_true(told >= last);
        last = told;
    }
    assert_int_equal(last, 5);
    nx_join_queue_fini(&waiting);
}

static size_t encode_two(uint8_t *bytes, size_t room, uint64_t first, uint64_t second)
{
    nx_join_queue waiting = {0};
    nx_writer w = nx_writer_make(bytes, room);

    add(&waiting, 1);
    add(&waiting, 2);
    waiting.list[0].id = first;
    waiting.list[1].id = second;
    assert_int_equal(nx_join_queue_encode(&waiting, &w, 2), 2);
    nx_join_queue_fini(&waiting);
    return w.len;
}

static void assert_malformed(const uint8_t *bytes, size_t len)
{
    uint8_t *copy = nx_zalloc(len); /* so that the sanitizer checks its end */
    nx_member *joined = NULL;
    uint32_t n = 99;
    nx_reader r;

    memcpy(copy, bytes, len);
    r = nx_reader_make(copy, len);
    assert_int_equal(nx_join_queue_decode(&r, &joined, &n), NEXAR_EPROTO);
    assert_null(joined);
    assert_int_equal(n, 99);
    nx_free(copy);
}

static void test_malformed_lists_are_refused(void **state)
{
    uint8_t bytes[256], many[8] = {0, 0, 8, 1};
    size_t len;

    (void)state;
    len = encode_two(bytes, sizeof(bytes), 3, 4);
    for (size_t cut = 1; cut < len; cut++) {
        assert_malformed(bytes, cut);
    }
    assert_malformed(bytes, encode_two(bytes, sizeof(bytes), 3, 3));
    assert_malformed(bytes, encode_two(bytes, sizeof(bytes), 3, 2));
    assert_malformed(bytes, encode_two(bytes, sizeof(bytes), 0, 3));
    assert_malformed(many, sizeof(many));
}

static void test_lack_of_memory_is_reported(void **state)
{
    uint8_t bytes[256];
    const size_t len = encode_two(bytes, sizeof(bytes), 3, 4);

    (void)state;
    NXT_FOR_EACH_OOM (n) {
        nx_reader r = nx_reader_make(bytes, len);
        const nx_member m = member(7);
        nx_join_queue waiting = {0};
        nx_member *joined = NULL;
        uint32_t count = 0;
        nexar_err err = nx_join_queue_decode(&r, &joined, &count);

        err = (err == NEXAR_OK) ? nx_join_queue_add(&waiting, &m) : err;
        assert_int_equal(err, nx_alloc_failed() ? NEXAR_ENOMEM : NEXAR_OK);
        nx_join_queue_fini(&waiting);
        nx_free(joined);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_they_wait_in_order_and_once),
        cmocka_unit_test(test_as_many_joiners_are_encoded_as_fit),
        cmocka_unit_test(test_malformed_lists_are_refused),
        cmocka_unit_test(test_lack_of_memory_is_reported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
