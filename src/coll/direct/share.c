/* share.c - which way a call goes, and its turn. */
#include <string.h>

#include "base/alloc.h"
#include "coll/direct/share.h"

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

nx_way nx_share_way(const nx_coll_call *call, const nx_board *b, bool reads)
{
    const nx_coll *c = &call->coll;

    if ((c->kind >= NX_ALLGATHERV) || c->hook ||
        ((call->guise != NX_GUISE_PLAIN) && (call->guise != NX_GUISE_BUCKETED) &&
         (call->guise != NX_GUISE_SPLIT) && (call->guise != NX_GUISE_DUP) &&
         (call->guise != NX_GUISE_UPDATE))) {
        return NX_WAY_ENGINE;
    }
    reads = reads && (call->guise != NX_GUISE_BUCKETED);
    if (nx_slots_piece(call, b) != 0) {
        return (!reads || nx_slots_fit(call, b->size, NX_SHARE_SHORT)) ? NX_WAY_SLOTS
                                                                       : NX_WAY_EITHER;
    }
    return reads ? NX_WAY_READS : NX_WAY_ENGINE;
}

/* An alltoall in place would write over what others have not read yet: its input is put
 * aside.  False: no memory. */
static bool put_aside(nx_share *s, void **aside)
{
    const nx_coll *c = &s->call->coll;
    const size_t len = c->count * nexar_dtype_size(s->call->dtype) * s->turn.size;

    if ((s->way != NX_WAY_READS) || (c->kind != NX_ALLTOALL) || !c->in_place) {
        return true;
    }
    *aside = nx_alloc_aligned(NX_BOARD_LINE, len);
    if (*aside == NULL) {
        return false;
    }
    memcpy(*aside, s->call->recv, len);
    return true;
}

static bool in_arena(const nx_share *s, const void *ptr)
{
    return (uint64_t)(uintptr_t)ptr - s->own.arena < s->own.arena_size;
}

/* Whether the buffers that this rank uses are in its arena, and may be worked in. */
static bool can_lend(const nx_share *s)
{
    const nx_coll *c = &s->call->coll;
    const bool root = (s->turn.rank == c->root), no_in = (c->kind == NX_SCATTER) && !root,
               no_out = ((c->kind == NX_REDUCE) || (c->kind == NX_GATHER)) && !root;

    return !((c->kind == NX_ALLTOALL) && c->in_place) &&
           (no_in || in_arena(s, nx_share_input(s))) && (no_out || in_arena(s, s->call->recv));
}

/* Writes what this rank brings. */
static void bring(nx_share *s, const void *aside)
{
    uint8_t *to = nx_turn_open(&s->turn);
    const bool lends =
        (s->way == NX_WAY_READS) || ((s->way == NX_WAY_EITHER) && !s->declines && can_lend(s));

    nx_turn_slot(&s->turn, s->turn.rank)->lends = lends;
    if (s->declines) {
        return;
    }
    if (!lends) {
        nx_slots_bring(s, to);
        return;
    }
    s->own.in = (uint64_t)(uintptr_t)((aside != NULL) ? aside : nx_share_input(s));
    s->own.out = (uint64_t)(uintptr_t)s->call->recv;
    memcpy(to, &s->own, sizeof(s->own));
}

/* All have come: which way it is, where that was open. */
static nx_turn_end settle(nx_share *s)
{
    const nx_turn *t = &s->turn;
    nx_board_slot *own = nx_turn_slot(t, t->rank);
    uint32_t lend = 0;

    if (s->way != NX_WAY_EITHER) {
        return NX_TURN_ON;
    }
    for (uint32_t rank = 0; rank < t->size; rank++) {
        lend += (nx_turn_slot(t, rank)->lends != 0);
    }
    s->way = (lend == t->size) ? NX_WAY_READS : NX_WAY_SLOTS;
    if ((lend == 0) || (lend == t->size)) {
        return NX_TURN_ON;
    }
    if (own->lends != 0) {
        nx_slots_bring(s, own->data);
    }
    return nx_turn_all_at(t, 1);
}

/* The piece |k| is on the board: takes what this rank needs of it. */
static nx_turn_end take_piece(nx_share *s, uint32_t k)
{
    nx_turn_end end;

    if (!nx_slots_parts(s)) {
        nx_slots_take(s);
        return NX_TURN_ON;
    }
    nx_slots_reduce_part(s);
    end = nx_turn_all_at(&s->turn, 2 * k + 2);
    if (end == NX_TURN_ON) {
        nx_slots_take_parts(s);
    }
    return end;
}

/* The first piece is on the board. */
static nx_turn_end slots(nx_share *s)
{
    const size_t count = s->call->coll.count, piece = s->len;
    nx_turn_end end = take_piece(s, 0);
    uint32_t k = 1;

    for (size_t off = piece; (end == NX_TURN_ON) && (off < count); off += piece, k++) {
        s->turn.turn++;
        s->turns++;
        s->off = off;
        s->len = (count - off < piece) ? count - off : piece;
        nx_slots_bring(s, nx_turn_slot(&s->turn, s->turn.rank)->data);
        end = nx_turn_all_at(&s->turn, 2 * k + 1);
        if (end == NX_TURN_ON) {
            end = take_piece(s, k);
        }
    }
    return end;
}

static nx_turn_end run(nx_share *s)
{
    const nx_turn *t = &s->turn;
    nx_turn_end end;

    nx_turn_arrive(t, s->mark.word, s->declines);
    end = nx_turn_all_here(t);
    if (end != NX_TURN_ON) {
        return end;
    }
    s->odd = nx_turn_odd_one(t, s->mark.word, s->its.word);
    if (s->odd != t->size) {
        return NX_TURN_ON;
    }
    end = settle(s);
    if (end != NX_TURN_ON) {
        return end;
    }
    return (s->way == NX_WAY_SLOTS) ? slots(s) : nx_reads_run(s);
}

nx_turn_end nx_share_run(nx_share *s)
{
    void *aside = NULL;
    nx_turn_end end;

    s->code = 0;
    s->nomem = false;
    s->odd = s->turn.size;
    s->turns = 1;
    s->off = 0;
    s->len = nx_slots_piece(s->call, s->turn.board);
    s->len = (s->len < s->call->coll.count) ? s->len : s->call->coll.count;
    s->declines = !put_aside(s, &aside) || s->declines; /* the engine says what is missing */
    bring(s, aside);
    end = run(s);
    nx_free(aside);
    return end;
}
