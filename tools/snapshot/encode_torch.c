/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the model to PyTorch's dictionary, as a pickle.
 *
 * PyTorch's viewer starts from the segments, replays the traces backwards, and stops at the first
 * entry that does not fit. So records that contradict the picture (rewind.c) are left out, and the
 * user is told. The viewer's blocks have three states: a block that is neither live nor retired is
 * inactive. Its streams are handles: two streams that had the same handle one after the other
 * become one. It joins neighbouring memory of the same stream. So each entry has the stream that
 * the memory has later. If a record's memory became two streams', there is an entry for each.
 *
 * The dictionary itself is described in alloc/see/snapshot/torch.h, and the library's own pickles
 * have the same.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/plural.h"
#include "encode.h"
#include "rewind.h"
#include "see/snapshot/torch.h"
#include "torch.h"

#define MEMO_NONE UINT32_MAX

typedef struct writer {
    tnri_torch to; /* the first: from it the writer is found */
    uint32_t memo_count;
    const model *in;
    losses *lost;
    rewind_result history;
    array stack_memos, frame_memos, string_memos; /* uint32_t */
    uint64_t left_out[RECORD_KINDS_COUNT];        /* records without an equivalent */
    uint64_t modules_lost;
    map64 grown;  /* address -> the latest growth there, as the number of its record */
    int is_short; /* 1: it has no memory */
} writer;

/* ---- things that come again ----------------------------------------------------------------- */

static void out_put(void *out, const char *bytes, size_t count)
{
    output_bytes(out, bytes, count);
}

/* What was written last gets the next number in the memo. */
static void memo_set(writer *self, uint32_t *memo)
{
    *memo = self->memo_count++;
    tnri_pickle_memo(&self->to.out, *memo);
}

static void string_write(writer *self, uint32_t index)
{
    uint32_t *memo = MODEL_AT(self->string_memos, uint32_t, index);
    if (*memo != MEMO_NONE) {
        tnri_pickle_again(&self->to.out, *memo);
        return;
    }
    tnri_pickle_text(&self->to.out, model_string(self->in, index));
    memo_set(self, memo);
}

static void mark_write(tnri_torch *to, uint32_t mark)
{
    string_write((writer *)to, mark);
}

static void frame_write(writer *self, uint32_t index)
{
    tnri_torch *to = &self->to;
    const frame *one = MODEL_AT(self->in->frames, frame, index);
    uint32_t *memo = MODEL_AT(self->frame_memos, uint32_t, index);
    char place_text[32];
    if (*memo != MEMO_NONE) {
        tnri_pickle_again(&to->out, *memo);
        return;
    }
    tnri_pickle_dict(&to->out);
    tnri_torch_word_put(to, TNRI_TORCH_filename);
    /* Without symbols, the module and the place in it are what can be looked up later. */
    string_write(self, one->file != 0 ? one->file : one->module);
    tnri_torch_int(to, TNRI_TORCH_line, one->line);
    tnri_torch_word_put(to, TNRI_TORCH_name);
    snprintf(place_text, sizeof(place_text), "0x%" PRIx64, one->offset);
    if (one->function != 0)
        string_write(self, one->function);
    else
        tnri_pickle_text(&to->out, place_text);
    tnri_pickle_dict_end(&to->out);
    memo_set(self, memo);
    self->modules_lost += one->module != 0;
}

static void stack_write(tnri_torch *to, uint32_t index)
{
    writer *self = (writer *)to;
    const stack *one = MODEL_AT(self->in->stacks, stack, index);
    uint32_t *memo = MODEL_AT(self->stack_memos, uint32_t, index);
    if (*memo != MEMO_NONE) {
        tnri_pickle_again(&to->out, *memo);
        return;
    }
    tnri_pickle_list(&to->out);
    for (uint32_t i = 0; i < one->count; i++) {
        tnri_pickle_item(&to->out);
        frame_write(self, *MODEL_AT(self->in->stack_frames, uint32_t, one->first + i));
    }
    tnri_pickle_list_end(&to->out);
    memo_set(self, memo);
}

