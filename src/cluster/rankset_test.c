/* rankset_test.c - sets of ranks, compared with an array of bools. */
#include "cluster/rankset.h"

#include <string.h>

#include "oom.h"
#include "rand.h"
#include "unit.h"

enum { MOST = 300, ROOM = 64 };

static void fill(nx_rankset *s, bool *in, nxt_rand *rand, uint32_t one_in)
{
    for (uint32_t i = 0; i < s->n; i++) {
        in[i] = nxt_one_in(rand, one_in);
        if (in[i]) {
            assert_true(nx_rankset_add(s, i));
            assert_false(nx_rankset_add(s, i));
        }
    }
}

static void check(const nx_rankset *s, const bool *in)
{
    uint32_t count = 0, out = 0;

    for (uint32_t i = 0; i < s->n; i++) {
        uint32_t next = i, next_out = i;

        while ((next < s->n) && !in[next]) {
            next++;
        }
        while ((next_out < s->n) && in[next_out]) {
            next_out++;
        }
        assert_int_equal(nx_rankset_has(s, i), in[i]);
        assert_int_equal(nx_rankset_next(s, i), next);
        assert_int_equal(nx_rankset_next_out(s, i), next_out);
        assert_int_equal(nx_rankset_index_out(s, i), out);
        if (!in[i]) {
            assert_int_equal(nx_rankset_nth_out(s, out), i);
        }
        count += in[i];
        out += !in[i];
    }
    assert_int_equal(s->count, count);
    assert_int_equal(nx_rankset_nth_out(s, out), s->n);
    assert_int_equal(nx_rankset_next(s, s->n), s->n);
    assert_false(nx_rankset_has(s, s->n));
}

static void check_circle(const nx_rankset *s, const bool *in)
{
    for (uint32_t self = 0; self < s->n; self += 7) {
        for (uint32_t far = 1; far < s->n; far *= 2) {
            uint32_t d = far;

            while ((d < s->n) && in[(self + d) % s->n]) {
                d++;
            }
            assert_int_equal(nx_rankset_after_out(s, self, far),
                             (d < s->n) ? (self + d) % s->n : self);
        }
    }
}

static void check_wire(const nx_rankset *s)
{
    uint8_t bytes[ROOM];
    nx_writer w = nx_writer_make(bytes, sizeof(bytes));
    nx_rankset back;
    nx_reader r;

    assert_int_equal(nx_rankset_init(&back, s->n), NEXAR_OK);
    nx_rankset_encode(&w, s);
    assert_false(w.failed);
    assert_true(w.len <= nx_rankset_encoded_max(s->n));
    r = nx_reader_make(bytes, w.len);
    nx_rankset_decode(&r, &back);
    assert_true(nx_reader_done(&r));
    assert_true(nx_rankset_equal(s, &back));
    nx_rankset_fini(&back);
}

static void test_any_set_is_what_was_put_in(void **state)
{
    nxt_rand rand = {7};

    (void)state;
    for (uint32_t round = 0; round < 400; round++) {
        const uint32_t n = 1 + nxt_below(&rand, MOST), one_in = 1 + nxt_below(&rand, 1 + n / 2);
        bool in[MOST] = {false}, other[MOST] = {false}, any = false;
        nx_rankset a, b;

        assert_int_equal(nx_rankset_init(&a, n), NEXAR_OK);
        assert_int_equal(nx_rankset_init(&b, n), NEXAR_OK);
        fill(&a, in, &rand, one_in);
        fill(&b, other, &rand, 3);
        check(&a, in);
        check_circle(&a, in);
        check_wire(&a);
        assert_int_equal(nx_rankset_equal(&a, &b), memcmp(in, other, sizeof(in)) == 0);
        for (uint32_t i = 0; i < n; i++) {
            any = any || (other[i] && !in[i]);
            in[i] = in[i] || other[i];
        }
        assert_int_equal(nx_rankset_unite(&a, &b), any);
        check(&a, in);
        nx_rankset_copy(&a, &b);
        check(&a, other);
        for (uint32_t i = 0; i < n; i += 2) {
            assert_int_equal(nx_rankset_remove(&a, i), other[i]);
            assert_false(nx_rankset_remove(&a, i));
            other[i] = false;
        }
        check(&a, other);
        nx_rankset_clear(&a);
        assert_int_equal(nx_rankset_next(&a, 0), n);
        nx_rankset_fini(&a);
        nx_rankset_fini(&b);
    }
}

