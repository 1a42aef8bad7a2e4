/*
 * plain.c - NONE and RANDOMK: an allreduce of all elements of x, or of k elements that all ranks
 * pick identically, so that no index is sent.
 *
 *     sent by each rank: what an allreduce of count or k elements sends
 *     memory: count or k elements; none for NONE without a residual
 */
#include <string.h>

#include "coll/compress/picks.h"
#include "compress_inner.h"

static nx_exchange reduce_in(const nx_compress *c, void *buf, size_t count)
{
    return (nx_exchange){.kind = NX_ALLREDUCE,
                         .dtype = c->call.dtype,
                         .op = c->call.op,
                         .recv = buf,
                         .count = count};
}

static nx_compress_pieces all_pieces(const nx_compress *c)
{
    return nx_compress_pieces_of((nx_span){.off = 0, .len = c->call.count});
}

/* ---- NONE ---------------------------------------------------------------------------- */

nexar_err nx_none_begin(nx_compress *c, nx_exchange *e)
{
    nx_compress_pieces p = all_pieces(c);
    nexar_err err;

    if (!nx_compress_feeds_back(c)) {
        *e = reduce_in(c, c->call.buf, c->call.count);
        return NEXAR_OK;
    }
    err = nx_compress_hold(c, &c->received, c->call.count * c->elem, "the sum of a tensor");
    if (err != NEXAR_OK) {
        return err;
    }
    while (nx_compress_pieces_next(&p)) {
        nx_lanes x;

        nx_compress_load(c, &p, &x);
        nx_lanes_store(&x, c->call.dtype, (char *)c->received.at + p.at * c->elem, p.n, true);
    }
    *e = reduce_in(c, c->received.at, c->call.count);
    return NEXAR_OK;
}

nexar_err nx_none_end(nx_compress *c, nx_exchange *e)
{
    nx_compress_pieces p = all_pieces(c);

    (void)e;
    if (!nx_compress_feeds_back(c)) {
        return NEXAR_OK;
    }
    while (nx_compress_pieces_next(&p)) {
        nx_lanes x, sent;

        nx_compress_load(c, &p, &x);
        sent = x;
        nx_compress_round(c, &sent, true);
        nx_lanes_residue(&x, &sent, 1, c->work);
        nx_compress_store_residual(c, &p, &x);
    }
    if (c->call.count > 0) {
        memcpy(c->call.buf, c->received.at, c->call.count * c->elem);
    }
    return NEXAR_OK;
}

/* ---- RANDOMK ------------------------------------------------------------------------- */

static size_t k_of(const nx_compress *c)
{
    return nx_compress_k(c->call.how, c->call.ratio, c->call.count);
}

/* Up to NX_PIECE picks, contiguous. */
typedef struct batch {
    size_t first, n;
    size_t index[NX_PIECE];
} batch;

static bool next_batch(const nx_compress *c, const nx_picks *picks, batch *b)
{
    const size_t first = b->first + b->n, rest = k_of(c) - first;

    b->first = first;
    b->n = (rest < NX_PIECE) ? rest : NX_PIECE;
    for (size_t i = 0; i < b->n; i++) {
        b->index[i] = nx_picks_at(picks, first + i);
    }
    return rest > 0;
}

static void gather(const batch *b, size_t elem, void *to, const void *from)
{
    for (size_t i = 0; i < b->n; i++) {
        nx_element_copy((char *)to + i * elem, (const char *)from + b->index[i] * elem, elem);
    }
}

static void scatter(const batch *b, size_t elem, void *to, const void *from)
{
    for (size_t i = 0; i < b->n; i++) {
        nx_element_copy((char *)to + b->index[i] * elem, (const char *)from + i * elem, elem);
    }
}

/* x of the picks. */
static void load_picks(const nx_compress *c, const batch *b, nx_lanes *x)
{
    char buf[NX_PIECE * sizeof(double)], residual[NX_PIECE * sizeof(double)];
    nx_cut_tensor picked = {.buf = buf, .count = b->n, .dtype = c->call.dtype};

    gather(b, c->elem, buf, c->call.buf);
    if (nx_compress_feeds_back(c)) {
        gather(b, c->elem, residual, c->call.residual);
        picked.residual = residual;
    }
    nx_cut_load(&picked, 0, b->n, x);
}

static nx_picks picks_of(const nx_compress *c)
{
    const size_t k = k_of(c);
    const nx_picks none = {0};

    return (k == 0) ? none : nx_picks_of(c->call.count, k, c->call.seed);
}

nexar_err nx_randomk_begin(nx_compress *c, nx_exchange *e)
{
    const nx_picks picks = picks_of(c);
    const size_t k = k_of(c);
    batch b = {0};
    nexar_err err;

    err = nx_compress_hold(c, &c->received, k * c->elem, "the elements that randomk sends");
    if (err != NEXAR_OK) {
        return err;
    }
    while (next_batch(c, &picks, &b)) {
        nx_lanes x;

        load_picks(c, &b, &x);
        nx_lanes_store(&x, c->call.dtype, (char *)c->received.at + b.first * c->elem, b.n,
                       nx_compress_feeds_back(c));
    }
    *e = reduce_in(c, c->received.at, k);
    return NEXAR_OK;
}

/* Leaves the remainder of the picks in x: the error in the residual, 0 in the buffer. */
static void leave_picks(nx_compress *c, const nx_picks *picks)
{
    static const char zeros[NX_PIECE * sizeof(double)];
    char rest[NX_PIECE * sizeof(double)];
    batch b = {0};

    while (next_batch(c, picks, &b)) {
        nx_lanes x, sent;

        load_picks(c, &b, &x);
        sent = x;
        nx_compress_round(c, &sent, true);
        nx_lanes_residue(&x, &sent, 1, c->work);
        nx_lanes_store(&x, c->call.dtype, rest, b.n, true);
        scatter(&b, c->elem, c->call.residual, rest);
        scatter(&b, c->elem, c->call.buf, zeros);
    }
}

nexar_err nx_randomk_end(nx_compress *c, nx_exchange *e)
{
    const nx_picks picks = picks_of(c);
    nx_compress_pieces p = all_pieces(c);
    batch b = {0};

    (void)e;
    if (nx_compress_feeds_back(c)) {
        leave_picks(c, &picks);
        while (nx_compress_pieces_next(&p)) {
            nx_lanes x;

            nx_compress_load(c, &p, &x);
            nx_compress_store_residual(c, &p, &x);
        }
    }
    if (c->call.count > 0) {
        memset(c->call.buf, 0, c->call.count * c->elem);
    }
    while (next_batch(c, &picks, &b)) {
        scatter(&b, c->elem, c->call.buf, (const char *)c->received.at + b.first * c->elem);
    }
    return NEXAR_OK;
}
