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

#include "decode.h"
#include "torch.h"

enum {
    TABLE_MAX = 1024,       /* pools, and streams */
    STACK_FRAMES_MAX = 4096,
    SETTING_BYTES_MAX = 2048,
    SETTING_DEPTH_MAX = 4,
};

/* ---- dictionaries of one kind --------------------------------------------------------------- */

/* Where the keys we want are in dictionaries of the shape seen last. Nearly all dictionaries of a
 * kind have one shape, so a key costs an index instead of a search. */
typedef struct keys {
    const value_shape *shape;
    size_t count;
    const value_text *names[16]; /* null: no dictionary has it */
    int at[16];
} keys;

static void keys_start(keys *wanted, const value_heap *heap, const char *const *names)
{
    memset(wanted, 0, sizeof(*wanted));
    for (; names[wanted->count]; wanted->count++) {
        const char *name = names[wanted->count];
        wanted->names[wanted->count] = value_text_find(heap, name, strlen(name));
    }
}

/* dict[key number]; VALUE_NONE if it is not there. */
static value keys_get(keys *wanted, const value_dict *dict, size_t key)
{
    if (dict->shape != wanted->shape) {
        wanted->shape = dict->shape;
        for (size_t i = 0; i < wanted->count; i++)
            wanted->at[i] =
                wanted->names[i] ? value_shape_find(dict->shape, wanted->names[i]) : -1;
    }
    int at = wanted->at[key];
    return at < 0 ? value_constant(VALUE_NONE) : dict->items[at];
}

static const char *const segment_names[] = {
    "device", "address", "total_size", "stream", "segment_type", "segment_pool_id",
    "is_expandable", "frames", "blocks", NULL};
enum { SEG_DEVICE, SEG_ADDRESS, SEG_TOTAL, SEG_STREAM, SEG_TYPE, SEG_POOL, SEG_EXPANDABLE,
       SEG_FRAMES, SEG_BLOCKS };

static const char *const block_names[] = {"address", "size", "requested_size", "state", "frames",
                                          "history", NULL};
enum { BLK_ADDRESS, BLK_SIZE, BLK_REQUESTED, BLK_STATE, BLK_FRAMES, BLK_HISTORY };

static const char *const frame_names[] = {"filename", "line", "name", NULL};
enum { FRM_FILE, FRM_LINE, FRM_NAME };

static const char *const entry_names[] = {
    "action", "addr", "size", "stream", "time_us", "device_free", "frames", "user_metadata",
    "compile_context", "pool_id", "category", NULL};
enum { ENT_ACTION, ENT_ADDR, ENT_SIZE, ENT_STREAM, ENT_TIME, ENT_FREE, ENT_FRAMES, ENT_USER,
       ENT_COMPILE, ENT_POOL, ENT_CATEGORY };

const char *const torch_actions[TORCH_ACTIONS_COUNT] = {
    "alloc", "free_requested", "free_completed", "segment_alloc", "segment_free", "segment_map",
    "segment_unmap", "snapshot", "oom", "annotate"};

/* ---- the reader's state --------------------------------------------------------------------- */

/* One device's trace while all are merged. */
typedef struct trace_cursor {
    const value_list *list;
    uint32_t next;
} trace_cursor;

typedef struct torch_reader {
    decoder *from;
    model *out;
    interner names;
    map64 seen_stacks; /* list of frames -> stack */
    map64 seen_frames; /* dictionary of a frame -> frame */
    keys segment_keys, block_keys, frame_keys, entry_keys;
    const value_text *actions[TORCH_ACTIONS_COUNT];
    array sorted; /* segment_place */
    uint32_t scratch[STACK_FRAMES_MAX];
    trace_cursor traces[DEVICES_MAX];
    size_t traces_count;
    uint64_t zero_us;
    int has_contexts, has_categories, has_unknown_actions;
} torch_reader;

typedef struct segment_place {
    uint64_t address;
    uint32_t index; /* in the document */
} segment_place;

/* A whole number from 0 to 2^62 in `any`, which is called `key`. */
static int number_take(torch_reader *in, place at, value any, const char *key, uint64_t *number)
{
    if (value_as_unsigned(any, number) && *number <= DECODE_NUMBER_MAX)
        return 0;
    return decode_fail(in->from, at, "\"%s\" must be a whole number from 0 to 2^62, not %s", key,
                       value_kind_of(any) == VALUE_INT ? "a larger or negative one"
                                                       : value_kind_name(any));
}

