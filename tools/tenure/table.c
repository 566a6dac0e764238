/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables for people: see table.h. Column widths come from the cells, so nothing is ever cut off;
 * long labels go on in further rows.
 */
#include "table.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes_text.h"
#include "shown.h"

_Static_assert(TABLE_LINE + 4 < TABLE_CELL_BYTES, "a line fits into a cell");

void table_start(table *result, size_t columns_count)
{
    memset(result, 0, sizeof(*result));
    result->columns_count = columns_count;
}

void table_release(table *result)
{
    free(result->cells);
    free(result->bad);
    memset(result, 0, sizeof(*result));
}

/* A table that cannot grow cannot be shown either, so running out of host memory ends here. */
static void *grown(void *old, size_t bytes)
{
    void *memory = realloc(old, bytes);
    if (!memory) {
        fputs("tenure: no host memory for a table\n", stderr);
        exit(4);
    }
    return memory;
}

void table_row(table *result)
{
    if (result->rows_count == result->rows_capacity) {
        result->rows_capacity = result->rows_capacity ? result->rows_capacity * 2 : 16;
        size_t cells_count = result->rows_capacity * result->columns_count;
        result->cells = grown(result->cells, cells_count * sizeof(*result->cells));
        result->bad = grown(result->bad, cells_count);
    }
    size_t first = result->rows_count++ * result->columns_count;
    for (size_t i = 0; i < result->columns_count; i++)
        result->cells[first + i][0] = '\0';
    memset(result->bad + first, 0, result->columns_count);
    result->column = 0;
}

void table_cell(table *result, const char *format, ...)
{
    if (result->column >= result->columns_count)
        return;
    size_t at = (result->rows_count - 1) * result->columns_count + result->column++;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(result->cells[at], TABLE_CELL_BYTES, format, arguments);
    va_end(arguments);
    (void)shown(result->cells[at]);
}

void table_head(table *result, const char *const *words, size_t more)
{
    size_t count = 0;
    while (words[count] != NULL)
        count++;
    table_start(result, count + more);
    table_row(result);
    for (size_t i = 0; i < count; i++)
        table_cell(result, "%s", words[i]);
}

void table_cell_bad(table *result)
{
    result->bad[(result->rows_count - 1) * result->columns_count + result->column - 1] = 1;
}

const char *table_line(const char *text, char *line)
{
    size_t length = strlen(text), cut = length;
    if (length > TABLE_LINE) {
        /* The last places to break at: between two frames is best, then behind a word; a long name
         * of C++ is broken behind a scope. */
        size_t scope = 0, blank = 0, caller = 0;
        for (size_t i = TABLE_LINE / 2 + 1; i <= TABLE_LINE; i++) {
            scope = strncmp(text + i - 2, "::", 2) == 0 ? i : scope;
            blank = text[i] == ' ' ? i : blank;
            caller = strncmp(text + i, " < ", 3) == 0 ? i : caller;
        }
        cut = caller > 0 ? caller : blank > 0 ? blank : scope > 0 ? scope : TABLE_LINE;
    }
    memcpy(line, text, cut);
    line[cut] = '\0';
    return text + cut + (text[cut] == ' ');
}

void table_rest(table *result, const char *rest)
{
    char line[TABLE_CELL_BYTES];
    while (*rest) {
        rest = table_line(rest, line);
        table_row(result);
        table_cell(result, "  %s", line);
    }
}

static void row_print(const table *result, size_t row, const int *widths, FILE *file, int colour)
{
    size_t count = result->columns_count; /* without empty ones at the end: no trailing blanks */
    while (count > 1 && result->cells[row * result->columns_count + count - 1][0] == '\0')
        count--;
    for (size_t i = 0; i < count; i++) {
        size_t at = row * result->columns_count + i;
        const char *on = "";
        if (colour && row == 0)
            on = "\033[1m";
        else if (colour && result->bad[at])
            on = "\033[1;31m";
        int width = count == 1 ? 0 : i == 0 ? -widths[i] : widths[i];
        fprintf(file, "%s%s%*s%s", i == 0 ? "" : "  ", on, width, result->cells[at],
                *on ? "\033[0m" : "");
    }
    fputc('\n', file);
}

void table_print(const table *result, FILE *file)
{
    int widths[TABLE_COLUMNS_MAX] = {0};
    for (size_t row = 0; row < result->rows_count; row++) {
        for (size_t i = 0; i < result->columns_count; i++) {
            int length = (int)strlen(result->cells[row * result->columns_count + i]);
            if (length > widths[i])
                widths[i] = length;
        }
    }
    int colour = colour_wanted(file);
    for (size_t row = 0; row < result->rows_count; row++)
        row_print(result, row, widths, file, colour);
}

int colour_wanted(FILE *file)
{
    const char *no_color = getenv("NO_COLOR");
    const char *terminal = getenv("TERM");
    if (no_color && *no_color != '\0')
        return 0;
    if (terminal && strcmp(terminal, "dumb") == 0)
        return 0;
    return isatty(fileno(file));
}

static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};

static size_t unit_of(uint64_t bytes)
{
    size_t unit = 0;
    while (unit + 1 < sizeof(units) / sizeof(units[0]) && bytes >> 10 * (unit + 1) > 0)
        unit++;
    return unit;
}

static uint64_t page_most;

void format_page(uint64_t most)
{
    page_most = most;
}

const char *format_bytes_binary(uint64_t bytes, char *buffer)
{
    return tnri_bytes_text(bytes, page_most, buffer, 32);
}

const char *format_size(uint64_t bytes, char *buffer)
{
    size_t unit = unit_of(bytes);
    double value = (double)bytes / (double)(UINT64_C(1) << 10 * unit);
    if (value == (double)(uint64_t)value)
        snprintf(buffer, 32, "%.0f %s", value, units[unit]);
    else
        snprintf(buffer, 32, "%.1f %s", value, units[unit]);
    return buffer;
}

const char *format_unit(uint64_t largest)
{
    return units[unit_of(largest)];
}

const char *format_in_unit(uint64_t bytes, uint64_t largest, char *buffer)
{
    size_t unit = unit_of(largest);
    snprintf(buffer, 32, "%.*f", unit == 0 ? 0 : 2,
             (double)bytes / (double)(UINT64_C(1) << 10 * unit));
    return buffer;
}
