/*
 * seed_world.h - for tests: a world of the rig that has formed, its members' views, and the
 * joiners that wait for admission.
 */
#ifndef NX_SEED_WORLD_H
#define NX_SEED_WORLD_H

#include "join_rig.h"

/* As rig_init, with a seed whose memory outlives it. */
void rig_init_lasting(rig *r, uint32_t world);

nx_join_phase rig_phase(const rig_joiner *j);
/* The view of |j|; asserts that it exists and contains |j|. */
const nx_view *rig_view(const rig_joiner *j);
/* The number of waiting joiners that |j| knows. */
uint32_t rig_waits(const rig_joiner *j);

/* Forms a world of two. */
void rig_form(rig *r, rig_joiner **a, rig_joiner **b);
/* Lets time pass for delayed notifications. */
void rig_later(rig *r);

/* |j| continues without the ranks in |bits|, with the |n| members |joined|. */
void rig_go_on(rig_joiner *j, unsigned bits, const nx_member *joined, uint32_t n);
/* |j| admits all waiting joiners. */
void rig_let_in(rig_joiner *j);

void rig_assert_same(const rig_joiner *a, const rig_joiner *b);

#endif /* NX_SEED_WORLD_H */
