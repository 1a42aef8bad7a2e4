/* host_call.c - the path of a call, and its episode. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/memory/copy.h"
#include "base/memory/nontemporal_copy.h"
#include "base/os/sys.h"
#include "host_call.h"
#include "reduce/reduce.h"

enum { PART_ALIGN = 64 }; /* elements */

nx_part nx_part_of(size_t count, uint32_t size, uint32_t rank)
{
    const size_t units = (count + PART_ALIGN - 1) / PART_ALIGN;
    const size_t first = units / size * rank + ((rank < units % size) ? rank : units % size);
    const size_t n = units / size + (rank < units % size);
    size_t off = first * PART_ALIGN, end = (first + n) * PART_ALIGN;

    off = (off < count) ? off : count;
    end = (end < count) ? end : count;
    return (nx_part){.off = off, .len = end - off};
}

nx_part nx_host_call_part(const nx_host_call *s, size_t count, uint32_t rank)
{
    if (s->call->coll.hook) {
        const nx_split split = nx_split_even(count, s->turn.size);
        const nx_span span = nx_split_at(&split, rank);

        return (nx_part){.off = span.off, .len = span.len};
    }
    return nx_part_of(count, s->turn.size, rank);
}

nx_method nx_host_call_way(const nx_coll_call *call, bool roomy, uint32_t size, bool reads)
{
    const nx_coll *c = &call->coll;

    if ((call->guise == NX_VARIANT_COMPRESSED) || (call->coll.distribution != NULL) ||
        nx_dtype_is_struct(call->dtype) || nx_op_is_user(call->op)) {
        return NX_METHOD_ENGINE;
    }
    if (c->kind >= NX_ALLGATHERV) {
        return NX_METHOD_BLOCKS;
    }
    if (nx_by_board_piece(call, roomy, size) != 0) {
        return (!reads || nx_by_board_fit(call, size, NX_HOST_CALL_SHORT) ||
                nx_call_scattered(call, NX_CALL_SHORT))
                   ? NX_METHOD_SLOTS
                   : NX_METHOD_EITHER;
    }
    return reads ? NX_METHOD_READS : NX_METHOD_ENGINE;
}

/* ---- the call ------------------------------------------------------------------------ */

const void *nx_host_call_input(const nx_host_call *s)
{
    const nx_coll *c = &s->call->coll;
    const size_t size = nexar_dtype_size(s->call->dtype);

    if (s->call->tensors != NULL) {
        return s->call->tensors;
    }
    if (c->kind == NX_BROADCAST) {
        return s->call->recv;
    }
    if (!c->in_place) {
        return s->call->send;
    }
    return ((c->kind == NX_ALLGATHER) || (c->kind == NX_GATHER))
               ? (const uint8_t *)s->call->recv + s->turn.rank * c->count * size
               : s->call->recv;
}

/* ---- memory of other ranks ----------------------------------------------------------- */

nx_lent nx_host_call_lent(const nx_host_call *s, uint32_t rank)
{
    return *(const nx_lent *)(const void *)nx_episode_slot(&s->turn, rank)->data;
}

void nx_host_call_arenas(nx_host_call *s)
{
    for (uint32_t rank = 0; (s->on_lent != NULL) && (rank < s->turn.size); rank++) {
        const nx_lent lent = nx_host_call_lent(s, rank);

        if ((rank != s->turn.rank) && (nx_episode_slot(&s->turn, rank)->lends != 0) &&
            (lent.arena_size != 0)) {
            s->on_lent(s->ctx, rank, &lent);
        }
    }
}

bool nx_host_call_note(nx_host_call *s, uint32_t rank, int code)
{
    code = ((code == 0) && (nx_episode_check(&s->turn) == NX_EPISODE_BROKEN)) ? ECANCELED : code;
    if (code != 0) {
        s->who = rank;
        s->code = code;
    }
    return code == 0;
}

bool nx_host_call_pull(nx_host_call *s, uint32_t rank, uint64_t at, void *to, size_t len)
{
    return nx_host_call_note(s, rank, nx_remote_memory_read(&s->far[rank], at, to, len));
}

bool nx_host_call_push(nx_host_call *s, uint32_t rank, uint64_t at, const void *from, size_t len)
{
    void *to = nx_remote_memory_see(&s->far[rank], at, len);

    if (to != NULL) {
        nx_nontemporal_copy(to, from, len);
    }
    return nx_host_call_note(s, rank, (to == NULL) ? EFAULT : 0);
}

bool nx_host_call_pushes(const nx_host_call *s, uint32_t from, uint32_t to, uint64_t at, size_t len)
{
    const nx_lent its = nx_host_call_lent(s, to);
    const uint64_t off = at - its.arena;

    return ((nx_host_call_lent(s, from).sees >> to & 1) != 0) && (off < its.arena_size) &&
           (len <= its.arena_size - off);
}

