/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the model to the document of docs/snapshots.md, with its keys in its order. Snapshots that
 * came from PyTorch have a few more keys and columns for what only PyTorch knows: `torch_id` of
 * pools, and `stack` and `expandable` of segments.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "encode.h"

void losses_add(losses *lost, const char *format, ...)
{
    if (lost->count == LOSSES_MAX)
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(lost->sentences[lost->count++], sizeof(lost->sentences[0]), format, arguments);
    va_end(arguments);
}

/* ---- keys ----------------------------------------------------------------------------------- */

static void key(output *out, const char *before, const char *name)
{
    output_text(out, before);
    output_bytes(out, "\"", 1);
    output_text(out, name);
    output_text(out, "\": ");
}

static void key_text(output *out, const char *before, const char *name, const char *text)
{
    key(out, before, name);
    output_json_text(out, text);
}

static void key_count(output *out, const char *before, const char *name, uint64_t number)
{
    key(out, before, name);
    output_unsigned(out, number);
}

static void key_count_or_null(output *out, const char *before, const char *name, int64_t number)
{
    key(out, before, name);
    if (number < 0)
        output_text(out, "null");
    else
        output_unsigned(out, (uint64_t)number);
}

static void key_boolean(output *out, const char *before, const char *name, int truth)
{
    key(out, before, name);
    output_text(out, truth ? "true" : "false");
}

static void names_list(output *out, const char *name, const char *const *names, size_t count)
{
    key(out, ",\n ", name);
    for (size_t i = 0; i < count; i++) {
        output_text(out, i == 0 ? "[" : ", ");
        output_json_text(out, names[i]);
    }
    output_text(out, count == 0 ? "[]" : "]");
}

/* ---- tables --------------------------------------------------------------------------------- */

/* `columns` is what stands in the list. */
static void table_begin(output *out, const char *name, const char *columns)
{
    key(out, ",\n ", name);
    output_text(out, "{\n  \"columns\": [");
    output_text(out, columns);
    output_text(out, "],\n  \"rows\": [");
}

static void row(output *out, size_t index, const int64_t *cells, size_t count)
{
    output_text(out, index == 0 ? "\n   [" : ",\n   [");
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            output_bytes(out, ",", 1);
        output_signed(out, cells[i]);
    }
    output_bytes(out, "]", 1);
}

static void table_end(output *out)
{
    output_text(out, "\n  ]\n }");
}

/* ---- parts ---------------------------------------------------------------------------------- */

static void head_write(const model *in, output *out)
{
    output_text(out, "{\n \"format\": \"tenure-snapshot\",\n \"version\": 1");
    key_text(out, ",\n \"writer\": {", "name", in->writer_name);
    key_text(out, ", ", "version", in->writer_version);
    key_text(out, "},\n ", "reason", in->reason);
    key_count(out, ",\n \"process\": {", "pid", in->pid);
    key_text(out, ", ", "program", in->program);
    key_count(out, "},\n \"time\": {", "taken_ns", (uint64_t)in->taken_ns);
    key_count(out, ", ", "zero_epoch_us", in->zero_epoch_us);
    key_text(out, "},\n \"driver\": {", "path", in->driver_path);
    key_count(out, ", ", "version", in->driver_version);
    key_boolean(out, ", ", "simulated", in->simulated);
    output_text(out, "},\n \"settings\": {");
    for (size_t i = 0; i < in->settings.count; i++) {
        const setting *one = MODEL_AT(in->settings, setting, i);
        output_text(out, i > 0 ? ", " : "");
        output_json_text(out, one->key);
        output_text(out, ": ");
        output_json_text(out, one->text);
    }
    output_text(out, "}");
}

static void modules_write(const model *in, output *out)
{
    table_begin(out, "modules", "\"module\", \"build_id\"");
    for (size_t i = 0; i < in->modules.count; i++) {
        const module_file *one = MODEL_AT(in->modules, module_file, i);
        row(out, i, (int64_t[]){one->path, one->build_id}, 2);
    }
    table_end(out);
}

