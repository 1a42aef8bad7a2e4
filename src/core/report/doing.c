/* doing.c - encodes the question what a rank is doing, and its answer; formats the answer. */
#include "core/report/doing.h"

#include <inttypes.h>
#include <stdio.h>

#include "msg/control.h"
#include "wire/wire.h"

enum { FLAG_WAITS = 1, FLAG_CLOSING = 2, FLAGS = 3 };

/* ---- encoding ------------------------------------------------------------------------ */

size_t nx_ask_encode(const nx_ask *ask, uint8_t *buf)
{
    nx_writer w = nx_writer_make(buf, NX_ASK_SIZE);

    nx_write_u8(&w, NX_CONTROL_ASK);
    nx_write_u32(&w, ask->question);
    nx_write_u32(&w, ask->comm);
    nx_write_u32(&w, ask->number);
    return w.len;
}

bool nx_ask_decode(const void *data, size_t len, nx_ask *out)
{
    nx_reader r = nx_reader_make(data, len);
    const uint8_t type = nx_read_u8(&r);

    out->question = nx_read_u32(&r);
    out->comm = nx_read_u32(&r);
    out->number = nx_read_u32(&r);
    return (type == NX_CONTROL_ASK) && nx_reader_done(&r);
}

static void write_op(nx_writer *w, const nx_doing_op *op)
{
    nx_write_text(w, op->text);
    nx_write_u32(w, op->comm);
    nx_write_u32(w, op->number);
    nx_write_varint(w, op->age_ns);
}

static void read_op(nx_reader *r, nx_doing_op *op)
{
    nx_read_text(r, op->text, sizeof(op->text));
    op->comm = nx_read_u32(r);
    op->number = nx_read_u32(r);
    op->age_ns = nx_read_varint(r);
}

size_t nx_doing_encode(const nx_doing *d, uint8_t *buf)
{
    nx_writer w = nx_writer_make(buf, NX_DOING_ROOM);

    nx_write_u8(&w, NX_CONTROL_TELL);
    nx_write_u32(&w, d->question);
    nx_write_u8(&w, (uint8_t)((d->waits ? FLAG_WAITS : 0) | (d->closing ? FLAG_CLOSING : 0)));
    write_op(&w, &d->now);
    write_op(&w, &d->last);
    nx_write_varint(&w, d->nfor);
    nx_write_u8(&w, (uint8_t)d->listed);
    for (uint32_t i = 0; i < d->listed; i++) {
        nx_write_u32(&w, d->who[i]);
    }
    nx_write_sentence(&w, d->here, NX_DOING_HERE); /* the name of a device, as the user knows it */
    return w.len;
}

bool nx_doing_decode(const void *data, size_t len, nx_doing *out)
{
    nx_reader r = nx_reader_make(data, len);
    const uint8_t type = nx_read_u8(&r);
    uint64_t nfor;
    uint8_t flags;

    out->question = nx_read_u32(&r);
    flags = nx_read_u8(&r);
    out->waits = (flags & FLAG_WAITS) != 0;
    out->closing = (flags & FLAG_CLOSING) != 0;
    read_op(&r, &out->now);
    read_op(&r, &out->last);
    nfor = nx_read_varint(&r);
    out->nfor = (uint32_t)nfor;
    out->listed = nx_read_u8(&r);
    if ((type != NX_CONTROL_TELL) || r.failed || (flags > FLAGS) || (nfor > UINT32_MAX) ||
        (out->listed > NX_DOING_LISTED) || (out->listed > nfor)) {
        return false;
    }
    for (uint32_t i = 0; i < out->listed; i++) {
        out->who[i] = nx_read_u32(&r);
    }
    nx_read_sentence(&r, out->here, sizeof(out->here));
    return nx_reader_done(&r);
}

/* ---- text ---------------------------------------------------------------------------- */

static size_t fit(int wanted, size_t at, size_t room)
{
    return (wanted < 0) ? at : ((size_t)wanted < room - at) ? at + (size_t)wanted : room - 1;
}

const char *nx_ranks_text(const uint32_t *ranks, uint32_t listed, uint32_t n, char *buf)
{
    size_t at = 0;

    buf[0] = '\0';
    for (uint32_t i = 0; i < listed; i++) {
        const char *between = (i == 0) ? "" : ((i + 1 == n) ? " and " : ", ");

        at = fit(snprintf(buf + at, NX_RANKS_TEXT - at, "%srank %" PRIu32, between, ranks[i]), at,
                 NX_RANKS_TEXT);
    }
    if (n > listed) {
        (void)snprintf(buf + at, NX_RANKS_TEXT - at, "%s%" PRIu32 "%s",
                       (listed == 0) ? "" : " and ", n - listed,
                       (listed == 0) ? " ranks" : " more");
    }
    return buf;
}

const char *nx_waits_text(const char *before, const uint32_t *ranks, uint32_t n, const char *here,
                          char *buf)
{
    const uint32_t listed = (n < NX_DOING_LISTED) ? n : NX_DOING_LISTED;
    char whom[NX_RANKS_TEXT] = "";
    const bool both = (n != 0) && (here[0] != '\0');

    if (n != 0) {
        (void)nx_ranks_text(ranks, listed, n, whom);
    }
    (void)snprintf(buf, NX_WAITS_TEXT, "%s%s%s%s", ((n == 0) && (here[0] == '\0')) ? "" : before,
                   whom, both ? ", and for " : "", here);
    return buf;
}

static double seconds(uint64_t ns)
{
    return (double)ns / 1e9;
}

const char *nx_doing_text(const nx_doing *d, char *buf)
{
    char waits[NX_WAITS_TEXT], last[NX_WHAT_TEXT + 48] = "has finished no operation yet";
    const char *where = d->closing ? "is in finalize" : "is in user code";

    if (d->now.text[0] != '\0') {
        (void)snprintf(buf, NX_DOING_TEXT, "is in %s for %.1f s%s%s", d->now.text,
                       seconds(d->now.age_ns),
                       nx_waits_text(", waiting for ", d->who, d->nfor, d->here, waits),
                       (d->waits || d->closing) ? "" : ", and in user code");
        return buf;
    }
    if (d->last.text[0] != '\0') {
        (void)snprintf(last, sizeof(last), "last finished %s %.1f s ago", d->last.text,
                       seconds(d->last.age_ns));
    }
    (void)snprintf(buf, NX_DOING_TEXT, "%s and %s", last, where);
    return buf;
}
