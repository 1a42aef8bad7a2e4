/* state_vote.c - elects contents, and plans the pieces that transfer them. */
#include "core/state/state_vote.h"

#include <string.h>

#include "base/alloc.h"

/* Pieces begin at multiples of this, where possible. */
enum { PIECE_ALIGN = 64 };

static const nx_digest *digest_of(const nx_state_ballot *b, uint32_t rank, size_t tensor)
{
    return &b->digests[(size_t)rank * b->tensors + tensor];
}

static bool holds(const nx_state_ballot *b, uint32_t rank, uint32_t winner, size_t tensor)
{
    return nx_digest_equal(digest_of(b, rank, tensor), digest_of(b, winner, tensor));
}

/* ---- election ------------------------------------------------------------------------------- */

static uint64_t highest(const nx_state_ballot *b)
{
    uint64_t most = 0;

    for (uint32_t rank = 0; rank < b->ranks; rank++) {
        most = (b->revisions[rank] > most) ? b->revisions[rank] : most;
    }
    return most;
}

/* The number of ranks from |from| on that vote for the content of |from|. */
static uint32_t votes_for(const nx_state_ballot *b, uint64_t revision, uint32_t from, size_t tensor)
{
    uint32_t votes = 0;

    for (uint32_t rank = from; rank < b->ranks; rank++) {
        votes += (b->revisions[rank] == revision) && holds(b, rank, from, tensor);
    }
    return votes;
}

uint32_t nx_state_winner(const nx_state_ballot *b, uint64_t revision, size_t tensor)
{
    uint32_t winner = 0, most = 0;

    /* A content whose lowest holder is |rank| has at most as many votes as there are ranks left. */
    for (uint32_t rank = 0; rank + most < b->ranks; rank++) {
        if (b->revisions[rank] == revision) {
            const uint32_t votes = votes_for(b, revision, rank, tensor);

            winner = (votes > most) ? rank : winner;
            most = (votes > most) ? votes : most;
        }
    }
    return winner;
}

/* ---- distribution ----------------------------------------------------------------------- */

/* Consecutive tensors that differ and have the same holders form one stretch. */
typedef struct stretch {
    size_t first; /* of plan->which */
    size_t n;
    size_t off, len; /* bytes */
} stretch;

typedef struct planner {
    const nx_state_ballot *b;
    nx_state_plan *plan;
    uint32_t *winners; /* by index in plan->which */
    bool *receives;    /* by rank: whether it receives anything */
    uint32_t *holders; /* of one stretch */
    size_t npieces, nreceivers;
    size_t segment;
    uint64_t turn; /* the next holder, and the next first receiver, in rotation */
} planner;

static bool same_holders(const planner *p, size_t i, size_t j)
{
    for (uint32_t rank = 0; rank < p->b->ranks; rank++) {
        if (holds(p->b, rank, p->winners[i], p->plan->which[i]) !=
            holds(p->b, rank, p->winners[j], p->plan->which[j])) {
            return false;
        }
    }
    return true;
}

/* The stretch after |s|; false: there is none. */
static bool next_stretch(const planner *p, stretch *s)
{
    const nx_state_plan *plan = p->plan;

    *s = (stretch){.first = s->first + s->n, .off = s->off + s->len};
    if (s->first == plan->differed) {
        return false;
    }
    do {
        s->len += p->b->bytes[plan->which[s->first + s->n]];
        s->n++;
    } while ((s->first + s->n < plan->differed) && same_holders(p, s->first, s->first + s->n));
    return true;
}

static uint32_t count_holders(const planner *p, const stretch *s)
{
    uint32_t n = 0;

    for (uint32_t rank = 0; rank < p->b->ranks; rank++) {
        n += holds(p->b, rank, p->winners[s->first], p->plan->which[s->first]);
    }
    return n;
}

/* The number of pieces of |s|: one for each holder, none shorter than a segment. */
static uint32_t pieces_of(const planner *p, const stretch *s, uint32_t nholders)
{
    const size_t most = s->len / p->segment;

    return (most < 1) ? 1 : (most < nholders) ? (uint32_t)most : nholders;
}

/* Computes the room for pieces and receivers. */
static void measure(planner *p)
{
    stretch s = {0};

    p->npieces = p->nreceivers = 0;
    while (next_stretch(p, &s)) {
        const uint32_t nholders = count_holders(p, &s);

        p->npieces += pieces_of(p, &s, nholders);
        p->nreceivers += p->b->ranks - nholders;
    }
}

