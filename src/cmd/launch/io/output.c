/* output.c - the lines of ranks. */
#include "output.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/containers/vec.h"
#include "base/os/sys.h"

enum { READ_SIZE = 16384 };
/* More than a pipe or a pty holds: later bytes were written after the call. */
enum { DRAIN_MAX = 1 << 21 };

void nx_output_prefix(char prefix[NX_PREFIX_ROOM], const char *host, uint32_t rank, int digits,
                      bool colour)
{
    /* The basic colours that are readable on black and on white. */
    static const int colours[] = {36, 35, 32, 33, 34, 31, 96, 95};
    const char *behind = (host[0] == '\0') ? "" : ":";

    if (colour) {
        (void)snprintf(prefix, NX_PREFIX_ROOM, "\033[%dm[%s%s%*u]\033[0m ", colours[rank % 8], host,
                       behind, digits, rank);
    } else {
        (void)snprintf(prefix, NX_PREFIX_ROOM, "[%s%s%*u] ", host, behind, digits, rank);
    }
}

void nx_output_init(nx_output *o, int from, nx_output_sink *to, const char *prefix)
{
    *o = (nx_output){.from = from, .to = to};
    (void)snprintf(o->prefix, sizeof(o->prefix), "%s", prefix);
}

static void close_from(nx_output *o)
{
    if (o->from >= 0) {
        (void)nx_sys_close(o->from);
        o->from = -1;
    }
}

void nx_output_fini(nx_output *o)
{
    close_from(o);
    nx_free(o->line);
    o->line = NULL;
}

/* Passes on the remaining bytes, which have no line end. */
static void pass_rest(nx_output *o)
{
    if (o->len != 0) {
        nx_output_sink_line(o->to, o->prefix, o->line, o->len);
        o->len = 0;
    }
}

/* Passes on complete lines and moves the rest to the front. Only the new bytes, from |seen| on,
 * can contain a line end. */
static void pass_lines(nx_output *o, size_t seen)
{
    char *at = o->line, *end = o->line + o->len, *nl = o->line + seen;

    while ((nl = memchr(nl, '\n', (size_t)(end - nl))) != NULL) {
        nl++;
        nx_output_sink_line(o->to, o->prefix, at, (size_t)(nl - at));
        at = nl;
    }
    o->len = (size_t)(end - at);
    memmove(o->line, at, o->len);
    if (o->len >= NX_LINE_MAX) {
        pass_rest(o);
    }
}

/* Makes room for the next read. False: out of memory. */
static bool make_room(nx_output *o)
{
    char *grown = nx_vec_grow(o->line, &o->room, o->len + READ_SIZE, 1);

    if (grown != NULL) {
        o->line = grown;
    } else {
        pass_rest(o); /* no memory for a longer line */
    }
    return o->room != 0;
}

/* Reads once: the number of bytes, 0 if none is available, -1 if |from| has ended. */
static ssize_t take(nx_output *o)
{
    ssize_t got;

    if (!make_room(o)) {
        nx_output_sink_break(o->to, ENOMEM);
        close_from(o);
        return -1;
    }
    got = nx_sys_read(o->from, o->line + o->len, o->room - o->len);
    if ((got < 0) && (errno == EAGAIN)) {
        return 0;
    }
    if (got > 0) {
        o->len += (size_t)got;
        pass_lines(o, o->len - (size_t)got);
        return got;
    }
    pass_rest(o);
    close_from(o);
    return -1;
}

bool nx_output_pump(nx_output *o)
{
    return take(o) >= 0;
}

void nx_output_drain(nx_output *o)
{
    size_t taken = 0;
    ssize_t got = 1;

    while ((o->from >= 0) && (got > 0) && (taken < DRAIN_MAX)) {
        got = take(o);
        taken += (got > 0) ? (size_t)got : 0;
    }
}

void nx_output_push(nx_output *o, const char *bytes, size_t len)
{
    if (o->plain) {
        nx_output_sink_bytes(o->to, bytes, len);
        return;
    }
    while (len > 0) {
        size_t part;

        if (!make_room(o)) {
            nx_output_sink_break(o->to, ENOMEM);
            return;
        }
        part = (len < o->room - o->len) ? len : o->room - o->len;
        memcpy(o->line + o->len, bytes, part);
        o->len += part;
        pass_lines(o, o->len - part);
        bytes += part;
        len -= part;
    }
}

void nx_output_end(nx_output *o)
{
    pass_rest(o);
}
