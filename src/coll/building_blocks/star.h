/*
 * star.h - a central rank that receives from all ranks and sends to all.
 *
 * A schedule that sends in one direction only, from or to the central rank, gets empty messages in
 * the other direction here. So no rank completes before all have joined (nx_coll.heard). The other
 * ranks notify the central rank before it sends (come), or it notifies them when it has received
 * everything (go). Two ranks may instead hear from each other by the messages themselves, unless
 * one must know that the other has received what it expects (nx_coll_private).
 */
#ifndef NX_STAR_H
#define NX_STAR_H

#include "coll/coll.h"

/* The |i|-th other rank counted from the root, 0 < i < size. */
static inline uint32_t nx_star_rank(const nx_coll *c, uint32_t i)
{
    return (c->root + i) % c->size;
}

/* Later sends of the root wait for all steps since number |first|. */
static inline void nx_star_gate(nx_sched *s, const nx_coll *c, nx_step_id first)
{
    if ((c->size > 2) || nx_coll_private(c->kind)) {
        nx_sched_gate_since(s, first);
    }
}

/* Before the root's sends: all ranks have joined. End it with nx_sched_gate. */
static inline void nx_star_come(nx_sched *s, const nx_coll *c, uint32_t round)
{
    const nx_ref nothing = nx_at(NX_SPACE_RECV, 0);
    const nx_step_id first = s->nsteps;

    if (!c->heard) {
        return;
    }
    if (c->rank != c->root) {
        nx_send(s, c->root, round, nothing, 0);
        return;
    }
    for (uint32_t i = 1; i < c->size; i++) {
        nx_recv(s, nx_star_rank(c, i), round, nothing, 0);
    }
    nx_star_gate(s, c, first);
}

/* After the root's receives, the steps since number |first|: releases all ranks. */
static inline void nx_star_go(nx_sched *s, const nx_coll *c, uint32_t round, nx_step_id first)
{
    const nx_ref nothing = nx_at(NX_SPACE_RECV, 0);

    if (!c->heard) {
        return;
    }
    if (c->rank != c->root) {
        nx_recv(s, c->root, round, nothing, 0);
        return;
    }
    nx_star_gate(s, c, first);
    for (uint32_t i = 1; i < c->size; i++) {
        nx_send(s, nx_star_rank(c, i), round, nothing, 0);
    }
    nx_sched_gate(s, NX_NO_STEP, NX_NO_STEP);
}

/* At the root: |out| becomes the sum of |in| and of the other ranks' inputs. Receives run
 * concurrently; additions are in order of rank. */
static inline void nx_star_sum(nx_sched *s, const nx_coll *c, uint32_t round, nx_ref in, nx_ref out)
{
    const nx_ref got = nx_sched_scratch(s, (c->size - 1) * c->count);
    nx_ref now = in;

    for (uint32_t i = 1; i < c->size; i++) {
        nx_recv(s, (c->rank + i) % c->size, round, nx_ref_plus(got, (i - 1) * c->count), c->count);
    }
    for (uint32_t i = 1; i < c->size; i++) {
        nx_reduce_local(s, out, now, nx_ref_plus(got, (i - 1) * c->count), c->count);
        now = out;
    }
    nx_copy(s, out, now, c->count);
}

#endif /* NX_STAR_H */
