/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Snapshots of PyTorch, 2.0 and newer: from the dictionary of torch.cuda.memory._snapshot() to the
 * model. The dictionary has no version; what is there is found by looking.
 *
 *   segments        -> segments and blocks, in the order of addresses
 *   device_traces   -> records, of all devices in one order of time
 *   segment_pool_id -> pools; (0, 0) is the default pool
 *
 * A free_requested that its free_completed follows at once becomes one `free`; otherwise they are
 * `retire` and `reuse`. cudaMalloc'd segments and mapped ones are told apart by the reason.
 *
 * A pickle can put one list in many places, so work is bounded by what it adds to the model, and
 * lists of frames are looked at once each.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "torch.h"

enum {
    TABLE_MAX = 1024, /* pools, and streams */
    SETTING_BYTES_MAX = 2048,
    SETTING_DEPTH_MAX = 4,
};

/* ---- dictionaries of one kind --------------------------------------------------------------- */

void torch_keys_start(torch_keys *wanted, const value_heap *heap, const char *const *names)
{
    memset(wanted, 0, sizeof(*wanted));
    for (; names[wanted->count]; wanted->count++) {
        const char *name = names[wanted->count];
        wanted->names[wanted->count] = value_text_find(heap, name, strlen(name));
    }
}

value torch_keys_get(torch_keys *wanted, const value_dict *dict, size_t key)
{
    if (dict->shape != wanted->shape) {
        wanted->shape = dict->shape;
        for (size_t i = 0; i < wanted->count; i++)
            wanted->at[i] = wanted->names[i] ? value_shape_find(dict->shape, wanted->names[i]) : -1;
    }
    int at = wanted->at[key];
    return at < 0 ? value_constant(VALUE_NONE) : dict->items[at];
}

static const char *const segment_names[] = {
    "device",          "address",       "total_size", "stream", "segment_type",
    "segment_pool_id", "is_expandable", "frames",     "blocks", NULL};
enum {
    SEG_DEVICE,
    SEG_ADDRESS,
    SEG_TOTAL,
    SEG_STREAM,
    SEG_TYPE,
    SEG_POOL,
    SEG_EXPANDABLE,
    SEG_FRAMES,
    SEG_BLOCKS
};

static const char *const block_names[] = {"address", "size", "requested_size", "state", "frames",
                                          "history", NULL};
enum { BLK_ADDRESS, BLK_SIZE, BLK_REQUESTED, BLK_STATE, BLK_FRAMES, BLK_HISTORY };

static const char *const frame_names[] = {"filename", "line", "name", NULL};
enum { FRM_FILE, FRM_LINE, FRM_NAME };

const char *const torch_actions[TORCH_ACTIONS_COUNT] = {
    "alloc",       "free_requested", "free_completed", "segment_alloc", "segment_free",
    "segment_map", "segment_unmap",  "snapshot",       "oom",           "annotate"};

typedef struct segment_place {
    uint64_t address;
    uint32_t index; /* in the document */
} segment_place;

/* A whole number from 0 to 2^62 in `any`, which is called `key`. */
int torch_number(torch_reader *in, place at, value any, const char *key, uint64_t *number)
{
    if (value_as_unsigned(any, number) && *number <= DECODE_NUMBER_MAX)
        return 0;
    return decode_fail(in->from, at, "\"%s\" must be a whole number from 0 to 2^62, not %s", key,
                       value_kind_of(any) == VALUE_INT ? "a larger or negative one"
                                                       : value_kind_name(any));
}

int torch_dict(torch_reader *in, place at, value any, const value_dict **dict)
{
    if (decode_is(in->from, at, any, VALUE_DICT) != 0)
        return -1;
    *dict = value_as_dict(any);
    return 0;
}

/* ---- frames --------------------------------------------------------------------------------- */

/* The string of a text, or string 0 for anything else. -1 without memory. */
int64_t torch_string(torch_reader *in, value any)
{
    return value_kind_of(any) == VALUE_TEXT ? decode_string(in->from, value_as_text(any)) : 0;
}

