/*
 * text_table.h - rows of text that print aligned, or as JSON.
 *
 * Cells are added one after the other, row by row. Errors stick: a table that ran out of memory
 * prints nothing, and nx_table_failed returns true.
 */
#ifndef NX_TEXT_TABLE_H
#define NX_TEXT_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

typedef struct nx_table {
    const char *const *heads; /* one per column; borrowed */
    size_t columns;
    char **cells;
    size_t n, room;
    bool failed;
} nx_table;

/* Initialises |t|, in the caller's memory, as an empty table; nx_table_fini() frees it. */
void nx_table_init(nx_table *t, const char *const *heads, size_t columns);
void nx_table_fini(nx_table *t);

void nx_table_add(nx_table *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool nx_table_failed(const nx_table *t);

/* Prints each row on a line, indented by |indent| spaces, the heads first if |heads|. An empty
 * cell is "-". Lines have no trailing blanks. */
void nx_table_print(const nx_table *t, FILE *out, int indent, bool heads);

/* [{"head": "cell", ...}, ...], each row on a line. */
void nx_table_print_json(const nx_table *t, FILE *out);
/* A table of two columns as {"first cell": "second cell", ...}. */
void nx_table_print_json_object(const nx_table *t, FILE *out);

/* |text| as a JSON string, quotes included. */
void nx_json_string(FILE *out, const char *text);

#endif /* NX_TEXT_TABLE_H */
