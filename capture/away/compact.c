/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compaction: see <tenure/compact.h>.
 *
 * For all pools of a call together:
 *   1. no thread gets memory from the pools any more, or works on their chunks, as in a sleep
 *   2. all work of the device is waited for; old mappings go
 * and then for one pool after the other:
 *   3. chunks that are free go back
 *   4. the free pages of chunks that are partly in use are cut out of their runs (STALE), so that a
 *      thread that had found its arena before 1 is not served from them
 *   5. chunk by chunk, the least in use first, smaller chunks take the chunk's place (replace.h)
 *   6. what is left of the cuts becomes free again.
 */
#include <tenure/compact.h>
#include <tenure/sleep.h>

#include <stdio.h>
#include <stdlib.h>

#include "api/library.h"
#include "away/pool_set.h"
#include "away/replace.h"
#include "away/sleep_callback.h"
#include "base/array.h"
#include "base/bytes_text.h"
#include "base/prim/calm.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "memory/arena/alias.h"
#include "memory/arena/bins.h"
#include "memory/arena/pinned.h"
#include "memory/arena/world_move.h"
#include "memory/device/segment.h"
#include "memory/device/upper.h"
#include "memory/pool/asleep.h"
#include "miss/stale.h"
#include "order/uses.h"

/* ---- which pools ---------------------------------------------------------------------------- */

/* For a pool that was named. */
static tnr_status pool_check(tnr_pool pool)
{
    tnr_status status =
        tnri_segment_refuse(&pool->account, "it could not come back to where it is");
    if (status != TNR_OK)
        return status;
    if (!tnri_pool_is_awake(pool))
        return tnri_asleep_error(pool);
    const char *why = tnri_pool_stays(pool);
    return why == NULL
               ? TNR_OK
               : tnri_error(TNR_ERR_BUSY, "pool \"%s\" of device %d keeps its memory as it is: %s.",
                            pool->account.name, pool->device->index, why);
}

/* Leaves those that can be compacted in a set of all. */
static void set_filter(tnri_pool_set *set)
{
    size_t kept = 0;
    for (size_t i = 0; i < set->count; i++) {
        if (tnri_pool_stays(set->pools[i]) == NULL)
            set->pools[kept++] = set->pools[i];
        else
            tnri_pool_drop(set->pools[i]);
    }
    set->count = kept;
}

/* ---- what is loose -------------------------------------------------------------------------- */

/* The free pages of a pool's chunks that are in use. */
typedef struct loose_list {
    tnri_loose *at;
    size_t count, room;
    size_t cut; /* of these, which have left their runs */
    int is_starved;
    uint64_t yes, no; /* looks: whether a chunk may be replaced */
} loose_list;

/* 1 if somebody counts on a record's physical memory, or it is not to be copied. */
static int record_stays(const tnri_block *record)
{
    switch ((tnri_state)record->state) {
    case TNRI_FREE:
    case TNRI_BINNED:
        return 0;
    case TNRI_LIVE:
    case TNRI_RETIRED:
        return record->uses != NULL && record->uses->exports > 0;
    default:
        return 1;
    }
}

/* 1 if a chunk, of which the run has a part, can be replaced: all its memory is that of ordinary
 * records. */
static int chunk_is_ordinary(const tnri_space *space, const tnri_block *run,
                             const tnri_chunk *chunk)
{
    uintptr_t base = tnri_page_address(space, chunk->page);
    uintptr_t end = tnri_page_address(space, chunk->page + chunk->pages);
    if (chunk->state != TNRI_CHUNK_READY || chunk->evicted != NULL ||
        atomic_load_explicit(&chunk->aliases, memory_order_relaxed) != 0)
        return 0;
    while (run->base > base && run->below != NULL)
        run = run->below;
    if (run->base > base)
        return 0;
    for (; run != NULL; run = run->above) {
        if (record_stays(run))
            return 0;
        if (tnri_block_end(run) >= end)
            return 1;
    }
    return 0;
}

