/* retry.c - a collective until all have its result. */
#include "core/retry.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "core/device.h"
#include "core/failure.h"
#include "core/recover.h"

/* ---- inputs that are overwritten --------------------------------------------------------- */

typedef struct kept {
    uint8_t *copy; /* NULL: nothing is overwritten */
    nx_devmem mem; /* held; none: host memory */
} kept;

/* The pieces of memory that hold the input and get the result. */
static size_t pieces(const nx_coll_args *a, nexar_tensor *one, const nexar_tensor **out)
{
    const bool in_place = (a->send == NEXAR_IN_PLACE);

    *out = one;
    if (a->guise == NX_GUISE_BUCKETED) {
        *out = a->tensors;
        return a->ntensors;
    }
    *one = (nexar_tensor){.ptr = a->recv, .count = a->count};
    return (in_place && (a->guise == NX_GUISE_PLAIN) && (a->kind != NX_BARRIER)) ? 1 : 0;
}

/* Copies between |k| and the memory of |a|. */
static nexar_err copy_all(const kept *k, const nx_coll_args *a, bool back)
{
    const size_t size = nexar_dtype_size(a->dtype);
    const nexar_tensor *p;
    nexar_tensor one;
    const size_t n = pieces(a, &one, &p);
    uint8_t *at = k->copy;
    nexar_err err = NEXAR_OK;

    for (size_t i = 0; (i < n) && (err == NEXAR_OK); i++) {
        const size_t bytes = p[i].count * size;

        if (bytes == 0) {
            continue;
        }
        if (k->mem.device != NULL) {
            err = back ? nx_device_write(k->mem, p[i].ptr, at, bytes)
                       : nx_device_read(k->mem, at, p[i].ptr, bytes);
        } else {
            memcpy(back ? p[i].ptr : at, back ? at : p[i].ptr, bytes);
        }
        at += bytes;
    }
    return err;
}

static void drop(kept *k)
{
    nx_free(k->copy);
    k->copy = NULL;
    nx_comm_memory_done(&k->mem);
}

static bool is_repeatable(const nx_coll_args *a);

/* Keeps the inputs of |a|, which was checked.  NEXAR_ENOMEM, NEXAR_EDEVICE. */
static nexar_err keep(kept *k, const nx_coll_args *a)
{
    const nexar_tensor *p;
    nexar_tensor one;
    const size_t n = pieces(a, &one, &p);
    size_t bytes = 0;
    nexar_err err = NEXAR_OK;

    *k = (kept){0};
    for (size_t i = 0; i < n; i++) {
        bytes += p[i].count * nexar_dtype_size(a->dtype);
    }
    if ((bytes == 0) || !is_repeatable(a)) {
        return NEXAR_OK;
    }
    k->copy = nx_alloc_aligned(64, bytes);
    if (k->copy == NULL) {
        return nx_fail_nomem("the inputs of a collective (retry=on)");
    }
    if (!a->host_memory) {
        err = nx_comm_memory(a->comm, &k->mem);
    }
    if (err == NEXAR_OK) {
        err = copy_all(k, a, false);
    }
    if (err != NEXAR_OK) {
        drop(k);
    }
    return err;
}

/* ---- the same call among fewer ------------------------------------------------------------ */

static bool is_repeatable(const nx_coll_args *a)
{
    if ((a->guise == NX_GUISE_SPLIT) || (a->guise == NX_GUISE_DUP)) {
        return true; /* they make of their memory what they get */
    }
    return !nx_coll_in_blocks(a->kind) && (a->guise != NX_GUISE_RS_AG);
}

nexar_err nx_retry_translate(nx_coll_args *a, const nexar_comm *comm, const nx_rankset *failed)
{
    char text[NX_PEER_TEXT];

    if (!is_repeatable(a)) {
        return nx_fail(NEXAR_EPEER, "it is not run again: %s",
                       (a->guise == NX_GUISE_RS_AG)
                           ? "its function may have been called"
                           : "its buffers are laid out for the ranks that were");
    }
    if (!nx_coll_rooted(a->kind)) {
        return NEXAR_OK;
    }
    if (nx_rankset_has(failed, (uint32_t)a->root)) {
        return nx_fail(
            NEXAR_EPEER, "it is not run again: its root has failed, %s",
            nx_world_peer_text(comm->world, nx_comm_peer(comm, (uint32_t)a->root), text));
    }
    a->root = (int)nx_rankset_index_out(failed, (uint32_t)a->root);
    return NEXAR_OK;
}

