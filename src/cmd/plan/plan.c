/* plan.c - `nexar plan`: the predicted cost of each algorithm on a network. */
#include "plan.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text/suggest.h"
#include "base/text/text.h"
#include "cmd/cmd.h"
#include "cmd/options.h"
#include "core/config/config.h"

/* The values of the options. The defaults and their origin: docs/internals/cost-model.md. */
typedef struct request {
    const char *name; /* collective; NULL with --all */
    uint64_t ranks, hosts, root, segment;
    const char *size; /* --bytes; NULL: not given */
    uint64_t bytes;
    uint64_t latency, local_latency, cpu, local_cpu; /* ns */
    uint64_t bandwidth, local_bandwidth, reduce;     /* bits per second */
    const char *dtype, *sizes, *plot;
    bool all, sweep, exact, json;
    nx_coll_kind kinds[NX_COLL_KINDS];
    size_t nkinds;
    uint64_t from, to; /* of a sweep */
} request;

static const uint64_t most_bytes = UINT64_C(1) << 50;

static const char help_text[] =
    "Predicts, for each algorithm of a collective, its rounds, messages, bytes and\n"
    "time on a network of ranks and hosts, and marks the algorithm that a call would get\n"
    "(settings algorithms and segment) and the one predicted to be fastest.";

static const char notes_text[] =
    "--bytes is what algorithms are selected by: the vector of broadcast, reduce,\n"
    "allreduce, scan and exscan; the sum of all ranks' blocks of allgather, gather,\n"
    "scatter and reduce_scatter; what one rank sends in alltoall; of the v forms\n"
    "with blocks of one size.  It is rounded up to whole elements per block.\n"
    "\n"
    "Up to 4096 ranks messages and bytes are counted in the real schedules, and time\n"
    "and rounds come from running them in virtual time, if that is quick; beyond,\n"
    "from closed forms.  The column \"by\" says which.\n"
    "\n"
    "examples:\n"
    "  nexar plan allreduce --ranks 1024 --hosts 128 --bytes 64m\n"
    "  nexar plan broadcast --ranks 64 --latency 200us --bandwidth 1g --sweep\n"
    "  nexar plan allgather --ranks 64 --hosts 8 --sizes 1k-1g --plot allgather.svg\n"
    "  nexar plan --all --ranks 65536 --json";

static bool parse(request *q, int argc, char **argv, int *code)
{
    const nx_option table[] = {
        {"all", NX_OPTION_FLAG, &q->all, NULL, "every collective", 0, 0, 0},
        {"ranks", NX_OPTION_UINT, &q->ranks, "N", "ranks", 1, NX_MAX_ROUNDS / 2, 0},
        {"hosts", NX_OPTION_UINT, &q->hosts, "N", "hosts; without it one per rank", 1,
         NX_MAX_ROUNDS / 2, 0},
        {"bytes", NX_OPTION_TEXT, &q->size, "SIZE", "how much data, see below; without it 1m", 0, 0,
         0},
        {"dtype", NX_OPTION_TEXT, &q->dtype, "NAME", "element type", 0, 0, 0},
        {"root", NX_OPTION_UINT, &q->root, "RANK", "root of the rooted ones, else 0", 0, 0, 0},
        {"segment", NX_OPTION_SIZE, &q->segment, "SIZE",
         "pieces of those that are cut; without it the setting", 1, UINT64_C(1) << 40, 0},
        {"latency", NX_OPTION_DURATION, &q->latency, "TIME", "one way, between hosts", 0, 0, 0},
        {"bandwidth", NX_OPTION_RATE, &q->bandwidth, "RATE", "of a host, per direction", 1000, 0,
         0},
        {"local-latency", NX_OPTION_DURATION, &q->local_latency, "TIME", "inside a host", 0, 0, 0},
        {"local-bandwidth", NX_OPTION_RATE, &q->local_bandwidth, "RATE",
         "inside a host, of a rank, per direction", 1000, 0, 0},
        {"cpu", NX_OPTION_DURATION, &q->cpu, "TIME", "CPU of a message, at each end", 0, 0, 0},
        {"local-cpu", NX_OPTION_DURATION, &q->local_cpu, "TIME", "the same inside a host", 0, 0, 0},
        {"reduce", NX_OPTION_RATE, &q->reduce, "RATE", "what one core combines or copies", 1000, 0,
         0},
        {"sweep", NX_OPTION_FLAG, &q->sweep, NULL,
         "times from 8 B to --bytes (or 1g), in powers of 4", 0, 0, 0},
        {"sizes", NX_OPTION_TEXT, &q->sizes, "FROM-TO", "the same between these sizes", 0, 0, 0},
        {"plot", NX_OPTION_TEXT, &q->plot, "FILE", "draw the sweep as SVG", 0, 0, 0},
        {"exact", NX_OPTION_FLAG, &q->exact, NULL,
         "simulate all that has up to 4096 ranks, however long it takes", 0, 0, 0},
        {"json", NX_OPTION_FLAG, &q->json, NULL, "print one JSON object", 0, 0, 0},
    };
    const nx_options options = {
        .command = "plan",
        .operands = "COLLECTIVE",
        .max_operands = 1,
        .help = help_text,
        .table = table,
        .n = sizeof(table) / sizeof(table[0]),
        .notes = notes_text,
    };

    return nx_options_parse(&options, argc, argv, &q->name, code);
}