static int dict_take(torch_reader *in, place at, value any, const value_dict **dict)
{
    if (decode_is(in->from, at, any, VALUE_DICT) != 0)
        return -1;
    *dict = value_as_dict(any);
    return 0;
}

/* ---- frames --------------------------------------------------------------------------------- */

/* The string of a text, or string 0 for anything else. -1 without memory. */
static int64_t string_of(torch_reader *in, value any)
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
    int64_t file = string_of(in, keys_get(&in->frame_keys, dict, FRM_FILE));
    int64_t name = string_of(in, keys_get(&in->frame_keys, dict, FRM_NAME));
    if (!value_as_unsigned(keys_get(&in->frame_keys, dict, FRM_LINE), &line) || line > UINT32_MAX)
        line = 0;
    if (file < 0 || name < 0)
        return -1;
    int64_t made = interner_frame(&in->names, (uint32_t)name, (uint32_t)file, (uint32_t)line);
    return made < 0 || map64_put(&in->seen_frames, any, (uint32_t)made) != 0 ? -1 : made;
}

/* The stack of a list of frames; nothing is the empty one. */
static int stack_take(torch_reader *in, place at, value frames, uint32_t *result)
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
    if (list->count > STACK_FRAMES_MAX)
        return decode_fail(in->from, at, "a call stack of %" PRIu32 " frames; at most %d are read",
                           list->count, STACK_FRAMES_MAX);
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
    for (size_t i = 0; i < out->devices.count; i++) {
        if (MODEL_AT(out->devices, device, i)->index == index)
            return 0;
    }
    device *one = MODEL_ADD(out, &out->devices, device);
    if (!one)
        return decode_fail_memory(in->from);
    one->index = index;
    one->name = "";
    one->memory_free_bytes = one->limit_bytes = -1;
    return 0;
}

static unsigned char device_place(const torch_reader *in, uint64_t index)
{
    for (size_t i = 0; i < in->out->devices.count; i++) {
        if (MODEL_AT(in->out->devices, device, i)->index == index)
            return (unsigned char)i;
    }
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
static int pool_take(torch_reader *in, place at, uint64_t device_index, value any, int32_t *result)
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

static int stream_take(torch_reader *in, place at, uint64_t device_index, value any,
                       int32_t *result)
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
        if (one->device == device_index && one->handle == handle) {
            *result = (int32_t)i;
            return 0;
        }
    }
    if (streams->count >= TABLE_MAX)
        return decode_fail(in->from, at, "more than %d streams", TABLE_MAX);
    stream *one = MODEL_ADD(in->out, streams, stream);
    if (!one)
        return decode_fail_memory(in->from);
    *one = (stream){.device = device_index, .handle = handle,
                    .kind = handle == 0 ? "legacy" : handle == 2 ? "per_thread" : "stream"};
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
        return decode_fail(in->from, at, "the state \"%.40s\" is none of active_allocated, "
                           "active_pending_free and inactive", text);
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
    keys *wanted = &in->block_keys;
    memset(one, 0, sizeof(*one));
    one->time_ns = -1;
    one->address = address;
    if (dict_take(in, at, any, &dict) != 0 ||
        number_take(in, at, keys_get(wanted, dict, BLK_SIZE), "size", &one->bytes) != 0 ||
        state_take(in, at, keys_get(wanted, dict, BLK_STATE), &one->state) != 0)
        return -1;
    value where = keys_get(wanted, dict, BLK_ADDRESS);
    value requested = keys_get(wanted, dict, BLK_REQUESTED);
    value frames = keys_get(wanted, dict, BLK_FRAMES);
    if (value_kind_of(requested) == VALUE_NONE &&
        old_history_take(in, at, keys_get(wanted, dict, BLK_HISTORY), &requested, &frames) != 0)
        return -1;
    if (value_kind_of(where) != VALUE_NONE) {
        if (number_take(in, at, where, "address", &stated) != 0)
            return -1;
        if (stated != address)
            return decode_fail(in->from, at, "a block begins at %" PRIu64 ", but the one before "
                               "ends at %" PRIu64, stated, address);
    }
    if (one->bytes == 0)
        return decode_fail(in->from, at, "a block of 0 bytes");
    if (one->state == STATE_LIVE || one->state == STATE_RETIRED) {
        one->requested_bytes = one->bytes;
        if (value_kind_of(requested) != VALUE_NONE &&
            number_take(in, at, requested, "requested_size", &one->requested_bytes) != 0)
            return -1;
        if (one->requested_bytes > one->bytes)
            return decode_fail(in->from, at, "a block of %" PRIu64 " bytes, of which %" PRIu64
                               " were asked for", one->bytes, one->requested_bytes);
    }
    return stack_take(in, at, frames, &one->stack);
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
        return decode_fail(in->from, at, "its blocks are %" PRIu64 " bytes together; the segment "
                           "has %" PRIu64, address - range->address, range->bytes);
    return 0;
}

