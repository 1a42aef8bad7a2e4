/* path_choice_test.c - ranks that measure separately make the same choice. */
#include "path_choice.h"

#include <sys/mman.h>

#include "unit.h"

enum { RANKS = 3 };

static nx_coll_call a_call(nx_coll_kind kind, size_t bytes)
{
    return (nx_coll_call){.coll = {.kind = kind, .count = bytes}, .dtype = NEXAR_U8};
}

/* One operation of all ranks, of which |slow| takes |ns|[way] and the others less. Returns its
 * path; all ranks chose it. */
static unsigned operate(nx_path_choice t[RANKS], const nx_coll_call *call, int slow,
                        const uint64_t ns[2])
{
    unsigned way = nx_path_choice_begin(&t[0], call, RANKS);
    uint32_t longest = 0;

    for (int i = 1; i < RANKS; i++) {
        assert_int_equal(nx_path_choice_begin(&t[i], call, RANKS), way);
    }
    for (int i = 0; i < RANKS; i++) {
        longest = (nx_path_choice_time(&t[i]) > longest) ? nx_path_choice_time(&t[i]) : longest;
    }
    for (int i = 0; i < RANKS; i++) {
        nx_path_choice_record(&t[i], longest);
        nx_path_choice_end(&t[i], way, (i == slow) ? ns[way] : 1 + (uint64_t)i);
    }
    return way;
}

static void init(nx_path_choice t[RANKS])
{
    for (int i = 0; i < RANKS; i++) {
        nx_path_choice_init(&t[i]);
    }
}

static void test_all_choose_what_is_faster_for_the_slowest(void **state)
{
    static const uint64_t near[2] = {1000, 3000}, far[2] = {4000, 3000};
    const nx_coll_call call = a_call(NX_BROADCAST, 1 << 20);
    static nx_path_choice t[RANKS];
    unsigned reads = 0;

    (void)state;
    init(t);
    for (int i = 0; i < 1000; i++) {
        reads += operate(t, &call, i % RANKS, near);
    }
    assert_true((reads >= NX_ADAPTIVE_TRY) && (reads < 100));
    reads = 0;
    for (int i = 0; i < 1000; i++) {
        reads += operate(t, &call, i % RANKS, far);
    }
    assert_true(reads > 900);
}

static void test_kinds_and_lengths_are_apart(void **state)
{
    static const uint64_t slots[2] = {1000, 3000}, reads[2] = {3000, 1000};
    const nx_coll_call a = a_call(NX_BROADCAST, 1 << 20), b = a_call(NX_BROADCAST, 64 << 10),
                       c = a_call(NX_SCAN, 1 << 20);
    static nx_path_choice t[RANKS];

    (void)state;
    init(t);
    for (int i = 0; i < 500; i++) {
        (void)operate(t, &a, 0, reads);
        (void)operate(t, &b, 0, slots);
        (void)operate(t, &c, 0, slots);
    }
    assert_int_equal(t[0].ways[NX_BROADCAST * NX_PATH_CHOICE_LENGTHS + 2].now,
                     NX_PATH_CHOICE_READS);
    assert_int_equal(t[0].ways[NX_BROADCAST * NX_PATH_CHOICE_LENGTHS].now, NX_PATH_CHOICE_SLOTS);
    assert_int_equal(t[0].ways[NX_SCAN * NX_PATH_CHOICE_LENGTHS + 2].now, NX_PATH_CHOICE_SLOTS);
}

static void test_an_incomplete_episode_does_not_count(void **state)
{
    static const uint64_t ns[2] = {1000, 900};
    const nx_coll_call call = a_call(NX_ALLGATHER, 1 << 20);
    static nx_path_choice t[RANKS];

    (void)state;
    init(t);
    for (int i = 0; i < 2000; i++) {
        if (i % 3 == 0) { /* some begin it on the board, others run it by the engine immediately */
            (void)nx_path_choice_begin(&t[i % RANKS], &call, RANKS);
            nx_path_choice_undo(&t[i % RANKS]);
        }
        (void)operate(t, &call, 0, ns);
    }
}

static void test_short_ones_and_those_that_would_differ_have_no_choice(void **state)
{
    static const uint64_t ns[2] = {1000, 10};
    const nx_coll_call calls[] = {a_call(NX_BROADCAST, 1 << 10), a_call(NX_ALLREDUCE, 1 << 20),
                                  a_call(NX_REDUCE, 1 << 20), a_call(NX_GATHER, 1 << 20)};
    static nx_path_choice t[RANKS];

    (void)state;
    init(t);
    for (size_t k = 0; k < sizeof(calls) / sizeof(calls[0]); k++) {
        for (int i = 0; i < 100; i++) {
            assert_int_equal(operate(t, &calls[k], 0, ns), NX_PATH_CHOICE_SLOTS);
        }
    }
}

static void test_memory_that_cannot_be_read_is_known(void **state)
{
    enum { PAGE = 4096 };
    uint8_t *at = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    static nx_path_choice t;

    (void)state;
    assert_true(at != MAP_FAILED);
    nx_path_choice_init(&t);
    assert_true(nx_path_choice_readable(&t, 0, at, PAGE));
    assert_int_equal(munmap(at + 2 * PAGE, PAGE), 0);
    assert_true(nx_path_choice_readable(&t, 0, at, 2 * PAGE));
    assert_false(nx_path_choice_readable(&t, 0, at, 3 * PAGE));
    assert_false(nx_path_choice_readable(&t, 1, at + 2 * PAGE, PAGE));
    assert_int_equal(munmap(at, 2 * PAGE), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_choose_what_is_faster_for_the_slowest),
        cmocka_unit_test(test_kinds_and_lengths_are_apart),
        cmocka_unit_test(test_an_incomplete_episode_does_not_count),
        cmocka_unit_test(test_short_ones_and_those_that_would_differ_have_no_choice),
        cmocka_unit_test(test_memory_that_cannot_be_read_is_known),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
