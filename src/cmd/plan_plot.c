/*
 * plan_plot.c - a sweep as a picture: SVG, one panel per collective.
 *
 * Both axes are logarithmic.  The colours are Okabe and Ito's, which the colour
 * blind can tell apart, and every algorithm has a marker of its own as well.
 * The picture brings its background, light or dark as the viewer prefers, so
 * that it can be read on any page.
 */
#include <math.h>
#include <string.h>

#include "cmd/plan.h"

/* All in pixels. */
enum {
    HEAD = 66,        /* of the picture: title, and what network it is */
    TITLE = 30,       /* of a panel in a picture of several */
    LEGEND_LINE = 17, /* of a panel: its algorithms */
    LEFT = 76,
    RIGHT = 28,
    BOTTOM = 54,
    COLUMNS = 3
};

enum { GREY = 5 }; /* the colour of no algorithm; its marker is a circle */

typedef struct panel {
    double x, y, w, h; /* of the frame that the curves are in */
    double from, to;   /* log2 of the bytes at the left and right edge */
    double low, high;  /* log10 of the seconds at the bottom and top edge */
} panel;

static double x_of(const panel *p, double bytes)
{
    return p->x + p->w * (log2(bytes) - p->from) / (p->to - p->from);
}

static double y_of(const panel *p, double seconds)
{
    return p->y + p->h * (1 - (log10(seconds) - p->low) / (p->high - p->low));
}

/* A single rank may need no time at all, which has no logarithm. */
static double time_of(const nx_plan_point *point, size_t row)
{
    const double t = point->rows[row].cost.is.time_s;

    return (t < 1e-9) ? 1e-9 : t;
}

/* ---- markers -------------------------------------------------------------- */

/* The marker of algorithm |row|, |r| pixels in radius. */
static void put_marker(FILE *out, size_t row, double x, double y, double r, bool full)
{
    const char *class = full ? "full" : "open";

    switch (row % 5) {
    case 0:
        (void)fprintf(out, "<circle class=\"c%zu %s\" cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\"/>\n", row,
                      class, x, y, r);
        break;
    case 1:
        (void)fprintf(out, "<rect class=\"c%zu %s\" x=\"%.1f\" y=\"%.1f\" ", row, class,
                      x - 0.9 * r, y - 0.9 * r);
        (void)fprintf(out, "width=\"%.1f\" height=\"%.1f\"/>\n", 1.8 * r, 1.8 * r);
        break;
    case 2:
        (void)fprintf(out, "<path class=\"c%zu %s\" d=\"M%.1f %.1fl%.1f %.1fh%.1fz\"/>\n", row,
                      class, x, y - 1.25 * r, 1.2 * r, 2.1 * r, -2.4 * r);
        break;
    case 3:
        (void)fprintf(
            out, "<path class=\"c%zu %s\" d=\"M%.1f %.1fl%.1f %.1fl%.1f %.1fl%.1f %.1fz\"/>\n", row,
            class, x, y - 1.3 * r, 1.3 * r, 1.3 * r, -1.3 * r, 1.3 * r, -1.3 * r, -1.3 * r);
        break;
    default:
        (void)fprintf(out, "<path class=\"c%zu %s\" d=\"M%.1f %.1fl%.1f %.1fh%.1fz\"/>\n", row,
                      class, x, y + 1.25 * r, 1.2 * r, -2.1 * r, -2.4 * r);
        break;
    }
}

/* ---- axes ----------------------------------------------------------------- */

static void put_x_axis(FILE *out, const panel *p)
{
    /* A line and a label for every power of two that leaves them room. */
    const double room = 64 * (p->to - p->from) / p->w;
    const int step = (room <= 1) ? 1 : (room <= 2) ? 2 : (room <= 4) ? 4 : (room <= 5) ? 5 : 10;
    const int first = (int)ceil(p->from - 1e-9), last = (int)floor(p->to + 1e-9);

    for (int i = first; i <= last; i += step) {
        const double x = x_of(p, ldexp(1, i));
        char text[NX_PLAN_TEXT];

        (void)fprintf(out, "<path class=\"grid\" d=\"M%.1f %.1fv%.1f\"/>\n", x, p->y, p->h);
        (void)fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" class=\"tick mid\">%s</text>\n", x,
                      p->y + p->h + 18, nx_plan_bytes(UINT64_C(1) << i, text));
    }
    (void)fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" class=\"axis mid\">bytes</text>\n",
                  p->x + p->w / 2, p->y + p->h + 40);
}

static void put_y_axis(FILE *out, const panel *p)
{
    const double pixels = p->h / (p->high - p->low); /* of a decade */
    const int first = (int)floor(p->low + 1e-9), last = (int)floor(p->high + 1e-9);

    for (int i = first; i <= last; i++) {
        for (int m = 1; m <= 5; m += (m == 1) ? 1 : 3) {
            const double seconds = m * pow(10, i), y = y_of(p, seconds);
            char text[NX_PLAN_TEXT];

            if ((y < p->y - 0.1) || (y > p->y + p->h + 0.1)) {
                continue;
            }
            (void)fprintf(out, "<path class=\"grid%s\" d=\"M%.1f %.1fh%.1f\"/>\n",
                          (m == 1) ? "" : " minor", p->x, y, p->w);
            if ((m == 1) || (pixels > 80)) {
                (void)fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" class=\"tick end\">%s</text>\n",
                              p->x - 8, y + 4, nx_plan_time(seconds, text));
            }
        }
    }
}

