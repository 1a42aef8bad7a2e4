/* select.c - the table that chooses algorithms, and the rules put before it. */
#include "coll/select.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"

#define KIB(n) ((uint64_t)(n) << 10)
#define MIB(n) ((uint64_t)(n) << 20)
#define ANY    UINT64_MAX
#define MANY   UINT32_MAX

typedef struct row {
    nx_coll_kind kind;
    uint64_t below;      /* bytes; the rows of a kind are read in order */
    uint32_t ranks_upto; /* this row fits worlds of at most so many ranks */
    const char *algorithm;
} row;

/*
 * The first row of a kind that fits is taken, so each is "below so many bytes,
 * on at most so many ranks", and the last one of a kind fits everything.
 *
 * The boundaries are those of the cost model (nexar plan --sweep) at its
 * defaults, one rank per host, 20 us and 10 Gbit, rounded to powers of two.
 */
static const row table[] = {
    {NX_BARRIER, ANY, MANY, "dissemination"},

    {NX_BROADCAST, KIB(64), MANY, "binomial"},
    {NX_BROADCAST, ANY, 16, "chain"},
    {NX_BROADCAST, MIB(2), MANY, "binomial"},
    {NX_BROADCAST, ANY, MANY, "scatter_allgather"},

    {NX_REDUCE, KIB(64), MANY, "binomial"},
    {NX_REDUCE, ANY, 16, "chain"},
    {NX_REDUCE, ANY, MANY, "rs_gather"},

    {NX_ALLREDUCE, KIB(16), MANY, "recdbl"},
    {NX_ALLREDUCE, MIB(1), MANY, "halving_doubling"},
    {NX_ALLREDUCE, ANY, 64, "ring_pipelined"},
    {NX_ALLREDUCE, MIB(64), MANY, "halving_doubling"},
    {NX_ALLREDUCE, ANY, MANY, "ring_pipelined"},

    {NX_ALLGATHER, KIB(64), MANY, "bruck"},
    {NX_ALLGATHER, ANY, MANY, "ring"},
    {NX_ALLGATHERV, KIB(64), MANY, "bruck"},
    {NX_ALLGATHERV, ANY, MANY, "ring"},

    {NX_GATHER, KIB(64), MANY, "binomial"},
    {NX_GATHER, ANY, MANY, "direct"},
    {NX_GATHERV, ANY, MANY, "direct"},
    {NX_SCATTER, KIB(64), MANY, "binomial"},
    {NX_SCATTER, ANY, MANY, "direct"},
    {NX_SCATTERV, ANY, MANY, "direct"},

    {NX_REDUCE_SCATTER, KIB(256), MANY, "halving"},
    {NX_REDUCE_SCATTER, ANY, MANY, "ring"},
    {NX_REDUCE_SCATTERV, KIB(256), MANY, "halving"},
    {NX_REDUCE_SCATTERV, ANY, MANY, "ring"},

    {NX_ALLTOALL, KIB(16), MANY, "bruck"},
    {NX_ALLTOALL, ANY, MANY, "pairwise"},
    {NX_ALLTOALLV, ANY, MANY, "pairwise"},

    {NX_SCAN, KIB(64), MANY, "hillis_steele"},
    {NX_SCAN, ANY, 64, "chain"},
    {NX_SCAN, MIB(1), MANY, "hillis_steele"},
    {NX_SCAN, ANY, MANY, "chain"},
    {NX_EXSCAN, KIB(64), MANY, "hillis_steele"},
    {NX_EXSCAN, ANY, 64, "chain"},
    {NX_EXSCAN, MIB(1), MANY, "hillis_steele"},
    {NX_EXSCAN, ANY, MANY, "chain"},
};

enum { ROWS = sizeof(table) / sizeof(table[0]) };

/* ---- rules ---------------------------------------------------------------- */

typedef struct rule {
    const nx_algorithm *algorithm; /* its kind is the rule's */
    uint64_t from, below;
} rule;

struct nx_rules {
    size_t n;
    rule rules[];
};

