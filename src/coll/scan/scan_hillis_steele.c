/*
 * scan_hillis_steele.c - scan and exscan for short vectors: in round k each rank sends its partial
 * result to the rank at distance 2^k and adds the result from the rank at distance -2^k.
 *
 *     rounds: ceil(log2 size) (exscan: one more)
 *     sent by each rank: count in each round
 *
 * Exscan first shifts the input by one rank; the inclusive scan over ranks 1, 2, ... of the shifted
 * input is the exclusive scan. Hillis and Steele, "Data parallel algorithms", 1986. With
 * nx_coll.heard the last ranks send empty messages to the first ranks: the scan is part of a
 * dissemination (piggyback.h).
 */
#include "coll/algorithms.h"
#include "coll/building_blocks/accumulate.h"
#include "coll/building_blocks/piggyback.h"

/* Inclusive scan among ranks [first, size), of |in| into |out|. */
static void scan(nx_sched *s, const nx_coll *c, uint32_t first, nx_ref in, nx_ref out)
{
    const uint32_t place = c->rank - first;
    uint32_t additions = 0, round = first;
    nx_piggyback ride = nx_piggyback_make(s);
    nx_acc sum;

    for (uint64_t far = 1; far <= place; far *= 2) {
        additions++;
    }
    nx_acc_init(&sum, s, in, out, c->count, additions);
    for (uint64_t far = 1; far < c->size - first; far *= 2, round++) {
        const bool up = (c->rank + far < c->size);

        if (c->heard) {
            nx_piggyback_send(&ride, (uint32_t)(c->rank + far - (up ? 0 : c->size)), round, sum.now,
                              up ? c->count : 0);
        } else if (up) {
            nx_send(s, (uint32_t)(c->rank + far), round, sum.now, c->count);
        }
        if (far <= place) {
            nx_acc_recv(&sum, s, (uint32_t)(c->rank - far), round);
        } else if (c->heard) {
            nx_recv(s, (uint32_t)(c->rank + c->size - far), round, out, 0);
        }
        nx_piggyback_received(&ride);
    }
}

nexar_err nx_scan_hillis_steele(nx_sched *s, const nx_coll *c)
{
    const nx_ref in = nx_coll_input(c), out = nx_at(NX_SPACE_RECV, 0);

    if (c->kind == NX_SCAN) {
        scan(s, c, 0, in, out);
        return nx_sched_seal(s);
    }
    if (c->rank + 1 < c->size) {
        nx_send(s, c->rank + 1, 0, in, c->count);
    }
    if (c->rank == 0) {
        nx_fill(s, out, c->count);
    } else {
        const nx_ref before = nx_sched_scratch(s, c->count);

        nx_recv(s, c->rank - 1, 0, before, c->count);
        scan(s, c, 1, before, out);
    }
    return nx_sched_seal(s);
}

void nx_scan_hillis_steele_forecast(const nx_coll *c, size_t segment, nx_forecast *f)
{
    const bool shifts = c->kind == NX_EXSCAN;
    const uint32_t size = c->size - shifts; /* ranks that take part in the scan */
    nx_path path = {.net = f->net};

    (void)segment;
    f->rounds = f->messages = f->sent = 0;
    f->time_s = 0;
    if (c->size == 1) {
        return;
    }
    f->messages = nx_log2_ceil(size) + shifts;
    f->sent = f->messages * c->count;
    f->rounds = (c->count > 0) ? nx_log2_floor(size) + shifts : 1;
    if (shifts) {
        nx_path_shift(&path, 1, c->count, 0);
    }
    for (uint64_t far = 1; far < size; far *= 2) {
        if ((far == 1) && (f->rounds < f->messages)) {
            nx_path_alternative(&path, c->count, c->count);
        } else {
            nx_path_shift(&path, (uint32_t)far, c->count, c->count);
        }
    }
    /* The first rank of the scan copies its input before it sends. */
    f->time_s = nx_path_time(&path) + nx_net_reduce(f->net, c->count);
}
