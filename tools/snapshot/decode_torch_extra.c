/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What PyTorch's snapshots have besides memory and traces: settings, and what Tenure puts there.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "torch.h"

enum { SETTING_BYTES_MAX = 2048, SETTING_DEPTH_MAX = 4 };

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

int torch_settings_take(torch_reader *in, value document)
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
    if (list->count > TORCH_TABLE_MAX)
        return decode_fail(in->from, (place){"tenure", PLACE_WHOLE}, "more than %d pools",
                           TORCH_TABLE_MAX);
    for (uint32_t i = 0; i < list->count; i++)
        if (pool_name_take(in, (place){"tenure.pools", i}, list->items[i]) != 0)
            return -1;
    return 0;
}

/* Gives a stream its name. One without memory and without records is not there. */
static int stream_name_take(torch_reader *in, place at, value dict)
{
    uint64_t device_index, number;
    const char *name;
    if (decode_is(in->from, at, dict, VALUE_DICT) != 0 ||
        decode_count(in->from, at, dict, "device", &device_index) != 0 ||
        decode_count(in->from, at, dict, "stream", &number) != 0 ||
        decode_text(in->from, at, dict, "name", &name) != 0)
        return -1;
    for (size_t i = 0; i < in->out->streams.count; i++) {
        stream *one = MODEL_AT(in->out->streams, stream, i);
        if (one->device == device_index && torch_stream_number(one) == number)
            one->name = name;
    }
    return 0;
}

static int stream_names_take(torch_reader *in, value extra)
{
    const value_list *list;
    value any;
    place at = {"tenure", PLACE_WHOLE};
    if (!value_get(in->from->heap, extra, "streams", &any))
        return 0; /* from before 1.1 */
    if (decode_list(in->from, at, extra, "streams", &list) != 0)
        return -1;
    if (list->count > TORCH_TABLE_MAX)
        return decode_fail(in->from, at, "more than %d streams", TORCH_TABLE_MAX);
    for (uint32_t i = 0; i < list->count; i++)
        if (stream_name_take(in, (place){"tenure.streams", i}, list->items[i]) != 0)
            return -1;
    return 0;
}

/* What Tenure puts into PyTorch's format besides: see encode_torch.c and alloc/see/snapshot. */
int torch_extra_take(torch_reader *in, value document)
{
    value extra;
    if (!value_get(in->from->heap, document, "tenure", &extra))
        return 0;
    place at = {"tenure", PLACE_WHOLE};
    model *out = in->out;
    if (decode_is(in->from, at, extra, VALUE_DICT) != 0 || waits_take(in, extra) != 0 ||
        pool_names_take(in, extra) != 0 || stream_names_take(in, extra) != 0 ||
        decode_count(in->from, at, extra, "records_overwritten", &out->history.overwritten) != 0 ||
        decode_count(in->from, at, extra, "records_missed", &out->history.missed) != 0)
        return -1;
    out->origin = ORIGIN_TENURE;
    out->writer_name = "tenure";
    return 0;
}
