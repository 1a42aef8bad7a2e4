/* commit.c - rounds of a dissemination, and the decision when it is interrupted. */
#include "commit.h"

#include <inttypes.h>

#include "msg/control.h"
#include "wire/wire.h"

/* ---- errors as bits ------------------------------------------------------------------ */

uint32_t nx_commit_bits(nexar_err err)
{
    return (err == NEXAR_OK) ? 0 : UINT32_C(1) << (unsigned)-(int)err;
}

nexar_err nx_commit_error(uint32_t bits)
{
    if (bits == 0) {
        return NEXAR_OK;
    }
    if ((bits & nx_commit_bits(NEXAR_EMISMATCH)) != 0) { /* other errors may result from it */
        return NEXAR_EMISMATCH;
    }
    return (nexar_err)-__builtin_ctz(bits);
}

/* The bits that an error may have. */
static uint32_t all_bits(void)
{
    return 2 * nx_commit_bits(NEXAR_EINTERNAL) - 2;
}

/* ---- frames -------------------------------------------------------------------------- */

typedef struct word {
    uint64_t comm, seq;
    uint32_t round, errs;
} word;

static nexar_err decode(const void *frame, size_t len, word *out)
{
    nx_reader r = nx_reader_make(frame, len);
    const uint8_t kind = nx_read_u8(&r);

    out->comm = nx_read_varint(&r);
    out->seq = nx_read_varint(&r);
    out->round = nx_read_u8(&r);
    out->errs = nx_read_u32(&r);
    if (!nx_reader_done(&r) || (kind != NX_CONTROL_CONFIRM) || ((out->errs & ~all_bits()) != 0)) {
        return nx_fail(NEXAR_EPROTO, "a malformed COMMIT frame");
    }
    return NEXAR_OK;
}

nexar_err nx_commit_frame_comm(const void *frame, size_t len, uint64_t *comm)
{
    word w;
    const nexar_err err = decode(frame, len, &w);

    if (err == NEXAR_OK) {
        *comm = w.comm;
    }
    return err;
}

/* The rank that sends |round| to this rank; after all rounds: none. */
static bool is_round(const nx_commit *c, uint32_t round)
{
    return (round < 32) && ((UINT64_C(1) << round) < c->size);
}

static void send_round(const nx_commit *c, nx_commit_send say, void *ctx)
{
    uint8_t frame[NX_COMMIT_FRAME_MAX];
    nx_writer w = nx_writer_make(frame, sizeof(frame));

    nx_write_u8(&w, NX_CONTROL_CONFIRM);
    nx_write_varint(&w, c->comm);
    nx_write_varint(&w, c->entered);
    nx_write_u8(&w, (uint8_t)c->round);
    nx_write_u32(&w, c->errs[c->entered & 1]);
    say(ctx, (uint32_t)((c->self + (UINT64_C(1) << c->round)) % c->size), frame, w.len);
}

/* Advances as far as received rounds allow. */
static void advance(nx_commit *c, nx_commit_send say, void *ctx)
{
    while (c->pending && ((c->got[c->entered & 1] >> c->round) & 1)) {
        c->round++;
        if (is_round(c, c->round)) {
            send_round(c, say, ctx);
        } else {
            c->pending = false;
        }
    }
}

/* ---- events -------------------------------------------------------------------------- */

void nx_commit_init(nx_commit *c, uint64_t comm, uint32_t size, uint32_t self)
{
    *c = (nx_commit){.comm = comm, .size = size, .self = self};
}

void nx_commit_enter(nx_commit *c, uint32_t errs, nx_commit_send say, void *ctx)
{
    const unsigned was = c->entered & 1;

    c->before = c->errs[was];
    c->got[was] = 0; /* for the operation after this one */
    c->errs[was] = 0;
    c->entered++;
    c->errs[c->entered & 1] |= errs;
    c->round = 0;
    c->pending = (c->size > 1);
    if (c->pending) {
        send_round(c, say, ctx);
        advance(c, say, ctx);
    }
}

nexar_err nx_commit_frame(nx_commit *c, uint32_t from, const void *frame, size_t len,
                          nx_commit_send say, void *ctx)
{
    word w;
    const nexar_err err = decode(frame, len, &w);

    if (err != NEXAR_OK) {
        return err;
    }
    if (!is_round(c, w.round) || (from >= c->size) ||
        ((from + (UINT64_C(1) << w.round)) % c->size != c->self) || (w.seq > c->entered + 1)) {
        return nx_fail(NEXAR_EPROTO, "a confirmation of operation %" PRIu64 " that cannot be",
                       w.seq);
    }
    /* All ranks have returned from earlier operations; a frame arrives at most twice. */
    if (!c->frozen && ((w.seq == c->entered + 1) || ((w.seq == c->entered) && c->pending))) {
        c->got[w.seq & 1] |= UINT32_C(1) << w.round;
        c->errs[w.seq & 1] |= w.errs;
        advance(c, say, ctx);
    }
    return NEXAR_OK;
}

/* ---- interruption -------------------------------------------------------------------- */

enum { HALF = 32 };

void nx_commit_freeze(nx_commit *c, uint64_t *flags, uint64_t *highest)
{
    const unsigned now = c->entered & 1;

    /* The other ranks have entered the same number of operations, or one less, or one more.  So
     * each rank reports the errors of two. */
    c->frozen = true;
    *flags =
        ~(((uint64_t)c->errs[now] << (HALF * now)) | ((uint64_t)c->before << (HALF * (1 - now))));
    *highest = ~c->entered;
}

void nx_commit_decide(uint64_t flags, uint64_t highest, uint64_t *keep, uint32_t *errs)
{
    *keep = ~highest;
    *errs = (uint32_t)(~flags >> (HALF * (*keep & 1)));
}
