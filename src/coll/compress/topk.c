/*
 * topk.c - TOPK: the k elements of the largest magnitude, with their indexes.
 *
 * The tensor is divided into a shard for each rank. Each rank sends the elements taken from a
 * shard, as a sparse block, to the shard's owner, which adds the blocks in rank order. The sum,
 * again a sparse block, goes to all ranks. The sum has every element that any rank has sent; an
 * element in no sum is 0. Sizes are exchanged before blocks, since only the sender knows them.
 *
 *     sent by each rank: (size - 1) / size of (k entries + what is in all sums), each
 *     shard never more than whole, and two sizes of 8 bytes for each rank
 *     memory: at most twice the tensor, and a shard's block and sum
 */
#include <string.h>

#include "coll/compress/sparse.h"
#include "compress_inner.h"

static nx_sparse_shape shape_of(const nx_compress *c, uint32_t rank)
{
    return (nx_sparse_shape){.len = nx_split_at(&c->shards, rank).len, .value = c->elem};
}

/* counts[r] is set: computes each offset; returns the end. */
static size_t lay_out(const nx_compress *c, const size_t *counts, size_t *displs)
{
    size_t end = 0;

    for (uint32_t r = 0; r < c->call.size; r++) {
        displs[r] = end;
        end += counts[r];
    }
    return end;
}

/* ---- selecting elements -------------------------------------------------------------- */

/* The number of taken elements in each shard. */
static void count_taken(const nx_compress *c, nx_cut cut, size_t *entries)
{
    uint16_t taken[NX_PIECE];

    for (uint32_t r = 0; r < c->call.size; r++) {
        nx_compress_pieces p = nx_compress_pieces_of(nx_split_at(&c->shards, r));

        entries[r] = 0;
        while (nx_compress_pieces_next(&p)) {
            nx_lanes x;

            nx_compress_load(c, &p, &x);
            entries[r] += nx_cut_take(&cut, &x, p.n, c->work, taken);
        }
    }
}

static void encode_taken(const nx_compress *c, nx_cut cut, const size_t *entries)
{
    char values[NX_PIECE * sizeof(double)];
    uint16_t taken[NX_PIECE];

    for (uint32_t r = 0; r < c->call.size; r++) {
        nx_compress_pieces p = nx_compress_pieces_of(nx_split_at(&c->shards, r));
        nx_sparse_writer w;

        nx_sparse_write(&w, (char *)c->sent.at + c->sent_displs[r], shape_of(c, r), entries[r]);
        while (nx_compress_pieces_next(&p)) {
            nx_lanes x;
            size_t n;

            nx_compress_load(c, &p, &x);
            n = nx_cut_take(&cut, &x, p.n, c->work, taken);
            if (n > 0) {
                nx_lanes_store(&x, c->call.dtype, values, p.n, nx_compress_feeds_back(c));
            }
            for (size_t i = 0; i < n; i++) {
                nx_sparse_put(&w, p.off + taken[i], values + taken[i] * c->elem);
            }
        }
    }
}

nexar_err nx_topk_begin(nx_compress *c, nx_exchange *e)
{
    const nx_cut_tensor input = nx_compress_input(c);
    size_t *entries = c->recv_counts; /* unused until sizes arrive */
    nx_cut cut;
    nexar_err err =
        nx_cut_find(&input, nx_compress_k(c->call.how, c->call.ratio, c->call.count), &cut);

    if (err != NEXAR_OK) {
        return err;
    }
    count_taken(c, cut, entries);
    for (uint32_t r = 0; r < c->call.size; r++) {
        c->sent_counts[r] = nx_sparse_bytes(shape_of(c, r), entries[r]);
        c->sizes_out[r] = c->sent_counts[r];
    }
    err = nx_compress_hold(c, &c->sent, lay_out(c, c->sent_counts, c->sent_displs),
                           "the elements that topk sends");
    if (err != NEXAR_OK) {
        return err;
    }
    encode_taken(c, cut, entries);
    *e = (nx_exchange){.kind = NX_ALLTOALL,
                       .dtype = NEXAR_U64,
                       .send = c->sizes_out,
                       .recv = c->sizes_in,
                       .count = 1};
    return NEXAR_OK;
}

/* ---- sizes --------------------------------------------------------------------------- */

/* Makes room for the announced blocks: those of this rank's shard, or the sums of the other
 * shards. */