/* The number of a pool in PyTorch's format: two of them. */
static void pool_id(const writer *self, int32_t index, int64_t id[2])
{
    id[0] = id[1] = 0;
    if (index < 0)
        return;
    const pool *one = MODEL_AT(self->in->pools, pool, index);
    int is_given = one->torch_id[0] >= 0 && one->torch_id[1] >= 0;
    id[0] = is_given ? one->torch_id[0] : 0;
    id[1] = is_given ? one->torch_id[1] : (int64_t)one->number;
}

/* The stream's number. What belongs to none, as memory of graph pools does, is on none that a
 * program can have; PyTorch itself says 0 of such a record. */
static int64_t handle_of(const writer *self, int32_t index)
{
    if (index < 0)
        return self->in->origin == ORIGIN_TENURE ? TNRI_TORCH_NO_STREAM : 0;
    return (int64_t)torch_stream_number(MODEL_AT(self->in->streams, stream, index));
}

/* ---- segments ------------------------------------------------------------------------------- */

static tnri_torch_word state_word(block_state state)
{
    return state == STATE_LIVE      ? TNRI_TORCH_active_allocated
           : state == STATE_RETIRED ? TNRI_TORCH_active_pending_free
                                    : TNRI_TORCH_inactive;
}

static void segment_write(writer *self, const segment *one, uint64_t device_index)
{
    const model *in = self->in;
    tnri_torch_segment shown = {.device = (int64_t)device_index,
                                .stream = handle_of(self, one->stream),
                                .address = one->address,
                                .bytes = one->bytes,
                                .is_small = one->small,
                                .is_expandable = in->origin == ORIGIN_TENURE || one->expandable,
                                .tag = MODEL_AT(in->pools, pool, one->pool)->tag,
                                .stack = one->stack};
    pool_id(self, one->pool, shown.pool);
    tnri_torch_segment_begin(&self->to, &shown);
    for (size_t i = 0; i < one->blocks_count; i++) {
        const block *part = MODEL_AT(in->blocks, block, one->first_block + i);
        tnri_torch_word state = state_word(part->state);
        const tnri_torch_block written = {
            .address = part->address,
            .bytes = part->bytes,
            .requested = state == TNRI_TORCH_inactive ? 0 : part->requested_bytes,
            .state = state,
            .stack = part->stack};
        tnri_torch_block_put(&self->to, &written);
    }
    tnri_torch_segment_end(&self->to);
}

static void segments_write(writer *to)
{
    const model *in = to->in;
    tnri_torch_list(&to->to, TNRI_TORCH_segments);
    for (size_t i = 0; i < in->devices.count; i++) {
        uint64_t index = MODEL_AT(in->devices, device, i)->index;
        for (size_t k = 0; k < in->segments.count; k++) {
            const segment *one = MODEL_AT(in->segments, segment, k);
            if (MODEL_AT(in->pools, pool, one->pool)->device == index)
                segment_write(to, one, index);
        }
    }
    tnri_pickle_list_end(&to->to.out);
}

/* ---- traces --------------------------------------------------------------------------------- */

enum { ENTRIES_MAX = 3 };

/* The actions of a record: up to three, TORCH_ACTIONS_COUNT for none. */
static void actions_of(const writer *to, const record *event, torch_action actions[ENTRIES_MAX])
{
    int is_segment =
        strcmp(*MODEL_AT(to->in->reasons, const char *, event->reason), TORCH_REASON_SEGMENT) == 0;
    actions[0] = actions[1] = actions[2] = TORCH_ACTIONS_COUNT;
    switch ((record_kind)event->kind) {
    case RECORD_ALLOC:
        actions[0] = TORCH_ALLOC;
        break;
    case RECORD_FREE:
        actions[0] = TORCH_FREE_REQUESTED;
        actions[1] = TORCH_FREE_COMPLETED;
        break;
    case RECORD_RETIRE:
        actions[0] = TORCH_FREE_REQUESTED;
        break;
    case RECORD_REUSE:
        actions[0] = TORCH_FREE_COMPLETED;
        break;
    case RECORD_GROW:
        /* A block of the size before is freed, and one of the new size taken at the same place. */
        if (record_grow_before(event) > 0) {
            actions[0] = TORCH_FREE_REQUESTED;
            actions[1] = TORCH_FREE_COMPLETED;
        }
        if (event->bytes > 0)
            actions[actions[0] == TORCH_ACTIONS_COUNT ? 0 : 2] = TORCH_ALLOC;
        break;
    case RECORD_MAP:
    case RECORD_MOVE_IN:
        actions[0] = is_segment ? TORCH_SEGMENT_ALLOC : TORCH_SEGMENT_MAP;
        break;
    case RECORD_UNMAP:
    case RECORD_MOVE_OUT:
        actions[0] = is_segment ? TORCH_SEGMENT_FREE : TORCH_SEGMENT_UNMAP;
        break;
    case RECORD_OOM:
        actions[0] = TORCH_OOM;
        break;
    case RECORD_SNAPSHOT:
        actions[0] = TORCH_SNAPSHOT;
        break;
    case RECORD_MARK:
        /* PyTorch's are about a block. Ours are not, and every record says its mark; nor are the
         * profiler's annotations, which have a list of their own. */
        if (to->in->origin == ORIGIN_TORCH && event->address != 0)
            actions[0] = TORCH_ANNOTATE;
        break;
    default:
        break;
    }
}

