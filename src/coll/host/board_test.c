/* board_test.c - the board between threads: episodes, sleeping, ranks that do not arrive. */
#include "board.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "rand.h"
#include "unit.h"
#include "waits.h"

enum { RANKS = 4, TURNS = 3000, AHEAD = 64 };
/* Where cores are scarce each episode may take as long as the kernel lets other threads run. */
static const uint64_t ENOUGH_NS = UINT64_C(4000000000);

typedef struct crowd crowd;

/* One rank: a thread. */
typedef struct member {
    crowd *crowd;
    nx_episode t;
    nx_board_self self;
    uint64_t engine; /* operations run elsewhere */
    uint64_t wrong;
    nx_episode_end end;
    pthread_t thread;
} member;

struct crowd {
    nx_board *board;
    member m[RANKS];
    nx_wait_policy waits;
    uint64_t began_ns;
    _Atomic uint64_t last; /* number of an operation */
};

static void open_crowd(crowd *c, uint64_t spin_ns)
{
    *c = (crowd){
        .waits = nxt_waits(spin_ns, false), .began_ns = nx_now(&nx_clock_system), .last = TURNS};
    assert_int_equal(posix_memalign((void **)&c->board, NX_BOARD_LINE, nx_board_bytes(RANKS)), 0);
    memset(c->board, 0, nx_board_bytes(RANKS));
    nx_board_init(c->board, RANKS, true);
    assert_true(nx_board_is(c->board, RANKS));
    assert_false(nx_board_is(c->board, RANKS + 1));
    for (uint32_t i = 0; i < RANKS; i++) {
        c->m[i].crowd = c;
        c->m[i].t = (nx_episode){.board = c->board,
                                 .rank = i,
                                 .size = RANKS,
                                 .waits = &c->waits,
                                 .clock = &nx_clock_system,
                                 .self = &c->m[i].self};
    }
}

static void run_crowd(crowd *c, void *(*fn)(void *arg))
{
    for (int i = 0; i < RANKS; i++) {
        assert_int_equal(pthread_create(&c->m[i].thread, NULL, fn, &c->m[i]), 0);
    }
    for (int i = 0; i < RANKS; i++) {
        assert_int_equal(pthread_join(c->m[i].thread, NULL), 0);
    }
}

static nexar_err close_crowd(crowd *c)
{
    uint64_t wrong = 0;

    for (int i = 0; i < RANKS; i++) {
        wrong += c->m[i].wrong;
    }
    free(c->board);
    return (wrong == 0) ? NEXAR_OK : NEXAR_EINTERNAL;
}

/* ---- episodes ------------------------------------------------------------------------ */

static uint64_t brings(uint32_t rank, uint64_t number)
{
    return (number * 31 + rank) * 7;
}

/* One complete operation; returns how it ended. */
static nx_episode_end one_turn(member *m, uint64_t number, bool declines)
{
    const uint64_t mark[2] = {number, 5};
    uint64_t value, its[2];
    nx_episode_end end;

    m->t.number = number;
    nx_board_begun(m->t.board, &m->self, m->t.rank, number);
    value = brings(m->t.rank, number);
    memcpy(nx_episode_open(&m->t), &value, sizeof(value));
    nx_episode_arrive(&m->t, mark, declines);
    end = nx_episode_all_here(&m->t);
    if (end != NX_EPISODE_ON) {
        return end;
    }
    m->wrong += (nx_episode_odd_one(&m->t, mark, its) != RANKS);
    for (uint32_t i = 0; i < RANKS; i++) {
        memcpy(&value, nx_episode_slot(&m->t, i)->data, sizeof(value));
        m->wrong += (value != brings(i, number));
    }
    m->t.turn++;
    return NX_EPISODE_ON;
}

/* Whether operation |number| is one that all ranks run on the board. At the end of the time the
 * first rank names the last operation, beyond any that another rank may have begun. */
static bool goes_on(member *m, uint64_t number)
{
    crowd *c = m->crowd;

    if ((m->t.rank == 0) && (number + AHEAD < atomic_load(&c->last)) &&
        (nx_now(&nx_clock_system) - c->began_ns > ENOUGH_NS)) {
        atomic_store(&c->last, number + AHEAD);
    }
    return number <= atomic_load(&c->last);
}

static void *many_turns(void *arg)
{
    member *m = arg;

    for (uint64_t number = 1; goes_on(m, number); number++) {
        m->wrong += (one_turn(m, number, false) != NX_EPISODE_ON);
        if (number % 3 == 0) {
            m->wrong += (nx_episode_all_at(&m->t, NX_EPISODE_DONE) != NX_EPISODE_ON);
        }
    }
    return NULL;
}

