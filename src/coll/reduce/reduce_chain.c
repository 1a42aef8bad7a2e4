/*
 * reduce_chain.c - reduce for long vectors: segments flow through all ranks in a
 * line towards the root, gaining one contribution at each.
 *
 *     rounds: size - 1      sent by each rank but the root: count
 *
 * Best for long vectors on few ranks, as broadcast_chain is.
 */
#include "coll/algorithms.h"
#include "coll/building_blocks/window.h"

nexar_err nx_reduce_chain(nx_sched *s, const nx_coll *c)
{
    const uint32_t place = (c->rank + c->size - c->root) % c->size;
    const uint32_t up = (c->rank + c->size - 1) % c->size, down = (c->rank + 1) % c->size;
    const bool last = (place + 1 == c->size);
    const nx_ref in = nx_coll_input(c), out = nx_at(NX_SPACE_RECV, 0);
    nx_window w = nx_window_first(s, c->count, (place != 0) && !last);

    do {
        const nx_ref own = nx_ref_plus(in, w.off);
        const nx_ref sum = (place == 0) ? nx_ref_plus(out, w.off) : nx_window_scratch(&w);

        if (!last) {
            nx_recv_reduce(s, down, w.number, sum, own, w.len);
        }
        if (place != 0) {
            nx_send(s, up, w.number, last ? own : sum, w.len);
        }
    } while (nx_window_next(&w));

    if (c->size == 1) {
        nx_copy(s, out, in, c->count);
    }
    if (c->average && (place == 0)) {
        nx_divide(s, out, c->count);
    }
    return nx_sched_seal(s);
}

void nx_reduce_chain_forecast(const nx_coll *c, size_t segment, nx_forecast *f)
{
    const uint32_t hops = c->size - 1;
    const nx_window_cost cost = nx_window_cost_of(c->count, segment);
    nx_cost_stream stream = nx_cost_stream_of(c->count, segment);

    stream.segments = cost.segments;
    stream.work = 1;
    stream.window = (cost.windows > 2) ? 2 * NX_WINDOW_SEGMENTS : 0;
    f->messages = (hops > 0) ? cost.segments : 0;
    f->sent = (hops > 0) ? c->count : 0;
    /* An inner rank waits until the window before the last has left. */
    f->rounds = (c->count > 0) ? hops + ((hops > 1) ? (cost.windows - 1) / 2 : 0) : (hops > 0);
    f->time_s = nx_net_chain(f->net, stream, hops, nx_net_borders(f->net, c->root, hops));
}
