/* consensus_rig_faults.c - frames that are lost, forged or repeated. */
#include "consensus_rig_inner.h"

static bool struck(rig *g, uint32_t one_in)
{
    return nxt_one_in(&g->fault_rand, one_in);
}

static void rewrite(event *e, const nx_consensus_msg *m)
{
    nx_writer w = nx_writer_make(e->frame, sizeof(e->frame));

    nx_consensus_msg_encode(&w, m);
    e->len = w.len;
}

static nx_consensus_kind lost_kind(nxt_consensus_fault fault)
{
    switch (fault) {
    case NXT_FAULT_LOSE_UP:
        return NX_CONSENSUS_UP;
    case NXT_FAULT_LOSE_PROPOSE:
        return NX_CONSENSUS_PROPOSE;
    case NXT_FAULT_LOSE_ACK:
        return NX_CONSENSUS_ACK;
    case NXT_FAULT_LOSE_DECIDE:
        return NX_CONSENSUS_DECIDE;
    case NXT_FAULT_LOSE_DONE:
        return NX_CONSENSUS_DONE;
    case NXT_FAULT_LOSE_FORGET:
        return NX_CONSENSUS_FORGET;
    case NXT_FAULT_NONE:
    case NXT_FAULT_FORGET_ACCEPTED:
    case NXT_FAULT_FALSE_ACK:
    case NXT_FAULT_ANY_BALLOT:
    case NXT_FAULT_OLD_UP:
    case NXT_FAULT_OTHER_FLAGS:
    case NXT_FAULT_EARLY:
    case NXT_FAULT_NO_QUORUM:
    case NXT_FAULT_LET_GO_AS_DEAD:
    case NXT_FAULT_UNSAID_LEAVE:
    case NXT_FAULT_AWAIT_LEAVERS:
    case NXT_FAULT_DEAF_TO_LEAVERS:
    case NXT_FAULTS:
        break;
    }
    return NX_CONSENSUS_KINDS;
}

/* The proposal is lost, and yet acknowledged. */
static bool false_ack(rig *g, event *e, nx_consensus_msg *m)
{
    const uint32_t liar = e->to, asker = e->from;

    if ((m->kind != NX_CONSENSUS_PROPOSE) || !struck(g, 3) || !g->ranks[liar].alive) {
        return true;
    }
    m->kind = NX_CONSENSUS_ACK;
    rewrite(e, m);
    e->from = liar;
    e->to = asker;
    return true;
}

/* Replays the input of |e->from| to an earlier instance as its input to this one. */
static void old_up(rig *g, event *e, nx_consensus_msg *m)
{
    old_value *old = &g->old[e->from];

    if (m->kind != NX_CONSENSUS_UP) {
        return;
    }
    if (old->have && (old->seq < m->seq) && struck(g, 8)) {
        m->value = &old->value;
        rewrite(e, m);
    }
    if (!old->have) {
        old->have = true;
        old->seq = m->seq;
        nx_consensus_value_copy(&old->value, &g->value);
    }
}

bool nxt_consensus_spoil(rig *g, event *e)
{
    const nxt_consensus_fault fault = g->plan.fault;
    nx_consensus_msg m;
    rank_state *to = &g->ranks[e->to];

    if (nx_consensus_msg_decode(e->frame, e->len, &g->dead, &g->left, &g->value, &m) != NEXAR_OK) {
        nxt_consensus_wrong(g, "rank %u sent a malformed frame", e->from);
        return false;
    }
    if (m.kind == lost_kind(fault)) {
        return !struck(g, 8);
    }
    switch ((int)fault) {
    case NXT_FAULT_FORGET_ACCEPTED:
        if ((m.kind == NX_CONSENSUS_UP) && (g->value.ballot > 0)) {
            g->value.ballot = 0;
            nx_rankset_clear(&g->value.failed);
            rewrite(e, &m);
        }
        break;
    case NXT_FAULT_FALSE_ACK:
        return false_ack(g, e, &m);
    case NXT_FAULT_ANY_BALLOT:
        if ((to->machine != NULL) && (m.kind != NX_CONSENSUS_NEWS) &&
            !nx_rankset_has(nx_consensus_dead(to->machine), e->from)) {
            m.dead = nx_consensus_dead(to->machine);
            rewrite(e, &m);
        }
        break;
    case NXT_FAULT_OLD_UP:
        old_up(g, e, &m);
        break;
    case NXT_FAULT_UNSAID_LEAVE:
        nx_rankset_clear(&g->left);
        rewrite(e, &m);
        break;
    case NXT_FAULT_OTHER_FLAGS:
        if ((m.kind == NX_CONSENSUS_DECIDE) && struck(g, 8)) {
            g->value.flags ^= 1;
            rewrite(e, &m);
        }
        break;
    default:
        break;
    }
    return true;
}
