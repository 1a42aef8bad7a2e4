/* output_sink.c - writes complete lines, at most the atomic length of a pipe at a time. */
#include "output_sink.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/containers/vec.h"
#include "base/os/sys.h"

enum { FULL = 1 << 20 };

void nx_output_sink_init(nx_output_sink *s, int to)
{
    *s = (nx_output_sink){.to = to};
}

void nx_output_sink_fini(nx_output_sink *s)
{
    nx_free(s->data);
    s->data = NULL;
}

void nx_output_sink_break(nx_output_sink *s, int why)
{
    if (s->broken == 0) {
        s->broken = why;
    }
    s->len = 0;
}

bool nx_output_sink_waits(const nx_output_sink *s)
{
    return s->len != 0;
}

bool nx_output_sink_full(const nx_output_sink *s)
{
    return s->len >= FULL;
}

static void put(nx_output_sink *s, const char *bytes, size_t len)
{
    memcpy(s->data + s->at + s->len, bytes, len);
    s->len += len;
}

/* Reserves room for |len| more bytes. False: the sink is broken. */
static bool reserve(nx_output_sink *s, size_t len)
{
    char *grown;

    if (s->broken != 0) {
        return false;
    }
    if (s->at > s->len) { /* rare enough that moving costs less than appending */
        memmove(s->data, s->data + s->at, s->len);
        s->at = 0;
    }
    grown = nx_vec_grow(s->data, &s->room, s->at + s->len + len, 1);
    if (grown == NULL) {
        nx_output_sink_break(s, ENOMEM);
        return false;
    }
    s->data = grown;
    return true;
}

void nx_output_sink_line(nx_output_sink *s, const char *prefix, const char *line, size_t len)
{
    const bool whole = (len > 0) && (line[len - 1] == '\n');

    if (reserve(s, strlen(prefix) + len + 1)) {
        put(s, prefix, strlen(prefix));
        put(s, line, len);
        put(s, "\n", whole ? 0 : 1);
    }
}

void nx_output_sink_bytes(nx_output_sink *s, const char *bytes, size_t len)
{
    if (reserve(s, len)) {
        put(s, bytes, len);
    }
}

/* The number of bytes of complete lines that fit in one write; of a longer line, a part. */
static size_t next_piece(const nx_output_sink *s)
{
    const char *from = s->data + s->at, *end;

    if (s->len <= PIPE_BUF) {
        return s->len;
    }
    end = memrchr(from, '\n', PIPE_BUF);
    return (end == NULL) ? PIPE_BUF : (size_t)(end + 1 - from);
}

void nx_output_sink_flush(nx_output_sink *s)
{
    ssize_t wrote;

    if (s->len == 0) {
        return;
    }
    /* A pipe that poll reports as writable accepts PIPE_BUF bytes without blocking. */
    wrote = nx_sys_write(s->to, s->data + s->at, next_piece(s));
    if (wrote > 0) {
        s->len -= (size_t)wrote;
        s->at = (s->len == 0) ? 0 : s->at + (size_t)wrote;
    } else if ((wrote < 0) && (errno != EAGAIN)) {
        nx_output_sink_break(s, errno);
    }
}