static void entry_write(writer *self, const record *event, torch_action action)
{
    static const tnri_torch_word words[TORCH_ACTIONS_COUNT] = {
        [TORCH_ALLOC] = TNRI_TORCH_alloc,
        [TORCH_FREE_REQUESTED] = TNRI_TORCH_free_requested,
        [TORCH_FREE_COMPLETED] = TNRI_TORCH_free_completed,
        [TORCH_SEGMENT_ALLOC] = TNRI_TORCH_segment_alloc,
        [TORCH_SEGMENT_FREE] = TNRI_TORCH_segment_free,
        [TORCH_SEGMENT_MAP] = TNRI_TORCH_segment_map,
        [TORCH_SEGMENT_UNMAP] = TNRI_TORCH_segment_unmap,
        [TORCH_SNAPSHOT] = TNRI_TORCH_snapshot,
        [TORCH_OOM] = TNRI_TORCH_oom,
        [TORCH_ANNOTATE] = TNRI_TORCH_annotate,
    };
    int of_block = action <= TORCH_FREE_COMPLETED || action == TORCH_OOM;
    int64_t id[2];
    pool_id(self, event->pool, id);
    tnri_torch_entry entry = {.action = words[action],
                              .address = event->address,
                              .bytes = of_block ? event->requested_bytes : event->bytes,
                              .stream = handle_of(self, event->stream),
                              .time_us = -1,
                              .stack = event->stack,
                              .mark = event->mark,
                              .pool = action == TORCH_SNAPSHOT ? NULL : id};
    if (action == TORCH_OOM)
        entry.address = event->value < 0 ? 0 : (uint64_t)event->value;
    if (event->time_ns >= 0)
        entry.time_us = (int64_t)self->in->zero_epoch_us + event->time_ns / 1000;
    tnri_torch_entry_put(&self->to, &entry);
}

/* Of what came, an entry for each stream that has some of it later. */
static void parts_write(writer *to, const record *event, torch_action action, size_t first,
                        size_t count)
{
    for (size_t i = first; i < first + count; i++) {
        const memory_part *part = MODEL_AT(to->history.parts, memory_part, i);
        record one = *event;
        one.address = part->from;
        one.bytes = part->bytes;
        one.stream = part->stream;
        entry_write(to, &one, action);
    }
}

/* PyTorch's viewer up to 2.6 needs an entry that is not on the default stream: if all are, it takes
 * the stream from them, and not from the segments, and joins no memory that goes with what is
 * there. Later ones need any entry where there is no memory at all. The moment of the snapshot,
 * which belongs to no stream, is one; most histories have it. */
static void moment_write(writer *to)
{
    const record moment = {.kind = RECORD_SNAPSHOT,
                           .time_ns = to->in->taken_ns,
                           .pool = -1,
                           .stream = -1,
                           .device = DEVICE_NONE};
    entry_write(to, &moment, TORCH_SNAPSHOT);
}

/* A block that grows is freed as it was asked for before, which the record of the growth before
 * says, and allocated again. */
