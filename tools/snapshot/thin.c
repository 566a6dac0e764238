/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leaving out the least blocks of a history: see thin.h.
 */
#include "thin.h"

#include <stdlib.h>
#include <string.h>

/* A double's exponent and four bits of its fraction, once for blocks outside of the window and once
 * for those in it; and one class for what always stays. */
enum { WORTHS_OUTSIDE = 1 << 15, WORTHS = 2 * WORTHS_OUTSIDE };
#define NOBODY UINT32_MAX

static uint32_t *owner_of(const thin *plan, size_t i)
{
    return MODEL_AT(plan->owners, uint32_t, i);
}

static uint32_t *end_of(const thin *plan, size_t i)
{
    return MODEL_AT(plan->ends, uint32_t, i);
}

static int is_in_window(const thin *plan, uint32_t at)
{
    int64_t time_ns = MODEL_AT(plan->in->records, record, at)->time_ns;
    return time_ns >= plan->window.from_ns && time_ns <= plan->window.to_ns;
}

/* Bytes times records that pass, roughly, in classes and in order. Of an allocation. */
static unsigned worth_of(const thin *plan, uint32_t allocation)
{
    uint32_t end = *end_of(plan, allocation);
    if (end == NOBODY)
        return WORTHS;
    const record *event = MODEL_AT(plan->in->records, record, allocation);
    double worth = (double)(event->requested_bytes + 1) * (double)(end - allocation);
    uint64_t bits;
    memcpy(&bits, &worth, sizeof(bits));
    int is_seen = is_in_window(plan, allocation) || is_in_window(plan, end);
    return (unsigned)(bits >> 48) + (is_seen ? WORTHS_OUTSIDE : 0);
}

int thin_keeps(const thin *plan, size_t at)
{
    uint32_t owner = *owner_of(plan, at);
    return owner == NOBODY || worth_of(plan, owner) > plan->least;
}

/* Finds whose each record is. A block that grew has no end here, so that it stays. */
static int owners_find(thin *plan)
{
    map64 live;
    int code = 0;
    map64_start(&live, plan->in->limits);
    for (size_t i = 0; i < plan->in->records.count && code == 0; i++) {
        const record *event = MODEL_AT(plan->in->records, record, i);
        /* Devices share no addresses, but files may say so. */
        uint64_t key = event->address ^ (uint64_t)event->device << 56;
        uint32_t owner = NOBODY;
        *end_of(plan, i) = NOBODY;
        if (event->kind == RECORD_ALLOC) {
            owner = (uint32_t)i;
            code = map64_put(&live, key, owner);
        } else if (event->kind <= RECORD_GROW) {
            uint32_t known = map64_get(&live, key);
            owner = known == MAP64_ABSENT ? NOBODY : known;
        }
        *owner_of(plan, i) = owner;
        if (owner == NOBODY || event->kind == RECORD_ALLOC)
            continue;
        if (event->kind == RECORD_GROW) {
            map64_remove(&live, key);
        } else if (event->kind == RECORD_FREE || event->kind == RECORD_REUSE) {
            *end_of(plan, owner) = (uint32_t)i;
            map64_remove(&live, key);
        }
    }
    map64_release(&live);
    return code;
}

/* The class up to which blocks are left out, so that no more than `most` records stay. */
static int least_find(thin *plan, size_t most)
{
    size_t *counts = calloc(WORTHS + 1, sizeof(*counts));
    size_t kept = 0, count = plan->in->records.count;
    if (!counts) {
        plan->in->limits->refused = 2;
        return -1;
    }
    for (size_t i = 0; i < count; i++) {
        uint32_t owner = *owner_of(plan, i);
        if (owner == NOBODY)
            kept++;
        else
            counts[worth_of(plan, owner)]++;
    }
    unsigned least = WORTHS;
    kept += counts[WORTHS];
    while (least > 0 && kept + counts[least - 1] <= most)
        kept += counts[--least];
    plan->least = least == 0 ? 0 : least - 1;
    plan->left_out = least == 0 ? 0 : count - kept;
    free(counts);
    return 0;
}

