/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Snapshots of Tenure: from the document of docs/snapshots.md to the model. Unknown keys and
 * columns are ignored, as that page says. All else is checked, so that code that uses the model may
 * follow its indexes without checks.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "rows.h"

/* ---- the head ------------------------------------------------------------------------------- */

static int head_decode(decoder *from, value document)
{
    model *out = from->out;
    value part;
    uint64_t taken, version;
    const char *format;
    place at = whole("the document");
    if (decode_text(from, at, document, "format", &format) != 0)
        return -1;
    if (strcmp(format, "tenure-snapshot") != 0)
        return decode_fail(from, at, "the format is \"%.60s\", not \"tenure-snapshot\"", format);
    if (decode_count(from, at, document, "version", &version) != 0)
        return -1;
    if (version != 1)
        return decode_fail(from, at,
                           "version %" PRIu64 " of the format; this program reads "
                           "version 1",
                           version);
    if (decode_text(from, at, document, "reason", &out->reason) != 0 ||
        decode_dict(from, at, document, "writer", &part) != 0 ||
        decode_text(from, whole("writer"), part, "name", &out->writer_name) != 0 ||
        decode_text(from, whole("writer"), part, "version", &out->writer_version) != 0 ||
        decode_dict(from, at, document, "process", &part) != 0 ||
        decode_count(from, whole("process"), part, "pid", &out->pid) != 0 ||
        decode_text(from, whole("process"), part, "program", &out->program) != 0 ||
        decode_dict(from, at, document, "time", &part) != 0 ||
        decode_count(from, whole("time"), part, "taken_ns", &taken) != 0 ||
        decode_count(from, whole("time"), part, "zero_epoch_us", &out->zero_epoch_us) != 0 ||
        decode_dict(from, at, document, "driver", &part) != 0 ||
        decode_text(from, whole("driver"), part, "path", &out->driver_path) != 0 ||
        decode_count(from, whole("driver"), part, "version", &out->driver_version) != 0 ||
        decode_boolean(from, whole("driver"), part, "simulated", &out->simulated) != 0)
        return -1;
    out->taken_ns = (int64_t)taken;
    return 0;
}

static int settings_decode(decoder *from, value document)
{
    value dict;
    if (decode_dict(from, whole("the document"), document, "settings", &dict) != 0)
        return -1;
    const value_dict *all = value_as_dict(dict);
    for (const value_shape *key = all->shape; key->parent; key = key->parent) {
        value text = all->items[key->count - 1];
        if (decode_is(from, whole("settings"), text, VALUE_TEXT) != 0)
            return -1;
        setting *one = MODEL_ADD(from->out, &from->out->settings, setting);
        if (!one || !(one->key = decode_text_copy(from, key->key)) ||
            !(one->text = decode_text_copy(from, value_as_text(text))))
            return decode_fail_memory(from);
    }
    /* The chain of keys is read from its end. */
    setting *list = from->out->settings.items;
    for (size_t i = 0, k = from->out->settings.count; i + 1 < k; i++) {
        setting other = list[--k];
        list[k] = list[i];
        list[i] = other;
    }
    return 0;
}

/* ---- strings, frames, stacks ---------------------------------------------------------------- */

static int strings_decode(decoder *from, value document)
{
    const value_list *list;
    model *out = from->out;
    if (decode_list(from, whole("the document"), document, "strings", &list) != 0)
        return -1;
    if (list->count == 0)
        return decode_fail(from, whole("strings"), "string 0, the empty one, is missing");
    for (uint32_t i = 0; i < list->count; i++) {
        if (decode_is(from, (place){"strings", i}, list->items[i], VALUE_TEXT) != 0)
            return -1;
        const value_text *text = value_as_text(list->items[i]);
        if (i == 0 && text->length != 0)
            return decode_fail(from, (place){"strings", 0}, "string 0 must be the empty one");
        const char **made = MODEL_ADD(out, &out->strings, const char *);
        if (!made || !(*made = model_text(out, text->bytes, text->length)))
            return decode_fail_memory(from);
    }
    return 0;
}

