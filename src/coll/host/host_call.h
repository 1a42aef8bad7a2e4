/*
 * host_call.h - one collective call of one rank, executed on the board or in the memory of other
 * ranks.
 *
 * Methods, chosen by what all ranks know:
 *
 *   slots   every rank copies its input to the board; all read from there what they
 *           need and reduce it in the order of ranks: identical bits on all.  One wait;
 *           more, one per piece, for longer input: two copies by the processor while the
 *           piece is in the caches take less than one by the kernel.  A wait is expensive
 *           where ranks share cores: pieces are longer then.  In a long reduction each rank
 *           reduces a part of the piece, writes it over that part of its input,
 *           and reads the others.
 *   reads   every rank publishes the addresses of its buffers; each reads what it needs from
 *           the others, in cache-sized blocks.  Each reduced part has one owner: identical
 *           bits on all ranks again.  Work is divided equally between all ranks.
 *           Two waits; one more if a part that another rank has reduced is read.  For
 *           buffers in arenas, and for kinds that cannot be cut in pieces.
 *   either for lengths that fit in slots, but for which reads pay if nothing has to be copied. A
 *           rank whose buffers are in its arena (nexar_alloc) publishes their addresses; the other
 *           ranks copy their input. If all ranks have published addresses: reads. If only some
 *           have, these copy theirs now, and all wait once more: slots. Where reading is currently
 *           faster even by the kernel, all publish: path_choice.h.
 *   blocks  the v forms, whose lengths not all ranks know: each rank copies what
 *           others get from it, or publishes its address if it is long, with the offset and
 *           the length of each block, and what it expects of others; all compare these
 *           lengths.  One wait; two if any rank has published addresses.
 *
 * A bucket is one vector in many tensors.  For reads, a rank publishes the address of its list of
 * tensors; each reads the lines of it that it needs.
 *
 * A hook, allreduce_rs_ag: the parts are the shards of that call. A rank reduces its own part in
 * place and calls the hook; then the other ranks get the part.
 *
 * Pull and push. The kernel reads the memory of another rank. It is written only where it is mapped
 * here: in the arena of its owner (remote_memory.h). Each rank publishes with its buffers which
 * arenas it has mapped (|sees|). So the rank that has a result and the rank that needs it both
 * know, without a wait, which of them copies it. The first writes it (nx_host_call_pushes), or the
 * second reads it once the first reports it. After each read a rank checks whether the process has
 * exited or the board is broken; then it discards what was read.
 *
 * In place.  Only its owner reads a part of a buffer that is reduced, and then writes it: input and
 * result may be the same memory.  A result that would overwrite what another rank still reads is
 * written after the last wait.
 */
#ifndef NX_HOST_CALL_H
#define NX_HOST_CALL_H

#include "board.h"
#include "coll/coll_call.h"
#include "coll/run/binding.h"
#include "path_choice.h"
#include "remote_memory.h"

typedef enum nx_method {
    NX_METHOD_ENGINE,
    NX_METHOD_SLOTS,
    NX_METHOD_EITHER,
    NX_METHOD_READS,
    NX_METHOD_BLOCKS
} nx_method;

enum {
    NX_HOST_CALL_BLOCK = 128 << 10, /* read at a time: two of them stay in a cache */
    NX_HOST_CALL_SHORT = 4 << 10,   /* up to here slots are always best */
    NX_HOST_CALL_PARTS = 16 << 10,  /* from here on a reduction is cut in parts, ... */
    NX_HOST_CALL_DEAR = 64 << 10,   /* ... or from here, if a wait is expensive */
    NX_HOST_CALL_PIECE = 128 << 10, /* copied at a time, if each rank has its own core */
    NX_HOST_CALL_SCANS = 4          /* ranks: with more, a scan is not processed in pieces */
};

/* Whether a rank publishes an address instead of copying: required; all can map it in its arena;
 * currently faster. */
typedef enum nx_lends { NX_LENDS_NOT, NX_LENDS, NX_LENDS_BY_CHOICE } nx_lends;

