/*
 * confirm_fuzz.c - frames of others to a rank that confirms operations.
 *
 * The first byte: bits 0-2 the size, less 2, bits 3-5 the rank.  Then come events, each behind
 * a byte: from 0xf0 on the rank enters its next operation, or is frozen (0xff); otherwise it is
 * the sender of a frame, whose length the next byte says.  The machine sends whole frames
 * to others alone, and goes on only by what it was sent.
 */
#include <string.h>

#include "cluster/confirm.h"
#include "fuzz.h"
#include "wire/wire.h"

enum { COMM = 7, ENTER = 0xf0, FREEZE = 0xff };

static void on_send(void *ctx, uint32_t to, const void *frame, size_t len)
{
    const nx_confirm *c = ctx;
    uint64_t comm = 0;

    nxt_must((to < c->size) && (to != c->self) && (len <= NX_CONFIRM_FRAME_MAX));
    nxt_must((nx_confirm_frame_comm(frame, len, &comm) == NEXAR_OK) && (comm == COMM));
}

static void check(const nx_confirm *c, bool frozen)
{
    uint64_t flags, highest, keep;
    nx_confirm copy = *c;
    uint32_t errs;

    nxt_must(c->frozen == frozen);
    nxt_must(!c->pending || (nx_confirm_awaits(c) < c->size));
    nxt_must((int)nx_confirm_error(nx_confirm_errs(c)) <= 0);
    nx_confirm_freeze(&copy, &flags, &highest);
    nx_confirm_decide(flags, highest, &keep, &errs);
    nxt_must((keep == c->entered) && (errs == nx_confirm_errs(c)));
}

static void take_frame(nx_confirm *c, uint32_t from, nx_reader *r)
{
    const size_t want = nx_read_u8(r), left = nx_reader_left(r);
    const size_t len = (want < left) ? want : left;
    const uint8_t *frame = nx_read_bytes(r, len);
    uint64_t comm = COMM;

    if (nx_confirm_frame_comm(frame, len, &comm) != NEXAR_OK) {
        nxt_must(comm == COMM);
    }
    (void)!nx_confirm_frame(c, from, frame, len, on_send, c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    nx_reader r = nx_reader_make(data, size);
    const uint8_t how = nx_read_u8(&r);
    const uint32_t n = (how & 7U) + 2;
    uint64_t flags, highest;
    bool frozen = false;
    nx_confirm c;

    nx_confirm_init(&c, COMM, n, (how >> 3 & 7U) % n);
    while (nx_reader_left(&r) > 0) {
        const uint8_t what = nx_read_u8(&r);

        if (what == FREEZE) {
            nx_confirm_freeze(&c, &flags, &highest);
            frozen = true;
        } else if (what < ENTER) {
            take_frame(&c, what % 10, &r); /* some are no ranks */
        } else if (!c.pending && !frozen) {
            nx_confirm_enter(&c, nx_confirm_bits((nexar_err) - (what & 7)), on_send, &c);
        }
        check(&c, frozen);
    }
    return 0;
}
