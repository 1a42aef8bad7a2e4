/* envelope.c - one writer and one reader for all frames. */
#include "envelope.h"

#include "wire/wire.h"

/* ---- encoding ------------------------------------------------------------------------ */

static void write_context(nx_writer *w, const nx_frame *f)
{
    nx_write_u8(w, f->context.kind);
    nx_write_u32(w, f->context.comm);
    nx_write_u64(w, f->tag);
}

size_t nx_frame_encode_short(nx_context context, uint64_t tag, uint8_t out[NX_MSG_FRAME_ROOM])
{
    nx_writer w = nx_writer_make(out, NX_MSG_FRAME_ROOM);

    nx_write_u8(&w, NX_FRAME_INLINE);
    nx_write_u8(&w, (uint8_t)context.class);
    nx_write_u8(&w, context.kind);
    nx_write_u32(&w, context.comm);
    nx_write_u64(&w, tag);
    return w.len;
}

size_t nx_frame_encode(const nx_frame *f, uint8_t out[NX_MSG_FRAME_ROOM])
{
    nx_writer w = nx_writer_make(out, NX_MSG_FRAME_ROOM);

    nx_write_u8(&w, (uint8_t)f->type);
    switch (f->type) {
    case NX_FRAME_INLINE:
    case NX_FRAME_LONG:
    case NX_FRAME_PULLED:
        nx_write_u8(&w, (uint8_t)f->context.class);
        write_context(&w, f);
        if (f->context.class == NX_CLASS_COLL) {
            nx_write_u64(&w, f->mark.word[0]);
            nx_write_u64(&w, f->mark.word[1]);
        }
        if (f->type != NX_FRAME_INLINE) {
            nx_write_varint(&w, f->id);
            nx_write_varint(&w, f->length);
            nx_write_varint(&w, f->eager);
        }
        break;
    case NX_FRAME_RETRACT:
    case NX_FRAME_PUTBACK:
        nx_write_varint(&w, f->id);
        break;
    case NX_FRAME_FINISHED:
        nx_write_u8(&w, (uint8_t)f->context.class);
        nx_write_u8(&w, f->context.kind);
        nx_write_u32(&w, f->context.comm);
        nx_write_u8(&w, (uint8_t)f->limit);
        break;
    case NX_FRAME_HELLO:
        for (int c = 0; c < NX_CLASSES; c++) {
            nx_write_varint(&w, f->window[c]);
        }
        break;
    case NX_FRAME_CLEAR:
        nx_write_varint(&w, f->id);
        nx_write_varint(&w, f->limit);
        break;
    case NX_FRAME_CREDIT:
    case NX_FRAME_STALLED:
    case NX_FRAME_UNWANT:
    case NX_FRAME_UNASKED:
    case NX_FRAME_RECLAIM:
    case NX_FRAME_RETURN:
        nx_write_u8(&w, (uint8_t)f->context.class);
        nx_write_varint(&w, f->limit);
        break;
    case NX_FRAME_UNASK:
        nx_write_u8(&w, (uint8_t)f->context.class);
        break;
    case NX_FRAME_WANT:
        nx_write_u8(&w, (uint8_t)f->context.class);
        nx_write_u8(&w, f->any_tag ? 1 : 0);
        write_context(&w, f);
        break;
    }
    return w.len;
}

/* ---- decoding ------------------------------------------------------------------------ */

static void read_class(nx_reader *r, nx_frame *f, const char **why)
{
    uint8_t class = nx_read_u8(r);

    if (class >= NX_CLASSES) {
        *why = "the class is unknown";
        class = 0;
    }
    f->context.class = (nx_class) class;
}

static void read_context(nx_reader *r, nx_frame *f, const char **why)
{
    f->context.kind = nx_read_u8(r);
    f->context.comm = nx_read_u32(r);
    f->tag = nx_read_u64(r);
    if (f->tag == NX_ANY_TAG) {
        *why = "the wildcard tag";
    }
}

static void read_id(nx_reader *r, nx_frame *f, const char **why)
{
    f->id = nx_read_varint(r);
    if ((nx_id_number(f->id) == 0) || ((unsigned)nx_id_class(f->id) >= NX_CLASSES)) {
        *why = "an id out of range";
    }
}

