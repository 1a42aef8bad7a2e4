/*
 * coll_suite.c - every algorithm, every size, every kind of call, in the
 * simulator against the oracle.
 *
 *     coll_suite [collective ...]
 *
 * runs the collectives named, or all.  NXT_FAST in the environment runs a
 * sixteenth of the cases.
 */
#include <string.h>

#include "rand.h"
#include "reduce/reduce.h"
#include "suite.h"
#include "unit.h"

/* Gives each case of a loop its own number, for its seed and for thinning. */
static uint64_t case_number;

/* Whether the vectors of a call are |count| times the ranks. */
static bool has_blocks(nx_coll_kind kind)
{
    return (kind != NX_BROADCAST) && (kind != NX_REDUCE) && (kind != NX_ALLREDUCE) &&
           (kind != NX_SCAN) && (kind != NX_EXSCAN) && (kind != NX_BARRIER);
}

static bool has_places(nx_coll_kind kind)
{
    return nxt_may_be_in_place(kind, true);
}

static void check_numbered(nxt_case *c, uint32_t seeds)
{
    case_number++;
    if (!nxt_thin(case_number)) {
        c->seed = nxt_hash(7, case_number, (uint64_t)c->row->kind);
        nxt_check(c, seeds);
        /* Algorithms that can hear from all ranks do so under verify=on. */
        c->heard = c->row->hears;
        if (c->heard) {
            nxt_check(c, seeds);
        }
        c->heard = false;
    }
}

/* Every form of an in-place call. */
static void check_places(nxt_case *c, uint32_t seeds)
{
    for (uint32_t p = 0; p < NXT_PLACES; p++) {
        c->place = (nxt_place)p;
        if ((c->place == NXT_APART) || has_places(c->row->kind)) {
            check_numbered(c, seeds);
        }
    }
}

/* Every root of few ranks; of more ranks the first, the last and one in between. */
static void check_roots(nxt_case *c, uint32_t seeds)
{
    if (!nx_coll_rooted(c->row->kind)) {
        check_places(c, seeds);
        return;
    }
    for (c->root = 0; c->root < c->size; c->root++) {
        bool some = (c->root == 0) || (c->root + 1 == c->size) ||
                    (c->root == (c->count + c->segment) % c->size);

        if ((c->size <= 9) || some) {
            check_places(c, seeds);
        }
    }
    c->root = 0;
}

/* ---- small ------------------------------------------------------------------ */

static void small_counts(const nx_algorithm *row, uint32_t size)
{
    const size_t counts[] = {0, 1, 2, size - 1, size, size + 1, 7, 13, 31, 61};
    const size_t segments[] = {0, 1, 2, 3, 5, 8};

    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        for (size_t s = 0; s < sizeof(segments) / sizeof(segments[0]); s++) {
            nxt_case c = {.row = row, .size = size, .count = counts[i], .segment = segments[s]};

            /* Rows without segments must be right with them, too. */
            if (!row->cut && (s > 0) && (s != 1 + ((i + size) % 5))) {
                continue;
            }
            if ((counts[i] > 2) && (segments[s] == 1) && has_blocks(row->kind) && (size > 9)) {
                continue;
            }
            check_roots(&c, (size <= 9) ? 3 : 1);
            if (row->kind == NX_BARRIER) {
                return;
            }
        }
    }
}

static void small_row(const nx_algorithm *row)
{
    for (uint32_t size = 1; size <= 17; size++) {
        small_counts(row, size);
    }
}

static void test_up_to_17_ranks_every_count_segment_and_root_is_right(void **state)
{
    (void)state;
    nxt_for_rows(small_row);
}

/* ---- layouts ------------------------------------------------------------------ */

static bool knows_hosts(const nx_algorithm *row)
{
    return strncmp(row->name, "twolevel", 8) == 0;
}

