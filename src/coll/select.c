/* select.c - the table that selects algorithms, and the rules that precede it. */
#include "coll/select.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text/text.h"

#define B(n)   ((uint64_t)(n))
#define KIB(n) ((uint64_t)(n) << 10)
#define MIB(n) ((uint64_t)(n) << 20)
#define ANY    UINT64_MAX
#define MANY   UINT32_MAX

/* The worlds that a row is for, by the placement of their ranks. */
typedef enum where {
    ALL,   /* any */
    MIXED, /* several hosts, several ranks on some: the ranks of a host share its wire */
    POWER, /* not mixed, and the number of ranks is a power of two */
    ONE,   /* one host: ranks share its cores and memory */
} where;

/* Unit of a limit: bytes in all, or bytes per rank. */
typedef enum per { IN_ALL, PER_RANK } per;

typedef struct row {
    nx_coll_kind kind;
    uint32_t ranks_upto; /* worlds of at most this many ranks */
    where where;
    uint64_t below;
    per per;
    const char *algorithm;
} row;

/*
 * The table uses the first row of a kind that fits; the last row of a kind always fits. An exscan
 * uses the rows of scan: both send the same messages.
 *
 * The boundaries come from the cost model (nexar plan --sweep) at its defaults: 20 us and 10 Gbit
 * between hosts and segments of 256 KiB. It ran at 2 to 1024 ranks with one and with eight on a
 * host; the boundaries are rounded to powers of two. They are where the predicted times of two
 * algorithms cross. Pipelines (chain, ring) need about two segments for each rank to fill. Trees
 * and doubling lose where the ranks of a host share its wire, since all of them send to distant
 * ranks at the same time.
 *
 * Where several hosts have several ranks each, the table selects two levels even where the model
 * has a ring slightly ahead (by up to 1.5, at hundreds of ranks). The model numbers ranks in
 * blocks; with another numbering a ring crosses the wire at every hop, while two levels cost the
 * same for all layouts.
 *
 * For a few ranks on one host the boundaries are measured instead. These ranks share the host's
 * cores, so the bytes of all ranks together count, not those of the busiest rank. Broadcast, 4
 * ranks on 2 cores over QUIC, ms at 256 KiB, 1, 4 and 16 MiB, medians of four alternating runs:
 * binomial 0.73, 2.9, 8.1, 35; chain 0.75, 2.8, 8.0, 30; scatter_allgather 1.2, 3.5, 13, 45. There,
 * short vectors pass through one rank, 2 (n - 1) messages, by star (a barrier by twolevel, which is
 * a star on one host): us at 8 B, 4, 16 and 64 KiB, medians of three alternating runs beside other
 * work, recdbl and star: allreduce of 4 ranks 223, 212, 179, 454 and 132, 92, 123, 492. 8 ranks
 * gain more (688 us at 8 B, 285). If each rank has its own core, which the table does not know, the
 * first rank's core would be the bottleneck: so the limit is 4.
 */
