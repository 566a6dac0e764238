/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A picture as Tenure's own JSON: docs/snapshots.md says what is in it, docs/snapshot.schema.json
 * what form it has. It is written from front to back; what a table refers to comes before the
 * table.
 */
#include <string.h>

#include "base/conf/conf.h"
#include "base/host_memory.h"
#include "base/json.h"
#include "base/prim/process.h"
#include "gpu/backend.h"
#include "log/texts.h"
#include "memory/arena/note.h"
#include "memory/device/device.h"
#include "see/snapshot/formats.h"

/* ---- values --------------------------------------------------------------------------------- */

static void sink_put(void *sink, const char *bytes, size_t count)
{
    tnri_sink_bytes(sink, bytes, count);
}

static void text_write(tnri_sink *sink, const char *text)
{
    tnri_json_quote(sink_put, sink, text);
}

static void key_write(tnri_sink *sink, const char *key)
{
    tnri_sink_format(sink, "\"%s\":", key);
}

/* A number and what follows it. */
static void number_write(tnri_sink *sink, int64_t number, const char *after)
{
    tnri_sink_number(sink, number);
    tnri_sink_text(sink, after);
}

/* "key":number, */
static void field_write(tnri_sink *sink, const char *key, uint64_t number)
{
    key_write(sink, key);
    number_write(sink, (int64_t)number, ",");
}

/* The same for what is null if it is the largest number there is. */
static void field_or_null_write(tnri_sink *sink, const char *key, uint64_t number)
{
    key_write(sink, key);
    if (number > (uint64_t)1 << 53)
        tnri_sink_text(sink, "null,");
    else
        number_write(sink, (int64_t)number, ",");
}

static void text_field_write(tnri_sink *sink, const char *key, const char *text)
{
    key_write(sink, key);
    text_write(sink, text);
    tnri_sink_bytes(sink, ",", 1);
}

static void list_begin(tnri_sink *sink, const char *key)
{
    key_write(sink, key);
    tnri_sink_text(sink, "[");
}

/* The comma before all rows but the first, and a new line. */
static void row_begin(tnri_sink *sink, size_t index)
{
    tnri_sink_text(sink, index == 0 ? "\n" : ",\n");
}

/* A row of a table; quick, for there may be a million of them. */
static void row_write(tnri_sink *sink, size_t index, const int64_t *numbers, size_t count)
{
    unsigned char *begin = tnri_sink_room(sink, 4 + count * (TNRI_NUMBER_BYTES + 1));
    unsigned char *at = begin;
    if (index > 0)
        *at++ = ',';
    *at++ = '\n';
    *at++ = '[';
    for (size_t i = 0; i < count; i++) {
        at = tnri_number_put(at, numbers[i]);
        *at++ = i + 1 < count ? ',' : ']';
    }
    sink->used += (size_t)(at - begin);
}

/* "key":["a","b"], */
static void words_write(tnri_sink *sink, const char *key, const char *(*word)(unsigned),
                        unsigned count)
{
    list_begin(sink, key);
    for (unsigned i = 0; i < count; i++)
        tnri_sink_format(sink, "%s\"%s\"", i == 0 ? "" : ",", word(i));
    tnri_sink_text(sink, "],\n");
}

/* ---- the beginning -------------------------------------------------------------------------- */

static void settings_write(tnri_sink *sink)
{
    tnr_setting_info info = {.struct_bytes = sizeof(info)};
    tnri_sink_text(sink, "\"settings\":{");
    for (size_t i = 0; tnri_conf_describe(&info, i) == TNR_OK; i++) {
        tnri_sink_format(sink, "%s\n\"%s\":", i == 0 ? "" : ",", info.key);
        text_write(sink, info.value);
    }
    tnri_sink_text(sink, "},\n");
}

