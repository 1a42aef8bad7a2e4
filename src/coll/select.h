/*
 * select.h - which algorithm a call gets.
 *
 * One readable table (select.c): collective, bytes, ranks, hosts -> algorithm
 * and segment, each boundary with the measurement or model that set it.  The
 * setting `algorithms` puts rules before it:
 *
 *     algorithms=allreduce:0-16k:recdbl,allreduce:16k-:ring
 *
 * A rule is collective:from-to:algorithm, sizes in bytes, from included, to
 * excluded and optional.  The first rule that fits is taken; without one, the
 * table.
 */
#ifndef NX_SELECT_H
#define NX_SELECT_H

#include "coll/algorithms.h"

typedef struct nx_rules nx_rules;

/*
 * Parses the setting; "" gives no rules.  |*out| is the caller's, and is given
 * back with nx_rules_destroy().
 *
 * NEXAR_EINVAL
 *     The sentence names the rule, what is wrong with it and what is accepted.
 * NEXAR_ENOMEM
 *     Out of memory.
 */
NX_MUST_CHECK nexar_err nx_rules_parse(const char *text, nx_rules **out);
void nx_rules_destroy(nx_rules *rules);

typedef struct nx_choice {
    const nx_algorithm *algorithm;
    size_t segment; /* elements; 0: not cut */
    bool hears;     /* nx_coll.heard is to be set where ranks must hear of all */
} nx_choice;

/* Messages of at most so many bytes are held back for that until others have come; longer
 * ones go at once, and empty ones beside them.  Those of which not all know how long they are
 * (nx_coll_private) are never held back, and empty ones follow. */
enum { NX_HEARD_MAX = 32 << 10 };

/* |rules| may be NULL.  |segment_bytes|: the setting `segment`.  Every kind has
 * an algorithm for every call: this cannot fail. */
nx_choice nx_select(const nx_rules *rules, const nx_coll *c, size_t elem_size, uint32_t hosts,
                    size_t segment_bytes);

/* The size in bytes by which |c| is selected: the vector of broadcast, reduce,
 * allreduce, scan, exscan; the gathered or scattered total of the others. */
uint64_t nx_select_bytes(const nx_coll *c, size_t elem_size);

/* The table as lines "allreduce  to 2 ranks  below 1m  recdbl", the first that
 * fits is taken: for `nexar info`. */
void nx_select_print(void (*line)(void *ctx, const char *text), void *ctx);

#endif /* NX_SELECT_H */
