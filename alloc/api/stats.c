/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collecting statistics: sums over arenas, each under its own lock, and the device's own counters.
 * tnr_validate compares the sums with each other and with a walk of every structure.
 */
#include <string.h>

#include "api/control.h"
#include "api/library.h"
#include "api/stats.h"
#include "base/prim/calm.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "memory/arena/count.h"
#include "memory/arena/world_validate.h"
#include "memory/device/chunk.h"
#include "memory/device/group.h"
#include "memory/device/held.h"
#include "memory/device/upper.h"
#include "miss/grow.h"
#include "miss/park.h"
#include "miss/stale.h"

static void stat_add(tnr_stat *stat, uint64_t allocated, uint64_t live, uint64_t peak)
{
    stat->allocated += allocated;
    stat->freed += allocated - live;
    stat->current += live;
    stat->peak += peak;
}

_Static_assert((int)TNR_SERVED_COUNT <= TNR_SERVED_ROOM && (int)TNR_REUSE_COUNT <= TNR_REUSE_ROOM &&
                   (int)TNR_DRIVER_KIND_COUNT <= TNR_DRIVER_KIND_ROOM,
               "a struct of a released header has no more room");

/* Adds one arena. The lock is held. */
static void stats_add_arena(tnr_stats *stats, const tnri_arena *arena)
{
    for (int w = 0; w < TNR_WORLD_COUNT; w++) {
        tnri_count live = tnri_arena_live(arena, w);
        tnri_count peak = tnri_arena_peak(arena, w);
        tnri_count ever = tnri_arena_ever(arena, w);
        stat_add(&stats->allocation[w], ever.blocks, live.blocks, peak.blocks);
        stat_add(&stats->allocated_bytes[w], ever.bytes, live.bytes, peak.bytes);
        stat_add(&stats->requested_bytes[w], ever.requested, live.requested, peak.requested);
    }
    for (int s = 0; s < TNR_SERVED_COUNT; s++)
        stats->served[s] += arena->served[s];
    for (int r = 0; r < TNR_REUSE_COUNT; r++)
        stats->freed_because[r] += arena->freed_because[r];
    for (int i = 0; i < TNRI_WORLDS; i++) {
        const tnri_world *world = &arena->worlds[i];
        stats->bytes_binned += world->bytes_in[TNRI_BINNED];
        stats->bytes_free += world->bytes_in[TNRI_FREE];
        stats->bytes_retired += world->bytes_in[TNRI_RETIRED];
        stats->blocks_retired += world->count_in[TNRI_RETIRED];
        int slot = i == TNRI_SMALL ? TNR_WORLD_SMALL : TNR_WORLD_LARGE;
        stats->active[slot].current += world->count_in[TNRI_RETIRED];
        stats->active_bytes[slot].current += world->bytes_in[TNRI_RETIRED];
        stats->idle_blocks[slot] += world->count_in[TNRI_BINNED] + world->count_in[TNRI_FREE];
        stats->idle_bytes[slot] += world->bytes_in[TNRI_BINNED] + world->bytes_in[TNRI_FREE];
        size_t largest = tnri_world_largest_free(world);
        if (largest > stats->bytes_chunk_largest_free)
            stats->bytes_chunk_largest_free = largest;
    }
    stats->bytes_retired += tnri_stale_held_bytes(arena);
    stats->bytes_parked += tnri_parked_bytes(arena);
    stats->bytes_parked_away += tnri_parked_away_bytes(arena);
    stats->chunks_stale += arena->stale_count;
    stats->arenas++;
}

static void stats_add_pool(tnr_stats *stats, tnr_pool pool)
{
    for (tnri_arena *arena = NULL; (arena = tnri_arena_walk(pool, arena)) != NULL;) {
        tnri_arena_enter(arena);
        stats_add_arena(stats, arena);
        tnri_arena_leave(arena);
    }
    stats->bytes_asleep += atomic_load(&pool->account.asleep_bytes);
    stats->sleeps += atomic_load(&pool->asleep.sleeps);
    stats->wakes += atomic_load(&pool->asleep.wakes);
    stats->pools++;
}

/* Of one look: what came and went by then. */
static void stat_add_flow(tnr_stat *stat, const tnri_flow *flow)
{
    uint64_t gone = atomic_load(&flow->gone), came = atomic_load(&flow->came);
    stat_add(stat, came, came - gone, atomic_load(&flow->peak));
}

