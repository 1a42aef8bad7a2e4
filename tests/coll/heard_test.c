/*
 * heard_test.c - with verify=on no rank completes before it has heard, directly or indirectly, from
 * every other rank, whatever the algorithm. Where only two ranks know the length of a block, no
 * rank completes before each has received the length it expects.
 */
#include <stdlib.h>
#include <string.h>

#include "coll/run/compiled_schedule.h"
#include "unit.h"

enum { RANKS = 33 };

/* All ranks of one collective, and the ranks that each step has heard from: a bit for each rank. */
typedef struct world {
    uint32_t size;
    nx_hosts *hosts;
    nx_compiled *programs[RANKS];
    uint64_t *heard[RANKS]; /* by step; 0: it has not ended */
    uint32_t stuck_rank;    /* of this rank ... */
    nx_step_id stuck;       /* ... this step never ends; NX_NO_STEP: all do */
} world;

/* The send that matches the receive |step| of |rank|. */
static nx_step_id find_send(const world *w, uint32_t rank, const nx_step *step)
{
    const nx_sched *s = &w->programs[step->peer]->sched;

    for (nx_step_id id = 0; id < s->nsteps; id++) {
        if ((s->steps[id].kind == NX_STEP_SEND) && (s->steps[id].peer == rank) &&
            (s->steps[id].round == step->round) && (s->steps[id].segment == step->segment)) {
            return id;
        }
    }
    fail_msg("rank %u waits for a message that rank %u does not send", rank, step->peer);
    return NX_NO_STEP;
}

/* Ends step |id| if its dependencies are complete. */
static bool end_step(world *w, uint32_t rank, nx_step_id id)
{
    const nx_sched *s = &w->programs[rank]->sched;
    const nx_step *step = &s->steps[id];
    uint64_t heard = UINT64_C(1) << rank;

    if ((rank == w->stuck_rank) && (id == w->stuck)) {
        return false;
    }
    for (uint32_t d = 0; d < step->ndeps; d++) {
        const uint64_t before = w->heard[rank][s->deps[step->deps + d]];

        if (before == 0) {
            return false;
        }
        heard |= before;
    }
    if ((step->kind == NX_STEP_RECV) || (step->kind == NX_STEP_RECV_REDUCE)) {
        const uint64_t sent = w->heard[step->peer][find_send(w, rank, step)];

        if (sent == 0) {
            return false;
        }
        heard |= sent;
    }
    w->heard[rank][id] = heard;
    return true;
}

static void run(world *w)
{
    bool more = true;

    while (more) {
        more = false;
        for (uint32_t rank = 0; rank < w->size; rank++) {
            for (nx_step_id id = 0; id < w->programs[rank]->sched.nsteps; id++) {
                more = ((w->heard[rank][id] == 0) && end_step(w, rank, id)) || more;
            }
        }
    }
}

/* The ranks that |rank| has heard from when it is done. */
static uint64_t heard_by(const world *w, const nx_algorithm *row, uint32_t rank)
{
    uint64_t all = UINT64_C(1) << rank;

    for (nx_step_id id = 0; id < w->programs[rank]->sched.nsteps; id++) {
        if (w->heard[rank][id] == 0) {
            fail_msg("%s %s, %u ranks: step %u of rank %u never ends", nx_coll_name(row->kind),
                     row->name, w->size, id, rank);
        }
        all |= w->heard[rank][id];
    }
    return all;
}

static void check_heard(const world *w, const nx_algorithm *row, uint32_t root, size_t count)
{
    for (uint32_t rank = 0; rank < w->size; rank++) {
        const uint64_t all = heard_by(w, row, rank);

        if (all != (UINT64_C(1) << w->size) - 1) {
            fail_msg("%s %s, %u ranks, root %u, count %zu: rank %u has heard of %#llx only",
                     nx_coll_name(row->kind), row->name, w->size, root, count, rank,
                     (unsigned long long)all);
        }
    }
}

/* The number of hosts of the cases, with ranks dealt out round-robin; 0: one rank per host. */
static uint32_t hosts_of_cases;

