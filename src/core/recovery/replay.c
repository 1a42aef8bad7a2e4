/* replay.c - repeats a call among fewer ranks, from restored memory. */
#include "replay.h"

#include <string.h>

#include "base/alloc.h"
#include "core/comm/comm_device.h"

/* ---- blocks --------------------------------------------------------------------------------- */

/* Whether a buffer has a layout by ranks that the application sees.  Split and dup use such memory
 * of their own, and translate it. */
static bool in_blocks(const nx_coll_args *a)
{
    return nx_coll_in_blocks(a->kind) && (a->guise == NX_VARIANT_PLAIN);
}

static bool scatters_sums(const nx_coll_args *a)
{
    return in_blocks(a) && nx_coll_reduces(a->kind);
}

static bool is_all_to_all(const nx_coll_args *a)
{
    return (a->kind == NX_ALLTOALL) || (a->kind == NX_ALLTOALLV);
}

/* Whether this rank has a buffer with all blocks. */
static bool has_all(const nx_replay *r)
{
    const nx_coll_args *a = &r->now;

    return in_blocks(a) && (!nx_coll_rooted(a->kind) || ((uint32_t)a->root == r->rank));
}

static nx_coll_kind v_form(nx_coll_kind kind)
{
    switch ((int)kind) {
    case NX_ALLGATHER:
        return NX_ALLGATHERV;
    case NX_GATHER:
        return NX_GATHERV;
    case NX_SCATTER:
        return NX_SCATTERV;
    case NX_REDUCE_SCATTER:
        return NX_REDUCE_SCATTERV;
    case NX_ALLTOALL:
        return NX_ALLTOALLV;
    default:
        return kind;
    }
}

/* Blocks as the caller gave them.  Without |counts| all have |each| elements; without |displs| they
 * are contiguous. */
static void lay_out(nx_replay *r, const size_t *counts, const size_t *displs, bool sent)
{
    size_t off = 0;

    for (uint32_t i = 0; i < r->size; i++) {
        const size_t count = (counts == NULL) ? r->now.count : counts[i];

        (sent ? r->send_counts : r->counts)[i] = count;
        (sent ? r->send_displs : r->displs)[i] = (displs == NULL) ? off : displs[i];
        off += count;
    }
}

/* NEXAR_ENOMEM */
static nexar_err find_blocks(nx_replay *r)
{
    const nx_coll_args *a = &r->now;
    const size_t n = r->size;
    const bool v = (v_form(a->kind) == a->kind);

    if (!has_all(r)) {
        return NEXAR_OK;
    }
    r->counts = nx_calloc(n, 4 * sizeof(*r->counts));
    r->owned = nx_calloc(n, sizeof(*r->owned));
    if ((r->counts == NULL) || (r->owned == NULL)) {
        return nx_fail_nomem("the blocks of a collective (retry=on)");
    }
    r->displs = r->counts + n;
    r->send_counts = r->displs + n;
    r->send_displs = r->send_counts + n;
    lay_out(r, v ? a->counts : NULL, v ? a->displs : NULL, false);
    if (is_all_to_all(a) && (a->send != NEXAR_IN_PLACE)) {
        lay_out(r, v ? a->send_counts : NULL, v ? a->send_displs : NULL, true);
    }
    return NEXAR_OK;
}

static size_t sum_blocks(const nx_replay *r)
{
    size_t sum = 0;

    for (uint32_t i = 0; (r->counts != NULL) && (i < r->size); i++) {
        sum += r->counts[i];
    }
    return sum;
}

/* ---- saved memory ---------------------------------------------------------------------------- */

/* The received blocks, in as few pieces as possible.  Out of place, this rank's own block is
 * written again in any case. */
static void find_received(nx_replay *r)
{
    const nx_coll_args *a = &r->now;
    const size_t size = nexar_dtype_size(a->dtype);
    nexar_tensor *last = NULL;

    for (uint32_t i = 0; (r->counts != NULL) && (i < r->size); i++) {
        char *at;

        if ((r->counts[i] == 0) || ((i == r->rank) && (a->send != NEXAR_IN_PLACE))) {
            continue;
        }
        at = (char *)a->recv + r->displs[i] * size;
        if ((last != NULL) && ((char *)last->ptr + last->count * size == at)) {
            last->count += r->counts[i];
            continue;
        }
        last = &r->owned[r->npieces++];
        *last = (nexar_tensor){.ptr = at, .count = r->counts[i]};
    }
    r->pieces = r->owned;
}