/* ---- confirming ------------------------------------------------------------------------------ */

static void send_frame(void *ctx, uint32_t to, const void *frame, size_t len)
{
    const nexar_comm *comm = ctx;

    /* Whoever cannot be told is gone, or will be found out. */
    (void)!nx_msg_send_control(comm->world->msg, nx_comm_peer(comm, to), frame, len);
}

nexar_err nx_retry_frame(nexar_comm *comm, uint32_t rank, const void *data, size_t len)
{
    nx_confirm *c = &comm->recovery.confirm;
    const nexar_err err = nx_confirm_frame(c, rank, data, len, send_frame, comm);

    if (!c->pending) {
        nx_recover_wake(comm);
    }
    return err;
}

/* One attempt, with the words of its error. */
typedef struct attempt {
    const nx_coll_args *call; /* as it was called: for its name */
    nexar_err err;
    char why[NX_ERROR_ROOM];
} attempt;

static void note(attempt *t, nexar_err err)
{
    t->err = err;
    (void)snprintf(t->why, sizeof(t->why), "%s", (err == NEXAR_OK) ? "" : nexar_last_error());
}

/* All have come to |errs|. */
static nexar_err verdict(const attempt *t, uint32_t errs)
{
    const nexar_err err = nx_confirm_error(errs);

    if ((err == NEXAR_OK) || (err == t->err)) {
        return (err == NEXAR_OK) ? NEXAR_OK : nx_fail(err, "%s", t->why);
    }
    return nx_fail(err, "%s: on another rank: %s", t->call->name, nexar_strerror(err));
}

static bool is_pending(const nexar_comm *comm)
{
    return comm->recovery.confirm.pending && (comm->recovery.state == NX_WHOLE) && !comm->revoked;
}

/* Not all have come within |limit_ns|. */
static void time_out(nexar_comm *comm, uint64_t limit_ns)
{
    char why[NX_ERROR_ROOM];

    (void)snprintf(why, sizeof(why), "rank %u: not confirmed by all after %.1f s (%s)",
                   (unsigned)comm->rank, (double)limit_ns / 1e9, "collective_timeout");
    nx_recover_give_up(comm, NEXAR_ETIMEDOUT, why);
}

static const char *gone_sentence(const nexar_comm *comm, uint32_t peer, char why[NX_PEER_TEXT + 64])
{
    char text[NX_PEER_TEXT], at[NX_TIME_TEXT];

    (void)snprintf(why, NX_PEER_TEXT + 64, "%s has left without it, at %s",
                   nx_world_peer_text(comm->world, peer, text), nx_time_text(at));
    return why;
}

/* Waits until all have what this rank has; false: the communicator breaks first, or is
 * broken since they do not come in time. */
static bool confirm(nexar_comm *comm, const attempt *t)
{
    nx_confirm *c = &comm->recovery.confirm;
    const uint64_t limit = nx_config_number(comm->world->config, NX_SET_COLLECTIVE_TIMEOUT);
    const uint64_t by = (limit == 0) ? UINT64_MAX : nx_loop_refresh(comm->world->loop) + limit;
    char why[NX_PEER_TEXT + 64];

    nx_confirm_enter(c, nx_confirm_bits(t->err), send_frame, comm);
    while (is_pending(comm)) {
        const uint32_t from = nx_comm_peer(comm, nx_confirm_awaited(c));

        if (nx_rankset_has(nx_failure_left(comm->world), from)) {
            nx_recover_begin(comm, gone_sentence(comm, from, why));
        } else if (!nx_recover_wait_change(comm, by) && is_pending(comm)) {
            time_out(comm, limit);
        }
    }
    nx_loop_kick(comm->world->loop); /* the last round of others waits for it */
    return !c->pending;
}

/* ---- until it is done ---------------------------------------------------------------------- */

