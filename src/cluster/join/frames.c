/* frames.c - encodes and decodes the frames between joiner and seed. */
#include "cluster/join/frames.h"

#include <string.h>

#include "base/alloc.h"

enum { STATUS_FORMED = 1, STATUS_LASTING = 2, FLAG_HINTED = 1 };

nexar_err nx_refusal_error(nx_refusal why)
{
    switch (why) {
    case NX_REFUSAL_TOKEN:
        return NEXAR_EAUTH;
    case NX_REFUSAL_SETTING:
    case NX_REFUSAL_FULL:
        return NEXAR_EINVAL;
    case NX_REFUSAL_FORMED:
        return NEXAR_ENOTSUP;
    case NX_REFUSAL_TIMEOUT:
        return NEXAR_ETIMEDOUT;
    case NX_REFUSAL_SEED:
        return NEXAR_ECONNECT;
    case NX_REFUSAL_PROTOCOL:
        break;
    }
    return NEXAR_EPROTO;
}

static nexar_err malformed(const char *frame)
{
    return nx_fail(NEXAR_EPROTO, "a malformed %s", frame);
}

static void write_reason(nx_writer *w, const char *text)
{
    nx_write_sentence(w, text, NX_REASON_MAX);
}

static void write_hinted(nx_writer *w, bool hinted)
{
    if (hinted) {
        nx_write_u8(w, FLAG_HINTED);
    }
}

static bool read_hinted(nx_reader *r)
{
    if (nx_reader_left(r) == 0) {
        return false;
    }
    r->failed = (nx_read_u8(r) != FLAG_HINTED) || r->failed;
    return !r->failed;
}

void nx_hello_encode(nx_writer *w, const nx_hello_head *head, const nx_hello *hello)
{
    nx_write_u8(w, NX_JOIN_HELLO);
    nx_write_u16(w, head->protocol);
    nx_write_bytes(w, head->proof, NX_JOIN_PROOF_SIZE);
    nx_write_blob(w, head->csr, head->csr_len);
    nx_write_text(w, hello->software);
    nx_write_u32(w, hello->world_size);
    nx_member_encode(w, &hello->self);
    write_hinted(w, hello->hinted);
}

nexar_err nx_hello_head_decode(nx_reader *r, nx_hello_head *head)
{
    nx_hello_head h = {.protocol = nx_read_u16(r)};

    if (!r->failed && (h.protocol != NX_JOIN_PROTOCOL)) {
        head->protocol = h.protocol;
        return NEXAR_OK;
    }
    h.proof = nx_read_bytes(r, NX_JOIN_PROOF_SIZE);
    h.csr = nx_read_blob(r, NX_CERT_MAX, &h.csr_len);
    if (r->failed) {
        return malformed("HELLO");
    }
    *head = h;
    return NEXAR_OK;
}

nexar_err nx_hello_decode(nx_reader *r, nx_hello *hello)
{
    nx_hello h = {0};

    nx_read_text(r, h.software, sizeof(h.software));
    h.world_size = nx_read_u32(r);
    nx_member_decode(r, &h.self);
    h.hinted = read_hinted(r);
    if (!nx_reader_done(r) || (h.self.id != 0)) {
        return malformed("HELLO");
    }
    *hello = h;
    return NEXAR_OK;
}

static void write_status(nx_writer *w, const nx_world_status *standing)
{
    nx_write_u8(w, (uint8_t)((standing->formed ? STATUS_FORMED : 0) |
                             (standing->lasting ? STATUS_LASTING : 0)));
    nx_write_u32(w, standing->world_size);
}

static void read_status(nx_reader *r, nx_world_status *standing)
{
    const uint8_t bits = nx_read_u8(r);

    standing->formed = (bits & STATUS_FORMED) != 0;
    standing->lasting = (bits & STATUS_LASTING) != 0;
    standing->world_size = nx_read_u32(r);
    if ((bits > (STATUS_FORMED | STATUS_LASTING)) || (standing->world_size == 0) ||
        (standing->world_size > NX_WORLD_MAX)) {
        r->failed = true;
    }
}

void nx_welcome_encode(nx_writer *w, const nx_welcome *f)
{
    nx_write_u8(w, NX_JOIN_WELCOME);
    nx_write_u64(w, f->member);
    nx_write_bytes(w, f->job.bytes, sizeof(f->job.bytes));
    write_status(w, &f->standing);
    nx_write_blob(w, f->cert.data, f->cert.len);
    nx_write_blob(w, f->authority.data, f->authority.len);
}

static void read_der(nx_reader *r, nx_der *der)
{
    const uint8_t *data = nx_read_blob(r, sizeof(der->data), &der->len);

    if (der->len > 0) {
        memcpy(der->data, data, der->len);
    }
}

nexar_err nx_welcome_decode(nx_reader *r, nx_welcome *f)
{
    nx_welcome g = {.member = nx_read_u64(r)};
    const uint8_t *job = nx_read_bytes(r, sizeof(g.job.bytes));

    read_status(r, &g.standing);
    read_der(r, &g.cert);
    read_der(r, &g.authority);
    if (!nx_reader_done(r) || (g.member == 0)) {
        return malformed("WELCOME");
    }
    memcpy(g.job.bytes, job, sizeof(g.job.bytes));
    *f = g;
    return NEXAR_OK;
}

