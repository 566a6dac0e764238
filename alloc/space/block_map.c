/* SPDX-License-Identifier: Apache-2.0 */
/* The block map: see block_map.h. */
#include "space/block_map.h"

#include "arena/world.h"
#include "base/assert.h"
#include "base/host_memory.h"

int tnri_block_map_create(tnri_block_map *map, uintptr_t base, size_t bytes)
{
    tnri_assert(base % TNRI_GRANULE_BYTES == 0 && bytes % TNRI_GRANULE_BYTES == 0);
    map->base = base;
    map->bytes = bytes;
    map->granules = tnri_host_reserve((bytes >> TNRI_GRANULE_SHIFT) * sizeof(tnri_granule));
    return map->granules != NULL;
}

void tnri_block_map_destroy(tnri_block_map *map)
{
    tnri_host_unreserve(map->granules, (map->bytes >> TNRI_GRANULE_SHIFT) * sizeof(tnri_granule));
    map->granules = NULL;
}

#define PART_BYTES ((uintptr_t)1 << TNRI_PART_SHIFT)

static tnri_granule *granule_of(const tnri_block_map *map, uintptr_t address)
{
    tnri_assert_hot(address - map->base < map->bytes);
    return &map->granules[(address - map->base) >> TNRI_GRANULE_SHIFT];
}

/* 1 if the record is at its place in [base, base + bytes): its entry must not be overwritten by
 * another block. */
static int block_is_entered(const tnri_block *block, uintptr_t base, size_t bytes)
{
    return block != NULL && (block->state == TNRI_LIVE || block->state == TNRI_BINNED) &&
           block->base >= base && block->base - base < bytes;
}

/* Makes a table of a part, if more than one block begins there. */
static int part_prepare(tnri_map_entry *part, uintptr_t address)
{
    uintptr_t start = atomic_load_explicit(part, memory_order_relaxed);
    if (start & 1)
        return 1;
    tnri_block *resident = (tnri_block *)start;
    uintptr_t base = address & ~(PART_BYTES - 1);
    if (!block_is_entered(resident, base, PART_BYTES) || resident->base == address)
        return 1;
    tnri_slots *slots = tnri_host_alloc(sizeof(*slots));
    if (slots == NULL)
        return 0;
    atomic_store_explicit(&slots->slot[tnri_map_slot(resident->base)], resident,
                          memory_order_relaxed);
    atomic_store_explicit(part, (uintptr_t)slots + 1, memory_order_release);
    return 1;
}

int tnri_block_map_prepare(tnri_block_map *map, uintptr_t address, int many)
{
    tnri_granule *granule = granule_of(map, address);
    uintptr_t start = atomic_load_explicit(&granule->start, memory_order_relaxed);
    if (start & 1)
        return part_prepare(&((tnri_parts *)(start - 1))->part[tnri_map_part(address)], address);
    tnri_block *resident = (tnri_block *)start;
    int entered =
        block_is_entered(resident, address & ~(TNRI_GRANULE_BYTES - 1), TNRI_GRANULE_BYTES);
    if (!many && (!entered || resident->base == address))
        return 1;
    tnri_parts *parts = tnri_host_alloc(sizeof(*parts));
    if (parts == NULL)
        return 0;
    if (entered)
        atomic_store_explicit(&parts->part[tnri_map_part(resident->base)], (uintptr_t)resident,
                              memory_order_relaxed);
    /* The granule's table stays if the part's lacks memory: it says the same as the entry did. */
    atomic_store_explicit(&granule->start, (uintptr_t)parts + 1, memory_order_release);
    return part_prepare(&parts->part[tnri_map_part(address)], address);
}

/* Enters a record in the granule that it begins in. */
static inline tnri_granule *granule_enter(tnri_block_map *map, tnri_block *block)
{
    tnri_granule *granule = granule_of(map, block->base);
    tnri_map_entry *entry = &granule->start;
    uintptr_t start = atomic_load_explicit(entry, memory_order_relaxed);
    if (start & 1) {
        entry = &((tnri_parts *)(start - 1))->part[tnri_map_part(block->base)];
        start = atomic_load_explicit(entry, memory_order_relaxed);
    }
    if (start & 1) {
        tnri_slots *slots = (tnri_slots *)(start - 1);
        atomic_store_explicit(&slots->slot[tnri_map_slot(block->base)], block,
                              memory_order_release);
    } else {
        atomic_store_explicit(entry, (uintptr_t)block, memory_order_release);
    }
    return granule;
}