static nexar_err make_room(nx_compress *c, bool sums)
{
    for (uint32_t r = 0; r < c->call.size; r++) {
        const size_t most = nx_sparse_most(shape_of(c, sums ? r : c->call.rank));

        if (c->sizes_in[r] > most) {
            return nx_fail(NEXAR_EPROTO,
                           "rank %u announces %llu bytes of a shard that has at most %zu",
                           (unsigned)r, (unsigned long long)c->sizes_in[r], most);
        }
        c->recv_counts[r] = (size_t)c->sizes_in[r];
    }
    if (!sums) {
        c->recv_counts[c->call.rank] = 0; /* mine are in |sent| */
    }
    return nx_compress_hold(c, &c->received, lay_out(c, c->recv_counts, c->recv_displs),
                            "the elements that others send");
}

nexar_err nx_topk_send(nx_compress *c, nx_exchange *e)
{
    const nexar_err err = make_room(c, false);

    if (err != NEXAR_OK) {
        return err;
    }
    c->sent_counts[c->call.rank] = 0;
    *e = nx_compress_spread(c);
    return NEXAR_OK;
}

nexar_err nx_topk_gather(nx_compress *c, nx_exchange *e)
{
    const nexar_err err = make_room(c, true);

    if (err != NEXAR_OK) {
        return err;
    }
    *e = (nx_exchange){.kind = NX_ALLGATHERV,
                       .dtype = NEXAR_U8,
                       .send = c->result.at,
                       .recv = c->received.at,
                       .count = c->recv_counts[c->call.rank],
                       .recv_counts = c->recv_counts,
                       .recv_displs = c->recv_displs};
    return NEXAR_OK;
}

/* ---- sums ---------------------------------------------------------------------------- */

static nexar_err bad_block(uint32_t rank)
{
    return nx_fail(NEXAR_EPROTO, "what rank %u has sent of a shard is no sparse block",
                   (unsigned)rank);
}

/* Reads the entries of a piece, 0 where there is none. */
static void read_piece(const nx_compress *c, nx_sparse_reader *r, const nx_compress_pieces *p,
                       nx_lanes *x)
{
    char values[NX_PIECE * sizeof(double)];
    const void *value;
    size_t index;

    memset(values, 0, p->n * c->elem);
    while (nx_sparse_get(r, p->off + p->n, &index, &value)) {
        nx_element_copy(values + (index - p->off) * c->elem, value, c->elem);
    }
    nx_lanes_load(x, c->call.dtype, values, p->n);
}

/* Readers of this rank's block for a shard, and of the block of |from| for the shard of |owner|. */
static nx_sparse_reader read_sent(const nx_compress *c, uint32_t owner)
{
    const size_t begin = c->sent_displs[owner];
    const size_t end = (owner + 1 < c->call.size) ? c->sent_displs[owner + 1] : c->sent.bytes;
    nx_sparse_reader reader;

    nx_sparse_read(&reader, (char *)c->sent.at + begin, end - begin, shape_of(c, owner));
    return reader;
}

static nx_sparse_reader read_received(const nx_compress *c, uint32_t from, uint32_t owner)
{
    nx_sparse_reader reader;

    nx_sparse_read(&reader, (char *)c->received.at + c->recv_displs[from], c->recv_counts[from],
                   shape_of(c, owner));
    return reader;
}

/* The sum of this rank's shard over all ranks, in rank order, in |left|. */
static nexar_err sum_shard(nx_compress *c)
{
    nx_lanes sum, part;

    memset(c->left.at, 0, c->left.bytes);
    for (uint32_t r = 0; r < c->call.size; r++) {
        nx_sparse_reader reader =
            (r == c->call.rank) ? read_sent(c, r) : read_received(c, r, c->call.rank);
        nx_compress_pieces p = nx_compress_pieces_of(c->mine);

        while (nx_compress_pieces_next(&p)) {
            read_piece(c, &reader, &p, &part);
            nx_compress_load_left(c, &p, &sum);
            nx_lanes_add(&sum, &part, c->work);
            nx_compress_keep_left(c, &p, &sum);
        }
        if (!nx_sparse_over(&reader)) {
            return bad_block(r);
        }
    }
    return NEXAR_OK;
}

/* The result of a piece, the same on all ranks: the stored elements in |values|, and the non-zero
 * ones in |taken|. |sum| becomes the error of the result. */
