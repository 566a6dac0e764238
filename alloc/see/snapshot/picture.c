/* SPDX-License-Identifier: Apache-2.0 */
/* From a cut and the history to a picture: see picture.h. */
#include "see/snapshot/picture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/host_memory.h"
#include "log/history.h"
#include "log/origins.h"
#include "log/texts.h"
#include "memory/arena/note.h"
#include "memory/device/device.h"
#include "memory/device/host.h"
#include "memory/device/upper.h"
#include "memory/pool/graph_lock.h"
#include "memory/pool/pool.h"
#include "see/snapshot/sort.h"

const char *tnri_shown_text(unsigned shown)
{
    static const char *const texts[] = {"live", "retired",   "binned",
                                        "free", "releasing", "growing"};
    return texts[shown];
}

const char *tnri_pool_kind_text(const tnri_shown_pool *pool)
{
    if (pool->is_ended)
        return "ended";
    if (pool->is_vouched)
        return "vouched";
    if (pool->is_graph)
        return "graph";
    return pool->is_owners ? "foreign" : pool->number == 0 ? "default" : "user";
}

/* ---- arrays --------------------------------------------------------------------------------- */

/* A zeroed place at the end of an array; null if there is no host memory, which the picture then
 * knows. */
static void *array_add(tnri_picture *picture, void **array, size_t *count, size_t *room,
                       size_t bytes)
{
    if (*count == *room) {
        size_t more = *room == 0 ? 64 : *room * 2;
        void *grown = tnri_host_alloc(more * bytes);
        if (grown == NULL) {
            picture->is_short = 1;
            return NULL;
        }
        if (*array != NULL)
            memcpy(grown, *array, *count * bytes);
        tnri_host_free(*array, *room * bytes);
        *array = grown;
        *room = more;
    }
    return (char *)*array + (*count)++ * bytes;
}

