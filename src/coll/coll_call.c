/*
 * call.c - fingerprints.
 *
 *     word 0   kind 6 bits, guise 4, dtype 5, op 5, root 20, recipe 24
 *     word 1   the count
 *
 * The recipe is a hash of the attributes without a field of their own: the algorithm and its
 * segment, the counts of v forms, the tensors of a bucket.
 */
#include "coll_call.h"

#include <inttypes.h>
#include <stdio.h>

#include "reduce/reduce.h"

enum {
    KIND_BITS = 6,
    VARIANT_BITS = 4,
    DTYPE_BITS = 5,
    OP_BITS = 5,
    ROOT_BITS = 20,
    RECIPE_BITS = 24
};
_Static_assert(KIND_BITS + VARIANT_BITS + DTYPE_BITS + OP_BITS + ROOT_BITS + RECIPE_BITS == 64,
               "a fingerprint fills its word");
_Static_assert(NX_COLL_KINDS <= 1 << KIND_BITS, "kinds fit");
_Static_assert(NX_VARIANTS <= 1 << VARIANT_BITS, "guises fit");
/* Element types and operations of the application share one code; the recipe identifies them. */
enum { STRUCT_CODE = (1 << DTYPE_BITS) - 1, USER_CODE = (1 << OP_BITS) - 1 };
_Static_assert(NX_DTYPES <= (int)STRUCT_CODE, "dtypes fit");
_Static_assert(NX_OPS <= (int)USER_CODE, "ops fit");

/* Counts that every rank knows; the lengths of messages verify the other counts. */
static uint64_t mix_counts(uint64_t hash, const nx_coll *c)
{
    if ((c->kind == NX_ALLGATHERV) || (c->kind == NX_REDUCE_SCATTERV)) {
        for (uint32_t rank = 0; rank < c->parts.n; rank++) {
            hash = nx_mark_mix(hash, nx_split_at(&c->parts, rank).len);
        }
    }
    return hash;
}

static uint64_t known_count(const nx_coll *c)
{
    if (nx_coll_private(c->kind)) {
        return 0;
    }
    return ((c->kind == NX_ALLGATHERV) || (c->kind == NX_REDUCE_SCATTERV)) ? nx_split_sum(&c->parts)
                                                                           : c->count;
}

static uint64_t dtype_code(nexar_dtype dtype)
{
    return nx_dtype_is_struct(dtype) ? STRUCT_CODE : (uint64_t)dtype;
}

static uint64_t op_code(nexar_op op)
{
    return nx_op_is_user(op) ? USER_CODE : (uint64_t)op;
}

/* Identifies the application's own element type and operation, if it uses any. */
static uint64_t mix_own(uint64_t hash, const nx_coll_call *call)
{
    if (nx_dtype_is_struct(call->dtype)) {
        hash = nx_mark_mix(hash, (uint64_t)call->dtype);
    }
    return nx_op_is_user(call->op) ? nx_mark_mix(hash, (uint64_t)call->op) : hash;
}

static nx_mark make_mark(const nx_coll_call *call, uint64_t recipe)
{
    const nx_coll *c = &call->coll;
    uint64_t word = (uint64_t)c->kind;

    recipe = mix_own(nx_mark_mix(recipe, call->detail), call);
    recipe = mix_counts(recipe, c) >> (64 - RECIPE_BITS);
    word = (word << VARIANT_BITS) | (uint64_t)call->guise;
    word = (word << DTYPE_BITS) | dtype_code(call->dtype);
    word = (word << OP_BITS) | (nx_coll_reduces(c->kind) ? op_code(call->op) : 0);
    word = (word << ROOT_BITS) | (nx_coll_rooted(c->kind) ? c->root : 0);
    word = (word << RECIPE_BITS) | recipe;
    return (nx_mark){.word = {word, known_count(c)}};
}

nx_mark nx_call_mark(const nx_coll_call *call, const nx_choice *choice, bool verify)
{
    size_t n;
    const uint64_t row = (call->coll.distribution != NULL)
                             ? UINT64_MAX
                             : (uint64_t)(choice->algorithm - nx_algorithms(&n));

    return make_mark(call, nx_mark_mix(nx_mark_mix(verify ? 1 : 2, row), choice->segment));
}

nx_mark nx_mark_within(const nx_mark *part, const nx_coll_call *whole)
{
    return make_mark(whole, nx_mark_mix(nx_mark_mix(3, part->word[0]), part->word[1]));
}

bool nx_mark_equal(const nx_mark *a, const nx_mark *b)
{
    return (a->word[0] == b->word[0]) && (a->word[1] == b->word[1]);
}

/* ---- error text ---------------------------------------------------------------------- */

typedef struct fields {
    unsigned kind, guise, dtype, op, root;
} fields;