static void test_each_sees_what_all_bring(void **state)
{
    static const uint64_t spins[] = {0, 1000, 50000};
    crowd c;

    (void)state;
    for (size_t i = 0; i < sizeof(spins) / sizeof(spins[0]); i++) {
        open_crowd(&c, spins[i]);
        run_crowd(&c, many_turns);
        assert_int_equal(close_crowd(&c), NEXAR_OK);
    }
}

/* ---- ranks that do not arrive -------------------------------------------------------- */

/* Some ranks run an operation by the engine, some decline, each at random: all ranks must reach the
 * same end of each operation, and complete every operation that all run here. */
static void *with_absences(void *arg)
{
    member *m = arg;
    nxt_rand all = {.state = 7};

    for (uint64_t number = 1; goes_on(m, number); number++) {
        const uint64_t dice = nxt_next(&all) % 16, who = nxt_next(&all) % RANKS;

        if ((dice == 0) && (who == m->t.rank)) {
            nx_board_engine(m->t.board, &m->self, m->t.rank, number);
            m->engine++;
        } else {
            const bool declines = (dice == 1) && (who == m->t.rank);
            const nx_episode_end end = one_turn(m, number, declines);

            m->wrong += (end != ((dice <= 1) ? NX_EPISODE_ENGINE : NX_EPISODE_ON));
            if (end == NX_EPISODE_ENGINE) {
                nx_board_engine(m->t.board, &m->self, m->t.rank, number);
                m->engine++;
            }
        }
    }
    return NULL;
}

static void test_an_operation_that_one_runs_elsewhere_all_run_elsewhere(void **state)
{
    static const uint64_t spins[] = {0, 20000};
    crowd c;

    (void)state;
    for (size_t i = 0; i < sizeof(spins) / sizeof(spins[0]); i++) {
        open_crowd(&c, spins[i]);
        run_crowd(&c, with_absences);
        for (int k = 1; k < RANKS; k++) {
            assert_int_equal(c.m[k].engine, c.m[0].engine);
            assert_int_equal(c.m[k].t.turn, c.m[0].t.turn);
        }
        assert_true(c.m[0].engine > 0);
        assert_int_equal(close_crowd(&c), NEXAR_OK);
    }
}

/* ---- errors -------------------------------------------------------------------------- */

/* The last rank breaks the board instead of arriving; the others may sleep by then. */
static void *broken_in_the_end(void *arg)
{
    member *m = arg;
    char why[NX_BOARD_WHY];

    for (uint64_t number = 1; number < 100; number++) {
        m->wrong += (one_turn(m, number, false) != NX_EPISODE_ON);
    }
    if (m->t.rank == RANKS - 1) {
        nx_board_break(m->t.board, &m->self, m->t.rank, 100, NEXAR_EPEER, "it hurts");
        m->t.number = 100;
        m->end = nx_episode_check(&m->t);
    } else {
        m->end = one_turn(m, 100, false);
    }
    m->wrong += (m->end != NX_EPISODE_BROKEN);
    m->wrong += (nx_episode_trouble(&m->t, why) != NEXAR_EPEER) || (strcmp(why, "it hurts") != 0);
    m->t.number = 101;
    m->wrong += (nx_episode_check(&m->t) != NX_EPISODE_ENGINE);
    m->t.number = 99;
    m->wrong += (nx_episode_check(&m->t) != NX_EPISODE_ON);
    return NULL;
}

static void test_an_error_wakes_all_ranks_with_the_reason(void **state)
{
    crowd c;

    (void)state;
    for (int i = 0; i < 20; i++) {
        open_crowd(&c, (i % 2 == 0) ? 0 : 20000);
        run_crowd(&c, broken_in_the_end);
        assert_int_equal(close_crowd(&c), NEXAR_OK);
    }
}

/* The memory is shared: any other rank may have written anything. */
static void test_an_error_is_reported_in_one_line(void **state)
{
    char why[NX_BOARD_WHY];
    crowd c;

    (void)state;
    open_crowd(&c, 0);
    nx_board_break(c.board, &c.m[1].self, 1, 1, NEXAR_EPEER, "it hurts\n\033[2J\xc3\xa4");
    c.m[0].t.number = 1;
    assert_int_equal(nx_episode_check(&c.m[0].t), NX_EPISODE_BROKEN);
    assert_int_equal(nx_episode_trouble(&c.m[0].t, why), NEXAR_EPEER);
    assert_string_equal(why, "it hurts??[2J\xc3\xa4");
    assert_int_equal(close_crowd(&c), NEXAR_OK);
}

