/* frames.c - the frames between joiner and seed, encoded and decoded. */
#include "cluster/frames.h"

#include <stdio.h>
#include <string.h>

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

/* A sentence, cut to what the reader takes, without what it would refuse: parts
 * of it may come from a library or another host. */
static void write_reason(nx_writer *w, const char *text)
{
    char clean[NX_REASON_MAX];

    (void)snprintf(clean, sizeof(clean), "%s", text);
    for (char *at = clean; *at != '\0'; at++) {
        if ((*at < 0x20) || (*at > 0x7e)) {
            *at = '?';
        }
    }
    nx_write_text(w, clean);
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
    if (!nx_reader_done(r) || (h.self.id != 0)) {
        return malformed("HELLO");
    }
    *hello = h;
    return NEXAR_OK;
}

void nx_welcome_encode(nx_writer *w, const nx_welcome *f)
{
    nx_write_u8(w, NX_JOIN_WELCOME);
    nx_write_u64(w, f->member);
    nx_write_bytes(w, f->job.bytes, sizeof(f->job.bytes));
    nx_write_u32(w, f->world_size);
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

    g.world_size = nx_read_u32(r);
    read_der(r, &g.cert);
    read_der(r, &g.authority);
    if (!nx_reader_done(r) || (g.member == 0) || (g.world_size == 0) ||
        (g.world_size > NX_WORLD_MAX)) {
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

    nx_read_text(r, g.text, sizeof(g.text));
    if (!nx_reader_done(r)) {
        return malformed("REFUSED");
    }
    *f = g;
    return NEXAR_OK;
}

void nx_progress_encode(nx_writer *w, uint32_t joined, uint32_t world, const char *text)
{
    nx_write_u8(w, NX_JOIN_PROGRESS);
    nx_write_u32(w, joined);
    nx_write_u32(w, world);
    write_reason(w, text);
}

nexar_err nx_progress_decode(nx_reader *r, nx_progress *f)
{
    nx_progress g = {.joined = nx_read_u32(r)};

    g.world = nx_read_u32(r);
    nx_read_text(r, g.text, sizeof(g.text));
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

nexar_err nx_epoch_decode(nx_reader *r, uint64_t *epoch)
{
    const uint64_t e = nx_read_u64(r);

    if (!nx_reader_done(r)) {
        return malformed("HAVE or START");
    }
    *epoch = e;
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

    nx_read_text(r, g.text, sizeof(g.text));
    if (!nx_reader_done(r)) {
        return malformed("BYE");
    }
    *f = g;
    return NEXAR_OK;
}
