/* agent_frame.c - frames between the launcher and an agent, and their payloads. */
#include "agent_frame.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/containers/vec.h"
#include "base/os/sys.h"
#include "base/text/text.h"
#include "wire/wire.h"

enum { HEAD = 5, TAIL = 1, FILL = 65536 };

/* ---- writing ------------------------------------------------------------------------- */

/* |frame| has HEAD bytes of room, the payload, and TAIL bytes of room. */
static void put_frame(nx_output_sink *to, nx_agent_kind kind, uint8_t *frame, size_t len)
{
    nx_writer w = nx_writer_make(frame, HEAD);

    nx_write_u8(&w, (uint8_t)kind);
    nx_write_u32(&w, (uint32_t)len);
    frame[HEAD + len] = '\n';
    nx_output_sink_line(to, "", (const char *)frame, HEAD + len + TAIL);
}

void nx_agent_put(nx_output_sink *to, nx_agent_kind kind, const void *payload, size_t len)
{
    uint8_t *frame = (len <= NX_AGENT_PAYLOAD_MAX) ? nx_zalloc(HEAD + len + TAIL) : NULL;

    if (frame == NULL) {
        nx_output_sink_break(to, (len <= NX_AGENT_PAYLOAD_MAX) ? ENOMEM : E2BIG);
        return;
    }
    if (len > 0) {
        memcpy(frame + HEAD, payload, len);
    }
    put_frame(to, kind, frame, len);
    nx_free(frame);
}

void nx_agent_put_numbers(nx_output_sink *to, nx_agent_kind kind, uint32_t a, uint32_t b)
{
    uint8_t payload[8];
    nx_writer w = nx_writer_make(payload, sizeof(payload));

    nx_write_u32(&w, a);
    nx_write_u32(&w, b);
    nx_agent_put(to, kind, payload, w.len);
}

void nx_agent_put_output(nx_output_sink *to, uint32_t rank, uint8_t stream, uint8_t *payload,
                         size_t len)
{
    nx_writer w = nx_writer_make(payload, NX_AGENT_OUTPUT_HEAD);

    nx_write_u32(&w, rank);
    nx_write_u8(&w, stream);
    nx_agent_put(to, NX_AGENT_OUTPUT, payload, NX_AGENT_OUTPUT_HEAD + len);
}

/* Texts are sent with their 0, so that the receiver can use them in place. */
static void write_string(nx_writer *w, const char *text)
{
    nx_write_blob(w, text, strlen(text) + 1);
}

static size_t string_size(const char *text)
{
    return 8 + strlen(text) + 1;
}

static size_t list_size(const char **list)
{
    size_t size = 8;

    for (; *list != NULL; list++) {
        size += string_size(*list);
    }
    return size;
}

static void write_list(nx_writer *w, const char **list)
{
    size_t n = 0;

    while (list[n] != NULL) {
        n++;
    }
    nx_write_varint(w, n);
    for (size_t i = 0; i < n; i++) {
        write_string(w, list[i]);
    }
}

/* Sends the content of |w|. */
static void put_written(nx_output_sink *to, nx_agent_kind kind, const nx_writer *w)
{
    if ((w->data == NULL) || w->failed) {
        nx_output_sink_break(to, ENOMEM);
    } else {
        nx_agent_put(to, kind, w->data, w->len);
    }
}

void nx_agent_put_setup(nx_output_sink *to, const nx_agent_setup *setup)
{
    const size_t room =
        4 + string_size(setup->directory) + list_size(setup->argv) + list_size(setup->env);
    nx_writer w = nx_writer_make(nx_zalloc(room), room);

    if (w.data != NULL) {
        nx_write_u32(&w, setup->timeout_ms);
        write_string(&w, setup->directory);
        write_list(&w, setup->argv);
        write_list(&w, setup->env);
    }
    put_written(to, NX_AGENT_SETUP, &w);
    nx_free(w.data);
}

void nx_agent_put_start(nx_output_sink *to, const nx_agent_start *start)
{
    const uint32_t numbers[] = {start->size, start->first, start->ranks,   start->output,
                                start->bind, start->joins, start->columns, start->rows};
    const size_t room = string_size(start->join) + sizeof(numbers);
    nx_writer w = nx_writer_make(nx_zalloc(room), room);

    if (w.data != NULL) {
        write_string(&w, start->join);
        for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
            nx_write_u32(&w, numbers[i]);
        }
    }
    put_written(to, NX_AGENT_START, &w);
    nx_free(w.data);
}

/* ---- reading ------------------------------------------------------------------------- */

void nx_agent_input_fini(nx_agent_input *in)
{
    nx_free(in->data);
    *in = (nx_agent_input){0};
}

static void take(nx_agent_input *in, size_t len)
{
    in->at += len;
    in->len -= len;
}

long nx_agent_input_fill(nx_agent_input *in, int fd)
{
    uint8_t *grown;
    ssize_t got;

    if (in->at > 0) {
        memmove(in->data, in->data + in->at, in->len);
        in->at = 0;
    }
    grown = nx_vec_grow(in->data, &in->room, in->len + FILL, 1);
    if (grown == NULL) {
        return -1;
    }
    in->data = grown;
    got = nx_sys_read(fd, in->data + in->len, FILL);
    if (got > 0) {
        in->len += (size_t)got;
        return (long)got;
    }
    return ((got < 0) && (errno == EAGAIN)) ? 0 : -1;
}

