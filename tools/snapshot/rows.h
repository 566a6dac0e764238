/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables of Tenure's snapshots: a list of columns, and rows of whole numbers. decode_tenure.c
 * and decode_tenure_history.c share this.
 */
#ifndef TENURE_TOOLS_ROWS_H
#define TENURE_TOOLS_ROWS_H

#include "decode.h"

enum {
    COLUMNS_MAX = 16,
    NAMES_MAX = 64, /* of kinds and states */
};

/* A table being read: where in a row each wanted column is. */
typedef struct rows {
    const char *name;
    const value_list *list; /* null if its rows are taken one by one */
    size_t wanted_count, columns_count;
    int at[COLUMNS_MAX];       /* -1: an optional column that is not there */
    int64_t cell[COLUMNS_MAX]; /* of the row read last; -1 for a column that is not there */
} rows;

static inline place whole(const char *name)
{
    return (place){name, PLACE_WHOLE};
}

/* Finds the wanted columns. `wanted` ends with a null. Returns the first of `required` that is not
 * there, or null. */
const char *rows_columns(rows *table, const value_list *columns, const char *const *wanted,
                         size_t required);

/* Those that return int return 0, or -1 after a complaint. */

/* Opens the table `name` of the document. The first `required` of the wanted columns must be there.
 */
int rows_open(decoder *from, value document, const char *name, const char *const *wanted,
              size_t required, rows *table);
/* Reads row `index`, or its cells, into table->cell. */
int rows_read(decoder *from, rows *table, size_t index);
int rows_cells(decoder *from, rows *table, size_t index, const value *cells, size_t count);
/* Checks that the cell refers to one of `count` things, or to nothing if that is allowed. */
int rows_index(decoder *from, const rows *table, size_t row, const char *column, int64_t index,
               size_t count, int may_be_none);
int rows_positive(decoder *from, const rows *table, size_t row, const char *column, int64_t cell);

/* The place of the device in the model. */
int rows_device(decoder *from, place at, uint64_t index, size_t *found);
/* Reads a list of names, and which of the known ones each is; `known_count` if none. */
int rows_names(decoder *from, value document, const char *name, const char *const *known,
               size_t known_count, unsigned char *numbers, size_t room, size_t *count);

/* Of decode_tenure_history.c: read last, because the history refers to everything else. */
int rows_history(decoder *from, value document);

#endif
