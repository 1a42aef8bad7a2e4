/*
 * conn_probe.c - probes a peer that does not answer.
 *
 * When nothing is acknowledged, ngtcp2's time-out doubles each time, and while the congestion
 * window is full ngtcp2 writes nothing else. After a cut of 4 s the connection may be silent for 4
 * s more. So the connection keeps the last datagram that asks for an acknowledgement. While none
 * arrives, it repeats the datagram every NX_CALL_NS, on all possible paths. QUIC tolerates this: a
 * copy of a lost packet is as good as the packet, and a copy of a packet that arrived is dropped. A
 * dialled member is probed in the same way: its host's reply reveals a process that has exited.
 * (Not a seed, which may serve many diallers.)
 *
 * Where the peer receives and this side does not, the copies tell the peer nothing new; but the
 * peer's copies do the same for this side. When one of the peer's copies arrives, this side must
 * immediately send something new, so that the peer acknowledges everything it has received. ngtcp2
 * makes two probes each time; the second is reserved for this.
 */
#include <string.h>

#include "conn_impl.h"

enum { CALL_RTTS = 4 };

static const uint64_t PATIENCE_LEAST_NS = UINT64_C(100000000); /* a peer may be busy */
static const uint64_t PATIENCE_MOST_NS = UINT64_C(1000000000);

uint64_t nx_conn_patience(const nx_conn *c)
{
    const uint64_t wait = (c->min_rtt_ns < PATIENCE_MOST_NS) ? CALL_RTTS * c->min_rtt_ns : 0;

    return (wait < PATIENCE_LEAST_NS)  ? PATIENCE_LEAST_NS
           : (wait > PATIENCE_MOST_NS) ? PATIENCE_MOST_NS
                                       : wait;
}

static bool waits_for_answer(const nx_conn *c)
{
    return (c->state == NX_CONN_UP) && (c->flight > 0);
}

static bool waits_for_member(const nx_conn *c)
{
    return (c->state == NX_CONN_HANDSHAKE) && c->to_member && (c->flight > 0);
}

bool nx_conn_is_stuck(const nx_conn *c, uint64_t now_ns)
{
    return waits_for_answer(c) && (now_ns > c->progress_ns) &&
           (now_ns - c->progress_ns >= nx_conn_patience(c));
}

void nx_conn_urge(nx_conn *c)
{
    const uint64_t patience = nx_conn_patience(c);

    if (waits_for_answer(c) && (c->now_ns > patience) && (c->progress_ns > c->now_ns - patience)) {
        c->progress_ns = c->now_ns - patience;
    }
}

uint64_t nx_conn_call_due(const nx_conn *c)
{
    const uint64_t first = c->progress_ns + nx_conn_patience(c), next = c->called_ns + NX_CALL_NS;

    /* The path to a process of the same host does not break. That process may be busy, and probes
     * make it busier. */
    if ((!waits_for_answer(c) && !waits_for_member(c)) || (c->call_len == 0) || c->same_host) {
        return UINT64_MAX;
    }
    return (first > next) ? first : next;
}

size_t nx_conn_call(nx_conn *c, uint64_t now_ns, const uint8_t **data)
{
    if (now_ns < nx_conn_call_due(c)) {
        return 0;
    }
    c->called_ns = now_ns;
    *data = c->call;
    return c->call_len;
}

bool nx_conn_is_probing(const nx_conn *c)
{
    return c->expired && !c->same_host && nx_conn_is_stuck(c, c->now_ns);
}

void nx_conn_keep_call(nx_conn *c, const uint8_t *data, size_t len)
{
    if (len <= sizeof(c->call)) {
        memcpy(c->call, data, len);
        c->call_len = len;
    }
}

size_t nx_conn_keep_back(nx_conn *c, uint8_t *data, size_t len)
{
    uint8_t old[NX_CALL_MOST];
    const size_t old_len = c->spare_len;

    if ((++c->probes != 2) || (len > sizeof(c->spare))) {
        nx_conn_keep_call(c, data, len);
        return len;
    }
    memcpy(old, c->spare, old_len);
    memcpy(c->spare, data, len);
    c->spare_len = len;
    memcpy(data, old, old_len);
    return old_len;
}

size_t nx_conn_take_spare(nx_conn *c, uint8_t *buf, size_t room)
{
    const size_t len = (c->spare_due && (c->spare_len <= room)) ? c->spare_len : 0;

    memcpy(buf, c->spare, len);
    c->spare_len = c->spare_due ? 0 : c->spare_len;
    c->spare_due = false;
    return len;
}
