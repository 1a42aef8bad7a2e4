/* seed_world.c - a world of the rig: it forms, continues without failed ranks, and admits
 * joiners. */
#include "seed_world.h"

#include <string.h>

#include "unit.h"

#define SECOND UINT64_C(1000000000)

void rig_init_lasting(rig *r, uint32_t world)
{
    rig_init(r, world, 0, 3);
    nx_seed_state_destroy(r->seed);
    r->rules.lasting = true;
    rig_seed(r);
}

nx_join_phase rig_phase(const rig_joiner *j)
{
    return nx_join_state_phase(j->state);
}

const nx_view *rig_view(const rig_joiner *j)
{
    uint32_t rank;
    const nx_view *view = nx_join_state_view(j->state, &rank);

    assert_non_null(view);
    assert_int_equal(view->members[rank].id, j->member);
    return view;
}

uint32_t rig_waits(const rig_joiner *j)
{
    return nx_join_state_waiting(j->state)->n;
}

void rig_form(rig *r, rig_joiner **a, rig_joiner **b)
{
    *a = rig_join_as(r, 0, 0);
    *b = rig_join_as(r, 1, 0);
    rig_run(r);
    assert_int_equal(rig_phase(*a), NX_JOIN_FORMED);
    assert_int_equal(rig_phase(*b), NX_JOIN_FORMED);
}

void rig_later(rig *r)
{
    rig_run_until(r, r->now + SECOND / 2);
}

void rig_go_on(rig_joiner *j, unsigned bits, const nx_member *joined, uint32_t n)
{
    nx_rankset gone;

    assert_int_equal(nx_rankset_init(&gone, rig_view(j)->size), NEXAR_OK);
    for (uint32_t i = 0; i < 32; i++) {
        if ((bits >> i & 1) != 0) {
            (void)nx_rankset_add(&gone, i);
        }
    }
    assert_int_equal(nx_join_state_advance(j->state, &gone, joined, n, 7), NEXAR_OK);
    nx_rankset_fini(&gone);
}

void rig_let_in(rig_joiner *j)
{
    const nx_join_queue *waiting = nx_join_state_waiting(j->state);
    nx_member joined[8];
    const uint32_t n = waiting->n;

    assert_in_range(n, 1, 8);
    memcpy(joined, waiting->list, n * sizeof(joined[0]));
    rig_go_on(j, 0, joined, n);
    assert_int_equal(rig_waits(j), 0);
}

void rig_assert_same(const rig_joiner *a, const rig_joiner *b)
{
    const nx_view *x = rig_view(a), *y = rig_view(b);

    assert_int_equal(x->epoch, y->epoch);
    assert_int_equal(x->size, y->size);
    assert_int_equal(x->world, y->world);
    assert_int_equal(x->slots, y->slots);
    assert_memory_equal(x->members, y->members, x->size * sizeof(x->members[0]));
}
