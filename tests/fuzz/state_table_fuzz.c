/* state_table_fuzz.c - the table of tensors of another rank, compared and described. */
#include <string.h>

#include "core/state/state_table.h"
#include "fuzz.h"

enum { N = 2, INDEXES = 5 };

static float memory[4];
static const nexar_state here[N] = {{"weights", memory, 4, NEXAR_F32},
                                    {"b", memory, 1, NEXAR_STRUCT(24)}};

/* This rank's own table equals its tensors. */
static void check_own(void)
{
    uint8_t own[64];
    const size_t len = nx_state_table_size(here, N);
    uint64_t first = 0;

    nxt_must(len <= sizeof(own));
    nx_state_table_write(here, N, own);
    nxt_must(nx_state_table_compare(here, N, own, len, &first) == NEXAR_OK);
    nxt_must(first == UINT64_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[NX_STATE_TEXT];
    uint64_t first = 0;
    const nexar_err err = nx_state_table_compare(here, N, data, size, &first);

    check_own();
    nxt_must((err == NEXAR_OK) || (err == NEXAR_EPROTO));
    if (err == NEXAR_OK) {
        nxt_must((first != UINT64_MAX) || (size == nx_state_table_size(here, N)));
        nx_state_describe(here, N, first, text);
        nxt_must(strlen(text) < sizeof(text));
    }
    for (uint64_t i = 0; (err == NEXAR_OK) && (i < INDEXES); i++) {
        nx_state_table_describe(data, size, i, text);
        nxt_must(strlen(text) < sizeof(text));
    }
    return 0;
}
