/*
 * hook_order_test.c - no rank ends an allreduce_rs_ag before the hooks of all ranks have returned:
 * an error of a hook would come too late.
 *
 * For each step of each rank: the ranks whose hooks have returned before the step can be done. A
 * step knows what its dependencies know, and a receive what its send knows.
 */
#include <stdlib.h>

#include "coll/algorithms.h"
#include "sched_plan.h"
#include "unit.h"

enum { RANKS = 17 };

typedef struct crowd {
    uint32_t size;
    nx_sched scheds[RANKS];
    uint64_t *known[RANKS]; /* per step: ranks, as bits */
} crowd;

/* The knowledge of the send that the receive |step| of |rank| waits for. */
static uint64_t known_to_sender(const crowd *c, uint32_t rank, const nx_step *step)
{
    const nx_sched *s = &c->scheds[step->peer];

    for (nx_step_id i = 0; i < s->nsteps; i++) {
        const nx_step *other = &s->steps[i];

        if ((other->kind == NX_STEP_SEND) && (other->peer == rank) &&
            (other->round == step->round) && (other->segment == step->segment)) {
            return c->known[step->peer][i];
        }
    }
    return 0;
}

static uint64_t known_now(const crowd *c, uint32_t rank, nx_step_id id)
{
    const nx_sched *s = &c->scheds[rank];
    const nx_step *step = &s->steps[id];
    uint64_t known = (step->kind == NX_STEP_CALL) ? UINT64_C(1) << rank : 0;

    for (uint32_t d = 0; d < step->ndeps; d++) {
        known |= c->known[rank][s->deps[step->deps + d]];
    }
    if ((step->kind == NX_STEP_RECV) || (step->kind == NX_STEP_RECV_REDUCE)) {
        known |= known_to_sender(c, rank, step);
    }
    return known;
}

/* Iterates to the fixed point. */
static void spread(crowd *c)
{
    bool news = true;

    while (news) {
        news = false;
        for (uint32_t r = 0; r < c->size; r++) {
            for (nx_step_id i = 0; i < c->scheds[r].nsteps; i++) {
                const uint64_t known = known_now(c, r, i);

                news = news || (known != c->known[r][i]);
                c->known[r][i] = known;
            }
        }
    }
}

static void check(const nx_algorithm *row, uint32_t size, size_t count)
{
    static crowd c;

    c.size = size;
    for (uint32_t r = 0; r < size; r++) {
        const nx_coll coll = {.kind = NX_ALLREDUCE,
                              .rank = r,
                              .size = size,
                              .count = count,
                              .in_place = true,
                              .hook = true};

        nx_sched_init(&c.scheds[r], 0);
        assert_int_equal(row->build(&c.scheds[r], &coll), NEXAR_OK);
        c.known[r] = nxt_calloc(c.scheds[r].nsteps, sizeof(uint64_t));
    }
    spread(&c);
    for (uint32_t r = 0; r < size; r++) {
        uint64_t known = 0;

        for (nx_step_id i = 0; i < c.scheds[r].nsteps; i++) {
            known |= c.known[r][i];
        }
        if (known != (UINT64_C(1) << size) - 1) {
            fail_msg("%s of %zu elements: rank %u of %u may end when only the hooks of %llx have "
                     "returned",
                     row->name, count, r, size, (unsigned long long)known);
        }
        nx_sched_fini(&c.scheds[r]);
        free(c.known[r]);
    }
}

static void test_no_rank_ends_before_all_hooks_have_returned(void **state)
{
    size_t n;
    const nx_algorithm *rows = nx_algorithms(&n);

    (void)state;
    for (size_t i = 0; i < n; i++) {
        for (uint32_t size = 1; rows[i].hook && (size <= RANKS); size++) {
            for (size_t count = 0; count <= (size_t)size + 2; count++) {
                check(&rows[i], size, count);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_rank_ends_before_all_hooks_have_returned),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
