/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `tenure snapshot summary`: who holds memory, how scattered the free memory is (in sentences), and
 * what waits for what.
 */
#include "base/plural.h"
#include "snapshot.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "advice.h"
#include "course.h"
#include "holders.h"
#include "json.h"
#include "peak.h"
#include "rewind.h"
#include "shown.h"
#include "table.h"

static int is_json;
static long top_count = 10;

static const cli_option options[] = {
    {"top", "N", "rows of the longest tables (default 10)", &snapshot_common.top, NULL},
    {"json", NULL, "one object on stdout, with all rows", NULL, &is_json},
    SNAPSHOT_FRAMES_OPTION,
    SNAPSHOT_SYMBOLS_OPTION,
    SNAPSHOT_COMMON_OPTIONS,
};

static const cli_syntax syntax = {
    "snapshot summary",
    "who holds what, how scattered it is, and what waits for what",
    "[options] FILE",
    SNAPSHOT_FILES "Examples:\n"
                   "  tenure snapshot summary memory.pickle\n"
                   "\n" SNAPSHOT_EXIT_CODES,
    options,
    1,
    1,
};

/* All that is shown. */
typedef struct summary {
    const model *in;
    const char *path;
    array by[4];         /* holder, by holder_kind */
    array waits;         /* waiting */
    array advice, peaks; /* advice; advice_peak, of each device */
    array *at_peak;      /* holder, of each device, by stack */
    scatter free_memory;
    uint64_t live_bytes, live_count, retired_bytes, retired_count;
    size_t contradictions; /* records that do not fit the picture */
} summary;

static const char *const kind_titles[] = {"Pool", "Stream", "Allocated by", "Asked for"};
static const char *const kind_keys[] = {"pools", "streams", "stacks", "sizes"};

/* ---- names ---------------------------------------------------------------------------------- */

static const char *stream_label(const model *in, int32_t index, char *text, size_t bytes)
{
    if (index < 0)
        return "(none)";
    const stream *one = MODEL_AT(in->streams, stream, index);
    char name[64];
    if (one->name)
        snprintf(text, bytes, "%s (0x%" PRIx64 "%s)", model_stream_name(one, name, sizeof(name)),
                 one->handle, one->ended ? ", destroyed" : "");
    else if (strcmp(one->kind, "stream") == 0)
        snprintf(text, bytes, "0x%" PRIx64 "%s", one->handle, one->ended ? " (destroyed)" : "");
    else if (strcmp(one->kind, "graph") == 0)
        snprintf(text, bytes, "graphs");
    else
        snprintf(text, bytes, "0x%" PRIx64 " (%s%s)", one->handle, one->kind,
                 one->ended ? ", destroyed" : "");
    if (in->devices.count > 1) {
        size_t length = strlen(text);
        snprintf(text + length, bytes - length, " of device %" PRIu64, one->device);
    }
    return text;
}

static const char *pool_label(const model *in, uint32_t index, char *text, size_t bytes)
{
    const pool *one = MODEL_AT(in->pools, pool, index);
    if (in->devices.count > 1)
        snprintf(text, bytes, "%.60s of device %" PRIu64, one->name, one->device);
    else
        snprintf(text, bytes, "%.80s", one->name);
    return text;
}

static const char *holder_label(const model *in, holder_kind kind, const holder *one, char *text,
                                size_t bytes)
{
    char low[32], high[32];
    switch (kind) {
    case HOLDER_POOL:
        return pool_label(in, one->key, text, bytes);
    case HOLDER_STREAM:
        return stream_label(in, (int32_t)one->key, text, bytes);
    case HOLDER_STACK:
        return stack_label(in, one->key, text, bytes);
    case HOLDER_SIZE:
        break;
    }
    if (one->key == 0)
        snprintf(text, bytes, "up to 1 B");
    else
        snprintf(text, bytes, "%s to %s", format_size(UINT64_C(1) << (one->key - 1), low),
                 format_size(UINT64_C(1) << one->key, high));
    return text;
}

/* ---- text ------------------------------------------------------------------------------------ */

/* "12.5 ms", from one moment to another; "?" if the first is not known. */
static const char *age_format(int64_t since_ns, int64_t now_ns, char *text)
{
    double ms = (double)(now_ns - since_ns) / 1e6;
    if (since_ns < 0 || now_ns < since_ns)
        return "?";
    if (ms >= 1000)
        snprintf(text, 32, "%.1f s", ms / 1000);
    else
        snprintf(text, 32, "%.3f ms", ms);
    return text;
}

