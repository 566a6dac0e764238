/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PyTorch's device_traces: from one list per device to records in one order of time. See
 * decode_torch.c for what becomes of what.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "torch.h"

const char *const torch_entry_names[] = {"action",  "addr",          "size",
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
const size_t torch_frames_key = ENT_FRAMES;

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

static const unsigned char kind_of_action[TORCH_ACTIONS_COUNT] = {
    RECORD_ALLOC, RECORD_RETIRE, RECORD_REUSE,    RECORD_MAP, RECORD_UNMAP,
    RECORD_MAP,   RECORD_UNMAP,  RECORD_SNAPSHOT, RECORD_OOM, RECORD_MARK};

int torch_pool_at(torch_reader *in, place at, uint64_t device_index, value named, uint64_t address,
                  int32_t *result)
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
    value named = torch_keys_get(wanted, dict, ENT_POOL);
    if (!in->has_segments && value_kind_of(named) == VALUE_NONE)
        one->pool = action == TORCH_SNAPSHOT ? -1 : TORCH_POOL_LATER;
    else if (action != TORCH_SNAPSHOT &&
             torch_pool_at(in, at, device_index, named, one->address, &one->pool) != 0)
        return -1;
    if (value_as_signed(torch_keys_get(wanted, dict, ENT_TIME), &time_us) && time_us >= 0 &&
        time_us <= INT64_C(1) << 52)
        one->time_ns = time_us; /* until the moment 0 is known */
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

/* 1 if the record is of the free_completed of the free_requested that the one before is of, at the
 * same moment. */
static int is_completion(const record *request, const record *one)
{
    return request->address == one->address && request->bytes == one->bytes &&
           request->stream == one->stream && request->time_ns == one->time_ns &&
           request->mark == one->mark && (one->stack == 0 || one->stack == request->stack);
}

/* Makes a record of the device's next entry, or completes the one before. */
static int entry_take(torch_reader *in, place at, size_t device_index, value entry)
{
    trace_cursor *trace = &in->traces[device_index];
    array *records = &in->out->records;
    const value_dict *dict;
    record one;
    if (torch_dict(in, at, entry, &dict) != 0)
        return -1;
    if (dict->is_spent)
        return decode_fail(in->from, at, "it is an entry that was there before, the very same");
    value action_value = torch_keys_get(&in->entry_keys, dict, ENT_ACTION);
    if (decode_is(in->from, at, action_value, VALUE_TEXT) != 0)
        return -1;
    int action = action_of(in, action_value);
    int is_after_request = trace->is_after_request;
    trace->is_after_request = action == TORCH_FREE_REQUESTED;
    if (action == TORCH_ACTIONS_COUNT) {
        in->has_unknown_actions++;
        return 0;
    }
    if (entry_record(in, at, device_index, dict, action, &one) != 0)
        return -1;
    if (action == TORCH_FREE_COMPLETED && is_after_request) {
        record *request = MODEL_AT(*records, record, records->count - 1);
        if (is_completion(request, &one)) {
            request->kind = RECORD_FREE;
            return 0;
        }
    }
    record *made = MODEL_ADD(in->out, records, record);
    if (!made)
        return decode_fail_memory(in->from);
    *made = one;
    trace->count++;
    return 0;
}

int torch_entries_take(torch_reader *in, size_t device_index, const value *entries, size_t count)
{
    trace_cursor *trace = &in->traces[device_index];
    char name[48];
    snprintf(name, sizeof(name), "device_traces[%zu]", device_index);
    if (trace->count == 0)
        trace->first = in->out->records.count;
    if (trace->first + trace->count != in->out->records.count)
        return decode_fail(in->from, (place){name, trace->next},
                           "entries of other devices lie between its own");
    if (device_index >= in->traces_count)
        in->traces_count = device_index + 1;
    if (count > 0 && torch_device_add(in, device_index) != 0)
        return -1;
    for (size_t i = 0; i < count; i++, trace->next++)
        if (entry_take(in, (place){name, trace->next}, device_index, entries[i]) != 0)
            return -1;
    return 0;
}

/* The moment 0 is that of the first entry. */
static void times_rebase(torch_reader *in)
{
    array *records = &in->out->records;
    int64_t least = INT64_MAX;
    for (size_t i = 0; i < records->count; i++) {
        int64_t time_us = MODEL_AT(*records, record, i)->time_ns;
        if (time_us >= 0 && time_us < least)
            least = time_us;
    }
    in->zero_us = least == INT64_MAX ? 0 : (uint64_t)least;
    in->out->zero_epoch_us = in->zero_us;
    for (size_t i = 0; i < records->count; i++) {
        record *one = MODEL_AT(*records, record, i);
        if (one->time_ns >= 0)
            one->time_ns = (one->time_ns - least) * 1000;
    }
}

/* The device whose next record is the earliest, or SIZE_MAX. */
static size_t earliest_find(const torch_reader *in)
{
    size_t chosen = SIZE_MAX;
    int64_t earliest = INT64_MAX;
    for (size_t i = 0; i < in->traces_count; i++) {
        if (in->traces[i].count == 0)
            continue;
        int64_t time_ns = MODEL_AT(in->out->records, record, in->traces[i].first)->time_ns;
        if (chosen == SIZE_MAX || time_ns < earliest) {
            chosen = i;
            earliest = time_ns;
        }
    }
    return chosen;
}

/* Merges the devices' records by time; the order within each stays. */
static int records_merge(torch_reader *in)
{
    array *records = &in->out->records, merged = {NULL, 0, 0};
    size_t devices = 0;
    for (size_t i = 0; i < in->traces_count; i++)
        devices += in->traces[i].count > 0;
    if (devices < 2)
        return 0;
    if (array_reserve(&merged, in->out->limits, sizeof(record), records->count) != 0)
        return decode_fail_memory(in->from);
    for (size_t chosen; (chosen = earliest_find(in)) != SIZE_MAX;) {
        trace_cursor *trace = &in->traces[chosen];
        *MODEL_AT(merged, record, merged.count++) = *MODEL_AT(*records, record, trace->first++);
        trace->count--;
    }
    array_release(records, in->out->limits, sizeof(record));
    *records = merged;
    return 0;
}

/* ---- annotations ---------------------------------------------------------------------------- */

/* The name of an annotation as a mark: "forward", and "end of forward". -1 without memory. */
static int64_t annotation_mark(torch_reader *in, value annotation)
{
    value name, stage;
    model *out = in->out;
    if (!value_get(in->from->heap, annotation, "name", &name) || value_kind_of(name) != VALUE_TEXT)
        return 0;
    if (!value_get(in->from->heap, annotation, "stage", &stage) ||
        value_kind_of(stage) != VALUE_TEXT || strcmp(value_as_text(stage)->bytes, "END") != 0)
        return torch_string(in, name);
    char text[512];
    snprintf(text, sizeof(text), "%.*s%.400s", (int)strlen(TORCH_ANNOTATION_END),
             TORCH_ANNOTATION_END, value_as_text(name)->bytes);
    const char *copy = model_text(out, text, strlen(text));
    const char **made = copy ? MODEL_ADD(out, &out->strings, const char *) : NULL;
    if (!made)
        return -1;
    *made = copy;
    return (int64_t)out->strings.count - 1;
}

static int annotations_compare(const void *left, const void *right)
{
    const record *a = left, *b = right;
    if (a->time_ns != b->time_ns)
        return a->time_ns < b->time_ns ? -1 : 1;
    return a->value < b->value ? -1 : a->value > b->value;
}

/* The profiler's annotations, as marks: a trace of their own, which is merged with those of the
 * devices. What has no name or no time is left out. */
static int annotations_take(torch_reader *in, value document)
{
    value any, number;
    array *records = &in->out->records;
    if (!value_get(in->from->heap, document, "external_annotations", &any) ||
        value_kind_of(any) != VALUE_LIST)
        return 0;
    const value_list *list = value_as_list(any);
    trace_cursor *trace = &in->traces[in->traces_count];
    *trace = (trace_cursor){.first = records->count};
    for (uint32_t i = 0; i < list->count; i++) {
        int64_t time_us, device_index = -1;
        if (value_kind_of(list->items[i]) != VALUE_DICT ||
            !value_get(in->from->heap, list->items[i], "time_us", &number) ||
            !value_as_signed(number, &time_us) || time_us < 0 || time_us > INT64_C(1) << 52)
            continue;
        if (value_get(in->from->heap, list->items[i], "device", &number))
            (void)value_as_signed(number, &device_index);
        int64_t mark = annotation_mark(in, list->items[i]);
        record *made = mark > 0 ? MODEL_ADD(in->out, records, record) : NULL;
        if (mark < 0 || (mark > 0 && !made))
            return decode_fail_memory(in->from);
        if (mark == 0)
            continue;
        *made = (record){.kind = RECORD_MARK,
                         .pool = -1,
                         .stream = -1,
                         .time_ns = time_us,
                         .mark = (uint32_t)mark,
                         .value = i,
                         .device = device_index >= 0 ? torch_device(in, (uint64_t)device_index)
                                                     : DEVICE_NONE};
        trace->count++;
    }
    if (trace->count == 0)
        return 0;
    qsort(MODEL_AT(*records, record, trace->first), trace->count, sizeof(record),
          annotations_compare);
    for (size_t i = trace->first; i < records->count; i++)
        MODEL_AT(*records, record, i)->value = 0;
    in->traces_count++;
    return 0;
}

int torch_traces_take(torch_reader *in, value document)
{
    for (size_t i = 0; i < in->traces_count; i++) {
        const value_list *list = in->traces[i].list;
        if (list && list->count > 0 && torch_entries_take(in, i, list->items, list->count) != 0)
            return -1;
    }
    if (torch_early_settle(in) != 0 || annotations_take(in, document) != 0)
        return -1;
    times_rebase(in);
    return records_merge(in);
}

int torch_traces_open(torch_reader *in, value document)
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
    if (in->traces_count < list->count)
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
