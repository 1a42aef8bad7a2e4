/* svg.c - curves over sizes, as SVG. */
#include "svg.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "figures.h"

double nx_svg_x(const nx_svg_panel *p, double bytes)
{
    return p->x + p->w * (log2(bytes) - p->from) / (p->to - p->from);
}

double nx_svg_y(const nx_svg_panel *p, double value)
{
    return p->y + p->h * (1 - (log10(value) - p->low) / (p->high - p->low));
}

void nx_svg_range(nx_svg_panel *p, double first_bytes, double last_bytes, double least, double most)
{
    p->low = log10(least) - 0.08;
    p->high = log10(most) + 0.08;
    if (p->high - p->low < 1) {
        const double middle = (p->high + p->low) / 2;

        p->low = middle - 0.5;
        p->high = middle + 0.5;
    }
    p->from = log2(first_bytes);
    p->to = log2(last_bytes);
    if (p->to - p->from < 1) {
        p->from -= 1;
        p->to += 1;
    }
}

/* ---- axes ---------------------------------------------------------------------------- */

static void put_x_axis(const nx_svg_panel *p)
{
    /* A line and a label for each power of two, as far as there is room. */
    const double room = 64 * (p->to - p->from) / p->w;
    const int step = (room <= 1) ? 1 : (room <= 2) ? 2 : (room <= 4) ? 4 : (room <= 5) ? 5 : 10;
    const int first = (int)ceil(p->from - 1e-9), last = (int)floor(p->to + 1e-9);

    for (int i = first; i <= last; i += step) {
        const double x = nx_svg_x(p, ldexp(1, i));
        char text[NX_FIGURE_ROOM];

        (void)fprintf(p->out, "<path class=\"grid\" d=\"M%.1f %.1fv%.1f\"/>\n", x, p->y, p->h);
        (void)fprintf(p->out, "<text x=\"%.1f\" y=\"%.1f\" class=\"tick mid\">%s</text>\n", x,
                      p->y + p->h + 18, nx_figure_bytes(UINT64_C(1) << i, text));
    }
    (void)fprintf(p->out, "<text x=\"%.1f\" y=\"%.1f\" class=\"axis mid\">bytes</text>\n",
                  p->x + p->w / 2, p->y + p->h + 40);
}

static void put_y_axis(const nx_svg_panel *p, const char *(*label)(double value, char *buf))
{
    const double pixels = p->h / (p->high - p->low); /* of a decade */
    const int first = (int)floor(p->low + 1e-9), last = (int)floor(p->high + 1e-9);

    for (int i = first; i <= last; i++) {
        for (int m = 1; m <= 5; m += (m == 1) ? 1 : 3) {
            const double value = m * pow(10, i), y = nx_svg_y(p, value);
            char text[NX_FIGURE_ROOM];

            if ((y < p->y - 0.1) || (y > p->y + p->h + 0.1)) {
                continue;
            }
            (void)fprintf(p->out, "<path class=\"grid%s\" d=\"M%.1f %.1fh%.1f\"/>\n",
                          (m == 1) ? "" : " minor", p->x, y, p->w);
            if ((m == 1) || (pixels > 80)) {
                (void)fprintf(p->out, "<text x=\"%.1f\" y=\"%.1f\" class=\"tick end\">%s</text>\n",
                              p->x - 8, y + 4, label(value, text));
            }
        }
    }
}

void nx_svg_axes(const nx_svg_panel *p, const char *(*label)(double value, char *buf))
{
    put_x_axis(p);
    put_y_axis(p, label);
    (void)fprintf(p->out,
                  "<rect class=\"frame\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>\n",
                  p->x, p->y, p->w, p->h);
}

/* ---- curves -------------------------------------------------------------------------- */

static const char *dashed(size_t curve)
{
    return (curve % 2 == 1) ? " dash" : "";
}