static int growth_write(writer *to, const record *event, size_t number,
                        const torch_action actions[ENTRIES_MAX])
{
    record freed = *event;
    uint32_t at = map64_get(&to->grown, event->address);
    freed.requested_bytes = record_grow_before(event);
    if (at != MAP64_ABSENT && MODEL_AT(to->in->records, record, at)->bytes == freed.requested_bytes)
        freed.requested_bytes = MODEL_AT(to->in->records, record, at)->requested_bytes;
    for (size_t k = 0; k < ENTRIES_MAX && actions[k] != TORCH_ACTIONS_COUNT; k++)
        entry_write(to, actions[k] == TORCH_ALLOC ? event : &freed, actions[k]);
    return map64_put(&to->grown, event->address, (uint32_t)number);
}

static void record_write(writer *to, const record *event, size_t number, size_t first, size_t count)
{
    torch_action actions[ENTRIES_MAX];
    actions_of(to, event, actions);
    if (actions[0] == TORCH_ACTIONS_COUNT)
        to->left_out[event->kind]++;
    else if (*MODEL_AT(to->history.contradicts, unsigned char, number))
        return;
    else if (event->kind == RECORD_GROW)
        to->is_short |= growth_write(to, event, number, actions) != 0;
    else if (count > 0 && to->in->origin == ORIGIN_TENURE)
        parts_write(to, event, actions[0], first, count);
    else
        for (size_t k = 0; k < ENTRIES_MAX && actions[k] != TORCH_ACTIONS_COUNT; k++)
            entry_write(to, event, actions[k]);
}

static int has_moment(const writer *to)
{
    for (size_t i = 0; i < to->in->records.count; i++)
        if (MODEL_AT(to->in->records, record, i)->kind == RECORD_SNAPSHOT)
            return 1;
    return to->in->origin != ORIGIN_TENURE;
}

/* `device_at` is DEVICE_NONE for a device that is not in use. What belongs to no device is told by
 * one of them. */
static void trace_write(writer *to, size_t device_at, int tells_rest)
{
    const model *in = to->in;
    size_t parts = to->history.parts.count;
    tnri_pickle_item(&to->to.out);
    tnri_pickle_list(&to->to.out);
    for (size_t i = 0; i < in->records.count; i++) {
        const record *event = MODEL_AT(in->records, record, i);
        size_t after = parts;
        while (parts > 0 && MODEL_AT(to->history.parts, memory_part, parts - 1)->record == i)
            parts--;
        if (event->device == DEVICE_NONE ? tells_rest : event->device == device_at)
            record_write(to, event, i, parts, after - parts);
    }
    if (tells_rest && !has_moment(to))
        moment_write(to);
    tnri_pickle_list_end(&to->to.out);
}

static void traces_write(writer *to)
{
    const model *in = to->in;
    uint64_t count = in->origin == ORIGIN_TENURE; /* which has a moment to tell of in any case */
    for (size_t i = 0; i < in->devices.count; i++) {
        const device *one = MODEL_AT(in->devices, device, i);
        count = one->index >= count ? one->index + 1 : count;
    }
    tnri_torch_list(&to->to, TNRI_TORCH_device_traces);
    for (uint64_t index = 0; index < count; index++) {
        size_t at = 0;
        while (at < in->devices.count && MODEL_AT(in->devices, device, at)->index != index)
            at++;
        trace_write(to, at == in->devices.count ? DEVICE_NONE : at, at == 0);
    }
    tnri_pickle_list_end(&to->to.out);
}

/* ---- the rest ------------------------------------------------------------------------------- */

static void annotation_write(writer *self, const record *event)
{
    tnri_torch *to = &self->to;
    const char *name = *MODEL_AT(self->in->strings, const char *, event->mark);
    size_t end = strlen(TORCH_ANNOTATION_END);
    int is_end = strncmp(name, TORCH_ANNOTATION_END, end) == 0;
    tnri_pickle_item(&to->out);
    tnri_pickle_dict(&to->out);
    tnri_torch_text(to, TNRI_TORCH_stage, is_end ? "END" : "START");
    tnri_torch_text(to, TNRI_TORCH_name, is_end ? name + end : name);
    if (event->device != DEVICE_NONE)
        tnri_torch_int(to, TNRI_TORCH_device,
                       (int64_t)MODEL_AT(self->in->devices, device, event->device)->index);
    if (event->time_ns >= 0)
        tnri_torch_int(to, TNRI_TORCH_time_us,
                       (int64_t)self->in->zero_epoch_us + event->time_ns / 1000);
    tnri_pickle_dict_end(&to->out);
}