static fields unpack(const nx_mark *mark)
{
    uint64_t word = mark->word[0] >> RECIPE_BITS;
    fields f;

    f.root = (unsigned)(word & ((1U << ROOT_BITS) - 1));
    word >>= ROOT_BITS;
    f.op = (unsigned)(word & ((1U << OP_BITS) - 1));
    word >>= OP_BITS;
    f.dtype = (unsigned)(word & ((1U << DTYPE_BITS) - 1));
    word >>= DTYPE_BITS;
    f.guise = (unsigned)(word & ((1U << VARIANT_BITS) - 1));
    f.kind = (unsigned)(word >> VARIANT_BITS);
    return f;
}

static const char *name_of(const fields *f)
{
    static const char *const guises[NX_VARIANTS] = {
        [NX_VARIANT_BUCKETED] = "allreduce_bucketed",
        [NX_VARIANT_RS_AG] = "allreduce_rs_ag",
        [NX_VARIANT_COMPRESSED] = "allreduce_compressed",
        [NX_VARIANT_SPLIT] = "comm_split",
        [NX_VARIANT_DUP] = "comm_dup",
        [NX_VARIANT_SPLIT_HOST] = "comm_split_host",
        [NX_VARIANT_UPDATE] = "comm_update",
        [NX_VARIANT_STATE_SYNC] = "state_sync",
    };

    if ((f->guise < NX_VARIANTS) && (guises[f->guise] != NULL)) {
        return guises[f->guise];
    }
    return (f->kind < NX_COLL_KINDS) ? nx_coll_name((nx_coll_kind)f->kind) : "an unknown operation";
}

const char *nx_mark_name(const nx_mark *mark)
{
    const fields f = unpack(mark);

    return name_of(&f);
}

/* The names of codes. */
static const char *dtype_text(unsigned code)
{
    return nexar_dtype_name((code == STRUCT_CODE) ? NEXAR_STRUCT(1) : (nexar_dtype)code);
}

static const char *op_text(unsigned code)
{
    return (code == USER_CODE) ? "user op" : nexar_op_name((nexar_op)code);
}

const char *nx_mark_text(const nx_mark *mark, char *buf)
{
    const fields f = unpack(mark);
    const bool known = (f.kind < NX_COLL_KINDS) &&
                       ((f.dtype < NX_DTYPES) || (f.dtype == STRUCT_CODE)) &&
                       ((f.op < NX_OPS) || (f.op == USER_CODE));
    const bool counted = known && !nx_coll_private((nx_coll_kind)f.kind);
    char count[48] = "", op[24] = "", root[24] = "";

    if (!known || (f.kind == NX_BARRIER) || (f.guise >= NX_VARIANT_SPLIT)) {
        (void)snprintf(buf, NX_CALL_TEXT, "%s()", name_of(&f));
        return buf;
    }
    if (counted) {
        (void)snprintf(count, sizeof(count), "%" PRIu64 " x ", mark->word[1]);
    }
    if (nx_coll_reduces((nx_coll_kind)f.kind)) {
        (void)snprintf(op, sizeof(op), ", %s", op_text(f.op));
    }
    if (nx_coll_rooted((nx_coll_kind)f.kind)) {
        (void)snprintf(root, sizeof(root), ", root %u", f.root);
    }
    (void)snprintf(buf, NX_CALL_TEXT, "%s(%s%s%s%s)", name_of(&f), count, dtype_text(f.dtype), op,
                   root);
    return buf;
}

void nx_mark_differ(char *buf, size_t size, uint32_t number, uint32_t rank, const nx_mark *its,
                    uint32_t self, const nx_mark *own)
{
    char a[NX_CALL_TEXT], b[NX_CALL_TEXT];

    if (((its->word[0] ^ own->word[0]) >> RECIPE_BITS == 0) && (its->word[1] == own->word[1])) {
        (void)snprintf(buf, size,
                       "ranks %u and %u called %s as operation #%u with other counts, tensors or "
                       "parameters, or their settings algorithms, segment or verify differ",
                       rank, self, nx_mark_text(own, a), number);
        return;
    }
    (void)snprintf(buf, size, "rank %u called %s as operation #%u where rank %u called %s", rank,
                   nx_mark_text(its, a), number, self, nx_mark_text(own, b));
}

void nx_mark_uneven(char *buf, size_t size, uint32_t number, const nx_mark *mark,
                    const nx_uneven *u)
{
    const fields f = unpack(mark);
    char text[NX_CALL_TEXT];

    (void)snprintf(buf, size,
                   "rank %u called %s as operation #%u and sends %" PRIu64 " x %s to rank %u, "
                   "which called the same and expects %" PRIu64,
                   u->from, nx_mark_text(mark, text), number, u->sent, dtype_text(f.dtype), u->to,
                   u->expected);
}