void nx_refused_encode(nx_writer *w, nx_refusal why, const char *text)
{
    nx_write_u8(w, NX_JOIN_REFUSED);
    nx_write_u8(w, (uint8_t)why);
    write_reason(w, text);
}

nexar_err nx_refused_decode(nx_reader *r, nx_refused *f)
{
    nx_refused g = {.why = (nx_refusal)nx_read_u8(r)};

    nx_read_sentence(r, g.text, sizeof(g.text));
    if (!nx_reader_done(r)) {
        return malformed("REFUSED");
    }
    *f = g;
    return NEXAR_OK;
}

void nx_join_progress_encode(nx_writer *w, uint32_t joined, uint32_t world, const char *text)
{
    nx_write_u8(w, NX_JOIN_PROGRESS);
    nx_write_u32(w, joined);
    nx_write_u32(w, world);
    write_reason(w, text);
}

nexar_err nx_join_progress_decode(nx_reader *r, nx_join_progress *f)
{
    nx_join_progress g = {.joined = nx_read_u32(r)};

    g.world = nx_read_u32(r);
    nx_read_sentence(r, g.text, sizeof(g.text));
    if (!nx_reader_done(r) || (g.joined > g.world) || (g.world > NX_WORLD_MAX)) {
        return malformed("PROGRESS");
    }
    *f = g;
    return NEXAR_OK;
}

void nx_view_piece_encode(nx_writer *w, const nx_view_piece *f)
{
    nx_write_u8(w, NX_JOIN_VIEW);
    nx_write_u64(w, f->epoch);
    nx_write_u32(w, f->total);
    nx_write_u32(w, f->off);
    nx_write_blob(w, f->data, f->len);
}

nexar_err nx_view_piece_decode(nx_reader *r, nx_view_piece *f)
{
    nx_view_piece g = {.epoch = nx_read_u64(r)};

    g.total = nx_read_u32(r);
    g.off = nx_read_u32(r);
    g.data = nx_read_blob(r, NX_VIEW_PIECE, &g.len);
    if (!nx_reader_done(r) || (g.len == 0) || (g.total > nx_view_encoded_max(NX_WORLD_MAX)) ||
        (g.off > g.total) || (g.len > g.total - g.off)) {
        return malformed("VIEW");
    }
    *f = g;
    return NEXAR_OK;
}

void nx_want_encode(nx_writer *w, uint64_t epoch, uint32_t off)
{
    nx_write_u8(w, NX_JOIN_WANT);
    nx_write_u64(w, epoch);
    nx_write_u32(w, off);
}

nexar_err nx_want_decode(nx_reader *r, uint64_t *epoch, uint32_t *off)
{
    const uint64_t e = nx_read_u64(r);
    const uint32_t o = nx_read_u32(r);

    if (!nx_reader_done(r)) {
        return malformed("WANT");
    }
    *epoch = e;
    *off = o;
    return NEXAR_OK;
}

void nx_have_encode(nx_writer *w, uint64_t epoch)
{
    nx_write_u8(w, NX_JOIN_HAVE);
    nx_write_u64(w, epoch);
}

void nx_start_encode(nx_writer *w, uint64_t epoch)
{
    nx_write_u8(w, NX_JOIN_START);
    nx_write_u64(w, epoch);
}

void nx_urge_encode(nx_writer *w, uint64_t epoch)
{
    nx_write_u8(w, NX_JOIN_URGE);
    nx_write_u64(w, epoch);
}

nexar_err nx_epoch_decode(nx_reader *r, uint64_t *epoch)
{
    const uint64_t e = nx_read_u64(r);

    if (!nx_reader_done(r)) {
        return malformed("HAVE, START or HURRY");
    }
    *epoch = e;
    return NEXAR_OK;
}

void nx_unreachable_encode(nx_writer *w, uint64_t member, bool ended)
{
    nx_write_u8(w, NX_JOIN_MISSED);
    nx_write_u64(w, member);
    nx_write_u8(w, ended ? 1 : 0);
}

nexar_err nx_unreachable_decode(nx_reader *r, uint64_t *member, bool *ended)
{
    const uint64_t m = nx_read_u64(r);
    const uint8_t e = nx_read_u8(r);

    if (!nx_reader_done(r) || (e > 1)) {
        return malformed("MISSED");
    }
    *member = m;
    *ended = (e == 1);
    return NEXAR_OK;
}

void nx_farewell_encode(nx_writer *w, uint64_t member, nx_farewell how)
{
    nx_write_u8(w, NX_JOIN_FAREWELL);
    nx_write_u64(w, member);
    nx_write_u8(w, (uint8_t)how);
}

nexar_err nx_farewell_decode(nx_reader *r, uint64_t *member, nx_farewell *how)
{
    const uint64_t m = nx_read_u64(r);
    const uint8_t h = nx_read_u8(r);

    if (!nx_reader_done(r) || (h >= NX_FAREWELLS)) {
        return malformed("FAREWELL");
    }
    *member = m;
    *how = (nx_farewell)h;
    return NEXAR_OK;
}

