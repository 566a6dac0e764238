/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Snapshots of PyTorch, 2.0 and newer: from the dictionary of torch.cuda.memory._snapshot() to the
 * model. The dictionary has no version: the reader looks which keys are there.
 *
 *   segments        -> segments and blocks, in the order of addresses
 *   device_traces   -> records, of all devices in one order of time
 *   segment_pool_id -> pools; (0, 0) is the default pool
 *
 * If a free_completed follows its free_requested at once, the two become one `free`. Otherwise they
 * become `retire` and `reuse`. The reason tells cudaMalloc'd segments and mapped ones apart.
 *
 * A pickle can put one list in many places. So work is bounded by what it adds to the model, and
 * each list of frames is read once.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/plural.h"
#include "torch.h"

/* ---- dictionaries of one kind --------------------------------------------------------------- */

int torch_keys_start(torch_keys *wanted, value_heap *heap, const char *const *names)
{
    memset(wanted, 0, sizeof(*wanted));
    for (; names[wanted->count]; wanted->count++) {
        const char *name = names[wanted->count];
        value text;
        if (value_make_text(heap, name, strlen(name), &text) != 0)
            return -1;
        wanted->names[wanted->count] = value_as_text(text);
    }
    return 0;
}

value torch_keys_get(torch_keys *wanted, const value_dict *dict, size_t key)
{
    if (dict->shape != wanted->shape) {
        wanted->shape = dict->shape;
        for (size_t i = 0; i < wanted->count; i++)
            wanted->at[i] = value_shape_find(dict->shape, wanted->names[i]);
    }
    int at = wanted->at[key];
    return at < 0 ? value_constant(VALUE_NONE) : dict->items[at];
}

static const char *const segment_names[] = {
    "device", "address", "total_size", "stream", "segment_type", "segment_pool_id", "is_expandable",
    "frames", "blocks",  "tag",        NULL};
enum {
    SEG_DEVICE,
    SEG_ADDRESS,
    SEG_TOTAL,
    SEG_STREAM,
    SEG_TYPE,
    SEG_POOL,
    SEG_EXPANDABLE,
    SEG_FRAMES,
    SEG_BLOCKS,
    SEG_TAG /* Tenure's own */
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
    uint32_t known = value_known(any);
    uint64_t line = 0;
    if (known != VALUE_UNKNOWN)
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
    if (made >= 0)
        value_know(any, (uint32_t)made);
    return made;
}

/* The stack of these frames. Most lists have the frames of another: a sum over them finds it at
 * once, where the interner takes a step for each frame. */
static int64_t stack_of(torch_reader *in, const uint32_t *frames, size_t count)
{
    if (count == 0)
        return 0; /* the stack without frames */
    uint64_t sum = count;
    for (size_t i = 0; i < count; i++) {
        sum = (sum ^ frames[i]) * UINT64_C(0x9e3779b97f4a7c15);
        sum ^= sum >> 32;
    }
    uint32_t known = map64_get(&in->by_frames, sum);
    if (known != MAP64_ABSENT) {
        const stack *one = MODEL_AT(in->out->stacks, stack, known);
        if (one->count == count && memcmp(MODEL_AT(in->out->stack_frames, uint32_t, one->first),
                                          frames, count * sizeof(*frames)) == 0)
            return known;
    }
    int64_t made = interner_stack(&in->names, frames, count);
    return made < 0 || map64_put(&in->by_frames, sum, (uint32_t)made) != 0 ? -1 : made;
}