/* The device's last record at which that much was in use; -1: not known. */
static int64_t peak_time(const summary *all, size_t device_at)
{
    const model *in = all->in;
    for (size_t i = MODEL_AT(all->peaks, advice_peak, device_at)->records; i > 0; i--) {
        const record *event = MODEL_AT(in->records, record, i - 1);
        if (course_record_device(in, event) == device_at)
            return event->time_ns;
    }
    return -1;
}

static void rows_print(const summary *all, holder_kind kind, const char *title, const array *rows)
{
    char label[LABEL_BYTES], line[TABLE_CELL_BYTES], live[32], retired[32], cached[32];
    int with_cached = kind == HOLDER_POOL || kind == HOLDER_STREAM;
    size_t shown =
        kind == HOLDER_SIZE || rows->count < (size_t)top_count ? rows->count : (size_t)top_count;
    table out;
    if (rows->count == 0)
        return;
    table_start(&out, with_cached ? 6 : 5);
    table_row(&out);
    table_cell(&out, "%s", title);
    table_cell(&out, "live");
    table_cell(&out, "blocks");
    table_cell(&out, "waiting");
    table_cell(&out, "blocks");
    if (with_cached)
        table_cell(&out, "free");
    for (size_t i = 0; i < shown; i++) {
        const holder *one = MODEL_AT(*rows, holder, i);
        table_row(&out);
        const char *rest =
            table_line(holder_label(all->in, kind, one, label, snapshot_label_bytes()), line);
        table_cell(&out, "%s", line);
        table_cell(&out, "%s", format_bytes_binary(one->live_bytes, live));
        table_cell(&out, "%" PRIu64, one->live_count);
        table_cell(&out, "%s", format_bytes_binary(one->retired_bytes, retired));
        table_cell(&out, "%" PRIu64, one->retired_count);
        if (with_cached)
            table_cell(&out, "%s", format_bytes_binary(one->cached_bytes, cached));
        table_rest(&out, rest);
    }
    putchar('\n');
    table_print(&out, stdout);
    if (shown < rows->count)
        printf("... and %zu more (--top)\n", rows->count - shown);
    table_release(&out);
}

static void holders_print(const summary *all, holder_kind kind)
{
    rows_print(all, kind, kind_titles[kind], &all->by[kind]);
}

/* Who held memory when most was in use, of each device. Where that is the end, it is what follows
 * anyway. */
static void peaks_print(const summary *all)
{
    const model *in = all->in;
    char bytes[32], age[32];
    for (size_t i = 0; i < in->devices.count && in->records.count > 0; i++) {
        const advice_peak *peak = MODEL_AT(all->peaks, advice_peak, i);
        const device *one = MODEL_AT(in->devices, device, i);
        printf("\nAt the peak of its history, device %" PRIu64 " had %s in use", one->index,
               format_bytes_binary(peak->in_use, bytes));
        if (peak->records == in->records.count || peak->records == 0)
            printf("%s.\n", peak->records == 0 ? ", before it began" : ": that is the end");
        else if (peak_time(all, i) >= 0)
            printf(", %s before the end.\n", age_format(peak_time(all, i), in->taken_ns, age));
        else /* a history without times, as early versions of PyTorch write them */
            printf(", after record %zu of %zu.\n", peak->records, in->records.count);
        if (peak->in_use > one->reserved_bytes && peak->in_use > one->reserved_peak_bytes)
            printf("No more than %s was ever reserved: records are missing from the history.\n",
                   format_bytes_binary(one->reserved_peak_bytes > one->reserved_bytes
                                           ? one->reserved_peak_bytes
                                           : one->reserved_bytes,
                                       bytes));
        if (peak->records < in->records.count)
            rows_print(all, HOLDER_STACK, "Held at the peak by", &all->at_peak[i]);
    }
}

