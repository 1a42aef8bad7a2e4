/* damage.c - compares the cells of a rank with the values it has written. */
#include "damage.h"

bool nx_cell_differs(nx_board_self *self, bool changed, const char *cell)
{
    if (changed) {
        self->damaged = cell;
    }
    return changed;
}

bool nx_slot_is_well(const nx_board *b, nx_board_self *self, uint32_t rank, int k)
{
    const nx_board_slot *s = &b->slots[2 * (size_t)rank + (size_t)k];

    return !nx_cell_differs(self, atomic_load(&s->seq) != self->copy.slots[k].seq, "seq") &&
           !nx_cell_differs(self, atomic_load(&s->mark[0]) != self->copy.slots[k].mark[0],
                            "mark") &&
           !nx_cell_differs(self, atomic_load(&s->mark[1]) != self->copy.slots[k].mark[1],
                            "mark") &&
           !nx_cell_differs(self, atomic_load(&s->declines) != self->copy.slots[k].declines,
                            "declines") &&
           !nx_cell_differs(self, s->lends != self->copy.slots[k].lends, "lends") &&
           !nx_cell_differs(self, s->took_ns != self->copy.slots[k].took_ns, "took_ns");
}

bool nx_steps_are_well(const nx_board *b, nx_board_self *self, uint32_t rank)
{
    const nx_board_rank *r = &b->ranks[rank];

    return !nx_cell_differs(self, atomic_load(&r->step) != self->copy.step, "step") &&
           !nx_cell_differs(self, atomic_load(&r->left) != self->copy.left, "left") &&
           nx_slot_is_well(b, self, rank, 0) && nx_slot_is_well(b, self, rank, 1);
}

/* Checks the cells that change under the lock. */
static bool place_is_well(const nx_board *b, nx_board_self *self, uint32_t rank)
{
    const nx_board_rank *r = &b->ranks[rank];
    const uint64_t bit = UINT64_C(1) << rank;

    return !nx_cell_differs(self, atomic_load(&r->begun) != self->copy.begun, "begun") &&
           !nx_cell_differs(self, atomic_load(&r->engine) != self->copy.engine, "engine") &&
           !nx_cell_differs(self, atomic_load(&r->mapped) != self->copy.mapped, "mapped") &&
           !nx_cell_differs(self, atomic_load(&r->ready) != self->copy.ready, "ready") &&
           !nx_cell_differs(self, (atomic_load(&b->broken) & bit) != 0, "broken") &&
           !nx_cell_differs(self, (rank == 0) && !nx_board_is(b, b->size), "head");
}

bool nx_board_check(nx_board *b, nx_board_self *self, uint32_t rank, bool idle)
{
    if (self->copy.broke) { /* the sentence may have left the board; the rest suffices */
        b->ranks[rank].number = self->copy.number;
        b->ranks[rank].err = self->copy.err;
        atomic_fetch_or(&b->broken, UINT64_C(1) << rank);
        return true;
    }
    return place_is_well(b, self, rank) && (!idle || nx_steps_are_well(b, self, rank));
}

void nx_board_mapped(nx_board *b, nx_board_self *self, uint32_t rank)
{
    self->copy.mapped = 1;
    atomic_store(&b->ranks[rank].mapped, 1);
}

void nx_board_ready_as(nx_board *b, nx_board_self *self, uint32_t rank, nx_board_ready how)
{
    self->copy.ready = how;
    atomic_store(&b->ranks[rank].ready, how);
}
