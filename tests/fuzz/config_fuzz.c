/* config_fuzz.c - "name=value": an accepted value is returned by get, and accepted again. */
#include <string.h>

#include <nexar.h>

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[NXT_FUZZ_ROOM], got[NXT_FUZZ_ROOM], again[NXT_FUZZ_ROOM];
    nexar_config *cfg = NULL;
    char *value;

    (void)nxt_fuzz_text(data, size, text);
    value = strchr(text, '=');
    if (value == NULL) {
        return 0;
    }
    *value++ = '\0';
    nxt_must(nexar_config_create(&cfg) == NEXAR_OK);
    if (nexar_config_set(cfg, text, value) == NEXAR_OK) {
        nxt_must(nexar_config_get(cfg, text, got, sizeof(got)) == NEXAR_OK);
        nxt_must(nexar_config_set(cfg, text, got) == NEXAR_OK);
        nxt_must(nexar_config_get(cfg, text, again, sizeof(again)) == NEXAR_OK);
        nxt_must(strcmp(got, again) == 0);
    } else {
        nxt_must(nexar_last_error()[0] != '\0');
    }
    nexar_config_free(cfg);
    return 0;
}
