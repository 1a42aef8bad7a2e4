/* view_test.c - a view is encoded and decoded unchanged, or rejected. */
#include "cluster/view.h"

#include <stdio.h>
#include <string.h>

#include "base/random.h"
#include "cluster/addresses.h"
#include "cluster/comm_id.h"
#include "oom.h"
#include "unit.h"

static nx_view *make(uint32_t size, size_t naddresses)
{
    nx_view *view = nx_view_create(size);

    assert_non_null(view);
    view->epoch = 9;
    view->world = nx_comm_id_make(1, 1);
    view->slots = (size < NX_WORLD_MAX) ? 2 * size + 1 : size;
    memset(view->job.bytes, 0xab, sizeof(view->job.bytes));
    for (uint32_t i = 0; i < size; i++) {
        nx_member *m = &view->members[i];

        m->id = (uint64_t)(size - i) * 3;
        m->rank = i;
        m->slot = (size < NX_WORLD_MAX) ? 2 * i : i;
        m->process.pid = i + 100;
        m->process.space = UINT64_MAX - i;
        m->process.started = (UINT64_C(1) << 40) + i;
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
    assert_int_equal(a->world, b->world);
    assert_int_equal(a->slots, b->slots);
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

/* Every decoded view must be usable. */
static void check_valid(const nx_view *view)
{
    assert_in_range(view->size, 1, NX_WORLD_MAX);
    for (uint32_t i = 0; i < view->size; i++) {
        const nx_member *m = &view->members[i];

        assert_int_equal(m->rank, i);
        assert_true(m->id != 0);
        assert_true(m->slot < view->slots);
        assert_ptr_equal(nx_view_slot(view, m->slot), m);
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
        uint8_t *copy = nx_zalloc(cut); /* so that the sanitizer checks its end */
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
    for (int fault = 0; fault < 9; fault++) {
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
        case 3:
            bad->members[0].naddresses = 0;
            break;
        case 4:
            bad->members[2].slot = bad->members[1].slot;
            break;
        case 5:
            bad->members[3].slot = bad->slots;
            break;
        case 6:
            bad->slots = 3;
            break;
        case 7:
            bad->slots = NX_WORLD_MAX + 1;
            break;
        default:
            bad->world = nx_comm_id_make(bad->slots, 1);
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
    uint8_t bytes[NX_JOB_SIZE + 20 + 100] = {0};
    nx_writer w = nx_writer_make(bytes, sizeof(bytes));
    nx_reader r = nx_reader_make(bytes, sizeof(bytes));
    nx_view *back = NULL;

    (void)state;
    nx_write_bytes(&w, bytes, NX_JOB_SIZE);
    nx_write_u64(&w, 1);
    nx_write_u32(&w, NX_WORLD_MAX);
    nx_write_u32(&w, 0);
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

static void test_a_slot_finds_its_member_and_no_other(void **state)
{
    nx_view *view = make(5, 1); /* in the slots 0, 2, 4, 6, 8 of 11 */

    (void)state;
    for (uint32_t slot = 0; slot < 12; slot++) {
        const nx_member *m = nx_view_slot(view, slot);

        if ((slot % 2 == 0) && (slot < 10)) {
            assert_ptr_equal(m, &view->members[slot / 2]);
        } else {
            assert_null(m);
        }
    }
    nx_view_destroy(view);
}

/* ---- the next view ------------------------------------------------------------------- */

/* The ranks whose bits are set in |bits|. */
static nx_rankset ranks(uint32_t n, unsigned bits)
{
    nx_rankset set;

    assert_int_equal(nx_rankset_init(&set, n), NEXAR_OK);
    for (uint32_t i = 0; i < n; i++) {
        if ((bits >> i & 1) != 0) {
            (void)nx_rankset_add(&set, i);
        }
    }
    return set;
}

static void test_who_stays_keeps_order_and_slot_and_who_comes_is_behind(void **state)
{
    nx_view *old = make(4, 2), *next = NULL, *joiners = make(2, 1);
    nx_rankset gone = ranks(4, 0x5);

    (void)state;
    joiners->members[0].id = 77;
    joiners->members[1].id = 88;
    assert_int_equal(nx_view_next(old, &gone, joiners->members, 2, 0x20007, &next), NEXAR_OK);
    assert_int_equal(next->epoch, old->epoch + 1);
    assert_memory_equal(&next->job, &old->job, sizeof(old->job));
    assert_int_equal(next->world, 0x20007);
    assert_int_equal(next->slots, old->slots + 2);
    assert_int_equal(next->size, 4);
    assert_int_equal(next->members[0].id, old->members[1].id);
    assert_int_equal(next->members[0].slot, old->members[1].slot);
    assert_int_equal(next->members[1].id, old->members[3].id);
    assert_int_equal(next->members[1].slot, old->members[3].slot);
    assert_int_equal(next->members[2].id, 77);
    assert_int_equal(next->members[2].slot, old->slots);
    assert_int_equal(next->members[3].id, 88);
    assert_int_equal(next->members[3].slot, old->slots + 1);
    check_valid(next);
    nx_view_destroy(next);

    /* No rank joins or leaves: only the numbers change. */
    assert_int_equal(nx_view_next(old, NULL, NULL, 0, 1, &next), NEXAR_OK);
    assert_int_equal(next->slots, old->slots);
    assert_memory_equal(next->members, old->members, 4 * sizeof(old->members[0]));
    nx_view_destroy(next);
    nx_rankset_fini(&gone);
    nx_view_destroy(joiners);
    nx_view_destroy(old);
}

static void assert_no_next(const nx_view *old, const nx_rankset *gone, const nx_member *joined,
                           uint32_t n, const char *words)
{
    nx_view *next = NULL;

    assert_int_equal(nx_view_next(old, gone, joined, n, 1, &next), NEXAR_EINVAL);
    assert_null(next);
    assert_non_null(strstr(nexar_last_error(), words));
}

static void test_impossible_changes_are_refused(void **state)
{
    nx_view *old = make(2, 1), *joiners = make(2, 1);
    nx_rankset all = ranks(2, 0x3);

    (void)state;
    joiners->members[0].id = 77;
    joiners->members[1].id = 88;
    assert_no_next(old, &all, joiners->members, 2, "nobody of the old world is left");
    joiners->members[1].id = 77;
    assert_no_next(old, NULL, joiners->members, 2, "a member already");
    joiners->members[1].id = old->members[1].id;
    assert_no_next(old, NULL, joiners->members, 2, "a member already");
    joiners->members[1].id = 0;
    assert_no_next(old, NULL, joiners->members, 2, "a member already, or nobody");
    joiners->members[1].id = 88;
    old->slots = NX_WORLD_MAX - 1;
    assert_no_next(old, NULL, joiners->members, 2, "of 65536 places in a world's life 65535");
    nx_rankset_fini(&all);
    nx_view_destroy(joiners);
    nx_view_destroy(old);
}

/* Many changes, in which no member gets the slot of another. */
static void test_slots_are_given_out_once(void **state)
{
    nx_random_seeded random;
    uint64_t owner[512] = {0}, last_id = 1000;

    (void)state;
    nx_random_seeded_init(&random, 5);
    for (int life = 0; life < 50; life++) {
        nx_view *view = make(1 + (uint32_t)nx_random_below(&random.random, 6), 1);
        nx_view *joiners = make(4, 1);

        memset(owner, 0, sizeof(owner));
        for (int turn = 0; turn < 100; turn++) {
            const unsigned bits = (unsigned)nx_random_below(&random.random, 1U << view->size);
            nx_rankset gone = ranks(view->size, bits & ~1U);
            const uint32_t n = (view->size < 12) ? (uint32_t)nx_random_below(&random.random, 5) : 0;
            nx_view *next = NULL;

            for (uint32_t i = 0; i < n; i++) {
                joiners->members[i].id = ++last_id;
            }
            assert_int_equal(nx_view_next(view, &gone, joiners->members, n, (uint32_t)turn, &next),
                             NEXAR_OK);
            check_valid(next);
            for (uint32_t i = 0; i < next->size; i++) {
                const nx_member *m = &next->members[i];

                assert_true((owner[m->slot] == 0) || (owner[m->slot] == m->id));
                owner[m->slot] = m->id;
            }
            nx_rankset_fini(&gone);
            nx_view_destroy(view);
            view = next;
        }
        nx_view_destroy(joiners);
        nx_view_destroy(view);
    }
}

static void test_a_change_without_memory_is_reported(void **state)
{
    nx_view *old = make(3, 1), *joiners = make(1, 1);

    (void)state;
    joiners->members[0].id = 77;
    NXT_FOR_EACH_OOM (n) {
        nx_view *next = NULL;
        nexar_err err = nx_view_next(old, NULL, joiners->members, 1, 1, &next);

        assert_int_equal(err, nx_alloc_failed() ? NEXAR_ENOMEM : NEXAR_OK);
        nx_view_destroy(next);
    }
    nx_view_destroy(joiners);
    nx_view_destroy(old);
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
        cmocka_unit_test(test_a_slot_finds_its_member_and_no_other),
        cmocka_unit_test(test_who_stays_keeps_order_and_slot_and_who_comes_is_behind),
        cmocka_unit_test(test_impossible_changes_are_refused),
        cmocka_unit_test(test_slots_are_given_out_once),
        cmocka_unit_test(test_a_change_without_memory_is_reported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