/* Names, for messages: "recdbl, ring, ...". */
static void list_algorithms(nx_coll_kind kind, nx_text *out)
{
    size_t n;
    const nx_algorithm *all = nx_algorithms(&n);
    const char *comma = "";

    for (size_t i = 0; i < n; i++) {
        if (all[i].kind == kind) {
            nx_text_addf(out, "%s%s", comma, all[i].name);
            comma = ", ";
        }
    }
}

static void list_collectives(nx_text *out)
{
    for (int kind = 0; kind < NX_COLL_KINDS; kind++) {
        nx_text_addf(out, "%s%s", (kind == 0) ? "" : ", ", nx_coll_name((nx_coll_kind)kind));
    }
}

static const char *text_or(nx_text *t, const char *otherwise)
{
    const char *text = nx_text_str(t);

    return (text == NULL) ? otherwise : text;
}

static nexar_err fail_collective(const char *text, const char *name)
{
    nx_text names = {0};

    list_collectives(&names);
    (void)nx_fail(NEXAR_EINVAL, "rule '%s': there is no collective '%s'; there are %s", text, name,
                  text_or(&names, "many"));
    nx_text_fini(&names);
    return NEXAR_EINVAL;
}

static nexar_err fail_algorithm(const char *text, nx_coll_kind kind, const char *name)
{
    nx_text names = {0};

    list_algorithms(kind, &names);
    (void)nx_fail(NEXAR_EINVAL, "rule '%s': %s has no algorithm '%s'; it has %s", text,
                  nx_coll_name(kind), name, text_or(&names, "many"));
    nx_text_fini(&names);
    return NEXAR_EINVAL;
}

/* "16k-", "0-16k": sets both ends. */
static bool parse_range(char *text, rule *r)
{
    char *dash = strchr(text, '-');

    if (dash == NULL) {
        return false;
    }
    *dash = '\0';
    r->below = ANY;
    return nx_parse_size(text, &r->from) &&
           ((dash[1] == '\0') || nx_parse_size(dash + 1, &r->below)) && (r->from < r->below);
}

static nexar_err parse_rule(const char *text, rule *out)
{
    char copy[128];
    rule r = {0};

    if (strlen(text) >= sizeof(copy)) {
        return nx_fail(NEXAR_EINVAL, "rule '%.40s...' is too long", text);
    }
    (void)snprintf(copy, sizeof(copy), "%s", text);

    char *range = strchr(copy, ':');
    char *name = (range == NULL) ? NULL : strchr(range + 1, ':');
    if (name == NULL) {
        return nx_fail(NEXAR_EINVAL,
                       "rule '%s': a rule is collective:from-to:algorithm, such as "
                       "allreduce:0-16k:recdbl or allreduce:16k-:ring",
                       text);
    }
    *range++ = '\0';
    *name++ = '\0';

    nx_coll_kind kind = nx_coll_find(copy);
    if (kind == NX_COLL_KINDS) {
        return fail_collective(text, copy);
    }
    if (!parse_range(range, &r)) {
        return nx_fail(NEXAR_EINVAL,
                       "rule '%s': the range is from-to in bytes with from below to, such as "
                       "0-16k, or from- without end",
                       text);
    }
    r.algorithm = nx_algorithm_find(kind, name);
    if (r.algorithm == NULL) {
        return fail_algorithm(text, kind, name);
    }
    *out = r;
    return NEXAR_OK;
}

/* Parses the rules in |copy|, which is cut up on the way. */
static nexar_err parse_all(char *copy, nx_rules *rules)
{
    for (char *next = copy; next != NULL;) {
        char *text = next;

        next = strchr(text, ',');
        if (next != NULL) {
            *next++ = '\0';
        }
        nexar_err err = parse_rule(text, &rules->rules[rules->n]);
        if (err != NEXAR_OK) {
            return err;
        }
        rules->n++;
    }
    return NEXAR_OK;
}

nexar_err nx_rules_parse(const char *text, nx_rules **out)
{
    size_t most = 1;
    nexar_err err = NEXAR_OK;

    for (const char *p = text; *p != '\0'; p++) {
        most += (*p == ',');
    }

    nx_rules *rules = nx_zalloc(sizeof(*rules) + most * sizeof(rules->rules[0]));
    if (rules == NULL) {
        return nx_fail_nomem("the rules of the setting algorithms");
    }
    if (text[0] != '\0') {
        char *copy = nx_strdup(text);

        err = (copy == NULL) ? nx_fail_nomem("the rules of the setting algorithms")
                             : parse_all(copy, rules);
        nx_free(copy);
    }
    if (err != NEXAR_OK) {
        nx_free(rules);
        return err;
    }
    *out = rules;
    return NEXAR_OK;
}

