/*
 * select.h - selects the algorithm of a call.
 *
 * One table (select.c): collective, bytes, ranks, hosts -> algorithm and segment. Each boundary
 * names the measurement or model behind it. The setting `algorithms` puts rules before the table:
 *
 *     algorithms=allreduce:0-16k:recdbl,allreduce:16k-:ring
 *
 * A rule is collective:from-to:algorithm. Sizes are bytes, |from| is included, |to| is excluded and
 * optional. The first rule that matches applies; without a match, the table.
 */
#ifndef NX_SELECT_H
#define NX_SELECT_H

#include "coll/algorithms.h"

typedef struct nx_rules nx_rules;

/*
 * Parses the setting; "" gives no rules.  The caller frees |*out| with nx_rules_destroy().
 *
 * NEXAR_EINVAL
 *     The message names the rule, what is wrong and what is accepted.
 * NEXAR_ENOMEM
 *     Out of memory.
 */
NX_MUST_CHECK nexar_err nx_rules_parse(const char *text, nx_rules **out);
void nx_rules_destroy(nx_rules *rules);

typedef struct nx_choice {
    const nx_algorithm *algorithm;
    size_t segment; /* elements; 0: not cut */
    bool hears;     /* set nx_coll.heard if ranks must hear from all */
} nx_choice;

/* With verify, messages up to this size are held back until the other ranks have joined. Longer
 * messages are sent immediately, with empty ones in parallel. Messages of an nx_coll_private kind
 * are never held back; empty ones follow them. */
enum { NX_HEARD_MAX = 32 << 10 };

/* |rules| may be NULL. |segment_bytes|: the setting `segment`. Cannot fail: every kind has an
 * algorithm for every call. */
nx_choice nx_select(const nx_rules *rules, const nx_coll *c, size_t elem_size, uint32_t hosts,
                    size_t segment_bytes);

/* The size in bytes that selects the algorithm of |c|: the vector of broadcast, reduce, allreduce,
 * scan and exscan; the gathered or scattered total of the other kinds. */
uint64_t nx_select_bytes(const nx_coll *c, size_t elem_size);

/* For `nexar info`: prints the table as lines "allreduce  to 2 ranks  below 1m  recdbl". The first
 * match applies. */
void nx_select_print(void (*line)(void *ctx, const char *text), void *ctx);

#endif /* NX_SELECT_H */
