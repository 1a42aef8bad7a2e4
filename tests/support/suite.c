/* suite.c - checks a case and reports the result. */
#include "suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "rand.h"
#include "reduce/reduce.h"
#include "sanitized.h"
#include "unit.h"

static bool chosen[NX_COLL_KINDS];

bool nxt_thin(uint64_t number)
{
    static uint64_t keep; /* keep one case in |keep| */

    if (keep == 0) {
        const char *fast = getenv("NXT_FAST"); // NOLINT(concurrency-mt-unsafe): one thread

        keep = (fast != NULL) ? 16 : (NXT_SANITIZED ? 4 : 1);
    }
    return nxt_mix(number) % keep != 0;
}

void nxt_fail_case(const nxt_case *c, const nxt_trial *t, const nxt_verdict *v)
{
    char text[300];

    nxt_case_text(c, text, sizeof(text));
    if (t == NULL) {
        fail_msg("%s\n    %s", text, v->text);
    } else {
        fail_msg("%s\n    %s %s%s, data %llu, events %llu: %s", text, nexar_dtype_name(t->dtype),
                 nexar_op_name(t->op), t->wild ? " wild" : "", (unsigned long long)t->data_seed,
                 (unsigned long long)t->seed, v->text);
    }
}

void nxt_draw_type(nx_coll_kind kind, uint64_t seed, nexar_dtype *dtype, nexar_op *op)
{
    nxt_rand r = {seed};
    bool scan = (kind == NX_SCAN) || (kind == NX_EXSCAN);

    do {
        *dtype = (nexar_dtype)nxt_below(&r, NX_DTYPES);
        *op = (nexar_op)nxt_below(&r, NX_OPS);
    } while (!nx_reduce_legal(*dtype, *op) || (scan && (*op == NEXAR_AVG)));
    if (!nx_coll_reduces(kind)) {
        *op = NEXAR_SUM;
    }
}

void nxt_check_as(const nxt_case *c, nexar_dtype dtype, nexar_op op, uint32_t seeds)
{
    nxt_trial t = {.dtype = dtype, .op = op};
    nxt_world w;
    nxt_verdict v;

    if (!nxt_world_init(&w, c, &v)) {
        nxt_fail_case(c, NULL, &v);
    }
    bool ok = nxt_plan_ordered(w.plan, &v);

    for (uint32_t i = 0; ok && (i < seeds); i++) {
        t.data_seed = nxt_hash(c->seed, i, 1);
        t.seed = nxt_hash(c->seed, i, 2);
        ok = nxt_world_run(&w, &t, &v);
    }
    nxt_world_fini(&w);
    if (!ok) {
        nxt_fail_case(c, &t, &v);
    }
}

void nxt_check(const nxt_case *c, uint32_t seeds)
{
    nxt_case drawn = *c;
    nexar_dtype dtype = NEXAR_F32;
    nexar_op op = NEXAR_SUM;

    nxt_draw_type(c->row->kind, c->seed, &dtype, &op);
    drawn.average = (op == NEXAR_AVG);
    nxt_check_as(&drawn, dtype, op, seeds);
}

void nxt_choose_kinds(int n, char *const *names)
{
    for (int i = 0; i < n; i++) {
        nx_coll_kind kind = nx_coll_find(names[i]);

        if (kind == NX_COLL_KINDS) {
            fprintf(stderr, "no collective is called %s\n", names[i]);
            exit(2); // NOLINT(concurrency-mt-unsafe): one thread
        }
        chosen[kind] = true;
    }
    for (int k = 0; (k < NX_COLL_KINDS) && (n == 0); k++) {
        chosen[k] = true;
    }
}

bool nxt_chosen(nx_coll_kind kind)
{
    return chosen[kind];
}

void nxt_for_rows(nxt_on_row each)
{
    size_t n = 0;
    const nx_algorithm *rows = nx_algorithms(&n);

    for (size_t i = 0; i < n; i++) {
        if (chosen[rows[i].kind]) {
            each(&rows[i]);
        }
    }
}

void nxt_report(const char *suite)
{
    printf("%s: %llu collectives simulated, %llu steps, %llu messages in %llu fragments, %.1f s "
           "of CPU\n",
           suite, (unsigned long long)nxt_stats.runs, (unsigned long long)nxt_stats.steps,
           (unsigned long long)nxt_stats.messages, (unsigned long long)nxt_stats.fragments,
           (double)clock() / CLOCKS_PER_SEC);
}
