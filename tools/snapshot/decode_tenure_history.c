/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The history of Tenure's snapshots. It is nearly all of a large file, so its rows become records
 * as they are read. What they refer to is checked once everything has been read.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "rows.h"

static int reasons_decode(decoder *from, value document)
{
    const value_list *list;
    model *out = from->out;
    if (decode_list(from, whole("the document"), document, "reasons", &list) != 0)
        return -1;
    if (list->count == 0 || list->count > REASONS_MAX)
        return decode_fail(from, whole("reasons"), "there must be 1 to %d of them", REASONS_MAX);
    for (uint32_t i = 0; i < list->count; i++) {
        if (decode_is(from, (place){"reasons", i}, list->items[i], VALUE_TEXT) != 0)
            return -1;
        const value_text *text = value_as_text(list->items[i]);
        const char **made = MODEL_ADD(out, &out->reasons, const char *);
        if (!made || !(*made = model_text(out, text->bytes, text->length)))
            return decode_fail_memory(from);
    }
    return 0;
}

/* The history is nearly all of a large file, so its rows become records as they are read. They
 * refer to tables that are looked at after that: until then a record's `kind` is the number in
 * the file, and its indexes are only known to fit. */
typedef struct tenure_history {
    rows table;
} tenure_history;

static const char *const history_columns[] = {
    "time_ns", "kind",   "address", "bytes", "requested_bytes", "pool", "stream",
    "thread",  "reason", "mark",    "stack", "value",           NULL};
enum {
    REC_TIME,
    REC_KIND,
    REC_ADDRESS,
    REC_BYTES,
    REC_REQUESTED,
    REC_POOL,
    REC_STREAM,
    REC_THREAD,
    REC_REASON,
    REC_MARK,
    REC_STACK,
    REC_VALUE,
    REC_COLUMNS,
};

/* The largest number that a column may have whatever the tables are; 0: any. */
static const int64_t history_most[REC_COLUMNS] = {
    [REC_KIND] = NAMES_MAX,     [REC_POOL] = INT32_MAX, [REC_STREAM] = INT32_MAX,
    [REC_REASON] = REASONS_MAX, [REC_MARK] = INT32_MAX, [REC_STACK] = INT32_MAX,
};

/* Makes a record of the row whose cells were read last. */
static int record_add(decoder *from, const rows *table, size_t i)
{
    const int64_t *cell = table->cell;
    for (size_t k = 0; k < REC_COLUMNS; k++) {
        int may_be_none =
            k == REC_TIME || k == REC_POOL || k == REC_STREAM || k == REC_THREAD || k == REC_VALUE;
        int is_index = history_most[k] > 0;
        if (is_index && ((cell[k] < 0 && !may_be_none) || cell[k] > history_most[k]))
            return decode_fail(from, (place){"history", i},
                               "\"%s\" is %" PRId64 "; no table has anything there",
                               history_columns[k], cell[k]);
        if (!is_index && !may_be_none &&
            rows_positive(from, table, i, history_columns[k], cell[k]) != 0)
            return -1;
    }
    record *made = MODEL_ADD(from->out, &from->out->records, record);
    if (!made)
        return decode_fail_memory(from);
    int64_t thread = cell[REC_THREAD];
    *made = (record){.time_ns = cell[REC_TIME],
                     .address = (uint64_t)cell[REC_ADDRESS],
                     .bytes = (uint64_t)cell[REC_BYTES],
                     .requested_bytes = (uint64_t)cell[REC_REQUESTED],
                     .value = cell[REC_VALUE],
                     .pool = (int32_t)cell[REC_POOL],
                     .stream = (int32_t)cell[REC_STREAM],
                     .thread = thread > 0 && thread <= UINT32_MAX ? (uint32_t)thread : 0,
                     .mark = (uint32_t)cell[REC_MARK],
                     .stack = (uint32_t)cell[REC_STACK],
                     .reason = (uint16_t)cell[REC_REASON],
                     .kind = (unsigned char)cell[REC_KIND]};
    return 0;
}

/* Of a text that is the key of something. */
static int is_key(value key, const char *name)
{
    return value_kind_of(key) == VALUE_TEXT && strcmp(value_as_text(key)->bytes, name) == 0;
}

