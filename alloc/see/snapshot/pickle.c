/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A picture as the pickle that PyTorch's memory viewer and tools read: the dict that
 * torch.cuda.memory._snapshot() gives.
 *
 * Equal things are written once and referred to by their number in the memo: the words that are
 * keys, the frames, the stacks, the texts of tnr_mark. So a record takes some eighty bytes.
 */
#include <stdio.h>
#include <string.h>

#include "base/conf/conf.h"
#include "base/host_memory.h"
#include "log/texts.h"
#include "memory/arena/note.h"
#include "see/snapshot/formats.h"
#include "see/snapshot/torch.h"

typedef struct pickler {
    tnri_torch to; /* the first: from it the pickler is found */
    const tnri_picture *picture;
    /* In the memo: texts from TNRI_TORCH_WORDS on, then frames, stacks. */
    uint32_t frame_first, stack_first, memo_end;
    uint8_t *is_known; /* by number in the memo */
} pickler;

/* ---- what comes again ----------------------------------------------------------------------- */

static void sink_put(void *sink, const char *bytes, size_t count)
{
    tnri_sink_bytes(sink, bytes, count);
}

/* Puts what has this number in the memo, if it was put before: 1. */
static int memo_get(pickler *self, uint32_t number)
{
    if (self->is_known[number])
        tnri_pickle_again(&self->to.out, number);
    return self->is_known[number];
}

/* What was put last gets this number. */
static void memo_set(pickler *self, uint32_t number)
{
    tnri_pickle_memo(&self->to.out, number);
    self->is_known[number] = 1;
}

static void mark_put(tnri_torch *to, uint32_t mark)
{
    pickler *self = (pickler *)to;
    if (memo_get(self, TNRI_TORCH_WORDS + mark))
        return;
    tnri_pickle_text(&to->out, tnri_text_of(mark));
    memo_set(self, TNRI_TORCH_WORDS + mark);
}

/* ---- frames --------------------------------------------------------------------------------- */

static void frame_put(pickler *self, size_t index)
{
    tnri_torch *to = &self->to;
    if (memo_get(self, self->frame_first + (uint32_t)index))
        return;
    const tnri_frame *frame = &self->picture->symbols.frames[index];
    char name[64];
    snprintf(name, sizeof(name), "0x%llx", (unsigned long long)frame->offset);
    tnri_pickle_dict(&to->out);
    tnri_torch_text(to, TNRI_TORCH_filename, frame->file[0] == '\0' ? frame->module : frame->file);
    tnri_torch_int(to, TNRI_TORCH_line, frame->line);
    tnri_torch_text(to, TNRI_TORCH_name, frame->function[0] == '\0' ? name : frame->function);
    tnri_pickle_dict_end(&to->out);
    memo_set(self, self->frame_first + (uint32_t)index);
}

static void stack_put(tnri_torch *to, uint32_t stack)
{
    pickler *self = (pickler *)to;
    const tnri_symbols *symbols = &self->picture->symbols;
    if (stack > symbols->stacks_count)
        stack = 0;
    if (memo_get(self, self->stack_first + stack))
        return;
    size_t count;
    const uintptr_t *addresses = tnri_symbols_stack(symbols, stack, &count);
    tnri_pickle_list(&to->out);
    for (size_t i = 0; i < count; i++) {
        tnri_pickle_item(&to->out);
        frame_put(self, tnri_symbols_find(symbols, addresses[i]));
    }
    tnri_pickle_list_end(&to->out);
    memo_set(self, self->stack_first + stack);
}

/* ---- segments ------------------------------------------------------------------------------- */

static int64_t time_us(const pickler *self, uint64_t ns)
{
    return (int64_t)(self->picture->scale.zero_epoch_us + ns / 1000);
}

static int64_t stream_handle(const pickler *self, int64_t stream)
{
    if (stream < 0 || self->picture->streams[stream].is_graph)
        return TNRI_TORCH_NO_STREAM;
    return (int64_t)(uintptr_t)self->picture->streams[stream].handle;
}

static void segment_put(pickler *self, const tnri_shown_segment *segment)
{
    static const tnri_torch_word states[TNRI_SHOWN_COUNT] = {
        TNRI_TORCH_active_allocated, TNRI_TORCH_active_pending_free,
        TNRI_TORCH_inactive,         TNRI_TORCH_inactive,
        TNRI_TORCH_inactive,         TNRI_TORCH_inactive};
    const tnri_shown_pool *pool = &self->picture->pools[segment->pool];
    const tnri_torch_segment shown = {.device = pool->device,
                                      .stream = stream_handle(self, (int64_t)segment->stream),
                                      .address = segment->address,
                                      .bytes = segment->bytes,
                                      .is_small = segment->is_small,
                                      .is_expandable =
                                          !pool->is_foreign, /* whether chunks come and go in it */
                                      .pool = {0, pool->number},
                                      .tag = pool->tag == NULL ? NULL : pool->tag->name};
    tnri_torch_segment_begin(&self->to, &shown);
    for (size_t i = 0; i < segment->blocks_count; i++) {
        const tnri_shown_block *one = &self->picture->blocks[segment->block_first + i];
        const tnri_torch_block block = {.address = one->address,
                                        .bytes = one->bytes,
                                        .requested = one->requested,
                                        .state = states[one->shown],
                                        .stack = one->stack};
        tnri_torch_block_put(&self->to, &block);
    }
    tnri_torch_segment_end(&self->to);
}