static void test_a_wait_ends_with_its_deadline(void **state)
{
    crowd c;
    member *m = &c.m[0];

    (void)state;
    open_crowd(&c, 0);
    m->t.deadline_ns = nx_now(&nx_clock_system) + 2000000;
    assert_int_equal(one_turn(m, 1, false), NX_EPISODE_LATE);
    assert_int_equal(nx_episode_missing(&m->t), (1 << RANKS) - 2);
    assert_int_equal(close_crowd(&c), NEXAR_OK);
}

/* A clock that advances by a microsecond per reading. */
static uint64_t tick(void *ctx)
{
    return *(uint64_t *)ctx += 1000;
}

static void test_a_wait_takes_its_time_from_the_clock_of_its_turn(void **state)
{
    uint64_t now_ns = UINT64_C(1) << 40;
    const nx_clock clock = {.now_ns = tick, .ctx = &now_ns};

    (void)state;
    for (int crowded = 0; crowded < 2; crowded++) {
        crowd c;
        member *m = &c.m[0];

        open_crowd(&c, 20000);
        c.waits.crowded = (crowded == 1);
        m->t.clock = &clock;
        m->t.deadline_ns = now_ns + 10000; /* while it polls */
        assert_int_equal(one_turn(m, 1, false), NX_EPISODE_LATE);
        assert_true(now_ns < m->t.deadline_ns + 10000);
        assert_int_equal(close_crowd(&c), NEXAR_OK);
    }
}

/* A completed wait does not fail by a later error. */
static void test_what_is_there_counts_more_than_trouble(void **state)
{
    crowd c;

    (void)state;
    open_crowd(&c, 0);
    for (uint32_t i = 1; i < RANKS; i++) {
        const uint64_t value = brings(i, 1), mark[2] = {1, 5};

        c.m[i].t.number = 1;
        memcpy(nx_episode_open(&c.m[i].t), &value, sizeof(value));
        nx_episode_arrive(&c.m[i].t, mark, false);
    }
    nx_board_break(c.board, &c.m[1].self, 1, 1, NEXAR_EPEER, "too late");
    assert_int_equal(one_turn(&c.m[0], 1, false), NX_EPISODE_ON);
    assert_int_equal(close_crowd(&c), NEXAR_OK);
}

/* A rank that arrives late, repeatedly, and one that waits for it. */
static void *come_late(void *arg)
{
    member *m = arg;
    const struct timespec span = {.tv_nsec = 100000};

    for (uint64_t number = 1; number <= AHEAD; number++) {
        if (m->t.rank == 0) {
            (void)nanosleep(&span, NULL);
        }
        m->wrong += (one_turn(m, number, false) != NX_EPISODE_ON);
        m->wrong += (m->self.waits.poll_ns > nx_wait_longest(m->t.waits));
    }
    return NULL;
}

static void test_what_waits_learn_keeps_its_bound(void **state)
{
    crowd c;

    (void)state;
    open_crowd(&c, 20000);
    run_crowd(&c, come_late);
    assert_int_equal(close_crowd(&c), NEXAR_OK);
}

/* ---- damage -------------------------------------------------------------------------- */

/* Each cell of a rank, and its bit of the board. */
static void test_a_rank_notices_what_another_has_written_into_its_cells(void **state)
{
    crowd c;

    (void)state;
    open_crowd(&c, 0);
    nx_board_rank *r = &c.board->ranks[1];
    nx_board_slot *s = &c.board->slots[2]; /* of rank 1 */
    nx_board_self *self = &c.m[1].self;
    _Atomic uint64_t *wide[] = {&r->begun, &r->engine, &r->step,      &r->left,
                                &s[0].seq, &s[1].seq,  &s[0].mark[0], &s[1].mark[1]};
    _Atomic uint32_t *narrow[] = {&r->mapped, &r->ready, &s[0].declines, &s[1].declines};

    assert_true(nx_board_check(c.board, self, 1, true));
    for (size_t i = 0; i < sizeof(wide) / sizeof(wide[0]); i++) {
        atomic_fetch_add(wide[i], 256);
        assert_false(nx_board_check(c.board, self, 1, true));
        assert_non_null(self->damaged);
        atomic_fetch_sub(wide[i], 256);
        assert_true(nx_board_check(c.board, self, 1, true));
    }
    for (size_t i = 0; i < sizeof(narrow) / sizeof(narrow[0]); i++) {
        atomic_fetch_add(narrow[i], 1);
        assert_false(nx_board_check(c.board, self, 1, true));
        atomic_fetch_sub(narrow[i], 1);
    }
    atomic_store(&c.board->broken, 4); /* the third rank has reported nothing: its bit is ignored */
    assert_true(nx_board_check(c.board, self, 1, true));
    c.m[1].t.number = 5;
    assert_int_equal(nx_episode_check(&c.m[1].t), NX_EPISODE_ON);
    assert_false(nx_board_check(c.board, &c.m[2].self, 2, true));
    nx_board_break(c.board, self, 1, 5, NEXAR_EPROTO, "damaged");
    atomic_store(&c.board->broken, 0);
    assert_true(nx_board_check(c.board, self, 1, true)); /* it repeats the report */
    assert_int_equal(nx_episode_check(&c.m[1].t), NX_EPISODE_BROKEN);
    assert_int_equal(close_crowd(&c), NEXAR_OK);
}