/* What the chunks of each size hold, of the device or of a pool. */
static void stats_add_held(tnr_stats *stats, const tnri_held held[TNRI_HELD_SIZES])
{
    for (int i = 0; i < TNRI_HELD_SIZES; i++) {
        int slot = i == TNRI_HELD_SMALL ? TNR_WORLD_SMALL : TNR_WORLD_LARGE;
        stat_add_flow(&stats->segment_by_size[slot], &held[i].chunks);
        stat_add_flow(&stats->reserved_bytes_by_size[slot], &held[i].bytes);
    }
}

/* What only the device knows. */
static void stats_add_device(tnr_stats *stats, tnri_device *device)
{
    stat_add_flow(&stats->segment, &device->chunks);
    stats->chunks_moved = atomic_load(&device->chunks_moved);
    stats->parks = atomic_load(&device->parks);
    stats->unparks = atomic_load(&device->unparks);
    stats->park_waits = atomic_load(&device->park_waits);
    stats->num_device_alloc = atomic_load(&device->mappings_made);
    stats->num_device_free = atomic_load(&device->mappings_removed);
    stats->num_alloc_retries = atomic_load(&device->retries_count);
    stats->num_ooms = atomic_load(&device->ooms_count);
    stats->num_sync_all_streams = atomic_load(&device->syncs_count);
    tnri_streams_count(device);
    for (int kind = 0; kind < TNR_DRIVER_KIND_COUNT; kind++) {
        stats->driver_calls[kind] = atomic_load(&device->counters.calls[kind]);
        stats->driver_ns[kind] = atomic_load(&device->counters.ns[kind]);
    }
}

/* Live blocks of all devices, for metadata_bytes to be divided by. */
static uint64_t library_live_blocks(void)
{
    uint64_t live = 0;
    tnri_device *device;
    for (int i = 0; (device = tnri_device_nth(i)) != NULL; i++) {
        if (!atomic_load(&device->in_use))
            continue;
        for (tnr_pool pool = NULL; (pool = tnri_pool_walk(device, pool)) != NULL;)
            for (tnri_arena *arena = NULL; (arena = tnri_arena_walk(pool, arena)) != NULL;) {
                tnri_arena_enter(arena);
                live += tnri_arena_live_count(arena);
                tnri_arena_leave(arena);
            }
    }
    return live;
}

static void stats_set_pool(tnr_stats *stats, tnr_pool pool)
{
    stats_add_pool(stats, pool);
    stats->reserved_bytes.current = atomic_load(&pool->account.reserved_bytes);
    stats->reserved_bytes.peak = atomic_load(&pool->account.reserved_peak_bytes);
    stats->reserved_bytes.allocated = atomic_load(&pool->account.reserved_total_bytes);
    stat_add_flow(&stats->segment, &pool->account.chunks);
    stats_add_held(stats, pool->account.held);
    stats->limit_bytes = atomic_load(&pool->account.limit_bytes);
}

static void stats_set_device(tnr_stats *stats, tnri_device *device)
{
    for (tnr_pool pool = NULL; (pool = tnri_pool_walk(device, pool)) != NULL;)
        stats_add_pool(stats, pool);
    stats->reserved_bytes.current = atomic_load(&device->reserved_bytes);
    stats->reserved_bytes.peak = atomic_load(&device->reserved_peak_bytes);
    stats->reserved_bytes.allocated = atomic_load(&device->reserved_total_bytes);
    stats_add_held(stats, device->held);
    stats->limit_bytes = atomic_load(&device->limit_bytes);
    tnri_group_counts counts;
    tnri_group_count(device, &counts);
    stats->group_given_bytes = counts.given_bytes;
    stats->group_taken_bytes = counts.taken_bytes;
    stats->group_asks = counts.asks;
    stats->group_yields = counts.yields;
    stats->group_yielded_bytes = counts.yielded_bytes;
    stats_add_device(stats, device);
}

/* Active is live or retired; so far it has the retired ones of each size. Its sums of changes are
 * those of the live blocks, moved by what is retired now; its peak is at least theirs. */
