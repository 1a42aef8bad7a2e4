/* bench.c - `nexar bench`: collectives and messages, measured between ranks. */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/os/sys.h"
#include "base/text/suggest.h"
#include "base/text/text.h"
#include "cmd/cmd.h"
#include "cmd/launch/local.h"
#include "cmd/link_report.h"
#include "cmd/machine.h"
#include "cmd/options.h"
#include "core/config/config.h"
#include "core/launcher/rendezvous.h"
#include "reduce/reduce.h"

enum { OPERANDS = 16 };

/* The command line, as given. */
typedef struct request {
    const char *operands[OPERANDS];
    uint64_t ranks, factor;
    const char *sizes, *dtype, *op, *json, *html;
    nx_bench bench;
} request;

/* ---- options ------------------------------------------------------------------------- */

static const char about[] =
    "Measures operations between ranks and prints, for each size, the time of the\n"
    "slowest rank (median, least, 99 % below) and the bandwidth.  Without a cluster it\n"
    "starts ranks of its own on this machine; in one (nexar run, NEXAR_JOIN, mpirun) every\n"
    "rank runs it and rank 0 prints.\n\n"
    "OPERATION is all, or some of these; without one it is allreduce:\n";

/* The help text, with a list of all operations. */
static void write_help(nx_text *text)
{
    enum { WIDTH = 78 };
    size_t n, column = 0;
    const nx_bench_op *ops = nx_bench_ops(&n);

    nx_text_addf(text, "%s", about);
    for (size_t i = 0; i < n; i++) {
        const size_t len = strlen(ops[i].name) + 2;

        if (column + len > WIDTH) {
            nx_text_addf(text, "\n");
            column = 0;
        }
        nx_text_addf(text, "%s%s%s", (column == 0) ? "  " : " ", ops[i].name,
                     (i + 1 < n) ? "," : "");
        column += len;
    }
}

static bool parse(request *q, int argc, char **argv, int *code)
{
    nx_bench *b = &q->bench;
    const nx_option table[] = {
        {"ranks", NX_OPTION_UINT, &q->ranks, "N", "ranks to start; without it one for each core", 1,
         4096, 'n'},
        {"sizes", NX_OPTION_TEXT, &q->sizes, "FROM-TO", "bytes; or a list: 8,64k,1m", 0, 0, 0},
        {"factor", NX_OPTION_UINT, &q->factor, "N", "from one size to the next", 2, 1 << 20, 0},
        {"iters", NX_OPTION_UINT, &b->iters, "N", "iterations; without it as many as fit in --time",
         1, 10000000, 0},
        {"warmup", NX_OPTION_UINT, &b->warmup, "N", "iterations before them, not measured", 0,
         1000000, 0},
        {"time", NX_OPTION_DURATION, &b->time_ns, "TIME", "what each size may take", 1000000,
         UINT64_C(3600) * 1000000000, 0},
        {"dtype", NX_OPTION_TEXT, &q->dtype, "NAME", "type of the elements", 0, 0, 0},
        {"op", NX_OPTION_TEXT, &q->op, "NAME", "how elements are reduced", 0, 0, 0},
        {"check", NX_OPTION_FLAG, &b->check, NULL, "look at every element of every size", 0, 0, 0},
        {"json", NX_OPTION_TEXT, &q->json, "FILE", "write all as JSON", 0, 0, 0},
        {"html", NX_OPTION_TEXT, &q->html, "FILE", "write a report with pictures", 0, 0, 0},
    };
    nx_text help = {0};
    nx_options options = {
        .command = "bench",
        .operands = "[OPERATION]...",
        .max_operands = OPERANDS,
        .table = table,
        .n = sizeof(table) / sizeof(table[0]),
        .notes = "examples:\n"
                 "  nexar bench allreduce -n 4\n"
                 "  nexar bench all -n 4 --sizes 8-1m --check --html report.html\n"
                 "  nexar run -n 2 nexar bench p2p --sizes 8,64k,16m",
    };

    bool go;

    write_help(&help);
    options.help = nx_text_str(&help);
    if (options.help == NULL) {
        options.help = about;
    }
    go = nx_options_parse(&options, argc, argv, q->operands, code);
    nx_text_fini(&help);
    return go;
}

