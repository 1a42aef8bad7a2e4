/* coll_args.c - checks of the arguments of collective calls. */
#include "core/coll/coll_args.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "core/world/fork_guard.h"
#include "reduce/reduce.h"

/* ---- single arguments -------------------------------------------------------------- */

static nexar_err check_comm(const nx_coll_args *a, nx_seat at)
{
    if (a->comm == NULL) {
        return nx_fail(NEXAR_EINVAL, "%s: comm is NULL", a->name);
    }
    if (nx_coll_rooted(a->kind) && ((a->root < 0) || ((uint32_t)a->root >= at.size))) {
        return nx_fail(NEXAR_EINVAL, "%s: there is no rank %d to be the root; ranks are 0 to %u",
                       a->name, a->root, at.size - 1);
    }
    return nx_fork_guard_check(a->name, a->comm->world);
}

static nexar_err check_type(const nx_coll_args *a)
{
    if (!nx_dtype_is_known(a->dtype)) {
        return nx_fail(NEXAR_EINVAL,
                       "%s: there is no dtype %d; 0 (f32) to %d (u16) and NEXAR_STRUCT(1 to %d) "
                       "are accepted",
                       a->name, (int)a->dtype, NX_DTYPES - 1, NEXAR_STRUCT_MAX);
    }
    if (!nx_coll_reduces(a->kind)) {
        return NEXAR_OK;
    }
    if (!nx_op_is_known(a->op)) {
        return nx_fail(NEXAR_EINVAL,
                       "%s: there is no op %d; 0 (sum) to %d (bxor), and those of "
                       "nexar_op_create, are accepted",
                       a->name, (int)a->op, NX_OPS - 1);
    }
    if (nx_dtype_is_struct(a->dtype) && !nx_op_is_user(a->op)) {
        return nx_fail(NEXAR_EINVAL,
                       "%s: a struct is reduced only by an operation of "
                       "nexar_op_create, not by %s",
                       a->name, nexar_op_name(a->op));
    }
    if (!nx_reduce_legal(a->dtype, a->op)) {
        return nx_fail(NEXAR_EINVAL, "%s: %s wants an integer type, not %s", a->name,
                       nexar_op_name(a->op), nexar_dtype_name(a->dtype));
    }
    if ((a->op == NEXAR_AVG) && ((a->kind == NX_SCAN) || (a->kind == NX_EXSCAN))) {
        return nx_fail(NEXAR_EINVAL, "%s: avg is not for scans; use sum", a->name);
    }
    return NEXAR_OK;
}

/* ---- element counts ------------------------------------------------------------------- */

/* Number of elements in this rank's send and receive buffer; 0: no buffer. */
typedef struct extent {
    size_t send, recv;
    bool overflow;
} extent;

static size_t times(size_t a, size_t b, bool *overflow)
{
    size_t product = 0;

    *overflow = __builtin_mul_overflow(a, b, &product) || *overflow;
    return product;
}

/* The end of the last block. */
static size_t blocks_end(const nx_split *blocks, bool *overflow)
{
    size_t most = 0;

    for (uint32_t i = 0; (blocks->how == NX_SPLIT_COUNTS) && (i < blocks->n); i++) {
        const nx_span block = nx_split_at(blocks, i);
        size_t end = 0;

        if (block.len != 0) {
            *overflow = __builtin_add_overflow(block.off, block.len, &end) || *overflow;
            most = (end > most) ? end : most;
        }
    }
    return most;
}