void nx_rules_destroy(nx_rules *rules)
{
    nx_free(rules);
}

/* ---- selection ------------------------------------------------------------ */

uint64_t nx_select_bytes(const nx_coll *c, size_t elem_size)
{
    switch (c->kind) {
    case NX_ALLGATHER:
    case NX_GATHER:
    case NX_SCATTER:
    case NX_REDUCE_SCATTER:
    case NX_ALLTOALL:
        return (uint64_t)c->count * c->size * elem_size;
    case NX_ALLGATHERV:
    case NX_REDUCE_SCATTERV:
        return (uint64_t)nx_split_sum(&c->parts) * elem_size;
    case NX_BARRIER:
    case NX_GATHERV:
    case NX_SCATTERV:
    case NX_ALLTOALLV:
        /* No number that every rank knows: these have one algorithm. */
        return 0;
    case NX_BROADCAST:
    case NX_REDUCE:
    case NX_ALLREDUCE:
    case NX_SCAN:
    case NX_EXSCAN:
    case NX_COLL_KINDS:
        break;
    }
    return (uint64_t)c->count * elem_size;
}

static const nx_algorithm *by_rules(const nx_rules *rules, const nx_coll *c, uint64_t bytes)
{
    for (size_t i = 0; (rules != NULL) && (i < rules->n); i++) {
        const rule *r = &rules->rules[i];

        if ((r->algorithm->kind == c->kind) && (bytes >= r->from) && (bytes < r->below) &&
            (r->algorithm->hook || !c->hook)) {
            return r->algorithm;
        }
    }
    return NULL;
}

static const nx_algorithm *by_table(const nx_coll *c, uint64_t bytes)
{
    const nx_algorithm *last = NULL;

    for (size_t i = 0; i < ROWS; i++) {
        if (table[i].kind != c->kind) {
            continue;
        }
        last = nx_algorithm_find(c->kind, table[i].algorithm);
        if (((bytes < table[i].below) || (table[i].below == ANY)) &&
            (c->size <= table[i].ranks_upto)) {
            break;
        }
    }
    if (c->hook && !last->hook) {
        last = nx_algorithm_find(c->kind, "rs_ag");
    }
    return last;
}

nx_choice nx_select(const nx_rules *rules, const nx_coll *c, size_t elem_size, uint32_t hosts,
                    size_t segment_bytes)
{
    const uint64_t bytes = nx_select_bytes(c, elem_size);
    const nx_algorithm *a = by_rules(rules, c, bytes);
    const size_t segment = segment_bytes / elem_size;

    (void)hosts; /* every algorithm of one level; those of two will ask */
    if (a == NULL) {
        a = by_table(c, bytes);
    }
    return (nx_choice){.algorithm = a, .segment = a->cut ? ((segment == 0) ? 1 : segment) : 0};
}

void nx_select_print(void (*line)(void *ctx, const char *text), void *ctx)
{
    uint64_t from = 0;

    for (size_t i = 0; i < ROWS; i++) {
        char range[2 * NX_NUMBER_ROOM], ranks[NX_NUMBER_ROOM], a[NX_NUMBER_ROOM], b[NX_NUMBER_ROOM],
            text[160];

        if ((i == 0) || (table[i].kind != table[i - 1].kind)) {
            from = 0;
        }
        (void)snprintf(range, sizeof(range), "%s-%s", nx_format_size(from, a),
                       (table[i].below == ANY) ? "" : nx_format_size(table[i].below, b));
        (void)snprintf(ranks, sizeof(ranks), "%u", table[i].ranks_upto);
        (void)snprintf(text, sizeof(text), "%-16s %-12s ranks 1-%-6s %s",
                       nx_coll_name(table[i].kind), range,
                       (table[i].ranks_upto == MANY) ? "" : ranks, table[i].algorithm);
        line(ctx, text);
        if (table[i].ranks_upto == MANY) {
            from = table[i].below;
        }
    }
}
