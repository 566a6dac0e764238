/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables of a snapshot: see model.h. What is here is what both readers need to fill them.
 */
#include "model.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

const char *const state_names[STATES_COUNT] = {"live", "retired",   "binned",
                                               "free", "releasing", "growing"};
const char *const wait_kind_names[WAIT_KINDS_COUNT] = {"use", "free_sync", "export", "graph",
                                                       "capture"};
const char *const record_kind_names[RECORD_KINDS_COUNT] = {
    "alloc",         "free",        "retire",        "reuse",  "grow",        "map",
    "unmap",         "move_in",     "move_out",      "oom",    "pool_made",   "pool_ended",
    "capture_begin", "capture_end", "capture_abort", "launch", "launch_over", "sleep",
    "wake",          "mark",        "snapshot"};
const char *const audit_names[AUDIT_COUNTS] = {"found", "own",   "kept",     "shared",
                                               "loose", "freed", "unmapped", "unread"};

void model_start(model *snapshot, budget *limits)
{
    memset(snapshot, 0, sizeof(*snapshot));
    snapshot->limits = limits;
    store_start(&snapshot->place, limits);
    snapshot->writer_name = snapshot->writer_version = snapshot->reason = "";
    snapshot->program = snapshot->driver_path = "";
    snapshot->history.mode = "off";
}

void model_release(model *snapshot)
{
    budget *limits = snapshot->limits;
    array_release(&snapshot->strings, limits, sizeof(const char *));
    array_release(&snapshot->modules, limits, sizeof(module_file));
    array_release(&snapshot->frames, limits, sizeof(frame));
    array_release(&snapshot->stacks, limits, sizeof(stack));
    array_release(&snapshot->shown, snapshot->limits, sizeof(stack));
    array_release(&snapshot->stack_frames, limits, sizeof(uint32_t));
    array_release(&snapshot->settings, limits, sizeof(setting));
    array_release(&snapshot->devices, limits, sizeof(device));
    array_release(&snapshot->pools, limits, sizeof(pool));
    array_release(&snapshot->streams, limits, sizeof(stream));
    array_release(&snapshot->segments, limits, sizeof(segment));
    array_release(&snapshot->blocks, limits, sizeof(block));
    array_release(&snapshot->waits, limits, sizeof(wait));
    array_release(&snapshot->graphs, limits, sizeof(graph));
    array_release(&snapshot->reasons, limits, sizeof(const char *));
    array_release(&snapshot->records, limits, sizeof(record));
    store_release(&snapshot->place);
}

void *model_add(model *snapshot, array *table, size_t element_bytes)
{
    if (table->count >= INT32_MAX) {
        snapshot->limits->refused = 1;
        return NULL;
    }
    if (array_reserve(table, snapshot->limits, element_bytes, table->count + 1) != 0)
        return NULL;
    void *element = (char *)table->items + table->count++ * element_bytes;
    memset(element, 0, element_bytes);
    return element;
}

/* ---- texts ---------------------------------------------------------------------------------- */

const char *model_text(model *snapshot, const char *bytes, size_t length)
{
    static const char replacement[] = "\xef\xbf\xbd";
    size_t bad = 0;
    for (size_t i = 0; i < length;) {
        size_t step = tnri_utf8_length(bytes + i, length - i);
        bad += step == 0 || bytes[i] == '\0';
        i += step ? step : 1;
    }
    if (bad > (SIZE_MAX - length) / 4) {
        snapshot->limits->refused = 1;
        return NULL;
    }
    char *copy = store_take(&snapshot->place, length + bad * 2 + 1);
    if (!copy)
        return NULL;
    char *to = copy;
    for (size_t i = 0; i < length;) {
        size_t step = tnri_utf8_length(bytes + i, length - i);
        int is_bad = step == 0 || bytes[i] == '\0';
        memcpy(to, is_bad ? replacement : bytes + i, is_bad ? 3 : step);
        to += is_bad ? 3 : step;
        i += step ? step : 1;
    }
    *to = '\0';
    return copy;
}

void model_note(model *snapshot, const char *format, ...)
{
    char sentence[sizeof(snapshot->notes[0])];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof(sentence), format, arguments);
    va_end(arguments);
    for (size_t i = 0; i < snapshot->notes_count; i++)
        if (strcmp(snapshot->notes[i], sentence) == 0)
            return;
    if (snapshot->notes_count < NOTES_MAX)
        memcpy(snapshot->notes[snapshot->notes_count++], sentence, sizeof(sentence));
}

const char *model_string(const model *snapshot, uint32_t index)
{
    return *MODEL_AT(snapshot->strings, const char *, index);
}

/* ---- frames and stacks ---------------------------------------------------------------------- */

void interner_start(interner *names, model *into)
{
    memset(names, 0, sizeof(*names));
    names->into = into;
    map64_start(&names->by_pair, into->limits);
    map64_start(&names->by_frame, into->limits);
    map64_start(&names->by_node, into->limits);
    map64_start(&names->by_stack, into->limits);
}

void interner_release(interner *names)
{
    map64_release(&names->by_pair);
    map64_release(&names->by_frame);
    map64_release(&names->by_node);
    map64_release(&names->by_stack);
}

/* The number of the pair (high, low), a new one if it was never seen. Pairs of 32-bit numbers are
 * exact keys, so nothing is compared afterwards. */
