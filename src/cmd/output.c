/* output.c - the lines of ranks. */
#include "cmd/output.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/alloc.h"

nexar_err nx_output_init(nx_output *o, int from, int to, uint32_t rank, int digits, bool colour)
{
    /* Those of the basic colours that can be read on black and on white. */
    static const int colours[] = {36, 35, 32, 33, 34, 31, 96, 95};

    *o = (nx_output){.from = from, .to = to, .line = nx_zalloc(NX_LINE_MAX)};
    if (o->line == NULL) {
        o->from = -1;
        return nx_fail_nomem("the output of a rank");
    }
    if (colour) {
        (void)snprintf(o->prefix, sizeof(o->prefix), "\033[%dm[%*u]\033[0m ", colours[rank % 8],
                       digits, rank);
    } else {
        (void)snprintf(o->prefix, sizeof(o->prefix), "[%*u] ", digits, rank);
    }
    return NEXAR_OK;
}

static void write_all(nx_output *o, struct iovec *iov, int n)
{
    while (!o->broken && (n > 0)) {
        ssize_t wrote = writev(o->to, iov, n);

        if (wrote < 0) {
            o->broken = (errno != EINTR);
            continue;
        }
        for (; (n > 0) && ((size_t)wrote >= iov->iov_len); iov++, n--) {
            wrote -= (ssize_t)iov->iov_len;
        }
        if (n > 0) {
            iov->iov_base = (char *)iov->iov_base + wrote;
            iov->iov_len -= (size_t)wrote;
        }
    }
}

/* One line of |len| bytes, with its end or without. */
static void write_line(nx_output *o, char *line, size_t len)
{
    char end[] = "\n";
    const bool whole = (len > 0) && (line[len - 1] == '\n');
    struct iovec iov[] = {
        {.iov_base = o->prefix, .iov_len = strlen(o->prefix)},
        {.iov_base = line, .iov_len = len},
        {.iov_base = end, .iov_len = whole ? 0 : 1},
    };

    write_all(o, iov, 3);
}

/* Writes the whole lines and moves the rest to the front. */
static void flush_lines(nx_output *o)
{
    char *at = o->line, *end = o->line + o->len, *nl;

    while ((nl = memchr(at, '\n', (size_t)(end - at))) != NULL) {
        write_line(o, at, (size_t)(nl + 1 - at));
        at = nl + 1;
    }
    o->len = (size_t)(end - at);
    if ((o->len == NX_LINE_MAX) && (at == o->line)) {
        write_line(o, o->line, o->len);
        o->len = 0;
    }
    memmove(o->line, at, o->len);
}

bool nx_output_pump(nx_output *o)
{
    ssize_t got = read(o->from, o->line + o->len, NX_LINE_MAX - o->len);

    if ((got < 0) && ((errno == EINTR) || (errno == EAGAIN))) {
        return true;
    }
    if (got > 0) {
        o->len += (size_t)got;
        flush_lines(o);
        return true;
    }
    if (o->len != 0) {
        write_line(o, o->line, o->len);
        o->len = 0;
    }
    (void)close(o->from);
    o->from = -1;
    return false;
}

void nx_output_fini(nx_output *o)
{
    if (o->from >= 0) {
        (void)close(o->from);
        o->from = -1;
    }
    nx_free(o->line);
    o->line = NULL;
}
