/*
 * output.h - the output of a rank, line by line, each prefixed with its rank.
 *
 * A line that arrives in pieces is passed on when it is complete. A line without an end is passed
 * on when it exceeds NX_LINE_MAX or its rank has closed the pipe or pty. So lines of different
 * ranks never mix.
 */
#ifndef NX_OUTPUT_H
#define NX_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "output_sink.h"

enum { NX_LINE_MAX = 1 << 20, NX_PREFIX_ROOM = 320 };

typedef struct nx_output {
    int from; /* owned; -1: closed */
    nx_output_sink *to;
    char prefix[NX_PREFIX_ROOM];
    bool plain; /* pushed bytes are passed on unchanged */
    char *line;
    size_t len, room;
} nx_output;

void nx_output_init(nx_output *o, int from, nx_output_sink *to, const char *prefix);
void nx_output_fini(nx_output *o);

/* "[ 7] ", |digits| wide, with the colour of the rank if |colour|; "[node1: 7] " with |host|. */
void nx_output_prefix(char prefix[NX_PREFIX_ROOM], const char *host, uint32_t rank, int digits,
                      bool colour);

/* Reads the available bytes and passes on complete lines. False: |from| has ended and is closed. */
bool nx_output_pump(nx_output *o);

/* Reads all bytes written before the call and passes on complete lines, even if the sink is
 * full. |from| must not block. */
void nx_output_drain(nx_output *o);

/* For output that does not come from |from|. Passes on the |len| bytes of |bytes| line by line,
 * or unchanged if |plain|. At the end it also passes on a line without an end. */
void nx_output_push(nx_output *o, const char *bytes, size_t len);
void nx_output_end(nx_output *o);

#endif /* NX_OUTPUT_H */