const void *nx_host_call_see(nx_host_call *s, uint32_t rank, uint64_t at, size_t len)
{
    const void *seen = nx_remote_memory_see(&s->far[rank], at, len);

    if (seen != NULL) {
        return seen;
    }
    return nx_host_call_pull(s, rank, at, s->bounce, len) ? s->bounce : NULL;
}

nx_part nx_host_call_stretch(const nx_host_call *s, size_t len)
{
    const size_t roots = len / s->turn.size / NX_BOARD_LINE * NX_BOARD_LINE;

    return (s->turn.rank == s->call->coll.root) ? (nx_part){.off = 0, .len = roots}
                                                : (nx_part){.off = roots, .len = len - roots};
}

bool nx_host_call_hook(nx_host_call *s)
{
    const nx_coll_call *call = s->call;
    const nx_part p = nx_host_call_part(s, call->coll.count, s->turn.rank);
    uint8_t *shard = (uint8_t *)call->recv + p.off * nexar_dtype_size(call->dtype);

    if (call->on_shard != NULL) {
        s->hook_err = call->on_shard(shard, p.off, p.len, call->shard_arg);
    }
    return s->hook_err == NEXAR_OK;
}

/* ---- the episode --------------------------------------------------------------------- */

/* Kinds whose result, in place, would overwrite input that other ranks still read. */
static bool overwrites(const nx_coll *c)
{
    return c->in_place && ((c->kind == NX_ALLTOALL) || (c->kind == NX_EXSCAN));
}

/* Copies such an input to |aside|. False: no memory. */
static bool put_aside(nx_host_call *s)
{
    const nx_coll *c = &s->call->coll;
    const size_t len =
        c->count * nexar_dtype_size(s->call->dtype) * ((c->kind == NX_ALLTOALL) ? s->turn.size : 1);

    if ((s->way != NX_METHOD_READS) || !overwrites(c)) {
        return true;
    }
    s->aside = nx_alloc_aligned(NX_BOARD_LINE, len);
    if (s->aside == NULL) {
        return false;
    }
    nx_memcpy(s->aside, s->call->recv, len);
    return true;
}

/* A rank that is not the root of a reduce has no result of its own: it builds its part in |aside|.
 * Only the pages in use become resident. False: there is none. */
static bool open_part(nx_host_call *s)
{
    const nx_coll *c = &s->call->coll;
    const size_t size = nexar_dtype_size(s->call->dtype);
    const nx_part p = nx_host_call_part(s, c->count, s->turn.rank);

    if ((c->kind != NX_REDUCE) || (c->root == s->turn.rank)) {
        s->own.out = (uint64_t)(uintptr_t)s->call->recv;
        return true;
    }
    s->aside = nx_alloc_aligned(NX_BOARD_LINE, (p.len + 1) * size);
    s->own.out = (uint64_t)(uintptr_t)s->aside - p.off * size;
    return s->aside != NULL;
}

/* Allocates the memory that this rank needs before it arrives. False: there is none. */
static bool open_share(nx_host_call *s)
{
    return put_aside(s) && ((s->call->tensors == NULL) || nx_bucket_open(s));
}

static bool in_arena(const nx_host_call *s, const void *ptr)
{
    return (uint64_t)(uintptr_t)ptr - s->own.arena < s->own.arena_size;
}

/* Whether the buffers of this rank are in its arena, and other ranks may access them. */
static bool can_lend(const nx_host_call *s)
{
    const nx_coll *c = &s->call->coll;

    if (s->call->tensors != NULL) {
        for (size_t i = 0; i < s->call->ntensors; i++) {
            if ((s->call->tensors[i].count != 0) && !in_arena(s, s->call->tensors[i].ptr)) {
                return false;
            }
        }
        return true;
    }
    const bool root = (s->turn.rank == c->root), no_in = (c->kind == NX_SCATTER) && !root,
               no_out = ((c->kind == NX_REDUCE) || (c->kind == NX_GATHER)) && !root;

    return !overwrites(c) && (no_in || in_arena(s, nx_host_call_input(s))) &&
           (no_out || in_arena(s, s->call->recv));
}

/* Whether this rank lends its buffers because that is faster now, and other ranks can read them. An
 * alltoall in place would need a copy of its input, and tensors are packed. */