/* ---- curves --------------------------------------------------------------- */

static const char *dashed(size_t row)
{
    return (row % 2 == 1) ? " dash" : "";
}

static void put_curve(FILE *out, const panel *p, const nx_plan_sweep *sweep, size_t row)
{
    (void)fprintf(out, "<polyline class=\"c%zu line%s\" points=\"", row, dashed(row));
    for (size_t k = 0; k < sweep->n; k++) {
        const nx_plan_point *at = &sweep->points[k];

        (void)fprintf(out, "%s%.1f,%.1f", (k == 0) ? "" : " ", x_of(p, (double)at->bytes),
                      y_of(p, time_of(at, row)));
    }
    (void)fprintf(out, "\"/>\n");
    for (size_t k = 0; k < sweep->n; k++) {
        const nx_plan_point *at = &sweep->points[k];

        if (at->selected != row) {
            put_marker(out, row, x_of(p, (double)at->bytes), y_of(p, time_of(at, row)), 2.8, false);
        }
    }
}

/* On top of all curves, so that what is selected is always seen. */
static void put_selected(FILE *out, const panel *p, const nx_plan_sweep *sweep)
{
    for (size_t k = 0; k < sweep->n; k++) {
        const nx_plan_point *at = &sweep->points[k];

        put_marker(out, at->selected, x_of(p, (double)at->bytes),
                   y_of(p, time_of(at, at->selected)), 6, true);
    }
}

/* Entries in lines of |width| pixels; returns how many lines.  Draws nothing
 * when |out| is NULL. */
static int put_legend(FILE *out, double left, double top, double width, const nx_plan_sweep *sweep)
{
    const nx_plan_point *first = &sweep->points[0];
    double x = left, y = top;

    for (size_t i = 0; i <= first->n; i++) {
        const char *name = (i < first->n) ? first->rows[i].algorithm->name : "large: selected";
        const double room = 44 + 6.9 * (double)strlen(name);

        if ((x > left) && (x + room > left + width)) {
            x = left;
            y += LEGEND_LINE;
        }
        if ((out != NULL) && (i < first->n)) {
            (void)fprintf(out, "<path class=\"c%zu line%s\" d=\"M%.1f %.1fh26\"/>\n", i, dashed(i),
                          x, y);
            put_marker(out, i, x + 12, y, 3.2, false);
        } else if (out != NULL) {
            put_marker(out, GREY, x + 12, y, 6, true);
        }
        if (out != NULL) {
            (void)fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" class=\"tick\">%s</text>\n", x + 30,
                          y + 4, name);
        }
        x += room;
    }
    return 1 + (int)((y - top) / LEGEND_LINE);
}

/* ---- panels --------------------------------------------------------------- */

static void set_range(panel *p, const nx_plan_sweep *sweep)
{
    double low = time_of(&sweep->points[0], 0), high = low;

    for (size_t k = 0; k < sweep->n; k++) {
        for (size_t i = 0; i < sweep->points[k].n; i++) {
            const double t = time_of(&sweep->points[k], i);

            low = (t < low) ? t : low;
            high = (t > high) ? t : high;
        }
    }
    /* Some air above and below, and at least a decade. */
    p->low = log10(low) - 0.08;
    p->high = log10(high) + 0.08;
    if (p->high - p->low < 1) {
        const double middle = (p->high + p->low) / 2;

        p->low = middle - 0.5;
        p->high = middle + 0.5;
    }
    p->from = log2((double)sweep->points[0].bytes);
    p->to = log2((double)sweep->points[sweep->n - 1].bytes);
    if (p->to - p->from < 1) {
        p->from -= 1;
        p->to += 1;
    }
}

/* A panel in the box at |x|, |y|. */
static void put_panel(FILE *out, double x, double y, double w, double h, bool title,
                      const nx_plan_sweep *sweep)
{
    const double top = y + (title ? TITLE : 4);
    const int lines = put_legend(NULL, 0, 0, w - LEFT - RIGHT, sweep);
    const double above = top - y + 14 + LEGEND_LINE * lines;
    panel p = {.x = x + LEFT, .y = y + above, .w = w - LEFT - RIGHT, .h = h - above - BOTTOM};

    set_range(&p, sweep);
    if (title) {
        (void)fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" class=\"name\">%s</text>\n", p.x, y + 18,
                      nx_coll_name(sweep->kind));
    }
    (void)put_legend(out, p.x, top + 8, p.w, sweep);
    put_x_axis(out, &p);
    put_y_axis(out, &p);
    (void)fprintf(out,
                  "<rect class=\"frame\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>\n",
                  p.x, p.y, p.w, p.h);
    /* The dashed ones last: where two agree both are seen. */
    for (size_t i = 0; i < sweep->points[0].n; i += 2) {
        put_curve(out, &p, sweep, i);
    }
    for (size_t i = 1; i < sweep->points[0].n; i += 2) {
        put_curve(out, &p, sweep, i);
    }
    put_selected(out, &p, sweep);
}