static int64_t frame_of(torch_reader *in, value any)
{
    uint32_t known = map64_get(&in->seen_frames, any);
    uint64_t line = 0;
    if (known != MAP64_ABSENT)
        return known;
    const value_dict *dict = value_as_dict(any);
    int64_t file = torch_string(in, torch_keys_get(&in->frame_keys, dict, FRM_FILE));
    int64_t name = torch_string(in, torch_keys_get(&in->frame_keys, dict, FRM_NAME));
    if (!value_as_unsigned(torch_keys_get(&in->frame_keys, dict, FRM_LINE), &line) ||
        line > UINT32_MAX)
        line = 0;
    if (file < 0 || name < 0)
        return -1;
    int64_t made = interner_frame(&in->names, (uint32_t)name, (uint32_t)file, (uint32_t)line);
    return made < 0 || map64_put(&in->seen_frames, any, (uint32_t)made) != 0 ? -1 : made;
}

/* The stack of a list of frames; nothing is the empty one. */
int torch_stack(torch_reader *in, place at, value frames, uint32_t *result)
{
    *result = 0;
    if (value_kind_of(frames) == VALUE_NONE)
        return 0;
    if (decode_is(in->from, at, frames, VALUE_LIST) != 0)
        return -1;
    uint32_t known = map64_get(&in->seen_stacks, frames);
    if (known != MAP64_ABSENT) {
        *result = known;
        return 0;
    }
    const value_list *list = value_as_list(frames);
    if (list->count > TORCH_FRAMES_MAX)
        return decode_fail(in->from, at, "a call stack of %" PRIu32 " frames; at most %d are read",
                           list->count, TORCH_FRAMES_MAX);
    for (uint32_t i = 0; i < list->count; i++) {
        if (decode_is(in->from, at, list->items[i], VALUE_DICT) != 0)
            return -1;
        int64_t number = frame_of(in, list->items[i]);
        if (number < 0)
            return decode_fail_memory(in->from);
        in->scratch[i] = (uint32_t)number;
    }
    int64_t made = interner_stack(&in->names, in->scratch, list->count);
    if (made < 0 || map64_put(&in->seen_stacks, frames, (uint32_t)made) != 0)
        return decode_fail_memory(in->from);
    *result = (uint32_t)made;
    return 0;
}

/* ---- devices, pools, streams ---------------------------------------------------------------- */

static int device_add(torch_reader *in, uint64_t index)
{
    model *out = in->out;
    for (size_t i = 0; i < out->devices.count; i++)
        if (MODEL_AT(out->devices, device, i)->index == index)
            return 0;
    device *one = MODEL_ADD(out, &out->devices, device);
    if (!one)
        return decode_fail_memory(in->from);
    one->index = index;
    one->name = "";
    one->memory_free_bytes = one->limit_bytes = -1;
    return 0;
}

unsigned char torch_device(const torch_reader *in, uint64_t index)
{
    for (size_t i = 0; i < in->out->devices.count; i++)
        if (MODEL_AT(in->out->devices, device, i)->index == index)
            return (unsigned char)i;
    return DEVICE_NONE;
}

/* What the pool is: PyTorch numbers those of captures in the first place of the pair, and those
 * that a program made in the second. */
static int pool_fill(torch_reader *in, pool *one, uint64_t device_index, const int64_t id[2])
{
    char name[64];
    int is_default = id[0] == 0 && id[1] == 0;
    int length = snprintf(name, sizeof(name), "(%" PRId64 ", %" PRId64 ")", id[0], id[1]);
    one->device = device_index;
    for (size_t i = 0; i + 1 < in->out->pools.count && !is_default; i++)
        one->number += MODEL_AT(in->out->pools, pool, i)->device == device_index;
    /* 0 is kept for the default pool, whether it is there or not. */
    one->number += !is_default && one->number == 0;
    one->name = is_default ? "default" : model_text(in->out, name, (size_t)length);
    one->kind = is_default ? "default" : id[0] != 0 ? "graph" : "user";
    one->state = "awake";
    one->limit_bytes = -1;
    one->settled = 1;
    one->torch_id[0] = id[0];
    one->torch_id[1] = id[1];
    return one->name ? 0 : decode_fail_memory(in->from);
}