#define ARRAY_ADD(picture, name)                                                                   \
    array_add(picture, (void **)&(picture)->name, &(picture)->name##_count,                        \
              &(picture)->name##_room, sizeof((picture)->name[0]))
#define ARRAY_FREE(picture, name)                                                                  \
    tnri_host_free((picture)->name, (picture)->name##_room * sizeof((picture)->name[0]))

static void *table_reserve(tnri_picture *picture, size_t count, size_t bytes)
{
    void *table = tnri_host_reserve((count == 0 ? 1 : count) * bytes);
    if (table == NULL)
        picture->is_short = 1;
    return table;
}

/* ---- pools and streams ---------------------------------------------------------------------- */

static void pools_show(tnri_picture *picture)
{
    for (size_t p = 0; p < picture->cut.pools_count; p++) {
        const tnri_pool_copy *copy = &picture->cut.pools[p];
        tnri_shown_pool *shown = ARRAY_ADD(picture, pools);
        if (shown == NULL)
            return;
        shown->device = copy->device;
        shown->number = copy->number;
        memcpy(shown->name, copy->name, sizeof(shown->name));
        shown->handle = copy->handle;
        shown->is_graph = copy->is_graph;
        shown->is_foreign = copy->is_foreign;
        shown->is_owners = copy->is_owners;
        shown->is_vouched = copy->is_vouched;
        shown->tag = copy->tag;
        shown->is_settled = copy->is_still;
        shown->sleep_state = copy->sleep_state;
        shown->reserved_bytes = copy->reserved_bytes;
        shown->asleep_bytes = copy->asleep_bytes;
        shown->limit_bytes = copy->limit_bytes;
        shown->chunks = copy->chunks;
    }
}

/* Index of a stream, entered if it is not there. -1: no host memory. One that has ended is another
 * stream than one of the same handle that lives, and one of another name as well. Streams of one
 * handle that have ended without a name are one: there may be very many. */
static int64_t stream_show(tnri_picture *picture, const tnri_shown_stream *wanted)
{
    for (size_t i = 0; i < picture->streams_count; i++) {
        tnri_shown_stream *known = &picture->streams[i];
        if (known->device != wanted->device || known->handle != wanted->handle ||
            known->thread != wanted->thread || known->is_graph != wanted->is_graph)
            continue;
        if (known->number != 0 && known->number == wanted->number)
            known->is_ended |= wanted->is_ended; /* it may have ended, or been named, meanwhile */
        else if (known->is_ended != wanted->is_ended || known->name != wanted->name)
            continue;
        return (int64_t)i;
    }
    tnri_shown_stream *shown = ARRAY_ADD(picture, streams);
    if (shown == NULL)
        return -1;
    *shown = *wanted;
    return (int64_t)picture->streams_count - 1;
}

/* CU_STREAM_LEGACY and null are one stream. */
static tnr_stream handle_shown(tnr_stream handle)
{
    return handle == TNRI_STREAM_LEGACY ? NULL : handle;
}

static int64_t arena_stream(tnri_picture *picture, const tnri_arena_copy *arena)
{
    const tnri_pool_copy *pool = &picture->cut.pools[arena->pool];
    tnri_shown_stream stream = {
        .device = pool->device,
        .handle = pool->is_graph ? NULL : handle_shown(arena->stream),
        .thread = pool->is_graph ? 0 : arena->thread,
        .is_graph = pool->is_graph,
        .is_ended = arena->is_ended,
        .number = arena->stream_number,
        .name = arena->stream_name,
    };
    return stream_show(picture, &stream);
}

/* ---- blocks and segments -------------------------------------------------------------------- */

static tnri_shown shown_of(unsigned state)
{
    switch (state) {
    case TNRI_LIVE:
    case TNRI_PARKED:
        return TNRI_SHOWN_LIVE;
    case TNRI_RETIRED:
        return TNRI_SHOWN_RETIRED;
    case TNRI_BINNED:
        return TNRI_SHOWN_BINNED;
    case TNRI_STALE:
        return TNRI_SHOWN_RELEASING;
    case TNRI_PENDING:
        return TNRI_SHOWN_GROWING;
    default:
        return TNRI_SHOWN_FREE;
    }
}

static void block_show(const tnri_picture *picture, tnri_shown_block *shown,
                       const tnri_block *block, size_t arena)
{
    shown->address = block->base;
    shown->bytes = block->bytes;
    shown->shown = (uint8_t)shown_of(block->state);
    shown->is_small = block->content;
    shown->is_first = block->below == NULL;
    shown->arena = (uint32_t)arena;
    shown->requested = 0;
    shown->time_ns = -1;
    shown->stack = 0;
    if (block->state != TNRI_LIVE && block->state != TNRI_PARKED && block->state != TNRI_RETIRED)
        return;
    shown->requested = tnri_block_requested(block);
    if (!block->stamped)
        return;
    uint64_t ticks = block->stamp >> TNRI_STAMP_STACK_BITS << TNRI_STAMP_TICKS_SHIFT;
    shown->time_ns = (int64_t)tnri_ticks_ns(&picture->scale, picture->scale.zero + ticks);
    shown->stack = (uint32_t)(block->stamp & ((1u << TNRI_STAMP_STACK_BITS) - 1));
}

/* Puts the blocks of all arenas into the order of addresses. */
static void blocks_show(tnri_picture *picture)
{
    const tnri_cut *cut = &picture->cut;
    size_t count = 0;
    for (size_t i = 0; i < cut->arenas_count; i++)
        count += cut->arenas[i].blocks_count;
    picture->blocks_room = count;
    picture->blocks = table_reserve(picture, count, sizeof(picture->blocks[0]));
    tnri_sorted *entries = table_reserve(picture, count, sizeof(entries[0]));
    tnri_sorted *spare = table_reserve(picture, count, sizeof(spare[0]));
    if (!picture->is_short) {
        size_t at = 0;
        for (size_t i = 0; i < cut->arenas_count; i++)
            for (size_t b = 0; b < cut->arenas[i].blocks_count; b++)
                entries[at++] = (tnri_sorted){cut->arenas[i].blocks[b].base, (uint64_t)i << 32 | b};
        const tnri_sorted *sorted = tnri_sort(entries, spare, count);
        for (size_t b = 0; b < count; b++) {
            size_t arena = (size_t)(sorted[b].index >> 32);
            block_show(picture, &picture->blocks[b],
                       &cut->arenas[arena].blocks[(uint32_t)sorted[b].index], arena);
        }
        picture->blocks_count = count;
    }
    tnri_host_unreserve(entries, (count == 0 ? 1 : count) * sizeof(entries[0]));
    tnri_host_unreserve(spare, (count == 0 ? 1 : count) * sizeof(spare[0]));
}

/* Adds a block to the sums of its pool. */
static void block_sum(tnri_shown_pool *pool, const tnri_shown_block *block)
{
    size_t bytes = block->shown == TNRI_SHOWN_LIVE ? block->requested : block->bytes;
    pool->bytes[block->shown] += bytes;
    pool->slack_bytes += block->bytes - bytes;
}

/* Neighbours of one arena and one world are one segment, but for foreign ones, which their owner
 * knows one by one. */
static void segments_show(tnri_picture *picture)
{
    tnri_shown_segment *segment = NULL;
    uint32_t arena = 0;
    for (size_t b = 0; b < picture->blocks_count; b++) {
        const tnri_shown_block *block = &picture->blocks[b];
        if (segment == NULL || segment->address + segment->bytes != block->address ||
            arena != block->arena || segment->is_small != block->is_small ||
            (block->is_first && picture->pools[segment->pool].is_foreign)) {
            const tnri_arena_copy *copy = &picture->cut.arenas[block->arena];
            int64_t stream = arena_stream(picture, copy);
            segment = ARRAY_ADD(picture, segments);
            if (segment == NULL || stream < 0)
                return;
            arena = block->arena;
            segment->address = block->address;
            segment->block_first = b;
            segment->pool = copy->pool;
            segment->stream = (size_t)stream;
            segment->arena = copy->number;
            segment->is_small = block->is_small;
        }
        segment->bytes += block->bytes;
        segment->blocks_count++;
        block_sum(&picture->pools[segment->pool], block);
    }
}

/* A pool that was still must add up; if it does not, it was not as still as it seemed. */
static void pools_settle(tnri_picture *picture)
{
    for (size_t a = 0; a < picture->cut.arenas_count; a++)
        picture->pools[picture->cut.arenas[a].pool].away_bytes += picture->cut.arenas[a].away_bytes;
    for (size_t p = 0; p < picture->pools_count; p++) {
        tnri_shown_pool *pool = &picture->pools[p];
        uint64_t sum = pool->slack_bytes;
        for (int s = 0; s < TNRI_SHOWN_COUNT; s++)
            sum += pool->bytes[s];
        if (pool->is_settled && pool->bytes[TNRI_SHOWN_GROWING] == 0)
            tnri_assert_hot(sum == pool->reserved_bytes + pool->asleep_bytes + pool->away_bytes);
        else
            pool->is_settled = 0;
    }
}

/* ---- what blocks wait for ------------------------------------------------------------------- */

/* Index of the block that starts at an address; the number of blocks if there is none. */
static size_t block_find(const tnri_picture *picture, uintptr_t address)
{
    size_t low = 0;
    size_t high = picture->blocks_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (picture->blocks[middle].address < address)
            low = middle + 1;
        else
            high = middle;
    }
    int is_found = low < picture->blocks_count && picture->blocks[low].address == address;
    return is_found ? low : picture->blocks_count;
}

static void wait_show(tnri_picture *picture, const tnri_wait *wait, int device)
{
    size_t block = block_find(picture, wait->base);
    if (block == picture->blocks_count)
        return;
    int64_t stream = -1;
    if (wait->kind == TNRI_WAIT_USE) {
        tnri_shown_stream wanted = {.device = device,
                                    .handle = handle_shown(wait->stream),
                                    .thread = wait->thread,
                                    .is_ended = wait->is_ended,
                                    .number = wait->stream_number,
                                    .name = wait->stream_name};
        stream = stream_show(picture, &wanted);
    }
    tnri_shown_wait *shown = ARRAY_ADD(picture, waits);
    if (shown == NULL)
        return;
    shown->block = block;
    shown->kind = wait->kind;
    shown->stream = stream;
    shown->mark_number = wait->kind == TNRI_WAIT_USE ? (int64_t)wait->mark_number : -1;
    shown->since_ns =
        wait->since_ticks == 0 ? -1 : (int64_t)tnri_ticks_ns(&picture->scale, wait->since_ticks);
    shown->graph = wait->graph;
}

static int wait_compare(const void *left, const void *right)
{
    const tnri_shown_wait *a = left;
    const tnri_shown_wait *b = right;
    if (a->block != b->block)
        return a->block < b->block ? -1 : 1;
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    return (a->graph > b->graph) - (a->graph < b->graph);
}

/* That a graph or a capture keeps a block is known twice: from the block, which knows since when,
 * and from the graph. If the second is there, the first is dropped. */
static void waits_tidy(tnri_picture *picture)
{
    qsort(picture->waits, picture->waits_count, sizeof(picture->waits[0]), wait_compare);
    size_t kept = 0;
    for (size_t i = 0; i < picture->waits_count; i++) {
        const tnri_shown_wait *wait = &picture->waits[i];
        tnri_shown_wait *next = &picture->waits[i + 1];
        if (wait->kind >= TNRI_WAIT_GRAPH && i + 1 < picture->waits_count &&
            next->block == wait->block) {
            next->since_ns = wait->since_ns;
            if (wait->graph < 0)
                continue;
        }
        picture->waits[kept++] = *wait;
    }
    picture->waits_count = kept;
}

static void waits_show(tnri_picture *picture)
{
    for (size_t i = 0; i < picture->cut.arenas_count; i++) {
        const tnri_arena_copy *arena = &picture->cut.arenas[i];
        for (size_t w = 0; w < arena->waits_count; w++)
            wait_show(picture, &arena->waits[w], picture->cut.pools[arena->pool].device);
    }
    for (size_t i = 0; i < picture->kept_count; i++) {
        tnri_wait wait = {.base = picture->kept[i].base,
                          .kind = picture->kept[i].kind,
                          .graph = (int64_t)picture->kept[i].graph};
        wait_show(picture, &wait, 0);
    }
    if (picture->waits_count > 0)
        waits_tidy(picture);
}

/* ---- graphs --------------------------------------------------------------------------------- */

static void graph_listen(void *user, const tnri_seen_graph *seen)
{
    tnri_picture *picture = user;
    tnri_shown_graph *shown = ARRAY_ADD(picture, graphs);
    if (shown == NULL)
        return;
    shown->seen = *seen;
    strncpy(shown->name, seen->name, sizeof(shown->name) - 1);
    shown->seen.name = NULL;
    shown->pool = -1;
    for (size_t p = 0; p < picture->pools_count; p++)
        if (picture->pools[p].device == seen->device && seen->pool >= 0 &&
            picture->pools[p].number == (unsigned)seen->pool)
            shown->pool = (int64_t)p;
}

static void keeps_listen(void *user, tnri_wait_kind kind, uint64_t graph, uintptr_t base)
{
    tnri_picture *picture = user;
    tnri_shown_keep *kept = ARRAY_ADD(picture, kept);
    if (kept != NULL)
        *kept = (tnri_shown_keep){graph, base, kind};
}

static void import_listen(void *user, const tnri_seen_import *import)
{
    tnri_picture *picture = user;
    tnri_seen_import *shown = ARRAY_ADD(picture, imports);
    if (shown != NULL)
        *shown = *import;
}

/* Graphs, or memory of other processes that is mapped here. */
static void room_show(tnri_picture *picture, tnri_room room)
{
    const tnri_listener listener = {picture, graph_listen, keeps_listen, import_listen};
    const tnri_upper *upper = tnri_upper_of(room);
    if (upper->show != NULL)
        upper->show(&listener);
}

/* ---- devices -------------------------------------------------------------------------------- */

/* Free memory of the device, as the driver says; a failure is no reason not to write. */
static uint64_t device_free(tnri_device *device)
{
    size_t bytes = 0;
    size_t total = 0;
    tnri_visit visit;
    if (tnri_device_enter(device, &visit) != TNR_OK)
        return UINT64_MAX;
    CUresult result = tnri_device_left(device, &bytes, &total);
    tnri_device_leave(&visit);
    return result == CUDA_SUCCESS ? bytes : UINT64_MAX;
}

static void devices_show(tnri_picture *picture)
{
    tnri_device *device;
    for (int i = 0; (device = tnri_device_nth(i)) != NULL; i++) {
        if (!atomic_load_explicit(&device->in_use, memory_order_acquire))
            continue;
        tnri_shown_device *shown = ARRAY_ADD(picture, devices);
        if (shown == NULL)
            return;
        shown->index = device->index;
        shown->memory_free_bytes = device_free(device);
        for (size_t p = 0; p < picture->pools_count; p++)
            if (picture->pools[p].device == device->index) {
                shown->reserved_bytes += picture->pools[p].reserved_bytes;
                shown->asleep_bytes += picture->pools[p].asleep_bytes;
            }
        shown->reserved_peak_bytes = atomic_load(&device->reserved_peak_bytes);
        if (shown->reserved_peak_bytes < shown->reserved_bytes)
            shown->reserved_peak_bytes = shown->reserved_bytes;
        shown->limit_bytes = atomic_load(&device->limit_bytes);
        shown->is_in_group = tnri_group_of(device) != NULL;
        tnri_group_count(device, &shown->group);
        shown->ooms = atomic_load(&device->ooms_count);
        shown->retries = atomic_load(&device->retries_count);
    }
}

/* ---- history -------------------------------------------------------------------------------- */

/* 1 if the kind has a number in the order of its arena. */
static int kind_is_ordered(unsigned kind)
{
    return kind <= TNRI_NOTED_MOVE_OUT;
}

/* Index of a pool, entered as one that has ended if it is not there. */
static int32_t origin_pool(tnri_picture *picture, const tnri_origin *origin)
{
    if (origin->has_no_pool)
        return -1;
    for (size_t p = 0; p < picture->pools_count; p++)
        if (picture->pools[p].device == origin->device && picture->pools[p].number == origin->pool)
            return (int32_t)p;
    tnri_shown_pool *shown = ARRAY_ADD(picture, pools);
    if (shown == NULL)
        return -1;
    shown->device = origin->device;
    shown->number = origin->pool;
    if (origin->pool_name == 0)
        snprintf(shown->name, sizeof(shown->name), "pool %u", origin->pool);
    else
        strncpy(shown->name, tnri_text_of(origin->pool_name), sizeof(shown->name) - 1);
    shown->is_graph = origin->is_graph;
    shown->is_ended = 1;
    shown->is_settled = 1;
    shown->limit_bytes = UINT64_MAX;
    return (int32_t)picture->pools_count - 1;
}

/* Index of an origin's stream. Of a stream that the origin does not know to have ended, one that is
 * in the picture is taken if there is one. */
static int32_t origin_stream(tnri_picture *picture, const tnri_origin *origin)
{
    if (origin->has_no_stream)
        return -1;
    int is_graph = origin->is_graph && !origin->is_launch;
    tnri_shown_stream stream = {
        .device = origin->device,
        .handle = is_graph ? NULL : handle_shown(origin->stream),
        .thread = is_graph ? 0 : origin->thread,
        .is_graph = is_graph,
        .is_ended = is_graph ? 0 : origin->is_ended,
        .number = is_graph ? 0 : origin->stream_number,
        .name = is_graph ? 0 : origin->stream_name,
    };
    return (int32_t)stream_show(picture, &stream);
}

static void origins_show(tnri_picture *picture)
{
    picture->origins_count = tnri_origins_count() + 1;
    picture->origins = table_reserve(picture, picture->origins_count, sizeof(picture->origins[0]));
    if (picture->origins == NULL)
        return;
    /* There may be very many, of pools that came and went; only those that a record names count. */
    for (size_t i = 0; i < picture->ring.count; i++)
        if (picture->ring.records[i].origin < picture->origins_count)
            picture->origins[picture->ring.records[i].origin].arena = 1;
    picture->origins[0] = (tnri_shown_origin){-1, -1, -1, 0, 0};
    for (uint32_t number = 1; number < picture->origins_count; number++) {
        tnri_origin origin;
        if (picture->origins[number].arena != 0 && tnri_origin_get(number, &origin)) {
            int32_t stream = origin_stream(picture, &origin);
            picture->origins[number] =
                (tnri_shown_origin){origin_pool(picture, &origin), stream, stream, origin.arena,
                                    origin.gone != 0 && origin.gone <= picture->gone};
        }
    }
}

/* Says of each origin whose memory its arena's became. */
static void streams_latest_show(tnri_picture *picture, size_t arenas_count)
{
    int32_t *latest = table_reserve(picture, arenas_count, sizeof(latest[0]));
    if (latest == NULL)
        return;
    for (size_t i = 1; i < picture->origins_count; i++)
        latest[picture->origins[i].arena] = picture->origins[i].stream;
    for (size_t i = 0; i < picture->segments_count; i++)
        latest[picture->segments[i].arena] = (int32_t)picture->segments[i].stream;
    for (size_t i = 1; i < picture->origins_count; i++)
        if (picture->origins[i].arena != 0)
            picture->origins[i].stream_latest = latest[picture->origins[i].arena];
    tnri_host_unreserve(latest, (arenas_count == 0 ? 1 : arenas_count) * sizeof(latest[0]));
}

/* For each arena by number, where its records end: those from there on came after the cut. One
 * that is not in the cut had ended before, or was ending; then nothing is known of how it was at
 * the moment, and none of its records is taken. */
typedef struct arena_ends {
    uint32_t *orders;
    uint8_t *is_there;
    uint8_t *is_ending;
    size_t count;
} arena_ends;

/* 1 if what the record tells was before the cut. */
static int record_is_before(const tnri_picture *picture, const arena_ends *ends,
                            const tnri_recorded *record)
{
    uint32_t arena = 0;
    if (kind_is_ordered(record->kind) && record->origin < picture->origins_count)
        arena = picture->origins[record->origin].arena;
    if (record->origin >= picture->origins_count || arena > picture->cut.arena_last)
        return 0;
    if (arena == 0)
        return record->ticks <= picture->cut.ticks;
    if (arena < ends->count && ends->is_there[arena])
        return (int32_t)(record->order - ends->orders[arena]) < 0;
    return arena >= ends->count || !ends->is_ending[arena];
}

/* Finds the arenas that were ending: those that had not gone when the history was read, of which it
 * may not have the end, and those that recorded something since the cut. */
static void endings_find(const tnri_picture *picture, arena_ends *ends)
{
    for (size_t i = 1; i < picture->origins_count; i++)
        ends->is_ending[picture->origins[i].arena] = 1;
    for (size_t i = 1; i < picture->origins_count; i++)
        if (picture->origins[i].is_gone)
            ends->is_ending[picture->origins[i].arena] = 0;
    for (size_t i = 0; i < picture->ring.count; i++) {
        const tnri_recorded *record = &picture->ring.records[i];
        if (record->ticks > picture->cut.ticks && record->origin < picture->origins_count)
            ends->is_ending[picture->origins[record->origin].arena] = 1;
    }
}

/* The records of an arena are brought into its own order, which the clocks of several processors
 * may have blurred by some nanoseconds: one that comes too early is moved back to where it
 * belongs. */
static void order_repair(tnri_picture *picture, arena_ends *ends)
{
    memset(ends->is_there, 0, ends->count);
    for (size_t i = 0; i < picture->order_count; i++) {
        const tnri_recorded *record = tnri_picture_record(picture, i);
        uint32_t arena = kind_is_ordered(record->kind) ? picture->origins[record->origin].arena : 0;
        if (arena == 0 || arena >= ends->count)
            continue;
        if (!ends->is_there[arena] || (int32_t)(record->order - ends->orders[arena]) > 0) {
            ends->is_there[arena] = 1;
            ends->orders[arena] = record->order;
            continue;
        }
        uint32_t moved = picture->order[i];
        size_t at = i;
        while (at > 0) {
            const tnri_recorded *before = tnri_picture_record(picture, at - 1);
            if (kind_is_ordered(before->kind) && picture->origins[before->origin].arena == arena &&
                (int32_t)(before->order - record->order) < 0)
                break;
            picture->order[at] = picture->order[at - 1];
            at--;
        }
        picture->order[at] = moved;
        picture->ring.records[moved].ticks = tnri_picture_record(picture, at + 1)->ticks;
    }
}

static int arena_ends_make(tnri_picture *picture, arena_ends *ends)
{
    ends->count = (size_t)picture->cut.arena_last + 1;
    for (size_t i = 1; i < picture->origins_count; i++)
        if (picture->origins[i].arena >= ends->count)
            ends->count = (size_t)picture->origins[i].arena + 1;
    ends->orders = table_reserve(picture, ends->count, sizeof(ends->orders[0]));
    ends->is_there = table_reserve(picture, ends->count, sizeof(ends->is_there[0]));
    ends->is_ending = table_reserve(picture, ends->count, sizeof(ends->is_ending[0]));
    if (picture->is_short)
        return 0;
    for (size_t i = 0; i < picture->cut.arenas_count; i++) {
        const tnri_arena_copy *arena = &picture->cut.arenas[i];
        ends->orders[arena->number] = arena->order;
        ends->is_there[arena->number] = 1;
    }
    endings_find(picture, ends);
    return 1;
}

static void arena_ends_free(arena_ends *ends)
{
    tnri_host_unreserve(ends->orders, ends->count * sizeof(ends->orders[0]));
    tnri_host_unreserve(ends->is_there, ends->count * sizeof(ends->is_there[0]));
    tnri_host_unreserve(ends->is_ending, ends->count * sizeof(ends->is_ending[0]));
}

static void history_sort(tnri_picture *picture, const arena_ends *ends)
{
    size_t count = picture->ring.count;
    tnri_sorted *entries = table_reserve(picture, count, sizeof(entries[0]));
    tnri_sorted *spare = table_reserve(picture, count, sizeof(spare[0]));
    picture->order_room = count;
    picture->order = table_reserve(picture, count, sizeof(picture->order[0]));
    if (!picture->is_short) {
        size_t kept = 0;
        for (size_t i = 0; i < count; i++)
            if (record_is_before(picture, ends, &picture->ring.records[i]))
                entries[kept++] = (tnri_sorted){picture->ring.records[i].ticks, i};
        const tnri_sorted *sorted = tnri_sort(entries, spare, kept);
        for (size_t i = 0; i < kept; i++)
            picture->order[i] = (uint32_t)sorted[i].index;
        picture->order_count = kept;
    }
    tnri_host_unreserve(entries, (count == 0 ? 1 : count) * sizeof(entries[0]));
    tnri_host_unreserve(spare, (count == 0 ? 1 : count) * sizeof(spare[0]));
}

static void history_show(tnri_picture *picture)
{
    arena_ends ends = {NULL, NULL, NULL, 0};
    origins_show(picture);
    if (!picture->is_short && arena_ends_make(picture, &ends)) {
        streams_latest_show(picture, ends.count);
        history_sort(picture, &ends);
        if (!picture->is_short)
            order_repair(picture, &ends);
    }
    arena_ends_free(&ends);
}

/* ---- the whole ------------------------------------------------------------------------------ */

void tnri_picture_still(void)
{
    (void)tnri_upper_settle(TNRI_ROOM_GRAPH, NULL); /* a snapshot has launches that are over */
    (void)tnri_graph_lock();
}

tnr_status tnri_picture_take(tnri_picture *picture, tnri_reason reason)
{
    memset(picture, 0, sizeof(*picture));
    picture->reason = reason;
    picture->mode = tnri_history_mode();
    tnr_status status = tnri_cut_make(&picture->cut);
    if (status == TNR_OK)
        pools_show(picture);
    if (status == TNR_OK && !picture->is_short)
        room_show(picture, TNRI_ROOM_GRAPH);
    tnri_graph_unlock();
    if (status != TNR_OK)
        return status;
    picture->scale = tnri_ticks_scale_make();
    picture->gone = tnri_origins_gone();
    /* At once: while this goes on, records are overwritten. */
    if (!tnri_ring_read(&picture->ring))
        picture->is_short = 1;
    if (!picture->is_short)
        devices_show(picture);
    if (!picture->is_short)
        room_show(picture, TNRI_ROOM_SHARE);
    if (!picture->is_short)
        blocks_show(picture);
    if (!picture->is_short)
        segments_show(picture);
    if (!picture->is_short)
        pools_settle(picture);
    if (!picture->is_short)
        waits_show(picture);
    if (!picture->is_short)
        history_show(picture);
    if (!picture->is_short && !tnri_symbols_make(&picture->symbols))
        picture->is_short = 1;
    if (!picture->is_short)
        return TNR_OK;
    tnri_picture_free(picture);
    return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for a snapshot.");
}

void tnri_picture_free(tnri_picture *picture)
{
    ARRAY_FREE(picture, devices);
    ARRAY_FREE(picture, pools);
    ARRAY_FREE(picture, streams);
    ARRAY_FREE(picture, segments);
    ARRAY_FREE(picture, graphs);
    ARRAY_FREE(picture, kept);
    ARRAY_FREE(picture, waits);
    ARRAY_FREE(picture, imports);
    size_t blocks = picture->blocks_room == 0 ? 1 : picture->blocks_room;
    tnri_host_unreserve(picture->blocks, blocks * sizeof(picture->blocks[0]));
    size_t order = picture->order_room == 0 ? 1 : picture->order_room;
    tnri_host_unreserve(picture->order, order * sizeof(picture->order[0]));
    tnri_host_unreserve(picture->origins, picture->origins_count * sizeof(picture->origins[0]));
    tnri_symbols_free(&picture->symbols);
    tnri_ring_copy_free(&picture->ring);
    tnri_cut_free(&picture->cut);
    memset(picture, 0, sizeof(*picture));
}
