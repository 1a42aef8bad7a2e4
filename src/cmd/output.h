/*
 * output.h - what ranks print, line by line, each with its rank before it.
 *
 * A line that comes in pieces is written when it is whole; one without an end
 * when it is too long or its rank has closed the pipe.  So lines of different
 * ranks never mix.
 */
#ifndef NX_OUTPUT_H
#define NX_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { NX_LINE_MAX = 65536 };

typedef struct nx_output {
    int from, to; /* descriptors; |from| is owned, -1 when closed */
    char prefix[32];
    char *line; /* NX_LINE_MAX bytes */
    size_t len;
    bool broken; /* |to| takes no more: what comes is dropped */
} nx_output;

/* |digits|: how wide the rank is printed; |colour| by rank.  NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_output_init(nx_output *o, int from, int to, uint32_t rank, int digits,
                                       bool colour);
/* Reads what there is and writes whole lines.  False: |from| has ended and is
 * closed. */
bool nx_output_pump(nx_output *o);
void nx_output_fini(nx_output *o);

#endif /* NX_OUTPUT_H */