static int unknown_op(const char *name)
{
    nx_suggest near = nx_suggest_start(name);
    nx_text text = {0};
    size_t n;
    const nx_bench_op *ops = nx_bench_ops(&n);
    int code;

    for (size_t i = 0; i < n; i++) {
        nx_suggest_try(&near, ops[i].name);
        nx_text_addf(&text, "%s, ", ops[i].name);
    }
    nx_text_addf(&text, "all");
    code = nx_usage("bench", "no operation %s%s%s%s accepted: %s", name,
                    (near.best == NULL) ? ";" : ", did you mean ",
                    (near.best == NULL) ? "" : near.best, (near.best == NULL) ? "" : "?",
                    (nx_text_str(&text) == NULL) ? "all" : nx_text_str(&text));
    nx_text_fini(&text);
    return code;
}

/* Adds the operations that |name| stands for: p2p stands for two measurements of messages. */
static bool add_ops(nx_bench *b, const char *name)
{
    size_t n, before = b->nops;
    const nx_bench_op *ops = nx_bench_ops(&n);

    for (size_t i = 0; i < n; i++) {
        const bool means = (strcmp(name, "all") == 0) || (strcmp(name, ops[i].name) == 0) ||
                           ((strcmp(name, "p2p") == 0) && ops[i].pair);
        bool had = false;

        for (size_t k = 0; k < b->nops; k++) {
            had = had || (b->ops[k] == &ops[i]);
        }
        if (means && had) {
            before = SIZE_MAX; /* known, and already added */
        } else if (means) {
            b->ops[b->nops++] = &ops[i];
        }
    }
    return b->nops != before;
}

static int check_ops(request *q)
{
    nx_bench *b = &q->bench;

    if (q->operands[0] == NULL) {
        q->operands[0] = "allreduce";
    }
    for (size_t i = 0; (i < OPERANDS) && (q->operands[i] != NULL); i++) {
        if (!add_ops(b, q->operands[i])) {
            return unknown_op(q->operands[i]);
        }
    }
    return NX_EXIT_OK;
}

static int bad_sizes(const request *q, const char *why)
{
    return nx_usage("bench",
                    "--sizes %s: %s; give FROM-TO or a list, ascending, from 1 to 16g, such as "
                    "8-64m or 8,1k,64k",
                    q->sizes, why);
}

static bool add_size(nx_bench *b, uint64_t bytes)
{
    if ((b->nsizes == NX_BENCH_SIZES) || (bytes == 0) || (bytes > UINT64_C(16) << 30) ||
        ((b->nsizes > 0) && (bytes <= b->sizes[b->nsizes - 1]))) {
        return false;
    }
    b->sizes[b->nsizes++] = bytes;
    return true;
}

/* "8-64m": the first size times powers of the factor, and the last size. */
static int check_range(request *q, char *copy, char *dash)
{
    uint64_t from, to;

    *dash = '\0';
    if (!nx_parse_size(copy, &from) || !nx_parse_size(dash + 1, &to)) {
        return bad_sizes(q, "not two sizes");
    }
    if ((from == 0) || (from > to)) {
        return bad_sizes(q, "not ascending");
    }
    for (uint64_t bytes = from; bytes < to; bytes *= q->factor) {
        if (!add_size(&q->bench, bytes)) {
            return bad_sizes(q, "too many, or too large");
        }
    }
    return add_size(&q->bench, to) ? NX_EXIT_OK : bad_sizes(q, "too many, or too large");
}

static int check_sizes(request *q)
{
    char copy[512];
    char *dash, *comma;
    uint64_t bytes;

    if (strlen(q->sizes) >= sizeof(copy)) {
        return bad_sizes(q, "too many");
    }
    (void)snprintf(copy, sizeof(copy), "%s", q->sizes);
    dash = strchr(copy, '-');
    if (dash != NULL) {
        return check_range(q, copy, dash);
    }
    for (char *next = copy; next != NULL; next = comma) {
        comma = strchr(next, ',');
        if (comma != NULL) {
            *comma++ = '\0';
        }
        if (!nx_parse_size(next, &bytes) || !add_size(&q->bench, bytes)) {
            return bad_sizes(q, "not accepted");
        }
    }
    return NX_EXIT_OK;
}

