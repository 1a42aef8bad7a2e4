/*
 * broadcast_chain.c - broadcast for long vectors: segments flow through all ranks in a line; each
 * rank receives one segment while it sends the previous one.
 *
 *     rounds: size - 1      sent by each rank but the last: count
 *
 * Best for long vectors on few ranks: with many segments it takes little longer than one transfer,
 * but the line must be filled first.
 */
#include "coll/algorithms.h"

nexar_err nx_broadcast_chain(nx_sched *s, const nx_coll *c)
{
    const uint32_t place = (c->rank + c->size - c->root) % c->size;
    const nx_ref buf = nx_at(NX_SPACE_RECV, 0);

    if (place != 0) {
        nx_recv(s, (c->rank + c->size - 1) % c->size, 0, buf, c->count);
    }
    if (place + 1 < c->size) {
        nx_send(s, (c->rank + 1) % c->size, 0, buf, c->count);
    }
    return nx_sched_seal(s);
}

void nx_broadcast_chain_forecast(const nx_coll *c, size_t segment, nx_forecast *f)
{
    const uint32_t hops = c->size - 1;
    const nx_cost_stream stream = nx_cost_stream_of(c->count, segment);

    f->messages = (hops > 0) ? stream.segments : 0;
    f->sent = (hops > 0) ? c->count : 0;
    f->rounds = (c->count > 0) ? hops : (hops > 0);
    f->time_s = nx_net_chain(f->net, stream, hops, nx_net_borders(f->net, c->root, hops));
}