static void read_long(nx_reader *r, nx_frame *f, const char **why)
{
    read_id(r, f, why);
    f->length = nx_read_varint(r);
    f->eager = nx_read_varint(r);
    if (nx_id_class(f->id) != f->context.class) {
        *why = "an id of another class";
    } else if (f->eager > f->length) {
        *why = "more eager bytes than there are";
    } else if ((f->eager < f->length) && (f->eager % NX_UNIT_MAX != 0)) {
        *why = "an eager part that ends inside a unit";
    } else if ((f->type == NX_FRAME_PULLED) && (f->eager != 0)) {
        *why = "a pulled message with eager bytes";
    }
}

static void read_envelope(nx_reader *r, nx_frame *f, const char **why)
{
    read_class(r, f, why);
    read_context(r, f, why);
    if (f->context.class == NX_CLASS_COLL) {
        f->mark.word[0] = nx_read_u64(r);
        f->mark.word[1] = nx_read_u64(r);
    }
    if (f->type == NX_FRAME_INLINE) {
        f->length = nx_reader_left(r);
        f->data = nx_read_bytes(r, nx_reader_left(r));
    } else {
        read_long(r, f, why);
    }
}

static void read_hello(nx_reader *r, nx_frame *f, const char **why)
{
    for (int c = 0; c < NX_CLASSES; c++) {
        f->window[c] = nx_read_varint(r);
        if (f->window[c] < NX_CREDIT_START) {
            *why = "a window below the initial credit";
        }
    }
}

static void read_want(nx_reader *r, nx_frame *f, const char **why)
{
    uint8_t any;

    read_class(r, f, why);
    any = nx_read_u8(r);
    read_context(r, f, why);
    f->any_tag = (any == 1);
    if ((any > 1) || ((any == 1) && (f->tag != 0))) {
        *why = "a malformed WANT";
    }
}

static void read_control(nx_reader *r, nx_frame *f, const char **why)
{
    switch ((int)f->type) {
    case NX_FRAME_HELLO:
        read_hello(r, f, why);
        break;
    case NX_FRAME_CLEAR:
        read_id(r, f, why);
        f->limit = nx_read_varint(r);
        break;
    case NX_FRAME_CREDIT:
    case NX_FRAME_STALLED:
    case NX_FRAME_UNWANT:
    case NX_FRAME_UNASKED:
    case NX_FRAME_RECLAIM:
    case NX_FRAME_RETURN:
        read_class(r, f, why);
        f->limit = nx_read_varint(r);
        break;
    case NX_FRAME_UNASK:
        read_class(r, f, why);
        break;
    case NX_FRAME_PUTBACK:
        read_id(r, f, why);
        break;
    case NX_FRAME_WANT:
        read_want(r, f, why);
        break;
    default:
        *why = "an unknown type of control frame";
        break;
    }
}

static void read_message(nx_reader *r, nx_frame *f, const char **why)
{
    switch ((int)f->type) {
    case NX_FRAME_INLINE:
    case NX_FRAME_LONG:
    case NX_FRAME_PULLED:
        read_envelope(r, f, why);
        break;
    case NX_FRAME_RETRACT:
        read_id(r, f, why);
        break;
    case NX_FRAME_FINISHED:
        read_class(r, f, why);
        f->context.kind = nx_read_u8(r);
        f->context.comm = nx_read_u32(r);
        f->limit = nx_read_u8(r);
        break;
    default:
        *why = "an unknown type of message frame";
        break;
    }
}

nexar_err nx_frame_decode(nx_lane lane, const void *data, size_t len, nx_frame *f, const char **why)
{
    nx_reader r = nx_reader_make(data, len);
    const char *wrong = NULL;

    *f = (nx_frame){.type = (nx_frame_type)nx_read_u8(&r)};
    if (lane == NX_LANE_CONTROL) {
        read_control(&r, f, &wrong);
    } else {
        read_message(&r, f, &wrong);
    }
    if (r.failed) {
        wrong = "a truncated frame";
    } else if ((wrong == NULL) && !nx_reader_done(&r)) {
        wrong = "bytes behind the end of a frame";
    }
    if (wrong != NULL) {
        *why = wrong;
        return NEXAR_EPROTO;
    }
    return NEXAR_OK;
}
