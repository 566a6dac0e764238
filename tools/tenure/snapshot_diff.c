/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `tenure snapshot diff`: what grew from one snapshot to another.
 */
#include "base/plural.h"
#include "snapshot.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "diff.h"
#include "holders.h"
#include "json.h"
#include "table.h"

static int is_json;
static long top_count = 20;

static const cli_option options[] = {
    {"top", "N", "rows of the table (default 20)", &snapshot_common.top, NULL},
    {"json", NULL, "one object on stdout, with all rows", NULL, &is_json},
    SNAPSHOT_FRAMES_OPTION,
    SNAPSHOT_SYMBOLS_OPTION,
    SNAPSHOT_COMMON_OPTIONS,
};

static const cli_syntax syntax = {
    "snapshot diff",
    "what grew between two snapshots, by the stack that allocated it",
    "[options] BEFORE AFTER",
    "Both files may be of either kind: Tenure's JSON, PyTorch's pickle or JSON, plain or gzip. "
    "What\n"
    "holds more live memory after than before comes first; in a program that should have come to\n"
    "rest, that is what leaks. Blocks whose stack is not known are grouped by "
    "size.\n\n"
    "Examples:\n"
    "  tenure snapshot diff before.json after.json\n"
    "\n" SNAPSHOT_EXIT_CODES,
    options,
    2,
    2,
};

/* "+1.5 GiB", "-512 B", "0 B". */
static const char *growth_format(uint64_t before, uint64_t after, char *text)
{
    char bytes[32];
    const char *sign = after > before ? "+" : after < before ? "-" : "";
    snprintf(text, 40, "%s%s", sign,
             format_bytes_binary(after > before ? after - before : before - after, bytes));
    return text;
}

static const char *row_label(const model *before, const model *after, const diff_row *row,
                             char *text, size_t bytes)
{
    char high[32];
    if (row->stack_after > 0)
        return stack_label(after, (uint32_t)row->stack_after, text, bytes);
    if (row->stack_before > 0)
        return stack_label(before, (uint32_t)row->stack_before, text, bytes);
    snprintf(text, bytes, "(no stack) up to %s", format_size(UINT64_C(1) << row->size_class, high));
    return text;
}

static void total_row(table *out, const char *name, uint64_t before, uint64_t after)
{
    char text[40];
    table_row(out);
    table_cell(out, "%s", name);
    table_cell(out, "%s", format_bytes_binary(before, text));
    table_cell(out, "%s", format_bytes_binary(after, text));
    table_cell(out, "%s", growth_format(before, after, text));
}

static void totals_print(const diff *found)
{
    const diff_totals *a = &found->before, *b = &found->after;
    table out;
    TABLE_HEAD(&out, "Memory", "before", "after", "change");
    total_row(&out, "reserved", a->reserved, b->reserved);
    total_row(&out, "live", a->live, b->live);
    total_row(&out, "freed, waiting", a->retired, b->retired);
    total_row(&out, "free", a->cached, b->cached);
    table_print(&out, stdout);
    table_release(&out);
}

/* How many rows grew, and by how much together. */
static size_t grown_count(const diff *found, uint64_t *bytes)
{
    size_t count = 0;
    *bytes = 0;
    for (; count < found->rows.count; count++) {
        const diff_row *row = MODEL_AT(found->rows, diff_row, count);
        if (row->after.bytes <= row->before.bytes)
            break;
        *bytes += row->after.bytes - row->before.bytes;
    }
    return count;
}