static void layouts_row(const nx_algorithm *row)
{
    for (uint32_t size = 1; knows_hosts(row) && (size <= 33); size++) {
        const size_t counts[] = {1, 3, size, (2 * (size_t)size) + 1};

        for (uint32_t i = 0; i < 24; i++) {
            nxt_case c = {.row = row, .size = size, .root = (i * 7) % size, .count = counts[i % 4]};

            c.segment = ((i / 4) % 3 == 0) ? 0 : 1 + (i / 4);
            c.place = has_places(row->kind) ? (nxt_place)(i % NXT_PLACES) : NXT_APART;
            check_numbered(&c, 1);
        }
    }
}

static void test_any_layout_of_ranks_on_hosts_is_right(void **state)
{
    (void)state;
    nxt_for_rows(layouts_row);
}

/* ---- many ranks --------------------------------------------------------------- */

static void check_many(const nx_algorithm *row, uint32_t size, size_t count, size_t segment)
{
    nxt_case c = {.row = row, .size = size, .count = count, .segment = segment};

    c.root = (uint32_t)((count * 37) + segment) % size;
    c.place = has_places(row->kind) ? (nxt_place)(case_number % NXT_PLACES) : NXT_APART;
    check_numbered(&c, 1);
}

static void many_row(const nx_algorithm *row)
{
    static const uint32_t sizes[] = {23, 32, 33, 64, 100, 257};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        uint32_t size = sizes[i];

        /* Through one rank: for few ranks, and its steps wait for n times n others. */
        if ((size > 64) && (strcmp(row->name, "star") == 0)) {
            break;
        }
        for (int again = 0; again < ((size > 64) ? 1 : 3); again++) {
            check_many(row, size, 1, 0);
            check_many(row, size, (size < 100) || !has_blocks(row->kind) ? 5 : 2, 2);
        }
        check_many(row, size, 0, 0);
        if (!has_blocks(row->kind)) {
            check_many(row, size, size - 1, 0);
            check_many(row, size, size, (size > 64) ? size / 8 : 1);
            check_many(row, size, size + 1, 0);
            check_many(row, size, (3 * (size_t)size) + 7, 2);
            check_many(row, size, 1009, 211);
        }
    }
}

static void test_up_to_257_ranks_are_right(void **state)
{
    (void)state;
    nxt_for_rows(many_row);
}

/* ---- long vectors --------------------------------------------------------------- */

static void long_row(const nx_algorithm *row)
{
    static const uint32_t sizes[] = {1, 2, 3, 5, 8};
    static const struct {
        size_t count, segment;
    } shapes[] = {{1009, 16}, {1024, 32}, {499, 3}, {4099, 100}, {257, 1}, {263, 262}, {300, 17}};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        for (size_t s = 0; s < sizeof(shapes) / sizeof(shapes[0]); s++) {
            nxt_case c = {.row = row,
                          .size = sizes[i],
                          .root = (uint32_t)s % sizes[i],
                          .count = shapes[s].count,
                          .segment = shapes[s].segment};

            check_places(&c, row->cut ? 2 : 1);
        }
    }
}

static void test_long_vectors_in_many_segments_are_right(void **state)
{
    (void)state;
    nxt_for_rows(long_row);
}

/* More segments than a tag has numbers for: segments become longer. */
static void segments_row(const nx_algorithm *row)
{
    nxt_case c = {.row = row, .size = 2, .count = (size_t)NX_MAX_SEGMENTS + 3, .segment = 1};
    nxt_trial t = {.dtype = NEXAR_U8, .op = NEXAR_BXOR, .data_seed = 1, .seed = 2};
    nxt_world w;
    nxt_verdict v;

    /* One row of each collective with segments; under sanitizers only one. */
    if (has_blocks(row->kind) || !row->cut ||
        ((row->kind != NX_BROADCAST) && nxt_thin((uint64_t)row->kind))) {
        return;
    }
    if (!nxt_world_init(&w, &c, &v)) {
        nxt_fail_case(&c, NULL, &v);
    }
    bool ok = nxt_world_run(&w, &t, &v);

    nxt_world_fini(&w);
    if (!ok) {
        nxt_fail_case(&c, &t, &v);
    }
}

static void test_more_segments_than_a_tag_can_name_are_right(void **state)
{
    (void)state;
    nxt_for_rows(segments_row);
}