static int pool_of_id(torch_reader *in, place at, uint64_t device_index, const int64_t id[2],
                      int32_t *result)
{
    array *pools = &in->out->pools;
    for (size_t i = 0; i < pools->count; i++) {
        const pool *one = MODEL_AT(*pools, pool, i);
        if (one->device == device_index && one->torch_id[0] == id[0] && one->torch_id[1] == id[1]) {
            *result = (int32_t)i;
            return 0;
        }
    }
    if (pools->count >= TABLE_MAX)
        return decode_fail(in->from, at, "more than %d pools", TABLE_MAX);
    pool *one = MODEL_ADD(in->out, pools, pool);
    if (!one)
        return decode_fail_memory(in->from);
    *result = (int32_t)pools->count - 1;
    return pool_fill(in, one, device_index, id);
}

/* The pool that the pair `any` names; nothing is the default pool. */
int torch_pool(torch_reader *in, place at, uint64_t device_index, value any, int32_t *result)
{
    int64_t id[2] = {0, 0};
    if (value_kind_of(any) != VALUE_NONE) {
        if (decode_is(in->from, at, any, VALUE_LIST) != 0)
            return -1;
        const value_list *pair = value_as_list(any);
        if (pair->count != 2 || !value_as_signed(pair->items[0], &id[0]) ||
            !value_as_signed(pair->items[1], &id[1]))
            return decode_fail(in->from, at, "the pool must be a pair of whole numbers");
    }
    return pool_of_id(in, at, device_index, id, result);
}

uint64_t torch_stream_number(const stream *one)
{
    return strcmp(one->kind, "graph") == 0 ? TORCH_NO_STREAM : one->handle;
}

int torch_stream(torch_reader *in, place at, uint64_t device_index, value any, int32_t *result)
{
    uint64_t handle;
    int64_t negative;
    array *streams = &in->out->streams;
    if (!value_as_unsigned(any, &handle)) {
        if (!value_as_signed(any, &negative))
            return decode_fail(in->from, at, "\"stream\" must be a whole number, not %s",
                               value_kind_name(any));
        handle = (uint64_t)negative;
    }
    for (size_t i = 0; i < streams->count; i++) {
        const stream *one = MODEL_AT(*streams, stream, i);
        if (one->device == device_index && torch_stream_number(one) == handle) {
            *result = (int32_t)i;
            return 0;
        }
    }
    if (streams->count >= TABLE_MAX)
        return decode_fail(in->from, at, "more than %d streams", TABLE_MAX);
    stream *one = MODEL_ADD(in->out, streams, stream);
    if (!one)
        return decode_fail_memory(in->from);
    *one = (stream){.device = device_index,
                    .handle = handle == TORCH_NO_STREAM ? 0 : handle,
                    .kind = handle == 0                 ? "legacy"
                            : handle == 2               ? "per_thread"
                            : handle == TORCH_NO_STREAM ? "graph"
                                                        : "stream"};
    *result = (int32_t)streams->count - 1;
    return 0;
}

/* ---- blocks --------------------------------------------------------------------------------- */

static int state_take(torch_reader *in, place at, value any, unsigned char *state)
{
    if (decode_is(in->from, at, any, VALUE_TEXT) != 0)
        return -1;
    const char *text = value_as_text(any)->bytes;
    if (strcmp(text, "active_allocated") == 0)
        *state = STATE_LIVE;
    else if (strcmp(text, "active_pending_free") == 0 || strcmp(text, "active_awaiting_free") == 0)
        *state = STATE_RETIRED;
    else if (strcmp(text, "inactive") == 0)
        *state = STATE_FREE;
    else
        return decode_fail(in->from, at,
                           "the state \"%.40s\" is none of active_allocated, "
                           "active_pending_free and inactive",
                           text);
    return 0;
}