/* The addresses of a rank's buffers, on the board.  The arena: see core/comm/arena.h. */
typedef struct nx_lent {
    uint64_t in, out;                        /* of a bucket |in| is the list of its tensors */
    uint64_t arena, arena_size, arena_inode; /* 0: none */
    int64_t arena_fd;
    uint64_t sees; /* ranks whose arenas it has mapped, as bits */
} nx_lent;

typedef struct nx_bucket nx_bucket;

typedef struct nx_host_call {
    nx_episode turn;
    const nx_coll_call *call;
    nx_mark mark;
    bool declines;
    bool reads; /* all can read the memory of all */
    bool roomy; /* as on the board initially */
    nx_method way;
    nx_path_choice *tune; /* NULL: nothing is measured */
    unsigned choice;
    uint64_t took_ns;      /* without the wait for all ranks */
    bool disturbed;        /* the time must not be recorded */
    nx_remote_memory *far; /* by rank; set for reads */
    void *bounce;          /* NX_HOST_CALL_BLOCK bytes, for reads */
    /* Makes |far| map the arena of |rank|.  May be NULL. */
    void (*on_lent)(void *ctx, uint32_t rank, const nx_lent *lent);
    void *ctx;
    nx_lent own; /* the owner sets the arena, the rest is set here */

    void *aside; /* input that must not be overwritten by the result, or a part for the root; NULL:
                    none */
    nx_bucket *bucket; /* the tensors, where they are walked; NULL: they are not */

    bool working; /* other ranks may access this rank's memory */

    size_t off, len; /* of each block: the piece that is on the board, in elements */
    uint32_t turns;  /* that were completed */

    /* The result, besides that of the episode. */
    uint32_t odd; /* a rank whose fingerprint differs ... */
    nx_mark its;  /* ... and it; the size: none */
    uint32_t who; /* a copy from or to |who| has failed with ... */
    int code;     /* ... this errno; 0: none has */
    bool nomem;   /* this rank is out of memory */
    bool uneven;  /* |who| has a tensor of |theirs| elements instead of |ours| */
    size_t theirs, ours;
    bool apart;         /* blocks: one is not as long as is expected: ... */
    nx_uneven lengths;  /* ... this; on all ranks, and nothing was done */
    nexar_err hook_err; /* what the hook has returned */
} nx_host_call;

/* The method for |call| on |size| ranks; |roomy|: each has its own core; and whether they can read
 * each other's memory. */
nx_method nx_host_call_way(const nx_coll_call *call, bool roomy, uint32_t size, bool reads);

/* Elements that |rank| owns of |count|. */
typedef struct nx_part {
    size_t off, len;
} nx_part;
nx_part nx_part_of(size_t count, uint32_t size, uint32_t rank);
/* The same of the vector of |s|: with a hook its shard. */
nx_part nx_host_call_part(const nx_host_call *s, size_t count, uint32_t rank);

/*
 * Runs it.  NX_EPISODE_ON: done, and the episode counts, unless one of the fields below is set; if
 * |odd| is a rank, or |apart|, nothing was done, on all ranks.  With |code|, |nomem|, |uneven| or
 * |hook_err| the caller must break the board.
 */
nx_episode_end nx_host_call_run(nx_host_call *s);
/* Frees its memory. After the caller has notified the other ranks of an error. */
void nx_host_call_done(nx_host_call *s);
/*
 * A call that let other ranks access this rank's memory (|working|) has failed here, and this was
 * reported. Waits until the other ranks have left the call too, or have failed, so that no rank
 * writes to the buffers after they return to their owner. At most NX_HOST_CALL_PATIENCE_NS: returns
 * a rank that has not left; the size: all ranks have left.
 */
#define NX_HOST_CALL_PATIENCE_NS UINT64_C(10000000000)
uint32_t nx_host_call_await_others(const nx_host_call *s);

/* ---- host_call.c: for all methods ---------------------------------------------------- */

