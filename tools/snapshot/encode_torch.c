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
 * Names of pools and pending uses are in the extra key `tenure`, as in the library's own pickles.
 * The viewer ignores it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/plural.h"
#include "encode.h"
#include "rewind.h"
#include "see/snapshot/pickle_write.h"
#include "torch.h"

/* The keys of the dictionaries that come often. Each is written once and then named. */
enum {
    KEY_ACTION,
    KEY_ADDR,
    KEY_SIZE,
    KEY_STREAM,
    KEY_TIME,
    KEY_FRAMES,
    KEY_USER,
    KEY_COMPILE,
    KEY_POOL,
    KEY_DEVICE_FREE,
    KEY_ADDRESS,
    KEY_REQUESTED,
    KEY_STATE,
    KEY_FILENAME,
    KEY_LINE,
    KEY_NAME,
    KEY_NO_CONTEXT,
    KEY_LIVE,
    KEY_RETIRED,
    KEY_INACTIVE,
    KEY_ACTIONS,
    KEYS_COUNT = KEY_ACTIONS + TORCH_ACTIONS_COUNT,
};

static const char *const key_texts[KEY_ACTIONS] = {"action",
                                                   "addr",
                                                   "size",
                                                   "stream",
                                                   "time_us",
                                                   "frames",
                                                   "user_metadata",
                                                   "compile_context",
                                                   "pool_id",
                                                   "device_free",
                                                   "address",
                                                   "requested_size",
                                                   "state",
                                                   "filename",
                                                   "line",
                                                   "name",
                                                   "N/A",
                                                   "active_allocated",
                                                   "active_pending_free",
                                                   "inactive"};

#define MEMO_NONE UINT32_MAX

