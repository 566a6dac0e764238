/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A picture as the pickle that PyTorch's memory viewer and tools read: the dict that
 * torch.cuda.memory._snapshot() gives.
 *
 * Equal things are written once and referred to by their number in the memo: the words that are
 * keys, the frames, the stacks, the texts of tnr_mark. So a record takes some eighty bytes.
 *
 * What PyTorch has no word for stands under the key "tenure", which its tools ignore.
 */
#include <stdio.h>
#include <string.h>

#include "base/conf/conf.h"
#include "base/host_memory.h"
#include "log/texts.h"
#include "memory/arena/note.h"
#include "see/snapshot/formats.h"
#include "see/snapshot/pickle_write.h"

/* Words that come again and again, with their numbers in the memo. */
#define WORD_LIST(X)                                                                               \
    X(action)                                                                                      \
    X(active_allocated)                                                                            \
    X(active_pending_free)                                                                         \
    X(active_size)                                                                                 \
    X(addr)                                                                                        \
    X(address)                                                                                     \
    X(alloc)                                                                                       \
    X(allocated_size)                                                                              \
    X(blocks)                                                                                      \
    X(compile_context)                                                                             \
    X(device)                                                                                      \
    X(device_free)                                                                                 \
    X(filename)                                                                                    \
    X(frames)                                                                                      \
    X(free_completed)                                                                              \
    X(free_requested)                                                                              \
    X(graph)                                                                                       \
    X(inactive)                                                                                    \
    X(is_expandable)                                                                               \
    X(kind)                                                                                        \
    X(large)                                                                                       \
    X(line)                                                                                        \
    X(mark_number)                                                                                 \
    X(name)                                                                                        \
    X(oom)                                                                                         \
    X(requested_size)                                                                              \
    X(segment_map)                                                                                 \
    X(segment_pool_id)                                                                             \
    X(segment_type)                                                                                \
    X(segment_unmap)                                                                               \
    X(since_us)                                                                                    \
    X(size)                                                                                        \
    X(small)                                                                                       \
    X(snapshot)                                                                                    \
    X(state)                                                                                       \
    X(stream)                                                                                      \
    X(tag)                                                                                         \
    X(time_us)                                                                                     \
    X(total_size)                                                                                  \
    X(user_metadata)                                                                               \
    X(waits)

enum {
#define WORD_NUMBER(word) WORD_##word,
    WORD_LIST(WORD_NUMBER)
#undef WORD_NUMBER
        WORD_COUNT
};

static const char *const words[] = {
#define WORD_TEXT(word) #word,
    WORD_LIST(WORD_TEXT)
#undef WORD_TEXT
};

typedef struct pickler {
    tnri_pickle out;
    const tnri_picture *picture;
    /* In the memo: words from 0, then texts, frames, stacks. */
    uint32_t text_first, frame_first, stack_first, memo_count;
    uint8_t *is_known; /* by number in the memo */
} pickler;

/* ---- what comes again ----------------------------------------------------------------------- */

static void sink_put(void *sink, const char *bytes, size_t count)
{
    tnri_sink_bytes(sink, bytes, count);
}

/* Puts what has this number in the memo, if it was put before: 1. */
static int memo_get(pickler *to, uint32_t number)
{
    if (to->is_known[number])
        tnri_pickle_again(&to->out, number);
    return to->is_known[number];
}

/* What was put last gets this number. */
static void memo_set(pickler *to, uint32_t number)
{
    tnri_pickle_memo(&to->out, number);
    to->is_known[number] = 1;
}

static void word_put(pickler *to, unsigned word)
{
    if (memo_get(to, word))
        return;
    tnri_pickle_text(&to->out, words[word]);
    memo_set(to, word);
}

static void pair_put(pickler *to, unsigned word, int64_t number)
{
    word_put(to, word);
    tnri_pickle_int(&to->out, number);
}

static void words_put(pickler *to, unsigned key, unsigned value)
{
    word_put(to, key);
    word_put(to, value);
}

