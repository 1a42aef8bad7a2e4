/* outflow.c - device memory into chunks, one read while another is sent. */
#include "device/outflow.h"

#include <stdio.h>

#include "base/alloc.h"
#include "base/text/sentence.h"
#include "device_inner.h"

static void *host_of(const nx_outflow_slot *slot)
{
    return (slot->chunk != NULL) ? slot->chunk->ptr : slot->memory;
}

static nexar_err find_memory(nx_outflow_slot *slot)
{
    const nx_outflow *out = slot->out;
    nexar_err err;

    if (host_of(slot) != NULL) {
        return NEXAR_OK;
    }
    err = nx_staging_try(out->device, NX_STAGE_SEND, &slot->chunk);
    if ((err == NEXAR_OK) && (slot->chunk == NULL)) {
        slot->memory =
            nx_alloc_aligned(64, (out->total < NX_CHUNK) ? (size_t)out->total : NX_CHUNK);
        err = (slot->memory == NULL) ? nx_fail_nomem("staging memory") : NEXAR_OK;
    }
    return err;
}

static void free_slot(nx_outflow_slot *slot)
{
    if (slot->chunk != NULL) {
        nx_staging_give(slot->out->device, slot->chunk);
    }
    nx_free(slot->memory);
    slot->chunk = NULL;
    slot->memory = NULL;
}

static void finish_if_idle(nx_outflow *out)
{
    if (out->ended && (out->jobs == 0)) {
        free_slot(&out->slots[0]);
        free_slot(&out->slots[1]);
        out->on_idle(out);
    }
}

static void read_work(nx_job *job)
{
    nx_outflow_slot *slot = nx_list_entry(job, nx_outflow_slot, job);

    slot->err = slot->out->stage(slot->out, slot->off, host_of(slot), slot->len);
    if (slot->err != NEXAR_OK) {
        (void)nx_sentence(slot->why, sizeof(slot->why), "%s", nexar_last_error());
    }
}

static void hand_over(nx_outflow *out);

static void read_done(nx_job *job)
{
    nx_outflow_slot *slot = nx_list_entry(job, nx_outflow_slot, job);
    nx_outflow *out = slot->out;

    out->jobs--;
    slot->state = NX_SLOT_FULL;
    if (out->ended) {
        finish_if_idle(out);
    } else {
        hand_over(out);
    }
}

/* Reads the next bytes into |slot|, which has memory. */
static void begin_read(nx_outflow_slot *slot)
{
    nx_outflow *out = slot->out;
    const uint64_t left = out->total - out->read;

    slot->off = out->read;
    slot->len = (left < NX_CHUNK) ? (size_t)left : NX_CHUNK;
    slot->state = NX_SLOT_READING;
    slot->job = (nx_job){.work = read_work, .done = read_done};
    out->read += slot->len;
    out->jobs++;
    if (nx_worker_submit(out->worker, &slot->job) != NEXAR_OK) {
        read_work(&slot->job);
        read_done(&slot->job);
    }
}

/* Passes on the requested data if it has been read, and starts to read the next. */
static void hand_over(nx_outflow *out)
{
    nx_outflow_slot *slot = &out->slots[out->turn], *other = &out->slots[1 - out->turn];

    if (!out->wanted || (slot->state != NX_SLOT_FULL)) {
        return;
    }
    out->wanted = false;
    slot->state = NX_SLOT_GIVEN;
    if (slot->err != NEXAR_OK) {
        out->err = slot->err;
        (void)nx_sentence(out->why, sizeof(out->why), "%s", slot->why);
    } else if ((other->state == NX_SLOT_EMPTY) && (out->read < out->total) &&
               (find_memory(other) == NEXAR_OK)) { /* otherwise one slot is used */
        begin_read(other);
    }
    out->on_ready(out, host_of(slot), slot->len);
}

nexar_err nx_outflow_start(nx_outflow *out)
{
    nexar_err err;

    out->slots[0].out = out->slots[1].out = out;
    err = find_memory(&out->slots[0]);
    if (err == NEXAR_OK) {
        out->wanted = true;
        begin_read(&out->slots[0]);
    }
    return err;
}

void nx_outflow_next(nx_outflow *out)
{
    out->slots[out->turn].state = NX_SLOT_EMPTY;
    if (host_of(&out->slots[1 - out->turn]) != NULL) {
        out->turn = 1 - out->turn;
    }
    out->wanted = true;
    if (out->slots[out->turn].state == NX_SLOT_EMPTY) {
        begin_read(&out->slots[out->turn]);
    } else {
        hand_over(out);
    }
}

void nx_outflow_end(nx_outflow *out)
{
    out->ended = true;
    finish_if_idle(out);
}