static void segments_put(pickler *self)
{
    tnri_torch_list(&self->to, TNRI_TORCH_segments);
    for (size_t i = 0; i < self->picture->segments_count; i++)
        segment_put(self, &self->picture->segments[i]);
    tnri_pickle_list_end(&self->to.out);
}

/* ---- traces --------------------------------------------------------------------------------- */

static void entry_put(pickler *self, const tnri_recorded *record, tnri_torch_word action,
                      uint64_t bytes)
{
    const tnri_shown_origin *origin = &self->picture->origins[record->origin];
    /* The viewer joins what comes back with memory of the same stream that is there. */
    int is_memory = action == TNRI_TORCH_segment_map || action == TNRI_TORCH_segment_unmap;
    const tnri_torch_entry entry = {
        .action = action,
        .address = action == TNRI_TORCH_oom ? record->value : record->address,
        .bytes = bytes,
        .stream = stream_handle(self, is_memory ? origin->stream_latest : origin->stream),
        .time_us = time_us(self, tnri_ticks_ns(&self->picture->scale, record->ticks)),
        .stack = record->stack == 0 ? -1 : (int64_t)record->stack,
        .mark = record->mark == 0 ? -1 : (int64_t)record->mark};
    tnri_torch_entry_put(&self->to, &entry);
}

/* The moment of the picture, where the history does not tell of it. PyTorch's viewer up to 2.6
 * needs an entry that is not on the default stream: if all are, it takes the stream from them, and
 * not from the segments, and joins no memory that goes with what is there. Later ones need any
 * entry where there is no memory at all. */
static void moment_put(pickler *self)
{
    const tnri_recorded moment = {.kind = TNRI_NOTED_SNAPSHOT, .ticks = self->picture->cut.ticks};
    entry_put(self, &moment, TNRI_TORCH_snapshot, 0);
}

static void record_put(pickler *self, const tnri_recorded *record, uint8_t entries, uint64_t before)
{
    uint64_t freed = record->kind == TNRI_NOTED_GROW ? before : record->requested;
    if ((entries & TNRI_TRACE_FREE_REQUESTED) != 0)
        entry_put(self, record, TNRI_TORCH_free_requested, freed);
    if ((entries & TNRI_TRACE_FREE_COMPLETED) != 0)
        entry_put(self, record, TNRI_TORCH_free_completed, freed);
    if ((entries & TNRI_TRACE_ALLOC) != 0)
        entry_put(self, record, TNRI_TORCH_alloc, record->requested);
    if ((entries & TNRI_TRACE_SEGMENT_MAP) != 0)
        entry_put(self, record, TNRI_TORCH_segment_map, record->bytes);
    if ((entries & TNRI_TRACE_SEGMENT_UNMAP) != 0)
        entry_put(self, record, TNRI_TORCH_segment_unmap, record->bytes);
    if ((entries & TNRI_TRACE_OTHER) != 0)
        entry_put(self, record,
                  record->kind == TNRI_NOTED_OOM ? TNRI_TORCH_oom : TNRI_TORCH_snapshot,
                  record->bytes);
}

/* The device of a record; that of records of none is the first. */
static int record_device(const pickler *self, const tnri_recorded *record)
{
    int32_t pool = self->picture->origins[record->origin].pool;
    return pool < 0 ? 0 : self->picture->pools[pool].device;
}

static void traces_put(pickler *self, const tnri_trace *trace)
{
    const tnri_picture *picture = self->picture;
    int has_moment = 0;
    int devices = 1;
    for (size_t i = 0; i < picture->devices_count; i++)
        if (picture->devices[i].index >= devices)
            devices = picture->devices[i].index + 1;
    tnri_torch_list(&self->to, TNRI_TORCH_device_traces);
    for (int device = 0; device < devices; device++) {
        tnri_pickle_item(&self->to.out);
        tnri_pickle_list(&self->to.out);
        for (size_t i = 0; i < picture->order_count; i++) {
            const tnri_recorded *record = tnri_picture_record(picture, i);
            if (trace->entries[i] == 0 || record_device(self, record) != device)
                continue;
            record_put(self, record, trace->entries[i], trace->before[i]);
            has_moment |= record->kind == TNRI_NOTED_SNAPSHOT;
        }
        if (!has_moment) /* it is the first device's */
            moment_put(self);
        has_moment = 1;
        tnri_pickle_list_end(&self->to.out);
    }
    tnri_pickle_list_end(&self->to.out);
}

/* ---- the rest ------------------------------------------------------------------------------- */

