/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PyTorch's device_traces: from one list per device to records in one order of time. See
 * decode_torch.c for what becomes of what.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "torch.h"

static const char *const entry_names[] = {"action",  "addr",          "size",
                                          "stream",  "time_us",       "device_free",
                                          "frames",  "user_metadata", "compile_context",
                                          "pool_id", "category",      NULL};
enum {
    ENT_ACTION,
    ENT_ADDR,
    ENT_SIZE,
    ENT_STREAM,
    ENT_TIME,
    ENT_FREE,
    ENT_FRAMES,
    ENT_USER,
    ENT_COMPILE,
    ENT_POOL,
    ENT_CATEGORY
};

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
        !value_as_signed(torch_keys_get(&in->entry_keys, value_as_dict(any), ENT_TIME), &time_us) ||
        time_us < 0 || time_us > INT64_C(1) << 52)
        return -1;
    return time_us;
}

/* 1 if `next` is the free_completed of the free_requested `any`, at the same moment. */
static int is_completion(torch_reader *in, const value_dict *dict, value next)
{
    static const size_t same[] = {ENT_ADDR, ENT_SIZE, ENT_STREAM, ENT_TIME, ENT_USER};
    value before[sizeof(same) / sizeof(same[0])];
    value frames = torch_keys_get(&in->entry_keys, dict, ENT_FRAMES);
    if (value_kind_of(next) != VALUE_DICT)
        return 0;
    for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++)
        before[i] = torch_keys_get(&in->entry_keys, dict, same[i]);
    const value_dict *other = value_as_dict(next);
    if (action_of(in, torch_keys_get(&in->entry_keys, other, ENT_ACTION)) != TORCH_FREE_COMPLETED)
        return 0;
    for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
        value after = torch_keys_get(&in->entry_keys, other, same[i]);
        int64_t left, right;
        if (before[i] != after &&
            !(value_as_signed(before[i], &left) && value_as_signed(after, &right) && left == right))
            return 0;
    }
    value later = torch_keys_get(&in->entry_keys, other, ENT_FRAMES);
    return later == frames || value_kind_of(later) == VALUE_NONE ||
           (value_kind_of(later) == VALUE_LIST && value_as_list(later)->count == 0);
}

static const unsigned char kind_of_action[TORCH_ACTIONS_COUNT] = {
    RECORD_ALLOC, RECORD_RETIRE, RECORD_REUSE,    RECORD_MAP, RECORD_UNMAP,
    RECORD_MAP,   RECORD_UNMAP,  RECORD_SNAPSHOT, RECORD_OOM, RECORD_MARK};

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
    return torch_pool(in, at, device_index, named, result);
}

static int entry_addresses(torch_reader *in, place at, const value_dict *dict, int action,
                           record *one)
{
    torch_keys *wanted = &in->entry_keys;
    value address = torch_keys_get(wanted, dict, ENT_ADDR),
          free_bytes = torch_keys_get(wanted, dict, ENT_FREE);
    uint64_t free_number = 0;
    if (torch_number(in, at, torch_keys_get(wanted, dict, ENT_SIZE), "size", &one->bytes) != 0)
        return -1;
    if (action == TORCH_OOM) {
        /* Older ones have the device's free memory as the address. */
        value holder = value_kind_of(free_bytes) == VALUE_NONE ? address : free_bytes;
        if (value_kind_of(holder) != VALUE_NONE &&
            torch_number(in, at, holder, "device_free", &free_number) != 0)
            return -1;
        one->value = (int64_t)free_number;
    } else if (action != TORCH_SNAPSHOT || value_kind_of(address) != VALUE_NONE) {
        if (torch_number(in, at, address, "addr", &one->address) != 0)
            return -1;
    }
    if (action <= TORCH_FREE_COMPLETED || action == TORCH_OOM)
        one->requested_bytes = one->bytes;
    return 0;
}