static void annotations_write(writer *self)
{
    tnri_torch_list(&self->to, TNRI_TORCH_external_annotations);
    for (size_t i = 0; self->in->origin == ORIGIN_TORCH && i < self->in->records.count; i++) {
        const record *event = MODEL_AT(self->in->records, record, i);
        if (event->kind == RECORD_MARK && event->address == 0 && event->mark != 0)
            annotation_write(self, event);
    }
    tnri_pickle_list_end(&self->to.out);
}

static void settings_write(writer *self)
{
    tnri_pickle *to = &self->to.out;
    tnri_torch_word_put(&self->to, TNRI_TORCH_allocator_settings);
    tnri_pickle_dict(to);
    for (size_t i = 0; i < self->in->settings.count; i++) {
        const setting *one = MODEL_AT(self->in->settings, setting, i);
        tnri_pickle_text(to, one->key);
        tnri_pickle_text(to, one->text);
    }
    tnri_pickle_dict_end(to);
    annotations_write(self);
    if (self->in->history.overwritten == 0)
        return;
    tnri_pickle_text(to, "trace_alloc_overflowed");
    tnri_pickle_list(to);
    for (size_t i = 0; i < self->in->devices.count; i++) {
        tnri_pickle_item(to);
        tnri_pickle_boolean(to, 1);
    }
    tnri_pickle_list_end(to);
    tnri_pickle_text(to, "trace_alloc_max_entries");
    tnri_pickle_list(to);
    for (size_t i = 0; i < self->in->devices.count; i++) {
        tnri_pickle_item(to);
        tnri_pickle_int(to, (int64_t)self->in->history.capacity);
    }
    tnri_pickle_list_end(to);
}

static void waits_write(writer *self)
{
    const model *in = self->in;
    tnri_torch_list(&self->to, TNRI_TORCH_waits);
    for (size_t i = 0; i < in->waits.count; i++) {
        const wait *one = MODEL_AT(in->waits, wait, i);
        const tnri_torch_wait written = {
            .address = MODEL_AT(in->blocks, block, one->block)->address,
            .kind = wait_kind_names[one->kind],
            .has_stream = one->stream >= 0,
            .stream = handle_of(self, one->stream),
            .mark_number = one->mark_number,
            .since_us = one->since_ns < 0 ? -1 : (int64_t)in->zero_epoch_us + one->since_ns / 1000,
            .graph = one->graph};
        tnri_torch_wait_put(&self->to, &written);
    }
    tnri_pickle_list_end(&self->to.out);
}

/* 1 if a name is all that the file can say of its stream's number: that may be other streams', too,
 * and then one that is not destroyed goes before others, and a later one before those before it. */
static int stream_is_named(const model *in, size_t index)
{
    const stream *wanted = MODEL_AT(in->streams, stream, index);
    if (!wanted->name)
        return 0;
    for (size_t i = 0; i < in->streams.count; i++) {
        const stream *other = MODEL_AT(in->streams, stream, i);
        if (i != index && other->device == wanted->device &&
            torch_stream_number(other) == torch_stream_number(wanted) &&
            (!other->ended || (wanted->ended && i > index)))
            return 0;
    }
    return 1;
}

static void extra_write(writer *self)
{
    const model *in = self->in;
    tnri_torch *to = &self->to;
    tnri_torch_word_put(to, TNRI_TORCH_tenure);
    tnri_pickle_dict(&to->out);
    tnri_torch_int(to, TNRI_TORCH_version, 1);
    tnri_torch_int(to, TNRI_TORCH_taken_us, (int64_t)in->zero_epoch_us + in->taken_ns / 1000);
    tnri_torch_int(to, TNRI_TORCH_records_overwritten, (int64_t)in->history.overwritten);
    tnri_torch_int(to, TNRI_TORCH_records_missed, (int64_t)in->history.missed);
    tnri_torch_int(to, TNRI_TORCH_records_left_out, (int64_t)self->history.contradictions_count);
    tnri_torch_list(to, TNRI_TORCH_pools);
    for (size_t i = 0; i < in->pools.count; i++) {
        const pool *one = MODEL_AT(in->pools, pool, i);
        tnri_torch_pool_put(
            to, one->kind, one->name,
            (const uint64_t[]){one->device, one->number, one->reserved_bytes, one->asleep_bytes});
    }
    tnri_pickle_list_end(&to->out);
    tnri_torch_list(to, TNRI_TORCH_streams);
    for (size_t i = 0; i < in->streams.count; i++) {
        const stream *one = MODEL_AT(in->streams, stream, i);
        if (stream_is_named(in, i))
            tnri_torch_stream_put(to, one->device, (int64_t)torch_stream_number(one), one->name);
    }
    tnri_pickle_list_end(&to->out);
    waits_write(self);
    tnri_pickle_dict_end(&to->out);
}

