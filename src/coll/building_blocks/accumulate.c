/* accumulate.c - an accumulator buffer shared by alternating send and reduce steps. */
#include "accumulate.h"

#include <assert.h>

void nx_acc_init(nx_acc *acc, nx_sched *s, nx_ref in, nx_ref out, size_t len, uint32_t additions)
{
    const bool in_place = (in.space == out.space) && (in.off == out.off);

    *acc = (nx_acc){.now = in, .out = out, .len = len, .left = additions};
    if (additions == 0) {
        nx_copy(s, out, in, len);
        return;
    }
    for (uint32_t i = 0; i < 2; i++) {
        /* The last addition writes to |out|, so the first of two needs one spare. */
        if ((additions > i + 1) || (in_place && (additions == 1) && (i == 0))) {
            acc->spare[i] = nx_sched_scratch(s, len);
        }
    }
    if (in_place && (additions == 1)) {
        nx_copy(s, acc->spare[0], in, len);
        acc->now = acc->spare[0];
    }
}

void nx_acc_recv(nx_acc *acc, nx_sched *s, uint32_t peer, uint32_t round)
{
    assert(acc->left > 0);
    acc->left--;

    nx_ref to = (acc->left == 0) ? acc->out : acc->spare[(acc->left - 1) % 2];

    nx_recv_reduce(s, peer, round, to, acc->now, acc->len);
    acc->now = to;
}
