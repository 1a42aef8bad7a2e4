/*
 * output.h - what a rank prints, line by line, each with its rank before it.
 *
 * A line that comes in pieces is passed on when it is whole; one without an end
 * when it is longer than NX_LINE_MAX or its rank has closed the pipe or pty.  So lines
 * of different ranks never mix.
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
    bool plain; /* bytes that are pushed go out as they come */
    char *line;
    size_t len, room;
} nx_output;

void nx_output_init(nx_output *o, int from, nx_output_sink *to, const char *prefix);
void nx_output_fini(nx_output *o);

/* "[ 7] ", |digits| wide, with the colour of the rank if |colour|; "[node1: 7] " with |host|. */
void nx_output_prefix(char prefix[NX_PREFIX_ROOM], const char *host, uint32_t rank, int digits,
                      bool colour);

/* Reads what there is and passes whole lines on.  False: |from| has ended and is
 * closed. */
bool nx_output_pump(nx_output *o);

/* Reads all that was written before the call and passes whole lines on, however full the
 * sink is.  |from| must not block. */
void nx_output_drain(nx_output *o);

/* For what comes by other ways than |from|: passes the |len| bytes of |bytes| on, line by line, or
 * as they are if |plain|; and, when no more are to come, what has no end. */
void nx_output_push(nx_output *o, const char *bytes, size_t len);
void nx_output_end(nx_output *o);

#endif /* NX_OUTPUT_H */