/* The stack of a list of frames; nothing is the empty one. */
int torch_stack(torch_reader *in, place at, value frames, uint32_t *result)
{
    *result = 0;
    if (value_kind_of(frames) == VALUE_NONE)
        return 0;
    if (decode_is(in->from, at, frames, VALUE_LIST) != 0)
        return -1;
    uint32_t known = value_known(frames);
    if (known != VALUE_UNKNOWN) {
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
    int64_t made = stack_of(in, in->scratch, list->count);
    if (made < 0)
        return decode_fail_memory(in->from);
    value_know(frames, (uint32_t)made);
    *result = (uint32_t)made;
    return 0;
}

/* ---- devices, pools, streams ---------------------------------------------------------------- */

int torch_device_add(torch_reader *in, uint64_t index)
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

uint64_t torch_pool_number(const model *out, size_t which)
{
    const pool *one = MODEL_AT(out->pools, pool, which);
    uint64_t number = 0;
    if (one->torch_id[0] == 0 && one->torch_id[1] == 0)
        return 0;
    for (size_t i = 0; i < which; i++)
        number += MODEL_AT(out->pools, pool, i)->device == one->device;
    return number > 0 ? number : 1; /* 0 is kept for the default pool, whether it is there or not */
}

/* What the pool is: PyTorch numbers those of captures in the first place of the pair, and those
 * that a program made in the second. */
static int pool_fill(torch_reader *in, pool *one, uint64_t device_index, const int64_t id[2])
{
    char name[64];
    int is_default = id[0] == 0 && id[1] == 0;
    int length = snprintf(name, sizeof(name), "(%" PRId64 ", %" PRId64 ")", id[0], id[1]);
    one->device = device_index;
    one->name = is_default ? "default" : model_text(in->out, name, (size_t)length);
    one->kind = is_default ? "default" : id[0] != 0 ? "graph" : "user";
    one->state = "awake";
    one->limit_bytes = -1;
    one->settled = 1;
    one->torch_id[0] = id[0];
    one->torch_id[1] = id[1];
    one->number = torch_pool_number(in->out, in->out->pools.count - 1);
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
    if (pools->count >= TORCH_TABLE_MAX)
        return decode_fail(in->from, at, "more than %d pools", TORCH_TABLE_MAX);
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
    if (streams->count >= TORCH_TABLE_MAX)
        return decode_fail(in->from, at, "more than %d streams", TORCH_TABLE_MAX);
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
                           "the state \"%.40s\" is not one of active_allocated, "
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
                           "its blocks are %" PRIu64 " bytes together; the segment has %" PRIu64
                           ". Some are left out: PyTorch lists free ones, too. Take the snapshot "
                           "with torch.cuda.memory._dump_snapshot, and keep all of its blocks",
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
    pool *owner = MODEL_AT(in->out->pools, pool, one.pool);
    owner->chunks++;
    value tag = torch_keys_get(wanted, dict, SEG_TAG);
    if (value_kind_of(tag) == VALUE_TEXT && !owner->tag) {
        owner->tag = decode_text_copy(in->from, value_as_text(tag));
        if (!owner->tag)
            return decode_fail_memory(in->from);
    }
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
        int64_t number;
        segment_place *one = MODEL_AT(in->sorted, segment_place, in->sorted.count);
        one->index = i;
        if (torch_dict(in, at, list->items[i], &dict) != 0)
            return -1;
        if (value_as_signed(torch_keys_get(&in->segment_keys, dict, SEG_DEVICE), &number) &&
            number == -1) {
            in->host_segments++;
            continue;
        }
        in->sorted.count++;
        if (torch_number(in, at, torch_keys_get(&in->segment_keys, dict, SEG_ADDRESS), "address",
                         &one->address) != 0 ||
            torch_number(in, at, torch_keys_get(&in->segment_keys, dict, SEG_DEVICE), "device",
                         &device_index) != 0)
            return -1;
        if (device_index >= DEVICES_MAX - 1)
            return decode_fail(in->from, at, "device %" PRIu64 "; up to %d are read", device_index,
                               DEVICES_MAX - 2);
        used[device_index] = 1;
    }
    if (in->sorted.count > 0)
        qsort(in->sorted.items, in->sorted.count, sizeof(segment_place), place_compare);
    for (size_t i = 0; i < in->traces_count; i++)
        used[i] |= in->traces[i].list && in->traces[i].list->count > 0;
    for (size_t i = 0; i < DEVICES_MAX; i++)
        if (used[i] && torch_device_add(in, i) != 0)
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

/* ---- the whole ------------------------------------------------------------------------------ */

static uint64_t number_of(value any)
{
    uint64_t number = 0;
    if (value_kind_of(any) == VALUE_TRUE)
        return 1;
    return value_as_unsigned(any, &number) && number <= DECODE_NUMBER_MAX ? number : 0;
}

/* The number, or the greatest of a list with one for each device; booleans are 0 and 1. */
static uint64_t greatest_of(value any)
{
    uint64_t most = number_of(any);
    for (uint32_t i = 0; value_kind_of(any) == VALUE_LIST && i < value_as_list(any)->count; i++) {
        uint64_t number = number_of(value_as_list(any)->items[i]);
        most = number > most ? number : most;
    }
    return most;
}

/* PyTorch says that its buffer of entries was full, not how many it has overwritten: at least one.
 * Newer versions say it beside the traces, others in the settings. */
static void overflow_take(torch_reader *in, value document)
{
    model *out = in->out;
    const value_heap *heap = in->from->heap;
    value from[2] = {document, document}, any;
    if (!value_get(heap, document, "allocator_settings", &from[1]) ||
        value_kind_of(from[1]) != VALUE_DICT)
        from[1] = document;
    for (int i = 0; i < 2 && value_kind_of(document) == VALUE_DICT; i++) {
        if (value_get(heap, from[i], "trace_alloc_max_entries", &any) &&
            greatest_of(any) > out->history.capacity)
            out->history.capacity = greatest_of(any);
        if (value_get(heap, from[i], "trace_alloc_overflowed", &any) && greatest_of(any) > 0 &&
            out->history.overwritten == 0)
            out->history.overwritten = 1;
    }
    if (out->history.overwritten > 0 && out->records.count > 0 &&
        out->history.complete_since_ns == 0)
        out->history.complete_since_ns = (uint64_t)(MODEL_AT(out->records, record, 0)->time_ns > 0
                                                        ? MODEL_AT(out->records, record, 0)->time_ns
                                                        : 0);
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
    overflow_take(in, document);
    out->history.written = out->records.count + out->history.overwritten;
    if (out->history.capacity == 0)
        out->history.capacity = out->records.count;
    out->history.mode = out->records.count == 0 ? "off" : out->stacks.count > 1 ? "full" : "light";
    if (in->has_contexts)
        model_note(out, "the compile contexts of the trace are not kept");
    if (in->has_categories)
        model_note(out, "the categories of the trace are not kept");
    if (in->has_unknown_actions)
        model_note(out, "actions of the trace that are not known: %d; they are left out",
                   in->has_unknown_actions);
    if (in->host_segments > 0)
        model_note(out, "pinned host memory (%d segment%s of device -1) is not kept",
                   in->host_segments, tnri_plural((uint64_t)in->host_segments));
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

/* The reader of the document, made when it is first needed. Null without memory. */
static torch_reader *reader_get(decoder *from)
{
    if (from->torch)
        return from->torch;
    torch_reader *in = calloc(1, sizeof(*in));
    if (!in) {
        from->out->limits->refused = 2;
        return NULL;
    }
    from->torch = in;
    in->from = from;
    in->out = from->out;
    interner_start(&in->names, from->out);
    map64_start(&in->by_frames, from->out->limits);
    if (torch_keys_start(&in->segment_keys, from->heap, segment_names) != 0 ||
        torch_keys_start(&in->block_keys, from->heap, block_names) != 0 ||
        torch_keys_start(&in->frame_keys, from->heap, frame_names) != 0 ||
        torch_keys_start(&in->entry_keys, from->heap, torch_entry_names) != 0)
        return NULL;
    for (size_t i = 0; i < TORCH_ACTIONS_COUNT; i++) {
        value text;
        if (value_make_text(from->heap, torch_actions[i], strlen(torch_actions[i]), &text) != 0)
            return NULL;
        in->actions[i] = value_as_text(text);
    }
    return in;
}

void decode_torch_release(decoder *from)
{
    torch_reader *in = from->torch;
    if (!in)
        return;
    interner_release(&in->names);
    map64_release(&in->by_frames);
    array_release(&in->sorted, from->out->limits, sizeof(segment_place));
    free(in);
    from->torch = NULL;
}

/* What comes before entries: the tables, and the segments, if they are there already. */
static int reader_begin(torch_reader *in, const value_list *segments)
{
    if (!in->is_begun && tables_start(in) != 0)
        return -1;
    in->is_begun = 1;
    if (!segments || in->has_segments)
        return 0;
    in->has_segments = 1;
    return segments_take(in, segments);
}

/* The place in `path` of the key "device_traces" of the document, if what is being filled at its
 * end is the trace of a device; else 0. PyTorch's keys and values lie in turn above the document:
 * {, "segments", [...], "device_traces", [, [...], [ */
static size_t traces_key_find(const value *path, size_t depth)
{
    size_t at = depth - 1;
    if (depth < 4 || value_kind_of(path[at - 1]) != VALUE_LIST)
        return 0;
    while (at > 0 && value_kind_of(path[at]) == VALUE_LIST)
        at--;
    if (at % 2 == 0 || depth - 1 < at + 2 || depth - at - 2 >= DEVICES_MAX ||
        value_kind_of(path[0]) != VALUE_DICT || value_kind_of(path[at]) != VALUE_TEXT ||
        strcmp(value_as_text(path[at])->bytes, "device_traces") != 0)
        return 0;
    return at;
}

static const value_list *segments_find(const value *path, size_t depth)
{
    for (size_t i = 1; i + 1 < depth; i += 2)
        if (value_kind_of(path[i]) == VALUE_TEXT && value_kind_of(path[i + 1]) == VALUE_LIST &&
            strcmp(value_as_text(path[i])->bytes, "segments") == 0)
            return value_as_list(path[i + 1]);
    return NULL;
}

/* Entries have become records, and their frames a stack. */
static void entries_spend(torch_reader *in, const value *entries, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const value_dict *dict = value_as_dict(entries[i]);
        if (dict->is_spent)
            continue; /* the same one twice */
        value frames = torch_keys_get(&in->entry_keys, dict, torch_frames_key);
        if (value_kind_of(frames) == VALUE_LIST && value_known(frames) != VALUE_UNKNOWN)
            value_spend(in->from->heap, frames);
        value_spend(in->from->heap, entries[i]);
    }
}

int decode_torch_items(void *context, const value *path, size_t depth, const value *items,
                       size_t count)
{
    decoder *from = context;
    size_t key = traces_key_find(path, depth);
    if (!key)
        return 0;
    const value_list *segments = segments_find(path, key);
    torch_reader *in = reader_get(from);
    if (!in)
        return decode_fail_memory(from);
    in->is_early |= !segments;
    if (reader_begin(in, segments) != 0 ||
        torch_entries_take(in, depth - 1 - (key + 2), items, count) != 0)
        return -1;
    entries_spend(in, items, count);
    return 1;
}

static int document_take(torch_reader *in, value document)
{
    const value_list *segments;
    if (value_kind_of(document) == VALUE_LIST)
        segments = value_as_list(document); /* torch.cuda.memory_snapshot() */
    else if (decode_list(in->from, (place){"the document", PLACE_WHOLE}, document, "segments",
                         &segments) != 0)
        return -1;
    if (torch_traces_open(in, document) != 0 || reader_begin(in, segments) != 0 ||
        torch_traces_take(in, document) != 0 || torch_settings_take(in, document) != 0 ||
        torch_extra_take(in, document) != 0 || torch_lives_complete(in) != 0)
        return -1;
    model_sum(in->out);
    torch_peaks_find(in->out);
    summary_fill(in, document);
    return 0;
}

int decode_torch(decoder *from, value document)
{
    torch_reader *in = reader_get(from);
    if (!in)
        return decode_fail_memory(from);
    from->out->origin = ORIGIN_TORCH;
    from->out->is_torch_file = 1;
    from->out->writer_name = "PyTorch";
    from->out->reason = "converted";
    return document_take(in, document);
}
