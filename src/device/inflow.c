/* inflow.c - fragments into chunks, chunks to the device. */
#include "device/inflow.h"

#include <stdio.h>
#include <string.h>

#include "base/text/sentence.h"
#include "device_inner.h"

static void keep_error(nx_inflow *in, nexar_err err, const char *why)
{
    if ((err != NEXAR_OK) && (in->err == NEXAR_OK)) {
        in->err = err;
        (void)nx_sentence(in->why, sizeof(in->why), "%s", why);
    }
}

static void finish_if_over(nx_inflow *in)
{
    if (in->ended && (in->pending == 0)) {
        in->on_done(in);
    }
}

/* Runs on a thread of the worker, or on the caller's thread if the submission failed. */
static void chunk_work(nx_job *job)
{
    nx_chunk *chunk = nx_list_entry(job, nx_chunk, job);
    nx_inflow *in = chunk->owner;

    chunk->err = in->apply(in, chunk->off, chunk->ptr, chunk->used);
    if (chunk->err != NEXAR_OK) {
        (void)nx_sentence(chunk->why, sizeof(chunk->why), "%s", nexar_last_error());
    }
}

static void chunk_done(nx_job *job)
{
    nx_chunk *chunk = nx_list_entry(job, nx_chunk, job);
    nx_inflow *in = chunk->owner;

    keep_error(in, chunk->err, chunk->why);
    nx_staging_give(in->device, chunk);
    in->pending--;
    finish_if_over(in);
}

/* Submits a chunk that is being filled. */
static void flush(nx_chunk *chunk)
{
    nx_inflow *in = chunk->owner;

    for (unsigned i = 0; i < NX_INFLOW_OPEN; i++) {
        if (in->open[i] == chunk) {
            in->open[i] = NULL;
        }
    }
    nx_list_remove(&chunk->link);
    chunk->job = (nx_job){.work = chunk_work, .done = chunk_done};
    in->pending++;
    if (nx_worker_submit(in->worker, &chunk->job) != NEXAR_OK) {
        chunk_work(&chunk->job);
        keep_error(in, chunk->err, chunk->why);
        nx_staging_give(in->device, chunk);
        in->pending--;
    }
}

/* A chunk for bytes at |off|: the chunk that ends there, or a new one; NULL: none is free. */
static nx_chunk *chunk_for(nx_inflow *in, uint64_t off)
{
    unsigned slot = 0;
    nx_chunk *chunk = NULL;
    nexar_err err;

    for (unsigned i = 0; i < NX_INFLOW_OPEN; i++) {
        if ((in->open[i] != NULL) && (in->open[i]->off + in->open[i]->used == off)) {
            return in->open[i];
        }
        slot = (in->open[i] == NULL) ? i : slot;
    }
    if (in->open[slot] != NULL) {
        flush(in->open[slot]);
    }
    err = nx_staging_try(in->device, NX_STAGE_RECV, &chunk);
    keep_error(in, err, nexar_last_error());
    if ((err != NEXAR_OK) || (chunk == NULL)) {
        return NULL;
    }
    chunk->owner = in;
    chunk->off = off;
    chunk->used = 0;
    in->open[slot] = chunk;
    nx_list_push_back(&in->device->open, &chunk->link);
    return chunk;
}

static void apply_now(nx_inflow *in, uint64_t off, const void *data, size_t len)
{
    nx_list *at = nx_list_pop(&in->device->open);

    if (at != NULL) {
        flush(nx_list_entry(at, nx_chunk, link));
    }
    keep_error(in, in->apply(in, off, data, len), nexar_last_error());
}

void nx_inflow_put(nx_inflow *in, uint64_t off, const void *data, size_t len)
{
    const char *from = data;

    if (atomic_load(&in->device->busy) != 0) {
        atomic_fetch_add(&in->device->overlapped, len);
    }
    while ((len != 0) && (in->err == NEXAR_OK)) {
        nx_chunk *chunk = chunk_for(in, off);
        size_t n = (len < NX_CHUNK) ? len : NX_CHUNK;

        if (chunk == NULL) {
            if (in->err == NEXAR_OK) {
                apply_now(in, off, from, n);
            }
        } else {
            n = (n < NX_CHUNK - chunk->used) ? n : NX_CHUNK - chunk->used;
            memcpy(chunk->ptr + chunk->used, from, n);
            chunk->used += n;
            if (chunk->used == NX_CHUNK) {
                flush(chunk);
            }
        }
        off += n;
        from += n;
        len -= n;
    }
}

void nx_inflow_end(nx_inflow *in)
{
    for (unsigned i = 0; i < NX_INFLOW_OPEN; i++) {
        if (in->open[i] != NULL) {
            flush(in->open[i]);
        }
    }
    in->ended = true;
    finish_if_over(in);
}
