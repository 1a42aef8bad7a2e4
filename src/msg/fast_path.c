/*
 * fast_path.c - short messages without a request: a send is transmitted immediately, a receive
 * takes the message from the transport's memory.
 *
 * Order: the message taken is the next one of its peer, and the receive is what matching would
 * choose. No older posted receive matches the message, and no earlier held message matches the
 * receive.
 */
#include <string.h>

#include "base/memory/copy.h"
#include "engine.h"

/* ---- sending ------------------------------------------------------------------------- */

/* Whether a send to |p| may be transmitted without waiting. */
static bool is_open(const nx_peer *p, nx_class class)
{
    return (p != NULL) && p->ready && (p->link != NULL) && !p->doomed &&
           !nx_queue_blocked(p, class);
}

bool nx_msg_send_short(nx_msg *m, uint32_t peer, nx_context context, uint64_t tag, const void *data,
                       size_t len)
{
    nx_peer *p = (peer < m->config.peers) ? m->peers[peer] : NULL;
    uint8_t head[NX_MSG_FRAME_ROOM];
    nx_bytes bytes[2] = {{.ptr = head}, {.ptr = data, .len = len}};
    uint64_t eager;
    bool sent;

    if (m->closing || (peer == m->config.self) || (tag == NX_ANY_TAG) ||
        !is_open(p, context.class) ||
        (nx_credit_plan(&p->out[context.class], len, nx_send_inline_max(p), 0, &eager) !=
         NX_SEND_PLAN_INLINE)) {
        return false;
    }
    bytes[0].len = nx_frame_encode_short(context, tag, head);
    nx_msg_enter(m);
    sent = (nx_link_send_frame(p->link, NX_LANE_MESSAGE, bytes, 2) == NEXAR_OK);
    if (sent) {
        nx_credit_spend(&p->out[context.class], len);
        nx_link_push(p->link);
        m->stats.messages_sent++;
    }
    nx_msg_leave(m);
    return sent;
}

/* ---- receiving ----------------------------------------------------------------------- */

/* Whether a receive that begins now would match the next message |key|: no posted receive matches
 * the message, and no held message has this key. */
static bool is_first(nx_msg *m, const nx_key *key)
{
    return ((m->match.nposted == 0) || (nx_match_arrive(&m->match, key) == NULL)) &&
           ((m->probes.nposted == 0) || (nx_match_arrive(&m->probes, key) == NULL)) &&
           ((m->match.nheld == 0) || (nx_match_find(&m->match, key) == NULL));
}

/* Whether messages of |p| may be in memory from which a receive can take them. */
static bool is_near(const nx_peer *p)
{
    return (p != NULL) && p->ready && (p->link != NULL) && p->greeted && !p->doomed &&
           (p->link->ops->peek_frame != NULL);
}

/* Takes |data|, which follows the head of the next frame of |p|'s link. False: credit did not cover
 * it, and |p| has failed. */
static bool take(nx_peer *p, nx_class class, nx_bytes data, void *to)
{
    const uint64_t cost = NX_ENVELOPE_COST + data.len;

    p->heard = true;
    if (!nx_peer_charge(p, class, cost)) {
        return false;
    }
    nx_memcpy(to, data.ptr, data.len);
    nx_link_drop_frame(p->link);
    nx_peer_release(p, class, cost);
    p->msg->stats.delivered += data.len;
    p->msg->stats.messages_received++;
    return true;
}

bool nx_msg_recv_short(nx_msg *m, uint32_t peer, nx_context context, uint64_t tag, bool waits,
                       nx_iov_span room, size_t *got)
{
    const nx_key key = {.context = nx_context_word(context), .tag = tag, .peer = peer};
    nx_peer *p = (peer < m->config.peers) ? m->peers[peer] : NULL;
    uint8_t head[NX_MSG_FRAME_ROOM];
    unsigned looks;
    nx_bytes frame;
    size_t len;
    bool taken;

    if (m->closing || !is_near(p) || !is_first(m, &key)) {
        return false;
    }
    looks = waits ? nx_loop_looks(m->config.loop) : 1;
    if (looks == 0) {
        return false;
    }
    len = nx_frame_encode_short(context, tag, head);
    while (!nx_link_peek_frame(p->link, &frame)) {
        if (!nx_loop_look_again(m->config.loop, &looks)) {
            return false;
        }
    }
    /* Only a short message of this tag has this head. */
    if ((frame.len < len) || (frame.len - len > room.len) || (memcmp(frame.ptr, head, len) != 0)) {
        return false;
    }
    *got = frame.len - len;
    nx_msg_enter(m);
    taken = take(p, context.class, (nx_bytes){.ptr = (const uint8_t *)frame.ptr + len, .len = *got},
                 room.ptr);
    nx_msg_leave(m);
    return taken;
}
