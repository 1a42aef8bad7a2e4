/* suggest.h - "did you mean": the known name closest to a mistyped one. */
#ifndef NX_SUGGEST_H
#define NX_SUGGEST_H

#include <stddef.h>

/*
 *     nx_suggest n = nx_suggest_start("segmnt");
 *     for (each name) nx_suggest_try(&n, name);
 *     if (n.best != NULL) ... "segment"
 *
 * All names are borrowed for as long as |n| is used.
 */
typedef struct nx_suggest {
    const char *word;
    const char *best; /* NULL: no name is close enough */
    size_t distance;  /* edit distance to |best| */
} nx_suggest;

nx_suggest nx_suggest_start(const char *word);
/* Among equally close names the first one tried is kept. */
void nx_suggest_try(nx_suggest *n, const char *name);

#endif /* NX_SUGGEST_H */
