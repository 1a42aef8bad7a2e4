/*
 * fewer.h - a collective with blocks, as one rank calls it, to which only some ranks contribute:
 * the expected content of its buffers, and the bytes that must not change.
 */
#ifndef NXT_FEWER_H
#define NXT_FEWER_H

#include "call_check.h"
#include "core/coll/coll_args.h"

typedef struct nxt_fewer {
    nxt_call call; /* of all ranks */
    uint32_t me;
    uint64_t seed;
    uint32_t *send, *recv;   /* NEXAR_U32, sums; as long as |call| says */
    uint32_t *sent, *before; /* copies from before the call */
} nxt_fewer;

/* The kinds with blocks, for |i| below NXT_FEWER_KINDS. */
enum { NXT_FEWER_KINDS = 10 };
nx_coll_kind nxt_fewer_kind(unsigned i);

/* All fields but |me| are the same on all ranks; the others are those of nxt_call_init. */
typedef struct nxt_fewer_plan {
    nx_coll_kind kind;
    uint32_t size, root;
    size_t count;
    nxt_place place;
    uint64_t seed;
} nxt_fewer_plan;
void nxt_fewer_init(nxt_fewer *f, const nxt_fewer_plan *plan, uint32_t me);
void nxt_fewer_fini(nxt_fewer *f);

/* The call on |comm| with these buffers, which may be copies of |send| and |recv|. */
nx_coll_args nxt_fewer_args(const nxt_fewer *f, nexar_comm *comm, const void *send, void *recv);

/* Whether |recv| is exactly the result of the contributions of |who|, as bits, and |send| is
 * unchanged. */
bool nxt_fewer_is_right(const nxt_fewer *f, uint64_t who);

#endif /* NXT_FEWER_H */
