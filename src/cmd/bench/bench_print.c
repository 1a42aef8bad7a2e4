/* bench_print.c - prints each row of the table as it arrives, and the JSON. */
#include <inttypes.h>
#include <string.h>

#include "bench.h"
#include "cmd/machine.h"
#include "cmd/print/text_table.h"
#include "core/config/config.h"

static const char *op_name(const nx_bench *b, const nx_bench_op *op)
{
    return op->reduces ? nexar_op_name(b->op) : "-";
}

void nx_bench_print_head(const nx_bench *b)
{
    int allowed, online;
    char cpu[NX_MACHINE_ROOM];

    nx_machine_cores(&allowed, &online);
    (void)printf("# nexar %s: %d %s; rank 0 may use %d %s of %s\n", nexar_version(), b->size,
                 (b->size == 1) ? "rank" : "ranks", allowed, (allowed == 1) ? "core" : "cores",
                 nx_machine_cpu(cpu));
    (void)printf("# time: of the slowest rank, median of all iterations; GB: 10^9 bytes\n");
}

void nx_bench_print_op(const nx_bench *b, const nx_bench_op *op)
{
    (void)b;
    (void)printf("\n%s\n%12s %12s %5s %5s %6s %11s %11s %11s %9s %9s %7s\n", op->name, "size",
                 "count", "type", "op", "iters", "time", "min", "p99", "algbw", "busbw", "wrong");
    (void)printf("%12s %12s %5s %5s %6s %11s %11s %11s %9s %9s\n", "(B)", "(elements)", "", "", "",
                 "(us)", "(us)", "(us)", "(GB/s)", "(GB/s)");
    (void)fflush(stdout);
}

void nx_bench_print_row(const nx_bench *b, const nx_bench_row *row)
{
    char wrong[32] = "-", alg[32] = "-", bus[32] = "-";

    if (row->wrong >= 0) {
        (void)snprintf(wrong, sizeof(wrong), "%" PRId64, row->wrong);
    }
    if (row->op->sized) {
        (void)snprintf(alg, sizeof(alg), "%.3f", row->algbw / 1e9);
        (void)snprintf(bus, sizeof(bus), "%.3f", row->busbw / 1e9);
    }
    (void)printf("%12" PRIu64 " %12zu %5s %5s %6" PRIu64 " %11.2f %11.2f %11.2f %9s %9s %7s\n",
                 row->bytes, row->count, row->op->sized ? nexar_dtype_name(b->dtype) : "-",
                 op_name(b, row->op), row->iters, row->median * 1e6, row->min * 1e6, row->p99 * 1e6,
                 alg, bus, wrong);
    (void)fflush(stdout);
}

void nx_bench_print_end(const nx_bench *b, const nx_bench_result *r)
{
    (void)printf("\n# carried by %s", (r->transport[0] == '\0') ? "memory alone" : r->transport);
    if (b->check) {
        (void)printf("; every size was checked: %" PRIu64 " wrong %s", r->wrong,
                     (r->wrong == 1) ? "element" : "elements");
    }
    (void)printf("\n");
}

/* ---- JSON ---------------------------------------------------------------------------- */

static void put_string(FILE *out, const char *name, const char *value)
{
    (void)fprintf(out, "  \"%s\": ", name);
    nx_json_string(out, value);
    (void)fprintf(out, ",\n");
}

static void put_settings(FILE *out, const nexar_config *cfg)
{
    const char *comma = "";

    (void)fprintf(out, "  \"settings\": {");
    for (int i = 0; i < NX_SETTINGS; i++) {
        char buf[NX_NUMBER_ROOM];

        if (!nx_settings[i].secret) {
            (void)fprintf(out, "%s\n    \"%s\": ", comma, nx_settings[i].name);
            nx_json_string(out, nx_config_text(cfg, (nx_setting_id)i, buf));
            comma = ",";
        }
    }
    (void)fprintf(out, "\n  },\n");
}

static void put_row(FILE *out, const nx_bench *b, const nx_bench_row *row)
{
    (void)fprintf(out,
                  "    {\"name\": \"%s\", \"size\": %" PRIu64 ", \"bytes\": %" PRIu64
                  ", \"count\": %zu, \"dtype\": \"%s\", \"op\": \"%s\", \"iters\": %" PRIu64 ", ",
                  row->op->name, row->size, row->bytes, row->count, nexar_dtype_name(b->dtype),
                  op_name(b, row->op), row->iters);
    (void)fprintf(out, "\"time\": %.9g, \"min\": %.9g, \"p99\": %.9g, \"max\": %.9g, ", row->median,
                  row->min, row->p99, row->max);
    (void)fprintf(out, "\"algbw\": %.9g, \"busbw\": %.9g, \"wrong\": ", row->algbw, row->busbw);
    if (row->wrong < 0) {
        (void)fprintf(out, "null}");
    } else {
        (void)fprintf(out, "%" PRId64 "}", row->wrong);
    }
}

void nx_bench_write_json(FILE *out, const nx_bench *b, const nx_bench_result *r)
{
    char buf[NX_MACHINE_ROOM];
    int allowed, online;

    nx_machine_cores(&allowed, &online);
    (void)fprintf(out, "{\n");
    put_string(out, "nexar", nexar_version());
    put_string(out, "cpu", nx_machine_cpu(buf));
    put_string(out, "kernel", nx_machine_kernel(buf));
    put_string(out, "compiler", nx_machine_compiler(buf));
    (void)fprintf(out, "  \"cores\": %d,\n  \"ranks\": %d,\n", allowed, b->size);
    put_string(out, "transport", r->transport);
    put_settings(out, b->cfg);
    (void)fprintf(out, "  \"rows\": [\n");
    for (size_t i = 0; i < r->n; i++) {
        put_row(out, b, &r->rows[i]);
        (void)fprintf(out, "%s\n", (i + 1 < r->n) ? "," : "");
    }
    (void)fprintf(out, "  ]\n}\n");
}
