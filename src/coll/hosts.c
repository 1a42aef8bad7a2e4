/* hosts.c - making the map of ranks and hosts. */
#include "coll/hosts.h"

#include <assert.h>
#include <stddef.h>

#include "base/alloc.h"

/* Numbers the hosts by their first rank; |seen| has room for all labels. */
static uint32_t number(const uint32_t *labels, uint32_t ranks, uint32_t *of, uint32_t *seen)
{
    uint32_t n = 0;

    for (uint32_t r = 0; r < ranks; r++) {
        seen[r] = UINT32_MAX;
    }
    for (uint32_t r = 0; r < ranks; r++) {
        assert(labels[r] < ranks);
        if (seen[labels[r]] == UINT32_MAX) {
            seen[labels[r]] = n++;
        }
        of[r] = seen[labels[r]];
    }
    return n;
}

nexar_err nx_hosts_create(nx_hosts **out, const uint32_t *labels, uint32_t ranks)
{
    nx_hosts *hosts = nx_zalloc(sizeof(*hosts) + (4 * (size_t)ranks + 1) * sizeof(uint32_t));

    if (hosts == NULL) {
        return nx_fail_nomem("the hosts of a communicator");
    }

    uint32_t *of = hosts->tables, *place = of + ranks, *order = place + ranks;
    uint32_t *first = order + ranks;

    hosts->ranks = ranks;
    hosts->n = number(labels, ranks, of, order);
    for (uint32_t r = 0; r < ranks; r++) {
        place[r] = first[of[r] + 1]++; /* counted first, then summed */
    }
    hosts->least = ranks;
    for (uint32_t h = 0; h < hosts->n; h++) {
        const uint32_t count = first[h + 1];

        hosts->least = (count < hosts->least) ? count : hosts->least;
        hosts->most = (count > hosts->most) ? count : hosts->most;
        first[h + 1] += first[h];
    }
    hosts->in_order = true;
    for (uint32_t r = 0; r < ranks; r++) {
        order[first[of[r]] + place[r]] = r;
        hosts->in_order = hosts->in_order && (first[of[r]] + place[r] == r);
    }
    hosts->of = of;
    hosts->place = place;
    hosts->order = order;
    hosts->first = first;
    *out = hosts;
    return NEXAR_OK;
}

void nx_hosts_destroy(nx_hosts *hosts)
{
    nx_free(hosts);
}
