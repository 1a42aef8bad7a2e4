/*
 * bench_html.c - the report: one page that needs nothing else, with the machine, the
 * settings, and for each operation its times and bandwidths as pictures and numbers.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <time.h>

#include "cmd/bench.h"
#include "cmd/figures.h"
#include "cmd/machine.h"
#include "cmd/svg.h"
#include "core/config/config.h"

/* Of a picture, in pixels. */
enum { WIDTH = 560, HEIGHT = 360, LEFT = 84, RIGHT = 24, TOP = 56, BOTTOM = 54 };

enum { CURVES = 3 };

/* One picture: some numbers of each row. */
typedef struct picture {
    const char *title;
    const char *names[CURVES];
    double (*values[CURVES])(const nx_bench_row *row);
    size_t n;
    const char *(*label)(double value, char *buf);
} picture;

static double median_of(const nx_bench_row *row)
{
    return row->median;
}

static double min_of(const nx_bench_row *row)
{
    return row->min;
}

static double p99_of(const nx_bench_row *row)
{
    return row->p99;
}

static double busbw_of(const nx_bench_row *row)
{
    return row->busbw;
}

static double algbw_of(const nx_bench_row *row)
{
    return row->algbw;
}

static const picture pictures[] = {
    {"time", {"median", "least", "99 % below"}, {median_of, min_of, p99_of}, 3, nx_figure_time},
    {"bandwidth", {"bus", "algorithm"}, {busbw_of, algbw_of}, 2, nx_figure_flow},
};

/* What is 0, as the bus of a single rank, has no logarithm. */
static double positive(double value)
{
    return (value > 1e-9) ? value : 1e-9;
}

static void set_range(nx_svg_panel *p, const picture *pic, const nx_bench_row rows[], size_t n)
{
    double least = INFINITY, most = 0;

    for (size_t i = 0; i < n; i++) {
        for (size_t c = 0; c < pic->n; c++) {
            const double value = positive(pic->values[c](&rows[i]));

            least = (value < least) ? value : least;
            most = (value > most) ? value : most;
        }
    }
    nx_svg_range(p, (double)rows[0].bytes, (double)rows[n - 1].bytes, least, most);
}

static void put_curves(const nx_svg_panel *p, const picture *pic, const nx_bench_row rows[],
                       size_t n)
{
    double bytes[NX_BENCH_SIZES], values[NX_BENCH_SIZES];

    for (size_t c = pic->n; c-- > 0;) { /* the first one on top */
        for (size_t i = 0; i < n; i++) {
            bytes[i] = (double)rows[i].bytes;
            values[i] = positive(pic->values[c](&rows[i]));
        }
        nx_svg_line(p, c, bytes, values, n);
        for (size_t i = 0; i < n; i++) {
            nx_svg_marker(p->out, c, nx_svg_x(p, bytes[i]), nx_svg_y(p, values[i]),
                          (c == 0) ? 3.6 : 2.6, c == 0);
        }
    }
}

static void put_picture(FILE *out, const picture *pic, const nx_bench_row rows[], size_t n)
{
    nx_svg_panel p = {
        .out = out, .x = LEFT, .y = TOP, .w = WIDTH - LEFT - RIGHT, .h = HEIGHT - TOP - BOTTOM};

    (void)fprintf(out, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"%s of %s\">\n", WIDTH,
                  HEIGHT, pic->title, rows[0].op->name);
    (void)fprintf(out, "<rect class=\"back\" width=\"%d\" height=\"%d\" rx=\"8\"/>\n", WIDTH,
                  HEIGHT);
    (void)fprintf(out, "<text x=\"%d\" y=\"22\" class=\"name\">%s</text>\n", LEFT, pic->title);
    (void)nx_svg_legend(out, LEFT, 40, p.w, pic->names, pic->n, NULL);
    set_range(&p, pic, rows, n);
    nx_svg_axes(&p, pic->label);
    put_curves(&p, pic, rows, n);
    (void)fprintf(out, "</svg>\n");
}

/* ---- numbers -------------------------------------------------------------------------- */

static void put_row(FILE *out, const nx_bench_row *row)
{
    char text[NX_FIGURE_ROOM];

    (void)fprintf(out, "<tr><td>%s</td><td>%zu</td>", nx_figure_bytes(row->bytes, text),
                  row->count);
    (void)fprintf(out, "<td>%" PRIu64 "</td><td><b>%.2f</b></td><td>%.2f</td><td>%.2f</td>",
                  row->iters, row->median * 1e6, row->min * 1e6, row->p99 * 1e6);
    if (row->op->sized) {
        (void)fprintf(out, "<td>%.3f</td><td>%.3f</td>", row->algbw / 1e9, row->busbw / 1e9);
    } else {
        (void)fprintf(out, "<td>-</td><td>-</td>");
    }
    if (row->wrong < 0) {
        (void)fprintf(out, "<td>-</td></tr>\n");
    } else {
        (void)fprintf(out, "<td%s>%" PRId64 "</td></tr>\n",
                      (row->wrong > 0) ? " class=\"bad\"" : "", row->wrong);
    }
}

static void put_op(FILE *out, const nx_bench *b, const nx_bench_row rows[], size_t n)
{
    const nx_bench_op *op = rows[0].op;

    (void)fprintf(out, "<h2 id=\"%s\">%s", op->name, op->name);
    if (op->reduces) {
        (void)fprintf(out, " <small>%s</small>", nexar_op_name(b->op));
    }
    (void)fprintf(out, "</h2>\n");
    if (op->sized) {
        (void)fprintf(out, "<div class=\"pictures\">\n");
        for (size_t i = 0; i < sizeof(pictures) / sizeof(pictures[0]); i++) {
            put_picture(out, &pictures[i], rows, n);
        }
        (void)fprintf(out, "</div>\n");
    }
    (void)fprintf(out, "<div class=\"wide\"><table><tr><th>size</th><th>count</th><th>iterations"
                       "</th><th>time us</th><th>least us</th><th>99 %% us</th><th>algorithm GB/s"
                       "</th><th>bus GB/s</th><th>wrong</th></tr>\n");
    for (size_t i = 0; i < n; i++) {
        put_row(out, &rows[i]);
    }
    (void)fprintf(out, "</table></div>\n");
}