static void active_derive(tnr_stat *active, const tnr_stat *live)
{
    active[TNR_WORLD_ALL].current =
        active[TNR_WORLD_SMALL].current + active[TNR_WORLD_LARGE].current;
    for (int w = 0; w < TNR_WORLD_COUNT; w++) {
        uint64_t retired = active[w].current;
        active[w] = live[w];
        active[w].current += retired;
        active[w].freed -= retired;
        if (active[w].peak < active[w].current)
            active[w].peak = active[w].current;
    }
}

/* What follows from the sums. */
static void stats_derive(tnr_stats *stats)
{
    stats->reserved_bytes.freed = stats->reserved_bytes.allocated - stats->reserved_bytes.current;
    stats->chunks_created = stats->segment.allocated;
    stats->chunks_released = stats->segment.freed;
    stats->segment_by_size[TNR_WORLD_ALL] = stats->segment;
    stats->reserved_bytes_by_size[TNR_WORLD_ALL] = stats->reserved_bytes;
    active_derive(stats->active, stats->allocation);
    active_derive(stats->active_bytes, stats->allocated_bytes);
    for (int w = TNR_WORLD_SMALL; w <= TNR_WORLD_LARGE; w++) {
        stats->idle_blocks[TNR_WORLD_ALL] += stats->idle_blocks[w];
        stats->idle_bytes[TNR_WORLD_ALL] += stats->idle_bytes[w];
    }
    stats->bytes_live = stats->requested_bytes[TNR_WORLD_ALL].current;
    stats->bytes_slack = stats->allocated_bytes[TNR_WORLD_ALL].current - stats->bytes_live;
}

static void stats_finish(tnr_stats *stats)
{
    stats_derive(stats);
    stats->metadata_bytes = tnri_host_bytes();
    stats->metadata_live_blocks = library_live_blocks();
}

static void stats_begin(tnr_stats *stats)
{
    memset(stats, 0, sizeof(*stats));
    stats->struct_bytes = sizeof(*stats);
}

void tnri_stats_of_pool(tnr_stats *stats, tnr_pool pool)
{
    stats_begin(stats);
    stats_set_pool(stats, pool);
    stats_derive(stats);
}

void tnri_stats_of_arena(tnr_stats *stats, tnri_arena *arena)
{
    stats_begin(stats);
    tnri_arena_enter(arena);
    stats_add_arena(stats, arena);
    tnri_arena_leave(arena);
    stats_derive(stats);
}

void tnri_stats_of_tag(tnr_stats *stats, const tnri_tag *tag, tnri_device *device)
{
    stats_begin(stats);
    for (tnr_pool pool = NULL; (pool = tnri_pool_walk(device, pool)) != NULL;) {
        if (pool->account.tag != tag)
            continue;
        stats_add_pool(stats, pool);
        stats->reserved_bytes.current += atomic_load(&pool->account.reserved_bytes);
        stats->reserved_bytes.peak += atomic_load(&pool->account.reserved_peak_bytes);
        stats->reserved_bytes.allocated += atomic_load(&pool->account.reserved_total_bytes);
        stat_add_flow(&stats->segment, &pool->account.chunks);
        stats_add_held(stats, pool->account.held);
    }
    stats->limit_bytes = atomic_load(&tag->on[device->index].limit_bytes);
    stats_finish(stats);
}

int tnri_stats_has_size(const tnr_stats *stats)
{
    return stats->struct_bytes == sizeof(*stats) ||
           stats->struct_bytes == offsetof(tnr_stats, active); /* 1.0 */
}

void tnri_stats_hand(tnr_stats *to, const tnr_stats *stats)
{
    size_t bytes = to->struct_bytes;
    memcpy(to, stats, bytes);
    to->struct_bytes = bytes;
}

tnr_status tnr_stats_get(tnr_stats *caller, tnr_pool handle, int device_index)
{
    TNRI_CALM_CALL;
    if (caller == NULL || !tnri_stats_has_size(caller))
        return tnri_error(TNR_ERR_INVALID_ARGUMENT,
                          "tnr_stats_get: set stats->struct_bytes to sizeof(tnr_stats).");
    tnri_device *device;
    tnr_pool pool = NULL;
    tnr_status status = handle == NULL ? tnri_library_device(device_index, &device)
                                       : tnri_library_pool_named(handle, device_index, &pool);
    if (status != TNR_OK)
        return status;
    tnr_stats stats;
    stats_begin(&stats);
    if (pool != NULL) {
        stats_set_pool(&stats, pool);
        tnri_pool_drop(pool);
    } else {
        stats_set_device(&stats, device);
    }
    stats_finish(&stats);
    tnri_stats_hand(caller, &stats);
    return TNR_OK;
}

