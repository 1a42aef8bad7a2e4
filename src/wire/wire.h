/*
 * wire.h - bounded reading and writing of bytes for the network.
 *
 * Integers are big-endian; varints are those of QUIC (RFC 9000, 16: the two high bits of the
 * first byte give the length 1, 2, 4 or 8; up to 2^62 - 1; decoders accept longer than needed
 * forms). Nothing is ever cast to a struct. Errors stick: after the first one a reader returns
 * zeros and empty spans, and a writer writes nothing. One check at the end suffices.
 */
#ifndef NX_WIRE_H
#define NX_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct nx_reader {
    const uint8_t *at, *end;
    bool failed;
} nx_reader;

static inline nx_reader nx_reader_make(const void *data, size_t len)
{
    const uint8_t *p = data;

    return (nx_reader){.at = p, .end = (p == NULL) ? NULL : p + len};
}
static inline size_t nx_reader_left(const nx_reader *r)
{
    return (size_t)(r->end - r->at);
}
/* Whether all bytes were read without an error. */
static inline bool nx_reader_done(const nx_reader *r)
{
    return !r->failed && (r->at == r->end);
}

uint8_t nx_read_u8(nx_reader *r);
uint16_t nx_read_u16(nx_reader *r);
uint32_t nx_read_u32(nx_reader *r);
uint64_t nx_read_u64(nx_reader *r);
uint64_t nx_read_varint(nx_reader *r);
/* |len| bytes, borrowed from the input; NULL if fewer remain. */
const uint8_t *nx_read_bytes(nx_reader *r, size_t len);
/* A varint length, at most |most|, and that number of bytes. */
const uint8_t *nx_read_blob(nx_reader *r, size_t most, size_t *len);
/* A blob as text: copied to |out| with its 0. Fails if the text does not fit or contains a byte
 * outside 0x20 .. 0x7e. */
void nx_read_text(nx_reader *r, char *out, size_t room);
/* The same for a message, parts of which may come from a library or a user on the peer. Bytes
 * that must not be in a log line become '?' (nx_clean_text). Fails if the message does not fit. */
void nx_read_sentence(nx_reader *r, char *out, size_t room);

typedef struct nx_writer {
    uint8_t *data;
    size_t len, room;
    bool failed;
} nx_writer;

static inline nx_writer nx_writer_make(void *data, size_t room)
{
    return (nx_writer){.data = data, .room = room};
}
void nx_write_u8(nx_writer *w, uint8_t v);
void nx_write_u16(nx_writer *w, uint16_t v);
void nx_write_u32(nx_writer *w, uint32_t v);
void nx_write_u64(nx_writer *w, uint64_t v);
void nx_write_varint(nx_writer *w, uint64_t v);
void nx_write_bytes(nx_writer *w, const void *data, size_t len);
void nx_write_blob(nx_writer *w, const void *data, size_t len);
void nx_write_text(nx_writer *w, const char *text);
/* For nx_read_sentence with |room|: the message is cut to fit there and cleaned before it is
 * written (sentence.h). */
void nx_write_sentence(nx_writer *w, const char *text, size_t room);

/* Bytes that nx_write_varint takes for |v|. */
size_t nx_varint_size(uint64_t v);

#endif /* NX_WIRE_H */
