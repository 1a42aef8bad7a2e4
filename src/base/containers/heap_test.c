/* heap_test.c - the heap agrees with a linear search; edge cases. */
#include "heap.h"

#include "base/random.h"
#include "oom.h"
#include "unit.h"

enum { ITEMS = 200 };

/* The item that the heap should return first, found by a linear search. */
static const nx_heap_item *first_of(const nx_heap_item *items)
{
    const nx_heap_item *first = NULL;

    for (int i = 0; i < ITEMS; i++) {
        const nx_heap_item *it = &items[i];

        if (!nx_heap_holds(it)) {
            continue;
        }
        if ((first == NULL) || (it->key < first->key) ||
            ((it->key == first->key) && (it->order < first->order))) {
            first = it;
        }
    }
    return first;
}

static void test_the_top_is_the_smallest_whatever_goes_in_and_out(void **state)
{
    nx_heap_item items[ITEMS] = {0};
    nx_heap heap = {0};
    nx_random_seeded r;
    size_t n = 0;

    (void)state;
    nx_random_seeded_init(&r, 1);
    for (int turn = 0; turn < 20000; turn++) {
        nx_heap_item *it = &items[nx_random_below(&r.random, ITEMS)];
        uint64_t key = nx_random_below(&r.random, 50);

        if (!nx_heap_holds(it)) {
            assert_int_equal(nx_heap_push(&heap, it, key), NEXAR_OK);
            n++;
        } else if (nx_random_below(&r.random, 3) == 0) {
            nx_heap_move(&heap, it, key);
        } else {
            nx_heap_remove(&heap, it);
            assert_false(nx_heap_holds(it));
            n--;
        }
        assert_int_equal(heap.n, n);
        assert_true(nx_heap_top(&heap) == first_of(items));
    }
    nx_heap_fini(&heap);
}

static void test_equal_keys_come_out_in_the_order_they_went_in(void **state)
{
    nx_heap_item items[100] = {0};
    nx_heap heap = {0};

    (void)state;
    for (int i = 0; i < 100; i++) {
        assert_int_equal(nx_heap_push(&heap, &items[i], 7), NEXAR_OK);
    }
    nx_heap_move(&heap, &items[0], 7);
    for (int i = 1; i <= 100; i++) {
        nx_heap_item *top = nx_heap_top(&heap);

        assert_true(top == &items[i % 100]);
        nx_heap_remove(&heap, top);
    }
    assert_true(nx_heap_top(&heap) == NULL);
    nx_heap_remove(&heap, &items[0]);
    nx_heap_fini(&heap);
}

static void test_without_memory_the_item_stays_out(void **state)
{
    (void)state;
    NXT_FOR_EACH_OOM (n) {
        nx_heap_item items[40] = {0};
        nx_heap heap = {0};
        size_t in = 0;

        for (int i = 0; i < 40; i++) {
            nexar_err err = nx_heap_push(&heap, &items[i], (uint64_t)i);

            assert_int_equal(err, nx_heap_holds(&items[i]) ? NEXAR_OK : NEXAR_ENOMEM);
            in += (err == NEXAR_OK);
        }
        assert_int_equal(heap.n, in);
        assert_int_equal(in, nx_alloc_failed() ? 39 : 40);
        nx_heap_fini(&heap);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_top_is_the_smallest_whatever_goes_in_and_out),
        cmocka_unit_test(test_equal_keys_come_out_in_the_order_they_went_in),
        cmocka_unit_test(test_without_memory_the_item_stays_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