/* Files of before there was this table have none. */
static int modules_decode(decoder *from, value document)
{
    static const char *const columns[] = {"module", "build_id", NULL};
    rows table;
    value found;
    model *out = from->out;
    map64 known;
    int code = 0;
    if (!value_get(from->heap, document, "modules", &found))
        return 0;
    if (rows_open(from, document, "modules", columns, 2, &table) != 0)
        return -1;
    out->has_modules = 1;
    map64_start(&known, out->limits);
    for (size_t i = 0; i < table.list->count && code == 0; i++) {
        code = rows_read(from, &table, i);
        for (size_t k = 0; k < 2 && code == 0; k++)
            code = rows_index(from, &table, i, columns[k], table.cell[k], out->strings.count, 0);
        if (code != 0)
            break;
        uint32_t path = (uint32_t)table.cell[0];
        if (map64_get(&known, path) != MAP64_ABSENT) {
            code = decode_fail(from, (place){"modules", i}, "the module is there twice");
            break;
        }
        module_file *one = MODEL_ADD(out, &out->modules, module_file);
        if (!one || map64_put(&known, path, 0) != 0)
            code = decode_fail_memory(from);
        else
            *one = (module_file){path, (uint32_t)table.cell[1]};
    }
    map64_release(&known);
    return code;
}

static int frames_decode(decoder *from, value document)
{
    static const char *const columns[] = {"function", "file", "line", "module", "offset", NULL};
    rows table;
    model *out = from->out;
    if (rows_open(from, document, "frames", columns, 5, &table) != 0)
        return -1;
    for (size_t i = 0; i < table.list->count; i++) {
        if (rows_read(from, &table, i) != 0)
            return -1;
        for (size_t k = 0; k < 4; k++)
            if (k != 2 &&
                rows_index(from, &table, i, columns[k], table.cell[k], out->strings.count, 0) != 0)
                return -1;
        if (rows_positive(from, &table, i, "line", table.cell[2]) != 0 ||
            rows_positive(from, &table, i, "offset", table.cell[4]) != 0)
            return -1;
        frame *one = MODEL_ADD(out, &out->frames, frame);
        if (!one)
            return decode_fail_memory(from);
        *one = (frame){(uint32_t)table.cell[0], (uint32_t)table.cell[1], (uint32_t)table.cell[3],
                       table.cell[2] > UINT32_MAX ? UINT32_MAX : (uint32_t)table.cell[2],
                       (uint64_t)table.cell[4]};
    }
    return 0;
}

static int stacks_decode(decoder *from, value document)
{
    const value_list *list;
    model *out = from->out;
    array *all = &out->stack_frames;
    if (decode_list(from, whole("the document"), document, "stacks", &list) != 0)
        return -1;
    for (uint32_t i = 0; i < list->count; i++) {
        place at = {"stacks", i};
        if (decode_is(from, at, list->items[i], VALUE_LIST) != 0)
            return -1;
        const value_list *frames = value_as_list(list->items[i]);
        stack *one = MODEL_ADD(out, &out->stacks, stack);
        if (!one || all->count + frames->count > UINT32_MAX ||
            array_reserve(all, out->limits, sizeof(uint32_t), all->count + frames->count) != 0)
            return decode_fail_memory(from);
        *one = (stack){(uint32_t)all->count, frames->count};
        for (uint32_t k = 0; k < frames->count; k++) {
            uint64_t index;
            if (!value_as_unsigned(frames->items[k], &index) || index >= out->frames.count)
                return decode_fail(from, at,
                                   "frame %" PRIu32 " does not refer to one of the %zu "
                                   "frames",
                                   k, out->frames.count);
            ((uint32_t *)all->items)[all->count++] = (uint32_t)index;
        }
    }
    if (out->stacks.count == 0 || MODEL_AT(out->stacks, stack, 0)->count != 0)
        return decode_fail(from, whole("stacks"), "stack 0, which has no frames, is missing");
    return 0;
}

/* ---- devices, pools, streams ---------------------------------------------------------------- */

