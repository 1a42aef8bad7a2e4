/* view_test.c - a view survives its way over the wire, or is refused. */
#include "cluster/view.h"

#include <stdio.h>
#include <string.h>

#include "base/random.h"
#include "cluster/addresses.h"
#include "oom.h"
#include "unit.h"

static nx_view *make(uint32_t size, size_t naddresses)
{
    nx_view *view = nx_view_create(size);

    assert_non_null(view);
    view->epoch = 9;
    memset(view->job.bytes, 0xab, sizeof(view->job.bytes));
    for (uint32_t i = 0; i < size; i++) {
        nx_member *m = &view->members[i];

        m->id = (uint64_t)(size - i) * 3;
        m->rank = i;
        m->pid = i + 100;
        m->boot_id[0] = (uint8_t)i;
        m->nlocal = (i % 2 == 0) ? 0 : NX_LOCAL_MAX - i % 3;
        memset(m->local, (int)(i % 256), m->nlocal);
        (void)snprintf(m->host, sizeof(m->host), "host%u", i);
        m->naddresses = naddresses;
        for (size_t k = 0; k < naddresses; k++) {
            char text[NX_ADDRESS_TEXT];

            (void)snprintf(text, sizeof(text), (k % 2 == 0) ? "10.0.%u.%u" : "fd00::%x:%x", i % 256,
                           (unsigned)k);
            assert_int_equal(nx_address_parse(text, (uint16_t)(i % 1000 + 1), &m->addresses[k]),
                             NEXAR_OK);
        }
    }
    return view;
}

static size_t encode(const nx_view *view, uint8_t **out)
{
    const size_t room = nx_view_encoded_max(view->size);
    nx_writer w;

    *out = nx_zalloc(room);
    assert_non_null(*out);
    w = nx_writer_make(*out, room);
    nx_view_encode(&w, view);
    assert_false(w.failed);
    return w.len;
}

static void assert_same(const nx_view *a, const nx_view *b)
{
    assert_memory_equal(&a->job, &b->job, sizeof(a->job));
    assert_int_equal(a->epoch, b->epoch);
    assert_int_equal(a->size, b->size);
    assert_memory_equal(a->members, b->members, a->size * sizeof(a->members[0]));
}

static void round_trip(uint32_t size, size_t naddresses)
{
    nx_view *view = make(size, naddresses), *back = NULL;
    uint8_t *bytes;
    const size_t len = encode(view, &bytes);
    nx_reader r = nx_reader_make(bytes, len);

    assert_int_equal(nx_view_decode(&r, &back), NEXAR_OK);
    assert_true(nx_reader_done(&r));
    assert_same(view, back);
    nx_view_destroy(view);
    nx_view_destroy(back);
    nx_free(bytes);
}

static void test_views_of_all_sizes_come_back(void **state)
{
    (void)state;
    round_trip(1, 1);
    round_trip(2, NX_ADDRESSES_MAX);
    round_trip(33, 3);
    round_trip(1000, 4);
    round_trip(NX_WORLD_MAX, 1);
}

static void test_the_bound_of_the_encoding_holds_for_the_longest(void **state)
{
    nx_view *view = make(1, NX_ADDRESSES_MAX);
    uint8_t *bytes;

    (void)state;
    memset(view->members[0].host, 'x', NX_HOST_NAME_MAX - 1);
    for (size_t i = 0; i < NX_ADDRESSES_MAX; i++) {
        assert_int_equal(nx_address_parse("fd00::1", 1, &view->members[0].addresses[i]), NEXAR_OK);
    }
    assert_true(encode(view, &bytes) <= nx_view_encoded_max(1));
    nx_free(bytes);
    nx_view_destroy(view);
}

/* Whatever decodes must be a view that could be used. */
static void check_valid(const nx_view *view)
{
    assert_in_range(view->size, 1, NX_WORLD_MAX);
    for (uint32_t i = 0; i < view->size; i++) {
        const nx_member *m = &view->members[i];

        assert_int_equal(m->rank, i);
        assert_true(m->id != 0);
        assert_ptr_equal(nx_view_member(view, m->id), m);
        assert_in_range(m->naddresses, 1, NX_ADDRESSES_MAX);
        assert_true(strlen(m->host) < sizeof(m->host));
        for (size_t k = 0; k < m->naddresses; k++) {
            assert_true(nx_address_port(&m->addresses[k]) != 0);
            assert_false(nx_address_any(&m->addresses[k]));
        }
    }
}

