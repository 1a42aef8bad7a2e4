/* compress.c - the methods as rows of a table, their arguments and memory. */
#include "coll/compress/compress.h"

#include <math.h>

#include "base/alloc.h"
#include "compress_inner.h"
#include "reduce/fpenv.h"

static const nx_compress_method methods[] = {
    [NEXAR_COMPRESS_NONE] = {"none", NX_CODECS, {nx_none_begin, nx_none_end}},
    [NEXAR_COMPRESS_TOPK] = {"topk",
                             NX_CODECS,
                             {nx_topk_begin, nx_topk_send, nx_topk_sum, nx_topk_gather,
                              nx_topk_end}},
    [NEXAR_COMPRESS_RANDOMK] = {"randomk", NX_CODECS, {nx_randomk_begin, nx_randomk_end}},
    [NEXAR_COMPRESS_F16] = {"f16",
                            NX_CODEC_F16,
                            {nx_quantise_begin, nx_quantise_sum, nx_quantise_end}},
    [NEXAR_COMPRESS_BF16] = {"bf16",
                             NX_CODEC_BF16,
                             {nx_quantise_begin, nx_quantise_sum, nx_quantise_end}},
    [NEXAR_COMPRESS_INT8] = {"int8",
                             NX_CODEC_INT8,
                             {nx_quantise_begin, nx_quantise_sum, nx_quantise_end}},
};

static const nx_compress_method *method_of(nexar_compression how)
{
    return ((unsigned)how < sizeof methods / sizeof methods[0]) ? &methods[how] : NULL;
}

const char *nx_compress_name(nexar_compression how)
{
    const nx_compress_method *m = method_of(how);

    return (m == NULL) ? "?" : m->name;
}

static bool picks_some(nexar_compression how)
{
    return (how == NEXAR_COMPRESS_TOPK) || (how == NEXAR_COMPRESS_RANDOMK);
}

size_t nx_compress_k(nexar_compression how, double ratio, size_t count)
{
    if (!picks_some(how) || (count == 0)) {
        return count;
    }
    const double k = ceil(ratio * (double)count);

    if (k < 1.0) {
        return 1;
    }
    return (k < (double)count) ? (size_t)k : count;
}

unsigned nx_compress_exchanges(nexar_compression how)
{
    const nx_compress_method *m = method_of(how);
    unsigned n = 0;

    while ((n < NX_COMPRESS_EXCHANGES) && (m->steps[n + 1] != NULL)) {
        n++;
    }
    return n;
}

/* ---- arguments ----------------------------------------------------------------------- */

static nexar_err check_memory(const nx_compress_call *call)
{
    const size_t elem = nexar_dtype_size(call->dtype);
    const uintptr_t buf = (uintptr_t)call->buf, residual = (uintptr_t)call->residual;

    if (call->count == 0) {
        return NEXAR_OK;
    }
    /* A quarter of the addresses: codes are never twice as long. */
    if (call->count > SIZE_MAX / 4 / elem) {
        return nx_fail(NEXAR_EINVAL, "%zu elements of %s are more bytes than memory can have",
                       call->count, nexar_dtype_name(call->dtype));
    }
    if (call->buf == NULL) {
        return nx_fail(NEXAR_EINVAL, "buf is NULL for a count of %zu", call->count);
    }
    if ((call->residual != NULL) && (residual < buf + call->count * elem) &&
        (buf < residual + call->count * elem)) {
        return nx_fail(NEXAR_EINVAL, "residual overlaps buf: it is memory of its own, or NULL for "
                                     "no feedback");
    }
    return NEXAR_OK;
}

nexar_err nx_compress_check(const nx_compress_call *call)
{
    if (method_of(call->how) == NULL) {
        return nx_fail(NEXAR_EINVAL,
                       "%d is no method of compression: accepted are NEXAR_COMPRESS_NONE, _TOPK, "
                       "_RANDOMK, _F16, _BF16 and _INT8",
                       (int)call->how);
    }
    if ((call->dtype != NEXAR_F32) && (call->dtype != NEXAR_F64) && (call->dtype != NEXAR_F16) &&
        (call->dtype != NEXAR_BF16)) {
        return nx_fail(
            NEXAR_EINVAL,
            "the dtype %s (%d) cannot be compressed: accepted are f32, f64, f16 and bf16",
            nexar_dtype_name(call->dtype), (int)call->dtype);
    }
    if ((call->op != NEXAR_SUM) && (call->op != NEXAR_AVG)) {
        return nx_fail(NEXAR_EINVAL,
                       "the op %s (%d) has no compressed allreduce: accepted are sum and avg",
                       nexar_op_name(call->op), (int)call->op);
    }
    if (picks_some(call->how) && !((call->ratio > 0.0) && (call->ratio <= 1.0))) {
        return nx_fail(NEXAR_EINVAL, "ratio is %g for %s: accepted is 0 < ratio <= 1", call->ratio,
                       nx_compress_name(call->how));
    }
    return check_memory(call);
}