/* The form of 2.0: what was asked for, and from where, in the first entry of `history`. */
static int old_history_take(torch_reader *in, place at, value history, value *requested,
                            value *frames)
{
    if (value_kind_of(history) != VALUE_LIST || value_as_list(history)->count == 0)
        return 0;
    value first = value_as_list(history)->items[0];
    if (decode_is(in->from, at, first, VALUE_DICT) != 0)
        return -1;
    (void)value_get(in->from->heap, first, "real_size", requested);
    (void)value_get(in->from->heap, first, "frames", frames);
    return 0;
}

static int block_take(torch_reader *in, place at, value any, uint64_t address, block *one)
{
    const value_dict *dict;
    uint64_t stated;
    torch_keys *wanted = &in->block_keys;
    memset(one, 0, sizeof(*one));
    one->time_ns = -1;
    one->address = address;
    if (torch_dict(in, at, any, &dict) != 0 ||
        torch_number(in, at, torch_keys_get(wanted, dict, BLK_SIZE), "size", &one->bytes) != 0 ||
        state_take(in, at, torch_keys_get(wanted, dict, BLK_STATE), &one->state) != 0)
        return -1;
    value where = torch_keys_get(wanted, dict, BLK_ADDRESS);
    value requested = torch_keys_get(wanted, dict, BLK_REQUESTED);
    value frames = torch_keys_get(wanted, dict, BLK_FRAMES);
    if (value_kind_of(requested) == VALUE_NONE &&
        old_history_take(in, at, torch_keys_get(wanted, dict, BLK_HISTORY), &requested, &frames) !=
            0)
        return -1;
    if (value_kind_of(where) != VALUE_NONE) {
        if (torch_number(in, at, where, "address", &stated) != 0)
            return -1;
        if (stated != address)
            return decode_fail(in->from, at,
                               "a block begins at %" PRIu64 ", but the one before "
                               "ends at %" PRIu64,
                               stated, address);
    }
    if (one->bytes == 0)
        return decode_fail(in->from, at, "a block of 0 bytes");
    if (one->state == STATE_LIVE || one->state == STATE_RETIRED) {
        one->requested_bytes = one->bytes;
        if (value_kind_of(requested) != VALUE_NONE &&
            torch_number(in, at, requested, "requested_size", &one->requested_bytes) != 0)
            return -1;
        if (one->requested_bytes > one->bytes)
            return decode_fail(in->from, at,
                               "a block of %" PRIu64 " bytes, of which %" PRIu64 " were asked for",
                               one->bytes, one->requested_bytes);
    }
    return torch_stack(in, at, frames, &one->stack);
}

/* ---- segments ------------------------------------------------------------------------------- */

static int blocks_take(torch_reader *in, place at, value any, segment *range)
{
    model *out = in->out;
    uint64_t address = range->address, end = range->address + range->bytes;
    if (decode_is(in->from, at, any, VALUE_LIST) != 0)
        return -1;
    const value_list *list = value_as_list(any);
    range->first_block = out->blocks.count;
    for (uint32_t i = 0; i < list->count; i++) {
        block one;
        if (block_take(in, at, list->items[i], address, &one) != 0)
            return -1;
        if (one.bytes > end - address)
            return decode_fail(in->from, at, "its blocks are more than its %" PRIu64 " bytes",
                               range->bytes);
        address += one.bytes;
        block *made = MODEL_ADD(out, &out->blocks, block);
        if (!made)
            return decode_fail_memory(in->from);
        *made = one;
    }
    range->blocks_count = list->count;
    if (address != end)
        return decode_fail(in->from, at,
                           "its blocks are %" PRIu64 " bytes together; the segment "
                           "has %" PRIu64,
                           address - range->address, range->bytes);
    return 0;
}

