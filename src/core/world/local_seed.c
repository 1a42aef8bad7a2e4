/* local_seed.c - a seed that several worlds of one process share. */
#include "core/world/local_seed.h"

#include <stdatomic.h>

#include "base/alloc.h"

struct nx_local_seed {
    nx_seed *seed;
    atomic_uint holds;
};

/* The members report each other's failures themselves. */
static void on_event(void *ctx, const nx_seed_event *event)
{
    (void)ctx;
    if ((event->kind == NX_SEED_REFUSED) || (event->kind == NX_SEED_TIMEOUT) ||
        (event->kind == NX_SEED_STALLED)) {
        nx_seed_log(event);
    }
}

nexar_err nx_local_seed_create(nx_local_seed **out, uint32_t n, uint64_t formation_timeout_ns)
{
    const nx_seed_config config = {
        .world_size = n,
        .listen = "127.0.0.1",
        .interfaces = "",
        .advertise = "",
        .formation_timeout_ns = formation_timeout_ns,
        .on_event = on_event,
    };
    nx_local_seed *s = nx_zalloc(sizeof(*s));
    nexar_err err;

    if (s == NULL) {
        return nx_fail_nomem("a seed");
    }
    err = nx_seed_create(&s->seed, &config);
    if (err != NEXAR_OK) {
        nx_free(s);
        return err;
    }
    atomic_store(&s->holds, 1);
    *out = s;
    return NEXAR_OK;
}

nexar_err nx_local_seed_join_text(const nx_local_seed *s, char *buf, size_t size)
{
    return nx_seed_join_text(s->seed, buf, size);
}

nx_local_seed *nx_local_seed_hold(nx_local_seed *s)
{
    atomic_fetch_add(&s->holds, 1);
    return s;
}

void nx_local_seed_release(nx_local_seed *s)
{
    if ((s != NULL) && (atomic_fetch_sub(&s->holds, 1) == 1)) {
        nx_seed_destroy(s->seed);
        nx_free(s);
    }
}
