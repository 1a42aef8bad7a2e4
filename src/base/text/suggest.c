/* suggest.c - edit distance, without regard to case. */
#include "suggest.h"

#include <stdbool.h>
#include <string.h>

#include "text.h"

enum { LONGEST = 64 }; /* names beyond it are never suggested */

static size_t least(size_t a, size_t b)
{
    return (a < b) ? a : b;
}

static bool same(char a, char b)
{
    return nx_lower(a) == nx_lower(b);
}

/* Counts letters that are changed, omitted or inserted, and neighbours that are swapped. Keeps
 * one row of the table and the two before it. Both names are shorter than LONGEST. */
static size_t distance(const char *a, const char *b)
{
    size_t rows[3][LONGEST], na = strlen(a), nb = strlen(b);

    for (size_t j = 0; j <= nb; j++) {
        rows[0][j] = j;
    }
    for (size_t i = 1; i <= na; i++) {
        size_t *row = rows[i % 3];
        const size_t *above = rows[(i + 2) % 3], *higher = rows[(i + 1) % 3];

        row[0] = i;
        for (size_t j = 1; j <= nb; j++) {
            row[j] = least(above[j - 1] + (same(a[i - 1], b[j - 1]) ? 0 : 1),
                           1 + least(above[j], row[j - 1]));
            if ((i > 1) && (j > 1) && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1])) {
                row[j] = least(row[j], higher[j - 2] + 1);
            }
        }
    }
    return rows[na % 3][nb];
}

nx_suggest nx_suggest_start(const char *word)
{
    const size_t third = strlen(word) / 3;

    /* If more than a third of its letters differ, the word is another word, not a typing error. */
    return (nx_suggest){.word = word, .distance = ((third > 0) ? third : 1) + 1};
}

void nx_suggest_try(nx_suggest *n, const char *name)
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
