/* early_replay.c - passes the frames that were kept for a communicator to their modules. */
#include "early_replay.h"

#include "core/agreement/agreement.h"

static void on_control(void *ctx, const nx_early_frame *f)
{
    nx_world *world = ctx;

    if (!nx_registry_on_control(world->hub, (uint32_t)f->key.from, f->data, f->len)) {
        nx_agreement_take(world, (uint32_t)f->key.from, f->data, f->len);
    }
}

static void on_finished(void *ctx, const nx_early_frame *f)
{
    const nx_world *world = ctx;

    nx_registry_on_finished(world->hub, (uint32_t)f->key.from, (uint32_t)f->key.id, f->data[0]);
}

void nx_early_opened(nx_world *world, uint32_t id)
{
    nx_early_deliver(world->early, NX_EARLY_CONTROL, id, on_control, world);
    nx_early_deliver(world->early, NX_EARLY_FINISHED, id, on_finished, world);
}