/* This rank's input. */
const void *nx_host_call_input(const nx_host_call *s);
/* Calls the hook with this rank's shard, if there is one.  False: it has failed. */
bool nx_host_call_hook(nx_host_call *s);
/* Maps the arenas of ranks that have published addresses. */
void nx_host_call_arenas(nx_host_call *s);
nx_lent nx_host_call_lent(const nx_host_call *s, uint32_t rank);
/* Whether |from|, not |to|, copies the |len| bytes at |at| of |to|; both derive it from published
 * data. */
bool nx_host_call_pushes(const nx_host_call *s, uint32_t from, uint32_t to, uint64_t at,
                         size_t len);
/* Copies |len| bytes from |at| of |rank|; or to it, which is mapped.  False: see |code|. */
bool nx_host_call_pull(nx_host_call *s, uint32_t rank, uint64_t at, void *to, size_t len);
bool nx_host_call_push(nx_host_call *s, uint32_t rank, uint64_t at, const void *from, size_t len);
/* Records the result |code| of a copy, 0 or an errno, from or to |rank|.  ECANCELED: the board is
 * broken, and buffers may have returned to their owners. */
bool nx_host_call_note(nx_host_call *s, uint32_t rank, int code);
/* |len| bytes at |at| of |rank|, at most a block: mapped, or in the bounce buffer. NULL: see
 * |code|. */
const void *nx_host_call_see(nx_host_call *s, uint32_t rank, uint64_t at, size_t len);
/* The share of this rank in copying |len| bytes between the root and another rank. */
nx_part nx_host_call_stretch(const nx_host_call *s, size_t len);

/* ---- by_board.c ---------------------------------------------------------------------- */

/* Whether no rank brings more than |room| bytes. */
bool nx_by_board_fit(const nx_coll_call *call, uint32_t size, size_t room);
/* Elements of each block that are copied at a time; 0: not for slots. */
size_t nx_by_board_piece(const nx_coll_call *call, bool roomy, uint32_t size);
/* The piece from |off| on: copies this rank's, and reads what it needs of all. */
void nx_by_board_bring(const nx_host_call *s, void *to);
void nx_by_board_take(const nx_host_call *s);
/* Whether it is an allreduce in parts. If so, instead of take: reduces the own part and, when all
 * ranks have done that, reads the others. False: the hook has failed. */
bool nx_by_board_parts(const nx_host_call *s);
bool nx_by_board_reduce_part(nx_host_call *s);
void nx_by_board_take_parts(const nx_host_call *s);

/* ---- by_remote_read.c ---------------------------------------------------------------- */

nx_episode_end nx_reads_run(nx_host_call *s);

/* ---- bucket.c: tensors as one vector ------------------------------------------------- */

/* Before arriving.  False: no memory. */
bool nx_bucket_open(nx_host_call *s);
void nx_bucket_close(nx_host_call *s);
/* Copy |len| elements from |off| on, to or from contiguous memory. */
void nx_bucket_get(const nx_host_call *s, size_t off, size_t len, void *to);
void nx_bucket_put(const nx_host_call *s, size_t off, size_t len, const void *from);
/* Reads: reduces this rank's part of all, and writes it where it pushes.  False: see |code|,
 * |uneven|. */
bool nx_bucket_part(nx_host_call *s);
/* Whether |from| writes its part into all tensors of |to|; one of them is this rank. */
bool nx_bucket_pushes(nx_host_call *s, uint32_t from, uint32_t to);
/* Reads the part of |owner|, which has reduced it.  False: as above. */
bool nx_bucket_pull(nx_host_call *s, uint32_t owner);

/* ---- blocks.c: v forms --------------------------------------------------------------- */

/* Before arriving.  False: this rank cannot take part; the engine must run it. */
bool nx_blocks_bring(nx_host_call *s, uint8_t *to);
/* All ranks have arrived: whether each receives the lengths that it expects. False: see |apart|. */
bool nx_blocks_fit(nx_host_call *s);
/* All have arrived: whether any of them has published an address instead of copying. */
bool nx_blocks_lent(const nx_host_call *s);
nx_episode_end nx_blocks_run(nx_host_call *s);

#endif /* NX_HOST_CALL_H */