/* Enters a block in granule `i` of those that it reaches into, or again in the last of them. */
static inline void cover_enter(tnri_granule *granules, size_t i, size_t last, tnri_block *block)
{
    atomic_store_explicit(&granules[TNRI_EITHER(i < last) ? i : last].cover, block,
                          memory_order_release);
}

/* Enters a block in the granules above `granule`, up to its end. */
static inline void granules_cover(tnri_block_map *map, tnri_granule *granule, tnri_block *block)
{
    size_t last = (size_t)(granule_of(map, tnri_block_end(block) - 1) - granule);
    if (last == 0)
        return;
    /* How many there are cannot be predicted; so a few are always written, without a branch. */
    cover_enter(granule, 1, last, block);
    cover_enter(granule, 2, last, block);
    cover_enter(granule, 3, last, block);
    cover_enter(granule, 4, last, block);
    cover_enter(granule, 5, last, block);
    cover_enter(granule, 6, last, block);
    cover_enter(granule, 7, last, block);
    cover_enter(granule, 8, last, block);
    for (size_t i = 9; i <= last; i++)
        atomic_store_explicit(&granule[i].cover, block, memory_order_release);
}

void tnri_block_map_enter(tnri_block_map *map, tnri_block *block)
{
    granules_cover(map, granule_enter(map, block), block);
}

void tnri_block_map_enter_start(tnri_block_map *map, tnri_block *block)
{
    (void)granule_enter(map, block);
}

void tnri_block_map_extend(tnri_block_map *map, tnri_block *block, uintptr_t from)
{
    tnri_assert(from >= block->base && from < tnri_block_end(block));
    if (from == block->base)
        granules_cover(map, granule_of(map, from), block);
    else
        granules_cover(map, granule_of(map, from - 1), block);
}

static void parts_free(tnri_parts *parts)
{
    for (size_t i = 0; i < TNRI_PARTS_COUNT; i++) {
        uintptr_t start = atomic_load_explicit(&parts->part[i], memory_order_relaxed);
        if (start & 1)
            tnri_host_free((tnri_slots *)(start - 1), sizeof(tnri_slots));
    }
    tnri_host_free(parts, sizeof(*parts));
}

static void parts_clear(tnri_parts *parts)
{
    for (size_t i = 0; i < TNRI_PARTS_COUNT; i++) {
        uintptr_t start = atomic_load_explicit(&parts->part[i], memory_order_relaxed);
        if ((start & 1) == 0) {
            atomic_store_explicit(&parts->part[i], 0, memory_order_release);
            continue;
        }
        tnri_slots *slots = (tnri_slots *)(start - 1);
        for (size_t s = 0; s < TNRI_SLOTS_COUNT; s++)
            atomic_store_explicit(&slots->slot[s], NULL, memory_order_release);
    }
}

void tnri_block_map_wipe(tnri_block_map *map, uintptr_t base, size_t bytes)
{
    tnri_assert(base % TNRI_GRANULE_BYTES == 0 && bytes % TNRI_GRANULE_BYTES == 0);
    tnri_granule *granule = granule_of(map, base);
    for (size_t i = 0; i < bytes / TNRI_GRANULE_BYTES; i++) {
        uintptr_t start = atomic_load_explicit(&granule[i].start, memory_order_relaxed);
        if (start == 0 && atomic_load_explicit(&granule[i].cover, memory_order_relaxed) == NULL)
            continue; /* never touched: reading a reserved table costs no memory, writing does */
        if (start & 1)
            parts_free((tnri_parts *)(start - 1));
        atomic_store_explicit(&granule[i].start, 0, memory_order_release);
        atomic_store_explicit(&granule[i].cover, NULL, memory_order_release);
    }
}