static size_t result_of(const nx_compress *c, const nx_compress_pieces *p, nx_lanes *sum,
                        char *values, uint16_t *taken)
{
    const uint32_t times = (c->call.op == NEXAR_AVG) ? c->call.size : 1;
    nx_cut all = {.magnitude = 0, .ties = 0};
    nx_lanes result = *sum;

    if (times > 1) {
        nx_lanes_divide(&result, times, c->work);
    }
    nx_compress_round(c, &result, nx_compress_feeds_back(c));
    nx_lanes_store(&result, c->call.dtype, values, p->n, false);
    nx_lanes_residue(sum, &result, times, c->work);
    return nx_cut_take(&all, &result, p->n, c->work, taken);
}

static size_t count_result(const nx_compress *c)
{
    nx_compress_pieces p = nx_compress_pieces_of(c->mine);
    size_t entries = 0;

    while (nx_compress_pieces_next(&p)) {
        char values[NX_PIECE * sizeof(double)];
        uint16_t taken[NX_PIECE];
        nx_lanes sum;

        nx_compress_load_left(c, &p, &sum);
        entries += result_of(c, &p, &sum, values, taken);
    }
    return entries;
}

static void encode_result(nx_compress *c, size_t entries)
{
    nx_compress_pieces p = nx_compress_pieces_of(c->mine);
    nx_sparse_writer w;

    nx_sparse_write(&w, c->result.at, shape_of(c, c->call.rank), entries);
    while (nx_compress_pieces_next(&p)) {
        char values[NX_PIECE * sizeof(double)];
        uint16_t taken[NX_PIECE];
        nx_lanes sum;
        size_t n;

        nx_compress_load_left(c, &p, &sum);
        n = result_of(c, &p, &sum, values, taken);
        for (size_t i = 0; i < n; i++) {
            nx_sparse_put(&w, p.off + taken[i], values + taken[i] * c->elem);
        }
        nx_compress_keep_left(c, &p, &sum);
    }
}

nexar_err nx_topk_sum(nx_compress *c, nx_exchange *e)
{
    nexar_err err = nx_compress_hold(c, &c->left, c->mine.len * nexar_dtype_size(c->work),
                                     "the sum of a shard");

    if ((err == NEXAR_OK) && (c->mine.len > 0)) {
        err = sum_shard(c);
    }
    if (err != NEXAR_OK) {
        return err;
    }
    const size_t entries = count_result(c);
    const size_t bytes = nx_sparse_bytes(shape_of(c, c->call.rank), entries);

    err = nx_compress_hold(c, &c->result, bytes, "the sum of a shard");
    if (err != NEXAR_OK) {
        return err;
    }
    encode_result(c, entries);
    c->sizes_out[c->call.rank] = bytes;
    *e = (nx_exchange){.kind = NX_ALLGATHER,
                       .dtype = NEXAR_U64,
                       .send = &c->sizes_out[c->call.rank],
                       .recv = c->sizes_in,
                       .count = 1};
    return NEXAR_OK;
}

/* ---- the end ------------------------------------------------------------------------- */

/* Validates all blocks before it uses the first. */
static nexar_err check_results(const nx_compress *c)
{
    for (uint32_t r = 0; r < c->call.size; r++) {
        nx_sparse_reader reader = read_received(c, r, r);
        const void *value;
        size_t index;

        while (nx_sparse_get(&reader, SIZE_MAX, &index, &value)) {
        }
        if (!nx_sparse_over(&reader)) {
            return bad_block(r);
        }
    }
    return NEXAR_OK;
}

static void end_residual(nx_compress *c, const nx_compress_pieces *p, uint32_t owner,
                         nx_sparse_reader *sent)
{
    nx_lanes x, part;

    nx_compress_load(c, p, &x);
    read_piece(c, sent, p, &part);
    nx_lanes_residue(&x, &part, 1, c->work);
    if (owner == c->call.rank) {
        nx_compress_load_left(c, p, &part);
        nx_lanes_add(&x, &part, c->work);
    }
    nx_compress_store_residual(c, p, &x);
}

nexar_err nx_topk_end(nx_compress *c, nx_exchange *e)
{
    const nexar_err err = check_results(c);

    (void)e;
    if (err != NEXAR_OK) {
        return err;
    }
    for (uint32_t r = 0; r < c->call.size; r++) {
        nx_sparse_reader sent = read_sent(c, r), sum = read_received(c, r, r);
        nx_compress_pieces p = nx_compress_pieces_of(nx_split_at(&c->shards, r));

        while (nx_compress_pieces_next(&p)) {
            nx_lanes result;

            if (nx_compress_feeds_back(c)) {
                end_residual(c, &p, r, &sent);
            }
            read_piece(c, &sum, &p, &result);
            nx_compress_store_result(c, &p, &result);
        }
    }
    return NEXAR_OK;
}
