/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables of text for people, and the colours and number formats used in them.
 */
#ifndef TENURE_TOOLS_TABLE_H
#define TENURE_TOOLS_TABLE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum {
    TABLE_COLUMNS_MAX = 16,
    TABLE_CELL_BYTES = 96,
    TABLE_LINE = 56, /* of the first column, where its texts are broken into lines */
};

/* A table that is printed once all its rows are known. The first column is aligned left, the
 * others right. */
typedef struct table {
    size_t columns_count;
    char (*cells)[TABLE_CELL_BYTES]; /* rows_count * columns_count */
    unsigned char *bad;              /* one per cell: to be shown as an alarm */
    size_t rows_count, rows_capacity;
    size_t column; /* where the next cell goes in the last row */
} table;

void table_start(table *result, size_t columns_count);
void table_release(table *result);

/* Starts a table with its heading: a null-terminated list of words, and room for `more` columns
 * whose cells the caller adds. */
void table_head(table *result, const char *const *words, size_t more);
/* The same from the words themselves. */
#define TABLE_HEAD(result, ...) table_head((result), (const char *const[]){__VA_ARGS__, NULL}, 0)

/* Begins a row. The first row is the heading. */
void table_row(table *result);
/* Adds the next cell of the row. */
__attribute__((format(printf, 2, 3))) void table_cell(table *result, const char *format, ...);
/* Marks the last cell as an alarm. */
void table_cell_bad(table *result);
void table_print(const table *result, FILE *file);

/* Fills `line`, of TABLE_CELL_BYTES, with the part of a text that fits into the first column, up to
 * a place where the text may be broken. Returns the rest, for the rows that follow; empty: that was
 * all. */
const char *table_line(const char *text, char *line);
/* Adds rows for the rest, indented. */
void table_rest(table *result, const char *rest);

/* 1 if colours are wanted on this file: it is a terminal, NO_COLOR is not set, TERM is not dumb. */
int colour_wanted(FILE *file);

/* "139.80 GiB": an amount in the unit of the page that is printed (base/bytes_text.h). Returns
 * `buffer`, which needs 32 bytes. */
const char *format_bytes_binary(uint64_t bytes, char *buffer);
/* Says what the page's largest amount is; 0, as at the start: each amount has its own unit. */
void format_page(uint64_t most);
/* "2 MiB": the size of one thing, as it was chosen. Returns `buffer`, which needs 32 bytes. */
const char *format_size(uint64_t bytes, char *buffer);
/* The unit that suits the largest of amounts that are compared, "GiB", and an amount in it:
 * "18.16", "0.46". Returns `buffer`, which needs 32 bytes. */
const char *format_unit(uint64_t largest);
const char *format_in_unit(uint64_t bytes, uint64_t largest, char *buffer);

#endif
