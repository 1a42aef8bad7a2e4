/* staging.c - chunks of host memory, allocated on first use. */
#include "device/staging.h"

#include "base/alloc.h"
#include "device_inner.h"

enum { ALIGN = 64 }; /* a cache line, and every element */

static const unsigned most[NX_STAGES] = {[NX_STAGE_SEND] = NX_CHUNKS_SEND,
                                         [NX_STAGE_RECV] = NX_CHUNKS_RECV,
                                         [NX_STAGE_BOUNCE] = NX_CHUNKS_BOUNCE};

/* Memory that cannot be freed is not allocated: an adapter with only one of the two functions
 * counts as having neither. */
static bool has_pinned(const nx_device *d)
{
    return (d->table.alloc_host != NULL) && (d->table.free_host != NULL);
}

static nexar_err make(nx_device *d, nx_stage stage, nx_chunk **out)
{
    nx_chunk *chunk = nx_zalloc(sizeof(*chunk));

    if (chunk == NULL) {
        return nx_fail_nomem("staging memory");
    }
    chunk->stage = stage;
    chunk->ptr = has_pinned(d) ? d->table.alloc_host(d->table.ctx, NX_CHUNK) : NULL;
    chunk->theirs = (chunk->ptr != NULL);
    if (chunk->ptr == NULL) { /* pinned memory may be scarce; ordinary memory is only slower */
        chunk->ptr = nx_alloc_aligned(ALIGN, NX_CHUNK);
    }
    if (chunk->ptr == NULL) {
        nx_free(chunk);
        return nx_fail_nomem("staging memory");
    }
    atomic_fetch_add(&d->pinned, NX_CHUNK);
    *out = chunk;
    return NEXAR_OK;
}

/* Returns a free chunk. Or sets |*may_make|: the caller may allocate a chunk, which is already
 * counted. */
static nx_chunk *pick(nx_device *d, nx_stage stage, bool wait, bool *may_make)
{
    nx_list *at;

    (void)pthread_mutex_lock(&d->lock);
    *may_make = false;
    while ((at = nx_list_pop(&d->free[stage])) == NULL) {
        if (d->made[stage] < most[stage]) {
            d->made[stage]++;
            *may_make = true;
            break;
        }
        if (!wait) {
            break;
        }
        (void)pthread_cond_wait(&d->freed, &d->lock);
    }
    (void)pthread_mutex_unlock(&d->lock);
    return (at == NULL) ? NULL : nx_list_entry(at, nx_chunk, link);
}

static nexar_err get(nx_device *d, nx_stage stage, bool wait, nx_chunk **out)
{
    bool may_make;
    nx_chunk *chunk = pick(d, stage, wait, &may_make);
    nexar_err err = NEXAR_OK;

    if (may_make) {
        err = make(d, stage, &chunk);
    }
    if (err != NEXAR_OK) {
        (void)pthread_mutex_lock(&d->lock);
        d->made[stage]--;
        (void)pthread_cond_broadcast(&d->freed); /* waiting threads try the allocation themselves */
        (void)pthread_mutex_unlock(&d->lock);
        return err;
    }
    *out = chunk;
    return NEXAR_OK;
}

nexar_err nx_staging_try(nx_device *d, nx_stage stage, nx_chunk **out)
{
    return get(d, stage, false, out);
}

nexar_err nx_staging_take(nx_device *d, nx_stage stage, nx_chunk **out)
{
    return get(d, stage, true, out);
}

void nx_staging_give(nx_device *d, nx_chunk *chunk)
{
    (void)pthread_mutex_lock(&d->lock);
    nx_list_push_back(&d->free[chunk->stage], &chunk->link);
    (void)pthread_cond_broadcast(&d->freed);
    (void)pthread_mutex_unlock(&d->lock);
}

void nx_staging_fini(nx_device *d)
{
    for (unsigned s = 0; s < NX_STAGES; s++) {
        nx_list *at;

        while ((at = nx_list_pop(&d->free[s])) != NULL) {
            nx_chunk *chunk = nx_list_entry(at, nx_chunk, link);

            if (chunk->theirs) {
                d->table.free_host(d->table.ctx, chunk->ptr);
            } else {
                nx_free(chunk->ptr);
            }
            nx_free(chunk);
        }
    }
}