/* ---- frames --------------------------------------------------------------------------------- */

static void frame_put(pickler *to, size_t index)
{
    if (memo_get(to, to->frame_first + (uint32_t)index))
        return;
    const tnri_frame *frame = &to->picture->symbols.frames[index];
    char name[64];
    snprintf(name, sizeof(name), "0x%llx", (unsigned long long)frame->offset);
    tnri_pickle_dict(&to->out);
    word_put(to, WORD_filename);
    tnri_pickle_text(&to->out, frame->file[0] == '\0' ? frame->module : frame->file);
    pair_put(to, WORD_line, frame->line);
    word_put(to, WORD_name);
    tnri_pickle_text(&to->out, frame->function[0] == '\0' ? name : frame->function);
    tnri_pickle_dict_end(&to->out);
    memo_set(to, to->frame_first + (uint32_t)index);
}

static void frames_put(pickler *to, uint32_t stack)
{
    const tnri_symbols *symbols = &to->picture->symbols;
    if (stack > symbols->stacks_count)
        stack = 0;
    word_put(to, WORD_frames);
    if (memo_get(to, to->stack_first + stack))
        return;
    size_t count;
    const uintptr_t *addresses = tnri_symbols_stack(symbols, stack, &count);
    tnri_pickle_list(&to->out);
    for (size_t i = 0; i < count; i++) {
        tnri_pickle_item(&to->out);
        frame_put(to, tnri_symbols_find(symbols, addresses[i]));
    }
    tnri_pickle_list_end(&to->out);
    memo_set(to, to->stack_first + stack);
}

/* ---- segments ------------------------------------------------------------------------------- */

static int64_t time_us(const pickler *to, uint64_t ns)
{
    return (int64_t)(to->picture->scale.zero_epoch_us + ns / 1000);
}

/* What belongs to no stream, as memory of graph pools does, is on none that a program can have: 0
 * is the default stream's. */
enum { NO_STREAM = -1 };

static int64_t stream_handle(const pickler *to, int64_t stream)
{
    if (stream < 0 || to->picture->streams[stream].is_graph)
        return NO_STREAM;
    return (int64_t)(uintptr_t)to->picture->streams[stream].handle;
}

static void block_put(pickler *to, const tnri_shown_block *block)
{
    static const unsigned states[TNRI_SHOWN_COUNT] = {
        WORD_active_allocated, WORD_active_pending_free,
        WORD_inactive,         WORD_inactive,
        WORD_inactive,         WORD_inactive};
    tnri_pickle_dict(&to->out);
    pair_put(to, WORD_address, (int64_t)block->address);
    pair_put(to, WORD_size, (int64_t)block->bytes);
    pair_put(to, WORD_requested_size, (int64_t)block->requested);
    words_put(to, WORD_state, states[block->shown]);
    frames_put(to, block->stack);
    tnri_pickle_dict_end(&to->out);
}

static void segment_sums_put(pickler *to, const tnri_shown_segment *segment)
{
    uint64_t allocated = 0;
    uint64_t active = 0;
    uint64_t requested = 0;
    for (size_t i = 0; i < segment->blocks_count; i++) {
        const tnri_shown_block *block = &to->picture->blocks[segment->block_first + i];
        if (block->shown == TNRI_SHOWN_LIVE)
            allocated += block->bytes;
        if (block->shown == TNRI_SHOWN_LIVE || block->shown == TNRI_SHOWN_RETIRED) {
            active += block->bytes;
            requested += block->requested;
        }
    }
    pair_put(to, WORD_total_size, (int64_t)segment->bytes);
    pair_put(to, WORD_allocated_size, (int64_t)allocated);
    pair_put(to, WORD_active_size, (int64_t)active);
    pair_put(to, WORD_requested_size, (int64_t)requested);
}