static extent measure(const nx_coll_args *a, nx_seat at, const nx_coll *c)
{
    const uint32_t n = at.size;
    const bool root = nx_coll_rooted(a->kind) && ((uint32_t)a->root == at.rank);
    extent e = {.send = a->count, .recv = a->count};

    switch (a->kind) {
    case NX_BARRIER:
    case NX_COLL_KINDS:
        return (extent){0};
    case NX_BROADCAST:
        e.send = 0;
        break;
    case NX_REDUCE:
        e.recv = root ? a->count : 0;
        break;
    case NX_ALLREDUCE:
    case NX_SCAN:
    case NX_EXSCAN:
        break;
    case NX_ALLGATHER:
        e.recv = times(a->count, n, &e.overflow);
        break;
    case NX_GATHER:
        e.recv = root ? times(a->count, n, &e.overflow) : 0;
        break;
    case NX_SCATTER:
        e.send = root ? times(a->count, n, &e.overflow) : 0;
        break;
    case NX_REDUCE_SCATTER:
        e.send = times(a->count, n, &e.overflow);
        break;
    case NX_ALLTOALL:
        e.send = e.recv = times(a->count, n, &e.overflow);
        break;
    case NX_ALLGATHERV:
        e.recv = blocks_end(&c->parts, &e.overflow);
        break;
    case NX_GATHERV:
        e.recv = root ? blocks_end(&c->parts, &e.overflow) : 0;
        break;
    case NX_SCATTERV:
        e.send = root ? blocks_end(&c->parts, &e.overflow) : 0;
        break;
    case NX_REDUCE_SCATTERV:
        e.send = blocks_end(&c->parts, &e.overflow);
        e.recv = nx_split_at(&c->parts, at.rank).len;
        break;
    case NX_ALLTOALLV:
        e.send = c->in_place ? 0 : blocks_end(&c->send_parts, &e.overflow);
        e.recv = blocks_end(&c->parts, &e.overflow);
        break;
    }
    return e;
}

/* ---- v forms ------------------------------------------------------------------------- */

bool nx_coll_has_blocks(const nx_coll_args *a, nx_seat at)
{
    const bool root = nx_coll_rooted(a->kind) && ((uint32_t)a->root == at.rank);

    switch ((int)a->kind) {
    case NX_ALLGATHERV:
    case NX_REDUCE_SCATTERV:
    case NX_ALLTOALLV:
        return true;
    case NX_GATHERV:
    case NX_SCATTERV:
        return root;
    default:
        return false;
    }
}

/* Contiguous displacements, for callers that give none. */
static void stack_blocks(const size_t *counts, uint32_t n, size_t *displs)
{
    size_t off = 0;

    for (uint32_t i = 0; i < n; i++) {
        displs[i] = off;
        off += counts[i];
    }
}

static nexar_err check_blocks(const nx_coll_args *a, nx_seat at, nx_coll_checked *out)
{
    const uint32_t n = at.size;
    nx_coll *c = &out->call.coll;
    const bool sends = (a->kind == NX_ALLTOALLV) && !c->in_place;
    const size_t *displs = a->displs, *send_displs = a->send_displs;

    if (!nx_coll_has_blocks(a, at)) {
        return NEXAR_OK;
    }
    if ((a->counts == NULL) || (sends && (a->send_counts == NULL))) {
        return nx_fail(NEXAR_EINVAL,
                       "%s: %s is NULL; one number for each of the %u ranks is needed", a->name,
                       (a->counts == NULL) ? "counts" : "sendcounts", n);
    }
    if ((displs == NULL) || (sends && (send_displs == NULL))) {
        out->made = nx_calloc(2 * (size_t)n, sizeof(size_t));
        if (out->made == NULL) {
            return nx_fail_nomem("displacements");
        }
    }
    if (displs == NULL) {
        stack_blocks(a->counts, n, out->made);
        displs = out->made;
    }
    if (sends && (send_displs == NULL)) {
        stack_blocks(a->send_counts, n, out->made + n);
        send_displs = out->made + n;
    }
    c->parts = nx_split_counts(a->counts, displs, n);
    if (sends) {
        c->send_parts = nx_split_counts(a->send_counts, send_displs, n);
    }
    return NEXAR_OK;
}