/* ---- the page --------------------------------------------------------------------------- */

static void put_fact(FILE *out, const char *name, const char *value)
{
    (void)fprintf(out, "<tr><th>%s</th><td>", name);
    nx_svg_text(out, value);
    (void)fprintf(out, "</td></tr>\n");
}

static void put_settings(FILE *out, const nexar_config *cfg)
{
    for (int i = 0; i < NX_SETTINGS; i++) {
        char buf[NX_NUMBER_ROOM];
        const char *text = nx_config_text(cfg, (nx_setting_id)i, buf);

        if (!nx_settings[i].secret && (text[0] != '\0')) {
            put_fact(out, nx_settings[i].name, text);
        }
    }
}

static void put_facts(FILE *out, const nx_bench *b, const nx_bench_result *r)
{
    char buf[NX_MACHINE_ROOM], number[64];
    time_t now = time(NULL);
    struct tm parts;
    int allowed, online;

    nx_machine_cores(&allowed, &online);
    (void)fprintf(out, "<table class=\"facts\">\n");
    (void)snprintf(number, sizeof(number), "%d, carried by %s", b->size,
                   (r->transport[0] == '\0') ? "memory alone" : r->transport);
    put_fact(out, "ranks", number);
    put_fact(out, "element type", nexar_dtype_name(b->dtype));
    put_fact(out, "processor of rank 0", nx_machine_cpu(buf));
    (void)snprintf(number, sizeof(number), "%d of %d", allowed, online);
    put_fact(out, "cores that it may use", number);
    put_fact(out, "kernel", nx_machine_kernel(buf));
    (void)snprintf(buf, sizeof(buf), "%s", nexar_version());
    put_fact(out, "nexar", buf);
    put_fact(out, "compiler", nx_machine_compiler(buf));
    if ((gmtime_r(&now, &parts) != NULL) &&
        (strftime(number, sizeof(number), "%Y-%m-%d %H:%M UTC", &parts) > 0)) {
        put_fact(out, "when", number);
    }
    (void)fprintf(out, "</table>\n<details><summary>settings</summary><table class=\"facts\">\n");
    put_settings(out, b->cfg);
    (void)fprintf(out, "</table></details>\n");
}

static void put_head(FILE *out)
{
    (void)fprintf(
        out, "<!DOCTYPE html>\n<html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\">\n<head>\n"
             "<meta charset=\"utf-8\"/>\n"
             "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
             "<meta name=\"color-scheme\" content=\"light dark\"/>\n<title>nexar bench</title>\n");
    nx_svg_style(out);
    (void)fprintf(
        out, "<style>\n"
             "body{font:15px/1.5 system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif;"
             "max-width:1180px;margin:0 auto;padding:1.5rem;color:#1f2328;background:#ffffff}\n"
             "h2{margin:2.2rem 0 .6rem}h2 small{color:#57606a;font-weight:400}\n"
             "nav a{margin-right:.8rem}a{color:#0969da}\n"
             ".pictures{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%%,26rem),"
             "1fr));gap:1rem}\n.pictures svg{width:100%%;height:auto;border:1px solid #d8dee4;"
             "border-radius:8px}\n.wide{overflow-x:auto}\n"
             "table{border-collapse:collapse;margin:.8rem 0;font-variant-numeric:tabular-nums}\n"
             "th,td{padding:.2rem .8rem;text-align:right;border-bottom:1px solid #d8dee4;"
             "white-space:nowrap}\nth{font-weight:600}\n"
             ".facts th,.facts td{text-align:left;white-space:normal}\n.bad{color:#cf222e;"
             "font-weight:700}\n"
             "@media (prefers-color-scheme:dark){body{color:#e6edf3;background:#0d1117}"
             "h2 small{color:#9198a1}a{color:#4493f8}th,td{border-color:#2d333b}"
             ".pictures svg{border-color:#2d333b}.bad{color:#f85149}}\n"
             "</style>\n</head>\n<body>\n<h1>nexar bench</h1>\n");
}

/* Rows from |from| on that are of one operation. */
static size_t of_one_op(const nx_bench_result *r, size_t from)
{
    size_t n = 1;

    while ((from + n < r->n) && (r->rows[from + n].op == r->rows[from].op)) {
        n++;
    }
    return n;
}

void nx_bench_write_html(FILE *out, const nx_bench *b, const nx_bench_result *r)
{
    put_head(out);
    put_facts(out, b, r);
    (void)fprintf(out,
                  "<p>A time is that of the slowest rank, the median of all iterations; before "
                  "each of them is a barrier that is not measured. Algorithm bandwidth is size "
                  "by time; bus bandwidth is what the busiest link must have carried. GB are "
                  "10<sup>9</sup> bytes.</p>\n<nav>");
    for (size_t i = 0; i < r->n; i += of_one_op(r, i)) {
        (void)fprintf(out, "<a href=\"#%s\">%s</a>", r->rows[i].op->name, r->rows[i].op->name);
    }
    (void)fprintf(out, "</nav>\n");
    for (size_t i = 0; i < r->n; i += of_one_op(r, i)) {
        put_op(out, b, &r->rows[i], of_one_op(r, i));
    }
    (void)fprintf(out, "</body>\n</html>\n");
}