static void losses_find(writer *to)
{
    const model *in = to->in;
    losses *lost = to->lost;
    uint64_t cached = 0;
    for (size_t i = 0; i < in->blocks.count; i++) {
        const block *one = MODEL_AT(in->blocks, block, i);
        cached +=
            one->state != STATE_LIVE && one->state != STATE_RETIRED && one->state != STATE_FREE;
    }
    if (cached > 0)
        losses_add(lost, "that %" PRIu64 " of the free blocks are binned, releasing or growing",
                   cached);
    for (size_t i = 0; i < RECORD_KINDS_COUNT; i++) {
        if (to->left_out[i] > 0)
            losses_add(lost, "records of kind %s (%" PRIu64 "): there is no equivalent",
                       record_kind_names[i], to->left_out[i]);
    }
    if (to->history.contradictions_count > 0)
        losses_add(lost, "%zu record%s left out, not fitting what is there at the end",
                   to->history.contradictions_count, tnri_plural(to->history.contradictions_count));
    if (to->modules_lost > 0)
        losses_add(lost, "modules and offsets of %" PRIu64 " frame%s", to->modules_lost,
                   tnri_plural(to->modules_lost));
    if (in->settings.count > 0)
        losses_add(lost, "types of settings: all are texts");
    if (in->graphs.count > 0)
        losses_add(lost, "graphs (%zu); their pools and what waits for them are", in->graphs.count);
    if (in->origin == ORIGIN_TENURE) {
        losses_add(lost, "kinds and limits of pools, devices, the process, the driver");
        if (in->records.count > 0)
            losses_add(lost, "of records: threads, reasons, nanoseconds, and how much was set "
                             "aside");
    }
}

static int memos_start(writer *to)
{
    array *const all[] = {&to->stack_memos, &to->frame_memos, &to->string_memos};
    const size_t counts[] = {to->in->stacks.count, to->in->frames.count, to->in->strings.count};
    for (size_t i = 0; i < 3; i++) {
        if (array_reserve(all[i], to->in->limits, sizeof(uint32_t), counts[i]) != 0)
            return -1;
        for (size_t k = 0; k < counts[i]; k++)
            *MODEL_AT(*all[i], uint32_t, k) = MEMO_NONE;
    }
    return 0;
}

int encode_torch(const model *snapshot, output *out, losses *lost)
{
    writer to = {.to = {.stack = stack_write, .mark = mark_write},
                 .memo_count = TNRI_TORCH_WORDS,
                 .in = snapshot,
                 .lost = lost};
    map64_start(&to.grown, snapshot->limits);
    int code = rewind_run(snapshot, &to.history);
    if (code == 0)
        code = memos_start(&to);
    if (code == 0) {
        tnri_pickle_begin(&to.to.out, out_put, out);
        tnri_pickle_dict(&to.to.out);
        segments_write(&to);
        traces_write(&to);
        settings_write(&to);
        if (snapshot->origin == ORIGIN_TENURE)
            extra_write(&to);
        tnri_pickle_dict_end(&to.to.out);
        tnri_pickle_end(&to.to.out);
        losses_find(&to);
        code = to.is_short ? -1 : 0;
    }
    map64_release(&to.grown);
    rewind_release(&to.history);
    array_release(&to.stack_memos, snapshot->limits, sizeof(uint32_t));
    array_release(&to.frame_memos, snapshot->limits, sizeof(uint32_t));
    array_release(&to.string_memos, snapshot->limits, sizeof(uint32_t));
    return code;
}