/* A call with all counts gives the count of this rank's own block twice: both must be equal. */
static nexar_err check_own_block(const nx_coll_args *a, nx_seat at, const nx_coll *c)
{
    const bool own = ((a->kind == NX_ALLGATHERV) || (a->kind == NX_GATHERV)) && !c->in_place;

    if ((a->kind == NX_ALLTOALLV) && !c->in_place &&
        (a->send_counts[at.rank] != a->counts[at.rank])) {
        return nx_fail(NEXAR_EINVAL,
                       "%s: sendcounts[%u] is %zu, but recvcounts[%u] is %zu; what this rank sends "
                       "to itself is what it receives",
                       a->name, at.rank, a->send_counts[at.rank], at.rank, a->counts[at.rank]);
    }
    if (nx_coll_has_blocks(a, at) && (own || (a->kind == NX_SCATTERV)) &&
        (a->count != a->counts[at.rank])) {
        return nx_fail(NEXAR_EINVAL, "%s: %s is %zu, but counts[%u], which is this rank's, is %zu",
                       a->name, (a->kind == NX_SCATTERV) ? "recvcount" : "sendcount", a->count,
                       at.rank, a->counts[at.rank]);
    }
    return NEXAR_OK;
}

/* ---- buffers ------------------------------------------------------------------------- */

static nexar_err check_in_place(const nx_coll_args *a, nx_seat at)
{
    const bool root_only =
        (a->kind == NX_REDUCE) || (a->kind == NX_GATHER) || (a->kind == NX_GATHERV);

    if ((a->kind == NX_BROADCAST) || (a->kind == NX_SCATTER) || (a->kind == NX_SCATTERV) ||
        (a->recv == NEXAR_IN_PLACE)) {
        return nx_fail(NEXAR_EINVAL, "%s: NEXAR_IN_PLACE has no meaning here; give the buffer",
                       a->name);
    }
    if (root_only && ((uint32_t)a->root != at.rank)) {
        return nx_fail(NEXAR_EINVAL, "%s: only the root, rank %d, may work in place", a->name,
                       a->root);
    }
    return NEXAR_OK;
}

static bool overlap(const void *a, size_t a_bytes, const void *b, size_t b_bytes)
{
    const uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;

    return (x < y + b_bytes) && (y < x + a_bytes);
}

static nexar_err check_buffers(const nx_coll_args *a, nx_seat at, const nx_coll_call *call)
{
    const size_t size = nexar_dtype_size(a->dtype);
    const bool in_place = call->coll.in_place;
    extent e = measure(a, at, &call->coll);
    const size_t send = in_place ? 0 : times(e.send, size, &e.overflow);
    const size_t whole =
        ((a->kind == NX_REDUCE_SCATTER) || (a->kind == NX_REDUCE_SCATTERV)) && in_place ? e.send
                                                                                        : e.recv;
    const size_t recv = times(whole, size, &e.overflow);

    /* No object exceeds this size.  Ends of smaller objects can be compared without overflow. */
    if (e.overflow || (send > PTRDIFF_MAX) || (recv > PTRDIFF_MAX)) {
        return nx_fail(NEXAR_EINVAL, "%s: a buffer would be of more than PTRDIFF_MAX bytes",
                       a->name);
    }
    if ((send != 0) && (a->send == NULL)) {
        return nx_fail(NEXAR_EINVAL, "%s: sendbuf is NULL; %zu bytes are sent from it", a->name,
                       send);
    }
    if ((recv != 0) && (a->recv == NULL)) {
        return nx_fail(NEXAR_EINVAL, "%s: %s is NULL; it needs %zu bytes", a->name,
                       (a->kind == NX_BROADCAST) ? "buf" : "recvbuf", recv);
    }
    if ((send != 0) && (recv != 0) && overlap(a->send, send, a->recv, recv)) {
        return nx_fail(NEXAR_EINVAL,
                       "%s: sendbuf and recvbuf overlap; give NEXAR_IN_PLACE to work in place",
                       a->name);
    }
    return NEXAR_OK;
}

/* ---- tensors --------------------------------------------------------------------------- */

