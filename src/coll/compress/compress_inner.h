/* compress_inner.h - shared by the methods of compress.h. */
#ifndef NX_COMPRESS_INNER_H
#define NX_COMPRESS_INNER_H

#include "compress.h"
#include "cut.h"
#include "lanes.h"

/* Memory owned by an nx_compress. */
typedef struct nx_compress_held {
    void *at;
    size_t bytes;
} nx_compress_held;

/* Computes up to the next collective, or to the end, where |e| is unchanged. */
typedef nexar_err nx_compress_step(nx_compress *c, nx_exchange *e);

typedef struct nx_compress_method {
    const char *name;
    nx_codec codec; /* F16, BF16, INT8 */
    nx_compress_step *steps[NX_COMPRESS_EXCHANGES + 1];
} nx_compress_method;

struct nx_compress {
    nx_compress_call call;
    const nx_compress_method *method;
    unsigned step; /* the next one */
    nexar_dtype work;
    size_t elem; /* bytes of an element of the tensor */
    nx_split shards;
    nx_span mine; /* the shard that this rank reduces */

    nx_compress_held sent;     /* this rank's encoding, kept until its residual is computed */
    nx_compress_held received; /* from other ranks: shards first, then results */
    nx_compress_held result;   /* the encoded sum of this rank's shard */
    nx_compress_held
        left; /* for this rank's shard, in |work|: the quantisation error of the result */
    nx_compress_held tables; /* those below: size of each */
    size_t *sent_counts, *sent_displs, *recv_counts, *recv_displs;
    uint64_t *sizes_out, *sizes_in; /* TOPK: bytes to and from each rank */
    size_t memory, most;
};

/* The methods' steps. */
nx_compress_step nx_none_begin, nx_none_end;
nx_compress_step nx_randomk_begin, nx_randomk_end;
nx_compress_step nx_quantise_begin, nx_quantise_sum, nx_quantise_end;
nx_compress_step nx_topk_begin, nx_topk_send, nx_topk_sum, nx_topk_gather, nx_topk_end;

/* Replaces the memory of |h| by |bytes| bytes, not cleared; none for 0.  NEXAR_ENOMEM */
NX_MUST_CHECK nexar_err nx_compress_hold(nx_compress *c, nx_compress_held *h, size_t bytes,
                                         const char *what);

/* Whether a residual keeps what is not sent; codes then saturate. */
static inline bool nx_compress_feeds_back(const nx_compress *c)
{
    return c->call.residual != NULL;
}

/* The exchange of encoded shards: |sent| to their owners, this rank's shards to |received|. */
static inline nx_exchange nx_compress_spread(const nx_compress *c)
{
    return (nx_exchange){.kind = NX_ALLTOALLV,
                         .dtype = NEXAR_U8,
                         .send = c->sent.at,
                         .recv = c->received.at,
                         .send_counts = c->sent_counts,
                         .send_displs = c->sent_displs,
                         .recv_counts = c->recv_counts,
                         .recv_displs = c->recv_displs};
}

/* x = buf + residual of the whole tensor. */
static inline nx_cut_tensor nx_compress_input(const nx_compress *c)
{
    return (nx_cut_tensor){c->call.buf, c->call.residual, c->call.count, c->call.dtype};
}

/* Iterates over a shard: elements |at| .. |at| + |n| of the tensor, |off| within the shard. */
typedef struct nx_compress_pieces {
    nx_span shard;
    size_t at, n, off;
} nx_compress_pieces;

static inline nx_compress_pieces nx_compress_pieces_of(nx_span shard)
{
    return (nx_compress_pieces){.shard = shard};
}

/* The next piece; false after the last. */
static inline bool nx_compress_pieces_next(nx_compress_pieces *p)
{
    const size_t done = p->off + p->n, rest = p->shard.len - done;

    p->off = done;
    p->at = p->shard.off + done;
    p->n = (rest < NX_PIECE) ? rest : NX_PIECE;
    return rest > 0;
}

/* The current piece as lanes: of the input, of the error of this rank's shard; and back. */
void nx_compress_load(const nx_compress *c, const nx_compress_pieces *p, nx_lanes *x);
void nx_compress_load_left(const nx_compress *c, const nx_compress_pieces *p, nx_lanes *x);
void nx_compress_keep_left(nx_compress *c, const nx_compress_pieces *p, const nx_lanes *x);
void nx_compress_store_residual(nx_compress *c, const nx_compress_pieces *p, const nx_lanes *x);
void nx_compress_store_result(nx_compress *c, const nx_compress_pieces *p, const nx_lanes *x);

/* Rounds |x| to the dtype of the tensor. */
void nx_compress_round(const nx_compress *c, nx_lanes *x, bool saturate);

#endif /* NX_COMPRESS_INNER_H */
