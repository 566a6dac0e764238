/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing traces: see encode_trace.h. Each block has a number of its own, counted up, so no name
 * comes twice. Records that contradict the picture (rewind.h) are left out. So the trace is a
 * possible course of events: no block is freed twice, and none is freed that was never there.
 */
#include "encode_trace.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/plural.h"
#include "rewind.h"

#define TRACE_BYTES_MAX (UINT64_C(1) << 60)

typedef struct live {
    uint64_t bytes;
    uint32_t name;
    int32_t stream;
} live;

typedef struct writer {
    const model *in;
    output *out;
    trace_counts *counts;
    rewind_result history;
    map64 by_address; /* address -> index in `blocks` */
    array blocks;     /* live */
    uint64_t live_bytes;
    int64_t zero_ns, time_ns; /* of the first record, and of the latest that has one */
    uint64_t odd_sizes, grown;
    unsigned char *streams_seen;
    uint64_t *stream_names; /* what the trace calls each stream */
} writer;

/* What the trace calls a stream: its handle, unless another of the device had the same one. */
static uint64_t stream_name(const model *in, int32_t index)
{
    const stream *one = MODEL_AT(in->streams, stream, index);
    for (int32_t i = 0; i < index; i++) {
        const stream *other = MODEL_AT(in->streams, stream, i);
        if (other->device == one->device && other->handle == one->handle)
            return (UINT64_C(1) << 62) + (uint64_t)index;
    }
    return one->handle;
}

static void line(writer *to, const char *op, const live *one)
{
    int64_t us = to->time_ns > to->zero_ns ? (to->time_ns - to->zero_ns) / 1000 : 0;
    output_text(to->out, op);
    output_unsigned(to->out, one->name);
    output_bytes(to->out, ",", 1);
    output_unsigned(to->out, one->bytes);
    output_bytes(to->out, ",", 1);
    output_unsigned(to->out, one->stream < 0 ? 0 : to->stream_names[one->stream]);
    output_bytes(to->out, ",", 1);
    output_signed(to->out, us);
    output_bytes(to->out, "\n", 1);
}

static int block_take(writer *to, uint64_t address, uint64_t bytes, int32_t stream_index)
{
    if (bytes == 0 || bytes > TRACE_BYTES_MAX) {
        to->odd_sizes++;
        return 0;
    }
    size_t at = to->blocks.count;
    if (array_reserve(&to->blocks, to->in->limits, sizeof(live), at + 1) != 0 ||
        map64_put(&to->by_address, address, (uint32_t)at) != 0)
        return -1;
    to->blocks.count++;
    live *one = MODEL_AT(to->blocks, live, at);
    *one = (live){bytes, (uint32_t)at + 1, stream_index};
    if (stream_index >= 0 && !to->streams_seen[stream_index]) {
        to->streams_seen[stream_index] = 1;
        to->counts->streams++;
    }
    to->counts->allocations++;
    to->live_bytes += bytes;
    if (to->live_bytes > to->counts->peak_live_bytes)
        to->counts->peak_live_bytes = to->live_bytes;
    line(to, "a,", one);
    return 0;
}

/* `freed`: the program's free; `over`: nothing uses it any more. */
static void block_drop(writer *to, uint64_t address, int freed, int over)
{
    uint32_t at = map64_get(&to->by_address, address);
    if (at == MAP64_ABSENT)
        return;
    const live *one = MODEL_AT(to->blocks, live, at);
    if (freed) {
        line(to, "F,", one);
        to->live_bytes -= one->bytes;
        to->counts->frees++;
    }
    if (over) {
        line(to, "f,", one);
        map64_remove(&to->by_address, address);
    }
}

static int record_write(writer *to, const record *event)
{
    if (event->time_ns >= 0)
        to->time_ns = event->time_ns;
    switch ((record_kind)event->kind) {
    case RECORD_ALLOC:
        return block_take(to, event->address, event->requested_bytes, event->stream);
    case RECORD_FREE:
        block_drop(to, event->address, 1, 1);
        return 0;
    case RECORD_RETIRE:
        block_drop(to, event->address, 1, 0);
        return 0;
    case RECORD_REUSE:
        block_drop(to, event->address, 0, 1);
        return 0;
    case RECORD_GROW:
        /* A trace has no growable blocks: one is freed and a larger one taken. */
        to->grown++;
        block_drop(to, event->address, 1, 1);
        return block_take(to, event->address, event->bytes, event->stream);
    default:
        return 0;
    }
}