/* Adds pages of a chunk that may be replaced, and counts them at the chunk. */
static void loose_add(const tnri_pinned *pinned, void *with)
{
    loose_list *list = with;
    tnri_chunk *chunk = pinned->chunk;
    uint64_t look = atomic_load_explicit(&chunk->free_look, memory_order_relaxed);
    if (look != list->yes && look != list->no) {
        const tnri_space *space = pinned->run->world->space;
        look = chunk_is_ordinary(space, pinned->run, chunk) ? list->yes : list->no;
        atomic_store_explicit(&chunk->free_look, look, memory_order_relaxed);
        chunk->kept_until = chunk->pages;
    }
    if (look == list->no || list->is_starved)
        return;
    if (!TNRI_ARRAY_GROW(list->at, list->room, list->count + 1)) {
        list->is_starved = 1;
        return;
    }
    chunk->kept_until -= pinned->pages;
    list->at[list->count++] = (tnri_loose){pinned->run, chunk, pinned->page, pinned->pages, 0};
}

/* Puts cuts back that are still there. Under the arena's lock. */
static void loose_uncut(tnri_loose *loose)
{
    if (loose->stale != NULL)
        tnri_world_uncut(loose->stale->world, loose->stale);
    loose->stale = NULL;
}

/* Cuts what was listed from `before` on out of its runs, or nothing of it. From above: what is left
 * of a run below stays its record. */
static void loose_cut(loose_list *list, size_t before)
{
    size_t i = list->count;
    while (i > before && !list->is_starved) {
        tnri_loose *loose = &list->at[--i];
        tnri_world *world = loose->stale->world;
        if (tnri_world_spares(world, TNRI_CUT_RECORDS)) {
            loose->stale = tnri_world_cut(world, loose->stale, loose->page, loose->pages, 1);
            continue;
        }
        list->is_starved = 1;
        while (++i < list->count)
            loose_uncut(&list->at[i]);
    }
    if (list->is_starved)
        list->count = before;
}

/* Lists and cuts what is loose in an arena. */
static void arena_loosen(loose_list *list, tnri_arena *arena)
{
    size_t before = list->count;
    if (arena->is_guard || arena->growable.base != 0)
        return; /* whole chunks alone are ever free there */
    tnri_arena_enter(arena);
    for (int i = 0; i < TNRI_WORLDS; i++)
        (void)tnri_world_flush(&arena->worlds[i]);
    for (int i = 0; i < TNRI_WORLDS; i++)
        tnri_pinned_walk(&arena->worlds[i], loose_add, list);
    loose_cut(list, before);
    tnri_arena_leave(arena);
}

/* The least in use first; what is of one chunk is side by side, by address. */
static int loose_compare(const void *left, const void *right)
{
    const tnri_loose *a = left;
    const tnri_loose *b = right;
    if (a->chunk_used != b->chunk_used)
        return a->chunk_used < b->chunk_used ? -1 : 1;
    return a->page < b->page ? -1 : a->page > b->page;
}

static tnr_status pool_loosen(loose_list *list, tnr_pool pool)
{
    *list = (loose_list){.yes = tnri_alias_look(), .no = tnri_alias_look()};
    for (tnri_arena *arena = NULL; (arena = tnri_arena_walk(pool, arena)) != NULL;)
        if (!list->is_starved)
            arena_loosen(list, arena);
    if (list->is_starved)
        return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for the list of what is free.");
    for (size_t i = 0; i < list->count; i++)
        list->at[i].chunk_used = list->at[i].chunk->kept_until;
    if (list->count > 0)
        qsort(list->at, list->count, sizeof(list->at[0]), loose_compare);
    return TNR_OK;
}

/* Puts back what is still cut, and returns its bytes. */
static size_t loose_end(loose_list *list, const tnri_space *space)
{
    size_t bytes = 0;
    for (size_t i = 0; i < list->count; i++) {
        if (list->at[i].stale == NULL)
            continue;
        tnri_arena *arena = list->at[i].stale->world->arena;
        bytes += list->at[i].pages << space->page_shift;
        tnri_arena_enter(arena);
        loose_uncut(&list->at[i]);
        tnri_arena_leave(arena);
    }
    tnri_host_free(list->at, list->room * sizeof(list->at[0]));
    return bytes;
}