static int segment_take(torch_reader *in, place at, value any, uint64_t previous_end)
{
    const value_dict *dict;
    uint64_t device_index;
    segment one = {0};
    torch_keys *wanted = &in->segment_keys;
    if (torch_dict(in, at, any, &dict) != 0 ||
        torch_number(in, at, torch_keys_get(wanted, dict, SEG_DEVICE), "device", &device_index) !=
            0 ||
        torch_number(in, at, torch_keys_get(wanted, dict, SEG_ADDRESS), "address", &one.address) !=
            0 ||
        torch_number(in, at, torch_keys_get(wanted, dict, SEG_TOTAL), "total_size", &one.bytes) !=
            0 ||
        torch_stream(in, at, device_index, torch_keys_get(wanted, dict, SEG_STREAM), &one.stream) !=
            0 ||
        torch_pool(in, at, device_index, torch_keys_get(wanted, dict, SEG_POOL), &one.pool) != 0 ||
        torch_stack(in, at, torch_keys_get(wanted, dict, SEG_FRAMES), &one.stack) != 0)
        return -1;
    if (one.address < previous_end)
        return decode_fail(in->from, at, "it overlaps with another segment");
    value type = torch_keys_get(wanted, dict, SEG_TYPE);
    one.small =
        value_kind_of(type) == VALUE_TEXT && strcmp(value_as_text(type)->bytes, "small") == 0;
    one.expandable = value_kind_of(torch_keys_get(wanted, dict, SEG_EXPANDABLE)) == VALUE_TRUE;
    one.arena = (uint64_t)one.pool << 32 | (uint64_t)one.stream;
    MODEL_AT(in->out->pools, pool, one.pool)->chunks++;
    value blocks = torch_keys_get(wanted, dict, SEG_BLOCKS);
    if (blocks_take(in, at, blocks, &one) != 0)
        return -1;
    segment *made = MODEL_ADD(in->out, &in->out->segments, segment);
    if (!made)
        return decode_fail_memory(in->from);
    *made = one;
    return 0;
}