static void segment_put(pickler *to, const tnri_shown_segment *segment)
{
    const tnri_shown_pool *pool = &to->picture->pools[segment->pool];
    tnri_pickle_dict(&to->out);
    pair_put(to, WORD_device, pool->device);
    pair_put(to, WORD_address, (int64_t)segment->address);
    segment_sums_put(to, segment);
    pair_put(to, WORD_stream, stream_handle(to, (int64_t)segment->stream));
    words_put(to, WORD_segment_type, segment->is_small ? WORD_small : WORD_large);
    word_put(to, WORD_segment_pool_id);
    tnri_pickle_int(&to->out, 0);
    tnri_pickle_int(&to->out, pool->number);
    tnri_pickle_pair(&to->out);
    word_put(to, WORD_is_expandable);
    tnri_pickle_boolean(&to->out, !pool->is_foreign); /* whether chunks come and go in it */
    if (pool->tag != NULL) {
        word_put(to, WORD_tag);
        tnri_pickle_text(&to->out, pool->tag->name);
    }
    frames_put(to, 0);
    word_put(to, WORD_blocks);
    tnri_pickle_list(&to->out);
    for (size_t i = 0; i < segment->blocks_count; i++) {
        tnri_pickle_item(&to->out);
        block_put(to, &to->picture->blocks[segment->block_first + i]);
    }
    tnri_pickle_list_end(&to->out);
    tnri_pickle_dict_end(&to->out);
}

static void segments_put(pickler *to)
{
    tnri_pickle_text(&to->out, "segments");
    tnri_pickle_list(&to->out);
    for (size_t i = 0; i < to->picture->segments_count; i++) {
        tnri_pickle_item(&to->out);
        segment_put(to, &to->picture->segments[i]);
    }
    tnri_pickle_list_end(&to->out);
}

/* ---- traces --------------------------------------------------------------------------------- */

static void entry_put(pickler *to, const tnri_recorded *record, unsigned action, uint64_t size)
{
    const tnri_shown_origin *origin = &to->picture->origins[record->origin];
    tnri_pickle_item(&to->out);
    tnri_pickle_dict(&to->out);
    words_put(to, WORD_action, action);
    pair_put(to, action == WORD_oom ? WORD_device_free : WORD_addr,
             (int64_t)(action == WORD_oom ? record->value : record->address));
    pair_put(to, WORD_size, (int64_t)size);
    /* The viewer joins what comes back with memory of the same stream that is there. */
    int is_memory = action == WORD_segment_map || action == WORD_segment_unmap;
    pair_put(to, WORD_stream,
             stream_handle(to, is_memory ? origin->stream_latest : origin->stream));
    pair_put(to, WORD_time_us, time_us(to, tnri_ticks_ns(&to->picture->scale, record->ticks)));
    word_put(to, WORD_compile_context);
    if (!memo_get(to, to->text_first)) { /* text 0 is the empty one; its place is this one's */
        tnri_pickle_text(&to->out, "N/A");
        memo_set(to, to->text_first);
    }
    if (record->mark != 0) {
        word_put(to, WORD_user_metadata);
        if (!memo_get(to, to->text_first + record->mark)) {
            tnri_pickle_text(&to->out, tnri_text_of(record->mark));
            memo_set(to, to->text_first + record->mark);
        }
    }
    if (record->stack != 0)
        frames_put(to, record->stack);
    tnri_pickle_dict_end(&to->out);
}

/* The moment of the picture, where the history does not tell of it. PyTorch's viewer up to 2.6
 * needs an entry that is not on the default stream: if all are, it takes the stream from them, and
 * not from the segments, and joins no memory that goes with what is there. Later ones need any
 * entry where there is no memory at all. */
static void moment_put(pickler *to)
{
    const tnri_recorded moment = {.kind = TNRI_NOTED_SNAPSHOT, .ticks = to->picture->cut.ticks};
    entry_put(to, &moment, WORD_snapshot, 0);
}

