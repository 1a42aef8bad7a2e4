/* rules_fuzz.c - the `algorithms` setting: rules are rejected, or select a valid algorithm. */
#include "coll/select.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[NXT_FUZZ_ROOM];
    nx_rules *rules = NULL;

    if (nx_rules_parse(nxt_fuzz_text(data, size, text), &rules) != NEXAR_OK) {
        nxt_must(rules == NULL);
        nxt_must(nexar_last_error()[0] != '\0');
        return 0;
    }
    for (int kind = 0; kind < NX_COLL_KINDS; kind++) {
        nx_coll c = {.kind = (nx_coll_kind)kind, .size = 8, .count = size * 1000};

        nxt_must(nx_select(rules, &c, 4, 2, 1 << 18).algorithm->kind == c.kind);
    }
    nx_rules_destroy(rules);
    return 0;
}
