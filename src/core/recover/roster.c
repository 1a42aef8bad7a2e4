/* roster.c - what a communicator is, and what the application knows of it. */
#include "core/recover/roster.h"

#include "base/alloc.h"

nexar_err nx_roster_create(const nexar_comm *comm, nx_roster **out)
{
    const uint32_t size = comm->size;
    nx_roster *r = nx_zalloc(sizeof(*r) + size * sizeof(r->slots[0]));

    if (r == NULL) {
        return nx_fail_nomem("the ranks of a communicator (retry=on)");
    }
    *r = (nx_roster){.holds = 1, .size = size, .rank = comm->rank};
    for (uint32_t i = 0; i < size; i++) {
        r->slots[i] = nx_comm_peer(comm, i);
    }
    *out = r;
    return NEXAR_OK;
}

void nx_roster_hold(nx_roster *r)
{
    r->holds++;
}

void nx_roster_release(nx_roster *r)
{
    if ((r != NULL) && (--r->holds == 0)) {
        nx_free(r);
    }
}

void nx_roster_replace(nexar_comm *comm, nx_roster *next)
{
    nx_recovery *r = &comm->recovery;

    if (r->shown == NULL) {
        r->shown = r->now;
    } else {
        nx_roster_release(r->now);
    }
    r->now = next;
    next->epoch = r->epoch;
    next->last = r->last;
}

nx_roster *nx_roster_known(const nexar_comm *comm)
{
    const nx_recovery *r = &comm->recovery;
    nx_roster *known = (r->shown == NULL) ? r->now : r->shown;

    nx_roster_hold(known);
    return known;
}

void nx_roster_show(nexar_comm *comm, nx_roster *r)
{
    nx_recovery *rec = &comm->recovery;

    if ((rec->shown == NULL) || (r->epoch <= rec->shown->epoch)) {
        return;
    }
    nx_roster_release(rec->shown);
    rec->shown = NULL;
    if (r != rec->now) {
        nx_roster_hold(r);
        rec->shown = r;
    }
    comm->known_rank = r->rank;
    comm->known_size = r->size;
}

uint32_t nx_roster_rank(const nexar_comm *comm, uint32_t slot)
{
    const nx_roster *shown = comm->recovery.shown;
    uint32_t rank = 0;

    if (shown == NULL) {
        return nx_comm_rank_of(comm, slot);
    }
    while (shown->slots[rank] != slot) {
        rank++;
    }
    return rank;
}