tnr_status tnr_stats_reset_peaks(int device_index)
{
    TNRI_CALM_CALL;
    tnri_device *device;
    tnr_status status = tnri_library_device(device_index, &device);
    if (status != TNR_OK)
        return status;
    for (tnr_pool pool = NULL; (pool = tnri_pool_walk(device, pool)) != NULL;) {
        atomic_store(&pool->account.reserved_peak_bytes,
                     atomic_load(&pool->account.reserved_bytes));
        tnri_held_reset_peaks(pool->account.held);
        tnri_flow_reset_peak(&pool->account.chunks);
        for (tnri_arena *arena = NULL; (arena = tnri_arena_walk(pool, arena)) != NULL;) {
            tnri_arena_enter(arena);
            tnri_arena_reset_peaks(arena);
            tnri_arena_leave(arena);
        }
    }
    atomic_store(&device->reserved_peak_bytes, atomic_load(&device->reserved_bytes));
    tnri_held_reset_peaks(device->held);
    tnri_flow_reset_peak(&device->chunks);
    return TNR_OK;
}

/* ---- validating ----------------------------------------------------------------------------- */

/* Compares what is live in each world, and ever was, with what the two have together. */
static const char *counts_validate(const tnri_arena *arena)
{
    for (int w = 0; w < TNR_WORLD_COUNT; w++) {
        tnri_count live = tnri_arena_live(arena, w);
        tnri_count peak = tnri_arena_peak(arena, w);
        tnri_count ever = tnri_arena_ever(arena, w);
        if (live.blocks > peak.blocks || live.bytes > peak.bytes || live.requested > peak.requested)
            return "more is live than ever was";
        if (live.blocks > ever.blocks || live.bytes > ever.bytes || live.requested > ever.requested)
            return "more is live than was handed out";
    }
    tnri_count all = tnri_arena_live(arena, TNR_WORLD_ALL);
    tnri_count small = tnri_arena_live(arena, TNR_WORLD_SMALL);
    tnri_count large = tnri_arena_live(arena, TNR_WORLD_LARGE);
    if (all.blocks != small.blocks + large.blocks || all.bytes != small.bytes + large.bytes ||
        all.requested != small.requested + large.requested)
        return "what is live in the two worlds is not what is live in both";
    return NULL;
}

/* Bytes of chunks under small blocks' addresses, asleep ones among them. Under the lock. */
static size_t small_mapped(const tnri_arena *arena)
{
    const tnri_world *world = &arena->worlds[TNRI_SMALL];
    size_t bytes = world->bytes_in[TNRI_LIVE] + world->bytes_in[TNRI_FREE] +
                   world->bytes_in[TNRI_RETIRED] + world->bytes_in[TNRI_PARKED];
    for (const tnri_parked *parked = arena->parked; parked != NULL; parked = parked->next)
        if (parked->block->world == world)
            bytes -= parked->evicted_pages << world->space->page_shift;
    for (const tnri_block *stale = arena->stale_first; stale != NULL; stale = stale->next)
        if (stale->holds && stale->world == world)
            bytes += stale->bytes;
    return bytes;
}

/* Checks one arena; adds the bytes of its chunks to `mapped`, and those under small blocks to
 * `small`. */