static const row table[] = {
    {NX_BARRIER, MANY, MIXED, ANY, IN_ALL, "twolevel"},
    {NX_BARRIER, 2, ALL, ANY, IN_ALL, "dissemination"},
    {NX_BARRIER, 4, ONE, ANY, IN_ALL, "twolevel"},
    {NX_BARRIER, MANY, ALL, ANY, IN_ALL, "dissemination"},

    {NX_BROADCAST, 2, ALL, ANY, IN_ALL, "binomial"},
    {NX_BROADCAST, 4, ONE, KIB(16), IN_ALL, "star"},
    {NX_BROADCAST, 8, ONE, MIB(2), IN_ALL, "binomial"},
    {NX_BROADCAST, 8, ONE, ANY, IN_ALL, "chain"},
    {NX_BROADCAST, MANY, MIXED, KIB(256), IN_ALL, "twolevel"},
    {NX_BROADCAST, MANY, MIXED, KIB(4), PER_RANK, "twolevel"},
    {NX_BROADCAST, MANY, MIXED, KIB(64), PER_RANK, "scatter_allgather"},
    {NX_BROADCAST, MANY, MIXED, ANY, IN_ALL, "twolevel_chain"},
    {NX_BROADCAST, MANY, ALL, KIB(256), IN_ALL, "binomial"},
    {NX_BROADCAST, MANY, ALL, KIB(4), PER_RANK, "binomial"},
    {NX_BROADCAST, MANY, ALL, KIB(512), PER_RANK, "scatter_allgather"},
    {NX_BROADCAST, MANY, ALL, ANY, IN_ALL, "chain"},

    {NX_REDUCE, 2, ALL, KIB(512), IN_ALL, "binomial"},
    {NX_REDUCE, 2, ALL, ANY, IN_ALL, "chain"},
    {NX_REDUCE, 4, ONE, KIB(16), IN_ALL, "star"},
    {NX_REDUCE, MANY, MIXED, KIB(512), IN_ALL, "twolevel"},
    {NX_REDUCE, MANY, MIXED, KIB(16), PER_RANK, "twolevel"},
    {NX_REDUCE, MANY, MIXED, ANY, IN_ALL, "twolevel_chain"},
    {NX_REDUCE, MANY, ALL, KIB(64), IN_ALL, "binomial"},
    {NX_REDUCE, MANY, ALL, KIB(512), PER_RANK, "rs_gather"},
    {NX_REDUCE, MANY, ALL, ANY, IN_ALL, "chain"},

    {NX_ALLREDUCE, 2, ALL, MIB(1), IN_ALL, "recdbl"},
    {NX_ALLREDUCE, 2, ALL, ANY, IN_ALL, "ring_pipelined"},
    {NX_ALLREDUCE, 4, ONE, KIB(16), IN_ALL, "star"},
    {NX_ALLREDUCE, MANY, MIXED, KIB(16), IN_ALL, "twolevel"},
    {NX_ALLREDUCE, MANY, MIXED, KIB(16), PER_RANK, "twolevel_halving"},
    {NX_ALLREDUCE, MANY, MIXED, ANY, IN_ALL, "twolevel_ring"},
    {NX_ALLREDUCE, MANY, ALL, KIB(64), IN_ALL, "recdbl"},
    {NX_ALLREDUCE, MANY, POWER, KIB(512), PER_RANK, "halving_doubling"},
    {NX_ALLREDUCE, MANY, ALL, KIB(32), PER_RANK, "halving_doubling"},
    {NX_ALLREDUCE, MANY, ALL, ANY, IN_ALL, "ring_pipelined"},

    {NX_ALLGATHER, 2, ALL, ANY, IN_ALL, "ring"},
    {NX_ALLGATHER, 4, ONE, KIB(8), IN_ALL, "star"},
    {NX_ALLGATHER, MANY, MIXED, KIB(2), PER_RANK, "twolevel"},
    {NX_ALLGATHER, MANY, MIXED, ANY, IN_ALL, "twolevel_ring"},
    {NX_ALLGATHER, MANY, POWER, KIB(512), PER_RANK, "recdbl"},
    {NX_ALLGATHER, MANY, ALL, KIB(256), PER_RANK, "bruck"},
    {NX_ALLGATHER, MANY, ALL, ANY, IN_ALL, "ring"},
    {NX_ALLGATHERV, 2, ALL, ANY, IN_ALL, "ring"},
    {NX_ALLGATHERV, MANY, MIXED, KIB(1), PER_RANK, "bruck"},
    {NX_ALLGATHERV, MANY, MIXED, ANY, IN_ALL, "ring"},
    {NX_ALLGATHERV, MANY, ALL, KIB(256), PER_RANK, "bruck"},
    {NX_ALLGATHERV, MANY, ALL, ANY, IN_ALL, "ring"},

    {NX_GATHER, MANY, MIXED, KIB(2), PER_RANK, "twolevel"},
    {NX_GATHER, 32, ALL, ANY, IN_ALL, "direct"},
    {NX_GATHER, MANY, ALL, KIB(1), PER_RANK, "binomial"},
    {NX_GATHER, MANY, ALL, ANY, IN_ALL, "direct"},
    {NX_GATHERV, MANY, ALL, ANY, IN_ALL, "direct"},
    {NX_SCATTER, MANY, MIXED, KIB(2), PER_RANK, "twolevel"},
    {NX_SCATTER, 32, ALL, ANY, IN_ALL, "direct"},
    {NX_SCATTER, MANY, ALL, KIB(1), PER_RANK, "binomial"},
    {NX_SCATTER, MANY, ALL, ANY, IN_ALL, "direct"},
    {NX_SCATTERV, MANY, ALL, ANY, IN_ALL, "direct"},

    {NX_REDUCE_SCATTER, 2, ALL, ANY, IN_ALL, "ring"},
    {NX_REDUCE_SCATTER, MANY, MIXED, KIB(2), PER_RANK, "twolevel"},
    {NX_REDUCE_SCATTER, MANY, MIXED, ANY, IN_ALL, "twolevel_ring"},
    {NX_REDUCE_SCATTER, MANY, POWER, KIB(512), PER_RANK, "halving"},
    {NX_REDUCE_SCATTER, MANY, ALL, KIB(16), PER_RANK, "halving"},
    {NX_REDUCE_SCATTER, MANY, ALL, ANY, IN_ALL, "ring"},
    {NX_REDUCE_SCATTERV, 2, ALL, ANY, IN_ALL, "ring"},
    {NX_REDUCE_SCATTERV, MANY, MIXED, KIB(4), PER_RANK, "halving"},
    {NX_REDUCE_SCATTERV, MANY, MIXED, ANY, IN_ALL, "ring"},
    {NX_REDUCE_SCATTERV, MANY, POWER, KIB(512), PER_RANK, "halving"},
    {NX_REDUCE_SCATTERV, MANY, ALL, KIB(16), PER_RANK, "halving"},
    {NX_REDUCE_SCATTERV, MANY, ALL, ANY, IN_ALL, "ring"},

    {NX_ALLTOALL, 2, ALL, ANY, IN_ALL, "pairwise"},
    {NX_ALLTOALL, 4, ONE, KIB(8), IN_ALL, "star"},
    {NX_ALLTOALL, MANY, MIXED, B(512), PER_RANK, "twolevel"},
    {NX_ALLTOALL, MANY, MIXED, ANY, IN_ALL, "pairwise"},
    {NX_ALLTOALL, 32, ALL, ANY, IN_ALL, "pairwise"},
    {NX_ALLTOALL, MANY, ALL, KIB(1), PER_RANK, "bruck"},
    {NX_ALLTOALL, MANY, ALL, ANY, IN_ALL, "pairwise"},
    {NX_ALLTOALLV, MANY, ALL, ANY, IN_ALL, "pairwise"},

    {NX_SCAN, 2, ALL, ANY, IN_ALL, "chain"},
    {NX_SCAN, MANY, MIXED, KIB(2), PER_RANK, "hillis_steele"},
    {NX_SCAN, MANY, MIXED, ANY, IN_ALL, "chain"},
    {NX_SCAN, MANY, ALL, KIB(64), PER_RANK, "hillis_steele"},
    {NX_SCAN, MANY, ALL, ANY, IN_ALL, "chain"},
};