static void head_write(tnri_sink *sink, const tnri_picture *picture)
{
    static const char *const reasons[] = {"call", "oom", "exit", "signal"};
    tnri_sink_text(sink, "{\"format\":\"tenure-snapshot\",\"version\":1,\n");
    tnri_sink_format(sink, "\"writer\":{\"name\":\"tenure\",\"version\":\"%d.%d.%d\"},\n",
                     TNR_VERSION_MAJOR, TNR_VERSION_MINOR, TNR_VERSION_PATCH);
    tnri_sink_format(sink, "\"reason\":\"%s\",\n", reasons[picture->reason]);
    tnri_sink_format(sink, "\"process\":{\"pid\":%d,\"program\":", tnri_process_id());
    text_write(sink, tnri_program_name());
    tnri_sink_format(sink, "},\n\"time\":{\"taken_ns\":%llu,\"zero_epoch_us\":%llu},\n",
                     (unsigned long long)tnri_ticks_ns(&picture->scale, picture->cut.ticks),
                     (unsigned long long)picture->scale.zero_epoch_us);
    tnri_sink_text(sink, "\"driver\":{\"path\":");
    text_write(sink, tnri_driver_loaded.path);
    tnri_sink_format(sink, ",\"version\":%d,\"simulated\":%s},\n", tnri_driver_loaded.version,
                     tnri_driver_loaded.simulated ? "true" : "false");
    settings_write(sink);
}

/* ---- texts, frames, stacks ------------------------------------------------------------------ */

/* Numbers of texts: those of the history keep theirs. Then come the path and the build id of each
 * module that a frame is in, and then each frame's function, and its module if that is in no list.
 * The linker has one text for each, so equal addresses are equal texts; neighbours share a function
 * most of the time, which is all that is looked at. */
typedef struct names {
    uint32_t first;                     /* of the modules' */
    uint32_t *function, *file, *module; /* by frame */
    size_t count;
    uint32_t *path, *build_id; /* by module */
    size_t modules_count;
} names;

static int names_make(names *made, const tnri_picture *picture)
{
    const tnri_symbols *symbols = &picture->symbols;
    made->count = symbols->frames_count == 0 ? 1 : symbols->frames_count;
    made->first = tnri_texts_count() + 1;
    made->function = tnri_host_reserve(made->count * sizeof(made->function[0]));
    made->file = tnri_host_reserve(made->count * sizeof(made->file[0]));
    made->module = tnri_host_reserve(made->count * sizeof(made->module[0]));
    made->modules_count = symbols->modules.count + 1;
    made->path = tnri_host_reserve(made->modules_count * sizeof(made->path[0]));
    made->build_id = tnri_host_reserve(made->modules_count * sizeof(made->build_id[0]));
    return made->function != NULL && made->file != NULL && made->module != NULL &&
           made->path != NULL && made->build_id != NULL;
}

static void names_free(names *made)
{
    tnri_host_unreserve(made->function, made->count * sizeof(made->function[0]));
    tnri_host_unreserve(made->file, made->count * sizeof(made->file[0]));
    tnri_host_unreserve(made->module, made->count * sizeof(made->module[0]));
    tnri_host_unreserve(made->path, made->modules_count * sizeof(made->path[0]));
    tnri_host_unreserve(made->build_id, made->modules_count * sizeof(made->build_id[0]));
}

static void name_add(tnri_sink *sink, const char *text, uint32_t *number, uint32_t *next)
{
    if (text[0] == '\0') {
        *number = 0;
        return;
    }
    *number = (*next)++;
    tnri_sink_text(sink, ",\n");
    text_write(sink, text);
}

static void module_names_write(tnri_sink *sink, const tnri_modules *modules, names *made,
                               uint32_t *next)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < modules->count; i++) {
        const tnri_module *module = &modules->list[i];
        char hex[2 * TNRI_BUILD_ID_BYTES + 1];
        if (!module->is_used)
            continue;
        for (size_t b = 0; b < module->build_id_bytes; b++) {
            hex[2 * b] = digits[module->build_id[b] >> 4];
            hex[2 * b + 1] = digits[module->build_id[b] & 15];
        }
        hex[2 * (size_t)module->build_id_bytes] = '\0';
        name_add(sink, module->path, &made->path[i], next);
        name_add(sink, hex, &made->build_id[i], next);
    }
}