void nx_bye_encode(nx_writer *w, const char *text)
{
    nx_write_u8(w, NX_JOIN_BYE);
    write_reason(w, text);
}

nexar_err nx_bye_decode(nx_reader *r, nx_bye *f)
{
    nx_bye g = {0};

    nx_read_sentence(r, g.text, sizeof(g.text));
    if (!nx_reader_done(r)) {
        return malformed("BYE");
    }
    *f = g;
    return NEXAR_OK;
}

/* ---- after the world has formed ------------------------------------------------------ */

void nx_return_encode(nx_writer *w, const nx_return *f)
{
    nx_write_u8(w, NX_JOIN_RETURN);
    nx_write_u16(w, f->protocol);
    nx_write_u64(w, f->epoch);
    nx_member_encode(w, &f->self);
    write_hinted(w, f->hinted);
}

nexar_err nx_return_decode(nx_reader *r, nx_return *f)
{
    nx_return g = {.protocol = nx_read_u16(r)};

    if (!r->failed && (g.protocol != NX_JOIN_PROTOCOL)) {
        f->protocol = g.protocol;
        return NEXAR_OK;
    }
    g.epoch = nx_read_u64(r);
    nx_member_decode(r, &g.self);
    g.hinted = read_hinted(r);
    if (!nx_reader_done(r) || (g.self.id == 0)) {
        return malformed("RETURN");
    }
    *f = g;
    return NEXAR_OK;
}

void nx_back_encode(nx_writer *w, const nx_world_status *standing)
{
    nx_write_u8(w, NX_JOIN_BACK);
    write_status(w, standing);
}

nexar_err nx_back_decode(nx_reader *r, nx_world_status *standing)
{
    nx_world_status s;

    read_status(r, &s);
    if (!nx_reader_done(r)) {
        return malformed("BACK");
    }
    *standing = s;
    return NEXAR_OK;
}

static void write_ids(nx_writer *w, const uint64_t *ids, uint32_t n)
{
    nx_write_u16(w, (uint16_t)n);
    for (uint32_t i = 0; i < n; i++) {
        nx_write_u64(w, ids[i]);
    }
}

static uint32_t read_ids(nx_reader *r, uint64_t ids[NX_JOIN_QUEUE_LIST_MAX])
{
    const uint32_t n = nx_read_u16(r);

    if (n > NX_JOIN_QUEUE_LIST_MAX) {
        r->failed = true;
    }
    for (uint32_t i = 0; !r->failed && (i < n); i++) {
        ids[i] = nx_read_u64(r);
    }
    return n;
}

uint32_t nx_tell_encode(nx_writer *w, bool reset, const uint64_t *gone, uint32_t ngone,
                        const nx_join_queue *waiting)
{
    nx_write_u8(w, NX_JOIN_TELL);
    nx_write_u8(w, reset ? 1 : 0);
    write_ids(w, gone, ngone);
    return nx_join_queue_encode(waiting, w, UINT32_MAX);
}

nexar_err nx_tell_decode(nx_reader *r, nx_tell *f)
{
    const uint8_t reset = nx_read_u8(r);
    nexar_err err;

    f->reset = (reset == 1);
    f->ngone = read_ids(r, f->gone);
    if (r->failed || (reset > 1) || (nx_reader_left(r) == 0)) {
        return malformed("WAITING");
    }
    err = nx_join_queue_decode(r, &f->joined, &f->njoined);
    if (err != NEXAR_OK) {
        return err;
    }
    if (!nx_reader_done(r)) {
        nx_free(f->joined);
        return malformed("WAITING");
    }
    return NEXAR_OK;
}

void nx_advance_encode(nx_writer *w, const nx_view *next, const nx_rankset *gone,
                       const nx_member *joined, uint32_t n)
{
    nx_write_u8(w, NX_JOIN_ADVANCE);
    nx_write_u64(w, next->epoch);
    nx_write_u32(w, next->world);
    nx_write_u16(w, (uint16_t)n);
    for (uint32_t i = 0; i < n; i++) {
        nx_write_u64(w, joined[i].id);
    }
    nx_rankset_encode(w, gone);
}

nexar_err nx_advance_epoch(nx_reader *r, uint64_t *epoch)
{
    const uint64_t e = nx_read_u64(r);

    if (r->failed || (e == 0)) {
        return malformed("ADVANCE");
    }
    *epoch = e;
    return NEXAR_OK;
}

nexar_err nx_advance_decode(nx_reader *r, nx_advance *f)
{
    f->world = nx_read_u32(r);
    f->njoined = read_ids(r, f->joined);
    nx_rankset_decode(r, &f->gone);
    return nx_reader_done(r) ? NEXAR_OK : malformed("ADVANCE");
}

void nx_ask_view_encode(nx_writer *w)
{
    nx_write_u8(w, NX_JOIN_ASK);
}

nexar_err nx_ask_view_decode(const nx_reader *r)
{
    return nx_reader_done(r) ? NEXAR_OK : malformed("ASK");
}