static const char *arena_validate(tnri_arena *arena, size_t *mapped, size_t *small)
{
    const char *broken = NULL;
    size_t stale = 0;
    tnri_arena_enter(arena);
    for (int i = 0; i < TNRI_WORLDS && broken == NULL; i++) {
        const tnri_world *world = &arena->worlds[i];
        broken = tnri_world_validate(world);
        tnri_count live =
            tnri_arena_live(arena, i == TNRI_SMALL ? TNR_WORLD_SMALL : TNR_WORLD_LARGE);
        uint64_t bare = i == TNRI_LARGE && arena->growable.is_bare; /* has no record */
        if (broken == NULL &&
            (live.blocks != tnri_world_live_count(world) + world->count_in[TNRI_PARKED] + bare ||
             live.bytes != tnri_world_live_bytes(world) + world->bytes_in[TNRI_PARKED] ||
             live.requested != tnri_world_requested(world)))
            broken = "the counters of live blocks disagree with the records";
        *mapped += world->bytes_in[TNRI_LIVE] + world->bytes_in[TNRI_FREE] +
                   world->bytes_in[TNRI_RETIRED] + world->bytes_in[TNRI_PARKED];
    }
    *mapped -= tnri_parked_away_bytes(arena);
    if (broken == NULL)
        broken = tnri_parked_validate(arena);
    if (broken == NULL)
        broken = tnri_grow_validate(arena);
    *mapped += tnri_stale_held_bytes(arena);
    *small += small_mapped(arena);
    for (const tnri_block *block = arena->stale_first; block != NULL; block = block->next)
        stale++;
    if (broken == NULL)
        broken = counts_validate(arena);
    if (broken == NULL && stale != arena->stale_count)
        broken = "the queue of stale mappings disagrees with its count";
    tnri_arena_leave(arena);
    return broken;
}

/* 1 if an arena of the pool has lent all of [base, end). */
static int pool_has_lent(tnr_pool pool, uintptr_t base, uintptr_t end)
{
    int has = 0;
    for (tnri_arena *arena = NULL; !has && (arena = tnri_arena_walk(pool, arena)) != NULL;) {
        tnri_arena_enter(arena);
        for (int i = 0; i < TNRI_WORLDS; i++)
            for (const tnri_block *lent = arena->worlds[i].lent; lent != NULL; lent = lent->next)
                has |= lent->base <= base && end <= tnri_block_end(lent);
        tnri_arena_leave(arena);
    }
    return has;
}

/* 1 if [base, end) is one foreign segment, of the pool. */
static int is_segment(tnr_pool pool, uintptr_t base, uintptr_t end)
{
    const tnri_space *space = pool->account.space;
    if (!tnri_account_is_foreign(&pool->account))
        return 0;
    size_t first = tnri_page_of(space, base), last = tnri_page_of(space, end - 1);
    const tnri_chunk *segment = tnri_page_chunk(space, first);
    return segment != NULL && segment->account == &pool->account && segment->page == first &&
           segment->page + segment->pages == last + 1 && tnri_page_chunk(space, last) == segment;
}

/* A borrowed range of a world; 0 if it has no more. */
static int borrowed_range(tnri_arena *arena, const tnri_world *world, size_t i, uintptr_t *base,
                          uintptr_t *end)
{
    *base = 0;
    *end = 0;
    tnri_arena_enter(arena);
    int is_there = world->spans_own + i < world->spans_count;
    if (is_there) {
        const tnri_block *block = world->span_first[world->spans_own + i];
        *base = block->base;
        while (block->above != NULL)
            block = block->above;
        *end = tnri_block_end(block);
    }
    tnri_arena_leave(arena);
    return is_there;
}

/* What the arenas of a pool have borrowed, its arenas have lent, and nothing else. */
static const char *pool_validate_loans(tnr_pool pool)
{
    size_t lent = 0;
    size_t borrowed = 0;
    uintptr_t base = 0;
    uintptr_t end = 0;
    for (tnri_arena *arena = NULL; (arena = tnri_arena_walk(pool, arena)) != NULL;)
        for (int w = 0; w < TNRI_WORLDS; w++) {
            const tnri_world *world = &arena->worlds[w];
            for (size_t i = 0; borrowed_range(arena, world, i, &base, &end); i++)
                if (!is_segment(pool, base, end) && !pool_has_lent(pool, base, end))
                    return "a stream has addresses that no other has lent";
            if (tnri_account_is_foreign(&pool->account))
                continue;
            tnri_arena_enter(arena);
            lent += world->bytes_in[TNRI_LENT];
            borrowed += world->borrowed_bytes;
            tnri_arena_leave(arena);
        }
    return lent == borrowed ? NULL : "what streams have lent is not what others have borrowed";
}

/* The name of a tag whose sum is not that of its pools; null: there is none. */
static const char *tags_validate(tnri_device *device)
{
    tnri_tag *tag;
    for (size_t i = 0; (tag = tnri_tag_at(i)) != NULL; i++) {
        uint64_t reserved = 0;
        for (tnr_pool pool = NULL; (pool = tnri_pool_walk(device, pool)) != NULL;)
            if (pool->account.tag == tag)
                reserved += atomic_load(&pool->account.reserved_bytes);
        if (reserved != atomic_load(&tag->on[device->index].reserved_bytes))
            return tag->name;
    }
    return NULL;
}

