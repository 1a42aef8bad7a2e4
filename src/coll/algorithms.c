/* algorithms.c - the table of algorithms. */
#include "coll/algorithms.h"

#include <string.h>

static const nx_algorithm table[] = {
#define X(KIND, NAME, FN, CUT, HOOK, HEARS, HELP) \
    {.kind = NX_##KIND,                           \
     .name = #NAME,                               \
     .build = nx_##FN,                            \
     .forecast = nx_##FN##_forecast,              \
     .cut = (CUT),                                \
     .hook = (HOOK),                              \
     .hears = (HEARS),                            \
     .help = (HELP)},
    NX_ALGORITHM_LIST(X)
#undef X
};

const nx_algorithm *nx_algorithms(size_t *n)
{
    *n = sizeof(table) / sizeof(table[0]);
    return table;
}

const nx_algorithm *nx_algorithm_find(nx_coll_kind kind, const char *name)
{
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        if ((table[i].kind == kind) && (strcmp(table[i].name, name) == 0)) {
            return &table[i];
        }
    }
    return NULL;
}