static int check_dtype(request *q)
{
    nx_text names = {0};
    int code;

    for (int i = 0; i < NX_DTYPES; i++) {
        if (strcmp(q->dtype, nexar_dtype_name((nexar_dtype)i)) == 0) {
            q->bench.dtype = (nexar_dtype)i;
            nx_text_fini(&names);
            return NX_EXIT_OK;
        }
        nx_text_addf(&names, "%s%s", (i == 0) ? "" : ", ", nexar_dtype_name((nexar_dtype)i));
    }
    code = nx_usage("bench", "--dtype %s: not accepted; accepted: %s", q->dtype,
                    (nx_text_str(&names) == NULL) ? "f32" : nx_text_str(&names));
    nx_text_fini(&names);
    return code;
}

static int check_op(request *q)
{
    nx_text names = {0};
    int code;

    for (int i = 0; i < NX_OPS; i++) {
        if (strcmp(q->op, nexar_op_name((nexar_op)i)) == 0) {
            q->bench.op = (nexar_op)i;
            nx_text_fini(&names);
            return nx_reduce_legal(q->bench.dtype, q->bench.op)
                       ? NX_EXIT_OK
                       : nx_usage("bench", "--op %s is for whole numbers, not for --dtype %s",
                                  q->op, q->dtype);
        }
        nx_text_addf(&names, "%s%s", (i == 0) ? "" : ", ", nexar_op_name((nexar_op)i));
    }
    code = nx_usage("bench", "--op %s: not accepted; accepted: %s", q->op,
                    (nx_text_str(&names) == NULL) ? "sum" : nx_text_str(&names));
    nx_text_fini(&names);
    return code;
}

static int cannot_write(const char *path, int why)
{
    char text[128];

    (void)nx_usage("bench", "cannot write %s: %s", path, strerror_r(why, text, sizeof(text)));
    return NX_EXIT_FAILURE;
}

/* Checks the output file before the measurement. */
static int check_file(const char *path)
{
    int fd = (path == NULL) ? -1 : nx_sys_open(path, O_WRONLY | O_CREAT, 0666);

    if (path == NULL) {
        return NX_EXIT_OK;
    }
    if (fd < 0) {
        return cannot_write(path, errno);
    }
    (void)nx_sys_close(fd);
    return NX_EXIT_OK;
}

static int check(request *q)
{
    int code = check_ops(q);

    if (code == NX_EXIT_OK) {
        code = check_sizes(q);
    }
    if (code == NX_EXIT_OK) {
        code = check_dtype(q);
    }
    return (code == NX_EXIT_OK) ? check_op(q) : code;
}

/* ---- a rank -------------------------------------------------------------------------- */

/* Reports what this world cannot measure; called on rank 0. */
static int refuse(const request *q)
{
    const nx_bench *b = &q->bench;
    const bool named = strcmp(q->operands[0], "all") != 0;

    if ((q->ranks != 0) && (q->ranks != (uint64_t)b->size)) {
        return nx_usage("bench", "--ranks %llu: this world has %d; leave --ranks out",
                        (unsigned long long)q->ranks, b->size);
    }
    if (b->check && !nx_bench_exact(b)) {
        return nx_usage("bench", "--check: %s holds no exact sums of %d ranks; give --dtype f32",
                        q->dtype, b->size);
    }
    for (size_t i = 0; (i < b->nops) && named; i++) {
        if (!nx_bench_fits(b, b->ops[i])) {
            return b->ops[i]->pair
                       ? nx_usage("bench", "%s needs two ranks; give -n 2", b->ops[i]->name)
                       : nx_usage("bench", "%s has no --op %s of --dtype %s on %d ranks",
                                  b->ops[i]->name, q->op, q->dtype, b->size);
        }
    }
    return NX_EXIT_OK;
}