/* ---- life ---------------------------------------------------------------------------- */

nexar_err nx_compress_hold(nx_compress *c, nx_compress_held *h, size_t bytes, const char *what)
{
    nx_free(h->at);
    c->memory -= h->bytes;
    *h = (nx_compress_held){0};
    if (bytes == 0) {
        return NEXAR_OK;
    }
    h->at = nx_alloc_aligned(64, bytes);
    if (h->at == NULL) {
        return nx_fail_nomem(what);
    }
    h->bytes = bytes;
    c->memory += bytes;
    c->most = (c->memory > c->most) ? c->memory : c->most;
    return NEXAR_OK;
}

nexar_err nx_compress_create(nx_compress **out, const nx_compress_call *call)
{
    const size_t n = call->size;
    nx_compress *c = nx_zalloc(sizeof *c);

    if (c == NULL) {
        return nx_fail_nomem("a compressed allreduce");
    }
    c->call = *call;
    c->method = method_of(call->how);
    c->work = nx_lanes_work(call->dtype);
    c->elem = nexar_dtype_size(call->dtype);
    c->shards = nx_split_even(call->count, call->size);
    c->mine = nx_split_at(&c->shards, call->rank);
    if (nx_compress_hold(c, &c->tables, n * (4 * sizeof(size_t) + 2 * sizeof(uint64_t)),
                         "a compressed allreduce") != NEXAR_OK) {
        nx_free(c);
        return NEXAR_ENOMEM;
    }
    c->sizes_out = c->tables.at;
    c->sizes_in = c->sizes_out + n;
    c->sent_counts = (size_t *)(void *)(c->sizes_in + n);
    c->sent_displs = c->sent_counts + n;
    c->recv_counts = c->sent_displs + n;
    c->recv_displs = c->recv_counts + n;
    *out = c;
    return NEXAR_OK;
}

void nx_compress_destroy(nx_compress *c)
{
    if (c == NULL) {
        return;
    }
    nx_free(c->sent.at);
    nx_free(c->received.at);
    nx_free(c->result.at);
    nx_free(c->left.at);
    nx_free(c->tables.at);
    nx_free(c);
}

nexar_err nx_compress_next(nx_compress *c, nx_exchange *e)
{
    const uint64_t saved = nx_fpenv_enter();
    nexar_err err;

    *e = (nx_exchange){.kind = NX_COLL_KINDS};
    err = c->method->steps[c->step++](c, e);
    nx_fpenv_leave(saved);
    return err;
}

size_t nx_compress_memory(const nx_compress *c)
{
    return c->most;
}

/* ---- pieces -------------------------------------------------------------------------- */

void nx_compress_load(const nx_compress *c, const nx_compress_pieces *p, nx_lanes *x)
{
    const nx_cut_tensor input = nx_compress_input(c);

    nx_cut_load(&input, p->at, p->n, x);
}

static char *left_at(const nx_compress *c, const nx_compress_pieces *p)
{
    return (char *)c->left.at + p->off * nexar_dtype_size(c->work);
}

void nx_compress_load_left(const nx_compress *c, const nx_compress_pieces *p, nx_lanes *x)
{
    nx_lanes_load(x, c->work, left_at(c, p), p->n);
}

void nx_compress_keep_left(nx_compress *c, const nx_compress_pieces *p, const nx_lanes *x)
{
    nx_lanes_store(x, c->work, left_at(c, p), p->n, false);
}

void nx_compress_store_residual(nx_compress *c, const nx_compress_pieces *p, const nx_lanes *x)
{
    nx_lanes_store(x, c->call.dtype, (char *)c->call.residual + p->at * c->elem, p->n, true);
}

void nx_compress_store_result(nx_compress *c, const nx_compress_pieces *p, const nx_lanes *x)
{
    nx_lanes_store(x, c->call.dtype, (char *)c->call.buf + p->at * c->elem, p->n, false);
}

void nx_compress_round(const nx_compress *c, nx_lanes *x, bool saturate)
{
    char stored[NX_PIECE * sizeof(uint16_t)];

    if (c->elem == sizeof(uint16_t)) {
        nx_lanes_store(x, c->call.dtype, stored, NX_PIECE, saturate);
        nx_lanes_load(x, c->call.dtype, stored, NX_PIECE);
    }
}