static void rows_print(const model *before, const model *after, const diff *found)
{
    char label[LABEL_BYTES], line[TABLE_CELL_BYTES], text[40];
    table out;
    size_t shown = 0;
    TABLE_HEAD(&out, "Allocated by", "change", "before", "after", "blocks", "new");
    for (size_t i = 0; i < found->rows.count && shown < (size_t)top_count; i++) {
        const diff_row *row = MODEL_AT(found->rows, diff_row, i);
        if (row->before.bytes == row->after.bytes && row->before.count == row->after.count)
            continue;
        shown++;
        table_row(&out);
        const char *rest =
            table_line(row_label(before, after, row, label, snapshot_label_bytes()), line);
        table_cell(&out, "%s", line);
        table_cell(&out, "%s", growth_format(row->before.bytes, row->after.bytes, text));
        table_cell(&out, "%s", format_bytes_binary(row->before.bytes, text));
        table_cell(&out, "%s", format_bytes_binary(row->after.bytes, text));
        table_cell(&out, "%" PRIu64 " -> %" PRIu64, row->before.count, row->after.count);
        table_cell(&out, "%" PRIu64, row->new_count);
        table_rest(&out, rest);
    }
    if (shown > 0) {
        putchar('\n');
        table_print(&out, stdout);
    }
    table_release(&out);
}

static void text_print(const model *before, const model *after, const diff *found)
{
    uint64_t bytes;
    char text[32];
    size_t count = grown_count(found, &bytes);
    format_page(found->before.reserved > found->after.reserved ? found->before.reserved
                                                               : found->after.reserved);
    totals_print(found);
    if (count == 0)
        printf("\nNothing that is live grew.\n");
    else
        printf("\n%zu place%s hold%s %s more than before.\n", count, tnri_plural(count),
               count == 1 ? "s" : "", format_bytes_binary(bytes, text));
    rows_print(before, after, found);
}

static void totals_json(json_writer *json, const char *key, const diff_totals *totals)
{
    json_object_begin(json, key);
    json_unsigned(json, "reserved_bytes", totals->reserved);
    json_unsigned(json, "live_bytes", totals->live);
    json_unsigned(json, "live_blocks", totals->live_count);
    json_unsigned(json, "retired_bytes", totals->retired);
    json_unsigned(json, "free_bytes", totals->cached);
    json_object_end(json);
}

static void json_print(const model *before, const model *after, const diff *found)
{
    json_writer json;
    char label[LABEL_BYTES];
    json_start(&json, stdout);
    json_object_begin(&json, NULL);
    totals_json(&json, "before", &found->before);
    totals_json(&json, "after", &found->after);
    json_array_begin(&json, "rows");
    for (size_t i = 0; i < found->rows.count; i++) {
        const diff_row *row = MODEL_AT(found->rows, diff_row, i);
        json_object_begin(&json, NULL);
        json_text(&json, "name", row_label(before, after, row, label, sizeof(label)));
        json_unsigned(&json, "before_bytes", row->before.bytes);
        json_unsigned(&json, "before_blocks", row->before.count);
        json_unsigned(&json, "after_bytes", row->after.bytes);
        json_unsigned(&json, "after_blocks", row->after.count);
        json_unsigned(&json, "new_bytes", row->new_bytes);
        json_unsigned(&json, "new_blocks", row->new_count);
        json_object_end(&json);
    }
    json_array_end(&json);
    json_object_end(&json);
    json_end(&json);
}

/* Compares two that have been read. */
static exit_code compare(const model *before, const model *after, const budget *limits)
{
    diff found;
    exit_code code = EXIT_CODE_OK;
    if (diff_run(before, after, &found) != 0)
        code = snapshot_no_memory(&syntax, limits);
    else if (is_json)
        json_print(before, after, &found);
    else
        text_print(before, after, &found);
    diff_release(&found);
    return code;
}

int snapshot_diff(int argc, char **argv)
{
    cli_result parsed;
    budget limits;
    model before, after;
    exit_code code;
    if (!snapshot_begin(&syntax, argc, argv, &parsed, &top_count, &limits, &code))
        return code;
    model_start(&after, &limits);
    code = snapshot_load_short(&syntax, parsed.positionals[0], &limits, &before);
    if (code == EXIT_CODE_OK)
        code = snapshot_load_short(&syntax, parsed.positionals[1], &limits, &after);
    if (code == EXIT_CODE_OK)
        code = compare(&before, &after, &limits);
    model_release(&before);
    model_release(&after);
    return code;
}