static bool chooses(const nx_host_call *s)
{
    const nx_coll *c = &s->call->coll;
    const size_t len = c->count * nexar_dtype_size(s->call->dtype), all = len * s->turn.size;
    const bool no_out = (c->kind == NX_REDUCE) && (s->turn.rank != c->root);
    const size_t in = ((c->kind == NX_ALLTOALL) || (c->kind == NX_REDUCE_SCATTER)) ? all : len;
    const size_t out = ((c->kind == NX_ALLTOALL) || (c->kind == NX_ALLGATHER)) ? all : len;

    return (s->choice == NX_PATH_CHOICE_READS) && (s->call->tensors == NULL) && !overwrites(c) &&
           nx_path_choice_readable(s->tune, 0, nx_host_call_input(s), in) &&
           (no_out || nx_path_choice_readable(s->tune, 1, s->call->recv, out));
}

static nx_lends lends(const nx_host_call *s)
{
    if (s->way == NX_METHOD_READS) {
        return NX_LENDS;
    }
    if ((s->way != NX_METHOD_EITHER) || s->declines) {
        return NX_LENDS_NOT;
    }
    return can_lend(s) ? NX_LENDS : chooses(s) ? NX_LENDS_BY_CHOICE : NX_LENDS_NOT;
}

/* The arenas mapped by this rank, as bits of ranks. */
static uint64_t seen_arenas(const nx_host_call *s)
{
    uint64_t seen = 0;

    for (uint32_t rank = 0; (s->far != NULL) && (rank < s->turn.size); rank++) {
        seen |= (uint64_t)(s->far[rank].size != 0) << rank;
    }
    return seen;
}

/* Writes this rank's input to the board. */
static void bring(nx_host_call *s)
{
    uint8_t *to = nx_episode_open(&s->turn);
    nx_board_slot *slot = nx_episode_slot(&s->turn, s->turn.rank);
    const nx_lends how = lends(s);

    slot->lends = (uint32_t)how & 3U;
    slot->took_ns =
        (s->tune != NULL) ? nx_path_choice_time(s->tune) & (uint32_t)NX_PATH_CHOICE_LONGEST : 0;
    if (s->declines) {
        return;
    }
    s->own.sees = seen_arenas(s);
    if (s->way == NX_METHOD_BLOCKS) {
        s->declines = !nx_blocks_bring(s, to);
        return;
    }
    if (how == NX_LENDS_NOT) {
        nx_by_board_bring(s, to);
        return;
    }
    s->own.in = (uint64_t)(uintptr_t)((s->aside != NULL) ? s->aside : nx_host_call_input(s));
    s->declines = !open_part(s);
    memcpy(to, &s->own, sizeof(s->own));
}

/* All ranks have arrived: reads their reports about the previous operation. */
static void hear(const nx_host_call *s)
{
    uint32_t longest = 0;

    if (s->tune == NULL) {
        return;
    }
    for (uint32_t rank = 0; rank < s->turn.size; rank++) {
        const uint32_t its = nx_episode_slot(&s->turn, rank)->took_ns;

        if (its == 0) {
            longest = 0;
            break;
        }
        longest = (its > longest) ? its : longest;
    }
    nx_path_choice_record(s->tune, longest);
}

/* All ranks have arrived: selects the path, if it was open. */
static nx_episode_end settle(nx_host_call *s)
{
    const nx_episode *t = &s->turn;
    nx_board_slot *own = nx_episode_slot(t, t->rank);
    uint32_t lend = 0, chosen = 0;

    if (s->way != NX_METHOD_EITHER) {
        return NX_EPISODE_ON;
    }
    for (uint32_t rank = 0; rank < t->size; rank++) {
        lend += (nx_episode_slot(t, rank)->lends != NX_LENDS_NOT);
        chosen += (nx_episode_slot(t, rank)->lends == NX_LENDS_BY_CHOICE);
    }
    s->way = (lend == t->size) ? NX_METHOD_READS : NX_METHOD_SLOTS;
    s->disturbed = (lend != 0) && ((lend != t->size) || (chosen == 0));
    if ((lend == 0) || (lend == t->size)) {
        return NX_EPISODE_ON;
    }
    if (own->lends != 0) {
        nx_by_board_bring(s, own->data);
    }
    return nx_episode_all_at(t, 1);
}

/* The piece |k| is on the board: reads the data that this rank needs. */
static nx_episode_end take_piece(nx_host_call *s, uint32_t k)
{
    nx_episode_end end;

    if (!nx_by_board_parts(s)) {
        nx_by_board_take(s);
        return NX_EPISODE_ON;
    }
    if (!nx_by_board_reduce_part(s)) {
        return NX_EPISODE_ON;
    }
    end = nx_episode_all_at(&s->turn, 2 * k + 2);
    if (end == NX_EPISODE_ON) {
        nx_by_board_take_parts(s);
    }
    return end;
}

