/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who held memory at a moment: see peak.h. A record of a free does not say who had allocated. So
 * the pass goes on beyond the moment, back to the allocations.
 */
#include "peak.h"

#include <string.h>

#include "course.h"

/* A block that is there at the moment that the pass has come to. */
typedef struct held {
    uint64_t bytes;
    uint32_t stack;
    unsigned char is_waiting, is_known; /* is_known: `stack` is that of its allocation */
    unsigned char is_over;              /* it was not there yet; `stack` is the next spare then */
} held;

typedef struct looker {
    const model *in;
    size_t device_at;
    map64 by_address; /* address -> place in `blocks` */
    array blocks;     /* held */
    uint32_t spare;   /* 1 + the place of one that is over; 0: none */
    size_t unknown_count;
} looker;

static held *held_at(looker *by, uint64_t address)
{
    uint32_t at = map64_get(&by->by_address, address);
    return at == MAP64_ABSENT ? NULL : MODEL_AT(by->blocks, held, at);
}

static int held_add(looker *by, uint64_t address, held one)
{
    array *blocks = &by->blocks;
    uint32_t at = by->spare > 0 ? by->spare - 1 : (uint32_t)blocks->count;
    if (array_reserve(blocks, by->in->limits, sizeof(held), (size_t)at + 1) != 0 ||
        map64_put(&by->by_address, address, at) != 0)
        return -1;
    held *made = MODEL_AT(*blocks, held, at);
    if (by->spare > 0)
        by->spare = made->stack;
    else
        blocks->count++;
    *made = one;
    by->unknown_count += !one.is_known;
    return 0;
}

static int picture_take(looker *by)
{
    const model *in = by->in;
    for (size_t i = 0; i < in->segments.count; i++) {
        const segment *around = MODEL_AT(in->segments, segment, i);
        if (course_pool_device(in, around->pool) != by->device_at)
            continue;
        for (size_t k = 0; k < around->blocks_count; k++) {
            const block *one = MODEL_AT(in->blocks, block, around->first_block + k);
            int is_waiting = one->state == STATE_RETIRED;
            if ((one->state == STATE_LIVE || is_waiting) &&
                held_add(by, one->address,
                         (held){.bytes = one->bytes,
                                .stack = one->stack,
                                .is_waiting = (unsigned char)is_waiting,
                                .is_known = 1}) != 0)
                return -1;
        }
    }
    return 0;
}

/* What was there before the record. */
static int record_back(looker *by, const record *event)
{
    held *one = held_at(by, event->address);
    switch ((record_kind)event->kind) {
    case RECORD_ALLOC:
        if (one != NULL) {
            one->is_over = 1;
            by->unknown_count -= !one->is_known;
            map64_remove(&by->by_address, event->address);
            one->stack = by->spare;
            by->spare = (uint32_t)(one - MODEL_AT(by->blocks, held, 0)) + 1;
        }
        return 0;
    case RECORD_FREE:
    case RECORD_REUSE:
        return held_add(by, event->address,
                        (held){.bytes = event->bytes, .is_waiting = event->kind == RECORD_REUSE});
    case RECORD_RETIRE:
        if (one == NULL)
            return held_add(by, event->address, (held){.bytes = event->bytes});
        one->is_waiting = 0;
        return 0;
    case RECORD_GROW:
        if (one != NULL)
            one->bytes = record_grow_before(event);
        return 0;
    default:
        return 0;
    }
}

/* An allocation, or a growth, that came before the moment: whose block it was then. */
static void owner_take(looker *by, const record *event)
{
    held *one = event->kind == RECORD_ALLOC || event->kind == RECORD_GROW
                    ? held_at(by, event->address)
                    : NULL;
    if (one == NULL)
        return;
    if (!one->is_known) {
        one->stack = event->stack;
        one->is_known = 1;
        by->unknown_count--;
    }
    map64_remove(&by->by_address, event->address);
}

static int sums_make(looker *by, array *result)
{
    map64 places;
    int code = 0;
    map64_start(&places, by->in->limits);
    for (size_t i = 0; i < by->blocks.count && code == 0; i++) {
        const held *one = MODEL_AT(by->blocks, held, i);
        if (one->is_over)
            continue;
        holder *to = holders_at(by->in, &places, result, one->stack);
        code = to ? 0 : -1;
        if (to && one->is_waiting) {
            to->retired_bytes += one->bytes;
            to->retired_count++;
        } else if (to) {
            to->live_bytes += one->bytes;
            to->live_count++;
        }
    }
    map64_release(&places);
    holders_sort(result);
    return code;
}

int peak_holders(const model *in, size_t device_at, size_t records, array *result)
{
    looker by = {.in = in, .device_at = device_at};
    memset(result, 0, sizeof(*result));
    map64_start(&by.by_address, in->limits);
    int code = picture_take(&by);
    for (size_t i = in->records.count; i > records && code == 0; i--) {
        const record *event = MODEL_AT(in->records, record, i - 1);
        if (course_record_device(in, event) == device_at)
            code = record_back(&by, event);
    }
    for (size_t i = records; i > 0 && code == 0 && by.unknown_count > 0; i--) {
        const record *event = MODEL_AT(in->records, record, i - 1);
        if (course_record_device(in, event) == device_at)
            owner_take(&by, event);
    }
    if (code == 0)
        code = sums_make(&by, result);
    map64_release(&by.by_address);
    array_release(&by.blocks, in->limits, sizeof(held));
    return code;
}