typedef struct writer {
    tnri_pickle to;
    uint32_t memo_count;
    const model *in;
    losses *lost;
    rewind_result history;
    array stack_memos, frame_memos, string_memos; /* uint32_t */
    uint32_t keys[KEYS_COUNT];
    uint64_t left_out[RECORD_KINDS_COUNT]; /* records without an equivalent */
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
static void memo_set(writer *to, uint32_t *memo)
{
    *memo = to->memo_count++;
    tnri_pickle_memo(&to->to, *memo);
}

static void again_or_text(writer *to, uint32_t *memo, const char *text)
{
    if (*memo != MEMO_NONE) {
        tnri_pickle_again(&to->to, *memo);
        return;
    }
    tnri_pickle_text(&to->to, text);
    memo_set(to, memo);
}

static void key(writer *to, unsigned number)
{
    again_or_text(to, &to->keys[number],
                  number < KEY_ACTIONS ? key_texts[number] : torch_actions[number - KEY_ACTIONS]);
}

static void key_int(writer *to, unsigned name, uint64_t number)
{
    key(to, name);
    tnri_pickle_int(&to->to, (int64_t)number);
}

static void named_int(writer *to, const char *name, uint64_t number)
{
    tnri_pickle_text(&to->to, name);
    tnri_pickle_int(&to->to, (int64_t)number);
}

static void string_write(writer *to, uint32_t index)
{
    again_or_text(to, MODEL_AT(to->string_memos, uint32_t, index), model_string(to->in, index));
}

static void frame_write(writer *to, uint32_t index)
{
    const frame *one = MODEL_AT(to->in->frames, frame, index);
    uint32_t *memo = MODEL_AT(to->frame_memos, uint32_t, index);
    char place_text[32];
    if (*memo != MEMO_NONE) {
        tnri_pickle_again(&to->to, *memo);
        return;
    }
    tnri_pickle_dict(&to->to);
    key(to, KEY_FILENAME);
    /* Without symbols, the module and the place in it are what can be looked up later. */
    string_write(to, one->file != 0 ? one->file : one->module);
    key_int(to, KEY_LINE, one->line);
    key(to, KEY_NAME);
    snprintf(place_text, sizeof(place_text), "0x%" PRIx64, one->offset);
    if (one->function != 0)
        string_write(to, one->function);
    else
        tnri_pickle_text(&to->to, place_text);
    tnri_pickle_dict_end(&to->to);
    memo_set(to, memo);
    to->modules_lost += one->module != 0;
}

static void stack_write(writer *to, uint32_t index)
{
    const stack *one = MODEL_AT(to->in->stacks, stack, index);
    uint32_t *memo = MODEL_AT(to->stack_memos, uint32_t, index);
    key(to, KEY_FRAMES);
    if (*memo != MEMO_NONE) {
        tnri_pickle_again(&to->to, *memo);
        return;
    }
    tnri_pickle_list(&to->to);
    for (uint32_t i = 0; i < one->count; i++) {
        tnri_pickle_item(&to->to);
        frame_write(to, *MODEL_AT(to->in->stack_frames, uint32_t, one->first + i));
    }
    tnri_pickle_list_end(&to->to);
    memo_set(to, memo);
}

static void pool_id_write(writer *to, int32_t index)
{
    int64_t id[2] = {0, 0};
    if (index >= 0) {
        const pool *one = MODEL_AT(to->in->pools, pool, index);
        if (one->torch_id[0] >= 0 && one->torch_id[1] >= 0) {
            id[0] = one->torch_id[0];
            id[1] = one->torch_id[1];
        } else {
            id[1] = (int64_t)one->number;
        }
    }
    tnri_pickle_int(&to->to, id[0]);
    tnri_pickle_int(&to->to, id[1]);
    tnri_pickle_pair(&to->to);
}

/* The stream's number. What belongs to none, as memory of graph pools does, is on none that a
 * program can have; PyTorch itself says 0 of such a record. */
static uint64_t handle_of(const writer *to, int32_t index)
{
    if (index < 0)
        return to->in->origin == ORIGIN_TENURE ? TORCH_NO_STREAM : 0;
    return torch_stream_number(MODEL_AT(to->in->streams, stream, index));
}

/* ---- segments ------------------------------------------------------------------------------- */

static void block_write(writer *to, const block *one)
{
    int active = one->state == STATE_LIVE || one->state == STATE_RETIRED;
    tnri_pickle_item(&to->to);
    tnri_pickle_dict(&to->to);
    key_int(to, KEY_ADDRESS, one->address);
    key_int(to, KEY_SIZE, one->bytes);
    key_int(to, KEY_REQUESTED, active ? one->requested_bytes : 0);
    key(to, KEY_STATE);
    key(to, one->state == STATE_LIVE      ? KEY_LIVE
            : one->state == STATE_RETIRED ? KEY_RETIRED
                                          : KEY_INACTIVE);
    stack_write(to, one->stack);
    tnri_pickle_dict_end(&to->to);
}

static void segment_sums(const writer *to, const segment *one, uint64_t *allocated,
                         uint64_t *active, uint64_t *requested)
{
    *allocated = *active = *requested = 0;
    for (size_t i = 0; i < one->blocks_count; i++) {
        const block *part = MODEL_AT(to->in->blocks, block, one->first_block + i);
        if (part->state == STATE_LIVE)
            *allocated += part->bytes;
        if (part->state == STATE_LIVE || part->state == STATE_RETIRED) {
            *active += part->bytes;
            *requested += part->requested_bytes;
        }
    }
}

static void segment_write(writer *to, const segment *one, uint64_t device_index)
{
    uint64_t allocated, active, requested;
    segment_sums(to, one, &allocated, &active, &requested);
    tnri_pickle_item(&to->to);
    tnri_pickle_dict(&to->to);
    named_int(to, "device", device_index);
    key_int(to, KEY_ADDRESS, one->address);
    named_int(to, "total_size", one->bytes);
    named_int(to, "allocated_size", allocated);
    named_int(to, "active_size", active);
    named_int(to, "requested_size", requested);
    key_int(to, KEY_STREAM, handle_of(to, one->stream));
    tnri_pickle_text(&to->to, "segment_type");
    tnri_pickle_text(&to->to, one->small ? "small" : "large");
    tnri_pickle_text(&to->to, "segment_pool_id");
    pool_id_write(to, one->pool);
    tnri_pickle_text(&to->to, "is_expandable");
    tnri_pickle_boolean(&to->to, to->in->origin == ORIGIN_TENURE || one->expandable);
    const char *tag = MODEL_AT(to->in->pools, pool, one->pool)->tag;
    if (tag) {
        tnri_pickle_text(&to->to, "tag");
        tnri_pickle_text(&to->to, tag);
    }
    stack_write(to, one->stack);
    tnri_pickle_text(&to->to, "blocks");
    tnri_pickle_list(&to->to);
    for (size_t i = 0; i < one->blocks_count; i++)
        block_write(to, MODEL_AT(to->in->blocks, block, one->first_block + i));
    tnri_pickle_list_end(&to->to);
    tnri_pickle_dict_end(&to->to);
}

static void segments_write(writer *to)
{
    const model *in = to->in;
    tnri_pickle_text(&to->to, "segments");
    tnri_pickle_list(&to->to);
    for (size_t i = 0; i < in->devices.count; i++) {
        uint64_t index = MODEL_AT(in->devices, device, i)->index;
        for (size_t k = 0; k < in->segments.count; k++) {
            const segment *one = MODEL_AT(in->segments, segment, k);
            if (MODEL_AT(in->pools, pool, one->pool)->device == index)
                segment_write(to, one, index);
        }
    }
    tnri_pickle_list_end(&to->to);
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

static void entry_write(writer *to, const record *event, torch_action action)
{
    int of_block = action <= TORCH_FREE_COMPLETED || action == TORCH_OOM;
    uint64_t size = of_block ? event->requested_bytes : event->bytes;
    tnri_pickle_item(&to->to);
    tnri_pickle_dict(&to->to);
    key(to, KEY_ACTION);
    key(to, KEY_ACTIONS + action);
    if (action == TORCH_OOM)
        key_int(to, KEY_DEVICE_FREE, event->value < 0 ? 0 : (uint64_t)event->value);
    else
        key_int(to, KEY_ADDR, event->address);
    key_int(to, KEY_SIZE, size);
    key_int(to, KEY_STREAM, handle_of(to, event->stream));
    if (event->time_ns >= 0)
        key_int(to, KEY_TIME, to->in->zero_epoch_us + (uint64_t)event->time_ns / 1000);
    stack_write(to, event->stack);
    key(to, KEY_COMPILE);
    key(to, KEY_NO_CONTEXT);
    key(to, KEY_USER);
    string_write(to, event->mark);
    if (action != TORCH_SNAPSHOT) {
        key(to, KEY_POOL);
        pool_id_write(to, event->pool);
    }
    tnri_pickle_dict_end(&to->to);
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
    tnri_pickle_item(&to->to);
    tnri_pickle_list(&to->to);
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
    tnri_pickle_list_end(&to->to);
}

static void traces_write(writer *to)
{
    const model *in = to->in;
    uint64_t count = in->origin == ORIGIN_TENURE; /* which has a moment to tell of in any case */
    for (size_t i = 0; i < in->devices.count; i++) {
        const device *one = MODEL_AT(in->devices, device, i);
        count = one->index >= count ? one->index + 1 : count;
    }
    tnri_pickle_text(&to->to, "device_traces");
    tnri_pickle_list(&to->to);
    for (uint64_t index = 0; index < count; index++) {
        size_t at = 0;
        while (at < in->devices.count && MODEL_AT(in->devices, device, at)->index != index)
            at++;
        trace_write(to, at == in->devices.count ? DEVICE_NONE : at, at == 0);
    }
    tnri_pickle_list_end(&to->to);
}

/* ---- the rest ------------------------------------------------------------------------------- */

static void annotation_write(writer *to, const record *event)
{
    const char *name = *MODEL_AT(to->in->strings, const char *, event->mark);
    size_t end = strlen(TORCH_ANNOTATION_END);
    int is_end = strncmp(name, TORCH_ANNOTATION_END, end) == 0;
    tnri_pickle_item(&to->to);
    tnri_pickle_dict(&to->to);
    tnri_pickle_text(&to->to, "stage");
    tnri_pickle_text(&to->to, is_end ? "END" : "START");
    tnri_pickle_text(&to->to, "name");
    tnri_pickle_text(&to->to, is_end ? name + end : name);
    if (event->device != DEVICE_NONE) {
        tnri_pickle_text(&to->to, "device");
        tnri_pickle_int(&to->to, (int64_t)MODEL_AT(to->in->devices, device, event->device)->index);
    }
    if (event->time_ns >= 0)
        key_int(to, KEY_TIME, to->in->zero_epoch_us + (uint64_t)event->time_ns / 1000);
    tnri_pickle_dict_end(&to->to);
}

static void annotations_write(writer *to)
{
    tnri_pickle_text(&to->to, "external_annotations");
    tnri_pickle_list(&to->to);
    for (size_t i = 0; to->in->origin == ORIGIN_TORCH && i < to->in->records.count; i++) {
        const record *event = MODEL_AT(to->in->records, record, i);
        if (event->kind == RECORD_MARK && event->address == 0 && event->mark != 0)
            annotation_write(to, event);
    }
    tnri_pickle_list_end(&to->to);
}

static void settings_write(writer *to)
{
    tnri_pickle_text(&to->to, "allocator_settings");
    tnri_pickle_dict(&to->to);
    for (size_t i = 0; i < to->in->settings.count; i++) {
        const setting *one = MODEL_AT(to->in->settings, setting, i);
        tnri_pickle_text(&to->to, one->key);
        tnri_pickle_text(&to->to, one->text);
    }
    tnri_pickle_dict_end(&to->to);
    annotations_write(to);
    if (to->in->history.overwritten == 0)
        return;
    tnri_pickle_text(&to->to, "trace_alloc_overflowed");
    tnri_pickle_list(&to->to);
    for (size_t i = 0; i < to->in->devices.count; i++) {
        tnri_pickle_item(&to->to);
        tnri_pickle_boolean(&to->to, 1);
    }
    tnri_pickle_list_end(&to->to);
    tnri_pickle_text(&to->to, "trace_alloc_max_entries");
    tnri_pickle_list(&to->to);
    for (size_t i = 0; i < to->in->devices.count; i++) {
        tnri_pickle_item(&to->to);
        tnri_pickle_int(&to->to, (int64_t)to->in->history.capacity);
    }
    tnri_pickle_list_end(&to->to);
}

/* [{address, kind, stream, mark_number, since_us, graph}]: only what applies. */
static void waits_write(writer *to)
{
    const model *in = to->in;
    tnri_pickle_text(&to->to, "waits");
    tnri_pickle_list(&to->to);
    for (size_t i = 0; i < in->waits.count; i++) {
        const wait *one = MODEL_AT(in->waits, wait, i);
        tnri_pickle_item(&to->to);
        tnri_pickle_dict(&to->to);
        key_int(to, KEY_ADDRESS, MODEL_AT(in->blocks, block, one->block)->address);
        tnri_pickle_text(&to->to, "kind");
        tnri_pickle_text(&to->to, wait_kind_names[one->kind]);
        if (one->stream >= 0)
            key_int(to, KEY_STREAM, handle_of(to, one->stream));
        if (one->mark_number >= 0)
            named_int(to, "mark_number", (uint64_t)one->mark_number);
        if (one->since_ns >= 0)
            named_int(to, "since_us", in->zero_epoch_us + (uint64_t)one->since_ns / 1000);
        if (one->graph >= 0)
            named_int(to, "graph", (uint64_t)one->graph);
        tnri_pickle_dict_end(&to->to);
    }
    tnri_pickle_list_end(&to->to);
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

/* [{device, stream, name}] of those that have a name. */
static void streams_write(writer *to)
{
    tnri_pickle_text(&to->to, "streams");
    tnri_pickle_list(&to->to);
    for (size_t i = 0; i < to->in->streams.count; i++) {
        const stream *one = MODEL_AT(to->in->streams, stream, i);
        if (!stream_is_named(to->in, i))
            continue;
        tnri_pickle_item(&to->to);
        tnri_pickle_dict(&to->to);
        named_int(to, "device", one->device);
        key_int(to, KEY_STREAM, torch_stream_number(one));
        key(to, KEY_NAME);
        tnri_pickle_text(&to->to, one->name);
        tnri_pickle_dict_end(&to->to);
    }
    tnri_pickle_list_end(&to->to);
}

/* What PyTorch has no word for, as the library writes it into pickles of its own. */
static void extra_write(writer *to)
{
    const model *in = to->in;
    tnri_pickle_text(&to->to, "tenure");
    tnri_pickle_dict(&to->to);
    named_int(to, "version", 1);
    named_int(to, "taken_us", in->zero_epoch_us + (uint64_t)in->taken_ns / 1000);
    named_int(to, "records_overwritten", in->history.overwritten);
    named_int(to, "records_missed", in->history.missed);
    named_int(to, "records_left_out", to->history.contradictions_count);
    tnri_pickle_text(&to->to, "pools");
    tnri_pickle_list(&to->to);
    for (size_t i = 0; i < in->pools.count; i++) {
        const pool *one = MODEL_AT(in->pools, pool, i);
        tnri_pickle_item(&to->to);
        tnri_pickle_dict(&to->to);
        named_int(to, "device", one->device);
        named_int(to, "number", one->number);
        tnri_pickle_text(&to->to, "kind");
        tnri_pickle_text(&to->to, one->kind);
        key(to, KEY_NAME);
        tnri_pickle_text(&to->to, one->name);
        named_int(to, "reserved_bytes", one->reserved_bytes);
        named_int(to, "asleep_bytes", one->asleep_bytes);
        tnri_pickle_dict_end(&to->to);
    }
    tnri_pickle_list_end(&to->to);
    streams_write(to);
    waits_write(to);
    tnri_pickle_dict_end(&to->to);
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
    for (size_t i = 0; i < KEYS_COUNT; i++)
        to->keys[i] = MEMO_NONE;
    return 0;
}

int encode_torch(const model *snapshot, output *out, losses *lost)
{
    writer to = {.in = snapshot, .lost = lost};
    map64_start(&to.grown, snapshot->limits);
    int code = rewind_run(snapshot, &to.history);
    if (code == 0)
        code = memos_start(&to);
    if (code == 0) {
        tnri_pickle_begin(&to.to, out_put, out);
        tnri_pickle_dict(&to.to);
        segments_write(&to);
        traces_write(&to);
        settings_write(&to);
        if (snapshot->origin == ORIGIN_TENURE)
            extra_write(&to);
        tnri_pickle_dict_end(&to.to);
        tnri_pickle_end(&to.to);
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