/* Stacks as lists of frames. */
static void lists_write(const model *in, const char *name, const array *stacks, output *out)
{
    key(out, ",\n ", name);
    for (size_t i = 0; i < stacks->count; i++) {
        const stack *one = MODEL_AT(*stacks, stack, i);
        output_text(out, i == 0 ? "[[" : ",\n  [");
        for (uint32_t k = 0; k < one->count; k++) {
            if (k > 0)
                output_bytes(out, ",", 1);
            output_unsigned(out, *MODEL_AT(in->stack_frames, uint32_t, one->first + k));
        }
        output_bytes(out, "]", 1);
    }
    output_text(out, stacks->count == 0 ? "[]" : "]");
}

/* 1 if a stack is named by fewer frames than it has, or by shorter ones. */
static int is_shortened(const model *in)
{
    for (size_t i = 0; i < in->shown.count; i++) {
        const stack *whole = MODEL_AT(in->stacks, stack, i), *shown = MODEL_AT(in->shown, stack, i);
        if (shown->count != whole->count ||
            (shown->count > 0 && memcmp(MODEL_AT(in->stack_frames, uint32_t, shown->first),
                                        MODEL_AT(in->stack_frames, uint32_t, whole->first),
                                        shown->count * sizeof(uint32_t)) != 0))
            return 1;
    }
    return 0;
}

static void stacks_write(const model *in, output *out)
{
    table_begin(out, "frames", "\"function\", \"file\", \"line\", \"module\", \"offset\"");
    for (size_t i = 0; i < in->frames.count; i++) {
        const frame *one = MODEL_AT(in->frames, frame, i);
        row(out, i,
            (int64_t[]){one->function, one->file, one->line, one->module, (int64_t)one->offset}, 5);
    }
    table_end(out);
    lists_write(in, "stacks", &in->stacks, out);
    if (is_shortened(in))
        lists_write(in, "shown", &in->shown, out);
}

static void devices_write(const model *in, output *out)
{
    output_text(out, ",\n \"devices\": [");
    for (size_t i = 0; i < in->devices.count; i++) {
        const device *one = MODEL_AT(in->devices, device, i);
        key_count(out, i == 0 ? "\n  {" : ",\n  {", "index", one->index);
        key_text(out, ", ", "name", one->name);
        key_count(out, ", ", "memory_bytes", one->memory_bytes);
        key_count_or_null(out, ", ", "memory_free_bytes", one->memory_free_bytes);
        key_count(out, ", ", "reserved_bytes", one->reserved_bytes);
        key_count(out, ", ", "reserved_peak_bytes", one->reserved_peak_bytes);
        key_count(out, ", ", "asleep_bytes", one->asleep_bytes);
        key_count_or_null(out, ", ", "limit_bytes", one->limit_bytes);
        key_count(out, ", ", "ooms", one->ooms);
        key_count(out, ", ", "retries", one->retries);
        output_bytes(out, "}", 1);
    }
    output_text(out, "\n ]");
}

static void pool_write(const pool *one, size_t index, int is_torch, output *out)
{
    const pool_bytes *sums = &one->bytes;
    key_count(out, index == 0 ? "\n  {" : ",\n  {", "device", one->device);
    key_count(out, ", ", "number", one->number);
    key_text(out, ", ", "name", one->name);
    key_text(out, ", ", "kind", one->kind);
    key_text(out, ", ", "state", one->state);
    if (one->tag)
        key_text(out, ", ", "tag", one->tag);
    key_count(out, ", ", "reserved_bytes", one->reserved_bytes);
    key_count(out, ", ", "asleep_bytes", one->asleep_bytes);
    key_count_or_null(out, ", ", "limit_bytes", one->limit_bytes);
    key_count(out, ", ", "chunks", one->chunks);
    key_boolean(out, ", ", "settled", one->settled);
    key_count(out, ", \"bytes\": {", "live", sums->live);
    key_count(out, ", ", "slack", sums->slack);
    key_count(out, ", ", "retired", sums->retired);
    key_count(out, ", ", "binned", sums->binned);
    key_count(out, ", ", "free", sums->free);
    key_count(out, ", ", "releasing", sums->releasing);
    key_count(out, ", ", "growing", sums->growing);
    output_bytes(out, "}", 1);
    if (is_torch && one->torch_id[0] >= 0 && one->torch_id[1] >= 0) {
        output_text(out, ", \"torch_id\": [");
        output_signed(out, one->torch_id[0]);
        output_text(out, ", ");
        output_signed(out, one->torch_id[1]);
        output_bytes(out, "]", 1);
    }
    output_bytes(out, "}", 1);
}