/* How far back an equal text is looked for. */
enum { NAMES_AMONG = 64 };

static void frame_names_write(tnri_sink *sink, const tnri_symbols *symbols, names *made,
                              uint32_t *next)
{
    for (size_t i = 0; i < symbols->frames_count; i++) {
        const tnri_frame *frame = &symbols->frames[i];
        size_t function = i;
        for (size_t b = i; b > 0 && b + NAMES_AMONG > i && function == i; b--) {
            if (symbols->frames[b - 1].function == frame->function)
                function = b - 1;
        }
        if (function < i)
            made->function[i] = made->function[function];
        else
            name_add(sink, frame->function, &made->function[i], next);
        name_add(sink, frame->file, &made->file[i], next);
        if (frame->module_number != 0)
            made->module[i] = made->path[frame->module_number - 1];
        else
            name_add(sink, frame->module, &made->module[i], next);
    }
}

static void strings_write(tnri_sink *sink, const tnri_picture *picture, names *made)
{
    uint32_t next = made->first;
    list_begin(sink, "strings");
    for (uint32_t number = 0; number < made->first; number++) {
        if (number > 0)
            tnri_sink_text(sink, ",\n");
        text_write(sink, tnri_text_of(number));
    }
    module_names_write(sink, &picture->symbols.modules, made, &next);
    frame_names_write(sink, &picture->symbols, made, &next);
    tnri_sink_text(sink, "],\n");
}

static void modules_write(tnri_sink *sink, const tnri_modules *modules, const names *made)
{
    size_t rows = 0;
    tnri_sink_text(sink, "\"modules\":{\"columns\":[\"module\",\"build_id\"],\"rows\":[");
    for (size_t i = 0; i < modules->count; i++) {
        int64_t row[] = {made->path[i], made->build_id[i]};
        if (modules->list[i].is_used)
            row_write(sink, rows++, row, 2);
    }
    tnri_sink_text(sink, "]},\n");
}

static void stacks_write(tnri_sink *sink, const tnri_picture *picture, const names *made)
{
    const tnri_symbols *symbols = &picture->symbols;
    tnri_sink_text(sink, "\"frames\":{\"columns\":[\"function\",\"file\",\"line\",\"module\","
                         "\"offset\"],\"rows\":[");
    for (size_t i = 0; i < symbols->frames_count; i++) {
        int64_t row[] = {made->function[i], made->file[i], symbols->frames[i].line, made->module[i],
                         (int64_t)symbols->frames[i].offset};
        row_write(sink, i, row, 5);
    }
    tnri_sink_text(sink, "]},\n\"stacks\":[\n[]");
    for (size_t number = 1; number <= symbols->stacks_count; number++) {
        size_t count;
        const uintptr_t *addresses = tnri_symbols_stack(symbols, number, &count);
        tnri_sink_text(sink, ",\n[");
        for (size_t i = 0; i < count; i++) {
            if (i > 0)
                tnri_sink_text(sink, ",");
            tnri_sink_number(sink, (int64_t)tnri_symbols_find(symbols, addresses[i]));
        }
        tnri_sink_text(sink, "]");
    }
    tnri_sink_text(sink, "],\n");
}

/* ---- memory --------------------------------------------------------------------------------- */

/* What the device's group has asked of this process, and given it. */
static void group_write(tnri_sink *sink, const tnri_group_counts *group)
{
    tnri_sink_text(sink, "\"group\":{");
    text_field_write(sink, "name", tnri_conf_get()->group);
    field_write(sink, "given_bytes", group->given_bytes);
    field_write(sink, "taken_bytes", group->taken_bytes);
    tnri_sink_format(sink, "\"asks\":%llu},", (unsigned long long)group->asks);
}

