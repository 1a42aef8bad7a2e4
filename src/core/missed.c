/*
 * missed.c - those of whom nothing was found: whether they have left or failed.
 *
 * Where nothing listens, and there never was a link, a process may have left in order, having said
 * good-bye to all that it knew, or have been killed.  Nobody here can tell; the seed can, to which
 * whoever leaves says BYE before its endpoint closes.  Until the seed has answered nothing follows
 * but that messages to the one in question end, as msg has found them impossible.
 */
#include <stdio.h>

#include "base/clock.h"
#include "core/failure_inner.h"

/* So long an answer is waited for: a seed that is there has it in a round trip. */
static const uint64_t ANSWER_NS = UINT64_C(1000000000);

bool nx_missed_ask(nx_failure *f, uint32_t peer)
{
    const nx_world *world = f->world;
    const nx_member *m = (world->view == NULL) ? NULL : nx_view_slot(world->view, peer);

    if ((m == NULL) || (world->join == NULL) || !nx_join_missed(world->join, m->id)) {
        return false;
    }
    (void)nx_rankset_add(&f->asked, peer);
    f->answer_by_ns = nx_loop_now(world->loop) + ANSWER_NS;
    return true;
}

void nx_failure_on_farewell(void *ctx, uint64_t member, nx_farewell how)
{
    nx_world *world = ctx;
    nx_failure *f = world->failure;
    const nx_member *m = (world->view == NULL) ? NULL : nx_view_member(world->view, member);
    char why[NX_FAILURE_WHY], at[NX_TIME_TEXT];

    if ((f == NULL) || (m == NULL) || !nx_rankset_remove(&f->asked, m->slot)) {
        return;
    }
    switch (how) {
    case NX_FAREWELL_SAID:
        nx_failure_leaves(world, m->slot);
        break;
    case NX_FAREWELL_NONE:
        (void)snprintf(why, sizeof(why),
                       "nothing listens there, and it has not said good-bye, at %s",
                       nx_time_text(at));
        nx_failure_learn(world, m->slot, why);
        break;
    case NX_FAREWELL_UNKNOWN:
    case NX_FAREWELLS:
        nx_failure_absent(world, m->slot);
        break;
    }
}

void nx_failure_unanswered(nx_world *world)
{
    nx_failure *f = world->failure;
    uint32_t slot;

    while ((f != NULL) && ((slot = nx_rankset_next(&f->asked, 0)) < f->asked.n)) {
        (void)nx_rankset_remove(&f->asked, slot);
        nx_failure_absent(world, slot);
    }
}

void nx_missed_tick(nx_failure *f, uint64_t now_ns)
{
    if ((f->asked.count > 0) && (now_ns >= f->answer_by_ns)) {
        nx_failure_unanswered(f->world);
    }
}