static nx_hosts *make_hosts(uint32_t size)
{
    uint32_t labels[RANKS];
    nx_hosts *hosts = NULL;

    for (uint32_t rank = 0; (hosts_of_cases > 0) && (rank < size); rank++) {
        labels[rank] = rank % hosts_of_cases;
    }
    if (hosts_of_cases > 0) {
        assert_int_equal(nx_hosts_create(&hosts, labels, size), NEXAR_OK);
    }
    return hosts;
}

static void open_world(world *w, const nx_algorithm *row, uint32_t size, uint32_t root,
                       size_t count, bool hears)
{
    const nx_choice choice = {.algorithm = row, .segment = row->cut ? 2 : 0, .hears = hears};

    *w = (world){.size = size, .hosts = make_hosts(size), .stuck = NX_NO_STEP};
    for (uint32_t rank = 0; rank < size; rank++) {
        nx_coll c = {.kind = row->kind,
                     .rank = rank,
                     .size = size,
                     .hosts = w->hosts,
                     .root = root,
                     .count = count};

        c.parts = nx_split_each(count, size);
        c.send_parts = c.parts;
        assert_int_equal(nx_compiled_build(&w->programs[rank], &c, &choice, true), NEXAR_OK);
        w->heard[rank] = calloc(w->programs[rank]->sched.nsteps + 1, sizeof(*w->heard[rank]));
        assert_non_null(w->heard[rank]);
    }
}

static void close_world(world *w)
{
    for (uint32_t rank = 0; rank < w->size; rank++) {
        nx_compiled_release(w->programs[rank]);
        free(w->heard[rank]);
    }
    nx_hosts_destroy(w->hosts);
}

/* Returns the messages of all ranks. */
static uint64_t check_case(const nx_algorithm *row, uint32_t size, uint32_t root, size_t count,
                           bool hears)
{
    uint64_t messages = 0;
    world w;

    open_world(&w, row, size, root, count, hears);
    run(&w);
    check_heard(&w, row, root, count);
    for (uint32_t rank = 0; rank < size; rank++) {
        messages += w.programs[rank]->sched.tally.messages_sent;
    }
    close_world(&w);
    return messages;
}

static bool is_star(const nx_algorithm *row)
{
    return strcmp(row->name, "star") == 0;
}

/* Operations in which a rank could complete early, and those that the check covers newly. */
static bool is_checked(const nx_algorithm *row)
{
    switch ((int)row->kind) {
    case NX_BROADCAST:
    case NX_REDUCE:
    case NX_GATHER:
    case NX_GATHERV:
    case NX_SCATTER:
    case NX_SCATTERV:
    case NX_SCAN:
    case NX_EXSCAN:
    case NX_BARRIER:
    case NX_ALLTOALLV:
        return true;
    default:
        return is_star(row);
    }
}

static void check_row(const nx_algorithm *row)
{
    for (uint32_t size = 1; size <= RANKS; size++) {
        for (uint32_t root = 0; root < size; root++) {
            if ((root > 0) && (!nx_coll_rooted(row->kind) || ((size > 9) && (root != size / 2)))) {
                continue;
            }
            for (size_t count = 0; count <= 5; count += (count == 0) ? 1 : 4) {
                (void)check_case(row, size, root, count, false);
                (void)check_case(row, size, root, count, row->hears);
            }
        }
    }
}

static void test_every_rank_hears_of_all_before_it_is_done(void **state)
{
    size_t n;
    const nx_algorithm *rows = nx_algorithms(&n);

    (void)state;
    for (size_t i = 0; i < n; i++) {
        const uint32_t most = (strncmp(rows[i].name, "twolevel", 8) == 0) ? 3 : 0;

        for (uint32_t hosts = 0; is_checked(&rows[i]) && (hosts <= most); hosts++) {
            hosts_of_cases = hosts;
            check_row(&rows[i]);
        }
    }
    hosts_of_cases = 0;
}

static bool is_done(const world *w, uint32_t rank)
{
    for (nx_step_id id = 0; id < w->programs[rank]->sched.nsteps; id++) {
        if (w->heard[rank][id] == 0) {
            return false;
        }
    }
    return true;
}

/* One message has another length than expected: it never counts as received. */
static void check_stuck(world *w, const nx_algorithm *row, uint32_t root)
{
    for (uint32_t rank = 0; rank < w->size; rank++) {
        memset(w->heard[rank], 0, w->programs[rank]->sched.nsteps * sizeof(*w->heard[rank]));
    }
    run(w);
    for (uint32_t rank = 0; rank < w->size; rank++) {
        if (is_done(w, rank)) {
            fail_msg("%s %s, %u ranks, root %u: rank %u is done, and rank %u has not got its block",
                     nx_coll_name(row->kind), row->name, w->size, root, rank, w->stuck_rank);
        }
    }
}