static tnr_status device_validate(tnri_device *device)
{
    size_t mapped = 0;
    size_t small = 0;
    uint64_t reserved = 0;
    uint64_t asleep = 0;
    for (tnr_pool pool = NULL; (pool = tnri_pool_walk(device, pool)) != NULL;) {
        reserved += atomic_load(&pool->account.reserved_bytes);
        asleep += atomic_load(&pool->account.asleep_bytes);
        for (tnri_arena *arena = NULL; (arena = tnri_arena_walk(pool, arena)) != NULL;) {
            const char *broken = arena_validate(arena, &mapped, &small);
            if (broken != NULL) {
                tnri_pool_drop(pool);
                return tnri_error(TNR_ERR_INTERNAL, "device %d, pool \"%s\", stream %p: %s.",
                                  device->index, pool->account.name,
                                  (void *)tnri_arena_handle(arena), broken);
            }
        }
    }
    for (tnr_pool pool = NULL; (pool = tnri_pool_walk(device, pool)) != NULL;) {
        const char *broken = pool_validate_loans(pool);
        if (broken != NULL) {
            tnri_pool_drop(pool);
            return tnri_error(TNR_ERR_INTERNAL,
                              "device %d, pool \"%s\": %s (true only while no other thread "
                              "allocates).",
                              device->index, pool->account.name, broken);
        }
    }
    const char *untagged = tags_validate(device);
    if (untagged != NULL)
        return tnri_error(TNR_ERR_INTERNAL,
                          "device %d: the pools of tag \"%s\" have not what the tag has (true only "
                          "while no other thread allocates).",
                          device->index, untagged);
    if (reserved != atomic_load(&device->reserved_bytes))
        return tnri_error(TNR_ERR_INTERNAL,
                          "device %d: the pools have %llu bytes, the device %llu.", device->index,
                          (unsigned long long)reserved,
                          (unsigned long long)atomic_load(&device->reserved_bytes));
    if (mapped != reserved + asleep)
        return tnri_error(
            TNR_ERR_INTERNAL,
            "device %d: live, binned, free and retired blocks have %zu bytes, but "
            "%llu are reserved or asleep (true only while no other thread allocates).",
            device->index, mapped, (unsigned long long)(reserved + asleep));
    uint64_t held_small = tnri_flow_now(&device->held[TNRI_HELD_SMALL].bytes);
    uint64_t held_large = tnri_flow_now(&device->held[TNRI_HELD_LARGE].bytes);
    if (held_small + held_large != reserved || (asleep == 0 && held_small != small))
        return tnri_error(
            TNR_ERR_INTERNAL,
            "device %d: by the size of blocks, %llu and %llu bytes are reserved; small "
            "blocks have %zu, and %llu are reserved in all (true only while no other "
            "thread allocates).",
            device->index, (unsigned long long)held_small, (unsigned long long)held_large, small,
            (unsigned long long)reserved);
    return tnri_uppers_device(device, TNRI_DEVICE_VALIDATES);
}

tnr_status tnr_validate(int device_index)
{
    TNRI_CALM_CALL;
    if (tnri_library_is_forked())
        return tnri_forked_error();
    if (device_index >= 0 && tnri_device_at(device_index) == NULL)
        return tnri_error(TNR_ERR_INVALID_DEVICE, "there is no device %d.", device_index);
    /* The threads of control and of the group put pools to sleep and give memory back. */
    tnr_status status = TNR_OK;
    (void)tnri_uppers_device(NULL, TNRI_DEVICE_PAUSES);
    tnri_device *device;
    for (int i = 0; (device = tnri_device_nth(i)) != NULL && status == TNR_OK; i++) {
        if ((device_index >= 0 && device->index != device_index) || !atomic_load(&device->in_use))
            continue;
        (void)tnri_uppers_device(device, TNRI_DEVICE_PAUSES);
        status = device_validate(device);
        (void)tnri_uppers_device(device, TNRI_DEVICE_RESUMES);
    }
    (void)tnri_uppers_device(NULL, TNRI_DEVICE_RESUMES);
    return status;
}
