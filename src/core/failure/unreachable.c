/*
 * unreachable.c - those of whom nothing was found: whether they have left or failed.
 *
 * Where nothing listens, and there never was a link, a process may have left in order, having said
 * good-bye to all that it knew, or have been killed.  Nobody here can tell; the seed can, to which
 * whoever leaves says BYE before its process ends.  Until the seed has answered nothing follows
 * but that messages to the one in question end, as msg has found them impossible.
 */
#include <stdio.h>

#include "base/clock.h"
#include "core/failure/failure_inner.h"
#include "core/world/transport_choice.h"

/* So long an answer is waited for.  Of one whose process has ended on this host, or that has said
 * good-bye, the seed has it in a round trip; of another it finds out, as its host says that nothing
 * listens there, which may be once a second. */
static const uint64_t ANSWER_NS = UINT64_C(2000000000);

static bool ask(const nx_failure *f, uint32_t peer)
{
    const nx_world *world = f->world;
    const nx_member *m = (world->view == NULL) ? NULL : nx_view_slot(world->view, peer);

    return (m != NULL) && (world->join != NULL) &&
           nx_join_missed(world->join, m->id,
                          nx_links_same_host(world, m) && nx_process_ended(&m->process));
}

bool nx_unreachable_ask(nx_failure *f, uint32_t peer)
{
    if (!ask(f, peer)) {
        return false;
    }
    (void)nx_rankset_add(&f->asked, peer);
    f->answer_by_ns = nx_loop_now(f->world->loop) + ANSWER_NS;
    return true;
}

static void learn_failed(nx_world *world, uint32_t slot)
{
    char why[NX_FAILURE_WHY], at[NX_TIME_TEXT];

    (void)snprintf(why, sizeof(why), "nothing listens there, and it has not said good-bye, at %s",
                   nx_time_text(at));
    nx_failure_learn(world, slot, why);
}

/* Also of one that has been taken for absent meanwhile. */
void nx_failure_on_farewell(void *ctx, uint64_t member, nx_farewell how)
{
    nx_world *world = ctx;
    nx_failure *f = world->failure;
    const nx_member *m = (world->view == NULL) ? NULL : nx_view_member(world->view, member);
    bool was_asked;

    if ((f == NULL) || (m == NULL) || (how == NX_FAREWELL_HERE)) {
        return; /* it is asked again (nx_unreachable_tick) */
    }
    was_asked = nx_rankset_remove(&f->asked, m->slot);
    if (how == NX_FAREWELL_NONE) {
        if (was_asked || nx_rankset_has(&f->absent, m->slot)) {
            learn_failed(world, m->slot);
        }
    } else if (was_asked && (how == NX_FAREWELL_SAID)) {
        nx_failure_leaves(world, m->slot);
    } else if (was_asked) {
        nx_failure_absent(world, m->slot);
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

void nx_unreachable_tick(nx_failure *f, uint64_t now_ns)
{
    if ((f->asked.count > 0) && (now_ns >= f->answer_by_ns)) {
        nx_failure_unanswered(f->world);
    }
    for (uint32_t slot = 0; (slot = nx_rankset_next(&f->asked, slot)) < f->asked.n; slot++) {
        (void)ask(f, slot); /* the seed may know more */
    }
}