void tnri_block_map_clear(tnri_block_map *map, uintptr_t base, size_t bytes)
{
    tnri_assert(base % TNRI_GRANULE_BYTES == 0 && bytes % TNRI_GRANULE_BYTES == 0);
    tnri_granule *granule = granule_of(map, base);
    for (size_t i = 0; i < bytes / TNRI_GRANULE_BYTES; i++) {
        uintptr_t start = atomic_load_explicit(&granule[i].start, memory_order_relaxed);
        if (start & 1)
            parts_clear((tnri_parts *)(start - 1));
        else if (start != 0)
            atomic_store_explicit(&granule[i].start, 0, memory_order_release);
        if (atomic_load_explicit(&granule[i].cover, memory_order_relaxed) != NULL)
            atomic_store_explicit(&granule[i].cover, NULL, memory_order_release);
    }
}

/* Any record that a part leads to; null if none. */
static tnri_block *part_any(const tnri_map_entry *part)
{
    uintptr_t start = atomic_load_explicit(part, memory_order_acquire);
    if ((start & 1) == 0)
        return (tnri_block *)start;
    const tnri_slots *slots = (const tnri_slots *)(start - 1);
    tnri_block *block = NULL;
    for (size_t i = 0; i < TNRI_SLOTS_COUNT && block == NULL; i++)
        block = atomic_load_explicit(&slots->slot[i], memory_order_acquire);
    return block;
}

tnri_block *tnri_block_map_near(const tnri_block_map *map, uintptr_t address)
{
    const tnri_granule *granule = granule_of(map, address);
    uintptr_t start = atomic_load_explicit(&granule->start, memory_order_acquire);
    if (start != 0 && (start & 1) == 0)
        return (tnri_block *)start;
    if (start & 1) {
        const tnri_parts *parts = (const tnri_parts *)(start - 1);
        for (size_t i = 0; i < TNRI_PARTS_COUNT; i++) {
            tnri_block *block = part_any(&parts->part[i]);
            if (block != NULL)
                return block;
        }
    }
    return atomic_load_explicit(&granule->cover, memory_order_acquire);
}

/* `block` if it is live and contains the address, else null. */
static tnri_block *block_if_containing(tnri_block *block, const struct tnri_arena *arena,
                                       uintptr_t address)
{
    if (block != NULL && block->world->arena == arena && block->state == TNRI_LIVE &&
        address >= block->base && address - block->base < block->bytes)
        return block;
    return NULL;
}

/* The block of a part that contains the address. Only entries of dead blocks lie between the
 * address and its own block's start; no slot above `last` can be that. */
static tnri_block *part_containing(const tnri_map_entry *part, const struct tnri_arena *arena,
                                   uintptr_t address, size_t last)
{
    uintptr_t start = atomic_load_explicit(part, memory_order_acquire);
    if ((start & 1) == 0)
        return block_if_containing((tnri_block *)start, arena, address);
    const tnri_slots *slots = (const tnri_slots *)(start - 1);
    tnri_block *block = NULL;
    for (size_t i = last + 1; i-- > 0 && block == NULL;)
        block = block_if_containing(atomic_load_explicit(&slots->slot[i], memory_order_acquire),
                                    arena, address);
    return block;
}

tnri_block *tnri_block_map_containing(const tnri_block_map *map, const struct tnri_arena *arena,
                                      uintptr_t address)
{
    const tnri_granule *granule = granule_of(map, address);
    uintptr_t start = atomic_load_explicit(&granule->start, memory_order_acquire);
    tnri_block *block = NULL;
    if (start & 1) {
        const tnri_parts *parts = (const tnri_parts *)(start - 1);
        unsigned own = tnri_map_part(address);
        block = part_containing(&parts->part[own], arena, address, tnri_map_slot(address));
        for (size_t i = own; i-- > 0 && block == NULL;)
            block = part_containing(&parts->part[i], arena, address, TNRI_SLOTS_COUNT - 1);
    } else {
        block = block_if_containing((tnri_block *)start, arena, address);
    }
    if (block != NULL)
        return block;
    return block_if_containing(atomic_load_explicit(&granule->cover, memory_order_acquire), arena,
                               address);
}
