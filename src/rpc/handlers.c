/* handlers.c - the registrations of handlers, and their removal. */
#include "base/alloc.h"
#include "rpc_inner.h"

static uint64_t key_of(uint32_t comm, uint16_t fn)
{
    return ((uint64_t)comm << 16) | fn;
}

static void entry_free(nx_rpc *rpc, nx_rpc_entry *entry)
{
    rpc->config.release(entry->handler.owner);
    nx_free(entry);
}

nx_rpc_entry *nx_rpc_entry_get(const nx_rpc *rpc, uint32_t comm, uint16_t fn)
{
    return nx_map_get(&rpc->entries, key_of(comm, fn));
}

void nx_rpc_entry_end(nx_rpc *rpc, nx_rpc_entry *entry)
{
    entry->running--;
    if (!entry->gone || (entry->running > 0)) {
        return;
    }
    if (entry->awaited) {
        nx_event_set(rpc->config.loop, &entry->idle);
    } else {
        entry_free(rpc, entry);
    }
}

/* |entry| is no longer in the map: frees it when no call runs its handler. */
static void retire(nx_rpc *rpc, nx_rpc_entry *entry)
{
    entry->gone = true;
    if (entry->running > 0) {
        if (nx_rpc_current() != NULL) {
            return; /* it may be the call of this thread */
        }
        entry->awaited = true;
        (void)nx_loop_wait(rpc->config.loop, &entry->idle, UINT64_MAX);
    }
    entry_free(rpc, entry);
}

nexar_err nx_rpc_register(nx_rpc *rpc, uint32_t comm, uint16_t fn_id, const nx_rpc_handler *handler)
{
    const uint64_t key = key_of(comm, fn_id);
    nx_rpc_entry *old = nx_map_get(&rpc->entries, key), *made;

    if (handler->fn == NULL) {
        (void)nx_map_take(&rpc->entries, key);
        rpc->config.release(handler->owner);
    } else {
        made = nx_zalloc(sizeof(*made));
        if ((made == NULL) || (nx_map_put(&rpc->entries, key, made) != NEXAR_OK)) {
            nx_free(made);
            rpc->config.release(handler->owner);
            return nx_fail_nomem("a handler");
        }
        made->handler = *handler;
    }
    if (old != NULL) {
        retire(rpc, old);
    }
    return NEXAR_OK;
}

/* Removes and returns any registration of |comm|; NULL: none is left. */
static nx_rpc_entry *take_any(nx_rpc *rpc, uint32_t comm)
{
    for (size_t i = 0; i < rpc->entries.room; i++) {
        const nx_map_slot *slot = &rpc->entries.slots[i];

        if ((slot->value != NULL) && ((slot->key >> 16) == comm)) {
            return nx_map_take(&rpc->entries, slot->key);
        }
    }
    return NULL;
}

void nx_rpc_forget(nx_rpc *rpc, uint32_t comm)
{
    nx_rpc_entry *entry;

    while ((entry = take_any(rpc, comm)) != NULL) {
        retire(rpc, entry);
    }
}

void nx_rpc_entries_free(nx_rpc *rpc)
{
    nx_rpc_entry *entry;
    size_t at = 0;

    while ((entry = nx_map_next(&rpc->entries, &at)) != NULL) {
        entry_free(rpc, entry);
    }
    nx_map_fini(&rpc->entries);
}