static int place_compare(const void *left, const void *right)
{
    const segment_place *a = left, *b = right;
    if (a->address != b->address)
        return a->address < b->address ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

/* Notes the segments' addresses and devices, and sorts them. */
static int segments_sort(torch_reader *in, const value_list *list)
{
    unsigned char used[DEVICES_MAX] = {0};
    if (array_reserve(&in->sorted, in->out->limits, sizeof(segment_place), list->count) != 0)
        return decode_fail_memory(in->from);
    for (uint32_t i = 0; i < list->count; i++) {
        const value_dict *dict;
        place at = {"segments", i};
        uint64_t device_index;
        segment_place *one = MODEL_AT(in->sorted, segment_place, i);
        one->index = i;
        if (torch_dict(in, at, list->items[i], &dict) != 0 ||
            torch_number(in, at, torch_keys_get(&in->segment_keys, dict, SEG_ADDRESS), "address",
                         &one->address) != 0 ||
            torch_number(in, at, torch_keys_get(&in->segment_keys, dict, SEG_DEVICE), "device",
                         &device_index) != 0)
            return -1;
        if (device_index >= DEVICES_MAX - 1)
            return decode_fail(in->from, at, "device %" PRIu64 "; up to %d are read", device_index,
                               DEVICES_MAX - 2);
        used[device_index] = 1;
    }
    in->sorted.count = list->count;
    if (list->count > 0)
        qsort(in->sorted.items, list->count, sizeof(segment_place), place_compare);
    for (size_t i = 0; i < in->traces_count; i++)
        used[i] |= in->traces[i].list->count > 0;
    for (size_t i = 0; i < DEVICES_MAX; i++)
        if (used[i] && device_add(in, i) != 0)
            return -1;
    return 0;
}

static int segments_take(torch_reader *in, const value_list *list)
{
    uint64_t end = 0;
    if (segments_sort(in, list) != 0)
        return -1;
    for (size_t i = 0; i < in->sorted.count; i++) {
        const segment_place *one = MODEL_AT(in->sorted, segment_place, i);
        place at = {"segments", one->index};
        if (segment_take(in, at, list->items[one->index], end) != 0)
            return -1;
        const segment *made = MODEL_AT(in->out->segments, segment, i);
        end = made->address + made->bytes;
    }
    return 0;
}

/* ---- settings ------------------------------------------------------------------------------- */

/* Writes the value as Python would into text, as far as there is room. */
static size_t setting_print(value any, char *text, size_t room, int depth)
{
    int64_t number = 0;
    switch (value_kind_of(any)) {
    case VALUE_NONE:
        return (size_t)snprintf(text, room, "None");
    case VALUE_TRUE:
    case VALUE_FALSE:
        return (size_t)snprintf(text, room, value_kind_of(any) == VALUE_TRUE ? "True" : "False");
    case VALUE_INT:
        (void)value_as_signed(any, &number);
        return (size_t)snprintf(text, room, "%" PRId64, number);
    case VALUE_REAL:
        return (size_t)snprintf(text, room, "%g", value_as_real(any));
    case VALUE_TEXT:
        return (size_t)snprintf(text, room, "%s", value_as_text(any)->bytes);
    case VALUE_LIST:
    case VALUE_TUPLE:
        return (size_t)snprintf(text, room, "[...]");
    case VALUE_DICT:
        break;
    }
    const value_dict *dict = value_as_dict(any);
    size_t length = 0;
    const char *comma = "";
    for (uint32_t i = 0; i < dict->shape->count && depth < SETTING_DEPTH_MAX; i++) {
        const value_shape *key = dict->shape;
        while (key->count != i + 1)
            key = key->parent;
        length += (size_t)snprintf(text + length, room - length, "%s%s:", comma, key->key->bytes);
        if (length < room)
            length += setting_print(dict->items[i], text + length, room - length, depth + 1);
        if (length >= room)
            return room - 1;
        comma = ",";
    }
    return length;
}

static int settings_take(torch_reader *in, value document)
{
    value any;
    if (!value_get(in->from->heap, document, "allocator_settings", &any) ||
        value_kind_of(any) != VALUE_DICT)
        return 0;
    const value_dict *dict = value_as_dict(any);
    for (uint32_t i = 0; i < dict->shape->count; i++) {
        const value_shape *key = dict->shape;
        char text[SETTING_BYTES_MAX];
        while (key->count != i + 1)
            key = key->parent;
        size_t length = setting_print(dict->items[i], text, sizeof(text), 0);
        setting *one = MODEL_ADD(in->out, &in->out->settings, setting);
        if (!one || !(one->key = model_text(in->out, key->key->bytes, key->key->length)) ||
            !(one->text =
                  model_text(in->out, text, length < sizeof(text) ? length : sizeof(text) - 1)))
            return decode_fail_memory(in->from);
    }
    return 0;
}

/* ---- waits ---------------------------------------------------------------------------------- */

/* The block at the address, or blocks.count. */
static size_t block_at(const model *out, uint64_t address)
{
    const segment *around = model_segment_at(out, address);
    if (!around)
        return out->blocks.count;
    size_t low = around->first_block, high = low + around->blocks_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (MODEL_AT(out->blocks, block, middle)->address < address)
            low = middle + 1;
        else
            high = middle;
    }
    int found = low < around->first_block + around->blocks_count &&
                MODEL_AT(out->blocks, block, low)->address == address;
    return found ? low : out->blocks.count;
}

static int64_t optional_number(torch_reader *in, value dict, const char *key)
{
    value any;
    uint64_t number;
    if (value_get(in->from->heap, dict, key, &any) && value_as_unsigned(any, &number) &&
        number <= DECODE_NUMBER_MAX)
        return (int64_t)number;
    return -1;
}

