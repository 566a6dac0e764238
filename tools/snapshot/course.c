/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Going through a history: see course.h.
 */
#include "course.h"

#include <string.h>

/* ---- devices -------------------------------------------------------------------------------- */

static size_t device_find(const model *in, uint64_t index)
{
    for (size_t i = 0; i < in->devices.count; i++)
        if (MODEL_AT(in->devices, device, i)->index == index)
            return i;
    return in->devices.count;
}

size_t course_record_device(const model *in, const record *event)
{
    return event->device == DEVICE_NONE ? in->devices.count : event->device;
}

size_t course_pool_device(const model *in, int32_t pool_index)
{
    return pool_index < 0 ? in->devices.count
                          : device_find(in, MODEL_AT(in->pools, pool, pool_index)->device);
}

size_t course_stream_device(const model *in, int32_t stream_index)
{
    return stream_index < 0 ? in->devices.count
                            : device_find(in, MODEL_AT(in->streams, stream, stream_index)->device);
}

void course_picture(const model *in, course_sums *sums)
{
    memset(sums, 0, (in->devices.count + 1) * sizeof(*sums));
    for (size_t i = 0; i < in->devices.count; i++)
        sums[i].reserved = MODEL_AT(in->devices, device, i)->reserved_bytes;
    for (size_t i = 0; i < in->pools.count; i++) {
        const pool *one = MODEL_AT(in->pools, pool, i);
        course_sums *of = &sums[device_find(in, one->device)];
        of->live += one->bytes.live;
        of->waiting += one->bytes.retired;
    }
}

static course_sums *sums_of(course *way, size_t device_at)
{
    return MODEL_AT(way->sums, course_sums, device_at);
}

/* How a record changes the reserved memory of its device. */
static uint64_t reserved_change(const record *event)
{
    if (event->kind == RECORD_MAP || event->kind == RECORD_WAKE)
        return event->bytes;
    return event->kind == RECORD_UNMAP || event->kind == RECORD_SLEEP ? -event->bytes : 0;
}

/* ---- lives ---------------------------------------------------------------------------------- */

static life *life_at(course *way, uint64_t address)
{
    uint32_t at = map64_get(&way->by_address, address);
    return at == MAP64_ABSENT ? NULL : MODEL_AT(way->lives, life, at);
}

/* Adds or takes away what a life counts for. */
static void life_count(course *way, const life *one, int begins)
{
    course_sums *sums = sums_of(way, course_pool_device(way->in, one->pool));
    if (one->is_waiting)
        sums->waiting += begins ? one->bytes : -one->bytes;
    else
        sums->live += begins ? one->requested_bytes : -one->requested_bytes;
}

static void life_end(course *way, uint64_t address)
{
    life *one = life_at(way, address);
    if (one == NULL)
        return;
    one->end_ns = way->now_ns;
    one->goes_on = 0;
    life_count(way, one, 0);
    map64_remove(&way->by_address, address);
}

/* Begins a life, where nothing lives any more then. */
static int life_begin(course *way, const life *wanted)
{
    life_end(way, wanted->address);
    size_t at = way->lives.count;
    if (at >= MAP64_ABSENT ||
        array_reserve(&way->lives, way->in->limits, sizeof(life), at + 1) != 0 ||
        map64_put(&way->by_address, wanted->address, (uint32_t)at) != 0)
        return -1;
    way->lives.count++;
    life *made = MODEL_AT(way->lives, life, at);
    *made = *wanted;
    made->begin_ns = way->now_ns;
    made->end_ns = 0;
    made->goes_on = 1;
    life_count(way, made, 1);
    return 0;
}

static int allocation_take(course *way, const record *event)
{
    life one = {.address = event->address,
                .bytes = event->bytes,
                .requested_bytes = event->requested_bytes,
                .pool = event->pool,
                .stream = event->stream,
                .stack = event->stack};
    return life_begin(way, &one);
}

/* A freed block waits. Whose it was is known from its allocation. */
static int retirement_take(course *way, const record *event)
{
    const life *before = life_at(way, event->address);
    if (before == NULL)
        return 0;
    life one = *before;
    one.bytes = event->bytes;
    one.is_waiting = 1;
    one.is_early = 0;
    return life_begin(way, &one);
}

/* A growth of which the record says nothing before it is of a block that begins with it. */
static int growth_take(course *way, const record *event)
{
    life *one = life_at(way, event->address);
    if (one == NULL)
        return allocation_take(way, event);
    life_count(way, one, 0);
    one->bytes = event->bytes;
    one->requested_bytes = event->requested_bytes;
    life_count(way, one, 1);
    return 0;
}

/* ---- the course ----------------------------------------------------------------------------- */

static int early_take(course *way)
{
    for (size_t i = 0; i < way->history.early.count; i++) {
        const early_block *from = MODEL_AT(way->history.early, early_block, i);
        life one = {.address = from->address,
                    .bytes = from->bytes,
                    .requested_bytes = from->requested_bytes,
                    .pool = from->pool,
                    .stream = from->stream,
                    .stack = from->stack,
                    .is_waiting = from->retired,
                    .is_early = 1};
        if (life_begin(way, &one) != 0)
            return -1;
    }
    return 0;
}

/* Reserved memory is known at the end: taking all changes back leaves what there was before. */
static void reserved_start(course *way)
{
    const model *in = way->in;
    for (size_t i = 0; i < in->devices.count; i++)
        sums_of(way, i)->reserved = MODEL_AT(in->devices, device, i)->reserved_bytes;
    for (size_t i = 0; i < in->records.count; i++) {
        const record *event = MODEL_AT(in->records, record, i);
        if (!*MODEL_AT(way->history.contradicts, unsigned char, i))
            sums_of(way, course_record_device(in, event))->reserved -= reserved_change(event);
    }
}

int course_start(course *way, const model *snapshot)
{
    memset(way, 0, sizeof(*way));
    way->in = snapshot;
    map64_start(&way->by_address, snapshot->limits);
    size_t count = snapshot->devices.count + 1;
    if (rewind_run(snapshot, &way->history) != 0 ||
        array_reserve(&way->sums, snapshot->limits, sizeof(course_sums), count) != 0)
        return -1;
    memset(way->sums.items, 0, count * sizeof(course_sums));
    way->sums.count = count;
    for (size_t i = 0; i < snapshot->records.count && way->begin_ns == 0; i++) {
        int64_t time_ns = MODEL_AT(snapshot->records, record, i)->time_ns;
        way->begin_ns = time_ns > 0 ? time_ns : 0;
    }
    way->now_ns = way->begin_ns;
    reserved_start(way);
    return early_take(way);
}

int course_step(course *way, size_t at)
{
    const record *event = MODEL_AT(way->in->records, record, at);
    if (event->time_ns > way->now_ns)
        way->now_ns = event->time_ns;
    if (*MODEL_AT(way->history.contradicts, unsigned char, at))
        return 0;
    sums_of(way, course_record_device(way->in, event))->reserved += reserved_change(event);
    switch ((record_kind)event->kind) {
    case RECORD_ALLOC:
        return allocation_take(way, event);
    case RECORD_FREE:
    case RECORD_REUSE:
        life_end(way, event->address);
        return 0;
    case RECORD_RETIRE:
        return retirement_take(way, event);
    case RECORD_GROW:
        return growth_take(way, event);
    default:
        return 0;
    }
}

void course_release(course *way)
{
    budget *limits = way->in->limits;
    rewind_release(&way->history);
    map64_release(&way->by_address);
    array_release(&way->lives, limits, sizeof(life));
    array_release(&way->sums, limits, sizeof(course_sums));
}