static void test_every_truncation_is_refused(void **state)
{
    nx_view *view = make(3, 2), *back = NULL;
    uint8_t *bytes;
    const size_t len = encode(view, &bytes);

    (void)state;
    for (size_t cut = 0; cut < len; cut++) {
        uint8_t *copy = nx_zalloc(cut); /* so that the sanitizer sees its end */
        nx_reader r;

        assert_non_null(copy);
        memcpy(copy, bytes, cut);
        r = nx_reader_make(copy, cut);
        assert_int_equal(nx_view_decode(&r, &back), NEXAR_EPROTO);
        assert_null(back);
        nx_free(copy);
    }
    nx_free(bytes);
    nx_view_destroy(view);
}

static void test_every_changed_byte_is_refused_or_still_a_view(void **state)
{
    nx_view *view = make(3, 2);
    uint8_t *bytes;
    const size_t len = encode(view, &bytes);
    size_t refused = 0;

    (void)state;
    for (size_t at = 0; at < len; at++) {
        for (unsigned change = 1; change < 256; change++) {
            nx_reader r = nx_reader_make(bytes, len);
            nx_view *back = NULL;

            bytes[at] ^= (uint8_t)change;
            if (nx_view_decode(&r, &back) == NEXAR_OK) {
                check_valid(back);
            } else {
                refused++;
            }
            nx_view_destroy(back);
            bytes[at] ^= (uint8_t)change;
        }
    }
    assert_true(refused > 255 * 20); /* sizes, ranks, lengths, families */
    nx_free(bytes);
    nx_view_destroy(view);
}

static void test_ranks_and_members_must_be_there_once(void **state)
{
    nx_view *view = make(4, 1), *back = NULL;

    (void)state;
    for (int fault = 0; fault < 4; fault++) {
        nx_view *bad = make(4, 1);
        uint8_t *bytes;
        size_t len;
        nx_reader r;

        switch (fault) {
        case 0:
            bad->members[2].rank = 1;
            break;
        case 1:
            bad->members[2].id = bad->members[1].id;
            break;
        case 2:
            bad->members[3].id = 0;
            break;
        default:
            bad->members[0].naddresses = 0;
            break;
        }
        len = encode(bad, &bytes);
        r = nx_reader_make(bytes, len);
        assert_int_equal(nx_view_decode(&r, &back), NEXAR_EPROTO);
        nx_free(bytes);
        nx_view_destroy(bad);
    }
    nx_view_destroy(view);
}

static void test_an_announced_size_takes_no_memory_before_its_bytes(void **state)
{
    uint8_t bytes[NX_JOB_SIZE + 12 + 100] = {0};
    nx_writer w = nx_writer_make(bytes, sizeof(bytes));
    nx_reader r = nx_reader_make(bytes, sizeof(bytes));
    nx_view *back = NULL;

    (void)state;
    nx_write_bytes(&w, bytes, NX_JOB_SIZE);
    nx_write_u64(&w, 1);
    nx_write_u32(&w, NX_WORLD_MAX);
    nx_alloc_fail_after(0);
    assert_int_equal(nx_view_decode(&r, &back), NEXAR_EPROTO);
    assert_false(nx_alloc_failed());
    nx_alloc_fail_after(-1);
}

static void test_lack_of_memory_is_reported(void **state)
{
    nx_view *view = make(3, 2);
    uint8_t *bytes;
    const size_t len = encode(view, &bytes);

    (void)state;
    NXT_FOR_EACH_OOM (n) {
        nx_reader r = nx_reader_make(bytes, len);
        nx_view *back = NULL;
        nexar_err err = nx_view_decode(&r, &back);

        assert_int_equal(err, nx_alloc_failed() ? NEXAR_ENOMEM : NEXAR_OK);
        nx_view_destroy(back);
    }
    nx_free(bytes);
    nx_view_destroy(view);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_views_of_all_sizes_come_back),
        cmocka_unit_test(test_the_bound_of_the_encoding_holds_for_the_longest),
        cmocka_unit_test(test_every_truncation_is_refused),
        cmocka_unit_test(test_every_changed_byte_is_refused_or_still_a_view),
        cmocka_unit_test(test_ranks_and_members_must_be_there_once),
        cmocka_unit_test(test_an_announced_size_takes_no_memory_before_its_bytes),
        cmocka_unit_test(test_lack_of_memory_is_reported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
