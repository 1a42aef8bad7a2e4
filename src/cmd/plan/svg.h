/*
 * svg.h - curves over sizes, as SVG: shared by the plots of `nexar plan` and `nexar bench`.
 *
 * Both axes are logarithmic. The colours are those of Okabe and Ito, which colour-blind readers
 * can distinguish. Every curve also has its own marker. Light or dark by the viewer's preference.
 */
#ifndef NX_SVG_H
#define NX_SVG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum {
    NX_SVG_CURVES = 10, /* curves with their own style */
    NX_SVG_GREY = 5,    /* the curve without a colour; its marker is a circle */
    NX_SVG_LEGEND = 17  /* pixels of a line of a legend */
};

typedef struct nx_svg_panel {
    FILE *out;
    double x, y, w, h; /* of the frame around the curves */
    double from, to;   /* log2 of the bytes at the left and right edge */
    double low, high;  /* log10 of the values at the bottom and top edge */
} nx_svg_panel;

/* Sets the edges so that these values fit: at least an octave of bytes and a decade of values,
 * with a margin above and below. All are above 0. */
void nx_svg_range(nx_svg_panel *p, double first_bytes, double last_bytes, double least,
                  double most);

double nx_svg_x(const nx_svg_panel *p, double bytes);
double nx_svg_y(const nx_svg_panel *p, double value);

/* Grid, numbers and frame; |label| writes a value of the y axis into the
 * NX_FIGURE_ROOM bytes of |buf|. */
void nx_svg_axes(const nx_svg_panel *p, const char *(*label)(double value, char *buf));

/* The line of curve |curve| through |n| points. */
void nx_svg_line(const nx_svg_panel *p, size_t curve, const double bytes[], const double values[],
                 size_t n);
/* The marker of a curve, with a radius of |r| pixels. */
void nx_svg_marker(FILE *out, size_t curve, double x, double y, double r, bool full);

/*
 * The names of |n| curves in lines of |width| pixels, then what a large marker means, unless
 * |large| is NULL. Returns the number of lines; draws nothing if |out| is NULL.
 */
int nx_svg_legend(FILE *out, double left, double top, double width, const char *const names[],
                  size_t n, const char *large);

/* The style element, for the classes used above and: back, title, name, note,
 * tick, axis, mid, end. */
void nx_svg_style(FILE *out);

/* Writes |text| with XML escapes. */
void nx_svg_text(FILE *out, const char *text);

#endif /* NX_SVG_H */