/* Mixes the counts.  Two independent sums hide the latency of the multiplication. */
static uint64_t mix_tensors(const nexar_tensor *tensors, size_t n)
{
    uint64_t even = 0, odd = 1;

    for (size_t i = 0; i + 1 < n; i += 2) {
        even = nx_mark_mix(even, tensors[i].count);
        odd = nx_mark_mix(odd, tensors[i + 1].count);
    }
    return nx_mark_mix(nx_mark_mix(even, odd), (n % 2 != 0) ? tensors[n - 1].count : n);
}

static nexar_err check_tensors(const nx_coll_args *a, nx_coll_call *call)
{
    size_t sum = 0;
    bool overflow = false;

    if ((a->tensors == NULL) && (a->ntensors != 0)) {
        return nx_fail(NEXAR_EINVAL, "%s: tensors is NULL, and n is %zu", a->name, a->ntensors);
    }
    for (size_t i = 0; i < a->ntensors; i++) {
        if ((a->tensors[i].ptr == NULL) && (a->tensors[i].count != 0)) {
            return nx_fail(NEXAR_EINVAL, "%s: tensor %zu of %zu elements is NULL", a->name, i,
                           a->tensors[i].count);
        }
        overflow = __builtin_add_overflow(sum, a->tensors[i].count, &sum) || overflow;
    }
    call->detail = mix_tensors(a->tensors, a->ntensors);
    if ((times(sum, nexar_dtype_size(a->dtype), &overflow) > PTRDIFF_MAX) || overflow) {
        return nx_fail(NEXAR_EINVAL, "%s: the tensors are more than PTRDIFF_MAX bytes", a->name);
    }
    call->coll.count = sum;
    call->coll.in_place = true;
    call->send = NULL;
    call->tensors = a->tensors;
    call->ntensors = a->ntensors;
    return NEXAR_OK;
}

/* ---- complete calls --------------------------------------------------------------------- */

nexar_err nx_coll_args_check(const nx_coll_args *a, nx_seat at, nx_coll_checked *out)
{
    nx_coll_call *call = &out->call;
    const bool in_place = (a->send == NEXAR_IN_PLACE);
    nexar_err err = check_comm(a, at);

    if (err == NEXAR_OK) {
        err = check_type(a);
    }
    if ((err == NEXAR_OK) && (in_place || (a->recv == NEXAR_IN_PLACE))) {
        err = check_in_place(a, at);
    }
    if (err != NEXAR_OK) {
        return err;
    }
    *out = (nx_coll_checked){.call = {.guise = a->guise,
                                      .dtype = a->dtype,
                                      .op = nx_coll_reduces(a->kind) ? a->op : NEXAR_SUM,
                                      .send = in_place ? NULL : a->send,
                                      .recv = a->recv}};
    call->coll = (nx_coll){.kind = a->kind,
                           .rank = at.rank,
                           .size = at.size,
                           .root = nx_coll_rooted(a->kind) ? (uint32_t)a->root : 0,
                           .count = a->count,
                           .in_place = in_place,
                           .average = nx_coll_reduces(a->kind) && (a->op == NEXAR_AVG),
                           .hook = (a->guise == NX_VARIANT_RS_AG)};
    if (a->guise == NX_VARIANT_BUCKETED) {
        return check_tensors(a, call);
    }
    err = check_blocks(a, at, out);
    if (err == NEXAR_OK) {
        err = check_own_block(a, at, &call->coll);
    }
    if (err == NEXAR_OK) {
        err = check_buffers(a, at, call);
    }
    if ((err == NEXAR_OK) && nx_coll_has_blocks(a, at) && (a->kind != NX_ALLTOALLV)) {
        call->coll.count = a->counts[at.rank];
    }
    if (err != NEXAR_OK) {
        nx_coll_args_done(out);
    }
    return err;
}

void nx_coll_args_done(nx_coll_checked *c)
{
    nx_free(c->made);
    c->made = NULL;
}
