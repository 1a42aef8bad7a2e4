/*
 * plan_plot.c - plots a sweep as SVG, one panel per collective.
 *
 * The picture has its own background, light or dark by the viewer's preference, so that it is
 * readable on any page.
 */
#include "plan.h"
#include "svg.h"

/* Dimensions in pixels. */
enum {
    HEAD = 66,  /* of the picture: title and network */
    TITLE = 30, /* of a panel in a picture of several */
    LEFT = 76,
    RIGHT = 28,
    BOTTOM = 54,
    COLUMNS = 3
};

_Static_assert((int)NX_PLAN_ROWS <= (int)NX_SVG_CURVES, "every algorithm has a look of its own");

/* A single rank may take time 0, which has no logarithm. */
static double time_of(const nx_plan_point *point, size_t row)
{
    const double t = point->rows[row].cost.is.time_s;

    return (t < 1e-9) ? 1e-9 : t;
}

/* ---- curves -------------------------------------------------------------------------- */

static void put_curve(const nx_svg_panel *p, const nx_plan_sweep *sweep, size_t row)
{
    double bytes[NX_PLAN_POINTS], times[NX_PLAN_POINTS];

    for (size_t k = 0; k < sweep->n; k++) {
        bytes[k] = (double)sweep->points[k].bytes;
        times[k] = time_of(&sweep->points[k], row);
    }
    nx_svg_line(p, row, bytes, times, sweep->n);
    for (size_t k = 0; k < sweep->n; k++) {
        if (sweep->points[k].selected != row) {
            nx_svg_marker(p->out, row, nx_svg_x(p, bytes[k]), nx_svg_y(p, times[k]), 2.8, false);
        }
    }
}

/* Drawn on top of all curves, so that the selected algorithm is always visible. */
static void put_selected(const nx_svg_panel *p, const nx_plan_sweep *sweep)
{
    for (size_t k = 0; k < sweep->n; k++) {
        const nx_plan_point *at = &sweep->points[k];

        nx_svg_marker(p->out, at->selected, nx_svg_x(p, (double)at->bytes),
                      nx_svg_y(p, time_of(at, at->selected)), 6, true);
    }
}

/* ---- panels -------------------------------------------------------------------------- */

static void set_range(nx_svg_panel *p, const nx_plan_sweep *sweep)
{
    double low = time_of(&sweep->points[0], 0), high = low;

    for (size_t k = 0; k < sweep->n; k++) {
        for (size_t i = 0; i < sweep->points[k].n; i++) {
            const double t = time_of(&sweep->points[k], i);

            low = (t < low) ? t : low;
            high = (t > high) ? t : high;
        }
    }
    nx_svg_range(p, (double)sweep->points[0].bytes, (double)sweep->points[sweep->n - 1].bytes, low,
                 high);
}

/* A panel in the box at |x|, |y|. */
static void put_panel(FILE *out, double x, double y, double w, double h, bool title,
                      const nx_plan_sweep *sweep)
{
    static const char *const large = "large: selected";
    const size_t n = sweep->points[0].n;
    const char *names[NX_PLAN_ROWS];
    const double top = y + (title ? TITLE : 4);

    for (size_t i = 0; i < n; i++) {
        names[i] = sweep->points[0].rows[i].algorithm->name;
    }
    const int lines = nx_svg_legend(NULL, 0, 0, w - LEFT - RIGHT, names, n, large);
    const double above = top - y + 14 + NX_SVG_LEGEND * lines;
    nx_svg_panel p = {
        .out = out, .x = x + LEFT, .y = y + above, .w = w - LEFT - RIGHT, .h = h - above - BOTTOM};

    set_range(&p, sweep);
    if (title) {
        (void)fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" class=\"name\">%s</text>\n", p.x, y + 18,
                      nx_coll_name(sweep->kind));
    }
    (void)nx_svg_legend(out, p.x, top + 8, p.w, names, n, large);
    nx_svg_axes(&p, nx_figure_time);
    /* Draws dashed curves last: where two coincide, both are visible. */
    for (size_t i = 0; i < n; i += 2) {
        put_curve(&p, sweep, i);
    }
    for (size_t i = 1; i < n; i += 2) {
        put_curve(&p, sweep, i);
    }
    put_selected(&p, sweep);
}

/* ---- picture ------------------------------------------------------------------------- */

static void put_head(FILE *out, const nx_plan *plan, const char *what)
{
    const nx_net *net = &plan->net;
    char a[NX_FIGURE_ROOM], b[NX_FIGURE_ROOM];

    (void)fprintf(out,
                  "<text x=\"24\" y=\"32\" class=\"title\">%s: predicted time, %u %s on %u %s"
                  "</text>\n",
                  what, (unsigned)net->ranks, (net->ranks == 1) ? "rank" : "ranks",
                  (unsigned)net->hosts, (net->hosts == 1) ? "host" : "hosts");
    (void)fprintf(out, "<text x=\"24\" y=\"53\" class=\"note\">%s and %s between hosts",
                  nx_figure_time(net->latency, a), nx_figure_rate(net->bandwidth, b));
    (void)fprintf(out, ", %s and %s inside", nx_figure_time(net->local_latency, a),
                  nx_figure_rate(net->local_bandwidth, b));
    (void)fprintf(out, ", %s CPU per message, %s elements", nx_figure_time(net->message_cpu, a),
                  nexar_dtype_name(plan->dtype));
    (void)fprintf(out, ", segments of %s</text>\n", nx_figure_bytes(plan->segment_bytes, a));
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
    nx_svg_style(out);
    (void)fprintf(out, "<rect class=\"back\" width=\"%.0f\" height=\"%.0f\" rx=\"8\"/>\n", width,
                  height);
    put_head(out, plan, one ? nx_coll_name(sweeps[0].kind) : "all collectives");
    for (size_t i = 0; i < n; i++) {
        const int row = (int)i / columns, column = (int)i % columns;

        put_panel(out, column * w, HEAD + row * h, w, h, !one, &sweeps[i]);
    }
    (void)fprintf(out, "</svg>\n");
}