/* The last rank arrives while the others sleep, but does not see that they do. */
static void *lose_a_wake(void *arg)
{
    member *m = arg;

    if (m->t.rank != RANKS - 1) {
        m->t.check_ns = 1000000;
        m->wrong += (one_turn(m, 1, false) != NX_EPISODE_ON);
        return NULL;
    }
    while (atomic_load(&m->t.board->ranks[m->t.rank].asleep) == 0) {
        (void)sched_yield();
    }
    m->t.number = 1;
    (void)nx_episode_open(&m->t);
    atomic_store(&m->t.board->ranks[m->t.rank].asleep, 0);
    nx_episode_arrive(&m->t, (const uint64_t[2]){1, 5}, false);
    return NULL;
}

static void test_a_flag_that_was_written_over_loses_no_wake(void **state)
{
    crowd c;

    (void)state;
    for (int i = 0; i < 20; i++) {
        open_crowd(&c, 0);
        for (uint32_t k = 0; k < RANKS; k++) {
            const uint64_t value = brings(k, 1);

            memcpy(c.board->slots[2 * (size_t)k].data, &value, sizeof(value));
        }
        run_crowd(&c, lose_a_wake);
        assert_int_equal(close_crowd(&c), NEXAR_OK);
    }
}

/* Impossible states for a reader: a rank that is ahead, but has not done the steps before. */
static void test_a_reader_does_not_believe_what_cannot_be(void **state)
{
    crowd c;
    nx_episode *t;

    (void)state;
    open_crowd(&c, 0);
    t = &c.m[0].t;
    t->number = 7;
    for (uint32_t i = 0; i < RANKS; i++) {
        atomic_store(&c.board->slots[2 * (size_t)i].seq, 7);
    }
    assert_int_equal(nx_episode_all_here(t), NX_EPISODE_ON);
    atomic_store(&c.board->slots[4].seq, 9);
    assert_int_equal(nx_episode_all_here(t), NX_EPISODE_DAMAGED);
    atomic_store(&c.board->ranks[2].engine, 7); /* it ran that operation by the engine */
    assert_int_equal(nx_episode_all_here(t), NX_EPISODE_ENGINE);

    atomic_store(&c.board->ranks[1].step, UINT64_C(9) << NX_EPISODE_STEP_BITS | 1);
    assert_int_equal(nx_episode_wait_for(t, 1, 1), NX_EPISODE_DAMAGED);
    atomic_store(&c.board->ranks[1].begun, 9);
    assert_int_equal(nx_episode_wait_for(t, 1, 1), NX_EPISODE_ON);

    atomic_store(&c.board->ranks[3].left, 7); /* for no reason */
    t->check_ns = 1000000;
    assert_int_equal(nx_episode_wait_for(t, 3, 1), NX_EPISODE_DAMAGED);
    assert_int_equal(close_crowd(&c), NEXAR_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_sees_what_all_bring),
        cmocka_unit_test(test_an_operation_that_one_runs_elsewhere_all_run_elsewhere),
        cmocka_unit_test(test_an_error_wakes_all_ranks_with_the_reason),
        cmocka_unit_test(test_an_error_is_reported_in_one_line),
        cmocka_unit_test(test_a_wait_ends_with_its_deadline),
        cmocka_unit_test(test_a_wait_takes_its_time_from_the_clock_of_its_turn),
        cmocka_unit_test(test_what_is_there_counts_more_than_trouble),
        cmocka_unit_test(test_what_waits_learn_keeps_its_bound),
        cmocka_unit_test(test_a_rank_notices_what_another_has_written_into_its_cells),
        cmocka_unit_test(test_a_flag_that_was_written_over_loses_no_wake),
        cmocka_unit_test(test_a_reader_does_not_believe_what_cannot_be),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