/* ---- orders of events ------------------------------------------------------------- */

static void fan_row(const nx_algorithm *row)
{
    static const uint32_t sizes[] = {2, 3, 4, 5, 7, 8};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        nxt_case c = {.row = row, .size = sizes[i], .root = 1, .count = (2 * sizes[i]) + 1};

        c.segment = row->cut ? 2 : 0;
        check_places(&c, 150);
    }
}

static void test_a_fan_of_event_orders_is_right(void **state)
{
    (void)state;
    nxt_for_rows(fan_row);
}

/* ---- many regions ----------------------------------------------------------------- */

static void bucket_row(const nx_algorithm *row)
{
    static const size_t cuts[] = {1, 2, 5, 40};

    for (uint32_t size = 1; size <= 9; size++) {
        for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++) {
            nxt_case c = {.row = row, .size = size, .count = 11 + (7 * i), .cut = cuts[i]};

            c.place = has_places(row->kind) ? NXT_IN_PLACE : NXT_APART;
            c.root = (uint32_t)i % size;
            for (c.segment = 0; c.segment < 9; c.segment += 4) {
                check_numbered(&c, 1);
            }
        }
    }
}

static void test_buffers_in_many_odd_regions_are_right(void **state)
{
    (void)state;
    nxt_for_rows(bucket_row);
}

/* ---- the hook --------------------------------------------------------------------- */

static void hook_row(const nx_algorithm *row)
{
    for (uint32_t size = 1; (size <= 17) && row->hook; size++) {
        const size_t counts[] = {0, 1, size - 1, size, size + 1, 29, 101};

        for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
            nxt_case c = {.row = row, .size = size, .count = counts[i], .hook = true};

            c.segment = (i % 2 == 0) ? 0 : 4;
            check_places(&c, 2);
        }
    }
}

static void test_the_hook_sees_its_shard_once_and_its_changes_reach_all(void **state)
{
    (void)state;
    nxt_for_rows(hook_row);
}

/* ---- types ------------------------------------------------------------------------ */

static void all_types(nxt_case *c, bool average)
{
    nxt_trial t = {.seed = c->seed, .data_seed = c->seed};
    nxt_world w;
    nxt_verdict v;

    c->average = average;
    if (!nxt_world_init(&w, c, &v)) {
        nxt_fail_case(c, NULL, &v);
    }
    bool ok = true;

    for (int dtype = 0; dtype < NX_DTYPES; dtype++) {
        for (int op = 0; ok && (op < NX_OPS); op++) {
            t.dtype = (nexar_dtype)dtype;
            t.op = (nexar_op)op;
            t.seed++;
            if (nx_reduce_legal(t.dtype, t.op) && ((t.op == NEXAR_AVG) == average)) {
                ok = nxt_world_run(&w, &t, &v);
            }
        }
    }
    nxt_world_fini(&w);
    if (!ok) {
        nxt_fail_case(c, &t, &v);
    }
}

static void types_row(const nx_algorithm *row)
{
    static const uint32_t sizes[] = {1, 2, 3, 5, 8, 13};
    static const size_t counts[] = {1, 17, 70};
    bool scan = (row->kind == NX_SCAN) || (row->kind == NX_EXSCAN);

    for (size_t i = 0; nx_coll_reduces(row->kind) && (i < sizeof(sizes) / sizeof(sizes[0])); i++) {
        for (size_t k = 0; k < sizeof(counts) / sizeof(counts[0]); k++) {
            nxt_case c = {.row = row, .size = sizes[i], .count = counts[k], .root = sizes[i] / 2};

            c.seed = ++case_number;
            c.segment = row->cut ? 9 : 0;
            c.place = (nxt_place)(case_number % NXT_PLACES);
            if (!nxt_thin(case_number)) {
                all_types(&c, false);
            }
            if (!scan && !nxt_thin(case_number)) {
                all_types(&c, true);
            }
        }
    }
}

static void test_every_type_with_every_op_is_right(void **state)
{
    (void)state;
    nxt_for_rows(types_row);
}

