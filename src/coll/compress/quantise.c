/*
 * quantise.c - F16, BF16 and INT8: every element, in fewer bits.
 *
 * The tensor is divided into a shard for each rank. Each rank sends its codes of a shard to the
 * shard's owner. The owner decodes them, adds them in rank order with its own unencoded elements,
 * and encodes the sum, or the average. All ranks receive and decode these codes, so all have the
 * same bits. The error of a first code stays in its sender's residual, the error of a second code
 * in the shard owner's residual.
 *
 *     sent by each rank: 2 (size - 1) / size of the codes of the tensor
 *     memory: twice the codes of the tensor, and a shard's code and sum
 */
#include "compress_inner.h"

static size_t code_bytes(const nx_compress *c, size_t count)
{
    return nx_codec_bytes(c->method->codec, count);
}

/* The offset of a piece's code: codes of whole pieces precede it. */
static size_t code_at(const nx_compress *c, const nx_compress_pieces *p)
{
    return p->off / NX_PIECE * code_bytes(c, NX_PIECE);
}

/* Computes the offset of each shard's codes, of all shards or of all except this rank's; returns
 * the end. */
static size_t lay_out(const nx_compress *c, bool with_mine, size_t *counts, size_t *displs)
{
    size_t end = 0;

    for (uint32_t r = 0; r < c->call.size; r++) {
        const bool there = with_mine || (r != c->call.rank);

        counts[r] = there ? code_bytes(c, nx_split_at(&c->shards, r).len) : 0;
        displs[r] = end;
        end += counts[r];
    }
    return end;
}

static void encode_shard(nx_compress *c, nx_span shard, char *out)
{
    nx_compress_pieces p = nx_compress_pieces_of(shard);

    while (nx_compress_pieces_next(&p)) {
        nx_lanes x;

        nx_compress_load(c, &p, &x);
        nx_codec_encode(c->method->codec, out + code_at(c, &p), &x, p.n, c->work,
                        nx_compress_feeds_back(c));
    }
}

nexar_err nx_quantise_begin(nx_compress *c, nx_exchange *e)
{
    const size_t sent = lay_out(c, false, c->sent_counts, c->sent_displs);
    const size_t mine = code_bytes(c, c->mine.len), n = c->call.size;
    const size_t all = sent + mine, room = (n * mine > all) ? n * mine : all;
    nexar_err err = nx_compress_hold(c, &c->sent, sent, "the codes of a tensor");

    if (err == NEXAR_OK) {
        err = nx_compress_hold(c, &c->received, room, "the codes of other ranks");
    }
    if (err != NEXAR_OK) {
        return err;
    }
    for (uint32_t r = 0; r < n; r++) {
        c->recv_counts[r] = (r == c->call.rank) ? 0 : mine;
        c->recv_displs[r] = r * mine;
        if (r != c->call.rank) {
            encode_shard(c, nx_split_at(&c->shards, r), (char *)c->sent.at + c->sent_displs[r]);
        }
    }
    *e = nx_compress_spread(c);
    return NEXAR_OK;
}

/* The sum of a piece of this rank's shard over all ranks, in rank order. */
static void sum_piece(const nx_compress *c, const nx_compress_pieces *p, nx_lanes *sum)
{
    for (uint32_t r = 0; r < c->call.size; r++) {
        nx_lanes part, *x = (r == 0) ? sum : &part;

        if (r == c->call.rank) {
            nx_compress_load(c, p, x);
        } else {
            nx_codec_decode(c->method->codec, x,
                            (char *)c->received.at + c->recv_displs[r] + code_at(c, p), p->n,
                            c->work);
        }
        if (r > 0) {
            nx_lanes_add(sum, &part, c->work);
        }
    }
}

static void sum_shard(nx_compress *c)
{
    const uint32_t times = (c->call.op == NEXAR_AVG) ? c->call.size : 1;
    nx_compress_pieces p = nx_compress_pieces_of(c->mine);

    while (nx_compress_pieces_next(&p)) {
        char *code = (char *)c->result.at + code_at(c, &p);
        nx_lanes sum, result;

        sum_piece(c, &p, &sum);
        result = sum;
        if (times > 1) {
            nx_lanes_divide(&result, times, c->work);
        }
        nx_codec_encode(c->method->codec, code, &result, p.n, c->work, nx_compress_feeds_back(c));
        if (nx_compress_feeds_back(c)) {
            nx_codec_decode(c->method->codec, &result, code, p.n, c->work);
            nx_compress_round(c, &result, false);
            nx_lanes_residue(&sum, &result, times, c->work);
            nx_compress_keep_left(c, &p, &sum);
        }
    }
}

nexar_err nx_quantise_sum(nx_compress *c, nx_exchange *e)
{
    const size_t mine = code_bytes(c, c->mine.len);
    nexar_err err = nx_compress_hold(c, &c->result, mine, "the code of a sum");

    if (err != NEXAR_OK) {
        return err;
    }
    if (nx_compress_feeds_back(c)) {
        err = nx_compress_hold(c, &c->left, c->mine.len * nexar_dtype_size(c->work),
                               "the error of a sum");
    } else {
        err = nx_compress_hold(c, &c->sent, 0, "");
    }
    if (err != NEXAR_OK) {
        return err;
    }
    sum_shard(c);
    (void)lay_out(c, true, c->recv_counts, c->recv_displs);
    *e = (nx_exchange){.kind = NX_ALLGATHERV,
                       .dtype = NEXAR_U8,
                       .send = c->result.at,
                       .recv = c->received.at,
                       .count = mine,
                       .recv_counts = c->recv_counts,
                       .recv_displs = c->recv_displs};
    return NEXAR_OK;
}

static void end_residual(nx_compress *c, const nx_compress_pieces *p, uint32_t owner)
{
    nx_lanes x, sent;

    if (owner == c->call.rank) {
        nx_compress_load_left(c, p, &x);
    } else {
        nx_compress_load(c, p, &x);
        nx_codec_decode(c->method->codec, &sent,
                        (char *)c->sent.at + c->sent_displs[owner] + code_at(c, p), p->n, c->work);
        nx_lanes_residue(&x, &sent, 1, c->work);
    }
    nx_compress_store_residual(c, p, &x);
}

nexar_err nx_quantise_end(nx_compress *c, nx_exchange *e)
{
    (void)e;
    for (uint32_t r = 0; r < c->call.size; r++) {
        nx_compress_pieces p = nx_compress_pieces_of(nx_split_at(&c->shards, r));

        while (nx_compress_pieces_next(&p)) {
            nx_lanes result;

            if (nx_compress_feeds_back(c)) {
                end_residual(c, &p, r);
            }
            nx_codec_decode(c->method->codec, &result,
                            (char *)c->received.at + c->recv_displs[r] + code_at(c, &p), p.n,
                            c->work);
            nx_compress_store_result(c, &p, &result);
        }
    }
    return NEXAR_OK;
}