static int device_decode(decoder *from, place at, value dict)
{
    device one = {0};
    if (decode_is(from, at, dict, VALUE_DICT) != 0 ||
        decode_count(from, at, dict, "index", &one.index) != 0 ||
        decode_text(from, at, dict, "name", &one.name) != 0 ||
        decode_count(from, at, dict, "memory_bytes", &one.memory_bytes) != 0 ||
        decode_count_or_null(from, at, dict, "memory_free_bytes", &one.memory_free_bytes) != 0 ||
        decode_count(from, at, dict, "reserved_bytes", &one.reserved_bytes) != 0 ||
        decode_count(from, at, dict, "reserved_peak_bytes", &one.reserved_peak_bytes) != 0 ||
        decode_count(from, at, dict, "asleep_bytes", &one.asleep_bytes) != 0 ||
        decode_count_or_null(from, at, dict, "limit_bytes", &one.limit_bytes) != 0 ||
        decode_count(from, at, dict, "ooms", &one.ooms) != 0 ||
        decode_count(from, at, dict, "retries", &one.retries) != 0)
        return -1;
    if (one.index >= DEVICES_MAX - 1)
        return decode_fail(from, at, "device %" PRIu64 "; up to %d are read", one.index,
                           DEVICES_MAX - 2);
    for (size_t i = 0; i < from->out->devices.count; i++)
        if (MODEL_AT(from->out->devices, device, i)->index == one.index)
            return decode_fail(from, at, "device %" PRIu64 " is there twice", one.index);
    device *made = MODEL_ADD(from->out, &from->out->devices, device);
    if (!made)
        return decode_fail_memory(from);
    *made = one;
    return 0;
}

static int pool_bytes_decode(decoder *from, place at, value dict, pool_bytes *sums)
{
    value part;
    return decode_dict(from, at, dict, "bytes", &part) != 0 ||
                   decode_count(from, at, part, "live", &sums->live) != 0 ||
                   decode_count(from, at, part, "slack", &sums->slack) != 0 ||
                   decode_count(from, at, part, "retired", &sums->retired) != 0 ||
                   decode_count(from, at, part, "binned", &sums->binned) != 0 ||
                   decode_count(from, at, part, "free", &sums->free) != 0 ||
                   decode_count(from, at, part, "releasing", &sums->releasing) != 0 ||
                   decode_count(from, at, part, "growing", &sums->growing) != 0
               ? -1
               : 0;
}

/* PyTorch's name of a pool, which only snapshots converted from PyTorch's have. */
static void torch_id_decode(decoder *from, value dict, pool *one)
{
    value found;
    one->torch_id[0] = one->torch_id[1] = -1;
    if (!value_get(from->heap, dict, "torch_id", &found) || value_kind_of(found) != VALUE_LIST)
        return;
    const value_list *pair = value_as_list(found);
    int64_t first, second;
    if (pair->count == 2 && value_as_signed(pair->items[0], &first) &&
        value_as_signed(pair->items[1], &second)) {
        one->torch_id[0] = first;
        one->torch_id[1] = second;
    }
}

/* What pools without a tag and streams without a name do not have, and older files never. */
static int optional_decode(decoder *from, place at, value dict, const char *key, const char **text)
{
    value found;
    if (!value_get(from->heap, dict, key, &found))
        return 0;
    return decode_text(from, at, dict, key, text);
}

static int pool_decode(decoder *from, place at, value dict)
{
    pool one = {0};
    size_t device_at;
    if (decode_is(from, at, dict, VALUE_DICT) != 0 ||
        decode_count(from, at, dict, "device", &one.device) != 0 ||
        rows_device(from, at, one.device, &device_at) != 0 ||
        decode_count(from, at, dict, "number", &one.number) != 0 ||
        decode_text(from, at, dict, "name", &one.name) != 0 ||
        decode_text(from, at, dict, "kind", &one.kind) != 0 ||
        decode_text(from, at, dict, "state", &one.state) != 0 ||
        optional_decode(from, at, dict, "tag", &one.tag) != 0 ||
        decode_count(from, at, dict, "reserved_bytes", &one.reserved_bytes) != 0 ||
        decode_count(from, at, dict, "asleep_bytes", &one.asleep_bytes) != 0 ||
        decode_count_or_null(from, at, dict, "limit_bytes", &one.limit_bytes) != 0 ||
        decode_count(from, at, dict, "chunks", &one.chunks) != 0 ||
        decode_boolean(from, at, dict, "settled", &one.settled) != 0 ||
        pool_bytes_decode(from, at, dict, &one.bytes) != 0)
        return -1;
    torch_id_decode(from, dict, &one);
    pool *made = MODEL_ADD(from->out, &from->out->pools, pool);
    if (!made)
        return decode_fail_memory(from);
    *made = one;
    return 0;
}

