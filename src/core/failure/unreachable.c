/*
 * unreachable.c - unreachable ranks: whether they have left or failed.
 *
 * No process listens at the rank's address, and there never was a link.  The process may have left
 * in order, after goodbyes to all ranks that it knew, or it may have been killed.  No rank can
 * tell; the seed can, since a leaving rank sends BYE to the seed before its process exits.  Until
 * the seed has answered, only the messages to the rank end, since msg has found them impossible.
 */
#include <stdio.h>

#include "base/clock.h"
#include "core/failure/failure_inner.h"
#include "core/world/transport_choice.h"

/* How long this rank waits for the seed's answer.  If the process has exited on this host, or has
 * sent its goodbye, the seed answers in a round trip.  For other ranks the seed must probe; a host
 * may refuse only one probe per second. */
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

/* Also for a rank that is presumed to have left meanwhile. */
void nx_failure_on_farewell(void *ctx, uint64_t member, nx_farewell how)
{
    nx_world *world = ctx;
    const nx_failure *f = world->failure;
    const nx_member *m = (world->view == NULL) ? NULL : nx_view_member(world->view, member);

    if ((f == NULL) || f->quiet || (m == NULL) || (how == NX_FAREWELL_HERE)) {
        return; /* the seed is asked again (nx_unreachable_tick) */
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
