/* distribution.c - pieces along lines and trees of their receivers. */
#include "coll/distribution/distribution.h"

/* Ranks of a piece are numbered from its holder, 0; NOWHERE: this rank has no part in it. */
#define NOWHERE UINT32_MAX

static uint32_t place_of(const nx_distribution_piece *p, uint32_t rank)
{
    uint32_t low = 0, high = p->nreceivers;

    if (rank == p->holder) {
        return 0;
    }
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;

        if (p->receivers[middle] < rank) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if ((low == p->nreceivers) || (p->receivers[low] != rank)) {
        return NOWHERE;
    }
    return 1 + (low + p->nreceivers - p->first) % p->nreceivers;
}

bool nx_distribution_receives(const nx_distribution_piece *p, uint32_t rank)
{
    const uint32_t place = place_of(p, rank);

    return (place != 0) && (place != NOWHERE);
}

static uint32_t rank_at(const nx_distribution_piece *p, uint32_t place)
{
    return (place == 0) ? p->holder : p->receivers[(p->first + place - 1) % p->nreceivers];
}

static bool in_a_line(const nx_distribution_piece *p, size_t segment)
{
    return (segment != 0) && (p->len > segment);
}

/* Clearing the lowest bit of a place gives its parent. */
static uint32_t parent_of(uint32_t place, bool line)
{
    return line ? place - 1 : (place & (place - 1));
}

/* The next child of |place| after |child| (0: the first), in descending distance; 0: no more. */
static uint32_t next_child(const nx_distribution_piece *p, uint32_t place, uint32_t child,
                           bool line)
{
    const uint32_t n = p->nreceivers + 1;
    const uint32_t low = (place == 0) ? n : (place & (~place + 1));
    uint32_t step = 1;

    if (line) {
        return ((child == 0) && (place + 1 < n)) ? place + 1 : 0;
    }
    if (child == 0) {
        while ((step < low) && (place + step < n)) {
            step *= 2;
        }
    } else {
        step = child - place;
    }
    step /= 2;
    return (step == 0) ? 0 : place + step;
}

static void add_piece(nx_sched *s, const nx_coll *c, uint32_t round)
{
    const nx_distribution_piece *p = &c->distribution->pieces[round];
    const nx_ref at = nx_at(NX_SPACE_RECV, p->off);
    const uint32_t place = place_of(p, c->rank);
    const size_t segment = s->segment;
    const bool line = in_a_line(p, segment);

    if (place == NOWHERE) {
        return;
    }
    s->segment = (p->nreceivers > 1) ? segment : 0; /* no rank forwards it: one message */
    if (place != 0) {
        nx_recv(s, rank_at(p, parent_of(place, line)), round, at, p->len);
    }
    for (uint32_t child = 0; (child = next_child(p, place, child, line)) != 0;) {
        nx_send(s, rank_at(p, child), round, at, p->len);
    }
    s->segment = segment;
}

static nexar_err build(nx_sched *s, const nx_coll *c)
{
    for (size_t i = 0; i < c->distribution->n; i++) {
        add_piece(s, c, (uint32_t)i);
    }
    return nx_sched_seal(s);
}

const nx_algorithm nx_distribution_algorithm = {
    .kind = NX_BROADCAST, .name = "distribution", .build = build, .cut = true};

nx_distribution_load nx_distribution_load_of(const nx_distribution *t, uint32_t rank,
                                             size_t segment)
{
    nx_distribution_load load = {0};

    for (size_t i = 0; i < t->n; i++) {
        const nx_distribution_piece *p = &t->pieces[i];
        const uint32_t place = place_of(p, rank);
        const bool line = in_a_line(p, segment);

        if (place == NOWHERE) {
            continue;
        }
        load.received += (place != 0) ? p->len : 0;
        for (uint32_t child = 0; (child = next_child(p, place, child, line)) != 0;) {
            load.sent += p->len;
        }
    }
    return load;
}