static void scatter_print(const summary *all)
{
    const scatter *free = &all->free_memory;
    char a[32], b[32];
    if (free->free_bytes == 0)
        printf("\nNothing of it is free: a new request needs new memory.\n");
    else if (free->runs_count == 1)
        printf("\n%s are free, in one piece.\n", format_bytes_binary(free->free_bytes, a));
    else
        printf("\n%s are free, in %" PRIu64
               " piece%s; the largest is %s. A larger request needs new "
               "memory.\n",
               format_bytes_binary(free->free_bytes, a), free->runs_count,
               tnri_plural(free->runs_count), format_bytes_binary(free->largest_run_bytes, b));
    if (free->idle_segments_bytes > 0)
        printf("%s of that could go back to the device: %" PRIu64 " whole segment%s with nothing "
               "in use.\n",
               format_bytes_binary(free->idle_segments_bytes, a), free->idle_segments_count,
               tnri_plural(free->idle_segments_count));
    if (free->thin_segments_count > 0)
        printf("%s of that lie in %" PRIu64 " segment%s that %s keep: at most a tenth of each is "
               "in use.\n",
               format_bytes_binary(free->thin_free_bytes, a), free->thin_segments_count,
               tnri_plural(free->thin_segments_count),
               format_bytes_binary(free->thin_held_bytes, b));
    if (free->slack_bytes > 0)
        printf("Rounding costs %s, %.1f %% of what is live.\n",
               format_bytes_binary(free->slack_bytes, a),
               100.0 * (double)free->slack_bytes / (double)all->live_bytes);
}

static void waits_print(const summary *all)
{
    char label[160], bytes[32], age[32];
    table out;
    if (all->retired_count > 0)
        printf("\n%s in %" PRIu64 " block%s were freed and wait until nothing uses them.\n",
               format_bytes_binary(all->retired_bytes, bytes), all->retired_count,
               tnri_plural(all->retired_count));
    if (all->waits.count == 0)
        return;
    TABLE_HEAD(&out, "Waits for", "memory", "blocks", "longest");
    for (size_t i = 0; i < all->waits.count && i < (size_t)top_count; i++) {
        const waiting *one = MODEL_AT(all->waits, waiting, i);
        table_row(&out);
        if (one->kind == WAIT_USE)
            table_cell(&out, "work on stream %s",
                       stream_label(all->in, one->stream, label, sizeof(label)));
        else if (one->kind == WAIT_FREE_SYNC)
            table_cell(&out, "everything before tnr_free_sync");
        else if (one->kind == WAIT_EXPORT)
            table_cell(&out, "exports to be closed");
        else
            table_cell(&out, "%s %" PRId64, one->kind == WAIT_GRAPH ? "graph" : "capture of graph",
                       one->graph);
        table_cell(&out, "%s", format_bytes_binary(one->bytes, bytes));
        table_cell(&out, "%" PRIu64, one->blocks_count);
        table_cell(&out, "%s", age_format(one->oldest_since_ns, all->in->taken_ns, age));
    }
    putchar('\n');
    table_print(&out, stdout);
    if ((size_t)top_count < all->waits.count)
        printf("... and %zu more (--top)\n", all->waits.count - (size_t)top_count);
    table_release(&out);
}

/* "kept throughout by load model.c:12", as the first column of the advice. */
static const char *advice_label(const summary *all, const advice *one, char *text, size_t bytes)
{
    static const char *const words[ADVICE_KINDS_COUNT] = {
        "kept throughout by ", "freed memory that waits", "rounding", "pinned by "};
    int length = snprintf(text, bytes, "%s", words[one->kind]);
    if (one->kind == ADVICE_KEPT || one->kind == ADVICE_PINNED)
        (void)stack_label(all->in, one->stack, text + length, bytes - (size_t)length);
    if (all->in->devices.count > 1) {
        size_t used = strlen(text);
        snprintf(text + used, bytes - used, " of device %" PRIu64,
                 MODEL_AT(all->in->devices, device, one->device)->index);
    }
    return text;
}

