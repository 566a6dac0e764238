/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What would lower the peak: see advice.h. The sums of the picture are exact. So the code starts
 * there and takes back one record after the other. That takes no memory, however many records there
 * are.
 */
#include "advice.h"

#include <stdlib.h>
#include <string.h>

#include "course.h"

const char *const advice_names[ADVICE_KINDS_COUNT] = {"kept", "waiting", "rounded", "pinned"};

/* What there is after a record, of one device. Damaged histories may lead below zero. */
typedef struct moment {
    int64_t live, asked, waiting;
} moment;

static uint64_t positive(int64_t amount)
{
    return amount > 0 ? (uint64_t)amount : 0;
}

static void peak_raise(uint64_t *peak, int64_t amount)
{
    if (positive(amount) > *peak)
        *peak = positive(amount);
}

static void peaks_raise(advice_peak *peak, const moment *now, size_t records, int is_early)
{
    if (positive(now->live + now->waiting) > peak->in_use)
        peak->records = records;
    peak_raise(&peak->in_use, now->live + now->waiting);
    peak_raise(&peak->live, now->live);
    peak_raise(&peak->asked, now->asked + now->waiting);
    if (is_early)
        peak_raise(&peak->early, now->live + now->waiting);
}

/* What there was before the record. */
static void moment_back(moment *now, const record *event)
{
    int64_t bytes = (int64_t)event->bytes, asked = (int64_t)event->requested_bytes;
    switch ((record_kind)event->kind) {
    case RECORD_ALLOC:
        now->live -= bytes;
        now->asked -= asked;
        return;
    case RECORD_FREE:
        now->live += bytes;
        now->asked += asked;
        return;
    case RECORD_RETIRE:
        now->live += bytes;
        now->asked += asked;
        now->waiting -= bytes;
        return;
    case RECORD_REUSE:
        now->waiting += bytes;
        return;
    case RECORD_GROW:
        now->live -= bytes - (int64_t)record_grow_before(event);
        now->asked -= event->value;
        return;
    default:
        return;
    }
}

/* The end of the first tenth of the history; -1 without times. */
static int64_t early_end(const model *in)
{
    int64_t first = -1, last = -1;
    for (size_t i = 0; i < in->records.count; i++) {
        int64_t time_ns = MODEL_AT(in->records, record, i)->time_ns;
        if (time_ns >= 0 && first < 0)
            first = time_ns;
        if (time_ns > last)
            last = time_ns;
    }
    return last > first ? first + (last - first) / 10 : -1;
}

static int peaks_find(const model *in, int64_t early_ns, array *peaks)
{
    size_t count = in->devices.count + 1;
    moment *now = calloc(count, sizeof(*now));
    course_sums *sums = calloc(count, sizeof(*sums));
    int code = now && sums && array_reserve(peaks, in->limits, sizeof(advice_peak), count) == 0;
    if (code) {
        memset(peaks->items, 0, count * sizeof(advice_peak));
        peaks->count = count;
        course_picture(in, sums);
        for (size_t i = 0; i < count; i++)
            now[i] =
                (moment){(int64_t)sums[i].live, (int64_t)sums[i].live, (int64_t)sums[i].waiting};
        for (size_t i = 0; i < in->pools.count; i++) {
            const pool *one = MODEL_AT(in->pools, pool, i);
            now[course_pool_device(in, (int32_t)i)].live += (int64_t)one->bytes.slack;
        }
        for (size_t i = 0; i < count; i++)
            peaks_raise(MODEL_AT(*peaks, advice_peak, i), &now[i], in->records.count, 0);
        for (size_t i = in->records.count; i > 0; i--) {
            const record *event = MODEL_AT(in->records, record, i - 1);
            size_t at = course_record_device(in, event);
            moment_back(&now[at], event);
            /* What there was before it began with the record before. */
            int is_early = i == 1 || MODEL_AT(in->records, record, i - 2)->time_ns <= early_ns;
            peaks_raise(MODEL_AT(*peaks, advice_peak, at), &now[at], i - 1, is_early);
        }
    }
    free(now);
    free(sums);
    return code ? 0 : -1;
}

/* ---- blocks of the picture ------------------------------------------------------------------ */

typedef struct collection {
    const model *in;
    map64 places; /* (kind, device, stack) -> place in `rows` */
    array *rows;
} collection;

