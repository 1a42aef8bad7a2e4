/*
 * alltoall_bruck.c - alltoall for tiny blocks: many blocks travel together, each to its rank in
 * hops of powers of two.
 *
 * A block that must move d places is at position d of scratch. In round k all blocks whose d has
 * bit k go to the rank at distance 2^k, packed in one message, and the received blocks take their
 * positions.
 *
 *     rounds: ceil(log2 size)
 *     sent by each rank: about size / 2 blocks in each round
 *
 * Best when the cost of a message counts more than its bytes.  Bruck et al.,
 * "Efficient algorithms for all-to-all communications in multiport
 * message-passing systems", 1997.
 */
#include "coll/algorithms.h"

/* The runs of positions in [0, size) that have |bit| set: [first, end). */
static bool next_run(uint64_t bit, uint32_t size, uint64_t *first, uint64_t *end)
{
    *first = (*end == 0) ? bit : *end + bit;
    if (*first >= size) {
        return false;
    }
    *end = (*first + bit < size) ? *first + bit : size;
    return true;
}

/* Copies between the positions that have |bit| and a packed buffer; returns the number of
 * elements. */
static size_t pack(nx_sched *s, const nx_coll *c, uint64_t bit, nx_ref blocks, nx_ref packed,
                   bool unpack)
{
    uint64_t first = 0, end = 0;
    size_t done = 0;

    while (next_run(bit, c->size, &first, &end)) {
        const nx_ref at = nx_ref_plus(blocks, first * c->count);
        const nx_ref in_pack = nx_ref_plus(packed, done);
        const size_t len = (end - first) * c->count;

        nx_copy(s, unpack ? at : in_pack, unpack ? in_pack : at, len);
        done += len;
    }
    return done;
}

/* Elements in the largest message. */
static size_t largest(const nx_coll *c)
{
    size_t most = 0;

    for (uint64_t bit = 1; bit < c->size; bit *= 2) {
        uint64_t first = 0, end = 0;
        size_t n = 0;

        while (next_run(bit, c->size, &first, &end)) {
            n += end - first;
        }
        most = (n > most) ? n : most;
    }
    return most * c->count;
}

nexar_err nx_alltoall_bruck(nx_sched *s, const nx_coll *c)
{
    const nx_ref in = nx_coll_input(c), out = nx_at(NX_SPACE_RECV, 0);
    const nx_ref blocks = nx_sched_scratch(s, c->size * c->count);
    const size_t room = largest(c);
    const nx_ref going = nx_sched_scratch(s, 2 * room), coming = nx_sched_scratch(s, room);
    const size_t upper = (c->size - c->rank) * c->count;
    uint32_t round = 0;

    nx_copy(s, blocks, nx_ref_plus(in, c->rank * c->count), upper);
    nx_copy(s, nx_ref_plus(blocks, upper), in, c->rank * c->count);

    for (uint64_t bit = 1; bit < c->size; bit *= 2, round++) {
        /* Two alternating packs: the previous one may still be in flight. */
        const nx_ref pack_at = nx_ref_plus(going, (round % 2) * room);
        const size_t len = pack(s, c, bit, blocks, pack_at, false);

        nx_send(s, (uint32_t)((c->rank + bit) % c->size), round, pack_at, len);
        nx_recv(s, (uint32_t)((c->rank + c->size - bit) % c->size), round, coming, len);
        (void)pack(s, c, bit, blocks, coming, true);
    }

    /* The block now at position d is from the rank d before this one; the own block, at 0, has not
     * moved. */
    for (uint32_t d = c->in_place ? 1 : 0; d < c->size; d++) {
        const uint32_t from = (c->rank + c->size - d) % c->size;

        nx_copy(s, nx_ref_plus(out, from * c->count), nx_ref_plus(blocks, d * c->count), c->count);
    }
    return nx_sched_seal(s);
}

void nx_alltoall_bruck_forecast(const nx_coll *c, size_t segment, nx_forecast *f)
{
    const uint32_t rounds = nx_log2_ceil(c->size);
    nx_path path = {.net = f->net};

    (void)segment;
    f->messages = rounds;
    f->sent = 0;
    /* The last round waits for the previous one only if some block takes part in both. */
    f->rounds = rounds;
    if ((rounds > 1) && (c->size <= UINT64_C(3) << (rounds - 2))) {
        f->rounds--;
    }
    f->rounds = (c->count > 0) ? f->rounds : (c->size > 1);
    for (uint64_t bit = 1; bit < c->size; bit *= 2) {
        uint64_t first = 0, end = 0, len = 0;

        while (next_run(bit, c->size, &first, &end)) {
            len += (end - first) * c->count;
        }
        f->sent += len;
        if ((bit == 1) && (f->rounds < rounds)) {
            nx_path_alternative(&path, len, 2 * len);
        } else {
            nx_path_shift(&path, (uint32_t)bit, len, 2 * len);
        }
    }
    f->time_s = nx_path_time(&path) + nx_net_reduce(f->net, 2 * (uint64_t)c->size * c->count);
}