static void advice_print(const summary *all)
{
    char label[LABEL_BYTES], line[TABLE_CELL_BYTES], bytes[32], without[32];
    table out;
    if (all->in->records.count == 0 || all->advice.count == 0)
        return;
    putchar('\n');
    TABLE_HEAD(&out, "What would lower it", "memory", "blocks", "to");
    for (size_t i = 0; i < all->advice.count && i < (size_t)top_count; i++) {
        const advice *one = MODEL_AT(all->advice, advice, i);
        table_row(&out);
        const char *rest = table_line(advice_label(all, one, label, snapshot_label_bytes()), line);
        table_cell(&out, "%s", line);
        table_cell(&out, "%s", format_bytes_binary(one->bytes, bytes));
        if (one->blocks > 0)
            table_cell(&out, "%" PRIu64, one->blocks);
        else
            table_cell(&out, "%s", "");
        table_cell(&out, "%s%s", format_bytes_binary(one->without_bytes, without),
                   one->kind == ADVICE_PINNED ? " reserved" : "");
        table_rest(&out, rest);
    }
    table_print(&out, stdout);
    if ((size_t)top_count < all->advice.count)
        printf("... and %zu more (--top)\n", all->advice.count - (size_t)top_count);
    table_release(&out);
}

static void head_print(const summary *all)
{
    const model *in = all->in;
    char a[32], b[32], c[32];
    say(stdout,
        "%s: a snapshot of %s%s%s%s%s, %zu device%s, %zu segment%s, %zu block%s, %zu record%s\n",
        all->path, strcmp(in->writer_name, "tenure") == 0 ? "Tenure" : in->writer_name,
        in->writer_version[0] ? " " : "", in->writer_version, in->program[0] ? " in " : "",
        in->program, in->devices.count, tnri_plural(in->devices.count), in->segments.count,
        tnri_plural(in->segments.count), in->blocks.count, tnri_plural(in->blocks.count),
        in->records.count, tnri_plural(in->records.count));
    printf("%s are reserved. %s in %" PRIu64 " block%s are live",
           format_bytes_binary(all->free_memory.reserved_bytes, a),
           format_bytes_binary(all->live_bytes, b), all->live_count, tnri_plural(all->live_count));
    if (all->free_memory.reserved_bytes > 0)
        printf(", %.1f %% of it",
               100.0 * (double)all->live_bytes / (double)all->free_memory.reserved_bytes);
    if (all->retired_bytes > 0)
        printf("; %s wait", format_bytes_binary(all->retired_bytes, c));
    printf(".\n");
    for (size_t i = 0; i < in->devices.count; i++) {
        const device *one = MODEL_AT(in->devices, device, i);
        if (one->reserved_peak_bytes > one->reserved_bytes)
            printf("At its peak, device %" PRIu64 " had %s reserved.\n", one->index,
                   format_bytes_binary(one->reserved_peak_bytes, a));
        if (one->asleep_bytes > 0)
            printf("Device %" PRIu64 " has %s asleep.\n", one->index,
                   format_bytes_binary(one->asleep_bytes, a));
        if (one->ooms > 0)
            printf("Device %" PRIu64 " ran out of memory %" PRIu64 " time%s.\n", one->index,
                   one->ooms, tnri_plural(one->ooms));
    }
    if (in->history.overwritten > 0 && in->origin == ORIGIN_TORCH)
        printf("The history is not whole: PyTorch keeps %" PRIu64 " entries and has overwritten "
               "older ones (max_entries).\n",
               in->history.capacity);
    else if (in->history.overwritten > 0)
        printf("The history is not whole: %" PRIu64 " older record%s %s overwritten.\n",
               in->history.overwritten, tnri_plural(in->history.overwritten),
               in->history.overwritten == 1 ? "was" : "were");
    if (all->contradictions > 0)
        printf("The history has holes: %zu of its %zu records do not fit what is there at the end. "
               "What it\nsays of earlier moments, the peak among them, may be too little or too "
               "much.\n",
               all->contradictions, in->records.count);
}

/* The largest amount of the page: what is or was reserved, or more by what the history says. */
static uint64_t most_of(const summary *all)
{
    uint64_t most = all->free_memory.reserved_bytes;
    for (size_t i = 0; i < all->in->devices.count; i++) {
        uint64_t reserved = MODEL_AT(all->in->devices, device, i)->reserved_peak_bytes;
        uint64_t in_use = MODEL_AT(all->peaks, advice_peak, i)->in_use;
        most = reserved > most ? reserved : most;
        most = in_use > most ? in_use : most;
    }
    return most;
}

static void text_print(const summary *all)
{
    format_page(most_of(all));
    head_print(all);
    peaks_print(all);
    holders_print(all, HOLDER_POOL);
    holders_print(all, HOLDER_STREAM);
    holders_print(all, HOLDER_STACK);
    holders_print(all, HOLDER_SIZE);
    scatter_print(all);
    waits_print(all);
    advice_print(all);
}