/* "0x5581a0". */
static int handle_decode(decoder *from, place at, value dict, uint64_t *handle)
{
    const char *text;
    char *end;
    if (decode_text(from, at, dict, "handle", &text) != 0)
        return -1;
    errno = 0;
    *handle = strtoull(text, &end, 16);
    if (strncmp(text, "0x", 2) != 0 || text[2] == '\0' || *end != '\0' || errno != 0)
        return decode_fail(from, at,
                           "\"handle\" is \"%.40s\"; a hexadecimal number like \"0x1f\" "
                           "was expected",
                           text);
    return 0;
}

static int stream_decode(decoder *from, place at, value dict)
{
    stream one = {0};
    size_t device_at;
    if (decode_is(from, at, dict, VALUE_DICT) != 0 ||
        decode_count(from, at, dict, "device", &one.device) != 0 ||
        rows_device(from, at, one.device, &device_at) != 0 ||
        handle_decode(from, at, dict, &one.handle) != 0 ||
        decode_text(from, at, dict, "kind", &one.kind) != 0 ||
        decode_count(from, at, dict, "thread", &one.thread) != 0 ||
        decode_boolean(from, at, dict, "ended", &one.ended) != 0 ||
        optional_decode(from, at, dict, "name", &one.name) != 0)
        return -1;
    stream *made = MODEL_ADD(from->out, &from->out->streams, stream);
    if (!made)
        return decode_fail_memory(from);
    *made = one;
    return 0;
}

static int graph_decode(decoder *from, place at, value dict)
{
    graph one = {0};
    size_t device_at;
    value found;
    if (decode_is(from, at, dict, VALUE_DICT) != 0 ||
        decode_count(from, at, dict, "number", &one.number) != 0 ||
        decode_text(from, at, dict, "name", &one.name) != 0 ||
        decode_count(from, at, dict, "device", &one.device) != 0 ||
        rows_device(from, at, one.device, &device_at) != 0 ||
        decode_text(from, at, dict, "state", &one.state) != 0 ||
        decode_count(from, at, dict, "blocks", &one.blocks) != 0 ||
        decode_count(from, at, dict, "reused", &one.reused) != 0 ||
        decode_count(from, at, dict, "launches", &one.launches) != 0 ||
        decode_count(from, at, dict, "kept_blocks", &one.kept_blocks) != 0 ||
        decode_count(from, at, dict, "kept_bytes", &one.kept_bytes) != 0)
        return -1;
    if (!value_get(from->heap, dict, "pool", &found) || !value_as_signed(found, &one.pool) ||
        one.pool < -1 || one.pool >= (int64_t)from->out->pools.count)
        return decode_fail(from, at, "\"pool\" must be -1 or refer to one of the %zu pools",
                           from->out->pools.count);
    if (value_get(from->heap, dict, "audit", &found) && value_kind_of(found) != VALUE_NONE) {
        if (decode_dict(from, at, dict, "audit", &found) != 0)
            return -1;
        one.audited = 1;
        for (size_t i = 0; i < AUDIT_COUNTS; i++)
            if (decode_count(from, at, found, audit_names[i], &one.audit[i]) != 0)
                return -1;
    }
    graph *made = MODEL_ADD(from->out, &from->out->graphs, graph);
    if (!made)
        return decode_fail_memory(from);
    *made = one;
    return 0;
}

static int list_decode(decoder *from, value document, const char *name,
                       int (*element)(decoder *from, place at, value dict))
{
    const value_list *list;
    if (decode_list(from, whole("the document"), document, name, &list) != 0)
        return -1;
    for (uint32_t i = 0; i < list->count; i++)
        if (element(from, (place){name, i}, list->items[i]) != 0)
            return -1;
    return 0;
}

/* ---- segments and blocks -------------------------------------------------------------------- */

