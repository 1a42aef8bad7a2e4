/*
 * seed_world.h - for tests: a world of the rig that has formed, its members' views,
 * and who waits to be let in.
 */
#ifndef NX_SEED_WORLD_H
#define NX_SEED_WORLD_H

#include "join_rig.h"

/* As rig_init, with a seed whose memory outlives it. */
void rig_init_lasting(rig *r, uint32_t world);

nx_join_phase rig_phase(const rig_joiner *j);
/* The view that |j| has, and must have; it finds itself in it. */
const nx_view *rig_view(const rig_joiner *j);
/* How many wait, as |j| knows. */
uint32_t rig_waits(const rig_joiner *j);

/* A world of two forms. */
void rig_form(rig *r, rig_joiner **a, rig_joiner **b);
/* Time for what is told late. */
void rig_later(rig *r);

/* |j| goes on without the ranks in |bits|, with the |n| members |joined|. */
void rig_go_on(rig_joiner *j, unsigned bits, const nx_member *joined, uint32_t n);
/* With all who wait. */
void rig_let_in(rig_joiner *j);

void rig_assert_same(const rig_joiner *a, const rig_joiner *b);

#endif /* NX_SEED_WORLD_H */