bool nx_agent_input_line(nx_agent_input *in, char *line, size_t size)
{
    const uint8_t *end = (in->len > 0) ? memchr(in->data + in->at, '\n', in->len) : NULL;
    size_t len, kept;

    if (end == NULL) {
        return false;
    }
    len = (size_t)(end - (in->data + in->at));
    kept = (len < size) ? len : size - 1;
    memcpy(line, in->data + in->at, kept);
    line[kept] = '\0';
    take(in, len + 1);
    return true;
}

int nx_agent_input_next(nx_agent_input *in, nx_agent_frame *frame)
{
    nx_reader r;
    uint32_t len;

    if (in->len < HEAD) {
        return 0;
    }
    r = nx_reader_make(in->data + in->at, HEAD);
    frame->kind = nx_read_u8(&r);
    len = nx_read_u32(&r);
    if (len > NX_AGENT_PAYLOAD_MAX) {
        return -1;
    }
    if (in->len < (size_t)HEAD + len + TAIL) {
        return 0;
    }
    if (in->data[in->at + HEAD + len] != '\n') {
        return -1;
    }
    frame->data = in->data + in->at + HEAD;
    frame->len = len;
    take(in, (size_t)HEAD + len + TAIL);
    return 1;
}

bool nx_agent_numbers(const nx_agent_frame *frame, uint32_t *a, uint32_t *b)
{
    nx_reader r = nx_reader_make(frame->data, frame->len);

    *a = nx_read_u32(&r);
    *b = nx_read_u32(&r);
    return nx_reader_done(&r);
}

bool nx_agent_output(const nx_agent_frame *frame, uint32_t *rank, uint8_t *stream,
                     const char **bytes, size_t *len)
{
    nx_reader r = nx_reader_make(frame->data, frame->len);

    *rank = nx_read_u32(&r);
    *stream = nx_read_u8(&r);
    *bytes = (const char *)r.at;
    *len = nx_reader_left(&r);
    return !r.failed;
}

bool nx_agent_sentence(const nx_agent_frame *frame, char *text, size_t size)
{
    const size_t len = (frame->len < size) ? frame->len : size - 1;

    memcpy(text, frame->data, len);
    text[len] = '\0';
    nx_clean_text(text, strlen(text));
    return frame->len > 0;
}

/* A text whose only 0 is at its end; otherwise NULL and a failed reader. */
static const char *read_string(nx_reader *r)
{
    size_t len = 0;
    const uint8_t *at = nx_read_blob(r, NX_AGENT_PAYLOAD_MAX, &len);

    if ((at == NULL) || (len == 0) || (memchr(at, '\0', len) != at + len - 1)) {
        r->failed = true;
        return NULL;
    }
    return (const char *)at;
}

bool nx_agent_read_start(const nx_agent_frame *frame, nx_agent_start *start)
{
    nx_reader r = nx_reader_make(frame->data, frame->len);

    start->join = read_string(&r);
    start->size = nx_read_u32(&r);
    start->first = nx_read_u32(&r);
    start->ranks = nx_read_u32(&r);
    start->output = nx_read_u32(&r);
    start->bind = nx_read_u32(&r);
    start->joins = nx_read_u32(&r);
    start->columns = nx_read_u32(&r);
    start->rows = nx_read_u32(&r);
    return nx_reader_done(&r) && (start->size > 0) && (start->ranks > 0) &&
           (start->first < start->size) && (start->ranks <= start->size - start->first);
}

/* The texts as an array that ends with NULL; NULL: malformed (|r| has failed), or no memory. */
static const char **read_list(nx_reader *r)
{
    const uint64_t n = nx_read_varint(r);
    const char **list;

    /* Each text takes at least two bytes. */
    if (r->failed || (n > nx_reader_left(r) / 2)) {
        r->failed = true;
        return NULL;
    }
    list = nx_calloc(n + 1, sizeof(*list));
    for (uint64_t i = 0; (list != NULL) && (i < n); i++) {
        list[i] = read_string(r);
    }
    return list;
}

nexar_err nx_agent_read_setup(const nx_agent_frame *frame, nx_agent_setup *setup)
{
    nx_reader r = nx_reader_make(frame->data, frame->len);
    const uint32_t timeout_ms = nx_read_u32(&r);
    const char *directory = read_string(&r);
    const char **argv = read_list(&r);
    const char **env = read_list(&r);
    const bool good = nx_reader_done(&r) && (argv != NULL) && (argv[0] != NULL) && (env != NULL);

    if (good) {
        *setup = (nx_agent_setup){timeout_ms, directory, argv, env};
        return NEXAR_OK;
    }
    nx_free(argv);
    nx_free(env);
    return r.failed || (argv != NULL) ? nx_fail(NEXAR_EINVAL, "the launcher sent a malformed SETUP")
                                      : nx_fail_nomem("the arguments");
}
