/*
 * unreachable.c - those of whom nothing was found: whether they have left or failed.
 *
 * Where nothing listens, and there never was a link, a process may have left in order, having said
 * good-bye to all that it knew, or have been killed.  Nobody here can tell; the seed can, to which
 * a leaving rank sends BYE before its process exits.  Until the seed has answered nothing follows
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

/* Whether the seed was asked about |slot|, and has not answered. */
static bool is_asked(const nx_failure *f, uint32_t slot)
{
    const nx_life_record *r = nx_membership_of(f->members, slot);

    return (r->life == NX_LIFE_SUSPECT) && (r->source == NX_SOURCE_SEED);
}

void nx_unreachable_ask(nx_failure *f, uint32_t peer)
{
    if (ask(f, peer)) {
        nx_failure_suspect(f->world, peer, NX_SOURCE_SEED, NULL);
        f->answer_by_ns = nx_loop_now(f->world->loop) + ANSWER_NS;
    } else {
        nx_failure_absent(f->world, peer, NX_SOURCE_LINK);
    }
}

static void learn_failed(nx_world *world, uint32_t slot)
{
    char why[NX_FAILURE_WHY], at[NX_TIME_TEXT];

    (void)snprintf(why, sizeof(why), "nothing listens there, and it has not said good-bye, at %s",
                   nx_time_text(at));
    nx_failure_failed(world, slot, NX_SOURCE_SEED, why);
}

/* Also of one that is presumed to have left meanwhile. */
void nx_failure_on_farewell(void *ctx, uint64_t member, nx_farewell how)
{
    nx_world *world = ctx;
    const nx_failure *f = world->failure;
    const nx_member *m = (world->view == NULL) ? NULL : nx_view_member(world->view, member);

    if ((f == NULL) || f->quiet || (m == NULL) || (how == NX_FAREWELL_HERE)) {
        return; /* it is asked again (nx_unreachable_tick) */
    }
    if (how == NX_FAREWELL_NONE) {
        if (is_asked(f, m->slot) || nx_membership_of(f->members, m->slot)->presumed) {
            learn_failed(world, m->slot);
        }
    } else if (is_asked(f, m->slot) && (how == NX_FAREWELL_SAID)) {
        nx_failure_left(world, m->slot, NX_SOURCE_SEED);
    } else if (is_asked(f, m->slot)) {
        nx_failure_absent(world, m->slot, NX_SOURCE_SEED);
    }
}

void nx_failure_unanswered(nx_world *world)
{
    const nx_failure *f = world->failure;

    for (uint32_t slot = 0; (f != NULL) && !f->quiet && (slot < world->slots); slot++) {
        if (is_asked(f, slot)) {
            nx_failure_absent(world, slot, NX_SOURCE_SEED);
        }
    }
}

void nx_unreachable_tick(nx_failure *f, uint64_t now_ns)
{
    if (now_ns >= f->answer_by_ns) {
        nx_failure_unanswered(f->world);
    }
    for (uint32_t slot = 0; slot < f->world->slots; slot++) {
        if (is_asked(f, slot)) {
            (void)ask(f, slot); /* the seed may know more */
        }
    }
}