/* ---- JSON ----------------------------------------------------------------------------------- */

/* Of the past, a peak, it is not known what was asked for and what was free. */
static void holders_json(json_writer *json, const summary *all, holder_kind kind, const char *key,
                         const array *rows, int is_past)
{
    char label[LABEL_BYTES];
    json_array_begin(json, key);
    for (size_t i = 0; i < rows->count; i++) {
        const holder *one = MODEL_AT(*rows, holder, i);
        json_object_begin(json, NULL);
        json_text(json, "name", holder_label(all->in, kind, one, label, sizeof(label)));
        json_unsigned(json, "live_bytes", one->live_bytes);
        if (!is_past)
            json_unsigned(json, "live_requested_bytes", one->live_requested_bytes);
        json_unsigned(json, "live_blocks", one->live_count);
        json_unsigned(json, "retired_bytes", one->retired_bytes);
        json_unsigned(json, "retired_blocks", one->retired_count);
        if (!is_past)
            json_unsigned(json, "free_bytes", one->cached_bytes);
        json_object_end(json);
    }
    json_array_end(json);
}

static void waits_json(json_writer *json, const summary *all)
{
    char label[160];
    json_array_begin(json, "waits");
    for (size_t i = 0; i < all->waits.count; i++) {
        const waiting *one = MODEL_AT(all->waits, waiting, i);
        json_object_begin(json, NULL);
        json_text(json, "kind", wait_kind_names[one->kind]);
        if (one->stream >= 0)
            json_text(json, "stream", stream_label(all->in, one->stream, label, sizeof(label)));
        if (one->graph >= 0)
            json_unsigned(json, "graph", (uint64_t)one->graph);
        json_unsigned(json, "bytes", one->bytes);
        json_unsigned(json, "blocks", one->blocks_count);
        if (one->oldest_since_ns >= 0 && one->oldest_since_ns <= all->in->taken_ns)
            json_unsigned(json, "longest_ns", (uint64_t)(all->in->taken_ns - one->oldest_since_ns));
        json_object_end(json);
    }
    json_array_end(json);
}

static void advice_json(json_writer *json, const summary *all)
{
    char label[LABEL_BYTES];
    json_array_begin(json, "peaks");
    for (size_t i = 0; i < all->in->devices.count; i++) {
        const advice_peak *one = MODEL_AT(all->peaks, advice_peak, i);
        json_object_begin(json, NULL);
        json_unsigned(json, "device", MODEL_AT(all->in->devices, device, i)->index);
        json_unsigned(json, "in_use_bytes", one->in_use);
        json_unsigned(json, "live_bytes", one->live);
        json_unsigned(json, "unrounded_bytes", one->asked);
        if (peak_time(all, i) >= 0 && peak_time(all, i) <= all->in->taken_ns)
            json_unsigned(json, "ns_before_end", (uint64_t)(all->in->taken_ns - peak_time(all, i)));
        holders_json(json, all, HOLDER_STACK, "stacks", &all->at_peak[i], 1);
        json_object_end(json);
    }
    json_array_end(json);
    json_array_begin(json, "advice");
    for (size_t i = 0; i < all->advice.count; i++) {
        const advice *one = MODEL_AT(all->advice, advice, i);
        json_object_begin(json, NULL);
        json_text(json, "kind", advice_names[one->kind]);
        json_unsigned(json, "device", MODEL_AT(all->in->devices, device, one->device)->index);
        if (one->kind == ADVICE_KEPT || one->kind == ADVICE_PINNED)
            json_text(json, "stack", stack_label(all->in, one->stack, label, sizeof(label)));
        json_unsigned(json, "blocks", one->blocks);
        json_unsigned(json, "bytes", one->bytes);
        json_unsigned(json,
                      one->kind == ADVICE_PINNED ? "reserved_without_bytes" : "peak_without_bytes",
                      one->without_bytes);
        json_object_end(json);
    }
    json_array_end(json);
}

