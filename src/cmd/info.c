/* info.c - `nexar info`: what this build and this machine offer. */
#include <stdio.h>

#include <nexar.h>

#include "cmd/cmd.h"
#include "cmd/options.h"

int nx_cmd_info(int argc, char **argv)
{
    bool json = false;
    const nx_option table[] = {
        {"json", NX_OPTION_FLAG, &json, NULL, "print one JSON object", 0, 0},
    };
    const nx_options options = {
        .command = "info",
        .help = "Prints the version, what this machine offers, and every setting.",
        .table = table,
        .n = sizeof(table) / sizeof(table[0]),
    };
    int code;

    if (!nx_options_parse(&options, argc, argv, NULL, &code)) {
        return code;
    }
    (void)printf(json ? "{\"version\": \"%s\"}\n" : "version  %s\n", nexar_version());
    return NX_EXIT_OK;
}
