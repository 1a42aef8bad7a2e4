/* nearest.c - edit distance, without regard to case. */
#include "base/nearest.h"

#include <string.h>

#include "base/text.h"

enum { LONGEST = 64 }; /* names beyond it are never suggested */

static size_t least(size_t a, size_t b)
{
    return (a < b) ? a : b;
}

/* Levenshtein's, one row at a time; both are shorter than LONGEST. */
static size_t distance(const char *a, const char *b)
{
    size_t row[LONGEST], na = strlen(a), nb = strlen(b);

    for (size_t j = 0; j <= nb; j++) {
        row[j] = j;
    }
    for (size_t i = 1; i <= na; i++) {
        size_t diagonal = row[0];

        row[0] = i;
        for (size_t j = 1; j <= nb; j++) {
            size_t above = row[j];
            size_t differs = (nx_lower(a[i - 1]) == nx_lower(b[j - 1])) ? 0 : 1;

            row[j] = least(diagonal + differs, 1 + least(above, row[j - 1]));
            diagonal = above;
        }
    }
    return row[nb];
}

nx_nearest nx_nearest_start(const char *word)
{
    const size_t third = strlen(word) / 3;

    /* Beyond a third of its letters a word is another word, not a slip. */
    return (nx_nearest){.word = word, .distance = ((third > 0) ? third : 1) + 1};
}

void nx_nearest_try(nx_nearest *n, const char *name)
{
    size_t d;

    if ((strlen(n->word) >= LONGEST) || (strlen(name) >= LONGEST)) {
        return;
    }
    d = distance(n->word, name);
    if ((d < n->distance) && (d < strlen(name))) {
        n->best = name;
        n->distance = d;
    }
}
