/*
 * alltoall_pairwise.c - alltoall and alltoallv: each block travels directly to its rank.
 *
 *     rounds: 1, of size - 1 messages at once      sent by each rank: all but its own
 *
 * Ranks a and b meet in round (a + b) mod size: each round is a perfect matching (some ranks meet
 * themselves). Every link carries one message each way, and a received block may overwrite the
 * block just sent. So the in-place and out-of-place forms visit the peers in the same order, and
 * different ranks may use different forms; in place, the outgoing block moves to scratch first.
 *
 * No rank waits for a round to end, except for a limit on the messages in flight. Since both ranks
 * of a pair meet in the same round, the waits point to earlier rounds only, on both: they cannot
 * form a cycle.
 *
 * With nx_coll.heard an alltoallv ends with a dissemination: no rank completes before all ranks
 * have received their blocks.
 */
#include "coll/algorithms.h"

/* Concurrent rounds of a rank: enough to hide the latency of many messages, few enough not to flood
 * a receiver with unexpected messages. */
enum { WINDOW = 16 };

/* The last steps of the newest WINDOW rounds. */
typedef struct window {
    nx_step_id ends[WINDOW][2];
    uint32_t n; /* rounds so far */
} window;

/* The next round waits until the round WINDOW before it is complete. */
static void window_open(const window *w, nx_sched *s)
{
    if (w->n >= WINDOW) {
        nx_sched_gate(s, w->ends[w->n % WINDOW][0], w->ends[w->n % WINDOW][1]);
    }
}

static void window_close(window *w, nx_step_id sent, nx_step_id received)
{
    w->ends[w->n % WINDOW][0] = sent;
    w->ends[w->n % WINDOW][1] = received;
    w->n++;
}

typedef struct block {
    nx_ref at;
    size_t len;
} block;

/* One block to |peer| in |round|, and one from it. */
static void exchange(nx_sched *s, uint32_t peer, uint32_t round, block going, block coming,
                     window *w)
{
    nx_step_id send;

    nx_send(s, peer, round, going.at, going.len);
    send = nx_sched_last(s);
    nx_recv(s, peer, round, coming.at, coming.len);
    window_close(w, send, nx_sched_last(s));
}

static void out_of_place(nx_sched *s, const nx_coll *c, const nx_split *to, const nx_split *from)
{
    const nx_ref in = nx_at(NX_SPACE_SEND, 0), out = nx_at(NX_SPACE_RECV, 0);
    window w = {.n = 0};

    for (uint32_t round = 0; round < c->size; round++) {
        const uint32_t peer = (round + c->size - c->rank) % c->size;
        const nx_span tx = nx_split_at(to, peer), rx = nx_split_at(from, peer);
        const block going = {.at = nx_ref_plus(in, tx.off), .len = tx.len};
        const block coming = {.at = nx_ref_plus(out, rx.off), .len = rx.len};

        if (peer == c->rank) {
            nx_copy(s, coming.at, going.at, tx.len);
            continue;
        }
        window_open(&w, s);
        exchange(s, peer, round, going, coming, &w);
    }
}

static void in_place(nx_sched *s, const nx_coll *c, const nx_split *blocks)
{
    const size_t room = nx_split_max(blocks);
    const uint32_t slots = (c->size - 1 < WINDOW) ? c->size - 1 : WINDOW;
    const nx_ref scratch = nx_sched_scratch(s, slots * room), out = nx_at(NX_SPACE_RECV, 0);
    window w = {.n = 0};

    for (uint32_t round = 0; round < c->size; round++) {
        const uint32_t peer = (round + c->size - c->rank) % c->size;
        const nx_span at = nx_split_at(blocks, peer);
        const block aside = {.at = nx_ref_plus(scratch, (w.n % WINDOW) * room), .len = at.len};
        const block home = {.at = nx_ref_plus(out, at.off), .len = at.len};

        if (peer == c->rank) {
            continue;
        }
        window_open(&w, s);
        nx_copy(s, aside.at, home.at, at.len);
        exchange(s, peer, round, aside, home, &w);
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
    nx_await_blocks(s, c, c->size);
    return nx_sched_seal(s);
}

void nx_alltoall_pairwise_forecast(const nx_coll *c, size_t segment, nx_forecast *f)
{
    const nx_split from = nx_coll_blocks(c);
    const nx_split to = (c->kind == NX_ALLTOALLV) ? c->send_parts : from;
    const uint64_t all = nx_split_sum(&to);

    (void)segment;
    f->messages = c->size - 1;
    f->sent = (c->size > 1) ? all - nx_split_cost_of(&to, 0).least : 0;
    /* A message waits for the message WINDOW before it. That is the number of rounds, except for a
     * rank that met itself in between; some pair never does. */
    f->rounds = (c->size > WINDOW + 1) ? (c->size - 1) / WINDOW + 1 : (c->size > 1);
    f->time_s = nx_net_all(f->net, all / c->size, WINDOW);
}