static int segment_take(torch_reader *in, place at, value any, uint64_t previous_end)
{
    const value_dict *dict;
    uint64_t device_index;
    segment one = {0};
    keys *wanted = &in->segment_keys;
    if (dict_take(in, at, any, &dict) != 0 ||
        number_take(in, at, keys_get(wanted, dict, SEG_DEVICE), "device", &device_index) != 0 ||
        number_take(in, at, keys_get(wanted, dict, SEG_ADDRESS), "address", &one.address) != 0 ||
        number_take(in, at, keys_get(wanted, dict, SEG_TOTAL), "total_size", &one.bytes) != 0 ||
        stream_take(in, at, device_index, keys_get(wanted, dict, SEG_STREAM), &one.stream) != 0 ||
        pool_take(in, at, device_index, keys_get(wanted, dict, SEG_POOL), &one.pool) != 0 ||
        stack_take(in, at, keys_get(wanted, dict, SEG_FRAMES), &one.stack) != 0)
        return -1;
    if (one.address < previous_end)
        return decode_fail(in->from, at, "it overlaps with another segment");
    value type = keys_get(wanted, dict, SEG_TYPE);
    one.small = value_kind_of(type) == VALUE_TEXT &&
                strcmp(value_as_text(type)->bytes, "small") == 0;
    one.expandable = value_kind_of(keys_get(wanted, dict, SEG_EXPANDABLE)) == VALUE_TRUE;
    one.chunks = one.expandable ? -1 : 1;
    value blocks = keys_get(wanted, dict, SEG_BLOCKS);
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
        if (dict_take(in, at, list->items[i], &dict) != 0 ||
            number_take(in, at, keys_get(&in->segment_keys, dict, SEG_ADDRESS), "address",
                        &one->address) != 0 ||
            number_take(in, at, keys_get(&in->segment_keys, dict, SEG_DEVICE), "device",
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
    for (size_t i = 0; i < DEVICES_MAX; i++) {
        if (used[i] && device_add(in, i) != 0)
            return -1;
    }
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

/* ---- traces --------------------------------------------------------------------------------- */

static int action_of(const torch_reader *in, value any)
{
    if (value_kind_of(any) != VALUE_TEXT)
        return TORCH_ACTIONS_COUNT;
    const value_text *text = value_as_text(any);
    int action = 0;
    while (action < TORCH_ACTIONS_COUNT && in->actions[action] != text)
        action++;
    return action;
}

/* The time of an entry in microseconds, or -1. */
static int64_t entry_time(torch_reader *in, value any)
{
    int64_t time_us;
    if (value_kind_of(any) != VALUE_DICT ||
        !value_as_signed(keys_get(&in->entry_keys, value_as_dict(any), ENT_TIME), &time_us) ||
        time_us < 0 || time_us > INT64_C(1) << 52)
        return -1;
    return time_us;
}

/* 1 if `next` is the free_completed of the free_requested `any`, at the same moment. */
static int is_completion(torch_reader *in, const value_dict *dict, value next)
{
    static const size_t same[] = {ENT_ADDR, ENT_SIZE, ENT_STREAM, ENT_TIME, ENT_USER};
    value before[sizeof(same) / sizeof(same[0])];
    value frames = keys_get(&in->entry_keys, dict, ENT_FRAMES);
    if (value_kind_of(next) != VALUE_DICT)
        return 0;
    for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++)
        before[i] = keys_get(&in->entry_keys, dict, same[i]);
    const value_dict *other = value_as_dict(next);
    if (action_of(in, keys_get(&in->entry_keys, other, ENT_ACTION)) != TORCH_FREE_COMPLETED)
        return 0;
    for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
        value after = keys_get(&in->entry_keys, other, same[i]);
        int64_t left, right;
        if (before[i] != after && !(value_as_signed(before[i], &left) &&
                                    value_as_signed(after, &right) && left == right))
            return 0;
    }
    value later = keys_get(&in->entry_keys, other, ENT_FRAMES);
    return later == frames || value_kind_of(later) == VALUE_NONE ||
           (value_kind_of(later) == VALUE_LIST && value_as_list(later)->count == 0);
}

static const unsigned char kind_of_action[TORCH_ACTIONS_COUNT] = {
    RECORD_ALLOC, RECORD_RETIRE, RECORD_REUSE, RECORD_MAP, RECORD_UNMAP, RECORD_MAP,
    RECORD_UNMAP, RECORD_SNAPSHOT, RECORD_OOM, RECORD_MARK};

/* The pool of an entry: as it says, else that of the memory there, else the default pool. */
static int entry_pool(torch_reader *in, place at, size_t device_index, value named,
                      uint64_t address, int32_t *result)
{
    if (value_kind_of(named) == VALUE_NONE && address != 0) {
        const segment *around = model_segment_at(in->out, address);
        if (around && MODEL_AT(in->out->pools, pool, around->pool)->device == device_index) {
            *result = around->pool;
            return 0;
        }
    }
    return pool_take(in, at, device_index, named, result);
}

static int entry_addresses(torch_reader *in, place at, const value_dict *dict, int action,
                           record *one)
{
    keys *wanted = &in->entry_keys;
    value address = keys_get(wanted, dict, ENT_ADDR), free_bytes = keys_get(wanted, dict, ENT_FREE);
    uint64_t free_number = 0;
    if (number_take(in, at, keys_get(wanted, dict, ENT_SIZE), "size", &one->bytes) != 0)
        return -1;
    if (action == TORCH_OOM) {
        /* Older ones have the device's free memory as the address. */
        value holder = value_kind_of(free_bytes) == VALUE_NONE ? address : free_bytes;
        if (value_kind_of(holder) != VALUE_NONE &&
            number_take(in, at, holder, "device_free", &free_number) != 0)
            return -1;
        one->value = (int64_t)free_number;
    } else if (action != TORCH_SNAPSHOT || value_kind_of(address) != VALUE_NONE) {
        if (number_take(in, at, address, "addr", &one->address) != 0)
            return -1;
    }
    if (action <= TORCH_FREE_COMPLETED || action == TORCH_OOM)
        one->requested_bytes = one->bytes;
    return 0;
}

static int entry_record(torch_reader *in, place at, size_t device_index, const value_dict *dict,
                        int action, record *one)
{
    keys *wanted = &in->entry_keys;
    int64_t time_us;
    memset(one, 0, sizeof(*one));
    one->kind = kind_of_action[action];
    one->pool = one->stream = -1;
    one->time_ns = -1;
    one->device = device_place(in, device_index);
    if (entry_addresses(in, at, dict, action, one) != 0)
        return -1;
    value stream_value = keys_get(wanted, dict, ENT_STREAM);
    if (action != TORCH_SNAPSHOT && value_kind_of(stream_value) != VALUE_NONE &&
        stream_take(in, at, device_index, stream_value, &one->stream) != 0)
        return -1;
    if (action != TORCH_SNAPSHOT &&
        entry_pool(in, at, device_index, keys_get(wanted, dict, ENT_POOL), one->address,
                   &one->pool) != 0)
        return -1;
    if (value_as_signed(keys_get(wanted, dict, ENT_TIME), &time_us) && time_us >= 0 &&
        time_us <= INT64_C(1) << 52)
        one->time_ns = (time_us - (int64_t)in->zero_us) * 1000;
    one->reason = action == TORCH_SEGMENT_ALLOC || action == TORCH_SEGMENT_FREE;
    int64_t mark = string_of(in, keys_get(wanted, dict, ENT_USER));
    if (mark < 0)
        return decode_fail_memory(in->from);
    one->mark = (uint32_t)mark;
    value context = keys_get(wanted, dict, ENT_COMPILE);
    in->has_contexts |= value_kind_of(context) == VALUE_TEXT &&
                        strcmp(value_as_text(context)->bytes, "N/A") != 0;
    in->has_categories |= value_kind_of(keys_get(wanted, dict, ENT_CATEGORY)) == VALUE_TEXT;
    return stack_take(in, at, keys_get(wanted, dict, ENT_FRAMES), &one->stack);
}

/* Makes a record of the device's next entry, or of its next two. */
static int entry_take(torch_reader *in, size_t device_index)
{
    trace_cursor *trace = &in->traces[device_index];
    char name[48];
    snprintf(name, sizeof(name), "device_traces[%zu]", device_index);
    place at = {name, trace->next};
    const value_dict *dict;
    record one;
    if (dict_take(in, at, trace->list->items[trace->next], &dict) != 0)
        return -1;
    value action_value = keys_get(&in->entry_keys, dict, ENT_ACTION);
    if (decode_is(in->from, at, action_value, VALUE_TEXT) != 0)
        return -1;
    trace->next++;
    int action = action_of(in, action_value);
    if (action == TORCH_ACTIONS_COUNT) {
        in->has_unknown_actions++;
        return 0;
    }
    if (entry_record(in, at, device_index, dict, action, &one) != 0)
        return -1;
    if (action == TORCH_FREE_REQUESTED && trace->next < trace->list->count &&
        is_completion(in, dict, trace->list->items[trace->next])) {
        one.kind = RECORD_FREE;
        trace->next++;
    }
    record *made = MODEL_ADD(in->out, &in->out->records, record);
    if (!made)
        return decode_fail_memory(in->from);
    *made = one;
    return 0;
}

/* The moment 0: that of the first entry. */
static void zero_find(torch_reader *in)
{
    int64_t least = INT64_MAX;
    for (size_t i = 0; i < in->traces_count; i++) {
        for (uint32_t k = 0; k < in->traces[i].list->count; k++) {
            int64_t time_us = entry_time(in, in->traces[i].list->items[k]);
            if (time_us >= 0 && time_us < least)
                least = time_us;
        }
    }
    in->zero_us = least == INT64_MAX ? 0 : (uint64_t)least;
    in->out->zero_epoch_us = in->zero_us;
}

/* Merges the devices' traces by time; the order within each stays. */
static int traces_take(torch_reader *in)
{
    zero_find(in);
    for (;;) {
        size_t chosen = SIZE_MAX;
        int64_t earliest = INT64_MAX;
        for (size_t i = 0; i < in->traces_count; i++) {
            const trace_cursor *one = &in->traces[i];
            if (one->next == one->list->count)
                continue;
            int64_t time_us = entry_time(in, one->list->items[one->next]);
            if (chosen == SIZE_MAX || time_us < earliest) {
                chosen = i;
                earliest = time_us;
            }
        }
        if (chosen == SIZE_MAX)
            return 0;
        if (entry_take(in, chosen) != 0)
            return -1;
    }
}

static int traces_open(torch_reader *in, value document)
{
    value any;
    if (!value_get(in->from->heap, document, "device_traces", &any))
        return 0;
    place at = {"device_traces", PLACE_WHOLE};
    if (decode_is(in->from, at, any, VALUE_LIST) != 0)
        return -1;
    const value_list *list = value_as_list(any);
    if (list->count >= DEVICES_MAX)
        return decode_fail(in->from, at, "traces of %" PRIu32 " devices; at most %d are read",
                           list->count, DEVICES_MAX - 1);
    for (uint32_t i = 0; i < list->count; i++) {
        if (decode_is(in->from, (place){"device_traces", i}, list->items[i], VALUE_LIST) != 0)
            return -1;
        in->traces[i].list = value_as_list(list->items[i]);
    }
    in->traces_count = list->count;
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
        return (size_t)snprintf(text, room,
                                value_kind_of(any) == VALUE_TRUE ? "True" : "False");
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
            !(one->text = model_text(in->out, text,
                                     length < sizeof(text) ? length : sizeof(text) - 1)))
            return decode_fail_memory(in->from);
    }
    return 0;
}