/* ---- one pool ------------------------------------------------------------------------------- */

/* Gives back chunks that are free. */
static tnr_status pool_give_back(tnr_pool pool)
{
    tnr_status status = TNR_OK;
    for (tnri_arena *arena = NULL; (arena = tnri_arena_walk(pool, arena)) != NULL;) {
        size_t queued, released = 0;
        if (status == TNR_OK)
            status = tnri_stale_release(arena, SIZE_MAX, &queued);
        if (status == TNR_OK)
            status = tnri_stale_drain(arena, 0, 1, &released);
    }
    return status;
}

/* Lists the pool's chunks, and says of each that its contents are nowhere else: should the pool
 * have to sleep, a wake that fails gives none of them back. */
static tnr_status pool_list(tnri_sleeper *sleeper, tnr_pool pool)
{
    tnr_status status = tnri_sleeper_list_chunks(sleeper, pool);
    for (size_t c = 0; status == TNR_OK && c < sleeper->chunks_count; c++)
        sleeper->chunks[c]->kept_until = SIZE_MAX;
    return status;
}

static int is_short(tnr_status status)
{
    return status == TNR_ERR_OUT_OF_MEMORY || status == TNR_ERR_LIMIT;
}

/* Replaces one chunk, by way of the host if the device has no memory for a copy. If that is no way
 * either, the error is the device's. */
static tnr_status chunk_replace(tnri_replacing *self)
{
    tnri_error_aside first;
    tnr_status status = tnri_replace(self);
    if (!is_short(status) || self->is_asleep) /* then the chunk is replaced, and gone */
        return status;
    tnri_error_take(&first);
    tnr_status by_host = tnri_replace_by_host(self);
    if (by_host == TNR_OK || self->is_asleep)
        return by_host;
    tnri_error_restore(&first);
    return status;
}

/* Replaces all chunks of the list, until one cannot be. */
static tnr_status list_replace(loose_list *list, tnr_pool pool, int *is_asleep)
{
    tnr_status status = TNR_OK;
    size_t end;
    for (size_t from = 0; from < list->count && status == TNR_OK; from = end) {
        for (end = from + 1; end < list->count && list->at[end].chunk == list->at[from].chunk;)
            end++;
        tnri_replacing one = {.pool = pool,
                              .sleeper = pool->asleep.sleeper,
                              .loose = &list->at[from],
                              .count = end - from};
        status = chunk_replace(&one);
        *is_asleep = one.is_asleep;
    }
    return status;
}

/* Steps 3 to 6. With *is_asleep the pool has to sleep. */
static tnr_status pool_compact(tnr_pool pool, int *is_asleep)
{
    loose_list list;
    tnri_error_aside failed;
    *is_asleep = 0;
    tnri_sleeper *sleeper = tnri_sleeper_of(pool);
    if (sleeper == NULL)
        return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for the list of what a pool has.");
    tnr_status status = pool_give_back(pool);
    if (status != TNR_OK || tnri_pool_stays(pool) != NULL)
        return status;
    status = pool_loosen(&list, pool);
    if (status == TNR_OK)
        status = pool_list(sleeper, pool);
    if (status == TNR_OK)
        status = list_replace(&list, pool, is_asleep);
    tnri_error_take(&failed);
    size_t left = loose_end(&list, &pool->device->space);
    if (!*is_asleep)
        tnri_sleeper_clear(sleeper, pool->device);
    if (status == TNR_OK)
        return TNR_OK;
    tnri_error_restore(&failed);
    tnri_error_append(" %s of pool \"%s\" stay free in chunks that are in use.", TNRI_BYTES(left),
                      pool->account.name);
    if (*is_asleep)
        tnri_error_append(" The way back was refused too, so the pool is asleep; wake it when the "
                          "driver works again.");
    return status;
}