/* ---- checks -------------------------------------------------------------------------- */

static int unknown_collective(const char *name)
{
    nx_suggest near = nx_suggest_start((name == NULL) ? "" : name);
    nx_text text = {0};
    const char *list;
    int code;

    for (int k = 0; k < NX_COLL_KINDS; k++) {
        nx_suggest_try(&near, nx_coll_name((nx_coll_kind)k));
        nx_text_addf(&text, "%s%s", (k == 0) ? "" : ", ", nx_coll_name((nx_coll_kind)k));
    }
    list = nx_text_str(&text);
    list = (list == NULL) ? "see --help" : list;
    if (name == NULL) {
        code = nx_usage("plan", "name a collective, or give --all; accepted: %s", list);
    } else if (near.best != NULL) {
        code = nx_usage("plan", "unknown collective %s, did you mean %s? accepted: %s", name,
                        near.best, list);
    } else {
        code = nx_usage("plan", "unknown collective %s; accepted: %s", name, list);
    }
    nx_text_fini(&text);
    return code;
}

static int check_collective(request *q)
{
    nx_coll_kind kind = (q->name == NULL) ? NX_COLL_KINDS : nx_coll_find(q->name);

    if (q->all) {
        if (q->name != NULL) {
            return nx_usage("plan", "--all and %s: give one of them", q->name);
        }
        for (int k = q->sweep ? NX_BARRIER + 1 : NX_BARRIER; k < NX_COLL_KINDS; k++) {
            q->kinds[q->nkinds++] = (nx_coll_kind)k;
        }
        return NX_EXIT_OK;
    }
    if (kind == NX_COLL_KINDS) {
        return unknown_collective(q->name);
    }
    if ((kind == NX_BARRIER) && q->sweep) {
        return nx_usage("plan", "barrier moves no bytes: --sweep, --sizes and --plot are for the "
                                "others");
    }
    q->kinds[q->nkinds++] = kind;
    return NX_EXIT_OK;
}

static int check_dtype(const char *name, nexar_dtype *dtype)
{
    nx_text text = {0};
    int code;

    for (int d = 0; nexar_dtype_size((nexar_dtype)d) != 0; d++) {
        if (strcmp(name, nexar_dtype_name((nexar_dtype)d)) == 0) {
            *dtype = (nexar_dtype)d;
            nx_text_fini(&text);
            return NX_EXIT_OK;
        }
        nx_text_addf(&text, "%s%s", (d == 0) ? "" : ", ", nexar_dtype_name((nexar_dtype)d));
    }
    code = nx_usage("plan", "--dtype %s: unknown; accepted: %s", name,
                    (nx_text_str(&text) == NULL) ? "f32, f64, ..." : nx_text_str(&text));
    nx_text_fini(&text);
    return code;
}