/* ---- same bits ---------------------------------------------------------------------- */

static void same_bits(const nxt_case *c, nexar_dtype dtype, nexar_op op)
{
    nxt_trial t = {.dtype = dtype, .op = op, .wild = true, .data_seed = c->seed};
    nxt_world w;
    nxt_verdict v;
    uint64_t first = 0;
    bool ok = true;

    if (!nxt_world_init(&w, c, &v)) {
        nxt_fail_case(c, NULL, &v);
    }
    for (uint32_t i = 0; ok && (i < 4); i++) {
        t.seed = nxt_hash(c->seed, i, 3);
        ok = nxt_world_run(&w, &t, &v);
        first = (i == 0) ? w.digest : first;
        if (ok && (w.digest != first)) {
            ok = nxt_find(&v, NXT_WRONG_DATA, 0, 0, "the result depends on the order of events");
        }
    }
    nxt_world_fini(&w);
    if (!ok) {
        nxt_fail_case(c, &t, &v);
    }
}

static void same_bits_row(const nx_algorithm *row)
{
    static const nexar_dtype types[] = {NEXAR_F32, NEXAR_F64, NEXAR_F16, NEXAR_BF16};
    static const nexar_op ops[] = {NEXAR_SUM, NEXAR_PROD, NEXAR_MIN, NEXAR_MAX};

    for (uint32_t size = 1; nx_coll_reduces(row->kind) && (size <= 13); size++) {
        for (uint32_t k = 0; k < 16; k++) {
            nxt_case c = {.row = row, .size = size, .root = k % size, .count = 23 + k};

            c.seed = ++case_number;
            c.segment = row->cut ? 4 : 0;
            c.place = (nxt_place)(case_number % NXT_PLACES);
            if (!nxt_thin(case_number)) {
                same_bits(&c, types[k % 4], ops[k / 4]);
            }
        }
    }
}

static void test_floats_give_the_same_bits_on_all_ranks_in_any_order_of_events(void **state)
{
    (void)state;
    nxt_for_rows(same_bits_row);
}

/* ---- barrier ------------------------------------------------------------------------ */

static void barrier_row(const nx_algorithm *row)
{
    static const uint32_t more[] = {31, 32, 33, 64};

    for (uint32_t i = 1; (row->kind == NX_BARRIER) && (i <= 21); i++) {
        nxt_case c = {.row = row, .size = (i <= 17) ? i : more[i - 18]};
        nxt_world w;
        nxt_verdict v;

        if (!nxt_world_init(&w, &c, &v)) {
            nxt_fail_case(&c, NULL, &v);
        }
        bool ok = nxt_plan_synchronises(w.plan, &v);

        nxt_world_fini(&w);
        if (!ok) {
            nxt_fail_case(&c, NULL, &v);
        }
    }
}

static void test_nobody_leaves_a_barrier_before_everybody_has_come(void **state)
{
    (void)state;
    nxt_for_rows(barrier_row);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_up_to_17_ranks_every_count_segment_and_root_is_right),
        cmocka_unit_test(test_any_layout_of_ranks_on_hosts_is_right),
        cmocka_unit_test(test_up_to_257_ranks_are_right),
        cmocka_unit_test(test_long_vectors_in_many_segments_are_right),
        cmocka_unit_test(test_more_segments_than_a_tag_can_name_are_right),
        cmocka_unit_test(test_a_fan_of_event_orders_is_right),
        cmocka_unit_test(test_buffers_in_many_odd_regions_are_right),
        cmocka_unit_test(test_the_hook_sees_its_shard_once_and_its_changes_reach_all),
        cmocka_unit_test(test_every_type_with_every_op_is_right),
        cmocka_unit_test(test_floats_give_the_same_bits_on_all_ranks_in_any_order_of_events),
        cmocka_unit_test(test_nobody_leaves_a_barrier_before_everybody_has_come),
    };

    nxt_choose_kinds(argc - 1, argv + 1);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);

    nxt_report((argc > 1) ? argv[1] : "all collectives");
    return failed;
}
