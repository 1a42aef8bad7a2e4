/* terminal.c - whether a terminal gets colours. */
#include "terminal.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool nx_terminal_colour(int fd)
{
    const char *refused = getenv("NO_COLOR"); // NOLINT(concurrency-mt-unsafe)
    const char *kind = getenv("TERM");        // NOLINT(concurrency-mt-unsafe)

    return (isatty(fd) != 0) && ((refused == NULL) || (refused[0] == '\0')) &&
           ((kind == NULL) || (strcmp(kind, "dumb") != 0));
}
