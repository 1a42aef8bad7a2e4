/* consensus_rig_check.c - the properties that must hold at the end of a run. */
#include <string.h>

#include "consensus_rig_inner.h"

static bool left(const rank_state *r)
{
    return r->alive && !r->ended;
}

static void check_value(rig *g, const rank_state *by, uint32_t seq)
{
    const decision *d = &by->decisions[seq];
    uint64_t flags = UINT64_MAX, highest = 0;
    uint32_t leavers = 0, author = NX_CONSENSUS_NOBODY;

    for (uint32_t i = 0; i < g->plan.size; i++) {
        const rank_state *r = &g->ranks[i];
        const nx_consensus_input *in = &r->inputs[seq];

        if ((d->failed >> i) & 1) {
            continue;
        }
        if (r->starts <= seq) {
            nxt_consensus_wrong(g, "instance %u counts rank %u, which never began", seq, i);
            return;
        }
        flags &= in->flags;
        highest = (in->highest > highest) ? in->highest : highest;
        leavers |= in->leave ? 1U << i : 0;
        author = ((in->payload != NULL) && (author == NX_CONSENSUS_NOBODY)) ? i : author;
    }
    if ((d->flags != flags) || (d->highest != highest) || (d->leavers != leavers) ||
        (d->author != author)) {
        nxt_consensus_wrong(g, "rank %u: instance %u has a value that its ranks did not bring",
                            by->self, seq);
    } else if ((author != NX_CONSENSUS_NOBODY) &&
               ((d->payload_len != g->ranks[author].inputs[seq].payload_len) ||
                (memcmp(d->payload, g->ranks[author].payloads[seq], d->payload_len) != 0))) {
        nxt_consensus_wrong(g, "rank %u: instance %u has another payload than rank %u's", by->self,
                            seq, author);
    }
    if ((d->failed & ~(g->accused | g->leavers_gone)) != 0) {
        nxt_consensus_wrong(g, "instance %u excludes ranks %x that no rank declared failed", seq,
                            d->failed & ~(g->accused | g->leavers_gone));
    }
}

static bool same(const decision *a, const decision *b)
{
    return (a->flags == b->flags) && (a->highest == b->highest) && (a->failed == b->failed) &&
           (a->leavers == b->leavers) && (a->author == b->author) &&
           (a->payload_len == b->payload_len) &&
           (memcmp(a->payload, b->payload, sizeof(a->payload)) == 0);
}

/* Whether the decisions of |a| and |b| must be the same. */
static bool must_agree(const rig *g, const rank_state *a, const rank_state *b)
{
    const nxt_consensus_plan *p = &g->plan;

    if (p->partition && (p->quorum == NX_QUORUM_NONE) && (a->side != b->side)) {
        return false;
    }
    return p->uniform || (left(a) && left(b));
}

static void check_instance(rig *g, uint32_t seq)
{
    uint32_t known = UINT32_MAX;

    for (uint32_t i = 0; i < g->plan.size; i++) {
        const rank_state *a = &g->ranks[i];

        if (!a->decisions[seq].have) {
            continue;
        }
        check_value(g, a, seq);
        for (uint32_t k = 0; k < i; k++) {
            const rank_state *b = &g->ranks[k];

            if (b->decisions[seq].have && must_agree(g, a, b) &&
                !same(&a->decisions[seq], &b->decisions[seq])) {
                nxt_consensus_wrong(g, "instance %u: ranks %u and %u decided differently", seq, k,
                                    i);
            }
        }
    }
    for (uint32_t i = 0; i < g->plan.size; i++) {
        known &= (g->ranks[i].starts > seq) ? g->ranks[i].known_at_start[seq] : UINT32_MAX;
    }
    for (uint32_t i = 0; (i < g->plan.size) && (known != UINT32_MAX); i++) {
        const decision *d = &g->ranks[i].decisions[seq];

        if (d->have && ((known & ~d->failed) != 0)) {
            nxt_consensus_wrong(g, "instance %u counts ranks %x that all knew to be dead", seq,
                                known & ~d->failed);
        }
    }
}

void nxt_consensus_check(rig *g)
{
    for (uint32_t i = 0; i < g->plan.size; i++) {
        const rank_state *r = &g->ranks[i];
        uint32_t waits[MOST];

        if (!left(r)) {
            continue;
        }
        if (!r->over) {
            nxt_consensus_wrong(
                g, "rank %u hangs in instance %u, waiting for %u ranks", i, r->starts - 1,
                (r->machine != NULL) ? nx_consensus_waits_for(r->machine, waits, MOST) : 0);
        } else if (!r->forgotten && (g->quit == 0)) { /* without a wait no notification is due */
            nxt_consensus_wrong(g, "rank %u is never told to forget", i);
        }
    }
    for (uint32_t seq = 0; seq < g->plan.instances; seq++) {
        check_instance(g, seq);
    }
}