/* ---- the calls ------------------------------------------------------------------------------ */

/* What a pool holds, or has to get back. */
static uint64_t pool_held(tnr_pool pool)
{
    return atomic_load(&pool->account.reserved_bytes) + atomic_load(&pool->account.asleep_bytes);
}

/* Steps 2 to 6 for all pools, which then are awake, or asleep. In the device's context. Returns the
 * first error. */
static tnr_status set_replace(tnri_pool_set *set, void *with)
{
    size_t *released = with;
    tnri_error_aside failed;
    tnr_status first = tnri_pool_set_drain(set);
    int is_drained = first == TNR_OK;
    size_t refused = 0; /* what the driver did not take before is off the books */
    tnri_error_take(&failed);
    (void)tnri_chunks_release_refused(set->device, &refused);
    for (size_t i = 0; i < set->count; i++) {
        tnr_pool pool = set->pools[i];
        int is_asleep = 0;
        uint64_t before = pool_held(pool);
        uint64_t made = atomic_load(&pool->account.chunks.came);
        tnr_status status = is_drained ? pool_compact(pool, &is_asleep) : TNR_OK;
        if (status != TNR_OK && first == TNR_OK) {
            first = status;
            tnri_error_take(&failed);
        }
        uint64_t after = pool_held(pool);
        *released += before > after ? (size_t)(before - after) : 0;
        pool->asleep.has_other = atomic_load(&pool->account.chunks.came) != made;
        if (pool->asleep.has_other)
            atomic_fetch_add(&pool->asleep.generation, 1);
        if (is_asleep)
            atomic_fetch_add(&pool->asleep.sleeps, 1);
        tnri_pool_set_state(pool, is_asleep ? TNRI_ASLEEP : TNRI_AWAKE);
    }
    if (first != TNR_OK)
        tnri_error_restore(&failed);
    return first;
}

/* Tells what became of the pools that are awake. */
static void set_tell(const tnri_pool_set *set)
{
    for (size_t i = 0; i < set->count; i++)
        if (tnri_pool_is_awake(set->pools[i]))
            tnri_sleep_notify(set->pools[i]->asleep.has_other ? TNR_SLEEP_AWAKE
                                                              : TNR_SLEEP_CANCELLED,
                              set->pools[i]);
}

static tnr_status set_compact(tnri_pool_set *set, size_t *released)
{
    for (size_t i = 0; i < set->count; i++)
        set->pools[i]->asleep.has_other = 0;
    tnr_status status = tnri_pool_set_do(set, set_replace, released);
    set_tell(set);
    return status;
}

static tnr_status pools_compact(size_t *released, int device, const tnri_wanted *wanted)
{
    size_t bytes = 0;
    tnri_device *found;
    tnri_pool_set set;
    if (released != NULL)
        *released = 0;
    tnr_status status = tnri_pool_set_turn_begin(device, wanted->pool, &found);
    if (status != TNR_OK)
        return status;
    (void)tnri_uppers_settle(found, 0);
    status = tnri_pool_set_make(&set, found, wanted);
    if (status == TNR_OK) {
        if (wanted->kind == TNRI_WANTED_ALL)
            set_filter(&set);
        else if (set.count > 0)
            status = pool_check(set.pools[0]);
        if (status == TNR_OK)
            status = set_compact(&set, &bytes);
        tnri_pool_set_free(&set);
    }
    tnri_pool_set_turn_end(found);
    if (released != NULL)
        *released = bytes;
    return status;
}

tnr_status tnr_compact(size_t *released, tnr_pool pool, int device)
{
    TNRI_CALM_CALL;
    return pools_compact(released, device, &(tnri_wanted){TNRI_WANTED_POOL, pool, NULL, 0});
}

tnr_status tnr_device_compact(size_t *released, int device)
{
    TNRI_CALM_CALL;
    return pools_compact(released, device, &(tnri_wanted){TNRI_WANTED_ALL, NULL, NULL, 0});
}