static int is_of_device(const model *in, int32_t pool_index, size_t device_at)
{
    uint64_t wanted = MODEL_AT(in->devices, device, device_at)->index;
    return pool_index >= 0 && MODEL_AT(in->pools, pool, pool_index)->device == wanted;
}

static void head_write(writer *to, const device *one)
{
    char text[320];
    snprintf(text, sizeof(text),
             "# From a snapshot of %.60s; device %" PRIu64 ".\n"
             "# Its allocator had %" PRIu64 " bytes reserved at the end and %" PRIu64
             " at its peak, as far as is known.\n# op,id,bytes,stream,us\n",
             to->in->writer_name[0] ? to->in->writer_name : "unknown origin", one->index,
             one->reserved_bytes, one->reserved_peak_bytes);
    output_text(to->out, text);
}

static int course_write(writer *to, size_t device_at)
{
    const model *in = to->in;
    for (size_t i = 0; i < to->history.early.count; i++) {
        const early_block *one = MODEL_AT(to->history.early, early_block, i);
        if (!is_of_device(in, one->pool, device_at))
            continue;
        if (block_take(to, one->address, one->requested_bytes, one->stream) != 0)
            return -1;
        if (one->retired)
            block_drop(to, one->address, 1, 0);
        to->counts->early++;
    }
    for (size_t i = 0; i < in->records.count; i++) {
        const record *event = MODEL_AT(in->records, record, i);
        if (event->device != device_at || *MODEL_AT(to->history.contradicts, unsigned char, i))
            continue;
        if (record_write(to, event) != 0)
            return -1;
    }
    return 0;
}

static void zero_find(writer *to, size_t device_at)
{
    to->zero_ns = to->time_ns = 0;
    for (size_t i = 0; i < to->in->records.count; i++) {
        const record *event = MODEL_AT(to->in->records, record, i);
        if (event->device == device_at && event->time_ns >= 0) {
            to->zero_ns = to->time_ns = event->time_ns;
            return;
        }
    }
}

int encode_trace(const model *snapshot, size_t device_at, output *out, trace_counts *counts,
                 losses *lost)
{
    store place;
    writer to = {.in = snapshot, .out = out, .counts = counts};
    memset(counts, 0, sizeof(*counts));
    store_start(&place, snapshot->limits);
    map64_start(&to.by_address, snapshot->limits);
    int code = rewind_run(snapshot, &to.history);
    to.streams_seen = store_take(&place, snapshot->streams.count + 1);
    to.stream_names = store_take(&place, (snapshot->streams.count + 1) * sizeof(uint64_t));
    if (code == 0 && to.streams_seen && to.stream_names) {
        for (size_t i = 0; i < snapshot->streams.count; i++)
            to.stream_names[i] = stream_name(snapshot, (int32_t)i);
        zero_find(&to, device_at);
        head_write(&to, MODEL_AT(snapshot->devices, device, device_at));
        code = course_write(&to, device_at);
    } else {
        code = -1;
    }
    counts->live_at_end = counts->allocations - counts->frees;
    if (to.history.contradictions_count > 0)
        losses_add(lost, "%zu record%s left out, not fitting what is there at the end",
                   to.history.contradictions_count, tnri_plural(to.history.contradictions_count));
    if (to.odd_sizes > 0)
        losses_add(lost, "%" PRIu64 " allocation%s of 0 bytes or more than 2^60", to.odd_sizes,
                   tnri_plural(to.odd_sizes));
    if (to.grown > 0)
        losses_add(lost, "%" PRIu64 " time%s a growable block grew: freed and taken again there",
                   to.grown, tnri_plural(to.grown));
    rewind_release(&to.history);
    map64_release(&to.by_address);
    array_release(&to.blocks, snapshot->limits, sizeof(live));
    store_release(&place);
    return code;
}