enum { ROWS = sizeof(table) / sizeof(table[0]) };

/* ---- rules --------------------------------------------------------------------------- */

typedef struct rule {
    const nx_algorithm *algorithm; /* its kind is the rule's kind */
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

/* Parses the rules in |copy|, which it splits in place. */
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

/* ---- selection ----------------------------------------------------------------------- */

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
        /* Not every rank knows the count: these kinds have one algorithm. */
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

/* The kind whose rows apply to |kind|. */
static nx_coll_kind row_kind(nx_coll_kind kind)
{
    return (kind == NX_EXSCAN) ? NX_SCAN : kind;
}

static bool is_power(uint32_t n)
{
    return (n & (n - 1)) == 0;
}

static bool fits(const row *r, uint32_t size, uint32_t hosts, uint64_t bytes)
{
    const bool mixed = (hosts > 1) && (hosts < size);
    const uint64_t below = (r->per == PER_RANK) ? r->below * size : r->below;

    if ((size > r->ranks_upto) || ((r->below != ANY) && (bytes >= below))) {
        return false;
    }
    switch (r->where) {
    case MIXED:
        return mixed;
    case POWER:
        return !mixed && is_power(size);
    case ONE:
        return hosts == 1;
    case ALL:
        break;
    }
    return true;
}

static const nx_algorithm *by_table(const nx_coll *c, uint32_t hosts, uint64_t bytes)
{
    const nx_coll_kind kind = row_kind(c->kind);
    size_t i = 0;

    while ((table[i].kind != kind) || !fits(&table[i], c->size, hosts, bytes)) {
        i++;
    }
    const nx_algorithm *a = nx_algorithm_find(c->kind, table[i].algorithm);

    return (c->hook && !a->hook) ? nx_algorithm_find(c->kind, "rs_ag") : a;
}

nx_choice nx_select(const nx_rules *rules, const nx_coll *c, size_t elem_size, uint32_t hosts,
                    size_t segment_bytes)
{
    const uint64_t bytes = nx_select_bytes(c, elem_size);
    const nx_algorithm *a = by_rules(rules, c, bytes);
    const size_t segment = segment_bytes / elem_size;

    if (a == NULL) {
        a = by_table(c, hosts, bytes);
    }
    return (nx_choice){
        .algorithm = a,
        .segment = a->cut ? ((segment == 0) ? 1 : segment) : 0,
        .hears = a->hears && (nx_coll_private(c->kind) || (c->count <= NX_HEARD_MAX / elem_size))};
}

/* "allreduce  to 2 ranks  below 64k per rank  mixed hosts  recdbl" */
static void print_row(nx_coll_kind kind, const row *r, char *text, size_t room)
{
    static const char *const places[] = {[ALL] = "",
                                         [MIXED] = "several ranks on several hosts",
                                         [POWER] = "a power of two",
                                         [ONE] = "one host"};
    char ranks[NX_NUMBER_ROOM + 16] = "any ranks", size[NX_NUMBER_ROOM + 24] = "any size",
                                number[NX_NUMBER_ROOM];

    if (r->ranks_upto != MANY) {
        (void)snprintf(ranks, sizeof(ranks), "to %u ranks", r->ranks_upto);
    }
    if (r->below != ANY) {
        (void)snprintf(size, sizeof(size), "below %s%s", nx_format_size(r->below, number),
                       (r->per == PER_RANK) ? " per rank" : "");
    }
    (void)snprintf(text, room, "%-16s %-12s %-20s %-31s %s", nx_coll_name(kind), ranks, size,
                   places[r->where], r->algorithm);
}

void nx_select_print(void (*line)(void *ctx, const char *text), void *ctx)
{
    for (int kind = 0; kind < NX_COLL_KINDS; kind++) {
        for (size_t i = 0; i < ROWS; i++) {
            char text[160];

            if (table[i].kind == row_kind((nx_coll_kind)kind)) {
                print_row((nx_coll_kind)kind, &table[i], text, sizeof(text));
                line(ctx, text);
            }
        }
    }
}
