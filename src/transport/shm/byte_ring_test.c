/* byte_ring_test.c - records between one writer and one reader. */
#include "byte_ring.h"

#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/random.h"
#include "unit.h"

enum { SIZE = 1024 };

typedef struct pair {
    _Atomic uint32_t tail, head, stuck, asleep;
    _Alignas(8) uint8_t data[SIZE];
    nx_ring_out out;
    nx_ring_in in;
    int reader, writer; /* eventfds: blocking */
    uint32_t records;
} pair;

static void begin(pair *p)
{
    nx_ring_words words = {.tail = &p->tail, .head = &p->head, .stuck = &p->stuck};

    memset(p, 0, sizeof(*p));
    nx_ring_out_init(&p->out, words, p->data, SIZE);
    nx_ring_in_init(&p->in, words, p->data, SIZE);
}

/* Record |i|: its length and its filling. */
static uint32_t length(uint32_t i)
{
    return (i * 2654435761U >> 7) % (nx_ring_most(SIZE) + 1);
}

static bool put(pair *p, uint32_t i)
{
    void *at = nx_ring_reserve(&p->out, length(i));

    if (at == NULL) {
        return false;
    }
    memset(at, (int)(i & 0xff), length(i));
    nx_ring_commit(&p->out, (uint8_t)(1 + i % 5), (uint8_t)i, length(i));
    return true;
}

static bool get(pair *p, uint32_t i)
{
    nx_record rec;

    if (!nx_ring_peek(&p->in, &rec)) {
        return false;
    }
    assert_int_equal(rec.len, length(i));
    assert_int_equal(rec.kind, 1 + i % 5);
    assert_int_equal(rec.flags, (uint8_t)i);
    for (uint32_t k = 0; k < rec.len; k++) {
        assert_int_equal(rec.data[k], (uint8_t)i);
    }
    nx_ring_next(&p->in);
    return true;
}

static void test_records_come_out_as_they_went_in(void **state)
{
    uint32_t in = 0, out = 0;
    nx_random_seeded r;
    pair p;

    (void)state;
    begin(&p);
    nx_random_seeded_init(&r, 3);
    while (out < 20000) {
        switch (nx_random_below(&r.random, 4)) {
        case 0:
            in += put(&p, in);
            break;
        case 1:
            (void)nx_ring_publish(&p.out);
            break;
        case 2:
            out += get(&p, out);
            break;
        default:
            (void)nx_ring_release(&p.in);
            break;
        }
        assert_true(out <= in);
    }
    assert_false(p.in.broken || p.out.broken);
}

static void test_nothing_is_seen_before_it_is_published(void **state)
{
    nx_record rec;
    pair p;

    (void)state;
    begin(&p);
    assert_true(put(&p, 0));
    assert_false(nx_ring_waiting(&p.in) || nx_ring_peek(&p.in, &rec));
    assert_true(nx_ring_publish(&p.out));
    assert_false(nx_ring_publish(&p.out));
    assert_true(nx_ring_waiting(&p.in) && nx_ring_peek(&p.in, &rec));
}

static void test_a_full_ring_is_stuck_until_room_is_released(void **state)
{
    uint32_t n = 0;
    pair p;

    (void)state;
    begin(&p);
    while (put(&p, n)) {
        n++;
    }
    (void)nx_ring_publish(&p.out);
    assert_false(nx_ring_stick(&p.out, length(n)));
    for (uint32_t i = 0; i < n; i++) {
        assert_true(get(&p, i));
    }
    assert_false(put(&p, n)); /* read, but not released */
    assert_true(nx_ring_release(&p.in));
    assert_false(nx_ring_release(&p.in)); /* notified once */
    assert_true(put(&p, n));
}

static void test_what_cannot_be_breaks_the_ring(void **state)
{
    static const uint32_t tails[] = {SIZE + 8, 3, 0xffffff00U, 0x80000000U};
    nx_record rec;
    uint64_t word;
    pair p;

    (void)state;
    for (size_t i = 0; i < sizeof(tails) / sizeof(tails[0]); i++) {
        begin(&p);
        p.tail = tails[i];
        assert_false(nx_ring_peek(&p.in, &rec));
        assert_true(p.in.broken);
    }
    for (int bit = 3; bit < 64; bit++) { /* of the header of a record of 8 bytes */
        begin(&p);
        assert_true(nx_ring_reserve(&p.out, 8) != NULL);
        nx_ring_commit(&p.out, 1, 0, 8);
        (void)nx_ring_publish(&p.out);
        memcpy(&word, p.data, sizeof(word));
        word ^= UINT64_C(1) << bit;
        memcpy(p.data, &word, sizeof(word));
        if (nx_ring_peek(&p.in, &rec)) {
            assert_true(rec.len <= 8);
        }
    }
    begin(&p);
    p.head = 8; /* the reader claims to have read unwritten data */
    while (nx_ring_reserve(&p.out, 100) != NULL) {
        nx_ring_commit(&p.out, 1, 0, 100);
    }
    assert_true(p.out.broken);
}

/* ---- two threads that sleep whenever they can ---------------------------------------- */

static void ring_bell(int fd)
{
    const uint64_t one = 1;

    assert_int_equal(write(fd, &one, sizeof(one)), sizeof(one));
}

static void await_bell(int fd)
{
    uint64_t count;

    assert_int_equal(read(fd, &count, sizeof(count)), sizeof(count));
}

static void *write_all(void *arg)
{
    pair *p = arg;

    for (uint32_t i = 0; i < p->records;) {
        bool full = !put(p, i);

        i += !full;
        if (full || (i % 3 == 0) || (i == p->records)) {
            if (nx_ring_publish(&p->out) && (atomic_load(&p->asleep) != 0) &&
                (atomic_exchange(&p->asleep, 0) != 0)) {
                ring_bell(p->reader);
            }
        }
        if (full && !nx_ring_stick(&p->out, length(i))) {
            await_bell(p->writer);
        }
    }
    return NULL;
}

static void test_no_wake_is_lost_between_two_threads(void **state)
{
    static pair p;
    pthread_t writer;
    uint32_t i = 0;

    (void)state;
    begin(&p);
    p.records = 200000;
    p.reader = eventfd(0, EFD_CLOEXEC);
    p.writer = eventfd(0, EFD_CLOEXEC);
    assert_int_equal(pthread_create(&writer, NULL, write_all, &p), 0);
    while (i < p.records) {
        while (get(&p, i)) {
            i++;
        }
        if (nx_ring_release(&p.in)) {
            ring_bell(p.writer);
        }
        if (i == p.records) {
            break;
        }
        atomic_store(&p.asleep, 1);
        if (!nx_ring_waiting(&p.in)) {
            await_bell(p.reader);
        }
        atomic_store(&p.asleep, 0);
    }
    assert_int_equal(pthread_join(writer, NULL), 0);
    (void)close(p.reader);
    (void)close(p.writer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_records_come_out_as_they_went_in),
        cmocka_unit_test(test_nothing_is_seen_before_it_is_published),
        cmocka_unit_test(test_a_full_ring_is_stuck_until_room_is_released),
        cmocka_unit_test(test_what_cannot_be_breaks_the_ring),
        cmocka_unit_test(test_no_wake_is_lost_between_two_threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