static void check_all_stuck(const nx_algorithm *row, uint32_t size, uint32_t root)
{
    world w;

    open_world(&w, row, size, root, 2, true);
    for (w.stuck_rank = 0; w.stuck_rank < size; w.stuck_rank++) {
        const nx_sched *s = &w.programs[w.stuck_rank]->sched;

        for (w.stuck = 0; w.stuck < s->nsteps; w.stuck++) {
            if ((s->steps[w.stuck].kind == NX_STEP_RECV) && (s->steps[w.stuck].len != 0)) {
                check_stuck(&w, row, root);
            }
        }
    }
    close_world(&w);
}

static void test_none_is_done_before_each_has_got_what_it_expects(void **state)
{
    size_t n;
    const nx_algorithm *rows = nx_algorithms(&n);

    (void)state;
    for (size_t i = 0; i < n; i++) {
        for (uint32_t size = 2; nx_coll_private(rows[i].kind) && (size <= 9); size++) {
            for (uint32_t root = 0; root < (nx_coll_rooted(rows[i].kind) ? size : 1); root++) {
                check_all_stuck(&rows[i], size, root);
            }
        }
    }
}

static uint64_t messages_of(nx_coll_kind kind, const char *name, uint32_t size, bool hears)
{
    return check_case(nx_algorithm_find(kind, name), size, 0, 2, hears);
}

static void test_it_takes_no_messages_beside_those_of_the_data(void **state)
{
    (void)state;
    assert_int_equal(messages_of(NX_BROADCAST, "star", 4, true), 6);
    assert_int_equal(messages_of(NX_BROADCAST, "star", 4, false), 3 + 8);
    assert_int_equal(messages_of(NX_REDUCE, "star", 8, true), 14);
    assert_int_equal(messages_of(NX_GATHER, "direct", 5, true), 8);
    assert_int_equal(messages_of(NX_SCATTER, "direct", 5, true), 8);
    assert_int_equal(messages_of(NX_ALLTOALL, "star", 4, false), 6);
    assert_int_equal(messages_of(NX_GATHERV, "direct", 5, true), 8);
    /* Algorithms that use a dissemination have exactly its messages. */
    assert_int_equal(messages_of(NX_BROADCAST, "binomial", 8, true), 24);
    assert_int_equal(messages_of(NX_REDUCE, "binomial", 9, true), 36);
    assert_int_equal(messages_of(NX_SCAN, "hillis_steele", 6, true), 18);
    assert_int_equal(messages_of(NX_BROADCAST, "binomial", 2, true), 2);
}

/* The same count may be short in one type and long in another. */
static void test_a_cached_schedule_is_not_reused_for_another_hears_flag(void **state)
{
    const nx_coll c = {.kind = NX_SCAN, .size = 4, .count = 4099};
    nx_choice choice = {.algorithm = nx_algorithm_find(NX_SCAN, "hillis_steele")};
    nx_compiled_cache kept = {0};
    nx_compiled *beside, *heard, *again;

    (void)state;
    assert_int_equal(nx_compiled_cache_get(&kept, &c, &choice, true, &beside), NEXAR_OK);
    choice.hears = true;
    assert_int_equal(nx_compiled_cache_get(&kept, &c, &choice, true, &heard), NEXAR_OK);
    assert_ptr_not_equal(beside, heard);
    assert_int_equal(nx_compiled_cache_get(&kept, &c, &choice, true, &again), NEXAR_OK);
    assert_ptr_equal(heard, again);
    nx_compiled_release(beside);
    nx_compiled_release(heard);
    nx_compiled_release(again);
    nx_compiled_cache_fini(&kept);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_rank_hears_of_all_before_it_is_done),
        cmocka_unit_test(test_none_is_done_before_each_has_got_what_it_expects),
        cmocka_unit_test(test_it_takes_no_messages_beside_those_of_the_data),
        cmocka_unit_test(test_a_cached_schedule_is_not_reused_for_another_hears_flag),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