static nexar_err make_room(nx_bench *b)
{
    const size_t elem = nexar_dtype_size(b->dtype);

    b->room = (size_t)b->sizes[b->nsizes - 1] + elem * (size_t)b->size;
    b->a = nx_zalloc(b->room);
    b->b = nx_zalloc(b->room);
    b->counts = nx_calloc((size_t)b->size, sizeof(*b->counts));
    b->displs = nx_calloc((size_t)b->size, sizeof(*b->displs));
    if ((b->a == NULL) || (b->b == NULL) || (b->counts == NULL) || (b->displs == NULL)) {
        return nx_fail_nomem("two buffers of the largest size");
    }
    memset(b->a, 0, b->room); /* makes the pages resident */
    memset(b->b, 0, b->room);
    return NEXAR_OK;
}

static void keep(nx_bench_result *r, const nx_bench_row *row)
{
    r->rows[r->n++] = *row;
    r->wrong += (row->wrong > 0) ? (uint64_t)row->wrong : 0;
}

static nexar_err measure_op(const nx_bench *b, const nx_bench_op *op, nx_bench_result *r)
{
    const bool prints = b->rank == 0;
    nexar_err err = NEXAR_OK;
    size_t before = SIZE_MAX;

    if (prints) {
        nx_progress_end(b->progress);
        nx_bench_print_op(b, op);
    }
    for (size_t i = 0; (i < b->nsizes) && (err == NEXAR_OK); i++) {
        const size_t count = nx_bench_count(b, op, b->sizes[i]);
        nx_bench_row row;

        nx_progress_step(b->progress, "%s, %llu bytes", op->name, (unsigned long long)b->sizes[i]);
        if (count == before) {
            continue; /* equals the previous size in whole elements */
        }
        before = count;
        err = nx_bench_measure(b, op, b->sizes[i], &row);
        if ((err == NEXAR_OK) && prints) {
            nx_progress_end(b->progress);
            nx_bench_print_row(b, &row);
        }
        if (err == NEXAR_OK) {
            keep(r, &row);
        }
    }
    return err;
}

static nexar_err measure_all(const nx_bench *b, nx_bench_result *r)
{
    nexar_err err = NEXAR_OK;

    if (b->rank == 0) {
        nx_bench_print_head(b);
    }
    for (size_t i = 0; (i < b->nops) && (err == NEXAR_OK); i++) {
        if (nx_bench_fits(b, b->ops[i])) {
            err = measure_op(b, b->ops[i], r);
        }
    }
    nx_progress_end(b->progress);
    if ((err == NEXAR_OK) && (b->size > 1)) {
        nx_links_transport(b->world, (b->rank == 0) ? 1 : 0, r->transport);
        err = nexar_barrier(b->world); /* links close when a rank leaves */
    }
    return err;
}

static int write_file(const char *path, const nx_bench *b, const nx_bench_result *r,
                      void (*put)(FILE *, const nx_bench *, const nx_bench_result *))
{
    FILE *out = fopen(path, "we");
    bool failed;
    int why = errno;

    if (out == NULL) {
        return cannot_write(path, why);
    }
    put(out, b, r);
    failed = ferror(out) != 0;
    why = errno;
    if ((fclose(out) != 0) && !failed) {
        failed = true;
        why = errno;
    }
    return failed ? cannot_write(path, why) : NX_EXIT_OK;
}

/* Rank 0: writes the output at the end. */
static int report(const request *q, const nx_bench_result *r)
{
    int code = NX_EXIT_OK;

    nx_bench_print_end(&q->bench, r);
    if (q->json != NULL) {
        code = write_file(q->json, &q->bench, r, nx_bench_write_json);
    }
    if ((code == NX_EXIT_OK) && (q->html != NULL)) {
        code = write_file(q->html, &q->bench, r, nx_bench_write_html);
    }
    return ((code == NX_EXIT_OK) && (r->wrong > 0)) ? NX_EXIT_FAILURE : code;
}