/* What a record changes, as the report counts it. */
static void sums_change(course_sums *sums, const record *event)
{
    switch ((record_kind)event->kind) {
    case RECORD_ALLOC:
        sums->live += event->requested_bytes;
        return;
    case RECORD_FREE:
        sums->live -= event->requested_bytes;
        return;
    case RECORD_RETIRE:
        sums->live -= event->requested_bytes;
        sums->waiting += event->bytes;
        return;
    case RECORD_REUSE:
        sums->waiting -= event->bytes;
        return;
    case RECORD_GROW:
        sums->live += (uint64_t)event->value;
        return;
    case RECORD_MAP:
    case RECORD_WAKE:
        sums->reserved += event->bytes;
        return;
    case RECORD_UNMAP:
    case RECORD_SLEEP:
        sums->reserved -= event->bytes;
        return;
    default:
        return;
    }
}

/* The picture is exact: taking all changes back leaves what there was before them. */
static int sums_start(thin *plan)
{
    const model *in = plan->in;
    size_t count = in->devices.count + 1;
    array changes = {NULL, 0, 0};
    if (array_reserve(&plan->sums, in->limits, sizeof(course_sums), count) != 0 ||
        array_reserve(&changes, in->limits, sizeof(course_sums), count) != 0)
        return -1;
    course_picture(in, plan->sums.items);
    memset(changes.items, 0, count * sizeof(course_sums));
    for (size_t i = 0; i < in->records.count; i++) {
        const record *event = MODEL_AT(in->records, record, i);
        sums_change(MODEL_AT(changes, course_sums, course_record_device(in, event)), event);
    }
    for (size_t i = 0; i < count; i++) {
        course_sums *sums = MODEL_AT(plan->sums, course_sums, i);
        const course_sums *change = MODEL_AT(changes, course_sums, i);
        sums->live -= change->live;
        sums->waiting -= change->waiting;
        sums->reserved -= change->reserved;
    }
    array_release(&changes, in->limits, sizeof(course_sums));
    return 0;
}

int thin_start(thin *plan, const model *snapshot, size_t most, thin_window window)
{
    memset(plan, 0, sizeof(*plan));
    plan->in = snapshot;
    plan->window = window;
    size_t count = snapshot->records.count;
    if (array_reserve(&plan->owners, snapshot->limits, sizeof(uint32_t), count) != 0 ||
        array_reserve(&plan->ends, snapshot->limits, sizeof(uint32_t), count) != 0 ||
        owners_find(plan) != 0 || least_find(plan, most / 2) != 0)
        return -1;
    return sums_start(plan);
}

void thin_release(thin *plan)
{
    budget *limits = plan->in->limits;
    array_release(&plan->owners, limits, sizeof(uint32_t));
    array_release(&plan->ends, limits, sizeof(uint32_t));
    array_release(&plan->sums, limits, sizeof(course_sums));
}

/* What was left out of a device since the last record of it that stayed. */
typedef struct gap {
    size_t count, highest; /* the record after which most was live */
    course_sums after;
} gap;

static void gap_write(const model *in, gap *one, thin_write *write, void *context)
{
    if (one->count == 0)
        return;
    const record *highest = MODEL_AT(in->records, record, one->highest);
    const record made = {.time_ns = highest->time_ns,
                         .pool = highest->pool,
                         .stream = highest->stream,
                         .kind = RECORD_KINDS_COUNT,
                         .device = highest->device};
    write(context, &made, one->count, &one->after);
    one->count = 0;
}

int thin_run(const thin *plan, thin_write *write, void *context)
{
    const model *in = plan->in;
    size_t devices = in->devices.count + 1;
    gap *gaps = calloc(devices, sizeof(*gaps));
    course_sums *now = malloc(devices * sizeof(*now));
    int code = gaps && now ? 0 : -1;
    if (code == 0)
        memcpy(now, plan->sums.items, devices * sizeof(*now));
    for (size_t i = 0; i < in->records.count && code == 0; i++) {
        const record *event = MODEL_AT(in->records, record, i);
        size_t at = course_record_device(in, event);
        sums_change(&now[at], event);
        if (!thin_keeps(plan, i)) {
            gap *one = &gaps[at];
            if (one->count++ == 0 || (int64_t)now[at].live > (int64_t)one->after.live) {
                one->highest = i;
                one->after = now[at];
            }
            continue;
        }
        /* What belongs to no device is in the history of each. */
        for (size_t k = 0; k < devices; k++)
            if (k == at || at == in->devices.count)
                gap_write(in, &gaps[k], write, context);
        write(context, event, 0, &now[at]);
    }
    for (size_t k = 0; k < devices && code == 0; k++)
        gap_write(in, &gaps[k], write, context);
    free(gaps);
    free(now);
    return code;
}