static void find_pieces(nx_replay *r)
{
    const nx_coll_args *a = &r->now;
    const bool in_place = (a->send == NEXAR_IN_PLACE) && (a->guise == NX_VARIANT_PLAIN);
    const bool sums = scatters_sums(a);

    r->pieces = &r->one;
    if ((a->guise == NX_VARIANT_BUCKETED) || (a->guise == NX_VARIANT_COMPRESSED)) {
        r->pieces = a->tensors;
        r->npieces = a->ntensors;
    } else if (in_blocks(a) && !sums) {
        if ((a->kind != NX_SCATTER) && (a->kind != NX_SCATTERV)) {
            find_received(r);
        }
    } else if (in_place && (a->kind != NX_BARRIER)) {
        r->one = (nexar_tensor){.ptr = a->recv, .count = sums ? sum_blocks(r) : a->count};
        r->npieces = 1;
        r->loaded = sums;
    }
}

/* Copies |bytes| bytes between the memory of the call and the host's. */
static nexar_err copy_in(const nx_replay *r, void *host, const void *from, size_t bytes)
{
    if (bytes == 0) {
        return NEXAR_OK;
    }
    if (r->mem.device != NULL) {
        return nx_device_read(r->mem, host, from, bytes);
    }
    memcpy(host, from, bytes);
    return NEXAR_OK;
}

static nexar_err copy_out(const nx_replay *r, void *to, const void *host, size_t bytes)
{
    if (bytes == 0) {
        return NEXAR_OK;
    }
    if (r->mem.device != NULL) {
        return nx_device_write(r->mem, to, host, bytes);
    }
    memcpy(to, host, bytes);
    return NEXAR_OK;
}

/* Saves all pieces, or restores them. */
static nexar_err copy_pieces(const nx_replay *r, bool back)
{
    const size_t size = nexar_dtype_size(r->now.dtype);
    uint8_t *at = r->copy;
    nexar_err err = NEXAR_OK;

    for (size_t i = 0; (i < r->npieces) && (err == NEXAR_OK); i++) {
        const size_t bytes = r->pieces[i].count * size;

        err = back ? copy_out(r, r->pieces[i].ptr, at, bytes)
                   : copy_in(r, at, r->pieces[i].ptr, bytes);
        at += bytes;
    }
    return err;
}

/* The number of elements that |copy| must hold.  Pieces may overlap, so there may be any number. */
static bool count_kept(const nx_replay *r, size_t *elems)
{
    bool overflow = false;

    *elems = scatters_sums(&r->now) ? sum_blocks(r) : 0;
    for (size_t i = 0; (i < r->npieces) && !scatters_sums(&r->now); i++) {
        overflow = __builtin_add_overflow(*elems, r->pieces[i].count, elems) || overflow;
    }
    return !overflow;
}

/* Makes |kept| hold at least |bytes|; NULL: out of memory. */
static uint8_t *make_room(nx_kept *kept, size_t bytes)
{
    if (kept->bytes < bytes) {
        nx_free(kept->mem);
        kept->mem = nx_alloc_aligned(64, bytes);
        kept->bytes = (kept->mem == NULL) ? 0 : bytes;
    }
    return kept->mem;
}

/* Allocates and fills the copy.  NEXAR_ENOMEM, NEXAR_EDEVICE. */
static nexar_err keep(nx_replay *r, nx_kept *kept)
{
    const nx_coll_args *a = &r->now;
    const size_t size = nexar_dtype_size(a->dtype);
    size_t elems, bytes, own = 0;
    nexar_err err = NEXAR_OK;
    bool fits = count_kept(r, &elems);

    if (fits && (elems == 0)) {
        return NEXAR_OK;
    }
    if (!a->host_memory) {
        err = nx_comm_memory(a->comm, &r->mem);
    }
    if (err != NEXAR_OK) {
        return err;
    }
    if (scatters_sums(a) && (r->mem.device != NULL)) {
        own = r->counts[r->rank];
    }
    fits = fits && !__builtin_add_overflow(elems, own, &bytes) &&
           !__builtin_mul_overflow(bytes, size, &bytes);
    r->copy = fits ? make_room(kept, bytes) : NULL;
    if (r->copy == NULL) {
        return nx_fail_nomem("what a collective overwrites (retry=on)");
    }
    r->result = (own == 0) ? NULL : r->copy + elems * size;
    return copy_pieces(r, false);
}

