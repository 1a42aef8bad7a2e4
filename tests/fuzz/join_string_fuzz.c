/* join_string_fuzz.c - any text as a join string: an accepted string is formatted and parsed
 * again. */
#include <ctype.h>
#include <string.h>

#include "cluster/join/join_string.h"
#include "fuzz.h"

/* A host name would query a name server: only texts without one are parsed. */
static int has_name(const char *text)
{
    const char *at = strrchr(text, '@');
    int inside = 0; /* brackets, in which letters are digits */

    for (; (at != NULL) && (*at != '\0') && (*at != '?'); at++) {
        inside = (*at == '[') || (inside && (*at != ']'));
        if (!inside && isalpha((unsigned char)*at)) {
            return 1;
        }
    }
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[NXT_FUZZ_ROOM], again[NX_JOIN_STRING_MAX];
    nx_join_string j, back;

    (void)nxt_fuzz_text(data, size, text);
    if (has_name(text)) {
        return 0;
    }
    memset(&j, 0, sizeof(j));
    if (nx_join_string_parse(text, &j) == NEXAR_OK) {
        nxt_must((j.naddresses >= 1) && (j.naddresses <= NX_SEED_ADDRESSES_MAX));
        nxt_must(nx_join_string_format(&j, again, sizeof(again)) == NEXAR_OK);
        nxt_must(nx_join_string_parse(again, &back) == NEXAR_OK);
        nxt_must(memcmp(&j.token, &back.token, sizeof(j.token)) == 0);
        nxt_must(memcmp(&j.pin, &back.pin, sizeof(j.pin)) == 0);
        nxt_must(j.naddresses == back.naddresses);
    }
    return 0;
}
