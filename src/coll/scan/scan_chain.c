/*
 * scan_chain.c - scan and exscan for long vectors: segments flow through all
 * ranks in order, gaining one contribution at each.
 *
 *     rounds: size - 1      sent by each rank but the last: count
 *
 * Best for long vectors: with many segments it takes little longer than one transfer. An exscan
 * forwards a different value from the one it keeps: the forwarded value passes through a window of
 * scratch.
 */
#include "coll/algorithms.h"
#include "coll/building_blocks/window.h"

static void inclusive(nx_sched *s, const nx_coll *c)
{
    const nx_ref in = nx_coll_input(c), out = nx_at(NX_SPACE_RECV, 0);

    if (c->rank != 0) {
        nx_recv_reduce(s, c->rank - 1, 0, out, in, c->count);
    }
    if (c->rank + 1 < c->size) {
        nx_send(s, c->rank + 1, 0, (c->rank == 0) ? in : out, c->count);
    }
    if (c->rank == 0) {
        nx_copy(s, out, in, c->count);
    }
}

/* A rank between the first and the last. */
static void exclusive_middle(nx_sched *s, const nx_coll *c)
{
    const nx_ref in = nx_coll_input(c), out = nx_at(NX_SPACE_RECV, 0);
    nx_window sums = nx_window_first(s, c->count, true);
    nx_window came = nx_window_first(s, c->count, c->in_place);

    do {
        const nx_ref to = nx_ref_plus(out, sums.off);
        const nx_ref sum = nx_window_scratch(&sums);
        /* In place the input is still needed when its memory is requested. */
        const nx_ref before = c->in_place ? nx_window_scratch(&came) : to;

        nx_recv(s, c->rank - 1, sums.number, before, sums.len);
        nx_reduce_local(s, sum, nx_ref_plus(in, sums.off), before, sums.len);
        nx_send(s, c->rank + 1, sums.number, sum, sums.len);
        nx_copy(s, to, before, sums.len);
    } while (nx_window_next(&sums) && nx_window_next(&came));
}

/* The first rank sends its input, the last rank keeps what it receives. */
static void exclusive_end(nx_sched *s, const nx_coll *c)
{
    const nx_ref in = nx_coll_input(c), out = nx_at(NX_SPACE_RECV, 0);
    nx_window w = nx_window_first(s, c->count, false);

    do {
        if (c->rank != 0) {
            nx_recv(s, c->rank - 1, w.number, nx_ref_plus(out, w.off), w.len);
        } else if (c->size > 1) {
            nx_send(s, 1, w.number, nx_ref_plus(in, w.off), w.len);
        }
    } while (nx_window_next(&w));
    if (c->rank == 0) {
        nx_fill(s, out, c->count);
    }
}

nexar_err nx_scan_chain(nx_sched *s, const nx_coll *c)
{
    if (c->kind == NX_SCAN) {
        inclusive(s, c);
    } else if ((c->rank == 0) || (c->rank + 1 == c->size)) {
        exclusive_end(s, c);
    } else {
        exclusive_middle(s, c);
    }
    return nx_sched_seal(s);
}

void nx_scan_chain_forecast(const nx_coll *c, size_t segment, nx_forecast *f)
{
    const bool exclusive = c->kind == NX_EXSCAN;
    const uint32_t hops = c->size - 1;
    const nx_window_cost cost = nx_window_cost_of(c->count, segment);
    const bool windows = exclusive && (cost.windows > 1);
    nx_cost_stream stream = nx_cost_stream_of(c->count, segment);

    stream.work = 1;
    if (exclusive) {
        stream.segments = cost.segments;
        stream.work = (hops > 1); /* only an inner rank has something to add */
        stream.window = (cost.windows > 2) ? 2 * NX_WINDOW_SEGMENTS : 0;
    }
    f->messages = (hops > 0) ? stream.segments : 0;
    f->sent = (hops > 0) ? c->count : 0;
    f->rounds = (c->count > 0) ? hops : (hops > 0);
    if (windows && (hops > 1)) {
        /* An inner rank waits until the window before the last has left. */
        f->rounds += (cost.windows - 1) / 2;
    }
    f->time_s = nx_net_chain(f->net, stream, hops, nx_net_borders(f->net, 0, hops));
}
