/* registry.c - the groups of a world: life, members, dispatch of frames. */
#include "base/alloc.h"
#include "coll/host/host_coll.h"
#include "group_inner.h"
#include "msg/control.h"

/* ---- life ---------------------------------------------------------------------------- */

nexar_err nx_registry_create(nx_registry **out, const nx_registry_config *config)
{
    nx_registry *hub = nx_zalloc(sizeof(*hub));

    if (hub == NULL) {
        return nx_fail_nomem("collectives");
    }
    hub->config = *config;
    nx_task_init(&hub->task, nx_group_on_trouble);
    hub->tick.on_expire = nx_group_on_tick;
    *out = hub;
    return NEXAR_OK;
}

void nx_registry_destroy(nx_registry *hub)
{
    nx_loop_undefer(&hub->task);
    nx_loop_timer_cancel(hub->config.loop, &hub->tick);
    nx_group_drop_early(hub, NULL);
    nx_map_fini(&hub->early);
    nx_map_fini(&hub->groups);
    nx_free(hub);
}

uint64_t nx_group_timeout(const nx_group *g)
{
    return (g->timeout_ns != 0) ? g->timeout_ns : g->hub->config.timeout_ns;
}

const nx_registry_config *nx_registry_config_of(const nx_registry *hub)
{
    return &hub->config;
}

nexar_err nx_group_open(nx_group *g)
{
    g->next = 1;
    nx_list_init(&g->runs);
    nx_list_init(&g->flights);
    return nx_map_put(&g->hub->groups, (uint64_t)g->comm + 1, g);
}

void nx_group_close(nx_group *g)
{
    nx_registry *hub = g->hub;

    (void)nx_map_take(&hub->groups, (uint64_t)g->comm + 1);
    if (g->departure == NX_DEPARTURE_FREED) {
        hub->freed[hub->nfreed++ % NX_GROUP_FREED] =
            (nx_group_word){.comm = g->comm, .next = g->next, .how = NX_DEPARTURE_FREED};
    }
    nx_early_close(hub->config.early, g->comm);
    nx_group_drop_early(hub, &g->comm);
    if (!hub->stopped) {
        nx_msg_forget(hub->config.msg, g->comm);
    }
    nx_compiled_cache_fini(&g->programs);
    nx_map_fini(&g->active);
    nx_map_fini(&g->reserved);
    nx_group_drop_detached(g);
    nx_run_free_flights(&g->flights);
    nx_host_coll_destroy(g->direct);
    nx_free(g->scratch);
    *g = (nx_group){.comm = g->comm, .rank = g->rank, .size = g->size, .peers = g->peers};
}

/* ---- members ------------------------------------------------------------------------- */

uint32_t nx_group_rank_of(const nx_group *g, uint32_t peer)
{
    uint32_t rank = 0;

    if (g->peers == NULL) {
        return (peer < g->size) ? peer : g->size;
    }
    while ((rank < g->size) && (g->peers[rank] != peer)) {
        rank++;
    }
    return rank;
}

/* ---- frames -------------------------------------------------------------------------- */

void nx_group_send_frame(const nx_group *g, uint32_t rank, const nx_writer *w)
{
    const nx_registry_config *c = &g->hub->config;

    if (c->tell != NULL) {
        c->tell(c->ctx, nx_group_peer(g, rank), w->data, w->len);
    } else {
        /* The detector reports an unreachable peer. */
        (void)!nx_msg_send_control(c->msg, nx_group_peer(g, rank), w->data, w->len);
    }
}

nx_verdict nx_registry_on_unexpected(const nx_registry *hub, nx_context context)
{
    return ((context.class != NX_CLASS_USER) || (nx_group_find(hub, context.comm) != NULL) ||
            !nx_early_is_closed(hub->config.early, context.comm))
               ? NX_KEEP
               : NX_DROP;
}

bool nx_group_is_early(const nx_registry *hub, uint32_t comm)
{
    return (nx_group_find(hub, comm) == NULL) && !nx_early_is_closed(hub->config.early, comm);
}

void nx_group_keep_early(nx_registry *hub, const nx_early_key *key, const void *data, size_t len)
{
    if (nx_early_keep(hub->config.early, key, &(nx_bytes){.ptr = data, .len = len}, 1,
                      nx_loop_now(hub->config.loop)) != NEXAR_OK) {
        nx_group_fail_waiting(hub, (uint32_t)key->from, nexar_last_error());
    }
}

/* A frame is lost, so the sender might wait indefinitely; this rank fails the link instead. */
void nx_group_fail_waiting(nx_registry *hub, uint32_t peer, const char *why)
{
    nx_msg_fail_peer(hub->config.msg, peer, NEXAR_ENOMEM, why);
}

typedef void (*on_frame)(nx_registry *hub, uint32_t peer, nx_reader *r);

/* The handler of a frame of |kind|, for the bytes after the communicator id. NULL: not a frame of
 * the registry. */
static on_frame handler_of(uint8_t kind)
{
    switch (kind) {
    case NX_CONTROL_CALLED:
        return nx_group_on_called;
    case NX_CONTROL_DETACHED:
        return nx_group_on_detached;
    case NX_CONTROL_WAITS:
        return nx_group_on_waits;
    case NX_CONTROL_ABORT:
        return nx_group_on_abort;
    default:
        return NULL;
    }
}

bool nx_registry_on_control(nx_registry *hub, uint32_t peer, const void *data, size_t len)
{
    nx_reader r = nx_reader_make(data, len), head;
    const uint8_t kind = nx_read_u8(&r);
    const on_frame handle = handler_of(kind);
    uint32_t comm;

    if (handle == NULL) {
        return kind == NX_CONTROL_BOARD;
    }
    head = r;
    comm = nx_read_u32(&head);
    if (!head.failed && nx_group_is_early(hub, comm)) {
        nx_group_keep_early(
            hub, &(nx_early_key){.kind = NX_EARLY_CONTROL, .id = comm, .from = peer}, data, len);
    } else {
        handle(hub, peer, &r);
    }
    return true;
}