static int advice_count(collection *to, advice_kind kind, size_t device_at, uint32_t stack_index,
                        uint64_t blocks, uint64_t bytes)
{
    uint64_t key = (uint64_t)kind << 48 | (uint64_t)device_at << 32 | stack_index;
    uint32_t at = map64_get(&to->places, key);
    if (at == MAP64_ABSENT) {
        at = (uint32_t)to->rows->count;
        if (array_reserve(to->rows, to->in->limits, sizeof(advice), to->rows->count + 1) != 0 ||
            map64_put(&to->places, key, at) != 0)
            return -1;
        *MODEL_AT(*to->rows, advice, to->rows->count++) =
            (advice){.kind = kind, .device = (uint32_t)device_at, .stack = stack_index};
    }
    advice *one = MODEL_AT(*to->rows, advice, at);
    one->blocks += blocks;
    one->bytes += bytes;
    return 0;
}

static int is_held(const block *one)
{
    return one->state == STATE_LIVE || one->state == STATE_RETIRED;
}

/* Blocks that pin share the free memory of their segment by their sizes. */
static int segment_count(collection *to, const segment *around, int64_t early_ns)
{
    const model *in = to->in;
    size_t device_at = course_pool_device(in, around->pool);
    if (device_at == in->devices.count || around->blocks_count == 0)
        return 0;
    const block *first = MODEL_AT(in->blocks, block, around->first_block);
    uint64_t held = 0;
    for (size_t i = 0; i < around->blocks_count; i++)
        held += is_held(&first[i]) ? first[i].bytes : 0;
    int is_thin = held > 0 && held <= around->bytes / 10;
    for (size_t i = 0; i < around->blocks_count; i++) {
        const block *one = &first[i];
        if (one->state == STATE_LIVE && early_ns >= 0 && one->time_ns <= early_ns &&
            advice_count(to, ADVICE_KEPT, device_at, one->stack, 1, one->bytes) != 0)
            return -1;
        double share = (double)one->bytes / (double)(held > 0 ? held : 1);
        if (is_thin && is_held(one) &&
            advice_count(to, ADVICE_PINNED, device_at, one->stack, 1,
                         (uint64_t)((double)(around->bytes - held) * share)) != 0)
            return -1;
    }
    return 0;
}

/* ---- the whole ------------------------------------------------------------------------------ */

static int device_count(collection *to, size_t device_at, const advice_peak *peak)
{
    if (peak->in_use > peak->live &&
        advice_count(to, ADVICE_WAITING, device_at, 0, 0, peak->in_use - peak->live) != 0)
        return -1;
    return peak->in_use > peak->asked
               ? advice_count(to, ADVICE_ROUNDED, device_at, 0, 0, peak->in_use - peak->asked)
               : 0;
}

static uint64_t less(uint64_t amount, uint64_t by)
{
    return amount > by ? amount - by : 0;
}

static void without_fill(const model *in, const array *peaks, advice *one)
{
    const advice_peak *peak = MODEL_AT(*peaks, advice_peak, one->device);
    one->without_bytes = less(peak->in_use, one->bytes);
    if (one->kind == ADVICE_PINNED)
        one->without_bytes =
            less(MODEL_AT(in->devices, device, one->device)->reserved_bytes, one->bytes);
    /* In the first tenth they may not have been there yet. */
    else if (one->kind == ADVICE_KEPT && one->without_bytes < peak->early)
        one->without_bytes = peak->early;
}

static int advice_compare(const void *left, const void *right)
{
    const advice *a = left, *b = right;
    if (a->bytes != b->bytes)
        return a->bytes > b->bytes ? -1 : 1;
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    if (a->device != b->device)
        return a->device < b->device ? -1 : 1;
    return a->stack < b->stack ? -1 : a->stack > b->stack;
}

int advice_find(const model *in, array *result, array *peaks)
{
    collection to = {.in = in, .rows = result};
    memset(result, 0, sizeof(*result));
    memset(peaks, 0, sizeof(*peaks));
    map64_start(&to.places, in->limits);
    int64_t early_ns = early_end(in);
    int code = peaks_find(in, early_ns, peaks);
    for (size_t i = 0; i < in->devices.count && code == 0; i++)
        code = device_count(&to, i, MODEL_AT(*peaks, advice_peak, i));
    for (size_t i = 0; i < in->segments.count && code == 0; i++)
        code = segment_count(&to, MODEL_AT(in->segments, segment, i), early_ns);
    map64_release(&to.places);
    for (size_t i = 0; i < result->count && code == 0; i++)
        without_fill(in, peaks, MODEL_AT(*result, advice, i));
    if (code == 0 && result->count > 0)
        qsort(result->items, result->count, sizeof(advice), advice_compare);
    return code;
}

void advice_release(const model *in, array *result, array *peaks)
{
    array_release(result, in->limits, sizeof(advice));
    array_release(peaks, in->limits, sizeof(advice_peak));
}