static void record_put(pickler *to, const tnri_recorded *record, uint8_t entries, uint64_t before)
{
    uint64_t freed = record->kind == TNRI_NOTED_GROW ? before : record->requested;
    if ((entries & TNRI_TRACE_FREE_REQUESTED) != 0)
        entry_put(to, record, WORD_free_requested, freed);
    if ((entries & TNRI_TRACE_FREE_COMPLETED) != 0)
        entry_put(to, record, WORD_free_completed, freed);
    if ((entries & TNRI_TRACE_ALLOC) != 0)
        entry_put(to, record, WORD_alloc, record->requested);
    if ((entries & TNRI_TRACE_SEGMENT_MAP) != 0)
        entry_put(to, record, WORD_segment_map, record->bytes);
    if ((entries & TNRI_TRACE_SEGMENT_UNMAP) != 0)
        entry_put(to, record, WORD_segment_unmap, record->bytes);
    if ((entries & TNRI_TRACE_OTHER) != 0)
        entry_put(to, record, record->kind == TNRI_NOTED_OOM ? WORD_oom : WORD_snapshot,
                  record->bytes);
}

/* The device of a record; that of records of none is the first. */
static int record_device(const pickler *to, const tnri_recorded *record)
{
    int32_t pool = to->picture->origins[record->origin].pool;
    return pool < 0 ? 0 : to->picture->pools[pool].device;
}

static void traces_put(pickler *to, const tnri_trace *trace)
{
    const tnri_picture *picture = to->picture;
    int has_moment = 0;
    int devices = 1;
    for (size_t i = 0; i < picture->devices_count; i++)
        if (picture->devices[i].index >= devices)
            devices = picture->devices[i].index + 1;
    tnri_pickle_text(&to->out, "device_traces");
    tnri_pickle_list(&to->out);
    for (int device = 0; device < devices; device++) {
        tnri_pickle_item(&to->out);
        tnri_pickle_list(&to->out);
        for (size_t i = 0; i < picture->order_count; i++) {
            const tnri_recorded *record = tnri_picture_record(picture, i);
            if (trace->entries[i] == 0 || record_device(to, record) != device)
                continue;
            record_put(to, record, trace->entries[i], trace->before[i]);
            has_moment |= record->kind == TNRI_NOTED_SNAPSHOT;
        }
        if (!has_moment) /* it is the first device's */
            moment_put(to);
        has_moment = 1;
        tnri_pickle_list_end(&to->out);
    }
    tnri_pickle_list_end(&to->out);
}

/* ---- the rest ------------------------------------------------------------------------------- */

static void named_put(pickler *to, const char *name, int64_t number)
{
    tnri_pickle_text(&to->out, name);
    tnri_pickle_int(&to->out, number);
}

/* Those in force, as `tenure conf` prints them. */
static void settings_put(pickler *to)
{
    tnr_setting_info info = {.struct_bytes = sizeof(info)};
    tnri_pickle_text(&to->out, "allocator_settings");
    tnri_pickle_dict(&to->out);
    for (size_t i = 0; tnri_conf_describe(&info, i) == TNR_OK; i++) {
        tnri_pickle_text(&to->out, info.key);
        tnri_pickle_text(&to->out, info.value);
    }
    tnri_pickle_dict_end(&to->out);
}