/* ---- what follows from all of it ------------------------------------------------------------ */

/* Gives live and retired blocks the time of the record that made them so, and live ones without a
 * stack that record's. */
static int times_find(torch_reader *in)
{
    model *out = in->out;
    map64 by_address;
    int code = 0;
    map64_start(&by_address, out->limits);
    for (size_t i = 0; i < out->blocks.count && code == 0; i++) {
        const block *one = MODEL_AT(out->blocks, block, i);
        if (one->state == STATE_LIVE || one->state == STATE_RETIRED)
            code = map64_put(&by_address, one->address, (uint32_t)i);
    }
    for (size_t i = 0; i < out->records.count && code == 0; i++) {
        const record *event = MODEL_AT(out->records, record, i);
        if (event->kind != RECORD_ALLOC && event->kind != RECORD_RETIRE)
            continue;
        uint32_t at = map64_get(&by_address, event->address);
        if (at == MAP64_ABSENT)
            continue;
        block *one = MODEL_AT(out->blocks, block, at);
        if ((one->state == STATE_RETIRED) == (event->kind == RECORD_RETIRE))
            one->time_ns = event->time_ns;
        if (event->kind == RECORD_ALLOC && one->stack == 0)
            one->stack = event->stack;
    }
    map64_release(&by_address);
    return code == 0 ? 0 : decode_fail_memory(in->from);
}