void nx_svg_marker(FILE *out, size_t curve, double x, double y, double r, bool full)
{
    const char *class = full ? "full" : "open";

    switch (curve % 5) {
    case 0:
        (void)fprintf(out, "<circle class=\"c%zu %s\" cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\"/>\n",
                      curve, class, x, y, r);
        break;
    case 1:
        (void)fprintf(out, "<rect class=\"c%zu %s\" x=\"%.1f\" y=\"%.1f\" ", curve, class,
                      x - 0.9 * r, y - 0.9 * r);
        (void)fprintf(out, "width=\"%.1f\" height=\"%.1f\"/>\n", 1.8 * r, 1.8 * r);
        break;
    case 2:
        (void)fprintf(out, "<path class=\"c%zu %s\" d=\"M%.1f %.1fl%.1f %.1fh%.1fz\"/>\n", curve,
                      class, x, y - 1.25 * r, 1.2 * r, 2.1 * r, -2.4 * r);
        break;
    case 3:
        (void)fprintf(
            out, "<path class=\"c%zu %s\" d=\"M%.1f %.1fl%.1f %.1fl%.1f %.1fl%.1f %.1fz\"/>\n",
            curve, class, x, y - 1.3 * r, 1.3 * r, 1.3 * r, -1.3 * r, 1.3 * r, -1.3 * r, -1.3 * r);
        break;
    default:
        (void)fprintf(out, "<path class=\"c%zu %s\" d=\"M%.1f %.1fl%.1f %.1fh%.1fz\"/>\n", curve,
                      class, x, y + 1.25 * r, 1.2 * r, -2.1 * r, -2.4 * r);
        break;
    }
}

void nx_svg_line(const nx_svg_panel *p, size_t curve, const double bytes[], const double values[],
                 size_t n)
{
    (void)fprintf(p->out, "<polyline class=\"c%zu line%s\" points=\"", curve, dashed(curve));
    for (size_t k = 0; k < n; k++) {
        (void)fprintf(p->out, "%s%.1f,%.1f", (k == 0) ? "" : " ", nx_svg_x(p, bytes[k]),
                      nx_svg_y(p, values[k]));
    }
    (void)fprintf(p->out, "\"/>\n");
}

int nx_svg_legend(FILE *out, double left, double top, double width, const char *const names[],
                  size_t n, const char *large)
{
    double x = left, y = top;

    for (size_t i = 0; i < n + ((large == NULL) ? 0 : 1); i++) {
        const char *name = (i < n) ? names[i] : large;
        const double room = 44 + 6.9 * (double)strlen(name);

        if ((x > left) && (x + room > left + width)) {
            x = left;
            y += NX_SVG_LEGEND;
        }
        if ((out != NULL) && (i < n)) {
            (void)fprintf(out, "<path class=\"c%zu line%s\" d=\"M%.1f %.1fh26\"/>\n", i, dashed(i),
                          x, y);
            nx_svg_marker(out, i, x + 12, y, 3.2, false);
        } else if (out != NULL) {
            nx_svg_marker(out, NX_SVG_GREY, x + 12, y, 6, true);
        }
        if (out != NULL) {
            (void)fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" class=\"tick\">%s</text>\n", x + 30,
                          y + 4, name);
        }
        x += room;
    }
    return 1 + (int)((y - top) / NX_SVG_LEGEND);
}

/* ---- style --------------------------------------------------------------------------- */

void nx_svg_style(FILE *out)
{
    static const char *const colours[NX_SVG_CURVES] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                       "#e69f00", "#7d8590", "#56b4e9", "#b8a000",
                                                       "#882255", "#44aa99"};

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
    for (int i = 0; i < NX_SVG_CURVES; i++) {
        (void)fprintf(out, ".c%d{stroke:%s}\n.c%d.full{fill:%s;stroke:#ffffff}\n", i, colours[i], i,
                      colours[i]);
    }
    (void)fprintf(out, "@media (prefers-color-scheme:dark){\n"
                       "text{fill:#e6edf3}.back{fill:#0d1117}.note{fill:#9198a1}"
                       ".grid{stroke:#2d333b}.minor{stroke:#1c2128}.frame{stroke:#6e7681}"
                       ".open{fill:#0d1117}.c0{stroke:#3aa0e0}.c0.full{fill:#3aa0e0}\n");
    for (int i = 0; i < NX_SVG_CURVES; i++) {
        (void)fprintf(out, ".c%d.full{stroke:#0d1117}", i);
    }
    (void)fprintf(out, "\n}\n</style>\n");
}

void nx_svg_text(FILE *out, const char *text)
{
    for (; *text != '\0'; text++) {
        switch (*text) {
        case '&':
            (void)fputs("&amp;", out);
            break;
        case '<':
            (void)fputs("&lt;", out);
            break;
        case '>':
            (void)fputs("&gt;", out);
            break;
        case '"':
            (void)fputs("&quot;", out);
            break;
        default:
            /* Characters that XML cannot represent become blanks. */
            (void)fputc(((unsigned char)*text < ' ') ? ' ' : *text, out);
            break;
        }
    }
}