static int check_sizes(request *q)
{
    char from[NX_NUMBER_ROOM];
    const char *dash;

    q->from = 8;
    q->to = (q->size == NULL) ? UINT64_C(1) << 30 : q->bytes;
    if (q->sizes != NULL) {
        dash = strchr(q->sizes, '-');
        if ((dash == NULL) || ((size_t)(dash - q->sizes) >= sizeof(from))) {
            return nx_usage("plan", "--sizes %s: not accepted; give two sizes such as 1k-64m",
                            q->sizes);
        }
        (void)snprintf(from, sizeof(from), "%.*s", (int)(dash - q->sizes), q->sizes);
        if (!nx_parse_size(from, &q->from) || !nx_parse_size(dash + 1, &q->to)) {
            return nx_usage("plan", "--sizes %s: not accepted; give two sizes such as 1k-64m",
                            q->sizes);
        }
    }
    if ((q->from == 0) || (q->from > q->to) || (q->to > most_bytes)) {
        return nx_usage("plan",
                        "a sweep from %llu to %llu bytes: not accepted; give sizes from 1 "
                        "to 1024t, the smaller one first",
                        (unsigned long long)q->from, (unsigned long long)q->to);
    }
    return NX_EXIT_OK;
}

static int check(request *q, nexar_dtype *dtype)
{
    int code;

    q->bytes = UINT64_C(1) << 20;
    if ((q->size != NULL) && (!nx_parse_size(q->size, &q->bytes) || (q->bytes > most_bytes))) {
        return nx_usage("plan",
                        "--bytes %s: not accepted; give a size such as 64k, 8m or 1g, up to "
                        "1024t",
                        q->size);
    }
    q->sweep = q->sweep || (q->sizes != NULL) || (q->plot != NULL);
    q->hosts = (q->hosts == 0) ? q->ranks : q->hosts;
    if (q->hosts > q->ranks) {
        return nx_usage("plan", "--hosts %llu with --ranks %llu: a host has at least one rank",
                        (unsigned long long)q->hosts, (unsigned long long)q->ranks);
    }
    if (q->root >= q->ranks) {
        return nx_usage("plan", "--root %llu: not accepted; ranks are 0 to %llu",
                        (unsigned long long)q->root, (unsigned long long)q->ranks - 1);
    }
    if (q->exact && (q->ranks > NX_COST_MAX_RANKS)) {
        return nx_usage("plan", "--exact with --ranks %llu: at most %d ranks are simulated",
                        (unsigned long long)q->ranks, NX_COST_MAX_RANKS);
    }
    code = check_collective(q);
    if (code == NX_EXIT_OK) {
        code = check_dtype(q->dtype, dtype);
    }
    if ((code == NX_EXIT_OK) && q->sweep) {
        code = check_sizes(q);
    }
    return code;
}

/* ---- settings ------------------------------------------------------------------------ */

/* The plan borrows its rules from |cfg|. */
static void use_settings(nx_plan *plan, const nexar_config *cfg)
{
    plan->rules = nx_config_rules(cfg);
    if (plan->segment_bytes == 0) {
        plan->segment_bytes = nx_config_number(cfg, NX_SET_SEGMENT);
    }
}

static nx_plan make_plan(const request *q, nexar_dtype dtype)
{
    return (nx_plan){
        .net = {.ranks = (uint32_t)q->ranks,
                .hosts = (uint32_t)q->hosts,
                .elem_size = nexar_dtype_size(dtype),
                .latency = (double)q->latency * 1e-9,
                .bandwidth = (double)q->bandwidth / 8,
                .local_latency = (double)q->local_latency * 1e-9,
                .local_bandwidth = (double)q->local_bandwidth / 8,
                .message_cpu = (double)q->cpu * 1e-9,
                .local_cpu = (double)q->local_cpu * 1e-9,
                .reduce_bandwidth = (double)q->reduce / 8},
        .dtype = dtype,
        .root = (uint32_t)q->root,
        .segment_bytes = q->segment,
        .exact = q->exact,
    };
}

/* ---- work ---------------------------------------------------------------------------- */

static size_t count_rows(const request *q)
{
    size_t n, rows = 0;
    const nx_algorithm *a = nx_algorithms(&n);

    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < q->nkinds; k++) {
            rows += (a[i].kind == q->kinds[k]);
        }
    }
    return rows;
}

