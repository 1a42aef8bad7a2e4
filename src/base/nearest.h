/* nearest.h - "did you mean": the known name that a mistyped one is nearest to. */
#ifndef NX_NEAREST_H
#define NX_NEAREST_H

#include <stddef.h>

/*
 *     nx_nearest n = nx_nearest_start("segmnt");
 *     for (each name) nx_nearest_try(&n, name);
 *     if (n.best != NULL) ... "segment"
 *
 * All names are borrowed for as long as |n| is used.
 */
typedef struct nx_nearest {
    const char *word;
    const char *best; /* NULL: nothing is near enough to be meant */
    size_t distance;  /* letters put in, left out or changed, up to |best| */
} nx_nearest;

nx_nearest nx_nearest_start(const char *word);
/* Of names that are equally near the first one tried is kept. */
void nx_nearest_try(nx_nearest *n, const char *name);

#endif /* NX_NEAREST_H */
