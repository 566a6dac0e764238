/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables of snapshots: see rows.h.
 */
#include "rows.h"

#include <inttypes.h>
#include <string.h>

/* Finds the wanted columns. `wanted` ends with a null. Returns the first of `required` that is not
 * there, or null. */
const char *rows_columns(rows *table, const value_list *columns, const char *const *wanted,
                         size_t required)
{
    const char *missing = NULL;
    table->columns_count = columns->count;
    for (; wanted[table->wanted_count]; table->wanted_count++) {
        const char *column = wanted[table->wanted_count];
        int *at = &table->at[table->wanted_count];
        *at = -1;
        for (uint32_t i = 0; i < columns->count && i < INT32_MAX; i++)
            if (value_kind_of(columns->items[i]) == VALUE_TEXT &&
                strcmp(value_as_text(columns->items[i])->bytes, column) == 0)
                *at = (int)i;
        if (*at < 0 && table->wanted_count < required && !missing)
            missing = column;
    }
    return missing;
}

/* Opens the table `name` of the document. `wanted` ends with a null; the first `required` of its
 * columns must be there. */
int rows_open(decoder *from, value document, const char *name, const char *const *wanted,
              size_t required, rows *table)
{
    value dict;
    const value_list *columns;
    memset(table, 0, sizeof(*table));
    table->name = name;
    if (decode_dict(from, whole("the document"), document, name, &dict) != 0 ||
        decode_list(from, whole(name), dict, "columns", &columns) != 0 ||
        decode_list(from, whole(name), dict, "rows", &table->list) != 0)
        return -1;
    const char *missing = rows_columns(table, columns, wanted, required);
    return missing ? decode_fail(from, whole(name), "the column \"%s\" is missing", missing) : 0;
}

/* Reads the cells of row `index` into table->cell. */
int rows_cells(decoder *from, rows *table, size_t index, const value *cells, size_t count)
{
    place at = {table->name, index};
    if (count < table->columns_count)
        return decode_fail(from, at, "the row has %zu values for %zu columns", count,
                           table->columns_count);
    for (size_t i = 0; i < table->wanted_count; i++) {
        table->cell[i] = -1;
        if (table->at[i] < 0)
            continue;
        value cell = cells[table->at[i]];
        if (!value_as_signed(cell, &table->cell[i]) || table->cell[i] < -1 ||
            table->cell[i] > DECODE_NUMBER_MAX)
            return decode_fail(from, at,
                               "value %d is %s; a whole number from -1 to 2^62 was "
                               "expected",
                               table->at[i], value_kind_name(cell));
    }
    return 0;
}

/* Reads row `index` into table->cell. */
int rows_read(decoder *from, rows *table, size_t index)
{
    value row = table->list->items[index];
    if (value_kind_of(row) != VALUE_LIST)
        return decode_is(from, (place){table->name, index}, row, VALUE_LIST);
    const value_list *cells = value_as_list(row);
    return rows_cells(from, table, index, cells->items, cells->count);
}

/* Checks that the cell refers to one of `count` things, or to nothing if that is allowed. */
int rows_index(decoder *from, const rows *table, size_t row, const char *column, int64_t index,
               size_t count, int may_be_none)
{
    if ((index >= 0 && (uint64_t)index < count) || (index == -1 && may_be_none))
        return 0;
    return decode_fail(from, (place){table->name, row},
                       "\"%s\" is %" PRId64 ", but there are %zu to refer to", column, index,
                       count);
}

int rows_positive(decoder *from, const rows *table, size_t row, const char *column, int64_t cell)
{
    if (cell >= 0)
        return 0;
    return decode_fail(from, (place){table->name, row}, "\"%s\" must not be negative", column);
}

/* Reads a list of names like "states" into numbers: numbers[i] is which of `known` name i is, or
 * `known_count` if it is none. Names beyond `room` are refused. */
int rows_names(decoder *from, value document, const char *name, const char *const *known,
               size_t known_count, unsigned char *numbers, size_t room, size_t *count)
{
    const value_list *list;
    if (decode_list(from, whole("the document"), document, name, &list) != 0)
        return -1;
    if (list->count > room)
        return decode_fail(from, whole(name), "there are %" PRIu32 " names; at most %zu are read",
                           list->count, room);
    for (uint32_t i = 0; i < list->count; i++) {
        if (decode_is(from, (place){name, i}, list->items[i], VALUE_TEXT) != 0)
            return -1;
        const char *text = value_as_text(list->items[i])->bytes;
        for (numbers[i] = 0; numbers[i] < known_count; numbers[i]++)
            if (strcmp(text, known[numbers[i]]) == 0)
                break;
    }
    *count = list->count;
    return 0;
}

/* The place of the device in the model. */
int rows_device(decoder *from, place at, uint64_t index, size_t *found)
{
    const array *devices = &from->out->devices;
    for (*found = 0; *found < devices->count; ++*found)
        if (MODEL_AT(*devices, device, *found)->index == index)
            return 0;
    return decode_fail(from, at, "device %" PRIu64 " is not among the devices", index);
}
