/*
 * bench_html.c - the report: one self-contained page with the machine, the settings, and for each
 * operation its times and bandwidths as pictures and numbers.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <time.h>

#include "bench.h"
#include "cmd/machine.h"
#include "cmd/plan/figures.h"
#include "cmd/plan/svg.h"
#include "core/config/config.h"

/* The dimensions of a picture, in pixels. */
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
    {"time", {"median", "min", "p99"}, {median_of, min_of, p99_of}, 3, nx_figure_time},
    {"bandwidth", {"bus", "algorithm"}, {busbw_of, algbw_of}, 2, nx_figure_flow},
};

/* A value of 0, such as the bus bandwidth of a single rank, has no logarithm. */
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

/* A marker that shows its value when the pointer is on or near it. */
static void put_point(const nx_svg_panel *p, const picture *pic, size_t curve, uint64_t bytes,
                      double value)
{
    const double x = nx_svg_x(p, (double)bytes), y = nx_svg_y(p, value);
    char size[NX_FIGURE_ROOM], text[NX_FIGURE_ROOM];

    (void)fprintf(p->out, "<g><title>%s: %s %s</title>", nx_figure_bytes(bytes, size),
                  pic->names[curve], pic->label(value, text));
    nx_svg_marker(p->out, curve, x, y, (curve == 0) ? 3.6 : 2.6, curve == 0);
    (void)fprintf(p->out, "<circle class=\"near\" cx=\"%.1f\" cy=\"%.1f\" r=\"8\"/></g>\n", x, y);
}