static void devices_write(tnri_sink *sink, const tnri_picture *picture)
{
    list_begin(sink, "devices");
    for (size_t i = 0; i < picture->devices_count; i++) {
        const tnri_shown_device *device = &picture->devices[i];
        const tnri_capabilities *can = &tnri_device_at(device->index)->capabilities;
        row_begin(sink, i);
        tnri_sink_text(sink, "{");
        field_write(sink, "index", (uint64_t)device->index);
        text_field_write(sink, "name", can->name);
        field_write(sink, "memory_bytes", can->memory_bytes);
        field_or_null_write(sink, "memory_free_bytes", device->memory_free_bytes);
        field_write(sink, "reserved_bytes", device->reserved_bytes);
        field_write(sink, "reserved_peak_bytes", device->reserved_peak_bytes);
        field_write(sink, "asleep_bytes", device->asleep_bytes);
        field_or_null_write(sink, "limit_bytes", device->limit_bytes);
        field_write(sink, "retries", device->retries);
        if (device->is_in_group)
            group_write(sink, &device->group);
        tnri_sink_format(sink, "\"ooms\":%llu}", (unsigned long long)device->ooms);
    }
    tnri_sink_text(sink, "],\n");
}

static void pools_write(tnri_sink *sink, const tnri_picture *picture)
{
    static const char *const states[] = {"awake", "falling_asleep", "asleep", "waking"};
    list_begin(sink, "pools");
    for (size_t i = 0; i < picture->pools_count; i++) {
        const tnri_shown_pool *pool = &picture->pools[i];
        row_begin(sink, i);
        tnri_sink_text(sink, "{");
        field_write(sink, "device", (uint64_t)pool->device);
        field_write(sink, "number", pool->number);
        text_field_write(sink, "name", pool->name);
        text_field_write(sink, "kind", tnri_pool_kind_text(pool));
        text_field_write(sink, "state", pool->is_ended ? "ended" : states[pool->sleep_state]);
        if (pool->tag != NULL)
            text_field_write(sink, "tag", pool->tag->name);
        field_write(sink, "reserved_bytes", pool->reserved_bytes);
        field_write(sink, "asleep_bytes", pool->asleep_bytes);
        field_or_null_write(sink, "limit_bytes", pool->limit_bytes);
        field_write(sink, "chunks", pool->chunks);
        tnri_sink_format(sink, "\"settled\":%s,\"bytes\":{", pool->is_settled ? "true" : "false");
        for (unsigned s = 0; s < TNRI_SHOWN_COUNT; s++)
            field_write(sink, tnri_shown_text(s), pool->bytes[s]);
        tnri_sink_format(sink, "\"slack\":%llu}}", (unsigned long long)pool->slack_bytes);
    }
    tnri_sink_text(sink, "],\n");
}

static const char *stream_kind(const tnri_shown_stream *stream)
{
    if (stream->is_graph)
        return "graph";
    if (stream->handle == TNRI_STREAM_PER_THREAD)
        return "per_thread";
    return stream->handle == NULL ? "legacy" : "stream";
}

static void streams_write(tnri_sink *sink, const tnri_picture *picture)
{
    list_begin(sink, "streams");
    for (size_t i = 0; i < picture->streams_count; i++) {
        const tnri_shown_stream *stream = &picture->streams[i];
        row_begin(sink, i);
        tnri_sink_format(sink,
                         "{\"device\":%d,\"handle\":\"0x%llx\",\"kind\":\"%s\",\"thread\":%llu,"
                         "\"ended\":%s",
                         stream->device, (unsigned long long)(uintptr_t)stream->handle,
                         stream_kind(stream), (unsigned long long)stream->thread,
                         stream->is_ended ? "true" : "false");
        if (stream->name != 0) {
            tnri_sink_text(sink, ",\"name\":");
            text_write(sink, tnri_text_of(stream->name));
        }
        tnri_sink_text(sink, "}");
    }
    tnri_sink_text(sink, "],\n");
}

