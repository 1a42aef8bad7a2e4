/* environment.c - variables of the environment. */
#include "core/config/environment.h"

#include <string.h>
#include <unistd.h>

/* Not getenv: another thread may change the result of getenv just like environ itself, and tests
 * install an environment of their own. */
const char *nx_environment(const char *variable)
{
    const size_t len = strlen(variable);

    for (char **at = environ; (at != NULL) && (*at != NULL); at++) {
        if ((strncmp(*at, variable, len) == 0) && ((*at)[len] == '=')) {
            return *at + len + 1;
        }
    }
    return NULL;
}