static int64_t pair_number(map64 *map, uint32_t high, uint32_t low, uint32_t next, int *is_new)
{
    uint64_t key = (uint64_t)high << 32 | low;
    uint32_t found = map64_get(map, key);
    *is_new = found == MAP64_ABSENT;
    if (found != MAP64_ABSENT)
        return found;
    return map64_put(map, key, next) == 0 ? (int64_t)next : -1;
}

int64_t interner_frame(interner *names, uint32_t function, uint32_t file, uint32_t line)
{
    int is_new;
    int64_t pair = pair_number(&names->by_pair, function, file, names->pairs_count, &is_new);
    if (pair < 0)
        return -1;
    names->pairs_count += (uint32_t)is_new;
    array *frames = &names->into->frames;
    int64_t number =
        pair_number(&names->by_frame, (uint32_t)pair, line, (uint32_t)frames->count, &is_new);
    if (number < 0 || !is_new)
        return number;
    frame *made = MODEL_ADD(names->into, frames, frame);
    if (!made)
        return -1;
    made->function = function;
    made->file = file;
    made->line = line;
    return number;
}

int64_t interner_stack(interner *names, const uint32_t *frames, size_t count)
{
    int is_new;
    uint32_t node = 0; /* of no frames */
    if (count == 0)
        return 0;
    /* A tree of stacks that grows from the outermost frame inwards. Node 0 is its root. */
    for (size_t i = count; i > 0; i--) {
        int64_t deeper =
            pair_number(&names->by_node, node, frames[i - 1], names->nodes_count + 1, &is_new);
        if (deeper < 0)
            return -1;
        names->nodes_count += (uint32_t)is_new;
        node = (uint32_t)deeper;
    }
    model *into = names->into;
    int64_t number = pair_number(&names->by_stack, 0, node, (uint32_t)into->stacks.count, &is_new);
    if (number < 0 || !is_new)
        return number;
    array *all = &into->stack_frames;
    stack *made = MODEL_ADD(into, &into->stacks, stack);
    if (!made || all->count + count > UINT32_MAX ||
        array_reserve(all, into->limits, sizeof(uint32_t), all->count + count) != 0)
        return -1;
    made->first = (uint32_t)all->count;
    made->count = (uint32_t)count;
    memcpy((uint32_t *)all->items + all->count, frames, count * sizeof(uint32_t));
    all->count += count;
    return number;
}

/* ---- sums ----------------------------------------------------------------------------------- */

static void block_sum(pool_bytes *sums, const block *one)
{
    switch ((block_state)one->state) {
    case STATE_LIVE:
        sums->live += one->requested_bytes;
        sums->slack += one->bytes - one->requested_bytes;
        break;
    case STATE_RETIRED:
        sums->retired += one->bytes;
        break;
    case STATE_BINNED:
        sums->binned += one->bytes;
        break;
    case STATE_FREE:
        sums->free += one->bytes;
        break;
    case STATE_RELEASING:
        sums->releasing += one->bytes;
        break;
    case STATE_GROWING:
    case STATES_COUNT:
        sums->growing += one->bytes;
        break;
    }
}

void model_sum(model *snapshot)
{
    for (size_t i = 0; i < snapshot->pools.count; i++) {
        pool *one = MODEL_AT(snapshot->pools, pool, i);
        memset(&one->bytes, 0, sizeof(one->bytes));
        one->reserved_bytes = one->asleep_bytes = 0;
    }
    for (size_t i = 0; i < snapshot->segments.count; i++) {
        const segment *range = MODEL_AT(snapshot->segments, segment, i);
        pool *owner = MODEL_AT(snapshot->pools, pool, range->pool);
        owner->reserved_bytes += range->bytes;
        for (size_t k = 0; k < range->blocks_count; k++)
            block_sum(&owner->bytes, MODEL_AT(snapshot->blocks, block, range->first_block + k));
    }
    for (size_t i = 0; i < snapshot->devices.count; i++) {
        device *one = MODEL_AT(snapshot->devices, device, i);
        one->reserved_bytes = one->asleep_bytes = 0;
        for (size_t k = 0; k < snapshot->pools.count; k++) {
            const pool *part = MODEL_AT(snapshot->pools, pool, k);
            if (part->device == one->index)
                one->reserved_bytes += part->reserved_bytes;
        }
    }
}

const segment *model_segment_at(const model *snapshot, uint64_t address)
{
    size_t low = 0, high = snapshot->segments.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const segment *one = MODEL_AT(snapshot->segments, segment, middle);
        if (one->address + one->bytes <= address)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == snapshot->segments.count)
        return NULL;
    const segment *one = MODEL_AT(snapshot->segments, segment, low);
    return one->address <= address ? one : NULL;
}

const char *model_stream_name(const stream *one, char *text, size_t bytes)
{
    size_t length = strnlen(one->name, bytes);
    if (length == bytes)
        for (length--; length > 0 && ((unsigned char)one->name[length] & 0xc0) == 0x80;)
            length--;
    for (size_t i = 0; i < length; i++)
        text[i] = (unsigned char)one->name[i] < 0x20 || one->name[i] == 0x7f ? '?' : one->name[i];
    text[length] = '\0';
    return text;
}
