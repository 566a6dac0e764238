/* SPDX-License-Identifier: Apache-2.0 */
/* Windows that were made: see window_cache.h. */
#include "memory/arena/window_cache.h"

#include <string.h>

#include "base/array.h"
#include "base/heuristics.h"
#include "base/host_memory.h"
#include "memory/arena/world_retired.h"

enum { CACHE_SLOTS = 256 };

struct tnri_window_cache {
    uint32_t first[CACHE_SLOTS], last[CACHE_SLOTS]; /* number plus 1; 0: the slot is empty */
    tnri_cached_window *at;
    size_t count, room;
};

static unsigned cache_slot(size_t bytes)
{
    size_t units = bytes / TNR_ALIGNMENT_DEFAULT;
    return (unsigned)(units ^ units >> 8 ^ units >> 16) % CACHE_SLOTS;
}

tnri_cached_window *tnri_window_cache_find(const tnri_world *world, size_t bytes,
                                           const tnri_cached_window *before)
{
    tnri_window_cache *cache = world->cached_windows;
    if (cache == NULL)
        return NULL;
    uint32_t at = before != NULL ? before->next : cache->first[cache_slot(bytes)];
    while (at != 0 && cache->at[at - 1].bytes != bytes)
        at = cache->at[at - 1].next;
    return at != 0 ? &cache->at[at - 1] : NULL;
}

/* From a record to the one near it that contains the address; null if none of those few does. One
 * that has merged knows the neighbour that it had: records are readable as long as their world. */
static tnri_block *record_near(tnri_block *record, uintptr_t address)
{
    for (int steps = 0; record != NULL && steps < TNRI_RECORDS_NEAR; steps++) {
        int is_used = record->state != TNRI_UNUSED;
        if (is_used && address - record->base < record->bytes)
            return record;
        record = is_used && address >= record->base ? record->above : record->below;
    }
    return NULL;
}

/* A world frees its records and its cached windows together, so an old one may be asked what it is
 * now. */
tnri_block *tnri_window_cache_record(const tnri_world *world, tnri_cached_window *cached)
{
    tnri_block *record = record_near(cached->record, cached->base);
    if (record != NULL) {
        tnri_assert_hot(record == tnri_world_find(world, NULL, cached->base));
        cached->record = record;
        return record;
    }
    cached->record = tnri_world_find(world, NULL, cached->base);
    if (cached->record == NULL)
        cached->bytes = 0;
    return cached->record;
}

static int window_is_noted(const tnri_world *world, uintptr_t base, size_t bytes)
{
    const tnri_cached_window *cached = NULL;
    while ((cached = tnri_window_cache_find(world, bytes, cached)) != NULL)
        if (cached->base == base)
            return 1;
    return 0;
}

void tnri_window_cache_note(tnri_world *world, tnri_block *record, uintptr_t base, size_t bytes)
{
    if (world->cached_windows == NULL)
        world->cached_windows = tnri_host_alloc(sizeof(*world->cached_windows));
    tnri_window_cache *cache = world->cached_windows;
    if (cache == NULL || window_is_noted(world, base, bytes))
        return;
    if (cache->count == TNRI_CACHED_WINDOWS_MAX) { /* a program that does not repeat itself */
        memset(cache->first, 0, sizeof(cache->first));
        cache->count = 0;
    }
    if (!TNRI_ARRAY_GROW(cache->at, cache->room, cache->count + 1))
        return;
    unsigned slot = cache_slot(bytes);
    cache->at[cache->count++] = (tnri_cached_window){base, bytes, record, 0};
    uint32_t number = (uint32_t)cache->count;
    if (cache->first[slot] == 0)
        cache->first[slot] = number;
    else
        cache->at[cache->last[slot] - 1].next = number;
    cache->last[slot] = number;
}

void tnri_window_cache_free(tnri_world *world)
{
    tnri_window_cache *cache = world->cached_windows;
    if (cache == NULL)
        return;
    tnri_host_free(cache->at, cache->room * sizeof(cache->at[0]));
    tnri_host_free(cache, sizeof(*cache));
    world->cached_windows = NULL;
}
