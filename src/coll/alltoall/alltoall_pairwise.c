/*
 * alltoall_pairwise.c - alltoall and alltoallv: each block goes straight to its
 * rank.
 *
 *     rounds: size - 1 (in place: size)      sent by each rank: all but its own
 *
 * In round k a rank sends to the one k further and receives from the one k
 * before, so that every link carries one message at a time.  In place both must
 * be the same rank, since the block that comes takes the room of the one that
 * goes: ranks a and b meet in round (a + b) mod size, and the outgoing block
 * steps aside into scratch.  Some ranks may work in place and others not: either
 * way the message between a and b is called round (a + b) mod size.
 */
#include "coll/algorithms.h"

/* Rounds that a rank has open at once: enough to hide a latency of many
 * messages, few enough not to flood a receiver with what it has not asked for. */
enum { WINDOW = 16 };

/* The last steps of the newest WINDOW rounds. */
typedef struct window {
    nx_step_id ends[WINDOW][2];
} window;

/* Lets round |k| wait until round k - WINDOW is over. */
static void window_open(window *w, nx_sched *s, uint32_t k)
{
    if (k >= WINDOW) {
        nx_sched_gate(s, w->ends[k % WINDOW][0], w->ends[k % WINDOW][1]);
    }
}

static void window_close(window *w, nx_sched *s, uint32_t k, nx_step_id sent)
{
    w->ends[k % WINDOW][0] = sent;
    w->ends[k % WINDOW][1] = nx_sched_last(s);
}

/* What this rank and |peer| call the round of their messages. */
static uint32_t meeting(const nx_coll *c, uint32_t peer)
{
    return (uint32_t)(((uint64_t)c->rank + peer) % c->size);
}

static void out_of_place(nx_sched *s, const nx_coll *c, const nx_split *to, const nx_split *from)
{
    const nx_ref in = nx_at(NX_SPACE_SEND, 0), out = nx_at(NX_SPACE_RECV, 0);
    const nx_span mine = nx_split_at(to, c->rank), home = nx_split_at(from, c->rank);
    window w;

    nx_copy(s, nx_ref_plus(out, home.off), nx_ref_plus(in, mine.off), mine.len);
    for (uint32_t k = 1; k < c->size; k++) {
        const uint32_t next = (c->rank + k) % c->size, prev = (c->rank + c->size - k) % c->size;
        const nx_span tx = nx_split_at(to, next), rx = nx_split_at(from, prev);

        window_open(&w, s, k - 1);
        nx_send(s, next, meeting(c, next), nx_ref_plus(in, tx.off), tx.len);
        const nx_step_id sent = nx_sched_last(s);
        nx_recv(s, prev, meeting(c, prev), nx_ref_plus(out, rx.off), rx.len);
        window_close(&w, s, k - 1, sent);
    }
}

static void in_place(nx_sched *s, const nx_coll *c, const nx_split *blocks)
{
    const size_t room = nx_split_max(blocks);
    const uint32_t slots = (c->size - 1 < WINDOW) ? c->size - 1 : WINDOW;
    const nx_ref scratch = nx_sched_scratch(s, slots * room), out = nx_at(NX_SPACE_RECV, 0);
    uint32_t k = 0;
    window w;

    for (uint32_t round = 0; round < c->size; round++) {
        const uint32_t peer = (round + c->size - c->rank) % c->size;
        const nx_span at = nx_split_at(blocks, peer);

        if (peer == c->rank) {
            continue;
        }
        const nx_ref aside = nx_ref_plus(scratch, (k % WINDOW) * room);
        const nx_ref block = nx_ref_plus(out, at.off);

        window_open(&w, s, k);
        nx_copy(s, aside, block, at.len);
        nx_send(s, peer, round, aside, at.len);
        const nx_step_id sent = nx_sched_last(s);
        nx_recv(s, peer, round, block, at.len);
        window_close(&w, s, k, sent);
        k++;
    }
}

nexar_err nx_alltoall_pairwise(nx_sched *s, const nx_coll *c)
{
    const nx_split from = nx_coll_blocks(c);
    const nx_split to = (c->kind == NX_ALLTOALLV) ? c->send_parts : from;

    if (c->in_place) {
        in_place(s, c, &from);
    } else {
        out_of_place(s, c, &to, &from);
    }
    return nx_sched_seal(s);
}