static void segments_write(tnri_sink *sink, const tnri_picture *picture)
{
    words_write(sink, "states", tnri_shown_text, TNRI_SHOWN_COUNT);
    tnri_sink_text(sink, "\"segments\":{\"columns\":[\"address\",\"bytes\",\"pool\",\"stream\","
                         "\"small\",\"first_block\",\"blocks\",\"arena\"],\"rows\":[");
    for (size_t i = 0; i < picture->segments_count; i++) {
        const tnri_shown_segment *segment = &picture->segments[i];
        int64_t row[] = {
            (int64_t)segment->address,      (int64_t)segment->bytes, (int64_t)segment->pool,
            (int64_t)segment->stream,       segment->is_small,       (int64_t)segment->block_first,
            (int64_t)segment->blocks_count, segment->arena};
        row_write(sink, i, row, 8);
    }
    tnri_sink_text(sink, "]},\n");
}

static void blocks_write(tnri_sink *sink, const tnri_picture *picture)
{
    tnri_sink_text(sink, "\"blocks\":{\"columns\":[\"address\",\"bytes\",\"requested_bytes\","
                         "\"state\",\"time_ns\",\"stack\"],\"rows\":[");
    for (size_t i = 0; i < picture->blocks_count; i++) {
        const tnri_shown_block *block = &picture->blocks[i];
        size_t stack = block->stack <= picture->symbols.stacks_count ? block->stack : 0;
        int64_t row[] = {
            (int64_t)block->address, (int64_t)block->bytes, (int64_t)block->requested, block->shown,
            block->time_ns,          (int64_t)stack};
        row_write(sink, i, row, 6);
    }
    tnri_sink_text(sink, "]},\n");
}

static const char *wait_kind_text(unsigned kind)
{
    static const char *const texts[] = {"use", "free_sync", "export", "graph", "capture"};
    return texts[kind];
}

static void waits_write(tnri_sink *sink, const tnri_picture *picture)
{
    words_write(sink, "wait_kinds", wait_kind_text, TNRI_WAIT_KIND_COUNT);
    tnri_sink_text(sink, "\"waits\":{\"columns\":[\"block\",\"kind\",\"stream\",\"mark_number\","
                         "\"since_ns\",\"graph\"],\"rows\":[");
    for (size_t i = 0; i < picture->waits_count; i++) {
        const tnri_shown_wait *wait = &picture->waits[i];
        int64_t row[] = {(int64_t)wait->block, wait->kind,     wait->stream,
                         wait->mark_number,    wait->since_ns, wait->graph};
        row_write(sink, i, row, 6);
    }
    tnri_sink_text(sink, "]},\n");
}

static void graphs_write(tnri_sink *sink, const tnri_picture *picture)
{
    list_begin(sink, "graphs");
    for (size_t i = 0; i < picture->graphs_count; i++) {
        const tnri_shown_graph *graph = &picture->graphs[i];
        const tnri_seen_graph *seen = &graph->seen;
        row_begin(sink, i);
        tnri_sink_text(sink, "{");
        field_write(sink, "number", seen->number);
        text_field_write(sink, "name", graph->name);
        field_write(sink, "device", (uint64_t)seen->device);
        field_write(sink, "pool", (uint64_t)graph->pool);
        text_field_write(sink, "state", seen->is_capturing ? "capturing" : "captured");
        field_write(sink, "blocks", seen->blocks);
        field_write(sink, "reused", seen->reused);
        field_write(sink, "launches", seen->launches);
        field_write(sink, "kept_blocks", seen->kept_blocks);
        field_write(sink, "kept_bytes", seen->kept_bytes);
        key_write(sink, "audit");
        if (seen->is_audited) {
            tnri_sink_text(sink, "{");
            field_write(sink, "found", seen->found);
            field_write(sink, "own", seen->own);
            field_write(sink, "kept", seen->kept);
            field_write(sink, "shared", seen->shared);
            field_write(sink, "loose", seen->loose);
            field_write(sink, "freed", seen->freed);
            field_write(sink, "unmapped", seen->unmapped);
            tnri_sink_format(sink, "\"unread\":%llu}}", (unsigned long long)seen->unread);
        } else {
            tnri_sink_text(sink, "null}");
        }
    }
    tnri_sink_text(sink, "],\n");
}

