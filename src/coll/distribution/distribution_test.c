/* distribution_test.c - simulated: every receiver gets every piece, in any order of events. */
#include <stdlib.h>
#include <string.h>

#include "coll/distribution/distribution.h"
#include "rand.h"
#include "sched_sim.h"
#include "unit.h"

enum { RANKS = 40, PIECES = 6, ELEMENTS = 400, TRIALS = 200 };

/* One random distribution, with the memory of all ranks. */
typedef struct trial {
    uint32_t size, receivers[PIECES][RANKS];
    nx_distribution_piece pieces[PIECES];
    nx_distribution d;
    size_t count, segment;
    nx_sched scheds[RANKS];
    nxt_member members[RANKS];
    uint8_t memory[RANKS][ELEMENTS];
    nx_region regions[RANKS][NX_SPACES];
    nx_binding bindings[RANKS];
} trial;

/* Element |i| at its holder. */
static uint8_t content(size_t i)
{
    return (uint8_t)(1 + i % 251);
}

static void draw(trial *t, nxt_rand *r)
{
    size_t off = 0;

    t->size = 2 + nxt_below(r, RANKS - 1);
    t->segment = nxt_below(r, 30);
    t->d = (nx_distribution){.n = 1 + nxt_below(r, PIECES), .pieces = t->pieces};
    for (size_t i = 0; i < t->d.n; i++) {
        nx_distribution_piece *p = &t->pieces[i];

        *p = (nx_distribution_piece){.off = off,
                                     .len = nxt_below(r, ELEMENTS / PIECES),
                                     .holder = nxt_below(r, t->size),
                                     .receivers = t->receivers[i]};
        for (uint32_t rank = 0; rank < t->size; rank++) {
            if ((rank != p->holder) && (nxt_below(r, 3) != 0)) {
                t->receivers[i][p->nreceivers++] = rank;
            }
        }
        if (p->nreceivers == 0) {
            t->receivers[i][p->nreceivers++] = (p->holder + 1) % t->size;
        }
        p->first = nxt_below(r, p->nreceivers);
        off += p->len;
    }
    t->count = off;
}

static void build(trial *t)
{
    for (uint32_t rank = 0; rank < t->size; rank++) {
        const nx_coll c = {.kind = NX_BROADCAST,
                           .rank = rank,
                           .size = t->size,
                           .count = t->count,
                           .distribution = &t->d};

        nx_sched_init(&t->scheds[rank], t->segment);
        assert_int_equal(nx_distribution_algorithm.build(&t->scheds[rank], &c), NEXAR_OK);
        t->members[rank] = (nxt_member){
            .sched = &t->scheds[rank], .room = {0, t->count, 0}, .recv_is_input = true};
    }
}

static void bind(trial *t)
{
    for (uint32_t rank = 0; rank < t->size; rank++) {
        memset(t->memory[rank], 0, sizeof(t->memory[rank]));
        for (size_t i = 0; i < t->d.n; i++) {
            const nx_distribution_piece *p = &t->pieces[i];

            for (size_t k = p->off; (p->holder == rank) && (k < p->off + p->len); k++) {
                t->memory[rank][k] = content(k);
            }
        }
        t->bindings[rank].elem_size = 1;
        for (int space = 0; space < NX_SPACES; space++) {
            t->regions[rank][space] = (nx_region){.ptr = (char *)t->memory[rank], .len = t->count};
            t->bindings[rank].areas[space] =
                (nx_area){.regions = &t->regions[rank][space], .n = (space == NX_SPACE_RECV)};
        }
    }
}

/* Checks that |rank| has exactly the expected content. */
static void check(const trial *t, uint32_t rank)
{
    for (size_t i = 0; i < t->d.n; i++) {
        const nx_distribution_piece *p = &t->pieces[i];
        const bool has = (p->holder == rank) || nx_distribution_receives(p, rank);

        for (size_t k = p->off; k < p->off + p->len; k++) {
            assert_int_equal(t->memory[rank][k], has ? content(k) : 0);
        }
    }
}

static void check_load(const trial *t)
{
    uint64_t sent = 0, received = 0;

    for (uint32_t rank = 0; rank < t->size; rank++) {
        const nx_distribution_load load = nx_distribution_load_of(&t->d, rank, t->segment);

        assert_int_equal(load.sent, t->scheds[rank].tally.sent);
        assert_int_equal(load.received, t->scheds[rank].tally.received);
        sent += load.sent;
        received += load.received;
    }
    assert_int_equal(sent, received);
}

static void every_receiver_gets_every_piece_once(void **state)
{
    trial *t = malloc(sizeof(*t));
    nxt_rand r = {11};

    (void)state;
    assert_non_null(t);
    for (int i = 0; i < TRIALS; i++) {
        nxt_verdict v;
        nxt_plan *plan;

        draw(t, &r);
        build(t);
        plan = nxt_plan_create(t->members, t->size, &v);
        if (plan == NULL) {
            fail_msg("%s", v.text);
        }
        bind(t);
        if (!nxt_plan_run(plan,
                          &(nxt_run){.bindings = t->bindings,
                                     .dtype = NEXAR_U8,
                                     .op = NEXAR_SUM,
                                     .seed = (uint64_t)i},
                          &v)) {
            fail_msg("%s", v.text);
        }
        for (uint32_t rank = 0; rank < t->size; rank++) {
            check(t, rank);
        }
        check_load(t);
        nxt_plan_destroy(plan);
        for (uint32_t rank = 0; rank < t->size; rank++) {
            nx_sched_fini(&t->scheds[rank]);
        }
    }
    free(t);
}

/* In a line no rank sends a byte more than once: a pipeline. */
static void a_long_piece_is_sent_once_by_each_rank(void **state)
{
    static const uint32_t receivers[] = {1, 2, 3, 4};
    const nx_distribution_piece p = {.len = 100, .nreceivers = 4, .receivers = receivers};
    const nx_distribution d = {.n = 1, .pieces = &p};

    (void)state;
    for (uint32_t rank = 0; rank < 5; rank++) {
        assert_int_equal(nx_distribution_load_of(&d, rank, 10).sent, (rank == 4) ? 0 : 100);
    }
    assert_int_equal(nx_distribution_load_of(&d, 0, 100).sent, 300); /* a tree: log2 5 rounds */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_receiver_gets_every_piece_once),
        cmocka_unit_test(a_long_piece_is_sent_once_by_each_rank),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
