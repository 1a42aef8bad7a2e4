/* share.c - which way a call goes, and its turn. */
#include <string.h>

#include "base/alloc.h"
#include "coll/direct/share.h"

nx_way nx_share_way(const nx_coll_call *call, uint32_t size, bool reads)
{
    const nx_coll *c = &call->coll;

    if ((c->kind >= NX_ALLGATHERV) || c->hook ||
        ((call->guise != NX_GUISE_PLAIN) && (call->guise != NX_GUISE_BUCKETED) &&
         (call->guise != NX_GUISE_SPLIT) && (call->guise != NX_GUISE_DUP))) {
        return NX_WAY_ENGINE;
    }
    if (nx_slots_fit(call, size)) {
        return NX_WAY_SLOTS;
    }
    return (reads && (call->guise != NX_GUISE_BUCKETED) && nx_reads_can(c->kind)) ? NX_WAY_READS
                                                                                  : NX_WAY_ENGINE;
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

/* Writes what this rank brings. */
static void bring(nx_share *s, const void *aside)
{
    void *to = nx_turn_open(&s->turn);

    if (s->declines) {
        return;
    }
    if (s->way == NX_WAY_SLOTS) {
        nx_slots_bring(s, to);
        return;
    }
    s->own.in = (uint64_t)(uintptr_t)((aside != NULL) ? aside : nx_share_input(s));
    s->own.out = (uint64_t)(uintptr_t)s->call->recv;
    memcpy(to, &s->own, sizeof(s->own));
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
    if (s->way == NX_WAY_SLOTS) {
        nx_slots_take(s);
        return NX_TURN_ON;
    }
    return nx_reads_run(s);
}

nx_turn_end nx_share_run(nx_share *s)
{
    void *aside = NULL;
    nx_turn_end end;

    s->code = 0;
    s->nomem = false;
    s->odd = s->turn.size;
    s->declines = !put_aside(s, &aside) || s->declines; /* the engine says what is missing */
    bring(s, aside);
    end = run(s);
    nx_free(aside);
    return end;
}