static void refuse(const char *bytes, size_t len)
{
    nx_rankset s;
    nx_reader r = nx_reader_make(bytes, len);

    assert_int_equal(nx_rankset_init(&s, 10), NEXAR_OK);
    nx_rankset_decode(&r, &s);
    assert_true(r.failed);
    assert_int_equal(s.count, 0);
    assert_int_equal(nx_rankset_next(&s, 0), 10);
    nx_rankset_fini(&s);
}

static void test_ranks_outside_twice_or_out_of_order_are_refused(void **state)
{
    (void)state;
    refuse("", 0);
    refuse("\x02\x00", 2);                 /* no such form */
    refuse("\x00\x01\x0a\x01", 4);         /* rank 10 of 10 */
    refuse("\x00\x01\x03\x08", 4);         /* ranks 3 to 10 */
    refuse("\x00\x01\x03\x00", 4);         /* an empty run */
    refuse("\x00\x02\x03\x01\x00\x01", 6); /* two runs that touch */
    refuse("\x00\x02\x03\x01", 4);         /* cut short */
    refuse("\x01\xff", 2);                 /* bits cut short */
    refuse("\x01\xff\x04", 3);             /* bit 10 */
}

static void test_a_large_sparse_set_is_short_and_a_full_one_too(void **state)
{
    uint8_t bytes[16384];
    nx_writer w = nx_writer_make(bytes, sizeof(bytes));
    nx_rankset s;

    (void)state;
    assert_int_equal(nx_rankset_init(&s, 65536), NEXAR_OK);
    nx_rankset_encode(&w, &s);
    assert_int_equal(w.len, 2);
    (void)nx_rankset_add(&s, 40000);
    w.len = 0;
    nx_rankset_encode(&w, &s);
    assert_true(w.len <= 8);
    for (uint32_t i = 0; i < s.n; i += 2) {
        (void)nx_rankset_add(&s, i);
    }
    w.len = 0;
    nx_rankset_encode(&w, &s);
    assert_false(w.failed);
    assert_int_equal(w.len, nx_rankset_encoded_max(s.n));
    nx_rankset_fini(&s);
}

static void test_a_set_that_grows_has_what_it_had(void **state)
{
    nx_rankset s;

    (void)state;
    assert_int_equal(nx_rankset_init(&s, 3), NEXAR_OK);
    (void)nx_rankset_add(&s, 2);
    for (uint32_t n = 4; n < 300; n++) {
        assert_int_equal(nx_rankset_grow(&s, n), NEXAR_OK);
        assert_true(nx_rankset_has(&s, 2) && !nx_rankset_has(&s, n - 1) && (s.count == 1));
        assert_int_equal(nx_rankset_next(&s, 3), n);
    }
    nx_rankset_fini(&s);
}

static void test_lack_of_memory_is_reported(void **state)
{
    (void)state;
    NXT_FOR_EACH_OOM (n) {
        nx_rankset s;
        nexar_err err = nx_rankset_init(&s, 100);

        if (err == NEXAR_OK) {
            err = nx_rankset_grow(&s, 1000);
        }
        assert_int_equal(err, nx_alloc_failed() ? NEXAR_ENOMEM : NEXAR_OK);
        nx_rankset_fini(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_set_is_what_was_put_in),
        cmocka_unit_test(test_ranks_outside_twice_or_out_of_order_are_refused),
        cmocka_unit_test(test_a_large_sparse_set_is_short_and_a_full_one_too),
        cmocka_unit_test(test_a_set_that_grows_has_what_it_had),
        cmocka_unit_test(test_lack_of_memory_is_reported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