static int entry_record(torch_reader *in, place at, size_t device_index, const value_dict *dict,
                        int action, record *one)
{
    torch_keys *wanted = &in->entry_keys;
    int64_t time_us;
    memset(one, 0, sizeof(*one));
    one->kind = kind_of_action[action];
    one->pool = one->stream = -1;
    one->time_ns = -1;
    one->device = torch_device(in, device_index);
    if (entry_addresses(in, at, dict, action, one) != 0)
        return -1;
    value stream_value = torch_keys_get(wanted, dict, ENT_STREAM);
    if (action != TORCH_SNAPSHOT && value_kind_of(stream_value) != VALUE_NONE &&
        torch_stream(in, at, device_index, stream_value, &one->stream) != 0)
        return -1;
    if (action != TORCH_SNAPSHOT &&
        entry_pool(in, at, device_index, torch_keys_get(wanted, dict, ENT_POOL), one->address,
                   &one->pool) != 0)
        return -1;
    if (value_as_signed(torch_keys_get(wanted, dict, ENT_TIME), &time_us) && time_us >= 0 &&
        time_us <= INT64_C(1) << 52)
        one->time_ns = (time_us - (int64_t)in->zero_us) * 1000;
    one->reason = action == TORCH_SEGMENT_ALLOC || action == TORCH_SEGMENT_FREE;
    int64_t mark = torch_string(in, torch_keys_get(wanted, dict, ENT_USER));
    if (mark < 0)
        return decode_fail_memory(in->from);
    one->mark = (uint32_t)mark;
    value context = torch_keys_get(wanted, dict, ENT_COMPILE);
    in->has_contexts |=
        value_kind_of(context) == VALUE_TEXT && strcmp(value_as_text(context)->bytes, "N/A") != 0;
    in->has_categories |= value_kind_of(torch_keys_get(wanted, dict, ENT_CATEGORY)) == VALUE_TEXT;
    return torch_stack(in, at, torch_keys_get(wanted, dict, ENT_FRAMES), &one->stack);
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
    if (torch_dict(in, at, trace->list->items[trace->next], &dict) != 0)
        return -1;
    value action_value = torch_keys_get(&in->entry_keys, dict, ENT_ACTION);
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
int torch_traces_take(torch_reader *in)
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

int torch_traces_open(torch_reader *in, value document)
{
    const value_heap *heap = in->from->heap;
    value any;
    torch_keys_start(&in->entry_keys, heap, entry_names);
    for (size_t i = 0; i < TORCH_ACTIONS_COUNT; i++)
        in->actions[i] = value_text_find(heap, torch_actions[i], strlen(torch_actions[i]));
    if (!value_get(heap, document, "device_traces", &any))
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

/* ---- what follows from all of it ------------------------------------------------------------ */

/* One record seen from the end: what it says of the block that is there now, and the other way
 * round. PyTorch's records do not say how much was set aside. For blocks that are still there it
 * is known, for others it is what PyTorch rounds to unless it is told otherwise. */
static void life_complete(model *out, map64 *by_address, record *event)
{
    if (event->kind > RECORD_REUSE)
        return;
    event->bytes = (event->requested_bytes + 511) & ~UINT64_C(511);
    uint32_t at = map64_get(by_address, event->address);
    if (at == MAP64_ABSENT)
        return;
    block *one = MODEL_AT(out->blocks, block, at);
    if (event->kind == RECORD_ALLOC) {
        one->time_ns = event->time_ns;
        if (one->stack == 0)
            one->stack = event->stack;
    } else if (event->kind != RECORD_RETIRE || one->state != STATE_RETIRED) {
        return;
    }
    if (event->requested_bytes <= one->bytes)
        event->bytes = one->bytes;
    if (event->kind == RECORD_ALLOC)
        map64_remove(by_address, event->address);
}

/* Gives live and retired blocks the time of their allocation, and its stack if they have none; and
 * their records how much was set aside. */
int torch_lives_complete(torch_reader *in)
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
    for (size_t i = out->records.count; i > 0 && code == 0; i--)
        life_complete(out, &by_address, MODEL_AT(out->records, record, i - 1));
    map64_release(&by_address);
    return code == 0 ? 0 : decode_fail_memory(in->from);
}

/* The most that was reserved, from the end backwards. */
void torch_peaks_find(model *out)
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
