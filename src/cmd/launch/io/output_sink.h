/*
 * output_sink.h - lines for a descriptor that may be slow.
 *
 * Queues lines, so that the caller never blocks, and writes them in order. A descriptor that fails
 * breaks the sink permanently, and lines are dropped from then on.
 */
#ifndef NX_OUTPUT_SINK_H
#define NX_OUTPUT_SINK_H

#include <stdbool.h>
#include <stddef.h>

typedef struct nx_output_sink {
    int to;     /* borrowed */
    int broken; /* errno of the failed write; 0: the sink works */
    char *data; /* from |at| on |len| bytes wait */
    size_t at, len, room;
} nx_output_sink;

void nx_output_sink_init(nx_output_sink *s, int to);
void nx_output_sink_fini(nx_output_sink *s);

/* Adds |prefix|, the |len| bytes of |line|, and a line end if there is none. */
void nx_output_sink_line(nx_output_sink *s, const char *prefix, const char *line, size_t len);

/* Adds the |len| bytes of |bytes| unchanged. */
void nx_output_sink_bytes(nx_output_sink *s, const char *bytes, size_t len);

/* Whether lines wait to be written; and whether the caller should add no more for now. */
bool nx_output_sink_waits(const nx_output_sink *s);
bool nx_output_sink_full(const nx_output_sink *s);

/* Call it when poll reports |to| as writable: it does not block then. */
void nx_output_sink_flush(nx_output_sink *s);

/* Breaks the sink: |why| is an errno. */
void nx_output_sink_break(nx_output_sink *s, int why);

#endif /* NX_OUTPUT_SINK_H */