/* Those in force, as `tenure conf` prints them. */
static void settings_put(tnri_torch *to)
{
    tnr_setting_info info = {.struct_bytes = sizeof(info)};
    tnri_torch_word_put(to, TNRI_TORCH_allocator_settings);
    tnri_pickle_dict(&to->out);
    for (size_t i = 0; tnri_conf_describe(&info, i) == TNR_OK; i++) {
        tnri_pickle_text(&to->out, info.key);
        tnri_pickle_text(&to->out, info.value);
    }
    tnri_pickle_dict_end(&to->out);
}

static void wait_put(pickler *self, const tnri_shown_wait *shown)
{
    static const char *const kinds[] = {"use", "free_sync", "export", "graph", "capture"};
    const tnri_torch_wait wait = {
        .address = self->picture->blocks[shown->block].address,
        .kind = kinds[shown->kind],
        .has_stream = shown->stream >= 0,
        .stream = stream_handle(self, shown->stream),
        .mark_number = shown->mark_number,
        .since_us = shown->since_ns < 0 ? -1 : time_us(self, (uint64_t)shown->since_ns),
        .graph = shown->graph};
    tnri_torch_wait_put(&self->to, &wait);
}

/* 1 if the name is all that the file says of that handle: of several streams that had it, one that
 * lives goes before others, and a later one before those before it. */
static int stream_is_named(const tnri_picture *picture, size_t index)
{
    const tnri_shown_stream *wanted = &picture->streams[index];
    if (wanted->name == 0)
        return 0;
    for (size_t i = 0; i < picture->streams_count; i++) {
        const tnri_shown_stream *other = &picture->streams[i];
        if (i != index && other->device == wanted->device && other->handle == wanted->handle &&
            !other->is_graph &&
            (!other->is_ended || (wanted->is_ended && other->number > wanted->number)))
            return 0;
    }
    return 1;
}

/* What PyTorch's tools ignore. */
static void tenure_put(pickler *self, size_t left_out)
{
    tnri_torch *to = &self->to;
    const tnri_picture *picture = self->picture;
    uint64_t taken_ns = tnri_ticks_ns(&picture->scale, picture->cut.ticks);
    tnri_torch_word_put(to, TNRI_TORCH_tenure);
    tnri_pickle_dict(&to->out);
    tnri_torch_int(to, TNRI_TORCH_version, 1);
    tnri_torch_int(to, TNRI_TORCH_taken_us, time_us(self, taken_ns));
    tnri_torch_int(to, TNRI_TORCH_records_overwritten, (int64_t)picture->ring.overwritten);
    tnri_torch_int(to, TNRI_TORCH_records_missed, (int64_t)picture->ring.missed);
    tnri_torch_int(to, TNRI_TORCH_records_left_out, (int64_t)left_out);
    tnri_torch_list(to, TNRI_TORCH_pools);
    for (size_t i = 0; i < picture->pools_count; i++) {
        const tnri_shown_pool *one = &picture->pools[i];
        tnri_torch_pool_put(to, tnri_pool_kind_text(one), one->name,
                            (const uint64_t[]){(uint64_t)one->device, (uint64_t)one->number,
                                               one->reserved_bytes, one->asleep_bytes});
    }
    tnri_pickle_list_end(&to->out);
    tnri_torch_list(to, TNRI_TORCH_streams);
    for (size_t i = 0; i < picture->streams_count; i++)
        if (stream_is_named(picture, i))
            tnri_torch_stream_put(to, picture->streams[i].device, stream_handle(self, (int64_t)i),
                                  tnri_text_of(picture->streams[i].name));
    tnri_pickle_list_end(&to->out);
    tnri_torch_list(to, TNRI_TORCH_waits);
    for (size_t i = 0; i < picture->waits_count; i++)
        wait_put(self, &picture->waits[i]);
    tnri_pickle_list_end(&to->out);
    tnri_pickle_dict_end(&to->out);
}

int tnri_pickle_write(tnri_sink *sink, const tnri_picture *picture)
{
    tnri_trace trace;
    pickler self = {.to = {.stack = stack_put, .mark = mark_put}, .picture = picture};
    tnri_torch *to = &self.to;
    self.frame_first = TNRI_TORCH_WORDS + tnri_texts_count() + 1;
    self.stack_first = self.frame_first + (uint32_t)picture->symbols.frames_count;
    self.memo_end = self.stack_first + (uint32_t)picture->symbols.stacks_count + 1;
    if (!tnri_trace_select(picture, &trace))
        return 0;
    self.is_known = tnri_host_reserve(self.memo_end);
    int has_room = self.is_known != NULL;
    if (has_room) {
        tnri_pickle_begin(&to->out, sink_put, sink);
        tnri_pickle_dict(&to->out);
        segments_put(&self);
        traces_put(&self, &trace);
        settings_put(to);
        tnri_torch_list(to, TNRI_TORCH_external_annotations);
        tnri_pickle_list_end(&to->out);
        tenure_put(&self, trace.left_out);
        tnri_pickle_dict_end(&to->out);
        tnri_pickle_end(&to->out);
    }
    tnri_trace_free(&trace);
    tnri_host_unreserve(self.is_known, self.memo_end);
    return has_room;
}