static void json_print(const summary *all)
{
    json_writer json;
    const scatter *free = &all->free_memory;
    json_start(&json, stdout);
    json_object_begin(&json, NULL);
    json_text(&json, "file", all->path);
    json_text(&json, "writer", all->in->writer_name);
    json_unsigned(&json, "devices", all->in->devices.count);
    json_unsigned(&json, "records", all->in->records.count);
    json_unsigned(&json, "records_overwritten", all->in->history.overwritten);
    json_unsigned(&json, "records_contradicting", all->contradictions);
    json_unsigned(&json, "reserved_bytes", free->reserved_bytes);
    json_unsigned(&json, "live_bytes", all->live_bytes);
    json_unsigned(&json, "live_blocks", all->live_count);
    json_unsigned(&json, "slack_bytes", free->slack_bytes);
    json_unsigned(&json, "retired_bytes", all->retired_bytes);
    json_unsigned(&json, "retired_blocks", all->retired_count);
    json_unsigned(&json, "free_bytes", free->free_bytes);
    json_object_begin(&json, "free");
    json_unsigned(&json, "pieces", free->runs_count);
    json_unsigned(&json, "largest_bytes", free->largest_run_bytes);
    json_unsigned(&json, "empty_segments", free->idle_segments_count);
    json_unsigned(&json, "empty_segments_bytes", free->idle_segments_bytes);
    json_unsigned(&json, "thin_segments", free->thin_segments_count);
    json_unsigned(&json, "thin_segments_free_bytes", free->thin_free_bytes);
    json_unsigned(&json, "thin_segments_used_bytes", free->thin_held_bytes);
    json_object_end(&json);
    for (int kind = HOLDER_POOL; kind <= HOLDER_SIZE; kind++)
        holders_json(&json, all, (holder_kind)kind, kind_keys[kind], &all->by[kind], 0);
    waits_json(&json, all);
    advice_json(&json, all);
    json_object_end(&json);
    json_end(&json);
}

/* ---- the command ---------------------------------------------------------------------------- */

static int summary_make(summary *all)
{
    for (int kind = HOLDER_POOL; kind <= HOLDER_SIZE; kind++)
        if (holders_find(all->in, (holder_kind)kind, &all->by[kind]) != 0)
            return -1;
    for (size_t i = 0; i < all->by[HOLDER_POOL].count; i++) {
        const holder *one = MODEL_AT(all->by[HOLDER_POOL], holder, i);
        all->live_bytes += one->live_bytes;
        all->live_count += one->live_count;
        all->retired_bytes += one->retired_bytes;
        all->retired_count += one->retired_count;
    }
    scatter_find(all->in, &all->free_memory);
    if (waiting_find(all->in, &all->waits) != 0 ||
        advice_find(all->in, &all->advice, &all->peaks) != 0)
        return -1;
    rewind_result history;
    int code = rewind_run(all->in, &history);
    all->contradictions = history.contradictions_count;
    rewind_release(&history);
    if (code != 0)
        return -1;
    all->at_peak = calloc(all->in->devices.count + 1, sizeof(array));
    for (size_t i = 0; i < all->in->devices.count; i++)
        if (all->at_peak == NULL ||
            peak_holders(all->in, i, MODEL_AT(all->peaks, advice_peak, i)->records,
                         &all->at_peak[i]) != 0)
            return -1;
    return 0;
}

static void summary_release(summary *all)
{
    budget *limits = all->in->limits;
    for (int kind = HOLDER_POOL; kind <= HOLDER_SIZE; kind++)
        array_release(&all->by[kind], limits, sizeof(holder));
    for (size_t i = 0; i < all->in->devices.count && all->at_peak; i++)
        array_release(&all->at_peak[i], limits, sizeof(holder));
    free(all->at_peak);
    array_release(&all->waits, limits, sizeof(waiting));
    advice_release(all->in, &all->advice, &all->peaks);
}

int snapshot_summary(int argc, char **argv)
{
    cli_result parsed;
    budget limits;
    model snapshot;
    exit_code code;
    if (!snapshot_begin(&syntax, argc, argv, &parsed, &top_count, &limits, &code))
        return code;
    code = snapshot_load_short(&syntax, parsed.positionals[0], &limits, &snapshot);
    if (code == EXIT_CODE_OK) {
        summary all = {.in = &snapshot, .path = parsed.positionals[0]};
        if (summary_make(&all) != 0)
            code = snapshot_no_memory(&syntax, &limits);
        else if (is_json)
            json_print(&all);
        else
            text_print(&all);
        summary_release(&all);
    }
    model_release(&snapshot);
    return code;
}
