/*
 * creation_fuzz.c - frames of other ranks to a rank that creates communicators from lists.
 *
 * The first byte: bits 0-2 the rank.  Events follow, each after a byte.  From 0xf0 on this rank
 * calls with one of four lists, its calls fail, it commits what is ready, or a rank fails.
 * Otherwise the byte is the sender of a frame, whose length is the next byte.  The machine sends
 * complete frames to other ranks only, and a decoded frame is encoded to the same bytes.
 */
#include <stdio.h>
#include <string.h>

#include "cluster/creation/creation.h"
#include "cluster/view.h"
#include "fuzz.h"

enum { RANKS = 8, PARENT = 3, CALLS = 4, START = 0xf0, FAIL = 0xf4, COMMIT = 0xf8, GONE = 0xfc };

typedef struct rank {
    uint32_t self;
    nx_early *early;
    nx_creations *cs;
    nx_creation calls[CALLS];
    bool in[CALLS];
} rank;

static void on_send(void *ctx, uint32_t to, bool vouch, const void *frame, size_t len)
{
    const rank *r = ctx;
    nx_creation_frame f;

    (void)vouch;
    nxt_must((to != r->self) && (len <= NX_CREATION_FRAME_MAX));
    nxt_must(nx_creation_decode(frame, len, &f) == NEXAR_OK);
}

static void on_changed(void *ctx, nx_creation *c)
{
    (void)ctx;
    nxt_must(c->state != NX_CREATION_WAITS);
}

static void on_lacks(void *ctx, uint32_t from, const nx_creation_key *key)
{
    (void)ctx;
    (void)from;
    (void)key;
}

static void on_have(void *ctx, const nx_creation_frame *f)
{
    static uint32_t slots[NX_WORLD_MAX];

    (void)ctx;
    nxt_must((f->n > 0) && (f->n <= NX_WORLD_MAX));
    nx_creation_members(f, slots);
}

static const char *name_of(void *ctx, uint32_t slot, char *buf)
{
    (void)ctx;
    (void)snprintf(buf, NX_CREATION_PEER, "rank %u", (unsigned)slot);
    return buf;
}

static const nx_creation_ops ops = {
    .send = on_send, .changed = on_changed, .lacks = on_lacks, .have = on_have, .name = name_of};

/* Call |i| has tag |i| / 2.  All ranks are in its list; the order distinguishes two lists. */
static void start(rank *r, unsigned i)
{
    static const uint32_t lists[2][RANKS] = {{0, 1, 2, 3, 4, 5, 6, 7}, {7, 6, 5, 4, 3, 2, 1, 0}};

    if (r->in[i]) {
        return;
    }
    r->calls[i] =
        (nx_creation){.parent = PARENT, .tag = i / 2, .slots = lists[i % 2], .n = RANKS, .id = 9};
    r->in[i] = (nx_creation_start(r->cs, &r->calls[i], 1) == NEXAR_OK);
}

static void end(rank *r, unsigned i)
{
    if (r->in[i] && (r->calls[i].state != NX_CREATION_WAITS)) {
        nx_creation_end(r->cs, &r->calls[i]);
        r->in[i] = false;
    }
}

static void act(rank *r, uint8_t what)
{
    const unsigned i = what % CALLS;

    if (what >= GONE) {
        nx_creations_gone(r->cs, (r->self + 1 + i) % RANKS, "it is gone");
    } else if (what < FAIL) {
        start(r, i);
    } else if (r->in[i] && (what < COMMIT)) {
        nx_creation_fail(r->cs, &r->calls[i], NEXAR_ETIMEDOUT, "too late");
    } else if (r->in[i] && (r->calls[i].state == NX_CREATION_READY)) {
        nx_creation_commit(r->cs, &r->calls[i], 77);
    }
    end(r, i);
}

static void take_frame(rank *r, uint32_t from, nx_reader *reader)
{
    const size_t want = nx_read_u8(reader), left = nx_reader_left(reader);
    const size_t len = (want < left) ? want : left;
    const uint8_t *data = nx_read_bytes(reader, len);
    nx_creation_frame f;
    uint8_t again[NX_CREATION_FRAME_MAX];

    if ((nx_creation_decode(data, len, &f) == NEXAR_OK) && (f.form != NX_CREATION_HAVE)) {
        const size_t n = nx_creation_encode(&f, again, sizeof(again));
        nx_creation_frame g;

        nxt_must((n > 0) && (nx_creation_decode(again, n, &g) == NEXAR_OK));
        nxt_must((g.form == f.form) && (g.err == f.err) && (strcmp(g.why, f.why) == 0));
    }
    if (from != r->self) {
        (void)!nx_creations_frame(r->cs, from, data, len, 1);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    nx_reader reader = nx_reader_make(data, size);
    rank r = {.self = nx_read_u8(&reader) % RANKS};

    if ((nx_early_create(&r.early) != NEXAR_OK) ||
        (nx_creations_create(&r.cs, r.self, r.early, &ops, &r) != NEXAR_OK)) {
        nx_early_destroy(r.early);
        return 0;
    }
    while (!reader.failed && (nx_reader_left(&reader) > 0)) {
        const uint8_t what = nx_read_u8(&reader);

        if (what >= START) {
            act(&r, what);
        } else {
            take_frame(&r, what % RANKS, &reader);
        }
    }
    for (unsigned i = 0; i < CALLS; i++) {
        if (r.in[i]) {
            nx_creation_end(r.cs, &r.calls[i]);
        }
    }
    nx_creations_destroy(r.cs);
    nx_early_destroy(r.early);
    return 0;
}