static void pools_write(const model *in, output *out)
{
    output_text(out, ",\n \"pools\": [");
    for (size_t i = 0; i < in->pools.count; i++)
        pool_write(MODEL_AT(in->pools, pool, i), i, in->origin == ORIGIN_TORCH, out);
    output_text(out, "\n ],\n \"streams\": [");
    for (size_t i = 0; i < in->streams.count; i++) {
        const stream *one = MODEL_AT(in->streams, stream, i);
        char handle[24];
        snprintf(handle, sizeof(handle), "0x%" PRIx64, one->handle);
        key_count(out, i == 0 ? "\n  {" : ",\n  {", "device", one->device);
        key_text(out, ", ", "handle", handle);
        key_text(out, ", ", "kind", one->kind);
        key_count(out, ", ", "thread", one->thread);
        key_boolean(out, ", ", "ended", one->ended);
        if (one->name)
            key_text(out, ", ", "name", one->name);
        output_bytes(out, "}", 1);
    }
    output_text(out, "\n ]");
}

static void memory_write(const model *in, output *out)
{
    int is_torch = in->origin == ORIGIN_TORCH;
    names_list(out, "states", state_names, STATES_COUNT);
    table_begin(out, "segments",
                is_torch ? "\"address\", \"bytes\", \"pool\", \"stream\", \"small\", "
                           "\"first_block\", \"blocks\", \"arena\", \"stack\", \"expandable\""
                         : "\"address\", \"bytes\", \"pool\", \"stream\", \"small\", "
                           "\"first_block\", \"blocks\", \"arena\"");
    for (size_t i = 0; i < in->segments.count; i++) {
        const segment *one = MODEL_AT(in->segments, segment, i);
        row(out, i,
            (int64_t[]){(int64_t)one->address, (int64_t)one->bytes, one->pool, one->stream,
                        one->small, (int64_t)one->first_block, (int64_t)one->blocks_count,
                        (int64_t)one->arena, one->stack, one->expandable},
            is_torch ? 10 : 8);
    }
    table_end(out);
    table_begin(out, "blocks",
                "\"address\", \"bytes\", \"requested_bytes\", \"state\", "
                "\"time_ns\", \"stack\"");
    for (size_t i = 0; i < in->blocks.count; i++) {
        const block *one = MODEL_AT(in->blocks, block, i);
        row(out, i,
            (int64_t[]){(int64_t)one->address, (int64_t)one->bytes, (int64_t)one->requested_bytes,
                        one->state, one->time_ns, one->stack},
            6);
    }
    table_end(out);
    names_list(out, "wait_kinds", wait_kind_names, WAIT_KINDS_COUNT);
    table_begin(out, "waits",
                "\"block\", \"kind\", \"stream\", \"mark_number\", \"since_ns\", "
                "\"graph\"");
    for (size_t i = 0; i < in->waits.count; i++) {
        const wait *one = MODEL_AT(in->waits, wait, i);
        row(out, i,
            (int64_t[]){(int64_t)one->block, one->kind, one->stream, one->mark_number,
                        one->since_ns, one->graph},
            6);
    }
    table_end(out);
}

