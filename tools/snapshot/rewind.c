/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Taking history back: see rewind.h. Blocks are found by their address. Memory is a sorted list of
 * ranges; a program has at most some thousands.
 */
#include "rewind.h"

#include <stdlib.h>
#include <string.h>

typedef struct range {
    uint64_t from, to;
    int32_t stream;
} range;

typedef struct state {
    const model *in;
    rewind_result *out;
    map64 by_address; /* address -> index in `held` */
    array held;       /* early_block; those not in by_address are over */
    uint32_t spare;   /* 1 + the place of one that is over, whose `stack` is the next; 0: none */
    array ranges;     /* range: memory, disjoint, sorted; those of one stream never touch */
} state;

/* ---- memory --------------------------------------------------------------------------------- */

/* The first range that ends after the address. */
static size_t range_at(const state *now, uint64_t address)
{
    size_t low = 0, high = now->ranges.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (MODEL_AT(now->ranges, range, middle)->to <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int is_memory(const state *now, uint64_t from, uint64_t bytes)
{
    for (size_t at = range_at(now, from); at < now->ranges.count; at++) {
        const range *one = MODEL_AT(now->ranges, range, at);
        if (one->from > from)
            return 0;
        if (bytes <= one->to - from)
            return 1;
        bytes -= one->to - from;
        from = one->to;
    }
    return 0;
}

/* Replaces `count` ranges from `at` on by `with_count` others. */
static int ranges_replace(state *now, size_t at, size_t count, const range *with, size_t with_count)
{
    array *all = &now->ranges;
    size_t after = all->count - at - count;
    if (array_reserve(all, now->out->limits, sizeof(range), all->count + with_count) != 0)
        return -1;
    range *items = all->items;
    memmove(items + at + with_count, items + at + count, after * sizeof(range));
    if (with_count > 0)
        memcpy(items + at, with, with_count * sizeof(range));
    all->count = at + with_count + after;
    return 0;
}

/* Takes away what lies in the one range at `at`. */
static int range_remove(state *now, size_t at, uint64_t from, uint64_t to)
{
    size_t parts_count = 0;
    range whole = *MODEL_AT(now->ranges, range, at), parts[2];
    if (whole.from < from)
        parts[parts_count++] = (range){whole.from, from, whole.stream};
    if (to < whole.to)
        parts[parts_count++] = (range){to, whole.to, whole.stream};
    return ranges_replace(now, at, 1, parts, parts_count);
}

/* Takes away memory that is there whole, and says of which streams it is, if not of the record's
 * alone. Returns 1, or 0 if it is not there; -1 without memory. */
static int memory_remove(state *now, size_t number, const record *event)
{
    uint64_t from = event->address, to = from + event->bytes;
    if (event->bytes == 0 || !is_memory(now, from, event->bytes))
        return 0;
    while (from < to) {
        size_t at = range_at(now, from);
        const range *one = MODEL_AT(now->ranges, range, at);
        memory_part part = {number, from, (one->to < to ? one->to : to) - from, one->stream};
        if (part.bytes != event->bytes || part.stream != event->stream) {
            array *parts = &now->out->parts;
            if (array_reserve(parts, now->out->limits, sizeof(part), parts->count + 1) != 0)
                return -1;
            *MODEL_AT(*parts, memory_part, parts->count++) = part;
        }
        from += part.bytes;
        if (range_remove(now, at, part.from, from) != 0)
            return -1;
    }
    return 1;
}

/* Adds memory where there is none. */
static int memory_add(state *now, uint64_t from, uint64_t bytes, int32_t owner)
{
    size_t at = range_at(now, from), touching = 0;
    range whole = {from, from + bytes, owner};
    if (bytes == 0)
        return 0;
    if (at < now->ranges.count && MODEL_AT(now->ranges, range, at)->from < whole.to)
        return 0;
    if (at > 0) {
        const range *below = MODEL_AT(now->ranges, range, at - 1);
        if (below->to == from && below->stream == owner) {
            whole.from = below->from;
            at--;
            touching++;
        }
    }
    if (at + touching < now->ranges.count) {
        const range *above = MODEL_AT(now->ranges, range, at + touching);
        if (above->from == whole.to && above->stream == owner) {
            whole.to = above->to;
            touching++;
        }
    }
    return ranges_replace(now, at, touching, &whole, 1) == 0 ? 1 : -1;
}

/* ---- blocks --------------------------------------------------------------------------------- */

static int hold(state *now, const early_block *one)
{
    uint32_t at = now->spare > 0 ? now->spare - 1 : (uint32_t)now->held.count;
    if (array_reserve(&now->held, now->out->limits, sizeof(early_block), (size_t)at + 1) != 0 ||
        map64_put(&now->by_address, one->address, at) != 0)
        return -1;
    early_block *made = MODEL_AT(now->held, early_block, at);
    if (now->spare > 0)
        now->spare = made->stack;
    else
        now->held.count++;
    *made = *one;
    return 1;
}

/* The place is used again: a history is long, and few blocks are there at a time. */
static void let_go(state *now, early_block *one)
{
    map64_remove(&now->by_address, one->address);
    one->stack = now->spare;
    now->spare = (uint32_t)(one - MODEL_AT(now->held, early_block, 0)) + 1;
}

static early_block *held_at(const state *now, uint64_t address)
{
    uint32_t at = map64_get(&now->by_address, address);
    return at == MAP64_ABSENT ? NULL : MODEL_AT(now->held, early_block, at);
}

/* A free or a reuse taken back: the block is there again. */
static int block_back(state *now, const record *event, int retired)
{
    /* The stack of a free is not that of the allocation. */
    early_block one = {.address = event->address,
                       .bytes = event->bytes,
                       .requested_bytes = event->requested_bytes,
                       .pool = event->pool,
                       .stream = event->stream,
                       .retired = (unsigned char)retired};
    uint64_t bytes = event->requested_bytes ? event->requested_bytes : 1;
    if (held_at(now, event->address) || !is_memory(now, event->address, bytes))
        return 0;
    return hold(now, &one);
}

/* A growable block gets the size that it had before. */
static int grow_back(state *now, const record *event, early_block *found)
{
    uint64_t before = record_grow_before(event);
    if (!found || found->retired || event->bytes == 0)
        return 0;
    found->bytes = found->requested_bytes = before;
    if (before == 0)
        let_go(now, found);
    return 1;
}

/* Takes one record back. Returns 1, 0 if it contradicts what is known, -1 without memory. */
static int record_back(state *now, size_t number)
{
    const record *event = MODEL_AT(now->in->records, record, number);
    early_block *found = held_at(now, event->address);
    switch ((record_kind)event->kind) {
    case RECORD_ALLOC:
        if (!found || found->retired)
            return 0;
        let_go(now, found);
        return 1;
    case RECORD_FREE:
        return block_back(now, event, 0);
    case RECORD_REUSE:
        return block_back(now, event, 1);
    case RECORD_RETIRE:
        if (!found || !found->retired)
            return 0;
        found->retired = 0;
        /* What was asked for is known better here than from a `reuse`. */
        if (event->requested_bytes > 0)
            found->requested_bytes = event->requested_bytes;
        return 1;
    case RECORD_GROW:
        return grow_back(now, event, found);
    case RECORD_MAP:
    case RECORD_MOVE_IN:
        return memory_remove(now, number, event);
    case RECORD_UNMAP:
    case RECORD_MOVE_OUT:
        return memory_add(now, event->address, event->bytes, event->stream);
    default:
        return 1;
    }
}

/* The picture: what is held and where memory is. */
static int picture_take(state *now)
{
    const model *in = now->in;
    for (size_t i = 0; i < in->segments.count; i++) {
        const segment *one = MODEL_AT(in->segments, segment, i);
        if (one->bytes > 0 && memory_add(now, one->address, one->bytes, one->stream) < 0)
            return -1;
        for (size_t k = 0; k < one->blocks_count; k++) {
            const block *part = MODEL_AT(in->blocks, block, one->first_block + k);
            if (part->state != STATE_LIVE && part->state != STATE_RETIRED)
                continue;
            early_block held = {.address = part->address,
                                .bytes = part->bytes,
                                .requested_bytes = part->requested_bytes,
                                .pool = one->pool,
                                .stream = one->stream,
                                .stack = part->stack,
                                .retired = part->state == STATE_RETIRED};
            if (hold(now, &held) < 0)
                return -1;
        }
    }
    return 0;
}

static int address_compare(const void *left, const void *right)
{
    const early_block *a = left, *b = right;
    return a->address < b->address ? -1 : a->address > b->address;
}

/* What is still held was there before the first record. */
static int early_collect(state *now)
{
    array *early = &now->out->early;
    if (array_reserve(early, now->out->limits, sizeof(early_block), now->by_address.count) != 0)
        return -1;
    for (size_t i = 0; i < now->held.count; i++) {
        const early_block *one = MODEL_AT(now->held, early_block, i);
        if (map64_get(&now->by_address, one->address) == i)
            *MODEL_AT(*early, early_block, early->count++) = *one;
    }
    if (early->count > 0)
        qsort(early->items, early->count, sizeof(early_block), address_compare);
    return 0;
}

static int history_take_back(state *now)
{
    rewind_result *out = now->out;
    size_t count = now->in->records.count;
    if (array_reserve(&out->contradicts, out->limits, 1, count) != 0)
        return -1;
    out->contradicts.count = count;
    for (size_t i = count; i > 0; i--) {
        int code = record_back(now, i - 1);
        if (code < 0)
            return -1;
        *MODEL_AT(out->contradicts, unsigned char, i - 1) = code == 0;
        out->contradictions_count += code == 0;
    }
    return early_collect(now);
}

int rewind_run(const model *snapshot, rewind_result *result)
{
    memset(result, 0, sizeof(*result));
    result->limits = snapshot->limits;
    state now = {.in = snapshot, .out = result};
    map64_start(&now.by_address, snapshot->limits);
    int code = picture_take(&now) == 0 ? history_take_back(&now) : -1;
    map64_release(&now.by_address);
    array_release(&now.held, snapshot->limits, sizeof(early_block));
    array_release(&now.ranges, snapshot->limits, sizeof(range));
    return code;
}

void rewind_release(rewind_result *result)
{
    array_release(&result->contradicts, result->limits, 1);
    array_release(&result->early, result->limits, sizeof(early_block));
    array_release(&result->parts, result->limits, sizeof(memory_part));
}
