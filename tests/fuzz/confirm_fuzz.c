/*
 * confirm_fuzz.c - frames of other ranks to a rank that commits operations.
 *
 * The first byte: bits 0-2 the size, less 2, bits 3-5 the rank.  Events follow, each after a byte.
 * From 0xf0 on the rank enters its next operation, or is frozen (0xff).  Otherwise the byte is the
 * sender of a frame, whose length is the next byte.  The machine sends complete frames to other
 * ranks only, and advances only by received frames.
 */
#include <string.h>

#include "cluster/commit.h"
#include "fuzz.h"
#include "wire/wire.h"

enum { COMM = 7, ENTER = 0xf0, FREEZE = 0xff };

static void on_send(void *ctx, uint32_t to, const void *frame, size_t len)
{
    const nx_commit *c = ctx;
    uint64_t comm = 0;

    nxt_must((to < c->size) && (to != c->self) && (len <= NX_COMMIT_FRAME_MAX));
    nxt_must((nx_commit_frame_comm(frame, len, &comm) == NEXAR_OK) && (comm == COMM));
}

static void check(const nx_commit *c, bool frozen)
{
    uint64_t flags, highest, keep;
    nx_commit copy = *c;
    uint32_t errs;

    nxt_must(c->frozen == frozen);
    nxt_must(!c->pending || (nx_commit_awaits(c) < c->size));
    nxt_must((int)nx_commit_error(nx_commit_errs(c)) <= 0);
    nx_commit_freeze(&copy, &flags, &highest);
    nx_commit_decide(flags, highest, &keep, &errs);
    nxt_must((keep == c->entered) && (errs == nx_commit_errs(c)));
}

static void take_frame(nx_commit *c, uint32_t from, nx_reader *r)
{
    const size_t want = nx_read_u8(r), left = nx_reader_left(r);
    const size_t len = (want < left) ? want : left;
    const uint8_t *frame = nx_read_bytes(r, len);
    uint64_t comm = COMM;

    if (nx_commit_frame_comm(frame, len, &comm) != NEXAR_OK) {
        nxt_must(comm == COMM);
    }
    (void)!nx_commit_frame(c, from, frame, len, on_send, c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    nx_reader r = nx_reader_make(data, size);
    const uint8_t how = nx_read_u8(&r);
    const uint32_t n = (how & 7U) + 2;
    uint64_t flags, highest;
    bool frozen = false;
    nx_commit c;

    nx_commit_init(&c, COMM, n, (how >> 3 & 7U) % n);
    while (nx_reader_left(&r) > 0) {
        const uint8_t what = nx_read_u8(&r);

        if (what == FREEZE) {
            nx_commit_freeze(&c, &flags, &highest);
            frozen = true;
        } else if (what < ENTER) {
            take_frame(&c, what % 10, &r); /* some are invalid ranks */
        } else if (!c.pending && !frozen) {
            nx_commit_enter(&c, nx_commit_bits((nexar_err) - (what & 7)), on_send, &c);
        }
        check(&c, frozen);
    }
    return 0;
}