static int print_points(const request *q, nx_plan *plan)
{
    nx_plan_point *points = nx_calloc(q->nkinds, sizeof(*points));
    nexar_err err = (points == NULL) ? nx_fail_nomem("the plan") : NEXAR_OK;

    nx_progress_begin(plan->progress, count_rows(q));
    for (size_t i = 0; (err == NEXAR_OK) && (i < q->nkinds); i++) {
        err = nx_plan_at(plan, q->kinds[i], q->bytes, &points[i]);
    }
    nx_progress_end(plan->progress);
    if (err == NEXAR_OK) {
        if (q->json) {
            nx_plan_print_json(plan, points, NULL, q->nkinds);
        } else {
            nx_plan_print_head(plan);
            for (size_t i = 0; i < q->nkinds; i++) {
                nx_plan_print_point(plan, &points[i]);
            }
            nx_plan_print_legend(false);
        }
    }
    nx_free(points);
    return (err == NEXAR_OK) ? NX_EXIT_OK : nx_cmd_error("plan", err);
}

static int plot(const request *q, const nx_plan *plan, const nx_plan_sweep *sweeps)
{
    FILE *out = fopen(q->plot, "we");
    bool failed = out == NULL;
    int code = errno;
    char text[128];

    if (out != NULL) {
        nx_plan_plot(out, plan, sweeps, q->nkinds);
        failed = ferror(out) != 0;
        code = errno;
        if ((fclose(out) != 0) && !failed) {
            failed = true;
            code = errno;
        }
    }
    if (failed) {
        (void)nx_usage("plan", "cannot write %s: %s", q->plot,
                       strerror_r(code, text, sizeof(text)));
        return NX_EXIT_FAILURE;
    }
    return NX_EXIT_OK;
}

static int print_sweeps(const request *q, nx_plan *plan)
{
    nx_plan_sweep *sweeps = nx_calloc(q->nkinds, sizeof(*sweeps));
    nexar_err err = (sweeps == NULL) ? nx_fail_nomem("the plan") : NEXAR_OK;
    int code = NX_EXIT_OK;
    size_t sizes = 1;

    for (uint64_t bytes = q->from; bytes < q->to; bytes *= 4) {
        sizes++;
    }
    nx_progress_begin(plan->progress, sizes * count_rows(q));
    for (size_t i = 0; (err == NEXAR_OK) && (i < q->nkinds); i++) {
        err = nx_plan_over(plan, q->kinds[i], q->from, q->to, &sweeps[i]);
    }
    nx_progress_end(plan->progress);
    if ((err == NEXAR_OK) && (q->plot != NULL)) {
        code = plot(q, plan, sweeps);
    }
    if ((err == NEXAR_OK) && (code == NX_EXIT_OK)) {
        if (q->json) {
            nx_plan_print_json(plan, NULL, sweeps, q->nkinds);
        } else {
            nx_plan_print_head(plan);
            for (size_t i = 0; i < q->nkinds; i++) {
                nx_plan_print_sweep(&sweeps[i]);
            }
            nx_plan_print_legend(true);
        }
    }
    nx_free(sweeps);
    return (err == NEXAR_OK) ? code : nx_cmd_error("plan", err);
}

int nx_cmd_plan(int argc, char **argv)
{
    request q = {
        .ranks = 64,
        .dtype = "f32",
        .latency = 20000,
        .bandwidth = UINT64_C(10000000000),
        .local_latency = 500,
        .local_bandwidth = UINT64_C(48000000000),
        .cpu = 2000,
        .local_cpu = 250,
        .reduce = UINT64_C(80000000000),
    };
    nexar_dtype dtype = NEXAR_F32;
    nexar_config *cfg = NULL;
    nx_progress progress;
    nx_plan plan;
    nexar_err err;
    int code;

    if (!parse(&q, argc, argv, &code)) {
        return code;
    }
    code = check(&q, &dtype);
    if (code != NX_EXIT_OK) {
        return code;
    }
    err = nexar_config_create(&cfg);
    if (err == NEXAR_OK) {
        err = nx_config_apply(cfg);
    }
    if (err != NEXAR_OK) {
        nexar_config_free(cfg);
        return nx_cmd_error("plan", err);
    }
    plan = make_plan(&q, dtype);
    plan.progress = &progress;
    use_settings(&plan, cfg);
    code = q.sweep ? print_sweeps(&q, &plan) : print_points(&q, &plan);
    nexar_config_free(cfg);
    return code;
}