static int measure(request *q)
{
    nx_bench *b = &q->bench;
    nx_progress progress;
    nx_bench_result r = {.room = b->nops * b->nsizes};
    nexar_err err = make_room(b);
    int code = NX_EXIT_OK;

    r.rows = nx_calloc(r.room, sizeof(*r.rows));
    if ((r.rows == NULL) && (err == NEXAR_OK)) {
        err = nx_fail_nomem("the rows");
    }
    nx_progress_begin(&progress, b->nops * b->nsizes);
    progress.terminal = progress.terminal && (b->rank == 0);
    b->progress = &progress;
    if (err == NEXAR_OK) {
        err = measure_all(b, &r);
    }
    if (err != NEXAR_OK) {
        code = nx_cmd_error("bench", err);
    } else if (b->rank == 0) {
        code = report(q, &r);
    }
    b->progress = NULL;
    nx_free(r.rows);
    nx_free(b->a);
    nx_free(b->b);
    nx_free(b->counts);
    nx_free(b->displs);
    return code;
}

static int run_rank(request *q)
{
    nx_bench *b = &q->bench;
    nexar_err err = nexar_init(b->cfg, &b->world);
    int code;

    if (err != NEXAR_OK) {
        return nx_cmd_error("bench", err);
    }
    b->rank = nexar_rank(b->world);
    b->size = nexar_size(b->world);
    /* One rank reports and fails. If other ranks failed too, the launcher could name one of
     * them. */
    code = (b->rank == 0) ? refuse(q) : NX_EXIT_OK;
    if (code == NX_EXIT_OK) {
        uint64_t refused = 0;

        err = nexar_broadcast(b->world, &refused, 1, NEXAR_U64, 0);
        code = (err != NEXAR_OK) ? nx_cmd_error("bench", err)
               : (refused != 0)  ? NX_EXIT_OK
                                 : measure(q);
    } else {
        uint64_t refused = 1;

        (void)!nexar_broadcast(b->world, &refused, 1, NEXAR_U64, 0);
    }
    err = nexar_finalize(b->world);
    return ((err == NEXAR_OK) || (code != NX_EXIT_OK)) ? code : nx_cmd_error("bench", err);
}

/* ---- starting ranks ------------------------------------------------------------------ */

static uint64_t ranks_of(const request *q)
{
    int allowed, online;

    nx_machine_cores(&allowed, &online);
    return (q->ranks != 0) ? q->ranks : (allowed < 2) ? 2 : (allowed > 16) ? 16 : (uint64_t)allowed;
}

/* Runs the same command as each rank. */
static int start(const request *q, int argc, char **argv)
{
    nx_local job = {.command = "bench", .n = ranks_of(q), .grace_ns = UINT64_C(2000000000)};
    char path[4096];
    const ssize_t len = readlink("/proc/self/exe", path, sizeof(path) - 1);
    int code;

    if (len < 0) {
        return nx_cmd_error("bench", nx_fail_sys("readlink", "/proc/self/exe", errno));
    }
    path[len] = '\0';
    job.argv = nx_calloc((size_t)argc + 2, sizeof(*job.argv));
    if (job.argv == NULL) {
        return nx_cmd_error("bench", nx_fail_nomem("the ranks"));
    }
    job.argv[0] = path;
    memcpy(&job.argv[1], argv, sizeof(*argv) * (size_t)argc);
    code = nx_local_run(&job);
    nx_free(job.argv);
    return code;
}

int nx_cmd_bench(int argc, char **argv)
{
    request q = {.sizes = "8-64m",
                 .dtype = "f32",
                 .op = "sum",
                 .factor = 4,
                 .bench = {.warmup = 3, .time_ns = UINT64_C(250000000)}};
    nexar_config *cfg = NULL;
    int code = NX_EXIT_OK;

    if (!parse(&q, argc, argv, &code)) {
        return code;
    }
    code = check(&q);
    if (code != NX_EXIT_OK) {
        return code;
    }
    nexar_err err = nexar_config_create(&cfg);
    if (err != NEXAR_OK) {
        return nx_cmd_error("bench", err);
    }
    q.bench.cfg = cfg;
    if (nx_rendezvous_is_due(cfg)) {
        code = run_rank(&q);
    } else {
        q.bench.size = (int)ranks_of(&q);
        code = check_file(q.json);
        if (code == NX_EXIT_OK) {
            code = check_file(q.html);
        }
        if (code == NX_EXIT_OK) {
            code = refuse(&q);
        }
        if (code == NX_EXIT_OK) {
            code = start(&q, argc, argv);
        }
    }
    nexar_config_free(cfg);
    return code;
}