static void wait_put(pickler *to, const tnri_shown_wait *wait)
{
    static const char *const kinds[] = {"use", "free_sync", "export", "graph", "capture"};
    tnri_pickle_dict(&to->out);
    pair_put(to, WORD_address, (int64_t)to->picture->blocks[wait->block].address);
    word_put(to, WORD_kind);
    tnri_pickle_text(&to->out, kinds[wait->kind]);
    if (wait->stream >= 0)
        pair_put(to, WORD_stream, stream_handle(to, wait->stream));
    if (wait->mark_number >= 0)
        pair_put(to, WORD_mark_number, wait->mark_number);
    if (wait->since_ns >= 0)
        pair_put(to, WORD_since_us, time_us(to, (uint64_t)wait->since_ns));
    if (wait->graph >= 0)
        pair_put(to, WORD_graph, wait->graph);
    tnri_pickle_dict_end(&to->out);
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

static void streams_put(pickler *to)
{
    const tnri_picture *picture = to->picture;
    tnri_pickle_text(&to->out, "streams");
    tnri_pickle_list(&to->out);
    for (size_t i = 0; i < picture->streams_count; i++) {
        if (!stream_is_named(picture, i))
            continue;
        tnri_pickle_item(&to->out);
        tnri_pickle_dict(&to->out);
        pair_put(to, WORD_device, picture->streams[i].device);
        pair_put(to, WORD_stream, stream_handle(to, (int64_t)i));
        word_put(to, WORD_name);
        tnri_pickle_text(&to->out, tnri_text_of(picture->streams[i].name));
        tnri_pickle_dict_end(&to->out);
    }
    tnri_pickle_list_end(&to->out);
}

/* What PyTorch's tools ignore. */
static void tenure_put(pickler *to, size_t left_out)
{
    const tnri_picture *picture = to->picture;
    tnri_pickle_text(&to->out, "tenure");
    tnri_pickle_dict(&to->out);
    named_put(to, "version", 1);
    named_put(to, "taken_us", time_us(to, tnri_ticks_ns(&picture->scale, picture->cut.ticks)));
    named_put(to, "records_overwritten", (int64_t)picture->ring.overwritten);
    named_put(to, "records_missed", (int64_t)picture->ring.missed);
    named_put(to, "records_left_out", (int64_t)left_out);
    tnri_pickle_text(&to->out, "pools");
    tnri_pickle_list(&to->out);
    for (size_t i = 0; i < picture->pools_count; i++) {
        const tnri_shown_pool *pool = &picture->pools[i];
        tnri_pickle_item(&to->out);
        tnri_pickle_dict(&to->out);
        pair_put(to, WORD_device, pool->device);
        named_put(to, "number", pool->number);
        word_put(to, WORD_kind);
        tnri_pickle_text(&to->out, tnri_pool_kind_text(pool));
        word_put(to, WORD_name);
        tnri_pickle_text(&to->out, pool->name);
        named_put(to, "reserved_bytes", (int64_t)pool->reserved_bytes);
        named_put(to, "asleep_bytes", (int64_t)pool->asleep_bytes);
        tnri_pickle_dict_end(&to->out);
    }
    tnri_pickle_list_end(&to->out);
    streams_put(to);
    word_put(to, WORD_waits);
    tnri_pickle_list(&to->out);
    for (size_t i = 0; i < picture->waits_count; i++) {
        tnri_pickle_item(&to->out);
        wait_put(to, &picture->waits[i]);
    }
    tnri_pickle_list_end(&to->out);
    tnri_pickle_dict_end(&to->out);
}

int tnri_pickle_write(tnri_sink *sink, const tnri_picture *picture)
{
    tnri_trace trace;
    pickler to = {.picture = picture};
    to.text_first = WORD_COUNT;
    to.frame_first = to.text_first + tnri_texts_count() + 1;
    to.stack_first = to.frame_first + (uint32_t)picture->symbols.frames_count;
    to.memo_count = to.stack_first + (uint32_t)picture->symbols.stacks_count + 1;
    if (!tnri_trace_select(picture, &trace))
        return 0;
    to.is_known = tnri_host_reserve(to.memo_count);
    int has_room = to.is_known != NULL;
    if (has_room) {
        tnri_pickle_begin(&to.out, sink_put, sink);
        tnri_pickle_dict(&to.out);
        segments_put(&to);
        traces_put(&to, &trace);
        settings_put(&to);
        tnri_pickle_text(&to.out, "external_annotations");
        tnri_pickle_list(&to.out);
        tnri_pickle_list_end(&to.out);
        tenure_put(&to, trace.left_out);
        tnri_pickle_dict_end(&to.out);
        tnri_pickle_end(&to.out);
    }
    tnri_trace_free(&trace);
    tnri_host_unreserve(to.is_known, to.memo_count);
    return has_room;
}