static int wait_take(torch_reader *in, place at, value dict)
{
    const value_dict *checked;
    uint64_t address;
    value kind, any;
    model *out = in->out;
    wait one = {.stream = -1};
    if (torch_dict(in, at, dict, &checked) != 0 ||
        decode_count(in->from, at, dict, "address", &address) != 0)
        return -1;
    one.block = block_at(out, address);
    if (one.block == out->blocks.count)
        return decode_fail(in->from, at, "there is no block at %" PRIu64, address);
    if (!value_get(in->from->heap, dict, "kind", &kind) || value_kind_of(kind) != VALUE_TEXT)
        return decode_fail(in->from, at, "the key \"kind\" is missing");
    while (one.kind < WAIT_KINDS_COUNT &&
           strcmp(wait_kind_names[one.kind], value_as_text(kind)->bytes) != 0)
        one.kind++;
    if (one.kind == WAIT_KINDS_COUNT)
        return 0; /* a later writer knows more kinds */
    const segment *around = model_segment_at(out, address);
    uint64_t device_index = MODEL_AT(out->pools, pool, around->pool)->device;
    if (value_get(in->from->heap, dict, "stream", &any) &&
        torch_stream(in, at, device_index, any, &one.stream) != 0)
        return -1;
    one.mark_number = optional_number(in, dict, "mark_number");
    one.graph = optional_number(in, dict, "graph");
    one.since_ns = optional_number(in, dict, "since_us");
    if (one.since_ns >= 0) {
        int64_t us = one.since_ns - (int64_t)in->zero_us;
        one.since_ns = us >= 0 && us <= INT64_C(1) << 52 ? us * 1000 : -1;
    }
    wait *made = MODEL_ADD(out, &out->waits, wait);
    if (!made)
        return decode_fail_memory(in->from);
    *made = one;
    return 0;
}

static int waits_take(torch_reader *in, value extra)
{
    const value_list *list;
    if (decode_list(in->from, (place){"tenure", PLACE_WHOLE}, extra, "waits", &list) != 0)
        return -1;
    for (uint32_t i = 0; i < list->count; i++)
        if (wait_take(in, (place){"waits", i}, list->items[i]) != 0)
            return -1;
    return 0;
}

/* Gives a pool its own name and number. Pools without memory and without records are not there. */
static int pool_name_take(torch_reader *in, place at, value dict)
{
    uint64_t device_index, number, asleep;
    const char *name, *kind = NULL;
    value any;
    if (decode_is(in->from, at, dict, VALUE_DICT) != 0 ||
        decode_count(in->from, at, dict, "device", &device_index) != 0 ||
        decode_count(in->from, at, dict, "number", &number) != 0 ||
        decode_count(in->from, at, dict, "asleep_bytes", &asleep) != 0 ||
        decode_text(in->from, at, dict, "name", &name) != 0 ||
        /* Older ones have none. */
        (value_get(in->from->heap, dict, "kind", &any) &&
         decode_text(in->from, at, dict, "kind", &kind) != 0))
        return -1;
    for (size_t i = 0; i < in->out->pools.count; i++) {
        pool *one = MODEL_AT(in->out->pools, pool, i);
        if (one->device == device_index && one->torch_id[0] == 0 &&
            one->torch_id[1] == (int64_t)number) {
            one->name = name;
            one->kind = kind != NULL ? kind : one->kind;
            one->number = number;
            one->asleep_bytes = asleep;
            one->settled = asleep == 0;
        }
    }
    return 0;
}

static int pool_names_take(torch_reader *in, value extra)
{
    const value_list *list;
    if (decode_list(in->from, (place){"tenure", PLACE_WHOLE}, extra, "pools", &list) != 0)
        return -1;
    if (list->count > TABLE_MAX)
        return decode_fail(in->from, (place){"tenure", PLACE_WHOLE}, "more than %d pools",
                           TABLE_MAX);
    for (uint32_t i = 0; i < list->count; i++)
        if (pool_name_take(in, (place){"tenure.pools", i}, list->items[i]) != 0)
            return -1;
    return 0;
}

/* What Tenure puts into PyTorch's format besides: see encode_torch.c and alloc/snapshot. */
static int extra_take(torch_reader *in, value document)
{
    value extra;
    if (!value_get(in->from->heap, document, "tenure", &extra))
        return 0;
    place at = {"tenure", PLACE_WHOLE};
    model *out = in->out;
    if (decode_is(in->from, at, extra, VALUE_DICT) != 0 || waits_take(in, extra) != 0 ||
        pool_names_take(in, extra) != 0 ||
        decode_count(in->from, at, extra, "records_overwritten", &out->history.overwritten) != 0 ||
        decode_count(in->from, at, extra, "records_missed", &out->history.missed) != 0)
        return -1;
    out->origin = ORIGIN_TENURE;
    out->writer_name = "tenure";
    return 0;
}

