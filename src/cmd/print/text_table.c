/* text_table.c - alignment and JSON for rows of text. */
#include "text_table.h"

#include <stdarg.h>
#include <string.h>

#include "base/alloc.h"
#include "base/containers/vec.h"

void nx_table_init(nx_table *t, const char *const *heads, size_t columns)
{
    *t = (nx_table){.heads = heads, .columns = columns};
}

void nx_table_fini(nx_table *t)
{
    for (size_t i = 0; i < t->n; i++) {
        nx_free(t->cells[i]);
    }
    nx_free(t->cells);
    *t = (nx_table){0};
}

void nx_table_add(nx_table *t, const char *format, ...)
{
    char **cells, *cell = NULL;
    va_list args;
    int len;

    if (t->failed) {
        return;
    }
    t->failed = true;
    va_start(args, format);
    len = vsnprintf(NULL, 0, format, args);
    va_end(args);
    cells = nx_vec_grow(t->cells, &t->room, t->n + 1, sizeof(*t->cells));
    if ((len < 0) || (cells == NULL)) {
        return;
    }
    t->cells = cells;
    cell = nx_zalloc((size_t)len + 1);
    if (cell == NULL) {
        return;
    }
    va_start(args, format);
    (void)vsnprintf(cell, (size_t)len + 1, format, args);
    va_end(args);
    t->cells[t->n++] = cell;
    t->failed = false;
}

bool nx_table_failed(const nx_table *t)
{
    return t->failed;
}

static const char *shown(const char *cell)
{
    return (cell[0] == '\0') ? "-" : cell;
}

/* The number of UTF-8 characters: counts all bytes except continuation bytes. */
static int width(const char *text)
{
    int n = 0;

    for (; *text != '\0'; text++) {
        n += (((unsigned char)*text & 0xc0) != 0x80);
    }
    return n;
}

static int column_width(const nx_table *t, size_t column, bool heads)
{
    int widest = heads ? width(t->heads[column]) : 0;

    for (size_t i = column; i < t->n; i += t->columns) {
        int w = width(shown(t->cells[i]));

        widest = (w > widest) ? w : widest;
    }
    return widest;
}

static void print_row(const nx_table *t, FILE *out, int indent, bool heads, const char *const *row)
{
    (void)fprintf(out, "%*s", indent, "");
    for (size_t c = 0; c + 1 < t->columns; c++) {
        int pad = column_width(t, c, heads) - width(shown(row[c]));

        (void)fprintf(out, "%s%*s  ", shown(row[c]), pad, "");
    }
    (void)fprintf(out, "%s\n", shown(row[t->columns - 1]));
}

void nx_table_print(const nx_table *t, FILE *out, int indent, bool heads)
{
    if (t->failed) {
        return;
    }
    if (heads) {
        print_row(t, out, indent, heads, t->heads);
    }
    for (size_t i = 0; i + t->columns <= t->n; i += t->columns) {
        print_row(t, out, indent, heads, (const char *const *)&t->cells[i]);
    }
}

void nx_json_string(FILE *out, const char *text)
{
    (void)fputc('"', out);
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;

        if ((c == '"') || (c == '\\')) {
            (void)fprintf(out, "\\%c", c);
        } else if (c < ' ') {
            (void)fprintf(out, "\\u%04x", c);
        } else {
            (void)fputc(c, out);
        }
    }
    (void)fputc('"', out);
}

void nx_table_print_json(const nx_table *t, FILE *out)
{
    (void)fprintf(out, "[");
    for (size_t i = 0; !t->failed && (i < t->n); i++) {
        size_t column = i % t->columns;

        if (column == 0) {
            (void)fprintf(out, (i == 0) ? "\n    {" : ",\n    {");
        }
        nx_json_string(out, t->heads[column]);
        (void)fprintf(out, ": ");
        nx_json_string(out, t->cells[i]);
        (void)fprintf(out, (column + 1 == t->columns) ? "}" : ", ");
    }
    (void)fprintf(out, "\n  ]");
}

void nx_table_print_json_object(const nx_table *t, FILE *out)
{
    (void)fprintf(out, "{");
    for (size_t i = 0; !t->failed && (i + 1 < t->n); i += 2) {
        (void)fprintf(out, (i == 0) ? "\n    " : ",\n    ");
        nx_json_string(out, t->cells[i]);
        (void)fprintf(out, ": ");
        nx_json_string(out, t->cells[i + 1]);
    }
    (void)fprintf(out, "\n  }");
}