static void put_curves(const nx_svg_panel *p, const picture *pic, const nx_bench_row rows[],
                       size_t n)
{
    double bytes[NX_BENCH_SIZES], values[NX_BENCH_SIZES];

    for (size_t c = pic->n; c-- > 0;) { /* draws the first curve on top */
        for (size_t i = 0; i < n; i++) {
            bytes[i] = (double)rows[i].bytes;
            values[i] = positive(pic->values[c](&rows[i]));
        }
        nx_svg_line(p, c, bytes, values, n);
        for (size_t i = 0; i < n; i++) {
            put_point(p, pic, c, rows[i].bytes, values[i]);
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

/* ---- numbers ------------------------------------------------------------------------- */

enum { SIZE, COUNT, ITERATIONS, MEDIAN, LEAST, P99, ALGORITHM, BUS, WRONG, COLUMNS };

/* Heads of the columns; on a narrow screen each appears beside its number. */
static const char *const heads[COLUMNS] = {"size",           "count",    "iterations",
                                           "median us",      "min us",   "p99 us",
                                           "algorithm GB/s", "bus GB/s", "wrong"};

static void put_cell(FILE *out, int column, const char *text, bool bad)
{
    (void)fprintf(out, "<td data-head=\"%s\"%s>%s</td>", heads[column], bad ? " class=\"bad\"" : "",
                  text);
}

static void put_number(FILE *out, int column, double value, int digits)
{
    char text[64];

    (void)snprintf(text, sizeof(text), "%.*f", digits, value);
    put_cell(out, column, text, (column == WRONG) && (value > 0));
}

static void put_row(FILE *out, const nx_bench_row *row)
{
    char text[NX_FIGURE_ROOM];

    (void)fprintf(out, "<tr>");
    put_cell(out, SIZE, nx_figure_bytes(row->bytes, text), false);
    put_number(out, COUNT, (double)row->count, 0);
    put_number(out, ITERATIONS, (double)row->iters, 0);
    put_number(out, MEDIAN, row->median * 1e6, 2);
    put_number(out, LEAST, row->min * 1e6, 2);
    put_number(out, P99, row->p99 * 1e6, 2);
    if (row->op->sized) {
        put_number(out, ALGORITHM, row->algbw / 1e9, 3);
        put_number(out, BUS, row->busbw / 1e9, 3);
    } else {
        put_cell(out, ALGORITHM, "-", false);
        put_cell(out, BUS, "-", false);
    }
    if (row->wrong < 0) {
        put_cell(out, WRONG, "-", false);
    } else {
        put_number(out, WRONG, (double)row->wrong, 0);
    }
    (void)fprintf(out, "</tr>\n");
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
    (void)fprintf(out, "<table class=\"rows\"><thead><tr>");
    for (int i = 0; i < COLUMNS; i++) {
        (void)fprintf(out, "<th>%s</th>", heads[i]);
    }
    (void)fprintf(out, "</tr></thead><tbody>\n");
    for (size_t i = 0; i < n; i++) {
        put_row(out, &rows[i]);
    }
    (void)fprintf(out, "</tbody></table>\n");
}

/* ---- summary ------------------------------------------------------------------------- */

/* The peak bandwidth and the least time of one operation. */
static void put_best(FILE *out, const nx_bench_row rows[], size_t n)
{
    const nx_bench_row *fast = &rows[0], *wide = &rows[0];
    char text[NX_FIGURE_ROOM], size[NX_FIGURE_ROOM];

    for (size_t i = 1; i < n; i++) {
        fast = (rows[i].median < fast->median) ? &rows[i] : fast;
        wide = (rows[i].busbw > wide->busbw) ? &rows[i] : wide;
    }
    (void)fprintf(out, "<a class=\"best\" href=\"#%s\"><h3>%s</h3>", rows[0].op->name,
                  rows[0].op->name);
    if (rows[0].op->sized) {
        (void)fprintf(out, "<p><b>%s</b> peak bus bandwidth, at %s</p>",
                      nx_figure_flow(wide->busbw, text), nx_figure_bytes(wide->bytes, size));
    }
    (void)fprintf(out, "<p><b>%s</b> least latency%s%s</p></a>\n",
                  nx_figure_time(fast->median, text), rows[0].op->sized ? ", at " : "",
                  rows[0].op->sized ? nx_figure_bytes(fast->bytes, size) : "");
}

/* ---- the page ------------------------------------------------------------------------ */

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
        out,
        "<style>\n"
        "body{font:15px/1.5 system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif;"
        "max-width:1180px;margin:0 auto;padding:1.5rem;color:#1f2328;background:#ffffff}\n"
        "h2{margin:2.2rem 0 .6rem}h2 small{color:#57606a;font-weight:400}\n"
        "a{color:#0969da}\n"
        ".bests{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%%,17rem),1fr));"
        "gap:.8rem;margin:1rem 0}.best{display:block;border:1px solid #d8dee4;border-radius:8px;"
        "padding:.6rem 1rem;color:inherit;text-decoration:none}.best:hover{border-color:#0969da}"
        ".best h3{margin:0 0 .3rem;font-size:1rem}.best p{margin:.1rem 0;color:#57606a}"
        ".best b{font-size:1.35rem;color:#1f2328;margin-right:.3rem}\n"
        ".near{fill:transparent;stroke:none}\n"
        ".pictures{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%%,26rem),"
        "1fr));gap:1rem}\n.pictures svg{width:100%%;height:auto;border:1px solid #d8dee4;"
        "border-radius:8px}\n"
        "table{border-collapse:collapse;margin:.8rem 0;font-variant-numeric:tabular-nums}\n"
        "th,td{padding:.2rem .8rem;text-align:right;border-bottom:1px solid #d8dee4;"
        "white-space:nowrap}\nth{font-weight:600}.rows td:nth-child(4){font-weight:700}\n"
        ".facts th,.facts td{text-align:left;white-space:normal;vertical-align:top;"
        "overflow-wrap:anywhere}.facts th{overflow-wrap:normal}\n.bad{color:#cf222e;"
        "font-weight:700}\n"
        "@media (max-width:52rem){body{padding:1rem}.rows,.rows tbody{display:block}"
        ".rows thead{display:none}.rows tr{display:grid;grid-template-columns:1fr 1fr;"
        "column-gap:1.2rem;padding:.5rem 0;border-bottom:1px solid #d8dee4}"
        ".rows td{display:flex;justify-content:space-between;border:0;padding:.1rem 0}"
        ".rows td::before{content:attr(data-head);color:#57606a;font-weight:400}"
        ".rows td:first-child{grid-column:1/-1;font-weight:700}"
        ".rows td:first-child::before{content:none}}\n"
        "@media (prefers-color-scheme:dark){.best{border-color:#2d333b}.best p{color:#9198a1}"
        ".best b{color:#e6edf3}.rows tr{border-color:#2d333b}.rows td::before{color:#9198a1}"
        "body{color:#e6edf3;background:#0d1117}"
        "h2 small{color:#9198a1}a{color:#4493f8}th,td{border-color:#2d333b}"
        ".pictures svg{border-color:#2d333b}.bad{color:#f85149}}\n"
        "</style>\n</head>\n<body>\n<h1>nexar bench</h1>\n");
}

/* The number of rows of one operation, starting at |from|. */
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
    (void)fprintf(out, "<div class=\"bests\">\n");
    for (size_t i = 0; i < r->n; i += of_one_op(r, i)) {
        put_best(out, &r->rows[i], of_one_op(r, i));
    }
    (void)fprintf(out, "</div>\n");
    put_facts(out, b, r);
    (void)fprintf(out,
                  "<p>A time is that of the slowest rank, the median of all iterations; before "
                  "each of them is a barrier that is not measured. Algorithm bandwidth is size "
                  "by time; bus bandwidth is what the busiest link must have carried. GB are "
                  "10<sup>9</sup> bytes.</p>\n");
    for (size_t i = 0; i < r->n; i += of_one_op(r, i)) {
        put_op(out, b, &r->rows[i], of_one_op(r, i));
    }
    (void)fprintf(out, "</body>\n</html>\n");
}