/* The first piece is on the board. */
static nx_episode_end slots(nx_host_call *s)
{
    const size_t count = s->call->coll.count, piece = s->len;
    nx_episode_end end = take_piece(s, 0);
    uint32_t k = 1;

    for (size_t off = piece; (end == NX_EPISODE_ON) && (off < count); off += piece, k++) {
        s->turn.turn++;
        s->turns++;
        s->off = off;
        s->len = (count - off < piece) ? count - off : piece;
        nx_by_board_bring(s, nx_episode_slot(&s->turn, s->turn.rank)->data);
        end = nx_episode_all_at(&s->turn, 2 * k + 1);
        if (end == NX_EPISODE_ON) {
            end = take_piece(s, k);
        }
    }
    return end;
}

/* Runs the call after all ranks have arrived. */
static nx_episode_end run(nx_host_call *s)
{
    const nx_episode *t = &s->turn;
    nx_episode_end end = settle(s);

    if (end != NX_EPISODE_ON) {
        return end;
    }
    if (s->way == NX_METHOD_SLOTS) {
        return slots(s);
    }
    s->working = (s->way == NX_METHOD_READS) || nx_blocks_lent(s);
    if (s->working && (nx_episode_check(t) == NX_EPISODE_BROKEN)) {
        return NX_EPISODE_BROKEN;
    }
    return (s->way == NX_METHOD_BLOCKS) ? nx_blocks_run(s) : nx_reads_run(s);
}

/* Whether the call is measured, to compare the two paths. */
static bool is_measured(const nx_host_call *s)
{
    return (s->tune != NULL) && (s->tune->cell >= 0);
}

static uint64_t now_ns(const nx_host_call *s)
{
    return is_measured(s) ? nx_now(&nx_clock_system) : 0;
}

/* Waits for all ranks, then runs the operation. */
static nx_episode_end arrive(nx_host_call *s)
{
    const nx_episode *t = &s->turn;
    uint64_t here_ns;
    nx_episode_end end;

    nx_episode_arrive(t, s->mark.word, s->declines);
    end = nx_episode_all_here(t);
    if (end != NX_EPISODE_ON) {
        return end;
    }
    s->odd = nx_episode_odd_one(t, s->mark.word, s->its.word);
    if ((s->odd != t->size) || ((s->way == NX_METHOD_BLOCKS) && !nx_blocks_fit(s))) {
        return NX_EPISODE_ON;
    }
    hear(s);
    here_ns = now_ns(s);
    end = run(s);
    s->took_ns += now_ns(s) - here_ns;
    return end;
}

/* The call is over: this rank reports its duration with the next one. */
static void note(nx_host_call *s, nx_episode_end end)
{
    if (!is_measured(s)) {
        return;
    }
    if ((end != NX_EPISODE_ON) || (s->odd != s->turn.size)) {
        nx_path_choice_undo(s->tune);
        return;
    }
    nx_path_choice_end(s->tune,
                       (s->way == NX_METHOD_READS) ? NX_PATH_CHOICE_READS : NX_PATH_CHOICE_SLOTS,
                       s->disturbed ? 0 : s->took_ns);
}

nx_episode_end nx_host_call_run(nx_host_call *s)
{
    uint64_t begun_ns;
    nx_episode_end end;

    s->code = 0;
    s->nomem = s->uneven = s->apart = false;
    s->hook_err = NEXAR_OK;
    s->odd = s->turn.size;
    s->turns = 1;
    s->off = 0;
    s->len = nx_by_board_piece(s->call, s->roomy, s->turn.size);
    s->len = (s->len < s->call->coll.count) ? s->len : s->call->coll.count;
    s->declines = !open_share(s) || s->declines; /* the engine reports what is missing */
    s->disturbed = false;
    s->choice = ((s->tune != NULL) && (s->way == NX_METHOD_EITHER))
                    ? nx_path_choice_begin(s->tune, s->call, s->turn.size)
                    : NX_PATH_CHOICE_SLOTS;
    begun_ns = now_ns(s);
    bring(s);
    s->took_ns = now_ns(s) - begun_ns;
    end = arrive(s);
    note(s, end);
    return end;
}

void nx_host_call_done(nx_host_call *s)
{
    nx_bucket_close(s);
    nx_free(s->aside);
    s->aside = NULL;
}

uint32_t nx_host_call_await_others(const nx_host_call *s)
{
    const uint64_t until_ns = nx_now(&nx_clock_system) + NX_HOST_CALL_PATIENCE_NS;

    for (uint32_t rank = 0; rank < s->turn.size; rank++) {
        while ((rank != s->turn.rank) && !nx_episode_is_out(&s->turn, rank) &&
               !nx_pidfd_exited(s->far[rank].process)) {
            if (nx_now(&nx_clock_system) >= until_ns) {
                return rank;
            }
            nx_sys_nap(50000);
        }
    }
    return s->turn.size;
}