int decode_tenure_begin(void *context, const value *keys, const value *pairs, size_t count)
{
    decoder *from = context;
    if (from->history || !is_key(keys[0], "history") || !is_key(keys[1], "rows"))
        return 0;
    /* Columns that come after the rows, or are not as they must be, are the usual reader's. */
    const value_list *columns = NULL;
    for (size_t i = 0; i + 1 < count; i += 2)
        if (is_key(pairs[i], "columns") && value_kind_of(pairs[i + 1]) == VALUE_LIST)
            columns = value_as_list(pairs[i + 1]);
    rows table = {.name = "history"};
    if (!columns || rows_columns(&table, columns, history_columns, REC_COLUMNS))
        return 0;
    from->history = malloc(sizeof(*from->history));
    if (!from->history) {
        from->out->limits->refused = 2;
        return decode_fail_memory(from);
    }
    from->history->table = table;
    return 1;
}

int decode_tenure_row(void *context, const value *cells, size_t count)
{
    decoder *from = context;
    rows *table = &from->history->table;
    size_t i = from->out->records.count;
    return rows_cells(from, table, i, cells, count) != 0 || record_add(from, table, i) != 0 ? -1
                                                                                            : 1;
}

void decode_tenure_release(decoder *from)
{
    free(from->history);
    from->history = NULL;
}

/* Checks what a record refers to, and completes it. */
static int record_finish(decoder *from, const rows *table, size_t i, const unsigned char *kinds,
                         size_t kinds_count, record *one)
{
    model *out = from->out;
    if (rows_index(from, table, i, "kind", one->kind, kinds_count, 0) != 0 ||
        rows_index(from, table, i, "pool", one->pool, out->pools.count, 1) != 0 ||
        rows_index(from, table, i, "stream", one->stream, out->streams.count, 1) != 0 ||
        rows_index(from, table, i, "reason", one->reason, out->reasons.count, 0) != 0 ||
        rows_index(from, table, i, "mark", one->mark, out->strings.count, 0) != 0 ||
        rows_index(from, table, i, "stack", one->stack, out->stacks.count, 0) != 0)
        return -1;
    one->kind = kinds[one->kind];
    size_t device_at = DEVICE_NONE;
    uint64_t device_number = 0;
    if (one->pool >= 0)
        device_number = MODEL_AT(out->pools, pool, one->pool)->device;
    else if (one->stream >= 0)
        device_number = MODEL_AT(out->streams, stream, one->stream)->device;
    if ((one->pool >= 0 || one->stream >= 0) &&
        rows_device(from, (place){"history", i}, device_number, &device_at) != 0)
        return -1;
    one->device = (unsigned char)device_at;
    return 0;
}

/* The same for all. What happens only in later versions is left out. */
static int records_finish(decoder *from, const rows *table, const unsigned char *kinds,
                          size_t kinds_count)
{
    array *records = &from->out->records;
    size_t kept = 0;
    for (size_t i = 0; i < records->count; i++) {
        record *one = MODEL_AT(*records, record, i);
        if (record_finish(from, table, i, kinds, kinds_count, one) != 0)
            return -1;
        if (one->kind != RECORD_KINDS_COUNT)
            *MODEL_AT(*records, record, kept++) = *one;
    }
    records->count = kept;
    return 0;
}

int rows_history(decoder *from, value document)
{
    unsigned char kinds[NAMES_MAX];
    size_t kinds_count;
    rows table;
    value dict;
    history_counts *counts = &from->out->history;
    place at = whole("history");
    if (reasons_decode(from, document) != 0 ||
        rows_names(from, document, "kinds", record_kind_names, RECORD_KINDS_COUNT, kinds, NAMES_MAX,
                   &kinds_count) != 0 ||
        decode_dict(from, whole("the document"), document, "history", &dict) != 0 ||
        decode_text(from, at, dict, "mode", &counts->mode) != 0 ||
        decode_count(from, at, dict, "capacity", &counts->capacity) != 0 ||
        decode_count(from, at, dict, "written", &counts->written) != 0 ||
        decode_count(from, at, dict, "overwritten", &counts->overwritten) != 0 ||
        decode_count(from, at, dict, "missed", &counts->missed) != 0 ||
        decode_count(from, at, dict, "complete_since_ns", &counts->complete_since_ns) != 0 ||
        rows_open(from, document, "history", history_columns, REC_COLUMNS, &table) != 0)
        return -1;
    /* All rows, or those that were not taken while they were read. */
    for (size_t i = 0; i < table.list->count; i++)
        if (rows_read(from, &table, i) != 0 || record_add(from, &table, i) != 0)
            return -1;
    return records_finish(from, &table, kinds, kinds_count);
}
