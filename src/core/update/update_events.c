/* update_events.c - events of joiners and of the seed. */
#include "base/alloc.h"
#include "cluster/join_queue.h"
#include "update_inner.h"

void nx_update_on_waiting(void *ctx, uint32_t n)
{
    nx_world *world = ctx;

    world->waiting = n;
}

void nx_update_on_started(void *ctx, uint64_t epoch)
{
    nx_world *world = ctx;

    world->started = epoch;
    nx_event_set(world->loop, &world->start);
}

void nx_update_on_death(nx_world *world)
{
    nx_event_set(world->loop, &world->start);
}

void nx_update_on_seed(nx_world *world, bool there)
{
    world->seed_away = !there;
    nx_event_set(world->loop, &world->start);
}

nexar_err nx_update_read(const nx_consensus_value *v, uint32_t *most, nx_member **joined,
                         uint32_t *n)
{
    nx_reader r = nx_reader_make(v->payload, v->payload_len);

    *joined = NULL;
    *n = 0;
    *most = UINT32_MAX;
    if (v->payload_len == 0) {
        return NEXAR_OK;
    }
    *most = nx_read_u32(&r);
    return nx_join_queue_decode(&r, joined, n);
}

bool nx_update_expects(const nx_world *world, uint64_t member, nx_member *out)
{
    const nx_consensus_value *v =
        (world->comm == NULL) ? NULL : nx_agreement_accepted(world->comm->active);
    nx_member *joined = NULL;
    uint32_t n = 0, most;
    bool found = false;

    if ((v == NULL) || (nx_update_read(v, &most, &joined, &n) != NEXAR_OK)) {
        return false;
    }
    for (uint32_t i = 0; !found && (i < n); i++) {
        found = (joined[i].id == member);
        if (found && (out != NULL)) {
            *out = joined[i];
        }
    }
    nx_free(joined);
    return found;
}

uint32_t nx_update_handlers_of(void *ctx, uint32_t id)
{
    const nx_world *world = ctx;
    const nx_incarnation *inc = nx_incarnation_find(world, id);
    const nx_consensus_value *v;

    if ((inc != NULL) || (world->comm == NULL)) {
        return (inc == NULL) ? id : inc->comm->handlers;
    }
    v = nx_agreement_accepted(world->comm->active);
    return ((id == world->before) || ((v != NULL) && (id == (uint32_t)v->highest)))
               ? world->comm->handlers
               : id;
}
