/* auto_shrink.c - agreements that begin without a call of the application. */
#include "auto_shrink.h"

#include <stdio.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/text/sentence.h"
#include "core/agreement/agreement_inner.h"
#include "core/failure/failure.h"
#include "recovery.h"

/* ---- callbacks of the machines ----------------------------------------------------------- */

static void on_told(void *ctx, uint64_t key, const void *data, size_t len, uint32_t from)
{
    nx_agreement *a = ctx;

    (void)from;
    if (((key >> 32) == NX_RBCAST_REVOKED) && !a->told) {
        a->told = true;
        (void)nx_sentence(a->why, sizeof(a->why), "%.*s", (int)len, (const char *)data);
        nx_failure_wake(a->world);
    }
}

static void on_decided(void *ctx, uint64_t seq, const nx_consensus_value *value)
{
    nx_agreement *a = ctx;
    nx_reader r = nx_reader_make(value->payload, value->payload_len);

    (void)seq;
    a->outcome.flags = value->flags;
    a->outcome.highest = value->highest;
    nx_rankset_copy(&a->outcome.failed, &value->failed);
    nx_rankset_clear(&a->outcome.left);
    for (uint32_t i = 0; (i = nx_rankset_next(&value->leavers, i)) < value->leavers.n; i++) {
        if (nx_rankset_add(&a->outcome.failed, i)) {
            (void)nx_rankset_add(&a->outcome.left, i);
        }
    }
    a->outcome.id = nx_read_u32(&r); /* 0: no rank had an id left */
    a->over = true;
    nx_failure_wake(a->world);
}

static void on_ended(void *ctx, nexar_err err, const char *why)
{
    nx_agreement *a = ctx;

    if (!a->over) {
        a->over = true;
        a->err = err;
        (void)nx_sentence(a->why, sizeof(a->why), "%s", why);
        nx_failure_wake(a->world);
    }
}

const nx_rbcast_ops nx_auto_shrink_rbcast_ops = {
    .send = nx_agreement_send, .learned = on_told, .life = nx_agreement_life};
const nx_consensus_ops nx_auto_shrink_agree_ops = {.send = nx_agreement_send,
                                                   .decided = on_decided,
                                                   .learned = nx_agreement_learned,
                                                   .ended = on_ended,
                                                   .forgotten = nx_agreement_forgotten};

/* ---- life ------------------------------------------------------------------------------------ */

nexar_err nx_auto_shrink_open(nx_incarnation *inc)
{
    nx_agreement *a = nx_agreement_make(inc, true);

    if (a == NULL) {
        return NEXAR_ENOMEM;
    }
    inc->rescue = a;
    if ((nx_rankset_init(&a->outcome.failed, inc->size) != NEXAR_OK) ||
        (nx_rankset_init(&a->outcome.left, inc->size) != NEXAR_OK)) {
        inc->rescue = NULL;
        nx_agreement_free(a);
        return NEXAR_ENOMEM;
    }
    return NEXAR_OK;
}

void nx_auto_shrink_undo(nx_incarnation *inc)
{
    if (inc->rescue != NULL) {
        nx_agreement_free(inc->rescue);
    }
}

/* Frees the oldest machines that were never used, if there are too many. */
static void trim(nx_world *world)
{
    nx_agreement *oldest = NULL;
    uint32_t n = 0;

    for (const nx_list *at = world->accords.next; at != &world->accords; at = at->next) {
        nx_agreement *a = nx_list_entry(at, nx_agreement, link);

        if (a->rescue && a->detached && !a->used) {
            oldest = (oldest == NULL) ? a : oldest;
            n++;
        }
    }
    if (n > NX_AUTO_SHRINK_ORPHANS) {
        nx_agreement_free(oldest);
    }
}

/* The agreement is over, and unused here: its machines are freed when no rank asks any more. */
static void let_go(nx_agreement *a)
{
    if (a->detached && a->over && (a->err == NEXAR_OK) && !a->closed) {
        a->closed = true;
        nx_consensus_close(a->agree);
        nx_failure_wake(a->world);
    }
}

void nx_auto_shrink_close(nx_incarnation *inc)
{
    nx_world *world = inc->world;
    nx_agreement *a = inc->rescue;

    if (a == NULL) {
        return;
    }
    if (world->closing && !a->used) {
        nx_agreement_free(a);
        return;
    }
    nx_agreement_detach(a);
    let_go(a);
    trim(world);
}

/* ---- running ------------------------------------------------------------------------------- */

static void start(nx_agreement *a, const nx_consensus_input *input)
{
    if (a->used || a->over) {
        return;
    }
    a->used = true;
    if (nx_consensus_start(a->agree, input) != NEXAR_OK) {
        on_ended(a, NEXAR_EPEER, nexar_last_error());
        return; /* it is over here: this rank was declared failed, or there is no quorum */
    }
    nx_agreement_tell_left(a); /* ranks that have left contribute nothing */
}

void nx_auto_shrink_begin(nx_incarnation *inc, const nx_auto_shrink_input *input, const char *why)
{
    nx_agreement *a = inc->rescue;
    const uint32_t id = nx_comm_take_id(inc->world);
    uint8_t payload[NX_AGREEMENT_ID_SIZE];
    nx_writer w = nx_writer_make(payload, sizeof(payload));
    size_t len = 0;

    nx_write_u32(&w, id);
    while ((len < NX_RBCAST_DATA_MAX) && (why[len] != '\0')) {
        len++;
    }
    /* One key for all initiators: one item is enough for all ranks. */
    if (nx_rbcast_start(a->rbcast, nx_rbcast_key(NX_RBCAST_REVOKED, 0), why, len) != NEXAR_OK) {
        nx_log(NX_LOG_WARN, "others are not told that the communicator is rebuilt: %s",
               nexar_last_error());
        nx_failure_end_receives(inc->world); /* the end of the agreement notifies them */
    }
    start(a, &(nx_consensus_input){.flags = input->flags,
                                   .highest = input->highest,
                                   .payload = (id == 0) ? NULL : payload,
                                   .payload_len = NX_AGREEMENT_ID_SIZE});
}

/* The other ranks rebuild a communicator that this rank has released. */
static void leave(nx_agreement *a)
{
    start(a, &(nx_consensus_input){.flags = UINT64_MAX, .leave = true});
}

void nx_auto_shrink_conclude(nx_agreement *a)
{
    if (a->told && !a->used && !a->over) {
        if (!a->detached) {
            nx_recovery_begin(a->inc, a->why);
        } else {
            leave(a);
        }
    }
    if (a->over && !a->acted) {
        a->acted = true;
        if (!a->detached) {
            nx_recovery_decided(a->inc);
        }
        let_go(a);
    }
    if (a->closed && a->forgotten) {
        nx_early_close(a->world->early, a->id); /* later frames for it are ignored */
        nx_agreement_free(a);
    }
}

nexar_err nx_auto_shrink_outcome(const nx_incarnation *inc, const nx_outcome **out,
                                 const char **why)
{
    *out = &inc->rescue->outcome;
    *why = inc->rescue->why;
    return inc->rescue->err;
}