nexar_err nx_replay_init(nx_replay *r, const nx_coll_args *a, nx_seat at, nx_kept *kept)
{
    nexar_err err;

    *r = (nx_replay){.now = *a, .size = at.size, .rank = at.rank, .recv = a->recv};
    if (a->guise == NX_VARIANT_RS_AG) {
        return NEXAR_OK; /* such a call is never repeated */
    }
    err = find_blocks(r);
    if (err == NEXAR_OK) {
        find_pieces(r);
        err = keep(r, kept);
    }
    if (err != NEXAR_OK) {
        nx_replay_fini(r);
    }
    return err;
}

void nx_replay_fini(nx_replay *r)
{
    nx_free(r->counts);
    nx_free(r->owned);
    r->counts = NULL;
    r->owned = NULL;
    r->copy = NULL;
    nx_comm_memory_done(&r->mem);
}

/* ---- fewer ranks ------------------------------------------------------------------------ */

/* Removes the numbers of the ranks in |failed|. */
static void leave_out(size_t *numbers, const nx_rankset *failed)
{
    uint32_t n = 0;

    for (uint32_t i = 0; (i = nx_rankset_next_out(failed, i)) < failed->n; i++) {
        numbers[n++] = numbers[i];
    }
}

void nx_replay_shrink(nx_replay *r, const nx_rankset *failed)
{
    nx_coll_args *a = &r->now;

    r->size = failed->n - failed->count;
    r->rank = nx_rankset_index_out(failed, r->rank);
    if (nx_coll_rooted(a->kind)) {
        a->root = (int)nx_rankset_index_out(failed, (uint32_t)a->root);
    }
    if (!in_blocks(a)) {
        return;
    }
    a->kind = v_form(a->kind);
    if (r->counts != NULL) {
        leave_out(r->counts, failed);
        leave_out(r->displs, failed);
        leave_out(r->send_counts, failed);
        leave_out(r->send_displs, failed);
    }
    a->counts = r->counts;
    a->displs = r->displs;
    if (is_all_to_all(a)) {
        a->count = 0; /* the form of nexar_alltoallv */
        a->send_counts = r->send_counts;
        a->send_displs = r->send_displs;
    }
}

/* ---- repetition ------------------------------------------------------------------------- */

/* Packs the blocks of a reduce_scatter in |copy|, contiguous: there blocks only move to the
 * front. */
static nexar_err pack(nx_replay *r)
{
    nx_coll_args *a = &r->now;
    const size_t size = nexar_dtype_size(a->dtype);
    nexar_err err = NEXAR_OK;
    size_t off = 0;

    for (uint32_t i = 0; (i < r->size) && (err == NEXAR_OK); i++) {
        const size_t bytes = r->counts[i] * size;

        if ((bytes != 0) && r->loaded) {
            memmove(r->copy + off * size, r->copy + r->displs[i] * size, bytes);
        } else if (bytes != 0) {
            err = copy_in(r, r->copy + off * size, (const char *)a->send + r->displs[i] * size,
                          bytes);
        }
        r->displs[i] = off;
        off += r->counts[i];
    }
    r->loaded = true;
    a->send = r->copy;
    a->recv = (r->result == NULL) ? r->recv : r->result;
    a->host_memory = true;
    return err;
}

nexar_err nx_replay_restore(nx_replay *r)
{
    return scatters_sums(&r->now) ? pack(r) : copy_pieces(r, true);
}

nexar_err nx_replay_deliver(const nx_replay *r)
{
    const size_t size = nexar_dtype_size(r->now.dtype);

    return (r->result == NULL) ? NEXAR_OK
                               : copy_out(r, r->recv, r->result, r->counts[r->rank] * size);
}
