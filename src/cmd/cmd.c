/* cmd.c - how a subcommand reports a usage error. */
#include "cmd/cmd.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <nexar.h>

#include "base/text/text.h"

int nx_usage(const char *command, const char *format, ...)
{
    char line[1024];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    nx_clean_text(line, strlen(line)); /* the arguments may contain any text, also a secret */
    (void)fprintf(stderr, "nexar%s%s: %s\n", (command[0] == '\0') ? "" : " ", command, line);
    return NX_EXIT_USAGE;
}

int nx_cmd_error(const char *command, int err)
{
    (void)nx_usage(command, "%s", nexar_last_error());
    return (err == NEXAR_EINVAL) ? NX_EXIT_USAGE : NX_EXIT_FAILURE;
}