static int block_check(decoder *from, const rows *table, size_t row, const unsigned char *states,
                       size_t states_count, block *one)
{
    static const char *const names[] = {"address", "bytes", "requested_bytes"};
    for (size_t i = 0; i < 3; i++)
        if (rows_positive(from, table, row, names[i], table->cell[i]) != 0)
            return -1;
    if (rows_index(from, table, row, "state", table->cell[3], states_count, 0) != 0 ||
        rows_index(from, table, row, "stack", table->cell[5], from->out->stacks.count, 0) != 0)
        return -1;
    *one = (block){(uint64_t)table->cell[0], (uint64_t)table->cell[1], (uint64_t)table->cell[2],
                   table->cell[4],           (uint32_t)table->cell[5], states[table->cell[3]]};
    if (one->state == STATES_COUNT)
        return decode_fail(from, (place){"blocks", row}, "a state that this program does not know");
    if (one->bytes == 0 || one->requested_bytes > one->bytes)
        return decode_fail(from, (place){"blocks", row},
                           "%" PRIu64 " bytes, of which %" PRIu64 " were asked for", one->bytes,
                           one->requested_bytes);
    return 0;
}

static int blocks_decode(decoder *from, value document)
{
    static const char *const columns[] = {"address", "bytes", "requested_bytes", "state", "time_ns",
                                          "stack",   NULL};
    unsigned char states[NAMES_MAX];
    size_t states_count;
    rows table;
    model *out = from->out;
    if (rows_names(from, document, "states", state_names, STATES_COUNT, states, NAMES_MAX,
                   &states_count) != 0 ||
        rows_open(from, document, "blocks", columns, 6, &table) != 0)
        return -1;
    for (size_t i = 0; i < table.list->count; i++) {
        block one;
        if (rows_read(from, &table, i) != 0 ||
            block_check(from, &table, i, states, states_count, &one) != 0)
            return -1;
        block *made = MODEL_ADD(out, &out->blocks, block);
        if (!made)
            return decode_fail_memory(from);
        *made = one;
    }
    return 0;
}

/* Blocks tile their segment. */
static int tiles_check(decoder *from, size_t index, const segment *range)
{
    place at = {"segments", index};
    uint64_t address = range->address;
    if (range->first_block + range->blocks_count > from->out->blocks.count)
        return decode_fail(from, at, "it has blocks beyond the %zu that there are",
                           from->out->blocks.count);
    for (size_t i = 0; i < range->blocks_count; i++) {
        const block *one = MODEL_AT(from->out->blocks, block, range->first_block + i);
        if (one->address != address)
            return decode_fail(from, (place){"blocks", range->first_block + i},
                               "it begins at %" PRIu64 ", but the one before, or its segment, "
                               "leads to %" PRIu64,
                               one->address, address);
        address += one->bytes;
    }
    if (address - range->address != range->bytes)
        return decode_fail(from, at,
                           "its blocks are %" PRIu64 " bytes together; the segment has %" PRIu64,
                           address - range->address, range->bytes);
    return 0;
}

static int segment_decode(decoder *from, rows *table, size_t i, segment *one)
{
    static const char *const names[] = {"address", "bytes",       "pool",   "stream",
                                        "small",   "first_block", "blocks", "arena"};
    for (size_t k = 0; k < 8; k++)
        if (rows_positive(from, table, i, names[k], table->cell[k]) != 0)
            return -1;
    if (rows_index(from, table, i, "pool", table->cell[2], from->out->pools.count, 0) != 0 ||
        rows_index(from, table, i, "stream", table->cell[3], from->out->streams.count, 0) != 0 ||
        rows_index(from, table, i, "stack", table->cell[8], from->out->stacks.count, 1) != 0)
        return -1;
    *one = (segment){
        .address = (uint64_t)table->cell[0],
        .bytes = (uint64_t)table->cell[1],
        .pool = (int32_t)table->cell[2],
        .stream = (int32_t)table->cell[3],
        .small = table->cell[4] != 0,
        .first_block = (size_t)table->cell[5],
        .blocks_count = (size_t)table->cell[6],
        .arena = (uint64_t)table->cell[7],
        .stack = table->cell[8] > 0 ? (uint32_t)table->cell[8] : 0,
        .expandable = table->cell[9] > 0,
    };
    return 0;
}