/* The communicator of |comm| is broken in operation |number|: true: |*err| is what comes of
 * it; false: |now| is to be run on the communicator that |comm| has become. */
static bool recover(nexar_comm *comm, uint64_t number, nx_coll_args *now, const attempt *t,
                    nexar_err *err)
{
    char sentence[NX_ERROR_ROOM], why[NX_ERROR_ROOM];
    nexar_err again, given_up;
    uint64_t keep;
    uint32_t errs;

    (void)snprintf(sentence, sizeof(sentence), "%s", comm->group.broken_why);
    *err = nx_recover_wait_mended(comm);
    if (*err != NEXAR_OK) {
        return true;
    }
    nx_recover_verdict(comm, &keep, &errs);
    if (number <= keep) {
        *err = verdict(t, errs);
        return true;
    }
    given_up = nx_recover_given_up(comm);
    again = nx_retry_translate(now, comm, nx_recover_failed(comm));
    (void)snprintf(why, sizeof(why), "%s", nexar_last_error());
    *err = nx_recover_become(comm);
    if ((*err == NEXAR_OK) && (given_up != NEXAR_OK)) {
        *err = nx_fail(given_up, "%s: %s", t->call->name, sentence);
    } else if ((*err == NEXAR_OK) && (again != NEXAR_OK)) {
        *err = nx_fail(again, "%s: %s; %s", t->call->name, sentence, why);
    }
    return *err != NEXAR_OK;
}

/* One attempt, from the inputs |k| if it is not the first.  False: they are not to be had. */
static bool run_attempt(const nx_coll_args *now, void *shard_arg, const kept *k, attempt *t,
                        bool *begun)
{
    nexar_err err = ((k == NULL) || (k->copy == NULL)) ? NEXAR_OK : copy_all(k, now, true);
    const bool restored = (err == NEXAR_OK);

    if (restored) {
        err = nx_coll_once(now, shard_arg, begun);
    }
    note(t, err);
    return restored;
}

/* With the lock, which is released meanwhile. */
static nexar_err run_until_done(nx_coll_args *now, void *shard_arg, const kept *k, attempt *t)
{
    nexar_comm *comm = now->comm;
    nx_recovery *r = &comm->recovery;
    nx_loop *loop = comm->world->loop;
    nexar_err err;

    for (bool first = true;; first = false) {
        const uint64_t number = r->confirm.entered + 1;
        bool begun = true, restored;

        if (r->state == NX_WHOLE) {
            nx_loop_unlock(loop);
            restored = run_attempt(now, shard_arg, first ? NULL : k, t, &begun);
            err = t->err;
            nx_loop_lock(loop);
            if (!begun || (err == NEXAR_EREVOKED) || (err == NEXAR_ECANCELED)) {
                return err;
            }
            if (!restored) { /* the others are in it, and wait */
                nx_recover_give_up(comm, NEXAR_EDEVICE, t->why);
            } else if (err == NEXAR_EPEER) {
                nx_recover_begin(comm, t->why);
            } else if ((r->state == NX_WHOLE) && confirm(comm, t)) {
                return verdict(t, nx_confirm_errs(&r->confirm));
            }
            if (r->state == NX_WHOLE) {
                return nx_fail(NEXAR_EREVOKED, "%s: the communicator was revoked", now->name);
            }
        }
        if (recover(comm, number, now, t, &err)) {
            return err;
        }
    }
}

nexar_err nx_retry_wait(const nx_coll_args *a, void *shard_arg)
{
    nx_coll_args now = *a;
    attempt t = {.call = a};
    nx_coll_checked checked;
    nexar_err err = nx_coll_args_check(a, &checked);
    kept k;

    if (err != NEXAR_OK) {
        return err;
    }
    nx_coll_args_done(&checked);
    err = keep(&k, a);
    if (err != NEXAR_OK) {
        return err;
    }
    nx_loop_lock(a->comm->world->loop);
    nx_recover_take_turn(a->comm);
    err = run_until_done(&now, shard_arg, &k, &t);
    nx_recover_give_turn(a->comm);
    nx_loop_unlock(a->comm->world->loop);
    drop(&k);
    return err;
}