/* ---- picture -------------------------------------------------------------- */

static void put_style(FILE *out)
{
    static const char *const colours[NX_PLAN_ROWS] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                      "#e69f00", "#7d8590", "#56b4e9", "#b8a000"};

    (void)fprintf(out,
                  "<style>\n"
                  "text{font-family:system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif;"
                  "fill:#1f2328}\n"
                  ".back{fill:#ffffff}\n.title{font-size:19px;font-weight:600}\n"
                  ".name{font-size:15px;font-weight:600}\n.note{font-size:12.5px;fill:#57606a}\n"
                  ".tick{font-size:12px}\n.axis{font-size:13px}\n.mid{text-anchor:middle}\n"
                  ".end{text-anchor:end}\n.grid{stroke:#d8dee4;stroke-width:1;fill:none}\n"
                  ".minor{stroke:#eff2f5}\n.frame{stroke:#8c959f;stroke-width:1;fill:none}\n"
                  ".line{fill:none;stroke-width:2;stroke-linejoin:round}\n"
                  ".dash{stroke-dasharray:7 4}\n"
                  ".open{stroke-width:1.6;fill:#ffffff}\n.full{stroke:#ffffff;stroke-width:1.5}\n");
    for (int i = 0; i < NX_PLAN_ROWS; i++) {
        (void)fprintf(out, ".c%d{stroke:%s}\n.c%d.full{fill:%s;stroke:#ffffff}\n", i, colours[i], i,
                      colours[i]);
    }
    (void)fprintf(out, "@media (prefers-color-scheme:dark){\n"
                       "text{fill:#e6edf3}.back{fill:#0d1117}.note{fill:#9198a1}"
                       ".grid{stroke:#2d333b}.minor{stroke:#1c2128}.frame{stroke:#6e7681}"
                       ".open{fill:#0d1117}.c0{stroke:#3aa0e0}.c0.full{fill:#3aa0e0}\n");
    for (int i = 0; i < NX_PLAN_ROWS; i++) {
        (void)fprintf(out, ".c%d.full{stroke:#0d1117}", i);
    }
    (void)fprintf(out, "\n}\n</style>\n");
}

static void put_head(FILE *out, const nx_plan *plan, const char *what)
{
    const nx_net *net = &plan->net;
    char a[NX_PLAN_TEXT], b[NX_PLAN_TEXT];

    (void)fprintf(out,
                  "<text x=\"24\" y=\"32\" class=\"title\">%s: predicted time, %u %s on %u %s"
                  "</text>\n",
                  what, (unsigned)net->ranks, (net->ranks == 1) ? "rank" : "ranks",
                  (unsigned)net->hosts, (net->hosts == 1) ? "host" : "hosts");
    (void)fprintf(out, "<text x=\"24\" y=\"53\" class=\"note\">%s and %s between hosts",
                  nx_plan_time(net->latency, a), nx_plan_rate(net->bandwidth, b));
    (void)fprintf(out, ", %s and %s inside", nx_plan_time(net->local_latency, a),
                  nx_plan_rate(net->local_bandwidth, b));
    (void)fprintf(out, ", %s CPU per message, %s elements", nx_plan_time(net->message_cpu, a),
                  nexar_dtype_name(plan->dtype));
    (void)fprintf(out, ", segments of %s</text>\n", nx_plan_bytes(plan->segment_bytes, a));
}

void nx_plan_plot(FILE *out, const nx_plan *plan, const nx_plan_sweep *sweeps, size_t n)
{
    const bool one = n == 1;
    const int columns = one ? 1 : COLUMNS;
    const int rows = (int)((n + (size_t)columns - 1) / (size_t)columns);
    const double w = one ? 920 : 460, h = one ? 500 : 370;
    const double width = columns * w, height = HEAD + rows * h + 8;

    (void)fprintf(out,
                  "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                  "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" "
                  "width=\"%.0f\" height=\"%.0f\" role=\"img\">\n<title>nexar plan %s</title>\n",
                  width, height, width, height, one ? nx_coll_name(sweeps[0].kind) : "--all");
    put_style(out);
    (void)fprintf(out, "<rect class=\"back\" width=\"%.0f\" height=\"%.0f\" rx=\"8\"/>\n", width,
                  height);
    put_head(out, plan, one ? nx_coll_name(sweeps[0].kind) : "all collectives");
    for (size_t i = 0; i < n; i++) {
        const int row = (int)i / columns, column = (int)i % columns;

        put_panel(out, column * w, HEAD + row * h, w, h, !one, &sweeps[i]);
    }
    (void)fprintf(out, "</svg>\n");
}