static int segments_decode(decoder *from, value document)
{
    static const char *const columns[] = {"address", "bytes",       "pool",   "stream",
                                          "small",   "first_block", "blocks", "arena",
                                          "stack",   "expandable",  NULL};
    rows table;
    size_t blocks_before = 0;
    uint64_t end = 0;
    model *out = from->out;
    if (rows_open(from, document, "segments", columns, 8, &table) != 0)
        return -1;
    /* The column that only memory of PyTorch has. */
    if (table.at[9] >= 0)
        out->origin = ORIGIN_TORCH;
    for (size_t i = 0; i < table.list->count; i++) {
        segment one;
        if (rows_read(from, &table, i) != 0 || segment_decode(from, &table, i, &one) != 0)
            return -1;
        place at = {"segments", i};
        if (one.address < end)
            return decode_fail(from, at, "it begins before the one before it ends");
        if (one.first_block != blocks_before)
            return decode_fail(from, at, "its first block is %zu; there are %zu before it",
                               one.first_block, blocks_before);
        if (tiles_check(from, i, &one) != 0)
            return -1;
        blocks_before += one.blocks_count;
        end = one.address + one.bytes;
        segment *made = MODEL_ADD(out, &out->segments, segment);
        if (!made)
            return decode_fail_memory(from);
        *made = one;
    }
    if (blocks_before != out->blocks.count)
        return decode_fail(from, whole("blocks"), "%zu of %zu blocks belong to no segment",
                           out->blocks.count - blocks_before, out->blocks.count);
    return 0;
}

static int waits_decode(decoder *from, value document)
{
    static const char *const columns[] = {"block",    "kind",  "stream", "mark_number",
                                          "since_ns", "graph", NULL};
    unsigned char kinds[NAMES_MAX];
    size_t kinds_count;
    rows table;
    model *out = from->out;
    if (rows_names(from, document, "wait_kinds", wait_kind_names, WAIT_KINDS_COUNT, kinds,
                   NAMES_MAX, &kinds_count) != 0 ||
        rows_open(from, document, "waits", columns, 6, &table) != 0)
        return -1;
    for (size_t i = 0; i < table.list->count; i++) {
        if (rows_read(from, &table, i) != 0 ||
            rows_index(from, &table, i, "block", table.cell[0], out->blocks.count, 0) != 0 ||
            rows_index(from, &table, i, "kind", table.cell[1], kinds_count, 0) != 0 ||
            rows_index(from, &table, i, "stream", table.cell[2], out->streams.count, 1) != 0)
            return -1;
        if (kinds[table.cell[1]] == WAIT_KINDS_COUNT)
            continue; /* a later writer knows more kinds; the others stay right */
        wait *made = MODEL_ADD(out, &out->waits, wait);
        if (!made)
            return decode_fail_memory(from);
        *made = (wait){(size_t)table.cell[0], table.cell[3],          table.cell[4],
                       table.cell[5],         (int32_t)table.cell[2], kinds[table.cell[1]]};
    }
    return 0;
}

int decode_tenure(decoder *from, value document)
{
    const value_list *devices;
    from->out->origin = ORIGIN_TENURE;
    if (head_decode(from, document) != 0 ||
        decode_list(from, whole("the document"), document, "devices", &devices) != 0)
        return -1;
    if (devices->count >= DEVICES_MAX)
        return decode_fail(from, whole("devices"), "there are %" PRIu32 "; at most %d are read",
                           devices->count, DEVICES_MAX - 1);
    if (strings_decode(from, document) != 0 || settings_decode(from, document) != 0 ||
        modules_decode(from, document) != 0 || frames_decode(from, document) != 0 ||
        stacks_decode(from, document) != 0 ||
        list_decode(from, document, "devices", device_decode) != 0 ||
        list_decode(from, document, "pools", pool_decode) != 0 ||
        list_decode(from, document, "streams", stream_decode) != 0 ||
        blocks_decode(from, document) != 0 || segments_decode(from, document) != 0 ||
        waits_decode(from, document) != 0 ||
        list_decode(from, document, "graphs", graph_decode) != 0)
        return -1;
    return rows_history(from, document);
}