static size_t cut_at(const stretch *s, uint32_t i, uint32_t n)
{
    return (i == n) ? s->len : s->len / n * i / PIECE_ALIGN * PIECE_ALIGN;
}

static void add_pieces(planner *p, const stretch *s)
{
    nx_state_plan *plan = p->plan;
    uint32_t *receivers = plan->receivers + p->nreceivers;
    uint32_t nholders = 0, nreceivers = 0, n;

    for (uint32_t rank = 0; rank < p->b->ranks; rank++) {
        if (holds(p->b, rank, p->winners[s->first], plan->which[s->first])) {
            p->holders[nholders++] = rank;
        } else {
            receivers[nreceivers++] = rank;
            plan->updated += !p->receives[rank];
            p->receives[rank] = true;
        }
    }
    n = ((nholders > 0) && (nreceivers > 0)) ? pieces_of(p, s, nholders) : 0;
    for (uint32_t i = 0; i < n; i++, p->turn++) {
        const size_t from = cut_at(s, i, n);

        plan->pieces[p->npieces++] =
            (nx_distribution_piece){.off = s->off + from,
                                    .len = cut_at(s, i + 1, n) - from,
                                    .holder = p->holders[p->turn % nholders],
                                    .receivers = receivers,
                                    .nreceivers = nreceivers,
                                    .first = (uint32_t)(p->turn % nreceivers)};
    }
    p->nreceivers += nreceivers;
}

/* Finds the tensors that differ, and their winners. */
static size_t find_differing(planner *p)
{
    const nx_state_ballot *b = p->b;
    size_t bytes = 0;

    for (size_t t = 0; t < b->tensors; t++) {
        const uint32_t winner = nx_state_winner(b, p->plan->revision, t);
        uint32_t rank = 0;

        while ((rank < b->ranks) && holds(b, rank, winner, t)) {
            rank++;
        }
        if (rank < b->ranks) {
            p->winners[p->plan->differed] = winner;
            p->plan->which[p->plan->differed++] = t;
            bytes += b->bytes[t];
        }
    }
    return bytes;
}

/* NEXAR_ENOMEM */
static nexar_err plan_pieces(planner *p)
{
    nx_state_plan *plan = p->plan;
    stretch s = {0};

    measure(p);
    plan->pieces = nx_calloc(p->npieces, sizeof(*plan->pieces));
    plan->receivers = nx_calloc(p->nreceivers, sizeof(*plan->receivers));
    if ((plan->pieces == NULL) || (plan->receivers == NULL)) {
        return NEXAR_ENOMEM;
    }
    p->npieces = p->nreceivers = 0;
    while (next_stretch(p, &s)) {
        add_pieces(p, &s);
    }
    plan->distribution = (nx_distribution){.n = p->npieces, .pieces = plan->pieces};
    return NEXAR_OK;
}

nexar_err nx_state_vote(const nx_state_ballot *b, nx_state_plan *out)
{
    planner p = {.b = b, .plan = out};
    nexar_err err = NEXAR_ENOMEM;
    size_t bytes;

    *out = (nx_state_plan){.revision = highest(b)};
    out->which = nx_calloc(b->tensors, sizeof(*out->which));
    p.winners = nx_calloc(b->tensors, sizeof(*p.winners));
    p.receives = nx_calloc(b->ranks, sizeof(*p.receives));
    p.holders = nx_calloc(b->ranks, sizeof(*p.holders));
    if ((out->which != NULL) && (p.winners != NULL) && (p.receives != NULL) &&
        (p.holders != NULL)) {
        bytes = find_differing(&p);
        /* Limits the number of pieces, however long the tensors are. */
        p.segment = bytes / (NX_DISTRIBUTION_PIECES / 2) + 1;
        p.segment = (p.segment < b->segment) ? b->segment : p.segment;
        err = plan_pieces(&p);
    }
    nx_free(p.winners);
    nx_free(p.receives);
    nx_free(p.holders);
    if (err != NEXAR_OK) {
        nx_state_plan_fini(out);
        return nx_fail_nomem("the plan of a state_sync");
    }
    return NEXAR_OK;
}

void nx_state_plan_fini(nx_state_plan *plan)
{
    nx_free(plan->which);
    nx_free(plan->pieces);
    nx_free(plan->receivers);
    *plan = (nx_state_plan){0};
}