static void graphs_write(const model *in, output *out)
{
    output_text(out, ",\n \"graphs\": [");
    for (size_t i = 0; i < in->graphs.count; i++) {
        const graph *one = MODEL_AT(in->graphs, graph, i);
        key_count(out, i == 0 ? "\n  {" : ",\n  {", "number", one->number);
        key_text(out, ", ", "name", one->name);
        key_count(out, ", ", "device", one->device);
        key(out, ", ", "pool");
        output_signed(out, one->pool);
        key_text(out, ", ", "state", one->state);
        key_count(out, ", ", "blocks", one->blocks);
        key_count(out, ", ", "reused", one->reused);
        key_count(out, ", ", "launches", one->launches);
        key_count(out, ", ", "kept_blocks", one->kept_blocks);
        key_count(out, ", ", "kept_bytes", one->kept_bytes);
        key(out, ", ", "audit");
        for (size_t k = 0; k < AUDIT_COUNTS && one->audited; k++)
            key_count(out, k == 0 ? "{" : ", ", audit_names[k], one->audit[k]);
        output_text(out, one->audited ? "}}" : "null}");
    }
    output_text(out, "\n ]");
}

typedef struct row_writer {
    output *out;
    size_t written;
} row_writer;

/* A record, and the sums after it; or one that stands for others. */
static void thin_row_write(void *context, const record *one, size_t stands_for,
                           const course_sums *after)
{
    row_writer *to = context;
    row(to->out, to->written++,
        (int64_t[]){one->time_ns, one->kind, (int64_t)one->address, (int64_t)one->bytes,
                    (int64_t)one->requested_bytes, one->pool, one->stream, one->thread, one->reason,
                    one->mark, one->stack, stands_for > 0 ? (int64_t)stands_for : one->value,
                    (int64_t)after->live, (int64_t)after->waiting, (int64_t)after->reserved},
        15);
}

static void rows_write(const model *in, output *out)
{
    for (size_t i = 0; i < in->records.count; i++) {
        const record *one = MODEL_AT(in->records, record, i);
        row(out, i,
            (int64_t[]){one->time_ns, one->kind, (int64_t)one->address, (int64_t)one->bytes,
                        (int64_t)one->requested_bytes, one->pool, one->stream, one->thread,
                        one->reason, one->mark, one->stack, one->value},
            12);
    }
}

static int history_write(const model *in, const thin *plan, output *out)
{
    const history_counts *counts = &in->history;
    const char *kinds[RECORD_KINDS_COUNT + 1];
    memcpy(kinds, record_kind_names, sizeof(record_kind_names));
    kinds[RECORD_KINDS_COUNT] = "left_out";
    names_list(out, "kinds", kinds, RECORD_KINDS_COUNT + (plan != NULL));
    names_list(out, "reasons", in->reasons.items, in->reasons.count);
    key_text(out, ",\n \"history\": {\n  ", "mode", counts->mode);
    key_count(out, ",\n  ", "capacity", counts->capacity);
    key_count(out, ",\n  ", "written", counts->written);
    key_count(out, ",\n  ", "overwritten", counts->overwritten);
    key_count(out, ",\n  ", "missed", counts->missed);
    key_count(out, ",\n  ", "complete_since_ns", counts->complete_since_ns);
    if (plan)
        key_count(out, ",\n  ", "left_out", plan->left_out);
    output_text(out, ",\n  \"columns\": [\"time_ns\", \"kind\", \"address\", \"bytes\", "
                     "\"requested_bytes\", \"pool\", \"stream\", \"thread\", \"reason\", "
                     "\"mark\", \"stack\", \"value\"");
    output_text(out, plan ? ", \"live\", \"retired\", \"reserved\"" : "");
    output_text(out, "],\n  \"rows\": [");
    int code = 0;
    if (plan)
        code = thin_run(plan, thin_row_write, &(row_writer){out, 0});
    else
        rows_write(in, out);
    table_end(out);
    output_text(out, "\n}\n");
    return code;
}

static int document_write(const model *in, const thin *plan, output *out)
{
    head_write(in, out);
    names_list(out, "strings", in->strings.items, in->strings.count);
    if (in->has_modules)
        modules_write(in, out);
    stacks_write(in, out);
    devices_write(in, out);
    pools_write(in, out);
    memory_write(in, out);
    graphs_write(in, out);
    return history_write(in, plan, out);
}

void encode_tenure(const model *in, output *out)
{
    (void)document_write(in, NULL, out); /* only a plan takes memory */
}

int encode_tenure_thin(const model *in, const thin *plan, output *out)
{
    return document_write(in, plan, out);
}