/* The most that was reserved, from the end backwards. */
static void peaks_find(model *out)
{
    for (size_t i = 0; i < out->devices.count; i++) {
        device *one = MODEL_AT(out->devices, device, i);
        uint64_t reserved = one->reserved_bytes;
        one->reserved_peak_bytes = reserved;
        for (size_t k = out->records.count; k > 0; k--) {
            const record *event = MODEL_AT(out->records, record, k - 1);
            if (event->device != i)
                continue;
            if (event->kind == RECORD_MAP)
                reserved -= event->bytes < reserved ? event->bytes : reserved;
            else if (event->kind == RECORD_UNMAP && event->bytes <= DECODE_NUMBER_MAX - reserved)
                reserved += event->bytes;
            else if (event->kind == RECORD_OOM)
                one->ooms++;
            if (reserved > one->reserved_peak_bytes)
                one->reserved_peak_bytes = reserved;
        }
    }
}

static void summary_fill(torch_reader *in, value document)
{
    model *out = in->out;
    value any;
    for (size_t i = 0; i < out->records.count; i++) {
        const record *event = MODEL_AT(out->records, record, i);
        if (event->time_ns > out->taken_ns)
            out->taken_ns = event->time_ns;
    }
    out->history.capacity = out->history.written = out->records.count;
    out->history.mode = out->records.count == 0   ? "off"
                        : out->stacks.count > 1 ? "full"
                                                : "light";
    if (in->has_contexts)
        model_note(out, "the compile contexts of the trace are not kept");
    if (in->has_categories)
        model_note(out, "the categories of the trace are not kept");
    if (in->has_unknown_actions)
        model_note(out, "%d entries of the trace have actions that are not known; they are left "
                   "out", in->has_unknown_actions);
    if (value_get(in->from->heap, document, "external_annotations", &any) &&
        value_kind_of(any) == VALUE_LIST && value_as_list(any)->count > 0)
        model_note(out, "%" PRIu32 " external annotations are not kept",
                   value_as_list(any)->count);
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
    keys_start(&in->segment_keys, heap, segment_names);
    keys_start(&in->block_keys, heap, block_names);
    keys_start(&in->frame_keys, heap, frame_names);
    keys_start(&in->entry_keys, heap, entry_names);
    for (size_t i = 0; i < TORCH_ACTIONS_COUNT; i++)
        in->actions[i] = value_text_find(heap, torch_actions[i], strlen(torch_actions[i]));
    if (value_kind_of(document) == VALUE_LIST) {
        segments = value_as_list(document); /* torch.cuda.memory_snapshot() */
    } else if (decode_list(in->from, (place){"the document", PLACE_WHOLE}, document, "segments",
                           &segments) != 0) {
        return -1;
    }
    if (tables_start(in) != 0 || traces_open(in, document) != 0 ||
        segments_take(in, segments) != 0 || traces_take(in) != 0 ||
        settings_take(in, document) != 0 || times_find(in) != 0)
        return -1;
    model_sum(in->out);
    peaks_find(in->out);
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