/* ---- the whole ------------------------------------------------------------------------------ */

static void summary_fill(torch_reader *in, value document)
{
    model *out = in->out;
    value any;
    for (size_t i = 0; i < out->records.count; i++) {
        const record *event = MODEL_AT(out->records, record, i);
        if (event->time_ns > out->taken_ns)
            out->taken_ns = event->time_ns;
    }
    out->history.written = out->records.count + out->history.overwritten;
    out->history.capacity = out->records.count;
    out->history.mode = out->records.count == 0 ? "off" : out->stacks.count > 1 ? "full" : "light";
    if (in->has_contexts)
        model_note(out, "the compile contexts of the trace are not kept");
    if (in->has_categories)
        model_note(out, "the categories of the trace are not kept");
    if (in->has_unknown_actions)
        model_note(out,
                   "%d entries of the trace have actions that are not known; they are left "
                   "out",
                   in->has_unknown_actions);
    if (value_get(in->from->heap, document, "external_annotations", &any) &&
        value_kind_of(any) == VALUE_LIST && value_as_list(any)->count > 0)
        model_note(out, "%" PRIu32 " external annotations are not kept", value_as_list(any)->count);
    if (value_get(in->from->heap, document, "host_segments", &any))
        model_note(out, "pinned host memory (host_segments, host_traces) is not kept");
}

static int tables_start(torch_reader *in)
{
    static const char *const reasons[] = {"", TORCH_REASON_SEGMENT};
    model *out = in->out;
    const char **empty = MODEL_ADD(out, &out->strings, const char *);
    if (!empty || !MODEL_ADD(out, &out->stacks, stack))
        return decode_fail_memory(in->from);
    *empty = "";
    for (size_t i = 0; i < 2; i++) {
        const char **reason = MODEL_ADD(out, &out->reasons, const char *);
        if (!reason)
            return decode_fail_memory(in->from);
        *reason = reasons[i];
    }
    return 0;
}

static int document_take(torch_reader *in, value document)
{
    const value_heap *heap = in->from->heap;
    const value_list *segments;
    torch_keys_start(&in->segment_keys, heap, segment_names);
    torch_keys_start(&in->block_keys, heap, block_names);
    torch_keys_start(&in->frame_keys, heap, frame_names);
    if (value_kind_of(document) == VALUE_LIST)
        segments = value_as_list(document); /* torch.cuda.memory_snapshot() */
    else if (decode_list(in->from, (place){"the document", PLACE_WHOLE}, document, "segments",
                         &segments) != 0)
        return -1;
    if (tables_start(in) != 0 || torch_traces_open(in, document) != 0 ||
        segments_take(in, segments) != 0 || torch_traces_take(in) != 0 ||
        settings_take(in, document) != 0 || extra_take(in, document) != 0 ||
        torch_lives_complete(in) != 0)
        return -1;
    model_sum(in->out);
    torch_peaks_find(in->out);
    summary_fill(in, document);
    return 0;
}

int decode_torch(decoder *from, value document)
{
    torch_reader *in = calloc(1, sizeof(*in));
    if (!in) {
        from->out->limits->refused = 2;
        return decode_fail_memory(from);
    }
    in->from = from;
    in->out = from->out;
    from->out->origin = ORIGIN_TORCH;
    from->out->is_torch_file = 1;
    from->out->writer_name = "PyTorch";
    from->out->reason = "converted";
    interner_start(&in->names, from->out);
    map64_start(&in->seen_stacks, from->out->limits);
    map64_start(&in->seen_frames, from->out->limits);
    int code = document_take(in, document);
    interner_release(&in->names);
    map64_release(&in->seen_stacks);
    map64_release(&in->seen_frames);
    array_release(&in->sorted, from->out->limits, sizeof(segment_place));
    free(in);
    return code;
}