static void imports_write(tnri_sink *sink, const tnri_picture *picture)
{
    list_begin(sink, "imports");
    for (size_t i = 0; i < picture->imports_count; i++) {
        const tnri_seen_import *seen = &picture->imports[i];
        row_begin(sink, i);
        tnri_sink_text(sink, "{");
        field_write(sink, "address", (uint64_t)seen->address);
        field_write(sink, "bytes", (uint64_t)seen->bytes);
        field_write(sink, "device", (uint64_t)seen->device);
        field_write(sink, "process", (uint64_t)seen->process);
        text_field_write(sink, "published", seen->published);
        field_write(sink, "generation", seen->generation);
        tnri_sink_format(sink, "\"read_only\":%s}", seen->is_read_only ? "true" : "false");
    }
    tnri_sink_text(sink, "],\n");
}

/* ---- history -------------------------------------------------------------------------------- */

static void record_write(tnri_sink *sink, const tnri_picture *picture, size_t at)
{
    const tnri_recorded *record = tnri_picture_record(picture, at);
    const tnri_shown_origin *origin = &picture->origins[record->origin];
    size_t stack = record->stack <= picture->symbols.stacks_count ? record->stack : 0;
    int64_t time_ns = (int64_t)tnri_ticks_ns(&picture->scale, record->ticks);
    int64_t value = (int64_t)record->value;
    if (record->kind == TNRI_NOTED_LAUNCH_OVER)
        value = time_ns - (int64_t)tnri_ticks_ns(&picture->scale, record->value);
    int64_t row[] = {time_ns,
                     record->kind,
                     (int64_t)record->address,
                     (int64_t)record->bytes,
                     (int64_t)record->requested,
                     origin->pool,
                     origin->stream,
                     record->thread,
                     record->why,
                     record->mark,
                     (int64_t)stack,
                     value};
    row_write(sink, at, row, 12);
}

static void history_write(tnri_sink *sink, const tnri_picture *picture)
{
    static const char *const modes[] = {"off", "light", "full"};
    const tnri_ring_copy *ring = &picture->ring;
    words_write(sink, "kinds", tnri_kind_text, TNRI_NOTED_COUNT);
    words_write(sink, "reasons", tnri_why_text, TNRI_WHY_COUNT);
    tnri_sink_format(sink, "\"history\":{\"mode\":\"%s\",", modes[picture->mode]);
    field_write(sink, "capacity", ring->capacity);
    field_write(sink, "written", ring->written);
    field_write(sink, "overwritten", ring->overwritten);
    field_write(sink, "missed", ring->missed);
    field_write(sink, "complete_since_ns", tnri_ticks_ns(&picture->scale, ring->lost_ticks));
    tnri_sink_text(sink, "\"columns\":[\"time_ns\",\"kind\",\"address\",\"bytes\","
                         "\"requested_bytes\",\"pool\",\"stream\",\"thread\",\"reason\",\"mark\","
                         "\"stack\",\"value\"],\"rows\":[");
    for (size_t i = 0; i < picture->order_count; i++)
        record_write(sink, picture, i);
    tnri_sink_text(sink, "]}}\n");
}

int tnri_json_write(tnri_sink *sink, const tnri_picture *picture)
{
    names made;
    int has_room = names_make(&made, picture);
    if (has_room) {
        head_write(sink, picture);
        strings_write(sink, picture, &made);
        modules_write(sink, &picture->symbols.modules, &made);
        stacks_write(sink, picture, &made);
        devices_write(sink, picture);
        pools_write(sink, picture);
        streams_write(sink, picture);
        segments_write(sink, picture);
        blocks_write(sink, picture);
        waits_write(sink, picture);
        graphs_write(sink, picture);
        if (picture->imports_count > 0)
            imports_write(sink, picture);
        history_write(sink, picture);
    }
    names_free(&made);
    return has_room;
}
